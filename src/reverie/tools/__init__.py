"""What may a model do with a memory? Call tools, neutral towards every provider."""

from reverie.tools.large_results import chunking
from reverie.tools.memory_protocol import Remembering
from reverie.tools.registry import DEFAULT_GROUPS, GROUPS, memory_tools
from reverie.tools.toolset import Approve, Told, Tool, Toolset

__all__ = [
    "DEFAULT_GROUPS",
    "GROUPS",
    "Approve",
    "Remembering",
    "Told",
    "Tool",
    "Toolset",
    "chunking",
    "memory_tools",
]
