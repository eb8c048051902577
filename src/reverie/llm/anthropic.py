"""Adapter for Anthropic's Messages API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reverie.domain.conversation import ToolCall
from reverie.domain.errors import ModelRefused
from reverie.domain.text.validation import validate_address
from reverie.llm.protocol import ChatMessage, Finish, ModelReply, ModelRequest, TokenUsage
from reverie.llm.provider import (
    JsonServer,
    ProviderModel,
    RetryableError,
    RetryPolicy,
    StreamRelay,
    append_schema,
    join_calls,
    read_address,
    read_key,
)

_FINISHES: Mapping[str, Finish] = {
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
        patience: Tries and pauses of a request.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str,
        base_url: str | None = None,
        patience: RetryPolicy | None = None,
    ) -> None:
        name = f"anthropic:{model}"
        address = validate_address(base_url or "https://api.anthropic.com", name="base_url").rstrip("/")
        headers = {"x-api-key": api_key, "anthropic-version": "2023-06-01"}
        server = JsonServer(name, f"{address}/v1/messages", headers)
        super().__init__(name, server, patience)

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

    def _build_body(self, request: ModelRequest, by_schema: bool) -> dict[str, Any]:
        messages: Sequence[ChatMessage] = request.messages
        tools = [
            {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
            for tool in request.tools
        ]
        body: dict[str, Any] = {"max_tokens": request.max_tokens}
        if request.temperature is not None:
            body["temperature"] = min(request.temperature, 1.0)
        if request.schema is not None and not by_schema:
            messages = append_schema(messages, request.schema)
        elif request.schema is not None:
            schema = dict(request.schema)
            tools = [{"name": _ANSWER, "description": "Give the answer.", "input_schema": schema}]
            body["tool_choice"] = {"type": "tool", "name": _ANSWER}
        system = "\n\n".join(message.content for message in messages if message.role == "system")
        body |= ({"system": system} if system else {}) | ({"tools": tools} if tools else {})
        return body | {"messages": _convert_messages(messages)}

    def _parse_reply(self, answer: Any, by_schema: bool) -> ModelReply:
        calls = [block for block in answer["content"] if block["type"] == "tool_use"]
        text = "".join(block["text"] for block in answer["content"] if block["type"] == "text")
        finish = _FINISHES.get(answer.get("stop_reason"), "stop")
        if by_schema and calls:
            text = json.dumps(calls.pop(0)["input"], ensure_ascii=False)
            calls, finish = [], "length" if finish == "length" else "stop"
        return ModelReply(
            text=text,
            tool_calls=tuple(
                ToolCall(
                    id=call["id"], name=call["name"], arguments=json.dumps(call["input"], ensure_ascii=False)
                )
                for call in calls
            ),
            finish=finish,
            model=answer.get("model") or "",
            usage=_parse_usage(answer.get("usage") or {}),
        )

    def _collect_reply(self, pieces: Iterator[Any], relay: StreamRelay) -> ModelReply:
        text, model, reason, usage = [], "", None, TokenUsage(requests=1)
        calls: dict[int, dict[str, str]] = {}
        for piece in pieces:
            if piece["type"] == "message_start":
                model, usage = piece["message"]["model"], _parse_usage(piece["message"]["usage"])
            elif piece["type"] == "content_block_start" and piece["content_block"]["type"] == "tool_use":
                block = piece["content_block"]
                calls[piece["index"]] = {"id": block["id"], "name": block["name"], "arguments": ""}
            elif piece["type"] == "content_block_delta":
                delta = piece["delta"]
                if delta["type"] == "text_delta":
                    text.append(delta["text"])
                    relay(delta["text"])
                elif delta["type"] == "input_json_delta" and piece["index"] in calls:
                    calls[piece["index"]]["arguments"] += delta["partial_json"]
            elif piece["type"] == "message_delta":
                reason = piece["delta"].get("stop_reason") or reason
                written = piece.get("usage", {}).get("output_tokens")
                usage = replace(usage, output_tokens=written or usage.output_tokens)
        if reason is None:
            raise RetryableError("the answer broke off")
        return ModelReply(
            text="".join(text),
            tool_calls=join_calls(calls),
            finish=_FINISHES.get(reason, "stop"),
            model=model,
            usage=usage,
        )


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
        given = None
    return given if isinstance(given, dict) else {"arguments": call.arguments}


def _parse_usage(counted: Mapping[str, Any]) -> TokenUsage:
    """Return the usage. Cached tokens count as input."""
    read = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return TokenUsage(
        requests=1,
        input_tokens=sum(counted.get(name) or 0 for name in read),
        output_tokens=counted.get("output_tokens") or 0,
    )
