"""Whatever is sent, the answer is of its schema and never an internal error."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from reverie import Memory, Settings
from reverie.interfaces.http import mem0
from reverie.interfaces.http.application import OPERATIONS, build_application
from reverie.interfaces.http.mem0 import AnyFields
from reverie.interfaces.http.server import HttpServer
from tests.interfaces.http.conftest import BASE
from tests.interfaces.http.test_http_process import serving

with contextlib.suppress(ImportError):
    import numpy  # noqa: F401 - before a thread imports it, since hypothesis reads it half imported

CHECKS = "not_a_server_error,response_schema_conformance,status_code_conformance,content_type_conformance"

TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["alice", "user:alice", "*", "a/b", "HISTORY.md", "2025-01-01", "chat", "\x00", "\ud800"]
    ),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
MEM0_NAMES = [
    *(
        "messages",
        "user_id",
        "agent_id",
        "run_id",
        "filters",
        "query",
        "metadata",
        "infer",
        "text",
        "memories",
    ),
    *("expiration_date", "timestamp", "top_k", "threshold", "page", "page_size", "AND", "OR", "NOT"),
]
WITH_BODY = [each for each in (*OPERATIONS, *mem0.OPERATIONS) if each.body is not None]


@pytest.mark.slow
def test_schema_driven_requests_get_answers_of_their_schema(tmp_path: Path) -> None:
    pytest.importorskip("schemathesis")
    with serving(tmp_path / "memory") as served:
        url = f"http://127.0.0.1:{served.port}/openapi.json"
        command = [sys.executable, "-m", "schemathesis.cli", "run", url, "--checks", CHECKS]
        # A token would lock out all requests after it, and the stream of changes does not end.
        left_out = ["--exclude-operation-id", "create_token", "--exclude-path", "/v1/events"]
        bounds = ["--phases", "coverage,fuzzing", "--max-examples", "10", "--seed", "1"]
        done = subprocess.run([*command, *left_out, *bounds], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("fuzz") / "memory"
    with Memory.open(folder, settings=Settings(files="none")) as memory:
        memory.scoped("user:alice").save("Alice plays the harp")
        app = build_application(HttpServer(memory), host="127.0.0.1", compatible=["mem0"])
        with TestClient(app, base_url=BASE, raise_server_exceptions=False) as client:
            yield client


@pytest.mark.slow
@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda each: f"{each.method} {each.path}")
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_no_body_is_an_internal_error(client: TestClient, operation: Any, data: st.DataObject) -> None:
    if operation.name == "create_token":
        return  # the next request would need it
    names = MEM0_NAMES if operation.body is AnyFields else [*operation.body.model_fields]
    body = data.draw(st.dictionaries(st.sampled_from(names), VALUES, max_size=5))
    path = operation.path
    for part in ("{id}", "{id:path}", "{key:path}", "{name:path}", "{name}", "{kind}"):
        path = path.replace(
            part, data.draw(st.sampled_from(["chat", "000000000000", "HISTORY.md", "a/b", "%00"]))
        )
    answer = client.request(operation.method, path, content=to_json(body), headers={"If-Match": "*"})
    assert answer.status_code < 500 or answer.status_code == 501, (body, answer.text)


def to_json(value: Any) -> bytes:
    """Return JSON, also of what has no form in UTF-8, and of numbers that JSON does not have."""
    return json.dumps(value).encode()
