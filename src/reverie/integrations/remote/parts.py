"""Sessions, working memory, pages and history of a memory on a server."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar

from reverie.domain import provenance
from reverie.domain.conversation import OFF_RECORD, Role, SessionState, ToolCall, Turn
from reverie.domain.entry import Entry, build_session_namespace
from reverie.domain.errors import NotFound
from reverie.domain.page import MEMORY
from reverie.domain.record import Origin
from reverie.domain.text.json_values import from_json_object
from reverie.integrations.remote.connection import ScopeConnection
from reverie.repositories.wishes import ForgetRequest
from reverie.repositories.working_memory import DEFAULT, TtlDefault

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


class RemoteForgetRequests:
    """Requests to forget on a server; see `ForgetRequests`."""

    def __init__(self, connection: ScopeConnection) -> None:
        self._connection = connection

    def propose(self, subject: str) -> ForgetRequest | None:
        """Store a request to erase what is stored about a subject; None if that is nothing."""
        found = self._connection.ask("POST", "forget-requests", body={"subject": subject})["request"]
        return None if found is None else from_json_object(ForgetRequest, found)

    def list(self) -> builtins.list[ForgetRequest]:
        """Return the requests that wait, the oldest first."""
        items = self._connection.ask("GET", "forget-requests")["items"]
        return [from_json_object(ForgetRequest, each) for each in items]

    def drop(self, id: str) -> ForgetRequest:
        """Remove a request and erase nothing."""
        return from_json_object(ForgetRequest, self._connection.ask("DELETE", "forget-requests", id))


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

    @property
    def is_recorded(self) -> bool:
        """Whether its turns are stored; see `Session.is_recorded`."""
        try:
            return OFF_RECORD not in self.state.metadata
        except NotFound:
            return True

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
        turn = {
            "role": role,
            "content": content,
            "speaker": speaker,
            "at": at,
            "tool_calls": tool_calls,
            "tool_call_id": tool_call_id,
            "metadata": metadata or {},
        }
        return self.add_many([turn])[0]

    def add_many(self, turns: Iterable[Mapping[str, Any]]) -> list[Turn]:
        """Add up to 200 turns one after the other, all of them or none; see `Session.add_many`."""
        given = list(turns)
        if not given:
            return []
        items = self._ask("POST", "turns", body={"turns": given})["items"]
        return [parse_value(Turn, each) for each in items]

    def remove_turns(self, turn_ids: Iterable[str]) -> list[Turn]:
        """Remove up to 200 turns, all of them or none; see `Session.remove_turns`."""
        items = self._ask("POST", "turns", "remove", body={"turns": list(turn_ids)})["items"]
        return [parse_value(Turn, each) for each in items]

    def replace_turn(self, turn_id: str, content: str, *, metadata: Mapping[str, str] | None = None) -> Turn:
        """Give a turn a new version; see `Session.replace_turn`."""
        body = {"content": content, "metadata": metadata or {}}
        return parse_value(Turn, self._ask("PUT", "turns", turn_id, body=body))

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
        body = {
            "message": message,
            "soft_tokens": soft_tokens,
            "hard_tokens": hard_tokens,
            "record_shown": record_shown,
            "extra_context": extra_context,
        }
        pack = self._ask("POST", "context", body=body)
        return RemotePack(pack["text"], pack["stable_text"], pack["messages"], pack)

    def determine_origin(self, text: str, *, labels: Iterable[str] = ()) -> Origin:
        """Return the origin of a text that the model wants to save; see `Session.determine_origin`.

        It is determined here, from all turns of the window, and no tool is trusted.
        """
        try:
            state = self.state
        except NotFound:
            return "agent"
        turns = [parse_value(Turn, each) for each in self._connection.list("sessions", self.id, "turns")]
        window = [turn for turn in turns if turn.position >= state.window_start]
        view = provenance.build_model_view(window, state, len(window))
        return provenance.determine_origin(text, view, labels=labels)

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
        headers = {"If-Match": "*" if expected is None else self._find_version(name, expected)}
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

    def _find_version(self, name: str, expected: str) -> str:
        """Return the ETag of the page if it has that text; else one that no page has."""
        text, etag = self._fetch(name)
        return etag if text == expected else '"changed"'


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
