"""Events of an agent, its transcript, and the marks around the context that hooks return."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from reverie.admin.transfer.transcripts import TranscriptMessage, get_own_tool, parse_line, remove_context
from reverie.domain import provenance
from reverie.domain.errors import InvalidInput
from reverie.domain.text import validation


def mark_context(text: str) -> str:
    """Return a context between marks that are made of the text, so that nothing in it can contain them.

    >>> print(mark_context("# Memory"))
    [reverie context 74052e9ac3c2]
    # Memory
    [end of reverie context 74052e9ac3c2]
    """
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
    return f"[reverie context {mark}]\n{text}\n[end of reverie context {mark}]"


MARKS_LENGTH = len(mark_context(""))
"""Characters that the marks add to a context."""


# -- events ---------------------------------------------------------------------------------------


EVENTS: Mapping[str, str] = {
    "session-start": "SessionStart",
    "user-prompt": "UserPromptSubmit",
    "stop": "Stop",
    "tool-failure": "PostToolUseFailure",
    "session-end": "SessionEnd",
}
"""Supported events, with their names in Claude Code."""

LONGEST_MESSAGE = 50_000
"""Maximum characters stored of a message; of a longer one, the beginning and the end are stored."""

LARGEST = 32 * 1024 * 1024
"""Maximum bytes of an event."""

_LONGEST_RESULT = 4_000
_LONGEST_ID = 120
_NAMES: Mapping[str, tuple[str, ...]] = {
    "name": ("hook_event_name",),
    "session": ("session_id", "sessionId", "conversation_id"),
    "prompt": ("prompt", "user_prompt"),
    "answer": ("last_assistant_message", "prompt_response", "text"),
    "transcript": ("transcript_path",),
    "folder": ("cwd",),
    "source": ("source",),
    "tool": ("tool_name",),
    "call": ("tool_use_id", "tool_call_id"),
    "error": ("error",),
}
"""Names that agents use for each field."""

_TEXTS = "session", "prompt", "answer"
"""Fields without whose text an event would be stored wrongly, or not at all."""


class HookEvent(NamedTuple):
    """One event of an agent, with all that is needed to store it later.

    Attributes:
        kind: One of `EVENTS`; empty before it is known.
        name: The agent's name of the event; empty if unknown.
        session: The agent's id of the conversation, then the id of ours; empty if unknown.
        scope: Scope of the conversation.
        at: When it happened, as ISO 8601.
        prompt: The user's message, without what hooks have added to it.
        answer: The assistant's answer, of the event or of the transcript.
        transcript: Path of the agent's transcript.
        folder: Working folder of the agent.
        source: Reason of a session start: `startup`, `resume`, `clear`, `compact`.
        tool: Name of the tool that failed.
        call: Id of its call.
        arguments: Arguments of the call, as JSON text.
        error: Error message of the tool.
        interrupted: Whether the user stopped the tool.
        tools: Names of the tools called for the answer, without those of Reverie that showed nothing unconfirmed;
            None if unknown.
        typed: The last messages that the user typed, the latest first.
        metadata: Metadata of a prompt, or of a session at its start: what the agent has read with it.
    """

    kind: str = ""
    name: str = ""
    session: str = ""
    scope: str = ""
    at: str = ""
    prompt: str = ""
    answer: str = ""
    transcript: str = ""
    folder: str = ""
    source: str = ""
    tool: str = ""
    call: str = ""
    arguments: str = "{}"
    error: str = ""
    interrupted: bool = False
    tools: Sequence[str] | None = None
    typed: Sequence[str] = ()
    metadata: Mapping[str, str] = {}

    def has_content(self, kind: str) -> bool:
        """Return whether there is anything to do: other events are answered without opening the memory."""
        if kind == "user-prompt":
            return bool(self.prompt)
        if kind == "stop":
            return bool(self.answer) or not self.session or os.path.isfile(self.transcript)
        return kind != "tool-failure" or (bool(self.error) and not self.interrupted)


def read_event(data: bytes) -> HookEvent:
    """Parse the JSON object that an agent wrote to standard input; ignore unknown fields.

    Raises:
        InvalidInput: `data` is not a JSON object, or its session, prompt or answer is not text.
    """
    if len(data) > LARGEST:
        raise InvalidInput(f"the event is larger than {LARGEST:,} bytes and was not read")
    try:
        values = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise InvalidInput("standard input is not JSON: expected an event of the agent") from None
    if not isinstance(values, dict):
        raise InvalidInput(f"standard input is a JSON {type(values).__name__}: expected an object")
    fields: dict[str, Any] = {field: _get_text(values, names) for field, names in _NAMES.items()}
    for name in _TEXTS:
        wrong = [each for each in _NAMES[name] if not isinstance(values.get(each), str | None)]
        if wrong and not fields[name]:
            raise InvalidInput(f"{wrong[0]} of the event is not text: nothing was stored")
    fields["prompt"] = remove_context(fields["prompt"])
    fields |= {name: truncate_text(fields[name]) for name in ("prompt", "answer")}
    fields["error"] = truncate_text(fields["error"], longest=_LONGEST_RESULT)
    fields["session"] = " ".join(fields["session"].split())[:_LONGEST_ID]
    return HookEvent(
        **fields,
        arguments=_serialize_arguments(values.get("tool_input")),
        interrupted=values.get("is_interrupt") is True,
    )


def truncate_text(text: str, *, longest: int = LONGEST_MESSAGE) -> str:
    r"""Clean a text; cut the middle out of one that is too long.

    >>> truncate_text("a" * 90 + "b" * 30, longest=40)
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n[cut: 80 characters]\nbbbbbbbbbb'
    """
    text = validation.clean_text(text).strip()
    if len(text) <= longest:
        return text
    end = longest // 4
    return f"{text[: longest - end]}\n[cut: {len(text) - longest:,} characters]\n{text[-end:]}"


def _get_text(values: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return validation.clean_text(
        next((value for name in names if isinstance(value := values.get(name), str)), "")
    )


def _serialize_arguments(arguments: Any) -> str:
    written = json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, Mapping) else "{}"
    written = validation.clean_text(written)
    return written if len(written) <= _LONGEST_RESULT else json.dumps({"cut": written[:_LONGEST_RESULT]})


# -- transcript -----------------------------------------------------------------------------------


MOST_BYTES = 16 * 1024 * 1024
"""Bytes from the end of a transcript that are looked at."""

TAIL_BYTES = 256 * 1024
"""Bytes from the end of a transcript that are looked at while a user waits."""

_MOST_PROMPTS = 8

_PROGRAM = "a program"
"""Name, among the tools of an exchange, of a program that wrote into the conversation as the user."""

_EVERY_S = 0.05


class TranscriptExchange(NamedTuple):
    """The last exchange of a transcript.

    Attributes:
        answer: The assistant's final text; empty if it has not answered yet.
        tools: See `HookEvent`.
        typed: See `HookEvent`.
    """

    answer: str = ""
    tools: Sequence[str] | None = None
    typed: Sequence[str] = ()


def read_last_exchange(
    path: str, *, answer: str = "", settle_s: float = 0.0, max_bytes: int = MOST_BYTES
) -> TranscriptExchange:
    """Read the last exchange of a conversation, from a transcript of Claude Code, Codex or Gemini CLI.

    Args:
        path: The transcript; empty, missing or unreadable, it has no exchange.
        answer: Answer that ends the exchange; empty for any. The tools of an exchange with another end are unknown.
        settle_s: Seconds to wait for the answer, or for the file: the agent may still be writing them.
        max_bytes: Number of bytes that are read, from the end.
    """
    until = time.monotonic() + settle_s
    while True:
        exchange = _read(path, max_bytes)
        is_whole = bool(exchange.answer) and (
            exchange.answer.endswith(answer) or answer.endswith(exchange.answer)
        )
        if is_whole or not path or time.monotonic() >= until:
            return exchange if is_whole or not answer else exchange._replace(tools=None)
        time.sleep(_EVERY_S)


def _read(path: str, max_bytes: int) -> TranscriptExchange:
    texts: list[str] = []
    tools: set[str] = set()
    typed: list[str] = []
    results: dict[str, str] = {}
    is_complete = False  # whether the text of the last answer is complete
    try:
        for message in _iterate_messages(path, max_bytes):
            if message.role == "tool":
                results[message.answers] = message.text
            elif message.typed:
                typed.append(truncate_text(message.text))
            elif message.role != "assistant" and not typed:
                tools.add(_PROGRAM)
            elif not typed:
                for call in message.calls:
                    own = get_own_tool(call.name)
                    if not own or not provenance.is_trusted_result(own, results.get(call.id, "")):
                        tools.add(call.name)
            is_complete = is_complete or bool(message.calls or (message.role != "assistant" and texts))
            if not is_complete and not typed and message.role == "assistant":
                texts.append(message.text)
            if len(typed) == _MOST_PROMPTS:
                break
    except OSError:
        return TranscriptExchange()
    return TranscriptExchange(
        answer=truncate_text("\n\n".join(text for text in reversed(texts) if text.strip())),
        tools=sorted(tools) if typed else None,
        typed=typed,
    )


def _iterate_messages(path: str, max_bytes: int) -> Iterator[TranscriptMessage]:
    """Iterate over the messages of the main conversation, the last first; of one written twice, the last version."""
    seen = set()
    for value in _iterate_values(path, max_bytes):
        for message in reversed(parse_line(value)):
            if not message.agent and (not message.id or message.id not in seen):
                seen.add(message.id)
                yield message


def _iterate_values(path: str, max_bytes: int) -> Iterator[Any]:
    """Iterate over the values of a transcript, the last first: its lines, or the messages of one JSON object."""
    with open(path, "rb") as file:
        start = max(0, file.seek(0, os.SEEK_END) - max_bytes)
        file.seek(start)
        data = file.read()
    lines = data.split(b"\n")[1 if start else 0 :]
    written = [line for line in lines if line.strip()]
    if written and written[-1].strip() == b"}":  # one object on many lines, as Gemini CLI wrote it
        written = [data]
    for line in reversed(written):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        changed = value.get("$set") if isinstance(value, dict) else None
        whole = changed if isinstance(changed, dict) else value
        listed = whole.get("messages") if isinstance(whole, dict) else None
        if isinstance(listed, list):
            yield from reversed(listed)
            return  # what came before was replaced
        yield value
