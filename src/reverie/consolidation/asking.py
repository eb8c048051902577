"""Ask the model of a memory: within the limit of the month, with secrets replaced, and with the cost noted."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from reverie.consolidation.answers import LIMIT, NO_MODEL
from reverie.domain.errors import (
    InvalidInput,
    ModelError,
    ModelRefused,
    ModelTimeout,
    StoreError,
    quote_value,
)
from reverie.domain.lazy_regex import defer_regex
from reverie.llm.protocol import Model, ModelFailure, ModelReply, ModelRequest, find_known_model
from reverie.settings import Settings
from reverie.stores.redacting import redact_request
from reverie.stores.telemetry import ask_model
from reverie.stores.writer import StoreWriter

_log = logging.getLogger("reverie")

TIMEOUT = "timeout: "
"""Beginning of the reason why a pass failed whose model did not answer in time."""

_MONTH = defer_regex(r"\d{4}-(?:0[1-9]|1[0-2])")
_USAGE = ("requests", "input_tokens", "output_tokens", "cost")
_LONGEST_WHY = 200


@dataclass(frozen=True, slots=True)
class MonthUsage:
    """Cost of all requests of background thinking in a calendar month (UTC).

    Attributes:
        month: The month, such as `2026-03`.
        requests: Number of requests.
        input_tokens: Input tokens, as the provider counts them.
        output_tokens: Output tokens.
        cost: US dollars, estimated from known prices; 0 for models without a known price.
    """

    month: str
    requests: int
    input_tokens: int
    output_tokens: int
    cost: float

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.input_tokens + self.output_tokens

    def __str__(self) -> str:
        cost = f", about ${self.cost:.2f}" if self.cost else ""
        return f"{self.month}: {self.requests} requests, {self.tokens:,} tokens{cost}"


class ModelAsker:
    """Asks a model for one store. Safe to use from several threads."""

    def __init__(self, writer: StoreWriter, *, settings: Settings, model: Model | None) -> None:
        self.model = model
        self._writer = writer
        self._settings = settings

    def ask(self, request: ModelRequest) -> ModelReply | ModelFailure:
        """Ask the model. A failure is counted, logged and returned, never raised."""
        if self.model is None:
            return NO_MODEL
        limit = self._settings.monthly_tokens
        if limit is not None and self.read_usage().tokens >= limit:
            return ModelFailure(why=f"{LIMIT}: {limit:,}, see the setting `monthly_tokens`")
        try:
            request = redact_request(request, self._settings.redactor)
            reply = ask_model(self._settings, self.model, request)
        except ModelError as error:
            why = str(error)[:_LONGEST_WHY]  # a server may repeat the whole request
            why = f"{TIMEOUT}{why}" if isinstance(error, ModelTimeout) else why
            _log.warning("the model gave no answer for %s: %s", request.purpose, why)
            self.count(f"model.{request.purpose}.failed")
            return ModelFailure(why=why, refused=isinstance(error, ModelRefused))
        usage = reply.usage
        if usage.cost is None and (known := find_known_model(self.model.name)) is not None:
            usage = known.price.of(usage)
        micros = round((usage.cost or 0) * 1e6)
        values = (usage.requests, usage.input_tokens, usage.output_tokens, micros)
        month = f"{self._writer.clock():%Y-%m}"
        self.count(**{f"model.{month}.{name}": n for name, n in zip(_USAGE, values, strict=True) if n})
        return replace(reply, usage=usage)

    def read_usage(self, month: str | None = None) -> MonthUsage:
        """Return what requests cost in a month; see `Worker.usage`."""
        month = f"{self._writer.clock():%Y-%m}" if month is None else month
        if not _MONTH.fullmatch(month if isinstance(month, str) else ""):
            raise InvalidInput(f"month is {quote_value(month)}: pass a year and a month, such as 2026-03")
        counts = [self._writer.store.count(f"model.{month}.{name}") for name in _USAGE]
        return MonthUsage(month, counts[0], counts[1], counts[2], counts[3] / 1e6)

    def count(self, *names: str, **counts: int) -> None:
        """Count failures, or add to other counters; what cannot be counted is logged."""
        counts |= dict.fromkeys(names, 1)
        try:
            self._writer.commit([], counts=counts)
        except StoreError as error:
            _log.warning("%s could not be counted: %s", ", ".join(counts), error)
