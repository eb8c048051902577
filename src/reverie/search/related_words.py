"""Related and common words of a language, from tables in the package."""

from __future__ import annotations

import logging
import mmap
import struct
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from reverie.domain.errors import TOO_MANY_FILES, StoreCorrupt, StoreUnavailable, is_out_of_files
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.tokenizer import fold

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
SYNONYMS_FILE = "synonyms.txt"

_LONGEST_TERM = 80
_LONGEST_FILE = 1_000_000
_RELOAD_EVERY_S = 1.0
_LONGEST_UNSPACED_WORD = 8
_MOST_KNOWN = 2_000  # words whose neighbours are remembered
_COMMENT = defer_regex(r"(?:^|\s)#.*")
_NUMBER = struct.Struct("<I")
_TWO_NUMBERS = struct.Struct("<II")

_log = logging.getLogger("reverie")

Neighbours = tuple[tuple[str, float], ...]


class OwnPairs(NamedTuple):
    """The pairs of a `synonyms.txt`, and its invalid lines."""

    by_term: dict[str, tuple[str, ...]]
    """Synonyms of each folded term. A term is a word, or words with one space between them."""
    problems: tuple[str, ...] = ()
    """A message for each line that was left out, with its number."""


_NO_PAIRS = OwnPairs(by_term={})


def parse_pairs(text: str) -> OwnPairs:
    """Return the pairs of a text with lines such as `k8s = kubernetes` and `GP = doctor, physician`.

    Each term on one side means the same as each term on the other. Other lines are left out and named in `problems`.

    >>> parse_pairs("GP = doctor, physician  # UK").by_term
    {'gp': ('doctor', 'physician'), 'doctor': ('gp',), 'physician': ('gp',)}
    >>> parse_pairs("k8s: kubernetes").problems
    ("line 1: write it as 'word = word' with one '='; the line was left out",)
    """
    by_term: dict[str, dict[str, None]] = {}
    problems: list[str] = []
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        content = _COMMENT.sub("", line).strip()
        if not content:
            continue
        sides = [[" ".join(fold(term).split()) for term in side.split(",")] for side in content.split("=")]
        problem = _find_problem(sides)
        if problem:
            problems.append(f"line {number}: {problem}; the line was left out")
            continue
        left, right = sides
        for one in left:
            for other in right:
                by_term.setdefault(one, {})[other] = None
                by_term.setdefault(other, {})[one] = None
    return OwnPairs(
        by_term={term: tuple(others) for term, others in by_term.items()}, problems=tuple(problems)
    )


class RelatedWords:
    """Lookup of related words: the shipped table, with the pairs of one memory's `synonyms.txt` over it."""

    def __init__(self, table: Path, synonyms: Path | None = None) -> None:
        """Bind a table and a file of own pairs; neither is opened before the first lookup."""
        self._path = table
        self._mapped: _Table | None = None
        self._synonyms = _SynonymsFile(synonyms) if synonyms else None

    @classmethod
    def open(cls, path: Path | None = None) -> RelatedWords:
        """Return the table at `path`, or the shipped one, without own pairs."""
        return cls(path or SHIPPED_TABLE)

    def get(self, word: str) -> Neighbours:
        """Return the words related to a folded word in the table, each with its similarity, best first.

        A similarity is above 0 and below 1. An unknown word has no related words.

        >>> [word for word, _ in RelatedWords.open().get("lawyer")[:1]]
        ['attorney']
        """
        return self._table.get(word)

    def get_own(self, term: str) -> tuple[str, ...]:
        """Return the synonyms of a folded term in the own pairs.

        Terms of several words have one space between their words; see `find_terms`.

        >>> RelatedWords.open().get_own("lawyer")
        ()
        """
        return self._own_pairs.by_term.get(term, ())

    def items(self) -> Iterator[tuple[str, Neighbours]]:
        """Yield every word of the table with its related words, without own pairs.

        >>> sum(1 for word, _ in RelatedWords.open().items() if word == "doctor")
        1
        """
        for word in self._table.words():
            yield word, self._table.get(word)

    def find_terms(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the terms of several words from the own pairs that occur in folded words.

        >>> RelatedWords.open().find_terms(["my", "own", "vehicle"])
        ()
        """
        by_term = self._own_pairs.by_term
        if not by_term or len(words) < 2:
            return ()
        line = f" {' '.join(words)} "
        return tuple(term for term in by_term if " " in term and f" {term} " in line)

    def split_unspaced(self, run: str) -> tuple[str, ...]:
        """Return the words in a run of a script without spaces: the longest known one at each place.

        Characters at which no known word begins are left out.

        >>> RelatedWords.open().split_unspaced("")
        ()
        """
        own = self._own_pairs.by_term
        words: list[str] = []
        start = 0
        while start < len(run):
            length = self._table.match_longest(run[start : start + _LONGEST_UNSPACED_WORD])
            for longer in range(_LONGEST_UNSPACED_WORD, length, -1):
                if own and run[start : start + longer] in own:
                    length = min(longer, len(run) - start)
                    break
            if length:
                words.append(run[start : start + length])
            start += length or 1
        return tuple(words)

    @property
    def problems(self) -> tuple[str, ...]:
        """Messages on the invalid lines of `synonyms.txt`, or on the file if it cannot be read."""
        return self._own_pairs.problems

    @property
    def _table(self) -> _Table:
        if self._mapped is None:
            self._mapped = _Table(self._path)
        return self._mapped

    @property
    def _own_pairs(self) -> OwnPairs:
        return self._synonyms.read() if self._synonyms else _NO_PAIRS


def load_related_words(folder: Path | None) -> RelatedWords:
    """Return the shipped table with the own pairs of the memory in `folder`; without a folder, the table."""
    return RelatedWords(SHIPPED_TABLE, folder / SYNONYMS_FILE if folder else None)


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


class _SynonymsFile:
    """The own pairs of one file, which is read again after a change."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pairs = _NO_PAIRS
        self._version: tuple[int, int, int] | None = None
        self._looked_at = float("-inf")

    def read(self) -> OwnPairs:
        """Return the pairs; check the file at most once a second.

        While the file cannot be read, the former pairs stay valid, and `problems` has the reason.
        """
        now = time.monotonic()
        if now - self._looked_at < _RELOAD_EVERY_S:
            return self._pairs
        self._looked_at = now
        try:
            status = self._path.stat()
            version = (status.st_mtime_ns, status.st_size, status.st_ino)
            if version != self._version:
                self._load(status.st_size)
                self._version = version
        except FileNotFoundError:
            self._version, self._pairs = None, _NO_PAIRS
        except OSError as error:
            self._report(f"cannot be read ({error.strerror})")
        return self._pairs

    def _load(self, size: int) -> None:
        if size > _LONGEST_FILE:
            self._report(f"is larger than {_LONGEST_FILE:,} bytes: shorten it")
            return
        try:
            text = self._path.read_text("utf-8")
        except UnicodeDecodeError as error:
            self._report(f"is not UTF-8 text (byte {error.start}): save it as UTF-8")
            return
        self._pairs = parse_pairs(text)
        for problem in self._pairs.problems:
            _log.warning("%s: %s", self._path.name, problem)

    def _report(self, problem: str) -> None:
        if self._pairs.problems != (problem,):
            _log.warning("%s %s", self._path.name, problem)
        self._pairs = OwnPairs(by_term=self._pairs.by_term, problems=(problem,))


def _find_problem(sides: Sequence[Sequence[str]]) -> str | None:
    if len(sides) != 2:
        return "write it as 'word = word' with one '='"
    terms = [term for side in sides for term in side]
    if not all(terms):
        return "a word is missing beside '=' or ','"
    if any(len(term) > _LONGEST_TERM for term in terms):
        return f"a term is longer than {_LONGEST_TERM} characters"
    if set(sides[0]) & set(sides[1]):
        return "both sides name the same word"
    return None
