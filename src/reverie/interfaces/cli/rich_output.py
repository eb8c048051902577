"""Output on a terminal, drawn with rich; not imported when output is piped.

Stored content is escaped by `output.escape_text` first and never interpreted as rich's markup. Colours add no
meaning, so that nothing is lost with NO_COLOR.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from reverie.domain.text import timestamps
from reverie.interfaces.cli.output import (
    describe_content,
    describe_turn,
    escape_text,
    extract_excerpt,
    format_age,
    format_field,
    format_size,
    list_matched_words,
    one_line,
)

if TYPE_CHECKING:
    from reverie.domain.conversation import Turn
    from reverie.domain.record import Record
    from reverie.search.hits import Hit

WIDEST = 120
"""Maximum columns: longer lines are hard to read."""

_BAR = 10
_BONUSES = ("kind",)
"""Parts of a score that are added to it; they are no shares of a whole and get no bar."""

_LONGEST = 400
_ACCENT = "cyan"
_QUIET = "dim"
_ADDED, _REMOVED = "green", "red"


def create_console() -> Console:
    """Create a console for standard output, at most `WIDEST` columns wide."""
    out = Console(highlight=False)
    if out.width > WIDEST:
        out.width = WIDEST
    return out


def print_hits(hits: Sequence[Hit], question: str | None, *, explain: bool = False) -> None:
    """Print hits with score, text, place and age; with `explain`, also the reasons."""
    out, now = create_console(), timestamps.utc_now()
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(ratio=1)
    for hit in hits:
        words = list_matched_words(hit, question) or [question or ""]
        shown = extract_excerpt(_tidy(describe_content(hit)), words, longest=_LONGEST)
        lines: list[RenderableType] = [Text(shown), Text(_describe_hit(hit, now), style=_QUIET)]
        if explain:
            lines.append(render_reasons(hit, question, width=out.width - 8))
        score = Text("" if question is None else f"{hit.score:.2f}", style=f"bold {_ACCENT}")
        grid.add_row(score, Padding(Group(*lines), (0, 0, 1, 0)))
    out.print(grid)


def render_reasons(hit: Hit, question: str | None, *, width: int) -> RenderableType:
    """Render the matched words, each part of the score as a bar, and the evidence."""
    why = hit.explanation
    lines: list[RenderableType] = []
    if why.matched:
        lines.append(
            Text.assemble(
                ("matched  ", _QUIET), (one_line(", ".join(list_matched_words(hit, question))), _ACCENT)
            )
        )
    if why.note:
        lines.append(Text(one_line(why.note), style=_QUIET))
    if shares := {name: value for name, value in why.parts.items() if name not in _BONUSES}:
        lines.append(_render_bars(shares, width=width))
    last = [f"the {name} adds {why.parts[name]:.2f}" for name in _BONUSES if name in why.parts]
    if why.evidence:
        evidence = ", ".join(f"{name} {value:.2f}" for name, value in why.evidence.items())
        last.insert(0, f"relevance is made of {evidence}")
    lines.append(Text("; ".join(last), style=_QUIET))
    return Group(*lines)


def render_bar(share: float) -> Text:
    """Render a share of 0 to 1 as a bar of ten characters."""
    filled = min(_BAR, max(0, round(share * _BAR)))
    return Text.assemble(("━" * filled, _ACCENT), ("╌" * (_BAR - filled), _QUIET))


def _render_bars(parts: Mapping[str, float], *, width: int) -> RenderableType:
    longest = max(map(len, parts))
    columns = max(1, width // (longest + _BAR + 9))
    grid = Table.grid(padding=(0, 3))
    cells = [
        Text.assemble(name.ljust(longest), " ", render_bar(value), f" {value:.2f}")
        for name, value in parts.items()
    ]
    for start in range(0, len(cells), columns):
        grid.add_row(*cells[start : start + columns])
    return grid


def _describe_hit(hit: Hit, now: datetime) -> str:
    if hit.record is not None:
        return _describe_record(hit.record, now)
    if hit.session is not None:
        return " · ".join((one_line(hit.session.id), hit.session.status, format_age(hit.at, now)))
    if hit.paragraph is not None:
        return " · ".join((hit.id, one_line(hit.paragraph.page), format_age(hit.at, now)))
    return _describe_turn(hit.turn, now) if hit.turn is not None else ""


def _describe_record(record: Record, now: datetime) -> str:
    marks = [record.kind, record.category or "", *(f"#{one_line(tag)}" for tag in record.tags)]
    marks.append(format_age(record.updated_at, now))
    if record.seen_count > 1:
        marks.append(f"seen {record.seen_count} times")
    if record.pinned:
        marks.append("pinned")
    if record.valid_to is not None:
        word = "held" if record.valid_to <= now else "holds"
        marks.append(f"{word} until {record.valid_to:%Y-%m-%d}")
    if record.archived:
        marks.append("archived" + (f" ({one_line(record.archive_reason)})" if record.archive_reason else ""))
    return " · ".join([record.id, *filter(None, marks)])


def _describe_turn(turn: Turn, now: datetime) -> str:
    where = f"{one_line(turn.session)}#{turn.position}"
    return " · ".join((turn.id, one_line(turn.speaker or turn.role), where, format_age(turn.at, now)))


def _tidy(text: str) -> str:
    """Return a text without blank lines, safe for a terminal."""
    return "\n".join(line.rstrip() for line in escape_text(text).splitlines() if line.strip())


def print_turns(turns: Iterable[Turn]) -> None:
    """Print a conversation, each turn below its speaker, time and id."""
    out = create_console()
    for turn in turns:
        speaker = one_line(turn.speaker or turn.role)
        about = f" · {turn.at:%Y-%m-%d %H:%M:%S} · {turn.id}"
        out.print(Text.assemble((speaker, f"bold {_ACCENT}"), (about, _QUIET)))
        out.print(Padding(Text(escape_text(describe_turn(turn))), (0, 0, 1, 2)))


def print_records(records: Iterable[Record]) -> None:
    """Print a list of records."""
    out, now = create_console(), timestamps.utc_now()
    for record in records:
        out.print(Text(extract_excerpt(_tidy(record.content), [], longest=_LONGEST)))
        out.print(Padding(Text(_describe_record(record, now), style=_QUIET), (0, 0, 1, 0)))


def print_sheet(kind: str, value: Mapping[str, Any]) -> None:
    """Print all fields of a record, turn or paragraph that have a value."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style=_QUIET, no_wrap=True)
    grid.add_column()
    for name, field in value.items():
        if name not in ("id", "content") and field not in (None, "", [], {}):
            grid.add_row(name.replace("_", " "), Text(format_field(field)))
    body = Group(Text(escape_text(value["content"])), Text(), grid) if value["content"] else grid
    create_console().print(
        Panel(
            body,
            title=Text(f"{kind} {value['id']}"),
            title_align="left",
            box=box.ROUNDED,
            border_style=_QUIET,
        )
    )


def print_counts(counts: Mapping[str, int]) -> None:
    """Print names with numbers, and bars that compare them."""
    most = max(counts.values())
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right")
    for name, number in counts.items():
        grid.add_row(Text(f"{number:,}"), render_bar(number / most), Text(one_line(name) or "(none)"))
    create_console().print(grid)


def print_table(rows: Iterable[Iterable[object]], *, columns: Sequence[str]) -> None:
    """Print rows under the names of their columns; times are shown as ages."""
    now = timestamps.utc_now()
    table = _create_table(*columns)
    for row in rows:
        table.add_row(*(_format_cell(cell, now) for cell in row))
    create_console().print(table)


def _format_cell(cell: object, now: datetime) -> Text:
    if isinstance(cell, datetime):
        return Text(format_age(cell, now))
    return Text(f"{cell:,}" if isinstance(cell, int) else one_line(str(cell)))


def print_history(changes: Iterable[Mapping[str, Any]]) -> None:
    """Print a list of changes: what was changed, and below it when, by whom and why."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", no_wrap=True, style=f"bold {_ACCENT}")
    grid.add_column(ratio=1)
    for each in changes:
        when = str(each["at"])[:19].replace("T", " ")
        what = f"{each['change']} {each['subject']} {one_line(each['id'] or '')}"
        about = (when, one_line(each["actor"]), one_line(each["reason"]))
        grid.add_row(
            str(each["sequence"]), Group(Text(what), Text(" · ".join(filter(None, about)), style=_QUIET))
        )
    create_console().print(grid)


def print_account(text: str) -> None:
    """Print lines, with additions and removals in colour."""
    drawn = Text()
    for line in escape_text(text).split("\n"):
        mark = line.lstrip()[:2].rstrip()
        drawn.append(f"{line}\n", style={"+": _ADDED, "-": _REMOVED, "…": _QUIET}.get(mark, ""))
    create_console().print(drawn, end="")


def print_stats(numbers: Mapping[str, Any]) -> None:
    """Print statistics; nested values share a line."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style=_QUIET, no_wrap=True)
    grid.add_column()
    for name, value in numbers.items():
        if isinstance(value, Mapping):
            shown_values = [(key, each) for key, each in value.items() if each not in ("", None)]
            shown = " · ".join(
                f"{one_line(key) or '(none)'} {_format_number(key, each)}" for key, each in shown_values
            )
        else:
            shown = _format_number(name, value)
        grid.add_row(name.replace("_", " "), Text(shown or "-"))
    create_console().print(grid)


def _format_number(name: str, value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, int):
        return format_size(value) if name.startswith("bytes") else f"{value:,}"
    return one_line(str(value))


def _create_table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style=_QUIET, show_edge=False)
    for name in columns:
        numeric = name in ("turns", "change")
        table.add_column(
            name, justify="right" if numeric else "left", no_wrap=numeric or name in ("when", "id")
        )
    return table
