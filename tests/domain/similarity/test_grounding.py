"""A statement is grounded where its evidence denies, restricts and orders things as it does."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from reverie.domain.similarity.grounding import Evidence, find_ungrounded


def _explain(statement: str, said: str) -> str:
    return find_ungrounded(
        statement, [Evidence(text=said, at=datetime(2026, 3, 17, tzinfo=UTC))], anchored=0.4
    )


@pytest.mark.parametrize(
    ("said", "statement"),
    [
        ("I roast Mondays now, no more Tuesdays.", "The user roasts on Mondays instead of Tuesdays."),
        (
            "No running, the surgeon cleared everything else.",
            "Running isn't allowed, the surgeon cleared everything else.",
        ),
        ("No climbing tonight. I climb on Thursdays.", "The user climbs on Thursdays."),
        ("We're stall 12 at the market if you ever grow legs.", "We're stall 12 at the market."),
        ("Mum broke her wrist on Monday.", "The user's mother broke her wrist on 16 March 2026."),
        ("Lena and I share an office.", "The user shares an office with Lena."),
        ("Je ne bois plus de café.", "L'utilisatrice ne boit plus de café."),
        ("Go/no-go was a go, cutover at 06:00.", "The go/no-go was a go; cutover at 06:00."),
        (
            "Thursdays is Dartmouth, Fridays the peninsula.",
            "Dartmouth on Thursdays, the peninsula on Fridays.",
        ),
    ],
)
def test_what_the_turns_say_in_other_forms_is_grounded(said: str, statement: str) -> None:
    assert _explain(statement, said) == ""


@pytest.mark.parametrize(
    ("said", "statement"),
    [
        ("I don't eat fish.", "The user eats fish."),
        ("I don't eat fish.", "The user doesn't like meat but eats fish."),
        ("We're moving to Leeds if I get the job.", "We're moving to Leeds."),
        ("Ann manages Bo.", "Bo manages Ann."),
        ("The server is up.", "The server is not up."),
        ("Bo says that his mum broke her wrist.", "The user's mother broke her wrist."),
        ("I used to sail with the club.", "The user sails with the club."),
        ("Great, more paperwork, I absolutely love paperwork.", "The user loves paperwork."),
        ("Rumour has it that Ann becomes head of sales.", "Ann becomes head of sales."),
        ("Ann got the job and I'm on probation.", "The user got the job and Ann is on probation."),
        ("Then a single ticket for Bo.", "The user needs a single ticket."),
        ("Je ne bois plus de café.", "L'utilisatrice boit du café."),
    ],
)
def test_what_the_turns_deny_restrict_or_say_otherwise_is_not(said: str, statement: str) -> None:
    assert _explain(statement, said)
