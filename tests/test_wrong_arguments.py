"""Whatever is passed to a memory, it answers or raises an error of its own that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reverie import InvalidInput, Memory, NotFound, ReverieError, Settings
from reverie.agent import Agent
from reverie.aio import AsyncMemory
from reverie.repositories.key_value import PutItem

TEXT = "x" * 3_000
WRONG: list[Any] = [
    *(5, [], ["a"], "a\0b", None, True, b"bytes", object(), [1], {"a": 1}, [[TEXT]], {TEXT: 1}, (1,)),
    *(list(range(2_000)), "\ud800", TEXT, -1, 1e308, float("nan"), timedelta.max),
    *(10**5_000, [10**5_000], {"a": 10**5_000}),  # Python itself refuses to format it
    datetime.max,  # noqa: DTZ901 - without a zone on purpose
    datetime.max.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=UTC),
]
RECORD = ("category", "kind", "layer", "tags", "confidence", "importance", "source", "references", "origin")
RECORD += ("pinned", "valid_from", "valid_to", "ttl", "metadata", "created_at", "draft")
SEARCH = ("category", "tags", "kind", "layer", "origin", "session", "role", "limit", "sources", "min_score")
SEARCH += ("created_after", "created_before", "valid_at", "mode")
TURN = ("role", "content", "speaker", "at", "tool_calls", "tool_call_id", "metadata")
CONTEXT = ("message", "soft_tokens", "hard_tokens", "extra_context")
FORGET = ("session", "scope", "match")


def calls(memory: Memory) -> dict[str, Callable[[Any], object]]:
    chat, record = memory.session("cli:1"), memory.save("Something known").record
    chat.add("user", "Hello")
    answer = chat.add("assistant", "Hello to you")
    turn = {"role": "user", "content": "Hello"}
    assert memory.folder is not None
    kept = memory.key_value("kept")
    every: dict[str, Callable[[Any], object]] = {
        f"{type(owner).__name__}.{name}": getattr(owner, name)
        for owner, names in (
            (
                memory,
                "save save_many get search archive restore session turns scoped delete_session key_value",
            ),
            (memory, "consolidate_session"),
            (memory.pages, "read paragraphs notes"),
            (chat, "add_many recent_turns"),
            (chat.working, "delete"),
            (memory.folder, "flush restore"),
            (memory.history, "log blame undo"),
            (memory.admin, "backup export import_from"),
            (memory.dreams, "plan apply"),
        )
        for name in names.split()
    }
    every |= {
        "open": Memory.open,
        "busy_timeout": lambda x: Memory.open(memory.path, busy_timeout=x).close(),
        "settings file": Settings.load,
        "agent": Agent(chat, model=None).prompt,
        "settings": lambda x: Memory.open(":memory:", settings=x).close(),
        "profile": lambda x: Memory.open(":memory:", profile=x).close(),
        "save_many one": lambda x: memory.save_many([x]),
        "update": lambda x: memory.update(x, content="Else"),
        "update content": lambda x: memory.update(record.id, content=x),
        "update expires_at": lambda x: memory.update(record.id, expires_at=x),
        "turns start": lambda x: memory.turns("cli:1", start=x),
        "turns stop": lambda x: memory.turns("cli:1", stop=x),
        "as_of": lambda x: memory.as_of(x).close(),
        "tools": lambda x: memory.tools(groups=x),
        "tools session": lambda x: memory.tools(session=x),
        "key_value namespace": lambda x: kept.put(x, "key", {"a": 1}),
        "key_value key": lambda x: kept.put(("a",), x, {"a": 1}),
        "key_value value": lambda x: kept.put(("a",), "key", x),
        "key_value texts": lambda x: kept.put_many(
            [PutItem(namespace=("a",), key="key", value={"a": 1}, texts=x)]
        ),
        "key_value ttl": lambda x: kept.put_many(
            [PutItem(namespace=("a",), key="key", value={"a": 1}, ttl=x)]
        ),
        "key_value get": lambda x: kept.get(x, "key"),
        "key_value search": lambda x: kept.search("Hello", namespace=x),
        "pages.write": lambda x: memory.pages.write(x, "text"),
        "pages.write text": lambda x: memory.pages.write("a.md", x),
        "pages.append": lambda x: memory.pages.append("HISTORY.md", x),
        "pages.append reason": lambda x: memory.pages.append("HISTORY.md", "text", reason=x),
        "pages.paragraphs start": lambda x: memory.pages.paragraphs("HISTORY.md", start=x),
        "add_many one": lambda x: chat.add_many([x]),
        "purge": lambda x: memory.admin.purge(older_than=x),
        "feedback": lambda x: chat.feedback(x, "up"),
        "feedback thumb": lambda x: chat.feedback(answer.id, x),
        "feedback note": lambda x: chat.feedback(answer.id, "up", note=x),
        "set_metadata": lambda x: chat.set_metadata(x, "value"),
        "set_metadata value": lambda x: chat.set_metadata("key", x),
        "working.set": lambda x: chat.working.set(x, "data"),
        "working.set data": lambda x: chat.working.set("key", x),
        "working.set ttl": lambda x: chat.working.set("key", "data", ttl=x),
        "folder.restore one": lambda x: memory.folder.restore([x]),  # type: ignore[union-attr]
        "save_many progress": lambda x: memory.save_many(["tea"], progress=x),
        "import progress": lambda x: memory.admin.import_from("out.jsonl", progress=x),
        "history.log limit": lambda x: memory.history.log(limit=x),
        "history.undo batch": lambda x: memory.history.undo(batch=x),
        "history.undo since": lambda x: memory.history.undo(since=x),
        "forget": lambda x: memory.admin.forget(x, dry_run=True),
        "dreams.plan": lambda x: memory.dreams.plan(x),
        "dreams.run_window": lambda x: memory.dreams.run_window(x, "compact"),
        "dreams.run": lambda x: memory.dreams.run(x, dry_run=True),
    }
    for name in RECORD:
        every[f"save {name}"] = lambda x, name=name: memory.save("Something", **{name: x})  # type: ignore[misc]
    for name in SEARCH:
        every[f"search {name}"] = lambda x, name=name: memory.search("Something", **{name: x})  # type: ignore[misc]
    for name in TURN:
        every[f"add {name}"] = lambda x, name=name: chat.add(**{**turn, name: x})  # type: ignore[misc]
    for name in CONTEXT:
        every[f"context {name}"] = lambda x, name=name: chat.context(**{name: x})  # type: ignore[misc]
    for name in FORGET:
        every[f"forget {name}"] = lambda x, name=name: memory.admin.forget(**{name: x}, dry_run=True)  # type: ignore[misc]
    return every


def refusal(call: Callable[[Any], object], value: object) -> str:
    """What an error of Reverie's says; empty for none."""
    try:
        call(value)
    except ReverieError as error:
        return str(error)
    return ""


@pytest.mark.slow
def test_no_argument_raises_an_error_of_another_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with Memory.open(tmp_path / "m") as memory:
        for name, call in calls(memory).items():
            for value in WRONG:
                said = refusal(call, value)
                assert "x" * 201 not in said, name
                assert len(said) < 1_500, name
        assert memory.admin.check() == []


@pytest.mark.parametrize("moment", [datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)])
def test_the_first_and_the_last_moment_can_be_stored_and_asked_for(tmp_path: Path, moment: datetime) -> None:
    with Memory.open(tmp_path / "m", settings=Settings(time_zone="Pacific/Kiritimati")) as memory:
        record = memory.save("Yesterday and next spring", created_at=moment, valid_from=moment).record
        chat = memory.session("cli:1")
        chat.add("user", "We decided yesterday to use tea next month", at=moment)
        chat.add("assistant", "You did.", at=moment)
        assert memory.get(record.id) == record
        assert "tea" in str(chat.context("What did we decide yesterday?"))
        memory.search("spring", created_after=moment, valid_at=moment, sources=("records", "turns"))
        memory.admin.export(tmp_path / "all.jsonl")
        assert memory.admin.check() == []


def test_an_expiry_beyond_the_last_year_is_refused() -> None:
    with Memory.open(":memory:", clock=lambda: datetime(9999, 12, 31, 23, tzinfo=UTC)) as memory:
        for call in (
            lambda: memory.save("Something", ttl="2d"),
            lambda: memory.session("cli:1").working.set("key", "data", ttl="2d"),
            lambda: memory.key_value("kept").put_many(
                [PutItem(namespace=("a",), key="b", value={"c": 1}, ttl=timedelta(days=2))]
            ),
        ):
            with pytest.raises(InvalidInput, match="beyond the year 9999: pass a shorter ttl"):
                call()


@pytest.mark.parametrize("name", ["\ud800", "m" * 300])
def test_a_folder_that_cannot_be_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ReverieError, match=r"choose another|cannot be"):
        Memory.open(tmp_path / name)


def test_a_message_quotes_at_most_200_characters() -> None:
    with Memory.open(":memory:") as memory:
        with pytest.raises(NotFound) as raised:
            memory.archive("y" * 500)
        assert "y" * 190 in str(raised.value)
        assert "y" * 201 not in str(raised.value)
        assert "search" in str(raised.value), "what to do is still said"
    short = f"{'a' * 150!r} and {'b' * 150!r} and it's {'c' * 150!r}: correct 'one' of them"
    assert str(InvalidInput(short)) == short
    assert len(str(InvalidInput(f"values are {list(range(1_000))!r}: pass one"))) < 250


def lose_database(folder: Path) -> None:
    with Memory.open(folder) as memory:
        memory.save("Something known")
    for file in folder.glob("reverie.db*"):
        file.unlink()


@pytest.mark.parametrize(
    ("damage", "advice"),
    [
        (lambda folder: folder.mkdir(), "no memory in .*: open it with create=True"),
        (lambda folder: folder.write_text("text"), "is a file: name the folder of a memory"),
        (lose_database, "database of .* is missing: `reverie rebuild`"),
    ],
)
def test_a_folder_without_a_database_is_told_from_a_lost_one(
    tmp_path: Path, damage: Callable[[Path], object], advice: str
) -> None:
    damage(tmp_path / "memory")
    with pytest.raises(NotFound, match=advice):
        Memory.open(tmp_path / "memory", create=False)


def test_a_memory_is_not_made_from_a_path() -> None:
    with pytest.raises(TypeError, match=r"Memory\.open\('agent'\)"):
        Memory("agent")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"AsyncMemory\.open"):
        AsyncMemory("memory")  # type: ignore[arg-type]
