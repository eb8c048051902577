"""Words for search of a memory in PostgreSQL that differ from what the analyzer makes of its things today."""

from __future__ import annotations

from collections.abc import Iterator

from reverie.domain.passage import Analyse
from reverie.stores.codec import ANALYSIS_COLUMNS, Row, UnreadableRow, decode_value
from reverie.stores.postgres.changes import analyze_columns
from reverie.stores.postgres.connections import PostgresConnections

_BATCH = 500
_THINGS = (
    f"SELECT subject, key, id, body::text, {', '.join(ANALYSIS_COLUMNS)} FROM reverie.thing WHERE space = %s "
    "AND subject IN ('record', 'turn', 'paragraph') AND (subject, key) > (%s, %s) ORDER BY subject, key LIMIT %s"
)
_RENEW = (
    "SELECT reverie.renew_words(%s, %s, %s::text[], %s::bigint[], %s::text[], %s::integer[], %s::text[], "
    "%s::text[], %s::text[], %s::text[])"
)


def find_stale_words(connections: PostgresConnections, space: int, analyse: Analyse) -> Iterator[str]:
    """Yield the ids of things whose words differ from what the analyzer makes of them."""
    for batch in _iterate_stale(connections, space, analyse):
        yield from (name for name, *_ in batch)


def renew_words(connections: PostgresConnections, space: int, analyse: Analyse, *, patience: str) -> None:
    """Give things the words that the analyzer makes of them, in batches between which others can write.

    Args:
        connections: The connections of the store.
        space: The number of the memory.
        analyse: The analyzer.
        patience: How long to wait for the lock of the memory, as PostgreSQL writes it.
    """
    for batch in _iterate_stale(connections, space, analyse):
        columns = [list(column) for column in zip(*(row for _, *row in batch), strict=True)]
        connections.call_fenced(_RENEW, (space, patience, *columns))


def _iterate_stale(connections: PostgresConnections, space: int, analyse: Analyse) -> Iterator[list[Row]]:
    """Yield id, subject, key, document and right words of things with other words, in batches."""
    last: tuple[str, int] = ("", 0)
    while rows := connections.rows(_THINGS, (space, *last, _BATCH)):
        stale: list[Row] = []
        for subject, key, name, body, *stored in rows:
            try:
                value = decode_value(subject, body)
            except UnreadableRow:
                continue  # the check of the store reports it
            if value is not None and tuple(stored) != (words := analyze_columns(value, analyse)):
                stale.append((name, subject, key, body, *words))
        if stale:
            yield stale
        last = rows[-1][:2]
