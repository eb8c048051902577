"""Operations on the memory as a whole: plans and proposals, erasure, numbers, diagnosis, tokens, health."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from pydantic import Field

from reverie import __version__
from reverie.admin.erasure.request import ErasureReport
from reverie.consolidation.inbox import WaitingPlan
from reverie.domain.errors import NotFound
from reverie.domain.record import Origin, Record
from reverie.domain.scope import EVERY_SCOPE
from reverie.domain.text.json_values import to_json_object, to_json_value
from reverie.interfaces.http import schemas
from reverie.interfaces.http.operations import (
    Call,
    Empty,
    Form,
    OperationAnswer,
    OperationList,
    answer_reference,
)
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.tokens import Right, Token
from reverie.repositories.wishes import ForgetRequest

OPERATIONS = OperationList(group="Plans, erasure, the whole")


# -- plans of passes --------------------------------------------------------------------------------------


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
def make_plan(call: Call, given: schemas.PlanInput) -> OperationAnswer:
    """Plan the changes of a pass; nothing is changed before the plan is decided."""
    plan = call.memory.dreams.plan(**given.model_dump())
    return OperationAnswer(_serialize_plan(call.memory.dreams.keep_plan(plan)), 201)


@OPERATIONS.add("GET", "/v1/plans", "review", answer=schemas.Items[schemas.PlanOutput], is_whole=True)
def list_plans(call: Call) -> Any:
    """List the plans that wait or were decided, the newest first."""
    return {"items": [_serialize_plan(each) for each in call.memory.dreams.kept_plans()]}


@OPERATIONS.add("GET", "/v1/plans/{id}", "review", answer=schemas.PlanOutput, is_whole=True)
def get_plan(call: Call) -> Any:
    """Return a plan; the texts of a decided one are not kept."""
    return _serialize_plan(call.memory.dreams.kept_plan(call.path["id"]))


@OPERATIONS.add("POST", "/v1/plans/{id}/decisions", "review", answer=schemas.PlanOutput, is_whole=True)
def decide_plan(call: Call, given: schemas.PlanDecision) -> Any:
    """Accept, reject or put off groups of steps of a plan; accepted ones are made at once."""
    return _serialize_plan(call.memory.dreams.decide(call.path["id"], **given.model_dump()))


@OPERATIONS.add(
    "POST",
    "/v1/plans/{id}/apply",
    "review",
    answer=schemas.AppliedPlan,
    is_whole=True,
    replay=answer_reference,
)
def apply_plan(call: Call) -> OperationAnswer:
    """Make all changes of a plan that are not decided yet, all of them or none."""
    before = call.memory.dreams.kept_plan(call.path["id"])
    after = call.memory.dreams.decide(before.id, "accept")
    groups = [after.groups[number] for number in before.open]
    changes = sum(len(before.groups[number].steps) for number in before.open)
    body = {"plan": after.id, "batch": groups[0].batch if groups else None, "changes": changes}
    return OperationAnswer(body, reference=body)


# -- proposals -------------------------------------------------------------------------------------------


@OPERATIONS.add("GET", "/v1/proposals", "review", query=Empty, answer=schemas.Items[Record])
def list_proposals(call: Call) -> Any:
    """List the records that passes propose and nobody has decided, the earliest first."""
    return {"items": _list_own_proposals(call)}


def _list_own_proposals(call: Call) -> list[Record]:
    return [each for each in call.memory.dreams.proposals() if call.is_own(each.scope)]


@OPERATIONS.add("POST", "/v1/proposals/{id}/decision", "review", query=Empty, answer=Record)
def decide_on_proposal(call: Call, given: schemas.ProposalDecision) -> Any:
    """Accept, reject or put off a proposal."""
    name = call.path["id"]
    if all(each.id != name for each in _list_own_proposals(call)):
        raise NotFound(f"there is no open proposal {name!r} here: list the proposals to see which are open")
    decided = call.memory.dreams.decide(name, given.verdict, reason=given.reason, actor=call.caller.label)
    return call.whole.get(name) or decided.record


# -- erasure ---------------------------------------------------------------------------------------------


class ForgetInput(Form):
    """Content to erase, named in one way; see `Memory.admin`."""

    ids: schemas.Texts = ()
    session: str | None = None
    scope: str | None = None
    match: str | None = None
    request: str | None = None
    turns: bool | None = None


class ForgetSubject(Form):
    """What to forget, in a few words."""

    subject: str = Field(min_length=1, max_length=10_000)


class ProposedForgetting(Form):
    """A request to forget that waits for a person; None if nothing about the subject is stored."""

    request: ForgetRequest | None


class ForgetOrder(ForgetInput):
    """Content to erase, with the digest of its preview."""

    digest: str


class ForgetOutput(Form):
    """Content that is erased, and remains that still contain it."""

    done: bool
    counts: dict[str, int]
    going: list[dict[str, str]]
    left: list[dict[str, str]]
    pending: schemas.Texts
    notes: schemas.Texts
    digest: str


def _compute_digest(report: ErasureReport) -> str:
    """Return the digest of what an erasure would do."""
    items = [[each.subject, each.id, each.fate] for each in (*report.going, *report.left)]
    return hashlib.sha256(json.dumps(items).encode()).hexdigest()[:32]


def _forget(call: Call, asked: ForgetInput, *, dry_run: bool) -> ErasureReport:
    named = asked.model_dump(exclude={"ids", "digest"})
    return call.memory.admin.forget(*asked.ids, **named, dry_run=dry_run)


@OPERATIONS.add("POST", "/v1/forget/preview", "forget", answer=ForgetOutput, is_whole=True)
def preview_erasure(call: Call, asked: ForgetInput) -> Any:
    """Return what an erasure would remove, and what would be left."""
    report = _forget(call, asked, dry_run=True)
    return {**report.to_dict(), "digest": _compute_digest(report)}


@OPERATIONS.add("POST", "/v1/forget", "forget", answer=ForgetOutput, is_whole=True)
def forget(call: Call, asked: ForgetOrder) -> Any:
    """Erase content permanently, as its preview said."""
    digest = _compute_digest(_forget(call, asked, dry_run=True))
    if digest != asked.digest:
        raise Problem(
            409,
            "What would be erased differs from the preview of that digest. Look at a new preview first.",
            kind="preview-outdated",
        )
    return {**_forget(call, asked, dry_run=False).to_dict(), "digest": digest}


@OPERATIONS.add("GET", "/v1/forget-requests", "forget", answer=schemas.Items[ForgetRequest])
def list_forget_requests(call: Call) -> Any:
    """List the erasures that were asked for in conversations and wait for a person."""
    return {"items": call.view.forget_requests.list()}


@OPERATIONS.add("POST", "/v1/forget-requests", "write", answer=ProposedForgetting)
def propose_forgetting(call: Call, asked: ForgetSubject) -> Any:
    """Store a request to erase what is stored about a subject; nothing is erased before a person confirms it."""
    return {"request": call.view.forget_requests.propose(asked.subject)}


@OPERATIONS.add("DELETE", "/v1/forget-requests/{id}", "forget", answer=ForgetRequest)
def drop_forget_request(call: Call) -> Any:
    """Drop a request to forget; nothing is erased."""
    return call.view.forget_requests.drop(call.path["id"])


# -- numbers and diagnosis -------------------------------------------------------------------------------


@OPERATIONS.add("GET", "/v1/stats", "read", answer=dict[str, Any])
def get_stats(call: Call) -> Any:
    """Return the statistics of what can be seen from a scope."""
    return call.reader.stats()


@OPERATIONS.add("GET", "/v1/stats/all", "admin", answer=dict[str, Any], is_whole=True)
def get_all_stats(call: Call) -> Any:
    """Return the statistics of the whole memory, in all scopes."""
    return call.memory.admin.stats()


@OPERATIONS.add("GET", "/v1/scopes", "read", query=Empty, answer=dict[str, dict[str, int]])
def list_scopes(call: Call) -> Any:
    """Return the number of live records of each scope within that of the token."""
    counts = call.memory.scoped(EVERY_SCOPE).scopes()
    return {"scopes": {name: count for name, count in counts.items() if call.is_own(name)}}


@OPERATIONS.add(
    "GET",
    "/v1/activity",
    "admin",
    query=schemas.ActivityQuery,
    answer=schemas.Items[schemas.DayOutput],
    is_whole=True,
)
def get_activity(call: Call) -> Any:
    """Return the activity of each of the last days."""
    return {"items": call.memory.admin.activity(days=call.query.days)}


@OPERATIONS.add("GET", "/v1/doctor", "admin", answer=dict[str, Any], is_whole=True)
def diagnose(call: Call) -> Any:
    """Compare the store, the journal, the search index and the files; repair nothing."""
    diagnosis = call.memory.admin.doctor()
    return {"sound": diagnosis.sound, **to_json_value(diagnosis)}


# -- tokens ----------------------------------------------------------------------------------------------


class TokenInput(Form):
    """A token to create."""

    label: str
    scope: str = ""
    rights: tuple[Right, ...] = ("read",)
    origin: Origin = "agent"
    expires: str | None = None


TokenOutput = schemas.describe("TokenOutput", Token, without=("digest",))


class NewToken(TokenOutput):  # type: ignore[misc, valid-type]
    """A token that was just created; `token` is shown once."""

    token: str


@OPERATIONS.add(
    "GET",
    "/v1/tokens",
    "admin",
    answer=schemas.Items[TokenOutput],  # type: ignore[valid-type]
    is_whole=True,
)
def list_tokens(call: Call) -> Any:
    """List all tokens, the newest first."""
    return {"items": call.server.tokens.list()}


@OPERATIONS.add("POST", "/v1/tokens", "admin", answer=NewToken, statuses=(201,), is_whole=True)
def create_token(call: Call, given: TokenInput) -> OperationAnswer:
    """Create a token; it is shown once."""
    if call.caller.limit_origin(given.origin) != given.origin:
        raise Problem(
            403, f"This token speaks for {call.caller.origin!r}, and cannot make one that is trusted more."
        )
    token, text = call.server.tokens.create(**given.model_dump())
    return OperationAnswer({**token.to_dict(), "token": text}, 201)


@OPERATIONS.add("DELETE", "/v1/tokens/{id}", "admin", answer=TokenOutput, is_whole=True)
def revoke_token(call: Call) -> Any:
    """Revoke a token."""
    return call.server.tokens.revoke(call.path["id"])


# -- health ----------------------------------------------------------------------------------------------


@OPERATIONS.add("GET", "/livez", None, query=Empty, answer=dict[str, str])
def get_liveness(call: Call) -> Any:
    """Return that the process answers."""
    return {"status": "ok", "version": __version__}


@OPERATIONS.add("GET", "/readyz", None, query=Empty, answer=dict[str, str])
def get_readiness(call: Call) -> Any:
    """Return that the store can be read and written."""
    call.server.check_writable()
    return {"status": "ok"}


@OPERATIONS.add("GET", "/metrics", "read", answer=str, is_whole=True, media_type=CONTENT_TYPE_PLAIN_0_0_4)
def get_metrics(call: Call) -> bytes:
    """Return counters in the text format of Prometheus."""
    server = call.server
    stats = server.memory.scoped(EVERY_SCOPE).stats()
    gauges = {
        "reverie_records": ("Live records.", float(stats.records)),
        "reverie_turns": ("Turns of all sessions.", float(stats.turns)),
        "reverie_journal_sequence": ("Number of the newest change.", float(server.memory.history.sequence())),
        "reverie_store_bytes": ("Bytes on the disk.", float(server.folder_size())),
        "reverie_background_failures": (
            "Background steps that ever failed.",
            float(sum(server.memory.admin.failures().values())),
        ),
    }
    return server.metrics.format(gauges)
