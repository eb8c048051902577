"""Background thinking: plans and runs of passes, and one thread in a process that does what is due."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from reverie.consolidation.dreams import ALL, Dreams
from reverie.consolidation.gatherer import ACTOR, WindowKind
from reverie.consolidation.inbox import PassOutcome
from reverie.consolidation.lease import CLOCK_WAS_WRONG, DreamLease
from reverie.consolidation.pair_judge import PairJudge
from reverie.consolidation.plan import Plan
from reverie.consolidation.registry import DREAM
from reverie.consolidation.rule_learning import read_consolidated_position
from reverie.context.retrieval import FRESH
from reverie.context.window import build_remembered_cursor
from reverie.domain.change import Change
from reverie.domain.conversation import SessionOverview
from reverie.domain.errors import InvalidInput, ReverieError, quote_value
from reverie.domain.record import Record, validate_choice
from reverie.domain.text.timestamps import compute_next_run, format_time, parse_time
from reverie.domain.text.validation import validate_values
from reverie.llm.protocol import Model
from reverie.repositories.records import NewRecord
from reverie.settings import Settings, Thinking
from reverie.stores.forks import ForkSafeLock
from reverie.stores.living_page import LivingPages
from reverie.stores.writer import StoreWriter

_log = logging.getLogger("reverie")

ENRICH_AFTER = timedelta(seconds=30)
"""Quiet time before drafts are enriched, so that a burst is enriched at once."""

FIRST_PAUSE = timedelta(minutes=1)
"""Pause after a failure before the next try. Each further failure doubles it, up to `LONGEST_PAUSE`."""

LONGEST_PAUSE = timedelta(hours=1)

REMEMBERED = timedelta(days=7)
"""Greatest age of a conversation that is read or told in `HISTORY.md`; an older one was imported."""

LAST_CYCLE = "dream.last"
"""The store's cursor with the time of the last dream."""

_THINKING = "thinking"  # the cursor with the owner's choice
_LONGEST_INTERVAL_S = 86_400
_EXPIRY_PERIOD = timedelta(hours=1)
_MAX_ENTRIES = 200  # of the journal; more than one plan makes

_DueWork: TypeAlias = tuple[str, Callable[[], list[PassOutcome]]]
"""Name of a task, which pauses after a failure, and its function."""


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
        plan_records: Callable[[Sequence[NewRecord | Record]], Sequence[Change]],
        model: Model | None = None,
        profile: Path | None = None,
        conclude: Callable[[str], object] | None = None,
        judge: PairJudge | None = None,
        living: LivingPages | None = None,
        expire: Callable[[], object] = lambda: None,
    ) -> None:
        """Create a worker.

        Args:
            plan_records: Returns the changes that saving records would make.
            model: The model; None for none.
            profile: Folder of the user's own prompts; None for those that ship.
            conclude: Function that saves what a session came to, by rule; None to leave idle sessions alone.
            judge: Judge of changed records; None for a memory that cannot be written.
            living: The living pages; None for a memory that cannot be written.
            expire: Function that ends the records whose last day is over.
        """
        super().__init__(writer, settings=settings, plan_records=plan_records, model=model, profile=profile)
        self._conclude = conclude
        self._judge = judge
        self._living = living
        self._expire = expire
        self._expired_at = datetime.min.replace(tzinfo=UTC)
        self._no_session_due: tuple[int, datetime] | None = None  # as of a journal entry, until a time
        self._session_ends_at: datetime | None = None  # the first of those that are not over
        self._pauses: dict[str, tuple[datetime, timedelta]] = {}
        self._lease = DreamLease(writer.store, clock=writer.clock)
        self._wake = threading.Event()
        self._stopped = weakref.WeakSet[threading.Thread]()  # threads that are to end, one after the other
        self._thread: threading.Thread | None = None
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
                target=_work_while_used,
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
            self._asker.count("worker.failed")
        return not self._is_stopped()

    # -- the work ----------------------------------------------------------------------------------------

    def run_due(self) -> WorkReport:
        """Do once what is due; do nothing if another process is doing it, or if nothing is recorded."""
        if not self._settings.is_recording:
            return WorkReport()
        self.judge_pending()
        if self._is_idle(timedelta(minutes=self._settings.dream_idle)):
            self._compose_pages()
        if not self._find_due_work():
            return WorkReport()
        with self._lease.hold() as leased:
            if not leased:
                return WorkReport(busy=True)  # or it was done by another process before
            return WorkReport(outcomes=tuple(self._do(self._find_due_work())))

    def find_next_due(self) -> datetime | None:
        """Return when to look next, after `run_due` had nothing to do; None if nothing is due without a change."""
        settings, times = self._settings, [] if self._session_ends_at is None else [self._session_ends_at]
        idle_since = self._find_last_writing() or self._clock()
        idle_at = idle_since + timedelta(minutes=settings.dream_idle)
        if self.thinking == "tidy" and self._count_drafts():
            times.append(idle_since + ENRICH_AFTER)
        if self._living is not None and self._living.has_news():
            times.append(idle_at)
        due_at = self._find_dream_time()
        if self.thinking != "off" and due_at is not None and not self._has_waiting_dream():
            times += [max(idle_at, due_at)] if self._has_news() else []
        return min(times, default=None)

    def _find_due_work(self) -> list[_DueWork]:
        """Return what is due, in the order in which it is done."""
        work = self._find_session_work()
        if self.thinking != "off" and self._is_dream_due():
            work.append(("enrich", self._run_reviewed_dream if self.thinking == "ask" else self._run_dream))
        elif self.thinking == "tidy" and self._count_drafts() and self._is_idle(ENRICH_AFTER):
            work.append(("enrich", partial(self._run_passes, ["enrich"])))
        return [(name, run) for name, run in work if not self._is_paused(name)]

    def _do(self, work: Iterable[_DueWork]) -> Iterator[PassOutcome]:
        """Do the tasks one after the other, and yield the outcomes; end when the thread is told to stop."""
        for name, run in work:
            if self._is_stopped():
                return
            outcomes = run()
            failed = any(each.state == "failed" for each in outcomes if name != "enrich" or each.name == name)
            before = self._pauses.pop(name, None)
            if failed:
                pause = FIRST_PAUSE if before is None else min(2 * before[1], LONGEST_PAUSE)
                self._pauses[name] = (self._clock() + pause, pause)
            yield from outcomes

    def _is_paused(self, what: str) -> bool:
        """Return whether something failed so recently that it is left alone."""
        until, _ = self._pauses.get(what, (None, None))
        return until is not None and timedelta() < until - self._clock() <= LONGEST_PAUSE

    def _compose_pages(self) -> None:
        """Compose the living pages of scopes that have changed."""
        if self._clock() - self._expired_at >= _EXPIRY_PERIOD:
            self._expired_at = self._clock()
            self._expire()
        if self._living is not None and self._living.has_news():
            self._living.compose_stale()

    # -- sessions ----------------------------------------------------------------------------------------

    def _find_session_work(self) -> list[_DueWork]:
        """Return the tasks for sessions whose windows are too long, or that are over, looking only after a change."""
        now, sequence, known = self._clock(), self._store.sequence(), self._no_session_due
        if known is not None and known[0] == sequence and now < known[1]:
            return []
        work: list[_DueWork] = []
        waiting: list[datetime] = []
        planned = {name for each in self.kept_plans() for name in each.plan.cursors}
        for overview in self._store.sessions():
            session = overview.state.id
            if (kind := self._windows.find_due(overview)) is not None:
                work.append((f"session {session}", partial(self._shorten_window, session, kind)))
            elif tasks := list(self._find_left_work(overview, now, planned, waiting)):
                ends_at = overview.last_at + self._settings.idle
                if ends_at > now and overview.state.status != "terminated":
                    waiting.append(ends_at)
                else:
                    work += tasks
        self._session_ends_at = min(waiting, default=None)
        if not work:
            self._no_session_due = (sequence, min([*waiting, now + self._settings.idle]))
        return work

    def _find_left_work(
        self, overview: SessionOverview, now: datetime, planned: Collection[str], waiting: list[datetime]
    ) -> Iterator[_DueWork]:
        """Yield what is to be done for a session once it is over, and note when a reading that failed is due again.

        A model reads the new turns of this week, and what it failed to read. Without one, a paragraph of history and a
        summary are made by rule.
        """
        session, age = overview.state.id, abs(now - overview.last_at)
        reads = self._settings.remember and self._asker.model is not None and self.thinking != "off"
        reading = self._windows.read_state(session)
        if age > REMEMBERED and not reading.is_waiting:
            return
        if reads and build_remembered_cursor(session) not in planned and reading.position < overview.turns:
            if not reading.is_paused(now):
                yield f"read {session}", partial(self._read_session, session)
            elif reading.again_at is not None:
                waiting.append(reading.again_at)
        is_told_by_rule = not (reads and self.thinking == "tidy") and not overview.state.scope
        if is_told_by_rule and self._windows.read_told(session) < overview.turns:
            yield f"tell {session}", partial(self._tell_session, session)
        is_learned = read_consolidated_position(self._store, session) >= overview.turns
        is_concluding = self._conclude is not None and self._settings.learn and not reads
        if (
            is_concluding
            and age <= FRESH
            and now >= overview.last_at + self._settings.idle
            and not is_learned
        ):
            yield f"idle {session}", partial(self._conclude_session, session)

    def _shorten_window(self, session: str, kind: WindowKind) -> list[PassOutcome]:
        """Shorten a window; the model takes part only if nobody has to be asked, and it has not failed lately."""
        is_paused = self._windows.read_state(session).is_paused(self._clock())
        return [self._run_window(session, kind, is_asking=self.thinking == "tidy" and not is_paused)]

    def _read_session(self, session: str) -> list[PassOutcome]:
        """Read a session; with `thinking = ask` what is learned waits for the owner. A failure is told by rule."""
        if self.thinking == "ask":
            return [self._keep(self._run_window(session, "read", dry_run=True))]
        outcome = self._run_window(session, "read")
        return [outcome, *(self._tell_session(session) if outcome.state == "failed" else ())]

    def _tell_session(self, session: str) -> list[PassOutcome]:
        """Write the paragraph of a session by rule; the outcome is of no interest unless it failed."""
        outcome = self._run_window(session, "read", is_asking=False)
        return [outcome] if outcome.state == "failed" else []

    def _conclude_session(self, session: str) -> list[PassOutcome]:
        assert self._conclude is not None
        now = self._clock()
        try:
            self._conclude(session)
        except ReverieError as error:
            _log.warning("session %r could not be summarised: %s", session, error)
            self._asker.count("conclude.failed")
            return [PassOutcome.from_error("conclude", now, error)]
        return [PassOutcome(plan=Plan(id="", name="conclude", made_at=now), state="applied")]

    # -- dreams ------------------------------------------------------------------------------------------

    def _run_dream(self, names: Sequence[str] = DREAM) -> list[PassOutcome]:
        outcomes = self._run_passes(names)
        self._record_dream()
        return outcomes

    def _run_reviewed_dream(self) -> list[PassOutcome]:
        """Keep the plan of a dream for the owner's decision."""
        (dreamed,) = self._run_passes([ALL], dry_run=True)
        dreamed = self._keep(dreamed)
        self._record_dream()
        return [dreamed]

    def _keep(self, outcome: PassOutcome) -> PassOutcome:
        """Keep a plan for the owner's decision, and return the outcome."""
        plan = outcome.plan
        try:
            if not plan:
                self._apply(plan)  # how far the journal was considered
                return outcome
            self.add(plan)
            outcome = replace(outcome, state="waiting")
        except InvalidInput as error:
            _log.warning("a plan cannot wait for the owner: %s", error)
            self._asker.count(f"dream.{plan.name}.failed")
            outcome = PassOutcome.from_error(plan.name, plan.made_at, error)
        self._outcomes.add([outcome])
        return outcome

    def _has_waiting_dream(self) -> bool:
        """Return whether a plan of a dream waits for the owner, such as one that was made on the web UI."""
        return any(each.plan.name in (ALL, *DREAM) for each in self.kept_plans())

    def _find_dream_time(self) -> datetime | None:
        """Return when the next dream is due by interval or cron; None if none is."""
        last, schedule, interval = (
            self._read_last_dream(),
            self._settings.dream_schedule,
            self._settings.dream_interval,
        )
        if schedule is None and interval is None:
            return None
        if schedule is not None:
            if last is None:
                self._record_dream()  # the schedule begins to count now
                last = self._clock()
            return compute_next_run(schedule, last)
        return self._clock() if last is None else last + timedelta(minutes=interval or 0)

    def _is_dream_due(self) -> bool:
        """Return whether a dream is due by interval or cron, has work, and nothing was written for a while."""
        due_at = self._find_dream_time()
        if due_at is None or due_at > self._clock():
            return False
        if not self._is_idle(timedelta(minutes=self._settings.dream_idle)) or self._has_waiting_dream():
            return False
        if not self._has_news():
            if self._settings.dream_schedule is not None:
                self._record_dream()  # there was nothing to do at the scheduled time: wait for the next one
            return False
        return True

    def _is_idle(self, least: timedelta) -> bool:
        return (written := self._find_last_writing()) is None or self._clock() - written >= least

    def _find_last_writing(self) -> datetime | None:
        """Return when anything but a pass last wrote; None if that is long ago, or by a clock that was wrong."""
        newest = self._store.journal(limit=_MAX_ENTRIES, newest_first=True)
        at = next((row.at for row in newest if row.actor != ACTOR), None)
        return None if at is None or at - self._clock() > CLOCK_WAS_WRONG else at

    def _read_last_dream(self) -> datetime | None:
        try:
            last = parse_time(self._store.cursor(LAST_CYCLE) or "", name=LAST_CYCLE)
        except InvalidInput:
            return None  # it counts as never
        return None if last - self._clock() > CLOCK_WAS_WRONG else last

    def _record_dream(self) -> None:
        now = self._clock()
        self._writer.commit([], at=now, cursors={LAST_CYCLE: format_time(now)})


def _work_while_used(
    find: Callable[[], Worker | None],
    wake: threading.Event,
    every_s: float,
    before: Sequence[threading.Thread],
) -> None:
    """Run the thread of a worker until it is stopped, or until no program uses its memory."""
    for thread in before:
        thread.join()
    while (worker := find()) is not None and worker.run_safely():
        del worker  # while this thread waits, it must not keep the memory
        wake.wait(every_s)
        wake.clear()
