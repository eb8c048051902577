"""Edits of the text of JSON, JSONC and TOML files that change nothing else: comments, order and spacing stay.

An entry has a path of keys; in a list, its number, or `APPEND` for a new last one. After each edit the text is parsed
and compared with the value that it should have. So a file that is written in an unexpected way is refused, not broken.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from json.decoder import scanstring  # type: ignore[attr-defined]  # not in the stubs
from typing import Any, NamedTuple

from reverie.domain.errors import InvalidInput

APPEND = -1
"""Number of a new entry at the end of a list."""

Path = tuple[str | int, ...]

_SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}/]+")
_INDENT = re.compile(r"\n([ \t]+)\S")
_HEADER = re.compile(r"^[ \t]*(\[\[?[^\n]*?\]\]?)[ \t]*(?:#[^\n]*)?$", re.MULTILINE)


def parse(text: str, *, is_toml: bool) -> dict[str, Any]:
    """Return the value of a configuration file; an empty one has none.

    Raises:
        InvalidInput: the text is not valid, or not an object.
    """
    try:
        value = tomllib.loads(text) if is_toml else _parse_json(text).value
    except (ValueError, IndexError, RecursionError) as error:
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
    written = _drop_toml(text, path) if is_toml else _drop_json(text, path)
    return _verify(written, expected, is_toml=is_toml)


def prune(value: Any) -> Any:
    """Return a value without the objects and lists in it that are empty."""
    if isinstance(value, dict):
        return {key: kept for key, each in value.items() if (kept := prune(each)) not in ({}, [])}
    return (
        [kept for each in value if (kept := prune(each)) not in ({}, [])]
        if isinstance(value, list)
        else value
    )


def _verify(text: str, expected: Mapping[str, Any], *, is_toml: bool) -> str:
    try:
        is_same = prune(parse(text, is_toml=is_toml)) == prune(expected)
    except InvalidInput:
        is_same = False
    if not is_same:
        raise InvalidInput("it is written in a way that cannot be edited automatically")
    return text


# -- JSON with comments ------------------------------------------------------------------------------------


class _Node(NamedTuple):
    """A value in a text.

    Attributes:
        start: Where it begins; a member of an object begins with its key.
        end: Where it ends.
        value: The value.
        children: Entries of an object or list; None for other values.
        at: Where the value itself begins.
    """

    start: int
    end: int
    value: Any
    children: dict[str | int, _Node] | None
    at: int


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _parse_json(text: str) -> _Node:
    start = _skip(text, 1 if text.startswith("\ufeff") else 0)
    if start == len(text):
        return _Node(start, start, {}, None, start)
    node = _parse_value(text, start, start)
    if _skip(text, node.end) != len(text):
        raise ValueError(f"unexpected text at character {node.end}")
    return node


def _parse_value(text: str, start: int, at: int) -> _Node:
    if text[at] in "{[":
        return _parse_container(text, start, at)
    if text[at] == '"':
        value, end = scanstring(text, at + 1)
        return _Node(start, end, value, None, at)
    match = _SCALAR.match(text, at)
    if match is None:
        raise ValueError(f"unexpected character at {at}")
    return _Node(start, match.end(), json.loads(match[0]), None, at)


def _parse_container(text: str, start: int, opened: int) -> _Node:
    is_object = text[opened] == "{"
    children: dict[str | int, _Node] = {}
    at = _skip(text, opened + 1)
    while text[at] != ("}" if is_object else "]"):
        key: str | int = len(children)
        began = at
        if is_object:
            if text[at] != '"':
                raise ValueError(f"expected a name at character {at}")
            key, at = scanstring(text, at + 1)
            at = _skip(text, at)
            if text[at] != ":":
                raise ValueError(f"expected a colon at character {at}")
            at = _skip(text, at + 1)
        child = _parse_value(text, began, at)
        children[key] = child
        at = _skip(text, child.end)
        if text[at] == ",":
            at = _skip(text, at + 1)
        elif text[at] not in "}]":
            raise ValueError(f"expected a comma at character {at}")
    values = {key: child.value for key, child in children.items()}
    return _Node(start, at + 1, values if is_object else list(values.values()), children, opened)


def _put_json(text: str, path: Path, value: Any) -> str:
    if not text.strip("\ufeff \t\r\n"):
        text += "{}\n"
    node = _parse_json(text)
    for depth, key in enumerate(path):
        assert node.children is not None
        if key not in node.children:
            for below in reversed(path[depth + 1 :]):
                value = [value] if below == APPEND else {below: value}
            return _insert(text, node, key, value)
        node = node.children[key]
    return text[: node.at] + _format(text, value, _get_indent(text, node.start)) + text[node.end :]


def _insert(text: str, node: _Node, key: str | int, value: Any) -> str:
    """Return the text with a new last entry in an object or list."""
    unit, base = _get_unit(text), _get_indent(text, node.start)
    line_end = "\r\n" if "\r\n" in text else "\n"
    inner = text[node.at + 1 : node.end - 1]
    is_one_line = "\n" not in inner and bool(node.children)
    name = f"{json.dumps(key, ensure_ascii=False)}: " if isinstance(key, str) else ""
    entry = name + _format(text, value, base + unit, one_line=is_one_line)
    close = node.end - 1
    if not node.children:
        kept = inner.rstrip()
        return f"{text[: node.at + 1]}{kept}{line_end}{base}{unit}{entry}{line_end}{base}{text[close:]}"
    last = list(node.children.values())[-1].end
    after = _skip(text, last)
    has_comma = text[after] == ","
    at = after + 1 if has_comma else last
    rest = re.match(r"[ \t]*(?://[^\r\n]*|/\*[^\n]*?\*/[ \t]*(?=\r?\n))?", text[at:close])
    comment = rest[0].rstrip() if rest else ""
    comma = "" if has_comma else ","
    space = " " if is_one_line else f"{line_end}{base}{unit}"
    tail = "," if has_comma else ""
    return f"{text[:at]}{comma}{comment}{space}{entry}{tail}{text[at + len(comment) :]}"


def _drop_json(text: str, path: Path) -> str:
    parent = _parse_json(text)
    for key in path[:-1]:
        assert parent.children is not None
        parent = parent.children[key]
    assert parent.children is not None
    keys = list(parent.children)
    number = keys.index(path[-1])
    node = parent.children[path[-1]]
    follows = _skip(text, node.end)
    if number and text[follows] == ",":  # with a comma after the last entry too, or another entry after it
        return text[: node.start].rstrip() + text[node.end : follows] + text[follows + 1 :]
    if number:
        comma = _skip(text, parent.children[keys[number - 1]].end)
        return text[:comma] + text[comma + 1 : node.start].rstrip() + text[node.end :]
    if len(keys) > 1:
        return text[: node.start] + text[follows + 1 :].lstrip()
    head, tail = text[parent.at + 1 : node.start].rstrip(), text[node.end : parent.end - 1].lstrip(", \t")
    if len(path) > 1 and not (head + tail).strip():
        return _drop_json(text, path[:-1])
    return text[: parent.at + 1] + head + (tail if head or tail.strip() else "") + text[parent.end - 1 :]


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


def _drop_toml(text: str, path: Path) -> str:
    """Return the text without the tables of an entry; comments before the next table stay."""
    headers = [header for header in _HEADER.finditer(text) if _is_toml(text[: header.start()])]
    ends = [header.start() for header in headers[1:]] + [len(text)]
    for header, own, end in reversed(list(zip(headers, _number_headers(headers), ends, strict=True))):
        if own[: len(path)] != path:
            continue
        lines = text[header.start() : end].splitlines(keepends=True)
        while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
            lines.pop()
        before, after = text[: header.start()], text[header.start() + len("".join(lines)) :]
        is_last = not after.strip()
        text = f"{before.rstrip()}\n".lstrip("\n") if is_last else before + after.lstrip("\r\n")
    return text


def _number_headers(headers: Sequence[re.Match[str]]) -> list[Path]:
    """Return the path of each header; a list has the number of its entry."""
    counts: dict[Path, int] = {}
    paths: list[Path] = []
    for header in headers:
        value: Any = tomllib.loads(header[1])
        path: Path = ()
        while value:
            is_list = isinstance(value, list)
            if is_list:
                counts[path] = counts.get(path, -1) + 1
                value = value[0]
            if path in counts:
                path += (counts[path],)
            if value:
                key, value = next(iter(value.items()))
                path += (key,)
        paths.append(path)
    return paths


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
