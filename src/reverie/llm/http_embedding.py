"""Adapters for servers with `/v1/embeddings`: OpenAI, Ollama, vLLM, llama.cpp and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reverie.domain.errors import ModelRefused, ModelUnavailable
from reverie.domain.text.validation import validate_address
from reverie.llm.openai import OPENAI
from reverie.llm.provider import (
    FormatRejected,
    JsonServer,
    RetryableError,
    call_with_deadline,
    read_ollama_address,
    read_openai_server,
)

_QUERY_TIMEOUT_S = 5.0
_PASSAGES_TIMEOUT_S = 60.0


class OpenAIEmbedder:
    """Embedder on an OpenAI-compatible server.

    Args:
        model: Name of the model, as the server knows it.
        base_url: Address of the server, including `/v1`.
        api_key: The key; None for a server that asks for none.
        dimension: Length of a vector; 0 if it is unknown.
        query_prefix: Text that the model needs before a question, such as `query: `.
        passage_prefix: The same before a text.
        provider: First part of `name`.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = OPENAI,
        api_key: str | None = None,
        dimension: int = 0,
        query_prefix: str = "",
        passage_prefix: str = "",
        provider: str = "openai",
    ) -> None:
        self._model = model
        self._prefixes = query_prefix, passage_prefix
        self.dimension = dimension
        self.name = f"{provider}:{model}"
        url = f"{validate_address(base_url, name='base_url').rstrip('/')}/embeddings"
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._server = JsonServer(self.name, url, headers)

    @classmethod
    def from_environment(cls, model: str, environ: Mapping[str, str]) -> OpenAIEmbedder:
        """Return the embedder with `OPENAI_API_KEY` and `OPENAI_BASE_URL`.

        Raises:
            ModelRefused: neither is set, so there is no server that would answer.
        """
        key, url = read_openai_server(environ, model)
        return cls(model, base_url=url or OPENAI, api_key=key)

    @property
    def fingerprint(self) -> str:
        """The name with the prefixes, which change the vectors."""
        return "|".join((self.name, *self._prefixes)) if any(self._prefixes) else self.name

    def embed_queries(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of some questions; raises `ModelError`."""
        return self._embed(texts, self._prefixes[0], _QUERY_TIMEOUT_S)

    def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of some texts; raises `ModelError`."""
        return self._embed(texts, self._prefixes[1], _PASSAGES_TIMEOUT_S)

    def _embed(self, texts: Sequence[str], prefix: str, timeout_s: float) -> list[list[float]]:
        body = {"model": self._model, "input": [prefix + text for text in texts], "encoding_format": "float"}
        try:
            answer = call_with_deadline(timeout_s, lambda left_s: self._server.send(body, left_s))
            items = sorted(answer["data"], key=lambda item: item["index"])
            return [item["embedding"] for item in items]
        except RetryableError as error:
            raise ModelUnavailable(f"{self.name} gave no embeddings: {error}") from error
        except FormatRejected as error:
            raise ModelRefused(str(error)) from error
        except (KeyError, TypeError) as error:
            raise ModelUnavailable(f"the answer of {self.name} has no embeddings") from error


class OllamaEmbedder(OpenAIEmbedder):
    """Embedder that Ollama runs."""

    @classmethod
    def from_environment(cls, model: str, environ: Mapping[str, str]) -> OllamaEmbedder:
        """Return the embedder at `OLLAMA_HOST`, `http://127.0.0.1:11434` if that is not set."""
        return cls(model, base_url=read_ollama_address(environ), provider="ollama")
