"""Make and apply the plans of passes.

A plan is made without writing anything. Applying it is one transaction, together with the cursor that says
how far the journal was considered. A pass that fails leaves its cursor where it was.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Self

from reverie.consolidation.gatherer import ACTOR, InputGatherer, WindowKind, WindowReader
from reverie.consolidation.inbox import Inbox, drop_rejected
from reverie.consolidation.passes import read, verify
from reverie.consolidation.passes.tidy import NOISE
from reverie.consolidation.plan import Plan, PlanStep, select_groups
from reverie.consolidation.planning.flows import Ask, Flow, limit_requests, run_pass, run_together
from reverie.consolidation.planning.inputs import build_cursor_name, combine_plans
from reverie.consolidation.planning.requests import LATER, LIMIT, NO_MODEL
from reverie.consolidation.registry import DREAM, PASSES, VERIFIED, Pass
from reverie.consolidation.trust import ExamReport, ModelTrust, take_exam
from reverie.domain.change import Change
from reverie.domain.errors import (
    InvalidInput,
    ModelError,
    ModelRefused,
    ModelTimeout,
    ReverieError,
    StoreError,
    StoreUnavailable,
    quote_value,
)
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import Origin, Record
from reverie.domain.text.timestamps import format_time
from reverie.llm.protocol import Model, ModelFailure, ModelReply, ModelRequest, TokenUsage, find_known_model
from reverie.repositories.records import NewRecord
from reverie.settings import Settings
from reverie.stores.redacting import redact_request
from reverie.stores.telemetry import ask_model, trace_workflow
from reverie.stores.writer import StoreWriter, retry_conflicts

_log = logging.getLogger("reverie")

ALL = "dream"
"""Name of all passes of a dream together."""

LOG = "dream.log"
"""The store's cursor with the outcomes of the last cycles."""

TIMEOUT = "timeout: "
"""Beginning of the reason why a pass failed whose model did not answer in time."""

_MONTH = defer_regex(r"\d{4}-(?:0[1-9]|1[0-2])")
_USAGE = ("requests", "input_tokens", "output_tokens", "cost")

_LONGEST_LOG = 100
_LONGEST_WHY = 200
_ATTEMPTS = 5


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthUsage:
    """Cost of all requests of background thinking in a calendar month (UTC).

    Attributes:
        month: The month, such as `2026-03`.
        requests: Number of requests.
        input_tokens: Input tokens, as the provider counts them.
        output_tokens: Output tokens.
        cost: US dollars, estimated from known prices; 0 for models without a known price.
    """

    month: str
    requests: int
    input_tokens: int
    output_tokens: int
    cost: float

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.input_tokens + self.output_tokens

    def __str__(self) -> str:
        cost = f", about ${self.cost:.2f}" if self.cost else ""
        return f"{self.month}: {self.requests} requests, {self.tokens:,} tokens{cost}"


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


class ConsolidationCycle:
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
        """Create a cycle over a store.

        Args:
            plan_records: Returns the changes that saving records would make.
            model: The model; None for none.
            profile: Folder of the user's own prompts; None for those that ship.
        """
        self.model = model
        self.windows = WindowReader(
            writer.store, settings=settings, model="" if model is None else model.name
        )
        self._writer = writer.acting(ACTOR)
        self._store = writer.store
        self._clock = writer.clock
        self._settings = settings
        self.inbox = Inbox(self._writer)
        self.trust = trust = ModelTrust(self._writer)
        self._gatherer = InputGatherer(
            writer,
            settings=settings,
            plan_records=plan_records,
            profile=profile,
            # Not through `self`: a circle would keep a memory that nobody uses.
            is_trusted=lambda: None if model is None else trust.is_trusted(model.name),
        )

    # -- plans -------------------------------------------------------------------------------------------

    def plan(
        self,
        name: str = ALL,
        *,
        session: str | None = None,
        keep: int | None = None,
        output: str | None = None,
        step: str = "",
        scope: str = "",
        origin: Origin = "agent",
        ask: Ask | None = None,
    ) -> Plan:
        """Return the changes that a pass would make now; see `Worker.plan` for the arguments.

        Args:
            ask: Asks the model; None for the model of the memory.
        """
        ask = ask or self.ask
        if name != ALL and (not isinstance(name, str) or name not in PASSES):
            raise InvalidInput(f"pass is {quote_value(name)}: use one of {', '.join((ALL, *PASSES))}")
        registered = None if name == ALL else PASSES[name]
        inputs = () if registered is None else registered.inputs
        if "session" in inputs and (session is None or output is not None):
            raise InvalidInput(f"{name} is about a session: pass session=, and no output")
        if "session" not in inputs and (session is not None or keep is not None):
            raise InvalidInput(f"{name} is not about one session: leave out session and keep")
        if session is not None and not isinstance(session, str):
            raise InvalidInput(f"session is {quote_value(session)}: pass the id of a session")
        if "output" in inputs and not isinstance(output, str):
            raise InvalidInput(f"{name} is about what a step put out: pass output=, a text")
        if not {"session", "output"}.intersection(inputs) and (output is not None or step or scope):
            raise InvalidInput(f"{name} is not about an output: leave out output, step and scope")
        if registered is None:
            return self._plan_dream()
        if session is not None:
            return self._plan_window(registered, session, keep, ask)
        if output is not None:
            view = replace(
                self._gatherer.gather_basics(), output=output, step=step, scope=scope, origin=origin
            )
            return run_pass(registered.build(view), ask)
        return self._plan_together([name], limit_requests(ask))[0]

    def _plan_window(self, registered: Pass, session: str, keep: int | None, ask: Ask) -> Plan:
        """Return the plan of a pass over one session."""
        is_read = registered.name != read.NAME or (self._settings.remember and self.model is not None)
        window = self.windows.read(session, registered.name, keep=keep, is_read=is_read and ask == self.ask)
        flow = registered.build(self._gatherer.gather_session(registered, window))
        return run_pass(flow, ask if is_read else lambda _: NO_MODEL)

    def _plan_dream(self) -> Plan:
        plans: list[Plan] = []
        ask = limit_requests(self.ask)
        for names in _group_names(DREAM):
            plans += self._plan_together(names, ask, [change for plan in plans for change in plan.edits])

        def say(plan: Plan, why: str) -> str:
            return why and f"{plan.name}: {why}"

        named = [replace(p, skipped=say(p, p.skipped), failed=say(p, p.failed)) for p in plans]
        return combine_plans(self._gatherer.gather_basics(), ALL, named)

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
        if believed and self.model is not None:
            self.trust.note(self.model.name, is_believed=all(believed))
        if not all(believed):
            found[names[0]] = verify.withdraw_shown(self._gatherer.gather_shown(), found[names[0]])
        plans = [found[name] for name in names]
        touched: set[str] = set()

        def is_untouched(group: Sequence[PlanStep]) -> bool:
            return touched.isdisjoint(step.edit.id for step in group)

        for at, plan in enumerate(plans):
            steps = select_groups(plan.steps, is_untouched)
            plans[at] = replace(plan, steps=steps)
            touched |= {step.edit.id for step in steps}
        return plans

    def _plan_news(self, registered: Pass, planned: Sequence[Change] = ()) -> Flow[Plan]:
        """Return the plan of a pass over what has changed since it last ran.

        A pass that cannot do without a model leaves its cursor, so that what accumulates is considered
        later. For every other pass that is off, what happens meanwhile counts as considered.
        """
        off = self._explain_off(registered)
        if off and registered.without_model:
            return self._gatherer.gather_basics().build_plan(registered.name, skipped=off)
        news = self._gatherer.gather_news(registered)
        if not registered.without_model and not news.concerns(registered):
            nothing = "nothing is new"
            return self._gatherer.gather_basics().build_plan(registered.name, skipped=nothing)
        if off:
            plan = self._gatherer.gather_basics().build_plan(registered.name, skipped=off)
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

    def run(self, names: Iterable[str] = DREAM, *, dry_run: bool = False) -> list[PassOutcome]:
        """Run passes one after the other. One that fails does not stop the rest.

        Those whose claims are verified are planned together, so that they are one request.

        Args:
            dry_run: Whether to plan only.
        """
        ask = limit_requests(self.ask)
        outcomes: list[PassOutcome] = []
        with trace_workflow(self._settings, "reverie.dream"):
            for group in _group_names(names):
                made: dict[str, Plan] = {}
                for name in group:
                    make_plan = partial(self._plan_next, name, group, made, ask)
                    outcomes.append(self._run(name, make_plan, dry_run=dry_run))
        self.log_outcomes(outcomes)
        return outcomes

    def _plan_next(self, name: str, group: Sequence[str], made: dict[str, Plan], ask: Ask) -> Plan:
        """Return the plan of a pass, once from those of its group that were made together.

        Args:
            name: The pass.
            group: The passes that are planned together; the first of them makes the plans.
            made: Plans that were made together and not taken yet.
            ask: Asks the model within the limit of a dream.
        """
        if name == ALL:
            return self._plan_dream()
        if name == group[0] and not made:
            made |= zip(group, self._plan_together(group, ask), strict=True)
        plan = made.pop(name, None)
        return self._plan_together([name], ask)[0] if plan is None else plan

    def run_window(
        self,
        session: str,
        kind: WindowKind,
        *,
        keep: int | None = None,
        dry_run: bool = False,
        ask: Ask | None = None,
    ) -> PassOutcome:
        """Shorten the window of one session; see `Worker.run_window`.

        Args:
            ask: Asks the model; None for the model of the memory.
        """

        def plan() -> Plan:
            return self.plan(kind, session=session, keep=keep, ask=ask)

        outcome = self._run(kind, plan, counter=kind, dry_run=dry_run)
        self.log_outcomes([outcome])
        return outcome

    def _run(
        self, name: str, make_plan: Callable[[], Plan], *, dry_run: bool = False, counter: str = ""
    ) -> PassOutcome:
        with trace_workflow(self._settings, f"reverie.{name}") as span:
            outcome = self._run_pass(name, make_plan, dry_run=dry_run, counter=counter)
            span.set("reverie.outcome", outcome.state)
            if outcome.plan is not None:
                span.set("reverie.steps", len(outcome.plan.steps))
                span.count("reverie.dream.steps", len(outcome.plan.steps), outcome=outcome.state)
                span.count("reverie.dream.steps", len(outcome.plan.refused), outcome="refused")
            if outcome.state == "failed":
                span.fail(outcome.error or "unusable_answer")
            return outcome

    def _run_pass(
        self, name: str, make_plan: Callable[[], Plan], *, dry_run: bool, counter: str
    ) -> PassOutcome:
        now = self._clock()
        counter = f"{counter or f'dream.{name}'}.failed"
        try:
            applied = self._writer.retrying(
                lambda _: self.apply(make_plan(), dry_run=dry_run), attempts=_ATTEMPTS
            )
        except (ReverieError, OSError) as error:
            _log.warning("the pass %r failed: %s", name, error)
            self.count(counter)
            return PassOutcome.from_error(name, now, error)
        plan = applied.plan
        has_failed = plan.failed not in ("", LATER.why)
        if has_failed:
            self.count(counter)
        done = "planned" if dry_run else "applied"
        state = "failed" if has_failed else done if plan else "skipped"
        why = plan.failed if has_failed or not plan else ""
        why = why or ("" if plan else plan.skipped)
        return PassOutcome(name=name, at=now, state=state, why=why, plan=plan, batch=applied.batch)

    def has_news(self) -> bool:
        """Return whether anything has changed that some pass of a dream has not considered."""
        for name in DREAM:
            registered = PASSES[name]
            if registered.without_model and self._explain_off(registered):
                continue
            if self._gatherer.gather_news(registered).concerns(registered):
                return True
        return False

    def count_drafts(self) -> int:
        """Return how many drafts were saved since the last enrichment; 0 where none would be enriched."""
        registered = PASSES["enrich"]
        return 0 if self._explain_off(registered) else self._gatherer.count_drafts(registered)

    def _explain_off(self, registered: Pass) -> str:
        """Return why a pass does nothing now; empty if it does something."""
        if registered.setting and not getattr(self._settings, registered.setting):
            return f"{registered.setting} is off"
        return registered.without_model if self.model is None else ""

    def ask(self, request: ModelRequest) -> ModelReply | ModelFailure:
        """Ask the model. A failure is counted, logged and returned, never raised."""
        if self.model is None:
            return NO_MODEL
        limit = self._settings.monthly_tokens
        if limit is not None and self.read_usage().tokens >= limit:
            return ModelFailure(why=f"{LIMIT}: {limit:,}, see the setting `monthly_tokens`")
        try:
            request = redact_request(request, self._settings.redactor)
            reply = ask_model(self._settings, self.model, request)
        except ModelError as error:
            why = str(error)[:_LONGEST_WHY]  # a server may repeat the whole request
            why = f"{TIMEOUT}{why}" if isinstance(error, ModelTimeout) else why
            _log.warning("the model gave no answer for %s: %s", request.purpose, why)
            self.count(f"model.{request.purpose}.failed")
            return ModelFailure(why=why, refused=isinstance(error, ModelRefused))
        usage = reply.usage
        if usage.cost is None and (known := find_known_model(self.model.name)) is not None:
            usage = known.price.of(usage)
        self._note_usage(usage)
        return replace(reply, usage=usage)

    # -- cost --------------------------------------------------------------------------------------------

    def read_usage(self, month: str | None = None) -> MonthUsage:
        """Return what requests cost in a month; see `Worker.usage`."""
        month = f"{self._clock():%Y-%m}" if month is None else month
        if not _MONTH.fullmatch(month if isinstance(month, str) else ""):
            raise InvalidInput(f"month is {quote_value(month)}: pass a year and a month, such as 2026-03")
        counts = [self._store.count(f"model.{month}.{name}") for name in _USAGE]
        requests, read_tokens, written, cost = counts
        return MonthUsage(
            month=month, requests=requests, input_tokens=read_tokens, output_tokens=written, cost=cost / 1e6
        )

    def _note_usage(self, usage: TokenUsage) -> None:
        """Add the cost of a request to that of the month; the cost is stored in millionths of a dollar."""
        values = (usage.requests, usage.input_tokens, usage.output_tokens, round((usage.cost or 0) * 1e6))
        month = f"{self._clock():%Y-%m}"
        counts = {f"model.{month}.{name}": value for name, value in zip(_USAGE, values, strict=True) if value}
        try:
            self._writer.commit([], counts=counts)
        except StoreError as error:
            _log.warning("the cost of a request could not be stored: %s", error)

    def check_model(self) -> ExamReport:
        """Let the model take its exam, and store the result; see `Worker.check_model`."""
        if self.model is None:
            raise InvalidInput("No model is set. Name one with `--model` or the setting `model`.")
        report = take_exam(self.model.name, self.ask, self._gatherer.gather_basics())
        if not report.failed:
            self.trust.note_exam(report)
        return report

    def count(self, name: str) -> None:
        """Count a failure in the store; one that cannot be counted is logged."""
        try:
            self._writer.commit([], counts={name: 1})
        except StoreError as error:
            _log.warning("%s could not be counted: %s", name, error)

    # -- the log -----------------------------------------------------------------------------------------

    def log(self) -> list[dict[str, object]]:
        """Return the outcomes of the last cycles, the newest last."""
        text = self._store.cursor(LOG)
        return _parse_log(text) if text else []

    def log_outcomes(self, outcomes: Sequence[PassOutcome]) -> None:
        """Write outcomes of one dream into the log. An earlier entry about the same plan is replaced."""
        noted = [each for each in outcomes if each.state != "skipped" or _has_asked(each.plan)]
        dream = next((each.plan.id for each in noted if each.plan is not None), "")
        entries = [_to_log_entry(each, dream) for each in noted]
        if not entries:
            return
        plans = {entry["plan"] for entry in entries if entry["plan"]}

        def attempt(_: int) -> None:
            stored = self._store.cursor(LOG)
            kept = [
                entry for entry in (_parse_log(stored) if stored else []) if entry.get("plan") not in plans
            ]
            text = json.dumps([*kept, *entries][-_LONGEST_LOG:], ensure_ascii=False)
            self._writer.commit([], cursors={LOG: text}, expected={LOG: stored})

        try:
            retry_conflicts(attempt, read_state=lambda: self._store.cursor(LOG))
        except StoreUnavailable as error:
            _log.warning("the log of dreams could not be written: %s", error)

    def log_plan(self, plan: Plan, state: str, *, batch: int | None = None) -> None:
        """Write into the log what became of a plan."""
        why = plan.failed or ("" if plan else plan.skipped)
        state = "failed" if plan.failed else state if plan else "skipped"
        self.log_outcomes(
            [PassOutcome(name=plan.name, at=plan.made_at, state=state, why=why, plan=plan, batch=batch)]
        )


def _group_names(names: Iterable[str]) -> list[Sequence[str]]:
    """Return the names of passes in their order, in groups of those that are planned together."""
    names = list(names)
    if not set(VERIFIED) <= set(names):
        return [[name] for name in names]
    return [VERIFIED if name == VERIFIED[0] else [name] for name in names if name not in VERIFIED[1:]]


def drop_log_entries(text: str, is_unwanted: Callable[[str], bool]) -> str | None:
    """Return the stored log without the entries that contain unwanted text; None if none are left."""
    entries = [entry for entry in _parse_log(text) if not any(is_unwanted(str(x)) for x in entry.values())]
    return json.dumps(entries, ensure_ascii=False) if entries else None


def _parse_log(text: str) -> list[dict[str, object]]:
    try:
        entries = json.loads(text)
    except ValueError:
        _log.warning("the log of dreams cannot be read and is begun anew")
        return []
    return [entry for entry in entries if isinstance(entry, dict)]


def _has_asked(plan: Plan | None) -> bool:
    return plan is not None and bool(plan.refused or plan.usage.requests)


def _to_log_entry(outcome: PassOutcome, dream: str) -> dict[str, object]:
    """Return an outcome as the log has it, in words that no model chose."""
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
