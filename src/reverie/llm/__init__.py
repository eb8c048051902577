"""Language models: request and reply values, the protocol, adapters, retries. Imports `domain` only.

An adapter is imported when its model is chosen.
"""

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
