"""JSON is read out of whatever a model wrapped it in, and what broke off is refused."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reverie
from reverie.consolidation.answers import (
    UnusableReply,
    build_schema,
    parse_answer,
    strip_reasoning,
    to_ids,
    to_text,
    to_texts,
)
from reverie.domain.conversation import ToolCall
from reverie.domain.text.validation import estimate_tokens
from reverie.llm.protocol import ModelReply

GOOD = '{"facts": ["a {brace}", "b"], "more": {"n": 1}}'
WANTED = {"facts": ["a {brace}", "b"], "more": {"n": 1}}
SCHEMA = build_schema({"facts": [str], "more": {"n": int}})
LINES = build_schema({"lines": [{"text": str, "cited_turns": [str]}], "note": str})


def parse(text: str, schema: Any = SCHEMA) -> dict[str, Any]:
    return parse_answer(ModelReply(text=text), schema)


def test_the_object_is_found() -> None:
    cases = [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"Here you are:\n\n```json\n{GOOD}\n```\nAnything else?",
        f'<think>Maybe {{"facts": []}}? No.</think>{GOOD}',
        f"thinking without an opening mark</think>\n{GOOD}",
        f"Use {{ and }} with care, as in {{x}}. {GOOD}",
        f"In Python f'{{x:>{{n}}}}' is a format. {GOOD}",
        '{"facts": ["a {brace}", "b",], "more": {"n": 1},}',
        f'{{"other": 1}} and then {GOOD}',
        f"```python\nprint({{1: 2}})\n```\nThe answer:\n```json\n{GOOD}\n```",
        f"```json\n{GOOD}",
        f'```json\n{{"facts": [], "more": {{}}}}\n```\nNo, better:\n```json\n{GOOD}\n```\nDone.',
        f'{{"result": {GOOD}}}',
        f'{{"name": "answer", "arguments": {json.dumps(GOOD)}}}',
        f"[{GOOD}]",
        """{'facts': ['a {brace}', 'b'], 'more': {'n': 1}}""",
        """{facts: ["a {brace}", 'b'], more: {n: 1}}""",
        '{"Facts": ["a {brace}", "b"], "MORE": {"n": 1}}',
        '{\n// what was said\n"facts": ["a {brace}", /* both */ "b"], // two\n"more": {"n": 1}}',
        f"As in [#12] and [see there], don't {{guess}}: {GOOD}",
        f'The form is {{...}} or {{"facts": [...], ...}}. Mine:\n{GOOD}',
    ]
    for text in cases:
        assert parse(text) == WANTED, text
    assert parse('{"facts": [1]} {"facts": [2]}') == {"facts": [2]}, "of equals the last"


def test_what_cannot_be_used_is_refused() -> None:
    cases = [
        ("", "empty"),
        ("<think>done</think>", "empty"),
        ("I cannot do that.", "no JSON"),
        ("<think>and then", "reasoning"),
        ('{"other": []}', "none of: facts, more"),
        ('{"facts": ["a", "b"', "breaks off"),
        ('{"facts": [{"text": "whole"}, {"text": "ha', "breaks off"),
        ('[{"id": "1"}, {"id": "2"', "breaks off"),
        ("[" * 100_000, "nested|no JSON|breaks off"),
        ("x" * 2_000_001, "characters"),
        ('```json\n{"facts": []}\n```\nBetter: {"facts": ["a", ', "breaks off"),
        ("{'facts': ['a', 'it", "breaks off"),
        ('{"facts": ["a", // and so on', "breaks off"),
    ]
    for text, why in cases:
        with pytest.raises(UnusableReply, match=why):
            parse(text)
    for finish, why in (("length", "cut off"), ("refused", "would not")):
        with pytest.raises(UnusableReply, match=why):
            parse_answer(ModelReply(text=GOOD, finish=finish), SCHEMA)  # type: ignore[arg-type]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["facts", "more"]), values, min_size=1), st.data())
def test_every_object_comes_back_and_no_part_of_a_broken_one_is_taken_for_it(
    value: dict[str, object], data: st.DataObject
) -> None:
    text = json.dumps(value)
    assert parse(text) == value
    assert parse(f"Sure.\n```json\n{text}\n```") == value
    with pytest.raises(UnusableReply):
        parse(text[: data.draw(st.integers(3, len(text) - 1))])


def test_what_should_be_text_is_made_text() -> None:
    assert strip_reasoning("<thinking>\nhm\n</thinking>\nYes.") == "Yes."
    assert strip_reasoning("<Reasoning depth='3'>hm</Reasoning>Yes.") == "Yes."
    assert to_text({"text": " Prefers tea "}) == "Prefers tea"
    assert to_text({"when": "Monday", "what": "review"}) == "when: Monday; what: review"
    assert to_text(12) == "12"
    assert to_texts("one\ntwo\n\none") == [*to_texts({"content": "one"}), "two"] == ["one", "two"]
    assert to_texts([{"content": "one"}, None, "two", "", "two"]) == ["one", "two"]
    assert to_ids(["[K1]", "K2, [t2]"]) == ["K1", "K2", "t2"]
    assert to_ids({"id": "`t1`"}) == ["t1"]
    assert to_ids(None) == to_texts(None) == []


def test_an_answer_has_the_keys_of_its_schema_however_they_are_spelled() -> None:
    for text in (
        '{"Lines": [{"Text": "Ana lives in Rome", "citedTurns": ["t1"]}]}',
        '{"lines": [{"text": "Ana lives in Rome", "Cited Turns": ["t1"]}]}',
        '[{"text": "Ana lives in Rome", "cited-turns": ["t1"]}]',
    ):
        assert parse(text, LINES) == {"lines": [{"text": "Ana lives in Rome", "cited_turns": ["t1"]}]}


def test_an_answer_may_be_a_tool_call_with_or_without_words_beside_it() -> None:
    call = ToolCall(id="1", name="answer", arguments='{"lines": []}')
    for text, lines in (("", []), ("As in [1]? No {x}.", []), ('{"lines": ["a"]}', ["a"])):
        assert parse_answer(ModelReply(text=text, tool_calls=(call,)), LINES) == {"lines": lines}


@pytest.mark.parametrize(
    "file", sorted(Path(reverie.__file__).parent.rglob("*.md")), ids=lambda file: file.stem
)
def test_a_prompt_is_short_and_has_one_form_of_answer_with_an_example(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert 0 < estimate_tokens(text) < 900
    assert text.count("An example") == text.count("JSON object of this form") <= 1


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
                parse(text)
        return time.process_time() - began

    for piece in HOSTILE:
        measure(piece, 1_000)
        # 8 if linear, 64 if quadratic
        assert measure(piece, 64_000) < 24 * measure(piece, 8_000) + 0.05, piece
