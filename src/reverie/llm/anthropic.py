"""Adapter for Anthropic's Messages API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reverie.domain.conversation import ToolCall
from reverie.domain.errors import ModelRefused
from reverie.llm.protocol import ChatMessage, Finish, ModelReply, ModelRequest, TokenUsage
from reverie.llm.provider import JsonServer, ProviderModel, StreamRelay, append_schema, read_address, read_key

_FINISHES: Mapping[str, Finish] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "refused",
}
_ANSWER = "answer"
"""Tool whose arguments are an answer by a schema."""


class AnthropicModel(ProviderModel):
    """Model on a server with Anthropic's Messages API."""

    provider = "anthropic"

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

    def _connect(self, base_url: str | None, api_key: str | None) -> JsonServer:
        headers = {"x-api-key": api_key or "", "anthropic-version": "2023-06-01"}
        return JsonServer(self.name, base_url or "https://api.anthropic.com", "v1/messages", headers)

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
            text = json.dumps(calls[0]["input"], ensure_ascii=False)
            calls, finish = [], "length" if finish == "length" else "stop"
        return ModelReply(
            text=text,
            tool_calls=tuple(map(_to_call, calls)),
            finish=finish,
            model=answer.get("model") or "",
            usage=_parse_usage(answer.get("usage") or {}),
        )

    def _join_pieces(self, pieces: Iterator[Any], relay: StreamRelay) -> Any:
        answer: dict[str, Any] = {}
        blocks: dict[int, dict[str, Any]] = {}
        for piece in pieces:
            if piece["type"] == "message_start":
                answer |= piece["message"]
            elif piece["type"] == "content_block_start":
                blocks[piece["index"]] = {**piece["content_block"], "input": ""}
            elif piece["type"] == "content_block_delta":
                block, delta = blocks[piece["index"]], piece["delta"]
                if delta["type"] == "text_delta":
                    block["text"] += delta["text"]
                    relay(delta["text"])
                elif delta["type"] == "input_json_delta":
                    block["input"] += delta["partial_json"]
            elif piece["type"] == "message_delta":
                usage = {**answer.get("usage", {}), **piece.get("usage", {})}
                answer |= {**piece["delta"], "usage": usage}
        return None if answer.get("stop_reason") is None else answer | {"content": [*blocks.values()]}


def _to_call(block: Mapping[str, Any]) -> ToolCall:
    """Return the call of a block; the arguments of a streamed one are JSON already."""
    given = block["input"]
    arguments = (given or "{}") if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return ToolCall(id=block["id"], name=block["name"], arguments=arguments)


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
    blocks = [{"type": "text", "text": message.content}] if message.content.strip() else []
    return blocks + [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _parse_input(call)}
        for call in message.tool_calls
    ]


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
