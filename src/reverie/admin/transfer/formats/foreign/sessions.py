"""Reader of conversations: session files of golemcore and Autobot, and files of messages.

Autobot writes `sessions/{channel}_{chat}.jsonl`: a line of metadata (`"_type": "metadata"`), then a message a
line. golemcore writes `sessions/{channel}:{chat}.json`: an object with `messages`. The conversation continues
under its old name. `conversations` describes the other form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.conversations import parse_turns, read_conversations
from reverie.admin.transfer.formats import notes
from reverie.admin.transfer.formats.foreign.chat_builder import (
    ConversationBuilder,
    SourceIds,
    build_tool_call,
)
from reverie.admin.transfer.formats.foreign.fields import ForeignFields, parse_moment, to_text
from reverie.admin.transfer.items import SOURCE_ID, ImportTerms, Item, Skipped
from reverie.domain.conversation import SESSION_STATUSES
from reverie.domain.errors import InvalidInput

FORM = "sessions"

_NAMES = {"toolCalls": "tool_calls", "toolCallId": "tool_call_id"}
_TIMES = ("timestamp", "at", "created_at", "createdAt", "time")


def read_file(path: Path, terms: ImportTerms) -> Iterator[Item]:
    """Yield the conversations of a file, after one pass in which a fault anywhere refuses the whole file."""
    for _ in read_conversations(path):
        pass
    ids = SourceIds()
    last: dict[str, datetime] = {}
    for piece in read_conversations(path):
        times = [last.get(piece.session), piece.begun, *(turn.get("at") for turn in piece.turns)]
        chat = ConversationBuilder(piece.session, form="messages", place=path.name, terms=terms, times=times)
        for turn in piece.turns:
            at = turn["at"].isoformat() if "at" in turn else ""
            _add_turn(chat, _assign_id(ids, turn, piece.session, at, turn.get("speaker", "")), turn)
        last[piece.session] = chat.last
        yield from chat.items()


def read(path: Path, terms: ImportTerms, *, name: str) -> Iterator[Item]:
    """Yield the session of a file of golemcore or Autobot, `.json` or `.jsonl`."""
    try:
        if path.suffix == ".json":
            data = safe_reading.parse_json_object(safe_reading.read_text(path))
            messages = data.pop("messages", None)
            if not isinstance(messages, list):
                raise InvalidInput("no session: it has no list of 'messages'")
            places = (f"{name}, message {number}" for number in range(1, len(messages) + 1))
            yield from _read_session(name, terms, data, zip(places, messages, strict=True))
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
            rest = numbered if about else chain([first], numbered)
            yield from _read_session(name, terms, about, rest)
    except InvalidInput as error:
        yield notes.skip("session", name, error)


def _assign_id(ids: SourceIds, turn: dict[str, Any], session: str, *context: str) -> str:
    """Remove the id from a turn's metadata and return it; without one, derive it from the turn and its context."""
    parts = (turn["role"], *context, turn["content"], str(turn.get("tool_call_id")))
    return ids.assign(session, turn.pop("metadata", {}).get(SOURCE_ID, ""), *parts)


def _add_turn(chat: ConversationBuilder, source_id: str, turn: Mapping[str, Any]) -> None:
    calls = turn.get("tool_calls", ())
    chat.add(
        source_id,
        turn["role"],
        turn["content"],
        at=turn.get("at"),
        speaker=turn.get("speaker", ""),
        tool_calls=[build_tool_call(call.id, call.name, call.arguments) for call in calls],
        tool_call_id=turn.get("tool_call_id", ""),
    )


def _is_metadata(data: Mapping[str, Any]) -> bool:
    return "role" not in data and ("_type" in data or "created_at" in data)


def _read_session(
    name: str, terms: ImportTerms, data: Mapping[str, Any], numbered: Iterator[tuple[str, Any]]
) -> Iterator[Item]:
    """Yield the turns of a session, then the messages that are left out.

    Args:
        name: Name of the file.
        terms: The terms.
        data: What the file says about the session.
        numbered: The messages, each with its place.
    """
    about = ForeignFields(data)
    # The first `_` of a file's name stands for the `:` between channel and chat.
    stem = PurePosixPath(name).stem
    session = about.label("id", "key") or (stem if ":" in stem else stem.replace("_", ":", 1))
    turns: list[tuple[str, dict[str, Any]]] = []
    ids = SourceIds()
    skipped: list[Skipped] = []
    for place, given in numbered:
        try:
            if isinstance(given, InvalidInput):
                raise given
            if not isinstance(given, dict):
                raise InvalidInput(f"{place}: no object")
            message, time = _to_own_message(given)
            parsed = parse_turns(message, place)
        except InvalidInput as error:
            detail = str(error).removeprefix(f"{place}: ")
            skipped.append(Skipped(what="turn", place=place, why=notes.get_skip_reason(error), detail=detail))
            continue
        if not parsed:
            skipped.append(Skipped(what="turn", place=place, why="empty"))
        turns += [(_assign_id(ids, turn, session, time), turn) for turn in parsed]
    state = about.text("state", "status").lower()
    chat = ConversationBuilder(
        session,
        form=FORM,
        place=name,
        terms=terms,
        times=[about.moment("createdAt"), *(turn.get("at") for _, turn in turns)],
        metadata={**about.texts("metadata"), "imported_from": name[:200]},
        status=next((status for status in SESSION_STATUSES if status == state), "active"),
    )
    for source_id, turn in turns:
        _add_turn(chat, source_id, turn)
    yield from chat.items()
    yield from skipped


def _to_own_message(data: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return a message as `parse_turns` takes it, and its time as the file has it."""
    message = {_NAMES.get(name, name): value for name, value in data.items() if value is not None}
    time = next((message[name] for name in _TIMES if name in message), None)
    for name in (*_TIMES, "session", "session_id", "conversation"):
        message.pop(name, None)
    if (at := parse_moment(time)) is not None:
        message["at"] = at.isoformat()
    if message.get("role") != "tool":
        message.pop("tool_call_id", None)
    for name in ("speaker", "name", "id"):  # only text and numbers are labels
        if name in message and not isinstance(message[name], str | int):
            message.pop(name)
    return message, "" if time is None else to_text(time)
