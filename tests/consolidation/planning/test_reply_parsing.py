"""JSON is read out of whatever a model wrapped it in, and what broke off is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.consolidation.planning.reply_parsing import (
    UnusableReply,
    parse_json,
    strip_reasoning,
    to_text,
    to_texts,
)

GOOD = '{"facts": ["a {brace}", "b"], "more": {"n": 1}}'
WANTED = {"facts": ["a {brace}", "b"], "more": {"n": 1}}


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"  \n{GOOD}\n ",
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```",
        f"Here you are:\n\n```json\n{GOOD}\n```\nAnything else?",
        f"Here you are: {GOOD} Anything else?",
        f'<think>Maybe {{"facts": []}}? No.</think>{GOOD}',
        f"thinking without an opening mark</think>\n{GOOD}",
        f"Use {{ and }} with care, as in {{x}}. {GOOD}",
        f"In Python f'{{x:>{{n}}}}' is a format. {GOOD}",
        '{"facts": ["a {brace}", "b",], "more": {"n": 1},}',
        f'{{"other": 1}} and then {GOOD}',
        f"```python\nprint({{1: 2}})\n```\nThe answer:\n```json\n{GOOD}\n```",
        f"```json\n{GOOD}",
    ],
)
def test_the_object_is_found(text: str) -> None:
    assert parse_json(text, keys=("facts", "more")) == WANTED


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ("<think>done</think>", "empty"),
        ("I cannot do that.", "no JSON"),
        ("<think>and then", "reasoning"),
        ('{"facts": ["a", "b"', "breaks off"),
        ('{"facts": [{"text": "whole"}, {"text": "ha', "breaks off"),
        ('```json\n{"facts": [{"text": "whole"}, {"te', "breaks off"),
        ('[{"id": "1"}, {"id": "2"', "breaks off"),
        ("[" * 100_000, "nested|no JSON|breaks off"),
        ("x" * 2_000_001, "characters"),
    ],
)
def test_what_cannot_be_used_is_refused(text: str, why: str) -> None:
    with pytest.raises(UnusableReply, match=why):
        parse_json(text, keys=("facts",))


def test_of_several_objects_the_one_with_the_wanted_keys_is_taken_and_of_equals_the_last() -> None:
    assert parse_json('{"a": 1} {"b": 2} {"c": 3}', keys=("b",)) == {"b": 2}
    assert parse_json('{"a": 1} {"a": 2}', keys=("a",)) == {"a": 2}
    assert parse_json('{"a": 1} {"b": 2}') == {"b": 2}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), values, min_size=1, max_size=5))
def test_every_object_comes_back_from_a_fence_and_from_prose(value: dict[str, object]) -> None:
    text = json.dumps(value)
    assert parse_json(text, keys=tuple(value)) == value
    assert parse_json(f"Sure.\n```json\n{text}\n```", keys=tuple(value)) == value
    assert parse_json(f"Sure: {text}", keys=tuple(value)) == value


@given(st.dictionaries(st.text(min_size=1), values, min_size=1, max_size=5), st.data())
def test_no_part_of_a_broken_object_is_taken_for_the_whole(
    value: dict[str, object], data: st.DataObject
) -> None:
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(3, len(text) - 1))]
    with pytest.raises(UnusableReply):
        parse_json(cut, keys=tuple(value))


def test_reasoning_is_cut_off() -> None:
    assert strip_reasoning("<thinking>\nhm\n</thinking>\nYes.") == "Yes."
    assert strip_reasoning("<Reasoning depth='3'>hm</Reasoning>Yes.") == "Yes."


def test_what_should_be_text_is_made_text() -> None:
    assert to_text({"text": " Prefers tea "}) == "Prefers tea"
    assert to_text({"when": "Monday", "what": "review"}) == "when: Monday; what: review"
    assert to_text(12) == "12"
    assert to_texts("one\ntwo\n\none") == ["one", "two"]
    assert to_texts([{"content": "one"}, None, "two", "", "two"]) == ["one", "two"]
    assert to_texts({"content": "one"}) == ["one"]
    assert to_texts(None) == []
