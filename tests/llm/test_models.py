"""Models are asked over real sockets; whatever the server does, there is an answer or a reason for none."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable

import pytest

from reverie import InvalidInput, ModelRefused, ModelUnavailable
from reverie.domain.conversation import ToolCall
from reverie.llm import Model, model_from_function, model_from_name
from reverie.llm.anthropic import AnthropicModel
from reverie.llm.embedding import embedder_from_name
from reverie.llm.openai import OllamaModel, OpenAIModel
from reverie.llm.protocol import ChatMessage, ModelReply, ModelRequest, TokenUsage, ToolSpec
from tests.llm.server import (
    Script,
    cut,
    dripping,
    hangs_up,
    is_no_json,
    refusing,
    says,
    serving,
    slow,
    status,
    streaming_slowly,
)

SCHEMA = {"type": "object", "properties": {"facts": {"type": "array"}}, "required": ["facts"]}
TOOL = ToolSpec(
    name="search", description="Looks things up.", parameters={"type": "object", "properties": {}}
)
Make = Callable[..., Model]


def openai_at(script: Script, **more: object) -> Model:
    return OpenAIModel("m", base_url=f"{script.url}/v1", api_key="k", **more)  # type: ignore[arg-type]


def anthropic_at(script: Script, **more: object) -> Model:
    return AnthropicModel("m", base_url=script.url, api_key="k", **more)  # type: ignore[arg-type]


both = pytest.mark.parametrize("make", [openai_at, anthropic_at], ids=["openai", "anthropic"])


def hurry(seconds: float) -> None:
    """Wait for nothing."""


def question(**more: object) -> ModelRequest:
    messages = (ChatMessage(role="system", content="Be brief."), ChatMessage(role="user", content="Hello?"))
    return ModelRequest(**{"messages": messages, "purpose": "test", "timeout_s": 20.0, **more})  # type: ignore[arg-type]


@both
def test_a_question_is_answered_and_counted(make: Make) -> None:
    with serving(says("Good day.")) as script:
        model = make(script)
        reply = model.answer(question(max_tokens=77, temperature=0.5))
    assert (reply.text, reply.finish, reply.model) == ("Good day.", "stop", "scripted-1")
    assert reply.usage == TokenUsage(requests=1, input_tokens=20, output_tokens=5)
    assert isinstance(model, Model)
    asked = script.asked[0]
    assert (asked["max_tokens"], asked["temperature"], asked["model"]) == (77, 0.5, "m")


@both
def test_what_arrives_in_pieces_is_passed_on_and_put_together(make: Make) -> None:
    heard: list[str] = []
    with serving(says("One two three.", calls=(("c1", "search", '{"query": "tea"}'),))) as script:
        reply = make(script).answer(question(tools=(TOOL,)), on_text=heard.append)
    assert "".join(heard) == reply.text == "One two three. "
    assert len(heard) == 3
    assert reply.tool_calls == (ToolCall(id="c1", name="search", arguments='{"query": "tea"}'),)
    assert (reply.finish, reply.usage.input_tokens, reply.usage.output_tokens) == ("tool_calls", 20, 5)


@both
def test_tools_are_offered_and_their_results_told(make: Make) -> None:
    call = ToolCall(id="c1", name="search", arguments='{"query": "tea"}')
    messages = (
        ChatMessage(role="user", content="What do I drink?"),
        ChatMessage(role="assistant", content="", tool_calls=(call,)),
        ChatMessage(role="tool", content="tea", tool_call_id="c1"),
        ChatMessage(role="tool", content="green", tool_call_id="c2"),
    )
    with serving(says("", calls=(("c2", "search", "{}"),))) as script:
        reply = make(script).answer(question(messages=messages, tools=(TOOL,)))
    assert reply.tool_calls == (ToolCall(id="c2", name="search", arguments="{}"),)
    told = json.dumps(script.asked[0])
    for word in ("search", '"c1"', "green"):
        assert word in told
    if make is anthropic_at:
        assert [message["role"] for message in script.asked[0]["messages"]] == ["user", "assistant", "user"]


@both
def test_an_answer_of_a_certain_form_is_asked_for(make: Make) -> None:
    with serving(says('{"facts": ["a"]}')) as script:
        assert json.loads(make(script).answer(question(schema=SCHEMA)).text) == {"facts": ["a"]}
    asked = script.asked[0]
    assert asked.get("response_format", {}).get("type") == "json_schema" or "tool_choice" in asked


@both
def test_a_server_that_knows_no_schemas_is_told_in_words_and_not_tried_again(make: Make) -> None:
    then = says('{"facts": []}')
    step = refusing("json_schema", then, message="json_schema is not supported")
    step = refusing("tool_choice", step, message="tools are not supported")
    with serving(step) as script:
        model = make(script)
        assert json.loads(model.answer(question(schema=SCHEMA)).text) == {"facts": []}
        before = len(script.asked)
        model.answer(question(schema=SCHEMA))
    assert len(script.asked) == before + 1
    assert "fit this JSON schema" in json.dumps(script.asked[-1])


@both
def test_a_request_that_is_wrong_in_every_form_is_refused_with_the_first_reason(make: Make) -> None:
    with serving(status(400, "the prompt is too long")) as script:
        model = make(script, sleep=hurry)
        for schema in (None, SCHEMA):
            with pytest.raises(ModelRefused, match="the prompt is too long"):
                model.answer(question(schema=schema))
        forms = len(script.asked)
        with pytest.raises(ModelRefused):
            model.answer(question(schema=SCHEMA))
        assert len(script.asked) - forms == forms - 1, "no form was given up for it"


@both
def test_an_argument_that_a_server_does_not_know_is_left_out(make: Make) -> None:
    with serving(
        refusing("temperature", says("Yes."), message="temperature is deprecated for this model")
    ) as script:
        model = make(script)
        assert model.answer(question()).text == "Yes."
        assert model.answer(question()).text == "Yes."
    assert len(script.asked) == 3


def test_newer_servers_get_max_completion_tokens() -> None:
    step = refusing('"max_tokens"', says("Yes."), message="use max_completion_tokens instead of max_tokens")
    with serving(step) as script:
        assert openai_at(script).answer(question(max_tokens=9)).text == "Yes."
    assert script.asked[-1]["max_completion_tokens"] == 9


@both
def test_a_passing_failure_is_tried_again(make: Make) -> None:
    failures = [
        status(500),
        status(503),
        status(429, headers={"retry-after": "0"}),
        status(529),
        hangs_up,
        cut,
        is_no_json,
    ]
    for failure in failures:
        with serving(failure, failure, says("Here.")) as script:
            reply = make(script, sleep=hurry).answer(question())
        assert (reply.text, reply.usage.requests, len(script.asked)) == ("Here.", 3, 3)


@both
def test_tries_are_bounded(make: Make) -> None:
    pauses: list[float] = []
    with serving(status(500, "out of order")) as script:
        with pytest.raises(ModelUnavailable, match=r"in 3 tries.*out of order"):
            make(script, sleep=pauses.append).answer(question())
        assert (len(script.asked), pauses) == (3, [0.5, 1.0])


@both
@pytest.mark.parametrize("step", [slow(3, says("Late.")), dripping(3)], ids=["slow", "dripping"])
def test_the_time_is_kept_whatever_the_server_does(make: Make, step: object) -> None:
    with serving(step) as script, pytest.raises(ModelUnavailable):  # type: ignore[arg-type]
        make(script).answer(question(timeout_s=0.4))


@both
def test_a_server_that_asks_for_more_time_than_there_is_is_not_waited_for(make: Make) -> None:
    with serving(status(429, "slow down", headers={"retry-after": "3600"})) as script:
        with pytest.raises(ModelUnavailable, match="slow down"):
            make(script).answer(question(timeout_s=5.0))
        assert len(script.asked) == 1


@both
@pytest.mark.parametrize("code", [401, 403, 404])
def test_a_wrong_key_or_name_is_said_at_once(make: Make, code: int) -> None:
    with serving(status(code, "who are you")) as script:
        with pytest.raises(ModelRefused, match=r"who are you.*check the key"):
            make(script).answer(question())
        assert len(script.asked) == 1


@both
def test_a_key_is_not_sent_on_by_a_redirect(make: Make) -> None:
    with serving(says("x")) as other, serving(lambda h: h.send(302, b"", {"location": other.url})) as script:
        with pytest.raises(ModelRefused, match="answered 302"):
            make(script).answer(question())
        assert other.asked == []


@both
def test_a_stream_that_breaks_off_after_it_began_is_not_begun_again(make: Make) -> None:
    heard: list[str] = []
    with serving(cut) as script:
        with pytest.raises(ModelUnavailable, match="broke off"):
            make(script, sleep=hurry).answer(question(), on_text=heard.append)
        assert len(script.asked) == (1 if heard else 3)


@both
def test_nothing_is_passed_on_after_the_time_is_up(make: Make) -> None:
    heard: list[str] = []
    with serving(streaming_slowly) as script:
        with pytest.raises(ModelUnavailable):
            make(script).answer(question(timeout_s=0.5), on_text=heard.append)
        count = len(heard)
        time.sleep(0.5)
    assert len(heard) == count


@both
def test_an_answer_that_is_empty_or_cut_at_the_limit_says_so(make: Make) -> None:
    with serving(says(""), says("Half of", finish="length"), says("No.", finish="content_filter")) as script:
        model = make(script)
        assert model.answer(question()).text == ""
        assert model.answer(question()).finish == "length"
        assert model.answer(question()).finish == "refused"


# -- names -------------------------------------------------------------------------------------------


def test_a_model_is_found_by_its_name_and_the_customary_variables() -> None:
    with serving(says("Yes.")) as script:
        environ = {"OPENAI_BASE_URL": f"{script.url}/v1", "OPENAI_API_KEY": "secret"}
        assert model_from_name("openai:some-model", environ=environ).answer(question()).text == "Yes."
        assert script.asked[0]["headers"]["authorization"] == "Bearer secret"
        environ = {"ANTHROPIC_BASE_URL": script.url, "ANTHROPIC_API_KEY": "secret"}
        assert model_from_name("anthropic:some-model", environ=environ).answer(question()).text == "Yes."
        sent = script.asked[1]["headers"]
        assert sent["x-api-key"] == "secret"
        model = model_from_name(
            "ollama:qwen3:8b", environ={"OLLAMA_HOST": script.url.removeprefix("http://")}
        )
        assert isinstance(model, OllamaModel)
        assert (model.name, model.answer(question()).text) == ("ollama:qwen3:8b", "Yes.")
        assert script.asked[2]["model"] == "qwen3:8b"
        assert script.asked[2]["path"] == "/v1/chat/completions"


def test_a_name_that_is_none_says_how_it_should_be() -> None:
    for name in ["", "gpt", "openai:", ":x", "nobody:x", 3]:
        with pytest.raises(InvalidInput, match=r"openai"):
            model_from_name(name)  # type: ignore[arg-type]


WRONG_ADDRESSES = ["::::", "http://[::1", "ftp://x", "http://", "http://x:99999", "http://x:y", "http://a b"]


def test_an_address_that_is_none_is_named() -> None:
    variables = {
        "openai:x": "OPENAI_BASE_URL",
        "anthropic:x": "ANTHROPIC_BASE_URL",
        "ollama:x": "OLLAMA_HOST",
    }
    for url, (name, variable) in itertools.product(WRONG_ADDRESSES, variables.items()):
        environ = {variable: url, "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
        with pytest.raises(InvalidInput, match=f"{variable} is .*: pass an address such as"):
            model_from_name(name, environ=environ)
        if name != "anthropic:x":
            with pytest.raises(InvalidInput, match=variable):
                embedder_from_name(name, environ=environ)
        with pytest.raises(InvalidInput, match="base_url"):
            OpenAIModel("x", base_url=url)


def test_a_key_that_is_missing_or_that_no_header_can_hold_is_named_and_not_quoted() -> None:
    for name, variable in (("openai:x", "OPENAI_API_KEY"), ("anthropic:x", "ANTHROPIC_API_KEY")):
        for environ in ({}, {variable: "kT9x\nzz91"}):
            with pytest.raises(ModelRefused, match=variable) as refused:
                model_from_name(name, environ=environ)
            assert "kT9x" not in str(refused.value)
        model_from_name(name, environ={variable: " kT9x\n"})


# -- functions ---------------------------------------------------------------------------------------


def test_a_function_is_a_model() -> None:
    def echo(ask: ModelRequest) -> str:
        return ask.messages[-1].content.upper()

    heard: list[str] = []
    model = model_from_function(echo)
    assert model.answer(question(), on_text=heard.append).text == "HELLO?"
    assert (model.name, heard) == ("function:echo", ["HELLO?"])
    assert (
        model_from_function(lambda ask: ModelReply(text="x", finish="length"), name="mine")
        .answer(question())
        .finish
        == "length"
    )
    with pytest.raises(ModelRefused, match="return text"):
        model_from_function(lambda ask: 3).answer(question())  # type: ignore[arg-type, return-value]
