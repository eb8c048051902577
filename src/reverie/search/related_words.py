"""Related and common words of a language, from tables in the package."""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path

from reverie.domain.errors import TOO_MANY_FILES, StoreCorrupt, StoreUnavailable, is_out_of_files

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


# -- related words --------------------------------------------------------------------------------


MAGIC = b"RELWORD1"
HEADER = struct.Struct("<8sIII")
NEIGHBOUR_BYTES = 3
STEPS = 65
"""Similarities are stored as multiples of 1/65."""

SHIPPED_TABLE = Path(__file__).with_name("related_words.bin")

_LONGEST_UNSPACED_WORD = 8
_MOST_KNOWN = 2_000  # words whose neighbours are remembered
_NUMBER = struct.Struct("<I")
_TWO_NUMBERS = struct.Struct("<II")

Neighbours = tuple[tuple[str, float], ...]


class RelatedWords:
    """Lookup of related words in a table, which is opened at the first lookup."""

    def __init__(self, path: Path = SHIPPED_TABLE) -> None:
        """Use the table at `path`."""
        self._path = path

    def get(self, word: str) -> Neighbours:
        """Return the words related to a folded word, each with its similarity, best first.

        A similarity is above 0 and below 1. An unknown word has no related words.

        >>> [word for word, _ in RelatedWords().get("lawyer")[:1]]
        ['attorney']
        """
        return self._table.get(word)

    def words(self) -> Iterator[str]:
        """Return every word of the table, in the order of their UTF-8 bytes.

        >>> sum(word == "doctor" for word in RelatedWords().words())
        1
        """
        return self._table.words()

    def split_unspaced(self, run: str) -> tuple[str, ...]:
        """Return the words in a run of a script without spaces: the longest known one at each place.

        Characters at which no known word begins are left out.

        >>> RelatedWords().split_unspaced("")
        ()
        """
        words: list[str] = []
        start = 0
        while start < len(run):
            length = self._table.match_longest(run[start : start + _LONGEST_UNSPACED_WORD])
            if length:
                words.append(run[start : start + length])
            start += length or 1
        return tuple(words)

    @cached_property
    def _table(self) -> _Table:
        return _Table(self._path)


class _Table:
    """A mapped file of related words."""

    def __init__(self, path: Path) -> None:
        """Map the file; raise `StoreCorrupt` if it is not a whole table."""
        try:
            with path.open("rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            if is_out_of_files(error):
                raise StoreUnavailable(f"{str(path)!r} cannot be read: {TOO_MANY_FILES}") from error
            raise StoreCorrupt(
                f"the table of related words {str(path)!r} cannot be read ({error}): install the package again"
            ) from error
        self._known: dict[str, Neighbours] = {}
        size = len(self._bytes)
        magic, self._count, neighbours, text = (
            HEADER.unpack_from(self._bytes) if size >= HEADER.size else (b"", 0, 0, 0)
        )
        self._lists = HEADER.size + 4 * (self._count + 1)
        self._neighbours = self._lists + 4 * self._count
        self._text = self._neighbours + NEIGHBOUR_BYTES * neighbours
        if magic != MAGIC or size != self._text + text:
            raise StoreCorrupt(
                f"{str(path)!r} is not a whole table of related words: install the package again"
            )

    def get(self, word: str) -> Neighbours:
        """Return the neighbours of a word from a cache."""
        neighbours = self._known.get(word)
        if neighbours is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            neighbours = self._known[word] = self._read(word)
        return neighbours

    def _read(self, word: str) -> Neighbours:
        key = word.encode("utf-8", "surrogatepass")
        at = self._find(key, 0)
        if at == self._count or self._read_word(at) != key:
            return ()
        (packed,) = _NUMBER.unpack_from(self._bytes, self._lists + 4 * at)
        begin = self._neighbours + NEIGHBOUR_BYTES * (packed >> 8)
        end = begin + NEIGHBOUR_BYTES * (packed & 255)
        numbers = [
            int.from_bytes(self._bytes[place : place + NEIGHBOUR_BYTES], "little")
            for place in range(begin, end, NEIGHBOUR_BYTES)
        ]
        return tuple(
            (self._read_word(number >> 6).decode("utf-8"), ((number & 63) + 1) / STEPS) for number in numbers
        )

    def words(self) -> Iterator[str]:
        """Yield all words in the order of their UTF-8 bytes."""
        for at in range(self._count):
            yield self._read_word(at).decode("utf-8")

    def match_longest(self, text: str) -> int:
        """Return the length of the longest word at the beginning of a text; 0 if there is none."""
        longest = at = 0
        for length in range(1, len(text) + 1):
            key = text[:length].encode("utf-8", "surrogatepass")
            at = self._find(key, at)
            word = self._read_word(at) if at < self._count else b""
            if not word.startswith(key):
                break
            if word == key:
                longest = length
        return longest

    def _find(self, key: bytes, low: int) -> int:
        """Return the number of the first word from `low` on that is not less than `key`."""
        return bisect_left(range(self._count), key, low, key=self._read_word)

    def _read_word(self, at: int) -> bytes:
        begin, end = _TWO_NUMBERS.unpack_from(self._bytes, HEADER.size + 4 * at)
        return self._bytes[self._text + begin : self._text + end]
