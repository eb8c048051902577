"""Adapters for servers with OpenAI's interface: OpenAI, Ollama, vLLM, llama.cpp and others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reverie.domain.conversation import ToolCall
from reverie.domain.errors import ModelRefused, ModelUnavailable
from reverie.domain.text.validation import validate_address
from reverie.llm.protocol import ChatMessage, Finish, ModelReply, ModelRequest, TokenUsage
from reverie.llm.provider import (
    FormatRejected,
    JsonServer,
    ProviderModel,
    RetryableError,
    StreamRelay,
    append_schema,
    call_with_deadline,
    read_address,
    read_key,
)

_FINISHES: Mapping[str, Finish] = {
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refused",
}


class OpenAIModel(ProviderModel):
    """Model on a server with Chat Completions, whose address includes `/v1`."""

    provider = "openai"

    @classmethod
    def from_environment(cls, model: str, environ: Mapping[str, str]) -> OpenAIModel:
        """Return the model with the address and key of `find_server`; the errors are those of that."""
        url, key = find_server(cls.provider, model, environ)
        return cls(model, base_url=url, api_key=key)

    def _connect(self, base_url: str | None, api_key: str | None) -> JsonServer:
        return _connect(self.name, base_url, api_key, "chat/completions")

    def _build_body(self, request: ModelRequest, by_schema: bool) -> dict[str, Any]:
        messages = request.messages
        body: dict[str, Any] = {
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            tools = [
                {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
                for tool in request.tools
            ]
            body["tools"] = [{"type": "function", "function": tool} for tool in tools]
        if request.schema is not None and by_schema:
            schema = {"name": "answer", "schema": dict(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif request.schema is not None:
            messages = append_schema(messages, request.schema)
        return body | {"messages": [_convert_message(message) for message in messages]}

    def _select_accepted(self, body: Mapping[str, Any]) -> dict[str, Any]:
        accepted = super()._select_accepted(body)
        if "max_tokens" in self._left_out:
            accepted["max_completion_tokens"] = body["max_tokens"]
        if "stream" not in body:
            accepted.pop("stream_options", None)
        return {name: value for name, value in accepted.items() if value is not None}

    def _parse_reply(self, answer: Any, by_schema: bool) -> ModelReply:
        """Return a complete answer as a reply. Servers leave fields out, so any may be missing."""
        choice = answer["choices"][0]
        message = choice["message"]
        functions = [(call["id"], call["function"]) for call in message.get("tool_calls") or ()]
        refusal = message.get("refusal")
        return ModelReply(
            text=message.get("content") or refusal or "",
            tool_calls=tuple(
                ToolCall(id=name, name=each["name"], arguments=each.get("arguments") or "{}")
                for name, each in functions
            ),
            finish="refused" if refusal else _FINISHES.get(choice.get("finish_reason"), "stop"),
            model=answer.get("model") or "",
            usage=_parse_usage(answer.get("usage") or {}),
        )

    def _join_pieces(self, pieces: Iterator[Any], relay: StreamRelay) -> Any:
        answer: dict[str, Any] = {}
        text, reason = "", None
        calls: dict[int, dict[str, Any]] = {}
        for piece in pieces:
            if "error" in piece:
                raise RetryableError("the answer broke off with an error")
            answer |= {name: piece[name] for name in ("model", "usage") if piece.get(name)}
            for choice in piece.get("choices") or ():
                reason = choice.get("finish_reason") or reason
                delta = choice.get("delta") or {}
                text += delta.get("content") or ""
                relay(delta.get("content") or "")
                for part in delta.get("tool_calls") or ():
                    call = calls.setdefault(
                        part["index"], {"id": "", "function": {"name": "", "arguments": ""}}
                    )
                    call["id"] = part.get("id") or call["id"]
                    for name in call["function"]:
                        call["function"][name] += (part.get("function") or {}).get(name) or ""
        message = {"content": text, "tool_calls": [*calls.values()]}
        return reason and answer | {"choices": [{"message": message, "finish_reason": reason}]}


class OllamaModel(OpenAIModel):
    """Model that Ollama runs."""

    provider = "ollama"


def _convert_message(message: ChatMessage) -> dict[str, Any]:
    given: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        given["tool_calls"] = [call.to_message_item() for call in message.tool_calls]
    if message.role == "tool":
        given["tool_call_id"] = message.tool_call_id
    return given


def _parse_usage(counted: Mapping[str, Any]) -> TokenUsage:
    read, written = counted.get("prompt_tokens") or 0, counted.get("completion_tokens") or 0
    return TokenUsage(requests=1, input_tokens=read, output_tokens=written)


# -- embeddings ------------------------------------------------------------------------------------------

_QUERY_TIMEOUT_S = 5.0
_PASSAGES_TIMEOUT_S = 60.0


class OpenAIEmbedder:
    """Embedder on a server with `/v1/embeddings`.

    Args:
        model: Name of the model, as the server knows it.
        base_url: Address of the server, including `/v1`; None for OpenAI's.
        api_key: The key; None for a server that asks for none.
    """

    provider = "openai"
    dimension = 0

    def __init__(self, model: str, *, base_url: str | None = None, api_key: str | None = None) -> None:
        self._model = model
        self.name = self.fingerprint = f"{self.provider}:{model}"
        self._server = _connect(self.name, base_url, api_key, "embeddings")

    @classmethod
    def from_environment(cls, model: str, environ: Mapping[str, str]) -> OpenAIEmbedder:
        """Return the embedder with the address and key of `find_server`; the errors are those of that."""
        url, key = find_server(cls.provider, model, environ)
        return cls(model, base_url=url, api_key=key)

    def embed_queries(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of some questions; raises `ModelError`."""
        return self._embed(texts, _QUERY_TIMEOUT_S)

    def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of some texts; raises `ModelError`."""
        return self._embed(texts, _PASSAGES_TIMEOUT_S)

    def _embed(self, texts: Sequence[str], timeout_s: float) -> list[list[float]]:
        body = {"model": self._model, "input": [*texts], "encoding_format": "float"}
        try:
            answer = call_with_deadline(timeout_s, lambda: self._server.send(body, timeout_s))
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

    provider = "ollama"


# -- addresses -------------------------------------------------------------------------------------------


def find_server(provider: str, model: str, environ: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return the address and the key for a model; None for OpenAI's address, and for no key.

    Args:
        provider: `openai` reads `OPENAI_BASE_URL` and `OPENAI_API_KEY`, `ollama` reads `OLLAMA_HOST`, without which
            it is `http://127.0.0.1:11434`.
        model: Name of the model, for the error.
        environ: The variables.

    Raises:
        InvalidInput: it is not a valid address.
        ModelRefused: neither variable of OpenAI is set.
    """
    if provider == "ollama":
        host = environ.get("OLLAMA_HOST", "").strip() or "127.0.0.1:11434"
        address = host if "://" in host else f"http://{host}"
        return f"{validate_address(address, name='OLLAMA_HOST').rstrip('/')}/v1", None
    url, key = read_address(environ, "OPENAI_BASE_URL"), read_key(environ, "OPENAI_API_KEY")
    if not key and not url:
        raise ModelRefused(
            f"openai:{model} needs OPENAI_API_KEY, or OPENAI_BASE_URL for a server without keys"
        )
    return url, key


def _connect(name: str, base_url: str | None, api_key: str | None, path: str) -> JsonServer:
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    return JsonServer(name, base_url or "https://api.openai.com/v1", path, headers)
