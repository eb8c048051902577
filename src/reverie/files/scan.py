"""Scan of the folder: which files were changed, added or removed, and which contain erased text.

The scan for changes opens no file. A file is unchanged when its size and time are those of its `FileRecord`.
`hand_edits` reads the others and compares checksums. Ignored are names that begin with a dot (apart from the
archive), files that editors leave, and conflict files. Links are never followed; they are reported.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from reverie.domain.change import Subject
from reverie.domain.lazy_dataclass import dataclass, field
from reverie.domain.living_page import parse_line
from reverie.files import layout
from reverie.files.atomic import AtomicFolder, is_lost
from reverie.files.state import FileRecord, FileState

if TYPE_CHECKING:
    from reverie.domain.text.shingles import PhraseMatcher

CONFLICT = ".conflict.json"
"""Suffix of conflict files, which hold the program's version of what a person changed too."""

BROKEN = ".broken"
"""Suffix of the copy of a session's file that has lines which could not be imported."""

QUIET_S = 0.1
"""How long a file has to be unchanged before it is imported, in seconds: an editor may write it in pieces."""

SAVING_S = 1.0
"""The same for a file without its end, which an editor may have saved by half."""

TOPS = (layout.MEMORY, layout.SESSIONS)
_LEFT_BY_EDITORS = ("~", ".swp", ".swx", ".tmp", ".bak", ".orig", ".part")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenFile:
    """A file that cannot be imported. Its last good content stays in force.

    Attributes:
        path: The path, relative to the memory's folder.
        why: What is wrong, with the line where possible; never content.
    """

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


class HandEdit(NamedTuple):
    """A change that a person made in a file, as it was committed.

    Attributes:
        path: The file.
        subject: Which kind of thing it is.
        id: Its id.
        what: `added`, `changed`, `moved` (to another category), `archived`, `restored` or `removed`; `kept`
            if a file was deleted that is written again; `held` if too many lines are gone, so that changes wait for
            review.
    """

    path: str
    subject: Subject
    id: str
    what: str


@dataclass(slots=True, kw_only=True)
class HandEditReport:
    """Result of an import.

    Attributes:
        taken: The hand edits that were committed, in order.
        problems: The files that cannot be imported, of those that were examined.
        lost: Whether so much was missing that the folder counts as lost and is written again.
        due: Whether files have to be written.
        unfinished: Files that an editor may still be saving; they are left for the next time.
        failure: Why the files could not be examined; empty if they were.
    """

    taken: list[HandEdit] = field(default_factory=list)
    problems: list[BrokenFile] = field(default_factory=list)
    lost: bool = False
    due: bool = False
    unfinished: list[str] = field(default_factory=list)
    failure: str = ""

    def __bool__(self) -> bool:
        """Return whether anything was imported or has to be written."""
        return bool(self.taken or self.lost or self.due)


@dataclass(slots=True, kw_only=True)
class FolderScan:
    """Result of a scan; all paths are relative to the memory's folder.

    Attributes:
        changed: Known files whose size or time differs.
        added: Files that are not known.
        missing: Known files that do not exist.
        conflicts: Conflict files.
        odd: Links, devices and folders that cannot be opened, with the reason.
        gone: Which of `memory` and `sessions` are missing, or have nothing in them, although files are known
            there. Those files are not among `missing`.
    """

    changed: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    odd: list[BrokenFile] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)


def scan(root: Path, known: Mapping[str, FileRecord]) -> FolderScan:
    """Scan all files without opening any; 100,000 unchanged files take about a third of a second.

    Args:
        root: The memory's folder.
        known: The records of all files.
    """
    result, present, unseen = FolderScan(), set[str](), list[str]()

    def report(path: str, why: str) -> None:
        unseen.append(path)
        result.odd.append(BrokenFile(path=path.encode(errors="backslashreplace").decode(), why=why))

    for top in TOPS:
        place = f"{root}/{top}"
        if is_lost(place):
            result.gone += [top] if any(path.startswith(f"{top}/") for path in known) else []
        elif os.path.islink(place) or (os.path.exists(place) and not os.path.isdir(place)):
            report(top, "it is a link, which is not followed, or no folder: put a folder there")
        else:
            for path, status in iter_files(os.fspath(root), top, skip=_is_hidden, report=report):
                file = known.get(path)
                if file is not None and stat.S_ISREG(status.st_mode):
                    present.add(path)
                    if file.size != status.st_size or file.mtime_ns != status.st_mtime_ns:
                        result.changed.append(path)
                elif path.endswith(CONFLICT):
                    result.conflicts.append(path)
                elif why := _examine_unknown(root, path, status.st_mode, known):
                    report(path, why)
                elif why is not None:
                    present.add(path)
                    result.added.append(path)
    unseen += result.gone
    result.missing = [path for path in known.keys() - present if not is_within(path, unseen)]
    for paths in (result.changed, result.added, result.missing, result.conflicts):
        paths.sort()
    return result


def _examine_unknown(root: Path, path: str, mode: int, known: Mapping[str, FileRecord]) -> str | None:
    """Return why something that is no folder and no known file is odd; empty for a new file, None if it is ignored."""
    if path.endswith(BROKEN):
        return "it is kept for its lines that could not be imported: delete it when you are done"
    is_folder = stat.S_ISLNK(mode) and (
        os.path.isdir(f"{root}/{path}") or any(is_within(each, [path]) for each in known)
    )
    if is_ignored(path.rpartition("/")[2]) or not (is_folder or layout.parse_path(path)):
        return None
    if stat.S_ISLNK(mode):
        return "it is a symbolic link, which is not followed: put the file itself there"
    if not stat.S_ISREG(mode):
        return "it is no regular file: remove it"
    return "its name is not UTF-8: rename it" if any("\ud800" <= char <= "\udfff" for char in path) else ""


def is_ignored(name: str) -> bool:
    """Return whether a file or folder of this name is ignored."""
    return (
        name.startswith(".")
        or name.endswith(_LEFT_BY_EDITORS)
        or (name.startswith("#") and name.endswith("#"))
    )


def _is_hidden(path: str) -> bool:
    return is_ignored(path.rpartition("/")[2]) and path != f"{layout.MEMORY}/{layout.ARCHIVE}"


def iter_files(
    root: str,
    top: str,
    *,
    skip: Callable[[str], bool] = lambda path: False,
    report: Callable[[str, str], None],
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the paths of what is below a folder and is no folder itself; links are not followed.

    Args:
        root: The memory's folder.
        top: The path of the folder.
        skip: Returns whether to leave out the folder at a path.
        report: Receives the path of a folder that cannot be read, and why.
    """
    pending = [top]  # not by recursion: folders may lie deeper in each other than Python calls itself
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(f"{root}/{folder}") as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}"
                    if not entry.is_dir(follow_symlinks=False):
                        with suppress(FileNotFoundError):
                            yield path, entry.stat(follow_symlinks=False)
                    elif not skip(path):
                        pending.append(path)
        except FileNotFoundError:  # it has just been removed
            pass
        except OSError as error:
            report(folder, f"the folder cannot be read ({error.strerror})")


def is_within(path: str, places: Iterable[str]) -> bool:
    """Return whether a path is one of some places, or below one."""
    return any(path == place or path.startswith(f"{place}/") for place in places)


# -- erased text -----------------------------------------------------------------------------------------------
#
# The mirror has written every file that is known and unchanged. What remains are edits that could not be imported,
# conflict files, recovered files, and drafts of killed processes. Reverie's own files are removed, and those of a
# person are named.


LONGEST_FILE = 100_000_000
"""The largest file that is looked through, in bytes."""


def scrub_files(
    root: Path,
    state: FileState,
    phrases: PhraseMatcher,
    *,
    records: Collection[str],
    sessions: Collection[str],
    mirrored: bool = True,
    dry_run: bool = False,
) -> list[str]:
    """Remove erased text from files; return the paths of those that still contain it, for a person to correct.

    Args:
        root: The memory's folder.
        state: The state of its files.
        phrases: The erased text.
        records: The ids of erased records.
        sessions: The ids of erased sessions.
        mirrored: Whether the files are kept up to date. If not, known files may contain erased text too.
        dry_run: Whether to only return what would be left.

    Raises:
        StateUnavailable: the state of the files is locked for too long or cannot be written.
        OSError: a file or folder cannot be read, or a file cannot be removed.
    """
    left, disk = list[str](), AtomicFolder(root)
    whole = {layout.build_session_path(session) for session in sessions}
    prefixes = tuple(f"{path}." for path in whole)
    with state.lock() as ledger:
        if not (mirrored or dry_run):
            ledger.drop_contents(ledger.known())
        for path, size in list(_iter_unknown_files(root, ledger.known() if mirrored else {})):
            text = _drop_lines(disk, path, records, dry_run=dry_run)
            marked = path in whole or path.startswith(prefixes) or _extract_record_id(path) in records
            too_large = size > LONGEST_FILE
            if not (marked or too_large or phrases.has_match(path)):
                try:
                    if not (has_phrase(root / path, phrases) if text is None else phrases.has_match(text)):
                        continue
                except FileNotFoundError:  # it has just been removed
                    continue
            if text is not None or not (marked or (_is_own(path) and not too_large)):
                left.append(path)
            elif not dry_run:
                disk.unlink(path)
                ledger.drop([path])
                ledger.settle([path])
    return left


def _iter_unknown_files(root: Path, known: Mapping[str, FileRecord]) -> Iterator[tuple[str, int]]:
    """Yield the paths and sizes of the files that are unknown or have changed."""

    def refuse(path: str, why: str) -> None:
        raise PermissionError(errno.EACCES, why, path)

    for top in TOPS:
        for path, status in iter_files(os.fspath(root), top, report=refuse):
            file = known.get(path)
            is_known = file is not None and file[1:3] == (status.st_size, status.st_mtime_ns)
            if stat.S_ISREG(status.st_mode) and not is_known:
                yield path, status.st_size


def _drop_lines(disk: AtomicFolder, path: str, records: Collection[str], *, dry_run: bool) -> str | None:
    """Remove the lines of erased records from a page of records, and the page if no line is left.

    Returns:
        What is left of the text; None if it is not such a page.
    """
    found = disk.read(path) if layout.parse_form(path) == "lines" else None
    if found is None:
        return None
    rest = layout.cut_lines(found[0], records)
    text = rest.decode(errors="surrogateescape")
    if rest != found[0] and not dry_run:
        if any(map(parse_line, text.split("\n"))):
            disk.replace(path, rest, found[1])
        else:
            disk.remove(path, found[1])
    return text


def _is_own(path: str) -> bool:
    """Return whether Reverie made the file, so that no work of a person is lost with it."""
    return layout.is_draft(path) or path.endswith((CONFLICT, BROKEN))


def _extract_record_id(path: str) -> str:
    """Return the record id in the name of a record, conflict or recovered file, or an empty string."""
    path = path.removesuffix(CONFLICT)
    place = layout.parse_path(path if path.endswith(".json") else f"{path}.json")
    return place.name if place is not None and place.form == "record" else ""


def has_phrase(file: Path, phrases: PhraseMatcher) -> bool:
    """Return whether a file contains one of the phrases, in UTF-8, UTF-16, UTF-32 or Latin-1.

    Raises:
        OSError: the file cannot be read.
    """
    data, words = file.read_bytes(), phrases.collect_longest_words()
    try:
        plain = data.decode()
    except UnicodeDecodeError:
        plain = "\0"
    if "\0" not in plain:
        return phrases.has_match(plain)
    wide = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be") if b"\0" in data else ()
    for encoding in ("utf-8", "latin-1", *wide):
        text = data.decode(encoding, "replace")
        folded = text.casefold()  # about twenty times as fast as the comparison of words
        if any(word in folded for word in words) and phrases.has_match(text):
            return True
    return False
