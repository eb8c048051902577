"""Who is told when the memory changes: subscribers, by this process or another, and nobody else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import anyio
import mcp_types as types
import pytest
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated

from reverie import Memory
from reverie.domain.errors import StoreUnavailable
from reverie.interfaces.mcp import resources
from reverie.interfaces.mcp.offer import create_offer
from reverie.interfaces.mcp.subscriptions import SubscriptionHub, collect_changes
from reverie.interfaces.mcp.threads import CallThreads, Lane
from tests.interfaces.mcp.peers import LEGACY, MODES, STATELESS, client_of, played

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

MEMORY = resources.build_page_uri("MEMORY.md")
LIST = "list"
T = TypeVar("T")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory") as memory:
        yield memory


class Heard:
    """What a client was told, in order."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self._news = anyio.Event()

    def take(self, what: str) -> None:
        self.told.append(what)
        self._news.set()

    async def until(self, *wanted: str) -> set[str]:
        """Wait until all of these arrived; return and drop everything that arrived."""
        with anyio.fail_after(15):
            while not set(wanted) <= set(self.told):
                self._news = anyio.Event()
                await self._news.wait()
        arrived = set(self.told)
        self.told.clear()
        return arrived


@asynccontextmanager
async def subscribed(memory: Memory, mode: str, *uris: str, **how: Any):  # type: ignore[no-untyped-def]
    """A client that is told of these resources and of the list."""
    heard = Heard()

    async def handle(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            heard.take(str(message.params.uri))
        elif isinstance(message, types.ResourceListChangedNotification):
            heard.take(LIST)

    async with client_of(memory, mode, message_handler=handle, **how) as client:
        if mode == LEGACY:
            for uri in uris:
                await client.subscribe_resource(uri)
            yield client, heard
            return
        async with client.listen(resources_list_changed=True, resource_subscriptions=list(uris)) as events:

            async def follow() -> None:
                async for event in events:
                    if isinstance(event, ResourceUpdated):
                        heard.take(event.uri)
                    elif isinstance(event, ResourcesListChanged):
                        heard.take(LIST)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follow)
                yield client, heard
                tasks.cancel_scope.cancel()


class GatedThreads(CallThreads):
    """Threads whose results come once the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = anyio.Event()

    async def run(self, call: Callable[[], T], *, lane: Lane = "read") -> T:
        result = await super().run(call, lane=lane)
        await self.gate.wait()
        return result


class Told:
    """A connection that notes that the list has changed."""

    def __init__(self) -> None:
        self.exit_stack = ExitStack()
        self.is_told = anyio.Event()

    async def send_resource_list_changed(self) -> None:
        self.is_told.set()


def test_a_client_that_subscribes_while_the_last_one_leaves_is_told(memory: Memory) -> None:
    async def scene() -> None:
        threads = GatedThreads()
        hub = SubscriptionHub(create_offer(memory), threads, interval=0.01)
        first, second = Told(), Told()
        threads.gate.set()
        await hub.subscribe(SimpleNamespace(session=first), None)  # type: ignore[arg-type]
        first.exit_stack.close()
        threads.gate = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hub.subscribe, SimpleNamespace(session=second), None)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(hub.run)
            await anyio.wait_all_tasks_blocked()
            threads.gate.set()
            await anyio.wait_all_tasks_blocked()
            memory.save("Alice likes tea")
            with anyio.fail_after(15):
                await second.is_told.wait()
            tasks.cancel_scope.cancel()

    played(scene)


@pytest.mark.parametrize("mode", MODES)
def test_a_change_of_what_was_subscribed_to_is_told(memory: Memory, mode: str) -> None:
    record = memory.save("Alice likes tea").record
    session = memory.session("cli:1")
    session.add("user", "hello")
    uris = [MEMORY, resources.build_record_uri(record.id), resources.build_session_uri("cli:1")]

    async def scene() -> None:
        async with subscribed(memory, mode, *uris) as (client, heard):
            memory.pages.write("MEMORY.md", "Alice.\n")
            await heard.until(MEMORY, LIST)
            memory.update(record.id, content="Alice likes green tea")
            await heard.until(uris[1])
            session.add("user", "again")
            await heard.until(uris[2])
            await client.call_tool("delete_memory", {"id": record.id})
            await heard.until(uris[1], LIST)
            memory.save("Bob likes coffee")
            await heard.until(LIST)
            memory.admin.forget(record.id)
            await heard.until(uris[1], LIST)

    played(scene)


@pytest.mark.parametrize("mode", MODES)
def test_a_change_by_another_process_is_told(memory: Memory, mode: str) -> None:
    program = (
        "import sys; from reverie import Memory\n"
        "with Memory.open(sys.argv[1]) as memory: memory.pages.write('MEMORY.md', 'x')"
    )

    async def scene() -> None:
        async with subscribed(memory, mode, MEMORY) as (_, heard):
            done = await anyio.run_process([sys.executable, "-c", program, str(memory.path)])
            assert done.returncode == 0
            await heard.until(MEMORY)

    played(scene)


@pytest.mark.parametrize("mode", MODES)
def test_what_a_person_writes_into_a_file_is_told(memory: Memory, mode: str) -> None:
    memory.pages.write("MEMORY.md", "Alice.\n")
    assert memory.folder is not None
    assert memory.path is not None
    memory.folder.sync()
    file = memory.path / "memory" / "MEMORY.md"

    async def scene() -> None:
        async with subscribed(memory, mode, MEMORY) as (client, heard):
            file.write_text("Alice.\n\nLives in Bergen.\n", encoding="utf-8")
            await heard.until(MEMORY)
            told = (await client.read_resource(MEMORY)).contents[0]
            assert "Bergen" in told.text

    played(scene)


@pytest.mark.parametrize("mode", MODES)
def test_a_change_of_the_graph_is_told(memory: Memory, mode: str) -> None:
    async def scene() -> None:
        async with subscribed(memory, mode, resources.GRAPH, knowledge_graph=True) as (client, heard):
            await client.call_tool(
                "create_relations", {"relations": [{"from": "a", "to": "b", "relationType": "c"}]}
            )
            await heard.until(resources.GRAPH)

    played(scene)


@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_told_of_another_scope(memory: Memory, mode: str) -> None:
    alice, bob = memory.scoped("user:alice"), memory.scoped("user:bob")
    record = bob.save("Bob likes coffee").record

    async def scene() -> None:
        uri = resources.build_record_uri(record.id)
        async with subscribed(memory, mode, uri, MEMORY, scope="user:alice") as (_, heard):
            bob.update(record.id, content="Bob likes tea")
            bob.save("Bob is new here")
            bob.session("chat").add("user", "hello")
            memory.pages.write("MEMORY.md", "x")
            await heard.until(MEMORY)
            assert heard.told == []
            alice.save("Alice likes tea")
            await heard.until(LIST)

    played(scene)


@pytest.mark.parametrize("mode", MODES)
def test_what_another_scope_forgets_is_told_to_nobody_else(memory: Memory, mode: str) -> None:
    alice, bob = memory.scoped("user:alice"), memory.scoped("user:bob")
    mine, theirs = alice.save("Alice likes tea").record, bob.save("Bob likes coffee").record
    memory.pages.write("MEMORY.md", "w")

    async def scene() -> None:
        uri, other = resources.build_record_uri(mine.id), resources.build_record_uri(theirs.id)
        async with subscribed(memory, mode, uri, other, MEMORY, scope="user:alice") as (_, heard):
            alice.save("Alice rows")
            await heard.until(LIST)
            memory.admin.forget(theirs.id)
            memory.pages.write("MEMORY.md", "x")
            assert await heard.until(MEMORY) == {MEMORY}
            memory.admin.forget(mine.id)
            await heard.until(uri, LIST)

    played(scene)


def test_who_unsubscribes_is_told_no_more(memory: Memory) -> None:
    async def scene() -> None:
        other = resources.build_page_uri("other.md")
        async with subscribed(memory, LEGACY, MEMORY, other) as (client, heard):
            await client.unsubscribe_resource(MEMORY)
            memory.pages.write("MEMORY.md", "x")
            memory.pages.write("other.md", "x")
            assert MEMORY not in await heard.until(other)

    played(scene)


def test_whoever_has_read_the_list_is_told_when_it_changes(memory: Memory) -> None:
    async def scene() -> None:
        async with subscribed(memory, LEGACY) as (client, heard):
            await client.list_resources()
            memory.save("Alice likes tea")
            await heard.until(LIST)

    played(scene)


def test_the_journal_is_read_only_while_somebody_asks(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    look = SubscriptionHub._check_changes

    def counted(self: SubscriptionHub) -> Any:
        nonlocal looks
        looks += 1
        return look(self)

    monkeypatch.setattr(SubscriptionHub, "_check_changes", counted)

    async def scene() -> None:
        async with client_of(memory, STATELESS) as client:
            await client.call_tool("save_memory", {"content": "Alice likes tea"})
            await client.list_resources()
            await anyio.sleep(0.1)
            assert looks == 0
            async with client.listen(resource_subscriptions=[MEMORY]):
                with anyio.fail_after(15):
                    while looks < 2:
                        await anyio.sleep(0.01)
            await anyio.sleep(0.1)
            before = looks
            await anyio.sleep(0.2)
            assert looks == before

    played(scene)


def test_a_store_that_fails_for_a_while_ends_nothing(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    look, failures = SubscriptionHub._check_changes, iter(range(3))

    def failing(self: SubscriptionHub) -> Any:
        if next(failures, None) is not None:
            raise StoreUnavailable("the disk is full: make room")
        return look(self)

    monkeypatch.setattr(SubscriptionHub, "_check_changes", failing)

    async def scene() -> None:
        async with subscribed(memory, STATELESS, MEMORY) as (_, heard):
            memory.pages.write("MEMORY.md", "x")
            await heard.until(MEMORY)

    played(scene)
    assert [record.message for record in caplog.records if "cannot read" in record.message] == [
        "cannot read the changes of the memory; retrying"
    ]


def test_connections_that_ask_without_end_do_not_pile_up(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reverie.interfaces.mcp.subscriptions.MOST_CLIENTS", 3)

    class Request:
        def __init__(self) -> None:
            self.session = object()

    async def scene() -> None:
        changes = SubscriptionHub(create_offer(memory), CallThreads())
        for _ in range(10):
            await changes.subscribe(Request(), "x")  # type: ignore[arg-type]
        assert len(changes._clients) == 3

    played(scene)


def test_the_same_change_is_told_of_once(memory: Memory) -> None:
    record = memory.save("Alice likes tea").record
    for n in range(5):
        memory.update(record.id, importance=n / 10)
    changed = collect_changes(memory.history.log(), [""], graph=False, known=set())
    assert list(changed.uris) == [resources.build_record_uri(record.id)]
    assert changed.list
    rows = memory.history.log(after=1)
    assert not collect_changes(rows, [""], graph=False, known=set()).list
    assert not collect_changes(rows, ["user:alice"], graph=False, known=set()).uris
