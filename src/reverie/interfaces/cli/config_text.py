"""Edits of the text of JSON, JSONC and TOML files that change nothing else: comments, order and spacing stay.

An entry has a path of keys; in a list, its number, or `APPEND` for a new last one. After each edit the text is parsed
and compared with the value that it should have. So a file that is written in an unexpected way is refused, not broken.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from itertools import pairwise
from json.decoder import scanstring  # type: ignore[attr-defined]  # not in the stubs
from typing import Any, NamedTuple

from reverie.domain.errors import InvalidInput

APPEND = -1
"""Number of a new entry at the end of a list."""

Path = tuple[str | int, ...]

_NOISE = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'"(?:\\.|[^"\\])*"|,(?=\s*[\]}])', re.DOTALL)
_SPACE = re.compile(r"\s*")
_INDENT = re.compile(r"\n([ \t]+)\S")
_HEADER = re.compile(r"^[ \t]*\[[^\n]*\][ \t]*(?:#[^\n]*)?$", re.MULTILINE)


def parse(text: str, *, is_toml: bool) -> dict[str, Any]:
    """Return the value of a configuration file; an empty one has none.

    Raises:
        InvalidInput: the text is not valid, or not an object.
    """
    try:
        value = tomllib.loads(text) if is_toml else json.loads(_remove_noise(text).strip() or "{}")
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"it is not valid {'TOML' if is_toml else 'JSON'} ({error})") from None
    if not isinstance(value, dict):
        raise InvalidInput("it is not a JSON object")
    return value


def put(text: str, path: Path, value: Any, *, is_toml: bool) -> str:
    """Return the text with an entry set or added, and what is missing above it.

    Raises:
        InvalidInput: a value on the path is not an object or a list, or the text is written in an unexpected way.
    """
    expected = parse(text, is_toml=is_toml)
    parent: Any = expected
    for key, following in pairwise(path):
        parent = parent.setdefault(key, [] if following == APPEND else {})
        if not isinstance(parent, list if following == APPEND else dict):
            raise InvalidInput(f"{key!r} in it has an unexpected form")
    if path[-1] == APPEND:
        parent.append(value)
    else:
        parent[path[-1]] = value
    written = _put_toml(text, path, value) if is_toml else _put_json(text, path, value)
    return _verify(written, expected, is_toml=is_toml)


def drop(text: str, path: Path, *, is_toml: bool) -> str:
    """Return the text without an entry, and without the objects and lists that are empty then.

    Raises:
        InvalidInput: the text is written in an unexpected way.
    """
    expected = parse(text, is_toml=is_toml)
    parent: Any = expected
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    written = _drop_toml(text, expected) if is_toml else _drop_json(text, path)
    return _verify(written, expected, is_toml=is_toml)


def prune(value: Any) -> Any:
    """Return a value without the objects and lists in it that are empty."""
    if isinstance(value, dict):
        return {key: kept for key, each in value.items() if (kept := prune(each)) not in ({}, [])}
    if isinstance(value, list):
        return [kept for each in value if (kept := prune(each)) not in ({}, [])]
    return value


def _verify(text: str, expected: Mapping[str, Any], *, is_toml: bool) -> str:
    if not _has_value(text, expected, is_toml=is_toml):
        raise InvalidInput("it is written in a way that cannot be edited automatically")
    return text


def _has_value(text: str, expected: Mapping[str, Any], *, is_toml: bool) -> bool:
    try:
        return bool(prune(parse(text, is_toml=is_toml)) == prune(expected))
    except InvalidInput:
        return False


# -- JSON with comments ------------------------------------------------------------------------------------

_BLANK = "\ufeff \t\r\n"


class _Entry(NamedTuple):
    """Entry of an object or a list: its key or number, where it begins, where its value begins, and where it ends."""

    key: str | int
    start: int
    at: int
    end: int


class _Container(NamedTuple):
    """Object or list: where its entry begins, where it opens and closes, and its entries."""

    start: int
    opens: int
    closes: int
    entries: list[_Entry]


def _remove_noise(text: str, *, commas: bool = True) -> str:
    """Return the text with spaces for comments, and for commas without an entry after them."""

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith('"') else re.sub(r"\S", " ", match[0])

    text = _NOISE.sub(blank, text.replace("\ufeff", " ", 1) if text.startswith("\ufeff") else text)
    return _TRAILING_COMMA.sub(blank, text) if commas else text


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _find_containers(text: str, path: Path) -> list[_Container]:
    """Return the objects and lists on a path, the whole first, as far as they exist."""
    plain = _remove_noise(text)
    start = at = _skip(plain, 0)
    found = []
    for key in path:
        container = _read_container(plain, start, at)
        found.append(container)
        entry = next((each for each in reversed(container.entries) if each.key == key), None)
        if entry is None:
            break
        start, at = entry.start, entry.at
    return found


def _read_container(plain: str, start: int, opens: int) -> _Container:
    entries: list[_Entry] = []
    at = _skip(plain, opens + 1)
    while plain[at] not in "}]":
        began, key = at, len(entries)
        if plain[opens] == "{":
            key, at = scanstring(plain, at + 1)
            at = _skip(plain, _skip(plain, at) + 1)  # after the colon
        _, end = json.JSONDecoder().raw_decode(plain, at)
        entries.append(_Entry(key, began, at, end))
        at = _skip(plain, end)
        at = _skip(plain, at + 1) if plain[at] == "," else at
    return _Container(start, opens, at, entries)


def _put_json(text: str, path: Path, value: Any) -> str:
    if not text.strip(_BLANK):
        text += "{}\n"
    containers = _find_containers(text, path)
    last, key = containers[-1], path[len(containers) - 1]
    for entry in last.entries:
        if entry.key == key:
            return text[: entry.at] + _format(text, value, _get_indent(text, entry.start)) + text[entry.end :]
    for below in reversed(path[len(containers) :]):
        value = [value] if below == APPEND else {below: value}
    return _insert(text, last, key, value)


def _insert(text: str, container: _Container, key: str | int, value: Any) -> str:
    """Return the text with a new last entry in an object or list."""
    unit, base = _get_unit(text), _get_indent(text, container.start)
    line_end = "\r\n" if "\r\n" in text else "\n"
    inner = text[container.opens + 1 : container.closes]
    is_one_line = "\n" not in inner and bool(container.entries)
    name = f"{json.dumps(key, ensure_ascii=False)}: " if isinstance(key, str) else ""
    entry = name + _format(text, value, base + unit, one_line=is_one_line)
    before = text[: container.closes].rstrip()
    if not container.entries:
        return f"{before}{line_end}{base}{unit}{entry}{line_end}{base}{text[container.closes :]}"
    end = container.entries[-1].end
    quiet = _remove_noise(text, commas=False)
    has_comma = quiet[_skip(quiet, end)] == ","
    space = " " if is_one_line else f"{line_end}{base}{unit}"
    comma, tail = ("", ",") if has_comma else (",", "")
    return f"{text[:end]}{comma}{before[end:]}{space}{entry}{tail}{text[len(before) :]}"


def _drop_json(text: str, path: Path) -> str:
    container = _find_containers(text, path)[-1]
    keys = [each.key for each in container.entries]
    number = keys.index(path[-1])
    entry = container.entries[number]
    quiet = _remove_noise(text, commas=False)
    follows = _skip(quiet, entry.end)
    if number and quiet[follows] == ",":  # with a comma after the last entry too, or another entry after it
        return text[: entry.start].rstrip() + text[entry.end : follows] + text[follows + 1 :]
    if number:
        comma = _skip(quiet, container.entries[number - 1].end)
        return text[:comma] + text[comma + 1 : entry.start].rstrip() + text[entry.end :]
    if len(keys) > 1:
        return text[: entry.start] + text[follows + 1 :].lstrip()
    head = text[container.opens + 1 : entry.start].rstrip()
    tail = text[entry.end : container.closes].lstrip(", \t")
    if len(path) > 1 and not (head + tail).strip():
        return _drop_json(text, path[:-1])
    kept = head + (tail if head or tail.strip() else "")
    return text[: container.opens + 1] + kept + text[container.closes :]


def _get_unit(text: str) -> str:
    match = _INDENT.search(text)
    return match[1] if match else "  "


def _get_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _format(text: str, value: Any, indent: str, *, one_line: bool = False) -> str:
    written = json.dumps(value, ensure_ascii=False, indent=None if one_line else _get_unit(text))
    return written.replace("\n", f"{chr(13) if chr(13) in text else ''}\n{indent}")


# -- TOML --------------------------------------------------------------------------------------------------


def _put_toml(text: str, path: Path, value: Mapping[str, Any]) -> str:
    """Return the text with a table at its end."""
    keys = ".".join(map(_format_key, path[:-1] if path[-1] == APPEND else path))
    lines = [f"[[{keys}]]" if path[-1] == APPEND else f"[{keys}]"]
    lines += [f"{_format_key(key)} = {_format_toml(each)}" for key, each in value.items()]
    line_end = "\r\n" if "\r\n" in text else "\n"
    before = f"{text.rstrip()}{line_end}{line_end}" if text.strip() else ""
    return before + line_end.join(lines) + line_end


def _drop_toml(text: str, expected: Mapping[str, Any]) -> str:
    """Return the text without the tables that the expected value does not have; comments before others stay."""
    starts = [header.start() for header in _HEADER.finditer(text) if _is_toml(text[: header.start()])]
    places = [*starts, len(text)]
    for count in range(1, len(places)):
        for start, end in zip(places, places[count:], strict=False):
            lines = text[start:end].splitlines(keepends=True)
            while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
                lines.pop()
            before, after = text[:start], text[start + len("".join(lines)) :]
            is_last = not after.strip()
            left = f"{before.rstrip()}\n".lstrip("\n") if is_last else before + after.lstrip("\r\n")
            if _has_value(left, expected, is_toml=True):
                return left
    return text


def _is_toml(text: str) -> bool:
    """Return whether the text is whole: it does not end within a text of several lines."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _format_key(key: str | int) -> str:
    return str(key) if re.fullmatch(r"[A-Za-z0-9_-]+", str(key)) else _format_toml(str(key))


def _format_toml(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_format_key(key)} = {_format_toml(each)}" for key, each in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_format_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
