"""Questions about the journal: moments and numbers of changes, history, differences and blame."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice, takewhile

from reverie.admin.history.diff import (
    Blame,
    BlameLine,
    Difference,
    attribute_lines,
    compute_difference,
    describe_change,
    find_merged_ids,
)
from reverie.context.window import build_recalled_counter
from reverie.domain.change import JournalEntry, Value
from reverie.domain.conversation import Turn
from reverie.domain.errors import InvalidInput, NotFound, quote_value
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import Page, Paragraph, is_log
from reverie.domain.passage import SEARCHABLE
from reverie.domain.record import Record
from reverie.domain.text import timestamps
from reverie.domain.text.validation import validate_count, validate_id
from reverie.stores.protocol import Store, iter_rows

When = datetime | int
"""A moment, or the number of a change.

Clocks are set back now and then, so the times in the journal need not ascend. The state at a moment is the journal
up to the last entry with a time by then, because the store only ever held such a prefix. A transaction is never split.
"""

_FEW = 32  # most transactions are small
_CHUNK = 500


def sequence_at(store: Store, when: When, *, name: str = "moment") -> int:
    """Return the number of the last change by then, with the whole transaction of a number; 0 for none.

    Raises:
        InvalidInput: it is neither a moment with a time zone nor a number.
        NotFound: there is no change of that number.
    """
    if isinstance(when, datetime):
        return store.sequence_at(timestamps.to_utc(when, name=name))
    number = validate_number(when, name)
    return list_transaction_rows(store, number)[-1].sequence if number else 0


def sequence_before(store: Store, when: When, *, name: str = "since") -> int:
    """Return the number of the last change before those since then, or since the transaction of a number."""
    if isinstance(when, datetime):
        rows = store.journal(earliest=timestamps.to_utc(when, name=name), limit=1)
        return rows[0].sequence - 1 if rows else store.sequence()
    number = validate_number(when, name)
    return get_row(store, number).batch - 1 if number else 0


def get_row(store: Store, number: int) -> JournalEntry:
    """Return the change of that number.

    Raises:
        NotFound: there is no such change.
    """
    newest = store.sequence()
    rows = store.journal(after=number - 1, until=number, limit=1) if 0 < number <= newest else []
    if not rows:
        raise NotFound(f"no change {quote_value(number)}: the last one is {newest}")
    return rows[0]


def list_transaction_rows(store: Store, number: int) -> list[JournalEntry]:
    """Return the changes of the same transaction, in order.

    Raises:
        NotFound: there is no change of that number.
    """
    batch = get_row(store, number).batch
    rows = iter_rows(store, after=batch - 1, chunk=_FEW)
    return list(takewhile(lambda row: row.batch == batch, rows))


def validate_number(when: object, name: str, *, least: int = 0) -> int:
    """Return the number of a change, from `least`."""
    if isinstance(when, bool) or not isinstance(when, int) or when < least:
        advice = (
            "pass the number of a change, as `history` gives it, or where a time can be, one with a time zone"
        )
        raise InvalidInput(f"{name} is {quote_value(when)}: {advice}")
    return when


_ID = defer_regex(r"\b[0-9a-f]{12}\b")
_SESSION = "session:"
_MOST_NAMED = 1_000
_FORGOTTEN = "what {id!r} was then has been forgotten for good, so it cannot be compared"


class Journal:
    """Read access to the history of a store. Safe to use from several threads.

    Example:
        >>> from reverie import Memory
        >>> memory = Memory.open(":memory:")
        >>> record = memory.save("Deploys on Friday").record
        >>> _ = memory.update(record.id, content="Deploys on Monday")
        >>> [row.operation for row in memory.history.log(record.id)]
        ['save', 'update']
        >>> memory.history.diff(record.id).fields[0].after
        'Deploys on Monday'
        >>> memory.close()
    """

    def __init__(self, store: Store, *, until: int | None = None, things: Store | None = None) -> None:
        """Open the history of a store.

        Args:
            until: The number of the last change to consider; None for all, later ones too.
            things: The things that existed after that change; None for the present ones.
        """
        self._store = store
        self._until = until
        self._things = store if things is None else things

    def log(
        self,
        id: str | None = None,
        *,
        after: int = 0,
        limit: int = 100,
        newest_first: bool = False,
        actor: str | None = None,
        before: int | None = None,
        since: When | None = None,
        until: When | None = None,
    ) -> list[JournalEntry]:
        """Return changes in their order.

        Args:
            id: Only changes of the record, turn, session, page or paragraph of this id.
            after: Only changes with a number above this one.
            limit: The largest number of changes, 1 or more.
            newest_first: Whether to reverse the order, so that the limit keeps the newest.
            actor: Only changes of this actor.
            before: Only changes with a number below this one.
            since: Only changes made at this moment or later, or from this change's transaction on.
            until: Only changes made by this moment, or up to and with this change's transaction. A moment is compared
                with the time of each change, also where a clock was set back.

        Returns:
            The entries. One whose content was erased has no `edit`.

        Raises:
            InvalidInput: an argument is invalid.
            NotFound: there is no change of a number that was given.
        """
        validate_count(after, name="after", least=0)
        validate_count(limit, name="limit")
        if id is not None:
            validate_id(id)
        earliest, latest = (
            timestamps.to_utc(when, name=name) if isinstance(when, datetime) else None
            for name, when in (("since", since), ("until", until))
        )
        first = after if since is None or earliest else max(after, sequence_before(self._store, since))
        last = self._find_last_number(None if latest else until, name="until")
        if before is not None:
            validate_count(before, name="before", least=0)
            last = before - 1 if last is None else min(last, before - 1)
        rows = iter_rows(
            self._store,
            after=first,
            until=last,
            earliest=earliest,
            latest=latest,
            id=id,
            chunk=limit if actor is None else _CHUNK,
            newest_first=newest_first,
        )
        return list(islice((row for row in rows if actor in (None, row.actor)), limit))

    def sequence(self) -> int:
        """Return the number of the newest change; 0 before the first."""
        return self._store.sequence() if self._until is None else self._until

    def get(self, number: int) -> JournalEntry:
        """Return the change of that number.

        Raises:
            NotFound: there is no such change.
        """
        return get_row(self._store, number)

    def transaction(self, number: int) -> list[JournalEntry]:
        """Return the changes that were made together with the one of that number, in their order.

        Raises:
            NotFound: there is no such change.
        """
        return list_transaction_rows(self._store, number)

    def diff(self, id: str, a: When | None = None, b: When | None = None) -> Difference:
        """Return the difference between two versions of a thing; by default that of its last change.

        Args:
            id: The record, turn, session, page or paragraph.
            a: The earlier version: at this moment, or after this change's transaction; None for the one
                before `b`.
            b: The later version, likewise; None for the present one.

        Raises:
            NotFound: nothing ever had this id, or there is no change of a number given.
            InvalidInput: an argument is invalid, or one of the versions was erased.
        """
        rows = self._select_rows(validate_id(id))
        last = self._find_last_number(b, name="b")
        if a is None:
            done = [row for row in rows if last is None or row.sequence <= last]
            if done and done[-1].forgotten:
                raise InvalidInput(_FORGOTTEN.format(id=id))
            return compute_difference(done[-1]) if done else Difference(subject=rows[0].subject, id=id)
        before, after = (
            _find_version(rows, sequence_at(self._store, a, name="a"), id),
            _find_version(rows, last, id),
        )
        return Difference(subject=rows[0].subject, id=id, before=before, after=after)

    def changes(self, *, since: When, until: When | None = None) -> list[Difference]:
        """Return the net differences between two moments: what was added, changed or removed.

        It leaves out what was changed and changed back.

        Args:
            since: Just before the first change made at this moment or later, or before this change's transaction.
            until: At this moment, or after this change's transaction; None for now.

        Returns:
            One difference a thing, in the order in which they were first changed.

        Raises:
            InvalidInput: an argument is invalid.
            NotFound: there is no change of a number that was given.
        """
        first, last = sequence_before(self._store, since), self._find_last_number(until, name="until")
        rows = iter_rows(self._store, after=first, until=last)
        return compute_net_differences(_name_differences(rows))

    def blame(self, id: str) -> Blame:
        """Return the origin of a thing.

        Args:
            id: A record, turn, session, page (line by line), log (paragraph by paragraph) or paragraph,
                existing or not.

        Raises:
            NotFound: nothing ever had this id.
        """
        if is_log(validate_id(id)):
            return self._blame_log(id)
        rows = self._select_rows(id)
        newest = rows[-1].edit
        known = _find_latest_value(rows)
        merged = map(self._find_last_known, find_merged_ids(rows))
        counted = self._until is None and rows[-1].subject in SEARCHABLE
        last_recalled = self._store.cursor(build_recalled_counter(id)) if counted else None
        return Blame(
            subject=rows[-1].subject,
            id=id,
            there=newest is not None and newest.after is not None,
            created=None if rows[0].forgotten else describe_change(rows[0]),
            turns=tuple(turn for turn in self._things.turns(self._extract_named_ids(known)) if turn.id != id),
            sessions=self._extract_sessions(known),
            merged=tuple(record for record in merged if record is not None),
            lines=attribute_lines(rows) if isinstance(known, Page) else (),
            recalled=self._store.count(build_recalled_counter(id)) if counted else None,
            recalled_at=None if last_recalled is None else timestamps.parse_time(last_recalled),
        )

    # -- inside ----------------------------------------------------------------------------------------

    def _find_last_number(self, until: When | None, *, name: str) -> int | None:
        """Return the number of the last change by then, within this history."""
        if until is None:
            return self._until
        last = sequence_at(self._store, until, name=name)
        return last if self._until is None else min(last, self._until)

    def _select_rows(self, id: str) -> list[JournalEntry]:
        """Return all changes of a thing, the oldest first; of the newest thing, if several share the id."""
        rows = list(iter_rows(self._store, until=self._until, id=id))
        if not rows:
            raise NotFound(f"nothing of the id {id!r} was ever there: search or list for the right one")
        return [row for row in rows if row.subject == rows[-1].subject]

    def _blame_log(self, name: str) -> Blame:
        paragraphs = self._things.paragraphs(page=name)
        if not paragraphs:
            raise NotFound(f"the log {name!r} has no paragraphs: see `reverie history` for what there was")
        lines = []
        for number, paragraph in enumerate(paragraphs, 1):
            rows = self._select_rows(paragraph.id)
            written = (
                row
                for row in reversed(rows)
                if any(field.name == "content" for field in compute_difference(row).fields)
            )
            wrote = next(written, None)
            change = None if wrote is None or wrote.forgotten else describe_change(wrote)
            lines.append(BlameLine(number=number, text=paragraph.content, change=change))
        first = min((line.change for line in lines if line.change), key=lambda c: c.sequence, default=None)
        return Blame(subject="paragraph", id=name, there=True, created=first, lines=tuple(lines))

    def _extract_named_ids(self, value: Value | None) -> list[str]:
        """Return the ids that a thing names as its sources, and the turns at the places it names."""
        texts = _list_sources(value)
        named = [name for text in texts for name in _ID.findall(text)]
        for text in texts:
            session, _, place = text.removeprefix(_SESSION).rpartition("#")
            if text.startswith(_SESSION) and session and place.isdecimal():
                at = int(place)
                named += [turn.id for turn in self._things.turns(session=session, start=at, stop=at + 1)]
        return list(dict.fromkeys(named))[:_MOST_NAMED]

    def _extract_sessions(self, value: Value | None) -> tuple[str, ...]:
        if isinstance(value, Turn):
            return (value.session,)
        texts = _list_sources(value) if isinstance(value, Record) else []
        named = [text.removeprefix(_SESSION) for text in texts if text.startswith(_SESSION)]
        return tuple(dict.fromkeys(name.rpartition("#")[0] or name for name in named if name))

    def _find_last_known(self, id: str) -> Record | None:
        """Return the present or the last version of a record."""
        if records := self._things.records([id]):
            return records[0]
        value = _find_latest_value(self._store.journal(id=id, until=self._until, limit=1, newest_first=True))
        return value if isinstance(value, Record) else None


def _list_sources(value: Value | None) -> list[str]:
    """Return the texts of a thing that may name its sources."""
    if isinstance(value, Record):
        return [value.source, *value.references, value.promoted_from, *value.metadata.values()]
    return [value.source] if isinstance(value, Paragraph) else []


def compute_net_differences(steps: Iterable[tuple[Hashable, Difference]]) -> list[Difference]:
    """Return the net difference of each thing that differs, from the names of things and their differences in order."""
    net: dict[Hashable, Difference] = {}
    for name, one in steps:
        if (known := net.get(name)) is not None:
            forgotten = known.forgotten or one.forgotten
            one = replace(one, id=one.id or known.id, before=known.before, forgotten=forgotten)
        net[name] = one
    return [one for one in net.values() if one.what != "unchanged"]


def _name_differences(rows: Iterable[JournalEntry]) -> Iterator[tuple[Hashable, Difference]]:
    """Yield the difference of each change, with the id of its thing, or the number of a thing whose id was erased."""
    ids: dict[int, str | int] = {}
    for row in rows:
        one = compute_difference(row)
        yield (row.subject, ids.setdefault(row.key, one.id or row.key)), one


def _find_latest_value(rows: Sequence[JournalEntry]) -> Value | None:
    """Return the present or the last version of a thing; None if that was erased."""
    return next((row.edit.value for row in reversed(rows) if row.edit is not None), None)


def _find_version(rows: Sequence[JournalEntry], until: int | None, id: str) -> Value | None:
    """Return the version of a thing after the changes up to a number; None if there was none."""
    last = next((row for row in reversed(rows) if until is None or row.sequence <= until), None)
    if last is None:
        return None
    if last.edit is None:
        raise InvalidInput(_FORGOTTEN.format(id=id))
    return last.after
