"""What may a model do with a memory? Call tools, neutral towards every provider."""

from reverie.tools.base import Approve, Told, Tool, Toolset
from reverie.tools.everything import DEFAULT_GROUPS, GROUPS, memory_tools
from reverie.tools.large import chunking
from reverie.tools.remembering import Remembering

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
