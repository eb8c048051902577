"""Receipts of packs, read with the text that their lines had."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from reverie.context.receipts import (
    PackReceipt,
    ReceiptLine,
    build_receipt_cursor,
    build_receipts_prefix,
    decode_receipt,
    get_receipt_session,
)
from reverie.domain.conversation import Turn
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.page import Paragraph
from reverie.domain.record import Record
from reverie.domain.text.json_values import to_json_object
from reverie.domain.text.validation import validate_count
from reverie.search.page_index import PageIndex
from reverie.stores.protocol import Store, get_reader

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
