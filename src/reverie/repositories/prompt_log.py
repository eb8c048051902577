"""The prompt log: which contexts a model was given, and why each line was in them.

A receipt of each context is written with the next change of its session; here it is found, explained and erased.
"""

from __future__ import annotations

import builtins
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from reverie.context.pack import Pack, PackInput
from reverie.context.receipts import (
    PackReceipt,
    ReceiptLine,
    build_receipt,
    build_receipt_cursor,
    build_receipts_prefix,
    decode_receipt,
    drop_erased_lines,
    encode_receipt,
    get_receipt_session,
)
from reverie.context.retrieval import query_from_message
from reverie.domain.change import Change
from reverie.domain.conversation import Turn
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.page import Paragraph
from reverie.domain.record import Record
from reverie.domain.text.json_values import to_json_object
from reverie.domain.text.timestamps import format_time
from reverie.domain.text.validation import validate_count
from reverie.search.page_index import PageIndex
from reverie.stores.protocol import Store, get_reader

KEPT = timedelta(days=30)
"""Lifetime of a receipt."""

MOST_RECEIPTS = 2_000
"""Largest number of receipts of a memory. Older ones are removed when a session begins, so there may be more."""

_MOST_PENDING = 8
_PRUNED_EVERY = 100  # positions of a session


class PendingReceipts:
    """Receipts of one session that wait to be stored with its next turn; the session's lock guards them."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._packs: dict[int, tuple[PackInput, Pack, bool]] = {}

    def __bool__(self) -> bool:
        return bool(self._packs)

    def add(self, given: PackInput, pack: Pack, *, asked: bool) -> None:
        """Keep the pack of a turn, in place of an earlier one for the same turn."""
        self._packs.pop(given.now_at, None)
        self._packs[given.now_at] = (given, pack, asked)
        if len(self._packs) > _MOST_PENDING:
            del self._packs[next(iter(self._packs))]

    def build_cursors(self, store: Store, changes: Sequence[Change]) -> dict[str, str | None]:
        """Return the cursors to set in the transaction of some changes.

        A message that was asked about before it was added is known by the turn that is among the changes.
        """
        cursors: dict[str, str | None] = {}
        added = {each.after.position: each.after for each in changes if isinstance(each.after, Turn)}
        for position, (given, pack, asked) in self._packs.items():
            turn = added.get(position)
            is_turn = turn is not None and query_from_message(turn.content) == given.query
            receipt = build_receipt(self._session, given, pack, asked=asked or is_turn)
            cursors[build_receipt_cursor(self._session, position)] = encode_receipt(receipt)
            if position % _PRUNED_EVERY == 0:
                cursors = {**find_old_receipts(store, given.now), **cursors}
        return cursors

    def clear(self) -> None:
        """Drop the receipts, because they were stored or the session is being deleted."""
        self._packs.clear()


def find_old_receipts(store: Store, now: datetime) -> dict[str, None]:
    """Return the cursors of receipts that are too old or too many."""
    stored = store.cursors(build_receipts_prefix())
    times = {name: text.partition(" ")[0] for name, text in stored.items()}  # in UTC, so they sort as text
    newest = sorted(times, key=times.__getitem__, reverse=True)
    first = format_time(now - KEPT)
    return {
        name: None for number, name in enumerate(newest) if number >= MOST_RECEIPTS or times[name] < first
    }


def find_session_receipts(store: Store, session: str) -> dict[str, None]:
    """Return the cursors of all receipts of a session, to be removed."""
    names = store.cursors(build_receipts_prefix(session))
    return {name: None for name in names if get_receipt_session(name) == session}


def find_erased_receipts(
    store: Store, ids: Collection[str], sessions: Collection[str], *, pages: bool
) -> dict[str, str | None]:
    """Return what becomes of the receipts when things are erased.

    Args:
        ids: Ids of what is erased.
        sessions: Sessions that are erased.
        pages: Whether lines of pages are.
    """
    changes: dict[str, str | None] = {}
    for name, text in store.cursors(build_receipts_prefix()).items():
        session = get_receipt_session(name) or ""
        try:
            receipt = None if session in sessions else decode_receipt(session, text)
        except InvalidInput:
            receipt = None
        after = None if receipt is None else drop_erased_lines(receipt, ids, pages=pages)
        if after is None or after is not receipt:
            changes[name] = None if after is None else encode_receipt(after)
    return changes


_log = logging.getLogger("reverie")

FindParagraph = Callable[[str], Paragraph | None]

LineState = Literal["unchanged", "changed", "removed", "unknown"]
"""State of a line's source; `unknown` if the text that was shown cannot be determined any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedLine:
    """A line of a receipt with its text.

    Attributes:
        line: The line.
        then: Its source when the prompt was made; None if that cannot be determined any more.
        state: The state of the source since.
    """

    line: ReceiptLine
    then: Record | Turn | Paragraph | None
    state: LineState

    def to_dict(self) -> dict[str, Any]:
        """Return the line as a JSON object."""
        return to_json_object(self.line) | {
            "state": self.state,
            "content": None if self.then is None else self.then.content,
            "scope": self.then.scope if isinstance(self.then, Record | Turn) else "",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedPack:
    """A receipt with its texts.

    Attributes:
        receipt: The receipt.
        question: The text that was searched for; None if that cannot be determined any more.
        standing: Records that stood in every prompt.
        lines: The candidates, best first.
    """

    receipt: PackReceipt
    question: str | None
    standing: tuple[ExplainedLine, ...]
    lines: tuple[ExplainedLine, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt with its texts as a JSON object."""
        return self.receipt.to_dict() | to_json_object(self, "question", "standing", "lines")


class ReceiptReader:
    """Reader of the receipts of the sessions of some scopes. Safe to use from several threads."""

    def __init__(self, store: Store, scopes: Sequence[str] | None) -> None:
        """Read receipts.

        Args:
            scopes: Scopes whose sessions are seen; None for all.
        """
        self._store = store
        self._scopes = scopes

    def list(self, session: str | None = None, *, limit: int | None = 50) -> builtins.list[PackReceipt]:
        """Return the receipts of a session, or of all, the newest first. One that cannot be read is left out.

        Raises:
            InvalidInput: `limit` is no number from 0 on.
        """
        if limit is not None:
            validate_count(limit, name="limit", least=0)
        receipts = []
        seen: dict[str, bool] = {}
        for name, text in self._store.cursors(build_receipts_prefix(session)).items():
            owner = get_receipt_session(name) or ""
            if owner not in seen:
                seen[owner] = session in (None, owner) and self._is_visible(owner)
            if not seen[owner]:
                continue
            try:
                receipts.append(decode_receipt(owner, text))
            except InvalidInput as error:
                _log.warning("the receipt %r cannot be read and is left out: %s", name, error)
        receipts.sort(key=lambda receipt: (receipt.at, receipt.position), reverse=True)
        return receipts if limit is None else receipts[:limit]

    def get(self, session: str, position: int) -> ExplainedPack:
        """Return the receipt of one prompt, with the texts as they were then.

        Raises:
            NotFound: no receipt is kept of it.
            InvalidInput: the receipt cannot be read, or an argument is not of its form.
        """
        validate_count(position, name="position", least=0)
        text = self._store.cursor(build_receipt_cursor(session, position))
        receipt = None if text is None else decode_receipt(session, text)
        if receipt is None or receipt.position != position or not self._is_visible(session):
            raise NotFound(
                f"no receipt is kept of a prompt for turn {position} of session {session!r}: list those there are"
            )
        pages = PageIndex(self._store).read().list_all()
        paragraphs = {paragraph.id: paragraph for paragraph in pages}
        return explain_receipt(self._store, receipt, paragraphs.get)

    def _is_visible(self, session: str) -> bool:
        state = self._store.session(session)
        return state is not None and (self._scopes is None or state.scope in self._scopes)


def explain_receipt(store: Store, receipt: PackReceipt, find_paragraph: FindParagraph) -> ExplainedPack:
    """Return a receipt with the texts that its lines had when the prompt was made.

    Args:
        find_paragraph: Returns the paragraph of a page by its id.
    """
    with store.reading():
        turns = store.turns(session=receipt.session, start=receipt.position, stop=receipt.position + 1)
        return ExplainedPack(
            receipt=receipt,
            question=turns[0].content if turns and receipt.asked else None,
            standing=tuple(
                _explain_line(store, _build_standing_line(name), receipt.sequence, find_paragraph)
                for name in receipt.standing
            ),
            lines=tuple(
                _explain_line(store, line, receipt.sequence, find_paragraph) for line in receipt.lines
            ),
        )


def _build_standing_line(name: str) -> ReceiptLine:
    return ReceiptLine(id=name, type="record", verdict="in every prompt", score=0.0, tokens=0)


def _explain_line(
    store: Store, line: ReceiptLine, sequence: int, find_paragraph: FindParagraph
) -> ExplainedLine:
    now = next(iter(get_reader(store, line.type)([line.id])), None)
    if now is None and line.type == "paragraph" and (of_page := find_paragraph(line.id)) is not None:
        return ExplainedLine(line=line, then=of_page, state="unchanged")  # its id changes with its text
    rows = store.journal(id=line.id, until=sequence, limit=1, newest_first=True)
    then = rows[0].after if rows else None
    if not isinstance(then, Record | Turn | Paragraph):
        return ExplainedLine(line=line, then=None, state="removed" if now is None else "unknown")
    if now is None:
        return ExplainedLine(line=line, then=then, state="removed")
    return ExplainedLine(
        line=line, then=then, state="unchanged" if now.content == then.content else "changed"
    )
