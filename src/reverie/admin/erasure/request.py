"""Requests for an erasure, and its report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

from reverie.domain.errors import InvalidInput, quote_value
from reverie.domain.scope import validate_scope
from reverie.domain.text.json_values import to_json_object
from reverie.domain.text.shingles import normalize_text
from reverie.domain.text.validation import validate_text

Fate = Literal["removed", "emptied", "cut", "past", "kept"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseRequest:
    """Request for an erasure: by ids, session, scope or text.

    Attributes:
        ids: Ids of records, turns and paragraphs.
        session: The id of a session.
        scope: A scope with all that is below it; not the empty one.
        match: A text, compared without case and with white space folded.
        turns: Whether to erase turns that repeat it, too. Those that contain the text of `match` are erased anyway.
    """

    ids: tuple[str, ...] = ()
    session: str | None = None
    scope: str | None = None
    match: str | None = None
    turns: bool = False

    def __post_init__(self) -> None:
        for name in self.ids:
            if not isinstance(name, str):
                raise InvalidInput(f"id is {quote_value(name)}: pass a string")
        given = [bool(self.ids), *(each is not None for each in (self.session, self.scope, self.match))]
        if sum(given) != 1:
            problem = "ids, session, scope, match go alone" if any(given) else "nothing says what to forget"
            raise InvalidInput(f"{problem}: pass ids, or session=, or scope=, or match=")
        if self.scope is not None and not validate_scope(self.scope):
            raise InvalidInput("scope is empty, which is the shared scope: pass one such as 'user:alice'")
        if self.session is not None and not isinstance(self.session, str):
            raise InvalidInput(f"session is {quote_value(self.session)}: pass the id of a session")
        if self.match is not None:
            validate_text(self.match, name="match", longest=10_000)
            if not normalize_text(self.match):
                raise InvalidInput("match is blank: pass the text that shall be forgotten")


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureItem:
    """One thing that contains, or once contained, the text to erase.

    Attributes:
        subject: `record`, `turn`, `session`, `page`, `paragraph`, `entry` (of working memory), `scope`,
            `cursor` (a note of Reverie's own), or `file` (not one of Reverie's).
        id: Its id; a page's or file's name; an entry's namespace and key.
        fate: `removed`; `emptied`, for a turn, which keeps its place; `cut`, if only lines or labels are
            removed; `past`, if only earlier versions are; `kept`.
        because: The reason.
        text: Its first words; empty once it has been erased.
    """

    subject: str
    id: str
    fate: Fate
    because: str
    text: str = ""

    @property
    def name(self) -> tuple[str, str]:
        """Its subject and id."""
        return self.subject, self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureReport:
    """Plan or result of an erasure.

    Attributes:
        going: What is erased, each item with its fate and reason.
        left: What stays although it contains the text, or was derived from it.
        done: Whether it was carried out; otherwise it is a plan.
        pending: What could not be finished; the next erasure, or `reverie doctor --fix`, finishes it.
        notes: What else a person should know: copies that are not reached, and where a database server keeps
            what was erased for a while, such as its write-ahead log.
    """

    going: tuple[ErasureItem, ...]
    left: tuple[ErasureItem, ...] = ()
    done: bool = False
    pending: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Number of erased things of each sort; those that lose only earlier versions under `past`."""
        return dict(Counter("past" if item.fate == "past" else item.subject for item in self.going))

    def to_dict(self) -> dict[str, Any]:
        """Return every field in a fixed order as JSON values."""
        return to_json_object(self, "done", "counts", "going", "left", "pending", "notes")
