"""The three prompts of the server, built from the memory on request.

Recalled content is quoted as data, as in every prompt of Reverie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import mcp_types as types
from mcp.shared.exceptions import MCPError

from reverie.context import render as rendering
from reverie.domain.text import escaping
from reverie.interfaces.mcp import resources
from reverie.interfaces.mcp.offer import ServedMemory
from reverie.search.hits import SOURCES

_MOST_RECALLED = 20
_SESSION = "mcp:prompt"
_LONGEST = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prompt:
    """One prompt: its description, its text, and the completion of its arguments."""

    definition: types.Prompt
    render: Callable[[ServedMemory, Mapping[str, str]], str]
    complete: Mapping[str, Callable[[ServedMemory, str], Iterable[str]]]


def list_prompts(offer: ServedMemory) -> list[types.Prompt]:
    """Return all prompts."""
    return [prompt.definition for prompt in _collect_prompts(offer).values()]


def get_prompt(offer: ServedMemory, name: str, arguments: Mapping[str, str] | None) -> types.GetPromptResult:
    """Return a prompt with its arguments filled in.

    Raises:
        MCPError: the prompt does not exist, or an argument is missing, unknown or too long.
    """
    prompts = _collect_prompts(offer)
    if name not in prompts:
        raise MCPError(
            types.INVALID_PARAMS, f"Unknown prompt {name[:80]!r}. Known prompts: {', '.join(prompts)}."
        )
    prompt = prompts[name]
    values = {key: text.strip() for key, text in (arguments or {}).items()}
    known = {each.name: bool(each.required) for each in prompt.definition.arguments or ()}
    missing = [each for each, required in known.items() if required and not values.get(each)]
    unknown = [each for each in values if each not in known]
    if missing or unknown:
        wrong = f"needs {', '.join(missing)}" if missing else f"takes {', '.join(known)}"
        raise MCPError(types.INVALID_PARAMS, f"{name} {wrong}.")
    if any(len(text) > _LONGEST for text in values.values()):
        raise MCPError(types.INVALID_PARAMS, f"An argument of {name} has more than {_LONGEST:,} characters.")
    text = types.TextContent(type="text", text=prompt.render(offer, values))
    return types.GetPromptResult(
        description=prompt.definition.description, messages=[types.PromptMessage(role="user", content=text)]
    )


def complete_argument(offer: ServedMemory, name: str, argument: str, prefix: str) -> Iterable[str]:
    """Return values that complete an argument, most likely first; none for free text."""
    prompt = _collect_prompts(offer).get(name)
    complete = None if prompt is None else prompt.complete.get(argument)
    return () if complete is None else complete(offer, prefix)


def _collect_prompts(offer: ServedMemory) -> dict[str, _Prompt]:
    known = (_WHAT, _REMEMBER, _CONTEXT) if offer.find_tool("save_memory") else (_WHAT, _CONTEXT)
    return {prompt.definition.name: prompt for prompt in known}


def _render_recall_prompt(offer: ServedMemory, given: Mapping[str, str]) -> str:
    about = given.get("about", "")
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


def _remember(offer: ServedMemory, given: Mapping[str, str]) -> str:
    tool = offer.find_tool("save_memory")
    where = f" with the category {escaping.escape_line(given['category'])}" if given.get("category") else ""
    return (
        f"Remember this for the long term: call {tool}{where}, once for each separate fact, each in one "
        "sentence that can be understood by itself, without adding anything to it. Then tell me the ids.\n\n"
        f"{given['what']}"
    )


def _render_context_prompt(offer: ServedMemory, given: Mapping[str, str]) -> str:
    message = given["message"]
    session = offer.view.session(given.get("session") or offer.session or _SESSION)
    pack = session.context(message, record_shown=False)
    return f"{pack.text}\n\n{message}" if pack.text else message


def _complete_topics(offer: ServedMemory, prefix: str) -> Iterable[str]:
    """Return tags and the last words of categories, the most used first."""
    counts = dict(offer.view.tags())
    for category, count in offer.view.categories().items():
        words = category.rpartition("/")[2].replace("-", " ").replace("_", " ")
        counts[words] = counts.get(words, 0) + count
    ranked = sorted(counts, key=lambda each: (-counts[each], each))
    return (each for each in ranked if each and each.lower().startswith(prefix.lower()))


def _complete_categories(offer: ServedMemory, prefix: str) -> Iterable[str]:
    return (each for each in sorted(offer.view.categories()) if each and each.startswith(prefix))


_WHAT = _Prompt(
    definition=types.Prompt(
        name="what-do-you-remember",
        title="What do you remember?",
        description="What is remembered about a topic, or lately, told from memory alone.",
        arguments=[types.PromptArgument(name="about", description="The topic; left out, what is newest.")],
    ),
    render=_render_recall_prompt,
    complete={"about": _complete_topics},
)
_REMEMBER = _Prompt(
    definition=types.Prompt(
        name="remember-this",
        title="Remember this",
        description="Have something saved for the long term.",
        arguments=[
            types.PromptArgument(name="what", description="What to remember.", required=True),
            types.PromptArgument(name="category", description="A category such as project-context/atlas."),
        ],
    ),
    render=_remember,
    complete={"category": _complete_categories},
)
_CONTEXT = _Prompt(
    definition=types.Prompt(
        name="context-for",
        title="Context for a message",
        description="A message with everything before it that is remembered and matters for it.",
        arguments=[
            types.PromptArgument(name="message", description="The message.", required=True),
            types.PromptArgument(name="session", description="The conversation that it belongs to."),
        ],
    ),
    render=_render_context_prompt,
    complete={"session": resources.complete_session_ids},
)
