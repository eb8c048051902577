"""Prompt context: budget, ledger, rendering and the pack. Imports `search` and `domain`.

Plain functions over values. No store, clock, model or file is visible here.
"""

from reverie.context.budget import TokenBudget
from reverie.context.ledger import ShownLedger
from reverie.context.pack import (
    CandidateDecision,
    Pack,
    PackDiagnostics,
    PackInput,
    PackSection,
    StaticContext,
    build,
)
from reverie.context.window import ReplayWindow, to_chat_messages, trim_window

__all__ = [
    "CandidateDecision",
    "Pack",
    "PackDiagnostics",
    "PackInput",
    "PackSection",
    "ReplayWindow",
    "ShownLedger",
    "StaticContext",
    "TokenBudget",
    "build",
    "to_chat_messages",
    "trim_window",
]
