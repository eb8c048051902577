r"""The living page: what a memory knows, as Markdown that people read and edit. Values only.

A page has sections, and each line is one record and ends in its id in a comment. `compose` chooses the records,
`render_block` writes them between two comment lines, and `parse_block` reads them back. Around the block stands what
people and tools write; `split_page` separates the two. An edit of lines is an edit of records.

>>> section = Section("About you", (Line("3f2a9c81d0e5", "I live in Bergen"),))
>>> print(render_block([section]))
<!-- reverie:page bd5321d2: each line is a memory, which you may edit or delete; a new line is saved -->
## About you
- I live in Bergen <!-- 3f2a9c81d0e5 -->
<!-- /reverie:page -->
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cache, lru_cache
from itertools import groupby
from pkgutil import get_data
from typing import NamedTuple

from reverie.domain.category import ANTI_PATTERNS, USER_PREFERENCES, is_within_category
from reverie.domain.filter import has_passed, is_valid_at
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import STANDING, SUMMARY_TAG, UNTRUSTED, Record
from reverie.domain.similarity.grounding import extract_content
from reverie.domain.text import escaping
from reverie.domain.text.dates import find_dates, get_local_day
from reverie.domain.text.specifics import extract_specifics

LONGEST_LINE = 400
"""Characters of a record that can be a line; a longer one is a document, which search finds."""

CHANGED_FOR = timedelta(days=30)
"""Time for which the page says what a record has replaced."""

FEW = 3
"""Lines that one edit may take away; more than these are proposed to the owner."""

_HORIZON = timedelta(days=92)
_END = "<!-- /reverie:page -->"
_BEGIN_LINE = defer_regex(r"\s*<!-- *reverie:page\b[^\n]*-->\s*")
_END_LINE = defer_regex(r"\s*<!-- */reverie:page *-->\s*")
PAGE_HINT = "each line is a memory, which you may edit or delete; a new line is saved"
"""Explanation in the first line of a block, and of a page of records."""

_HEADING = defer_regex(r"(#{1,6}) (.*)")
_ITEM = defer_regex(
    r"( *)(?:[-*+] )?(.*?)(?: ?<!-- *([0-9a-f]{12})(, ask before acting on it)?(?: ([^<>\n]*?))? *-->\s*)?"
)
_MARKED = defer_regex(r".*<!-- *[0-9a-f]{12}\b[^<>\n]*-->\s*")
_NOTE = defer_regex(r"(\D*\d{4}-\d{2}-\d{2}): ")
_SHOWN_ID = defer_regex(r"^ *- .* \[([0-9a-f]{12})\](?: \(ask before acting on it\))?$", re.MULTILINE)
_MORE = "…"
_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # of lines
_PIN = "📌"
_TAG = r"[\w-]*[^\W\d][\w-]*(?:/[\w-]+)*"
_MARKS = defer_regex(rf"(?:(?:^| )(?:#{_TAG}|{_PIN}))+\Z")
_VISIBLE_TAG = defer_regex(_TAG)
_SPECIAL = defer_regex(
    rf"[{_ENDS}]|<(?=[!/?A-Za-z])|\\(?=[\\<#&{_PIN}{_ENDS}]|u[0-9a-f]{{4}}|\Z)"
    rf"|\A(?:[ \t](?=[ \t])|\t|&(?=#(?:32|9);))"  # what is indented would be code
)
_ESCAPED = defer_regex(rf"<br>|\A&#(?:32|9);|\\(\\|<|#|&|{_PIN}|u[0-9a-f]{{4}})")
_OWNER_CATEGORY = defer_regex(
    r"(?:about(?:[-_ ](?:me|user|you))?|health|identity|me|owner|personal|profile|self|user(?:[-_ ](?:facts|profile))?)"
    r"(?:/.*)?",
    re.IGNORECASE,
)
_DIGIT = defer_regex(r"\d")
_PLANNED = ("task_state", "event")
_NEVER = ("event", "command_result")
_LINE_COST = 20  # characters of the id and the bullet
_HALF_LIFE_DAYS = 90


class Line(NamedTuple):
    """One line of the page.

    Attributes:
        id: The id of its record; empty for a line that a person has added.
        text: The content of the record.
        note: Of a record that another one has replaced: until when it held, such as `until 2026-05-01`.
        permission: Whether the owner is to be asked before acting on it.
        tags: Tags that the line shows as `#tag` after the text.
        is_pinned: Whether a pin stands there.
        details: The rest of the comment, without `<` and `>`; on pages of records, the other fields.
    """

    id: str
    text: str
    note: str = ""
    permission: bool = False
    tags: tuple[str, ...] = ()
    is_pinned: bool = False
    details: str = ""


class Section(NamedTuple):
    """A heading with its lines.

    Attributes:
        title: The heading, one line.
        lines: The lines.
        level: 2, or 3 for a day within a section.
    """

    title: str
    lines: tuple[Line, ...] = ()
    level: int = 2


class PageParts(NamedTuple):
    """A page, taken apart.

    Attributes:
        outside: What people and tools write.
        block: The composed lines without the comment lines; None without a block.
        is_damaged: Whether one of the two comment lines is missing, or stands there twice.
    """

    outside: str
    block: str | None
    is_damaged: bool = False


# -- the form ----------------------------------------------------------------------------------------------


def render_block(sections: Iterable[Section], *, more: str = "") -> str:
    """Return the sections between the two comment lines; empty without any line.

    Args:
        sections: The sections.
        more: A last line, such as the number of records that are not shown.
    """
    rows: list[str] = []
    for title, lines, level in sections:
        rows.append(f"{'#' * level} {_escape(title)}")
        rows += map(render_line, lines)
    if not rows:
        return ""
    body = "\n".join([*rows, *([f"{_MORE} {more}"] if more else [])])
    return f"<!-- reverie:page {_compute_digest(body)}: {PAGE_HINT} -->\n{body}\n{_END}"


def render_line(line: Line) -> str:
    """Return a line as Markdown, on one line whatever its text is; `parse_line` reads it back.

    >>> render_line(Line("3f2a9c81d0e5", "Prefers tea", tags=("drinks",), is_pinned=True))
    '- Prefers tea #drinks 📌 <!-- 3f2a9c81d0e5 -->'
    """
    text = f"{line.note}: {_escape(line.text)}" if line.note else _escape(line.text)
    words = [text, *(f"#{tag}" for tag in line.tags), *([_PIN] if line.is_pinned else [])]
    ask = ", ask before acting on it" if line.permission else ""
    details = f" {line.details}" if line.details else ""
    return f"{'  ' if line.note else ''}- {' '.join(words)} <!-- {line.id}{ask}{details} -->"


def parse_line(row: str) -> Line | None:
    """Return the line that a row of Markdown is; None for a heading, a blank row and the rows around a block."""
    if not row.strip() or row.startswith(_MORE) or _BEGIN_LINE.fullmatch(row) or _END_LINE.fullmatch(row):
        return None
    if _HEADING.fullmatch(row):
        return None
    item = _ITEM.fullmatch(row)
    assert item is not None  # every line has this form
    indent, text, name = item[1], item[2], item[3] or ""
    note = _NOTE.match(text) if indent and name else None
    text = text[note.end() :] if note else text
    tags: tuple[str, ...] = ()
    is_pinned = False
    if (marks := _MARKS.search(text)) and marks.start():
        words = marks[0].split()
        tags = tuple(word[1:] for word in words if word != _PIN)
        is_pinned, text = _PIN in words, text[: marks.start()]
    return Line(name, _unescape(text), note[1] if note else "", bool(item[4]), tags, is_pinned, item[5] or "")


def is_visible_tag(tag: str) -> bool:
    """Return whether a tag can stand in a line as `#tag`."""
    return _VISIBLE_TAG.fullmatch(tag) is not None


def _compute_digest(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:8]


@lru_cache(maxsize=32)  # a page stands in every prompt, and seldom changes
def parse_block(block: str) -> tuple[Section, ...]:
    """Return the sections of a block, with or without its comment lines; `render_block` writes them.

    Tags that a person has added to a line are words of its text, since the page shows no tags.
    """
    sections: list[Section] = []
    for row in block.split("\n"):
        if heading := _HEADING.fullmatch(row):
            sections.append(Section(_unescape(heading[2]), (), len(heading[1])))
        elif (line := parse_line(row)) is not None:
            words = [line.text, *(f"#{tag}" for tag in line.tags), *([_PIN] if line.is_pinned else [])]
            line = Line(line.id, " ".join(words), line.note, line.permission)
            last = sections.pop() if sections else Section("")
            sections.append(last._replace(lines=(*last.lines, line)))
    return tuple(sections)


_WRITTEN = {"\\": r"\\", "\n": "<br>", "<": r"\<", "&": r"\&", " ": "&#32;", "\t": "&#9;"}
_READ = {"<br>": "\n", "&#32;": " ", "&#9;": "\t"}


def _escape(text: str) -> str:
    marks = _MARKS.search(text)  # words of the text that look like tags
    start = len(text) if marks is None else marks.start()
    body = _SPECIAL.sub(lambda sign: _WRITTEN.get(sign[0]) or f"\\u{ord(sign[0]):04x}", text[:start])
    return body + re.sub(rf"#|{_PIN}", r"\\\g<0>", text[start:])


def _unescape(text: str) -> str:
    def replace(sign: re.Match[str]) -> str:
        return _READ.get(sign[0]) or (chr(int(sign[1][1:], 16)) if sign[1][0] == "u" else sign[1])

    return _ESCAPED.sub(replace, text)


def join_page(outside: str, block: str) -> str:
    """Return the whole page: what people write, and the block after it."""
    if not block:
        return outside
    return f"{outside.rstrip()}\n\n{block}\n" if outside.strip() else f"{block}\n"


def mark_block(parts: PageParts) -> str:
    """Return the block of a page with its comment lines; with the first alone if it was damaged or is not there."""
    rows = ["<!-- reverie:page -->", *filter(None, [parts.block])]
    is_whole = parts.block is not None and not parts.is_damaged
    return "\n".join([*rows, *([_END] if is_whole else [])])


def split_page(text: str, *, was: str = "", base: str = "") -> PageParts:
    """Return the parts of a page that `join_page` has made, and that somebody has edited since.

    Args:
        text: The whole page.
        was: What stood outside before; returned if it stands there still.
        base: The block before; it tells which lines of a damaged page are composed.
    """
    rows = text.split("\n")
    begins = [number for number, row in enumerate(rows) if _BEGIN_LINE.fullmatch(row)]
    ends = [number for number, row in enumerate(rows) if _END_LINE.fullmatch(row)]
    if not begins and not ends:
        return PageParts(text, None)
    is_whole = len(begins) == len(ends) == 1 and begins[0] < ends[0]
    if is_whole:
        before, after = rows[: begins[0]], rows[ends[0] + 1 :]
        block = "\n".join(rows[begins[0] + 1 : ends[0]])
        parts = ["\n".join(side).strip("\n") for side in (before, after)]
    else:
        known = frozenset(base.split("\n"))
        marks = (_BEGIN_LINE, _END_LINE, _MARKED)
        composed = [row for row in rows if row in known or any(mark.fullmatch(row) for mark in marks)]
        block = "\n".join(composed)
        parts = ["\n".join(row for row in rows if row not in composed).strip("\n")]
    outside = "\n".join(part for part in parts if part.strip())
    if outside.strip() == was.strip():
        outside = was
    elif outside:
        outside += "\n"
    return PageParts(outside, block, not is_whole)


def strip_intact_block(text: str) -> str:
    """Return a page without its block if nobody has edited that; the page itself otherwise."""
    begin = next((row for row in text.split("\n") if _BEGIN_LINE.fullmatch(row)), None)
    parts = split_page(text)
    if begin is None or parts.block is None or parts.is_damaged:
        return text
    return parts.outside if f"reverie:page {_compute_digest(parts.block)}:" in begin else text


# -- in a prompt -------------------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def render_for_prompt(block: str, *, room: int) -> str:
    """Return the sections of a block for a prompt, each line with its id in brackets.

    Args:
        block: The block.
        room: Characters that it may take; lines that do not fit are left out.
    """
    rows: list[str] = []
    headings: list[str] = []
    for section in parse_block(block):
        headings = [each for each in headings if each.count("#", 0, section.level) < section.level]
        headings.append(f"{'#' * section.level} {escaping.escape_line(section.title)}")
        for line in section.lines:
            note = f"{escaping.escape_line(line.note)}: " if line.note else ""
            row = f"{'  ' if note else ''}- {note}{escaping.escape_line(line.text)} [{line.id}]"
            row += " (ask before acting on it)" if line.permission else ""
            room -= sum(len(each) + 1 for each in (*headings, row))
            if room < 0:
                return "\n".join(rows)
            rows += [*headings, row]
            headings = []
    return "\n".join(rows)


def find_shown_ids(text: str) -> frozenset[str]:
    """Return the ids of the records that stand on the page in a prompt."""
    return frozenset(_SHOWN_ID.findall(text))


# -- composing ---------------------------------------------------------------------------------------------


@cache
def load_words() -> Mapping[str, Mapping[str, str]]:
    """Return the words of the page by language (`reverie.domain.page.LANGUAGES`); `until` stands before a day."""
    words: Mapping[str, Mapping[str, str]] = json.loads(get_data(__package__, "page_headings.json") or b"")
    return words


def compose(
    records: Sequence[Record],
    replaced: Mapping[str, Record],
    *,
    now: datetime,
    zone: tzinfo = UTC,
    language: str = "en",
    tokens: int,
    unread: int = 0,
) -> str:
    """Return the block of the page of some records; empty if none of them belongs there.

    The same records give the same block on the same day. Those that do not fit are counted.

    Args:
        records: Records of one scope.
        replaced: Records that were replaced by some of them, by id.
        now: The current time.
        zone: Time zone of days.
        language: Language of the headings.
        tokens: Estimated tokens that the page may take in a prompt.
        unread: Further records that were not considered.
    """
    words, today = load_words()[language], get_local_day(now, zone)
    newest = max((record.updated_at for record in records), default=now)
    parts = {part for record in records if record.is_headline for part in record.parts} | _find_retold(
        records
    )
    live = [record for record in records if record.id not in parts and _may_be_on_page(record, now)]
    days = {record.id: day for record in live if (day := _find_day(record, today, zone)) is not None}
    on_page = [record for record in live if record.id in days or _is_current(record, now, zone)]
    on_page.sort(key=lambda record: (-_compute_score(record, newest), record.created_at, record.id))
    room = _Room(4 * tokens - len(words["more"]) - 8)
    helping = room.take([r for r in on_page if _is_rule(r)], most=0.45)
    dated = [r for r in on_page if r.id in days and not _is_rule(r)]
    coming = room.take(sorted(dated, key=lambda r: (days[r.id], r.id)), most=0.25)
    changes = {
        record.id: old
        for record in on_page
        if (old := [replaced[name] for name in record.replaces if _is_recent(replaced.get(name), now)])
    }
    taken = {record.id for record in (*helping, *coming)}
    changed = room.take(
        [r for r in on_page if r.id in changes and r.id not in taken],
        most=0.2,
        extra=lambda r: sum(len(old.content) + _LINE_COST + 18 for old in changes[r.id]),
    )
    taken |= {record.id for record in changed}
    rest = [r for r in on_page if r.id not in taken and not _is_rule(r) and _is_current(r, now, zone)]
    about = room.take([r for r in rest if _is_about_owner(r)], most=0.5)
    others = room.take([r for r in rest if not _is_about_owner(r)])

    sections = [Section(words["about"], _to_lines(about)), Section(words["help"], _to_lines(helping))]
    if coming:
        sections.append(Section(words["coming"]))
        for day, that_day in groupby(coming, key=lambda r: days[r.id]):
            sections.append(Section(day.isoformat(), _to_lines(that_day), level=3))
    lines: list[Line] = []
    for record in changed:
        lines += _to_lines([record])
        for earlier in changes[record.id]:
            ended = get_local_day(earlier.valid_to or now, zone)
            note = f"{words['until']} {ended.isoformat()}"
            lines.append(Line(earlier.id, earlier.content, note, earlier.permission))
    sections.append(Section(words["changed"], tuple(lines)))
    sections += _group(others, words["other"])
    kept = [s for s in sections if s.lines or (s.title == words["coming"] and coming)]
    left = unread + len(on_page) - sum(map(len, (helping, coming, changed, about, others)))
    return render_block(kept, more=words["more"].format(count=f"{left:,}") if left else "")


def _find_retold(records: Iterable[Record]) -> set[str]:
    """Return the ids of the owner's sentences that a model's records of the same turn tell for the most part."""
    told: dict[str, set[str]] = {}
    for record in records:
        for name in record.references if record.origin == "agent" else ():
            told.setdefault(name, set()).update(extract_content(record.content))
    return {
        record.id
        for record in records
        if record.origin == "owner" and not (record.pinned or _is_rule(record))
        if record.references and record.references[0] in told
        if (words := extract_content(record.content))
        if 2 * len(words & told[record.references[0]]) >= len(words)
    }


class _Room:
    """Characters that are left on the page."""

    def __init__(self, characters: int) -> None:
        self._left = self._whole = max(0, characters)

    def take(
        self, records: Iterable[Record], *, most: float = 1.0, extra: Callable[[Record], int] | None = None
    ) -> list[Record]:
        """Return the first records that fit, in at most a share of the page."""
        share = min(self._left, int(most * self._whole))
        chosen: list[Record] = []
        for record in records:
            cost = len(record.content) + _LINE_COST + (0 if extra is None else extra(record))
            cost += 0 if chosen else _LINE_COST  # the heading
            if cost <= share:
                share, self._left = share - cost, self._left - cost
                chosen.append(record)
        return chosen


def _to_lines(records: Iterable[Record]) -> tuple[Line, ...]:
    return tuple(Line(record.id, record.content, permission=record.permission) for record in records)


def _compute_score(record: Record, newest: datetime) -> float:
    """Return the rank of a record by importance, use and recency; it does not change with the time of day."""
    age_days = (newest - record.updated_at).days
    use = math.log2(record.seen_count) / 10
    recency = math.exp2(-age_days / _HALF_LIFE_DAYS)
    return 2 * record.pinned + record.importance + use + 0.3 * recency


def _may_be_on_page(record: Record, now: datetime) -> bool:
    """Return whether a record is live, trusted and short, and no other one has ended it."""
    is_odd = record.is_item or SUMMARY_TAG in record.tags
    return _is_shown(record) and not (has_passed(record, now) or is_odd)


def _is_shown(record: Record) -> bool:
    return not record.archived and record.origin not in UNTRUSTED and len(record.content) <= LONGEST_LINE


def _is_current(record: Record, now: datetime, zone: tzinfo) -> bool:
    """Return whether a record without a day to come holds now; not a plan whose day is past, or a doubted record."""
    is_past = record.kind in _PLANNED and bool(_list_days(record, zone))
    is_doubted = is_past or bool(record.perhaps_replaced_by)
    return not is_doubted and is_valid_at(record, now) and record.kind not in _NEVER


def _list_days(record: Record, zone: tzinfo) -> list[tuple[date, date]]:
    """Return the days that a record names; a weekday or "next month" counts for plans only."""
    is_plan = record.kind in _PLANNED
    if not is_plan and not _DIGIT.search(record.content):
        return []
    said = get_local_day(record.created_at, zone)
    return [(each.start, each.end) for each in find_dates(record.content, said, relative=is_plan)]


def _find_day(record: Record, today: date, zone: tzinfo) -> date | None:
    """Return the next day that a record is about; None if there is none, or if another may have moved it."""
    if record.kind in STANDING or record.perhaps_replaced_by:
        return None
    if record.valid_from is not None and get_local_day(record.valid_from, zone) > today:
        return get_local_day(record.valid_from, zone)
    if record.kind == "task_state" and (ends := record.until or record.valid_to) is not None:
        return get_local_day(ends - timedelta(microseconds=1), zone)
    upcoming = [max(start, today) for start, end in _list_days(record, zone) if end >= today]
    horizon = today + (4 * _HORIZON if record.kind in _PLANNED else _HORIZON)
    return min((day for day in upcoming if day <= horizon), default=None)


def _is_rule(record: Record) -> bool:
    return record.kind in (*STANDING, "anti_pattern") or any(
        is_within_category(record.category, each) for each in (USER_PREFERENCES, ANTI_PATTERNS)
    )


def _is_about_owner(record: Record) -> bool:
    return record.about == "owner" or _OWNER_CATEGORY.fullmatch(record.category or "") is not None


def _is_recent(record: Record | None, now: datetime) -> bool:
    if record is None or record.valid_to is None or not _is_shown(record):
        return False
    return timedelta() <= now - record.valid_to <= CHANGED_FOR


def _group(records: Sequence[Record], other: str) -> Iterator[Section]:
    """Yield the records by the names and categories that most of them share, best first."""
    keys = {record.id: _list_keys(record) for record in records}
    left = list(records)
    groups: list[tuple[str, list[Record]]] = []
    while left:
        counts = Counter(key for record in left for key in keys[record.id])
        best = max(counts, key=lambda key: (counts[key], key), default=None)
        if best is None or counts[best] < 2:
            break
        inside = [record for record in left if best in keys[record.id]]
        groups.append((best, inside))
        left = [record for record in left if best not in keys[record.id]]
    places = {record.id: place for place, record in enumerate(records)}
    groups.sort(key=lambda group: places[group[1][0].id])
    if left:
        groups.append((other, left))
    for title, inside in groups:
        yield Section(title, _to_lines(inside))


def _list_keys(record: Record) -> list[str]:
    """Return the names in a record as they are written, and the words of its category."""
    names = extract_specifics(record.content).names
    written = [re.search(rf"\b{re.escape(name)}\b", record.content, re.IGNORECASE) for name in names]
    subject = "/".join((record.category or "").split("/")[:2]).replace("-", " ").replace("/", ": ")
    subject = subject[:1].upper() + subject[1:]
    return sorted({*(found.group() for found in written if found), *filter(None, [subject])})
