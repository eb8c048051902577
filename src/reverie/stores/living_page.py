"""The living page as a store has it: its block as it was composed last, when it is stale, and what an edit changes.

A block is kept in a cursor, one for each scope, so that a prompt has the same bytes until the page is composed anew.
`MEMORY.md` of the store holds only what people and tools write; files and readers add everybody's block to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta, tzinfo
from types import MappingProxyType
from typing import Literal, NamedTuple

from reverie.domain.change import Change, Operation
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import StoreUnavailable
from reverie.domain.filter import Filter, has_passed
from reverie.domain.headlines import detach_changed
from reverie.domain.intake import classify, describe_intake, reread
from reverie.domain.lazy_dataclass import replace
from reverie.domain.living_page import (
    FEW,
    Line,
    PageParts,
    Section,
    compose,
    join_page,
    load_words,
    mark_block,
    parse_block,
    render_block,
    split_page,
)
from reverie.domain.page import MEMORY, Page, validate_page
from reverie.domain.provenance import least_trusted
from reverie.domain.record import HOME_LAYERS, Kind, Origin, Record, note_dates, validate_record
from reverie.domain.text import escaping
from reverie.domain.text.dates import get_local_day
from reverie.domain.text.timestamps import format_time, parse_time
from reverie.settings import Settings
from reverie.stores.protocol import Store
from reverie.stores.redacting import get_redactor, redact_value
from reverie.stores.writer import StoreWriter

ACTOR = "dream"
"""Author of the composed page in the journal."""

REMOVED = "deleted from the page"
"""Reason of a record whose line was deleted."""

ACCIDENT = "an edit of the page took away many lines, or a comment line of its block"
"""Reason of changes that are proposed instead of made."""

_PREFIX = "page:"
_READ = "pages.read"  # the cursor with the last change that the composed pages show
_MOST_RECORDS = 3_000  # of a scope; the newest, and those that are pinned
_MOST_ROWS = 2_000
_OWN = (ACTOR, "rules")  # authors of changes that nobody has asked for
_MOST_OWN = 20


class _Composed(NamedTuple):
    """A block as it was composed.

    Attributes:
        sequence: Number of the newest change at that time.
        day: The day.
        at: The time.
        block: The block.
    """

    sequence: int
    day: str
    at: str
    block: str


def read_block(store: Store, scope: str = "") -> str:
    """Return the block of a scope as it was composed last; empty if it never was."""
    found = _read(store, scope)
    return "" if found is None else found.block


def read_memory_pages(store: Store, names: Sequence[str] | None = None) -> list[Page]:
    """Return pages as `Store.pages` does, `MEMORY.md` with everybody's block."""
    pages = store.pages(names)
    found = _read(store, "") if names is None or MEMORY in names else None
    if found is None or not found.block:
        return pages
    page = next((page for page in pages if page.name == MEMORY), None)
    at = parse_time(found.at) if page is None else max(page.updated_at, parse_time(found.at))
    whole = Page(
        name=MEMORY, content=join_page("" if page is None else page.content, found.block), updated_at=at
    )
    return sorted([whole, *(page for page in pages if page.name != MEMORY)], key=lambda each: each.name)


def find_page_cursors(store: Store) -> dict[str, None]:
    """Return the cursors of all blocks, to be removed before something is erased."""
    cursors = dict.fromkeys(store.cursors(_PREFIX))
    return {**cursors, _READ: None} if cursors else {}


def _read(store: Store, scope: str) -> _Composed | None:
    text = store.cursor(_PREFIX + scope)
    return None if text is None else _Composed(*json.loads(text))


def _encode(composed: _Composed) -> str:
    return json.dumps(composed, ensure_ascii=False)


class LivingPages:
    """The living pages of a store, one for each scope. Safe to use from several threads and processes."""

    def __init__(self, writer: StoreWriter, settings: Settings) -> None:
        """Compose the pages of a store; the journal names `ACTOR` as their author."""
        self._writer = writer.acting(ACTOR)
        self._store = writer.store
        self._settings = settings
        self._busy_until = datetime.min.replace(tzinfo=UTC)  # somebody is talking, at least until then

    def read(self, scope: str) -> str:
        """Return the block of a scope, composed anew if something has changed."""
        return self._compose(scope) if self._is_stale(scope) else read_block(self._store, scope)

    def compose_if_quiet(self, scopes: Sequence[str]) -> None:
        """Compose the stale pages of some scopes if nobody is talking, and conversations are recorded."""
        if self._settings.is_recording and self._is_quiet():
            for scope in scopes:
                self.read(scope)

    @contextmanager
    def composing_anew(self) -> Iterator[None]:
        """Remove all composed pages, which quote records, and compose them again when the block ends."""
        cursors = find_page_cursors(self._store)
        if cursors:
            self._writer.commit([], cursors=cursors)
        try:
            yield
        finally:
            for name in cursors:
                if name.startswith(_PREFIX):
                    self._compose(name.removeprefix(_PREFIX))

    def compose_stale(self) -> int:
        """Compose the pages of all scopes that have changed; return how many these were."""
        sequence = self._store.sequence()
        read, _, day = (self._store.cursor(_READ) or "").partition(" ")
        stale = set(self._find_scopes_after(int(read)) if read else self._list_scopes())
        if day != self._get_day():
            stale.update(name.removeprefix(_PREFIX) for name in self._store.cursors(_PREFIX))
        for scope in sorted(stale):
            self._compose(scope)
        self._writer.commit([], cursors={_READ: f"{sequence} {self._get_day()}"})
        return len(stale)

    def has_news(self) -> bool:
        """Return whether something was changed since `compose_stale`, or a day has begun."""
        return self._store.cursor(_READ) != f"{self._store.sequence()} {self._get_day()}"

    def edit(
        self,
        scope: str,
        change: Callable[[str], str],
        base: str | None,
        *,
        writer: StoreWriter,
        origin: Origin = "owner",
        operation: Operation = "write",
        note: str = "",
    ) -> PageEdit:
        """Edit the page of a scope; everybody's with what people write in `MEMORY.md`.

        Args:
            scope: The scope.
            change: Returns the new text for the present one.
            base: The text that the new one was made from; None for the present one.
            writer: Commits the changes.
            origin: Who edits it; a record is no more trusted than that afterwards.
            operation: The operation, for the journal.
            note: A person's words, for the journal.
        """
        block = read_block(self._store, scope)
        redactor = get_redactor(self._store)

        def attempt(_: int) -> tuple[PageEdit, PageDecision]:
            page = None if scope else next(iter(self._store.pages([MEMORY])), None)
            present = "" if page is None else page.content
            whole = join_page(present, block)
            text = redactor.text(change(whole))
            was = split_page(whole if base is None else base, was=present)
            parts = split_page(text, was=was.outside, base=was.block or "")
            if parts.block is None and base is None and operation == "write" and not scope:
                parts = parts._replace(block=was.block)  # whoever wrote it did not know of the block
            decision = decide_edit(writer, was, parts, scope=scope, origin=origin, zone=self._settings.zone)
            changes = list(decision.changes)
            from reverie.domain.similarity.three_way_merge import merge_text  # here: few edits collide

            outside = merge_text(was.outside, parts.outside, present)
            is_new = page is None and not scope and bool(outside or not block)
            if is_new or outside != present:
                after = validate_page(Page(name=MEMORY, content=outside, updated_at=writer.clock()))
                changes.append(
                    Change(before=page, after=redact_value(after, redactor, known=page is not None))
                )
            if changes:
                writer.commit(changes, operation=operation, note=note, cursors=decision.cursors)
                writer.publish([])
            made: Literal["changed", "unchanged"] = "changed" if changes else "unchanged"
            return PageEdit(
                text=outside,
                outcome="created" if is_new else made,
                merged=present not in (was.outside, parts.outside),
                proposed=len(decision.held),
            ), decision

        edit, decision = writer.retrying(attempt)
        if decision.held:
            writer.propose(decision.held, ACCIDENT)
        fresh = read_block(self._store, scope)
        return edit._replace(text=join_page("" if scope else edit.text, fresh))

    def edit_block(
        self, scope: str, text: str, base: str, *, writer: StoreWriter, origin: Origin, note: str = ""
    ) -> PageEdit:
        """Edit the block of a scope alone; see `edit`. The result has the block only."""
        block = mark_block(split_page(text, base=base))

        def change(whole: str) -> str:
            return join_page("" if scope else split_page(whole).outside, block)

        edit = self.edit(scope, change, base, writer=writer, origin=origin, note=note)
        return edit._replace(text=self.read(scope))

    def describe_changes(self, block: str) -> str:
        """Return a line for each record of a block that has changed since it was composed; empty if none has."""
        if not block:
            return ""
        lines = {line.id: line for section in parse_block(block) for line in section.lines if not line.note}
        now, since = self._writer.clock(), load_words()[self._settings.language]["since"]
        found = {record.id: record for record in self._store.records(list(lines))}
        newer = {
            record.id: record
            for record in self._store.records(
                sorted({r.replaced_by for r in found.values() if r.replaced_by})
            )
        }
        rows = []
        for name, line in lines.items():
            record = found.get(name)
            successor = None if record is None else newer.get(record.replaced_by)
            is_over = record is None or record.archived or has_passed(record, now)
            if successor is not None:
                text = f"{escaping.escape_line(successor.content)} [{successor.id}]"
            elif record is not None and not is_over and record.content != line.text:
                text = escaping.escape_line(record.content)
            elif is_over:
                text = "∅"
            else:
                continue
            rows.append(f"- {escaping.escape_line(line.text)} → {text}")
        return "\n".join([f"{since}:", *rows]) if rows else ""

    # -- inside ------------------------------------------------------------------------------------------

    def _is_stale(self, scope: str) -> bool:
        found = _read(self._store, scope)
        if found is None or found.day != self._get_day() or found.sequence > self._store.sequence():
            return True
        read = (self._store.cursor(_READ) or "0").partition(" ")[0]
        return scope in self._find_scopes_after(max(found.sequence, int(read)))

    def _get_day(self) -> str:
        return get_local_day(self._writer.clock(), self._settings.zone).isoformat()

    def _is_quiet(self) -> bool:
        """Return whether people and programs wrote nothing for so long that a session ends, and a dream may begin.

        The question that is being asked does not count.
        """
        now = self._writer.clock()
        if now < self._busy_until:
            return False
        asked = 0
        for row in self._store.journal(limit=_MOST_OWN, newest_first=True):
            value = None if row.edit is None else row.edit.value
            if isinstance(value, SessionState) or (
                isinstance(value, Turn) and value.role == "user" and not asked
            ):
                asked += isinstance(value, Turn)
            elif row.actor not in _OWN:
                quiet = max(self._settings.idle, timedelta(minutes=self._settings.dream_idle))
                self._busy_until = min(row.at, now) + quiet
                return now >= self._busy_until
        return True

    def _find_scopes_after(self, sequence: int) -> Collection[str]:
        """Return the scopes whose records have changed after a change of the journal; all after very many changes."""
        if self._store.sequence() == sequence:
            return ()
        rows = self._store.journal(after=sequence, limit=_MOST_ROWS)
        if len(rows) == _MOST_ROWS:
            return self._list_scopes()
        return {
            row.edit.value.scope
            for row in rows
            if row.edit is not None and isinstance(row.edit.value, Record)
        }

    def _list_scopes(self) -> list[str]:
        return ["", *self._store.tally("scope", Filter())]

    def _compose(self, scope: str) -> str:
        """Compose the block of a scope and store it; without a change of records, only that it was composed."""
        settings, store = self._settings, self._store

        def attempt(_: int) -> str:
            sequence, now, before = store.sequence(), self._writer.clock(), _read(store, scope)
            records, unread = self._find_records(scope)
            replaced = store.records(sorted({name for record in records for name in record.replaces}))
            page = None if scope else next(iter(store.pages([MEMORY])), None)
            outside = "" if page is None else page.content
            block = compose(
                records,
                {record.id: record for record in replaced},
                now=now,
                zone=settings.zone,
                language=settings.language,
                tokens=max(settings.page_tokens - len(outside) // 4, settings.page_tokens // 2),
                unread=unread,
            )
            is_new = block != ("" if before is None else before.block)
            at = format_time(now) if is_new or before is None else before.at
            composed = _encode(_Composed(sequence, self._get_day(), at, block))
            if settings.is_recording and (block or before is not None):
                with suppress(StoreUnavailable):  # a folder that cannot be written, or a full disk
                    self._writer.commit([], since=sequence, cursors={_PREFIX + scope: composed})
            if is_new and not scope:
                self._writer.publish([])
            return block

        return self._writer.retrying(attempt)

    def _find_records(self, scope: str) -> tuple[list[Record], int]:
        """Return the records that are considered, and the number of the others."""
        wanted = Filter(scopes=(scope,), alive_at=self._writer.clock())
        newest = list(self._store.find(wanted, limit=_MOST_RECORDS))
        if len(newest) < _MOST_RECORDS:
            return newest, 0
        pinned = self._store.find(replace(wanted, pinned=True), limit=_MOST_RECORDS)
        found = {record.id: record for record in (*newest, *pinned)}
        return list(found.values()), sum(self._store.tally("kind", wanted).values()) - len(found)


# -- edits -------------------------------------------------------------------------------------------------


class PageEdit(NamedTuple):
    """What became of an edited page.

    Attributes:
        text: The page as it is now.
        outcome: `created`, `changed` or `unchanged`.
        merged: Whether what stands outside of the block was merged with a change that somebody else had made.
        proposed: Number of changes of records that were not made and wait for review, since too much was taken away.
    """

    text: str
    outcome: Literal["created", "changed", "unchanged"]
    merged: bool = False
    proposed: int = 0


class PageDecision(NamedTuple):
    """The changes of records that an edit of a page makes.

    Attributes:
        changes: The changes to make.
        cursors: The cursor of the edited block, to be set with them.
        held: The changes to propose to the owner; the block stays.
    """

    changes: Sequence[Change] = ()
    cursors: Mapping[str, str | None] = MappingProxyType({})
    held: Sequence[Change] = ()


def decide_edit(
    writer: StoreWriter,
    was: PageParts,
    parts: PageParts,
    *,
    scope: str = "",
    origin: Origin = "owner",
    zone: tzinfo = UTC,
) -> PageDecision:
    """Return the changes that an edit of a page makes; those of an edit that looks like an accident wait.

    Args:
        writer: Reads the store and makes ids.
        was: The page as it was read.
        parts: The page as it is now.
        scope: Scope of the page.
        origin: Who edits it.
        zone: Time zone of days.

    Raises:
        InvalidInput: a text cannot be that of a record.
    """
    store, now = writer.store, writer.clock()
    known = {line.id: line for each in parse_block(was.block or "") for line in each.lines if line.id}
    live = {r.id: r for r in store.records(list(known)) if r.scope == scope and not r.archived}
    changes: list[Change] = []
    taken: set[str] = set()

    def add(before: Record | None, after: Record) -> bool:
        """Add a change unless another record says the same; return whether it was added."""
        twin = store.record_like(scope, after.fingerprint)
        is_new = after.fingerprint not in taken and (twin is None or twin.id == after.id)
        taken.add(after.fingerprint)
        changes.extend([Change(before=before, after=after)] if is_new else [])
        return is_new

    def archive(record: Record, why: str) -> None:
        changes.append(Change(before=record, after=replace(record, archived_at=now, archive_reason=why)))

    sections: list[Section] = []
    for section in parse_block(parts.block or ""):
        lines: list[Line] = []
        for line in section.lines:
            text = line.text.strip()
            if text and (before := known.pop(line.id, None)) is not None:
                lines.append(line._replace(text=text, note=before.note))
                record = live.get(line.id)
                is_changed = record is not None and text not in (before.text.strip(), record.content)
                if record and is_changed and not add(record, _reword(record, text, origin, now, zone)):
                    archive(record, "another memory says the same")
            elif text:
                record = _build_record(writer, section.title, text, scope, origin, zone)
                lines += [Line(record.id, text)] if add(None, record) else []
        sections.append(section._replace(lines=tuple(lines)))
    for name in filter(live.__contains__, known):
        archive(live[name], REMOVED)
    if len(known) > FEW or parts.is_damaged or (parts.block is None and was.block is not None):
        return PageDecision(held=changes)
    composed = _read(store, scope)
    if composed is None or not changes:
        return PageDecision(changes)
    fresh = _encode(composed._replace(block=render_block(sections)))
    return PageDecision(changes, {_PREFIX + scope: fresh})


def _reword(record: Record, text: str, origin: Origin, now: datetime, zone: tzinfo) -> Record:
    """Return a record with another text, no more trusted than who wrote it."""
    trust = least_trusted(record.origin, origin)
    fresh = replace(record, content=text, origin=trust, updated_at=now, last_seen_at=now)
    fresh = reread(detach_changed(record, fresh), record.content, zone=zone)
    return validate_record(note_dates(fresh, now, zone))


def _build_record(
    writer: StoreWriter, title: str, text: str, scope: str, origin: Origin, zone: tzinfo
) -> Record:
    """Return the record of a line that was added to a section."""
    now = writer.clock()
    is_rule = any(title == words["help"] for words in load_words().values())
    given: Kind | None = "preference" if is_rule else None
    intake = classify(text, origin=origin, at=now, zone=zone, kind=given, named_by="its heading")
    kind = intake.kind or "fact"
    new = Record(
        id=writer.new_id(),
        content=text,
        kind=kind,
        layer=HOME_LAYERS[kind],
        origin=origin,
        scope=scope,
        source=MEMORY,
        created_at=now,
        updated_at=now,
        last_seen_at=now,
        **describe_intake(intake),
    )
    return note_dates(validate_record(new), now, zone)
