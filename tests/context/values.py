"""Records, turns, entries and hits to put into packs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from reverie.context.candidates import PackInput
from reverie.context.pack import Pack, build
from reverie.context.render import TokenBudget
from reverie.domain.conversation import Turn
from reverie.domain.entry import Entry
from reverie.domain.record import LAYERS, ORIGINS, Record
from reverie.search.hits import Hit
from tests.factories import make_entry, make_hit, make_record, make_tool_call, make_turn

NOW = datetime(2025, 1, 15, 10, 31, tzinfo=UTC)
SESSION = "telegram:12345"


def identifier(number: int) -> str:
    return f"{number:012x}"


def record(number: int = 1, content: str = "User is in Chicago", **fields: Any) -> Record:
    return make_record(number, content=content, moment=NOW, **fields)


def turn(position: int, role: Any = "user", content: str = "Hello", **fields: Any) -> Turn:
    fields = {"id": identifier(0xA00000 + position), "at": NOW, **fields}
    return make_turn(position, fields.pop("session", SESSION), role=role, content=content, **fields)


def call(position: int, *ids: str, content: str = "") -> Turn:
    return turn(position, "assistant", content, tool_calls=make_tool_call(position, *ids).tool_calls)


def result(position: int, id: str, content: str = "42") -> Turn:
    return turn(position, "tool", content, tool_call_id=id)


def entry(key: str, *, seconds: int | None = 272, **fields: Any) -> Entry:
    expires = None if seconds is None else NOW + timedelta(seconds=seconds)
    given = {"namespace": "session/x", "data": "secret", "stored_at": NOW, "expires_at": expires}
    return make_entry(key, **given, **fields)


hit = make_hit


def packed(**given: Any) -> Pack:
    """The pack of an input for the query `q`, or for what is given."""
    common = {"query": "q", "candidates": (), "replay": (), "now_at": 0, "now": NOW, "budget": TokenBudget()}
    return build(PackInput(**(common | given)))


def conversation(shape: list[int]) -> list[Turn]:
    """Turns after a shape.

    -1 is a result without a call, 0 is plain, n > 0 is a call of n tools with all its results, and n > 9 is a call
    of n - 9 tools of which the last has no result.
    """
    turns: list[Turn] = []
    for number, kind in enumerate(shape):
        if kind == 0:
            turns.append(turn(len(turns), "user" if number % 2 else "assistant"))
        elif kind < 0:
            turns.append(result(len(turns), f"lost-{number}"))
        else:
            count, missing = (kind - 9, 1) if kind > 9 else (kind, 0)
            ids = [f"c{n}" for n in range(count)]  # the same ids again and again, as some providers do
            turns.append(call(len(turns), *ids))
            for name in ids[: count - missing]:
                turns.append(result(len(turns), name))
    return turns


shapes = st.lists(st.sampled_from([-1, 0, 0, 0, 1, 1, 2, 3, 5, 10, 12]), max_size=30)
texts = st.text(min_size=1, max_size=400) | st.text(
    alphabet="ab\n\r\t-#[]():`\u2028\x85\u200b\u202e<|>", min_size=1, max_size=60
)


@st.composite
def hits(draw: st.DrawFn) -> list[Hit]:
    found = []
    for number in range(draw(st.integers(0, 14))):
        score = draw(st.floats(0, 1))
        content = draw(texts) * draw(st.sampled_from([1, 1, 1, 30]))
        if draw(st.booleans()):
            layer, origin = draw(st.sampled_from(LAYERS)), draw(st.sampled_from(ORIGINS))
            found.append(hit(record(number, content, layer=layer, origin=origin), score, "ab"))
        else:
            role = draw(st.sampled_from(["user", "assistant", "tool"]))
            found.append(hit(turn(number, role, content, id=identifier(number)), score))
    return sorted(found, key=lambda h: -h.score)


entries = st.lists(
    st.builds(
        entry,
        texts.map(lambda text: text[:200]),
        seconds=st.none() | st.integers(-10, 10**7),
        tags=st.lists(st.text(min_size=1, max_size=30), max_size=4).map(tuple),
    ),
    max_size=60,
)
