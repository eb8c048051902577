"""Adapter for Anthropic's Messages API."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import anthropic

from reverie.domain.conversation import ToolCall
from reverie.domain.errors import ModelRefused
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
    read_address,
    read_key,
)

_FINISHES: Mapping[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "refused",
}
_ANSWER = "answer"
"""Tool whose arguments are an answer by a schema."""


class AnthropicModel(ProviderModel):
    """Model on a server with Anthropic's Messages API.

    Args:
        model: Name of the model, as the server knows it.
        base_url: Address of the server; None for Anthropic's.
        api_key: The key.
        price: Price of its tokens; None leaves costs unknown.
        patience: Tries and pauses of a request.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str,
        base_url: str | None = None,
        price: Price | None = None,
        patience: RetryPolicy | None = None,
    ) -> None:
        super().__init__(f"anthropic:{model}", anthropic, ("schema", "words"), price=price, patience=patience)
        self._model = model
        if base_url is not None:
            validate_address(base_url, name="base_url")
        self._client = anthropic.Anthropic(api_key=api_key, base_url=base_url, max_retries=0)
        self._takes_temperature = True

    @classmethod
    def from_environment(cls, model: str, environ: Mapping[str, str]) -> AnthropicModel:
        """Return the model with `ANTHROPIC_API_KEY` and `ANTHROPIC_BASE_URL`.

        Raises:
            ModelRefused: there is no key.
        """
        key = read_key(environ, "ANTHROPIC_API_KEY")
        if not key:
            raise ModelRefused(f"anthropic:{model} needs ANTHROPIC_API_KEY")
        return cls(model, api_key=key, base_url=read_address(environ, "ANTHROPIC_BASE_URL"))

    def _request(
        self, request: ModelRequest, form: Form | None, left_s: float, relay: StreamRelay
    ) -> ModelReply:
        arguments = _build_arguments(request, form)
        if request.temperature is not None and self._takes_temperature:
            # In the body, because newer versions of the library have no argument for it. Models that refuse it
            # are asked without it.
            try:
                body = {"temperature": min(request.temperature, 1.0)}
                return self._send_once(arguments, left_s, relay, form, body)
            except FormatRejected as error:
                if not re.search(r"\btemperature\b", str(error)):
                    raise
                self._takes_temperature = False
        return self._send_once(arguments, left_s, relay, form, {})

    def _send_once(
        self,
        arguments: dict[str, Any],
        left_s: float,
        relay: StreamRelay,
        form: Form | None,
        body: dict[str, Any],
    ) -> ModelReply:
        create: Any = self._client.messages.create

        def send(**more: Any) -> Any:
            return create(model=self._model, timeout=left_s, extra_body=body or None, **arguments, **more)

        if not relay.wanted or form == "schema":
            reply = _parse_reply(self._send(send), form)
            relay(reply.text)
            return reply
        pieces = self._send(lambda: send(stream=True))
        return self._send(lambda: _collect_reply(pieces, relay))


def _build_arguments(request: ModelRequest, form: Form | None) -> dict[str, Any]:
    messages: Sequence[ChatMessage] = request.messages
    if request.schema is not None and form == "words":
        messages = append_schema(messages, request.schema)
    system = "\n\n".join(message.content for message in messages if message.role == "system")
    arguments: dict[str, Any] = {"max_tokens": request.max_tokens, "messages": _convert_messages(messages)}
    if system:
        arguments["system"] = system
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
        for tool in request.tools
    ]
    if request.schema is not None and form == "schema":
        tools = [{"name": _ANSWER, "description": "Give the answer.", "input_schema": dict(request.schema)}]
        arguments["tool_choice"] = {"type": "tool", "name": _ANSWER}
    if tools:
        arguments["tools"] = tools
    return arguments


def _convert_messages(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Return the messages in Anthropic's form: tool results as the user's, and adjacent messages of a role joined."""
    found: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _build_blocks(message)
        if found and found[-1]["role"] == role:
            found[-1]["content"] += blocks
        elif blocks:
            found.append({"role": role, "content": blocks})
    return found


def _build_blocks(message: ChatMessage) -> list[dict[str, Any]]:
    if message.role == "tool":
        result = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.content}
        return [result]
    blocks: list[dict[str, Any]] = []
    if message.content.strip():
        blocks.append({"type": "text", "text": message.content})
    for call in message.tool_calls:
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": _parse_input(call)})
    return blocks


def _parse_input(call: ToolCall) -> Any:
    """Return the arguments of a call as an object; other values are wrapped."""
    try:
        given = json.loads(call.arguments or "{}")
    except ValueError:
        return {"arguments": call.arguments}
    return given if isinstance(given, dict) else {"arguments": given}


def _parse_reply(answer: Any, form: Form | None) -> ModelReply:
    blocks = getattr(answer, "content", None)
    if blocks is None:
        raise RetryableError("the answer has no content")
    calls = [block for block in blocks if block.type == "tool_use"]
    finish = _FINISHES.get(answer.stop_reason or "end_turn", "stop")
    text = "".join(block.text for block in blocks if block.type == "text")
    if form == "schema" and calls:
        text = json.dumps(calls[0].input, ensure_ascii=False)
        calls, finish = [], "length" if finish == "length" else "stop"
    return ModelReply(
        text=text,
        tool_calls=tuple(
            ToolCall(id=call.id, name=call.name, arguments=json.dumps(call.input, ensure_ascii=False))
            for call in calls
        ),
        finish=finish,
        model=answer.model or "",
        usage=_parse_usage(answer.usage),
    )


def _collect_reply(pieces: Any, relay: StreamRelay) -> ModelReply:
    """Return a streamed answer as one reply."""
    text, model, reason, usage = [], "", None, TokenUsage(requests=1)
    calls: dict[int, dict[str, str]] = {}
    for piece in pieces:
        if piece.type == "message_start":
            model, usage = piece.message.model, _parse_usage(piece.message.usage)
        elif piece.type == "content_block_start" and piece.content_block.type == "tool_use":
            block = piece.content_block
            calls[piece.index] = {"id": block.id, "name": block.name, "arguments": ""}
        elif piece.type == "content_block_delta":
            if piece.delta.type == "text_delta":
                text.append(piece.delta.text)
                relay(piece.delta.text)
            elif piece.delta.type == "input_json_delta" and piece.index in calls:
                calls[piece.index]["arguments"] += piece.delta.partial_json
        elif piece.type == "message_delta":
            reason = piece.delta.stop_reason or reason
            usage = replace(usage, output_tokens=piece.usage.output_tokens or usage.output_tokens)
    if reason is None:
        raise RetryableError("the answer broke off")
    return ModelReply(
        text="".join(text),
        tool_calls=tuple(
            ToolCall(id=call["id"], name=call["name"], arguments=call["arguments"] or "{}")
            for call in calls.values()
        ),
        finish=_FINISHES.get(reason, "stop"),
        model=model,
        usage=usage,
    )


def _parse_usage(counted: Any) -> TokenUsage:
    """Return the usage. Cached tokens count as input."""
    read = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return TokenUsage(
        requests=1,
        input_tokens=sum(getattr(counted, name, None) or 0 for name in read),
        output_tokens=getattr(counted, "output_tokens", None) or 0,
    )
