"""Loggers of the package. `logging` is imported when the first message is logged, which most processes never do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import logging

_preparations: dict[Callable[[], object], None] = {}


class _LazyLogger:
    """Stand-in for the logger of a name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        import logging

        for prepare in tuple(_preparations):
            prepare()
            _preparations.pop(
                prepare, None
            )  # afterwards: nothing is logged by another thread before it is done
        return getattr(logging.getLogger(self._name), name)


def get_logger(name: str = "reverie") -> logging.Logger:
    """Return the logger of that name."""
    return cast("logging.Logger", _LazyLogger(name))


def prepare_logging(prepare: Callable[[], object]) -> None:
    """Have a function called once, before the next message is logged."""
    _preparations[prepare] = None
