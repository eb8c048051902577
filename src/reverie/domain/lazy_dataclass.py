"""Dataclasses whose methods are made on first use, so that an import costs little.

`dataclasses.dataclass` compiles six methods of each class at once, and needs `inspect`. Here the decorator makes the
class with its slots, and no more. `__init__`, `__eq__` and `__hash__` are each compiled for the first use; all else is
made by `dataclasses` when somebody asks for it. So the class is the same in the end, and type checkers are told so.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

__all__ = ["MISSING", "dataclass", "field", "fields", "replace"]

if TYPE_CHECKING:
    from dataclasses import MISSING, dataclass, field, fields, replace
else:
    MISSING = object()
    _FACTORY = type("_Factory", (), {"__repr__": lambda self: "<factory>"})()
    """Default of a parameter whose field has a factory, as a signature shows it."""

    _ALWAYS = [
        *("__init__", "__repr__", "__eq__", "__match_args__", "__dataclass_fields__", "__dataclass_params__"),
        *(["__replace__"] if sys.version_info >= (3, 13) else ()),
    ]
    _FROZEN = ["__hash__", "__setattr__", "__delattr__", "__getstate__", "__setstate__"]

    class field(SimpleNamespace):  # noqa: N801  # the name that it has in `dataclasses`
        """What a class declares of a field, with the arguments of `dataclasses.field` except `compare`."""

        default = default_factory = MISSING
        init, hash, metadata = True, None, {}

    class _Later:
        """Stands in a class for what is made when somebody asks for it."""

        def __set_name__(self, owner: type, name: str) -> None:
            self._owner, self._name = owner, name

        def __get__(self, instance: object, owner: type) -> Any:
            if self._name == "__init__":
                self._owner.__init__ = _compile_init(self._owner)
            elif self._name in ("__eq__", "__hash__"):
                setattr(self._owner, self._name, _compile_comparison(self._owner, self._name))
            else:
                _complete(self._owner)
            made = vars(self._owner)[self._name]
            return made.__get__(instance, owner) if hasattr(made, "__get__") else made

    def dataclass(**form: bool) -> Any:
        """Return the decorator of a class with slots and no dataclass among its bases; its annotations are text.

        >>> import copy, dataclasses, inspect, pickle
        >>> class Place:
        ...     name: str
        ...     tags: list[str] = dataclasses.field(default_factory=list)
        ...     rank: int = dataclasses.field(default=1, metadata={"low": 0})
        >>> theirs = dataclasses.dataclass(frozen=True, slots=True, kw_only=True)(Place)
        >>> class Place:
        ...     name: str
        ...     tags: list[str] = field(default_factory=list)
        ...     rank: int = field(default=1, metadata={"low": 0})
        >>> ours = dataclass(frozen=True, slots=True, kw_only=True)(Place)
        >>> str(inspect.signature(ours)) == str(inspect.signature(theirs))
        True
        >>> ours(name="a") == ours(name="a", tags=[]) != ours(name="b")
        True
        >>> hash(ours(name="a", tags=())) == hash(theirs(name="a", tags=()))
        True
        >>> place = replace(ours(name="a", rank=2), name="b")
        >>> place, dataclasses.replace(place, rank=3), copy.deepcopy(place) == place, place == theirs(name="b", rank=2)
        (Place(name='b', tags=[], rank=2), Place(name='b', tags=[], rank=3), True, False)
        >>> dataclasses.asdict(place), [each.default for each in dataclasses.fields(ours)][2:], ours.__match_args__
        ({'name': 'b', 'tags': [], 'rank': 2}, [1], ())
        >>> place.name = "c"
        Traceback (most recent call last):
        dataclasses.FrozenInstanceError: cannot assign to field 'name'
        """

        def make(declared: type) -> type:
            body = {
                name: each for name, each in vars(declared).items() if name not in ("__dict__", "__weakref__")
            }
            known = []
            for name, kind in declared.__annotations__.items():
                if not kind.startswith("ClassVar["):
                    given = body.get(name, MISSING)
                    options = vars(given) if isinstance(given, field) else {"default": given}
                    known.append(field(**options, name=name, type=kind))
            names = [each.name for each in known]
            later = [*_ALWAYS, *_FROZEN] if form.get("frozen") else _ALWAYS
            made = {"__hash__": None} | {name: _Later() for name in later}
            made |= {name: each for name, each in body.items() if name not in names}
            made |= {"__slots__": tuple(names), "__lazy_fields__": tuple(known)}
            made["__lazy_form__"] = body, form
            return _copy_class(declared, made)

        return make

    def _copy_class(kind: type, body: dict[str, Any]) -> type:
        copy = type(kind)(kind.__name__, kind.__bases__, body)
        copy.__qualname__ = kind.__qualname__
        return copy

    def _complete(kind: type) -> None:
        """Take over what `dataclasses` makes of the class as it was declared."""
        import dataclasses

        body, form = kind.__lazy_form__
        given = {key: dataclasses.field(**vars(it)) for key, it in body.items() if isinstance(it, field)}
        made = vars(dataclasses.dataclass(_copy_class(kind, body | given), **form))
        for name, each in list(vars(kind).items()):
            if isinstance(each, _Later) and name not in ("__init__", "__eq__", "__hash__"):
                setattr(kind, name, made[name])

    def _compile_init(kind: type) -> Any:
        """Return the `__init__` of `dataclasses`, which here sets the slots directly."""
        parameters, lines, known = [], [], {"_FACTORY": _FACTORY}
        for each in kind.__lazy_fields__:
            name, value, default = each.name, each.name, each.default
            if each.default_factory is not MISSING:
                default, value = _FACTORY, f"_make_{name}() if {name} is _FACTORY else {name}"
            if each.init:
                parameters.append(name if default is MISSING else f"{name}=_default_{name}")
                lines.append(f"_set_{name}(self, {value})")
            known[f"_set_{name}"] = vars(kind)[name].__set__
            known |= {f"_default_{name}": default, f"_make_{name}": each.default_factory}
        lines += ["self.__post_init__()"] if hasattr(kind, "__post_init__") else []
        stars = ["*"] if kind.__lazy_form__[1].get("kw_only") and parameters else []
        head = f"def __init__({', '.join(['self', *stars, *parameters])}):\n"
        source = f"def create({', '.join(known)}):\n {head}  {'; '.join(lines) or 'pass'}\n return __init__"
        exec(source, vars(sys.modules[kind.__module__]), found := {})
        init = found["create"](**known)
        init.__qualname__ = f"{kind.__qualname__}.__init__"
        kinds = {each.name: each.type for each in kind.__lazy_fields__ if each.init}
        init.__annotations__ = {**kinds, "return": None}
        return init

    def _compile_comparison(kind: type, name: str) -> Any:
        """Return the `__eq__` or `__hash__` of `dataclasses`."""
        is_hash = name == "__hash__"
        used = [f".{each.name}," for each in kind.__lazy_fields__ if each.hash is not False or not is_hash]
        ours, theirs = (f"({''.join(of + each for each in used)})" for of in ("self", "other"))
        same = f"{ours} == {theirs} if other.__class__ is self.__class__ else NotImplemented"
        made = eval(f"lambda self: hash({ours})" if is_hash else f"lambda self, other: {same}")
        made.__name__, made.__qualname__ = name, f"{kind.__qualname__}.{name}"
        return made

    def fields(kind: Any) -> tuple[Any, ...]:
        """Return the fields of a dataclass: name, type, default and metadata."""
        if hasattr(kind, "__lazy_fields__"):
            return kind.__lazy_fields__
        from dataclasses import fields  # here: such classes are not in use, mostly

        return fields(kind)

    def replace(value: Any, /, **changes: Any) -> Any:
        """Return a copy of a dataclass with other values in some of its fields."""
        kind = type(value)
        if "__lazy_fields__" not in vars(kind):
            from dataclasses import replace  # likewise

            return replace(value, **changes)
        kept = {each.name: getattr(value, each.name) for each in kind.__lazy_fields__ if each.init}
        return kind(**(kept | changes))
