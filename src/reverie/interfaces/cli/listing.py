"""Results as JSON, as rows in a pipe, or formatted by `rich_output` on a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import click

from reverie.interfaces.cli import output


def print_listing(
    kind: str,
    items: Collection[Any],
    *,
    as_json: Any,
    rows: Iterable[Iterable[object]] | None = None,
    empty: str = "",
    quiet: bool = False,
    **options: Any,
) -> None:
    """Print items as JSON, formatted on a terminal, or as rows in a pipe.

    Args:
        kind: What `rich_output` formats, such as `records`: its function is `print_records`.
        items: The items; for a `table`, its rows.
        as_json: JSON document to print instead; None for no JSON.
        rows: The items as rows; default the items.
        empty: Message if there are no items.
        quiet: Whether to leave the message out.
        options: Further arguments of the function of `rich_output`.
    """
    if as_json is not None:
        output.print_json(as_json)
        return
    if items and output.is_terminal():
        from reverie.interfaces.cli import rich_output

        getattr(rich_output, f"print_{kind}")(items, **options)
    else:
        output.print_rows(items if rows is None else rows)
    if empty and not items:
        output.print_message(empty, quiet=quiet)


def print_text(text: str) -> None:
    """Print a text; on a terminal, its added and removed lines are coloured."""
    if output.is_terminal():
        from reverie.interfaces.cli import rich_output

        rich_output.print_account(text)
    else:
        click.echo(output.escape_text(text))
