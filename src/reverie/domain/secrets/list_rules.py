"""Secrets in lists after a heading such as "passwords", one on each line or separated by commas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.secrets.assignment_rules import PASSWORD, is_listed_password
from reverie.domain.secrets.rule import Span

_HEAD = defer_regex(
    rf"(?:{PASSWORD})(?P<plural>e?s|e[nr])?[\"'`*_]{{0,3}}(?:[ \t]{{0,4}}[:=：]|(?=[ \t]{{0,4}}\r?\n))",
    re.IGNORECASE,
)
_TITLE = defer_regex(r"[ \t]{0,3}#{1,6}[ \t][^\n:=]{0,60}\Z")
_OPENED = defer_regex(r"[ \t*_]{0,4}[\[({]?[ \t]{0,4}\r?\n(?:[ \t]{0,9}\r?\n)?")
_ITEM = defer_regex(
    r"""
    (?P<mark>[ \t]{1,20}|(?=["']))?(?P<bullet>(?:[-*•+]|\d{1,2}[.)])[ \t]{1,4}(?:\[[ x]\][ \t])?)?
    (?:["'`*_]{0,3}(?P<label>[^\n:=→–—"']{1,40}?)["'`*_]{0,3}[ \t]{0,4}(?:[:=→–—]|->|(?<=[ \t])-(?=[ \t]))[ \t*_]{0,4})?
    ["'`]{0,3}(?P<value>[^\s"'`,;]{4,64})["'`]{0,3}[ \t]{0,4}(?:\([^()\n]{1,40}\))?[ \t,;]{0,4}\r?(?:\n|\Z)
    """,
    re.VERBOSE,
)
_JOINT = r"(?:[ \t]{0,4}[,;][ \t]{0,4}|[ \t]{1,4}(?:and|und|y|et|e)[ \t]{1,4})"
_ENTRY = r"[\"'`]?[^\s,;\]\"'`]{1,64}[\"'`]?"
_SEVERAL = defer_regex(
    rf"[ \t]{{0,4}}(?P<open>\[[ \t]{{0,4}})?(?P<items>(?>{_ENTRY}(?:{_JOINT}{_ENTRY}){{0,50}}))"
    r"[ \t]{0,4}(?(open)\]|(?:\r?\n|[}]|\Z))"
)
_PIECE = defer_regex(r"[^\s,;\"'`.]{1}[^\s,;\"'`]{2,62}[^\s,;\"'`.]")


def find_lists(text: str, triggers: Iterable[tuple[int, str]]) -> Iterator[Span]:
    """Yield the secrets of each list that follows a name for passwords.

    Args:
        text: The text.
        triggers: Result of `assignment_rules.find_trigger_words` for its lower-case form.
    """
    end = 0
    for start, _ in triggers:
        if start < end or (head := _HEAD.match(text, start)) is None:
            continue
        end = place = head.end()
        is_titled = text[place - 1] not in ":=："
        if is_titled and _TITLE.match(text[text.rfind("\n", 0, start) + 1 : start]) is None:
            continue
        opened = _OPENED.match(text, place)
        if opened is None:
            several = _SEVERAL.match(text, place) if head["plural"] else None
            if several is not None and (
                several["open"] or several["items"][0] in "\"'`" or re.search(_JOINT, several["items"])
            ):
                for piece in _PIECE.finditer(text, *several.span("items")):
                    if is_listed_password("", piece.group()):
                        yield Span(*piece.span(), "password")
                end = several.end()
            continue
        end = opened.end()
        while (item := _ITEM.match(text, end)) is not None and (item["mark"] or item["bullet"]):
            if is_listed_password(item["label"] or "", item["value"]):
                yield Span(*item.span("value"), "password")
            end = item.end()
