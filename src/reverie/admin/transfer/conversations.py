"""Readers of conversation files: JSON lines with one message each, and LoCoMo files.

Every error names the file and the place in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TextIO

from reverie.admin.transfer.items import SOURCE_ID
from reverie.domain.conversation import LONGEST_NAME, LONGEST_TURN, ROLES, ToolCall
from reverie.domain.errors import InvalidInput
from reverie.domain.text import timestamps
from reverie.domain.text.tokenizer import MONTHS
from reverie.domain.text.validation import validate_raw_text, validate_text

Format = Literal["messages", "locomo"]

BATCH = 1_000
"""Most turns of JSON lines in one piece, so that a long file needs little memory."""

_ROLES = {role: role for role in ROLES} | {
    "human": "user", "ai": "assistant", "model": "assistant", "bot": "assistant",
    "developer": "system", "function": "tool",
}  # fmt: skip
_TIME_KEYS = ("timestamp", "at", "created_at", "time")
_SESSION_KEYS = ("session", "session_id", "conversation")
_SPEAKER_KEYS = ("speaker", "name")
_BETWEEN_TURNS = timedelta(seconds=10)
_SESSION_KEY = re.compile(r"session_(\d+)")
_LOCOMO_TIME = re.compile(r"(\d{1,2}):(\d{2})\s*([ap])m on (\d{1,2}) ([a-z]+),? (\d{4})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedConversation:
    """Consecutive turns of one session.

    A long session, or one that alternates with others in the file, comes in several pieces, in order.

    Attributes:
        session: The session's id.
        turns: Arguments of `Session.add_many`: `role`, `content`, and if the file has them `speaker`, `at`,
            `tool_calls`, `tool_call_id` and `metadata`.
    """

    session: str
    turns: list[dict[str, Any]]


def read_conversations(path: str | Path, *, form: Format = "messages") -> Iterator[ImportedConversation]:
    """Yield the conversations of a file in the file's order.

    In the form `messages` each line is a JSON object with `role` and `content` (text, or a list of parts as
    OpenAI and Anthropic have them). Optional keys are `timestamp` (or `at`, `created_at`, `time`: ISO 8601,
    or seconds or milliseconds since 1970), `session` (or `session_id`, `conversation`), `speaker` (or
    `name`), `id`, `tool_calls` and `tool_call_id`. Messages without a session belong to `import:` and the
    file's name. An empty message that calls no tool is left out. A LoCoMo file is a JSON list of samples;
    its sessions are named `locomo:{n}:session_{k}`, n counted from 0.

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
    if form == "messages":
        yield from _read_lines(file)
        return
    for number, sample in enumerate(load_locomo(file)):
        yield from parse_locomo_sessions(sample, number=number, file=file)


# -- JSON lines --------------------------------------------------------------------------------------


def _read_lines(path: Path) -> Iterator[ImportedConversation]:
    default = f"import:{path.stem}"
    session, turns = default, list[dict[str, Any]]()
    with _open_text(path) as lines:
        for number, line in enumerate(_iter_text_lines(lines, path), start=1):
            if not line.strip():
                continue
            place = f"{path}, line {number}"
            message = _parse_object(line, place)
            name = _read_first(message, _SESSION_KEYS, place, default)
            if turns and (name != session or len(turns) >= BATCH):
                yield ImportedConversation(session=session, turns=turns)
                turns = []
            session = name
            turns += parse_turns(message, place)
    if turns:
        yield ImportedConversation(session=session, turns=turns)


def _parse_object(line: str, place: str) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError as error:
        raise InvalidInput(f"{place}: not JSON ({error}): write one JSON object a line") from None
    if not isinstance(message, dict):
        raise InvalidInput(
            f"{place}: {type(message).__name__} instead of an object with 'role' and 'content'"
        )
    return message


def parse_turns(message: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    """Return the turns of a message: one, and one for each tool result among its parts.

    Args:
        message: An object with the keys that `read_conversations` names.
        place: The place that errors name.

    Returns:
        Arguments of `Session.add_many`; none for an empty message that calls no tool.

    Raises:
        InvalidInput: it is not a message.
    """
    role = message.get("role")
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


# -- LoCoMo ------------------------------------------------------------------------------------------


def load_locomo(path: Path) -> list[dict[str, Any]]:
    """Return the samples of a LoCoMo file, each with a `conversation`.

    Raises:
        InvalidInput: it cannot be read, or is not such a file.
    """
    with _open_text(path) as file:
        try:
            data = json.load(file)
        except UnicodeDecodeError:
            raise InvalidInput(f"{path}: not UTF-8 text") from None
        except ValueError as error:
            raise InvalidInput(f"{path}: not JSON ({error})") from None
    samples = [data] if isinstance(data, dict) else data
    if not isinstance(samples, list) or not samples:
        raise InvalidInput(f"{path}: expected a JSON list of samples, each with a 'conversation'")
    for number, sample in enumerate(samples):
        if not isinstance(sample, dict) or not isinstance(sample.get("conversation"), dict):
            raise InvalidInput(f"{path}, sample {number}: there is no 'conversation' in it")
    return samples


def parse_locomo_sessions(
    sample: Mapping[str, Any], *, number: int, file: Path
) -> list[ImportedConversation]:
    """Return the sessions of one LoCoMo sample that have turns, in their order.

    `speaker_a` is the user and `speaker_b` the assistant. A picture's caption is part of the text. The
    turns of a session are ten seconds apart, beginning at its date. A turn without text is left out.

    Args:
        sample: One of `load_locomo`.
        number: Its number in the file, from 0; part of the sessions' names.
        file: The file that errors name.
    """
    conversation = sample["conversation"]
    roles = {conversation.get("speaker_a"): "user", conversation.get("speaker_b"): "assistant"}
    numbers = sorted(int(match[1]) for key in conversation if (match := _SESSION_KEY.fullmatch(key)))
    sessions = []
    for k in numbers:
        place = f"{file}, sample {number}, session_{k}"
        messages = conversation[f"session_{k}"]
        if not isinstance(messages, list):
            raise InvalidInput(f"{place}: {type(messages).__name__} instead of a list of turns")
        began = _parse_locomo_time(conversation.get(f"session_{k}_date_time"), place)
        turns = [
            _parse_locomo_turn(message, roles, began and began + i * _BETWEEN_TURNS, f"{place}, turn {i}")
            for i, message in enumerate(messages)
        ]
        if spoken := [turn for turn in turns if turn["content"].strip()]:
            sessions.append(ImportedConversation(session=f"locomo:{number}:session_{k}", turns=spoken))
    if not sessions:
        raise InvalidInput(f"{file}, sample {number}: no 'session_1', 'session_2', … with turns in it")
    return sessions


def _parse_locomo_turn(
    message: Any, roles: Mapping[str | None, str], at: datetime | None, place: str
) -> dict[str, Any]:
    if not isinstance(message, dict) or not all(
        isinstance(message.get(key), str) for key in ("speaker", "dia_id", "text")
    ):
        raise InvalidInput(f"{place}: it needs the texts 'speaker', 'dia_id' and 'text'")
    speaker = message["speaker"]
    if speaker not in roles:
        raise InvalidInput(f"{place}: {speaker!r} is neither 'speaker_a' nor 'speaker_b'")
    caption = message.get("blip_caption")
    shared = f"[shares a picture: {caption}]" if caption else ""
    turn = {
        "role": roles[speaker],
        "content": _validate_content(" ".join(part for part in (message["text"], shared) if part), place),
        "speaker": speaker,
        "metadata": {SOURCE_ID: message["dia_id"]},
    }
    return turn if at is None else turn | {"at": at}


def _parse_locomo_time(text: Any, place: str) -> datetime | None:
    """Parse `1:56 pm on 8 May, 2023`; return None for None. The month names of strptime follow the locale."""
    if text is None:
        return None
    match = _LOCOMO_TIME.fullmatch(str(text).strip().lower())
    if match and match[5] in MONTHS:
        hour = int(match[1]) % 12 + (12 if match[3] == "p" else 0)
        month = MONTHS.index(match[5]) + 1
        try:
            return datetime(int(match[6]), month, int(match[4]), hour, int(match[2]), tzinfo=UTC)
        except ValueError:
            pass
    raise InvalidInput(f"{place}: the date is {text!r}: expected one such as '1:56 pm on 8 May, 2023'")


# -- the file ----------------------------------------------------------------------------------------


def _open_text(path: Path) -> TextIO:
    try:
        return path.open(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror})") from None


def _iter_text_lines(file: TextIO, path: Path) -> Iterator[str]:
    try:
        yield from file
    except UnicodeDecodeError:
        raise InvalidInput(f"{path}: not UTF-8 text: save it as UTF-8") from None
