"""Plans: changes that a pass proposes, to be made together or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from reverie.domain.change import Change
from reverie.domain.conversation import SessionState
from reverie.domain.record import Record
from reverie.domain.text.timestamps import to_microseconds
from reverie.llm.protocol import TokenUsage

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
    """

    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Result of a pass.

    Attributes:
        id: 12 lower-case hexadecimal characters.
        name: The pass, such as `merge`.
        made_at: Time of its making.
        steps: The changes, in the order in which they are to be made.
        proposals: Changes that wait for the owner's decision, each by itself, if the others are made.
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
    proposals: tuple[PlanStep, ...] = ()
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
        """Return a line for each change, then for each proposal, rejection, note and cost."""
        named = [(_describe_action(step.edit), step) for step in self.steps]
        named += [("propose", step) for step in self.proposals]
        lines = [f"{do} {step.edit.id}: {_format_preview(step.edit)} ({step.why})" for do, step in named]
        lines += [f"refused: {refusal.what}: {refusal.why}" for refusal in self.refused]
        lines += self.notes
        if self.usage.requests:
            read, written = self.usage.input_tokens, self.usage.output_tokens
            cost = f", about ${self.usage.cost:.4f}" if self.usage.cost else ""
            lines.append(
                f"asked {self.usage.requests} times, {read:,} tokens read, {written:,} written{cost}"
            )
        return lines

    def __str__(self) -> str:
        number = len(self.steps) + len(self.proposals)
        state = self.failed or self.skipped or ("1 change" if number == 1 else f"{number} changes")
        return "\n".join([f"{self.name} {self.id}: {state}", *(f"  {line}" for line in self.lines())])

    def __bool__(self) -> bool:
        return bool(self.steps or self.proposals)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyResult:
    """Result of applying a plan.

    Attributes:
        plan: The plan.
        batch: Number of its first change in the journal, by which it can be undone; None without a change.
        changes: How many changes it made.
    """

    plan: Plan
    batch: int | None
    changes: int


def _describe_action(edit: Change) -> str:
    if edit.before is None or edit.after is None:
        return "add" if edit.before is None else "remove"
    return "archive" if getattr(edit.after, "archived_at", None) is not None else "change"


def _format_preview(edit: Change) -> str:
    """Return the beginning of the text of the changed thing; of a session that of its summary."""
    value = edit.value
    text = value.summary if isinstance(value, SessionState) else getattr(value, "content", "")
    category = f" ({value.category})" if isinstance(value, Record) and value.category else ""
    text = " ".join(f"{text}{category}".split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1].rstrip()}…"


# -- groups of steps -------------------------------------------------------------------------------------


def group_steps(steps: Sequence[PlanStep]) -> list[tuple[PlanStep, ...]]:
    """Return the steps in groups: those that share a changed thing, as an addition and its archived sources."""
    changed = {step.edit.id for step in steps}
    leader = {name: name for name in changed}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for step in steps:
        for source in changed.intersection(step.sources):
            leader[find(source)] = find(step.edit.id)
    groups: dict[str, list[PlanStep]] = {}
    for step in steps:
        groups.setdefault(find(step.edit.id), []).append(step)
    return [tuple(group) for group in groups.values()]


def select_groups(
    steps: Sequence[PlanStep], is_wanted: Callable[[Sequence[PlanStep]], bool]
) -> tuple[PlanStep, ...]:
    """Return the steps of the wanted groups, in their order."""
    wanted = {id(step) for group in group_steps(steps) if is_wanted(group) for step in group}
    return tuple(step for step in steps if id(step) in wanted)


def build_group_key(steps: Iterable[PlanStep]) -> str:
    """Return what a group is recognised by: the things it rests on, and when they last changed."""
    changed = [step.edit.before for step in steps if step.edit.before is not None]
    names = {
        f"{each.id} {to_microseconds(each.updated_at) if isinstance(each, Record) else ''}"
        for each in changed
    }
    names = names.union(*(step.sources for step in steps)) or {step.edit.id for step in steps}
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:16]
