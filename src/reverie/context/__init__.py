"""What goes into the prompt this turn? Budget, delta, rendering and the pack; plain functions over values.

Nothing here sees a store, a clock, a model or a file: what was found, what was shown before and the
texts of the profile are handed in.
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
