"""How the server is reached in these tests: in process, as a process over its pipes, and line by line."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import termios
import time
from array import array
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from reverie import Memory
from reverie.interfaces.mcp.server import MemoryServer, create_offer
from tests.interfaces.conftest import environment

T = TypeVar("T")

LEGACY, STATELESS = "legacy", "2026-07-28"
MODES = [LEGACY, STATELESS]
PROGRAM = [sys.executable, "-c", "from reverie.interfaces.cli.main import main; main()"]


def played(scene: Callable[[], Awaitable[T]], *, seconds: float = 60) -> T:
    """Run a coroutine, for so long at most."""

    async def bounded() -> T:
        return await asyncio.wait_for(scene(), seconds)

    return asyncio.run(bounded())


@asynccontextmanager
async def client_of(memory: Memory, mode: str, **how: Any):  # type: ignore[no-untyped-def]
    """The real client, connected to a server in this process."""
    server = MemoryServer(create_offer(memory, **how))
    async with Client(server.protocol, mode=mode) as client:
        yield client
    assert server.threads.drain()


def started(folder: Path, *options: str) -> Any:
    """What starts a server as a process of its own, for one client."""
    return launched(PROGRAM[0], [*PROGRAM[1:], "mcp", "--store", str(folder), *options])


def launched(command: str, args: list[str]) -> Any:
    """What starts that program, for one client."""
    return stdio_client(StdioServerParameters(command=command, args=args, env=environment()))


class Wire:
    """A server as a process, spoken to in lines; what it says is read as it comes."""

    def __init__(self, folder: Path, *options: str, **how: Any) -> None:
        self.process = subprocess.Popen(
            [*PROGRAM, "mcp", "--store", str(folder), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            **how,
        )
        self._held = b""

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None and not pipe.closed:
                with suppress(BrokenPipeError):
                    pipe.close()

    def raw(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def say(self, method: str, params: dict[str, Any] | None = None, *, id: Any = None) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if id is not None:
            message["id"] = id
        if params is not None:
            message["params"] = params
        self.raw(json.dumps(message).encode() + b"\n")

    def hear(self, seconds: float = 20) -> dict[str, Any]:
        """The next thing the server says; fails if it says nothing for so long."""
        assert self.process.stdout is not None
        end = time.monotonic() + seconds
        while b"\n" not in self._held:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the server says nothing"
            some = os.read(self.process.stdout.fileno(), 1 << 16)
            assert some, f"the server has ended: {self.process.communicate()[1].decode()}"
            self._held += some
        line, _, self._held = self._held.partition(b"\n")
        heard = json.loads(line)
        assert isinstance(heard, dict)
        return heard

    def wait_until_unread(self, size: int) -> None:
        """Wait until the server has written so many bytes that nobody has read."""
        assert self.process.stdout is not None
        end = time.monotonic() + 20
        unread = array("i", [0])
        while unread[0] < size:
            assert time.monotonic() < end, f"only {unread[0]} bytes were written"
            time.sleep(0.01)
            fcntl.ioctl(self.process.stdout, termios.FIONREAD, unread)

    def answer(self, id: Any) -> dict[str, Any]:
        """The answer to a request, or with None to what has no id, whatever else is said before it."""
        while (heard := self.hear_answer()).get("id") != id:
            pass
        return heard

    def hear_answer(self) -> dict[str, Any]:
        """The next answer to any request, whatever the server tells of by itself before it."""
        while "method" in (heard := self.hear()):
            pass
        return heard

    def shake_hands(self) -> dict[str, Any]:
        self.say(
            "initialize",
            {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "lines", "version": "1"},
            },
            id="hello",
        )
        welcome = self.answer("hello")
        self.say("notifications/initialized")
        return welcome

    def call(self, tool: str, arguments: dict[str, Any], *, id: Any) -> None:
        self.say("tools/call", {"name": tool, "arguments": arguments}, id=id)

    def end(self, with_signal: signal.Signals | None = None) -> tuple[int, bytes, str]:
        """Close the input, or send a signal; the exit code, what else was said, and the log."""
        if with_signal is not None:
            self.process.send_signal(with_signal)
            code = self.process.wait(30)
            assert self.process.stdout is not None
            assert self.process.stderr is not None
            return code, self._held + self.process.stdout.read(), self.process.stderr.read().decode()
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, self._held + out, err.decode()
