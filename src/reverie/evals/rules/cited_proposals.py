"""Evaluation of what a model proposes with citations: changes of notes, and preferences.

Every proposal is judged by the code that a digest and an inference use. A proposal that is not borne out by the turns
it cites may never be accepted; one that is should be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from reverie.consolidation.planning.page_patch import LineChange, PagePatch
from reverie.consolidation.planning.preference_evidence import explain_unshown
from reverie.domain.conversation import Turn
from reverie.domain.errors import InvalidInput
from reverie.evals.recall import metrics
from reverie.evals.rules.harness import Evaluation, Results, format_share, iterate_rows_by_language

_COLUMNS = ("proposals", "good", "accepted", "share", "95 %", "bad", "accepted", "share", "95 %")
_START = datetime(2026, 3, 2, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledProposal:
    """What a model proposes, and whether the turns it cites bear it out.

    Attributes:
        text: The proposal, in words.
        is_good: Whether they do, according to a reader.
        why: Why.
        refuse: Function that returns why code refuses it; empty where it does not.
    """

    text: str
    is_good: bool
    why: str
    refuse: Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationProposals:
    """A conversation and the proposals made from it."""

    id: str
    language: str
    proposals: tuple[LabelledProposal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalVerdict:
    """The proposals of a conversation, each with why it was refused; empty where it was accepted."""

    item: ConversationProposals
    reasons: tuple[str, ...]

    def iterate(self) -> Iterator[tuple[LabelledProposal, str]]:
        """Yield each proposal with the reason."""
        yield from zip(self.item.proposals, self.reasons, strict=True)


def judge_proposals(item: ConversationProposals) -> ProposalVerdict:
    """Ask the code about every proposal, each by itself."""
    return ProposalVerdict(item=item, reasons=tuple(each.refuse() for each in item.proposals))


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
    line = "" if change.line is None else f" ({content.splitlines()[change.line]})"
    return LabelledProposal(
        text=f"{change.do}: {change.text}{line}",
        is_good=fields["good"],
        why=fields["why"],
        refuse=lambda: PagePatch(content, turns=turns).take(change),
    )


def _parse_preference(fields: dict[str, Any], at: str) -> ConversationProposals:
    try:
        turns = _build_turns(fields["turns"])
        text = fields["preference"]["text"]
        cited = [turns[place] for place in fields["preference"]["turns"]]
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise InvalidInput(f"{at} is not a conversation with a preference: {error!r}") from None
    proposal = LabelledProposal(
        text=text, is_good=fields["good"], why=fields["why"], refuse=partial(explain_unshown, text, cited)
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


def _count(verdicts: Sequence[ProposalVerdict]) -> tuple[int, int, int, int]:
    """Return how many proposals are good, how many of them were accepted, and the same of the bad ones."""
    judged = [each for verdict in verdicts for each in verdict.iterate()]
    good = [not why for proposal, why in judged if proposal.is_good]
    bad = [not why for proposal, why in judged if not proposal.is_good]
    return len(good), sum(good), len(bad), sum(bad)


def _summarize(verdicts: Sequence[ProposalVerdict]) -> dict[str, Any]:
    good, accepted, bad, wrong = _count(verdicts)
    return {
        "good": good,
        "good_accepted": accepted,
        "good_interval": metrics.compute_wilson_interval(accepted, good),
        "bad": bad,
        "bad_accepted": wrong,
        "bad_interval": metrics.compute_wilson_interval(wrong, bad),
    }


def _iterate_rows(results: Results[ProposalVerdict]) -> Iterator[tuple[str, ...]]:
    return iterate_rows_by_language(results, lambda each: each.item.language, _format_row)


def _format_row(name: str, verdicts: Sequence[ProposalVerdict]) -> tuple[str, ...]:
    good, accepted, bad, wrong = _count(verdicts)
    return (
        name,
        str(good + bad),
        *map(str, (good, accepted)),
        *format_share(accepted, good),
        *map(str, (bad, wrong)),
        *format_share(wrong, bad),
    )


def _iterate_errors(results: Results[ProposalVerdict]) -> Iterator[str]:
    for verdicts in results.values():
        for verdict in verdicts:
            for proposal, reason in verdict.iterate():
                if proposal.is_good == bool(reason):
                    error = f"refused, {reason}" if reason else "accepted wrongly"
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
