from __future__ import annotations

from hypothesis import given

from reverie.context.window import NO_RESULT, to_chat_messages, trim_window
from tests.context.values import call, conversation, result, shapes, turn


def test_the_cut_tears_no_call_from_its_results():
    for turns, limit, kept in (
        ([turn(n) for n in range(30)], 20, [*range(10, 30)]),
        ([turn(0), turn(1), call(2, "a"), result(3, "a"), turn(4), turn(5), turn(6)], 4, [4, 5, 6]),
        (
            [turn(0), call(1, *"abc"), result(2, "a"), result(3, "b"), result(4, "c"), turn(5)],
            3,
            [1, 2, 3, 4, 5],
        ),
        ([turn(0), result(1, "lost"), turn(2), turn(3)], 3, [2, 3]),
        ([turn(0), turn(1), call(2, "a")], 1, [2]),
    ):
        assert [each.position for each in trim_window(turns, limit)] == kept


@given(shapes)
def test_every_call_has_exactly_one_result_and_it_follows_at_once(shape):
    turns = conversation(shape)
    replay = to_chat_messages(turns)
    waiting: list[str] = []
    for message in replay.messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
        else:
            assert not waiting
            waiting = [c["id"] for c in message.get("tool_calls", ())]
    assert not waiting
    assert len([m for m in replay.messages if m["role"] != "tool"]) == len(
        [t for t in turns if t.role != "tool"]
    )
    assert len(replay.orphans) == sum(kind < 0 for kind in shape)
    assert replay.unanswered == sum(kind > 9 for kind in shape)


def test_each_result_follows_its_call_and_a_missing_one_is_said():
    for turns, contents in (
        (
            [call(0, "a", "b"), turn(1, content="wait"), result(2, "b", "B"), result(3, "a", "A")],
            ["", "A", "B", "wait"],
        ),
        ([call(0, "a")], ["", NO_RESULT]),
        ([call(0, "c"), result(1, "c", "one"), call(2, "c"), result(3, "c", "two")], ["", "one", "", "two"]),
        ([call(0, "c", "c"), result(1, "c", "one"), result(2, "c", "two")], ["", "one", "two"]),
    ):
        assert [message["content"] for message in to_chat_messages(turns).messages] == contents


def test_messages_have_the_fields_that_chat_apis_know():
    replay = to_chat_messages(
        [turn(0, speaker="Ann Lee"), call(1, "a", content="Let me look"), result(2, "a")]
    )
    assert replay.messages == [
        {"role": "user", "content": "Hello", "name": "Ann_Lee"},
        {
            "role": "assistant",
            "content": "Let me look",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "42"},
    ]
