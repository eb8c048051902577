"""Client of a running `reverie serve` or `reverie mcp`, which answers a hook with vectors and without a start.

Each hook begins here, so this module imports almost nothing. Without a server, `runner` does the work in this process.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import sys
import time

STORE = "REVERIE_STORE"
SCOPE = "REVERIE_HOOK_SCOPE"

TIMEOUT_S = 10.0

ANSWER_WITHIN_S = 2.0
"""Seconds after which a hook that has no answer does the work itself; an event that is stored twice counts once."""

_PIECE = 1 << 16


def get_socket_path(place: str) -> str:
    """Return the path of the socket for a memory, in the user's own folder for running programs.

    The environment has no say: clients start servers and hooks with different ones.

    Args:
        place: Folder of the memory, or URL of its database.
    """
    if "://" not in place:
        place = os.path.realpath(os.path.expanduser(place))
    user = os.getuid()
    folder = f"/run/user/{user}/reverie" if os.path.isdir(f"/run/user/{user}") else f"/tmp/reverie-{user}"
    return f"{folder}/{hashlib.sha256(os.fsencode(place)).hexdigest()[:24]}"


def is_private(folder: str) -> bool:
    """Return whether a folder is this user's, and closed to others."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    return status.st_uid == os.getuid() and status.st_mode & 0o170077 == 0o040000


def run_hook(arguments: list[str]) -> bytes | None:
    """Have a server run a hook, and exit; return the event if none does, or None if it cannot be read here.

    Args:
        arguments: Arguments of `reverie hook`.
    """
    try:
        until = time.monotonic() + float(_find_option(arguments, "--timeout") or TIMEOUT_S)
    except ValueError:
        return None
    event = _read_event(until)
    place = _find_option(arguments, "--store") or os.environ.get(STORE)
    path = get_socket_path(place) if place else ""
    if event is None or not os.path.exists(path) or not is_private(os.path.dirname(path)):
        return event
    answer = _ask_server(path, arguments, event)
    if answer is None:
        return event
    written = json.loads(answer)
    for target, text in ((2, written["err"]), (1, written["out"])):
        data = text.encode("utf-8", "replace")
        try:
            while data:
                data = data[os.write(target, data) :]
        except OSError:  # the reader closed the pipe
            break
    os._exit(0)


def _ask_server(path: str, arguments: list[str], event: bytes) -> bytes | None:
    """Return the answer of a server; None if it has none in time, so that the event has to be handled here."""
    import socket  # here: a hook without a server does not need it

    settings = {name: value for name, value in os.environ.items() if name.startswith(("REVERIE_", "CLAUDE_"))}
    asked = {"arguments": arguments, "environ": settings, "cwd": os.getcwd()}
    answer = b""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.settimeout(ANSWER_WITHIN_S)
            connection.connect(path)
            connection.sendall(json.dumps(asked).encode() + b"\n" + event)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(_PIECE):
                answer += piece
        except OSError:
            return None
    return answer or None


def _find_option(arguments: list[str], name: str) -> str:
    """Return the last value of an option; empty if it is not given."""
    found = ""
    for number, each in enumerate(arguments):
        if each == name:
            found = arguments[number + 1] if number + 1 < len(arguments) else ""
        elif each.startswith(f"{name}="):
            found = each.partition("=")[2]
    return found


def _read_event(until: float) -> bytes | None:
    """Return standard input; None if it is a terminal or closed. End the process if it is not written in time."""
    if sys.stdin is None or sys.stdin.isatty():
        return None
    pieces: list[bytes] = []
    while select.select([0], [], [], max(0.0, until - time.monotonic()))[0]:
        if not (piece := os.read(0, _PIECE)):
            return b"".join(pieces)
        pieces.append(piece)
    os._exit(0)
