"""The passes, and what they read of the store: changes, records, turns, and the windows of sessions.

Adding a pass: write a function from `PassInput` to a plan in `passes`, and add a row to `PASSES`.

Turns are never removed: the beginning of a window moves. Pages belong to the shared scope, so no paragraph of history
tells a session with a scope.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from reverie.consolidation.asking import ModelAsker
from reverie.consolidation.flows import Flow
from reverie.consolidation.inbox import list_waiting
from reverie.consolidation.passes import compact, drafts, preferences, read, tidy, verify
from reverie.consolidation.values import (
    CLAIMS,
    PassInput,
    Plan,
    PlanRecords,
    WindowInput,
    apply_changes,
    build_cursor_name,
    collect_signals,
    parse_claims,
)
from reverie.context.window import (
    build_history_cursor,
    build_recalled_counter,
    build_remembered_cursor,
    parse_position,
    trim_window,
)
from reverie.domain.change import Change, JournalEntry
from reverie.domain.conversation import SessionOverview, SessionState, Turn
from reverie.domain.errors import NotFound
from reverie.domain.filter import Filter
from reverie.domain.page import HISTORY
from reverie.domain.record import Record
from reverie.domain.scope import visible_scopes
from reverie.domain.text.timestamps import parse_time
from reverie.llm.protocol import find_known_model
from reverie.settings import Settings
from reverie.stores.protocol import iter_rows

_log = logging.getLogger("reverie")

ACTOR = "dream"
"""Actor of all changes by passes in the journal."""

WINDOW_WITHOUT_CONSOLIDATION = 10
"""Messages that stay in the window when `memory_window` is 0 (Autobot)."""

COMPACTED_SHARE = 0.8
"""Share of the tokens that a model reads above which a window is compacted."""

DEFAULT_COMPACTION_TOKENS = 50_000
"""Tokens for a model of which nothing is known (golemcore)."""

MAX_AT_ONCE = 200
"""Turns that leave the window in one plan; more leave it in several."""

VERIFIED = ("verify", "tidy", "preferences")
"""Passes of a dream, in a row, whose claims are verified together.

If two of them change the same record, the first counts: a sentence that is dropped is not filed.
"""


PROMPT_SETTINGS = {
    drafts.ENRICH.prompt: "memory_rules",
    tidy.DIRECTIVE: "dream_directive",
    preferences.INFER.prompt: "preference_directive",
}
"""Settings with the names of the user's own files in place of prompts; files for other prompts have their names."""


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass of a dream.

    Attributes:
        name: Its name.
        build: Builds the plan, asking a model if it needs one.
        about: What it is about: the changes, drafts or waiting claims since it last ran.
        setting: Setting that switches it on; empty for a pass that is always on.
        left: Cursor with the ids for which its last run had no room; empty for none.
        needs: What is so without a model, where the pass does nothing then; empty for a pass that works without one.
    """

    name: str
    build: Callable[[PassInput], Flow[Plan]]
    about: Literal["changes", "drafts", "claims"] = "changes"
    setting: str = ""
    left: str = ""
    needs: str = ""

    def has_work(self, news: PassInput) -> bool:
        """Return whether it has something to consider."""
        if self.about == "claims":
            return not all(each.is_shown for each in news.claims)
        return bool(news.drafts if self.about == "drafts" else news.changed or news.turns)


PASSES = {
    each.name: each
    for each in (
        Pass(drafts.NAME, drafts.enrich_drafts, "drafts", setting="enrich", needs="rough notes stay rough"),
        Pass(verify.NAME, verify.verify, "claims", needs="only a model verifies what a model read"),
        Pass(tidy.NAME, tidy.tidy, left=tidy.LEFT),
        Pass(
            preferences.NAME,
            preferences.infer_preferences,
            setting="preference_inference",
            left=preferences.LEFT,
            needs="only rules learn preferences",
        ),
        Pass(tidy.PROMOTE, tidy.promote, setting="promotion_enabled"),
    )
}
"""The passes of a dream by name, in the order in which they run."""

DREAM = tuple(PASSES)
"""Their names."""


WindowKind = Literal["read", "compact"]

_COUNTS = (
    *("importance", "confidence", "seen_count", "last_seen_at", "updated_at", "references", "pinned"),
    *("perhaps_replaced_by", "replaces"),
)
"""Fields whose change alone asks no model."""

_MAX_EARLIER = 400
_WEEK = timedelta(days=7)
_MONTH = timedelta(days=30)


class ReadingState(NamedTuple):
    """How far a session is read.

    Attributes:
        position: Position of the first turn that no model has read.
        failures: How often the present model was asked about it without a usable answer.
        again_at: When it is asked again; None for at once.
        is_waiting: Whether any model was asked about it without a usable answer.
    """

    position: int
    failures: int = 0
    again_at: datetime | None = None
    is_waiting: bool = False

    def is_paused(self, now: datetime) -> bool:
        """Return whether the model is left alone with it; a pause that a wrong clock has made ends at once."""
        return self.again_at is not None and timedelta() < self.again_at - now <= read.LONGEST_PAUSE


class InputGatherer:
    """Reads the input of passes from a store. Safe to use from several threads."""

    def __init__(self, asker: ModelAsker, plan_records: PlanRecords, profile: Path | None) -> None:
        """Create a gatherer for the store and the model of an asker; the arguments are those of `Dreams`."""
        self._asker = asker
        self._settings = asker.settings
        self._store = asker.writer.store
        self._clock = asker.writer.clock
        self._plan_records = plan_records
        self._profile = profile
        self._without_drafts = 0  # number of a journal entry before which there are no drafts to consider

    def gather_basics(self) -> PassInput:
        """Return the moment and the prompts."""
        return PassInput(
            now=self._clock(),
            zone=self._settings.zone,
            promotion_min_confidence=self._settings.promotion_min_confidence,
            read_prompt=self._read_prompt,
            is_trusted=self._asker.is_trusted(),
            new_id=self._asker.writer.new_id,
            plan_records=self._plan_records,
        )

    def gather_news(self, registered: Pass) -> PassInput:
        """Return what changed since a pass last read the journal, and what it had no room for then."""
        view = self._read_news(self._read_cursor(registered.name), self._store.sequence())
        left = tuple((self._store.cursor(registered.left) or "").split()) if registered.left else ()
        ids = [word.rpartition(":")[2] for word in left]
        turns = {turn.id: turn for turn in (*self._iter_turns_with_answers(ids), *view.turns)}
        return replace(
            view,
            changed=view.changed.union(each.id for each in self._store.records(ids)),
            turns=tuple(turns.values()),
            left=left,
            claims=parse_claims(self._store.cursor(CLAIMS)),
        )

    def gather(self, news: PassInput, planned: Sequence[Change] = ()) -> PassInput:
        """Return the input of a pass.

        Args:
            news: What changed since it last ran.
            planned: Changes that earlier passes of the same plan make.
        """
        view = self._add_claims(news)
        records = [each for each in self._list_headed(view.now, headlines=False) if not each.is_item]
        counter = build_recalled_counter("")
        return replace(
            view,
            records=apply_changes(records, planned),
            headlines=self._list_headed(view.now, headlines=True),
            categories={each.scope: self._list_categories(each.scope) for each, _ in view.drafts},
            recalled=frozenset(name.removeprefix(counter) for name in self._store.cursors(counter)),
            dropped=self._count_dropped(view.now),
            earlier=self._list_earlier_turns(view.now, view.turns),
            proposals=tuple(each.record for each in list_waiting(self._store) if each.record is not None),
            signals=collect_signals(view.turns, now=view.now),
        )

    def gather_session(self, kind: str, window: WindowInput) -> PassInput:
        """Return the input of a pass over the window of one session."""
        view = replace(self.gather_basics(), window=window)
        if kind != read.NAME:
            return view
        scope = window.state.scope
        records = self._store.find(Filter(scopes=visible_scopes(scope), alive_at=view.now))
        return replace(
            view,
            claims=parse_claims(self._store.cursor(CLAIMS)),
            records=tuple(record for record in records if not record.is_item),
            categories={scope: self._list_categories(scope)},
        )

    def count_drafts(self) -> int:
        """Return how many drafts were saved since the last enrichment."""
        until = self._store.sequence()
        after = max(self._read_cursor("enrich"), self._without_drafts)
        count = len(self._read_news(after, until).drafts) if after < until else 0
        if not count:
            self._without_drafts = until
        return count

    # -- windows -----------------------------------------------------------------------------------------

    def find_due(self, overview: SessionOverview) -> WindowKind | None:
        """Return how the window of a session is to be shortened; None if it is short enough."""
        window, state = self._settings.memory_window, overview.state
        length = overview.turns - state.window_start
        if window == 0:
            return "compact" if length > WINDOW_WITHOUT_CONSOLIDATION else None
        if length > window:
            return "compact" if state.scope else "read"
        if self._settings.compaction_enabled and length > self._settings.compaction_keep:
            turns = self._store.turns(session=state.id, start=state.window_start)
            most = compute_compaction_tokens(self._settings, self._asker.name)
            return "compact" if compact.estimate(turns) > most else None
        return None

    def read_window(
        self, session: str, kind: str, *, keep: int | None = None, is_read: bool = True
    ) -> WindowInput:
        """Return what a pass over the window of a session reads.

        Args:
            session: The session.
            kind: `read` or `compact`.
            keep: About how many turns stay, 0 or more; None takes what the settings say.
            is_read: Whether a model reads the turns. Otherwise they are only told in `HISTORY.md`, and stay unread.

        Raises:
            NotFound: there is no such session.
        """
        state = self._store.session(session)
        if state is None:
            raise NotFound(f"no session {session!r}: `reverie sessions` lists them")
        turns = self._store.turns(session=session, start=state.window_start)
        window = self._settings.memory_window
        if kind != read.NAME:
            kept = self._settings.compaction_keep if window else WINDOW_WITHOUT_CONSOLIDATION
            start, older = _find_leaving(state, turns, kept if keep is None else keep)
            return WindowInput(state=state, older=tuple(older), start=start)
        told = self.read_told(session)
        reading = self.read_state(session)
        new = self._store.turns(
            session=session, start=reading.position if is_read else max(told, state.window_start)
        )
        new = _select_first_turns(new, MAX_AT_ONCE)
        start = state.window_start
        if not state.scope and (keep is not None or (window and len(turns) > window)):
            start, _ = _find_leaving(state, turns, min(10, max(2, window // 2)) if keep is None else keep)
            start = min(start, new[-1].position + 1) if new else start
        last = self._store.paragraphs(page=HISTORY, start=-1)
        return WindowInput(
            state=state,
            older=tuple(new),
            start=start,
            read_from=reading.position if is_read else told,
            told=told,
            reader=self._asker.name,
            failures=reading.failures,
            position=last[0].position + 1 if last else 1.0,
            is_read=is_read,
        )

    def read_state(self, session: str) -> ReadingState:
        """Return how far a model has read a session, and when it is asked about the rest."""
        text = self._store.cursor(build_remembered_cursor(session)) or ""
        position, *rest = text.split(" ", 3)
        if rest[2:] != [self._asker.name]:
            return ReadingState(parse_position(position), is_waiting=bool(rest))
        return ReadingState(parse_position(position), int(rest[0]), parse_time(rest[1]), is_waiting=True)

    def read_told(self, session: str) -> int:
        """Return the position of the first turn of a session that `HISTORY.md` does not tell."""
        return parse_position(self._store.cursor(build_history_cursor(session)))

    # -- parts of the input ------------------------------------------------------------------------------

    def _read_cursor(self, name: str) -> int:
        text = self._store.cursor(build_cursor_name(name))
        return int(text) if text and text.isdecimal() else 0

    def _read_news(self, after: int, until: int) -> PassInput:
        """Return what others than passes changed after a journal entry, up to and including another.

        A sighting alone is no change. A turn is new if it was added, or got a signal.
        """
        changed: set[str] = set()
        drafts: dict[str, int] = {}
        turns: dict[str, Turn] = {}
        for entry in iter_rows(self._store, after=after, until=until) if after < until else ():
            before, value = entry.before, entry.after
            if isinstance(value, Turn):
                turns[value.id] = value
            elif isinstance(value, Record) and not value.is_headline and _is_news(entry):
                if not (isinstance(before, Record) and _says_the_same(before, value)):
                    changed.add(value.id)
                if value.draft and before is None:
                    drafts[value.id] = entry.sequence
        found = (each for each in self._store.records(list(drafts)) if each.draft and not each.archived)
        return replace(
            self.gather_basics(),
            until=until,
            changed=frozenset(changed),
            turns=tuple(turns.values()),
            drafts=tuple((each, drafts[each.id]) for each in found),
        )

    def _add_claims(self, view: PassInput) -> PassInput:
        """Return the input with the records that claims name, and the turns of those that wait."""
        names = {name for each in view.claims for name in (each.record, each.target, each.quote)} - {""}
        cited = dict.fromkeys(name for each in view.claims if not each.is_shown for name in each.turns)
        turns = self._store.turns(list(cited))
        return replace(
            view,
            cited={record.id: record for record in self._store.records(list(names))},
            said={turn.id: turn for turn in turns},
            before={turn.id: said.content for turn in turns if (said := self._find_answer_before(turn))},
        )

    def _iter_turns_with_answers(self, ids: Sequence[str]) -> Iterator[Turn]:
        """Yield turns, each after the assistant's turn to which it replies."""
        for turn in self._store.turns(ids):
            if answer := self._find_answer_before(turn):
                yield answer
            yield turn

    def _find_answer_before(self, turn: Turn) -> Turn | None:
        """Return the assistant's turn just before a user's; None if there is none."""
        if turn.role != "user" or turn.position < 1:
            return None
        earlier = self._store.turns(session=turn.session, start=turn.position - 1, stop=turn.position)
        return earlier[0] if earlier and earlier[0].role == "assistant" else None

    def _list_headed(self, now: datetime, *, headlines: bool) -> tuple[Record, ...]:
        """Return the live headlines, or the other live records."""
        return tuple(self._store.find(Filter(alive_at=now, headlines=headlines), order="created"))

    def _count_dropped(self, now: datetime) -> int:
        """Return the number of records that were archived as noise in the last thirty days."""
        archived = self._store.find(Filter(archived=True))
        times = [each.archived_at or now for each in archived if each.archive_reason == tidy.NOISE]
        return sum(at > now - _MONTH for at in times)

    def _list_categories(self, scope: str) -> tuple[str, ...]:
        """Return the categories that are visible within a scope, the most frequent first."""
        tally = self._store.tally("category", Filter(scopes=visible_scopes(scope), alive_at=self._clock()))
        return tuple(name for name in sorted(tally, key=lambda name: -tally[name]) if name)

    def _list_earlier_turns(self, now: datetime, new: Sequence[Turn]) -> tuple[Turn, ...]:
        """Return the turns of the week before new ones, the earliest first; none if there are no new ones."""
        ids = {turn.id for turn in new}
        wanted = Filter(created_after=now - _WEEK, roles=("user", "assistant"))
        turns = (turn for turn in self._store.scan_turns(wanted) if turn.id not in ids) if new else iter(())
        return tuple(islice(turns, _MAX_EARLIER))[::-1]

    def _read_prompt(self, name: str) -> str:
        """Return the user's own prompt in place of one; empty if there is none."""
        setting = PROMPT_SETTINGS.get(name)
        file = name if setting is None else getattr(self._settings, setting)
        path = self._profile / file if self._profile is not None and file else None
        try:
            return path.read_text(encoding="utf-8-sig") if path is not None and path.is_file() else ""
        except (OSError, UnicodeDecodeError) as error:
            _log.warning("the prompt %r cannot be read, the one that ships is used: %s", str(path), error)
            return ""


def _is_news(entry: JournalEntry) -> bool:
    """Return whether others than passes made a change, or a pass wrote down what was said, or brought it back.

    An undo is no news: otherwise the next dream would repeat what somebody has undone. The reference of a dream that
    was applied as one plan does not tell which pass of it made a change.
    """
    if entry.operation == "undo":
        return False
    if entry.actor != ACTOR or entry.reference.startswith(f"{read.NAME} "):
        return True
    before, after = entry.before, entry.after
    if not isinstance(before, Record) or not isinstance(after, Record) or after.archived:
        return False
    return before.archived or (before.valid_to is not None and after.valid_to is None)


def _says_the_same(before: Record, after: Record) -> bool:
    """Return whether a change concerns only how important, sure, often or recently said a record is."""
    return before == replace(after, **{name: getattr(before, name) for name in _COUNTS})


# -- windows ---------------------------------------------------------------------------------------------


def _find_leaving(state: SessionState, turns: Sequence[Turn], keep: int) -> tuple[int, list[Turn]]:
    """Return where a window is to begin, and the turns that leave it."""
    tail = trim_window(turns, keep)
    start = tail[0].position if tail else (turns[-1].position + 1 if turns else state.window_start)
    older = _select_first_turns([turn for turn in turns if turn.position < start], MAX_AT_ONCE)
    return (older[-1].position + 1 if older else start), older


def compute_compaction_tokens(settings: Settings, model: str) -> int:
    """Return the tokens of context above which a window is compacted.

    Args:
        settings: The settings.
        model: Name of the model; empty for none.
    """
    if settings.compaction_tokens is not None:
        return settings.compaction_tokens
    known = find_known_model(model)
    limit = settings.model_input_tokens or (known.input_tokens if known is not None else 0)
    return int(limit * COMPACTED_SHARE) or DEFAULT_COMPACTION_TOKENS


def _select_first_turns(turns: Sequence[Turn], most: int) -> list[Turn]:
    """Return about so many of the first turns, without separating a tool call from its results."""
    if len(turns) <= most:
        return list(turns)
    rest = trim_window(turns, len(turns) - most)
    end = rest[0].position if rest else turns[-1].position + 1
    return [turn for turn in turns if turn.position < end] or list(turns)
