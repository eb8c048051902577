"""Work of each hook: the turns to store, and the context to return to the agent.

What the user says and what is answered become turns of one session, each once however often its event comes.
Reading comes first, so that a prompt never finds itself. What the assistant says after a tool that is not
trusted counts as the tool's word. Writes nothing to standard output.
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
from reverie.domain.errors import InvalidInput
from reverie.interfaces.hooks.events import HookEvent
from reverie.interfaces.hooks.transcript import TranscriptExchange, read_last_exchange
from reverie.session import Session

if TYPE_CHECKING:
    from reverie.memory import Memory
    from reverie.scoped import ScopedMemory
    from reverie.settings import Settings

SETTLE_S = 1.0
"""Seconds that an answer is waited for which stands neither in the event nor in the transcript yet."""

PAGES_SHOWN = "pages_shown"
"""The metadata of a user's turn that say which `MEMORY.md` the agent had read by then."""

COMPACTED = "compacted"
"""The metadata of a session whose agent shortened its own window in the middle of an answer."""

_NOT_TYPED = re.compile(r"<[a-z]+(?:-[a-z]+)+[\s>]")
"""How what an agent passes on as a prompt begins, such as `<task-notification>`: nobody typed it."""

_SERVER = re.compile(r"mcp__.+?__")
_STANDING: tuple[SectionName, ...] = ("profile", "pages", "summary", "notes", "recalled", "working")
_ASKED: tuple[SectionName, ...] = ("recalled", "working")
_SPARE = 40  # characters of separators between sections, which no section counts
_ATTEMPTS = 100
_PAUSE_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class HookTarget:
    """The memory, folder and options for an event.

    Attributes:
        memory: The memory, or a scope of one.
        folder: The memory's folder.
        settings: The memory's settings.
        agent: What the ids of its sessions begin with.
        max_chars: Characters that the agent reads at most.
        everything: Whether every prompt is given all that stands in prompts, not only what is new.
    """

    memory: Memory | ScopedMemory
    folder: Path
    settings: Settings
    agent: str
    max_chars: int
    everything: bool = False

    def session(self, event: HookEvent) -> Session:
        """Return the session of an event.

        Raises:
            InvalidInput: the event names none.
        """
        if not event.session:
            raise InvalidInput("the event has no session_id: it cannot be told which conversation it is of")
        return self.memory.session(f"{self.agent}:{event.session}")


def answer_event(name: str, event: HookEvent, place: HookTarget) -> str:
    """Handle an event; return the text for the agent, empty for none.

    Args:
        name: One of `EVENTS`.
        event: The event.
        place: Where it belongs.
    """
    return _EVENTS[name](event, place)


def _handle_session_start(event: HookEvent, place: HookTarget) -> str:
    session = place.session(event)
    if event.source == "compact":
        _begin_anew(session)
    pack = session.context("", hard_tokens=_compute_token_budget(place))
    session._flush()
    return _render_sections(pack, _STANDING, place)


def _handle_user_prompt(event: HookEvent, place: HookTarget) -> str:
    if not event.prompt:
        return ""
    session = place.session(event)
    pack = session.context(event.prompt, hard_tokens=_compute_token_budget(place))
    pages = _hash_pages(pack)
    with _acquire_lock(place.folder):
        said = session.turns()
        if not said or (said[-1].role, said[-1].content) != ("user", session._redact(event.prompt)):
            metadata = {PAGES_SHOWN: pages}
            if _NOT_TYPED.match(event.prompt):
                metadata[ORIGIN] = "tool"
            session.add("user", event.prompt, metadata=metadata)
        else:
            session._flush()
    if place.everything:
        return _render_sections(pack, _STANDING, place)
    wanted = set(_ASKED)
    if not any(choice.verdict == "selected" and not choice.recent for choice in pack.choices):
        wanted.discard("recalled")  # the newest records, which stood there when the session began
    if pages and pages != _find_pages_digest(said, pages):
        wanted.add("pages")
    return _render_sections(pack, wanted, place)


def _stop(event: HookEvent, place: HookTarget) -> str:
    session = place.session(event)
    exchange = read_last_exchange(event.transcript, settle_s=0.0 if event.answer else SETTLE_S)
    answer = event.answer or exchange.answer
    if not answer:
        return ""
    with _acquire_lock(place.folder):
        said = session.turns()
        if any(turn.content == session._redact(answer) for turn in _iterate_answers(said)):
            return ""
        if (not said or said[-1].role == "assistant") and _is_new_prompt(exchange.prompt, said, session):
            session.add("user", exchange.prompt)
        origin = _determine_origin(answer, exchange, session, place)
        session.add("assistant", answer, metadata={ORIGIN: origin} if origin else None)
        if session.state.metadata.get(COMPACTED):
            session.set_metadata(COMPACTED, None)
            session.reset()
    return ""


def _handle_tool_failure(event: HookEvent, place: HookTarget) -> str:
    if not event.error or event.interrupted:
        return ""
    session = place.session(event)
    call = event.call or hashlib.sha256(f"{event.arguments}\n{event.error}".encode()).hexdigest()[:12]
    with _acquire_lock(place.folder):
        if all(turn.tool_call_id != call for turn in session.turns()):
            name = event.tool or "tool"
            asked: dict[str, Any] = {"id": call, "name": name, "arguments": event.arguments}
            session.add_many(
                [
                    {"role": "assistant", "content": "", "tool_calls": [asked]},
                    {
                        "role": "tool",
                        "content": event.error,
                        "tool_call_id": call,
                        "metadata": {SIGNAL: TOOL_FAILURE},
                    },
                ]
            )
    return ""


def _handle_session_end(event: HookEvent, place: HookTarget) -> str:
    place.memory.consolidate_session(place.session(event).id)
    return ""


_EVENTS: Mapping[str, Callable[[HookEvent, HookTarget], str]] = {
    "session-start": _handle_session_start,
    "user-prompt": _handle_user_prompt,
    "stop": _stop,
    "tool-failure": _handle_tool_failure,
    "session-end": _handle_session_end,
}


# -- what the agent reads ----------------------------------------------------------------------------------


def _compute_token_budget(place: HookTarget) -> int:
    return min(place.settings.hard_tokens, max(0, place.max_chars - _SPARE) // 4)


def _render_sections(pack: Pack, names: Collection[str], place: HookTarget) -> str:
    parts = [section.text for section in pack.sections if section.name in names]
    if not parts:
        return ""
    first = 1 if pack.sections[0].name == "profile" and "profile" in names else 0
    text = "\n\n".join([*parts[:first], *([pack.notice] if pack.notice else []), *parts[first:]])
    return text[: place.max_chars]


def _hash_pages(pack: Pack) -> str:
    """Return a digest of the `MEMORY.md` in a pack; empty without one."""
    text = next((section.text for section in pack.sections if section.name == "pages"), "")
    return hashlib.sha256(text.encode()).hexdigest()[:12] if text else ""


def _find_pages_digest(said: Sequence[Turn], pages: str) -> str:
    """Return the digest of the `MEMORY.md` that the agent has read."""
    last = next((turn for turn in reversed(said) if turn.role == "user"), None)
    return pages if last is None else last.metadata.get(PAGES_SHOWN, "")


# -- what is stored ----------------------------------------------------------------------------------------


def _iterate_answers(said: Sequence[Turn]) -> Iterator[Turn]:
    """Iterate over the assistant's turns since the user's last turn, the latest first."""
    for turn in reversed(said):
        if turn.role == "user":
            return
        if turn.role == "assistant":
            yield turn


def _is_new_prompt(prompt: str, said: Sequence[Turn], session: Session) -> bool:
    """Whether a transcript's last prompt was typed by the user and came with no event."""
    if not prompt or prompt.startswith("<"):
        return False
    last = next((turn for turn in reversed(said) if turn.role == "user"), None)
    return last is None or last.content != session._redact(prompt)


def _determine_origin(answer: str, exchange: TranscriptExchange, session: Session, place: HookTarget) -> str:
    """Return `tool` if the answer may rest on an untrusted or unknown tool; else an empty text."""
    if exchange.tools is not None and all(_is_trusted(name, place) for name in exchange.tools):
        return ""
    return "" if provenance.is_said_by_owner(answer, session.turns()) else "tool"


def _is_trusted(name: str, place: HookTarget) -> bool:
    plain = _SERVER.sub("", name, count=1)
    patterns = provenance.parse_trusted_tools(place.settings.trusted_tools)
    return plain in provenance.ACKNOWLEDGING or any(
        fnmatchcase(each, pattern) for pattern in patterns for each in (name, plain)
    )


def _begin_anew(session: Session) -> None:
    """Allow everything to be shown again after the agent has dropped its window.

    In the middle of an answer, the window stays until the answer is there, so that it finds its question.
    """
    said = session.turns()
    if said and said[-1].role == "assistant" and not said[-1].tool_calls:
        session.reset()
    elif said:
        session.set_metadata(COMPACTED, "yes")


@contextmanager
def _acquire_lock(folder: Path) -> Iterator[None]:
    """Hold a lock while an event is checked and stored; go on without it after a second."""
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
