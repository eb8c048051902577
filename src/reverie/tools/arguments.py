"""Arguments of a call, checked against its schema and converted where the meaning is clear.

`"5"` for 5, `"a, b"` for a list of labels, null for nothing and `Add` for `add` are accepted. For anything else, a
sentence says which argument is wrong, and what it should be.
"""

from __future__ import annotations

import difflib
import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from reverie.domain.lazy_regex import defer_regex
from reverie.llm.messages import ToolSpec

_WHOLE = defer_regex(r"[+-]?\d{1,15}(?:\.0*)?")
_NUMBER = defer_regex(r"[+-]?\d{1,15}(?:\.\d{1,15})?(?:[eE][+-]?\d{1,2})?")
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
    kind = rule.get("type")
    if kind == "string":
        return _convert_string(rule, value)
    if kind == "integer":
        return _check_bounds(rule, _convert_integer(value))
    if kind == "number":
        return _check_bounds(rule, _convert_number(value))
    if kind == "boolean":
        return _convert_boolean(value)
    if kind == "array":
        return _convert_list(rule, value)
    if kind == "object" and not isinstance(value, Mapping):
        raise WrongArguments(f"is {_format_value(value)}: pass a JSON object")
    return value


def _convert_string(rule: Mapping[str, Any], value: Any) -> str:
    if not isinstance(value, str):
        raise WrongArguments(f"is {_format_value(value)}: pass a string")
    allowed = rule.get("enum")
    if allowed is not None:
        meant = value.strip().casefold()
        for each in allowed:
            if isinstance(each, str) and each.casefold() == meant:
                return each
        words = ", ".join(str(each) for each in allowed if each is not None)
        raise WrongArguments(f"is {_format_value(value)}: pass one of {words}")
    if len(value) > rule.get("maxLength", math.inf):
        raise WrongArguments(f"has {len(value):,} characters: at most {rule['maxLength']:,} are allowed")
    if len(value) < rule.get("minLength", 0):
        raise WrongArguments("is empty: pass some text")
    return value


def _convert_integer(value: Any) -> int:
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        return int(float(value))
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise WrongArguments(f"is {_format_value(value)}: pass a whole number")
    return value


def _convert_number(value: Any) -> float:
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
        raise WrongArguments(f"is {_format_value(value)}: pass a number")
    return value


def _check_bounds(rule: Mapping[str, Any], value: float) -> float:
    least, most = rule.get("minimum"), rule.get("maximum")
    if (least is not None and value < least) or (most is not None and value > most):
        bounds = f"from {least:,} to {most:,}" if most is not None else f"of {least:,} or more"
        raise WrongArguments(f"is {_format_value(value)}: pass a number {bounds}")
    return value


def _convert_boolean(value: Any) -> bool:
    if isinstance(value, str) and value.strip().casefold() in {"true", "false"}:
        return value.strip().casefold() == "true"
    if not isinstance(value, bool):
        raise WrongArguments(f"is {_format_value(value)}: pass true or false")
    return value


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
    names = [_format_value(name) if not isinstance(name, str) else name[:_SHOWN] for name in unknown]
    close = difflib.get_close_matches(names[0], wanted, n=1)
    meant = f" Do you mean {close[0]}?" if close else ""
    shown = ", ".join(names[:_MOST_SENTENCES])
    return f"{tool} has no argument {shown}.{meant} It takes: {', '.join(wanted) or 'none'}."


def _format_value(value: Any) -> str:
    """Return a value for a message, shortened, or the name of its JSON type."""
    if isinstance(value, str):
        return f"{value[:_SHOWN]!r}{'…' if len(value) > _SHOWN else ''}"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return _format_number(value)
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, Sequence) else f"a {type(value).__name__}"


def _format_number(value: float) -> str:
    try:
        digits = str(value)
    except ValueError:  # thousands of digits
        return "a very large number"
    return digits if len(digits) <= _SHOWN else "a very large number"
