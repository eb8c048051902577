"""Conversion of values to JSON values, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_dataclass import MISSING, fields
from reverie.domain.text.timestamps import format_time, parse_time

T = TypeVar("T")

_PLAIN = frozenset({str, int, float, bool, type(None)})  # looked up first, for lists of many records


def to_json_object(value: Any, *names: str) -> dict[str, Any]:
    """Return attributes of an object as JSON values, in their order.

    Args:
        value: A dataclass, or with `names` any object.
        names: The attributes; by default all fields of the dataclass.
    """
    return {
        name: each if type(each := getattr(value, name)) in _PLAIN else to_json_value(each)
        for name in names or [each.name for each in fields(value)]
    }


class JsonObject:
    """Base of dataclasses whose fields are JSON values."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return every field as JSON values, in their order."""
        return to_json_object(self)


def to_json_value(value: Any) -> Any:
    """Return a value as a JSON value.

    A dataclass becomes the result of its `to_dict`, or an object of its fields. Times become text, and so do values
    without a JSON type, such as paths.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if type(value) is tuple:  # before what takes longer to tell, for lists of many records
        return [to_json_value(each) for each in value]
    if isinstance(value, date):
        return format_time(value) if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, Mapping):
        return {str(name): to_json_value(each) for name, each in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return value.to_dict() if hasattr(value, "to_dict") else to_json_object(value)
    return [to_json_value(each) for each in value] if isinstance(value, Iterable) else str(value)


def from_json_object(kind: type[T], data: Mapping[str, Any]) -> T:
    """Return the dataclass whose fields `to_json_object` wrote. Other names are ignored.

    Only what JSON has no type for is converted: times, tuples and mappings.

    Raises:
        InvalidInput: a field is missing or cannot be converted.
    """
    values: dict[str, Any] = {}
    for name, read in _list_readers(kind).items():  # type: ignore[arg-type]
        if name in data:
            try:
                values[name] = read(data[name]) if read else data[name]
            except InvalidInput:
                raise
            except (TypeError, ValueError, AttributeError):
                raise InvalidInput(
                    f"{name} is {describe_type(data[name])}: use the type that an export has there"
                ) from None
    missing = [
        repr(each.name)
        for each in fields(kind)  # type: ignore[arg-type]
        if each.name not in values and each.default is each.default_factory is MISSING
    ]
    if missing:
        raise InvalidInput(f"no {', no '.join(missing)}: add {'it' if len(missing) == 1 else 'them'}")
    return kind(**values)


def describe_type(value: object) -> str:
    """Return the JSON type of a value, in words."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


@cache
def _list_readers(kind: type) -> dict[str, Callable[[Any], Any] | None]:
    """Return the function that converts each field of a dataclass from JSON; None if no conversion is needed."""
    return {name: _choose_reader(hint, name) for name, hint in get_type_hints(kind).items()}


def _read_texts(values: object) -> tuple[Any, ...]:
    if not isinstance(values, list | tuple):
        raise TypeError
    return tuple(values)


def _choose_reader(hint: Any, name: str) -> Callable[[Any], Any] | None:
    inner = get_args(hint)
    if datetime in (hint, *inner):
        return lambda value: None if value is None else parse_time(value, name=name)
    if get_origin(hint) is tuple:
        return _read_texts if inner[0] is str else lambda values: tuple(inner[0](**each) for each in values)
    if get_origin(hint) is Mapping:
        return lambda value: MappingProxyType(dict(value or {}))
    return (lambda value: float(value) if type(value) is int else value) if hint is float else None
