"""Operations on records that contradict each other."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal

from reverie.domain.errors import InvalidInput
from reverie.domain.headlines import detach_changed
from reverie.domain.record import SUPERSEDED_BY, SUPERSEDES, Record
from reverie.interfaces.http.operations import Call, Form, OperationList, compute_etag
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.records import get_changeable
from reverie.interfaces.http.schemas import JournalReason

OPERATIONS = OperationList(group="Records, search and pages")

COMPATIBLE = "compatible_with"
"""Metadata of a record that holds beside others: their ids."""


class Settlement(Form):
    """Decision about two records that contradict each other.

    Attributes:
        holds: Id of the record that holds.
        other: Id of the other one.
        verdict: `ended` if the other one held until now, `wrong` if it never did, `both` if it holds too.
        content: New text of the record that holds; None to leave it.
        versions: ETags of both as they were read, so that neither has changed since; None to take any.
        reason: Reason for the journal.
    """

    holds: str
    other: str
    verdict: Literal["ended", "wrong", "both"]
    content: str | None = None
    versions: tuple[str, str] | None = None
    reason: JournalReason = ""


class SettledConflict(Form):
    """The two records of a conflict as they are now."""

    holds: Record
    other: Record


@OPERATIONS.add("POST", "/v1/conflicts/settle", "write", answer=SettledConflict)
def settle_conflict(call: Call, given: Settlement) -> Any:
    """Decide which of two records holds; the other one ends, is archived as wrong, or holds too."""
    if given.holds == given.other:
        raise InvalidInput("holds and other are the same record: name two")
    if given.verdict == "both" and given.content is not None:
        raise InvalidInput(
            "content is for a conflict that one record settles: leave it out, or the verdict 'both'"
        )
    ids = (given.holds, given.other)
    for name in ids:
        get_changeable(call, name)
    now = call.memory._clock()
    settle = {"ended": _end, "wrong": _archive}.get(given.verdict)

    def change(record: Record) -> Record:
        place = ids.index(record.id)
        if given.versions and given.versions[place] != compute_etag(record):
            raise Problem(412, "One of the two has changed since it was read. Read both again.")
        if place == 1:
            return record if settle is None else settle(record, given.holds, now)
        link = {"ended": SUPERSEDES, "both": COMPATIBLE}.get(given.verdict)
        after = record if link is None else _add_link(record, link, given.other)
        if given.content is None:
            return after
        origin = call.caller.limit_origin(record.origin)
        return detach_changed(record, replace(after, content=given.content.strip(), origin=origin))

    changed = call.view._parts.records.change(ids, change, operation="settle", note=given.reason, touch=True)
    by_id = {record.id: record for record in changed}
    return {"holds": by_id[given.holds], "other": by_id[given.other]}


def _end(record: Record, holds: str, now: datetime) -> Record:
    """Return a record that held until now."""
    ended = _add_link(record, SUPERSEDED_BY, holds, alone=True)
    return replace(ended, valid_to=now if record.valid_to is None else min(record.valid_to, now))


def _archive(record: Record, holds: str, now: datetime) -> Record:
    """Return a record that was never true."""
    if record.archived:
        return record
    return replace(record, archived_at=now, archive_reason=f"wrong, {holds} holds")


def _add_link(record: Record, name: str, id: str, *, alone: bool = False) -> Record:
    known = [] if alone else record.metadata.get(name, "").split()
    text = " ".join(dict.fromkeys((*known, id)))
    return replace(record, metadata=MappingProxyType({**record.metadata, name: text}))
