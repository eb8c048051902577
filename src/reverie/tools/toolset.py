"""Tools that a model may call, and sets of them.

A tool is a schema for the model and a function behind it. Its result is a sentence that a model can act on,
and the same as data for a program. A wrong call is answered with a sentence too, so that the model can
correct itself; only a broken store raises. This module knows nothing of memories.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

from reverie.domain.conversation import ToolCall
from reverie.domain.errors import (
    InvalidInput,
    NotFound,
    ReverieError,
    StoreError,
    clean_message,
    quote_value,
)
from reverie.domain.lazy_regex import defer_regex
from reverie.llm.messages import ToolSpec
from reverie.tools import provider_schemas
from reverie.tools.arguments import WrongArguments, parse_arguments

_NAME = defer_regex(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Result of a call.

    Attributes:
        text: Sentences for the model.
        data: The same as a JSON object for a program; None where the sentences say everything.
        failed: Whether nothing was done, because the call was wrong or refused. The text says what to do.
        trusted: Whether everything that it shows is the word of the owner or the agent, as far as known.
    """

    text: str
    data: Mapping[str, Any] | None = None
    failed: bool = False
    trusted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Function that a model may call, with its schema.

    Attributes:
        spec: Name, description and the schema of the arguments.
        run: Takes arguments that match the schema. The message of a `ReverieError` that it raises goes to the
            model, except that of a `StoreError`.
        reads_only: Whether it changes nothing.
        destructive: Whether it may take something away.
        idempotent: Whether a second call with the same arguments changes nothing more.
    """

    spec: ToolSpec
    run: Callable[[Mapping[str, Any]], ToolResult]
    reads_only: bool = False
    destructive: bool = False
    idempotent: bool = False

    @property
    def name(self) -> str:
        """Name under which the model calls it."""
        return self.spec.name


Approve = Callable[[Tool, Mapping[str, Any]], bool | str]
"""Called before a tool runs, with the tool and its arguments. True lets it run; False refuses; a text
refuses and says why."""


class Toolset(Sequence[Tool]):
    """Immutable sequence of tools with unique names. Methods that narrow or rename return another set."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        """Create a set of tools, in the order in which a model is shown them.

        Raises:
            InvalidInput: two tools have one name.
        """
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise InvalidInput(f"there are two tools of the name {tool.name!r}: rename or leave out one")
            self._tools[tool.name] = tool

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tools, in order."""
        return tuple(self._tools)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Descriptions of the tools for a model, for `ModelRequest.tools`."""
        return tuple(tool.spec for tool in self)

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    @overload
    def __getitem__(self, index: int) -> Tool: ...
    @overload
    def __getitem__(self, index: slice) -> Toolset: ...
    def __getitem__(self, index: int | slice) -> Tool | Toolset:
        selected = list(self._tools.values())[index]
        return Toolset(selected) if isinstance(selected, list) else selected

    def __add__(self, other: Iterable[Tool]) -> Toolset:
        return Toolset([*self, *other])

    def __repr__(self) -> str:
        return f"Toolset({', '.join(self.names)})"

    def tool(self, name: str) -> Tool:
        """Return the tool with this name.

        Raises:
            NotFound: there is none; the message names those that there are.
        """
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise NotFound(
                f"there is no tool {quote_value(name)}. There are: {', '.join(self.names) or 'none'}"
            )
        return tool

    # -- composition -------------------------------------------------------------------------------------

    def only(self, *names: str) -> Toolset:
        """Return these tools and no others, in this order.

        Raises:
            NotFound: a name is unknown.
        """
        return Toolset(self.tool(name) for name in names)

    def without(self, *names: str) -> Toolset:
        """Return all tools but these.

        Raises:
            NotFound: a name is unknown.
        """
        left_out = {self.tool(name).name for name in names}
        return Toolset(tool for tool in self if tool.name not in left_out)

    def reading(self) -> Toolset:
        """Return the tools that change nothing."""
        return Toolset(tool for tool in self if tool.reads_only)

    def renamed(self, names: Mapping[str, str]) -> Toolset:
        """Return the same tools under other names.

        Args:
            names: New names by old names.

        Raises:
            NotFound: an old name is unknown.
            InvalidInput: two tools would have one name, or a new name is not one that models can call.
        """
        if not isinstance(names, Mapping):
            raise InvalidInput(f"names is {quote_value(names)}: pass a mapping of old names to new ones")
        for name, new in names.items():
            self.tool(name)
            if not isinstance(new, str) or not _NAME.fullmatch(new):
                raise InvalidInput(
                    f"{new!r} is no name for a tool: use up to 64 ASCII letters, digits, '_' and '-'"
                )
        return Toolset(
            replace(tool, spec=replace(tool.spec, name=names.get(tool.name, tool.name))) for tool in self
        )

    def prefixed(self, prefix: str) -> Toolset:
        """Return the same tools with a prefix before each name, such as `reverie_`.

        Raises:
            InvalidInput: a new name is not one that models can call.
        """
        return self.renamed({name: f"{prefix}{name}" for name in self.names})

    def approved(self, approve: Approve, *names: str) -> Toolset:
        """Return the same tools, some of which run only after approval.

        Args:
            approve: Called before each run; the model is told when it refuses.
            *names: Tools that need approval; none means all that change something.

        Raises:
            NotFound: a name is unknown.
        """
        selected = {self.tool(name).name for name in names} if names else None

        def guard(tool: Tool) -> Tool:
            if tool.reads_only if selected is None else tool.name not in selected:
                return tool

            def run(given: Mapping[str, Any]) -> ToolResult:
                agreed = approve(tool, given)
                if agreed is True:
                    return tool.run(given)
                why = f": {agreed.strip().rstrip('.')}" if isinstance(agreed, str) and agreed.strip() else ""
                return ToolResult(f"{tool.name} was not approved, and nothing was done{why}.", failed=True)

            return replace(tool, run=run)

        return Toolset(guard(tool) for tool in self)

    # -- schemas for providers ---------------------------------------------------------------------------

    def openai(self, *, strict: bool = True) -> list[dict[str, Any]]:
        """Return the tools for OpenAI's Chat Completions and compatible servers.

        Args:
            strict: Whether to ask for strict arguments where a schema allows it. Every argument is then
                required, and an optional one may be null.
        """
        return [provider_schemas.to_openai(spec, strict=strict) for spec in self.specs]

    def openai_responses(self, *, strict: bool = True) -> list[dict[str, Any]]:
        """Return the tools for OpenAI's Responses; `strict` as in `openai`."""
        return [provider_schemas.to_openai_responses(spec, strict=strict) for spec in self.specs]

    def anthropic(self, *, cached: bool = False) -> list[dict[str, Any]]:
        """Return the tools for Anthropic's Messages, always in the same order and words.

        Args:
            cached: Whether to mark the last tool as the end of a prefix that the server caches.
        """
        return provider_schemas.to_anthropic(self.specs, cached=cached)

    def mcp(self) -> list[dict[str, Any]]:
        """Return the tools as the Model Context Protocol lists them, with output schemas and annotations."""
        return [provider_schemas.to_mcp(tool) for tool in self]

    # -- calls -------------------------------------------------------------------------------------------

    def call(self, name: str, arguments: Mapping[str, Any] | str | None = None) -> ToolResult:
        """Run a tool for a model. A wrong call is answered, not raised.

        Args:
            name: The tool's name.
            arguments: Its arguments, or their JSON text.

        Raises:
            StoreError: the memory cannot be read or written.
        """
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            return _refuse(
                f"There is no tool {quote_value(name)}. There are: {', '.join(self.names) or 'none'}."
            )
        given = arguments
        if given is None or isinstance(given, str):
            try:
                given = json.loads(given or "{}")
            except (ValueError, RecursionError) as error:
                return _refuse(
                    f"The arguments of {name} are no JSON ({error}). Call it again with a JSON object."
                )
        if not isinstance(given, Mapping):
            return _refuse(
                f"The arguments of {name} are {type(given).__name__}. Call it again with a JSON object."
            )
        try:
            return tool.run(parse_arguments(tool.spec, given))
        except WrongArguments as error:
            return _refuse(str(error))
        except StoreError:
            raise
        except ReverieError as error:
            return ToolResult(f"Nothing was done: {str(error).rstrip('.')}.", failed=True)

    def call_message(self, call: ToolCall) -> str:
        """Run a model's call and return the text of its result.

        Raises:
            InvalidInput: it is no `ToolCall`.
            StoreError: the memory cannot be read or written.
        """
        if not isinstance(call, ToolCall):
            raise InvalidInput(f"call is {type(call).__name__}: pass a ToolCall")
        return self.call(call.name, call.arguments).text


def _refuse(why: str) -> ToolResult:
    """Return the answer to a wrong call, with quoted values shortened, and redacted where they hold a secret."""
    return ToolResult(clean_message(why), failed=True)
