"""Pages and logs: `MEMORY.md`, `HISTORY.md`, daily notes, and any other page.

A page is one text, rewritten as a whole; a log grows by paragraphs. Every change is one journalled
transaction. Concurrent changes of a page are merged. `context.pack` decides what is in a prompt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from datetime import time as times
from itertools import groupby
from typing import Literal

from reverie.context import retrieval
from reverie.context.candidates import StaticContext
from reverie.context.window import build_remembered_cursor, parse_position
from reverie.domain.change import Change, Operation
from reverie.domain.errors import Conflict, InvalidInput
from reverie.domain.lazy_dataclass import dataclass, replace
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import (
    HISTORY,
    LONGEST_PAGE,
    LONGEST_PARAGRAPH,
    MEMORY,
    Page,
    Paragraph,
    format_daily_note_name,
    get_separator,
    is_log,
    parse_daily_note_day,
    validate_page,
    validate_page_name,
    validate_paragraph,
)
from reverie.domain.record import UNTRUSTED, Origin
from reverie.domain.text import timestamps, validation
from reverie.domain.text.ids import NewId
from reverie.domain.text.validation import validate_count
from reverie.settings import Settings
from reverie.stores.living_page import LivingPages, read_block, read_memory_pages
from reverie.stores.protocol import Store
from reverie.stores.redacting import redact_value
from reverie.stores.writer import StoreWriter, T, WritingRepository

_log = logging.getLogger("reverie")

NOON = times(12)
"""Time of a note of another day without a time."""

_LINE_ENDS = defer_regex(r"\r\n?")
BLANK_LINES = defer_regex(r"\n(?:[^\S\n]*\n)+")
_STAMP = defer_regex(r"(\[)?(?P<day>\d{4}-\d{2}-\d{2})[ T](?P<time>\d{2}:\d{2})(?(1)\]:?|:(?=\s))\s*")
_NOTE_STAMP = defer_regex(r"\[(?P<time>\d{2}:\d{2})\] ")
_SHORTEST_NOTE = 6  # tokens; shorter notes are rare


@dataclass(frozen=True, slots=True, kw_only=True)
class PageWriteResult:
    """Result of writing a page.

    Attributes:
        page: The page as it is now.
        outcome: `created`, `changed`, or `unchanged` if it had that text already.
        merged: Whether it was merged with a change that somebody else had made meanwhile.
        proposed: Number of changes of records that were not made and wait for review, since too much was taken away.
    """

    page: Page
    outcome: Literal["created", "changed", "unchanged"]
    merged: bool = False
    proposed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOverview:
    """A page or log in a list.

    Attributes:
        name: Its name.
        paragraphs: How many paragraphs a log has; None for a page.
        characters: How long a page is; None for a log.
        updated_at: When a page last changed, or the time that a log's last paragraph tells of.
    """

    name: str
    paragraphs: int | None
    characters: int | None
    updated_at: datetime

    @property
    def size(self) -> str:
        """Size in words, such as `1,204 characters` or `1 paragraph`."""
        many, noun = self.characters, "character"
        if many is None:
            many, noun = self.paragraphs or 0, "paragraph"
        return f"{many:,} {noun}{'' if many == 1 else 's'}"


class Pages(WritingRepository):
    """The pages and logs of a memory. Safe to use from several threads, and beside other processes."""

    def __init__(
        self, writer: StoreWriter, *, settings: Settings, living: LivingPages | None = None, scope: str = ""
    ) -> None:
        """Read and write the pages of a store.

        Args:
            writer: Writer of the store.
            settings: The settings.
            living: The living pages, everybody's of which is a part of `MEMORY.md`; None leaves it out.
            scope: The scope that sees them. They belong to everybody, so only the empty scope writes them.
        """
        super().__init__(writer)
        self._scope = scope
        self._settings = settings
        self._living = living
        self._latest_notes: tuple[tuple[int, date], list[Paragraph]] | None = None

    # -- reading -----------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the names of all pages and logs, sorted."""
        return sorted([*(page.name for page in read_memory_pages(self._store)), *self._store.logs()])

    def overview(self) -> list[PageOverview]:
        """Return all pages and logs with their sizes: pages, `HISTORY.md`, then daily notes, newest first."""
        found = [
            PageOverview(
                name=each.name, paragraphs=None, characters=len(each.content), updated_at=each.updated_at
            )
            for each in read_memory_pages(self._store)
        ]
        for name, count in sorted(self._store.logs().items(), reverse=True):
            for last in self._store.paragraphs(page=name, start=-1):
                found.append(PageOverview(name=name, paragraphs=count, characters=None, updated_at=last.at))
        return found

    def read(self, name: str = MEMORY) -> str:
        """Return the text of a page or of a whole log; empty if there is none of that name.

        `MEMORY.md` ends in the living page, which is composed anew if it is stale and nobody is talking.
        """
        if is_log(validate_page_name(name)):
            return get_separator(name).join(one.content for one in self._store.paragraphs(page=name))
        if self._living is not None and name == MEMORY:
            self._living.compose_if_quiet([""])
        return "".join(page.content for page in read_memory_pages(self._store, [name]))

    def texts(self) -> dict[str, str]:
        """Return all pages and logs by name; `MEMORY.md` as people wrote it, without the living page."""
        logs = {name: self.read(name) for name in self._store.logs()}
        return {page.name: page.content for page in self._store.pages()} | logs

    def paragraphs(self, name: str = HISTORY, *, start: int = 0) -> list[Paragraph]:
        """Return the paragraphs of a log in order; none for an unknown log.

        Args:
            name: The log.
            start: The number of paragraphs to skip; a negative one counts from the end.

        Raises:
            InvalidInput: it is a page and no log.
        """
        if not is_log(validate_page_name(name)):
            raise InvalidInput(f"page is {name!r}, which is not divided into paragraphs: read it")
        return self._store.paragraphs(
            page=name, start=validate_count(start, name="start", least=-1_000_000_000)
        )

    def notes(self, now: datetime | None = None) -> list[Paragraph]:
        """Return lines of the daily notes of today and the last `recent_days` days, in order within a day.

        Notes of earlier days are left out if their conversation was read for facts, which are records.

        There are at most as many as fit into `notes_tokens`, and those that may be replayed besides.

        Args:
            now: The moment; None for now.
        """
        today = self._resolve_moment(now).date()
        wanted = self._settings.notes_tokens // _SHORTEST_NOTE + self._settings.replay_turns
        days = range(min(self._settings.recent_days + 1, today.toordinal()))
        logs = [format_daily_note_name(today.fromordinal(today.toordinal() - ago)) for ago in days]
        key = self._store.sequence(), today
        if self._latest_notes is None or self._latest_notes[0] != key:
            latest = self._store.latest_paragraphs(logs, limit=wanted)
            by_day = groupby(latest, key=lambda line: line.page)
            lines = [line for _, of_day in by_day for line in reversed(list(of_day))]
            self._latest_notes = key, self._select_notes(lines, logs[0])
        return list(self._latest_notes[1])

    def _select_notes(self, notes: Sequence[Paragraph], today: str) -> list[Paragraph]:
        """Return notes without those that were read for facts, and without answers that rest on untrusted results."""
        sources = [note.source for note in notes if note.source]
        turns = {turn.id: turn for turn in self._store.turns(sources)} if sources else {}
        earlier = {
            turns[note.source].session for note in notes if note.page != today and note.source in turns
        }
        read = {each: parse_position(self._store.cursor(build_remembered_cursor(each))) for each in earlier}
        selected = []
        for note in notes:
            turn = turns.get(note.source)
            if turn is not None and note.page != today and turn.position < read[turn.session]:
                continue
            if retrieval.is_unconfirmed(note.content) or (turn is not None and turn.origin in UNTRUSTED):
                note = replace(note, content=retrieval.remove_answer(note.content))
            selected.append(note)
        return selected

    def build_static_context(self, scopes: Sequence[str], profile: tuple[str, ...] = ()) -> StaticContext:
        """Return what is in every prompt of some scopes: profile, `MEMORY.md`, living pages and daily notes.

        Args:
            scopes: The scopes, the narrowest first.
            profile: The texts of the profile.
        """
        page = self._find_page(MEMORY)
        blocks, changed = [""], ""
        if self._living is not None:
            blocks = [read_block(self._store, scope) for scope in scopes]
            changed = "\n".join(filter(None, map(self._living.describe_changes, blocks)))
        outside, room = "" if page is None else page.content, self._settings.page_tokens
        text = retrieval.render_memory_section(outside, blocks, room=room)
        return StaticContext(profile=profile, pages=(text,), changed=changed, notes=tuple(self.notes()))

    def context(self, now: datetime | None = None) -> str:
        """Return the pages as a text for a prompt, in three sections; empty if the pages are empty.

        `## Long-term Memory` is the page `MEMORY.md`, from its beginning as far as `page_tokens` go;
        `## Today's Notes` and `## Recent Context`, with a `### date` for each day before that has notes, the
        newest day first, are the newest lines of the daily notes as far as `notes_tokens` go. Days are those
        of UTC. (`Session.context` has them already.)

        Args:
            now: The moment; None for now.
        """
        moment = self._resolve_moment(now)
        return retrieval.render_context(
            "" if (page := self._find_page(MEMORY)) is None else page.content,
            self.notes(moment),
            moment.date(),
            page_room=self._settings.page_tokens,
            notes_room=self._settings.notes_tokens,
        )

    # -- writing -----------------------------------------------------------------------------------------

    def write(
        self,
        name: str,
        text: str,
        *,
        expected: str | None = None,
        origin: Origin = "owner",
        reason: str = "",
    ) -> PageWriteResult:
        r"""Write the whole text of a page, which is created if need be.

        Args:
            name: The page: a path such as `MEMORY.md` or `projects/atlas.md`.
            text: Its whole text, up to 200,000 characters; line ends become `\n`. A changed line of the living page
                changes its record, a line that is gone archives it, and a new line is saved. If more than three are
                gone, or a comment line of its block is, the block stays and the change is proposed to the owner.
            expected: The text that `text` was made from. If the page has another one by now, the changes of both are
                merged line by line; where both changed the same lines, both versions stand. None replaces any text.
            origin: Who writes it; of records that are changed by it.
            reason: The reason, for the journal.

        Raises:
            InvalidInput: an argument is not of its form, or it is a log: `append` to it.
            StoreUnavailable: it could not be written; nothing was changed.
        """
        if is_log(validate_page_name(name)):
            raise InvalidInput(f"page is {name!r}, which only grows: append to it")
        longest = LONGEST_PAGE
        if self._living is not None and name == MEMORY:
            longest += LONGEST_PARAGRAPH + 8 * self._settings.page_tokens
        text = _validate_page_text(text, name="text", longest=longest)
        base = None if expected is None else _validate_page_text(expected, name="expected", longest=longest)
        return self._rewrite_page(
            name, lambda old: text, base=base, origin=origin, operation="write", note=reason
        )

    def append(
        self,
        name: str,
        text: str,
        *,
        at: datetime | None = None,
        source: str = "",
        reason: str = "",
    ) -> Paragraph | Page:
        """Add a paragraph to the end of a log, or a line to the end of a page.

        A paragraph of `HISTORY.md` begins with its time, `[2025-01-15 10:31]`, which is put there unless the
        text has it; blank lines in it are taken out, since they would end it. A line of a daily note begins
        with `[10:31]`; line ends in it become spaces.

        Args:
            name: The log or page.
            text: The text to add, up to 20,000 characters.
            at: The time that it is about; None takes the time that the text begins with, or else now (for the
                daily note of another day, that day's noon).
            source: For a log: the id of the turn that it comes from, or another text about its source.
            reason: The reason, for the journal.

        Returns:
            The paragraph, or the page as it is now.

        Raises:
            InvalidInput: an argument is not of its form.
            StoreUnavailable: it could not be written; nothing was changed.
        """
        validate_page_name(name)
        given = None if at is None else timestamps.to_utc(at, name="at")
        if is_log(name):
            paragraph = self._build_paragraph(name, text, given, source)

            def attempt(_: int) -> Paragraph:
                placed = replace(paragraph, position=compute_next_position(self._store, name))
                change = Change(before=None, after=placed)
                self._writer.commit([change], operation="append", note=reason)
                return placed

            return self._run_with_retries(attempt)
        if at is not None or source:
            raise InvalidInput(
                f"page is {name!r}, whose lines have no time or source: leave at and source out"
            )
        line = _validate_page_text(text, name="text", longest=LONGEST_PARAGRAPH, empty=False).strip("\n")

        def change(old: str) -> str:
            between = "" if not old or old.endswith("\n") else "\n"
            return f"{old}{between}{line}\n"

        return self._rewrite_page(name, change, operation="append", note=reason).page

    def delete(self, name: str, *, expected: str | None = None, reason: str = "") -> bool:
        """Remove a page, or a log with all its paragraphs; the journal keeps what was in it.

        Args:
            name: The page or log.
            expected: Its text as it was read; if it has another one by now, nothing is done.
            reason: The reason, for the journal.

        Returns:
            Whether there was one.

        Raises:
            Conflict: the text is no longer `expected`.
        """
        validate_page_name(name)

        def attempt(_: int) -> bool:
            there: Sequence[Page | Paragraph] = (
                self._store.paragraphs(page=name) if is_log(name) else self._store.pages([name])
            )
            if there and expected is not None and self.read(name) != expected:
                raise Conflict(f"page {name!r} has changed since you read it: read it again")
            if there:
                self._writer.commit(
                    [Change(before=one, after=None) for one in there], operation="delete", note=reason
                )
            return bool(there)

        return self._run_with_retries(attempt)

    def plan(self, texts: Mapping[str, str | None], expected: Mapping[str, str | None]) -> list[Change]:
        """Return the changes that give pages new texts, to be committed together with others.

        Args:
            texts: The new texts by name, as `texts` returns them; None removes a page.
            expected: The texts that the pages must still have; None for no page.

        Raises:
            Conflict: a page has another text than expected.
            InvalidInput: a page cannot have that name or text, or it is a log.
        """
        present, changes = {page.name: page for page in self._store.pages()}, []
        for name, text in texts.items():
            before = present.get(name)
            if (None if before is None else before.content) != expected.get(name):
                raise Conflict(f"page {name!r} has been changed: read it again")
            if before is None:
                refuse_twin(name, self.names())
            page = None if text is None else Page(name=name, content=text, updated_at=self._resolve_moment())
            changes.append(Change(before=before, after=page and validate_page(page)))
        return changes

    # -- inside ------------------------------------------------------------------------------------------

    def _refuse_scope(self) -> None:
        if self._scope:
            raise InvalidInput(
                f"pages such as {MEMORY} and {HISTORY} belong to the shared scope and cannot be changed from within "
                f"{self._scope!r}: save a record instead, which stays in that scope"
            )

    def _run_with_retries(self, attempt: Callable[[int], T]) -> T:
        self._refuse_scope()  # every write but that of the living page goes through here
        return super()._run_with_retries(attempt)

    def _find_page(self, name: str) -> Page | None:
        found = self._store.pages([name])
        return found[0] if found else None

    def _resolve_moment(self, given: datetime | None = None) -> datetime:
        return timestamps.to_utc(self._writer.clock() if given is None else given, name="now")

    def _rewrite_page(
        self,
        name: str,
        change: Callable[[str], str],
        *,
        base: str | None = None,
        origin: Origin = "owner",
        operation: Operation,
        note: str,
    ) -> PageWriteResult:
        """Rewrite a page by `change`, which returns the new text; it is merged if `base` is no longer the text."""
        self._refuse_scope()
        if self._living is not None and name == MEMORY:
            edit = self._living.edit(
                "", change, base, writer=self._writer, origin=origin, operation=operation, note=note
            )
            now = self._find_page(MEMORY)
            at = self._resolve_moment() if now is None else now.updated_at
            page = Page(name=MEMORY, content=edit.text, updated_at=at)
            return PageWriteResult(
                page=page, outcome=edit.outcome, merged=edit.merged, proposed=edit.proposed
            )

        def attempt(_: int) -> PageWriteResult:
            before = self._find_page(name)
            if before is None:
                refuse_twin(name, self.names())
            old = "" if before is None else before.content
            text = change(old)
            merged = base is not None and old not in (base, text)
            if base is not None and merged:
                from reverie.domain.similarity.three_way_merge import merge_text  # here: few edits collide

                text = merge_text(base, text, old)
            after = validate_page(Page(name=name, content=text, updated_at=self._resolve_moment()))
            after = redact_value(after, self._redactor, known=before is not None)
            if before is not None and after.content == before.content:
                return PageWriteResult(page=before, outcome="unchanged", merged=merged)
            self._writer.commit([Change(before=before, after=after)], operation=operation, note=note)
            outcome: Literal["created", "changed"] = "created" if before is None else "changed"
            return PageWriteResult(page=after, outcome=outcome, merged=merged)

        return self._run_with_retries(attempt)

    def _build_paragraph(self, name: str, text: str, at: datetime | None, source: str) -> Paragraph:
        """Return the paragraph to add, without its position."""
        content = _validate_page_text(text, name="text", longest=LONGEST_PARAGRAPH, empty=False).strip()
        content, source = self._redactor.text(content), self._redactor.text(source)
        day = parse_daily_note_day(name)
        lines = (line.strip() for line in content.split("\n")) if day else ()
        text = " ".join(filter(None, lines)) or BLANK_LINES.sub("\n", content)
        moment, content = _stamp(text, at, day=day, now=self._resolve_moment())
        return create_paragraph(self._writer.new_id, page=name, at=moment, content=content, source=source)


def refuse_twin(name: str, names: Iterable[str]) -> None:
    """Raise `InvalidInput` if a name differs from another only in case: on many disks both would be one file."""
    for other in names:
        if other != name and other.casefold() == name.casefold():
            raise InvalidInput(f"page is {name!r}, and there is {other!r} already: use that name")


# -- daily notes -------------------------------------------------------------------------------------------


def _validate_page_text(text: object, *, name: str, longest: int = LONGEST_PAGE, empty: bool = True) -> str:
    """Return the text with plain line ends; raise `InvalidInput` if it cannot be stored."""
    return _LINE_ENDS.sub("\n", validation.validate_raw_text(text, name=name, longest=longest, empty=empty))


def _stamp(text: str, at: datetime | None, *, day: date | None, now: datetime) -> tuple[datetime, str]:
    """Return the time of a paragraph, and the paragraph beginning with it.

    Args:
        text: The paragraph, which may begin with a time.
        at: The time that it is about; None for that of the text, or now.
        day: The day of a daily note; None for another log. A line for another day that names no time is about noon,
            which is not added.
        now: The current time.
    """
    found = (_STAMP if day is None else _NOTE_STAMP).match(text)
    stamped = None
    if found is not None:
        with suppress(ValueError):  # the thirteenth month
            stamped = datetime.fromisoformat(f"{day or found['day']}T{found['time']}:00+00:00")
    if stamped is None and at is None and day not in (None, now.date()):
        return datetime.combine(day or now, NOON, UTC), text
    rest = text if found is None or stamped is None else text[found.end() :]
    shown = f"{stamped or at or now:{'%Y-%m-%d %H:%M' if day is None else '%H:%M'}}"
    return at or stamped or now, f"[{shown}] {_validate_page_text(rest, name='text', empty=False)}"


def create_paragraph(new_id: NewId, *, page: str, at: datetime, content: str, source: str) -> Paragraph:
    """Return a new paragraph, checked, without a place."""
    return validate_paragraph(
        Paragraph(id=new_id(), page=page, position=0.0, at=at, content=content, source=source)
    )


def compute_next_position(store: Store, page: str) -> float:
    """Return the position of a new last paragraph of a log."""
    last = store.paragraphs(page=page, start=-1)
    return last[0].position + 1.0 if last else 0.0
