"""What can a doctor say? Findings, the diagnosis made of them, and the words they have in common.

Values and pure functions; the looking is done in the modules beside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

Severity = Literal["error", "warning", "note"]
Part = Literal["database", "index", "files", "sessions", "folder"]
Remedy = Literal["modes", "leftovers", "database", "index", "files", "forgetting"]

_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it should be.

    Attributes:
        code: Its short name, such as `index-damaged`; the same in every version.
        part: Where it is: `database`, `index`, `files`, `sessions` or `folder`.
        severity: `error`: something remembered cannot be read or is missing. `warning`: something is not as
            it should be, and nothing is lost. `note`: nothing is wrong, and it is good to know.
        what: What is wrong, in words, with ids, names and numbers; never content.
        fix: What a person can do about it.
        repairable: Whether `doctor(fix=True)` has a remedy for it.
        about: The ids or names of files concerned, all of them, where there are such.
    """

    code: str
    part: Part
    severity: Severity
    what: str
    fix: str
    repairable: bool = False
    about: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What the doctor found.

    Attributes:
        findings: What is not as it should be, the worst first; after a repair, what is still not.
        repaired: What was found and has been repaired.
        checked: How many things of which sort were looked at.
    """

    findings: tuple[Finding, ...]
    repaired: tuple[Finding, ...]
    checked: Mapping[str, int]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong: there may be notes."""
        return all(finding.severity == "note" for finding in self.findings)


class RepairableFinding(NamedTuple):
    """A finding, and what can be done about it here."""

    finding: Finding
    remedy: Remedy | None


def count(number: int, noun: str) -> str:
    """`1 file`, `2 files`, `6,097 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def summarize_names(names: Sequence[str], one: str, several: str) -> str:
    """How many there are, and the names of the first."""
    shown = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    return f"{len(names):,} {one if len(names) == 1 else several} ({shown})"


def to_relative_path(file: Path, path: Path) -> str:
    """The path of a file within a folder, with `/`."""
    return file.relative_to(path).as_posix()
