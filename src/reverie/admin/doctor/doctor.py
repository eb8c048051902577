"""Check of an open memory, and its repair.

The doctor compares the tables with the journal, and the search index and the files with the store. It checks
modes and leftovers. Its findings name ids, files and numbers, never content. It repairs what
needs no decision by a person, and deletes nothing that holds content which exists nowhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, get_args, runtime_checkable

from reverie.admin.doctor.checks import (
    Diagnosis,
    Finding,
    Remedy,
    Severity,
    build_finding,
    build_repair_findings,
    check_files,
    check_folder,
    count,
    get_part,
    is_obstructed,
    list_things,
    remove_leftovers,
    set_modes,
)
from reverie.admin.erasure.eraser import Eraser
from reverie.admin.erasure.redact_stored import StoredSecretRedactor
from reverie.domain.errors import ReverieError
from reverie.files.folder import MemoryFolder
from reverie.files.state import FILES_DATABASE
from reverie.search.index.candidates import CandidateIndex, compare_index
from reverie.search.index.tantivy_index import FORMAT, IndexCorrupt, find_damaged_files
from reverie.search.vectors.vector_index import VectorIndex
from reverie.stores.protocol import RepairReport, Store


@runtime_checkable
class RepairableStore(Protocol):
    """Store that can repair itself from what can be read of it."""

    def repair(self) -> RepairReport | None:
        """Repair what `check` calls repairable; return a report if the store was replaced by a copy."""

    def refresh_analyses(self) -> None:
        """Store the words that the analyzer makes of every text."""

    def find_stale_analyses(self) -> Sequence[str]:
        """Return the ids of things whose stored words differ from what the analyzer makes of them."""


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
    index: CandidateIndex
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
        while fix and (remedies := _collect_remedies(remaining) - applied):
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
        if not isinstance(self.store, RepairableStore):
            return
        if ids := tuple(self.store.find_stale_analyses()):
            yield build_finding(
                "words-outdated",
                f"{count(len(ids), 'passage')} would be searched by other words than they have",
                ids,
            )

    def _check_secrets(self) -> Iterator[Finding]:
        """Report things that hold secrets, without the secrets."""
        exposures = () if self.redactor is None else self.redactor.find()
        for code, is_named in (("secrets-stored", False), ("secret-name", True)):
            found = (f"{each.subject} {each.id}" for each in exposures if each.named == is_named)
            yield from list_things(code, found)

    # -- the index -----------------------------------------------------------------------------------------

    def _check_index(self) -> Iterator[Finding]:
        status = self.index.status()
        if status.problem and not (self.path is not None and is_obstructed(self.path, "index")):
            yield build_finding(
                "index-in-memory", "the search index cannot be kept on disk and is held in memory"
            )
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
        if is_obstructed(self.path, "memory", "sessions", FILES_DATABASE):
            return []  # reported by the check of the folder, and nothing there can be compared
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
                case "modes" if self.path is not None:
                    set_modes(self.path)
                case "leftovers" if self.path is not None:
                    remove_leftovers(self.path)
                case "database" if isinstance(self.store, RepairableStore):
                    report = self.store.repair()
                    return [] if report is None else build_repair_findings(report)
                case "words" if isinstance(self.store, RepairableStore):
                    self.store.refresh_analyses()
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
            return [build_finding("repair-failed", what, part=get_part(remedy))]
        return []


def _collect_remedies(findings: Sequence[Finding]) -> set[Remedy]:
    remedies = {each.remedy for each in findings if each.remedy is not None}
    return (
        remedies | {"index"} if remedies & {"database", "words"} else remedies
    )  # the index follows the database


def _get_identity(finding: Finding) -> tuple[str, str, tuple[str, ...]]:
    return finding.code, finding.what, finding.about
