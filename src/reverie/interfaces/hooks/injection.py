"""Marks around the context that hooks return, and its removal from prompts.

Many agents put what a hook returned into the user's message, in an element of their own, at its start or at
its end. Such text is not the user's: it is removed before a prompt is stored.
"""

from __future__ import annotations

import hashlib
import re

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.escaping import NOTICE

_BEGIN = r"\[reverie context ([0-9a-f]{12})\]"
_BLOCK = defer_regex(rf"{_BEGIN}.*?\[end of reverie context \1\]", re.DOTALL)
_OURS = defer_regex(rf"{_BEGIN}|{re.escape(NOTICE)}")
_PLACE = "\x00"
_ELEMENT_AROUND = defer_regex(rf"<([\w:.-]{{1,60}})(?:\s[^<>]*)?>\s*{_PLACE}\s*</\1\s*>")
_TAG = r"<((?:[a-z]+[-_])*hook(?:[-_][a-z]+)*|system[-_]reminder)(?:\s[^<>]*)?>"
_AT_START = defer_regex(rf"\s*{_TAG}.*?</\1\s*>", re.DOTALL)
_AT_END = defer_regex(rf"{_TAG}(?:(?!<\1[\s>]).)*</\1\s*>\s*\Z", re.DOTALL)


def mark_context(text: str) -> str:
    """Return a context between marks that are made of the text, so that nothing in it can contain them.

    >>> print(mark_context("# Memory"))
    [reverie context 74052e9ac3c2]
    # Memory
    [end of reverie context 74052e9ac3c2]
    """
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
    return f"[reverie context {mark}]\n{text}\n[end of reverie context {mark}]"


MARKS_LENGTH = len(mark_context(""))
"""Characters that the marks add to a context."""


def remove_context(prompt: str) -> str:
    """Return a prompt without the context of hooks: ours anywhere, and elements of hooks at both ends.

    >>> remove_context("<hook_context>Be brief.</hook_context> Deploy from main")
    'Deploy from main'
    """
    text = _BLOCK.sub(_PLACE, prompt.replace(_PLACE, ""))
    while _PLACE in text:
        text, count = _ELEMENT_AROUND.subn(_PLACE, text)
        if not count:
            text = text.replace(_PLACE, "")
    while match := _AT_START.match(text) or _AT_END.search(text):
        text = text[: match.start()] + text[match.end() :]
    return text.strip() if text != prompt else prompt


def has_context(prompt: str) -> bool:
    """Return whether a prompt still contains a context of ours, such as one that the agent cut."""
    return _OURS.search(prompt) is not None
