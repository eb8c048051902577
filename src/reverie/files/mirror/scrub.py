"""Removal of erased text from files that the mirror does not write.

The mirror has written every other file already. What remains are edits that could not be imported, conflict
files, recovered files, and drafts of killed processes. Reverie's own files are removed, and those of a person
are named. Known and unchanged files are skipped: they have the content of the store.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from reverie.domain.text.shingles import PhraseMatcher
from reverie.files.disk.atomic import DRAFTS
from reverie.files.disk.state import FileRecord, FileState, LockedFileState
from reverie.files.layout import MEMORY, SESSIONS, build_session_path, parse_path, parse_recovered_path
from reverie.files.scan import CONFLICT

_LONGEST = 50_000_000


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
) -> FileRemnants:
    """Remove erased text from files.

    Args:
        root: The memory's folder.
        state: The state of its files.
        phrases: The erased text.
        records: The ids of erased records.
        sessions: The ids of erased sessions.
        mirrored: Whether the files are kept up to date. If not, known files may contain erased text too.

    Raises:
        StateUnavailable: the state of the files is locked for too long or cannot be written.
        OSError: a file cannot be removed.
    """
    removed: list[str] = []
    left: list[str] = []
    whole = {build_session_path(session) for session in sessions}
    begun = tuple(f"{path}." for path in whole)
    with state.lock() as ledger:
        if not mirrored:
            ledger.drop_texts()
        for path in list(_iter_unknown_files(root, ledger.known() if mirrored else {})):
            gone = path in whole or path.startswith(begun)
            own = gone or _is_own(path) or _extract_record_id(path) in records
            if not gone and _extract_record_id(path) not in records and not _has_phrase(root / path, phrases):
                continue
            if not own:
                left.append(path)
                continue
            _remove(root, path)
            ledger.drop([path])
            ledger.settle([path])
            removed.append(path)
        _drop_notes(ledger, [*removed, *whole])
    return FileRemnants(removed=tuple(removed), left=tuple(left))


def _iter_unknown_files(root: Path, known: Mapping[str, FileRecord]) -> Iterator[str]:
    """Yield the files that are unknown or have changed."""
    for top in (MEMORY, SESSIONS):
        for place, _, names in os.walk(root / top):
            for name in names:
                file = Path(place, name)
                path = file.relative_to(root).as_posix()
                if file.is_symlink() or not file.is_file():
                    continue
                written, status = known.get(path), file.stat()
                if written is None or (written.size, written.mtime_ns) != (
                    status.st_size,
                    status.st_mtime_ns,
                ):
                    yield path


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


def _has_phrase(file: Path, phrases: PhraseMatcher) -> bool:
    if file.stat().st_size > _LONGEST:
        return False
    return phrases.has_match(file.read_bytes().decode("utf-8", "replace"))


def _drop_notes(ledger: LockedFileState, paths: Collection[str]) -> None:
    for name in ledger.notes():
        if any(name.endswith(path) for path in paths):
            ledger.note(name, None)
