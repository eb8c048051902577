"""Compaction: the window of a session moves, with or without a summary of the turns that leave it.

Turns are never deleted: the window moves, and the turns stay stored and searchable. Without a model, or when
it fails, the window moves all the same, as in golemcore.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

from reverie.consolidation.answers import UnusableReply, fill_places, strip_reasoning
from reverie.consolidation.flows import Flow
from reverie.consolidation.plan_builder import find_new_injection
from reverie.consolidation.values import PassInput, Plan, format_transcript
from reverie.domain import provenance
from reverie.domain.conversation import Turn
from reverie.domain.text import escaping, validation
from reverie.llm.protocol import ChatMessage, ModelReply, ModelRequest, TokenUsage

NAME = "compact"
PROMPT = "compact.md"

CHARACTERS_PER_TOKEN = 3.5
OVERHEAD_TOKENS = 8_000
"""Tokens of the system prompt and the tools' schemas (golemcore's estimate)."""

LONGEST_MESSAGE = 300
"""Characters of one message in the request."""

MAX_TOKENS = 500
TIMEOUT_S = 15.0
TEMPERATURE = 0.3

_LONGEST_SUMMARY = 20_000


def estimate(turns: Sequence[Turn]) -> int:
    """Estimate the tokens of a prompt with these turns: characters / 3.5 + 8,000 (golemcore), rounded down."""
    characters = sum(
        len(turn.content) + sum(len(call.arguments) for call in turn.tool_calls) for turn in turns
    )
    return floor(characters / CHARACTERS_PER_TOKEN) + OVERHEAD_TOKENS


def compact(view: PassInput) -> Flow[Plan]:
    """Summarise the turns that leave the window."""
    window = view.get_window()
    if not window.is_moving:
        return view.build_plan(NAME, skipped="the window has nothing to be summarised")
    state, older = window.state, window.older
    note, summary, usage = "nothing was said in words", "", TokenUsage()
    if conversation := format_transcript(older, longest=LONGEST_MESSAGE):
        before = f"What was said before these messages:\n{escaping.fence(state.summary)}\n\n"
        places = {"summary": before if state.summary else "", "conversation": conversation}
        text = fill_places(view.prompt(PROMPT), places)
        reply = yield ModelRequest(
            messages=(ChatMessage(role="user", content=text),),
            purpose=NAME,
            max_tokens=MAX_TOKENS,
            temperature=TEMPERATURE,
            timeout_s=TIMEOUT_S,
        )
        usage = reply.usage
        if isinstance(reply, ModelReply):
            spoken = (turn.content for turn in older if turn.role != "tool")
            summary, note = _read_summary(reply, [state.summary, *spoken])
        else:
            note = f"no summary: {reply.why}"
    origins = (provenance.get_summary_origin(state), *(turn.origin for turn in older))
    after = provenance.set_summary(state, summary or state.summary, origin=provenance.least_trusted(*origins))
    leaving = f"turns that leave the window: {len(older)}"
    why = f"summary of {leaving}" if summary else f"{leaving} ({note})"
    step = window.move(why=why, summary=after.summary, metadata=after.metadata)
    return view.build_plan(NAME, steps=(step,), notes=() if summary else (note,), usage=usage)


def _read_summary(reply: ModelReply, sources: Sequence[str]) -> tuple[str, str]:
    """Return the summary of some texts in a reply; without one, an empty text and the reason."""
    try:
        text = validation.clean_text(strip_reasoning(reply.text)).strip()[:_LONGEST_SUMMARY]
    except UnusableReply as error:
        return "", f"no summary: {error}"
    if not text or reply.finish == "refused":
        return "", "no summary: the answer is empty or was refused"
    if why := find_new_injection(sources, " ".join(text.split())):
        return "", f"no summary: {why}"
    return f"{text} …" if reply.finish == "length" else text, ""
