"""What does a file say that a person edited, without the secrets they put there? Pure.

A file of Markdown is one text. In a file of JSON every text in quotes is one, and what is not JSON is left
for the parser to complain of: nothing of it is taken in.
"""

from __future__ import annotations

import json
import re

from reverie.domain.secrets import Redactor
from reverie.files.layout import Form

_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*+"')
_SHORTEST = 6
_NAMES = ('"id":', '"session":', '"scope":')
_LONGEST_NAME = 14


def redact_file(data: bytes, form: Form, redactor: Redactor) -> bytes:
    """The bytes of a file with secrets replaced; themselves, where there are none.

    Args:
        data: What the file holds.
        form: What sort of file it is.
        redactor: What finds secrets.
    """
    if not redactor.enabled:
        return data
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data
    clean = redactor.text(text) if form in ("page", "log") else _QUOTED.sub(_Strings(redactor), text)
    return data if clean == text else clean.encode()


class _Strings:
    """Redacts a text in quotes."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def __call__(self, found: re.Match[str]) -> str:
        quoted = found.group()
        before = found.string[max(0, found.start() - _LONGEST_NAME) : found.start()].rstrip()
        if len(quoted) < _SHORTEST or before.endswith(_NAMES):
            return quoted
        try:
            text = json.loads(quoted)
        except ValueError:
            return quoted
        clean = self._redactor.text(text)
        return quoted if clean == text else json.dumps(clean, ensure_ascii=False)
