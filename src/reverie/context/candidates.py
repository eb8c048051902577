"""Decisions on the candidates of a prompt, before its tokens are considered.

The gate tells how likely each candidate answers the message. A candidate that is in the prompt already, that does not
hold now, or that others said, is left out, and of several that say the same one is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, NamedTuple

from reverie.context import gate, render
from reverie.context.render import TokenBudget
from reverie.context.retrieval import find_repetitions
from reverie.context.window import ShownLedger
from reverie.domain.conversation import Turn
from reverie.domain.entry import Entry
from reverie.domain.filter import has_ended, is_valid_at
from reverie.domain.lazy_dataclass import replace
from reverie.domain.page import MEMORY, Paragraph
from reverie.domain.record import Record
from reverie.domain.text import validation
from reverie.domain.text.dates import DateMention, find_dates
from reverie.domain.text.tokenizer import STOP_WORDS, tokenize
from reverie.search.dates import find_query_dates
from reverie.search.hits import Explanation, Hit
from reverie.search.query import parse_query
from reverie.search.updates import asks_for_past

Verdict = Literal[
    "selected", "perhaps related", "twice", "untrusted", "does not hold now", "empty", "weak", "in every prompt",
    "says the same", "in the replayed turns", "already shown", "over the limit", "over the layer's limit",
    "over the budget",
]  # fmt: skip

MAX_PERHAPS_RELATED = 3  # lines under "Perhaps related"
USUAL_TOKENS = 35  # of a usual line; the worth of a longer one is that much less

_SHORTEST_NAMED = 4  # letters of a content word
_LONGEST_REPLY = 3  # words
_TOLD = 150  # characters of a turn that a paragraph has at least
_SPOKEN = 1.75  # times the worth that a turn or a paragraph needs, since what lasts in it is a record too
_NEVER = 2.0  # a chance that no hit has
_DOUBT = 0.05  # least chance that what stands above is not enough, since a message may ask for several things
_NO_EVIDENCE: tuple[Verdict, ...] = ("untrusted", "does not hold now", "empty")
_ANSWERING: tuple[Verdict, ...] = (
    "selected", "perhaps related", "in every prompt", "in the replayed turns", "already shown",
)  # fmt: skip


class StaticContext(NamedTuple):
    """The texts that seldom change, read by the caller.

    Attributes:
        profile: The existing ones of `soul.md`, `directives.md` and `style.md`, in this order.
        pages: The text of `MEMORY.md` and of the living pages, with headers.
        changed: What has changed since the living pages were composed; empty for nothing.
        records: Records for every prompt, the most important first.
        summary: Summary of the turns before the window; empty for none.
        notes: Lines of the daily notes of the last days, in order within a day.
    """

    profile: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    changed: str = ""
    records: tuple[Record, ...] = ()
    summary: str = ""
    notes: tuple[Paragraph, ...] = ()


class CandidateDecision(NamedTuple):
    """Decision on one candidate.

    Attributes:
        hit: The candidate.
        verdict: `selected`, or the reason for leaving it out.
        line: Its line in the prompt.
        tokens: Tokens of the line.
        recent: Whether it is a candidate because it is recent, since little was found on the first turn.
        shown_at: The position of the replayed turn for which it was already shown; None otherwise.
        is_noted: Whether it is shown as a line of the daily notes, with the answer or the question beside it.
    """

    hit: Hit
    verdict: Verdict
    line: str
    tokens: int
    recent: bool = False
    shown_at: int | None = None
    is_noted: bool = False

    @property
    def is_shown(self) -> bool:
        """Whether its line is in the prompt."""
        return self.verdict in ("selected", "perhaps related")


class PackInput(NamedTuple):
    """Input of `build`.

    Attributes:
        query: The text that was searched for.
        candidates: The hits, best first.
        replay: The turns to replay, the earliest first, such as `trim_window` returns.
        now_at: The position of the user's turn being answered.
        now: The current time, for the countdowns of the inventory.
        budget: Tokens and limits.
        standing: Profile, pages, summary, notes.
        entries: Working memory; expired entries are left out of the pack.
        shown: Ledger of the session's earlier prompts.
        recent: Records for a first turn on which nothing is found.
        related: Text of another memory for the message; escaped like all remembered text.
        related_tokens: Its limit of tokens; it is the last section and takes the rest.
        recall_limit: Most candidates that are selected.
        marks: What has replaced a record, or what a turn says, by id; each a remark after its line.
        memories: Number of records and turns that could be recalled; the prompt of an empty memory does not say that
            nothing is known.
    """

    query: str
    candidates: Sequence[Hit]
    replay: Sequence[Turn]
    now_at: int
    now: datetime
    budget: TokenBudget
    standing: StaticContext = StaticContext()
    entries: Sequence[Entry] = ()
    shown: ShownLedger = ShownLedger()
    recent: Sequence[Record] = ()
    related: str = ""
    related_tokens: int = 0
    recall_limit: int = 12
    marks: Mapping[str, str] = MappingProxyType({})
    memories: int = 0


def compute_candidate_chances(given: PackInput) -> dict[str, float]:
    """Return the chance that each trusted candidate answers the message, by id.

    If the message asks for a time and for nothing else, what was said then, or is about then, answers.
    """
    trusted = [hit for hit in given.candidates if hit.is_trusted]
    computed = gate.compute_chances(given.query, trusted, given.memories)
    chances = {hit.id: chance for hit, chance in zip(trusted, computed, strict=True)}
    if asked := _find_asked_days(given.query, given.now.date()):
        zone, known = given.now.tzinfo, gate.choose_settings(trusted).known
        for hit in trusted:
            said = hit.at.astimezone(zone).date()
            days = [(said, said), *((day.start, day.end) for day in find_dates(hit.content, said))]
            if any(start <= day.end and day.start <= end for start, end in days for day in asked):
                chances[hit.id] = max(chances[hit.id], known)
    return chances


@lru_cache(maxsize=16)
def _find_asked_days(message: str, today: date) -> list[DateMention]:
    """Return the days, not today, of a message with at most one word beside them, such as "What happened on 3 May?"."""
    dates = find_query_dates(message, today=today)
    if not dates:
        return []
    words = gate.list_topics(parse_query(dates.remove_from(message)))
    return [day for day in dates.days if len(words) <= 1 and not day.start <= today <= day.end]


class _Around(NamedTuple):
    """What stands in a prompt beside its candidates; texts are folded words between blanks."""

    standing_ids: frozenset[str]
    pages: str
    replayed_ids: frozenset[str]
    replayed: str

    def find_place(self, hit: Hit) -> Verdict | None:
        """Return where in the prompt a hit stands already; None if it does not."""
        words = f" {_fold_words(hit.content)} "
        if hit.id in self.standing_ids or (
            hit.paragraph is not None and hit.paragraph.page == MEMORY and words in self.pages
        ):
            return "in every prompt"
        is_replayed = hit.turn is not None and hit.turn.id in self.replayed_ids
        if is_replayed or (hit.record is not None and words.strip() and words in self.replayed):
            return "in the replayed turns"
        return None


def judge_candidates(
    given: PackInput,
    chances: Mapping[str, float],
    *,
    is_list: bool,
    standing_ids: frozenset[str],
    pages: str,
) -> tuple[list[CandidateDecision], bool]:
    """Return the decision on every candidate before its tokens are considered, best first, and whether any answers.

    A candidate that is in the prompt already, in whatever part, answers too. Records that no longer hold are allowed if
    the question is about the past, or has a word of theirs that what has replaced them does not have.

    Args:
        given: The input of the pack.
        chances: The chance that each trusted candidate answers, by id.
        is_list: Whether the message asks for everything of a kind.
        standing_ids: Ids of the records in every prompt.
        pages: The section of pages.
    """
    today = given.now.date()
    past = asks_for_past(given.query) or any(day.end < today for day in find_dates(given.query, today))
    trusted = [hit for hit in given.candidates if hit.is_trusted]
    limits = gate.choose_settings(trusted)
    least = limits.answers if _is_answered(given, trusted, chances, limits.known) else _NEVER
    least = limits.related if is_list else least
    replayed_from = given.replay[0].position if given.replay else given.now_at
    around = _Around(
        standing_ids,
        f" {_fold_words(pages)} ",
        frozenset(turn.id for turn in given.replay),
        f" {' ; '.join(_fold_words(turn.content) for turn in given.replay)} ",
    )
    found = sorted(given.candidates, key=lambda hit: -chances.get(hit.id, 0.0))
    ids: set[str] = set()
    is_known = False
    perhaps = 0
    missing = 1.0  # the chance that nothing above answers
    told: dict[int, tuple[str, str]] = {}
    choices: list[CandidateDecision] = []
    for hit, recent in [*((hit, False) for hit in found), *((to_hit(each), True) for each in given.recent)]:
        if recent and (is_known or perhaps or _mentions_message(given)):
            break
        chance = _NEVER if recent else chances.get(hit.id, 0.0)
        shown_at = given.shown.find_seen_position(hit, replayed_from=replayed_from, now_at=given.now_at)
        mark = given.marks.get(hit.id, "")
        line = f"{render.render_hit(hit, given.now)}{mark and f' {mark}'}"
        cost = validation.estimate_item_cost(line)
        mark = mark or (hit.record is not None and render.describe_doubt(hit.record)) or ""
        verdict: Verdict = "twice" if hit.id in ids else _find_obstacle(hit, given, past=past) or "selected"
        if verdict == "selected":
            if chance < limits.related:
                verdict = "weak"
            elif place := around.find_place(hit):
                verdict = place
            elif shown_at is not None:
                verdict = "already shown"
            elif (teller := _find_teller(hit, told)) is not None:
                verdict = "says the same"
                choices[teller] = _add_mark(choices[teller], mark)
            elif compute_worth(hit, chance, missing, cost) < limits.worth or _is_mere_reply(hit):
                verdict = "weak"
            elif chance < least:
                verdict = "perhaps related" if perhaps < MAX_PERHAPS_RELATED else "weak"
                perhaps += verdict == "perhaps related"
        is_known |= chance >= least and not recent and verdict not in _NO_EVIDENCE
        if verdict in _ANSWERING and not (mark or is_list or recent):
            missing *= 1.0 - chance
        choices.append(CandidateDecision(hit, verdict, line, cost, recent, shown_at))
        if hit.paragraph is not None and choices[-1].is_shown:
            told[len(choices) - 1] = f" {_fold_words(line)} ", f" {_fold_words(hit.paragraph.text)} "
        ids.add(hit.id)
    return choices, is_known or _mentions_message(given)


def _is_answered(given: PackInput, hits: Sequence[Hit], chances: Mapping[str, float], known: float) -> bool:
    if max(chances.values(), default=0.0) >= known and _find_asked_days(given.query, given.now.date()):
        return True
    return gate.is_answered(given.query, hits, [chances[hit.id] for hit in hits])


def compute_worth(hit: Hit, chance: float, missing: float, tokens: int) -> float:
    """Return what a line is worth: the chance that it answers and nothing above it does, for `USUAL_TOKENS` tokens.

    Args:
        hit: The hit of the line; a turn or a paragraph is worth less.
        chance: The chance that it answers, 0 to 1.
        missing: The chance that nothing above it answers, 0 to 1; taken for .05 at least.
        tokens: The tokens of the line, 1 or more.
    """
    return chance * max(missing, _DOUBT) * USUAL_TOKENS / tokens / (1.0 if hit.record else _SPOKEN)


def _find_teller(hit: Hit, told: Mapping[int, tuple[str, str]]) -> int | None:
    """Return the place of the shown paragraph that has the words of a record or turn in their order; None for none.

    Of a turn, which is told by all that the paragraph has, the beginning is enough.
    """
    if hit.paragraph is not None:
        return None
    words = f" {_fold_words(hit.content)} "
    begin = words if len(hit.content) <= _TOLD else f" {_fold_words(hit.content[:_TOLD])}"
    for place, (line, whole) in told.items():
        if words in line or (hit.turn is not None and begin in whole):
            return place
    return None


def _add_mark(choice: CandidateDecision, mark: str) -> CandidateDecision:
    """Return a choice whose line says what has replaced a part of it."""
    if not mark or mark in choice.line:
        return choice
    line = f"{choice.line} {mark}" if mark.startswith(("(", "→")) else f"{choice.line} ({mark})"
    return choice._replace(line=line, tokens=validation.estimate_item_cost(line))


def _find_obstacle(hit: Hit, given: PackInput, *, past: bool) -> Verdict | None:
    """Return why a hit can be in no prompt, or in none for this time; None if it can."""
    if not hit.is_trusted:
        return "untrusted"
    if hit.record is not None and not (
        (is_valid_at(hit.record, given.now) and not has_ended(hit.record, given.now))
        or (has_ended(hit.record, given.now) and (past or _tells_more(hit, given)))
    ):
        return "does not hold now"
    return None if hit.content.strip() else "empty"


def _tells_more(hit: Hit, given: PackInput) -> bool:
    """Return whether an ended record has a content word of the message that what has replaced it does not have."""
    mark = given.marks.get(hit.id, "")
    words = _list_named(given.query).intersection(tokenize(hit.content))
    return bool(mark) and not words.issubset(tokenize(mark))


def _is_mere_reply(hit: Hit) -> bool:
    """Return whether a turn is a reply of few words, such as "Will do.", with no word of the message.

    Of a user, it is one word with no word of the message in the turns around, which it would answer.
    """
    evidence = hit.explanation.evidence
    if hit.turn is None or evidence.get("words") or (hit.turn.role == "user" and evidence.get("neighbours")):
        return False
    return len(tokenize(hit.content)) <= (1 if hit.turn.role == "user" else _LONGEST_REPLY)


def _mentions_message(given: PackInput) -> bool:
    """Return whether working memory or a replayed turn before the question has a content word of the message."""
    texts = [
        " ".join([entry.key, entry.category or "", *entry.tags])
        for entry in given.entries
        if entry.live(given.now)
    ]
    texts += [turn.content for turn in given.replay if turn.position < given.now_at]
    named = _list_named(given.query)
    return any(not named.isdisjoint(tokenize(text)) for text in texts)


def _list_named(message: str) -> set[str]:
    return {word for word in tokenize(message) if len(word) >= _SHORTEST_NAMED} - STOP_WORDS


@lru_cache(maxsize=512)  # the pages and the replayed turns are in every prompt
def _fold_words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def collapse_repetitions(
    choices: Sequence[CandidateDecision], standing: Sequence[Hit]
) -> list[CandidateDecision]:
    """Return the choices with one line for several that say the same, in the place of the best of them."""
    places = [place for place, choice in enumerate(choices) if choice.is_shown]
    known = [*standing, *(choice.hit for choice in choices if choice.verdict == "already shown")]
    repetitions = find_repetitions([choices[place].hit for place in places], known)
    collapsed = list(choices)
    order = {place: (place, 0) for place in range(len(choices))}
    for repeated, kept in repetitions.items():
        place = places[repeated]
        collapsed[place] = collapsed[place]._replace(verdict="says the same")
        if kept is None:
            continue
        preferred = places[kept]
        best = collapsed[preferred]
        score = max(collapsed[place].hit.score, best.hit.score)
        collapsed[preferred] = best._replace(hit=replace(best.hit, score=score))
        order[preferred] = min(order[preferred], (place, -1))
    return [collapsed[place] for place in sorted(order, key=order.__getitem__)]


def to_hit(record: Record) -> Hit:
    """Return a record that is recent, and was not found, as a hit."""
    return Hit(
        score=0.0, explanation=Explanation(note="recent; little was found on the first turn"), record=record
    )
