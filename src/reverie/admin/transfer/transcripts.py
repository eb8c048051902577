"""Messages in lines of transcripts of Claude Code, Codex and Gemini CLI: who said what, and who typed it.

Hooks and the import read transcripts with `parse_line`. It looks at one JSON value alone, and imports little.

    Claude Code   ~/.claude/projects/PROJECT/SESSION.jsonl, and agent-ID.jsonl of side chains, and of Cursor
                  {"type": "user" or "assistant", "message": {"role", "content"}, "uuid", "timestamp", "sessionId"}
    Codex         ~/.codex/sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl
                  {"timestamp", "type": "session_meta", "response_item", "event_msg" or "compacted", "payload"}
    Gemini CLI    ~/.gemini/tmp/PROJECT/chats/session-TIME-ID.jsonl, or one object with "messages" in a .json
                  {"id", "timestamp", "type": "user" or "gemini", "content", "displayContent", "toolCalls"}

In a rollout of Codex, the event `user_message`, or of the item `UserMessage`, has what a person typed; messages of the
role `user` are also instructions and reports of the program. Older rollouts have no events, and no `payload` around an
item.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from reverie.domain.conversation import ToolCall
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.provenance import ACKNOWLEDGING, SHOWING, is_typed

Client = Literal["claude-code", "codex", "gemini"]
"""Programs whose transcripts are read; also the prefix of their sessions' ids."""

_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_CODEX_LINES = frozenset({"session_meta", "response_item", "event_msg", "compacted", "turn_context"})
_CODEX_ITEMS = frozenset(
    {"message", "local_shell_call"}
    | {f"{kind}_call{end}" for kind in ("function", "custom_tool") for end in ("", "_output")}
)


class TranscriptMessage(NamedTuple):
    """Message in a transcript.

    Attributes:
        role: `user`, `assistant` or `tool`; `summary` for a program's summary of the conversation so far.
        text: Its text; empty for a message that only calls tools.
        parts: The texts that it consists of, each of which has one writer.
        typed: Whether a person typed it.
        calls: The tools that an assistant's message calls.
        answers: The id of the call that a tool's result answers.
        id: Its id in the transcript; empty if it has none.
        group: Id of the answer of which an assistant's message is a part; empty if it is whole.
        at: When it was said, as the transcript writes it; empty if unknown.
        session: The program's id of the conversation; empty if the line does not name it.
        agent: Id of the agent of a side chain; empty for the main conversation.
    """

    role: Literal["user", "assistant", "tool", "summary"]
    text: str = ""
    parts: tuple[str, ...] = ()
    typed: bool = False
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""
    id: str = ""
    group: str = ""
    at: str = ""
    session: str = ""
    agent: str = ""


def detect_client(value: object) -> Client | None:
    """Return the program that wrote a line, or a whole file of one JSON value; None for another."""
    if not isinstance(value, dict):
        return None
    kind = str(value.get("type"))
    if "sessionId" in value and "projectHash" in value:
        return "gemini"
    if kind in _CODEX_LINES and isinstance(value.get("payload"), dict):
        return "codex"
    if kind in ("user", "assistant") and isinstance(value.get("message"), dict) and "role" not in value:
        return "claude-code"
    if "session_id" not in value and "id" in value and "timestamp" in value and "instructions" in value:
        return "codex"  # the first line of an older rollout
    return None


def parse_line(value: object) -> list[TranscriptMessage]:
    """Return the messages of a JSON value of a transcript; none for a value without any.

    Example:
        >>> line = {"type": "user", "message": {"role": "user", "content": "Use tabs."}, "sessionId": "s"}
        >>> [(each.role, each.text, each.typed) for each in parse_line(line)]
        [('user', 'Use tabs.', True)]
    """
    if not isinstance(value, dict):
        return []
    agent = _get_text(value, "agentId") or "agent" if value.get("isSidechain") else ""
    session, at, name = (_get_text(value, each) for each in ("sessionId", "timestamp", "uuid"))
    name = name or _get_text(value, "id") if "payload" not in value else ""
    return [
        each._replace(session=session, at=at, agent=agent, id=f"{name}:{number}" if name and number else name)
        for number, each in enumerate(_parse(value))
    ]


def _parse(value: Mapping[str, Any]) -> Iterator[TranscriptMessage]:
    kind, payload = str(value.get("type", value.get("role"))), value.get("payload")
    if isinstance(payload, dict):
        yield from _parse_codex(kind, payload)
    elif kind in ("user", "assistant") and isinstance(value.get("message"), dict):
        yield from _parse_claude(value, value["message"])
    elif kind == "attachment" and isinstance(value.get("attachment"), dict):
        yield from _parse_queued(value, value["attachment"])
    elif kind in ("user", "gemini") and "content" in value:
        yield from _parse_gemini(value)
    elif kind in _CODEX_ITEMS:
        yield from _parse_codex_item(value, has_events=False)


def get_own_tool(name: str) -> str:
    """Return which tool of Reverie has a name that a client gives it; empty for another tool.

    >>> get_own_tool("mcp__reverie__save_memory"), get_own_tool("mcp_reverie_save_memory"), get_own_tool("Bash")
    ('save_memory', 'save_memory', '')
    """
    server, _, rest = name.partition("reverie")
    known = [
        tool for tool in ACKNOWLEDGING | SHOWING if server.startswith("mcp_") and rest.endswith(f"_{tool}")
    ]
    return max(known, key=len, default="")


# -- context of hooks --------------------------------------------------------------------------------------

_BEGIN = r"\[reverie context ([0-9a-f]{12})\]"
_BLOCK = defer_regex(rf"{_BEGIN}.*?\[end of reverie context \1\]", re.DOTALL)
_PLACE = "\x00"
_ELEMENT_AROUND = defer_regex(rf"<([\w:.-]{{1,60}})(?:\s[^<>]*)?>\s*{_PLACE}\s*</\1\s*>")
_TAG = r"<((?:[a-z]+[-_])*hook(?:[-_][a-z]+)*|system[-_]reminder)(?:\s[^<>]*)?>"
_AT_START = defer_regex(rf"\s*{_TAG}.*?</\1\s*>", re.DOTALL)
_AT_END = defer_regex(rf"{_TAG}(?:(?!<\1[\s>]).)*</\1\s*>\s*\Z", re.DOTALL)


def remove_context(prompt: str) -> str:
    """Return a prompt without the context of hooks: ours anywhere, and elements of hooks at both ends.

    >>> remove_context("<hook_context>Be brief.</hook_context> Deploy from main")
    'Deploy from main'
    """
    text = _BLOCK.sub(_PLACE, prompt.replace(_PLACE, ""))
    while _PLACE in text:
        text, count = _ELEMENT_AROUND.subn(_PLACE, text)
        if not count:
            text = text.replace(_PLACE, "")
    while match := _AT_START.match(text) or _AT_END.search(text):
        text = text[: match.start()] + text[match.end() :]
    return text.strip() if text != prompt else prompt


# -- the three programs ------------------------------------------------------------------------------------


def _parse_claude(line: Mapping[str, Any], message: Mapping[str, Any]) -> Iterator[TranscriptMessage]:
    content = message.get("content")
    texts, blocks = _list_texts(content), _list_objects(content)
    results = [block for block in blocks if block.get("type") == "tool_result"]
    calls = tuple(_build_call(each) for each in blocks if str(each.get("type")).endswith("tool_use"))
    if line.get("isApiErrorMessage"):
        return
    if line.get("isCompactSummary"):
        yield _build_message("summary", texts)
    elif line.get("type", line.get("role")) == "assistant":
        yield from _build_answer(texts, calls, group=_get_text(message, "id"))
    elif not results:  # text beside a result is a program's
        yield from _build_user_messages(texts, line)
    for block in results:
        answers = _get_text(block, "tool_use_id")
        yield TranscriptMessage(role="tool", text=_extract_result(block.get("content")), answers=answers)


def _parse_queued(line: Mapping[str, Any], attachment: Mapping[str, Any]) -> Iterator[TranscriptMessage]:
    """Yield a message that was sent while Claude Code worked."""
    if attachment.get("type") == "queued_command":
        is_prompt = attachment.get("commandMode", "prompt") == "prompt" and not line.get("isSidechain")
        fields = {name: text for name, text in attachment.items() if name not in ("type", "prompt")}
        for message in _build_user_messages(_list_texts(attachment.get("prompt")), fields):
            yield message if is_prompt else message._replace(typed=False)


def _parse_codex(kind: str, payload: Mapping[str, Any]) -> Iterator[TranscriptMessage]:
    event, item = payload.get("type"), payload.get("item")
    if kind == "response_item":
        yield from _parse_codex_item(payload, has_events=True)
    elif kind == "compacted" and (text := _get_text(payload, "message")):
        yield _build_message("summary", (text,))
    elif kind == "event_msg" and event == "user_message":
        yield from _build_user_messages(_list_texts(payload.get("message")), payload)
    elif kind == "event_msg" and isinstance(item, dict) and item.get("type") == "UserMessage":
        yield from _build_user_messages(_list_texts(item.get("content")), {"type": "user_message"})


def _parse_codex_item(item: Mapping[str, Any], *, has_events: bool) -> Iterator[TranscriptMessage]:
    kind, role, texts = str(item.get("type")), item.get("role"), _list_texts(item.get("content"))
    call_id = _get_text(item, "call_id") or _get_text(item, "id")
    if kind.endswith("_call_output"):
        yield TranscriptMessage(role="tool", text=_extract_result(item.get("output")), answers=call_id)
    elif kind.endswith("_call"):
        server, name = _get_text(item, "namespace"), _get_text(item, "name") or kind
        call = _build_call({**item, "id": call_id, "name": f"{server}__{name}" if server else name})
        yield TranscriptMessage(role="assistant", calls=(call,))
    elif kind == "message" and role == "assistant":
        yield from _build_answer(texts)
    elif kind == "message" and role == "user" and not has_events:
        yield from _build_user_messages(texts, {"type": kind, "role": role})


def _parse_gemini(line: Mapping[str, Any]) -> Iterator[TranscriptMessage]:
    texts, calls = _list_texts(line["content"]), _list_objects(line.get("toolCalls"))
    if line.get("type", line.get("role")) == "user":
        fields = {name: value for name, value in line.items() if not name.lower().endswith("content")}
        yield from _build_user_messages(_list_texts(line.get("displayContent")) or texts, fields)
        return
    yield from _build_answer(texts, tuple(map(_build_call, calls)))
    for each in calls:
        if result := _extract_result(each.get("result")):
            yield TranscriptMessage(role="tool", text=result, answers=_get_text(each, "id"))


# -- messages and their content ----------------------------------------------------------------------------


def _build_message(role: Literal["assistant", "summary"], texts: tuple[str, ...]) -> TranscriptMessage:
    return TranscriptMessage(role=role, text="\n".join(texts), parts=texts)


def _build_answer(
    texts: tuple[str, ...], calls: tuple[ToolCall, ...] = (), *, group: str = ""
) -> Iterator[TranscriptMessage]:
    """Yield an assistant's message, unless it is empty."""
    if texts or calls:
        yield _build_message("assistant", texts)._replace(calls=calls, group=group)


def _build_user_messages(texts: tuple[str, ...], fields: Mapping[str, Any]) -> Iterator[TranscriptMessage]:
    """Yield a user's message: the parts that a person typed, or all of them if a program wrote each."""
    texts = tuple(text for each in texts if (text := remove_context(each)))
    own = tuple(text for text in texts if is_typed(text, fields))
    if said := own or texts:
        yield TranscriptMessage(role="user", text="\n".join(said), parts=said, typed=bool(own))


def _build_call(fields: Mapping[str, Any]) -> ToolCall:
    given: Any = next(
        (fields[name] for name in ("arguments", "input", "args", "action") if fields.get(name)), {}
    )
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return ToolCall(id=_get_text(fields, "id"), name=_get_text(fields, "name"), arguments=text)


def _extract_result(value: Any) -> str:
    """Return the text of a tool's result: text, parts, or an object (also as JSON text) with either."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return value
        inner = parsed.get("output") if isinstance(parsed, dict) else None
        return inner if isinstance(inner, str) else value
    if isinstance(value, dict):
        given = next((value[name] for name in ("content", "output", "error") if value.get(name)), None)
        return json.dumps(value, ensure_ascii=False) if given is None else _extract_result(given)
    responses = [
        answer["response"]
        for part in _list_objects(value)
        if isinstance(answer := part.get("functionResponse"), dict) and answer.get("response")
    ]
    return "\n".join([*_list_texts(value), *map(_extract_result, responses)])


def _list_texts(content: Any) -> tuple[str, ...]:
    """Return the texts of a content that is text or a list of parts, without blank ones."""
    parts = content if isinstance(content, list) else [content]
    texts = (
        part.get("text") if isinstance(part, dict) and part.get("type", "text") in _TEXT_PARTS else part
        for part in parts
    )
    return tuple(text for text in texts if isinstance(text, str) and text.strip())


def _list_objects(content: Any) -> list[dict[str, Any]]:
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _get_text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
