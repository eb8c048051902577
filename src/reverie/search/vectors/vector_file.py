"""Vectors of one embedder in an SQLite file: rows of 8-bit numbers under the keys of passages.

The file is named after the embedder, so vectors of different embedders are never compared. Each row has the number of
its last change. A process has a copy of all rows in arrays for comparisons, and reads only the changed rows again.
`secure_delete` overwrites removed vectors, and no log of writes remains after a transaction.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

from reverie.domain.passage import SEARCHABLE, Searchable
from reverie.stores.forks import ForkSafeLock, using_connections

TYPICAL_COSINE = (0.15, 0.12)
"""Mean and deviation of the cosine of unrelated texts, for embedders without their own; those of MiniLM."""

_BLOCK = 512
"""Rows that are converted to floats at once; more do not fit into the second-level cache."""
_EXACT = 1 << 24
"""Whole numbers up to this one are exact in float32."""
_LOCK_TIMEOUT_S = 30.0
_STAMP_RESOLUTION_S = 0.05
"""A file that was changed more recently may change again without another time of change."""
_TYPICAL_COUNT = 20
_MIN_DEVIATION = 1e-3


class _Numpy:
    """Stand-in for numpy, which is imported on first use: most memories without vectors need it never."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module("numpy"), name)
        setattr(self, name, value)
        return value


np: Any = _Numpy()


class VectorFileDamaged(Exception):
    """The file is damaged. Internal: the owner starts a new one."""


class QuantizedVector(NamedTuple):
    """A vector of 8-bit numbers.

    Attributes:
        scale: Factor of its numbers.
        numbers: Its numbers, each a signed byte.
    """

    scale: float
    numbers: bytes


class NewVector(NamedTuple):
    """A vector to write.

    Attributes:
        key: The key of the passage.
        subject: Kind of the passage.
        scope: Hash of its scope.
        digest: Hash of the embedded text.
        vector: The vector; None for a passage without text.
    """

    key: int
    subject: Searchable
    scope: int
    digest: int
    vector: QuantizedVector | None


class Neighbours:
    """Cosines of a query with all vectors of a kind in some scopes.

    Attributes:
        count: Number of vectors.
        mean: Mean of the cosines.
        deviation: Their standard deviation.
    """

    def __init__(self, keys: Any, cosines: Any, typical: tuple[float, float]) -> None:
        """Create them from ascending keys, their cosines, and the typical mean and deviation.

        The typical values count like `_TYPICAL_COUNT` texts, so that few texts have a deviation too.
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
        """Return the cosines of the keys with a vector."""
        places = _find_places(self._keys, keys)
        return dict(zip(self._keys[places].tolist(), self._cosines[places].tolist(), strict=True))


class Likeness:
    """Nearness of the vectors of some passages to each other, in standard deviations of their cosines."""

    def __init__(self, keys: Sequence[int], vectors: Any) -> None:
        """Create it from keys and a vector of length 1 for each."""
        self._places = {key: place for place, key in enumerate(keys)}
        self._values = vectors @ vectors.T
        pairs = self._values[np.triu_indices(len(keys), 1)]
        if len(pairs):
            self._values = (self._values - pairs.mean()) / max(float(pairs.std()), _MIN_DEVIATION)

    def get(self, one: int, other: int) -> float | None:
        """Return the nearness of two by their keys; None unless both have a vector."""
        places = self._places
        return float(self._values[places[one], places[other]]) if one in places and other in places else None


def _find_places(ascending: Any, keys: Sequence[int]) -> Any:
    """Return the places of the keys that an ascending array contains."""
    if not len(ascending):
        return np.empty(0, np.int64)
    asked = np.asarray(keys, np.int64)
    places = np.minimum(np.searchsorted(ascending, asked), len(ascending) - 1)
    return places[ascending[places] == asked]


def hash_text(text: str) -> int:
    """Return a hash of 63 bits."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def get_file_name(fingerprint: str) -> str:
    """Return the name of the file for an embedder."""
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


class _Rows(NamedTuple):
    """Arrays with one entry for each row, in the order of the keys."""

    keys: Any
    changes: Any
    subjects: Any
    scopes: Any
    scales: Any
    numbers: Any

    def select(self, places: Any) -> _Rows:
        """Return some rows, in this order."""
        return _Rows(*(column[places] for column in self))


class VectorTransaction:
    """Changes of a file of vectors that are committed together."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def read_digests(self) -> dict[int, int]:
        """Return the digest of every key."""
        return dict(self._connection.execute("SELECT key, digest FROM vector"))

    def write(self, vectors: Sequence[NewVector]) -> None:
        """Write vectors. A vector replaces an earlier one of the same key."""
        # By the clock, so that the rows of a new file are newer than those of the file that it replaces.
        (newest,) = self._connection.execute("SELECT coalesce(max(change), 0) FROM vector").fetchone()
        change = max(newest + 1, time.time_ns())
        rows = []
        for new in vectors:
            scale, numbers = new.vector or QuantizedVector(0.0, b"")
            subject, checksum = SEARCHABLE.index(new.subject), zlib.crc32(numbers)
            rows.append((new.key, change, subject, new.scope, new.digest, scale, numbers, checksum))
        self._connection.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def remove(self, keys: Sequence[int]) -> None:
        """Overwrite the vectors of some keys."""
        self._connection.executemany("DELETE FROM vector WHERE key = ?", [(key,) for key in keys])

    def set_followed(self, followed: int) -> None:
        """Store the number of the last journal entry that the vectors cover."""
        self._connection.execute("DELETE FROM followed")
        self._connection.execute("INSERT INTO followed VALUES (?)", (followed,))


class VectorFile:
    """The vectors of one embedder, in a file or in memory. Safe to use from several threads and processes.

    Methods raise `VectorFileDamaged` for a file that is not an intact database, and `OSError` for other failures.
    """

    def __init__(self, path: Path | None) -> None:
        """Use the file at `path`, which the first change creates; None keeps the vectors in memory."""
        self._path = path
        self._lock = ForkSafeLock()
        self._in_memory = None if path is not None else _open(":memory:")
        self._rows = _build_rows([])
        self._stamp: tuple[int, int, int] | None = None

    # -- reading -------------------------------------------------------------------------------------------

    @property
    def dimension(self) -> int:
        """Length of a vector; 0 if there are none yet."""
        return int(self._read_rows().numbers.shape[1])

    @property
    def followed(self) -> int:
        """Number of the last journal entry that the vectors cover; 0 for none."""
        if self._is_missing():
            return 0
        with self._connect() as connection:
            found = connection.execute("SELECT sequence FROM followed").fetchone()
        return int(found[0]) if found else 0

    def count(self) -> int:
        """Return the number of passages with a vector or without text."""
        if self._is_missing():
            return 0
        with self._connect() as connection:
            (count,) = connection.execute("SELECT count(*) FROM vector").fetchone()
        return int(count)

    def read_digests(self, keys: Sequence[int]) -> dict[int, int]:
        """Return the digests of the keys with a vector."""
        if self._is_missing():
            return {}
        marks = ", ".join("?" * len(keys))
        with self._connect() as connection:
            return dict(
                connection.execute(f"SELECT key, digest FROM vector WHERE key IN ({marks})", list(keys))
            )

    def search(
        self,
        query: Any,
        subject: Searchable,
        scopes: Sequence[int] | None,
        typical: tuple[float, float] = TYPICAL_COSINE,
    ) -> Neighbours:
        """Return the cosines of a vector with all vectors of a kind in some scopes; None for all scopes.

        The vector is rounded to whole numbers so that every sum fits into the 24 bits of a float. So the order of
        additions, which depends on the other vectors, makes no difference.
        """
        rows = self._read_rows()
        places = _select(rows, subject, scopes)
        size, width = float(np.linalg.norm(query)) or 1.0, sqrt(len(query))
        whole = np.rint(query * ((_EXACT / (127 * width) - width) / size)).astype(np.float32)
        cosines: Any = np.empty(len(places), np.float32)
        for start in range(0, len(places), _BLOCK):
            block = rows.numbers[places[start : start + _BLOCK]].astype(np.float32)
            np.dot(block, whole, out=cosines[start : start + len(block)])
        cosines *= rows.scales[places] * np.float32(size / (float(np.linalg.norm(whole)) or 1.0))
        return Neighbours(rows.keys[places], cosines, typical)

    def compare(self, subject: Searchable, keys: Sequence[int], scopes: Sequence[int] | None) -> Likeness:
        """Return the nearness of the vectors of some passages in some scopes to each other; None for all scopes."""
        rows = self._read_rows()
        asked = rows.select(_find_places(rows.keys, sorted(set(keys))))
        asked = asked.select(_select(asked, subject, scopes))
        return Likeness(asked.keys.tolist(), asked.numbers.astype(np.float32) * asked.scales[:, None])

    def find_similar(self, subject: Searchable, key: int, scopes: Sequence[int] | None) -> dict[int, float]:
        """Return the cosines of one vector with the others of its kind in some scopes, by key; empty without it."""
        rows = self._read_rows()
        asked = rows.select(_find_places(rows.keys, [key]))
        if not len(asked.keys):
            return {}
        vector = asked.numbers[0].astype(np.float32) * asked.scales[0]
        others = [other for other in rows.keys.tolist() if other != key]
        return self.search(vector, subject, scopes).get_cosines(others)

    def is_damaged(self) -> bool:
        """Return whether the file or one of its vectors is damaged."""
        if self._is_missing():
            return False
        try:
            with self._connect() as connection:
                is_intact = connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                vectors = connection.execute("SELECT numbers, checksum FROM vector")
                return not is_intact or any(zlib.crc32(numbers) != checksum for numbers, checksum in vectors)
        except VectorFileDamaged:
            return True

    def _read_rows(self) -> _Rows:
        """Return the current rows, from the cache unless the file has changed."""
        with self._lock:
            stamp = self._read_stamp()
            if self._path is not None and stamp is None:
                self._rows = _build_rows([])
            elif stamp is None or stamp != self._stamp:
                self._rows = self._update_rows(self._rows)
                self._stamp = stamp
                if stamp is not None and time.time() - stamp[1] / 1e9 < _STAMP_RESOLUTION_S:
                    self._stamp = None
            return self._rows

    def _is_missing(self) -> bool:
        return self._path is not None and not self._path.exists()

    def _read_stamp(self) -> tuple[int, int, int] | None:
        if self._path is None:
            return None
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _update_rows(self, known: _Rows) -> _Rows:
        """Return the rows as they are now. `known` may have some that have changed or gone since."""
        newest = int(known.changes.max()) if len(known.keys) else -1
        with self._connect() as connection:
            connection.execute("BEGIN")
            sql = "SELECT key, change, subject, scope, scale, numbers FROM vector WHERE change > ? AND scale > 0"
            changed = _build_rows(connection.execute(sql, (newest,)).fetchall())
            if len(changed.keys):
                known = known.select(~np.isin(known.keys, changed.keys))
            (count,) = connection.execute("SELECT count(*) FROM vector WHERE scale > 0").fetchone()
            if count != len(known.keys) + len(changed.keys):
                keys = [key for (key,) in connection.execute("SELECT key FROM vector WHERE scale > 0")]
                known = known.select(np.isin(known.keys, np.asarray(keys, np.int64)))
            connection.execute("COMMIT")
        if not len(changed.keys):
            return known
        if not len(known.keys):
            known = changed.select(slice(0))
        if known.numbers.shape[1] != changed.numbers.shape[1]:
            raise VectorFileDamaged("its vectors have several lengths")
        both = _Rows(*(np.concatenate(columns) for columns in zip(known, changed, strict=True)))
        return both.select(np.argsort(both.keys))

    # -- writing -------------------------------------------------------------------------------------------

    @contextmanager
    def change(self) -> Iterator[VectorTransaction]:
        """Change vectors in one transaction. Other processes wait with theirs until the block ends."""
        if self._path is not None:
            for folder in (self._path.parent.parent, self._path.parent):
                folder.mkdir(mode=0o700, exist_ok=True)
            with suppress(FileExistsError):
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with self._connect() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield VectorTransaction(connection)
                connection.execute("COMMIT")
            finally:
                self._stamp = None
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def delete(self) -> None:
        """Delete the file; the next change creates it again."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path.with_name(f"{self._path.name}-journal").unlink(missing_ok=True)

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        with using_connections(), self._lock:
            try:
                if self._in_memory is not None:
                    yield self._in_memory
                    return
                connection = _open(str(self._path))
                try:
                    yield connection
                finally:
                    connection.close()
            except sqlite3.OperationalError as error:  # locked, disk full
                raise OSError(f"the vectors cannot be used: {error}") from error
            except sqlite3.DatabaseError as error:
                raise VectorFileDamaged(str(error)) from error


def _open(name: str) -> sqlite3.Connection:
    connection = sqlite3.connect(name, timeout=_LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA synchronous = NORMAL")
        for table in Path(__file__).with_name("vectors.sql").read_text("utf-8").split(";\n"):
            connection.execute(table)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _build_rows(found: Sequence[tuple[int, int, int, int, float, bytes]]) -> _Rows:
    lengths = {len(row[5]) for row in found} or {0}
    if len(lengths) > 1:
        raise VectorFileDamaged("its vectors have several lengths")
    return _Rows(
        keys=np.asarray([row[0] for row in found], np.int64),
        changes=np.asarray([row[1] for row in found], np.int64),
        subjects=np.asarray([row[2] for row in found], np.int8),
        scopes=np.asarray([row[3] for row in found], np.int64),
        scales=np.asarray([row[4] for row in found], np.float32),
        numbers=np.frombuffer(b"".join(row[5] for row in found), np.int8).reshape(len(found), lengths.pop()),
    )


def _select(rows: _Rows, subject: Searchable, scopes: Sequence[int] | None) -> Any:
    """Return the places of the rows with a vector of a kind in some scopes; None for all scopes."""
    chosen = rows.subjects == SEARCHABLE.index(subject)
    if scopes is not None:
        chosen &= np.isin(rows.scopes, np.asarray(scopes, np.int64))
    return np.flatnonzero(chosen)
