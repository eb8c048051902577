"""Which models can be asked? A protocol, adapters for what people use, and a name for each.

Nothing here is imported until a model is chosen: `import reverie` stays small and needs no key.
"""

from reverie.llm.protocol import Answering, Model, model_from_function, model_from_name, resolve_model

__all__ = ["Answering", "Model", "model_from_function", "model_from_name", "resolve_model"]
