"""Requests to a model, and its replies.

A pass yields a `ModelRequest` and is resumed with a `ModelReply` or a `ModelFailure`. So tests need no model, and a
memory without a model can run every pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from reverie.domain.conversation import Role, ToolCall

Finish = Literal["stop", "length", "tool_calls", "refused"]
"""Reason for the end of a reply: finished, limit of tokens, tool calls, or refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One message to a model.

    Attributes:
        role: `system`, `user`, `assistant` or `tool`.
        content: The text; may be empty if there are tool calls.
        tool_calls: Calls that an assistant's message makes.
        tool_call_id: The call that a tool's message answers.
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """Description of a tool for a model.

    Attributes:
        name: Its name: letters, digits, `_`, `-`; at most 64 characters.
        description: Its description for the model.
        parameters: The JSON schema of its arguments, an object.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request to a model.

    Attributes:
        messages: The conversation, the latest message last.
        purpose: Name of the pass, for counters and logs.
        scope: Scope of the memory that it is about; empty for the whole memory.
        group: Group of requests that are sent as one by passes that run together; empty for a separate request.
        schema: The JSON schema of the answer; None for plain text.
        tools: Tools that the model may call.
        max_tokens: Most tokens of the answer, 1 or more.
        temperature: 0 to 2; None leaves it to the model.
        timeout_s: Seconds that the answer may take, all tries together.
    """

    messages: tuple[ChatMessage, ...]
    purpose: str
    scope: str = ""
    group: str = ""
    schema: Mapping[str, Any] | None = None
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 1_000
    temperature: float | None = 0.3
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """Cost of answers.

    Attributes:
        requests: Number of requests, with repeated ones.
        input_tokens: Input tokens, as the provider counts them.
        output_tokens: Output tokens.
        cost: US dollars; None if the price is unknown.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None

    def __add__(self, other: TokenUsage) -> TokenUsage:
        known = [cost for cost in (self.cost, other.cost) if cost is not None]
        return TokenUsage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=sum(known) if known else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """A model's answer.

    Attributes:
        text: The answer; may be empty.
        tool_calls: Tools that it wants to call.
        finish: Reason for the end.
        model: The model's own name.
        usage: Its cost.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    finish: Finish = "stop"
    model: str = ""
    usage: TokenUsage = field(default_factory=TokenUsage)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailure:
    """Failure of a request.

    Attributes:
        why: `no model` if none is set; otherwise the error in words, without content.
        usage: Cost of the failed tries.
        refused: Whether the model or its server refused this request, so that a repetition is useless.
    """

    why: str
    usage: TokenUsage = field(default_factory=TokenUsage)
    refused: bool = False
