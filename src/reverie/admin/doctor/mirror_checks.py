"""Comparison of all mirrored files with the store.

`MemoryFolder` does the repairs: it writes an old version again, and takes other content in as a hand edit.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from reverie.admin.doctor.findings import Finding, build_finding, summarize_names
from reverie.domain.errors import StoreCorrupt
from reverie.domain.filter import Filter
from reverie.files.atomic import AtomicFolder, UnsafePath
from reverie.files.expected import ExpectedContent, render_expected_content, render_expected_records
from reverie.files.folder import MemoryFolder
from reverie.files.layout import (
    MEMORY,
    SESSIONS,
    build_page_path,
    build_path,
    parse_path,
    parse_recovered_path,
)
from reverie.files.scan import CONFLICT, is_ignored, scan
from reverie.files.state import StateUnavailable
from reverie.stores.protocol import Store

_BATCH = 500
_PATIENCE_S = 0.1
_WAIT_S = 600.0


_DIFFERENCES = {
    "files-missing": ("file is missing", "files are missing"),
    "files-differ": ("file differs from the database", "files differ from the database"),
    "files-unknown": ("file corresponds to nothing", "files correspond to nothing"),
    "drafts-left": (
        "draft of a file was left by a process that was killed",
        "drafts of files were left by processes that were killed",
    ),
    "files-foreign": ("file is not Reverie's", "files are not Reverie's"),
}
"""Codes of findings about files, each with its wording for one file and for several."""


def check_files(store: Store, folder: MemoryFolder, root: Path, checked: Counter[str]) -> Iterator[Finding]:
    """Report what is wrong with the files of a memory, except their modes; count them in `checked`."""
    folder.flush(_WAIT_S)
    try:
        problems, conflicts = folder.problems(), folder.conflicts()
        differences = _compare_files(store, root, checked)
    except (StoreCorrupt, StateUnavailable) as error:
        yield build_finding("files-unread", f"files could not be compared: {error}")
        return
    for problem in problems:
        yield build_finding("file-problem", problem.what, fix=problem.fix)
    for conflict in conflicts:
        about = f" ({', '.join(conflict.fields)})" if conflict.fields else ""
        what = (
            f"{conflict.of or 'a file'!r} was changed by hand and by the program at the same time{about}: "
            f"the version by hand is in force, the program's is in {conflict.path!r}"
        )
        fix = f"take over from {conflict.path!r} what you want to keep, and remove it"
        yield build_finding("conflict", what, (conflict.of, conflict.path), fix=fix)
    reported = " ".join(problem.what for problem in problems)
    for code, (one, several) in _DIFFERENCES.items():
        if paths := [path for path in differences[code] if repr(path) not in reported]:
            yield build_finding(code, summarize_names(paths, one, several), paths)


def _compare_files(store: Store, root: Path, checked: Counter[str]) -> dict[str, list[str]]:
    """Return the paths of files that differ from the store, by the code of the finding.

    What differs is compared again, as it may have just changed.

    Raises:
        StoreCorrupt: the store has something that cannot be read.
    """
    disk = AtomicFolder(root)
    expected = dict.fromkeys(_list_expected_paths(store))
    checked["files"] = len(expected)
    suspects: list[str] = []
    paths = list(expected)
    for start in range(0, len(paths), _BATCH):
        batch = paths[start : start + _BATCH]
        records = render_expected_records(store, batch)
        suspects += [path for path in batch if _compare_file(store, disk, path, records.get(path))]
    suspects += [path for path in scan(root, {}).added if path not in expected]
    if suspects:
        time.sleep(_PATIENCE_S)  # a writer may be between a change and its file
    differences: dict[str, list[str]] = {code: [] for code in _DIFFERENCES}
    for path in suspects:
        if code := _compare_file(store, disk, path):
            differences[code].append(path)
    differences["drafts-left"] = [path for path, _ in disk.list_drafts()]
    differences["files-foreign"] = _find_foreign_files(root)
    return differences


def _list_expected_paths(store: Store) -> Iterator[str]:
    yield from map(build_path, store.find(Filter(archived=None)))
    yield from (build_path(overview.state) for overview in store.sessions())
    yield from map(build_path, store.pages())
    yield from (build_page_path(name) for name, count in store.logs().items() if count)


def _compare_file(store: Store, disk: AtomicFolder, path: str, wanted: ExpectedContent | None = None) -> str:
    """Return the code of the finding about a file; empty if it is as the store says.

    Args:
        wanted: What the store says, if it has been read already.
    """
    wanted, content = wanted or render_expected_content(store, path), _read_content(disk, path)
    if wanted is None:
        return "files-unknown" if content is not None else ""
    if content is None:
        return "files-missing"
    return "files-differ" if content != wanted.data else ""


def _read_content(disk: AtomicFolder, path: str) -> bytes | None:
    """Return the content of a file; None if it is missing or must not be read."""
    try:
        result = disk.read(path)
    except (UnsafePath, OSError):
        return None
    return None if result is None else result[0]


def _find_foreign_files(root: Path) -> list[str]:
    foreign = []
    for top in (MEMORY, SESSIONS):
        for place, folders, files in os.walk(root / top):
            folder = Path(place).relative_to(root).as_posix()
            folders[:] = [name for name in folders if not is_ignored(name) or folder == MEMORY]
            for name in files:
                path = f"{folder}/{name}"
                known = parse_path(path) or parse_recovered_path(path) or name.endswith(CONFLICT)
                if not known and not is_ignored(name):
                    foreign.append(path)
    return sorted(foreign)
