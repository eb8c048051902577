"""Renewal of the words for search of a memory in PostgreSQL after the analyzer has changed."""

from __future__ import annotations

from collections.abc import Iterator

from reverie.domain.passage import Analyse
from reverie.stores.codec import (
    ANALYSIS_COLUMNS,
    Row,
    UnreadableRow,
    analyze_columns,
    decode_value,
)
from reverie.stores.postgres.connections import PostgresConnections
from reverie.stores.postgres.where import format_limit

_BATCH = 500
_THINGS = (
    f"SELECT subject, key, id, body::text, {', '.join(ANALYSIS_COLUMNS)} FROM reverie.thing WHERE space = %s "
    "AND subject IN ('record', 'turn', 'paragraph') AND (subject, key) > (%s, %s) ORDER BY subject, key"
)
_PLACE = "SELECT renewed_subject, renewed_key FROM reverie.work WHERE space = %s"
_MOVE = (
    "UPDATE reverie.work SET renewed_subject = %s, renewed_key = %s WHERE space = %s AND renewed_key IS NOT NULL "
    "RETURNING 1"
)

_Place = tuple[str, int]


class WordRenewal:
    """Renewal, in batches, of the words of one memory that an earlier analyzer may have made.

    Others can write between two batches. The database records how far the renewal is, so that any process can
    continue it.

    Args:
        connections: The connections of the store.
        analyse: The analyzer.
    """

    def __init__(self, connections: PostgresConnections, analyse: Analyse) -> None:
        self._connections = connections
        self._space = connections.space
        self._analyse = analyse

    def find_stale(self) -> Iterator[str]:
        """Yield the ids of things whose words differ from what the analyzer makes of them."""
        place: _Place | None = ("", 0)
        while place is not None:
            stale, place = self._read_batch(place)
            yield from (name for name, *_ in stale)

    def is_due(self) -> bool:
        """Return whether a later version of Reverie has come since the words were made."""
        return self._read_place() is not None

    def renew_batch(self) -> bool:
        """Renew the words of the next things; return whether there are more."""
        if (place := self._read_place()) is None:
            return False
        after = self._renew_after(place)
        self._connections.rows(_MOVE, (*(after or (None, None)), self._space))
        return after is not None

    def renew_all(self) -> None:
        """Renew all words, due or not."""
        place: _Place | None = ("", 0)
        while place is not None:
            place = self._renew_after(place)
        self._connections.rows(_MOVE, (None, None, self._space))

    def _read_place(self) -> _Place | None:
        ((subject, key),) = self._connections.rows(_PLACE, (self._space,))
        return None if key is None else (subject, key)

    def _renew_after(self, place: _Place) -> _Place | None:
        stale, after = self._read_batch(place)
        if stale:
            columns = [list(column) for column in zip(*(row for _, *row in stale), strict=True)]
            self._connections.call_function("renew_words", *columns)
        return after

    def _read_batch(self, place: _Place) -> tuple[list[Row], _Place | None]:
        """Return id, subject, key, document and right words of the next things with other words, and the last place.

        The place is None at the end.
        """
        rows = self._connections.rows(_THINGS + format_limit(_BATCH), (self._space, *place))
        stale: list[Row] = []
        for subject, key, name, body, *stored in rows:
            try:
                value = decode_value(subject, body)
            except UnreadableRow:
                continue  # the check of the store reports it
            if value is not None and tuple(stored) != (words := analyze_columns(value, self._analyse)):
                stale.append((name, subject, key, body, *words))
        return stale, rows[-1][:2] if len(rows) == _BATCH else None
