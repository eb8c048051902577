"""How does a knowledge graph recall beside the memory? LightRAG, asked before a turn and fed after it.

`LightRAG.recall` gives what the graph says to a message, within a strict time, or nothing. `LightRAGIndexer` sends
each finished exchange there in the background, from a place in the journal that is kept in the store: what
was not sent when a program ended is sent by the next one. Neither ever raises into a reply.

What the graph says is put into a prompt as quoted data (`Session.context(related=…)`). Answers that rest on
the word of tools or the web are not sent, since nothing would tell them apart when they come back.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, get_args

from reverie.domain.change import JournalEntry
from reverie.domain.conversation import Turn
from reverie.domain.errors import InvalidInput, MissingExtra, ReverieError
from reverie.domain.record import UNTRUSTED
from reverie.domain.text import timestamps
from reverie.domain.text.timestamps import Clock

try:
    import httpx
except ImportError:
    raise MissingExtra("LightRAG is asked over httpx: pip install 'reverie[lightrag]'") from None

if TYPE_CHECKING:
    from reverie.memory import Memory
    from reverie.settings import Settings

_log = logging.getLogger("reverie")

Mode = Literal["local", "global", "hybrid", "naive", "mix"]
MODES: tuple[Mode, ...] = get_args(Mode)

API_KEY = "REVERIE_RAG_API_KEY"
"""The environment variable in which a program may look for the key."""

NOTHING = "[no-context]"
"""What stands in LightRAG's answer when it has found nothing."""

TRIVIAL = frozenset(
    {
        *("hi", "hello", "hey", "bye", "thanks", "thank you", "ok", "okay", "yes", "no"),
        *("привет", "пока", "спасибо", "да", "нет"),
    }
)
"""Messages that are not indexed, whatever is answered to them (golemcore)."""

LONGEST_QUERY = 2_000
LONGEST_SIDE = 20_000
"""Characters of a message that are asked, and of each side of an exchange that are indexed."""

_MOST_BYTES = 2 * 1024 * 1024
_MOST_WAITING = 4
_PAUSE_S = 30.0
_MOST_LATE = 3
_ROWS = 200
_LONGEST_BACKOFF_S = 60.0
_TRAILING = re.compile(r"[!?.,:;]+$")
_SPACES = re.compile(r"\s+")


class LightRAGUnavailable(Exception):
    """LightRAG did not take or answer a request, and may later."""


class LightRAGRejected(Exception):
    """LightRAG takes this request at no time."""


class LightRAG:
    """A LightRAG server. Safe to use from several threads.

    Attributes:
        counts: How often it was `asked`, gave something (`answered`) or nothing (`empty`), was `late`,
            `failed`, or was not asked because it had just failed (`skipped`); and what became of exchanges:
            `indexed`, `trivial`, `untrusted`, `refused`, `index_failed`.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str = "",
        mode: Mode = "hybrid",
        timeout_s: float = 2.0,
        index_timeout_s: float = 30.0,
        top_k: int | None = None,
        answer: bool = False,
        min_length: int = 50,
    ) -> None:
        """Name a server; nothing is asked of it yet.

        Args:
            url: Where its REST API is, such as `http://localhost:9621`.
            api_key: Its key, sent as `X-API-Key`; empty for none.
            mode: How the graph is searched: `local`, `global`, `hybrid`, `naive` or `mix`.
            timeout_s: Seconds that `recall` waits at most, over 0.
            index_timeout_s: Seconds that one exchange may take to be accepted, over 0.
            top_k: Entities or relations that are looked for, 1 or more; None takes the server's own.
            answer: Whether the server's model is to write an answer, which takes seconds; otherwise it gives
                what it has found.
            min_length: Characters of both sides together from which an exchange is indexed, 0 or more.

        Raises:
            InvalidInput: an argument is not of its form.
        """
        if not url.startswith(("http://", "https://")):
            raise InvalidInput(f"url is {url!r}: name a server such as http://localhost:9621")
        if mode not in MODES:
            raise InvalidInput(f"mode is {mode!r}: use one of {', '.join(MODES)}")
        if not timeout_s > 0 or not index_timeout_s > 0:
            raise InvalidInput(f"the timeouts are {timeout_s!r} and {index_timeout_s!r}: they are over 0 s")
        if top_k is not None and top_k < 1:
            raise InvalidInput(f"top_k is {top_k!r}: it is a whole number from 1, or None")
        if min_length < 0:
            raise InvalidInput(f"min_length is {min_length!r}: it is a whole number from 0")
        self.url = url.rstrip("/")
        self.min_length = min_length
        self.counts: Counter[str] = Counter()
        self._query: dict[str, Any] = {"mode": mode, "only_need_context": not answer}
        self._query |= {"include_references": False}
        self._query |= {} if top_k is None else {"top_k": top_k}
        self._timeout_s = timeout_s
        self._index_timeout_s = index_timeout_s
        self._client = httpx.Client(headers={"X-API-Key": api_key} if api_key else {}, trust_env=False)
        self._lock = threading.Lock()
        self._waiting = 0
        self._late = 0
        self._not_before = 0.0

    @classmethod
    def of(cls, settings: Settings, *, api_key: str = "") -> LightRAG | None:
        """The server that settings name by `rag_url`; None where they name none or `rag_enabled` is off.

        Args:
            settings: The settings.
            api_key: Its key, which is no setting.

        Raises:
            InvalidInput: one of them is not of its form.
        """
        if not settings.rag_enabled or settings.rag_url is None:
            return None
        return cls(
            settings.rag_url,
            api_key=api_key,
            mode=settings.rag_mode or "hybrid",  # type: ignore[arg-type]  # checked there
            timeout_s=settings.rag_timeout,
            min_length=settings.rag_min_length,
        )

    def close(self) -> None:
        """Let go of its connections."""
        self._client.close()

    def __enter__(self) -> LightRAG:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- asking ------------------------------------------------------------------------------------------

    def is_healthy(self) -> bool:
        """Whether the server answers now, for a person who wants to know; a turn does not ask first."""
        try:
            with self._client.stream("GET", f"{self.url}/health", timeout=self._timeout_s) as response:
                return response.is_success
        except httpx.HTTPError:
            return False

    def recall(self, message: str) -> str:
        """What the graph says to a message; empty for nothing, and where it fails or takes too long.

        After a failure, or three late answers in a row, it is left alone for half a minute, so that a server
        which is down does not keep every turn waiting.

        Args:
            message: The message; of a long one the first 2,000 characters are asked. What is sent leaves this
                machine where the server is on another one: redact it first (`Session.redact_secrets`).
        """
        query = message.strip()[:LONGEST_QUERY]
        if len(query) < 3:  # LightRAG refuses these
            return ""
        with self._lock:
            busy = self._waiting >= _MOST_WAITING or time.monotonic() < self._not_before
            self.counts["skipped" if busy else "asked"] += 1
            if busy:
                return ""
            self._waiting += 1
        asking = _Asking(lambda: self._query_server(query), done=self._finish_query)
        answer = asking.wait(self._timeout_s)
        if answer is None:
            self._count("late")
            self._late += 1
            if self._late >= _MOST_LATE:
                self._pause()
            _log.warning("LightRAG did not answer in %g s, the reply goes on without", self._timeout_s)
            return ""
        if isinstance(answer, Exception):
            self._count("failed")
            self._pause()
            _log.warning("LightRAG could not be asked, the reply goes on without: %s", answer)
            return ""
        self._late = 0
        self._count("answered" if answer else "empty")
        return answer

    def _pause(self) -> None:
        self._late = 0
        self._not_before = time.monotonic() + _PAUSE_S

    def _finish_query(self) -> None:
        with self._lock:
            self._waiting -= 1

    def _query_server(self, query: str) -> str:
        told = self._post("/query", {"query": query, **self._query}, timeout_s=self._timeout_s)
        text = told.get("response")
        if not isinstance(text, str):
            raise LightRAGUnavailable("its answer to a query has no `response`")
        return "" if NOTHING in text else format_context(text)

    # -- indexing ----------------------------------------------------------------------------------------

    def index(self, text: str, *, source: str) -> None:
        """Have a text indexed; the server does that in its own time.

        Args:
            text: The text.
            source: What the server calls it; the same source and text again changes nothing there.

        Raises:
            Unreachable: it was not taken, and may be later.
            Refused: it is taken at no time.
        """
        body = {"text": text, "file_source": source}
        self._post("/documents/text", body, timeout_s=self._index_timeout_s)

    def _post(self, path: str, body: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        try:
            with self._client.stream("POST", self.url + path, json=body, timeout=timeout_s) as response:
                data = b""
                for piece in response.iter_bytes():
                    data += piece
                    if len(data) > _MOST_BYTES:
                        raise LightRAGUnavailable(f"its answer to {path} has over {_MOST_BYTES:,} bytes")
        except httpx.HTTPError as error:
            raise LightRAGUnavailable(f"{path}: {type(error).__name__}") from error
        if response.status_code in {400, 409, 413, 422}:
            raise LightRAGRejected(f"{path}: status {response.status_code}")
        if not response.is_success:
            raise LightRAGUnavailable(f"{path}: status {response.status_code}")
        try:
            told = json.loads(data)
        except ValueError:
            raise LightRAGUnavailable(f"its answer to {path} is no JSON") from None
        if not isinstance(told, dict):
            raise LightRAGUnavailable(f"its answer to {path} is no JSON object")
        return told

    def _count(self, name: str) -> None:
        with self._lock:
            self.counts[name] += 1


class _Asking:
    """Something that is asked in a thread, so that whoever waits can stop waiting."""

    def __init__(self, ask: Callable[[], str], *, done: Callable[[], None]) -> None:
        self._answer: str | Exception | None = None
        self._is_there = threading.Event()

        def run() -> None:
            try:
                self._answer = ask()
            except (
                LightRAGUnavailable,
                LightRAGRejected,
                RuntimeError,
            ) as error:  # httpx raises the last once it is closed
                self._answer = error
            finally:
                done()
                self._is_there.set()

        threading.Thread(target=run, name="reverie-lightrag", daemon=True).start()

    def wait(self, seconds: float) -> str | Exception | None:
        """The answer, or why there is none; None where it is not there in time."""
        self._is_there.wait(seconds)
        return self._answer


def format_context(context: str) -> str:
    """What the graph has found, a line each: LightRAG gives entities, relations and passages as JSON.

    Lines that are no JSON stay as they are; fences, empty lines and repetitions are left out.

    >>> print(format_context('Entities:\\n{"entity": "Ada", "type": "person", "description": "sails"}'))
    Entities:
    - Ada (person): sails
    """
    lines = (_format_context_line(line.strip()) for line in context.splitlines())
    return "\n".join(dict.fromkeys(line for line in lines if line))


def _format_context_line(line: str) -> str:
    if line.startswith("```") or not line.strip("-"):
        return ""
    if not line.startswith("{"):
        return line
    try:
        told = json.loads(line.rstrip(","))
    except (ValueError, RecursionError):
        return line
    named = [str(told[name]) for name in ("entity", "entity1", "entity2") if told.get(name)]
    said = _SPACES.sub(" ", str(told.get("description") or told.get("content") or "")).strip()
    if not named:
        return f"- {said}" if said else line
    kind = f" ({told['type']})" if told.get("type") else ""
    return f"- {', '.join(named)}{kind}: {said}"


# -- in the background -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedExchange:
    """What the user said and what was answered.

    Attributes:
        asked: The user's turns since the answer before.
        answer: The answer.
    """

    asked: tuple[Turn, ...]
    answer: Turn

    @property
    def source(self) -> str:
        """What LightRAG calls it: `conv_20250115_103100_0f3a9c4d21be.txt`."""
        return f"conv_{self.answer.at:%Y%m%d_%H%M%S}_{self.answer.id}.txt"

    @property
    def text(self) -> str:
        """What is indexed (golemcore's form)."""
        said = "\n".join(turn.content.strip() for turn in self.asked)[:LONGEST_SIDE]
        answered = self.answer.content.strip()[:LONGEST_SIDE]
        return f"Date: {self.answer.at:%Y-%m-%d %H:%M}\nUser: {said}\nAssistant: {answered}\n"

    def left_out(self, *, min_length: int) -> str:
        """Why it is not indexed, `trivial` or `untrusted`; empty where it is.

        Args:
            min_length: Characters of both sides together that it must have.
        """
        if any(turn.origin in UNTRUSTED for turn in (*self.asked, self.answer)):
            return "untrusted"
        said = "\n".join(turn.content for turn in self.asked)
        plain = _TRAILING.sub("", said.strip().lower())
        short = len(said) + len(self.answer.content) < min_length
        return "trivial" if short or plain in TRIVIAL or not self.asked else ""


class LightRAGIndexer:
    """Sends finished exchanges of a memory to LightRAG in a thread; what waits is in the store, not here."""

    def __init__(
        self,
        memory: Memory,
        rag: LightRAG,
        *,
        scope: str = "",
        past: bool = False,
        clock: Clock = timestamps.utc_now,
    ) -> None:
        """Follow a memory; nothing is sent before `start` or `send`.

        Args:
            memory: Whose exchanges.
            rag: Where they are sent. Everybody who may ask that server is told of them.
            scope: Only sessions of this scope; empty for those of none. A server for each scope keeps people
                apart.
            past: Whether to begin with everything that was ever said, where nothing has been sent yet.
            clock: What tells the time.
        """
        self._store = memory._store
        self._rag = rag
        self._scope = scope
        self._clock = clock
        mark = hashlib.sha256(f"{rag.url}\n{scope}".encode()).hexdigest()[:12]
        self._cursor = f"lightrag:{mark}"
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        if self._store.cursor(self._cursor) is None:
            self._move(0 if past else self._store.sequence())

    def start(self, *, every_s: float = 5.0) -> None:
        """Begin to send in the background; a second call does nothing.

        Args:
            every_s: Seconds between two looks, over 0; `wake` makes the next one at once.
        """
        if self._thread is None or not self._thread.is_alive():
            self._stopping.clear()
            self._thread = threading.Thread(
                target=self._run, args=(every_s,), name="reverie-lightrag-indexing", daemon=True
            )
            self._thread.start()

    def wake(self) -> None:
        """Look now whether there is anything to send; returns at once."""
        self._wake.set()

    def stop(self, *, timeout_s: float = 2.0) -> bool:
        """End the thread; call it before the memory is closed.

        Args:
            timeout_s: How many seconds to wait for what is being sent.

        Returns:
            Whether it has ended; what was not acknowledged is sent again by the next one.
        """
        thread, self._thread = self._thread, None
        self._stopping.set()
        self._wake.set()
        if thread is not None:
            thread.join(timeout_s)
        return thread is None or not thread.is_alive()

    def __enter__(self) -> LightRAGIndexer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def waiting(self) -> int:
        """How many exchanges have not been sent yet."""
        rows = self._iter_rows(self._read_cursor())
        return sum(1 for exchange in self._iter_exchanges(rows) if not self._explain_omission(exchange))

    def send(self) -> int:
        """Send what there is now, and return how many exchanges were taken.

        Raises:
            Unreachable: the server did not take one; this and the later ones are sent the next time.
            StoreError: the store cannot be read or written.
        """
        taken = 0
        place = self._read_cursor()
        while rows := self._store.journal(after=place, limit=_ROWS):
            for exchange, at in self._iter_numbered_exchanges(rows):
                if self._stopping.is_set():
                    return taken
                if why := self._explain_omission(exchange):
                    self._rag._count(why)
                    continue
                try:
                    self._rag.index(exchange.text, source=exchange.source)
                except LightRAGRejected as error:
                    _log.warning("LightRAG refuses an exchange, which is left out: %s", error)
                    self._rag._count("refused")
                else:
                    self._rag._count("indexed")
                    taken += 1
                self._move(at)
            place = rows[-1].sequence
            self._move(place)
        return taken

    # -- inside ------------------------------------------------------------------------------------------

    def _run(self, every_s: float) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                self.send()
                failures = 0
            except (LightRAGUnavailable, ReverieError, RuntimeError) as error:  # the last: closed meanwhile
                if self._stopping.is_set():
                    return
                failures += 1
                self._rag._count("index_failed")
                _log.warning("LightRAG did not take an exchange, it is sent again: %s", error)
            if failures:
                self._stopping.wait(min(2.0 ** (failures - 1), _LONGEST_BACKOFF_S))
            else:
                self._wake.wait(every_s)
                self._wake.clear()

    def _read_cursor(self) -> int:
        told = self._store.cursor(self._cursor) or "0"
        return int(told) if told.isdecimal() else 0

    def _move(self, place: int) -> None:
        """Note up to where the journal has been sent; another program may be further."""
        if self._store.cursor(self._cursor) is None or place > self._read_cursor():
            self._store.commit([], actor="lightrag", at=self._clock(), cursors={self._cursor: str(place)})

    def _iter_rows(self, place: int) -> Iterator[JournalEntry]:
        while rows := self._store.journal(after=place, limit=_ROWS):
            yield from rows
            place = rows[-1].sequence

    def _iter_exchanges(self, rows: Iterable[JournalEntry]) -> Iterator[IndexedExchange]:
        return (exchange for exchange, _ in self._iter_numbered_exchanges(rows))

    def _iter_numbered_exchanges(self, rows: Iterable[JournalEntry]) -> Iterator[tuple[IndexedExchange, int]]:
        """The exchanges that rows of the journal complete, each with its row's number."""
        for row in rows:
            answer = row.edit.after if row.edit is not None and row.edit.before is None else None
            if not isinstance(answer, Turn) or answer.role != "assistant" or answer.scope != self._scope:
                continue
            if answer.tool_calls or not answer.content.strip():
                continue
            there = self._store.turns([answer.id])
            if there:  # neither deleted nor forgotten since
                yield IndexedExchange(asked=self._find_questions(there[0]), answer=there[0]), row.sequence

    def _find_questions(self, answer: Turn) -> tuple[Turn, ...]:
        """What the user said before an answer, since the one before it."""
        first = max(0, answer.position - _ROWS)
        asked: list[Turn] = []
        for turn in reversed(self._store.turns(session=answer.session, start=first, stop=answer.position)):
            if turn.role == "assistant" and not turn.tool_calls and turn.content.strip():
                break
            if turn.role == "user":
                asked.insert(0, turn)
        return tuple(asked)

    def _explain_omission(self, exchange: IndexedExchange) -> str:
        return exchange.left_out(min_length=self._rag.min_length)
