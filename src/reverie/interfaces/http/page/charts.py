"""Charts as shapes for SVG, computed from numbers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 720, 160
"""Size of a chart in units of its own; it is scaled to the page."""

LEFT = 60
"""Where the grid begins, behind its numbers."""

_TOP, _BOTTOM = 20, 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One rectangle.

    Attributes:
        series: Number of its series, which decides its colour.
    """

    x: float
    y: float
    width: float
    height: float
    series: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart of stacked bars.

    Attributes:
        bars: The rectangles.
        lines: Heights of the grid, each with its number, such as 20k.
        labels: Places of texts under the bars, each with its text.
    """

    bars: tuple[Bar, ...]
    lines: tuple[tuple[float, str], ...]
    labels: tuple[tuple[float, str], ...]


def build_chart(labels: Sequence[str], series: Sequence[Sequence[float]]) -> Chart:
    """Return stacked bars, a bar for each label.

    Args:
        labels: What stands under the bars.
        series: For each series its value at each label, the lowest part of the bars first.
    """
    top = _round_up(max((sum(values) for values in zip(*series, strict=True)), default=0))
    room, floor = HEIGHT - _TOP - _BOTTOM, HEIGHT - _BOTTOM
    step = (WIDTH - LEFT) / max(1, len(labels))
    width = round(step * 0.76, 1)
    bars = []
    for place in range(len(labels)):
        x, y = round(LEFT + (place + 0.12) * step, 1), float(floor)
        for number, values in enumerate(series):
            height = values[place] / top * room
            if height:
                y -= height
                bars.append(Bar(x=x, y=round(y, 1), width=width, height=round(height, 1), series=number))
    every = max(1, -(-len(labels) // 8))
    return Chart(
        bars=tuple(bars),
        lines=tuple((round(floor - room * share, 1), _shorten(round(top * share))) for share in (0, 0.5, 1)),
        labels=tuple(
            (round(LEFT + (place + 0.5) * step, 1), label)
            for place, label in enumerate(labels)
            if place % every == 0
        ),
    )


def build_shares(values: Sequence[float], whole: float) -> list[tuple[float, float, int]]:
    """Return parts of a whole as a bar of 100 units: where each begins, its width, its number."""
    shares, x = [], 0.0
    for number, value in enumerate(values):
        width = 100 * value / whole if whole else 0.0
        shares.append((round(x, 2), round(width, 2), number))
        x += width
    return shares


def _round_up(value: float) -> float:
    """Return the next number whose half is a whole number: 2, 4, 10, 20, 40, 100 and so on."""
    size = 1
    while True:
        for factor in (2, 4, 10):
            if value <= factor * size:
                return factor * size
        size *= 10


def _shorten(number: int) -> str:
    """Return a round number in at most four characters, for which there is room: 500, 20k, 1M."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number // size}{unit}"
    return str(number)
