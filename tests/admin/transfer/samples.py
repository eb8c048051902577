"""Small sources of every foreign format, as the programs that write them do, and a way to take them in."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from reverie import Memory
from reverie.admin.transfer.importer import ImportReport

MCP = [
    {
        "type": "entity",
        "name": "Ada_Byron",
        "entityType": "person",
        "observations": ["Speaks fluent French", "Ada Byron prefers morning meetings", "  "],
    },
    {"type": "entity", "name": "Lowwater", "entityType": "project", "observations": []},
    {"type": "relation", "from": "Ada_Byron", "to": "Lowwater", "relationType": "works_on"},
]

GOLEMCORE_TURN = {
    "id": "0b1f7a52-8f0e-4c55-9f0e-2f4b7d1c9a10",
    "layer": "EPISODIC",
    "type": "TASK_STATE",
    "title": "health checks",
    "content": "User: How do I configure health checks?\nAssistant: Add a healthcheck section.",
    "tags": ["docker", "java"],
    "source": "turn",
    "confidence": 0.65,
    "salience": 0.7,
    "ttlDays": 90,
    "createdAt": 1770473700.5,
    "updatedAt": "2026-02-07T14:15:00.123456789Z",
    "references": ["docker-compose.yml"],
    "fingerprint": "3b8f",
}
GOLEMCORE_FACT = {
    "id": "7c9e6679-7425-40de-944b-e07fc1f90ae7",
    "layer": "SEMANTIC",
    "type": "CONSTRAINT",
    "title": "Constraint",
    "content": "Deployments must not happen on Fridays",
    "tags": [],
    "source": "derived",
    "confidence": 0.82,
    "salience": 0.9,
    "createdAt": "2026-02-01T10:00:00Z",
    "updatedAt": "2026-02-03T10:00:00Z",
    "lastAccessedAt": "2026-02-05T10:00:00Z",
    "references": [],
}

ROCKBOT_TIMEZONE = {
    "id": "a1b2c3d4e5f6",
    "content": "User is in Chicago (America/Chicago)",
    "category": "user-preferences/timezone",
    "tags": ["timezone", "location"],
    "createdAt": "2026-01-10T08:30:00.1234567-06:00",
    "updatedAt": "2026-01-12T08:30:00-06:00",
    "metadata": {"source": "inferred", "requires_user_permission": "true"},
    "importanceScore": 0.75,
    "lastSeenAt": "2026-01-20T08:30:00-06:00",
    "reinforcementCount": 4,
    "verify": None,
    "supersededBy": None,
    "archivedAt": None,
}
ROCKBOT_OLD = {
    "Id": "9f8e7d6c",
    "Content": "Don't use search_files for content search — use grep",
    "Category": "anti-patterns/file-operations",
    "Tags": ["anti-pattern"],
    "CreatedAt": "2025-11-02T19:00:00+00:00",
    "UpdatedAt": None,
    "Metadata": None,
}
ROCKBOT_MERGED = {
    "id": "5f0c2f6e-3a0c-4c8e-8a0b-0d9f6a1f2b3c",
    "content": "The staging cluster has two nodes",
    "category": None,
    "tags": [],
    "createdAt": "2026-01-01T00:00:00+00:00",
    "supersededBy": "a1b2c3d4e5f6",
}

CHATGPT = [
    {
        "title": "Postgres or MongoDB",
        "create_time": 1736209400.25,
        "update_time": 1736209800.0,
        "mapping": {
            "root": {"id": "root", "message": None, "parent": None, "children": ["sys"]},
            "sys": {
                "id": "sys",
                "message": {
                    "id": "sys",
                    "author": {"role": "system", "name": None, "metadata": {}},
                    "create_time": None,
                    "content": {"content_type": "text", "parts": [""]},
                    "metadata": {"is_visually_hidden_from_conversation": True},
                    "recipient": "all",
                },
                "parent": "root",
                "children": ["q1", "q1-edited"],
            },
            "q1": {
                "id": "q1",
                "message": {
                    "id": "q1",
                    "author": {"role": "user"},
                    "create_time": 1736209401.0,
                    "content": {"content_type": "text", "parts": ["Postgress or mongo?"]},
                },
                "parent": "sys",
                "children": [],
            },
            "q1-edited": {
                "id": "q1-edited",
                "message": {
                    "id": "q1-edited",
                    "author": {"role": "user"},
                    "create_time": 1736209402.0,
                    "content": {
                        "content_type": "multimodal_text",
                        "parts": [
                            {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"},
                            "Postgres or MongoDB for metrics?",
                        ],
                    },
                },
                "parent": "sys",
                "children": ["thinking"],
            },
            "thinking": {
                "id": "thinking",
                "message": {
                    "id": "thinking",
                    "author": {"role": "assistant"},
                    "create_time": 1736209403.0,
                    "content": {"content_type": "thoughts", "thoughts": []},
                },
                "parent": "q1-edited",
                "children": ["call"],
            },
            "call": {
                "id": "call",
                "message": {
                    "id": "call",
                    "author": {"role": "assistant"},
                    "create_time": 1736209404.0,
                    "content": {"content_type": "code", "language": "python", "text": "print(1 + 1)"},
                    "recipient": "python",
                    "metadata": {"model_slug": "gpt-4o"},
                },
                "parent": "thinking",
                "children": ["result"],
            },
            "result": {
                "id": "result",
                "message": {
                    "id": "result",
                    "author": {"role": "tool", "name": "python"},
                    "create_time": 1736209405.0,
                    "content": {"content_type": "execution_output", "text": "2"},
                },
                "parent": "call",
                "children": ["a1"],
            },
            "a1": {
                "id": "a1",
                "message": {
                    "id": "a1",
                    "author": {"role": "assistant"},
                    "create_time": 1736209406.0,
                    "content": {"content_type": "text", "parts": ["Postgres, with a time-series extension."]},
                    "metadata": {"model_slug": "gpt-4o"},
                    "recipient": "all",
                },
                "parent": "result",
                "children": [],
            },
        },
        "current_node": "a1",
        "conversation_id": "8f3a2b1c-0000-4000-8000-000000000001",
        "default_model_slug": "gpt-4o",
        "gizmo_id": None,
    }
]

CLAUDE = [
    {
        "uuid": "11111111-2222-4333-8444-555555555555",
        "name": "Naming the relay",
        "created_at": "2025-05-01T09:00:00.000000Z",
        "updated_at": "2025-05-01T09:10:00.000000Z",
        "account": {"uuid": "aaaaaaaa-0000-4000-8000-000000000000"},
        "chat_messages": [
            {
                "uuid": "m-1",
                "text": "What shall we call the relay?",
                "content": [{"type": "text", "text": "What shall we call the relay?"}],
                "sender": "human",
                "created_at": "2025-05-01T09:00:01.000000Z",
                "attachments": [
                    {"file_name": "names.txt", "file_type": "txt", "extracted_content": "Lark\nHeron"},
                    {"file_name": "scan.pdf", "file_type": "pdf", "extracted_content": ""},
                ],
                "files": [{"file_name": "photo.png"}],
            },
            {
                "uuid": "m-2",
                "text": "Let me look.\n\nHeron it is.",
                "content": [
                    {"type": "thinking", "thinking": "Two candidates."},
                    {"type": "text", "text": "Let me look."},
                    {"type": "tool_use", "name": "web_search", "input": {"query": "heron"}, "id": "t-1"},
                    {
                        "type": "tool_result",
                        "name": "web_search",
                        "tool_use_id": "t-1",
                        "content": [{"type": "text", "text": "A wading bird."}],
                    },
                    {"type": "text", "text": "Heron it is."},
                ],
                "sender": "assistant",
                "created_at": "2025-05-01T09:00:09.000000Z",
                "attachments": [],
                "files": [],
            },
        ],
    },
    {"uuid": "empty-one", "name": "", "created_at": "2025-05-02T09:00:00Z", "chat_messages": []},
]

MEMORY_MD = """# Long-term Memory

User prefers concise responses.

## Project
- Spring Boot 4.0.2
- Database: PostgreSQL
  - port 5432

```sql
SELECT 1;

SELECT 2;
```
"""
HISTORY_MD = (
    "[2025-01-15 10:30] User asked about deployment. Decided on GitHub Actions.\n\n"
    "2025-01-16 09:00: Talked about Docker.\nHealth checks were added.\n\n"
    "A paragraph without a time.\n"
)
NOTE_MD = (
    "[14:15] User: How do I configure health checks? | Assistant: Add a section...\n"
    "[14:30] User: What about restart? | Assistant: Use unless-stopped...\n"
)


def lines(path: Path, documents: Iterable[Any]) -> Path:
    """A file of JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(each)}\n" for each in documents), encoding="utf-8")
    return path


def document(path: Path, value: Any) -> Path:
    """A file of one JSON document."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")
    return path


def text(path: Path, content: str) -> Path:
    """A text file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def mcp(folder: Path) -> Path:
    """The file of the MCP reference memory server."""
    return lines(folder / "memory.jsonl", MCP)


def golemcore(folder: Path) -> Path:
    """A workspace of golemcore: notes, items of three layers, one session."""
    place = folder / "workspace"
    text(place / "memory" / "MEMORY.md", MEMORY_MD)
    text(place / "memory" / "2026-02-07.md", NOTE_MD)
    lines(place / "memory" / "items" / "episodic" / "2026-02-07.jsonl", [GOLEMCORE_TURN, GOLEMCORE_FACT])
    lines(place / "memory" / "items" / "semantic.jsonl", [GOLEMCORE_FACT])
    session = {
        "id": "telegram:12345",
        "channelType": "telegram",
        "chatId": "12345",
        "state": "PAUSED",
        "createdAt": "2026-02-07T14:00:00Z",
        "metadata": {"lang": "en", "depth": 3},
        "messages": [
            {"id": "u-1", "role": "user", "content": "Set up CI", "timestamp": "2026-02-07T14:00:01Z"},
            {
                "id": "u-2",
                "role": "assistant",
                "content": None,
                "toolCalls": [{"id": "call-1", "name": "shell", "arguments": {"command": "ls"}}],
                "timestamp": 1770472802.0,
            },
            {"id": "u-3", "role": "tool", "content": "pom.xml", "toolCallId": "call-1"},
        ],
    }
    document(place / "sessions" / "telegram:12345.json", session)
    return place


def rockbot(folder: Path) -> Path:
    """An agent's folder of RockBot: a profile, and entries in categories."""
    place = folder / "agent"
    text(place / "soul.md", "I am RockBot.\n")
    memory = place / "memory"
    document(memory / "user-preferences" / "timezone" / "a1b2c3d4e5f6.json", ROCKBOT_TIMEZONE)
    document(memory / "anti-patterns" / "file-operations" / "9f8e7d6c.json", ROCKBOT_OLD)
    document(memory / f"{ROCKBOT_MERGED['id']}.json", ROCKBOT_MERGED)
    return place


def autobot(folder: Path) -> Path:
    """A workspace of Autobot: MEMORY.md, HISTORY.md, one session."""
    place = folder / "workspace"
    text(place / "memory" / "MEMORY.md", MEMORY_MD)
    text(place / "memory" / "HISTORY.md", HISTORY_MD)
    about = {"_type": "metadata", "created_at": "2025-01-15T10:00:00Z", "metadata": {}}
    said = [
        {"role": "user", "content": "how do I deploy this?", "timestamp": "2025-01-15T10:30:00Z"},
        {"role": "assistant", "content": "With GitHub Actions.", "timestamp": "2025-01-15T10:31:00Z"},
        {"role": "user", "content": "ok", "timestamp": "2025-01-15T10:32:00Z"},
        {"role": "user", "content": "ok", "timestamp": "2025-01-15T10:32:00Z"},
    ]
    lines(place / "sessions" / "telegram_77.jsonl", [about, *said])
    return place


def chatgpt(folder: Path) -> Path:
    """An export of ChatGPT, zipped, with the other files it has."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / "chatgpt.zip"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("user.json", "{}")
        archive.writestr("chat.html", "<html></html>")
        archive.writestr("conversations.json", json.dumps(CHATGPT))
    return place


def claude(folder: Path) -> Path:
    """An export of Claude, zipped."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / "claude.zip"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps(CLAUDE))
        archive.writestr("users.json", "[]")
    return place


def long_text(folder: Path) -> Path:
    """A text of several passages."""
    valves = " ".join(f"Valve {n} opens at {n} bar." for n in range(200))
    return text(folder / "handbook.txt", f"# Handbook\n\n{valves}")


SOURCES = {
    "mcp": mcp,
    "golemcore": golemcore,
    "rockbot": rockbot,
    "notes": autobot,
    "chatgpt": chatgpt,
    "claude": claude,
    "document": long_text,
}
"""Every foreign format, by its name."""


def whys(done: ImportReport) -> dict[str, int]:
    """How many things were left out for each reason."""
    return dict(done.skipped_by_reason)


def told(done: ImportReport, why: str) -> list[tuple[str, str]]:
    """What was left out for a reason, and where it stands."""
    return [(each.what, each.place) for each in done.skipped if each.why == why]


def contents(memory: Memory) -> set[str]:
    """What all records say."""
    return {record.content for record in memory.list(limit=None, archived=None)}


Said = tuple[str, str]
"""The id and the text of a message; those at odd places are answers."""


def as_chatgpt(path: Sequence[Said], title: str, day: int) -> Any:
    nodes = {
        name: {
            "parent": path[n - 1][0] if n else None,
            "message": {
                "id": name,
                "author": {"role": ("user", "assistant")[n % 2]},
                "content": {"parts": [text]},
            },
        }
        for n, (name, text) in enumerate(path)
    }
    return [
        {
            "id": "x",
            "title": title,
            "update_time": f"2026-05-{day:02}",
            "mapping": nodes,
            "current_node": path[-1][0],
        }
    ]
