"""Which format a file or folder has, and who reads it.

Each format recognises its own values; a source is looked through until one of them is recognised, so an empty
conversation, a null or a header line at its beginning does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import PurePosixPath
from typing import Protocol

from reverie.admin.transfer.batch import FORMS, Form, ImportTerms, Item, Skipped
from reverie.admin.transfer.export import OwnExport
from reverie.admin.transfer.formats import agent_folder, chatgpt, claude, foreign, messages, notes
from reverie.admin.transfer.safe_reading import Source, SourceFile
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import HISTORY, MEMORY, is_log
from reverie.files import layout
from reverie.stores.sqlite import DATABASE

_CONVERSATIONS = defer_regex(r"(?:.*/)?conversations(?:[-_]\d+)?\.json")
"""Names of files of conversations in an archive of ChatGPT or Claude."""

_MAX_SEARCHED_FILES = 2_000
_MAX_SEARCHED_LINES = 1_000
_SQLITE = b"SQLite format 3\x00"
_KNOWN = f"Name its format if it is one of {', '.join(FORMS)}."


class Format(Protocol):
    """Format of a file whose JSON values say of which format they are."""

    form: Form

    def recognises(self, value: object) -> bool:
        """Return whether a JSON value is of this format."""

    def read(self, file: SourceFile, terms: ImportTerms) -> Iterator[Item]:
        """Yield the content of a file; raise `InvalidInput` if it cannot be read."""


_CHATS: tuple[Format, ...] = (chatgpt.ChatGpt(), claude.Claude())
_FORMATS: tuple[Format, ...] = (
    *_CHATS, OwnExport(), foreign.McpMemory(), agent_folder.Golemcore(), agent_folder.RockBot(),
    messages.Messages(),
)  # fmt: skip
"""Formats of JSON values, in the order in which they are asked."""


def detect_format(source: Source) -> Form:
    """Return the format of a source.

    Raises:
        InvalidInput: nothing in it can be imported; the message says what to do with it.
    """
    if source.is_file:
        return _detect_file_format(source.files[0])
    if not source.path.is_dir():
        return _detect_archive_format(source)
    return _detect_folder_format(source)


def read(source: Source, form: Form, terms: ImportTerms) -> Iterator[Item]:
    """Yield everything in a source.

    Raises:
        InvalidInput: it cannot be read, or is not of that format.
    """
    known = next((each for each in _FORMATS if each.form == form), None)
    if known in _CHATS and known is not None:
        yield from _read_chats(source, known, terms)
    elif source.is_file:
        file = source.files[0]
        if form == "notes":
            yield from agent_folder.read_file(file, terms)
        elif form == "document":
            yield from notes.read_document(file, terms)
        else:
            assert known is not None
            yield from known.read(file, terms)
    elif form in ("golemcore", "rockbot", "notes") and source.path.is_dir():
        yield from agent_folder.read_folder(source, terms)
    else:
        raise InvalidInput(f"{str(source.path)!r} is not a file. The format {form!r} is that of a file.")


def _read_chats(source: Source, known: Format, terms: ImportTerms) -> Iterator[Item]:
    if source.is_file:
        yield from known.read(source.files[0], terms)
        return
    for file in source.files:
        if not _CONVERSATIONS.fullmatch(file.name):
            yield _build_unsupported(file.place)
            continue
        try:
            yield from known.read(file, terms)
        except InvalidInput as error:
            yield foreign.skip("file", file.place, error)
    for name in source.unread:
        yield _build_unsupported(name)


def _build_unsupported(place: str) -> Skipped:
    return Skipped(
        what="file", place=place, why="unsupported", detail="no conversations of this format in it"
    )


# -- files and archives ------------------------------------------------------------------------------------


def _detect_file_format(file: SourceFile) -> Form:
    with file.open() as opened:
        head = opened.read(1_000)
    if head.startswith(_SQLITE):
        raise InvalidInput(f"{file.name} is a database. Open its folder, or make a backup of it.")
    if not head.strip(b"\xef\xbb\xbf \t\r\n"):
        raise InvalidInput(f"{file.name} is empty.")
    ending = PurePosixPath(file.name).suffix.lower()
    if ending == ".md":
        return "notes"
    may_be_document = ending in notes.DOCUMENT_ENDINGS
    try:
        values = islice(file.values(), _MAX_SEARCHED_LINES if may_be_document else None)
        form = _find_format((value for _, value in values), _FORMATS)
    except InvalidInput as error:
        if not may_be_document:
            raise InvalidInput(f"Cannot detect the format of {file.name!r} ({error}). {_KNOWN}") from None
        form = None
    if form is None and may_be_document and not head.lstrip().startswith((b"{", b"[")):
        return "document"
    if form is None:
        raise InvalidInput(f"Cannot detect the format of {file.name!r}. {_KNOWN}")
    return form


def _find_format(values: Iterator[object], formats: tuple[Format, ...]) -> Form | None:
    for value in values:
        for each in formats:
            if each.recognises(value):
                return each.form
    return None


def _detect_archive_format(source: Source) -> Form:
    names = {file.name for file in source.files}
    if {"manifest.json", DATABASE} <= names:
        raise InvalidInput(f"{source.path.name} is a backup of Reverie. Restore it with `reverie recover`.")
    if (form := _detect_chat_format(source)) is not None:
        return form
    raise InvalidInput(
        f"{source.path.name}: no archive of ChatGPT or Claude. Unpack it, and import the file or folder that "
        "you want."
    )


def _detect_chat_format(source: Source) -> Form | None:
    """Return the format that a file of conversations shows; None if none does."""
    broken: InvalidInput | None = None
    for file in source.files:
        if not _CONVERSATIONS.fullmatch(file.name):
            continue
        try:
            if (form := _find_format((value for _, value in file.values()), _CHATS)) is not None:
                return form
        except InvalidInput as error:
            broken = broken or error
    if broken is not None:
        raise broken
    return None


# -- folders -----------------------------------------------------------------------------------------------


def _detect_folder_format(source: Source) -> Form:
    if (form := _detect_chat_format(source)) is not None:
        return form
    files = source.files[:_MAX_SEARCHED_FILES]
    for file in files:
        place = layout.parse_path(file.name)
        if (
            place is not None
            and place.form in ("record", "episodic", "session")
            and _is_own(file, place.form)
        ):
            raise InvalidInput(
                f"{file.name} is part of the readable folder of a memory. Make a database of that folder with "
                "`reverie rebuild`, export it, and import the export."
            )
        if (form := agent_folder.detect_file_format(file)) is not None:
            return form
    if any(_is_note(file.name) for file in files):
        return "notes"
    raise InvalidInput(
        f"{str(source.path)!r}: nothing in it is known. Import its text files one by one. {_KNOWN}"
    )


def _is_own(file: SourceFile, form: str) -> bool:
    """Return whether a file at a path of the readable folder has the fields of such a file."""
    try:
        fields = next((set(value) for _, value in file.values() if isinstance(value, dict)), set())
    except InvalidInput:
        return False
    if form == "record":
        return {"id", "content", "created_at", "kind"} <= fields
    return {"id", "window_start"} <= fields or {"id", "seen_count", "last_seen_at"} <= fields


def _is_note(name: str) -> bool:
    file = PurePosixPath(name).name
    in_sessions = PurePosixPath(name).parts[0] == agent_folder.SESSIONS
    return file in (MEMORY, HISTORY) or is_log(file) or file.endswith(".md") or in_sessions
