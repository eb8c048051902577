"""Secrets in table columns whose heading names a secret, in CSV and in Markdown.

A table is a line of short names followed by lines with the same number of cells. In Markdown, a line of two cells may
also be a name and its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from reverie.domain.lazy_regex import compile_pattern
from reverie.domain.secrets.assignment_rules import classify_value
from reverie.domain.secrets.rule import Span

_DELIMITERS = "|\t;,"
_LONGEST_NAME = 40
_AROUND = " \t\r\n\"'`*_"
_RULE = frozenset(" \t\r\n|:+-")


def find_columns(text: str, triggers: Iterable[tuple[int, str]]) -> Iterator[Span]:
    """Yield the secrets of each column whose heading names one.

    Args:
        text: The text.
        triggers: Result of `assignment_rules.find_trigger_words` for its lower-case form.
    """
    end = 0
    for start, _ in triggers:
        if start < end:
            continue
        begin = text.rfind("\n", 0, start) + 1
        end = text.find("\n", start) + 1 or len(text)
        head = text[begin:end]
        filled = [(cell, begin + at) for cell, at in _split_cells(head, "|") if cell.strip()]
        if len(filled) == 2:
            yield from _find_secret(filled[0][0].strip(_AROUND), *filled[1])
        for delimiter in filter(head.__contains__, _DELIMITERS):
            names = [cell.strip(_AROUND) for cell, _ in _split_cells(head, delimiter)]
            if all(map(_is_name, names[1:-1] if delimiter == "|" else names)):
                rows = _find_rows(text, end, delimiter, len(names))
                for place, cells in rows:
                    for name, (cell, at) in zip(names, cells, strict=False):
                        yield from _find_secret(name, cell, place + at)
                end = rows[-1][0] + 1 if rows else end
                break


def _find_rows(text: str, place: int, delimiter: str, width: int) -> list[tuple[int, list[tuple[str, int]]]]:
    """Return the rows of a table from a place on, each after its place."""
    rows = []
    while place < len(text):
        stop = text.find("\n", place) + 1 or len(text)
        cells = _split_cells(text[place:stop], delimiter)
        if len(cells) != width and not _is_rule(text[place:stop]):
            break
        rows.append((place, cells))
        place = stop
    return rows


def _is_name(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_NAME and text.replace("_", "a").replace(" ", "a").isalnum()


def _is_rule(line: str) -> bool:
    """Return whether a line separates the heading of a table from its rows."""
    return "-" in line and _RULE.issuperset(line)


def _split_cells(line: str, delimiter: str) -> list[tuple[str, int]]:
    """Return the cells of a line with their places; a quoted delimiter is no separator."""
    pattern = compile_pattern(
        rf'(?:\A|(?<={re.escape(delimiter)}))(?:\s*"(?:[^"]|"")*"|[^"{delimiter}\n])*(?=[{delimiter}\n]|\Z)',
        True,
    )
    return [(match.group(), match.start()) for match in pattern.finditer(line)]


def _find_secret(name: str, cell: str, at: int) -> Iterator[Span]:
    """Yield the secret of a cell, if it is one by its name."""
    value = cell.strip(_AROUND)
    if (
        any(map(str.isdigit, value))
        and " " not in value
        and (kind := classify_value(name, value)) is not None
    ):
        begin = at + len(cell) - len(cell.lstrip(_AROUND))
        yield Span(begin, begin + len(value), kind)
