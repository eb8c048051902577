"""Deadlines over all tries of a request, and pauses between them."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from reverie.domain.errors import ModelUnavailable

T = TypeVar("T")

TRANSIENT = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
"""HTTP status codes after which another try may work."""

LONGEST_PAUSE_S = 8.0
_FIRST_PAUSE_S = 0.5


class RetryableError(Exception):
    """A failed try after which another may work.

    Args:
        why: What went wrong, in words.
        after_s: How many seconds the server asked to wait; None if it did not say.
    """

    def __init__(self, why: str, *, after_s: float | None = None) -> None:
        super().__init__(why)
        self.after_s = after_s


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

        The pauses double from half a second to eight, each between half and all of it by chance ("equal
        jitter", AWS Architecture Blog, 2015); a server's own wish counts where it fits the time left.

        Args:
            call: Receives the seconds that are left. Raises `RetryableError` when another try may work.
            timeout_s: For all tries and pauses together.
            who: The model's name, for the error.

        Raises:
            ModelUnavailable: the time or the tries ran out.
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


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds a server asks to wait; None if it does not say."""
    try:
        return float(headers["retry-after"])
    except (KeyError, ValueError):
        return None


def call_with_deadline(seconds: float, call: Callable[[float], T]) -> T:
    """Call a function, and raise `RetryableError` if it takes too long.

    A client's own timeout counts from byte to byte, so a server that sends slowly would hold it for ever.
    The call therefore runs on a thread, which is abandoned when the time is up and ends with its socket.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call(seconds))
        except BaseException as error:  # noqa: BLE001 - carried over to the thread that waits, not swallowed
            outcome.set_exception(error)

    if seconds <= 0:
        raise RetryableError("no time was left")
    thread = threading.Thread(target=run, name="reverie-model", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome.done():
        raise RetryableError(f"no answer within {seconds:.1f} s")
    return outcome.result()
