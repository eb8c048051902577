"""Import of edited files of records: of pages with a line for each, and of files with one in JSON.

An entry is a line, or the object of a JSON file. It has the id of its record in a comment or field; an entry without an
id is a new record, unless one says the same. A line shows text, tags and pin, and only these are edited there; a JSON
file shows all fields. An entry in the file of another category or of the archive moves its record, and an entry that is
gone archives it.

The checksum of what was last written finds in the journal which version of a record a person began with. Where none has
that checksum, it is the version that is most like the entry. An entry that is as a version that no file is known to
show was written by a process that could not record it, and is no edit. Files are imported together, because entries may
have moved between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from reverie.domain.category import validate_category
from reverie.domain.change import Change
from reverie.domain.errors import InvalidInput
from reverie.domain.headlines import detach_changed
from reverie.domain.lazy_dataclass import dataclass, field, fields, replace
from reverie.domain.living_page import is_visible_tag
from reverie.domain.record import HOME_LAYERS, Record, normalize_labels, validate_record
from reverie.domain.text.ids import is_id
from reverie.domain.text.timestamps import to_microseconds
from reverie.files import layout, parsing
from reverie.files.hand_edits.intake import DELETED, ChangedFile, HandEditRun, MergeConflict, is_mass_removal
from reverie.files.parsing import Fields, PageRow
from reverie.files.state import compute_checksum
from reverie.stores.protocol import Store

_NO_ID = "0" * 12
_MAX_VERSIONS = 1_000


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


@dataclass(slots=True)
class _RecordFile:
    """An edited file, and the result of its import.

    Attributes:
        file: The file.
        entries: What it has now.
        changes: The changes to commit.
        conflicts: Those of them that collide with changes of the program.
        rows: What the page has after the import, by id.
        held: What is wrong with the other lines.
        texts: The records of its changes, by scope and fingerprint.
    """

    file: ChangedFile
    entries: list[_Entry]
    changes: list[Change] = field(default_factory=list)
    conflicts: list[MergeConflict] = field(default_factory=list)
    rows: dict[str, str] = field(default_factory=dict)
    held: list[str] = field(default_factory=list)
    texts: dict[tuple[str, str], Record] = field(default_factory=dict)

    @property
    def is_page(self) -> bool:
        """Return whether it is a page of records."""
        return self.file.place.form == "lines"


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
        self._categories: dict[str, str | None] = {}
        for file in sorted(files, key=_rank):
            if file.place.form in ("record", "lines"):
                run.attempt(file.at, partial(self._parse, file))

    def import_changes(self) -> None:
        """Import all files that could be parsed."""
        for each in self._files:
            self._run.attempt(each.file.at, partial(self._import, each.file, each.entries))

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
        is_record = place is not None and place.form == "record" and is_id(place.name)
        return [place.name] if place is not None and is_record else self._ledger.read_ids(path)

    def list_gone(self, path: str) -> list[str]:
        """Return the ids of those records of a missing file that are in no edited file."""
        return [name for name in self.list_ids(path) if name not in self._present]

    # -- one file ----------------------------------------------------------------------------------------

    def _parse(self, file: ChangedFile) -> None:
        if file.place.form == "record":
            entries = [self._parse_record(file)]
        else:
            rows = parsing.read_rows(file.path, file.data)
            self._refuse_half(file, rows)
            shown = (
                {"content": row.line.text, "tags": row.line.tags, "pinned": row.line.is_pinned}
                for row in rows
            )
            entries = [_Entry(row.line.id, each, row) for row, each in zip(rows, shown, strict=True)]
            entries = [entry for entry in entries if entry.id or entry.fields["content"].strip()]
        self._files.append(_RecordFile(file, entries))
        for entry in entries:
            if entry.id and (entry.row is None or entry.row.line.text.strip()):
                self._present.setdefault(entry.id, file.path)

    def _refuse_half(self, file: ChangedFile, rows: list[PageRow]) -> None:
        """Refuse a page that is what was written up to the middle of a line; drop half a line of a killed process."""
        if not rows or rows[-1].line.id:
            return
        versions = (each for values in self._run.find_pending("").values() for each in values)
        written = (_render(file.path, each) for each in versions if isinstance(each, Record))
        if not file.data.endswith(b"\n") and any(line.startswith(rows[-1].text) for line in written):
            rows.pop()
            return
        names, known = [row.line.id for row in rows[:-1]], [*file.lines]
        if known[: len(names)] == names and (following := known[len(names) : len(rows)]):
            record = self._find_written(file.path, following[0], file.at)
            if record is not None and _render(file.path, record).startswith(rows[-1].text):
                raise InvalidInput("it ends in the middle, as if it was saved half: save it again")

    def _parse_record(self, file: ChangedFile) -> _Entry:
        fields, stem = parsing.read_record(file.path, file.data), file.place.name
        name = fields.get("id")
        if not is_id(stem):
            return _Entry(name or "", fields)
        if name not in (None, stem) and (file.written is not None or self._store.records([stem])):
            raise InvalidInput(f"its id is {name!r}, but it is the file of {stem!r}: put that id back")
        return _Entry(name or stem, fields)

    def _import(self, changed: ChangedFile, entries: list[_Entry]) -> None:
        run, file = self._run, _RecordFile(changed, entries)
        for entry in entries:
            try:
                self._import_entry(file, entry)
            except InvalidInput as error:
                if entry.row is None:
                    raise
                before = "" if str(error).startswith("line ") else f"line {entry.row.number}: "
                file.held.append(f"{before}{error}")
        gone = [name for name in changed.lines if name not in self._present]
        removed = self._find_removed(changed.path, gone)
        if removed and run.report.unfinished:
            run.report.unfinished.append(changed.at)  # a line may be on its way to another page
            return
        archived = _build_archive_changes(removed, run)
        is_accident = is_mass_removal(len(removed), len(changed.lines))
        run.commit(changed, file.changes if is_accident else [*file.changes, *archived], file.conflicts)
        if is_accident:
            run.propose(changed.path, archived)
        if file.is_page:
            self._place(changed.path, list(file.rows))
        if file.held:
            run.hold_back(changed, file.held, "".join(f"{row}\n" for row in file.rows.values()).encode())
        else:
            run.settle(changed)

    def _place(self, path: str, names: Sequence[str]) -> None:
        """Record the order that the person gave the records of a page; those of other pages stay where they are."""
        home, kind = layout.parse_home(path), self._ledger.layout
        names = [r.id for r in self._store.records(names) if layout.build_home(r, kind) == home]
        for name in names:
            other = self._ledger.locate(name)
            if other is not None and other != path:
                self._ledger.set_ids(other, [each for each in self._ledger.read_ids(other) if each != name])
                self._run.mark_due([other])
        kept = [name for name in self._ledger.read_ids(path) if name not in names]
        self._ledger.set_ids(path, [*names, *kept])

    def _find_removed(self, path: str, names: Iterable[str]) -> list[Record]:
        """Return those of some live records that belong in a file, and are nowhere else."""
        pending = self._run.find_pending(path)
        return [
            record
            for record in self._store.records(list(names))
            if layout.build_home(record, self._ledger.layout) == layout.parse_home(path)
            and record.id not in self._present
            and record.id not in pending
            and self._ledger.locate(record.id) in (path, None)
        ]

    # -- one entry ---------------------------------------------------------------------------------------

    def _import_entry(self, file: _RecordFile, entry: _Entry) -> None:
        if entry.row is not None:
            parsing.check_utf8(entry.row.text)
            if not entry.row.line.text.strip():
                return None
        if not entry.id and (twin := self._find_duplicate(self._build(file, entry, _NO_ID))) is not None:
            return self._mark_twin(file, entry, twin)
        ours = next(iter(self._store.records([entry.id])), None) if entry.id else None
        if ours is None:
            return self._add(file, entry)
        if entry.row is not None and not ours.archived:
            checksum = layout.compute_line_checksum(entry.row.text)
            if file.file.lines.get(ours.id) == checksum:  # as it was written
                file.rows[ours.id] = entry.row.text
                return None
        return self._edit(file, entry, ours)

    def _edit(self, file: _RecordFile, entry: _Entry, ours: Record) -> None:
        """Import an entry of a record that exists."""
        changed, located, is_restored = file.file, self._locate(file, ours), self._is_restored(file, ours)
        is_known = ours.id in changed.lines or (changed.written is not None and changed.place.name == ours.id)
        is_here = located == changed.path or is_known
        if file.is_page and self._is_moved_away(file, entry, ours):
            return
        if not is_restored:
            is_old = changed.written is None and not file.is_page
            if is_old and self._is_version(file, entry, list_versions(self._store, ours.id)):
                return
            if not is_here and self._is_stray(file, entry, ours, located):
                return
        base = ours if is_restored and not file.is_page else self._find_base(file, entry, ours, located)
        is_written = self._is_version(file, entry, [base, *self._list_pending(changed.at, ours.id)])
        theirs = base if is_written else self._change(file, entry, base)
        if not (is_here if file.is_page else is_written):
            theirs = self._move(file, entry, theirs, base)
        value, conflict = merge_record(base, ours, theirs, now=self._run.now)
        if value != ours:
            self._add_change(file, Change(before=ours, after=value))
            file.conflicts += [conflict] if conflict else []
        if entry.row is not None:
            file.rows[ours.id] = entry.row.text
        elif (path := layout.build_path(ours)) in self._missing:
            self._run.mark_due([path])

    def _list_pending(self, path: str, record_id: str) -> list[Record]:
        """Return the versions of a record that a file is not known to show."""
        pending = self._run.find_pending(path).get(record_id, ())
        return [each for each in pending if isinstance(each, Record)]

    def _is_moved_away(self, file: _RecordFile, entry: _Entry, ours: Record) -> bool:
        """Return whether a process wrote a line here, and could not record that, before its record moved elsewhere."""
        home, kind = layout.parse_home(file.file.path), self._ledger.layout
        if layout.build_home(ours, kind) == home:
            return False
        last = self._store.journal(id=ours.id, newest_first=True, limit=1)
        is_older = bool(last) and to_microseconds(last[0].at) * 1_000 > file.file.stamp.mtime_ns
        versions = list_versions(self._store, ours.id) if is_older else self._list_pending("", ours.id)
        here = [each for each in versions if layout.build_home(each, kind) == home]
        return self._is_version(file, entry, here)

    def _is_stray(self, file: _RecordFile, entry: _Entry, ours: Record, located: str | None) -> bool:
        """Return whether an entry is a copy, which adds nothing; refuse one that was changed.

        Args:
            file: The file.
            entry: The entry.
            ours: Its record, which does not belong in this file.
            located: The file that the record is in.
        """
        if not file.is_page and self._present[ours.id] != file.file.path:
            located = located or self._present[ours.id]
        elif located is None:
            return False
        elif located.endswith(".md"):
            found = self._run.disk.read(located)
            if found is None or ours.id not in layout.index_lines(found[0]):
                return False
        if entry.row is not None and self._is_version(file, entry, list_versions(self._store, ours.id)):
            return True
        raise InvalidInput(f"the record {ours.id!r} is in {located}: take its id out to make a new record")

    def _add(self, file: _RecordFile, entry: _Entry) -> None:
        """Add the record of an entry, unless it is an old one that the program has removed."""
        record = self._build(file, entry, entry.id or self._run.new_id())
        is_put_back = not file.is_page and self._run.has_reappeared(file.file, record.id)
        if not is_put_back and self._is_version(file, entry, list_versions(self._store, record.id)):
            return
        twin = file.texts.get((record.scope, record.fingerprint))
        if twin is not None and entry.row is not None and not entry.id:
            self._mark_twin(file, entry, twin)
            return
        self._add_change(file, Change(before=None, after=record))
        if entry.row is not None:
            file.rows[record.id] = _render(file.file.path, record)

    def _is_restored(self, file: _RecordFile, ours: Record) -> bool:
        """Return whether a person has put back what was archived."""
        if not ours.archived or file.file.place.archived:
            return False
        if file.is_page:  # what the program has archived meanwhile may be in an editor still
            return file.file.written is not None and ours.archive_reason == DELETED
        return self._run.has_reappeared(file.file, ours.id)

    def _locate(self, file: _RecordFile, ours: Record) -> str | None:
        """Return the file that a record is in; a page does not count for a JSON file, which may come from a backup."""
        if file.is_page and layout.build_stem(ours, self._ledger.layout) is not None:
            return self._ledger.locate(ours.id)
        path = layout.build_path(ours)
        return path if path not in self._missing and self._run.disk.stat(path) is not None else None

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
        category = self._find_category(file)
        return move_record(record, base, file.file.path, entry.fields, category, self._run.now)

    def _change(self, file: _RecordFile, entry: _Entry, base: Record) -> Record:
        """Return the record that a person has made of another one."""
        fields = entry.fields
        if entry.row is not None:
            tags = parsing.merge_visible_tags(base.tags, entry.row.line.tags)
            fields = {**fields, "content": entry.row.line.text.strip(), "tags": tags}
        return parsing.build_record(fields, id=base.id, base=base, place=file.file.place, now=self._run.now)

    def _find_base(self, file: _RecordFile, entry: _Entry, ours: Record, located: str | None) -> Record:
        """Return the record as the person began with it; of a page only what a line shows is as it was then."""
        path, at = file.file.path, file.file.at
        base = None if file.file.written is None else self._find_written(path, ours.id, at)
        if base is None and located != path:
            base = self._find_written(located or layout.build_path(ours), ours.id)
        if base is None:
            shared = partial(_count_shared_fields, entry)
            base = max([ours, *list_versions(self._store, ours.id)], key=shared)
        if not file.is_page:
            return base
        shown = _describe_record(base)
        return replace(ours, **{**shown, "tags": parsing.merge_visible_tags(ours.tags, shown["tags"])})

    def _find_written(self, path: str, record_id: str, at: str = "") -> Record | None:
        """Return the version of a record that was last written to a file; None if that is not known."""
        known, line = self._ledger.find(at or path), self._ledger.read_lines(at or path).get(record_id)
        for version in list_versions(self._store, record_id):
            if path.endswith(".md"):
                is_written = line == layout.compute_line_checksum(_render(path, version))
            else:
                checksum = compute_checksum(layout.render_record(version))
                is_written = known is not None and known.checksum == checksum
            if is_written:
                return version
        return None

    def _is_version(self, file: _RecordFile, entry: _Entry, versions: Iterable[Record]) -> bool:
        """Return whether an entry is as one of some versions of its record."""
        if entry.row is not None:
            return any(_describe_record(each) == entry.fields for each in versions)
        path, data = file.file.path, file.file.data
        return any(
            layout.build_path(each) == path and layout.render_record(each) == data for each in versions
        )

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

    def _mark_twin(self, file: _RecordFile, entry: _Entry, twin: Record) -> None:
        """Give a record the tags and the pin of an entry without an id that says the same."""
        twin = file.texts.get((twin.scope, twin.fingerprint), twin)
        tags = normalize_labels([*twin.tags, *entry.fields.get("tags", ())], name="tag")
        marked = replace(twin, tags=tags, pinned=twin.pinned or entry.fields.get("pinned", False))
        marked, _ = merge_record(twin, twin, marked, now=self._run.now)
        if marked != twin:
            before = next((each.before for each in file.changes if each.after is twin), twin)
            file.changes = [each for each in file.changes if each.after is not twin]
            file.changes.append(Change(before=before, after=marked))
            file.texts[marked.scope, marked.fingerprint] = marked
        if twin.id in self._present or (file.is_page and self._ledger.locate(twin.id) != file.file.path):
            return
        self._present[twin.id] = file.file.path  # its id was deleted, or this entry was imported before
        if file.is_page:
            file.rows[twin.id] = _render(file.file.path, marked)

    def _find_duplicate(self, record: Record) -> Record | None:
        """Return another live record of the same content."""
        other = None if record.archived else self._store.record_like(record.scope, record.fingerprint)
        return None if other is None or other.id == record.id else other

    def _add_change(self, file: _RecordFile, change: Change) -> None:
        """Add a change; refuse forgotten text, and the content of another live record or entry."""
        self._run.refuse_forgotten([change])
        record = change.after
        if isinstance(record, Record) and not record.archived:
            if (other := self._find_duplicate(record)) is not None:
                raise InvalidInput(
                    f"it would say the same as the record {other.id!r}: change or delete one of them"
                )
            if (record.scope, record.fingerprint) in file.texts:
                raise InvalidInput("two of its lines say the same: take one out")
            file.texts[record.scope, record.fingerprint] = record
        file.changes.append(change)


def _rank(file: ChangedFile) -> tuple[bool, bool, int, str]:
    """Return the order of import: known files, then those with the name of a record, each the last saved first."""
    is_named = file.place.form == "lines" or is_id(file.place.name)
    return file.written is None, not is_named, -file.stamp.mtime_ns, file.path


def _build_archive_changes(records: Iterable[Record], run: HandEditRun) -> list[Change]:
    return [
        Change(before=record, after=replace(record, archived_at=run.now, archive_reason=DELETED))
        for record in records
    ]


def _describe_record(record: Record) -> dict[str, Any]:
    """Return the fields that a line of a page shows."""
    tags = tuple(filter(is_visible_tag, record.tags))
    return {"content": record.content, "tags": tags, "pinned": record.pinned}


def _count_shared_fields(entry: _Entry, record: Record) -> int:
    shown = {} if entry.row is None else _describe_record(record)
    return sum(shown.get(name, getattr(record, name)) == value for name, value in entry.fields.items())


def _render(path: str, record: Record) -> str:
    return layout.render_added_lines(path, [record]).decode().removesuffix("\n")


def list_versions(store: Store, id: str) -> list[Record]:
    """Return the versions of a record in the journal, the newest first, without immediate repetitions."""
    versions: list[Record] = []
    for entry in store.journal(id=id, newest_first=True, limit=_MAX_VERSIONS):
        for value in reversed(entry.values):
            if isinstance(value, Record) and (not versions or versions[-1] != value):
                versions.append(value)
    return versions


# -- merging -----------------------------------------------------------------------------------------------


def move_record(
    record: Record,
    base: Record | None,
    path: str,
    fields: Fields,
    category: str | None,
    now: datetime,
) -> Record:
    """Return a record as the place of its file says: its category, layer and whether it is archived.

    Where the place and a field contradict, the one counts that differs from `base`; if both do, the field.

    Args:
        record: The record that a person has written.
        base: The version that the person began with; None for a new record.
        path: The path of the file.
        fields: The fields of the entry.
        category: The category of the file.
        now: The time.

    Raises:
        InvalidInput: the record is not valid.
    """
    place, home, kind = (
        layout.parse_path(path),
        layout.parse_home(path),
        "pages" if path.endswith(".md") else "records",
    )
    assert place is not None
    was_archived = base is not None and base.archived
    if base is None or layout.build_home(base, kind) != home:
        is_page = place.form == "lines"
        if place.archived != record.archived and (is_page or record.archived == was_archived):
            record = replace(record, archived_at=now if place.archived else None)
        if place.is_day:
            record = replace(record, layer="episodic")
        elif is_page and record.layer == "episodic" and not place.archived:
            layer = HOME_LAYERS[record.kind]
            record = replace(record, layer="semantic" if layer == "episodic" else layer)
        is_given = record.category != base.category if base is not None else not is_page
        if layout.build_home(record, kind) != home and not (is_given or place.is_day):
            record = replace(record, category=category)
    if record.archived != was_archived and (base is not None or "archive_reason" not in fields):
        record = replace(record, archive_reason=fields.get("archive_reason") or "" if record.archived else "")
    return validate_record(record)


def merge_record(
    base: Record | None, ours: Record, theirs: Record, *, now: datetime
) -> tuple[Record, MergeConflict | None]:
    """Return an edited record with the changes of both sides, and the conflict with those of the program.

    Args:
        base: The version that the person began with; None if that is not known.
        ours: What the store has.
        theirs: What the person made of it.
        now: The time.
    """
    if theirs == base:
        return ours, None
    from reverie.domain.similarity.three_way_merge import merge_values  # here: few records are edited

    value, conflicts = merge_values(base, ours, theirs)
    if ours.archived and value.archived and base is not None and not (base.archived or theirs.archived):
        # The program archived it while a person worked on it, so it is of use.
        value = replace(value, archived_at=None, archive_reason="")
        conflicts = (*conflicts, "archived_at")
    loud = any(getattr(value, name) != getattr(ours, name) for name in _LOUD)
    if loud and (base is None or theirs.updated_at == base.updated_at):
        value = replace(value, updated_at=now)
    if value != ours:
        value = validate_record(detach_changed(ours, value))
    return value, MergeConflict(ours, conflicts) if conflicts else None


_QUIET = {"updated_at", "last_seen_at", "seen_count", "pinned", "archived_at", "archive_reason"}
# The fields whose change makes a record newer.
_LOUD = [each.name for each in fields(Record) if each.name not in _QUIET]
