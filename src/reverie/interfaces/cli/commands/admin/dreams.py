"""The command `dream`: run consolidation, list its results, and undo one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from reverie.consolidation.registry import DREAM
from reverie.domain.errors import Conflict, InvalidInput, NotFound
from reverie.domain.text.json_values import to_json_object
from reverie.interfaces.cli import listing, output
from reverie.interfaces.cli.options import CommandContext, command

if TYPE_CHECKING:
    from reverie.consolidation.cycle import PassOutcome
    from reverie.memory import Memory


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
    """Consolidate records: enrich, verify, merge, infer, supersede, promote.

    Without a model, only duplicates are merged and records promoted by rule. Every change is checked; at
    most 2 % of the records are archived. Use --undo to undo the changes of a dream.

    With --json: {"passes": [{"pass", "state", "why", "batch", "changes": [{"why", "sources", "before",
    "after"}], "refused": [{"what", "why"}], "notes", "usage"}]}; with --log {"log": […]}; with --undo
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
        output.print_json({"passes": [_serialize_outcome(each) for each in run.outcomes]})
        return
    for each in run.outcomes:
        if each.name == "enrich" and each.state == "skipped" and len(passes) > 1:
            continue  # usually there are no rough notes or no model
        click.echo(output.escape_text(_format_headline(each)))
        if each.plan is not None and not context.quiet:
            for line in each.plan.lines():
                click.echo(output.escape_text(f"  {line}"))


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
        "usage": to_json_object(plan.usage, "requests", "input_tokens", "output_tokens"),
    }


def _show_log(context: CommandContext, memory: Memory) -> None:
    log = memory.dreams.log()
    columns = ("at", "pass", "state", "changes", "batch", "why")
    rows = ([entry.get(name) or "-" for name in columns] for entry in log)
    listing.print_listing(
        context,
        rows,
        {"log": log},
        blocks=map(_render_log_entry, log),
        empty="No dream has changed anything yet.",
    )


def _render_log_entry(entry: Mapping[str, Any]) -> listing.Block:
    about = [str(entry["at"])[:19].replace("T", " "), output.one_line(str(entry.get("why") or ""))]
    if batch := entry.get("batch"):
        about.append(f"undo with `reverie dream --undo {batch}`")
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
