"""How does a rough note become well-formed records? It is saved first as it is, and replaced in one step.

The model may split and file the note, not change what it says: if anything specific of it is missing from
the records together, or any of them says a number, date or address that it does not, the note stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from reverie.consolidation.plan import Plan, PlanStep, Rejection
from reverie.consolidation.planning.driver import NO_MODEL, Flow
from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.reply_parsing import UnusableReply, parse_json, to_text, to_texts
from reverie.domain.category import validate_category
from reverie.domain.change import Change
from reverie.domain.errors import InvalidInput
from reverie.domain.record import ROUGH, Record, normalize_labels, validate_record
from reverie.domain.similarity.attribution import find_subject_mismatch, find_unsupported
from reverie.domain.similarity.specifics import extract_specifics
from reverie.domain.text import validation
from reverie.domain.text.escaping import fence
from reverie.llm.messages import ChatMessage, ModelReply, ModelRequest

NAME = "enrich"
PROMPT = "memory-rules.md"

MOST_RECORDS = 12
ENRICHED_FROM = "enriched_from"
_MOST_CATEGORIES = 100
_SLACK = 40  # characters of each record, for what makes it understandable without the others
SCHEMA: Mapping[str, Any] = MappingProxyType(
    {
        "type": "object",
        "properties": {"records": {"type": "array", "items": {"type": "object"}}},
        "required": ["records"],
    }
)


def enrich(view: PassInput, note: Record, *, categories: Sequence[str] = ()) -> Flow[Plan]:
    """The pass.

    Args:
        view: The moment, the prompts, and the live records, so that none is said twice.
        note: The note as it was saved.
        categories: The categories in use, the most frequent first.
    """
    if note.archived or note.pinned:
        return _build_skipped_plan(view, "the note is archived or pinned")
    known = ", ".join(categories[:_MOST_CATEGORIES]) or "(none)"
    reply = yield ModelRequest(
        messages=(
            ChatMessage(
                role="user",
                content=view.fill_prompt(PROMPT, note=fence(note.content), categories=known),
            ),
        ),
        purpose=NAME,
        schema=SCHEMA,
        max_tokens=1_000 + 2 * validation.estimate_tokens(note.content),
        temperature=0.2,
        timeout_s=60.0,
    )
    if not isinstance(reply, ModelReply):
        why = f"the note stays as it is: {reply.why}"
        waiting = (
            _build_skipped_plan(view, why)
            if reply.why == NO_MODEL.why
            else replace(_build_skipped_plan(view, ""), failed=why)
        )
        refused = (Rejection(what=f"enrich {note.id}", why=reply.why, protects=(note.id,)),)
        return replace(waiting, refused=refused if reply.refused else (), usage=reply.usage)
    try:
        records = _build_records(view, note, reply)
    except (UnusableReply, InvalidInput) as error:
        return replace(
            _build_settled_plan(view, note, f"the note stays as it is: {error}"), usage=reply.usage
        )
    if why := _explain_refusal(view, note, records):
        refused = (Rejection(what=f"enrich {note.id}", why=why, protects=(note.id,)),)
        settled = _build_settled_plan(view, note, "the note stays as it is")
        return replace(settled, refused=refused, usage=reply.usage)
    return replace(_plan(view, note, records), usage=reply.usage)


def build_unchanged_plan(view: PassInput, note: Record, plan: Plan) -> Plan:
    """The plan for a note about which the model was asked and would not answer: not to ask again.

    Args:
        view: The moment.
        note: The note.
        plan: What asking came to.
    """
    return replace(_build_settled_plan(view, note, plan.failed), refused=plan.refused, usage=plan.usage)


def _build_records(view: PassInput, note: Record, reply: ModelReply) -> list[Record]:
    """What the model made of the note; trust, scope, times and confidence are the note's."""
    if reply.finish in {"length", "refused"}:
        raise UnusableReply("the answer was cut off or refused")
    answer = parse_json(reply.text, keys=("records",))
    proposals = answer.get("records") if isinstance(answer, Mapping) else answer
    if not isinstance(proposals, list) or not proposals:
        raise UnusableReply("the answer has no records")
    if len(proposals) > MOST_RECORDS:
        raise UnusableReply(f"the answer has {len(proposals)} records, more than {MOST_RECORDS}")
    records = []
    for proposal in proposals:
        given = proposal if isinstance(proposal, Mapping) else {"content": proposal}
        category = to_text(given.get("category"))
        records.append(
            validate_record(
                replace(
                    note,
                    id=view.new_id(),
                    content=to_text(given.get("content")),
                    category=validate_category(category) if category else note.category,
                    tags=normalize_labels((*note.tags, *to_texts(given.get("tags"))[:8]), name="tag"),
                    metadata=MappingProxyType({**_remove_rough_mark(note), ENRICHED_FROM: note.id}),
                )
            )
        )
    return records


def _explain_refusal(view: PassInput, note: Record, records: Sequence[Record]) -> str:
    known = extract_specifics(note.content)
    together = extract_specifics("\n".join(record.content for record in records))
    if missing := known.find_missing_from(together) | known.find_unaffirmed_in(together):
        return f"it would lose: {', '.join(sorted(missing))}"
    length = sum(len(record.content) for record in records)
    if length > 2 * len(note.content) + _SLACK * len(records):
        return f"it would be longer than the note is: {length:,} characters"
    for record in records:
        text = record.content
        if why := find_unsupported([note.content], text) or find_subject_mismatch(note.content, text):
            return why
    fingerprints = [record.fingerprint for record in records]
    if len(set(fingerprints)) < len(fingerprints):
        return "it says something twice"
    live = {record.fingerprint: record.id for record in view.records if record.scope == note.scope}
    for fingerprint in fingerprints:
        if live.get(fingerprint, note.id) != note.id:
            return f"the live record {live[fingerprint]} says a part of it already"
    return ""


def _plan(view: PassInput, note: Record, records: Sequence[Record]) -> Plan:
    """The new records in, then the note out; one in the note's own words is the note with a better place."""
    twin = next((record for record in records if record.fingerprint == note.fingerprint), None)
    steps = [
        PlanStep(edit=Change(before=None, after=record), why="a part of the note", sources=(note.id,))
        for record in records
        if record is not twin
    ]
    if twin is not None:
        after = replace(twin, id=note.id, content=note.content, metadata=_remove_rough_mark(note))
        if replace(after, metadata=note.metadata) == note and not steps:
            return _build_settled_plan(view, note, "the note is well-formed already")
        after = replace(after, updated_at=max(view.now, note.updated_at))
    else:
        reason = f"enriched into {', '.join(record.id for record in records)}"
        after = replace(note, archived_at=max(view.now, note.created_at), archive_reason=reason)
    steps.append(
        PlanStep(edit=Change(before=note, after=after), why="the note it was made of", sources=(note.id,))
    )
    return Plan(id=view.new_id(), name=NAME, made_at=view.now, steps=tuple(steps))


def _build_settled_plan(view: PassInput, note: Record, why: str) -> Plan:
    """That the note stays in its words, and is not asked about again."""
    if ROUGH not in note.metadata:
        return _build_skipped_plan(view, why)
    after = replace(note, metadata=_remove_rough_mark(note))
    step = PlanStep(edit=Change(before=note, after=after), why=why, sources=(note.id,))
    return Plan(id=view.new_id(), name=NAME, made_at=view.now, steps=(step,))


def _remove_rough_mark(note: Record) -> Mapping[str, str]:
    return MappingProxyType({name: text for name, text in note.metadata.items() if name != ROUGH})


def _build_skipped_plan(view: PassInput, why: str) -> Plan:
    return Plan(id=view.new_id(), name=NAME, made_at=view.now, skipped=why)
