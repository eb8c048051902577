"""The inbox: changes that wait in the store for the owner's decision, and the log of what became of plans.

A plan waits group by group: steps that share a record are decided together. A proposal is a plan that adds one record,
which is in no search and no prompt before. A decision is one transaction: the changes of an accepted group, its new
state, and with the last group the cursors of the plan, which leaves the inbox then. A rejected group is not planned
again while its sources stay as they are. A rejected proposal stays in the inbox, so that it is not proposed again in
other words.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, Self, get_args

from reverie.consolidation.answers import LATER, LIMIT, TIMEOUT
from reverie.consolidation.values import (
    Plan,
    PlanStep,
    Rejection,
    build_group_key,
    group_steps,
    select_groups,
)
from reverie.domain.change import Change, Value
from reverie.domain.errors import Conflict, InvalidInput, NotFound, StoreUnavailable
from reverie.domain.record import Record, validate_choice
from reverie.domain.text.json_values import to_json_object
from reverie.domain.text.timestamps import format_time, parse_time
from reverie.domain.text.validation import validate_raw_text
from reverie.llm.protocol import TokenUsage
from reverie.stores.codec import TABLES, UnreadableRow, decode_value, to_document
from reverie.stores.protocol import Store
from reverie.stores.redacting import get_redactor, redact_value
from reverie.stores.writer import StoreWriter, retry_conflicts

Verdict = Literal["accept", "reject", "later"]
"""The owner's decision."""

PROPOSAL = "proposal"
"""Name of a plan that adds one proposed record."""

MAX_WAITING = 20
"""Plans that wait at once; of more, the oldest are removed. Proposals do not count."""

MAX_PROPOSALS = 500
"""Proposals that wait at once, for any time."""

KEPT = timedelta(days=30)
"""Time for which a plan waits."""

LARGEST = 2_000_000
"""Characters of a plan that can wait."""

GroupState = Literal["waiting", "later", "applied", "rejected"]

_PLAN = "plan:"
_REJECTED = "plans.rejected"
_MAX_REJECTED = 1_000
_STATES: dict[Verdict, GroupState] = {"accept": "applied", "reject": "rejected", "later": "later"}
_LONGEST_REASON = 500
_ACCEPTED_CONFIDENCE = 0.9

LOG = "dream.log"
"""The store's cursor with the outcomes of the last dreams."""

_LONGEST_LOG = 100

_log = logging.getLogger("reverie")


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOutcome:
    """Outcome of one pass.

    Attributes:
        plan: The plan; an empty one where making it failed.
        state: `applied`, `planned`, `waiting` (for the owner), `rejected`, `skipped` or `failed`.
        why: Why it was skipped or failed; empty otherwise. It may quote a model, and is not stored.
        error: The class of the error that made it fail; empty where it was the model's answer, or nothing.
        batch: Number by which the changes can be undone; None without a change.
    """

    plan: Plan
    state: str
    why: str = ""
    error: str = ""
    batch: int | None = None

    @property
    def name(self) -> str:
        """The pass."""
        return self.plan.name

    @classmethod
    def from_plan(cls, plan: Plan, state: str, *, batch: int | None = None) -> Self:
        """Return the outcome of a plan, in this state unless it failed or proposes nothing."""
        if plan.failed not in ("", LATER.why):
            return cls(plan=plan, state="failed", why=plan.failed, batch=batch)
        why = "" if plan else plan.failed or plan.skipped
        return cls(plan=plan, state=state if plan else "skipped", why=why, batch=batch)

    @classmethod
    def from_error(cls, name: str, at: datetime, error: Exception) -> Self:
        """Return the outcome of a pass that an error ended."""
        plan = Plan(id="", name=name, made_at=at)
        return cls(plan=plan, state="failed", why=str(error), error=type(error).__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepGroup:
    """Steps of a plan that are made together or not at all.

    Attributes:
        steps: The steps.
        state: `waiting`, `later`, `applied` or `rejected`.
        reason: Why it was rejected.
        batch: Number of its first change in the journal, by which it can be undone, where it was applied just now.
    """

    steps: tuple[PlanStep, ...]
    state: GroupState = "waiting"
    reason: str = ""
    batch: int | None = None

    @property
    def is_open(self) -> bool:
        """Return whether it is to be decided."""
        return self.state in ("waiting", "later")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPlan:
    """A plan that is kept until it is decided.

    Attributes:
        plan: The plan.
        groups: Its steps, in groups.
        expected: The values of its cursors when it was made.
    """

    plan: Plan
    groups: tuple[StepGroup, ...]
    expected: dict[str, str | None]

    @property
    def id(self) -> str:
        """The id of the plan."""
        return self.plan.id

    @property
    def record(self) -> Record | None:
        """The record that a proposal would add; None for another plan."""
        after = self.plan.steps[0].edit.after if self.plan.name == PROPOSAL and self.plan.steps else None
        return after if isinstance(after, Record) else None

    @property
    def open(self) -> tuple[int, ...]:
        """Numbers of the groups that are to be decided."""
        return tuple(number for number, group in enumerate(self.groups) if group.is_open)

    @property
    def batches(self) -> tuple[int, ...]:
        """Numbers by which the groups that were accepted just now can be undone."""
        return tuple(dict.fromkeys(group.batch for group in self.groups if group.batch is not None))


def list_waiting(store: Store) -> list[WaitingPlan]:
    """Return all plans and proposals, rejected proposals too, the newest first. One that cannot be read is left out."""
    plans = []
    for name, text in store.cursors(_PLAN).items():
        try:
            plans.append(_decode(text))
        except InvalidInput as error:
            _log.warning("the plan %r cannot be read and is left out: %s", name, error)
    return sorted(plans, key=lambda each: (each.plan.made_at, each.id), reverse=True)


def drop_rejected(plan: Plan, store: Store) -> Plan:
    """Return a plan without what the owner rejected before."""
    rejected = (store.cursor(_REJECTED) or "").split()
    steps = select_groups(plan.steps, lambda group: build_group_key(group) not in rejected)
    if len(steps) == len(plan.steps):
        return plan
    refused = Rejection(what=f"{len(plan.steps) - len(steps)} changes", why="the owner rejected them before")
    skipped = plan.skipped if steps else "the owner rejected before what there is to do"
    return replace(plan, steps=steps, refused=(*plan.refused, refused), skipped=skipped)


class Inbox:
    """Plans and proposals that wait in one store, and the log. Safe to use from several threads and processes."""

    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer
        self._store = writer.store

    def log(self) -> list[dict[str, object]]:
        """Return the outcomes of the last dreams, the newest last."""
        return _parse_log(self._store.cursor(LOG))

    def _note(self, outcomes: Sequence[PassOutcome]) -> None:
        """Write outcomes of one dream into the log. An earlier entry about the same plan is replaced."""
        noted = [
            each
            for each in outcomes
            if each.state != "skipped" or each.plan.refused or each.plan.usage.requests
        ]
        dream = next((each.plan.id for each in noted if each.plan.id), "")
        entries = [_to_log_entry(each, dream) for each in noted]
        plans = {entry["plan"] for entry in entries if entry["plan"]}

        def attempt(_: int) -> None:
            stored = self._store.cursor(LOG)
            kept = [entry for entry in _parse_log(stored) if entry.get("plan") not in plans]
            text = json.dumps([*kept, *entries][-_LONGEST_LOG:], ensure_ascii=False)
            self._writer.commit([], cursors={LOG: text}, expected={LOG: stored})

        try:
            if entries:
                retry_conflicts(attempt, read_state=lambda: self._store.cursor(LOG))
        except StoreUnavailable as error:
            _log.warning("the log of dreams could not be written: %s", error)

    def keep_plan(self, plan: Plan) -> WaitingPlan:
        """Store a plan, with secrets replaced, until the owner decides it. At most 20 plans wait, for thirty days.

        Raises:
            InvalidInput: it is too large to wait.
        """
        text = self._encode(self._group(replace(plan, proposals=())))
        cursors = {**self._build_proposals(plan), **self._find_old()}
        if plan.steps or not plan.proposals:
            if len(text) > LARGEST:
                raise InvalidInput(
                    f"The plan {plan.id} has {len(text):,} characters, at most {LARGEST:,} can wait. Apply it at once."
                )
            cursors[_PLAN + plan.id] = text
        self._writer.commit([], cursors=cursors)
        self._note([PassOutcome.from_plan(plan, "waiting")])
        return _decode(text)

    def _build_proposals(self, plan: Plan) -> dict[str, str | None]:
        """Return the cursors that store the proposals of a plan, to be committed with its changes."""
        waiting = [
            self._group(Plan(id=step.edit.id, name=PROPOSAL, made_at=plan.made_at, steps=(step,)))
            for step in plan.proposals
        ]
        return {_PLAN + each.id: self._encode(each) for each in waiting}

    def _group(self, plan: Plan) -> WaitingPlan:
        """Return a plan as it waits."""
        expected = {name: self._store.cursor(name) for name in plan.cursors}
        groups = tuple(StepGroup(steps=steps) for steps in group_steps(plan.steps))
        return WaitingPlan(plan=plan, groups=groups, expected=expected)

    def proposals(self) -> list[Record]:
        """Return the records that passes propose and the owner has not decided, the newest first.

        A proposal is in no search and in no prompt before it is accepted. What was saved by other means is left out.
        """
        records = (each.record for each in list_waiting(self._store) if each.open)
        return [
            record
            for record in records
            if record is not None and self._store.record_like(record.scope, record.fingerprint) is None
        ]

    def kept_plans(self) -> list[WaitingPlan]:
        """Return the plans that wait, the newest first. A decided plan is in `log` only."""
        return [each for each in list_waiting(self._store) if each.plan.name != PROPOSAL]

    def kept_plan(self, id: str) -> WaitingPlan:
        """Return the plan of that id that waits.

        Raises:
            NotFound: there is no such plan, or no longer.
        """
        return _decode(self._read(id))

    def _read(self, id: str) -> str:
        text = self._store.cursor(_PLAN + id)
        if text is None:
            raise NotFound(f"No plan or proposal {id!r}. It was decided, or erased. Run `reverie review`.")
        return text

    def _find_old(self) -> dict[str, str | None]:
        """Return the cursors of plans that are too old or too many, to be removed."""
        now = self._writer.clock()
        proposals = [plan for plan in list_waiting(self._store) if plan.record is not None]
        plans = self.kept_plans()
        old = [*plans[MAX_WAITING - 1 :], *proposals[MAX_PROPOSALS:]]
        old += [plan for plan in plans if now - plan.plan.made_at > KEPT]
        return {_PLAN + plan.id: None for plan in old}

    def decide(
        self,
        id: str,
        verdict: Verdict,
        *,
        groups: Collection[int] | None = None,
        reason: str = "",
        actor: str = "owner",
    ) -> WaitingPlan:
        """Write the owner's decision about a plan or proposal. No tool of a model does this.

        Args:
            id: The plan or proposal.
            verdict: `accept` makes the changes at once, in one transaction. `reject` keeps them from being planned
                again while their sources stay as they are, and a proposal for good. `later` leaves them open.
            groups: Numbers of the groups of a plan's steps; None for all that are open.
            reason: Why they are rejected, at most 500 characters.
            actor: Author of the decision about a proposal in the journal, who speaks for the owner.

        Raises:
            NotFound: there is no such plan or proposal, or no longer.
            Conflict: a group is decided already, or what it would change has changed since: reject it.
        """
        validate_choice(verdict, get_args(Verdict), name="verdict")
        reason = validate_raw_text(reason, name="reason", longest=_LONGEST_REASON, empty=True).strip()
        stored = self._read(id)
        waiting = _decode(stored)
        record, plan = waiting.record, waiting.plan
        is_open = waiting.open if record is None else range(len(waiting.groups))
        wanted = tuple(is_open) if groups is None else tuple(sorted(set(groups)))
        if refused := [number for number in wanted if number not in is_open]:
            raise Conflict(f"group {refused[0]} of the plan {id!r} is not open: read the plan again")
        decided = [*waiting.groups]
        for number in wanted:
            why = reason if verdict == "reject" else ""
            decided[number] = replace(decided[number], state=_STATES[verdict], reason=why)
        after = replace(waiting, groups=tuple(decided))
        cursors: dict[str, str | None] = {_PLAN + id: self._encode(after)}
        if verdict == "reject":
            keys = [build_group_key(waiting.groups[number].steps) for number in wanted]
            rejected = (self._store.cursor(_REJECTED) or "").split()
            cursors[_REJECTED] = " ".join([*rejected, *keys][-_MAX_REJECTED:])
        if not after.open and (record is None or verdict == "accept"):
            cursors[_PLAN + id] = None
            unchanged = [each for each in plan.cursors if self._store.cursor(each) == waiting.expected[each]]
            cursors |= {each: plan.cursors[each] for each in unchanged}
        edits = [step.edit for number in wanted for step in waiting.groups[number].steps]
        if record is not None:
            confidence = max(record.confidence, _ACCEPTED_CONFIDENCE)
            at = max(self._writer.clock(), record.updated_at)
            edits = [Change(before=None, after=replace(record, confidence=confidence, updated_at=at))]
        writer = self._writer if record is None else self._writer.acting(actor)
        entries = writer.commit(
            edits if verdict == "accept" else [],
            operation="dream" if record is None else "accept",
            reference=f"{plan.name} {plan.id}",
            cursors=cursors,
            expected={_PLAN + id: stored},
        )
        batch = entries[0].batch if entries else None
        for number in wanted:
            decided[number] = replace(decided[number], batch=batch)
        if record is None:
            has_applied = any(group.state == "applied" for group in decided)
            state = "waiting" if after.open else "applied" if has_applied else "rejected"
            self._note([PassOutcome.from_plan(plan, state, batch=batch)])
        return replace(after, groups=tuple(decided))

    def _encode(self, waiting: WaitingPlan) -> str:
        """Return a plan as JSON, with secrets replaced."""
        plan, redactor = waiting.plan, get_redactor(self._store)

        def encode_step(step: PlanStep) -> list[Any]:
            before, after = step.edit.before, step.edit.after
            after = None if after is None else redact_value(after, redactor, known=True)
            values = [_encode_value(each) for each in (before, after)]
            return [step.edit.subject, *values, redactor.text(step.why), step.sources]

        texts = {name: getattr(plan, name) for name in _TEXTS}
        texts["refused"] = [[each.what, each.why] for each in plan.refused]
        fields = {
            "id": plan.id,
            "name": plan.name,
            "made_at": format_time(plan.made_at),
            "usage": [plan.usage.requests, plan.usage.input_tokens, plan.usage.output_tokens],
            "groups": [
                [each.state, redactor.text(each.reason), [*map(encode_step, each.steps)]]
                for each in waiting.groups
            ],
            "cursors": dict(plan.cursors),
            "expected": waiting.expected,
            **redactor.json_value(json.loads(json.dumps(texts))),
        }
        return json.dumps(fields, ensure_ascii=False)


# -- erasure -------------------------------------------------------------------------------------------


def find_erased_plans(store: Store, is_erased: Callable[[str], bool], *, unreadable: bool) -> dict[str, None]:
    """Return the cursors of the plans in which a text is erased.

    Args:
        store: The store.
        is_erased: Returns whether a text in a plan is that, such as an id, a scope or a sentence.
        unreadable: Whether plans that cannot be read are returned too.
    """

    def has_erased(text: str) -> bool:
        try:
            return any(map(is_erased, _iter_texts(json.loads(text))))
        except ValueError:
            return unreadable

    return {name: None for name, text in store.cursors(_PLAN).items() if has_erased(text)}


def _iter_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _iter_texts(each)


# -- as the store keeps them ---------------------------------------------------------------------------


_TEXTS = ("notes", "skipped", "failed")


def _encode_value(value: Value | None) -> Any:
    if value is None:
        return None
    table = TABLES[Change(before=value, after=None).subject]
    return json.loads(to_document(table, table.encode(value)))


@lru_cache(maxsize=MAX_WAITING)
def _decode(text: str) -> WaitingPlan:
    """Return a stored plan; raise `InvalidInput` for anything else."""
    try:
        fields = json.loads(text)
        groups = tuple(
            StepGroup(steps=tuple(_decode_step(*each) for each in steps), state=state, reason=reason)
            for state, reason, steps in fields["groups"]
        )
        requests, read, written = fields["usage"]
        plan = Plan(
            **{name: fields[name] for name in ("id", "name", *_TEXTS)},
            made_at=parse_time(fields["made_at"]),
            steps=tuple(step for group in groups for step in group.steps),
            refused=tuple(Rejection(what=what, why=why) for what, why in fields["refused"]),
            cursors=fields["cursors"],
            usage=TokenUsage(requests=requests, input_tokens=read, output_tokens=written),
        )
        plan = replace(plan, notes=tuple(plan.notes))
        return WaitingPlan(plan=plan, groups=groups, expected=fields["expected"])
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, UnreadableRow) as error:
        raise InvalidInput(f"not a plan: {type(error).__name__}") from None


def _decode_step(subject: Any, before: Any, after: Any, why: str, sources: Sequence[str]) -> PlanStep:
    values = [None if each is None else decode_value(subject, json.dumps(each)) for each in (before, after)]
    return PlanStep(edit=Change(before=values[0], after=values[1]), why=why, sources=tuple(sources))


# -- the log ---------------------------------------------------------------------------------------------


def drop_log_entries(text: str, is_unwanted: Callable[[str], bool]) -> str | None:
    """Return the stored log without the entries that contain unwanted text; None if none are left."""
    entries = [entry for entry in _parse_log(text) if not any(is_unwanted(str(x)) for x in entry.values())]
    return json.dumps(entries, ensure_ascii=False) if entries else None


def _parse_log(text: str | None) -> list[dict[str, object]]:
    try:
        return [entry for entry in json.loads(text or "[]") if isinstance(entry, dict)]
    except ValueError:
        _log.warning("the log of dreams cannot be read and is begun anew")
        return []


def _to_log_entry(outcome: PassOutcome, dream: str) -> dict[str, object]:
    plan = outcome.plan
    reasons = (LIMIT, f"{TIMEOUT}no answer in time")
    known = (each for each in reasons if outcome.why.startswith(each[:9]))
    failed = outcome.error or next(known, "the model gave no usable answer")
    return {
        "dream": dream,
        "pass": outcome.name,
        "at": format_time(plan.made_at),
        "state": outcome.state,
        "why": failed if outcome.state == "failed" else outcome.why,
        "plan": plan.id,
        "batch": outcome.batch,
        "changes": len(plan.steps) + len(plan.proposals),
        "refused": len(plan.refused),
        **to_json_object(plan.usage),
    }
