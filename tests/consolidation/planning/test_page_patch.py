"""A line of the notes says of a person what a cited turn says of that person, and no more generally than it does."""

from __future__ import annotations

import pytest

from reverie.consolidation.planning.page_patch import LineChange, PagePatch
from tests.factories import make_turn


def _take(line: str, said: str) -> str:
    turns = [make_turn(position=1, content=said)]
    return PagePatch("", turns=turns).take(LineChange(do="add", line=None, text=line, turns=tuple(turns)))


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("She cried at the station. She's never flown, she says.", "User has never flown."),
        ("She's also getting married, sweet.", "User is getting married."),
        ("His son did, Marek's back is bad.", "User has a bad back."),
        ("Yes. Violet has laryngitis, maybe Arjun speaks instead.", "Arjun has laryngitis."),
        ("The neighbours said that their beans have rust.", "User's beans have rust."),
        ("Per is against it, Sunita hasn't said anything.", "Sunita is against it."),
        ("Can you turn this into a table instead?", "User always wants tables instead of text."),
    ],
)
def test_what_is_said_of_somebody_else_or_of_one_case_is_refused(said: str, line: str) -> None:
    assert _take(line, said)


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("I've never flown. She has, often.", "User has never flown."),
        ("My back is bad, Marek's knee is fine.", "User has a bad back."),
        ("Violet has laryngitis, so Arjun speaks.", "Violet has laryngitis."),
        ("Always use tables instead of text, please.", "User always wants tables instead of text."),
    ],
)
def test_what_is_said_of_the_person_is_taken(said: str, line: str) -> None:
    assert _take(line, said) == ""
