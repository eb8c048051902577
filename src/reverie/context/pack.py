"""Packs: the system text and messages of a prompt, with the decisions on all candidates.

The text has nine sections in a fixed order. After the first one a line says that the rest is data. The first four
(profile, pages, standing records, summary of older turns) seldom change, so a provider's prompt cache can keep them.
Then follow changes since the living page was composed, daily notes, recalled hits, the inventory of working memory, and
the text of another memory (a knowledge graph). Their tokens together never exceed the hard budget. The replayed turns
are separate messages, limited by number, and their tokens are reported separately.

For a message, a daily note is shown only where turns of its exchange are selected, in place of their lines. Without a
message, or for one that asks for the last conversation, the newest notes are shown.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any, Literal, NamedTuple, cast

from reverie.context import gate, render, retrieval
from reverie.context.candidates import (
    CandidateDecision,
    PackInput,
    StaticContext,
    collapse_repetitions,
    compute_candidate_chances,
    judge_candidates,
    to_hit,
)
from reverie.context.render import (
    ABOVE_SOFT,
    TokenBudget,
    count_fitting_lines,
    cut_section,
    estimate_section_cost,
    format_left_out,
)
from reverie.context.window import ReplayWindow, to_chat_messages
from reverie.domain.lazy_dataclass import dataclass, replace
from reverie.domain.living_page import find_shown_ids
from reverie.domain.page import Paragraph
from reverie.domain.record import Record
from reverie.domain.text import escaping, timestamps, validation
from reverie.domain.text.json_values import to_json_object, to_json_value
from reverie.search.hits import Explanation, Hit
from reverie.search.query import parse_query

SectionName = Literal[
    "profile", "pages", "standing", "summary", "changed", "notes", "recalled", "working", "related"
]

MAX_LISTED = 24
"""Most hits for a message that asks for everything of a kind."""

_STABLE: tuple[SectionName, ...] = ("profile", "pages", "standing", "summary")
_NOTICE_TOKENS = estimate_section_cost(escaping.NOTICE)
_LONGEST_EXCERPT = 60
_NOTES_HEADERS = 40  # tokens

NOTHING_KNOWN = "Nothing else about this message is remembered."
"""The line of a prompt when nothing answers the message except, perhaps, the page and the rules above it."""


class PackSection(NamedTuple):
    """One part of the pack's text.

    Attributes:
        name: `profile`, `pages`, `standing`, `summary`, `changed`, `notes`, `recalled`, `working` or `related`.
        text: Its text; never empty.
        tokens: Its counted tokens; at least the estimate for its text.
    """

    name: SectionName
    text: str
    tokens: int


class PackDiagnostics(NamedTuple):
    """The pack in numbers.

    Attributes:
        candidates: Number of candidates.
        selected: Number of selected candidates.
        perhaps_related: Number of those under "Perhaps related".
        already_shown: Left out because the session has shown them for a turn that is still replayed.
        replayed: Left out because they are replayed.
        untrusted: Left out because their origin is a tool, the web or an import.
        repeated: Left out because another line says the same.
        not_holding: Left out because they do not hold now.
        weak: Left out because they hardly answer the message, or what stands above does, or because they are empty.
        over_layer_limit: Left out by the limit of their layer, or of the number.
        over_budget: Left out because they did not fit into the budget.
        tokens: Tokens of each section, and of the line `notice` before the remembered text.
        soft_tokens: The soft budget.
        hard_tokens: The hard budget.
        replayed_messages: Number of replayed messages.
        replayed_tokens: Their tokens, outside the budget.
        cut: Sections that did not fit completely.
        entries_left_out: Lines of the inventory that did not fit.
        orphan_results: Ids of tool results that are not replayed because their call is not.
        unanswered_calls: Number of calls without a stored result.
    """

    candidates: int
    selected: int
    perhaps_related: int
    already_shown: int
    replayed: int
    untrusted: int
    repeated: int
    not_holding: int
    weak: int
    over_layer_limit: int
    over_budget: int
    tokens: Mapping[str, int]
    soft_tokens: int
    hard_tokens: int
    replayed_messages: int
    replayed_tokens: int
    cut: tuple[str, ...]
    entries_left_out: int
    orphan_results: tuple[str, ...]
    unanswered_calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """Memory for the prompt of one turn, with the decisions on all candidates.

    Attributes:
        query: The text that was searched for; empty without a search.
        sections: The parts of the text, in order, without empty ones.
        choices: The decision on every candidate, best first.
        replay: The replayed turns as messages.
        standing: Records in the section `standing`, as hits without a score.
        budget: The budgets.
        notice: The line that the sections after the profile are data and no instructions; empty without such sections.
        cut: Sections that did not fit completely, or not at all.
        entries_left_out: Lines of the inventory that did not fit.
    """

    query: str
    sections: tuple[PackSection, ...]
    choices: tuple[CandidateDecision, ...]
    replay: ReplayWindow
    budget: TokenBudget
    standing: tuple[Hit, ...] = ()
    notice: str = ""
    cut: tuple[SectionName, ...] = ()
    entries_left_out: int = 0

    @property
    def text(self) -> str:
        """The system part of the prompt; may be empty."""
        return "\n\n".join(text for _, text in self.parts)

    @property
    def stable_text(self) -> str:
        """The beginning of `text` that seldom changes, for a provider's prompt cache."""
        return "\n\n".join(text for _, text in self.parts[: self._count_stable()])

    @property
    def changing_text(self) -> str:
        """The rest of `text`: notes, recalled hits, the inventory, and the text of another memory."""
        return "\n\n".join(text for _, text in self.parts[self._count_stable() :])

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """The parts of `text` in order, each as its name and its text; the notice is one of them, as `notice`."""
        parts: list[tuple[str, str]] = [(section.name, section.text) for section in self.sections]
        if self.notice:
            parts.insert(sum(name == "profile" for name, _ in parts), ("notice", self.notice))
        return tuple(parts)

    @property
    def _costs(self) -> dict[str, int]:
        """Cost of each section, and of the notice."""
        costs: dict[str, int] = {section.name: section.tokens for section in self.sections}
        return costs | ({"notice": estimate_section_cost(self.notice)} if self.notice else {})

    def _count_stable(self) -> int:
        """Return the number of stable parts; the notice is one of them before remembered text."""
        stable = [section.name for section in self.sections if section.name in _STABLE]
        return len(stable) + (bool(self.notice) and stable not in ([], ["profile"]))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The replayed turns for a chat API, a new list each time; the system text is not among them."""
        return copy.deepcopy(self.replay.messages)

    @property
    def hits(self) -> list[Hit]:
        """The hits in the prompt, in the order of the candidates, with those that are perhaps related."""
        return [choice.hit for choice in self.choices if choice.is_shown]

    @property
    def tokens(self) -> int:
        """Tokens counted for `text`: at least its estimate, at most `hard_tokens`."""
        return sum(section.tokens for section in self.sections) + estimate_section_cost(self.notice)

    @property
    def soft_tokens(self) -> int:
        """The soft budget."""
        return self.budget.soft_tokens

    @property
    def hard_tokens(self) -> int:
        """The hard budget."""
        return self.budget.hard_tokens

    @property
    def replayed_tokens(self) -> int:
        """Estimated tokens of `messages`; not part of the budget."""
        return self.replay.tokens

    @property
    def diagnostics(self) -> PackDiagnostics:
        """The pack in numbers."""
        count = Counter(choice.verdict for choice in self.choices)
        return PackDiagnostics(
            candidates=len(self.choices),
            selected=count["selected"],
            perhaps_related=count["perhaps related"],
            already_shown=count["already shown"],
            replayed=count["in the replayed turns"],
            untrusted=count["untrusted"],
            repeated=count["says the same"],
            not_holding=count["does not hold now"],
            weak=count["weak"] + count["empty"],
            over_layer_limit=count["over the layer's limit"] + count["over the limit"],
            over_budget=count["over the budget"],
            tokens=self._costs,
            soft_tokens=self.soft_tokens,
            hard_tokens=self.hard_tokens,
            replayed_messages=len(self.replay.messages),
            replayed_tokens=self.replay.tokens,
            cut=self.cut,
            entries_left_out=self.entries_left_out,
            orphan_results=self.replay.orphans,
            unanswered_calls=self.replay.unanswered,
        )

    def explain(self) -> str:
        """Return a report for a person: the budgets, and the decision on every candidate."""
        parts = ", ".join(f"{name} {cost:,}" for name, cost in self._costs.items())
        lines = [
            f"Asked: {render.render_label(self.query, longest=_LONGEST_EXCERPT) or '(nothing)'}",
            f"Memory: {self.tokens:,} of {self.hard_tokens:,} tokens (soft budget {self.soft_tokens:,})"
            + (f": {parts}" if parts else ""),
            f"Replayed messages: {len(self.replay.messages):,}, about {self.replay.tokens:,} tokens "
            "outside that budget",
            *self._list_remarks(),
        ]
        perhaps = [choice for choice in self.choices if choice.verdict == "perhaps related"]
        for title, chosen in (
            ("Selected", [choice for choice in self.choices if choice.verdict == "selected"]),
            *([("Perhaps related", perhaps)] if perhaps else []),
            ("Left out", [choice for choice in self.choices if not choice.is_shown]),
        ):
            lines += ["", f"{title}: {len(chosen)}"]
            for choice in chosen:
                lines += _explain_choice(choice)
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return the pack as JSON values."""
        names = ["query", "text", "stable_text", "messages", "tokens"]
        names += ["soft_tokens", "hard_tokens", "replayed_tokens"]
        candidates = [
            to_json_object(choice, "verdict", "tokens", "recent", "shown_at") | choice.hit.to_dict()
            for choice in self.choices
        ]
        values = {"candidates": candidates, "diagnostics": to_json_value(self.diagnostics._asdict())}
        return {name: getattr(self, name) for name in names} | values

    def _list_remarks(self) -> list[str]:
        remarks = {
            f"Cut to fit the budget: {', '.join(self.cut)}": self.cut,
            f"Working-memory entries not listed: {self.entries_left_out}": self.entries_left_out,
            f"Tool results without their call, not replayed: {', '.join(self.replay.orphans)}": self.replay.orphans,
            f"Tool calls without a result: {self.replay.unanswered}": self.replay.unanswered,
        }
        return [remark for remark, value in remarks.items() if value]


def build(given: PackInput) -> Pack:
    """Return the pack for an input; the same input gives the same pack."""
    budget, now, standing = given.budget, given.now, given.standing
    chances = compute_candidate_chances(given)
    replayed = to_chat_messages(given.replay)
    stable, cut, standing_records = _build_stable_sections(standing, budget, chances)
    pages = next((section.text for section in stable if section.name == "pages"), "")
    standing_ids = find_shown_ids(pages).union(record.id for record in standing_records)
    left = budget.hard_tokens - sum(section.tokens for section in stable) - _NOTICE_TOKENS
    stable += _build_sections(changed=cut_section(standing.changed, min(budget.soft_tokens // 4, left)))
    room = budget.hard_tokens - sum(section.tokens for section in stable) - _NOTICE_TOKENS
    lines = [render.render_entry(entry, now) for entry in given.entries if entry.live(now)]
    sure = min(budget.working, count_fitting_lines(render.WORKING_HEADER, lines, room))
    reserved = estimate_section_cost(_render_inventory(lines, sure, room))

    choices, notes, recalled, used = _recall(given, chances, standing_ids, pages, room - reserved)
    fit = count_fitting_lines(render.WORKING_HEADER, lines, room - used)
    working = _render_inventory(lines, fit, room - used)

    noted = _build_notes_section(notes, stable, now, room - used - estimate_section_cost(working), budget)

    sections = [*stable, *_build_sections(notes=noted.text)]
    if recalled:
        sections.append(PackSection(name="recalled", text=recalled, tokens=used))
    sections += _build_sections(working=working)
    left = budget.hard_tokens - _NOTICE_TOKENS - sum(section.tokens for section in sections)
    whole = render.render_related(given.related)
    related = cut_section(whole, min(given.related_tokens, left))
    sections += _build_sections(related=related)
    if related != whole:
        cut.append("related")
    if noted.is_cut:
        cut.append("notes")
    if fit < len(lines):
        cut.append("working")
    return Pack(
        query=given.query,
        sections=tuple(sections),
        choices=tuple(choices),
        replay=replayed,
        standing=tuple(
            Hit(score=0.0, explanation=Explanation(), record=record) for record in standing_records
        ),
        budget=budget,
        notice=escaping.NOTICE
        if any(section.name != "profile" and section.text != NOTHING_KNOWN for section in sections)
        else "",
        cut=tuple(cut),
        entries_left_out=len(lines) - fit,
    )


def _build_sections(**texts: str) -> list[PackSection]:
    """Return the sections with a text, by their names."""
    return [
        PackSection(name=cast("SectionName", name), text=text, tokens=estimate_section_cost(text))
        for name, text in texts.items()
        if text
    ]


def _recall(
    given: PackInput, chances: Mapping[str, float], standing_ids: frozenset[str], pages: str, room: int
) -> tuple[list[CandidateDecision], Sequence[Paragraph], str, int]:
    """Return the decisions on all candidates, the notes to show, the section of recalled lines and its tokens."""
    is_list = gate.wants_list(given.query)
    judged, is_known = judge_candidates(
        given, chances, is_list=is_list, standing_ids=standing_ids, pages=pages
    )
    judged = collapse_repetitions(
        judged, [to_hit(record) for record in given.standing.records if record.id in standing_ids]
    )
    notes: Sequence[Paragraph] = given.standing.notes
    wants_notes = not given.query or (bool(notes) and gate.wants_last_conversation(given.query))
    is_missing = given.memories and not (is_known or wants_notes) and _asks_for_something(given)
    said = NOTHING_KNOWN if is_missing and estimate_section_cost(NOTHING_KNOWN) <= room else ""
    room -= estimate_section_cost(said)
    limit = MAX_LISTED if is_list and given.recall_limit else given.recall_limit
    limits = replace(given.budget, layer_limits={}) if is_list else given.budget
    choices, used = choose(judged, limits, limit=limit, room=room)
    if not wants_notes:
        most = min(given.budget.notes_tokens, room - used) - _NOTES_HEADERS
        choices, notes = _put_into_notes(choices, notes, most)
    return choices, notes, _render_recalled(choices, said), used + estimate_section_cost(said)


def _asks_for_something(given: PackInput) -> bool:
    """Return whether a message has more than function words, so that an answer can be missing."""
    asked = parse_query(given.query, now=given.now)
    return bool(asked.dates) or any(term.kind != "common" for term in asked.terms)


def _build_stable_sections(
    standing: StaticContext, budget: TokenBudget, chances: Mapping[str, float]
) -> tuple[list[PackSection], list[SectionName], list[Record]]:
    """Return profile, pages, standing records and summary, the names of cut sections, and those records.

    The cuts do not depend on the other sections, so these stay the same from turn to turn. The profile may take the
    whole hard budget. The summary leaves half of the soft budget to recalled hits. Pages and standing records leave all
    of it, but get at least a quarter of what profile and summary leave.
    """
    summary = standing.summary.strip()
    texts: dict[SectionName, str] = {
        "profile": "\n\n".join(text.strip() for text in standing.profile if text.strip()),
        "pages": "\n\n".join(text.strip() for text in standing.pages if text.strip()),
        "summary": f"{render.SUMMARY_HEADER}\n{escaping.escape_block(summary)}" if summary else "",
    }
    left = budget.hard_tokens
    built: dict[SectionName, PackSection] = {}
    cut: list[SectionName] = []
    chosen: list[Record] = []
    for name in ("profile", "summary", "pages", "standing"):
        if name == "summary":
            left = max(0, left - _NOTICE_TOKENS)
        room = left
        if name == "summary":
            room = left - budget.soft_tokens // 2
        elif name == "pages":
            room = min(budget.page_tokens, max(left - budget.soft_tokens, left // 4))
        elif name == "standing":
            room = min(budget.standing_tokens, max(left - budget.soft_tokens, left // 4))
            on_page = find_shown_ids(built["pages"].text) if "pages" in built else ()
            rules = [record for record in standing.records if record.id not in on_page]
            chosen, texts[name] = _choose_standing(rules, room, chances)
        whole = validation.clean_text(texts[name])
        text = cut_section(whole, room)
        cost = estimate_section_cost(text)
        if text:
            built[name] = PackSection(name=name, text=text, tokens=cost)
        if text != whole:
            cut.append(name)
        left -= cost
    return [built[name] for name in _STABLE if name in built], cut, chosen


def _choose_standing(
    records: Sequence[Record], room: int, chances: Mapping[str, float]
) -> tuple[list[Record], str]:
    """Return the records that fit into the room, sorted by creation, and their section.

    If not all of them fit, pinned ones and then those that the message needs most take precedence.
    """
    lines: dict[str, str] = {}

    def measure(record: Record) -> int:
        if record.id not in lines:  # only what may fit is rendered
            lines[record.id] = render.render_record(record)
        return validation.estimate_item_cost(lines[record.id])

    if any(total > room for total in accumulate(map(measure, records))):
        records = sorted(records, key=lambda each: (not each.pinned, -chances.get(each.id, 0.0)))
    room -= estimate_section_cost(f"{render.STANDING_HEADER}\n- … and {len(records)} more")
    chosen, least = [], validation.estimate_item_cost("")
    for record in records:
        if room >= least and (cost := measure(record)) <= room:
            room -= cost
            chosen.append(record)
    if not chosen:
        return [], ""
    chosen.sort(key=lambda record: (record.created_at, record.id))
    rest = [f"- … and {len(records) - len(chosen)} more"] if len(records) > len(chosen) else []
    return chosen, "\n".join([render.STANDING_HEADER, *(lines[record.id] for record in chosen), *rest])


def _build_notes_section(
    notes: Sequence[Paragraph], stable: Sequence[PackSection], now: datetime, room: int, budget: TokenBudget
) -> retrieval.Excerpt:
    """Return the daily notes that fit into the rest of the budget, with the header of memory if pages have none."""
    header = "" if any(section.name == "pages" for section in stable) else f"{retrieval.MEMORY_HEADER}\n\n"
    room = min(room, budget.notes_tokens) - validation.estimate_tokens(header)
    excerpt = retrieval.excerpt_notes(notes, timestamps.to_utc(now, name="now").date(), max(room, 0))
    return excerpt._replace(text=header + excerpt.text) if excerpt.text else excerpt


def _put_into_notes(
    choices: Sequence[CandidateDecision], notes: Sequence[Paragraph], room: int
) -> tuple[list[CandidateDecision], list[Paragraph]]:
    """Return the choices, and the notes of the exchanges that selected turns belong to, in place of their lines.

    A note has question and answer, so nothing is said twice. Notes that cut a selected turn, or that do not fit into
    the room, leave its line where it is.
    """
    by_answer = {note.source: note for note in notes if note.source}
    by_question = {retrieval.read_question(note.content): note for note in notes}
    ids: dict[str, list[str]] = {}
    places: dict[int, Paragraph] = {}
    for place, choice in enumerate(choices):
        turn = choice.hit.turn
        if turn is None or choice.verdict != "selected":
            continue
        text = retrieval.shorten_text(turn.content, retrieval.LONGEST_QUESTION)
        note = by_answer.get(turn.id) or (by_question.get(text) if turn.role == "user" else None)
        if note is not None and retrieval.shorten_text(turn.content, len(turn.content) + 1) in note.content:
            places[place] = note
            ids.setdefault(note.id, []).append(choice.line.removeprefix("- ").partition(" ")[0])
    shown = [
        replace(note, content=f"{note.content} {' '.join(ids[note.id])}") for note in notes if note.id in ids
    ]
    if sum(validation.estimate_item_cost(note.content) for note in shown) > room:
        return list(choices), []
    return [each._replace(is_noted=place in places) for place, each in enumerate(choices)], shown


def choose(
    choices: Sequence[CandidateDecision], budget: TokenBudget, *, limit: int, room: int
) -> tuple[list[CandidateDecision], int]:
    """Return the choices after limits and budget, and the tokens of the shown ones with their headers.

    After an item that does not fit, a shorter one may still fit.

    Args:
        choices: The decisions, best first.
        budget: Soft budget and layer limits.
        limit: Most selected items, without those that are only recent.
        room: Tokens left under the hard budget.
    """
    selected = [place for place, choice in enumerate(choices) if choice.verdict == "selected"]
    over = set([place for place in selected if not choices[place].recent][limit:])
    wanted = [place for place in selected if place not in over]
    wanted += [place for place, choice in enumerate(choices) if choice.verdict == "perhaps related"]
    chosen = [
        each._replace(verdict="over the limit") if n in over else each for n, each in enumerate(choices)
    ]
    by_layer: Counter[str] = Counter()
    headers: set[str] = set()
    used = 0
    for place in wanted:
        choice = chosen[place]
        layer, header = choice.hit.layer, _get_header(choice)
        cost = choice.tokens + (0 if header in headers else estimate_section_cost(header))
        may_use = room if choice.hit.score >= ABOVE_SOFT else min(room, budget.soft_tokens)
        if by_layer[layer] >= budget.layer_limits.get(layer, len(wanted)):
            chosen[place] = choice._replace(verdict="over the layer's limit")
        elif used + cost > may_use:
            chosen[place] = choice._replace(verdict="over the budget")
        else:
            used += cost
            headers.add(header)
            by_layer[layer] += 1
    return chosen, used


def _render_recalled(choices: Sequence[CandidateDecision], said: str) -> str:
    """Return the blocks of recalled lines, after a line about what is not known."""
    blocks = [said] if said else []
    shown = [each for each in choices if each.is_shown and not each.is_noted]
    for header in (render.RECORDS_HEADER, render.TURNS_HEADER, render.PERHAPS_HEADER, render.RECENT_HEADER):
        if lines := [each.line for each in shown if _get_header(each) == header]:
            blocks.append("\n".join([header, *lines]))
    return "\n\n".join(blocks)


def _get_header(choice: CandidateDecision) -> str:
    if choice.recent:
        return render.RECENT_HEADER
    if choice.verdict == "perhaps related":
        return render.PERHAPS_HEADER
    return render.TURNS_HEADER if choice.hit.record is None else render.RECORDS_HEADER


def _render_inventory(lines: Sequence[str], count: int, room: int) -> str:
    """Return the first `count` lines of the inventory and the number of the others; empty if they do not fit."""
    if not lines:
        return ""
    rest = [format_left_out(len(lines) - count)] if count < len(lines) else []
    text = "\n".join([render.WORKING_HEADER, *lines[:count], *rest])
    return text if estimate_section_cost(text) <= room else ""


_REASONS: Mapping[str, str] = {
    "untrusted": "untrusted: a tool, the web or an import said it",
    "does not hold now": "does not hold now: it did before, or will later",
    "weak": "weak: it hardly answers the message, or what stands above it does",
    "empty": "empty: it only calls tools",
}
"""Verdicts as a report explains them; the others are their own reason."""


def _explain_choice(choice: CandidateDecision) -> list[str]:
    hit = choice.hit
    what, excerpt = f"{hit.layer} {hit.kind}", render.render_label(hit.content, longest=_LONGEST_EXCERPT)
    first = f"  {hit.score:.2f}  [{hit.id}] {what}, {choice.tokens} tokens: {excerpt}"
    why = str(hit.explanation)
    if choice.is_shown:
        return [first, f"        {why}"] if why else [first]
    reason = _REASONS.get(choice.verdict, choice.verdict)
    if choice.verdict == "already shown":
        reason = f"already shown at turn {choice.shown_at}, which is still replayed"
    return [first, f"        {reason}" + (f" · {why}" if why else "")]
