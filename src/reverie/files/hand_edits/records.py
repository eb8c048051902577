"""Import of edited files of single records: which file is that of which record. `lines` imports pages of records.

A record has one place (`layout.build_path`). A file elsewhere that contains its id was moved if nothing
stands at that place any more. Otherwise it is a copy. It is refused, because it is unclear which of
the two counts. A file whose record is archived was put back. Files are therefore imported together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from reverie.domain.change import Change
from reverie.domain.errors import InvalidInput
from reverie.domain.record import Record
from reverie.files import parsing
from reverie.files.expected import has_own_file, is_earlier_content, is_id, read_base_text
from reverie.files.hand_edits.intake import DELETED, REBUILDER, ChangedFile, HandEditRun
from reverie.files.hand_edits.merge import (
    ACTOR,
    MergeDecision,
    build_placed_record,
    decide_record,
    find_closest_version,
    list_versions,
    parse_base_record,
)
from reverie.files.layout import build_path, parse_path
from reverie.files.parsing import Fields


class _RecordFile(NamedTuple):
    """The file of one record: its fields, and the id of its record; None for a new one."""

    file: ChangedFile
    fields: Fields
    id: str | None


class RecordImporter:
    """Import of the files of records that were changed, added or removed.

    Attributes:
        moved: Missing files whose records were found elsewhere.
    """

    def __init__(self, run: HandEditRun, files: Iterable[ChangedFile], missing: Iterable[str]) -> None:
        """Parse the files; those that cannot be parsed become problems of `run`."""
        self.moved: set[str] = set()
        self._run = run
        self._store = run.store
        self._missing = set(missing)
        self._paths_by_id: dict[str, list[str]] = {}
        self._ids_by_path: dict[str, set[str]] = {}
        self._record_files: list[_RecordFile] = []
        # Files that were known before come first.
        for file in sorted(files, key=lambda each: (each.written is None, each.path)):
            if file.place.form == "record":
                run.attempt(file.at, partial(self._parse_record_file, file))

    def import_changes(self) -> None:
        """Import all files that could be parsed."""
        for parsed in self._record_files:
            self._run.attempt(parsed.file.at, partial(self._import_record_file, parsed))

    def import_missing(self, path: str) -> None:
        """Import the deletion of a file: archive its record, unless that is elsewhere."""
        place = parse_path(path)
        assert place is not None
        records = [
            record
            for record in self._fetch_record(place.name)
            if build_path(record) == path and has_own_file(record, self._run.ledger.layout)
        ]
        if place.archived and records:
            return self._run.write_again(path, "record", records[0].id)
        archived = [record for record in records if not self.has_file(record.id)]
        self._run.commit_edits(path, build_archive_changes(archived, self._run), "delete_file")
        self._run.ledger.drop([path])
        self._run.mark_due([path])
        return None

    def has_file(self, record_id: str) -> bool:
        """Return whether one of the files has the id of a record."""
        return record_id in self._paths_by_id

    # -- parsing -----------------------------------------------------------------------------------------

    def _parse_record_file(self, file: ChangedFile) -> None:
        fields = parsing.read_record(file.path, file.data)
        stem, written_id = file.place.name, fields.get("id")
        if (
            written_id is not None
            and is_id(stem)
            and stem != written_id
            and (file.written is not None or self._fetch_record(stem))
        ):
            raise InvalidInput(f"its id is {written_id!r}, but it is the file of {stem!r}: put that id back")
        record_id = written_id if written_id is not None else stem if is_id(stem) else None
        self._record_files.append(_RecordFile(file, fields, record_id))
        self._index_ids(file.path, [record_id])

    def _index_ids(self, path: str, ids: Iterable[str | None]) -> None:
        ids_here = self._ids_by_path.setdefault(path, set())
        for record_id in ids:
            if record_id is not None:
                ids_here.add(record_id)
                self._paths_by_id.setdefault(record_id, []).append(path)

    # -- one record --------------------------------------------------------------------------------------

    def _import_record_file(self, parsed: _RecordFile) -> None:
        file, fields = parsed.file, parsed.fields
        record_id = parsed.id or self._find_renamed_record(parsed) or self._run.new_id()
        ours = next(iter(self._fetch_record(record_id)), None)
        versions = list_versions(self._store, record_id)
        is_restored = (
            ours is None or (ours.archived and not file.place.archived)
        ) and self._run.has_reappeared(file, record_id)
        written = self._find_written_record(file, record_id, ours)
        is_stale = file.written is None and is_earlier_content(
            self._store, self._run.ledger, file.path, file.data
        )
        if is_stale and not is_restored:
            return self._run.settle(file)
        if self._has_other_place(file, record_id, ours, is_restored=is_restored):
            raise InvalidInput(
                f"another file is that of the record {record_id!r}: take the id out to make a new record of "
                "this one, or delete one of the two"
            )
        base = ours if is_restored else written or find_closest_version(versions, fields) or ours
        theirs = build_placed_record(fields, id=record_id, base=base, path=file.path, now=self._run.now)
        decision = decide_record(base, ours, theirs, now=self._run.now)
        if (created := self._find_created_record(file, decision)) is not None:
            decision = self._decide_resaved_record(parsed, created)
        refuse_duplicates(self._run, decision.edits, set())
        self._run.commit(file, decision)
        if ours is not None and build_path(ours) in self._missing:
            self.moved.add(build_path(ours))
            self._run.mark_due([build_path(ours)])
        return self._run.settle(file)

    def _find_written_record(self, file: ChangedFile, record_id: str, ours: Record | None) -> Record | None:
        """Return the record as its file was last written, at its old place if it was moved."""
        text = file.base
        if file.written is None and ours is not None:
            text = read_base_text(self._store, self._run.ledger, build_path(ours))
        base = parse_base_record(text)
        return base if base is not None and base.id == record_id else None

    def _has_other_place(
        self, file: ChangedFile, record_id: str, ours: Record | None, *, is_restored: bool
    ) -> bool:
        """Return whether another file holds the record."""
        if ours is not None:
            proper = build_path(ours)
            is_old_place = file.written is not None and file.place.name == record_id
            if file.path == proper or is_old_place:
                return False
            if not is_restored and self._has_record(proper, record_id):
                return True
        return self._paths_by_id.get(record_id, [file.path])[0] != file.path

    def _has_record(self, path: str, record_id: str) -> bool:
        if path in self._ids_by_path:
            return record_id in self._ids_by_path[path]
        return path not in self._missing and self._run.disk.stat(path) is not None

    def _find_renamed_record(self, parsed: _RecordFile) -> str | None:
        """Return the record of a file without an id, if its own file is missing and had the same content."""
        path = parsed.file.path
        probe = build_placed_record(parsed.fields, id="0" * 12, base=None, path=path, now=self._run.now)
        duplicate = find_duplicate(self._run, probe)
        if duplicate is None or build_path(duplicate) not in self._missing:
            return None
        if duplicate.id not in self._paths_by_id:
            self._index_ids(path, [duplicate.id])
        return duplicate.id if self._paths_by_id[duplicate.id] == [path] else None

    # -- for all -----------------------------------------------------------------------------------------

    def _fetch_record(self, record_id: str) -> list[Record]:
        return self._store.records([record_id]) if is_id(record_id) else []

    def _decide_resaved_record(self, parsed: _RecordFile, created: Record) -> MergeDecision:
        """Merge a file that an editor saved again under its old name, after a record was made of it."""
        base = list_versions(self._store, created.id)[-1]
        path, now = parsed.file.path, self._run.now
        theirs = build_placed_record(parsed.fields, id=created.id, base=base, path=path, now=now)
        return decide_record(base, created, theirs, now=now)

    def _find_created_record(self, file: ChangedFile, decision: MergeDecision) -> Record | None:
        """Return the record that was made of this file before, such as by a process that was killed."""
        new = decision.edits[0].after if decision.edits and decision.edits[0].before is None else None
        duplicate = find_duplicate(self._run, new) if isinstance(new, Record) else None
        if duplicate is None:
            return None
        first = next(iter(self._store.journal(id=duplicate.id, limit=1)), None)
        is_made_of_file = first is not None and first.actor in (ACTOR, REBUILDER) and first.note == file.at
        return duplicate if is_made_of_file else None


def build_archive_changes(records: Iterable[Record], run: HandEditRun) -> list[Change]:
    """Return the changes that archive records whose file or line a person has deleted."""
    return [
        Change(before=record, after=replace(record, archived_at=run.now, archive_reason=DELETED))
        for record in records
    ]


def find_duplicate(run: HandEditRun, record: Record) -> Record | None:
    """Return another live record of the same content."""
    if record.archived:
        return None
    other = run.store.record_like(record.scope, record.fingerprint)
    return None if other is None or other.id == record.id else other


def refuse_duplicates(run: HandEditRun, changes: Sequence[Change], texts: set[tuple[str, str]]) -> None:
    """Refuse records of the same content as another live record, or as one whose text is in `texts`.

    Args:
        run: The run.
        changes: The changes.
        texts: The scopes and fingerprints of the records before them; those of the changes are added.
    """
    for change in changes:
        after = change.after
        if not isinstance(after, Record) or after.archived:
            continue
        if (other := find_duplicate(run, after)) is not None:
            raise InvalidInput(
                f"it would say the same as the record {other.id!r}: change or delete one of them"
            )
        if (after.scope, after.fingerprint) in texts:
            raise InvalidInput("two of its lines say the same: take one out")
        texts.add((after.scope, after.fingerprint))
