"""Inference of preferences that the owner did not state (RockBot).

Only the owner's turns are evidence: two of them, or one that states the preference for good or corrects the assistant.
Its specifics and some of its words must be in them. Whether they show it is a question for the model, asked once more.
A preference about security, credentials or money is only proposed, and is in no prompt before the owner accepts it.
Texts that Reverie put into the prompt are no evidence. Without a model, repeated statements of the owner are taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any

from reverie.consolidation.patterns import holds_for_good
from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.material import format_signals, split_sentences
from reverie.consolidation.planning.plan_builder import PlanBuilder
from reverie.consolidation.planning.requests import (
    Flow,
    ask_in_parts,
    build_question,
    build_schema,
    to_ids,
    to_text,
    to_texts,
)
from reverie.consolidation.planning.verification import Claim, format_evidence, verify_claims
from reverie.consolidation.sentences import compute_key
from reverie.domain.category import USER_PREFERENCES, is_within_category
from reverie.domain.category import to_search_words as category_words
from reverie.domain.conversation import SIGNAL, Turn
from reverie.domain.intake import classify, needs_permission
from reverie.domain.record import STANDING, UNTRUSTED, Record
from reverie.domain.similarity.grounding import (
    collect_evidence,
    extract_content,
    find_unknown_words,
    find_unsaid,
)
from reverie.domain.text import validation
from reverie.domain.text.escaping import escape_line, unquoted_text
from reverie.llm.protocol import ModelRequest

NAME = "infer"
PROMPT = "pref-dream.md"
INFERRED = f"{USER_PREFERENCES}/inferred"

NEEDED_TURNS = 2
"""Turns that have to show a preference if none states it for good."""

KNOWN_SHARE = 0.25
"""Share of a preference's words that the turns must have."""

_LEAST_SHARED = 0.7  # of the words of two preferences that are one

MOST_INFERRED = 20
"""Preferences that are taken of one answer, and never more than there are new turns: a memory grows by what
was said."""

LONGEST_INFERRED = 500
"""Characters of a preference that a model words."""

LEFT = "dream.infer.left"
"""The store's cursor with the ids of the owner's turns for which there was no room."""

MOST_TURNS = 400
MOST_TOKENS = 12_000
MOST_EARLIER_TOKENS = 4_000
_LONGEST_TURN = 600

SCHEMA = build_schema({"preferences": [{"content": str, "category": str, "evidence": [str], "tags": [str]}]})


_Said = tuple[Turn, str]
"""A turn of the owner's, and what the assistant had said before it."""


def infer(view: PassInput) -> Flow[Plan]:
    """Infer preferences from the owner's turns.

    The turns are read in their order, the owner's as evidence and the assistant's as what they answer. Turns of the
    week before count too, if a new turn shows the same. Signals are shown to the model, and are no evidence.
    """
    draft = PlanBuilder(view, name=NAME)
    echo = {compute_key(sentence) for text in view.injected for sentence in split_sentences(text)}
    scopes = _group_by_scope(view.turns, echo)
    if not scopes:
        return draft.plan(skipped="the owner has said nothing new")
    all_earlier = _group_by_scope(view.earlier, echo)
    left: list[str] = []
    for scope in sorted(scopes):
        earlier = _select_last_evidence(all_earlier.get(scope, ()))
        left += yield from _infer_scope(view, draft, scope, scopes[scope], earlier)
    return draft.plan(skipped="nothing was inferred", cursors={LEFT: " ".join(left) or None})


def _infer_scope(
    view: PassInput, draft: PlanBuilder, scope: str, turns: Sequence[_Said], earlier: Sequence[_Said]
) -> Flow[list[str]]:
    """Add the preferences of one scope; return the ids of the turns for which the dream had no request left."""
    if len(turns) > MOST_TURNS:
        draft.note(f"the owner said more than {MOST_TURNS} things; the latest were looked at")
    left: list[str] = []
    inferred: list[tuple[Record, Claim]] = []
    for whole in _split_parts(turns):
        parts = yield from ask_in_parts(whole, partial(_build_request, view, scope, earlier))
        for new, answer in parts:
            draft.spend(answer.usage)
            if answer.is_later:
                left += [turn.id for turn, _ in new]
            elif not answer.why:
                inferred += _read_answer(view, draft, answer.fields.get("preferences"), earlier, new)
            elif not answer.has_no_model:
                draft.fail(answer.why)
            else:
                draft.note("no model: only what was said outright and again was taken")
                for content, evidence in _find_stated_preferences(earlier, new):
                    _add(draft, _build_record(view, content, evidence))
    verdicts = yield from verify_claims(view, [claim for _, claim in inferred], scope=scope)
    draft.spend(verdicts.usage)
    if verdicts.failed:
        draft.fail(verdicts.failed)
    for (record, _), why in zip(inferred, verdicts.reasons, strict=True):
        if why:
            draft.refuse("infer a preference", why)
        else:
            _add(draft, record)
    return left


def states_rule(text: str, turn: Turn, zone: tzinfo) -> bool:
    """Return whether a text of the owner's states a rule or preference for good."""
    intake = classify(text, origin="owner", at=turn.at, zone=zone, door="conversation")
    return intake.kind in STANDING


def explain_unshown(preference: str, turns: Sequence[Turn], *, zone: tzinfo = UTC) -> str:
    """Return why turns cannot show a preference; empty if they may.

    Args:
        preference: The preference, as a model words it.
        turns: The owner's turns that it cites.
        zone: Time zone of the owner.
    """
    distinct = {compute_key(turn.content): turn for turn in turns}
    evidence = collect_evidence(distinct.values(), only_owner=True)
    is_strong = any(
        turn.metadata.get(SIGNAL) == "correction"
        or holds_for_good(turn.content)
        or any(states_rule(sentence, turn, zone) for sentence in split_sentences(turn.content))
        for turn in distinct.values()
    )
    if evidence and len(evidence) < NEEDED_TURNS and not is_strong:
        return f"{NEEDED_TURNS} turns are needed, or one that states it for good"
    text = f"{preference[:1].lower()}{preference[1:]}"  # it begins with a verb, which is not a name
    return find_unsaid(text, evidence, zone=zone) or find_unknown_words(
        text, evidence, least=KNOWN_SHARE, zone=zone
    )


def _group_by_scope(turns: Sequence[Turn], echo: Collection[str]) -> dict[str, list[_Said]]:
    """Return the owner's turns by scope, without mere repetitions of injected texts."""
    found: dict[str, list[_Said]] = defaultdict(list)
    for turn, before in _collect_evidence(turns):
        if not all(compute_key(sentence) in echo for sentence in split_sentences(turn.content)):
            found[turn.scope].append((turn, before))
    return found


def _select_last_evidence(evidence: Sequence[_Said]) -> list[_Said]:
    """Return the latest turns that fit beside the new ones, in order."""
    kept: list[_Said] = []
    room = MOST_EARLIER_TOKENS
    for turn, before in reversed(evidence):
        room -= validation.estimate_tokens(_format_line(turn, before))
        if room < 0:
            break
        kept.append((turn, before))
    return kept[::-1]


def _collect_evidence(turns: Sequence[Turn]) -> Iterable[_Said]:
    """Yield the owner's turns, each with what the assistant had said before it in the session.

    What the owner quotes is not the owner's, and what the assistant made of a tool's result is left out.
    """
    last: dict[str, str] = {}
    for turn in turns:
        if turn.role == "assistant" and turn.content.strip():
            last[turn.session] = "" if turn.origin in UNTRUSTED else turn.content
        elif turn.role == "user" and turn.origin == "owner" and (said := unquoted_text(turn.content)):
            yield replace(turn, content=said), last.get(turn.session, "")


def _split_parts(evidence: Sequence[_Said]) -> Iterable[list[_Said]]:
    part: list[_Said] = []
    size = 0
    for turn, before in evidence[-MOST_TURNS:]:
        cost = validation.estimate_tokens(_format_line(turn, before))
        if part and size + cost > MOST_TOKENS:
            yield part
            part, size = [], 0
        part.append((turn, before))
        size += cost
    yield part


def _format_line(turn: Turn, before: str) -> str:
    said = escape_line(turn.content)[:_LONGEST_TURN]
    after = f" (after “{escape_line(before)[:200]}”)" if before else ""
    return f"- [{turn.id}]{after}: {said}"


# -- with a model ----------------------------------------------------------------------------------------


def _build_request(
    view: PassInput, scope: str, earlier: Sequence[_Said], new: Sequence[_Said]
) -> ModelRequest:
    known = (
        f"- {escape_line(record.content)}"
        for record in view.records
        if record.scope == scope
        and record.origin not in UNTRUSTED
        and (record.kind == "preference" or is_within_category(record.category, USER_PREFERENCES))
    )
    text = view.fill_prompt(
        PROMPT,
        records="\n".join(islice(known, 200)) or "(nothing)",
        earlier="\n".join(_format_line(turn, before) for turn, before in earlier) or "(nothing)",
        turns="\n".join(_format_line(turn, before) for turn, before in new),
        signals=format_signals(each for each in view.signals if each.scope == scope),
    )
    return build_question(text, purpose=NAME, scope=scope, schema=SCHEMA, answer_tokens=2_000)


def _read_answer(
    view: PassInput, draft: PlanBuilder, proposals: Any, earlier: Sequence[_Said], new: Sequence[_Said]
) -> list[tuple[Record, Claim]]:
    """Return the preferences of an answer that the turns may show, each with what is to be verified."""
    if not isinstance(proposals, list):
        draft.fail("the answer has no list of preferences")
        return []
    turns = {turn.id: turn for turn, _ in (*earlier, *new)}
    before = {turn.id: said for turn, said in (*earlier, *new)}
    most = min(MOST_INFERRED, len(new))
    found: list[tuple[Record, Claim]] = []
    for proposal in proposals:
        given = proposal if isinstance(proposal, Mapping) else {}
        content, category = to_text(given.get("content")), to_text(given.get("category"))
        evidence = [turns[name] for name in to_ids(given.get("evidence")) if name in turns]
        why = ""
        if not 1 <= len(content) <= LONGEST_INFERRED:
            why = f"a preference has 1 to {LONGEST_INFERRED} characters, and not {len(content):,}"
        elif not _has_new(evidence, new):
            why = "nothing that was said since the last cycle shows it"
        elif len(found) >= most:
            why = f"at most {most} are taken of {len(new)} new turns"
        elif why := explain_unshown(content, evidence, zone=view.zone):
            pass
        elif known := _find_proposal(view, content, evidence[0].scope):
            why = f"it was proposed already as {known.id}"
        if why:
            draft.refuse("infer a preference", why)
            continue
        category = category if is_within_category(category, USER_PREFERENCES) else INFERRED
        record = _build_record(view, content, evidence, category=category, tags=to_texts(given.get("tags")))
        found.append(
            (record, Claim(kind="preference", text=content, evidence=format_evidence(evidence, before)))
        )
    return found


def _has_new(evidence: Iterable[Turn], new: Sequence[_Said]) -> bool:
    """Return whether one of these turns is new."""
    return not {turn.id for turn in evidence}.isdisjoint(turn.id for turn, _ in new)


def _find_proposal(view: PassInput, content: str, scope: str) -> Record | None:
    """Return the proposal that says the same, whatever the owner said to it."""
    words = extract_content(content)
    for record in view.proposals:
        known = extract_content(record.content)
        if record.scope == scope and len(words & known) >= _LEAST_SHARED * min(len(words), len(known)):
            return record
    return None


# -- without one -----------------------------------------------------------------------------------------


def _find_stated_preferences(
    earlier: Sequence[_Said], new: Sequence[_Said]
) -> Iterable[tuple[str, list[Turn]]]:
    """Yield sentences that state a preference outright, said in two turns or more in the same words."""
    said: dict[str, list[tuple[str, Turn]]] = defaultdict(list)
    for turn, _ in (*earlier, *new):
        for sentence in split_sentences(turn.content):
            is_statement = len(sentence) <= 300 and not sentence.endswith("?")
            if is_statement and states_rule(sentence, turn, UTC):
                said[compute_key(sentence)].append((sentence, turn))
    for found in said.values():
        evidence = list({turn.id: turn for _, turn in found}.values())
        if len(evidence) >= NEEDED_TURNS and _has_new(evidence, new):
            yield found[-1][0].rstrip("."), evidence


# -- records ---------------------------------------------------------------------------------------------


def _add(draft: PlanBuilder, record: Record) -> None:
    names = record.references
    turns = "a turn" if len(names) == 1 else f"{len(names)} turns"
    why = f"said in {turns} of the owner"
    draft.add(record, sources=names, why=why, is_proposal=record.permission)


def _build_record(
    view: PassInput,
    content: str,
    evidence: Sequence[Turn],
    *,
    category: str = INFERRED,
    tags: Sequence[str] = (),
) -> Record:
    """Return the record of a preference, marked if it needs the owner's permission."""
    return Record(
        id=view.new_id(),
        content=content,
        category=category,
        kind="preference",
        layer="semantic",
        tags=tuple(dict.fromkeys(("inferred", *(tag for tag in tags if len(tag) <= 60))))[:10],
        confidence=0.7,
        source=f"session:{evidence[-1].session}"[:200],
        references=tuple(turn.id for turn in evidence)[:100],
        origin="agent",
        scope=evidence[-1].scope,
        created_at=view.now,
        updated_at=view.now,
        last_seen_at=view.now,
        metadata=MappingProxyType({"source": "inferred"}),
        permission=needs_permission(f"{content} {category_words(category)}"),
    )
