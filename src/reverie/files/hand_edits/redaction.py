"""Redaction of secrets in files that a person edited. Pure.

A Markdown file is one text. In a JSON file every string is one; what is not JSON is left to the parser.
"""

from __future__ import annotations

import json
import re

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.secrets.redactor import Redactor
from reverie.files.layout import Form

_QUOTED = defer_regex(r'"(?>(?:[^"\\\n]|\\.)*)"')
_SHORTEST = 6
_NAMES = ('"id":', '"session":', '"scope":')
_LONGEST_NAME = 14


def redact_file(data: bytes, form: Form, redactor: Redactor) -> bytes:
    """Return the content of a file with its secrets replaced.

    Args:
        data: The content.
        form: The form of the file.
        redactor: Finds the secrets.
    """
    if not redactor.enabled:
        return data
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data
    if form in ("page", "log"):
        clean = redactor.text(text)
    else:
        clean = _QUOTED.sub(lambda match: _redact_string(match, redactor), text)
    return data if clean == text else clean.encode()


def _redact_string(match: re.Match[str], redactor: Redactor) -> str:
    quoted = match.group()
    before = match.string[max(0, match.start() - _LONGEST_NAME) : match.start()].rstrip()
    if len(quoted) < _SHORTEST or before.endswith(_NAMES):
        return quoted
    try:
        text = json.loads(quoted)
    except ValueError:
        return quoted
    clean = redactor.text(text)
    return quoted if clean == text else json.dumps(clean, ensure_ascii=False)
