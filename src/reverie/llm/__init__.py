"""Language models: request and reply values, the protocol, adapters, retries. Imports `domain` only.

An adapter is imported when its model is chosen, and the names of this package on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reverie.llm.embedding import Embedder, embedder_from_function, resolve_embedder
    from reverie.llm.protocol import Answering, Model, model_from_function, model_from_name, resolve_model

__all__ = [
    "Answering",
    "Embedder",
    "Model",
    "embedder_from_function",
    "model_from_function",
    "model_from_name",
    "resolve_embedder",
    "resolve_model",
]


def __getattr__(name: str) -> object:
    """Import a public name on first use: a memory without a model needs none of them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "embedding" if "embedder" in name.lower() else "protocol"
    return getattr(import_module(f"{__name__}.{module}"), name)
