"""Commands on conversations: `say`, `context`, `sessions`, `feedback` and `chat`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

import click

from reverie.domain.conversation import LONGEST_TURN, ROLES
from reverie.domain.errors import InvalidInput, NotFound, ReverieError
from reverie.domain.scope import EVERY_SCOPE
from reverie.domain.text.validation import validate_raw_text
from reverie.interfaces.cli import output
from reverie.interfaces.cli.commands.dreams import decide_proposal, describe_proposal
from reverie.interfaces.cli.options import (
    CommandContext,
    ExitCode,
    TimeParam,
    command,
    open_session,
    read_text,
)

if TYPE_CHECKING:
    from reverie.agent import Agent, TurnResult
    from reverie.consolidation.inbox import Verdict
    from reverie.domain.conversation import Turn
    from reverie.integrations.lightrag import LightRAG, LightRAGIndexer
    from reverie.memory import Memory
    from reverie.repositories.wishes import ForgetRequest
    from reverie.scoped import ScopedMemory


@command(as_of=True, json=True)
@click.option("--scope", default="", metavar="SCOPE", help="List what this scope sees; '*' for all scopes.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Maximum number of sessions."
)
def sessions(context: CommandContext, /, scope: str, limit: int) -> None:
    """List sessions, most recently active first.

    In a pipe, one line per session: id, status, number of turns, time of the last turn, title.

    With --json: {"sessions": [{"id", "status", "scope", "turns", "created_at", "last_at", "window_start",
    "summary", "metadata", "title"}]}.
    """
    with context.reading() as memory:
        reader = memory.scoped(scope)
        overviews = reader.sessions(limit=limit + 1)
        titles = [reader.title(each.state.id) for each in overviews[:limit]]
    count, overviews = len(overviews), overviews[:limit]
    output.print_listing(
        context,
        (
            (each.state.id, each.state.status, each.turns, each.last_at, title)
            for each, title in zip(overviews, titles, strict=True)
        ),
        {
            "sessions": [
                each.state.to_dict() | {"turns": each.turns, "last_at": each.last_at, "title": title}
                for each, title in zip(overviews, titles, strict=True)
            ]
        },
        empty="No sessions.",
    )
    output.report_cut(context, count, limit)


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
    content = read_text(text, name="content", empty=False)

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


@command("prompt", json=True)
@click.argument("session")
@click.argument("position", type=click.IntRange(min=0), required=False)
def print_prompt(context: CommandContext, /, session: str, position: int | None) -> None:
    """Print the prompt of a turn of SESSION as the model read it, each line with its reason.

    POSITION is the number of the user's turn; without it, the newest prompt is printed.

    In a pipe, one line per line of the prompt: section, id, tokens, reason, text.

    With --json: the fields of the prompt, including "text": [{"section", "text", "tokens", "id", "reason"}] and
    "is_rebuilt".
    """
    with context.memory() as memory:
        if position is None:
            entries = memory.admin.prompts.list(session, limit=1)
            if not entries:
                raise NotFound(f"No prompt of session {session!r} is in the log. Run `reverie sessions`.")
            position = entries[0].position
        prompt = memory.admin.prompts.get(session, position)
    if prompt.is_rebuilt:
        context.print_message("The exact text is no longer stored. The lines have the words of that time.")
    rows = [
        (each.section, each.id or "-", each.tokens, each.reason or "-", each.text) for each in prompt.text
    ]
    output.print_listing(context, rows, prompt.to_dict(), empty="The prompt was empty.")


# -- chat -----------------------------------------------------------------------------------------


_HELP = """/new            start a new conversation; memories are kept
/compact [N]    shorten the window to its last N turns, 20 by default
/status         show the session, the memory and the tokens used
/dream          run consolidation
/review [ID accept|reject|later [WHY]]
                list proposed memories, or decide one
/up, /down [WHY]
                say that the last answer was good or bad
/stop           stop the current answer (or press Ctrl-C)
/quit           quit"""


@dataclass(slots=True)
class _Talk:
    """Conversation in a terminal or a pipe.

    Attributes:
        memory: The whole memory.
        scoped: The scope of the session.
        agent: The agent that answers.
        quiet: Whether to print no greeting.
        explain: Whether to explain after each answer what was recalled for it.
        tokens: Tokens used so far.
        last_id: Id of the turn of the last answer; empty for none.
        failures: Number of messages without an answer.
        asked_request: Id of the request to forget that was shown just now; empty for none.
    """

    memory: Memory
    scoped: ScopedMemory
    agent: Agent
    quiet: bool
    explain: bool
    tokens: int = 0
    last_id: str = ""
    failures: int = 0
    asked_request: str = ""


@command()
@click.argument("session", default="cli:chat")
@click.option("--model", metavar="NAME", help="Model to talk with, as provider:model.  [the setting `model`]")
@click.option("--message", "-m", metavar="TEXT", help="Send this message, print the answer, and exit.")
@click.option("--explain", is_flag=True, help="Explain after each answer what was recalled for it.")
def chat(
    context: CommandContext, /, session: str, model: str | None, message: str | None, explain: bool
) -> None:
    """Talk with a model that remembers, in SESSION.

    The conversation is stored and can be recalled later; the model can save and search memories. Without a
    model, the prompt is printed. In a pipe, every line is a message. /help lists the commands. Exits with 4
    if the model does not answer a message of --message or of a pipe.
    """
    if message is not None:
        message = validate_raw_text(message, name="message", longest=LONGEST_TURN)
    from reverie.agent import Agent

    def rehearse(memory: Memory) -> None:
        opened = open_session(memory, session)
        opened.add("user", "hello" if message is None else message)
        Agent(opened, model=model or memory.settings.model, memory=memory)

    with context.memory(create=True, model=model, rehearse=rehearse) as memory, _open_graph(memory) as graph:
        opened = open_session(memory, session)
        scoped = memory.scoped(opened.state.scope)
        agent = Agent(
            opened,
            model=model or memory.settings.model,
            memory=scoped,
            done=_build_waker(memory, graph),
            related=None if graph is None else graph[0].recall,
        )
        talk = _Talk(memory=memory, scoped=scoped, agent=agent, quiet=context.quiet, explain=explain)
        memory.dreams.start()
        if message is not None:
            _send_message(talk, message)
        else:
            _converse(talk)
    if talk.failures and not _is_interactive():
        raise click.exceptions.Exit(ExitCode.UNAVAILABLE)


@contextmanager
def _open_graph(memory: Memory) -> Iterator[tuple[LightRAG, LightRAGIndexer] | None]:
    """Open the knowledge graph of the settings; None without one."""
    if memory.settings.rag_url is None or not memory.settings.rag_enabled:
        yield None
        return
    from reverie.integrations.lightrag import API_KEY, LightRAG, LightRAGIndexer

    rag = LightRAG.from_settings(memory.settings, api_key=os.environ.get(API_KEY, ""))
    assert rag is not None
    with rag, LightRAGIndexer(memory, rag) as indexing:
        yield rag, indexing


def _build_waker(memory: Memory, graph: tuple[LightRAG, LightRAGIndexer] | None) -> Callable[[], None]:
    def wake() -> None:
        memory.dreams.wake()
        if graph is not None:
            graph[1].wake()

    return wake


def _converse(talk: _Talk) -> None:
    interactive = _is_interactive()
    if interactive and not talk.quiet:
        name = talk.agent.model.name if talk.agent.model is not None else "no model (see --model)"
        where = output.one_line(talk.agent.session.id)
        click.echo(f"Talking with {name} in {where}. /help for help, /quit to quit.")
        if waiting := len(talk.memory.dreams.proposals()):
            click.echo(f"{output.count(waiting, 'proposal')} for your memory: see /review.")
    while (line := _read(interactive)) is not None:
        text = line.strip()
        if not text:
            continue
        if text in {"/quit", "/exit"}:
            return
        try:
            if _answer_about_erasure(talk, text):
                continue
            if line.startswith("/"):
                _run_command(talk, text)
            else:
                _send_message(talk, text)
        except ReverieError as error:
            output.print_error(str(error))
        except KeyboardInterrupt:
            talk.agent.stop()
            click.echo("\n[stopped]")


def _ask_to_erase(talk: _Talk, request: ForgetRequest) -> None:
    """Show what a request to forget would erase, and ask for confirmation by the next line."""
    report = talk.memory.admin.forget(request=request.id, dry_run=True)
    for item in report.going:
        click.echo(output.escape_text(f"  {item.subject} {item.id}: {output.one_line(item.text)}"))
    talk.asked_request = request.id
    click.echo("Erase this permanently? Answer yes or no. Anything else leaves it for `reverie forget`.")


def _answer_about_erasure(talk: _Talk, text: str) -> bool:
    """Return whether a line confirmed or dropped the request to forget that was shown just before it."""
    name, talk.asked_request = talk.asked_request, ""
    from reverie.consolidation.wishes import read_answer

    answer = read_answer(text) if name else None
    if answer == "accept":
        report = talk.memory.admin.forget(request=name)
        click.echo(f"Erased permanently: {output.count(len(report.going), 'item')}.")
    elif answer is not None:
        talk.memory.forget_requests.drop(name)
        click.echo("Nothing was erased.")
    return answer is not None


def _is_interactive() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def _read(interactive: bool) -> str | None:
    """Read the next line; None at the end."""
    if not interactive:
        return (sys.stdin.readline() if sys.stdin is not None else "") or None
    try:
        return input("> ")
    except (EOFError, KeyboardInterrupt):
        click.echo()
        return None


def _send_message(talk: _Talk, message: str) -> None:
    pieces: list[str] = []

    def on_text(piece: str) -> None:
        pieces.append(piece)
        click.echo(output.escape_text(piece), nl=False)
        sys.stdout.flush()

    answer = talk.agent.turn(message, on_text=on_text)
    if pieces:
        click.echo()
    elif answer.text:
        click.echo(output.escape_text(answer.text))
    for result in answer.wishes:
        click.echo(output.escape_text(output.one_line(result.describe())))
        if result.request is not None and not talk.asked_request:
            _ask_to_erase(talk, result.request)
    talk.last_id = answer.turn_id
    talk.tokens += answer.usage.input_tokens + answer.usage.output_tokens
    if talk.agent.model is None:
        _show_prompt(answer)
    elif answer.problem:
        talk.failures += 1
        output.print_error(f"no answer: {answer.problem}")
    if answer.unsaved:
        output.print_error("part of this turn could not be stored; see `reverie doctor`")
    if talk.explain and answer.pack is not None:
        click.echo(output.escape_text(answer.pack.explain()))


def _show_prompt(answer: TurnResult) -> None:
    """Print the prompt that would have been sent to a model."""
    click.echo("No model is set (--model provider:model). The prompt is:\n")
    if answer.pack is not None and answer.pack.text:
        click.echo(output.escape_text(f"[system]\n{answer.pack.text}\n"))
    for message in answer.pack.messages if answer.pack is not None else []:
        click.echo(output.escape_text(f"[{message['role']}]\n{message.get('content') or ''}\n"))


# -- commands --------------------------------------------------------------------------------------------


def _run_command(talk: _Talk, text: str) -> None:
    name, _, rest = text.partition(" ")
    command = _COMMANDS.get(name)
    if command is None:
        raise InvalidInput(
            f"unknown command {name!r}: see /help, or begin with a space to send it to the model"
        )
    command(talk, rest.strip())


def _show_help(talk: _Talk, rest: str) -> None:
    click.echo(_HELP)


def _start_conversation(talk: _Talk, rest: str) -> None:
    insights = talk.scoped.consolidate_session(talk.agent.session.id)
    talk.agent.session.reset()
    saved = f" Saved {output.count(len(insights), 'insight')} from the last one." if insights else ""
    click.echo(f"New conversation; memories are kept.{saved}")


def _compact(talk: _Talk, rest: str) -> None:
    if rest and not rest.isdecimal():
        raise InvalidInput(f"/compact takes the number of turns to keep, not {rest!r}")
    outcome = talk.memory.dreams.run_window(
        talk.agent.session.id, "compact", keep=int(rest) if rest else None
    )
    why = f": {outcome.why}" if outcome.why else ""
    click.echo(f"Compacted{why}." if outcome.state == "applied" else f"Not compacted{why}.")


def _show_status(talk: _Talk, rest: str) -> None:
    session, stats = talk.agent.session, talk.scoped.stats()
    total, window = len(talk.scoped.turns(session.id)), len(session.turns())
    name = talk.agent.model.name if talk.agent.model is not None else "none"
    where = output.one_line(session.id)
    turns, records = output.count(total, "turn"), output.count(stats.records, "record")
    click.echo(f"Session {where}: {turns}, {window:,} in the window, {session.state.status}")
    click.echo(f"Memory: {records}, {stats.archived:,} archived, {output.count(stats.turns, 'turn')}")
    click.echo(f"Model: {name}; {output.count(talk.tokens, 'token')} so far")


def _dream(talk: _Talk, rest: str) -> None:
    run = talk.memory.dreams.run()
    if run.busy:
        click.echo("Another process is dreaming in this folder.")
    for outcome in run.outcomes:
        count = len(outcome.plan.steps) if outcome.plan is not None else 0
        click.echo(f"{outcome.name}: {outcome.why or output.count(count, 'change')}")


def _review(talk: _Talk, rest: str) -> None:
    name, _, decision = rest.partition(" ")
    if not name:
        proposals = talk.memory.dreams.proposals()
        click.echo("\n".join(map(describe_proposal, proposals)) or "Nothing is proposed.")
        return
    verdict, _, reason = decision.strip().partition(" ")
    record = decide_proposal(talk.memory, name, cast("Verdict", verdict), reason=reason)
    click.echo(output.escape_text(f"{verdict}: {describe_proposal(record)}"))


def _rate(talk: _Talk, note: str, thumb: Literal["up", "down"]) -> None:
    if not talk.last_id:
        raise InvalidInput("there is no answer to rate yet")
    talk.agent.session.feedback(talk.last_id, thumb, note=note)
    click.echo(f"Noted: {thumb}.")


def _stop(talk: _Talk, rest: str) -> None:
    talk.agent.stop()
    click.echo("No answer is being written.")


_COMMANDS: Mapping[str, Callable[[_Talk, str], None]] = {
    "/help": _show_help,
    "/new": _start_conversation,
    "/compact": _compact,
    "/status": _show_status,
    "/dream": _dream,
    "/review": _review,
    "/up": partial(_rate, thumb="up"),
    "/down": partial(_rate, thumb="down"),
    "/stop": _stop,
}
