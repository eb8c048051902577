"""Servers of language models: requests over HTTP, retries, deadlines, forms of answers, errors and costs.

A request for JSON has a schema as a parameter. If the server refuses that, the schema is put into the message, and no
parameter is tried again.
"""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPException
from importlib.resources import files
from typing import Any, ClassVar, TypeVar

from reverie.domain.errors import ModelRefused, ModelTimeout, ModelUnavailable
from reverie.domain.text.validation import validate_address
from reverie.llm.protocol import ChatMessage, ModelReply, ModelRequest, OnText

T = TypeVar("T")


# -- retries and deadlines -------------------------------------------------------------------------------

TRANSIENT = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
"""HTTP status codes after which another try may succeed."""

TRIES = 3
_FIRST_PAUSE_S = 0.5
"""Pause after the first try, unless the server names another; each further one doubles it."""


class RetryableError(Exception):
    """A failed try after which another may succeed.

    Args:
        why: The error in words.
        after_s: Seconds that the server asked to wait; None if it did not.
    """

    def __init__(self, why: str, *, after_s: float | None = None) -> None:
        super().__init__(why)
        self.after_s = after_s


class AttemptTimeout(RetryableError):
    """A try that took too long."""


class StreamRelay:
    """Passes on the pieces of an answer until it is closed."""

    def __init__(self, on_text: OnText | None) -> None:
        self._on_text = on_text
        self.wanted = on_text is not None
        self.has_begun = False
        self.is_closed = False

    def __call__(self, text: str) -> None:
        """Pass a piece on, or end the thread of a request that was abandoned."""
        if self.is_closed:
            raise RetryableError("no time was left")
        if self._on_text is not None and text:
            self.has_begun = True
            self._on_text(text)


def call_with_deadline(seconds: float, call: Callable[[], T]) -> T:
    """Call a function, and raise `AttemptTimeout` if it takes too long.

    The timeout of a client applies to single reads, so a slow server could block it for ever. Therefore the call runs
    on a thread, which is abandoned at the deadline and ends with its socket.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001 - carried over to the thread that waits, not swallowed
            outcome.set_exception(error)

    threading.Thread(target=run, name="reverie-model", daemon=True).start()
    try:
        return outcome.result(seconds)
    except TimeoutError as error:
        if outcome.done():
            raise  # it is the function's own
        raise AttemptTimeout(f"no answer within {seconds:.1f} s") from error


# -- requests over HTTP ----------------------------------------------------------------------------------

_LONGEST_ERROR = 10_000


class FormatRejected(Exception):
    """The server refused the request; a simpler one may succeed."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the key would be sent to another address."""

    def redirect_request(self, *_: object) -> None:
        """Return no further request."""


_opener = urllib.request.build_opener(_NoRedirects)


class JsonServer:
    """One address that takes and gives JSON. Safe to use from several threads.

    Args:
        who: Name of the model, for errors.
        address: The address of the server.
        path: What is asked there.
        headers: Headers of each request, such as the key.
    """

    def __init__(self, who: str, address: str, path: str, headers: Mapping[str, str]) -> None:
        self._who = who
        self._url = f"{validate_address(address, name='base_url').rstrip('/')}/{path}"
        self._headers = {"content-type": "application/json", **headers}

    def send(self, body: Mapping[str, Any], timeout_s: float) -> Any:
        """Return the value in the answer to a request.

        Raises:
            FormatRejected: the server refused the form of the request.
            ModelRefused: the key, the name of the model or the address is wrong.
            RetryableError: another try may succeed.
        """
        with self._open(body, timeout_s) as response:
            return json.load(response)

    def stream(self, body: Mapping[str, Any], timeout_s: float) -> Iterator[Any]:
        """Yield the values of the events in a streamed answer; the errors are those of `send`."""
        with self._open(body, timeout_s) as response:
            for line in response:
                if line.startswith(b"data:") and line[5:].strip() != b"[DONE]":
                    yield json.loads(line[5:])

    @contextmanager
    def _open(self, body: Mapping[str, Any], timeout_s: float) -> Iterator[Any]:
        """Open the answer to a request, and convert what fails while it is read."""
        request = urllib.request.Request(self._url, json.dumps(body).encode(), self._headers, method="POST")
        try:
            with _opener.open(request, timeout=timeout_s) as response:
                yield response
        except urllib.error.HTTPError as error:
            with error:
                raise self._convert_error(error) from error
        except TimeoutError as error:
            raise AttemptTimeout("the server did not answer in time") from error
        except (OSError, HTTPException) as error:
            raise RetryableError(f"the connection to {self._url} failed ({error})") from error
        except json.JSONDecodeError as error:
            raise RetryableError("the answer was no JSON") from error

    def _convert_error(self, error: urllib.error.HTTPError) -> Exception:
        said = error.read(_LONGEST_ERROR).decode("utf-8", "replace")
        try:
            found = json.loads(said)
            said = str(found.get("error", found).get("message") or said)
        except (ValueError, AttributeError):
            pass  # it is shown as it is
        message = f"{self._who} answered {error.code}: {' '.join(said.split())[:300]}"
        if error.code in {400, 422}:
            return FormatRejected(message)
        if error.code in TRANSIENT and "insufficient_quota" not in message:
            wished = error.headers.get("retry-after", "")
            return RetryableError(message, after_s=float(wished) if wished.isdecimal() else None)
        return ModelRefused(f"{message}: check the key, the model's name and the address")


# -- answers in JSON -------------------------------------------------------------------------------------

_OPTIONAL = ("max_tokens", "temperature", "stream_options")
"""Arguments that are left out if a refusal names them."""


def append_schema(messages: Sequence[ChatMessage], schema: Mapping[str, Any]) -> tuple[ChatMessage, ...]:
    """Return the messages with the schema in words as the last one."""
    text = files("reverie.llm").joinpath("json-answer.md").read_text(encoding="utf-8")
    instruction = text.replace("{schema}", json.dumps(dict(schema), indent=2, ensure_ascii=False)).strip()
    return (*messages, ChatMessage(role="user", content=instruction))


# -- providers -------------------------------------------------------------------------------------------


class ProviderModel(ABC):
    """Model on a server.

    Args:
        model: Name of the model, as the server knows it.
        base_url: Address of the server; None for the provider's.
        api_key: The key; None for a server that asks for none.
        sleep: Waits for some seconds; tests pass their own.
    """

    provider: ClassVar[str]

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = f"{self.provider}:{model}"
        self._model = model
        self._server = self._connect(base_url, api_key)
        self._sleep = sleep
        self._takes_schemas = True
        self._left_out: frozenset[str] = frozenset()

    def answer(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        """Answer a request; see `reverie.llm.protocol.Model.answer`."""
        relay = StreamRelay(on_text)
        ends_at = time.monotonic() + request.timeout_s
        try:
            return call_with_deadline(request.timeout_s, lambda: self._try(request, ends_at, relay))
        except AttemptTimeout as error:
            raise ModelTimeout(f"{self.name} gave no answer within {request.timeout_s:g} s") from error
        finally:
            relay.is_closed = True

    def _try(self, request: ModelRequest, ends_at: float, relay: StreamRelay) -> ModelReply:
        """Answer a request, and repeat it after a failure that may pass. Nothing is said twice to a listener."""
        for number in range(1, TRIES + 1):
            try:
                reply = self._answer_once(request, ends_at - time.monotonic(), relay)
                return replace(reply, usage=replace(reply.usage, requests=number))
            except RetryableError as failure:
                if relay.has_begun:
                    raise ModelUnavailable(f"the answer broke off after it had begun: {failure}") from failure
                wished = failure.after_s
                pause = _FIRST_PAUSE_S * 2 ** (number - 1) if wished is None else wished
                if number == TRIES or pause >= ends_at - time.monotonic():
                    if isinstance(failure, AttemptTimeout):
                        raise
                    raise ModelUnavailable(
                        f"{self.name} gave no answer in {number} tries: {failure}"
                    ) from failure
                self._sleep(pause)
        raise AssertionError("unreachable: the last try returns or raises")

    def _answer_once(self, request: ModelRequest, left_s: float, relay: StreamRelay) -> ModelReply:
        """Answer with the schema as a parameter, or else in words.

        That a server takes no schemas is remembered only if words succeed. A request that is refused in both forms
        has another error, which the first refusal states.
        """
        refusal: FormatRejected | None = None
        for by_schema in (True, False) if request.schema is not None and self._takes_schemas else (False,):
            try:
                reply = self._request(request, by_schema, left_s, relay)
                self._takes_schemas = self._takes_schemas and refusal is None
                return reply
            except FormatRejected as error:
                refusal = refusal or error
        raise ModelRefused(str(refusal)) from refusal

    def _request(
        self, request: ModelRequest, by_schema: bool, left_s: float, relay: StreamRelay
    ) -> ModelReply:
        """Send a request, and repeat it without an argument that the server does not know."""
        body = {"model": self._model, **self._build_body(request, by_schema)}
        body |= {"stream": True} if relay.wanted and not by_schema else {}
        while True:
            accepted = self._select_accepted(body)
            try:
                if "stream" not in accepted:
                    answer = self._server.send(accepted, left_s)
                elif not (answer := self._join_pieces(self._server.stream(accepted, left_s), relay)):
                    raise RetryableError("the answer broke off")
                reply = self._parse_reply(answer, by_schema)
                relay("" if relay.has_begun else reply.text)
                return reply
            except FormatRejected as error:
                named = {each for each in _OPTIONAL if re.search(rf"\b{each}\b", str(error))}
                if named.isdisjoint(accepted):
                    raise
                self._left_out |= named
            except (KeyError, TypeError, IndexError, AttributeError) as error:
                raise RetryableError("the answer is not of the form that was asked for") from error

    def _select_accepted(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a request that the server has not refused."""
        return {name: value for name, value in body.items() if name not in self._left_out}

    @abstractmethod
    def _connect(self, base_url: str | None, api_key: str | None) -> JsonServer:
        """Return the server."""

    @abstractmethod
    def _build_body(self, request: ModelRequest, by_schema: bool) -> dict[str, Any]:
        """Return the arguments of a request."""

    @abstractmethod
    def _parse_reply(self, answer: Any, by_schema: bool) -> ModelReply:
        """Return a whole answer as a reply."""

    @abstractmethod
    def _join_pieces(self, pieces: Iterator[Any], relay: StreamRelay) -> Any:
        """Return a streamed answer in the form of a whole one; None if it breaks off."""


# -- keys and addresses ----------------------------------------------------------------------------------


def read_key(environ: Mapping[str, str], name: str) -> str | None:
    """Return a key without white space around it; None if it is not set.

    Raises:
        ModelRefused: it has characters that a header must not have.
    """
    key = environ.get(name, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ModelRefused(f"{name} has characters that no key has, such as a line break: set it again")
    return key or None


def read_address(environ: Mapping[str, str], name: str) -> str | None:
    """Return the address of a server; None if it is not set.

    Raises:
        InvalidInput: it is not a valid address.
    """
    url = environ.get(name, "").strip()
    return validate_address(url, name=name) if url else None
