"""Conversation files become turns, and whatever is wrong with one is named with its place."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reverie import Memory
from reverie.admin.transfer import conversations
from reverie.admin.transfer.conversations import ImportedConversation, read_conversations
from reverie.admin.transfer.formats.detection import detect_format
from reverie.admin.transfer.items import SOURCE_ID
from reverie.domain.conversation import ToolCall
from reverie.domain.errors import InvalidInput


def lines(path: Path, *messages: Any, name: str = "chat.jsonl") -> Path:
    file = path / name
    file.write_text("\n".join(json.dumps(message) for message in messages) + "\n", encoding="utf-8")
    return file


def turns(file: Path) -> list[dict[str, Any]]:
    return [turn for piece in read_conversations(file) for turn in piece.turns]


class TestJsonLines:
    def test_a_message_is_a_turn_of_the_session_named_after_the_file(self, tmp_path: Path) -> None:
        file = lines(tmp_path, {"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"})
        assert list(read_conversations(file)) == [
            ImportedConversation(
                session="import:chat",
                turns=[{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}],
            )
        ]

    @pytest.mark.parametrize("key", ["timestamp", "at", "created_at", "time"])
    @pytest.mark.parametrize(
        "value",
        ["2024-05-01T10:00:00Z", "2024-05-01T12:00:00+02:00", 1714557600, 1714557600000, 1714557600.0],
    )
    def test_times_are_iso_text_or_seconds_or_milliseconds(
        self, tmp_path: Path, key: str, value: Any
    ) -> None:
        file = lines(tmp_path, {"role": "user", "content": "hello", key: value})
        assert turns(file)[0]["at"] == datetime(2024, 5, 1, 10, tzinfo=UTC)

    @pytest.mark.parametrize("key", ["session", "session_id", "conversation"])
    def test_sessions_that_alternate_come_in_pieces_in_order(self, tmp_path: Path, key: str) -> None:
        file = lines(
            tmp_path,
            {"role": "user", "content": "a1", key: "a"},
            {"role": "user", "content": "a2", key: "a"},
            {"role": "user", "content": "b1", key: "b"},
            {"role": "user", "content": "a3", key: "a"},
        )
        pieces = [
            (piece.session, [turn["content"] for turn in piece.turns]) for piece in read_conversations(file)
        ]
        assert pieces == [("a", ["a1", "a2"]), ("b", ["b1"]), ("a", ["a3"])]

    def test_a_long_session_comes_in_pieces_without_reading_ahead(self, tmp_path: Path) -> None:
        many = [{"role": "user", "content": str(n)} for n in range(conversations.BATCH + 1)]
        file = lines(tmp_path, *many, {"role": "nobody", "content": "x"})
        pieces = read_conversations(file)
        assert len(next(pieces).turns) == conversations.BATCH
        with pytest.raises(InvalidInput, match=f"line {conversations.BATCH + 2}: role is 'nobody'"):
            next(pieces)

    def test_a_byte_order_mark_crlf_and_blank_lines_are_fine(self, tmp_path: Path) -> None:
        file = tmp_path / "chat.jsonl"
        file.write_bytes(
            b'\xef\xbb\xbf{"role": "user", "content": "one"}\r\n\r\n{"role": "user", "content": "two"}\r\n'
        )
        assert [turn["content"] for turn in turns(file)] == ["one", "two"]

    @pytest.mark.parametrize(
        ("given", "role"),
        [("human", "user"), ("AI", "assistant"), ("developer", "system"), ("function", "tool")],
    )
    def test_other_names_of_the_roles_are_understood(self, tmp_path: Path, given: str, role: str) -> None:
        assert turns(lines(tmp_path, {"role": given, "content": "x"}))[0]["role"] == role

    @pytest.mark.parametrize("key", ["speaker", "name"])
    def test_the_speaker_and_the_message_id_are_kept(self, tmp_path: Path, key: str) -> None:
        turn = turns(lines(tmp_path, {"role": "user", "content": "x", key: "Ana", "id": 7}))[0]
        assert turn["speaker"] == "Ana"
        assert turn["metadata"] == {SOURCE_ID: "7"}

    def test_openai_tool_calls_and_their_results(self, tmp_path: Path) -> None:
        call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
        file = lines(
            tmp_path,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "text of a", "tool_call_id": "c1"},
        )
        assert turns(file) == [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": (ToolCall(id="c1", name="read", arguments='{"path": "a"}'),),
            },
            {"role": "tool", "content": "text of a", "tool_call_id": "c1"},
        ]

    def test_anthropic_parts_become_calls_and_turns_of_tools(self, tmp_path: Path) -> None:
        file = lines(
            tmp_path,
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "Let me look."},
                    {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "content": [{"type": "text", "text": "found"}],
                    },
                    {"type": "text", "text": "Go on."},
                    {"type": "image", "source": {}},
                ],
            },
        )
        assert turns(file) == [
            {
                "role": "assistant",
                "content": "Let me look.",
                "tool_calls": (ToolCall(id="t1", name="read", arguments='{"path": "a"}'),),
            },
            {"role": "tool", "content": "found", "tool_call_id": "t1"},
            {"role": "user", "content": "Go on.\n[image]"},
        ]

    def test_a_message_that_says_nothing_is_left_out(self, tmp_path: Path) -> None:
        file = lines(tmp_path, {"role": "user", "content": "  "}, {"role": "user", "content": "x"})
        assert [turn["content"] for turn in turns(file)] == ["x"]

    @pytest.mark.parametrize(
        ("line", "why"),
        [
            ("{", "not JSON"),
            ("[1]", "message 1: int instead of an object"),
            ("7", "int instead of an object"),
            ('{"content": "x"}', "role is None"),
            ('{"role": "boss", "content": "x"}', "role is 'boss'"),
            ('{"role": "user", "content": 7}', "content is int"),
            ('{"role": "user", "content": [7]}', "a part of content is int"),
            ('{"role": "user", "content": "x", "at": "yesterday"}', "at is 'yesterday'"),
            ('{"role": "user", "content": "x", "at": true}', "at is True"),
            ('{"role": "user", "content": "x", "time": 1e300}', "time is 1e"),
            ('{"role": "user", "content": "x", "session": {}}', "session is dict"),
            (
                '{"role": "user", "content": "x", "tool_calls": [{"id": "a", "name": "b"}]}',
                "only an assistant",
            ),
            ('{"role": "assistant", "content": "", "tool_calls": [{"id": "a"}]}', "no function name"),
            ('{"role": "assistant", "content": "", "tool_calls": "read"}', "no list of objects"),
            ('{"role": "user", "content": "x", "tool_call_id": "a"}', "only a tool's message"),
            ('{"role": "user", "content": "a\\u0000b"}', "NUL"),
            ('{"role": "user", "content": "a\\ud800b"}', "surrogate"),
        ],
    )
    def test_a_fault_is_named_with_its_line(self, tmp_path: Path, line: str, why: str) -> None:
        file = tmp_path / "chat.jsonl"
        file.write_text('{"role": "user", "content": "fine"}\n' + line + "\n", encoding="utf-8")
        with pytest.raises(InvalidInput) as raised:
            list(read_conversations(file))
        assert f"{file}, line 2" in str(raised.value)
        assert why in str(raised.value)

    def test_a_file_that_is_not_utf8_says_so(self, tmp_path: Path) -> None:
        file = tmp_path / "chat.jsonl"
        file.write_bytes('{"role": "user", "content": "é"}'.encode("latin-1"))
        with pytest.raises(InvalidInput, match="not UTF-8"):
            list(read_conversations(file))


HELLO = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]


class TestWholeFiles:
    """A file may be a list of messages, an object with `messages`, or several of these."""

    @pytest.mark.parametrize("indent", [None, 2])
    @pytest.mark.parametrize("data", [HELLO, {"messages": HELLO}, [{"messages": HELLO}], [HELLO]])
    def test_it_is_read_without_a_word_of_format(self, tmp_path: Path, data: Any, indent: int | None) -> None:
        file = tmp_path / "chat.json"
        file.write_text(json.dumps(data, indent=indent), encoding="utf-8")
        with Memory.open(":memory:") as memory:
            report = memory.admin.import_from(file)
            assert (report.form, report.sessions, report.turns) == ("messages", 1, 2)
            assert [turn.content for turn in memory.turns("import:chat")] == ["hello", "hi"]
            assert memory.admin.import_from(file).taken == 0

    def test_each_line_may_be_a_conversation(self, tmp_path: Path) -> None:
        named = {"id": "ticket:7", "created_at": "2024-05-01T10:00:00Z", "messages": HELLO}
        file = lines(tmp_path, {"messages": HELLO}, named, {"messages": HELLO[:1]})
        with Memory.open(":memory:") as memory:
            assert memory.admin.import_from(file).sessions == 3
            assert len(memory.turns("import:chat")) == 2
            assert len(memory.turns("import:chat:3")) == 1
            assert {turn.at for turn in memory.turns("ticket:7")} == {datetime(2024, 5, 1, 10, tzinfo=UTC)}

    def test_a_fault_is_named_with_its_message(self, tmp_path: Path) -> None:
        file = tmp_path / "chat.json"
        file.write_text(json.dumps([*HELLO, {"role": "boss", "content": "x"}]), encoding="utf-8")
        with pytest.raises(InvalidInput, match="item 3: role is 'boss'"):
            list(read_conversations(file))
        file.write_text(json.dumps({"messages": [*HELLO, 7]}), encoding="utf-8")
        with pytest.raises(InvalidInput, match="message 3: int instead of an object"):
            list(read_conversations(file))


class TestFormat:
    def test_it_is_told_by_the_beginning_of_the_file(self, tmp_path: Path) -> None:
        assert detect_format(lines(tmp_path, {"role": "user", "content": "x"})) == "messages"

    @pytest.mark.parametrize("text", ["", '{"a": 1}', "7", '{"messages": 7}'])
    def test_what_is_neither_is_refused(self, tmp_path: Path, text: str) -> None:
        file = tmp_path / "what.txt"
        file.write_text(text)
        with pytest.raises(InvalidInput, match=r"cannot tell what it is|is empty"):
            detect_format(file)

    def test_a_missing_file_and_a_folder_are_named(self, tmp_path: Path) -> None:
        for place in (tmp_path / "none.jsonl", tmp_path):
            with pytest.raises(InvalidInput) as raised:
                list(read_conversations(place))
            assert str(place) in str(raised.value)
