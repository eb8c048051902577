"""Adapters for servers with `/v1/embeddings`: OpenAI, Ollama, vLLM, llama.cpp and others."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any

from reverie.domain.errors import ModelRefused, ModelUnavailable
from reverie.domain.text.validation import validate_address
from reverie.llm.provider import (
    TRANSIENT,
    RetryableError,
    call_with_deadline,
    read_ollama_address,
    read_openai_server,
)

_QUERY_TIMEOUT_S = 5.0
_PASSAGES_TIMEOUT_S = 60.0
_LONGEST_ERROR = 300


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
        base_url: str = "https://api.openai.com/v1",
        api_key: str | None = None,
        dimension: int = 0,
        query_prefix: str = "",
        passage_prefix: str = "",
        provider: str = "openai",
    ) -> None:
        self._model = model
        self._url = f"{validate_address(base_url, name='base_url').rstrip('/')}/embeddings"
        self._key = api_key
        self._prefixes = query_prefix, passage_prefix
        self.dimension = dimension
        self.name = f"{provider}:{model}"

    @classmethod
    def from_environment(cls, model: str, environ: Mapping[str, str]) -> OpenAIEmbedder:
        """Return the embedder with `OPENAI_API_KEY` and `OPENAI_BASE_URL`.

        Raises:
            ModelRefused: neither is set, so there is no server that would answer.
        """
        key, url = read_openai_server(environ, model)
        return cls(model, base_url=url or "https://api.openai.com/v1", api_key=key)

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
        content = json.dumps(body).encode()
        try:
            answer = call_with_deadline(timeout_s, lambda left_s: self._send(content, left_s))
        except RetryableError as error:
            raise ModelUnavailable(f"{self.name} at {self._url} gave {error}") from error
        try:
            items = sorted(answer["data"], key=lambda item: item["index"])
            return [item["embedding"] for item in items]
        except (KeyError, TypeError) as error:
            raise ModelUnavailable(f"the answer of {self.name} has no embeddings") from error

    def _send(self, body: bytes, timeout_s: float) -> Any:
        headers = {"content-type": "application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(self._url, body, headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                answer = error.read(_LONGEST_ERROR).decode("utf-8", "replace")
            failure = ModelUnavailable if error.code in TRANSIENT else ModelRefused
            raise failure(f"{self.name} answered {error.code}: {answer}") from error
        except (OSError, HTTPException) as error:
            raise ModelUnavailable(f"{self.name} cannot be reached at {self._url}: {error}") from error
        except ValueError as error:
            raise ModelUnavailable(f"the answer of {self.name} was no JSON") from error


class OllamaEmbedder(OpenAIEmbedder):
    """Embedder that Ollama runs."""

    @classmethod
    def from_environment(cls, model: str, environ: Mapping[str, str]) -> OllamaEmbedder:
        """Return the embedder at `OLLAMA_HOST`, `http://127.0.0.1:11434` if that is not set."""
        return cls(model, base_url=read_ollama_address(environ), provider="ollama")
