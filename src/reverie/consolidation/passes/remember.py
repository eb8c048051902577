"""Facts that are said in a conversation, however short, become records when it is over.

The new turns are read once, in one request. The model cites the turns that say a fact, and code takes it only if they
do. What is said in other words is held in the archive until `verify` has asked the model whether they do. Saving
decides, as for every record, whether it repeats, or ends, one that is known.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reverie.consolidation import rules
from reverie.consolidation.plan import Rejection
from reverie.consolidation.planning.answer_schemas import TEXT, TEXTS, build_list, build_object
from reverie.consolidation.planning.driver import Flow
from reverie.consolidation.planning.inputs import PassInput, WindowInput
from reverie.consolidation.planning.page_patch import cite_turns
from reverie.consolidation.planning.questions import ask_in_parts, build_question
from reverie.consolidation.planning.reply_parsing import UnusableReply, iter_objects, parse_answer, to_text
from reverie.consolidation.planning.transcript import compute_key, format_labelled, label_turns
from reverie.domain.category import validate_category
from reverie.domain.conversation import Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import KINDS, STANDING, UNTRUSTED, Kind, Record
from reverie.domain.similarity.grounding import (
    Evidence,
    collect_evidence,
    extract_content,
    find_ungrounded,
    find_unowned,
    is_among,
    is_unclear,
)
from reverie.domain.similarity.specifics import extract_specifics
from reverie.domain.text.escaping import escape_line
from reverie.llm.messages import ModelReply, ModelRequest, TokenUsage
from reverie.repositories.records import NewRecord

NAME = "remember"
HELD = "not found word for word in the turns that it cites"
"""Reason why a fact is archived until the model has verified it."""

PROMPT = "remember.md"

LONGEST_MESSAGE = 1_500
LONGEST_RECORD = 400
MOST_KNOWN = 30
"""Records that a request shows as known: those that share most words with the conversation."""

ANCHORED_SHARE = 0.4
"""The share of its words that the cited turns must have; the others may stand elsewhere in the conversation."""

_MOST_CATEGORIES = 30
_COVERED = 0.8
"""The share of its words by which a sentence that was learned by rule counts as said by the new records."""

_COVERED_RULE = 0.5
"""The same for a preference or constraint in whose turn the new records found one too."""

_FROM_NOW_ON = defer_regex(
    r"\b(?:next time|from now on|going forward|in (?:the )?future|ab jetzt|künftig|a partir de ahora|désormais)\b",
    re.IGNORECASE,
)
"""Words that a rule needs no more once it stands in every prompt."""

SCHEMA = build_object(records=build_list(content=TEXT, kind=TEXT, category=TEXT, turns=TEXTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """Result of a conversation.

    Attributes:
        records: Records to save.
        held: Records of which code cannot tell whether the turns say them; `verify` decides.
        replaced: Records that were learned by rule and that the new ones say.
        refused: Proposals that the turns do not say.
        failed: Why there was no usable answer; empty where there was.
        usage: Cost of the requests.
    """

    records: tuple[NewRecord, ...] = ()
    held: tuple[NewRecord, ...] = ()
    replaced: tuple[Record, ...] = ()
    refused: tuple[Rejection, ...] = ()
    failed: str = ""
    usage: TokenUsage = field(default_factory=TokenUsage)


def remember(view: PassInput, window: WindowInput) -> Flow[Remembered]:
    """Read the new turns of a conversation for facts worth keeping.

    Args:
        view: The moment, the prompts, the live records of the scope and its categories.
        window: The session, and its new turns.
    """
    labels = label_turns(window.older)
    spoken = list(labels.values())
    if not collect_evidence(spoken, only_owner=True):
        return Remembered()
    known = _select_known(view.records, spoken)
    known_kinds = {compute_key(record.content): record.kind for record in reversed(view.records)}
    parts = yield from ask_in_parts(
        list(labels), lambda names: _build_request(view, window, labels, names, known)
    )
    usage = sum((reply.usage for _, _, reply in parts), TokenUsage())
    names = Evidence(text=" ".join(_collect_names(view.records)), at=view.now)
    context = [*collect_evidence(spoken), *(_to_evidence(record) for record in known), names]
    taken: list[NewRecord] = []
    held: list[NewRecord] = []
    refused: list[Rejection] = []
    for _, _, reply in parts:
        if not isinstance(reply, ModelReply):
            return Remembered(failed=reply.why, usage=usage)
        try:
            answer = parse_answer(reply, SCHEMA)
        except UnusableReply as error:
            return Remembered(failed=str(error), usage=usage)
        for proposal in iter_objects(answer.get("records"), key="content"):
            if len(taken) + len(held) >= len(spoken):
                break
            record, why = _read_proposal(view, proposal, labels, context, known_kinds)
            if record is None:
                refused.append(Rejection(what="remember a fact", why=why))
            elif why:
                held.append(record)
            else:
                taken.append(record)
    replaced = _find_replaced(view.records, taken, spoken)
    return Remembered(
        records=tuple(taken), held=tuple(held), replaced=replaced, refused=tuple(refused), usage=usage
    )


def _build_request(
    view: PassInput,
    window: WindowInput,
    labels: Mapping[str, Turn],
    names: Sequence[str],
    known: Sequence[Record],
) -> ModelRequest:
    text = view.fill_prompt(
        PROMPT,
        categories=", ".join(view.categories.get(window.state.scope, ())[:_MOST_CATEGORIES]) or "(none)",
        records="\n".join(f"- {escape_line(record.content)[:200]}" for record in known) or "(nothing)",
        day=f"{labels[names[-1]].at.astimezone(view.zone):%Y-%m-%d}",
        conversation=format_labelled(labels, names, longest=LONGEST_MESSAGE),
    )
    return build_question(text, purpose=NAME, schema=SCHEMA, answer_tokens=1_500)


def _select_known(records: Sequence[Record], turns: Sequence[Turn]) -> list[Record]:
    """Return the trusted records that share most words with a conversation."""
    said = extract_content("\n".join(turn.content for turn in turns))
    shares = [
        (len(said & extract_content(record.content)), record.updated_at, record)
        for record in records
        if record.origin not in UNTRUSTED
    ]
    ranked = sorted((each for each in shares if each[0]), key=lambda each: each[:2], reverse=True)
    return [record for _, _, record in ranked[:MOST_KNOWN]]


def _collect_names(records: Sequence[Record]) -> list[str]:
    """Return the names in trusted records: a fact may name whom a conversation does not."""
    trusted = "\n".join(record.content for record in records if record.origin not in UNTRUSTED)
    return sorted({word.capitalize() for name in extract_specifics(trusted).names for word in name.split()})


def _read_proposal(
    view: PassInput,
    proposal: Mapping[str, Any],
    labels: Mapping[str, Turn],
    context: Sequence[Evidence],
    known_kinds: Mapping[str, Kind],
) -> tuple[NewRecord | None, str]:
    """Return the record that a model proposes, and why it is held; no record where it is refused.

    A record in the same words as a known one has its kind, so that the known one is reinforced.
    """
    content = to_text(proposal.get("content"))
    cited = cite_turns(proposal, labels)
    if not content or len(content) > LONGEST_RECORD:
        return None, f"a record has 1 to {LONGEST_RECORD} characters"
    owned = collect_evidence(cited, only_owner=True)
    if not owned:
        return None, "no turn of the user's is cited, in their own words"
    evidence = collect_evidence(cited)
    why = find_ungrounded(
        content, evidence, context=context, anchored=ANCHORED_SHARE, zone=view.zone
    ) or find_unowned(content, owned, zone=view.zone)
    if why and not is_unclear(content, owned, context=context, zone=view.zone):
        return None, why
    last = cited[-1]
    kind = known_kinds.get(compute_key(content)) or _read_kind(to_text(proposal.get("kind")), content)
    record = NewRecord(
        content=content,
        kind=kind,
        importance=rules.rate_importance(content, kind),
        category=_read_category(to_text(proposal.get("category"))),
        confidence=0.7 if why else 0.8,
        source=f"session:{last.session}"[:200],
        references=tuple(dict.fromkeys(turn.id for turn in cited)),
        origin="agent",
        scope=last.scope,
        created_at=last.at,
    )
    return record, why


def _read_kind(text: str, content: str) -> Kind:
    """Return the kind of a record. What all advice has to observe is a constraint, which stands in every prompt."""
    kind = next(
        (kind for kind in KINDS if kind == text.lower()), "preference" if text == "instruction" else "fact"
    )
    return "constraint" if kind == "fact" and rules.concerns_health(content) else kind


def _read_category(text: str) -> str | None:
    try:
        return validate_category(text.lower()) if text else None
    except InvalidInput:
        return None


def _to_evidence(record: Record) -> Evidence:
    return Evidence(text=record.content, at=record.created_at)


def _find_replaced(
    records: Sequence[Record], taken: Collection[NewRecord], turns: Sequence[Turn]
) -> tuple[Record, ...]:
    """Return the records learned by rule from the same turns of which the new ones say most words."""
    found = []
    for record in records:
        cited = set(record.references)
        new = [each for each in taken if cited & set(each.references)]
        text = "\n".join(each.content for each in new)
        is_rule = record.kind in STANDING and any(each.kind in STANDING for each in new)
        content = _FROM_NOW_ON.sub("", record.content) if is_rule else record.content
        words, known = extract_content(content), extract_content(text)
        is_sentence = not record.pinned and any(
            record.content in turn.content for turn in turns if turn.id in cited
        )
        if extract_specifics(content).find_missing_from(extract_specifics(text)):
            continue  # a name, number, date or negation would be gone
        covered = sum(is_among(word, known) for word in words)
        if is_sentence and new and covered >= (_COVERED_RULE if is_rule else _COVERED) * len(words):
            found.append(record)
    return tuple(found)
