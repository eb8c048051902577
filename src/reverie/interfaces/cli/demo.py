"""The command `demo`: replay a conversation into a folder, reopen it, and ask questions.

The two JSON-lines files in this folder contain the conversation and the records that the agent saved. They
are replayed with the clock of their days, so that the scores are always the same.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

import click

from reverie.admin.transfer.formats.messages import read_conversations
from reverie.domain.errors import InvalidInput
from reverie.domain.scope import EVERY_SCOPE
from reverie.domain.text import timestamps
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import CommandContext, command
from reverie.search.hits import SOURCES

if TYPE_CHECKING:
    from reverie.domain.record import Record
    from reverie.memory import Memory

QUESTIONS = (
    "Which port is the staging database on?",
    "Why did the gauge-sync job fail, and what fixed it?",
    "How does Ines like her answers?",
)
UNANSWERABLE = "Whose hamster sneezes?"
"""Question about a topic that never came up. With vectors something is near, with a low score."""

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


@command()
def demo(context: CommandContext) -> None:
    """Replay an example conversation of several days into a folder, reopen it, and ask questions.

    Without --store, a new temporary folder is used; it is not deleted. A folder with another memory is refused.
    """
    # The store of the environment is ignored, because it is a real memory.
    folder = (
        tempfile.mkdtemp(prefix="reverie-demo-") if context.store is None else str(context.resolve_folder())
    )
    at = _Clock()
    with context.memory(create=True, store=folder, clock=at) as memory:
        if not _is_ours(memory):
            raise InvalidInput(f"{folder!r} holds a memory: name an empty folder with --store")
        added = replay(memory, at)
    at.now = MORNING_AFTER
    with context.memory(store=folder, clock=at) as memory:
        if memory.admin.stats().vectors is not None:
            memory.admin.embed()  # or the answers would depend on how far the background has got
        for sentence in _describe_replay(memory, added=added):
            click.echo(output.one_line(sentence))
        for question in QUESTIONS:
            _ask(memory, question)
        if not _print_hits(memory, UNANSWERABLE):
            click.echo("  Nothing relevant.")
        commands = list_commands(folder, _list_saved(memory))
    click.echo(output.escape_text("\n  ".join([f"\nThe files are in {folder}. Try:", *commands])))


def replay(memory: Memory, at: _Clock) -> int:
    """Add every turn and record at its own time; continue an interrupted replay.

    Returns:
        The number of turns and records added.
    """
    sessions = memory.scoped(EVERY_SCOPE).sessions()
    done = max(
        [*(each.last_at for each in sessions), *(each.last_seen_at for each in _list_saved(memory))],
        default=None,
    )
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


def _list_saved(memory: Memory) -> list[Record]:
    return [record for record in memory.scoped(EVERY_SCOPE).list(limit=1000) if record.source == SOURCE]


def _is_ours(memory: Memory) -> bool:
    """Whether the memory is empty, or its conversations are the demo's."""
    everything = memory.scoped(EVERY_SCOPE)
    if sessions := everything.sessions():
        return all(each.state.id.startswith(_PREFIX) for each in sessions)
    return not everything.list(limit=1, archived=None)


def _describe_replay(memory: Memory, *, added: int) -> Iterator[str]:
    """Describe the replay, a sentence for each fact."""
    sessions = memory.scoped(EVERY_SCOPE).sessions()
    turns = output.count(sum(each.turns for each in sessions), "turn")
    extent = f"{turns} in {output.count(len(sessions), 'session')}, from 10 to 25 March 2025"
    again = "" if added else ", already replayed earlier"
    yield f"Ines writes a tide service with her agent Rook: {extent}{again}."
    correction = memory.turns(_CORRECTION[0], start=_CORRECTION[1])[0].content
    yield f"On the first day she names a wrong port, and then: “{correction}”"
    saved = _list_saved(memory)
    repeated = max(saved, key=lambda record: record.seen_count)
    times = {1: "once", 2: "twice"}.get(repeated.seen_count, f"{repeated.seen_count} times")
    yield (
        f"Rook saved {output.count(len(saved), 'record')}. One was saved again and became no second "
        f"record; it is seen {times}: “{repeated.content}”"
    )
    problems = memory.admin.check()
    sound = "is sound" if not problems else f"has {output.count(len(problems), 'problem')}"
    yield f"The memory was closed and opened again, and {sound}. The next morning it is context:"


def _ask(memory: Memory, question: str) -> None:
    """Print a question with its hits and the prompt that it produces."""
    _print_hits(memory, question)
    pack = memory.session("demo:next-morning").context(question, record_shown=False)
    click.echo(f"  The prompt gets {pack.tokens:,} tokens of {pack.hard_tokens:,}:")
    for line in output.escape_text(pack.text).splitlines():
        click.echo(f"  | {line}")


def _print_hits(memory: Memory, question: str) -> int:
    """Print a question with its hits; return their number."""
    click.echo(f"\n? {question}")
    hits = memory.search(question, sources=SOURCES, limit=_SHOWN)
    for hit in hits:
        click.echo(f"  {hit.score:.2f}  {output.one_line(hit.content)}")
        click.echo(f"        {output.one_line(output.explain_hit(hit, question))}")
    return len(hits)


def list_commands(folder: str, saved: list[Record]) -> list[str]:
    """Return commands to try on the folder, quoted for a shell."""
    program = "reverie" if shutil.which("reverie") else shlex.quote(sys.argv[0])
    place = f"--store {shlex.quote(folder)}"
    return [
        f"{program} recall 'When is the launch?' --explain {place}",
        f"{program} context demo:rehearsal 'Shall we deploy on Friday?' --explain {place}",
        f"{program} history {max(saved, key=lambda record: record.seen_count).id} {place}",
        f"{program} remember 'Bosun is a dog' --tag dog {place}",
    ]
