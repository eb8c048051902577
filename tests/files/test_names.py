"""Paths as a caller passes them, and session ids as file names: readable, safe, and never two for one file."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from reverie.domain.conversation import validate_session_id
from reverie.domain.errors import InvalidInput
from reverie.files.layout import build_stem
from reverie.files.names import LONGEST_NAME, build_file_name, parse_session_id, resolve_path
from tests.support.contract.factories import make_record

anything = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=200
).filter(lambda text: not text.isspace())
AWKWARD = [
    *"aAzZ0:._-~%/\\ \n?*",
    "é",
    "É",
    "e\u0301",
    "ß",
    "ss",
    "ſ",
    "İ",
    "ı",
    "ﬁ",
    "Ⅷ",
    "微",
    "가",
    "Σς",
    "K",
]
awkward = st.lists(st.sampled_from(AWKWARD), min_size=1, max_size=30).map(lambda parts: "x" + "".join(parts))
sessions = st.one_of(anything, awkward)

DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def folded(name: str) -> str:
    """What a file system that ignores case and spelling makes of a name."""
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())


def test_a_name_without_anything_awkward_stands_as_it_is() -> None:
    for session in ["telegram:12345", "chat_1", "web:user@example.org", "a.b-c+d=e,f"]:
        assert build_file_name(session) == session


def test_what_is_not_safe_is_encoded() -> None:
    for session, name in [
        ("../../x", "%2E.%2F..%2Fx"),
        ("..", "%2E%2E"),
        (".hidden", "%2Ehidden"),
        ("ends.", "ends%2E"),
        ("ends ", "ends%20"),
        ("a b\nc", "a%20b%0Ac"),
        ("100%", "100%25"),
        ("~home", "%7Ehome"),
        ("con", "con~1143da2b"),
        ("console", "console"),
        ("C:\\x", "C:%5Cx~520186e2"),
        ("a\u2028b", "a%E2%80%A8b"),
        ("slack:C024BE91L", "slack:C024BE91L~5dfbf2e9"),
        ("café", "caf%C3%A9"),
        ("微信:小明", "%E5%BE%AE%E4%BF%A1:%E5%B0%8F%E6%98%8E"),
    ]:
        assert build_file_name(session) == name
        assert parse_session_id(name) == session


@given(sessions)
@example(".")
def test_every_name_is_safe(session: str) -> None:
    name = build_file_name(session)
    assert name.isascii()
    assert len(name) <= LONGEST_NAME
    assert not name.startswith(".")
    assert not name.endswith((".", " "))
    assert not DEVICES.fullmatch(name)
    assert not set(name) & set('/\\<>"|?*\0')
    assert all(char.isprintable() and not char.isspace() for char in name)


@given(sessions)
@example(".")
def test_every_name_that_is_not_cut_is_read_back(session: str) -> None:
    name = build_file_name(session)
    expected = None if "~~" in name else session
    assert parse_session_id(name) == expected


@given(sessions, st.sampled_from([str.swapcase, str.upper, str.lower, str.casefold, folded]))
def test_ids_that_differ_in_case_or_spelling_alone_never_share_a_file(session: str, change: object) -> None:
    assert callable(change)
    other = change(session)
    assume(other != session and other.strip())
    assert folded(build_file_name(session)) != folded(build_file_name(other))


def test_a_long_name_is_cut_and_keeps_apart_what_differs_at_its_end() -> None:
    long = validate_session_id("channel:" + "x" * 192)
    names = {build_file_name(long[:-1] + end) for end in "abc"}
    assert len(names) == 3
    assert all(len(name) <= LONGEST_NAME and name.startswith("channel:xxx") for name in names)
    assert all(parse_session_id(name) is None for name in names)


def test_the_page_of_a_category_has_no_name_that_a_system_keeps_or_confuses() -> None:
    for category, stem in (("D_1/Ünter", "d_1/ünter"), ("con/aux x", "con~/aux x")):
        assert build_stem(make_record(category=category), "pages") == f"memory/records/{stem}"


def test_only_a_tilde_at_the_beginning_is_a_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ana")
    assert resolve_path("~/memory") == Path("/home/ana/memory")
    assert resolve_path("./~nobody-at-all/memory") == tmp_path / "~nobody-at-all" / "memory"
    with pytest.raises(
        InvalidInput, match=r"this home directory does not exist; .* write './~nobody-at-all/memory'"
    ):
        resolve_path("~nobody-at-all/memory")
