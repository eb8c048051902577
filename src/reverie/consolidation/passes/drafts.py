"""Passes over drafts: rough notes become well-formed records, and output of steps becomes findings and lessons."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from reverie.consolidation.plan import Plan, PlanStep, Rejection
from reverie.consolidation.planning.flows import Flow, ask_for_json
from reverie.consolidation.planning.inputs import PassInput, apply_changes, build_cursor_name, combine_plans
from reverie.consolidation.planning.material import split_sentences
from reverie.consolidation.planning.plan_builder import find_new_injection
from reverie.consolidation.planning.requests import (
    build_schema,
    to_text,
    to_texts,
)
from reverie.domain.category import validate_category
from reverie.domain.change import Change
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import Kind, Record, normalize_labels, validate_record
from reverie.domain.similarity.grounding import Evidence, find_unknown_words, find_unsaid
from reverie.domain.similarity.specifics import Specifics, extract_specifics
from reverie.domain.text import validation
from reverie.domain.text.escaping import escape_line, fence
from reverie.repositories.records import NewRecord

NAME = "enrich"
PROMPT = "memory-rules.md"

MOST_RECORDS = 12
"""Records that one draft may become."""

MOST_DRAFTS = 20
"""Drafts that are enriched in one plan; each takes a request."""

ENRICHED_FROM = "enriched_from"
_MOST_CATEGORIES = 100
_MOST_REFUSED = 3  # first drafts that all fail before the model is left alone
_SLACK = 40  # characters of each record, for what makes it understandable without the others
SCHEMA = build_schema({"records": [{"content": str, "category": str, "tags": [str]}]})


def enrich_drafts(view: PassInput) -> Flow[Plan]:
    """Split and file each of the drafts that were saved since the last cycle.

    A draft that the model did not answer for is tried again in the next cycle; after two of these in a row,
    so are the rest. A draft that the model refuses stays as it is if the model answers for another one.
    """
    parts: list[Plan] = []
    current = view
    for draft, _ in view.drafts[:MOST_DRAFTS]:
        part = yield from enrich(current, draft, categories=view.categories.get(draft.scope, ()))
        parts.append(part)
        if _is_model_away(parts):
            break
        current = replace(current, records=apply_changes(current.records, part.edits))
    if not all(part.failed for part in parts):
        parts = [
            replace(_build_settled_plan(view, draft, part.failed), refused=part.refused, usage=part.usage)
            if part.failed and part.refused
            else part
            for (draft, _), part in zip(view.drafts, parts, strict=False)
        ]
    plan = combine_plans(view, NAME, parts, skipped="there is no rough note")
    if plan.failed:
        return plan
    read_until = view.until if len(parts) == len(view.drafts) else view.drafts[len(parts)][1] - 1
    return replace(plan, cursors={build_cursor_name(NAME): str(read_until)})


def _is_model_away(parts: Sequence[Plan]) -> bool:
    """Whether the plans so far indicate that the model answers no request.

    A single draft may be too much for the model, such as a very long one; then the next ones are tried.
    """
    if len(parts) >= _MOST_REFUSED and all(part.failed for part in parts):
        return True
    return [bool(part.failed) and not part.refused for part in parts[-2:]] == [True, True]


def enrich(view: PassInput, note: Record, *, categories: Sequence[str] = ()) -> Flow[Plan]:
    """Split and file one draft.

    Args:
        view: The moment, the prompts and the live records.
        note: The draft.
        categories: Categories in use, the most frequent first.
    """
    if note.archived or note.pinned:
        return view.build_plan(NAME, skipped="the note is archived or pinned")
    known = ", ".join(categories[:_MOST_CATEGORIES]) or "(none)"
    request = view.build_question(
        PROMPT,
        {"categories": known, "note": fence(note.content)},
        purpose=NAME,
        schema=SCHEMA,
        answer_tokens=1_000 + 2 * validation.estimate_tokens(note.content),
        timeout_s=60.0,
    )
    answer = yield from ask_for_json(request)
    why = f"the note stays as it is: {answer.why}"
    if answer.has_no_model:
        return view.build_plan(NAME, skipped=why, usage=answer.usage)
    if answer.why and not answer.is_unusable:
        refused = (_build_rejection(note, answer.why),) if answer.is_refused else ()
        return view.build_plan(NAME, failed=why, refused=refused, usage=answer.usage)
    if answer.why:
        return replace(_build_settled_plan(view, note, why), usage=answer.usage)
    try:
        records = _build_records(view, note, answer.fields.get("records"))
    except InvalidInput as error:
        why = f"the note stays as it is: {error}"
        return replace(_build_settled_plan(view, note, why), usage=answer.usage)
    if why := _explain_refusal(view, note, records):
        settled = _build_settled_plan(view, note, "the note stays as it is")
        return replace(settled, refused=(_build_rejection(note, why),), usage=answer.usage)
    return replace(_plan(view, note, records), usage=answer.usage)


def _build_rejection(note: Record, why: str) -> Rejection:
    return Rejection(what=f"enrich {note.id}", why=why, protects=(note.id,))


def _build_records(view: PassInput, note: Record, proposals: Any) -> list[Record]:
    """Return the records of an answer. Trust, scope, times and confidence are those of the draft."""
    if not isinstance(proposals, list) or not 0 < len(proposals) <= MOST_RECORDS:
        raise InvalidInput(f"the answer has no list of 1 to {MOST_RECORDS} records")
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
                    draft=False,
                    metadata=MappingProxyType({**note.metadata, ENRICHED_FROM: note.id}),
                )
            )
        )
    return records


def _explain_refusal(view: PassInput, note: Record, records: Sequence[Record]) -> str:
    known = extract_specifics(note.content)
    together = extract_specifics("\n".join(record.content for record in records))
    if missing := known.find_missing_from(together) | known.subtract(together, "affirmed"):
        return f"it would lose: {', '.join(sorted(missing))}"
    length = sum(len(record.content) for record in records)
    if length > 2 * len(note.content) + _SLACK * len(records):
        return f"it would be longer than the note is: {length:,} characters"
    said = [Evidence(text=note.content, at=note.created_at)]
    for record in records:
        if why := find_unsaid(record.content, said) or find_unknown_words(record.content, said):
            return why.replace("no cited turn says", "the note does not say")
    if together.negations - known.negations or _list_values(known, together) != _list_values(known, known):
        return "the names and values of the note would be in another order"
    fingerprints = [record.fingerprint for record in records]
    if len(set(fingerprints)) < len(fingerprints):
        return "it says something twice"
    live = {record.fingerprint: record.id for record in view.records if record.scope == note.scope}
    for fingerprint in fingerprints:
        if live.get(fingerprint, note.id) != note.id:
            return f"the live record {live[fingerprint]} says a part of it already"
    return ""


def _list_values(note: Specifics, text: Specifics) -> list[str]:
    """Return the numbers and single-word names of a note in the order in which they first occur in a text."""
    values = note.numbers | note.names
    return [word for word in dict.fromkeys(text.wording.split()) if word in values]


def _plan(view: PassInput, note: Record, records: Sequence[Record]) -> Plan:
    """Return the plan that adds the records, and archives the draft or makes it one of them."""
    twin = next((record for record in records if record.fingerprint == note.fingerprint), None)
    steps = [
        PlanStep(edit=Change(before=None, after=record), why="a part of the note", sources=(note.id,))
        for record in records
        if record is not twin
    ]
    if twin is not None:
        after = replace(twin, id=note.id, content=note.content, draft=False, metadata=note.metadata)
        if replace(after, draft=note.draft) == note and not steps:
            return _build_settled_plan(view, note, "the note is well-formed already")
    else:
        after = view.archive(note, f"enriched into {', '.join(record.id for record in records)}")
    steps.append(
        PlanStep(edit=Change(before=note, after=after), why="the note it was made of", sources=(note.id,))
    )
    return view.build_plan(NAME, steps=tuple(steps))


def _build_settled_plan(view: PassInput, note: Record, why: str) -> Plan:
    """Return the plan that keeps the draft in its words, and marks it as done."""
    if not note.draft:
        return view.build_plan(NAME, skipped=why)
    after = replace(note, draft=False)
    step = PlanStep(edit=Change(before=note, after=after), why=why, sources=(note.id,))
    return view.build_plan(NAME, steps=(step,))


# -- extract --------------------------------------------------------------------------------------


EXTRACT_NAME = "extract"
EXTRACT_PROMPT = "extract.md"

SHORTEST_OUTPUT = 50
LONGEST_OUTPUT = 4_000
_LONGEST_STATEMENT = 500
_MOST = 20

_BULLET = defer_regex(r"^(?:[-*+•]|\d{1,3}[.)])\s+")
_LESSON = defer_regex(
    r"\b(?:learned that|lesson|next time|in future|avoid|always|never|make sure|should use|don't|do not)\b",
    re.I,
)
_INSIGHT = defer_regex(
    r"\b(?:decided|conclusion|conclude|therefore|key insight|will use|agreed|better than|simpler than|"
    r"because of this|turns out|means that)\b",
    re.I,
)
_FINDING = defer_regex(
    r"\b(?:important|remember|note that|found that|discovered|is limited to|requires|supports)\b", re.I
)
KINDS_OF_LISTS: Mapping[str, Kind] = MappingProxyType(
    {"findings": "finding", "insights": "insight", "lessons": "lesson"}
)
EXTRACT_SCHEMA = build_schema({name: [str] for name in KINDS_OF_LISTS})


def extract(view: PassInput) -> Flow[Plan]:
    """Extract what the output of a step teaches."""
    text = validation.clean_text(view.output).strip()
    if len(text) < SHORTEST_OUTPUT:
        return view.build_plan(
            EXTRACT_NAME, skipped=f"the output has fewer than {SHORTEST_OUTPUT} characters"
        )
    text = text[:LONGEST_OUTPUT]
    places = {"step": escape_line(view.step) or "(unnamed)", "output": fence(text)}
    request = view.build_question(
        EXTRACT_PROMPT,
        places,
        purpose=EXTRACT_NAME,
        schema=EXTRACT_SCHEMA,
        answer_tokens=1_000,
        timeout_s=60.0,
    )
    answer = yield from ask_for_json(request)
    if answer.why:
        found = _extract_by_rule(text)
    else:
        found = {name: _select_grounded(to_texts(answer.fields.get(name)), text) for name in KINDS_OF_LISTS}
    records = [
        NewRecord(content=each, kind=kind, source=view.step, origin=view.origin, scope=view.scope)
        for name, kind in KINDS_OF_LISTS.items()
        for each in found[name]
    ]
    why = f"the output of {view.step or 'a step'}"
    steps = tuple(PlanStep(edit=change, why=why) for change in view.plan_records(records))
    return view.build_plan(
        EXTRACT_NAME,
        steps=steps,
        notes=(answer.why,) if answer.why else (),
        skipped="" if steps else answer.why or "nothing in it is worth keeping",
        usage=answer.usage,
    )


def _select_grounded(texts: list[str], output: str) -> tuple[str, ...]:
    """Return the statements whose numbers, addresses and orders to the assistant stand in the output."""
    known = extract_specifics(output)
    grounded = []
    for text in texts[:_MOST]:
        said = extract_specifics(text)
        is_known = said.numbers <= known.numbers and said.addresses <= known.addresses
        if is_known and len(text) <= _LONGEST_STATEMENT and not find_new_injection([output], text):
            grounded.append(text)
    return tuple(grounded)


def _extract_by_rule(text: str) -> dict[str, tuple[str, ...]]:
    lists: dict[str, dict[str, None]] = {name: {} for name in KINDS_OF_LISTS}
    for part in split_sentences(text):
        sentence = _BULLET.sub("", part)
        if not 15 <= len(sentence) <= _LONGEST_STATEMENT or sentence.endswith("?"):
            continue
        for name, rule in (("lessons", _LESSON), ("insights", _INSIGHT), ("findings", _FINDING)):
            if rule.search(sentence):
                lists[name][sentence] = None
                break
    return {name: tuple(found)[:_MOST] for name, found in lists.items()}
