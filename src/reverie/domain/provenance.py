"""Trust in derived text: it is trusted no more than its least trusted source.

A model that sees the result of a tool may repeat it in any words. So what it then says or saves counts as the
tool's, unless the owner said the same in their own words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import NamedTuple

from reverie.domain.conversation import SessionState, Turn, set_origin
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import ORIGINS, UNTRUSTED, Origin
from reverie.domain.text.escaping import NOT_CONFIRMED, NOTICE, unquoted_text
from reverie.domain.word_lists import parse_word_set

ACKNOWLEDGING = frozenset(
    {
        "list_memory_categories",
        "list_working_memory",
        "remember",
        "save_memory",
        "save_to_working_memory",
        "scratchpad_list",
        "scratchpad_write",
    }
)
"""Our own tools that tell of what was done, and show nothing that others wrote."""

SHOWING = frozenset(
    {"edit_memory", "get_memory", "memory", "recall", "search_conversation_history", "search_memory"}
)
"""Our own tools that show what is remembered: they say of each line whether it is confirmed."""

SHARED = 0.8
"""The share of a sentence's words that one sentence of the owner's must have, to have said the same."""

_LEAST_VIEW = 20
_DOUBTED = defer_regex(rf'\b{NOT_CONFIRMED}\b|"trusted":\s*false')
_WORD = defer_regex(r"[^\W_]+")
_SENTENCE_END = defer_regex(r"(?<=[.!?;…])\s+|\n+")
_SHORTEST_WORD = 2
_NEGATION = defer_regex(
    r"n[o']t\b|\b(?:no|never|none|nobody|nothing|without|stop|avoid|except|unless|instead|don|cannot)\b",
    re.IGNORECASE,
)
_SPECIFIC = defer_regex(
    r"\d|[@/\\_~$|`]|\w\.\w|\w:\w|\A--?[A-Za-z]"
)  # in one word: around it, `\S*` is quadratic
_EDGES = ".,;:!?()[]{}'\"`"


_FILLER = parse_word_set(
    """
    the and you your that have has had noted since will for because let know got remember remembered want
    wants from now with are was were this these those use uses using can could should would keep mind sure
    owner user users she her his him they them their its our ours prefer prefers like likes said says told
    asked please not does did over than into about when rather
    ah am an as at be by do eh go he hi if in is it me mr ms my no of oh ok on or so to uh um up us we
    """
)


SUMMARY_ORIGIN = "summary_origin"
"""The metadata of a session whose summary rests on what tools, the web or an import said."""


def least_trusted(*origins: Origin) -> Origin:
    """Return the least trusted of them; the owner's for none.

    >>> least_trusted("owner", "web", "agent")
    'web'
    """
    return max(origins, key=ORIGINS.index, default="owner")


def untrusted_results(turns: Iterable[Turn], *, trusted_tools: Sequence[str] = ()) -> Iterator[Turn]:
    """Yield the turns among them that bring in the word of somebody less trusted than the agent.

    Results of tools, but for our own that show nothing unconfirmed, and what is marked as resting on such.

    Args:
        turns: Consecutive turns, the earliest first.
        trusted_tools: Names of tools whose results count as the agent's own word; `*` stands for any text.
    """
    names: dict[str, str] = {}
    for turn in turns:
        names |= {call.id: call.name for call in turn.tool_calls}
        if turn.role != "tool":
            if turn.origin in UNTRUSTED:
                yield turn
        elif not _is_ours(names.get(turn.tool_call_id, ""), turn.content, trusted_tools):
            yield turn


def build_model_view(window: Sequence[Turn], state: SessionState, replayed: int) -> list[Turn]:
    """Return the turns that the model sees, with the summary first if that rests on untrusted text.

    Args:
        window: The window of the session.
        state: The session.
        replayed: How many turns are replayed; of the last twenty it may remember what a tool said anyway.
    """
    seen = list(window[-max(replayed, _LEAST_VIEW) :])
    return [build_summary_turn(state), *seen] if get_summary_origin(state) in UNTRUSTED else seen


def parse_trusted_tools(trusted_tools: str | None) -> tuple[str, ...]:
    """Return the names in the setting `trusted_tools`, one by one."""
    return tuple(name for part in (trusted_tools or "").split(",") if (name := part.strip()))


def mark_origins(
    added: Sequence[Turn], before: Sequence[Turn], *, trusted_tools: Sequence[str] = ()
) -> tuple[Turn, ...]:
    """Return the turns that are about to be added, with marks where they are not the speaker's own word.

    Those are answers that rest on a tool's word, and messages of the user's that contain remembered text.

    Args:
        added: The turns, in their order.
        before: The turns that are in the assistant's view before them.
        trusted_tools: Names of tools whose results count as the agent's own word.
    """
    view = list(before)
    marked = []
    for turn in added:
        if turn.role == "user" and turn.origin == "owner" and NOTICE in turn.content:
            turn = set_origin(turn, "tool")  # remembered text, which a program put into the user's message
        elif turn.role == "assistant" and turn.content.strip() and turn.origin not in UNTRUSTED:
            origin = determine_origin(turn.content, view, trusted_tools=trusted_tools)
            if origin != "agent":
                turn = set_origin(turn, origin)
        view.append(turn)
        marked.append(turn)
    return tuple(marked)


def determine_origin(text: str, view: Sequence[Turn], *, trusted_tools: Sequence[str] = ()) -> Origin:
    """Return the origin of a text that the model says or saves after these turns.

    Args:
        text: The text.
        view: The turns, the earliest first.
        trusted_tools: Names of tools whose results count as the agent's own word.

    Returns:
        `agent`; or the least trusted origin in view, where the owner has not said the same.
    """
    origins = [turn.origin for turn in untrusted_results(view, trusted_tools=trusted_tools)]
    if not origins or is_said_by_owner(text, view):
        return "agent"
    return least_trusted(*origins)


def is_said_by_owner(text: str, view: Iterable[Turn]) -> bool:
    """Return whether every sentence of a text says what one sentence of the owner's own words says.

    Nearly all its words must stand there, every name of a thing, number and address, and a negation only
    where the owner's sentence has one.

    Args:
        text: The text.
        view: Turns; those of the user's that are the owner's count.
    """
    own = _read_statements(
        unquoted_text(turn.content) for turn in view if turn.role == "user" and turn.origin == "owner"
    )
    said = _read_statements([text])
    return bool(said) and all(any(each.says(statement) for each in own) for statement in said)


class _Statement(NamedTuple):
    """The parts of a sentence that are compared. Equal sentences are compared once."""

    words: frozenset[str]
    all_words: frozenset[str]
    specifics: frozenset[str]
    is_negative: bool

    def says(self, other: _Statement) -> bool:
        """Return whether this sentence has nearly all words of another; function words if it has no others."""
        words, own = (other.words, self.words) if other.words else (other.all_words, self.all_words)
        return (
            len(words & own) >= SHARED * len(words)
            and self.is_negative == other.is_negative
            and other.specifics <= self.specifics
        )


def _read_statements(texts: Iterable[str]) -> tuple[_Statement, ...]:
    return tuple(
        dict.fromkeys(
            _Statement(
                words=extract_content_words(sentence),
                all_words=frozenset(word.lower() for word in _WORD.findall(sentence)),
                specifics=frozenset(
                    word.strip(_EDGES).lower() for word in sentence.split() if _SPECIFIC.search(word)
                ),
                is_negative=bool(_NEGATION.search(sentence)),
            )
            for text in texts
            for sentence in _SENTENCE_END.split(text)
            if _WORD.search(sentence)
        )
    )


# -- summaries -------------------------------------------------------------------------------------------


def set_summary(state: SessionState, summary: str, *, origin: Origin) -> SessionState:
    """Return the session with another summary, and whose word that is.

    Args:
        state: The session.
        summary: What stands for the turns before its window; empty for nothing.
        origin: The least trusted origin of what it was made of.
    """
    metadata = {name: text for name, text in state.metadata.items() if name != SUMMARY_ORIGIN}
    if summary and origin in UNTRUSTED:
        metadata[SUMMARY_ORIGIN] = origin
    return replace(state, summary=summary, metadata=MappingProxyType(metadata))


def get_summary_origin(state: SessionState) -> Origin:
    """Return the least trusted origin of what a session's summary was made of."""
    marked = state.metadata.get(SUMMARY_ORIGIN)
    return next((origin for origin in UNTRUSTED if origin == marked), "agent")


def build_summary_turn(state: SessionState) -> Turn:
    """Return a session's summary as a turn that stands before its window."""
    turn = Turn(
        id="0" * 12, session=state.id, position=0, role="system", content=state.summary, at=state.created_at
    )
    return set_origin(turn, get_summary_origin(state))


def split_sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text."""
    return [sentence for part in _SENTENCE_END.split(text) if (sentence := part.strip())]


def extract_content_words(text: str) -> frozenset[str]:
    """Return the words of a text that say something, in lower case, numbers included, without a final s."""
    words = (word.lower() for word in _WORD.findall(text))
    return frozenset(
        word.removesuffix("s")
        for word in words
        if (len(word) >= _SHORTEST_WORD or not word.isascii() or word.isdigit()) and word not in _FILLER
    )


def _is_ours(name: str, content: str, trusted_tools: Sequence[str]) -> bool:
    """Return whether a tool's result is as good as the agent's own word."""
    if name in ACKNOWLEDGING or any(fnmatchcase(name, pattern) for pattern in trusted_tools if name):
        return True
    return name in SHOWING and not _DOUBTED.search(content)
