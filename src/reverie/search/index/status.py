"""State of a search index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatus:
    """State of the index.

    Attributes:
        state: `current`; `rebuilding` while a lost index is built again (searches stay correct);
            `in memory` if the disk refuses it.
        committed: Passages in the commit on disk, or in the tables of the database.
        waiting: Passages changed since, held in memory.
        segments: Number of segments of the commit.
        sequence: Number of the last journal entry that searches cover.
        problem: The error, if there was one.
    """

    state: Literal["current", "rebuilding", "in memory"]
    committed: int
    waiting: int
    segments: int
    sequence: int
    problem: str = ""
