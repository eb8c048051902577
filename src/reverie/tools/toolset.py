"""Tools that a model may call, and sets of them.

A tool is a schema for the model and a function that it runs. Its result is a sentence that a model can act on.
Arguments are checked against the schema and converted if their meaning is clear
(`"5"` for 5, `"a, b"` for a list of labels). A wrong call is answered with a sentence too, so that the model can
correct itself; only a broken store raises. This module does not know memories.
"""

from __future__ import annotations

import difflib
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

from reverie.domain.errors import InvalidInput, NotFound, ReverieError, StoreError, clean_message, quote_value
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.escaping import escape_output
from reverie.domain.text.json_values import to_json_value
from reverie.llm.protocol import ToolSpec


def to_mcp(tool: Tool) -> dict[str, Any]:
    """Return an element of the answer to `tools/list`."""
    title = tool.name.replace("_", " ").capitalize()
    return {
        "name": tool.name,
        "title": title,
        "description": tool.spec.description,
        "inputSchema": to_json_value(tool.spec.parameters),
        "annotations": {
            "title": title,
            "readOnlyHint": tool.reads_only,
            "destructiveHint": tool.destructive,
            "idempotentHint": tool.idempotent or tool.reads_only,
            "openWorldHint": False,
        },
    }


def _to_function(spec: ToolSpec) -> dict[str, Any]:
    # Not strict: then every argument would be required. They are checked against the schema in any case.
    parameters = to_json_value(spec.parameters)
    return {"name": spec.name, "description": spec.description, "parameters": parameters, "strict": False}


_LABEL = 200  # characters: longer items are sentences, in which a comma separates nothing
_SHOWN = 60
_MOST_SENTENCES = 5
_LARGEST = sys.float_info.max  # infinity and NaN are not at most this


class WrongArguments(Exception):
    """Arguments do not match their schema. The message tells the model what they should be."""


def parse_arguments(spec: ToolSpec, given: Mapping[Any, Any]) -> Mapping[str, Any]:
    """Return the arguments of a call in the types of the schema.

    Raises:
        WrongArguments: some do not match it.
    """
    wanted: Mapping[str, Mapping[str, Any]] = spec.parameters.get("properties", {})
    required = spec.parameters.get("required", ())
    sentences = []
    is_open = spec.parameters.get("additionalProperties") is not False
    if unknown := [] if is_open else [name for name in given if name not in wanted]:
        sentences.append(_describe_unknown(spec.name, unknown, list(wanted)))
    arguments: dict[str, Any] = {}
    missing = []
    for name, rule in wanted.items():
        value = given.get(name)
        if value is None or (value == "" and (name not in required or rule.get("minLength"))):
            if name in required:
                missing.append(name)
            continue
        try:
            arguments[name] = _convert_value(rule, value)
        except WrongArguments as error:
            sentences.append(f"{name} {error}.")
    if missing:
        sentences.insert(0, f"{spec.name} needs {', '.join(missing)}.")
    if not sentences:
        return arguments
    left = len(sentences) - _MOST_SENTENCES
    more = f" ({left} more of its arguments are wrong.)" if left > 0 else ""
    raise WrongArguments(" ".join(sentences[:_MOST_SENTENCES]) + more)


# -- one argument ------------------------------------------------------------------------------------------


def _convert_value(rule: Mapping[str, Any], value: Any) -> Any:
    kind = rule.get("type", "")
    if kind == "array":
        return _convert_list(rule, value)
    if kind not in _CONVERTERS:
        return value
    convert, expected = _CONVERTERS[kind]
    converted = convert(value)
    if "enum" in rule:
        names = {str(each).casefold(): each for each in rule["enum"] if each is not None}
        converted = names.get(value.strip().casefold()) if isinstance(value, str) else None
        expected = f"one of {', '.join(map(str, names.values()))}"
    if converted is None:
        raise WrongArguments(f"is {_format_value(value)}: pass {expected}")
    if isinstance(converted, str) and "enum" not in rule:
        _check_length(rule, converted)
    elif isinstance(converted, int | float):
        _check_bounds(rule, converted)
    return converted


def _to_number(value: Any) -> float | None:
    """Return a number, or the number that a text says; None for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value.strip().removeprefix("+"))
        except (ValueError, RecursionError):
            return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and abs(value) <= _LARGEST else None


def _to_integer(value: Any) -> int | None:
    number = _to_number(value)
    return int(number) if number is not None and number == int(number) else None


def _to_boolean(value: Any) -> bool | None:
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.strip().casefold())
    return value if isinstance(value, bool) else None


_CONVERTERS: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "string": (lambda value: value if isinstance(value, str) else None, "a string"),
    "integer": (_to_integer, "a whole number"),
    "number": (_to_number, "a number"),
    "boolean": (_to_boolean, "true or false"),
    "object": (lambda value: value if isinstance(value, Mapping) else None, "a JSON object"),
}


def _check_length(rule: Mapping[str, Any], text: str) -> None:
    if len(text) > rule.get("maxLength", math.inf):
        raise WrongArguments(f"has {len(text):,} characters: at most {rule['maxLength']:,} are allowed")
    if len(text) < rule.get("minLength", 0):
        raise WrongArguments("is empty: pass some text")


def _check_bounds(rule: Mapping[str, Any], value: float) -> None:
    least, most = rule.get("minimum", -math.inf), rule.get("maximum", math.inf)
    if not least <= value <= most:
        bounds = f"from {least:,} to {most:,}" if most < math.inf else f"of {least:,} or more"
        raise WrongArguments(f"is {_format_value(value)}: pass a number {bounds}")


def _convert_list(rule: Mapping[str, Any], value: Any) -> list[Any]:
    item: Mapping[str, Any] = rule.get("items", {})
    if isinstance(value, str):
        value = _parse_list(value, item)
    if not isinstance(value, Sequence):
        raise WrongArguments(f"is {_format_value(value)}: pass a list of {item.get('type', 'value')}s")
    value = [each for each in value if each is not None and (each != "" or item.get("minLength") == 0)]
    most = rule.get("maxItems", math.inf)
    if len(value) > most:
        raise WrongArguments(f"has {len(value):,} items: at most {most:,} are allowed")
    items = []
    for number, each in enumerate(value, start=1):
        try:
            items.append(_convert_value(item, each))
        except WrongArguments as error:
            raise WrongArguments(f"is a list whose item {number} {error}") from None
    return items


def _parse_list(text: str, item: Mapping[str, Any]) -> Any:
    """Return the list that a string stands for: JSON, labels between commas, or one sentence."""
    if text.lstrip().startswith("["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
    if item.get("type") == "string" and item.get("maxLength", math.inf) > _LABEL:
        return [text]
    return [part.strip() for part in text.split(",")]


# -- messages ----------------------------------------------------------------------------------------------


def _describe_unknown(tool: str, unknown: Sequence[Any], wanted: Sequence[str]) -> str:
    names = [name[:_SHOWN] if isinstance(name, str) else _format_value(name) for name in unknown]
    close = difflib.get_close_matches(names[0], wanted, n=1)
    meant = f" Do you mean {close[0]}?" if close else ""
    shown = ", ".join(names[:_MOST_SENTENCES])
    return f"{tool} has no argument {shown}.{meant} It takes: {', '.join(wanted) or 'none'}."


def _format_value(value: Any) -> str:
    """Return a value for a message, shortened, or the name of its JSON type."""
    if isinstance(value, str):
        return f"{value[:_SHOWN]!r}{'…' if len(value) > _SHOWN else ''}"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, Sequence):
        return "a list"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return quote_value(value)[:_SHOWN]


LONGEST_RESULT = 40_000
"""Maximum characters of a result; one that reads a text is in parts of half of it."""

_NAME = defer_regex(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Result of a call.

    Attributes:
        text: Sentences for the model.
        failed: Whether nothing was done, because the call was wrong or refused. The text says what to do.
        trusted: Whether everything that it shows is the word of the owner or the agent, as far as known.
    """

    text: str
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
            raise NotFound(f"no tool {quote_value(name)}. There are: {', '.join(self.names) or 'none'}")
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
                    f"{new!r} is not a name for a tool: use up to 64 ASCII letters, digits, '_' and '-'"
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

    def openai(self) -> list[dict[str, Any]]:
        """Return the tools for OpenAI's Chat Completions and compatible servers."""
        return [{"type": "function", "function": _to_function(spec)} for spec in self.specs]

    def openai_responses(self) -> list[dict[str, Any]]:
        """Return the tools for OpenAI's Responses."""
        return [{"type": "function", **_to_function(spec)} for spec in self.specs]

    def anthropic(self, *, cached: bool = False) -> list[dict[str, Any]]:
        """Return the tools for Anthropic's Messages, always in the same order and words.

        Args:
            cached: Whether to mark the last tool as the end of a prefix that the server caches.
        """
        tools: list[dict[str, Any]] = [
            {
                "name": spec.name,
                "description": spec.description,
                "input_schema": to_json_value(spec.parameters),
            }
            for spec in self.specs
        ]
        if cached and tools:
            tools[-1]["cache_control"] = {"type": "ephemeral"}
        return tools

    def mcp(self) -> list[dict[str, Any]]:
        """Return the tools as the Model Context Protocol lists them, with annotations."""
        return [to_mcp(tool) for tool in self]

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
            return _refuse(f"No tool {quote_value(name)}. There are: {', '.join(self.names) or 'none'}.")
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
            return ToolResult(escape_output(f"Nothing was done: {str(error).rstrip('.')}."), failed=True)


def escape_results(tools: Iterable[Tool]) -> Toolset:
    """Return the same tools, with results that are escaped for a model and not longer than clients take."""

    def escape(tool: Tool) -> Tool:
        def run(given: Mapping[str, Any]) -> ToolResult:
            result = tool.run(given)
            return replace(result, text=_cut_lines(escape_output(result.text)))

        return replace(tool, run=run)

    return Toolset(map(escape, tools))


def _cut_lines(text: str) -> str:
    """Return a text without the last lines of one that is longer than clients take, with a sentence that says so."""
    if len(text) <= LONGEST_RESULT:
        return text
    shown = text[:LONGEST_RESULT].rpartition("\n")[0] or text[:LONGEST_RESULT]
    left = text.count("\n", len(shown))
    return f"{shown}\n{left:,} more lines are left out. Ask for less, with a limit, a prefix or a category."


def _refuse(why: str) -> ToolResult:
    """Return the answer to a wrong call, with quoted values shortened, and redacted where they hold a secret."""
    return ToolResult(escape_output(clean_message(why)), failed=True)
