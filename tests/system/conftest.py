"""Marks every test of this folder as slow, but for a sample of the damaged pages."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
EVERYDAY = "test_damaged_pages.py"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests before pytest selects by marker."""
    for item in items:
        if HERE in item.path.parents and item.path.name != EVERYDAY:
            item.add_marker(pytest.mark.slow)
