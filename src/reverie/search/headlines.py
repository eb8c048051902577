"""Headlines in results: which records are shown, and which are replaced by their headline.

A headline replaces a record only if it has every word through which the record was found. In addition it has to repeat
the record word for word, or another shown record was found through all of these words and more. So a bad headline
costs tokens, but never hides a fact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from reverie.domain.category import is_within_category
from reverie.domain.filter import Filter, is_record_allowed
from reverie.domain.headlines import is_current, list_left_out
from reverie.domain.lazy_dataclass import replace
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import Record
from reverie.domain.text import tokenizer
from reverie.domain.text.validation import estimate_item_cost
from reverie.search.hits import Hit
from reverie.stores.protocol import Store

_CHUNK = 100  # records of a list whose headlines are looked up together
_MOST_ENTRIES = 1_000  # entries of the journal, beyond which headlines are read again
_WEAK = 0.1  # share of the best score; a prompt does not show weaker hits, so a headline saves nothing there
_SENTENCE_END = defer_regex(r"(?<![.!?;。！？])[.!?;。！？]++(?=\s|$)|\n+")


class Cluster(NamedTuple):
    """A current headline with its parts.

    Attributes:
        headline: The headline.
        parts: Its parts.
        told: Ids of the parts that it mentions.
        tokens: Words of the headline, in the analyzer's form.
        sentences: Its sentences.
    """

    headline: Record
    parts: tuple[Record, ...]
    told: tuple[str, ...]
    tokens: frozenset[str]
    sentences: frozenset[str]

    def is_live(self, now: datetime) -> bool:
        """Return whether neither the headline nor a part has expired."""
        return all(each.expires_at is None or each.expires_at > now for each in (self.headline, *self.parts))

    def has_words_of(self, hit: Hit) -> bool:
        """Return whether the headline has every word through which a part was found.

        A part that was found by its date, or not by words, does not count.
        """
        why = hit.explanation
        return (
            bool(why.matched)
            and not why.note
            and "date" not in why.evidence
            and self.tokens.issuperset(why.matched)
        )

    def repeats(self, part: Record) -> bool:
        """Return whether every sentence of a part is a sentence of the headline."""
        return self.sentences.issuperset(_split_sentences(part.content))


class HeadlineIndex:
    """Current headlines of a store, by their parts. Safe to use from several threads."""

    def __init__(self, store: Store) -> None:
        """Index the headlines of `store`."""
        self._store = store
        self._known: tuple[int, Sequence[Record], Mapping[str, Record]] = (-1, (), {})
        self._clusters: dict[str, tuple[Mapping[str, Record], Cluster | None]] = {}

    def is_empty(self) -> bool:
        """Return whether there are no headlines."""
        return not self._read()[0]

    def count(self, scopes: Sequence[str] | None, category: str | None) -> int:
        """Count the headlines in some scopes (None: all) and a category, including outdated ones."""
        return sum(
            (scopes is None or headline.scope in scopes)
            and (category is None or is_within_category(headline.category, category))
            for headline in self._read()[0]
        )

    def find(self, records: Iterable[Record], allowed: Filter, now: datetime) -> dict[str, Cluster]:
        """Return the cluster of each record that is part of a current headline, by the record's id.

        Args:
            records: The records.
            allowed: Filter of the headlines.
            now: The current time.
        """
        _, by_part = self._read()
        if not by_part:
            return {}
        headlines = {
            headline.id: headline
            for record in records
            if (headline := by_part.get(record.id)) is not None and is_record_allowed(allowed, headline)
        }
        clusters: dict[str, Cluster] = {}
        for headline in headlines.values():
            cluster = self._get_cluster(headline, by_part, now)
            if cluster is not None:
                clusters |= dict.fromkeys(cluster.told, cluster)
        return clusters

    def _get_cluster(self, headline: Record, by_part: Mapping[str, Record], now: datetime) -> Cluster | None:
        """Return the cluster of a headline, cached until the store changes; None if it is not current."""
        known = self._clusters.get(headline.id)
        if known is None or known[0] is not by_part:
            parts = [part for part in self._store.records(headline.parts) if by_part[part.id] is headline]
            cluster = _build_cluster(headline, parts) if is_current(headline, parts, now) else None
            self._clusters[headline.id] = known = (by_part, cluster)
        cluster = known[1]
        return cluster if cluster is not None and cluster.is_live(now) else None

    def _read(self) -> tuple[Sequence[Record], Mapping[str, Record]]:
        """Return the live headlines, and a mapping from the ids of parts to their newest headline."""
        sequence = self._store.sequence()
        known_at, headlines, by_part = self._known
        if known_at == sequence:
            return headlines, by_part
        if known_at < 0 or sequence - known_at > _MOST_ENTRIES or self._has_changed(known_at, sequence):
            found = self._store.find(Filter(headlines=True), order="created")
            headlines = sorted(found, key=lambda headline: (headline.updated_at, headline.id))
            by_part = {part: headline for headline in headlines for part in headline.parts}
        else:
            by_part = dict(by_part)  # a new object, for which no cluster is cached
        self._clusters = {}
        self._known = (sequence, headlines, by_part)
        return headlines, by_part

    def _has_changed(self, after: int, until: int) -> bool:
        """Return whether the journal has a change of a headline, or an erased entry."""
        entries = self._store.journal(after=after, until=until, limit=_MOST_ENTRIES)
        return len(entries) < until - after or any(
            entry.edit is None
            or any(isinstance(value, Record) and value.is_headline for value in entry.values)
            for entry in entries
        )


def fold_hits(hits: Sequence[Hit], clusters: Mapping[str, Cluster], known: Collection[str]) -> list[Hit]:
    """Return the hits with a headline in place of some of its parts.

    Args:
        hits: Hits of records, best first.
        clusters: The clusters of records that are part of a headline, by id.
        known: Ids that must not be returned.
    """
    terms = {hit.id: frozenset(hit.explanation.matched) for hit in hits}
    shown: list[Hit] = []
    folded: dict[str, list[Hit]] = defaultdict(list)
    for hit in sorted(hits, key=lambda hit: -len(terms[hit.id])):
        cluster = clusters.get(hit.id)
        if (
            cluster is not None
            and hit.record is not None
            and cluster.headline.id not in known
            and cluster.has_words_of(hit)
            and (cluster.repeats(hit.record) or _is_answered_better(hit, cluster, shown, clusters, terms))
        ):
            folded[cluster.headline.id].append(hit)
        else:
            shown.append(hit)
    least = _WEAK * max((hit.score for hit in hits), default=0.0)
    for group in folded.values():
        headline = clusters[group[0].id].headline
        costs = [estimate_item_cost(hit.content) for hit in group if hit.score >= least]
        if estimate_item_cost(headline.content) < sum(costs):
            best = max(group, key=lambda hit: hit.score)
            why = replace(
                best.explanation, note=f"headline over {', '.join(sorted(hit.id for hit in group))}"
            )
            shown.append(replace(best, record=headline, explanation=why))
        else:
            shown += group
    places = {hit.id: place for place, hit in enumerate(hits)}
    return sorted(shown, key=lambda hit: (-hit.score, places.get(hit.id, 0)))


def fold_records(
    records: Iterable[Record], index: HeadlineIndex, allowed: Filter, now: datetime
) -> Iterator[Record]:
    """Yield the records of a list: each headline in place of the first of its parts.

    Args:
        records: The records in their order.
        index: The headlines.
        allowed: Filter of the list.
        now: The current time.
    """
    seen: set[str] = set()
    waiting = iter(records)
    while chunk := list(islice(waiting, _CHUNK)):
        clusters = index.find((record for record in chunk if not record.archived), allowed, now)
        for record in chunk:
            cluster = None if record.archived else clusters.get(record.id)
            if cluster is not None and cluster.headline.id not in seen:
                seen.add(cluster.headline.id)
                yield cluster.headline
            elif cluster is None and (record.archived or not record.is_headline):
                yield record


def _build_cluster(headline: Record, parts: Sequence[Record]) -> Cluster:
    left_out = list_left_out(headline)
    return Cluster(
        headline=headline,
        parts=tuple(parts),
        told=tuple(part.id for part in parts if part.id not in left_out),
        tokens=frozenset(tokenizer.tokenize(headline.content)),
        sentences=frozenset(_split_sentences(headline.content)),
    )


def _is_answered_better(
    hit: Hit,
    cluster: Cluster,
    shown: Iterable[Hit],
    clusters: Mapping[str, Cluster],
    terms: Mapping[str, frozenset[str]],
) -> bool:
    """Return whether a record outside the cluster matched all words of the hit and more, and is as near."""
    return any(
        terms[hit.id] < terms[other.id]
        and clusters.get(other.id) is not cluster
        and other.explanation.evidence.get("vector", 0.0) >= hit.explanation.evidence.get("vector", 0.0)
        for other in shown
    )


def _split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, lower-case, with single spaces."""
    return [" ".join(part.lower().split()) for part in _SENTENCE_END.split(text) if part.strip()]
