"""Postings of a memory in its database: which passage has which token, and queries of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from reverie.domain.filter import Filter
from reverie.domain.passage import Among, Passage, Searchable, TermWeight
from reverie.stores.postgres.connections import PostgresConnections
from reverie.stores.postgres.statements import (
    MemoryConditions,
    build_passage_conditions,
    remember_documents,
    remember_passages,
)
from reverie.stores.sql import format_limit

_SORTS: dict[Among, str] = {"words": "w", "dates": "d", "speakers": "s"}
_OTHER_LETTERS = 3
"""By how much the lengths of words differ that may be meant for one another."""

_KEYS = (
    "SELECT t.key FROM reverie.thing AS t WHERE t.space = %(space)s AND t.subject = %(subject)s AND t.searched "
    "AND NOT EXISTS (SELECT FROM "
    "reverie.list_postings(t.subject, t.length, t.voice, t.cues, t.dates, t.terms) AS d LEFT JOIN reverie.posting AS p "
    "ON p.space = t.space AND p.field = d.field AND p.token = d.token AND p.scope = t.scope AND p.key = t.key "
    "WHERE p.key IS NULL) UNION SELECT p.key FROM reverie.posting AS p WHERE p.space = %(space)s "
    "AND p.key > 0 AND starts_with(p.field, %(letter)s) AND NOT EXISTS (SELECT "
    "FROM reverie.thing AS t WHERE t.space = p.space AND t.subject = %(subject)s AND t.key = p.key AND t.searched)"
)

PASSAGE = (
    "it.key, it.terms, it.length, it.thread, CASE it.subject WHEN 'turn' THEN it.position::integer ELSE 0 END, "
    "it.voice, it.at / 1e6::double precision, it.cues, it.dates, coalesce(it.importance, 0.5), "
    "coalesce(it.confidence, 0.8), CASE it.subject WHEN 'record' THEN it.kind ELSE it.subject END, "
    "coalesce(it.pinned, false), it.expires_at / 1e6::double precision"
)
"""The columns of a `Passage`."""


class PostingTables:
    """The postings of one memory, which its changes maintain.

    Args:
        connections: The connections of its store.
    """

    def __init__(self, connections: PostgresConnections) -> None:
        self._connections = connections
        self._space = connections.space

    def count_words(
        self,
        subject: Searchable,
        words: Sequence[str],
        scopes: Collection[str] | None,
        category: str | None = None,
    ) -> dict[str, int]:
        """Return in how many passages of some scopes (None: of all) each word stands; those in none are left out.

        With a category, only records of it and those below it count.
        """
        where = MemoryConditions(self._space, table="p")
        where.add("p.field = %s AND p.token = u.token", _name_field(subject, "words"))
        if scopes is not None:
            where.add_any("p.scope", list(scopes))
        if category is not None:
            within = build_passage_conditions(self._space, "record", Filter(categories=(category,)))
            where.add(
                f"EXISTS (SELECT FROM reverie.thing AS it WHERE it.key = p.key AND {within})", *within.values
            )
        # `OFFSET 0` keeps the inner query as it is: each word is looked up in the index, whatever the statistics are.
        rows = self._connections.rows(
            "SELECT u.token, count(*) FROM unnest(%s::text[]) AS u (token) CROSS JOIN LATERAL "
            f"(SELECT FROM reverie.posting AS p WHERE {where} OFFSET 0) AS held GROUP BY u.token",
            (list(dict.fromkeys(words)), *where.values),
        )
        return {token: int(count) for token, count in rows}

    def find_heaviest(
        self,
        subject: Searchable,
        weights: Sequence[TermWeight],
        allowed: Filter,
        limit: int,
    ) -> list[int]:
        """Return the keys of passages by the sum of the weights of their tokens times their brevity, newest first.

        In a `viewing` block the passages and the records are remembered for `PostgresStore.passages` and
        `PostgresStore.records`, which are asked for them next.

        Args:
            subject: Records, turns, or paragraphs.
            weights: What to look for.
            allowed: What the result is restricted to.
            limit: The largest number of keys.
        """
        if not weights:
            return []
        postings = MemoryConditions(self._space, table="p")
        if allowed.scopes is not None:
            postings.add_any("p.scope", allowed.scopes)
        passages = build_passage_conditions(self._space, subject, allowed)
        view = self._connections.view
        columns = "it.key" if view is None else f"{PASSAGE}, it.id, it.body::text"
        # `OFFSET 0` keeps the inner queries as they are, whatever the statistics of the tables: each token is
        # looked up in the index, and only passages that may be among the best are looked at.
        rows = self._connections.rows(
            "SELECT held.* FROM (SELECT p.key, sum(w.weight * p.emphasis) * max(p.brevity) AS figure "
            "FROM unnest(%s::text[], %s::text[], %s::integer[]) AS w (field, token, weight) "
            "CROSS JOIN LATERAL (SELECT p.key, p.emphasis, p.brevity FROM reverie.posting AS p "
            f"WHERE {postings} AND p.field = w.field AND p.token = w.token OFFSET 0) AS p "
            "GROUP BY p.key ORDER BY figure DESC, p.key DESC) AS best JOIN LATERAL ("
            f"SELECT {columns} FROM reverie.thing AS it WHERE it.key = best.key AND {passages} OFFSET 0) "
            f"AS held ON true ORDER BY best.figure DESC, best.key DESC{format_limit(limit)}",
            (
                [_name_field(subject, each.among) for each in weights],
                [each.token for each in weights],
                [each.weight for each in weights],
                *postings.values,
                *passages.values,
            ),
        )
        if view is not None:
            remember_passages(view.memo, subject, (Passage._make(row[:-2]) for row in rows))
            remember_documents(view.memo, subject, ((row[0], row[-2], row[-1]) for row in rows))
        return [int(row[0]) for row in rows]

    def list_similar_words(self, subject: Searchable, word: str, scopes: Collection[str] | None) -> set[str]:
        """Return the words of some scopes (None: of all) that have this one in them, or about as many letters."""
        where = MemoryConditions(self._space, table="p")
        where.add("p.field = %s", f"{subject[0]}v")
        if scopes is not None:
            where.add_any("p.scope", list(scopes))
        size = len(word)
        where.add(
            "(length(p.token) BETWEEN %s AND %s OR strpos(p.token, %s) > 0)",
            size - _OTHER_LETTERS,
            size + _OTHER_LETTERS,
            word,
        )
        rows = self._connections.rows(f"SELECT p.token FROM reverie.posting AS p WHERE {where}", where.values)
        return {token for (token,) in rows}

    def collect_keys(self, subject: Searchable) -> set[int]:
        """Return the keys of passages that have all their postings, or that have some and are not passages."""
        values = {"space": self._space, "subject": subject, "letter": subject[0]}
        return {int(key) for (key,) in self._connections.rows(_KEYS, values)}

    def make(self) -> None:
        """Make the postings of the memory if it has none."""
        self._connections.call_function("make_postings", False)

    def rebuild(self) -> None:
        """Make the postings of the memory again."""
        self._connections.call_function("make_postings", True)


def _name_field(subject: Searchable, among: Among) -> str:
    return subject[0] + _SORTS[among]
