"""Dataclasses whose methods are generated when they are first used.

`dataclasses.dataclass` generates six methods of a class when the class is defined, which is most of the time that
an import of it takes; a process that ends soon uses few of them. The decorator here takes the same arguments and
its classes are dataclasses to the standard library: `dataclasses.replace`, `fields` and `asdict` work on them.
Every field counts in a comparison, and a class that inherits from a dataclass is one only if it is decorated.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

_MISSING = object()
_FIELDS = "__reverie_fields__"


class _Field:
    """Field of a dataclass."""

    __slots__ = ("default", "default_factory", "init", "metadata", "name", "repr", "type")

    def __init__(
        self,
        *,
        default: Any = _MISSING,
        default_factory: Any = _MISSING,
        init: bool = True,
        repr: bool = True,
        metadata: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.default, self.default_factory = default, default_factory
        self.init, self.repr, self.metadata = init, repr, metadata
        self.name = self.type = ""

    @property
    def has_default(self) -> bool:
        """Whether there is a value if none is given."""
        return self.default is not _MISSING or self.default_factory is not _MISSING

    def make_default(self) -> Any:
        """Return the value if none is given."""
        return self.default if self.default_factory is _MISSING else self.default_factory()

    def to_standard(self) -> Any:
        """Return the field as the standard library has it."""
        from dataclasses import field

        given = {"default": self.default, "default_factory": self.default_factory}
        defaults: dict[str, Any] = {name: value for name, value in given.items() if value is not _MISSING}
        return field(init=self.init, repr=self.repr, metadata=self.metadata, **defaults)


class _Generated:
    """Attribute of a class that is generated when it is first used, and then takes the place of this one."""

    __slots__ = ("_generate", "_name", "_owner")

    def __init__(self, generate: Callable[[type], Any]) -> None:
        self._generate = generate

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        setattr(self._owner, self._name, self._generate(self._owner))
        return getattr(owner if instance is None else instance, self._name)


class _Init(_Generated):
    """`__init__` of a dataclass, generated for the second value: most classes of settings and parts have only one."""

    __slots__ = ("_is_used",)

    def __init__(self, *, frozen: bool, kw_only: bool) -> None:
        super().__init__(lambda owner: _make_init(owner, frozen=frozen, kw_only=kw_only))
        self._is_used = not kw_only

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None or self._is_used:
            return super().__get__(instance, owner)
        self._is_used = True
        return partial(self._fill, instance)

    def _fill(self, instance: Any, /, *args: Any, **given: Any) -> None:
        fields = _fields(self._owner)
        known = {field.name for field in fields if field.init}
        required = {field.name for field in fields if field.init and not field.has_default}
        if args or not required <= given.keys() <= known:
            super().__get__(instance)(*args, **given)  # raises what the generated method raises
            return
        for field in fields:
            if field.name in given or field.has_default:
                value = given[field.name] if field.name in given else field.make_default()
                object.__setattr__(instance, field.name, value)
        if hasattr(instance, "__post_init__"):
            instance.__post_init__()


def _dataclass(*, frozen: bool = False, slots: bool = False, kw_only: bool = False) -> Callable[[type], type]:
    def decorate(cls: type) -> type:
        members = {
            name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")
        }
        own = {name: _take_field(name, kind, members) for name, kind in cls.__annotations__.items()}
        if slots:
            members["__slots__"] = tuple(own)
        fields = tuple(({each.name: each for each in getattr(cls, _FIELDS, ())} | own).values())
        members |= {
            _FIELDS: fields,
            "__dataclass_fields__": _Generated(
                lambda owner: _make_standard(owner, frozen).__dataclass_fields__
            ),
            "__dataclass_params__": _Generated(
                lambda owner: _make_standard(owner, frozen).__dataclass_params__
            ),
            "__match_args__": () if kw_only else tuple(each.name for each in fields if each.init),
            "__init__": _Init(frozen=frozen, kw_only=kw_only),
            "__eq__": _Generated(_make_eq),
            "__hash__": _Generated(_make_hash) if frozen else None,
            "__replace__": _replace,
        }
        members.setdefault("__repr__", _repr)
        if frozen:
            members |= {"__setattr__": _refuse_assignment, "__delattr__": _refuse_deletion}
        if frozen and slots:
            members |= {"__getstate__": _get_state, "__setstate__": _set_state}
        made = type(cls)(cls.__name__, cls.__bases__, members)
        made.__qualname__ = cls.__qualname__
        return made

    return decorate


def _take_field(name: str, kind: str, members: dict[str, Any]) -> _Field:
    """Return a field, and remove its default from the members of the class."""
    default = members.pop(name, _MISSING)
    field = default if isinstance(default, _Field) else _Field(default=default)
    if type(field.default).__hash__ is None:
        raise ValueError(f"the default of {name!r} can be changed: pass a default_factory")
    field.name, field.type = name, kind
    return field


# -- methods that are generated ----------------------------------------------------------------------------


def _make_init(owner: type, *, frozen: bool, kw_only: bool) -> Any:
    parameters, lines = ["self", "*"] if kw_only else ["self"], []
    values: dict[str, Any] = {"_set": object.__setattr__, "_missing": _MISSING}
    for field in _fields(owner):
        name = value = field.name
        if field.default_factory is not _MISSING:
            values[f"_factory_{name}"] = field.default_factory
            parameters.append(f"{name}=_missing")
            value = f"_factory_{name}() if {name} is _missing else {name}"
        elif field.default is not _MISSING:
            values[f"_default_{name}"] = field.default
            parameters.append(f"{name}=_default_{name}")
        elif field.init:
            parameters.append(name)
        else:
            continue
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(owner, "__post_init__"):
        lines.append("self.__post_init__()")
    init = _make_method(owner, "__init__", parameters, lines or ["pass"], values)
    init.__annotations__ = {field.name: field.type for field in _fields(owner) if field.init} | {
        "return": None
    }
    return init


def _make_eq(owner: type) -> Any:
    own, others = (
        _format_tuple(f"{one}.{field.name}" for field in _fields(owner)) for one in ("self", "other")
    )
    lines = ["if other.__class__ is self.__class__:", f" return {own} == {others}", "return NotImplemented"]
    return _make_method(owner, "__eq__", ["self", "other"], lines, {})


def _make_hash(owner: type) -> Any:
    values = _format_tuple(f"self.{field.name}" for field in _fields(owner))
    return _make_method(owner, "__hash__", ["self"], [f"return hash({values})"], {})


def _format_tuple(expressions: Iterable[str]) -> str:
    return f"({''.join(f'{each}, ' for each in expressions)})"


def _make_method(
    owner: type, name: str, parameters: Iterable[str], lines: Iterable[str], values: Mapping[str, Any]
) -> Any:
    """Return a method as if it stood in the module of its class; `values` are names that its source uses."""
    body = "".join(f"\n  {line}" for line in lines)
    source = f"def _make({', '.join(values)}):\n def {name}({', '.join(parameters)}):{body}\n return {name}"
    made: dict[str, Any] = {}
    exec(source, vars(sys.modules[owner.__module__]), made)
    method = made["_make"](**values)
    method.__qualname__ = f"{owner.__qualname__}.{name}"
    return method


def _make_standard(owner: type, frozen: bool) -> Any:
    """Return a dataclass of the standard library with the same fields."""
    from dataclasses import make_dataclass

    # all keyword-only: a field without a default may follow one that has a default
    listed = [(field.name, field.type, field.to_standard()) for field in _fields(owner)]
    return make_dataclass(owner.__name__, listed, kw_only=True, frozen=frozen)


# -- methods that all have ---------------------------------------------------------------------------------


def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in _fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_assignment(self: Any, name: str, value: object) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: Any, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in _fields(self)]


def _set_state(self: Any, state: Iterable[Any]) -> None:
    for field, value in zip(_fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


def _replace(self: Any, /, **changes: Any) -> Any:
    for field in _fields(self):
        if field.init and field.name not in changes:
            changes[field.name] = getattr(self, field.name)
    return type(self)(**changes)


def _fields(owner: Any) -> tuple[Any, ...]:
    if _FIELDS not in vars(
        owner if isinstance(owner, type) else type(owner)
    ):  # of somebody else, perhaps a subclass
        from dataclasses import fields

        return fields(owner)
    own: tuple[_Field, ...] = getattr(owner, _FIELDS)
    return own


def _is_dataclass(value: object) -> bool:
    kind = value if isinstance(value, type) else type(value)
    return hasattr(kind, _FIELDS) or hasattr(kind, "__dataclass_fields__")


if TYPE_CHECKING:  # a type checker knows dataclasses by these names
    from dataclasses import MISSING as MISSING
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import fields as fields
    from dataclasses import is_dataclass as is_dataclass
    from dataclasses import replace as replace
else:
    MISSING = _MISSING
    dataclass, field, fields, is_dataclass, replace = _dataclass, _Field, _fields, _is_dataclass, _replace
