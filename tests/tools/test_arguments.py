"""What is clear is understood, and what is not gets a sentence with which a model corrects itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reverie import Memory
from reverie.llm.protocol import ToolSpec
from reverie.tools import GROUPS, Toolset
from reverie.tools.toolset import WrongArguments, parse_arguments
from tests.factories import build_parameters
from tests.profiles import examples

SPEC = ToolSpec(
    name="tool",
    description="",
    parameters=build_parameters(
        ["text"],
        text={"type": "string", "minLength": 1, "maxLength": 20},
        maybe={"type": "string"},
        how={"type": "string", "enum": ["add", "search"]},
        many={"type": "integer", "minimum": 1, "maximum": 50},
        share={"type": "number", "minimum": 0, "maximum": 1},
        large={"type": "integer", "minimum": 5},
        really={"type": "boolean"},
        tags={"type": "array", "items": {"type": "string", "maxLength": 10}, "maxItems": 3},
        sentences={"type": "array", "items": {"type": "string", "maxLength": 1000}},
        other={"type": "object"},
    ),
)


def test_what_is_clear_is_understood() -> None:
    for name, value, meant in [
        ("how", "add", "add"),
        ("how", " Add ", "add"),
        ("many", "5", 5),
        ("many", " 5.0 ", 5),
        ("many", 5.0, 5),
        ("share", "0.25", 0.25),
        ("share", 1, 1),
        ("really", "true", True),
        ("really", "False", False),
        ("really", False, False),
        ("tags", "a, b", ["a", "b"]),
        ("tags", "a", ["a"]),
        ("tags", ["a", "", None, "b"], ["a", "b"]),
        ("tags", '["a", "b"]', ["a", "b"]),
        ("tags", ("a",), ["a"]),
        ("sentences", "One, two and three.", ["One, two and three."]),
        ("sentences", "[sic] it says", ["[sic] it says"]),
        ("maybe", "x", "x"),
        ("other", {"a": 1}, {"a": 1}),
    ]:
        assert parse_arguments(SPEC, {"text": "t", name: value}) == {"text": "t", name: meant}


def refuse(arguments: dict[Any, Any]) -> str:
    """Return what is said of wrong arguments."""
    with pytest.raises(WrongArguments) as refused:
        parse_arguments(SPEC, arguments)
    return str(refused.value)


def test_null_and_an_empty_text_are_nothing() -> None:
    for nothing in [None, ""]:
        assert parse_arguments(SPEC, {"text": "t", "maybe": nothing, "many": nothing}) == {"text": "t"}


def test_what_is_wrong_is_said_with_what_it_should_be() -> None:
    for given_, said in [
        ({}, "tool needs text."),
        ({"text": None}, "tool needs text."),
        ({"text": ""}, "tool needs text."),
        ({"text": 3}, "text is 3: pass a string."),
        ({"text": ["a"]}, "text is a list: pass a string."),
        ({"text": "x" * 21}, "text has 21 characters: at most 20 are allowed."),
        ({"text": "t", "txet": 1}, "tool has no argument txet. Do you mean text? It takes: text, maybe, how"),
        ({"text": "t", 3: 1}, "tool has no argument 3. It takes: text"),
        ({"text": "t", "how": "remove"}, "how is 'remove': pass one of add, search."),
        ({"text": "t", "many": 0}, "many is 0: pass a number from 1 to 50."),
        ({"text": "t", "many": "many"}, "many is 'many': pass a whole number."),
        ({"text": "t", "many": 1.5}, "many is 1.5: pass a whole number."),
        ({"text": "t", "many": True}, "many is true: pass a whole number."),
        ({"text": "t", "large": 1}, "large is 1: pass a number of 5 or more."),
        ({"text": "t", "share": float("nan")}, "share is nan: pass a number."),
        ({"text": "t", "share": 10**5000}, "share is int of too many digits: pass a number."),
        ({"text": "t", "share": "much"}, "share is 'much': pass a number."),
        ({"text": "t", "really": "yes"}, "really is 'yes': pass true or false."),
        ({"text": "t", "tags": 3}, "tags is 3: pass a list of strings."),
        ({"text": "t", "tags": {"a": 1}}, "tags is an object: pass a list of strings."),
        ({"text": "t", "tags": ["a", 3]}, "tags is a list whose item 2 is 3: pass a string."),
        ({"text": "t", "tags": ["a"] * 4}, "tags has 4 items: at most 3 are allowed."),
        ({"text": "t", "other": "a"}, "other is 'a': pass a JSON object."),
    ]:
        assert refuse(given_).startswith(said)


def test_several_mistakes_are_all_said() -> None:
    said = refuse({"many": 0, "how": "x", "nope": 1})
    assert said.startswith("tool needs text. tool has no argument nope.")
    assert "many is 0" in said
    assert "how is 'x'" in said


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40) | st.sampled_from(
        ["", "\0", "\ud800", "\u202e", "../up", "a/b", "MEMORY.md", "HISTORY.md", "9999-99-99", "2026-01-01"]
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@pytest.fixture(scope="module")
def everything() -> Toolset:
    memory = Memory.open(":memory:")
    memory.save("Ada prefers tea", category="user-preferences")
    memory.session("chat:1").add("user", "I like tea")
    memory.pages.write("MEMORY.md", "Ada lives in Bern\n")
    tools = memory.tools(session="chat:1", groups=GROUPS)
    return tools.without(*(name for name in tools.names if "nod" in name or "ntit" in name))


@settings(max_examples=examples(300), deadline=None)
@given(data=st.data())
def test_no_arguments_whatever_raise(everything: Toolset, data: st.DataObject) -> None:
    tool = data.draw(st.sampled_from(list(everything)))
    takes = tool.spec.parameters["properties"]
    wanted = data.draw(st.sets(st.sampled_from([*takes, "unknown"]))) | set(tool.spec.parameters["required"])
    arguments = {name: data.draw(_like(takes.get(name, {})) | ANYTHING) for name in sorted(wanted)}
    told = everything.call(tool.name, arguments)
    assert told.text


def _like(rule: Any) -> st.SearchStrategy[Any]:
    """Values that are mostly of the form, so that the tool itself is reached."""
    if "enum" in rule:
        return st.sampled_from(rule["enum"])
    if rule.get("type") == "array":
        return st.lists(st.text(min_size=1, max_size=10), max_size=3)
    if rule.get("type") in {"integer", "number"}:
        return st.integers(1, 50) | st.floats(0, 1)
    return st.text(max_size=30) | st.sampled_from(
        ["tea", "k", "Bern", "user-preferences", "2026-01-01", "this", "("]
    )


def test_what_is_wrong_is_said_without_the_secret_in_it(memory: Memory) -> None:
    key = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    tools = memory.tools()
    for told in (
        tools.call("search_memory", {"query": "tea", "limit": key}),
        tools.call("search_memory", {"query": "tea", key: 1}),
        tools.call(key, {}),
    ):
        assert told.failed
        assert key not in told.text
        assert "[redacted: github token]" in told.text
