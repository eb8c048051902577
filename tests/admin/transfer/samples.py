"""Small sources of every foreign format, as the programs that write them do, and a way to take them in."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from reverie import Memory
from reverie.admin.transfer.importer import ImportReport
from reverie.domain.filter import Filter
from reverie.stores.protocol import Store


def read_data(name: str) -> Any:
    """The content of a file of samples."""
    return json.loads(Path(__file__).with_name("data").joinpath(f"{name}.json").read_text(encoding="utf-8"))


_PROGRAMS = read_data("programs")
_FOLDERS = read_data("folders")
MCP: list[dict[str, Any]] = _PROGRAMS["MCP"]
GOLEMCORE_TURN: dict[str, Any] = _PROGRAMS["GOLEMCORE_TURN"]
GOLEMCORE_FACT: dict[str, Any] = _PROGRAMS["GOLEMCORE_FACT"]
ROCKBOT_TIMEZONE: dict[str, Any] = _PROGRAMS["ROCKBOT_TIMEZONE"]
ROCKBOT_OLD: dict[str, Any] = _PROGRAMS["ROCKBOT_OLD"]
CHATGPT: list[dict[str, Any]] = _PROGRAMS["CHATGPT"]
CLAUDE: list[dict[str, Any]] = _PROGRAMS["CLAUDE"]

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


def make(name: str, folder: Path) -> Path:
    """The files of a program, written into a folder."""
    for path, content in _FOLDERS[name]["files"].items():
        text(folder / path, content)
    return folder / str(_FOLDERS[name]["source"])


mcp, golemcore, rockbot, autobot = (
    partial(make, name) for name in ("mcp", "golemcore", "rockbot", "autobot")
)


def archive(path: Path, members: Mapping[str, str]) -> Path:
    """A zip archive."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return path


def chatgpt(folder: Path) -> Path:
    """An export of ChatGPT, zipped, with the other files it has."""
    conversations = json.dumps(CHATGPT)
    members = {"user.json": "{}", "chat.html": "<html></html>", "conversations.json": conversations}
    return archive(folder / "chatgpt.zip", members)


def claude(folder: Path) -> Path:
    """An export of Claude, zipped."""
    return archive(folder / "claude.zip", {"conversations.json": json.dumps(CLAUDE), "users.json": "[]"})


SOURCES = {
    "mcp": mcp,
    "golemcore": golemcore,
    "rockbot": rockbot,
    "notes": autobot,
    "chatgpt": chatgpt,
    "claude": claude,
    "document": partial(make, "long_text"),
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


# -- everything that a memory may have -----------------------------------------------------------------------

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

NASTY = st.sampled_from(
    [
        "---", "\n---\n", "\r\n", "\r", "\n\n", "\n \n", "\t", "\u2028", "\x85", "\ufeff", "\\", '"', "'",
        ": ", "# ", "- ", "## user, x <!-- turn {} -->", "\\## x <!-- turn {} -->", "<!-- turn ", "-->",
        "true", "null", "2026-03-01T12:00:00Z", "{", "}", "日本", "é", "🦊", "\u200b", "%41", "~", "'''",
        "\\n",
    ]
)  # fmt: skip
_LETTERS = st.characters(exclude_categories=("Cs", "Cc"))
_TEXT = st.lists(st.one_of(NASTY, st.text(_LETTERS, max_size=12)), min_size=1, max_size=8).map("".join)
TEXTS = st.lists(_TEXT.map("said {}".format), min_size=1, max_size=5, unique=True)
"""Texts of usual characters and of those that formats trip over."""


def fill(memory: Memory, texts: list[str]) -> None:
    for number, text in enumerate(texts):
        memory.save(text, tags=[f"t{number}"], category="notes")
        session = memory.session(f"cli:{number % 2}")
        session.add("user", text)
        session.add("assistant", f"{text} ✓")
        session.working.set("draft", text, ttl="1h")
        memory.pages.append("HISTORY.md", f"{number} said")
        memory.pages.write("MEMORY.md", f"# {number}\n")
    memory.scoped("user:alice").save("Alice keeps bees")
    memory.scratchpad.set("key", "value")
    memory.archive(memory.list()[0].id, reason="old")
    memory.history.undo(memory.history.log(newest_first=True)[0])
    memory.admin.forget(memory.save("Zanzibar is a secret").record.id)


def dump(store: Store) -> dict[str, Any]:
    """Everything that an export keeps, in an order that does not depend on when it was stored."""
    sessions = sorted(store.sessions(), key=lambda each: each.state.id)
    return {
        "records": sorted(
            (record.to_dict() for record in store.find(Filter(archived=None))), key=lambda each: each["id"]
        ),
        "sessions": [
            (each.state.to_dict(), [turn.to_dict() for turn in store.turns(session=each.state.id)])
            for each in sessions
        ],
        "pages": [page.to_dict() for page in store.pages()],
        "logs": {
            name: [paragraph.to_dict() for paragraph in store.paragraphs(page=name)] for name in store.logs()
        },
    }
