"""Findings of the doctor, the diagnosis made of them, and helpers for their wording."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

Severity = Literal["error", "warning", "note"]
Part = Literal["database", "index", "files", "sessions", "folder"]
Remedy = Literal["modes", "leftovers", "database", "index", "vectors", "files", "forgetting"]

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
    fix: str = ""
    remedy: Remedy | None = None


_REBUILD_INDEX = "have it built again with `reverie doctor --fix`, or remove the folder index/"

_KINDS: Mapping[str, _Kind] = {
    "database": _Kind("database", "error"),
    "words-outdated": _Kind(
        "database", "warning", "have their words made again with `reverie doctor --fix`", "database"
    ),
    "database-missing": _Kind("database", "error"),
    "database-foreign": _Kind("database", "error"),
    "database-damaged": _Kind("database", "error"),
    "log-alone": _Kind(
        "database", "warning", "keep it together with its database: neither is whole without the other"
    ),
    "forgetting-unfinished": _Kind(
        "database",
        "warning",
        "finish it with `reverie doctor --fix` while nothing else has the folder open",
        "forgetting",
    ),
    "secrets-stored": _Kind(
        "database",
        "warning",
        "have them taken out for good with `reverie redact`, or forget the things with `reverie forget`",
    ),
    "secret-name": _Kind(
        "database",
        "warning",
        "a name cannot be redacted: forget them with `reverie forget`, and use another name",
    ),
    "index-damaged": _Kind("index", "warning", _REBUILD_INDEX, "index"),
    "index-in-memory": _Kind("index", "warning", _REBUILD_INDEX, "index"),
    "index-differs": _Kind("index", "warning", _REBUILD_INDEX, "index"),
    "index-busy": _Kind("index", "note", "run `reverie doctor` again when it is quieter"),
    "other-index": _Kind("index", "note", "remove that, if no other version has this folder open"),
    "vectors-damaged": _Kind(
        "index",
        "warning",
        "have them made again with `reverie doctor --fix`, or remove the folder index/vectors/",
        "vectors",
    ),
    "vectors-failing": _Kind(
        "index", "warning", "put that right, or turn vectors off with the setting `embedder`"
    ),
    "file-problem": _Kind("files", "warning"),
    "conflict": _Kind("files", "warning"),
    "files-unread": _Kind("files", "warning", "see above"),
    "files-missing": _Kind("files", "warning", "write them again with `reverie doctor --fix`", "files"),
    "files-differ": _Kind(
        "files", "warning", "`reverie doctor --fix` writes old versions again and takes edits in", "files"
    ),
    "files-unknown": _Kind(
        "files",
        "warning",
        "take them in with `reverie doctor --fix`; what was forgotten on request stays out: remove those",
        "files",
    ),
    "drafts-left": _Kind(
        "files", "warning", "have them put back or removed with `reverie doctor --fix`", "files"
    ),
    "files-foreign": _Kind("files", "note", "nothing has to be done: they are left alone"),
    "read-only": _Kind("folder", "note", "mount it for writing, if that is not intended"),
    "in-the-way": _Kind("index", "warning", "move it away, and run `reverie doctor --fix`"),
    "modes": _Kind("folder", "note", "chmod 600 the files and 700 the folders", "modes"),
    "folder-mode": _Kind("folder", "note"),
    "drafts": _Kind("folder", "warning", "remove them", "leftovers"),
    "moved-aside": _Kind("folder", "note", "remove them once you miss nothing"),
    "old-backups": _Kind("folder", "note", "remove them once you are content with the update"),
    "repair-failed": _Kind("database", "error", "put that right, and run `reverie doctor --fix` again"),
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
    return Finding(code=code, what=what, about=tuple(about), **{**_KINDS[code]._asdict(), **differing})


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 file`, `6,097 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def summarize_names(names: Sequence[str], one: str, several: str) -> str:
    """Return how many names there are, and the first of them."""
    shown = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    return f"{len(names):,} {one if len(names) == 1 else several} ({shown})"


def to_relative_path(file: Path, path: Path) -> str:
    """Return the path of a file within a folder, with `/`."""
    return file.relative_to(path).as_posix()
