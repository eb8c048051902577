"""Background worker: one thread in a process, one owner among all processes."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal, TypeAlias, get_args

from reverie.consolidation.cycle import ALL, ApplyResult, ConsolidationCycle, MonthUsage, PassOutcome
from reverie.consolidation.gatherer import ACTOR, DueWindow, WindowKind
from reverie.consolidation.inbox import Verdict, WaitingPlan, read_answer
from reverie.consolidation.lease import CLOCK_WAS_WRONG, DreamLease, work_while_used
from reverie.consolidation.pair_judge import PairJudge
from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.requests import NO_MODEL
from reverie.consolidation.registry import DREAM
from reverie.consolidation.rule_learning import HistoryWriter, read_consolidated_position
from reverie.consolidation.trust import ExamReport
from reverie.context.retrieval import FRESH
from reverie.context.window import build_remembered_cursor
from reverie.domain.conversation import LONGEST_TURN, validate_session_id
from reverie.domain.errors import InvalidInput, ReverieError, quote_value
from reverie.domain.record import Origin, Record, validate_choice
from reverie.domain.text.timestamps import compute_next_run, format_time, parse_time
from reverie.domain.text.validation import validate_count, validate_raw_text, validate_values
from reverie.llm.protocol import TokenUsage
from reverie.settings import Settings, Thinking
from reverie.stores.forks import ForkSafeLock
from reverie.stores.living_page import LivingPages
from reverie.stores.protocol import RenewableStore
from reverie.stores.redacting import unwrap
from reverie.stores.writer import StoreWriter

_log = logging.getLogger("reverie")

ENRICH_AFTER = timedelta(seconds=30)
"""Quiet time before drafts are enriched, so that a burst is enriched at once."""

FIRST_PAUSE = timedelta(minutes=1)
"""Pause after a failure before the next try. Each further failure doubles it, up to `LONGEST_PAUSE`."""

LONGEST_PAUSE = timedelta(hours=1)

_LONGEST_INTERVAL_S = 86_400

LONGEST_RENEWAL_S = 10.0
"""Seconds in one run for words of an earlier analyzer, so that other work is not kept waiting."""

REMEMBERED = timedelta(days=7)
"""Greatest age of a conversation that is read for facts; an older one was imported."""

_THINKING = "thinking"  # the cursor with the owner's choice

LAST_CYCLE = "dream.last"
"""The store's cursor with the time of the last cycle."""

_EXPIRY_PERIOD = timedelta(hours=1)
_DueWork: TypeAlias = tuple[str, Callable[[], list[PassOutcome]]]
"""Name of a task, which pauses after a failure, and its function."""

_MOST_ENTRIES = 200  # of the journal; more than one plan makes


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkReport:
    """Report of one run.

    Attributes:
        outcomes: Outcome of each pass and of each session's window.
        busy: Whether another process has the lease, so that nothing was done.
        usage: Cost of its requests.
    """

    outcomes: tuple[PassOutcome, ...] = ()
    busy: bool = False

    @property
    def usage(self) -> TokenUsage:
        """The tokens of all requests of the plans."""
        plans = (each.plan for each in self.outcomes)
        return sum((plan.usage for plan in plans if plan is not None), TokenUsage())


class Worker:
    """Background thinking: plans, runs, and one thread that does what is due. Thread-safe.

    What is due is read from the store each time, so that the next process finds what one leaves undone.
    """

    def __init__(
        self,
        writer: StoreWriter,
        cycle: ConsolidationCycle,
        *,
        settings: Settings,
        conclude: Callable[[str], object] | None = None,
        judge: PairJudge | None = None,
        living: LivingPages | None = None,
        expire: Callable[[], object] = lambda: None,
    ) -> None:
        """Create a worker.

        Args:
            conclude: Function that saves what a session came to, by rule; None to leave idle sessions alone.
            judge: Judge of changed records; None for a memory that cannot be written.
            living: The living pages; None for a memory that cannot be written.
            expire: Function that ends the records whose last day is over.
        """
        self._expire = expire
        self._expired_at = datetime.min.replace(tzinfo=UTC)
        self._conclude = conclude
        self._judge = judge
        self._living = living
        self._nothing_left: tuple[int, datetime] | None = None  # as of a journal entry, until a time
        self._session_ends_at: datetime | None = None  # the first of those that are not over
        self.cycle = cycle
        self._writer = writer.acting(ACTOR)
        self._history = HistoryWriter(self._writer, settings=settings)
        self._store = writer.store
        self._leases = unwrap(writer.store)
        self._inbox = cycle.inbox
        self._clock = writer.clock
        self._settings = settings
        self._lease = DreamLease(writer.store, clock=writer.clock)
        self._wake = threading.Event()
        self._stopped = weakref.WeakSet[threading.Thread]()  # threads that are to end, one after the other
        self._thread: threading.Thread | None = None
        self._pauses: dict[str, tuple[datetime, timedelta]] = {}
        self._has_renewed = not isinstance(self._leases, RenewableStore)
        self._nothing_due_at = -1  # number of the last journal entry when no session was due
        self._lock = ForkSafeLock()

    @property
    def thinking(self) -> Literal["ask", "tidy", "off"]:
        """What background work may do automatically: the owner's choice, else the setting."""
        chosen = self._store.cursor(_THINKING)
        return next((each for each in get_args(Thinking) if each == chosen), self._settings.thinking)

    def set_thinking(self, thinking: Thinking) -> None:
        """Store what background work may do automatically, for all processes; it precedes the setting."""
        validate_choice(thinking, get_args(Thinking), name="thinking")
        self._writer.commit([], cursors={_THINKING: thinking})

    # -- plans and runs ----------------------------------------------------------------------------------

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
    ) -> Plan:
        """Return the changes that a pass would make now. Print them; nothing but the log is written before `apply`.

        Args:
            name: `enrich`, `verify`, `tidy`, `preferences` or `promote`; `dream` for all of them as one plan; `read`
                for the new turns of a session, `compact` or `trim` for its window; `extract` for the findings,
                insights and lessons in the output of a step of work.
            session: Session that is read or whose window is shortened, for `read`, `compact` and `trim`.
            keep: How many of its turns stay, 0 or more; None takes what the settings say.
            output: Output of the step, for `extract`. Nothing is learned from less than 50 characters, and
                only the first 4,000 are read.
            step: Name of the step, such as `GOAL:deploy`, for `extract`.
            scope: Scope of the records that are extracted.
            origin: Whose word the output is, for `extract`. What `tool` or `web` says is found by search, but
                never put into a prompt unasked.

        Raises:
            InvalidInput: there is no such pass, or it was not given what it needs, or more.
            NotFound: there is no such session.
        """
        plan = self.cycle.plan(
            name, session=session, keep=keep, output=output, step=step, scope=scope, origin=origin
        )
        self.cycle.log_plan(plan, "planned")
        return plan

    def apply(self, plan: Plan) -> ApplyResult:
        """Make the changes of a plan, all of them or none. `undo` takes them back, given the result.

        Raises:
            Conflict: something that it would change has changed since it was made: plan again.
        """
        result = self.cycle.apply(plan)
        self.cycle.log_plan(plan, "applied", batch=result.batch)
        return result

    def run(self, names: Sequence[str] = DREAM, *, dry_run: bool = False) -> WorkReport:
        """Run passes of a dream now, due or not.

        Args:
            names: The passes, in this order.
            dry_run: Whether to plan only; this needs no lease.

        Raises:
            InvalidInput: there is no such pass of a dream; nothing was run.
        """
        names = validate_values(names, name="names", of="passes")
        if unknown := [name for name in names if name not in DREAM]:
            raise InvalidInput(f"pass is {quote_value(unknown[0])}: use one of {', '.join(DREAM)}")
        if dry_run:
            return WorkReport(outcomes=tuple(self.cycle.run(names, dry_run=True)))
        with self._lease.hold() as leased:
            if not leased:
                return WorkReport(busy=True)
            self.judge_pending()
            outcomes = tuple(self._run_dream(names))
            self._compose_pages()
            return WorkReport(outcomes=outcomes)

    def run_window(self, session: str, kind: WindowKind, *, keep: int | None = None) -> PassOutcome:
        """Shorten the window of one session now.

        Args:
            kind: `read`, which also reads its new turns for what is to be remembered, `compact` or `trim`.
            keep: How many turns stay, 0 or more; None takes what the settings say.

        Raises:
            InvalidInput: an argument is not of its form; nothing was run.
        """
        validate_session_id(session)
        validate_choice(kind, get_args(WindowKind), name="kind")
        if keep is not None:
            validate_count(keep, name="keep", least=0)
        return self.cycle.run_window(session, kind, keep=keep)

    def judge_pending(self) -> int:
        """End or mark the records that newer ones have replaced, and return the number of judged records.

        A search does it for a few records, and a dream and the thread for all.
        """
        return 0 if self._judge is None else self._judge.judge_pending()

    def _compose_pages(self) -> None:
        """Compose the living pages of scopes that have changed."""
        if self._clock() - self._expired_at >= _EXPIRY_PERIOD:
            self._expired_at = self._clock()
            self._expire()
        if self._living is not None and self._living.has_news():
            self._living.compose_stale()

    def usage(self, month: str | None = None) -> MonthUsage:
        """Return the cost of the requests of background thinking in a month; each dream's own cost is in `log`.

        Args:
            month: The month, such as `2026-03`; None for the present one.

        Raises:
            InvalidInput: it is not of that form.
        """
        return self.cycle.read_usage(month)

    def check_model(self) -> ExamReport:
        """Let the model take a fixed exam of 40 claims, right and wrong ones, and store the result.

        A model that passes is believed where a dream cannot make controls of its claims. One that fails is not.

        Raises:
            InvalidInput: no model is set.
        """
        return self.cycle.check_model()

    def log(self) -> list[dict[str, object]]:
        """Return the outcomes of the last dreams, the newest last."""
        return self.cycle.log()

    # -- the inbox ---------------------------------------------------------------------------------------

    def keep_plan(self, plan: Plan) -> WaitingPlan:
        """Store a plan until the owner decides it. At most 20 plans wait, for thirty days.

        Raises:
            InvalidInput: it is too large to wait.
        """
        if not isinstance(plan, Plan):
            raise InvalidInput(f"plan is {type(plan).__name__}: pass what `plan` returned")
        waiting = self._inbox.add(plan)
        self.cycle.log_plan(plan, "waiting")
        return waiting

    def kept_plans(self) -> list[WaitingPlan]:
        """Return the stored plans, the newest first. Of a decided plan, only the decision is stored."""
        return list(self._inbox.plans())

    def proposals(self) -> list[Record]:
        """Return the records that passes propose and the owner has not decided, the newest first.

        A proposal is in no search and in no prompt before it is accepted.
        """
        return self._inbox.proposals()

    def kept_plan(self, id: str) -> WaitingPlan:
        """Return the stored plan of that id.

        Raises:
            NotFound: there is no such plan, or no longer.
        """
        return self._inbox.get(id)

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
        before, after = (
            self._inbox.get(id),
            self._inbox.decide(id, verdict, groups=groups, reason=reason, actor=actor),
        )
        if before.record is None:
            state = "waiting" if after.open else "applied" if after.batches else "rejected"
            self.cycle.log_plan(before.plan, state, batch=max(after.batches, default=None))
        return after

    def ask(self, *, scope: str = "") -> Record | None:
        """Return the newest proposal of a scope that the owner was not asked about yet; None without one.

        Each is returned once. Show its content to the owner, outside of any prompt, and pass their answer to `answer`.

        Args:
            scope: Whose proposals; only those of exactly this scope are returned.
        """
        return self._inbox.ask(scope)

    def answer(self, id: str, text: str) -> WaitingPlan | None:
        """Decide a proposal by the owner's answer when asked about it.

        Args:
            id: The proposal that was shown.
            text: The answer. A plain yes accepts the proposal, a plain no rejects it.

        Returns:
            The decided proposal; None if the answer is anything else, and the proposal waits.

        Raises:
            NotFound: there is no such proposal.
        """
        verdict = read_answer(validate_raw_text(text, name="text", longest=LONGEST_TURN, empty=True))
        return None if verdict is None else self.decide(id, verdict)

    # -- the thread --------------------------------------------------------------------------------------

    def start(self, *, every_s: float = 5.0) -> None:
        """Start the thread that does what is due. A second call does nothing.

        Args:
            every_s: Seconds between two looks, over 0 and up to a day; `wake` makes it look at once.

        Raises:
            InvalidInput: `every_s` is not such a number.
        """
        if not (isinstance(every_s, int | float) and 0 < every_s <= _LONGEST_INTERVAL_S):
            raise InvalidInput(
                f"every_s is {quote_value(every_s)}: it is a number over 0 and up to {_LONGEST_INTERVAL_S:,}"
            )
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            wake = self._wake
            find = weakref.ref(self, lambda _: wake.set())
            self._thread = threading.Thread(
                target=work_while_used,
                args=(find, wake, every_s, list(self._stopped)),
                name="reverie-worker",
                daemon=True,
            )
            self._thread.start()

    def wake(self) -> None:
        """Make the thread look for work now, and return at once."""
        self._wake.set()

    def stop(self, *, timeout_s: float = 10.0) -> bool:
        """Stop the thread after the pass that it is in.

        Args:
            timeout_s: How many seconds to wait for it.

        Returns:
            Whether it has ended. Otherwise the next worker repeats what it was doing.
        """
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is None:
                return True
            self._stopped.add(thread)
        self._wake.set()
        thread.join(timeout_s)
        return not thread.is_alive()

    def _is_stopped(self) -> bool:
        """Return whether the present thread is to end."""
        return threading.current_thread() in self._stopped

    def run_safely(self) -> bool:
        """Do what is due, and report what fails; return whether the thread is to go on."""
        if self._is_stopped():
            return False
        try:
            self.run_due()
        except Exception as error:  # noqa: BLE001 - the loop must outlive any bug
            _log.warning("background work failed and is tried again", exc_info=error)
            self.cycle.count("worker.failed")
        return not self._is_stopped()

    # -- the work ----------------------------------------------------------------------------------------

    def run_due(self) -> WorkReport:
        """Do once what is due; do nothing if another process is doing it, or if nothing is recorded."""
        if not self._settings.is_recording:
            return WorkReport()
        self.judge_pending()
        if not self._reads:
            self._history.write()
        if self._is_idle(self._clock(), timedelta(minutes=self._settings.dream_idle)):
            self._compose_pages()
        if not self._find_due_work():
            return WorkReport()
        with self._lease.hold() as leased:
            if not leased:
                return WorkReport(busy=True)  # or it was done by another process before
            report = WorkReport(outcomes=tuple(self._do(self._find_due_work())))
            if any(each.name == "read" and each.state == "failed" for each in report.outcomes):
                self._history.write()
            return report

    @property
    def _reads(self) -> bool:
        """Whether a model reads conversations and writes their paragraphs of history."""
        is_on = self._settings.remember and self.thinking == "tidy"
        return is_on and self.cycle.model is not None

    def _find_due_work(self) -> list[_DueWork]:
        """Return what is due, in the order in which it is done."""
        work: list[_DueWork] = []
        for each in self._find_due_sessions():
            work.append((f"session {each.session}", partial(self._run_one, each.session, each.kind)))
        work += self._find_left_sessions()
        if self.thinking != "off":
            if self.is_dream_due():
                is_asking = self.thinking == "ask"
                work.append(("enrich", self._run_reviewed_dream if is_asking else self._run_dream))
            elif self.thinking == "tidy" and self.is_enriching_due():
                work.append(("enrich", partial(self.cycle.run, ["enrich"])))
        if self._has_earlier_words():
            work.append(("words", self._renew_words))
        return work

    def _do(self, work: Iterable[_DueWork]) -> Iterator[PassOutcome]:
        """Do the tasks one after the other, and yield the outcomes; end when the thread is told to stop."""
        for name, run in work:
            if self._is_stopped():
                return
            outcomes = run()
            self._record_outcome(name, next((each for each in outcomes if each.name == name), outcomes[0]))
            yield from outcomes

    def _run_one(self, session: str, kind: WindowKind) -> list[PassOutcome]:
        """Read or shorten a window; with `thinking = ask` what is learned waits for the owner."""
        if kind == "read" and self.thinking == "ask":
            return [self._keep(self.cycle.run_window(session, kind, dry_run=True))]
        ask = None if self.thinking == "tidy" else (lambda _: NO_MODEL)
        return [self.cycle.run_window(session, kind, ask=ask)]

    def _find_due_sessions(self) -> list[DueWindow]:
        """Return the sessions whose windows are due, looking only when something has changed."""
        sequence = self._store.sequence()
        if sequence == self._nothing_due_at:
            return []
        due = list(self.cycle.windows.due())
        if not due:
            self._nothing_due_at = sequence
        return [each for each in due if not self._is_paused(f"session {each.session}")]

    def _find_left_sessions(self) -> list[_DueWork]:
        """Return the tasks for sessions that are over: a model reads their new turns, or a rule summarises them.

        The model reads those of this week, also when they were ended; the rule those of today, after the idle time.
        """
        reads = self._settings.remember and self.cycle.model is not None and self.thinking != "off"
        if not reads and (self._conclude is None or not self._settings.learn):
            return []
        now, sequence, known = self._clock(), self._store.sequence(), self._nothing_left
        if known is not None and known[0] == sequence and now < known[1]:
            return []
        waiting_plans = {name for each in self._inbox.plans() if each.open for name in each.plan.cursors}
        find_done = (
            self.cycle.windows.read_remembered_position
            if reads
            else partial(read_consolidated_position, self._store)
        )
        left: list[str] = []
        waiting: list[datetime] = []
        for overview in self._store.sessions():
            state, due_at = overview.state, overview.last_at + self._settings.idle
            if abs(now - overview.last_at) > (REMEMBERED if reads else FRESH):
                continue
            if find_done(state.id) >= overview.turns or build_remembered_cursor(state.id) in waiting_plans:
                continue
            if due_at <= now or (reads and state.status == "terminated"):
                left.append(state.id)
            else:
                waiting.append(due_at)
        self._session_ends_at = min(waiting, default=None)
        if not left:
            self._nothing_left = (sequence, min([*waiting, now + self._settings.idle]))
        if reads:
            work = [(f"read {session}", partial(self._run_one, session, "read")) for session in left]
        else:
            work = [(f"idle {session}", partial(self._conclude_session, session)) for session in left]
        return [(name, run) for name, run in work if not self._is_paused(name)]

    def _conclude_session(self, session: str) -> list[PassOutcome]:
        assert self._conclude is not None
        now = self._clock()
        try:
            self._conclude(session)
        except ReverieError as error:
            _log.warning("session %r could not be summarised: %s", session, error)
            self.cycle.count("conclude.failed")
            return [PassOutcome.from_error("conclude", now, error)]
        return [PassOutcome(name="conclude", at=now, state="applied")]

    def _has_earlier_words(self) -> bool:
        """Return whether words for search are to be renewed; the store is not asked again once none are."""
        if isinstance(self._leases, RenewableStore) and not self._has_renewed:
            self._has_renewed = not self._leases.has_earlier_words()
        return not self._has_renewed and not self._is_paused("words")

    def _renew_words(self) -> list[PassOutcome]:
        """Renew words for search for at most `LONGEST_RENEWAL_S`; the next run, in any process, continues."""
        assert isinstance(self._leases, RenewableStore)
        now, until = self._clock(), time.monotonic() + LONGEST_RENEWAL_S
        try:
            while self._leases.renew_words() and time.monotonic() < until and not self._is_stopped():
                pass
        except ReverieError as error:
            _log.warning("words for search could not be renewed: %s", error)
            return [PassOutcome.from_error("words", now, error)]
        return [PassOutcome(name="words", at=now, state="applied")]

    def find_next_due(self) -> datetime | None:
        """Return when to look next, after `run_due` had nothing to do; None if nothing is due without a change."""
        settings, times = self._settings, [] if self._session_ends_at is None else [self._session_ends_at]
        written = self._find_last_writing()
        idle_since = self._clock() if written is None else written
        if self.thinking == "tidy" and self.cycle.count_drafts():
            times.append(idle_since + ENRICH_AFTER)
        if self._living is not None and self._living.has_news():
            times.append(idle_since + timedelta(minutes=settings.dream_idle))
        is_dreaming = self.thinking != "off" and not self._has_waiting_dream()
        if (
            is_dreaming
            and (settings.dream_schedule or settings.dream_interval is not None)
            and self.cycle.has_news()
        ):
            last, least = self._read_last_cycle(), idle_since + timedelta(minutes=settings.dream_idle)
            if last is None:
                times.append(least)
            elif settings.dream_schedule:
                times.append(max(least, compute_next_run(settings.dream_schedule, last)))
            else:
                times.append(max(least, last + timedelta(minutes=settings.dream_interval or 0)))
        return min(times, default=None)

    def is_dream_due(self) -> bool:
        """Return whether a dream is due by interval or cron, has work, and nothing was written for a while."""
        now = self._clock()
        last = self._read_last_cycle()
        schedule = self._settings.dream_schedule
        if schedule is not None:
            if last is None or compute_next_run(schedule, last) > now:
                if last is None:
                    self._record_cycle(now)  # the schedule begins to count now
                return False
        elif self._settings.dream_interval is None or (
            last is not None and now - last < timedelta(minutes=self._settings.dream_interval)
        ):
            return False
        if not self._is_idle(now, timedelta(minutes=self._settings.dream_idle)):
            return False
        if self._has_waiting_dream():
            return False
        if self.cycle.has_news():
            return True
        if schedule is not None:
            # There was nothing to do at the scheduled time: wait for the next one.
            self._record_cycle(now)
        return False

    def is_enriching_due(self) -> bool:
        """Return whether there are drafts to enrich, and nothing was written for half a minute."""
        if self._is_paused("enrich") or not self.cycle.count_drafts():
            return False
        return self._is_idle(self._clock(), ENRICH_AFTER)

    def _is_paused(self, what: str) -> bool:
        """Return whether something failed so recently that it is left alone."""
        until, _ = self._pauses.get(what, (None, None))
        return until is not None and timedelta() < until - self._clock() <= LONGEST_PAUSE

    def _record_outcome(self, what: str, outcome: PassOutcome) -> None:
        """Set or clear the pause after a failure."""
        if outcome.state != "failed":
            self._pauses.pop(what, None)
            return
        before = self._pauses.get(what)
        pause = FIRST_PAUSE if before is None else min(2 * before[1], LONGEST_PAUSE)
        self._pauses[what] = (self._clock() + pause, pause)

    def _run_dream(self, names: Sequence[str] = DREAM) -> list[PassOutcome]:
        outcomes = self.cycle.run(names)
        self._record_cycle(self._clock())
        return outcomes

    def _run_reviewed_dream(self) -> list[PassOutcome]:
        """Keep the plan of a dream for the owner's decision."""
        (dreamed,) = self.cycle.run([ALL], dry_run=True)
        dreamed = self._keep(dreamed)
        self._record_cycle(self._clock())
        return [dreamed]

    def _keep(self, outcome: PassOutcome) -> PassOutcome:
        """Keep a plan for the owner's decision, and return the outcome."""
        plan = outcome.plan
        if plan is None:
            return outcome
        try:
            if not plan:
                self.cycle.apply(plan)  # how far the journal was considered
                return outcome
            self._inbox.add(plan)
            outcome = replace(outcome, state="waiting")
        except InvalidInput as error:
            _log.warning("a plan cannot wait for the owner: %s", error)
            self.cycle.count(f"dream.{plan.name}.failed")
            outcome = PassOutcome.from_error(plan.name, outcome.at, error)
        self.cycle.log_outcomes([outcome])
        return outcome

    def _has_waiting_dream(self) -> bool:
        """Return whether a plan of a dream waits for the owner, such as one that was made on the web UI."""
        return any(each.plan.name in (ALL, *DREAM) and each.open for each in self._inbox.plans())

    def _is_idle(self, now: datetime, least: timedelta) -> bool:
        return (written := self._find_last_writing()) is None or now - written >= least

    def _find_last_writing(self) -> datetime | None:
        """Return when anything but a pass last wrote; None if that is long ago, or by a clock that was wrong."""
        newest = self._store.journal(limit=_MOST_ENTRIES, newest_first=True)
        at = next((row.at for row in newest if row.actor != ACTOR), None)
        return None if at is None or at - self._clock() > CLOCK_WAS_WRONG else at

    def _read_last_cycle(self) -> datetime | None:
        text = self._store.cursor(LAST_CYCLE)
        if text is None:
            return None
        try:
            last = parse_time(text, name=LAST_CYCLE)
        except InvalidInput:
            _log.warning("when the last cycle was cannot be read; it counts as never")
            return None
        return None if last - self._clock() > CLOCK_WAS_WRONG else last

    def _record_cycle(self, now: datetime) -> None:
        self._writer.commit([], at=now, cursors={LAST_CYCLE: format_time(now)})
