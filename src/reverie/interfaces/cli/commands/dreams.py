"""Commands on background work: `dream`, `model`, `review` and `worker`."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from reverie.consolidation.gatherer import DREAM
from reverie.domain.errors import (
    Conflict,
    InvalidInput,
    ModelUnavailable,
    NotFound,
    ReverieError,
    StoreIncompatible,
)  # fmt: skip
from reverie.domain.text.json_values import to_json_object
from reverie.domain.text.timestamps import utc_now
from reverie.interfaces.cli import options, output
from reverie.interfaces.cli.commands.mcp import log_to_stderr
from reverie.interfaces.cli.options import CommandContext, command

if TYPE_CHECKING:
    from reverie.consolidation.inbox import PassOutcome, Verdict
    from reverie.domain.record import Record
    from reverie.stores.postgres.connections import PostgresAddress
    from reverie.stores.postgres.work import WorkQueue


_USAGE = ("requests", "input_tokens", "output_tokens", "cost")


@command(json=True)
@options.repeated_option("--pass", "passes", type=click.Choice(DREAM), help="Run only this pass")
@options.MODEL
@click.option("--dry-run", is_flag=True, help="Show the plans without applying them.")
def dream(context: CommandContext, /, passes: tuple[str, ...], model: str | None, dry_run: bool) -> None:
    """Consolidate records: enrich, verify, tidy, preferences, promote.

    Without a model, records are only promoted by rule. Every change is checked; at most 2 % of the records, or three,
    are archived. The last line has the cost of the month. `reverie undo --batch NUMBER` undoes the changes of a pass,
    and `reverie history --actor dream` lists those of past dreams.

    With --json: {"passes": [{"pass", "state", "why", "batch", "changes": [{"why", "sources", "before",
    "after"}], "refused": [{"what", "why"}], "notes", "usage"}], "month"}.
    """
    with context.memory(model=model) as memory:
        run = memory.dreams.run(passes or DREAM, dry_run=dry_run)
        usage, limit = memory.dreams.usage(), memory.settings.monthly_tokens
    if run.busy:
        raise Conflict("Another process is dreaming in this folder. Try again when it has finished.")
    if context.as_json:
        month = to_json_object(usage, "month", *_USAGE)
        output.print_json({"passes": [_serialize_outcome(each) for each in run.outcomes], "month": month})
        return
    for each in run.outcomes:
        if each.name == "enrich" and each.state == "skipped" and len(passes) != 1:
            continue  # usually there are no rough notes or no model
        click.echo(output.escape_text(_format_headline(each)))
        if not context.quiet:
            for line in each.plan.lines():
                click.echo(output.escape_text(f"  {line}"))
    if usage.requests:
        click.echo(f"{usage}" + ("" if limit is None else f" of {limit:,}"))


def _format_headline(outcome: PassOutcome) -> str:
    if outcome.state == "failed":
        return f"{outcome.name}: failed, will be retried: {outcome.why}"
    if outcome.state == "skipped":
        return f"{outcome.name}: {outcome.why}"
    changes = output.count(len(outcome.plan.steps), "change")
    if outcome.batch is None:
        return f"{outcome.name}: would make {changes}"
    return f"{outcome.name}: {changes}; undo with `reverie undo --batch {outcome.batch}`"


def _serialize_outcome(outcome: PassOutcome) -> dict[str, Any]:
    plan = outcome.plan
    steps = [
        to_json_object(step, "why", "sources") | to_json_object(step.edit, "before", "after")
        for step in plan.steps
    ]
    return {
        "pass": outcome.name,
        **to_json_object(outcome, "state", "why", "batch"),
        "changes": steps,
        **to_json_object(plan, "refused", "notes"),
        "usage": to_json_object(plan.usage, *_USAGE),
    }


# -- models ---------------------------------------------------------------------------------------


@command("model", json=True)
@click.argument("action", type=click.Choice(["check"]))
@options.MODEL
def check_model(context: CommandContext, /, action: str, model: str | None) -> None:
    """Examine the model of background thinking with forty fixed claims, and store the result.

    Half of the claims are wrong. A model passes if it supports at most one of these, and at least fifteen of the
    others. A model that passes is believed if a dream can make no controls of its claims. The exam costs four requests.

    With --json: {"model", "at", "is_passed", "rows": [{"kind", "right", "accepted", "wrong", "believed"}], "usage"}.
    """
    with context.memory(model=model) as memory:
        report = memory.dreams.check_model()
    if report.failed:
        raise ModelUnavailable(f"The exam of {report.model!r} stopped. {report.failed}. Try again later.")
    rows: list[tuple[str, ...]] = [("claims", "right", "supported", "wrong", "supported")]
    rows += [(r.kind, *map(str, (r.right, r.accepted, r.wrong, r.believed))) for r in report.rows]
    document = to_json_object(report, "model", "at", "is_passed", "rows")
    output.print_listing(context, rows, document | {"usage": to_json_object(report.usage, *_USAGE)})
    if not context.as_json:
        verdict = "passed: it is trusted" if report.is_passed else "failed: its wording is not shown"
        context.print_message(f"{report.model} {verdict}.")


# -- review ---------------------------------------------------------------------------------------


_LONGEST = 300  # characters of a turn


@command(json=True)
@click.argument("id", required=False)
@click.option("--accept", "verdict", flag_value="accept", help="Make it a memory.")
@click.option("--reject", "verdict", flag_value="reject", help="Do not propose it again.")
@click.option("--later", "verdict", flag_value="later", help="Leave it undecided.")
@click.option("--reason", metavar="TEXT", default="", help="Why it is rejected.")
def review(context: CommandContext, /, id: str | None, verdict: Verdict | None, reason: str) -> None:
    """List proposed memories, or decide one.

    A preference about security, credentials or money is only proposed: it is in no prompt and no search before
    you accept it. Without ID, all proposals are listed, with the turns that support them. No tool of a model
    can decide a proposal.

    With --json: {"proposals": [record]}; after a decision {"record": record}.
    """
    if (id is None) != (verdict is None):
        raise InvalidInput("A decision needs an id of `reverie review`, and --accept, --reject or --later.")
    if reason and verdict != "reject":
        raise InvalidInput("--reason says why a proposal is rejected. Leave it out, or use --reject.")
    with context.memory() as memory:
        if id is not None and verdict is not None:
            if any(plan.id == id for plan in memory.dreams.kept_plans()):
                raise NotFound(f"No proposal {id!r}. Run `reverie review`.")
            record = memory.dreams.decide(id, verdict, reason=reason).record
            assert record is not None
            done = {"accept": "Accepted", "reject": "Rejected", "later": "Left for later"}[verdict]
            text = f"{done}: {_describe_proposal(record)}"
            context.print_result(text, {"record": memory.get(id) or record})
            return
        proposals = memory.dreams.proposals()
        lines = []
        for record in proposals:
            lines.append(_describe_proposal(record))
            for turn in filter(None, map(memory.scoped(record.scope).get_turn, record.references)):
                excerpt = output.extract_excerpt(turn.content, record.content.split(), longest=_LONGEST)
                lines.append(f"  [{turn.at:%Y-%m-%d %H:%M}] {output.one_line(excerpt)}")
    context.print_result("\n".join(lines), {"proposals": proposals}, brief="\n".join(lines))
    if not (proposals or context.as_json):
        context.print_message("No proposals.")


def _describe_proposal(record: Record) -> str:
    """Return a proposal in one line: its id, whose it is, and what it says."""
    scope = f" {record.scope}" if record.scope else ""
    return f"{record.id}{scope} ({record.category or record.kind}): {output.one_line(record.content)}"


# -- worker ---------------------------------------------------------------------------------------


_log = logging.getLogger("reverie")

_PAUSE_S = 5.0
_BEAT_S = 10.0


@command()
@options.MODEL
@click.option("--once", is_flag=True, help="Do what is due now, and end.")
def worker(context: CommandContext, /, model: str | None, once: bool) -> None:
    """Do background work until it is stopped: dreams, and summaries of long or finished conversations.

    The memory is a folder, or one in a database. The URL of a database without memory= means all its memories, and
    any number of workers on any number of machines share their work. The work of a worker that is killed is taken
    over within a minute. Ctrl-C stops a worker after its current task.
    """
    from reverie.memory import is_database
    from reverie.stores.postgres.connections import parse_postgres_url

    place = context.resolve_place()
    with log_to_stderr(debug=context.debug), _stop_on_signals() as stop:
        whole = parse_postgres_url(place) if is_database(place) else None
        if whole is not None and whole.is_whole_database:
            output.print_message(f"Working for all memories in {whole.database}", quiet=context.quiet or once)
            _work_for_database(context, whole, model, stop, once=once)
            return
        output.print_message(f"Working for {context.describe_place()}", quiet=context.quiet or once)
        with context.memory(model=model) as memory:
            repeat(lambda: bool(memory.dreams.run_due().outcomes), stop, once=once)


def repeat(work: Callable[[], bool], stop: threading.Event, *, once: bool) -> None:
    """Call a function until it is stopped, with a pause after each call that found nothing to do.

    Args:
        work: Does what is due; returns whether anything was.
        stop: Event that ends it.
        once: Whether to end when nothing is due.
    """
    while not stop.is_set():
        try:
            has_worked = work()
        except ReverieError as error:
            if once or isinstance(error, StoreIncompatible):
                raise
            _log.warning("background work failed and is tried again: %s", error)
            has_worked = False
        if not has_worked:
            if once:
                return
            stop.wait(_PAUSE_S)


def _work_for_database(
    context: CommandContext, address: PostgresAddress, model: str | None, stop: threading.Event, *, once: bool
) -> None:
    from reverie.stores.postgres.work import WorkQueue

    def work() -> bool:
        claim = queue.claim()
        if claim is not None:
            url = address.build_url(claim.memory)
            next_at, has_failed = _work_for_memory(context, claim.memory, url, model)
            queue.finish(claim, next_at, has_failed=has_failed)
        return claim is not None

    queue = WorkQueue(address)
    beating = threading.Thread(target=_beat, args=(queue, stop), name="reverie-heartbeat", daemon=True)
    beating.start()
    try:
        repeat(work, stop, once=once)
    finally:
        stop.set()
        beating.join()
        queue.close()


def _work_for_memory(
    context: CommandContext, name: str, url: str, model: str | None
) -> tuple[datetime | None, bool]:
    """Do what is due in a memory; return when more will be, and whether it failed."""
    try:
        with context.memory(model=model, store=url) as memory:
            report = memory.dreams.run_due()
            has_failed = any(outcome.state == "failed" for outcome in report.outcomes)
            soon = utc_now() + timedelta(seconds=_PAUSE_S)
            due_at = memory.dreams.find_next_due()
            if report.busy or report.outcomes:
                return soon, has_failed
            return None if due_at is None else max(due_at, soon), has_failed
    except StoreIncompatible:
        raise  # it concerns all memories of the database
    except Exception as error:  # noqa: BLE001 - one memory must not keep a worker from the others
        # The messages of other errors may quote a memory.
        reason = error if isinstance(error, ReverieError) else type(error).__name__
        _log.warning("the work of memory %r failed and is tried again: %s", name, reason)
        _log.debug("its traceback", exc_info=error)
        return None, True


def _beat(queue: WorkQueue, stop: threading.Event) -> None:
    while True:
        try:
            queue.beat()
        except ReverieError as error:
            _log.warning("the heartbeat failed: %s", error)
        if stop.wait(_BEAT_S):
            return


@contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C and SIGTERM set; a second signal ends the process at once."""
    stop = threading.Event()
    before: dict[int, Any] = {}

    def handle(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, before[number])

    for each in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError):  # not in the main thread, as in tests
            before[each] = signal.signal(each, handle)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
