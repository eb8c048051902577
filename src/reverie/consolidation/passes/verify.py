"""Verification of facts that the model wrote down from conversations.

A conversation costs one request, so `remember` saves what code accepts. The next dream asks, in the request in which
other passes verify too, whether the cited turns say each fact. One that the model does not find in them is withdrawn:
it is archived, and what it displaced comes back. An answer that does not count withdraws nothing.
"""

from __future__ import annotations

from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.driver import Flow
from reverie.consolidation.planning.inputs import PassInput, build_cursor_name
from reverie.consolidation.planning.plan_builder import PlanBuilder
from reverie.consolidation.planning.verification import DENIED, Claim, format_evidence, verify_claims

NAME = "verify"

MOST_FACTS = 40
"""Facts that are verified in one cycle, the earliest, with all of their conversation.

The next cycle goes on with the others.
"""


def verify(view: PassInput) -> Flow[Plan]:
    """Ask whether the turns that remembered facts cite say them."""
    draft = PlanBuilder(view, name=NAME)
    facts, rest = view.remembered[:MOST_FACTS], view.remembered[MOST_FACTS:]
    while rest and rest[0].batch == facts[-1].batch:
        facts, rest = (*facts, rest[0]), rest[1:]
    for scope in sorted({fact.record.scope for fact in facts}):
        own = [fact for fact in facts if fact.record.scope == scope]
        claims = [
            Claim(kind="fact", text=fact.record.content, evidence=format_evidence(fact.turns, fact.before))
            for fact in own
        ]
        verdicts = yield from verify_claims(view, claims, scope=scope)
        draft.spend(verdicts.usage)
        if verdicts.failed:
            draft.fail(verdicts.failed)
            break
        for fact, why in zip(own, verdicts.reasons, strict=True):
            if why.startswith(DENIED):
                draft.withdraw(fact, why=why)
            elif why:
                draft.refuse(f"verify {fact.record.id}", why)
    cursors = {build_cursor_name(NAME): str(rest[0].batch - 1)} if rest else {}
    return draft.plan(skipped="no fact of a conversation is to be verified", cursors=cursors)
