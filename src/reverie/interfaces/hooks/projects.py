"""Scope of a project, derived from the folder in which an agent works."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

PROJECT = "CLAUDE_PROJECT_DIR"
"""The variable in which Claude Code names the project's folder."""

_LONGEST = 40
_UNFIT = re.compile(r"[^\w.-]+")


def derive_project_scope(folder: str, *, within: str = "") -> str:
    """Return the scope of the project that a folder belongs to, such as `project:atlas-1f0c2a9b`.

    The project is the git repository around the folder (for a worktree, the one that it is of), or else the
    folder itself. Another folder of the same name is another project.

    Args:
        folder: Any folder of the project; empty for this process's own.
        within: The scope that it lies in, such as `user:alice`.
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
    """Return the repository of a worktree, which its `.git` file names; None for another file."""
    try:
        named = mark.read_text(encoding="utf-8", errors="replace").partition("gitdir:")[2].strip()
    except OSError:
        return None
    inside = Path(os.path.realpath(mark.parent / named))
    if inside.parent.name == "worktrees" and inside.parent.parent.name == ".git":
        return inside.parent.parent.parent
    return None
