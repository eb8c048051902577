"""Lists of results: JSON, rows in a pipe, or indented texts on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from click.core import ParameterSource

from reverie.domain.filter import has_ended
from reverie.domain.text import timestamps
from reverie.interfaces.cli import output
from reverie.interfaces.cli.output import extract_excerpt, format_age, one_line

if TYPE_CHECKING:
    from reverie.domain.conversation import Turn
    from reverie.domain.record import Record
    from reverie.interfaces.cli.options import CommandContext
    from reverie.search.hits import Hit

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
) -> None:
    """Print items as JSON, as rows, or as blocks on a terminal.

    Args:
        rows: The items as rows.
        document: The items as a JSON document.
        blocks: The items as blocks; None to print the rows on a terminal too.
        empty: Message if there are no items.
    """
    if context.as_json:
        output.print_json(document)
        return
    rows = list(rows)
    if blocks is not None and output.is_terminal():
        for block in blocks:
            output.print_block(*block)
    else:
        output.print_rows(rows)
    if empty and not rows:
        context.print_message(empty)


def report_cut(context: CommandContext, count: int, limit: int) -> None:
    """Tell that a list was cut by a limit that was not asked for.

    Args:
        count: Number of items found, at most one above the limit.
        limit: Number of items listed at most.
    """
    source = click.get_current_context().get_parameter_source("limit")
    if count > limit and source is ParameterSource.DEFAULT:
        context.print_message(f"There are more than {limit}: --limit N lists them.")


def render_hits(hits: Sequence[Hit], question: str | None, *, explain: bool) -> Iterator[Block]:
    """Render hits with score, text, place and age; with `explain`, also the reasons."""
    now = timestamps.utc_now()
    for hit in hits:
        words = output.list_matched_words(hit, question) or [question or ""]
        text = extract_excerpt(_tidy(output.describe_content(hit)), words, longest=_LONGEST)
        about = _describe_hit(hit, now)
        if explain:
            about += f"\n{output.explain_hit(hit, question)}"
        yield "" if question is None else f"{hit.score:.2f}", text, about


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
        yield "", f"{speaker} · {turn.at:%Y-%m-%d %H:%M:%S} · {turn.id}", output.describe_turn(turn)


def render_changes(changes: Iterable[Mapping[str, Any]]) -> Iterator[Block]:
    """Render a list of changes: what was changed with its first words, and below it when, by whom and why."""
    for each in changes:
        when = str(each["at"])[:19].replace("T", " ")
        what = f"{each['change']} {each['subject']} {one_line(each['id'] or '')}"
        if content := (each["after"] or each["before"] or {}).get("content"):
            what += f": {extract_excerpt(one_line(content), [], longest=_PREVIEW)}"
        about = (when, *(one_line(each[name]) for name in ("actor", "operation", "reference", "note")))
        yield str(each["sequence"]), what, " · ".join(filter(None, about))


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
    since = f" from {record.valid_from:%Y-%m-%d}" if record.valid_from and record.valid_from > now else ""
    until = f" until {record.valid_to:%Y-%m-%d}" if record.valid_to else ""
    if since or until:
        marks.append(f"{'held' if has_ended(record, now) else 'holds'}{since}{until}")
    if record.perhaps_replaced_by:
        marks.append(f"perhaps outdated, see {record.perhaps_replaced_by}")
    if record.archived:
        marks.append("archived" + (f" ({one_line(record.archive_reason)})" if record.archive_reason else ""))
    return " · ".join([record.id, *filter(None, marks)])


def _describe_turn(turn: Turn, now: datetime) -> str:
    where = f"{one_line(turn.session)}#{turn.position}"
    return " · ".join((turn.id, one_line(turn.speaker or turn.role), where, format_age(turn.at, now)))


def _tidy(text: str) -> str:
    """Return a text without blank lines."""
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())
