"""Work of each hook: the turns to store, and the context to return to the agent.

The user's prompts and the answers become turns of one session; repeated events add no second turn. A prompt
is answered before it is stored, so that it never finds itself. An answer after an untrusted tool has the
origin of the tool. Before anything else, an event is written to a file. A hook that stores the event removes the file;
if the hook fails or takes too long, the next hook stores it. Nothing is written to standard output.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from fnmatch import fnmatchcase
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reverie.consolidation.rule_learning import TOOL_FAILURE
from reverie.context.pack import Pack, SectionName
from reverie.domain import provenance
from reverie.domain.conversation import ORIGIN, SIGNAL, UNCONFIRMED
from reverie.domain.errors import InvalidInput, ReverieError, StoreUnavailable
from reverie.domain.secrets.redactor import Redactor
from reverie.files.layout import HOOKS
from reverie.interfaces.hooks.events import (
    MARKS_LENGTH,
    TAIL_BYTES,
    HookEvent,
    mark_context,
    read_last_exchange,
)
from reverie.session import Session

if TYPE_CHECKING:
    from reverie.memory import Memory
    from reverie.scoped import ScopedMemory


def keep(event: HookEvent, folder: Path, redactor: Redactor) -> Path:
    """Write an event into a file of its own, with secrets redacted; return the file.

    Args:
        event: The event.
        folder: Folder of the memory on this machine.
        redactor: The rules for secrets.

    Raises:
        OSError: the file cannot be written.
    """
    from reverie.stores.sqlite.database_file import make_folder

    make_folder(folder / HOOKS)
    path = folder / HOOKS / f"{time.time_ns():020d}-{os.getpid()}.json"
    draft = path.with_name(f".{path.name}.new")
    values = event._asdict() | {"arguments": redactor.json_text(event.arguments)}
    with open(draft, "x", encoding="utf-8", opener=partial(os.open, mode=0o600)) as file:
        json.dump(redactor.json_value(values), file, ensure_ascii=False)
    draft.rename(path)
    return path


def iterate_kept(folder: Path, report: Callable[[str], object]) -> Iterator[tuple[Path, HookEvent]]:
    """Iterate over the kept events with their files, the oldest first; report a file that cannot be read."""
    for file in sorted((folder / HOOKS).glob("[0-9]*.json")):
        try:
            yield file, HookEvent(**json.loads(file.read_text("utf-8")))
        except FileNotFoundError:
            continue  # another hook has stored it meanwhile
        except (OSError, ValueError, TypeError):
            report(f"{str(file)!r} cannot be read: correct or remove it")


# -- turns ----------------------------------------------------------------------------------------


SETTLE_S = 0.5
"""Seconds to wait for an answer that is not in the transcript yet: Claude Code writes it up to 0.1 s later."""

SHOWN_ONCE: Mapping[SectionName, str] = {"pages": "pages_shown", "standing": "standing_shown"}
"""Sections that are written at the start and where they have changed since, each with the metadata key of a user's
turn for the digest of what the agent had read."""

SHOWN_AT_START = "shown_at_start"
"""Metadata key of a session: the ids of the memories that its agent read at the start, until the first prompt."""

_AT_START: tuple[SectionName, ...] = (
    *("profile", "pages", "standing", "summary", "notes", "recalled", "working"),
)
_PER_PROMPT: tuple[SectionName, ...] = ("recalled", "working")
_SPARE = 40  # characters of separators between sections, which no section counts
_ATTEMPTS = 100
_PAUSE_S = 0.01


class HookTarget(NamedTuple):
    """The memory, conversation and options for an event.

    Attributes:
        memory: The memory, with all its scopes.
        session: The conversation of the event.
        folder: Folder of the memory, or of what belongs to it, on this machine.
        kept: File of the event; None if it could not be written.
        max_chars: Maximum characters of output.
        report: Function that tells the user about a problem.
    """

    memory: Memory
    session: Session
    folder: Path
    kept: Path | None
    max_chars: int
    report: Callable[[str], object]


def add_exchange(event: HookEvent) -> HookEvent | None:
    """Return an event with the last exchange of its transcript; None for an answer that is nowhere."""
    if event.kind == "user-prompt":
        exchange = read_last_exchange(event.transcript, max_bytes=TAIL_BYTES)
    elif event.kind == "stop":
        exchange = read_last_exchange(event.transcript, answer=event.answer, settle_s=SETTLE_S)
        if not event.answer and not exchange.answer:
            return None
    elif event.kind == "session-end":
        exchange = read_last_exchange(event.transcript)
    else:
        return event
    return event._replace(answer=event.answer or exchange.answer, tools=exchange.tools, typed=exchange.typed)


def answer_event(event: HookEvent, target: HookTarget) -> str:
    """Handle an event; return the text for the agent, empty for none."""
    if event.kind not in ("session-start", "user-prompt"):
        _store(event, target)
        return ""
    session, limit = target.session, max(0, target.max_chars - _SPARE - MARKS_LENGTH) // 4
    pack = session.context(event.prompt, hard_tokens=min(target.memory.settings.hard_tokens, limit))
    if event.kind == "session-start":
        shown = " ".join(choice.hit.id for choice in pack.choices if choice.is_shown)
        if not _store(event._replace(metadata={SHOWN_AT_START: shown}), target):
            session.discard()  # what was shown may be shown again
        return _render_sections(pack, _AT_START, target)
    digests = {
        SHOWN_ONCE[section.name]: hashlib.sha256(section.text.encode()).hexdigest()[:12]
        for section in pack.sections
        if section.name in SHOWN_ONCE
    }
    last = next((turn for turn in reversed(session.turns()) if turn.role == "user"), None)
    read = session.state.metadata.get(SHOWN_AT_START, "").split() if last is None else ()
    _store(event._replace(metadata=digests), target)
    notes = [each.describe() for each in session.wishes]
    if waiting := target.memory.scoped(event.scope).forget_requests.list():
        notes.append(
            f"The user asked to forget something, and {len(waiting)} such requests wait for `reverie forget`."
        )
    names = set(_PER_PROMPT)
    if not any(choice.verdict == "selected" and not choice.recent for choice in pack.choices):
        names.discard("recalled")  # the newest records, which the start of the session has shown
    if last is not None:
        names |= {name for name, key in SHOWN_ONCE.items() if digests.get(key) != last.metadata.get(key)}
    return _render_sections(pack, names, target, notes, without=read)


# -- what is stored --------------------------------------------------------------------------------


def _store(event: HookEvent, target: HookTarget) -> bool:
    """Store an event after the kept ones; return False if the database is locked.

    The file of an event that is stored, or can never be stored, is removed.
    """
    sessions = [target.session]
    try:
        with _acquire_lock(target.folder):
            waiting: list[tuple[Path | None, HookEvent]] = [*iterate_kept(target.folder, target.report)]
            if target.kept is None:
                waiting.append((None, event))
            for file, kept in waiting:
                is_own = file == target.kept
                own = target.memory.scoped(kept.scope)
                session = target.session if is_own else own.session(kept.session)
                sessions.append(session)
                try:
                    _store_event(event if is_own else kept, session, own)
                except StoreUnavailable:
                    raise
                except ReverieError as error:
                    target.report(str(error))
                    if not isinstance(error, InvalidInput):
                        continue  # a later hook may be able to store it
                if file is not None:
                    file.unlink(missing_ok=True)
    except StoreUnavailable as error:
        for session in sessions:
            session.discard()  # closing the memory would wait once more
        noun = {"user-prompt": "prompt", "stop": "answer"}.get(event.kind, "event")
        later = " yet, the next hook does it" if target.kept is not None else ""
        target.report(f"this {noun} is not stored{later}: {error}")
        return False
    return True


def _store_event(event: HookEvent, session: Session, memory: ScopedMemory) -> None:
    """Store what an event says, unless it is stored already.

    Prompts that the transcript has as typed by now get the origin of their owner.
    """
    typed = {_split_redacted(each, session) for each in event.typed}
    for turn in session.turns() if typed else ():
        if UNCONFIRMED in turn.metadata and _split_redacted(turn.content, session) in typed:
            session.set_turn_metadata(turn.id, {ORIGIN: None, UNCONFIRMED: None})
    match event.kind:
        case "session-start" if event.source == "compact":
            session.reset()
        case "session-start" if shown := event.metadata.get(SHOWN_AT_START):
            session.set_metadata(SHOWN_AT_START, shown)
        case "user-prompt":
            _store_prompt(event, session, is_confirmed=_split_redacted(event.prompt, session) in typed)
        case "stop":
            _store_answer(event, session, memory.settings.trusted_tools)
        case "tool-failure":
            _store_tool_failure(event, session)
        case "session-end":
            memory.consolidate_session(session.id)
    session.flush()


def _split_redacted(text: str, session: Session) -> tuple[str, ...]:
    """Return the words of a text as it is stored."""
    return tuple(session.redact_text(text).split())


def _store_prompt(event: HookEvent, session: Session, *, is_confirmed: bool) -> None:
    """Store a prompt; if the agent has a transcript, as its owner's only after the transcript has it as typed."""
    prompt, turns = event.prompt, session.turns()
    if turns and (turns[-1].role, turns[-1].content) == ("user", session.redact_text(prompt)):
        return
    metadata = dict(event.metadata)
    if SHOWN_AT_START in session.state.metadata:
        session.set_metadata(SHOWN_AT_START, None)
    if not provenance.is_typed(prompt):
        metadata[ORIGIN] = "tool"
    elif event.transcript and not is_confirmed:
        metadata |= {ORIGIN: "tool", UNCONFIRMED: "yes"}
    session.add("user", prompt, at=datetime.fromisoformat(event.at), metadata=metadata)


def _store_answer(event: HookEvent, session: Session, trusted_tools: str | None) -> None:
    """Store an answer, and its question if no event has reported that."""
    answer, turns = event.answer, session.turns()
    since = list(takewhile(lambda turn: turn.role != "user", reversed(turns)))
    if any((turn.role, turn.content) == ("assistant", session.redact_text(answer)) for turn in since):
        return
    if event.typed and (not turns or turns[-1].role == "assistant"):
        asked = next((turn.content for turn in reversed(turns) if turn.role == "user"), None)
        if asked != session.redact_text(event.typed[0]):
            session.add("user", event.typed[0], at=datetime.fromisoformat(event.at))
    patterns = provenance.parse_trusted_tools(trusted_tools)
    is_trusted = event.tools is not None and all(
        any(fnmatchcase(name, each) or fnmatchcase(name.rpartition("__")[2], each) for each in patterns)
        for name in event.tools
    )
    is_ours = is_trusted or provenance.is_said_by_owner(answer, session.turns())
    metadata = None if is_ours else {ORIGIN: "tool"}  # an untrusted or unknown tool may have said it
    session.add("assistant", answer, at=datetime.fromisoformat(event.at), metadata=metadata)


def _store_tool_failure(event: HookEvent, session: Session) -> None:
    call = event.call or hashlib.sha256(f"{event.arguments}\n{event.error}".encode()).hexdigest()[:12]
    if all(turn.tool_call_id != call for turn in session.turns()):
        name = event.tool or "tool"
        tool_call: dict[str, Any] = {"id": call, "name": name, "arguments": event.arguments}
        metadata = {SIGNAL: TOOL_FAILURE}
        failure = {"role": "tool", "content": event.error, "tool_call_id": call, "metadata": metadata}
        session.add_many([{"role": "assistant", "content": "", "tool_calls": [tool_call]}, failure])


# -- output ----------------------------------------------------------------------------------


def _render_sections(
    pack: Pack,
    names: Collection[str],
    target: HookTarget,
    notes: Sequence[str] = (),
    *,
    without: Collection[str] = (),
) -> str:
    """Return sections of a pack after notes on the wishes of the user; no memory is in two of them.

    Args:
        pack: The pack.
        names: Names of the sections.
        target: The memory, conversation and options.
        notes: Notes on what became of the wishes.
        without: Ids of memories that the agent has read already.
    """
    texts = {section.name: section.text for section in pack.sections if section.name in names}
    recalled = texts.pop("recalled", "")
    others = "\n".join(texts.values())
    lines = {
        choice.line
        for choice in pack.choices
        if choice.hit.id in without or (choice.hit.record is not None and choice.hit.record.content in others)
    }
    if recalled:
        blocks = (_remove_lines(block, lines) for block in recalled.split("\n\n"))
        if left := "\n\n".join(filter(None, blocks)):
            texts["recalled"] = left
    if not texts:
        return mark_context("\n".join(notes)) if notes else ""
    parts = [texts[section.name] for section in pack.sections if section.name in texts]
    first = 1 if pack.sections[0].name == "profile" and "profile" in texts else 0
    text = "\n\n".join([*parts[:first], *notes, *([pack.notice] if pack.notice else []), *parts[first:]])
    room = target.max_chars - MARKS_LENGTH
    return mark_context(text[:room]) if room > 0 else ""


def _remove_lines(block: str, lines: Collection[str]) -> str:
    """Return a header and its lines without some of them; nothing if none is left."""
    header, *rest = block.split("\n")
    left = [line for line in rest if line not in lines]
    return "\n".join([header, *left]) if left or not rest else ""


@contextmanager
def _acquire_lock(folder: Path) -> Iterator[None]:
    """Hold a lock while an event is checked and stored; continue without it after a second."""
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        for _ in range(_ATTEMPTS):
            with suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(_PAUSE_S)
        yield
    finally:
        os.close(handle)
