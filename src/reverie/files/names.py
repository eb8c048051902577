"""Paths that callers pass, and file names of sessions: an id as a name that every file system accepts, and back.

Letters of ASCII, digits and `_ - . : @ + = ,` are unchanged, as in `telegram:12345`. Every other character becomes `%`
and two hexadecimal digits for each of its bytes in UTF-8.

* Some file systems treat `Chat` and `chat` as one name, and Windows keeps some for devices (`con`, `nul`, `com1`). Such
  an id gets `~` and eight digits of its SHA-256 as a suffix. So no two ids share a file, and a folder can be copied
  between systems.
* A name that would be over 180 bytes is cut and ends in `~~` and 24 digits of the SHA-256. It cannot be decoded; the
  first line of the file has the id.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from urllib.parse import quote, unquote

from reverie.domain.errors import InvalidInput, quote_value
from reverie.domain.lazy_regex import defer_regex

LONGEST_NAME = 180
"""Longest name in bytes, without `.jsonl`. File systems allow 255; the rest is for derived names."""

_SAFE = "_-.:@+=,"
_DEVICE = defer_regex(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)", re.IGNORECASE)
_URL = defer_regex("[A-Za-z][A-Za-z0-9+.-]*://")


def build_file_name(session: str) -> str:
    """Return the name of a session's file, without its ending.

    Args:
        session: The session's id.

    >>> build_file_name("telegram:12345")
    'telegram:12345'
    >>> build_file_name("../../x")
    '%2E.%2F..%2Fx'
    >>> build_file_name("slack:C024BE91L")
    'slack:C024BE91L~5dfbf2e9'
    """
    name = quote(session, safe=_SAFE).replace("~", "%7E")
    name = re.sub(r"\A\.|\.\Z", "%2E", name)  # hidden, or a folder; Windows drops it at the end
    digest = hashlib.sha256(session.encode()).hexdigest()
    if len(name) > LONGEST_NAME - 9:
        return f"{re.sub('%.?$', '', name[: LONGEST_NAME - 26])}~~{digest[:24]}"
    return f"{name}~{digest[:8]}" if session != session.lower() or _DEVICE.match(name) else name


def parse_session_id(name: str) -> str | None:
    """Return the id of the session in a file of this name, without its ending.

    Returns:
        None for a name that was cut (the first line of the file has the id), and for one that
        `build_file_name` never returns.
    """
    session = unquote(name.rpartition("~")[0] or name)
    return session if session and build_file_name(session) == name else None


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
            f"{name} is {path!r}: this home directory does not exist; for a file of that name write './{text}'"
        )
    return Path(expanded).absolute()
