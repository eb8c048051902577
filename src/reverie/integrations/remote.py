"""Client of `reverie serve`: the methods of `Memory` over HTTP, with the standard library alone.

    from reverie.integrations.remote import RemoteMemory

    with RemoteMemory("http://127.0.0.1:8766", token="rvr_...") as memory:
        memory.save("Prefers short answers")

Errors are those of `Memory`. A server that cannot be reached raises `StoreUnavailable`.
"""

from __future__ import annotations

import builtins
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar, Unpack

from reverie.admin.stats import ScopeStats
from reverie.domain.conversation import Role, SessionOverview, SessionState, ToolCall, Turn
from reverie.domain.entry import Entry, build_scope_namespace, build_session_namespace
from reverie.domain.errors import Conflict, NotFound
from reverie.domain.filter import ListFilters, SearchFilters
from reverie.domain.page import MEMORY
from reverie.domain.record import Record
from reverie.domain.scope import join_scope
from reverie.domain.text.json_values import from_json_object
from reverie.domain.text.timestamps import parse_time
from reverie.integrations.remote_connection import MAX_PAGE_ITEMS, Connection, Reply, ScopeConnection
from reverie.repositories.records import NewRecord, RecordChanges, RecordFields, SaveResult
from reverie.repositories.working_memory import DEFAULT, TtlDefault
from reverie.search.hits import Hit, SearchMode, Source, Unit
from reverie.stores.living_page import PageEdit

_TRIES = 30


_Value = TypeVar("_Value", bound=Any)


def parse_value(kind: type[_Value], data: Mapping[str, Any]) -> _Value:
    """Return a value that the server sent; fields that only a newer Reverie has are left out."""
    known = {each.name for each in fields(kind)}
    value: _Value = kind.from_dict({name: each for name, each in data.items() if name in known})
    return value


@dataclass(frozen=True, slots=True)
class RemotePack:
    """Contents of a prompt, as the server built it.

    Attributes:
        text: The system part of the prompt.
        stable_text: Its beginning, which seldom changes: where a provider's prompt cache can end.
        messages: The replayed turns for a chat API.
        details: Everything that the server says of it, with `sections`, `choices` and `diagnostics`.
    """

    text: str
    stable_text: str
    messages: list[dict[str, Any]]
    details: Mapping[str, Any]


class RemoteWorkingMemory:
    """Working memory on a server: that of a session, or the scratchpad of a scope."""

    def __init__(self, connection: ScopeConnection, path: tuple[str, ...], namespace: str) -> None:
        self._connection = connection
        self._path = path
        self.namespace = namespace

    def set(
        self,
        key: str,
        data: str,
        *,
        ttl: str | float | timedelta | TtlDefault | None = DEFAULT,
        category: str | None = None,
        tags: Iterable[str] = (),
    ) -> Entry:
        """Keep a text under a key; see `WorkingMemory.set`."""
        body: dict[str, Any] = {"data": data, "category": category, "tags": tags}
        if not isinstance(ttl, TtlDefault):
            body["ttl"] = ttl
        return self._parse(self._connection.ask("PUT", *self._path, key, body=body))

    def get(self, key: str) -> str | None:
        """Return the text under a key; None if there is none or it has expired."""
        entry = self.entry(key)
        return None if entry is None else entry.data

    def entry(self, key: str) -> Entry | None:
        """Return the entry under a key; None if there is none or it has expired."""
        try:
            return self._parse(self._connection.ask("GET", *self._path, key))
        except NotFound:
            return None

    def list(self) -> builtins.list[Entry]:
        """Return the live entries, by key."""
        return [self._parse(each) for each in self._connection.ask("GET", *self._path)["items"]]

    def delete(self, key: str) -> bool:
        """Remove the entry under a key; False if there was none."""
        return bool(self._connection.ask("DELETE", *self._path, key)["removed"])

    def _parse(self, data: Mapping[str, Any]) -> Entry:
        return from_json_object(Entry, {**data, "namespace": self.namespace})


class RemoteSession:
    """A conversation on a server; see `Session`."""

    def __init__(self, connection: ScopeConnection, id: str) -> None:
        self.id = id
        self._connection = connection
        self.working = RemoteWorkingMemory(
            connection, ("sessions", id, "working"), build_session_namespace(id)
        )

    @property
    def state(self) -> SessionState:
        """Its state; raises `NotFound` before its first turn."""
        return parse_value(SessionState, self._ask("GET"))

    def add(
        self,
        role: Role,
        content: str,
        *,
        speaker: str = "",
        at: datetime | None = None,
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] = (),
        tool_call_id: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Turn:
        """Add one turn at the end; see `Session.add`. It is on the server's disk when this returns."""
        turn: dict[str, Any] = {"role": role, "content": content, "speaker": speaker, "at": at}
        turn |= {"tool_calls": tool_calls, "tool_call_id": tool_call_id, "metadata": metadata or {}}
        return self.add_many([turn])[0]

    def add_many(self, turns: Iterable[Mapping[str, Any]]) -> list[Turn]:
        """Add up to 200 turns one after the other, all of them or none; see `Session.add_many`."""
        given = list(turns)
        if not given:
            return []
        items = self._ask("POST", "turns", body={"turns": given})["items"]
        return [parse_value(Turn, each) for each in items]

    def context(
        self,
        message: str | None = None,
        *,
        soft_tokens: int | None = None,
        hard_tokens: int | None = None,
        record_shown: bool = True,
        extra_context: str = "",
    ) -> RemotePack:
        """Return what goes into the prompt now; see `Session.context`."""
        body: dict[str, Any] = {"message": message, "soft_tokens": soft_tokens, "hard_tokens": hard_tokens}
        body |= {"record_shown": record_shown, "extra_context": extra_context}
        pack = self._ask("POST", "context", body=body)
        return RemotePack(pack["text"], pack["stable_text"], pack["messages"], pack)

    def feedback(self, turn_id: str, thumb: Literal["up", "down"], *, note: str = "") -> Turn:
        """Note what the user thinks of an answer; see `Session.feedback`."""
        return parse_value(
            Turn, self._ask("POST", "feedback", body={"turn": turn_id, "thumb": thumb, "note": note})
        )

    def pause(self) -> SessionState:
        """Pause the session."""
        return self._change({"status": "paused"})

    def resume(self) -> SessionState:
        """Make a paused session active again."""
        return self._change({"status": "active"})

    def terminate(self) -> SessionState:
        """End the session: no turns can be added."""
        return self._change({"status": "terminated"})

    def set_metadata(self, key: str, value: str | None) -> SessionState:
        """Set an item of the metadata; None removes it."""
        return self._change({"metadata": {key: value}})

    def _change(self, body: Mapping[str, Any]) -> SessionState:
        return parse_value(SessionState, self._ask("PUT", body=body))

    def _ask(self, method: str, *more: str, body: Any = None) -> Any:
        return self._connection.ask(method, "sessions", self.id, *more, body=body)


class RemotePages:
    """Pages and logs on a server; see `Pages`."""

    def __init__(self, connection: ScopeConnection) -> None:
        self._connection = connection

    def names(self) -> list[str]:
        """Return the names of all pages and logs."""
        return [each["name"] for each in self._connection.ask("GET", "pages")["items"]]

    def read(self, name: str = MEMORY) -> str:
        """Return the text of a page or log; empty if there is none."""
        return self._fetch(name)[0]

    def write(self, name: str, text: str, *, expected: str | None = None) -> str:
        """Write a page as a whole, making it if it is not there, and return its text.

        Args:
            name: Which page.
            text: Its whole text.
            expected: The text that yours was made from; None puts `text` in the place of whatever is there.

        Raises:
            Conflict: the page has another text than `expected` by now; nothing was changed.
        """
        text_now, etag = ("", "*") if expected is None else self._fetch(name)
        if expected is not None and text_now != expected:
            raise Conflict(f"The page {name!r} has changed. Read it again.")
        headers = {"If-Match": etag}
        page = self._connection.ask("PUT", "pages", name, body={"content": text}, headers=headers)
        return str(page["content"])

    def append(self, name: str, text: str, *, at: datetime | None = None) -> str:
        """Add a line to a page, or a paragraph to a log, and return its whole text."""
        page = self._connection.ask("POST", "pages", name, "append", body={"text": text, "at": at})
        return str(page["content"])

    def delete(self, name: str) -> bool:
        """Remove a page; undo brings it back.

        Returns:
            Whether there was one.
        """
        try:
            self._connection.ask("DELETE", "pages", name, headers={"If-Match": "*"})
        except NotFound:
            return False
        return True

    def _fetch(self, name: str) -> tuple[str, str]:
        """Return the text of a page and its ETag, of an empty text if there is none."""
        try:
            reply = self._connection.send("GET", "pages", name)
        except NotFound:
            return "", "*"
        return reply.value["content"], reply.headers["etag"]


class RemoteHistory:
    """The journal on a server; changes are mappings as the API has them."""

    def __init__(self, connection: ScopeConnection) -> None:
        self._connection = connection

    def log(
        self,
        id: str | None = None,
        *,
        limit: int = 50,
        after: int = 0,
        actor: str | None = None,
        newest_first: bool = False,
    ) -> list[dict[str, Any]]:
        """Return changes in their order, or the newest first.

        Args:
            id: Only those of this thing.
            limit: At most so many; 1 to 200.
            after: Only those after this number.
            actor: Only those of this author.
            newest_first: Whether to begin with the newest.
        """
        query = {"id": id, "limit": limit, "after": after, "actor": actor, "newest_first": newest_first}
        return list(self._connection.ask("GET", "journal", **query)["items"])

    def blame(self, id: str) -> dict[str, Any]:
        """Return where a record comes from, and its later changes."""
        return dict(self._connection.ask("GET", "records", id, "blame"))

    def diff(
        self, id: str, a: int | datetime | None = None, b: int | datetime | None = None
    ) -> dict[str, Any]:
        """Return the difference between two versions of a record; by default that of its last change."""
        return dict(self._connection.ask("GET", "records", id, "diff", a=a, b=b))

    def undo(
        self,
        changes: Iterable[int] | None = None,
        *,
        batch: int | None = None,
        since: int | datetime | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Take changes back, all of them in one transaction; see `History.undo`."""
        body = {"changes": changes, "batch": batch, "since": since, "dry_run": dry_run}
        return dict(self._connection.ask("POST", "undo", body=body))


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
        sources: Source | Sequence[Source] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
        mode: SearchMode = "words",
        unit: Unit = "turn",
        **filters: Unpack[SearchFilters],
    ) -> builtins.list[Hit]:
        """Return what answers a query, best first; see `MemoryReader.search`."""
        body = _name_all(filters) | {"query": query, "limit": limit, "min_score": min_score, "mode": mode}
        body |= {"sources": [sources] if isinstance(sources, str) else sources, "unit": unit}
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
                record, etag = self._require(id, expected)
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
        headers = {"If-Match": "*" if expected is None else self._require(id, expected)[1]}
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
        if expected is not None and reply.value["content"] != expected:
            raise Conflict("The page has changed. Read it again.")
        headers = {"If-Match": reply.headers["etag"]}
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

    # -- inside ------------------------------------------------------------------------------------------

    def _require(self, id: str, expected: Record | None) -> tuple[Record, str]:
        """Return a record and its ETag; raise `Conflict` if it is another than expected."""
        found = self._fetch(id)
        if found is None:
            raise NotFound(f"No record {id!r} in this scope. Search or list for the right id.")
        if expected is not None and found[0] != expected:
            raise Conflict(f"Record {id!r} has changed. Read it again.")
        return found


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
