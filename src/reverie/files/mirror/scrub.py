"""Removal of erased text from files that the mirror does not write.

The mirror has written every other file already. What remains are edits that could not be imported, conflict
files, recovered files, and drafts of killed processes. Reverie's own files are removed, and those of a person
are named. Known and unchanged files are skipped: they have the content of the store.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from reverie.domain.text.shingles import PhraseMatcher
from reverie.files.disk.atomic import DRAFTS
from reverie.files.disk.state import FileState, LockedFileState, NoteKind
from reverie.files.layout import MEMORY, SESSIONS, build_session_path, parse_path, parse_recovered_path
from reverie.files.scan import CONFLICT

LONGEST_FILE = 100_000_000
"""The largest file that is looked through, in bytes."""

_BLOCK = 8_000_000
_OVERLAP = 80_000  # more than the bytes of the longest requested text


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRemnants:
    """Files with erased text.

    Attributes:
        removed: Files that were removed, relative to the memory's folder.
        left: Files that still contain it, for a person to correct.
    """

    removed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def scrub_files(
    root: Path,
    state: FileState,
    phrases: PhraseMatcher,
    *,
    records: Collection[str],
    sessions: Collection[str],
    mirrored: bool = True,
    dry_run: bool = False,
) -> FileRemnants:
    """Remove erased text from files.

    Args:
        root: The memory's folder.
        state: The state of its files.
        phrases: The erased text.
        records: The ids of erased records.
        sessions: The ids of erased sessions.
        mirrored: Whether the files are kept up to date. If not, known files may contain erased text too.
        dry_run: Whether to only return what would be removed and left.

    Raises:
        StateUnavailable: the state of the files is locked for too long or cannot be written.
        OSError: a file or folder cannot be read, or a file cannot be removed.
    """
    removed: list[str] = []
    left: list[str] = []
    whole = {build_session_path(session) for session in sessions}
    prefixes = tuple(f"{path}." for path in whole)
    with state.lock() as ledger:
        if not (mirrored or dry_run):
            ledger.drop_texts()
        for path, size in list(_iter_unknown_files(root, ledger.stamps() if mirrored else {})):
            marked = path in whole or path.startswith(prefixes) or _extract_record_id(path) in records
            too_large = size > LONGEST_FILE
            if not (marked or too_large or phrases.has_match(path) or _may_have_phrase(root / path, phrases)):
                continue
            if not marked and (too_large or not _is_own(path)):
                left.append(path)
                continue
            removed.append(path)
            if dry_run:
                continue
            _remove(root, path)
            ledger.drop([path])
            ledger.settle([path])
        if not dry_run:
            _drop_notes(ledger, [*removed, *whole], phrases)
    return FileRemnants(removed=tuple(removed), left=tuple(left))


def _iter_unknown_files(root: Path, known: Mapping[str, tuple[int, int]]) -> Iterator[tuple[str, int]]:
    """Yield the paths and sizes of the files that are unknown or have changed."""
    folders = [MEMORY, SESSIONS]
    while folders:
        folder = folders.pop()
        with suppress(FileNotFoundError), os.scandir(root / folder) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                elif entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    if known.get(path) != (status.st_size, status.st_mtime_ns):
                        yield path, status.st_size


def _may_have_phrase(file: Path, phrases: PhraseMatcher) -> bool:
    """Return whether a file contains one of the phrases; False for one that has just been removed."""
    with suppress(FileNotFoundError):
        return has_phrase(file, phrases)
    return False


def _remove(root: Path, path: str) -> None:
    """Remove a file and the folders that become empty: the name of a category may be erased text too."""
    (root / path).unlink(missing_ok=True)
    folder = (root / path).parent
    while folder.parent != root and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def _is_own(path: str) -> bool:
    """Return whether Reverie made the file, so that no work of a person is lost with it."""
    return f"/{DRAFTS}/" in path or path.endswith(CONFLICT) or parse_recovered_path(path) is not None


def _extract_record_id(path: str) -> str:
    """Return the record id in the name of a record, conflict or recovered file, or an empty string."""
    path = parse_recovered_path(path) or path.removesuffix(CONFLICT)
    place = parse_path(path if path.endswith(".json") else f"{path}.json")
    return place.name if place is not None and place.form == "record" else ""


def has_phrase(file: Path, phrases: PhraseMatcher) -> bool:
    """Return whether a file contains one of the phrases, in UTF-8, UTF-16, UTF-32 or Latin-1.

    Raises:
        OSError: the file cannot be read.
    """
    words = phrases.collect_longest_words()
    with file.open("rb") as opened:
        block = opened.read(_BLOCK)
        while block:
            if any(phrases.has_match(text) for text in _decode_block(block, words)):
                return True
            more = opened.read(_BLOCK)
            block = block[-_OVERLAP:] + more if more else b""
    return False


def _decode_block(block: bytes, words: Collection[str]) -> Iterator[str]:
    """Yield the texts that bytes may stand for; for bytes that are no plain UTF-8, only those with a word."""
    try:
        text = block.decode()
    except UnicodeDecodeError:
        text = ""
    if text and "\0" not in text:
        yield text
        return
    wide = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be") if b"\0" in block else ()
    for encoding in ("utf-8", "latin-1", *wide):
        text = block.decode(encoding, "replace")
        folded = text.casefold()  # about twenty times as fast as the comparison of words
        if any(word in folded for word in words):
            yield text


def _drop_notes(ledger: LockedFileState, paths: Collection[str], phrases: PhraseMatcher) -> None:
    """Remove the notes about files that were removed, and those that quote erased text."""
    for kind in get_args(NoteKind):
        for path, note in ledger.notes(kind).items():
            if path in paths or phrases.has_match(json.dumps(note, ensure_ascii=False)):
                ledger.drop_note(kind, path)
