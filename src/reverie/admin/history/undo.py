"""History of a memory, and undo of changes by further changes that restore the earlier values.

The journal keeps everything: an undo is a change like any other, and can be undone. Erased content stays
erased.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from reverie.admin.history.diff import Difference
from reverie.admin.history.journal import (
    Journal,
    When,
    compute_net_differences,
    get_row,
    list_transaction_rows,
    sequence_before,
    validate_number,
)
from reverie.consolidation.inbox import PassOutcome
from reverie.consolidation.pair_judge import ACTOR
from reverie.domain.change import Change, JournalEntry, Subject, Value, get_subject
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import Conflict, InvalidInput
from reverie.domain.page import Page
from reverie.domain.record import Record
from reverie.domain.similarity.three_way_merge import find_changed_ranges, merge_values
from reverie.domain.text.json_values import to_json_object
from reverie.stores.protocol import get_reader, iter_rows, read_or_none
from reverie.stores.writer import StoreWriter

# Number of attempts before an undo that meets other changes fails with `Conflict`.
_ATTEMPTS = 20

# Number of attempts that require that no record was changed between planning and committing, such as erased. Later
# attempts do not, since an undo would never succeed under a steady stream of saves.
_PATIENT = 10

Name = tuple[Subject, str]
"""Kind and id of the value that a change is about."""

_MOST_NAMED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoResult:
    """Result of an undo, or of its dry run.

    Attributes:
        changes: The numbers of the undone changes, the last first.
        differences: The difference of each thing.
        left: The numbers of the changes that could not be undone, because what was before was erased, or something
            else in their session.
        rows: The journal entries of the undo; none in a dry run, or if nothing differed.
        dry_run: Whether nothing was changed.
    """

    changes: tuple[int, ...]
    differences: tuple[Difference, ...]
    left: tuple[int, ...] = ()
    rows: tuple[JournalEntry, ...] = ()
    dry_run: bool = False

    @property
    def text(self) -> str:
        """Format the whole as lines."""
        lines = [one.text for one in self.differences] or ["nothing to change: all is as it was before"]
        if self.left:
            lines.append(f"not undone, because of what has been forgotten: {_format_changes(self.left)}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return every field in a fixed order as JSON values."""
        values = to_json_object(self, "changes", "differences", "left")
        return values | {"made": [row.sequence for row in self.rows], "dry_run": self.dry_run}


_FORGOTTEN = "what was before has been forgotten for good"


class History(Journal):
    """Account of every change, and the way to take changes back. Safe to use from several threads."""

    def __init__(self, writer: StoreWriter) -> None:
        super().__init__(writer.store)
        self._writer = writer

    def acting(self, actor: str) -> History:
        """Return the same history with another author of undos."""
        return History(self._writer.acting(actor))

    def undo(
        self,
        what: int | JournalEntry | Iterable[int | JournalEntry] | PassOutcome | None = None,
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
        if isinstance(what, PassOutcome):
            if what.batch is None:
                raise InvalidInput(f"the plan {what.plan.id} changed nothing: there is nothing to undo")
            batch, what = what.batch, None
        numbers = what
        if sum(each is not None for each in (numbers, batch, since)) != 1:
            raise InvalidInput("name what to undo in one way: the changes, batch=, or since=")

        def attempt(tries: int) -> UndoResult:
            sequence = self._store.sequence()
            rows = self._resolve_request(numbers, batch, since)
            undone, left = _partition_rows(rows)
            edits = list(self._build_edits(undone))
            result = UndoResult(
                changes=tuple(row.sequence for row in reversed(undone)),
                differences=tuple(compute_net_differences(map(_compare, edits))),
                left=left,
                dry_run=dry_run,
            )
            if dry_run or not edits:
                return result
            since_checked = sequence if tries < _PATIENT else None
            reference = _format_numbers([row.sequence for row in rows])
            try:
                committed = self._writer.commit(
                    edits, operation="undo", reference=reference, since=since_checked
                )
            except Conflict as conflict:  # such as turns without the turns before them, or two equal records
                raise Conflict(
                    f"{_format_changes(result.changes)} cannot be undone now: {conflict}"
                ) from None
            return replace(result, rows=tuple(committed))

        return self._writer.retrying(attempt, attempts=_ATTEMPTS)

    # -- the changes to undo ---------------------------------------------------------------------------

    def _resolve_request(
        self,
        what: int | JournalEntry | Iterable[int | JournalEntry] | None,
        batch: int | None,
        since: When | None,
    ) -> Sequence[JournalEntry]:
        """Return the changes to undo, in order."""
        if since is not None:
            after = sequence_before(self._store, since)
            return list(iter_rows(self._store, after=after))
        if batch is not None:
            return list_transaction_rows(self._store, validate_number(batch, "batch", least=1))
        several = what if isinstance(what, Iterable) else (what,)
        numbers = {
            each.sequence if isinstance(each, JournalEntry) else validate_number(each, "change", least=1)
            for each in several
        }
        rows = [get_row(self._store, number) for number in sorted(numbers)]
        for row in rows:
            if row.forgotten:
                raise InvalidInput(f"change {row.sequence} cannot be undone: {_FORGOTTEN}")
        ends = {row.sequence: row for row in (*rows, *self._list_ends(rows))}
        return [ends[number] for number in sorted(ends)]

    def _list_ends(self, rows: Iterable[JournalEntry]) -> Iterator[JournalEntry]:
        """Yield the changes that ended other records for a record that is undone here, and that still stand."""
        for row in rows:
            if row.before is not None or not isinstance(added := row.after, Record):
                continue
            for old in read_or_none(self._store.records, self._store.citing([added.id])):
                if old is not None and old.replaced_by == added.id:
                    newest = self._store.journal(id=old.id, after=row.batch - 1, newest_first=True)
                    yield from [other for other in newest if _get_end(other) == added.id][:1]

    # -- the changes that undo them ----------------------------------------------------------------------

    def _build_edits(self, rows: Sequence[JournalEntry]) -> Iterator[Change]:
        """Build the changes that undo others, the last first, each on the result of the previous."""
        now = self._fetch_present(rows)
        undone = {row.sequence for row in rows}
        for row in reversed(rows):
            assert row.edit is not None
            name = (row.subject, row.edit.id)
            value = now[name]
            try:
                now[name] = _revert_edit(row.edit, value)
            except _Clash as clash:
                later = self._list_later_changes(row, undone)
                if not later or {(other.actor, other.operation) for other in later} != {(ACTOR, "settle")}:
                    raise Conflict(_explain_clash(row, clash, later)) from None
                now[name] = row.before  # what the judge of pairs found out about the text goes with it
            if now[name] != value:
                yield Change(before=value, after=now[name])

    def _fetch_present(self, rows: Sequence[JournalEntry]) -> dict[Name, Value | None]:
        """Return the present versions of changed things."""
        now: dict[Name, Value | None] = {
            (row.subject, row.edit.id): None for row in rows if row.edit is not None
        }
        ids: dict[Subject, list[str]] = {}
        for subject, name in now:
            ids.setdefault(subject, []).append(name)
        sessions = map(self._store.session, ids.pop("session", ()))
        found = [value for subject, names in ids.items() for value in get_reader(self._store, subject)(names)]
        for value in (*found, *filter(None, sessions)):
            now[get_subject(value), value.id] = value
        return now

    def _list_later_changes(self, row: JournalEntry, undone: set[int]) -> list[JournalEntry]:
        """Return the later changes of the same thing that are not undone."""
        assert row.edit is not None
        later = iter_rows(self._store, after=row.sequence, id=row.edit.id)
        return [one for one in later if one.subject == row.subject and one.sequence not in undone]


def _get_end(row: JournalEntry) -> str:
    """Return the id of the record for which a change ended its own; empty if it ended nothing."""
    before, after = row.before, row.after
    is_of_record = isinstance(before, Record) and isinstance(after, Record)
    return after.replaced_by if is_of_record and before.replaced_by != after.replaced_by else ""  # type: ignore[union-attr]


class _Clash(Exception):
    """A later change because of which a change cannot be undone alone."""


def _explain_clash(row: JournalEntry, clash: _Clash, later: Sequence[JournalEntry]) -> str:
    assert row.edit is not None
    by = f"by {_format_changes([one.sequence for one in later])}" if later else "since"
    return (
        f"change {row.sequence} cannot be undone alone: {row.subject} {row.edit.id!r} {clash} {by}; "
        "undo that first, or everything since"
    )


def _revert_edit(edit: Change, value: Value | None) -> Value | None:
    """Return a thing without one change.

    Raises:
        _Clash: a later change depends on it.
    """
    if value in (edit.before, edit.after):
        return edit.before
    if edit.after is None:
        raise _Clash("was made again")
    if value is None:
        if edit.before is None:
            return None
        raise _Clash("was removed")
    if edit.before is None:
        raise _Clash("was changed")
    pages = (edit.before, edit.after, value)
    if all(isinstance(page, Page) for page in pages) and _has_overlap(*(page.content for page in pages)):  # type: ignore[union-attr]
        raise _Clash("was changed in the same lines")
    merged, conflicts = merge_values(edit.after, value, edit.before)
    if conflicts:
        raise _Clash(f"was changed in the same fields ({', '.join(conflicts)})")
    return merged


def _has_overlap(before: str, after: str, now: str) -> bool:
    """Whether a later change touched the lines of this one."""
    was, then, present = (text.split("\n") for text in (before, after, now))
    first = [stretch for _, stretch in find_changed_ranges(was, then)]
    since = [stretch for stretch, _ in find_changed_ranges(then, present)]
    # A stretch without lines is a place between two of them.
    return any(one == other or (one[0] < other[1] and other[0] < one[1]) for one in first for other in since)


def _partition_rows(rows: Sequence[JournalEntry]) -> tuple[list[JournalEntry], tuple[int, ...]]:
    """Split changes into those that can be undone, and the numbers of those whose content was erased.

    Changes after a partial erasure of a thing can be undone. A conversation with erased turns is left as it
    is, because its turns depend on one another.
    """
    cut = {row.key: row.sequence for row in rows if row.forgotten}
    torn = {session for row in rows if row.forgotten for session in _extract_session(row.edit)}
    undone = [
        row
        for row in rows
        if row.sequence > cut.get(row.key, 0) and torn.isdisjoint(_extract_session(row.edit))
    ]
    kept = {row.sequence for row in undone}
    return undone, tuple(row.sequence for row in rows if row.sequence not in kept)


def _compare(edit: Change) -> tuple[Name, Difference]:
    name = (edit.subject, edit.id)
    return name, Difference(subject=edit.subject, id=edit.id, before=edit.before, after=edit.after)


def _extract_session(edit: Change | None) -> set[str]:
    """Return the session of a change, if it has one."""
    value = None if edit is None else edit.value
    if isinstance(value, Turn):
        return {value.session}
    return {value.id} if isinstance(value, SessionState) else set()


def _format_changes(numbers: Sequence[int]) -> str:
    return f"change{'' if len(numbers) == 1 else 's'} {_format_numbers(numbers)}"


def _format_numbers(numbers: Sequence[int]) -> str:
    """Format numbers as `3`, `3 to 9`, or `3, 5, 9 and others`."""
    if len(numbers) > 2 and all(b == a + 1 for a, b in pairwise(numbers)):
        return f"{numbers[0]} to {numbers[-1]}"
    first = ", ".join(map(str, numbers[:_MOST_NAMED]))
    return first if len(numbers) <= _MOST_NAMED else f"{first} and {len(numbers) - _MOST_NAMED} others"
