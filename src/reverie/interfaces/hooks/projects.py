"""Scope of a project, derived from the folder in which an agent works."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from reverie.domain.lazy_regex import defer_regex

PROJECT = "CLAUDE_PROJECT_DIR"
"""Environment variable with the project's folder, set by Claude Code."""

_LONGEST = 40
_UNFIT = defer_regex(r"[^\w.-]+")


def derive_project_scope(folder: str, *, within: str = "") -> str:
    """Return the scope of the project that a folder belongs to, such as `project:atlas-1f0c2a9b`.

    The project is the git repository that contains the folder (for a worktree, its main repository), or else
    the folder itself. Folders of the same name are different projects.

    Args:
        folder: Any folder of the project; empty for the working folder of this process.
        within: Parent scope, such as `user:alice`.
    """
    root = _find_root(Path(folder or os.getcwd()).absolute())
    name = _UNFIT.sub("-", root.name).strip(".-")[:_LONGEST] or "root"
    scope = f"project:{name}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:8]}"
    return f"{within}/{scope}" if within else scope


def _find_root(folder: Path) -> Path:
    folder = Path(os.path.realpath(folder))
    for place in (folder, *folder.parents):
        mark = place / ".git"
        if mark.is_dir():
            return place
        if mark.is_file():
            return _resolve_worktree(mark) or place
    return folder


def _resolve_worktree(mark: Path) -> Path | None:
    """Return the repository that the `.git` file of a worktree names; None for another file."""
    try:
        git_dir = mark.read_text(encoding="utf-8", errors="replace").partition("gitdir:")[2].strip()
    except OSError:
        return None
    inside = Path(os.path.realpath(mark.parent / git_dir))
    if inside.parent.name == "worktrees" and inside.parent.parent.name == ".git":
        return inside.parent.parent.parent
    return None
