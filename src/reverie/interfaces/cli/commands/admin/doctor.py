"""The command `doctor`: compare the copies of everything stored, and repair them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from reverie.domain.errors import NotFound, ReverieError, StoreCorrupt, StoreIncompatible
from reverie.domain.text.json_values import to_json_object
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import Command, CommandContext, ExitCode, as_json, invocation

if TYPE_CHECKING:
    from reverie.admin.doctor import Diagnosis, Finding

_CANNOT_OPEN = (NotFound, StoreCorrupt, StoreIncompatible)
_COLOURS = {"error": "red", "warning": "yellow", "note": "blue", "repaired": "green"}
_WIDTH = max(map(len, _COLOURS)) + 2


@click.command(cls=Command)
@click.option("--fix", is_flag=True, help="Repair what can be repaired automatically, and check again.")
@as_json
@invocation
def doctor(context: CommandContext, /, fix: bool, as_json: bool) -> None:
    """Diagnose the memory: compare database, journal, search index and files.

    Exits with 1 if there are findings. Also works on a database that cannot be opened; the exit code is
    then 5. Never prints stored content.

    With --json: {"sound": true or false, "findings": [{"code", "part", "severity", "what", "fix",
    "remedy", "about"}], "repaired": [the same], "checked": {"name": number}}.
    """
    diagnosis, opened = _run_diagnosis(context, fix=fix)
    if as_json:
        output.print_json(_to_plain(diagnosis))
    elif output.is_terminal():
        _draw(diagnosis, fix=fix, quiet=context.quiet)
    else:
        _list(diagnosis, quiet=context.quiet)
    if not diagnosis.sound:
        raise click.exceptions.Exit(ExitCode.NOTHING if opened else ExitCode.CORRUPT)


def _run_diagnosis(context: CommandContext, *, fix: bool) -> tuple[Diagnosis, bool]:
    """Return the findings, and whether the memory could be opened."""
    with contextlib.ExitStack() as stack:
        try:
            memory = stack.enter_context(context.memory())
        except _CANNOT_OPEN as error:
            return _diagnose_unopened(context, error), False
        try:
            return memory.admin.doctor(fix=fix), True
        except StoreCorrupt as error:  # the rest of the database cannot be read
            return _diagnose_unopened(context, error), False


def _diagnose_unopened(context: CommandContext, error: ReverieError) -> Diagnosis:
    from reverie.admin.doctor import diagnose_unopened
    from reverie.memory import is_database, resolve_folder

    if is_database(context.resolve_store_option()):
        raise error
    diagnosis = diagnose_unopened(resolve_folder(context.resolve_store_option()), error)
    if diagnosis is None:
        raise error
    return diagnosis


def _to_plain(diagnosis: Diagnosis) -> dict[str, Any]:
    return {"sound": diagnosis.sound} | to_json_object(diagnosis)


def _list(diagnosis: Diagnosis, *, quiet: bool) -> None:
    """Print a line for each finding: severity or `repaired`, code, finding, remedy."""
    for finding in diagnosis.repaired:
        output.print_row("repaired", finding.code, finding.what, "")
    for finding in diagnosis.findings:
        output.print_row(finding.severity, finding.code, finding.what, finding.fix)
    if diagnosis.sound and not quiet:
        click.echo(_format_verdict(diagnosis))


def _draw(diagnosis: Diagnosis, *, fix: bool, quiet: bool) -> None:
    for finding in diagnosis.repaired:
        _print_lines("repaired", [finding.what])
    for finding in diagnosis.findings:
        _print_lines(finding.severity, [finding.what, _format_advice(finding, fix=fix)])
    if not quiet:
        click.echo(_format_verdict(diagnosis))


def _format_verdict(diagnosis: Diagnosis) -> str:
    counts = ", ".join(output.count(number, name[:-1]) for name, number in diagnosis.checked.items())
    verdict = "Sound" if diagnosis.sound else "Not sound"
    return f"{verdict}. Checked {counts}." if counts else f"{verdict}."


def _print_lines(mark: str, lines: Sequence[str]) -> None:
    for n, line in enumerate(lines):
        head = click.style(mark.ljust(_WIDTH), fg=_COLOURS[mark]) if n == 0 else " " * _WIDTH
        click.echo(head + output.escape_text(line))


def _format_advice(finding: Finding, *, fix: bool) -> str:
    return "`reverie doctor --fix` repairs this" if finding.remedy and not fix else finding.fix
