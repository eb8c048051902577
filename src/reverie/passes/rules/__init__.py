"""Which sentence states a decision, a constraint, a preference, a failure, a fix, or that somebody was wrong?

Rules over single sentences, for English. In doubt a rule stays silent: a missed sentence is still a stored
turn that search finds, a wrong one becomes a memory that nobody stated. So a question, a condition, a guess,
a quotation, code, hearsay and what other people want state nothing here. Nothing is stored here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reverie.passes.rules.corrections import is_correction
from reverie.passes.rules.named import looks_secret, references, tags
from reverie.passes.rules.sentences import plain, sentences, speaks_for_itself
from reverie.passes.rules.troubles import is_failure, is_fix
from reverie.passes.rules.wishes import is_constraint, is_decision, is_preference
from reverie.passes.rules.wording import CODE_LINE, NO_STATEMENT, OPENING, RULES, Rule, Speaker

__all__ = [
    "RULES",
    "Rule",
    "Speaker",
    "looks_secret",
    "references",
    "sentences",
    "speaks_for_itself",
    "stated",
    "tags",
]

LONGEST_SENTENCE = 400
"""Characters of a sentence that can state anything; a longer one is a log line or a list."""

_HOLDS: Mapping[Rule, Callable[[str, Speaker], bool]] = {
    "decision": is_decision,
    "constraint": is_constraint,
    "preference": is_preference,
    "failure": is_failure,
    "fix": is_fix,
}


def stated(sentence: str, *, speaker: Speaker, answering: bool = False) -> tuple[Rule, ...]:
    """What one sentence states, in the order of `RULES`; nothing in most cases.

    Args:
        sentence: The sentence, as `sentences` gives it.
        speaker: Who says it. Only a user corrects; an assistant's own wishes and plans state nothing.
        answering: Whether it answers a question of the assistant's, so that a mere "no" is no correction.

    >>> stated("We decided to use PostgreSQL.", speaker="user")
    ('decision',)
    >>> stated("No problem.", speaker="user")
    ()
    """
    said = plain(sentence)
    if len(said) > LONGEST_SENTENCE or CODE_LINE.search(said):
        return ()
    found: set[Rule] = set()
    if speaker == "user" and is_correction(said, answering=answering):
        found.add("correction")
    if not NO_STATEMENT.search(said):
        body = OPENING.sub("", said)
        found |= {rule for rule, holds in _HOLDS.items() if holds(body, speaker)}
    return tuple(rule for rule in RULES if rule in found)
