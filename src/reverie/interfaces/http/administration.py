"""Operations on the memory as a whole: its history and undo, plans, erasure, numbers, diagnosis, tokens, health."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.responses import Response, StreamingResponse

from reverie import __version__
from reverie.admin.erasure.matching import ErasureReport
from reverie.admin.history.diff import serialize_change
from reverie.admin.history.undo import History
from reverie.consolidation.inbox import WaitingPlan
from reverie.domain.change import JournalEntry
from reverie.domain.errors import InvalidInput, NotFound, ReverieError
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import Record
from reverie.domain.scope import EVERY_SCOPE, is_within, visible_scopes
from reverie.domain.text.json_values import to_json_object, to_json_value
from reverie.interfaces.http import schemas
from reverie.interfaces.http.operations import (
    Call,
    Empty,
    OperationAnswer,
    OperationList,
    Problem,
    answer_reference,
    parse_number,
)
from reverie.repositories.wishes import ForgetRequest

OPERATIONS = OperationList(group="History, plans, erasure, the whole")

POLL_S = 0.3
"""Seconds between two looks at the journal for a stream."""

COMMENT_S = 15.0
"""Seconds of silence after which a comment keeps a stream open, and its token is checked again."""

_BATCH = 500
_LONGEST_SCAN = 3_000
"""Changes that a list reads at most to find those that were asked for; `next` says where to go on."""
_CHUNK = 1_000
_EVERY_NUMBER = range(1, sys.maxsize)
_NUMBER = defer_regex(r"(?<![0-9a-z])\d+(?![0-9a-z]| others)")


def _find_viewed_scope(call: Call) -> str | None:
    """Return the scope whose changes a request is about; None for all of them."""
    return call.view.scope if call.caller.scope or call.query.scope not in ("", EVERY_SCOPE) else None


def _is_row_visible(call: Call, row: JournalEntry) -> bool:
    """Whether a change is of something that can be seen from the scope of the request; without one, all are."""
    scope = _find_viewed_scope(call)
    return scope is None or _find_row_scope(row) in visible_scopes(scope)


def _iterate_rows(call: Call[schemas.JournalQuery]) -> Iterator[JournalEntry]:
    """Yield the changes that a request may ask for, in its order; each filter but the scope and the id may remain."""
    query, numbers, history = call.query, call.numbers, call.memory.history
    after, before = numbers.find(query.after), None if query.before is None else numbers.find(query.before)
    scope = _find_viewed_scope(call)
    if scope is not None and query.id is None:
        visible = call.server.changes.list(scope)
        start, end = (
            bisect_right(visible, after),
            len(visible) if before is None else bisect_left(visible, before),
        )
        chosen = visible[start:end]
        yield from map(history.get, reversed(chosen) if query.newest_first else chosen)
        return
    while rows := history.log(
        query.id,
        after=after,
        before=before,
        since=query.since,
        limit=query.limit + 1,
        newest_first=query.newest_first,
    ):
        yield from rows
        if query.newest_first:
            before = rows[-1].sequence
        else:
            after = rows[-1].sequence


@OPERATIONS.add("GET", "/v1/journal", "read")
def list_changes(call: Call[schemas.JournalQuery]) -> OperationAnswer[schemas.JournalPage]:
    """List changes in their order, or the newest first."""
    query, numbers = call.query, call.numbers
    page: list[JournalEntry] = []
    following = None
    for scanned, row in enumerate(_iterate_rows(call), 1):
        if (
            query.actor in (None, row.actor)
            and query.subject in (None, row.subject)
            and (query.since is None or row.at >= query.since)
            and (query.until is None or row.at < query.until)
            and _is_row_visible(call, row)
        ):
            if len(page) == query.limit:
                following = page[-1].sequence
                break
            page.append(row)
        if scanned == _LONGEST_SCAN:
            following = row.sequence
            break
    if following is not None:
        following = numbers.show(following - 1) + 1 if query.newest_first else numbers.show(following)
    return OperationAnswer({"items": [serialize_change(row) for row in page], "next": following})


@OPERATIONS.add("GET", "/v1/events", "read", answer=str, media_type="text/event-stream")
def stream_changes(call: Call[schemas.EventsQuery]) -> OperationAnswer[str]:
    """Stream changes as server-sent events; the id is the number of the change.

    The stream begins after `Last-Event-ID`, else after the parameter `after`, else now. An event has `sequence`,
    `batch`, `actor`, `subject` and `id`, and no content.
    """
    server = call.server
    begin = call.query.after
    if last := call.headers.get("last-event-id"):
        begin = parse_number(last)
        if begin is None:
            raise InvalidInput("Last-Event-ID is not the number of a change: send the id of an event")
    begin = server.memory.history.sequence() if begin is None else call.numbers.find(begin)
    headers = {"Cache-Control": "no-store"}
    stream = StreamingResponse(_stream(call, begin), media_type="text/event-stream", headers=headers)
    return OperationAnswer(stream)


async def _stream(call: Call, after: int) -> AsyncIterator[bytes]:
    server = call.server
    try:
        yield b"retry: 3000\n\n"
        silent_since = time.monotonic()
        while not server.stopping:
            rows = await server.threads.run(partial(server.memory.history.log, after=after, limit=_BATCH))
            for row in filter(partial(_is_row_visible, call), rows):
                event = to_json_object(row, "sequence", "batch", "actor", "subject")
                data = call.numbers.show_all({**event, "id": None if row.edit is None else row.edit.id})
                yield f"id: {data['sequence']}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
                silent_since = time.monotonic()
            after = rows[-1].sequence if rows else after
            if time.monotonic() - silent_since > COMMENT_S:
                await server.threads.run(lambda: server.authenticate(call.headers, right="read"))
                yield b": still here\n\n"
                silent_since = time.monotonic()
            if len(rows) < _BATCH:
                await anyio.sleep(POLL_S)
    except (Problem, ReverieError):
        return  # the token was revoked, or the memory closed: the client connects again, and gets the error


# -- undo ------------------------------------------------------------------------------------------------


@OPERATIONS.add("POST", "/v1/undo", "review", replay=answer_reference)
def undo(call: Call, asked: schemas.UndoInput) -> OperationAnswer[schemas.UndoOutput]:
    """Undo changes in one transaction."""
    if call.caller.scope:
        asked = _find_own_changes(call, asked)
    try:
        history = call.memory.history.acting(call.caller.label)
        body = history.undo(asked.changes, **asked.model_dump(exclude={"changes"})).to_dict()
    except ReverieError as error:
        raise type(error)(call.numbers.show_text(str(error))) from error
    if not asked.dry_run:
        body["differences"] = []  # the answer is stored for repeated requests, without content
    return OperationAnswer(body, reference=body)


def _find_own_changes(call: Call, asked: schemas.UndoInput) -> schemas.UndoInput:
    """Return what is to be undone by the numbers of the journal; raise unless all belongs to the caller's scope."""
    if asked.since is not None:
        raise Problem(
            403, "An undo of everything since a time is about all scopes. Name changes, or a batch."
        )
    history, numbers = call.memory.history, call.numbers
    changes = None if asked.changes is None else [numbers.require(number) for number in asked.changes]
    rows = [history.get(number) for number in changes or ()]
    batch = None
    if asked.batch is not None:
        rows += history.transaction(numbers.require(asked.batch))
        batch = rows[-1].batch
    scopes = [None if row.edit is None else getattr(row.edit.value, "scope", None) for row in rows]
    if not all(scope is not None and call.is_own(scope) for scope in scopes):
        raise NotFound("no change here has that number: list the changes")
    return asked.model_copy(update={"changes": changes, "batch": batch})


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
    body |= {"steps": [*steps], "groups": groups, "decided": not waiting.open}
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
        raise NotFound(f"no open proposal {name!r} here: list the open proposals")
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


@OPERATIONS.add("GET", "/v1/activity", "admin", is_whole=True)
def get_activity(call: Call[schemas.ActivityQuery]) -> OperationAnswer[schemas.Items[schemas.DayOutput]]:
    """Return the number of changes of each of the last days, by operation."""
    days = call.memory.admin.activity(days=call.query.days).items()
    return OperationAnswer({"items": [{"day": str(day), "counts": counts} for day, counts in days]})


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


# -- numbers of changes as the sender of a request sees them ---------------------------------------------
#
# The numbers of the journal count the changes of all scopes, so they would tell a token that is bound to a scope how
# much others do. Such a token sees positions in the list of the changes that it may see.


def _find_row_scope(row: JournalEntry) -> str | None:
    """Return the scope of a change; that of a page or a paragraph is everybody's. None if its content was erased."""
    return None if row.edit is None else getattr(row.edit.value, "scope", "")


class VisibleChanges:
    """Changes of the journal by scope, read once and then followed. Safe to use from several threads."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._lock = threading.Lock()
        self._scopes: list[tuple[int, str]] = []
        self._followed = 0
        self._lists: dict[str, tuple[int, list[int]]] = {}

    def list(self, scope: str) -> list[int]:
        """Return the numbers of the changes of a scope, of those around it and of those within it, in their order."""
        with self._lock:
            while self._followed < self._history.sequence():
                for row in self._history.log(after=self._followed, limit=_CHUNK):
                    if (name := _find_row_scope(row)) is not None:
                        self._scopes.append((row.sequence, name))
                    self._followed = row.sequence
            known, numbers = self._lists.get(scope, (0, []))
            around = visible_scopes(scope)
            for number, name in self._scopes[known:]:
                if name in around or (name and is_within(name, scope)):
                    numbers.append(number)
            self._lists[scope] = len(self._scopes), numbers
            return numbers

    def number(self, scope: str) -> ChangeNumbers:
        """Return the numbers for a caller whose token is bound to a scope; empty for a token of all scopes."""
        return ChangeNumbers(self.list(scope) if scope else _EVERY_NUMBER, self._followed)


class ChangeNumbers:
    """Conversion between the numbers of the journal and those that a caller sees.

    Args:
        visible: Numbers of the changes that the caller sees.
        newest: Number of the newest change.
    """

    def __init__(self, visible: Sequence[int], newest: int) -> None:
        self._visible = visible
        self._newest = newest

    def show(self, sequence: int) -> int:
        """Return the number that the caller sees for a change: how many visible ones there are up to it."""
        return bisect_right(self._visible, sequence)

    def find(self, number: int) -> int:
        """Return the number in the journal of the change that has this number for the caller.

        A number that no change has yet is after the newest one.
        """
        last = len(self._visible)
        return self._newest + number - last if number > last else self._visible[number - 1] if number else 0

    def require(self, number: int, *, least: int = 1) -> int:
        """Return what `find` does; raise `NotFound` if there is no such change, and it is not `least`."""
        if not least <= number <= len(self._visible):
            raise NotFound(f"no change {number}: the last one is {len(self._visible)}")
        return self.find(number)

    def show_answer(self, answer: OperationAnswer[Any]) -> None:
        """Change the numbers in an answer to those that the caller sees."""
        if not isinstance(answer.body, bytes | Response):
            answer.body = self.show_all(to_json_value(answer.body))
            answer.reference = self.show_all(answer.reference)

    def show_all(self, value: Any) -> Any:
        """Return an answer with the numbers of changes in it as the caller sees them."""
        if isinstance(value, list):
            return [self.show_all(each) for each in value]
        if not isinstance(value, dict):
            return value
        return {name: self._show_field(name, each, value) for name, each in value.items()}

    def _show_field(self, name: str, value: Any, fields: dict[str, Any]) -> Any:
        if name == "sequence" and isinstance(value, int):
            return self.show(value)
        if name == "batch" and isinstance(value, int):
            return self.show(value - 1) + 1  # the first visible change of the transaction
        if name in ("changes", "made") and isinstance(value, list):
            return [self.show(each) if isinstance(each, int) else self.show_all(each) for each in value]
        if name == "reference" and fields.get("operation") == "undo":
            return self.show_text(value)
        if name == "reason" and str(value).startswith("undo of "):
            numbers, colon, note = value.partition(":")
            return self.show_text(numbers) + colon + note
        return self.show_all(value)

    def show_text(self, text: str) -> str:
        """Return a text about changes with their numbers as the caller sees them."""
        return _NUMBER.sub(lambda found: str(self.show(int(found.group()))), text)
