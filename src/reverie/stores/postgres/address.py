"""Address of a memory in a PostgreSQL database: a URL of libpq with the name of the memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from reverie.domain.errors import InvalidInput
from reverie.domain.text.validation import validate_text

DEFAULT_MEMORY = "default"
_SCHEMES = ("postgresql://", "postgres://")
_LONGEST_NAME = 200

IndexPlace = Literal["cache", "tables"]
"""Where the search index is: in a cache on each machine, or in tables of the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresAddress:
    """A memory in a database.

    Attributes:
        connection: The URL of the database, for libpq. It may hold a password: never show it.
        memory: The name of the memory.
        shown: The address without user and password.
        index: Where searches of this process look.
        is_whole_database: Whether the URL named no memory.
        database: The address of the database, without user and password.
    """

    connection: str
    memory: str
    shown: str
    index: IndexPlace = "cache"
    is_whole_database: bool = False
    database: str = ""

    def build_url(self, memory: str) -> str:
        """Return the URL of a memory in the same database. It may hold a password: never show it."""
        joint = "&" if "?" in self.connection else "?"
        index = "" if self.index == "cache" else f"&index={self.index}"
        return f"{self.connection}{joint}memory={quote(memory, safe='')}{index}"


def is_postgres_url(place: object) -> bool:
    """Return whether the place of a memory is the URL of a PostgreSQL database."""
    return isinstance(place, str) and place.startswith(_SCHEMES)


def parse_postgres_url(url: str) -> PostgresAddress:
    """Return the address that a URL such as `postgresql://host/database?memory=acme` names.

    All parameters but `memory` and `index` are handed to libpq. Without the first the memory is named `default`.

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
    places = [value for name, value in options if name == "index"] or ["cache"]
    if len(places) > 1 or places[0] not in get_args(IndexPlace):
        raise InvalidInput(
            "the PostgreSQL address has an unknown `index=`: write `index=tables`, or leave it out"
        )
    memory = validate_text(names[0] if names else DEFAULT_MEMORY, name="memory", longest=_LONGEST_NAME)
    rest = urlencode(
        [(name, value) for name, value in options if name not in ("memory", "index")], quote_via=quote
    )
    host = next((value for name, value in options if name == "host"), hosts)
    database = f"postgresql://{host}{parts.path}"
    return PostgresAddress(
        connection=urlunsplit((parts.scheme, parts.netloc, parts.path, rest, "")),
        memory=memory,
        shown=f"memory {memory!r} in {database}",
        database=database,
        index=cast("IndexPlace", places[0]),
        is_whole_database=not names,
    )
