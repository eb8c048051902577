"""What stores hold in these tests: strategies for everything there can be, and a dump to compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from reverie.domain.change import Change, Value
from reverie.domain.conversation import (
    ROLES,
    SESSION_STATUSES,
    SessionState,
    ToolCall,
    Turn,
    validate_session,
    validate_turn,
)
from reverie.domain.errors import InvalidInput
from reverie.domain.filter import Filter
from reverie.domain.page import HISTORY, Page, Paragraph, validate_page, validate_paragraph
from reverie.domain.record import KINDS, LAYERS, ORIGINS, Record, validate_record
from reverie.search.analyzer import analyze
from reverie.stores.in_memory import InMemoryStore
from reverie.stores.protocol import Store

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

_NASTY = st.sampled_from(
    [
        "---", "\n---\n", "\r\n", "\r", "\n\n", "\n \n", "\t", "\u2028", "\x85", "\ufeff", "\\", '"', "'",
        ": ", "# ", "- ", "## user, x <!-- turn {} -->", "\\## x <!-- turn {} -->", "<!-- turn ", "-->",
        "true", "null", "2026-03-01T12:00:00Z", "{", "}", "日本", "é", "🦊", "\u200b", "%41", "~", "'''",
        "\\n",
    ]
)  # fmt: skip
_CHARACTERS = st.characters(exclude_categories=("Cs",), exclude_characters="\x00")
_PLAIN = st.characters(exclude_categories=("Cs", "Cc"))


def texts(*, plain: bool = True, longest: int = 12) -> st.SearchStrategy[str]:
    """Texts of usual characters and of those that formats trip over."""
    piece = st.one_of(_NASTY, st.text(_PLAIN if plain else _CHARACTERS, max_size=6))
    return st.lists(piece, max_size=longest).map("".join)


def _kept(make: Any, check: Any) -> Any:
    """`make`'s value where it may be stored; None otherwise."""

    def attempt(fields: dict[str, Any]) -> Any:
        try:
            return check(make(**fields))
        except InvalidInput:
            return None

    return attempt


moments = st.integers(-(10**15), 10**15).map(lambda n: NOW + timedelta(microseconds=n % 10**14))
ids = st.integers(0, 2**48 - 1).map(lambda n: f"{n:012x}")
labels = st.lists(texts(longest=3).map(str.strip).filter(bool), unique=True, max_size=3).map(tuple)
metadata = st.dictionaries(texts(longest=2), texts(longest=3), max_size=2)

records = st.fixed_dictionaries(
    {
        "id": ids, "content": texts(), "created_at": moments, "updated_at": moments, "last_seen_at": moments,
        "category": st.sampled_from([None, "a", "user-preferences/style", "A_b-c/d"]),
        "kind": st.sampled_from(KINDS), "layer": st.sampled_from(LAYERS), "tags": labels,
        "confidence": st.floats(0, 1), "importance": st.floats(0, 1) | st.sampled_from([0, 1]),
        "source": texts(longest=2), "references": labels, "origin": st.sampled_from(ORIGINS),
        "scope": st.sampled_from(["", "user:a", "ümlaut"]), "pinned": st.booleans(),
        "seen_count": st.integers(1, 10**9), "valid_from": st.none() | moments,
        "valid_to": st.none(), "expires_at": st.none() | moments, "metadata": metadata,
        "archived_at": st.none() | moments, "archive_reason": texts(longest=2),
    }
).map(_kept(Record, validate_record)).filter(bool)  # fmt: skip

pages = (
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["MEMORY.md", "projects/atlas.md", "x.md"]),
            "content": texts(plain=False, longest=20),
            "updated_at": moments,
        }
    )
    .map(_kept(Page, validate_page))
    .filter(bool)
)
paragraphs = (
    st.fixed_dictionaries(
        {
            "id": ids,
            "page": st.sampled_from([HISTORY, "2026-02-07.md", "2026-02-08.md"]),
            "position": st.floats(-5, 5),
            "at": moments,
            "content": texts(longest=8).map(str.strip),
            "source": texts(longest=2),
        }
    )
    .map(_kept(Paragraph, validate_paragraph))
    .filter(bool)
)
calls = st.lists(
    st.tuples(texts(longest=2), texts(longest=2), texts(plain=False, longest=3)), max_size=2
).map(lambda found: tuple(ToolCall(id=one, name=name, arguments=text) for one, name, text in found))


@dataclass(frozen=True)
class Conversation:
    """A session with its turns."""

    state: SessionState
    turns: tuple[Turn, ...]


@st.composite
def conversations(draw: Any) -> Conversation | None:
    """A session with up to five turns."""
    scope = draw(st.sampled_from(["", "user:a"]))
    given = {
        "id": draw(st.sampled_from(["chat:1", "Chat:1", "../etc/passwd", "slack:É", "x" * 190, "a b\tc"])),
        "created_at": draw(moments), "status": draw(st.sampled_from(SESSION_STATUSES)), "scope": scope,
        "window_start": draw(st.integers(0, 9)), "summary": draw(texts(plain=False)),
        "metadata": draw(metadata),
    }  # fmt: skip
    state = _kept(SessionState, validate_session)(given)
    turns: list[Turn] = []
    for _ in range(draw(st.integers(0, 5)) if state else 0):
        role = draw(st.sampled_from(ROLES))
        fields = {
            "id": draw(ids), "session": state.id, "position": len(turns), "role": role,
            "content": draw(texts(plain=False)), "at": draw(moments), "speaker": draw(texts(longest=2)),
            "tool_calls": draw(calls) if role == "assistant" else (),
            "tool_call_id": draw(texts(longest=2)) if role == "tool" else "",
            "metadata": draw(metadata), "scope": scope,
        }  # fmt: skip
        turn = _kept(Turn, validate_turn)(fields)
        turns += [turn] if turn is not None else []
    return Conversation(state, tuple(turns)) if state else None


@st.composite
def holdings(draw: Any) -> list[Value]:
    """Everything that a store may hold at once, in an order in which it can be stored."""
    values: list[Value] = []
    said: set[tuple[str, str]] = set()
    for record in draw(st.lists(records, max_size=6, unique_by=lambda record: record.id)):
        if record.archived or (record.scope, record.fingerprint) not in said:
            values.append(record)
            said |= set() if record.archived else {(record.scope, record.fingerprint)}
    taken: set[str] = set()
    for each in draw(st.lists(conversations(), max_size=3)):
        if each is not None and each.state.id not in {value.id for value in values}:
            fresh = {turn.id: turn for turn in each.turns if turn.id not in taken}
            taken |= set(fresh)
            values += [each.state, *placed(tuple(fresh.values()))]
    values += draw(st.lists(pages, max_size=2, unique_by=lambda page: page.name))
    values += draw(st.lists(paragraphs, max_size=6, unique_by=lambda paragraph: paragraph.id))
    return values


def placed(turns: Sequence[Turn]) -> list[Turn]:
    """The turns at positions without gaps."""
    return [replace(turn, position=n) for n, turn in enumerate(turns)]


def store_of(values: Sequence[Value]) -> InMemoryStore:
    """An in-memory store that holds them."""
    store = InMemoryStore(analyse=analyze)
    if values:
        store.commit([Change(before=None, after=value) for value in values], actor="owner", at=NOW)
    return store


def dump(store: Store) -> dict[str, Any]:
    """Everything that an export keeps, in an order that does not depend on when it was stored."""
    sessions = sorted(store.sessions(), key=lambda each: each.state.id)
    return {
        "records": sorted(
            (record.to_dict() for record in store.find(Filter(archived=None))), key=lambda each: each["id"]
        ),
        "sessions": [
            (each.state.to_dict(), [turn.to_dict() for turn in store.turns(session=each.state.id)])
            for each in sessions
        ],
        "pages": [page.to_dict() for page in store.pages()],
        "logs": {
            name: [paragraph.to_dict() for paragraph in store.paragraphs(page=name)] for name in store.logs()
        },
    }
