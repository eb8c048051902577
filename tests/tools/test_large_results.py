"""An answer too long for a prompt is set aside in working memory, split where a reader would split it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reverie import InvalidInput, Memory
from reverie.llm.protocol import ToolSpec
from reverie.repositories.working_memory import WorkingMemory
from reverie.tools import Tool, ToolResult, Toolset, with_chunking
from reverie.tools.large_results import split_text
from tests.factories import MovableClock, build_parameters
from tests.profiles import examples

LIMIT = 100  # tokens: 400 characters
PAGE = "\n".join(f"# Part {n}\n\n{'word ' * 50}\n" for n in range(6))


@pytest.fixture
def working(memory: Memory) -> WorkingMemory:
    return memory.session("chat:1").working


def answering(answer: Any, name: str = "fetch") -> Toolset:
    spec = ToolSpec(name=name, description="Fetch a page.", parameters=build_parameters())
    run = answer if callable(answer) else lambda given: ToolResult(answer)
    return Toolset([Tool(spec=spec, run=run)])


def together(working: WorkingMemory, prefix: str = "") -> str:
    """All that is set aside, in the order of the pieces."""
    numbered = {int(entry.key.split("/")[-1].split("-")[0]): entry.data for entry in working.list(prefix)}
    return "".join(numbered[number] for number in sorted(numbered))


def test_a_short_answer_stays_as_it_is(working: WorkingMemory) -> None:
    tools = with_chunking(answering("x" * 400), working, most_tokens=LIMIT)
    assert tools.call("fetch").text == "x" * 400
    assert working.list() == []


def test_a_long_answer_is_replaced_by_an_index_of_its_pieces(working: WorkingMemory) -> None:
    told = with_chunking(answering(PAGE), working, most_tokens=LIMIT).call("fetch")
    keys = [entry.key for entry in working.list()]
    assert all(re.fullmatch(r"fetch/[0-9a-f]{8}/\d-of-6", key) for key in keys)
    head, *rows = told.text.split("\n")
    assert head == (
        "The answer of fetch has 1,571 characters, too many to show. It was set aside in working memory in 6 "
        "pieces: read one with get_from_working_memory by its key, or find the right one with "
        "search_working_memory."
    )
    assert rows == [
        f"- {key}, {len(working.get(key) or ''):,} characters: # Part {n}" for n, key in enumerate(keys)
    ]
    assert "".join(working.get(key) or "" for key in keys) == PAGE
    assert {entry.category for entry in working.list()} == {"tool-results"}


def test_the_tools_that_read_pieces_are_added_where_they_are_missing(
    memory: Memory, working: WorkingMemory
) -> None:
    assert with_chunking(answering(PAGE), working).names == (
        "fetch", "get_from_working_memory", "search_working_memory", "delete_from_working_memory",
    )  # fmt: skip
    mine = memory.tools(session="chat:1").prefixed("my_")
    assert with_chunking(mine, working).names == mine.names
    told = with_chunking(mine + answering(PAGE), working, most_tokens=LIMIT).call("fetch")
    assert "read one with my_get_from_working_memory by its key" in told.text
    assert with_chunking(Toolset(), working).names == ()


def test_reading_a_piece_is_never_cut_again(working: WorkingMemory) -> None:
    tools = with_chunking(answering("word " * 400), working, most_tokens=LIMIT)
    tools.call("fetch")
    for entry in working.list():
        assert len(entry.data) >= 300
        told = tools.call("get_from_working_memory", {"key": entry.key})
        assert entry.data.strip() in told.text
    assert len({entry.key.rpartition("/")[0] for entry in working.list()}) == 1


def test_pieces_are_kept_for_half_an_hour_or_as_long_as_is_said(
    working: WorkingMemory, clock: MovableClock
) -> None:
    with_chunking(answering(PAGE), working, most_tokens=LIMIT).call("fetch")
    with_chunking(answering(PAGE, "other"), working, most_tokens=LIMIT, ttl="2m").call("other")
    clock.move(minutes=3)
    assert {entry.key.partition("/")[0] for entry in working.list()} == {"fetch"}
    clock.move(minutes=28)
    assert working.list() == []


def test_over_capacity_the_last_piece_has_the_rest_and_is_read_in_parts(working: WorkingMemory) -> None:
    text = "".join(f"{number:04} {'x' * 390}\n" for number in range(120))
    working.set("mine", "note")
    tools = with_chunking(answering(text), working, most_tokens=LIMIT)
    keys = [row.split(",")[0].removeprefix("- ") for row in tools.call("fetch").text.split("\n")[1:]]
    assert (len(keys), len(working.list())) == (49, 50)
    assert together(working, "fetch") == text
    last = tools.call("get_from_working_memory", {"key": keys[-1], "part": 2})
    assert "Part 2 of 2" in last.text
    assert "0119" in last.text
    for key in keys:
        working.delete(key)
    for number in range(49):
        working.set(f"note-{number}", "x")
    told = tools.call("fetch").text
    assert "working memory is full: drop what you do not need with delete_from_working_memory" in told
    assert "It begins:" in told


def test_a_secret_is_not_cut_in_two(working: WorkingMemory) -> None:
    key = "AKIA" + "IOSFODNN7ABCDEFG"
    text = "x" * 390 + f" {key} " + "y" * 400
    with_chunking(answering(text), working, most_tokens=LIMIT).call("fetch")
    kept = together(working)
    assert key not in kept
    assert "IOSFODNN7" not in kept
    assert kept.startswith("x" * 390)


def test_a_tool_by_itself_and_a_function_are_wrapped_too(working: WorkingMemory) -> None:
    def fetch(url: str, *, times: int = 1) -> str:
        """Fetch a page."""
        return url * times

    async def fetch_later(url: str) -> str:
        return url * 100

    wrapped = with_chunking(fetch, working, most_tokens=LIMIT)
    assert (wrapped.__name__, wrapped.__doc__) == ("fetch", "Fetch a page.")
    assert wrapped("abc") == "abc"
    assert wrapped("word ", times=200).startswith("The answer of fetch has 1,000 characters")
    assert together(working, "fetch") == "word " * 200
    later = with_chunking(fetch_later, working, most_tokens=LIMIT)
    assert asyncio.run(later("later ")).startswith("The answer of fetch_later has 600 characters")
    assert with_chunking(lambda: 3, working)() == 3
    with pytest.raises(InvalidInput, match="5 cannot be called"):
        with_chunking(5, working)  # type: ignore[type-var]
    tool = with_chunking(answering(PAGE)[0], working, most_tokens=LIMIT)
    assert tool.run({}).text.startswith("The answer of fetch has")


def test_a_memory_that_cannot_be_written_does_not_lose_the_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = Memory.open(tmp_path)
    tools = with_chunking(answering(PAGE), memory.session("s").working, most_tokens=LIMIT)
    memory.close()
    told = tools.call("fetch")
    assert "working memory cannot be written now. It begins:" in told.text
    assert PAGE[:100] in told.text
    assert "could not be set aside" in caplog.text


# -- splitting -------------------------------------------------------------------------------------------


@settings(max_examples=examples(400), deadline=None)
@given(text=st.text(alphabet="ab \n#`\r~é\u0301", max_size=300), longest=st.integers(1, 40))
def test_the_pieces_are_the_text_and_none_is_too_long(text: str, longest: int) -> None:
    cut = split_text(text, longest)
    assert "".join(cut) == text
    assert all(len(piece) <= longest for piece in cut)
    assert all(cut) or cut == [""]


def test_a_text_is_split_at_the_largest_heading_else_blank_lines_else_lines_and_words() -> None:
    text = "# One\n" + "a" * 40 + "\n## Two\n" + "b" * 40 + "\n# Three\n" + "c" * 30 + "\n## Four\nd\n"
    assert [piece.split("\n")[0] for piece in split_text(text, 110)] == ["# One", "# Three"]
    assert [piece.split("\n")[0] for piece in split_text(text, 60)] == ["# One", "## Two", "# Three"]
    blocks = ["one one\none one\n\n", "two two\ntwo two\n\n", "three three\n"]
    assert split_text("".join(blocks), 20) == blocks
    assert split_text("one two\nthree\nfour\n", 14) == ["one two\nthree\n", "four\n"]
    assert split_text("one two three four", 9) == ["one two ", "three ", "four"]
