"""Reader of another agent's folder: notes, memory items, memory entries and sessions, by path.

    MEMORY.md, HISTORY.md, 2026-02-07.md, other .md      notes (`notes`)
    items/**/*.jsonl                                     golemcore's memory items (`golemcore`)
    {category}/{id}.json                                 RockBot's memory entries (`rockbot`)
    sessions/*.json, sessions/*.jsonl                    conversations (`sessions`)

They are in the folder itself, or the first three in its subfolder `memory`. The profile beside that subfolder
(`soul.md` and similar) is not memory, and is reported as left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.formats import notes
from reverie.admin.transfer.formats.foreign import golemcore, rockbot, sessions
from reverie.admin.transfer.items import ImportTerms, Item, Skipped
from reverie.domain.errors import InvalidInput

MEMORY = "memory"
SESSIONS = "sessions"

_ELSEWHERE = "no notes, memory items, entries or sessions"


def read(folder: Path, terms: ImportTerms) -> Iterator[Item]:
    """Yield everything known in a folder, and the rest as left out.

    Raises:
        InvalidInput: it cannot be read.
    """
    inner = (folder / MEMORY).is_dir() and folder.name != MEMORY
    files = sorted(safe_reading.iter_files(folder), key=lambda each: _get_sort_key(each[0]))
    for name, path in files:
        within = name.removeprefix(f"{MEMORY}/") if inner else name
        outside = inner and within == name and not name.startswith(f"{SESSIONS}/")
        if path is None or outside:
            detail = "beside the memory, such as a profile: copy it yourself" if outside else _ELSEWHERE
            yield Skipped(what="file", place=name, why="unsupported", detail=detail)
        else:
            yield from _read_file(path, within, terms, place=name)


def read_file(path: Path, terms: ImportTerms) -> Iterator[Item]:
    """Yield one file of such a folder: a note, or a file of items."""
    if path.suffix == ".jsonl":
        yield from golemcore.read(path, terms, name=path.name)
    else:
        yield from _read_file(path, path.name, terms, place=path.name)


def _get_sort_key(name: str) -> tuple[bool, str]:
    # An item that was promoted stands in two files with one id: the promoted one is to be met first.
    return not (name.endswith(".jsonl") and golemcore.is_promoted(name)), name


def _read_file(path: Path, within: str, terms: ImportTerms, *, place: str) -> Iterator[Item]:
    first = within.partition("/")[0]
    ending = PurePosixPath(within).suffix
    if first == SESSIONS and ending in (".json", ".jsonl"):
        yield from sessions.read(path, terms, name=place)
    elif ending == ".jsonl":
        yield from golemcore.read(path, terms, name=place)
    elif ending == ".md":
        yield from _read_note(path, within, terms, place)
    elif ending == ".json":
        yield from rockbot.read(path, terms, name=within)
    else:
        yield Skipped(what="file", place=place, why="unsupported", detail=_ELSEWHERE)


def _read_note(path: Path, name: str, terms: ImportTerms, place: str) -> Iterator[Item]:
    try:
        text = safe_reading.read_text(path)
    except InvalidInput as error:
        yield notes.skip("page", place, error)
        return
    yield from notes.read(name, text, terms, place=place, at=safe_reading.get_modified_time(path))
