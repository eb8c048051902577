"""What can be found in a file that is imported, and what can become of it? Values; reads nothing.

A reader of a format gives `Item`s: things to be stored, and what it had to leave out. Values are checked
already. Those of other programs get an id that is made from where they come from, so that the same thing has
the same id whenever it is read again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, get_args

from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import UNTRUSTED, Origin, Record

Form = Literal[
    "jsonl", "markdown", "folder", "mcp", "golemcore", "rockbot", "notes", "chatgpt", "claude"
]  # fmt: skip
FORMS: tuple[Form, ...] = get_args(Form)
"""What can be imported; the first three are Reverie's own exports."""

OWN_FORMS: tuple[Form, ...] = ("jsonl", "markdown", "folder")

Reason = Literal["known", "repeated", "forgotten", "differs", "empty", "broken", "unsupported", "too large"]
REASONS: tuple[Reason, ...] = get_args(Reason)
"""Why something is left out: it is here already; it stands twice in the source; it was forgotten on purpose;
another version of it is here and stays; there is nothing in it; it cannot be read; it is of a sort that is
not taken in; it is over a limit."""

What = Literal["record", "turn", "session", "page", "paragraph", "attachment", "line", "file"]

SOURCE_ID = "source_id"
"""The key of the metadata under which the id that another program gave is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Something that was left out.

    Attributes:
        what: Which sort of thing it is; `line` or `file` where that cannot be told.
        place: Where it stands, such as `memory.jsonl, line 12`; never its content.
        why: Why it was left out; one of `REASONS`.
        detail: What exactly was wrong, or which thing here it equals; may be empty.
        count: How many such things at that place.
    """

    what: What
    place: str
    why: Reason
    detail: str = ""
    count: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Every field, as JSON has it."""
        return {
            "what": self.what,
            "place": self.place,
            "why": self.why,
            "detail": self.detail,
            "count": self.count,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRecord:
    """A record.

    Attributes:
        place: Where it stands.
        record: The record.
        form: The format it is from; empty where its id is Reverie's own.
    """

    place: str
    record: Record
    form: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTurns:
    """Turns of one session that follow one another; a long session comes in several pieces.

    Attributes:
        place: Where they stand.
        state: The session, as it shall be if it is not there.
        turns: The turns; none for a session without any.
        form: The format they are from; empty where their ids are Reverie's own.
    """

    place: str
    state: SessionState
    turns: tuple[Turn, ...]
    form: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPage:
    """A page.

    Attributes:
        place: Where it stands.
        page: The page.
    """

    place: str
    page: Page


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundParagraph:
    """A paragraph of a log.

    Attributes:
        place: Where it stands.
        paragraph: The paragraph.
        form: The format it is from; empty where its id is Reverie's own.
    """

    place: str
    paragraph: Paragraph
    form: str = ""


Item = FoundRecord | FoundTurns | FoundPage | FoundParagraph | Skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTerms:
    """How things are to be taken in.

    Attributes:
        scope: Whose memory they become; None leaves own exports as they are, and is everybody's for others.
        origin: Whose word records are; None leaves own exports as they are, and is `import` for others.
        now: The moment that stands for a time which a source does not tell.
    """

    now: datetime
    scope: str | None = None
    origin: Origin | None = None

    @property
    def foreign_scope(self) -> str:
        """Whose memory things of another program become."""
        return self.scope or ""

    @property
    def foreign_origin(self) -> Origin:
        """Whose word records of another program are."""
        return self.origin or "import"

    @property
    def trusted(self) -> bool:
        """Whether what another program wrote may stand in prompts unasked."""
        return self.foreign_origin not in UNTRUSTED

    def apply_to_record(self, record: Record) -> Record:
        """A record of an own export as it shall be."""
        scope = record.scope if self.scope is None else self.scope
        return replace(record, scope=scope, origin=self.origin or record.origin)

    def apply_to_session(self, state: SessionState) -> SessionState:
        """A session of an own export as it shall be."""
        return state if self.scope is None else replace(state, scope=self.scope)

    def apply_to_turn(self, turn: Turn) -> Turn:
        """A turn of an own export as it shall be."""
        return turn if self.scope is None else replace(turn, scope=self.scope)


def build_stable_id(*parts: str) -> str:
    """An id made from texts: always the same for the same ones (12 hexadecimal characters of SHA-256).

    >>> build_stable_id("mcp", "", "Ada", "likes trains")
    '0fa60fffbd6b'
    """
    return hash_texts(*parts)[:12]


def hash_texts(*parts: str) -> str:
    """24 hexadecimal characters of the SHA-256 of texts, told apart by a separator no text may hold."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def build_turn_key(state: SessionState, source_id: str) -> str:
    """What the id of a turn of another program is made from."""
    return f"{state.id}\0{source_id}"


def build_alternative_id(value: Record | Turn | Paragraph, form: str, attempt: int) -> str:
    """The id to try when the first `attempt` ones are taken by other things."""
    return build_stable_id(form, type(value).__name__, value.id, str(attempt))


def add_source_id(metadata: dict[str, str], source_id: str) -> MappingProxyType[str, str]:
    """Metadata that holds the id which another program gave."""
    return MappingProxyType({**metadata, SOURCE_ID: source_id})


def validate_form(form: str) -> Form:
    """`form`, if it names a format that can be imported; raises `InvalidInput` otherwise."""
    for known in FORMS:
        if form == known:
            return known
    raise InvalidInput(f"form is {form!r}: use one of {', '.join(FORMS)}")
