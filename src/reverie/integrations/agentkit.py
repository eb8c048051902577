"""Adapters for agentkit: findings, insights and lessons (FIL).

`FILTools` is what its tools package expects, `ObservationStore` what its executor expects. Both are thin:
what they do is `Memory.remember_fil`, `Memory.recall_fil` and `Memory.search`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reverie.domain.record import FIL
from reverie.memory import Memory
from reverie.scoped import ScopedMemory
from reverie.search.hits import Hit


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What was learned in one step.

    Attributes:
        findings: Facts discovered, such as "API rate limit is 100/min".
        insights: Conclusions, such as "REST suits this better than GraphQL".
        lessons: Guidance for the future, such as "Avoid library X: no types".
        step_name: Which step it was.
        step_type: What sort of step, such as `GOAL`, `AGENT` or `RUN`.
    """

    findings: tuple[str, ...] = ()
    insights: tuple[str, ...] = ()
    lessons: tuple[str, ...] = ()
    step_name: str = ""
    step_type: str = ""

    @property
    def source(self) -> str:
        """Source of the records, as agentkit writes it: `GOAL:deploy-api`."""
        return ":".join(part for part in (self.step_type, self.step_name) if part)


class FILTools:
    """Tools over findings, insights and lessons (agentkit's ToolsAdapter)."""

    def __init__(self, memory: Memory | ScopedMemory) -> None:
        self._memory = memory

    def remember_fil(
        self,
        findings: Iterable[str] = (),
        insights: Iterable[str] = (),
        lessons: Iterable[str] = (),
        source: str = "",
    ) -> list[str]:
        """Save findings, insights and lessons, and return the ids of their records in this order.

        Raises:
            InvalidInput: one of them is not of its form; nothing was changed.
        """
        saved = self._memory.remember_fil(findings, insights, lessons, source=source)
        return [each.record.id for each in saved]

    def recall(self, query: str, limit: int = 10) -> list[Hit]:
        """Return at most `limit` findings, insights and lessons that match a query, best first."""
        return self._memory.search(query, limit=limit, kinds=list(FIL))


class ObservationStore:
    """Store of observations (agentkit's BleveObservationStore)."""

    def __init__(self, memory: Memory | ScopedMemory) -> None:
        self._memory = memory

    def store_observation(self, observation: Observation) -> list[str]:
        """Save what was learned in a step, and return the ids of the records."""
        saved = self._memory.remember_fil(
            observation.findings, observation.insights, observation.lessons, source=observation.source
        )
        return [each.record.id for each in saved]

    def query_relevant_observations(self, query: str, limit: int = 5) -> list[str]:
        """Return at most `limit` texts that match a query, best first."""
        return [hit.content for hit in self._memory.search(query, limit=limit, kinds=list(FIL))]
