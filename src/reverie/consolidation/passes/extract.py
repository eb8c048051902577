"""Extraction of findings, insights and lessons from the output of a step of work (agentkit).

An output under 50 characters is ignored, one over 4,000 is cut. Without a usable reply, sentences with words
such as `decided` or `learned that` are taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from reverie.consolidation.planning.answer_schemas import TEXTS, build_object
from reverie.consolidation.planning.driver import Flow
from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.plan_builder import find_new_injection
from reverie.consolidation.planning.questions import build_question
from reverie.consolidation.planning.reply_parsing import UnusableReply, parse_answer, to_texts
from reverie.consolidation.planning.transcript import split_sentences
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.similarity.specifics import extract_specifics
from reverie.domain.text import validation
from reverie.domain.text.escaping import escape_line, fence
from reverie.llm.messages import ModelReply, TokenUsage

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
_LISTS = ("findings", "insights", "lessons")
SCHEMA = build_object(**dict.fromkeys(_LISTS, TEXTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """Findings, insights and lessons of an output.

    Attributes:
        findings: Facts.
        insights: Conclusions.
        lessons: What to do next time.
        note: How it was done, where that is worth saying.
        usage: What asking cost.
    """

    findings: tuple[str, ...] = ()
    insights: tuple[str, ...] = ()
    lessons: tuple[str, ...] = ()
    note: str = ""
    usage: TokenUsage = field(default_factory=TokenUsage)

    def __bool__(self) -> bool:
        return bool(self.findings or self.insights or self.lessons)


def extract(view: PassInput, output: str, *, step: str = "") -> Flow[Extraction]:
    """Extract what the output of a step teaches.

    Args:
        view: The moment and the prompts.
        output: What the step put out.
        step: Its name, such as `GOAL:deploy`.
    """
    text = validation.clean_text(output).strip()
    if len(text) < SHORTEST_OUTPUT:
        return Extraction(note=f"the output has fewer than {SHORTEST_OUTPUT} characters")
    text = text[:LONGEST_OUTPUT]
    asked = view.fill_prompt(PROMPT, step=escape_line(step) or "(unnamed)", output=fence(text))
    reply = yield build_question(asked, purpose=NAME, schema=SCHEMA, answer_tokens=1_000, timeout_s=60.0)
    if not isinstance(reply, ModelReply):
        return _extract_by_rule(text, note=reply.why, usage=reply.usage)
    try:
        answer = parse_answer(reply, SCHEMA)
    except UnusableReply as error:
        return _extract_by_rule(text, note=str(error), usage=reply.usage)
    findings, insights, lessons = (_select_grounded(to_texts(answer.get(name)), text) for name in _LISTS)
    return Extraction(findings=findings, insights=insights, lessons=lessons, usage=reply.usage)


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


def _extract_by_rule(text: str, *, note: str, usage: TokenUsage) -> Extraction:
    lists: dict[str, dict[str, None]] = {name: {} for name in _LISTS}
    for part in split_sentences(text):
        sentence = _BULLET.sub("", part)
        if not 15 <= len(sentence) <= _LONGEST_STATEMENT or sentence.endswith("?"):
            continue
        for name, rule in (("lessons", _LESSON), ("insights", _INSIGHT), ("findings", _FINDING)):
            if rule.search(sentence):
                lists[name][sentence] = None
                break
    findings, insights, lessons = (tuple(lists[name])[:_MOST] for name in _LISTS)
    return Extraction(findings=findings, insights=insights, lessons=lessons, note=note, usage=usage)
