"""Layout of the folder: the path of every value, and the content of its file. Pure.

Every path here is relative to the memory's folder, with `/` between its parts:

    memory/MEMORY.md                           a page; other names may have folders, memory/projects/atlas.md
    memory/HISTORY.md, memory/2026-02-07.md    a log, paragraph by paragraph
    memory/records/{category}.md               the records of a category, one a line; then {category}.2.md
    memory/records/(unfiled).md                those without a category
    memory/episodic/2026-02-07.md              the episodic records created on that day (UTC)
    memory/.archive/{category}.md              archived records, of whatever layer
    sessions/{name}.jsonl                      a session: its fields, then its turns, one a line

In the layout `records`, each record that is not on the page of a day has a file of its own:

    memory/{category}/{id}.json                a record
    memory/.archive/{category}/{id}.json       an archived record

Everything is UTF-8, lines end in a line feed alone and the last line has one. Split lines of JSON at line
feeds only: other separators that Unicode knows may stand inside a line. JSON is written in one way only, so
that equal values give equal bytes. `parsing` reads it back.

A line of a page of records has the form of the living page (`domain.living_page`). Its comment has the id, the time of
creation, and the other fields that are not usual, as JSON.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, assert_never, cast

from reverie.domain.change import Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.lazy_dataclass import MISSING, fields
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.living_page import PAGE_HINT, Line, is_visible_tag, parse_line, render_line
from reverie.domain.page import FOLDERS_OF_RECORDS, HISTORY, Page, Paragraph, is_log
from reverie.domain.record import HOME_LAYERS, WRITTEN_IF_SET, Kind, Record, infer_kind
from reverie.domain.text.json_values import to_json_value
from reverie.files.names import build_file_name

Form = Literal["record", "lines", "page", "log", "session"]
"""Form of a file; `lines` is a page of records."""

Layout = Literal["pages", "records"]
"""Where records are: on pages, or each in a file of its own."""

MEMORY = "memory"
SESSIONS = "sessions"
ARCHIVE = ".archive"
HOOKS = "hooks"
RECORDS, EPISODIC = FOLDERS_OF_RECORDS
UNFILED = "(unfiled)"
"""Name of the page of the records without a category, which no category can have."""

MAX_LINES = 200
"""Records on a page; more are on a second page."""

MAX_PAGE_BYTES = 200_000
"""Size from which on no record is added to a page."""

DRAFTS = ".reverie"
"""Folder in `memory` and in `sessions` of files without a name yet, and of edits that were moved aside."""

_json = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
_json_ascii = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode
_NUMBER = defer_regex(r"\.([2-9]|[1-9]\d+)\.md\Z")
_DEVICE = defer_regex(r"con|prn|aux|nul|com[0-9]|lpt[0-9]")
_IN_COMMENT = defer_regex(r"[<>`]|(?<=-)-")


class FileLocation(NamedTuple):
    """A parsed path. The content of the file may contradict it.

    Attributes:
        form: The form of the file.
        name: For a record the name of the file without its ending, which should be the id; for a page of records the
            name of the first page of its records, without the ending; for a page or log its name, such as
            `projects/atlas.md`; for a session the name of the file without its ending (`names.parse_session_id`
            reads it).
        category: Of records, what the path says, whether it is a valid category or not; None for no category.
        archived: Whether a file of records is in the archive.
        is_day: Whether it is a page of the episodic records of a day.
    """

    form: Form
    name: str
    category: str | None = None
    archived: bool = False
    is_day: bool = False


def build_path(value: Value) -> str:
    """Return the path of the file that contains a value.

    Args:
        value: A record, turn, session, page or paragraph; a turn is in the file of its session, a paragraph
            in that of its log.

    Returns:
        The path, relative to the memory's folder; for a record that of its own file, such as
        `memory/a/b/3f9a0c41d7be.json` (`build_stem` tells whether it is on a page instead).
    """
    match value:
        case Record():
            folder = f"{MEMORY}/{ARCHIVE}" if value.archived else MEMORY
            return "/".join(filter(None, (folder, value.category, f"{value.id}.json")))
        case Turn():
            return build_session_path(value.session)
        case SessionState():
            return build_session_path(value.id)
        case Page():
            return build_page_path(value.name)
        case Paragraph():
            return build_page_path(value.page)
        case _:
            assert_never(value)


def build_session_path(session: str) -> str:
    """Return the path of a session's file."""
    return f"{SESSIONS}/{build_file_name(session)}.jsonl"


def build_page_path(name: str) -> str:
    """Return the path of a page or log."""
    return f"{MEMORY}/{name}"


def build_stem(record: Record, layout: str) -> str | None:
    """Return the path of the first page for records like this one, without `.md`; None if it has its own file.

    Args:
        record: The record.
        layout: The layout of the files.
    """
    if record.layer == "episodic" and not record.archived:
        return f"{MEMORY}/{EPISODIC}/{record.created_at.astimezone(UTC).date().isoformat()}"
    if layout == "records":
        return None
    return f"{MEMORY}/{ARCHIVE if record.archived else RECORDS}/{_name_page(record.category)}"


def build_home(record: Record, layout: str) -> str:
    """Return the part that the paths of all files for records like this one have in common: `parse_home` of them."""
    return build_stem(record, layout) or parse_home(build_path(record))


def parse_home(path: str) -> str:
    """Return the path of a page of records without number and ending, or the folder of a record's own file."""
    return split_numbered_path(path)[0] if path.endswith(".md") else path.rpartition("/")[0]


@lru_cache(maxsize=1_024)
def _name_page(category: str | None) -> str:
    """Return the name of the page of a category: in lower case, and never that of a device of Windows.

    Two categories that differ in case share a page, because they cannot have two on every file system.
    """
    if category is None:
        return UNFILED
    segments = category.lower().split("/")
    return "/".join(f"{name}~" if _DEVICE.fullmatch(name) else name for name in segments)


def build_numbered_path(stem: str, number: int) -> str:
    """Return the path of a page of records, such as `memory/records/work.2.md` for the second one."""
    return f"{stem}.md" if number == 1 else f"{stem}.{number}.md"


def split_numbered_path(path: str) -> tuple[str, int]:
    """Return the stem and the number of a page of records."""
    found = _NUMBER.search(path)
    return (path[: found.start()], int(found[1])) if found else (path.removesuffix(".md"), 1)


@lru_cache(maxsize=1_024)
def parse_path(path: str) -> FileLocation | None:
    """Parse a path; return None if it is not in Reverie's layout.

    Every `.json` below `memory/` counts as a record, and every `.md` as a page of records, page or log. Every `.jsonl`
    in `sessions/` counts as a session. So one with a wrong name is reported rather than ignored. Names that begin with
    a dot do not count, apart from the archive.
    """
    folder, *segments = path.split("/")
    archived = folder == MEMORY and segments[:1] == [ARCHIVE]
    inside = segments[1:] if archived else segments
    if not inside or not all(inside) or any(segment.startswith(".") for segment in inside):
        return None
    *folders, file = inside
    stem, dot, ending = file.rpartition(".")
    if not dot or not stem:
        return None
    if folder == SESSIONS:
        return FileLocation(form="session", name=stem) if ending == "jsonl" and not folders else None
    if folder != MEMORY:
        return None
    if ending == "json":
        return FileLocation(form="record", name=stem, category="/".join(folders) or None, archived=archived)
    if ending != "md":
        return None
    if archived or folders[:1] in ([RECORDS], [EPISODIC]):
        name = "/".join(split_numbered_path(path)[0].split("/")[2:])
        is_day = not archived and folders[0] == EPISODIC
        category = None if is_day or name == UNFILED else name
        return FileLocation(form="lines", name=name, category=category, archived=archived, is_day=is_day)
    name = "/".join(inside)
    return FileLocation(form="log" if is_log(name) else "page", name=name)


def parse_form(path: str) -> Form | None:
    """Return the form of the file at a path, or None."""
    place = parse_path(path)
    return None if place is None else place.form


def is_draft(path: str) -> bool:
    """Return whether a path is that of a file without a name yet, or of an edit that was moved aside."""
    return f"/{DRAFTS}/" in path


# -- contents of files ------------------------------------------------------------------------------------


_USUAL: Mapping[str, Any] = MappingProxyType(
    {
        each.name: to_json_value(each.default if each.default_factory is MISSING else each.default_factory())
        for each in fields(Record)
        if each.name not in ("kind", "layer", *WRITTEN_IF_SET)
        and (each.default is not MISSING or each.default_factory is not MISSING)
    }
)
"""Fields of a record that files leave out if they hold this, the default; others have further conditions."""


def render_record(record: Record) -> bytes:
    """Return the content of a record's own file: JSON in the order of `to_dict`, without usual fields."""
    values = record.to_dict()
    usual = _list_usual_fields(values)
    others = {name: value for name, value in values.items() if name not in usual or value != usual[name]}
    return f"{json.dumps(others, ensure_ascii=False, indent=2)}\n".encode()


def _list_usual_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is left out of a file: what `parsing.build_record` gives to a new record with these fields."""
    created_at = fields.get("created_at")
    usual = {**_USUAL, "updated_at": created_at, "last_seen_at": created_at}
    if (kind := fields.get("kind")) in HOME_LAYERS:
        usual["layer"] = HOME_LAYERS[cast(Kind, kind)]
    if kind == "anti_pattern":
        del usual["tags"]
    if fields.get("archived_at") is not None:
        del usual["archive_reason"]
    return usual


def render_lines(path: str, records: Iterable[Record]) -> bytes:
    """Return the content of a page of records: a line of explanation, then a line for each of them."""
    return FIRST_LINE + render_added_lines(path, records)


def render_added_lines(path: str, records: Iterable[Record]) -> bytes:
    """Return the text that is appended to a page of records."""
    return "".join(f"{_render_record_line(path, record)}\n" for record in records).encode()


FIRST_LINE = f"<!-- reverie:page: {PAGE_HINT} -->\n\n".encode()
"""Beginning of a page of records, which a reader does not see."""

_LINE_ID = defer_regex(r"<!-- *([0-9a-f]{12})\b")


def index_lines(data: bytes) -> dict[str, int]:
    """Return the checksum of each line of a page of records, by the id in its comment."""
    found: dict[str, int] = {}
    for row in data.decode(errors="surrogateescape").split("\n"):
        if names := _LINE_ID.findall(row):
            found.setdefault(names[-1], compute_line_checksum(row))
    return found


def cut_lines(data: bytes, names: Collection[str]) -> bytes:
    """Return a page of records without the lines of some of them."""
    rows = data.decode(errors="surrogateescape").split("\n")
    lines = ((row, parse_line(row)) for row in rows if any(name in names for name in _LINE_ID.findall(row)))
    gone = {row for row, line in lines if line is not None and line.id in names}
    return "\n".join(row for row in rows if row not in gone).encode(errors="surrogateescape")


def compute_line_checksum(row: str) -> int:
    """Return the checksum of a line, whatever ends it."""
    return zlib.crc32(row.removesuffix("\r").encode(errors="surrogateescape"))


_IN_LINE = frozenset({"id", "content", "pinned", "created_at", "permission"})


def _render_record_line(path: str, record: Record) -> str:
    place = parse_path(path)
    assert place is not None
    values = record.to_dict()
    usual = _list_usual_fields(values) | {"kind": infer_line_kind(place, record.category)}
    usual["category"] = place.category
    if place.is_day:
        usual["layer"] = "episodic"
    tags = tuple(filter(is_visible_tag, record.tags))
    if len(tags) == len(record.tags):
        usual["tags"] = values["tags"]
    others = {
        name: value
        for name, value in values.items()
        if name not in _IN_LINE and (name not in usual or value != usual[name])
    }
    details = values["created_at"]
    if others:
        details += " " + _IN_COMMENT.sub(lambda match: f"\\u{ord(match[0]):04x}", _json_ascii(others))
    return render_line(Line(record.id, record.content, "", record.permission, tags, record.pinned, details))


def infer_line_kind(place: FileLocation, category: str | None) -> Kind:
    """Return the kind of a record on a page whose line does not name it."""
    return "event" if place.is_day else infer_kind(category) or "fact"


def render_addition(name: str, paragraphs: Sequence[Paragraph], *, to_empty: bool) -> bytes:
    """Return what is appended to a log's file for new paragraphs at its end, or all of it.

    Paragraphs of `HISTORY.md` have a blank line between them.

    Args:
        name: The log's name.
        paragraphs: The new ones, in their order.
        to_empty: Whether there are no paragraphs before them.
    """
    if not paragraphs:
        return b""
    between = "\n\n" if name == HISTORY else "\n"
    begin = "\n" if name == HISTORY and not to_empty else ""
    return f"{begin}{between.join(paragraph.content for paragraph in paragraphs)}\n".encode()


def render_session(state: SessionState, turns: Sequence[Turn]) -> bytes:
    """Return the content of a session's file: `SessionState.to_dict` in the first line, then a line a turn.

    Args:
        state: The session.
        turns: All its turns, in their order.
    """
    return f"{_json(state.to_dict())}\n".encode() + render_turns(turns)


def render_turns(turns: Sequence[Turn]) -> bytes:
    """Return the lines of turns: JSON objects with `id`, `position`, `role`, `at`, `content` in that order.

    The session is in the first line of the file and is left out, and so are empty values of `speaker`,
    `tool_calls`, `tool_call_id`, `metadata` and `scope`. With `session` added, `Turn.from_dict` reads a line.
    """
    return "".join(f"{_json(_to_turn_dict(turn))}\n" for turn in turns).encode()


_TURN_FIRST = ("id", "position", "role", "at", "content")
_TURN_REST = ("speaker", "tool_calls", "tool_call_id", "metadata", "scope")


def _to_turn_dict(turn: Turn) -> dict[str, Any]:
    fields = turn.to_dict()
    return {name: fields[name] for name in _TURN_FIRST} | {
        name: fields[name] for name in _TURN_REST if fields[name]
    }
