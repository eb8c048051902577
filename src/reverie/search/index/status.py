"""State of a search index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatus:
    """State of the index.

    Attributes:
        state: `current`; `rebuilding` while a lost index is made again (searches are correct meanwhile);
            `in memory` when the disk refuses it.
        committed: Passages in the commit on disk, or in the tables of the database.
        waiting: Passages changed since, held in memory.
        segments: Of how many pieces the commit consists.
        sequence: The journal row that searches are up to date with.
        problem: What went wrong, if anything did.
    """

    state: Literal["current", "rebuilding", "in memory"]
    committed: int
    waiting: int
    segments: int
    sequence: int
    problem: str = ""
