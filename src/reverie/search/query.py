"""Query parsing: weighted words, and other hints in a question.

English stop words of a question ("what", "when", "did", "would") are dropped, and those of other languages get less
weight; documents keep theirs. `reverie.search.expansion` adds alternatives for the words.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from typing import Literal, NamedTuple

from reverie.domain.conversation import ROLES
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.dates import get_local_day
from reverie.domain.text.languages import DEFAULT, get_function_words, guess_foreign_language
from reverie.domain.text.tokenizer import STOP_WORDS, find_language, fold, stem, tokenize_chunks
from reverie.search.dates import NO_DATES, QueryDates, find_query_dates
from reverie.search.related_words import get_shares

Kind = Literal["word", "whole", "joined", "name", "common"]

_FIRST_PERSON = defer_regex(r"\b(?:i|my|me|mine|myself)\b(?!\.)", re.IGNORECASE)
_WANTS_TIME = defer_regex(
    r"\bwhen\b|\b(?:what|which) (?:date|day|week|month|year|time)\b|\bhow long\b", re.IGNORECASE
)
_WANTS_NUMBER = defer_regex(r"\bhow (?:many|much|old|often|far|long)\b", re.IGNORECASE)


_FUNCTION_WORD = 0.15
"""Weight of a function word of another language than English. Their lists are broad ("horas", "morgen")."""

_SINGLE_CHARACTER = 0.5
"""Weight of a Han character in a longer run, since the pairs of characters count too."""

_HIRAGANA_PAIR = 0.2
"""Weight of two hiragana: most are endings and particles."""

_HIRAGANA = defer_regex("[\u3040-\u309f]{2}")

_UNSPACED = ("ja", "zh")
_SHORTEST_REQUEST = 4
"""Words of a request; a shorter query is probably a name or a topic."""

_ASKS = defer_regex(
    r"(?:^|[,:;.!–-]\s+(?:\w{1,3}\s+)?)"
    r"(?:whats?|which|who(?:se|m)?|when|where|why|how|was|we[rnm]|wie(?:viel)?|wo|wann|warum|welche[mnrs]?"
    r"|qué|cuánt[ao]s?|cómo|dónde|quién(?:es)?|cuándo|cuál(?:es)?"
    r"|combien|comment|pourquoi|quel(?:le)?s?|quand|quant[aeio]|come|dove|chi|perch[eé]|qual[ei]?|wat|waar|hoe|waarom)\b"
    r"|\b(?:what|which|who|when|where|why|how)\W*$"
    r"|^(?:(?:tell|remind|show) (?:me|us)(?! to\b)|(?:sag|zeig|nenn) (?:mir|uns)|dis-moi|dime|mu[eé]strame)\b",
    re.IGNORECASE,
)
"""A question word at the beginning or the end of a clause, or a wish to be told something."""

_UNSPACED_REQUEST = defer_regex(
    r"(?:(?<!教え)て|(?<!ま)で)(?:ください|下さい|ほしい|欲しい|くれる?|もらえる?|ね|よ)?[。.!!??]*$|帮我|请|替我"
)


class Alternative(NamedTuple):
    """Token that may stand for a term.

    Attributes:
        token: In the analyzer's form.
        similarity: Its weight relative to the term itself, above 0, at most 1.
        reason: Reason for the explanation: `form`, `spelling`, `part`, `clip` or `related`.
    """

    token: str
    similarity: float
    reason: str


class QueryTerm(NamedTuple):
    """One thing to look for.

    Attributes:
        token: In the analyzer's form.
        weight: Factor of the weight by its rarity, 0 and up.
        kind: `word`; `whole` for the undivided form of a compound ("linkedin" of "LinkedIn"); `joined` for
            two neighbours written as one ("icecream" for "ice cream"), which counts as both; `name` for the name of
            a speaker, which is a word in records and the speaker in turns; `common` for a stop word of a question
            that has no other words.
        of: For `joined`, the tokens of the two.
        surface: The folded word of the token; empty if it is not a single word.
        alternatives: Tokens that count for it in passages without it.
    """

    token: str
    weight: float = 1.0
    kind: Kind = "word"
    of: tuple[str, ...] = ()
    surface: str = ""
    alternatives: tuple[Alternative, ...] = ()


class ParsedQuery(NamedTuple):
    """Parsed question. Without `terms` and `dates` words find nothing."""

    text: str
    terms: tuple[QueryTerm, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    speakers: frozenset[str] = frozenset()
    dates: QueryDates = NO_DATES
    first_person: bool = False
    wants_time: bool = False
    wants_number: bool = False
    language: str = DEFAULT
    is_sentence: bool = False
    is_request: bool = False
    words: tuple[str, ...] = ()

    @property
    def tokens(self) -> tuple[str, ...]:
        """Tokens of all terms and alternatives, whose frequencies the ranker needs."""
        tokens = dict.fromkeys(term.token for term in self.terms)
        tokens.update(dict.fromkeys(other.token for term in self.terms for other in term.alternatives))
        return tuple(tokens)

    @property
    def asked(self) -> tuple[str, ...]:
        """Tokens of all terms and alternatives, except words of related meaning."""
        same = (
            other.token for term in self.terms for other in term.alternatives if other.reason != "related"
        )
        return tuple(dict.fromkeys((*(term.token for term in self.terms), *same)))

    def wanted(self, *, turns: bool) -> tuple[QueryTerm, ...]:
        """Return the terms for the index of turns, or of records.

        For turns the names of speakers are left out, because people often call each other by name, and greetings would
        fill the pool. A question without other words ("what did Ann say?") keeps them.
        """
        if not turns or all(term.kind == "name" for term in self.terms):
            return self.terms
        return tuple(term for term in self.terms if term.kind != "name")

    def __bool__(self) -> bool:
        return bool(self.terms or self.dates)


def parse_query(
    text: str, *, speakers: Collection[str] = (), now: datetime | None = None, zone: tzinfo = UTC
) -> ParsedQuery:
    """Parse a question that is asked at `now` in `zone`.

    A question of stop words only keeps them (kind `common`). One without any usable word, such as punctuation, is empty
    and finds nothing.

    Args:
        text: The question.
        speakers: Names of the speakers in the searched conversations, in any case.
        now: The time of the question; None if unknown.
        zone: Time zone of the one who asks.

    >>> parse_query("What did Ann paint in May 2023?", speakers=["Ann"]).tokens
    ('paint', 'may', '2023', 'ann', 'may2023')
    """
    # A turn without a name is labelled with its role, and "user" in a question is a word and no person.
    names = frozenset(speaker.casefold() for speaker in speakers).difference(ROLES)
    return _parse(text, names, None if now is None else get_local_day(now, zone), zone)


@lru_cache(maxsize=256)
def _parse(text: str, speakers: frozenset[str], today: date | None, zone: tzinfo) -> ParsedQuery:
    """Parse a question. Results are cached, since records, turns and pages get the same question in turn."""
    dates = find_query_dates(text, today=today, zone=zone)
    months = {
        word
        for one in dates.days
        if one.unit == "month"
        for word in text[one.at : one.stop].casefold().split()
    }
    language = _find_language(text)
    speaker_names = _map_names(speakers)
    chunks = list(_classify_chunks(dates.remove_from(text), language, speaker_names, months))
    if dates and any(chunk.sort != "stop" for chunk in chunks):
        # Beside other words, "May" or "last week" may also be words of the text.
        chunks = list(_classify_chunks(dates.remove_from(text, firm=True), language, speaker_names, months))
    terms: dict[str, QueryTerm] = {}
    for chunk in chunks:
        if chunk.sort == "word":
            for part in chunk.parts:
                surface = chunk.folded if len(chunk.parts) == 1 else ""
                weight = _HIRAGANA_PAIR if _HIRAGANA.fullmatch(part) else 1.0
                _keep_heavier(terms, QueryTerm(token=part, surface=surface, weight=weight))
            for whole in chunk.wholes:
                single = len(whole) == 1 and not whole.isascii()
                weight = _SINGLE_CHARACTER if single and len(chunk.parts) > 1 else 1.0
                _keep_heavier(terms, QueryTerm(token=whole, kind="whole", weight=weight))
    if language != DEFAULT:
        for chunk in chunks:
            if chunk.sort == "stop":
                for part in chunk.parts:
                    terms.setdefault(part, QueryTerm(token=part, weight=_FUNCTION_WORD))
    named = {part for chunk in chunks if chunk.sort == "name" for part in chunk.parts}
    if not terms and not named and not dates:
        terms = {
            part: QueryTerm(token=part, kind="common")
            for chunk in chunks
            for part in (*chunk.parts, *chunk.wholes)
        }
    for part in sorted(named):
        terms.setdefault(part, QueryTerm(token=part, kind="name"))
    pairs, joined = _pair_tokens(chunks, language)
    whole_pairs = {token: QueryTerm(token=token, kind="joined", of=of) for token, of in joined.items()}
    return ParsedQuery(
        text=text,
        terms=tuple((terms | whole_pairs | terms).values()),  # a word of the question stays a word
        pairs=pairs,
        speakers=frozenset(
            name for chunk in chunks if chunk.sort == "name" for name in chunk.folded.split("\n")
        ),
        dates=dates,
        first_person=_FIRST_PERSON.search(text) is not None,
        wants_time=_WANTS_TIME.search(text) is not None,
        wants_number=_WANTS_NUMBER.search(text) is not None,
        language=language,
        words=tuple(chunk.folded for chunk in chunks if chunk.sort != "name"),
        is_sentence=_is_sentence(chunks, language),
        is_request=_is_request(text, chunks, language),
    )


def _find_language(text: str) -> str:
    """Return the language of a question. Without English words, less evidence for another language is enough.

    A single function word that is common in English is no evidence: "car insurance" is not French.
    """
    language = find_language(text)
    if language != DEFAULT and not text.isascii():
        return language
    chunks = [chunk for chunk, _, _ in tokenize_chunks(text, DEFAULT)]
    if language == DEFAULT:
        if any(fold(chunk) in STOP_WORDS for chunk in chunks):
            return DEFAULT
        language = guess_foreign_language(fold(chunk) for chunk in chunks if chunk[1:] == chunk[1:].lower())
    telling = get_function_words(language).intersection(fold(chunk) for chunk in chunks)
    is_english = len(telling) == 1 and bool(get_shares(map(stem, telling), DEFAULT))
    return DEFAULT if is_english else language


def _is_sentence(chunks: Sequence[_Chunk], language: str) -> bool:
    return any(chunk.sort == "stop" for chunk in chunks) or language in _UNSPACED


def _is_request(text: str, chunks: Sequence[_Chunk], language: str) -> bool:
    """Return whether a sentence is probably a request to do something, by its form.

    It has no question mark. Its first word is no function word, as in an imperative. No clause begins or ends with a
    question word. In Japanese the form of the verb decides, in Chinese a word of politeness.
    """
    if language in _UNSPACED:
        return _UNSPACED_REQUEST.search(text) is not None
    if "?" in text or not _is_sentence(chunks, language) or _ASKS.search(text):
        return False
    return len(chunks) >= _SHORTEST_REQUEST and chunks[0].sort != "stop"


class _Chunk(NamedTuple):
    sort: Literal["word", "stop", "name"]
    folded: str
    """Its folded form; for a name, the possible names, one on each line."""
    parts: tuple[str, ...]
    wholes: tuple[str, ...]


def _keep_heavier(terms: dict[str, QueryTerm], term: QueryTerm) -> None:
    known = terms.get(term.token)
    if known is None or known.weight < term.weight:
        terms[term.token] = term


def _classify_chunks(
    text: str, language: str, names: Mapping[str, str], months: Collection[str]
) -> Iterator[_Chunk]:
    """Yield the chunks of a question."""
    lower = text == text.lower()
    stop_words = STOP_WORDS if language == DEFAULT else get_function_words(language)
    for number, (chunk, parts, wholes) in enumerate(tokenize_chunks(text, language)):
        folded = fold(chunk)
        # A name has a capital, unless the whole question is in small letters, since "rose" is also a verb.
        if folded in names and (not chunk[0].islower() or (lower and folded not in STOP_WORDS)):
            yield _Chunk("name", names[folded], parts, wholes)
        elif folded in stop_words and folded not in months and not _is_name(chunk, number, text):
            yield _Chunk("stop", folded, parts, wholes)
        else:
            yield _Chunk("word", folded, parts, wholes)


def _is_name(chunk: str, number: int, text: str) -> bool:
    """Return whether a function word is a name by its capitals: "IT", "Go" within a sentence."""
    if len(chunk) < 2 or text.isupper():
        return False
    return chunk.isupper() or (number > 0 and len(chunk) == 2 and chunk.istitle() and not text.istitle())


def _pair_tokens(
    chunks: Iterable[_Chunk], language: str
) -> tuple[tuple[tuple[str, str], ...], dict[str, tuple[str, str]]]:
    """Return the adjacent tokens, and the words that two of them form when written as one."""
    pairs: dict[tuple[str, str], None] = {}
    joined: dict[str, tuple[str, str]] = {}
    previous, before = "", ""
    for sort, folded, parts, _ in chunks:
        if sort != "word":
            # The analyzer drops some stop words ("of") from documents too, where their neighbours are adjacent.
            previous, before = "" if parts else previous, ""
            continue
        plain = len(parts) == 1 and folded.isascii() and folded.isalnum()
        for part in parts:
            if previous and previous != part:
                pairs.setdefault((previous, part))
                if before and plain:
                    joined.setdefault(stem(before + folded, language), (previous, part))
            previous = part
        before = folded if plain else ""
    return tuple(pairs), joined


def _map_names(speakers: Collection[str]) -> dict[str, str]:
    """Return for each word of a speaker's name the possible names in the form of passages, one on each line."""
    names: dict[str, str] = {}
    for folded in sorted(speakers):
        for chunk, parts, _ in tokenize_chunks(folded):
            if parts:
                names[chunk] = f"{names[chunk]}\n{folded}" if chunk in names else folded
    return names
