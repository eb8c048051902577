"""Commands on background work: `dream`, `review` and `worker`."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import click

from reverie.consolidation.registry import DREAM
from reverie.consolidation.worker import WorkReport
from reverie.domain.errors import Conflict, InvalidInput, NotFound, ReverieError, StoreIncompatible
from reverie.domain.text.json_values import to_json_object
from reverie.domain.text.timestamps import utc_now
from reverie.interfaces.cli import output
from reverie.interfaces.cli.commands.mcp import log_to_stderr
from reverie.interfaces.cli.options import CommandContext, command

if TYPE_CHECKING:
    from reverie.consolidation.dreams import PassOutcome
    from reverie.consolidation.inbox import Verdict
    from reverie.domain.record import Record
    from reverie.memory import Memory
    from reverie.stores.postgres.connections import PostgresAddress
    from reverie.stores.postgres.work import WorkClaim, WorkQueue


@command(json=True)
@click.option(
    "--pass", "passes", type=click.Choice(DREAM), multiple=True, help="Run only this pass; repeatable."
)
@click.option("--model", metavar="NAME", help="Model to use, as provider:model.  [the setting `model`]")
@click.option("--dry-run", is_flag=True, help="Show the plans without applying them.")
@click.option("--log", "shows_log", is_flag=True, help="Show the log of past dreams.")
@click.option(
    "--undo", "undone", type=int, metavar="BATCH", help="Undo the changes of a batch; 0 for the last."
)
def dream(
    context: CommandContext,
    /,
    passes: tuple[str, ...],
    model: str | None,
    dry_run: bool,
    shows_log: bool,
    undone: int | None,
) -> None:
    """Consolidate records: enrich, verify, tidy, preferences, promote.

    Without a model, records are only promoted by rule. Every change is checked; at most 2 % of the records, or three,
    are archived. The last line has the cost of the month. Use --undo to undo the changes of a dream.

    With --json: {"passes": [{"pass", "state", "why", "batch", "changes": [{"why", "sources", "before",
    "after"}], "refused": [{"what", "why"}], "notes", "usage"}], "month"}; with --log {"log": […]}; with --undo
    {"undone": number}.
    """
    if (shows_log or undone is not None) and (passes or dry_run or (shows_log and undone is not None)):
        raise InvalidInput(
            "--log and --undo are used alone; `reverie undo --batch NUMBER --dry-run` shows what an undo would change"
        )
    with context.memory(model=model) as memory:
        if shows_log:
            _show_log(context, memory)
        elif undone is not None:
            _undo(context, memory, undone)
        else:
            _dream(context, memory, passes or DREAM, dry_run=dry_run)


def _dream(context: CommandContext, memory: Memory, passes: tuple[str, ...], *, dry_run: bool) -> None:
    run = memory.dreams.run(passes, dry_run=dry_run)
    if run.busy:
        raise Conflict("another process is dreaming in this folder: try again when it has finished")
    if context.as_json:
        month = to_json_object(
            memory.dreams.usage(), "month", "requests", "input_tokens", "output_tokens", "cost"
        )
        output.print_json({"passes": [_serialize_outcome(each) for each in run.outcomes], "month": month})
        return
    for each in run.outcomes:
        if each.name == "enrich" and each.state == "skipped" and len(passes) > 1:
            continue  # usually there are no rough notes or no model
        click.echo(output.escape_text(_format_headline(each)))
        if each.plan is not None and not context.quiet:
            for line in each.plan.lines():
                click.echo(output.escape_text(f"  {line}"))
    if (usage := memory.dreams.usage()).requests:
        limit = memory.settings.monthly_tokens
        click.echo(f"{usage}" + ("" if limit is None else f" of {limit:,}"))


def _format_headline(outcome: PassOutcome) -> str:
    if outcome.state == "failed":
        return f"{outcome.name}: failed, will be retried: {outcome.why}"
    if outcome.state == "skipped":
        return f"{outcome.name}: {outcome.why}"
    changes = output.count(len(outcome.plan.steps) if outcome.plan is not None else 0, "change")
    if outcome.batch is None:
        return f"{outcome.name}: would make {changes}"
    return f"{outcome.name}: {changes}; undo with `reverie dream --undo {outcome.batch}`"


def _serialize_outcome(outcome: PassOutcome) -> dict[str, Any]:
    from reverie.consolidation.plan import Plan

    plan = Plan(id="", name=outcome.name, made_at=outcome.at) if outcome.plan is None else outcome.plan
    steps = [
        to_json_object(step, "why", "sources") | to_json_object(step.edit, "before", "after")
        for step in plan.steps
    ]
    return {
        "pass": outcome.name,
        **to_json_object(outcome, "state", "why", "batch"),
        "changes": steps,
        **to_json_object(plan, "refused", "notes"),
        "usage": to_json_object(plan.usage, "requests", "input_tokens", "output_tokens", "cost"),
    }


def _show_log(context: CommandContext, memory: Memory) -> None:
    log = memory.dreams.log()
    columns = ("at", "pass", "state", "changes", "batch", "why")
    rows = ([entry.get(name) or "-" for name in columns] for entry in log)
    output.print_listing(
        context,
        rows,
        {"log": log},
        blocks=map(_render_log_entry, log),
        empty="No dream has changed anything yet.",
    )


def _render_log_entry(entry: Mapping[str, Any]) -> output.Block:
    about = [str(entry["at"])[:19].replace("T", " "), output.one_line(str(entry.get("why") or ""))]
    if batch := entry.get("batch"):
        about.append(f"undo with `reverie dream --undo {batch}`")
    if tokens := int(entry.get("input_tokens") or 0) + int(entry.get("output_tokens") or 0):
        cost = entry.get("cost")
        about.append(f"{tokens:,} tokens" + (f", about ${cost:.4f}" if cost else ""))
    changes = output.count(int(entry.get("changes") or 0), "change")
    return "", f"{entry['pass']}: {entry['state']}, {changes}", " · ".join(filter(None, about))


def _undo(context: CommandContext, memory: Memory, batch: int) -> None:
    if batch < 0:
        raise InvalidInput(f"--undo is {batch}: give the number that `reverie dream --log` shows, or 0")
    if batch == 0:
        batches = [entry["batch"] for entry in memory.dreams.log()]
        batch = max((each for each in batches if isinstance(each, int)), default=0)
        if not batch:
            raise NotFound("no dream has changed anything; see `reverie dream --log`")
    rows = memory.history.log(after=batch - 1, limit=1)
    if not rows or rows[0].batch != batch or rows[0].actor != "dream":
        raise NotFound(f"change {batch} is not the first of a dream: see `reverie dream --log`")
    try:
        result = memory.history.undo(batch=batch)
    except Conflict as error:
        raise InvalidInput(str(error)) from error  # a retry would fail too
    text = f"Undone: the changes of batch {batch}."
    if not result.rows:
        text = f"Nothing to undo: everything is as it was before batch {batch}."
    context.print_result(text, {"undone": batch})
    if result.left:
        context.print_message(result.text)


# -- review ---------------------------------------------------------------------------------------


_LONGEST = 300  # characters of a turn
_DONE = {"accept": "Accepted", "reject": "Rejected", "later": "Left for later"}


@command(json=True)
@click.argument("id", required=False)
@click.option("--accept", "verdict", flag_value="accept", help="Make it a memory.")
@click.option("--reject", "verdict", flag_value="reject", help="Do not propose it again.")
@click.option("--later", "verdict", flag_value="later", help="Leave it undecided.")
@click.option("--reason", metavar="TEXT", default="", help="Why it is rejected.")
def review(context: CommandContext, /, id: str | None, verdict: str | None, reason: str) -> None:
    """List proposed memories, or decide one.

    A preference about security, credentials or money is only proposed: it is in no prompt and no search before
    you accept it. Without ID, all proposals are listed, with the turns that support them. No tool of a model
    can decide a proposal.

    With --json: {"proposals": [record]}; after a decision {"record": record}.
    """
    with context.memory() as memory:
        if id is None:
            if verdict is not None:
                raise InvalidInput(f"--{verdict} needs the id of a proposal: `reverie review` lists them")
            _list(context, memory)
            return
        if verdict is None:
            raise InvalidInput(f"say what to do with {id!r}: --accept, --reject or --later")
        if reason and verdict != "reject":
            raise InvalidInput("--reason says why a proposal is rejected: leave it out, or use --reject")
        record = decide_proposal(memory, id, cast("Verdict", verdict), reason=reason)
        context.print_result(f"{_DONE[verdict]}: {describe_proposal(record)}", {"record": record})


def _list(context: CommandContext, memory: Memory) -> None:
    proposals = memory.dreams.proposals()
    if context.as_json:
        output.print_json({"proposals": proposals})
        return
    for record in proposals:
        click.echo(output.escape_text(describe_proposal(record)))
        for turn in filter(None, map(memory.scoped(record.scope).get_turn, record.references)):
            excerpt = output.extract_excerpt(turn.content, record.content.split(), longest=_LONGEST)
            click.echo(output.escape_text(f"  [{turn.at:%Y-%m-%d %H:%M}] {output.one_line(excerpt)}"))
    if not proposals:
        context.print_message("Nothing is proposed.")


def decide_proposal(memory: Memory, id: str, verdict: Verdict, *, reason: str) -> Record:
    """Decide a proposal, and return its record."""
    if any(plan.id == id for plan in memory.dreams.kept_plans()):
        raise NotFound(f"No proposal {id!r}. Run `reverie review`.")
    record = memory.dreams.decide(id, verdict, reason=reason).record
    assert record is not None
    return memory.get(id) or record


def describe_proposal(record: Record) -> str:
    """Return a proposal in one line: its id, whose it is, and what it says."""
    scope = f" {record.scope}" if record.scope else ""
    return f"{record.id}{scope} ({record.category or record.kind}): {output.one_line(record.content)}"


# -- worker ---------------------------------------------------------------------------------------


_log = logging.getLogger("reverie")

_PAUSE_S = 5.0
_BEAT_S = 10.0


@command()
@click.option("--model", metavar="NAME", help="Model to use, as provider:model.  [the setting `model`]")
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
        output.print_message(f"Working for {context.describe_place()}", quiet=context.quiet or once)
        if is_database(place) and (address := parse_postgres_url(place)).is_whole_database:
            _work_for_database(context, address, model, stop, once=once)
            return
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
        if claim is None:
            return False
        _work_for_claim(
            queue, claim, lambda: context.memory(model=model, store=address.build_url(claim.memory))
        )
        return True

    queue = WorkQueue(address)
    beating = threading.Thread(target=_beat, args=(queue, stop), name="reverie-heartbeat", daemon=True)
    beating.start()
    try:
        repeat(work, stop, once=once)
    finally:
        stop.set()
        beating.join()
        queue.close()


def _work_for_claim(
    queue: WorkQueue, claim: WorkClaim, open_memory: Callable[[], AbstractContextManager[Memory]]
) -> None:
    """Do what is due in a memory, and tell the queue when more will be."""
    next_at: datetime | None = None
    has_failed = False
    try:
        with open_memory() as memory:
            report: WorkReport = memory.dreams.run_due()
            has_failed = any(outcome.state == "failed" for outcome in report.outcomes)
            soon = utc_now() + timedelta(seconds=_PAUSE_S)
            if report.busy or report.outcomes:
                next_at = soon
            elif (due_at := memory.dreams.find_next_due()) is not None:
                next_at = max(due_at, soon)
    except StoreIncompatible:
        raise  # it concerns all memories of the database
    except ReverieError as error:
        _log.warning("the work of memory %r failed and is tried again: %s", claim.memory, error)
        has_failed = True
    except Exception as error:  # noqa: BLE001 - one memory must not keep a worker from the others
        _log.warning("the work of memory %r failed and is tried again", claim.memory, exc_info=error)
        has_failed = True
    queue.finish(claim, next_at, has_failed=has_failed)


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
