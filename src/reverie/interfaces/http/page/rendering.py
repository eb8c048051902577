"""Drawing of views: templates, English texts, and how values are shown.

Every value is escaped as HTML, and control characters and marks that reorder or hide text are made visible, whether or
not a template says so.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
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
