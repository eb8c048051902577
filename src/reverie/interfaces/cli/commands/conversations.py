"""Commands on conversations: `say`, `context`, `prompt`, `sessions` and `chat`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from reverie.domain.conversation import LONGEST_TURN, ROLES
from reverie.domain.errors import InvalidInput, NotFound, ReverieError
from reverie.domain.scope import EVERY_SCOPE
from reverie.domain.text.validation import validate_raw_text
from reverie.interfaces.cli import options, output
from reverie.interfaces.cli.options import CommandContext, command

if TYPE_CHECKING:
    from reverie.agent import Agent, TurnResult
    from reverie.integrations.lightrag import LightRAG, LightRAGIndexer
    from reverie.memory import Memory


@command(as_of=True, json=True)
@options.scope_option("List what this scope sees; '*' for all scopes.")
@options.limit_option(50, "sessions")
def sessions(context: CommandContext, /, scope: str, limit: int) -> None:
    """List sessions, most recently active first.

    In a pipe, one line per session: id, status, number of turns, time of the last turn, title.

    With --json: {"sessions": [{"id", "status", "scope", "turns", "created_at", "last_at", "window_start",
    "summary", "metadata", "title"}]}.
    """
    with context.reading() as memory:
        reader = memory.scoped(scope)
        overviews = reader.sessions(limit=limit + 1)
        listed = [
            each.state.to_dict()
            | {"turns": each.turns, "last_at": each.last_at, "title": reader.title(each.state.id)}
            for each in overviews
        ]
    columns = ("id", "status", "turns", "last_at", "title")
    rows = ([each[name] for name in columns] for each in listed)
    output.print_listing(context, rows, {"sessions": listed[:limit]}, empty="No sessions.", limit=limit)


@command("say", json=True)
@click.argument("session")
@click.argument("text", nargs=-1, required=True)
@click.option("--role", type=click.Choice(ROLES), default="user", show_default=True, help="Role of the turn.")
@click.option("--speaker", default="", metavar="NAME", help="Name of the speaker.")
@click.option("--at", type=options.TimeParam(), metavar="TIME", help="Time of the turn; default now.")
def add_turn(context: CommandContext, /, session: str, text: tuple[str, ...], **fields: Any) -> None:
    """Add a turn to SESSION; the first turn creates the session.

    TEXT is the content; `-` reads it from standard input. If it asks to remember or forget something, or not to be
    stored, that is done and said.

    With --json: {"turn": {…}, "is_stored": true or false, "wishes": [{"name", "text", "record", "request"}]}.
    With --quiet: only the id.
    """
    said = options.read_text(text, name="content", empty=False)
    with context.memory(create=True) as memory:
        opened = options.open_session(memory, session)
        turn = opened.add(content=said, **fields)
        is_stored, wishes = opened.is_recorded, opened.wishes
    where = output.one_line(turn.session)
    message = (
        f"Turn {turn.position} of {where}: {turn.id}"
        if is_stored
        else f"Not stored: {where} is off the record"
    )
    value = {"turn": turn, "is_stored": is_stored, "wishes": [each.to_dict() for each in wishes]}
    context.print_result(message, value, brief=turn.id if is_stored else "")
    for each in () if context.as_json else wishes:
        context.print_message(output.one_line(each.describe()))


@command("context", as_of=True, json=True)
@click.argument("session")
@click.argument("message", nargs=-1)
@click.option("--soft-tokens", type=click.IntRange(min=0), metavar="N", help="Token budget to aim for.")
@click.option("--hard-tokens", type=click.IntRange(min=0), metavar="N", help="Token budget never to exceed.")
@click.option("--explain", is_flag=True, help="Also show what was left out, token costs, and reasons.")
def print_context(
    context: CommandContext, /, session: str, message: tuple[str, ...], explain: bool, **budget: Any
) -> None:
    """Print the context for a prompt: the pack for MESSAGE in SESSION.

    Without MESSAGE, the session's last user turn is used. `-` reads MESSAGE from standard input. Nothing is
    changed.

    With --json: the fields of the pack, including "text" and "tokens".
    """
    question = options.read_text(message, name="message") if message else None
    with context.reading() as memory:
        if question is None and not memory.scoped(EVERY_SCOPE).turns(session, start=-1):
            raise NotFound(f"No session {session!r}. Run `reverie sessions`, or give a MESSAGE.")
        context.embed_waiting(memory)
        pack = options.open_session(memory, session).context(question, record_shown=False, **budget)
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
        context.print_message(
            "The exact text is no longer stored. The lines that are left have their present words."
        )
    lines = prompt.text
    rows = ((each.section, each.id or "-", each.tokens, each.reason or "-", each.text) for each in lines)
    output.print_listing(context, rows, prompt.to_dict(), empty="The prompt was empty.")


# -- chat -----------------------------------------------------------------------------------------


_HELP = """/new            start a new conversation; memories are kept
/compact [N]    shorten the window to its last N turns, 20 by default
/status         show the session, the memory and the tokens used
/quit           quit; Ctrl-C stops an answer"""


@command()
@click.argument("session", default="cli:chat")
@options.MODEL
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

    with context.memory(create=True, model=model) as memory, _open_graph(memory) as graph:
        opened = options.open_session(memory, session)

        def wake() -> None:
            memory.dreams.wake()
            if graph is not None:
                graph[1].wake()

        agent = Agent(
            opened,
            model=model or memory.settings.model,
            memory=memory.scoped(opened.state.scope),
            done=wake,
            related=None if graph is None else graph[0].recall,
        )
        conversation = _Chat(memory, agent, explains=explain)
        memory.dreams.start()
        if message is not None:
            conversation.send(message)
        else:
            conversation.run(quiet=context.quiet)
    if conversation.failures and not _is_interactive():
        raise click.exceptions.Exit(options.ExitCode.UNAVAILABLE)


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


def _is_interactive() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


class _Chat:
    """Conversation in a terminal or a pipe.

    Attributes:
        failures: Number of messages without an answer.
    """

    def __init__(self, memory: Memory, agent: Agent, *, explains: bool) -> None:
        self.failures = 0
        self._memory, self._agent = memory, agent
        self._scoped = memory.scoped(agent.session.state.scope)
        self._explains = explains
        self._tokens = 0
        self._model = agent.model.name if agent.model is not None else "no model (see --model)"

    def run(self, *, quiet: bool) -> None:
        """Answer each line until the end."""
        interactive = _is_interactive()
        if interactive and not quiet:
            where = output.one_line(self._agent.session.id)
            click.echo(f"Talking with {self._model} in {where}. /help for help, /quit to quit.")
            if waiting := len(self._memory.dreams.proposals()):
                click.echo(f"{output.count(waiting, 'proposal')} for your memory: see `reverie review`.")
        while (line := _read(interactive)) is not None:
            text = line.strip()
            if text in {"/quit", "/exit"}:
                return
            try:
                if text:
                    self._run_command(text) if line.startswith("/") else self.send(text)
            except ReverieError as error:
                output.print_error(str(error))
            except KeyboardInterrupt:
                self._agent.stop()
                click.echo("\n[stopped]")

    def send(self, message: str) -> None:
        """Send a message to the model, and print the answer."""
        pieces: list[str] = []

        def on_text(piece: str) -> None:
            pieces.append(piece)
            click.echo(output.escape_text(piece), nl=False)
            sys.stdout.flush()

        answer = self._agent.turn(message, on_text=on_text)
        if pieces or answer.text:
            click.echo("" if pieces else output.escape_text(answer.text))
        for result in answer.wishes:
            click.echo(output.one_line(result.describe()))
        self._tokens += answer.usage.input_tokens + answer.usage.output_tokens
        if self._agent.model is None:
            _show_prompt(answer)
        elif answer.problem:
            self.failures += 1
            output.print_error(f"no answer: {answer.problem}")
        if answer.unsaved:
            output.print_error("part of this turn could not be stored; see `reverie doctor`")
        if self._explains and answer.pack is not None:
            click.echo(output.escape_text(answer.pack.explain()))

    def _run_command(self, text: str) -> None:
        name, _, rest = text.partition(" ")
        session = self._agent.session
        if name == "/help":
            click.echo(_HELP)
        elif name == "/new":
            insights = self._scoped.consolidate_session(session.id)
            session.reset()
            saved = f" Saved {output.count(len(insights), 'insight')} from the last one." if insights else ""
            click.echo(f"New conversation; memories are kept.{saved}")
        elif name == "/compact":
            if rest and not rest.isdecimal():
                raise InvalidInput(f"/compact takes the number of turns to keep, not {rest!r}")
            outcome = self._memory.dreams.run_window(session.id, "compact", keep=int(rest) if rest else None)
            done = "Compacted" if outcome.state == "applied" else "Not compacted"
            click.echo(f"{done}: {outcome.why}." if outcome.why else f"{done}.")
        elif name == "/status":
            self._show_status()
        else:
            raise InvalidInput(f"Unknown command {name!r}. See /help, or put a space before it to send it.")

    def _show_status(self) -> None:
        session, stats = self._agent.session, self._scoped.stats()
        turns = output.count(len(self._scoped.turns(session.id)), "turn")
        window = f"{len(session.turns()):,} in the window"
        click.echo(f"Session {output.one_line(session.id)}: {turns}, {window}, {session.state.status}")
        click.echo(f"Memory: {output.format_counts(stats)}, {stats.archived:,} archived")
        click.echo(f"Model: {self._model}; {output.count(self._tokens, 'token')} so far")


def _read(interactive: bool) -> str | None:
    """Read the next line; None at the end."""
    if not interactive:
        return (sys.stdin.readline() if sys.stdin is not None else "") or None
    try:
        return input("> ")
    except (EOFError, KeyboardInterrupt):
        click.echo()
        return None


def _show_prompt(answer: TurnResult) -> None:
    """Print the prompt that would have been sent to a model."""
    click.echo("No model is set (--model provider:model). The prompt is:\n")
    if answer.pack is not None and answer.pack.text:
        click.echo(output.escape_text(f"[system]\n{answer.pack.text}\n"))
    for message in answer.pack.messages if answer.pack is not None else []:
        click.echo(output.escape_text(f"[{message['role']}]\n{message.get('content') or ''}\n"))
