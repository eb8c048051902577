"""Facts that are said in a conversation become records when it is over, and are verified by the next dream.

`remember` reads the new turns once, in one request. The model cites the turns that say a fact, and code accepts it only
if its specifics are in them. A fact that the owner did not say in these words is held in the archive until it is
verified. Saving decides, as for every record, whether it repeats a known one.

`verify` asks, in the request in which other passes verify too, whether the cited turns say each fact. A fact that the
model does not find in them is withdrawn: it is archived, and what it displaced comes back. A held fact is saved only if
the model finds it. One claim of each request quotes a turn: if the model denies that too, its answer withdraws nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from reverie.consolidation.plan import Plan, PlanStep, Rejection
from reverie.consolidation.planning.inputs import PassInput, RememberedFact, WindowInput, build_cursor_name
from reverie.consolidation.planning.material import cite_turns, format_labelled, label_turns
from reverie.consolidation.planning.plan_builder import CONFIRMED, IMPORTANT, PlanBuilder
from reverie.consolidation.planning.requests import (
    Flow,
    ask_in_parts,
    build_question,
    build_schema,
    iter_objects,
    to_text,
)
from reverie.consolidation.planning.verification import (
    DENIED,
    QUOTED,
    Claim,
    format_evidence,
    verify_claims,
)
from reverie.consolidation.sentences import compute_key
from reverie.context.window import build_remembered_cursor
from reverie.domain.category import validate_category
from reverie.domain.change import Change
from reverie.domain.conversation import Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.intake import concerns_health, rate_importance
from reverie.domain.record import KINDS, STANDING, UNTRUSTED, Kind, Record
from reverie.domain.similarity.grounding import (
    Evidence,
    collect_evidence,
    extract_content,
    find_new_specifics,
    find_unknown_words,
    find_unsaid,
    is_among,
    is_asked,
)
from reverie.domain.similarity.specifics import extract_specifics
from reverie.domain.text.escaping import escape_line
from reverie.llm.protocol import ModelRequest, TokenUsage
from reverie.repositories.records import NewRecord

NAME = "remember"
HELD = "not found word for word in the turns that it cites"
"""Reason why a fact is archived until the model has verified it."""

PROMPT = "remember.md"

LONGEST_MESSAGE = 1_500
LONGEST_RECORD = 400
MOST_KNOWN = 30
"""Records that a request shows as known: those that share most words with the conversation."""

MAX_VERIFIED = 40
"""Facts that are verified in one dream, the earliest, with all of their conversation; the next dream continues."""

VERIFY = "verify"

_CLEAR_SHARE = 0.6
"""Share of its words that the cited turns must have; a fact with fewer is held until it is verified."""

_OWNED_SHARE = 0.2
"""Share of its words that the owner's turns must have."""

_MOST_CATEGORIES = 30
_COVERED = 0.8
"""The share of its words by which a sentence that was learned by rule counts as said by the new records."""

_COVERED_RULE = 0.5
"""The same for a preference or constraint in whose turn the new records found one too."""

_LONGEST_QUOTE = 200
_CONFIDENCE, _HELD_CONFIDENCE = 0.8, 0.7
_NOTHING = "nothing in it is worth keeping"

SCHEMA = build_schema({"records": [{"content": str, "kind": str, "category": str, "turns": [str]}]})


def remember(view: PassInput) -> Flow[Plan]:
    """Read the new turns of a conversation for facts worth keeping."""
    window = view.get_window()
    read = {build_remembered_cursor(window.state.id): str(window.start)}
    labels = label_turns(window.older)
    spoken = list(labels.values())
    if not collect_evidence(spoken, only_owner=True):
        return view.build_plan(NAME, skipped=_NOTHING, cursors=read)
    known = _select_known(view.records, spoken)
    known_kinds = {compute_key(record.content): record.kind for record in reversed(view.records)}
    parts = yield from ask_in_parts(
        list(labels), lambda names: _build_request(view, window, labels, names, known)
    )
    usage = sum((answer.usage for _, answer in parts), TokenUsage())
    names = Evidence(text=" ".join(_collect_names(view.records)), at=view.now)
    context = [*collect_evidence(spoken), *(_to_evidence(record) for record in known), names]
    taken: list[NewRecord] = []
    held: list[NewRecord] = []
    refused: list[Rejection] = []
    for _, answer in parts:
        if answer.why:
            return view.build_plan(NAME, failed=answer.why, usage=usage)
        for proposal in iter_objects(answer.fields.get("records"), key="content"):
            if len(taken) + len(held) >= len(spoken):
                break
            record = _read_proposal(view, proposal, labels, context, known_kinds)
            if isinstance(record, str):
                refused.append(Rejection(what="remember a fact", why=record))
            else:
                (taken if record.confidence > _HELD_CONFIDENCE else held).append(record)
    steps = (*_save(view, taken, held), *_archive_replaced(view, taken, spoken))
    return view.build_plan(
        NAME,
        steps=tuple({step.edit.id: step for step in reversed(steps)}.values())[::-1],
        refused=tuple(refused),
        skipped="" if steps else _NOTHING,
        cursors=read,
        usage=usage,
    )


def _save(view: PassInput, taken: Sequence[NewRecord], held: Sequence[NewRecord]) -> list[PlanStep]:
    """Return the steps that save facts, and those that archive what is held until it is verified."""
    steps = [PlanStep(edit=change, why="said in a conversation") for change in view.plan_records(taken)]
    for change in view.plan_records(held):
        if isinstance(change.after, Record) and change.before is None:
            record = replace(change.after, archived_at=view.now, archive_reason=HELD, valid_from=None)
            steps.append(PlanStep(edit=replace(change, after=record), why=HELD))
    return steps


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
) -> NewRecord | str:
    """Return the record that a model proposes, with a lower confidence if it is held; a reason if it is refused.

    A record in the same words as a known one has its kind, so that the known one is reinforced.
    """
    content = to_text(proposal.get("content"))
    cited = cite_turns(proposal, labels)
    if not content or len(content) > LONGEST_RECORD:
        return f"a record has 1 to {LONGEST_RECORD} characters"
    owned = collect_evidence(cited, only_owner=True)
    if not owned:
        return "no turn of the user's is cited, in their own words"
    evidence = collect_evidence(cited)
    if why := find_unsaid(content, evidence, context=context, zone=view.zone):
        return why
    is_clear = not (
        find_unknown_words(content, evidence, least=_CLEAR_SHARE, zone=view.zone)
        or find_unknown_words(content, owned, least=_OWNED_SHARE, zone=view.zone)
        or is_asked(content, evidence)
    )
    last = cited[-1]
    kind = known_kinds.get(compute_key(content)) or _read_kind(to_text(proposal.get("kind")), content)
    return NewRecord(
        content=content,
        kind=kind,
        importance=rate_importance(content, kind),
        category=_read_category(to_text(proposal.get("category"))),
        confidence=_CONFIDENCE if is_clear else _HELD_CONFIDENCE,
        source=f"session:{last.session}"[:200],
        references=tuple(dict.fromkeys(turn.id for turn in cited)),
        origin="agent",
        scope=last.scope,
        created_at=last.at,
    )


def _read_kind(text: str, content: str) -> Kind:
    """Return the kind of a record. What all advice has to observe is a constraint, which stands in every prompt."""
    kind = next(
        (kind for kind in KINDS if kind == text.lower()), "preference" if text == "instruction" else "fact"
    )
    return "constraint" if kind == "fact" and concerns_health(content) else kind


def _read_category(text: str) -> str | None:
    try:
        return validate_category(text.lower()) if text else None
    except InvalidInput:
        return None


def _to_evidence(record: Record) -> Evidence:
    return Evidence(text=record.content, at=record.created_at)


def _archive_replaced(view: PassInput, taken: Sequence[NewRecord], turns: Sequence[Turn]) -> list[PlanStep]:
    """Return the steps that archive records learned by rule from the same turns, if the new ones say most words.

    What is pinned, important or said several times stays: the new words are a model's.
    """
    steps = []
    why = "said by a record of the conversation"
    for record in view.records:
        cited = set(record.references)
        new = [each for each in taken if cited & set(each.references)]
        text = "\n".join(each.content for each in new)
        lost = extract_specifics(record.content).negations - extract_specifics(text).negations
        if not new or lost or find_new_specifics([text], record.content):
            continue  # a name, number, date or negation would be gone
        is_sentence = any(record.content in turn.content for turn in turns if turn.id in cited)
        is_rule = record.kind in STANDING and any(each.kind in STANDING for each in new)
        words, known = extract_content(record.content), extract_content(text)
        covered = sum(is_among(word, known) for word in words)
        least = _COVERED_RULE if is_rule else _COVERED
        is_kept = record.pinned or record.importance >= IMPORTANT or record.seen_count >= CONFIRMED
        if is_sentence and not is_kept and covered >= least * len(words):
            edit = Change(before=record, after=view.archive(record, why))
            steps.append(PlanStep(edit=edit, why=why, sources=(record.id,)))
    return steps


# -- verification ----------------------------------------------------------------------------------------


def verify(view: PassInput) -> Flow[Plan]:
    """Ask whether the turns that remembered facts cite say them."""
    draft = PlanBuilder(view, name=VERIFY)
    accepted: list[Record] = []
    facts, rest = view.remembered[:MAX_VERIFIED], view.remembered[MAX_VERIFIED:]
    while rest and rest[0].batch == facts[-1].batch:
        facts, rest = (*facts, rest[0]), rest[1:]
    for scope in sorted({fact.record.scope for fact in facts}):
        own = [fact for fact in facts if fact.record.scope == scope]
        claims = [
            Claim(kind="fact", text=fact.record.content, evidence=format_evidence(fact.turns, fact.before))
            for fact in own
        ]
        verdicts = yield from verify_claims(view, [_quote(own[0]), *claims], scope=scope)
        draft.spend(verdicts.usage)
        if verdicts.failed:
            draft.fail(verdicts.failed)
            break
        why_not_quoted, *reasons = verdicts.reasons
        for fact, why in zip(own, reasons, strict=True):
            if fact.record.archived and not why:
                accepted.append(fact.record)
            elif why.startswith(DENIED) and why_not_quoted:
                draft.refuse(
                    f"verify {fact.record.id}", "the model denies a quotation, so its word does not count"
                )
            elif why.startswith(DENIED) and not fact.record.archived:
                draft.withdraw(fact, why=why)
            elif why:
                draft.refuse(f"verify {fact.record.id}", why)
    cursors = {build_cursor_name(VERIFY): str(rest[0].batch - 1)} if rest else {}
    plan = draft.plan(skipped="no fact of a conversation is to be verified", cursors=cursors)
    steps = (*plan.steps, *_restore(view, accepted, {step.edit.id for step in plan.steps}))
    return replace(plan, steps=steps, skipped="" if steps else plan.skipped)


def _restore(view: PassInput, accepted: Sequence[Record], touched: set[str]) -> list[PlanStep]:
    """Return the steps that save held facts, as saving them anew would."""
    held = {record.id: record for record in accepted}
    steps = []
    for record in accepted:
        changes = view.plan_records([replace(record, archived_at=None, archive_reason="")])
        if touched.isdisjoint(change.id for change in changes):
            touched |= {change.id for change in changes}
            for change in changes:
                edit = replace(change, before=held.get(change.id, change.before))
                steps.append(PlanStep(edit=edit, why="the model finds it in its turns"))
    return steps


def _quote(fact: RememberedFact) -> Claim:
    """Return a claim that is true by construction: it quotes the first words of a turn that a fact cites."""
    turn = fact.turns[0]
    text = f"{QUOTED}{turn.role.upper()} wrote “{turn.content[:_LONGEST_QUOTE]}”"
    return Claim(kind="fact", text=text, evidence=format_evidence([turn], {}))
