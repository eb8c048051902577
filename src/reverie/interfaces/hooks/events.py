"""Events of an agent, read tolerantly from JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from reverie.domain.errors import InvalidInput
from reverie.domain.text import validation
from reverie.interfaces.hooks.injection import remove_context

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
    "answer": ("last_assistant_message", "prompt_response"),
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
    """One event of an agent.

    Attributes:
        name: The agent's name of the event; empty if unknown.
        session: The agent's id of the conversation; empty if unknown.
        prompt: The user's message, without what hooks have added to it.
        answer: The assistant's answer, if the event contains it.
        transcript: Path of the agent's transcript.
        folder: Working folder of the agent.
        source: Reason of a session start: `startup`, `resume`, `clear`, `compact`.
        tool: Name of the tool that failed.
        call: Id of its call.
        arguments: Arguments of the call, as JSON text.
        error: Error message of the tool.
        interrupted: Whether the user stopped the tool.
    """

    name: str = ""
    session: str = ""
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

    def has_content(self, name: str) -> bool:
        """Return whether the event has anything that a hook stores, answers or refuses.

        Args:
            name: One of `EVENTS`.
        """
        if name == "user-prompt":
            return bool(self.prompt)
        if name == "stop":
            return bool(self.answer) or not self.session or os.path.isfile(self.transcript)
        if name == "tool-failure":
            return bool(self.error) and not self.interrupted
        return True


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
    fields = {field_name: _get_text(values, names) for field_name, names in _NAMES.items()}
    for name in _TEXTS:
        if not fields[name] and (wrong := _find_other_value(values, _NAMES[name])):
            raise InvalidInput(f"{wrong} of the event is not text: nothing was stored")
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


def _find_other_value(values: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """Return the name of a value that exists and is no text."""
    return next((name for name in names if not isinstance(values.get(name), str | None)), None)


def _get_text(values: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return validation.clean_text(
        next((value for name in names if isinstance(value := values.get(name), str)), "")
    )


def _serialize_arguments(arguments: Any) -> str:
    written = json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, Mapping) else "{}"
    written = validation.clean_text(written)
    return written if len(written) <= _LONGEST_RESULT else json.dumps({"cut": written[:_LONGEST_RESULT]})
