"""Values that a pass reads. The caller gathers them at one moment; a pass reads nothing else."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from importlib.resources import files
from typing import Any

from reverie.consolidation.plan import Plan, PlanStep
from reverie.consolidation.planning.material import Signal
from reverie.consolidation.planning.requests import build_question
from reverie.domain.change import Change
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import Origin, Record
from reverie.domain.text.ids import NewId, generate_id
from reverie.llm.protocol import ModelRequest, TokenUsage
from reverie.repositories.records import NewRecord

_log = logging.getLogger("reverie")

_PLACE = defer_regex(r"\{\{(\w+)\}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowInput:
    """A session whose window is to be shortened.

    Attributes:
        state: The session.
        older: Turns that leave the window, or that are read, the earliest first.
        start: Position of the first turn that stays in the window.
        read_from: Position of the first turn that was not read.
        told: Position up to which `HISTORY.md` tells the session.
        position: Position of the next paragraph of `HISTORY.md`.
    """

    state: SessionState
    older: tuple[Turn, ...]
    start: int
    read_from: int = 0
    told: int = 0
    position: float = 1.0

    @property
    def is_moving(self) -> bool:
        """Whether turns leave the window."""
        return self.start > self.state.window_start

    @property
    def is_short(self) -> bool:
        """Whether no turn is to leave it."""
        return not self.older or not self.is_moving

    def move(self, *, why: str = "", **changes: Any) -> PlanStep:
        """Return the step that moves the beginning of the window, with further changes of the session."""
        return PlanStep(
            edit=Change(before=self.state, after=replace(self.state, window_start=self.start, **changes)),
            why=why or f"turns that leave the window: {len(self.older)}",
            sources=tuple(turn.id for turn in self.older),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingClaim:
    """A proposal from a conversation that waits for a dream to verify it.

    Attributes:
        do: `add`, `change`, `end` or `drop`.
        record: Id of the record that waits in the archive; empty for an end, a drop, and a change in the owner's words.
        target: Id of the record that is changed, ended or dropped; empty for an addition.
        quote: Id of the owner's sentence that stands in for the record; empty if a known record does.
        turns: Ids of the turns that say so.
        tries: How often no believed model judged it.
    """

    do: str
    record: str = ""
    target: str = ""
    quote: str = ""
    turns: tuple[str, ...] = ()
    tries: int = 0


CLAIMS = "read.claims"
"""The store's cursor with the claims that wait, as JSON."""

SHOWN = "read.shown"
"""The store's cursor with the verified records and the sentences that they stand for, as JSON."""

MAX_CLAIMS = 500
"""Claims that a cursor holds, the latest."""


def encode_claims(claims: Sequence[PendingClaim], cursor: str = CLAIMS) -> dict[str, str | None]:
    """Return the cursor that stores claims. It has ids only, and no content."""
    rows = [[each.do, each.record, each.target, each.quote, each.turns, each.tries] for each in claims]
    return {cursor: json.dumps(rows[-MAX_CLAIMS:]) if rows else None}


def parse_claims(text: str | None) -> tuple[PendingClaim, ...]:
    """Return the claims of such a cursor; none of one that cannot be read."""
    try:
        rows = json.loads(text or "[]")
        return tuple(
            PendingClaim(
                do=do, record=record, target=target, quote=quote, turns=tuple(turns), tries=int(tries)
            )
            for do, record, target, quote, turns, tries in rows
        )
    except (ValueError, TypeError):
        _log.warning("the claims that wait for a dream cannot be read and are left out")
        return ()


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
        left: Words of the cursor with what the last dream had no room for.
        claims: Claims from conversations that wait, the earliest first.
        shown: Verified records, with the sentences that stand for them if the model is not believed any more.
        cited: Records that claims name, archived ones too, by id.
        said: Turns that claims cite, by id.
        before: By the ids of turns, what the assistant had said just before them.
        is_trusted: Whether the model is believed without controls: by the last dream, or by its exam; None if neither
            is known.
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
    left: tuple[str, ...] = ()
    claims: tuple[PendingClaim, ...] = ()
    shown: tuple[PendingClaim, ...] = ()
    cited: Mapping[str, Record] = field(default_factory=dict)
    said: Mapping[str, Turn] = field(default_factory=dict)
    before: Mapping[str, str] = field(default_factory=dict)
    is_trusted: bool | None = None
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

    def build_question(self, name: str, places: Mapping[str, str], **fields: Any) -> ModelRequest:
        """Return the request with a prompt and its data; the further arguments are those of `build_question`.

        A prompt without any place is the system part, and the data follow in the user's message.
        """
        prompt = self.prompt(name)
        if any(place[1] in places for place in _PLACE.finditer(prompt)):
            return build_question(self.fill_prompt(name, **places), **fields)
        data = (f"{place.replace('_', ' ').capitalize()}:\n\n{text}" for place, text in places.items())
        return build_question("\n\n".join(data), system=prompt, **fields)

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
