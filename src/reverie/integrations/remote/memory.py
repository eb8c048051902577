"""A memory on a server, with the methods of `Memory`."""

from __future__ import annotations

import builtins
import random
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Unpack

from reverie.admin.stats import ScopeStats
from reverie.domain.conversation import SessionOverview, SessionState, Turn
from reverie.domain.entry import build_scope_namespace
from reverie.domain.errors import Conflict, NotFound
from reverie.domain.filter import ListFilters, SearchFilters
from reverie.domain.record import Record
from reverie.domain.scope import join_scope
from reverie.domain.text.timestamps import parse_time
from reverie.integrations.remote.connection import (
    MAX_PAGE_ITEMS,
    Connection,
    Reply,
    ScopeConnection,
    quote_path,
)
from reverie.integrations.remote.parts import (
    RemoteForgetRequests,
    RemoteHistory,
    RemotePages,
    RemoteSession,
    RemoteWorkingMemory,
    parse_value,
)
from reverie.repositories.records import NewRecord, RecordChanges, RecordFields, SaveResult
from reverie.search.hits import Hit, SearchMode, Source, Unit
from reverie.stores.living_page import PageEdit

_TRIES = 30
_NO_VERSION = '"changed"'


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEvent:
    """A change that the server told of; it has no content.

    Attributes:
        sequence: Number of the change.
        batch: Number of the first change of its transaction.
        actor: Author.
        subject: What kind of thing changed; `record`, `turn`, ...
        id: Id of the thing; None if it was erased.
    """

    sequence: int
    batch: int
    actor: str
    subject: str
    id: str | None


class RemoteReader:
    """Reader of a scope, now or as of an earlier time; see `MemoryReader`.

    Attributes:
        scope: The scope, within that of the token.
    """

    def __init__(self, connection: ScopeConnection, *, as_of: datetime | int | None = None) -> None:
        self.scope = connection.scope
        self._connection = connection
        self._as_of = as_of

    def get(self, id: str) -> Record | None:
        """Return a record, archived or not; None if there is none in view."""
        found = self._fetch(id)
        return None if found is None else found[0]

    def list(self, *, limit: int | None = 50, **filters: Unpack[ListFilters]) -> builtins.list[Record]:
        """Return records, those created last first; see `MemoryReader.list`.

        Args:
            limit: Most records to return; None for all.
            **filters: Restrictions; see `reverie.domain.filter.ListFilters`.
        """
        asked = [filters.get("archived", False)]
        if asked[0] is None:  # a query has no null: both are asked for
            asked = [False, True]
        found = [
            parse_value(Record, each)
            for archived in asked
            for each in self._connection.list(
                "records", limit=limit, as_of=self._as_of, **_name_all(filters) | {"archived": archived}
            )
        ]
        return sorted(found, key=lambda record: record.created_at, reverse=True)[:limit]

    def search(
        self,
        query: str | None = None,
        *,
        sources: Source | Sequence[Source] = "records",
        limit: int = 10,
        min_score: float = 0.0,
        mode: SearchMode = "words",
        unit: Unit = "turn",
        **filters: Unpack[SearchFilters],
    ) -> builtins.list[Hit]:
        """Return what answers a query, best first; see `MemoryReader.search`."""
        body = _name_all(filters) | {
            "query": query,
            "sources": [sources] if isinstance(sources, str) else sources,
            "limit": limit,
            "min_score": min_score,
            "mode": mode,
            "unit": unit,
        }
        found = self._connection.ask("POST", "search", body=body, as_of=self._as_of)
        return [Hit.from_dict(each) for each in found["hits"]]

    def _fetch(self, id: str) -> tuple[Record, str] | None:
        """Return a record and its ETag; None if there is none in view."""
        try:
            reply = self._connection.send("GET", "records", id, as_of=self._as_of)
        except NotFound:
            return None
        return parse_value(Record, reply.value), reply.headers["etag"]


class RemoteMemory(RemoteReader):
    """A memory on a server. Safe to use from several threads.

    A request that is not answered is repeated for `patience` seconds. What is saved or added is not done twice
    by that. What a method returned is on the server's disk.

    Attributes:
        pages: The pages and logs, which belong to everybody.
        scratchpad: Working memory of the scope, which outlives sessions.
        history: The journal, and undo.
        forget_requests: Erasures that were asked for in conversations and wait for a person.
    """

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = 30.0, patience: float = 10.0
    ) -> None:
        """Use a server; nothing is sent before the first call.

        Args:
            url: Address of the server, such as `http://127.0.0.1:8766`.
            token: Token of `reverie token create`; None where the server needs none.
            timeout: Seconds to wait for an answer.
            patience: Seconds to go on repeating a request that a server is too busy for, or that was not answered.

        Raises:
            InvalidInput: the address is none of HTTP.
        """
        self._open(ScopeConnection(Connection(url, token=token, timeout=timeout, patience=patience)))

    def _open(self, connection: ScopeConnection) -> None:
        super().__init__(connection)
        self.pages = RemotePages(replace(connection, scope=""))
        self.scratchpad = RemoteWorkingMemory(
            connection, ("scratchpad",), build_scope_namespace(connection.scope)
        )
        self.history = RemoteHistory(connection)
        self.forget_requests = RemoteForgetRequests(connection)

    def __enter__(self) -> RemoteMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Another call opens them again."""
        self._connection.connection.close()

    def scoped(self, scope: str) -> RemoteMemory:
        """Return the memory of a scope within this one; `*` reads all scopes, with the right `admin`."""
        memory = RemoteMemory.__new__(RemoteMemory)
        inner = scope if scope == "*" else join_scope(self.scope, scope)
        memory._open(replace(self._connection, scope=inner))
        return memory

    def as_of(self, moment: datetime | int) -> RemoteReader:
        """Return what this scope was at an earlier time, or after the change of that number."""
        return RemoteReader(self._connection, as_of=moment)

    def request(
        self, method: str, path: str, body: Any = None, *, query: Mapping[str, Any] | None = None
    ) -> Reply:
        """Send any request of the API, such as `("POST", "/v1/forget/preview", {"match": "tea"})`."""
        return self._connection.connection.request(method, path, body, query=query)

    # -- saving and changing -----------------------------------------------------------------------------

    def save(self, content: str, **fields: Unpack[RecordFields]) -> SaveResult:
        """Save one record in this scope; see `Memory.save`. It is on the server's disk when this returns."""
        record = _describe_record(NewRecord(content=content, **fields))
        return _parse_saved(self._connection.ask("POST", "records", body=record))

    def save_many(self, records: Iterable[str | NewRecord | Mapping[str, Any]]) -> builtins.list[SaveResult]:
        """Save many records in this scope, 200 in one transaction; see `Memory.save_many`."""
        given = [_describe_record(each) for each in records]
        results: list[SaveResult] = []
        for start in range(0, len(given), MAX_PAGE_ITEMS):
            body = {"records": given[start : start + MAX_PAGE_ITEMS]}
            saved = self._connection.ask("POST", "records", "batch", body=body)
            results += map(_parse_saved, saved["results"])
        return results

    def promote(self, id: str, *, to: str = "") -> SaveResult:
        """Copy a record to a wider scope; see `Memory.promote`."""
        return _parse_saved(self._connection.ask("POST", "records", id, "promote", body={"to": to}))

    def update(self, id: str, *, expected: Record | None = None, **changes: Unpack[RecordChanges]) -> Record:
        """Change fields of a record; see `Memory.update`.

        Raises:
            Conflict: the record is no longer `expected`. If the connection broke before, it may be because this
                change was made.
        """
        body, etag = dict[str, Any](changes), "*"
        for tries in range(1, _TRIES + 1):
            if expected is not None or "metadata" in changes:
                record, etag = self._require(id)
                if expected is not None and record != expected:
                    etag = _NO_VERSION
                if "metadata" in changes:  # the API merges it, and `update` replaces it
                    body["metadata"] = dict.fromkeys(record.metadata) | dict(changes["metadata"])
            try:
                changed = self._connection.ask("PATCH", "records", id, body=body, headers={"If-Match": etag})
            except Conflict:
                if expected is not None or tries == _TRIES:
                    raise
                time.sleep(random.uniform(0, 0.01 * tries))
            else:
                return parse_value(Record, changed)
        raise AssertionError

    def archive(self, id: str, *, reason: str = "", expected: Record | None = None) -> Record:
        """Take a record out of search; see `Memory.archive`.

        Raises:
            Conflict: the record is no longer `expected`.
        """
        etag = "*"
        if expected is not None:
            record, etag = self._require(id)
            etag = etag if record == expected else _NO_VERSION
        headers = {"If-Match": etag}
        archived = self._connection.ask("DELETE", "records", id, headers=headers, reason=reason or None)
        return parse_value(Record, archived)

    def restore(self, id: str) -> Record:
        """Bring an archived record back into search."""
        return parse_value(Record, self._connection.ask("POST", "records", id, "restore"))

    # -- conversations -----------------------------------------------------------------------------------

    def session(self, id: str) -> RemoteSession:
        """Open a conversation of this scope. Nothing is written before its first turn."""
        return RemoteSession(self._connection, id)

    def sessions(self, *, limit: int | None = None) -> builtins.list[SessionOverview]:
        """Return sessions, the latest active first."""
        return [
            SessionOverview(
                state=parse_value(SessionState, each["session"]),
                turns=each["turns"],
                last_at=parse_time(each["last_at"]),
            )
            for each in self._connection.list("sessions", limit=limit)
        ]

    def turns(self, session: str, *, start: int = 0, stop: int | None = None) -> builtins.list[Turn]:
        """Return turns of a session by position; see `MemoryReader.turns`."""
        limit = stop if stop is not None and stop >= 0 and start >= 0 else None
        found = self._connection.list("sessions", session, "turns", limit=limit)
        return [parse_value(Turn, each) for each in found][start:stop]

    def consolidate_session(self, id: str) -> builtins.list[SaveResult]:
        """Save what a session concluded, by rule; see `Memory.consolidate_session`."""
        saved = self._connection.ask("POST", "sessions", id, "consolidate")
        return [_parse_saved(each) for each in saved["results"]]

    def delete_session(self, id: str) -> int:
        """Remove a session and its turns; return how many there were, 0 for an unknown session."""
        try:
            return int(self._connection.ask("DELETE", "sessions", id)["removed"])
        except NotFound:
            return 0

    def page(self) -> str:
        """Return what this scope knows as one page; see `Memory.page`."""
        return str(self._connection.ask("GET", "page")["content"])

    def edit_page(self, text: str, *, expected: str | None = None) -> PageEdit:
        """Change records by an edited page; see `Memory.edit_page`.

        Raises:
            Conflict: the page is another than `expected` by now; nothing was changed.
        """
        reply = self._connection.send("GET", "page")
        stale = expected is not None and reply.value["content"] != expected
        headers = {"If-Match": '"changed"' if stale else reply.headers["etag"]}
        edit = self._connection.ask("PUT", "page", body={"content": text}, headers=headers)
        return PageEdit(text=edit["content"], outcome=edit["outcome"], proposed=edit["proposed"])

    # -- the whole ---------------------------------------------------------------------------------------

    def categories(self) -> dict[str, int]:
        """Return the number of live records of each category."""
        return dict(self._connection.ask("GET", "categories"))

    def tags(self) -> dict[str, int]:
        """Return the number of live records that have each tag."""
        return dict(self._connection.ask("GET", "tags"))

    def stats(self) -> ScopeStats:
        """Return how much can be seen from this scope."""
        found = self._connection.ask("GET", "stats")
        return ScopeStats(**{each.name: found[each.name] for each in fields(ScopeStats)})

    def events(self, *, after: int | None = None) -> Generator[ChangeEvent, None, None]:
        """Follow the changes as they are made, without end; a broken connection is opened again.

        Args:
            after: Number of the last change that is known; None for those from now on.
        """
        begin = after
        if begin is None:
            newest = self._connection.ask("GET", "journal", limit=1, newest_first=True)["items"]
            begin = newest[0]["sequence"] if newest else 0
        events = self._connection.connection.stream(
            quote_path("events"), query={"scope": self.scope or None}, last=begin
        )
        return (ChangeEvent(**{name: data[name] for name in _EVENT}) for _, data in events)

    # -- inside ------------------------------------------------------------------------------------------

    def _require(self, id: str) -> tuple[Record, str]:
        found = self._fetch(id)
        if found is None:
            raise NotFound(f"there is no record {id!r} here: search or list for the right id")
        return found


_EVENT = tuple(each.name for each in fields(ChangeEvent))


def _describe_record(record: str | NewRecord | Mapping[str, Any]) -> dict[str, Any]:
    """Return a record to save as the API takes it; its scope is in the query."""
    if isinstance(record, str):
        return {"content": record}
    if isinstance(record, NewRecord):
        record = {each.name: getattr(record, each.name) for each in fields(record)}
    return {name: value for name, value in record.items() if name != "scope"}


def _parse_saved(data: Mapping[str, Any]) -> SaveResult:
    record = parse_value(Record, data["record"])
    said = {name: data.get(name, "") for name in ("notice", "reason")}
    return SaveResult(record=record, outcome=data["outcome"], **said)


def _name_all(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Return filters with each value of those that take several as a list."""
    return {
        name: [value] if isinstance(value, str) else value
        for name, value in filters.items()
        if value is not None
    }
