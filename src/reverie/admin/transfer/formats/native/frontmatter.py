"""Markdown with YAML front matter, written and read without a YAML library.

A value is written as JSON, which is YAML too, or unquoted if that is unambiguous. Of YAML written by hand,
words without quotes, `[a, b]`, and lists of lines that begin with a dash are understood. The text below is
kept to the byte.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex

FENCE = "---"

_PLAIN = defer_regex(
    # An id is quoted whether it begins with a digit or not, so that all look the same.
    r"(?![0-9a-f]{12}$)[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*|\d{4}-\d\d-\d\dT[\d:.]+Z"
)
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "infinity"}
"""Words that YAML takes for something else than text."""

_FIELD = defer_regex(r"([A-Za-z_][A-Za-z0-9_]*):(?:[ \t]+(.*?))?[ \t]*")
_ITEM = defer_regex(r"[ \t]*-[ \t]+(.*?)[ \t]*")
_UNPRINTABLE = defer_regex("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def render_document(fields: Mapping[str, Any], text: str) -> str:
    """Render a document: the fields between two lines of three dashes, a blank line, and the text.

    Args:
        fields: The fields in their order, with JSON values.
        text: The text below the fields.
    """
    lines = "".join(f"{name}: {render_scalar(value)}\n" for name, value in fields.items())
    return f"{FENCE}\n{lines}{FENCE}\n\n{text}\n"


def render_scalar(value: Any) -> str:
    """Render a value on one line, as YAML and `split_document` read it.

    >>> render_scalar("user-preferences/style"), render_scalar("yes"), render_scalar(["a", 0.5])
    ('user-preferences/style', '"yes"', '["a", 0.5]')
    """
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def split_document(document: str) -> tuple[dict[str, Any], str]:
    """Return the fields of a document and the text below; no fields and the whole text if it has none.

    Windows line ends are converted in a document whose first line has one.

    Raises:
        InvalidInput: the fields do not end, or a line of them is invalid; the message names the line.
    """
    if document.startswith(f"{FENCE}\r\n"):
        document = document.replace("\r\n", "\n")
    if not document.startswith(f"{FENCE}\n"):
        return {}, document
    begin = len(FENCE) + 1
    end = document.find(f"\n{FENCE}\n", begin - 1)
    if end < 0:
        raise InvalidInput(f"the fields above the text do not end with a line {FENCE!r}")
    text = document[end + len(FENCE) + 2 :]
    return _parse_fields(document[begin:end].split("\n")), text.removeprefix("\n").removesuffix("\n")


def _parse_fields(lines: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    name, may_list = "", False
    for number, line in enumerate(lines, start=2):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        item = _ITEM.fullmatch(line)
        if item is not None and may_list:
            fields[name] = [*(fields[name] or ()), _parse_value(item[1])]
            continue
        field = _FIELD.fullmatch(line)
        if field is None:
            raise InvalidInput(f"line {number} is no field: write 'name: value', or '- value' in a list")
        name, value = field.groups()
        if name in fields:
            raise InvalidInput(f"line {number}: the field {name!r} stands twice")
        may_list = not value
        fields[name] = _parse_value(value) if value else None
    return fields


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    if text.startswith("[") and text.endswith("]"):
        return [_unquote_text(part.strip()) for part in text[1:-1].split(",") if part.strip()]
    return None if text == "~" else _unquote_text(text)


def _unquote_text(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1]
    return text
