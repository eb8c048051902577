"""Shorten a session's window without keeping anything of what leaves it."""

from __future__ import annotations

from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.inputs import PassInput, WindowInput

NAME = "trim"


def trim(view: PassInput, window: WindowInput) -> Plan:
    """Return the plan that moves the beginning of the window. The turns stay stored."""
    if window.is_short:
        return view.build_plan(NAME, skipped="the window is short enough")
    return view.build_plan(NAME, steps=(window.move(),))
