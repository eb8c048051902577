"""Common words of a language, each with the share of texts that have it.

A small memory cannot show that "thing" is common and "invoice" is not, since it may have neither. The table
`common_words.txt` is made by `scripts/build_common_words.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("common_words.txt")


def get_shares(tokens: Iterable[str], language: str) -> dict[str, float]:
    """Return for each common token the share of all texts that have it, 0 to 1; other tokens are left out.

    Example:
        >>> get_shares(["need", "invoic"], "en")
        {'need': 0.12}
    """
    shares = _read_table(language)
    return {token: shares[token] for token in tokens if token in shares}


@cache
def _read_table(language: str) -> dict[str, float]:
    shares: dict[str, float] = {}
    for line in TABLE.read_text("utf-8").splitlines():
        if line.startswith(f"{language} "):
            head, _, words = line.partition(": ")
            shares.update(dict.fromkeys(words.split(), int(head.split()[1]) / 100))
    return shares
