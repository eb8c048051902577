"""The command `doctor`: compare the copies of everything stored, and repair them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from reverie.domain.errors import NotFound, ReverieError, StoreCorrupt, StoreIncompatible
from reverie.domain.text.json_values import to_json_object
from reverie.interfaces.cli import listing, output
from reverie.interfaces.cli.options import CommandContext, ExitCode, command

if TYPE_CHECKING:
    from reverie.admin.doctor import Diagnosis

_CANNOT_OPEN = (NotFound, StoreCorrupt, StoreIncompatible)
_UNREADABLE = ("database-missing", "database-foreign", "database-damaged")


@command(json=True)
@click.option("--fix", is_flag=True, help="Repair what can be repaired automatically, and check again.")
def doctor(context: CommandContext, /, fix: bool) -> None:
    """Diagnose the memory: compare database, journal, search index and files.

    With --fix, a damaged database is replaced by a copy of everything in it that can be read. The damaged
    one is kept beside it.

    Exits with 1 if there are findings, or if --fix could not read all content of a damaged database. Also
    works on a database that cannot be opened; the exit code is then 5. Never prints stored content.

    With --json: {"sound": true or false, "findings": [{"code", "part", "severity", "what", "fix",
    "remedy", "about"}], "repaired": [the same], "checked": {"name": number}}.
    """
    diagnosis = _run_diagnosis(context, fix=fix)
    _print(context, diagnosis, fix=fix)
    if any(finding.code in _UNREADABLE for finding in diagnosis.findings):
        raise click.exceptions.Exit(ExitCode.CORRUPT)
    if not diagnosis.sound:
        raise click.exceptions.Exit(ExitCode.NOTHING)


def _run_diagnosis(context: CommandContext, *, fix: bool) -> Diagnosis:
    try:
        with context.memory() as memory:
            return memory.admin.doctor(fix=fix)
    except _CANNOT_OPEN as error:
        return _diagnose_unopened(context, error, fix=fix)


def _diagnose_unopened(context: CommandContext, error: ReverieError, *, fix: bool) -> Diagnosis:
    from reverie.admin.doctor import diagnose_unopened, repair_unopened
    from reverie.memory import is_database

    if is_database(context.resolve_store_option()):
        raise error
    folder = context.resolve_folder()
    if not fix or isinstance(error, NotFound):
        return diagnose_unopened(folder, error)
    try:
        repaired, notes = repair_unopened(folder)
    except _CANNOT_OPEN as failure:
        return diagnose_unopened(folder, failure)
    with context.memory() as memory:
        diagnosis = memory.admin.doctor(fix=True)
    return replace(
        diagnosis, repaired=(repaired, *diagnosis.repaired), findings=(*notes, *diagnosis.findings)
    )


def _print(context: CommandContext, diagnosis: Diagnosis, *, fix: bool) -> None:
    """Print each finding with its severity or `repaired`, its code, what it is and what to do, and the verdict."""
    findings = [("repaired", finding, "") for finding in diagnosis.repaired]
    for finding in diagnosis.findings:
        advice = "`reverie doctor --fix` repairs this" if finding.remedy and not fix else finding.fix
        findings.append((finding.severity, finding, advice))
    listing.print_listing(
        context,
        (
            (mark, finding.code, finding.what, finding.fix if advice else "")
            for mark, finding, advice in findings
        ),
        {"sound": diagnosis.sound} | to_json_object(diagnosis),
        blocks=((mark, finding.what, advice) for mark, finding, advice in findings),
    )
    if not (context.quiet or context.as_json) and (diagnosis.sound or output.is_terminal()):
        counts = ", ".join(output.count(number, name[:-1]) for name, number in diagnosis.checked.items())
        verdict = "Sound" if diagnosis.sound else "Not sound"
        click.echo(f"{verdict}. Checked {counts}." if counts else f"{verdict}.")
