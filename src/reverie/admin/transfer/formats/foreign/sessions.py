"""What do the session files of golemcore and Autobot hold? Read into turns of sessions of the same name.

Autobot writes `sessions/{channel}_{chat}.jsonl`: a line of metadata (`"_type": "metadata"`), then a message a
line. golemcore writes `sessions/{channel}:{chat}.json`: an object with `messages`. The conversation goes on
under its old name, so nothing is put before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.conversations import SOURCE_ID, parse_turns
from reverie.admin.transfer.formats import notes
from reverie.admin.transfer.formats.foreign.chat_builder import ConversationBuilder, build_tool_call
from reverie.admin.transfer.formats.foreign.fields import ForeignFields, parse_moment, to_text
from reverie.admin.transfer.items import ImportTerms, Item, Skipped, hash_texts
from reverie.domain.conversation import SESSION_STATUSES
from reverie.domain.errors import InvalidInput

FORM = "sessions"

_NAMES = {"toolCalls": "tool_calls", "toolCallId": "tool_call_id"}
_TIMES = ("timestamp", "at", "created_at", "createdAt", "time")


def read(path: Path, terms: ImportTerms, *, name: str) -> Iterator[Item]:
    """The session in one file.

    Args:
        path: The file, `.json` or `.jsonl`.
        terms: How it is to be taken in.
        name: What to call the file.
    """
    try:
        if path.suffix == ".json":
            data = safe_reading.parse_json_object(safe_reading.read_text(path))
            yield from _Reading(name, terms, data).messages(
                (f"{name}, message {number}", each)
                for number, each in enumerate(_validate_messages(data.pop("messages", None)), start=1)
            )
            return
        with safe_reading.open_file(path) as file:
            numbered = (
                (f"{name}, line {number}", data) for number, data in safe_reading.iter_documents(file)
            )
            first = next(numbered, None)
            if first is None:
                yield Skipped(what="session", place=name, why="empty")
                return
            about = first[1] if isinstance(first[1], dict) and _is_metadata(first[1]) else {}
            rest = numbered if about else _prepend_first(first, numbered)
            yield from _Reading(name, terms, about).messages(rest)
    except InvalidInput as error:
        yield Skipped(what="session", place=name, why=notes.get_skip_reason(error), detail=str(error))


def _prepend_first(first: tuple[str, Any], rest: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    yield first
    yield from rest


def _is_metadata(data: Mapping[str, Any]) -> bool:
    return "role" not in data and ("_type" in data or "created_at" in data)


def _validate_messages(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidInput("no session: it has no list of 'messages'")
    return value


class _Reading:
    """One session while it is read."""

    def __init__(self, name: str, terms: ImportTerms, about: Mapping[str, Any]) -> None:
        fields = ForeignFields(about)
        # The first `_` of a file's name stands for the `:` between channel and chat.
        stem = PurePosixPath(name).stem
        self._terms = terms
        self._about = fields
        self._place = name
        self._session = fields.label("id", "key") or (stem if ":" in stem else stem.replace("_", ":", 1))

    def messages(self, numbered: Iterator[tuple[str, Any]]) -> Iterator[Item]:
        """The session's turns."""
        read: list[tuple[str, str, dict[str, Any]]] = []
        seen = Counter[str]()
        broken: list[Skipped] = []
        for place, data in numbered:
            try:
                if isinstance(data, InvalidInput):
                    raise data
                if not isinstance(data, dict):
                    raise InvalidInput(f"{place}: no object")
                message, told = _to_own_message(data)
                turns = parse_turns(message, place)
            except InvalidInput as error:
                detail = str(error).removeprefix(f"{place}: ")
                broken.append(
                    Skipped(what="turn", place=place, why=notes.get_skip_reason(error), detail=detail)
                )
                continue
            if not turns:
                broken.append(Skipped(what="turn", place=place, why="empty"))
            for turn in turns:
                given = turn.pop("metadata", {}).get(SOURCE_ID)
                identity = given or hash_texts(
                    turn["role"], told, turn["content"], str(turn.get("tool_call_id"))
                )
                seen[identity] += 1
                read.append((f"{identity}:{seen[identity]}" if seen[identity] > 1 else identity, told, turn))
        yield from self._build_chat(read).items()
        yield from broken

    def _build_chat(self, read: list[tuple[str, str, dict[str, Any]]]) -> ConversationBuilder:
        times = (turn["at"] for _, _, turn in read if "at" in turn)
        state = self._about.text("state", "status").lower()
        chat = ConversationBuilder(
            self._session,
            form=FORM,
            place=self._place,
            begun=self._about.moment("createdAt") or next(times, self._terms.now),
            scope=self._terms.foreign_scope,
            metadata={**self._about.texts("metadata"), "imported_from": self._place[:200]},
            status=next((status for status in SESSION_STATUSES if status == state), "active"),
        )
        for source_id, _, turn in read:
            chat.add(
                source_id,
                turn["role"],
                turn["content"],
                at=turn.get("at"),
                speaker=turn.get("speaker", ""),
                tool_calls=[
                    build_tool_call(call.id, call.name, call.arguments) for call in turn.get("tool_calls", ())
                ],
                tool_call_id=turn.get("tool_call_id", ""),
            )
        return chat


def _to_own_message(data: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """A message as `turns_of` takes it, and its time as the file has it."""
    message = {_NAMES.get(name, name): value for name, value in data.items() if value is not None}
    told = next((message[name] for name in _TIMES if name in message), None)
    for name in (*_TIMES, "session", "session_id", "conversation"):
        message.pop(name, None)
    if (at := parse_moment(told)) is not None:
        message["at"] = at.isoformat()
    if message.get("role") != "tool":
        message.pop("tool_call_id", None)
    for name in ("speaker", "name", "id"):  # labels of ours; anything else there is not one
        if name in message and not isinstance(message[name], str | int):
            message.pop(name)
    return message, "" if told is None else to_text(told)
