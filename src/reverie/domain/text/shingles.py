"""Shingles: runs of five words by which a repetition of a text is found.

Words are compared without case, punctuation and spacing. A common run of five words counts as a repetition, because
whole texts are seldom equal after a merge, a cut or a quotation. In scripts without spaces between words, two
characters count as a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType

from reverie.domain.lazy_dataclass import dataclass
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.tokenizer import TOKENS

RUN = 5
"""Number of consecutive words that make a repetition."""

Phrase = tuple[str, ...]
"""Consecutive words, folded."""

_ESCAPE = defer_regex(r"\\(?:u([0-9a-fA-F]{4})|[nrt])")
_SURROGATES = defer_regex("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")


class _Fold(dict[int, str]):
    """Table that keeps letters, marks and numbers, and maps other characters to spaces."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if category == "Cf":  # soft hyphens, joiners
            folded = ""
        elif category[0] not in "LMN":
            folded = " "
        else:
            folded = f" {character} " if TOKENS["unspaced character"].match(character) else character
        self[code] = folded
        return folded


_fold = _Fold()


def normalize_words(text: str) -> list[str]:
    """Return the words of a text as they are compared.

    >>> normalize_words("Lives in a small flat, near the *Café*!")
    ['lives', 'in', 'a', 'small', 'flat', 'near', 'the', 'café']
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return text.casefold().translate(_fold).split()


def normalize_text(text: str) -> str:
    r"""Return a text without case and with single spaces, for finding a piece of text.

    >>> normalize_text("  Lives in\nBerlin ")
    'lives in berlin'
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().split())


def shingles(words: Sequence[str]) -> Iterator[Phrase]:
    """Yield every run of five words; none for fewer words.

    >>> list(shingles("the sea is very calm today".split()))
    [('the', 'sea', 'is', 'very', 'calm'), ('sea', 'is', 'very', 'calm', 'today')]
    """
    halves = [1 if TOKENS["unspaced character"].match(word) else 2 for word in words]
    if 1 not in halves:
        yield from zip(*(words[start:] for start in range(RUN)), strict=False)
        return
    end = weight = 0
    for start in range(len(words)):
        while weight < 2 * RUN and end < len(words):
            weight += halves[end]
            end += 1
        if weight < 2 * RUN:
            return
        yield tuple(words[start:end])
        weight -= halves[start]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhraseMatcher:
    """Phrases and pieces of text to find.

    Attributes:
        of_length: Phrases by their number of words.
        piece: A folded text to find anywhere, inside words too; empty for none.
    """

    of_length: Mapping[int, frozenset[Phrase]]
    piece: str = ""

    @classmethod
    def of(cls, phrases: Iterable[Phrase], *, piece: str = "") -> PhraseMatcher:
        """Return a matcher of these phrases and a piece of text."""
        groups = groupby(sorted(phrases, key=len), key=len)
        by_length = {length: frozenset(some) for length, some in groups if length}
        return cls(of_length=MappingProxyType(by_length), piece=piece)

    def __bool__(self) -> bool:
        return bool(self.of_length or self.piece)

    def has_piece(self, text: str) -> bool:
        """Return whether a text contains the piece."""
        return bool(self.piece) and any(
            self.piece in normalize_text(version) for version in _iterate_unescaped_versions(text)
        )

    def find_phrases(self, text: str) -> set[Phrase]:
        """Return the phrases that a text contains."""
        met: set[Phrase] = set()
        for version in _iterate_unescaped_versions(text) if self.of_length else ():
            words = normalize_words(version)
            for length, phrases in self.of_length.items():
                windows = zip(*(words[start:] for start in range(length)), strict=False)
                met.update(phrases.intersection(windows))
        return met

    def collect_longest_words(self) -> set[str]:
        """Return the longest word of each phrase and of the piece. A text without any of them has no match."""
        phrases = [phrase for some in self.of_length.values() for phrase in some]
        return {max(words, key=len) for words in (*phrases, self.piece.split()) if words}

    def has_match(self, text: str) -> bool:
        """Return whether a text contains the piece or a phrase."""
        return self.has_piece(text) or bool(self.find_phrases(text))

    def cut(self, text: str) -> tuple[str, list[str]]:
        """Return a text without the lines of its matches, and these lines.

        A match over several lines removes them all, unless a shorter match removes one of them before.
        """
        lines, removed = text.split("\n"), list[str]()
        while spans := self._find_line_spans(lines):
            fewest = min(last - first for first, last in spans)
            numbers = {n for first, last in spans if last - first == fewest for n in range(first, last + 1)}
            removed += [line for number, line in enumerate(lines) if number in numbers]
            lines = [line for number, line in enumerate(lines) if number not in numbers]
        return ("\n".join(lines) if removed else text), removed

    def _find_line_spans(self, lines: Sequence[str]) -> set[tuple[int, int]]:
        """Return the first and last line of each match, counted from 0."""
        met: set[tuple[int, int]] = set()
        for version in _iterate_unescaped_versions("\n".join(lines), keep_lines=True):
            seen = version.split("\n")
            placed = [(word, number) for number, line in enumerate(seen) for word in normalize_words(line)]
            for length, phrases in self.of_length.items():
                for window in zip(*(placed[start:] for start in range(length)), strict=False):
                    if tuple(word for word, _ in window) in phrases:
                        met.add((window[0][1], window[-1][1]))
            rows = [(number, folded) for number, line in enumerate(seen) if (folded := normalize_text(line))]
            owners = [number for number, folded in rows for _ in f"{folded} "]
            pieces = re.escape(self.piece)  # found where they overlap, too
            for found in re.finditer(f"(?=({pieces}))", " ".join(row for _, row in rows)) if pieces else ():
                met.add((owners[found.start(1)], owners[found.end(1) - 1]))
        return met


def collect_text_shingles(text: str, *, short: bool = True) -> set[Phrase]:
    """Return the runs of five words of a text; for a shorter text, all its words as one phrase.

    Args:
        text: The text.
        short: Whether a text of fewer than five words has a phrase.
    """
    words = normalize_words(text)
    found = set(shingles(words))
    return found or ({tuple(words)} if short and words else set())


def _iterate_unescaped_versions(text: str, *, keep_lines: bool = False) -> Iterator[str]:
    """Yield the text, and, if it has backslashes, the text with JSON's escapes decoded."""
    yield text
    if "\\" in text:
        line_end = " " if keep_lines else "\n"
        plain = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else line_end, text)
        yield _SURROGATES.sub(
            lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16", "replace"), plain
        )
