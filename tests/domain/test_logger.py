"""Loggers that import `logging` when something is logged."""

from __future__ import annotations

import logging

import pytest

from reverie.domain.logger import get_logger, prepare_logging


def test_a_message_names_the_place_that_logs_it(caplog: pytest.LogCaptureFixture) -> None:
    get_logger("reverie.mcp").warning("%s failed", "one")
    [record] = caplog.records
    assert (record.name, record.getMessage(), record.filename) == (
        "reverie.mcp",
        "one failed",
        "test_logger.py",
    )


def test_what_prepares_logging_runs_once_before_the_next_message(caplog: pytest.LogCaptureFixture) -> None:
    calls = []

    def prepare() -> None:
        calls.append(len(caplog.records))

    prepare_logging(prepare)
    prepare_logging(prepare)
    assert calls == []
    get_logger().warning("first")
    get_logger().warning("second")
    assert calls == [0]
    assert get_logger().isEnabledFor(logging.WARNING)
