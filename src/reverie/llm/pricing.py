"""Prices of tokens, given by the caller."""

from __future__ import annotations

from dataclasses import dataclass, replace

from reverie.llm.messages import TokenUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Price of a model's tokens.

    Attributes:
        input: US dollars for a million input tokens, 0 or more.
        output: US dollars for a million output tokens, 0 or more.
    """

    input: float
    output: float

    def of(self, usage: TokenUsage) -> TokenUsage:
        """Return the usage with its cost."""
        cost = (usage.input_tokens * self.input + usage.output_tokens * self.output) / 1e6
        return replace(usage, cost=cost)
