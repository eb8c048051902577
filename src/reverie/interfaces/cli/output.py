"""Output of commands: JSON, rows in a pipe, and texts on a terminal."""

from __future__ import annotations

import itertools
import json
import logging
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from click.core import ParameterSource

from reverie.domain.filter import get_end, has_ended
from reverie.domain.text import timestamps
from reverie.domain.text.json_values import to_json_value
from reverie.interfaces.formatting import (
    UNSAFE,
    count,
    escape_text,
    extract_excerpt,
    format_age,
    format_size,
    one_line,
)

if TYPE_CHECKING:
    from reverie.domain.conversation import Turn
    from reverie.domain.record import Record
    from reverie.interfaces.cli.options import CommandContext
    from reverie.search.hits import Hit


__all__ = ["count", "escape_text", "extract_excerpt", "format_age", "format_size", "one_line"]

WIDEST = 120
"""Maximum columns on a terminal: longer lines are hard to read."""

_COUNTED = ("record", "session", "turn", "page", "paragraph")
_MOST_ITEMS = 20


def print_json(value: Any) -> None:
    r"""Print one JSON document, with unsafe characters as `\u001b`."""
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "")
    text = json.dumps(value, ensure_ascii=encoding != "utf8", indent=2, default=to_json_value)
    # Outside strings JSON has only line breaks and spaces, so unsafe characters are inside strings.
    click.echo(UNSAFE.sub(lambda match: json.dumps(match.group())[1:-1], text))


def print_rows(lines: Iterable[Iterable[object]]) -> None:
    """Print rows of equal length: with tabs for `cut`, `sort` and `awk`, or in columns on a terminal."""
    rows = [[_format_cell(cell) for cell in line] for line in lines]
    if not is_terminal():
        for row in rows:
            click.echo("\t".join(row))
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(_wrap("  ".join(cells).rstrip(), "", "  "))


def _format_cell(cell: object) -> str:
    if isinstance(cell, datetime):
        return format_age(cell, timestamps.utc_now()) if is_terminal() else timestamps.format_time(cell)
    return one_line(str(cell))


def print_block(lead: str, text: str, about: str) -> None:
    """Print an item on a terminal, and an empty line.

    Args:
        lead: What stands before its text, such as a score; may be empty.
        text: Its text.
        about: What is known of it, indented below.
    """
    below = " " * (len(lead) + 2 if lead else 2)
    first = f"{paint(lead, bold=True)}  " if lead else ""
    beside = below if lead else ""
    told = "\n".join(_wrap(line, beside, beside) for line in escape_text(text).splitlines())
    click.echo(first + told[len(beside) :])
    for line in escape_text(about).splitlines():
        click.echo(paint(_wrap(line, below, below), dim=True))
    click.echo()


def paint(text: str, **style: Any) -> str:
    """Return a text in a style of `click.style`, if standard output is a terminal with colours."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in ("", "dumb")
    has_colours = is_terminal() and not is_plain
    return click.style(text, **style) if text and has_colours else text


def print_items(lines: Iterable[str]) -> None:
    """Print an indented line for each of the first twenty items, and how many more there are."""
    lines = [*lines]
    for line in lines[:_MOST_ITEMS]:
        click.echo(f"  {escape_text(line)}")
    if len(lines) > _MOST_ITEMS:
        click.echo(f"  and {len(lines) - _MOST_ITEMS:,} more: --json lists them all")


def print_text(text: str) -> None:
    """Print a text of several lines, each broken at the width of a terminal."""
    lines = escape_text(text).split("\n")
    if is_terminal():
        lines = [_wrap(line, "", " " * (len(line) - len(line.lstrip()) + 2)) for line in lines]
    click.echo("\n".join(lines))


def _wrap(line: str, first: str, rest: str) -> str:
    """Break a line at the width of the terminal, with `first` before its first part and `rest` before the others."""
    width = min(WIDEST, shutil.get_terminal_size().columns)
    if len(first) + len(line) <= width:
        return first + line
    options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}  # paths are copied
    return textwrap.fill(line, width, initial_indent=first, subsequent_indent=rest, **options)


class EscapingFormatter(logging.Formatter):
    """Formatter of log lines that are safe for a terminal: file names and errors of models are others' text."""

    def format(self, record: logging.LogRecord) -> str:
        return escape_text(super().format(record))


def print_message(text: str, *, quiet: bool = False) -> None:
    """Print a message on standard error, unless `quiet`."""
    if not quiet:
        click.echo(escape_text(text), err=True)


def print_error(text: str) -> None:
    """Print an error as one line on standard error. If that cannot be written, the exit code has to do."""
    with suppress(OSError):
        click.echo(f"reverie: {one_line(text)}", err=True)


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


@contextmanager
def show_progress(what: str, total: int | None, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Draw a progress bar on standard error, if that is a terminal.

    Args:
        what: Unit of the progress, such as `turns` or `bytes`.
        total: Total number; None if unknown.
        quiet: Whether to show nothing.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda done: None
        return
    items = itertools.count()
    with click.progressbar(items, length=total, label=what, show_pos=True, file=sys.stderr) as bar:
        yield bar.update


def format_counts(report: Any) -> str:
    """Return how many records, sessions, turns, pages and paragraphs a report has: `2 records, 1 session`."""
    numbers = ((getattr(report, f"{noun}s", 0), noun) for noun in _COUNTED)
    return ", ".join(count(number, noun) for number, noun in numbers if number) or "nothing"


def describe_turn(turn: Turn) -> str:
    """Return the content of a turn, and the tools that it calls."""
    calls = (f"[calls {call.name}({call.arguments})]" for call in turn.tool_calls)
    return "\n".join(part for part in (turn.content, *calls) if part)


def describe_content(hit: Hit) -> str:
    """Return what a hit says; for a turn also the tools that it calls."""
    return describe_turn(hit.turn) if hit.turn is not None else hit.content


def format_field(field: Any) -> str:
    """Format a field on one line: a list with commas, a table as `name: value`, truth as in JSON."""
    if isinstance(field, bool):
        return str(field).lower()
    if isinstance(field, Mapping):
        return ", ".join(
            f"{one_line(str(name)) or '-'}: {format_field(value)}" for name, value in field.items()
        )
    if isinstance(field, list):
        between = "; " if any(isinstance(each, Mapping) for each in field) else ", "
        return between.join(map(format_field, field))
    return one_line(str(field))


# -- listing --------------------------------------------------------------------------------------


Block: TypeAlias = tuple[str, str, str]
"""An item on a terminal: what stands before its text, the text, and what is known of it."""

_LONGEST = 400
_PREVIEW = 80


def print_listing(
    context: CommandContext,
    rows: Iterable[Iterable[object]],
    document: Any,
    *,
    blocks: Iterable[Block] | None = None,
    empty: str = "",
    limit: int | None = None,
) -> None:
    """Print items as JSON, as rows, or as blocks on a terminal.

    Args:
        rows: The items as rows.
        document: The items as a JSON document.
        blocks: The items as blocks; None to print the rows on a terminal too.
        empty: Message if there are no items.
        limit: Number of items listed at most. One more is given if there are more, and the message says so, unless
            the limit was asked for.
    """
    if context.as_json:
        print_json(document)
        return
    rows = list(rows)
    if blocks is not None and is_terminal():
        for block in itertools.islice(blocks, limit):
            print_block(*block)
    else:
        print_rows(rows[:limit])
    if not rows and empty:
        context.print_message(empty)
    source = click.get_current_context().get_parameter_source("limit")
    if limit is not None and len(rows) > limit and source is ParameterSource.DEFAULT:
        context.print_message(f"There are more than {limit}: --limit N lists them.")


def render_hits(hits: Sequence[Hit], question: str | None, *, explain: bool) -> Iterator[Block]:
    """Render hits with score, text, place and age; with `explain`, also the reasons."""
    now = timestamps.utc_now()
    for hit in hits:
        words = hit.explanation.matched or (question or "",)
        text = extract_excerpt(_tidy(describe_content(hit)), words, longest=_LONGEST)
        reasons = f"\n{hit.explanation}" if explain else ""
        yield "" if question is None else f"{hit.score:.2f}", text, _describe_hit(hit, now) + reasons


def render_records(records: Iterable[Record]) -> Iterator[Block]:
    """Render a list of records."""
    now = timestamps.utc_now()
    for record in records:
        text = extract_excerpt(_tidy(record.content), [], longest=_LONGEST)
        yield "", text, _describe_record(record, now)


def render_turns(turns: Iterable[Turn]) -> Iterator[Block]:
    """Render a conversation, each turn below its speaker, time and id."""
    for turn in turns:
        speaker = one_line(turn.speaker or turn.role)
        yield "", f"{speaker} · {turn.at:%Y-%m-%d %H:%M:%S} · {turn.id}", describe_turn(turn)


def preview_change(change: Mapping[str, Any]) -> str:
    """Return the beginning of the text of the item that was changed; empty if it has none."""
    value = change["after"] or change["before"] or {}
    text = next((value[name] for name in ("content", "summary", "data") if value.get(name)), "")
    return extract_excerpt(one_line(text), [], longest=_PREVIEW)


def render_changes(changes: Iterable[Mapping[str, Any]]) -> Iterator[Block]:
    """Render a list of changes: what was changed with its first words, and below it when, by whom and why."""
    for each in changes:
        when = str(each["at"])[:19].replace("T", " ")
        what = f"{each['change']} {each['subject']} {one_line(each['id'] or '')}"
        if text := preview_change(each):
            what += f": {text}"
        about = (when, *(one_line(each[name]) for name in ("actor", "operation", "reference", "note")))
        yield str(each["sequence"]), what, " · ".join(filter(None, about))


def _describe_hit(hit: Hit, now: datetime) -> str:
    if hit.record is not None:
        return _describe_record(hit.record, now)
    facts = [hit.id]
    if hit.session is not None:
        facts = [hit.session.id, hit.session.status]
    elif hit.paragraph is not None:
        facts.append(hit.paragraph.page)
    elif hit.turn is not None:
        facts += [hit.turn.speaker or hit.turn.role, f"{hit.turn.session}#{hit.turn.position}"]
    return " · ".join([*map(one_line, facts), format_age(hit.at, now)])


def describe_state(record: Record, now: datetime) -> list[str]:
    """Return the reasons why a record does not simply hold; none if it does."""
    marks = []
    since = f" from {record.valid_from:%Y-%m-%d}" if record.valid_from and record.valid_from > now else ""
    is_over = has_ended(record, now)
    end = get_end(record) if is_over else record.valid_to
    until = f" until {end:%Y-%m-%d}" if end else ""
    if since or until:
        marks.append(f"{'held' if is_over else 'holds'}{since}{until}")
    if record.perhaps_replaced_by:
        marks.append(f"perhaps outdated, see {record.perhaps_replaced_by}")
    if record.archived:
        marks.append("archived" + (f" ({one_line(record.archive_reason)})" if record.archive_reason else ""))
    elif record.expires_at is not None and record.expires_at <= now:
        marks.append("expired")
    return marks


def add_state(cells: Sequence[object], record: Record | None) -> Sequence[object]:
    """Return the cells of a record in a pipe, with one more if it does not simply hold."""
    state = "" if record is None else ", ".join(describe_state(record, timestamps.utc_now()))
    return [*cells, state] if state else cells


def _describe_record(record: Record, now: datetime) -> str:
    marks = [record.kind, record.category or "", *(f"#{one_line(tag)}" for tag in record.tags)]
    marks.append(format_age(record.updated_at, now))
    if record.seen_count > 1:
        marks.append(f"seen {record.seen_count} times")
    if record.pinned:
        marks.append("pinned")
    marks += describe_state(record, now)
    return " · ".join([record.id, *filter(None, marks)])


def _tidy(text: str) -> str:
    """Return a text without blank lines."""
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())
