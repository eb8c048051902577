"""Hypothesis profiles: few examples every day, all of them where `HYPOTHESIS_EXAMPLES=all` is set."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, settings

THOROUGH = os.environ.get("HYPOTHESIS_EXAMPLES") == "all"


def examples(number: int) -> int:
    """Return how many examples to try where a thorough run tries `number`."""
    return number if THOROUGH else max(5, number // 8)


def sample_cases(cases: Iterable[object], every: int = 4) -> list[object]:
    """Mark all but each so-manyth value of one parameter as slow: for many cases that run the same code."""
    return [
        pytest.param(case, marks=() if n % every == 0 else pytest.mark.slow) for n, case in enumerate(cases)
    ]


# A busy machine makes examples slow, not wrong. A test that names health checks of its own replaces these.
settings.register_profile(
    "reverie",
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
