"""Make and apply the plans of passes, keep what waits for the owner, and log what became of it.

A plan is made without writing anything. Applying it is one transaction, together with the cursor that says
how far the journal was considered. A pass that fails leaves its cursor where it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import get_args

from reverie.consolidation.answers import NO_MODEL
from reverie.consolidation.asking import ExamReport, ModelAsker, MonthUsage
from reverie.consolidation.flows import Ask, Flow, limit_requests, run_pass, run_together
from reverie.consolidation.gatherer import ACTOR, DREAM, PASSES, VERIFIED, InputGatherer, Pass, WindowKind
from reverie.consolidation.inbox import Inbox, PassOutcome, drop_rejected
from reverie.consolidation.passes import compact, drafts, read, verify
from reverie.consolidation.values import Plan, PlanRecords, build_cursor_name, select_groups
from reverie.domain.change import Change
from reverie.domain.conversation import LONGEST_TURN, validate_session_id
from reverie.domain.errors import InvalidInput, ReverieError, quote_value
from reverie.domain.record import Origin, validate_choice
from reverie.domain.text.validation import validate_limit, validate_raw_text
from reverie.llm.protocol import Model, TokenUsage
from reverie.repositories.records import NewRecord
from reverie.settings import Settings
from reverie.stores.telemetry import trace_workflow
from reverie.stores.writer import StoreWriter

_log = logging.getLogger("reverie")

ALL = "dream"
"""Name of all passes of a dream together."""

_ATTEMPTS = 5
_WINDOW_PASSES = {read.NAME: read.read, compact.NAME: compact.compact}


class Dreams(Inbox):
    """Plans and runs of passes over one store, and what waits for the owner. Safe to use from several threads."""

    def __init__(
        self,
        writer: StoreWriter,
        *,
        settings: Settings,
        plan_records: PlanRecords,
        model: Model | None = None,
        profile: Path | None = None,
    ) -> None:
        """Create the dreams of a store.

        Args:
            plan_records: Returns the changes that saving records would make.
            model: The model; None for none.
            profile: Folder of the user's own prompts; None for those that ship.
        """
        super().__init__(writer.acting(ACTOR))
        self._clock = writer.clock
        self._settings = settings
        self._asker = ModelAsker(self._writer, settings=settings, model=model)
        self._gatherer = InputGatherer(self._asker, plan_records, profile)

    # -- plans -------------------------------------------------------------------------------------------

    def plan(
        self,
        name: str = ALL,
        *,
        output: str | None = None,
        step: str = "",
        scope: str = "",
        origin: Origin = "agent",
    ) -> Plan:
        """Return the changes that a pass would make now. Print them; nothing but the log is written before `apply`.

        Args:
            name: `enrich`, `verify`, `tidy`, `preferences` or `promote`; `dream` for all of them as one plan; `extract`
                for the findings, insights and lessons in the output of a step of work. See `run_window` for a session.
            output: Output of the step, for `extract` only. Nothing is learned from less than 50 characters, and
                only the first 4,000 are read.
            step: Name of the step, such as `GOAL:deploy`.
            scope: Scope of the records that are extracted.
            origin: Whose word the output is. What `tool` or `web` says is found by search, but never put into a
                prompt unasked.

        Raises:
            InvalidInput: there is no such pass, or an output was given for another pass than `extract`, or none for it.
        """
        if name not in (known := (ALL, *DREAM, drafts.EXTRACT_NAME)):
            raise InvalidInput(f"pass is {quote_value(name)}: use one of {', '.join(known)}")
        if (name == drafts.EXTRACT_NAME) != (output is not None):
            raise InvalidInput(f"pass is {name!r}: pass output= for {drafts.EXTRACT_NAME}, and for no other")
        if output is not None:
            text = validate_raw_text(output, name="output", longest=LONGEST_TURN, empty=True)
            given = NewRecord(content=text, source=step, origin=origin, scope=scope)
            view = replace(self._gatherer.gather_basics(), output=given)
            plan = run_pass(drafts.extract(view), self._asker.ask)
        elif name == ALL:
            plan = self._plan_dream()
        else:
            (plan,) = self._plan_together([name], limit_requests(self._asker.ask))
        self._note([PassOutcome.from_plan(plan, "planned")])
        return plan

    def apply(self, plan: Plan) -> PassOutcome:
        """Make the changes of a plan, all of them or none. `undo` takes them back, given the result.

        Raises:
            Conflict: something that it would change has changed since it was made: plan again.
        """
        outcome = self._apply(plan)
        self._note([outcome])
        return outcome

    def _plan_window(self, name: str, session: str, *, keep: int | None, is_asking: bool) -> Plan:
        """Return the plan of `read` or `compact`; the arguments are those of `run_window`."""
        is_read = is_asking and self._asker.model is not None and (self._settings.remember or name != "read")
        window = self._gatherer.read_window(session, name, keep=keep, is_read=is_read)
        flow = _WINDOW_PASSES[name](self._gatherer.gather_session(name, window))
        return run_pass(flow, self._asker.ask if is_read else lambda _: NO_MODEL)

    def _plan_dream(self) -> Plan:
        """Return the plans of all passes as one, each on what the one before would leave."""
        plans: list[Plan] = []
        ask = limit_requests(self._asker.ask)
        for names in _group_names(DREAM):
            plans += self._plan_together(names, ask, [change for plan in plans for change in plan.edits])

        lists = ("steps", "proposals", "refused", "notes")
        joined = {name: tuple(each for plan in plans for each in getattr(plan, name)) for name in lists}
        skipped = "; ".join(f"{plan.name}: {plan.skipped}" for plan in plans if plan.skipped)
        return self._gatherer.gather_basics().build_plan(
            ALL,
            **joined,
            skipped="" if joined["steps"] else skipped,
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
            self._asker.note_belief(is_believed=all(believed))
        if not all(believed):
            view = self._gatherer.gather(self._gatherer.gather_news(PASSES[verify.NAME]))
            found[names[0]] = verify.withdraw_shown(view, found[names[0]])
        touched: set[str] = set()
        plans = []
        for name in names:
            steps = select_groups(
                found[name].steps, lambda group: touched.isdisjoint(step.edit.id for step in group)
            )
            touched.update(step.edit.id for step in steps)
            plans.append(replace(found[name], steps=steps))
        return plans

    def _plan_news(self, registered: Pass, planned: Sequence[Change] = ()) -> Flow[Plan]:
        """Return the plan of a pass over what has changed since it last ran.

        A pass that cannot do without a model leaves its cursor, so that what accumulates is considered
        later. For every other pass that is off, what happens meanwhile counts as considered.
        """
        off = self._explain_off(registered)
        news = self._gatherer.gather_news(registered)
        idle = off if registered.needs else "" if registered.has_work(news) else "nothing is new"
        if idle:
            return news.build_plan(registered.name, skipped=idle)
        if off:
            plan = news.build_plan(registered.name, skipped=off)
        else:
            plan = yield from registered.build(self._gatherer.gather(news, planned))
            plan = drop_rejected(plan, self._store)
        if plan.failed:
            return replace(plan, cursors={})  # it is considered again
        return replace(plan, cursors={build_cursor_name(registered.name): str(news.until), **plan.cursors})

    def _apply(self, plan: Plan, *, dry_run: bool = False) -> PassOutcome:
        """Make the changes of a plan, or leave everything as it is."""
        if not isinstance(plan, Plan):
            raise InvalidInput(f"plan is {type(plan).__name__}: pass what `plan` returned")
        if dry_run or not (plan or plan.cursors):
            return PassOutcome.from_plan(plan, "planned")
        cursors = {**plan.cursors, **self._build_proposals(plan)}
        entries = self._writer.commit(
            plan.edits, operation="dream", reference=f"{plan.name} {plan.id}", cursors=cursors
        )
        return PassOutcome.from_plan(plan, "applied", batch=entries[0].batch if entries else None)

    # -- runs --------------------------------------------------------------------------------------------

    def run_window(
        self,
        session: str,
        kind: WindowKind,
        *,
        keep: int | None = None,
        dry_run: bool = False,
        is_asking: bool = True,
    ) -> PassOutcome:
        """Shorten the window of one session now, and log it, but for a paragraph that is made by rule.

        Args:
            session: The session.
            kind: `read`, which also reads its new turns for what is to be remembered, or `compact`.
            keep: How many turns stay, 0 or more; None takes what the settings say.
            dry_run: Whether to plan only.
            is_asking: Whether the model is asked.

        Raises:
            InvalidInput: an argument is not of its form; nothing was run.
        """
        validate_session_id(session)
        validate_choice(kind, get_args(WindowKind), name="kind")
        validate_limit(keep, name="keep")
        make_plan = partial(self._plan_window, kind, session, keep=keep, is_asking=is_asking)
        outcome = self._run(kind, make_plan, dry_run=dry_run)
        if not dry_run and (is_asking or kind != "read"):
            self._note([outcome])
        return outcome

    def _run_passes(self, names: Sequence[str] = DREAM, *, dry_run: bool = False) -> list[PassOutcome]:
        """Run passes one after the other. One that fails does not stop the rest.

        Those whose claims are verified are planned together, so that they are one request; after a conflict, one is
        planned again by itself.

        Args:
            names: The passes.
            dry_run: Whether to plan only.
        """
        ask = limit_requests(self._asker.ask)
        outcomes: list[PassOutcome] = []
        made: dict[str, Plan] = {}

        def make_plan(name: str, group: Sequence[str]) -> Plan:
            if name == group[0] and not made:
                made.update(zip(group, self._plan_together(group, ask), strict=True))
            return made.pop(name) if name in made else self._plan_together([name], ask)[0]

        with trace_workflow(self._settings, "reverie.dream"):
            for group in _group_names(names):
                made.clear()
                outcomes += [
                    self._run(name, partial(make_plan, name, group), dry_run=dry_run) for name in group
                ]
        self._note(outcomes)
        return outcomes

    def _run(self, name: str, make_plan: Callable[[], Plan], *, dry_run: bool) -> PassOutcome:
        """Make and apply a plan, and make it again after a conflict."""
        now = self._clock()
        try:
            outcome = self._writer.retrying(
                lambda _: self._apply(make_plan(), dry_run=dry_run), attempts=_ATTEMPTS
            )
        except (ReverieError, OSError) as error:
            _log.warning("the pass %r failed: %s", name, error)
            outcome = PassOutcome.from_error(name, now, error)
        if outcome.state == "failed":
            self._asker.count(f"dream.{name}.failed" if name in (ALL, *DREAM) else f"{name}.failed")
        return outcome

    def _has_news(self) -> bool:
        """Return whether anything has changed that some pass of a dream has not considered."""
        return any(
            registered.has_work(self._gatherer.gather_news(registered))
            for registered in PASSES.values()
            if not (registered.needs and self._explain_off(registered))
        )

    def _explain_off(self, registered: Pass) -> str:
        """Return why a pass does nothing now; empty if it does something."""
        if registered.setting and not getattr(self._settings, registered.setting):
            return f"{registered.setting} is off"
        return f"no model: {registered.needs}" if registered.needs and self._asker.model is None else ""

    def usage(self) -> MonthUsage:
        """Return the cost of the requests of background thinking in this month; each dream's own cost is in `log`."""
        return self._asker.read_usage()

    def check_model(self) -> ExamReport:
        """Let the model take a fixed exam of 40 claims, right and wrong ones, and store the result.

        A model that passes is believed where a dream cannot make controls of its claims. One that fails is not.

        Raises:
            InvalidInput: no model is set.
        """
        if self._asker.model is None:
            raise InvalidInput("No model is set. Name one with `--model` or the setting `model`.")
        return self._asker.take_exam(self._gatherer.gather_basics())


def _group_names(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the names of passes in their order, in groups of those that are planned together."""
    for is_verified, found in groupby(names, VERIFIED.__contains__):
        group = list(found)
        yield from [group] if is_verified else ([name] for name in group)
