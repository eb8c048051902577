"""What does a pass see? Values as they were at one moment, gathered by the caller; it reads nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib.resources import files
from types import MappingProxyType

from reverie.ids import NewId, new_id
from reverie.records import Record
from reverie.turns import Turn

_NO_PROMPTS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What there is to think about.

    Attributes:
        now: The moment.
        records: The live records, in any order.
        changed: Ids of those that were added or changed since the last cycle; only they are reconsidered.
        turns: What was said since the last cycle, the earliest first.
        prompts: The user's own prompts by file name, in place of those that ship.
        new_id: What makes ids.
    """

    now: datetime
    records: tuple[Record, ...] = ()
    changed: frozenset[str] = frozenset()
    turns: tuple[Turn, ...] = ()
    prompts: Mapping[str, str] = field(default_factory=lambda: _NO_PROMPTS)
    new_id: NewId = new_id

    def prompt(self, name: str) -> str:
        """The prompt of a file name such as `dream.md`: the user's own, or the one that ships."""
        own = self.prompts.get(name)
        if own is not None and own.strip():
            return own.strip()
        shipped = files("reverie.passes").joinpath("prompts", name)
        return shipped.read_text(encoding="utf-8").strip()
