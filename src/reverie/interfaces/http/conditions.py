"""ETags, `If-Match`, `If-None-Match`, and cursors of lists."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from reverie.domain.errors import Conflict, InvalidInput
from reverie.domain.text.json_values import to_json_value
from reverie.interfaces.http.operations import Answer, Call
from reverie.interfaces.http.problems import Problem


def compute_etag(value: Any) -> str:
    """Return a strong ETag of a value as JSON has it."""
    text = json.dumps(to_json_value(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def answer_value(call: Call, value: Any) -> Answer:
    """Return a value with its ETag; 304 if the caller has it already."""
    etag = compute_etag(value)
    if call.method == "GET" and _is_listed(call.headers.get("if-none-match", ""), etag):
        return Answer(None, 304, {"ETag": etag})
    return Answer(value, headers={"ETag": etag})


def check_match(call: Call, value: Any) -> bool:
    """Raise `Problem` if the caller names another version of a value than the current one.

    Returns:
        Whether only this version may be changed; False if the caller accepts any.
    """
    wanted = call.headers.get("if-match")
    if wanted is not None and not _is_listed(wanted, compute_etag(value)):
        raise Problem(
            412,
            "This has changed since it was read. Read it again, and send its new ETag.",
            current=to_json_value(value),
        )
    return wanted is not None and "*" not in [name.strip() for name in wanted.split(",")]


@contextmanager
def refusing_changed() -> Iterator[None]:
    """Answer a change between the check and the transaction as one before the check."""
    try:
        yield
    except Conflict as error:
        raise Problem(412, f"{error}. Send the new ETag.") from error


def _is_listed(header: str, etag: str) -> bool:
    names = [name.strip() for name in header.split(",")]
    return "*" in names or etag in names


def encode_cursor(values: list[Any], *, of: object) -> str:
    """Return an opaque cursor.

    Args:
        values: Where the next page begins.
        of: Parameters of the list; the cursor is valid for these only.
    """
    text = json.dumps([_fingerprint(of), *values], ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def decode_cursor(cursor: str, *, of: object, types: tuple[type, ...]) -> list[Any]:
    """Return where a page begins.

    Raises:
        InvalidInput: the cursor is not one of this list.
    """
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        values = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        if values[0] == _fingerprint(of) and [type(each) for each in values[1:]] == list(types):
            return list(values[1:])
    except (ValueError, TypeError, IndexError, KeyError, RecursionError):
        pass
    raise InvalidInput(
        "cursor is not one of this list: pass `next` of the previous page, with the same parameters"
    )


def _fingerprint(of: object) -> str:
    return hashlib.sha256(repr(of).encode(errors="replace")).hexdigest()[:8]
