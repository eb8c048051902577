"""Signals of good and bad answers, read from turns.

A correction, a failure of a tool and a thumb up or down stand on the turns themselves; what a session came to
is a record. Signals tell a model how to weigh what was said, and bad ones are evidence for anti-patterns.
They are never evidence for what the owner prefers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from reverie.domain.conversation import SIGNAL, SIGNAL_NOTE, Turn
from reverie.domain.record import SUMMARY_TAG, UNTRUSTED, Origin, Record
from reverie.domain.text.escaping import escape_line

SignalKind = Literal["correction", "tool_failure", "thumbs_up", "thumbs_down", "session_summary"]

MOST = 50
"""Most signals that a pass is shown, the newest (RockBot)."""

RECENT = timedelta(days=7)
"""Greatest age of a signal (RockBot)."""

BAD: frozenset[SignalKind] = frozenset({"correction", "tool_failure", "thumbs_down"})
"""Kinds that may support an anti-pattern."""

_OF_TURNS: tuple[SignalKind, ...] = ("correction", "tool_failure", "thumbs_up", "thumbs_down")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A sign that something went well or badly.

    Attributes:
        kind: What it is.
        id: The turn that it stands on, or the record of a summary.
        text: What that says.
        before: Of a correction what the assistant had said, of an answer what had been asked.
        note: What the owner added to a thumb.
        at: When.
        scope: Whose conversation it is.
        origin: Whose word it is; a tool's failure is the tool's.
    """

    kind: SignalKind
    id: str
    text: str
    at: datetime
    before: str = ""
    note: str = ""
    scope: str = ""
    origin: Origin = "owner"


def collect_signals(
    turns: Sequence[Turn], records: Iterable[Record] = (), *, now: datetime, changed: Collection[str] = ()
) -> tuple[Signal, ...]:
    """Return the signals, the earliest first: at most 50 of each scope, none older than a week.

    Args:
        turns: The turns, in their order.
        records: The live records, for what sessions came to.
        now: The moment.
        changed: Which of the records are of that time.
    """
    found = [each for each in _collect_turn_signals(turns) if now - each.at <= RECENT]
    for record in records:
        if record.id in changed and SUMMARY_TAG in record.tags and now - record.updated_at <= RECENT:
            found.append(
                Signal(
                    kind="session_summary",
                    id=record.id,
                    text=record.content,
                    at=record.updated_at,
                    scope=record.scope,
                    origin=record.origin,
                )
            )
    kept: list[Signal] = []
    room: dict[str, int] = {}
    for each in sorted(found, key=lambda signal: (signal.at, signal.id), reverse=True):
        if (taken := room.get(each.scope, 0)) < MOST:
            room[each.scope] = taken + 1
            kept.append(each)
    return tuple(reversed(kept))


def format_signals(found: Iterable[Signal]) -> str:
    """Return a line for each signal, or `(none)`."""
    lines = []
    for each in found:
        before = f" after “{_shorten_text(each.before, 300)}”" if each.before else ""
        note = f" ({_shorten_text(each.note, 200)})" if each.note else ""
        lines.append(f"- {each.kind} [{each.id}]{before}{note}: {_shorten_text(each.text, 500)}")
    return "\n".join(lines) or "(none)"


def _collect_turn_signals(turns: Sequence[Turn]) -> Iterable[Signal]:
    answered: dict[str, str] = {}
    asked: dict[str, str] = {}
    for turn in turns:
        kind = next((kind for kind in _OF_TURNS if kind == turn.metadata.get(SIGNAL)), None)
        if kind is not None:
            before = answered if turn.role == "user" else asked
            yield Signal(
                kind=kind,
                id=turn.id,
                text=turn.content,
                before=before.get(turn.session, ""),
                note=turn.metadata.get(SIGNAL_NOTE, ""),
                at=turn.at,
                scope=turn.scope,
                origin=turn.origin if turn.origin in UNTRUSTED else "owner",
            )
        if turn.content.strip():
            if turn.role == "assistant":
                answered[turn.session] = "" if turn.origin in UNTRUSTED else turn.content
            elif turn.role == "user":
                asked[turn.session] = turn.content


def _shorten_text(text: str, most: int) -> str:
    return escape_line(text)[:most]
