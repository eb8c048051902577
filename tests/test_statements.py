"""Tests of how much a question and a save ask of the database, counted on a real file."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reverie import Memory

RECORDS = (
    "Alice likes green tea in the morning",
    "The deploy runs on Fridays at noon",
    "Bob prefers short answers",
    "The database is PostgreSQL 16",
    "Release notes go to the wiki",
    "The Berlin office closes at six",
)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that this thread runs on the store's connections from now on; vectors have their own thread."""
    run: list[str] = []
    asking = threading.get_ident()
    connect = sqlite3.connect

    def note(statement: str) -> None:
        if threading.get_ident() == asking:
            run.append(statement)

    def traced(name: Any, *args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(name, *args, **options)
        if "reverie.db" in str(name):
            connection.set_trace_callback(note)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    return run


@pytest.fixture
def memory(tmp_path: Path, statements: list[str]) -> Iterator[Memory]:
    with Memory.open(tmp_path) as opened:
        for text in RECORDS:
            opened.save(text)
        opened.dreams.judge_pending()
        yield opened


def begin(memory: Memory, statements: list[str]) -> None:
    """Count from here, when the thread that writes files has nothing left to read."""
    memory.flush()
    statements.clear()


def test_a_search_over_six_records_takes_eight_statements(memory: Memory, statements: list[str]) -> None:
    # After a change, three more: `passages.db` follows the journal, the changed record, and the mark of its entry.
    for question, most in (("green tea", 8 + 3), ("when does the office close?", 8)):
        begin(memory, statements)
        hits = memory.search(question)
        assert hits
        assert len(statements) <= most, statements


def test_a_context_takes_fifteen_statements_and_a_few_more_when_something_has_changed(
    memory: Memory, statements: list[str]
) -> None:
    memory.pages.write("MEMORY.md", "Alice runs the office.\n")
    chat = memory.session("cli:1")
    chat.add("user", "What tea does Alice like?")
    # The first also tells whether somebody is talking (5), and `passages.db` follows what has changed (4).
    for most in (24 + 5 + 4, 15):  # headlines are read once
        begin(memory, statements)
        pack = chat.context()
        assert [hit.content for hit in pack.hits] == [RECORDS[0]]
        assert len(statements) <= most, statements
    chat.add("assistant", "Green tea.")
    chat.add("user", "And when does the Berlin office close?")
    begin(memory, statements)
    assert chat.context().hits
    assert len(statements) <= 24 + 5, statements  # `passages.db` follows turns and paragraphs


def test_a_question_is_answered_from_one_state(memory: Memory, statements: list[str]) -> None:
    begin(memory, statements)
    memory.session("cli:1").context("green tea")
    inside = statements[statements.index("BEGIN") :]
    assert inside[-1] == "ROLLBACK"
    assert sum("max(sequence)" in statement for statement in inside) == 1
