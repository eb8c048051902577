"""Tools that a model may call, neutral towards providers.

Imports `repositories`, `context` and what is below.
"""

from reverie.tools.large_results import with_chunking
from reverie.tools.registry import DEFAULT_GROUPS, GROUPS, memory_tools
from reverie.tools.toolset import Approve, Tool, ToolResult, Toolset

__all__ = [
    "DEFAULT_GROUPS",
    "GROUPS",
    "Approve",
    "Tool",
    "ToolResult",
    "Toolset",
    "memory_tools",
    "with_chunking",
]
