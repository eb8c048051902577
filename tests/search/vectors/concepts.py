"""A scripted embedder: words of one meaning share a number, so texts without a word in common are near."""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence

CONCEPTS = (
    ("car", "drive", "drives", "volvo", "vehicle", "auto"),
    ("doctor", "physician", "gp", "praxis", "arzt"),
    ("dog", "hound", "puppy", "rex"),
    ("cook", "cooking", "recipe", "kitchen", "stew"),
    ("money", "salary", "pay", "wage", "earns"),
)
DIMENSION = 32


def embed(text: str) -> list[float]:
    """Return a vector with a place for each concept, and one of the others for every other word."""
    vector = [0.05] * DIMENSION
    for word in text.lower().replace("?", " ").replace(".", " ").split():
        places = [place for place, words in enumerate(CONCEPTS) if word in words]
        if places:
            vector[places[0]] += 3.0
        else:
            vector[len(CONCEPTS) + zlib.crc32(word.encode()) % (DIMENSION - len(CONCEPTS))] += 0.3
    return vector


class ConceptEmbedder:
    """Embedder by concepts that can be slow, can fail, and remembers what it was given.

    Attributes:
        passages: Every text that it has embedded.
        queries: Every question that it has embedded.
        pause_s: Seconds that a batch of texts takes.
        error: What it raises; None for nothing.
    """

    dimension = DIMENSION

    def __init__(self, name: str = "concepts", *, pause_s: float = 0.0) -> None:
        self.name = self.fingerprint = name
        self.pause_s = pause_s
        self.error: Exception | None = None
        self.passages: list[str] = []
        self.queries: list[str] = []

    def embed_queries(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of questions."""
        if self.error is not None:
            raise self.error
        self.queries += texts
        return [embed(text) for text in texts]

    def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of texts."""
        time.sleep(self.pause_s)
        if self.error is not None:
            raise self.error
        self.passages += texts
        return [embed(text) for text in texts]
