"""Search for records that share words with another record."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from reverie.domain.record import Record
from reverie.domain.text import tokenizer

_MOST_LOOKED_AT = 500  # records with one of its words; bounds the time of a dream over many records


class SimilarRecords:
    """Records by their words."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._words: dict[str, frozenset[str]] = {}
        self._having: dict[str, list[Record]] = defaultdict(list)
        for record in records:
            self._words[record.id] = frozenset(tokenizer.tokenize(record.to_searchable_text()))
            for word in self._words[record.id]:
                self._having[word].append(record)

    def __contains__(self, record: Record) -> bool:
        return record.id in self._words

    def share_words(self, one: Record, other: Record) -> bool:
        """Whether two of the records have a word in common."""
        return not self._words[one.id].isdisjoint(self._words[other.id])

    def find(self, record: Record, *, most: int, least: float) -> list[Record]:
        """Return the records that share most words with one of them, the most similar first.

        Args:
            record: One of the records.
            most: How many at most.
            least: The least similarity, by the Dice coefficient.
        """
        own = self._words[record.id]
        found: dict[str, Record] = {}
        looked_at = 0
        for word in sorted(own, key=lambda word: (len(self._having[word]), word)):
            looked_at += len(self._having[word])
            if found and looked_at > _MOST_LOOKED_AT:
                break
            found |= {other.id: other for other in self._having[word]}
        found.pop(record.id, None)
        scores = {
            name: 2 * len(own & self._words[name]) / (len(own) + len(self._words[name])) for name in found
        }
        best = sorted(scores, key=lambda name: (-scores[name], name))[:most]
        return [found[name] for name in best if scores[name] >= least]
