"""Where things stand in the folder, and what their files say, to the byte."""

from __future__ import annotations

from datetime import UTC, date

from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.page import Page, Paragraph, format_daily_note_name
from reverie.files.layout import (
    FileLocation,
    build_path,
    build_stem,
    parse_form,
    parse_path,
    render_addition,
    render_log,
    split_numbered_path,
)
from tests.factories import make_page, make_paragraph
from tests.support.contract.factories import NOW, make_record, make_session, make_turn

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=60)
moments = st.datetimes(timezones=st.just(UTC))


def page(name: str = "MEMORY.md", content: str = "# Memory\n") -> Page:
    return make_page(name, content=content)


def paragraph(number: int, name: str = "HISTORY.md", content: str = "") -> Paragraph:
    text = content or f"[2026-03-01 12:0{number}] Paragraph {number}"
    return make_paragraph(number, page=name, at=NOW, content=text)


def test_everything_has_its_place() -> None:
    for value, path in [
        (make_record(), "memory/000000000001.json"),
        (make_record(category="a"), "memory/a/000000000001.json"),
        (make_record(category="a/b-c/D_1"), "memory/a/b-c/D_1/000000000001.json"),
        (make_record(category="episodic"), "memory/episodic/000000000001.json"),
        (make_record(archived_at=NOW), "memory/.archive/000000000001.json"),
        (make_record(archived_at=NOW, category="a/b"), "memory/.archive/a/b/000000000001.json"),
        (make_record(archived_at=NOW, layer="episodic", category="a"), "memory/.archive/a/000000000001.json"),
        (page(), "memory/MEMORY.md"),
        (page("projects/atlas.md"), "memory/projects/atlas.md"),
        (paragraph(1), "memory/HISTORY.md"),
        (paragraph(1, "2026-02-07.md"), "memory/2026-02-07.md"),
        (make_session("telegram:12345"), "sessions/telegram:12345.jsonl"),
        (make_turn(3, "telegram:12345"), "sessions/telegram:12345.jsonl"),
        (make_session("../../x"), "sessions/%2E.%2F..%2Fx.jsonl"),
    ]:
        assert build_path(value) == path
        assert parse_path(path) is not None


def test_records_of_a_category_are_on_its_pages() -> None:
    for record, stem in [
        (make_record(), "memory/records/(unfiled)"),
        (make_record(category="a/b-c"), "memory/records/a/b-c"),
        (make_record(category="D_1/Ünter"), "memory/records/d_1/ünter"),
        (make_record(category="con/aux x"), "memory/records/con~/aux x"),
        (make_record(category="a", archived_at=NOW), "memory/.archive/a"),
        (make_record(layer="episodic", archived_at=NOW), "memory/.archive/(unfiled)"),
    ]:
        assert build_stem(record, "pages") == stem
        assert build_stem(record, "records") is None
        for path, number in ((f"{stem}.md", 1), (f"{stem}.12.md", 12)):
            assert split_numbered_path(path) == (stem, number)
            assert parse_form(path) == "lines"


def test_a_path_says_what_should_stand_there() -> None:
    for path, place in [
        ("memory/000000000001.json", FileLocation(form="record", name="000000000001")),
        ("memory/a/b/000000000001.json", FileLocation(form="record", name="000000000001", category="a/b")),
        ("memory/a b/note.json", FileLocation(form="record", name="note", category="a b")),
        (
            "memory/.archive/a/000000000001.json",
            FileLocation(form="record", name="000000000001", category="a", archived=True),
        ),
        (
            "memory/.archive/000000000001.json",
            FileLocation(form="record", name="000000000001", archived=True),
        ),
        ("memory/MEMORY.md", FileLocation(form="page", name="MEMORY.md")),
        ("memory/My notes.md", FileLocation(form="page", name="My notes.md")),
        ("memory/projects/atlas.md", FileLocation(form="page", name="projects/atlas.md")),
        ("memory/HISTORY.md", FileLocation(form="log", name="HISTORY.md")),
        ("memory/2026-02-07.md", FileLocation(form="log", name="2026-02-07.md")),
        ("memory/2026-02-31.md", FileLocation(form="page", name="2026-02-31.md")),
        ("memory/episodic/2026-02-07.md", FileLocation(form="lines", name="2026-02-07", is_day=True)),
        ("memory/records/(unfiled).2.md", FileLocation(form="lines", name="(unfiled)")),
        ("memory/records/a/b.md", FileLocation(form="lines", name="a/b", category="a/b")),
        (
            "memory/.archive/a.3.md",
            FileLocation(form="lines", name="a", category="a", archived=True),
        ),
        (
            "memory/episodic/000000000001.json",
            FileLocation(form="record", name="000000000001", category="episodic"),
        ),
        ("sessions/telegram:1.jsonl", FileLocation(form="session", name="telegram:1")),
    ]:
        assert parse_path(path) == place
        assert parse_form(path) == place.form


def test_history_has_blank_lines_between_paragraphs_and_a_note_has_none() -> None:
    assert render_log("HISTORY.md", [paragraph(1), paragraph(2)]) == (
        b"[2026-03-01 12:01] Paragraph 1\n\n[2026-03-01 12:02] Paragraph 2\n"
    )
    name = format_daily_note_name(date(2026, 2, 7))
    assert render_log(name, [paragraph(1, name, "[09:00] a"), paragraph(2, name, "[09:01] b")]) == (
        b"[09:00] a\n[09:01] b\n"
    )
    assert render_log(name, []) == b""


@given(st.integers(0, 6), st.sampled_from(["HISTORY.md", "2026-02-07.md"]))
def test_adding_to_a_log_gives_what_writing_it_anew_gives(before: int, name: str) -> None:
    all_of_them = [paragraph(number, name) for number in range(6)]
    begin = render_log(name, all_of_them[:before])
    added = render_addition(name, all_of_them[before:], to_empty=not before)
    assert begin + added == render_log(name, all_of_them)
