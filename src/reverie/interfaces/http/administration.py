"""Operations on the memory as a whole: erasure, numbers, diagnosis, tokens."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from reverie.admin.erasure.request import ErasureReport
from reverie.domain.filter import Filter
from reverie.domain.text.timestamps import format_time
from reverie.interfaces.http import schemas
from reverie.interfaces.http.operations import Answer, Call, Empty, Operation, operation
from reverie.interfaces.http.problems import Problem

OPERATIONS: list[Operation] = []


def to_plain(value: object) -> Any:
    """Return a value of statistics or of a diagnosis as JSON has it."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: to_plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, tuple | list):
        return [to_plain(each) for each in value]
    if hasattr(value, "items"):
        return {str(name): to_plain(each) for name, each in value.items()}
    return str(value) if isinstance(value, Path) else value


# -- erasure ---------------------------------------------------------------------------------------------


def _compute_digest(report: ErasureReport) -> str:
    """Return the digest of what an erasure would do."""
    items = [[each.subject, each.id, each.fate] for each in (*report.going, *report.left)]
    return hashlib.sha256(json.dumps(items).encode()).hexdigest()[:32]


def _forget(call: Call, *, dry_run: bool) -> ErasureReport:
    asked: schemas.ForgetInput = call.body
    return call.memory.admin.forget(
        *asked.ids,
        session=asked.session,
        scope=asked.scope,
        match=asked.match,
        turns=asked.turns,
        dry_run=dry_run,
    )


@operation(
    OPERATIONS,
    "POST",
    "/v1/forget/preview",
    right="forget",
    query=Empty,
    body=schemas.ForgetInput,
    is_whole=True,
    answers={200: schemas.ForgetOutput},
)
def preview_erasure(call: Call) -> Answer:
    """Return what an erasure would remove, and what would be left."""
    report = _forget(call, dry_run=True)
    return Answer({**report.to_dict(), "digest": _compute_digest(report)})


@operation(
    OPERATIONS,
    "POST",
    "/v1/forget",
    right="forget",
    query=Empty,
    body=schemas.ForgetOrder,
    is_whole=True,
    answers={200: schemas.ForgetOutput},
)
def forget(call: Call) -> Answer:
    """Erase content for good, as its preview said."""
    digest = _compute_digest(_forget(call, dry_run=True))
    if digest != call.body.digest:
        raise Problem(
            409,
            "What would be erased differs from the preview of that digest. Look at a new preview first.",
            kind="preview-outdated",
        )
    report = _forget(call, dry_run=False)
    return Answer({**report.to_dict(), "digest": digest})


# -- numbers and diagnosis -------------------------------------------------------------------------------


@operation(OPERATIONS, "GET", "/v1/stats", right="read", answers={200: dict[str, Any]})
def get_stats(call: Call) -> Answer:
    """Return how much can be seen from a scope."""
    return Answer(to_plain(call.server.stats.read(call.reader)))


@operation(
    OPERATIONS,
    "GET",
    "/v1/stats/all",
    right="admin",
    query=Empty,
    is_whole=True,
    answers={200: dict[str, Any]},
)
def get_all_stats(call: Call) -> Answer:
    """Return how much the memory holds, in all scopes."""
    return Answer(to_plain(call.memory.admin.stats()))


@operation(OPERATIONS, "GET", "/v1/scopes", right="read", query=Empty, answers={200: schemas.ScopeCounts})
def list_scopes(call: Call) -> Answer:
    """Return the number of live records of each scope within that of the token."""
    counts = call.server.store.tally("scope", Filter())
    return Answer({"scopes": {name: count for name, count in counts.items() if call.is_own(name)}})


@operation(
    OPERATIONS,
    "GET",
    "/v1/activity",
    right="admin",
    query=schemas.ActivityQuery,
    is_whole=True,
    answers={200: schemas.ActivityOutput},
)
def get_activity(call: Call) -> Answer:
    """Return what was done on each of the last days."""
    return Answer({"items": [day.to_dict() for day in call.memory.admin.activity(days=call.query.days)]})


@operation(
    OPERATIONS, "GET", "/v1/doctor", right="admin", query=Empty, is_whole=True, answers={200: dict[str, Any]}
)
def diagnose(call: Call) -> Answer:
    """Compare the store, the journal, the search index and the files; repair nothing."""
    diagnosis = call.memory.admin.doctor()
    return Answer({"sound": diagnosis.sound, **to_plain(diagnosis)})


# -- tokens ----------------------------------------------------------------------------------------------


@operation(
    OPERATIONS,
    "GET",
    "/v1/tokens",
    right="admin",
    query=Empty,
    is_whole=True,
    answers={200: schemas.TokenList},
)
def list_tokens(call: Call) -> Answer:
    """List all tokens, the newest first."""
    return Answer({"items": [token.to_dict() for token in call.server.tokens.list()]})


@operation(
    OPERATIONS,
    "POST",
    "/v1/tokens",
    right="admin",
    query=Empty,
    body=schemas.TokenInput,
    is_whole=True,
    answers={201: schemas.NewToken},
)
def create_token(call: Call) -> Answer:
    """Create a token; it is shown once."""
    given: schemas.TokenInput = call.body
    if call.caller.limit_origin(given.origin) != given.origin:
        raise Problem(
            403, f"This token speaks for {call.caller.origin!r}, and cannot make one that is trusted more."
        )
    token, text = call.server.tokens.create(
        given.label, scope=given.scope, rights=given.rights, origin=given.origin, expires=given.expires
    )
    return Answer({**token.to_dict(), "token": text}, 201)


@operation(
    OPERATIONS,
    "DELETE",
    "/v1/tokens/{id}",
    right="admin",
    query=Empty,
    is_whole=True,
    answers={200: schemas.TokenOutput},
)
def revoke_token(call: Call) -> Answer:
    """Revoke a token."""
    return Answer(call.server.tokens.revoke(call.path["id"]).to_dict())
