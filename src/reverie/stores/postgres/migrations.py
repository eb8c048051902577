"""Schema of the database and its migrations: numbered, forward only, each in a file beside this one.

A database has one schema named `reverie` for all its memories; `reverie.migration` lists the steps that it has
been through. They run in one transaction under an advisory lock, so of several that begin one works and the
others find it done. Opening a memory makes the schema where there is none, and never upgrades one: other
machines may still run the older version.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from reverie.domain.errors import StoreIncompatible

if TYPE_CHECKING:
    import psycopg

_LOCK = 0x52766572
"""`Rver` in ASCII, as in the header of the SQLite file."""

_LOCK_TIMEOUT = "30s"

RECORD_FIELDS = 11
"""Number of the step that also rewrites records."""


def list_migrations() -> list[tuple[int, str, str]]:
    """Return the number, name and SQL of every step, in order."""
    folder = files("reverie.stores.postgres")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [
        (int(name[:4]), name[5:-4].replace("_", " "), (folder / name).read_text("utf-8")) for name in names
    ]


def read_version(connection: psycopg.Connection) -> int:
    """Return the number of the newest step that the database has been through; 0 if it has no schema."""
    (exists,) = connection.execute("SELECT to_regclass('reverie.migration') IS NOT NULL").fetchone() or (0,)
    if not exists:
        return 0
    (version,) = connection.execute("SELECT max(version) FROM reverie.migration").fetchone() or (0,)
    return int(version)


def refuse_other_version(version: int, shown: str) -> None:
    """Raise `StoreIncompatible` unless the version is today's.

    Args:
        version: What `read_version` returned.
        shown: The address of the database, without a password.
    """
    newest = list_migrations()[-1][0]
    if version > newest:
        raise StoreIncompatible(
            f"{shown} was made by a newer Reverie (format {version}, this one knows up to {newest}): "
            "upgrade Reverie"
        )
    if version < newest:
        raise StoreIncompatible(
            f"{shown} has format {version}, and this Reverie needs {newest}: "
            "run `reverie store upgrade` with the URL when all machines have this Reverie"
        )


def migrate(connection: psycopg.Connection, shown: str) -> list[str]:
    """Bring the schema to today's version, making it where there is none.

    Args:
        connection: An open connection in autocommit mode, as a role that may create a schema.
        shown: The address of the database, without a password.

    Returns:
        The names of the steps that were made.

    Raises:
        StoreIncompatible: a newer Reverie made the schema; nothing was changed.
    """
    made = []
    with connection.transaction():
        connection.execute("SELECT set_config('lock_timeout', %s, true)", [_LOCK_TIMEOUT])
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        version = read_version(connection)
        if version > list_migrations()[-1][0]:
            refuse_other_version(version, shown)
        if version == 0:
            connection.execute("CREATE SCHEMA IF NOT EXISTS reverie")
            connection.execute(
                "CREATE TABLE reverie.migration (version integer PRIMARY KEY, name text NOT NULL, "
                "made_at timestamptz NOT NULL DEFAULT now())"
            )
        for number, name, statements in list_migrations():
            if number > version:
                connection.execute(statements)
                if number == RECORD_FIELDS:
                    from reverie.stores.postgres.record_migration import (
                        rewrite_records,
                    )  # here: seldom needed

                    rewrite_records(connection)
                connection.execute("INSERT INTO reverie.migration VALUES (%s, %s)", [number, name])
                made.append(name)
    return made
