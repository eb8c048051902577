"""Origins of what a model writes with tools.

In a conversation, a model cannot save the text of a tool as its own: the text gets the least trusted origin among the
texts that the model has before it. Such a text neither replaces that of a trusted record nor gets into the pages of
every prompt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reverie.domain.errors import InvalidInput
from reverie.domain.page import MEMORY, parse_daily_note_day
from reverie.domain.record import UNTRUSTED, Origin, Record

if TYPE_CHECKING:
    from reverie.session import Session


@dataclass(frozen=True, slots=True)
class OriginGuard:
    """Guard of the origins of what a model writes.

    Attributes:
        session: The conversation of the model; None for none, in which everything is the word of the agent.
    """

    session: Session | None

    def determine(
        self, text: str, *, category: str | None = None, tags: Iterable[str] = (), known: Record | None = None
    ) -> Origin:
        """Return the origin of a text to be saved, with its labels.

        Args:
            text: The text.
            category: The category.
            tags: The tags.
            known: The record that is changed; labels that it has already do not count.

        Raises:
            InvalidInput: the conversation is off the record.
        """
        if self.session is None:
            return "agent"
        if not self.session.is_recorded:
            raise InvalidInput("This conversation is off the record, so nothing of it is saved.")
        labels = {category, *tags} - {None, ""}
        if known is not None:
            labels -= {known.category, *known.tags}
        return self.session.determine_origin(text, labels=sorted(map(str, labels)))

    def check_page(self, name: str, text: str) -> None:
        """Raise `InvalidInput` if a text would get into every prompt and is not trusted."""
        origin = self.determine(text.strip())
        if origin in UNTRUSTED and text.strip() and (name == MEMORY or parse_daily_note_day(name)):
            raise InvalidInput(
                f"{name} is in every prompt, and this text rests on what a tool said, which is not "
                "confirmed: save_memory keeps it where a search finds it; or ask the owner"
            )
