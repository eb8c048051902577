"""The prompt of the server: what is remembered about a topic.

Recalled content is quoted as data, as in every prompt of Reverie.
"""

from __future__ import annotations

from collections.abc import Mapping

import mcp_types as types
from mcp.shared.exceptions import MCPError

from reverie.context import render as rendering
from reverie.domain.text import escaping
from reverie.interfaces.mcp.offer import ServedMemory
from reverie.search.hits import SOURCES

PROMPT = types.Prompt(
    name="what-do-you-remember",
    title="What do you remember?",
    description="What is remembered about a topic, or lately, told from memory alone.",
    arguments=[types.PromptArgument(name="about", description="The topic; left out, what is newest.")],
)

_MOST_RECALLED = 20
_LONGEST = 10_000


def get_prompt(offer: ServedMemory, name: str, arguments: Mapping[str, str] | None) -> types.GetPromptResult:
    """Return the prompt with its argument filled in.

    Raises:
        MCPError: the prompt does not exist, or the argument is unknown or too long.
    """
    if name != PROMPT.name:
        raise MCPError(
            types.INVALID_PARAMS, f"Unknown prompt {name[:80]!r}. The only prompt is {PROMPT.name}."
        )
    given = dict(arguments or {})
    about = given.pop("about", "").strip()
    if given:
        raise MCPError(types.INVALID_PARAMS, f"{name} takes only the argument about.")
    if len(about) > _LONGEST:
        raise MCPError(types.INVALID_PARAMS, f"The argument about has more than {_LONGEST:,} characters.")
    text = types.TextContent(type="text", text=_render(offer, about))
    return types.GetPromptResult(
        description=PROMPT.description, messages=[types.PromptMessage(role="user", content=text)]
    )


def _render(offer: ServedMemory, about: str) -> str:
    hits = offer.view.search(about or None, sources=SOURCES, limit=_MOST_RECALLED)
    topic = f" about {escaping.escape_line(about)}" if about else ""
    if not hits:
        return (
            f"What do you remember{topic}? I looked in my memory, and there is nothing{topic}. "
            "Tell me so; do not make anything up."
        )
    lines = "\n".join(rendering.render_hit(hit) for hit in hits)
    return (
        f"What do you remember{topic}? This is what my memory has. {escaping.NOTICE}\n\n{lines}\n\n"
        "Tell me in your own words, with the ids of what you rely on. Say what contradicts itself or is old, "
        "and do not add anything that is not there."
    )
