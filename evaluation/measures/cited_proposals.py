"""Evaluation of what a model proposes with citations: preferences, and facts of a conversation.

Every proposal is judged by the code that the pass uses, and what code accepts is verified as the passes
verify it, by a scripted model that answers as the label says and denies controls. A proposal that is not borne out by
the turns it cites may never be accepted; one that is should be. What code alone accepts is counted too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any

from evaluation.measures.harness import Evaluation, format_share, group_rows
from evaluation.measures.scripted_verifier import answer_check
from evaluation.output import compute_wilson_interval
from reverie.consolidation.flows import Claim, format_evidence, run_pass, verify_claims
from reverie.consolidation.passes.preferences import explain_unshown
from reverie.consolidation.passes.read import read
from reverie.consolidation.values import PassInput, WindowInput
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput
from reverie.llm.protocol import ModelReply, ModelRequest

_COLUMNS = (
    "proposals", "good", "accepted", "share", "95 %", "by code alone",
    "bad", "accepted", "share", "95 %", "by code alone", "precision", "95 %",
)  # fmt: skip
_STRONGEST = "strong"
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
        is_true = proposal.is_good
        return ModelReply(
            text=answer_check(ask.messages[0].content, lambda text: is_true and text == claim.text)
        )

    claim = proposal.build_claim()
    view = PassInput(now=_START, is_trusted=True)
    [why] = run_pass(verify_claims(view, [claim], scope=""), answer).reasons
    return str(why)


def _parse_preference(fields: dict[str, Any], at: str) -> ConversationProposals:
    try:
        turns = _build_turns(fields["turns"])
        text = fields["preference"]["text"]
        cited = [turns[place] for place in fields["preference"]["turns"]]
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise InvalidInput(f"{at} is not a conversation with a preference: {error!r}") from None
    evidence = format_evidence(cited, _get_said_before(turns))
    proposal = LabelledProposal(
        text=text,
        is_good=fields["good"],
        why=fields["why"],
        refuse=partial(explain_unshown, text, [(turn, _STRONGEST) for turn in cited]),
        build_claim=lambda: Claim(kind="preference", text=text, evidence=evidence),
    )
    return ConversationProposals(id=fields["id"], language=fields["language"], proposals=(proposal,))


def _parse_facts(fields: dict[str, Any], at: str) -> ConversationProposals:
    try:
        turns = _build_turns(fields["turns"])
        proposals = tuple(_parse_fact(record, turns) for record in fields["records"])
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise InvalidInput(f"{at} is not a conversation with records: {error!r}") from None
    return ConversationProposals(id=fields["id"], language=fields["language"], proposals=proposals)


def _parse_fact(fields: Mapping[str, Any], turns: Sequence[Turn]) -> LabelledProposal:
    text = fields["content"]
    evidence = format_evidence([turns[place] for place in fields["turns"]], _get_said_before(turns))
    labels = [f"T{place + 1}" for place in fields["turns"]]
    answer = json.dumps({"add": [{"content": text, "kind": "fact", "category": "", "turns": labels}]})
    return LabelledProposal(
        text=text,
        is_good=fields["good"],
        why=fields["why"],
        refuse=partial(_explain_forgotten, answer, turns),
        build_claim=lambda: Claim(kind="fact", text=text, evidence=evidence),
    )


def _explain_forgotten(answer: str, turns: Sequence[Turn]) -> str:
    """Return why the pass `read` does not take the record that a model answers with; empty if it does."""
    state = SessionState(id="eval", created_at=_START)
    window = WindowInput(state=state, older=tuple(turns), start=0)
    reply = ModelReply(text=answer)
    found = run_pass(read(PassInput(now=_START + timedelta(hours=1), window=window)), lambda _: reply)
    return "; ".join(refusal.why for refusal in found.refused)


def _get_said_before(turns: Sequence[Turn]) -> dict[str, str]:
    """Return what the assistant had said just before a turn, by the turn's id."""
    return {turn.id: earlier.content for earlier, turn in pairwise(turns) if earlier.role == "assistant"}


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


def _count_precision(verdicts: Sequence[ProposalVerdict]) -> tuple[int, int]:
    """Return how many proposals code alone accepts rightly, and how many it accepts."""
    right, wrong = (_count(verdicts, is_good=is_good).by_code for is_good in (True, False))
    return right, right + wrong


def _summarize(verdicts: Sequence[ProposalVerdict]) -> dict[str, Any]:
    figures: dict[str, Any] = {"precision_by_code": _count_precision(verdicts)}
    for name, is_good in (("good", True), ("bad", False)):
        counts = _count(verdicts, is_good=is_good)
        figures |= {
            name: counts.total,
            f"{name}_accepted": counts.accepted,
            f"{name}_interval": compute_wilson_interval(counts.accepted, counts.total),
            f"{name}_accepted_by_code": counts.by_code,
        }
    return figures


def _format_row(name: str, verdicts: Sequence[ProposalVerdict]) -> tuple[str, ...]:
    cells = []
    for counts in (_count(verdicts, is_good=True), _count(verdicts, is_good=False)):
        share = format_share(counts.accepted, counts.total)
        cells += [str(counts.total), str(counts.accepted), *share, str(counts.by_code)]
    right, accepted = _count_precision(verdicts)
    return (name, str(sum(len(each.reasons) for each in verdicts)), *cells, *format_share(right, accepted))


def _iterate_errors(verdicts: Sequence[ProposalVerdict]) -> Iterator[str]:
    for verdict in verdicts:
        for (proposal, reason), by_code in zip(verdict.iterate(), verdict.by_code, strict=True):
            if proposal.is_good == bool(by_code):
                error = f"refused, {reason}" if reason and by_code else "accepted wrongly by code alone"
                yield f"{verdict.item.id}: {error}: {proposal.text} ({proposal.why})"


def _build_evaluation(
    name: str,
    fields: Sequence[str],
    parse: Callable[[dict[str, Any], str], ConversationProposals],
    *,
    help: str,
    listed: str,
) -> Evaluation[ConversationProposals, ProposalVerdict]:
    return Evaluation(
        noun="conversation",
        files={name: f"{name}.jsonl"},
        sealed_files={f"{name}, sealed": f"{name}-sealed.jsonl"},
        fields=fields,
        parse=parse,
        judge=judge_proposals,
        help=help,
        listed=listed,
        columns=_COLUMNS,
        rows=group_rows(lambda each: each.item.language, _format_row),
        errors=_iterate_errors,
        summarize=_summarize,
        describe=lambda verdict: {"id": verdict.item.id, "refused": list(verdict.reasons)},
        group_of=lambda item: item.language,
        group_name="language",
    )


PREFERENCES = _build_evaluation(
    "preferences",
    ("id", "language", "turns", "preference", "good", "why"),
    _parse_preference,
    help="""Measure which preferences code accepts from a model.

    Judges the labelled preferences of the repository, or those of FILE: one JSON object a line with id,
    language, turns (role, text), preference (text, turns), good and why. The first share is that of the good
    preferences that were accepted, the second that of the invented ones. Each has Wilson's 95 % interval.
    """,
    listed="preferences accepted wrongly, and good ones refused",
)
"""The evaluation that `python -m evaluation preferences` runs."""

READ = _build_evaluation(
    "read",
    ("id", "language", "turns", "records"),
    _parse_facts,
    help="""Measure which facts of a conversation code accepts from a model.

    Judges the labelled conversations of the repository, or those of FILE: one JSON object a line with id,
    language, turns (role, text) and records (content, turns, good, why). The first share is that of the good
    records that were accepted, the recall; the second that of the records that the cited turns do not say;
    "precision" is the share of good ones in what code alone accepts. Each has Wilson's 95 % interval.
    """,
    listed="records accepted wrongly, and good ones refused",
)
"""The evaluation that `python -m evaluation read` runs."""
