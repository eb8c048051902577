"""Token budgets of a prompt: two totals, and a limit for each layer.

The functions choose among rendered lines. All counts are estimates (`reverie.domain.text.validation`): a quarter of
the characters, and for one recalled item `max(20, chars / 4 + 8)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

from reverie.domain.errors import InvalidInput, quote_value
from reverie.domain.text import validation

Verdict = Literal["selected", "over the layer's limit", "over the budget"]

ABOVE_SOFT = 0.85
"""The score from which an item may go above the soft budget (golemcore)."""

_SEPARATOR = 1  # token, for the blank line between sections

_LAYER_LIMITS: Mapping[str, int] = MappingProxyType({"episodic": 8, "semantic": 10, "procedural": 4})


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBudget:
    """Limits of the system part of a prompt.

    Attributes:
        soft_tokens: Limit of recalled items with scores below .85; default 1,800.
        hard_tokens: Limit of everything, with headers, profile and inventory; default 3,500. At least `soft_tokens`.
        layer_limits: Most recalled items of each layer (golemcore's top-k): episodic 8, semantic 10, procedural 4. A
            layer that is not named has no limit.
        working: Lines of the working-memory inventory whose room is reserved before anything is recalled. The others
            take the rest. Default 6.
        page_tokens: Limit of pages (`MEMORY.md`); default 1,200. They leave the soft budget to recalled items, but get
            at least a quarter of what profile and summary leave.
        standing_tokens: Limit of standing records; default 500. They leave the soft budget as pages do.
        notes_tokens: Limit of daily notes, which take the rest; default 500.
    """

    soft_tokens: int = 1_800
    hard_tokens: int = 3_500
    layer_limits: Mapping[str, int] = field(default_factory=lambda: _LAYER_LIMITS)
    working: int = 6
    page_tokens: int = 1_200
    standing_tokens: int = 500
    notes_tokens: int = 500

    def __post_init__(self) -> None:
        for name in (
            "soft_tokens",
            "hard_tokens",
            "working",
            "page_tokens",
            "standing_tokens",
            "notes_tokens",
        ):
            validate_tokens(getattr(self, name), name=name)
        if self.soft_tokens > self.hard_tokens:
            raise InvalidInput(
                f"soft_tokens is {self.soft_tokens} and hard_tokens {self.hard_tokens}: "
                "the soft budget is at most the hard one"
            )


class BudgetItem(NamedTuple):
    """One candidate for the recalled section.

    Attributes:
        line: Its line in the prompt.
        score: 0 to 1.
        layer: Its layer, for the limit.
        header: Its header, whose tokens count for the first item.
    """

    line: str
    score: float
    layer: str
    header: str


def validate_tokens(value: int, *, name: str = "soft_tokens") -> int:
    """Return `value` if it is a whole number from 0; raises `InvalidInput` otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInput(f"{name} is {quote_value(value)}: pass a whole number from 0")
    return value


def choose(items: Sequence[BudgetItem], budget: TokenBudget, *, room: int) -> tuple[list[Verdict], int]:
    """Return the verdict on each item, and the tokens of the selected ones with their headers.

    After an item that does not fit, a shorter one may still fit.

    Args:
        items: The items, best first.
        budget: Soft budget and layer limits.
        room: Tokens left under the hard budget.
    """
    verdicts: list[Verdict] = []
    chosen_by_layer: dict[str, int] = {}
    headers: set[str] = set()
    used = 0
    for item in items:
        if chosen_by_layer.get(item.layer, 0) >= budget.layer_limits.get(item.layer, len(items)):
            verdicts.append("over the layer's limit")
            continue
        cost = validation.estimate_item_cost(item.line)
        if item.header not in headers:
            cost += estimate_section_cost(item.header)
        may_use = room if item.score >= ABOVE_SOFT else min(room, budget.soft_tokens)
        if used + cost > may_use:
            verdicts.append("over the budget")
            continue
        used += cost
        headers.add(item.header)
        chosen_by_layer[item.layer] = chosen_by_layer.get(item.layer, 0) + 1
        verdicts.append("selected")
    return verdicts, used


def estimate_section_cost(text: str) -> int:
    """Return the tokens of a text as a section, with the blank line before it; 0 if empty."""
    return validation.estimate_tokens(text) + _SEPARATOR if text else 0


def cut_section(text: str, room: int) -> str:
    """Return `text` if its section takes at most `room` tokens, else its beginning with a remark on the cut."""
    if estimate_section_cost(text) <= room:
        return text
    remark = f"\n… [cut: the rest of {len(text):,} characters does not fit the token budget]"
    length = (room - _SEPARATOR) * 4 - len(remark)
    return text[:length].rstrip() + remark if length >= 40 else ""


def count_fitting_lines(header: str, lines: Sequence[str], room: int) -> int:
    """Return the number of lines that fit under the header into `room` tokens, with a line about the others."""
    if not lines:
        return 0
    if estimate_section_cost("\n".join([header, *lines])) <= room:
        return len(lines)
    fit = 0
    text = f"{header}\n{format_left_out(len(lines))}"
    for count, line in enumerate(lines, start=1):
        text += f"\n{line}"
        if estimate_section_cost(text) > room:
            break
        fit = count
    return fit


def format_left_out(count: int) -> str:
    """Return the last line of an inventory that is not complete."""
    return f"- … and {count} more: list_working_memory shows them"
