"""Evaluation of what a model proposes with citations: changes of notes, and preferences.

Every proposal is judged by the code that a digest and an inference use, and what code accepts is verified as they
verify it, by a scripted model that answers as the label says. A proposal that is not borne out by the turns it cites
may never be accepted; one that is should be. What code alone accepts is counted too: it is what a model would let
through that denies nothing but the claim that is made up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any

from reverie.consolidation.planning.driver import run_pass
from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.page_patch import LineChange, PagePatch
from reverie.consolidation.planning.preference_evidence import explain_unshown
from reverie.consolidation.planning.verification import Claim, format_evidence, verify_claims
from reverie.domain.conversation import Turn
from reverie.domain.errors import InvalidInput
from reverie.evals.recall import metrics
from reverie.evals.rules.harness import Evaluation, Results, format_share, iterate_rows_by_language
from reverie.evals.rules.scripted_verifier import answer_check
from reverie.llm.messages import ModelReply, ModelRequest

_COLUMNS = (
    "proposals", "good", "accepted", "share", "95 %", "by code alone",
    "bad", "accepted", "share", "95 %", "by code alone",
)  # fmt: skip
_START = datetime(2026, 3, 2, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledProposal:
    """A model's proposal, and whether the cited turns support it.

    Attributes:
        text: The proposal, in words.
        is_good: Whether they do, according to a reader.
        why: Why.
        refuse: Function that returns why code refuses it; empty where it does not.
        build_claim: Function that returns what is verified.
    """

    text: str
    is_good: bool
    why: str
    refuse: Callable[[], str]
    build_claim: Callable[[], Claim]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationProposals:
    """A conversation and the proposals made from it."""

    id: str
    language: str
    proposals: tuple[LabelledProposal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalVerdict:
    """The proposals of a conversation, each with why it was refused; empty where it was accepted.

    Attributes:
        item: The conversation.
        reasons: Why each was refused by code or by an honest model.
        by_code: Why each was refused by code.
    """

    item: ConversationProposals
    reasons: tuple[str, ...]
    by_code: tuple[str, ...]

    def iterate(self) -> Iterator[tuple[LabelledProposal, str]]:
        """Yield each proposal with the reason."""
        yield from zip(self.item.proposals, self.reasons, strict=True)


def judge_proposals(item: ConversationProposals) -> ProposalVerdict:
    """Ask the code about every proposal, each by itself, and an honest model about those that it accepts."""
    by_code = tuple(each.refuse() for each in item.proposals)
    reasons = tuple(why or _verify(each) for each, why in zip(item.proposals, by_code, strict=True))
    return ProposalVerdict(item=item, reasons=reasons, by_code=by_code)


def _verify(proposal: LabelledProposal) -> str:
    """Return why a proposal is refused by a model that answers as its label says; empty if it is accepted."""

    def answer(ask: ModelRequest) -> ModelReply:
        return ModelReply(text=answer_check(ask.messages[0].content, lambda _: proposal.is_good))

    [why] = run_pass(verify_claims(PassInput(now=_START), [proposal.build_claim()]), answer).reasons
    return why


def _parse_changes(fields: dict[str, Any], at: str) -> ConversationProposals:
    try:
        turns = _build_turns(fields["turns"])
        content = "".join(f"{line}\n" for line in fields["lines"])
        proposals = tuple(_parse_change(change, turns, content) for change in fields["changes"])
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise InvalidInput(f"{at} is not a conversation with changes: {error!r}") from None
    return ConversationProposals(id=fields["id"], language=fields["language"], proposals=proposals)


def _parse_change(fields: Mapping[str, Any], turns: Sequence[Turn], content: str) -> LabelledProposal:
    change = LineChange(
        do=fields["do"],
        line=fields["line"],
        text=fields["text"],
        turns=tuple(turns[at] for at in fields["turns"]),
    )
    patch = PagePatch(content, turns=turns)
    line = "" if change.line is None else f" ({content.splitlines()[change.line]})"
    return LabelledProposal(
        text=f"{change.do}: {change.text}{line}",
        is_good=fields["good"],
        why=fields["why"],
        refuse=lambda: PagePatch(content, turns=turns).take(change),
        build_claim=lambda: patch.to_claim(change),
    )


def _parse_preference(fields: dict[str, Any], at: str) -> ConversationProposals:
    try:
        turns = _build_turns(fields["turns"])
        text = fields["preference"]["text"]
        cited = [turns[place] for place in fields["preference"]["turns"]]
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise InvalidInput(f"{at} is not a conversation with a preference: {error!r}") from None
    before = {turn.id: earlier.content for earlier, turn in pairwise(turns) if earlier.role == "assistant"}
    evidence = format_evidence(cited, before)
    proposal = LabelledProposal(
        text=text,
        is_good=fields["good"],
        why=fields["why"],
        refuse=partial(explain_unshown, text, cited),
        build_claim=lambda: Claim(kind="preference", text=text, evidence=evidence),
    )
    return ConversationProposals(id=fields["id"], language=fields["language"], proposals=(proposal,))


def _build_turns(turns: Sequence[Mapping[str, Any]]) -> list[Turn]:
    return [
        Turn(
            id=f"{at:012x}",
            session="eval",
            position=at,
            role=turn["role"],
            content=turn["text"],
            at=_START + timedelta(minutes=at),
        )
        for at, turn in enumerate(turns)
    ]


@dataclass(frozen=True, slots=True)
class _Counts:
    """Number of proposals with one label, and of those that are accepted."""

    total: int
    accepted: int
    by_code: int


def _count(verdicts: Sequence[ProposalVerdict], *, is_good: bool) -> _Counts:
    judged = [
        (why, by_code)
        for verdict in verdicts
        for (proposal, why), by_code in zip(verdict.iterate(), verdict.by_code, strict=True)
        if proposal.is_good is is_good
    ]
    return _Counts(len(judged), sum(not why for why, _ in judged), sum(not by_code for _, by_code in judged))


def _summarize(verdicts: Sequence[ProposalVerdict]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name, is_good in (("good", True), ("bad", False)):
        counts = _count(verdicts, is_good=is_good)
        figures |= {
            name: counts.total,
            f"{name}_accepted": counts.accepted,
            f"{name}_interval": metrics.compute_wilson_interval(counts.accepted, counts.total),
            f"{name}_accepted_by_code": counts.by_code,
        }
    return figures


def _iterate_rows(results: Results[ProposalVerdict]) -> Iterator[tuple[str, ...]]:
    return iterate_rows_by_language(results, lambda each: each.item.language, _format_row)


def _format_row(name: str, verdicts: Sequence[ProposalVerdict]) -> tuple[str, ...]:
    cells = []
    for counts in (_count(verdicts, is_good=True), _count(verdicts, is_good=False)):
        share = format_share(counts.accepted, counts.total)
        cells += [str(counts.total), str(counts.accepted), *share, str(counts.by_code)]
    return (name, str(sum(len(each.reasons) for each in verdicts)), *cells)


def _iterate_errors(results: Results[ProposalVerdict]) -> Iterator[str]:
    for verdict in (each for verdicts in results.values() for each in verdicts):
        for (proposal, reason), by_code in zip(verdict.iterate(), verdict.by_code, strict=True):
            if proposal.is_good == bool(by_code):
                error = f"refused, {reason}" if reason and by_code else "accepted wrongly by code alone"
                yield f"{verdict.item.id}: {error}: {proposal.text} ({proposal.why})"


def _build_evaluation(
    name: str, fields: Sequence[str], parse: Callable[[dict[str, Any], str], ConversationProposals]
) -> Evaluation[ConversationProposals, ProposalVerdict]:
    return Evaluation(
        noun="conversation",
        files={name: f"{name}.jsonl"},
        sealed_files={f"{name}, sealed": f"{name}-sealed.jsonl"},
        fields=fields,
        parse=parse,
        judge=judge_proposals,
        columns=_COLUMNS,
        rows=_iterate_rows,
        errors=_iterate_errors,
        summarize=_summarize,
        describe=lambda verdict: {"id": verdict.item.id, "refused": list(verdict.reasons)},
        group_of=lambda item: item.language,
        group_name="language",
    )


DIGEST = _build_evaluation("digest", ("id", "language", "lines", "turns", "changes"), _parse_changes)
"""The evaluation that `reverie eval digest` runs."""

_FIELDS = ("id", "language", "turns", "preference", "good", "why")
INFER = _build_evaluation("infer", _FIELDS, _parse_preference)
"""The evaluation that `reverie eval infer` runs."""
