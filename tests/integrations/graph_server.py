"""A server on loopback that speaks as much of LightRAG's REST API as is used, and misbehaves on demand."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CONTEXT = """Knowledge Graph Data (Entity):

```json
{"entity": "Nautilus", "type": "boat", "description": "A boat that lies at berth 7"}
```

Knowledge Graph Data (Relationship):

```json
{"entity1": "Ada", "entity2": "Nautilus", "description": "Ada owns the Nautilus"}
```
"""
NO_CONTEXT = "Sorry, I'm not able to provide an answer to that question.[no-context]"


class Graph:
    """What the server was asked, and how it is to behave.

    Attributes:
        url: Where it is.
        asked: Each request: method, path, key, body.
        response: What a query is answered with.
        mood: `good`, `slow` (a second), `cut` (the connection ends in the answer), `words` (no JSON), `list`
            (JSON that is no object), `number` (no text in it), or a status such as `500`.
    """

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[tuple[str, str, str | None, Any]] = []
        self.response = CONTEXT
        self.mood = "good"

    @property
    def documents(self) -> list[dict[str, str]]:
        """What was accepted for indexing, once each, as LightRAG keeps it."""
        taken = [body for method, path, _, body in self.asked if path == "/documents/text"]
        return list({body["file_source"]: body for body in taken}.values())


@contextmanager
def serving() -> Iterator[Graph]:
    """A server, as long as the block runs."""
    graph = Graph()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            graph.asked.append(("GET", self.path, self.headers.get("X-API-Key"), None))
            self.tell({"status": "healthy"})

        def do_POST(self) -> None:
            told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if graph.mood == "slow":
                time.sleep(1)
            if graph.mood in {"good", "slow"} or not graph.mood.isdecimal():
                graph.asked.append(("POST", self.path, self.headers.get("X-API-Key"), told))
            if self.path == "/documents/text":
                self.tell({"status": "success", "message": "accepted", "track_id": "insert_1"})
            else:
                self.tell({"response": graph.response, "references": None})

        def tell(self, answer: dict[str, Any]) -> None:
            odd = {
                "words": b"<html>the proxy says hello</html>",
                "list": json.dumps([answer]).encode(),
                "number": b'{"response": 7}',
            }
            data = odd.get(graph.mood, json.dumps(answer).encode())
            self.send_response(int(graph.mood) if graph.mood.isdecimal() else 200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if graph.mood == "cut":
                self.wfile.write(data[: len(data) // 2])
                self.close_connection = True
                return
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # whoever did not wait for a slow answer has gone away

    with Server(("127.0.0.1", 0), Handler) as server:
        graph.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield graph
        finally:
            server.shutdown()
