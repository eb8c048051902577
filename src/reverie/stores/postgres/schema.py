"""Opening of a memory: its tables, and its row in the table of memories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reverie.domain.errors import InvalidInput, NotFound
from reverie.stores.postgres.address import PostgresAddress, parse_postgres_url
from reverie.stores.postgres.driver import load_psycopg, translate_error
from reverie.stores.postgres.migrations import migrate, read_version, refuse_other_version
from reverie.stores.postgres.upkeep import describe_remains, list_places, rewrite_tables

if TYPE_CHECKING:
    import psycopg


@contextmanager
def connect_once(address: PostgresAddress) -> Iterator[psycopg.Connection]:
    """Yield a connection outside the pool, and translate errors of psycopg."""
    psycopg = load_psycopg()
    try:
        psycopg.conninfo.conninfo_to_dict(address.connection)
    except psycopg.Error:
        raise InvalidInput(
            f"the address of {address.shown} cannot be read by libpq: use only parameters that it knows, such as "
            "sslmode=, and percent-encode special characters"
        ) from None
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
        NotFound: there are no tables, and `create` is false.
        StoreIncompatible: a newer Reverie made the tables.
        StoreUnavailable: the database cannot be reached, or the role lacks a right.
    """
    address = parse_postgres_url(url)
    with connect_once(address) as connection:
        if not create:
            _require_tables(connection, address)
        steps = migrate(connection, address.shown)
    if create:
        open_space(address, create=True)
    return steps


def refuse_other_tables(address: PostgresAddress) -> None:
    """Raise unless a database has the tables of today's version.

    Raises:
        NotFound: it has none.
        StoreIncompatible: another version of Reverie made them.
        StoreUnavailable: the database cannot be reached, or the role lacks a right.
    """
    with connect_once(address) as connection:
        refuse_other_version(_require_tables(connection, address), address.shown)


def open_space(address: PostgresAddress, *, create: bool) -> tuple[int, str, str]:
    """Return the number of a memory in its database, its identity among all, and the origin of the database.

    Args:
        address: The memory.
        create: Whether to make the tables and the memory where there are none.

    Raises:
        NotFound: there is no such memory, and `create` is false.
        StoreIncompatible: another version of Reverie made the tables.
        StoreUnavailable: the database cannot be reached, or the role lacks a right.
    """
    with connect_once(address) as connection:
        if create and read_version(connection) == 0:
            migrate(connection, address.shown)
        refuse_other_version(_require_tables(connection, address), address.shown)
        row = _find_space(connection, address)
        if row is None and create:
            connection.execute(
                "INSERT INTO reverie.space (name) VALUES (%s) ON CONFLICT DO NOTHING", [address.memory]
            )
            row = _find_space(connection, address)
        origin = _read_origin(connection)
    if row is None:
        raise NotFound(
            f"there is no {address.shown}: make it with `reverie store create` and the URL, or with create=True"
        )
    return *row, origin


_HOLDING = (
    "SELECT c.relname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'space' "
    "WHERE c.relnamespace = 'reverie'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition "
    "AND c.relname <> 'work'"
)


def remove_space(address: PostgresAddress) -> tuple[str, ...]:
    """Remove a memory with everything in it, for good; who has it open is told so at the next change.

    Returns:
        Descriptions of where the server keeps its content for a while.

    Raises:
        NotFound: there is no such memory.
        StoreUnavailable: the database cannot be reached, or the role lacks a right.
    """
    space, _, _ = open_space(address, create=False)
    with connect_once(address) as connection:
        places = list_places(connection, space)
        with connection.transaction():
            connection.execute(
                "SELECT set_config('reverie.space', %s, true), set_config('reverie.has_postings', 'false', true), "
                "set_config('lock_timeout', '10s', true)",
                [str(space)],
            )
            connection.execute("SELECT FROM reverie.space WHERE id = %s FOR UPDATE", [space])
            for (table,) in connection.execute(_HOLDING).fetchall():
                connection.execute(f"DELETE FROM reverie.{table} WHERE space = %s", [space])
            connection.execute("DELETE FROM reverie.space WHERE id = %s", [space])
        left = (
            ()
            if rewrite_tables(connection, places)
            else ("free space of the tables, which others had in use",)
        )
        return (*left, *describe_remains(connection))


def refuse_existing(address: PostgresAddress) -> None:
    """Raise `InvalidInput` if a database has a memory of this name."""
    with connect_once(address) as connection:
        if read_version(connection) and _find_space(connection, address):
            raise InvalidInput(f"there is a {address.shown} already: name another memory")


def _find_space(connection: psycopg.Connection, address: PostgresAddress) -> tuple[int, str] | None:
    find = "SELECT id, identity::text FROM reverie.space WHERE name = %s"
    row: tuple[int, str] | None = connection.execute(find, [address.memory]).fetchone()
    return row


def _read_origin(connection: psycopg.Connection) -> str:
    """Return an identifier of a database that a copy, a restore or a fail-over changes; empty where it is not known.

    It has the server, the database, the table in it, and the timeline, which a restore or a fail-over begins anew.
    """
    try:
        row = connection.execute(
            "SELECT concat_ws('-', system_identifier, d.oid, 'reverie.space'::regclass::oid, "
            "CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END) "
            "FROM pg_control_system(), pg_database AS d WHERE d.datname = current_database()"
        ).fetchone()
    except load_psycopg().Error:
        return ""
    return str(row[0]) if row is not None else ""


def _require_tables(connection: psycopg.Connection, address: PostgresAddress) -> int:
    """Return the version of the tables; raise `NotFound` if there are none."""
    version = read_version(connection)
    if version == 0:
        raise NotFound(
            f"there are no tables for {address.shown}: make them with `reverie store create` and the URL, "
            "or with create=True"
        )
    return version
