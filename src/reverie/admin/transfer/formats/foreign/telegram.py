"""Reader of exports of Telegram Desktop: `result.json`, of one chat or of all.

An export of everything names its owner; messages of others, and forwarded ones, are never the owner's word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from reverie.admin.transfer.formats.foreign.chat_builder import ConversationBuilder, mark_sender
from reverie.admin.transfer.formats.foreign.fields import parse_moment, to_text
from reverie.admin.transfer.items import ImportTerms, Item
from reverie.domain.errors import InvalidInput

FORM = "telegram"

_MEDIA = ("media_type", "photo", "file")


def is_export(data: Any) -> bool:
    """Whether an object looks like an export of one chat or of all."""
    if not isinstance(data, dict):
        return False
    messages = data.get("messages")
    if isinstance(messages, list) and "type" in data and "id" in data:
        return all(isinstance(each, dict) and "date" in each and "type" in each for each in messages[:1])
    return isinstance(data.get("chats"), dict) and isinstance(data["chats"].get("list"), list)


def parse_export(data: Mapping[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    """Yield the turns of all chats of an export.

    Raises:
        InvalidInput: it is no export.
    """
    if not is_export(data):
        raise InvalidInput("no export of Telegram: it has neither 'messages' nor 'chats'")
    about = data.get("personal_information")
    owner = f"user{about.get('user_id')}" if isinstance(about, dict) else None
    for number, chat in enumerate([data] if "messages" in data else data["chats"]["list"], start=1):
        where = place if "messages" in data else f"{place}, chat {number}"
        if is_export(chat):
            yield from _parse_chat(chat, terms, where, owner)


def _parse_chat(data: Mapping[str, Any], terms: ImportTerms, place: str, owner: str | None) -> Iterator[Item]:
    messages = [each for each in data["messages"] if isinstance(each, dict)]
    chat = ConversationBuilder(
        f"{FORM}:{data['id']}",
        form=FORM,
        place=place,
        terms=terms,
        times=map(_parse_time, messages),
        metadata={"title": data.get("name") or data["type"], "imported_from": FORM},
    )
    for message in messages:
        if message.get("type") != "message":
            chat.leave_out("turn", "unsupported", "a notice, such as of a call")
            continue
        is_own = owner is not None and message.get("from_id") == owner and "forwarded_from" not in message
        media = next((name for name in _MEDIA if message.get(name)), None)
        texts = [_flatten_text(message.get("text"))]
        if media is not None:
            texts.insert(0, f"[{to_text(message[media]) if media == 'media_type' else media}]")
            chat.leave_out_file()
        chat.add(
            str(message.get("id")),
            "user",
            "\n".join(text for text in texts if text),
            at=_parse_time(message),
            speaker=to_text(message.get("from") or ""),
            metadata={} if is_own else mark_sender(terms),
        )
    yield from chat.items()


def _parse_time(message: Mapping[str, Any]) -> datetime | None:
    seconds = str(message.get("date_unixtime"))
    return parse_moment(int(seconds) if seconds.isdecimal() else message.get("date"))


def _flatten_text(value: Any) -> str:
    """Return a text that may be given as a list of plain and formatted parts."""
    parts = value if isinstance(value, list) else [value]
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return "".join(text for text in texts if isinstance(text, str))
