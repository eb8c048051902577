"""Reader of BEAM: chats with long messages, and questions with the messages that answer them.

A folder with a folder for each chat (or one such folder), which has `chat.json`: a list of batches, each
with `turns`, a list of groups of messages (`role`, `id`, `content`); and `probing_questions.json`:
question class -> list of `question` and `source_chat_ids` (a list of message ids, or lists of them by
name). A batch is a session, with its `time_anchor` as date. Questions of the class `abstention` have no
answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from evaluation.boards.datasets import Dialogue, Dialogues, EvalQuestion, ImportedConversation, read_json
from reverie.admin.transfer.batch import SOURCE_ID
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.tokenizer import MONTHS

ABSTENTION = "abstention"

_DATE = defer_regex(r"([a-z]+)-(\d{1,2})-(\d{4})")
_BETWEEN_TURNS = timedelta(seconds=10)


def read(path: Path) -> Dialogues:
    """Read the chats and questions of a folder, in the order of the chats' numbers.

    Raises:
        InvalidInput: it is no such folder, or something in it is not of its form; the message names the
        place.
    """
    chats = [path] if (path / "chat.json").exists() else [file.parent for file in path.glob("*/chat.json")]
    if not chats:
        raise InvalidInput(f"{path}: neither 'chat.json' nor folders with a 'chat.json' in it")
    dropped: Counter[str] = Counter()
    ordered = sorted(chats, key=lambda chat: (int(chat.name) if chat.name.isdecimal() else 0, chat.name))
    dialogues = tuple(_load_dialogue(chat, dropped) for chat in ordered)
    return Dialogues(name=path.resolve().name, dialogues=dialogues, dropped=dict(dropped))


def _load_dialogue(chat: Path, dropped: Counter[str]) -> Dialogue:
    name = chat.resolve().name
    sessions = tuple(_iterate_sessions(chat / "chat.json", name))
    known = {turn["metadata"][SOURCE_ID] for session in sessions for turn in session.turns}
    file = chat / "probing_questions.json"
    classes = read_json(file)
    if not isinstance(classes, dict):
        raise InvalidInput(f"{file}: expected an object of question classes")
    questions = []
    for category, entries in classes.items():
        if not isinstance(entries, list):
            raise InvalidInput(f"{file}, {category!r}: expected a list of questions")
        questions += [
            _parse_question(entry, f"{name}/{category}/{i}", category, known, file, dropped)
            for i, entry in enumerate(entries)
        ]
    return Dialogue(name=name, sessions=sessions, questions=tuple(questions))


def _iterate_sessions(file: Path, name: str) -> Iterator[ImportedConversation]:
    batches = read_json(file)
    if not isinstance(batches, list) or not batches:
        raise InvalidInput(f"{file}: expected a list of batches with 'turns'")
    for number, batch in enumerate(batches, start=1):
        place = f"{file}, batch {number}"
        groups = batch.get("turns") if isinstance(batch, dict) else None
        if not isinstance(groups, list) or not all(isinstance(group, list) for group in groups):
            raise InvalidInput(f"{place}: 'turns' is no list of lists of messages")
        messages = [message for group in groups for message in group]
        began = _parse_start(batch, messages, place)
        turns = [
            _parse_turn(message, began and began + i * _BETWEEN_TURNS, f"{place}, message {i}")
            for i, message in enumerate(messages)
        ]
        if spoken := [turn for turn in turns if turn["content"].strip()]:
            yield ImportedConversation(session=f"beam:{name}:batch_{number}", turns=spoken)


def _parse_turn(message: Any, at: datetime | None, place: str) -> dict[str, Any]:
    if not isinstance(message, dict) or "id" not in message or not isinstance(message.get("content"), str):
        raise InvalidInput(f"{place}: it needs 'role', 'id' and the text 'content'")
    if message.get("role") not in ("user", "assistant"):
        raise InvalidInput(f"{place}: role is {message.get('role')!r}: expected user or assistant")
    turn = {
        "role": message["role"],
        "content": message["content"],
        "metadata": {SOURCE_ID: str(message["id"])},
    }
    return turn if at is None else turn | {"at": at}


def _parse_start(batch: dict[str, Any], messages: list[Any], place: str) -> datetime | None:
    """Parse a batch's date, `March-15-2024`, from the batch or its first message; None without one."""
    first = messages[0] if messages and isinstance(messages[0], dict) else {}
    text = batch.get("time_anchor") or first.get("time_anchor")
    if not text:
        return None
    found = _DATE.fullmatch(str(text).strip().lower())
    if found and found[1] in MONTHS:
        try:
            return datetime(int(found[3]), MONTHS.index(found[1]) + 1, int(found[2]), 9, tzinfo=UTC)
        except ValueError:
            pass
    raise InvalidInput(f"{place}: time_anchor is {text!r}: expected a date such as 'March-15-2024'")


def _parse_question(
    entry: Any, id: str, category: str, known: set[str], file: Path, dropped: Counter[str]
) -> EvalQuestion:
    if not isinstance(entry, dict) or not isinstance(entry.get("question"), str):
        raise InvalidInput(f"{file}, {id}: there is no 'question' in it")
    named = dict.fromkeys(_iterate_ids(entry.get("source_chat_ids"), f"{file}, {id}"))
    dropped.update("evidence naming an unknown message" for name in named if name not in known)
    return EvalQuestion(
        id=id,
        text=entry["question"],
        evidence={name: 1.0 for name in named if name in known},
        category=category,
        answerable=category != ABSTENTION,
    )


def _iterate_ids(value: Any, place: str) -> Iterator[str]:
    """Iterate over the message ids in nested lists and mappings."""
    if value is None:
        return
    if isinstance(value, int | str) and not isinstance(value, bool):
        yield str(value)
        return
    if not isinstance(value, dict | list):
        raise InvalidInput(f"{place}: source_chat_ids has {value!r}: expected ids of messages")
    for one in value.values() if isinstance(value, dict) else value:
        yield from _iterate_ids(one, place)
