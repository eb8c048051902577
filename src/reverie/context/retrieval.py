"""Retrieval for a prompt: recalled hits, standing records, notes of days, and repetitions among them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from reverie.context import render
from reverie.domain.conversation import ROLES, Role, Turn
from reverie.domain.filter import Filter, has_ended
from reverie.domain.lazy_dataclass import replace
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.living_page import render_for_prompt
from reverie.domain.page import Paragraph, parse_daily_note_day
from reverie.domain.record import ORIGINS, STANDING, UNTRUSTED, Record
from reverie.domain.text import escaping, validation
from reverie.domain.text.same_text import fold_text
from reverie.domain.text.specifics import NEGATIONS
from reverie.search.hits import Hit
from reverie.settings import Settings

if TYPE_CHECKING:
    from reverie.stores.protocol import Store

MEMORY_HEADER = "# Memory"
LONG_TERM_HEADER = "## Long-term Memory"
TODAY_HEADER = "## Today's Notes"
RECENT_HEADER = "## Recent Context"

LONGEST_QUESTION = 200  # characters of the user's words in a note (golemcore)
LONGEST_ANSWER = 300  # characters of the assistant's words in a note (golemcore)

# Largest age of a noted exchange. An import of old chats should not make hundreds of notes; its turns are searchable.
FRESH = timedelta(days=1)

_LINE_END = defer_regex(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_DOUBTED = f" ({escaping.NOT_CONFIRMED})"
_BETWEEN = defer_regex(rf" \| Assistant(?:{re.escape(_DOUBTED)})?: ")
_CUT_MARK = "..."
_LEFT_OUT = "… [earlier notes are left out]"


# -- writing -----------------------------------------------------------------------------------------------


def iterate_exchanges(turns: Sequence[Turn], *, since: int, now: datetime) -> Iterator[tuple[Turn, Turn]]:
    """Yield each final answer of an assistant after the user's turn that it answers.

    Left out are answers that call tools, empty ones, and a second answer to the same turn. So are exchanges of a scope,
    since notes belong to everybody, and exchanges that the owner did not begin.

    Args:
        turns: Consecutive turns of a session, the earliest first.
        since: The position of the first new turn; only answers from there on are yielded.
        now: The current time; answers more than a day away from it are left out.
    """
    question: Turn | None = None
    for turn in turns:
        if turn.role == "user":
            question = turn if turn.origin == "owner" else None
        elif turn.role == "assistant" and not turn.tool_calls and turn.content.strip():
            is_new = turn.position >= since and abs(now - turn.at) <= FRESH
            if question is not None and is_new and not turn.scope:
                yield question, turn
            question = None


def render_exchange(question: str, answer: str, at: datetime, *, is_confirmed: bool = True) -> str:
    r"""Return `[HH:mm] User: … | Assistant: …` on one line, with golemcore's limits.

    An answer that is based on results of tools is marked as not confirmed.

    >>> from datetime import UTC
    >>> render_exchange("How do I\nstart?", "Run it.", datetime(2026, 2, 7, 14, 15, tzinfo=UTC))
    '[14:15] User: How do I start? | Assistant: Run it.'
    """
    user, assistant = shorten_text(question, LONGEST_QUESTION), shorten_text(answer, LONGEST_ANSWER)
    doubt = "" if is_confirmed else _DOUBTED
    return f"[{at:%H:%M}] User: {user} | Assistant{doubt}: {assistant}".rstrip()


def shorten_text(text: str, longest: int) -> str:
    """Return `text` on one line of at most `longest` characters; `...` marks a cut.

    >>> shorten_text("a long word", 8)
    'a lon...'
    """
    line = validation.clean_text(_LINE_END.sub(" ", text.strip())).strip()
    return line if len(line) <= longest else line[: longest - len(_CUT_MARK)] + _CUT_MARK


def is_unconfirmed(line: str) -> bool:
    """Return whether a line of a note marks its answer as not confirmed."""
    between = _BETWEEN.search(line)
    return between is not None and _DOUBTED in between.group()


def read_question(line: str) -> str:
    """Return the user's words of a line of a note."""
    return remove_answer(line).partition(" User: ")[2]


def remove_answer(line: str) -> str:
    """Return a line of a note without the answer."""
    return _BETWEEN.split(line, maxsplit=1)[0]


# -- showing -----------------------------------------------------------------------------------------------


class Excerpt(NamedTuple):
    """A text for a prompt.

    Attributes:
        text: The text; empty if there is none, or no room.
        is_cut: Whether something was left out.
    """

    text: str
    is_cut: bool


def render_memory_section(page: str, blocks: Sequence[str] = (), *, room: int = 1_000_000) -> str:
    """Return the page `MEMORY.md` with its headers and the living pages, as a pack shows it; empty if all are empty.

    Args:
        page: What people and tools have written in `MEMORY.md`.
        blocks: The blocks of living pages, that of the narrowest scope first.
        room: Most tokens; the living pages come first.
    """
    shown: list[str] = []
    left = 4 * room - len(MEMORY_HEADER) - len(LONG_TERM_HEADER) - 8
    for block in filter(None, blocks):
        shown.insert(0, render_for_prompt(block, room=left))
        left -= len(shown[0]) + 2
    plain = escaping.escape_block(page).strip()
    if shown and plain:
        plain = render.cut_section(plain, left // 4)
    parts = [f"{LONG_TERM_HEADER}\n{plain}"] if plain else []
    parts += filter(None, shown)
    return "\n\n".join([MEMORY_HEADER, *parts]) if parts else ""


def excerpt_notes(notes: Sequence[Paragraph], today: date, room: int) -> Excerpt:
    """Return sections with the newest lines of daily notes that fit into `room` tokens, today's first.

    Args:
        notes: Lines of daily notes, in order within a day; days in any order.
        today: The current day; later ones count as today.
        room: Most tokens.
    """
    newest_first = _sort_newest_first(notes, today)
    shown: list[tuple[date, str]] = []
    excerpt, size = Excerpt("", bool(newest_first)), 0
    for day, line in newest_first:
        shown.append((day, escaping.escape_line_start(line)))
        size += len(shown[-1][1])
        if size > 4 * room:
            break
        is_cut = len(shown) < len(newest_first)
        text = _render_notes(shown, today, is_cut=is_cut)
        if render.estimate_section_cost(text) <= room:
            excerpt = Excerpt(text, is_cut)
    return excerpt


def render_context(
    page: str, notes: Sequence[Paragraph], today: date, *, page_room: int, notes_room: int
) -> str:
    """Return the three sections as one text; empty if all are."""
    plain = escaping.escape_block(page).strip()
    long_term = render.cut_section(f"{LONG_TERM_HEADER}\n{plain}", page_room) if plain else ""
    return "\n\n".join(filter(None, (long_term, excerpt_notes(notes, today, notes_room).text)))


def drop_replayed(notes: Sequence[Paragraph], replayed: Collection[str]) -> tuple[Paragraph, ...]:
    """Return the notes without those whose answer is among the replayed ids."""
    return tuple(note for note in notes if not note.source or note.source not in replayed)


def _sort_newest_first(notes: Sequence[Paragraph], today: date) -> list[tuple[date, str]]:
    """Return the lines with their days, the last line of the latest day first."""
    days = [(parse_daily_note_day(note.page), number, note.content) for number, note in enumerate(notes)]
    dated = [(min(day, today), number, line) for day, number, line in days if day is not None]
    return [(day, line) for day, _, line in sorted(dated, reverse=True)]


def _render_notes(newest_first: Sequence[tuple[date, str]], today: date, *, is_cut: bool) -> str:
    days: dict[date, list[str]] = {}
    for day, line in newest_first:
        days.setdefault(day, []).insert(0, line)
    if is_cut:
        days[min(days)].insert(0, _LEFT_OUT)
    parts = []
    if today in days:
        parts.append("\n".join([TODAY_HEADER, *days.pop(today)]))
    earlier = ["\n".join([f"### {day:%Y-%m-%d}", *days[day]]) for day in sorted(days, reverse=True)]
    if earlier:
        parts.append("\n".join([RECENT_HEADER, "\n\n".join(earlier)]))
    return "\n\n".join(parts)


# -- retrieval ------------------------------------------------------------------------------------


LONGEST_QUERY = 2_000  # characters; of a longer message, the first and the last thousand
_POOL = 20  # hits, of which the gate chooses
_MOST_STANDING = 100  # records, of which the most important go into the prompt
_TRUSTED = tuple(origin for origin in ORIGINS if origin not in UNTRUSTED)
_SPEAKING: tuple[Role, ...] = tuple(role for role in ROLES if role != "tool")


class Retriever(Protocol):
    """Search as a session needs it."""

    def recall(self, query: str, *, allowed: Filter, limit: int, exclude: frozenset[str]) -> list[Hit]:
        """Return records, turns and paragraphs that answer the query, best first; none if nothing is relevant.

        Args:
            query: The question, at most 2,000 characters, without control characters.
            allowed: Filter of the result. If it applies to turns or to records only, the others are left out.
            limit: Most hits, 1 or more.
            exclude: Ids of values that must not be found.
        """

    def recent(self, *, allowed: Filter, limit: int) -> list[Record]:
        """Return the records changed last, newest first."""


def retrieve(
    recaller: Retriever,
    settings: Settings,
    query: str,
    scopes: tuple[str, ...],
    *,
    exclude: frozenset[str],
    now: datetime,
) -> list[Hit]:
    """Return the hits among which the prompt chooses, best first, untrusted ones too.

    If untrusted hits fill the first result, trusted ones are searched for separately. So text from the web cannot crowd
    out the others.

    Args:
        recaller: The search.
        settings: The settings.
        query: The question, from `query_from_message`.
        scopes: The visible scopes.
        exclude: Ids of values that must not be found.
        now: The current time.
    """
    if not settings.recall_limit or not query:
        return []
    allowed = Filter(scopes=scopes, alive_at=now)
    hits = recaller.recall(query, allowed=allowed, limit=_POOL, exclude=exclude)
    if len(hits) >= _POOL and sum(hit.is_trusted for hit in hits) < settings.recall_limit:
        for only in (
            replace(allowed, origins=_TRUSTED), replace(allowed, roles=_SPEAKING), replace(allowed, roles=("user",)),
        ):  # fmt: skip
            hits += recaller.recall(query, allowed=only, limit=settings.recall_limit, exclude=exclude)
        hits = sorted({hit.id: hit for hit in hits}.values(), key=lambda hit: -hit.score)
    return hits


def describe_successors(store: Store, hits: Sequence[Hit], now: datetime) -> dict[str, str]:
    """Return what has replaced the records among the hits, and what their turns say, by id.

    A turn is followed to the records that cite it. Each remark is such as `→ changed on 2026-05-01: rent 960`, or says
    which record may have replaced it.

    Args:
        store: Where the records are.
        hits: Records and turns.
        now: The current time.
    """
    turns = frozenset(hit.turn.id for hit in hits if hit.turn is not None)
    names = store.citing(sorted(turns)) if turns else []
    told = [record for record in store.records(names) if not record.archived]
    found = [(hit.record.id, hit.record) for hit in hits if hit.record is not None]
    found += [(turn, record) for record in told for turn in turns.intersection(record.references)]
    ended = {record.replaced_by for _, record in found if record.replaced_by and has_ended(record, now)}
    successors = {record.id: record for record in store.records(sorted(ended))}
    marks: dict[str, str] = {}
    for name, record in found:
        successor = successors.get(record.replaced_by)
        if successor is not None and has_ended(record, now):
            day = record.valid_to or successor.created_at
            marks[name] = (
                f"→ changed on {day:%Y-%m-%d}: {render.quote_text(successor.content, id=successor.id, longest=120)}"
            )
        elif record.id != name and (doubt := render.describe_doubt(record)):
            marks.setdefault(name, f"({doubt})")
    return marks


def retrieve_recent(
    recaller: Retriever,
    settings: Settings,
    scopes: tuple[str, ...],
    hits: Sequence[Hit],
    *,
    standing: frozenset[str],
    now: datetime,
) -> list[Record]:
    """Return the trusted records changed last, for a first turn on which nothing is found.

    Args:
        recaller: The search.
        settings: The settings.
        scopes: The visible scopes.
        hits: The hits for the turn.
        standing: Ids of records in every prompt.
        now: The current time.
    """
    limit = settings.fallback_limit
    if not limit:
        return []
    known = standing.union(hit.id for hit in hits)
    allowed = Filter(scopes=scopes, origins=_TRUSTED, alive_at=now, valid_at=now)
    # Few of the newest are known, and each that is read takes time.
    for most in sorted({min(4 * limit, limit + len(known)), limit + len(known)}):
        records = recaller.recent(allowed=allowed, limit=most)
        recent = [record for record in records if record.id not in known and not has_ended(record, now)]
        if len(recent) >= limit:
            break
    return recent[:limit]


def retrieve_standing(recaller: Retriever, settings: Settings, scopes: tuple[str, ...]) -> list[Record]:
    """Return the trusted records for every prompt, the most important first.

    They are pinned records, preferences and constraints. Of equally important ones the newest is first. The caller
    checks whether they hold now, and can cache the result until the next change.

    Args:
        recaller: The search.
        settings: The settings.
        scopes: The visible scopes.
    """
    if not settings.standing_tokens:
        return []
    allowed = Filter(scopes=scopes, origins=_TRUSTED, headlines=False)
    found = [
        *recaller.recent(allowed=replace(allowed, pinned=True), limit=_MOST_STANDING),
        *recaller.recent(allowed=replace(allowed, kinds=STANDING, pinned=False), limit=_MOST_STANDING),
    ]
    return sorted(found, key=lambda record: (not record.pinned, -record.importance))


def query_from_message(message: str) -> str:
    """Return a message as a query, cleaned; of a long one, the first and the last thousand characters."""
    half = LONGEST_QUERY // 2
    if len(message) > LONGEST_QUERY:
        message = f"{message[: half - 1]}\n{message[-half:]}"
    return validation.clean_text(message).strip()


_LONGEST_COMPARED = 2_000  # characters
_OTHER_SENSE = defer_regex(
    rf"\b(?:{'|'.join(map(re.escape, sorted(NEGATIONS)))}|\w+n't"
    r"|was|were|had|did|used to|war|waren|hatte|era|eran|fue|tenía|était|avait|fut)\b"
)
"""Words that change the sense of a statement beside them."""


def find_repetitions(hits: Sequence[Hit], known: Sequence[Hit] = ()) -> Mapping[int, int | None]:
    """Return the places of hits that say the same as a preferred hit, each with the place of that one.

    Records are preferred, then insights, paragraphs, turns and headlines; of one type the longer one, then the first.
    The place is None for a hit in `known`. Hits that are too long are not compared. A turn is also a repetition of a
    record that was made from it.

    Args:
        hits: The hits, best first.
        known: Hits that are already in the prompt.
    """
    places: list[tuple[int | None, Hit, str]] = [(None, hit, _fold_hit(hit)) for hit in known]
    repetitions: dict[int, int | None] = {}
    for place, new in sorted(enumerate(hits), key=lambda each: (_get_rank(each[1]), -len(each[1].content))):
        text = _fold_hit(new)
        for other, old, whole in places:
            if _is_told_by(new, old) or (text and text in whole and _says_the_same(new, old, text, whole)):
                repetitions[place] = other
                break
        else:
            places.append((place, new, text))
    return repetitions


def _fold_hit(hit: Hit) -> str:
    """Return the folded text of a hit between blanks; empty if it is not compared."""
    text = hit.content if hit.paragraph is None else hit.paragraph.text
    return f" {_fold(text)} " if 0 < len(text) <= _LONGEST_COMPARED else ""


_fold = lru_cache(maxsize=512)(fold_text)  # rules and the page are in every prompt


def _get_rank(hit: Hit) -> int:
    if hit.record is not None:  # no other hit is left out for a headline
        return 4 if hit.record.is_headline else int(hit.record.kind == "insight")
    return 2 if hit.paragraph is not None else 3


def _is_told_by(turn: Hit, record: Hit) -> bool:
    """Return whether a record was made from a turn, so that it says the turn's facts in fewer words."""
    return turn.turn is not None and record.record is not None and turn.turn.id in record.record.references


def _says_the_same(new: Hit, old: Hit, text: str, whole: str) -> bool:
    """Return whether no word beside a text that another one contains changes its sense.

    Turns must also have the same speaker, since "I like tea" of two people are two facts.
    """
    if new.turn and old.turn and (new.turn.role, new.turn.speaker) != (old.turn.role, old.turn.speaker):
        return False
    before, _, after = whole.partition(text)
    return _OTHER_SENSE.search(f"{before} {after}") is None
