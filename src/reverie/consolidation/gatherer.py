"""Gather from the store what passes read: changes, records, turns, and the windows of sessions.

Turns are never removed: the beginning of a window moves. Pages belong to the shared scope, so no paragraph of history
tells a session with a scope.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Literal

from reverie.consolidation.inbox import Inbox
from reverie.consolidation.passes import compact, read
from reverie.consolidation.passes.tidy import NOISE, REFUSED
from reverie.consolidation.planning.inputs import (
    CLAIMS,
    SHOWN,
    PassInput,
    WindowInput,
    apply_changes,
    build_cursor_name,
    parse_claims,
)
from reverie.consolidation.planning.material import collect_signals
from reverie.consolidation.registry import PASSES, Pass
from reverie.context.window import (
    ShownLedger,
    build_history_cursor,
    build_recalled_counter,
    build_remembered_cursor,
    build_shown_cursor,
    parse_position,
    trim_window,
)
from reverie.domain.change import Change, JournalEntry
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.filter import Filter
from reverie.domain.page import HISTORY, MEMORY
from reverie.domain.record import Record
from reverie.domain.scope import visible_scopes
from reverie.domain.text.validation import validate_count
from reverie.llm.protocol import find_known_model
from reverie.repositories.records import NewRecord
from reverie.settings import Settings
from reverie.stores.protocol import Store
from reverie.stores.writer import StoreWriter

_log = logging.getLogger("reverie")

ACTOR = "dream"
"""Actor of all changes by passes in the journal."""

WINDOW_WITHOUT_CONSOLIDATION = 10
"""Messages that stay in the window when `memory_window` is 0 (Autobot)."""

COMPACTED_SHARE = 0.8
"""Share of the tokens that a model reads above which a window is compacted."""

DEFAULT_COMPACTION_TOKENS = 50_000
"""Tokens for a model of which nothing is known (golemcore)."""

MOST_AT_ONCE = 200
"""Turns that leave the window in one plan; more leave it in several."""

WindowKind = Literal["read", "compact", "trim"]

_COUNTS = (
    *("importance", "confidence", "seen_count", "last_seen_at", "updated_at", "references", "pinned"),
    *("perhaps_replaced_by", "replaces"),
)
"""Fields whose change alone asks no model."""

_MOST_EARLIER = 400
_WEEK = timedelta(days=7)
_MONTH = timedelta(days=30)
_BATCH = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """Changes in a stretch of the journal.

    Attributes:
        until: Number of the last journal entry.
        changed: Ids of records that others than passes added or changed; a sighting alone is no change.
        turns: Turns that were added, or got a signal.
        drafts: Ids of drafts that were saved, in that order, with the numbers of their journal entries.
        claims: Whether claims of conversations wait.
    """

    until: int
    changed: frozenset[str] = frozenset()
    turns: tuple[Turn, ...] = ()
    drafts: Mapping[str, int] = field(default_factory=dict)
    claims: bool = False

    def concerns(self, registered: Pass) -> bool:
        """Return whether a pass has something to consider."""
        if "drafts" in registered.inputs:
            return bool(self.drafts)
        return self.claims if "claims" in registered.inputs else bool(self.changed or self.turns)


class InputGatherer:
    """Reads the input of passes from a store. Safe to use from several threads."""

    def __init__(
        self,
        writer: StoreWriter,
        *,
        settings: Settings,
        plan_records: Callable[[Sequence[NewRecord | Record]], Sequence[Change]],
        profile: Path | None = None,
        is_trusted: Callable[[], bool | None] = lambda: None,
    ) -> None:
        """Create a gatherer.

        Args:
            plan_records: Returns the changes that saving records would make.
            profile: Folder of the user's own prompts; None for those that ship.
            is_trusted: Returns whether the model is believed without controls; None if that is unknown.
        """
        self._is_trusted = is_trusted
        self._store = writer.store
        self._clock = writer.clock
        self._new_id = writer.new_id
        self._settings = settings
        self._plan_records = plan_records
        self._profile = profile
        self._inbox = Inbox(writer)
        self._without_drafts = 0  # number of a journal entry before which there are no drafts to consider

    def gather_basics(self) -> PassInput:
        """Return the moment and the prompts."""
        return PassInput(
            now=self._clock(),
            zone=self._settings.zone,
            promotion_min_confidence=self._settings.promotion_min_confidence,
            prompts=self._load_prompts(),
            is_trusted=self._is_trusted(),
            new_id=self._new_id,
            plan_records=self._plan_records,
        )

    def gather_news(self, registered: Pass) -> News:
        """Return what changed since a pass last read the journal."""
        news = self._read_news(self._read_cursor(registered.name), self._store.sequence())
        ids = (
            [word.rpartition(":")[2] for word in self._read_words(registered.left)] if registered.left else []
        )
        left = self._iter_turns_with_answers(ids)
        if "headlines" in registered.inputs:
            news = replace(news, changed=news.changed.union(ids))
        news = replace(news, claims=self._store.cursor(CLAIMS) is not None)
        return replace(news, turns=tuple({turn.id: turn for turn in (*left, *news.turns)}.values()))

    def gather(self, registered: Pass, news: News, planned: Sequence[Change] = ()) -> PassInput:
        """Return the input of a pass.

        Args:
            planned: Changes that earlier passes of the same plan make.
        """
        view = replace(self.gather_basics(), until=news.until)
        if "drafts" in registered.inputs:
            drafts = tuple(
                (record, news.drafts[record.id])
                for record in self._store.records(list(news.drafts))
                if record.draft and not record.archived
            )
            if not drafts:
                return view
            categories = {record.scope: self._list_categories(record.scope) for record, _ in drafts}
            view = replace(view, drafts=drafts, categories=categories)
        else:
            view = replace(view, changed=news.changed, turns=news.turns)
        view = replace(view, records=apply_changes(self._list_live_records(view.now), planned))
        if registered.left:
            view = replace(view, left=tuple(self._read_words(registered.left)))
        if "claims" in registered.inputs:
            view = self._add_claims(view)
        if "headlines" in registered.inputs:
            headlines = self._store.find(Filter(headlines=True, alive_at=view.now), order="created")
            refused = self._read_words(REFUSED)
            ended = self._store.find(Filter(headlines=True, archived=True))
            view = replace(
                view,
                headlines=tuple(headlines),
                ended=frozenset(headline.id for headline in ended),
                refused=tuple(refused),
                recalled=frozenset(self._iter_recalled()),
                dropped=self._read_dropped(view.now),
            )
        if "evidence" in registered.inputs:
            view = replace(
                view,
                earlier=self._list_earlier_turns(view),
                proposals=tuple(self._inbox.list_proposed()),
                injected=tuple(self._list_injected_texts(news.turns)),
            )
        if "signals" in registered.inputs:
            turns = (*view.earlier, *view.turns)
            signals = collect_signals(turns, view.records, now=view.now, changed=view.changed)
            view = replace(view, signals=signals)
        return view

    def gather_shown(self) -> PassInput:
        """Return the texts of models that are shown now: verified records, and headlines."""
        view = self.gather_basics()
        headlines = self._store.find(Filter(headlines=True, alive_at=view.now), order="created")
        return self._add_claims(replace(view, headlines=tuple(headlines)))

    def gather_session(self, registered: Pass, window: WindowInput) -> PassInput:
        """Return the input of a pass over the window of one session."""
        view = replace(self.gather_basics(), window=window)
        if registered.name == read.NAME:
            scope = window.state.scope
            view = replace(view, claims=parse_claims(self._store.cursor(CLAIMS)))
            own = Filter(scopes=visible_scopes(scope), alive_at=view.now)
            records = tuple(record for record in self._store.find(own) if not record.is_item)
            view = replace(view, records=records, categories={scope: self._list_categories(scope)})
        return view

    def count_drafts(self, registered: Pass) -> int:
        """Return how many drafts were saved since a pass last read the journal."""
        until = self._store.sequence()
        after = max(self._read_cursor(registered.name), self._without_drafts)
        count = len(self._read_news(after, until).drafts) if after < until else 0
        if not count:
            self._without_drafts = until
        return count

    # -- parts of the input ------------------------------------------------------------------------------

    def _read_cursor(self, name: str) -> int:
        text = self._store.cursor(build_cursor_name(name))
        return int(text) if text and text.isdecimal() else 0

    def _read_words(self, name: str) -> list[str]:
        """Return the words of a cursor, such as the ids of what the last dream had no room for."""
        return (self._store.cursor(name) or "").split()

    def _read_news(self, after: int, until: int) -> News:
        """Return what others than passes changed after a journal entry, up to and including another.

        An undo is no news: otherwise the next cycle would repeat what somebody has undone.
        """
        changed: set[str] = set()
        drafts: dict[str, int] = {}
        turns: dict[str, Turn] = {}
        place = after
        while place < until:
            entries = self._store.journal(after=place, until=until, limit=_BATCH)
            if not entries:
                break
            for entry in entries:
                value = entry.after
                if (
                    isinstance(value, Record)
                    and not value.is_headline
                    and _is_news(entry)
                    and entry.operation != "undo"
                ):
                    before = entry.before
                    if not (isinstance(before, Record) and _says_the_same(before, value)):
                        changed.add(value.id)
                    if value.draft and before is None:
                        drafts[value.id] = entry.sequence
                elif isinstance(value, Turn):
                    turns[value.id] = value
            place = entries[-1].sequence
        return News(
            until=until,
            changed=frozenset(changed),
            turns=tuple(turns.values()),
            drafts=drafts,
        )

    def _add_claims(self, view: PassInput) -> PassInput:
        """Return the input with the claims that wait, and the records and turns that they name."""
        claims, shown = (parse_claims(self._store.cursor(name)) for name in (CLAIMS, SHOWN))
        names = dict.fromkeys(
            name for each in (*claims, *shown) for name in (each.record, each.target, each.quote) if name
        )
        turns = self._store.turns(list(dict.fromkeys(name for each in claims for name in each.turns)))
        return replace(
            view,
            claims=claims,
            shown=shown,
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

    def _list_live_records(self, now: datetime) -> tuple[Record, ...]:
        records = self._store.find(Filter(alive_at=now, headlines=False), order="created")
        return tuple(record for record in records if not record.is_item)

    def _iter_recalled(self) -> Iterator[str]:
        """Yield the ids of everything that was put into a prompt at least once."""
        start = build_recalled_counter("")
        return (name.removeprefix(start) for name in self._store.cursors() if name.startswith(start))

    def _read_dropped(self, now: datetime) -> Mapping[str, int]:
        """Return the number of records archived as noise on each of the last thirty days."""
        first = (now - _MONTH).date().isoformat()
        pairs = (word.partition("=") for word in (self._store.cursor(NOISE) or "").split())
        return {day: int(count) for day, _, count in pairs if day > first and count.isdecimal()}

    def _list_categories(self, scope: str) -> tuple[str, ...]:
        """Return the categories that are visible within a scope, the most frequent first."""
        tally = self._store.tally("category", Filter(scopes=visible_scopes(scope), alive_at=self._clock()))
        return tuple(name for name in sorted(tally, key=lambda name: -tally[name]) if name)

    def _list_earlier_turns(self, view: PassInput) -> tuple[Turn, ...]:
        """Return the owner's and the assistant's turns of the week before, the earliest first."""
        if not view.turns:
            return ()
        new = {turn.id for turn in view.turns}
        wanted = Filter(created_after=view.now - _WEEK, roles=("user", "assistant"))
        earlier = (turn for turn in self._store.scan_turns(wanted) if turn.id not in new)
        return tuple(reversed(list(islice(earlier, _MOST_EARLIER))))

    def _list_injected_texts(self, turns: Sequence[Turn]) -> list[str]:
        """Return the texts that Reverie put into the prompts of these turns' sessions."""
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

    def _load_prompts(self) -> Mapping[str, str]:
        """Return the user's own prompts under the names of those that ship."""
        prompts = {}
        named = [
            (name, getattr(self._settings, each.prompt_setting) if each.prompt_setting and not at else name)
            for each in PASSES.values()
            for at, name in enumerate(each.prompts)
        ]
        for name, file in named:
            path = None if self._profile is None or not file else self._profile / file
            if path is None or not path.is_file():
                continue
            try:
                prompts[name] = path.read_text(encoding="utf-8-sig")
            except (OSError, UnicodeDecodeError) as error:
                _log.warning("the prompt %r cannot be read, the one that ships is used: %s", str(path), error)
        return prompts


def _is_news(entry: JournalEntry) -> bool:
    """Return whether others than passes made a change, or a pass wrote down what was said, or brought it back.

    The reference of a dream that was applied as one plan does not tell which pass of it made a change.
    """
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DueWindow:
    """A session whose window is to be shortened.

    Attributes:
        session: Its id.
        kind: `read`, `compact`, or `trim` if nothing is written about it.
    """

    session: str
    kind: WindowKind


class WindowReader:
    """Reads windows from one store. Safe to use from several threads."""

    def __init__(self, store: Store, *, settings: Settings, model: str = "") -> None:
        self._model_name = model
        self._store = store
        self._settings = settings

    def due(self) -> Iterator[DueWindow]:
        """Yield the sessions whose windows have grown too long, the latest active first."""
        window = self._settings.memory_window
        for overview in self._store.sessions():
            state = overview.state
            length = overview.turns - state.window_start
            if window == 0:
                if length > WINDOW_WITHOUT_CONSOLIDATION:
                    yield DueWindow(session=state.id, kind="trim")
            elif length > window:
                yield DueWindow(session=state.id, kind="compact" if state.scope else "read")
            elif self._settings.compaction_enabled and length > self._settings.compaction_keep:
                turns = self._read_turns(state)
                if compact.estimate(turns) > compute_compaction_tokens(self._settings, self._model_name):
                    yield DueWindow(session=state.id, kind="compact")

    def read(self, session: str, kind: str, *, keep: int | None = None, is_read: bool = True) -> WindowInput:
        """Return what a pass over the window of a session reads.

        Args:
            kind: `read`, `compact` or `trim`.
            keep: About how many turns stay, 0 or more; None takes what the settings say.
            is_read: Whether a model reads the turns. Otherwise they are only told in `HISTORY.md`, and stay unread.

        Raises:
            NotFound: there is no such session.
            InvalidInput: `keep` is negative.
        """
        if keep is not None:
            validate_count(keep, name="keep", least=0)
        state = self._store.session(session)
        if state is None:
            raise NotFound(f"there is no session {session!r}: `reverie sessions` lists them")
        turns = self._read_turns(state)
        if kind == read.NAME:
            return self._read_new_turns(state, turns, keep, is_read=is_read)
        start, older = self._find_leaving(
            state, turns, self._count_kept_turns(kind) if keep is None else keep
        )
        return WindowInput(state=state, older=tuple(older), start=start)

    def _find_leaving(self, state: SessionState, turns: Sequence[Turn], keep: int) -> tuple[int, list[Turn]]:
        """Return where a window is to begin, and the turns that leave it."""
        tail = trim_window(turns, keep)
        start = tail[0].position if tail else (turns[-1].position + 1 if turns else state.window_start)
        older = [turn for turn in turns if turn.position < start]
        if len(older) > MOST_AT_ONCE:
            older = _select_first_turns(older, MOST_AT_ONCE)
            start = older[-1].position + 1
        return start, older

    def read_remembered_position(self, session: str) -> int:
        """Return the position of the first turn of a session that was not read for facts."""
        return parse_position(self._store.cursor(build_remembered_cursor(session)))

    def _read_new_turns(
        self, state: SessionState, turns: Sequence[Turn], keep: int | None, *, is_read: bool
    ) -> WindowInput:
        """Return the turns that were not read, the earliest first, and where the window is to begin if that is due."""
        told = parse_position(self._store.cursor(build_history_cursor(state.id)))
        read_from = self.read_remembered_position(state.id) if is_read else max(told, state.window_start)
        new = self._store.turns(session=state.id, start=read_from)
        new = _select_first_turns(new, MOST_AT_ONCE) if len(new) > MOST_AT_ONCE else new
        window, start = self._settings.memory_window, state.window_start
        if not state.scope and (keep is not None or (window and len(turns) > window)):
            start, _ = self._find_leaving(state, turns, compute_kept_count(window) if keep is None else keep)
            start = min(start, new[-1].position + 1) if new else start
        last = self._store.paragraphs(page=HISTORY, start=-1)
        return WindowInput(
            state=state,
            older=tuple(new),
            start=start,
            read_from=read_from,
            told=told,
            position=last[0].position + 1 if last else 1.0,
        )

    def _count_kept_turns(self, kind: str) -> int:
        return WINDOW_WITHOUT_CONSOLIDATION if kind == "trim" else self._settings.compaction_keep

    def _read_turns(self, state: SessionState) -> list[Turn]:
        return self._store.turns(session=state.id, start=state.window_start)


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


def compute_kept_count(memory_window: int) -> int:
    """Return how many messages stay in the window: `min(10, max(2, window // 2))` (Autobot)."""
    return min(10, max(2, memory_window // 2))


def _select_first_turns(turns: Sequence[Turn], most: int) -> list[Turn]:
    """Return about so many of the first turns, without separating a tool call from its results."""
    rest = trim_window(turns, len(turns) - most)
    end = rest[0].position if rest else turns[-1].position + 1
    return [turn for turn in turns if turn.position < end] or list(turns)
