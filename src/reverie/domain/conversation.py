"""Turns of a conversation, and the state of its session."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

from reverie.domain.errors import InvalidInput, quote_value
from reverie.domain.lazy_dataclass import dataclass, field, replace
from reverie.domain.record import NOTHING, UNTRUSTED, Origin, freeze_metadata, validate_choice
from reverie.domain.scope import validate_scope
from reverie.domain.text import ids, timestamps
from reverie.domain.text.json_values import JsonObject, from_json_object
from reverie.domain.text.validation import (
    clean_text,
    to_storable,
    validate_count,
    validate_raw_text,
    validate_text,
    validate_values,
)

Role = Literal["user", "assistant", "system", "tool"]
SessionStatus = Literal["active", "paused", "terminated"]

ROLES: tuple[Role, ...] = get_args(Role)
SESSION_STATUSES: tuple[SessionStatus, ...] = get_args(SessionStatus)

LONGEST_TURN = 2_000_000
LONGEST_NAME = 200

SIGNAL = "signal"
"""Metadata of a turn: how background thinking should treat it."""

SIGNAL_NOTE = "signal_note"

SAVED = "saved"
"""Metadata of a turn whose whole text was saved as a record, so that no part of it is learned once more."""

CLEANED = "cleaned"
"""Metadata of a turn: what was changed in its content so that it could be stored."""

ITEMS_FROM = "items_from"
"""Metadata of a session: the position from which its turns are items of a framework."""

ORIGIN = "origin"
"""Metadata of a turn that is based on a less trusted source than its speaker: `tool`, `web` or `import`."""

UNCONFIRMED = "unconfirmed"
"""Metadata of a prompt that its agent's transcript does not have yet. Until then its origin is `tool`."""

FORGOTTEN = "[forgotten]"
"""Content of a turn that was erased while its session stays."""

OFF_RECORD = "off_record"
"""Metadata of a session of which the present exchange (`skip`) or every exchange (`pause`) is not stored."""

WishName = Literal["remember", "forget", "skip", "pause", "resume"]

_GIVEN = frozenset({"role", "content", "speaker", "at", "tool_calls", "tool_call_id", "metadata"})


class Wish(NamedTuple):
    """Wish that a message has of the memory.

    Attributes:
        name: `remember` a statement, propose to `forget` a subject, `skip` this message, `pause` the recording of the
            conversation or `resume` it.
        text: The statement or the subject; empty if it is the message before.
    """

    name: WishName
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a tool that an assistant turn asks for.

    Attributes:
        id: The provider's name of the call, which the tool's turn repeats.
        name: The tool's name.
        arguments: Its arguments as JSON text.
    """

    id: str
    name: str
    arguments: str = "{}"

    def to_message_item(self) -> dict[str, Any]:
        """Return the call as messages of chat APIs have it."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(JsonObject):
    """One message of a conversation.

    Attributes:
        id: 12 lower-case hexadecimal characters.
        session: The id of the session it belongs to.
        position: Its place in the session, counted from 0 without gaps.
        role: `user`, `assistant`, `system` or `tool`.
        content: The text; may be empty only beside tool calls and in a tool's turn.
        speaker: Name of the speaker, where the role is not enough; may be empty.
        at: When it was said.
        tool_calls: Tool calls of an assistant's turn.
        tool_call_id: The call that a tool's turn answers; empty otherwise.
        metadata: Text to text, for the caller's own use.
        scope: Owner of the memory; the same as the session's.
    """

    id: str
    session: str
    position: int
    role: Role
    content: str
    at: datetime
    speaker: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    metadata: Mapping[str, str] = field(default_factory=lambda: NOTHING, hash=False)
    scope: str = ""

    @property
    def origin(self) -> Origin:
        """Least trusted source: that of the role or of the metadata `origin`, whichever is trusted less."""
        own: Origin = "tool" if self.role == "tool" else "owner" if self.role == "user" else "agent"
        marked = self.metadata.get(ORIGIN)
        return next((origin for origin in UNTRUSTED if origin == marked), own)

    def to_searchable_text(self) -> str:
        """Return the text that is searched: the content, and the names of the tools called."""
        return "\n".join((self.content, *(call.name for call in self.tool_calls)))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Turn:
        """Read what `to_dict` wrote, checking every field.

        Raises:
            InvalidInput: a field is missing or not of its form.
        """
        return validate_turn(from_json_object(cls, data))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState(JsonObject):
    """State of a session, apart from its turns.

    Attributes:
        id: `{channel}:{chat}`, or any non-empty text.
        created_at: When it began.
        status: `active`, `paused` or `terminated`.
        scope: Owner of the memory; empty for everybody.
        window_start: The position of the first turn in the window. Earlier turns stay stored and searchable.
        summary: Summary of the turns before the window; empty for none.
        metadata: Text to text, for the caller's own use.
    """

    id: str
    created_at: datetime
    status: SessionStatus = "active"
    scope: str = ""
    window_start: int = 0
    summary: str = ""
    metadata: Mapping[str, str] = field(default_factory=lambda: NOTHING, hash=False)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SessionState:
        """Read what `to_dict` wrote, checking every field.

        Raises:
            InvalidInput: a field is missing or not of its form.
        """
        return validate_session(from_json_object(cls, data))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOverview:
    """A session in a list.

    Attributes:
        state: Its state.
        turns: Number of turns.
        last_at: Time of the last turn; the beginning of the session if it has none.
    """

    state: SessionState
    turns: int
    last_at: datetime


def draft_turn(given: Mapping[str, Any], *, session: str, now: datetime) -> Turn:
    """Return the turn that a mapping describes, with a placeholder for its id and position.

    NUL and lone surrogates become spaces, and a content that is too long is cut; the metadata say so as `cleaned`.

    Args:
        given: `role`, `content` and any other argument of `Session.add`.
        session: The id of its session.
        now: Its time if the mapping has none.

    Raises:
        InvalidInput: a field is missing, unknown or not of its form.
    """
    if not isinstance(given, Mapping):
        raise InvalidInput(f"a turn is {type(given).__name__}: pass a mapping with role and content")
    if unknown := sorted(map(quote_value, set(given) - _GIVEN)):
        raise InvalidInput(f"unknown field of a turn: {', '.join(unknown)}: use {', '.join(sorted(_GIVEN))}")
    if missing := sorted({"role", "content"} - set(given)):
        raise InvalidInput(f"missing field of a turn: {missing!r}")
    at, calls = given.get("at"), given.get("tool_calls")
    calls = () if calls is None else validate_values(calls, name="tool_calls", of="calls")
    content, cleaned = clean_content(given["content"])
    metadata = freeze_metadata(NOTHING if given.get("metadata") is None else given["metadata"])
    metadata = freeze_metadata({_clean_name(key): clean_content(each)[0] for key, each in metadata.items()})
    if cleaned:
        metadata = freeze_metadata({**metadata, CLEANED: cleaned})
    return validate_turn(
        Turn(
            id="0" * 12,
            session=session,
            position=0,
            role=given["role"],
            content=content,
            at=now if at is None else timestamps.to_utc(at, name="at"),
            speaker=_clean_name(given.get("speaker")),
            tool_calls=tuple(map(_parse_tool_call, calls)),
            tool_call_id=_clean_name(given.get("tool_call_id")),
            metadata=metadata,
        )
    )


def clean_content(text: Any) -> tuple[Any, str]:
    """Return a content as it can be stored, and what was changed for that; empty if nothing was."""
    if not isinstance(text, str):
        return text, ""
    stored = to_storable(text[:LONGEST_TURN])
    changes = []
    if stored is not text and (count := sum(map(str.__ne__, stored, text))):
        changes.append(f"{count} characters replaced by spaces")
    if len(text) > LONGEST_TURN:
        changes.append(f"cut to {LONGEST_TURN:,} of {len(text):,} characters")
    return stored, ", ".join(changes)


def _clean_name(text: Any) -> Any:
    return clean_text(text) if isinstance(text, str) else text or ""


def set_origin(turn: Turn, origin: Origin) -> Turn:
    """Return the turn with an origin in its metadata."""
    return replace(turn, metadata=MappingProxyType({**turn.metadata, ORIGIN: origin}))


def set_signal(turn: Turn, signal: str, *, note: str = "") -> Turn:
    """Return the turn with a signal in its metadata in place of an earlier one."""
    metadata = {name: text for name, text in turn.metadata.items() if name not in {SIGNAL, SIGNAL_NOTE}}
    metadata |= {SIGNAL: signal} | ({SIGNAL_NOTE: note} if note else {})
    return replace(turn, metadata=MappingProxyType(metadata))


def validate_turn(turn: Turn) -> Turn:
    """Return the turn; raise `InvalidInput` where a field is not valid."""
    ids.validate_id(turn.id)
    validate_session_id(turn.session)
    validate_choice(turn.role, ROLES, name="role")
    validate_count(turn.position, name="position", least=0)
    validate_raw_text(turn.content, name="content", longest=LONGEST_TURN, empty=True)
    validate_text(turn.speaker, name="speaker", longest=LONGEST_NAME, empty=True)
    validate_text(turn.tool_call_id, name="tool_call_id", longest=LONGEST_NAME, empty=True)
    if turn.tool_calls and turn.role != "assistant":
        raise InvalidInput(f"role is {turn.role!r} and there are tool calls: only an assistant calls tools")
    if turn.tool_call_id and turn.role != "tool":
        raise InvalidInput(f"role is {turn.role!r} and there is a tool_call_id: only a tool's turn has one")
    for call in turn.tool_calls:
        validate_text(call.id, name="tool call id", longest=LONGEST_NAME)
        validate_text(call.name, name="tool name", longest=LONGEST_NAME)
        validate_raw_text(call.arguments, name="tool arguments", longest=LONGEST_TURN, empty=True)
    validate_scope(turn.scope)
    timestamps.to_utc(turn.at, name="at")
    _validate_metadata(turn.metadata)
    return turn


def validate_session(state: SessionState) -> SessionState:
    """Return the state; raise `InvalidInput` where a field is not valid."""
    validate_session_id(state.id)
    validate_choice(state.status, SESSION_STATUSES, name="status")
    validate_scope(state.scope)
    validate_raw_text(state.summary, name="summary", longest=LONGEST_TURN, empty=True)
    validate_count(state.window_start, name="window_start", least=0)
    timestamps.to_utc(state.created_at, name="created_at")
    _validate_metadata(state.metadata)
    return state


def validate_session_id(text: object) -> str:
    """Return `text` if it can name a session: 1 to 200 characters, such as `telegram:12345`.

    Raises:
        InvalidInput: it cannot.
    """
    return validate_text(text, name="session", longest=LONGEST_NAME)


def _validate_metadata(metadata: Mapping[str, str]) -> None:
    for key, text in metadata.items():
        validate_text(key, name="metadata key", longest=LONGEST_NAME)
        validate_raw_text(text, name=f"metadata {key!r}", longest=LONGEST_TURN, empty=True)


def _parse_tool_call(call: ToolCall | Mapping[str, Any]) -> ToolCall:
    """Return the call, also from the form of chat APIs; arguments that are not text are converted to JSON."""
    if isinstance(call, ToolCall):
        call = {"id": call.id, "name": call.name, "arguments": call.arguments}
    if not isinstance(call, Mapping):
        raise InvalidInput(f"a tool call is {type(call).__name__}: pass a ToolCall or a mapping")
    inner = call.get("function")
    fields = inner if isinstance(inner, Mapping) else call
    arguments = fields.get("arguments")
    if arguments is None:
        arguments = "{}"
    elif not isinstance(arguments, str):
        try:
            arguments = json.dumps(arguments, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"the arguments of a tool call are no JSON: {error}") from None
    return ToolCall(
        id=_clean_name(call.get("id")), name=_clean_name(fields.get("name")), arguments=to_storable(arguments)
    )
