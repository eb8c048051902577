"""When does a conversation's window get shorter, and what stands for what left it? Gathers, asks, and writes.

`passes.digest` makes a paragraph of `HISTORY.md` and an update of `MEMORY.md` of what leaves, `compact`
a summary in the session itself. Pages are everybody's, so a session that belongs to a scope is only ever
compacted. Turns are never removed: the window's beginning moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from reverie.consolidation.passes import compact, digest
from reverie.consolidation.plan import Plan, PlanStep
from reverie.consolidation.planning.driver import run_pass
from reverie.consolidation.planning.inputs import PassInput
from reverie.context.window import trim_window
from reverie.domain.change import Change
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.page import HISTORY, MEMORY, Page
from reverie.domain.similarity.three_way_merge import merge_text
from reverie.llm.messages import ModelFailure, ModelReply, ModelRequest
from reverie.settings import Settings
from reverie.stores.protocol import Store

WINDOW_WITHOUT_CONSOLIDATION = 10
"""Messages that stay in the window when `memory_window` is 0 (Autobot)."""

MOST_AT_ONCE = 200
"""Turns that leave the window in one plan; more leave it in several."""

Kind = Literal["digest", "compact", "trim"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DueWindow:
    """A session whose window is to be shortened.

    Attributes:
        session: Its id.
        kind: `digest`, `compact`, or `trim` where nothing is to be kept of what leaves.
    """

    session: str
    kind: Kind


class WindowConsolidator:
    """Shortens windows over one store; keeps nothing itself. Safe to use from several threads."""

    def __init__(
        self,
        store: Store,
        *,
        settings: Settings,
        answer: Callable[[ModelRequest], ModelReply | ModelFailure],
        view: Callable[[], PassInput],
        input_limit: int | None = None,
    ) -> None:
        """Shorten the windows of a store's sessions.

        Args:
            store: Where they are.
            settings: The settings.
            answer: Answers a pass; never raises.
            view: The moment and the prompts.
            input_limit: How many tokens the model can read; None where that is not known.
        """
        self._store = store
        self._settings = settings
        self._answer = answer
        self._view = view
        self._input_limit = input_limit

    def due(self) -> Iterator[DueWindow]:
        """The sessions whose windows have grown too long, the latest active first."""
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
                turns = self._select_window(state)
                if compact.is_due(
                    turns, most_tokens=self._settings.compaction_tokens, input_limit=self._input_limit
                ):
                    yield DueWindow(session=state.id, kind="compact")

    def plan(self, session: str, kind: Kind, *, keep: int | None = None) -> Plan:
        """What would become of a session's window now; nothing is written.

        Args:
            session: The session's id.
            kind: `digest`, `compact` or `trim`.
            keep: How many turns stay, about, 0 or more; None takes what the settings and the seeds say.

        Raises:
            NotFound: there is no such session.
            InvalidInput: `keep` is negative, or a session that belongs to a scope would get onto the pages.
        """
        if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 0):
            raise InvalidInput(f"keep is {keep!r}: it is a whole number from 0")
        state = self._store.session(session)
        if state is None:
            raise NotFound(f"there is no session {session!r}: `reverie sessions` lists them")
        if state.scope and kind == "digest":
            raise InvalidInput(
                f"session {session!r} belongs to {state.scope!r}, and pages are everybody's: use compact"
            )
        turns = self._select_window(state)
        stays = self._compute_kept_count(kind) if keep is None else keep
        tail = trim_window(turns, stays)
        end = tail[0].position if tail else (turns[-1].position + 1 if turns else state.window_start)
        older = [turn for turn in turns if turn.position < end]
        if len(older) > MOST_AT_ONCE:
            older = _select_first_turns(older, MOST_AT_ONCE)
            end = older[-1].position + 1
        view = self._view()
        if kind == "trim":
            return _plan_trim(view, state, older, start=end)
        if kind == "compact":
            return run_pass(compact.compact(view, state, older, start=end), self._answer)
        flow = digest.digest(view, state, older, start=end, notes=self._load_notes())
        return run_pass(flow, self._answer)

    def rebase_plan(self, plan: Plan) -> Plan:
        """The plan on the pages as they are now: what somebody else wrote meanwhile stays, and wins."""
        steps = []
        for step in plan.steps:
            before, after = step.edit.before, step.edit.after
            if isinstance(after, Page):
                found = self._store.pages([after.name])
                present = found[0] if found else None
                if present != before:
                    base = before.content if isinstance(before, Page) else ""
                    theirs = present.content if present is not None else ""
                    content = merge_text(base, after.content, theirs)
                    step = replace(step, edit=Change(before=present, after=replace(after, content=content)))
            steps.append(step)
        return replace(plan, steps=tuple(steps))

    def _compute_kept_count(self, kind: Kind) -> int:
        if kind == "trim":
            return WINDOW_WITHOUT_CONSOLIDATION
        if kind == "compact":
            return self._settings.compaction_keep
        return digest.compute_kept_count(self._settings.memory_window)

    def _select_window(self, state: SessionState) -> list[Turn]:
        return self._store.turns(session=state.id, start=state.window_start)

    def _load_notes(self) -> digest.DigestPages:
        found = self._store.pages([MEMORY])
        last = self._store.paragraphs(page=HISTORY, start=-1)
        position = last[0].position + 1 if last else 1.0
        return digest.DigestPages(page=found[0] if found else None, name=MEMORY, position=position)


def _plan_trim(view: PassInput, state: SessionState, older: Sequence[Turn], *, start: int) -> Plan:
    if not older or start <= state.window_start:
        return Plan(id=view.new_id(), name="trim", made_at=view.now, skipped="the window is short enough")
    step = PlanStep(
        edit=Change(before=state, after=replace(state, window_start=start)),
        why=f"{len(older)} turns leave the window",
        sources=tuple(turn.id for turn in older),
    )
    return Plan(id=view.new_id(), name="trim", made_at=view.now, steps=(step,))


def _select_first_turns(turns: Sequence[Turn], most: int) -> list[Turn]:
    """The first turns, about so many, without parting a call of tools from its results."""
    rest = trim_window(turns, len(turns) - most)
    end = rest[0].position if rest else turns[-1].position + 1
    return [turn for turn in turns if turn.position < end] or list(turns)
