"""Comparison of the search index with the store. It repairs nothing.

First the files of the commit are checked against what tantivy wrote. Then the index has to have every live passage
by its key and no other, and for every word the right number of passages.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reverie.domain.passage import SEARCHABLE, Passage, Searchable
from reverie.search.index.candidates import CandidateIndex
from reverie.stores.protocol import Store

_BATCH = 1_000
_WORDS_AT_ONCE = 2_000
_ROUNDS = 5
_MAGIC = 1337
_META = "meta.json"
_MANAGED = ".managed.json"
_PARTS = ("term", "idx", "pos", "fieldnorm", "fast", "store")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexMismatch:
    """Differences between the index and the store; all empty if there are none.

    Attributes:
        missing: Keys of live passages that a search could not find.
        surplus: Keys that a search could find and that are no live passages.
        words: How many words are counted in more or fewer passages than have them.
        measures: The sorts of passages whose number or tokens the store counts wrongly.
        passages: How many passages were compared.
        counted: Whether words could be compared: they cannot while others are writing all the time.
    """

    missing: Sequence[int]
    surplus: Sequence[int]
    words: int
    measures: Sequence[Searchable]
    passages: int
    counted: bool


def find_damaged_files(folder: Path) -> list[str]:
    """Return the names of those files of the commit in `folder` that are missing or not as they were written.

    Every file of a tantivy segment ends with a checksum of what stands before. A folder without a commit
    has none. Nothing is opened through tantivy, for which a damaged list of passages is a reason to abort.
    """
    for _ in range(_ROUNDS):
        before = _read_content(folder / _META)
        if before is None:
            return []
        damaged = sorted(_find_damaged(folder, before))
        if not damaged or _read_content(folder / _META) == before:  # else somebody has made another commit
            return damaged
    return []


def _find_damaged(folder: Path, meta: bytes) -> Iterator[str]:
    if not _is_json(_read_content(folder / _MANAGED)):
        yield _MANAGED
    try:
        names = [name for segment in json.loads(meta)["segments"] for name in _list_segment_files(segment)]
    except (ValueError, KeyError, TypeError, AttributeError):
        yield _META
        return
    for name in names:
        content = _read_content(folder / name)
        if content is None or not _is_whole(content):
            yield name


def _list_segment_files(segment: dict[str, Any]) -> Iterator[str]:
    name = segment["segment_id"].replace("-", "")
    for part in _PARTS:
        yield f"{name}.{part}"
    if segment.get("deletes"):
        yield f"{name}.{segment['deletes']['opstamp']}.del"


def _read_content(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:  # missing, or unreadable, which for an index is the same
        return None


def _is_json(content: bytes | None) -> bool:
    try:
        json.loads(content or b"")
    except ValueError:
        return False
    return True


def _is_whole(content: bytes) -> bool:
    """Return whether the checksum of a segment is right: body, footer (JSON), its length, a magic number."""
    if len(content) < 8 or int.from_bytes(content[-4:], "little") != _MAGIC:
        return False
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    try:
        crc = json.loads(content[footer:-8])["crc"]
    except (ValueError, KeyError, TypeError):
        return False
    return bool(footer >= 0 and zlib.crc32(content[:footer]) == crc)


def compare_index(index: CandidateIndex, store: Store) -> IndexMismatch:
    """Compare what the index finds with what the store has, while others may write.

    Raises:
        IndexCorrupt: the index cannot be read.
        StoreUnavailable: the store cannot be read.
    """
    missing: set[int] = set()
    surplus: set[int] = set()
    for _ in range(_ROUNDS):
        before = store.sequence()
        words: dict[Searchable, Counter[str]] = {subject: Counter() for subject in SEARCHABLE}
        measured: dict[Searchable, tuple[int, int]] = dict.fromkeys(SEARCHABLE, (0, 0))
        for subject in SEARCHABLE:
            for after, until, passages in _iterate_batches(store, subject):
                stored, indexed = (
                    {passage.key for passage in passages},
                    index.collect_keys(subject, after, until),
                )
                missing |= stored - indexed
                surplus |= indexed - stored
                for passage in passages:
                    words[subject].update(set(passage.terms.split()))
                count, tokens = measured[subject]
                more = sum(passage.length for passage in passages)
                measured[subject] = count + len(passages), tokens + more
        missing, surplus = _recheck_keys(index, store, missing, surplus)
        wrong = sum(_count_miscounted(index, subject, words[subject]) for subject in SEARCHABLE)
        measures = [subject for subject in SEARCHABLE if _measure(store, subject) != measured[subject]]
        counted = store.sequence() == before
        if counted:
            break
    return IndexMismatch(
        missing=sorted(missing),
        surplus=sorted(surplus),
        words=wrong if counted else 0,
        measures=measures if counted else (),
        passages=sum(count for count, _ in measured.values()),
        counted=counted,
    )


def _measure(store: Store, subject: Searchable) -> tuple[int, int]:
    measure = store.measure(subject, None)
    return measure.passages, measure.tokens


def _iterate_batches(
    store: Store, subject: Searchable
) -> Iterator[tuple[int, int | None, Sequence[Passage]]]:
    """Yield all live passages, with the keys after which and up to which these are all."""
    after = 0
    while batch := store.live(subject, after=after, limit=_BATCH):
        last = batch[-1][0].key
        yield after, last, [passage for passage, _ in batch]
        after = last
    yield after, None, ()


def _recheck_keys(
    index: CandidateIndex, store: Store, missing: set[int], surplus: set[int]
) -> tuple[set[int], set[int]]:
    """Return the keys that are still missing or too many when each is examined while nobody writes."""
    left: tuple[set[int], set[int]] = set(), set()
    for key in sorted(missing | surplus):
        for _ in range(_ROUNDS):
            before = store.sequence()
            is_stored = any(store.passages(subject, [key]) for subject in SEARCHABLE)
            is_indexed = any(key in index.collect_keys(subject, key - 1, key) for subject in SEARCHABLE)
            if store.sequence() == before:
                if is_stored != is_indexed:
                    left[is_indexed].add(key)
                break
    return left


def _count_miscounted(index: CandidateIndex, subject: Searchable, words: Counter[str]) -> int:
    every = list(words)
    return sum(
        words[word] != count
        for start in range(0, len(every), _WORDS_AT_ONCE)
        for word, count in index.frequencies(subject, every[start : start + _WORDS_AT_ONCE], None).items()
    )
