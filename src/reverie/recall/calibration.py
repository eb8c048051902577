"""Is anything here relevant at all? (Being written.)"""

from __future__ import annotations

from reverie.recall.query import Query
from reverie.recall.ranking import Ranked


def relevant(ranked: list[Ranked], query: Query) -> list[Ranked]:
    """What is relevant."""
    return ranked
