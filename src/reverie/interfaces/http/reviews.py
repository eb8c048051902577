"""Operations on what waits for the owner: plans of passes, and proposals."""

from __future__ import annotations

from typing import Any

from reverie.consolidation.proposals import decide_proposal, list_open_proposals
from reverie.consolidation.waiting_plans import WaitingPlan
from reverie.domain.errors import NotFound
from reverie.domain.record import Record
from reverie.domain.text.json_values import to_json_object
from reverie.interfaces.http import schemas
from reverie.interfaces.http.operations import Answer, Call, Empty, OperationList, answer_reference

OPERATIONS = OperationList()


def _serialize_plan(waiting: WaitingPlan) -> dict[str, Any]:
    plan = waiting.plan
    steps = [
        to_json_object(step, "why", "sources") | to_json_object(step.edit, "subject", "id", "before", "after")
        for step in plan.steps
    ]
    places = {id(step): number for number, step in enumerate(plan.steps)}
    groups = [
        to_json_object(group, "state", "reason", "batch")
        | {"steps": [places[id(step)] for step in group.steps]}
        for group in waiting.groups
    ]
    named = to_json_object(plan, "id", "name", "made_at", "refused", "notes", "skipped", "failed")
    return named | {
        "steps": steps,
        "groups": groups,
        "decided": waiting.decided,
        "usage": to_json_object(plan.usage, "requests", "input_tokens", "output_tokens"),
        "applied": waiting.batches[0] if waiting.batches else None,
    }


@OPERATIONS.add("POST", "/v1/plans", "review", answer=schemas.PlanOutput, statuses=(201,), is_whole=True)
def make_plan(call: Call, given: schemas.PlanInput) -> Answer:
    """Plan the changes of a pass; nothing is changed before the plan is decided."""
    plan = call.memory.dreams.plan(**given.model_dump())
    return Answer(_serialize_plan(call.server.plans.add(plan)), 201)


@OPERATIONS.add("GET", "/v1/plans", "review", answer=schemas.PlanList, is_whole=True)
def list_plans(call: Call) -> Any:
    """List the plans that wait or were decided, the newest first."""
    return {"items": [_serialize_plan(each) for each in call.server.plans.list()]}


@OPERATIONS.add("GET", "/v1/plans/{id}", "review", answer=schemas.PlanOutput, is_whole=True)
def get_plan(call: Call) -> Any:
    """Return a plan; the texts of a decided one are not kept."""
    return _serialize_plan(call.server.plans.get(call.path["id"]))


@OPERATIONS.add("POST", "/v1/plans/{id}/decisions", "review", answer=schemas.PlanOutput, is_whole=True)
def decide_plan(call: Call, given: schemas.PlanDecision) -> Any:
    """Accept, reject or put off groups of steps of a plan; accepted ones are made at once."""
    return _serialize_plan(call.server.plans.decide(call.path["id"], **given.model_dump()))


@OPERATIONS.add(
    "POST",
    "/v1/plans/{id}/apply",
    "review",
    answer=schemas.AppliedPlan,
    is_whole=True,
    replay=answer_reference,
)
def apply_plan(call: Call) -> Answer:
    """Make all changes of a plan that are not decided yet, all of them or none."""
    before = call.server.plans.get(call.path["id"])
    after = call.server.plans.decide(before.id, "accept")
    groups = [after.groups[number] for number in before.open]
    changes = sum(len(before.groups[number].steps) for number in before.open)
    body = {"plan": after.id, "batch": groups[0].batch if groups else None, "changes": changes}
    return Answer(body, reference=body)


# -- proposals -------------------------------------------------------------------------------------------


@OPERATIONS.add("GET", "/v1/proposals", "review", query=Empty, answer=schemas.ProposalList)
def list_proposals(call: Call) -> Any:
    """List the records that passes propose and nobody has decided, the earliest first."""
    return {"items": _list_own_proposals(call)}


def _list_own_proposals(call: Call) -> list[Record]:
    return [each for each in list_open_proposals(call.server.store) if call.is_own(each.scope)]


@OPERATIONS.add("POST", "/v1/proposals/{id}/decision", "review", query=Empty, answer=Record)
def decide_on_proposal(call: Call, given: schemas.ProposalDecision) -> Any:
    """Accept, reject or put off a proposal."""
    name = call.path["id"]
    if all(each.id != name for each in _list_own_proposals(call)):
        raise NotFound(f"there is no open proposal {name!r} here: list the proposals to see which are open")
    writer = call.whole._parts.writer
    return decide_proposal(writer, name, given.verdict, reason=given.reason, now=writer.clock())
