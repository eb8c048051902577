"""agentkit's memory over a memory: findings, insights and lessons (FIL), and a scratchpad.

`Store` has the operations of its `Store` under their names in Python, and those of its two adapters: `ToolsAdapter` for
the tools package, and `BleveObservationStore` for the executor.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reverie.consolidation.sentences import TRIGGER, split_sentences
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.record import FIL as KINDS
from reverie.domain.record import Record
from reverie.repositories.records import NewRecord
from reverie.scoped import ScopedMemory
from reverie.tools.trust_guard import OriginGuard


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Findings, insights and lessons of one step.

    Attributes:
        findings: Facts discovered, such as "API rate limit is 100/min".
        insights: Conclusions, such as "REST suits this better than GraphQL".
        lessons: Guidance for the future, such as "Avoid library X: no types".
        step_name: Name of the step.
        step_type: Type of the step, such as `GOAL`, `AGENT` or `RUN`.
    """

    findings: tuple[str, ...] = ()
    insights: tuple[str, ...] = ()
    lessons: tuple[str, ...] = ()
    step_name: str = ""
    step_type: str = ""

    @property
    def source(self) -> str:
        """Source of its records, as agentkit writes it: `GOAL:deploy-api`."""
        return ":".join(part for part in (self.step_type, self.step_name) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationItem:
    """A stored observation (agentkit's Memory and MemoryResult).

    Attributes:
        id: Its id.
        content: Its text.
        category: `finding`, `insight` or `lesson`.
        source: Where it came from, such as `GOAL:check-database`.
        created_at: When it was made.
        score: How well it answers the question, 0 to 1; 0 without a question.
    """

    id: str
    content: str
    category: str
    source: str
    created_at: datetime
    score: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FILResult:
    """Texts of findings, insights and lessons about one question, each best first."""

    findings: list[str]
    insights: list[str]
    lessons: list[str]


class Store:
    """Memory with agentkit's operations. The memory itself stays open when the store is closed.

    Example:
        >>> from reverie import Memory
        >>> memory = Memory.open(":memory:")
        >>> store = Store(memory)
        >>> id = store.remember_observation("PostgreSQL version is 15.2", "finding", "GOAL:check-database")
        >>> store.recall_by_category("PostgreSQL", "finding", 5)
        ['PostgreSQL version is 15.2']
        >>> store.set("api.endpoint", "https://api.example.com")
        >>> store.get("api.endpoint"), store.list("api.")
        ('https://api.example.com', ['api.endpoint'])
        >>> memory.close()
    """

    def __init__(self, memory: ScopedMemory, *, session: str | None = None) -> None:
        """Create the store.

        Args:
            memory: The memory, or a scope of one.
            session: The conversation in which a model calls it. After the result of a tool, a text that the
                owner did not say has the origin of the tool. None where a program calls it.
        """
        self._memory = memory
        self._guard = OriginGuard(None if session is None else memory.session(session))
        self._values = memory.key_value("agentkit")

    def remember_observation(self, content: str, category: str, source: str = "") -> str:
        """Save an observation; return the id of its record.

        Args:
            content: Its text.
            category: `finding`, `insight` or `lesson`.
            source: Where it came from, such as `GOAL:check-database`.

        Raises:
            InvalidInput: an argument is not of its form.
        """
        if category not in KINDS:
            raise InvalidInput(f"Invalid category {category!r}. Use one of {', '.join(KINDS)}.")
        texts = {kind: [content] if kind == category else [] for kind in KINDS}
        return self.remember_fil(texts["finding"], texts["insight"], texts["lesson"], source)[0]

    def remember_fil(
        self,
        findings: Iterable[str] = (),
        insights: Iterable[str] = (),
        lessons: Iterable[str] = (),
        source: str = "",
    ) -> builtins.list[str]:
        """Save findings, insights and lessons in one transaction; return the ids of their records.

        Args:
            findings: Facts discovered.
            insights: Conclusions drawn.
            lessons: Guidance for the future.
            source: Where they came from, such as `GOAL:deploy`.

        Raises:
            InvalidInput: one of them is not of its form; nothing was changed.
        """
        for name, texts in (("findings", findings), ("insights", insights), ("lessons", lessons)):
            if isinstance(texts, str):
                raise InvalidInput(f"{name} are {texts!r}: pass a list, such as [{texts!r}]")
        records = [
            NewRecord(content=text, kind=kind, source=source, origin=self._guard.determine(text))
            for kind, texts in zip(KINDS, (findings, insights, lessons), strict=True)
            for text in texts
        ]
        return [saved.record.id for saved in self._memory.save_many(records)]

    def store_observation(self, observation: Observation) -> list[str]:
        """Save what was learned in a step; return the ids of the records."""
        return self.remember_fil(
            observation.findings, observation.insights, observation.lessons, observation.source
        )

    def retrieve_by_id(self, id: str) -> ObservationItem | None:
        """Return an observation; None if there is none of that id."""
        record = self._memory.get(id)
        return _build_item(record) if record is not None and record.kind in KINDS else None

    def recall_by_category(self, query: str, category: str, limit: int = 5) -> list[str]:
        """Return the texts of one category that answer a question, best first."""
        where: dict[str, Any] = {"kind" if category in KINDS else "category": category}
        return [hit.content for hit in self._memory.search(query, limit=limit, **where)]

    def recall_fil(self, query: str, limit_per_category: int = 5) -> FILResult:
        """Return the findings, insights and lessons that answer a question."""
        findings, insights, lessons = (
            self.recall_by_category(query, kind, limit_per_category) for kind in KINDS
        )
        return FILResult(findings=findings, insights=insights, lessons=lessons)

    def query_relevant_observations(self, query: str, limit: int = 5) -> list[str]:
        """Return the texts of observations of all categories that answer a question, best first."""
        return [item.content for item in self.recall(query, limit)]

    def recall(self, query: str, limit: int = 10, *, min_score: float = 0.0) -> list[ObservationItem]:
        """Return observations of all categories that answer a question, best first.

        Args:
            query: The question.
            limit: Most of them.
            min_score: Least score of each, 0 to 1.
        """
        hits = self._memory.search(query, limit=limit, min_score=min_score, kind=KINDS)
        return [_build_item(hit.record, hit.score) for hit in hits if hit.record is not None]

    def get(self, key: str) -> str:
        """Return the value of a key.

        Raises:
            NotFound: the key has none.
        """
        item = self._values.get((), key)
        if item is None:
            raise NotFound(f"No key {key!r}. List the keys with `list`.")
        return str(item.value["value"])

    def set(self, key: str, value: str) -> None:
        """Store a value under a key, instead of the one that is there."""
        self._values.put((), key, {"value": value})

    def list(self, prefix: str = "") -> builtins.list[str]:
        """Return the keys that begin with a text, in order."""
        return sorted(item.key for item in self._values.items() if item.key.startswith(prefix))

    def search(self, query: str) -> builtins.list[tuple[str, str]]:
        """Return the keys and values that contain a text, whatever its case, in the order of the keys."""
        wanted = query.casefold()
        found = ((item.key, str(item.value["value"])) for item in self._values.items())
        return sorted(pair for pair in found if any(wanted in text.casefold() for text in pair))

    def consolidate_session(self, session_id: str, transcript: Iterable[Mapping[str, str]] = ()) -> None:
        """Store a transcript, and save what it concluded as insights.

        Sentences with words of a decision become insights, and so does the last answer of over 100 characters. A
        sentence that was learned otherwise before, such as a fact that the user stated, becomes an insight too.

        Args:
            session_id: The id of the session.
            transcript: Messages with `role` and `content`; none if the session is stored already.
        """
        session = self._memory.session(session_id)
        if messages := [{"role": each["role"], "content": each["content"]} for each in transcript]:
            session.add_many(messages)
        self._memory.consolidate_session(session_id)
        for turn in session.stored_turns():
            for sentence in split_sentences(turn.content):
                if turn.role in ("user", "assistant") and TRIGGER.search(sentence):
                    self._make_insight(sentence)

    def close(self) -> None:
        """Do nothing: everything is on disk when a method returns, and the memory is closed by its owner."""

    def _make_insight(self, sentence: str) -> None:
        for hit in self._memory.search(sentence, sources="records", limit=5):
            if hit.content == sentence and hit.record is not None and hit.record.kind not in KINDS:
                self._memory.update(hit.id, kind="insight")


def _build_item(record: Record, score: float = 0.0) -> ObservationItem:
    return ObservationItem(
        id=record.id, content=record.content, category=record.kind, source=record.source,
        created_at=record.created_at, score=score,
    )  # fmt: skip
