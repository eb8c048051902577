"""Check of a memory folder, and its repair.

The doctor compares the tables with the journal, and the search index and the files with the store. It checks
modes and leftovers. Its findings name ids, files and numbers, never content. It repairs what
needs no decision by a person, and deletes nothing that holds content which exists nowhere else.
"""

from __future__ import annotations

import shutil
import stat
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

from reverie.admin.erasure.eraser import Eraser
from reverie.admin.erasure.redact_stored import StoredSecretRedactor
from reverie.admin.erasure.remains import MOVED_ASIDE, find_other_indexes
from reverie.domain.errors import NotFound, ReverieError, StoreCorrupt, StoreIncompatible
from reverie.domain.filter import Filter
from reverie.files.atomic import AtomicFolder, UnsafePath
from reverie.files.expected import render_expected_content
from reverie.files.folder import MemoryFolder
from reverie.files.layout import HOOKS, MEMORY, SESSIONS, build_page_path, build_path, build_stem
from reverie.files.scan import scan
from reverie.files.state import FileState, StateUnavailable
from reverie.search.index.candidates import compare_index
from reverie.search.index.search_index import SearchIndex
from reverie.search.index.tantivy_index import FORMAT, IndexCorrupt, find_damaged_files
from reverie.search.vectors.vector_index import VectorIndex
from reverie.stores.base import RepairReport
from reverie.stores.protocol import Store
from reverie.stores.sqlite import DATABASE, UPGRADE_COPIES
from reverie.stores.sqlite.connections import is_read_only
from reverie.stores.sqlite.rewriting import repair_file

Severity = Literal["error", "warning", "note"]
Part = Literal["database", "index", "files", "sessions", "folder"]
Remedy = Literal["leftovers", "database", "index", "vectors", "files", "forgetting"]

_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem, or one thing worth knowing.

    Attributes:
        code: Its short name, such as `index-damaged`; the same in every version.
        part: Where it is: `database`, `index`, `files`, `sessions` or `folder`.
        severity: `error`: something remembered cannot be read or is missing. `warning`: something is wrong,
            and nothing is lost. `note`: nothing is wrong, and it is worth knowing.
        what: What is wrong, with ids, names and numbers; never content.
        fix: What a person can do about it.
        remedy: What `doctor(fix=True)` makes right for it, such as `index`; None where a person has to act.
        about: All ids or names of files concerned.
    """

    code: str
    part: Part
    severity: Severity
    what: str
    fix: str
    remedy: Remedy | None = None
    about: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Result of an examination.

    Attributes:
        findings: The findings, the worst first; after a repair, those that remain.
        repaired: The findings that have been repaired.
        checked: How many things of each sort were checked.
    """

    findings: tuple[Finding, ...]
    repaired: tuple[Finding, ...]
    checked: Mapping[str, int]

    @property
    def sound(self) -> bool:
        """Whether there is no error and no warning."""
        return all(finding.severity == "note" for finding in self.findings)


class _Kind(NamedTuple):
    """Properties that findings of one code share."""

    part: Part
    severity: Severity
    label: str = ""
    fix: str = ""
    remedy: Remedy | None = None


_KINDS: Mapping[str, _Kind] = {
    code: _Kind(**fields)
    for code, fields in tomllib.loads(
        Path(__file__).with_name("findings.toml").read_text(encoding="utf-8")
    ).items()
}
"""Every code of a finding."""


def build_finding(code: str, what: str, about: Iterable[str] = (), **differing: Any) -> Finding:
    """Return a finding.

    Args:
        code: One of `_KINDS`.
        what: What is wrong.
        about: All ids or names of files concerned.
        differing: Fields in which it differs from others of its code.
    """
    kind = _KINDS[code]
    fields = {"part": kind.part, "severity": kind.severity, "fix": kind.fix, "remedy": kind.remedy}
    return Finding(code=code, what=what, about=tuple(about), **fields | differing)


def list_things(code: str, names: Iterable[str], **differing: Any) -> list[Finding]:
    """Return the finding about things of which a code's label says what they are; none for no things."""
    names = tuple(names)
    shown = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    what = f"{_KINDS[code].label}: {len(names):,} ({shown})"
    return [build_finding(code, what, names, **differing)] if names else []


def build_repair_findings(report: RepairReport) -> list[Finding]:
    """Return what to know after a repair: where the damaged database is, and what could not be read of it."""
    kept = f"the damaged database is kept as {report.kept.name}"
    findings = [build_finding("database-repaired", kept, (report.kept.name,))]
    if report.lost:
        findings.append(build_finding("content-lost", f"could not be read: {', '.join(report.lost)}"))
    return findings


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 file`, `6,097 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


# -- folder checks --------------------------------------------------------------------------------


_DRAFTS = (f".{DATABASE}.*.new*", ".rebuilding-*", ".recovering-*", ".repairing-*")
_OTHERS = 0o077
_ABANDONED_S = 24 * 3_600.0


def check_folder(path: Path) -> Iterator[Finding]:
    """Report what is wrong with a memory's folder, except its content."""
    if is_read_only(path / DATABASE):
        yield build_finding(
            "read-only", "the folder is read-only: nothing is saved, and edits of files are not imported"
        )
        return
    yield from _check_modes(path)
    yield from _check_leftovers(path)


def _check_modes(path: Path) -> Iterator[Finding]:
    mode, database = path.stat().st_mode, path / DATABASE
    if mode & _OTHERS:  # what is in a closed folder is closed with it
        is_exposed = mode & (stat.S_IWGRP | stat.S_IWOTH) or database.stat().st_mode & _OTHERS
        yield build_finding(
            "folder-mode",
            f"other users can look into the folder, which has the mode {stat.S_IMODE(mode):o}",
            severity="warning" if is_exposed else "note",
            fix=f"chmod 700 {path}",
        )


def _check_leftovers(path: Path) -> Iterator[Finding]:
    """Report unfinished files, and copies of the database, about which a person has to decide."""
    found = {
        "drafts": _find_abandoned_drafts(path),
        "other-index": find_other_indexes(path),
        "hooks-waiting": (path / HOOKS).glob("[0-9]*.json"),
        "moved-aside": (file for moved in MOVED_ASIDE for file in path.glob(moved)),
        "old-backups": path.glob(UPGRADE_COPIES),
    }
    for code, files in found.items():
        yield from list_things(code, (file.relative_to(path).as_posix() for file in sorted(files)))


def _find_abandoned_drafts(path: Path) -> list[Path]:
    """Return unfinished databases that no process is working on any more."""
    limit = time.time() - _ABANDONED_S
    found = []
    for file in (file for pattern in _DRAFTS for file in path.glob(pattern)):
        with suppress(FileNotFoundError):  # another process has just removed it
            found += [file] if file.lstat().st_mtime < limit else []
    return sorted(found)


def remove_leftovers(path: Path) -> None:
    """Remove unfinished databases that no process is working on any more."""
    for file in _find_abandoned_drafts(path):
        shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)


# -- a memory that cannot be opened ------------------------------------------------------------------------


def repair_unopened(path: Path) -> tuple[Finding, list[Finding]]:
    """Replace a database that cannot be opened by a copy of everything that can be read of it.

    Args:
        path: The folder.

    Returns:
        The finding that is repaired, and those of `build_repair_findings`.

    Raises:
        StoreError: it cannot be repaired; nothing was changed.
    """
    report = repair_file(path / DATABASE)
    what = f"{DATABASE} was damaged so that it could not be opened"
    return build_finding("database-damaged", what, remedy="database"), build_repair_findings(report)


def diagnose_unopened(path: Path, error: ReverieError) -> Diagnosis:
    """Return what can be done about a folder whose memory cannot be opened.

    Args:
        path: The folder.
        error: The error of `Memory.open`. It is raised again if it says all: there was never a memory here, or it
            is only locked or closed to this user.
    """
    files = sum(file.is_file() for folder in (MEMORY, SESSIONS) for file in (path / folder).rglob("*"))
    log = path / f"{DATABASE}-wal"
    ways = ["bring back a backup of yours with `reverie recover`"]
    if files:
        command = f"reverie rebuild{' --force' if isinstance(error, StoreCorrupt) else ''}"
        ways.insert(0, f"make a new one of the folder's {count(files, 'file')} with `{command}`")
    fix = "; or ".join(ways)
    notes: list[Finding] = []
    if isinstance(error, NotFound) and (files or log.exists()):
        others = count(files, "readable file") if files else "other files"
        code = "database-missing"
        what = f"{DATABASE} is missing from {str(path)!r}, where {others} of a memory are"
        if log.exists() and log.stat().st_size:
            lone = f"{log.name} holds the latest changes of the database that belongs to it"
            notes.append(build_finding("log-alone", lone))
    elif isinstance(error, StoreIncompatible):
        what, separator, advice = str(error).rpartition(": ")
        code, what = "database-foreign", what if separator else advice
        fix = advice if not files or "newer" in str(error) else f"keep a copy; then {fix}"
    elif isinstance(error, StoreCorrupt):
        code, what = "database-damaged", f"{DATABASE} is damaged so that it cannot be read"
        fix = f"have what can be read of it copied into a new one with `reverie doctor --fix`; or {fix}"
    else:
        raise error
    findings = (build_finding(code, what, fix=fix), *notes)
    return Diagnosis(findings=findings, repaired=(), checked=MappingProxyType({"files": files}))


# -- mirror checks --------------------------------------------------------------------------------


_PATIENCE_S = 0.1
_WAIT_S = 600.0


def check_files(store: Store, folder: MemoryFolder, root: Path, checked: Counter[str]) -> Iterator[Finding]:
    """Report what is wrong with the files of a memory, except their modes; count them in `checked`."""
    folder.flush(_WAIT_S)
    problems, conflicts = folder.problems(), folder.conflicts()
    differences: dict[str, list[str]] = {}
    try:
        with closing(FileState(root)) as state:
            differences = _compare_files(store, state, root, checked)
    except (StoreCorrupt, StateUnavailable) as error:
        yield build_finding("files-unread", f"files could not be compared: {error}")
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
    for code, paths in differences.items():
        yield from list_things(code, (path for path in paths if repr(path) not in reported))


def _compare_files(store: Store, state: FileState, root: Path, checked: Counter[str]) -> dict[str, list[str]]:
    """Return the paths of files that differ from the store, by the code of the finding.

    What differs is compared again, as it may have just changed.

    Raises:
        StoreCorrupt: the store has something that cannot be read.
    """
    disk = AtomicFolder(root)
    expected = dict.fromkeys(_list_expected_paths(store, state))
    checked["files"] = len(expected)
    suspects = [path for path in expected if _compare_file(store, state, disk, path)]
    suspects += [path for path in scan(root, {}).added if path not in expected]
    if suspects:
        time.sleep(_PATIENCE_S)  # a writer may be between a change and its file
    differences: dict[str, list[str]] = {}
    for path in suspects:
        if code := _compare_file(store, state, disk, path):
            differences.setdefault(code, []).append(path)
    differences["drafts-left"] = [path for path, _ in disk.list_drafts()]
    return differences


def _list_expected_paths(store: Store, state: FileState) -> Iterator[str]:
    pages, layout = state.find_pages(), state.layout
    yield from pages
    on_pages = {name for names in pages.values() for name in names}
    for record in store.find(Filter(archived=None)):
        stem = build_stem(record, layout)
        if stem is None:
            yield build_path(record)
        elif record.id not in on_pages:
            yield f"{stem}.md"
    yield from (build_path(overview.state) for overview in store.sessions())
    yield from map(build_path, store.pages())
    yield from (build_page_path(name) for name, count in store.logs().items() if count)


def _compare_file(store: Store, state: FileState, disk: AtomicFolder, path: str) -> str:
    """Return the code of the finding about a file; empty if it is as the store says."""
    wanted = render_expected_content(store, state, path)
    try:
        content = disk.read(path)
    except UnsafePath:
        content = None
    except OSError:
        return "files-unread"
    if wanted is None or content is None:
        return ("files-unknown" if content else "") if wanted is None else "files-missing"
    return "files-differ" if content[0] != wanted.data else ""


# -- an open memory -----------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Doctor:
    """Check and repair of one open memory.

    Attributes:
        store: Its store.
        index: Its search index.
        path: Its folder; None for a memory without one.
        vectors: Its vectors; None without an embedder.
        files: Its mirrored files; None for a memory without them.
        eraser: Finishes an interrupted erasure.
        redactor: Finds stored secrets; None where they are allowed.
    """

    store: Store
    index: SearchIndex
    path: Path | None
    vectors: VectorIndex | None
    files: MemoryFolder | None
    eraser: Eraser
    redactor: StoredSecretRedactor | None
    _differing_files: tuple[str, ...] = ()
    _checked: Counter[str] = field(default_factory=Counter)

    def examine(self, *, fix: bool = False) -> Diagnosis:
        """Check everything.

        Args:
            fix: Whether to repair what can be repaired, and then check again.

        Raises:
            StoreUnavailable: the store cannot be reached.
        """
        remaining = known = self._run_checks()
        failures: list[Finding] = []
        applied: set[Remedy] = set()
        while fix and (remedies := {each.remedy for each in remaining if each.remedy is not None} - applied):
            if "database" in remedies:
                remedies.add("index")  # which follows the database
            for remedy in get_args(Remedy):
                if remedy in remedies:
                    failures += self._apply_remedy(remedy)
            applied |= remedies
            remaining = self._run_checks()
            known += [each for each in remaining if each not in known and each.remedy not in applied]
        if not applied:
            return self._build_diagnosis(known, [])
        unresolved = {_get_identity(each) for each in remaining}
        repaired = [each for each in known if each.remedy and _get_identity(each) not in unresolved]
        left = [replace(each, remedy=None) for each in remaining]
        return self._build_diagnosis([*failures, *left], repaired)

    def _build_diagnosis(self, findings: Sequence[Finding], repaired: Sequence[Finding]) -> Diagnosis:
        severities = get_args(Severity)
        return Diagnosis(
            findings=tuple(sorted(findings, key=lambda finding: severities.index(finding.severity))),
            repaired=tuple(repaired),
            checked=MappingProxyType(dict(sorted(self._checked.items()))),
        )

    def _run_checks(self) -> list[Finding]:
        self._checked.clear()
        findings = list(self._check_database())
        if self.path is not None:
            findings += check_folder(self.path)
        if any(each.code == "database" for each in findings):
            return findings  # the other checks would report the same things again, as differences
        if index_files := () if self.path is None else find_damaged_files(self.path / "index" / FORMAT):
            what = f"{count(len(index_files), 'file')} of the search index cannot be read"
            findings.append(build_finding("index-damaged", what, index_files))
        return [
            *findings,
            *(() if index_files else self._check_index()),
            *self._check_vectors(),
            *self._check_mirror(),
            *self._check_secrets(),
            *self._check_forgetting(),
        ]

    # -- the store -----------------------------------------------------------------------------------------

    def _check_database(self) -> Iterator[Finding]:
        problems = self.store.check()
        for problem in problems:
            yield build_finding(
                "database", problem.what, remedy="database" if problem.repairable else None, fix=problem.fix
            )
        if problems:
            return
        self._checked["changes"] = self.store.sequence()

    def _check_secrets(self) -> Iterator[Finding]:
        """Report things that hold secrets, without the secrets."""
        exposures = () if self.redactor is None else self.redactor.find()
        for code, is_named in (("secrets-stored", False), ("secret-name", True)):
            found = (f"{each.subject} {each.id}" for each in exposures if each.named == is_named)
            yield from list_things(code, found)

    # -- the index -----------------------------------------------------------------------------------------

    def _check_index(self) -> Iterator[Finding]:
        status = self.index.status()
        if status.problem:
            what = f"the search index cannot be kept on disk and is held in memory: {status.problem}"
            yield build_finding("index-in-memory", what)
        try:
            comparison = compare_index(self.index, self.store)
        except IndexCorrupt:
            yield build_finding("index-damaged", "the search index cannot be read")
            return
        self._checked["passages"] = comparison.passages
        if wrong := comparison.missing + comparison.surplus:
            yield build_finding(
                "index-differs",
                f"{count(wrong, 'passage')} of the search index and of the store do not agree "
                f"({comparison.missing} are missing from the index, {comparison.surplus} are too many)",
            )

    def _check_vectors(self) -> Iterator[Finding]:
        if self.vectors is None:
            return
        if self.vectors.is_damaged():
            yield build_finding("vectors-damaged", "the vectors cannot be read as they were written")
        if problem := self.vectors.status().problem:
            yield build_finding("vectors-failing", f"searches go by words alone: {problem}")

    # -- files and unfinished erasures ---------------------------------------------------------------------

    def _check_mirror(self) -> list[Finding]:
        if self.files is None or self.path is None:
            return []
        findings = list(check_files(self.store, self.files, self.path, self._checked))
        self._differing_files = tuple(
            path
            for each in findings
            if each.remedy == "files" and each.code != "drafts-left"
            for path in each.about
        )
        return findings

    def _check_forgetting(self) -> Iterator[Finding]:
        if unfinished := self.eraser.pending():
            yield build_finding(
                "forgetting-unfinished",
                f"what was to be forgotten is not gone everywhere yet: {'; '.join(unfinished)}",
            )

    # -- repair --------------------------------------------------------------------------------------------

    def _apply_remedy(self, remedy: Remedy) -> list[Finding]:
        """Apply a remedy; return the findings about its failure, or about what it could not repair."""
        try:
            match remedy:
                case "leftovers" if self.path is not None:
                    remove_leftovers(self.path)
                case "database":
                    report = self.store.repair()
                    return [] if report is None else build_repair_findings(report)
                case "index":
                    self.index.rebuild()
                case "vectors" if self.vectors is not None:
                    self.vectors.rebuild()
                case "files" if self.files is not None:
                    self.files.restore(self._differing_files)
                case "forgetting":
                    self.eraser.finish()
        except (ReverieError, OSError) as error:
            what = f"repairing ({remedy}) did not succeed: {error}"
            return [build_finding("repair-failed", what)]
        return []


def _get_identity(finding: Finding) -> tuple[str, str, tuple[str, ...]]:
    return finding.code, finding.what, finding.about
