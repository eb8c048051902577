"""Operations on records that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field

from reverie.domain.errors import InvalidInput
from reverie.domain.filter import Filter
from reverie.domain.headlines import detach_changed
from reverie.domain.record import SUPERSEDED_BY, SUPERSEDES, Record
from reverie.domain.similarity.specifics import extract_specifics
from reverie.domain.text.tokenizer import tokenize
from reverie.interfaces.http.conditions import compute_etag
from reverie.interfaces.http.operations import Call, Form, OperationList
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.records import get_changeable, read_page
from reverie.interfaces.http.schemas import CursorQuery, JournalReason
from reverie.search.analyzer import analyze
from reverie.stores.protocol import read_or_none

OPERATIONS = OperationList()

MOST_COMPARED = 100
"""Records of a page of the list: they are compared with each other, and with older ones that share phrases."""

COMPATIBLE = "compatible_with"
"""Metadata of a record that holds beside others: their ids."""

_MOST_SHARING = 8
_LEAST_ALIKE = 0.5  # by the Dice coefficient of their words
_MOST_LOOKED_AT = 3  # older records for each, the most similar
_MOST_DIFFERING = 2
"""Specifics of each record that the other lacks; records with more of them speak of different things."""


class ConflictPair(Form):
    """Two records of which only one seems to hold.

    Attributes:
        records: The newer one, then the older one.
        differing: What one says and the other does not.
    """

    records: Annotated[list[Record], Field(min_length=2, max_length=2)]
    differing: list[str]


class ConflictList(Form):
    """Conflicts of some records, those of the newest first.

    Attributes:
        items: The conflicts.
        compared: Number of the records that were looked at.
        next: Cursor with which older records are looked at; null if there are none.
    """

    items: list[ConflictPair]
    compared: int
    next: str | None


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


@OPERATIONS.add("GET", "/v1/conflicts", "read", query=CursorQuery, answer=ConflictList)
def list_conflicts(call: Call) -> Any:
    """List pairs of records of which only one seems to hold; `next` leads to those of older records."""
    of = (call.caller.token, "conflicts", call.view.scope)
    with call.memory._store.reading():
        page, following = read_page(call.view, call.query.cursor, of=of, limit=MOST_COMPARED)
        records = [record for record in page if _may_conflict(record, call)]
        pairs = [*find_conflicts(records, older=_find_sharing(records, call) if following else [])]
    items = [{"records": [newer, older], "differing": differing} for newer, older, differing in pairs]
    return {"items": items, "compared": len(page), "next": following}


def _may_conflict(record: Record, call: Call) -> bool:
    return record.scope == call.view.scope and record.valid_to is None and record.kind != "event"


def _find_sharing(records: list[Record], call: Call) -> list[Record]:
    """Return older live records of the scope that share phrases with some of these."""
    index, known = call.memory._index, {record.id for record in records}
    allowed = Filter(scopes=(call.view.scope,))
    keys: dict[int, None] = {}
    for record in records:
        keys |= dict.fromkeys(index.alike(analyze(record).cues.split(), allowed, _MOST_SHARING)[0])
    last = min((record.created_at for record in records), default=None)
    return [
        each
        for each in read_or_none(call.memory._store.records, list(keys))
        if each is not None
        and each.id not in known
        and last is not None
        and each.created_at <= last
        and _may_conflict(each, call)
    ]


def find_conflicts(
    records: list[Record], *, older: Sequence[Record] = ()
) -> Iterator[tuple[Record, Record, list[str]]]:
    """Yield pairs of records, the newer one first, that say different things in almost the same words.

    Args:
        records: Records of one scope, the newest first.
        older: Older records of it, which are compared with these and not with each other.
    """
    every = [*records, *older]
    words = [frozenset(tokenize(record.to_searchable_text())) for record in every]
    specifics = cache(lambda place: extract_specifics(every[place].content))
    for place, own in enumerate(words[: len(records)]):
        alike: list[tuple[float, int]] = []
        for other in range(place + 1, len(words)):
            share = 2 * len(own & words[other]) / (len(own) + len(words[other]) or 1)
            if share >= _LEAST_ALIKE:
                alike.append((-share, other))
        for _, other in sorted(alike)[:_MOST_LOOKED_AT]:
            added = specifics(place).find_missing_from(specifics(other))
            lacking = specifics(other).find_missing_from(specifics(place))
            is_one_value = 0 < len(added) <= _MOST_DIFFERING and 0 < len(lacking) <= _MOST_DIFFERING
            if is_one_value and not _is_settled(every[place], every[other]):
                yield every[place], every[other], sorted(added | lacking)


def _is_settled(one: Record, other: Record) -> bool:
    return (
        other.id in one.metadata.get(COMPATIBLE, "").split()
        or one.id in other.metadata.get(COMPATIBLE, "").split()
    )


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
