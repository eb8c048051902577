"""MCP over HTTP, by `reverie serve`: with the real client, and who is let in."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterator

import pytest
from click.testing import Result
from mcp import Client

from reverie.interfaces.http.serve import open_socket
from tests.interfaces.http.test_http_process import Served, serving
from tests.interfaces.mcp.peers import LEGACY, MODES, played

PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()


def ask(
    served: Served, headers: dict[str, str], *, method: str = "POST", body: bytes = PING
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    try:
        connection.putrequest(method, "/mcp", skip_host=True)
        sent = {
            "Host": f"127.0.0.1:{served.port}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Content-Length": str(len(body)),
        }
        for name, value in (sent | headers).items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("http") / "memory") as served:
        yield served


def url_of(served: Served) -> str:
    return f"http://127.0.0.1:{served.port}/mcp"


@pytest.mark.parametrize("mode", MODES)
def test_the_real_client_saves_and_searches(served: Served, mode: str) -> None:
    async def scene() -> None:
        async with Client(url_of(served), mode=mode) as client:
            saved = await client.call_tool("save_memory", {"content": f"Alice likes tea in {mode}"})
            assert not saved.is_error
            found = await client.call_tool("search_memory", {"query": "tea"})
            saved_id = saved.structured_content["text"].removeprefix("Saved as ").rstrip(".")
            assert saved_id in found.content[0].text
            if mode == LEGACY:
                assert not client.server_capabilities.resources.list_changed

    played(scene)


def test_hostile_requests_are_refused_and_the_server_goes_on(served: Served) -> None:
    for body in (b"{nonsense", b"[]", b"\xff", b"[" * 50_000, b""):
        assert 400 <= ask(served, {}, body=body)[0] < 500
    assert ask(served, {}, body=b"x" * (5 << 20))[0] == 413
    assert ask(served, {"Mcp-Session-Id": "nobody's"})[0] == 404
    assert ask(served, {}, method="PUT")[0] == 405

    async def scene() -> None:
        async with Client(url_of(served)) as client:
            assert not (await client.call_tool("list_memory_categories", {})).is_error

    played(scene)


def test_a_port_that_is_taken_is_an_error_that_says_so(call: Callable[..., Result], served: Served) -> None:
    result = call("serve", "--port", str(served.port))
    assert result.exit_code == 2
    assert (
        f"no server can listen on port {served.port} of '127.0.0.1' (address already in use): "
        in result.stderr
    )
    assert "choose another --port or --host" in result.stderr


# -- ending ----------------------------------------------------------------------------------------------


def test_no_answer_waits_for_the_acknowledgement_of_its_beginning() -> None:
    with open_socket("127.0.0.1", 0) as sock, socket.create_connection(sock.getsockname()):
        accepted, _ = sock.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
