"""What the models of all providers have in common: tries, errors and costs."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from reverie.domain.errors import ModelRefused
from reverie.llm.messages import ModelReply, ModelRequest
from reverie.llm.pricing import Price
from reverie.llm.protocol import OnText
from reverie.llm.retry import TRANSIENT, RetryableError, RetryPolicy, StreamRelay, parse_retry_after
from reverie.llm.structured_output import Form, FormatFallback, FormatRejected

T = TypeVar("T")


class ProviderModel(ABC):
    """Model behind a provider's library.

    Args:
        name: `provider:model`.
        library: The module; those of OpenAI and Anthropic have the same errors.
        forms: Forms in which the server may take a schema, the strictest first.
        price: Price of its tokens; None leaves costs unknown.
        patience: Tries and pauses of a request.
    """

    def __init__(
        self,
        name: str,
        library: Any,
        forms: Sequence[Form],
        *,
        price: Price | None,
        patience: RetryPolicy | None,
    ) -> None:
        self._name = name
        self._library = library
        self._price = price
        self._patience = patience or RetryPolicy()
        self._ladder = FormatFallback(tuple(forms))

    @property
    def name(self) -> str:
        """`provider:model`."""
        return self._name

    def answer(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        """Answer a request; see `reverie.llm.protocol.Model.answer`."""
        relay = StreamRelay(on_text)
        requests = 0

        def attempt(left_s: float) -> ModelReply:
            nonlocal requests
            requests += 1
            return relay.guarded(lambda: self._answer_once(request, left_s, relay))

        try:
            reply = self._patience.tried(attempt, timeout_s=request.timeout_s, who=self.name)
        finally:
            relay.close()
        usage = replace(reply.usage, requests=requests)
        return replace(reply, usage=usage if self._price is None else self._price.of(usage))

    def _answer_once(self, request: ModelRequest, left_s: float, relay: StreamRelay) -> ModelReply:
        if request.schema is None:
            try:
                return self._request(request, None, left_s, relay)
            except FormatRejected as error:
                raise ModelRefused(str(error)) from error
        return self._ladder.ask(lambda form: self._request(request, form, left_s, relay))

    @abstractmethod
    def _request(
        self, request: ModelRequest, form: Form | None, left_s: float, relay: StreamRelay
    ) -> ModelReply:
        """Send a request, and repeat it without an argument that the server does not know."""

    def _send(self, call: Callable[[], T]) -> T:
        """Call the library, converting its errors."""
        errors = self._library
        try:
            return call()
        except errors.APITimeoutError as error:
            raise RetryableError("the server did not answer in time") from error
        except errors.APIStatusError as error:
            raise self._convert_error(error) from error
        except (errors.APIConnectionError, errors.APIResponseValidationError) as error:
            raise RetryableError(
                f"the connection failed ({type(error.__cause__ or error).__name__})"
            ) from error
        except errors.APIError as error:  # an error event within a stream, or a body that is no JSON
            raise RetryableError(f"the answer broke off ({type(error).__name__})") from error
        except json.JSONDecodeError as error:
            raise RetryableError("the answer was no JSON") from error

    def _convert_error(self, error: Any) -> Exception:
        message = f"{self.name} answered {error.status_code}: {_extract_error_text(error)}"
        if error.status_code in {400, 422}:
            return FormatRejected(message)
        if error.status_code in TRANSIENT and "insufficient_quota" not in message:
            return RetryableError(message, after_s=parse_retry_after(error.response.headers))
        return ModelRefused(f"{message}: check the key, the model's name and the address")


def _extract_error_text(error: Any) -> str:
    """Return the server's own message, shortened."""
    body = error.body
    inner = body.get("error", body) if isinstance(body, dict) else None
    message = inner.get("message") if isinstance(inner, dict) else None
    return re.sub(r"\s+", " ", str(message or error.message))[:300]
