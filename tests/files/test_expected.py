"""Which contents of a file are merely old, and which are somebody's edit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from reverie.domain.page import HISTORY
from reverie.files.expected import (
    ExpectedContent,
    is_earlier_version,
    patch_episodic,
    render_expected_content,
)
from reverie.files.layout import (
    build_path,
    render_episodic,
    render_line,
    render_log,
    render_page,
    render_record,
    render_session,
)
from tests.files.mirror_fixture import (
    MirroredFolder,
    make_page,
    make_paragraph,
    render_all_files,
    write_samples,
)
from tests.support.contract.factories import (
    NOW,
    make_additions,
    make_change,
    make_record,
    make_removals,
    make_session,
    make_time,
    make_turn,
)

is_earlier_version_prefix = partial(is_earlier_version, torn=True)


@pytest.fixture
def mirrored_folder(tmp_path: Path) -> Iterator[MirroredFolder]:
    opened = MirroredFolder(tmp_path / "memory")
    yield opened
    opened.close()


def test_a_patched_day_is_as_if_rendered_anew() -> None:
    first, second, third, fourth = (
        make_record(n, layer="episodic", created_at=make_time(n)) for n in range(4)
    )
    changed, earlier = replace(third, content="in other words"), replace(fourth, created_at=make_time(1))
    values = {record.id: record for record in (changed, earlier)}
    patched = patch_episodic(render_episodic([first, second, third]), {second.id: None, **values})
    assert patched == render_episodic([first, changed, earlier])
    assert patch_episodic(patched, dict.fromkeys([first.id, third.id, fourth.id])) == b""


def test_what_should_stand_anywhere_is_told(mirrored_folder: MirroredFolder) -> None:
    write_samples(mirrored_folder)
    for path, data in render_all_files(mirrored_folder.store).items():
        content = render_expected_content(mirrored_folder.store, path)
        assert content is not None
        assert content.data == data
    for path in (
        "memory/elsewhere/000000000002.json",
        "memory/no-id.json",
        "memory/NONE.md",
        "memory/2020-01-01.md",
        "memory/episodic/2020-01-01.jsonl",
        "memory/episodic/someday.jsonl",
        "sessions/none.jsonl",
        "sessions/telegram%3a1.jsonl",
        "files.db",
    ):
        assert render_expected_content(mirrored_folder.store, path) is None


def test_a_session_with_a_name_too_long_for_a_file_is_found_by_its_path(
    mirrored_folder: MirroredFolder,
) -> None:
    long = make_session("channel:" + "é" * 190)
    mirrored_folder.commit(make_additions(long, replace(make_turn(0), session=long.id)))
    path = build_path(long)
    assert "~~" in path
    content = render_expected_content(mirrored_folder.store, path)
    assert content == ExpectedContent(render_session(long, mirrored_folder.store.turns(session=long.id)), 1)
    assert is_earlier_version(mirrored_folder.store, path, render_session(long, []))


def test_an_earlier_version_of_a_record_is_old_where_it_stood_and_nowhere_else(
    mirrored_folder: MirroredFolder,
) -> None:
    first = make_record(1, category="a")
    second = replace(first, content="Else")
    third = replace(second, category="b")
    mirrored_folder.commit(make_additions(first))
    mirrored_folder.commit(make_change(first, second))
    mirrored_folder.commit(make_change(second, third))
    assert is_earlier_version(mirrored_folder.store, build_path(first), render_record(first))
    assert is_earlier_version(mirrored_folder.store, build_path(first), render_record(second))
    assert is_earlier_version(mirrored_folder.store, build_path(third), render_record(third))
    assert not is_earlier_version(mirrored_folder.store, build_path(first), render_record(third))
    assert not is_earlier_version(mirrored_folder.store, build_path(third), render_record(first))
    assert not is_earlier_version(
        mirrored_folder.store, build_path(first), render_record(first).replace(b"fact", b"rule")
    )
    assert not is_earlier_version(mirrored_folder.store, build_path(first), render_record(first)[:-5])
    assert is_earlier_version_prefix(mirrored_folder.store, build_path(first), render_record(first)[:-5])
    assert not is_earlier_version_prefix(mirrored_folder.store, build_path(first), b"something else")
    mirrored_folder.commit(make_removals(third))
    assert is_earlier_version(mirrored_folder.store, build_path(third), render_record(third))


def test_an_earlier_version_of_a_page_is_old(mirrored_folder: MirroredFolder) -> None:
    mirrored_folder.commit(make_additions(make_page("one\n")))
    mirrored_folder.commit(make_change(make_page("one\n"), make_page("two\n")))
    for text, old in (("one\n", True), ("two\n", True), ("one", False), ("", False), ("two\nmore\n", False)):
        assert (
            is_earlier_version(mirrored_folder.store, "memory/MEMORY.md", render_page(make_page(text))) is old
        )
    assert is_earlier_version_prefix(mirrored_folder.store, "memory/MEMORY.md", b"on")


def test_a_log_without_its_last_paragraphs_is_old(mirrored_folder: MirroredFolder) -> None:
    all_of_them = [make_paragraph(number) for number in range(4)]
    mirrored_folder.commit(make_additions(*all_of_them))
    for end in range(1, 5):
        assert is_earlier_version(
            mirrored_folder.store, "memory/HISTORY.md", render_log(HISTORY, all_of_them[:end])
        )
    assert not is_earlier_version(
        mirrored_folder.store, "memory/HISTORY.md", render_log(HISTORY, all_of_them[1:])
    )
    assert not is_earlier_version(
        mirrored_folder.store, "memory/HISTORY.md", render_log(HISTORY, all_of_them)[:-3]
    )
    assert not is_earlier_version(mirrored_folder.store, "memory/HISTORY.md", b"")
    assert is_earlier_version_prefix(
        mirrored_folder.store, "memory/HISTORY.md", render_log(HISTORY, all_of_them)[:-3]
    )


def test_a_session_is_old_line_by_line(mirrored_folder: MirroredFolder) -> None:
    state, spoken = make_session("x"), [make_turn(number, "x") for number in range(4)]
    mirrored_folder.commit(make_additions(state, *spoken))
    later, edited = replace(state, summary="so far"), replace(spoken[1], content="put otherwise")
    mirrored_folder.commit(make_change(state, later))
    mirrored_folder.commit(make_change(spoken[1], edited))
    path = build_path(state)
    whole = render_session(state, spoken)
    now = render_session(later, [spoken[0], edited, *spoken[2:]])
    for data in (whole, now, render_session(later, spoken[:2]), render_session(state, [])):
        assert is_earlier_version(mirrored_folder.store, path, data)
    lines = now.splitlines(keepends=True)
    for data in (b"".join([*lines[:2], *lines[3:]]), b"".join([lines[0], lines[2], lines[1]]), now[:-4], b""):
        assert not is_earlier_version(mirrored_folder.store, path, data)
    assert not is_earlier_version(
        mirrored_folder.store, path, now.replace(b"Words of turn 2", b"Words of mine")
    )
    assert is_earlier_version_prefix(mirrored_folder.store, path, now[:-4])
    assert is_earlier_version_prefix(mirrored_folder.store, path, lines[0][:10])
    assert not is_earlier_version_prefix(mirrored_folder.store, path, now[:-4] + b"?")
    mirrored_folder.commit(make_removals(*[*reversed(spoken[2:]), edited, spoken[0], later]))
    assert is_earlier_version(mirrored_folder.store, path, whole)


def test_a_day_is_old_unless_something_older_is_missing(mirrored_folder: MirroredFolder) -> None:
    one, two, three = (make_record(n, layer="episodic", created_at=make_time(10 - n)) for n in (1, 2, 3))
    for each in (one, two, three):
        mirrored_folder.commit(make_additions(each))
    path = build_path(one)
    for records, old in (
        ([one], True),
        ([one, two], True),
        ([one, two, three], True),
        ([two, three], False),
        ([one, three], False),
        ([], False),
    ):
        assert is_earlier_version(mirrored_folder.store, path, render_episodic(records)) is old
    assert not is_earlier_version(mirrored_folder.store, path, render_line(one) * 2)
    assert not is_earlier_version(mirrored_folder.store, path, render_line(replace(one, content="By hand")))
    assert not is_earlier_version(mirrored_folder.store, path, b'{"content": "By hand"}\n')
    again = replace(one, seen_count=2)
    mirrored_folder.commit(make_change(one, again))
    assert is_earlier_version(mirrored_folder.store, path, render_episodic([one, two]))
    assert is_earlier_version(mirrored_folder.store, path, render_episodic([again, two, three]))
    mirrored_folder.commit(make_change(two, replace(two, archived_at=NOW)))
    assert is_earlier_version(mirrored_folder.store, path, render_episodic([one, two]))


def test_a_torn_day_may_lack_what_comes_behind(mirrored_folder: MirroredFolder) -> None:
    one, two, three = (make_record(n, layer="episodic", created_at=make_time(10 - n)) for n in (1, 2, 3))
    mirrored_folder.commit(make_additions(one, two, three))
    path, whole = build_path(one), render_episodic([one, two, three])
    for cut in range(0, len(whole), 31):
        assert is_earlier_version_prefix(mirrored_folder.store, path, whole[:cut])
    assert not is_earlier_version_prefix(mirrored_folder.store, path, whole[:-9] + b"?")
    first, second = (make_record(n, layer="episodic", created_at=make_time(n + 86_400)) for n in (5, 6))
    mirrored_folder.commit(make_additions(first, second))
    assert is_earlier_version_prefix(mirrored_folder.store, build_path(first), render_episodic([first]))
    assert not is_earlier_version_prefix(mirrored_folder.store, build_path(first), render_episodic([second]))


def test_what_is_not_ours_was_never_so(mirrored_folder: MirroredFolder) -> None:
    write_samples(mirrored_folder)
    for path in (
        "memory/notes.txt",
        "memory/no-id.json",
        "memory/episodic/someday.jsonl",
        "sessions/none.jsonl",
    ):
        assert not is_earlier_version(mirrored_folder.store, path, b"{}\n")
        assert not is_earlier_version_prefix(mirrored_folder.store, path, b"x")
