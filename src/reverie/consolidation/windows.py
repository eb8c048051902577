"""Find the sessions whose windows have grown too long, and read what a pass over one needs.

Turns are never removed: the beginning of the window moves. Pages belong to everybody, so the window of a
session with a scope is never digested, only compacted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from reverie.consolidation.passes import compact, digest, remember
from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.inputs import WindowInput
from reverie.context.ledger import build_remembered_cursor, parse_position
from reverie.context.window import trim_window
from reverie.domain.change import Change
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.dataclass import dataclass, replace
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.page import HISTORY, MEMORY, Page
from reverie.domain.similarity.three_way_merge import merge_text
from reverie.domain.text.validation import validate_count
from reverie.settings import Settings
from reverie.stores.protocol import Store

WINDOW_WITHOUT_CONSOLIDATION = 10
"""Messages that stay in the window when `memory_window` is 0 (Autobot)."""

MOST_AT_ONCE = 200
"""Turns that leave the window in one plan; more leave it in several."""

WindowKind = Literal["digest", "compact", "trim", "remember"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DueWindow:
    """A session whose window is to be shortened.

    Attributes:
        session: Its id.
        kind: `digest`, `compact`, or `trim` where nothing is kept of what leaves.
    """

    session: str
    kind: WindowKind


class WindowReader:
    """Reads windows from one store. Safe to use from several threads."""

    def __init__(self, store: Store, *, settings: Settings) -> None:
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
                yield DueWindow(session=state.id, kind="compact" if state.scope else "digest")
            elif self._settings.compaction_enabled and length > self._settings.compaction_keep:
                turns = self._read_turns(state)
                if compact.estimate(turns) > self._settings.compaction_tokens:
                    yield DueWindow(session=state.id, kind="compact")

    def read(self, session: str, kind: str, *, keep: int | None = None) -> WindowInput:
        """Return what a pass over the window of a session reads.

        Args:
            kind: `digest`, `compact`, `trim`, or `remember` for the turns that were not read for facts.
            keep: About how many turns stay, 0 or more; None takes what the settings say.

        Raises:
            NotFound: there is no such session.
            InvalidInput: `keep` is negative, or a session with a scope would get onto the pages.
        """
        if keep is not None:
            validate_count(keep, name="keep", least=0)
        state = self._store.session(session)
        if state is None:
            raise NotFound(f"there is no session {session!r}: `reverie sessions` lists them")
        if state.scope and kind == "digest":
            raise InvalidInput(
                f"session {session!r} belongs to {state.scope!r}, and pages are everybody's: use compact"
            )
        if kind == remember.NAME:
            return self._read_new_turns(state)
        turns = self._read_turns(state)
        tail = trim_window(turns, self._count_kept_turns(kind) if keep is None else keep)
        start = tail[0].position if tail else (turns[-1].position + 1 if turns else state.window_start)
        older = [turn for turn in turns if turn.position < start]
        if len(older) > MOST_AT_ONCE:
            older = _select_first_turns(older, MOST_AT_ONCE)
            start = older[-1].position + 1
        window = WindowInput(state=state, older=tuple(older), start=start)
        return self._add_pages(window) if kind == digest.NAME else window

    def rebase(self, plan: Plan) -> Plan:
        """Return the plan over the present pages. What somebody else wrote meanwhile wins."""
        steps = []
        for step in plan.steps:
            before, after = step.edit.before, step.edit.after
            if isinstance(after, Page):
                pages = self._store.pages([after.name])
                present = pages[0] if pages else None
                if present != before:
                    base = before.content if isinstance(before, Page) else ""
                    theirs = present.content if present is not None else ""
                    content = merge_text(base, after.content, theirs)
                    step = replace(step, edit=Change(before=present, after=replace(after, content=content)))
            steps.append(step)
        return replace(plan, steps=tuple(steps))

    def read_remembered_position(self, session: str) -> int:
        """Return the position of the first turn of a session that was not read for facts."""
        return parse_position(self._store.cursor(build_remembered_cursor(session)))

    def _read_new_turns(self, state: SessionState) -> WindowInput:
        """Return the turns of a session that were not read for facts, the latest of them if there are many."""
        start = self.read_remembered_position(state.id)
        turns = self._store.turns(session=state.id, start=start)
        end = turns[-1].position + 1 if turns else start
        return WindowInput(state=state, older=tuple(turns[-MOST_AT_ONCE:]), start=end)

    def _count_kept_turns(self, kind: str) -> int:
        if kind == "trim":
            return WINDOW_WITHOUT_CONSOLIDATION
        if kind == "compact":
            return self._settings.compaction_keep
        return digest.compute_kept_count(self._settings.memory_window)

    def _read_turns(self, state: SessionState) -> list[Turn]:
        return self._store.turns(session=state.id, start=state.window_start)

    def _add_pages(self, window: WindowInput) -> WindowInput:
        pages = self._store.pages([MEMORY])
        last = self._store.paragraphs(page=HISTORY, start=-1)
        position = last[0].position + 1 if last else 1.0
        return replace(window, page=pages[0] if pages else None, position=position)


def _select_first_turns(turns: Sequence[Turn], most: int) -> list[Turn]:
    """Return about so many of the first turns, without separating a tool call from its results."""
    rest = trim_window(turns, len(turns) - most)
    end = rest[0].position if rest else turns[-1].position + 1
    return [turn for turn in turns if turn.position < end] or list(turns)
