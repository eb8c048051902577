"""Checks that every proposed change goes through.

A model or a rule proposes; nothing gets into a plan but through `PlanBuilder`. A rejected proposal is noted,
and its records are protected from everything else that is proposed in the same cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from types import MappingProxyType

from reverie.consolidation.plan import Plan, PlanStep, Rejection
from reverie.consolidation.planning.inputs import PassInput
from reverie.domain.category import validate_category
from reverie.domain.change import Change
from reverie.domain.errors import InvalidInput
from reverie.domain.record import DATES, ORIGINS, UNTRUSTED, Record, normalize_labels, validate_record
from reverie.domain.similarity.attribution import find_misattribution, find_unsupported
from reverie.domain.similarity.specifics import extract_specifics
from reverie.llm.messages import TokenUsage

ARCHIVED_SHARE = 0.02
"""At most this share of the live records is archived in a cycle. For folds and merges, which keep what their
sources say, it is always two, since a merge needs that many; for what a model calls noise it is strict."""

IMPORTANT = 0.8
"""Records of this importance, and more, are not archived by a model's word."""

OFTEN_SEEN = 5
"""Records seen so often, and more, are not archived by a model's word."""

DEEPEST = 2
"""A merge may be made of merges once; then only of originals."""

LONGEST_MERGED = 800
"""Characters of a merged record, as many as a prompt shows of one; a longer source may be repeated whole."""

_SLACK = 20  # characters of each source for the words that join it to the others

MOST_TAGS = 20
"""Labels that a record may come to have by a model's word; a person may give it more."""

MERGED_FROM = "merged_from"
MERGE_DEPTH = "merge_depth"


class PlanBuilder:
    """Builder of one plan. Not safe for several threads."""

    def __init__(self, view: PassInput, *, name: str) -> None:
        """Begin the plan of a pass.

        Args:
            view: What there is.
            name: The pass.
        """
        self._view = view
        self._name = name
        self._live = {record.id: record for record in view.records if not record.archived}
        self._steps: list[PlanStep] = []
        self._refused: list[Rejection] = []
        self._notes: list[str] = []
        self._protected: set[str] = set()
        self._touched: set[str] = set()
        self._archived = self._dropped = 0
        self._most = max(2, int(len(self._live) * ARCHIVED_SHARE))
        self._usage = TokenUsage()
        self._failed = ""
        self._added: dict[tuple[str, str], str] = {}

    # -- what is there now -------------------------------------------------------------------------------

    @property
    def live(self) -> list[Record]:
        """Live records as the plan would leave them, without those that it touches."""
        return [record for record in self._live.values() if record.id not in self._touched]

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        """Changes that were accepted so far."""
        return tuple(self._steps)

    @property
    def room(self) -> int:
        """How many more records may be archived in this cycle."""
        return self._most - self._archived

    def note(self, text: str) -> None:
        """Add a note for a person."""
        self._notes.append(text)

    def fail(self, why: str) -> None:
        """Note that the pass could not be completed; the first reason is kept."""
        self._failed = self._failed or why

    def spend(self, usage: TokenUsage) -> None:
        """Add the cost of a request."""
        self._usage += usage

    # -- proposals ---------------------------------------------------------------------------------------

    def fold(self, duplicates: Sequence[Record], *, into: Record, after: Record) -> bool:
        """Archive records that say the same as another by form.

        Args:
            duplicates: The records that go.
            into: The record that stays, as it is.
            after: The record that stays, as it shall be.
        """
        names = [record.id for record in duplicates]
        what = f"fold {', '.join(names)} into {into.id}"
        if reason := self._explain_unavailable((into.id, *names)) or self._explain_no_room(len(names)):
            return self._refuse(what, reason)
        if pinned := next((record.id for record in duplicates if record.pinned), None):
            return self._refuse(what, f"{pinned} is pinned")
        self._take(
            Change(before=into, after=validate_record(after)),
            f"says the same as {', '.join(names)}",
            tuple(names),
        )
        for record in duplicates:
            self._archive(record, f"merged into {into.id}")
        return True

    def merge(
        self,
        sources: Sequence[str],
        content: str,
        *,
        category: str | None = None,
        tags: Iterable[str] = (),
        why: str = "",
    ) -> bool:
        """Replace several records by one, where a model says that they mean the same.

        Taken only if each source is known, live, unprotected and of one scope, if nothing specific of any
        source is missing in `content` and nothing specific in it is new, and if there is room for all of
        them. All sources then go, whatever the model says of them otherwise.

        Args:
            sources: The ids of two records or more.
            content: What the new record shall say.
            category: Its category; None takes that of the first source.
            tags: More labels for it.
            why: The model's reason.
        """
        names = list(dict.fromkeys(sources))
        what = f"merge {', '.join(names)}"
        reason = (
            ("a merge needs two records or more" if len(names) < 2 else "")
            or self._explain_unavailable(names)
            or self._explain_unremovable(names)
            or self._explain_no_room(len(names))
        )
        if reason:
            return self._refuse(what, reason, protects=names)
        records = [self._live[name] for name in names]
        try:
            merged = self._merge_records(records, content, category, tags)
        except InvalidInput as error:
            return self._refuse(what, str(error), protects=names)
        problem = (
            _explain_mismatch(records) or _explain_growth(records, merged) or _explain_losses(records, merged)
        )
        if reason := problem or self._explain_twin(merged, names):
            return self._refuse(what, reason, protects=names)
        twin = next((old for old in records if old.fingerprint == merged.fingerprint), None)
        kept = merged if twin is None else replace(merged, id=twin.id, content=twin.content)
        self._take(Change(before=twin, after=kept), why or "says what its sources say", tuple(names))
        for record in records:
            if record is not twin:
                self._archive(record, f"merged into {kept.id}")
        return True

    def archive(self, id: str, *, why: str) -> bool:
        """Archive a record that a model calls noise.

        Args:
            id: Which record.
            why: The model's reason.
        """
        reason = (
            self._explain_unavailable([id]) or self._explain_unremovable([id]) or self._explain_no_room(1)
        )
        if not reason and self._dropped >= int(len(self._live) * ARCHIVED_SHARE):
            reason = f"this cycle may drop no more of {len(self._live)} records"
        if reason:
            return self._refuse(f"archive {id}", reason)
        self._dropped += 1
        self._archive(self._live[id], why or "noise")
        return True

    def refile(
        self, id: str, *, category: str | None = None, tags: Iterable[str] | None = None, why: str = ""
    ) -> bool:
        """Change the category or the labels of a record.

        Args:
            id: Which record.
            category: Its new category; None leaves it.
            tags: Its new labels; None leaves them. None of the old ones is taken away.
            why: The reason.
        """
        what = f"refile {id}"
        if reason := self._explain_unavailable([id]):
            return self._refuse(what, reason)
        record = self._live[id]
        if record.pinned:
            return self._refuse(what, "it is pinned")
        try:
            after = replace(
                record,
                category=record.category if category is None else validate_category(category),
                tags=record.tags if tags is None else normalize_labels((*record.tags, *tags), name="tag"),
            )
        except InvalidInput as error:
            return self._refuse(what, str(error))
        if len(after.tags) > max(MOST_TAGS, len(record.tags)):
            return self._refuse(what, f"it would have {len(after.tags)} tags, more than {MOST_TAGS}")
        if after == record:
            return False
        after = validate_record(replace(after, updated_at=self._compute_update_time(record)))
        self._take(Change(before=record, after=after), why or "belongs there", (id,))
        return True

    def add(self, record: Record, *, sources: Sequence[str], why: str) -> bool:
        """Add a new record.

        Args:
            record: The record, with a fresh id.
            sources: Ids of the records and turns it was made from.
            why: The reason.
        """
        what = f"add a {record.kind}"
        try:
            validate_record(record)
        except InvalidInput as error:
            return self._refuse(what, str(error))
        if known := self._find_twin(record):
            return self._refuse(what, f"the live record {known} says it already")
        self._take(Change(before=None, after=record), why, tuple(sources))
        return True

    def change(self, record: Record, after: Record, *, why: str, sources: Sequence[str] = ()) -> bool:
        """Change a record by a rule, such as a promotion.

        Args:
            record: The record as it is.
            after: The record as it shall be.
            why: The rule.
            sources: Ids of what the rule looked at.
        """
        if reason := self._explain_unavailable([record.id]):
            return self._refuse(f"change {record.id}", reason)
        self._take(Change(before=record, after=validate_record(after)), why, tuple(sources) or (record.id,))
        return True

    def refuse(self, what: str, why: str, *, protects: Sequence[str] = ()) -> None:
        """Note a proposal that the pass itself rejects, and protect its records."""
        self._refuse(what, why, protects=protects)

    def plan(self, *, skipped: str = "", cursors: Mapping[str, str | None] | None = None) -> Plan:
        """Return the plan as it stands.

        Args:
            skipped: Why there was nothing to do, if there was not.
            cursors: What to set along with it.
        """
        return Plan(
            id=self._view.new_id(),
            name=self._name,
            made_at=self._view.now,
            steps=tuple(self._steps),
            refused=tuple(self._refused),
            notes=tuple(self._notes),
            skipped="" if self._steps or self._failed else skipped,
            failed=self._failed,
            cursors=MappingProxyType(dict(cursors or {})),
            usage=self._usage,
        )

    # -- checks ------------------------------------------------------------------------------------------

    def _explain_unavailable(self, names: Iterable[str]) -> str:
        for name in names:
            if name not in self._live:
                return f"there is no live record {name!r}"
            if name in self._protected:
                return f"{name} is protected, because something else proposed for it was refused"
            if name in self._touched:
                return f"{name} is changed by this plan already"
        return ""

    def _explain_unremovable(self, names: Iterable[str]) -> str:
        for name in names:
            record = self._live[name]
            if record.pinned:
                return f"{name} is pinned"
            if record.importance >= IMPORTANT:
                return f"{name} is important ({record.importance:.2f})"
            if record.seen_count >= OFTEN_SEEN:
                return f"{name} was said {record.seen_count} times"
        return ""

    def _explain_no_room(self, count: int) -> str:
        if count <= self.room:
            return ""
        text = f"this cycle may archive {self._most} of {len(self._live)} records; {self.room} are left"
        if text not in self._notes:
            self._notes.append(text)
        return text

    def _find_twin(self, record: Record) -> str | None:
        """Return the id of the live record with the same text, after what was accepted so far."""
        said = (record.scope, record.fingerprint)
        return self._added.get(said) or self._said.get(said)

    @cached_property
    def _said(self) -> dict[tuple[str, str], str]:
        return {(record.scope, record.fingerprint): record.id for record in self._live.values()}

    def _explain_twin(self, merged: Record, sources: Sequence[str]) -> str:
        known = self._find_twin(merged)
        return "" if known is None or known in sources else f"the live record {known} says it already"

    def _merge_records(
        self, records: Sequence[Record], content: str, category: str | None, tags: Iterable[str]
    ) -> Record:
        """Return the merged record. Its trust is that of the least trusted source."""
        first = min(records, key=lambda record: record.created_at)
        leading = max(records, key=lambda record: (record.confidence, record.seen_count))
        metadata: dict[str, str] = {}
        for record in records:
            metadata.update(record.metadata)
        depth = 1 + max(_get_merge_depth(record) for record in records)
        if depth > DEEPEST:
            raise InvalidInput(f"it would be a merge of merges of merges; at most {DEEPEST} deep are made")
        said = [part for record in records for part in record.metadata.get(DATES, "").split("; ") if part]
        metadata |= {DATES: "; ".join(dict.fromkeys(said))} if said else {}
        metadata |= {MERGED_FROM: " ".join(record.id for record in records), MERGE_DEPTH: str(depth)}
        return validate_record(
            Record(
                id=self._view.new_id(),
                content=content,
                category=leading.category if category is None else validate_category(category),
                kind=leading.kind,
                layer=leading.layer,
                tags=_validate_labels((*(tag for record in records for tag in record.tags), *tags), "tag"),
                confidence=max(record.confidence for record in records),
                importance=max(record.importance for record in records),
                source=leading.source,
                references=_validate_labels(
                    (ref for record in records for ref in record.references), "reference"
                ),
                origin=max((record.origin for record in records), key=ORIGINS.index),
                scope=first.scope,
                created_at=first.created_at,
                updated_at=max(self._compute_update_time(record) for record in records),
                last_seen_at=max(record.last_seen_at for record in records),
                seen_count=sum(record.seen_count for record in records),
                valid_from=first.valid_from,
                valid_to=first.valid_to,
                expires_at=_get_latest_moment(record.expires_at for record in records),
                metadata=MappingProxyType(metadata),
            )
        )

    # -- taking ------------------------------------------------------------------------------------------

    def _archive(self, record: Record, reason: str) -> None:
        self._archived += 1
        after = replace(record, archived_at=max(self._view.now, record.created_at), archive_reason=reason)
        self._take(Change(before=record, after=after), reason, (record.id,))

    def _take(self, edit: Change, why: str, sources: tuple[str, ...]) -> None:
        self._steps.append(PlanStep(edit=edit, why=why, sources=sources))
        self._touched.add(edit.id)
        after = edit.after
        if isinstance(after, Record) and not after.archived:
            self._added[(after.scope, after.fingerprint)] = after.id

    def _refuse(self, what: str, why: str, *, protects: Sequence[str] = ()) -> bool:
        known = tuple(name for name in protects if name in self._live)
        self._protected.update(known)
        self._refused.append(Rejection(what=what, why=why, protects=known))
        return False

    def _compute_update_time(self, record: Record) -> datetime:
        return max(self._view.now, record.updated_at)


def _explain_mismatch(records: Sequence[Record]) -> str:
    """Return why these records cannot be merged, whatever they say; empty when they can."""
    first = records[0]
    for record in records[1:]:
        if record.scope != first.scope:
            return f"{first.id} and {record.id} are of different scopes"
        if (record.origin in UNTRUSTED) != (first.origin in UNTRUSTED):
            return f"one of {first.id} and {record.id} is not trusted, and the other is"
        if (record.valid_from, record.valid_to) != (first.valid_from, first.valid_to):
            return f"{first.id} and {record.id} hold at different times"
        ours = {MERGED_FROM, MERGE_DEPTH, DATES}
        for key in (set(first.metadata) & set(record.metadata)) - ours:
            if first.metadata[key] != record.metadata[key]:
                return f"{first.id} and {record.id} differ in the metadata {key!r}"
    return ""


def _explain_growth(records: Sequence[Record], merged: Record) -> str:
    """Return why the record is too long; empty when it is not."""
    length = len(merged.content)
    if length > sum(len(record.content) + _SLACK for record in records):
        return f"it would be longer than its sources together: {length:,} characters"
    if length > max(LONGEST_MERGED, *(len(record.content) for record in records)):
        return f"it would be longer than a prompt shows: {length:,} characters"
    return ""


def _explain_losses(records: Sequence[Record], merged: Record) -> str:
    """Return what would be lost, invented or said of something else; empty when nothing would."""
    said = extract_specifics(merged.content)
    for record in records:
        found = extract_specifics(record.content)
        if missing := found.find_missing_from(said) | found.find_unaffirmed_in(said):
            return f"it would lose what {record.id} says: {', '.join(sorted(missing))}"
    sources = [record.content for record in records]
    return find_unsupported(sources, merged.content) or find_misattribution(sources, merged.content)


def _get_merge_depth(record: Record) -> int:
    text = record.metadata.get(MERGE_DEPTH, "0")
    return int(text) if text.isdecimal() else 0


def _validate_labels(values: Iterable[str], name: str) -> tuple[str, ...]:
    """Return the labels without repetitions. Raise `InvalidInput` where a record may not have so many."""
    return normalize_labels(values, name=name, longest=2_000 if name == "reference" else 200)


def _get_latest_moment(moments: Iterable[datetime | None]) -> datetime | None:
    found = list(moments)
    known = [moment for moment in found if moment is not None]
    return max(known) if len(known) == len(found) else None
