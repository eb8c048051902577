"""Rules over single English sentences: decisions, constraints, preferences, failures, fixes, corrections.

In doubt a rule does not match: a missed sentence is still a stored turn that search finds, a wrong match
becomes a memory that nobody stated. Questions, conditions, guesses, quotations, code and hearsay state
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reverie.consolidation.rules.corrections import is_correction
from reverie.consolidation.rules.entities import extract_references, extract_tags, is_likely_secret
from reverie.consolidation.rules.facts import (
    concerns_health,
    is_doubtful,
    match_statement,
    rate_importance,
    strip_greeting,
    strip_question,
)
from reverie.consolidation.rules.failures import is_failure, is_fix
from reverie.consolidation.rules.preferences import is_constraint, is_decision, is_preference
from reverie.consolidation.rules.sentences import is_self_contained, split_sentences, strip_quotations
from reverie.consolidation.rules.wording import (
    CODE_LINE,
    NO_STATEMENT,
    OPENING,
    RULES,
    Lazy,
    Rule,
    Speaker,
    any_of,
    compile_pattern,
)

__all__ = [
    "RULES",
    "Rule",
    "Speaker",
    "concerns_health",
    "extract_references",
    "extract_tags",
    "has_correction",
    "is_doubtful",
    "is_likely_secret",
    "is_self_contained",
    "match_rules",
    "match_statement",
    "rate_importance",
    "split_sentences",
    "strip_greeting",
    "strip_question",
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
_CUES: Mapping[Rule, Lazy] = {
    "decision": compile_pattern(
        r"\b"
        + any_of(r"""
        decided, decision, agreed, opted, chose, chosen, settled, resolved, concluded, went with, ended
        up, made up, picked, final, let, going, sticking, switching, moving, migrating, dropping, will,
        approved, plan
        """)
        + r"\b|'ll\b"
    ),
    "constraint": compile_pattern(
        r"\b"
        + any_of(r"""
        must, allow, allowed, permitted, authori[sz]ed, forbidden, prohibited, mandatory, compulsory,
        off.limits, negotiable, required?, requires, has to, have to, needs? to, can, can't, cannot,
        may, only, no, circumstances, deadline, budget, limit, limited, maximum, minimum, max, min,
        allergic, forbids?, demands?, insists?, prohibits?, requirement, always, never, don't, do not,
        told you, asked you, nobody
        """)
        + r"\b|mustn't"
    ),
    "preference": compile_pattern(
        r"\b"
        + any_of(r"""
        prefer, favou?r, hate, dislike, detest, loathe, love, enjoy, adore, like, rather, want, stand,
        fan, favou?rite, preferred, wish, comfortable, best, from now on, future, call me, stop, when,
        whenever, always, never, ever
        """)
        + r"\b"
    ),
    "failure": compile_pattern(
        any_of(r"""
        fail, crash, time[sd] out, abort, stuck, work, help, \brun, start, open, load, respond, pass,
        compil, boot, charg, \brise, arrive, segment, overflow, out of, chok, stopped, broke, break,
        down, \bred\b, corrupt, reach, connect, won't, can't, cannot, could, keep, \bran\b, outage,
        return, status, [45]\d\d, exit, error, exception, fatal, denied, refus, reject, declin, cancel,
        hangs, leak, nothing happens
        """)
    ),
    "fix": compile_pattern(
        any_of(r"""
        fix, solv, cured, trick, rid of, stopped, brought, away, helped, worked, workaround, remedy,
        cure, solution, again, works, working, pass, rolled back, corrected, to work
        """)
    ),
    "correction": compile_pattern(
        any_of(r"""
        wrong, incorrect, false, mistak, right, correct, true, accurate, the one, \bold\b, mixing,
        mixed, confus, misread, ignor, misunder, misquot, overlook, halluc, forg, skip, missed,
        invented, made, backwards, different, leaves out, missing, misses, you said, \bnot\b, n't,
        suppos, should, \bi said, meant, wanted, asked, told, answer my, undo, revert, stop doing, never
        said, \bno\b, \bnope\b, actually, why did you, try, work, help
        """)
    ),
}
"""Words without which a rule cannot hold: most sentences have none, and cost little."""


def match_rules(sentence: str, *, speaker: Speaker, answering: bool = False) -> tuple[Rule, ...]:
    """Return what one sentence states, in the order of `RULES`; empty in most cases.

    Args:
        sentence: The sentence, as `sentences` gives it.
        speaker: Who says it. Only a user corrects; an assistant's own wishes and plans state nothing.
        answering: Whether it answers a question of the assistant's, so that a mere "no" is no correction.

    >>> match_rules("We decided to use PostgreSQL.", speaker="user")
    ('decision',)
    >>> match_rules("No problem.", speaker="user")
    ()
    """
    masked = strip_quotations(sentence)
    if len(masked) > LONGEST_SENTENCE or CODE_LINE.search(masked):
        return ()
    found: set[Rule] = {"correction"} if speaker == "user" and _has_correction(masked, answering) else set()
    cued = {rule for rule in _HOLDS if _CUES[rule].search(masked)}
    if cued and not NO_STATEMENT.search(masked):
        body = OPENING.pattern.sub("", masked)
        found |= {rule for rule, holds in _HOLDS.items() if rule in cued and holds(body, speaker)}
    return tuple(rule for rule in RULES if rule in found)


def has_correction(sentence: str, *, answering: bool = False) -> bool:
    """Whether one sentence of a user's says that the assistant was wrong.

    Args:
        sentence: The sentence, as `sentences` gives it.
        answering: Whether it answers a question of the assistant's.

    >>> has_correction("That's wrong, it is 8."), has_correction("No problem.")
    (True, False)
    """
    masked = strip_quotations(sentence)
    if len(masked) > LONGEST_SENTENCE or CODE_LINE.search(masked):
        return False
    return _has_correction(masked, answering)


def _has_correction(masked: str, answering: bool) -> bool:
    return _CUES["correction"].search(masked) is not None and is_correction(masked, answering=answering)
