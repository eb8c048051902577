"""Events of an agent, read tolerantly from JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reverie.domain.errors import InvalidInput
from reverie.domain.text import validation

EVENTS: Mapping[str, str] = {
    "session-start": "SessionStart",
    "user-prompt": "UserPromptSubmit",
    "stop": "Stop",
    "tool-failure": "PostToolUseFailure",
    "session-end": "SessionEnd",
}
"""The events that are understood, and what Claude Code calls them."""

LONGEST_SAID = 50_000
"""Characters of one message that are stored; of a longer one the beginning and the end."""

LARGEST = 32 * 1024 * 1024
"""Bytes of an event that are read."""

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
"""Each field, and under which names agents give it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """One event of an agent.

    Attributes:
        name: What the agent calls the event; empty where it does not say.
        session: The agent's id of the conversation; empty where it does not say.
        prompt: What the user says.
        answer: What the assistant has answered, where the event has it.
        transcript: The file in which the agent keeps the conversation.
        folder: Where the agent works.
        source: How a session begins: `startup`, `resume`, `clear`, `compact`.
        tool: The tool that failed.
        call: Its call's id.
        arguments: What it was called with, as JSON text.
        error: What it said.
        interrupted: Whether the user stopped it.
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
    arguments: str = field(default="{}")
    error: str = ""
    interrupted: bool = False


def read_event(data: bytes) -> HookEvent:
    """Read the event that an agent wrote to standard input.

    Args:
        data: One JSON object, with any fields beside those that are known.

    Raises:
        InvalidInput: it is no JSON object.
    """
    if len(data) > LARGEST:
        raise InvalidInput(f"the event has over {LARGEST:,} bytes: nothing of it was read")
    try:
        told = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise InvalidInput("standard input holds no JSON: the agent writes its event there") from None
    if not isinstance(told, dict):
        raise InvalidInput(f"standard input holds a JSON {type(told).__name__}: an event is an object")
    found = {mine: _get_text(told, names) for mine, names in _NAMES.items()}
    found |= {name: truncate_text(found[name]) for name in ("prompt", "answer")}
    found["error"] = truncate_text(found["error"], longest=_LONGEST_RESULT)
    found["session"] = " ".join(found["session"].split())[:_LONGEST_ID]
    return HookEvent(
        **found,
        arguments=_serialize_arguments(told.get("tool_input")),
        interrupted=told.get("is_interrupt") is True,
    )


def truncate_text(text: str, *, longest: int = LONGEST_SAID) -> str:
    """Clean a text; keep only the beginning and the end of one that is too long.

    >>> truncate_text("a" * 90 + "b" * 30, longest=40)
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\\n[cut: 80 characters]\\nbbbbbbbbbb'
    """
    text = validation.clean_text(text).strip()
    if len(text) <= longest:
        return text
    end = longest // 4
    return f"{text[: longest - end]}\n[cut: {len(text) - longest:,} characters]\n{text[-end:]}"


def _get_text(told: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((value for name in names if isinstance(value := told.get(name), str)), "")


def _serialize_arguments(given: Any) -> str:
    written = json.dumps(given, ensure_ascii=False) if isinstance(given, Mapping) else "{}"
    written = validation.clean_text(written)
    return written if len(written) <= _LONGEST_RESULT else json.dumps({"cut": written[:_LONGEST_RESULT]})
