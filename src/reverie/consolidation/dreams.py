"""Make and apply the plans of passes, and log what became of them.

A plan is made without writing anything. Applying it is one transaction, together with the cursor that says
how far the journal was considered. A pass that fails leaves its cursor where it was.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Self

from reverie.consolidation.answers import LATER, LIMIT, NO_MODEL
from reverie.consolidation.asking import TIMEOUT, ExamReport, ModelAsker, ModelTrust, take_exam
from reverie.consolidation.flows import Ask, Flow, limit_requests, run_pass, run_together
from reverie.consolidation.gatherer import ACTOR, InputGatherer, WindowKind, WindowReader
from reverie.consolidation.inbox import Inbox, drop_rejected
from reverie.consolidation.inputs import build_cursor_name
from reverie.consolidation.passes import verify
from reverie.consolidation.passes.tidy import NOISE
from reverie.consolidation.plan import ApplyResult, Plan, PlanStep, select_groups
from reverie.consolidation.registry import DREAM, PASSES, VERIFIED, Pass
from reverie.domain.change import Change
from reverie.domain.errors import InvalidInput, ReverieError, StoreUnavailable
from reverie.domain.record import Record
from reverie.domain.text.timestamps import format_time
from reverie.llm.protocol import Model, TokenUsage
from reverie.repositories.records import NewRecord
from reverie.settings import Settings
from reverie.stores.telemetry import trace_workflow
from reverie.stores.writer import StoreWriter, retry_conflicts

_log = logging.getLogger("reverie")

ALL = "dream"
"""Name of all passes of a dream together."""

LOG = "dream.log"
"""The store's cursor with the outcomes of the last dreams."""

_LONGEST_LOG = 100
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOutcome:
    """Outcome of one pass.

    Attributes:
        name: The pass.
        at: When it began.
        state: `applied`, `planned`, `waiting` (for the owner), `rejected`, `skipped` or `failed`.
        why: Why it was skipped or failed; empty otherwise. It may quote a model, and is not stored.
        error: The class of the error that made it fail; empty where it was the model's answer, or nothing.
        plan: The plan; None where making it failed.
        batch: Number by which the changes can be undone; None without a change.
    """

    name: str
    at: datetime
    state: str
    why: str = ""
    error: str = ""
    plan: Plan | None = None
    batch: int | None = None

    @classmethod
    def from_error(cls, name: str, at: datetime, error: Exception) -> Self:
        """Return the outcome of a pass that an error ended."""
        return cls(name=name, at=at, state="failed", why=str(error), error=type(error).__name__)


class Dreams:
    """Makes and applies plans over one store. Safe to use from several threads."""

    def __init__(
        self,
        writer: StoreWriter,
        *,
        settings: Settings,
        plan_records: Callable[[Sequence[NewRecord | Record]], Sequence[Change]],
        model: Model | None = None,
        profile: Path | None = None,
    ) -> None:
        """Create the dreams of a store.

        Args:
            plan_records: Returns the changes that saving records would make.
            model: The model; None for none.
            profile: Folder of the user's own prompts; None for those that ship.
        """
        self._writer = writer.acting(ACTOR)
        self._store = writer.store
        self._clock = writer.clock
        self._settings = settings
        name = "" if model is None else model.name
        self.asker = ModelAsker(self._writer, settings=settings, model=model)
        self.inbox = Inbox(self._writer)
        self.log = DreamLog(self._writer)
        self.windows = WindowReader(writer, settings=settings, model=name)
        self.trust = ModelTrust(self._writer, name)
        self._gatherer = InputGatherer(
            writer,
            settings=settings,
            plan_records=plan_records,
            profile=profile,
            is_trusted=self.trust.is_trusted,
        )

    # -- plans -------------------------------------------------------------------------------------------

    def check_model(self, model: str) -> ExamReport:
        """Let the model take its exam, and store the result."""
        report = take_exam(model, self.asker.ask, self._gatherer.gather_basics())
        if not report.failed:
            self.trust.note_exam(report)
        return report

    def plan_pass(self, name: str, **output: Any) -> Plan:
        """Return the plan of a pass over what has changed since it last ran, or over the output of a step of work."""
        if PASSES[name].about != "output":
            return self._plan_together([name], limit_requests(self.asker.ask))[0]
        return run_pass(PASSES[name].build(replace(self._gatherer.gather_basics(), **output)), self.asker.ask)

    def plan_window(
        self, name: str, session: str, *, keep: int | None = None, is_asking: bool = True
    ) -> Plan:
        """Return the plan of a pass over one session.

        Args:
            name: `read`, `compact` or `trim`.
            session: The session.
            keep: How many of its turns stay; None takes what the settings say.
            is_asking: Whether the model is asked.
        """
        is_read = is_asking and self.asker.model is not None and (self._settings.remember or name != "read")
        window = self.windows.read(session, name, keep=keep, is_read=is_read)
        flow = PASSES[name].build(self._gatherer.gather_session(name, window))
        return run_pass(flow, self.asker.ask if is_read else lambda _: NO_MODEL)

    def plan_dream(self) -> Plan:
        """Return the plans of all passes as one, each on what the one before would leave."""
        plans: list[Plan] = []
        ask = limit_requests(self.asker.ask)
        for names in _group_names(DREAM):
            plans += self._plan_together(names, ask, [change for plan in plans for change in plan.edits])

        steps = tuple(step for plan in plans for step in plan.steps)
        return self._gatherer.gather_basics().build_plan(
            ALL,
            steps=steps,
            proposals=tuple(step for plan in plans for step in plan.proposals),
            refused=tuple(refusal for plan in plans for refusal in plan.refused),
            notes=tuple(note for plan in plans for note in plan.notes),
            skipped="" if steps else "; ".join(f"{p.name}: {p.skipped}" for p in plans if p.skipped),
            failed="; ".join(f"{plan.name}: {plan.failed}" for plan in plans if plan.failed),
            cursors={name: text for plan in plans for name, text in plan.cursors.items()},
            usage=sum((plan.usage for plan in plans), TokenUsage()),
        )

    def _plan_together(self, names: Sequence[str], ask: Ask, planned: Sequence[Change] = ()) -> list[Plan]:
        """Return the plans of passes that do not need what another does.

        Of two plans that change the same record, the first counts: of the second the whole group of steps is left out.
        A model that calls a control supported is not believed: what it wrote before is withdrawn.

        Every second day `preferences` asks first, on the others `tidy`.
        """
        asking = sorted(names, key="preferences".__ne__) if self._clock().toordinal() % 2 else list(names)
        believed: list[bool] = []
        flows = [self._plan_news(PASSES[name], planned) for name in asking]
        found = dict(zip(asking, run_together(flows, ask, believed=believed), strict=True))
        if believed:
            self.trust.note(is_believed=all(believed))
        if not all(believed):
            found[names[0]] = verify.withdraw_shown(self._gatherer.gather_shown(), found[names[0]])
        touched: set[str] = set()
        plans = []
        for name in names:
            before = frozenset(touched)

            def is_untouched(group: Sequence[PlanStep], before: frozenset[str] = before) -> bool:
                return before.isdisjoint(step.edit.id for step in group)

            plan = replace(found[name], steps=select_groups(found[name].steps, is_untouched))
            touched |= {step.edit.id for step in plan.steps}
            plans.append(plan)
        return plans

    def _plan_news(self, registered: Pass, planned: Sequence[Change] = ()) -> Flow[Plan]:
        """Return the plan of a pass over what has changed since it last ran.

        A pass that cannot do without a model leaves its cursor, so that what accumulates is considered
        later. For every other pass that is off, what happens meanwhile counts as considered.
        """
        off = self._explain_off(registered)
        news = self._gatherer.gather_news(registered)
        if off and registered.without_model:
            return news.build_plan(registered.name, skipped=off)
        if not registered.without_model and not registered.has_work(news):
            return news.build_plan(registered.name, skipped="nothing is new")
        if off:
            plan = news.build_plan(registered.name, skipped=off)
        else:
            plan = yield from registered.build(self._gatherer.gather(registered, news, planned))
            plan = drop_rejected(plan, self._store)
        if plan.failed:
            # it is considered again
            return replace(plan, cursors={name: text for name, text in plan.cursors.items() if name == NOISE})
        return replace(plan, cursors={build_cursor_name(registered.name): str(news.until), **plan.cursors})

    def apply(self, plan: Plan, *, dry_run: bool = False) -> ApplyResult:
        """Make the changes of a plan, all of them or none, in one transaction.

        Args:
            plan: The plan.
            dry_run: Whether to leave everything as it is.

        Raises:
            Conflict: something it would change has changed since it was made: plan again.
        """
        if not isinstance(plan, Plan):
            raise InvalidInput(f"plan is {type(plan).__name__}: pass what `plan` returned")
        if dry_run or not (plan or plan.cursors):
            return ApplyResult(plan=plan, batch=None, changes=0)
        cursors = {**plan.cursors, **self.inbox.build_cursors(plan)}
        entries = self._writer.commit(
            plan.edits, operation="dream", reference=f"{plan.name} {plan.id}", cursors=cursors
        )
        return ApplyResult(plan=plan, batch=entries[0].batch if entries else None, changes=len(entries))

    # -- runs --------------------------------------------------------------------------------------------

    def run(self, names: Sequence[str] = DREAM, *, dry_run: bool = False) -> list[PassOutcome]:
        """Run passes one after the other. One that fails does not stop the rest.

        Those whose claims are verified are planned together, so that they are one request.

        Args:
            names: The passes, or `dream` for all of them as one plan.
            dry_run: Whether to plan only.
        """
        ask = limit_requests(self.asker.ask)
        outcomes: list[PassOutcome] = []
        with trace_workflow(self._settings, "reverie.dream"):
            for group in _group_names(names):
                made: dict[str, Plan] = {}
                for name in group:
                    make_plan = partial(self._make_plan, name, group, made, ask)
                    outcomes.append(self._run(name, make_plan, counter=f"dream.{name}", dry_run=dry_run))
        self.log.add(outcomes)
        return outcomes

    def _make_plan(self, name: str, group: Sequence[str], made: dict[str, Plan], ask: Ask) -> Plan:
        """Return the plan of a pass, once from those of its group that its first pass makes together."""
        if name == ALL:
            return self.plan_dream()
        if name == group[0] and not made:
            made |= zip(group, self._plan_together(group, ask), strict=True)
        return made.pop(name) if name in made else self._plan_together([name], ask)[0]

    def run_window(
        self,
        session: str,
        kind: WindowKind,
        *,
        keep: int | None = None,
        dry_run: bool = False,
        is_asking: bool = True,
    ) -> PassOutcome:
        """Read a session or shorten its window; see `plan_window` for the arguments.

        What became of it is logged, but for a paragraph that is made by rule.
        """

        def make_plan() -> Plan:
            return self.plan_window(kind, session, keep=keep, is_asking=is_asking)

        outcome = self._run(kind, make_plan, counter=kind, dry_run=dry_run)
        if not dry_run and (is_asking or kind != "read"):
            self.log.add([outcome])
        return outcome

    def _run(self, name: str, make_plan: Callable[[], Plan], *, counter: str, dry_run: bool) -> PassOutcome:
        """Make and apply a plan, and make it again after a conflict."""
        now = self._clock()
        with trace_workflow(self._settings, f"reverie.{name}") as span:
            try:
                applied = self._writer.retrying(
                    lambda _: self.apply(make_plan(), dry_run=dry_run), attempts=_ATTEMPTS
                )
            except (ReverieError, OSError) as error:
                _log.warning("the pass %r failed: %s", name, error)
                self.asker.count(f"{counter}.failed")
                span.set("reverie.outcome", "failed")
                span.fail(type(error).__name__)
                return PassOutcome.from_error(name, now, error)
            plan = applied.plan
            has_failed = plan.failed not in ("", LATER.why)
            done = "planned" if dry_run else "applied"
            state = "failed" if has_failed else done if plan else "skipped"
            span.set("reverie.outcome", state)
            span.set("reverie.steps", len(plan.steps))
            span.count("reverie.dream.steps", len(plan.steps), outcome=state)
            span.count("reverie.dream.steps", len(plan.refused), outcome="refused")
            if has_failed:
                self.asker.count(f"{counter}.failed")
                span.fail("unusable_answer")
            why = "" if plan and not has_failed else plan.failed or plan.skipped
            return PassOutcome(name=name, at=now, state=state, why=why, plan=plan, batch=applied.batch)

    def has_news(self) -> bool:
        """Return whether anything has changed that some pass of a dream has not considered."""
        passes = [PASSES[name] for name in DREAM]
        return any(
            registered.has_work(self._gatherer.gather_news(registered))
            for registered in passes
            if not (registered.without_model and self._explain_off(registered))
        )

    def count_drafts(self) -> int:
        """Return how many drafts were saved since the last enrichment; 0 where none would be enriched."""
        return 0 if self._explain_off(PASSES["enrich"]) else self._gatherer.count_drafts()

    def _explain_off(self, registered: Pass) -> str:
        """Return why a pass does nothing now; empty if it does something."""
        if registered.setting and not getattr(self._settings, registered.setting):
            return f"{registered.setting} is off"
        return registered.without_model if self.asker.model is None else ""


def _group_names(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the names of passes in their order, in groups of those that are planned together."""
    for is_verified, found in groupby(names, VERIFIED.__contains__):
        group = list(found)
        yield from [group] if is_verified else ([name] for name in group)


# -- the log ---------------------------------------------------------------------------------------------


class DreamLog:
    """Log of the last dreams in one store, in words that no model chose. Safe to use from several threads."""

    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer
        self._store = writer.store

    def read(self) -> list[dict[str, object]]:
        """Return the outcomes of the last dreams, the newest last."""
        return _parse_log(self._store.cursor(LOG))

    def add(self, outcomes: Sequence[PassOutcome]) -> None:
        """Write outcomes of one dream into the log. An earlier entry about the same plan is replaced."""
        noted = [
            each
            for each in outcomes
            if each.state != "skipped"
            or (each.plan is not None and (each.plan.refused or each.plan.usage.requests))
        ]
        dream = next((each.plan.id for each in noted if each.plan is not None), "")
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

    def add_plan(self, plan: Plan, state: str, *, batch: int | None = None) -> None:
        """Write into the log what became of a plan."""
        why = plan.failed or ("" if plan else plan.skipped)
        state = "failed" if plan.failed else state if plan else "skipped"
        self.add([PassOutcome(name=plan.name, at=plan.made_at, state=state, why=why, plan=plan, batch=batch)])


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
    usage = TokenUsage() if plan is None else plan.usage
    known = (
        reason for reason in (LIMIT, f"{TIMEOUT}no answer in time") if outcome.why.startswith(reason[:9])
    )
    failed = outcome.error or next(known, "the model gave no usable answer")
    return {
        "dream": dream,
        "pass": outcome.name,
        "at": format_time(outcome.at),
        "state": outcome.state,
        "why": failed if outcome.state == "failed" else outcome.why,
        "plan": plan.id if plan is not None else "",
        "batch": outcome.batch,
        "changes": len(plan.steps) + len(plan.proposals) if plan is not None else 0,
        "refused": len(plan.refused) if plan is not None else 0,
        "requests": usage.requests,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost": usage.cost,
    }
