"""Proposals of passes, which wait for the owner's yes.

A proposal is an archived record, so that it is in no search and no prompt. Accepting restores it. A rejected one
stays archived, and is not proposed again. A program may ask the owner about each once: a plain yes or no decides it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Literal, get_args

from reverie.domain.change import Change, Operation
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.filter import Filter
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import PROPOSAL, Record, validate_choice
from reverie.stores.protocol import Store
from reverie.stores.writer import StoreWriter

Verdict = Literal["accept", "reject", "later"]
"""The owner's decision on a proposal."""

REJECTED = "rejected"

_DECIDED: Mapping[Verdict, Operation] = MappingProxyType(
    {
        "accept": "accept",
        "reject": "reject",
        "later": "postpone",
    }
)

_OPEN = "open"
_ASKED = "asked"
_LONGEST_REASON = 500
_POLITENESS = (
    r"(?:,?\s+(?:please|thanks|thank you|bitte|danke|por favor|gracias|s'il (?:te|vous) pla[iî]t|merci))*"
    r"\s*[.!]*"
)
_YES = defer_regex(rf"(?:yes|yeah|yep|ja|s[ií]|oui){_POLITENESS}", re.IGNORECASE)
_NO = defer_regex(rf"(?:no|nope|nein|non){_POLITENESS}", re.IGNORECASE)


def list_proposals(store: Store) -> list[Record]:
    """Return the proposals that were not accepted, rejected ones too, the newest first."""
    found = store.find(Filter(archived=True, metadata=PROPOSAL))  # in the order that an index has
    return sorted(found, key=lambda record: record.created_at, reverse=True)


def list_open_proposals(store: Store) -> list[Record]:
    """Return the proposals that the owner has not decided; what was saved by other means since is left out."""
    return [
        record
        for record in list_proposals(store)
        if record.metadata[PROPOSAL] != REJECTED
        and store.record_like(record.scope, record.fingerprint) is None
    ]


def ask_next_proposal(writer: StoreWriter, *, scope: str, now: datetime) -> Record | None:
    """Return the newest proposal that the owner was not asked about, and note that they are; see `Worker.ask`."""

    def attempt(_: int) -> Record | None:
        for before in list_open_proposals(writer.store):
            if before.scope == scope and before.metadata[PROPOSAL] == _OPEN:
                after = _set_state(before, _ASKED, why=before.archive_reason, now=now)
                writer.commit([Change(before=before, after=after)], operation="ask")
                return after
        return None

    return writer.retrying(attempt)


def read_answer(text: str) -> Verdict | None:
    """Return the decision in a plain answer to a question about a proposal; None where it is anything else.

    >>> read_answer("Yes, please."), read_answer("nein danke"), read_answer("no idea"), read_answer("yes and no")
    ('accept', 'reject', None, None)
    """
    plain = text.strip().replace("’", "'")
    if _YES.fullmatch(plain):
        return "accept"
    return "reject" if _NO.fullmatch(plain) else None


def decide_proposal(
    writer: StoreWriter, id: str, verdict: Verdict, *, reason: str = "", now: datetime
) -> Record:
    """Write the owner's decision, and return the record; see `Worker.decide`."""
    validate_verdict(verdict, reason)

    def attempt(_: int) -> Record:
        found = [record for record in list_open_proposals(writer.store) if record.id == id]
        if not found:
            raise NotFound(_explain_missing(writer.store, id))
        before = found[0]
        after = _build_decided(before, verdict, reason.strip(), now)
        writer.commit([Change(before=before, after=after)], operation=_DECIDED[verdict], note=reason.strip())
        return after

    return writer.retrying(attempt)


def validate_verdict(verdict: Verdict, reason: str) -> None:
    """Raise `InvalidInput` where a decision or its reason is not of its form."""
    validate_choice(verdict, get_args(Verdict), name="verdict")
    if not isinstance(reason, str) or len(reason) > _LONGEST_REASON:
        raise InvalidInput(f"reason is {reason!r}: pass a text of at most {_LONGEST_REASON} characters")


def _explain_missing(store: Store, id: str) -> str:
    """Return why there is nothing to decide, and how a rejection is taken back."""
    for record in store.records([id]):
        if record.metadata.get(PROPOSAL) == REJECTED:
            return f"the proposal {id!r} was rejected: undo the change that `reverie blame {id}` names to decide again"
    return f"there is no open proposal {id!r}: `reverie review` lists them"


def _build_decided(record: Record, verdict: Verdict, reason: str, now: datetime) -> Record:
    if verdict == "accept":
        metadata = {name: text for name, text in record.metadata.items() if name != PROPOSAL}
        live = replace(record, archived_at=None, archive_reason="", confidence=max(record.confidence, 0.9))
        return replace(live, metadata=MappingProxyType(metadata), updated_at=max(now, record.updated_at))
    state = REJECTED if verdict == "reject" else "later"
    return _set_state(
        record, state, why=f"rejected: {reason}" if state == REJECTED and reason else state, now=now
    )


def _set_state(record: Record, state: str, *, why: str, now: datetime) -> Record:
    return replace(
        record,
        metadata=MappingProxyType({**record.metadata, PROPOSAL: state}),
        archive_reason=why,
        updated_at=max(now, record.updated_at),
    )
