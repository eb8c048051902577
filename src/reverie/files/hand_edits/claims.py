"""Which file speaks for which record? Files and lines are taken in together: one may have been moved.

A record has one place (`layout.build_path`). A file that says its id elsewhere was moved if nothing stands at
that place any more, and is a copy if something does; a copy is refused, because nobody can tell which counts.
A file whose record is in the archive was put back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from reverie.domain.change import Change
from reverie.domain.record import Record
from reverie.domain.text.ids import validate_id
from reverie.files import parsing
from reverie.files.expected import is_earlier_version, render_expected_content
from reverie.files.hand_edits import base_versions
from reverie.files.hand_edits.base_versions import ACTOR, FileParts
from reverie.files.hand_edits.intake import (
    DELETED,
    REBUILDER,
    CannotImport,
    ChangedFile,
    HandEditRun,
    is_id,
    require_parsed,
)
from reverie.files.hand_edits.merge import (
    MergeConflict,
    MergeDecision,
    build_placed_record,
    decide_record,
    is_mass_removal,
    reconstruct_base,
)
from reverie.files.layout import build_path, parse_path, render_record
from reverie.files.parsing import Fields


@dataclass(frozen=True, slots=True)
class _Claim:
    """A file of one record: what it says, and for which record; None for a new one."""

    stranger: ChangedFile
    fields: Fields
    id: str | None


@dataclass(frozen=True, slots=True)
class _Day:
    """An episodic file: what its lines say."""

    stranger: ChangedFile
    lines: list[Fields]


class FileClaims:
    """The files and lines of records that are not as we know them, and those that are gone.

    Attributes:
        moved: Missing files whose records were found elsewhere.
    """

    def __init__(self, intake: HandEditRun, strangers: Iterable[ChangedFile], missing: Iterable[str]) -> None:
        """Read the claims of these files; what cannot be read becomes a problem of `intake`."""
        self.moved: set[str] = set()
        self._intake = intake
        self._store = intake.store
        self._missing = set(missing)
        self._claimed: dict[str, list[str]] = {}
        self._said: dict[str, set[str]] = {}
        self._records: list[_Claim] = []
        self._days: list[_Day] = []
        # Those that were there before speak first.
        for stranger in sorted(strangers, key=lambda each: (each.written is None, each.path)):
            if stranger.place.form == "record":
                intake.attempt(stranger, self._read_record)
            elif stranger.place.form == "episodic":
                intake.attempt(stranger, self._read_day)

    def take(self) -> None:
        """Take them in."""
        for claim in self._records:
            self._intake.attempt(claim.stranger, lambda _, claim=claim: self._take_record(claim))  # type: ignore[misc]
        for day in self._days:
            self._intake.attempt(day.stranger, lambda _, day=day: self._take_day(day))  # type: ignore[misc]

    def take_missing(self, path: str) -> None:
        """Take in that a file is gone: what it said is archived, unless that stands elsewhere."""
        place = parse_path(path)
        assert place is not None
        if place.form == "episodic":
            here = [record for record in self._select_day_records(path) if self._has_been_shown(record)]
        else:
            here = [record for record in self._find_record(place.name) if build_path(record) == path]
        if place.archived and here:
            return self._intake.write_again(path, "record", here[0].id)
        self._commit_archived(path, [record for record in here if record.id not in self._claimed])
        self._intake.ledger.drop([path])
        self._intake.mark_due([path])
        return None

    # -- reading -----------------------------------------------------------------------------------------

    def _read_record(self, stranger: ChangedFile) -> None:
        fields = require_parsed(parsing.read_record(stranger.path, stranger.data))
        stem, told = stranger.place.name, fields.get("id")
        if told is not None and is_id(stem) and stem != validate_id(told) and self._is_of(stranger, stem):
            raise CannotImport(f"its id is {told!r}, but it is the file of {stem!r}: put that id back")
        name = told if told is not None else stem if is_id(stem) else None
        self._records.append(_Claim(stranger, fields, None if name is None else validate_id(name)))
        self._record_claim(stranger.path, [name])

    def _is_of(self, stranger: ChangedFile, name: str) -> bool:
        """Whether a file is, by its name, that of a record that there is."""
        return stranger.written is not None or bool(self._find_record(name))

    def _read_day(self, stranger: ChangedFile) -> None:
        lines = require_parsed(parsing.read_episodic(stranger.path, stranger.data))
        names = [fields.get("id") for fields in lines]
        for name in names:
            if name is not None:
                validate_id(name)
        self._days.append(_Day(stranger, lines))
        self._record_claim(stranger.path, names)

    def _record_claim(self, path: str, names: Iterable[str | None]) -> None:
        there = self._said.setdefault(path, set())
        for name in names:
            if name is not None:
                there.add(name)
                self._claimed.setdefault(name, []).append(path)

    # -- one record --------------------------------------------------------------------------------------

    def _take_record(self, claim: _Claim) -> None:
        stranger = claim.stranger
        name = claim.id or self._find_renamed_record(claim) or self._intake.new_id()
        ours = next(iter(self._find_record(name)), None)
        known = base_versions.list_versions(self._store, name, Record)
        back = ours is None or (ours.archived and not stranger.place.archived)
        back = back and self._intake.has_reappeared(stranger, name)
        exact = self._find_written_version(stranger, ours, known)
        if not back and self._is_stale(stranger, known, exact):
            return self._intake.settle(stranger)
        if (other := self._find_other_place(stranger, name, ours, back=back)) is not None:
            raise CannotImport(
                f"its id {name!r} is that of {other!r}: take the id out to make a new record of it, or "
                "delete one of the two"
            )
        base = ours if back else self._find_base_version(claim, known, exact) or ours
        said = build_placed_record(claim.fields, id=name, base=base, path=stranger.path, now=self._intake.now)
        decision = decide_record(base, ours, said, now=self._intake.now)
        if (twin := self._find_created_record(stranger, decision)) is not None:
            decision = self._decide_resaved_record(claim, twin)
        self._refuse_twins(decision.edits)
        self._intake.commit(stranger, decision)
        if ours is not None and build_path(ours) in self._missing:
            self.moved.add(build_path(ours))
            self._intake.mark_due([build_path(ours)])
        return self._intake.settle(stranger)

    def _find_written_version(
        self, stranger: ChangedFile, ours: Record | None, known: Sequence[Record]
    ) -> int | None:
        """The version that the file said when it was last written, if the state knows it."""
        written = stranger.written
        if written is None and ours is not None:
            written = self._intake.ledger.find(build_path(ours))
        return base_versions.find_written_version(known, render_record, written)

    def _find_base_version(self, claim: _Claim, known: Sequence[Record], exact: int | None) -> Record | None:
        """The version that the person began with."""
        if exact is None:
            base = base_versions.find_closest_version(known, claim.fields)
            return None if base is None else self._reconstruct_base(claim.stranger, base, claim.fields)
        if is_earlier_version(self._store, claim.stranger.path, claim.stranger.data):
            return known[exact]  # it was put back to what it was before
        return self._reconstruct_base(claim.stranger, known[exact], claim.fields)

    def _reconstruct_base(self, stranger: ChangedFile, written: Record, fields: Fields) -> Record:
        unseen = base_versions.list_unseen_changes(
            self._store, written.id, Record, self._intake.get_save_time(stranger)
        )
        return reconstruct_base(written, fields, unseen)

    def _is_stale(self, stranger: ChangedFile, known: Sequence[Record], exact: int | None) -> bool:
        """Whether a file says what it once was to say, and not because somebody took back a pin or the like.

        Pins and archives change no `updated_at`. So a file that says exactly what the record said before one
        may be the work of a person, if we know that it said something later already.
        """
        if not is_earlier_version(self._store, stranger.path, stranger.data):
            return False
        same = (number for number, value in enumerate(known) if render_record(value) == stranger.data)
        old = next(same, None)
        if old is None or exact is None or known[old].updated_at != known[exact].updated_at:
            return True
        return old <= exact

    def _find_other_place(
        self, stranger: ChangedFile, name: str, ours: Record | None, *, back: bool
    ) -> str | None:
        """Where else a record stands than in this file; None if this is its only place."""
        if ours is not None:
            proper = build_path(ours)
            is_its_old_place = stranger.written is not None and stranger.place.name == name
            if stranger.path == proper or is_its_old_place:
                return None
            if not back and self._has_record(proper, name):
                return proper
        first = self._claimed.get(name, [stranger.path])[0]
        return None if first == stranger.path else first

    def _has_record(self, path: str, name: str) -> bool:
        if path in self._said:
            return name in self._said[path]
        return path not in self._missing and self._intake.disk.stat(path) is not None

    def _find_renamed_record(self, claim: _Claim) -> str | None:
        """The record that a file without an id is of, if that one's own file is gone and said the same."""
        twin, path = self._find_twin(self._build_probe_record(claim)), claim.stranger.path
        if twin is None or build_path(twin) not in self._missing:
            return None
        if twin.id not in self._claimed:
            self._record_claim(path, [twin.id])
        return twin.id if self._claimed[twin.id] == [path] else None

    def _build_probe_record(self, claim: _Claim) -> Record:
        stranger = claim.stranger
        return build_placed_record(
            claim.fields, id="0" * 12, base=None, path=stranger.path, now=self._intake.now
        )

    # -- the records of a day ----------------------------------------------------------------------------

    def _take_day(self, day: _Day) -> None:
        stranger, intake = day.stranger, self._intake
        present_records = self._select_day_records(stranger.path)
        pieces = base_versions.reconstruct_written_pieces(
            self._store, stranger.path, FileParts(None, tuple(present_records)), stranger.written
        )
        if pieces is None and intake.is_stale(stranger, None):
            return intake.settle(stranger)
        began = None
        if pieces is not None:
            began = {each.id: each for each in pieces.values if isinstance(each, Record)}
        edits: list[Change] = []
        clashes: list[MergeConflict] = []
        for fields in day.lines:
            decision = self._decide_line(stranger, fields, began)
            if self._find_created_record(stranger, decision) is None:
                edits += decision.edits
                clashes += decision.clashes
        self._refuse_twins(edits)
        edits += self._archive_removed_lines(stranger, began)
        intake.commit(stranger, MergeDecision(edits=tuple(edits), clashes=tuple(clashes)))
        return intake.settle(stranger)

    def _decide_line(
        self, stranger: ChangedFile, fields: Fields, began: dict[str, Record] | None
    ) -> MergeDecision:
        name = fields.get("id")
        ours = next(iter(self._find_record(name)), None) if name is not None else None
        base = None if began is None or name is None else began.get(name)
        if name is not None and ours is not None:
            known = base_versions.list_versions(self._store, name, Record)
            if base is not None:
                base = self._reconstruct_base(stranger, base, fields)
            elif began is None and self._build_edited_record(stranger, fields, ours) in known:
                return MergeDecision()  # one of the versions it had; nobody knows which was here
            elif (
                not ours.archived
                and build_path(ours) != stranger.path
                and self._has_record(build_path(ours), name)
            ):
                raise CannotImport(
                    f"the id {name!r} is that of {build_path(ours)!r}: take it out to make a new record"
                )
            else:
                base = (
                    ours if began is not None else base_versions.find_closest_version(known, fields) or ours
                )
                base = self._reconstruct_base(stranger, base, fields)
        said = build_placed_record(
            fields,
            id=name or self._intake.new_id(),
            base=base,
            path=stranger.path,
            now=self._intake.now,
        )
        return decide_record(base, ours, said, now=self._intake.now)

    def _build_edited_record(self, stranger: ChangedFile, fields: Fields, ours: Record) -> Record:
        return build_placed_record(fields, id=ours.id, base=ours, path=stranger.path, now=self._intake.now)

    def _archive_removed_lines(self, stranger: ChangedFile, began: dict[str, Record] | None) -> list[Change]:
        """The edits that archive the records whose lines were taken out."""
        if began is None:
            return []
        names = list(began)
        # Whoever has a line before them has seen those that stood before it.
        seen = max((place for place, name in enumerate(names) if name in self._claimed), default=-1)
        gone = [
            name
            for place, name in enumerate(names)
            if name not in self._claimed and (place < seen or not self._intake.is_recent(stranger, name))
        ]
        if is_mass_removal(len(gone), len(began)):
            raise CannotImport(
                f"{len(gone)} of {len(began)} lines are missing: restore them, or delete the file to archive "
                "all its records"
            )
        records = [record for name in gone for record in self._find_record(name)]
        return self._build_archive_edits(record for record in records if build_path(record) == stranger.path)

    def _select_day_records(self, path: str) -> list[Record]:
        """The live records whose lines stand in a file."""
        content = render_expected_content(self._store, path)
        if content is None:
            return []
        lines = require_parsed(parsing.read_episodic(path, content.data))
        return self._store.records([fields["id"] for fields in lines])

    # -- for all -----------------------------------------------------------------------------------------

    def _find_record(self, name: str) -> list[Record]:
        return self._store.records([name]) if is_id(name) else []

    def _has_been_shown(self, record: Record) -> bool:
        """Whether a record was there when the files were last written, so that its line can be deleted."""
        rows = self._store.journal(id=record.id, limit=1)
        return not rows or rows[0].sequence <= self._intake.ledger.progress.sequence

    def _commit_archived(self, path: str, records: Iterable[Record]) -> None:
        self._intake.commit_edits(path, self._build_archive_edits(records), f"{DELETED}: {path}")

    def _build_archive_edits(self, records: Iterable[Record]) -> list[Change]:
        now = self._intake.now
        return [
            Change(before=record, after=replace(record, archived_at=now, archive_reason=DELETED))
            for record in records
        ]

    def _find_twin(self, record: Record) -> Record | None:
        if record.archived:
            return None
        twin = self._store.record_like(record.scope, record.fingerprint)
        return None if twin is None or twin.id == record.id else twin

    def _refuse_twins(self, edits: Sequence[Change]) -> None:
        """Refuse what would say the same as another live record, or twice."""
        said: set[tuple[str, str]] = set()
        for edit in edits:
            after = edit.after
            if not isinstance(after, Record) or after.archived:
                continue
            if (twin := self._find_twin(after)) is not None:
                raise CannotImport(
                    f"it would say the same as the record {twin.id!r}: change or delete one of them"
                )
            if (after.scope, after.fingerprint) in said:
                raise CannotImport("two of its lines say the same: take one out")
            said.add((after.scope, after.fingerprint))

    def _decide_resaved_record(self, claim: _Claim, made: Record) -> MergeDecision:
        """What a file changes of the record that was made of it before: an editor still had its name open."""
        base = base_versions.list_versions(self._store, made.id, Record)[-1]
        said = build_placed_record(
            claim.fields, id=made.id, base=base, path=claim.stranger.path, now=self._intake.now
        )
        return decide_record(base, made, said, now=self._intake.now)

    def _find_created_record(self, stranger: ChangedFile, decision: MergeDecision) -> Record | None:
        """The record that was made of this very file before, such as by a process that was killed then."""
        fresh = decision.edits[0].after if decision.edits and decision.edits[0].before is None else None
        twin = self._find_twin(fresh) if isinstance(fresh, Record) else None
        rows = self._store.journal(id=twin.id, limit=1) if twin is not None else []
        begun = rows[0] if rows else None
        by_hand = begun is not None and begun.actor in (ACTOR, REBUILDER)
        return twin if begun is not None and by_hand and begun.reason.endswith(f": {stranger.at}") else None
