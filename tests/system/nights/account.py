"""What was ever told to the memory, and what became of it: the account that no night may falsify.

It follows the journal row by row and holds each change that a pass made against the rules, and it keeps its
own copy of every record, which is compared with the store from time to time. It shares no code with what
makes the changes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from reverie.consolidation.gatherer import ACTOR
from reverie.consolidation.passes.read import HELD
from reverie.domain.change import JournalEntry
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.filter import Filter
from reverie.domain.page import Paragraph
from reverie.domain.record import ORIGINS, Record
from reverie.search.hits import Hit
from reverie.stores.protocol import Store
from tests.system.nights.models import DENIES_ALL, DENIES_TRUTH
from tests.system.nights.texts import Fact

_ENRICHED = re.compile(r"enriched into (.+)")
_SENSITIVE = re.compile(r"password|\bpay|purchas|invoice|credential|\btoken|\broot\b", re.IGNORECASE)
_SHARE = 0.02
_LEAST = 3  # of a small memory, as the manual says
_IMPORTANT, _OFTEN = 0.8, 5


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """A rule that was broken.

    Attributes:
        rule: Which.
        what: How, with the ids.
        night: In which night.
        mood: What the model was like.
    """

    rule: str
    what: str
    night: int
    mood: str


@dataclass
class Account:
    """What there should be.

    Attributes:
        records: Every record as it was last changed, the archived too.
        facts: The facts that each record was told, by its id.
        wrong: What was found wrong.
        counts: How much of what happened.
        night: The night that is looked at.
        mood: What the model is like in it.
    """

    records: dict[str, Record] = field(default_factory=dict)
    facts: dict[str, list[Fact]] = field(default_factory=lambda: defaultdict(list))
    wrong: list[Wrong] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    history: list[str] = field(default_factory=list)
    windows: dict[str, int] = field(default_factory=dict)
    turns: int = 0
    told: int = 0
    sequence: int = 0
    night: int = 0
    mood: str = ""
    live: int = 0
    _archived: Counter[str] = field(default_factory=Counter)
    _remembered: set[str] = field(default_factory=set)
    _texts: dict[str, str] = field(default_factory=dict)

    def fault(self, rule: str, what: str) -> None:
        """Note that a rule was broken."""
        self.wrong.append(Wrong(rule=rule, what=what, night=self.night, mood=self.mood))

    def expect(self, holds: object, rule: str, what: str) -> None:
        """Note that a rule was broken, unless it holds."""
        if not holds:
            self.fault(rule, what)

    @property
    def arrivals(self) -> int:
        """The number of statements that arrived.

        They were saved, learned by rule, parts of rough notes, or learned by models from turns, of which each
        teaches one at most (see `_end_cycle`).
        """
        return self.counts["saved"] + self.counts["parts of notes"] + self.counts["learned by the model"]

    # -- what happens by day -----------------------------------------------------------------------------

    def was_told(self, fact: Fact, record: Record) -> None:
        """A fact was saved, and is in that record."""
        self.counts["saves"] += 1
        self.facts[record.id].append(fact)
        text = record.content.lower()
        for mark in fact.marks:
            self.expect(mark.lower() in text, "saved in full", f"{record.id} does not say {mark!r}")

    def follow(self, store: Store, *, checked: bool = True) -> None:
        """Take in what was changed since the last time, and hold what passes did against the rules."""
        while rows := store.journal(after=self.sequence, limit=1_000):
            self._archived.setdefault("live", self.live)
            for row in rows:
                self._take(row, checked=checked)
            self.sequence = rows[-1].sequence
        if checked:
            self._end_cycle()

    def _end_cycle(self) -> None:
        """No more than the share that may go has gone, and no more was learned than was heard."""
        live = self._archived["live"] + self._archived["learned"]
        most = max(_LEAST, int(live * _SHARE))
        gone, ended = self._archived["gone"], self._archived["ended"]
        self.expect(gone + ended <= most, "2 % a cycle", f"{gone} of {live} records went, {ended} were ended")
        learned, heard = self._archived["learned"], self._archived["heard"]
        self.expect(
            learned <= heard + self.told,
            "never grows by itself",
            f"{learned} learned of {heard + self.told} turns",
        )
        self.told = max(0, self.told + heard - learned)
        self._archived = Counter()

    def _take(self, row: JournalEntry, *, checked: bool) -> None:
        edit = row.edit
        if edit is None:
            self.fault("nothing is removed", f"change {row.sequence} says nothing any more")
            return
        before, after = edit.before, edit.after
        by_pass = row.actor == ACTOR
        if isinstance(edit.value, Record):
            is_remembered = row.reference.startswith("read ")
            self._take_record(before, after, by_pass=by_pass, checked=checked, is_remembered=is_remembered)
            if row.operation == "settle" and isinstance(before, Record) and isinstance(after, Record):
                self._check_judged(before, after)
        elif isinstance(edit.value, Turn):
            self.expect(after is not None and (before is None or not by_pass), "turns stay", edit.id)
            self.turns += before is None
            if isinstance(after, Turn):
                self._texts[after.id] = after.content
            heard = isinstance(after, Turn) and (after.role == "user" or "signal" in after.metadata)
            self._archived["heard"] += before is None and heard
        elif isinstance(edit.value, SessionState):
            self._take_session(before, after, checked=checked)
        elif isinstance(edit.value, Paragraph):
            if isinstance(after, Paragraph) and after.page == "HISTORY.md":
                self.history.append(after.content)
            self.expect(before is None or not checked, "HISTORY only grows", edit.id)

    def _take_session(self, before: object, after: object, *, checked: bool) -> None:
        if not isinstance(after, SessionState):
            self.fault("sessions stay", repr(before))
            return
        start = self.windows.get(after.id, 0)
        if checked:
            self.expect(after.window_start >= start, "windows move on", after.id)
        self.windows[after.id] = after.window_start

    # -- records -----------------------------------------------------------------------------------------

    def _take_record(
        self, before: object, after: object, *, by_pass: bool, checked: bool, is_remembered: bool
    ) -> None:
        if not isinstance(after, Record):
            self.fault("nothing is removed", repr(before))
            return
        was = self.records.get(after.id)
        self.expect(was == before, "the journal is complete", f"{after.id} is not what was before")
        self.records[after.id] = after
        if after.is_headline:
            if by_pass and checked:
                self._check_headline(before, after)
            return
        self.live += (not after.archived) - (was is not None and not was.archived)
        if not checked:
            return
        if not by_pass:
            self.counts["saved"] += before is None
        elif isinstance(before, Record):
            self._check_change(before, after)
        elif is_remembered:
            self._check_remembered(after)
        else:
            self._check_new(after)

    def _check_change(self, before: Record, after: Record) -> None:
        name = after.id
        self.expect(before.content == after.content, "words unchanged", name)
        self.expect(before.scope == after.scope, "scopes never mix", name)
        trust = ORIGINS.index(after.origin) >= ORIGINS.index(before.origin)
        self.expect(trust, "trust never rises", f"{name}: {before.origin} to {after.origin}")
        self.expect(before.pinned == after.pinned, "pins stay", name)
        self.expect(after.seen_count >= before.seen_count, "counts stay", name)
        self.expect(not before.pinned or before.layer != after.layer or before == after, "pins stay", name)
        kept = set(before.metadata.items()) - set(after.metadata.items())
        lost = {key for key, _ in kept} - {"enriched_from"}
        self.expect(not lost, "metadata stays", f"{name}: {sorted(lost)}")
        self._check_permission(after)
        if after.archived and not before.archived:
            self._check_archiving(before, after)
        elif after.valid_to is not None and before.valid_to is None:
            self._archived["ended"] += 1
            self.counts["ended by the model"] += 1
            later = self.records.get(after.replaced_by)
            self.expect(later is not None and later.scope == before.scope, "ended by a later record", name)
            is_protected = before.pinned or before.importance >= _IMPORTANT
            self.expect(not is_protected, "the protected stay", f"{name} was ended")

    def _check_judged(self, before: Record, after: Record) -> None:
        """The judge of pairs says which record follows, and nothing else."""
        same = (before.content, before.scope, before.origin) == (after.content, after.scope, after.origin)
        self.expect(same, "words unchanged", after.id)
        links = {name: getattr(after, name) for name in ("valid_to", "replaced_by", "perhaps_replaced_by")}
        self.expect(replace(before, **links) == after, "words unchanged", after.id)
        if after.replaced_by != before.replaced_by and after.replaced_by:
            self.counts["ended by the judge"] += 1
            later = self.records.get(after.replaced_by)
            is_later = later is not None and later.scope == before.scope and not before.pinned
            self.expect(is_later, "ended by a later record", after.id)

    def _check_archiving(self, before: Record, after: Record) -> None:
        name, reason = after.id, after.archive_reason
        self.expect(reason, "archived with a reason", name)
        self.expect(not before.pinned, "the protected stay", f"{name} was pinned")
        if _ENRICHED.match(reason):
            self.counts["notes enriched"] += 1
            return
        if reason == HELD or reason.startswith("in other words: "):
            self.counts["withdrawn" if reason == HELD else "quotations given way"] += 1
            self.expect(name in self._remembered, "only what a reading wrote down is withdrawn", name)
            is_denied = self.mood in (DENIES_TRUTH, DENIES_ALL)
            self.expect(not is_denied, "who denies withdraws nothing that is shown", name)
            return
        self._archived["gone"] += 1
        self.counts["dropped as noise"] += 1
        is_protected = before.importance >= _IMPORTANT or before.seen_count >= _OFTEN
        self.expect(
            not is_protected, "the protected stay", f"{name}: {before.importance}, seen {before.seen_count}"
        )

    def _check_new(self, record: Record) -> None:
        name = record.id
        self._check_permission(record)
        self.expect(not record.pinned, "pins stay", f"{name} was made with a pin")
        if note := self.records.get(record.metadata.get("enriched_from", "")):
            self.counts["parts of notes"] += 1
            self._check_derived(record, [note])
            words = len(record.content)
            self.expect(
                words <= 2 * len(note.content) + 400, "texts do not grow", f"{name}: {words} characters"
            )
        else:
            self.counts["learned by the model"] += 1
            self._archived["learned"] += 1
            self.expect(record.references, "names its turns", name)
            self.expect(record.origin not in ("owner",), "trust never rises", f"{name} is the owner's word")
            self.expect(
                record.kind in ("preference", "anti_pattern"), "names its turns", f"{name}: {record.kind}"
            )

    def _check_remembered(self, record: Record) -> None:
        """A fact of a conversation cites turns, and has no number that none of them has."""
        self.counts["learned by the model"] += 1
        self.counts["remembered"] += 1
        self._archived["learned"] += 1
        name = record.id
        self._remembered.add(name)
        cited = [self._texts[each] for each in record.references if each in self._texts]
        self.expect(cited, "names its turns", name)
        is_quoted = record.origin == "owner" and any(
            record.content in " ".join(text.split()) for text in cited
        )
        is_own = (record.origin == "agent" or is_quoted) and not record.pinned
        self.expect(is_own, "trust never rises", name)
        said = set(re.findall(r"\d+", " ".join(cited)))
        invented = set(re.findall(r"\d+", record.content)) - said
        self.expect(not invented, "remembers what was said", f"{name}: {sorted(invented)}")

    def _check_headline(self, before: object, record: Record) -> None:
        if isinstance(before, Record):
            ended = replace(record, archived_at=before.archived_at, archive_reason=before.archive_reason)
            self.expect(ended == before and record.archived, "headlines only end", record.id)
            self.counts["headlines ended"] += 1
            return
        self.counts["headlines"] += 1
        sources = [self.records[name] for name in record.parts if name in self.records]
        self.expect(
            len(sources) == len(record.parts) > 1, "parts are named", f"{record.id} of {record.parts}"
        )
        self.expect(not any(one.is_headline for one in sources), "parts are originals", record.id)
        self._check_derived(record, sources)
        longest = sum(len(one.content) + 40 for one in sources)
        self.expect(
            len(record.content) <= longest, "texts do not grow", f"{record.id}: {len(record.content)}"
        )

    def _check_derived(self, record: Record, sources: Sequence[Record]) -> None:
        for one in sources:
            self.expect(one.scope == record.scope, "scopes never mix", f"{one.id} into {record.id}")
            trust = ORIGINS.index(record.origin) >= ORIGINS.index(one.origin)
            self.expect(
                trust, "trust never rises", f"{one.id} ({one.origin}) into {record.id} ({record.origin})"
            )
            kept = record.permission or not one.permission
            self.expect(kept, "permission is asked", f"{one.id} into {record.id}")

    def _check_permission(self, record: Record) -> None:
        if "inferred" in record.tags and _SENSITIVE.search(record.content):
            self.expect(record.permission, "permission is asked", f"{record.id}: {record.content[:60]!r}")

    # -- the whole of it ---------------------------------------------------------------------------------

    def recall(self, search: Callable[[str], Sequence[Hit]], *, at_most: int) -> None:
        """Whether every fact is shown to who asks for it by name, whatever headline is over it.

        Args:
            search: Asks the memory.
            at_most: How many facts are asked for.
        """
        told = [(name, fact) for name, facts in self.facts.items() for fact in facts if fact.marks]
        for name, fact in told[:: max(1, len(told) // at_most)]:
            homes = [self.records[home] for home in self._homes(name)]
            if not all(home.archived or home.expires_at is not None for home in homes):
                shown = [hit.content.lower() for hit in search(fact.wordings[0])]
                found = all(any(mark.lower() in text for text in shown) for mark in fact.marks)
                self.counts["facts asked for"] += 1
                self.expect(found, "every fact is recalled", f"{fact.wordings[0]!r} is not shown")

    def compare(self, store: Store) -> None:
        """Hold the store against this account: every record ever made, its words, where they are found."""
        stored = {record.id: record for record in store.find(Filter(archived=None))}
        self.expect(stored == self.records, "every original is reachable", "the store has other records")
        self.look_for_specifics()
        paragraphs = [each.content for each in store.paragraphs(page="HISTORY.md")]
        self.expect(paragraphs == self.history, "HISTORY only grows", f"{len(paragraphs)} paragraphs")
        turns = sum(overview.turns for overview in store.sessions())
        self.expect(turns == self.turns, "turns stay", f"{turns} of {self.turns}")
        live = sum(not record.archived and not record.is_headline for record in stored.values())
        self.expect(live == self.live <= self.arrivals, "never grows by itself", f"{live} of {self.arrivals}")

    def look_for_specifics(self) -> None:
        """Whether all that was ever said is said now, where it stands or where its record went."""
        for name, facts in self.facts.items():
            texts = [self.records[home].content.lower() for home in self._homes(name)]
            for mark in (mark for fact in facts for mark in fact.marks):
                found = any(mark.lower() in text for text in texts)
                self.expect(found, "every specific is recoverable", f"{mark!r} of {name} is nowhere")

    def _homes(self, name: str) -> list[str]:
        """The records in which what a record says is found now: itself, or what it went into."""
        record = self.records[name]
        if not record.archived:
            return [name]
        if found := _ENRICHED.match(record.archive_reason):
            return [home for part in found[1].split(", ") for home in self._homes(part)]
        return [name]
