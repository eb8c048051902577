"""Comparison of texts by form, without a model, to find repetitions.

Two texts are normalized to words (`normalize`) and compared (`is_repetition`). Only transformations that keep the
meaning are allowed, because a wrong merge loses a memory, and a missed one is only a duplicate. So there is no
similarity score, and word order always matters. Rejected, because they merge different facts: stems (`worked` is not
`works`), words in any order (`Paris to Rome`), subsequences with gaps (`likes tea` in `likes green tea`), and
restricting additions (`prefers tabs` in `prefers tabs for Go`).

Articles, polite words and contractions are those of English. In other languages only numbers, units, dates and some
word orders are normalized (`foreign_wording`); everything else is compared by its letters.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.similarity import foreign_wording, rewording
from reverie.domain.similarity.code_tokens import has_code_of, has_paired_stars
from reverie.domain.similarity.restatement import restate
from reverie.domain.similarity.specifics import (
    COSTS,
    MONTH_NUMBERS,
    NEGATIONS,
    NUMBER_WORDS,
    NUMERIC_DATE,
    UNITS,
    WEEKDAYS,
    normalize_characters,
    normalize_dates,
)
from reverie.domain.text.calendar_words import fold_text
from reverie.domain.text.ids import is_case_significant, normalize_case
from reverie.domain.text.languages import DEFAULT, detect_language
from reverie.domain.word_lists import parse_word_set

_DROPPED = parse_word_set("the an please also basically indeed literally honestly obviously um uh")
_INTENSIFIERS = parse_word_set("very really definitely certainly genuinely extremely incredibly")
"""Words that only emphasize. `strongly` and `super` are none: "a strongly typed language" is another thing."""
_IS = parse_word_set("it he she that there what who where how here")

_DENIALS = NEGATIONS | {f"{word}," for word in NEGATIONS}
_TAKES_BACK = _DENIALS | parse_word_set(
    """
    but however except although though yet instead rather than only actually formerly previously used
    was were had been changed changes moved switched left quit became becomes until till later now
    longer anymore no-longer wrong false untrue incorrect mistake mistaken correction corrected outdated
    obsolete deprecated canceled ignore forget reject rejected dropped removed undone reverted replaced
    superseded disagree disagrees doubt doubts allegedly supposedly rumor rumour claims claimed claim
    pretends pretended maybe perhaps possibly probably might may could would should if unless when
    whenever while whether either neither between both or joke joking kidding lie lies lied fake
    hypothetically suppose imagine dislike dislikes hate hates barely hardly rarely seldom scarcely
    almost nearly stopped stops ended ends over gone unlike despite myth quote said says told asked
    wrote thinks thought believes believed hopes hoped wishes nope nah wait sorry scratch oops disregard
    strike cancel cancels resigned fired died divorced sold lost closed renamed migrated replaces
    expires expired temporarily temporary former ex once turned turns update updated currently new newer
    most usually sometimes often mostly mainly generally typically occasionally partly partially
    somewhat grew outgrew recovered graduated finished done retired resolved over ago anymore past earlier exception
    besides apart unless
    """
)
"""Words of denial, contrast, condition, change and hearsay, after which a statement may no longer hold."""

_ENGLISH = parse_word_set(
    """
    is are were been have has had go out does did would can could should of to at for with from and or
    not that this it its she they you i my his their our your user always never every when what who how
    the prefers likes loves hates wants needs uses lives works owns speaks drinks eats plays knows runs
    deploys enjoys dislikes prefer like love hate want need use live work own speak drink eat play know
    run deploy avoid ensure keep called named set starts ends meets
    """
)
"""A text without any of these is not considered English. Words that other languages have too are left out."""
_NOT_ENGLISH = parse_word_set(
    """
    der das und ist nicht ein eine mag für auf von zu im dem kein nie aber el los las que por para una es su
    les du est je il elle ne pas dans pour di non piace sono och att som inte jag ikke og jeg het een niet
    não gosto um uma eu w jest się na
    """
)

_SAID_OF_USER = parse_word_set(
    """
    prefers likes loves hates dislikes enjoys wants needs uses owns has is lives works speaks drinks eats
    plays knows
    """
)
_VERBS = parse_word_set(
    """
    prefers likes loves dislikes enjoys hates wants needs uses owns lives works speaks drinks eats plays
    knows runs writes reads drives studies teaches cooks listens watches collects sings paints
    """
)
_BARE_VERBS = {
    "prefer": "prefers", "like": "likes", "love": "loves", "hate": "hates", "dislike": "dislikes",
    "enjoy": "enjoys", "want": "wants", "need": "needs",
}  # fmt: skip
_PRONOUNS = parse_word_set(
    """
    he she it they him them his her hers its their theirs this that these those there here such both same
    one ones ones other others another latter former
    """
)
"""Words that refer to something said before."""
_POINTING = parse_word_set("it this that them")
_UNBOUND = _PRONOUNS | parse_word_set(
    """
    then is was has have had are were will can must does do did who which where so therefore thus hence use
    run deploy call write read make keep put add send ask tell avoid ensure never always not no and or but
    plus too else again
    """
)
"""First words of a sentence whose subject is named before it."""
_RESCOPING = parse_word_set(
    """
    this that these those such it which as for in on at by from per according until when if unless while
    though although despite except only since because due after before during so then thus or and nor per
    via among without within
    """
)
"""First words of a sentence about the one before it."""
_FRAMES = parse_word_set(
    """
    following below above example examples sample samples quotes quoted novel story tale fiction film movie
    poem draft drafts template scenario rules notes summary transcript legend
    """
)
"""Words by which a sentence may change the subject of the others."""
_TOPICS = parse_word_set("client customer project team company product book case topic subject scope")
"""Words of which the same is true if `is` follows."""
_PLACED = defer_regex(
    r"\b(?:live|lives|living|resides|based|born|located|headquartered)\s+in\s+[^\W\d_]+\W*\Z", re.IGNORECASE
)
_PLACE = defer_regex(r"[^,]*,\s+[A-Z][^\W\d_]+(?:\s[A-Z][^\W\d_]+)?\W*")
_EVENTS = parse_word_set(
    """
    meeting appointment call standup stand-up dentist doctor flight train deploys deploy deployment release
    deadline due party birthday interview demo lunch dinner exam class concert delivery arrives leaves
    starts begins departs lands booked scheduled
    """
)
"""Events with one time on a day, so that a time only adds precision."""
_TIME = defer_regex(r"\d\d?:\d\d")
_DAY = defer_regex(r"-?-?(?:\d{4}-)?\d\d-\d\d|" + "|".join(WEEKDAYS))
_YEAR = defer_regex(r"(?:19|20)\d\d(?:-\d\d)*")
_PAUSE = defer_regex(
    r"(?<!\w)(?P<word>\w++)['\"`*”’]{0,2}(?:[,:;)]{1,2}\s+"
    r"|\s+(?=\())(?!['\"“«„])(?=\W{0,2}(?P<following>\w*))"
)
_LINKING = parse_word_set(
    "and or but nor yet so because which who whom whose where when while since then than as if"
)
"""Words before which a comma makes no difference."""
_LEADING = parse_word_set(
    """
    in on at by for from after before during until till with without since when whenever if unless while
    although though because as to today tomorrow yesterday currently usually sometimes often always
    """
)
"""First words of phrases that may precede a statement with or without a comma."""
_FRAMED = defer_regex(r":\s|:\Z|[\"“”«»„]|^[^\S\n]*#", re.MULTILINE)
_STAR = defer_regex(r"(?<=[^\s*])\*+(?=\w)|\*(?=[^\s.])")
_BEFORE_PATHS = parse_word_set("is in to from with at of into install add build cd run")
_UNSURE = defer_regex(r"[.!?…][^\s.!?…]*\s+[^\W\d_A-Z]")
"""A full stop before a small letter, which may end an abbreviation and not a sentence."""
_LEFT = "\"'“”‘’«»([{*`¿¡„"
_RIGHT = "\"'“”‘’«»)]}*`.,;:!?…。！？；：、，"
_ABBREVIATIONS = parse_word_set(
    """
    dr mr mrs ms prof st vs etc e.g i.e no approx ca inc ltd jr sr u.s u.k a.m p.m fig dept lt col gen rev
    hon mt ave blvd rd co corp cf al
    """
)
_LOOSE_HYPHEN = defer_regex(r"[a-z]{2,}(?:-[a-z]{2,})+")
_TIGHT_PREFIXES = ("re-", "non-", "un-", "co-", "pre-", "no-", "anti-", "ex-")
_TIGHT_SUFFIXES = ("ing", "ed", "odd", "free", "less", "like")
_CASED_UNITS = parse_word_set("Mb MB Gb GB Kb KB kb mb gb Tb TB mW MW mg Mg ms Ms MS")
_DAYPARTS = parse_word_set("am pm a.m p.m")
_MOST_STARTS = 200
_LONGEST_KEPT = _LONGEST_CUT = 64
_LONGEST_CACHED = 2_000
_FEW_WORDS = 16
_ADDING = frozenset({"because", "since", "and"})
_BREAK = "¶"


class _Chunk(NamedTuple):
    """Words of a run of characters between spaces.

    Attributes:
        words: Its words.
        ends: Whether a sentence ends with it.
        dated: Whether it may be part of a date or a time of day.
        bound: Whether its words depend on the chunks around it.
    """

    words: tuple[str, ...]
    ends: bool = False
    dated: bool = False
    bound: bool = False


@dataclass(frozen=True, kw_only=True)
class NormalizedText:
    """Normalized words of a text, which can be compared with many others.

    Attributes:
        text: The text itself.
        bare: The text without introductory words and the marks of a list of records.
        letters: The text as a record's fingerprint has it: with single spaces, and in lower case except for words
            whose case matters.
        words: Its words in order, each in one spelling.
        breaks: Numbers of words after which a sentence ends inside the text.
        pauses: Words with a significant comma or bracket after them.
        english: Whether the rules of English were used.
    """

    text: str
    bare: str
    letters: str
    words: tuple[str, ...]
    breaks: tuple[int, ...] = ()
    pauses: tuple[str, ...] = ()
    english: bool

    @cached_property
    def simple_words(self) -> tuple[str, ...]:
        """The words, with one form for phrases of the same meaning."""
        return rewording.simplify(self.words)

    @cached_property
    def restated(self) -> NormalizedText:
        """The text in the form of `restatement.restate`."""
        text = restate(self.bare)
        return self if text == self.bare else normalize(text)


def is_repetition(new: NormalizedText, old: NormalizedText) -> bool:
    """Return whether the old text says everything that the new one says. Time is linear in both texts.

    >>> def repeats(new, old): return is_repetition(normalize(new), normalize(old))
    >>> repeats("the user does not like tea", "User doesn't like tea.")
    True
    >>> repeats("Likes tea", "Likes tea. Drinks two cups a day.")
    True
    >>> repeats("Likes tea. Drinks two cups a day.", "Likes tea")
    False
    >>> repeats("Never deploys on Friday", "Deploys on Friday")
    False
    """
    if new.letters == old.letters:
        return bool(new.letters)
    if new.words == old.words:
        says_it = _has_same_breaks(new, old) and has_code_of(old.bare, new.bare)
    elif new.english and old.english:
        says_it = _says_it_in_other_words(new, old)
    else:
        says_it = _is_typed_without_accents(new, old) or _is_typed_without_accents(old, new)
        says_it = says_it or _is_reordered_in_another_language(new, old)
    says_it = says_it or rewording.is_turned(new.bare, old.bare) or _is_restated(new, old)
    return (says_it or rewording.is_abbreviated(new.bare, old.bare)) and has_code_of(new.bare, old.bare)


def _is_restated(new: NormalizedText, old: NormalizedText) -> bool:
    """Return whether two short statements are equal in their restated forms."""
    one, other = new.restated, old.restated
    if one is new and other is old:
        return False
    if one.words == other.words:
        says_it = _has_same_breaks(one, other)
    else:
        says_it = not (one.breaks or other.breaks) and (
            rewording.is_turned(one.bare, other.bare)
            or rewording.is_reordered(one.simple_words, other.simple_words, {*one.pauses, *other.pauses})
        )
    return says_it and has_code_of(other.bare, one.bare) and has_code_of(one.bare, other.bare)


def _says_it_in_other_words(new: NormalizedText, old: NormalizedText) -> bool:
    if not new.breaks and not old.breaks:
        one, other = new.simple_words, old.simple_words
        if (
            (rewording.is_contracted(one, other) and new.pauses == old.pauses)
            or rewording.is_reordered(one, other, {*new.pauses, *old.pauses})
            or _is_reordered_in_another_language(new, old)
        ):
            return True
    if len(new.words) == len(old.words):
        return _is_same_except_ending(new.words, old.words)
    return len(new.words) < len(old.words) and _is_contained_in(new, old)


def normalize(text: str) -> NormalizedText:
    """Return the normalized words of a text. Any string; time is linear in its length."""
    letters = " ".join(normalize_case(text).split())
    plain = normalize_characters(text)
    if "\n" in plain:
        plain = plain.replace("\n", f" {_BREAK} ")
    plain = bare = rewording.strip_fillers(plain)
    plain = rewording.unify_dash(plain)
    if "*" in plain:
        plain = _protect_unpaired_stars(plain)
    chunks = plain.split()
    parts = [_chunks[chunk] for chunk in chunks]
    if any([chunk.dated for chunk in parts]):
        chunks = normalize_dates(plain).split()
        parts = [_chunks[chunk] for chunk in chunks]
    words: list[str] = []
    breaks: list[int] = []
    for at, (spoken, ends, _, bound) in enumerate(parts):
        words += _interpret_by_neighbors(at, chunks, words) if bound else spoken
        if ends and words:
            breaks.append(len(words))
    if not (
        _is_english(words) or _is_english(plain.lower().split()) or (words and _has_no_other_language(plain))
    ):
        return NormalizedText(
            text=text,
            bare=bare,
            letters=letters,
            words=foreign_wording.normalize_letters(plain.replace(_BREAK, " ")),
            english=False,
        )
    if len(words) > 2 and words[0] == "user" and words[1] in _SAID_OF_USER:
        words = words[1:]
        breaks = [place - 1 for place in breaks if place > 1]
    words = rewording.unify_units(words)
    inner = dict.fromkeys(place for place in breaks if place < len(words))
    return NormalizedText(
        text=text,
        bare=bare,
        letters=letters,
        words=tuple(words),
        breaks=tuple(inner),
        pauses=_extract_pauses(" ".join(chunks)),
        english=True,
    )


def _protect_unpaired_stars(plain: str) -> str:
    """Return `plain` with another character for stars that are not in pairs as in Markdown."""
    return plain if has_paired_stars(plain) else _STAR.sub("∗", plain)


def compute_keys(reading: NormalizedText) -> tuple[str, ...]:
    """Return keys by which repetitions of a text are found. Two texts without a common key are no repetitions.

    They are hashes of word sequences: the whole text, each of its sentences, and its beginning up to each place where
    an addition could start. Texts with a common key are compared with `is_repetition`.

    Returns:
        Distinct keys of 12 hexadecimal characters, about four for a sentence and at most some two hundred.
    """
    words = reading.words
    if not words:
        return (_hash_words([reading.letters]),)
    sequences: list[Sequence[str]] = [words]
    if not reading.english:
        sequences = [fold_text(" ".join(words)).split(), _list_content(reading)]
    else:
        ends = (*reading.breaks, len(words))[: _MOST_STARTS + 1]
        sequences += [words[a:b] for a, b in zip((0, *ends), ends, strict=False)]
        first = ends[0]
        cuts = {at for at in range(2, min(first, _LONGEST_CUT)) if words[at] in _ADDING}
        sequences += [words[:at] for at in sorted(cuts | {max(first - 2, 2), max(first - 1, 2)})]
        if len(ends) == 1 or len(words) <= _FEW_WORDS:
            sequences.append(_list_content(reading))
    if reading.restated is not reading:
        sequences.append(_list_content(reading.restated))
    return tuple(dict.fromkeys(_hash_words(sequence) for sequence in sequences))


def _list_content(reading: NormalizedText) -> list[str]:
    if reading.english:
        return rewording.list_content(reading.simple_words)
    return foreign_wording.list_content(reading.words)


def _hash_words(words: Sequence[str]) -> str:
    """Return a hash of the words without those that only emphasize, and with one ending of the first verb."""
    spoken = [word for word in words if word not in _INTENSIFIERS]
    if spoken:
        spoken[0] = _BARE_VERBS.get(spoken[0], spoken[0])
    return hashlib.blake2b(" ".join(spoken).encode("utf-8", "replace"), digest_size=6).hexdigest()


def normalize_cached(text: str) -> NormalizedText:
    """Return `normalize(text)`, from a cache for texts of moderate length."""
    return _normalize_short(text) if len(text) <= _LONGEST_CACHED else normalize(text)


class _Chunks(dict[str, _Chunk]):
    """Cache of the words of chunks. It is emptied when it is full.

    The result for a chunk is always the same, so threads that race here only do the same work twice.
    """

    LIMIT = 50_000

    def __missing__(self, chunk: str) -> _Chunk:
        parsed = _read_chunk(chunk)
        if len(chunk) <= _LONGEST_KEPT:
            if len(self) >= self.LIMIT:
                self.clear()
            self[chunk] = parsed
        return parsed


_chunks = _Chunks()
_normalize_short = lru_cache(maxsize=4_096)(normalize)


def _read_chunk(chunk: str) -> _Chunk:
    if chunk == _BREAK:
        return _Chunk((), ends=True)
    bare = chunk.strip("`\"'")
    if (bare in (".", "..") and chunk != ".") or bare.startswith(("./", "../")):
        return _Chunk((bare,))
    if _has_brackets(kept := chunk.rstrip(".,;:!?")):
        return _Chunk((kept,), ends=chunk != kept and chunk[-1] in ".;!?")
    core = chunk.lstrip(_LEFT).rstrip(_RIGHT)
    if core[:1] in (".", "/") and chunk[0] == "*":
        core = chunk.rstrip(_RIGHT)  # a pattern such as *.py
    if not core:  # a mark by itself
        return _Chunk((), ends=chunk[-1] in ".;!?", bound=True)
    tail = chunk[chunk.rindex(core) + len(core) :]
    lower = core.lower()
    asks = "?" in tail or "？" in tail
    ends = asks or any(mark in tail for mark in ".;!…")
    if ends and not asks and tail == "." and (lower in _ABBREVIATIONS or (len(core) == 1 and core.isupper())):
        ends = False
    words = _normalize_chunk(core, lower)
    if words and words[-1] in NEGATIONS and any(mark in tail for mark in ",:"):
        words = (*words[:-1], f"{words[-1]},")  # "No, wait" is not "no wait"
    if asks:
        words = (*words, "?")
    return _Chunk(
        words,
        ends,
        dated=lower in MONTH_NUMBERS
        or lower in _DAYPARTS
        or NUMERIC_DATE.fullmatch(core) is not None
        or (core[0].isdigit() and lower.endswith(("am", "pm", "a.m", "p.m"))),
        bound=core in ("a", "A", "-", "–", "—", "•")
        or (lower in _DROPPED and core.istitle())
        or lower in ("few", "little", "bit", "lot")
        or bool(rewording.normalize_decimal(core)),
    )


def _has_brackets(chunk: str) -> bool:
    """Return whether a chunk ends with brackets of code, such as `args[]` and `{id}`."""
    bare = chunk.rstrip("`\"'")
    return bare.endswith(("]", "}")) and ("[" in bare or "{" in bare)


def _normalize_chunk(core: str, lower: str) -> tuple[str, ...]:
    if lower in _DROPPED:
        return ()
    if lower in rewording.CONTRACTIONS:
        return rewording.CONTRACTIONS[lower]
    if expanded := rewording.expand_word(core, lower):
        return expanded
    if _is_exact(core):
        return (core,)
    if core[0].isdigit() or (len(core) > 1 and core[0] in "+-$€£¥" and core[1] in "0123456789$€£¥"):
        return rewording.normalize_number(core)
    if "'" in lower:
        return _expand_contraction(lower)
    if lower in NUMBER_WORDS:
        return (NUMBER_WORDS[lower],)
    if _LOOSE_HYPHEN.fullmatch(lower) and not (
        lower.startswith(_TIGHT_PREFIXES) or lower.endswith(_TIGHT_SUFFIXES)
    ):
        return tuple(rewording.unify_spelling(part) for part in lower.split("-"))
    return (rewording.unify_spelling(lower),)


def _is_exact(core: str) -> bool:
    """Return whether case and punctuation matter in a token, as in paths, flags, identifiers and units."""
    if core in _CASED_UNITS or (len(core) == 1 and core.isupper() and core not in "IA"):
        return True
    if any(mark in core for mark in "/\\_@") or core[0] == "#" or re.match(r"-\D", core):
        return True
    has_no_case = core == core.lower() if core[0].isdigit() else core.islower()
    is_amount = core[0].isdigit() and core.lstrip("0123456789.,").isalpha()
    return not (has_no_case or is_amount) and is_case_significant(core)


def _expand_contraction(lower: str) -> tuple[str, ...]:
    for ending, expanded in rewording.ENDINGS:
        if lower.endswith(ending) and len(lower) > len(ending):
            return (lower.removesuffix(ending), expanded)
    if lower.endswith("'s"):
        host = lower.removesuffix("'s")
        return (rewording.unify_spelling(host), "is" if host in _IS else "'s")
    return (lower,)


def _interpret_by_neighbors(at: int, chunks: list[str], words: list[str]) -> tuple[str, ...]:
    """Return the words of a chunk whose meaning depends on its neighbors."""
    core = chunks[at].lstrip(_LEFT).rstrip(_RIGHT)
    before = chunks[at - 1].lower() if at else ""
    if not core:
        return _mark(at, chunks)
    if core in ("-", "–", "—", "•"):
        return () if not words or before == _BREAK else ("-",)
    if core == "a":
        after = chunks[at + 1].lower() if chunks[at] == core and at + 1 < len(chunks) else ""
        is_article = len(after) > 1 and after not in _LINKING | _LEADING
        return () if is_article else (core, *("?" if "?" in chunks[at] else ""))
    lower = core.lower()
    if core == "A" or lower in _DROPPED:  # dropped where a sentence begins, else a name: vitamin A, The Who
        begins = not words or before.endswith((".", "!", "?", ":", _BREAK))
        return () if begins else ("A" if core == "A" else lower,)
    if decimal := rewording.normalize_decimal(core):
        after = chunks[at + 1].strip(_RIGHT).lower() if at + 1 < len(chunks) else ""
        plain = after in UNITS or before in COSTS or len(chunks) == 1  # elsewhere 3.10 may be a version
        return (decimal if plain else core.replace(",", ""),)
    return (f"a {lower}",) if before == "a" else (lower,)


def _mark(at: int, chunks: list[str]) -> tuple[str, ...]:
    """Return the words of a separate mark: none at the edge of a line, and none for quotation marks."""
    chunk = chunks[at]
    mark = chunk.strip("\"'“”‘’«»`") or chunk
    if mark == chunk:
        last = at + 1 == len(chunks) or chunks[at + 1] == _BREAK
        is_path = mark == "." and at > 0 and chunks[at - 1].lower() in _BEFORE_PATHS
        if (last and not mark.strip(".!…") and not is_path) or (
            mark == "*" and (not at or chunks[at - 1] == _BREAK)
        ):
            return ()
    return (mark,)


def _extract_pauses(plain: str) -> tuple[str, ...]:
    """Return the words before a comma or bracket, except where that is a matter of style."""
    pauses: list[str] = []
    leading = plain.split(maxsplit=1)[0].lower() in _LEADING
    for pause in _PAUSE.finditer(plain):
        word, following = (part.lower() for part in pause.group("word", "following"))
        if not leading and following not in _LINKING and word not in WEEKDAYS:
            pauses.append(rewording.unify_spelling(word))
        leading = False
    return tuple(pauses)


def _has_no_other_language(plain: str) -> bool:
    return (
        plain.isascii()
        and _NOT_ENGLISH.isdisjoint(plain.lower().split())
        and detect_language(plain.lower().split(), plain) == DEFAULT
    )


def _is_english(words: list[str]) -> bool:
    return not _ENGLISH.isdisjoint(words) and _NOT_ENGLISH.isdisjoint(words)


def _has_same_breaks(new: NormalizedText, old: NormalizedText) -> bool:
    """Return whether equal words have the same sentences and pauses, as far as that matters.

    Sentences may be joined if nothing is denied ("Don't. Stop." is not "Don't stop."). A comma is a matter of style
    before a conjunction and after an introductory phrase. Elsewhere it may change the meaning.
    """
    if not new.words:
        return False
    if new.breaks != old.breaks and not _TAKES_BACK.isdisjoint(new.words):
        return False
    return new.pauses == old.pauses


def _is_typed_without_accents(one: NormalizedText, other: NormalizedText) -> bool:
    """Return whether a text in small letters without accents is otherwise equal to another one."""
    is_plain = one.text.isascii() and one.text.islower()
    return is_plain and " ".join(one.words) == fold_text(" ".join(other.words))


def _is_reordered_in_another_language(new: NormalizedText, old: NormalizedText) -> bool:
    """Return whether two texts without an English word differ in a word order that does not matter."""
    return not _is_english([*new.words, *old.words]) and foreign_wording.is_reordered(new.words, old.words)


def _is_same_except_ending(new: tuple[str, ...], old: tuple[str, ...]) -> bool:
    """Return whether two texts differ only in the ending of the first verb: `prefer(s)`."""
    a, b = new[0], old[0]
    return (_BARE_VERBS.get(a) == b or _BARE_VERBS.get(b) == a) and len(new) > 1 and new[1:] == old[1:]


def _is_contained_in(shorter: NormalizedText, longer: NormalizedText) -> bool:
    """Return whether the longer text contains all of the shorter one, and does not retract it."""
    if "?" in longer.words or len(shorter.words) < 2:
        return False
    if len(longer.words) - len(shorter.words) <= 2 and _has_only_added_emphasis(shorter, longer):
        return True
    if longer.words[: len(shorter.words)] == shorter.words and len(shorter.words) not in longer.breaks:
        return not shorter.breaks and not longer.breaks and _is_plain_addition(shorter, longer)
    return _is_among_sentences(shorter, longer)


def _has_only_added_emphasis(shorter: NormalizedText, longer: NormalizedText) -> bool:
    if _INTENSIFIERS.isdisjoint(longer.words) or not _TAKES_BACK.isdisjoint(longer.words):
        return False
    matched = 0
    for word in longer.words:
        if matched < len(shorter.words) and word == shorter.words[matched]:
            matched += 1
        elif word not in _INTENSIFIERS:
            return False
    return matched == len(shorter.words)


def _is_plain_addition(shorter: NormalizedText, longer: NormalizedText) -> bool:
    """Return whether the rest of the longer text neither restricts nor denies the shorter one.

    Five additions are safe: a reason, the year of the beginning, another verb of the same subject, the time of an
    event, and the country of the town where somebody lives. A purpose, a place or a person restricts a statement.
    """
    tail = longer.words[len(shorter.words) :]
    if not _TAKES_BACK.isdisjoint(longer.words):
        return False
    if tail[0] == "because":
        return len(tail) > 2
    if tail[0] == "since":
        return len(tail) == 2 and bool(_YEAR.fullmatch(tail[1]))
    if tail[0] == "and":
        return len(tail) > 2 and tail[1] in _VERBS and shorter.words[0] in _VERBS
    if _TIME.fullmatch(tail[-1]) and tail[:-1] in ((), ("at",)):
        return bool(_DAY.fullmatch(shorter.words[-1])) and not _EVENTS.isdisjoint(shorter.words)
    return len(tail) <= 2 and bool(_PLACED.search(shorter.text) and _PLACE.fullmatch(longer.text))


def _is_among_sentences(shorter: NormalizedText, longer: NormalizedText) -> bool:
    """Return whether the shorter text is a run of the longer one's sentences that the others do not change."""
    starts = (0, *longer.breaks)
    if len(starts) == 1 or _FRAMED.search(longer.text):
        return False
    if _UNSURE.search(longer.text) and not longer.text.islower():
        return False
    size = len(shorter.words)
    ends = {*longer.breaks, len(longer.words)}
    for start in starts[:_MOST_STARTS]:
        if start + size in ends and longer.words[start : start + size] == shorter.words:
            break
    else:
        return False
    if tuple(place - start for place in longer.breaks if start < place < start + size) != shorter.breaks:
        return False
    if shorter.words[0] in _PRONOUNS or (start and not _is_self_contained(shorter, longer)):
        return False
    others = [
        longer.words[a:b]
        for a, b in zip(starts, (*longer.breaks, len(longer.words)), strict=True)
        if not start <= a < start + size
    ]
    return all(_is_independent_of(other, shorter.words) for other in others)


def _is_self_contained(shorter: NormalizedText, longer: NormalizedText) -> bool:
    """Return whether a text means the same after other sentences: it names its subject and has no references.

    In a text of several lines it may be under a heading, which could change its meaning.
    """
    if "\n" in longer.text:
        return False
    first = shorter.words[0]
    if first in _UNBOUND or not _PRONOUNS.isdisjoint(shorter.words):
        return False
    if first.endswith(("s", "ed", "ing", "ly")) or not first[0].isalpha():
        return False
    return not re.match(r"\W*the\b", shorter.text, re.IGNORECASE)


def _is_independent_of(other: tuple[str, ...], statement: tuple[str, ...]) -> bool:
    """Return whether another sentence neither retracts a statement nor refers to it nor contradicts it."""
    if (
        len(other) < 3
        or other[0] in _RESCOPING
        or not _FRAMES.isdisjoint(other)
        or (other[0] in _TOPICS and other[1] in ("is", ":"))
        or not _TAKES_BACK.isdisjoint(other)
        or other[0] in _POINTING
        or (not _POINTING.isdisjoint(other) and {"is", "are"}.isdisjoint(other))
        or not _is_english(list(other))
    ):
        return False
    for link in ("is", "are", "="):
        if link in other and link in statement:
            return other[: other.index(link)] != statement[: statement.index(link)]
    return True
