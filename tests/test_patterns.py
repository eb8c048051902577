"""Regular expressions mean the same on every supported Python."""

from __future__ import annotations

import re
from pathlib import Path

import reverie

SOURCE = Path(reverie.__file__).parent
_POSSESSIVE_GROUP = re.compile(r"(?:(?<!\\)\)|[A-Za-z_]\})(?:[*+?]|\{[0-9]*,?[0-9]*\})\+")


def test_no_group_has_a_possessive_quantifier() -> None:
    """Before Python 3.11.5 such a group misses matches (python/cpython#106052); an atomic group does not."""
    found = [
        f"{path.relative_to(SOURCE)}: {match[0]} at {match.start()}"
        for path in sorted(SOURCE.rglob("*"))
        if path.suffix in {".py", ".txt", ".toml"}
        for match in _POSSESSIVE_GROUP.finditer(path.read_text("utf-8"))
    ]
    assert not found, "write (?>(?:…)*) in place of (?:…)*+"
