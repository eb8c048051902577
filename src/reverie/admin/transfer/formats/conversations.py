"""Readers of conversations: messages as JSON, exports of ChatGPT and Claude, sessions of golemcore and Autobot.

Each program's message becomes one form, which `add_message` reads: an object with `role` and `content` (text, or parts
as OpenAI, Anthropic and Google have them). Optional keys are `timestamp` (or `at`, `created_at`, `create_time`,
`time`), `speaker` (or `name`), `id`, `tool_calls` and `tool_call_id`. Reasoning is left out; pictures and files are
only named.

A file of messages has JSON lines, a JSON list or one JSON value. Each value is a message, a list of messages, or an
object with a list of `messages`, and optionally with `session` (or `id`) and a time. Messages without a session belong
to `import:` and the file's name. Autobot writes `sessions/{channel}_{chat}.jsonl`: a line of metadata, then a message
a line. golemcore writes `sessions/{channel}:{chat}.json`: an object with `messages`.

In ChatGPT's and Claude's exports a conversation is a tree: an edited question and a repeated answer begin new
branches. The path to the message last viewed is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from reverie.admin.transfer.batch import UPDATED_AT, Form, ImportTerms, Item
from reverie.admin.transfer.formats.foreign import (
    ConversationBuilder,
    ForeignFields,
    Format,
    build_tool_call,
    filter_objects,
    get_skip_reason,
    parse_moment,
    skip,
    to_text,
)
from reverie.admin.transfer.safe_reading import SourceFile, parse_json
from reverie.domain.conversation import LONGEST_NAME, ROLES, SESSION_STATUSES, Role, ToolCall
from reverie.domain.errors import InvalidInput, quote_value
from reverie.domain.text.json_values import describe_type

_ROLES: Mapping[str, Role] = {role: role for role in ROLES} | {
    "human": "user", "ai": "assistant", "model": "assistant", "bot": "assistant",
    "developer": "system", "function": "tool",
}  # fmt: skip
_TIMES = ("timestamp", "at", "created_at", "create_time", "time")
_SESSIONS = ("session", "session_id", "conversation")
_MESSAGE_FIELDS = {"role", "content", "parts"}
_SILENT_PARTS = {"thinking", "redacted_thinking", "token_budget", "flag"}
_HIDDEN = {"thoughts", "reasoning_recap", "user_editable_context", "model_editable_context"}
_PARENT = "parent_message_uuid"


def add_message(chat: ConversationBuilder, message: Any, place: str = "") -> None:
    """Add the turns of a message: its text with the tools it calls, and each result of a tool among its parts.

    Raises:
        InvalidInput: it is not a message; nothing was added.
    """
    if not isinstance(message, dict):
        raise InvalidInput(f"{describe_type(message)} instead of an object with 'role' and 'content'")
    fields = ForeignFields(message)
    if not fields.has("role") and fields.text("type") not in _ROLES:
        raise InvalidInput("an object without a 'role'")
    role = _ROLES.get(fields.text("role", "type").strip().lower())
    if role is None:
        raise InvalidInput(f"role is {quote_value(message.get('role'))}: use one of {', '.join(ROLES)}")
    parts, given_calls = (
        _list_parts(fields.value("content", "parts")),
        _parse_tool_calls(fields.value("tool_calls")),
    )
    known: dict[str, Any] = {
        "id": fields.label("id", "uuid"),
        "at": fields.moment(*_TIMES),
        "speaker": fields.label("speaker", "name")[:LONGEST_NAME],
        "place": place,
    }
    texts: list[str] = []
    calls: list[ToolCall] = []
    asked: list[str] = []

    def add_turn() -> None:
        chat.add(
            role, "\n".join(texts), message={**message, "role": role, "content": ""},
            tool_calls=tuple(calls) if role == "assistant" else (),
            tool_call_id=fields.label("tool_call_id") if role == "tool" else "", **known,
        )  # fmt: skip
        texts.clear()
        calls.clear()

    has_results = False
    for part in parts:
        kind = str(part.get("type") or part.get("content_type") or "text").removesuffix("_asset_pointer")
        if kind == "tool_use":
            calls.append(build_tool_call(str(part.get("id")), str(part.get("name")), part.get("input")))
            asked.append(calls[-1].id)
        elif kind == "tool_result":
            if calls or any(map(str.strip, texts)):
                add_turn()
            result = "\n".join(str(each.get("text", "")) for each in _list_parts(part.get("content")))
            answered = str(part.get("tool_use_id") or next(iter(asked), ""))
            chat.add("tool", result, tool_call_id=answered, **known)
            asked, has_results = [each for each in asked if each != answered], True
        elif isinstance(text := part.get("text"), str):
            texts.append(text)
        elif kind not in _SILENT_PARTS:
            texts.append(f"[{kind[:100]}]")
            chat.leave_out("attachment", "unsupported", "the export names it, and that is kept", place)
    calls += given_calls
    if calls or any(map(str.strip, texts)) or not has_results:
        add_turn()


def _list_parts(value: Any) -> list[dict[str, Any]]:
    """Return the parts of a message's content."""
    parts = value if isinstance(value, list) else [] if value is None else [value]
    for part in parts:
        if not isinstance(part, str | dict):
            raise InvalidInput(f"content is {describe_type(part)}: it must be text or a list of parts")
    return [{"text": part} if isinstance(part, str) else part for part in parts]


def _parse_tool_calls(value: Any) -> list[ToolCall]:
    """Return tool calls given as OpenAI has them, or flat as `{id, name, arguments}`."""
    calls = []
    for call in filter_objects(value):
        function = call.get("function", call)
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(name, str) or not call.get("id"):
            raise InvalidInput("a tool call has no id or no function name")
        calls.append(build_tool_call(str(call["id"]), name, function.get("arguments")))
    return calls


# -- files of messages -------------------------------------------------------------------------------------


def is_messages(value: object) -> bool:
    """Return whether a value is a message, a list of messages, or an object with such a list."""
    if isinstance(value, list):
        return any(isinstance(each, dict) and "role" in each for each in value)
    return isinstance(value, dict) and (isinstance(value.get("messages"), list) or "role" in value)


def read_messages(file: SourceFile, terms: ImportTerms) -> Iterator[Item]:
    """Yield the conversations of a file, and the messages that are left out."""
    return _read(file, terms, "messages", f"import:{PurePosixPath(file.name).stem}")


def read_session(file: SourceFile, terms: ImportTerms) -> Iterator[Item]:
    """Yield the session of a file of golemcore or Autobot, which continues under its old name."""
    stem = PurePosixPath(file.name).stem
    # The first `_` of a file's name represents the `:` between channel and chat.
    return _read(file, terms, "sessions", stem if ":" in stem else stem.replace("_", ":", 1))


def _read(file: SourceFile, terms: ImportTerms, form: str, default: str) -> Iterator[Item]:
    """Yield the content of a file; messages of a conversation may alternate with those of others.

    Args:
        default: The session of messages that name none; an object before the first message may name another.
    """
    chats: dict[str, ConversationBuilder] = {}
    about: Mapping[str, Any] = {}
    unnamed = 0
    for place, value in file.values():
        fields = value if isinstance(value, dict) else {}
        messages = _get_messages(value)
        if messages is None and fields and not chats and not _MESSAGE_FIELDS.intersection(fields):
            about, default = fields, ForeignFields(fields).label("id", "key") or default
            continue
        name = ForeignFields(fields).label(*_SESSIONS)
        if messages is not None:
            about, unnamed = fields, unnamed + 1
            name = name or ForeignFields(fields).label("conversation_id", "id", "key")
        session = name or (default if unnamed < 2 else f"{default}:{unnamed}")
        try:
            if session not in chats:
                chats[session] = _begin(
                    session,
                    ForeignFields(about),
                    form,
                    file.place,
                    terms,
                    is_whole=messages is not None and name != "",
                )
        except InvalidInput as error:
            yield skip("session", place, error)
            continue
        for number, message in enumerate([value] if messages is None else messages, start=1):
            _add(chats[session], message, place if messages is None else f"{place}, message {number}")
        if messages is not None:
            yield from chats[session].take_items()
    for chat in chats.values():
        if chat.has_turns:
            yield from chat.take_items()


def _begin(
    session: str, about: ForeignFields, form: str, place: str, terms: ImportTerms, *, is_whole: bool
) -> ConversationBuilder:
    """Return the builder of a conversation with what the file says about it."""
    return ConversationBuilder(
        session, form=form, place=place, terms=terms, at=about.moment(*_TIMES), has_path=True, is_whole=is_whole,
        metadata={**about.texts("metadata"), "imported_from": place[:200]},
        status=about.choice(SESSION_STATUSES, "state", "status") or "active",
    )  # fmt: skip


def _add(chat: ConversationBuilder, message: Any, place: str = "") -> None:
    """Add a message, or note why it is left out."""
    try:
        if isinstance(message, InvalidInput):
            raise message
        if message is None or (isinstance(message, dict) and not _MESSAGE_FIELDS.intersection(message)):
            detail = "neither a message nor a conversation, such as a header"
            chat.leave_out("line", "unsupported", detail, place)
        else:
            add_message(chat, message, place)
    except InvalidInput as error:
        chat.leave_out("turn", get_skip_reason(error), str(error), place)


def _get_messages(value: Any) -> list[Any] | None:
    """Return the messages of a conversation; None for a message."""
    if isinstance(value, list):
        return value
    messages = value.get("messages") if isinstance(value, dict) and "role" not in value else None
    return messages if isinstance(messages, list) else None


# -- conversations of other programs -----------------------------------------------------------------------


def read_conversation(
    form: Form,
    session: object,
    messages: Iterable[dict[str, Any] | str],
    terms: ImportTerms,
    place: str,
    *,
    about: Mapping[str, Any] | None = None,
    is_whole: bool = True,
) -> Iterator[Item]:
    """Yield a conversation.

    Args:
        form: The format.
        session: Its id in the other program.
        messages: Its messages; a text says why one is left out.
        about: Its object, with title, model and times; None if only its messages are known.
        is_whole: Whether the messages are all of it.

    Raises:
        InvalidInput: it has no id.
    """
    if not isinstance(session, str):
        raise InvalidInput(f"no conversation of {form}: it has no id")
    fields = ForeignFields(about or {})
    chat = ConversationBuilder(
        f"{form}:{session}", form=form, place=place, terms=terms, at=fields.moment(*_TIMES),
        metadata={
            "title": fields.value("title", "name"),
            "model": fields.value("default_model_slug", "model"),
            UPDATED_AT: (changed := fields.moment("update_time", "updated_at")) and changed.isoformat(),
            "imported_from": form,
        },
        has_path=is_whole, is_whole=is_whole,
    )  # fmt: skip
    for message in messages:
        if isinstance(message, str):
            chat.leave_out("turn", "unsupported", message)
        else:
            _add(chat, message)
    return chat.take_items()


def _read_chatgpt(data: dict[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    nodes = {name: node for name, node in data["mapping"].items() if isinstance(node, dict)}
    path = _select_branch(nodes, data.get("current_node"), "parent", _get_node_time)
    asked: dict[str, str] = {}  # tools that were called, with the ids of the last calls
    turned = (
        _convert_chatgpt({**message, "id": message.get("id") or name}, asked)
        for name in path
        if isinstance(message := nodes[name].get("message"), dict)
    )
    return read_conversation(
        "chatgpt", data.get("conversation_id") or data.get("id"), turned, terms, place, about=data
    )


def _get_node_time(node: Mapping[str, Any]) -> datetime | None:
    message = node.get("message")
    return parse_moment(message.get("create_time")) if isinstance(message, dict) else None


def _convert_chatgpt(message: dict[str, Any], asked: dict[str, str]) -> dict[str, Any] | str:
    """Return a message in the form of `add_message`, or why it is left out."""
    author, content, metadata = (
        value if isinstance(value := message.get(name), dict) else {}
        for name in ("author", "content", "metadata")
    )
    kind = str(content.get("content_type", "text"))
    if metadata.get("is_visually_hidden_from_conversation") is True or kind in _HIDDEN:
        return "hidden from the person, such as instructions, or a model's reasoning"
    parts = content.get("parts")
    if not isinstance(parts, list):
        text = next((content[name] for name in ("text", "result", "content") if content.get(name)), "")
        parts = [text if isinstance(text, str) and (text or kind == "text") else {"type": kind}]
    role, name, recipient = author.get("role"), author.get("name"), message.get("recipient")
    turned = {**message, "role": role, "name": name, "content": parts}
    if role == "assistant" and recipient not in (None, "all", "assistant"):
        text = "\n".join(part for part in parts if isinstance(part, str))
        asked[str(recipient)] = message["id"]
        call = {
            "id": message["id"],
            "name": recipient,
            "arguments": text if parse_object(text) else {"input": text},
        }
        turned |= {"content": "", "tool_calls": [call]}
    elif role == "tool":
        turned["tool_call_id"] = asked.get(str(name), "")
    return turned


def _read_claude(data: dict[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    messages = filter_objects(data["chat_messages"])
    others = [each for each in data["chat_messages"] if not isinstance(each, dict)]
    by_name = {name: message for message in messages if isinstance(name := message.get("uuid"), str)}
    if len(by_name) == len(messages) and any(message.get(_PARENT) for message in messages):
        leaf = data.get("current_leaf_message_uuid")
        path = _select_branch(by_name, leaf, _PARENT, lambda message: parse_moment(message.get("created_at")))
        messages = [by_name[name] for name in path]
    name = data.get("uuid") or data.get("id")
    return read_conversation(
        "claude", name, [*map(_convert_claude, messages), *others], terms, place, about=data
    )


def _convert_claude(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message in the form of `add_message`. Text extracted from an attached file is kept."""
    content = message.get("content") or message.get("text") or ""
    parts = list(content) if isinstance(content, list) else [content]
    for each in (*filter_objects(message.get("attachments")), *filter_objects(message.get("files"))):
        name, text = to_text(each.get("file_name") or "file"), each.get("extracted_content")
        parts.append(f"[{name}]\n{text}" if isinstance(text, str) and text.strip() else {"type": name})
    return {**message, "role": message.get("sender") or message.get("role"), "content": parts, "text": ""}


def _select_branch(
    messages: Mapping[str, Mapping[str, Any]],
    current: Any,
    parent: str,
    get_time: Callable[[Any], datetime | None],
) -> list[str]:
    """Return the ids of the messages from the first one to the current one, or to the newest without a reply.

    Args:
        messages: The messages of all branches by their ids.
        current: The id of the message that the person saw last, if the export has one.
        parent: The field that names the message before.
    """
    if not (isinstance(current, str) and current in messages):
        answered = {name for each in messages.values() if isinstance(name := each.get(parent), str)}
        leaves = [name for name in messages if name not in answered]
        times = {name: moment.timestamp() if (moment := get_time(messages[name])) else 0 for name in leaves}
        current = max(reversed(leaves), key=times.__getitem__, default=None)
    path: dict[str, None] = {}
    while isinstance(current, str) and current in messages and current not in path:
        path[current] = None
        current = messages[current].get(parent)
    return list(path)[::-1]


def parse_object(text: Any) -> dict[str, Any]:
    """Return the object that a text is in JSON; empty for any other text."""
    try:
        value = parse_json(text) if isinstance(text, str) and text.startswith("{") else {}
    except InvalidInput:
        return {}
    return value if isinstance(value, dict) else {}


CHATS = (
    Format("chatgpt", lambda value: isinstance(value.get("mapping"), dict), _read_chatgpt),
    Format("claude", lambda value: isinstance(value.get("chat_messages"), list), _read_claude),
)
