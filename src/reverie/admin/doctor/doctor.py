"""Is everything as it should be, and if it is not, what is to be done?

The doctor compares what stands twice: the tables with the journal, the search index with the store, the files
with both; it looks at modes, leftovers and room on the disk. It says what is wrong in plain words, with ids,
names and numbers and never with what is remembered, and repairs what can be repaired without a choice that
only a person can make. It deletes nothing that holds content which is not found elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, get_args, runtime_checkable

from reverie.admin.doctor.findings import (
    Diagnosis,
    Finding,
    Part,
    Remedy,
    RepairableFinding,
    Severity,
    count,
    summarize_names,
)
from reverie.admin.doctor.folder_checks import check_folder, is_obstructed, remove_leftovers, set_modes
from reverie.admin.doctor.mirror_checks import check_files
from reverie.admin.erasure.eraser import Eraser
from reverie.admin.erasure.redact_stored import StoredSecretRedactor
from reverie.context.window import to_chat_messages
from reverie.domain.errors import ReverieError
from reverie.domain.text.timestamps import Clock
from reverie.files.folder import MemoryFolder
from reverie.search.index.search_index import SearchIndex
from reverie.search.index.tantivy_index import FORMAT, IndexCorrupt
from reverie.search.index.verify import compare_index, find_damaged_files
from reverie.stores.protocol import Store, StoreProblem

_PART_OF: Mapping[Remedy, Part] = MappingProxyType(
    {
        "modes": "folder",
        "leftovers": "folder",
        "database": "database",
        "index": "index",
        "files": "files",
        "forgetting": "database",
    }
)


@runtime_checkable
class RepairableStore(Protocol):
    """A store that can put right some of what is wrong with it, as `SQLiteStore` can."""

    def repair(self, *, at: datetime) -> None:
        """Put right what `check` calls mendable."""
        ...

    def misread(self) -> Sequence[str]:
        """The ids of what is searched by other words than the analyser makes of it."""
        ...


class Doctor:
    """Examines one open memory."""

    def __init__(
        self,
        store: Store,
        index: SearchIndex,
        *,
        path: Path | None,
        clock: Clock,
        files: MemoryFolder | None = None,
        forgetter: Eraser | None = None,
        exposing: StoredSecretRedactor | None = None,
    ) -> None:
        """Examine a memory.

        Args:
            store: Its store.
            index: Its search index.
            path: Its folder; None when it has none.
            clock: What tells the time.
            files: Its mirrored files; None when it has none.
            forgetter: What finishes an interrupted forgetting.
            exposing: What finds secrets that are stored; None where they may be.
        """
        self._exposing = exposing
        self._files = files
        self._forgetter = forgetter
        self._differing: tuple[str, ...] = ()
        self._store = store
        self._index = index
        self._path = path
        self._clock = clock
        self._checked: Counter[str] = Counter()

    def examine(self, *, fix: bool = False) -> Diagnosis:
        """Look at everything.

        Args:
            fix: Whether to repair what can be repaired, and then look again.

        Raises:
            StoreUnavailable: the store cannot be reached.
        """
        left = found = self._run_checks()
        failed: list[Finding] = []
        done: set[Remedy] = set()
        while fix and (remedies := _collect_remedies(left) - done):
            failed += [
                finding for one in get_args(Remedy) if one in remedies for finding in self._apply_remedy(one)
            ]
            done |= remedies
            left = self._run_checks()
            found += [ill for ill in left if ill not in found and ill.remedy not in done]
        if not done:
            return self._build_diagnosis([ill.finding for ill in found], [])
        still = {_get_identity(ill.finding) for ill in left}
        repaired = [ill.finding for ill in found if ill.remedy and _get_identity(ill.finding) not in still]
        return self._build_diagnosis(
            [*failed, *(replace(ill.finding, repairable=False) for ill in left)], repaired
        )

    def _build_diagnosis(self, findings: Sequence[Finding], repaired: Sequence[Finding]) -> Diagnosis:
        worst = get_args(Severity)
        return Diagnosis(
            findings=tuple(sorted(findings, key=lambda finding: worst.index(finding.severity))),
            repaired=tuple(repaired),
            checked=MappingProxyType(dict(sorted(self._checked.items()))),
        )

    def _run_checks(self) -> list[RepairableFinding]:
        self._checked.clear()
        found = list(self._check_database())
        unreadable = any(ill.finding.severity == "error" for ill in found)
        if self._path is not None:
            found += check_folder(self._path)
        found += self._check_index_files()
        if not unreadable:  # else what follows would name the same things again, as differences
            found += [
                *self._check_index_content(),
                *self._check_sessions(),
                *self._check_mirror(),
                *self._check_secrets(),
            ]
        found += self._check_forgetting()
        return found

    # -- the store -----------------------------------------------------------------------------------------

    def _check_database(self) -> Iterator[RepairableFinding]:
        self._checked["changes"] = self._store.sequence()
        problems = self._store.check()
        for problem in problems:
            yield _from_problem(problem)
        if not isinstance(self._store, RepairableStore) or not all(problem.mendable for problem in problems):
            return
        if ids := tuple(self._store.misread()):
            yield RepairableFinding(
                Finding(
                    code="words-outdated",
                    part="database",
                    severity="warning",
                    what=f"{count(len(ids), 'passage')} would be searched by other words than they have",
                    fix="have their words made again with `reverie doctor --fix`",
                    repairable=True,
                    about=ids,
                ),
                "database",
            )

    def _check_sessions(self) -> Iterator[RepairableFinding]:
        """Results of tools that answer no call: they are left out of prompts."""
        overviews = self._store.sessions()
        self._checked["sessions"] = len(overviews)
        for overview in overviews:
            name = overview.state.id
            turns = self._store.turns(session=name)
            self._checked["turns"] += len(turns)
            orphans = to_chat_messages(turns).orphans
            if orphans:
                yield RepairableFinding(
                    Finding(
                        code="result-without-call",
                        part="sessions",
                        severity="note",
                        what=f"{count(len(orphans), 'result')} of tools in session {name!r} answer no call "
                        "that is still open before them, and are left out of prompts",
                        fix="nothing has to be done; they are found by search",
                        about=orphans,
                    ),
                    None,
                )

    def _check_secrets(self) -> Iterator[RepairableFinding]:
        """Secrets that were stored before they were redacted; which they are is not said."""
        found = () if self._exposing is None else self._exposing.find()
        if names := tuple(f"{each.subject} {each.id}" for each in found if not each.named):
            yield RepairableFinding(
                Finding(
                    code="secrets-stored",
                    part="database",
                    severity="warning",
                    what=f"{summarize_names(names, 'thing holds', 'things hold')} what looks like a secret: a key, "
                    "a token, a password or the like",
                    fix="have them taken out for good with `reverie redact`, or forget the things with "
                    "`reverie forget`",
                    about=names,
                ),
                None,
            )
        if named := tuple(f"{each.subject} {each.id}" for each in found if each.named):
            yield RepairableFinding(
                Finding(
                    code="secret-name",
                    part="database",
                    severity="warning",
                    what=f"the names of {summarize_names(named, 'thing', 'things')} are what looks like a secret",
                    fix="a name cannot be redacted: forget them with `reverie forget`, and use another name",
                    about=named,
                ),
                None,
            )

    # -- the index -----------------------------------------------------------------------------------------

    def _check_index_files(self) -> Iterator[RepairableFinding]:
        if self._path is None:
            return
        if damaged := find_damaged_files(self._path / "index" / FORMAT):
            yield _build_index_ill(
                "index-damaged",
                f"{count(len(damaged), 'file')} of the search index cannot be read",
                about=tuple(damaged),
            )

    def _check_index_content(self) -> Iterator[RepairableFinding]:
        if self._path is not None and find_damaged_files(self._path / "index" / FORMAT):
            return
        status = self._index.status()
        if status.problem and not (self._path is not None and is_obstructed(self._path, "index")):
            yield _build_index_ill(
                "index-in-memory", "the search index cannot be kept on disk and is held in memory"
            )
        try:
            compared = compare_index(self._index, self._store)
        except IndexCorrupt:
            yield _build_index_ill("index-damaged", "the search index cannot be read")
            return
        self._checked["passages"] = compared.passages
        wrong = len(compared.missing) + len(compared.surplus)
        if wrong:
            yield _build_index_ill(
                "index-differs",
                f"{count(wrong, 'passage')} of the search index and of the store do not agree "
                f"({len(compared.missing)} are missing from the index, {len(compared.surplus)} are too many)",
            )
        elif compared.words:
            yield _build_index_ill(
                "index-differs", f"the search index counts {count(compared.words, 'word')} wrongly"
            )
        if not compared.counted:
            yield RepairableFinding(
                Finding(
                    code="index-busy",
                    part="index",
                    severity="note",
                    what="the words of the search index were not counted: others were writing all the time",
                    fix="run `reverie doctor` again when it is quieter",
                ),
                None,
            )

    # -- files, and what is to be forgotten ------------------------------------------------------------------

    def _check_mirror(self) -> list[RepairableFinding]:
        if self._files is None or self._path is None:
            return []
        if is_obstructed(self._path, "memory", "sessions", "files.db"):
            return []  # said already, and nothing there can be compared
        found = list(check_files(self._store, self._files, self._path, self._checked))
        self._differing = tuple(
            path
            for ill in found
            if ill.remedy == "files" and ill.finding.code != "drafts-left"
            for path in ill.finding.about
        )
        return found

    def _check_forgetting(self) -> Iterator[RepairableFinding]:
        left = self._forgetter.pending() if self._forgetter is not None else ()
        if left:
            yield RepairableFinding(
                Finding(
                    code="forgetting-unfinished",
                    part="database",
                    severity="warning",
                    what=f"what was to be forgotten is not gone everywhere yet: {'; '.join(left)}",
                    fix="finish it with `reverie doctor --fix` while nothing else has the folder open",
                    repairable=True,
                ),
                "forgetting",
            )

    # -- treating ------------------------------------------------------------------------------------------

    def _apply_remedy(self, remedy: Remedy) -> Iterator[Finding]:
        treatments: Mapping[Remedy, Callable[[], object]] = {
            "modes": lambda: self._repair_folder(set_modes),
            "leftovers": lambda: self._repair_folder(remove_leftovers),
            "database": self._repair_database,
            "index": self._index.rebuild,
            "files": self._write_files,
            "forgetting": self._finish_forgetting,
        }
        try:
            treatments[remedy]()
        except (ReverieError, OSError) as error:
            yield Finding(
                code="repair-failed",
                part=_PART_OF[remedy],
                severity="error",
                what=f"repairing ({remedy}) did not succeed: {error}",
                fix="put that right, and run `reverie doctor --fix` again",
            )

    def _write_files(self) -> None:
        if self._files is not None:
            self._files.restore(self._differing)

    def _finish_forgetting(self) -> None:
        if self._forgetter is not None:
            self._forgetter.finish()

    def _repair_folder(self, treat: Callable[[Path], None]) -> None:
        if self._path is not None:
            treat(self._path)

    def _repair_database(self) -> None:
        if isinstance(self._store, RepairableStore):
            self._store.repair(at=self._clock())


def _collect_remedies(ills: Sequence[RepairableFinding]) -> set[Remedy]:
    found = {ill.remedy for ill in ills if ill.remedy is not None}
    return found | {"index"} if "database" in found else found  # it followed a journal that said not all


def _get_identity(finding: Finding) -> tuple[str, str, tuple[str, ...]]:
    return finding.code, finding.what, finding.about


def _from_problem(problem: StoreProblem) -> RepairableFinding:
    return RepairableFinding(
        Finding(
            code="database",
            part="database",
            severity="error",
            what=problem.what,
            fix=problem.fix,
            repairable=problem.mendable,
        ),
        "database" if problem.mendable else None,
    )


def _build_index_ill(code: str, what: str, *, about: tuple[str, ...] = ()) -> RepairableFinding:
    return RepairableFinding(
        Finding(
            code=code,
            part="index",
            severity="warning",
            what=what,
            fix="have it built again with `reverie doctor --fix`, or remove the folder index/",
            repairable=True,
            about=about,
        ),
        "index",
    )
