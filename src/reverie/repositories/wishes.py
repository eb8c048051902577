"""What became of the wishes of a conversation, and the requests to forget that wait for a person.

A request names records and turns by their ids and has no content, so it quotes nothing of what it would erase.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from reverie.context.gate import choose_settings, compute_chances
from reverie.context.retrieval import Retriever
from reverie.domain.conversation import FORGOTTEN, OFF_RECORD, SessionState, Turn, Wish
from reverie.domain.errors import InvalidInput, NotFound, quote_value
from reverie.domain.filter import Filter
from reverie.domain.lazy_dataclass import dataclass
from reverie.domain.record import UNTRUSTED
from reverie.domain.scope import is_within
from reverie.domain.text.json_values import JsonObject
from reverie.domain.text.timestamps import format_time, parse_time
from reverie.repositories.records import SaveResult
from reverie.search.hits import Hit
from reverie.stores.writer import StoreWriter

if TYPE_CHECKING:
    from reverie.consolidation.rule_learning import RuleLearner


MAX_ITEMS = 20
"""Most records and turns of one request."""

_PREFIX = "forget:"
_POOL = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRequest(JsonObject):
    """Erasure that somebody asked for in a conversation, until a person confirms or drops it.

    Attributes:
        id: 12 lower-case hexadecimal characters.
        scope: Scope of the conversation.
        ids: Ids of the records and turns; the turn that asks is the last one, if it is stored.
        asked_at: When it was asked for.
    """

    id: str
    scope: str
    ids: tuple[str, ...]
    asked_at: datetime


_SENTENCES = {
    "remember": "Nothing was saved: the message says nothing to remember.",
    "forget": "Nothing about this is stored, so there is nothing to forget.",
    "skip": "This message and its answer are not stored.",
    "pause": "This conversation is off the record until it is resumed.",
    "resume": "This conversation is recorded again.",
}
_REQUESTED = {
    "forget": "Nothing is erased yet.",
    "skip": "This message is not stored. The message before it is:",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WishResult:
    """What became of one wish.

    Attributes:
        wish: The wish.
        saved: The record that was saved; None if none was.
        request: The request to forget that waits; None if there is none.
    """

    wish: Wish
    saved: SaveResult | None = None
    request: ForgetRequest | None = None

    def describe(self) -> str:
        """Return a sentence for the person and for the model that answers."""
        if self.saved is not None:
            return f"Saved {self.saved.record.kind} {self.saved.record.id}: {self.saved.record.content}"
        if self.request is None:
            return _SENTENCES[self.wish.name]
        return (
            f"{_REQUESTED[self.wish.name]} Request {self.request.id} names {len(self.request.ids)} memories and turns. "
            f"Confirm it with `reverie forget --request {self.request.id}` or in the web UI."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "name": self.wish.name,
            "text": self.describe(),
            "record": None if self.saved is None else self.saved.record.id,
            "request": None if self.request is None else self.request.to_dict(),
        }


def split_by_recording(
    drafts: Sequence[Turn], read_state: Callable[[], SessionState], listener: RuleLearner | None
) -> Iterator[tuple[str, list[Turn]]]:
    """Yield turns that are to be added in runs of one recording mode, each with it: empty for stored, `skip`, `pause`.

    Args:
        drafts: The turns.
        read_state: Returns the state of their session.
        listener: Finds the wishes; None if all is stored.
    """
    mode = read_state().metadata.get(OFF_RECORD, "") if listener is not None else ""
    run: list[Turn] = []
    for draft in drafts:
        before = mode
        if listener is not None and draft.role == "user":
            names = {wish.name for wish in listener.find_wishes(draft)}
            is_paused = "pause" in names or (before == "pause" and "resume" not in names)
            mode = "pause" if is_paused else "skip" if "skip" in names else ""
        if mode != before and run:
            yield before, run
            run = []
        run.append(draft)
    if run:
        yield mode, run


class ForgetRequests:
    """Requests to forget in one scope and the scopes within it. `Memory.admin` erases what one of them names."""

    def __init__(self, writer: StoreWriter, recaller: Retriever, scope: str) -> None:
        """Read and write the requests of a scope, and find what they name by a search."""
        self._writer = writer
        self._recaller = recaller
        self._scope = scope

    def propose(self, subject: str, *, turn: str = "") -> ForgetRequest | None:
        """Store a request to erase what is stored about a subject; nothing is erased before a person confirms it.

        Args:
            subject: The subject, in a few words.
            turn: Id of the turn that asks for it, which is erased as well; empty for none.

        Returns:
            The request; None if nothing about the subject is stored.
        """
        store, allowed = self._writer.store, Filter(scopes=(self._scope,))
        hits = self._recaller.recall(subject, allowed=allowed, limit=_POOL, exclude=frozenset({turn}))
        memories = sum(store.measure(kind, (self._scope,)).passages for kind in ("record", "turn"))
        least, chances = choose_settings(hits).known, compute_chances(subject, hits, memories)
        found = [
            hit
            for hit, chance in zip(hits, chances, strict=True)
            if chance >= least and _is_own_evidence(hit) and hit.content != FORGOTTEN
        ][:MAX_ITEMS]
        cited = [name for hit in found if hit.record is not None for name in hit.record.references]
        told = [each.id for each in store.turns(cited) if each.scope == self._scope and each.role == "user"]
        ids = dict.fromkeys([*(hit.id for hit in found), *told, *filter(None, [turn])])
        return self.add([*ids]) if found else None

    def propose_turn(self, turn: str) -> ForgetRequest | None:
        """Store a request to erase a turn and what was learned from it; None if nothing of it is stored."""
        store = self._writer.store
        learned = [record.id for record in store.records(store.citing([turn])) if not record.archived]
        told = [each.id for each in store.turns([turn]) if each.content != FORGOTTEN]
        return self.add(told + learned) if told or learned else None

    def list(self) -> list[ForgetRequest]:
        """Return the requests that wait, the oldest first."""
        found = [
            _read(name.removeprefix(_PREFIX), text)
            for name, text in self._writer.store.cursors(_PREFIX).items()
        ]
        inside = (each for each in found if not self._scope or is_within(each.scope, self._scope))
        return sorted(inside, key=lambda each: (each.asked_at, each.id))

    def get(self, id: str) -> ForgetRequest:
        """Return a request.

        Raises:
            NotFound: no request of this scope has this id.
        """
        found = next((each for each in self.list() if each.id == id), None)
        if found is None:
            raise NotFound(
                f"No request to forget {quote_value(id)}. Run `reverie forget` to list those that wait."
            )
        return found

    def add(self, ids: Sequence[str]) -> ForgetRequest:
        """Store a request for these records and turns."""
        now = self._writer.clock()
        request = ForgetRequest(id=self._writer.new_id(), scope=self._scope, ids=tuple(ids), asked_at=now)
        text = json.dumps([self._scope, list(ids), format_time(now)])
        self._writer.commit([], cursors={_PREFIX + request.id: text})
        return request

    def drop(self, id: str) -> ForgetRequest:
        """Remove a request and erase nothing.

        Raises:
            NotFound: no request of this scope has this id.
        """
        request = self.get(id)
        self._writer.commit([], cursors={_PREFIX + id: None})
        return request


def fulfil_wishes(
    writer: StoreWriter,
    recaller: Retriever,
    learner: RuleLearner,
    turns: Sequence[Turn],
    earlier: Sequence[Turn],
    *,
    is_recorded: bool,
) -> tuple[WishResult, ...]:
    """Do what the last turn of the user asks for, if it is the owner's own word; return what became of each wish.

    Args:
        writer: Writer of what is recorded.
        recaller: Searches the memory.
        learner: Finds wishes, and saves.
        turns: Turns that were added, at least one of the user.
        earlier: The window before them.
        is_recorded: Whether they were stored.
    """
    *before, turn = (each for each in (*earlier, *turns) if each.role == "user")
    last, own = before[-1] if before else None, turn.id if is_recorded else ""
    requests = ForgetRequests(writer, recaller, turn.scope)

    def fulfil(wish: Wish) -> WishResult:
        saved, request = None, None
        if wish.name == "remember":
            text, said = (wish.text, turn) if wish.text or last is None else (last.content, last)
            saved = learner.save_wish(text, said) if text else None
        elif wish.name == "forget":
            request = requests.propose(wish.text, turn=own)
        elif wish.name == "skip" and not wish.text and last is not None:
            request = requests.propose_turn(last.id)
        return WishResult(wish=wish, saved=saved, request=request)

    return () if turn.origin in UNTRUSTED else tuple(map(fulfil, learner.find_wishes(turn)))


def _is_own_evidence(hit: Hit) -> bool:
    """Return whether a record or a user's turn is about the subject itself, and not the turns around it."""
    is_said = hit.record is not None or (hit.turn is not None and hit.turn.role == "user")
    evidence = hit.explanation.evidence
    return is_said and (evidence.get("words", 0.0) > 0.0 or evidence.get("vector", 0.0) > 0.0)


def _read(id: str, text: str) -> ForgetRequest:
    try:
        scope, ids, asked_at = json.loads(text)
        return ForgetRequest(id=id, scope=scope, ids=tuple(ids), asked_at=parse_time(asked_at))
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"Cannot read the request to forget {id!r}: {error}.") from None
