"""What goes into the prompt this turn? Budget, delta, rendering and the pack; plain functions over values.

Nothing here sees a store, a clock, a model or a file: what was found, what was shown before and the
texts of the profile are handed in.
"""

from reverie.context.budget import Budget
from reverie.context.ledger import Shown
from reverie.context.pack import Choice, Diagnostics, Pack, Section, Standing, build
from reverie.context.window import Replay, chat_messages, tool_safe_tail

__all__ = [
    "Budget",
    "Choice",
    "Diagnostics",
    "Pack",
    "Replay",
    "Section",
    "Shown",
    "Standing",
    "build",
    "chat_messages",
    "tool_safe_tail",
]
