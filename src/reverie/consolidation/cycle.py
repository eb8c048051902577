"""How does background thinking become change? Gathers what a pass sees, runs it, and makes its plan.

The passes are in `reverie.consolidation.passes` and see nothing but values; here stand the store, the model and the
cursors. A plan is made without writing anything; applying it is one transaction, along with the cursor that
says how far the journal was considered. A pass that fails leaves the cursor where it was.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TypeVar

from reverie.consolidation.passes.enrich import build_unchanged_plan, enrich
from reverie.consolidation.passes.infer import infer
from reverie.consolidation.passes.merge import LEFT, merge
from reverie.consolidation.passes.promote import promote
from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.driver import NO_MODEL, Flow, run_pass
from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.signals import collect_signals
from reverie.context.ledger import ShownLedger, build_shown_cursor
from reverie.domain.change import Change
from reverie.domain.conversation import Turn
from reverie.domain.errors import (
    InvalidInput,
    ModelError,
    ModelRefused,
    ReverieError,
    StoreUnavailable,
)
from reverie.domain.filter import Filter
from reverie.domain.page import MEMORY
from reverie.domain.record import ROUGH, Record
from reverie.domain.scope import visible_scopes
from reverie.domain.similarity.deduplication import find_duplicate_groups
from reverie.domain.text.timestamps import format_time
from reverie.llm.messages import ModelFailure, ModelReply, ModelRequest, TokenUsage
from reverie.llm.protocol import Model
from reverie.settings import Settings
from reverie.stores.redacting import redact_request
from reverie.stores.writer import StoreWriter

_log = logging.getLogger("reverie")

ACTOR = "dream"
"""Who is named in the journal as the author of what passes change."""

DREAM = "dream"
"""All of the passes together."""

PASSES = ("enrich", "merge", "infer", "promote")
"""The dream's passes, in the order in which they run."""

LOG = "dream.log"
"""The store's cursor that keeps what became of the last cycles."""

_LONGEST_LOG = 100
_MOST_NOTES = 20  # rough ones that are enriched in one plan: each is a question
_MOST_REFUSED = 3  # first notes that are all refused before the model is left alone
_MOST_EARLIER = 400
_WEEK = timedelta(days=7)
_BATCH = 1_000
_ATTEMPTS = 5

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyResult:
    """A plan that was made.

    Attributes:
        plan: The plan.
        batch: The number of its first change in the journal, by which it can be undone; None where it had
            none.
        changes: How many changes it made.
    """

    plan: Plan
    batch: int | None
    changes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOutcome:
    """What became of one pass in one cycle.

    Attributes:
        name: The pass.
        at: When.
        state: `applied`, `plan_pass` (a dry run), `skipped` or `failed`.
        why: Why it was skipped or failed; empty otherwise.
        plan: The plan, where there is one.
        batch: By what number the changes can be undone.
    """

    name: str
    at: datetime
    state: str
    why: str = ""
    plan: Plan | None = None
    batch: int | None = None


class ConsolidationCycle:
    """Background thinking over one store. Safe to use from several threads; keeps nothing but counters."""

    def __init__(
        self,
        writer: StoreWriter,
        *,
        settings: Settings,
        model: Model | None = None,
        profile: Path | None = None,
    ) -> None:
        """Think about a store.

        Args:
            writer: Commits the changes; the journal names `dream` as their author.
            settings: The settings.
            model: What is asked; None for nobody.
            profile: The folder of the user's own prompts; None for those that ship.
        """
        self.model = model
        self.usage = TokenUsage()
        self._writer = writer.acting(ACTOR)
        self._store = writer.store
        self._clock = writer.clock
        self._settings = settings
        self._profile = profile
        self._without_notes = 0  # up to which row of the journal there are no rough notes
        self._read: tuple[int, tuple[Record, ...]] | None = None  # live as of a row, while a cycle lasts

    # -- plans -------------------------------------------------------------------------------------------

    def plan(self, name: str = DREAM) -> Plan:
        """What a pass would change now; nothing is written.

        Args:
            name: `enrich`, `merge`, `infer` or `promote`; `dream` for all of them as one plan, each on what
                the one before leaves.

        Raises:
            InvalidInput: there is no such pass.
        """
        if name == DREAM:
            return self._plan_all()
        if name not in PASSES:
            raise InvalidInput(f"pass is {name!r}: use {DREAM}, or one of {', '.join(PASSES)}")
        return self._plan(name, ())

    def _plan_all(self) -> Plan:
        plans: list[Plan] = []
        for name in PASSES:
            made = [edit for plan in plans for edit in plan.edits]
            plans.append(self._plan(name, made))
        named = [
            replace(
                plan,
                skipped=plan.skipped and f"{plan.name}: {plan.skipped}",
                failed=plan.failed and f"{plan.name}: {plan.failed}",
            )
            for plan in plans
        ]
        return _combine_plans(self.view(), DREAM, named)

    def _plan(self, name: str, made: Sequence[Change]) -> Plan:
        if name == "enrich":
            return self._plan_enrichment()
        sequence = self._store.sequence()
        news = self._collect_news(self._read_cursor(name), sequence)
        changed = news.changed | (self._read_unshown_ids() if name == "merge" else frozenset())
        if not changed and not news.turns:
            nothing = "nothing has changed since the last cycle"
            return Plan(id=self._writer.new_id(), name=name, made_at=self._clock(), skipped=nothing)
        view = self._build_record_view(changed, news.turns)
        plan = self._run(self._build_flow(name, replace(view, records=_apply_edits(view.records, made))))
        if plan.failed:
            return replace(plan, cursors={})  # what was to be looked at is looked at again
        return replace(plan, cursors={**plan.cursors, _build_cursor_name(name): str(sequence)})

    def _plan_enrichment(self) -> Plan:
        """The rough notes that were saved since the last time, each split and filed by the model.

        One that the model did not answer for is tried again the next time, and after two in a row so are the
        rest. One that it refuses stays as it is, if it answers for another: it is the note, then, and not
        the key.
        """
        view = self.view()
        if why := self._explain_left_notes():
            return _build_skipped_plan(view, "enrich", why)
        sequence = self._store.sequence()
        notes = self._collect_news(self._read_cursor("enrich"), sequence).rough
        waiting = {
            record.id: record
            for record in self._store.records(list(notes))
            if ROUGH in record.metadata and not record.archived
        }
        parts: list[Plan] = []
        if waiting:
            view = self._build_record_view(frozenset(), ())
            for note in list(waiting.values())[:_MOST_NOTES]:
                parts.append(self._run(enrich(view, note, categories=self._list_categories(note.scope))))
                if _is_away(parts):
                    break
                view = replace(view, records=_apply_edits(view.records, parts[-1].edits))
            if not all(part.failed for part in parts):
                parts = [
                    build_unchanged_plan(view, note, part) if part.failed and part.refused else part
                    for note, part in zip(waiting.values(), parts, strict=False)
                ]
        plan = _combine_plans(view, "enrich", parts, skipped="there is no rough note")
        done = sequence if len(parts) == len(waiting) else notes[list(waiting)[len(parts)]] - 1
        return plan if plan.failed else replace(plan, cursors={_build_cursor_name("enrich"): str(done)})

    def _list_categories(self, scope: str) -> list[str]:
        """The categories that are in use where somebody sees who is in a scope, the most used first."""
        tally = self._store.tally("category", Filter(scopes=visible_scopes(scope), alive_at=self._clock()))
        return [name for name in sorted(tally, key=lambda name: -tally[name]) if name]

    def _explain_left_notes(self) -> str:
        """Why rough notes stay as they are; empty where they do not."""
        if not self._settings.enrich:
            return "enrich is off"
        return "no model: rough notes stay as they are" if self.model is None else ""

    def apply(self, plan: Plan, *, dry_run: bool = False) -> ApplyResult:
        """Make a plan's changes, all of them or none, in one transaction.

        Args:
            plan: The plan, as it was made.
            dry_run: Whether to leave everything as it is.

        Raises:
            Conflict: something it would change has changed since it was made: plan again.
        """
        if dry_run or not (plan.steps or plan.cursors):
            return ApplyResult(plan=plan, batch=None, changes=0)
        rows = self._writer.commit(plan.edits, reason=f"{plan.name} {plan.id}", cursors=dict(plan.cursors))
        return ApplyResult(plan=plan, batch=rows[0].batch if rows else None, changes=len(rows))

    # -- a cycle -----------------------------------------------------------------------------------------

    def run_cycle(self, names: Iterable[str] = PASSES, *, dry_run: bool = False) -> list[PassOutcome]:
        """Run passes one after the other; one that fails does not stop the rest.

        Args:
            names: Which passes.
            dry_run: Whether to plan only.
        """
        self._read = (-1, ())
        outcomes = [self._run_pass(name, dry_run=dry_run) for name in names]
        self._read = None
        if not dry_run:
            self._write_log(outcomes)
        return outcomes

    def has_news(self) -> bool:
        """Whether anything changed that some pass has not considered yet."""
        sequence = self._store.sequence()
        for name in PASSES:
            if name == "enrich" and self._explain_left_notes():
                continue
            news = self._collect_news(self._read_cursor(name), sequence)
            if news.rough if name == "enrich" else news.changed or news.turns:
                return True
        return bool(self._read_unshown_ids())

    def count_rough_notes(self) -> int:
        """How many notes were saved as rough since the last look; 0 where nobody would split them."""
        if self._explain_left_notes():
            return 0
        sequence = self._store.sequence()
        after = max(self._read_cursor("enrich"), self._without_notes)
        found = len(self._collect_news(after, sequence).rough) if after < sequence else 0
        if not found:
            self._without_notes = sequence
        return found

    def log(self) -> list[dict[str, object]]:
        """What became of the passes of the last cycles, the newest last."""
        text = self._store.cursor(LOG)
        try:
            found = json.loads(text) if text else []
        except ValueError:
            _log.warning("the log of dreams cannot be read and is begun anew")
            return []
        return [entry for entry in found if isinstance(entry, dict)]

    def _run_pass(self, name: str, *, dry_run: bool) -> PassOutcome:
        now = self._clock()
        try:
            applied = self.retrying(lambda: self.apply(self.plan(name), dry_run=dry_run))
        except ReverieError as error:
            _log.warning("the pass %r failed: %s", name, error)
            self.count(f"dream.{name}.failed")
            return PassOutcome(name=name, at=now, state="failed", why=str(error))
        plan = applied.plan
        if plan.failed:
            self.count(f"dream.{name}.failed")
            return PassOutcome(
                name=name, at=now, state="failed", why=plan.failed, plan=plan, batch=applied.batch
            )
        if not plan.steps:
            return PassOutcome(name=name, at=now, state="skipped", why=plan.skipped, plan=plan)
        state = "planned" if dry_run else "applied"
        return PassOutcome(name=name, at=now, state=state, plan=plan, batch=applied.batch)

    def retrying(self, attempt: Callable[[], T]) -> T:
        """Return the result of `attempt`, which plans and applies, repeated a few times on `Conflict`."""
        return self._writer.retrying(lambda _: attempt(), attempts=_ATTEMPTS)

    def _write_log(self, outcomes: Sequence[PassOutcome]) -> None:
        told = [_to_outcome_dict(outcome) for outcome in outcomes if _is_worth_telling(outcome)]
        if not told:
            return
        text = json.dumps([*self.log(), *told][-_LONGEST_LOG:], ensure_ascii=False)
        try:
            self._writer.commit([], cursors={LOG: text})
        except StoreUnavailable as error:
            _log.warning("the log of dreams could not be written: %s", error)

    def count(self, name: str) -> None:
        """Count a failure in the store; one that cannot be counted is logged."""
        try:
            self._writer.commit([], counts={name: 1})
        except StoreUnavailable as error:
            _log.warning("%s could not be counted: %s", name, error)

    # -- what a pass sees --------------------------------------------------------------------------------

    def _build_flow(self, name: str, view: PassInput) -> Flow[Plan] | Plan:
        if name == "merge":
            found = collect_signals(view.turns, view.records, now=view.now, changed=view.changed)
            return merge(view, find_duplicate_groups(view.records, view.changed), found)
        if name == "infer":
            if not self._settings.preference_inference:
                return _build_skipped_plan(view, name, "preference_inference is off")
            earlier = self._list_earlier_turns(view)
            view = replace(view, earlier=earlier)
            found = collect_signals((*earlier, *view.turns), view.records, now=view.now, changed=view.changed)
            return infer(view, injected=self._list_injected_texts(view.turns), signals=found)
        if not self._settings.promotion_enabled:
            return _build_skipped_plan(view, name, "promotion_enabled is off")
        return promote(view, min_confidence=self._settings.promotion_min_confidence)

    def _run(self, flow: Flow[Plan] | Plan) -> Plan:
        return flow if isinstance(flow, Plan) else run_pass(flow, self.answer)

    def answer(self, ask: ModelRequest) -> ModelReply | ModelFailure:
        """What the model answers; a failure is counted, logged and told to the pass, never raised."""
        if self.model is None:
            return NO_MODEL
        try:
            reply = self.model.answer(redact_request(ask, self._settings.redactor))
        except ModelError as error:
            _log.warning("the model gave no answer for %s: %s", ask.purpose, error)
            self.count(f"model.{ask.purpose}.failed")
            return ModelFailure(why=str(error), refused=isinstance(error, ModelRefused))
        self.usage += reply.usage
        return reply

    def view(self) -> PassInput:
        """The moment and the prompts, for passes over something else than records."""
        return PassInput(now=self._clock(), prompts=self._load_prompts(), new_id=self._writer.new_id)

    def _build_record_view(self, changed: frozenset[str], turns: Sequence[Turn]) -> PassInput:
        now = self._clock()
        return PassInput(
            now=now,
            records=self._list_live_records(now),
            changed=changed,
            turns=tuple(turns),
            prompts=self._load_prompts(),
            new_id=self._writer.new_id,
        )

    def _list_live_records(self, now: datetime) -> tuple[Record, ...]:
        """The live records, read once for the passes of a cycle between which nothing is changed."""
        sequence, before = self._store.sequence(), self._read
        if before is None or before[0] != sequence:
            found = self._store.find(Filter(alive_at=now), order="created")
            live = tuple(record for record in found if not record.is_kept)
            self._read = None if before is None else (sequence, live)
            return live
        return tuple(each for each in before[1] if each.expires_at is None or each.expires_at > now)

    def _load_prompts(self) -> Mapping[str, str]:
        """The user's own prompts under the names that ship; one that cannot be read is named in the log."""
        named = {
            "dream.md": self._settings.dream_directive,
            "pref-dream.md": self._settings.preference_directive,
            "memory-rules.md": self._settings.memory_rules,
            "extract.md": "extract.md",
            "compact.md": "compact.md",
            "digest.md": "digest.md",
        }
        found = {}
        for name, file in named.items():
            path = None if self._profile is None else self._profile / file
            if path is None or not path.is_file():
                continue
            try:
                found[name] = path.read_text(encoding="utf-8-sig")
            except (OSError, UnicodeDecodeError) as error:
                _log.warning("the prompt %r cannot be read, the one that ships is used: %s", str(path), error)
        return found

    def _read_cursor(self, name: str) -> int:
        text = self._store.cursor(_build_cursor_name(name))
        return int(text) if text and text.isdecimal() else 0

    def _read_unshown_ids(self) -> frozenset[str]:
        """The changed records that there was no room to show the last time."""
        return frozenset((self._store.cursor(LEFT) or "").split())

    def _collect_news(self, after: int, until: int) -> _News:
        """What others than passes changed since a journal row, up to and with another.

        What was only taken back is no news: or the next cycle would do again what somebody has just undone.
        """
        changed: set[str] = set()
        rough: dict[str, int] = {}
        turns: dict[str, Turn] = {}
        while after < until:
            rows = self._store.journal(after=after, until=until, limit=_BATCH)
            if not rows:
                break
            for row in rows:
                value = None if row.edit is None else row.edit.after
                if isinstance(value, Record) and row.actor != ACTOR and not row.takes_back:
                    changed.add(value.id)
                    if ROUGH in value.metadata and row.edit is not None and row.edit.before is None:
                        rough[value.id] = row.sequence
                elif isinstance(value, Turn):
                    turns[value.id] = value
            after = rows[-1].sequence
        return _News(changed=frozenset(changed), turns=list(turns.values()), rough=rough)

    def _list_earlier_turns(self, view: PassInput) -> tuple[Turn, ...]:
        """The owner's and the assistant's turns of the week before, the earliest first."""
        if not view.turns:
            return ()
        new = {turn.id for turn in view.turns}
        wanted = Filter(created_after=view.now - _WEEK, roles=("user", "assistant"))
        found = (turn for turn in self._store.scan_turns(wanted) if turn.id not in new)
        return tuple(reversed(list(islice(found, _MOST_EARLIER))))

    def _list_injected_texts(self, turns: Sequence[Turn]) -> list[str]:
        """The texts that we put into the prompts of these turns' sessions ourselves."""
        shown: dict[str, None] = {}
        texts: list[str] = []
        for session in dict.fromkeys(turn.session for turn in turns):
            ledger = self._store.cursor(build_shown_cursor(session))
            try:
                shown |= dict.fromkeys(() if ledger is None else ShownLedger.from_text(ledger).marks)
            except InvalidInput as error:
                _log.warning("what session %r was shown cannot be read: %s", session, error)
            state = self._store.session(session)
            texts += [state.summary] if state is not None and state.summary else []
        texts += [record.content for record in self._store.records(list(shown))]
        return texts + [page.content for page in self._store.pages([MEMORY])]


@dataclass(frozen=True, slots=True, kw_only=True)
class _News:
    """What was changed in a stretch of the journal.

    Attributes:
        changed: Ids of records that others than passes added or changed.
        turns: Turns that were added, or got a signal.
        rough: Ids of rough notes that were saved, in that order, each with its row.
    """

    changed: frozenset[str]
    turns: list[Turn]
    rough: dict[str, int]


def _is_away(parts: Sequence[Plan]) -> bool:
    """Whether the model seems not to answer anybody, after what these notes came to.

    One note may be what it cannot do, such as a very long one, and those after it need not wait for it.
    """
    if len(parts) >= _MOST_REFUSED and all(part.failed for part in parts):
        return True
    return [bool(part.failed) and not part.refused for part in parts[-2:]] == [True, True]


def _apply_edits(records: Sequence[Record], edits: Sequence[Change]) -> tuple[Record, ...]:
    """The live records as they would be after these edits."""
    there = {record.id: record for record in records}
    for edit in edits:
        if isinstance(edit.after, Record) and not edit.after.archived:
            there[edit.id] = edit.after
        else:
            there.pop(edit.id, None)
    return tuple(there.values())


def _combine_plans(view: PassInput, name: str, plans: Sequence[Plan], *, skipped: str = "") -> Plan:
    """Several plans as one."""
    steps = tuple(step for plan in plans for step in plan.steps)
    reasons = [plan.skipped for plan in plans if plan.skipped] or [skipped]
    cursors: dict[str, str | None] = {}
    for plan in plans:
        cursors |= plan.cursors
    return Plan(
        id=view.new_id(),
        name=name,
        made_at=view.now,
        steps=steps,
        refused=tuple(refusal for plan in plans for refusal in plan.refused),
        notes=tuple(note for plan in plans for note in plan.notes),
        skipped="" if steps else "; ".join(dict.fromkeys(reasons)),
        failed="; ".join(dict.fromkeys(plan.failed for plan in plans if plan.failed)),
        cursors=cursors,
        usage=sum((plan.usage for plan in plans), TokenUsage()),
    )


def _build_cursor_name(name: str) -> str:
    return f"dream.{name}.sequence"


def _build_skipped_plan(view: PassInput, name: str, why: str) -> Plan:
    return Plan(id=view.new_id(), name=name, made_at=view.now, skipped=why)


def _is_worth_telling(outcome: PassOutcome) -> bool:
    """Not the many cycles in which there was nothing to look at."""
    refused = outcome.plan is not None and (outcome.plan.refused or outcome.plan.usage.requests)
    return outcome.state != "skipped" or bool(refused)


def _to_outcome_dict(outcome: PassOutcome) -> dict[str, object]:
    plan = outcome.plan
    return {
        "pass": outcome.name,
        "at": format_time(outcome.at),
        "state": outcome.state,
        "why": outcome.why,
        "plan": plan.id if plan is not None else "",
        "batch": outcome.batch,
        "changes": len(plan.steps) if plan is not None else 0,
        "refused": len(plan.refused) if plan is not None else 0,
        "requests": plan.usage.requests if plan is not None else 0,
        "input_tokens": plan.usage.input_tokens if plan is not None else 0,
        "output_tokens": plan.usage.output_tokens if plan is not None else 0,
    }
