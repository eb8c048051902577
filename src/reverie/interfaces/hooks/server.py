"""Server of hooks in a process that has the memory open: `reverie serve` and `reverie mcp`.

It listens on a local socket. Of several processes one answers; the others wait until it ends.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from reverie.interfaces.hooks import client, runner
from reverie.interfaces.hooks.events import EVENTS, LARGEST

if TYPE_CHECKING:
    from reverie.memory import Memory

_log = logging.getLogger("reverie.hooks")

MAX_READ_S = 5.0
"""Seconds in which a hook has to send its event."""

MAX_LAST_S = 10.0
"""Seconds to wait for running events before the memory is closed."""

_MAX_HEAD_BYTES = 1 << 20


class HookServer:
    """Server of the hooks of one memory, on a thread; a context manager that runs while its block does."""

    def __init__(self, memory: Memory, place: str, *, settings: str | None) -> None:
        """Describe the server.

        Args:
            memory: The open memory.
            place: Its folder, or the URL of its database.
            settings: The settings file of this process; a hook with other settings does its work itself.
        """
        self._memory = memory
        self._path = client.get_socket_path(place)
        self._settings = (settings and os.path.abspath(settings), _get_settings(os.environ))
        self._is_closed = False
        self._listener: socket.socket | None = None
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> HookServer:
        """Begin to listen, at the latest when no other process does."""
        threading.Thread(target=self._run, name="reverie-hooks", daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop to listen, and wait for running events."""
        with self._lock:
            self._is_closed = True
            if self._listener is not None:
                with suppress(OSError):
                    os.unlink(self._path)
                with suppress(OSError):
                    self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread
            threads, until = [*self._threads], time.monotonic() + MAX_LAST_S
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            _log.warning("some hooks were still running when the server stopped")

    def _run(self) -> None:
        try:
            folder = os.path.dirname(self._path)
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700)
            if not client.is_private(folder):
                _log.warning("hooks are not served: %s is not a private folder of this user", folder)
                return
            with open(
                f"{self._path}.lock", "w", opener=lambda path, flags: os.open(path, flags, 0o600)
            ) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # waits for the process that answers now
                self._listen()
        except OSError as error:
            if not self._is_closed:
                _log.warning("hooks are not served: %s", error)

    def _listen(self) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            with self._lock:
                if self._is_closed:
                    return
                with suppress(FileNotFoundError):
                    os.unlink(self._path)  # of a process that was killed
                before = os.umask(0o177)
                try:
                    listener.bind(self._path)
                finally:
                    os.umask(before)
                listener.listen(16)
                self._listener = listener
            while not self._is_closed:
                connection, _ = listener.accept()
                thread = threading.Thread(
                    target=self._answer, args=[connection], name="reverie-hook", daemon=True
                )
                with self._lock:
                    self._threads = {each for each in self._threads if each.is_alive()} | {thread}
                    thread.start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(MAX_READ_S)
                if not self._is_closed:
                    self._handle(connection, _read_all(connection))
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning("a hook was not answered: %s", type(error).__name__)

    def _handle(self, connection: socket.socket, data: bytes) -> None:
        head, _, event = data.partition(b"\n")
        asked = json.loads(head)
        name, *arguments = asked["arguments"]
        options = runner.parse_arguments(arguments) if name in EVENTS else None
        if options is None:
            return
        settings = options.settings and os.path.abspath(os.path.join(asked["cwd"], options.settings))
        if (settings, _get_settings(asked["environ"])) != self._settings:
            return

        problems: list[str] = []
        host = runner.HookHost(self._memory, asked["environ"], problems.append)
        output = runner.try_run(name, options, event, host)
        answer = {"out": output.decode(), "err": "".join(f"reverie: {problem}\n" for problem in problems)}
        connection.sendall(json.dumps(answer).encode())


def _get_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are settings."""
    others = (client.STORE, client.SCOPE)
    return {
        name: text for name, text in environ.items() if name.startswith("REVERIE_") and name not in others
    }


def _read_all(connection: socket.socket) -> bytes:
    pieces, size = [], 0
    while (piece := connection.recv(1 << 16)) and size <= LARGEST + _MAX_HEAD_BYTES:
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)
