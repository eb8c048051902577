"""Strict parser of prompts: the records, turns and entries in a prompt, by its own format.

The reader knows the form of a pack's text and nothing of how it was made: what it finds must be what was put
there, whatever the texts in it pretend to be.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

from reverie.context import render, retrieval
from reverie.context.pack import NOTHING_KNOWN, Pack
from reverie.domain.text.escaping import NOTICE

_HEADERS = {
    retrieval.MEMORY_HEADER: "pages",
    retrieval.LONG_TERM_HEADER: "pages",
    render.STANDING_HEADER: "standing",
    render.SUMMARY_HEADER: "summary",
    retrieval.TODAY_HEADER: "notes",
    retrieval.RECENT_HEADER: "notes",
    render.RECORDS_HEADER: "recalled",
    NOTHING_KNOWN: "recalled",
    render.PERHAPS_HEADER: "recalled",
    render.RECENT_HEADER: "recalled",
    render.TURNS_HEADER: "recalled",
    render.WORKING_HEADER: "working",
}
_ORDER = ("pages", "standing", "summary", "notes", "recalled", "working")
_DAY = re.compile(r"### \d{4}-\d{2}-\d{2}")
_ITEM = re.compile(r"- \[([0-9a-f]{12})\](?: \((.*?)\))?: \S.*")
_ENTRY = re.compile(r"- (\S.*?): (?:kept|expires in \w+)(?:, .*)?")
_MORE = re.compile(r"- … and \d+ more: list_working_memory shows them")
_NOTE = re.compile(r"\[\d{2}:\d{2}\] .*|… \[earlier notes are left out\]|\\.*|[^#\[-].*")
_NOTED = re.compile(r"(?: \[[0-9a-f]{12}\])+$")
_OTHER = {"working": (_MORE,), "notes": (_DAY, _NOTE)}
_MARK = re.compile(
    r"<\|[^<>|]{0,40}\|>|<｜[^<>]{0,40}｜>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>"
    r"|<!--|</?(?:[a-z]+:)?(?:system|assistant|instructions?|tool_(?:calls?|results?|use|response)|"
    r"function_(?:calls?|results?)|invoke|img|script|iframe)\b|!\[",
    re.IGNORECASE,
)
_TEMPLATE = re.compile(r"<\|[^<>|]{0,40}\|>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_SEEN = frozenset("\n\t\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd") | {
    chr(code) for code in range(0x600, 0x606)
}
"""Line ends, and signs that Unicode calls formatting although they are seen."""

_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u3164\uffa0")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2}")
_ROLE = re.compile(r"\s*(?:#{1,6}\s*)?(?:system|assistant|human|user|developer|tool)\s*:", re.IGNORECASE)


@dataclass(slots=True)
class ParsedPrompt:
    """Content of a prompt behind the profile.

    Attributes:
        sections: The sections, in order.
        items: The ids of recalled records and turns, in order.
        entries: How many entries of working memory are listed.
        wrong: What is against the form.
    """

    sections: list[str] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    entries: int = 0
    wrong: list[str] = field(default_factory=list)


def read(text: str) -> ParsedPrompt:
    """Parse a pack's text.

    Args:
        text: The text, with the profile or without.
    """
    found = ParsedPrompt()
    before, notice, rest = text.partition(f"{NOTICE}\n\n")
    if not notice:
        found.wrong += ["there is no notice"] if before.strip() else []
        return found
    if NOTICE in rest:
        found.wrong.append("the notice stands there twice")
    found.wrong += [f"there is {find_unseen(rest)}"] if find_unseen(rest) else []
    if mark := _MARK.search(rest):
        found.wrong.append(f"a mark of prompts is whole: {mark.group()!r}")
    section, headers = "", set[str]()
    for line in rest.split("\n"):
        if line in _HEADERS:
            section = _HEADERS[line]
            found.wrong += [f"twice: {line!r}"] if line in headers else []
            headers.add(line)
            if found.sections[-1:] != [section]:
                found.sections.append(section)
        elif line.strip():
            _read_line(line, section, found)
    places = [_ORDER.index(name) for name in found.sections]
    if places != sorted(set(places)):
        found.wrong.append(f"sections in disorder: {', '.join(found.sections)}")
    return found


def find_unseen(text: str) -> str:
    """Return an invisible character of a text, by its Unicode properties; empty for none.

    Told apart by itself, and not by what `reverie.domain.text.escaping` drops.
    """
    for place, letter in enumerate(text):
        joins = letter in "\u200c\u200d" and place > 0 and text[place - 1] > "\u05ff"
        is_hidden = unicodedata.category(letter) in _HIDDEN and letter not in _SEEN and not joins
        if is_hidden or letter in _FILLERS:
            return f"the unseen character U+{ord(letter):04X}"
    return "a row of variation selectors" if _SELECTORS.search(text) else ""


def find_unsafe(text: str) -> str:
    """Return what a text has that no model may read; empty for none."""
    found = _TEMPLATE.search(text)
    return find_unseen(text) or (f"the mark {found.group()!r}" if found else "")


def _read_line(line: str, section: str, found: ParsedPrompt) -> None:
    if _ROLE.match(line):
        found.wrong.append(f"a line begins as a role: {line[:60]!r}")
    if section == "recalled" and (item := _ITEM.fullmatch(line)):
        found.items.append(item[1])
    elif section == "notes" and (ids := _NOTED.search(line)):
        found.items += ids[0].strip(" []").split("] [")
    elif section == "working" and _ENTRY.fullmatch(line):
        found.entries += 1
    elif section == "standing" and (_ITEM.fullmatch(line) or line.startswith("- … and ")):
        pass
    elif section in {"pages", "summary"}:
        if _ITEM.fullmatch(line):
            found.wrong.append(f"a forged record: {line[:60]!r}")
    elif not any(form.fullmatch(line) for form in _OTHER.get(section, ())):
        found.wrong.append(f"a line of no form: {line[:60]!r}")


def find_differences(pack: Pack) -> list[str]:
    """Return the differences between a pack's text and its content.

    Args:
        pack: The pack.
    """
    found = read(pack.text)
    wrong = list(found.wrong)
    made = [section.name for section in pack.sections if section.name != "profile"]
    if found.sections != made:
        wrong.append(f"it reads as {found.sections} and was made of {made}")
    if sorted(found.items) != sorted(hit.id for hit in pack.hits):
        wrong.append("it has other records than were chosen")
    for message in pack.messages:
        content = str(message.get("content") or "")
        wrong += [f"a message has {found_there}"] if (found_there := find_unsafe(content)) else []
    return wrong
