"""Findings of the doctor, the diagnosis made of them, and helpers for their wording."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from reverie.stores.protocol import RepairReport

Severity = Literal["error", "warning", "note"]
Part = Literal["database", "index", "files", "sessions", "folder"]
Remedy = Literal["modes", "leftovers", "database", "words", "index", "vectors", "files", "forgetting"]

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


_KINDS: Mapping[str, _Kind] = {
    code: _Kind(**fields)
    for code, fields in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
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


def build_repair_findings(report: RepairReport) -> list[Finding]:
    """Return what to know after a repair: where the damaged database is, and what could not be read of it."""
    kept = f"the damaged database is kept as {report.kept.name}"
    findings = [build_finding("database-repaired", kept, (report.kept.name,))]
    if report.lost:
        findings.append(build_finding("content-lost", f"could not be read: {', '.join(report.lost)}"))
    return findings


def get_part(remedy: Remedy) -> Part:
    """Return the part that a remedy repairs."""
    return next(kind.part for kind in _KINDS.values() if kind.remedy == remedy)


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
