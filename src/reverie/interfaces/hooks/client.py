"""Client of a running `reverie serve` or `reverie mcp`, which answers a hook with vectors and without a start.

Each hook begins here, so this module imports almost nothing. Without a server, `runner` does the work in this process.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import socket
import sys
import time

STORE = "REVERIE_STORE"
SCOPE = "REVERIE_HOOK_SCOPE"

TIMEOUT_S = 10.0

KEPT = b"K"
"""First byte of an answer: the server has written the event to a file, or does not need to."""

KEPT_WITHIN_S = 1.0
"""Seconds after which a hook that has no such byte does the work itself; an event that is stored twice counts once."""

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


def ask_server(arguments: list[str]) -> tuple[bytes | None, bytes | None]:
    """Ask the server of the memory, if one runs; return its answer, and the event if it was read from standard input.

    Args:
        arguments: Arguments of `reverie hook`.
    """
    place = _find_option(arguments, "--store") or os.environ.get(STORE)
    if not place or not hasattr(socket, "AF_UNIX"):
        return None, None
    path = get_socket_path(place)
    if not os.path.exists(path) or not is_private(os.path.dirname(path)):
        return None, None
    try:
        until = time.monotonic() + float(_find_option(arguments, "--timeout") or TIMEOUT_S)
    except ValueError:
        return None, None
    event = _read_event(until)
    if event is None:
        return None, None
    settings = {name: value for name, value in os.environ.items() if name.startswith(("REVERIE_", "CLAUDE_"))}
    asked = {"arguments": arguments, "environ": settings, "cwd": os.getcwd()}
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.settimeout(KEPT_WITHIN_S)
            connection.connect(path)
            connection.sendall(json.dumps(asked).encode() + b"\n" + event)
            connection.shutdown(socket.SHUT_WR)
            if connection.recv(1) != KEPT:
                return None, event
        except OSError:
            return None, event
        try:
            answer = b""
            while True:
                connection.settimeout(max(0.001, until - time.monotonic()))
                if not (piece := connection.recv(_PIECE)):
                    break
                answer += piece
        except OSError:
            return json.dumps({"err": "reverie: no memory for this turn: timed out\n"}).encode(), event
    return answer or None, event


def run_hook(arguments: list[str]) -> None:
    """Run `reverie hook EVENT`, and exit; return if the arguments need the full command line.

    Args:
        arguments: Arguments of `reverie`, beginning with `hook`.
    """
    answer, event = ask_server(arguments[1:])
    if answer is None:
        from reverie.interfaces.hooks.runner import main

        main(arguments, event)
        return
    written = json.loads(answer)
    for target, text in ((2, written.get("err", "")), (1, written.get("out", ""))):
        data = text.encode("utf-8", "replace")
        try:
            while data:
                data = data[os.write(target, data) :]
        except OSError:  # the reader closed the pipe
            break
    os._exit(0)


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
    """Return standard input; None if it is a terminal, closed, or not written in time."""
    if sys.stdin is None or sys.stdin.isatty():
        return None
    pieces: list[bytes] = []
    try:
        while select.select([0], [], [], max(0.0, until - time.monotonic()))[0]:
            if not (piece := os.read(0, _PIECE)):
                return b"".join(pieces)
            pieces.append(piece)
    except OSError:
        return b""
    os._exit(0)  # the agent waits no longer, and there is no event
