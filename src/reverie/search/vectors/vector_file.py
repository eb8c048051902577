"""File of vectors: rows of int8 under the keys of passages, in one space.

A row holds a key, a hash of the embedded text, a hash of its scope, a scale and the vector. A row without a key is
free, and all of it is zero, so nothing is left of a vector that was removed. The header says how far the rows follow
the journal. Readers map the file into memory; it grows and never shrinks, and a new file replaces a damaged one, so
that what is mapped stays readable.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import sqrt
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from reverie.domain.passage import Searchable

_MAGIC = b"RVVECTR1"
_HEADER_BYTES = 4_096
_FIXED = struct.Struct("<8sII")  # magic, dimension, length of the fingerprint
_STATE = struct.Struct("<QQQ")  # rows in use or free again, followed, generation
_FINGERPRINT_AT = _FIXED.size + _STATE.size
_LONGEST_FINGERPRINT = _HEADER_BYTES - _FINGERPRINT_AT
_GROW_ROWS = 256
_BLOCK = 512
"""Rows that are turned into floats at once: more do not fit into the processor's second cache."""

TYPICAL_COSINE = (0.15, 0.12)
"""Mean and deviation of the cosine of unrelated texts, for an embedder that does not say (MiniLM's)."""

_TYPICAL_COUNT = 20
_LEAST_DEVIATION = 1e-3

_SUBJECTS: Mapping[Searchable, int] = MappingProxyType({"record": 1, "turn": 2, "paragraph": 3})


class VectorFileDamaged(Exception):
    """The file is missing, or not as it was written. Internal: the owner starts a new one."""


class QuantizedVector(NamedTuple):
    """A vector in numbers of one byte.

    Attributes:
        scale: What its numbers are multiplied with.
        numbers: Its numbers, each a byte with a sign.
    """

    scale: float
    numbers: bytes


class NewVector(NamedTuple):
    """A vector to write.

    Attributes:
        key: The key of the passage.
        subject: What the passage is.
        scope: Hash of its scope.
        digest: Hash of the embedded text.
        vector: The vector; None for a passage without text, which nothing is near to.
    """

    key: int
    subject: Searchable
    scope: int
    digest: int
    vector: QuantizedVector | None


class Neighbours:
    """Cosines of a query with all vectors of a kind in some scopes.

    Attributes:
        count: How many vectors these are.
        mean: Mean of the cosines.
        deviation: Their standard deviation.
    """

    def __init__(self, keys: Any, cosines: Any, typical: tuple[float, float]) -> None:
        """Take keys in ascending order, the cosine of each, and the typical mean and deviation.

        The typical ones count as much as `_TYPICAL_COUNT` texts, so that few texts have a spread too.
        """
        self._keys = keys
        self._cosines = cosines
        self.count = len(keys)
        mean, deviation = typical
        total = self.count + _TYPICAL_COUNT
        self.mean = (float(cosines.sum()) + _TYPICAL_COUNT * mean) / total
        squares = float(np.square(cosines - self.mean).sum())
        typical_squares = _TYPICAL_COUNT * (deviation**2 + (mean - self.mean) ** 2)
        self.deviation = sqrt((squares + typical_squares) / total)

    def list_nearest(self, limit: int) -> list[int]:
        """Return the keys of the nearest vectors, nearest first."""
        cosines = self._cosines
        nearest = np.argpartition(-cosines, limit)[:limit] if limit < self.count else np.arange(self.count)
        nearest = nearest[np.lexsort((-self._keys[nearest], -cosines[nearest]))]
        return [int(key) for key in self._keys[nearest]]

    def get_cosines(self, keys: Sequence[int]) -> dict[int, float]:
        """Return the cosines of those of the keys that have a vector."""
        places = _find_places(self._keys, keys)
        return dict(zip(self._keys[places].tolist(), self._cosines[places].tolist(), strict=True))


class Likeness:
    """Nearness of the vectors of some passages to each other, in standard deviations of their cosines."""

    def __init__(self, keys: Sequence[int], vectors: Any) -> None:
        """Take the keys and a vector of length 1 for each."""
        self._places = {key: place for place, key in enumerate(keys)}
        self._values = vectors @ vectors.T
        pairs = self._values[np.triu_indices(len(keys), 1)]
        if len(pairs):
            self._values = (self._values - pairs.mean()) / max(float(pairs.std()), _LEAST_DEVIATION)

    def get(self, one: int, other: int) -> float | None:
        """Return the nearness of two by their keys; None unless both have a vector."""
        places = self._places
        return float(self._values[places[one], places[other]]) if one in places and other in places else None


def _find_places(ascending: Any, keys: Sequence[int]) -> Any:
    """Return the places of those of the keys that stand in an ascending array."""
    if not len(ascending):
        return np.empty(0, np.int64)
    wanted = np.asarray(keys, np.int64)
    places = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return places[ascending[places] == wanted]


def hash_text(text: str) -> int:
    """Return a hash of 8 bytes, never 0."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") or 1


def get_file_name(fingerprint: str) -> str:
    """Return the name of the file for a space."""
    return f"{hashlib.blake2b(fingerprint.encode(), digest_size=8).hexdigest()}.vectors"


def normalize_vector(vector: Any) -> Any:
    """Return a vector of length 1 as float32; raises `ValueError` if it is not a vector of numbers."""
    floats = np.asarray(vector, np.float32)
    if floats.ndim != 1 or not len(floats) or not np.isfinite(floats).all():
        raise ValueError("it is not a list of finite numbers")
    length = float(np.linalg.norm(floats))
    return floats / length if length else floats


def quantize_vector(vector: Any) -> QuantizedVector:
    """Return a vector of length 1 in 8-bit numbers; raises `ValueError` if it is not a vector of numbers."""
    floats = normalize_vector(vector)
    largest = float(np.abs(floats).max())
    if not largest:
        return QuantizedVector(0.0, bytes(len(floats)))
    return QuantizedVector(largest / 127, np.rint(floats * (127 / largest)).astype(np.int8).tobytes())


class VectorFile:
    """The vectors of one space, in a file or in memory. One thread may write; its owner takes care of that."""

    def __init__(self, path: Path | None, fingerprint: str, dimension: int) -> None:
        """Open the file, or make it; None keeps the vectors in memory.

        Args:
            path: The file.
            fingerprint: Of the embedder.
            dimension: Length of a vector; 0 takes that of the file.

        Raises:
            VectorFileDamaged: the file is not of that space, or cannot be read.
        """
        self._path = path
        self._bytes: Any = None
        self._descriptor = -1
        self._lock = threading.RLock()  # of what is remembered between two searches
        self._cached: tuple[int, Any] | None = None
        self._selections: dict[tuple[Searchable, tuple[int, ...] | None], tuple[Any, Any, Any, Any]] = {}
        try:
            if path is None:
                self._bytes = np.zeros(_HEADER_BYTES, np.uint8)
                self._write(0, _build_header(fingerprint, dimension))
            else:
                self._open(path, fingerprint, dimension)
                self._map()
            self._read_header(fingerprint, dimension)
        except BaseException:
            self.close()
            raise

    def _open(self, path: Path, fingerprint: str, dimension: int) -> None:
        try:
            self._descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError as error:
            if not dimension:
                raise VectorFileDamaged("there is none yet") from error
            draft = path.with_suffix(f".{os.getpid()}.new")
            descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                os.write(descriptor, _build_header(fingerprint, dimension))
                os.fsync(descriptor)
                with suppress(FileExistsError):
                    os.link(draft, path)
            finally:
                os.close(descriptor)
                os.unlink(draft)
            self._descriptor = os.open(path, os.O_RDWR)

    def _read_header(self, fingerprint: str, dimension: int) -> None:
        header = self._bytes[:_HEADER_BYTES].tobytes()
        if len(header) < _HEADER_BYTES:
            raise VectorFileDamaged("it is too short")
        magic, self.dimension, length = _FIXED.unpack_from(header)
        own = header[_FINGERPRINT_AT : _FINGERPRINT_AT + length]
        if magic != _MAGIC or own != _encode_fingerprint(fingerprint) or not 0 < self.dimension <= 65_536:
            raise VectorFileDamaged("it is not a file of these vectors")
        if dimension and dimension != self.dimension:
            raise VectorFileDamaged(f"its vectors have {self.dimension} numbers and not {dimension}")
        self._row = np.dtype(
            [
                ("key", "<i8"),
                ("digest", "<u8"),
                ("scope", "<u8"),
                ("scale", "<f4"),
                ("check", "<u4"),
                ("subject", "<u4"),
                ("reserved", "<u4"),
                ("vector", "i1", (self.dimension,)),
            ]
        )

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Release the file. What was handed out stays readable."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    # -- state ---------------------------------------------------------------------------------------------

    @property
    def is_current(self) -> bool:
        """Whether the file is still the one under its name, and as long as it was."""
        if self._path is None:
            return True
        try:
            there, own = self._path.stat(), os.fstat(self._descriptor)
        except OSError:
            return False
        return there.st_ino == own.st_ino and own.st_size >= len(self._bytes)

    @property
    def followed(self) -> int:
        """Number of the journal entry up to which the vectors are complete; 0 if they never were."""
        return self._read_state()[1]

    @property
    def generation(self) -> int:
        """Number that grows with every change."""
        return self._read_state()[2]

    def _read_state(self) -> tuple[int, int, int]:
        rows, followed, generation = _STATE.unpack_from(self._bytes[_FIXED.size : _FINGERPRINT_AT].tobytes())
        return rows, followed, generation

    def set_followed(self, followed: int) -> None:
        """Note how far the vectors follow the journal, after they are on disk."""
        self.sync()
        rows, _, generation = self._read_state()
        self._write(_FIXED.size, _STATE.pack(rows, followed, generation))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing until the block ends."""
        if self._descriptor < 0:
            yield
            return
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    # -- reading -------------------------------------------------------------------------------------------

    def compare(self, subject: Searchable, keys: Sequence[int], scopes: Sequence[int] | None) -> Likeness:
        """Return how near the vectors of some passages in some scopes are to each other; None for all scopes."""
        with self._lock:
            places, scales, order, known = self._select(subject, None if scopes is None else tuple(scopes))
            rows = self._rows()
        asked = _find_places(known, sorted(set(keys)))
        found = order[asked]
        vectors = rows["vector"][places[found]].astype(np.float32) * scales[found, None]
        return Likeness(known[asked].tolist(), vectors)

    def read_digests(self) -> dict[int, int]:
        """Return the digest of every key."""
        columns = self._read_columns()
        used = columns["key"] != 0
        return dict(zip(columns["key"][used].tolist(), columns["digest"][used].tolist(), strict=True))

    def count(self) -> int:
        """Return the number of vectors."""
        return int(np.count_nonzero(self._read_columns()["key"]))

    def search(
        self,
        query: Any,
        subject: Searchable,
        scopes: Sequence[int] | None,
        typical: tuple[float, float] = TYPICAL_COSINE,
    ) -> Neighbours:
        """Return the cosines of a vector with all vectors of a kind in some scopes; None for all scopes."""
        with self._lock:
            places, scales, order, keys = self._select(subject, None if scopes is None else tuple(scopes))
            rows = self._rows()
        cosines: Any = np.empty(len(places), np.float32)
        for start in range(0, len(places), _BLOCK):
            block = places[start : start + _BLOCK]
            if block[-1] - block[0] == len(block) - 1:
                vectors = rows["vector"][block[0] : block[-1] + 1]
            else:
                vectors = rows["vector"][block]
            np.dot(vectors.astype(np.float32), query, out=cosines[start : start + len(block)])
        cosines *= scales
        return Neighbours(keys, cosines[order], typical)

    def find_damaged_rows(self) -> list[int]:
        """Return the places of rows whose checksum is wrong."""
        rows = self._rows()
        return [
            place
            for place in range(len(rows))
            if rows[place]["key"] and _compute_check(rows[place]) != rows[place]["check"]
        ]

    def _select(self, subject: Searchable, scopes: tuple[int, ...] | None) -> tuple[Any, Any, Any, Any]:
        """Return places and scales of the rows to search, their order by key, and the keys in this order.

        They are remembered until the file changes.
        """
        columns = self._read_columns()
        chosen = self._selections.get((subject, scopes))
        if chosen is None:
            wanted = (
                (columns["subject"] == _SUBJECTS[subject]) & (columns["key"] != 0) & (columns["scale"] > 0)
            )
            if scopes is not None:
                wanted &= np.isin(columns["scope"], np.asarray(scopes, np.uint64))
            places = np.flatnonzero(wanted)
            keys = columns["key"][places]
            order = np.argsort(keys, kind="stable")
            chosen = places, columns["scale"][places], order, keys[order]
            if len(self._selections) > 1_000:
                self._selections.clear()
            self._selections[(subject, scopes)] = chosen
        return chosen

    def _read_columns(self) -> Mapping[str, Any]:
        """Return copies of the columns beside the vectors, remembered until the file changes."""
        with self._lock:
            generation = self.generation
            if self._cached is None or self._cached[0] != generation:
                rows = self._rows()
                self._cached = (
                    generation,
                    {name: rows[name].copy() for name in ("key", "digest", "scope", "scale", "subject")},
                )
                self._selections.clear()
            columns: Mapping[str, Any] = self._cached[1]
            return columns

    def _rows(self) -> Any:
        """Return a view of all rows in use."""
        count = self._read_state()[0]
        end = _HEADER_BYTES + count * self._row.itemsize
        if end > len(self._bytes):
            self._map()
            if end > len(self._bytes):
                raise VectorFileDamaged("it is shorter than it says")
        return self._bytes[_HEADER_BYTES:end].view(self._row)

    # -- writing -------------------------------------------------------------------------------------------

    def write(self, vectors: Sequence[NewVector]) -> None:
        """Write vectors, each in place of the one with its key. Raises `OSError` if the disk is full."""
        keys = self._read_columns()["key"]
        known = np.flatnonzero(np.isin(keys, np.asarray([new.key for new in vectors], np.int64)))
        places = dict(zip(keys[known].tolist(), known.tolist(), strict=True))
        free = np.flatnonzero(keys == 0).tolist()
        count = self._read_state()[0]
        for new in vectors:
            place = places.get(new.key)
            if place is None:
                place = free.pop() if free else count
                places[new.key] = place
                if place == count:
                    count += 1
                    self._grow(count)
            self._write_row(place, self._build_row(new))
        self._set_rows(count)

    def remove(self, keys: Sequence[int]) -> None:
        """Overwrite the rows of some keys with zeros."""
        gone = np.flatnonzero(np.isin(self._read_columns()["key"], np.asarray(keys, np.int64)))
        for place in gone.tolist():
            self._write_row(place, bytes(self._row.itemsize))
        if len(gone):
            self._set_rows(self._read_state()[0])

    def sync(self) -> None:
        """Wait until what was written is on disk."""
        if self._descriptor >= 0:
            os.fsync(self._descriptor)

    def _build_row(self, new: NewVector) -> bytes:
        row = np.zeros((), self._row)
        row["key"], row["digest"], row["scope"] = new.key, new.digest, new.scope
        row["subject"] = _SUBJECTS[new.subject]
        if new.vector is not None:
            row["scale"] = new.vector.scale
            row["vector"] = np.frombuffer(new.vector.numbers, np.int8)
        row["check"] = _compute_check(row)
        content: bytes = row.tobytes()
        return content

    def _write_row(self, place: int, content: bytes) -> None:
        self._write(_HEADER_BYTES + place * self._row.itemsize, content)

    def _set_rows(self, count: int) -> None:
        _, followed, generation = self._read_state()
        self._write(_FIXED.size, _STATE.pack(count, followed, generation + 1))

    def _grow(self, count: int) -> None:
        end = _HEADER_BYTES + count * self._row.itemsize
        if end <= len(self._bytes):
            return
        more = max(_GROW_ROWS, count // 4) * self._row.itemsize
        if self._path is None:
            self._bytes = np.concatenate((self._bytes, np.zeros(end + more - len(self._bytes), np.uint8)))
            return
        size = os.fstat(self._descriptor).st_size
        if end > size:
            _write_fully(
                self._descriptor, bytes(end + more - size), size
            )  # zeros that surely have their room
        self._map()

    def _write(self, offset: int, content: bytes) -> None:
        if self._descriptor >= 0:
            _write_fully(self._descriptor, content, offset)
        else:
            self._bytes[offset : offset + len(content)] = np.frombuffer(content, np.uint8)

    def _map(self) -> None:
        if os.fstat(self._descriptor).st_size < _HEADER_BYTES:
            raise VectorFileDamaged("it is too short")
        with os.fdopen(os.dup(self._descriptor), "rb") as handle:
            self._bytes = np.memmap(handle, np.uint8, "r")


def _build_header(fingerprint: str, dimension: int) -> bytes:
    own = _encode_fingerprint(fingerprint)
    fixed = _FIXED.pack(_MAGIC, dimension, len(own))
    return (fixed + _STATE.pack(0, 0, 1) + own).ljust(_HEADER_BYTES, b"\0")


def _encode_fingerprint(fingerprint: str) -> bytes:
    return fingerprint.encode()[:_LONGEST_FINGERPRINT]


def _compute_check(row: Any) -> int:
    checked = row.copy()
    checked["check"] = 0
    return zlib.crc32(checked.tobytes())


def _write_fully(descriptor: int, content: bytes, offset: int) -> None:
    while content:
        written = os.pwrite(descriptor, content, offset)
        content, offset = content[written:], offset + written
