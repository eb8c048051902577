"""Shorten a session's window without keeping anything of what leaves it."""

from __future__ import annotations

from dataclasses import replace

from reverie.consolidation.plan import Plan, PlanStep
from reverie.consolidation.planning.inputs import PassInput, WindowInput
from reverie.consolidation.planning.plan_combination import build_skipped_plan
from reverie.domain.change import Change

NAME = "trim"


def trim(view: PassInput, window: WindowInput) -> Plan:
    """Return the plan that moves the beginning of the window. The turns stay stored."""
    if not window.older or window.start <= window.state.window_start:
        return build_skipped_plan(view, NAME, "the window is short enough")
    step = PlanStep(
        edit=Change(before=window.state, after=replace(window.state, window_start=window.start)),
        why=f"turns that leave the window: {len(window.older)}",
        sources=tuple(turn.id for turn in window.older),
    )
    return Plan(id=view.new_id(), name=NAME, made_at=view.now, steps=(step,))
