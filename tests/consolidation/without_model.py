"""What asks no model."""

from __future__ import annotations

from reverie.consolidation.answers import NO_MODEL
from reverie.llm.protocol import ModelFailure, ModelRequest


def answer_without_model(request: ModelRequest) -> ModelFailure:
    """Return the failure that stands for a missing model."""
    return NO_MODEL
