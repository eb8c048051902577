"""Fixtures of the tests of models."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def collect_connections() -> Iterator[None]:
    """Collect the connections that the providers' libraries leave open when a server hangs up.

    Otherwise their warning, which is an error here, appears in whatever test runs when they are collected.
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
