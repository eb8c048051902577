"""Digest of turns that leave the window: a paragraph of `HISTORY.md` and changed lines of `MEMORY.md`.

Autobot's consolidation with safeguards. The paragraph, the notes and the new beginning of the window are one
plan. A line is added, changed or ended only by cited turns: code checks its specifics and words, and the model is asked
once more about all lines. Every other line stays. A failed request changes nothing. Without a model the paragraph is
made by rule, and the notes stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from typing import Any

from reverie.consolidation.plan import Plan, PlanStep, Rejection
from reverie.consolidation.planning.inputs import PassInput, WindowInput
from reverie.consolidation.planning.material import (
    cite_turns,
    format_labelled,
    label_turns,
    split_sentences,
)
from reverie.consolidation.planning.requests import (
    Flow,
    ask_in_parts,
    build_question,
    build_schema,
    iter_objects,
    to_ids,
    to_text,
)
from reverie.consolidation.planning.verification import Claim, format_evidence, verify_claims
from reverie.consolidation.sentences import compute_key
from reverie.context.window import build_history_cursor
from reverie.domain.change import Change
from reverie.domain.conversation import Turn
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import HISTORY, LONGEST_PAGE, MEMORY, Page, Paragraph, build_session_source
from reverie.domain.record import UNTRUSTED
from reverie.domain.similarity.grounding import (
    Evidence,
    collect_evidence,
    extract_content,
    find_injection,
    find_unknown_words,
    find_unsaid,
    is_among,
)
from reverie.domain.similarity.specifics import extract_specifics
from reverie.domain.text import validation
from reverie.domain.text.escaping import escape_line
from reverie.llm.protocol import ModelRequest, TokenUsage

NAME = "digest"
PROMPT = "digest.md"

LEAST_KEPT = 2
MOST_KEPT = 10
"""Messages that stay in the window, at least and at most (Autobot)."""

LONGEST_MESSAGE = 2_000
MOST_TOKENS = 2_000
"""Tokens of an answer: a paragraph, and the lines that change."""

LONGEST_NOTES = 20_000
"""Characters that notes may grow to by a model's word, four times what a prompt shows of them by default. A
person may write more; then a model may only not make it longer."""

_LONGEST_PARAGRAPH = 4_000
_LONGEST_HEADLINE = 160
_MOST_SENTENCES = 3

TRIGGER = defer_regex(
    r"\b(?:decided|conclusion|important|remember|note that|key insight|learned that|will use|should use|agreed)\b",
    re.IGNORECASE,
)
"""Words of sentences that are worth keeping (agentkit's session consolidation)."""

LONGEST_LINE = 500
"""Characters of a line that a model writes."""

_HEADING = defer_regex(r"\s{0,3}#{1,6}\s+\S")
_MARKER = defer_regex(r"\A\s*(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_LABEL = defer_regex(r"L?(\d{1,5})", re.IGNORECASE)
_STAMP = defer_regex(r"\[?\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(?::\d{2})?\]?:?\s*")
_ACTIONS = ("add", "change", "end")
SCHEMA = build_schema(
    {
        "history_entry": str,
        "changes": [{"do": _ACTIONS, "line": str | None, "text": str, "turns": [str]}],
    }
)


def compute_kept_count(memory_window: int) -> int:
    """Return how many messages stay in the window: `min(10, max(2, window // 2))` (Autobot)."""
    return min(MOST_KEPT, max(LEAST_KEPT, memory_window // 2))


def digest(view: PassInput) -> Flow[Plan]:
    """Digest the turns that leave the window."""
    window = view.get_window()
    if window.is_short:
        return view.build_plan(NAME, skipped="no turn is due to leave the window")
    older = window.older
    labels = label_turns(older)
    told = {build_history_cursor(window.state.id): str(window.start)}
    if not labels:
        return view.build_plan(NAME, steps=(window.move(),))
    page = window.page.content if window.page is not None else ""
    patch = PagePatch(page, turns=older, longest=max(LONGEST_NOTES, len(page)), zone=view.zone)
    parts = yield from ask_in_parts(list(labels), lambda names: _build_request(view, patch, names, labels))
    usage = sum((answer.usage for _, answer in parts), TokenUsage())
    entries: list[str] = []
    refused: list[Rejection] = []
    for _, answer in parts:
        if answer.has_no_model:
            steps = _build_steps(view, window, build_headline(older), page)
            notes = ("no model: the paragraph was made by rule",)
            return view.build_plan(NAME, steps=steps, notes=notes, cursors=told)
        entries.append(to_text(answer.fields.get("history_entry")))
        if answer.why or not entries[-1]:
            why = answer.why or "the answer has no history_entry"
            return view.build_plan(NAME, failed=why, usage=usage)
        for proposal in iter_objects(answer.fields.get("changes")):
            change = _parse_change(proposal, labels)
            if why := patch.take(change):
                refused.append(Rejection(what=change.describe(), why=why))
    verdicts = yield from verify_claims(view, [patch.to_claim(change) for change in patch.taken])
    usage += verdicts.usage
    if verdicts.failed:
        return view.build_plan(NAME, failed=verdicts.failed, usage=usage)
    judged = list(zip(patch.taken, verdicts.reasons, strict=True))
    refused += [Rejection(what=change.describe(), why=why) for change, why in judged if why]
    text = patch.apply([change for change, why in judged if not why])
    entry = _select_said(" ".join(entries), older) or build_headline(older)
    steps = _build_steps(view, window, entry, text)
    return view.build_plan(NAME, steps=steps, refused=tuple(refused), cursors=told, usage=usage)


def build_headline(turns: Sequence[Turn]) -> str:
    """Return what turns are about, by rule: the first request, the last answer, and stated decisions.

    Only trusted turns are quoted.

    Args:
        turns: The turns, the earliest first.
    """
    said = [
        turn
        for turn in turns
        if turn.role in {"user", "assistant"} and turn.content.strip() and turn.origin not in UNTRUSTED
    ]
    first = next((turn for turn in said if turn.role == "user"), None)
    if first is None:
        return f"{len(turns)} messages."
    answers = [turn for turn in said if turn.role == "assistant" and turn.position > first.position]
    quoted = [_cut(" ".join(turn.content.split())) for turn in (first, *answers[-1:])]
    stated = (
        sentence for turn in said for sentence in split_sentences(turn.content) if TRIGGER.search(sentence)
    )
    decided = [each for each in map(_cut, dict.fromkeys(stated)) if not any(each in text for text in quoted)]
    parts = [" → ".join(quoted), *decided[:_MOST_SENTENCES]]
    return " ".join(part if part.endswith((".", "!", "?", "…")) else f"{part}." for part in parts)


def stamp_paragraph(text: str, at: datetime) -> str:
    """Return a paragraph of history as one line that begins with its time, and with no other time.

    >>> stamp_paragraph("2025-01-15 10:30: User asked.", datetime(2025, 1, 15, 10, 31))
    '[2025-01-15 10:31] User asked.'
    """
    folded = " ".join(validation.clean_text(text).split())
    return f"[{at:%Y-%m-%d %H:%M}] {_STAMP.sub('', folded, count=1)[:_LONGEST_PARAGRAPH]}".strip()


# -- the request and its answer --------------------------------------------------------------------------


def _build_request(
    view: PassInput, patch: PagePatch, names: Sequence[str], labels: Mapping[str, Turn]
) -> ModelRequest:
    conversation = format_labelled(labels, names, longest=LONGEST_MESSAGE)
    text = view.fill_prompt(PROMPT, memory=patch.format_lines(), conversation=conversation)
    return build_question(text, purpose=NAME, schema=SCHEMA, answer_tokens=MOST_TOKENS)


def _parse_change(proposal: Mapping[str, Any], labels: Mapping[str, Turn]) -> LineChange:
    number = _LABEL.fullmatch("".join(to_ids(proposal.get("line"))[:1]))
    return LineChange(
        do=to_text(proposal.get("do")).lower(),
        line=int(number[1]) - 1 if number else None,
        text=to_text(proposal.get("text")),
        turns=tuple(cite_turns(proposal, labels)),
    )


def _select_said(entry: str, older: Sequence[Turn]) -> str:
    """Return the sentences of a paragraph whose numbers, addresses and code are in the turns."""
    sources = [*(turn.content for turn in older), *(f"{turn.at:%Y-%m-%d}" for turn in older)]
    known = extract_specifics("\n".join(sources))
    kept = []
    for sentence in split_sentences(_STAMP.sub("", entry)):
        new = extract_specifics(sentence).subtract(known, "numbers", "addresses")
        is_said = all(f" {value.casefold()} " in known.wording for value in new)
        if is_said and not find_injection(sentence):
            kept.append(sentence)
    return " ".join(kept)


def _build_steps(view: PassInput, window: WindowInput, entry: str, text: str) -> tuple[PlanStep, ...]:
    """Return the steps that add the paragraph, change the notes and move the window."""
    older = window.older
    names = tuple(turn.id for turn in older)
    has_tool_source = any(turn.origin in UNTRUSTED for turn in older if turn.role != "tool")
    paragraph = Paragraph(
        id=view.new_id(),
        page=HISTORY,
        position=window.position,
        at=older[-1].at,
        content=stamp_paragraph(entry, older[-1].at),
        source=build_session_source(older[-1].session, from_tools=has_tool_source),
    )
    why = f"digest of turns: {len(older)}"
    steps = [PlanStep(edit=Change(before=None, after=paragraph), why=why, sources=names)]
    if text != (window.page.content if window.page is not None else ""):
        edit = Change(before=window.page, after=Page(name=MEMORY, content=text, updated_at=view.now))
        steps.append(PlanStep(edit=edit, why="brought up to date", sources=names))
    return (*steps, window.move())


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_HEADLINE else f"{text[: _LONGEST_HEADLINE - 1].rstrip()}…"


# -- the notes -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChange:
    """One proposed change of a page.

    Attributes:
        do: `add`, `change` or `end`.
        line: Index of the line that is changed or ended; of the line after which one is added; None for the end.
        text: The new line; empty for an ended one.
        turns: The turns that say so.
    """

    do: str
    line: int | None
    text: str
    turns: tuple[Turn, ...]

    def describe(self) -> str:
        """Return the change in a few words."""
        place = "" if self.line is None else f" L{self.line + 1}"
        return f"{self.do}{place}: {escape_line(self.text)[:100]}".rstrip(": ")


class PagePatch:
    """Changes of the lines of one page. Not safe for several threads."""

    def __init__(
        self, content: str, *, turns: Iterable[Turn] = (), longest: int = LONGEST_PAGE, zone: tzinfo = UTC
    ) -> None:
        """Begin without a change.

        Args:
            content: The page as it is.
            turns: The conversation, whose names may be in a line whatever it cites.
            longest: Characters that the page may have in the end.
            zone: Time zone of the speakers.
        """
        self._content = content
        self._lines = content.rstrip("\n").split("\n") if content.strip() else []
        self._known = {_normalize_line(line) for line in self._lines}
        turns = list(turns)
        self._asked = {turn.id: said.content for said, turn in pairwise(turns) if said.role == "assistant"}
        said = collect_evidence(turns)
        self._context = [*said, *(Evidence(text=content, at=each.at) for each in said[:1])]
        self._room = longest - len(content)
        self._zone = zone
        self.taken: list[LineChange] = []

    def format_lines(self) -> str:
        """Return the lines as a question shows them, each with its label."""
        labelled = [f"L{at}: {escape_line(line)}" for at, line in enumerate(self._lines, 1) if line.strip()]
        return "\n".join(labelled) or "(empty)"

    def take(self, change: LineChange) -> str:
        """Add a change to those that are taken, or return why it is refused. A known line is left out."""
        line = _normalize_line(change.text)
        if change.do != "end" and line and line in self._known:
            return ""
        if reason := self._explain_refusal(change):
            return reason
        self.taken.append(change)
        self._known.add(line)
        self._room -= len(change.text)
        return ""

    def to_claim(self, change: LineChange) -> Claim:
        """Return what a change claims, with the turns that it cites."""
        evidence = format_evidence(change.turns, self._asked)
        if change.do == "add" or change.line is None:
            return Claim(kind="fact", text=change.text, evidence=evidence)
        old = _MARKER.sub("", self._lines[change.line], count=1)
        text = change.text if change.do == "change" else f"It no longer holds: {old}"
        return Claim(kind=change.do, text=text, evidence=(f"- earlier line: {escape_line(old)}", *evidence))

    def apply(self, changes: Sequence[LineChange]) -> str:
        """Return the page with some of the changes that were taken."""
        if not changes:
            return self._content
        new: list[list[str]] = [[], *([line] for line in self._lines)]
        for change in changes:
            at = len(self._lines) if change.line is None else change.line + 1
            if change.do == "add":
                below = next((line for line in self._lines[max(at - 1, 0) :] if _MARKER.match(line)), "- ")
                new[at].append(_keep_marker(below, change.text))
            else:
                old = new[at].pop(0)
                new[at][:0] = [_keep_marker(old, change.text)] if change.do == "change" else []
        return "".join(f"{line}\n" for lines in new for line in lines)

    def _collect_said(self, change: LineChange) -> frozenset[str]:
        """Return the words of the cited turns and of the questions that they answer."""
        asked = (self._asked.get(turn.id, "") for turn in change.turns)
        return extract_content("\n".join([*asked, *(each.text for each in collect_evidence(change.turns))]))

    def _explain_refusal(self, change: LineChange) -> str:
        """Return why a change is not accepted; empty if it is."""
        at, old = change.line, ""
        if change.do not in _ACTIONS:
            return "`do` is none of: add, change, end"
        if (at is None and change.do != "add") or (at is not None and not 0 <= at < len(self._lines)):
            return "`line` names no line of the notes"
        if at is not None and change.do != "add":
            old = self._lines[at]
            if any(each.line == at and each.do != "add" for each in self.taken):
                return f"L{at + 1} is changed already"
            if not old.strip() or _HEADING.match(old):
                return f"L{at + 1} is a heading or empty"
        owned = collect_evidence(change.turns, only_owner=True)
        if change.do == "end":
            return _explain_not_ended(old, owned)
        if not 1 <= len(change.text) <= LONGEST_LINE:
            return f"a line has 1 to {LONGEST_LINE} characters"
        if len(change.text) > self._room:
            return "the notes would be too long"
        if not owned:
            return "no turn of the user's is cited, in their own words"
        evidence = collect_evidence(change.turns)
        known = [*evidence, Evidence(text=old, at=evidence[0].at)]
        return (
            find_unsaid(change.text, evidence, context=self._context, replaced=old, zone=self._zone)
            or find_unknown_words(change.text, known, zone=self._zone)
            or (_explain_replacement(old, change.text, self._collect_said(change)) if old else "")
        )


def _explain_not_ended(line: str, owned: Sequence[Evidence]) -> str:
    """Return why the owner's words do not end a line; empty if they may. Whether they do is a question for a model."""
    if find_unknown_words(line, owned):
        return "no turn of the user is about this line"
    said = "\n".join(each.text for each in owned)
    if missing := extract_specifics(line).numbers - extract_specifics(said).numbers:
        return f"no turn of the user has: {', '.join(sorted(missing))}"
    keys = [key for sentence in split_sentences(said) if len((key := compute_key(sentence)).split()) > 2]
    return "the user says this line again" if any(key in compute_key(line) for key in keys) else ""


def _explain_replacement(old: str, new: str, said: frozenset[str]) -> str:
    """Return why a line must not replace another; empty if words are about the line and say what is new in it."""
    before, after = extract_content(old), extract_content(new)
    dropped = sorted(word for word in before if not is_among(word, after))
    added = [word for word in after if not is_among(word, before)]
    if not added:
        return "it says nothing new; a line that is no longer valid is ended"
    if not any(is_among(word, said) for word in before):
        return "the cited turns are not about this line"
    unknown = sorted(word for word in added if word.isalpha() and not is_among(word, said))
    if 2 * len(unknown) > len(added):
        return f"no cited turn says: {', '.join(unknown)}"
    is_other = len(dropped) == len(before) or len(dropped) > len(added) + 1
    return f"it would leave out: {', '.join(dropped)}" if is_other else ""


def _normalize_line(line: str) -> str:
    return " ".join(_MARKER.sub("", line, count=1).lower().split()).rstrip(".")


def _keep_marker(old: str, text: str) -> str:
    """Return a line with the list marker of another, if it has none."""
    marker = _MARKER.match(old)
    is_marked = marker is None or _MARKER.match(text) or _HEADING.match(text)
    return text if is_marked or marker is None else f"{marker.group()}{text}"
