"""Entries of working memory: a key, a text and an expiry."""

from __future__ import annotations

from datetime import datetime, timedelta

from reverie.domain import category
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_dataclass import dataclass
from reverie.domain.record import normalize_labels
from reverie.domain.text import timestamps
from reverie.domain.text.validation import validate_raw_text, validate_text

AGENT = "agent"
"""The namespace of the scratchpad that outlives sessions."""

SCOPE = "scope/"
"""Prefix of the namespaces of other scopes' scratchpads."""

LONGEST_KEY = 200
LONGEST_DATA = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One value in working memory.

    Attributes:
        namespace: Whose it is: `session/{id}`, or `agent` or `scope/{scope}` for a scratchpad.
        key: Its name there, 1 to 200 characters.
        data: The text, up to 2,000,000 characters; may be empty.
        stored_at: When it was set.
        expires_at: When it expires; None to keep it.
        category: A slash path, or None.
        tags: Labels.
    """

    namespace: str
    key: str
    data: str
    stored_at: datetime
    expires_at: datetime | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()

    def live(self, now: datetime) -> bool:
        """Return whether it has not expired."""
        return self.expires_at is None or self.expires_at > now

    def get_remaining_time(self, now: datetime) -> timedelta | None:
        """Return the time until it expires; None if it never does."""
        return None if self.expires_at is None else max(self.expires_at - now, timedelta(0))

    def to_searchable_text(self) -> str:
        """Return the text that is searched: key, data, tags and category."""
        return "\n".join((self.key, self.data, *self.tags, category.to_search_words(self.category)))


def build_scope_namespace(scope: str) -> str:
    """Return the namespace of a scope's scratchpad; for the empty scope, the agent's."""
    return f"{SCOPE}{scope}" if scope else AGENT


def build_session_namespace(session: str) -> str:
    """Return the namespace of a session's working memory."""
    return f"session/{session}"


def validate_entry(entry: Entry) -> Entry:
    """Return the entry; raise `InvalidInput` where a field is not valid."""
    validate_text(entry.namespace, name="namespace", longest=LONGEST_KEY + 10)
    validate_text(entry.key, name="key", longest=LONGEST_KEY)
    validate_raw_text(entry.data, name="data", longest=LONGEST_DATA, empty=True)
    if entry.category is not None:
        category.validate_category(entry.category)
    if normalize_labels(entry.tags, name="tag") != entry.tags:
        raise InvalidInput(f"tags are {entry.tags!r}: remove repeated tags, and spaces around them")
    timestamps.to_utc(entry.stored_at, name="stored_at")
    if entry.expires_at is not None:
        timestamps.to_utc(entry.expires_at, name="expires_at")
    return entry
