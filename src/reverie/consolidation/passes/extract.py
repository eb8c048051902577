"""Extraction of findings, insights and lessons from the output of a step of work (agentkit).

An output under 50 characters is ignored, one over 4,000 is cut. Without a usable reply, sentences with words
such as `decided` or `learned that` are taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from reverie.consolidation.plan import Plan, PlanStep
from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.material import split_sentences
from reverie.consolidation.planning.plan_builder import find_new_injection
from reverie.consolidation.planning.requests import Flow, ask_for_json, build_question, build_schema, to_texts
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import Kind
from reverie.domain.similarity.specifics import extract_specifics
from reverie.domain.text import validation
from reverie.domain.text.escaping import escape_line, fence
from reverie.repositories.records import NewRecord

NAME = "extract"
PROMPT = "extract.md"

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
SCHEMA = build_schema({name: [str] for name in KINDS_OF_LISTS})


def extract(view: PassInput) -> Flow[Plan]:
    """Extract what the output of a step teaches."""
    text = validation.clean_text(view.output).strip()
    if len(text) < SHORTEST_OUTPUT:
        return view.build_plan(NAME, skipped=f"the output has fewer than {SHORTEST_OUTPUT} characters")
    text = text[:LONGEST_OUTPUT]
    asked = view.fill_prompt(PROMPT, step=escape_line(view.step) or "(unnamed)", output=fence(text))
    request = build_question(asked, purpose=NAME, schema=SCHEMA, answer_tokens=1_000, timeout_s=60.0)
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
        NAME,
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
