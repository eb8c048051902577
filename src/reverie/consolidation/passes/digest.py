"""Digest of turns that leave the window: a paragraph of `HISTORY.md` and an update of the notes.

Autobot's consolidation with safeguards. The paragraph, the notes and the new beginning of the window are one
plan. A line of the notes that the model left out is kept unless something replaces it. A failed request
changes nothing. Without a model the paragraph is made by rule, and the notes stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from reverie.consolidation.plan import Plan, PlanStep, Rejection
from reverie.consolidation.planning.driver import NO_MODEL, Flow
from reverie.consolidation.planning.inputs import DigestPages, PassInput
from reverie.consolidation.planning.reply_parsing import UnusableReply, parse_json, to_text
from reverie.consolidation.planning.transcript import format_transcript
from reverie.domain import provenance
from reverie.domain.change import Change
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.page import HISTORY, Page, Paragraph, build_session_source
from reverie.domain.record import UNTRUSTED
from reverie.domain.similarity.rewrites import guard_rewrite
from reverie.domain.text import validation
from reverie.domain.text.escaping import fence, remove_fence, unquoted_text
from reverie.llm.messages import ChatMessage, ModelFailure, ModelReply, ModelRequest

NAME = "digest"
PROMPT = "digest.md"

LEAST_KEPT = 2
MOST_KEPT = 10
"""Messages that stay in the window, at least and at most (Autobot)."""

LONGEST_MESSAGE = 2_000
MOST_TOKENS = 4_000
LONGEST_NOTES = 20_000
"""Characters that notes may grow to by a model's word, four times what a prompt shows of them by default. A
person may write more; then a model may only not make it longer."""

_LONGEST_PARAGRAPH = 4_000
_LONGEST_HEADLINE = 160
_MOST_SENTENCES = 3

TRIGGERS = (
    "decided", "conclusion", "important", "remember", "note that", "key insight", "learned that",
    "will use", "should use", "agreed",
)  # fmt: skip
"""Words of sentences that are worth keeping (agentkit's session consolidation)."""

_TRIGGER = re.compile(rf"\b(?:{'|'.join(TRIGGERS)})\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_STAMP = re.compile(r"\[?\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(?::\d{2})?\]?:?\s*")
SCHEMA: Mapping[str, Any] = MappingProxyType(
    {
        "type": "object",
        "properties": {"history_entry": {"type": "string"}, "memory_update": {"type": "string"}},
        "required": ["history_entry", "memory_update"],
    }
)


def compute_kept_count(memory_window: int) -> int:
    """Return how many messages stay in the window: `min(10, max(2, window // 2))` (Autobot)."""
    return min(MOST_KEPT, max(LEAST_KEPT, memory_window // 2))


def digest(
    view: PassInput, state: SessionState, older: Sequence[Turn], *, start: int, notes: DigestPages
) -> Flow[Plan]:
    """Digest the turns that leave the window.

    Args:
        view: The moment and the prompts.
        state: The session as it is.
        older: The turns that leave the window, the earliest first.
        start: The position of the first turn that stays.
        notes: The pages as they are.
    """
    if not older or start <= state.window_start:
        return Plan(
            id=view.new_id(), name=NAME, made_at=view.now, skipped="no turn is due to leave the window"
        )
    conversation = format_transcript(older, longest=LONGEST_MESSAGE)
    if not conversation:
        return _plan(view, state, older, start, [])
    reply = yield _build_request(view, conversation, notes)
    if isinstance(reply, ModelReply):
        try:
            entry, update = _parse_answer(reply)
        except UnusableReply as error:
            return _build_failed_plan(view, str(error), reply)
        steps, refused = _build_steps(view, older, entry, update, notes)
        plan = _plan(view, state, older, start, steps)
        return replace(plan, refused=refused, usage=reply.usage)
    if reply.why != NO_MODEL.why:
        return _build_failed_plan(view, reply.why, reply)
    steps, _ = _build_steps(view, older, build_headline(older), "", notes)
    return replace(
        _plan(view, state, older, start, steps), notes=("no model: the paragraph was made by rule",)
    )


def build_headline(turns: Sequence[Turn]) -> str:
    """Return what turns are about, by rule: how many, the first request, and stated decisions.

    Args:
        turns: The turns, the earliest first.
    """
    said = [turn for turn in turns if turn.role in {"user", "assistant"} and turn.content.strip()]
    first = next((turn for turn in said if turn.role == "user"), said[0] if said else None)
    parts = [f"{len(said)} messages"]
    if first is not None:
        parts[0] += f", beginning with “{_cut(_split_sentences(first.content)[0])}”"
    stated = (
        sentence for turn in said for sentence in _split_sentences(turn.content) if _TRIGGER.search(sentence)
    )
    parts += [_cut(sentence) for sentence in list(dict.fromkeys(stated))[:_MOST_SENTENCES]]
    return " ".join(part if part.endswith((".", "!", "?", "…")) else f"{part}." for part in parts)


def stamp_paragraph(text: str, at: datetime) -> str:
    """A paragraph of history: on one line, beginning with its time and no other.

    >>> stamp_paragraph("2025-01-15 10:30: User asked.", datetime(2025, 1, 15, 10, 31))
    '[2025-01-15 10:31] User asked.'
    """
    folded = " ".join(validation.clean_text(text).split())
    return f"[{at:%Y-%m-%d %H:%M}] {_STAMP.sub('', folded, count=1)[:_LONGEST_PARAGRAPH]}".strip()


# -- the request and its answer --------------------------------------------------------------------------


def _build_request(view: PassInput, conversation: str, notes: DigestPages) -> ModelRequest:
    memory = notes.page.content.strip() if notes.page is not None else ""
    text = view.fill_prompt(PROMPT, memory=fence(memory) if memory else "(empty)", conversation=conversation)
    return ModelRequest(
        messages=(ChatMessage(role="user", content=text),),
        purpose=NAME,
        schema=SCHEMA,
        max_tokens=MOST_TOKENS + validation.estimate_tokens(memory),
        temperature=0.3,
        timeout_s=120.0,
    )


def _parse_answer(reply: ModelReply) -> tuple[str, str]:
    if reply.finish in {"length", "refused"}:
        raise UnusableReply(
            "the answer was cut off" if reply.finish == "length" else "the model would not answer"
        )
    answer = parse_json(reply.answer, keys=("history_entry", "memory_update"))
    if not isinstance(answer, Mapping):
        raise UnusableReply("the answer is no JSON object")
    entry = to_text(answer.get("history_entry"))
    if not entry:
        raise UnusableReply("the answer has no history_entry")
    update = answer.get("memory_update")
    return entry, remove_fence(update if isinstance(update, str) else to_text(update))


# -- the plan --------------------------------------------------------------------------------------------


def _build_steps(
    view: PassInput, older: Sequence[Turn], entry: str, update: str, notes: DigestPages
) -> tuple[list[PlanStep], tuple[Rejection, ...]]:
    names = tuple(turn.id for turn in older)
    paragraph = Paragraph(
        id=view.new_id(),
        page=HISTORY,
        position=notes.position,
        at=older[-1].at,
        content=stamp_paragraph(entry, older[-1].at),
        source=build_session_source(older[-1].session, from_tools=_has_tool_source(older)),
    )
    why = f"digest of turns: {len(older)}"
    steps = [PlanStep(edit=Change(before=None, after=paragraph), why=why, sources=names)]
    before = notes.page.content if notes.page is not None else ""
    clean = validation.clean_text(update).replace("\r\n", "\n").replace("\r", "\n").strip()
    if not clean or clean == before.strip() or clean == "(empty)":
        return steps, ()
    clean, doubted = _drop_unconfirmed_lines(clean, before, older)
    text, kept_lines = guard_rewrite(before, f"{clean}\n")
    refused = tuple(
        Rejection(what="leave a line out of the notes", why=f"nothing stands in its place: {_cut(line)}")
        for line in kept_lines
    ) + tuple(
        Rejection(what="add a line to the notes", why=f"only a tool's word stands behind it: {_cut(line)}")
        for line in doubted
    )
    if len(text) > max(LONGEST_NOTES, len(before)):
        too_long = Rejection(what="rewrite the notes", why=f"they would have {len(text):,} characters")
        return steps, (*refused, too_long)
    if text != before:
        after = Page(name=notes.name, content=text, updated_at=view.now)
        steps.append(
            PlanStep(edit=Change(before=notes.page, after=after), why="brought up to date", sources=names)
        )
    return steps, refused


def _has_tool_source(older: Sequence[Turn]) -> bool:
    """Whether something of what is told rests on what tools, the web or an import said."""
    return any(turn.origin in UNTRUSTED for turn in older if turn.role != "tool")


def _drop_unconfirmed_lines(update: str, before: str, older: Sequence[Turn]) -> tuple[str, tuple[str, ...]]:
    """Return the rewrite without new lines that rest on a tool's word alone, and these lines.

    The notes stand in every prompt, so what the owner and the assistant by itself have not said may not get
    into them. Where no tool was heard, nothing is looked at.
    """
    if not _has_tool_source(older):
        return update, ()
    known = [before] + [
        unquoted_text(turn.content) if turn.role == "user" else turn.content
        for turn in older
        if turn.origin not in UNTRUSTED
    ]
    old = {line.strip() for line in before.splitlines()}
    kept: list[str] = []
    doubted: list[str] = []
    for line in update.split("\n"):
        is_known = line.strip() in old or not line.strip() or provenance.is_grounded(line, known)
        (kept if is_known else doubted).append(line)
    return "\n".join(kept), tuple(doubted)


def _plan(
    view: PassInput, state: SessionState, older: Sequence[Turn], start: int, steps: Iterable[PlanStep]
) -> Plan:
    """Return the plan with the steps, and after them the new beginning of the window."""
    moved = PlanStep(
        edit=Change(before=state, after=replace(state, window_start=start)),
        why=f"turns that leave the window: {len(older)}",
        sources=tuple(turn.id for turn in older),
    )
    return Plan(id=view.new_id(), name=NAME, made_at=view.now, steps=(*steps, moved))


def _build_failed_plan(view: PassInput, why: str, reply: ModelReply | ModelFailure) -> Plan:
    return Plan(id=view.new_id(), name=NAME, made_at=view.now, failed=why, usage=reply.usage)


def _split_sentences(text: str) -> list[str]:
    found = [" ".join(part.split()) for part in _SENTENCE_END.split(validation.clean_text(text))]
    return [part for part in found if part] or [""]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_HEADLINE else f"{text[: _LONGEST_HEADLINE - 1].rstrip()}…"
