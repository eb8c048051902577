"""Last exchange of a Claude Code transcript: the prompt, the answer and the tools used.

A transcript is a file of JSON lines, read backwards from its end. Unexpected lines are skipped, because the
agent may change its format.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from reverie.interfaces.hooks.events import truncate_text
from reverie.interfaces.hooks.injection import remove_context

MOST_BYTES = 16 * 1024 * 1024
"""Bytes from the end of a transcript that are looked at."""

_BLOCK = 256 * 1024
_LONGEST_LINE = 4 * 1024 * 1024
_NOT_MESSAGES = ("isSidechain", "isMeta", "isApiErrorMessage")
"""Marks of lines that are no messages of the user or the model; the last one marks a failed call of the model."""

_EVERY_S = 0.05


class TranscriptExchange(NamedTuple):
    """The last exchange of a transcript.

    Attributes:
        prompt: The user's message; empty if it was not found.
        answer: The assistant's final text; empty if it has not answered yet.
        tools: Names of the tools called for the answer; None if unknown.
    """

    prompt: str = ""
    answer: str = ""
    tools: frozenset[str] | None = None


def read_last_exchange(path: str, *, settle_s: float = 0.0) -> TranscriptExchange:
    """Read the last exchange of a conversation.

    Args:
        path: The transcript; a missing or unreadable one has no exchange.
        settle_s: Seconds to wait for an answer that the agent may still be writing; without a file there is
            no wait.
    """
    until = time.monotonic() + settle_s
    while True:
        if not os.path.isfile(path):
            return TranscriptExchange()
        exchange = _read(path)
        if exchange.answer or time.monotonic() >= until:
            return exchange
        time.sleep(_EVERY_S)


def _read(path: str) -> TranscriptExchange:
    texts: list[str] = []
    tools: set[str] = set()
    is_complete = False  # whether the text of the last answer is complete
    try:
        for line in _read_lines_backwards(path):
            record = _parse_record(line)
            if record is None:
                continue
            kind, content = record
            if kind == "user":
                is_complete = True
                if (prompt := _extract_prompt(content)) is not None:
                    return TranscriptExchange(
                        prompt=prompt, answer=_join_texts(texts), tools=frozenset(tools)
                    )
                continue
            text, called = _extract_content(content)
            tools |= called
            is_complete = is_complete or bool(called)
            if text and not is_complete:
                texts.append(text)
    except OSError:
        return TranscriptExchange()
    return TranscriptExchange(answer=_join_texts(texts))


def _parse_record(line: bytes) -> tuple[str, Any] | None:
    """Return the role and the content of a line; None for anything but a message."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or any(record.get(name) for name in _NOT_MESSAGES):
        return None
    kind, message = record.get("type"), record.get("message")
    if kind not in ("user", "assistant") or not isinstance(message, Mapping):
        return None
    return kind, message.get("content")


def _extract_prompt(content: Any) -> str | None:
    """Return the user's text; None for a tool's result, which has the same role."""
    if isinstance(content, str):
        return truncate_text(remove_context(content)) or None
    if not isinstance(content, list) or any(_get_kind(block) == "tool_result" for block in content):
        return None
    return truncate_text(remove_context("\n".join(_extract_texts(content)))) or None


def _extract_content(content: Any) -> tuple[str, set[str]]:
    """Return the text of an assistant's message, and the names of the tools it calls."""
    if isinstance(content, str):
        return content, set()
    if not isinstance(content, list):
        return "", set()
    called = {str(block.get("name", "")) for block in content if str(_get_kind(block)).endswith("tool_use")}
    return "\n".join(_extract_texts(content)), called


def _extract_texts(content: list[Any]) -> list[str]:
    return [
        text for block in content if _get_kind(block) == "text" and isinstance(text := block.get("text"), str)
    ]


def _get_kind(block: Any) -> Any:
    return block.get("type") if isinstance(block, Mapping) else None


def _join_texts(texts: list[str]) -> str:
    return truncate_text("\n\n".join(text for text in reversed(texts) if text.strip()))


def _read_lines_backwards(path: str) -> Iterator[bytes]:
    """Iterate over the lines of a file from the end, up to `MOST_BYTES` back; skip long lines."""
    with open(path, "rb") as file:
        at = file.seek(0, os.SEEK_END)
        stop = max(0, at - MOST_BYTES)
        rest = b""
        while at > stop:
            start = max(stop, at - _BLOCK)
            file.seek(start)
            pieces = (file.read(at - start) + rest).split(b"\n")
            at, rest = start, pieces[0] if len(pieces[0]) <= _LONGEST_LINE else b""
            yield from reversed(pieces[1:])
        if at == 0:
            yield rest
