"""Limit of the requests to a model in one dream."""

from __future__ import annotations

from collections import Counter

from reverie.consolidation.planning.driver import NO_MODEL, Ask
from reverie.consolidation.planning.questions import VERIFY
from reverie.llm.messages import ModelFailure, ModelReply, ModelRequest

MOST_REQUESTS = 3
"""Requests about one scope in a dream, the last of which verifies; requests that enrich drafts do not count."""

LATER = ModelFailure(why="it is left for the next dream")
"""The reply to a request that exceeds the limit."""


def limit_requests(ask: Ask) -> Ask:
    """Return a function that asks the model in one dream, and returns `LATER` beyond the limit of a scope."""
    asked: Counter[str] = Counter()

    def ask_within_limit(request: ModelRequest) -> ModelReply | ModelFailure:
        if asked[request.scope] >= (MOST_REQUESTS if request.purpose == VERIFY else MOST_REQUESTS - 1):
            return LATER
        reply = ask(request)
        asked[request.scope] += reply is not NO_MODEL
        return reply

    return ask_within_limit
