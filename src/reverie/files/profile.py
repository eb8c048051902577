"""The agent's profile: reads `soul.md`, `directives.md` and `style.md`; writes nothing."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

_log = logging.getLogger("reverie")

NAMES = ("soul.md", "directives.md", "style.md")
"""The files of a profile, in the order they stand in a prompt; each may be missing."""


class _Read(NamedTuple):
    stamp: tuple[int, int]
    text: str


class Profile:
    """Profile in a folder. A file that a person has edited is read again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, _Read] = {}

    def read(self) -> tuple[str, ...]:
        """Return the texts of the files that exist, in order, without blank ones.

        A file that cannot be read (no permission, not UTF-8) is named in the log, and its last good text stays in
        force, so that a mistake in an editor does not change the agent.
        """
        texts = (self._read_text(name) for name in NAMES)
        return tuple(text for text in texts if text)

    def _read_text(self, name: str) -> str:
        path = self.folder / name
        try:
            status = path.stat()
        except FileNotFoundError:
            self._known.pop(name, None)
            return ""
        except OSError as error:
            return self._get_last_good(name, error)
        stamp = (status.st_mtime_ns, status.st_size)
        known = self._known.get(name)
        if known is None or known.stamp != stamp:
            try:
                known = _Read(stamp, path.read_text(encoding="utf-8-sig").strip())
            except (OSError, UnicodeDecodeError) as error:
                return self._get_last_good(name, error)
            self._known[name] = known
        return known.text

    def _get_last_good(self, name: str, error: Exception) -> str:
        known = self._known.get(name)
        consequence = "its last good text stays in force" if known else "it is left out"
        _log.warning("profile file %r cannot be read, %s: %s", str(self.folder / name), consequence, error)
        return known.text if known else ""
