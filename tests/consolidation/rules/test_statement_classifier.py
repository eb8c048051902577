"""Common statements are told from sentences that look like them. None of these is among those of the fit."""

from __future__ import annotations

import json
from pathlib import Path

from reverie.consolidation.rules.facts import match_statement

FITTED = Path(__file__).parents[3] / "evaluation" / "training" / "statements"

STATED = [
    "I'm a pharmacist in Dublin",
    "I'm going to Malta in May.",
    "I have four step-grandchildren.",
    "I live above a bakery in Ghent.",
    "I gave up meat in 2018.",
    "My husband is a firefighter.",
    "My boiler is a Vaillant.",
    "Ingrid is my sister-in-law.",
    "We use Figma for the designs.",
    "Our retro is every other Friday.",
    "The deadline for the grant is 3 October.",
    "Ich bin Tierärztin in Ulm",
    "Ich habe einen Papagei.",
    "Unsere Kunden sind vor allem Zahnärzte.",
    "Mi visado caduca en noviembre.",
    "Usamos Redis para las sesiones.",
    "Je suis fleuriste.",
    "Mon visa expire en novembre.",
]
NOT_STATED = [
    "I'm seeing two warnings.",
    "I'm using your second suggestion.",
    "I have a string with commas.",
    "I used to get three rows here.",
    "I gave it another try.",
    "My regex matches one line too many.",
    "Mia is the name of the protagonist.",
    "We use that below.",
    "Our function is too slow.",
    "The container exits with code 1.",
    "The deadline in the text is fictional.",
    "Ich bin überrascht.",
    "Ich habe die Funktion umbenannt.",
    "Meine Schleife läuft zu lang.",
    "Tengo la misma salida.",
    "Mi bucle no termina.",
    "Je vois deux avertissements.",
    "Ma regex prend trop.",
]


def test_the_sentences_here_are_not_those_of_the_fit() -> None:
    lines = (line for file in FITTED.glob("*.jsonl") for line in file.read_text("utf-8").splitlines())
    fitted = {json.loads(line)["text"] for line in lines}
    assert len(fitted) > 10_000
    assert fitted.isdisjoint(STATED + NOT_STATED)


def test_a_common_statement_is_learned() -> None:
    for sentence in STATED:
        assert match_statement(sentence) is not None


def test_a_remark_that_looks_like_one_is_not() -> None:
    for sentence in NOT_STATED:
        assert match_statement(sentence) is None
