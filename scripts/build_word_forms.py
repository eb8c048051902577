"""Build the table of the forms of words that a stemmer leaves apart, such as "isst", "gegessen" and "essen".

Each line has the code of a language and the stems of one word, its commonest ones.

Usage: python scripts/build_word_forms.py --lookups FOLDER --spelling FOLDER

`--lookups` is `spacy_lookups_data/data` of the wheel `spacy-lookups-data`, which has the base form of each form; for
the other see `build_common_words.py`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from build_common_words import read_counts
from build_related_words import read_json

from reverie.domain.text.languages import get_function_words
from reverie.domain.text.tokenizer import fold, stem
from reverie.search.word_forms import TABLE

LANGUAGES = ("de", "es", "fr", "it", "nl", "pt")
COMMON = 10_000
"""A word whose base form is not among so many commonest forms is left out."""
STEMS = 10
"""Stems of one word, at most."""


def main(arguments: Sequence[str]) -> int:
    """Write the table; return an exit code."""
    parser = argparse.ArgumentParser(description="Build the table of forms of words.")
    parser.add_argument("--lookups", type=Path, required=True)
    parser.add_argument("--spelling", type=Path, required=True)
    options = parser.parse_args(arguments)
    lines = []
    for language in LANGUAGES:
        bases = {
            form: base if isinstance(base, str) else (base or [form])[0]
            for form, base in read_json(options.lookups / f"{language}_lemma_lookup.json.gz").items()
        }
        exceptions = options.lookups / f"{language}_lemma_exc.json.gz"
        if exceptions.exists():
            verbs = read_json(exceptions).get("verb", {})
            bases |= {form: of[0] for form, of in verbs.items()}
        lines += list_lines(language, bases, read_counts(language, options.lookups, options.spelling))
    TABLE.write_text("".join(f"{line}\n" for line in sorted(lines)), "utf-8")
    return 0


def list_lines(language: str, bases: Mapping[str, str], counts: Mapping[str, int]) -> list[str]:
    """Return the lines of a language: for each common word with several stems, these, the base form's first.

    >>> list_lines("de", {"isst": "essen", "wohne": "wohnen"}, {"essen": 5, "wohnen": 5, "isst": 2, "wohne": 1})
    ['de: ess isst']
    """
    folded: Counter[str] = Counter()
    for form, count in counts.items():
        folded[fold(form)] += count
    common = {form for form, _ in folded.most_common(COMMON)} - get_function_words(language)
    forms: defaultdict[str, set[str]] = defaultdict(set)
    for form, base in bases.items():
        if fold(base) in common and fold(form) in folded:
            forms[fold(base)].add(fold(form))
    lines = []
    for base, others in forms.items():
        stems: Counter[str] = Counter()
        for form in sorted(others):
            if re.fullmatch(r"[^\W\d_]{2,}", form):
                stems[stem(form, language)] += folded[form]
        first = stem(base, language)
        stems.pop(first, None)
        if stems:
            lines.append(
                f"{language}: {' '.join([first, *(each for each, _ in stems.most_common(STEMS - 1))])}"
            )
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
