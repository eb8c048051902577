"""Import of edited pages of records: an edit of lines is an edit of records.

A line has the id of its record in a comment. A changed text, tag or pin changes the record. A line that is on another
page now changes the category of its record, or takes it out of the archive. A line without an id is a new record,
unless one says the same. A line that is gone archives its record. The rest of the comment is not edited here.

What a person began with is the text that was last written to the page. Where that is not known, a line with any earlier
text of its record is merely old.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from reverie.domain.category import validate_category
from reverie.domain.change import Change
from reverie.domain.errors import InvalidInput
from reverie.domain.living_page import Line, is_visible_tag
from reverie.domain.record import HOME_LAYERS, Record, normalize_labels, validate_record
from reverie.files import parsing
from reverie.files.hand_edits.intake import (
    DELETED,
    ChangedFile,
    HandEditRun,
    find_written_ids,
    refuse_forgotten,
)
from reverie.files.hand_edits.merge import (
    MergeConflict,
    MergeDecision,
    decide_record,
    find_closest_version,
    is_mass_removal,
    list_versions,
)
from reverie.files.hand_edits.records import (
    RecordImporter,
    build_archive_changes,
    find_duplicate,
    refuse_duplicates,
)
from reverie.files.layout import build_stem, parse_path, render_added_lines, split_numbered_path
from reverie.files.parsing import PageRow, check_row, merge_visible_tags, read_row, read_rows

_Shown = tuple[str, tuple[str, ...], bool]
"""Text, visible tags and pin of a line."""


class _Page(NamedTuple):
    """An edited page.

    Attributes:
        file: The file.
        rows: Its rows.
        base: The lines that the person began with, by id; None if that is not known.
        records: The records of its lines, and of those of `base`, as they are now.
    """

    file: ChangedFile
    rows: list[PageRow]
    base: Mapping[str, Line] | None
    records: Mapping[str, Record]


class _Outcome:
    """Result of the rows of a page."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.conflicts: list[MergeConflict] = []
        self.ids: list[str] = []
        self.rows: list[str] = []
        self.held: list[str] = []
        self.texts: set[tuple[str, str]] = set()

    def keep(self, record_id: str, row: str) -> None:
        self.ids.append(record_id)
        self.rows.append(row)


class LineImporter:
    """Import of pages of records that were changed, added or removed."""

    def __init__(self, run: HandEditRun, files: Iterable[ChangedFile], records: RecordImporter) -> None:
        """Parse the pages; those that cannot be parsed become problems of `run`.

        Args:
            run: The run.
            files: All edited files.
            records: The import of the files of single records.
        """
        self._run = run
        self._records = records
        self._pages: list[_Page] = []
        self._ids_on_disk: dict[str, set[str]] = {}
        self._present: set[str] = set()
        for file in files:
            if file.place.form == "lines":
                run.attempt(file.at, partial(self._parse, file))

    def import_changes(self) -> None:
        """Import all pages that could be parsed."""
        for page in self._pages:
            self._run.attempt(page.file.at, partial(self._import, page))

    def import_missing(self, path: str) -> None:
        """Import the deletion of a page: archive its records, unless they are elsewhere."""
        run, place = self._run, parse_path(path)
        records = self._find_removed(path, run.ledger.read_ids(path))
        if place is not None and place.archived and records:
            return run.write_again(path, "record", records[0].id)
        run.commit_edits(path, build_archive_changes(records, run), "delete_file")
        run.ledger.drop([path])
        run.mark_due([path])
        return None

    def count_moved(self, paths: Iterable[str]) -> int:
        """Return how many records of missing pages are on other pages now."""
        return sum(name in self._present for path in paths for name in self._run.ledger.read_ids(path))

    # -- one page ----------------------------------------------------------------------------------------

    def _parse(self, file: ChangedFile) -> None:
        data = file.data.rstrip()
        if (
            file.base is not None
            and file.base.startswith(data)
            and file.base[len(data) :].partition(b"\n")[0]
        ):
            raise InvalidInput("it ends in the middle, as if it was saved half: save it again")
        rows = [row for row in read_rows(file.path, file.data) if row.line.id or row.line.text.strip()]
        base = None
        if file.base is not None:
            base = {row.line.id: row.line for row in read_rows(file.path, file.base) if row.line.id}
        self._pages.append(_Page(file, rows, base, {}))
        self._present.update(row.line.id for row in rows if row.line.text.strip())

    def _import(self, page: _Page) -> None:
        run, file = self._run, page.file
        names = dict.fromkeys([*(row.line.id for row in page.rows if row.line.id), *(page.base or ())])
        page = page._replace(records={record.id: record for record in run.store.records(list(names))})
        outcome = _Outcome()
        for row in page.rows:
            try:
                check_row(row)
                if row.line.id:
                    self._import_known(page, row, outcome)
                else:
                    self._import_new(page, row, outcome)
            except InvalidInput as error:
                at = f"line {row.number}: "
                outcome.held.append(str(error) if str(error).startswith("line ") else f"{at}{error}")
        gone = [] if page.base is None else [name for name in page.base if name not in self._present]
        removed = self._find_removed(file.path, gone)
        if removed and run.report.unfinished:
            run.report.unfinished.append(file.at)  # a line may be on its way to another page
            return
        archived = build_archive_changes(removed, run)
        is_accident = is_mass_removal(len(removed), len(page.base or ()))
        changes = outcome.changes if is_accident else [*outcome.changes, *archived]
        run.commit(file, MergeDecision(edits=tuple(changes), clashes=tuple(outcome.conflicts)))
        if is_accident:
            run.propose(file.path, archived)
        self._place(file.path, outcome.ids)
        if outcome.held:
            base = "".join(f"{row}\n" for row in outcome.rows)
            run.hold_back(file, outcome.held, base.encode())
        else:
            run.settle(file)

    def _place(self, path: str, names: Sequence[str]) -> None:
        """Record which records are on a page now, in the order that the person gave them."""
        ledger = self._run.ledger
        for name in names:
            other = ledger.locate(name)
            if other is not None and other != path:
                ledger.set_ids(other, [each for each in ledger.read_ids(other) if each != name])
                self._run.mark_due([other])
        kept = [name for name in ledger.read_ids(path) if name not in names]
        ledger.set_ids(path, [*names, *kept])

    def _find_removed(self, path: str, names: Iterable[str]) -> list[Record]:
        """Return those of some live records that belong on a page, and are nowhere else."""
        stem, layout = split_numbered_path(path)[0], self._run.ledger.layout
        return [
            record
            for record in self._run.store.records(list(names))
            if build_stem(record, layout) == stem
            and record.id not in self._present
            and not self._records.has_file(record.id)
            and self._run.ledger.locate(record.id) in (path, None)
        ]

    # -- one line ----------------------------------------------------------------------------------------

    def _import_known(self, page: _Page, row: PageRow, outcome: _Outcome) -> None:
        """Import a line with an id."""
        line, file = row.line, page.file
        ours = page.records.get(line.id)
        if not line.text.strip():
            return None
        if ours is None:
            shown = self._list_shown(page, line)
            return None if _to_shown(line) in shown else self._add(page, row, line.id, outcome)
        located = self._run.ledger.locate(line.id)
        is_here = line.id in (page.base or ()) or located == file.path
        is_restored = (
            page.base is not None and not file.place.archived and ours.archive_reason == DELETED
        )  # what the program has archived meanwhile may be in an editor still
        is_elsewhere = not is_here and located is not None and line.id in self._read_ids(located)
        if is_elsewhere and not is_restored:
            if _show(ours) == _to_shown(line):
                return None  # a copy, which adds nothing
            raise InvalidInput(
                f"the record {line.id!r} is on the page {located!r}: take the comment out to make a new record"
            )
        base = self._find_base(page, line, ours, located)
        theirs = base
        if _to_shown(line) != _show(base) and not self._was_written(ours.id, line):
            given = {"content": line.text.strip(), "tags": merge_visible_tags(base.tags, line.tags)}
            fields = {**given, "pinned": line.is_pinned}
            theirs = parsing.build_record(fields, id=ours.id, base=base, place=file.place, now=self._run.now)
        if not is_here:
            theirs = self._move(theirs, page)
        if theirs != base:
            decision = decide_record(base, ours, theirs, now=self._run.now)
            refuse_forgotten(self._run.store, decision.edits)
            refuse_duplicates(self._run, decision.edits, outcome.texts)
            outcome.changes += decision.edits
            outcome.conflicts += decision.clashes
        return outcome.keep(line.id, row.text)

    def _list_shown(self, page: _Page, line: Line) -> list[_Shown]:
        """Return what a line may show of a record that the program has removed, if nobody has edited it."""
        if page.base is None:
            return list(map(_show, list_versions(self._run.store, line.id)))
        return [_to_shown(page.base[line.id])] if line.id in page.base else []

    def _import_new(self, page: _Page, row: PageRow, outcome: _Outcome) -> None:
        """Import a line without an id, unless a record says the same."""
        probe = self._build(page, row, "0" * 12)
        twin = find_duplicate(self._run, probe)
        if twin is None:
            if (probe.scope, probe.fingerprint) not in outcome.texts:
                self._add(page, row, self._run.new_id(), outcome)
            return
        tags = normalize_labels([*twin.tags, *row.line.tags], name="tag")
        marked = replace(twin, tags=tags, pinned=twin.pinned or row.line.is_pinned)
        outcome.changes += decide_record(twin, twin, marked, now=self._run.now).edits
        if twin.id not in self._present and self._run.ledger.locate(twin.id) == page.file.path:
            self._present.add(twin.id)  # its comment was deleted, or this line was imported before
            outcome.keep(twin.id, _render(page.file.path, marked))

    def _add(self, page: _Page, row: PageRow, record_id: str, outcome: _Outcome) -> None:
        record = self._build(page, row, record_id)
        change = Change(before=None, after=record)
        refuse_forgotten(self._run.store, [change])
        refuse_duplicates(self._run, [change], outcome.texts)
        outcome.changes.append(change)
        outcome.keep(record_id, _render(page.file.path, record))

    def _build(self, page: _Page, row: PageRow, record_id: str) -> Record:
        """Return the new record that a row describes."""
        fields = read_row(row._replace(line=row.line._replace(text=row.line.text.strip())), page.file.place)
        if not row.line.details:
            fields["category"] = self._find_category(page)
            fields = {name: value for name, value in fields.items() if name != "tags" or value}
        record = parsing.build_record(
            fields, id=record_id, base=None, place=page.file.place, now=self._run.now
        )
        return self._move(record, page)

    def _move(self, record: Record, page: _Page) -> Record:
        """Return a record as its new page says: its category, layer and whether it is archived."""
        place, now = page.file.place, self._run.now
        if build_stem(record, "pages") == split_numbered_path(page.file.path)[0]:
            return record
        if place.archived != record.archived:
            record = replace(record, archived_at=now if place.archived else None, archive_reason="")
        if place.is_day:
            return validate_record(replace(record, layer="episodic"))
        if record.layer == "episodic" and not place.archived:
            home = HOME_LAYERS[record.kind]
            record = replace(record, layer="semantic" if home == "episodic" else home)
        if build_stem(record, "pages") != split_numbered_path(page.file.path)[0]:
            record = replace(record, category=self._find_category(page))
        return validate_record(record)

    def _find_category(self, page: _Page) -> str | None:
        """Return the category of a page: that of its first record, which may differ from its name in case."""
        stem = split_numbered_path(page.file.path)[0]
        proper = (each.category for each in page.records.values() if build_stem(each, "pages") == stem)
        place = page.file.place
        return next(proper, None if place.category is None else validate_category(place.category))

    def _find_base(self, page: _Page, line: Line, ours: Record, located: str | None) -> Record:
        """Return the record as it was in the line that the person began with."""
        base = (page.base or {}).get(line.id)
        if base is None and located is not None and located != page.file.path:
            text = self._run.ledger.read_text(located)
            rows = read_rows(located, text) if text else []
            base = next((row.line for row in rows if row.line.id == line.id), None)
        if base is not None:
            tags = merge_visible_tags(ours.tags, base.tags)
            return replace(ours, content=base.text, tags=tags, pinned=base.is_pinned)
        versions = list_versions(self._run.store, ours.id)
        if _to_shown(line) in map(_show, (ours, *versions)):
            tags = merge_visible_tags(ours.tags, line.tags)
            return replace(ours, content=line.text, tags=tags, pinned=line.is_pinned)
        fields: dict[str, Any] = {"content": line.text, "pinned": line.is_pinned}
        return find_closest_version(versions, fields) or ours

    def _was_written(self, record_id: str, line: Line) -> bool:
        """Return whether a process may have written a line and not recorded that."""
        after = self._run.ledger.progress.sequence
        rows = self._run.store.journal(id=record_id, after=after) if after else ()
        values = [value for row in rows for value in row.values if isinstance(value, Record)]
        return _to_shown(line) in map(_show, values)

    def _read_ids(self, path: str) -> set[str]:
        """Return the ids that are on a page now."""
        if path not in self._ids_on_disk:
            found = self._run.disk.read(path)
            self._ids_on_disk[path] = set() if found is None else find_written_ids(found[0])
        return self._ids_on_disk[path]


def _show(record: Record) -> _Shown:
    return record.content, tuple(filter(is_visible_tag, record.tags)), record.pinned


def _to_shown(line: Line) -> _Shown:
    return line.text, line.tags, line.is_pinned


def _render(path: str, record: Record) -> str:
    return render_added_lines(path, [record]).decode().removesuffix("\n")
