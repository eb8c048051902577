"""Language models: request and reply values, the protocol, adapters, retries. Imports `domain` only.

Nothing here is imported until a model is chosen, so `import reverie` stays small and needs no key.
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
