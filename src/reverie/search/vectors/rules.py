"""Chances that records are rules for a request, by their vectors, or by their kinds if there is no classifier."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import TYPE_CHECKING, Any

from reverie.domain.passage import Passage
from reverie.domain.record import STANDING
from reverie.llm.embedding import RuleClassifiers

if TYPE_CHECKING:
    from reverie.search.vectors.vector_file import Neighbours

FORM_CHANCE = 0.25
"""Chance that a query with the form of a request is one, if there is no classifier."""

LEAST_CHANCE = 0.05
"""Least chance of a request; a query with a smaller one is treated as a question."""

_STANDING_LOG_ODDS = 2.0
"""Added to the logarithm of the odds for a preference or constraint."""


class RuleChances:
    """Chances that records are rules for what a query asks to be done."""

    def __init__(self, rules: Neighbours | None, request: float, constant: float) -> None:
        """Compute chances from these values.

        Args:
            rules: The sum of the classifier of rules for each record, without its constant. None if there is no
                classifier: then every preference and constraint is a rule.
            request: The chance that something is asked to be done, 0 to 1.
            constant: The constant of the classifier.
        """
        self._rules = rules
        self._request = request
        self._constant = constant

    def list_likeliest(self, limit: int) -> list[int]:
        """Return the keys of the records with the largest chances, the largest first."""
        return [] if self._rules is None else self._rules.list_nearest(limit)

    def get(self, passages: Sequence[Passage]) -> dict[int, float]:
        """Return the chances, 0 to 1, of the passages that may be rules, by key."""
        if self._rules is None:
            return {passage.key: self._request for passage in passages if passage.kind in STANDING}
        log_odds = self._rules.get_cosines([passage.key for passage in passages])
        constants = {
            passage.key: self._constant + (_STANDING_LOG_ODDS if passage.kind in STANDING else 0.0)
            for passage in passages
        }
        return {key: self._request * _to_chance(value + constants[key]) for key, value in log_odds.items()}


def compute_request_chance(classifiers: RuleClassifiers, vector: Any, has_form: bool) -> float:
    """Return the chance, 0 to 1, that a query asks for something to be done.

    Args:
        classifiers: The classifiers of the embedder.
        vector: The vector of the query, of length 1.
        has_form: Whether the query has the form of a request.
    """
    log_odds = float(vector @ classifiers.request.weights) + classifiers.request.constant
    return _to_chance(log_odds + (classifiers.form if has_form else 0.0))


def _to_chance(log_odds: float) -> float:
    return 1.0 / (1.0 + exp(-log_odds))
