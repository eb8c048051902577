"""No function over a text takes time that grows faster than its length, whatever is repeated in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reverie import InvalidInput
from reverie.consolidation.sentences import (
    extract_references,
    extract_tags,
    is_likely_secret,
    split_sentences,
)
from reverie.domain.provenance import is_said_by_owner, is_typed
from reverie.domain.similarity.grounding import split_statements
from reverie.domain.text import escaping
from reverie.domain.text.same_text import fold_text
from reverie.domain.text.specifics import extract_specifics
from tests.factories import make_turn

LENGTH = 40_000
RUNS = (
    *"aA1 .-'\"([{/@*#|\n\t=:,?<&%\\_~`>!é日",
    *("\n ", " \n", "a ", "a. ", "- ", "* ", "# ", "no, "),
    *['\\"', "a-", "a.", "-/", "a/", "/-", "/-a", "<a>", "'a", "1,", "May 3 "],
)
FUNCTIONS: dict[str, Callable[[str], object]] = {
    "message of an error": InvalidInput,
    "words of the owner": lambda text: is_said_by_owner(text, [make_turn(content=f"{text} and more")]),
    "statements": split_statements,
    "specifics": extract_specifics,
    "sentences": split_sentences,
    "same text": fold_text,
    "references": extract_references,
    "tags": extract_tags,
    "secrets": is_likely_secret,
    "block of a prompt": escaping.escape_block,
    "line of a prompt": escaping.escape_line_start,
    "own words": escaping.unquoted_text,
    "typed": is_typed,
}


HOSTILE: dict[str, tuple[Callable[[str], object], str]] = {
    "brackets without an end": (is_typed, "[a" + " " * 400_000),
    "elements without an end": (escaping.unquoted_text, "<ab>" * 100_000),
    "sentences of the owner": (
        lambda text: is_said_by_owner(text, [make_turn(content=text.replace("The port", "A port"))]),
        " ".join(f"The port of server{n} is open." for n in range(10_000)),
    ),
    "spaces of a record": (fold_text, f"Tea{' ' * 40_000}or thanks"),
}


@pytest.mark.slow
def test_a_long_run_without_an_end_is_read_once() -> None:
    for name in HOSTILE:
        function, text = HOSTILE[name]
        function(text)


@pytest.mark.slow
def test_time_grows_with_the_length_of_a_text_and_not_with_its_square() -> None:
    for name in FUNCTIONS:
        for run in RUNS:
            for start in ("", "Bob is ", '"'):
                FUNCTIONS[name](start + run * (LENGTH // len(run)) + "x")
