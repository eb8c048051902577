"""Scripted models on loopback, as Claude Code, Codex and Gemini CLI call them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Step(NamedTuple):
    """What the model does next: say a text, or call a tool.

    Attributes:
        text: The text; empty for a call.
        tool: End of the tool's name, after the prefix of the client.
        arguments: Arguments of the call.
    """

    text: str = ""
    tool: str = ""
    arguments: dict[str, Any] = {}  # noqa: RUF012 - a named tuple; nobody changes it


class ScriptedModel:
    """A model that follows a script, and keeps the requests that offer it tools.

    Attributes:
        url: Where it listens.
        requests: The bodies of the requests with tools, in order.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[dict[str, Any]] = []
        self._steps: list[Step] = []
        self._lock = threading.Lock()

    def follow(self, *steps: Step) -> None:
        """Set the script of the next run."""
        with self._lock:
            self._steps = list(steps)
            self.requests.clear()

    def take_step(self, body: dict[str, Any]) -> Step:
        """Return the answer to a request; requests without tools are for titles and the like."""
        if not list_tools(body):
            return Step("ok")
        with self._lock:
            self.requests.append(body)
            return self._steps.pop(0) if self._steps else Step("The script has ended.")


def list_tools(body: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the offered tools, each with its namespace, which is empty for most clients, and its name."""
    found = []
    for tool in body.get("tools") or []:
        if tool.get("type") == "namespace":
            found += [(tool["name"], each["name"]) for each in tool["tools"]]
        elif "functionDeclarations" in tool:
            found += [("", each["name"]) for each in tool["functionDeclarations"]]
        else:
            found.append(("", tool.get("name") or tool.get("type", "")))
    return found


def find_tool(body: dict[str, Any], name: str) -> tuple[str, str]:
    """Return the namespace and the name of the offered tool whose name ends in `name`."""
    matching = [each for each in list_tools(body) if each[1].endswith(name)]
    assert matching, f"{name} is not offered: {list_tools(body)}"
    return matching[0]


@contextmanager
def serve_model() -> Iterator[ScriptedModel]:
    """Serve a scripted model on a free port of this machine."""

    class Handler(_Handler):
        pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Handler.model = model = ScriptedModel(f"http://127.0.0.1:{server.server_address[1]}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield model
        finally:
            server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    model: ScriptedModel

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._send("application/json", b"")

    def do_GET(self) -> None:
        self._send("application/json", b'{"data": [], "models": []}')

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(data or b"{}")
        except ValueError:
            body = {}
        path = self.path.partition("?")[0]
        if path.endswith("/messages"):
            self._send_events(_speak_messages(self.model.take_step(body), body))
        elif path.endswith("/responses"):
            self._send_events(_speak_responses(self.model.take_step(body), body))
        elif path.endswith("GenerateContent"):
            self._send_events([_speak_gemini(self.model.take_step(body), body)])
        elif path.endswith("generateContent"):
            self._send_json(_speak_gemini(Step("{}"), body))
        else:
            self._send_json({"input_tokens": 10, "totalTokens": 10})

    def _send_json(self, value: Any) -> None:
        self._send("application/json", json.dumps(value).encode())

    def _send_events(self, events: list[dict[str, Any]]) -> None:
        lines = []
        for event in events:
            named = f"event: {event['type']}\n" if "type" in event else ""
            lines.append(f"{named}data: {json.dumps(event)}\n\n")
        self._send("text/event-stream", "".join(lines).encode())

    def _send(self, kind: str, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _speak_messages(step: Step, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of Anthropic's Messages."""
    usage = {"input_tokens": 10, "output_tokens": 5}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "scripted"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    if step.tool:
        block = {"type": "tool_use", "id": "toolu_1", "name": find_tool(body, step.tool)[1], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(step.arguments)}
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": step.text}
    reason = "tool_use" if step.tool else "end_turn"
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


def _speak_responses(step: Step, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of OpenAI's Responses."""
    item: dict[str, Any]
    if step.tool:
        namespace, name = find_tool(body, step.tool)
        item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name}
        item |= {"arguments": json.dumps(step.arguments)} | ({"namespace": namespace} if namespace else {})
    else:
        content = [{"type": "output_text", "text": step.text, "annotations": []}]
        item = {"type": "message", "id": "msg_1", "role": "assistant", "content": content}
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    return [
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}},
    ]


def _speak_gemini(step: Step, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of Gemini, which is one event of a stream."""
    part: dict[str, Any] = {"text": step.text}
    if step.tool:
        part = {"functionCall": {"name": find_tool(body, step.tool)[1], "args": step.arguments}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    return {"candidates": [candidate], "usageMetadata": usage}
