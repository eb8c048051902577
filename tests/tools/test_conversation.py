"""What was said long ago is found, in turns and in HISTORY.md, with its date and who said it."""

from __future__ import annotations

from datetime import UTC, datetime

from reverie import Memory
from tests.tools.conftest import NOW, Call


def talked(memory: Memory) -> None:
    one, two = memory.session("chat:1"), memory.session("chat:2")
    one.add("user", "Which port has the staging database?", at=datetime(2026, 2, 22, 12, tzinfo=UTC))
    one.add(
        "assistant", "The staging database listens on port 5433.", at=datetime(2026, 2, 22, 12, 1, tzinfo=UTC)
    )
    two.add("user", "The production database moved to Zurich.", at=NOW)
    memory.pages.append("HISTORY.md", "[2026-01-10 09:00] We chose a database for staging: PostgreSQL.")


def test_turns_and_history_are_found_with_their_age(memory: Memory, call: Call) -> None:
    talked(memory)
    told = call("search_conversation_history", query="database")
    assert told.text.startswith("Found 4 places:")
    assert (
        "(chat:1, 2026-02-22 12:01, assistant): The staging database listens on port 5433. (6 days ago)"
        in (told.text)
    )
    assert "(HISTORY.md, 2026-01-10 09:00): We chose a database for staging: PostgreSQL. (50 days ago)" in (
        told.text
    )


def test_it_is_restricted_to_a_session_a_role_and_a_time(memory: Memory, call: Call) -> None:
    talked(memory)
    this = call("search_conversation_history", query="database", session="this").text
    assert "Zurich" not in this
    assert "PostgreSQL" not in this
    assert "5433" in this
    assert "Zurich" in call("search_conversation_history", query="database", session="chat:2").text
    assert "Found 1 place:" in call("search_conversation_history", query="database", role="assistant").text
    since = call("search_conversation_history", query="database", since="2026-03-01").text
    assert "Found 1 place:" in since
    assert "Zurich" in since
    until = call("search_conversation_history", query="database", until="2026-02-01T00:00Z").text
    assert "Found 1 place:" in until
    assert "PostgreSQL" in until


def test_it_finds_text_as_it_stands_and_takes_no_pattern_that_could_run_for_hours(
    memory: Memory, call: Call
) -> None:
    talked(memory)
    assert "5433" in call("search_conversation_history", query="port 543", mode="literal").text
    refused = call("search_conversation_history", query=r"(a+)+$", mode="regex")
    assert refused.failed
    assert "words, literal" in refused.text


def test_nothing_found_and_wrong_dates_are_answered(memory: Memory, call: Call) -> None:
    talked(memory)
    assert call("search_conversation_history", query="llamas").text.startswith("Found nothing that was said")
    wrong = call("search_conversation_history", query="database", since="last week")
    assert "since is 'last week': write a date as 2025-01-31" in wrong.text


def test_without_a_session_there_is_no_this(memory: Memory) -> None:
    (spec,) = memory.tools(groups=["conversation"]).specs
    assert "`this`" not in spec.parameters["properties"]["session"]["description"]
    (spec,) = memory.tools(session="chat:1", groups=["conversation"]).specs
    assert "`this`" in spec.parameters["properties"]["session"]["description"]
