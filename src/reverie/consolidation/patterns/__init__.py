"""Sentences that correct the assistant, tell of failures and fixes, or state nothing: by patterns and fitted models."""

from __future__ import annotations

import re
from functools import cached_property
from pkgutil import get_data
from typing import Literal

from reverie.consolidation.sentences import ASKS, strip_quotations
from reverie.domain.intake import LONGEST, rate_classes
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.dates import fold_text

MIN_CHANCE = 0.4
"""Least probability of a correction, failure or fix by the models of `reverie.domain.intake`."""


def has_correction(sentence: str, *, answering: bool = False) -> bool:
    """Return whether a sentence of the owner's says that the assistant was wrong.

    Args:
        sentence: The sentence.
        answering: Whether it answers a question of the assistant's, so that a mere "no" is no correction.

    >>> has_correction("That's wrong, it is 8."), has_correction("No problem.")
    (True, False)
    """
    masked = strip_quotations(sentence)
    if len(masked) > LONGEST or _CORRECTIONS.matches(masked, "no_correction"):
        return False
    if _ASKS_BACK.search(masked) and not masked.lower().startswith("why did you"):
        return False
    return _CORRECTIONS.matches(masked, "correction") or (
        not answering
        and (
            _CORRECTIONS.matches(masked, "answer_no")
            or rate_classes(masked).classes["correction"] >= MIN_CHANCE
        )
    )


def find_failure(sentence: str) -> Literal["failure", "fix"] | None:
    """Return whether a sentence tells of something that did not work, or of what repaired it.

    >>> find_failure("npm install crashes on Node 22"), find_failure("Clearing the cache solved it")
    ('failure', 'fix')
    """
    masked = strip_quotations(sentence)
    chances = rate_classes(masked).classes if len(masked) <= LONGEST else {"failure": 0.0, "fix": 0.0}
    failure, fix = chances["failure"], chances["fix"]
    if max(failure, fix) < MIN_CHANCE:
        return None
    return "failure" if failure >= fix else "fix"


def is_fiction(sentence: str) -> bool:
    """Return whether a sentence makes the rest of a message something that is only played or supposed.

    >>> is_fiction("Act as a recruiter."), is_fiction("I suppose so.")
    (True, False)
    """
    return _DOUBTS.matches(fold_text(strip_quotations(sentence)), "fiction")


def is_statement(sentence: str) -> bool:
    """Return whether a sentence may state something: no question, guess, joke, code or mere quotation.

    >>> [is_statement(text) for text in ("I live in Oslo.", "Is it far?", "Maybe I live in Oslo.", "«Never give up.»")]
    [True, False, False, False]
    """
    masked = strip_quotations(sentence)
    plain = fold_text(masked)
    return (
        len(masked.replace("“”", "").strip(" .,:;-–—!")) >= _SHORTEST
        and ASKS.search(masked) is None
        and not _DOUBTS.matches(plain, "no_fact")
    )


def holds_for_good(text: str) -> bool:
    """Return whether a text has words of a preference that holds for good.

    >>> holds_for_good("Always answer in German"), holds_for_good("Answer in German")
    (True, False)
    """
    return _DOUBTS.matches(text.lower(), "for_good")


_SHORTEST = 3
_HEADING = defer_regex(r"\[([a-z_]+)\]")
_NAME = defer_regex(r"\{([a-z_]+)\}")


class PatternFile:
    """Patterns of a file in this folder, each compiled when it is first used.

    A heading `[name]` begins a pattern. Each line below it is an alternative; an indented line goes on where the one
    before it ends. `{name}` stands for another pattern of the file. A line that begins with `#` is a comment.

    Compiling all of them takes 35 ms, which a program that stores one turn and ends would wait for.
    """

    def __init__(self, name: str, flags: int = 0) -> None:
        """Note which file; nothing is read before the first use.

        Args:
            name: Name of the file without its ending.
            flags: Flags of all patterns.
        """
        self._name = name
        self._flags = flags
        self._compiled: dict[str, re.Pattern[str]] = {}

    def __getitem__(self, name: str) -> re.Pattern[str]:
        """Return a pattern."""
        if name not in self._compiled:
            self._compiled[name] = re.compile(self._expand(name), self._flags)
        return self._compiled[name]

    def matches(self, text: str, *names: str) -> bool:
        """Whether one of these patterns is found in a text."""
        return any(self[name].search(text) for name in names)

    @cached_property
    def _sources(self) -> dict[str, str]:
        text = (get_data(__package__, f"{self._name}.txt") or b"").decode("utf-8")
        alternatives: dict[str, list[str]] = {}
        name = ""
        for line in text.replace("\n    ", "").split("\n"):
            if heading := _HEADING.fullmatch(line):
                name = heading[1]
            elif line and not line.startswith("#"):
                alternatives.setdefault(name, []).append(line)
        return {
            name: lines[0] if len(lines) == 1 else "|".join(f"(?:{line})" for line in lines)
            for name, lines in alternatives.items()
        }

    def _expand(self, name: str) -> str:
        return _NAME.sub(lambda found: self._expand(found[1]), self._sources[name])


_ASKS_BACK = defer_regex(r"\?[\"')”]*$")
_CORRECTIONS = PatternFile("corrections", re.IGNORECASE)
_DOUBTS = PatternFile("doubts")
