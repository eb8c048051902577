"""Servers of language models: requests over HTTP, retries, deadlines, forms of answers, errors and costs.

A request for JSON has a schema as a parameter. If the server refuses that, it is asked for JSON with the schema in the
message, then with the message alone. A form that a server refused is not tried again.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPException
from importlib.resources import files
from typing import Any, Literal, TypeVar

from reverie.domain.conversation import ToolCall
from reverie.domain.errors import ModelRefused, ModelTimeout, ModelUnavailable
from reverie.domain.text.validation import validate_address
from reverie.llm.protocol import (
    ChatMessage,
    ModelReply,
    ModelRequest,
    OnText,
    Price,
    find_known_model,
)

T = TypeVar("T")


# -- retries and deadlines -------------------------------------------------------------------------------

TRANSIENT = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
"""HTTP status codes after which another try may succeed."""

LONGEST_PAUSE_S = 8.0
_FIRST_PAUSE_S = 0.5


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Number and duration of the attempts of a request.

    Attributes:
        tries: Most tries, 1 or more.
        sleep: Waits for some seconds; tests pass their own.
        chance: Returns a random number from 0 to 1; tests pass their own.
    """

    tries: int = 3
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random

    def tried(self, call: Callable[[float], T], *, timeout_s: float, who: str) -> T:
        """Return the result of `call`, repeated with growing random pauses while it raises `RetryableError`.

        The pauses double from half a second to eight, each reduced by up to a half at random ("equal jitter", AWS
        Architecture Blog, 2015). A server's own pause is used if it fits into the remaining time.

        Args:
            call: Receives the remaining seconds. Raises `RetryableError` if another try may succeed.
            timeout_s: Seconds for all tries and pauses together.
            who: The model's name, for the error.

        Raises:
            ModelTimeout: the time ran out.
            ModelUnavailable: the tries ran out.
        """
        end = time.monotonic() + timeout_s
        for number in range(1, self.tries + 1):
            try:
                return call_with_deadline(end - time.monotonic(), call)
            except RetryableError as failure:
                left = end - time.monotonic()
                pause = self._compute_pause(number, failure.after_s)
                if number == self.tries or pause >= left:
                    tries = "once" if number == 1 else f"{number} times"
                    if isinstance(failure, AttemptTimeout):
                        raise ModelTimeout(f"{who} gave no answer within {timeout_s:g} s") from failure
                    raise ModelUnavailable(
                        f"{who} was asked {tries} without an answer: {failure}"
                    ) from failure
                self.sleep(pause)
        raise AssertionError("unreachable: the last try returns or raises")

    def _compute_pause(self, number: int, wished: float | None) -> float:
        if wished is not None and wished >= 0:
            return wished
        longest: float = min(LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (number - 1))
        return longest * (0.5 + self.chance() / 2)


class StreamRelay:
    """Passes on the pieces of an answer until it is closed, and allows no other try once it has passed one on."""

    def __init__(self, on_text: Callable[[str], None] | None) -> None:
        self._on_text = on_text
        self.wanted = on_text is not None
        self._begun = False
        self._closed = False

    def close(self) -> None:
        """Let every later piece fail, which ends the thread of a try that was abandoned."""
        self._closed = True

    def __call__(self, text: str) -> None:
        """Pass a piece on."""
        if self._closed:
            raise RetryableError("no time was left")
        if self._on_text is not None and text:
            self._begun = True
            self._on_text(text)

    def guarded(self, call: Callable[[], T]) -> T:
        """Return the result of `call`. A failure after a piece was passed on is final."""
        try:
            return call()
        except RetryableError as failure:
            if not self._begun:
                raise
            raise ModelUnavailable(f"the answer broke off after it had begun: {failure}") from failure


def call_with_deadline(seconds: float, call: Callable[[float], T]) -> T:
    """Call a function, and raise `RetryableError` if it takes too long.

    The timeout of a client applies to single reads, so a slow server could block it for ever. Therefore the call runs
    on a thread, which is abandoned at the deadline and ends with its socket.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call(seconds))
        except BaseException as error:  # noqa: BLE001 - carried over to the thread that waits, not swallowed
            outcome.set_exception(error)

    if seconds <= 0:
        raise AttemptTimeout("no time was left")
    thread = threading.Thread(target=run, name="reverie-model", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome.done():
        raise AttemptTimeout(f"no answer within {seconds:.1f} s")
    return outcome.result()


# -- requests over HTTP ----------------------------------------------------------------------------------

_LONGEST_ERROR = 10_000


class FormatRejected(Exception):
    """The server refused the request; a simpler one may succeed."""


class JsonServer:
    """One address that takes and gives JSON. Safe to use from several threads.

    Args:
        who: Name of the model, for errors.
        url: The address.
        headers: Headers of each request, such as the key.
    """

    def __init__(self, who: str, url: str, headers: Mapping[str, str]) -> None:
        self._who = who
        self._url = url
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
            with urllib.request.urlopen(request, timeout=timeout_s) as response:
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

Form = Literal["schema", "json", "words"]


_OPTIONAL = ("max_tokens", "temperature", "stream_options")
"""Arguments that are left out if a refusal names them."""


def append_schema(messages: Sequence[ChatMessage], schema: Mapping[str, Any]) -> tuple[ChatMessage, ...]:
    """Return the messages with the schema in words at the end of the user's last one."""
    text = files("reverie.llm").joinpath("json-answer.md").read_text(encoding="utf-8")
    instruction = text.replace("{schema}", json.dumps(dict(schema), indent=2, ensure_ascii=False)).strip()
    last = max((n for n, message in enumerate(messages) if message.role == "user"), default=None)
    if last is None:
        return (*messages, ChatMessage(role="user", content=instruction))
    asked = replace(messages[last], content=f"{messages[last].content}\n\n{instruction}")
    return (*messages[:last], asked, *messages[last + 1 :])


# -- providers -------------------------------------------------------------------------------------------


class ProviderModel(ABC):
    """Model on a server.

    Args:
        name: `provider:model`.
        server: The server.
        forms: Forms in which the server may take a schema, the strictest first.
        price: Price of its tokens; None takes the known one.
        patience: Tries and pauses of a request.
    """

    def __init__(
        self,
        name: str,
        server: JsonServer,
        forms: Sequence[Form],
        *,
        price: Price | None,
        patience: RetryPolicy | None,
    ) -> None:
        self.name = name
        self._model = name.partition(":")[2]
        self._server = server
        self._price = price
        self._patience = patience or RetryPolicy()
        self._forms: tuple[Form | None, ...] = tuple(forms)
        self._left_out: frozenset[str] = frozenset()

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
        known = find_known_model(self.name)
        price = self._price or (None if known is None else known.price)
        return replace(reply, usage=usage if price is None else price.of(usage))

    def _answer_once(self, request: ModelRequest, left_s: float, relay: StreamRelay) -> ModelReply:
        """Answer in the strictest form that the server accepts.

        A simpler form is remembered only if it succeeds. A request that is refused in every form has another error,
        which the first refusal states.
        """
        refusal: FormatRejected | None = None
        forms = (
            self._forms if request.schema is not None else (None,)
        )  # other threads may replace them meanwhile
        for number, form in enumerate(forms):
            try:
                reply = self._request(request, form, left_s, relay)
            except FormatRejected as error:
                refusal = refusal or error
                continue
            self._forms = self._forms if form is None else forms[number:]
            return reply
        raise ModelRefused(str(refusal)) from refusal

    def _request(
        self, request: ModelRequest, form: Form | None, left_s: float, relay: StreamRelay
    ) -> ModelReply:
        """Send a request, and repeat it without an argument that the server does not know."""
        body = {"model": self._model, **self._build_body(request, form)}
        body |= {"stream": True} if relay.wanted and self._may_stream(form) else {}
        while True:
            accepted = self._select_accepted(body)
            try:
                if "stream" in accepted:
                    return self._collect_reply(self._server.stream(accepted, left_s), relay)
                reply = self._parse_reply(self._server.send(accepted, left_s), form)
                relay(reply.text)
                return reply
            except FormatRejected as error:
                named = next(
                    (
                        each
                        for each in _OPTIONAL
                        if each in accepted and re.search(rf"\b{each}\b", str(error))
                    ),
                    None,
                )
                if named is None:
                    raise
                self._left_out |= {named}
            except (KeyError, TypeError, IndexError, AttributeError) as error:
                raise RetryableError("the answer is not of the form that was asked for") from error

    def _may_stream(self, form: Form | None) -> bool:
        return True

    def _select_accepted(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a request that the server has not refused."""
        return {name: value for name, value in body.items() if name not in self._left_out}

    @abstractmethod
    def _build_body(self, request: ModelRequest, form: Form | None) -> dict[str, Any]:
        """Return the arguments of a request."""

    @abstractmethod
    def _parse_reply(self, answer: Any, form: Form | None) -> ModelReply:
        """Return a whole answer as a reply."""

    @abstractmethod
    def _collect_reply(self, pieces: Iterator[Any], relay: StreamRelay) -> ModelReply:
        """Return a streamed answer as a reply; `RetryableError` if it breaks off."""


def join_calls(calls: Mapping[int, Mapping[str, str]]) -> tuple[ToolCall, ...]:
    """Return the calls of tools whose parts were collected from a streamed answer."""
    return tuple(ToolCall(**{**call, "arguments": call["arguments"] or "{}"}) for call in calls.values())


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


def read_openai_server(environ: Mapping[str, str], model: str) -> tuple[str | None, str | None]:
    """Return the key and the address of `OPENAI_API_KEY` and `OPENAI_BASE_URL`.

    Raises:
        ModelRefused: neither is set.
    """
    key, url = read_key(environ, "OPENAI_API_KEY"), read_address(environ, "OPENAI_BASE_URL")
    if not key and not url:
        raise ModelRefused(
            f"openai:{model} needs OPENAI_API_KEY, or OPENAI_BASE_URL for a server that asks for no key"
        )
    return key, url


def read_ollama_address(environ: Mapping[str, str]) -> str:
    """Return the address of `OLLAMA_HOST`, `http://127.0.0.1:11434` if that is not set, with `/v1`.

    Raises:
        InvalidInput: it is not a valid address.
    """
    host = environ.get("OLLAMA_HOST", "").strip() or "127.0.0.1:11434"
    address = host if "://" in host else f"http://{host}"
    return f"{validate_address(address, name='OLLAMA_HOST').rstrip('/')}/v1"
