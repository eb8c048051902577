"""Connections to PostgreSQL: addresses, pools and errors."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit
from weakref import WeakValueDictionary, finalize

from reverie.domain.errors import InvalidInput, MissingExtra, StoreCorrupt, StoreError, StoreUnavailable
from reverie.domain.text.validation import validate_text
from reverie.stores.base import NestedChange, StoreConnections
from reverie.stores.forks import ForkSafeLock

if TYPE_CHECKING:
    import psycopg
    import psycopg_pool

DEFAULT_MEMORY = "default"
_SCHEMES = ("postgresql://", "postgres://")
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresAddress:
    """A memory in a database.

    Attributes:
        connection: The URL of the database, for libpq. It may hold a password: never show it.
        memory: The name of the memory.
        shown: The address without user and password.
        is_whole_database: Whether the URL named no memory.
        database: The address of the database, without user and password.
    """

    connection: str
    memory: str
    shown: str
    is_whole_database: bool = False
    database: str = ""

    def build_url(self, memory: str) -> str:
        """Return the URL of a memory in the same database. It may hold a password: never show it."""
        joint = "&" if "?" in self.connection else "?"
        return f"{self.connection}{joint}memory={quote(memory, safe='')}"


def is_postgres_url(place: object) -> bool:
    """Return whether the place of a memory is the URL of a PostgreSQL database."""
    return isinstance(place, str) and place.startswith(_SCHEMES)


def parse_postgres_url(url: str) -> PostgresAddress:
    """Return the address that a URL such as `postgresql://host/database?memory=acme` names.

    All parameters but `memory` are handed to libpq. Without it the memory is named `default`.

    Raises:
        InvalidInput: it is no such URL.
    """
    if not is_postgres_url(url):
        raise InvalidInput("a PostgreSQL address begins with 'postgresql://': pass such a URL")
    try:
        parts = urlsplit(url)
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        hosts = parts.netloc.rpartition("@")[2]
        for one in hosts.split(","):
            urlsplit(f"//{one}").port  # noqa: B018 - it raises if this is no number
    except ValueError:
        raise InvalidInput(
            "the PostgreSQL address cannot be read: write postgresql://user@host:5432/database?memory=name, "
            "with special characters percent-encoded"
        ) from None
    names = [value for name, value in options if name == "memory"]
    if len(names) > 1:
        raise InvalidInput("the PostgreSQL address names several memories: leave one `memory=`")
    memory = validate_text(names[0] if names else DEFAULT_MEMORY, name="memory", longest=_LONGEST_NAME)
    rest = urlencode([(name, value) for name, value in options if name != "memory"], quote_via=quote)
    host = next((value for name, value in options if name == "host"), hosts)
    database = f"postgresql://{host}{parts.path}"
    return PostgresAddress(
        connection=urlunsplit((parts.scheme, parts.netloc, parts.path, rest, "")),
        memory=memory,
        shown=f"memory {memory!r} in {database}",
        database=database,
        is_whole_database=not names,
    )


# -- connections ----------------------------------------------------------------------------------


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
_MAX_REASON_CHARACTERS = 300
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


def is_connection_lost(error: psycopg.Error) -> bool:
    """Return whether the connection broke or was refused, rather than the server refusing a statement."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, load_psycopg().OperationalError)
    return state.startswith("08") or state in {"57P01", "57P02", "57P03", "57P05"}


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
    if is_connection_lost(error):  # libpq names hosts and users, and no password
        said = " ".join(str(error).split()).removeprefix("connection failed: ")[:_MAX_REASON_CHARACTERS]
        return StoreUnavailable(
            f"{shown} cannot be reached ({state or said}): see that the server runs and "
            "admits this address, and that the URL is right, and retry"
        )
    if isinstance(error, load_psycopg().DataError):
        return InvalidInput(
            f"{shown} cannot store a text ({name}): remove NUL characters and lone surrogates from it"
        )
    return StoreError(f"{shown}: PostgreSQL failed with {name}")


Row = tuple[Any, ...]

T = TypeVar("T")

_MAX_CONNECTIONS = 10
_IDLE_S, _LIFETIME_S = 300, 1800
_REFUSED = "RV001"
_RETRIED = frozenset({"40001", "40P01"})  # a serialization failure, a deadlock
_RETRIES = 3
_PAUSE_S = 0.05
_SEQUENCE = "SELECT (SELECT sequence FROM reverie.space WHERE id = %s)"
_FENCE = "SELECT set_config('reverie.fence', %s, true)"
SET_SPACE = "SELECT set_config('reverie.space', %s, true)"
"""SQL that sets the memory which the policies of the tables let through in a transaction."""

# A view looks things up by indexes, also where the statistics of the tables are those of an earlier moment at which
# they were nearly empty: with these, two searches read 28,676 rows to find two of 600 records, and read 9 by indexes.
_SET_VIEW = f"{SET_SPACE}, set_config('enable_seqscan', 'off', true)"

_USES_BEFORE_PREPARING = 5
_CONNECTION = {
    "autocommit": True,
    "prepare_threshold": None,
    "application_name": "reverie",
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}


class ChangeRefused(Exception):
    """A refusal of the server to make a change, with the details that it gave."""

    def __init__(self, detail: Mapping[str, Any]) -> None:
        super().__init__()
        self.detail = detail


@dataclass(slots=True)
class ReadingView:
    """A transaction in which a thread reads one state. It begins with the first read.

    Attributes:
        stack: Contexts that end with it.
        connection: Its connection; None before the first read.
        sequence: The newest journal row's number; None until it is read.
    """

    stack: ExitStack
    connection: psycopg.Connection | None = None
    sequence: int | None = None


# -- pools that are shared -----------------------------------------------------------------------------


class _SharedPool:
    """Pool of the stores of this process in one database. It is closed when none of them refers to it any more."""

    def __init__(self, connection: str, patience: float) -> None:
        self.pool: psycopg_pool.ConnectionPool = load_pool().ConnectionPool(
            connection,
            kwargs=_CONNECTION,
            configure=_allow_preparing,
            min_size=0,
            max_size=_MAX_CONNECTIONS,
            open=True,
            timeout=patience,
            max_idle=_IDLE_S,
            max_lifetime=_LIFETIME_S,
            reconnect_timeout=patience,
            num_workers=1,
        )
        finalize(self, _close_pool, self.pool, os.getpid()).atexit = False


def _close_pool(pool: psycopg_pool.ConnectionPool, process: int) -> None:
    if os.getpid() == process:  # a child must not close the connections of its parent
        pool.close()
    else:
        _abandoned.append(pool)


_abandoned: list[object] = []
_pools: WeakValueDictionary[tuple[int, str], _SharedPool] = WeakValueDictionary()  # by process and address
_lock = ForkSafeLock()


def _allow_preparing(connection: psycopg.Connection) -> None:
    """Let a connection prepare the statements that it repeats, unless there is a pooler before the server.

    The number that a pooler gives for the process of the server is its own.
    """
    (process,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
    if process == connection.info.backend_pid:
        connection.prepare_threshold = _USES_BEFORE_PREPARING


# -- the connections of a store ------------------------------------------------------------------------


class PostgresConnections(StoreConnections):
    """Connections of one store to its database. Safe to use from several threads and across forks.

    Args:
        address: The memory.
        space: The number of the memory.
        patience: How many seconds to wait for a connection, and to try again when one is lost.

    Attributes:
        space: The number of the memory.
        lock_timeout: How long to wait for the lock of the memory, as PostgreSQL writes it.
    """

    def __init__(self, address: PostgresAddress, *, space: int, patience: float) -> None:
        load_psycopg()
        self._address = address
        self._patience = patience
        self._thread = threading.local()
        self._closed = False
        self._open_pool()
        self.space = space
        self.lock_timeout = f"{max(1, int(patience * 1000))}ms"

    def _open_pool(self) -> None:
        self._process = os.getpid()
        place = self._process, self._address.connection
        with _lock:
            self._shared = _pools.get(place) or _SharedPool(self._address.connection, self._patience)
            _pools[place] = self._shared

    @property
    def view(self) -> ReadingView | None:
        """The transaction of this thread's `viewing` block; None outside one."""
        view: ReadingView | None = getattr(self._thread, "view", None)
        return view

    def refuse_closed(self) -> None:
        """Raise `StoreUnavailable` if the store has been closed."""
        if self._closed:
            raise StoreUnavailable(f"{self._address.shown} has been closed: open it again")

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection]:
        """Yield a connection outside any transaction, and translate errors of psycopg."""
        self.refuse_closed()
        if os.getpid() != self._process:
            self._open_pool()
        with self._translating(), self._shared.pool.connection(timeout=self._patience) as connection:
            yield connection

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except load_psycopg().Error as error:
            if error.sqlstate == _REFUSED:
                raise ChangeRefused(json.loads(error.diag.message_detail)) from None
            raise translate_error(error, self._address.shown) from error
        except UnicodeEncodeError as error:
            raise translate_error(load_psycopg().DataError(error.reason), self._address.shown) from None

    def rows(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Row]:
        """Return the rows of a query on the memory, in this thread's view if it has one."""
        if (view := self.view) is not None:
            self.refuse_closed()
            if view.connection is None:
                return self._repeat(lambda: self._begin(view, sql, values))
            with self._translating():
                cursor = view.connection.execute(sql, values)
                seen: list[Row] = cursor.fetchall()
            return seen

        def read() -> list[Row]:
            # Both statements go to the server in one message, and are one transaction there.
            with self.connection() as connection:
                with connection.pipeline():
                    connection.execute(SET_SPACE, [str(self.space)])
                    cursor = connection.execute(sql, values)
                found: list[Row] = cursor.fetchall()
            return found

        return self._repeat(read)

    def sequence(self) -> int:
        """Return the number of the newest journal row that this thread sees; 0 if there is none."""
        view = self.view
        if view is not None and view.sequence is not None:
            return view.sequence
        asked = _SEQUENCE, (self.space,)
        (sequence,) = self.call(*asked) if view is None else self.rows(*asked)[0]
        if sequence is None:
            raise StoreUnavailable(f"{self._address.shown} has been removed: open it again to make a new one")
        if view is not None:
            view.sequence = sequence
        return int(sequence)

    def call(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> Row:
        """Return the only row of a statement that needs no memory set, or sets it itself.

        It is repeated if the connection is lost, so it must be one that may be made twice. The server refuses
        changes in it as it refuses those of `change`.
        """

        def ask() -> Row:
            with self.connection() as connection:
                return self._fetch_fenced(connection, sql, values)

        return self._repeat(ask)

    def call_function(self, name: str, *values: Any) -> Any:
        """Return the result of a function of the schema that changes the memory and may be called twice."""
        self.refuse_change()
        given = (self.space, self.lock_timeout, *values)
        return self.call(f"SELECT reverie.{name}({', '.join(['%s'] * len(given))})", given)[0]

    def change(self, sql: str, values: Mapping[str, Any]) -> Row:
        """Return the only row of a call that changes the memory once, whatever happens to connections.

        Args:
            sql: The call, with the parameter `is_retry`: whether the server may have made it already.
            values: The other parameters.

        Raises:
            ChangeRefused: the server compared and refused it.
            StoreUnavailable: the database cannot be reached; the message says whether the change may have been
                made all the same.
        """
        self.refuse_change()
        sent = False

        def ask() -> Row:
            nonlocal sent
            with self.connection() as connection:
                is_retry, sent = sent, True
                return self._fetch_fenced(connection, sql, {**values, "is_retry": is_retry})

        try:
            return self._repeat(ask)
        except StoreUnavailable as error:
            if sent and _is_loss(error):
                raise StoreUnavailable(
                    f"{self._address.shown} was lost in the middle of a change, which may have been made: "
                    "read it again when the server is back, and retry if it is missing"
                ) from error
            raise

    def _fetch_fenced(self, connection: psycopg.Connection, sql: str, values: Any) -> Row:
        """Return the only row of a statement that the server refuses if this thread has lost its lease."""
        fence: int | None = getattr(self._thread, "fence", None)
        with connection.pipeline() if fence is not None else nullcontext():
            if fence is not None:
                connection.execute(_FENCE, [str(fence)])
            cursor = connection.execute(sql, values)
        (row,) = cursor.fetchall()
        return tuple(row)

    @contextmanager
    def fencing(self, token: int) -> Iterator[None]:
        """Let the server refuse the changes of this thread once the lease of the memory has another token."""
        self._thread.fence = token
        try:
            yield
        finally:
            self._thread.fence = None

    def refuse_change(self) -> None:
        """Raise if this store cannot be changed now: it is closed, or this thread is in a `viewing` block."""
        self.refuse_closed()
        if self.view is not None:
            raise NestedChange

    def _repeat(self, action: Callable[[], T]) -> T:
        """Return the result of an action, repeated while connections are lost.

        Deadlocks and serialization failures, of which nothing was made, are repeated a few times.
        """
        deadline = time.monotonic() + self._patience
        retries = 0
        while True:
            try:
                return action()
            except StoreError as error:
                state = getattr(error.__cause__, "sqlstate", None)
                if state in _RETRIED and retries < _RETRIES:
                    retries += 1
                elif not _is_loss(error) or time.monotonic() > deadline:
                    raise
                else:
                    self._shared.pool.check()  # others to the same server are likely to be gone too
                time.sleep(random.uniform(0, _PAUSE_S * (1 + retries)))

    def read_pool_figures(self) -> dict[str, int]:
        """Return the figures of the pool that all memories of this process in the database share."""
        figures: dict[str, int] = self._shared.pool.get_stats()
        return figures

    @contextmanager
    def viewing(self) -> Iterator[None]:
        """Let all reads of this thread see one state until the block ends; nested blocks are one."""
        if self.view is not None:
            yield
            return
        with ExitStack() as stack:
            self._thread.view = ReadingView(stack)
            try:
                yield
            finally:
                self._thread.view = None

    @contextmanager
    def reading(self) -> Iterator[psycopg.Connection]:
        """Yield a connection in a transaction that sees one state: that of the thread's view, or a new one."""
        with ExitStack() as stack:
            view = self.view or ReadingView(stack)
            if view.connection is None:
                self._repeat(lambda: self._begin(view, "SELECT 1"))
            assert view.connection is not None
            with self._translating():
                yield view.connection

    def _begin(
        self, view: ReadingView, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()
    ) -> list[Row]:
        """Begin a view's transaction with its first query, all in one message; return the rows."""
        with ExitStack() as attempt:
            connection = attempt.enter_context(self.connection())
            attempt.callback(_end_transaction, connection)
            with connection.pipeline():
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                connection.execute(_SET_VIEW, [str(self.space)])
                cursor = connection.execute(sql, values)
            rows: list[Row] = cursor.fetchall()
            view.stack.enter_context(attempt.pop_all())
            view.connection = connection
        return rows

    def close(self) -> None:
        """Give the pool back. Closing twice is allowed."""
        if not self._closed:
            self._closed = True
            del self._shared


def _end_transaction(connection: psycopg.Connection) -> None:
    if not connection.closed:
        connection.commit()


def _is_loss(error: StoreError) -> bool:
    """Return whether an error comes from a connection that was lost or refused."""
    cause = error.__cause__
    return isinstance(cause, load_psycopg().Error) and is_connection_lost(cause)
