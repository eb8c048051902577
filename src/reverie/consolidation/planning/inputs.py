"""Values that a pass reads. The caller gathers them at one moment; a pass reads nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from importlib.resources import files
from typing import Any

from reverie.consolidation.plan import Plan, PlanStep
from reverie.domain.change import Change
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import Page
from reverie.domain.record import Record
from reverie.domain.text.ids import NewId, generate_id

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
        proposals: Records that were proposed and that the owner has not accepted.
        drafts: Draft records in the order in which they were saved, each with the number of its journal
            entry.
        remembered: Records that the model wrote down from conversations since the last cycle, in that order.
        categories: Categories in use by scope, the most frequent first.
        window: The session that a window pass is about.
        output: Output of a step of work, for `extract`.
        step: Name of that step, such as `GOAL:deploy`.
        zone: Where the days of those who speak begin and end.
        prompts: The user's own prompts by file name, in place of those that ship.
        new_id: Generator of ids.
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
    proposals: tuple[Record, ...] = ()
    drafts: tuple[tuple[Record, int], ...] = ()
    remembered: tuple[RememberedFact, ...] = ()
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    window: WindowInput | None = None
    output: str = ""
    step: str = ""
    zone: tzinfo = UTC
    prompts: Mapping[str, str] = field(default_factory=dict)
    new_id: NewId = generate_id

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
