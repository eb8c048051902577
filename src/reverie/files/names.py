"""Paths that callers pass, and file names of sessions: an id as a name that every file system accepts, and back.

Letters, digits and `_ - . : @ + = ,` are unchanged, letters of other scripts too. Every other character
becomes `%` and two hexadecimal digits for each of its bytes in UTF-8. So `telegram:12345` is unchanged.

* A dot at the beginning or end, and the first letter of a name that Windows keeps for devices (`con`, `nul`,
  `com1`), are encoded.
* Some file systems treat `Chat` and `chat`, or two spellings of `é`, as one name. An id that changes when it
  is lower-cased or normalised (Unicode) gets `~` and eight digits of its SHA-256 as a suffix. So no two ids
  share a file, and a folder can be copied between systems. Ids in lower case, which are most, have none.
* A name that would be over 180 bytes is cut and ends in `~~` and 24 digits of the SHA-256. It cannot be
  decoded; the first line of the file has the id.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from itertools import accumulate
from pathlib import Path

from reverie.domain.errors import InvalidInput, quote_value
from reverie.domain.lazy_regex import defer_regex

LONGEST_NAME = 180
"""Longest name in bytes, without `.jsonl`. File systems allow 255; the rest is for derived names."""

_PLAIN_ID = defer_regex(r"[a-z0-9_-](?:[a-z0-9_.:@+=,-]*[a-z0-9_:@+=,-])?")
_KEPT = frozenset("_-.:@+=,")
_DEVICE = defer_regex(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|$)", re.IGNORECASE)
_CUT = defer_regex(r".*~~[0-9a-f]{24}", re.DOTALL)
_TAGGED = defer_regex(r"(?P<text>.+)~(?P<tag>[0-9a-f]{8})", re.DOTALL)
_URL = defer_regex("[A-Za-z][A-Za-z0-9+.-]*://")
_BYTES = defer_regex(r"(?:%[0-9A-F]{2})+")


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
    device = _DEVICE.match(session) is not None
    if _PLAIN_ID.fullmatch(session) and not device and len(session) <= LONGEST_NAME:
        return session
    composed = unicodedata.normalize("NFC", session) == session
    parts = [
        char if char in _KEPT or (char.isalnum() and (composed or char.isascii())) else _percent_encode(char)
        for char in session
    ]
    for place in (0, -1):
        if session[place] == "." or (device and place == 0):
            parts[place] = _percent_encode(session[place])
    name = "".join(parts)
    if not _is_settled(session):
        name = f"{name}~{_hash_session(session)[:8]}"
    if len(name.encode()) <= LONGEST_NAME:
        return name
    sizes = accumulate(len(part.encode()) for part in parts)
    kept = "".join(part for part, size in zip(parts, sizes, strict=True) if size <= LONGEST_NAME - 26)
    return f"{kept}~~{_hash_session(session)[:24]}"


def parse_session_id(name: str) -> str | None:
    """Return the id of the session in a file of this name, without its ending.

    Returns:
        None for a name that was cut (the first line of the file has the id), and for one that
        `build_file_name` never returns.
    """
    if not name or _CUT.fullmatch(name):
        return None
    tagged = _TAGGED.fullmatch(name)
    text = tagged["text"] if tagged else name
    try:
        decoded = _BYTES.sub(lambda run: bytes.fromhex(run[0].replace("%", "")).decode(), text)
    except UnicodeDecodeError:
        return None
    # A file system may return names in another normal form.
    for session in (decoded, unicodedata.normalize("NFC", decoded)):
        if name == build_file_name(session):
            return session
        if tagged and _hash_session(session)[:8] == tagged["tag"] and not _is_settled(session):
            return session
    return None


def _is_settled(session: str) -> bool:
    """Return whether neither lower-casing nor normalising changes an id."""
    if session.isascii():
        return session == session.lower()
    forms = (unicodedata.normalize(form, session) for form in ("NFD", "NFKC"))
    return session == session.casefold() and all(form == session for form in forms)


def _percent_encode(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode())


def _hash_session(session: str) -> str:
    return hashlib.sha256(session.encode()).hexdigest()


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
