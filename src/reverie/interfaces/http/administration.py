"""Operations on the memory as a whole: plans and proposals, erasure, numbers, diagnosis, tokens, health."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from reverie import __version__
from reverie.admin.erasure.request import ErasureReport
from reverie.consolidation.inbox import WaitingPlan
from reverie.domain.errors import NotFound
from reverie.domain.record import Record
from reverie.domain.scope import EVERY_SCOPE
from reverie.domain.text.json_values import to_json_object, to_json_value
from reverie.interfaces.http import schemas
from reverie.interfaces.http.operations import (
    Call,
    Empty,
    OperationAnswer,
    OperationList,
    Problem,
)
from reverie.repositories.wishes import ForgetRequest

OPERATIONS = OperationList(group="Plans, erasure, the whole")


# -- plans of passes --------------------------------------------------------------------------------------


def _answer_plan(waiting: WaitingPlan) -> OperationAnswer[schemas.PlanOutput]:
    plan, batches = waiting.plan, waiting.batches
    places = {id(step): number for number, step in enumerate(plan.steps)}
    groups = [to_json_object(each, "state", "reason", "batch") for each in waiting.groups]
    for shown, group in zip(groups, waiting.groups, strict=True):
        shown["steps"] = [places[id(step)] for step in group.steps]
    body = to_json_object(plan, "id", "name", "made_at", "refused", "notes", "skipped", "failed")
    steps = (
        to_json_object(step, "why", "sources") | to_json_object(step.edit, "subject", "id", "before", "after")
        for step in plan.steps
    )
    body |= {"steps": [*steps], "groups": groups, "decided": waiting.decided}
    body |= {"usage": to_json_object(plan.usage, "requests", "input_tokens", "output_tokens")}
    return OperationAnswer(body | {"applied": batches[0] if batches else None})


@OPERATIONS.add("POST", "/v1/plans", "review", statuses=(201,), is_whole=True)
def make_plan(call: Call, given: schemas.PlanInput) -> OperationAnswer[schemas.PlanOutput]:
    """Plan the changes of a pass; nothing is changed before the plan is decided."""
    plan = call.memory.dreams.plan(**given.model_dump())
    return replace(_answer_plan(call.memory.dreams.keep_plan(plan)), status=201)


@OPERATIONS.add("GET", "/v1/plans", "review", is_whole=True)
def list_plans(call: Call) -> OperationAnswer[schemas.Items[schemas.PlanOutput]]:
    """List the plans that wait, the newest first."""
    return OperationAnswer({"items": [_answer_plan(each).body for each in call.memory.dreams.kept_plans()]})


@OPERATIONS.add("GET", "/v1/plans/{id}", "review", is_whole=True)
def get_plan(call: Call) -> OperationAnswer[schemas.PlanOutput]:
    """Return a plan that waits."""
    return _answer_plan(call.memory.dreams.kept_plan(call.path["id"]))


@OPERATIONS.add("POST", "/v1/plans/{id}/decisions", "review", is_whole=True)
def decide_plan(call: Call, given: schemas.PlanDecision) -> OperationAnswer[schemas.PlanOutput]:
    """Accept, reject or put off groups of steps of a plan; accepted ones are made at once."""
    return _answer_plan(call.memory.dreams.decide(call.path["id"], **given.model_dump()))


# -- proposals -------------------------------------------------------------------------------------------


@OPERATIONS.add("GET", "/v1/proposals", "review")
def list_proposals(call: Call[Empty]) -> OperationAnswer[schemas.Items[Record]]:
    """List the records that passes propose and nobody has decided, the earliest first."""
    return OperationAnswer({"items": list_own_proposals(call)})


def list_own_proposals(call: Call) -> list[Record]:
    """Return the proposals that the caller may decide."""
    return [each for each in call.memory.dreams.proposals() if call.is_own(each.scope)]


@OPERATIONS.add("POST", "/v1/proposals/{id}/decision", "review")
def decide_on_proposal(call: Call[Empty], given: schemas.ProposalDecision) -> OperationAnswer[Record]:
    """Accept, reject or put off a proposal."""
    name = call.path["id"]
    if all(each.id != name for each in list_own_proposals(call)):
        raise NotFound(f"there is no open proposal {name!r} here: list the proposals to see which are open")
    decided = call.memory.dreams.decide(name, given.verdict, reason=given.reason, actor=call.caller.label)
    return OperationAnswer(call.whole.get(name) or decided.record)


# -- erasure ---------------------------------------------------------------------------------------------


def _forget(call: Call, asked: schemas.ForgetInput, *, dry_run: bool) -> tuple[ErasureReport, str]:
    """Return what an erasure erases, and a digest of that."""
    named = asked.model_dump(exclude={"ids", "digest"})
    report = call.memory.admin.forget(*asked.ids, **named, dry_run=dry_run)
    items = sorted([each.subject, each.id, each.fate] for each in (*report.going, *report.left))
    return report, hashlib.sha256(json.dumps(items).encode()).hexdigest()[:32]


@OPERATIONS.add("POST", "/v1/forget/preview", "forget", is_whole=True)
def preview_erasure(call: Call, asked: schemas.ForgetInput) -> OperationAnswer[schemas.ForgetOutput]:
    """Return what an erasure would remove, and what would be left."""
    report, digest = _forget(call, asked, dry_run=True)
    return OperationAnswer({**report.to_dict(), "digest": digest})


@OPERATIONS.add("POST", "/v1/forget", "forget", is_whole=True)
def forget(call: Call, asked: schemas.ForgetOrder) -> OperationAnswer[schemas.ForgetOutput]:
    """Erase content permanently, as its preview said."""
    _, digest = _forget(call, asked, dry_run=True)
    if digest != asked.digest:
        what = "What would be erased differs from the preview of that digest. Look at a new preview first."
        raise Problem(409, what, kind="preview-outdated")
    report, _ = _forget(call, asked, dry_run=False)
    return OperationAnswer({**report.to_dict(), "digest": digest})


@OPERATIONS.add("GET", "/v1/forget-requests", "forget")
def list_forget_requests(call: Call) -> OperationAnswer[schemas.Items[ForgetRequest]]:
    """List the erasures that were asked for in conversations and wait for a person."""
    return OperationAnswer({"items": call.view.forget_requests.list()})


@OPERATIONS.add("POST", "/v1/forget-requests", "write")
def propose_forgetting(
    call: Call, asked: schemas.ForgetSubject
) -> OperationAnswer[schemas.ProposedForgetting]:
    """Store a request to erase what is stored about a subject; nothing is erased before a person confirms it."""
    return OperationAnswer({"request": call.view.forget_requests.propose(asked.subject)})


@OPERATIONS.add("DELETE", "/v1/forget-requests/{id}", "forget")
def drop_forget_request(call: Call) -> OperationAnswer[ForgetRequest]:
    """Drop a request to forget; nothing is erased."""
    return OperationAnswer(call.view.forget_requests.drop(call.path["id"]))


# -- numbers and diagnosis -------------------------------------------------------------------------------


@OPERATIONS.add("GET", "/v1/stats", "read")
def get_stats(call: Call) -> OperationAnswer[dict[str, Any]]:
    """Return the statistics of what can be seen from a scope."""
    return OperationAnswer(call.reader.stats())


@OPERATIONS.add("GET", "/v1/stats/all", "admin", is_whole=True)
def get_all_stats(call: Call) -> OperationAnswer[dict[str, Any]]:
    """Return the statistics of the whole memory, in all scopes."""
    return OperationAnswer(call.memory.admin.stats())


@OPERATIONS.add("GET", "/v1/scopes", "read")
def list_scopes(call: Call[Empty]) -> OperationAnswer[dict[str, dict[str, int]]]:
    """Return the number of live records of each scope within that of the token."""
    counts = call.memory.scoped(EVERY_SCOPE).scopes()
    return OperationAnswer({"scopes": {name: count for name, count in counts.items() if call.is_own(name)}})


@OPERATIONS.add("GET", "/v1/doctor", "admin", is_whole=True)
def diagnose(call: Call) -> OperationAnswer[dict[str, Any]]:
    """Compare the store, the journal, the search index and the files; repair nothing."""
    diagnosis = call.memory.admin.doctor()
    return OperationAnswer({"sound": diagnosis.sound, **to_json_value(diagnosis)})


# -- tokens ----------------------------------------------------------------------------------------------


@OPERATIONS.add("GET", "/v1/tokens", "admin", is_whole=True)
def list_tokens(call: Call) -> OperationAnswer[schemas.Items[schemas.TokenOutput]]:
    """List all tokens, the newest first."""
    return OperationAnswer({"items": call.server.tokens.list()})


@OPERATIONS.add("POST", "/v1/tokens", "admin", statuses=(201,), is_whole=True)
def create_token(call: Call, given: schemas.TokenInput) -> OperationAnswer[schemas.NewToken]:
    """Create a token; it is shown once."""
    if call.caller.limit_origin(given.origin) != given.origin:
        what = f"This token speaks for {call.caller.origin!r}, and cannot make one that is trusted more."
        raise Problem(403, what)
    token, text = call.server.tokens.create(**given.model_dump())
    return OperationAnswer({**token.to_dict(), "token": text}, 201)


@OPERATIONS.add("DELETE", "/v1/tokens/{id}", "admin", is_whole=True)
def revoke_token(call: Call) -> OperationAnswer[schemas.TokenOutput]:
    """Revoke a token."""
    return OperationAnswer(call.server.tokens.revoke(call.path["id"]))


# -- health ----------------------------------------------------------------------------------------------


@OPERATIONS.add("GET", "/livez", None)
def get_liveness(call: Call[Empty]) -> OperationAnswer[dict[str, str]]:
    """Return that the process answers."""
    return OperationAnswer({"status": "ok", "version": __version__})


@OPERATIONS.add("GET", "/readyz", None)
def get_readiness(call: Call[Empty]) -> OperationAnswer[dict[str, str]]:
    """Return that the store can be read and written."""
    call.server.check_writable()
    return OperationAnswer({"status": "ok"})


@OPERATIONS.add("GET", "/metrics", "read", is_whole=True, media_type=CONTENT_TYPE_PLAIN_0_0_4)
def get_metrics(call: Call) -> OperationAnswer[str]:
    """Return counters in the text format of Prometheus."""
    return OperationAnswer(call.server.metrics.format())
