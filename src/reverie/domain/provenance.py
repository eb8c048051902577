"""Who wrote a text: whether a person typed a message, and the trust in text that is derived from others.

Programs write into the messages of a user: notices, reminders, feedback of hooks, summaries. `is_typed` decides for
every entry point and importer. A model that sees the result of a tool may repeat it in any words. So its later text
has the tool's origin, unless the owner said the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from reverie.domain.conversation import SessionState, Turn, set_origin
from reverie.domain.lazy_dataclass import replace
from reverie.domain.lazy_regex import defer_regex, parse_word_set
from reverie.domain.record import ORIGINS, UNTRUSTED, Origin
from reverie.domain.text.escaping import NOT_CONFIRMED, NOTICE, WRITERS, unquoted_text
from reverie.domain.text.specifics import FRAME, extract_specifics

ACKNOWLEDGING = parse_word_set(
    "list_memory_categories list_working_memory remember save_memory save_to_working_memory scratchpad_list"
    " scratchpad_write"
)
"""Reverie's tools that report what was done, and show no text of others."""

SHOWING = parse_word_set(
    "edit_memory get_memory list_conversations memory read_conversation recall search_conversation_history"
    " search_memory"
)
"""Reverie's tools that show memories, and mark each line that is not confirmed."""

SHARED = 0.8
"""Share of a sentence's words that a sentence of the owner must have to say the same."""

_LEAST_VIEW = 20
_MAX_LABEL_WORDS = 3  # a longer label is judged as a text
_MIN_COPIED_CHARS = 5
_seen: ContextVar[tuple[Turn, ...]] = ContextVar("seen", default=())
_MOST_COMPARED = 5_000_000  # pairs of sentences of a text and of the owner
_DOUBTED = defer_regex(rf'\b{NOT_CONFIRMED}\b|"trusted":\s*false')
_WORD = defer_regex(r"[^\W_]+")
_SENTENCE_END = defer_regex(r"(?<=[.!?;…])\s+|\n+")


class OriginFunction(Protocol):
    """Function such as `Session.determine_origin`."""

    def __call__(self, text: str, *, labels: Iterable[str] = ()) -> Origin:
        """Return the origin of a text, with its labels, that an agent wants to store."""


SUMMARY_ORIGIN = "summary_origin"
"""Metadata of a session whose summary is based on tools, the web or an import: that origin."""


def least_trusted(*origins: Origin) -> Origin:
    """Return the least trusted of some origins; `owner` if there are none.

    >>> least_trusted("owner", "web", "agent")
    'web'
    """
    return max(origins, key=ORIGINS.index, default="owner")


def build_model_view(window: Sequence[Turn], state: SessionState, replayed: int) -> list[Turn]:
    """Return the turns that the model sees, after the summary if that is based on untrusted text.

    Args:
        window: The window of the session.
        state: The session.
        replayed: Number of replayed turns. At least twenty are returned, because earlier answers repeat them.
    """
    seen = list(window[-max(replayed, _LEAST_VIEW) :])
    if (origin := get_summary_origin(state)) not in UNTRUSTED:
        return seen
    summary = Turn(
        id="0" * 12, session=state.id, position=0, role="system", content=state.summary, at=state.created_at
    )
    return [set_origin(summary, origin), *seen]


# -- who typed a message ---------------------------------------------------------------------------------

_PERSONS = frozenset({"human", "user", "owner", "person", "typed", "queued", "plain"})
_USER_MESSAGES = frozenset({"user", "human", "user_message", "message"})
_FLAG = defer_regex(r"is(?:[A-Z_]\w*)")
_OF_PROGRAM = defer_regex(r"tool|hook|agent|subtype", re.IGNORECASE)


def is_typed(text: str, fields: Mapping[str, Any] | None = None) -> bool:
    """Return whether a person typed a message of the role `user`.

    The fields with which a program stored the message must agree: its type and role are those of a user, a stated
    origin is a person, and no flag (`isMeta`, `is_hidden`), tool, hook or agent is named. An unknown flag counts
    against the message, so the answer for new marks of programs is no. Callers give other messages the origin `tool`.

    Args:
        text: The text of the message.
        fields: The message as its program stored it; None if the source has the text only.

    >>> is_typed("I prefer tabs."), is_typed("[Request interrupted by user]")
    (True, False)
    >>> is_typed("I prefer tabs.", {"type": "user", "isCompactSummary": True})
    False
    """
    if NOTICE in text or WRITERS["program"].search(text):
        return False
    if fields is None:
        return True
    return all(map(_is_of_person, (fields, *(each for each in fields.values() if isinstance(each, Mapping)))))


def _is_of_person(fields: Mapping[str, Any]) -> bool:
    """Return whether no field says that a program wrote the message."""
    persons = _PERSONS | {"sdk"} if fields.get("entrypoint") == "sdk-cli" else _PERSONS  # of `claude -p`
    for name, value in fields.items():
        if not value:
            continue
        if _FLAG.fullmatch(name) or _OF_PROGRAM.search(name):
            return False
        if name in {"type", "role"} and value not in _USER_MESSAGES:
            return False
        if name in {"origin", "promptSource", "kind"} and isinstance(value, str) and value not in persons:
            return False
    return True


# -- derived text ----------------------------------------------------------------------------------------


def parse_trusted_tools(trusted_tools: str | None) -> tuple[str, ...]:
    """Return the names in the setting `trusted_tools`."""
    return tuple(name for part in (trusted_tools or "").split(",") if (name := part.strip()))


def mark_origins(
    added: Sequence[Turn], before: Sequence[Turn], *, trusted_tools: Sequence[str] = ()
) -> tuple[Turn, ...]:
    """Return turns that are about to be added, with a less trusted origin where they need one.

    They are answers that are based on a tool's result, and messages of the user that contain a program's text.

    Args:
        added: The turns, in their order.
        before: The turns that the assistant sees before them.
        trusted_tools: Names of tools whose results are trusted like the agent.
    """
    view = _View(before, trusted_tools)
    marked = []
    for turn in added:
        if turn.role == "user" and turn.origin == "owner" and not is_typed(turn.content):
            turn = set_origin(turn, "tool")
        elif turn.role == "assistant" and turn.content.strip() and turn.origin not in UNTRUSTED:
            origin = view.determine_origin(turn.content)
            if origin != "agent":
                turn = set_origin(turn, origin)
        view.add(turn)
        marked.append(turn)
    return tuple(marked)


@contextmanager
def seeing(turns: Iterable[Turn]) -> Iterator[None]:
    """Let `determine_origin` add turns to every view until the block ends: those of a run that are not stored yet."""
    token = _seen.set((*_seen.get(), *mark_origins(tuple(turns), ())))
    try:
        yield
    finally:
        _seen.reset(token)


def determine_origin(
    text: str, view: Sequence[Turn], *, labels: Iterable[str] = (), trusted_tools: Sequence[str] = ()
) -> Origin:
    """Return the origin of a text that the model writes after some turns.

    Args:
        text: The text.
        view: The turns, the earliest first.
        labels: Its category, tags or path, which a prompt may show too.
        trusted_tools: Names of tools whose results are trusted like the agent.

    Returns:
        `agent`, or the least trusted origin among the turns if the owner has not said the same.
    """
    return _View((*view, *_seen.get()), trusted_tools).determine_origin(text, labels)


def is_said_by_owner(text: str, view: Iterable[Turn]) -> bool:
    """Return whether each sentence of a text says the same as a sentence of the owner.

    That sentence must have nearly all its words, and all its names of things, numbers and addresses. Both must be
    negative, or neither.

    Args:
        text: The text.
        view: Turns; only the user's turns of the origin `owner` count.
    """
    return _View(view).is_said_by_owner(text)


class _View:
    """The least trusted origin in some turns, and the statements of the owner, which are read when they are needed.

    Less trusted than the agent are turns with such an origin, and results of tools, except those of trusted tools and
    those of Reverie's own tools that show nothing unconfirmed.
    """

    def __init__(self, turns: Iterable[Turn], trusted_tools: Sequence[str] = ()) -> None:
        self._origin: Origin = "agent"
        self._trusted_tools = trusted_tools
        self._tools: dict[str, str] = {}  # names of tools by the ids of their calls
        self._doubted: list[str] = []
        self._unread: list[str] = []
        self._own: dict[_Statement, None] = {}
        for turn in turns:
            self.add(turn)

    def add(self, turn: Turn) -> None:
        """Add the next turn."""
        self._tools |= {call.id: call.name for call in turn.tool_calls}
        is_untrusted = turn.origin in UNTRUSTED
        if turn.role == "tool":
            name = self._tools.get(turn.tool_call_id, "")
            is_untrusted = not is_trusted_result(name, turn.content, self._trusted_tools)
        if is_untrusted:
            self._origin = least_trusted(self._origin, turn.origin)
            self._doubted.append(turn.content)
        elif turn.role == "user" and turn.origin == "owner":
            self._unread.append(turn.content)

    def determine_origin(self, text: str, labels: Iterable[str] = ()) -> Origin:
        """Return the origin of a text with its labels that the model writes after the turns."""
        if self._origin == "agent":
            return "agent"
        is_said = not text or self.is_said_by_owner(text)
        is_own = is_said and not any(self._is_doubted_label(each, text) for each in labels)
        return "agent" if is_own else self._origin

    def _is_doubted_label(self, label: str, text: str) -> bool:
        """Return whether a label could carry a doubted text: it is long, has digits, or repeats a word of one."""
        words = _WORD.findall(label.casefold())
        if self.is_said_by_owner(" ".join(words)) or set(words) <= set(_WORD.findall(text.casefold())):
            return False
        if len(words) > _MAX_LABEL_WORDS or any(map(str.isdigit, label)):
            return True
        own = " ".join(word for each in self._own for word in each.all_words)
        return any(
            len(word) >= _MIN_COPIED_CHARS
            and word not in own
            and any(word in doubted.casefold() for doubted in self._doubted)
            for word in words
        )

    def is_said_by_owner(self, text: str) -> bool:
        """Return whether each sentence of a text says the same as a sentence of the owner; False for huge texts."""
        self._own |= dict.fromkeys(_read_statements(map(unquoted_text, self._unread)))
        self._unread.clear()
        said = {*_read_statements([text])}
        if not said or len(said) * len(self._own) > _MOST_COMPARED:
            return False
        return all(
            statement in self._own or any(each.says(statement) for each in self._own) for statement in said
        )


class _Statement(NamedTuple):
    """The parts of a sentence that are compared. Equal sentences are compared once."""

    words: frozenset[str]
    all_words: frozenset[str]
    values: frozenset[str]
    is_negative: bool

    def says(self, other: _Statement) -> bool:
        """Return whether this sentence has nearly all words of another; function words if it has no others."""
        words, own = (other.words, self.words) if other.words else (other.all_words, self.all_words)
        return (
            len(words & own) >= SHARED * len(words)
            and self.is_negative == other.is_negative
            and other.values <= self.values
        )


def _read_statements(texts: Iterable[str]) -> Iterator[_Statement]:
    """Yield the statement of each sentence."""
    for text in texts:
        for sentence in split_sentences(text):
            said = extract_specifics(sentence)
            words = frozenset(said.wording.split())
            if _WORD.search(sentence):
                own = (said.affirmed | said.denied) - FRAME
                yield _Statement(own, words, said.values, said.is_negative)


# -- summaries -------------------------------------------------------------------------------------------


def set_summary(state: SessionState, summary: str, *, origin: Origin) -> SessionState:
    """Return the session with another summary and its origin.

    Args:
        state: The session.
        summary: Summary of the turns before the window; empty for none.
        origin: The least trusted origin of its sources.
    """
    metadata = {name: text for name, text in state.metadata.items() if name != SUMMARY_ORIGIN}
    if summary and origin in UNTRUSTED:
        metadata[SUMMARY_ORIGIN] = origin
    return replace(state, summary=summary, metadata=MappingProxyType(metadata))


def get_summary_origin(state: SessionState) -> Origin:
    """Return the least trusted origin of the sources of a session's summary."""
    marked = state.metadata.get(SUMMARY_ORIGIN)
    return next((origin for origin in UNTRUSTED if origin == marked), "agent")


def split_sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text."""
    return [sentence for part in _SENTENCE_END.split(text) if (sentence := part.strip())]


def is_trusted_result(name: str, content: str, trusted_tools: Sequence[str] = ()) -> bool:
    """Return whether a tool's result is trusted like the agent."""
    if name in ACKNOWLEDGING or any(fnmatchcase(name, pattern) for pattern in trusted_tools if name):
        return True
    return name in SHOWING and not _DOUBTED.search(content)
