"""The agent's profile: reads `soul.md`, `directives.md` and `style.md`; writes nothing."""

from __future__ import annotations

import logging
from pathlib import Path

_log = logging.getLogger("reverie")

NAMES = ("soul.md", "directives.md", "style.md")
"""The files of a profile, in the order they stand in a prompt; each may be missing."""


class Profile:
    """Profile in a folder. A file that a person has edited is read again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._texts: dict[str, str] = {}

    def read(self) -> tuple[str, ...]:
        """Return the texts of the files that exist, in order, without blank ones.

        A file that cannot be read (no permission, not UTF-8) is named in the log, and its last good text stays in
        force, so that a mistake in an editor does not change the agent.
        """
        for name in NAMES:
            path = self.folder / name
            try:
                self._texts[name] = path.read_text(encoding="utf-8-sig").strip()
            except FileNotFoundError:
                self._texts.pop(name, None)
            except (OSError, UnicodeDecodeError) as error:
                consequence = "its last good text stays in force" if name in self._texts else "it is left out"
                _log.warning("profile file %r cannot be read, %s: %s", str(path), consequence, error)
        return tuple(text for name in NAMES if (text := self._texts.get(name)))
