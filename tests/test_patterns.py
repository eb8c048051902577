"""Regular expressions mean the same on every supported Python."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import reverie
from reverie.domain.errors import MissingExtra
from reverie.domain.lazy_regex import _LazyPattern

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


def iterate_patterns(value: object) -> Iterator[_LazyPattern]:
    """Iterate over the patterns in a value of a module and in its tuples, lists and mappings."""
    if isinstance(value, _LazyPattern):
        yield value
    elif isinstance(value, Mapping):
        yield from iterate_patterns([*value, *value.values()])
    elif isinstance(value, tuple | list | frozenset):
        for each in value:
            yield from iterate_patterns(each)


def test_every_pattern_can_be_compiled() -> None:
    modules = []
    for found in pkgutil.walk_packages([str(SOURCE)], "reverie."):
        with contextlib.suppress(MissingExtra):  # in an environment of its own
            modules.append(importlib.import_module(found.name))
    patterns = {
        each for module in modules for value in vars(module).values() for each in iterate_patterns(value)
    }
    assert len(patterns) > 200
    for pattern in patterns:
        assert pattern.groups >= 0
