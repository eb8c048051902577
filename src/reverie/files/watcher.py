"""Watcher that has hand edits imported at once, and not only at the next turn, on its own thread.

With the `watchdog` package (`pip install "reverie[watch]"`) the system reports changed files, and the
watcher has these examined when nothing has changed for a moment. Without it, or where the system refuses,
the watcher polls all files. Either way all files are examined every half minute, for events that were
missed.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from reverie.domain.errors import StoreError
from reverie.files.disk.state import StateUnavailable
from reverie.files.hand_edits.importer import HandEditReport
from reverie.files.layout import ARCHIVE, MEMORY, SESSIONS
from reverie.files.scan import is_ignored

_log = logging.getLogger("reverie")

Way = Literal["events", "polling"]
"""Source of the watcher's events."""

QUIET_S = 0.1
"""Quiet time before files are examined: an editor saves in several steps."""

LONGEST_WAIT_S = 2.0
"""Maximum delay of the examination by further changes."""

LOOK_EVERY_S = 30.0
"""Interval at which all files are examined, whatever the system reports."""

POLL_S = 1.0
"""Interval at which all files are examined without events."""

_SHARE = 0.05
_MANY = 200
_TOPS = (MEMORY, SESSIONS)
_KINDS = tuple(
    f"{sort}{kind}Event"
    for sort in ("File", "Dir")
    for kind in ("Created", "Modified", "Moved", "Deleted")
    if (sort, kind) != ("Dir", "Modified")
)
"""Relevant events; that somebody opens a file, as the import does itself, is not one."""


class FolderWatcher:
    """Watcher of the files of one memory. Start and stop it from one thread.

    Attributes:
        way: How it learns of changes; set by `start`.
    """

    def __init__(
        self,
        root: Path,
        take_in: Callable[[Sequence[str] | None], HandEditReport],
        *,
        tell: Callable[[HandEditReport], None] = lambda report: None,
        way: Way | None = None,
    ) -> None:
        """Prepare to watch; `start` begins.

        Args:
            root: The memory's folder.
            take_in: Imports the changes of files; of all files for None.
            tell: Receives every report with hand edits or new problems, on the watcher's thread.
            way: `events` or `polling`; None for events where possible.
        """
        self.way: Way = "polling"
        self._root = root
        self._take_in = take_in
        self._tell = tell
        self._wanted = way
        self._changed = threading.Condition()
        self._paths: set[str] = set()
        self._first_at = self._last_at = 0.0
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._observer: Any = None
        self._watches: dict[str, Any] = {}
        self._kinds: list[Any] = []
        self._problems: set[tuple[str, str]] = set()

    def start(self) -> None:
        """Examine all files, and watch from now on. Starting it twice is an error."""
        if self._thread is not None:
            raise RuntimeError("the watcher has been started already")
        if self._wanted != "polling":
            self._observe()
        self._thread = threading.Thread(target=self._run, name="reverie-watch", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Finish the current import, and stop. Stopping twice is allowed.

        Args:
            timeout_s: How long to wait at most, in seconds.
        """
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._observer is not None:
            self._observer.stop()
            self._observer.join(timeout_s)
            self._observer = None
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def __enter__(self) -> FolderWatcher:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- importing ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        look_s = self._import_changes(None)
        while True:
            every = LOOK_EVERY_S if self._observer is not None else max(POLL_S, look_s / _SHARE)
            paths = self._wait_for_paths(time.monotonic() + every)
            if self._stopping:
                return
            self._watch_again(paths)
            took = self._import_changes(paths)
            look_s = look_s if paths is not None else took

    def _wait_for_paths(self, until: float) -> Sequence[str] | None:
        """Wait for changes, and until none follow; return their paths, or None for all files."""
        with self._changed:
            while not self._stopping:
                now = time.monotonic()
                due = until
                if self._paths:
                    due = min(self._last_at + QUIET_S, self._first_at + LONGEST_WAIT_S)
                if now >= due:
                    break
                self._changed.wait(due - now)
            paths, self._paths = self._paths, set()
        return None if not paths or len(paths) > _MANY else sorted(paths)

    def _import_changes(self, paths: Sequence[str] | None) -> float:
        """Import what has changed; return the time that it took, in seconds."""
        began = time.monotonic()
        try:
            report = self._take_in(paths)
        except (StoreError, StateUnavailable, OSError) as error:
            _log.warning("the files could not be examined, which is tried again in a moment: %s", error)
            return time.monotonic() - began
        problems = {(problem.path, problem.why) for problem in report.problems}
        if report.taken or report.lost or problems - self._problems:
            self._tell(report)
        for path in report.unfinished:
            self._record_change(os.fspath(self._root / path))
        self._problems = problems if paths is None else self._problems | problems
        return time.monotonic() - began

    # -- events ------------------------------------------------------------------------------------------

    def _observe(self) -> None:
        """Have the system report changes, if it can."""
        try:
            observers = importlib.import_module("watchdog.observers")
            events = importlib.import_module("watchdog.events")
        except ImportError:
            return
        # watchdog 7 warns on its own thread when a folder comes and goes quickly, and then works correctly.
        # Where warnings are errors, that thread would end, and with it all events.
        warnings.filterwarnings("ignore", "Callback with id .* already exists", RuntimeWarning)
        self._kinds = [getattr(events, name) for name in _KINDS]
        observer = observers.Observer()
        observer.start()
        try:
            observer.schedule(self, os.fspath(self._root), event_filter=self._kinds)
            for top in _TOPS:
                self._watch(observer, top)
        except OSError as error:  # no more watches, or a file system that has none
            _log.warning("changes are polled for instead of watched: %s", error)
            observer.stop()
            observer.join()
            return
        self._observer, self.way = observer, "events"

    def _watch(self, observer: Any, top: str) -> None:
        """Watch one of the two folders recursively; it may have appeared just now."""
        if (watch := self._watches.pop(top, None)) is not None:
            observer.unschedule(watch)
        place = self._root / top
        if place.is_dir():
            self._watches[top] = observer.schedule(
                self, os.fspath(place), recursive=True, event_filter=self._kinds
            )

    def dispatch(self, event: Any) -> None:
        """Record a change; called by `watchdog` on its own thread."""
        for place in filter(None, (event.src_path, event.dest_path)):
            self._record_change(os.fsdecode(place))

    def _record_change(self, place: str) -> None:
        path = os.path.relpath(place, self._root).replace(os.sep, "/")
        top, *inside = path.split("/")
        if top not in _TOPS or any(is_ignored(name) for name in inside if name != ARCHIVE):
            return
        now = time.monotonic()
        with self._changed:
            if not self._paths:
                self._first_at = now
            self._last_at = now
            self._paths.add(path)
            self._changed.notify_all()

    def _watch_again(self, paths: Sequence[str] | None) -> None:
        """Watch a folder again that has appeared or disappeared as a whole."""
        for top in _TOPS:
            if self._observer is not None and paths is not None and top in paths:
                try:
                    self._watch(self._observer, top)
                except (OSError, KeyError) as error:
                    _log.warning("%r is examined every %d s: %s", top, LOOK_EVERY_S, error)
