"""Evaluation of headlines over records: which are accepted, and what a prompt shows when somebody asks.

The records of an item are saved in a memory of their own. A scripted model proposes the headline, and answers the
question whether it is true, once as the label says and once always with yes. Then the headline is put into use
whatever was decided, and the question is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.measures.harness import Evaluation, format_share
from evaluation.measures.scripted_verifier import answer_check
from evaluation.output import compute_wilson_interval
from reverie import Change, Memory, Settings
from reverie.consolidation.flows import run_pass, verify_claims
from reverie.consolidation.passes.tidy import HeadlineWriter
from reverie.consolidation.plan_builder import PlanBuilder
from reverie.consolidation.values import PassInput
from reverie.domain.errors import InvalidInput
from reverie.domain.headlines import build_headline
from reverie.domain.record import Record
from reverie.domain.text.ids import generate_id
from reverie.llm.protocol import ModelReply, ModelRequest

_COLUMNS = ("clusters", "accepted", "share", "95 %", "by code alone", "share", "truth found", "truth shown")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineCase:
    """Records, and a headline over them.

    Attributes:
        id: Its name, such as `merging-017`.
        language: Its language, such as `en`.
        parts: What the records say.
        headline: What the headline says.
        good: Whether it is true to the records.
        harm: What is wrong with it; empty for a good one.
        question: A question about the records.
        truth: Words of a record that answer it.
    """

    id: str
    language: str
    parts: tuple[str, ...]
    headline: str
    good: bool
    harm: str
    question: str
    truth: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineVerdict:
    """Result of a case.

    Attributes:
        case: The case.
        accepted: Whether it is accepted with an honest model.
        accepted_by_code: Whether it is accepted with a model that says yes to everything.
        reason: Why it was refused; empty if it was accepted.
        found: Whether the prompt has the truth if there is no headline.
        shown: Whether the prompt has the truth if the headline is in use.
    """

    case: HeadlineCase
    accepted: bool
    accepted_by_code: bool
    reason: str
    found: bool
    shown: bool


def judge_case(case: HeadlineCase) -> HeadlineVerdict:
    """Propose the headline of a case, and ask its question."""
    with Memory.open(":memory:", settings=Settings(embedder="none")) as memory:
        parts = [memory.save(text).record for text in case.parts]
        found = case.truth in memory.session("eval").context(case.question, record_shown=False).text
        honest = _propose(case, parts, is_true=case.good)
        yes = _propose(case, parts, is_true=True, always=True)
        _put_into_use(memory, case, parts)
        shown = case.truth in memory.session("eval").context(case.question, record_shown=False).text
    return HeadlineVerdict(
        case=case, accepted=not honest, accepted_by_code=not yes, reason=honest, found=found, shown=shown
    )


def _propose(case: HeadlineCase, parts: Sequence[Record], *, is_true: bool, always: bool = False) -> str:
    """Return why the headline is refused; empty if it is accepted."""
    view = PassInput(now=max(part.updated_at for part in parts), records=tuple(parts), is_trusted=True)
    draft = PlanBuilder(view, name="tidy")
    writer = HeadlineWriter(draft)

    names = dict.fromkeys(part.id for part in parts)
    chosen = [*filter(None, [writer.propose(names, case.headline)])]
    claims = tuple(map(writer.to_claim, chosen))

    def answer(ask: ModelRequest) -> ModelReply:
        own = {claim.text for claim in claims} if is_true else set()
        return ModelReply(text=answer_check(ask.messages[-1].content, lambda text: always or text in own))

    for proposal, why in zip(
        chosen, run_pass(verify_claims(view, claims, scope=""), answer).reasons, strict=True
    ):
        writer.decide(proposal, why)
    return "" if draft.steps else "; ".join(refusal.why for refusal in draft.plan().refused) or "no reason"


def _put_into_use(memory: Memory, case: HeadlineCase, parts: Sequence[Record]) -> None:
    now = max(part.updated_at for part in parts)
    headline = build_headline(
        list({part.id: part for part in parts}.values()), case.headline, id=generate_id(), now=now
    )
    memory._parts.writer.commit([Change(before=None, after=headline)], note="headline")


def _parse(fields: dict[str, Any], at: str) -> HeadlineCase:
    texts = [fields[name] for name in ("id", "language", "headline", "question", "truth")]
    parts = fields["parts"]
    if not isinstance(parts, list) or not all(isinstance(text, str) and text for text in (*texts, *parts)):
        raise InvalidInput(f"{at} is not a cluster: its fields are texts, and parts is a list of texts")
    return HeadlineCase(**{**fields, "parts": tuple(parts)})


def _summarize(verdicts: Sequence[HeadlineVerdict]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name, good in (("good", True), ("harmful", False)):
        group = [each for each in verdicts if each.case.good is good]
        accepted = sum(each.accepted for each in group)
        figures[name] = {
            "clusters": len(group),
            "accepted": accepted,
            "accepted_interval": compute_wilson_interval(accepted, len(group)),
            "accepted_by_code": sum(each.accepted_by_code for each in group),
            "truth_found": sum(each.found for each in group),
            "truth_shown": sum(each.shown for each in group if each.found),
        }
    return figures


def _iterate_rows(name: str, verdicts: Sequence[HeadlineVerdict]) -> Iterator[tuple[str, ...]]:
    for label, good in (("good", True), ("harmful", False)):
        group = [each for each in verdicts if each.case.good is good]
        accepted, by_code = sum(each.accepted for each in group), sum(each.accepted_by_code for each in group)
        yield (
            f"{name}, {label}",
            str(len(group)),
            str(accepted),
            *format_share(accepted, len(group)),
            str(by_code),
            format_share(by_code, len(group))[0],
            str(sum(each.found for each in group)),
            str(sum(each.shown for each in group if each.found)),
        )


def _iterate_errors(verdicts: Sequence[HeadlineVerdict]) -> Iterator[str]:
    for each in verdicts:
        wrong = [
            *(["good, and refused: " + each.reason] if each.case.good and not each.accepted else []),
            *(["harmful, and accepted"] if not each.case.good and each.accepted else []),
            *(["the truth is not found"] if not each.found else []),
            *(["the truth is not shown"] if each.found and not each.shown else []),
        ]
        if wrong:
            yield f"{each.case.id}: {'; '.join(wrong)}"
            yield from (f"  - {part}" for part in each.case.parts)
            yield f"  headline: {each.case.headline}"
            yield f"  question: {each.case.question}"


EVALUATION = Evaluation(
    noun="cluster",
    files={"clusters": "merging.jsonl"},
    sealed_files={"sealed": "merging-sealed.jsonl"},
    fields=("id", "language", "parts", "headline", "good", "harm", "question", "truth"),
    parse=_parse,
    judge=judge_case,
    help="""Measure which headlines over records are accepted, and whether they ever hide a fact.

    Judges the labelled clusters of the repository, or those of FILE: one JSON object a line with id, parts (the
    records), headline, good, harm, question and truth (words of a record that answer the question). "accepted"
    counts the headlines that are accepted if the model that checks them answers as the label says, "by code
    alone" those that are if it says yes to everything. The two last columns are about a prompt for the question:
    how often it has the truth without a headline, and how often still if the headline is in use, whatever was
    decided about it. Exits with 1 if a headline hides a truth.
    """,
    listed="good headlines refused, harmful ones accepted, and truths not shown",
    columns=_COLUMNS,
    rows=_iterate_rows,
    errors=_iterate_errors,
    summarize=_summarize,
    describe=lambda verdict: {
        "id": verdict.case.id,
        "accepted": verdict.accepted,
        "found": verdict.found,
        "shown": verdict.shown,
    },
    group_of=lambda case: case.language,
    group_name="language",
    is_failure=lambda verdict: verdict.found and not verdict.shown,
)
"""The evaluation that `python -m evaluation merging` runs."""
