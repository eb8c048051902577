"""Values that pass from the readers of import formats to the importer.

A reader yields an `Item` for each thing to store and each thing that it leaves out. The values are validated.
Things of other programs get an id derived from their source, so a second reading gives the same id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Literal, TypeVar, get_args

from reverie.domain.conversation import SessionState, Turn
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import UNTRUSTED, Origin, Record
from reverie.domain.text.json_values import JsonObject

Form = Literal[
    "jsonl", "mcp", "golemcore", "rockbot", "notes", "document", "chatgpt", "claude", "messages"
]  # fmt: skip
FORMS: tuple[Form, ...] = get_args(Form)
"""Formats that can be imported; the first one is Reverie's own export."""

Reason = Literal["known", "repeated", "forgotten", "differs", "empty", "broken", "unsupported", "too large"]
"""Reasons to leave something out: it is here already; it is twice in the source; it was erased; another
version of it is here and stays; it is empty; it cannot be read; its sort is not imported; it exceeds a limit.
"""

What = Literal["record", "turn", "session", "page", "paragraph", "attachment", "line", "file"]

SOURCE_ID = "source_id"
"""Metadata key of the id that another program gave."""


_T = TypeVar("_T", Record, Turn, SessionState)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped(JsonObject):
    """Something left out of an import or export.

    Attributes:
        what: The sort of thing; `line` or `file` if unknown.
        place: Its place, such as `memory.jsonl, line 12`; never its content.
        why: Why it was left out; a `Reason`.
        detail: What was wrong, or the thing here that it equals; may be empty.
        count: How many such things at that place.
    """

    what: What
    place: str
    why: Reason
    detail: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundValue:
    """A record, a page, or a paragraph of a log.

    Attributes:
        place: Its place in the source.
        value: The record, page or paragraph.
        form: The source format; empty if its id is Reverie's own.
    """

    place: str
    value: Record | Page | Paragraph
    form: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTurns:
    """Turns of one session that follow one another; a long session comes in several pieces.

    Attributes:
        place: Their place in the source.
        state: The session, as it shall be if it is not there.
        turns: The turns; none for a session without any.
        form: The source format; empty if their ids are Reverie's own.
    """

    place: str
    state: SessionState
    turns: tuple[Turn, ...]
    form: str = ""


Item = FoundValue | FoundTurns | Skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTerms:
    """Terms of one import.

    Attributes:
        scope: Scope of what is imported; None keeps that of own exports, and is the empty scope for others.
        origin: Origin of records; None keeps that of own exports, and is `import` for others.
        now: The moment used where a source gives no time.
    """

    now: datetime
    scope: str | None = None
    origin: Origin | None = None

    @property
    def foreign_scope(self) -> str:
        """Scope of things of another program."""
        return self.scope or ""

    @property
    def foreign_origin(self) -> Origin:
        """Origin of records of another program."""
        return self.origin or "import"

    @property
    def trusted(self) -> bool:
        """Whether prompts may include what another program wrote unasked."""
        return self.foreign_origin not in UNTRUSTED

    def apply(self, value: _T) -> _T:
        """Return a thing of an own export under these terms."""
        if isinstance(value, Record):
            value = replace(value, origin=self.origin or value.origin)
        return value if self.scope is None else replace(value, scope=self.scope)


def build_stable_id(*parts: str) -> str:
    """Return an id derived from texts (12 hexadecimal characters of SHA-256).

    >>> build_stable_id("mcp", "", "Ada", "likes trains")
    '0fa60fffbd6b'
    """
    return hash_texts(*parts)[:12]


def hash_texts(*parts: str) -> str:
    """Return 24 hexadecimal characters of the SHA-256 of texts, joined by a separator no text may hold."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def build_alternative_id(value: Record | Turn | Paragraph, form: str, attempt: int) -> str:
    """Return the id to try after `attempt` ids were taken by other things."""
    return build_stable_id(form, type(value).__name__, value.id, str(attempt))


def add_source_id(metadata: Mapping[str, str], source_id: str) -> MappingProxyType[str, str]:
    """Return metadata with the id that another program gave."""
    return MappingProxyType({**metadata, SOURCE_ID: source_id})
