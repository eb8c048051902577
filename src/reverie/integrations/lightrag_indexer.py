"""Subscriber of the journal that sends finished exchanges to LightRAG.

A cursor in the store says how far the journal was sent, so that the next program sends what one leaves
undone. Answers that rest on the word of tools or the web are not sent: nothing would tell them apart when
they come back.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reverie.domain.change import JournalEntry
from reverie.domain.conversation import Turn
from reverie.domain.errors import ReverieError
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import UNTRUSTED
from reverie.domain.word_lists import parse_word_set
from reverie.integrations.lightrag import LightRAG, LightRAGRejected, LightRAGUnavailable

if TYPE_CHECKING:
    from reverie.memory import Memory

_log = logging.getLogger("reverie")

TRIVIAL = parse_word_set("hi hello hey bye thanks ok okay yes no привет пока спасибо да нет") | {"thank you"}
"""Messages after which an exchange is not indexed (golemcore)."""

LONGEST_SIDE = 20_000
"""Characters of each side of an exchange that are indexed."""

_BATCH = 200
_LONGEST_BACKOFF_S = 60.0
_TRAILING = defer_regex(r"[!?.,:;]+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedExchange:
    """The user's turns since the last answer, and the answer."""

    asked: tuple[Turn, ...]
    answer: Turn

    @property
    def source(self) -> str:
        """Name of the document: `conv_20250115_103100_0f3a9c4d21be.txt`."""
        return f"conv_{self.answer.at:%Y%m%d_%H%M%S}_{self.answer.id}.txt"

    @property
    def text(self) -> str:
        """Text of the document, in golemcore's form."""
        question = "\n".join(turn.content.strip() for turn in self.asked)[:LONGEST_SIDE]
        answered = self.answer.content.strip()[:LONGEST_SIDE]
        return f"Date: {self.answer.at:%Y-%m-%d %H:%M}\nUser: {question}\nAssistant: {answered}\n"

    def explain_omission(self, *, min_length: int) -> str:
        """Return why it is not indexed, `trivial` or `untrusted`; empty where it is."""
        if any(turn.origin in UNTRUSTED for turn in (*self.asked, self.answer)):
            return "untrusted"
        question = "\n".join(turn.content for turn in self.asked)
        is_short = len(question) + len(self.answer.content) < min_length
        is_trivial = _TRAILING.sub("", question.strip().lower()) in TRIVIAL
        return "trivial" if is_short or is_trivial or not self.asked else ""


class LightRAGIndexer:
    """Sends the finished exchanges of a memory to LightRAG, at once or in a thread."""

    def __init__(self, memory: Memory, rag: LightRAG, *, scope: str = "", past: bool = False) -> None:
        """Create an indexer; nothing is sent before `start` or `send`.

        Args:
            scope: Only sessions of this scope. Everybody who may ask the server sees what is sent there, so
                use a server for each scope.
            past: Whether to begin with everything that was ever said, where nothing has been sent yet.
        """
        self._store = memory._store
        self._rag = rag
        self._scope = scope
        self._clock = memory._clock
        mark = hashlib.sha256(f"{rag.url}\n{scope}".encode()).hexdigest()[:12]
        self._cursor = f"lightrag:{mark}"
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        if self._store.cursor(self._cursor) is None:
            self._write_cursor(0 if past else self._store.sequence())

    def start(self, *, every_s: float = 5.0) -> None:
        """Start to send in a thread, looking every `every_s` seconds; a second call does nothing."""
        if self._thread is None or not self._thread.is_alive():
            self._stopping.clear()
            self._thread = threading.Thread(
                target=self._loop, args=(every_s,), name="reverie-lightrag-indexing", daemon=True
            )
            self._thread.start()

    def wake(self) -> None:
        """Make the thread look now, and return at once."""
        self._wake.set()

    def stop(self, *, timeout_s: float = 2.0) -> bool:
        """Stop the thread; call it before the memory is closed. Return whether it has ended in time."""
        thread, self._thread = self._thread, None
        self._stopping.set()
        self._wake.set()
        if thread is not None:
            thread.join(timeout_s)
        return thread is None or not thread.is_alive()

    def __enter__(self) -> LightRAGIndexer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def waiting(self) -> int:
        """Return how many exchanges have not been sent yet."""
        return sum(
            exchange is not None and not self._explain_omission(exchange) for _, exchange in self._read()
        )

    def send(self) -> int:
        """Send what there is now, and return how many exchanges were accepted.

        Raises:
            LightRAGUnavailable: the server did not accept one; it is sent again the next time.
            StoreError: the store cannot be read or written.
        """
        accepted = 0
        for place, exchange in self._read():
            if exchange is not None:
                if self._stopping.is_set():
                    return accepted
                if why := self._explain_omission(exchange):
                    self._rag.count(why)
                    continue
                try:
                    self._rag.index(exchange.text, source=exchange.source)
                except LightRAGRejected as error:
                    _log.warning("LightRAG refuses an exchange, which is left out: %s", error)
                    self._rag.count("refused")
                else:
                    self._rag.count("indexed")
                    accepted += 1
            self._write_cursor(place)
        return accepted

    def _loop(self, every_s: float) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                self.send()
                failures = 0
            except (LightRAGUnavailable, ReverieError, RuntimeError) as error:  # the last: closed meanwhile
                if self._stopping.is_set():
                    return
                failures += 1
                self._rag.count("index_failed")
                _log.warning("LightRAG did not take an exchange, it is sent again: %s", error)
            if failures:
                self._stopping.wait(min(2.0 ** (failures - 1), _LONGEST_BACKOFF_S))
            else:
                self._wake.wait(every_s)
                self._wake.clear()

    # -- the journal -------------------------------------------------------------------------------------

    def _read_cursor(self) -> int:
        text = self._store.cursor(self._cursor) or "0"
        return int(text) if text.isdecimal() else 0

    def _write_cursor(self, place: int) -> None:
        """Note how far the journal was sent; another program may be further."""
        if self._store.cursor(self._cursor) is None or place > self._read_cursor():
            self._store.commit([], actor="lightrag", at=self._clock(), cursors={self._cursor: str(place)})

    def _read(self) -> Iterator[tuple[int, IndexedExchange | None]]:
        """Yield each exchange with the number of its journal entry, and the end of each batch with None."""
        place = self._read_cursor()
        while entries := self._store.journal(after=place, limit=_BATCH):
            for entry in entries:
                if exchange := self._find_exchange(entry):
                    yield entry.sequence, exchange
            place = entries[-1].sequence
            yield place, None

    def _find_exchange(self, entry: JournalEntry) -> IndexedExchange | None:
        """Return the exchange that a journal entry completes; None where it was deleted since."""
        answer = entry.after if entry.before is None else None
        if not isinstance(answer, Turn) or not _is_answer(answer) or answer.scope != self._scope:
            return None
        stored = self._store.turns([answer.id])
        return IndexedExchange(asked=self._find_questions(stored[0]), answer=stored[0]) if stored else None

    def _find_questions(self, answer: Turn) -> tuple[Turn, ...]:
        """Return what the user said between the answer before and this one."""
        first = max(0, answer.position - _BATCH)
        asked: list[Turn] = []
        for turn in reversed(self._store.turns(session=answer.session, start=first, stop=answer.position)):
            if _is_answer(turn):
                break
            if turn.role == "user":
                asked.insert(0, turn)
        return tuple(asked)

    def _explain_omission(self, exchange: IndexedExchange) -> str:
        return exchange.explain_omission(min_length=self._rag.min_length)


def _is_answer(turn: Turn) -> bool:
    return turn.role == "assistant" and not turn.tool_calls and bool(turn.content.strip())
