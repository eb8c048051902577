"""Readers of the import formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.formats import detection
from reverie.admin.transfer.formats.foreign import (
    chatgpt,
    claude,
    golemcore,
    mcp_memory,
    rockbot,
    sessions,
    workspace,
)
from reverie.admin.transfer.formats.native import jsonl, markdown
from reverie.admin.transfer.items import Form, ImportTerms, Item, Skipped
from reverie.domain.errors import InvalidInput


def read(path: Path, form: Form, terms: ImportTerms) -> Iterator[Item]:
    """Yield everything in a file or folder.

    Raises:
        InvalidInput: it cannot be read, or is not of that format.
    """
    if form in ("chatgpt", "claude"):
        yield from _read_conversations(path, form, terms)
    elif path.is_dir():
        if form not in _FOLDERS:
            raise InvalidInput(f"{str(path)!r} is a folder: {form} is the format of a file")
        yield from _FOLDERS[form](path, terms)
    else:
        yield from _FILES[form](path, terms)


def _read_golemcore(path: Path, terms: ImportTerms) -> Iterator[Item]:
    return golemcore.read(path, terms, name=path.name)


def _read_rockbot(path: Path, terms: ImportTerms) -> Iterator[Item]:
    return rockbot.read(path, terms, name=path.name)


_FILES: Mapping[Form, Callable[[Path, ImportTerms], Iterator[Item]]] = MappingProxyType(
    {
        "jsonl": jsonl.read,
        "markdown": markdown.read_file,
        "mcp": mcp_memory.read,
        "golemcore": _read_golemcore,
        "rockbot": _read_rockbot,
        "notes": workspace.read_file,
        "messages": sessions.read_messages,
        "locomo": sessions.read_locomo,
    }
)
_FOLDERS: Mapping[Form, Callable[[Path, ImportTerms], Iterator[Item]]] = MappingProxyType(
    {
        "markdown": markdown.read,
        "golemcore": workspace.read,
        "rockbot": workspace.read,
        "notes": workspace.read,
    }
)


def _read_conversations(path: Path, form: Form, terms: ImportTerms) -> Iterator[Item]:
    """Yield the conversations of a file, of an archive, or of an unpacked archive."""
    reader = chatgpt.read if form == "chatgpt" else claude.read
    if path.is_dir():
        for name, file in safe_reading.iter_files(path):
            if file is not None and detection.CONVERSATIONS.fullmatch(name):
                with safe_reading.open_file(file) as conversations:
                    yield from reader(conversations, terms, name=name)
            else:
                yield _build_skipped(name)
        return
    with safe_reading.open_file(path) as opened:
        is_archive = opened.read(4) == b"PK\x03\x04"
        opened.seek(0)
        if not is_archive:
            yield from reader(opened, terms, name=path.name)
            return
    with safe_reading.ZipArchive(path) as archive:
        for name in sorted(archive.names):
            if detection.CONVERSATIONS.fullmatch(name):
                with archive.opened(name) as member:
                    yield from reader(member, terms, name=f"{path.name}/{name}")
            else:
                yield _build_skipped(name)


def _build_skipped(name: str) -> Skipped:
    return Skipped(what="file", place=name, why="unsupported", detail="no conversations in it")
