"""A server on loopback that speaks OpenAI's Chat Completions and Anthropic's Messages, by a script."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Step = Callable[["Handler"], None]


@dataclass
class Script:
    """What the server does with one request after the other, and what it was asked.

    Attributes:
        steps: What is still to come; the last one stays.
        asked: The bodies of the requests, and their headers under `headers`.
    """

    steps: list[Step]
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        script = self.server.script
        script.asked.append(
            {
                **body,
                "path": self.path,
                "headers": {name.lower(): text for name, text in self.headers.items()},
            }
        )
        step = script.steps.pop(0) if len(script.steps) > 1 else script.steps[0]
        self.asked = body
        try:
            step(self)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def do_GET(self) -> None:
        self.server.script.asked.append({"path": self.path, "headers": dict(self.headers)})
        self.send(200, b"{}")

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        kind = {"content-type": "application/json", "content-length": str(len(body))}
        for name, value in {**kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        del format, args

    @property
    def speaks_anthropic(self) -> bool:
        return self.path.endswith("/messages")


class Server(ThreadingHTTPServer):
    daemon_threads = True
    script: Script


@contextmanager
def serving(*steps: Step) -> Iterator[Script]:
    """A server that follows the script, as long as the block runs."""
    server = Server(("127.0.0.1", 0), Handler)
    server.script = Script(list(steps), url=f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# -- what it can do ----------------------------------------------------------------------------------


def says(text: str, *, finish: str = "stop", calls: tuple[tuple[str, str, str], ...] = ()) -> Step:
    """Answer with a text and calls of tools (id, name, arguments), streamed where that is asked for."""

    def step(handler: Handler) -> None:
        whole = _anthropic if handler.speaks_anthropic else _openai
        pieces = _anthropic_pieces if handler.speaks_anthropic else _openai_pieces
        if handler.asked.get("stream"):
            _stream(handler, pieces(text, finish, calls))
        else:
            handler.send(200, json.dumps(whole(text, finish, calls, handler.asked)).encode())

    return step


def status(code: int, message: str = "no", headers: dict[str, str] | None = None) -> Step:
    """Answer with an error."""

    def step(handler: Handler) -> None:
        body = {"type": "error", "error": {"type": "some_error", "message": message}}
        handler.send(code, json.dumps(body).encode(), headers)

    return step


def refusing(word: str, then: Step, *, message: str) -> Step:
    """Answer 400 to a body that has the word in it, and go on with `then` otherwise; for every request."""

    def step(handler: Handler) -> None:
        (status(400, message) if word in json.dumps(handler.asked) else then)(handler)

    return step


def slow(seconds: float, then: Step) -> Step:
    """Wait first."""

    def step(handler: Handler) -> None:
        time.sleep(seconds)
        then(handler)

    return step


def dripping(seconds: float) -> Step:
    """Send a body byte by byte, so that no single wait is long."""

    def step(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", "1000000")
        handler.end_headers()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.02)
        handler.close_connection = True

    return step


def streaming_slowly(handler: Handler) -> None:
    """Stream an answer of many words with pauses between them."""
    pieces = _anthropic_pieces if handler.speaks_anthropic else _openai_pieces
    _stream(handler, pieces("word " * 100, "stop", ()), pause_s=0.05)


def hangs_up(handler: Handler) -> None:
    """Close the connection without a word."""
    handler.close_connection = True
    handler.connection.close()


def cut(handler: Handler) -> None:
    """Promise more than is sent, or end a stream before its end."""
    if handler.asked.get("stream"):
        pieces = _anthropic_pieces if handler.speaks_anthropic else _openai_pieces
        _stream(handler, pieces("Half of it", "stop", ())[:2])
    else:
        handler.send(200, b'{"choices": [{"message": {"content": "Half', {"content-length": "5000"})
        handler.close_connection = True


def is_no_json(handler: Handler) -> None:
    """Answer with a page that a proxy made."""
    handler.send(200, b"<html>gateway</html>")


def _stream(handler: Handler, pieces: list[bytes], *, pause_s: float = 0.0) -> None:
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream")
    handler.send_header("connection", "close")
    handler.end_headers()
    for piece in pieces:
        handler.wfile.write(piece)
        handler.wfile.flush()
        time.sleep(pause_s)
    handler.close_connection = True


def _event(data: dict[str, Any]) -> bytes:
    return f"event: {data.get('type', 'message')}\ndata: {json.dumps(data)}\n\n".encode()


Calls = tuple[tuple[str, str, str], ...]


def _openai(text: str, finish: str, calls: Calls, asked: dict[str, Any]) -> dict[str, Any]:
    del asked
    made = [
        {"id": call, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call, name, arguments in calls
    ]
    message = {"role": "assistant", "content": text or None, **({"tool_calls": made} if made else {})}
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted-1",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if made else finish}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
    }


def _openai_pieces(text: str, finish: str, calls: Calls) -> list[bytes]:
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "scripted-1"}

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n".encode()

    pieces = [chunk({"role": "assistant", "content": ""})]
    pieces += [chunk({"content": word + " "}) for word in text.split()]
    for index, (call, name, arguments) in enumerate(calls):
        half = len(arguments) // 2
        begun = {"index": index, "id": call, "type": "function", "function": {"name": name, "arguments": ""}}
        pieces.append(chunk({"tool_calls": [begun]}))
        for part in (arguments[:half], arguments[half:]):
            pieces.append(chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]}))
    pieces.append(chunk({}, "tool_calls" if calls else finish))
    usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
    pieces.append(f"data: {json.dumps({**head, 'choices': [], 'usage': usage})}\n\n".encode())
    return [*pieces, b"data: [DONE]\n\n"]


_REASONS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


def _anthropic(text: str, finish: str, calls: Calls, asked: dict[str, Any]) -> dict[str, Any]:
    forced = asked.get("tool_choice", {}).get("name")
    if forced:
        content = [{"type": "tool_use", "id": "t1", "name": forced, "input": json.loads(text or "{}")}]
    else:
        content = [{"type": "text", "text": text}] if text else []
        content += [
            {"type": "tool_use", "id": call, "name": name, "input": json.loads(arguments)}
            for call, name, arguments in calls
        ]
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "scripted-1",
        "content": content,
        "stop_reason": "tool_use" if forced or calls else _REASONS[finish],
        "stop_sequence": None,
        "usage": {"input_tokens": 20, "output_tokens": 5},
    }


def _anthropic_pieces(text: str, finish: str, calls: Calls) -> list[bytes]:
    start = {
        **_anthropic("", "stop", (), {}),
        "stop_reason": None,
        "usage": {"input_tokens": 20, "output_tokens": 1},
    }
    pieces = [_event({"type": "message_start", "message": start})]
    if text:
        block = {"type": "text", "text": ""}
        pieces.append(_event({"type": "content_block_start", "index": 0, "content_block": block}))
        for word in text.split():
            delta = {"type": "text_delta", "text": word + " "}
            pieces.append(_event({"type": "content_block_delta", "index": 0, "delta": delta}))
        pieces.append(_event({"type": "content_block_stop", "index": 0}))
    for index, (call, name, arguments) in enumerate(calls, 1):
        block = {"type": "tool_use", "id": call, "name": name, "input": {}}
        pieces.append(_event({"type": "content_block_start", "index": index, "content_block": block}))
        half = len(arguments) // 2
        for part in (arguments[:half], arguments[half:]):
            delta = {"type": "input_json_delta", "partial_json": part}
            pieces.append(_event({"type": "content_block_delta", "index": index, "delta": delta}))
        pieces.append(_event({"type": "content_block_stop", "index": index}))
    end = {"stop_reason": "tool_use" if calls else _REASONS[finish], "stop_sequence": None}
    pieces.append(_event({"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}}))
    return [*pieces, _event({"type": "message_stop"})]
