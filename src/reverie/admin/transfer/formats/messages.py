"""Reader of messages as JSON, and of the session files of golemcore and Autobot.

A file of messages has JSON lines, a JSON list or one JSON value. Each value is a message, a list of messages, or an
object with a list of `messages`, and optionally with `session` (or `id`) and a time. A message is an object with
`role` and `content` (text, or parts as OpenAI, Anthropic and Google have them). Optional keys are `timestamp` (or
`at`, `created_at`, `time`: ISO 8601, or seconds or milliseconds since 1970), `session` (or `session_id`,
`conversation`), `speaker` (or `name`), `id`, `tool_calls` and `tool_call_id`. Messages without a session belong to
`import:` and the file's name.

Autobot writes `sessions/{channel}_{chat}.jsonl`: a line of metadata, then a message a line. golemcore writes
`sessions/{channel}:{chat}.json`: an object with `messages`. The conversation continues under its old name.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from reverie.admin.transfer.batch import SOURCE_ID, Form, ImportTerms, Item, Skipped, hash_texts
from reverie.admin.transfer.formats.foreign import (
    ConversationBuilder,
    ForeignFields,
    build_tool_call,
    filter_objects,
    parse_moment,
    skip,
    to_storable,
)
from reverie.admin.transfer.safe_reading import SourceFile
from reverie.domain.conversation import LONGEST_NAME, ORIGIN, ROLES, SESSION_STATUSES, Role, ToolCall
from reverie.domain.errors import InvalidInput, quote_value
from reverie.domain.provenance import is_typed
from reverie.domain.text.json_values import describe_type

BATCH = 1_000
"""Most messages in one piece, so that a long file needs little memory."""

_ROLES: Mapping[str, Role] = {role: role for role in ROLES} | {
    "human": "user", "ai": "assistant", "model": "assistant", "bot": "assistant",
    "developer": "system", "function": "tool",
}  # fmt: skip
_TIMES = ("timestamp", "at", "created_at", "time")
_SESSIONS = ("session", "session_id", "conversation")
_CONVERSATIONS = (*_SESSIONS, "conversation_id", "id")
_SAYS = {"role", "content", "parts"}
_REASONING = {"thinking", "redacted_thinking"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedConversation:
    """Consecutive turns of one session.

    A long session, or one that alternates with others in the file, comes in several pieces, in order.

    Attributes:
        session: The session's id.
        turns: Arguments of `Session.add_many`: `role`, `content`, and if the file has them `speaker`, `at`,
            `tool_calls`, `tool_call_id` and `metadata`.
        about: The fields of the conversation's object; empty for messages outside of one.
        is_whole: Whether the turns are all of the conversation.
    """

    session: str
    turns: list[dict[str, Any]]
    about: Mapping[str, Any] = field(default_factory=dict)
    is_whole: bool = False


class Messages:
    """The format of messages as JSON."""

    form: Form = "messages"

    def recognises(self, value: object) -> bool:
        """Return whether a value is a message, a list of messages, or an object with such a list."""
        if isinstance(value, list):
            return any(isinstance(each, dict) and "role" in each for each in value)
        if not isinstance(value, dict):
            return False
        return isinstance(value.get("messages"), list) or "role" in value

    def read(self, file: SourceFile, terms: ImportTerms) -> Iterator[Item]:
        """Yield the conversations of a file, and the messages that are left out."""
        yield from _read(file, terms, self.form, f"import:{PurePosixPath(file.name).stem}")


def read_session(file: SourceFile, terms: ImportTerms) -> Iterator[Item]:
    """Yield the session of a file of golemcore or Autobot."""
    stem = PurePosixPath(file.name).stem
    # The first `_` of a file's name represents the `:` between channel and chat.
    session = stem if ":" in stem else stem.replace("_", ":", 1)
    yield from _read(file, terms, "sessions", session, is_session=True)


def read_conversations(path: Path) -> Iterator[ImportedConversation]:
    """Yield the conversations of a file in the file's order.

    Raises:
        InvalidInput: the file is missing, or something in it is invalid; the message names the place.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "chat.jsonl")
        >>> _ = file.write_text('{"role": "user", "content": "hello", "session": "cli:1"}')
        >>> for piece in read_conversations(file):
        ...     piece.session, piece.turns
        ('cli:1', [{'role': 'user', 'content': 'hello'}])
    """
    for piece in _iter_pieces(SourceFile(path.name, str(path), path), f"import:{path.stem}"):
        if isinstance(piece, ImportedConversation):
            yield piece
        elif piece.why != "empty":
            raise InvalidInput(f"{piece.place}: {piece.detail}")


def _read(
    file: SourceFile, terms: ImportTerms, form: str, default: str, *, is_session: bool = False
) -> Iterator[Item]:
    seen = Counter[tuple[str, str]]()
    last: dict[str, datetime] = {}
    last_ids: dict[str, str | None] = {}
    for piece in _iter_pieces(file, default, is_session=is_session):
        if isinstance(piece, Skipped):
            yield piece
            continue
        about = ForeignFields(piece.about)
        status = about.text("state", "status").lower()
        given = {**about.texts("metadata"), "imported_from": file.place[:200]} if is_session else {}
        has_ids = all(SOURCE_ID in turn.get("metadata", {}) for turn in piece.turns)
        times = [last.get(piece.session), about.moment(*_TIMES), *(turn.get("at") for turn in piece.turns)]
        try:
            chat = ConversationBuilder(
                piece.session,
                form=form,
                place=file.place,
                terms=terms,
                times=times,
                metadata=given,
                status=next((each for each in SESSION_STATUSES if is_session and each == status), "active"),
                after=last_ids.get(piece.session, "") if has_ids else None,
                is_whole=piece.is_whole,
            )
        except InvalidInput as error:
            yield skip("session", file.place, error)
            continue
        for turn in piece.turns:
            at = turn["at"].isoformat() if "at" in turn else ""
            parts = (
                turn["role"],
                at,
                turn.get("speaker", ""),
                turn["content"],
                str(turn.get("tool_call_id")),
            )
            metadata = {**turn.pop("metadata", {})}
            name = metadata.pop(SOURCE_ID, "") or hash_texts(*parts)
            seen[piece.session, name] += 1
            number = seen[piece.session, name]
            chat.add(f"{name}:{number}" if number > 1 else name, metadata=metadata, **turn)
        last[piece.session], last_ids[piece.session] = chat.last, chat.last_id
        yield from chat.items()


def _iter_pieces(
    file: SourceFile, default: str, *, is_session: bool = False
) -> Iterator[ImportedConversation | Skipped]:
    """Yield the conversations of a file and what is left out of them, in the file's order.

    Args:
        default: The session of messages that name none.
        is_session: Whether the file is one session, which a line without a message describes.
    """
    session, turns, unnamed, whole = default, list[dict[str, Any]](), 0, set[str]()
    about: Mapping[str, Any] = {}
    for place, value in file.values():
        messages = _get_messages(value)
        if is_session and messages is None and isinstance(value, dict) and "role" not in value and not turns:
            about = value
            session = ForeignFields(value).label("id", "key") or default
            continue
        if messages is None:
            named = value if isinstance(value, dict) and not is_session else {}
            name = session if is_session else ForeignFields(named).label(*_SESSIONS) or default
            if turns and (name != session or len(turns) >= BATCH):
                yield ImportedConversation(session=session, turns=turns, about=about)
                turns = []
            session = name
            yield from _collect_turns(value, place, turns)
            continue
        if turns:
            yield ImportedConversation(session=session, turns=turns, about=about)
            turns = []
        own = value if isinstance(value, dict) else {}
        unnamed += 1
        name = ForeignFields(own).label(*(("id", "key") if is_session else _CONVERSATIONS))
        said: list[dict[str, Any]] = []
        for number, message in enumerate(messages, start=1):
            yield from _collect_turns(message, f"{place}, message {number}", said)
        unnamed_name = default if unnamed == 1 else f"{default}:{unnamed}"
        yield ImportedConversation(
            session=name or unnamed_name, turns=said, about=own, is_whole=bool(name) and name not in whole
        )
        whole.add(name)
    if turns:
        yield ImportedConversation(session=session, turns=turns, about=about)


def _get_messages(value: Any) -> list[Any] | None:
    """Return the messages of a conversation; None for a message."""
    if isinstance(value, list):
        return value
    messages = value.get("messages") if isinstance(value, dict) and "role" not in value else None
    return messages if isinstance(messages, list) else None


def _collect_turns(message: Any, place: str, turns: list[dict[str, Any]]) -> Iterator[Skipped]:
    """Add the turns of a message, or yield why it has none."""
    try:
        if isinstance(message, InvalidInput):
            raise message
        if message is None or (isinstance(message, dict) and not _SAYS.intersection(message)):
            detail = "neither a message nor a conversation, such as a header"
            yield Skipped(what="line", place=place, why="unsupported", detail=detail)
            return
        found = parse_turns(message)
    except InvalidInput as error:
        yield skip("turn", place, error)
        return
    turns += found
    if not found:
        yield Skipped(what="turn", place=place, why="empty")


def parse_turns(message: Any) -> list[dict[str, Any]]:
    """Return the turns of a message: one, and one for each tool result among its parts.

    Args:
        message: An object with the keys that this module names.

    Returns:
        Arguments of `Session.add_many`; none for an empty message that calls no tool.

    Raises:
        InvalidInput: it is not a message.
    """
    if not isinstance(message, dict):
        raise InvalidInput(f"{describe_type(message)} instead of an object with 'role' and 'content'")
    fields = ForeignFields(message)
    if not fields.has("role") and fields.text("type") not in _ROLES:
        raise InvalidInput("an object without a 'role'")
    role = _ROLES.get(fields.text("role", "type").strip().lower())
    if role is None:
        raise InvalidInput(f"role is {quote_value(message.get('role'))}: use one of {', '.join(ROLES)}")
    content, calls, results = _parse_content(fields.value("content", "parts"))
    calls += _parse_tool_calls(fields.value("tool_calls"))
    extra: dict[str, Any] = {}
    if (at := next(filter(None, (parse_moment(fields.value(name)) for name in _TIMES)), None)) is not None:
        extra["at"] = at
    if speaker := fields.label("speaker", "name")[:LONGEST_NAME]:
        extra["speaker"] = speaker
    if source_id := fields.label("id", "uuid"):
        extra["metadata"] = {SOURCE_ID: source_id}
    turns: list[dict[str, Any]] = [
        {"role": "tool", "content": to_storable(text), "tool_call_id": call} | extra
        for call, text in results
        if text.strip()
    ]
    has_calls = bool(calls) and role == "assistant"
    if not content.strip() and not has_calls:
        return turns
    turn: dict[str, Any] = {"role": role, "content": to_storable(content)} | extra
    if has_calls:
        turn["tool_calls"] = tuple(calls)
    if role == "tool" and (answered := fields.label("tool_call_id")):
        turn["tool_call_id"] = answered
    if role == "user" and not is_typed(content, {**message, "role": role, "content": ""}):
        turn["metadata"] = {**turn.get("metadata", {}), ORIGIN: "tool"}
    return [*turns, turn]


def _parse_content(value: Any) -> tuple[str, list[ToolCall], list[tuple[str, str]]]:
    """Return the text, the tool calls and the tool results of a message's content."""
    if value is None or isinstance(value, str):
        return value or "", [], []
    parts = [value] if isinstance(value, dict) else value
    if not isinstance(parts, list):
        raise InvalidInput(f"content is {describe_type(value)}: it must be text or a list of parts")
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[tuple[str, str]] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        if not isinstance(part, dict):
            raise InvalidInput(f"a part of content is {describe_type(part)}: it must be text or an object")
        kind = str(part.get("type", "text"))
        if kind == "tool_use":
            arguments = json.dumps(part.get("input") or {}, ensure_ascii=False)
            calls.append(build_tool_call(str(part.get("id")), str(part.get("name")), arguments))
        elif kind == "tool_result":
            results.append((str(part.get("tool_use_id", "")), _parse_content(part.get("content"))[0]))
        elif isinstance(text := part.get("text"), str):
            texts.append(text)
        elif kind not in _REASONING:
            texts.append(f"[{kind}]")
    return "\n".join(texts), calls, results


def _parse_tool_calls(value: Any) -> list[ToolCall]:
    """Return tool calls given as OpenAI has them, or flat as `{id, name, arguments}`."""
    calls = []
    for call in filter_objects(value):
        function = call.get("function", call)
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(name, str) or not call.get("id"):
            raise InvalidInput("a tool call has no id or no function name")
        arguments = function.get("arguments", "{}")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        calls.append(build_tool_call(str(call["id"]), name, text))
    return calls
