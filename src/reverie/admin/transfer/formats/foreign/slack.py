"""Reader of exports of Slack: a folder for each channel, a file for each day, and the names in `users.json`."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.formats import notes
from reverie.admin.transfer.formats.foreign.chat_builder import ConversationBuilder, SourceIds, mark_sender
from reverie.admin.transfer.formats.foreign.fields import filter_objects, parse_moment, to_text
from reverie.admin.transfer.items import ImportTerms, Item, Skipped
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex

FORM = "slack"
USERS = "users.json"

_SPOKEN = {"", "bot_message", "me_message", "thread_broadcast", "file_share", "file_comment"}
_LINK = defer_regex(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")


def is_message(data: Any) -> bool:
    """Whether an object looks like a message of Slack."""
    return isinstance(data, dict) and data.get("type") == "message" and "ts" in data


class WorkspaceReader:
    """Reader of the files of one workspace; the names of people are read before their messages."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def read(self, file: safe_reading.Readable, terms: ImportTerms, name: str) -> Iterator[Item]:
        """Yield the messages of one channel and day.

        Raises:
            InvalidInput: the file cannot be read.
        """
        path = PurePosixPath(name)
        if path.name == USERS:
            for text in safe_reading.iter_elements(file):
                user = safe_reading.parse_json_object(text)
                self._names[str(user.get("id"))] = _get_name(user)
            return
        messages, skipped = list[dict[str, Any]](), list[Skipped]()
        for number, text in enumerate(safe_reading.iter_elements(file), start=1):
            try:
                messages.append(safe_reading.parse_json_object(text))
            except InvalidInput as error:
                skipped.append(notes.skip("turn", f"{name}, message {number}", error))
        chat = ConversationBuilder(
            f"{FORM}:{path.parent.name or path.stem}",
            form=FORM,
            place=name,
            terms=terms,
            times=(parse_moment(_parse_seconds(message.get("ts"))) for message in messages),
            metadata={"imported_from": FORM},
        )
        ids = SourceIds()
        for message in messages:
            self._add(chat, ids, message, terms)
        yield from chat.items()
        yield from skipped

    def _add(
        self, chat: ConversationBuilder, ids: SourceIds, message: Mapping[str, Any], terms: ImportTerms
    ) -> None:
        if not is_message(message) or str(message.get("subtype") or "") not in _SPOKEN:
            chat.leave_out("turn", "unsupported", "a notice, such as that somebody joined")
            return
        user = str(message.get("user") or message.get("bot_id") or "")
        profile = message.get("user_profile")
        speaker = (
            self._names.get(user)
            or (_get_name({"profile": profile}) if isinstance(profile, dict) else "")
            or to_text(message.get("username") or user)
        )
        files = filter_objects(message.get("files"))
        names = [f"[{to_text(each.get('name') or 'file')}]" for each in files]
        if names:
            chat.leave_out_file()
        content = html.unescape(_LINK.sub(self._replace_link, to_text(message.get("text") or "")))
        chat.add(
            ids.assign("", to_text(message["ts"]), content),
            "user",
            "\n".join([*filter(None, [content]), *names]),
            at=parse_moment(_parse_seconds(message["ts"])),
            speaker=speaker,
            metadata=mark_sender(terms),
        )

    def _replace_link(self, match: re.Match[str]) -> str:
        kind, target, label = match.groups()
        if kind == "@":
            return f"@{label or self._names.get(target, target)}"
        if kind:
            return f"{'#' if kind == '#' else '@'}{label or target}"
        return f"{label} ({target})" if label and label != target else target


def _get_name(user: Mapping[str, Any]) -> str:
    profile = user.get("profile")
    for fields in (profile if isinstance(profile, dict) else {}, user):
        for key in ("display_name", "real_name", "name"):
            if name := fields.get(key):
                return to_text(name)
    return ""


def _parse_seconds(ts: Any) -> float | None:
    try:
        return float(ts)
    except (TypeError, ValueError, OverflowError):
        return None
