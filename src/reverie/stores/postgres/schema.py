"""Opening of a memory: its tables, and its row in the table of memories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reverie.domain.errors import NotFound
from reverie.stores.postgres.address import PostgresAddress, parse_postgres_url
from reverie.stores.postgres.driver import load_psycopg, translate_error
from reverie.stores.postgres.migrations import migrate, read_version, refuse_other_version

if TYPE_CHECKING:
    import psycopg


@contextmanager
def connect_once(address: PostgresAddress) -> Iterator[psycopg.Connection]:
    """Lend a connection of its own, outside the pool; errors of psycopg come out translated."""
    psycopg = load_psycopg()
    try:
        with psycopg.connect(
            address.connection, autocommit=True, prepare_threshold=None, connect_timeout=10
        ) as connection:
            yield connection
    except psycopg.Error as error:
        raise translate_error(error, address.shown) from error


def prepare_database(url: str, *, create: bool) -> list[str]:
    """Bring the tables of a database up to date; with `create`, make them and the memory where there are none.

    Args:
        url: The database and the memory.
        create: Whether to make what is missing.

    Returns:
        The names of the steps that were made.

    Raises:
        NotFound: there are no tables, and none shall be made.
        StoreIncompatible: a newer Reverie made the tables.
        StoreUnavailable: the database cannot be reached, or the role lacks a right.
    """
    address = parse_postgres_url(url)
    with connect_once(address) as connection:
        if not create and read_version(connection) == 0:
            raise NotFound(
                f"there are no tables for {address.shown}: run `reverie store create` with the URL"
            )
        steps = migrate(connection, address.shown)
    if create:
        open_space(address, create=True)
    return steps


def open_space(address: PostgresAddress, *, create: bool) -> tuple[int, str] | None:
    """Return the number of a memory in its database, and its identity among all; None if there is none.

    Args:
        address: The memory.
        create: Whether to make the tables and the memory where there are none.

    Raises:
        StoreIncompatible: another version of Reverie made the tables.
        StoreUnavailable: the database cannot be reached, or the role lacks a right.
    """
    with connect_once(address) as connection:
        version = read_version(connection)
        if version == 0:
            if not create:
                return None
            migrate(connection, address.shown)
        else:
            refuse_other_version(version, address.shown)
        find = "SELECT id, identity FROM reverie.space WHERE name = %s"
        row = connection.execute(find, [address.memory]).fetchone()
        if row is None and create:
            connection.execute(
                "INSERT INTO reverie.space (name) VALUES (%s) ON CONFLICT DO NOTHING", [address.memory]
            )
            row = connection.execute(find, [address.memory]).fetchone()
        return None if row is None else (int(row[0]), str(row[1]))
