"""Build the table of common words: how many texts of about fifty words have each, by language.

The words are in the form of the index: folded and stemmed. A word that fewer than one text in a hundred has is left
out.

Usage: python scripts/build_common_words.py --lookups FOLDER --spelling FOLDER

`--spelling` is `spellchecker/resources` of the wheel `pyspellchecker`, which counts words in subtitles of films;
`--lookups` is `spacy_lookups_data/data` of the wheel `spacy-lookups-data`, for Spanish, of which the other lacks words
such as "tiene".
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from reverie.domain.text.tokenizer import fold, stem
from reverie.search.related_words import TABLE

LANGUAGES = ("de", "en", "es", "fr", "it", "nl", "pt", "ru")
WORDS = 50
"""Words of a text."""


def main(arguments: Sequence[str]) -> int:
    """Write the table; return an exit code."""
    parser = argparse.ArgumentParser(description="Build the table of common words.")
    parser.add_argument("--lookups", type=Path, required=True)
    parser.add_argument("--spelling", type=Path, required=True)
    options = parser.parse_args(arguments)
    lines = []
    for language in LANGUAGES:
        lines += list_lines(language, read_counts(language, options.lookups, options.spelling))
    TABLE.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return 0


def read_counts(language: str, lookups: Path, spelling: Path) -> dict[str, int]:
    """Return how often each word of a language is used; the sum differs between languages."""
    if language == "es":
        packed = (lookups / "es_lexeme_prob.json.gz").read_bytes()
        return {word: round(1e9 * math.exp(log)) for word, log in json.loads(gzip.decompress(packed)).items()}
    packed = (spelling / f"{language}.json.gz").read_bytes()
    counts: dict[str, int] = json.loads(gzip.decompress(packed))
    return counts


def list_lines(language: str, counts: dict[str, int]) -> list[str]:
    """Return the lines of a language: per cent of texts, and the words that so many have.

    >>> list_lines("en", {"the": 90, "things": 2, "thing": 1, "of": 7})
    ['en 100: the', 'en 97: of', 'en 78: thing']
    """
    total = sum(counts.values())
    shares: Counter[str] = Counter()
    for word, count in counts.items():
        if re.fullmatch(r"[^\W\d_]+", word):
            shares[stem(fold(word), language)] += count / total  # type: ignore[assignment]
    groups: defaultdict[int, list[str]] = defaultdict(list)
    for word, share in shares.items():
        groups[round(100 * (1.0 - math.exp(-share * WORDS)))].append(word)
    return [
        f"{language} {percent}: {' '.join(sorted(groups[percent]))}"
        for percent in sorted(groups, reverse=True)
        if percent
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
