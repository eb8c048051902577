"""Drawing of views: templates, English texts, differences, and how values are shown.

Every value is escaped as HTML, and control characters and marks that reorder or hide text are made visible, whether or
not a template says so.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import UNTRUSTED
from reverie.domain.scope import parse_session_scope
from reverie.domain.text.timestamps import parse_time
from reverie.interfaces import formatting

FOLDER = Path(__file__).parent

STATIC: Mapping[str, bytes] = {file.name: file.read_bytes() for file in (FOLDER / "static").iterdir()}
"""Files that are served as they are."""

STATIC_VERSION = hashlib.sha256(b"".join(STATIC[name] for name in sorted(STATIC))).hexdigest()[:12]

TEXTS: Mapping[str, Mapping[str, Any]] = {
    file.stem: tomllib.loads(file.read_text(encoding="utf-8")) for file in (FOLDER / "texts").glob("*.toml")
}
"""English texts of the page by group and name."""


def build_link(path: str, query: Mapping[str, Any] | None = None, **more: Any) -> str:
    """Return a path of this server with a query; values of None, False and the empty text are left out."""
    values = {**(query or {}), **more}
    kept = {
        name: value
        for name, value in values.items()
        if value is not None and value is not False and value not in ("", (), [])
    }
    return f"{path}?{urlencode(kept, doseq=True)}" if kept else path


_SESSION_PATH = defer_regex("/(?:sessions|prompts)/(.+)")


def find_scope(path: str, scope: str) -> str:
    """Return the scope in which a view of `scope` opens a path: that of the session, if the path names one."""
    session = _SESSION_PATH.match(path)
    return scope if session is None else parse_session_scope(unquote(session[1]))


def quote_path(text: str) -> str:
    """Quote a name as the end of a path."""
    return quote(text, safe="/:@")


@dataclass(frozen=True, slots=True)
class Ago:
    """Moments as templates show them: as how long ago they were."""

    now: datetime

    def __call__(self, moment: datetime | str | None) -> Markup:
        """Return a moment as how long ago it was, with the moment itself as its title."""
        if moment is None:
            return Markup("–")
        at = parse_time(moment) if isinstance(moment, str) else moment
        age = formatting.format_age(at, self.now)
        return Markup('<time datetime="{}" title="{}">{}</time>').format(
            at.isoformat(), f"{at:%Y-%m-%d %H:%M:%S %Z}", age
        )

    def is_past(self, moment: str | None) -> bool:
        """Return whether a moment has come."""
        return moment is not None and parse_time(moment) <= self.now


def _show(value: Any) -> Any:
    """Return what stands for a value in a template: text with its unsafe characters visible."""
    return formatting.escape_text(value) if type(value) is str else value


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
    }
    environment.globals |= {
        "t": TEXTS,
        "static_version": STATIC_VERSION,
        "count": formatting.count,
        "untrusted": UNTRUSTED,
    }
    return environment


_ENVIRONMENT = _create_environment()


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
_HIDDEN = ("updated_at", "last_seen_at")
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


def build_shares(values: Sequence[float], whole: float) -> list[tuple[float, float, int]]:
    """Return parts of a whole as a bar of 100 units: where each begins, its width, its number."""
    shares, x = [], 0.0
    for number, value in enumerate(values):
        width = 100 * value / whole if whole else 0.0
        shares.append((round(x, 2), round(width, 2), number))
        x += width
    return shares
