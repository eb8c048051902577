"""Comparison of all mirrored files with the store.

`MemoryFolder` does the repairs: it writes an old version again, and takes other content in as a hand edit.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from reverie.admin.doctor.findings import Finding, build_finding, count, summarize_names
from reverie.domain.change import Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import StoreCorrupt
from reverie.domain.filter import Filter
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.files.disk.atomic import AtomicFolder, UnsafePath
from reverie.files.expected import render_expected_content, render_session_content
from reverie.files.folder import MemoryFolder
from reverie.files.layout import (
    MEMORY,
    SESSIONS,
    build_episodic_path,
    build_page_path,
    build_path,
    build_session_path,
    parse_path,
    parse_recovered_path,
    render_line,
    render_log,
    render_page,
    render_record,
    render_session,
    render_turns,
)
from reverie.files.scan import CONFLICT, is_ignored, scan
from reverie.stores.protocol import Store

_PATIENCE_S = 0.1
_WAIT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorComparison:
    """Differences between files and store; paths are relative to the memory's folder.

    Attributes:
        missing: Files that should exist.
        different: Files whose content differs from the store.
        unknown: Files in Reverie's layout that correspond to nothing in the store.
        foreign: Files that are not in Reverie's layout.
        drafts: Drafts of processes that were killed.
        files: How many files there should be.
    """

    missing: list[str]
    different: list[str]
    unknown: list[str]
    foreign: list[str]
    drafts: list[str]
    files: int


def compare_files(store: Store, root: Path) -> MirrorComparison:
    """Compare all files with the store; compare again what differs, as it may have just changed.

    Raises:
        StoreCorrupt: the store has something that cannot be read.
    """
    disk = AtomicFolder(root)
    expected: set[str] = set()
    suspects: list[str] = []
    for path, data in _render_expected_files(store):
        expected.add(path)
        if _read_content(disk, path) != data:
            suspects.append(path)
    suspects += [path for path in scan(root, {}).added if path not in expected]
    if suspects:
        time.sleep(_PATIENCE_S)  # a writer may be between a change and its file
    missing: list[str] = []
    different: list[str] = []
    unknown: list[str] = []
    for path in suspects:
        wanted, content = render_expected_content(store, path), _read_content(disk, path)
        if wanted is None:
            unknown += [path] if content is not None else []
        elif content is None:
            missing.append(path)
        elif content != wanted.data:
            different.append(path)
    return MirrorComparison(
        missing=missing,
        different=different,
        unknown=unknown,
        foreign=_find_foreign_files(root),
        drafts=[path for path, _ in disk.list_drafts()],
        files=len(expected),
    )


def _render_expected_files(store: Store) -> Iterator[tuple[str, bytes]]:
    days: set[str] = set()
    for record in store.find(Filter(archived=None)):
        path = build_path(record)
        if path == build_episodic_path(record.created_at):
            days.add(path)
        else:
            yield path, render_record(record)
    for overview in store.sessions():
        name = overview.state.id
        yield build_session_path(name), render_session_content(overview.state, store.turns(session=name)).data
    others = [build_page_path(page.name) for page in store.pages()] + [
        build_page_path(name) for name in store.logs()
    ]
    for path in (*sorted(days), *others):
        if (content := render_expected_content(store, path)) is not None:
            yield path, content.data


def find_contradictions(values: Iterable[Value], root: Path) -> tuple[str, ...]:
    """Return the paths of files that say something else than they should if these things are remembered.

    A file that is missing or cannot be read contradicts nothing.
    """
    disk = AtomicFolder(root)
    contents = ((value, path, _read_content(disk, path)) for value in values for path in [build_path(value)])
    return tuple(
        dict.fromkeys(
            path for value, path, data in contents if data is not None and not _is_told(value, path, data)
        )
    )


def _is_told(value: Value, path: str, data: bytes) -> bool:
    """Return whether a file says what a value does; an ordered file may say more."""
    match value:
        case Record():
            own = path != build_episodic_path(value.created_at)
            return data == render_record(value) if own else render_line(value) in data
        case Turn():
            return render_turns([value]) in data
        case SessionState():
            return data.startswith(render_session(value, []))
        case Page():
            return data == render_page(value)
        case Paragraph():
            return b"\n" + render_log(value.page, [value]) in b"\n" + data
        case _:
            assert_never(value)


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


def check_files(store: Store, folder: MemoryFolder, root: Path, checked: Counter[str]) -> Iterator[Finding]:
    """Report what is wrong with the files of a memory, except their modes; count them in `checked`."""
    folder.flush(_WAIT_S)
    problems = folder.problems()
    for problem in problems:
        yield build_finding("file-problem", problem.what, fix=problem.fix)
    for conflict in folder.conflicts():
        about = f" ({', '.join(conflict.fields)})" if conflict.fields else ""
        what = (
            f"{conflict.of or 'a file'!r} was changed by hand and by the program at the same time{about}: "
            f"the version by hand is in force, the program's is in {conflict.path!r}"
        )
        fix = f"take over from {conflict.path!r} what you want to keep, and remove it"
        yield build_finding("conflict", what, (conflict.of, conflict.path), fix=fix)
    try:
        result = compare_files(store, root)
    except StoreCorrupt as error:
        yield build_finding("files-unread", f"files could not be compared: {error}")
        return
    checked["files"] = result.files
    yield from _report_differences(result, " ".join(problem.what for problem in problems))


def _report_differences(result: MirrorComparison, reported: str) -> Iterator[Finding]:
    """Report the differences, without files that the text `reported` names already."""

    def select_new(paths: list[str]) -> tuple[str, ...]:
        return tuple(path for path in paths if repr(path) not in reported)

    if paths := select_new(result.missing):
        yield build_finding(
            "files-missing", summarize_names(paths, "file is missing", "files are missing"), paths
        )
    if paths := select_new(result.different):
        what = summarize_names(paths, "file differs from the database", "files differ from the database")
        yield build_finding("files-differ", what, paths)
    if paths := select_new(result.unknown):
        what = summarize_names(paths, "file corresponds to nothing", "files correspond to nothing")
        yield build_finding("files-unknown", what, paths)
    if result.drafts:
        what = f"{count(len(result.drafts), 'draft')} of files were left by processes that were killed"
        yield build_finding("drafts-left", what, result.drafts)
    if result.foreign:
        what = summarize_names(result.foreign, "file is not Reverie's", "files are not Reverie's")
        yield build_finding("files-foreign", what, result.foreign)
