"""The inbox: changes that wait in the store for the owner's decision.

A plan waits group by group: steps that share a record are decided together. A proposal is a plan that adds one record,
which is in no search and no prompt before. A decision is one transaction: the changes of an accepted group, its new
state, and with the last group the cursors of the plan. A rejected group is not planned again while its sources stay as
they are. A rejected proposal stays in the inbox, so that it is not proposed again in other words.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache
from typing import Any, Literal, get_args

from reverie.consolidation.plan import (
    Plan,
    PlanStep,
    Rejection,
    build_group_key,
    group_steps,
    select_groups,
)
from reverie.domain.change import Change, Value
from reverie.domain.errors import Conflict, InvalidInput, NotFound
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import Record, validate_choice
from reverie.domain.scope import is_within
from reverie.domain.text.timestamps import format_time, parse_time
from reverie.llm.protocol import TokenUsage
from reverie.stores.codec import TABLES, UnreadableRow, decode_value, to_document
from reverie.stores.protocol import Store
from reverie.stores.redacting import get_redactor, redact_value
from reverie.stores.writer import StoreWriter, retry_conflicts

Verdict = Literal["accept", "reject", "later"]
"""The owner's decision."""

PROPOSAL = "proposal"
"""Name of a plan that adds one proposed record."""

MOST_WAITING = 20
"""Plans that wait at once; of more, the oldest are removed. Proposals do not count."""

MOST_PROPOSALS = 500
"""Proposals that wait at once, for any time."""

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

_LONGEST_REASON = 500
_ACCEPTED_CONFIDENCE = 0.9
_POLITENESS = (
    r"(?:,?\s+(?:please|thanks|thank you|bitte|danke|por favor|gracias|s'il (?:te|vous) pla[iî]t|merci))*"
    r"\s*[.!]*"
)
_YES = defer_regex(rf"(?:yes|yeah|yep|ja|s[ií]|oui){_POLITENESS}", re.IGNORECASE)
_NO = defer_regex(rf"(?:no|nope|nein|non){_POLITENESS}", re.IGNORECASE)

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
        """Return whether it is to be decided."""
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
    def record(self) -> Record | None:
        """The record that a proposal would add; None for another plan, and for a decided one from the store."""
        after = self.plan.steps[0].edit.after if self.plan.name == PROPOSAL and self.plan.steps else None
        return after if isinstance(after, Record) else None

    @property
    def open(self) -> tuple[int, ...]:
        """Numbers of the groups that are to be decided."""
        return tuple(number for number, group in enumerate(self.groups) if group.is_open)

    @property
    def batches(self) -> tuple[int, ...]:
        """Numbers by which the accepted groups can be undone."""
        return tuple(dict.fromkeys(group.batch for group in self.groups if group.batch is not None))


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


class Inbox:
    """Plans and proposals that wait in one store. Safe to use from several threads and processes."""

    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer
        self._store = writer.store

    def add(self, plan: Plan) -> WaitingPlan:
        """Keep a plan until it is decided. Secrets in it are replaced.

        Raises:
            InvalidInput: it is too large to wait.
        """
        waiting = self._prepare(replace(plan, proposals=()))
        cursors = {**self.build_cursors(plan), **self._find_old()}
        if waiting.groups or not plan.proposals:
            text = _encode(waiting)
            if len(text) > LARGEST:
                raise InvalidInput(
                    f"The plan {plan.id} has {len(text):,} characters, at most {LARGEST:,} can wait. Apply it at once."
                )
            cursors[_PLAN + plan.id] = text
        self._writer.commit([], cursors=cursors)
        return waiting

    def build_cursors(self, plan: Plan) -> dict[str, str | None]:
        """Return the cursors that store the proposals of a plan, to be committed with its changes."""
        waiting = [
            self._prepare(Plan(id=step.edit.id, name=PROPOSAL, made_at=plan.made_at, steps=(step,)))
            for step in plan.proposals
        ]
        return {_PLAN + each.id: _encode(each) for each in waiting}

    def _prepare(self, plan: Plan) -> WaitingPlan:
        expected = {name: self._store.cursor(name) for name in plan.cursors}
        plan = self._redact(plan)
        groups = tuple(StepGroup(steps=steps) for steps in group_steps(plan.steps))
        return WaitingPlan(plan=plan, groups=groups, expected=expected)

    def list_proposed(self) -> list[Record]:
        """Return the records of all proposals that were not accepted, rejected ones too, the newest first."""
        return [each.record for each in self.list() if each.record is not None]

    def proposals(self) -> list[Record]:
        """Return the open proposals, the newest first; what was saved by other means since is left out."""
        records = (each.record for each in self.list() if each.open)
        return [
            record
            for record in records
            if record is not None and self._store.record_like(record.scope, record.fingerprint) is None
        ]

    def ask(self, scope: str) -> Record | None:
        """Return the newest proposal of a scope that the owner was not asked about, and note that they are."""

        def attempt(_: int) -> Record | None:
            waiting = {each.id for each in self.list() if any(g.state == "waiting" for g in each.groups)}
            for record in self.proposals():
                if record.scope == scope and record.id in waiting:
                    self.decide(record.id, "later")
                    return record
            return None

        return retry_conflicts(attempt, read_state=self._store.sequence)

    def plans(self) -> Sequence[WaitingPlan]:
        """Return the plans that are no proposals, the newest first, decided ones too."""
        return [each for each in self.list() if each.plan.name != PROPOSAL]

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
            raise NotFound(f"No plan or proposal {id!r}. It was decided, or erased. Run `reverie review`.")
        return text

    def decide(
        self,
        id: str,
        verdict: Verdict,
        *,
        groups: Collection[int] | None = None,
        reason: str = "",
        actor: str = "owner",
    ) -> WaitingPlan:
        """Decide groups of a plan or a proposal, and return it with the decision; see `Worker.decide`.

        Args:
            actor: Who decides a proposal. The changes of a plan are those of a dream.
        """
        _validate_verdict(verdict, reason)
        stored = self._read(id)
        waiting = _decode(stored)
        if waiting.decided:
            applied = ", ".join(map(str, waiting.batches))
            was = f"was applied as change {applied}" if applied else "was decided"
            raise Conflict(f"the plan {id!r} {was}: make a new one")
        is_open = waiting.open if waiting.record is None else range(len(waiting.groups))
        wanted = tuple(is_open) if groups is None else tuple(sorted(set(groups)))
        if refused := [number for number in wanted if number not in is_open]:
            raise Conflict(f"group {refused[0]} of the plan {id!r} is not open: read the plan again")
        return self._decide(
            waiting, wanted, verdict, get_redactor(self._store).text(reason.strip()), stored, actor
        )

    def _decide(
        self,
        waiting: WaitingPlan,
        wanted: Sequence[int],
        verdict: Verdict,
        reason: str,
        stored: str,
        actor: str,
    ) -> WaitingPlan:
        """Write a decision on a plan, whose stored text must be `stored` still."""
        plan, name = waiting.plan, _PLAN + waiting.id
        cursors: dict[str, str | None] = {}
        chosen = {id(step) for number in wanted for step in waiting.groups[number].steps}
        steps = [step for step in plan.steps if id(step) in chosen]
        reason = reason if verdict == "reject" else ""
        edits = self._build_edits(waiting, [step.edit for step in steps], verdict)
        batch = self._store.sequence() + 1 if edits else None
        groups = list(waiting.groups)
        for number in wanted:
            groups[number] = replace(groups[number], state=_STATES[verdict], reason=reason, batch=batch)
        is_item = waiting.record is not None and verdict != "accept"
        is_decided = not is_item and not any(group.is_open for group in groups)
        after = replace(waiting, groups=tuple(groups), decided=is_decided)
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
        writer = self._writer if waiting.record is None else self._writer.acting(actor)
        entries = writer.commit(
            edits,
            operation="dream" if waiting.record is None else "accept",
            reference=f"{plan.name} {plan.id}",
            cursors={**cursors, name: _encode(after)},
            expected={name: stored},
        )
        if entries and entries[0].batch != batch:
            after = self._note_batch(plan.id, wanted, entries[0].batch)
        return after

    def _build_edits(
        self, waiting: WaitingPlan, edits: Sequence[Change], verdict: Verdict
    ) -> Sequence[Change]:
        """Return the changes that a decision makes."""
        record = waiting.record
        if verdict != "accept" or record is None:
            return edits if verdict == "accept" else []
        confidence, at = (
            max(record.confidence, _ACCEPTED_CONFIDENCE),
            max(self._writer.clock(), record.updated_at),
        )
        return [Change(before=None, after=replace(record, confidence=confidence, updated_at=at))]

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
        proposals = [plan for plan in plans if plan.record is not None]
        waiting = [plan for plan in plans if not plan.decided and plan.record is None]
        decided = [plan for plan in plans if plan.decided]
        old = [*waiting[MOST_WAITING - 1 :], *proposals[MOST_PROPOSALS:], *decided[MOST_DECIDED:]]
        old += [plan for plan in plans if plan.record is None and now - plan.plan.made_at > KEPT]
        return {_PLAN + plan.id: None for plan in old}


# -- decisions -------------------------------------------------------------------------------------------


def read_answer(text: str) -> Verdict | None:
    """Return the decision in a plain answer to a question about a proposal; None where it is anything else.

    >>> read_answer("Yes, please."), read_answer("nein danke"), read_answer("no idea"), read_answer("yes and no")
    ('accept', 'reject', None, None)
    """
    plain = text.strip().replace("’", "'")
    if _YES.fullmatch(plain):
        return "accept"
    return "reject" if _NO.fullmatch(plain) else None


def _validate_verdict(verdict: Verdict, reason: str) -> None:
    """Raise `InvalidInput` where a decision or its reason is not of its form."""
    validate_choice(verdict, get_args(Verdict), name="verdict")
    if not isinstance(reason, str) or len(reason) > _LONGEST_REASON:
        raise InvalidInput(f"reason is {reason!r}: pass a text of at most {_LONGEST_REASON} characters")


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
    """Return whether a cursor keeps a plan, and one of the texts in it is unwanted."""
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


@lru_cache(maxsize=MOST_WAITING + MOST_DECIDED)
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
