"""Adapter for servers with Chat Completions: OpenAI, Ollama, vLLM, llama.cpp and others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import openai

from reverie.domain.conversation import ToolCall
from reverie.domain.text.validation import validate_address
from reverie.llm.protocol import ChatMessage, Finish, ModelReply, ModelRequest, Price, TokenUsage
from reverie.llm.provider import (
    Form,
    FormatRejected,
    ProviderModel,
    RetryableError,
    RetryPolicy,
    StreamRelay,
    append_schema,
    read_ollama_address,
    read_openai_server,
)

_FINISHES: Mapping[str, Finish] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refused",
}
_NO_KEY = "none"
"""Key that is sent where none is set: local servers need none, but the library requires one."""


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
        super().__init__(
            f"{provider}:{model}", openai, ("schema", "json", "words"), price=price, patience=patience
        )
        self._model = model
        if base_url is not None:
            validate_address(base_url, name="base_url")
        self._client = openai.OpenAI(api_key=api_key or _NO_KEY, base_url=base_url, max_retries=0)
        self._left_out: frozenset[str] = frozenset()

    @classmethod
    def from_environment(cls, model: str, environ: Mapping[str, str]) -> OpenAIModel:
        """Return the model with `OPENAI_API_KEY` and `OPENAI_BASE_URL`.

        Raises:
            ModelRefused: neither is set, so there is no server that would answer.
        """
        key, url = read_openai_server(environ, model)
        return cls(model, base_url=url, api_key=key)

    def _request(
        self, request: ModelRequest, form: Form | None, left_s: float, relay: StreamRelay
    ) -> ModelReply:
        """Send a request, and repeat it without an argument that the server does not know."""
        arguments = _build_arguments(request, form)
        while True:
            accepted = {name: value for name, value in arguments.items() if name not in self._left_out}
            if "max_tokens" in self._left_out:
                accepted["max_completion_tokens"] = request.max_tokens
            try:
                return self._send_once(accepted, left_s, relay)
            except FormatRejected as error:
                named = _find_refused_argument(str(error), accepted)
                if named is None:
                    raise
                self._left_out |= {named}

    def _send_once(self, arguments: dict[str, Any], left_s: float, relay: StreamRelay) -> ModelReply:
        create: Any = self._client.chat.completions.create
        if not relay.wanted:
            return _parse_reply(self._send(lambda: create(model=self._model, timeout=left_s, **arguments)))
        pieces = self._send(
            lambda: create(
                model=self._model,
                timeout=left_s,
                stream=True,
                stream_options={"include_usage": True},
                **arguments,
            )
        )
        return self._send(lambda: _collect_reply(pieces, relay))


class OllamaModel(OpenAIModel):
    """Model that Ollama runs."""

    @classmethod
    def from_environment(cls, model: str, environ: Mapping[str, str]) -> OllamaModel:
        """Return the model at `OLLAMA_HOST`, `http://127.0.0.1:11434` if that is not set."""
        return cls(model, base_url=read_ollama_address(environ), provider="ollama")


def _build_arguments(request: ModelRequest, form: Form | None) -> dict[str, Any]:
    messages = request.messages
    arguments: dict[str, Any] = {"max_tokens": request.max_tokens}
    if request.temperature is not None:
        arguments["temperature"] = request.temperature
    if request.tools:
        arguments["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.parameters),
                },
            }
            for tool in request.tools
        ]
    if request.schema is not None and form == "schema":
        schema = {"name": "answer", "schema": dict(request.schema)}
        arguments["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif request.schema is not None:
        messages = append_schema(messages, request.schema)
        if form == "json":
            arguments["response_format"] = {"type": "json_object"}
    arguments["messages"] = [_convert_message(message) for message in messages]
    return arguments


def _convert_message(message: ChatMessage) -> dict[str, Any]:
    given: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        given["tool_calls"] = [call.to_message_item() for call in message.tool_calls]
    if message.role == "tool":
        given["tool_call_id"] = message.tool_call_id
    return given


def _parse_reply(answer: Any) -> ModelReply:
    """Return a complete answer as a reply. Servers leave fields out, so any may be missing."""
    choices = getattr(answer, "choices", None)
    if not choices:
        raise RetryableError("the answer has no choices")
    message = choices[0].message
    calls = tuple(
        ToolCall(id=call.id, name=call.function.name, arguments=call.function.arguments or "{}")
        for call in getattr(message, "tool_calls", None) or ()
    )
    return ModelReply(
        text=message.content or getattr(message, "refusal", None) or "",
        tool_calls=calls,
        finish=_finish(choices[0].finish_reason, refused=bool(getattr(message, "refusal", None))),
        model=getattr(answer, "model", None) or "",
        usage=_parse_usage(getattr(answer, "usage", None)),
    )


def _collect_reply(pieces: Any, relay: StreamRelay) -> ModelReply:
    """Return a streamed answer as one reply."""
    text, model, reason, usage = [], "", None, TokenUsage()
    calls: dict[int, dict[str, str]] = {}
    for piece in pieces:
        model = getattr(piece, "model", None) or model
        if getattr(piece, "usage", None) is not None:
            usage = _parse_usage(piece.usage)
        if not piece.choices:
            continue
        reason = piece.choices[0].finish_reason or reason
        delta = piece.choices[0].delta
        if delta.content:
            text.append(delta.content)
            relay(delta.content)
        for part in delta.tool_calls or ():
            call = calls.setdefault(part.index, {"id": "", "name": "", "arguments": ""})
            call["id"] = part.id or call["id"]
            if part.function is not None:
                call["name"] += part.function.name or ""
                call["arguments"] += part.function.arguments or ""
    if reason is None:
        raise RetryableError("the answer broke off")
    return ModelReply(
        text="".join(text),
        tool_calls=tuple(
            ToolCall(**{**call, "arguments": call["arguments"] or "{}"}) for call in calls.values()
        ),
        finish=_finish(reason),
        model=model,
        usage=usage,
    )


def _finish(reason: str | None, *, refused: bool = False) -> Finish:
    return "refused" if refused else _FINISHES.get(reason or "stop", "stop")


def _parse_usage(counted: Any) -> TokenUsage:
    return TokenUsage(
        requests=1,
        input_tokens=getattr(counted, "prompt_tokens", None) or 0,
        output_tokens=getattr(counted, "completion_tokens", None) or 0,
    )


def _find_refused_argument(message: str, arguments: Mapping[str, Any]) -> str | None:
    """Return the optional argument that a refusal mentions; None without one."""
    for name in ("max_tokens", "temperature", "stream_options"):
        if name in arguments and re.search(rf"\b{name}\b", message):
            return name
    return None
