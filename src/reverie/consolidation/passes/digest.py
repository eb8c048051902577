"""Digest of turns that leave the window: a paragraph of `HISTORY.md` and a patch of the notes.

Autobot's consolidation with safeguards. The paragraph, the notes and the new beginning of the window are one
plan. A line of the notes changes only by a turn that says so, in the judgement of code and of the model, which is
asked once more about all lines. A failed request changes nothing. Without a model the paragraph is made by rule, and
the notes stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from reverie.consolidation.plan import Plan, PlanStep, Rejection
from reverie.consolidation.planning.inputs import PassInput, WindowInput
from reverie.consolidation.planning.material import format_labelled, label_turns, split_sentences
from reverie.consolidation.planning.page_patch import (
    CHANGES_SCHEMA,
    LineChange,
    PagePatch,
    parse_changes,
)
from reverie.consolidation.planning.replies import UnusableReply, parse_answer, to_text
from reverie.consolidation.planning.requests import (
    NO_MODEL,
    TEXT,
    Flow,
    ask_in_parts,
    build_object,
    build_question,
)
from reverie.consolidation.planning.verification import verify_claims
from reverie.domain.change import Change
from reverie.domain.conversation import Turn
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import HISTORY, MEMORY, Page, Paragraph, build_session_source
from reverie.domain.record import UNTRUSTED
from reverie.domain.similarity.grounding import find_injection
from reverie.domain.similarity.specifics import extract_specifics
from reverie.domain.text import validation
from reverie.llm.messages import ModelReply, ModelRequest, TokenUsage

NAME = "digest"
PROMPT = "digest.md"

LEAST_KEPT = 2
MOST_KEPT = 10
"""Messages that stay in the window, at least and at most (Autobot)."""

LONGEST_MESSAGE = 2_000
MOST_TOKENS = 2_000
"""Tokens of an answer: a paragraph, and the lines that change."""

LONGEST_NOTES = 20_000
"""Characters that notes may grow to by a model's word, four times what a prompt shows of them by default. A
person may write more; then a model may only not make it longer."""

_LONGEST_PARAGRAPH = 4_000
_LONGEST_HEADLINE = 160
_MOST_SENTENCES = 3

TRIGGER = defer_regex(
    r"\b(?:decided|conclusion|important|remember|note that|key insight|learned that|will use|should use|agreed)\b",
    re.IGNORECASE,
)
"""Words of sentences that are worth keeping (agentkit's session consolidation)."""

_STAMP = defer_regex(r"\[?\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(?::\d{2})?\]?:?\s*")
SCHEMA = build_object(history_entry=TEXT, changes=CHANGES_SCHEMA)


def compute_kept_count(memory_window: int) -> int:
    """Return how many messages stay in the window: `min(10, max(2, window // 2))` (Autobot)."""
    return min(MOST_KEPT, max(LEAST_KEPT, memory_window // 2))


def digest(view: PassInput) -> Flow[Plan]:
    """Digest the turns that leave the window."""
    window = view.get_window()
    if window.is_short:
        return view.build_plan(NAME, skipped="no turn is due to leave the window")
    older = window.older
    labels = label_turns(older)
    if not labels:
        return view.build_plan(NAME, steps=(window.move(),))
    page = _get_notes(window)

    def begin_patch() -> PagePatch:
        return PagePatch(page, turns=older, longest=max(LONGEST_NOTES, len(page)), zone=view.zone)

    patch = begin_patch()
    parts = yield from ask_in_parts(list(labels), lambda names: _build_request(view, patch, names, labels))
    usage = sum((reply.usage for _, reply in parts), TokenUsage())
    entries: list[str] = []
    refused: list[Rejection] = []
    for _, reply in parts:
        if not isinstance(reply, ModelReply):
            if reply.why != NO_MODEL.why:
                return view.build_plan(NAME, failed=reply.why, usage=usage)
            steps = _build_steps(view, window, build_headline(older), patch)
            return view.build_plan(NAME, steps=steps, notes=("no model: the paragraph was made by rule",))
        try:
            entry, changes = _parse_reply(reply, labels)
        except UnusableReply as error:
            return view.build_plan(NAME, failed=str(error), usage=usage)
        entries.append(entry)
        reasons = ((change, patch.take(change)) for change in changes)
        refused += [Rejection(what=change.describe(), why=why) for change, why in reasons if why]
    verdicts = yield from verify_claims(view, [patch.to_claim(change) for change in patch.taken])
    usage += verdicts.usage
    if verdicts.failed:
        return view.build_plan(NAME, failed=verdicts.failed, usage=usage)
    verified = begin_patch()
    for change, why in zip(patch.taken, verdicts.reasons, strict=True):
        if reason := why or verified.take(change):
            refused.append(Rejection(what=change.describe(), why=reason))
    patch = verified
    entry = _select_said(" ".join(entries), older) or build_headline(older)
    steps = _build_steps(view, window, entry, patch)
    return view.build_plan(NAME, steps=steps, refused=tuple(refused), usage=usage)


def build_headline(turns: Sequence[Turn]) -> str:
    """Return what turns are about, by rule: how many, the first request, and stated decisions.

    Args:
        turns: The turns, the earliest first.
    """
    said = [turn for turn in turns if turn.role in {"user", "assistant"} and turn.content.strip()]
    first = next((turn for turn in said if turn.role == "user"), said[0] if said else None)
    parts = [f"{len(said)} messages"]
    if first is not None:
        parts[0] += f", beginning with “{_cut((split_sentences(first.content) or [''])[0])}”"
    stated = (
        sentence for turn in said for sentence in split_sentences(turn.content) if TRIGGER.search(sentence)
    )
    parts += [_cut(sentence) for sentence in list(dict.fromkeys(stated))[:_MOST_SENTENCES]]
    return " ".join(part if part.endswith((".", "!", "?", "…")) else f"{part}." for part in parts)


def stamp_paragraph(text: str, at: datetime) -> str:
    """Return a paragraph of history as one line that begins with its time, and with no other time.

    >>> stamp_paragraph("2025-01-15 10:30: User asked.", datetime(2025, 1, 15, 10, 31))
    '[2025-01-15 10:31] User asked.'
    """
    folded = " ".join(validation.clean_text(text).split())
    return f"[{at:%Y-%m-%d %H:%M}] {_STAMP.sub('', folded, count=1)[:_LONGEST_PARAGRAPH]}".strip()


# -- the request and its answer --------------------------------------------------------------------------


def _build_request(
    view: PassInput, patch: PagePatch, names: Sequence[str], labels: Mapping[str, Turn]
) -> ModelRequest:
    conversation = format_labelled(labels, names, longest=LONGEST_MESSAGE)
    text = view.fill_prompt(PROMPT, memory=patch.format_lines(), conversation=conversation)
    return build_question(text, purpose=NAME, schema=SCHEMA, answer_tokens=MOST_TOKENS)


def _parse_reply(reply: ModelReply, labels: Mapping[str, Turn]) -> tuple[str, list[LineChange]]:
    answer = parse_answer(reply, SCHEMA)
    entry = to_text(answer.get("history_entry"))
    if not entry:
        raise UnusableReply("the answer has no history_entry")
    return entry, parse_changes(answer.get("changes") or [], labels)


def _select_said(entry: str, older: Sequence[Turn]) -> str:
    """Return the sentences of a paragraph whose numbers, addresses and code are in the turns."""
    sources = [*(turn.content for turn in older), *(f"{turn.at:%Y-%m-%d}" for turn in older)]
    known = extract_specifics("\n".join(sources))
    kept = []
    for sentence in split_sentences(_STAMP.sub("", entry)):
        new = extract_specifics(sentence).subtract(known, "numbers", "addresses")
        is_said = all(f" {value.casefold()} " in known.wording for value in new)
        if is_said and not find_injection(sentence):
            kept.append(sentence)
    return " ".join(kept)


# -- the plan --------------------------------------------------------------------------------------------


def _build_steps(view: PassInput, window: WindowInput, entry: str, patch: PagePatch) -> tuple[PlanStep, ...]:
    """Return the steps that add the paragraph, change the notes and move the window."""
    older = window.older
    names = tuple(turn.id for turn in older)
    paragraph = Paragraph(
        id=view.new_id(),
        page=HISTORY,
        position=window.position,
        at=older[-1].at,
        content=stamp_paragraph(entry, older[-1].at),
        source=build_session_source(older[-1].session, from_tools=_has_tool_source(older)),
    )
    why = f"digest of turns: {len(older)}"
    steps = [PlanStep(edit=Change(before=None, after=paragraph), why=why, sources=names)]
    before = _get_notes(window)
    text = patch.apply() if patch else before
    if text != before:
        edit = Change(before=window.page, after=Page(name=MEMORY, content=text, updated_at=view.now))
        steps.append(PlanStep(edit=edit, why="brought up to date", sources=names))
    return (*steps, window.move())


def _get_notes(window: WindowInput) -> str:
    return window.page.content if window.page is not None else ""


def _has_tool_source(older: Sequence[Turn]) -> bool:
    """Whether a turn beside the results of tools rests on what tools, the web or an import said."""
    return any(turn.origin in UNTRUSTED for turn in older if turn.role != "tool")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_HEADLINE else f"{text[: _LONGEST_HEADLINE - 1].rstrip()}…"
