"""Receipts of packs: the ids and numbers of each prompt.

A receipt has no text. The texts are read from the journal as they were at that time, so erased text is gone from
receipts too. Values and pure functions; the session stores the receipts.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, get_args

from reverie.context.pack import CandidateDecision, Pack, PackInput, Verdict
from reverie.domain.errors import InvalidInput
from reverie.domain.text.json_values import to_json_object
from reverie.domain.text.timestamps import format_time, parse_time
from reverie.search.hits import Hit

MOST_LINES = 40
"""Most candidates of a receipt; selected ones take precedence."""

SLOTS = 200
"""Receipts of a session. A later one replaces the one 200 positions before."""

_PREFIX = "receipt:"
_NO_PARTS: Mapping[str, float] = MappingProxyType({})
_VERDICTS: tuple[str, ...] = get_args(Verdict)

LineType = Literal["record", "turn", "paragraph"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptLine:
    """One candidate of a pack.

    Attributes:
        id: Id of the record, turn or paragraph.
        type: `record`, `turn` or `paragraph`.
        verdict: `selected`, or the reason for leaving it out.
        score: 0 to 1.
        tokens: Tokens of its line.
        recent: Whether it was a candidate because it is recent, since little was found on the first turn.
        shown_at: The position of the replayed turn for which it was already shown; None otherwise.
        parts: The parts of its score by name, for a selected candidate.
    """

    id: str
    type: LineType
    verdict: Verdict
    score: float
    tokens: int
    recent: bool = False
    shown_at: int | None = None
    parts: Mapping[str, float] = field(default_factory=lambda: _NO_PARTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackReceipt:
    """Contents of one prompt.

    Attributes:
        session: The session.
        position: Position of the user's turn that was answered.
        at: When the prompt was made; the last time, if it was made several times for one turn.
        sequence: Number of the newest change at that time.
        asked: Whether the search was for that turn.
        soft_tokens: The soft budget.
        hard_tokens: The hard budget.
        tokens: Tokens of each section.
        cut: Sections that did not fit completely.
        replayed_messages: Number of replayed messages.
        replayed_tokens: Their tokens, outside the budget.
        standing: Ids of the records in the section `standing`.
        lines: The candidates, best first.
        left_out: Number of further candidates.
        erased: Number of candidates that were erased later.
    """

    session: str
    position: int
    at: datetime
    sequence: int
    asked: bool
    soft_tokens: int
    hard_tokens: int
    tokens: Mapping[str, int]
    cut: tuple[str, ...]
    replayed_messages: int
    replayed_tokens: int
    standing: tuple[str, ...]
    lines: tuple[ReceiptLine, ...]
    left_out: int = 0
    erased: int = 0

    @property
    def total(self) -> int:
        """Tokens of the whole text."""
        return sum(self.tokens.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as JSON values."""
        return to_json_object(
            self,
            *("session", "position", "at", "sequence", "asked", "soft_tokens", "hard_tokens", "total"),
            *("tokens", "cut", "replayed_messages", "replayed_tokens", "standing", "left_out", "erased"),
        )


def build_receipt(session: str, given: PackInput, pack: Pack, *, asked: bool) -> PackReceipt:
    """Return the receipt of a pack that was made from an input."""
    order = sorted(pack.choices, key=lambda choice: choice.verdict != "selected")
    shown_ids = {id(choice) for choice in order[:MOST_LINES]}
    return PackReceipt(
        session=session,
        position=given.now_at,
        at=given.now,
        sequence=given.sequence,
        asked=asked,
        soft_tokens=pack.soft_tokens,
        hard_tokens=pack.hard_tokens,
        tokens=pack.diagnostics.tokens,
        cut=pack.cut,
        replayed_messages=len(pack.replay.messages),
        replayed_tokens=pack.replay.tokens,
        standing=tuple(hit.id for hit in pack.standing),
        lines=tuple(_build_line(choice) for choice in pack.choices if id(choice) in shown_ids),
        left_out=max(0, len(pack.choices) - MOST_LINES),
    )


def _build_line(choice: CandidateDecision) -> ReceiptLine:
    hit: Hit = choice.hit
    is_in = choice.verdict == "selected"
    return ReceiptLine(
        id=hit.id,
        type="record" if hit.record is not None else "turn" if hit.turn is not None else "paragraph",
        verdict=choice.verdict,
        score=round(hit.score, 3),
        tokens=choice.tokens,
        recent=choice.recent,
        shown_at=choice.shown_at,
        parts={name: round(value, 3) for name, value in hit.explanation.parts.items()} if is_in else {},
    )


# -- stored form ---------------------------------------------------------------------------------------


def build_receipt_cursor(session: str, position: int) -> str:
    """Return the name of the store's cursor with a receipt."""
    return f"{_PREFIX}{session}:{position % SLOTS}"


def build_receipts_prefix(session: str | None = None) -> str:
    """Return the prefix of the cursors of a session's receipts; of all receipts for None."""
    return _PREFIX if session is None else f"{_PREFIX}{session}:"


def get_receipt_session(cursor: str) -> str | None:
    """Return the session of a receipt by the name of its cursor; None for another cursor."""
    return cursor.removeprefix(_PREFIX).rpartition(":")[0] if cursor.startswith(_PREFIX) else None


def encode_receipt(receipt: PackReceipt) -> str:
    """Return a receipt as one line of text that begins with its time, for `decode_receipt`."""
    values = [
        [receipt.position, receipt.sequence, int(receipt.asked)],
        [receipt.soft_tokens, receipt.hard_tokens, receipt.replayed_messages, receipt.replayed_tokens],
        dict(receipt.tokens),
        list(receipt.cut),
        list(receipt.standing),
        [receipt.left_out, receipt.erased],
        [_encode_line(line) for line in receipt.lines],
    ]
    return f"{format_time(receipt.at)} {json.dumps(values, separators=(',', ':'))}"


def _encode_line(line: ReceiptLine) -> list[Any]:
    values: list[Any] = [line.id, line.type, line.verdict, line.score, line.tokens]
    more = [int(line.recent), line.shown_at, dict(line.parts)]
    return values + more if any((line.recent, line.shown_at is not None, line.parts)) else values


def decode_receipt(session: str, text: str) -> PackReceipt:
    """Return a stored receipt.

    Raises:
        InvalidInput: it is not a receipt.
    """
    at, _, values = text.partition(" ")
    try:
        place, budget, tokens, cut, standing, counts, lines = json.loads(values)
        return PackReceipt(
            session=session,
            position=int(place[0]),
            at=parse_time(at),
            sequence=int(place[1]),
            asked=bool(place[2]),
            soft_tokens=int(budget[0]),
            hard_tokens=int(budget[1]),
            tokens={str(name): int(cost) for name, cost in tokens.items()},
            cut=tuple(map(str, cut)),
            replayed_messages=int(budget[2]),
            replayed_tokens=int(budget[3]),
            standing=tuple(map(str, standing)),
            lines=tuple(_decode_line(*line) for line in lines),
            left_out=int(counts[0]),
            erased=int(counts[1]),
        )
    except (ValueError, TypeError, IndexError, AttributeError) as error:
        raise InvalidInput(f"not a receipt of a pack: {error}") from None


def _decode_line(
    id: str,
    type: LineType,
    verdict: Verdict,
    score: float,
    tokens: int,
    recent: int = 0,
    shown_at: int | None = None,
    parts: Mapping[str, float] = _NO_PARTS,
) -> ReceiptLine:
    if verdict not in _VERDICTS:
        raise ValueError(f"unknown verdict {verdict!r}")
    return ReceiptLine(
        id=str(id),
        type=type,
        verdict=verdict,
        score=float(score),
        tokens=int(tokens),
        recent=bool(recent),
        shown_at=shown_at,
        parts=dict(parts),
    )


def drop_erased_lines(receipt: PackReceipt, ids: Collection[str], *, pages: bool) -> PackReceipt:
    """Return a receipt without erased candidates.

    Args:
        receipt: The receipt.
        ids: Ids of erased values.
        pages: Whether pages were erased, the ids of whose paragraphs are made from their text.
    """

    def is_erased(line: ReceiptLine) -> bool:
        return line.id in ids or (pages and line.type == "paragraph")

    lines = tuple(line for line in receipt.lines if not is_erased(line))
    standing = tuple(name for name in receipt.standing if name not in ids)
    left = {*(line.id for line in lines), *standing}
    erased_ids = {*(line.id for line in receipt.lines), *receipt.standing} - left
    if not erased_ids:
        return receipt
    return replace(receipt, lines=lines, standing=standing, erased=receipt.erased + len(erased_ids))
