"""The command that reads a file of conversations into the memory, and adds no turn twice."""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reverie.admin.transfer.conversations import FORMATS, Format, ImportedConversation, read_conversations
from reverie.domain.errors import InvalidInput
from reverie.domain.text import timestamps
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import Command, CommandContext, as_json, invocation, store_option

if TYPE_CHECKING:
    from reverie.memory import Memory

BATCH = 200
"""Turns added in one transaction: an interruption loses no more, and no other process waits long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestRun:
    """What came of reading conversations in.

    Attributes:
        sessions: How many sessions they belong to.
        turns: How many turns they have.
        new: How many of these were not there before.
    """

    sessions: int
    turns: int
    new: int


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--to", metavar="PATH", expose_value=False, callback=store_option("folder"), help="The same as --folder."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="auto",
    show_default=True,
    help="What the file is; auto looks at its beginning.",
)
@click.option("--session", metavar="NAME", help="Call the session this; only for a file that has one.")
@as_json
@invocation
def ingest(asked: CommandContext, /, file: Path, form: Format, session: str | None, as_json: bool) -> None:
    """Read conversations from FILE into the memory.

    JSON lines have one message a line, {"role", "content"} and if they like "at", "session", "speaker",
    "tool_calls"; LoCoMo files are read too. FILE is read through once before anything is stored. A turn that
    its session has already is not added again, so running this twice, even at once, or after an interruption,
    is safe.

    With --json: {"file": text, "folder": text, "sessions": number, "turns": number, "new": number}.
    """
    turns = _validate_file(file, form, session)
    with (
        asked.memory(create=True) as memory,
        _lock_folder(memory.path, quiet=asked.quiet),
        output.show_progress("turns", turns, quiet=asked.quiet) as progress,
    ):
        intake = take_in(memory, read_conversations(file, format=form), name=session, progress=progress)
        folder = str(memory.path)
    if as_json:
        numbers = {"sessions": intake.sessions, "turns": intake.turns, "new": intake.new}
        output.print_json({"file": str(file), "folder": folder, **numbers})
    elif not asked.quiet:
        what = f"{output.count(intake.turns, 'turn')} in {output.count(intake.sessions, 'session')}"
        there = intake.turns - intake.new
        click.echo(
            output.escape_text(f"{what}: {intake.new:,} new, {there:,} there already. Folder: {folder}")
        )


def take_in(
    memory: Memory,
    pieces: Iterable[ImportedConversation],
    *,
    name: str | None = None,
    progress: Callable[[int], None] = lambda turns: None,
) -> IngestRun:
    """Add the turns of conversations that their sessions do not have yet.

    A turn counts as there when the session has one with the same role, speaker, words and tool calls, and,
    where the file gives it, the same time; said twice in the file, it is there twice.

    Args:
        memory: Where they go.
        pieces: The conversations, in order.
        name: What to call their session instead of the name they come with.
        progress: Told how many turns were dealt with since it was last told.
    """
    there: dict[str, Counter[bytes]] = {}
    turns = new = 0
    for piece in pieces:
        session = name or piece.session
        if session not in there:
            there[session] = Counter(_compute_marks(turn.to_dict() for turn in memory.turns(session)))
        fresh = list(_select_new_turns(there[session], piece.turns))
        progress(len(piece.turns) - len(fresh))
        for start in range(0, len(fresh), BATCH):
            batch = fresh[start : start + BATCH]
            memory.session(session).add_many(batch)
            progress(len(batch))
        turns, new = turns + len(piece.turns), new + len(fresh)
    return IngestRun(sessions=len(there), turns=turns, new=new)


def _compute_marks(turns: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Each stored turn's mark with its time, and without."""
    for turn in turns:
        yield _mark(turn, with_time=True)
        yield _mark(turn, with_time=False)


def _select_new_turns(there: Counter[bytes], turns: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for turn in turns:
        mark = _mark(turn, with_time="at" in turn)
        if there[mark] > 0:
            there[mark] -= 1
        else:
            yield turn


def _mark(turn: Mapping[str, Any], *, with_time: bool) -> bytes:
    """What makes a turn the same as another, in 16 bytes, because a long file has many."""
    calls = [(_get_part(call, "id"), _get_part(call, "name")) for call in turn.get("tool_calls", ())]
    parts = [turn["role"], turn["content"], turn.get("speaker", ""), turn.get("tool_call_id", ""), calls]
    if with_time:
        at = turn["at"]
        parts.append(timestamps.format_time(at) if isinstance(at, datetime) else at)
    return blake2b(repr(parts).encode("utf-8", "backslashreplace"), digest_size=16).digest()


def _get_part(call: Any, name: str) -> Any:
    return call[name] if isinstance(call, Mapping) else getattr(call, name)


def _validate_file(file: Path, form: Format, session: str | None) -> int:
    """Read the whole file, so that a fault is found before anything is stored; how many turns it has."""
    names, turns = set[str](), 0
    for piece in read_conversations(file, format=form):
        names.add(piece.session)
        turns += len(piece.turns)
    if session is not None and len(names) > 1:
        raise InvalidInput(f"--session is {session!r}, but {file} holds {len(names)} sessions: leave it out")
    return turns


@contextmanager
def _lock_folder(folder: Path | None, *, quiet: bool) -> Iterator[None]:
    """Wait for whoever else ingests into the folder: two who look for what is new at once both find it so.

    The lock is the system's, on the folder itself: it leaves no file and goes with the process holding it.
    """
    if folder is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            output.print_message("Waiting for another ingest into the same folder.", quiet=quiet)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
