"""Operations on the memory as a whole: erasure, numbers, diagnosis, tokens."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from reverie.admin.erasure.request import ErasureReport
from reverie.domain.text.json_values import to_json_value
from reverie.interfaces.http import schemas
from reverie.interfaces.http.operations import Answer, Call, Empty, OperationList
from reverie.interfaces.http.problems import Problem

OPERATIONS = OperationList()


# -- erasure ---------------------------------------------------------------------------------------------


def _compute_digest(report: ErasureReport) -> str:
    """Return the digest of what an erasure would do."""
    items = [[each.subject, each.id, each.fate] for each in (*report.going, *report.left)]
    return hashlib.sha256(json.dumps(items).encode()).hexdigest()[:32]


def _forget(call: Call, asked: schemas.ForgetInput, *, dry_run: bool) -> ErasureReport:
    named = asked.model_dump(exclude={"ids", "digest"})
    return call.memory.admin.forget(*asked.ids, **named, dry_run=dry_run)


@OPERATIONS.add("POST", "/v1/forget/preview", "forget", answer=schemas.ForgetOutput, is_whole=True)
def preview_erasure(call: Call, asked: schemas.ForgetInput) -> Any:
    """Return what an erasure would remove, and what would be left."""
    report = _forget(call, asked, dry_run=True)
    return {**report.to_dict(), "digest": _compute_digest(report)}


@OPERATIONS.add("POST", "/v1/forget", "forget", answer=schemas.ForgetOutput, is_whole=True)
def forget(call: Call, asked: schemas.ForgetOrder) -> Any:
    """Erase content permanently, as its preview said."""
    digest = _compute_digest(_forget(call, asked, dry_run=True))
    if digest != asked.digest:
        raise Problem(
            409,
            "What would be erased differs from the preview of that digest. Look at a new preview first.",
            kind="preview-outdated",
        )
    return {**_forget(call, asked, dry_run=False).to_dict(), "digest": digest}


# -- numbers and diagnosis -------------------------------------------------------------------------------


@OPERATIONS.add("GET", "/v1/stats", "read", answer=dict[str, Any])
def get_stats(call: Call) -> Any:
    """Return the statistics of what can be seen from a scope."""
    return call.server.stats.read(call.reader)


@OPERATIONS.add("GET", "/v1/stats/all", "admin", answer=dict[str, Any], is_whole=True)
def get_all_stats(call: Call) -> Any:
    """Return the statistics of the whole memory, in all scopes."""
    return call.memory.admin.stats()


@OPERATIONS.add("GET", "/v1/scopes", "read", query=Empty, answer=schemas.ScopeCounts)
def list_scopes(call: Call) -> Any:
    """Return the number of live records of each scope within that of the token."""
    counts = call.server.stats.count_by_scope(call.memory)
    return {"scopes": {name: count for name, count in counts.items() if call.is_own(name)}}


@OPERATIONS.add(
    "GET", "/v1/activity", "admin", query=schemas.ActivityQuery, answer=schemas.ActivityOutput, is_whole=True
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


@OPERATIONS.add("GET", "/v1/tokens", "admin", answer=schemas.TokenList, is_whole=True)
def list_tokens(call: Call) -> Any:
    """List all tokens, the newest first."""
    return {"items": call.server.tokens.list()}


@OPERATIONS.add("POST", "/v1/tokens", "admin", answer=schemas.NewToken, statuses=(201,), is_whole=True)
def create_token(call: Call, given: schemas.TokenInput) -> Answer:
    """Create a token; it is shown once."""
    if call.caller.limit_origin(given.origin) != given.origin:
        raise Problem(
            403, f"This token speaks for {call.caller.origin!r}, and cannot make one that is trusted more."
        )
    token, text = call.server.tokens.create(**given.model_dump())
    return Answer({**token.to_dict(), "token": text}, 201)


@OPERATIONS.add("DELETE", "/v1/tokens/{id}", "admin", answer=schemas.TokenOutput, is_whole=True)
def revoke_token(call: Call) -> Any:
    """Revoke a token."""
    return call.server.tokens.revoke(call.path["id"])
