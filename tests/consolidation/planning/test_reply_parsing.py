"""JSON is read out of whatever a model wrapped it in, and what broke off is refused."""

from __future__ import annotations

import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.consolidation.planning.requests import (
    UnusableReply,
    parse_answer,
    parse_json,
    strip_reasoning,
    to_ids,
    to_text,
    to_texts,
)
from reverie.domain.conversation import ToolCall
from reverie.llm.protocol import ModelReply

GOOD = '{"facts": ["a {brace}", "b"], "more": {"n": 1}}'
WANTED = {"facts": ["a {brace}", "b"], "more": {"n": 1}}


def test_the_object_is_found() -> None:
    cases = [
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
        f'```json\n{{"facts": [], "more": {{}}}}\n```\nNo, better:\n```json\n{GOOD}\n```\nDone.',
        f"```json\n{GOOD}```",
        f'{{"result": {GOOD}}}',
        f'{{"name": "answer", "arguments": {json.dumps(GOOD)}}}',
        f"[{GOOD}]",
        '[{"facts": ["a {brace}"]}, {"facts": ["b"], "more": {"n": 1}}]',
        """{'facts': ['a {brace}', 'b'], 'more': {'n': 1}}""",
        """{facts: ["a {brace}", 'b'], more: {n: 1}}""",
        '{"Facts": ["a {brace}", "b"], "MORE": {"n": 1}}',
        '{\n// what was said\n"facts": ["a {brace}", /* both */ "b"], // two\n"more": {"n": 1}}',
        f"As in [#12] and [see there], don't {{guess}}: {GOOD}",
        f'The form is {{...}} or {{"facts": [...], ...}}. Mine:\n{GOOD}',
    ]
    for text in cases:
        assert parse_json(text, keys=("facts", "more")) == WANTED


def test_what_cannot_be_used_is_refused() -> None:
    cases = [
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
        ('```json\n{"facts": []}\n```\nBetter:\n```json\n{"facts": ["a"', "breaks off"),
        ('```json\n{"facts": []}\n```\nBetter: {"facts": ["a", ', "breaks off"),
        ("{'facts': ['a', 'it", "breaks off"),
        ('{"facts": ["a", // and so on', "breaks off"),
    ]
    for text, why in cases:
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


SCHEMA = {
    "type": "object",
    "properties": {
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": {"text": {}, "cited_turns": {"type": "array"}}},
        },
        "note": {"type": "string"},
    },
}


def test_an_answer_has_the_keys_of_its_schema_however_they_are_spelled() -> None:
    line = {"text": "Ana lives in Rome", "cited_turns": ["t1"]}
    for text in (
        '{"Lines": [{"Text": "Ana lives in Rome", "citedTurns": ["t1"]}]}',
        '{"lines": [{"text": "Ana lives in Rome", "Cited Turns": ["t1"]}]}',
        '[{"text": "Ana lives in Rome", "cited-turns": ["t1"]}]',
    ):
        assert parse_answer(ModelReply(text=text), SCHEMA) == {"lines": [line]}


def test_an_answer_may_be_a_tool_call_with_or_without_words_beside_it() -> None:
    call = ToolCall(id="1", name="answer", arguments='{"lines": []}')
    for text in ("", "I note it.", "As in [1]? No {x}."):
        assert parse_answer(ModelReply(text=text, tool_calls=(call,)), SCHEMA) == {"lines": []}
    assert parse_answer(ModelReply(text='{"lines": ["a"]}', tool_calls=(call,)), SCHEMA) == {"lines": ["a"]}


def test_an_answer_that_is_not_whole_is_refused() -> None:
    cases = [
        (ModelReply(text='{"lines": []}', finish="length"), "cut off"),
        (ModelReply(text='{"lines": []}', finish="refused"), "would not"),
        (ModelReply(text='{"other": []}'), "none of: lines, note"),
        (
            ModelReply(text='{"lines": [', tool_calls=(ToolCall(id="1", name="a", arguments="{}"),)),
            "breaks off",
        ),
    ]
    for reply, why in cases:
        with pytest.raises(UnusableReply, match=why):
            parse_answer(reply, SCHEMA)


def test_ids_are_read_with_the_brackets_that_prompts_show_them_in() -> None:
    value = parse_json('{"sources": [[3f2a9c81d04b], "[012345678901]", 012345678902, "a1b2c3d4e5f6, [t2]"]}')
    assert to_ids(value["sources"]) == ["3f2a9c81d04b", "012345678901", "012345678902", "a1b2c3d4e5f6", "t2"]
    assert to_ids({"id": "`t1`"}) == ["t1"]
    assert to_ids(None) == []


HOSTILE = (
    "{ x ", "[", "{", '{"a": ', '{"a":x ', "['a", "{'a", "['\\x", '["', "{/*", "[//", "<think>", "<think></think>",
    "<think ", "``` ", "```\n", "[{ ", "{a:1 ", "[abcdefabcdef, ", "'", '"', "{'a': ", "[''", "[1,", "{}", "[]",
)  # fmt: skip


@pytest.mark.slow
def test_the_time_is_linear_in_the_length() -> None:
    def measure(piece: str, length: int) -> float:
        text = (piece * length)[:length]
        began = time.process_time()
        for _ in range(3):
            with contextlib.suppress(UnusableReply):
                parse_json(text, keys=("facts",))
        return time.process_time() - began

    for piece in HOSTILE:
        measure(piece, 1_000)
        assert measure(piece, 64_000) < 24 * measure(piece, 8_000) + 0.05, (
            piece
        )  # 8 if linear, 64 if quadratic
