"""Verification of facts that the model wrote down from conversations.

A conversation costs one request, so `remember` saves what code accepts. The next dream asks, in the request in which
other passes verify too, whether the cited turns say each fact. One that the model does not find in them is withdrawn:
it is archived, and what it displaced comes back. One that `remember` held, because code could not tell, is saved only
if the model finds it in them. One claim of each request quotes a turn: if the model denies that
too, its answer does not count. An answer that does not count withdraws nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.driver import Flow
from reverie.consolidation.planning.inputs import PassInput, RememberedFact, build_cursor_name
from reverie.consolidation.planning.plan_builder import PlanBuilder
from reverie.consolidation.planning.verification import (
    DENIED,
    QUOTED,
    Claim,
    format_evidence,
    verify_claims,
)
from reverie.domain.record import Record

NAME = "verify"

MOST_FACTS = 40
"""Facts that are verified in one cycle, the earliest, with all of their conversation.

The next cycle goes on with the others.
"""

_LONGEST_QUOTE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Result of a verification.

    Attributes:
        plan: What is withdrawn.
        accepted: Facts that were held, and that the model finds in their turns.
    """

    plan: Plan
    accepted: tuple[Record, ...]


def verify(view: PassInput) -> Flow[Verified]:
    """Ask whether the turns that remembered facts cite say them."""
    draft = PlanBuilder(view, name=NAME)
    accepted: list[Record] = []
    facts, rest = view.remembered[:MOST_FACTS], view.remembered[MOST_FACTS:]
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
    cursors = {build_cursor_name(NAME): str(rest[0].batch - 1)} if rest else {}
    plan = draft.plan(skipped="no fact of a conversation is to be verified", cursors=cursors)
    return Verified(plan=plan, accepted=tuple(accepted))


def _quote(fact: RememberedFact) -> Claim:
    """Return a claim that is true by construction: it quotes the first words of a turn that a fact cites."""
    turn = fact.turns[0]
    text = f"{QUOTED}{turn.role.upper()} wrote “{turn.content[:_LONGEST_QUOTE]}”"
    return Claim(kind="fact", text=text, evidence=format_evidence([turn], {}))
