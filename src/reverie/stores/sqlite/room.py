"""Measurement of the space that tables take."""

from __future__ import annotations

import sqlite3


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
