"""Work of each hook: the turns to store, and the context to return to the agent.

The user's prompts and the answers become turns of one session; repeated events add no second turn. A prompt
is answered before it is stored, so that it never finds itself. An answer after an untrusted tool has the
origin of the tool. Nothing is written to standard output.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reverie.consolidation.rule_learning import TOOL_FAILURE
from reverie.context.pack import Pack, SectionName
from reverie.domain import provenance
from reverie.domain.conversation import ORIGIN, SIGNAL, Turn
from reverie.domain.errors import StoreUnavailable
from reverie.interfaces.hooks.events import HookEvent
from reverie.interfaces.hooks.injection import MARKS_LENGTH, has_context, mark_context
from reverie.interfaces.hooks.transcript import TranscriptExchange, read_last_exchange
from reverie.session import Session

if TYPE_CHECKING:
    from reverie.memory import Memory
    from reverie.scoped import ScopedMemory

SETTLE_S = 1.0
"""Seconds to wait for an answer that is not in the transcript yet."""

SHOWN_ONCE: Mapping[SectionName, str] = {"pages": "pages_shown", "standing": "standing_shown"}
"""Sections that are written at the start and where they have changed since, each with the metadata key of a user's
turn for the digest of what the agent had read."""

COMPACTED = "compacted"
"""Metadata key of a session whose agent compacted its window during an answer."""

_NOT_TYPED = re.compile(r"<[a-z]+(?:[-_][a-z]+)+[\s>]")
"""Beginning of prompts that were not typed by the user, such as `<task-notification>`."""

_SERVER = re.compile(r"mcp__.+?__")
_AT_START: tuple[SectionName, ...] = (
    *("profile", "pages", "standing", "summary", "notes", "recalled", "working"),
)
_PER_PROMPT: tuple[SectionName, ...] = ("recalled", "working")
_SPARE = 40  # characters of separators between sections, which no section counts
_ATTEMPTS = 100
_PAUSE_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class HookTarget:
    """The memory, conversation and options for an event.

    Attributes:
        memory: The memory, or a scope of it.
        session: The conversation of the event.
        folder: Folder of the memory, or of its indexes, on this machine.
        max_chars: Maximum characters of output.
        everything: Whether every prompt gets the full context, not only what is new.
        report: Function that tells the user about a problem.
    """

    memory: Memory | ScopedMemory
    session: Session
    folder: Path
    max_chars: int
    everything: bool
    report: Callable[[str], None]


def answer_event(name: str, event: HookEvent, target: HookTarget) -> str:
    """Handle an event; return the text for the agent, empty for none.

    Args:
        name: One of `EVENTS`.
        event: The event; it has content.
        target: Memory and options.
    """
    return _EVENTS[name](event, target)


def _handle_session_start(event: HookEvent, target: HookTarget) -> str:
    session = target.session
    if event.source == "compact":
        _reset_session(session)
    pack = session.context("", hard_tokens=_compute_token_budget(target))
    session._flush()
    return _render_sections(pack, _AT_START, target)


def _handle_user_prompt(event: HookEvent, target: HookTarget) -> str:
    session = target.session
    pack = session.context(event.prompt, hard_tokens=_compute_token_budget(target))
    digests, turns = _hash_sections(pack), session.turns()
    try:
        with _acquire_lock(target.folder):
            turns = _store_prompt(event.prompt, session, digests)
    except StoreUnavailable as error:
        session._discard_cache()  # closing the memory would wait once more
        target.report(f"this prompt is not stored yet: {error}")
    if target.everything:
        return _render_sections(pack, _AT_START, target)
    names = set(_PER_PROMPT)
    if not any(choice.verdict == "selected" and not choice.recent for choice in pack.choices):
        names.discard("recalled")  # the newest records, which the start of the session has shown
    if (last := next((turn for turn in reversed(turns) if turn.role == "user"), None)) is not None:
        names |= {name for name, key in SHOWN_ONCE.items() if digests.get(key) != last.metadata.get(key)}
    return _render_sections(pack, names, target)


def _store_prompt(prompt: str, session: Session, digests: Mapping[str, str]) -> list[Turn]:
    """Store a prompt that is not stored already; return the turns before it."""
    turns = session.turns()
    if turns and (turns[-1].role, turns[-1].content) == ("user", session._redact(prompt)):
        session._flush()
        return turns
    metadata = dict(digests)
    if _NOT_TYPED.match(prompt) or has_context(prompt):
        metadata[ORIGIN] = "tool"
    session.add("user", prompt, metadata=metadata)
    return turns


def _stop(event: HookEvent, target: HookTarget) -> str:
    session = target.session
    exchange = read_last_exchange(event.transcript, settle_s=0.0 if event.answer else SETTLE_S)
    answer = event.answer or exchange.answer
    if not answer:
        return ""
    with _acquire_lock(target.folder):
        turns = session.turns()
        if any(turn.content == session._redact(answer) for turn in _iterate_answers(turns)):
            return ""
        if (not turns or turns[-1].role == "assistant") and _is_new_prompt(exchange.prompt, turns, session):
            session.add("user", exchange.prompt)
        origin = _determine_origin(answer, exchange, session, target)
        session.add("assistant", answer, metadata={ORIGIN: origin} if origin else None)
        if session.state.metadata.get(COMPACTED):
            session.set_metadata(COMPACTED, None)
            session.reset()
    return ""


def _handle_tool_failure(event: HookEvent, target: HookTarget) -> str:
    session = target.session
    call = event.call or hashlib.sha256(f"{event.arguments}\n{event.error}".encode()).hexdigest()[:12]
    with _acquire_lock(target.folder):
        if all(turn.tool_call_id != call for turn in session.turns()):
            name = event.tool or "tool"
            tool_call: dict[str, Any] = {"id": call, "name": name, "arguments": event.arguments}
            session.add_many(
                [
                    {"role": "assistant", "content": "", "tool_calls": [tool_call]},
                    {
                        "role": "tool",
                        "content": event.error,
                        "tool_call_id": call,
                        "metadata": {SIGNAL: TOOL_FAILURE},
                    },
                ]
            )
    return ""


def _handle_session_end(event: HookEvent, target: HookTarget) -> str:
    del event
    target.memory.consolidate_session(target.session.id)
    return ""


_EVENTS: Mapping[str, Callable[[HookEvent, HookTarget], str]] = {
    "session-start": _handle_session_start,
    "user-prompt": _handle_user_prompt,
    "stop": _stop,
    "tool-failure": _handle_tool_failure,
    "session-end": _handle_session_end,
}


# -- output ----------------------------------------------------------------------------------


def _compute_token_budget(target: HookTarget) -> int:
    return min(target.memory.settings.hard_tokens, max(0, target.max_chars - _SPARE - MARKS_LENGTH) // 4)


def _render_sections(pack: Pack, names: Collection[str], target: HookTarget) -> str:
    parts = [section.text for section in pack.sections if section.name in names]
    if not parts:
        return ""
    first = 1 if pack.sections[0].name == "profile" and "profile" in names else 0
    text = "\n\n".join([*parts[:first], *([pack.notice] if pack.notice else []), *parts[first:]])
    room = target.max_chars - MARKS_LENGTH
    return mark_context(text[:room]) if room > 0 else ""


def _hash_sections(pack: Pack) -> dict[str, str]:
    """Return the digests of those sections of `SHOWN_ONCE` that a pack has, by their metadata keys."""
    return {
        SHOWN_ONCE[section.name]: hashlib.sha256(section.text.encode()).hexdigest()[:12]
        for section in pack.sections
        if section.name in SHOWN_ONCE
    }


# -- storage ----------------------------------------------------------------------------------------


def _iterate_answers(turns: Sequence[Turn]) -> Iterator[Turn]:
    """Iterate over the assistant's turns since the user's last turn, the latest first."""
    for turn in reversed(turns):
        if turn.role == "user":
            return
        if turn.role == "assistant":
            yield turn


def _is_new_prompt(prompt: str, turns: Sequence[Turn], session: Session) -> bool:
    """Whether a transcript's last prompt was typed by the user and came with no event."""
    if not prompt or prompt.startswith("<") or has_context(prompt):
        return False
    last = next((turn for turn in reversed(turns) if turn.role == "user"), None)
    return last is None or last.content != session._redact(prompt)


def _determine_origin(answer: str, exchange: TranscriptExchange, session: Session, target: HookTarget) -> str:
    """Return `tool` if the answer may depend on an untrusted or unknown tool; else an empty text."""
    if exchange.tools is not None and all(_is_trusted(name, target) for name in exchange.tools):
        return ""
    return "" if provenance.is_said_by_owner(answer, session.turns()) else "tool"


def _is_trusted(name: str, target: HookTarget) -> bool:
    plain = _SERVER.sub("", name, count=1)
    patterns = provenance.parse_trusted_tools(target.memory.settings.trusted_tools)
    return plain in provenance.ACKNOWLEDGING or any(
        fnmatchcase(each, pattern) for pattern in patterns for each in (name, plain)
    )


def _reset_session(session: Session) -> None:
    """Reset what was shown, after the agent has compacted its window.

    During an answer, the reset waits for the answer, so that it is stored with its question.
    """
    turns = session.turns()
    if turns and turns[-1].role == "assistant" and not turns[-1].tool_calls:
        session.reset()
    elif turns:
        session.set_metadata(COMPACTED, "yes")


@contextmanager
def _acquire_lock(folder: Path) -> Iterator[None]:
    """Hold a lock while an event is checked and stored; continue without it after a second."""
    import fcntl
    import os
    import time

    handle = os.open(folder, os.O_RDONLY)
    try:
        for _ in range(_ATTEMPTS):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                time.sleep(_PAUSE_S)
            else:
                break
        yield
    finally:
        os.close(handle)
