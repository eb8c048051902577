"""Measurement of the room that tables take, and removal of earlier versions from the journal."""

from __future__ import annotations

import sqlite3

_LATEST = (
    "(SELECT max(last.sequence) FROM journal AS last "
    "WHERE last.key = journal.key AND last.key <> last.sequence AND last.sequence <= :until)"
)
_THINNABLE = (
    "sequence <= :until AND key IN (SELECT key FROM journal WHERE key <> sequence AND sequence <= :until) "
    f"AND (before IS NOT NULL OR (after IS NOT NULL AND sequence <> {_LATEST}))"
)


def measure_tables(file: sqlite3.Connection) -> dict[str, int]:
    """Return the bytes of each table with its indexes; nothing where SQLite was built without `dbstat`."""
    if not file.execute("SELECT 1 FROM pragma_module_list WHERE name = 'dbstat'").fetchone():
        return {}
    sizes = dict(
        file.execute(
            "SELECT coalesce(tbl_name, 'sqlite_schema'), sum(pgsize) FROM dbstat "
            "LEFT JOIN sqlite_schema USING (name) GROUP BY 1"
        )
    )
    (whole,) = file.execute(
        "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    ).fetchone()
    return {**sizes, "": whole - sum(sizes.values())}


def count_thinnable(file: sqlite3.Connection, until: int) -> int:
    """Return how many entries of the journal `thin_journal` would take content from."""
    (count,) = file.execute(f"SELECT count(*) FROM journal WHERE {_THINNABLE}", {"until": until}).fetchone()
    return int(count)


def thin_journal(file: sqlite3.Connection, until: int, cursor: str) -> int:
    """Take the earlier versions out of the journal; return from how many entries.

    The entries keep number, time, actor, subject and reason. Of each thing the latest version by then stays, on
    which later entries rest, as after an erasure (`Store.erase`).

    Args:
        file: A connection in a transaction.
        until: The number of the last entry to be thinned.
        cursor: Name of a cursor that holds the largest such number.
    """
    file.execute(
        "INSERT INTO cursors VALUES (?, ?) ON CONFLICT DO UPDATE SET value = max(value + 0, excluded.value + 0)",
        (cursor, str(until)),
    )
    sql = (
        f"UPDATE journal SET before = NULL, after = CASE WHEN sequence = {_LATEST} THEN after END "
        f"WHERE {_THINNABLE}"
    )
    return file.execute(sql, {"until": until}).rowcount
