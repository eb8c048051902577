"""Messages as JSON become turns; broken messages are named with their place, and the others are imported."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reverie import Memory
from reverie.admin.transfer.batch import SOURCE_ID, FoundTurns, ImportTerms
from reverie.admin.transfer.formats.conversations import read_messages
from reverie.admin.transfer.safe_reading import SourceFile
from reverie.domain.conversation import ToolCall, Turn
from tests.admin.transfer import samples

HELLO = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
NOON = datetime(2024, 5, 1, 10, tzinfo=UTC)


def lines(path: Path, *given: Any) -> Path:
    return samples.lines(path / "chat.jsonl", given)


def pieces(file: Path) -> list[FoundTurns]:
    items = read_messages(SourceFile(file.name, file.name, file), ImportTerms(now=NOON))
    return [item for item in items if isinstance(item, FoundTurns)]


def turns(file: Path) -> list[Turn]:
    return [turn for piece in pieces(file) for turn in piece.turns]


def imported(file: Path) -> tuple[list[str], list[tuple[str, str]]]:
    """The contents of all turns of a file, and the places and reasons of what was left out."""
    with Memory.open(":memory:") as memory:
        report = memory.admin.import_from(file)
        assert report.form == "messages"
        said = [turn.content for each in memory.sessions() for turn in memory.turns(each.state.id)]
        assert memory.admin.import_from(file).taken == 0
        return said, [(each.place.split(", ", 1)[1], each.why) for each in report.skipped]


def test_a_message_is_a_turn_of_the_session_named_after_the_file(tmp_path: Path) -> None:
    file = lines(tmp_path, *HELLO)
    said = [(turn.session, turn.role, turn.content, turn.at) for turn in turns(file)]
    assert said == [("import:chat", "user", "hello", NOON), ("import:chat", "assistant", "hi", NOON)]


def test_keys_and_roles_have_other_names_too(tmp_path: Path) -> None:
    times = ["2024-05-01T10:00:00Z", "2024-05-01T12:00:00+02:00", 1714557600, 1714557600000, 1714557600.0]
    keys = ("timestamp", "at", "created_at", "createdAt", "time")
    said = [{"role": "user", "content": "x", key: time} for key in keys for time in times]
    assert {turn.at for turn in turns(lines(tmp_path, *said))} == {NOON}
    names = {
        "human": "user", "AI": "assistant", "model": "assistant", "bot": "assistant", "developer": "system",
        "function": "tool", "Human": "user",
    }  # fmt: skip
    file = lines(tmp_path, *({"role": name, "content": "x"} for name in names))
    assert [turn.role for turn in turns(file)] == list(names.values())
    for key in ("speaker", "name"):
        (turn,) = turns(lines(tmp_path, {"role": "user", "content": "x", key: "Ana", "id": 7}))
        assert (turn.speaker, turn.metadata[SOURCE_ID]) == ("Ana", "7")


def test_messages_of_sessions_may_alternate(tmp_path: Path) -> None:
    for key in ("session", "session_id", "conversation"):
        said = [{"role": "user", "content": text, key: text[0]} for text in ("a1", "a2", "b1", "a3")]
        found = [
            (piece.state.id, [turn.content for turn in piece.turns])
            for piece in pieces(lines(tmp_path, *said))
        ]
        assert found == [("a", ["a1", "a2", "a3"]), ("b", ["b1"])]


def test_tool_calls_and_results_of_openai_anthropic_and_google(tmp_path: Path) -> None:
    arguments = '{"path": "a"}'
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": arguments}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "found"}]}
    use = {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}}
    file = lines(
        tmp_path,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "text of a", "tool_call_id": "c1"},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Let me look."}, use],
        },
        {"role": "user", "content": [result, {"type": "text", "text": "Go on."}, {"type": "image", "source": {}}]},
        {"role": "model", "parts": [{"text": "gemini"}]},
        {"role": "user", "content": {"type": "image_url", "image_url": {"url": "https://example.org/r.jpg"}}},
    )  # fmt: skip
    found = [(turn.role, turn.content, turn.tool_calls, turn.tool_call_id) for turn in turns(file)]
    assert found == [
        ("assistant", "", (ToolCall(id="c1", name="read", arguments=arguments),), ""),
        ("tool", "text of a", (), "c1"),
        ("assistant", "Let me look.", (ToolCall(id="t1", name="read", arguments=arguments),), ""),
        ("tool", "found", (), "t1"),
        ("user", "Go on.\n[image]", (), ""),
        ("assistant", "gemini", (), ""),
        ("user", "[image_url]", (), ""),
    ]


def test_a_broken_message_is_named_and_the_others_are_imported(tmp_path: Path) -> None:
    broken = {
        "{": "broken", "7": "broken", "null": "unsupported", '{"content": "x"}': "broken",
        '{"role": "boss", "content": "x"}': "broken", '{"role": "user", "content": 7}': "broken",
        '{"role": "user", "content": [7]}': "broken", '{"role": "user", "content": "  "}': "empty",
        '{"role": "assistant", "content": "", "tool_calls": [{"id": "a"}]}': "broken",
        '{"role": "assistant", "content": "", "tool_calls": "read"}': "empty",
        '{"role": "user", "content": "cu': "broken",
    }  # fmt: skip
    for line, why in broken.items():
        text = f"{json.dumps(HELLO[0])}\n{line}\n{json.dumps(HELLO[1])}\n"
        assert imported(samples.text(tmp_path / "chat.jsonl", text)) == (
            ["hello", "hi"],
            [("line 2", why)],
        ), line
    file = samples.document(tmp_path / "chat.json", {"messages": [*HELLO, 7]})
    assert imported(file) == (["hello", "hi"], [("item 1, message 3", "broken")])
    file = samples.document(tmp_path / "chat.json", [None, *HELLO, {"role": "elf", "content": "x"}])
    assert imported(file) == (["hello", "hi"], [("item 1", "unsupported"), ("item 4", "broken")])
    (tmp_path / "latin.jsonl").write_bytes(
        json.dumps(HELLO[0]).encode() + b'\n{"role": "user", "content": "\xe9"}\n'
    )
    assert imported(tmp_path / "latin.jsonl") == (["hello"], [("line 2", "broken")])


def test_a_file_may_be_a_list_or_have_conversations(tmp_path: Path) -> None:
    for data in (HELLO, {"messages": HELLO}, [{"messages": HELLO}], [HELLO]):
        for indent in (None, 2):
            file = samples.text(tmp_path / "chat.json", json.dumps(data, indent=indent))
            assert imported(file) == (["hello", "hi"], [])
    named = {"id": "ticket:7", "created_at": "2024-05-01T10:00:00Z", "messages": HELLO}
    file = lines(tmp_path, {"messages": HELLO}, named, {"messages": HELLO[:1]})
    with Memory.open(":memory:") as memory:
        assert memory.admin.import_from(file).sessions == 3
        assert [len(memory.turns(name)) for name in ("import:chat", "import:chat:3")] == [2, 1]
        assert {turn.at for turn in memory.turns("ticket:7")} == {NOON}


# -- who typed it ------------------------------------------------------------------------------------------


def test_words_of_programs_in_messages_of_the_user_are_not_the_owners(tmp_path: Path) -> None:
    marks: list[dict[str, Any]] = [
        {},
        {"isCompactSummary": True},
        {"origin": {"kind": "hook"}},
        {"isMeta": True},
    ]
    texts = [
        ("I prefer tabs.", mark) for mark in marks
    ] + [("[Request interrupted by user for tool use]", {}), ("<system-reminder>x</system-reminder>", {})]  # fmt: skip
    stamps = [f"2026-05-04T08:{number:02}:00Z" for number in range(len(texts))]
    chatgpt = {
        "id": "c", "mapping": {
            str(n): {"parent": str(n - 1), "message": {
                "id": str(n), "author": {"role": "user"}, "content": {"parts": [text]}, **mark}}
            for n, (text, mark) in enumerate(texts)
        },
    }  # fmt: skip
    claude = {
        "uuid": "c",
        "chat_messages": [
            {"uuid": str(n), "sender": "human", "text": text, **mark} for n, (text, mark) in enumerate(texts)
        ],
    }
    plain = [
        {"role": "User", "content": text, "at": at, **mark}
        for (text, mark), at in zip(texts, stamps, strict=True)
    ]
    for name, values in (("g", [chatgpt]), ("c", [claude]), ("m", plain)):
        with Memory.open(":memory:") as memory:
            memory.admin.import_from(lines(tmp_path / name, *values), origin="owner")
            (session,) = memory.sessions()
            assert [(turn.role, turn.origin) for turn in memory.turns(session.state.id)] == [
                ("user", "owner"), *[("user", "tool")] * 5
            ], name  # fmt: skip
