"""Lines of pages: what is written is read back, whatever the text is."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from reverie.domain.living_page import Line, is_visible_tag, parse_line, render_line

ODD = st.sampled_from(
    [
        "-->", "<!--", "<!-- 3f2a9c81d0e5 -->", "\n", "\r\n", "```", "~~~", "- ", "# ", "---", "…", "  ", "\\", "\\n",
        "<br>", "\\<", " #a", "#b", "📌", "\\u0041", "\u2028", "\x85", "<b>", "](x)", "|", "`", "2026-05-01: ",
        "until ", "\t", "    ", "&#32;", "&#9;", "\\&",
    ]
)  # fmt: skip
TEXTS = st.lists(st.one_of(ODD, st.text(max_size=5)), min_size=1, max_size=8).map("".join).filter(str.strip)
TAGS = st.lists(st.text(max_size=6).filter(is_visible_tag), max_size=3).map(tuple)


@given(
    text=TEXTS,
    tags=TAGS,
    is_pinned=st.booleans(),
    permission=st.booleans(),
    details=st.sampled_from(["", "2026"]),
)
@example(text="#only", tags=(), is_pinned=False, permission=False, details="")
@example(text="a\\", tags=("b",), is_pinned=True, permission=True, details='2026 {"a": "b"}')
@example(text="a\\\nb <!-- 3f2a9c81d0e5", tags=(), is_pinned=False, permission=False, details="")
def test_a_line_is_read_back_as_it_was_written(
    text: str, tags: tuple[str, ...], is_pinned: bool, permission: bool, details: str
) -> None:
    line = Line("3f2a9c81d0e5", text, "", permission, tags, is_pinned, details)
    row = render_line(line)
    assert len(row.splitlines()) == 1
    assert parse_line(row) == line


def test_a_line_is_read_as_a_person_writes_it() -> None:
    for row, line in {
        "Buy milk": Line("", "Buy milk"),
        "* Buy milk #shop #home/food 📌": Line("", "Buy milk", tags=("shop", "home/food"), is_pinned=True),
        "- See #12": Line("", "See #12"),
        "- #todo": Line("", "#todo"),
        "+ In C:\\new and C:\\users": Line("", "In C:\\new and C:\\users"),
        "- a<br>b": Line("", "a\nb"),
        "- a <!-- 3f2a9c81d0e5 --> b <!-- 0f2a9c81d0e5 -->": Line(
            "0f2a9c81d0e5", "a <!-- 3f2a9c81d0e5 --> b"
        ),
        "- tea #drinks <!--3f2a9c81d0e5-->  ": Line("3f2a9c81d0e5", "tea", tags=("drinks",)),
    }.items():
        assert parse_line(row) == line, row
    for row in ("", "  ", "# A", "## B", "…and 3 more", "<!-- /reverie:page -->", "<!-- reverie:page 1 -->"):
        assert parse_line(row) is None, row
