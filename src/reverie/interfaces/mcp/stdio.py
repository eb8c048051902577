"""Server on standard input and output: one message per line, and no other output.

The transport of the `mcp` package is not used. It does not answer invalid lines, reads lines of any length,
loses answers to the last requests before the end of input, and cannot be stopped by a signal while it waits
for a line.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import queue
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent import futures
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types.jsonrpc import jsonrpc_message_adapter

from reverie.interfaces.formatting import handle_signals
from reverie.interfaces.mcp.handshake import EarlyAnswers
from reverie.interfaces.mcp.server import MemoryServer, ServedMemory

LONGEST_LINE = 16 * 1024 * 1024
"""Maximum bytes of a message; a longer one is answered with an error."""

LAST_ANSWERS_S = 10.0
"""Seconds to wait for pending answers after the end of input."""

_PIECE = 1 << 16
_log = logging.getLogger("reverie.mcp")

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


def serve_stdio(offer: ServedMemory, early: EarlyAnswers | None = None) -> None:
    """Serve on standard input and output until the input ends, or SIGINT or SIGTERM arrives.

    Args:
        offer: The served memory.
        early: What has begun to read the input; None for nothing.
    """
    anyio.run(_run, offer, early)


async def _run(offer: ServedMemory, early: EarlyAnswers | None) -> None:
    server = MemoryServer(offer)
    with anyio.CancelScope() as scope, handle_signals(scope.cancel):
        async with open_streams(early) as (read, write):
            await server.protocol.run(read, write, server.protocol.create_initialization_options())
    server.threads.drain()


@asynccontextmanager
async def open_streams(early: EarlyAnswers | None = None) -> AsyncIterator[Streams]:
    """Open the streams of a server on standard input and output.

    Both are redirected meanwhile, so that only messages are read and written.

    Args:
        early: What has begun to read the input; None for nothing.
    """
    with _redirect_descriptors() as (source, target):
        writer = _Writer(target)
        transport = _Transport(source, writer, early)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(transport.write_messages)
            threading.Thread(target=transport.read_messages, name="reverie-mcp-in", daemon=True).start()
            try:
                yield transport.from_client, transport.to_client
            finally:
                writer.finish()
                tasks.cancel_scope.cancel()


class _Pending:
    """Requests without an answer."""

    def __init__(self) -> None:
        self._ids: Counter[str] = Counter()
        self._none = anyio.Event()

    def add(self, message: Any) -> None:
        """Add a request, or remove a cancelled one."""
        if isinstance(message, types.JSONRPCRequest):
            self._ids[str(message.id)] += 1
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self.remove((message.params or {}).get("requestId"))

    def remove(self, id: Any) -> None:
        """Remove a request that has its answer."""
        self._ids -= Counter([str(id)])
        if not self._ids:
            self._none.set()

    async def wait_until_empty(self, timeout: float) -> None:
        """Wait until every request has its answer, or until the timeout."""
        self._none = anyio.Event()
        if self._ids:
            with anyio.move_on_after(timeout):
                await self._none.wait()


class _Writer:
    """Writer on its own thread, so that a slow client blocks neither the loop nor the exit."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._loop = asyncio.get_running_loop()
        self._lines: queue.SimpleQueue[tuple[bytes, asyncio.Future[bool]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="reverie-mcp-out", daemon=True)
        self._thread.start()

    async def write(self, line: bytes) -> bool:
        """Write a line; return False if the client has closed the output."""
        done: asyncio.Future[bool] = self._loop.create_future()
        self._lines.put((line, done))
        return await done

    def finish(self) -> None:
        """Write the remaining lines, for at most a second."""
        self._lines.put(None)
        self._thread.join(1.0)

    def _run(self) -> None:
        while (item := self._lines.get()) is not None:
            line, done = item
            try:
                view = memoryview(line)
                while view:
                    view = view[os.write(self._target, view) :]
                alive = True
            except OSError:
                alive = False
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(_settle, done, alive)


def _settle(done: asyncio.Future[bool], alive: bool) -> None:
    if not done.done():
        done.set_result(alive)


class _Transport:
    """Messages of a client and of the server; those of the client are read on a thread of their own."""

    def __init__(self, source: int, writer: _Writer, early: EarlyAnswers | None) -> None:
        self._source = source
        self._writer = writer
        self._early = early
        self._pending = _Pending()
        self._loop = asyncio.get_running_loop()
        self._to_server, self.from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self.to_client, self._from_server = anyio.create_memory_object_stream[SessionMessage](0)

    async def write_messages(self) -> None:
        """Write the server's messages, but no second answer to `initialize`.

        If the client has closed the output, the input ends.
        """
        early = self._early
        async with self._from_server:
            async for message in self._from_server:
                answers = getattr(message.message, "id", None)
                if early is not None and answers is not None and answers == early.greeting:
                    early = None
                    self._pending.remove(answers)
                    continue
                if not await self._write(message.message):
                    self._to_server.close()
                    return
                if isinstance(message.message, types.JSONRPCResponse | types.JSONRPCError):
                    self._pending.remove(message.message.id)

    async def _write(self, message: types.JSONRPCMessage) -> bool:
        line = message.model_dump_json(by_alias=True, exclude_unset=True)
        return await self._writer.write(line.encode() + b"\n")

    def read_messages(self) -> None:
        """Read the client's messages until the input ends or the server stops."""
        with suppress(
            RuntimeError, futures.CancelledError, anyio.ClosedResourceError, anyio.BrokenResourceError
        ):
            already_read = b"" if self._early is None else self._early.wait()
            for line in _read_lines(self._source, already_read):
                if line is None:
                    what = f"A message is over {LONGEST_LINE // 1024 // 1024} MB."
                    self._run_in_loop(self._refuse(None, types.INVALID_REQUEST, what))
                elif line.strip():
                    self._run_in_loop(self._take(line))
            self._run_in_loop(self._close())

    def _run_in_loop(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the loop and wait for it; `RuntimeError` if the loop has ended."""
        try:
            asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except RuntimeError:
            work.close()
            raise

    async def _take(self, line: bytes) -> None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            await self._reject_line(line)
            return
        if isinstance(message, types.JSONRPCNotification) and "id" in json.loads(line):
            await self._reject_line(
                line
            )  # a request whose id is null or a fraction, which waits for an answer
            return
        self._pending.add(message)
        await self._to_server.send(SessionMessage(message))

    async def _reject_line(self, line: bytes) -> None:
        """Answer a line that is not a message."""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            await self._refuse(None, types.PARSE_ERROR, "Parse error: a line is not JSON.")
            return
        if isinstance(value, dict) and "method" not in value and {"result", "error"} & set(value):
            _log.warning("ignored an invalid answer of the client")
            return
        name = value.get("id") if isinstance(value, dict) else None
        has_id = type(name) in (str, int) and str(name).isprintable()
        what = "Invalid request: send one JSON-RPC 2.0 message per line, in whole characters of Unicode."
        await self._refuse(name if has_id else None, types.INVALID_REQUEST, what)

    async def _refuse(self, id: str | int | None, code: int, message: str) -> None:
        error = types.JSONRPCError(jsonrpc="2.0", id=id, error=types.ErrorData(code=code, message=message))
        await self._write(error)

    async def _close(self) -> None:
        await self._pending.wait_until_empty(LAST_ANSWERS_S)
        self._to_server.close()


def _read_lines(source: int, already_read: bytes = b"") -> Iterator[bytes | None]:
    """Iterate over lines without line ends; None stands for a line that is too long."""
    buffer, is_too_long = bytearray(), False
    piece = already_read or _read(source)
    while piece:
        *ended, rest = piece.split(b"\n")
        for part in ended:
            buffer += part
            yield bytes(buffer) if not is_too_long and len(buffer) <= LONGEST_LINE else None
            buffer.clear()
            is_too_long = False
        buffer += rest
        if len(buffer) > LONGEST_LINE:
            buffer.clear()
            is_too_long = True
        piece = _read(source)
    if buffer and not is_too_long:
        yield bytes(buffer)


def _read(source: int) -> bytes:
    with suppress(OSError):
        return os.read(source, _PIECE)
    return b""


@contextmanager
def _redirect_descriptors() -> Iterator[tuple[int, int]]:
    """Return descriptors for the messages; redirect standard input to nothing and output to standard error."""
    saved: list[tuple[int, int]] = []

    def redirect(standard: int, replacement: int) -> int:
        duplicate = os.dup(standard)
        os.dup2(replacement, standard)
        os.close(replacement)
        saved.append((standard, duplicate))
        return duplicate

    try:
        source = redirect(0, os.open(os.devnull, os.O_RDONLY))
        sys.stdout.flush()
        yield source, redirect(1, os.dup(2))
    finally:
        for standard, duplicate in saved:
            os.dup2(duplicate, standard)  # `duplicate` stays open: a thread may still read it
