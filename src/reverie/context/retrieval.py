"""Retrieval of memories for a message, without text of untrusted origin.

The pack decides what of it goes into the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from reverie.context.ledger import build_remembered_cursor, parse_position
from reverie.domain.conversation import ROLES, Role
from reverie.domain.filter import Filter
from reverie.domain.record import ORIGINS, STANDING, UNTRUSTED, Record
from reverie.domain.text import validation
from reverie.search.calibration import FLOOR
from reverie.search.hits import Hit
from reverie.settings import Settings

LONGEST_QUERY = 2_000
"""Characters of a message that are searched for; of a longer one, the first and the last thousand."""

WEAK = 0.1
"""A hit that scores less than this share of the best is left out: on LoCoMo's development half that takes a
twentieth of the hits away and .003 of the evidence; a quarter would take .026."""

_MORE = 12  # hits asked for beyond those shown, since untrusted and replayed ones are left out
_MOST_STANDING = 100  # records looked at, of which the most important go into the prompt
_TRUSTED = tuple(origin for origin in ORIGINS if origin not in UNTRUSTED)
_SPEAKING: tuple[Role, ...] = tuple(role for role in ROLES if role != "tool")


class Retriever(Protocol):
    """Search as a session needs it."""

    def recall(self, query: str, *, allowed: Filter, limit: int, exclude: frozenset[str]) -> list[Hit]:
        """Return records and turns that answer the query, best first; none if nothing is relevant.

        Args:
            query: The question, at most 2,000 characters, without control characters.
            allowed: What the result is restricted to; one that only turns can satisfy gives only turns,
                one that only records can satisfy only records.
            limit: At most so many, 1 or more.
            exclude: Ids of records and turns that must not be found.
        """

    def recent(self, *, allowed: Filter, limit: int) -> list[Record]:
        """Return the records changed last, newest first."""


def retrieve(
    recaller: Retriever,
    settings: Settings,
    query: str,
    scopes: tuple[str, ...],
    *,
    exclude: frozenset[str],
    standing: frozenset[str] = frozenset(),
    now: datetime,
    cursor: Callable[[str], str | None],
) -> list[Hit]:
    """Return the best hits up to the setting's limit, and untrusted and standing ones that rank among them.

    Records come before turns of conversations that were read for facts: what these turns say for good is a record,
    which says it in fewer words. More are asked for than wanted. If untrusted hits filled even that, the trusted ones
    are asked for by themselves, so that nobody can crowd memory out by filling it with text from the web.

    Args:
        recaller: What searches.
        settings: The settings.
        query: The question, as `query_from_message` gives it.
        scopes: Whose memory is seen.
        exclude: Ids of records and turns that must not be found.
        standing: Ids of records that stand in every prompt; they take no room from others.
        now: The moment.
        cursor: Function that reads a cursor of the store, such as the one that says which turns were read for facts.
    """
    limit = settings.recall_limit
    if not limit or not query:
        return []
    widened = limit + _MORE
    allowed = Filter(scopes=scopes, alive_at=now)
    hits = recaller.recall(query, allowed=allowed, limit=widened, exclude=exclude)
    if len(hits) >= widened and sum(hit.is_trusted for hit in hits) < limit:
        for only in (
            replace(allowed, origins=_TRUSTED),
            replace(allowed, roles=_SPEAKING),
            replace(allowed, roles=("user",)),
        ):
            hits += recaller.recall(query, allowed=only, limit=limit, exclude=exclude)
        hits = sorted({hit.id: hit for hit in hits}.values(), key=lambda hit: -hit.score)
    return _limit_trusted(_put_read_turns_last(hits, cursor), limit, standing)


def retrieve_recent(
    recaller: Retriever,
    settings: Settings,
    scopes: tuple[str, ...],
    hits: Sequence[Hit],
    *,
    standing: frozenset[str],
    now: datetime,
) -> list[Record]:
    """Return the trusted records changed last for a first turn for which nothing, or only a weak match is found.

    Args:
        recaller: What searches.
        settings: The settings.
        scopes: Whose memory is seen.
        hits: What was found for the turn.
        standing: Ids of records that stand in every prompt.
        now: The moment.
    """
    trusted = [hit for hit in hits if hit.is_trusted]
    limit = settings.fallback_limit - len(trusted)
    if limit <= 0 or any(hit.score >= FLOOR for hit in trusted):
        return []
    known = standing.union(hit.id for hit in hits)
    allowed = Filter(scopes=scopes, origins=_TRUSTED, alive_at=now, valid_at=now)
    records = recaller.recent(allowed=allowed, limit=limit + len(known))
    return [record for record in records if record.id not in known][:limit]


def retrieve_standing(recaller: Retriever, settings: Settings, scopes: tuple[str, ...]) -> list[Record]:
    """Return the trusted records that stand in every prompt while they hold, the most important first.

    They are pinned records, preferences and constraints. Of equally important ones the newest is first. Whether they
    hold at a moment is left to the caller, who can keep the answer until something changes.

    Args:
        recaller: What searches.
        settings: The settings.
        scopes: Whose memory is seen.
    """
    if not settings.standing_tokens:
        return []
    allowed = Filter(scopes=scopes, origins=_TRUSTED, headlines=False)
    found = [
        *recaller.recent(allowed=replace(allowed, pinned=True), limit=_MOST_STANDING),
        *recaller.recent(allowed=replace(allowed, kinds=STANDING, pinned=False), limit=_MOST_STANDING),
    ]
    return sorted(found, key=lambda record: (not record.pinned, -record.importance))


def query_from_message(message: str) -> str:
    """Return a message as a query: cleaned, and of a long one the first and the last thousand characters."""
    half = LONGEST_QUERY // 2
    if len(message) > LONGEST_QUERY:
        message = f"{message[: half - 1]}\n{message[-half:]}"
    return validation.clean_text(message).strip()


def _put_read_turns_last(hits: Sequence[Hit], cursor: Callable[[str], str | None]) -> list[Hit]:
    """Return the hits with turns that were read for facts, and weak hits, behind all others."""
    least = WEAK * max((hit.score for hit in hits), default=0.0)
    sessions = {hit.turn.session for hit in hits if hit.turn is not None}
    positions = {session: parse_position(cursor(build_remembered_cursor(session))) for session in sessions}

    def is_last(hit: Hit) -> bool:
        is_read = hit.turn is not None and hit.turn.position < positions[hit.turn.session]
        return is_read or hit.score < least

    return sorted(hits, key=is_last)


def _limit_trusted(hits: Sequence[Hit], limit: int, standing: frozenset[str]) -> list[Hit]:
    trusted = []
    for hit in hits:
        if not limit:
            break
        limit -= hit.is_trusted and hit.id not in standing
        trusted.append(hit)
    return trusted
