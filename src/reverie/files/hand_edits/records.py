"""Import of edited files of records: of pages with a line for each, and of files with one in JSON.

An entry is a line, or the object of a JSON file. It has the id of its record in a comment or field; an entry without an
id is a new record, unless one says the same. A line shows text, tags and pin, and only these are edited there; a JSON
file shows all fields. An entry in the file of another category or of the archive moves its record, and an entry that is
gone archives it.

What a person began with is the text that was last written to the file. Where that is not known, it is the version of
the record that is most like the entry. Files are imported together, because entries may have moved between them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from reverie.domain.category import validate_category
from reverie.domain.change import Change
from reverie.domain.errors import InvalidInput
from reverie.domain.living_page import Line, is_visible_tag
from reverie.domain.record import Record, normalize_labels
from reverie.domain.text.ids import is_id
from reverie.files import layout, parsing
from reverie.files.hand_edits.intake import (
    DELETED,
    ChangedFile,
    HandEditRun,
    find_written_ids,
)
from reverie.files.hand_edits.merge import (
    MergeConflict,
    MergeDecision,
    decide_record,
    is_mass_removal,
    list_versions,
    move_record,
)
from reverie.files.parsing import Fields, PageRow

_NO_ID = "0" * 12


class _Entry(NamedTuple):
    """The description of one record in a file.

    Attributes:
        id: The id of its record; empty for a new one.
        fields: The given fields; of a line those that it shows.
        row: The row of a page; None in a JSON file.
    """

    id: str
    fields: Fields
    row: PageRow | None = None


class _RecordFile(NamedTuple):
    """An edited file.

    Attributes:
        file: The file.
        entries: What it has now.
        base: What the person began with: the lines by the ids of their records, or the record of a JSON file; None if
            that is not known.
    """

    file: ChangedFile
    entries: list[_Entry]
    base: Mapping[str, Line | Record] | None

    @property
    def is_page(self) -> bool:
        """Return whether it is a page of records."""
        return self.file.place.form == "lines"


class _Outcome:
    """Result of the entries of one file."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.conflicts: list[MergeConflict] = []
        self.rows: dict[str, str] = {}  # what the page has after the import, by id
        self.held: list[str] = []
        self.texts: set[tuple[str, str]] = set()

    def add(self, decision: MergeDecision) -> None:
        self.changes += decision.edits
        self.conflicts += decision.clashes


class RecordImporter:
    """Import of the files of records that were changed, added or removed."""

    def __init__(self, run: HandEditRun, files: Iterable[ChangedFile], missing: Iterable[str]) -> None:
        """Parse the files; those that cannot be parsed become problems of `run`.

        Args:
            run: The run.
            files: All edited files.
            missing: The known files that do not exist.
        """
        self._run = run
        self._store = run.store
        self._ledger = run.ledger
        self._missing = set(missing)
        self._files: list[_RecordFile] = []
        self._present: dict[str, str] = {}  # the first file that has an id
        self._ids_on_disk: dict[str, set[str]] = {}
        self._categories: dict[str, str | None] = {}
        for file in sorted(files, key=_rank):
            if file.place.form in ("record", "lines"):
                run.attempt(file.at, partial(self._parse, file))

    def import_changes(self) -> None:
        """Import all files that could be parsed."""
        for each in self._files:
            self._run.attempt(each.file.at, partial(self._import, each))
            self._run.note_progress()

    def import_missing(self, path: str) -> None:
        """Import the deletion of a file: archive its records, unless they are elsewhere."""
        run, place = self._run, layout.parse_path(path)
        removed = self._find_removed(path, self.list_ids(path))
        if place is not None and place.archived and removed:
            return run.write_again(path, "record", removed[0].id)
        run.commit_edits(path, _build_archive_changes(removed, run), "delete_file")
        return run.drop_and_write(path)

    def list_ids(self, path: str) -> list[str]:
        """Return the ids of the records that a file had when it was written last."""
        place = layout.parse_path(path)
        if place is not None and place.form == "record":
            return [place.name] if is_id(place.name) else []
        return self._ledger.read_ids(path)

    def list_gone(self, path: str) -> list[str]:
        """Return the ids of those records of a missing file that are in no edited file."""
        return [name for name in self.list_ids(path) if name not in self._present]

    def is_moved(self, path: str) -> bool:
        """Return whether all records of a missing file are in other files."""
        return bool(self.list_ids(path)) and not self.list_gone(path)

    # -- one file ----------------------------------------------------------------------------------------

    def _parse(self, file: ChangedFile) -> None:
        if file.place.form == "record":
            entries = [self._parse_record(file)]
        else:
            data, was = file.data.rstrip(), file.base
            if was is not None and was.startswith(data) and was[len(data) :].partition(b"\n")[0]:
                raise InvalidInput("it ends in the middle, as if it was saved half: save it again")
            rows = parsing.read_rows(file.path, file.data)
            entries = [
                _Entry(row.line.id, _describe_line(row.line), row)
                for row in rows
                if row.line.id or row.line.text.strip()
            ]
        self._files.append(_RecordFile(file, entries, _read_base(file.path, file.base)))
        for entry in entries:
            if entry.id and (entry.row is None or entry.row.line.text.strip()):
                self._present.setdefault(entry.id, file.path)

    def _parse_record(self, file: ChangedFile) -> _Entry:
        fields, stem = parsing.read_record(file.path, file.data), file.place.name
        name = fields.get("id")
        if not is_id(stem):
            return _Entry(name or "", fields)
        if name not in (None, stem) and (file.written is not None or self._store.records([stem])):
            raise InvalidInput(f"its id is {name!r}, but it is the file of {stem!r}: put that id back")
        return _Entry(name or stem, fields)

    def _import(self, file: _RecordFile) -> None:
        run, outcome = self._run, _Outcome()
        for entry in file.entries:
            try:
                self._import_entry(file, entry, outcome)
            except InvalidInput as error:
                if entry.row is None:
                    raise
                before = "" if str(error).startswith("line ") else f"line {entry.row.number}: "
                outcome.held.append(f"{before}{error}")
        gone = [name for name in file.base or () if name not in self._present] if file.is_page else []
        removed = self._find_removed(file.file.path, gone)
        if removed and run.report.unfinished:
            run.report.unfinished.append(file.file.at)  # a line may be on its way to another page
            return
        archived = _build_archive_changes(removed, run)
        is_accident = is_mass_removal(len(removed), len(file.base or ()))
        changes = outcome.changes if is_accident else [*outcome.changes, *archived]
        run.commit(file.file, MergeDecision(edits=tuple(changes), clashes=tuple(outcome.conflicts)))
        if is_accident:
            run.propose(file.file.path, archived)
        if file.is_page:
            self._place(file.file.path, list(outcome.rows))
        if outcome.held:
            base = "".join(f"{row}\n" for row in outcome.rows.values())
            run.hold_back(file.file, outcome.held, base.encode())
        else:
            run.settle(file.file)

    def _place(self, path: str, names: Sequence[str]) -> None:
        """Record which records are on a page now, in the order that the person gave them."""
        for name in names:
            other = self._ledger.locate(name)
            if other is not None and other != path:
                self._ledger.set_ids(other, [each for each in self._ledger.read_ids(other) if each != name])
                self._run.mark_due([other])
        kept = [name for name in self._ledger.read_ids(path) if name not in names]
        self._ledger.set_ids(path, [*names, *kept])

    def _find_removed(self, path: str, names: Iterable[str]) -> list[Record]:
        """Return those of some live records that belong in a file, and are nowhere else."""
        return [
            record
            for record in self._store.records(list(names))
            if layout.build_home(record, self._ledger.layout) == layout.parse_home(path)
            and record.id not in self._present
            and record.id not in self._run.pending
            and self._ledger.locate(record.id) in (path, None)
        ]

    # -- one entry ---------------------------------------------------------------------------------------

    def _import_entry(self, file: _RecordFile, entry: _Entry, outcome: _Outcome) -> None:
        if entry.row is not None:
            parsing.check_row(entry.row)
            if not entry.row.line.text.strip():
                return None
        if not entry.id and (twin := self._find_duplicate(self._build(file, entry, _NO_ID))) is not None:
            return self._mark_twin(file, entry, twin, outcome)
        record_id = entry.id
        ours = next(iter(self._store.records([record_id])), None) if record_id else None
        if ours is None:
            return self._add(file, entry, outcome)
        located = self._locate(file, ours)
        is_here = (
            located == file.file.path
            or record_id in (file.base or ())
            or (file.file.written is not None and file.file.place.name == record_id)
        )
        is_restored = self._is_restored(file, ours)
        is_new_file = entry.row is None and file.file.written is None
        if is_new_file and not is_restored and self._run.is_stale(file.file, None):
            return None
        if not (is_here or is_restored) and self._is_elsewhere(file, record_id, located):
            if entry.row is not None and _describe_record(ours) == entry.fields:
                return None  # a copy, which adds nothing
            raise InvalidInput(
                f"the record {record_id!r} is in {located}: take its id out to make a new record"
            )
        base = ours if is_restored and not file.is_page else self._find_base(file, entry, ours, located)
        theirs = base if self._is_as_written(entry, base) else self._change(file, entry, base)
        if not file.is_page or not is_here:
            theirs = self._move(file, entry, theirs, base)
        decision = decide_record(base, ours, theirs, now=self._run.now)
        self._refuse(decision.edits, outcome)
        outcome.add(decision)
        if entry.row is not None:
            outcome.rows[record_id] = entry.row.text
        elif (path := layout.build_path(ours)) in self._missing:
            self._run.mark_due([path])
        return None

    def _add(self, file: _RecordFile, entry: _Entry, outcome: _Outcome) -> None:
        """Add the record of an entry, unless it is an old one that the program has removed."""
        record = self._build(file, entry, entry.id or self._run.new_id())
        if entry.id and self._is_old(file, entry, record):
            return
        if entry.row is not None and not entry.id and (record.scope, record.fingerprint) in outcome.texts:
            return
        change = Change(before=None, after=record)
        self._refuse([change], outcome)
        outcome.changes.append(change)
        if entry.row is not None:
            outcome.rows[record.id] = _render(file.file.path, record)

    def _is_old(self, file: _RecordFile, entry: _Entry, record: Record) -> bool:
        """Return whether an entry is what was written of a record that the program has removed since."""
        if entry.row is None:
            return record in list_versions(self._store, record.id) and not self._run.has_reappeared(
                file.file, record.id
            )
        if file.base is None:
            return any(
                _describe_record(each) == entry.fields for each in list_versions(self._store, record.id)
            )
        line = file.base.get(record.id)
        return isinstance(line, Line) and _describe_line(line) == entry.fields

    def _is_restored(self, file: _RecordFile, ours: Record) -> bool:
        """Return whether a person has put back what was archived."""
        if not ours.archived or file.file.place.archived:
            return False
        if file.is_page:  # what the program has archived meanwhile may be in an editor still
            return file.base is not None and ours.archive_reason == DELETED
        return self._run.has_reappeared(file.file, ours.id)

    def _locate(self, file: _RecordFile, ours: Record) -> str | None:
        """Return the file that a record is in; a page does not count for a JSON file, which may come from a backup."""
        if file.is_page and not layout.has_own_file(ours, self._ledger.layout):
            return self._ledger.locate(ours.id)
        path = layout.build_path(ours)
        return path if path not in self._missing and self._run.disk.stat(path) is not None else None

    def _is_elsewhere(self, file: _RecordFile, record_id: str, located: str | None) -> bool:
        """Return whether another file has the record."""
        if not file.is_page and self._present[record_id] != file.file.path:
            return True
        if located is None or located == file.file.path:
            return False
        if located not in self._ids_on_disk:
            found = self._run.disk.read(located)
            self._ids_on_disk[located] = set() if found is None else find_written_ids(found[0])
        return not located.endswith(".md") or record_id in self._ids_on_disk[located]

    # -- what an entry says ------------------------------------------------------------------------------

    def _build(self, file: _RecordFile, entry: _Entry, record_id: str) -> Record:
        """Return the new record that an entry describes."""
        place, fields, now = file.file.place, entry.fields, self._run.now
        if entry.row is not None:
            line = entry.row.line
            if not (self._run.is_rebuild and line.details):  # a person wrote it
                line = line._replace(text=line.text.strip())
            fields = parsing.read_row(entry.row._replace(line=line), place)
            if not line.details:
                fields = {**fields, "category": self._find_category(file)}
        record = parsing.build_record(fields, id=record_id, base=None, place=place, now=now)
        return self._move(file, entry._replace(fields=fields), record, None)

    def _move(self, file: _RecordFile, entry: _Entry, record: Record, base: Record | None) -> Record:
        category, now = self._find_category(file), self._run.now
        return move_record(record, base, file.file.path, entry.fields, category, now)

    def _change(self, file: _RecordFile, entry: _Entry, base: Record) -> Record:
        """Return the record that a person has made of another one."""
        fields = entry.fields
        if entry.row is not None:
            tags = parsing.merge_visible_tags(base.tags, entry.row.line.tags)
            fields = {**fields, "content": entry.row.line.text.strip(), "tags": tags}
        return parsing.build_record(fields, id=base.id, base=base, place=file.file.place, now=self._run.now)

    def _find_base(self, file: _RecordFile, entry: _Entry, ours: Record, located: str | None) -> Record:
        """Return the record as the person began with it."""
        base = (file.base or {}).get(ours.id)
        if base is None and located != file.file.path:
            other = located or layout.build_path(ours)
            base = (_read_base(other, self._ledger.read_text(other)) or {}).get(ours.id)
        if base is None:
            base = max(
                [ours, *list_versions(self._store, ours.id)],
                key=lambda each: _count_shared_fields(entry, each),
            )
        if isinstance(base, Record) and entry.row is None:
            return base
        shown = _describe_line(base) if isinstance(base, Line) else _describe_record(base)
        return replace(ours, **{**shown, "tags": parsing.merge_visible_tags(ours.tags, shown["tags"])})

    def _is_as_written(self, entry: _Entry, base: Record) -> bool:
        """Return whether a line is what was written, perhaps by a process that has not recorded that."""
        if entry.row is None:
            return False
        if _describe_record(base) == entry.fields:
            return True
        if base.id not in self._run.pending:
            return False
        rows = self._store.journal(id=base.id, after=self._ledger.progress.sequence)
        written = (value for row in rows for value in row.values if isinstance(value, Record))
        return any(_describe_record(value) == entry.fields for value in written)

    def _find_category(self, file: _RecordFile) -> str | None:
        """Return the category of a file: on a page that of its first record, which may differ in case from its name."""
        path, place = file.file.path, file.file.place
        if path not in self._categories:
            names = [entry.id for entry in file.entries if entry.id] if file.is_page else []
            first = (
                each.category
                for each in self._store.records(names)
                if layout.build_home(each, "pages") == layout.parse_home(path)
            )
            given = None if place.category is None else validate_category(place.category)
            self._categories[path] = next(first, given)
        return self._categories[path]

    # -- records that say the same -------------------------------------------------------------------------

    def _mark_twin(self, file: _RecordFile, entry: _Entry, twin: Record, outcome: _Outcome) -> None:
        """Give a record the tags and the pin of an entry without an id that says the same."""
        tags = normalize_labels([*twin.tags, *entry.fields.get("tags", ())], name="tag")
        marked = replace(twin, tags=tags, pinned=twin.pinned or entry.fields.get("pinned", False))
        outcome.add(decide_record(twin, twin, marked, now=self._run.now))
        if twin.id in self._present or (file.is_page and self._ledger.locate(twin.id) != file.file.path):
            return
        self._present[twin.id] = file.file.path  # its id was deleted, or this entry was imported before
        if file.is_page:
            outcome.rows[twin.id] = _render(file.file.path, marked)

    def _find_duplicate(self, record: Record) -> Record | None:
        """Return another live record of the same content."""
        if record.archived:
            return None
        other = self._store.record_like(record.scope, record.fingerprint)
        return None if other is None or other.id == record.id else other

    def _refuse(self, changes: Sequence[Change], outcome: _Outcome) -> None:
        """Refuse forgotten text, and records of the same content as another live record or entry."""
        self._run.refuse_forgotten(changes)
        for record in (change.after for change in changes):
            if not isinstance(record, Record) or record.archived:
                continue
            if (other := self._find_duplicate(record)) is not None:
                raise InvalidInput(
                    f"it would say the same as the record {other.id!r}: change or delete one of them"
                )
            if (record.scope, record.fingerprint) in outcome.texts:
                raise InvalidInput("two of its lines say the same: take one out")
            outcome.texts.add((record.scope, record.fingerprint))


def _rank(file: ChangedFile) -> tuple[bool, bool, int, str]:
    """Return the order of import: known files, then those with the name of a record, each the last saved first."""
    is_named = file.place.form == "lines" or is_id(file.place.name)
    return file.written is None, not is_named, -file.stamp.mtime_ns, file.path


def _build_archive_changes(records: Iterable[Record], run: HandEditRun) -> list[Change]:
    return [
        Change(before=record, after=replace(record, archived_at=run.now, archive_reason=DELETED))
        for record in records
    ]


def _read_base(path: str, text: bytes | None) -> Mapping[str, Line | Record] | None:
    """Return the lines or the record of the text that was last written to a file, by id; None if it is not known."""
    if text is None:
        return None
    if path.endswith(".md"):
        return {row.line.id: row.line for row in parsing.read_rows(path, text) if row.line.id}
    try:
        record = Record.from_dict(layout.complete_record(json.loads(text)))
    except (ValueError, TypeError, AttributeError):  # it is not in canonical form
        return None
    return {record.id: record}


def _describe_record(record: Record) -> dict[str, Any]:
    """Return the fields that a line of a page shows."""
    tags = tuple(filter(is_visible_tag, record.tags))
    return {"content": record.content, "tags": tags, "pinned": record.pinned}


def _count_shared_fields(entry: _Entry, record: Record) -> int:
    shown = {} if entry.row is None else _describe_record(record)
    return sum(shown.get(name, getattr(record, name)) == value for name, value in entry.fields.items())


def _describe_line(line: Line) -> dict[str, Any]:
    return {"content": line.text, "tags": line.tags, "pinned": line.is_pinned}


def _render(path: str, record: Record) -> str:
    return layout.render_added_lines(path, [record]).decode().removesuffix("\n")
