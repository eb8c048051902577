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
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any

from reverie.domain.errors import MissingExtra
from reverie.domain.secrets.redactor import build_redactor
from reverie.settings import Settings

if TYPE_CHECKING:
    from reverie.llm.messages import ModelReply, ModelRequest
    from reverie.llm.protocol import Model, OnText

CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's own variable for whether spans contain what was said."""

_WITH_CONTENT = frozenset({"true", "1", "span_only", "span_and_event"})
_DURATION = "gen_ai.client.operation.duration"
_HTTP_DURATION = "http.server.request.duration"
_LABELS = (
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.workflow.name",
    "http.request.method",
    "http.route",
    "http.response.status_code",
)
"""Attributes of a span that are those of its duration too: few values each."""


class OperationSpan:
    """One operation that is measured, for a `with` statement. This one, for telemetry that is off, does nothing."""

    __slots__ = ()
    has_content = False

    def __enter__(self) -> OperationSpan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def set(self, name: str, value: Any) -> None:
        """Set an attribute that contains nothing that was said."""

    def set_content(self, name: str, value: Any) -> None:
        """Set an attribute that was said or is made of it: redacted, and only where content is asked for."""

    def fail(self, reason: str) -> None:
        """Note a failure that is not raised."""

    def count(self, name: str, number: int, **labels: str) -> None:
        """Add to a counter."""

    def measure(self, name: str, tokens: Mapping[str, int], *, by: str) -> None:
        """Add numbers of tokens to a histogram, each with its key as the label `by`."""


_OFF = OperationSpan()


def trace(
    settings: Settings, operation: str, target: str = "", *, scope: str = "", session: str = ""
) -> OperationSpan:
    """Return the span of an operation of the memory.

    Args:
        settings: Settings of the memory.
        operation: Name of the operation in the semantic conventions.
        target: Name of what is called, for the span's own name.
        scope: Scope of the memory. It appears as a hash, since it often names a person.
        session: Session; it appears as a hash too.
    """
    if not settings.telemetry:
        return _OFF
    span = _RecordedSpan(settings, f"{operation} {target}".rstrip(), "INTERNAL", _DURATION)
    span.set("gen_ai.operation.name", operation)
    if scope:
        span.set("gen_ai.memory.store.id", _identify(scope))
    if session:
        span.set("gen_ai.conversation.id", _identify(session))
    return span


def trace_model(settings: Settings, operation: str, name: str) -> OperationSpan:
    """Return the span of a call of a model or an embedder, which is named `provider:model`."""
    if not settings.telemetry:
        return _OFF
    provider, _, model = name.partition(":")
    span = _RecordedSpan(settings, f"{operation} {model or provider}", "CLIENT", _DURATION)
    span.set("gen_ai.operation.name", operation)
    span.set("gen_ai.provider.name", provider)
    span.set("gen_ai.request.model", model or provider)
    return span


def trace_workflow(settings: Settings, name: str) -> OperationSpan:
    """Return the span of a dream or one of its passes."""
    span = trace(settings, "invoke_workflow", name)
    span.set("gen_ai.workflow.name", name)
    return span


def trace_request(settings: Settings, method: str, route: str, headers: Mapping[str, str]) -> OperationSpan:
    """Return the span of a request to the HTTP server; it belongs to the trace that the headers name."""
    if not settings.telemetry:
        return _OFF
    span = _RecordedSpan(settings, f"{method} {route}", "SERVER", _HTTP_DURATION, headers)
    span.set("http.request.method", method)
    span.set("http.route", route)
    return span


def ask_model(
    settings: Settings, model: Model, request: ModelRequest, *, on_text: OnText | None = None
) -> ModelReply:
    """Ask a model within a span; errors are those of `Model.answer`."""
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
        return reply


def require_telemetry() -> None:
    """Raise `MissingExtra` if OpenTelemetry is not installed."""
    _get_interface()


class _RecordedSpan(OperationSpan):
    """Span that OpenTelemetry records."""

    __slots__ = (
        "_attributes",
        "_interface",
        "_opened",
        "_problem",
        "_settings",
        "_span",
        "_started",
        "_what",
    )

    def __init__(
        self,
        settings: Settings,
        name: str,
        kind: str,
        duration: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = settings
        self._interface = _get_interface()
        self._what = (name, kind, duration, headers)
        self._attributes: dict[str, Any] = {}
        self._problem = ""
        self._span: Any = None

    @property
    def has_content(self) -> bool:  # type: ignore[override]
        """Whether content is asked for."""
        return _captures_content()

    def __enter__(self) -> OperationSpan:
        name, kind, _, headers = self._what
        self._opened: AbstractContextManager[Any] = self._interface.open_span(
            name, kind, self._attributes, headers
        )
        self._span = self._opened.__enter__()
        self._started = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        seconds = time.perf_counter() - self._started
        if kind is not None:
            self.fail(kind.__qualname__)
        labels = {name: self._attributes[name] for name in _LABELS if name in self._attributes}
        if self._problem:
            labels["error.type"] = self._problem
        self._interface.get_histogram(self._what[2], "s").record(seconds, labels)
        # The exception itself is not recorded: its message may quote what was said.
        self._opened.__exit__(None, None, None)

    def set(self, name: str, value: Any) -> None:
        self._attributes[name] = value
        if self._span is not None:
            self._span.set_attribute(name, value)

    def set_content(self, name: str, value: Any) -> None:
        if not _captures_content():
            return
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        self.set(name, build_redactor(True, self._settings.secret_patterns).text(text))

    def fail(self, reason: str) -> None:
        self._problem = reason
        self.set("error.type", reason)
        self._interface.mark_failed(self._span)

    def count(self, name: str, number: int, **labels: str) -> None:
        self._interface.get_counter(name).add(number, labels)

    def measure(self, name: str, tokens: Mapping[str, int], *, by: str) -> None:
        for key, number in tokens.items():
            self._interface.get_histogram(name, "{token}").record(number, {by: key})


class _Interface:
    """OpenTelemetry's interface, and the instruments that are in use."""

    def __init__(self) -> None:
        from importlib.metadata import version

        from opentelemetry import metrics, propagate, trace

        self._trace = trace
        self._propagate = propagate
        self._tracer = trace.get_tracer("reverie", version("reverie"))
        self._meter = metrics.get_meter("reverie", version("reverie"))
        self.get_counter = cache(self._meter.create_counter)
        self.get_histogram = cache(self._meter.create_histogram)

    def open_span(
        self, name: str, kind: str, attributes: Mapping[str, Any], headers: Mapping[str, str] | None
    ) -> AbstractContextManager[Any]:
        """Return the context of a new span; headers name the trace that it belongs to."""
        return self._tracer.start_as_current_span(
            name,
            context=None if headers is None else self._propagate.extract(headers),
            kind=self._trace.SpanKind[kind],
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        )

    def mark_failed(self, span: Any) -> None:
        """Set the status of a span to an error, without a message."""
        span.set_status(self._trace.StatusCode.ERROR)


@cache
def _get_interface() -> _Interface:
    try:
        return _Interface()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "opentelemetry":
            raise
        raise MissingExtra(
            "the setting telemetry needs OpenTelemetry's interface: pip install 'reverie[otel]'"
        ) from error


def _captures_content() -> bool:
    return os.environ.get(CONTENT_VARIABLE, "").strip().lower() in _WITH_CONTENT


def _identify(name: str) -> str:
    """Return a name as it stands where content is asked for, else its hash."""
    if _captures_content():
        return name
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def _describe_messages(said: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in said]
