"""Resolution of paths that callers pass."""

from __future__ import annotations

import os
from pathlib import Path

from reverie.domain.errors import InvalidInput, quote_value
from reverie.domain.lazy_regex import defer_regex

_URL = defer_regex("[A-Za-z][A-Za-z0-9+.-]*://")


def resolve_path(path: object, *, name: str = "path") -> Path:
    """Return an absolute path; `~` is the home directory.

    Args:
        path: What the caller passed.
        name: What to call it in an error.

    Raises:
        InvalidInput: it is no path, or cannot be one.
    """
    text = path if isinstance(path, str) else os.fspath(path) if isinstance(path, os.PathLike) else None
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise InvalidInput(f"{name} is {quote_value(path)}: pass the name of a file or folder")
    if (url := _URL.match(text)) is not None:  # the rest may hold a password
        raise InvalidInput(
            f"{name} is a URL that begins with {url[0]!r}: pass a file or folder, or a memory as "
            "postgresql://host/database?memory=name"
        )
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise InvalidInput(f"{name} is {path!r}: no file can have that name, choose another") from None
    expanded = os.path.expanduser(text)  # not that of Path, which takes ./~ana for ~ana
    if expanded.startswith("~"):
        raise InvalidInput(
            f"{name} is {path!r}: there is no such home directory; for a file of that name write './{text}'"
        )
    return Path(expanded).absolute()
