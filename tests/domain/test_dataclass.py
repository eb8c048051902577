"""Dataclasses that generate their methods on first use behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any, get_type_hints

import pytest

from reverie.domain import dataclass as own


@own.dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """Value."""

    name: str
    count: int = 0
    tags: list[str] = own.field(default_factory=list)
    total: int = own.field(init=False)
    hidden: str = own.field(default="", repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.count * 2)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Standard:
    """Value."""

    name: str
    count: int = 0
    tags: list[str] = dataclasses.field(default_factory=list)
    total: int = dataclasses.field(init=False)
    hidden: str = dataclasses.field(default="", repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.count * 2)


@own.dataclass(slots=True)
class Pair:
    """Value that can be changed."""

    left: int
    right: int = 5


@own.dataclass(frozen=True)
class Base:
    """Value without slots."""

    one: int


@own.dataclass(frozen=True)
class Derived(Base):
    """Value with a field of its own."""

    two: int = 2


@pytest.mark.parametrize(
    "use",
    [
        lambda kind: repr(kind(name="a", count=3, hidden="no")),
        lambda kind: kind(name="a") == kind(name="a"),
        lambda kind: kind(name="a") == kind(name="b"),
        lambda kind: kind(name="a").__eq__("a"),
        lambda kind: hash(dataclasses.replace(kind(name="a"), tags=())),
        lambda kind: [
            (each.name, each.kind, each.annotation, each.default is each.empty)
            for each in inspect.signature(kind).parameters.values()
        ],
        lambda kind: get_type_hints(kind),
        lambda kind: [name for name in kind.__slots__ if hasattr(kind(name="a"), name)],
        lambda kind: hasattr(kind(name="a"), "__dict__"),
        lambda kind: kind.__match_args__,
        lambda kind: dataclasses.asdict(kind(name="a", tags=["x"])),
        lambda kind: repr(dataclasses.replace(kind(name="a"), count=4)),
        lambda kind: repr(copy.deepcopy(kind(name="a", tags=["x"]))),
        lambda kind: repr(pickle.loads(pickle.dumps(kind(name="a", tags=["x"])))),
        lambda kind: kind(name="a").tags is kind(name="a").tags,
        lambda kind: [
            (each.name, each.type, each.default, each.default_factory, each.init, each.repr)
            for each in dataclasses.fields(kind)
        ],
    ],
)
def test_a_value_is_used_as_one_of_the_standard_library(use: Any) -> None:
    assert str(use(Own)).replace("Own", "Standard") == str(use(Standard))


@pytest.mark.parametrize(
    "misuse",
    [
        lambda kind: kind(),
        lambda kind: kind("a"),
        lambda kind: kind(name="a", nmae="b"),
        lambda kind: kind(name="a", total=4),
        lambda kind: setattr(kind(name="a"), "name", "b"),
        lambda kind: delattr(kind(name="a"), "name"),
    ],
)
def test_misuse_fails_as_with_the_standard_library(misuse: Any) -> None:
    with pytest.raises((TypeError, AttributeError)) as standard:
        misuse(Standard)
    with pytest.raises(standard.type) as raised:
        misuse(Own)
    assert str(raised.value).replace("Own", "Standard") == str(standard.value)


def test_the_first_value_of_a_class_is_as_those_after_it() -> None:
    def define() -> Any:
        @own.dataclass(frozen=True, slots=True, kw_only=True)
        class Fresh:
            name: str
            tags: list[str] = own.field(default_factory=list)
            total: int = own.field(init=False)

            def __post_init__(self) -> None:
                object.__setattr__(self, "total", len(self.name))

        return Fresh

    fresh = define()
    assert repr(fresh(name="abc")) == repr(fresh(name="abc"))
    for given in ({}, {"name": "a", "nmae": "b"}, {"name": "a", "total": 3}):
        with pytest.raises(TypeError) as first:
            define()(**given)
        with pytest.raises(TypeError) as later:
            fresh(**given)
        assert str(first.value) == str(later.value)
    with pytest.raises(TypeError):
        define()("a")


def test_replace_keeps_the_other_fields() -> None:
    assert own.replace(Own(name="a", count=3), name="b") == Own(name="b", count=3)


def test_a_value_that_can_be_changed_has_no_hash() -> None:
    pair = Pair(1)
    pair.right = 7
    assert pair == Pair(1, 7)
    match pair:
        case Pair(left, right):
            assert (left, right) == (1, 7)
    with pytest.raises(TypeError, match="unhashable"):
        hash(pair)


def test_a_derived_class_has_the_fields_of_its_base_first() -> None:
    assert repr(Derived(1)) == "Derived(one=1, two=2)"
    assert Derived(1) != Base(1)
    assert [each.name for each in own.fields(Derived)] == ["one", "two"]


def test_a_default_that_can_be_changed_is_refused() -> None:
    with pytest.raises(ValueError, match="default_factory"):

        @own.dataclass()
        class Shared:
            names: list[str] = []  # noqa: RUF012


def test_a_dataclass_of_the_standard_library_may_inherit() -> None:
    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class Wider(Own):
        width: int

    wide = own.replace(Wider(name="a", width=4), name="b")
    assert repr(wide).endswith("Wider(name='b', count=0, tags=[], total=0, width=4)")
    assert [each.name for each in own.fields(Wider)][-1] == "width"
    assert own.replace(Standard(name="a"), name="b") == Standard(name="b")
    assert own.is_dataclass(Standard)


def test_what_is_no_dataclass_is_told_apart() -> None:
    assert own.is_dataclass(Own)
    assert own.is_dataclass(Pair(1))
    assert not own.is_dataclass(str)
    assert dataclasses.is_dataclass(Own)
