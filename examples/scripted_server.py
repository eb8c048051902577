"""Server on loopback that answers as a model would, by a script, for the examples beside it.

It has OpenAI's Chat Completions and Anthropic's Messages, streamed or not, so that every example runs without
changes: without a key, without the network, with the same outcome each time. To use a real model, leave out
`serving`, and the `base_url` and `api_key` where the client is made.

    with serving(["Hello."]) as base_url:
        client = openai.OpenAI(base_url=base_url, api_key="none")

It accepts any name of a model, any key and any tools.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A tool that the scripted model calls.

    Attributes:
        name: The tool's name.
        arguments: What it is called with.
        id: The call's id; empty for one that the server makes.
    """

    name: str
    arguments: Json = field(default_factory=dict)
    id: str = ""


Content = str | Call | Sequence[str | Call]
Reply = Content | Callable[[Json], Content]
"""A text, a call, several of them, or a function that is given the request and returns one of these."""


class BaseUrl(str):
    """The address to give to a client as `base_url`.

    Attributes:
        asked: The bodies of the requests so far, in order.
    """

    __slots__ = ("asked",)

    asked: list[Json]


@contextmanager
def serving(replies: Sequence[Reply]) -> Iterator[BaseUrl]:
    """Run a server that gives these replies, one for each request, until the block ends.

    A request beyond the last reply is refused with status 400, which clients raise and do not repeat.

    Args:
        replies: What the model says, in order.

    Yields:
        The address, such as `http://127.0.0.1:40321/v1`, for clients of both kinds.
    """
    server = _Server(("127.0.0.1", 0), _Request)
    server.replies = list(replies)
    server.asked = []
    server.turn = threading.Lock()
    url = BaseUrl(f"http://127.0.0.1:{server.server_port}/v1")
    url.asked = server.asked
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    replies: list[Reply]
    asked: list[Json]
    turn: threading.Lock


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.turn:
            number = len(self.server.asked)
            self.server.asked.append(body)
        if number >= len(self.server.replies):
            message = f"the script has {len(self.server.replies)} replies, and this is request {number + 1}"
            self._send(400, {"type": "error", "error": {"type": "invalid_request_error", "message": message}})
            return
        reply = self.server.replies[number]
        content = reply(body) if callable(reply) else reply
        parts = [content] if isinstance(content, str | Call) else list(content)
        text = "".join(part for part in parts if isinstance(part, str))
        calls = [
            Call(part.name, part.arguments, part.id or f"call_{number + 1}_{place}")
            for place, part in enumerate(parts)
            if isinstance(part, Call)
        ]
        speaks_anthropic = self.path.partition("?")[0].endswith("/messages")
        whole = _message(text, calls) if speaks_anthropic else _completion(text, calls)
        if body.get("stream"):
            self._stream(_message_events(whole) if speaks_anthropic else _completion_chunks(whole))
        else:
            self._send(200, whole)

    def _send(self, status: int, body: Json) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, pieces: Sequence[str]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(piece.encode())
            self.wfile.flush()
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, so that only the example writes."""


# -- OpenAI, Chat Completions ------------------------------------------------------------------------------


def _completion(text: str, calls: Sequence[Call]) -> Json:
    message: Json = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in calls
        ]
    finish = "tool_calls" if calls else "stop"
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
    }


def _completion_chunks(whole: Json) -> list[str]:
    choice = whole["choices"][0]
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in _words(choice["message"]["content"] or "")]
    for index, call in enumerate(choice["message"].get("tool_calls", ())):
        function = call["function"]
        deltas.append({"tool_calls": [{**call, "index": index, "function": {**function, "arguments": ""}}]})
        for part in _halves(function["arguments"]):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    choices: list[list[Json]] = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}])
    head = {**whole, "object": "chat.completion.chunk", "usage": None}
    chunks: list[Json] = [{**head, "choices": one} for one in choices]
    chunks.append({**head, "choices": [], "usage": whole["usage"]})
    return [*(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks), "data: [DONE]\n\n"]


# -- Anthropic, Messages -----------------------------------------------------------------------------------


def _message(text: str, calls: Sequence[Call]) -> Json:
    content: list[Json] = [{"type": "text", "text": text}] if text else []
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in calls
    ]
    return {
        "id": "msg_scripted",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 20, "output_tokens": 5},
    }


def _message_events(whole: Json) -> list[str]:
    events: list[Json] = [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
    ]
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            empty = {**block, "text": ""}
            deltas: list[Json] = [{"type": "text_delta", "text": word} for word in _words(block["text"])]
        else:
            empty = {**block, "input": {}}
            parts = _halves(json.dumps(block["input"]))
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}})
    events.append({"type": "message_stop"})
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]


def _words(text: str) -> list[str]:
    """Split the text into pieces, as a model streams it."""
    return [text[start : start + 7] for start in range(0, len(text), 7)]


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [text[:middle], text[middle:]]
