"""An agent with a knowledge graph beside its memory: LightRAG, asked before a turn and fed after it.

Runs as it stands, with a tiny LightRAG and a scripted model on this machine. With yours: pass its address and
key to `LightRAG`, and a model such as "openai:gpt-5-mini" to `resolve_model`.

    pip install 'reverie[lightrag]'
    python examples/lightrag_recall.py
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from reverie import Memory
from reverie.agent import Agent
from reverie.integrations.lightrag import LightRAG, LightRAGIndexer
from reverie.llm import resolve_model
from reverie.llm.protocol import ModelRequest


@contextmanager
def tiny_lightrag() -> Iterator[tuple[str, list[str]]]:
    """Run a server that returns documents with a word of the question; yield its address and the documents."""
    documents: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/documents/text":
                documents.append(body["text"])
                self.answer({"status": "success", "message": "queued", "track_id": "insert_1"})
            else:
                words = {word for word in body["query"].lower().split() if len(word) > 3}
                texts = [text for text in documents if words & set(text.lower().split())]
                self.answer({"response": "\n".join(texts) or "Sorry, nothing is known of that.[no-context]"})

        def answer(self, answer: dict[str, str]) -> None:
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", documents
        finally:
            server.shutdown()


def scripted(ask: ModelRequest) -> str:
    """Answer as a model would, from the text under `# Relevant Memory`."""
    system = ask.messages[0].content if ask.messages[0].role == "system" else ""
    graph = system.partition("# Relevant Memory")[2]
    return "At berth 7, I was told." if "berth 7" in graph else "I will remember that, thank you for telling."


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        tiny_lightrag() as (url, documents),
        Memory.open(folder) as memory,
        LightRAG(url, mode="hybrid", timeout_s=2.0) as rag,
        LightRAGIndexer(memory, rag) as indexing,
    ):
        for chat, message in (
            ("cli:monday", "The Nautilus lies at berth 7 from today on"),
            ("cli:tuesday", "Where does the Nautilus lie?"),
        ):
            agent = Agent(
                memory.session(chat), model=resolve_model(scripted), related=rag.recall, done=indexing.wake
            )
            answer = agent.turn(message)
            print(f"[{chat}] {message}\n  -> {answer.text}")
            indexing.wake().result()  # only so that the next question finds it
        print(f"{len(documents)} exchanges are in the graph")


if __name__ == "__main__":
    main()
