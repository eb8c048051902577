"""Values that a pass reads. The caller gathers them at one moment; a pass reads nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from importlib.resources import files
from typing import Any

from reverie.consolidation.plan import Plan, PlanStep
from reverie.consolidation.planning.material import Signal
from reverie.domain.change import Change
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import Page
from reverie.domain.record import Origin, Record
from reverie.domain.text.ids import NewId, generate_id
from reverie.llm.protocol import TokenUsage
from reverie.repositories.records import NewRecord

_PLACE = defer_regex(r"\{\{(\w+)\}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowInput:
    """A session whose window is to be shortened.

    Attributes:
        state: The session.
        older: Turns that leave the window, the earliest first.
        start: Position of the first turn that stays.
        page: The long-term notes, for a digest; None where there are none yet.
        position: Position of the next paragraph of `HISTORY.md`, for a digest.
    """

    state: SessionState
    older: tuple[Turn, ...]
    start: int
    page: Page | None = None
    position: float = 1.0

    @property
    def is_short(self) -> bool:
        """Whether no turn is to leave it."""
        return not self.older or self.start <= self.state.window_start

    def move(self, *, why: str = "", **changes: Any) -> PlanStep:
        """Return the step that moves the beginning of the window, with further changes of the session."""
        return PlanStep(
            edit=Change(before=self.state, after=replace(self.state, window_start=self.start, **changes)),
            why=why or f"turns that leave the window: {len(self.older)}",
            sources=tuple(turn.id for turn in self.older),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedFact:
    """A record that the model wrote down from a conversation, live or held.

    Attributes:
        record: The record.
        batch: Number of the first change in the transaction that added it.
        turns: The turns that it cites.
        before: By the ids of turns, what the assistant had said just before them.
        displaced: The changes that archived or ended other records in its favour.
    """

    record: Record
    batch: int
    turns: tuple[Turn, ...]
    before: Mapping[str, str]
    displaced: tuple[Change, ...] = ()


def _plan_nothing(records: Sequence[NewRecord | Record]) -> Sequence[Change]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PassInput:
    """Input of a pass. Which fields are filled depends on the pass.

    Attributes:
        now: The moment.
        until: Number of the last journal entry that was read.
        records: Live records, in any order, without headlines.
        headlines: Live headlines, in any order.
        ended: Ids of archived headlines.
        refused: Versions of records whose headlines were refused for good.
        recalled: Ids of records that were ever put into a prompt.
        dropped: Number of records archived as noise on each of the last thirty days, by the day in ISO form.
        changed: Ids of records that were added or changed since the last cycle. Only these are reconsidered.
        turns: Turns since the last cycle, the earliest first.
        earlier: Turns of the week before, the earliest first. They were considered already, and still count
            as evidence.
        injected: Texts that Reverie itself put into the prompts of these turns.
        signals: Signals since the last cycle, the earliest first.
        proposals: Records that were proposed and that the owner has not accepted.
        drafts: Draft records in the order in which they were saved, each with the number of its journal
            entry.
        remembered: Records that the model wrote down from conversations since the last cycle, in that order.
        categories: Categories in use by scope, the most frequent first.
        window: The session that a window pass is about.
        output: Output of a step of work, for `extract`.
        step: Name of that step, such as `GOAL:deploy`.
        origin: Whose word the output is.
        scope: Scope of the records that are extracted from it.
        zone: Time zone of the speakers.
        promotion_min_confidence: Least confidence of a record that is promoted, 0 to 1.
        prompts: The user's own prompts by file name, instead of those that ship.
        new_id: Generator of ids.
        plan_records: Returns the changes that saving records would make.
    """

    now: datetime
    until: int = 0
    records: tuple[Record, ...] = ()
    headlines: tuple[Record, ...] = ()
    ended: frozenset[str] = frozenset()
    recalled: frozenset[str] = frozenset()
    dropped: Mapping[str, int] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    changed: frozenset[str] = frozenset()
    turns: tuple[Turn, ...] = ()
    earlier: tuple[Turn, ...] = ()
    injected: tuple[str, ...] = ()
    signals: tuple[Signal, ...] = ()
    proposals: tuple[Record, ...] = ()
    drafts: tuple[tuple[Record, int], ...] = ()
    remembered: tuple[RememberedFact, ...] = ()
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    window: WindowInput | None = None
    output: str = ""
    step: str = ""
    origin: Origin = "agent"
    scope: str = ""
    zone: tzinfo = UTC
    promotion_min_confidence: float = 0.75
    prompts: Mapping[str, str] = field(default_factory=dict)
    new_id: NewId = generate_id
    plan_records: Callable[[Sequence[NewRecord | Record]], Sequence[Change]] = _plan_nothing

    def get_window(self) -> WindowInput:
        """Return the session that a window pass is about."""
        assert self.window is not None
        return self.window

    def build_plan(self, name: str, **fields: Any) -> Plan:
        """Return a plan of a pass, made now; the arguments are those of `Plan`."""
        return Plan(id=self.new_id(), name=name, made_at=self.now, **fields)

    def archive(self, record: Record, reason: str) -> Record:
        """Return a record as archived at this moment."""
        return replace(record, archived_at=max(self.now, record.created_at), archive_reason=reason)

    def prompt(self, name: str) -> str:
        """Return the prompt of a file name such as `dream.md`: the user's own, or the one that ships."""
        own = self.prompts.get(name)
        if own is not None and own.strip():
            return own.strip()
        shipped = files("reverie.consolidation.passes").joinpath("prompts", name)
        return shipped.read_text(encoding="utf-8").strip()

    def fill_prompt(self, name: str, **places: str) -> str:
        """Return a prompt with its places, such as `{{records}}`, filled.

        All places are filled in one step, so that a place name within a filled text stays as it is. An
        unknown place stays too.
        """
        return _PLACE.sub(lambda place: places.get(place[1], place[0]), self.prompt(name))


def build_cursor_name(name: str) -> str:
    """Return the name of the store's cursor that says how far a pass has read the journal."""
    return f"dream.{name}.sequence"


def combine_plans(view: PassInput, name: str, plans: Sequence[Plan], *, skipped: str = "") -> Plan:
    """Return several plans as one.

    Args:
        skipped: Why there was nothing to do, where no plan says it.
    """
    steps = tuple(step for plan in plans for step in plan.steps)
    reasons = [plan.skipped for plan in plans if plan.skipped] or [skipped]
    cursors: dict[str, str | None] = {}
    for plan in plans:
        cursors |= plan.cursors
    return view.build_plan(
        name,
        steps=steps,
        proposals=tuple(step for plan in plans for step in plan.proposals),
        refused=tuple(refusal for plan in plans for refusal in plan.refused),
        notes=tuple(note for plan in plans for note in plan.notes),
        skipped="" if steps else "; ".join(dict.fromkeys(reasons)),
        failed="; ".join(dict.fromkeys(plan.failed for plan in plans if plan.failed)),
        cursors=cursors,
        usage=sum((plan.usage for plan in plans), TokenUsage()),
    )


def apply_changes(records: Sequence[Record], changes: Sequence[Change]) -> tuple[Record, ...]:
    """Return the live records as they would be after these changes, without headlines."""
    live = {record.id: record for record in records}
    for change in changes:
        after = change.after
        if isinstance(after, Record) and not (after.archived or after.is_headline):
            live[change.id] = after
        else:
            live.pop(change.id, None)
    return tuple(live.values())
