"""Adapters for agentkit: findings, insights and lessons (FIL) over a memory.

`FILTools` is what its tools package expects, `ObservationStore` what its executor expects.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reverie.domain.errors import InvalidInput
from reverie.domain.record import FIL as KINDS
from reverie.repositories.records import NewRecord
from reverie.scoped import ScopedMemory
from reverie.search.hits import Hit
from reverie.tools.trust_guard import MemoryLike, guard_trust


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
class FIL:
    """Findings, insights and lessons about one question, each best first (agentkit's FILResult)."""

    findings: list[Hit]
    insights: list[Hit]
    lessons: list[Hit]


class FILTools:
    """Findings, insights and lessons for tools (agentkit's ToolsAdapter)."""

    def __init__(self, memory: ScopedMemory, *, session: str | None = None) -> None:
        """Create the tools.

        Args:
            memory: The memory, or a scope of one.
            session: The conversation in which a model calls them. After the result of a tool, a text that the
                owner did not say has the origin of the tool. None where a program calls them.
        """
        self._memory: MemoryLike = memory
        if session is not None:
            self._memory = guard_trust(memory, memory.session(session))

    def remember_fil(
        self,
        findings: Iterable[str] = (),
        insights: Iterable[str] = (),
        lessons: Iterable[str] = (),
        source: str = "",
    ) -> list[str]:
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
            NewRecord(content=text, kind=kind, source=source, origin="agent")
            for kind, texts in zip(KINDS, (findings, insights, lessons), strict=True)
            for text in texts
        ]
        return [saved.record.id for saved in self._memory.save_many(records)]

    def recall(self, query: str, limit: int = 10) -> list[Hit]:
        """Return findings, insights and lessons about a question together, best first."""
        return self._memory.search(query, limit=limit, kind=KINDS)

    def recall_fil(self, query: str, limit: int = 5) -> FIL:
        """Return findings, insights and lessons about a question as three lists (agentkit's RecallFIL).

        Args:
            query: The question.
            limit: Most hits in each list.
        """
        findings, insights, lessons = (self._memory.search(query, limit=limit, kind=kind) for kind in KINDS)
        return FIL(findings=findings, insights=insights, lessons=lessons)

    def recall_by_category(self, query: str, category: str, limit: int = 5) -> list[Hit]:
        """Return records of a category, or of one of the three kinds, about a question.

        Args:
            query: The question.
            category: A category, or `finding`, `insight` or `lesson`.
            limit: Most hits to return.
        """
        for kind in KINDS:
            if category == kind:
                return self._memory.search(query, limit=limit, kind=kind)
        return self._memory.search(query, limit=limit, category=category)


class ObservationStore:
    """Observations of steps (agentkit's BleveObservationStore)."""

    def __init__(self, memory: ScopedMemory, *, session: str | None = None) -> None:
        """Create the store; the arguments are those of `FILTools`."""
        self._tools = FILTools(memory, session=session)

    def store_observation(self, observation: Observation) -> list[str]:
        """Save what was learned in a step; return the ids of the records."""
        return self._tools.remember_fil(
            observation.findings, observation.insights, observation.lessons, source=observation.source
        )

    def query_relevant_observations(self, query: str, limit: int = 5) -> list[str]:
        """Return the texts of the findings, insights and lessons about a question, best first."""
        return [hit.content for hit in self._tools.recall(query, limit)]
