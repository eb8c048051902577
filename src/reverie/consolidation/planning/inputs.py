"""What does a pass see? Values as they were at one moment, gathered by the caller; it reads nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib.resources import files
from types import MappingProxyType

from reverie.domain.conversation import Turn
from reverie.domain.record import Record
from reverie.domain.text.ids import NewId, generate_id

_PLACE = re.compile(r"\{\{(\w+)\}\}")
_NO_PROMPTS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PassInput:
    """What there is to think about.

    Attributes:
        now: The moment.
        records: The live records, in any order.
        changed: Ids of those that were added or changed since the last cycle; only they are reconsidered.
        turns: What was said since the last cycle, the earliest first.
        earlier: What was said in the week before, the earliest first: looked at already, and still evidence.
        prompts: The user's own prompts by file name, in place of those that ship.
        new_id: What makes ids.
    """

    now: datetime
    records: tuple[Record, ...] = ()
    changed: frozenset[str] = frozenset()
    turns: tuple[Turn, ...] = ()
    earlier: tuple[Turn, ...] = ()
    prompts: Mapping[str, str] = field(default_factory=lambda: _NO_PROMPTS)
    new_id: NewId = generate_id

    def prompt(self, name: str) -> str:
        """The prompt of a file name such as `dream.md`: the user's own, or the one that ships."""
        own = self.prompts.get(name)
        if own is not None and own.strip():
            return own.strip()
        shipped = files("reverie.consolidation.passes").joinpath("prompts", name)
        return shipped.read_text(encoding="utf-8").strip()

    def fill_prompt(self, name: str, **places: str) -> str:
        """The prompt of a file name with what stands in its places, such as `{{records}}`.

        All at once, so that the name of a place stays as it is in what is filled in; so does an unknown one.
        """
        return _PLACE.sub(lambda place: places.get(place[1], place[0]), self.prompt(name))
