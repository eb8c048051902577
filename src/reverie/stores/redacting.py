"""How does nothing secret get past the store? Every value of every change is redacted before it is written.

`RedactingStore` stands in front of a store, and whatever is put together over it (saving, sessions, pages, files,
imports, passes) can only write through it: a path that forgets to redact what it hands on still leaves
nothing behind. Those that give back what they were given redact it first, so that it is what is stored.

A text is replaced; a name that things are found by (a session, a scope, a key, a page) cannot be, since two
that differ would become one: it is refused.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from reverie.domain.change import Change, JournalEntry, Value
from reverie.domain.conversation import SessionState, ToolCall, Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import InvalidInput
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.domain.secrets import Redactor, redact_secrets
from reverie.llm.messages import ChatMessage, ModelRequest
from reverie.stores.protocol import Store

V = TypeVar("V", bound=Record | Turn | SessionState | Page | Paragraph | Entry)


class RedactingStore:
    """A store that keeps no secret: the one it is put before, with every value redacted on its way in.

    Reading goes straight to the store, so it costs nothing. (What was stored before there was redaction, or
    while it was off, is read as it is: see `reverie redact`.)

    Attributes:
        inner: The store itself.
        redactor: What finds secrets.
    """

    def __init__(self, store: Store, redactor: Redactor) -> None:
        """Stand in front of `store`."""
        self.inner = store
        self.redactor = redactor
        self.tombstones = store.tombstones
        self.scrub = store.scrub
        self.reading = store.reading
        self.sequence = store.sequence
        self.journal = store.journal
        self.records = store.records
        self.record_like = store.record_like
        self.find = store.find
        self.tally = store.tally
        self.turns = store.turns
        self.scan_turns = store.scan_turns
        self.session = store.session
        self.sessions = store.sessions
        self.pages = store.pages
        self.paragraphs = store.paragraphs
        self.latest_paragraphs = store.latest_paragraphs
        self.logs = store.logs
        self.passages = store.passages
        self.live = store.live
        self.measure = store.measure
        self.entries = store.entries
        self.drop_entries = store.drop_entries
        self.count = store.count
        self.cursor = store.cursor
        self.check = store.check
        self.close = store.close

    def commit(
        self,
        edits: Sequence[Change],
        *,
        actor: str,
        reason: str = "",
        at: datetime,
        since: int | None = None,
        cursors: Mapping[str, str | None] | None = None,
        counts: Mapping[str, int] | None = None,
    ) -> list[JournalEntry]:
        """Make all edits, or none (see `Store.commit`), with secrets replaced in what they leave.

        Raises:
            InvalidInput: a name in them is a secret.
        """
        clean = self.redactor.text
        return self.inner.commit(
            self._redact_changes(edits),
            actor=clean(actor),
            reason=clean(reason),
            at=at,
            since=since,
            cursors=self._redact_cursors(cursors),
            counts=counts,
        )

    def erase(
        self, edits: Sequence[Change], *, actor: str, at: datetime, tombstones: Sequence[str] = ()
    ) -> list[JournalEntry]:
        """Make all edits and empty the journal of them (see `Store.erase`), with secrets replaced."""
        return self.inner.erase(
            self._redact_changes(edits), actor=self.redactor.text(actor), at=at, tombstones=tombstones
        )

    def put_entry(self, entry: Entry, *, capacity: int | None, now: datetime) -> bool:
        """Set an entry (see `Store.put_entry`), with secrets replaced.

        Raises:
            InvalidInput: its key is a secret.
        """
        return self.inner.put_entry(redact_value(entry, self.redactor), capacity=capacity, now=now)

    def _redact_changes(self, edits: Sequence[Change]) -> list[Change]:
        return [redact_change(edit, self.redactor) for edit in edits]

    def _redact_cursors(self, cursors: Mapping[str, str | None] | None) -> Mapping[str, str | None] | None:
        """Cursors hold places and lists of ids, seldom words: only what no place looks like is replaced."""
        if not cursors or all(
            value is None or self.redactor.detect_secret_name(value) is None for value in cursors.values()
        ):
            return cursors
        return {
            name: value if value is None or self.redactor.detect_secret_name(value) is None
            else self.redactor.text(value)
            for name, value in cursors.items()
        }  # fmt: skip


def redact_change(edit: Change, redactor: Redactor) -> Change:
    """The edit with secrets replaced in what it leaves; itself, where there are none.

    What was stays as it is, because the store compares it with what is there. A name that is in the store
    already stands, whatever it holds, so that what bears it can still be changed and taken away.
    """
    if edit.after is None or not redactor.enabled:
        return edit
    after = redact_value(edit.after, redactor, known=edit.before is not None)
    return edit if after is edit.after else Change(before=edit.before, after=after)


def redact_value(value: V, redactor: Redactor, *, known: bool = False) -> V:
    """The value with secrets replaced in every text of it; itself, where there are none.

    Args:
        value: A record, turn, session, page, paragraph or entry.
        redactor: What finds secrets.
        known: Whether its names may stay as they are, because it is stored already.

    Raises:
        InvalidInput: a name of it is a secret.
    """
    if not redactor.enabled:
        return value
    if not known:
        for name in _NAMES[type(value)]:
            refuse_secret_name(getattr(value, name), called=name, redactor=redactor)
    changed: dict[str, Any] = {}
    for name in _TEXTS[type(value)]:
        was = getattr(value, name)
        if (now := _clean(was, name, redactor)) != was:
            changed[name] = now
    if not changed:
        return value
    return replace(value, **changed)


def find_secret_kinds(value: Value | Entry, redactor: Redactor) -> tuple[str, ...]:
    """Of which kinds the secrets in a value and its names are, each once."""
    found: dict[str, None] = {}
    for name in _NAMES[type(value)]:
        if (kind := redactor.detect_secret_name(getattr(value, name))) is not None:
            found[kind] = None
    clean = redact_value(value, redactor, known=True)
    if clean is not value:
        for name in _TEXTS[type(value)]:
            was, now = getattr(value, name), getattr(clean, name)
            if was != now:
                found |= dict.fromkeys(_KIND.findall(str(now)))
    return tuple(found)


_KIND = re.compile(r"redacted[:-] ?([a-z0-9][a-z0-9 -]{1,40}?)(?=[\]/']|$)")


def refuse_secret_name(name: str, *, called: str, redactor: Redactor) -> None:
    """Raise `InvalidInput` where something that others are found by is itself a secret.

    A key of working memory is chosen in words, so whatever looks like a secret in it is one; the number of a
    chat may well look like that of a card, so of other names only what can be nothing else is refused.
    """
    kind = redactor.detect_secret_name(name) if isinstance(name, str) else None
    if kind is None and called == "key" and redactor.text(name) != name:
        kind = "a password, token or number of a card"
    if kind is not None:
        raise InvalidInput(
            f"{called} holds what looks like a secret ({kind}): choose another that tells nothing"
        )


_TEXTS: Mapping[type[Any], tuple[str, ...]] = {
    Record: (
        "content",
        "category",
        "tags",
        "source",
        "references",
        "metadata",
        "archive_reason",
    ),
    Turn: ("content", "speaker", "tool_calls", "tool_call_id", "metadata"),
    SessionState: ("summary", "metadata"),
    Page: ("content",),
    Paragraph: ("content", "source"),
    Entry: ("data", "category", "tags"),
}
_NAMES: Mapping[type[Any], tuple[str, ...]] = {
    Record: ("scope",),
    Turn: ("session", "scope"),
    SessionState: ("id", "scope"),
    Page: ("name",),
    Paragraph: ("page",),
    Entry: ("namespace", "key"),
}


def _clean(value: Any, name: str, redactor: Redactor) -> Any:
    if name == "category":
        return None if value is None else redactor.redact_path(value)
    if name == "metadata":
        return redactor.redact_mapping(value)
    if name == "tool_calls":
        return tuple(_clean_call(call, redactor) for call in value)
    if isinstance(value, tuple):
        return tuple(dict.fromkeys(redactor.text(each) for each in value))
    return redactor.text(value) if isinstance(value, str) else value


def _clean_call(call: ToolCall, redactor: Redactor) -> ToolCall:
    made = ToolCall(
        id=redactor.text(call.id), name=redactor.text(call.name), arguments=redactor.text(call.arguments)
    )
    return call if made == call else made


def get_redactor(store: Store) -> Redactor:
    """What redacts on the way into a store; nothing does where it is the bare one."""
    return store.redactor if isinstance(store, RedactingStore) else _NOTHING


def unwrap(store: Store) -> Store:
    """The store itself, without what redacts on the way in."""
    return store.inner if isinstance(store, RedactingStore) else store


_NOTHING = Redactor(enabled=False)


def redact_request(ask: ModelRequest, redactor: Redactor) -> ModelRequest:
    """The question to a model with secrets replaced in its messages."""
    if not redactor.enabled:
        return ask
    messages = tuple(redact_message(each, redactor) for each in ask.messages)
    return ask if messages == ask.messages else replace(ask, messages=messages)


def redact_message(message: ChatMessage, redactor: Redactor) -> ChatMessage:
    """A message to a model with secrets replaced."""
    return replace(
        message,
        content=redactor.text(message.content),
        tool_calls=tuple(_clean_call(call, redactor) for call in message.tool_calls),
        tool_call_id=redactor.text(message.tool_call_id),
    )


# -- what is logged ------------------------------------------------------------------------------------------


_LOGS = ("reverie", "reverie.mcp")


class _NoSecrets(logging.Filter):
    """Redacts what is logged: a warning may quote what a person gave, and so may an exception."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            told = record.getMessage()
        except (TypeError, ValueError):  # whoever handles it reports the wrong arguments
            return True
        if (clean := redact_secrets(told)) != told:
            record.msg, record.args = clean, ()
        if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
            trace = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            if (clean := redact_secrets(trace)) != trace:
                record.exc_text, record.exc_info = clean, None
        return True


def keep_secrets_from_log() -> None:
    """Have what Reverie logs redacted by the built-in rules. Once is enough."""
    for name in _LOGS:  # each by itself: what a logger filters is not that of those below it
        log = logging.getLogger(name)
        if not any(isinstance(each, _NoSecrets) for each in log.filters):
            log.addFilter(_NoSecrets())
