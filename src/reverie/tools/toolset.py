"""What is a tool that a model may call, and how are several put together? Neutral towards every provider.

A tool is a schema for the model and a function behind it. Its answer is a sentence that a model can act on,
and the same as data for a program. What is wrong in a call comes back as a sentence too, so that the model
can correct itself; only a broken store raises. Knows nothing of memories: those are in the modules beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

from reverie.domain.conversation import ToolCall
from reverie.domain.errors import InvalidInput, NotFound, ReverieError, StoreError
from reverie.llm.messages import ToolSpec
from reverie.tools.arguments import parse_arguments

if TYPE_CHECKING:
    from reverie.repositories.working_memory import WorkingMemory

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call came to.

    Attributes:
        text: Sentences for the model.
        data: The same for a program, a JSON object; None where there is no more than the sentence.
        failed: Whether nothing was done because the call was wrong or refused; the text says what to do.
    """

    text: str
    data: Mapping[str, Any] | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Something that a model may call.

    Attributes:
        spec: Its name, description and the schema of its arguments.
        run: What it does with the arguments, which have been checked against the schema and have its types;
            what it raises of `ReverieError` is for the model to read, except a `StoreError`.
        reads_only: Whether it changes nothing.
        destructive: Whether it may take something away.
        idempotent: Whether calling it again with the same arguments changes nothing more.
        result: The JSON schema of `Told.data`, an object; None where there is no data.
    """

    spec: ToolSpec
    run: Callable[[Mapping[str, Any]], ToolResult]
    reads_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    result: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """What the model calls it."""
        return self.spec.name


Approve = Callable[[Tool, Mapping[str, Any]], bool | str]
"""Asked before a tool is run, with the tool and its checked arguments: True lets it run, False refuses, and
so does a text, which says why."""


class Toolset(Sequence[Tool]):
    """Some tools, no two of one name. Never changes: each method that narrows or renames returns another."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        """Put tools together.

        Args:
            tools: The tools, in the order in which a model is shown them.

        Raises:
            InvalidInput: two have one name.
        """
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise InvalidInput(f"there are two tools of the name {tool.name!r}: rename or leave out one")
            self._tools[tool.name] = tool

    @property
    def names(self) -> tuple[str, ...]:
        """What the tools are called, in order."""
        return tuple(self._tools)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What a model is shown, as an `Ask` carries it."""
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
        found = list(self._tools.values())[index]
        return Toolset(found) if isinstance(found, list) else found

    def __add__(self, other: Iterable[Tool]) -> Toolset:
        return Toolset([*self, *other])

    def __repr__(self) -> str:
        return f"Toolset({', '.join(self.names)})"

    def tool(self, name: str) -> Tool:
        """The tool of that name.

        Raises:
            NotFound: there is none; the message names those that there are.
        """
        if name not in self._tools:
            raise NotFound(f"there is no tool {name!r}. There are: {', '.join(self.names) or 'none'}")
        return self._tools[name]

    # -- putting together --------------------------------------------------------------------------------

    def only(self, *names: str) -> Toolset:
        """These and no others, in this order.

        Raises:
            NotFound: one is not there.
        """
        return Toolset(self.tool(name) for name in names)

    def without(self, *names: str) -> Toolset:
        """All but these.

        Raises:
            NotFound: one is not there.
        """
        left_out = {self.tool(name).name for name in names}
        return Toolset(tool for tool in self if tool.name not in left_out)

    def reading(self) -> Toolset:
        """Those that change nothing."""
        return Toolset(tool for tool in self if tool.reads_only)

    def renamed(self, names: Mapping[str, str]) -> Toolset:
        """The same tools under other names.

        Args:
            names: From the name a tool has to the one it gets.

        Raises:
            NotFound: one is not there.
            InvalidInput: two would have one name, or models cannot call one by its new name.
        """
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
        """The same tools with a prefix before each name, such as `reverie_`.

        Raises:
            InvalidInput: it makes a name that models cannot call.
        """
        return self.renamed({name: prefix + name for name in self.names})

    def approved(self, approve: Approve, *names: str) -> Toolset:
        """The same tools, of which some are run only when somebody agrees.

        Args:
            approve: Asked before each run; the model is told when it refuses.
            *names: Which tools; none means all that change something.

        Raises:
            NotFound: one is not there.
        """
        asked = {self.tool(name).name for name in names} if names else None

        def guarded(tool: Tool) -> Tool:
            if tool.reads_only if asked is None else tool.name not in asked:
                return tool

            def run(given: Mapping[str, Any]) -> ToolResult:
                agreed = approve(tool, given)
                if agreed is True:
                    return tool.run(given)
                why = f": {agreed.strip().rstrip('.')}" if isinstance(agreed, str) and agreed.strip() else ""
                return ToolResult(f"{tool.name} was not approved, and nothing was done{why}.", failed=True)

            return replace(tool, run=run)

        return Toolset(guarded(tool) for tool in self)

    def chunked(
        self,
        working: WorkingMemory,
        *,
        most_tokens: int | None = None,
        ttl: str | float | timedelta | None = "30m",
    ) -> Toolset:
        """The same tools, whose answers are set aside where they are too long (`reverie.tools.with_chunking`).

        Args:
            working: Where to, such as `session.working`.
            most_tokens: Estimated tokens of an answer that are left as they are, and of a piece, 50 or more;
                None for 5,000.
            ttl: How long pieces are kept; None until they are dropped.
        """
        from reverie.tools import large_results

        most = large_results.MOST_TOKENS if most_tokens is None else most_tokens
        return large_results.with_chunking(self, working, most_tokens=most, ttl=ttl)

    # -- shapes ------------------------------------------------------------------------------------------

    def openai(self, *, strict: bool = True) -> list[dict[str, Any]]:
        """The tools as OpenAI's Chat Completions takes them, and every server that speaks the same.

        Args:
            strict: Whether to ask for strict arguments where a schema allows it: then every argument is
                required, and one that may be left out may be null.
        """
        from reverie.tools import provider_schemas

        return [provider_schemas.to_openai(tool, strict=strict) for tool in self]

    def openai_responses(self, *, strict: bool = True) -> list[dict[str, Any]]:
        """The tools as OpenAI's Responses takes them.

        Args:
            strict: As in `to_openai`.
        """
        from reverie.tools import provider_schemas

        return [provider_schemas.to_openai_responses(tool, strict=strict) for tool in self]

    def anthropic(self, *, cached: bool = False) -> list[dict[str, Any]]:
        """The tools as Anthropic's Messages takes them, always in the same order and words.

        Args:
            cached: Whether to mark the last one as the end of a prefix that the server keeps.
        """
        from reverie.tools import provider_schemas

        return provider_schemas.to_anthropic(self, cached=cached)

    def mcp(self) -> list[dict[str, Any]]:
        """The tools as the Model Context Protocol lists them, with output schemas and annotations."""
        from reverie.tools import provider_schemas

        return [provider_schemas.to_mcp(tool) for tool in self]

    # -- calling -----------------------------------------------------------------------------------------

    def call(self, name: str, arguments: Mapping[str, Any] | str | None = None) -> ToolResult:
        """Run a tool for a model; a wrong call is answered, not raised.

        Args:
            name: The tool's name.
            arguments: Its arguments, or the JSON text of them.

        Raises:
            StoreError: the memory cannot be read or written.
        """
        if name not in self._tools:
            return _build_refusal(f"There is no tool {name!r}. There are: {', '.join(self.names) or 'none'}.")
        tool = self._tools[name]
        given = arguments
        if given is None or isinstance(given, str):
            try:
                given = json.loads(given or "{}")
            except (ValueError, RecursionError) as error:
                return _build_refusal(
                    f"The arguments of {name} are no JSON ({error}). Call it again with a JSON object."
                )
        if not isinstance(given, Mapping):
            return ToolResult(
                f"The arguments of {name} are {type(given).__name__}. Call it again with a JSON object.",
                failed=True,
            )
        checked = parse_arguments(tool.spec, given)
        if checked.wrong:
            return _build_refusal(checked.wrong)
        try:
            return tool.run(checked.arguments)
        except StoreError:
            raise
        except ReverieError as error:
            return ToolResult(f"Nothing was done: {str(error).rstrip('.')}.", failed=True)

    def call_message(self, call: ToolCall) -> str:
        """What a model is told of the call that it made."""
        return self.call(call.name, call.arguments).text


def _build_refusal(why: str) -> ToolResult:
    """That a call was wrong; a value that is quoted is redacted where it holds a secret."""
    from reverie.domain.secrets import redact_secrets  # here: most calls are right

    return ToolResult(redact_secrets(why), failed=True)


def build_schema(required: Sequence[str] = (), **properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """The JSON schema of an object with these properties and no others.

    Args:
        required: The names of those that must be given.
        **properties: The schema of each.
    """
    return MappingProxyType(
        {
            "type": "object",
            "properties": dict(properties),
            "required": list(required),
            "additionalProperties": False,
        }
    )
