"""Background thinking: one thread in a process does what is due, under a lease that one process has among all."""

from __future__ import annotations

import logging
import os
import secrets
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from reverie.consolidation.dreams import ALL, Dreams
from reverie.consolidation.gatherer import ACTOR, DREAM, PASSES, WindowKind
from reverie.consolidation.inbox import PassOutcome
from reverie.consolidation.pair_judge import PairJudge
from reverie.consolidation.values import PlanRecords
from reverie.context.window import build_remembered_cursor
from reverie.domain.conversation import SessionOverview
from reverie.domain.entry import Entry
from reverie.domain.errors import InvalidInput, ReverieError, StoreUnavailable, quote_value
from reverie.domain.record import validate_choice
from reverie.domain.text.timestamps import Clock, compute_next_run, format_time, parse_time
from reverie.domain.text.validation import validate_values
from reverie.llm.protocol import Model
from reverie.settings import Settings, Thinking
from reverie.stores.forks import ForkSafeLock
from reverie.stores.living_page import LivingPages
from reverie.stores.protocol import Store
from reverie.stores.redacting import get_server_store
from reverie.stores.telemetry import trace_workflow
from reverie.stores.writer import StoreWriter

_log = logging.getLogger("reverie")

ENRICH_AFTER = timedelta(seconds=30)
"""Quiet time before drafts are enriched, so that a burst is enriched at once."""

FIRST_PAUSE = timedelta(minutes=1)
"""Pause of all work after a failure. It doubles while something fails, up to `LONGEST_PAUSE`."""

LONGEST_PAUSE = timedelta(hours=1)

REMEMBERED = timedelta(days=7)
"""Greatest age of a conversation that is read or told in `HISTORY.md`; an older one was imported."""

LAST_CYCLE = "dream.last"
"""The store's cursor with the time of the last dream."""

LEASE = "lease:dream"
"""Namespace of the one entry that names the process at work, in a store that has no leases of its own."""

LEASE_TIME = timedelta(seconds=30)
"""Duration of a lease without renewal, such as after its owner was killed."""

LONGEST_PASS = timedelta(minutes=30)
"""Maximum time for which a lease is renewed in one run. After that, another process may take over."""

CLOCK_WAS_WRONG = timedelta(days=1)
"""Times further in the future were written by a clock that was wrong; nothing waits for them."""

_THINKING = "thinking"  # the cursor with the owner's choice
_EVERY_S = 5.0
_EXPIRY_PERIOD = timedelta(hours=1)
_MAX_ENTRIES = 200  # of the journal; more than one plan makes


_Task: TypeAlias = tuple[datetime, Callable[[], list[PassOutcome]]]
"""Something to do, and when it is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkReport:
    """Report of one run.

    Attributes:
        outcomes: Outcome of each pass and of each session's window.
        busy: Whether another process has the lease, so that nothing was done.
    """

    outcomes: tuple[PassOutcome, ...] = ()
    busy: bool = False


class Worker(Dreams):
    """Background thinking: plans, runs, and one thread that does what is due. Thread-safe.

    What is due is read from the store each time, so that the next process finds what one leaves undone.
    """

    def __init__(
        self,
        writer: StoreWriter,
        *,
        settings: Settings,
        plan_records: PlanRecords,
        model: Model | None = None,
        profile: Path | None = None,
        judge: PairJudge | None = None,
        living: LivingPages | None = None,
        expire: Callable[[], object] = lambda: None,
    ) -> None:
        """Create a worker.

        Args:
            plan_records: Returns the changes that saving records would make.
            model: The model; None for none.
            profile: Folder of the user's own prompts; None for those that ship.
            judge: Judge of changed records; None for a memory that cannot be written.
            living: The living pages; None for a memory that cannot be written.
            expire: Function that ends the records whose last day is over.
        """
        super().__init__(writer, settings=settings, plan_records=plan_records, model=model, profile=profile)
        self._judge = judge
        self._living = living
        self._expire = expire
        self._expired_at = datetime.min.replace(tzinfo=UTC)
        # What was seen when there was no work, and the time for which there is none.
        self._quiet: tuple[object, datetime, datetime] | None = None
        self._pause = timedelta()
        self._paused_until = self._expired_at
        self._lease = DreamLease(writer.store, clock=writer.clock)
        self._wake = threading.Event()
        self._thread: _WorkerThread | None = None
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

    # -- runs --------------------------------------------------------------------------------------------

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
            return WorkReport(outcomes=tuple(self._run_passes(names, dry_run=True)))
        with self._lease.hold() as leased:
            if not leased:
                return WorkReport(busy=True)
            self.judge_pending()
            outcomes = tuple(self._run_dream(names))
            self._compose_pages()
            return WorkReport(outcomes=outcomes)

    def judge_pending(self) -> int:
        """End or mark the records that newer ones have replaced, and return the number of judged records.

        A search does it for a few records, and a dream and the thread for all.
        """
        return 0 if self._judge is None else self._judge.judge_pending()

    # -- the thread --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread that does what is due, and looks every few seconds or at once after `wake`.

        A second call does nothing.
        """
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            self._thread = _WorkerThread(self, self._wake)
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
            thread.is_stopped = True
        self._wake.set()
        thread.join(timeout_s)
        return not thread.is_alive()

    def _is_stopped(self) -> bool:
        """Return whether the present thread is to end."""
        thread = threading.current_thread()
        return isinstance(thread, _WorkerThread) and thread.is_stopped

    def run_safely(self) -> bool:
        """Do what is due, and report what fails; return whether the thread is to go on."""
        if self._is_stopped():
            return False
        try:
            self.run_due()
        except Exception as error:  # noqa: BLE001 - the loop must outlive any bug
            if self._is_stopped() and isinstance(error, StoreUnavailable):
                return False  # the memory was closed during a long pass, which the next worker repeats
            _log.warning("background work failed and is tried again", exc_info=error)
            self._asker.count("worker.failed")
        return not self._is_stopped()

    # -- the work ----------------------------------------------------------------------------------------

    def run_due(self) -> WorkReport:
        """Do once what is due; do nothing if another process is doing it, or if nothing is recorded."""
        if not self._settings.is_recording:
            return WorkReport()
        self.judge_pending()
        if self._find_idle_time(timedelta(minutes=self._settings.dream_idle)) <= self._clock():
            self._compose_pages()
        if not self._find_due_work():
            return WorkReport()
        with self._lease.hold() as leased:
            if not leased:
                return WorkReport(busy=True)  # or it was done by another process before
            return WorkReport(outcomes=tuple(self._do(self._find_due_work())))

    def find_next_due(self) -> datetime | None:
        """Return when to look next, after `run_due` had nothing to do; None if nothing is due without a change."""
        times = [at for at, _ in self._iter_tasks()]
        if self._living is not None and self._living.has_news():
            times.append(self._find_idle_time(timedelta(minutes=self._settings.dream_idle)))
        return min(times, default=None)

    def _find_due_work(self) -> list[_Task]:
        """Return what is due, in the order in which it is done, looking only after a change, or when something is.

        Nothing is during a pause after a failure, unless a wrong clock made the pause.
        """
        if timedelta() < self._paused_until - self._clock() <= LONGEST_PAUSE:
            return []
        now, seen = self._clock(), (self._store.sequence(), self.thinking, len(self.kept_plans()))
        if self._quiet is not None and self._quiet[0] == seen and self._quiet[1] <= now < self._quiet[2]:
            return []
        tasks = list(self._iter_tasks())
        now = self._clock()  # some are due as of the time when they were found
        due = [task for task in tasks if task[0] <= now]
        if not due:
            self._quiet = (seen, now, min([*(at for at, _ in tasks), now + self._settings.idle]))
        return due

    def _iter_tasks(self) -> Iterator[_Task]:
        """Yield what is to be done, due or not."""
        yield from self._iter_session_tasks()
        yield from self._iter_dream_tasks()

    def _do(self, work: Iterable[_Task]) -> list[PassOutcome]:
        """Do the tasks one after the other, until the thread is told to stop; pause if one of them has failed."""
        outcomes: list[PassOutcome] = []
        for _, run in work:
            outcomes += [] if self._is_stopped() else run()
        has_failed = any(each.state == "failed" for each in outcomes)
        self._pause = min(2 * self._pause or FIRST_PAUSE, LONGEST_PAUSE) if has_failed else timedelta()
        self._paused_until = self._clock() + self._pause
        return outcomes

    def _compose_pages(self) -> None:
        """Compose the living pages of scopes that have changed."""
        if self._clock() - self._expired_at >= _EXPIRY_PERIOD:
            self._expired_at = self._clock()
            self._expire()
        if self._living is not None and self._living.has_news():
            self._living.compose_stale()

    # -- sessions ----------------------------------------------------------------------------------------

    def _iter_session_tasks(self) -> Iterator[_Task]:
        """Yield the tasks for sessions whose windows are too long, or that are over."""
        planned = {name for each in self.kept_plans() for name in each.plan.cursors}
        for overview in self._store.sessions():
            session = overview.state.id
            if (kind := self._gatherer.find_due(overview)) is not None:
                yield self._clock(), partial(self._shorten_window, session, kind)
            else:
                yield from self._iter_left_tasks(overview, planned)

    def _iter_left_tasks(self, overview: SessionOverview, planned: Collection[str]) -> Iterator[_Task]:
        """Yield what is to be done for a session once it is over.

        A model reads the new turns of this week, and what it failed to read. Without one a paragraph of history is made
        by rule.
        """
        session, now = overview.state.id, self._clock()
        ends_at = now if overview.state.status == "terminated" else overview.last_at + self._settings.idle
        reads = self._settings.remember and self._asker.model is not None and self.thinking != "off"
        reading = self._gatherer.read_state(session)
        if abs(now - overview.last_at) > REMEMBERED and not reading.is_waiting:
            return
        if reads and build_remembered_cursor(session) not in planned and reading.position < overview.turns:
            read_at = reading.again_at if reading.again_at and reading.is_paused(now) else ends_at
            yield max(read_at, ends_at), partial(self._read_session, session)
        is_told_by_rule = not (reads and self.thinking == "tidy") and not overview.state.scope
        if is_told_by_rule and self._gatherer.read_told(session) < overview.turns:
            yield ends_at, partial(self._tell_session, session)

    def _shorten_window(self, session: str, kind: WindowKind) -> list[PassOutcome]:
        """Shorten a window; the model takes part only if nobody has to be asked, and it has not failed lately."""
        is_asking = self.thinking == "tidy" and self._settings.memory_window > 0
        is_asking = is_asking and not self._gatherer.read_state(session).is_paused(self._clock())
        return [self.run_window(session, kind, is_asking=is_asking)]

    def _read_session(self, session: str) -> list[PassOutcome]:
        """Read a session; with `thinking = ask` what is learned waits for the owner. A failure is told by rule."""
        if self.thinking == "ask":
            return [self._keep(self.run_window(session, "read", dry_run=True))]
        outcome = self.run_window(session, "read")
        return [outcome, *(self._tell_session(session) if outcome.state == "failed" else ())]

    def _tell_session(self, session: str) -> list[PassOutcome]:
        """Write the paragraph of a session by rule; the outcome is of no interest unless it failed."""
        outcome = self.run_window(session, "read", is_asking=False)
        return [outcome] if outcome.state == "failed" else []

    # -- dreams ------------------------------------------------------------------------------------------

    def _run_dream(self, names: Sequence[str] = DREAM) -> list[PassOutcome]:
        outcomes = self._run_passes(names)
        self._record_dream()
        return outcomes

    def _run_reviewed_dream(self) -> list[PassOutcome]:
        """Keep the plan of a dream for the owner's decision."""
        with trace_workflow(self._settings, "reverie.dream"):
            outcome = self._keep(self._run(ALL, self._plan_dream, dry_run=True))
        self._record_dream()
        return [outcome]

    def _keep(self, outcome: PassOutcome) -> PassOutcome:
        """Keep a plan for the owner's decision, and return the outcome."""
        plan = outcome.plan
        try:
            if plan:
                self.keep_plan(plan)
                return replace(outcome, state="waiting")
            self._apply(plan)  # how far the journal was considered
        except InvalidInput as error:
            _log.warning("a plan cannot wait for the owner: %s", error)
            self._asker.count(f"dream.{plan.name}.failed")
            outcome = PassOutcome.from_error(plan.name, plan.made_at, error)
        self._note([outcome])
        return outcome

    def _find_dream_time(self) -> datetime | None:
        """Return when the next dream is due by interval or cron; None if none is."""
        schedule, interval, last = (
            self._settings.dream_schedule,
            self._settings.dream_interval,
            self._read_last_dream(),
        )
        if schedule is None:
            next_at = None if interval is None or last is None else last + timedelta(minutes=interval)
            return None if interval is None else next_at or self._clock()
        if last is None:
            self._record_dream()  # the schedule begins to count now
        return compute_next_run(schedule, last or self._clock())

    def _iter_dream_tasks(self) -> Iterator[_Task]:
        """Yield the dream, once nothing was written for a while, and before it drafts that are to be enriched.

        Whether a dream has work is found out when it is due.
        """
        now, dream_at = self._clock(), self._find_dream_time()
        is_waiting = any(each.plan.name in (ALL, *DREAM) for each in self.kept_plans())
        if self.thinking != "off" and dream_at is not None and not is_waiting:
            at = max(dream_at, self._find_idle_time(timedelta(minutes=self._settings.dream_idle)))
            if at > now or self._has_news():
                yield at, self._run_reviewed_dream if self.thinking == "ask" else self._run_dream
                if at <= now:
                    return
            elif self._settings.dream_schedule is not None:
                self._record_dream()  # there was nothing to do at the scheduled time: wait for the next one
        is_enriching = self.thinking == "tidy" and not self._explain_off(PASSES["enrich"])
        if is_enriching and self._gatherer.count_drafts():
            yield self._find_idle_time(ENRICH_AFTER), partial(self._run_passes, ["enrich"])

    def _find_idle_time(self, least: timedelta) -> datetime:
        """Return when only passes will have written for so long; now if that is long ago, or a clock was wrong."""
        newest, now = self._store.journal(limit=_MAX_ENTRIES, newest_first=True), self._clock()
        written = next((row.at for row in newest if row.actor != ACTOR), None)
        return now if written is None or written - now > CLOCK_WAS_WRONG else written + least

    def _read_last_dream(self) -> datetime | None:
        try:
            last = parse_time(self._store.cursor(LAST_CYCLE) or "", name=LAST_CYCLE)
        except InvalidInput:
            return None  # it counts as never
        return None if last - self._clock() > CLOCK_WAS_WRONG else last

    def _record_dream(self) -> None:
        now = self._clock()
        self._writer.commit([], at=now, cursors={LAST_CYCLE: format_time(now)})


class _WorkerThread(threading.Thread):
    """Thread of a worker. It runs until it is stopped, or until no program uses its memory."""

    def __init__(self, worker: Worker, wake: threading.Event) -> None:
        super().__init__(name="reverie-worker", daemon=True)
        self.is_stopped = False
        self._find = weakref.ref(worker, lambda _: wake.set())
        self._wake = wake

    def run(self) -> None:
        while (worker := self._find()) is not None and worker.run_safely():
            del worker  # while this thread waits, it must not keep the memory
            self._wake.wait(_EVERY_S)
            self._wake.clear()


# -- the lease -------------------------------------------------------------------------------------------


class DreamLease:
    """Lease in one store. Thread-safe."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._leases = get_server_store(store)
        self._clock = clock
        self._token = secrets.token_hex(6)
        self._lock = ForkSafeLock()  # the threads of a process work one after the other

    @property
    def _owner(self) -> str:
        """The name under which this process holds the lease; a forked one has another."""
        return f"{self._token}-{os.getpid()}"

    @contextmanager
    def hold(self) -> Iterator[bool]:
        """Hold the lease, renewed by a thread of its own. Yield False where another process has it."""
        with self._lock:
            token = self.take()
            if token is None:
                yield False
                return
            done = threading.Event()
            renewing = threading.Thread(target=self._renew, args=(done,), name="reverie-lease", daemon=True)
            renewing.start()
            try:
                with nullcontext() if self._leases is None else self._leases.fencing(token):
                    yield True
            finally:
                done.set()
                renewing.join()
                self._release()

    def _renew(self, done: threading.Event) -> None:
        every = LEASE_TIME / 3
        for _ in range(LONGEST_PASS // every):
            if done.wait(every.total_seconds()):
                return
            try:
                self.take()
            except ReverieError as error:
                _log.warning("the lease could not be renewed: %s", error)

    def take(self) -> int | None:
        """Take or renew the lease; return its token, 0 in a store without, None where another process has it."""
        if self._leases is not None:
            return self._leases.take_lease(self._owner, LEASE_TIME)
        now = self._clock()
        mine = Entry(namespace=LEASE, key=self._owner, data="", stored_at=now, expires_at=now + LEASE_TIME)
        held = self._store.entries(LEASE, now=now)
        wrong = [each.key for each in held if each.expires_at and each.expires_at - now > CLOCK_WAS_WRONG]
        self._store.drop_entries(LEASE, wrong)
        return 0 if self._store.put_entry(mine, capacity=1, now=now) else None

    def _release(self) -> None:
        try:
            if self._leases is not None:
                self._leases.release_lease(self._owner)
            else:
                self._store.drop_entries(LEASE, [self._owner])
        except ReverieError as error:
            _log.warning("the lease could not be given back; it ends by itself: %s", error)
