"""Commands of maintenance: `init`, `check`, `store`, `doctor`, `embed` and `stats`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import click

from reverie.domain.errors import InvalidInput, NotFound, StoreCorrupt, StoreIncompatible
from reverie.domain.scope import EVERY_SCOPE
from reverie.domain.text.json_values import to_json_object, to_json_value
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import CommandContext, ExitCode, command, scope_option

if TYPE_CHECKING:
    from reverie.admin.doctor import Diagnosis
    from reverie.admin.stats import ScopeStats, Stats


@command(json=True)
@click.option(
    "--files", type=click.Choice(["pages", "records"]), help="A page for each category, or a JSON file each."
)
def init(context: CommandContext, /, files: Literal["pages", "records"] | None) -> None:
    """Create a memory in the folder, if there is none, and choose its readable files.

    With --json: {"folder": text}.
    """
    with context.memory(create=True, files=files):
        folder = context.describe_place()
    context.print_result(f"Ready: {folder}", {"folder": folder})


@command(json=True)
def check(context: CommandContext, /) -> None:
    """Check the database for errors; exits with 1 if there are any.

    With --json: {"sound": true or false, "problems": [{"what", "fix"}]}.
    """
    with context.memory() as memory:
        problems = memory.admin.check()
    text = "\n".join(f"{problem.what}\n  {problem.fix}" for problem in problems)
    document = {"sound": not problems, "problems": problems}
    context.print_result(text or f"Sound: {context.describe_place()}", document, brief=text)
    if problems:
        raise click.exceptions.Exit(ExitCode.NOTHING)


@command(json=True)
@click.argument("action", type=click.Choice(["create", "upgrade", "remove"]))
@click.argument("url", metavar="URL")
@click.option("--yes", is_flag=True, help="Remove without asking for confirmation.")
def store(context: CommandContext, /, action: str, url: str, yes: bool) -> None:
    """Create, upgrade or remove a memory in PostgreSQL.

    URL is such as postgresql://host/database?memory=acme. `create` creates the tables and the memory if they are
    missing, `upgrade` brings the tables of an older Reverie up to date. `remove` erases the memory with everything
    in it, and lists where the server still keeps it for a while. `reverie check --store URL` looks for errors.

    With --json: {"store": text, "made": true or false}, for remove {"store": text, "pending": [text]}.
    """
    from reverie.stores.postgres.connections import parse_postgres_url
    from reverie.stores.postgres.copying import prepare_database
    from reverie.stores.postgres.schema import open_space, remove_space

    address = parse_postgres_url(url)
    if action != "remove":
        shown = address.shown if action == "create" else address.database
        made = prepare_database(url, create=action == "create")
        text = f"Ready: {shown}{', with new tables' if made else ''}"
        context.print_result(text, {"store": shown, "made": made})
        return
    if address.is_whole_database:
        raise InvalidInput("The PostgreSQL address names no memory. Add `memory=` with its name.")
    open_space(address, create=False)  # before the question
    if not yes:
        question = f"Remove {address.shown} with everything in it? It cannot be undone."
        context.confirm(question, refused="Nothing was removed.")
    pending = remove_space(address)
    text = "\n  ".join([f"Removed: {address.shown}. The server keeps it for a while in", *pending])
    context.print_result(text, {"store": address.shown, "pending": pending})


@command(json=True)
def embed(context: CommandContext, /) -> None:
    """Compute the vectors of everything that has none yet, such as after an import.

    Searches do the same for a few seconds each; a server does it in the background.

    With --json: {"embedder": text, "state": text, "ready": number, "waiting": number, "problem": text}.
    """
    with context.memory() as memory:
        status = memory.admin.embed()
    if status.waiting:
        missing = f"{output.count(status.waiting, 'text')} without a vector yet: {status.problem}"
        context.print_result(missing, status, brief=missing)
        raise click.exceptions.Exit(ExitCode.NOTHING)
    ready = output.count(status.ready, "text")
    context.print_result(f"{ready} with a vector by {status.embedder}", status)


_OPTIONAL = ("vectors", "server")


@command(as_of=True, json=True)
@scope_option("Count only what this scope sees, such as user:alice.", default=None)
def stats(context: CommandContext, /, scope: str | None) -> None:
    """Show statistics: records, turns, sessions, pages, changes, bytes and the state of the search index.

    With --json: {"folder": text, "records", "archived", "turns", "sessions", "pages", "paragraphs", "journal"
    and "bytes_on_disk": numbers, "by_kind", "by_category" and "failed": {"name": number}, "index": {…}, with
    an embedder "vectors": {…}, in a database "server": {…}}; with --scope only "records", "archived", "turns",
    "sessions", "by_kind", "by_category".
    """
    from reverie.memory import Memory

    with context.reading() as memory:
        counted: Stats | ScopeStats
        if scope not in (None, EVERY_SCOPE):
            counted = memory.scoped(scope).stats()
        else:
            counted = memory.admin.stats() if isinstance(memory, Memory) else memory.total_stats()
    numbers = to_json_value(counted)
    numbers = {name: value for name, value in numbers.items() if value is not None or name not in _OPTIONAL}
    if "path" in numbers:
        numbers = {"folder": numbers.pop("path") or context.describe_place(), **numbers}
    rows = ((name, output.format_field(value) or "-") for name, value in numbers.items())
    output.print_listing(context, rows, numbers)


# -- doctor ---------------------------------------------------------------------------------------


_CANNOT_OPEN = (NotFound, StoreCorrupt, StoreIncompatible)
_UNREADABLE = ("database-missing", "database-foreign", "database-damaged")


@command(json=True)
@click.option("--fix", is_flag=True, help="Repair what can be repaired automatically, and check again.")
def doctor(context: CommandContext, /, fix: bool) -> None:
    """Diagnose the memory: compare database, journal, search index and files.

    With --fix, a damaged database is replaced by a copy of everything in it that can be read. The damaged
    one is kept next to it.

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
    from reverie.admin.doctor import diagnose_unopened, repair_unopened
    from reverie.memory import is_database

    try:
        with context.memory() as memory:
            return memory.admin.doctor(fix=fix)
    except _CANNOT_OPEN as error:
        if is_database(context.resolve_store_option()):
            raise
        folder = context.resolve_folder()
        if not fix or isinstance(error, NotFound):
            return diagnose_unopened(folder, error)
    try:
        repaired, notes = repair_unopened(folder)
    except _CANNOT_OPEN as failure:
        return diagnose_unopened(folder, failure)
    with context.memory() as memory:
        diagnosis = memory.admin.doctor(fix=True)
    done, findings = (repaired, *diagnosis.repaired), (*notes, *diagnosis.findings)
    return replace(diagnosis, repaired=done, findings=findings)


def _print(context: CommandContext, diagnosis: Diagnosis, *, fix: bool) -> None:
    """Print each finding with its severity or `repaired`, its code, what it is and what to do, and the verdict."""
    findings = [("repaired", finding, "") for finding in diagnosis.repaired]
    for each in diagnosis.findings:
        advice = "`reverie doctor --fix` repairs this" if each.remedy and not fix else each.fix
        findings.append((each.severity, each, advice))
    rows = ((mark, each.code, each.what, each.fix if advice else "") for mark, each, advice in findings)
    blocks = ((mark, each.what, advice) for mark, each, advice in findings)
    output.print_listing(context, rows, {"sound": diagnosis.sound} | to_json_object(diagnosis), blocks=blocks)
    if not (context.quiet or context.as_json) and (diagnosis.sound or output.is_terminal()):
        counts = ", ".join(output.count(number, name[:-1]) for name, number in diagnosis.checked.items())
        verdict = "Sound" if diagnosis.sound else "Not sound"
        click.echo(f"{verdict}. Checked {counts}." if counts else f"{verdict}.")
