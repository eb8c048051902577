"""A proxy before a PostgreSQL server that counts replies, and cuts the connection in the middle of a commit."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import threading
from pathlib import Path
from typing import Literal

_MARK = b"reverie.change_things"
_READY = b"Z\0\0\0\5"
Cut = Literal["request", "reply"]


class CuttingProxy:
    """Passes all bytes on until it shall cut a commit: before the server has it, or before the client knows.

    Args:
        server: The folder of the server's socket.

    Attributes:
        replies: How many times the server has answered.
    """

    def __init__(self, server: Path) -> None:
        self._server = str(server / ".s.PGSQL.5432")
        self.folder = Path(tempfile.mkdtemp(prefix="rvpx", dir=server.parent))
        self.cuts: list[Cut] = []
        self.has_cut: list[Cut] = []
        self.replies = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / ".s.PGSQL.5432"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()
        shutil.rmtree(self.folder)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                upstream = socket.socket(socket.AF_UNIX)
                upstream.connect(self._server)
                answering = threading.Event()
                answering.set()
                for target in (
                    lambda c=client, u=upstream, a=answering: self._send_requests(c, u, a),
                    lambda c=client, u=upstream, a=answering: self._send_replies(c, u, a),
                ):
                    threading.Thread(target=target, daemon=True).start()

    def _send_requests(
        self, client: socket.socket, upstream: socket.socket, answering: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 20):
                if _MARK in data and self.cuts:
                    cut = self.cuts.pop(0)
                    self.has_cut.append(cut)
                    answering.clear()
                    if cut == "reply":
                        upstream.sendall(data)
                        continue
                    break
                upstream.sendall(data)
        _end(client, upstream)

    def _send_replies(
        self, client: socket.socket, upstream: socket.socket, answering: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := upstream.recv(1 << 20):
                if not answering.is_set():
                    break  # the server has committed, and nobody hears of it
                self.replies += data[-6:-1] == _READY
                client.sendall(data)
        _end(client, upstream)


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
