"""Drawing of views: templates, differences, and how texts, times and links are shown.

Every value is escaped as HTML, and control characters and marks that reorder or hide text are made visible, whether or
not a template says so. Words are highlighted after that.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from difflib import SequenceMatcher
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.timestamps import format_time, parse_time
from reverie.interfaces import formatting

FOLDER = Path(__file__).parent

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # not `no-referrer`, with which a form sends `Origin: null`
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every view."""

STATIC: Mapping[str, bytes] = {file.name: file.read_bytes() for file in (FOLDER / "static").iterdir()}
"""Files that are served as they are."""

STATIC_VERSION = hashlib.sha256(b"".join(STATIC[name] for name in sorted(STATIC))).hexdigest()[:12]


def build_link(path: str, query: Mapping[str, Any] | None = None, **more: Any) -> str:
    """Return a path of this server with a query; values of None, False and the empty text are left out."""
    path, _, given = path.partition("?")
    values = {**(query or {}), **more}
    kept = {
        name: value
        for name, value in values.items()
        if value is not None and value is not False and value not in ("", (), [])
    }
    text = "&".join(filter(None, [given, urlencode(kept, doseq=True)]))
    return f"{path}?{text}" if text else path


def quote_path(text: str) -> str:
    """Quote a name as the end of a path."""
    return quote(text, safe="/:@")


@dataclass(frozen=True, slots=True)
class Calendar:
    """Moments as templates show them: in words, relative to now."""

    now: datetime
    zone: tzinfo

    def __call__(self, moment: datetime | str | None, *, timed: bool = True, brief: bool = False) -> Markup:
        """Return a moment as `today, 09:31`, `Friday`, `24 Nov` or `24 May 2024`, with the moment as its title."""
        if moment is None:
            return Markup("–")
        at = self.read(moment)
        days = (self.now.astimezone(self.zone).date() - at.date()).days
        if 0 <= days < 2:
            text = ("today", "yesterday")[days] + (f", {at:%H:%M}" if timed else "")
            text = f"{at:%H:%M}" if brief else text
        elif 2 <= days < 7:
            text = f"{at:%A}"
        else:
            text = f"{at.day} {at:%b}" + (f" {at.year}" if abs(days) > 300 else "")
        return Markup('<time datetime="{}" title="{}">{}</time>').format(
            at.isoformat(), f"{at:%Y-%m-%d %H:%M:%S %Z}", text
        )

    def read(self, moment: datetime | str) -> datetime:
        """Return a moment in the time zone of the memory."""
        at = parse_time(moment) if isinstance(moment, str) else moment
        return at.astimezone(self.zone)

    def name_day(self, moment: datetime | str) -> str:
        """Return a day in words, for a heading: `Today`, `Yesterday`, `This week`, `November`, `May 2024`."""
        at, today = self.read(moment).date(), self.now.astimezone(self.zone).date()
        days = (today - at).days
        if days < 7:
            return "Today" if days <= 0 else "Yesterday" if days == 1 else "This week"
        return f"{at:%B}" if at.year == today.year else f"{at:%B %Y}"

    def today(self) -> str:
        """Return the day in words, such as `Sunday, 29 November`."""
        return f"{self.now.astimezone(self.zone):%A, {self.now.astimezone(self.zone).day} %B}"

    def short_day(self, day: str) -> str:
        """Return a day of the form `2026-12-01` as `Tue 1 Dec`."""
        at = datetime.fromisoformat(day)
        return f"{at:%a} {at.day} {at:%b}"

    def group(self, items: Iterable[Any], name: str = "at") -> list[tuple[str, list[Any]]]:
        """Return items that are sorted by a moment, under the day of each."""

        def find_day(item: Any) -> str:
            return self.name_day(item[name] if isinstance(item, Mapping) else getattr(item, name))

        return [(day, list(each)) for day, each in groupby(items, find_day)]

    def count_days(self, day: str) -> str:
        """Return how far a day is away, such as `in 3 days`."""
        days = (datetime.fromisoformat(day).date() - self.now.astimezone(self.zone).date()).days
        if days < 2:
            return ("today", "tomorrow")[max(days, 0)]
        return f"in {days} days" if days < 14 else f"in {days // 7} weeks"

    def is_past(self, moment: datetime | str | None) -> bool:
        """Return whether a moment has come."""
        return moment is not None and self.read(moment) <= self.now


def _show(value: Any) -> Any:
    """Return what a template shows for a value: text with its unsafe characters visible."""
    return formatting.escape_text(value) if type(value) is str else value


def show_text(text: str, words: Iterable[str] = ()) -> Markup:
    """Return remembered text: escaped, with parts between backticks as code and with some words highlighted."""
    wanted = sorted({word for word in words if word}, key=len, reverse=True)
    pattern = re.compile(rf"({'|'.join(map(re.escape, wanted))})", re.IGNORECASE) if wanted else None

    def mark(part: str) -> Markup:
        return _wrap("mark", [escape(_show(each)) for each in (pattern.split(part) if pattern else [part])])

    parts = text.split("`")
    return _wrap("code", [mark(part) for part in parts]) if len(parts) % 2 else mark(text)


def _wrap(tag: str, pieces: Sequence[Markup]) -> Markup:
    """Return pieces in a row, every second one within an element."""
    element = Markup(f"<{tag}>{{}}</{tag}>")
    return Markup("").join(element.format(each) if place % 2 else each for place, each in enumerate(pieces))


def _create_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_show,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "path": quote_path,
        "size": formatting.format_size,
        "number": "{:,}".format,
        "line": lambda text, longest=160: formatting.one_line(text, longest=longest),
        "words": lambda name: name.replace("_", " "),
        "text": show_text,
        "moment": lambda moment: "" if moment is None else format_time(moment),
    }
    environment.tests["today"] = lambda moment, calendar: calendar.name_day(moment) == "Today"
    environment.globals |= {
        "static_version": STATIC_VERSION,
        "count": formatting.count,
        "compare": compare_texts,
    }
    return environment


def compile_templates() -> list[Callable[[], object]]:
    """Return functions that compile a template each, which otherwise its first view does."""
    return [partial(_ENVIRONMENT.get_template, name) for name in _ENVIRONMENT.list_templates()]


def draw(template: str, **values: Any) -> str:
    """Return a template filled with values."""
    text: str = _ENVIRONMENT.get_template(template).render(**values)
    return text


# -- differences between two versions of a thing, word by word -------------------------------------------

MOST_WORDS = 4_000
"""Words of two texts together above which they are shown whole."""

_PIECES = defer_regex(r"\s+|\w+|[^\w\s]")
_HIDDEN = ("updated_at", "last_seen_at", "perhaps_replaced_by", "replaced_by", "replaces")
_EMPTY: tuple[Any, ...] = (None, "", [], {})


def compare_texts(before: str, after: str) -> list[tuple[str, str]]:
    """Return a text in pieces, each `same`, `gone` or `new`."""
    was, now = _PIECES.findall(before), _PIECES.findall(after)
    if len(was) + len(now) > MOST_WORDS:
        return [("gone", before), ("new", after)]
    pieces: list[tuple[str, str]] = []
    for kind, a, b, c, d in SequenceMatcher(a=was, b=now, autojunk=False).get_opcodes():
        if kind == "equal":
            pieces.append(("same", "".join(was[a:b])))
            continue
        pieces += [("gone", "".join(was[a:b]))] if b > a else []
        pieces += [("new", "".join(now[c:d]))] if d > c else []
    return pieces


def compare_values(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the fields that differ, each with its name and its text in pieces."""
    was, now = before or {}, after or {}
    fields = []
    for name in [*now, *(name for name in was if name not in now)]:
        old, new = was.get(name), now.get(name)
        if old == new or name in _HIDDEN or (old in _EMPTY and new in _EMPTY):
            continue
        if isinstance(old, str) and isinstance(new, str):
            pieces = compare_texts(old, new)
        else:
            between = " " if old not in _EMPTY and new not in _EMPTY else ""
            pieces = [("gone", _format(old)), ("same", between), ("new", _format(new))]
        fields.append({"name": name, "pieces": [piece for piece in pieces if piece[1]]})
    return fields


def _format(value: Any) -> str:
    if value in _EMPTY:
        return ""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_ENVIRONMENT = _create_environment()
