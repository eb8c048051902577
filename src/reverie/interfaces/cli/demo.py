"""The command `demo`: replay a conversation into a folder, reopen it, and ask questions.

The two JSON-lines files in this folder contain the conversation and the records that the agent saved. They
are replayed with the clock of their days, so that the scores are always the same.
"""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reverie.admin.transfer.conversations import read_conversations
from reverie.domain.scope import EVERY_SCOPE
from reverie.domain.text import timestamps
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import Command, CommandContext, as_json, invocation
from reverie.interfaces.cli.prompts import confirm
from reverie.search.hits import SOURCES

if TYPE_CHECKING:
    from reverie.context.pack import Pack
    from reverie.domain.record import Record
    from reverie.memory import Memory
    from reverie.search.hits import Hit
    from reverie.stores.protocol import StoreProblem

QUESTIONS = (
    "Which port is the staging database on?",
    "Why did the gauge-sync job fail, and what fixed it?",
    "How does Ines like her answers?",
)
UNANSWERABLE = "Whose passport expires in July?"
"""Question about a topic that never came up."""

MORNING_AFTER = datetime(2025, 3, 26, 8, 0, tzinfo=UTC)
"""Time of the questions: the morning after the last session."""

SOURCE = "demo"
_PREFIX = "demo:"
_SHOWN = 3
_CORRECTION = ("demo:kickoff", 9)


@dataclass(slots=True)
class _Clock:
    """Clock that shows the moment being replayed."""

    now: datetime = MORNING_AFTER

    def __call__(self) -> datetime:
        return self.now


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoAnswer:
    """One question with its hits and the prompt it would produce."""

    question: str
    hits: list[Hit]
    pack: Pack


@dataclass(slots=True, kw_only=True)
class DemoView:
    """Everything that the demo shows.

    Attributes:
        folder: Folder of the memory.
        replayed: Number of turns and records added by this run.
        sessions: Number of turns by session.
        records: Number of records.
        correction: Turn in which Ines corrects herself.
        repeated: Record that was saved twice.
        problems: Result of `check` after reopening.
        answers: Questions with their hits and prompts.
        nothing: Hits of the question without an answer.
    """

    folder: Path
    replayed: int = 0
    sessions: dict[str, int] = field(default_factory=dict)
    records: int = 0
    correction: str = ""
    repeated: Record | None = None
    problems: list[StoreProblem] = field(default_factory=list)
    answers: list[DemoAnswer] = field(default_factory=list)
    nothing: list[Hit] = field(default_factory=list)

    def commands(self) -> list[str]:
        """Return commands to try next, quoted for a shell."""
        folder = shlex.quote(str(self.folder))
        record = self.repeated.id if self.repeated is not None else "ID"
        return [
            f"reverie recall 'When is the launch?' --explain --store {folder}",
            f"reverie context demo:rehearsal 'Shall we deploy on Friday?' --explain --store {folder}",
            f"reverie history {record} --store {folder}",
            f"reverie remember 'Bosun is a dog' --tag dog --store {folder}",
        ]


@click.command(cls=Command)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation before adding to an existing memory.")
@as_json
@invocation
def demo(context: CommandContext, yes: bool, as_json: bool) -> None:
    """Replay an example conversation of several days into a folder, reopen it, and ask questions.

    Without --store, a new temporary folder is used; it is not deleted.

    With --json: {"folder", "replayed", "sessions": {"name": turns}, "records", "repeated": {…}, "problems",
    "answers": [{"question", "hits", "pack"}], "nothing": {"question", "hits"}, "try": [commands]}.
    """
    from reverie.memory import resolve_folder

    # The store of the environment is ignored, because it is a real memory.
    folder = resolve_folder(context.store or tempfile.mkdtemp(prefix="reverie-demo-"))
    view = DemoView(folder=folder)
    at = _Clock()
    with context.memory(create=True, store=str(folder), clock=at) as memory:
        if not yes and not _is_ours(memory) and not _confirm_replay(memory, folder):
            output.print_message("Nothing was changed.", quiet=context.quiet)
            return
        view.replayed = replay(memory, at)
    at.now = MORNING_AFTER
    with context.memory(store=str(folder), clock=at) as memory:
        _collect_answers(memory, view)
    if as_json:
        output.print_json(_to_json(view))
    elif output.is_terminal():
        _draw(view)
    else:
        _write(view)


# -- replaying ---------------------------------------------------------------------------------------


def replay(memory: Memory, at: _Clock) -> int:
    """Add every turn and record at its own time; continue an interrupted replay.

    Returns:
        The number of turns and records added.
    """
    done = _find_last_time(memory)
    steps = [
        step for step in [*_iterate_turns(memory), *_iterate_saves(memory)] if done is None or step[0] > done
    ]
    for moment, step in sorted(steps, key=lambda each: each[0]):
        at.now = moment
        step()
    return len(steps)


def _iterate_turns(memory: Memory) -> Iterator[tuple[datetime, partial[Any]]]:
    with as_file(files(__package__) / "demo_conversation.jsonl") as path:
        for piece in read_conversations(path):
            for turn in piece.turns:
                yield turn["at"], partial(memory.session(piece.session).add_many, [turn])


def _iterate_saves(memory: Memory) -> Iterator[tuple[datetime, partial[Any]]]:
    text = (files(__package__) / "demo_records.jsonl").read_text(encoding="utf-8")
    for line in text.splitlines():
        note = json.loads(line)
        moment = timestamps.parse_time(note.pop("at"))
        yield moment, partial(memory.save, note.pop("content"), source=SOURCE, origin="agent", **note)


def _find_last_time(memory: Memory) -> datetime | None:
    """Return the time of the last step of an earlier replay; None without one."""
    sessions = memory.scoped(EVERY_SCOPE).sessions()
    turn_times = [session.last_at for session in sessions if session.state.id.startswith(_PREFIX)]
    record_times = [record.last_seen_at for record in _list_saved(memory)]
    return max([*turn_times, *record_times], default=None)


def _list_saved(memory: Memory) -> list[Record]:
    return [record for record in memory.scoped(EVERY_SCOPE).list(limit=1000) if record.source == SOURCE]


def _is_ours(memory: Memory) -> bool:
    """Whether the memory is empty or holds the demo's conversation."""
    sessions = memory.scoped(EVERY_SCOPE).sessions()
    if not sessions:
        return not memory.scoped(EVERY_SCOPE).list(limit=1, archived=None)
    return any(session.state.id.startswith(_PREFIX) for session in sessions)


def _confirm_replay(memory: Memory, folder: Path) -> bool:
    records = output.count(memory.admin.stats().records, "record")
    question = f"{str(folder)!r} holds a memory with {records}. Add the demo's conversation to it?"
    return confirm(question, instead="--yes, or name another --store")


# -- asking ------------------------------------------------------------------------------------------


def _collect_answers(memory: Memory, view: DemoView) -> None:
    view.sessions = {
        each.state.id: each.turns
        for each in sorted(memory.scoped(EVERY_SCOPE).sessions(), key=lambda each: each.last_at)
        if each.state.id.startswith(_PREFIX)
    }
    view.correction = memory.turns(_CORRECTION[0], start=_CORRECTION[1])[0].content
    saved = _list_saved(memory)
    view.records = len(saved)
    view.repeated = max(saved, key=lambda record: record.seen_count, default=None)
    view.problems = memory.admin.check()
    for question in QUESTIONS:
        hits = memory.search(question, sources=SOURCES, limit=_SHOWN)
        pack = memory.session("demo:next-morning").context(question, record_shown=False)
        view.answers.append(DemoAnswer(question=question, hits=hits, pack=pack))
    view.nothing = memory.search(UNANSWERABLE, sources=SOURCES, limit=_SHOWN)


# -- output -----------------------------------------------------------------------------------------


def _to_json(view: DemoView) -> dict[str, Any]:
    return {
        "folder": str(view.folder),
        "replayed": view.replayed,
        "sessions": view.sessions,
        "records": view.records,
        "repeated": view.repeated and view.repeated.to_dict(),
        "problems": [{"what": problem.what, "fix": problem.fix} for problem in view.problems],
        "answers": [
            {
                "question": answer.question,
                "hits": [hit.to_dict() for hit in answer.hits],
                "pack": answer.pack.to_dict(),
            }
            for answer in view.answers
        ],
        "nothing": {"question": UNANSWERABLE, "hits": [hit.to_dict() for hit in view.nothing]},
        "try": view.commands(),
    }


def _describe_replay(view: DemoView) -> Iterable[str]:
    """Describe the replay, a sentence for each fact."""
    turns = output.count(sum(view.sessions.values()), "turn")
    extent = f"{turns} in {output.count(len(view.sessions), 'session')}, from 10 to 25 March 2025"
    again = "" if view.replayed else ", already replayed earlier"
    yield f"Ines writes a tide service with her agent Rook: {extent}{again}."
    yield f"On the first day she names a wrong port, and then: “{view.correction}”"
    if view.repeated is not None:
        times = {1: "once", 2: "twice"}.get(view.repeated.seen_count, f"{view.repeated.seen_count} times")
        yield (
            f"Rook saved {output.count(view.records, 'record')}. One was saved again and became no second "
            f"record; it is seen {times}: “{view.repeated.content}”"
        )
    sound = "is sound" if not view.problems else f"has {output.count(len(view.problems), 'problem')}"
    yield f"The memory was closed and opened again, and {sound}. The next morning it is context:"


def _format_unanswerable(view: DemoView) -> str:
    return "Nothing relevant." if not view.nothing else f"{output.count(len(view.nothing), 'hit')}."


def _write(view: DemoView) -> None:
    """Print the demo as plain lines."""
    for sentence in _describe_replay(view):
        click.echo(output.one_line(sentence))
    for answer in view.answers:
        click.echo(f"\n? {answer.question}")
        for hit in answer.hits:
            click.echo(f"  {hit.score:.2f}  {output.one_line(hit.content)}")
            click.echo(f"        {output.one_line(output.explain_hit(hit, answer.question))}")
        pack = answer.pack
        click.echo(f"  The prompt gets {pack.tokens:,} tokens of {pack.hard_tokens:,}:")
        for line in output.escape_text(pack.text).splitlines():
            click.echo(f"  | {line}")
    click.echo(f"\n? {UNANSWERABLE}\n  {_format_unanswerable(view)}")
    click.echo(output.escape_text(f"\nThe files are in {view.folder}. Try:"))
    for command in view.commands():
        click.echo(output.escape_text(f"  {command}"))


def _draw(view: DemoView) -> None:
    """Print the demo on a terminal."""
    from rich.padding import Padding
    from rich.rule import Rule
    from rich.text import Text

    from reverie.interfaces.cli import rich_output

    out = rich_output.create_console()
    out.print(Rule(Text("Reverie"), style="dim"))
    for sentence in _describe_replay(view):
        out.print(Padding(Text(output.one_line(sentence)), (1, 0, 0, 0)))
    for answer in view.answers:
        out.print()
        out.print(Text(answer.question, style="bold"))
        out.print()
        rich_output.print_hits(answer.hits[:1], answer.question, explain=True, out=out, now=MORNING_AFTER)
        rich_output.print_hits(answer.hits[1:], answer.question, out=out, now=MORNING_AFTER)
        pack = answer.pack
        title = f"what the prompt gets: {pack.tokens:,} of {pack.hard_tokens:,} tokens"
        text = Text(output.escape_text(pack.text), no_wrap=True, overflow="ellipsis")
        out.print(rich_output.render_panel(text, title=title))
    out.print()
    out.print(Text(UNANSWERABLE, style="bold"))
    out.print()
    out.print(Padding(Text(_format_unanswerable(view)), (0, 0, 1, 0)))
    out.print(Rule(Text("Your turn"), style="dim"))
    out.print(Text(output.escape_text(f"The files are in {view.folder}. Try:")))
    for command in view.commands():
        # Not through rich, which would break a long command where it cannot be pasted any more.
        click.echo(output.escape_text(f"  {command}"))
