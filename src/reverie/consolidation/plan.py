"""Plans: changes that a pass proposes, to be made together or not at all."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from datetime import datetime

from reverie.domain.change import Change, Value
from reverie.domain.conversation import SessionState
from reverie.domain.dataclass import dataclass, field
from reverie.domain.record import Record
from reverie.llm.messages import TokenUsage

_LONGEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """One proposed change.

    Attributes:
        edit: Value before and after.
        why: The reason.
        sources: Ids of the records and turns it was made from.
    """

    edit: Change
    why: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A proposal that the checks did not accept.

    Attributes:
        what: The proposal, in words.
        why: The check that refused it, and what would have been lost.
        protects: Ids that nothing else in the plan may touch either.
    """

    what: str
    why: str
    protects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Result of a pass.

    Attributes:
        id: 12 lower-case hexadecimal characters.
        name: The pass, such as `merge`.
        made_at: Time of its making.
        steps: The changes, in the order in which they are to be made.
        refused: Proposals that were not accepted.
        notes: Further notes for a person.
        skipped: Why there was nothing to do; empty when there was.
        failed: Why it could not be completed; empty when it could. Its input is considered again next time.
        cursors: Cursors of the store to set with the changes, such as how far the journal was read.
        usage: Cost of the requests.
    """

    id: str
    name: str
    made_at: datetime
    steps: tuple[PlanStep, ...] = ()
    refused: tuple[Rejection, ...] = ()
    notes: tuple[str, ...] = ()
    skipped: str = ""
    failed: str = ""
    cursors: Mapping[str, str | None] = field(default_factory=dict)
    usage: TokenUsage = field(default_factory=TokenUsage)

    @property
    def edits(self) -> list[Change]:
        """Changes without their reasons."""
        return [step.edit for step in self.steps]

    def lines(self) -> list[str]:
        """Return a line for each change, then for each rejection, note and cost."""
        lines = [
            f"{_describe_action(step.edit)} {step.edit.id}: {_format_preview(step.edit)} ({step.why})"
            for step in self.steps
        ]
        lines += [f"refused: {refusal.what}: {refusal.why}" for refusal in self.refused]
        lines += self.notes
        if self.usage.requests:
            read, written = self.usage.input_tokens, self.usage.output_tokens
            lines.append(f"asked {self.usage.requests} times, {read:,} tokens read, {written:,} written")
        return lines

    def diff(self) -> str:
        """Return every change as a unified diff of its text before and after."""
        parts = []
        for step in self.steps:
            before, after = (_get_text(value).splitlines() for value in (step.edit.before, step.edit.after))
            changed = difflib.unified_diff(before, after, "before", "after", lineterm="")
            parts.append("\n".join([f"# {_describe_action(step.edit)} {step.edit.id}: {step.why}", *changed]))
        return "\n".join(parts)

    def __str__(self) -> str:
        number = len(self.steps)
        state = self.failed or self.skipped or ("1 change" if number == 1 else f"{number} changes")
        return "\n".join([f"{self.name} {self.id}: {state}", *(f"  {line}" for line in self.lines())])

    def __bool__(self) -> bool:
        return bool(self.steps)


def _describe_action(edit: Change) -> str:
    if edit.before is None:
        return "add"
    if edit.after is None:
        return "remove"
    is_archived = getattr(edit.after, "archived_at", None) is not None
    return "archive" if is_archived else "change"


def _format_preview(edit: Change) -> str:
    text = " ".join(_get_text(edit.value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1].rstrip()}…"


def _get_text(value: Value | None) -> str:
    """Return the text of a value; of a session its summary."""
    if value is None:
        return ""
    if isinstance(value, Record):
        category = f" ({value.category})" if value.category else ""
        return f"{value.content}{category}"
    return value.summary if isinstance(value, SessionState) else value.content
