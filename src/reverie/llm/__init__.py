"""Language models: request and reply values, the protocol, adapters, retries. Imports `domain` only.

The modules are imported when a model is chosen, so `import reverie` stays fast and needs no key.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reverie.llm.embedding import Embedder as Embedder
    from reverie.llm.embedding import embedder_from_function as embedder_from_function
    from reverie.llm.embedding import resolve_embedder as resolve_embedder
    from reverie.llm.protocol import Answering as Answering
    from reverie.llm.protocol import Model as Model
    from reverie.llm.protocol import model_from_function as model_from_function
    from reverie.llm.protocol import model_from_name as model_from_name
    from reverie.llm.protocol import resolve_model as resolve_model

_MODULES = {
    "Answering": "protocol",
    "Embedder": "embedding",
    "Model": "protocol",
    "embedder_from_function": "embedding",
    "model_from_function": "protocol",
    "model_from_name": "protocol",
    "resolve_embedder": "embedding",
    "resolve_model": "protocol",
}
"""The module of each public name. It is imported on first use: a hook needs none of them."""

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'reverie.llm' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"reverie.llm.{_MODULES[name]}"), name)
    return value
