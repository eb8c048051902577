"""What may a model do with a memory? Call tools, neutral towards every provider."""

from reverie.tools.base import Approve, Told, Tool, Toolset
from reverie.tools.long_term import Remembering, memory_tools

__all__ = ["Approve", "Remembering", "Told", "Tool", "Toolset", "memory_tools"]
