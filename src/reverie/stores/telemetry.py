"""Spans and metrics of OpenTelemetry, where the setting `telemetry` is on.

Names follow OpenTelemetry's semantic conventions for generative AI and HTTP; other names begin with `reverie.`.
While the setting is off, OpenTelemetry is not imported. While it is on, the application's SDK decides what is
recorded and where it is sent; without an SDK nothing is.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from reverie.domain.errors import MissingExtra
from reverie.domain.lazy_dataclass import replace
from reverie.domain.record import Record
from reverie.domain.secrets.redactor import redact_secrets
from reverie.settings import Settings

if TYPE_CHECKING:
    from reverie.llm.protocol import Model, ModelReply, ModelRequest, OnText

CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's own variable for whether spans contain content."""

_WITH_CONTENT = frozenset({"true", "1", "span_only", "span_and_event"})
_DURATION = "gen_ai.client.operation.duration"
_HTTP_DURATION = "http.server.request.duration"
# Attributes of a span that its duration has too, because they have few values each.
_LABELS = (
    *("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.workflow.name"),
    *("http.request.method", "http.route", "http.response.status_code", "error.type"),
)


class OperationSpan:
    """Span of an operation. One without a span of OpenTelemetry does nothing, because telemetry is off.

    Attributes:
        has_content: Whether spans are to contain content.
        attributes: The attributes that were set.
    """

    def __init__(self, settings: Settings, attributes: dict[str, Any], span: Any = None) -> None:
        self._settings = settings
        self._span = span
        self.attributes = attributes
        self.has_content = span is not None and _captures_content()

    def set(self, name: str, value: Any) -> None:
        """Set an attribute without content."""
        if self._span is not None:
            self.attributes[name] = value
            self._span.set_attribute(name, value)

    def set_content(self, name: str, value: Any) -> None:
        """Set an attribute with content, redacted, if spans are to contain content."""
        if self.has_content:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            self.set(name, redact_secrets(text))

    def fail(self, reason: str) -> None:
        """Note a failure that is not raised."""
        if self._span is not None:
            self.set("error.type", reason)
            self._span.set_status(_load_interface().error)

    def count(self, name: str, number: int, **labels: str) -> None:
        """Add to a counter."""
        if self._span is not None:
            _load_interface().get_counter(name).add(number, labels)

    def measure(self, name: str, tokens: Mapping[str, int], *, by: str) -> None:
        """Add numbers of tokens to a histogram, each with its key as the label `by`."""
        for key, number in tokens.items() if self._span is not None else ():
            _load_interface().get_histogram(name, "{token}").record(number, {by: key})


def trace(
    settings: Settings, operation: str, *, scope: str = "", session: str = ""
) -> AbstractContextManager[OperationSpan]:
    """Return the span of an operation of the memory.

    Args:
        settings: Settings of the memory.
        operation: Name of the operation in the semantic conventions.
        scope: Scope of the memory. It appears as a hash, since it often names a person.
        session: Session; it appears as a hash too.
    """
    attributes = {"gen_ai.operation.name": operation}
    names = {"gen_ai.memory.store.id": scope, "gen_ai.conversation.id": session}
    return _record(settings, operation, "INTERNAL", _DURATION, attributes, names=names)


def trace_model(settings: Settings, operation: str, name: str) -> AbstractContextManager[OperationSpan]:
    """Return the span of a call of a model or an embedder, which is named `provider:model`."""
    provider, _, model = name.partition(":")
    attributes = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model or provider,
    }
    return _record(settings, f"{operation} {model or provider}", "CLIENT", _DURATION, attributes)


def trace_workflow(settings: Settings, name: str) -> AbstractContextManager[OperationSpan]:
    """Return the span of a dream."""
    attributes = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": name}
    return _record(settings, f"invoke_workflow {name}", "INTERNAL", _DURATION, attributes)


def trace_request(
    settings: Settings, method: str, route: str, headers: Mapping[str, str]
) -> AbstractContextManager[OperationSpan]:
    """Return the span of a request to the HTTP server; it belongs to the trace that the headers name."""
    attributes = {"http.request.method": method, "http.route": route}
    return _record(settings, f"{method} {route}", "SERVER", _HTTP_DURATION, attributes, headers)


def ask_model(
    settings: Settings, model: Model, request: ModelRequest, *, on_text: OnText | None = None
) -> ModelReply:
    """Ask a model within a span, and add the cost if its price is known; errors are those of `Model.answer`."""
    from reverie.llm.protocol import find_known_model  # here: most programs ask no model

    with trace_model(settings, "chat", model.name) as span:
        reply = model.answer(request, on_text=on_text)
        span.set("reverie.purpose", request.purpose)
        span.set("gen_ai.response.model", reply.model or model.name)
        span.set("gen_ai.response.finish_reasons", [reply.finish])
        for kind, tokens in (("input", reply.usage.input_tokens), ("output", reply.usage.output_tokens)):
            span.set(f"gen_ai.usage.{kind}_tokens", tokens)
            span.count("reverie.model.tokens", tokens, **{"gen_ai.token.type": kind})
        if span.has_content:
            said = [(message.role, message.content) for message in request.messages]
            span.set_content("gen_ai.input.messages", _describe_messages(said))
            span.set_content("gen_ai.output.messages", _describe_messages([("assistant", reply.text)]))
        known = find_known_model(model.name) if reply.usage.cost is None else None
        return reply if known is None else replace(reply, usage=known.add_cost(reply.usage))


def require_telemetry() -> None:
    """Raise `MissingExtra` if OpenTelemetry is not installed."""
    _load_interface()


@contextmanager
def _record(
    settings: Settings,
    name: str,
    kind: str,
    duration: str,
    attributes: dict[str, Any],
    headers: Mapping[str, str] | None = None,
    *,
    names: Mapping[str, str] = {},
) -> Iterator[OperationSpan]:
    """Record a span until the block ends, and its duration in a histogram, if telemetry is on.

    The exception that ends it is not recorded, because its message may quote content. Those of `names` that are not
    empty become attributes too, as hashes. They are made only if telemetry is on, because they take time.
    """
    if not settings.telemetry:
        yield OperationSpan(settings, attributes)
        return
    attributes |= {name: _identify(value) for name, value in names.items() if value}
    interface = _load_interface()
    started = time.perf_counter()
    with interface.tracer.start_as_current_span(
        name,
        context=None if headers is None else interface.extract(headers),
        kind=interface.kinds[kind],
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as opened:
        span = OperationSpan(settings, attributes, opened)

        try:
            yield span
        except BaseException as error:
            span.fail(type(error).__qualname__)
            raise
        finally:
            labels = {label: attributes[label] for label in _LABELS if label in attributes}
            interface.get_histogram(duration, "s").record(time.perf_counter() - started, labels)


@cache
def _load_interface() -> SimpleNamespace:
    """Return what is used of OpenTelemetry's interface."""
    try:
        from opentelemetry import metrics, propagate, trace
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "opentelemetry":
            raise
        raise MissingExtra(
            "the setting telemetry needs OpenTelemetry's interface: pip install 'reverie[otel]'"
        ) from error
    from importlib.metadata import version

    meter = metrics.get_meter("reverie", version("reverie"))
    return SimpleNamespace(
        tracer=trace.get_tracer("reverie", version("reverie")),
        extract=propagate.extract,
        kinds=trace.SpanKind,
        error=trace.StatusCode.ERROR,
        get_counter=cache(meter.create_counter),
        get_histogram=cache(meter.create_histogram),
    )


def _captures_content() -> bool:
    return os.environ.get(CONTENT_VARIABLE, "").strip().lower() in _WITH_CONTENT


def _identify(name: str) -> str:
    """Return a name if spans are to contain content, else its hash."""
    if _captures_content():
        return name
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def _describe_messages(said: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in said]


def describe_records(span: OperationSpan, records: Sequence[Record]) -> None:
    """Set the number of records on a span, and their ids and contents where these are recorded."""
    span.set("gen_ai.memory.record.count", len(records))
    if len(records) == 1:
        span.set("gen_ai.memory.record.id", records[0].id)
    if span.has_content:
        span.set_content(
            "gen_ai.memory.records", [{"id": each.id, "content": each.content} for each in records]
        )
