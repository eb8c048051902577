"""Client of a LightRAG server: a knowledge graph that is asked in addition to the memory.

`LightRAG` asks it before a turn, and indexes turns after it, on a thread of its own.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Literal, get_args

from reverie.domain.change import JournalEntry
from reverie.domain.conversation import Turn
from reverie.domain.errors import InvalidInput, MissingExtra, ReverieError
from reverie.domain.lazy_regex import defer_regex, parse_word_set
from reverie.domain.record import UNTRUSTED, validate_choice
from reverie.domain.scope import EVERY_SCOPE
from reverie.domain.text.validation import validate_address, validate_count

if TYPE_CHECKING:
    from reverie.memory import Memory
    from reverie.settings import Settings

try:
    import httpx
except ImportError:
    raise MissingExtra("LightRAG is asked over httpx: pip install 'reverie[lightrag]'") from None


_log = logging.getLogger("reverie")

Mode = Literal["local", "global", "hybrid", "naive", "mix"]
MODES: tuple[Mode, ...] = get_args(Mode)

API_KEY = "REVERIE_RAG_API_KEY"
"""Environment variable with the key."""

NOTHING = "[no-context]"
"""Mark in an answer of LightRAG that has found nothing."""

LONGEST_QUERY = 2_000
"""Characters of a message that are sent as a query."""

_MOST_WAITING = 4
_PAUSE_S = 30.0
_INDEX_TIMEOUT_S = 10.0
_SPACES = defer_regex(r"\s+")


class LightRAGUnavailable(Exception):
    """LightRAG did not accept or answer a request, and may later."""


class LightRAGRejected(Exception):
    """LightRAG will never accept this request."""


class LightRAG:
    """Client of one server. Safe to use from several threads."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str = "",
        mode: Mode = "hybrid",
        timeout_s: float = 2.0,
        min_length: int = 50,
    ) -> None:
        """Create a client; nothing is sent yet.

        Args:
            url: Address of the REST API, such as `http://localhost:9621`.
            api_key: Key, sent as `X-API-Key`; empty for none.
            mode: How the graph is searched: `local`, `global`, `hybrid`, `naive` or `mix`.
            timeout_s: Seconds that `recall` waits at most, over 0.
            min_length: Characters of both sides together from which an exchange is indexed, 0 or more.

        Raises:
            InvalidInput: an argument is not of its form.
        """
        validate_address(url, name="url", example="http://localhost:9621")
        validate_choice(mode, MODES, name="mode")
        if not timeout_s > 0:
            raise InvalidInput(f"timeout_s is {timeout_s!r}: pass a number over 0")
        self.url = url.rstrip("/")
        self.min_length = validate_count(min_length, name="min_length", least=0)
        self._query = {"mode": mode, "only_need_context": True, "include_references": False}
        self._timeout_s = timeout_s
        self._client = httpx.Client(headers={"X-API-Key": api_key} if api_key else {}, trust_env=False)
        self._threads = ThreadPoolExecutor(_MOST_WAITING, thread_name_prefix="reverie-lightrag")
        self._not_before = 0.0

    @classmethod
    def from_settings(cls, settings: Settings, *, api_key: str = "") -> LightRAG | None:
        """Return the client for the setting `rag_url`; None where it is unset or `rag_enabled` is off.

        Raises:
            InvalidInput: a setting is not of its form.
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
        """Close the connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def __enter__(self) -> LightRAG:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- asking ------------------------------------------------------------------------------------------

    def recall(self, message: str) -> str:
        """Return what the graph says about a message; empty for nothing, a failure, or a late answer.

        After a failure or a late answer the server is not asked for half a minute, so that a broken server does not
        delay every turn.

        Args:
            message: The message; only its first 2,000 characters are sent. They leave this machine if the
                server is on another one: redact them first (`Session.redact_secrets`).
        """
        query = message.strip()[:LONGEST_QUERY]
        if len(query) < 3:  # LightRAG refuses these
            return ""
        if time.monotonic() < self._not_before:
            return ""
        try:
            return self._threads.submit(self._query_server, query).result(self._timeout_s)
        except TimeoutError:
            problem = f"it did not answer in {self._timeout_s:g} s"
        except (LightRAGUnavailable, LightRAGRejected, RuntimeError) as error:  # the last: it was closed
            problem = str(error)
        self._not_before = time.monotonic() + _PAUSE_S
        _log.warning("LightRAG could not be asked, the reply goes on without: %s", problem)
        return ""

    def _query_server(self, query: str) -> str:
        reply = self._post("/query", {"query": query, **self._query}, timeout_s=self._timeout_s)
        text = reply.get("response")
        if not isinstance(text, str):
            raise LightRAGUnavailable("its answer to a query has no `response`")
        return "" if NOTHING in text else format_context(text)

    # -- indexing ----------------------------------------------------------------------------------------

    def index(self, text: str, *, source: str) -> None:
        """Send a text to be indexed; the server does that in its own time.

        Args:
            source: Name of the text. The same name and text again changes nothing.

        Raises:
            LightRAGUnavailable: it was not accepted, and may be later.
            LightRAGRejected: it will never be accepted.
        """
        body = {"text": text, "file_source": source}
        self._post("/documents/text", body, timeout_s=_INDEX_TIMEOUT_S)

    def _post(self, path: str, body: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        try:
            response = self._client.post(self.url + path, json=body, timeout=timeout_s)
        except httpx.HTTPError as error:
            raise LightRAGUnavailable(f"{path}: {type(error).__name__}") from error
        if response.status_code in {400, 409, 413, 422}:
            raise LightRAGRejected(f"{path}: status {response.status_code}")
        if not response.is_success:
            raise LightRAGUnavailable(f"{path}: status {response.status_code}")
        try:
            reply = response.json()
        except ValueError:
            raise LightRAGUnavailable(f"its answer to {path} is not JSON") from None
        if not isinstance(reply, dict):
            raise LightRAGUnavailable(f"its answer to {path} is not a JSON object")
        return reply


def format_context(context: str) -> str:
    r"""Return the entities, relations and passages that LightRAG gives as JSON, a line each.

    Other lines stay as they are; fences, empty lines and repetitions are left out.

    >>> print(format_context('Entities:\n{"entity": "Ada", "type": "person", "description": "sails"}'))
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
        item = json.loads(line.rstrip(","))
    except (ValueError, RecursionError):
        return line
    named = [str(item[name]) for name in ("entity", "entity1", "entity2") if item.get(name)]
    description = _SPACES.sub(" ", str(item.get("description") or item.get("content") or "")).strip()
    if not named:
        return f"- {description}" if description else line
    kind = f" ({item['type']})" if item.get("type") else ""
    return f"- {', '.join(named)}{kind}: {description}"


TRIVIAL = parse_word_set("hi hello hey bye thanks ok okay yes no привет пока спасибо да нет") | {"thank you"}
"""Messages after which an exchange is not indexed (golemcore)."""

LONGEST_SIDE = 20_000
"""Characters of each side of an exchange that are indexed."""

_BATCH = 200
_CLOSE_TIMEOUT_S = 2.0
_TRAILING = defer_regex(r"[!?.,:;]+$")


class LightRAGIndexer:
    """Sends the finished exchanges of a memory to LightRAG, at once or on a thread.

    An exchange that the server does not accept is sent again by the next call, also in another process.
    """

    def __init__(self, memory: Memory, rag: LightRAG, *, scope: str = "") -> None:
        """Create an indexer; nothing is sent before `wake` or `send`, and nothing that was said before the first.

        Args:
            scope: Only sessions of this scope. Everybody who may ask the server sees what is sent there, so
                use a server for each scope.
        """
        self._cursors = memory.admin.cursors
        self._history = memory.history
        self._reader = memory.scoped(EVERY_SCOPE)
        self._rag = rag
        self._scope = scope
        mark = hashlib.sha256(f"{rag.url}\n{scope}".encode()).hexdigest()[:12]
        self._cursor = f"lightrag:{mark}"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reverie-lightrag-indexing")
        self._is_closing = threading.Event()
        if self._cursors.get(self._cursor) is None:
            self._write_cursor(self._history.sequence())

    def wake(self) -> Future[None]:
        """Send what there is on the thread, and return at once."""
        return self._thread.submit(self._send_safely)

    def close(self) -> None:
        """Send what there is for at most two seconds; call it before the memory is closed."""
        wait([self.wake()], _CLOSE_TIMEOUT_S)
        self._is_closing.set()
        self._thread.shutdown(cancel_futures=True)

    def __enter__(self) -> LightRAGIndexer:
        self.wake()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self) -> int:
        """Send what there is now, and return how many exchanges were accepted.

        Raises:
            LightRAGUnavailable: the server did not accept one; it is sent again the next time.
            StoreError: the store cannot be read or written.
        """
        accepted = 0
        place = self._read_cursor()
        while entries := self._history.log(after=place, limit=_BATCH):
            for entry in entries:
                if self._is_closing.is_set():
                    return accepted
                if self._send_exchange(entry):
                    accepted += 1
                    self._write_cursor(entry.sequence)
            place = entries[-1].sequence
            self._write_cursor(place)
        return accepted

    def _send_safely(self) -> None:
        try:
            self.send()
        except (LightRAGUnavailable, ReverieError, RuntimeError) as error:  # the last: the client was closed
            _log.warning("LightRAG did not take an exchange, it is sent again: %s", error)

    def _send_exchange(self, entry: JournalEntry) -> bool:
        """Send the exchange that a journal entry completes; return whether there is one, and it was accepted."""
        answer = entry.after if entry.before is None else None
        if not isinstance(answer, Turn) or not _is_answer(answer) or answer.scope != self._scope:
            return False
        stored = self._reader.get_turn(answer.id)
        if stored is None:  # it was deleted since
            return False
        asked = self._find_questions(stored)
        question = "\n".join(turn.content.strip() for turn in asked)
        if not self._is_worth_sending(asked, question, stored):
            return False
        sides = question[:LONGEST_SIDE], stored.content.strip()[:LONGEST_SIDE]
        text = f"Date: {stored.at:%Y-%m-%d %H:%M}\nUser: {sides[0]}\nAssistant: {sides[1]}\n"
        try:
            self._rag.index(text, source=f"conv_{stored.at:%Y%m%d_%H%M%S}_{stored.id}.txt")
        except LightRAGRejected as error:
            _log.warning("LightRAG refuses an exchange, which is left out: %s", error)
            return False
        return True

    def _is_worth_sending(self, asked: Sequence[Turn], question: str, answer: Turn) -> bool:
        """Return whether an exchange is trusted, and says something."""
        is_trusted = not any(turn.origin in UNTRUSTED for turn in (*asked, answer))
        is_long = len(question) + len(answer.content) >= self._rag.min_length
        return is_trusted and is_long and bool(asked) and _TRAILING.sub("", question.lower()) not in TRIVIAL

    def _find_questions(self, answer: Turn) -> Sequence[Turn]:
        """Return what the user said between the answer before and this one."""
        asked: list[Turn] = []
        first = max(0, answer.position - _BATCH)
        for turn in self._reader.turns(answer.session, start=first, stop=answer.position):
            asked = [] if _is_answer(turn) else [*asked, turn]
        return [turn for turn in asked if turn.role == "user"]

    # -- the journal -------------------------------------------------------------------------------------

    def _read_cursor(self) -> int:
        text = self._cursors.get(self._cursor) or "0"
        return int(text) if text.isdecimal() else 0

    def _write_cursor(self, place: int) -> None:
        """Note how far the journal was sent; another program may be further."""
        if self._cursors.get(self._cursor) is None or place > self._read_cursor():
            self._cursors.set({self._cursor: str(place)})


def _is_answer(turn: Turn) -> bool:
    return turn.role == "assistant" and not turn.tool_calls and bool(turn.content.strip())
