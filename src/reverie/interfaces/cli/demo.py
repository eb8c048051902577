"""The command `demo`: what Reverie does, on one screen.

A process stores three days of conversation and is killed. Another process opens the folder and asks questions.
Only the messages, the days and the questions are written here; every other line is what the memory returned.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.record import STANDING
from reverie.domain.text import timestamps
from reverie.interfaces.cli import output
from reverie.interfaces.cli.commands.changes import find_last_batch
from reverie.interfaces.cli.options import CommandContext, command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reverie.memory import Memory

DAYS = (
    (("Staging runs on port 5432.", "OK, 5432."), ("Never deploy on a Friday.", "Understood.")),
    (("My daughter Nell is allergic to sesame.", "I'll keep that in mind."),),
    (("Staging moved to port 5433.", "OK, 5433 from now on."),),
)
"""Messages and replies of a Monday, a Tuesday and a Wednesday."""

PORT = "Which port is staging on?"
DEPLOY = "Can you deploy the fix tomorrow?"
UNANSWERABLE = (
    *("Which airline did I book?", "What is my blood type?", "When does my passport expire?"),
    *("Which dentist do I see?", "What is the name of my cat?", "How much is the rent?"),
    *("How old is the dishwasher?", "Where is the spare key?", "What did the plumber charge?"),
)
"""Questions about facts that were never said. The demo draws one; the memory finds nothing for most, not for all."""

MONDAY = timestamps.utc_now().replace(hour=9, minute=0, second=0, microsecond=0)
MONDAY -= timedelta(days=MONDAY.weekday() + 7)
"""Morning of the Monday of last week."""

THURSDAY = MONDAY + timedelta(days=len(DAYS))


@command()
def demo(context: CommandContext) -> None:
    """Replay three days of conversation, kill the process, and ask the memory questions.

    Without --store, a new temporary folder is used; it is not deleted. With --store, the folder must be new or
    empty.
    """
    start = time.perf_counter()
    # The store of the environment is ignored, because it is a real memory.
    given = context.store
    folder = tempfile.mkdtemp(prefix="reverie-demo-") if given is None else str(context.resolve_folder())
    if os.path.isdir(folder) and os.listdir(folder):
        raise InvalidInput(f"{folder!r} is not empty. Name a new folder with --store.")
    click.echo(f"New memory in {output.escape_text(folder)}: no model, no API key, no server.\n")
    ending = _run_replay(folder, context.settings)
    with context.memory(store=folder, clock=lambda: THURSDAY) as memory:
        problems = output.count(len(memory.admin.check()), "problem")
        click.echo(f"\nKilled with {ending}. On Thursday another process opens the folder: {problems}.\n")
        for line in _answer(memory):
            click.echo(output.escape_text(line))
    program = "reverie" if shutil.which("reverie") else shlex.quote(sys.argv[0])
    click.echo(
        f"\n{time.perf_counter() - start:.1f} s. Nothing is scripted but messages, days and questions. Try:"
    )
    where = f"--store {output.escape_text(shlex.quote(folder))}"
    click.echo(f"   {program} recall 'what can I cook for Nell?' {where}")
    click.echo(f"   {program} history --limit 5 {where}")


def _run_replay(folder: str, settings: str | None) -> str:
    """Replay the conversation in another process, print what it prints, and return the signal that ended it."""
    arguments = [sys.executable, "-m", __name__, folder, *([settings] if settings else [])]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        for line in process.stdout:
            click.echo(line, nl=False)
    if process.returncode >= 0:
        raise click.exceptions.Exit(process.returncode)  # it has said why
    return signal.Signals(-process.returncode).name


def replay(folder: str, settings: str | None = None) -> None:
    """Store the conversation, print what is learned from it, and kill this process."""
    now = MONDAY
    with CommandContext(settings=settings).memory(create=True, store=folder, clock=lambda: now) as memory:
        known: set[str] = set()
        for number, exchanges in enumerate(DAYS):
            now = MONDAY + timedelta(days=number)
            session = memory.session(f"chat:{now:%a}".lower())
            for place, (message, reply) in enumerate(exchanges):
                session.add("user", message)
                session.add("assistant", reply)
                new = [record for record in memory.list() if record.id not in known]
                known.update(record.id for record in new)
                kinds = ("rule" if record.kind in STANDING else record.kind for record in new)
                saved = ", ".join(f"{kind} {record.id[:6]}" for kind, record in zip(kinds, new, strict=True))
                day = "" if place else f"{now:%a}"
                print(f"{day:3}  you: {message:42}saved {saved or 'nothing'}")  # noqa: T201 - to the parent
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)


def _answer(memory: Memory) -> Iterator[str]:
    """Yield the questions with their answers, and what an undo changes."""
    with suppress(NotFound):  # a memory without an embedder
        memory.admin.embed()  # or the answers would depend on how far the background has got
    yield from _find(memory, PORT)
    pack = memory.session("chat:thu").context(DEPLOY, record_shown=False)
    yield f"\n{DEPLOY}  (tomorrow is Friday)"
    yield f"   The prompt, {pack.tokens} of {pack.hard_tokens:,} tokens:"
    yield from (f"   | {line}" for line in pack.text.splitlines() if line)
    question = random.choice(UNANSWERABLE)
    yield f"\n{question}  (drawn from {len(UNANSWERABLE)} questions about facts that were never said)"
    pack = memory.session("chat:thu").context(question, record_shown=False)
    recalled = "\n".join(section.text for section in pack.sections if section.name == "recalled")
    yield from (f"   | {line}" for line in recalled.splitlines() if line)
    memory.history.undo(batch=find_last_batch(memory))
    yield "\n$ reverie undo --last"
    yield from _find(memory, PORT)


def _find(memory: Memory, question: str) -> Iterator[str]:
    """Yield a question and its hits."""
    yield question
    hits = memory.search(question, sources="records")
    for hit in hits:
        state = output.describe_state(hit.record, THURSDAY) if hit.record else []
        yield f"   {hit.score:.2f}  {hit.content:30}  {', '.join(state)}".rstrip()
    if not hits:
        yield "   No relevant records."


if __name__ == "__main__":
    replay(*sys.argv[1:])
