"""Reader of chats exported from WhatsApp, as a text file or the zip archive with it.

A message begins a line with its time and sender, and may go on over further lines. A line without a sender is a
notice, and is left out. The export names no time zone, so times are taken as UTC. It does not say whether the day
or the month stands first: the order is used in which time goes forward. Where both do, the month is first only in
the form of the United States, with slashes and PM in capitals: others write "pm", "p. m.", dots or 24 hours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise

from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.formats.foreign.chat_builder import ConversationBuilder, SourceIds, mark_sender
from reverie.admin.transfer.items import ImportTerms, Item
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex

FORM = "whatsapp"

_LINE = defer_regex(
    r"""[\u200e\u200f\ufeff]?\[?
    (\d{1,4})[./-](\d{1,2})[./-](\d{1,4})\.?,?\s
    (\d{1,2})[:.](\d\d)(?:[:.](\d\d))?(?:\s?([ap])\.?\s?m\.?)?
    (?:\]|\s-)\s(.*)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_MARKS = "\u200e\u200f"
_TITLE = defer_regex(r"WhatsApp Chat (?:with|-) ")
_ORDERS = ((2, 1, 0), (2, 0, 1))
"""Places of year, month and day: day first, then month first."""


def is_chat(line: str) -> bool:
    """Whether a text begins as an exported chat does."""
    return _LINE.match(line) is not None


def read(file: safe_reading.Readable, terms: ImportTerms, name: str) -> Iterator[Item]:
    """Yield the messages of a chat.

    Raises:
        InvalidInput: it cannot be read, or is no chat.
    """
    try:
        messages = _split_messages(safe_reading.read_open_text(file))
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error}") from None
    times = _parse_times([match for match, _ in messages])
    if not messages:
        raise InvalidInput(f"{name}: no line begins with a time and a sender: it is no chat of WhatsApp")
    chat = ConversationBuilder(
        f"{FORM}:{_parse_title(name)}",
        form=FORM,
        place=name,
        terms=terms,
        times=times,
        metadata={"imported_from": name[:200]},
    )
    ids = SourceIds()
    for at, (match, text) in zip(times, messages, strict=True):
        speaker, is_message, first = match[8].partition(": ")
        if not is_message:
            chat.leave_out("turn", "unsupported", "a notice of WhatsApp")
        elif at is None:
            chat.leave_out("turn", "broken", "its date does not exist")
        else:
            content = first.lstrip(_MARKS) + text
            source_id = ids.assign("", "", at.isoformat(), speaker, content)
            chat.add(source_id, "user", content, at=at, speaker=speaker, metadata=mark_sender(terms))
    yield from chat.items()


def _split_messages(text: str) -> list[tuple[re.Match[str], str]]:
    """Return the first line of each message, and the lines below it."""
    messages: list[tuple[re.Match[str], str]] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        if match := _LINE.match(line):
            messages.append((match, ""))
        elif messages:
            first, below = messages[-1]
            messages[-1] = first, f"{below}\n{line}"
    return [(first, below.rstrip()) for first, below in messages]


def _parse_times(lines: list[re.Match[str]]) -> list[datetime | None]:
    """Return the times, in the order of day and month in which most are dates and fewest go back."""
    if any(len(line[1]) > 2 for line in lines):
        return [_parse_time(line, (0, 1, 2)) for line in lines]
    is_american = any((line[7] or "").isupper() and line.string[line.end(1)] == "/" for line in lines)
    orders = _ORDERS[::-1] if is_american else _ORDERS
    return min(([_parse_time(line, order) for line in lines] for order in orders), key=_count_faults)


def _count_faults(times: list[datetime | None]) -> int:
    known = [time for time in times if time is not None]
    return len(times) - len(known) + sum(later < earlier for earlier, later in pairwise(known))


def _parse_time(line: re.Match[str], order: tuple[int, int, int]) -> datetime | None:
    year, month, day = (int(line[1 + place]) for place in order)
    hour = int(line[4]) % 12 + (12 if line[7].lower() == "p" else 0) if line[7] else int(line[4])
    try:
        return datetime(
            year + 2000 if year < 100 else year, month, day, hour, int(line[5]), int(line[6] or 0), tzinfo=UTC
        )
    except ValueError:
        return None


def _parse_title(name: str) -> str:
    """Return the name of a chat, from that of its file or of the archive with it."""
    *above, own = name.split("/")
    if own == "_chat.txt" and above:
        own = above[-1]
    return _TITLE.sub("", own.rpartition(".")[0] or own).strip("_ ")[:150] or "chat"
