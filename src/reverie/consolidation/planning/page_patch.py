"""Patches of a page: lines that a model adds, changes or ends, each with the turns that say so.

A line is accepted if its specifics and many of its words are in the cited turns, or in the line that it changes.
A line is ended only by a turn of the owner that is about it. Every other line stays as it is. Whether the turns mean
what a line says is a question for a model (`verification`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from itertools import pairwise
from typing import Any, Literal, get_args

from reverie.consolidation.planning.material import cite_turns
from reverie.consolidation.planning.replies import iter_objects, to_ids, to_text
from reverie.consolidation.planning.requests import TEXT, TEXTS, build_choice, build_list
from reverie.consolidation.planning.verification import Claim, format_evidence
from reverie.domain.conversation import Turn
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import LONGEST_PAGE
from reverie.domain.similarity.grounding import (
    Evidence,
    collect_evidence,
    extract_content,
    find_unknown_words,
    find_unsaid,
    is_among,
)
from reverie.domain.text.escaping import escape_line

Action = Literal["add", "change", "end"]

CHANGES_SCHEMA = build_list(
    do=build_choice(*get_args(Action)), line={"type": ["string", "null"]}, text=TEXT, turns=TEXTS
)
"""JSON schema of the changes in an answer."""

ENDED_SHARE = 0.2
"""Share of a line's words that the owner's turns must have to end it."""

LONGEST_LINE = 500
"""Characters of a line that a model writes."""

_HEADING = defer_regex(r"\s{0,3}#{1,6}\s+\S")
_MARKER = defer_regex(r"\A\s*(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_LABEL = defer_regex(r"L?(\d{1,5})", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChange:
    """One proposed change of a page.

    Attributes:
        do: What is done.
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
    """Patch of one page. Not safe for several threads."""

    def __init__(
        self, content: str, *, turns: Iterable[Turn] = (), longest: int = LONGEST_PAGE, zone: tzinfo = UTC
    ) -> None:
        """Begin a patch.

        Args:
            content: The page as it is.
            turns: The conversation, whose names may stand in a line whatever it cites.
            longest: Characters that the page may have in the end.
            zone: Where the speakers' days begin and end.
        """
        self.lines: Sequence[str] = content.rstrip("\n").split("\n") if content.strip() else []
        self._known = {_normalize_line(line) for line in self.lines}
        turns = list(turns)
        self._before = {turn.id: before for before, turn in pairwise(turns)}
        context = collect_evidence(turns)
        self._context = [
            *context,
            *(Evidence(text=line, at=each.at) for each in context[:1] for line in self.lines),
        ]
        self._room = longest - len(content)
        self._zone = zone
        self._replaced: dict[int, str | None] = {}
        self._added: dict[int, list[str]] = {}
        self.taken: list[LineChange] = []

    def format_lines(self) -> str:
        """Return the lines as a question shows them, each with its label."""
        labelled = [f"L{at + 1}: {escape_line(line)}" for at, line in enumerate(self.lines) if line.strip()]
        return "\n".join(labelled) or "(empty)"

    def take(self, change: LineChange) -> str:
        """Add a change to the patch, or return why it is refused."""
        if change.do != "end" and change.text and _normalize_line(change.text) in self._known:
            return ""  # the page says it already
        if reason := self._explain_refusal(change):
            return reason
        if change.do == "end":
            self._replaced[_get_line(change)] = None
        elif change.do == "change":
            old = self.lines[_get_line(change)]
            self._replaced[_get_line(change)] = _keep_marker(old, change.text)
        else:
            at = len(self.lines) - 1 if change.line is None else change.line
            below = next((line for line in self.lines[max(at, 0) :] if _MARKER.match(line)), "- ")
            self._added.setdefault(at, []).append(_keep_marker(below, change.text))
        self.taken.append(change)
        self._known.add(_normalize_line(change.text))
        self._room -= len(change.text)
        return ""

    def to_claim(self, change: LineChange) -> Claim:
        """Return what a change claims, with the turns that it cites."""
        before = {
            turn.id: self._before[turn.id].content
            for turn in change.turns
            if turn.id in self._before and self._before[turn.id].role == "assistant"
        }
        evidence = format_evidence(change.turns, before)
        if change.do == "add":
            return Claim(kind="fact", text=change.text, evidence=evidence)
        old = _MARKER.sub("", self.lines[_get_line(change)], count=1)
        text = change.text if change.do == "change" else f"It no longer holds: {old}"
        return Claim(kind=change.do, text=text, evidence=(f"- earlier line: {escape_line(old)}", *evidence))

    def apply(self) -> str:
        """Return the page with the changes that were taken."""
        lines = list(self._added.get(-1, ()))
        for at, line in enumerate(self.lines):
            now = self._replaced.get(at, line)
            lines += [] if now is None else [now]
            lines += self._added.get(at, ())
        return "".join(f"{line}\n" for line in lines)

    def __bool__(self) -> bool:
        return bool(self._replaced or self._added)

    def _explain_refusal(self, change: LineChange) -> str:
        if change.do not in get_args(Action):
            return "`do` is none of: add, change, end"
        if change.do != "add" and change.line is None:
            return "`line` names no line of the notes"
        if change.line is not None and not 0 <= change.line < len(self.lines):
            return "`line` names no line of the notes"
        if change.do != "add" and (reason := self._explain_untouchable(_get_line(change))):
            return reason
        if change.do == "end":
            owned = collect_evidence(change.turns, only_owner=True)
            is_about = not find_unknown_words(self.lines[_get_line(change)], owned, least=ENDED_SHARE)
            return "" if is_about else "no turn of the user is about this line"
        return self._explain_text(change)

    def _explain_untouchable(self, at: int) -> str:
        if at in self._replaced:
            return f"L{at + 1} is changed already"
        line = self.lines[at]
        return "" if line.strip() and not _HEADING.match(line) else f"L{at + 1} is a heading or empty"

    def _explain_text(self, change: LineChange) -> str:
        if not change.text or len(change.text) > LONGEST_LINE:
            return f"a line has 1 to {LONGEST_LINE} characters"
        if len(change.text) > self._room:
            return "the notes would be too long"
        evidence = collect_evidence(change.turns)
        if not collect_evidence(change.turns, only_owner=True):
            return "no turn of the user's is cited, in their own words"
        if change.do == "add":
            return self._find_unsaid(change.text, evidence)
        old = self.lines[_get_line(change)]
        questions = [self._before[turn.id] for turn in change.turns if turn.id in self._before]
        return self._find_unsaid(change.text, evidence, replaced=old) or _explain_replacement(
            old, change.text, [*collect_evidence(questions), *evidence]
        )

    def _find_unsaid(self, text: str, evidence: Sequence[Evidence], *, replaced: str = "") -> str:
        kept = [Evidence(text=replaced, at=evidence[0].at)] if replaced else []
        return find_unsaid(
            text, evidence, context=self._context, replaced=replaced, zone=self._zone
        ) or find_unknown_words(text, [*evidence, *kept], zone=self._zone)


def _explain_replacement(old: str, new: str, evidence: Sequence[Evidence]) -> str:
    """Return why a line must not replace another, in words; empty if each dropped word has a replacement."""
    before, after = extract_content(old), extract_content(new)
    said = extract_content("\n".join(each.text for each in evidence))
    dropped = sorted(word for word in before if not is_among(word, after))
    added = [word for word in after if not is_among(word, before)]
    if not added:
        return "it says nothing new; a line that is no longer valid is ended"
    if not any(is_among(word, after) and is_among(word, said) for word in before):
        return "the cited turns are not about this line"
    if len(dropped) == len(before) or len(dropped) > len(added) + 1:
        return f"it would leave out: {', '.join(dropped)}"
    return ""


def parse_changes(value: Any, labels: Mapping[str, Turn]) -> list[LineChange]:
    """Return the changes in an answer, without entries that are no objects.

    Args:
        value: What the answer has for its changes.
        labels: The turns by the labels under which the question shows them.
    """
    return [_parse_change(each, labels) for each in iter_objects(value)]


def _parse_change(proposal: Mapping[str, Any], labels: Mapping[str, Turn]) -> LineChange:
    number = _LABEL.fullmatch("".join(to_ids(proposal.get("line"))[:1]))
    return LineChange(
        do=to_text(proposal.get("do")).lower(),
        line=int(number[1]) - 1 if number else None,
        text=to_text(proposal.get("text")).strip(),
        turns=tuple(cite_turns(proposal, labels)),
    )


def _get_line(change: LineChange) -> int:
    assert change.line is not None
    return change.line


def _normalize_line(line: str) -> str:
    return " ".join(_MARKER.sub("", line, count=1).lower().split()).rstrip(".")


def _keep_marker(old: str, text: str) -> str:
    """Return a line with the list marker of another, where it has none."""
    marker = _MARKER.match(old)
    return (
        text if marker is None or _MARKER.match(text) or _HEADING.match(text) else f"{marker.group()}{text}"
    )
