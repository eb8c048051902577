"""Tokenizer of documents, queries and every index.

Text is normalised (`normalize_text`), case-folded, cut into words and stemmed (Snowball, in the language of the text,
see `languages`; words in ASCII letters of a text in another script are English). Tantivy indexes the packed string made
here, stores keep it beside the value, and the ranker counts in it, so results are the same on every machine. Stop words
of documents are kept; `reverie.search.query` drops those of a question.

Rules for a *chunk* (a run of word characters, joined by at most one separator each), in their order:

* Function words of two ASCII letters and single ASCII letters are dropped, unless they are in capitals: `"of"`
  and `"it"` are dropped, `"IT"`, `"Go"` and `"7"` are kept.
* A chunk that is an identifier, a path, a URL, an address, a decimal number, a hyphenated word, or a word and a
  number written together (`"port5433"`, `"500mg"`) gives its parts, in their place, and the whole. Wholes come after
  the last word, so that adjacent words of the text are adjacent tokens.
* Scripts written without spaces (Han, Kana, Hangul, Thai, Lao, Khmer, Myanmar) give overlapping pairs of
  characters. Each Han character also comes after the last word, because many are words.
* Latin letters lose their accents: `"Café"` and `"cafe"` are one word.
* An emoji is a word, the same one in all skin colors.
"""

from __future__ import annotations

import pkgutil
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import date
from functools import cache, lru_cache
from itertools import islice, pairwise

from reverie.domain.lazy_regex import load_patterns
from reverie.domain.text.languages import (
    DEFAULT,
    OTHER_SCRIPTS,
    detect_language,
    fold_accents,
    get_function_words,
    get_stemmer,
)

LONGEST_TOKEN = 64
"""Characters of a token; a longer one is cut."""

MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip

STOP_WORDS = frozenset((pkgutil.get_data(__package__, "stop_words.txt") or b"").decode().split())
"""Question words, auxiliaries, pronouns, determiners, prepositions, conjunctions, and common verbs of questions."""

_GLUE = STOP_WORDS - {"go"}
"""Those of two letters are dropped from English documents."""

_PATTERNS = load_patterns(__package__, "characters.txt")
TOKENS, _CUES = _PATTERNS["tokens"], _PATTERNS["cues"]
"""Patterns of the parts of texts. `{letter}` has the combining marks and joiners that are not \\w in Python: Hebrew and
Arabic points, Indic vowel signs, Thai and Lao vowels and tones. Without them a Hindi word falls into single letters.
Atomic groups read a long run once. They stand in place of groups with possessive quantifiers, of which Python before
3.11.5 misses matches (python/cpython#106052)."""

# Latin, CJK, Arabic, Greek, Armenian, Ethiopic
_QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e", "\u055e", "\u1367")
_TRAILING = " \t\r\n\"'`)]}*_\u201d\u2019\u00bb!."

_LOOKED_AT = 100
"""Chunks at the beginning of a text by which its language is detected."""

_Analysed = tuple[tuple[str, ...], tuple[str, ...]]


class _Chunks(dict[str, _Analysed]):
    """Cache of the parts and wholes of the chunks of one language. It is emptied when it is full.

    The result for a chunk is always the same, so threads that race here only do the same work twice.
    """

    LIMIT = 50_000

    def __init__(self, language: str) -> None:
        super().__init__()
        self.language = language
        self.stem: Callable[[str], str] = get_stemmer(language) or str
        latin = DEFAULT if language in OTHER_SCRIPTS else language
        self.stem_ascii: Callable[[str], str] = get_stemmer(latin) or str
        self.function_words = _GLUE if latin == DEFAULT else get_function_words(language)

    def __missing__(self, chunk: str) -> _Analysed:
        analyzed = _analyze_chunk(chunk, self)
        if len(chunk) <= LONGEST_TOKEN:
            if len(self) >= self.LIMIT:
                self.clear()
            self[chunk] = analyzed
        return analyzed


_get_chunks = cache(_Chunks)


def tokenize(text: str, language: str | None = None, *, speech: str = "") -> list[str]:
    """Return the tokens of a text in reading order, then the wholes of its compounds.

    No token contains white space or is longer than 64 characters.

    Args:
        text: Any string; time is linear in its length.
        language: Its language; None to detect it.
        speech: The first lines of the text, by which its language is detected; empty for all of it.

    >>> tokenize("Running to the café at 7")
    ['run', 'the', 'cafe', '7']
    >>> tokenize("open src/user_name.py")
    ['open', 'src', 'user', 'name', 'py', 'src/user_name.py']
    """
    first = normalize_text(speech or text)
    cut = _cut(first)
    chunks = _get_chunks(_find_language(cut, first) if language is None else language)
    cut += _cut(normalize_text(text[len(speech) :])) if speech else ()
    analyzed = [*map(chunks.__getitem__, cut)]
    flat = [part for parts, _ in analyzed for part in parts]
    return flat + [whole for _, wholes in analyzed for whole in wholes]


def tokenize_as(text: str, language: str) -> list[str]:
    """Return the tokens of a text in that language in reading order, without wholes."""
    chunks = _get_chunks(language)
    return [part for chunk in _cut(normalize_text(text)) for part in chunks[chunk][0]]


def tokenize_chunks(
    text: str, language: str | None = None
) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Return each chunk of a text with its parts and wholes; `language` is None to detect it."""
    text = normalize_text(text)
    cut = _cut(text)
    chunks = _get_chunks(_find_language(cut, text) if language is None else language)
    return [(chunk, *chunks[chunk]) for chunk in cut]


def find_language(text: str) -> str:
    """Return the language in which `tokenize` reads a text, as its ISO 639-1 code.

    >>> find_language("Wann ist der Termin?")
    'de'
    """
    text = normalize_text(text)
    return _find_language(_cut(text), text)


def find_excerpt(text: str, matched: Collection[str], longest: int) -> tuple[int, str]:
    """Return the start of the part of `text` with most different matched words, 0 without any; and that part.

    The words are within half of `longest`. The part begins a quarter of `longest` before them, since a sentence
    rarely begins with a matched word, and ends with a word.

    Args:
        text: The text.
        matched: Words in the analyzer's form.
        longest: The characters of the part.
    """
    language = find_language(text)
    places = [
        (match.start(), found)
        for match in re.finditer(r"\S+", text)
        for _, parts, wholes in tokenize_chunks(match.group(), language)
        if (found := frozenset(matched).intersection((*parts, *wholes)))
    ]

    def count_words(number: int) -> int:
        end = places[number][0] + longest // 2
        near = (found for at, found in places[number : number + longest] if at < end)
        return len(frozenset().union(*near))

    best = places[max(range(len(places)), key=count_words)][0] if places else 0
    start = text.rfind(" ", 0, max(0, best - longest // 4)) + 1 if best >= longest // 2 else 0
    part = text[start : start + longest]
    if start + longest < len(text) and " " in part[longest // 2 :]:
        part = part[: part.rindex(" ")]
    return start, part


def pack(tokens: Iterable[str]) -> str:
    """Return one string in which every token has a space before and after it; empty for no tokens.

    Two spaces are between equal tokens. So `packed.count(" rock ")` is an exact count, and `" rock music " in packed`
    tests for adjacent tokens.

    >>> pack(["rock", "music", "music"])
    ' rock music  music '
    """
    joined = "".join([f"  {word}" if word == last else f" {word}" for last, word in pairwise(["", *tokens])])
    return f"{joined} " if joined else ""


@lru_cache(maxsize=64)
def tokenize_date(at: date) -> tuple[str, ...]:
    """Return the date tokens of a day: year, month, month of the year, day, and day of the month without the year.

    `reverie.search.query.parse_query` makes the same tokens of "in May", "in 2023", "May 2023" and "8 May 2023".

    >>> tokenize_date(date(2023, 5, 8))
    ('@2023', '@may', '@2023-05', '@2023-05-08', '@05-08')
    """
    return (
        f"@{at.year:04d}",
        f"@{MONTHS[at.month - 1]}",
        f"@{at.year:04d}-{at.month:02d}",
        f"@{at.year:04d}-{at.month:02d}-{at.day:02d}",
        f"@{at.month:02d}-{at.day:02d}",
    )


def is_question(text: str) -> bool:
    """Return whether a message ends with a question, in any script that has a question mark.

    >>> is_question("Nice! How did it go?"), is_question("Is it? I think so.")
    (True, False)
    """
    return text[-40:].rstrip(_TRAILING).endswith(_QUESTION_MARKS)


def extract_cues(text: str) -> str:
    """Return the form of a message in a few characters, which the store keeps beside it.

    They are two digits for the number of words that are not in `STOP_WORDS` (at most 99), `a` if the message ends with
    a question, `q` if it has one, `n` if it has a number, and `t` if it has an English time word or a year.

    >>> extract_cues("I went there two weeks ago."), extract_cues("How was it?"), extract_cues("Fine.")
    ('04nt', '00aq', '01')
    """
    chunks = _get_chunks(DEFAULT)
    word_count = sum(
        len(chunks[chunk][0]) for chunk in _cut(normalize_text(text)) if chunk.lower() not in STOP_WORDS
    )
    cues = f"{min(word_count, 99):02d}"
    if any(mark in text for mark in _QUESTION_MARKS):
        cues += "aq" if is_question(text) else "q"
    if _CUES["number"].search(text):
        cues += "n"
    return cues + "t" if _CUES["time"].search(text) else cues


def stem(word: str, language: str = DEFAULT) -> str:
    """Return the token of one folded word in a text of that language."""
    return (get_stemmer(language) or str)(word[:LONGEST_TOKEN])


def _find_language(cut: Sequence[str], text: str) -> str:
    if text.isascii():
        return detect_language(" ".join(cut[:_LOOKED_AT]).lower().split(" "), text)
    return detect_language((fold(chunk) for chunk in islice(cut, _LOOKED_AT)), text)


def normalize_text(text: str) -> str:
    """Return a text in NFKC, without invisible characters, and with the digits 0 to 9.

    >>> normalize_text("ser\u00adver \u0665\u0664")
    'server 54'
    """
    if text.isascii():
        return text
    return TOKENS["other digit"].sub(
        _to_plain_digit, unicodedata.normalize("NFKC", TOKENS["invisible"].sub("", text))
    )


def _to_plain_digit(match: re.Match[str]) -> str:
    character = match.group()
    return {"\u066b": ".", "\u066c": ","}.get(character) or str(unicodedata.decimal(character))


def _cut(text: str) -> list[str]:
    """Return the chunks of a normalised text."""
    if "," in text:
        text = TOKENS["thousands"].sub("", text)
    return (TOKENS["ascii chunk"] if text.isascii() else TOKENS["chunk"]).findall(text)


def _analyze_chunk(chunk: str, chunks: _Chunks) -> _Analysed:
    """Return the parts and wholes of one chunk by the rules of the module."""
    humps = TOKENS["hump"].sub(" ", chunk)
    if not chunk.isalpha():
        # The second pattern takes some milliseconds to compile.
        kind = "numbered beside unspaced" if _may_be_unspaced(chunk) else "numbered"
        humps = TOKENS[kind].sub(r"\1\3 \2\4", humps)
    folded = fold(humps)
    in_capitals = chunk.isupper() and chunk.isalnum() and chunk not in ("A", "I")
    parts = [
        token
        for part in TOKENS["part"].findall(folded)
        for token in _tokenize_word(part, chunks, in_capitals=in_capitals)
    ]
    singles = TOKENS["han"].findall(folded) if not chunk.isascii() and _may_be_unspaced(folded) else []
    plain = fold(chunk)
    if plain == folded and TOKENS["part"].fullmatch(plain):
        return tuple(parts), tuple(singles) if len(plain) > 1 else ()
    if TOKENS["part"].fullmatch(plain):  # camelCase: the whole is an ordinary word, and is stemmed like one
        return tuple(parts), (*_tokenize_word(plain, chunks, in_capitals=in_capitals), *singles)
    whole = "".join(plain.split())[:LONGEST_TOKEN]  # folding can make a blank of an exotic letter
    return tuple(parts), (whole, *singles) if whole else tuple(singles)


def _may_be_unspaced(text: str) -> bool:
    """Return whether a text may have scripts without spaces. This is quick, and compiles no pattern."""
    return max(text, default="") >= "\u0e00"


def fold(text: str) -> str:
    """Return the text in folded case, with Latin letters without accents."""
    return text.lower() if text.isascii() else fold_accents(text.casefold())


def _tokenize_word(word: str, chunks: _Chunks, *, in_capitals: bool) -> list[str]:
    """Return the tokens of one run of letters and digits, already folded."""
    if word.isascii():
        is_short = len(word) < 3 and word.isalpha() and not in_capitals
        if is_short and (len(word) == 1 or word in chunks.function_words):
            return []
        return [chunks.stem_ascii(word[:LONGEST_TOKEN])]
    if not (_may_be_unspaced(word) and TOKENS["run of unspaced"].search(word)):
        return [chunks.stem(word[:LONGEST_TOKEN])]
    tokens: list[str] = []
    for piece in TOKENS["run of unspaced"].split(word):
        if not piece:
            continue
        if not TOKENS["run of unspaced"].match(piece):
            tokens += _tokenize_word(piece, chunks, in_capitals=in_capitals)
        elif len(piece) == 1:
            tokens.append(piece)
        else:
            tokens += [piece[i : i + 2] for i in range(len(piece) - 1)]
    return tokens
