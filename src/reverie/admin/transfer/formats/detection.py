"""Detection of the format of a file or folder, by its beginning or by the names in it.

The error for a source that cannot be imported says what it is and what to do with it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.formats.foreign import (
    chatgpt,
    claude,
    document,
    golemcore,
    rockbot,
    workspace,
)
from reverie.admin.transfer.formats.native import codec
from reverie.admin.transfer.items import FORMS, Form
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import HISTORY, MEMORY, is_log
from reverie.files import layout
from reverie.stores.sqlite import DATABASE

CONVERSATIONS = defer_regex(r"(?:.*/)?conversations(?:[-_]\d+)?\.json")
"""Names of files of conversations in an archive of ChatGPT or Claude."""

_EXPORTS = {"chatgpt", "claude"}

_LOOKED_AT = 2_000
_ZIP = b"PK\x03\x04"
_SQLITE = b"SQLite format 3\x00"
_KNOWN = f"name its format if it is one of {', '.join(FORMS)}"


def detect_format(path: Path) -> Form:
    """Return the format of a file or folder.

    Raises:
        InvalidInput: there is nothing of that name, or nothing that can be imported.
    """
    try:
        is_folder = path.is_dir()
    except OSError as error:
        raise InvalidInput(f"{str(path)!r} cannot be read ({error.strerror})") from None
    if is_folder:
        return _detect_folder_format(path)
    with safe_reading.open_file(path) as file:
        head = file.read(16)
    if head.startswith(_ZIP):
        with safe_reading.ZipArchive(path) as archive:
            return _detect_archive_format(archive)
    if head.startswith(_SQLITE):
        raise InvalidInput(f"{path.name} is a database: open its folder, or make a backup of it")
    if path.suffix.lower() == ".md":
        return "notes"
    return _detect_text_format(path)


# -- files -------------------------------------------------------------------------------------------------


def _detect_text_format(path: Path) -> Form:
    try:
        with safe_reading.open_file(path) as file:
            _, first = next(safe_reading.iter_lines(file), (0, b""))
    except InvalidInput as error:
        raise InvalidInput(f"{path.name}: {error}") from None
    if first is None:
        raise InvalidInput(f"{path.name}: its first line has over {safe_reading.LONGEST_LINE:,} bytes")
    if not first:
        raise InvalidInput(f"{path.name} is empty")
    try:
        data = safe_reading.parse_json(first)
    except InvalidInput:
        data = None
    if not isinstance(data, dict):  # one document over several lines, or a list
        try:
            with safe_reading.open_file(path) as file:
                data = _read_first_element(file, path.name)
        except InvalidInput:
            if path.suffix.lower() in document.ENDINGS and not first.lstrip().startswith((b"{", b"[")):
                return "document"
            raise
    form = _detect_object_format(data)
    if form is None:
        raise InvalidInput(f"{path.name}: cannot tell what it is: {_KNOWN}")
    return form


def _read_first_element(file: safe_reading.Readable, name: str) -> Any:
    """Return the only value of a file, or the first of a list, or of a list in that."""
    try:
        text = next(safe_reading.iter_elements(file), None)
        if text is None:
            raise InvalidInput("an empty list")
        value = safe_reading.parse_json(text)
        return value[0] if isinstance(value, list) and value else value
    except InvalidInput as error:
        raise InvalidInput(f"{name}: cannot tell what it is ({error}): {_KNOWN}") from None


def _detect_object_format(data: Any) -> Form | None:
    if not isinstance(data, dict):
        return None
    return next((form for form, is_of in _OBJECTS if is_of(data)), None)


_OBJECTS: tuple[tuple[Form, Callable[[dict[str, Any]], bool]], ...] = (
    ("chatgpt", chatgpt.is_conversation),
    ("claude", claude.is_conversation),
    ("jsonl", lambda data: data.get("type") == "header" and data.get("format") == codec.FORMAT),
    ("mcp", lambda data: data.get("type") in ("entity", "relation")),
    ("golemcore", golemcore.is_item),
    ("rockbot", rockbot.is_entry),
    ("messages", lambda data: "role" in data or isinstance(data.get("messages"), list)),
)
"""What tells the formats of JSON objects, in the order in which they are tried."""


def _detect_archive_format(archive: safe_reading.ZipArchive) -> Form:
    if "manifest.json" in archive.names and DATABASE in archive.names:
        raise InvalidInput(f"{archive.name} is a backup of Reverie: bring it back with `reverie recover`")
    for name in archive.names:
        with archive.opened(name) as file:
            if (form := _detect_export(file, name)) is not None:
                return form
    raise InvalidInput(
        f"{archive.name}: no archive of ChatGPT or Claude: unpack it, and import the file or folder that you want"
    )


def _detect_export(file: safe_reading.Readable, name: str) -> Form | None:
    """Return the format that one file of an export indicates; None if it indicates none."""
    if not CONVERSATIONS.fullmatch(name):
        return None
    form = _detect_object_format(_read_first_element(file, name))
    return form if form in _EXPORTS else None


# -- folders -----------------------------------------------------------------------------------------------


def _detect_folder_format(folder: Path) -> Form:
    names = _list_names(folder)
    for name, path in names:
        if (form := _detect_file_format(name, path)) is not None:
            return form
    if any(_is_notes(name) for name, _ in names):
        return "notes"
    raise InvalidInput(
        f"{str(folder)!r}: nothing in it is known: import its text files one by one, or {_KNOWN}"
    )


def _list_names(folder: Path) -> list[tuple[str, Path]]:
    names = [(name, path) for name, path in safe_reading.iter_files(folder) if path is not None]
    return names[:_LOOKED_AT]


def _detect_file_format(name: str, path: Path) -> Form | None:
    """Return the format that one file of a folder indicates; None if it indicates none."""
    parts = PurePosixPath(name).parts
    with safe_reading.open_file(path) as file:
        if (form := _detect_export(file, name)) is not None:
            return form
    place = layout.parse_path(name)
    if place is not None and place.form in ("record", "episodic", "session") and _is_own(path, place.form):
        raise InvalidInput(
            f"{name} is of the readable folder of a memory: make a database of that folder with "
            "`reverie rebuild`, export it as jsonl, and import the export"
        )
    if workspace.SESSIONS in parts[:-1]:
        return None
    if name.endswith(".jsonl"):
        return "golemcore" if golemcore.is_item(_read_first_object(path)) else None
    if name.endswith(".json"):
        try:
            data = safe_reading.parse_json_object(safe_reading.read_text(path))
        except InvalidInput:
            return None
        return "rockbot" if rockbot.is_entry(data) else None
    return None


def _is_own(path: Path, form: str) -> bool:
    """Whether a file at a place of the readable folder has the fields of one."""
    if form == "record":
        try:
            data = safe_reading.parse_json_object(safe_reading.read_text(path))
        except InvalidInput:
            return False
        return {"id", "content", "created_at", "kind"} <= set(data)
    data = _read_first_object(path)
    return {"id", "window_start"} <= set(data) or {"id", "seen_count", "last_seen_at"} <= set(data)


def _read_first_object(path: Path) -> dict[str, Any]:
    """Return the first line of a file that is a JSON object; an empty one if there is none."""
    with safe_reading.open_file(path) as file:
        for _, data in safe_reading.iter_documents(file):
            if isinstance(data, dict):
                return data
    return {}


def _is_notes(name: str) -> bool:
    file = PurePosixPath(name).name
    return file in (MEMORY, HISTORY) or is_log(file) or PurePosixPath(name).parts[0] == workspace.SESSIONS
