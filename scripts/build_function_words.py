"""Build the table of function words by which the language of a text is told.

The words are those of stopwords-iso in small Latin letters, for languages that Snowball can stem. A line has the codes
of the languages that share some words, a colon, and these words.

Usage: python scripts/build_function_words.py
"""

from __future__ import annotations

from pathlib import Path

from reverie.domain.text import languages

TABLE = Path(languages.__file__).with_name(languages.FUNCTION_WORDS_FILE)


def build_table() -> str:
    """Return the content of the file."""
    by_word: dict[str, list[str]] = {}
    for language in languages.STEMMERS:
        for word in languages.get_function_words(language):
            if len(word) > 1 and word.isascii() and " " not in word:
                by_word.setdefault(word, []).append(language)
    groups: dict[str, list[str]] = {}
    for word, codes in by_word.items():
        groups.setdefault(" ".join(codes), []).append(word)
    return "".join(f"{codes}: {' '.join(sorted(groups[codes]))}\n" for codes in sorted(groups))


if __name__ == "__main__":
    TABLE.write_text(build_table(), "utf-8")
