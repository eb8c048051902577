"""Proposals of passes, which wait for the owner's yes.

A proposal is an archived record, so that it is in no search and no prompt. Accepting restores it. A rejected one
stays archived, and is not proposed again.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Literal, get_args

from reverie.domain.change import Change
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.filter import Filter
from reverie.domain.record import PROPOSAL, Record
from reverie.stores.protocol import Store
from reverie.stores.writer import StoreWriter

Verdict = Literal["accept", "reject", "later"]
"""The owner's decision on a proposal."""

REJECTED = "rejected"

_LONGEST_REASON = 500


def list_proposals(store: Store) -> list[Record]:
    """Return the proposals that were not accepted, rejected ones too, the earliest first."""
    return list(store.find(Filter(archived=True, metadata=PROPOSAL), order="created"))


def list_open_proposals(store: Store) -> list[Record]:
    """Return the proposals that the owner has not decided; what was saved by other means since is left out."""
    return [
        record
        for record in list_proposals(store)
        if record.metadata[PROPOSAL] != REJECTED
        and store.record_like(record.scope, record.fingerprint) is None
    ]


def decide_proposal(
    writer: StoreWriter, id: str, verdict: Verdict, *, reason: str = "", now: datetime
) -> Record:
    """Write the owner's decision, and return the record; see `Worker.decide`."""
    if verdict not in get_args(Verdict):
        raise InvalidInput(f"verdict is {verdict!r}: use one of {', '.join(get_args(Verdict))}")
    if not isinstance(reason, str) or len(reason) > _LONGEST_REASON:
        raise InvalidInput(f"reason is {reason!r}: pass a text of at most {_LONGEST_REASON} characters")

    def attempt(_: int) -> Record:
        found = [record for record in list_open_proposals(writer.store) if record.id == id]
        if not found:
            raise NotFound(f"there is no open proposal {id!r}: `reverie review` lists them")
        before = found[0]
        after = _build_decided(before, verdict, reason.strip(), now)
        writer.commit([Change(before=before, after=after)], reason=f"{verdict} the proposal")
        return after

    return writer.retrying(attempt)


def _build_decided(record: Record, verdict: Verdict, reason: str, now: datetime) -> Record:
    metadata = {name: text for name, text in record.metadata.items() if name != PROPOSAL}
    if verdict == "accept":
        live = replace(record, archived_at=None, archive_reason="", confidence=max(record.confidence, 0.9))
        return replace(live, metadata=MappingProxyType(metadata), updated_at=max(now, record.updated_at))
    state = REJECTED if verdict == "reject" else "later"
    why = f"rejected: {reason}" if verdict == "reject" and reason else state
    return replace(
        record,
        metadata=MappingProxyType({**metadata, PROPOSAL: state}),
        archive_reason=why,
        updated_at=max(now, record.updated_at),
    )
