"""Builder of plans, with the checks that every proposed change has to pass.

A model or a rule proposes; nothing gets into a plan but through `PlanBuilder`. A rejected proposal is noted,
and its records are protected from everything else that is proposed in the same dream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from reverie.consolidation.answers import NO_MODEL, Answer, describe_unknown_keys
from reverie.consolidation.flows import ClaimVerdicts
from reverie.consolidation.values import PassInput, Plan, PlanStep, Rejection
from reverie.domain.change import Change
from reverie.domain.errors import InvalidInput
from reverie.domain.record import Record, merge_tags, validate_record
from reverie.domain.similarity.grounding import find_injection
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

MAX_TAGS = 20
"""Labels that a record may come to have by a model's word; a person may give it more."""


class PlanBuilder:
    """Builder of one plan. Not safe for several threads."""

    def __init__(self, view: PassInput, *, name: str) -> None:
        """Begin the plan of a pass.

        Args:
            view: What there is.
            name: The pass.
        """
        self.view = view
        self._name = name
        self.records = {record.id: record for record in view.records if not record.archived}
        """The live records, by id."""
        self.steps: list[PlanStep] = []
        """Changes that were accepted so far."""
        self._proposals: list[PlanStep] = []
        self._refused: list[Rejection] = []
        self._notes: dict[str, None] = {}
        # A model sees a kept secret redacted, so it may not reword or merge its record.
        self._protected = {name for name, each in self.records.items() if each.keep_secret}
        self._touched: set[str] = set()
        self._kept: set[str] = set()
        count = len(self.records)
        self._room = max(MIN_ARCHIVED, int(count * ARCHIVED_SHARE))
        self._room_for_noise = min(self._room, max(MIN_ARCHIVED, int(count * DROPPED_SHARE)) - view.dropped)
        self._usage = TokenUsage()
        self._failed = ""
        self._unusable = ""
        self._is_answered = False
        self.said = {(record.scope, record.fingerprint): record.id for record in self.records.values()}
        """Ids of the live records, and of those that the plan adds, by what they say."""

    # -- the state of the plan ---------------------------------------------------------------------------

    @property
    def live(self) -> list[Record]:
        """Live records as the plan would leave them, without those that it touches."""
        return [record for record in self.records.values() if record.id not in self._touched]

    def note(self, *texts: str) -> None:
        """Add notes for a person, each once."""
        self._notes |= dict.fromkeys(texts)

    def fail(self, why: str) -> None:
        """Note that the pass could not be completed; the first reason is kept."""
        self._failed = self._failed or why

    def spend(self, usage: TokenUsage) -> None:
        """Add the cost of a request."""
        self._usage += usage

    def take_answer(self, answer: Answer, what: str) -> bool:
        """Add the cost of an answer, and name what is not read in it; return whether it can be used.

        One that cannot be used waits for the next dream. The pass fails if no other answer can be used.

        Args:
            answer: The answer.
            what: What waits then, in the plural.
        """
        self.spend(answer.usage)
        self.note(*describe_unknown_keys(answer))
        if answer.is_unusable:
            why = f"{what} wait for the next dream: {answer.why}"
            self._unusable = self._unusable or why
            self.note(why)
        elif answer.why and not (answer.is_later or answer.has_no_model):
            self.fail(answer.why)
        self._is_answered |= not answer.why
        return not answer.why

    def take_verdicts(self, verdicts: ClaimVerdicts) -> None:
        """Add the cost of a verification, and fail if the model gave no answer."""
        self.spend(verdicts.usage)
        if verdicts.failed not in ("", NO_MODEL.why):
            self.fail(verdicts.failed)

    # -- proposals ---------------------------------------------------------------------------------------

    def take(self, edit: Change, why: str, sources: Sequence[str] = ()) -> None:
        """Add a change that its caller has checked. Nothing else of the plan may touch the same thing."""
        self.steps.append(PlanStep(edit=edit, why=why, sources=tuple(sources)))
        self._touched.add(edit.id)
        if isinstance(edit.after, Record) and not edit.after.archived:
            self.said[edit.after.scope, edit.after.fingerprint] = edit.after.id

    def keep(self, names: Iterable[str]) -> None:
        """Keep records from being archived, such as those under a new headline."""
        self._kept.update(names)

    def retire(self, record: Record, reason: str, sources: Sequence[str] = ()) -> None:
        """Archive a record that something else stands for, such as a headline. It is not counted."""
        if record.id not in self._touched:
            after = self.view.archive(record, reason)
            self.take(Change(before=record, after=after), reason, sources or (record.id,))

    def archive(self, id: str, *, why: str) -> bool:
        """Archive a record that a model calls noise.

        Args:
            id: Which record.
            why: The model's reason.
        """
        reason = self.explain_unavailable([id]) or self._explain_unremovable(id) or self._explain_no_room()
        if not reason and self._room_for_noise < 1:
            reason = f"this dream may drop no more of {len(self.records)} records"
        if reason:
            return self.refuse(f"archive {id}", reason)
        self._room_for_noise -= 1
        self._room -= 1
        self.retire(self.records[id], why)
        return True

    def restore(self, record: Record, *, why: str) -> Record | None:
        """Bring an archived record back that was held; return it, None if it was refused.

        Args:
            record: The record.
            why: The reason.
        """
        if known := self.said.get((record.scope, record.fingerprint)):
            self.refuse(f"add {record.id}", f"the live record {known} says it already")
            return None
        after = replace(record, archived_at=None, archive_reason="")
        self.take(Change(before=record, after=after), why, (record.id,))
        return after

    def refile(self, id: str, *, category: str | None = None, tags: Iterable[str] = ()) -> bool:
        """Change the category or the labels of a record; the day from which it counts stays.

        Args:
            id: Which record.
            category: Its new category; None leaves it.
            tags: Further labels; none of the old ones is taken away.
        """
        if reason := self.explain_unavailable([id]) or self._explain_pinned(id):
            return self.refuse(f"refile {id}", reason)
        record = self.records[id]
        after = replace(record, category=category or record.category, tags=merge_tags(record.tags, tags))
        if len(after.tags) > max(MAX_TAGS, len(record.tags)):
            why = f"it would have {len(after.tags)} tags, more than {MAX_TAGS}"
            return self.refuse(f"refile {id}", why)
        return after != record and self.change(record, after, why="belongs there")

    def add(self, record: Record, *, sources: Sequence[str], why: str, is_proposal: bool = False) -> bool:
        """Add a new record.

        Args:
            record: The record, with a fresh id.
            sources: Ids of the records and turns it was made from.
            why: The reason.
            is_proposal: Whether the record is only proposed to the owner.
        """
        reason = ""
        try:
            validate_record(record)
        except InvalidInput as error:
            reason = str(error)
        if known := self.said.get((record.scope, record.fingerprint)):
            reason = f"the live record {known} says it already"
        if reason:
            return self.refuse(f"add a {record.kind}", reason)
        edit = Change(before=None, after=record)
        if is_proposal:
            self._proposals.append(PlanStep(edit=edit, why=why, sources=tuple(sources)))
        else:
            self.take(edit, why, sources)
        return True

    def change(self, record: Record, after: Record, *, why: str) -> bool:
        """Change a record, such as by a promotion.

        Args:
            record: The record as it is.
            after: The record as it shall be.
            why: The rule.
        """
        if reason := self.explain_unavailable([record.id]):
            return self.refuse(f"change {record.id}", reason)
        self.take(Change(before=record, after=validate_record(after)), why, (record.id,))
        return True

    def end(self, record: Record, *, by: Record | None, since: datetime, is_said: bool = False) -> bool:
        """End the validity of a record that a later one has changed, or of which the owner says so.

        Args:
            record: The record.
            by: The later one. It ends one record at most, and is not changed by the plan otherwise. None for none.
            since: When the record ceases to hold.
            is_said: Whether verified turns of the owner say it. Otherwise it counts as archived.
        """
        reason = self.explain_unavailable([record.id]) or self._explain_pinned(record.id)
        if not is_said:
            reason = reason or self.explain_unavailable([by.id] if by is not None else [])
            reason = reason or self._explain_important(record) or self._explain_no_room()
        if reason:
            return self.refuse(f"end {record.id}", reason)
        starts_at = record.valid_from or record.created_at
        after = replace(
            record,
            valid_to=max(since, starts_at + timedelta(seconds=1)),
            replaced_by="" if by is None else by.id,
            perhaps_replaced_by="",
        )
        self.change(
            record, after, why=f"{by.id} changed it" if by else "the owner says that it no longer holds"
        )
        if by is not None and not is_said:
            self._room -= 1
            self._touched.add(by.id)
        return True

    def refuse(self, what: str, why: str, *, protects: Sequence[str] = ()) -> bool:
        """Note a proposal that is not accepted, and protect its records; return false."""
        self._protected.update(protects)
        self._refused.append(Rejection(what=what, why=why))
        return False

    def plan(self, *, skipped: str = "", cursors: Mapping[str, str | None] | None = None) -> Plan:
        """Return the plan as it stands.

        Args:
            skipped: Why there was nothing to do, if there was not.
            cursors: What to set along with it.
        """
        failed = self._failed or ("" if self._is_answered else self._unusable)
        return self.view.build_plan(
            self._name,
            steps=tuple(self.steps),
            proposals=tuple(self._proposals),
            refused=tuple(self._refused),
            notes=tuple(self._notes),
            skipped="" if self.steps or self._proposals or failed else skipped,
            failed=failed,
            cursors=dict(cursors or {}),
            usage=self._usage,
        )

    # -- checks ------------------------------------------------------------------------------------------

    def explain_unavailable(self, names: Iterable[str]) -> str:
        """Return why one of these records may not be changed or used by this plan; empty if all may."""
        for name in names:
            if name not in self.records:
                return f"there is no live record {name!r}"
            if name in self._protected:
                return f"{name} is protected, because something else proposed for it was refused"
            if name in self._touched:
                return f"{name} is changed by this plan already"
        return ""

    def _explain_pinned(self, id: str) -> str:
        record = self.records.get(id)
        return f"{id} is pinned" if record is not None and record.pinned else ""

    def _explain_important(self, record: Record) -> str:
        return f"{record.id} is important ({record.importance:.2f})" if record.importance >= IMPORTANT else ""

    def _explain_unremovable(self, id: str) -> str:
        record = self.records[id]
        if record.seen_count >= CONFIRMED:
            return f"{id} was said {record.seen_count} times"
        if id in self.view.recalled:
            return f"{id} was recalled"
        if id in self._kept:
            return f"{id} is under a headline of this plan"
        if record.updated_at > record.created_at:
            return f"{id} was changed since it was saved"
        return self._explain_important(record) or self._explain_pinned(id)

    def _explain_no_room(self) -> str:
        if self._room > 0:
            return ""
        text = f"this dream may archive no more of {len(self.records)} records"
        self.note(text)
        return text


def find_new_injection(sources: Iterable[str], text: str) -> str:
    """Return why a text must not be shown to a model; empty if it may, or if a source must not be shown either."""
    is_known = any(find_injection(" ".join(source.split())) for source in sources)
    return "" if is_known else find_injection(text)
