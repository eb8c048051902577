"""When is background thinking due, and who does it? One thread in a process, one owner among all of them.

What is due is read from the store each time, so whatever a process leaves undone when it ends is found by the
next. A lease in the store, which expires if its owner is killed, keeps two from doing the same at once.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from reverie.consolidation.cycle import ACTOR, PASSES, ApplyResult, ConsolidationCycle, PassOutcome
from reverie.consolidation.plan import Plan
from reverie.consolidation.windows import DueWindow, Kind, WindowConsolidator
from reverie.domain.entry import Entry
from reverie.domain.errors import InvalidInput, ReverieError
from reverie.domain.text.timestamps import format_time, parse_time
from reverie.settings import Settings
from reverie.stores.writer import StoreWriter

_log = logging.getLogger("reverie")

LEASE = "lease:dream"
"""The namespace of the one entry that says who is thinking."""

LEASE_TIME = timedelta(minutes=1)
"""How long a lease holds if its owner does not renew it, such as when it was killed."""

LONGEST_PASS = timedelta(minutes=30)
"""How long a pass may take; a lease is not renewed for one that hangs longer, and another may go on."""

ENRICH_AFTER = timedelta(seconds=30)
"""How long nobody may have written before rough notes are looked at, so that a burst is looked at once."""

FIRST_PAUSE = timedelta(minutes=1)
"""How long to wait after a failure before the same is tried again; twice as long after each further one."""

LONGEST_PAUSE = timedelta(hours=1)

LAST_CYCLE = "dream.last"
"""The store's cursor that keeps when the last cycle was."""

_CLOCK_WAS_WRONG = timedelta(days=1)
"""What lies further ahead was written by a clock that has been set back since; nothing waits for it."""

_ROWS = 200  # of the journal; more than one plan makes


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkReport:
    """What one look at the work did.

    Attributes:
        outcomes: What became of each pass and each session's window.
        busy: Whether somebody else has the lease, so that nothing was done.
    """

    outcomes: tuple[PassOutcome, ...] = ()
    busy: bool = False


class Worker:
    """Does what is due. Safe to use from several threads; `start` and `stop` own its one thread."""

    def __init__(
        self,
        writer: StoreWriter,
        dreaming: ConsolidationCycle,
        consolidating: WindowConsolidator,
        *,
        settings: Settings,
    ) -> None:
        """Look after a store.

        Args:
            writer: Commits the changes; the journal names `dream` as their author.
            dreaming: What runs the dream's passes.
            consolidating: What shortens windows.
            settings: The settings.
        """
        self.dreaming = dreaming
        self._writer = writer.acting(ACTOR)
        self._store = writer.store
        self._consolidating = consolidating
        self._clock = writer.clock
        self._settings = settings
        self._owner = secrets.token_hex(6)
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._pauses: dict[str, tuple[datetime, timedelta]] = {}
        self._nothing_due_at = -1  # the journal's last row when no session was due
        self._lock = threading.Lock()

    # -- the thread --------------------------------------------------------------------------------------

    def start(self, *, every_s: float = 5.0) -> None:
        """Begin to look for work in the background; a second call does nothing.

        Args:
            every_s: Seconds between two looks, over 0; `wake` makes the next one at once.

        Raises:
            InvalidInput: `every_s` is not over 0.
        """
        if not every_s > 0:
            raise InvalidInput(f"every_s is {every_s!r}: it is a number over 0")
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            self._stopping.clear()
            self._thread = threading.Thread(
                target=self._run, args=(every_s,), name="reverie-worker", daemon=True
            )
            self._thread.start()

    def wake(self) -> None:
        """Look for work now, if the thread runs; returns at once."""
        self._wake.set()

    def stop(self, *, timeout_s: float = 10.0) -> bool:
        """End the thread after the pass it is in.

        Args:
            timeout_s: How many seconds to wait for that.

        Returns:
            Whether it has ended; what it was doing is otherwise done again by the next worker.
        """
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is None:
            return True
        self._stopping.set()
        self._wake.set()
        thread.join(timeout_s)
        return not thread.is_alive()

    def _run(self, every_s: float) -> None:
        while not self._stopping.is_set():
            try:
                self.work()
            except Exception as error:  # noqa: BLE001 - the loop must outlive a bug in a model that is a function
                _log.warning("background work failed and is tried again", exc_info=error)
                self.dreaming.count("worker.failed")
            self._wake.wait(every_s)
            self._wake.clear()

    # -- the work ----------------------------------------------------------------------------------------

    def work(self) -> WorkReport:
        """Do what is due, once; returns at once where somebody else is at it."""
        due = self._find_due_sessions()
        dreams = self.is_dream_due()
        enriches = not dreams and self.is_enriching_due()
        if not due and not dreams and not enriches:
            return WorkReport()
        outcomes: list[PassOutcome] = []
        with self._hold_lease() as leased:
            if not leased:
                return WorkReport(busy=True)
            for each in due:
                if self._stopping.is_set():
                    return WorkReport(outcomes=tuple(outcomes))
                outcome = self.consolidate(each.session, each.kind)
                self._record_outcome(f"session {each.session}", outcome)
                outcomes.append(outcome)
            if (dreams or enriches) and not self._stopping.is_set():
                outcomes += self._run_dream() if dreams else self.dreaming.run_cycle(["enrich"])
                self._record_outcome("enrich", next(each for each in outcomes if each.name == "enrich"))
        return WorkReport(outcomes=tuple(outcomes))

    def _find_due_sessions(self) -> list[DueWindow]:
        """The sessions whose windows are to be shortened now; looked for only when something has changed."""
        sequence = self._store.sequence()
        if sequence == self._nothing_due_at:
            return []
        found = list(self._consolidating.due())
        if not found:
            self._nothing_due_at = sequence
        return [each for each in found if not self._is_paused(f"session {each.session}")]

    def dream(self, names: Sequence[str] = PASSES, *, dry_run: bool = False) -> WorkReport:
        """Run the dream's passes now, due or not.

        Args:
            names: Which passes.
            dry_run: Whether to plan only; needs no lease.
        """
        if dry_run:
            return WorkReport(outcomes=tuple(self.dreaming.run_cycle(names, dry_run=True)))
        with self._hold_lease() as leased:
            if not leased:
                return WorkReport(busy=True)
            return WorkReport(outcomes=tuple(self._run_dream(names)))

    def plan(self, session: str, kind: Kind, *, keep: int | None = None) -> Plan:
        """What shortening a session's window would change now; nothing is written.

        Args:
            session: Its id.
            kind: `digest`, `compact` or `trim`.
            keep: How many turns stay, 0 or more; None takes what the settings say.

        Raises:
            NotFound: there is no such session.
            InvalidInput: `keep` is negative.
        """
        return self._consolidating.plan(session, kind, keep=keep)

    def log(self) -> list[dict[str, object]]:
        """What became of the passes of the last dreams, the newest last."""
        return self.dreaming.log()

    def consolidate(self, session: str, kind: Kind, *, keep: int | None = None) -> PassOutcome:
        """Shorten the window of one session.

        Args:
            session: Its id.
            kind: `digest`, `compact` or `trim`.
            keep: How many turns stay; None takes what the settings say.
        """
        now = self._clock()

        def attempt() -> tuple[Plan, ApplyResult | None]:
            plan = self._consolidating.plan(session, kind, keep=keep)
            return plan, None if plan.failed else self.dreaming.apply(self._consolidating.rebase_plan(plan))

        try:
            plan, applied = self.dreaming.retrying(attempt)
        except ReverieError as error:
            _log.warning("the window of a session could not be shortened: %s", error)
            self.dreaming.count(f"{kind}.failed")
            return PassOutcome(name=kind, at=now, state="failed", why=str(error))
        if applied is None:
            self.dreaming.count(f"{kind}.failed")
            return PassOutcome(name=kind, at=now, state="failed", why=plan.failed, plan=plan)
        state = "applied" if plan.steps else "skipped"
        return PassOutcome(name=kind, at=now, state=state, why=plan.skipped, plan=plan, batch=applied.batch)

    def is_dream_due(self) -> bool:
        """Whether a cycle is due: by interval or cron, with something new to look at, while nobody talks."""
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
        if self.dreaming.has_news():
            return True
        if schedule is not None:
            self._record_cycle(
                now
            )  # its time has come and there was nothing to do: not at any hour afterwards
        return False

    def is_enriching_due(self) -> bool:
        """Whether there are rough notes to split and file, and nobody has written for half a minute."""
        if self._is_paused("enrich") or not self.dreaming.count_rough_notes():
            return False
        return self._is_idle(self._clock(), ENRICH_AFTER)

    def _is_paused(self, what: str) -> bool:
        """Whether something failed so lately that it is left alone."""
        until = self._pauses.get(what)
        return until is not None and self._clock() < until[0]

    def _record_outcome(self, what: str, outcome: PassOutcome) -> None:
        """Wait before what failed is tried again, longer each time."""
        if outcome.state != "failed":
            self._pauses.pop(what, None)
            return
        before = self._pauses.get(what)
        pause = FIRST_PAUSE if before is None else min(2 * before[1], LONGEST_PAUSE)
        self._pauses[what] = (self._clock() + pause, pause)

    def _run_dream(self, names: Sequence[str] = PASSES) -> list[PassOutcome]:
        outcomes = self.dreaming.run_cycle(names)
        self._record_cycle(self._clock())
        return outcomes

    def _is_idle(self, now: datetime, least: timedelta) -> bool:
        newest = self._store.journal(limit=_ROWS, newest_first=True)
        others = next((row for row in newest if row.actor != ACTOR), None)
        return others is None or now - others.at >= least or others.at - now > _CLOCK_WAS_WRONG

    def _read_last_cycle(self) -> datetime | None:
        text = self._store.cursor(LAST_CYCLE)
        if text is None:
            return None
        try:
            last = parse_time(text, name=LAST_CYCLE)
        except InvalidInput:
            _log.warning("when the last cycle was cannot be read; it counts as never")
            return None
        return None if last - self._clock() > _CLOCK_WAS_WRONG else last

    def _record_cycle(self, now: datetime) -> None:
        self._writer.commit([], at=now, cursors={LAST_CYCLE: format_time(now)})

    # -- the lease ---------------------------------------------------------------------------------------

    @contextmanager
    def _hold_lease(self) -> Iterator[bool]:
        """Hold the lease, renewed meanwhile by a thread of its own; False where somebody else has it."""
        if not self._lease():
            yield False
            return
        done = threading.Event()
        renewing = threading.Thread(target=self._renew, args=(done,), name="reverie-lease", daemon=True)
        renewing.start()
        try:
            yield True
        finally:
            done.set()
            renewing.join()
            self._release()

    def _renew(self, done: threading.Event) -> None:
        every, left = LEASE_TIME.total_seconds() / 3, LONGEST_PASS.total_seconds()
        while left > 0 and not done.wait(every):
            left -= every
            try:
                self._lease()
            except ReverieError as error:
                _log.warning("the lease could not be renewed: %s", error)

    def _lease(self) -> bool:
        """Take the lease or renew it; False where somebody else has it."""
        now = self._clock()
        mine = Entry(namespace=LEASE, key=self._owner, data="", stored_at=now, expires_at=now + LEASE_TIME)
        return self._store.put_entry(mine, capacity=1, now=now)

    def _release(self) -> None:
        try:
            self._store.drop_entries(LEASE, [self._owner])
        except ReverieError as error:
            _log.warning("the lease could not be given back; it ends by itself: %s", error)


def compute_next_run(schedule: str, after: datetime) -> datetime:
    """When a cron schedule is due next, in UTC.

    Args:
        schedule: Five fields, such as `0 3 * * *`.
        after: The moment behind which to look.

    Raises:
        InvalidInput: the schedule is none.
    """
    from cronsim import CronSim, CronSimError  # only here: most memories have no schedule

    try:
        found: datetime = next(CronSim(schedule, after))
    except (CronSimError, StopIteration):
        raise InvalidInput(
            f"dream_schedule is {schedule!r}: write five fields as cron has them, such as '0 3 * * *'"
        ) from None
    return found
