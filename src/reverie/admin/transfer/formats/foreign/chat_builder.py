"""Conversion of another program's messages into turns with stable ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from reverie.admin.transfer.formats import notes
from reverie.admin.transfer.formats.foreign.fields import to_storable
from reverie.admin.transfer.formats.native.jsonl import PIECE
from reverie.admin.transfer.items import (
    FoundTurns,
    Item,
    Reason,
    Skipped,
    What,
    add_source_id,
    build_stable_id,
)
from reverie.domain.conversation import (
    LONGEST_NAME,
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
    """Builder of one conversation."""

    def __init__(
        self,
        session: str,
        *,
        form: str,
        place: str,
        begun: datetime,
        scope: str,
        metadata: Mapping[str, str],
        status: SessionStatus = "active",
    ) -> None:
        """Begin a conversation.

        Args:
            session: The id of the session.
            scope: The scope of what is imported.
            metadata: Metadata; empty values are left out.

        Raises:
            InvalidInput: it is not a valid session.
        """
        self._form = form
        self._place = place
        self._turns: list[Turn] = []
        self._left_out = Counter[tuple[What, Reason, str]]()
        self._last = begun
        storable = {name: to_storable(text) for name, text in metadata.items() if text}
        self._state = validate_session(
            SessionState(
                id=session, created_at=begun, scope=scope, status=status, metadata=MappingProxyType(storable)
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
        self._last = at or self._last
        storable = {name: to_storable(value) for name, value in metadata.items() if value}
        turn = Turn(
            id=build_stable_id(self._form, self._state.id, source_id),
            session=self._state.id,
            position=len(self._turns),
            role=role,
            content=text,
            at=self._last,
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

    def items(self) -> Iterator[Item]:
        """Yield the turns in pieces, then what is left out."""
        if not self._turns and not self._left_out:
            self.leave_out("session", "empty")
        for start in range(0, len(self._turns), PIECE):
            piece = tuple(self._turns[start : start + PIECE])
            yield FoundTurns(place=self._place, state=self._state, turns=piece, form=self._form)
        for (what, why, detail), count in self._left_out.items():
            yield Skipped(what=what, place=self._place, why=why, detail=detail, count=count)


def build_tool_call(id: str, name: str, arguments: str) -> ToolCall:
    """Return a tool call whose name and id can be stored."""
    return ToolCall(
        id=clean_text(id).strip()[:LONGEST_NAME] or "call",
        name=clean_text(name).strip()[:LONGEST_NAME] or "tool",
        arguments=to_storable(arguments),
    )
