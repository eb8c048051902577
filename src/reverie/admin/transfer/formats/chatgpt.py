"""Reader of the exports of ChatGPT: `conversations.json`, alone or in its zip archive.

A conversation is a tree: an edited question and a repeated answer begin new branches. The path from
`current_node` to the root is what the person saw last; other branches are left out. Hidden messages (the
system's, custom instructions) and reasoning are left out too; pictures and files are only named.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from reverie.admin.transfer.batch import Form, ImportTerms, Item
from reverie.admin.transfer.formats.foreign import (
    ConversationBuilder,
    build_tool_call,
    parse_moment,
    read_values,
    select_branch,
)
from reverie.admin.transfer.safe_reading import SourceFile
from reverie.domain.conversation import ROLES, Role
from reverie.domain.errors import InvalidInput

FORM: Form = "chatgpt"

_REASONING = {"thoughts", "reasoning_recap"}
_INSTRUCTIONS = {"user_editable_context", "model_editable_context"}


class ChatGpt:
    """The format of ChatGPT's exports."""

    form: Form = FORM

    def recognises(self, value: object) -> bool:
        """Return whether a value is a conversation of ChatGPT."""
        return isinstance(value, dict) and isinstance(value.get("mapping"), dict)

    def read(self, file: SourceFile, terms: ImportTerms) -> Iterator[Item]:
        """Yield the conversations of a file; raise `InvalidInput` if the rest of it cannot be read."""
        return read_values(
            file, self.recognises, lambda value, place: _parse_conversation(value, terms, place),
            what="session", otherwise="no conversation of ChatGPT: it has no 'mapping'", field="mapping",
        )  # fmt: skip


def _parse_conversation(data: Mapping[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    name = data.get("conversation_id") or data.get("id")
    if not isinstance(name, str):
        raise InvalidInput("no conversation of ChatGPT: it has no 'id'")
    nodes = {name: node for name, node in data["mapping"].items() if isinstance(node, dict)}
    path = select_branch(nodes, data.get("current_node"), parent="parent", time=_get_node_time)
    messages = [
        {**message, "id": message.get("id") or name}
        for name in path
        if isinstance(message := nodes[name].get("message"), dict)
    ]
    changed = parse_moment(data.get("update_time"))
    chat = ConversationBuilder(
        f"{FORM}:{name}",
        form=FORM,
        place=place,
        terms=terms,
        times=map(parse_moment, (each.get("create_time") for each in (data, *messages))),
        metadata={
            "title": data.get("title"),
            "model": data.get("default_model_slug"),
            "gizmo": data.get("gizmo_id"),
            "source_updated_at": changed and changed.isoformat(),
            "imported_from": FORM,
        },
    )
    reading = _Reading(chat)
    for message in messages:
        reading.add(message)
    yield from chat.items()


def _get_node_time(node: Mapping[str, Any]) -> datetime | None:
    message = node.get("message")
    return parse_moment(message.get("create_time")) if isinstance(message, dict) else None


class _Reading:
    """Conversion of the messages of one path."""

    def __init__(self, chat: ConversationBuilder) -> None:
        self._chat = chat
        self._asked: dict[str, str] = {}  # tools that were called, with the ids of the last calls

    def add(self, message: Mapping[str, Any]) -> None:
        """Add one message."""
        author = message.get("author")
        author = author if isinstance(author, dict) else {}
        content = message.get("content")
        content = content if isinstance(content, dict) else {"content_type": "text", "parts": [content]}
        kind = str(content.get("content_type"))
        if _is_hidden(message) or kind in _INSTRUCTIONS:
            self._chat.leave_out("turn", "unsupported", "hidden from the person, such as instructions")
            return
        if kind in _REASONING:
            self._chat.leave_out("turn", "unsupported", "a model's reasoning")
            return
        role = next((role for role in ROLES if role == author.get("role")), None)
        if role is None:
            self._chat.leave_out("turn", "broken", "its role is none of user, assistant, system, tool")
            return
        self._add_message(message, role, str(author.get("name") or ""), content, kind)

    def _add_message(
        self, message: Mapping[str, Any], role: Role, name: str, content: Mapping[str, Any], kind: str
    ) -> None:
        source_id, at = str(message["id"]), parse_moment(message.get("create_time"))
        text = self._extract_text(content, kind)
        recipient = str(message.get("recipient") or "all")
        model = {"model": _get_model(message)}
        if role == "assistant" and recipient not in ("all", "assistant"):
            call = build_tool_call(source_id, recipient, _to_json_arguments(text))
            self._asked[recipient] = call.id
            self._chat.add(source_id, role, "", at=at, tool_calls=[call], metadata=model)
        elif role == "tool":
            answered = self._asked.get(name, "")
            self._chat.add(
                source_id, role, text, at=at, tool_call_id=answered, metadata={"tool": name} if name else {}
            )
        else:
            self._chat.add(source_id, role, text, at=at, speaker=name, metadata=model, message=message)

    def _extract_text(self, content: Mapping[str, Any], kind: str) -> str:
        parts = content.get("parts")
        if isinstance(parts, list):
            texts = (self._extract_part_text(part) for part in parts)
            return "\n".join(text for text in texts if text)
        for name in ("text", "result", "content"):
            if isinstance(value := content.get(name), str):
                quoted = content.get("title") if kind == "tether_quote" else None
                return f"{quoted}\n{value}" if isinstance(quoted, str) and quoted else value
        if kind != "text":
            self._chat.leave_out("attachment", "unsupported", f"content of type {kind[:50]!r}")
        return ""

    def _extract_part_text(self, part: Any) -> str:
        if isinstance(part, str):
            return part
        if not isinstance(part, dict):
            return ""
        if isinstance(text := part.get("text"), str):  # what was spoken
            return text
        kind = str(part.get("content_type", "part")).removesuffix("_asset_pointer")[:50]
        self._chat.leave_out("attachment", "unsupported", f"{kind}: the export names it, and that is kept")
        return f"[{kind}]"


def _is_hidden(message: Mapping[str, Any]) -> bool:
    metadata = message.get("metadata")
    return isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation") is True


def _get_model(message: Mapping[str, Any]) -> str:
    metadata = message.get("metadata")
    model = metadata.get("model_slug") if isinstance(metadata, dict) else None
    return model if isinstance(model, str) else ""


def _to_json_arguments(text: str) -> str:
    """Return the arguments of a tool call as JSON."""
    try:
        if isinstance(json.loads(text), dict):
            return text
    except (ValueError, RecursionError):
        pass
    return json.dumps({"input": text}, ensure_ascii=False)
