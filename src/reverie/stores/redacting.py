"""Wrapper of a store that redacts secrets in every change before it is written.

Everything above the store writes through `RedactingStore`, so a caller that forgets to redact leaks
nothing. Callers that return what they store redact it first. The redactor remembers clean texts, so each
text of a save is scanned once.

A text is replaced. A name (of a session, scope, key or page) is refused instead, because two different
names could become one.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast

from reverie.domain.change import Change, JournalEntry, Value
from reverie.domain.conversation import SessionState, ToolCall, Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_dataclass import replace
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.domain.secrets.redactor import Redactor, redact_secrets
from reverie.stores.protocol import CommitOptions, Store

V = TypeVar("V", bound=Record | Turn | SessionState | Page | Paragraph | Entry)


if TYPE_CHECKING:
    from reverie.llm.protocol import ModelRequest
    from reverie.stores.postgres import PostgresStore

_Untyped: Any = object


class RedactingStore(_Untyped):  # type: ignore[misc]  # it has the methods of the store that it wraps
    """Wrapper of a store that redacts every value before it is written.

    Reads go straight to the store. What was stored without redaction is read unchanged; `reverie redact` redacts it.

    Attributes:
        inner: The wrapped store.
        redactor: Finds secrets.
    """

    def __init__(self, store: Store, redactor: Redactor) -> None:
        """Wrap a store."""
        self.inner = store
        self.redactor = redactor

    def __getattr__(self, name: str) -> Any:
        """Return a method of the wrapped store: all that it does not write itself."""
        if name.startswith("_") or name == "inner":
            raise AttributeError(name)
        method = getattr(self.inner, name)
        setattr(self, name, method)
        return method

    def commit(
        self, edits: Sequence[Change], *, actor: str, at: datetime, **options: Unpack[CommitOptions]
    ) -> list[JournalEntry]:
        """Make all changes, or none (see `Store.commit`), with secrets replaced in the new values.

        Raises:
            InvalidInput: a name in them is a secret.
        """
        clean = self.redactor.text
        options["note"] = clean(options.get("note", ""))
        options["cursors"] = self._redact_cursors(options.get("cursors"))
        return self.inner.commit(self._redact_changes(edits), actor=clean(actor), at=at, **options)

    erase = Store.erase  # it commits

    def put_entry(self, entry: Entry, *, capacity: int | None, now: datetime) -> bool:
        """Set an entry (see `Store.put_entry`), with secrets replaced.

        Raises:
            InvalidInput: its key is a secret.
        """
        return self.inner.put_entry(redact_value(entry, self.redactor), capacity=capacity, now=now)

    def _redact_changes(self, edits: Sequence[Change]) -> list[Change]:
        """Redact new values. Old ones are compared with what is stored; a name that is stored already is accepted."""
        redacted = []
        for edit in edits:
            after = edit.after
            if after is not None:
                after = redact_value(after, self.redactor, known=edit.before is not None)
            redacted.append(edit if after is edit.after else Change(before=edit.before, after=after))
        return redacted

    def _redact_cursors(self, cursors: Mapping[str, str | None] | None) -> Mapping[str, str | None] | None:
        """Replace secrets in cursors, which hold positions and ids, only where nothing else can be meant."""
        return cursors and {
            name: self.redactor.text(value) if value and self.redactor.detect_secret_name(value) else value
            for name, value in cursors.items()
        }


def redact_value(value: V, redactor: Redactor, *, known: bool = False) -> V:
    """Return the value with secrets replaced in all its texts; itself if there are none.

    Args:
        value: A record, turn, session, page, paragraph or entry.
        redactor: Finds secrets.
        known: Accept its names, because it is stored already.

    Raises:
        InvalidInput: one of its names is a secret.
    """
    if not redactor.enabled:
        return value
    if not known:
        for name in _NAMES[type(value)]:
            refuse_secret_name(getattr(value, name), called=name, redactor=redactor)
    changed: dict[str, Any] = {}
    for name in _TEXTS[type(value)]:
        old = getattr(value, name)
        if name == "content" and isinstance(value, Record) and value.keep_secret and value.origin == "owner":
            continue
        if old and (new := _clean(old, name, redactor)) != old:
            changed[name] = new
    if isinstance(value, Entry) and (data := redactor.value(value.key, value.data)) != value.data:
        changed["data"] = data
    if not changed:
        return value
    return replace(value, **changed)


def find_secret_kinds(value: Value | Entry, redactor: Redactor) -> tuple[str, ...]:
    """Return the kinds of the secrets in a value and its names, each once."""
    found: dict[str, None] = {}
    for name in _NAMES[type(value)]:
        if (kind := redactor.detect_secret_name(getattr(value, name))) is not None:
            found[kind] = None
    clean = redact_value(value, redactor, known=True)
    if clean is not value:
        for name in _TEXTS[type(value)]:
            old, new = getattr(value, name), getattr(clean, name)
            if old != new:
                found |= dict.fromkeys(_KIND.findall(str(new)))
    return tuple(found)


_KIND = defer_regex(r"redacted[:-] ?([a-z0-9][a-z0-9 -]{1,40}?)(?=[\]/']|$)")


def refuse_secret_name(name: str, *, called: str, redactor: Redactor) -> None:
    """Raise `InvalidInput` if a name is itself a secret.

    A key of working memory is chosen in words, so whatever looks like a secret in it is refused. A chat's
    number may look like that of a card, so other names are refused only for unmistakable forms.
    """
    kind = redactor.detect_secret_name(name) if isinstance(name, str) else None
    if kind is None and called == "key" and redactor.text(name) != name:
        kind = "a password, token or number of a card"
    if kind is not None:
        raise InvalidInput(
            f"{called} holds what looks like a secret ({kind}): choose another that tells nothing"
        )


# Names and texts of each type of values.
_FIELDS: Mapping[type[Any], tuple[str, str]] = {
    Record: (
        "scope",
        "content category tags source references metadata archive_reason item_key resolved_dates",
    ),
    Turn: ("session scope", "content speaker tool_calls tool_call_id metadata"),
    SessionState: ("id scope", "summary metadata"),
    Page: ("name", "content"),
    Paragraph: ("page", "content source"),
    Entry: ("namespace key", "data category tags"),
}

_NAMES, _TEXTS = ({kind: fields[part].split() for kind, fields in _FIELDS.items()} for part in (0, 1))


def _clean(value: Any, name: str, redactor: Redactor) -> Any:
    if name == "category":
        return None if value is None else redactor.redact_path(value)
    if name == "metadata":
        return redactor.redact_mapping(value)
    if name == "tool_calls":
        return tuple(_clean_call(call, redactor) for call in value)
    if isinstance(value, tuple) and all(isinstance(each, str) for each in value):  # others are refused
        return tuple(dict.fromkeys(redactor.text(each) for each in value))
    return redactor.text(value) if isinstance(value, str) else value


def _clean_call(call: ToolCall, redactor: Redactor) -> ToolCall:
    clean = ToolCall(
        id=redactor.text(call.id), name=redactor.text(call.name), arguments=redactor.json_text(call.arguments)
    )
    return call if clean == call else clean


def get_redactor(store: Store) -> Redactor:
    """Return the redactor of a store; for a bare store, one that changes nothing."""
    return store.redactor if isinstance(store, RedactingStore) else _NOTHING


def unwrap(store: Store) -> Store:
    """Return the store without the redacting wrapper."""
    return store.inner if isinstance(store, RedactingStore) else store


def get_server_store(store: Store) -> PostgresStore | None:
    """Return a store on a server without the redacting wrapper; None for any other store."""
    bare = unwrap(store)
    return cast("PostgresStore", bare) if bare.is_on_server else None


_NOTHING = Redactor(enabled=False)


def redact_request(ask: ModelRequest, redactor: Redactor) -> ModelRequest:
    """Return the request to a model with secrets replaced in its messages."""
    if not redactor.enabled:
        return ask
    messages = tuple(
        replace(
            each,
            content=redactor.text(each.content),
            tool_calls=tuple(_clean_call(call, redactor) for call in each.tool_calls),
            tool_call_id=redactor.text(each.tool_call_id),
        )
        for each in ask.messages
    )
    return ask if messages == ask.messages else replace(ask, messages=messages)


# -- what is logged ------------------------------------------------------------------------------------------


_LOGS = ("reverie", "reverie.mcp")


def keep_secrets_from_log() -> None:
    """Redact what Reverie logs by the built-in rules, from now on."""
    for name in _LOGS:  # each of them, because loggers do not inherit filters
        log = logging.getLogger(name)
        if _redact_message not in log.filters:
            log.addFilter(_redact_message)


def _redact_message(record: logging.LogRecord) -> bool:
    """Redact a log record, because messages and exceptions may quote what a caller passed."""
    try:
        message = record.getMessage()
    except (TypeError, ValueError):  # the handler of the record reports the wrong arguments
        return True
    if (clean := redact_secrets(message)) != message:
        record.msg, record.args = clean, ()
    if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
        trace = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        if (clean := redact_secrets(trace)) != trace:
            record.exc_text, record.exc_info = clean, None
    return True
