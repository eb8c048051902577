"""Plans that wait in the store for the owner's decision, step group by step group.

Steps that share a record belong together and are decided together. A decision is one transaction: the changes of an
accepted group, its new state, and with the last group the cursors of the plan. What is rejected is not planned
again while its sources stay as they are.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from reverie.consolidation.plan import Plan, PlanStep, Rejection
from reverie.consolidation.proposals import Verdict, validate_verdict
from reverie.domain.change import Change, Value
from reverie.domain.errors import Conflict, InvalidInput, NotFound
from reverie.domain.record import Record
from reverie.domain.scope import is_within
from reverie.domain.text.timestamps import format_time, parse_time, to_microseconds
from reverie.llm.messages import TokenUsage
from reverie.stores.codec import TABLES, UnreadableRow, decode_value, to_document
from reverie.stores.protocol import Store
from reverie.stores.redacting import get_redactor, redact_value
from reverie.stores.writer import StoreWriter, retry_conflicts

MOST_WAITING = 20
"""Plans that wait at once; of more the oldest go."""

MOST_DECIDED = 50
"""Decided plans of which is kept what became of them, without their content."""

KEPT = timedelta(days=30)
"""Time for which a plan waits."""

LARGEST = 2_000_000
"""Characters of a plan that can wait."""

GroupState = Literal["waiting", "later", "applied", "rejected"]

_PLAN = "plan:"
_REJECTED = "plans.rejected"
_MOST_REJECTED = 1_000
_OPEN: tuple[GroupState, ...] = ("waiting", "later")
_STATES: dict[Verdict, GroupState] = {"accept": "applied", "reject": "rejected", "later": "later"}

_log = logging.getLogger("reverie")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepGroup:
    """Steps of a plan that are made together or not at all.

    Attributes:
        steps: The steps; none once the plan is decided.
        state: `waiting`, `later`, `applied` or `rejected`.
        reason: Why it was rejected.
        batch: Number of its first change in the journal, by which it can be undone; None without one.
    """

    steps: tuple[PlanStep, ...]
    state: GroupState = "waiting"
    reason: str = ""
    batch: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is to be decided."""
        return self.state in _OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPlan:
    """A plan that is kept until it is decided, and what was decided.

    Attributes:
        plan: The plan; without steps once all of it is decided.
        groups: Its steps, in groups.
        expected: The values of its cursors when it was made.
        decided: Whether nothing of it is open.
    """

    plan: Plan
    groups: tuple[StepGroup, ...]
    expected: dict[str, str | None]
    decided: bool = False

    @property
    def id(self) -> str:
        """The id of the plan."""
        return self.plan.id

    @property
    def open(self) -> tuple[int, ...]:
        """Numbers of the groups that are to be decided."""
        return tuple(number for number, group in enumerate(self.groups) if group.is_open)

    @property
    def batches(self) -> tuple[int, ...]:
        """Numbers by which the accepted groups can be undone."""
        return tuple(dict.fromkeys(group.batch for group in self.groups if group.batch is not None))


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
    names: set[str] = set()
    for step in steps:
        before = step.edit.before
        at = to_microseconds(before.updated_at) if isinstance(before, Record) else ""
        names |= {f"{step.edit.id} {at}"} if before is not None else set()
        names |= set(step.sources)
    names = names or {step.edit.id for step in steps}
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:16]


def drop_rejected(plan: Plan, store: Store) -> Plan:
    """Return a plan without what the owner rejected before."""
    rejected = _read_rejected(store)
    if not rejected or not plan.steps:
        return plan
    steps = select_groups(plan.steps, lambda group: build_group_key(group) not in rejected)
    if steps == plan.steps:
        return plan
    refused = Rejection(what=f"{len(plan.steps) - len(steps)} changes", why="the owner rejected them before")
    skipped = plan.skipped if steps else "the owner rejected before what there is to do"
    return replace(plan, steps=steps, refused=(*plan.refused, refused), skipped=skipped)


def _read_rejected(store: Store) -> list[str]:
    return (store.cursor(_REJECTED) or "").split()


class PlanShelf:
    """Plans that wait in one store. Safe to use from several threads and processes."""

    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer
        self._store = writer.store

    def add(self, plan: Plan) -> WaitingPlan:
        """Keep a plan until it is decided. Secrets in it are replaced.

        Raises:
            InvalidInput: it is too large to wait.
        """
        expected = {name: self._store.cursor(name) for name in plan.cursors}
        plan = self._redact(plan)
        groups = tuple(StepGroup(steps=steps) for steps in group_steps(plan.steps))
        waiting = WaitingPlan(plan=plan, groups=groups, expected=expected)
        text = _encode(waiting)
        if len(text) > LARGEST:
            raise InvalidInput(
                f"the plan {plan.id} has {len(text):,} characters, and at most {LARGEST:,} can wait: apply it at once"
            )
        self._writer.commit([], cursors={**self._find_old(), _PLAN + plan.id: text})
        return waiting

    def list(self) -> list[WaitingPlan]:
        """Return all plans, the newest first, decided ones too. One that cannot be read is left out."""
        plans = []
        for name, text in self._store.cursors(_PLAN).items():
            try:
                plans.append(_decode(text))
            except InvalidInput as error:
                _log.warning("the plan %r cannot be read and is left out: %s", name, error)
        return sorted(plans, key=lambda each: (each.plan.made_at, each.id), reverse=True)

    def get(self, id: str) -> WaitingPlan:
        """Return a plan.

        Raises:
            NotFound: there is none of that id, or not any more.
        """
        return _decode(self._read(id))

    def _read(self, id: str) -> str:
        text = self._store.cursor(_PLAN + id)
        if text is None:
            raise NotFound(f"there is no plan {id!r}: it was decided long ago, or erased; make a new one")
        return text

    def decide(
        self, id: str, verdict: Verdict, *, groups: Collection[int] | None = None, reason: str = ""
    ) -> WaitingPlan:
        """Decide groups of a plan, and return the plan with the decision; see `Worker.decide_plan`."""
        validate_verdict(verdict, reason)
        stored = self._read(id)
        waiting = _decode(stored)
        if waiting.decided:
            applied = ", ".join(map(str, waiting.batches))
            was = f"was applied as change {applied}" if applied else "was decided"
            raise Conflict(f"the plan {id!r} {was}: make a new one")
        wanted = waiting.open if groups is None else tuple(sorted(set(groups)))
        if refused := [number for number in wanted if number not in waiting.open]:
            raise Conflict(f"group {refused[0]} of the plan {id!r} is not open: read the plan again")
        return self._decide(waiting, wanted, verdict, get_redactor(self._store).text(reason.strip()), stored)

    def _decide(
        self, waiting: WaitingPlan, wanted: Sequence[int], verdict: Verdict, reason: str, stored: str
    ) -> WaitingPlan:
        """Write a decision on a plan, whose stored text must be `stored` still."""
        plan, name = waiting.plan, _PLAN + waiting.id
        cursors: dict[str, str | None] = {}
        chosen = {id(step) for number in wanted for step in waiting.groups[number].steps}
        steps = [step for step in plan.steps if id(step) in chosen]
        edits = [step.edit for step in steps] if verdict == "accept" else []
        batch = self._store.sequence() + 1 if edits else None
        groups = list(waiting.groups)
        for number in wanted:
            groups[number] = replace(groups[number], state=_STATES[verdict], reason=reason, batch=batch)
        after = replace(waiting, groups=tuple(groups), decided=not any(group.is_open for group in groups))
        if verdict == "reject":
            keys = [build_group_key(waiting.groups[number].steps) for number in wanted]
            cursors[_REJECTED] = " ".join([*_read_rejected(self._store), *keys][-_MOST_REJECTED:])
        if after.decided:
            cursors |= {
                each: text
                for each, text in plan.cursors.items()
                if self._store.cursor(each) == waiting.expected[each]
            }
        # The number of the batch is known once it is committed; another writer may have been faster.
        entries = self._writer.commit(
            edits,
            operation="dream",
            reference=f"{plan.name} {plan.id}",
            cursors={**cursors, name: _encode(after)},
            expected={name: stored},
        )
        if entries and entries[0].batch != batch:
            after = self._note_batch(plan.id, wanted, entries[0].batch)
        return after

    def _note_batch(self, id: str, wanted: Sequence[int], batch: int) -> WaitingPlan:
        """Write the number of a transaction into the groups that it made, whatever was decided since."""
        name = _PLAN + id

        def attempt(_: int) -> WaitingPlan:
            stored = self._read(id)
            plan = _decode(stored)
            groups = [
                replace(group, batch=batch) if number in wanted else group
                for number, group in enumerate(plan.groups)
            ]
            after = replace(plan, groups=tuple(groups))
            self._writer.commit([], cursors={name: _encode(after)}, expected={name: stored})
            return after

        return retry_conflicts(attempt, read_state=lambda: self._store.cursor(name))

    def _redact(self, plan: Plan) -> Plan:
        redactor = get_redactor(self._store)

        def redact_change(change: Change) -> Change:
            after = None if change.after is None else redact_value(change.after, redactor, known=True)
            return Change(before=change.before, after=after)

        return replace(
            plan,
            steps=tuple(
                replace(step, edit=redact_change(step.edit), why=redactor.text(step.why))
                for step in plan.steps
            ),
            refused=tuple(
                replace(each, what=redactor.text(each.what), why=redactor.text(each.why))
                for each in plan.refused
            ),
            notes=tuple(map(redactor.text, plan.notes)),
            skipped=redactor.text(plan.skipped),
            failed=redactor.text(plan.failed),
        )

    def _find_old(self) -> dict[str, str | None]:
        """Return the cursors of plans that are too old or too many, to be removed."""
        plans, now = self.list(), self._writer.clock()
        waiting = [plan for plan in plans if not plan.decided]
        decided = [plan for plan in plans if plan.decided]
        old = [*waiting[MOST_WAITING - 1 :], *decided[MOST_DECIDED:]]
        old += [plan for plan in plans if now - plan.plan.made_at > KEPT]
        return {_PLAN + plan.id: None for plan in old}


# -- erasure -------------------------------------------------------------------------------------------


def find_erased_plans(store: Store, ids: Collection[str], *, scope: str | None) -> dict[str, None]:
    """Return the cursors of the plans that are about things which are erased; one that cannot be read may be.

    Args:
        ids: Ids of what is erased.
        scope: A scope that is erased; None for none.
    """

    def is_about(text: str) -> bool:
        try:
            steps = _decode(text).plan.steps
        except InvalidInput:
            return True
        values = [value for step in steps for value in step.edit.values]
        named = {name for step in steps for name in (step.edit.id, *step.sources)}
        return not named.isdisjoint(ids) or (
            scope is not None and any(is_within(getattr(each, "scope", ""), scope) for each in values)
        )

    return {name: None for name, text in store.cursors(_PLAN).items() if is_about(text)}


def has_plan_text(cursor: str, text: str, is_unwanted: Callable[[str], bool]) -> bool:
    """Whether a cursor keeps a plan, and one of the texts in it is unwanted."""
    try:
        return cursor.startswith(_PLAN) and any(map(is_unwanted, _iter_texts(json.loads(text))))
    except ValueError:
        return False


def _iter_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _iter_texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _iter_texts(each)


# -- as the store keeps them ---------------------------------------------------------------------------


def _encode(waiting: WaitingPlan) -> str:
    """Return a plan as JSON; of a decided one what was decided, without content."""
    plan = waiting.plan
    fields: dict[str, Any] = {
        "id": plan.id,
        "name": plan.name,
        "made_at": format_time(plan.made_at),
        "decided": waiting.decided,
        "usage": [plan.usage.requests, plan.usage.input_tokens, plan.usage.output_tokens],
        "groups": [
            [each.state, "" if waiting.decided else each.reason, each.batch] for each in waiting.groups
        ],
    }
    if waiting.decided:
        return json.dumps(fields)
    places = {id(step): number for number, step in enumerate(plan.steps)}
    return json.dumps(
        {
            **fields,
            "steps": [
                [
                    step.edit.subject,
                    _encode_value(step.edit.before),
                    _encode_value(step.edit.after),
                    step.why,
                    step.sources,
                ]
                for step in plan.steps
            ],
            "places": [[places[id(step)] for step in group.steps] for group in waiting.groups],
            "refused": [[each.what, each.why] for each in plan.refused],
            "notes": plan.notes,
            "skipped": plan.skipped,
            "failed": plan.failed,
            "cursors": dict(plan.cursors),
            "expected": waiting.expected,
        },
        ensure_ascii=False,
    )


def _encode_value(value: Value | None) -> Any:
    if value is None:
        return None
    table = TABLES[Change(before=value, after=None).subject]
    return json.loads(to_document(table, table.encode(value)))


def _decode(text: str) -> WaitingPlan:
    """Return a stored plan; raise `InvalidInput` for anything else."""
    try:
        fields = json.loads(text)
        steps = tuple(_decode_step(*each) for each in fields.get("steps", ()))
        requests, read, written = fields["usage"]
        places = fields.get("places") or [[] for _ in fields["groups"]]
        plan = Plan(
            id=fields["id"],
            name=fields["name"],
            made_at=parse_time(fields["made_at"]),
            steps=steps,
            refused=tuple(Rejection(what=what, why=why) for what, why in fields.get("refused", ())),
            notes=tuple(fields.get("notes", ())),
            skipped=fields.get("skipped", ""),
            failed=fields.get("failed", ""),
            cursors=fields.get("cursors", {}),
            usage=TokenUsage(requests=requests, input_tokens=read, output_tokens=written),
        )
        groups = tuple(
            StepGroup(
                steps=tuple(steps[number] for number in places[at]), state=state, reason=reason, batch=batch
            )
            for at, (state, reason, batch) in enumerate(fields["groups"])
        )
        return WaitingPlan(
            plan=plan, groups=groups, expected=fields.get("expected", {}), decided=fields["decided"]
        )
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, UnreadableRow) as error:
        raise InvalidInput(f"not a plan: {type(error).__name__}") from None


def _decode_step(subject: Any, before: Any, after: Any, why: str, sources: Sequence[str]) -> PlanStep:
    values = [None if each is None else decode_value(subject, json.dumps(each)) for each in (before, after)]
    return PlanStep(edit=Change(before=values[0], after=values[1]), why=why, sources=tuple(sources))
