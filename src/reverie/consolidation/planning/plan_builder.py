"""Builder of plans, with the checks that every proposed change has to pass.

A model or a rule proposes; nothing gets into a plan but through `PlanBuilder`. A rejected proposal is noted,
and its records are protected from everything else that is proposed in the same cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType

from reverie.consolidation.plan import Plan, PlanStep, Rejection
from reverie.consolidation.planning.inputs import PassInput
from reverie.domain.category import validate_category
from reverie.domain.change import Change
from reverie.domain.errors import InvalidInput
from reverie.domain.headlines import build_headline, compute_parts_version, explain_mismatch
from reverie.domain.record import Record, normalize_labels, validate_record
from reverie.domain.similarity.grounding import find_injection, find_new_specifics
from reverie.llm.protocol import TokenUsage

ARCHIVED_SHARE = 0.02
"""Maximum share of the live records that one dream archives or ends by a model's word, beyond `MIN_ARCHIVED`."""

MIN_ARCHIVED = 3
"""Number of records that may leave a memory in one dream however small it is."""

DROPPED_SHARE = 0.05
"""Maximum share of the live records that is archived as noise in thirty days."""

IMPORTANT = 0.8
"""Least importance of records that no model's word archives."""

CONFIRMED = 2
"""Least number of times that a record was said, for which no model's word archives it."""

MOST_PARTS = 30
"""Maximum number of records under one headline."""

LONGEST_HEADLINE = 800
"""Maximum length of a headline in characters: as much as a prompt shows of a record."""

_SLACK = 20  # characters of each record for the words that join it to the others

MOST_TAGS = 20
"""Labels that a record may come to have by a model's word; a person may give it more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineProposal:
    """Headline that a model proposes.

    Attributes:
        parts: Ids of its records.
        content: What it says.
        category: Its category; None takes that of the surest record.
        tags: Labels for it.
        why: The model's reason.
        replacing: Earlier headlines over some of the records.
        left_out: Ids of the records that it does not tell of.
    """

    parts: tuple[str, ...]
    content: str
    category: str | None = None
    tags: tuple[str, ...] = ()
    why: str = ""
    replacing: tuple[Record, ...] = ()
    left_out: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return the proposal in a few words."""
        return f"a headline over {', '.join(self.parts)}"


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
        self._proposals: list[PlanStep] = []
        self._refused: list[Rejection] = []
        self._notes: list[str] = []
        # A model sees a kept secret redacted, so it may not reword or merge its record.
        self._protected: set[str] = {name for name, each in self._live.items() if each.keep_secret}
        self._touched: set[str] = set()
        self._summed_up: set[str] = set()
        self._archived = 0
        self.dropped = 0
        """Number of records that are archived as noise."""
        self._most = max(MIN_ARCHIVED, int(len(self._live) * ARCHIVED_SHARE))
        in_month = max(MIN_ARCHIVED, int(len(self._live) * DROPPED_SHARE)) - sum(view.dropped.values())
        self._most_dropped = min(self._most, in_month)
        self._usage = TokenUsage()
        self._failed = ""
        self._said = {(record.scope, record.fingerprint): record.id for record in self._live.values()}

    # -- the state of the plan ---------------------------------------------------------------------------

    @property
    def live(self) -> list[Record]:
        """Live records as the plan would leave them, without those that it touches."""
        return [record for record in self._live.values() if record.id not in self._touched]

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        """Changes that were accepted so far."""
        return tuple(self._steps)

    def note(self, text: str) -> None:
        """Add a note for a person, once."""
        if text not in self._notes:
            self._notes.append(text)

    def fail(self, why: str) -> None:
        """Note that the pass could not be completed; the first reason is kept."""
        self._failed = self._failed or why

    def spend(self, usage: TokenUsage) -> None:
        """Add the cost of a request."""
        self._usage += usage

    # -- proposals ---------------------------------------------------------------------------------------

    def explain_headline(self, parts: Sequence[str], content: str) -> str:
        """Return why no headline over these records may say this; empty when it may.

        It may if each record is known, live, unprotected and of one scope and trust, if all of them hold at the
        same time, and if no number, date, path, name or order to the assistant in it is new.

        Args:
            parts: The ids of two records or more.
            content: What the headline shall say.
        """
        names = list(dict.fromkeys(parts))
        if not 2 <= len(names) <= MOST_PARTS:
            return f"a headline is over 2 to {MOST_PARTS} records, not {len(names)}"
        if reason := self._explain_unavailable(names):
            return reason
        if known := next((name for name in names if name in self._summed_up), None):
            return f"{known} has another headline by this plan"
        records = [self._live[name] for name in names]
        if reason := explain_mismatch(records) or _explain_length(records, content):
            return reason
        contents = [record.content for record in records]
        if reason := find_new_injection(contents, content):
            return reason
        inventions = find_new_specifics(contents, content)
        return f"no record says: {', '.join(inventions)}" if inventions else ""

    def add_headline(self, proposal: HeadlineProposal) -> bool:
        """Add a headline over records, which stay as they are."""
        parts = proposal.parts
        if reason := self.explain_headline(parts, proposal.content):
            return self.refuse(proposal.describe(), reason, protects=parts)
        records = [self._live[name] for name in parts]
        # Of two processes that sum up the same records at once, the second finds the id taken.
        name = compute_parts_version(records)[:12]
        try:
            headline = build_headline(
                records,
                proposal.content,
                id=self._view.new_id() if name in self._view.ended else name,
                now=self._view.now,
                category=None if proposal.category is None else validate_category(proposal.category),
                tags=normalize_labels(proposal.tags, name="tag"),
                left_out=proposal.left_out,
            )
        except InvalidInput as error:
            return self.refuse(proposal.describe(), str(error), protects=parts)
        reason = ": ".join(filter(None, (proposal.describe(), proposal.why)))
        self._take(Change(before=None, after=headline), reason, parts)
        self._summed_up.update(parts)
        for old in proposal.replacing:
            self.end_headline(old, f"replaced by {headline.id}")
        return True

    def end_headline(self, headline: Record, reason: str) -> None:
        """Archive a headline. Nothing is lost by it, so it is not counted."""
        if headline.id not in self._touched:
            edit = Change(before=headline, after=self._view.archive(headline, reason))
            self._take(edit, reason, headline.parts)

    def archive(self, id: str, *, why: str) -> bool:
        """Archive a record that a model calls noise.

        Args:
            id: Which record.
            why: The model's reason.
        """
        reason = self._explain_unavailable([id]) or self._explain_unremovable(id) or self._explain_no_room(1)
        if not reason and id in self._summed_up:
            reason = f"{id} is under a headline of this plan"
        if not reason and self.dropped >= self._most_dropped:
            reason = f"this cycle may drop no more of {len(self._live)} records"
        if reason:
            return self.refuse(f"archive {id}", reason)
        self.dropped += 1
        self._archive(self._live[id], why or "noise")
        return True

    def restore(self, record: Record, *, why: str) -> Record | None:
        """Save an archived record that was held, as saving it anew would; return it, None if it was refused.

        Args:
            record: The record.
            why: The reason.
        """
        if known := self._said.get((record.scope, record.fingerprint)):
            self.refuse(f"add {record.id}", f"the live record {known} says it already")
            return None
        changes = self._view.plan_records([replace(record, archived_at=None, archive_reason="")])
        if any(change.id in self._touched for change in changes):
            self.refuse(f"add {record.id}", "another change of this plan says it")
            return None
        saved = record
        for change in changes:
            before = record if change.id == record.id else change.before
            self._take(Change(before=before, after=change.after), why, (record.id,))
            saved = change.after if isinstance(change.after, Record) else saved
        return saved

    def stand_in(self, quote: Record, *, reason: str) -> None:
        """Archive the owner's sentence that stood for a record until it was verified. It is not counted."""
        if quote.id not in self._touched:
            self._take(Change(before=quote, after=self._view.archive(quote, reason)), reason, (quote.id,))

    def refile(
        self, id: str, *, category: str | None = None, tags: Iterable[str] | None = None, why: str = ""
    ) -> bool:
        """Change the category or the labels of a record; the day from which it counts stays.

        Args:
            id: Which record.
            category: Its new category; None leaves it.
            tags: Its new labels; None leaves them. None of the old ones is taken away.
            why: The reason.
        """
        what = f"refile {id}"
        if reason := self._explain_unavailable([id]):
            return self.refuse(what, reason)
        record = self._live[id]
        if record.pinned:
            return self.refuse(what, "it is pinned")
        try:
            after = replace(
                record,
                category=record.category if category is None else validate_category(category),
                tags=record.tags if tags is None else normalize_labels((*record.tags, *tags), name="tag"),
            )
        except InvalidInput as error:
            return self.refuse(what, str(error))
        if len(after.tags) > max(MOST_TAGS, len(record.tags)):
            return self.refuse(what, f"it would have {len(after.tags)} tags, more than {MOST_TAGS}")
        if after == record:
            return False
        self._take(Change(before=record, after=validate_record(after)), why or "belongs there", (id,))
        return True

    def add(self, record: Record, *, sources: Sequence[str], why: str, is_proposal: bool = False) -> bool:
        """Add a new record.

        Args:
            record: The record, with a fresh id.
            sources: Ids of the records and turns it was made from.
            why: The reason.
            is_proposal: Whether the record is only proposed to the owner.
        """
        what = f"add a {record.kind}"
        try:
            validate_record(record)
        except InvalidInput as error:
            return self.refuse(what, str(error))
        if known := self._said.get((record.scope, record.fingerprint)):
            return self.refuse(what, f"the live record {known} says it already")
        edit = Change(before=None, after=record)
        if is_proposal:
            self._proposals.append(PlanStep(edit=edit, why=why, sources=tuple(sources)))
        else:
            self._take(edit, why, tuple(sources))
        return True

    def change(self, record: Record, after: Record, *, why: str) -> bool:
        """Change a record by a rule, such as a promotion.

        Args:
            record: The record as it is.
            after: The record as it shall be.
            why: The rule.
        """
        if reason := self._explain_unavailable([record.id]):
            return self.refuse(f"change {record.id}", reason)
        self._take(Change(before=record, after=validate_record(after)), why, (record.id,))
        return True

    def end(self, record: Record, *, by: Record | None, since: datetime, is_said: bool = False) -> bool:
        """End the validity of a record that a later one has changed, or of which the owner says so.

        Args:
            record: The record.
            by: The later one. It ends one record at most, and is not changed by the plan otherwise. None for none.
            since: When the record ceases to hold.
            is_said: Whether verified turns of the owner say it. Otherwise it counts as archived.
        """
        what = f"end {record.id}"
        reason = self._explain_unavailable((record.id,))
        if not reason and not is_said:
            reason = self._explain_unavailable((by.id,)) if by is not None else ""
            reason = reason or self._explain_no_room(1)
            if record.importance >= IMPORTANT:
                reason = reason or f"{record.id} is important"
        if reason or record.pinned:
            return self.refuse(what, reason or f"{record.id} is pinned")
        self._archived += not is_said
        starts_at = record.valid_from or record.created_at
        after = replace(
            record,
            valid_to=max(since, starts_at + timedelta(seconds=1)),
            replaced_by="" if by is None else by.id,
            perhaps_replaced_by="",
        )
        why = "the owner says that it no longer holds" if by is None else f"{by.id} changed it"
        self._take(Change(before=record, after=validate_record(after)), why, (record.id,))
        if by is not None and not is_said:
            self._touched.add(by.id)
        return True

    def refuse(self, what: str, why: str, *, protects: Sequence[str] = ()) -> bool:
        """Note a proposal that is not accepted, and protect its records; return false."""
        known = tuple(name for name in protects if name in self._live)
        self._protected.update(known)
        self._refused.append(Rejection(what=what, why=why, protects=known))
        return False

    def plan(self, *, skipped: str = "", cursors: Mapping[str, str | None] | None = None) -> Plan:
        """Return the plan as it stands.

        Args:
            skipped: Why there was nothing to do, if there was not.
            cursors: What to set along with it.
        """
        return self._view.build_plan(
            self._name,
            steps=tuple(self._steps),
            proposals=tuple(self._proposals),
            refused=tuple(self._refused),
            notes=tuple(self._notes),
            skipped="" if self._steps or self._proposals or self._failed else skipped,
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

    def _explain_unremovable(self, id: str) -> str:
        record = self._live[id]
        if record.pinned:
            return f"{id} is pinned"
        if record.importance >= IMPORTANT:
            return f"{id} is important ({record.importance:.2f})"
        if record.seen_count >= CONFIRMED:
            return f"{id} was said {record.seen_count} times"
        if id in self._view.recalled:
            return f"{id} was recalled"
        return f"{id} was changed since it was saved" if record.updated_at > record.created_at else ""

    def _explain_no_room(self, count: int) -> str:
        room = self._most - self._archived
        if count <= room:
            return ""
        text = f"this cycle may archive {self._most} of {len(self._live)} records; {room} are left"
        self.note(text)
        return text

    # -- accepted changes --------------------------------------------------------------------------------

    def _archive(self, record: Record, reason: str) -> None:
        self._archived += 1
        self._take(Change(before=record, after=self._view.archive(record, reason)), reason, (record.id,))

    def _take(self, edit: Change, why: str, sources: tuple[str, ...]) -> None:
        self._steps.append(PlanStep(edit=edit, why=why, sources=sources))
        self._touched.add(edit.id)
        after = edit.after
        if isinstance(after, Record) and not after.archived:
            self._said[after.scope, after.fingerprint] = after.id


def find_new_injection(sources: Iterable[str], text: str) -> str:
    """Return why a text must not be shown to a model; empty if it may, or if a source must not be shown either."""
    is_known = any(find_injection(" ".join(source.split())) for source in sources)
    return "" if is_known else find_injection(text)


def _explain_length(records: Sequence[Record], content: str) -> str:
    """Return why a headline is too long; empty when it is not."""
    length = len(content)
    if not content:
        return "it says nothing"
    if length > sum(len(record.content) + _SLACK for record in records):
        return f"it would be longer than its records together: {length:,} characters"
    return (
        f"it would be longer than a prompt shows: {length:,} characters" if length > LONGEST_HEADLINE else ""
    )
