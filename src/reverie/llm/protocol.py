"""Protocol of a model, and how to get one from a name or a function.

Any object with `name` and `answer` is a `Model`. `model_from_function` makes one of any function from a `ModelRequest`
to text or a `ModelReply`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pkgutil import get_data
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from reverie.domain.conversation import Role, ToolCall
from reverie.domain.errors import InvalidInput, ModelError, ModelRefused, ModelUnavailable

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
        schema: The JSON schema of the answer; None for plain text.
        tools: Tools that the model may call.
        max_tokens: Most tokens of the answer, 1 or more.
        temperature: 0 to 2; None leaves it to the model.
        timeout_s: Seconds that the answer may take, all tries together.
    """

    messages: tuple[ChatMessage, ...]
    purpose: str
    scope: str = ""
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


# -- known models ---------------------------------------------------------------------------------


class KnownModel(NamedTuple):
    """What is known of a model: the tokens of its largest request, and US dollars for a million tokens."""

    input_tokens: int
    read: float
    written: float

    def add_cost(self, usage: TokenUsage) -> TokenUsage:
        """Return the usage with its cost."""
        cost = usage.input_tokens * self.read + usage.output_tokens * self.written
        return replace(usage, cost=cost / 1e6)


@cache
def find_known_model(name: str) -> KnownModel | None:
    """Return what is known of a model; None for an unknown one.

    Args:
        name: `provider:model`. Dates and sizes at its end make no difference.

    >>> find_known_model("openai:gpt-5-mini-2025-08-07").input_tokens
    400000
    """
    text = (get_data("reverie.llm", "known-models.txt") or b"").decode("utf-8")
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    best = max((row for row in rows if name.startswith(row[0])), key=lambda row: len(row[0]), default=None)
    return None if best is None else KnownModel(int(best[1]), float(best[2]), float(best[3]))


# -- protocol -------------------------------------------------------------------------------------


OnText = Callable[[str], None]
"""Callback that receives each piece of an answer as it arrives."""

Answering = Callable[[ModelRequest], str | ModelReply]
"""Function that can be used as a model."""


@runtime_checkable
class Model(Protocol):
    """Object that answers requests. Safe to use from several threads."""

    @property
    def name(self) -> str:
        """`provider:model`, such as `openai:gpt-5-mini`."""

    def answer(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        """Answer a request within its `timeout_s`, all tries together.

        Args:
            request: The request.
            on_text: Receives each piece of the answer's text as it arrives. A failed try is repeated only if
                nothing was passed on.

        Raises:
            ModelTimeout: no answer in time.
            ModelUnavailable: too busy, unreachable or cut off: try again later.
            ModelRefused: the request, the key or the model's name is wrong.
        """


class _Called:
    """Model that calls a function."""

    def __init__(self, function: Answering, name: str) -> None:
        self._function = function
        self.name = name

    def answer(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        try:
            given = self._function(request)
        except ModelError:
            raise
        except Exception as error:  # any error of the function is a failure of the model
            raise ModelUnavailable(f"{self.name} raised {type(error).__name__}: {error}") from error
        reply = ModelReply(text=given, model=self.name) if isinstance(given, str) else given
        if not isinstance(reply, ModelReply):
            raise ModelRefused(f"{self.name} returned {type(given).__name__}: return text or a ModelReply")
        if on_text is not None and reply.text:
            on_text(reply.text)
        return reply


def model_from_function(function: Answering, *, name: str | None = None) -> Model:
    """Return a model that calls a function.

    Args:
        function: Takes a `ModelRequest` and returns the answer's text, or a `ModelReply`. It must keep
            `timeout_s` itself.
        name: Name of the model; None takes `function:` and the function's name.
    """
    own = getattr(function, "__name__", type(function).__name__)
    return _Called(function, name or f"function:{own}")


PROVIDERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "openai": ("reverie.llm.openai", "OpenAIModel"),
        "ollama": ("reverie.llm.openai", "OllamaModel"),
        "anthropic": ("reverie.llm.anthropic", "AnthropicModel"),
    }
)
"""Providers by name: the module and class of the adapter."""


def model_from_name(name: str, *, environ: Mapping[str, str] | None = None) -> Model:
    """Return the model with this name.

    Args:
        name: `provider:model`, such as `openai:gpt-5-mini`, `anthropic:claude-haiku-4-5`, `ollama:qwen3:8b`.
        environ: Variables such as `OPENAI_API_KEY`, `OPENAI_BASE_URL`, `ANTHROPIC_API_KEY`, `OLLAMA_HOST`,
            as `os.environ` has them; None for none.

    Raises:
        InvalidInput: the name is not of that form, or names no provider.
        ModelRefused: the model's key is missing.
    """
    provider, model = _parse_name(name)
    module, attribute = PROVIDERS[provider]
    made: Model = getattr(import_module(module), attribute).from_environment(model, environ or {})
    return made


def _parse_name(name: str) -> tuple[str, str]:
    """Return the provider and the name that it knows the model by; raises `InvalidInput` for any other name."""
    provider, _, model = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not model.strip():
        raise InvalidInput(f"model is {name!r}: name it as provider:model, such as openai:gpt-5-mini")
    if provider not in PROVIDERS:
        raise InvalidInput(f"model is {name!r}: the providers are {', '.join(PROVIDERS)}")
    return provider, model.strip()


def resolve_model(model: Model | Answering | str | None) -> Model | None:
    """Return the model of a name, a function or a model; None for None.

    Raises:
        InvalidInput: it is none of these.
        ModelRefused: the model's key is missing.
    """
    if model is None:
        return None
    validate_model(model)
    if isinstance(model, str):
        return model_from_name(model, environ=os.environ)
    return model if isinstance(model, Model) else model_from_function(model)


def validate_model(model: Model | Answering | str) -> None:
    """Check that a value is a model or names one, without importing or calling it.

    Raises:
        InvalidInput: it is no model, function or name of the form `provider:model`.
    """
    if isinstance(model, str):
        _parse_name(model)
    elif not (isinstance(model, Model) or callable(model)):
        raise InvalidInput(f"model is {model!r}: pass provider:model, a model, or a function")
