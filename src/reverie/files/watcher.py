"""Watcher that imports hand edits within about a second, on its own thread, rather than at the next turn."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from reverie.domain.errors import StoreError
from reverie.files.hand_edits.intake import HandEditReport

_log = logging.getLogger("reverie")

POLL_S = 1.0
"""Pause between two examinations of all files."""

_SHARE = 0.05
"""Share of the time that the examinations may take; with very many files the pauses are longer."""


class FolderWatcher:
    """Watcher of the files of one memory. Start and stop it from one thread."""

    def __init__(
        self,
        take_in: Callable[[], HandEditReport],
        *,
        tell: Callable[[HandEditReport], None] = lambda report: None,
    ) -> None:
        """Prepare to watch; `start` begins.

        Args:
            take_in: Imports the changes of all files.
            tell: Receives every report with hand edits or new problems, on the watcher's thread.
        """
        self._take_in = take_in
        self._tell = tell
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._problems: set[tuple[str, str]] = set()

    def start(self) -> None:
        """Examine all files, and watch from now on. Starting it twice is an error."""
        if self._thread is not None:
            raise RuntimeError("the watcher has been started already")
        self._thread = threading.Thread(target=self._run, name="reverie-watch", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop after the current import. Stopping twice is allowed.

        Args:
            timeout_s: How long to wait at most, in seconds.
        """
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def __enter__(self) -> FolderWatcher:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        pause_s = 0.0
        while not self._stopping.wait(pause_s):
            began = time.monotonic()
            self._import_changes()
            pause_s = max(POLL_S, (time.monotonic() - began) / _SHARE)

    def _import_changes(self) -> None:
        try:
            report = self._take_in()
        except (StoreError, OSError) as error:
            _log.warning("the files could not be examined, which is tried again in a moment: %s", error)
            return
        problems = {(problem.path, problem.why) for problem in report.problems}
        if report.taken or report.lost or problems - self._problems:
            self._tell(report)
        self._problems = problems
