"""History of a memory: the journal, and undoing what stands in it."""

from __future__ import annotations

from collections.abc import Iterable

from reverie.admin.history.journal import Journal
from reverie.admin.history.positions import When
from reverie.admin.history.undo import Undo, UndoResult
from reverie.consolidation.cycle import ApplyResult
from reverie.domain.change import JournalEntry
from reverie.domain.errors import InvalidInput
from reverie.stores.writer import StoreWriter


class History(Journal):
    """Account of every change, and the way to take changes back. Safe to use from several threads."""

    def __init__(self, writer: StoreWriter) -> None:
        super().__init__(writer.store)
        self._writer = writer
        self._undo = Undo(writer)

    def acting(self, actor: str) -> History:
        """Return the same history with another author of undos."""
        return History(self._writer.acting(actor))

    def undo(
        self,
        what: int | JournalEntry | Iterable[int | JournalEntry] | ApplyResult | None = None,
        *,
        batch: int | None = None,
        since: When | None = None,
        dry_run: bool = False,
    ) -> UndoResult:
        """Take changes back, all of them in one transaction. Name them in one of three ways.

        Only what the change itself did is taken back: later changes stay. An undo is a change like any other;
        it stands in the journal and can be undone. Content of working memory, and erased content, does not
        come back.

        Args:
            what: A change, by its number or its journal entry, or several; or the result of `dreams.apply`.
            batch: The number of a change: everything that was made in the same transaction.
            since: A moment, or the number of a change: everything made at that moment or later, or from the
                transaction of that change on.
            dry_run: Whether to change nothing, and only return what would happen.

        Returns:
            The result for each thing. With `batch` and `since`, also what had to be left because it was
            erased.

        Raises:
            InvalidInput: not exactly one of the three was given, or the content of a change was erased.
            NotFound: there is no such change.
            Conflict: later changes rest on it; the message names them. Nothing was changed.
        """
        if isinstance(what, ApplyResult):
            if what.batch is None:
                raise InvalidInput(f"the plan {what.plan.id} changed nothing: there is nothing to undo")
            batch, what = what.batch, None
        return self._undo.undo(what, batch=batch, since=since, dry_run=dry_run)
