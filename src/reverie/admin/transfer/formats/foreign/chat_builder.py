"""Conversion of another program's messages into turns with stable ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.formats import notes
from reverie.admin.transfer.formats.foreign.fields import to_storable, to_text
from reverie.admin.transfer.formats.native.jsonl import PIECE
from reverie.admin.transfer.items import (
    FoundTurns,
    ImportTerms,
    Item,
    Reason,
    Skipped,
    What,
    add_source_id,
    build_stable_id,
    hash_texts,
)
from reverie.domain.conversation import (
    LONGEST_NAME,
    ORIGIN,
    Role,
    SessionState,
    SessionStatus,
    ToolCall,
    Turn,
    validate_session,
    validate_turn,
)
from reverie.domain.errors import InvalidInput
from reverie.domain.text.validation import clean_text


class ConversationBuilder:
    """Builder of one conversation.

    Attributes:
        last: The time of the last turn, or the beginning.
    """

    def __init__(
        self,
        session: str,
        *,
        form: str,
        place: str,
        terms: ImportTerms,
        times: Iterable[datetime | None],
        metadata: Mapping[str, Any] = MappingProxyType({}),
        status: SessionStatus = "active",
    ) -> None:
        """Begin a conversation.

        Args:
            session: The id of the session.
            times: Times of the conversation and its messages; the first one is its beginning.
            metadata: Metadata; empty values are left out.

        Raises:
            InvalidInput: it is not a valid session.
        """
        self._form = form
        self._place = place
        self._turns: list[Turn] = []
        self._left_out = Counter[tuple[What, Reason, str]]()
        self.last = next(filter(None, times), terms.now)
        storable = {name: to_storable(to_text(value)) for name, value in metadata.items() if value}
        self._state = validate_session(
            SessionState(
                id=session,
                created_at=self.last,
                scope=terms.foreign_scope,
                status=status,
                metadata=MappingProxyType(storable),
            )
        )

    def add(
        self,
        source_id: str,
        role: Role,
        content: str,
        *,
        at: datetime | None = None,
        speaker: str = "",
        tool_calls: Sequence[ToolCall] = (),
        tool_call_id: str = "",
        metadata: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Append a turn, or note why it is left out.

        Args:
            source_id: The other program's id of the message.
            at: Its time; None for that of the turn before.
            tool_call_id: The call that a tool's turn answers.
            metadata: What else is known of it; what is empty is left out.
        """
        text = to_storable(content)
        if not text.strip() and not tool_calls and role != "tool":
            self.leave_out("turn", "empty")
            return
        self.last = at or self.last
        storable = {name: to_storable(value) for name, value in metadata.items() if value}
        turn = Turn(
            id=build_stable_id(self._form, self._state.id, source_id),
            session=self._state.id,
            position=len(self._turns),
            role=role,
            content=text,
            at=self.last,
            speaker=clean_text(speaker).strip()[:LONGEST_NAME],
            tool_calls=tuple(tool_calls),
            tool_call_id=clean_text(tool_call_id)[:LONGEST_NAME],
            metadata=add_source_id(storable, source_id),
            scope=self._state.scope,
        )
        try:
            self._turns.append(validate_turn(turn))
        except InvalidInput as error:
            self.leave_out("turn", notes.get_skip_reason(error), str(error))

    def leave_out(self, what: What, why: Reason, detail: str = "") -> None:
        """Note something that is left out."""
        self._left_out[what, why, detail] += 1

    def leave_out_file(self) -> None:
        """Leave out a file that is not in the export; its name stays in the text."""
        self.leave_out("attachment", "unsupported", "a file: the export names it, and that is kept")

    def items(self) -> Iterator[Item]:
        """Yield the turns in pieces, then what is left out."""
        if not self._turns and not self._left_out:
            self.leave_out("session", "empty")
        for start in range(0, len(self._turns), PIECE):
            piece = tuple(self._turns[start : start + PIECE])
            yield FoundTurns(place=self._place, state=self._state, turns=piece, form=self._form)
        for (what, why, detail), count in self._left_out.items():
            yield Skipped(what=what, place=self._place, why=why, detail=detail, count=count)


class SourceIds:
    """Ids of turns within their sessions; a turn without an id gets one derived from its content."""

    def __init__(self) -> None:
        self._seen = Counter[tuple[str, str]]()

    def assign(self, session: str, given: str, *parts: str) -> str:
        """Return the id of a turn; number those that occur again.

        Args:
            given: The id that the other program gave; empty for none.
            parts: What tells a turn without an id from others.
        """
        source_id = given or hash_texts(*parts)
        self._seen[session, source_id] += 1
        number = self._seen[session, source_id]
        return f"{source_id}:{number}" if number > 1 else source_id


ConversationParser = Callable[[Mapping[str, Any], ImportTerms, str], Iterator[Item]]
"""Yields the turns of one JSON object; its arguments are the object, the terms and the place."""


def read_elements(
    file: safe_reading.Readable, terms: ImportTerms, name: str, *, parse: ConversationParser
) -> Iterator[Item]:
    """Yield the conversations of a JSON list, or of one JSON object.

    Raises:
        InvalidInput: the rest of it cannot be read.
    """
    for number, text in enumerate(safe_reading.iter_elements(file), start=1):
        place = f"{name}, conversation {number}"
        try:
            yield from parse(safe_reading.parse_json_object(text), terms, place)
        except InvalidInput as error:
            yield notes.skip("session", place, error)


def mark_sender(terms: ImportTerms) -> dict[str, str]:
    """Return the metadata of a message that somebody else may have written."""
    return {} if terms.trusted else {ORIGIN: terms.foreign_origin}


def build_tool_call(id: str, name: str, arguments: str) -> ToolCall:
    """Return a tool call whose name and id can be stored."""
    return ToolCall(
        id=clean_text(id).strip()[:LONGEST_NAME] or "call",
        name=clean_text(name).strip()[:LONGEST_NAME] or "tool",
        arguments=to_storable(arguments),
    )
