"""How do hand edits come in at once, and not only at the next turn? A watcher on a thread of its own.

Where the `watchdog` package is installed (`pip install "reverie[watch]"`) the system tells of every file that
changes, and the watcher looks at just these, as soon as nothing has changed for a moment. Without it, or
where the system refuses to watch, it looks at all files again and again. Either way it looks at everything
every half minute, for what nobody told of. What it finds is taken in by whom it was given; it knows nothing
of stores.
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
"""How the watcher learns of changes: from the system, or by looking."""

QUIET_S = 0.1
"""So long nothing must have changed before it is looked at: an editor saves in several steps."""

LONGEST_WAIT_S = 2.0
"""After so long it is looked at all the same."""

LOOK_EVERY_S = 30.0
"""How often everything is looked at, whatever the system tells."""

POLL_S = 1.0
"""How often everything is looked at where the system tells nothing."""

_SHARE = 0.05
_MANY = 200
_TOPS = (MEMORY, SESSIONS)
_KINDS = tuple(
    f"{sort}{kind}Event"
    for sort in ("File", "Dir")
    for kind in ("Created", "Modified", "Moved", "Deleted")
    if (sort, kind) != ("Dir", "Modified")
)
"""What is worth looking at; that somebody opens a file, as we do ourselves, is not."""


class FolderWatcher:
    """Watches the files of one memory until it is stopped. Start and stop it from one thread.

    Attributes:
        way: How it learns of changes; known once it has been started.
    """

    def __init__(
        self,
        root: Path,
        take_in: Callable[[Sequence[str] | None], HandEditReport],
        *,
        tell: Callable[[HandEditReport], None] = lambda taken: None,
        way: Way | None = None,
    ) -> None:
        """Prepare to watch; nothing happens before `start`.

        Args:
            root: The memory's folder.
            take_in: What looks at files and takes in what has changed: at these, or at all for None.
            tell: Told of every look that something came of, or that found problems it had not found before;
                on the watcher's thread.
            way: `events` or `polling`; None for events where that can be had.
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
        """Look at everything, and watch from now on. Starting it twice is an error."""
        if self._thread is not None:
            raise RuntimeError("the watcher has been started already")
        if self._wanted != "polling":
            self._observe()
        self._thread = threading.Thread(target=self._run, name="reverie-watch", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Finish the look that is under way, and stop. Stopping twice is fine.

        Args:
            timeout_s: How long to wait for that, in seconds.
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

    # -- looking -----------------------------------------------------------------------------------------

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
        """Wait until there is something to look at, and it is quiet; None for everything."""
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
        """Take in what has changed; returns how long it took, in seconds."""
        began = time.monotonic()
        try:
            taken = self._take_in(paths)
        except (StoreError, StateUnavailable, OSError) as error:
            _log.warning("the files could not be looked at; they are in a moment: %s", error)
            return time.monotonic() - began
        problems = {(problem.path, problem.why) for problem in taken.problems}
        if taken.taken or taken.lost or problems - self._problems:
            self._tell(taken)
        self._problems = problems if paths is None else self._problems | problems
        return time.monotonic() - began

    # -- events ------------------------------------------------------------------------------------------

    def _observe(self) -> None:
        """Have the system tell of changes, if it can."""
        try:
            observers = importlib.import_module("watchdog.observers")
            events = importlib.import_module("watchdog.events")
        except ImportError:
            return
        # watchdog 7 warns, on a thread of its own, when a folder comes and goes quickly, and then does right.
        # Where warnings are errors that thread would end, and with it all events.
        warnings.filterwarnings("ignore", "Callback with id .* already exists", RuntimeWarning)
        self._kinds = [getattr(events, name) for name in _KINDS]
        observer = observers.Observer()
        observer.start()
        try:
            observer.schedule(self, os.fspath(self._root), event_filter=self._kinds)
            for top in _TOPS:
                self._watch(observer, top)
        except OSError as error:  # no more watches, or a file system that has none
            _log.warning("changes are looked for instead of waited for: %s", error)
            observer.stop()
            observer.join()
            return
        self._observer, self.way = observer, "events"

    def _watch(self, observer: Any, top: str) -> None:
        """Watch one of the two folders and what is in it, which may have come just now."""
        if (watch := self._watches.pop(top, None)) is not None:
            observer.unschedule(watch)
        place = self._root / top
        if place.is_dir():
            self._watches[top] = observer.schedule(
                self, os.fspath(place), recursive=True, event_filter=self._kinds
            )

    def dispatch(self, event: Any) -> None:
        """Take note of a change; called by `watchdog` on a thread of its own."""
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
        """Watch anew a folder that has come or gone as a whole."""
        for top in _TOPS:
            if self._observer is not None and paths is not None and top in paths:
                try:
                    self._watch(self._observer, top)
                except (OSError, KeyError) as error:
                    _log.warning("%r is looked at every %d s: %s", top, LOOK_EVERY_S, error)
