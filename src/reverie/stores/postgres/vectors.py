"""Vectors of passages that machines share through a memory in PostgreSQL. `0008_vectors.sql` has their table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reverie.stores.postgres.connections import PostgresConnections
from reverie.stores.protocol import KeptVector

_READ = (
    "SELECT key, digest, scale, numbers FROM reverie.vector "
    "WHERE space = %s AND key = ANY (%s::bigint[]) AND embedder = %s"
)
_WRAP = 1 << 64
"""Hashes of 8 bytes have no sign, and integers of the database have one."""


class PostgresVectors:
    """Part of a store that holds vectors (see `VectorStore`)."""

    _connections: PostgresConnections

    def read_vectors(self, embedder: int, keys: Sequence[int]) -> dict[int, KeptVector]:
        """Return the vectors that are there of some passages, by key. They may be of an earlier text."""
        if not keys:
            return {}
        rows = self._connections.rows(_READ, (self._connections.space, list(keys), _to_signed(embedder)))
        return {
            key: KeptVector(digest % _WRAP, scale, bytes(numbers)) for key, digest, scale, numbers in rows
        }

    def keep_vectors(self, embedder: int, vectors: Mapping[int, KeptVector], *, read_at: int) -> None:
        """Keep vectors of passages, except of those that have changed or gone meanwhile."""
        if vectors:
            kept = vectors.values()
            self._connections.call_function(
                "keep_vectors",
                _to_signed(embedder),
                read_at,
                list(vectors),
                [_to_signed(each.digest) for each in kept],
                [each.scale for each in kept],
                [rf"\x{each.numbers.hex()}" for each in kept],
            )

    def drop_vectors(self, *, but: int) -> None:
        """Remove the vectors of all embedders except one."""
        self._connections.call_function("drop_vectors", _to_signed(but))


def _to_signed(number: int) -> int:
    return number - _WRAP if number >= _WRAP // 2 else number
