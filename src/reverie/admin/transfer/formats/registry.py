"""Which format a source has, and who reads each of its files.

Each format recognises its own values. A source is looked through until one of them is recognised, so an empty
conversation, a null or a header line at its beginning does not matter. A folder and an archive are read alike.

    MEMORY.md, HISTORY.md, 2026-02-07.md, other .md      notes (`notes`)
    items/**/*.jsonl                                     golemcore's memory items
    {category}/{id}.json                                 RockBot's memory entries
    sessions/*.json, sessions/*.jsonl                    conversations of golemcore and Autobot

are in an agent's folder itself, or the first three in its subfolder `memory`. The profile beside that subfolder
(`soul.md` and similar) is not memory, and is reported as left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import PurePosixPath
from typing import get_args

from reverie.admin.transfer.batch import FORMS, Form, ImportTerms, Item, Skipped
from reverie.admin.transfer.export import is_export_header, read_export
from reverie.admin.transfer.formats import notes
from reverie.admin.transfer.formats.conversations import CHATS, is_messages, read_messages, read_session
from reverie.admin.transfer.formats.entries import (
    ENTRIES,
    GOLEMCORE,
    ROCKBOT,
    detect_database_format,
    read_agentkit,
    read_database,
    read_rockbot,
)
from reverie.admin.transfer.formats.foreign import Format, detect_value_format, read_values, skip
from reverie.admin.transfer.formats.transcripts import TranscriptReader
from reverie.admin.transfer.safe_reading import Source, SourceFile
from reverie.admin.transfer.transcripts import Client, detect_client
from reverie.domain.errors import InvalidInput
from reverie.files.layout import FIRST_LINE
from reverie.stores.sqlite import DATABASE

_AGENT_FOLDERS = ("golemcore", "rockbot", "notes")
_CLIENTS: tuple[Client, ...] = get_args(Client)
_MEMORY, _SESSIONS = "memory/", "sessions/"
_KEY_VALUES = "kv.json"
_MAX_SEARCHED_FILES = 2_000
_MAX_SEARCHED_LINES = 1_000
_SQLITE = b"SQLite format 3\x00"
_KNOWN = f"Name its format if it is one of {', '.join(FORMS)}."
_FORMATS = {each.form: each for each in (*CHATS, *ENTRIES)}


def detect_format(source: Source) -> Form:
    """Return the format of a source.

    Raises:
        InvalidInput: nothing in it can be imported; the message says what to do with it.
    """
    if source.is_file:
        return _detect_single_file(source.files[0])
    if any(file.name == DATABASE for file in source.files):
        advice = "Restore a backup with `reverie recover`. Export another memory, and import the export."
        raise InvalidInput(f"{source.path.name} is a memory of Reverie, or a backup of one. {advice}")
    files = sorted(source.files[:_MAX_SEARCHED_FILES], key=lambda file: "conversations" not in file.name)
    broken: InvalidInput | None = None
    for file in files:
        if _get_ending(file.name) == ".md":
            _refuse_own(file)
        if _get_ending(file.name) not in (".json", ".jsonl", ".af"):
            continue
        try:
            form = _detect_values(file, islice(file.values(), _MAX_SEARCHED_LINES))
        except InvalidInput as error:
            broken = broken or error
            continue
        if form is not None and form != "messages":
            return form
    if any(_get_ending(file.name) == ".md" or file.name.startswith(_SESSIONS) for file in files):
        return "notes"
    raise broken or InvalidInput(
        f"{str(source.path)!r}: nothing in it is known. Import its text files one by one. {_KNOWN}"
    )


def _detect_single_file(file: SourceFile) -> Form:
    with file.open() as opened:
        head = opened.read(1_000)
    if head.startswith(_SQLITE):
        if (known := detect_database_format(file.path)) is None:
            raise InvalidInput(f"{file.name} is a database. Open its folder, or make a backup of it.")
        return known
    if not head.strip(b"\xef\xbb\xbf \t\r\n"):
        raise InvalidInput(f"{file.name} is empty.")
    if _get_ending(file.name) == ".md":
        return "notes"
    may_be_document = _get_ending(file.name) in notes.DOCUMENT_ENDINGS
    form, why = None, ""
    try:
        form = _detect_values(file, islice(file.values(), _MAX_SEARCHED_LINES if may_be_document else None))
    except InvalidInput as error:
        why = f" ({error})"
    if form is None and may_be_document and not head.lstrip().startswith((b"{", b"[")):
        return "document"
    if form is None:
        raise InvalidInput(f"Cannot detect the format of {file.name!r}{why}. {_KNOWN}")
    return form


def _detect_values(file: SourceFile, values: Iterable[tuple[str, object]]) -> Form | None:
    """Return the format that a file's values show; None if they show none."""
    if _is_key_value_file(file):
        return "agentkit"
    for _, value in values:
        if (known := detect_value_format(value, CHATS)) or (client := detect_client(value)) is None:
            found = known or detect_value_format(value, ENTRIES)
            form = "jsonl" if is_export_header(value) else found.form if found else None
        else:
            form = client
        if form is not None or is_messages(value):
            return form or "messages"
    return None


def _is_key_value_file(file: SourceFile) -> bool:
    return PurePosixPath(file.name).name == _KEY_VALUES


def _get_ending(name: str) -> str:
    return PurePosixPath(name).suffix.lower()


def _refuse_own(file: SourceFile) -> None:
    """Raise `InvalidInput` for a page of records of a memory."""
    with file.open() as opened:
        head = opened.read(len(FIRST_LINE))
    if head == FIRST_LINE:
        raise InvalidInput(
            f"{file.name} is part of the readable folder of a memory. Make a database of that folder with "
            "`reverie rebuild`, export it, and import the export."
        )


# -- reading -----------------------------------------------------------------------------------------------


def read(source: Source, form: Form, terms: ImportTerms) -> Iterator[Item]:
    """Yield everything in a source.

    Raises:
        InvalidInput: it cannot be read, or is not of that format.
    """
    seen: set[str] = set()
    if source.is_file:
        yield from _read_file(source.files[0], source.files[0].name, form, terms, seen)
        return
    has_memory = source.path.name != _MEMORY[:-1] and any(
        file.name.startswith(_MEMORY) for file in source.files
    )
    others: list[str] = []
    # A promoted item of golemcore is in two files with one id; the promoted version is imported.
    for file in sorted(source.files, key=lambda each: (not _is_promoted(each.name), each.name)):
        name = file.name.removeprefix(_MEMORY) if has_memory else file.name
        if form in _AGENT_FOLDERS and has_memory and name == file.name and not name.startswith(_SESSIONS):
            detail = "beside the memory, such as a profile: copy it yourself"
            yield Skipped(what="file", place=file.place, why="unsupported", detail=detail)
        elif not _is_member(file, form):
            others.append(file.place)
        else:
            try:
                yield from _read_file(file, name, form, terms, seen)
            except InvalidInput as error:
                yield skip("page" if _get_ending(name) == ".md" else "file", file.place, error)
    if len(others) == len(source.files):
        raise InvalidInput(f"{str(source.path)!r}: nothing in it is of the format {form!r}.")
    for place in (*others, *source.unread):
        yield Skipped(what="file", place=place, why="unsupported", detail=f"nothing of the format {form}")


def _is_promoted(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix == ".jsonl" and path.stem.lower() in ("semantic", "procedural")


def _is_member(file: SourceFile, form: Form) -> bool:
    """Return whether a file of a folder or archive may be of a format."""
    if form == "agentkit":
        return _is_key_value_file(file)
    endings = {".json", ".jsonl", ".af"} | ({".md"} if form in _AGENT_FOLDERS else set())
    return form != "document" and _get_ending(file.name) in endings


def _read_file(file: SourceFile, name: str, form: Form, terms: ImportTerms, seen: set[str]) -> Iterator[Item]:
    """Yield the content of one file.

    Args:
        name: Its path below the memory folder.
        seen: Ids of messages of the transcripts that were read before.
    """
    if file.archive is None and _is_database(file):
        yield from read_database(file.path, form, terms)
    elif form in _CLIENTS:
        yield from TranscriptReader(form, file, terms, seen).read()
    elif form == "document":
        yield from notes.read_document(file, terms)
    elif form == "jsonl":
        yield from read_export(file, terms)
    elif form == "messages":
        yield from read_messages(file, terms)
    elif form == "agentkit":
        yield from read_agentkit(file, terms)
    elif form not in _AGENT_FOLDERS:
        yield from read_values(file, [_FORMATS[form]], terms)
    elif name.startswith(_SESSIONS):
        yield from read_session(file, terms)
    elif _get_ending(name) in (".json", ".jsonl"):
        folder = str(PurePosixPath(name).parent)
        rockbot: Format = ROCKBOT._replace(read=partial(read_rockbot, folder=folder))
        yield from read_values(file, [GOLEMCORE, rockbot], terms)
    else:
        yield from notes.read(name, file.read_text(), terms, place=file.place, at=file.modified_at)


def _is_database(file: SourceFile) -> bool:
    with file.open() as opened:
        return opened.read(len(_SQLITE)) == _SQLITE
