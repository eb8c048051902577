"""Passes over drafts: rough notes become well-formed records, and output of steps becomes findings and lessons."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from reverie.consolidation.answers import Answer, Question, to_category, to_tags, to_text, to_texts
from reverie.consolidation.flows import Flow, ask_once
from reverie.consolidation.plan_builder import PlanBuilder, find_new_injection
from reverie.consolidation.sentences import split_sentences
from reverie.consolidation.values import PassInput, Plan, PlanStep, build_cursor_name
from reverie.domain.change import Change
from reverie.domain.errors import InvalidInput
from reverie.domain.record import Kind, Record, merge_tags, validate_record
from reverie.domain.similarity.grounding import Evidence, find_lost, find_unsaid
from reverie.domain.text import validation
from reverie.domain.text.escaping import escape_line, fence
from reverie.domain.text.specifics import Specifics, extract_specifics

NAME = "enrich"

MAX_RECORDS = 12
"""Records that one draft may become."""

MAX_DRAFTS = 20
"""Drafts that are enriched in one plan; each takes a request."""

ENRICHED_FROM = "enriched_from"
_MAX_CATEGORIES = 100
_MAX_MISSED = 3  # first drafts without an answer before the model is left alone
_SLACK = 40  # characters of each record, for what makes it understandable without the others
ENRICH = Question(
    purpose=NAME,
    prompt="memory-rules.md",
    answer={"records": [{"content": str, "category": str, "tags": [str]}]},
    timeout_s=60.0,
)


def enrich_drafts(view: PassInput) -> Flow[Plan]:
    """Split and file each of the drafts that were saved since the last dream.

    A draft without an answer stays as it is if the model answers for another one; if it answers for none, all wait.
    """
    builder = PlanBuilder(view, name=NAME)
    missed: list[tuple[Record, str]] = []
    considered = answered = 0
    for note, _ in view.drafts[:MAX_DRAFTS]:
        considered += 1
        if note.archived or note.pinned:
            continue
        used = ", ".join(view.categories.get(note.scope, ())[:_MAX_CATEGORIES]) or "(none)"
        tokens = 1_000 + 2 * validation.estimate_tokens(note.content)
        places = {"categories": used, "note": fence(note.content)}
        answer = yield from ask_once(view, ENRICH, places, tokens=tokens)
        builder.spend(answer.usage)
        if answer.why and not answer.is_unusable:
            missed.append((note, answer.why))
        else:
            answered += 1
            _enrich(builder, note, answer)
        if len(missed) == _MAX_MISSED and not answered:
            break  # a single draft may be too much for the model, but now it answers no request
    for note, why in missed:
        if answered:
            _settle(builder, note, why)
        else:
            builder.fail(f"the note stays as it is: {why}")
    read_until = view.until if considered == len(view.drafts) else view.drafts[considered][1] - 1
    return builder.plan(skipped="there is no rough note", cursors={build_cursor_name(NAME): str(read_until)})


def _enrich(builder: PlanBuilder, note: Record, answer: Answer) -> None:
    """Add the records of a draft, and archive it or make it one of them; it stays if they say something else."""
    records: list[Record] = []
    try:
        records = [] if answer.why else _build_records(builder.view, note, answer.fields.get("records"))
        why = answer.why or _explain_refusal(builder, note, records)
    except InvalidInput as error:
        why = str(error)
    if why:
        _settle(builder, note, why)
        return
    after = builder.view.archive(note, f"enriched into {', '.join(record.id for record in records)}")
    for record in records:
        if record.fingerprint == note.fingerprint:
            after = replace(record, id=note.id, content=note.content, metadata=note.metadata)
        else:
            builder.take(Change(before=None, after=record), "a part of the note", (note.id,))
    builder.take(Change(before=note, after=after), "the note it was made of", (note.id,))


def _settle(builder: PlanBuilder, note: Record, why: str) -> None:
    """Keep the draft in its words, and mark it as done."""
    builder.refuse(f"enrich {note.id}", why)
    edit = Change(before=note, after=replace(note, draft=False))
    builder.take(edit, f"the note stays as it is: {why}", (note.id,))


def _build_records(view: PassInput, note: Record, proposals: Any) -> list[Record]:
    """Return the records of an answer. Trust, scope, times and confidence are those of the draft."""
    if not isinstance(proposals, list) or not 0 < len(proposals) <= MAX_RECORDS:
        raise InvalidInput(f"the answer has no list of 1 to {MAX_RECORDS} records")
    records = []
    for proposal in proposals:
        given = proposal if isinstance(proposal, Mapping) else {"content": proposal}
        record = replace(
            note,
            id=view.new_id(),
            content=to_text(given.get("content")),
            category=to_category(given.get("category")) or note.category,
            tags=merge_tags(note.tags, to_tags(given.get("tags"))),
            draft=False,
            metadata=MappingProxyType({**note.metadata, ENRICHED_FROM: note.id}),
        )
        records.append(validate_record(record))
    return records


def _explain_refusal(builder: PlanBuilder, note: Record, records: Sequence[Record]) -> str:
    text = "\n".join(record.content for record in records)
    known, together = extract_specifics(note.content), extract_specifics(text)
    if lost := find_lost(note.content, text):
        return f"it would lose: {', '.join(lost)}"
    length = sum(len(record.content) for record in records)
    if length > 2 * len(note.content) + _SLACK * len(records):
        return f"it would be longer than the note is: {length:,} characters"
    said = [Evidence(text=note.content, at=note.created_at)]
    for record in records:
        if why := find_unsaid(record.content, said):
            return why.replace("no cited turn says", "the note does not say")
    if together.denied - known.denied or _list_values(known, together) != _list_values(known, known):
        return "the names and values of the note would be in another order"
    for record in records:
        if (other := builder.said.get((record.scope, record.fingerprint), note.id)) != note.id:
            return f"the live record {other} says a part of it already"
    is_repeated = len({record.fingerprint for record in records}) < len(records)
    return "it says something twice" if is_repeated else ""


def _list_values(known: Specifics, text: Specifics) -> list[str]:
    """Return the values and single-word names of a note in the order in which they first occur in a text."""
    values = known.values | known.names
    return [word for word in dict.fromkeys(text.wording.split()) if word in values]


# -- extract --------------------------------------------------------------------------------------


EXTRACT_NAME = "extract"

SHORTEST_OUTPUT = 50
LONGEST_OUTPUT = 4_000
_LONGEST_STATEMENT = 500
_MAX_STATEMENTS = 20

_RULES = {
    "lessons": r"learned that|lesson|next time|in future|avoid|always|never|make sure|should use|don't|do not",
    "insights": r"decided|conclusion|conclude|therefore|key insight|will use|agreed|better than|simpler than|"
    r"because of this|turns out|means that",
    "findings": r"important|remember|note that|found that|discovered|is limited to|requires|supports",
}
"""Words of sentences that belong into a list without a model; the first list counts."""

KINDS_OF_LISTS: Mapping[str, Kind] = MappingProxyType(
    {"findings": "finding", "insights": "insight", "lessons": "lesson"}
)
EXTRACT = Question(
    purpose=EXTRACT_NAME,
    prompt="extract.md",
    answer={name: [str] for name in KINDS_OF_LISTS},
    tokens=1_000,
    timeout_s=60.0,
)


def extract(view: PassInput) -> Flow[Plan]:
    """Extract what the output of a step teaches (agentkit)."""
    assert view.output is not None
    step, text = view.output.source, validation.clean_text(view.output.content).strip()
    if len(text) < SHORTEST_OUTPUT:
        skipped = f"the output has fewer than {SHORTEST_OUTPUT} characters"
        return view.build_plan(EXTRACT_NAME, skipped=skipped)
    text = text[:LONGEST_OUTPUT]
    places = {"step": escape_line(step) or "(unnamed)", "output": fence(text)}
    answer = yield from ask_once(view, EXTRACT, places)
    lists = {name: to_texts(answer.fields.get(name)) for name in KINDS_OF_LISTS}
    if answer.why:
        for sentence in split_sentences(text):
            found = (name for name, words in _RULES.items() if re.search(rf"\b(?:{words})\b", sentence, re.I))
            name = next(found, "")
            if name and len(sentence) >= 15 and not sentence.endswith("?"):
                lists[name].append(sentence)
    records = [
        replace(view.output, content=each, kind=kind)
        for name, kind in KINDS_OF_LISTS.items()
        for each in dict.fromkeys(lists[name][:_MAX_STATEMENTS])
        if _is_grounded(each, text)
    ]
    why = f"the output of {step or 'a step'}"
    steps = tuple(PlanStep(edit=change, why=why) for change in view.plan_records(records))
    return view.build_plan(
        EXTRACT_NAME,
        steps=steps,
        notes=(answer.why,) if answer.why else (),
        skipped="" if steps else answer.why or "nothing in it is worth keeping",
        usage=answer.usage,
    )


def _is_grounded(statement: str, output: str) -> bool:
    """Return whether the values and orders to the assistant of a statement stand in the output."""
    is_known = not extract_specifics(statement).list_new_values(extract_specifics(output))
    return is_known and len(statement) <= _LONGEST_STATEMENT and not find_new_injection([output], statement)
