"""Readers of the import formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.formats.detection import CONVERSATIONS
from reverie.admin.transfer.formats.foreign import (
    chatgpt,
    claude,
    document,
    golemcore,
    mcp_memory,
    rockbot,
    sessions,
    workspace,
)
from reverie.admin.transfer.formats.foreign.chat_builder import read_elements
from reverie.admin.transfer.formats.native import jsonl
from reverie.admin.transfer.items import Form, ImportTerms, Item, Skipped
from reverie.domain.errors import InvalidInput

MemberReader = Callable[[safe_reading.Readable, ImportTerms, str], Iterator[Item]]
"""Reads one file of an export; its arguments are the file, the terms and the name."""


def read(path: Path, form: Form, terms: ImportTerms) -> Iterator[Item]:
    """Yield everything in a file or folder.

    Raises:
        InvalidInput: it cannot be read, or is not of that format.
    """
    if form in _MEMBERS:
        yield from _read_members(path, form, terms)
    elif path.is_dir():
        if form not in _FOLDERS:
            raise InvalidInput(f"{str(path)!r} is a folder: {form} is the format of a file")
        yield from _FOLDERS[form](path, terms)
    elif form not in _FILES:
        raise InvalidInput(f"{str(path)!r} is a file: {form} is the format of a folder")
    else:
        yield from _FILES[form](path, terms)


_FILES: Mapping[Form, Callable[[Path, ImportTerms], Iterator[Item]]] = MappingProxyType(
    {
        "jsonl": jsonl.read,
        "mcp": mcp_memory.read,
        "golemcore": lambda path, terms: golemcore.read(path, terms, name=path.name),
        "rockbot": lambda path, terms: rockbot.read(path, terms, name=path.name),
        "notes": workspace.read_file,
        "document": document.read,
        "messages": sessions.read_file,
    }
)
_FOLDERS: Mapping[Form, Callable[[Path, ImportTerms], Iterator[Item]]] = MappingProxyType(
    {
        "golemcore": workspace.read,
        "rockbot": workspace.read,
        "notes": workspace.read,
    }
)


_MEMBERS: Mapping[Form, tuple[re.Pattern[str], Callable[[], MemberReader]]] = MappingProxyType(
    {
        "chatgpt": (CONVERSATIONS, lambda: partial(read_elements, parse=chatgpt.parse_conversation)),
        "claude": (CONVERSATIONS, lambda: partial(read_elements, parse=claude.parse_conversation)),
    }
)
"""Exports that are a file, an archive or an unpacked archive: the names of their files, and what reads one."""


def _read_members(path: Path, form: Form, terms: ImportTerms) -> Iterator[Item]:
    """Yield the content of a file, of an archive, or of an unpacked archive."""
    pattern, create_reader = _MEMBERS[form]
    reader = create_reader()
    if path.is_dir():
        for name, file in sorted(safe_reading.iter_files(path)):
            if file is not None and pattern.fullmatch(name):
                with safe_reading.open_file(file) as opened:
                    yield from reader(opened, terms, name)
            else:
                yield _build_skipped(name)
        return
    with safe_reading.open_file(path) as opened:
        is_archive = opened.read(4) == b"PK\x03\x04"
        opened.seek(0)
        if not is_archive:
            yield from reader(opened, terms, path.name)
            return
    with safe_reading.ZipArchive(path) as archive:
        for name in sorted(archive.names):
            if pattern.fullmatch(name):
                with archive.opened(name) as member:
                    yield from reader(member, terms, f"{path.name}/{name}")
            else:
                yield _build_skipped(f"{path.name}/{name}")


def _build_skipped(name: str) -> Skipped:
    return Skipped(what="file", place=name, why="unsupported", detail="no conversations of this format in it")
