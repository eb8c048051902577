"""Layout of the folder: the path of every value, and the content of its file. Pure.

Every path here is relative to the memory's folder, with `/` between its parts:

    memory/MEMORY.md                           a page; other names may have folders, memory/projects/atlas.md
    memory/HISTORY.md, memory/2026-02-07.md    a log, paragraph by paragraph
    memory/3f9a0c41d7be.json                   a record without a category
    memory/{category}/{id}.json                a record
    memory/episodic/2026-02-07.jsonl           the episodic records created on that day (UTC), one a line
    memory/.archive/{category}/{id}.json       an archived record, of whatever layer
    sessions/{name}.jsonl                      a session: its fields, then its turns, one a line

Everything is UTF-8, lines end in a line feed alone and the last line has one. Split lines of JSON at line
feeds only: other separators that Unicode knows may stand inside a line. JSON is written in one way only, so
that equal values give equal bytes. `parsing` reads it back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, assert_never, cast

from reverie.domain.change import Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import HISTORY, Page, Paragraph, is_log
from reverie.domain.record import HOME_LAYERS, WRITTEN_IF_SET, Kind, Record
from reverie.domain.text.json_values import to_json_value
from reverie.files.names import build_file_name

Form = Literal["record", "episodic", "page", "log", "session"]
"""Form of a file."""

MEMORY = "memory"
SESSIONS = "sessions"
ARCHIVE = ".archive"
HOOKS = "hooks"
EPISODIC = "episodic"

RECOVERED = ".recovered-"
"""Suffix, before a number, of an edit that came while its file was replaced."""

_json = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
_RECOVERED = defer_regex(r"(?P<path>.+)\.recovered-\d+")


class FileLocation(NamedTuple):
    """A parsed path. The content of the file may contradict it.

    Attributes:
        form: The form of the file.
        name: For a record the name of the file without its ending, which should be the id; for episodic
            records the day; for a page or log its name, such as `projects/atlas.md`; for a session the
            name of the file without its ending (`names.parse_session_id` reads it).
        category: The folders of a record's file, joined by `/`, whether they are a valid category or not;
            None at the root.
        archived: Whether a record's file is in the archive.
    """

    form: Form
    name: str
    category: str | None = None
    archived: bool = False


def build_path(value: Value) -> str:
    """Return the path of the file that contains a value.

    Args:
        value: A record, turn, session, page or paragraph; a turn is in the file of its session, a paragraph
            in that of its log.

    Returns:
        The path, relative to the memory's folder, such as `memory/a/b/3f9a0c41d7be.json`.
    """
    match value:
        case Record():
            if value.archived:
                return _build_record_path(f"{MEMORY}/{ARCHIVE}", value)
            if value.layer == "episodic":
                return build_episodic_path(value.created_at)
            return _build_record_path(MEMORY, value)
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


def build_episodic_path(moment: datetime) -> str:
    """Return the path of the live episodic records that were created on the day of a moment (UTC)."""
    return f"{MEMORY}/{EPISODIC}/{moment.astimezone(UTC).date().isoformat()}.jsonl"


@lru_cache(maxsize=1_024)
def parse_path(path: str) -> FileLocation | None:
    """Parse a path; return None if it is not in Reverie's layout.

    Every `.json` below `memory/` counts as a record, and every `.md` as a page or log. Every `.jsonl` in
    `memory/episodic/` and `sessions/` counts as a file of that form. So one with a wrong name is reported rather
    than ignored. Names that begin with a dot do not count, apart from the archive.
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
    if archived:
        return None
    if ending == "md":
        name = "/".join(inside)
        return FileLocation(form="log" if is_log(name) else "page", name=name)
    if ending == "jsonl" and folders == [EPISODIC]:
        return FileLocation(form="episodic", name=stem)
    return None


def parse_form(path: str) -> Form | None:
    """Return the form of the file at a path, or None."""
    place = parse_path(path)
    return None if place is None else place.form


def parse_recovered_path(path: str) -> str | None:
    """Return the path of the file that `{path}.recovered-N` is an edit of; None for any other path."""
    match = _RECOVERED.fullmatch(path)
    return match["path"] if match and parse_path(match["path"]) is not None else None


# -- contents of files ------------------------------------------------------------------------------------


_BETWEEN = ",\n"
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
    """Return the content of a record's own file: JSON with a field a line, in the order of `to_dict`.

    Fields that `complete_record` gives back are left out.
    """
    values = record.to_dict()
    usual = _list_usual_fields(values)
    fields = [
        f'  "{name}": {_render_field(value)}'
        for name, value in values.items()
        if name not in usual or value != usual[name]
    ]
    return f"{{\n{_BETWEEN.join(fields)}\n}}\n".encode()


def complete_record(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record, as JSON values, with those that `render_record` leaves out."""
    return {**_list_usual_fields(fields), **fields}


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


def render_line(record: Record) -> bytes:
    """Return a record as a line of an episodic file."""
    return f"{_json(record.to_dict())}\n".encode()


def render_episodic(records: Iterable[Record]) -> bytes:
    """Return the content of an episodic file: a line a record, in the order of `get_sort_key`."""
    return b"".join(map(render_line, sorted(records, key=get_sort_key)))


def get_sort_key(record: Record) -> tuple[datetime, str]:
    """Return what orders the records of an episodic file."""
    return record.created_at, record.id


def render_page(page: Page) -> bytes:
    """Return the content of a page's file: its text, unchanged."""
    return page.content.encode()


def render_log(name: str, paragraphs: Sequence[Paragraph]) -> bytes:
    """Return the content of a log's file: the text of its paragraphs.

    Args:
        name: The log's name; paragraphs of `HISTORY.md` have a blank line between them.
        paragraphs: All of them, in their order.
    """
    return render_addition(name, paragraphs, to_empty=True)


def render_addition(name: str, paragraphs: Sequence[Paragraph], *, to_empty: bool) -> bytes:
    """Return what is appended to a log's file for new paragraphs at its end.

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


def _build_record_path(folder: str, record: Record) -> str:
    return f"{folder}/{record.category}/{record.id}.json" if record.category else f"{folder}/{record.id}.json"


def _render_field(value: Any) -> str:
    """Return a field as JSON; a mapping has a line for each entry."""
    if isinstance(value, dict) and value:
        entries = ",\n".join(f"    {_json(name)}: {_json(text)}" for name, text in value.items())
        return f"{{\n{entries}\n  }}"
    return _json(value)
