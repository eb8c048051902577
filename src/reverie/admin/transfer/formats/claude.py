"""Reader of the exports of Claude: `conversations.json`, alone or in its zip archive.

A message has `sender` (`human` or `assistant`), `text`, and in later exports `content`: blocks of text,
reasoning (left out), tool calls and their results. Text extracted from an attached file is kept; other files
are only named.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from reverie.admin.transfer.batch import Form, ImportTerms, Item, hash_texts
from reverie.admin.transfer.formats.foreign import (
    ConversationBuilder,
    build_tool_call,
    filter_objects,
    parse_moment,
    read_values,
    select_branch,
    to_text,
)
from reverie.admin.transfer.safe_reading import SourceFile
from reverie.domain.conversation import Role, ToolCall
from reverie.domain.errors import InvalidInput

FORM: Form = "claude"

_ROLES: Mapping[str, Role] = {"human": "user", "user": "user", "assistant": "assistant", "system": "system"}
_REASONING = {"thinking", "redacted_thinking"}
_SAYS_NOTHING = {"token_budget", "flag"}
_PARENT = "parent_message_uuid"


class Claude:
    """The format of Claude's exports."""

    form: Form = FORM

    def recognises(self, value: object) -> bool:
        """Return whether a value is a conversation of Claude."""
        return isinstance(value, dict) and isinstance(value.get("chat_messages"), list)

    def read(self, file: SourceFile, terms: ImportTerms) -> Iterator[Item]:
        """Yield the conversations of a file; raise `InvalidInput` if the rest of it cannot be read."""
        return read_values(
            file, self.recognises, lambda value, place: _parse_conversation(value, terms, place),
            what="session", otherwise="no conversation of Claude: it has no 'chat_messages'", field="chat_messages",
        )  # fmt: skip


def _parse_conversation(data: Mapping[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    name = data.get("uuid") or data.get("id")
    if not isinstance(name, str):
        raise InvalidInput("no conversation of Claude: it has no 'uuid'")
    messages = _find_message_path(filter_objects(data["chat_messages"]), data)
    changed = parse_moment(data.get("updated_at"))
    chat = ConversationBuilder(
        f"{FORM}:{name}",
        form=FORM,
        place=place,
        terms=terms,
        times=map(parse_moment, (each.get("created_at") for each in (data, *messages))),
        metadata={
            "title": data.get("name"),
            "model": data.get("model"),
            "source_updated_at": changed and changed.isoformat(),
            "imported_from": FORM,
        },
    )
    for each in data["chat_messages"]:
        if not isinstance(each, dict):
            chat.leave_out("turn", "broken", "not an object")
    for message in messages:
        _Message(chat, message).add()
    yield from chat.items()


def _find_message_path(messages: list[dict[str, Any]], data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of the branch last viewed; all of them, in order, if the export has no branches."""
    by_name = {name: message for message in messages if isinstance(name := message.get("uuid"), str)}
    if len(by_name) < len(messages) or not any(message.get(_PARENT) for message in messages):
        return messages
    leaf = data.get("current_leaf_message_uuid")
    path = select_branch(
        by_name, leaf, parent=_PARENT, time=lambda message: parse_moment(message.get("created_at"))
    )
    return [by_name[name] for name in path]


class _Message:
    """Conversion of one message, up to the next result of a tool."""

    def __init__(self, chat: ConversationBuilder, message: Mapping[str, Any]) -> None:
        self._chat = chat
        self._message = message
        self._texts: list[str] = []
        self._calls: list[ToolCall] = []
        self._open: list[str] = []  # ids of calls without a result
        self._pieces = 0
        self._at = parse_moment(message.get("created_at"))
        content = message.get("content")
        self._blocks: list[Any] = content if isinstance(content, list) else []
        self._name = str(
            message.get("uuid")
            or hash_texts(
                str(message.get("sender")), str(message.get("created_at")), to_text(message.get("text"))
            )
        )

    def add(self) -> None:
        """Add the turns of the message."""
        role = _ROLES.get(str(self._message.get("sender") or self._message.get("role")).lower())
        if role is None:
            self._chat.leave_out("turn", "broken", "its sender is neither human nor assistant")
            return
        for block in self._blocks:
            self._add_block(block, role)
        has_text = any(text.strip() for text in self._texts)
        if not has_text and not self._pieces and isinstance(text := self._message.get("text"), str):
            self._texts = [text]
        self._add_attachments()
        if self._calls or any(text.strip() for text in self._texts) or not self._pieces:
            self._finish(role)

    def _add_block(self, block: Any, role: Role) -> None:
        if not isinstance(block, dict):
            return
        kind = str(block.get("type"))
        if kind == "text" and isinstance(block.get("text"), str):
            self._texts.append(block["text"])
        elif kind in _REASONING:
            self._chat.leave_out("turn", "unsupported", "a model's reasoning")
        elif kind == "tool_use" and role == "assistant":
            call = self._call(block)
            self._calls.append(call)
            self._open.append(call.id)
        elif kind == "tool_result":
            self._add_result(block, role)
        elif kind not in _SAYS_NOTHING:
            self._chat.leave_out("attachment", "unsupported", f"content of type {kind[:50]!r}")

    def _call(self, block: Mapping[str, Any]) -> ToolCall:
        given = block.get("id")
        name = given if isinstance(given, str) and given else f"{self._name}:{len(self._open)}"
        arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
        return build_tool_call(name, str(block.get("name") or ""), arguments)

    def _add_result(self, block: Mapping[str, Any], role: Role) -> None:
        if self._calls or self._texts:
            self._finish(role)
        given = block.get("tool_use_id")
        answered = given if isinstance(given, str) and given else next(iter(self._open), "")
        if answered in self._open:
            self._open.remove(answered)
        name = block.get("name")
        self._add(
            "tool",
            _extract_text(block.get("content")),
            tool_call_id=answered,
            metadata={"tool": name} if isinstance(name, str) else {},
        )

    def _add_attachments(self) -> None:
        for each in filter_objects(self._message.get("attachments")):
            name = to_text(each.get("file_name") or "attachment")
            extracted = each.get("extracted_content")
            if isinstance(extracted, str) and extracted.strip():
                self._texts.append(f"[{name}]\n{extracted}")
            else:
                self._add_file_name(name)
        for each in filter_objects(self._message.get("files")):
            self._add_file_name(to_text(each.get("file_name") or "file"))

    def _add_file_name(self, name: str) -> None:
        self._texts.append(f"[{name}]")
        self._chat.leave_out("attachment", "unsupported", "a file: the export names it, and that is kept")

    def _finish(self, role: Role) -> None:
        text = "\n\n".join(text for text in self._texts if text)
        self._add(role, text, tool_calls=self._calls, message=self._message)
        self._texts, self._calls = [], []

    def _add(self, role: Role, content: str, **fields: Any) -> None:
        source_id = f"{self._name}:{self._pieces}" if self._pieces else self._name
        self._pieces += 1
        self._chat.add(source_id, role, content, at=self._at, **fields)


def _extract_text(content: Any) -> str:
    """Return the text of a tool's result."""
    if isinstance(content, str):
        return content
    texts = [each.get("text") for each in filter_objects(content)]
    return "\n".join(text for text in texts if isinstance(text, str))
