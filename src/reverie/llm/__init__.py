"""Models: requests and replies, the protocol, adapters and retries. It imports the domain only.

No adapter is imported until a model is chosen: `import reverie` stays small and needs no key.
"""

from reverie.llm.protocol import Answering, Model, model_from_function, model_from_name, resolve_model

__all__ = ["Answering", "Model", "model_from_function", "model_from_name", "resolve_model"]
