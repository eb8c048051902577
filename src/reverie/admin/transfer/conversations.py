"""Reader of conversation files: messages as JSON.

Every error names the file and the place in it.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.items import SOURCE_ID
from reverie.domain.conversation import LONGEST_NAME, LONGEST_TURN, ROLES, ToolCall
from reverie.domain.errors import InvalidInput
from reverie.domain.text import timestamps
from reverie.domain.text.validation import validate_raw_text, validate_text

BATCH = 1_000
"""Most turns of JSON lines in one piece, so that a long file needs little memory."""

_ROLES = {role: role for role in ROLES} | {
    "human": "user", "ai": "assistant", "model": "assistant", "bot": "assistant",
    "developer": "system", "function": "tool",
}  # fmt: skip
_TIME_KEYS = ("timestamp", "at", "created_at", "time")
_SESSION_KEYS = ("session", "session_id", "conversation")
_CONVERSATION_KEYS = (*_SESSION_KEYS, "conversation_id", "id")
_SPEAKER_KEYS = ("speaker", "name")
_PEEKED = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedConversation:
    """Consecutive turns of one session.

    A long session, or one that alternates with others in the file, comes in several pieces, in order.

    Attributes:
        session: The session's id.
        turns: Arguments of `Session.add_many`: `role`, `content`, and if the file has them `speaker`, `at`,
            `tool_calls`, `tool_call_id` and `metadata`.
        begun: When the conversation began, if the file says so.
    """

    session: str
    turns: list[dict[str, Any]]
    begun: datetime | None = None


def read_conversations(path: str | Path) -> Iterator[ImportedConversation]:
    """Yield the conversations of a file in the file's order.

    The file has JSON lines, a JSON list or one JSON value. Each value is a message, a list
    of messages, or an object with a list of `messages`, and optionally with `session` (or `id`) and a time. A
    message is an object with `role` and `content` (text, or a list of parts as OpenAI and Anthropic have them).
    Optional keys are `timestamp` (or `at`, `created_at`, `time`: ISO 8601, or seconds or milliseconds since
    1970), `session` (or `session_id`, `conversation`), `speaker` (or `name`), `id`, `tool_calls` and
    `tool_call_id`. Messages without a session belong to `import:` and the file's name. An empty message that
    calls no tool is left out.

    The file is read as it is consumed: a fault in line 900 is raised after the first turns were yielded.

    Raises:
        InvalidInput: the file is missing or invalid; the message names the place.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "chat.jsonl")
        >>> _ = file.write_text('{"role": "user", "content": "hello", "session": "cli:1"}')
        >>> for piece in read_conversations(file):
        ...     piece.session, piece.turns
        ('cli:1', [{'role': 'user', 'content': 'hello'}])
    """
    file = Path(path).expanduser()
    yield from _read_messages(file)


# -- messages ----------------------------------------------------------------------------------------


def _read_messages(path: Path) -> Iterator[ImportedConversation]:
    default, unnamed = f"import:{path.stem}", 0
    session, turns = default, list[dict[str, Any]]()
    for place, value in _iter_values(path):
        messages = _get_messages(value, place)
        name = "" if messages is not None else _read_first(value, _SESSION_KEYS, place, default)
        if turns and (name != session or len(turns) >= BATCH):
            yield ImportedConversation(session=session, turns=turns)
            turns = []
        if messages is None:
            session = name
            turns += parse_turns(value, place)
            continue
        about = value if isinstance(value, dict) else {}
        unnamed += 1
        yield ImportedConversation(
            session=_read_first(about, _CONVERSATION_KEYS, place, "")
            or (default if unnamed == 1 else f"{default}:{unnamed}"),
            turns=[
                turn
                for number, message in enumerate(messages, start=1)
                for turn in parse_turns(message, f"{place}, message {number}")
            ],
            begun=_parse_time(about, place),
        )
    if turns:
        yield ImportedConversation(session=session, turns=turns)


def _get_messages(value: Any, place: str) -> list[Any] | None:
    """Return the messages of a conversation; None for a message."""
    if isinstance(value, list):
        return value
    messages = _validate_object(value, place).get("messages")
    return messages if isinstance(messages, list) and "role" not in value else None


def _iter_values(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the JSON value of each line, the items of a list, or the one value of a file, with its place."""
    with safe_reading.open_file(path) as file:
        by_line = _has_value_per_line(file)
        file.seek(0)
        if by_line:
            for number, line in safe_reading.iter_lines(file):
                yield _parse_value(line, f"{path}, line {number}")
            return
        is_list = file.read(_PEEKED).removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"[")
        file.seek(0)
        for number, text in enumerate(safe_reading.iter_elements(file), start=1):
            yield _parse_value(text, f"{path}, item {number}" if is_list else str(path))


def _has_value_per_line(file: BinaryIO) -> bool:
    """Whether the first line is a JSON value, and not the only line, which may be a list of values."""
    lines = safe_reading.iter_lines(file)
    _, first = next(lines, (0, None))
    if first is None:
        return True
    try:
        return not isinstance(safe_reading.parse_json(first), list) or next(lines, None) is not None
    except InvalidInput:
        return False


def _parse_value(text: str | bytes | None, place: str) -> tuple[str, Any]:
    if text is None:
        raise InvalidInput(f"{place}: it has over {safe_reading.LONGEST_LINE:,} bytes")
    try:
        return place, safe_reading.parse_json(text)
    except InvalidInput as error:
        raise InvalidInput(f"{place}: {error}") from None


def parse_turns(message: Any, place: str) -> list[dict[str, Any]]:
    """Return the turns of a message: one, and one for each tool result among its parts.

    Args:
        message: An object with the keys that `read_conversations` names.
        place: The place that errors name.

    Returns:
        Arguments of `Session.add_many`; none for an empty message that calls no tool.

    Raises:
        InvalidInput: it is not a message.
    """
    role = _validate_object(message, place).get("role")
    if not isinstance(role, str) or role.lower() not in _ROLES:
        raise InvalidInput(f"{place}: role is {role!r}: use one of {', '.join(ROLES)}")
    role = _ROLES[role.lower()]
    content, calls, results = _parse_content(message.get("content"), place)
    calls += _parse_tool_calls(message.get("tool_calls"), place)
    tool_call_id = _read_first(message, ("tool_call_id",), place, "")
    if calls and role != "assistant":
        raise InvalidInput(
            f"{place}: role is {role!r} and there are tool calls: only an assistant calls tools"
        )
    if tool_call_id and role != "tool":
        raise InvalidInput(
            f"{place}: role is {role!r} and there is a tool_call_id: only a tool's message has one"
        )
    extra: dict[str, Any] = {}
    if (at := _parse_time(message, place)) is not None:
        extra["at"] = at
    if speaker := _read_first(message, _SPEAKER_KEYS, place, ""):
        extra["speaker"] = speaker
    if source_id := _read_first(message, ("id",), place, ""):
        extra["metadata"] = {SOURCE_ID: source_id}
    turns: list[dict[str, Any]] = [
        {"role": "tool", "content": _validate_content(text, place), "tool_call_id": call} | extra
        for call, text in results
        if text.strip()
    ]
    if not content.strip() and not calls:
        return turns
    turn: dict[str, Any] = {"role": role, "content": _validate_content(content, place)} | extra
    if calls:
        turn["tool_calls"] = tuple(calls)
    if tool_call_id:
        turn["tool_call_id"] = tool_call_id
    return [*turns, turn]


def _validate_object(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{place}: {type(value).__name__} instead of an object with 'role' and 'content'")
    return value


def _validate_content(content: str, place: str) -> str:
    return validate_raw_text(content, name=f"{place}: content", longest=LONGEST_TURN, empty=True)


def _parse_content(value: Any, place: str) -> tuple[str, list[ToolCall], list[tuple[str, str]]]:
    """Return the text, the tool calls and the tool results of a message's content."""
    if value is None or isinstance(value, str):
        return value or "", [], []
    if not isinstance(value, list):
        raise InvalidInput(f"{place}: content is {type(value).__name__}: pass text or a list of parts")
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[tuple[str, str]] = []
    for part in value:
        if isinstance(part, str):
            texts.append(part)
            continue
        if not isinstance(part, dict):
            raise InvalidInput(f"{place}: a part of content is {type(part).__name__}: pass text or objects")
        kind = str(part.get("type", "text"))
        if kind == "tool_use":
            arguments = json.dumps(part.get("input") or {}, ensure_ascii=False)
            calls.append(ToolCall(id=str(part.get("id")), name=str(part.get("name")), arguments=arguments))
        elif kind == "tool_result":
            results.append((str(part.get("tool_use_id", "")), _parse_content(part.get("content"), place)[0]))
        elif isinstance(text := part.get("text"), str):
            texts.append(text)
        elif kind not in ("thinking", "redacted_thinking"):
            texts.append(f"[{kind}]")
    return "\n".join(texts), calls, results


def _parse_tool_calls(value: Any, place: str) -> list[ToolCall]:
    """Return tool calls given as OpenAI has them, or flat as `{id, name, arguments}`."""
    if value in (None, []):
        return []
    if not isinstance(value, list) or not all(isinstance(call, dict) for call in value):
        raise InvalidInput(f"{place}: tool_calls is no list of objects")
    calls = []
    for call in value:
        function = call.get("function", call)
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(name, str) or not call.get("id"):
            raise InvalidInput(f"{place}: a tool call has no id or no function name")
        arguments = function.get("arguments", "{}")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        calls.append(ToolCall(id=str(call["id"]), name=name, arguments=text))
    return calls


def _read_first(message: Mapping[str, Any], keys: tuple[str, ...], place: str, default: str) -> str:
    for key in keys:
        value = message.get(key)
        if value in (None, ""):
            continue
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise InvalidInput(f"{place}: {key} is {type(value).__name__}: pass text")
        return validate_text(str(value), name=f"{place}: {key}", longest=LONGEST_NAME)
    return default


def _parse_time(message: Mapping[str, Any], place: str) -> datetime | None:
    for key in _TIME_KEYS:
        value = message.get(key)
        if value in (None, ""):
            continue
        if isinstance(value, str):
            return timestamps.parse_time(value, name=f"{place}: {key}")
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _parse_epoch(value, f"{place}: {key}")
        raise InvalidInput(f"{place}: {key} is {value!r}: pass ISO 8601 text, or seconds since 1970")
    return None


def _parse_epoch(value: float, name: str) -> datetime:
    # No chat was held after the year 5138, so a number as large as that counts milliseconds.
    seconds = value / 1000 if abs(value) >= 1e11 else value
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        raise InvalidInput(f"{name} is {value!r}: no number of seconds since 1970") from None
