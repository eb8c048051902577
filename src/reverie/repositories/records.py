"""Records: saving without duplicates, changing, archiving, purging.

Every change is one transaction with its journal row. After a lost race the decision is made again, so two
processes that save the same fact leave one record, seen twice.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from reverie.domain.category import ANTI_PATTERNS, GENERAL, validate_category
from reverie.domain.change import Change, Operation
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import Conflict, InvalidInput, NotFound, quote_value
from reverie.domain.filter import Filter
from reverie.domain.headlines import detach_changed
from reverie.domain.page import Paragraph
from reverie.domain.passage import CandidateQuery, TermWeight
from reverie.domain.record import (
    DATES,
    HOME_LAYERS,
    KINDS,
    NOTHING,
    ORIGINS,
    ROUGH,
    SUPERSEDED_BY,
    SUPERSEDES,
    UNTRUSTED,
    Kind,
    Layer,
    Origin,
    Record,
    freeze_metadata,
    infer_kind,
    merge_tags,
    normalize_labels,
    note_dates,
    validate_choice,
    validate_record,
)
from reverie.domain.text import timestamps
from reverie.repositories.writing import WritingRepository
from reverie.search.analyzer import analyze
from reverie.search.index.candidates import CandidateIndex
from reverie.search.index.inverted_index import IndexedPassage, InvertedIndex, build_predicate
from reverie.stores.forks import renew_lock_after_fork
from reverie.stores.protocol import read_or_none
from reverie.stores.redacting import redact_value
from reverie.stores.writer import StoreWriter

if TYPE_CHECKING:
    from reverie.domain.similarity.deduplication import Decision

Settlement = Literal["ended", "wrong", "both"]
"""Decision about the other of two records: it held until now, never did, or holds too."""

COMPATIBLE = "compatible_with"
"""Metadata of a record that holds beside others: their ids."""

_PATIENT = 8
"""Number of lost races after which a save no longer requires that nothing was saved meanwhile. Then only a record
with the same words is refused, and of two near repetitions that are saved at that moment both may stay."""

ANTI_PATTERN_TAG = "anti-pattern"
_CHUNK = 1_000
_MOST_CANDIDATES = 8
_MOST_SUPERSEDED = 20
_MAX_COMPARED_WORDS = 100
_STATEMENTS: tuple[Kind, ...] = (
    "fact", "preference", "decision", "constraint", "project_fact", "task_state",
)  # fmt: skip
"""Kinds that a statement may have, depending on its author; a record of one kind may supersede one of another."""


Outcome = Literal["created", "reinforced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """A record to save, as `Memory.save` takes it.

    Attributes:
        content: The text to remember, 1 to 100,000 characters.
        category: A slash path such as `user-preferences/style`.
        kind: A kind such as `fact` or `decision`; None takes `anti_pattern` under `anti-patterns`, `preference`
            under `user-preferences`, else `fact`.
        layer: `episodic`, `semantic` or `procedural`; None takes the layer of the kind.
        tags: Labels.
        confidence: How sure it is, 0 to 1.
        importance: How much it matters, 0 to 1.
        source: Where it came from.
        references: Files, addresses and turn ids that it is about.
        origin: Who said it: `owner`, `agent`, `tool`, `web` or `import`.
        scope: The scope that it belongs to; empty for everybody's.
        pinned: Whether to exempt it from decay and from every automatic change.
        valid_from: Moment from which it holds.
        valid_to: Moment until which it holds.
        ttl: Time after which it leaves search, such as `30d`; None for never.
        metadata: Text to text, for the caller's own use.
        created_at: When it was learned; None for now.
        draft: Whether background thinking may split it into well-formed records, if there is a model.
    """

    content: str
    category: str | None = None
    kind: Kind | None = None
    layer: Layer | None = None
    tags: Iterable[str] = ()
    confidence: float = 0.8
    importance: float = 0.5
    source: str = ""
    references: Iterable[str] = ()
    origin: Origin = "owner"
    scope: str = ""
    pinned: bool = False
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    ttl: str | float | timedelta | None = None
    metadata: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    created_at: datetime | None = None
    draft: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveResult:
    """Result of a save.

    Attributes:
        record: The record as it is now.
        outcome: `created`, or `reinforced` if it was known already.
    """

    record: Record
    outcome: Outcome


class RecordChanges(TypedDict, total=False):
    """Fields that `Memory.update` can change, as keyword arguments.

    Attributes:
        content: Its text.
        category: Its category; None for none.
        kind: Its kind.
        layer: Its layer.
        tags: Its labels, in place of the old ones.
        confidence: How sure it is, 0 to 1.
        importance: How much it matters, 0 to 1.
        source: Where it came from.
        references: What it is about, in place of the old references.
        origin: Who said it.
        valid_from: Moment from which it holds; None for always.
        valid_to: Moment until which it holds; None for ever.
        expires_at: When it leaves search; None for never.
        pinned: Whether to exempt it from decay and from every automatic change.
        metadata: Its metadata, in place of the old.
    """

    content: str
    category: str | None
    kind: Kind
    layer: Layer
    tags: Iterable[str]
    confidence: float
    importance: float
    source: str
    references: Iterable[str]
    origin: Origin
    valid_from: datetime | None
    valid_to: datetime | None
    expires_at: datetime | None
    pinned: bool
    metadata: Mapping[str, str]


class RecordRepository(WritingRepository):
    """Repository that changes records. Safe to use from several threads, and beside other processes."""

    def __init__(
        self,
        writer: StoreWriter,
        index: CandidateIndex,
        *,
        zone: tzinfo = UTC,
    ) -> None:
        """Create a repository.

        Args:
            writer: Commits the changes.
            index: Finds candidates for duplicates.
            zone: The owner's time zone, for dates such as "yesterday".
        """
        super().__init__(writer)
        self._clock = writer.clock
        self._index = index
        self._zone = zone

    def acting(self, actor: str) -> RecordRepository:
        """Return the same repository with another actor."""
        other = copy.copy(self)
        other._writer = self._writer.acting(actor)
        renew_lock_after_fork(other)
        return other

    # -- saving ------------------------------------------------------------------------------------------

    def save(self, note: NewRecord, *, promoted_from: str = "") -> SaveResult:
        """Save one record; a repetition reinforces the record that is there (see `Memory.save`).

        Args:
            note: The record.
            promoted_from: The id of the record that it is a copy of, for the journal.
        """
        record = self._build_record(note)
        is_of_any_kind = _is_of_any_kind(note)

        def attempt(tries: int) -> SaveResult:
            candidates, since = self._find_similar(record, any_kind=is_of_any_kind)
            decision = self._decide(record, candidates, any_kind=is_of_any_kind)
            decision, ended = self._apply_supersession(decision)
            edits = [decision.change, *ended]
            operation: Operation = "save" if decision.change.before is None else "reinforce"
            self._writer.commit(
                edits,
                operation="promote" if promoted_from else operation,
                reference=promoted_from,
                since=since if tries < _PATIENT else None,
            )
            return _to_saved(decision)

        return self._run_with_retries(attempt)

    def save_many(
        self, notes: Iterable[NewRecord | Mapping[str, Any]], *, progress: Callable[[int], None] | None = None
    ) -> list[SaveResult]:
        """Save many records, a thousand in a transaction (see `Memory.save_many`)."""
        records = self._build_records(map(_parse_new_record, notes))  # all are checked before any is written
        saved: list[SaveResult] = []
        for start in range(0, len(records), _CHUNK):
            chunk = records[start : start + _CHUNK]
            saved += self._run_with_retries(lambda tries, chunk=chunk: self._save_chunk(chunk, tries))  # type: ignore[misc]
            if progress is not None:
                progress(len(chunk))
        return saved

    def _build_records(self, notes: Iterable[NewRecord | Record]) -> list[tuple[Record, bool]]:
        """Return each note as a record, and whether it may be of any kind."""
        return [
            (note, False) if isinstance(note, Record) else (self._build_record(note), _is_of_any_kind(note))
            for note in notes
        ]

    def _save_chunk(self, chunk: Sequence[tuple[Record, bool]], tries: int) -> list[SaveResult]:
        with self._store.reading(), self._index.reading():
            since = self._store.sequence()
            edits, saved = self._decide_chunk(chunk)
        self._writer.commit(edits, operation="save", since=since if tries < _PATIENT else None)
        return saved

    def planned(self, notes: Iterable[NewRecord | Record]) -> list[Change]:
        """Return the changes that saving these would make now; nothing is written. A record keeps its id.

        Raises:
            InvalidInput: one of them is not of its form.
        """
        return self._decide_chunk(self._build_records(notes))[0]

    def _decide_chunk(self, chunk: Sequence[tuple[Record, bool]]) -> tuple[list[Change], list[SaveResult]]:
        pending = _Pending()
        saved = []
        for record, is_of_any_kind in chunk:
            cues = analyze(record).cues.split()
            stored, _ = self._find_similar(record, any_kind=is_of_any_kind)
            candidates = pending.find_similar(record, cues) + pending.apply_pending(stored)
            decision = self._decide(record, candidates, any_kind=is_of_any_kind)
            decision, ended = self._apply_supersession(decision, pending)
            pending.add_decision(decision, cues)
            pending.add_ends(ended)
            saved.append(_to_saved(decision))
        return pending.build_changes(), saved

    def _decide(self, record: Record, candidates: Sequence[Record], *, any_kind: bool) -> Decision:
        """Decide what becomes of a record, beside candidates of its kind and, with `any_kind`, of others.

        Prompts and tools do not show the kind, so an agent that repeats a record cannot name its kind.
        """
        from reverie.domain.similarity.deduplication import decide  # here: a search saves nothing

        now = self._clock()
        decision = decide(record, candidates, now=now)
        if decision.old is None and any_kind:
            for old in candidates:
                if old.kind == record.kind or record.category not in (None, old.category):
                    continue
                again = decide(replace(record, kind=old.kind, layer=old.layer), [old], now=now)
                if again.old is not None:
                    return again
        return decision

    def _apply_supersession(
        self, decision: Decision, pending: _Pending | None = None
    ) -> tuple[Decision, list[Change]]:
        """Return a decision, and the changes of the records that a new one supersedes, whose validity ends now.

        Nothing is archived: superseded records are still found as of then.
        """
        if decision.old is not None:
            return decision, []
        from reverie.domain.similarity import supersession  # here: a search never needs its patterns
        from reverie.domain.similarity.change_words import FUNCTION_WORDS

        record = decision.after
        if not supersession.may_supersede(record.content):
            return decision, []
        kinds = _STATEMENTS if record.kind in _STATEMENTS else (record.kind,)
        allowed = Filter(scopes=(record.scope,), kinds=kinds)
        words = {*analyze(record).terms.split(), *supersession.list_hints(record.content)} - FUNCTION_WORDS
        wanted = CandidateQuery(words=[(word, 1.0) for word in sorted(words)])
        keys = self._index.search_any("record", wanted, allowed, _MOST_SUPERSEDED)
        since = record.valid_from or max(self._clock(), record.created_at)
        known = [old for old in read_or_none(self._store.records, keys) if old is not None]
        if pending is not None:
            known = [*pending.apply_pending(known), *pending.search(wanted, allowed, _MOST_SUPERSEDED)]
        found = [
            old
            for old in known
            if _can_end(old, record, since)
            and supersession.supersedes(
                record.content, old.content, is_same_topic=len({old.category, record.category} - {None}) < 2
            )
        ]
        if not found:
            return decision, []
        metadata = {**record.metadata, SUPERSEDES: " ".join(old.id for old in found)}
        new = replace(record, valid_from=since, metadata=MappingProxyType(metadata))
        ended = []
        for old in found:
            later = MappingProxyType({**old.metadata, SUPERSEDED_BY: new.id})
            updated_at = max(old.updated_at, self._clock())
            after = replace(old, valid_to=since, updated_at=updated_at, metadata=later)
            ended.append(Change(before=old, after=after))
        return replace(decision, after=validate_record(new)), ended

    def _find_similar(self, record: Record, *, any_kind: bool) -> tuple[list[Record], int]:
        """Return live records of the same scope that may say the same, as of a journal row.

        The store finds the same text, and the index texts with many of its words.

        Args:
            record: The new record.
            any_kind: Whether records of other kinds count.
        """
        allowed = Filter(scopes=(record.scope,), kinds=() if any_kind else (record.kind,))
        limit = 2 * _MOST_CANDIDATES if any_kind else _MOST_CANDIDATES
        since = self._store.sequence()  # first, since later changes may be missing in the candidates
        words = list(dict.fromkeys(analyze(record).terms.split()))[:_MAX_COMPARED_WORDS]
        query = CandidateQuery(words=[(word, 1.0) for word in words])
        keys = self._index.search_any("record", query, allowed, limit)
        stored = read_or_none(self._store.records, keys) if keys else []
        alike = [old for old in stored if old is not None]
        same = self._store.record_like(record.scope, record.fingerprint)
        if same is None:
            return alike, since
        return [same, *(old for old in alike if old.kind != record.kind)], since

    def _build_record(self, note: NewRecord) -> Record:
        """Return the note as a redacted, validated record."""
        now = self._clock()
        given = _normalize_fields({name: getattr(note, name) for name in _NOTE_FIELDS})
        draft, ttl, at = given.pop("draft"), given.pop("ttl"), given.pop("created_at") or now
        kind: Kind = infer_kind(given["category"]) if note.kind is None else note.kind
        validate_choice(kind, KINDS, name="kind")
        given |= {"kind": kind, "layer": HOME_LAYERS[kind] if note.layer is None else note.layer}
        if kind == "anti_pattern":
            given["category"] = given["category"] or f"{ANTI_PATTERNS}/{GENERAL}"
            given["tags"] = merge_tags(given["tags"], (ANTI_PATTERN_TAG,))
        if draft:
            given["metadata"] = MappingProxyType({**given["metadata"], ROUGH: "true"})
        if ttl is not None:
            given["expires_at"] = timestamps.add_duration(now, timestamps.parse_duration(ttl))
        record = Record(id=self._writer.new_id(), created_at=at, updated_at=at, last_seen_at=at, **given)
        record = validate_record(redact_value(record, self._redactor))
        return record if DATES in record.metadata else note_dates(record, at, self._zone)

    # -- changing ----------------------------------------------------------------------------------------

    def update(self, id: str, changes: RecordChanges, *, expected: Record | None) -> Record:
        """Change fields of a record (see `Memory.update`)."""
        if unknown := set(changes) - set(RecordChanges.__annotations__):
            raise TypeError(f"update() has no argument {sorted(unknown)!r}")
        wanted = _normalize_fields(changes)

        def change(record: Record) -> Record:
            _require_unchanged(record, expected)
            return detach_changed(record, replace(record, **wanted))

        only_pinned = wanted.keys() == {"pinned"}
        operation: Operation = ("pin" if wanted["pinned"] else "unpin") if only_pinned else "update"
        touch = not only_pinned  # a pin says nothing new
        return self.change([id], change, operation=operation, retry=expected is None, touch=touch)[0]

    def archive(
        self,
        id: str,
        *,
        reason: str = "",
        expected: Record | None = None,
        operation: Operation = "archive",
    ) -> Record:
        """Take a record out of search, keeping it (see `Memory.archive`).

        Args:
            id: The id of the record.
            reason: A person's reason.
            expected: The record as it was read; None to archive it whatever it is by now.
            operation: The operation, for the journal.
        """

        def change(record: Record) -> Record:
            _require_unchanged(record, expected)
            if record.archived:
                return record
            return replace(record, archived_at=self._clock(), archive_reason=reason)

        return self.change([id], change, operation=operation, note=reason, retry=expected is None)[0]

    def restore(self, id: str) -> Record:
        """Bring an archived record back into search (see `Memory.restore`)."""

        def change(record: Record) -> Record:
            if not record.archived:
                return record
            twin = self._store.record_like(record.scope, record.fingerprint)
            if twin is not None:
                raise InvalidInput(
                    f"record {id!r} cannot be restored: the live record {twin.id!r} says the same; "
                    "archive that one first"
                )
            return replace(record, archived_at=None, archive_reason="")

        return self.change([id], change, operation="restore")[0]

    def expire(self) -> int:
        """Archive expired records; return their number."""

        def find_changes() -> Iterator[Change]:
            now = self._clock()
            for record in self._store.find(Filter()):
                if record.expires_at is not None and record.expires_at <= now:
                    after = replace(record, archived_at=now, archive_reason="expired")
                    yield Change(before=record, after=after)

        return self._commit_in_chunks(find_changes, operation="expire")

    def purge(self, *, older_than: timedelta, dry_run: bool = False) -> int:
        """Remove records for good that were archived longer ago than `older_than` (see `Administration.purge`)."""
        limit = self._clock() - older_than

        def find_changes() -> Iterator[Change]:
            for record in self._store.find(Filter(archived=True)):
                if record.archived_at is not None and record.archived_at <= limit and not record.pinned:
                    yield Change(before=record, after=None)

        if dry_run:
            return sum(1 for _ in find_changes())
        return self._commit_in_chunks(find_changes, operation="purge")

    def delete_session(
        self,
        id: str,
        *,
        cursors: Mapping[str, str | None],
        noted: Callable[[Sequence[Turn]], Sequence[Paragraph]],
    ) -> int:
        """Remove a session and its turns for good (see `Memory.delete_session`).

        Args:
            id: The id of the session.
            cursors: Cursors to set in the same transaction.
            noted: Returns the notes of turns, which are removed with them.
        """

        def attempt(_: int) -> int:
            state = self._store.session(id)
            if state is None:
                return 0
            turns = self._store.turns(session=id)
            deleted: list[Turn | Paragraph | SessionState] = [*reversed(turns), *noted(turns), state]
            edits = [Change(before=one, after=None) for one in deleted]
            self._writer.commit(edits, operation="delete", cursors=cursors)
            return len(turns)

        return self._run_with_retries(attempt)

    def change(
        self,
        ids: Sequence[str],
        change: Callable[[Record], Record],
        *,
        operation: Operation,
        note: str = "",
        retry: bool = True,
        touch: bool = False,
    ) -> list[Record]:
        """Change records in one transaction; write nothing where the change makes no difference.

        Args:
            ids: The ids of the records.
            change: Returns the changed record.
            operation: The operation, for the journal.
            note: A person's reason, for the journal.
            retry: Whether to read again after a lost race.
            touch: Whether the change counts as an update, which renews `updated_at`.
        """

        def attempt(_: int = 0) -> list[Record]:
            found = self._store.records(list(dict.fromkeys(ids)))
            if missing := set(ids).difference(record.id for record in found):
                raise NotFound(describe_missing_record(min(missing)))
            after = [self._apply_change(record, change, touch=touch) for record in found]
            edits = [
                Change(before=old, after=new) for old, new in zip(found, after, strict=True) if old != new
            ]
            if edits:
                self._writer.commit(edits, operation=operation, note=note)
            return after

        return self._run_with_retries(attempt) if retry else attempt()

    def archive_many(self, ids: Sequence[str], *, reason: str) -> list[Record]:
        """Take records out of search; see `ScopedMemory.archive_many`."""
        now = self._clock()

        def change(record: Record) -> Record:
            return record if record.archived else replace(record, archived_at=now, archive_reason=reason)

        return self.change(ids, change, operation="archive", note=reason)

    def label(self, ids: Sequence[str], tags: Iterable[str], *, reason: str) -> list[Record]:
        """Add tags to records; see `ScopedMemory.label`."""
        if not (added := tuple(tags)):
            raise InvalidInput("tags is empty: name the tags to add")

        def change(record: Record) -> Record:
            return replace(record, tags=normalize_labels((*record.tags, *added), name="tag"))

        return self.change(ids, change, operation="tag", note=reason, touch=True)

    def vouch(self, ids: Sequence[str], *, reason: str) -> list[Record]:
        """Give records the owner's word; see `ScopedMemory.vouch`."""
        return self.change(
            ids,
            lambda record: replace(record, origin="owner"),
            operation="vouch",
            note=reason,
            touch=True,
        )

    def settle(
        self,
        holds: str,
        other: str,
        verdict: Settlement,
        *,
        content: str | None,
        origin: Origin,
        expected: tuple[Record, Record] | None,
        reason: str,
    ) -> tuple[Record, Record]:
        """Decide which of two records holds; see `ScopedMemory.settle`."""
        validate_choice(verdict, get_args(Settlement), name="verdict")
        if holds == other:
            raise InvalidInput("holds and other are the same record: name two")
        if verdict == "both" and content is not None:
            raise InvalidInput(
                "content is for a conflict that one record settles: leave it out, or the verdict 'both'"
            )
        ids, now = (holds, other), self._clock()

        def change(record: Record) -> Record:
            place = ids.index(record.id)
            _require_unchanged(record, None if expected is None else expected[place])
            if place == 0:
                link = {"ended": SUPERSEDES, "both": COMPATIBLE}.get(verdict)
                after = record if link is None else _add_link(record, link, other)
                if content is None:
                    return after
                speaker = max(origin, record.origin, key=ORIGINS.index)
                return detach_changed(record, replace(after, content=_strip_content(content), origin=speaker))
            if verdict == "ended":
                ended = _add_link(record, SUPERSEDED_BY, holds, alone=True)
                return replace(ended, valid_to=now if record.valid_to is None else min(record.valid_to, now))
            if verdict == "both" or record.archived:
                return record
            return replace(record, archived_at=now, archive_reason=f"wrong: {holds} holds")

        changed = self.change(ids, change, operation="settle", note=reason, touch=True)
        by_id = {record.id: record for record in changed}
        return by_id[holds], by_id[other]

    def _apply_change(self, record: Record, change: Callable[[Record], Record], *, touch: bool) -> Record:
        """Return the changed record, checked; raise `InvalidInput` if another one says the same."""
        after = redact_value(validate_record(change(record)), self._redactor, known=True)
        if after == record:
            return record
        if touch:
            after = replace(after, updated_at=self._clock())
        twin = None if after.archived else self._store.record_like(after.scope, after.fingerprint)
        if twin is not None and twin.id != record.id:
            raise InvalidInput(
                f"record {record.id!r} would say the same as the live record {twin.id!r}: "
                "archive one of them instead"
            )
        return after


def _add_link(record: Record, name: str, id: str, *, alone: bool = False) -> Record:
    known = [] if alone else record.metadata.get(name, "").split()
    text = " ".join(dict.fromkeys((*known, id)))
    return replace(record, metadata=freeze_metadata({**record.metadata, name: text}))


class _Pending:
    """Uncommitted decisions of one chunk, so that later notes see earlier ones."""

    def __init__(self) -> None:
        self._first: dict[str, Record | None] = {}
        self._now: dict[str, Record] = {}
        self._by_cue: dict[str, dict[str, None]] = {}
        self._created: list[Record] = []
        self._words = InvertedIndex()  # of the records that this chunk creates, as far as it was needed

    def find_similar(self, record: Record, cues: Sequence[str]) -> list[Record]:
        """Return records of this chunk that may say the same."""
        ids = {name: None for cue in (record.fingerprint, *cues) for name in self._by_cue.get(cue, ())}
        return [self._now[name] for name in ids]

    def apply_pending(self, records: Iterable[Record]) -> list[Record]:
        """Return stored records with the pending decisions of this chunk applied."""
        return [self._now.get(record.id, record) for record in records]

    def search(self, query: CandidateQuery, allowed: Filter, limit: int) -> list[Record]:
        """Return the records that this chunk creates and that fit a query best, as they are now."""
        for place in range(len(self._words), len(self._created)):
            record = self._created[place]
            words = analyze(record)._replace(cues="", dates="")
            self._words.add(IndexedPassage(place, record, words))
        weights = [TermWeight(among="words", token=word, weight=1) for word, _ in query.words]
        found = self._words.search_weighted(weights, build_predicate("record", allowed), limit)
        return [self._now[self._created[place].id] for place, _ in found]

    def add_decision(self, decision: Decision, cues: Sequence[str]) -> None:
        """Add a decision about a record with these cues."""
        after = decision.after
        self._first.setdefault(after.id, decision.old)
        self._now[after.id] = after
        if decision.old is None:
            self._created.append(after)
        else:
            cues = analyze(after).cues.split()
        for cue in (after.fingerprint, *cues):
            self._by_cue.setdefault(cue, {})[after.id] = None

    def add_ends(self, edits: Iterable[Change]) -> None:
        """Add the ends of superseded records."""
        for edit in edits:
            assert isinstance(edit.before, Record)
            assert isinstance(edit.after, Record)
            self._first.setdefault(edit.id, edit.before)
            self._now[edit.id] = edit.after

    def build_changes(self) -> list[Change]:
        """Return one change for each record concerned."""
        return [Change(before=self._first[name], after=after) for name, after in self._now.items()]


def _is_of_any_kind(note: NewRecord) -> bool:
    """Return whether neither kind nor layer is given."""
    return note.kind is None and note.layer is None


def _require_unchanged(record: Record, expected: Record | None) -> None:
    """Raise `Conflict` if a record is not as it was read; None accepts any."""
    if expected is not None and record != expected:
        raise Conflict(f"record {record.id!r} has changed since you read it: read it again")


def describe_missing_record(id: str) -> str:
    """Return the message for an id that no record has."""
    return f"no record has the id {id!r}: search or list for the right one"


def _can_end(old: Record, new: Record, since: datetime) -> bool:
    """Return whether the new record may end the validity of the old one."""
    return (
        not old.archived
        and not old.pinned
        and not old.is_kept
        and old.valid_to is None
        and (old.valid_from or old.created_at) <= since
        and not (new.origin in UNTRUSTED and old.origin not in UNTRUSTED)
    )


def _to_saved(decision: Decision) -> SaveResult:
    return SaveResult(record=decision.after, outcome="created" if decision.old is None else "reinforced")


def _parse_new_record(note: NewRecord | Mapping[str, Any]) -> NewRecord:
    if isinstance(note, NewRecord):
        return note
    if not isinstance(note, Mapping):
        raise InvalidInput(
            f"a record is {type(note).__name__}: pass a text, a NewRecord or a mapping with 'content'"
        )
    if unknown := set(note).difference(_NOTE_FIELDS):
        raise InvalidInput(
            f"unknown field of a record: {', '.join(sorted(map(quote_value, unknown)))}; use {sorted(_NOTE_FIELDS)!r}"
        )
    if "content" not in note:
        raise InvalidInput("a record has no content: pass 'content'")
    return NewRecord(**note)


def _strip_content(content: str) -> str:
    """Return the content without the white space around it; anything else is left to validation."""
    return content.strip() if isinstance(content, str) else content


def _to_utc(moment: datetime | None, name: str) -> datetime | None:
    return None if moment is None else timestamps.to_utc(moment, name=name)


def _normalize_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields that a caller passed as a record has them; raise `InvalidInput` for what cannot be converted."""
    return {name: _CONVERTERS[name](value) if name in _CONVERTERS else value for name, value in given.items()}


_NOTE_FIELDS = tuple(f.name for f in fields(NewRecord))
_CONVERTERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "content": _strip_content,
        "category": lambda value: None if value is None else validate_category(value),
        "tags": lambda values: normalize_labels(values, name="tag"),
        "references": lambda values: normalize_labels(values, name="reference", longest=2_000),
        "metadata": freeze_metadata,
        **{
            name: partial(_to_utc, name=name)
            for name in ("created_at", "valid_from", "valid_to", "expires_at")
        },
    }
)
