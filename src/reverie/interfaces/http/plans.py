"""Plans that wait for a decision, kept until the server stops."""

from __future__ import annotations

import builtins
import threading
from collections import OrderedDict
from collections.abc import Callable

from reverie.consolidation.cycle import ApplyResult
from reverie.consolidation.plan import Plan
from reverie.domain.errors import Conflict, NotFound

MOST_PLANS = 100


class PlanShelf:
    """The last plans that were made. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: OrderedDict[str, tuple[Plan, int | None]] = OrderedDict()

    def add(self, plan: Plan) -> None:
        """Keep a plan, in place of the oldest if there are many."""
        with self._lock:
            self._plans[plan.id] = plan, None
            while len(self._plans) > MOST_PLANS:
                self._plans.popitem(last=False)

    def list(self) -> builtins.list[tuple[Plan, int | None]]:
        """Return all plans, the newest first, each with the number of its first change once it is applied."""
        with self._lock:
            return [*reversed(self._plans.values())]

    def get(self, id: str) -> tuple[Plan, int | None]:
        """Return a plan.

        Raises:
            NotFound: this server has no such plan.
        """
        with self._lock:
            if id not in self._plans:
                raise NotFound(
                    f"there is no plan {id!r}: plans are kept until the server stops; make a new one"
                )
            return self._plans[id]

    def apply(self, id: str, apply: Callable[[Plan], ApplyResult]) -> ApplyResult:
        """Apply a plan, and note that it was.

        Raises:
            Conflict: it was applied already, or what it would change has changed.
        """
        plan, applied = self.get(id)
        if applied is not None:
            raise Conflict(f"the plan {id!r} was applied as change {applied}: make a new one")
        result = apply(plan)
        with self._lock:
            self._plans[id] = plan, result.batch
        return result
