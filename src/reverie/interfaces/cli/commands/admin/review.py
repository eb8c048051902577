"""The command `review`: list what background thinking proposes, and decide it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from reverie.domain.errors import InvalidInput, NotFound
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import CommandContext, command

if TYPE_CHECKING:
    from reverie.consolidation.inbox import Verdict
    from reverie.domain.record import Record
    from reverie.memory import Memory

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
