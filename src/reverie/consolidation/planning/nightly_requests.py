"""The bound of what a night asks a model, however much there is to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from reverie.consolidation.planning.driver import NO_MODEL
from reverie.consolidation.planning.questions import VERIFY
from reverie.llm.messages import ModelFailure, ModelReply, ModelRequest

MOST_A_NIGHT = 3
"""Requests about one scope in a dream, the last of which verifies. Rough notes are enriched by others."""

LATER = ModelFailure(why="it is left for the next dream")
"""The failure that stands for a request that a dream has no room for."""


class NightlyRequests:
    """Requests of one dream. Not safe for several threads."""

    def __init__(self, ask: Callable[[ModelRequest], ModelReply | ModelFailure]) -> None:
        """Begin with none.

        Args:
            ask: Asks the model.
        """
        self._ask = ask
        self._asked: Counter[str] = Counter()

    def ask(self, request: ModelRequest) -> ModelReply | ModelFailure:
        """Ask the model, or return `LATER` where the scope has had its requests."""
        if self._asked[request.scope] >= (MOST_A_NIGHT if request.purpose == VERIFY else MOST_A_NIGHT - 1):
            return LATER
        reply = self._ask(request)
        self._asked[request.scope] += reply is not NO_MODEL
        return reply
