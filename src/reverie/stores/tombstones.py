"""Tombstones: marks without content of what was erased on a person's request.

When something is forgotten, the store keeps keyed hashes (HMAC-SHA-256) of its id and of what it said. They
keep it from coming back with an import, a rebuild from files or a file that reappears. They do not reveal the
text: whoever has the whole store can only try out guesses. What is in the store now is not forgotten: its owner
has saved it again. This module changes nothing in a store but the key.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from reverie.domain.change import Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import Conflict, StoreCorrupt
from reverie.domain.lazy_dataclass import replace
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.domain.text.shingles import RUN, normalize_text, normalize_words
from reverie.stores.protocol import Store

KEY = "forgetting.key"
"""The cursor that keeps the key of the hashes, 64 hexadecimal characters."""

T = TypeVar("T")

_ACTOR = "owner"
_MARK_CHARACTERS = 32
_LONG_TURN = 12
_KEY_FORM = defer_regex("[0-9a-f]{64}")


def make_key(store: Store, *, at: datetime) -> bytes:
    """Return the key of this store's tombstones; create it if there is none.

    Args:
        store: The store.
        at: The current time.
    """
    if store.cursor(KEY) is None:
        with suppress(Conflict):  # another process has just made one
            new = os.urandom(32).hex()
            store.commit([], actor=_ACTOR, at=at, cursors={KEY: new}, expected={KEY: None})
    key = _read_key(store)
    assert key is not None
    return key


def tombstone_keys(value: Value, key: bytes) -> list[str]:
    """Return the marks of a value: of its id and of its content.

    Args:
        value: A record, turn or paragraph. A page and a session have no mark of their name, which is a
            person's to give again.
        key: The key of `make_key`.
    """
    named = [] if isinstance(value, Page | SessionState) else [_mark(key, "id", "", value.id)]
    return [*named, *compute_content_marks(value, key)]


def compute_content_marks(value: Value, key: bytes) -> list[str]:
    """Return the marks of the content of a value; of a page, those of each of its lines.

    A text of five words and more (of a turn, twelve and more) has the same mark wherever it stands. A shorter
    one is marked together with what it is and where it stands, so that a forgotten turn that says "ok" keeps
    no other from saying it; and so is a system's turn, which many conversations begin with.
    """
    match value:
        case Record():
            return compute_text_marks(value.content, "record", "", key)
        case Turn():
            bound = value.role == "system" or len(normalize_words(value.content)) < _LONG_TURN
            anywhere = [] if bound else compute_text_marks(value.content, "turn", "", key)
            return [*_compute_bound_marks(value.content, "turn", value.session, key), *anywhere]
        case Paragraph():
            return compute_text_marks(value.content, "paragraph", value.page, key)
        case Page():
            lines = value.content.split("\n")
            return [mark for line in lines for mark in compute_text_marks(line, "line", value.name, key)]
        case SessionState():
            return compute_text_marks(value.summary, "summary", value.id, key)


def compute_text_marks(text: str, kind: str, place: str, key: bytes) -> list[str]:
    """Return the mark of a text; none for an empty text.

    Args:
        text: The text.
        kind: What it is of, such as `record`.
        place: Where it stands, such as its session.
        key: The key of `make_key`.
    """
    words = normalize_words(text)
    return (
        [_mark(key, "text", "", " ".join(words))]
        if len(words) >= RUN
        else _compute_bound_marks(text, kind, place, key)
    )


def is_forgotten(store: Store, values: Iterable[Value]) -> set[str]:
    """Return the ids of values that were forgotten and have not been stored again.

    Args:
        store: The store.
        values: Records, turns and paragraphs to be imported; for pages use `drop_forgotten`.

    Returns:
        The ids; none if nothing was ever forgotten.
    """
    key = _read_key(store)
    if key is None:
        return set()
    marked = _select_marked(store, ((value, tombstone_keys(value, key)) for value in values))
    suspects = {value.id: value for value in marked}  # most have two marks
    return {name for name, value in suspects.items() if not _is_there(store, value)}


def find_forgotten_texts(
    store: Store, texts: Iterable[str], *, kind: str = "record", place: str = ""
) -> set[str]:
    """Return those of some texts without ids that were forgotten, whether they have been stored again or not.

    Args:
        store: The store.
        texts: Texts to be imported.
        kind: What they would become: `record`, `turn`, `paragraph` or `line`.
        place: The session of a turn; the page of a paragraph or line.
    """
    key = _read_key(store)
    if key is None:
        return set()
    return set(_select_marked(store, ((text, compute_text_marks(text, kind, place, key)) for text in texts)))


def drop_forgotten(store: Store, page: Page) -> Page:
    """Return the page without forgotten lines; lines that have been stored again stay."""
    lines = page.content.split("\n")
    forgotten = find_forgotten_texts(store, lines, kind="line", place=page.name)
    for there in store.pages([page.name]) if forgotten else ():
        forgotten -= set(there.content.split("\n"))
    if not forgotten:
        return page
    return replace(page, content="\n".join(line for line in lines if line not in forgotten))


def _select_marked(store: Store, marked: Iterable[tuple[T, Iterable[str]]]) -> list[T]:
    """Return the things of which the store has a mark; one with several such marks several times."""
    things: dict[str, list[T]] = {}
    for thing, marks in marked:
        for mark in marks:
            things.setdefault(mark, []).append(thing)
    return [thing for mark in store.tombstones(list(things)) for thing in things[mark]]


def is_key(text: str | None) -> bool:
    """Return whether a text is the value of the cursor `KEY`."""
    return text is not None and _KEY_FORM.fullmatch(text) is not None


def _read_key(store: Store) -> bytes | None:
    text = store.cursor(KEY)
    if text is None:
        return None
    if not is_key(text):
        raise StoreCorrupt(
            f"the key of the marks of forgotten content (cursor {KEY!r}) is damaged: bring back a backup with "
            "`reverie recover`"
        )
    return bytes.fromhex(text)


def _compute_bound_marks(text: str, kind: str, place: str, key: bytes) -> list[str]:
    words = " ".join(normalize_words(text)) or normalize_text(text)
    return [_mark(key, kind, place, words)] if words else []


def _mark(key: bytes, kind: str, place: str, text: str) -> str:
    return hmac.new(key, "\0".join((kind, place, text)).encode(), "sha256").hexdigest()[:_MARK_CHARACTERS]


def _is_there(store: Store, value: Value) -> bool:
    """Return whether the store has a value now, because its owner saved it again."""
    match value:
        case Record():
            found = store.records([value.id])
            same = found[0].content == value.content if found else False
            return same or store.record_like(value.scope, value.fingerprint) is not None
        case Turn():
            return value in store.turns([value.id])
        case Paragraph():
            return value in store.paragraphs([value.id])
        case _:
            return False
