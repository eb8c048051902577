"""Records: saving without duplicates, changing, archiving, purging.

Every change is one transaction with its journal row. After a lost race the decision is made again, so two
processes that save the same fact leave one record, seen twice.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Literal, TypedDict, get_args

from reverie.domain.category import ANTI_PATTERNS, GENERAL, is_within_category, validate_category
from reverie.domain.change import Change, Operation
from reverie.domain.errors import Conflict, InvalidInput, NotFound, TextExists, quote_value
from reverie.domain.filter import Filter
from reverie.domain.headlines import detach_changed
from reverie.domain.intake import classify, describe_intake, reread
from reverie.domain.lazy_dataclass import dataclass, field, fields, replace
from reverie.domain.record import (
    HOME_LAYERS,
    KINDS,
    NOTHING,
    ORIGINS,
    STANDING,
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
from reverie.domain.secrets.redactor import describe_redaction
from reverie.domain.text import timestamps
from reverie.domain.text.json_values import to_json_object
from reverie.domain.text.same_text import strip_label
from reverie.stores.redacting import redact_value
from reverie.stores.writer import StoreWriter, WritingRepository

ANTI_PATTERN_TAG = "anti-pattern"
Settlement = Literal["ended", "wrong", "both"]
"""Decision about the other of two records: it held until now, never did, or holds too."""

COMPATIBLE = "compatible_with"
"""Metadata of a record that holds beside others: their ids."""

_CHUNK = 1_000

Outcome = Literal["created", "reinforced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """A record to save, as `Memory.save` takes it.

    Attributes:
        content: The text to remember, 1 to 100,000 characters.
        category: A slash path such as `user-preferences/style`.
        kind: A kind such as `fact` or `decision`; None takes the kind that the category names, such as `decisions`,
            or that the content reads like (see `reverie.domain.intake`).
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
        keep_secret: Whether to store secrets in the content; only for the owner's text.
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
    keep_secret: bool = False


class _CommonFields(TypedDict, total=False):
    category: str | None
    tags: Iterable[str]
    confidence: float
    importance: float
    source: str
    references: Iterable[str]
    origin: Origin
    pinned: bool
    valid_from: datetime | None
    valid_to: datetime | None
    metadata: Mapping[str, str]
    keep_secret: bool


class RecordFields(_CommonFields, total=False):
    """Fields of a `NewRecord` beside its content and scope, as keyword arguments."""

    kind: Kind | None
    layer: Layer | None
    ttl: str | float | timedelta | None
    created_at: datetime | None
    draft: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveResult:
    """Result of a save.

    Attributes:
        record: The record as it is now.
        outcome: `created`, or `reinforced` if it was known already.
        notice: The secrets that were redacted, and how to keep them; empty if there were none.
        reason: Why the record is of its kind, for people.
    """

    record: Record
    outcome: Outcome
    notice: str = ""
    reason: str = ""

    @property
    def kind(self) -> Kind:
        """The kind of the record."""
        return self.record.kind

    @property
    def about(self) -> Literal["owner", "other"]:
        """Whom the record is about: the owner, or somebody or something else."""
        return "owner" if self.record.about or self.record.kind in STANDING else "other"

    @property
    def until(self) -> datetime | None:
        """End of the last day on which the record matters, if its content names one."""
        return self.record.until

    @property
    def permission(self) -> bool:
        """Whether the owner is asked before anything is done because of the record."""
        return self.record.permission

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        names = ("record", "outcome", "notice", "kind", "about", "until", "permission", "reason")
        return to_json_object(self, *names)


class RecordChanges(_CommonFields, total=False):
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
        keep_secret: Whether to store secrets in the content; only for the owner's text.
        metadata: Its metadata, in place of the old.
    """

    content: str
    kind: Kind
    layer: Layer
    expires_at: datetime | None


class RecordRepository(WritingRepository):
    """Repository that changes records. Safe to use from several threads, and beside other processes."""

    def __init__(self, writer: StoreWriter, *, zone: tzinfo = UTC, keep_secrets: Sequence[str] = ()) -> None:
        """Create a repository.

        Args:
            writer: Commits the changes.
            zone: The owner's time zone, for dates such as "yesterday".
            keep_secrets: Categories in which secrets in the owner's text are stored.
        """
        super().__init__(writer)
        self._clock = writer.clock
        self._zone = zone
        self._keep_secrets = keep_secrets

    def acting(self, actor: str) -> RecordRepository:
        """Return the same repository with another actor."""
        other = copy.copy(self)
        other._writer = self._writer.acting(actor)
        return other

    # -- saving ------------------------------------------------------------------------------------------

    def save(self, note: NewRecord, *, promoted_from: str = "") -> SaveResult:
        """Save one record; a repetition reinforces the record that is there (see `Memory.save`).

        Args:
            note: The record.
            promoted_from: Id of the record in a narrower scope that it is a copy of.
        """
        return self.save_many([note], promoted_from=promoted_from)[0]

    def save_many(
        self,
        notes: Iterable[NewRecord],
        *,
        promoted_from: str = "",
        progress: Callable[[int], None] = lambda number: None,
    ) -> list[SaveResult]:
        """Save many records, a thousand in a transaction (see `Memory.save_many`)."""
        parsed = list(notes)
        built = map(self._build_record, parsed)  # all are checked before any is written
        records = [
            (replace(record, promoted_from=promoted_from) if promoted_from else record, reason)
            for record, reason in built
        ]
        saved: list[SaveResult] = []
        for start in range(0, len(records), _CHUNK):
            chunk = records[start : start + _CHUNK]
            saved += self._run_with_retries(partial(self._save_chunk, chunk, promoted_from))
            progress(len(chunk))
        return [
            replace(result, notice=notice) if (notice := _describe_redaction(note, record)) else result
            for result, note, (record, _) in zip(saved, parsed, records, strict=True)
        ]

    def planned(self, notes: Iterable[NewRecord]) -> list[Change]:
        """Return the changes that saving these would make now; nothing is written.

        Raises:
            InvalidInput: one of them is not of its form.
        """
        return self._decide_chunk([*map(self._build_record, notes)], finds_known=True)[0]

    def _save_chunk(
        self, chunk: Sequence[tuple[Record, str]], promoted_from: str, _: int
    ) -> list[SaveResult]:
        def commit(*, finds_known: bool) -> list[SaveResult]:
            changes, saved = self._decide_chunk(chunk, finds_known=finds_known)
            is_known = all(change.before is not None for change in changes)
            operation: Operation = "promote" if promoted_from else "reinforce" if is_known else "save"
            self._writer.commit(changes, operation=operation, reference=promoted_from)
            return saved

        try:
            return commit(finds_known=False)
        except TextExists:  # few texts are: a search before each insertion would cost more
            return commit(finds_known=True)

    def _decide_chunk(
        self, chunk: Sequence[tuple[Record, str]], *, finds_known: bool
    ) -> tuple[list[Change], list[SaveResult]]:
        """Return one change for each record concerned, and the result for each record of the chunk.

        Args:
            chunk: The records, with the reasons for their kinds.
            finds_known: Whether live records with the same texts are looked for.
        """
        from reverie.domain.similarity.deduplication import reinforce_record  # here: a search saves nothing

        marks = [(record.scope, record.fingerprint) for record, _ in chunk]
        stored = self._store.records_like(list(dict.fromkeys(marks))) if finds_known else []
        before = {(record.scope, record.fingerprint): record for record in stored}
        latest, saved = dict(before), []
        for mark, (record, reason) in zip(marks, chunk, strict=True):
            old = latest.get(mark)
            outcome: Outcome = "created"
            if old is not None:
                record, outcome = reinforce_record(old, record, now=self._clock()), "reinforced"
                reason = f"it was known as {old.kind}" if record.kind == old.kind else reason
            latest[mark] = record
            saved.append(SaveResult(record=record, outcome=outcome, reason=reason))
        return [Change(before=before.get(mark), after=latest[mark]) for mark in dict.fromkeys(marks)], saved

    def _build_record(self, note: NewRecord) -> tuple[Record, str]:
        """Return the note as a redacted, validated record, and the reason for its kind."""
        now = self._clock()
        # A field with its default has the same one in the record.
        fields_given = zip(NOTE_FIELDS, _get_fields(note), _DEFAULTS, strict=True)
        given = _normalize_fields({name: value for name, value, usual in fields_given if value is not usual})
        ttl, at = given.pop("ttl", None), given.pop("created_at", None) or now
        named = infer_kind(given.get("category")) if note.kind is None else note.kind
        if named is not None:
            validate_choice(named, KINDS, name="kind")
        validate_choice(note.origin, ORIGINS, name="origin")
        timestamps.to_utc(at, name="created_at")
        intake = classify(
            given["content"] if isinstance(given["content"], str) else "",
            origin=note.origin,
            at=at,
            zone=self._zone,
            kind=named,
            named_by="the caller" if note.kind else "the category",
        )
        kind = intake.kind or "fact"
        given |= {"kind": kind, "layer": HOME_LAYERS[kind] if note.layer is None else note.layer}
        given |= describe_intake(intake)
        if kind == "anti_pattern":
            given["category"] = given.get("category") or f"{ANTI_PATTERNS}/{GENERAL}"
            given["tags"] = merge_tags(given.get("tags", ()), (ANTI_PATTERN_TAG,))
        if ttl is not None:
            given["expires_at"] = timestamps.add_duration(now, timestamps.parse_duration(ttl))
        record = Record(id=self._writer.new_id(), created_at=at, updated_at=at, last_seen_at=at, **given)
        record = validate_record(redact_value(self._mark_kept(record), self._redactor))
        return note_dates(record, at, self._zone), intake.reason

    def _mark_kept(self, record: Record) -> Record:
        """Return the record with `keep_secret` set if its category is one in which the owner's secrets are stored."""
        if record.origin != "owner":
            if record.keep_secret:
                raise InvalidInput(
                    f"keep_secret is for text of the owner, and the origin is {record.origin!r}: leave it out"
                )
            return record
        is_kept = any(is_within_category(record.category, each) for each in self._keep_secrets)
        return replace(record, keep_secret=True) if is_kept else record

    # -- changing ----------------------------------------------------------------------------------------

    def update(self, id: str, changes: RecordChanges, *, expected: Record | None) -> Record:
        """Change fields of a record (see `Memory.update`)."""
        if unknown := set(changes) - set(RecordChanges.__annotations__):
            raise TypeError(f"update() has no argument {sorted(unknown)!r}")
        wanted = _normalize_fields(changes)

        def change(record: Record) -> Record:
            _require_unchanged(record, expected)
            after = reread(validate_record(replace(record, **wanted)), record.content, zone=self._zone)
            if after.origin != "owner" and "keep_secret" not in wanted:
                after = replace(after, keep_secret=False)
            return detach_changed(record, self._mark_kept(after))

        only_pinned = wanted.keys() == {"pinned"}
        operation: Operation = ("pin" if wanted["pinned"] else "unpin") if only_pinned else "update"
        touch = not only_pinned  # a pin says nothing new
        return self.change([id], change, operation=operation, retry=expected is None, touch=touch)[0]

    def archive(
        self,
        ids: Sequence[str],
        *,
        reason: str = "",
        expected: Record | None = None,
        operation: Operation = "archive",
    ) -> list[Record]:
        """Take records out of search, keeping them (see `Memory.archive`).

        Args:
            ids: The ids of the records.
            reason: A person's reason.
            expected: The one record as it was read; None to archive it whatever it is by now.
            operation: The operation, for the journal.
        """
        now = self._clock()

        def change(record: Record) -> Record:
            _require_unchanged(record, expected)
            return record if record.archived else replace(record, archived_at=now, archive_reason=reason)

        return self.change(ids, change, operation=operation, note=reason, retry=expected is None)

    def restore(self, id: str) -> Record:
        """Bring an archived record back into search (see `Memory.restore`)."""
        restore = partial(replace, archived_at=None, archive_reason="")
        return self.change([id], restore, operation="restore")[0]

    def expire(self) -> int:
        """Archive expired records, and end those that mattered until an earlier day; return their number.

        An end that was undone is not made again.
        """

        def find_changes() -> Iterator[Change]:
            now = self._clock()
            for record in self._store.find(Filter()):
                if record.expires_at is not None and record.expires_at <= now:
                    after = replace(record, archived_at=now, archive_reason="expired")
                    yield Change(before=record, after=after)
                elif record.valid_to is None and record.until is not None and record.until <= now:
                    last = self._store.journal(id=record.id, limit=1, newest_first=True)
                    if not record.pinned and not (last and last[0].operation == "undo"):
                        yield Change(before=record, after=replace(record, valid_to=record.until))

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

    def settle(
        self,
        holds: str,
        other: str,
        verdict: Settlement,
        *,
        expected: tuple[Record, Record] | None,
        reason: str,
    ) -> tuple[Record, Record]:
        """Decide which of two records holds; see `ScopedMemory.settle`."""
        validate_choice(verdict, get_args(Settlement), name="verdict")
        if holds == other:
            raise InvalidInput("holds and other are the same record: name two")
        ids, now = (holds, other), self._clock()

        def change(record: Record) -> Record:
            _require_unchanged(record, None if expected is None else expected[ids.index(record.id)])
            if record.id == holds:
                if verdict == "ended":
                    return replace(record, replaces=tuple(dict.fromkeys((*record.replaces, other))))
                if verdict == "both":
                    links = dict.fromkeys((*record.metadata.get(COMPATIBLE, "").split(), other))
                    metadata = {**record.metadata, COMPATIBLE: " ".join(links)}
                    return replace(record, metadata=freeze_metadata(metadata))
            elif verdict == "ended":
                return replace(record, replaced_by=holds, valid_to=min(record.valid_to or now, now))
            elif verdict == "wrong" and not record.archived:
                return replace(record, archived_at=now, archive_reason=f"wrong: {holds} holds")
            return record

        changed = self.change(ids, change, operation="settle", note=reason, touch=True)
        first, second = sorted(changed, key=lambda record: ids.index(record.id))
        return first, second

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


def _require_unchanged(record: Record, expected: Record | None) -> None:
    """Raise `Conflict` if a record is not as it was read; None accepts any."""
    if expected is not None and record != expected:
        raise Conflict(f"record {record.id!r} has changed since you read it: read it again")


def describe_missing_record(id: str) -> str:
    """Return the message for an id that no record has."""
    return f"no record has the id {id!r}: search or list for the right one"


def _describe_redaction(note: NewRecord, record: Record) -> str:
    """Return which secrets of a note were redacted, and how its owner keeps them; empty for none."""
    redacted = describe_redaction(note.content, record.content)
    if not redacted or note.origin != "owner":
        return redacted
    return f"{redacted} To keep it, save it with `keep_secret`, or list its category in `keep_secrets`."


def parse_new_record(note: str | NewRecord | Mapping[str, Any]) -> NewRecord:
    """Return a text, a mapping or a `NewRecord` as a `NewRecord`; raise `InvalidInput` for anything else."""
    if isinstance(note, NewRecord):
        return note
    if isinstance(note, str):
        return NewRecord(content=note)
    if not isinstance(note, Mapping):
        raise InvalidInput(
            f"a record is {type(note).__name__}: pass a text, a NewRecord or a mapping with 'content'"
        )
    if unknown := set(note).difference(NOTE_FIELDS):
        raise InvalidInput(
            f"unknown field of a record: {', '.join(sorted(map(quote_value, unknown)))}; use {sorted(NOTE_FIELDS)!r}"
        )
    if "content" not in note:
        raise InvalidInput("a record has no content: pass 'content'")
    return NewRecord(**note)


def _to_utc(moment: datetime | None, name: str) -> datetime | None:
    return None if moment is None else timestamps.to_utc(moment, name=name)


def _normalize_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields that a caller passed as a record has them; raise `InvalidInput` for what cannot be converted."""
    return {name: _CONVERTERS[name](value) if name in _CONVERTERS else value for name, value in given.items()}


NOTE_FIELDS = tuple(f.name for f in fields(NewRecord))
_DEFAULTS = tuple(NOTHING if f.name == "metadata" else f.default for f in fields(NewRecord))
_get_fields = attrgetter(*NOTE_FIELDS)
_CONVERTERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "content": strip_label,
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
