"""Irregular forms of words, which a stemmer does not unify, such as "isst" and "gegessen" of "essen".

The table `word_forms.txt` is made by `scripts/build_word_forms.py`. English forms are in the table of related words.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("word_forms.txt")


def get_forms(token: str, language: str) -> list[str]:
    """Return the other stems of a stem's word, the most common first.

    Example:
        >>> get_forms("isst", "de")[0], get_forms("table", "de")
        ('ess', [])
    """
    groups = _read_table(language).get(token, ())
    return [form for group in groups for form in group.split() if form != token]


@cache
def _read_table(language: str) -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    _, *rest = f"\n{TABLE.read_text('utf-8')}".split(f"\n{language}: ")
    for after in rest:
        group = after.partition("\n")[0]
        for token in group.split():
            table.setdefault(token, []).append(group)
    return table
