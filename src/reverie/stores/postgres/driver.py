"""Lazy import of psycopg, and translation of its errors into Reverie's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from reverie.domain.errors import InvalidInput, MissingExtra, StoreCorrupt, StoreError, StoreUnavailable

if TYPE_CHECKING:
    import psycopg
    from psycopg.adapt import AdaptersMap

_INSTALL = "a memory in PostgreSQL needs psycopg: pip install 'reverie[postgres]'"
_UNAVAILABLE = {
    "25006": "it is read-only, as a standby is: connect to the primary",
    "28P01": "the password is wrong: correct it in the URL, or in ~/.pgpass",
    "28000": "the role is not admitted: see pg_hba.conf and the name of the role",
    "3D000": "there is no such database: make it with `createdb`, or correct the URL",
    "3F000": "there are no tables of Reverie: run `reverie store create` with the URL",
    "42P01": "there are no tables of Reverie: run `reverie store create` with the URL",
    "42883": "a function of Reverie is missing: run `reverie store upgrade` with the URL",
    "53100": "the disk of the server is full: free some space and retry",
    "53300": "the server has no free connection: raise max_connections, or put pgbouncer before it",
    "55P03": "another process has kept it locked for too long: retry when that has finished",
    "57014": "the server cancelled the statement: raise statement_timeout and retry",
    "RV002": "the memory has been removed: open it again to make a new one",
    "RV003": "another worker has taken over its background work: nothing was changed",
}
_LONGEST_REASON = 300
_CORRUPT = frozenset({"XX001", "XX002"})


@cache
def _load(name: str) -> Any:
    """Return a module of psycopg; raise `MissingExtra` if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtra(_INSTALL) from error


load_psycopg = partial(_load, "psycopg")
load_pool = partial(_load, "psycopg_pool")


@cache
def build_adapters() -> AdaptersMap:
    """Return the adapters of psycopg with a quicker one for lists of texts and numbers.

    psycopg's own one looks up the type of each element, which took a third of the processor time of a save.
    """
    psycopg = load_psycopg()

    class ListDumper(psycopg.adapt.Dumper):  # type: ignore[misc, name-defined]
        def dump(self, obj: Sequence[str | float | None]) -> bytes:
            text = ",".join("NULL" if item is None else f'"{_escape(str(item))}"' for item in obj)
            if "\0" in text:
                raise psycopg.DataError("a text in a list has a NUL character")
            return f"{{{text}}}".encode()

    adapters: AdaptersMap = psycopg.adapt.AdaptersMap(psycopg.adapters)
    adapters.register_dumper(list, ListDumper)
    return adapters


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def is_connection_lost(error: psycopg.Error) -> bool:
    """Return whether the connection broke or was refused, rather than the server refusing a statement."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, load_psycopg().OperationalError)
    return state.startswith("08") or state in {"57P01", "57P02", "57P03", "57P05"}


def _describe_loss(error: psycopg.Error) -> str:
    """Return what libpq says of a lost or refused connection; it names hosts and users, and no password."""
    return " ".join(str(error).split()).removeprefix("connection failed: ")[:_LONGEST_REASON]


def translate_error(error: psycopg.Error, shown: str) -> InvalidInput | StoreError:
    """Return the error to raise instead; it never quotes what is stored, nor a password.

    Args:
        error: What psycopg raised.
        shown: The address of the memory, without a password.
    """
    state = error.sqlstate
    name = state or type(error).__name__
    if state in _CORRUPT:
        return StoreCorrupt(f"{shown} is damaged ({name}): bring back a backup of the database")
    if state == "42501" and error.diag.message_primary:  # it names a table or schema, and no content
        return StoreUnavailable(
            f"{shown} cannot be used: {error.diag.message_primary} (the role lacks a right). To make or upgrade "
            "tables, name their owner in the URL. To let the role use them, run as the owner: "
            "GRANT USAGE ON SCHEMA reverie TO the role, and "
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA reverie TO the role"
        )
    if state in _UNAVAILABLE:
        return StoreUnavailable(f"{shown} cannot be used ({name}): {_UNAVAILABLE[state]}")
    if isinstance(error, load_pool().PoolTimeout):
        return StoreUnavailable(
            f"{shown} gave no connection in time: the server is away, or all connections of this process are in "
            "use; end open `reading` blocks and unfinished lists, and retry"
        )
    if is_connection_lost(error):
        return StoreUnavailable(
            f"{shown} cannot be reached ({name if state else _describe_loss(error)}): see that the server runs and "
            "admits this address, and that the URL is right, and retry"
        )
    if isinstance(error, load_psycopg().DataError):
        return InvalidInput(
            f"{shown} cannot store a text ({name}): remove NUL characters and lone surrogates from it"
        )
    return StoreError(f"{shown}: PostgreSQL failed with {name}")
