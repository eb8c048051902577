"""Expansion of a query: alternative tokens for its words.

* `form`: the word with the stem of another language, for texts whose language was detected differently.
* `spelling`: words of the searched scopes that are spelled or sound nearly like a word that no passage has.
* `part`: compounds with a word that no passage has, or the letters before its digits ("SOC2").
* `clip`: the word at the beginning of a long word that no passage has ("physio").
* `related`: words of related meaning, from a table.

An alternative counts less than the word itself, and only in passages without the word; see `ranking`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import ceil

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.dates import MONTHS, NUMBERS, WEEKDAYS, load_words
from reverie.domain.text.languages import DEFAULT, WIDESPREAD
from reverie.domain.text.tokenizer import STOP_WORDS, stem, tokenize_as
from reverie.search.query import Alternative, ParsedQuery, QueryTerm
from reverie.search.related_words import RelatedWords

MOST_ALTERNATIVES = 12
"""Alternatives of one word; more only cost time."""

_FORM = 0.9
_SPELLING = 0.9
_PART = 0.6
_RELATED = 0.7
"""Factor of similarities from the table. On `evaluation/training`, recall@5 by words is .601 at .4, .612 at .6 and .622
at .8; recall@10 on LoCoMo is .847, .847 and .845."""

_RELATED_USED = 0.5
_LEAST_USED = 0.5
"""Factor and least similarity of words related to one that passages have, since then their author uses that word. With
.6 and no least similarity, recall@10 on BEAM is .549 instead of .560."""

_SAME_SENSE = 0.5
"""Share of the words related to a stem that must be related to the word too: "stage" is no sense of "staging"."""

_KINDS: Mapping[str, Mapping[str, object]] = {
    "months": MONTHS,
    "weekdays": WEEKDAYS,
    "numbers": NUMBERS,
    **load_words(__package__, "values.txt"),
}
_VALUES: dict[str, dict[str, object]] = {}
"""Meanings of the words that name one of several values, such as a colour or a month, by the kind of value."""
for _kind, _names in _KINDS.items():
    for _word, _value in _names.items():
        _VALUES.setdefault(_word, {})[_kind] = _value

_WRONG_LETTER = 2.0
"""Letters by which a wrong one reduces the similarity of a word. At 1, recall@5 of the open questions without vectors
is .005 lower."""

_SHORTEST_MISSPELLED = 4
_SHORTEST_PART = 4
_SHORTEST_END = 5
_COMPOSING = frozenset({"da", "de", "et", "fi", "hu", "nl", "no", "sv"})
"""Languages that write compounds as one word."""

_TRUST_IN_KNOWN = 0.5
"""Factor for other spellings of a word in the table of related words, which is probably spelled correctly."""

_SOUNDS = tuple(
    (defer_regex(pattern), sound)
    for pattern, sound in (
        ("sch", "sh"), ("ph", "f"), ("th", "t"), ("ck|qu|q|c(?![ieyh])", "k"), ("c(?=[iey])", "s"), ("ch", "k"),
        ("x", "ks"), ("z", "s"), ("y|j", "i"), ("w", "v"), ("(?<=[^aeiou])h|h(?![aeiou])", ""), (r"(.)\1+", r"\1"),
    )
)  # fmt: skip
"""Spellings of one sound in European languages, replaced in this order."""

_SHORTEST_CLIP, _LEAST_CLIP, _LEAST_CUT = 4, 0.35, 3
"""Least letters of a clipped word, its least share of the whole, and the least letters that it leaves out."""

_NUMBERED = defer_regex(r"([^\W\d_]{2,})\d+")
"""A name and a number written together, as in "SOC2"."""

_MOST_UNKNOWN = 8
"""Unknown words of one query that are expanded."""

_ONE_SOUND = ("ckq", "fpv", "sz", "vw", "ijy")
"""First letters that are often confused."""

CollectWords = Callable[[str], Iterable[str]]
"""Function that returns words of the searched scopes, including those near a word."""


def expand_query(
    query: ParsedQuery,
    *,
    count: Callable[[Sequence[str]], Mapping[str, int]],
    collect_words: CollectWords,
    related: RelatedWords,
) -> ParsedQuery:
    """Return the query with alternatives for its words.

    Args:
        query: The parsed question.
        count: Returns the number of passages in the searched scopes with each token.
        collect_words: Returns words of the searched scopes.
        related: Related words.
    """
    held = count(query.tokens)
    within_runs = _relate_unspaced(query, related)
    unknown = [term for term in query.terms if not held.get(term.token) and _is_spelled_out(term)][
        :_MOST_UNKNOWN
    ]
    found = []
    for term in query.terms:
        if term.surface and term.kind == "word":
            neighbours = _get_neighbours(term, related)
            languages = {DEFAULT, query.language} if held.get(term.token) else WIDESPREAD
            forms = {term.surface, *(stem(term.surface, language) for language in languages)}
            alternatives = [
                *(Alternative(form, _FORM, "form") for form in forms),
                *_list_related(neighbours, query.language, bool(held.get(term.token))),
                *within_runs.get(term.token, ()),
            ]
            if term in unknown:
                trust = _TRUST_IN_KNOWN if neighbours else 1.0
                alternatives += _list_spellings(term, query.language, collect_words, trust)
                alternatives += _clip(term.surface, query.language, count)
            elif not held.get(term.token) and (numbered := _NUMBERED.fullmatch(term.surface)):
                alternatives.append(Alternative(stem(numbered[1], query.language), _PART, "part"))
            found.append(alternatives)
        else:
            found.append(within_runs.get(term.token, []))
    held = count(sorted({each.token for alternatives in found for each in alternatives}))
    return query._replace(
        terms=tuple(
            term._replace(alternatives=_choose(term, alternatives, held)) if alternatives else term
            for term, alternatives in zip(query.terms, found, strict=True)
        ),
    )


def _relate_unspaced(query: ParsedQuery, related: RelatedWords) -> dict[str, list[Alternative]]:
    """Return alternatives for the words within runs of a script without spaces, by their last token."""
    alternatives: dict[str, list[Alternative]] = {}
    for run in query.words:
        for word in () if run.isascii() else related.split_unspaced(run):
            if word != run and (tokens := tokenize_as(word, query.language)):
                alternatives.setdefault(tokens[-1], []).extend(
                    _list_related(related.get(word), query.language)
                )
    return alternatives


def _get_neighbours(term: QueryTerm, related: RelatedWords) -> tuple[tuple[str, float], ...]:
    """Return the words related to a word, and to its stem if that has the same sense ("taxes", "tax").

    Words of another value are left out: "blue" is no alternative for "red".
    """
    neighbours = tuple(related.get(term.surface))
    if values := _VALUES.get(term.surface):
        return tuple(each for each in neighbours if not _is_other_value(values, each[0]))
    if not neighbours or term.token == term.surface:
        return neighbours
    of_stem = related.get(term.token)
    shared = {word for word, _ in neighbours}.intersection(word for word, _ in of_stem)
    return (*neighbours, *of_stem) if len(shared) >= _SAME_SENSE * len(of_stem) else neighbours


def _is_other_value(values: Mapping[str, object], other: str) -> bool:
    """Return whether a word names another value of the same kind."""
    others = _VALUES.get(other, {})
    return any(others[kind] != value for kind, value in values.items() if kind in others)


@lru_cache(maxsize=2_000)
def _list_related(
    neighbours: tuple[tuple[str, float], ...], language: str, is_used: bool = False
) -> tuple[Alternative, ...]:
    """Return the tokens of related words; `is_used` is whether passages have the word itself."""
    factor = _RELATED_USED if is_used else _RELATED
    alternatives = []
    for other, similarity in neighbours:
        if other in STOP_WORDS:  # such as "thé", which folds to "the"
            continue
        if is_used and similarity < _LEAST_USED:
            continue
        alternatives += _list_tokens(other, factor * similarity, "related", language)
    return tuple(alternatives)


def _list_tokens(text: str, similarity: float, reason: str, language: str) -> list[Alternative]:
    """Return the tokens of a term. Each of several tokens has a lower similarity."""
    tokens = tokenize_as(text, language)
    return [Alternative(token, similarity / len(tokens) ** 0.5, reason) for token in tokens]


def _choose(
    term: QueryTerm, alternatives: Iterable[Alternative], held: Mapping[str, int]
) -> tuple[Alternative, ...]:
    """Return the most similar alternatives that passages have, each token once."""
    chosen: dict[str, Alternative] = {}
    for alternative in sorted(alternatives, key=lambda each: (-each.similarity, each.token)):
        if alternative.token != term.token and held.get(alternative.token):
            chosen.setdefault(alternative.token, alternative)
    return tuple(chosen.values())[:MOST_ALTERNATIVES]


def _is_spelled_out(term: QueryTerm) -> bool:
    """Return whether a term is a word that can be misspelled."""
    word = term.surface
    return term.kind == "word" and term.weight >= 1.0 and word.isalpha() and len(word) >= _SHORTEST_MISSPELLED


def _list_spellings(
    term: QueryTerm, language: str, collect_words: CollectWords, trust: float
) -> list[Alternative]:
    """Return words of passages that are spelled or sound nearly like an unknown word, or are composed with it."""
    simple = stem(re.sub(r"(.)\1+", r"\1", term.surface), language)
    alternatives = [Alternative(simple, _SPELLING, "spelling")]
    for token in _select_near(term.token, collect_words(term.token)):
        similarity, reason = _compare(term.token, token)
        if not similarity and language in _COMPOSING and token.endswith(term.token):
            similarity, reason = _PART, "part"
        if similarity:
            alternatives.append(Alternative(token, trust * similarity, reason))
    return alternatives


def _select_near(word: str, tokens: Iterable[str]) -> list[str]:
    """Return the tokens that may be near a word, in order, for `_compare`."""
    first, rest, size = word[0], word[1:], len(word)
    firsts = {first, *(letter for letters in _ONE_SOUND if first in letters for letter in letters)}
    shortest, longest = max(2, size - 3), size + 3
    tokens = list(tokens)  # all words that no commit holds yet are among them
    near = [
        token
        for token in tokens
        if token[0] in firsts and (shortest <= len(token) <= longest or token.startswith(word))
    ]
    if rest in " ".join(tokens):  # most often not
        near += [
            token for token in tokens if token.endswith(rest) and (len(token) <= size or token.endswith(word))
        ]
    return sorted(set(near))


@lru_cache(maxsize=20_000)
def _compare(word: str, token: str) -> tuple[float, str]:
    """Return the similarity of a word and a token, 0 to 1, and its reason."""
    is_longer = len(word) > _SHORTEST_PART and len(token) > len(word) and token.isalpha()
    if is_longer and (token.startswith(word) or (len(word) > _SHORTEST_END and token.endswith(word))):
        return _PART, "part"
    most = 1 if len(word) < 6 else 2
    if abs(len(word) - len(token)) <= most + 1 and word[:1].isalpha() and token.isalpha():
        if len(set(word) ^ set(token)) > 2 * most + 1:
            return 0.0, ""
        if min(len(word), len(token)) >= _SHORTEST_MISSPELLED and _spell_sound(word) == _spell_sound(token):
            return _SPELLING, "spelling"
        if len(token) >= _SHORTEST_MISSPELLED:
            distance = compute_distance(word, token, most)
            if distance <= most and (word[0] == token[0] or (distance == 1 and len(word) > 4)):
                return _SPELLING * (1.0 - _WRONG_LETTER * distance / max(len(word), len(token))), "spelling"
    return 0.0, ""


def _spell_sound(word: str) -> str:
    for pattern, sound in _SOUNDS:
        word = pattern.sub(sound, word)
    return word


def compute_distance(one: str, other: str, most: int) -> int:
    """Return the number of insertions, deletions, replacements and transpositions; `most` + 1 if there are more.

    The optimal string alignment distance (Damerau 1964 without repeated edits of a place).

    Example:
        >>> compute_distance("lindquist", "lindqvist", 2), compute_distance("form", "from", 2)
        (1, 1)
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, beside in enumerate(other, 1):
            cost = min(last[j] + 1, row[-1] + 1, last[j - 1] + (letter != beside))
            if before and j > 1 and letter == other[j - 2] and one[i - 2] == beside:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
        before, last = last, row
    return min(last[-1], most + 1)


def _clip(word: str, language: str, count: Callable[[Sequence[str]], Mapping[str, int]]) -> list[Alternative]:
    """Return the longest known word at the beginning of an unknown one ("physio" for "physiotherapist")."""
    shortest = max(_SHORTEST_CLIP, ceil(_LEAST_CLIP * len(word)))
    clips = [stem(word[:end], language) for end in range(len(word) - _LEAST_CUT, shortest - 1, -1)]
    held = count(clips) if clips else {}
    return [Alternative(clip, _PART, "clip") for clip in clips if held.get(clip)][:1]
