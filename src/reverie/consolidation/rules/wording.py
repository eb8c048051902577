"""Words that several rules share, and sentences that state nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Literal, get_args

Rule = Literal["decision", "constraint", "preference", "failure", "fix", "correction"]
Speaker = Literal["user", "assistant"]

RULES: tuple[Rule, ...] = get_args(Rule)


class Lazy:
    """Pattern that is compiled when it is first searched for.

    Compiling all of them takes 35 ms, which a program that stores one turn and ends would wait for.
    """

    def __init__(self, source: str, flags: int = 0) -> None:
        self._source, self._flags = source, flags

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return re.compile(self._source, self._flags)

    @cached_property
    def search(self) -> Callable[[str], re.Match[str] | None]:
        """The `search` method of the compiled pattern."""
        return self.pattern.search


CODE_LINE = Lazy(
    r"^(?:def|class|import|from \w+ import|raise|assert|return|if|for|while|git|npm|pip|sudo|select|"
    r"insert|const|let|var|function|public|private|echo|export)\b.*(?:[(){};=]|--?\w|FROM\b)",
)
NO_STATEMENT = Lazy(
    r"""\?["'”)\]]*$ | \?\s
      | ^(?:and |but |so |ok,? )?(?:what|which|who|whose|why|how|where|did|does|do\ (?:you|we|i|they)|
        should|shall|
        could|would|can|may|is|are|was|were|has|have\ (?:you|we|i|they)|had|am|must\ (?:i|we)|will|
          when\ (?:will|did|does|
        is|are|do))\b
      | \b(?:(?<!love\ it\ )(?<!like\ it\ )if|unless|whether|suppose|supposing|imagine|assuming|
        hypothetically|maybe|perhaps|possibly|probably|
        might|in\ case|once\ you|once\ we|as\ if|let\ me\ know|pretend|wonder|wondering|undecided|
          or\ else)\b
      | \b(?:used\ to|years\ ago|back\ in\ (?:\d|the)|in\ the\ past|formerly|previously|no\ longer|
        not\ any\ ?more|
        when\ i\ was|as\ a\ (?:student|teenager|child|kid))\b
      | \b(?:i\ read\ somewhere|apparently|supposedly|allegedly|they\ say|rumou?r|the\ article|
        the\ author|it\ is\ said)\b
      | \bin\ (?:the|this|that|my|a)\ (?:novel|film|movie|book|story|article|poem|game|song|series|
        dream|play|example)\b
      | ^(?:please\ )?(?:write|translate|draft|compose|summari[sz]e|explain|describe|show|give|list|
        compare|add|create|
        implement|fix|correct|help|find|search|grep|open|rename|generate|make\ sure|check|review|
          rewrite|tell)\b
      | [,.”]\ (?:said|says|wrote|writes|sang|replied|shouted|goes)\ (?:the|my|his|her|a|an|[a-z]+)\b
      | \b(?:(?<!i\ )(?<!we\ )usually|often|typically|in\ general|generally\ speaking|most\ common|
        (?:he|she|they)\ (?:says?|said|claims?|thinks?))\b
      | \b(?:i|let's|let\ us)\ hope\b|\bi\ (?:guess|doubt|bet)\b
      | ^(?:thanks|thank\ you|sorry\ for|great\ question|good\ question)[!.]*$
      | [:,]\s*“”\s*$
    """,
    re.IGNORECASE | re.VERBOSE,
)
OPENING = Lazy(
    r"^(?:(?:(?:ok(?:ay)?|yes|yeah|yep|alright|all right|so|then|well|hmm|oh|hey|hi|also|and|but|"
    r"actually|anyway|note that|fyi|remember that|just so you know|in the end)(?:,|:|!|\.| -| –| —)?|"
    r"(?:no|nope|sorry|right|fine|great|good|sure|perfect|note|remember)(?:,|:|!|\.| -| –| —))\s+)+",
    re.IGNORECASE,
)


def any_of(words: str) -> str:
    """Return a pattern that matches any of these words or phrases, which are separated by commas.

    >>> any_of("fix, cure")
    '(?:fix|cure)'
    """
    phrases = (" ".join(phrase.split()) for phrase in re.split(r",\s", words))
    return f"(?:{'|'.join(phrases)})"


WE = r"(?:i|we|my (?:wife|husband|partner|team|family) and i|(?:the|our|my) (?:whole )?team)"
AUX = (
    r"(?:'ve|'d|'m|'re| have| had| am| are| both| all| now| just| also| finally| then| together|"
    r" unanimously)*"
)


def compile_pattern(*parts: str) -> Lazy:
    """Return one pattern that matches any of the parts, in any case."""
    return Lazy("|".join(f"(?:{part})" for part in parts), re.IGNORECASE)
