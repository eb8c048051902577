"""How does background thinking become change? Gathers what a pass sees, runs it, and makes its plan.

The passes are in `reverie.passes` and see nothing but values; here stand the store, the model and the
cursors. A plan is made without writing anything; applying it is one transaction, along with the cursor that
says how far the journal was considered. A pass that fails leaves the cursor where it was.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from reverie.asks import Ask, NoReply, Reply, Usage
from reverie.clock import Clock, format_time
from reverie.config import Settings
from reverie.edits import Edit, JournalRow
from reverie.errors import Conflict, InvalidInput, ModelError, ReverieError, StoreUnavailable
from reverie.filters import Filter
from reverie.ids import NewId
from reverie.merging import folds
from reverie.passes.flow import NO_MODEL, Flow, run
from reverie.passes.infer import infer
from reverie.passes.merge import Correction, merge
from reverie.passes.promote import promote
from reverie.passes.view import View
from reverie.plans import Plan
from reverie.providers.base import Model
from reverie.records import Record
from reverie.stores.base import Store
from reverie.turns import Turn

_log = logging.getLogger("reverie")

ACTOR = "dream"
"""Who is named in the journal as the author of what passes change."""

DREAM = "dream"
"""All of the passes together."""

PASSES = ("merge", "infer", "promote")
"""The dream's passes, in the order in which they run."""

LOG = "dream.log"
"""The store's cursor that keeps what became of the last cycles."""

_LONGEST_LOG = 100
_BATCH = 1_000
_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A plan that was made.

    Attributes:
        plan: The plan.
        batch: The number of its first change in the journal, by which it can be undone; None where it had
            none.
        changes: How many changes it made.
    """

    plan: Plan
    batch: int | None
    changes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one pass in one cycle.

    Attributes:
        name: The pass.
        at: When.
        state: `applied`, `planned` (a dry run), `skipped` or `failed`.
        why: Why it was skipped or failed; empty otherwise.
        plan: The plan, where there is one.
        batch: By what number the changes can be undone.
    """

    name: str
    at: datetime
    state: str
    why: str = ""
    plan: Plan | None = None
    batch: int | None = None


class Dreaming:
    """Background thinking over one store. Safe to use from several threads; keeps nothing but counters."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        new_id: NewId,
        settings: Settings,
        model: Model | None = None,
        profile: Path | None = None,
        notice: Callable[[Sequence[JournalRow]], None],
    ) -> None:
        """Think about a store.

        Args:
            store: What is thought about.
            clock: What tells the time.
            new_id: What makes ids.
            settings: The settings.
            model: What is asked; None for nobody.
            profile: The folder of the user's own prompts; None for those that ship.
            notice: Told of every change made here.
        """
        self.model = model
        self.usage = Usage()
        self._store = store
        self._clock = clock
        self._new_id = new_id
        self._settings = settings
        self._profile = profile
        self._notice = notice

    # -- plans -------------------------------------------------------------------------------------------

    def plan(self, name: str = DREAM) -> Plan:
        """What a pass would change now; nothing is written.

        Args:
            name: `merge`, `infer` or `promote`; `dream` for all three as one plan, each on what the one
                before leaves.

        Raises:
            InvalidInput: there is no such pass.
        """
        if name == DREAM:
            return self._all()
        if name not in PASSES:
            raise InvalidInput(f"pass is {name!r}: use {DREAM}, or one of {', '.join(PASSES)}")
        return self._plan(name, ())

    def _all(self) -> Plan:
        plans: list[Plan] = []
        for name in PASSES:
            made = [edit for plan in plans for edit in plan.edits]
            plans.append(self._plan(name, made))
        steps = tuple(step for plan in plans for step in plan.steps)
        reasons = [f"{plan.name}: {plan.skipped}" for plan in plans if plan.skipped]
        cursors: dict[str, str | None] = {}
        for plan in plans:
            cursors |= plan.cursors
        return Plan(
            id=self._new_id(),
            name=DREAM,
            made_at=self._clock(),
            steps=steps,
            refused=tuple(refusal for plan in plans for refusal in plan.refused),
            notes=tuple(note for plan in plans for note in plan.notes),
            skipped="" if steps else "; ".join(dict.fromkeys(reasons)),
            failed="; ".join(f"{plan.name}: {plan.failed}" for plan in plans if plan.failed),
            cursors=cursors,
            usage=sum((plan.usage for plan in plans), Usage()),
        )

    def _plan(self, name: str, made: Sequence[Edit]) -> Plan:
        sequence = self._store.sequence()
        after = self._considered(name)
        changed, turns = self._since(after, sequence)
        if not changed and not turns:
            nothing = "nothing has changed since the last cycle"
            return Plan(id=self._new_id(), name=name, made_at=self._clock(), skipped=nothing)
        view = self._view(changed, turns)
        plan = self._run(self._flow(name, replace(view, records=_after(view.records, made))))
        return plan if plan.failed else replace(plan, cursors={**plan.cursors, _cursor(name): str(sequence)})

    def apply(self, plan: Plan, *, dry_run: bool = False) -> Applied:
        """Make a plan's changes, all of them or none, in one transaction.

        Args:
            plan: The plan, as it was made.
            dry_run: Whether to leave everything as it is.

        Raises:
            Conflict: something it would change has changed since it was made: plan again.
        """
        if dry_run or not (plan.steps or plan.cursors):
            return Applied(plan=plan, batch=None, changes=0)
        rows = self._store.commit(
            plan.edits,
            actor=ACTOR,
            reason=f"{plan.name} {plan.id}",
            at=self._clock(),
            cursors=dict(plan.cursors),
        )
        if rows:
            self._notice(rows)
        return Applied(plan=plan, batch=rows[0].batch if rows else None, changes=len(rows))

    # -- a cycle -----------------------------------------------------------------------------------------

    def cycle(self, names: Iterable[str] = PASSES, *, dry_run: bool = False) -> list[Outcome]:
        """Run passes one after the other; one that fails does not stop the rest.

        Args:
            names: Which passes.
            dry_run: Whether to plan only.
        """
        outcomes = [self._one(name, dry_run=dry_run) for name in names]
        if not dry_run:
            self._write_log(outcomes)
        return outcomes

    def has_news(self) -> bool:
        """Whether anything changed that some pass has not considered yet."""
        sequence = self._store.sequence()
        for name in PASSES:
            changed, turns = self._since(self._considered(name), sequence)
            if changed or turns:
                return True
        return False

    def log(self) -> list[dict[str, object]]:
        """What became of the passes of the last cycles, the newest last."""
        text = self._store.cursor(LOG)
        try:
            found = json.loads(text) if text else []
        except ValueError:
            _log.warning("the log of dreams cannot be read and is begun anew")
            return []
        return [entry for entry in found if isinstance(entry, dict)]

    def _one(self, name: str, *, dry_run: bool) -> Outcome:
        now = self._clock()
        try:
            for tries in range(_TRIES):
                plan = self.plan(name)
                try:
                    applied = self.apply(plan, dry_run=dry_run)
                    break
                except Conflict:
                    if tries == _TRIES - 1:
                        raise
        except ReverieError as error:
            _log.warning("the pass %r failed: %s", name, error)
            self.count(f"dream.{name}.failed")
            return Outcome(name=name, at=now, state="failed", why=str(error))
        if plan.failed:
            self.count(f"dream.{name}.failed")
            return Outcome(name=name, at=now, state="failed", why=plan.failed, plan=plan, batch=applied.batch)
        if not plan.steps:
            return Outcome(name=name, at=now, state="skipped", why=plan.skipped, plan=plan)
        state = "planned" if dry_run else "applied"
        return Outcome(name=name, at=now, state=state, plan=plan, batch=applied.batch)

    def _write_log(self, outcomes: Sequence[Outcome]) -> None:
        told = [_told(outcome) for outcome in outcomes if _is_worth_telling(outcome)]
        if not told:
            return
        text = json.dumps([*self.log(), *told][-_LONGEST_LOG:], ensure_ascii=False)
        try:
            self._store.commit([], actor=ACTOR, at=self._clock(), cursors={LOG: text})
        except StoreUnavailable as error:
            _log.warning("the log of dreams could not be written: %s", error)

    def count(self, name: str) -> None:
        """Count a failure in the store; one that cannot be counted is logged."""
        try:
            self._store.commit([], actor=ACTOR, at=self._clock(), counts={name: 1})
        except StoreUnavailable as error:
            _log.warning("%s could not be counted: %s", name, error)

    # -- what a pass sees --------------------------------------------------------------------------------

    def _flow(self, name: str, view: View) -> Flow[Plan] | Plan:
        if name == "merge":
            return merge(view, folds(view.records, view.changed), self._corrections(view))
        if name == "infer":
            if not self._settings.preference_inference:
                return _skipped(view, name, "preference_inference is off")
            return infer(view)
        if not self._settings.promotion_enabled:
            return _skipped(view, name, "promotion_enabled is off")
        return promote(view, min_confidence=self._settings.promotion_min_confidence)

    def _run(self, flow: Flow[Plan] | Plan) -> Plan:
        return flow if isinstance(flow, Plan) else run(flow, self.answer)

    def answer(self, ask: Ask) -> Reply | NoReply:
        """What the model answers; a failure is counted, logged and told to the pass, never raised."""
        if self.model is None:
            return NO_MODEL
        try:
            reply = self.model.answer(ask)
        except ModelError as error:
            _log.warning("the model gave no answer for %s: %s", ask.purpose, error)
            self.count(f"model.{ask.purpose}.failed")
            return NoReply(why=str(error))
        self.usage += reply.usage
        return reply

    def view(self) -> View:
        """The moment and the prompts, for passes over something else than records."""
        return View(now=self._clock(), prompts=self._prompts(), new_id=self._new_id)

    def _view(self, changed: frozenset[str], turns: Sequence[Turn]) -> View:
        now = self._clock()
        return View(
            now=now,
            records=tuple(self._store.find(Filter(alive_at=now), order="created")),
            changed=changed,
            turns=tuple(turns),
            prompts=self._prompts(),
            new_id=self._new_id,
        )

    def _prompts(self) -> Mapping[str, str]:
        """The user's own prompts under the names that ship; one that cannot be read is named in the log."""
        named = {
            "dream.md": self._settings.dream_directive,
            "pref-dream.md": self._settings.preference_directive,
            "memory-rules.md": self._settings.memory_rules,
            "extract.md": "extract.md",
            "compact.md": "compact.md",
            "digest.md": "digest.md",
        }
        found = {}
        for name, file in named.items():
            path = None if self._profile is None else self._profile / file
            if path is None or not path.is_file():
                continue
            try:
                found[name] = path.read_text(encoding="utf-8-sig")
            except (OSError, UnicodeDecodeError) as error:
                _log.warning("the prompt %r cannot be read, the one that ships is used: %s", str(path), error)
        return found

    def _considered(self, name: str) -> int:
        text = self._store.cursor(_cursor(name))
        return int(text) if text and text.isdecimal() else 0

    def _since(self, after: int, until: int) -> tuple[frozenset[str], list[Turn]]:
        """The records that others than passes changed since a journal row, and the turns added since."""
        changed: set[str] = set()
        turns: dict[str, Turn] = {}
        while after < until:
            rows = self._store.journal(after=after, until=until, limit=_BATCH)
            if not rows:
                break
            for row in rows:
                value = None if row.edit is None else row.edit.after
                if isinstance(value, Record) and row.actor != ACTOR:
                    changed.add(value.id)
                elif isinstance(value, Turn):
                    turns[value.id] = value
            after = rows[-1].sequence
        return frozenset(changed), list(turns.values())

    def _corrections(self, view: View) -> list[Correction]:
        """Where the owner put the assistant right, by what is noted on the turns."""
        last: dict[str, str] = {}
        found = []
        for turn in view.turns:
            if turn.role == "assistant":
                last[turn.session] = turn.content
            elif turn.role == "user" and turn.metadata.get("signal") == "correction":
                found.append(Correction(turn=turn.id, text=turn.content, before=last.get(turn.session, "")))
        return found


def _after(records: Sequence[Record], edits: Sequence[Edit]) -> tuple[Record, ...]:
    """The live records as they would be after these edits."""
    there = {record.id: record for record in records}
    for edit in edits:
        if isinstance(edit.after, Record) and not edit.after.archived:
            there[edit.id] = edit.after
        else:
            there.pop(edit.id, None)
    return tuple(there.values())


def _cursor(name: str) -> str:
    return f"dream.{name}.sequence"


def _skipped(view: View, name: str, why: str) -> Plan:
    return Plan(id=view.new_id(), name=name, made_at=view.now, skipped=why)


def _is_worth_telling(outcome: Outcome) -> bool:
    """Not the many cycles in which there was nothing to look at."""
    refused = outcome.plan is not None and (outcome.plan.refused or outcome.plan.usage.requests)
    return outcome.state != "skipped" or bool(refused)


def _told(outcome: Outcome) -> dict[str, object]:
    plan = outcome.plan
    return {
        "pass": outcome.name,
        "at": format_time(outcome.at),
        "state": outcome.state,
        "why": outcome.why,
        "plan": plan.id if plan is not None else "",
        "batch": outcome.batch,
        "changes": len(plan.steps) if plan is not None else 0,
        "refused": len(plan.refused) if plan is not None else 0,
        "requests": plan.usage.requests if plan is not None else 0,
        "input_tokens": plan.usage.input_tokens if plan is not None else 0,
        "output_tokens": plan.usage.output_tokens if plan is not None else 0,
    }
