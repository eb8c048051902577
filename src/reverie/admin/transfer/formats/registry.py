"""Which format a file or folder has, and who reads it.

Each format recognises its own values; a source is looked through until one of them is recognised, so an empty
conversation, a null or a header line at its beginning does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import PurePosixPath
from typing import Protocol

from reverie.admin.transfer.batch import FORMS, Form, ImportTerms, Item, Skipped
from reverie.admin.transfer.export import OwnExport
from reverie.admin.transfer.formats import agent_folder, chatgpt, claude, foreign, messages, notes
from reverie.admin.transfer.formats.databases import detect_database_format, read_database
from reverie.admin.transfer.formats.memories import AgentkitValues, JsonMemory
from reverie.admin.transfer.formats.transcripts import Transcripts
from reverie.admin.transfer.safe_reading import Source, SourceFile
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import HISTORY, MEMORY, is_log
from reverie.files import layout
from reverie.files.layout import FIRST_LINE
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
_TRANSCRIPTS: tuple[Form, ...] = ("claude-code", "codex", "gemini")
_MEMORIES: tuple[Form, ...] = ("mem0", "hindsight", "langgraph", "letta", "zep")
_KEY_VALUES = "kv.json"


def _build_formats() -> tuple[Format, ...]:
    """Return the formats of JSON values for one import, in the order in which they are asked."""
    transcripts = (Transcripts("claude-code"), Transcripts("codex"), Transcripts("gemini"))
    return (
        *_CHATS, *transcripts, OwnExport(), foreign.McpMemory(), *map(JsonMemory, _MEMORIES), AgentkitValues(),
        agent_folder.Golemcore(), agent_folder.RockBot(), messages.Messages(),
    )  # fmt: skip


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
    known = next((each for each in _build_formats() if each.form == form), None)
    if source.is_file and (path := source.files[0].path) is not None and _is_database(source.files[0]):
        yield from read_database(path, form, terms)
        return
    if known is not None and not source.is_file and known in _CHATS:
        yield from _read_files(source, known, terms, _is_chat_file)
    elif known is not None and not source.is_file and form in (*_TRANSCRIPTS, *_MEMORIES, "agentkit"):
        is_member = _is_key_value_file if form == "agentkit" else _is_json_file
        yield from _read_files(source, known, terms, is_member)
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


def _read_files(
    source: Source, known: Format, terms: ImportTerms, is_member: Callable[[str], bool]
) -> Iterator[Item]:
    """Yield the content of the files of a folder or archive that are of a format."""
    others = list(source.unread)
    for file in source.files:
        if not is_member(file.name):
            others.append(file.place)
            continue
        try:
            yield from known.read(file, terms)
        except InvalidInput as error:
            yield foreign.skip("file", file.place, error)
    if others:
        detail = f"no conversations of this format in it{', and others' if len(others) > 1 else ''}"
        yield Skipped(what="file", place=others[0], why="unsupported", detail=detail, count=len(others))


def _is_chat_file(name: str) -> bool:
    return _CONVERSATIONS.fullmatch(name) is not None


def _is_key_value_file(name: str) -> bool:
    return PurePosixPath(name).name == _KEY_VALUES


def _is_database(file: SourceFile) -> bool:
    with file.open() as opened:
        return opened.read(len(_SQLITE)) == _SQLITE


def _is_json_file(name: str) -> bool:
    return name.endswith((".jsonl", ".json"))


# -- files and archives ------------------------------------------------------------------------------------


def _detect_file_format(file: SourceFile) -> Form:
    with file.open() as opened:
        head = opened.read(1_000)
    if head.startswith(_SQLITE):
        form = None if file.path is None else detect_database_format(file.path)
        if form is None:
            raise InvalidInput(f"{file.name} is a database. Open its folder, or make a backup of it.")
        return form
    if _is_key_value_file(file.name):
        return "agentkit"
    if not head.strip(b"\xef\xbb\xbf \t\r\n"):
        raise InvalidInput(f"{file.name} is empty.")
    ending = PurePosixPath(file.name).suffix.lower()
    if ending == ".md":
        return "notes"
    may_be_document = ending in notes.DOCUMENT_ENDINGS
    try:
        values = islice(file.values(), _MAX_SEARCHED_LINES if may_be_document else None)
        form = _find_format((value for _, value in values), _build_formats())
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
    if any(
        _detect_values(file, (JsonMemory("hindsight"),)) for file in source.files if _is_json_file(file.name)
    ):
        return "hindsight"
    raise InvalidInput(
        f"{source.path.name}: no archive of ChatGPT, Claude or Hindsight. Unpack it, and import the file or "
        "folder that you want."
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
    formats = tuple(each for each in _build_formats() if each.form in (*_TRANSCRIPTS, *_MEMORIES))
    for file in files:
        if _is_key_value_file(file.name):
            return "agentkit"
        if _is_json_file(file.name) and (form := _detect_values(file, formats)) is not None:
            return form
        place = layout.parse_path(file.name)
        if place is not None and place.form in ("record", "lines", "session") and _is_own(file, place.form):
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


def _detect_values(file: SourceFile, formats: tuple[Format, ...]) -> Form | None:
    """Return the format that the first values of a file show; None if they show none or cannot be read."""
    try:
        return _find_format((value for _, value in islice(file.values(), _MAX_SEARCHED_LINES)), formats)
    except InvalidInput:
        return None


def _is_own(file: SourceFile, form: str) -> bool:
    """Return whether a file at a path of the readable folder has the fields of such a file."""
    if form == "lines":
        with file.open() as opened:
            return opened.read(len(FIRST_LINE)) == FIRST_LINE
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
