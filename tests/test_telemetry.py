"""Spans and metrics of OpenTelemetry, recorded by its SDK."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from reverie import Memory, Settings
from reverie.domain.errors import InvalidInput, MissingExtra
from reverie.llm.protocol import ModelReply, ModelRequest, TokenUsage
from reverie.stores.telemetry import CONTENT_VARIABLE

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import metrics
from opentelemetry import trace as tracing
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

ON = Settings(telemetry=True, files="none", embedder=None)
SECRET = "sk-proj-" + "a1B2" * 12


class Recorded(NamedTuple):
    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def attributes(self, name: str) -> Mapping[str, Any]:
        return self.spans[name].attributes or {}

    def points(self, name: str) -> dict[tuple[tuple[str, Any], ...], Any]:
        data = self.reader.get_metrics_data()
        found = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    if metric.name == name:
                        found |= {
                            tuple(sorted(point.attributes.items())): point
                            for point in metric.data.data_points
                        }
        return found


@pytest.fixture(scope="module")
def sdk() -> Recorded:
    exporter = InMemorySpanExporter()
    delta = AggregationTemporality.DELTA
    reader = InMemoryMetricReader(preferred_temporality={Counter: delta, Histogram: delta})
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([reader]))
    return Recorded(exporter, reader)


@pytest.fixture
def recorded(sdk: Recorded, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.delenv(CONTENT_VARIABLE, raising=False)
    sdk.exporter.clear()
    sdk.reader.get_metrics_data()
    return sdk


def test_saves_searches_and_changes_have_spans_without_content(recorded: Recorded) -> None:
    with Memory.open(":memory:", settings=ON) as memory:
        alice = memory.scoped("user:alice")
        record = alice.save("Alice prefers oolong tea").record
        alice.search("which tea?")
        alice.update(record.id, importance=0.9)
        memory.admin.forget(record.id)
    saved = recorded.attributes("upsert_memory")
    assert saved["gen_ai.operation.name"] == "upsert_memory"
    assert saved["gen_ai.memory.record.id"] == record.id
    assert saved["reverie.outcome"] == "created"
    assert recorded.attributes("search_memory")["gen_ai.memory.record.count"] == 1
    assert recorded.attributes("update_memory")["gen_ai.memory.record.id"] == record.id
    assert recorded.attributes("delete_memory")["gen_ai.memory.record.count"] == 1
    assert {span.kind for span in recorded.spans.values()} == {tracing.SpanKind.INTERNAL}
    told = json.dumps([dict(span.attributes or {}) for span in recorded.spans.values()])
    assert "tea" not in told
    assert "alice" not in told


def test_content_is_recorded_where_it_is_asked_for_and_redacted(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONTENT_VARIABLE, "true")
    open_settings = Settings(telemetry=True, files="none", embedder=None, redact_secrets=False)
    with Memory.open(":memory:", settings=open_settings) as memory:
        alice = memory.scoped("user:alice")
        alice.save(f"The key of the tea shop is {SECRET}")
        alice.search("key of the tea shop")
    assert recorded.attributes("upsert_memory")["gen_ai.memory.store.id"] == "user:alice"
    found = recorded.attributes("search_memory")
    assert found["gen_ai.memory.query.text"] == "key of the tea shop"
    (hit,) = json.loads(found["gen_ai.memory.records"])
    assert hit["content"].startswith("The key of the tea shop is [redacted")
    assert SECRET not in str(recorded.exporter.get_finished_spans())


def test_a_failed_operation_names_its_error_and_not_its_message(recorded: Recorded) -> None:
    with Memory.open(":memory:", settings=ON) as memory, pytest.raises(InvalidInput):
        memory.save("")
    span = recorded.spans["upsert_memory"]
    assert span.status.status_code is tracing.StatusCode.ERROR
    assert not span.status.description
    assert not span.events
    assert (span.attributes or {})["error.type"] == "InvalidInput"


def test_a_context_is_a_search_of_its_session_and_counts_the_tokens_of_its_sections(
    recorded: Recorded,
) -> None:
    with Memory.open(":memory:", settings=ON) as memory:
        memory.save("The office closes at six")
        session = memory.session("telegram:49170")
        session.add("user", "when does the office close?")
        recorded.exporter.clear()
        pack = session.context()
    (span,) = recorded.exporter.get_finished_spans()
    assert span.name == "search_memory"
    assert len((span.attributes or {})["gen_ai.conversation.id"]) == 16
    points = recorded.points("reverie.pack.tokens")
    assert points[("section", "recalled"),].sum == pack.diagnostics.tokens["recalled"]


def test_a_dream_contains_the_calls_of_the_model(recorded: Recorded) -> None:
    def answer(request: ModelRequest) -> ModelReply:
        return ModelReply(
            text="{}", model="m-1", usage=TokenUsage(requests=1, input_tokens=7, output_tokens=2)
        )

    with Memory.open(":memory:", settings=ON, model=answer) as memory:
        memory.save_many([{"content": f"Berta said that item {n} of the plan is late"} for n in range(12)])
        memory.dreams.run()
    spans = recorded.spans
    dream, asked = spans["invoke_workflow reverie.dream"], spans["chat answer"]
    assert asked.parent.span_id == dream.context.span_id
    assert asked.kind is tracing.SpanKind.CLIENT
    assert asked.attributes["gen_ai.usage.input_tokens"] == 7
    assert asked.attributes["gen_ai.response.model"] == "m-1"
    assert "gen_ai.input.messages" not in asked.attributes
    tokens = recorded.points("reverie.model.tokens")
    assert tokens[("gen_ai.token.type", "input"),].value % 7 == 0


def test_a_call_of_the_embedder_has_a_span(recorded: Recorded) -> None:
    pytest.importorskip("numpy")
    settings = Settings(telemetry=True, files="none")
    with Memory.open(
        ":memory:", settings=settings, embedder=lambda texts: [[1.0, 0.0]] * len(texts)
    ) as memory:
        memory.save("The office closes at six")
        memory._vectors.embed_waiting(timeout_s=10)
    span = recorded.spans["embeddings <lambda>"]
    assert span.kind is tracing.SpanKind.CLIENT
    assert span.attributes["gen_ai.operation.name"] == "embeddings"


def test_requests_of_every_interface_continue_the_trace_of_their_caller(recorded: Recorded) -> None:
    pytest.importorskip("starlette")
    from reverie.interfaces.http.server import HttpServer
    from tests.interfaces.http.conftest import serve_here

    parent = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with Memory.open(":memory:", settings=ON) as memory, serve_here(HttpServer(memory)) as client:
        client.post("/v1/records", json={"content": "Tea is at four"}, headers=parent)
        client.get("/v1/records/none")
        client.get("/memories?q=tea", headers=parent)
        client.get("/memories/none", headers={"accept": "text/html"})
        answered = client.post("/mcp", json=message, headers=parent).status_code
    view = recorded.spans["GET /memories"]
    request = recorded.spans["POST /v1/records"]
    for span, status in ((request, 201), (view, 200), (recorded.spans["POST /mcp"], answered)):
        assert span.kind is tracing.SpanKind.SERVER
        assert span.parent.span_id == 0xB7AD6B7169203331
        assert span.attributes["http.response.status_code"] == status
    assert recorded.spans["upsert_memory"].parent.span_id == request.context.span_id
    assert recorded.spans["search_memory"].parent.span_id == view.context.span_id
    assert recorded.attributes("GET /memories/{id}")["http.response.status_code"] == 404
    routes = [dict(point) for point in recorded.points("http.server.request.duration")]
    assert {
        "http.request.method": "GET",
        "http.route": "/v1/records/{id}",
        "http.response.status_code": 404,
    } in routes


def test_nothing_is_recorded_while_it_is_off(recorded: Recorded) -> None:
    with Memory.open(":memory:", settings=Settings(files="none", embedder=None)) as memory:
        memory.save("Tea is at four")
    assert not recorded.exporter.get_finished_spans()


def test_without_the_package_the_memory_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from reverie.stores import telemetry

    telemetry._load_interface.cache_clear()
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(MissingExtra, match=r"\[otel\]"):
        Memory.open(":memory:", settings=ON)
    telemetry._load_interface.cache_clear()
