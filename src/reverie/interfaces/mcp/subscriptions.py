"""Subscriptions: clients are notified when this process or another changes the memory.

A task reads the new journal entries every half second while there are subscribers. It serves
`resources/subscribe` of connections with a handshake and `subscriptions/listen` of those without.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, SubscriptionsListenRequestParams, SubscriptionsListenResult

from reverie.admin.stats import ScopeStats
from reverie.domain.change import JournalEntry, Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import ReverieError
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.domain.scope import visible_scopes
from reverie.interfaces.mcp import resources
from reverie.interfaces.mcp.offer import ServedMemory
from reverie.interfaces.mcp.threads import CallThreads
from reverie.repositories.knowledge_graph import CATEGORY
from reverie.stores.scanning import iter_rows_forwards

INTERVAL_S = 0.5
"""Seconds between checks for changes of other processes."""

MOST_CLIENTS = 1_024
"""Maximum connections that are notified; the oldest is dropped for another."""

_log = logging.getLogger("reverie.mcp")


@dataclass(slots=True)
class ResourceChanges:
    """Changes of some journal entries, as clients see them.

    Attributes:
        uris: URIs of changed resources.
        list: Whether resources were added or removed.
        forgotten: Whether content was erased, so that the journal does not say which.
        last: Number of the last entry; 0 for none.
    """

    uris: dict[str, None] = field(default_factory=dict)
    list: bool = False
    forgotten: bool = False
    last: int = 0


@dataclass(slots=True)
class _Client:
    """A connection with a handshake, and its subscriptions."""

    session: ServerSession
    uris: set[str] = field(default_factory=set)


def collect_changes(
    rows: Iterable[JournalEntry], chain: Iterable[str], *, graph: bool, known: set[str]
) -> ResourceChanges:
    """Return the changes of some journal entries for a client that sees these scopes.

    Args:
        rows: The journal entries.
        chain: Scopes that the client sees.
        graph: Whether the knowledge graph is a resource.
        known: Names of known pages and logs; new ones are added.
    """
    scopes = frozenset(chain)
    changes = ResourceChanges()
    for row in rows:
        changes.last = row.sequence
        if row.edit is None:
            changes.forgotten = True
            continue
        before, after = row.edit.before, row.edit.after
        if not any(each is not None and getattr(each, "scope", "") in scopes for each in (before, after)):
            continue
        value = row.edit.value
        changes.uris[_build_uri(value)] = None
        if isinstance(value, Page | Paragraph):
            name = value.name if isinstance(value, Page) else value.page
            changes.list |= name not in known or (after is None and isinstance(value, Page))
            known.add(name)
        elif not isinstance(value, Turn):
            changes.list |= before is None or after is None or _is_archived(before) != _is_archived(after)
        if graph and any(isinstance(each, Record) and each.category == CATEGORY for each in (before, after)):
            changes.uris[resources.GRAPH] = None
    return changes


def _build_uri(value: Value) -> str:
    if isinstance(value, Record):
        return resources.build_record_uri(value.id)
    if isinstance(value, Turn):
        return resources.build_session_uri(value.session)
    if isinstance(value, SessionState):
        return resources.build_session_uri(value.id)
    return resources.build_page_uri(value.name if isinstance(value, Page) else value.page)


def _is_archived(value: Value) -> bool:
    return isinstance(value, Record) and value.archived


class SubscriptionHub:
    """Follows the journal for all subscribers of a server; `run` is its task."""

    def __init__(self, offer: ServedMemory, threads: CallThreads, *, interval: float = INTERVAL_S) -> None:
        """Follow a memory.

        Args:
            offer: The served memory.
            threads: Threads for reading the journal.
            interval: Seconds between checks.
        """
        self._offer = offer
        self._threads = threads
        self._interval = interval
        self._listening = 0
        self._clients: dict[Any, _Client] = {}
        self._wanted: Counter[str] = Counter()
        self._wake = anyio.Event()
        self._position: int | None = None
        self._names: set[str] = set()
        self._stats: ScopeStats | None = None
        self._existing: set[str] = set()
        self._position_lock = anyio.Lock()
        self._bus = InMemorySubscriptionBus()
        self._handler = ListenHandler(self._bus)

    # -- subscribing -------------------------------------------------------------------------------------

    async def listen(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Notify a client until it disconnects: `subscriptions/listen`."""
        uris = params.notifications.resource_subscriptions or []
        await self._begin(uris)
        self._listening += 1
        self._wanted += Counter(uris)
        self._wake.set()
        try:
            return await self._handler(ctx, params)
        finally:
            self._listening -= 1
            self._wanted -= Counter(uris)

    async def subscribe(self, ctx: ServerRequestContext[Any, Any], uri: str | None) -> None:
        """Notify a connection of changes of a resource and of the list: `resources/subscribe`.

        Args:
            ctx: The request.
            uri: The resource; None for only the list.
        """
        await self._begin([] if uri is None else [uri])
        # The private connection of a session identifies the client. Without it each request counts as a
        # client, and the oldest are dropped.
        connection = getattr(ctx.session, "_connection", ctx.session)
        client = self._clients.get(id(connection))
        if client is None:
            while len(self._clients) >= MOST_CLIENTS:
                self._forget(next(iter(self._clients)))
            client = self._clients[id(connection)] = _Client(ctx.session)
            ending = getattr(connection, "exit_stack", None)
            if ending is not None:
                ending.callback(self._forget, id(connection))
        if uri is not None:
            client.uris.add(uri)
        self._wake.set()

    async def unsubscribe(self, ctx: ServerRequestContext[Any, Any], uri: str) -> None:
        """Stop notifying a connection of a resource: `resources/unsubscribe`."""
        client = self._clients.get(id(getattr(ctx.session, "_connection", ctx.session)))
        if client is not None:
            client.uris.discard(uri)

    def close(self) -> None:
        """End every stream of `listen` as an intended end."""
        self._handler.close()

    def _forget(self, key: Any) -> None:
        self._clients.pop(key, None)

    # -- following ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the journal until the task is cancelled."""
        is_failing = False
        while True:
            self._wake = anyio.Event()
            is_beginning = self._position_lock.locked()
            if not (self._listening or self._clients or is_beginning):
                self._position = None
                await self._wake.wait()
                continue
            await anyio.sleep(self._interval)
            try:
                await self._publish_changes(await self._threads.run(self._check_changes))
                is_failing = False
            except Exception:  # noqa: BLE001 - the outermost handler of this task: it is logged and retried
                if not is_failing:
                    _log.exception("cannot read the changes of the memory; retrying")
                is_failing = True

    async def _begin(self, uris: Iterable[str]) -> None:
        """Note the position in the journal before a client is told that it is subscribed."""
        async with self._position_lock:
            try:
                if self._position is None:
                    self._position = await self._threads.run(self._read_position)
                self._existing |= await self._threads.run(lambda: self._filter_existing(uris))
            except ReverieError as error:
                raise MCPError(INTERNAL_ERROR, f"Cannot subscribe to changes now: {error}.") from error

    def _filter_existing(self, uris: Iterable[str]) -> set[str]:
        return {uri for uri in uris if resources.is_there(self._offer, uri)}

    def _read_position(self) -> int:
        position = self._offer.memory._store.sequence()
        self._names = set(self._offer.view.pages.names())
        self._stats = self._offer.view.stats()
        return position

    def _check_changes(self) -> ResourceChanges:
        """Return the changes since the last check, including hand edits."""
        self._offer.memory._refresh_files()
        if self._position is None:
            return ResourceChanges()
        changed = collect_changes(
            iter_rows_forwards(self._offer.memory._store, after=self._position),
            visible_scopes(self._offer.view.scope),
            graph=self._offer.graph is not None,
            known=self._names,
        )
        self._position = max(self._position, changed.last)
        if changed.forgotten or changed.uris:
            self._compare(changed)
        return changed

    def _compare(self, changed: ResourceChanges) -> None:
        """Find erased resources, and note what exists for the next comparison.

        Only resources that existed before are reported: a notification about another one would reveal that
        content of another scope was erased.
        """
        subscribed = set(self._wanted).union(*(client.uris for client in list(self._clients.values())))
        stats = self._offer.view.stats()
        changed_uris = subscribed & set(changed.uris)
        if changed.forgotten:
            changed.list |= stats != self._stats
            was_there = subscribed & self._existing - changed_uris
            deleted = was_there - self._filter_existing(was_there)
            changed.uris |= dict.fromkeys(deleted)
            changed_uris |= deleted
        self._stats = stats
        self._existing.difference_update(changed_uris)
        self._existing.update(self._filter_existing(changed_uris))

    async def _publish_changes(self, changed: ResourceChanges) -> None:
        if changed.list:
            await self._bus.publish(ResourcesListChanged())
        for uri in changed.uris:
            if uri in self._wanted:
                await self._bus.publish(ResourceUpdated(uri))
        for client in list(self._clients.values()):
            if changed.list:
                await client.session.send_resource_list_changed()
            for uri in sorted(client.uris & set(changed.uris)):
                await client.session.send_resource_updated(uri)
