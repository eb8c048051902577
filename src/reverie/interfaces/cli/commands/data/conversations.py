"""Commands on conversations: `say`, `context`, `sessions` and `feedback`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reverie.domain.conversation import ROLES
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.scope import EVERY_SCOPE
from reverie.interfaces.cli import listing, output
from reverie.interfaces.cli.options import CommandContext, command, open_session
from reverie.interfaces.cli.prompts import TimeParam, read_text

if TYPE_CHECKING:
    from reverie.domain.conversation import Turn
    from reverie.memory import Memory


@command(as_of=True, json=True)
@click.option("--scope", default="", metavar="SCOPE", help="List what this scope sees; '*' for all scopes.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Maximum number of sessions."
)
def sessions(context: CommandContext, /, scope: str, limit: int) -> None:
    """List sessions, most recently active first.

    In a pipe, one line per session: id, status, number of turns, time of the last turn.

    With --json: {"sessions": [{"id", "status", "scope", "turns", "created_at", "last_at", "window_start",
    "summary", "metadata"}]}.
    """
    with context.reading() as memory:
        overviews = memory.scoped(scope).sessions(limit=limit + 1)
    count, overviews = len(overviews), overviews[:limit]
    listing.print_listing(
        context,
        ((each.state.id, each.state.status, each.turns, each.last_at) for each in overviews),
        {
            "sessions": [
                each.state.to_dict() | {"turns": each.turns, "last_at": each.last_at} for each in overviews
            ]
        },
        empty="No sessions.",
    )
    listing.report_cut(context, count, limit)


@command("say", json=True)
@click.argument("session")
@click.argument("text", nargs=-1, required=True)
@click.option("--role", type=click.Choice(ROLES), default="user", show_default=True, help="Role of the turn.")
@click.option("--speaker", default="", metavar="NAME", help="Name of the speaker.")
@click.option("--at", type=TimeParam(), metavar="TIME", help="Time of the turn; default now.")
def add_turn(context: CommandContext, /, session: str, text: tuple[str, ...], **fields: Any) -> None:
    """Add a turn to SESSION; the first turn creates the session.

    TEXT is the content; `-` reads it from standard input.

    With --json: {"turn": {…}}.
    With --quiet: only the id.
    """
    content = read_text(text, name="content")

    def add(memory: Memory) -> Turn:
        return open_session(memory, session).add(content=content, **fields)

    with context.memory(create=True, rehearse=add) as memory:
        turn = add(memory)
    message = f"Turn {turn.position} of {output.one_line(turn.session)}: {turn.id}"
    context.print_result(message, {"turn": turn}, brief=turn.id)


@command(json=True)
@click.argument("turn")
@click.argument("thumb", type=click.Choice(["up", "down"]))
@click.option("--note", default="", metavar="TEXT", help="Reason, in words.")
def feedback(context: CommandContext, /, turn: str, thumb: str, note: str) -> None:
    """Say that an answer was good (up) or bad (down); a later thumb replaces an earlier one.

    TURN is the id of a turn of the assistant.

    With --json: {"turn": {…}}.
    """
    with context.memory() as memory:
        answer = memory.scoped(EVERY_SCOPE).get_turn(turn)
        if answer is None:
            raise NotFound(f"no turn has the id {turn!r}: see `reverie recall --role assistant`")
        rated = open_session(memory, answer.session).feedback(turn, thumb, note=note)  # type: ignore[arg-type]
    context.print_result(f"Noted: {rated.id} ({thumb})", {"turn": rated})


@command("context", as_of=True, json=True)
@click.argument("session")
@click.argument("message", nargs=-1)
@click.option("--soft-tokens", type=click.IntRange(min=0), metavar="N", help="Token budget to aim for.")
@click.option("--hard-tokens", type=click.IntRange(min=0), metavar="N", help="Token budget never to exceed.")
@click.option("--mark", is_flag=True, help="Record the memories as shown, as a turn of an agent does.")
@click.option(
    "--explain", is_flag=True, help="Also show what was left out, the token costs, and the reasons."
)
def print_context(
    context: CommandContext,
    /,
    session: str,
    message: tuple[str, ...],
    mark: bool,
    explain: bool,
    **budget: Any,
) -> None:
    """Print the context for a prompt: the pack for MESSAGE in SESSION.

    Without MESSAGE, the session's last user turn is used. `-` reads MESSAGE from standard input. Nothing is
    changed, except with --mark.

    With --json: the fields of the pack, including "text" and "tokens".
    """
    question = read_text(message, name="message") if message else None
    if mark and context.as_of is not None:
        raise InvalidInput("--mark cannot be combined with --as-of")
    with context.reading() as memory:
        if question is None and not memory.scoped(EVERY_SCOPE).turns(session, start=-1):
            raise NotFound(f"no session {session!r}: see `reverie sessions`, or give a MESSAGE")
        context.embed_waiting(memory)
        pack = open_session(memory, session).context(question, record_shown=mark, **budget)
    if context.as_json:
        output.print_json(pack)
        return
    if pack.text:
        click.echo(output.escape_text(pack.text))
    else:
        candidates = pack.diagnostics.candidates
        reason = "see --explain for what was left out" if candidates else "nothing relevant is stored"
        context.print_message(f"The pack is empty: {reason}.")
    if explain:
        click.echo(f"\n{output.escape_text(pack.explain())}")
