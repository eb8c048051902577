"""Words for numbers, and signals that stop a server."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

from reverie.domain.lazy_regex import defer_regex

UNSAFE = defer_regex(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Control characters (escape sequences begin with one), marks that reorder or hide text, lone surrogates."""

_SPACES = defer_regex(r"\s+")
_MAX_AGE_DAYS = 14
_MOST_NEARBY = 50


def escape_text(text: str) -> str:
    r"""Escape every character that could control a terminal, such as `\x1b`.

    Tabs and line breaks stay.
    """
    return UNSAFE.sub(_escape, text.replace("\r\n", "\n"))


def one_line(text: str, *, longest: int | None = None) -> str:
    """Escape a text and put it on one line; cut it with `…` after `longest` characters."""
    line = escape_text(_SPACES.sub(" ", text).strip())
    return line if longest is None or len(line) <= longest else line[: max(longest - 1, 0)].rstrip() + "…"


def count(number: int, noun: str) -> str:
    """Format a number with its noun: `1 turn`, `2 turns`, `6,097 turns`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_age(moment: datetime, now: datetime) -> str:
    """Format how long ago a moment was; its date if that is more than two weeks."""
    elapsed = now - moment
    if elapsed < timedelta(0) or elapsed >= timedelta(days=_MAX_AGE_DAYS):
        return f"{moment.day} {moment:%b %Y}"
    if elapsed >= timedelta(days=1):
        return f"{count(elapsed.days, 'day')} ago"
    if elapsed >= timedelta(hours=1):
        return f"{count(elapsed.seconds // 3600, 'hour')} ago"
    if elapsed >= timedelta(minutes=1):
        return f"{count(elapsed.seconds // 60, 'minute')} ago"
    return "just now"


def extract_excerpt(text: str, words: Sequence[str], *, longest: int) -> str:
    """Return the part of a long text that has the most of some words, with `…` where it is cut."""
    if len(text) <= longest:
        return text
    pattern = re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))), re.IGNORECASE)
    places = [(match.start(), match.group().lower()) for match in pattern.finditer(text) if match.group()]
    lead = longest // 4
    nearby = (
        (start, {word for at, word in places[first : first + _MOST_NEARBY] if at < start + longest - lead})
        for first, (start, _) in enumerate(places)
    )
    best, _ = max(nearby, key=lambda each: len(each[1]), default=(0, set()))
    begin = 0 if best < longest - lead else text.find(" ", max(0, best - lead), best) + 1 or best - lead
    end = begin + longest
    return ("…" if begin else "") + text[begin:end].strip() + ("…" if end < len(text) else "")


def format_size(number: int) -> str:
    """Format a number of bytes, such as `1.4 MB`."""
    amount = float(number)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "bytes" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# -- signals --------------------------------------------------------------------------------------


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def handle_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on SIGINT and SIGTERM while the block runs."""
    import asyncio  # here: commands that are no servers need no loop

    loop = asyncio.get_running_loop()
    for each in _SIGNALS:
        loop.add_signal_handler(each, stop)
    try:
        yield
    finally:
        for each in _SIGNALS:
            loop.remove_signal_handler(each)
