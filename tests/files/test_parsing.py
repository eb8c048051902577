"""What a person's file says is read exactly, or refused with a reason in plain words."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.record import KINDS, LAYERS, NOTHING, ORIGINS, Record
from reverie.domain.text import timestamps
from reverie.domain.text.ids import generate_id
from reverie.files import parsing
from reverie.files.layout import parse_path, render_lines, render_session
from tests.support.contract.factories import NOW, make_record, make_session

RECORD = "memory/notes/000000000001.json"
DAY = "memory/episodic/2026-03-01.md"
CHAT = "sessions/chat:1.jsonl"


def read(fields: Any, *, path: str = RECORD, base: Record | None = None) -> Record:
    place = parse_path(path)
    assert place is not None
    found = parsing.read_record(path, json.dumps(fields).encode())
    return parsing.build_record(found, id="0" * 12, base=base, place=place, now=NOW)


def read_session(path: str, data: bytes) -> tuple[SessionState, list[Turn], list[str]]:
    return parsing.read_session(path, data, now=NOW, new_id=generate_id, check=lambda turn: None)


def why(path: str, data: bytes | str, **more: str) -> str:
    """Why a file is refused."""
    readers: dict[str, Any] = {
        "record": parsing.read_record,
        "lines": parsing.read_rows,
        "page": parsing.read_page,
        "log": parsing.read_log,
        "session": read_session,
    }
    place = parse_path(path)
    assert place is not None
    with pytest.raises(InvalidInput) as refused:
        readers[place.form](path, data if isinstance(data, bytes) else data.encode(), **more)
    return str(refused.value)


# -- exactly -------------------------------------------------------------------------------------------------

TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"), include_characters="\n\t\u2028\x85"),
    max_size=20,
)
WORDS = TEXT.map(lambda text: f"w{text}")
MOMENTS = st.integers(0, 7 * 10**15).map(timestamps.from_microseconds)
LABELS = st.lists(WORDS.map(str.strip), max_size=3, unique=True).map(tuple)
PARTS = st.lists(st.from_regex(r"e[0-9a-f]{11}", fullmatch=True), max_size=3, unique=True).map(tuple)
METADATA = st.dictionaries(WORDS, TEXT, max_size=3)
RECORDS = st.builds(
    make_record,
    content=WORDS,
    moment=MOMENTS,
    category=st.sampled_from([None, "a", "a/b-c_D"]),
    kind=st.sampled_from(KINDS),
    layer=st.sampled_from(LAYERS),
    tags=LABELS,
    references=LABELS,
    confidence=st.floats(0, 1) | st.integers(0, 1),
    importance=st.floats(0, 1),
    source=TEXT,
    origin=st.sampled_from(ORIGINS),
    scope=st.sampled_from(["", "user:a", "user:Zoë B/task:x", "\U000f0000"]),
    pinned=st.booleans(),
    seen_count=st.integers(1, 10**9),
    expires_at=st.none() | MOMENTS,
    metadata=METADATA,
    archived_at=st.none() | MOMENTS,
    archive_reason=TEXT,
    parts=PARTS,
)


@given(made=st.lists(RECORDS, max_size=3, unique_by=lambda each: each.content))
def test_a_page_of_records_comes_back_exactly(made: list[Record]) -> None:
    records = [replace(each, id=f"{n:012x}") for n, each in enumerate(made)]
    for path in (DAY, "memory/records/(unfiled).md", "memory/records/a.md", "memory/.archive/a/b-c_d.2.md"):
        place = parse_path(path)
        assert place is not None
        rows = parsing.read_rows(path, render_lines(path, records))
        again = [
            parsing.build_record(
                parsing.read_row(row, place), id=row.line.id, base=None, place=place, now=NOW
            )
            for row in rows
        ]
        assert again == records


# -- what is accepted ----------------------------------------------------------------------------------------


def test_a_byte_order_mark_and_windows_line_ends_are_dropped() -> None:
    data = b'\xef\xbb\xbf{\r\n  "content": "a\\nb"\r\n}\r\n'
    assert parsing.read_record(RECORD, data) == {"content": "a\nb"}
    assert parsing.read_page("memory/MEMORY.md", b"\xef\xbb\xbfa\r\nb\rc\r\n") == "a\nb\nc\n"
    assert parsing.read_log("memory/HISTORY.md", b"a\r\nb\r\n\r\nc\r\n") == ["a\nb", "c"]
    text = b'{"id": "chat:1"}\r\n\r\n{"role": "user", "content": "x"}\r\n'
    assert len(read_session(CHAT, text)[1]) == 1


def test_what_a_new_record_leaves_out_is_filled_in() -> None:
    made = read({"content": "Be brief"}, path="memory/user-preferences/style/x.json")
    assert (made.category, made.kind, made.layer) == ("user-preferences/style", "preference", "semantic")
    assert (made.created_at, made.updated_at, made.last_seen_at) == (NOW, NOW, NOW)
    made = read({"content": "x", "kind": "failure", "category": None}, path="memory/notes/x.json")
    assert (made.category, made.layer) == (None, "procedural")
    earlier = read({"content": "x", "created_at": "2020-01-01"})
    assert earlier.updated_at == datetime(2020, 1, 1, tzinfo=UTC)


def test_what_an_edited_record_leaves_out_stays() -> None:
    base = make_record(tags=("a",), metadata={"k": "v"}, pinned=True)
    assert read({"importance": 1}, base=base) == make_record(
        tags=("a",), metadata={"k": "v"}, pinned=True, importance=1
    )
    assert read({"tags": [], "metadata": {}}, base=base) == make_record(pinned=True, metadata=NOTHING)


def test_the_moment_of_a_paragraph() -> None:
    for name, text, moment in [
        ("HISTORY.md", "[2026-02-07 10:30] Atlas.", datetime(2026, 2, 7, 10, 30, tzinfo=UTC)),
        ("HISTORY.md", "[10:30] Atlas.", NOW),
        ("HISTORY.md", "[2026-02-31 10:30] Atlas.", NOW),
        ("2026-02-07.md", "[10:30] User: x", datetime(2026, 2, 7, 10, 30, tzinfo=UTC)),
        ("2026-02-07.md", "[2026-02-08 10:30] x", datetime(2026, 2, 8, 10, 30, tzinfo=UTC)),
        ("2026-02-07.md", "a note", datetime(2026, 2, 7, 12, 0, tzinfo=UTC)),
        ("2026-03-01.md", "a note", NOW),
    ]:
        assert parsing.parse_moment(name, text, otherwise=NOW) == moment


# -- what is refused -----------------------------------------------------------------------------------------


def test_a_broken_record() -> None:
    for text, said in [
        ("", "it is empty"),
        (b"\0" * 100, "nothing but zero bytes"),
        ('{"content": "x",', "line 1, column 17: it ends in the middle"),
        (
            '{\n  "content": "x"\n  "kind": "fact"\n}',
            "line 3, column 3: it is not JSON: expecting ',' delimiter",
        ),
        ("[1, 2]", "it is a list: it should be one JSON object"),
        ('{"contents": "x"}', "unknown field 'contents': use id, content, "),
        ('{"content": "x", "content": "y"}', "the field 'content' stands there twice"),
        ('{"content": 5}', "the field 'content' is a number: it should be text"),
        ('{"tags": "abc"}', "the field 'tags' is text: it should be a list of texts"),
        ('{"tags": [1]}', "the field 'tags' is a list: it should be a list of texts"),
        ('{"metadata": {"a": 1}}', "the field 'metadata' is an object: it should be an object of texts"),
        ('{"pinned": "yes"}', "the field 'pinned' is text: it should be true or false"),
        ('{"confidence": true}', "the field 'confidence' is true or false: it should be a number"),
        ('{"seen_count": 99999999999999999999}', "'seen_count' is a number: it should be a whole number"),
        ('{"seen_count": ' + "9" * 5000 + "}", "not JSON that can be read"),
        ("[" * 100_000, "not JSON that can be read"),
        ('{"created_at": "yesterday"}', "the field 'created_at': time is 'yesterday'"),
        ('{"created_at": 5}', "'created_at' is a number: it should be a time"),
        (b'{"content": "\xff"}', "line 1: it is not UTF-8 text (byte 13)"),
        ('{"content": "x"}'.encode("utf-16"), "it is UTF-16: save it as UTF-8"),
        ("<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> b\n", "line 1: there are merge-conflict markers"),
    ]:
        assert said in why(RECORD, text)


def test_no_message_quotes_a_memory() -> None:
    for text in ('{"content": "secret', '{"content": ["secret"]}', "secret", '{"content": "secret"} x'):
        assert "secret" not in why(RECORD, text)


def test_conflict_markers_in_a_page_are_refused_unless_it_had_them() -> None:
    text = "a\n<<<<<<< ours\nb\n=======\nc\n>>>>>>> theirs\n"
    assert why("memory/MEMORY.md", text).startswith("line 2: there are merge-conflict markers")
    assert why("memory/HISTORY.md", text).startswith("line 2: there are merge-conflict markers")
    assert parsing.read_page("memory/MEMORY.md", text.encode(), was=text) == text
    heading = "Heading\n=======\n\ntext\n"
    assert parsing.read_page("memory/MEMORY.md", heading.encode()) == heading


def test_an_empty_page_is_a_mishap_unless_it_was_empty() -> None:
    assert "it is empty" in why("memory/MEMORY.md", b"", was="something\n")
    assert parsing.read_page("memory/MEMORY.md", b"") == ""
    assert parsing.read_page("memory/MEMORY.md", b"\n", was="something\n") == "\n"


def test_a_turn_stays_in_its_session_and_scope() -> None:
    for line, message in (
        ({"content": "c", "session": "x"}, "line 3: its session or scope is not that of the file"),
        ({"content": "c", "scope": "x"}, "line 3: its session or scope is not that of the file"),
        ({"content": "c", "role": "x"}, "line 3: role is 'x'"),
    ):
        data = render_session(make_session("chat:1"), []) + f"\n{json.dumps(line)}\n".encode()
        assert message in why(CHAT, data)
