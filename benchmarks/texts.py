"""Texts and questions generated from a seed.

* **Words.** Some 34,000 made-up words of two to four syllables: nouns, verbs, adjectives, names. A word's
  frequency falls with its rank (1/rank, Zipf), within its class and within a topic.
* **Topics.** 400 topics have 80 nouns, 30 verbs and 30 adjectives of their own. A text has one topic, from
  which six words of ten are taken; the others come from the whole vocabulary. Some topics are more frequent.
* **Texts.** Two or three clauses built as English clauses are (article, adjective, noun, verb, preposition,
  ...), with the real function words of English, now and then a number or a date: 10 to 40 words.
* **Questions.** 8 to 15 words: question word and auxiliary, then 4 to 7 words of one text in its order, with
  function words between them, then a question mark.
* **Filters.** A text belongs to one of 100 scopes (1 % each) and, by its topic, to one of 20 areas of
  categories (about 5 % each).

Text `n` is always the same for a seed, whatever the size: a larger collection begins with the smaller one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

SCOPES = 100
AREAS = 20
TOPICS = 400
LONGEST = 40


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ONSETS = _listed("b c d f g h j k l m n p r s t v w br cr dr fl gr kl pl pr sh sk st th tr")
_NUCLEI = _listed("a e i o u ai ea io ou")
_CODAS = ["", "", "", "l", "m", "n", "r", "s", "t", "nd", "rk", "st"]
_PATTERNS = tuple(
    _listed(pattern)
    for pattern in (
        "D A N V D N P D N",
        "D N P N V D A N",
        "M V D N P D A N",
        "M B N V P D N P N",
        "P D N D A N V D N",
        "D N V C D N V P N",
        "M V D A N P M",
        "D A A N P D N V N P D N",
        "D N V D N",
        "D N V P D N P # X",
        "M V # N P D N",
        "D N B N V R P D A N",
    )
)
_GLUE = {
    "D": _listed("the the the a a our their this that every"),
    "P": _listed("in on with for about from after before of of to near under"),
    "C": _listed("and and but because so while when"),
    "B": _listed("and or"),
    "R": _listed("again often never today well soon"),
    "X": _listed("january february march april may june july august september october november december"),
}
_ASKING = (
    "what did", "when did", "why does", "how did", "where is", "which of", "who was with", "how many of",
    "what was",
)  # fmt: skip
_BETWEEN = _listed("the the of with about for in and to from on a")


class Text(NamedTuple):
    """A generated text.

    Attributes:
        number: Its place, from 0.
        content: Its words.
        scope: Whose it is, such as `user:17`.
        area: The top of its category, such as `area-3`.
        category: Its category, such as `area-3/topic-143`.
    """

    number: int
    content: str
    scope: str
    area: str
    category: str


class Texts:
    """Texts and questions of one seed."""

    def __init__(self, seed: int = 1) -> None:
        self._seed = seed
        generator = random.Random(seed)
        made: set[str] = set()
        self._classes = {
            kind: _vocabulary(generator, count, made)
            for kind, count in (("N", 20_000), ("V", 6_000), ("A", 6_000), ("M", 2_000))
        }
        self._topics = [
            {
                kind: generator.sample(self._classes[kind], many)
                for kind, many in (("N", 80), ("V", 30), ("A", 30))
            }
            for _ in range(TOPICS)
        ]

    def first(self, count: int) -> Iterator[Text]:
        """Yield the first `count` texts."""
        return (self.text(number) for number in range(count))

    def text(self, number: int) -> Text:
        """Return the text with that number."""
        words, topic = self._words(number)
        content = " ".join(word for word, _ in words)
        area = f"area-{topic % AREAS}"
        return Text(
            number,
            content[0].upper() + content[1:] + ".",
            f"user:{number % SCOPES}",
            area,
            f"{area}/topic-{topic}",
        )

    def question(self, number: int) -> str:
        """Return a question about the text with that number."""
        generator = random.Random(-1 - (self._seed << 32) - number)
        words, _ = self._words(number)
        telling = list(dict.fromkeys(word for word, tells in words if tells))
        wanted = min(len(telling), generator.randint(4, 7))
        chosen = sorted(generator.sample(range(len(telling)), wanted))
        asked = generator.choice(_ASKING).split()
        room = 15 - len(asked) - wanted
        missing = max(0, 8 - len(asked) - wanted)
        gaps = set(generator.sample(range(wanted), max(missing, min(wanted, room, generator.randint(2, 5)))))
        for place, which in enumerate(chosen):
            if place in gaps:
                asked.append(generator.choice(_BETWEEN))
            asked.append(telling[which])
        return " ".join(asked) + "?"

    def _words(self, number: int) -> tuple[list[tuple[str, bool]], int]:
        """Return the words of a text, each with whether it is a content word, and its topic."""
        generator = random.Random((self._seed << 32) + number)
        draw = generator.random
        topic = int(TOPICS * draw() ** 1.3)
        own = self._topics[topic]
        words: list[tuple[str, bool]] = []
        clauses = 2 if draw() < 0.6 else 3
        for clause in range(clauses):
            if clause:
                words.append((generator.choice(_GLUE["C"]), False))
            for slot in generator.choice(_PATTERNS):
                if slot in _GLUE:
                    words.append((generator.choice(_GLUE[slot]), False))
                elif slot == "#":
                    words.append((str(int(2000 ** draw())), True))
                else:
                    source = own[slot] if slot in own and draw() < 0.6 else self._classes[slot]
                    # n ** u is distributed as 1/rank: Zipf's law without a table.
                    words.append((source[int(len(source) ** draw()) - 1], True))
        return words[:LONGEST], topic


def _vocabulary(generator: random.Random, count: int, made: set[str]) -> list[str]:
    """Generate new words."""
    words: list[str] = []
    while len(words) < count:
        syllables = generator.choices((2, 3, 4), weights=(5, 4, 1))[0]
        word = "".join(
            generator.choice(_ONSETS) + generator.choice(_NUCLEI) for _ in range(syllables)
        ) + generator.choice(_CODAS)
        if word not in made:
            made.add(word)
            words.append(word)
    return words
