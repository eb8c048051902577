"""Query parsing: weighted words, and what else in a question tells where the answer stands.

Stop words of a question ("what", "when", "did", "would") are dropped; documents keep theirs. No word is added or
replaced.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from reverie.domain.text.tokenizer import STOP_WORDS, stem, tokenize_chunks
from reverie.search.dates import AMBIGUOUS, QueryDate, find_dates

__all__ = ["ParsedQuery", "QueryDate", "QueryTerm", "parse_query"]

Kind = Literal["word", "whole", "joined", "name", "common"]

#: What a turn is labelled with when nobody gave a name; "user" in a question is a word, not a person.
ROLES = frozenset({"user", "assistant", "system", "tool"})

_FIRST_PERSON = re.compile(r"\b(?:i|my|me|mine|myself)\b(?!\.)", re.IGNORECASE)
_WANTS_TIME = re.compile(
    r"\bwhen\b|\b(?:what|which) (?:date|day|week|month|year|time)\b|\bhow long\b", re.IGNORECASE
)
_WANTS_NUMBER = re.compile(r"\bhow (?:many|much|old|often|far|long)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTerm:
    """One thing to look for.

    Attributes:
        token: In the analyzer's form.
        weight: 0 and up; multiplies the weight that its rareness gives it.
        kind: `word`; `whole` for the undivided form of a compound ("linkedin" of "LinkedIn"); `joined` for
            two neighbours written as one ("icecream" for "ice cream"), which where it stands counts as
            both; `name` for somebody who speaks in the conversation: a word in records, in turns whose turn
            it is; `common` for a stop word of a question that has nothing else.
        of: For `joined`, the tokens of the two.
    """

    token: str
    weight: float = 1.0
    kind: Kind = "word"
    of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuery:
    """A question, ready to be matched. Empty ``terms``: nothing in it can be looked for, and nothing is
    found.
    """

    text: str
    terms: tuple[QueryTerm, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    speakers: frozenset[str] = frozenset()
    days: tuple[QueryDate, ...] = ()
    first_person: bool = False
    wants_time: bool = False
    wants_number: bool = False

    @property
    def tokens(self) -> tuple[str, ...]:
        """Every term's token: those whose frequencies the ranker wants."""
        return tuple(term.token for term in self.terms)

    def wanted(self, *, turns: bool) -> tuple[QueryTerm, ...]:
        """Return the terms to ask an index of turns, or of records, for.

        In turns a speaker's name is left out: people call each other by name all the time, so it would fill
        the pool with greetings. Only a question that has nothing else ("what did Ann say?") looks for it
        there.
        """
        if not turns or all(term.kind == "name" for term in self.terms):
            return self.terms
        return tuple(term for term in self.terms if term.kind != "name")

    def __bool__(self) -> bool:
        return bool(self.terms)


def parse_query(text: str, *, speakers: Collection[str] = ()) -> ParsedQuery:
    """Parse a question.

    ``speakers`` are the names of those who speak in the conversations searched, in any case. The result is
    the same for every engine. A question made only of stop words keeps them (kind ``common``); one without
    any usable word (punctuation, single letters) is empty and finds nothing.

    >>> parse_query("What did Ann paint in May 2023?", speakers=["Ann"]).tokens
    ('paint', 'may', '2023', 'ann')
    """
    days, spans = find_dates(text)
    months = {month for start, end in spans for month in AMBIGUOUS if month in text[start:end].casefold()}
    chunks = list(_classify_chunks(text, _map_names(speakers), months))
    kinds: dict[str, Kind] = {part: "word" for sort, _, parts in chunks if sort == "word" for part in parts}
    for _, _, compound in tokenize_chunks(text):
        for whole in compound:
            kinds.setdefault(whole, "whole")
    named = {part for sort, _, parts in chunks if sort == "name" for part in parts}
    if not kinds and not named:
        kinds = {part: "common" for _, _, parts in chunks for part in parts}
    for part in sorted(named):
        kinds.setdefault(part, "name")
    pairs, joined = _pair_tokens(chunks)
    return ParsedQuery(
        text=text,
        terms=(
            *(QueryTerm(token=token, kind=kind) for token, kind in kinds.items()),
            *(
                QueryTerm(token=token, kind="joined", of=of)
                for token, of in joined.items()
                if token not in kinds
            ),
        ),
        pairs=pairs,
        speakers=frozenset(name for sort, names, _ in chunks if sort == "name" for name in names.split("\n")),
        days=days,
        first_person=_FIRST_PERSON.search(text) is not None,
        wants_time=_WANTS_TIME.search(text) is not None,
        wants_number=_WANTS_NUMBER.search(text) is not None,
    )


_Chunk = tuple[Literal["word", "stop", "name"], str, tuple[str, ...]]


def _classify_chunks(text: str, names: Mapping[str, str], months: Collection[str]) -> Iterator[_Chunk]:
    """Yield each chunk as (what it is, its folded form or the names meant, its tokens)."""
    lower = text == text.lower()
    for chunk, parts, _ in tokenize_chunks(text):
        folded = chunk.casefold()
        # A name is written with a capital, unless the whole question is in small letters: "rose" is a verb
        # too.
        if folded in names and (not chunk[0].islower() or (lower and folded not in STOP_WORDS)):
            yield "name", names[folded], parts
        elif folded in STOP_WORDS and folded not in months:
            yield "stop", folded, parts
        else:
            yield "word", folded, parts


def _pair_tokens(chunks: Iterable[_Chunk]) -> tuple[tuple[tuple[str, str], ...], dict[str, tuple[str, str]]]:
    """Return the tokens that stand together, and the words that two of them would make written as one."""
    pairs: dict[tuple[str, str], None] = {}
    joined: dict[str, tuple[str, str]] = {}
    previous, before = "", ""
    for sort, folded, parts in chunks:
        if sort != "word":
            # A stop word that the analyzer drops from documents too ("of") does not part its neighbours
            # there.
            previous, before = "" if parts else previous, ""
            continue
        plain = len(parts) == 1 and folded.isascii() and folded.isalpha()
        for part in parts:
            if previous and previous != part:
                pairs.setdefault((previous, part))
                if before and plain:
                    joined.setdefault(stem(before + folded), (previous, part))
            previous = part
        before = folded if plain else ""
    return tuple(pairs), joined


def _map_names(speakers: Collection[str]) -> dict[str, str]:
    """Return each word of a speaker's name -> the names it may mean, in the form of passages, one a line."""
    names: dict[str, str] = {}
    for folded in sorted({speaker.casefold() for speaker in speakers} - ROLES):
        for chunk, parts, _ in tokenize_chunks(folded):
            if parts:
                names[chunk] = f"{names[chunk]}\n{folded}" if chunk in names else folded
    return names
