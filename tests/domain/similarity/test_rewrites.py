"""What a rewrite of a page may leave out, and what is put back."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.similarity.rewrites import guard_rewrite
from reverie.domain.similarity.specifics import extract_specifics

PAGE = """# Long-term memory

## People
- Ann Berg lives in Oslo
- Bob prefers short answers

## Project
Project uses Spring Boot 4.0.2 with Java 25.
Database is PostgreSQL on port 5432.
- Never deploy on Fridays
- Deploys run from `main` at 02:00 UTC
"""


@pytest.mark.parametrize("nothing", ["", "   \n\n", "---\n", "```\n```", "…"])
def test_an_answer_that_says_nothing_erases_nothing(nothing: str) -> None:
    found = guard_rewrite(PAGE, nothing)
    assert found.text == PAGE
    assert "- Never deploy on Fridays" in found.kept


@pytest.mark.parametrize("cut", range(1, len(PAGE), 7))
def test_an_answer_that_breaks_off_anywhere_loses_no_line(cut: int) -> None:
    found = guard_rewrite(PAGE, PAGE[:cut])
    said = [line for line in PAGE.splitlines() if line.strip() and not line.startswith("#")]
    assert [line for line in said if line not in found.text.splitlines()] == []
    assert len(found.text.splitlines()) <= len(PAGE.splitlines())


def test_the_same_page_in_another_order_is_taken_as_it_is() -> None:
    lines = [line for line in PAGE.splitlines() if line]
    shuffled = "\n".join(["# Long-term memory", *sorted(lines[1:])])
    assert guard_rewrite(PAGE, shuffled).kept == ()
    assert guard_rewrite(PAGE, PAGE).text == PAGE


def test_new_lines_are_welcome() -> None:
    new = PAGE + "- The staging host is called tern\n"
    assert guard_rewrite(PAGE, new) == (new, ())


@pytest.mark.parametrize(
    ("line", "successor"),
    [
        ("Database is PostgreSQL on port 5432.", "Database is PostgreSQL on port 5433."),
        ("- Ann Berg lives in Oslo", "- Ann Berg lives in Bergen"),
        ("- Ann Berg lives in Oslo", "- Ann Berg lives in Oslo, near the harbour"),
        ("- Bob prefers short answers", "* Bob prefers short answers to long ones"),
        ("- Never deploy on Fridays", "- Never deploy on Mondays"),
        ("Project uses Spring Boot 4.0.2 with Java 25.", "The project uses Spring Boot 4.0.2 and Java 25."),
    ],
)
def test_a_line_brought_up_to_date_in_its_place_is_not_kept_back(line: str, successor: str) -> None:
    new = PAGE.replace(line, successor)
    assert guard_rewrite(PAGE, new) == (new, ())


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("- Never deploy on Fridays", "- Deploy on Fridays"),
        ("- Never deploy on Fridays", "- Deploy with care"),
        ("- Ann Berg lives in Oslo", "- Somebody lives in Oslo"),
        ("- Ann Berg lives in Oslo", "- Carl Dahl lives in Rome"),
        ("Database is PostgreSQL on port 5432.", "Database is on a server."),
        ("- Deploys run from `main` at 02:00 UTC", "- Deploys run at night"),
    ],
)
def test_a_line_that_something_else_took_the_place_of_is_kept(line: str, instead: str) -> None:
    found = guard_rewrite(PAGE, PAGE.replace(line, instead))
    assert found.kept == (line,)
    lines = found.text.splitlines()
    assert lines.index(line) < lines.index(instead)


def test_of_lines_that_differ_in_a_number_only_none_stands_for_the_others() -> None:
    old = "".join(f"- Server db{n} has {n} GB\n" for n in range(1, 5))
    assert guard_rewrite(old, "- Server db9 has 9 GB\n").kept == tuple(old.splitlines())
    assert guard_rewrite(old, "- Server db2 has 2 GB\n- Server db3 has 3 GB\n").kept == (
        "- Server db1 has 1 GB",
        "- Server db4 has 4 GB",
    )


def test_lines_that_were_joined_or_split_are_not_kept_back() -> None:
    apart = "- PostgreSQL 16 runs on tern\n- Redis 7 runs on tern\n"
    together = "- PostgreSQL 16 and Redis 7 run on tern\n"
    assert guard_rewrite(apart, together) == (together, ())
    assert guard_rewrite(together, apart) == (apart, ())


def test_a_kept_line_stands_where_it_stood_under_its_heading() -> None:
    new = PAGE.replace("- Bob prefers short answers\n", "").replace("Project uses", "Our project uses")
    found = guard_rewrite(PAGE, new)
    assert found.kept == ("- Bob prefers short answers",)
    assert "- Ann Berg lives in Oslo\n- Bob prefers short answers\n\n## Project\n" in found.text


def test_a_section_that_vanished_comes_back_whole_between_the_others() -> None:
    old = "## A\nAnn 1\n\n## B\nBob 2\n- Redis 7\n\n## C\nCarl 3\n"
    found = guard_rewrite(old, "## A\nAnn 1\nAnn 4\n\n## C\nCarl 3\n")
    assert found.text == "## A\nAnn 1\nAnn 4\n\n## B\nBob 2\n- Redis 7\n\n## C\nCarl 3\n"


def test_what_stood_under_a_heading_is_not_the_same_under_another() -> None:
    old = "## tern-01\n- 16 GB\n\n## tern-02\n- 32 GB\n"
    assert guard_rewrite(old, "## Servers\n- 16 GB\n- 32 GB\n").kept == ("- 16 GB", "- 32 GB")
    assert guard_rewrite(old, "## Servers\n- tern-01: 16 GB\n- tern-02: 32 GB\n").kept == ()


def test_a_heading_may_be_reworded() -> None:
    new = PAGE.replace("## Project", "## The project")
    assert guard_rewrite(PAGE, new) == (new, ())


SENTENCES = st.lists(
    st.builds(
        "{} {} {} {}".format,
        st.sampled_from(["- Ann", "- Bob", "Carl", "* the server"]),
        st.sampled_from(["likes", "does not like", "runs", "stays at"]),
        st.sampled_from(["tea", "Oslo", "`main`", "port", "the old harbour"]),
        st.integers(0, 40),
    )
    | st.sampled_from(["# People", "## Work", "", "---", "Keep it simple"]),
    max_size=14,
).map("\n".join)


@given(SENTENCES, SENTENCES)
def test_what_is_kept_and_what_is_new_is_in_the_result_and_no_negation_is_lost(old: str, new: str) -> None:
    found = guard_rewrite(old, new)
    for line in found.kept:
        assert line in found.text.split("\n")
    for line in new.split("\n")[:-1] if re.search(r"\w", new) else ():
        assert line in found.text.split("\n") or not line
    lost = extract_specifics(old).negations - extract_specifics(found.text).negations
    assert not lost


@pytest.mark.slow
def test_two_full_pages_are_compared() -> None:
    old = "\n".join(f"- Fact {n}: server s{n} runs job {n * 7} for Ann {n % 13}" for n in range(3_000))
    new = "\n".join(f"- Note {n}" for n in range(3_000))
    assert len(guard_rewrite(old, new).kept) == 3_000


RULES = "# Notes\n\n## Always\n- Run the tests first\n\n## Never\n- Deploy on Fridays\n- Share the roadmap\n"


@pytest.mark.parametrize(
    "new",
    [
        "# Notes\n\n## Always\n- Run the tests first\n- Deploy on Fridays\n\n## Never\n- Share the roadmap\n",
        "## Always\n- Run the tests first\n- Also deploy on Fridays\n\n## Never\n- Share the roadmap\n",
        "# Notes\n\n## Never\n- Run the tests first\n\n## Always\n- Deploy on Fridays\n- Share the roadmap\n",
        "# Notes\n\n## Always\n- Deploy on Fridays\n- Run the tests first\n- Share the roadmap\n",
    ],
)
def test_what_stands_under_a_heading_that_denies_it_is_not_moved_from_there(new: str) -> None:
    text = guard_rewrite(RULES, new).text
    never = text.partition("## Never\n")[2].partition("\n\n")[0]
    assert "- Deploy on Fridays" in never


def test_other_moves_between_headings_are_free() -> None:
    old = "## People\n- Ann lives in Oslo\n\n## Tools\n- Bo uses vim\n"
    new = "## People\n- Ann lives in Oslo\n- Bo uses vim\n\n## Tools\n"
    assert guard_rewrite(old, new) == (new, ())
