"""Rule that decides whether a search has anything relevant at all.

Only the best hit decides. When it answers, those behind it may hold the rest of the answer, and cutting the
tail costs recall for nothing that a caller's own `min_score` could not do.

Relevance is fitted to both collections together (see `ranking.compute_relevance`), equally many questions being
asked of a memory that has the answer and of one that has not: where the best hit has .4 to .6, .70 of
LoCoMo's and .28 of BEAM's were asked of the right one. The curve and the floors were chosen on the very
questions that the table shows. Measured on LoCoMo's development half (997 questions with evidence; each
also asked, with the speakers' names exchanged, of two other conversations) and on ten BEAM chats (179; each
also asked of two other chats):

| refuses below | another LoCoMo conversation | own | recall@10 (of .844) | another BEAM chat | own |
|---|---|---|---|---|---|
| .07 | .33 (.45 with the names as they were) | .010 | .842 | .08 | .006 |
| .10 | .44 (.57) | .024 | .832 | .12 | .006 |
| .20 | .64 (.79) | .056 | .811 | .27 | .011 |
| .30 | .76 (.89) | .078 | .794 | .40 | .022 |

In a small memory few records compete, so that a weak match is seldom a chance. The evidence that is asked of them
grows with the memory up to `LARGE` records, and the floor, as relevance does, with its cube, but related words alone
must reach `RELATED` (`docs/explanation/nothing-relevant.md` has figures).

What it cannot see: BEAM's abstention questions, whose words all stand in the chat while the one thing asked
for does not, are matched as well as those with an answer (none of 20 refused). That needs a reader, not a
ranker.
"""

from __future__ import annotations

from collections.abc import Sequence

from reverie.search.query import ParsedQuery
from reverie.search.ranking import RankedPassage

FLOOR = 0.07
"""Below this relevance of the best hit there is nothing in a memory that is not small. Low, because a search that
somebody asked for should rather show too much."""

LARGE = 100
"""Records from which the full floor holds. On the shipped questions with 30 facts in each memory, "nothing" is right in
.80 of the cases at 60, .94 at 100 and .96 at 150, where it is found in .23, .12 and .09 of those where it is right."""

COVERED = 0.5
"""A hit that has so much of the question's weight is never refused: in a very long text even a rare word
that was asked for alone makes a small score."""

RARE = 0.02
"""A word that so small a share of passages has, or just a few, is rare."""

RARE_COVERED = 0.15
"""A hit that has a rare word of the question and so much of its weight is never refused."""

DATED = 0.15
"""A hit whose date is so much of the question's weight is never refused."""

RELATED = 0.003
"""The least floor where no hit has a word of the question itself, only words of related meaning. On the shipped
questions with 5 and 10 facts in each memory, "nothing" is right in .926 and .902 of the cases (at .007: .898 and .907);
where nothing is, it is found in .379 and .234, without in .288 and .196."""

_FEW = 3
_LOOKED_AT = 10


def compute_floor(records: int) -> float:
    """Return the floor for records in a memory that has so many: lower in a small one.

    Example:
        >>> compute_floor(1_000), round(compute_floor(10), 6)
        (0.07, 7e-05)
    """
    return FLOOR * min(1.0, records / LARGE) ** 3


def apply_relevance_floor(
    ranked: Sequence[RankedPassage], query: ParsedQuery, *, passages: int = 0, floor: float = FLOOR
) -> list[RankedPassage]:
    """Return the candidates as they are, or none of them if nothing is relevant.

    Args:
        ranked: Best first, as `ranking.rank` gives them.
        query: What was asked; one without usable words has no relevant hits.
        passages: How many passages the scopes have.
        floor: The least relevance of the best hit, 0 to 1; 0 lets everything pass.

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
