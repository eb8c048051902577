"""Adapter for servers with Chat Completions: OpenAI, Ollama, vLLM, llama.cpp and others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reverie.domain.conversation import ToolCall
from reverie.domain.text.validation import validate_address
from reverie.llm.protocol import ChatMessage, Finish, ModelReply, ModelRequest, Price, TokenUsage
from reverie.llm.provider import (
    Form,
    JsonServer,
    ProviderModel,
    RetryableError,
    RetryPolicy,
    StreamRelay,
    append_schema,
    join_calls,
    read_ollama_address,
    read_openai_server,
)

OPENAI = "https://api.openai.com/v1"

_FINISHES: Mapping[str, Finish] = {
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refused",
}


class OpenAIModel(ProviderModel):
    """Model on a server with Chat Completions.

    Args:
        model: Name of the model, as the server knows it.
        base_url: Address of the server, including `/v1`; None for OpenAI's.
        api_key: The key; None for a server that asks for none.
        price: Price of its tokens; None leaves costs unknown.
        patience: Tries and pauses of a request.
        provider: First part of `name`.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        price: Price | None = None,
        patience: RetryPolicy | None = None,
        provider: str = "openai",
    ) -> None:
        name = f"{provider}:{model}"
        url = f"{validate_address(base_url or OPENAI, name='base_url').rstrip('/')}/chat/completions"
        server = JsonServer(name, url, {"authorization": f"Bearer {api_key}"} if api_key else {})
        super().__init__(name, server, ("schema", "json", "words"), price=price, patience=patience)

    @classmethod
    def from_environment(cls, model: str, environ: Mapping[str, str]) -> OpenAIModel:
        """Return the model with `OPENAI_API_KEY` and `OPENAI_BASE_URL`.

        Raises:
            ModelRefused: neither is set, so there is no server that would answer.
        """
        key, url = read_openai_server(environ, model)
        return cls(model, base_url=url, api_key=key)

    def _build_body(self, request: ModelRequest, form: Form | None) -> dict[str, Any]:
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
        if request.schema is not None and form == "schema":
            schema = {"name": "answer", "schema": dict(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif request.schema is not None:
            messages = append_schema(messages, request.schema)
            if form == "json":
                body["response_format"] = {"type": "json_object"}
        return body | {"messages": [_convert_message(message) for message in messages]}

    def _select_accepted(self, body: Mapping[str, Any]) -> dict[str, Any]:
        accepted = super()._select_accepted(body)
        if "max_tokens" in self._left_out:
            accepted["max_completion_tokens"] = body["max_tokens"]
        if "stream" not in body:
            accepted.pop("stream_options", None)
        return {name: value for name, value in accepted.items() if value is not None}

    def _parse_reply(self, answer: Any, form: Form | None) -> ModelReply:
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

    def _collect_reply(self, pieces: Iterator[Any], relay: StreamRelay) -> ModelReply:
        text, model, reason, usage = [], "", None, TokenUsage()
        calls: dict[int, dict[str, str]] = {}
        for piece in pieces:
            if "error" in piece:
                raise RetryableError("the answer broke off with an error")
            model = piece.get("model") or model
            usage = _parse_usage(piece["usage"]) if piece.get("usage") else usage
            for choice in piece.get("choices") or ():
                reason = choice.get("finish_reason") or reason
                delta = choice.get("delta") or {}
                if delta.get("content"):
                    text.append(delta["content"])
                    relay(delta["content"])
                for part in delta.get("tool_calls") or ():
                    call = calls.setdefault(part["index"], {"id": "", "name": "", "arguments": ""})
                    function = part.get("function") or {}
                    call["id"] = part.get("id") or call["id"]
                    call["name"] += function.get("name") or ""
                    call["arguments"] += function.get("arguments") or ""
        if reason is None:
            raise RetryableError("the answer broke off")
        return ModelReply(
            text="".join(text),
            tool_calls=join_calls(calls),
            finish=_FINISHES.get(reason, "stop"),
            model=model,
            usage=usage,
        )


class OllamaModel(OpenAIModel):
    """Model that Ollama runs."""

    @classmethod
    def from_environment(cls, model: str, environ: Mapping[str, str]) -> OllamaModel:
        """Return the model at `OLLAMA_HOST`, `http://127.0.0.1:11434` if that is not set."""
        return cls(model, base_url=read_ollama_address(environ), provider="ollama")


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
