"""The bound of what a night asks a model, however much there is to do."""

from __future__ import annotations

from collections import Counter

from reverie.consolidation.planning.driver import NO_MODEL, Ask
from reverie.consolidation.planning.questions import VERIFY
from reverie.llm.messages import ModelFailure, ModelReply, ModelRequest

MOST_A_NIGHT = 3
"""Requests about one scope in a dream, the last of which verifies. Rough notes are enriched by others."""

LATER = ModelFailure(why="it is left for the next dream")
"""The failure that stands for a request that a dream has no room for."""


def limit_requests(ask: Ask) -> Ask:
    """Return what asks the model in one dream: `LATER` where a scope has had its requests."""
    asked: Counter[str] = Counter()

    def ask_within_limit(request: ModelRequest) -> ModelReply | ModelFailure:
        if asked[request.scope] >= (MOST_A_NIGHT if request.purpose == VERIFY else MOST_A_NIGHT - 1):
            return LATER
        reply = ask(request)
        asked[request.scope] += reply is not NO_MODEL
        return reply

    return ask_within_limit
