"""Rule that decides whether a search has anything relevant at all.

Only the best hit decides. If it answers, the others may have the rest of the answer, and a caller can cut them by
`min_score`.

Relevance is fitted to both collections together (see `ranking.compute_relevance`). The same number of questions was
asked of memories with the answer and without it. Where the best hit has .4 to .6, .70 of LoCoMo's and .28 of BEAM's
questions were asked of the right memory. The curve and the floors were chosen on the questions of the table. It shows
LoCoMo's development half (997 questions with evidence; each also asked, with the speakers' names exchanged, of two
other conversations) and ten BEAM chats (179; each also asked of two other chats):

| refuses below | another LoCoMo conversation | own | recall@10 (of .844) | another BEAM chat | own |
|---|---|---|---|---|---|
| .07 | .33 (.45 with the names as they were) | .010 | .842 | .08 | .006 |
| .10 | .44 (.57) | .024 | .832 | .12 | .006 |
| .20 | .64 (.79) | .056 | .811 | .27 | .011 |
| .30 | .76 (.89) | .078 | .794 | .40 | .022 |

In a small memory a weak match is seldom a coincidence, because few records compete. So the floor grows with the cube
of the number of records up to `LARGE`, as relevance grows with the cube of the evidence. Related words alone must
reach `RELATED` (`docs/explanation/nothing-relevant.md` has figures).

BEAM's abstention questions are not recognized: all their words are in the chat, and only the answer is not (none of 20
refused). That would need a reader, not a ranker.
"""

from __future__ import annotations

from collections.abc import Sequence

from reverie.search.query import ParsedQuery
from reverie.search.ranking import RankedPassage

FLOOR = 0.07
"""Least relevance of the best hit in a memory that is not small. It is low, because a search that somebody asked for
should show too much rather than too little."""

LARGE = 100
"""Records from which the full floor applies. On the shipped questions with 30 facts in each memory, at 60, 100 and 150,
the answer "nothing" has a precision of .80, .94 and .96, and a recall of .23, .12 and .09."""

COVERED = 0.5
"""Share of the question's weight from which a hit is never refused, since in a very long text even a rare word has a
small score."""

RARE = 0.02
"""Largest share of passages with a rare word; a word of just a few passages is rare too."""

RARE_COVERED = 0.15
"""Share of the question's weight from which a hit with a rare word of it is never refused."""

DATED = 0.15
"""Share of the question's weight from which a hit is never refused for its date."""

RELATED = 0.003
"""Least floor if no hit has a word of the question, but only words of related meaning. On the shipped questions with 5
and 10 facts in each memory, "nothing" has a precision of .926 and .902 (at .007: .898 and .907), and a recall of .379
and .234; without this floor the recall is .288 and .196."""

_FEW = 3
_LOOKED_AT = 10


def compute_floor(records: int) -> float:
    """Return the floor for a memory with this number of records; it is lower in a small one.

    Example:
        >>> compute_floor(1_000), round(compute_floor(10), 6)
        (0.07, 7e-05)
    """
    return FLOOR * min(1.0, records / LARGE) ** 3


def apply_relevance_floor(
    ranked: Sequence[RankedPassage], query: ParsedQuery, *, passages: int = 0, floor: float = FLOOR
) -> list[RankedPassage]:
    """Return the candidates as they are, or none if nothing is relevant.

    Args:
        ranked: The candidates from `ranking.rank`, best first.
        query: The question; without usable words it has no relevant hits.
        passages: Number of passages in the scopes.
        floor: Least relevance of the best hit, 0 to 1; 0 lets everything pass.

    Example:
        >>> apply_relevance_floor([], ParsedQuery(text="anything?"))
        []
    """
    if not ranked or not query:
        return []
    first = ranked[:_LOOKED_AT]
    if not any(entry.is_literal for entry in first):
        return list(ranked) if not floor or ranked[0].relevance >= max(floor, RELATED) else []
    if ranked[0].relevance >= floor or any(entry.coverage >= COVERED for entry in first):
        return list(ranked)
    if any(entry.dated >= DATED for entry in first) and floor < COVERED:
        return list(ranked)
    rare = max(_FEW, RARE * passages)
    if any(entry.rarest <= rare and entry.coverage >= RARE_COVERED for entry in first) and floor < COVERED:
        return list(ranked)
    return []
