"""Embedders behind HTTP, against a server on loopback."""

from __future__ import annotations

import json

import pytest

from reverie.domain.errors import ModelRefused, ModelUnavailable
from reverie.llm import openai
from reverie.llm.embedding import embedder_from_name
from reverie.llm.openai import OpenAIEmbedder
from tests.llm.server import Handler, cut, dripping, serving, status


def embeds(handler: Handler) -> None:
    items = [
        {"index": n, "embedding": [float(len(text)), 1.0]} for n, text in enumerate(handler.asked["input"])
    ]
    handler.send(200, json.dumps({"data": items[::-1]}).encode())


def test_texts_are_embedded_in_order_whatever_the_order_of_the_answer():
    with serving(embeds) as script:
        embedder = OpenAIEmbedder("m", base_url=f"{script.url}/v1", api_key="secret")
        assert embedder.embed_passages(["a", "bbb"]) == [[1.0, 1.0], [3.0, 1.0]]
    (request,) = script.asked
    assert request["path"] == "/v1/embeddings"
    assert request["headers"]["authorization"] == "Bearer secret"
    assert request["input"] == ["a", "bbb"]


def test_an_error_of_the_server_is_told() -> None:
    cases = [(503, ModelUnavailable), (429, ModelUnavailable), (401, ModelRefused)]
    for code, error in cases:
        with (
            serving(status(code, "what it says")) as script,
            pytest.raises(error, match=f"answered {code}.*what it says"),
        ):
            OpenAIEmbedder("m", base_url=script.url).embed_queries(["a"])


@pytest.mark.parametrize("body", [b"no json", b"{}", b'{"data": [{"index": 0}]}', b"[]"])
def test_an_answer_without_embeddings_is_a_failure(body):
    with (
        serving(lambda handler: handler.send(200, body)) as script,
        pytest.raises(ModelUnavailable, match="openai:m"),
    ):
        OpenAIEmbedder("m", base_url=script.url).embed_queries(["a"])


def test_a_server_that_is_not_there_is_unavailable():
    with pytest.raises(ModelUnavailable, match="connection"):
        OpenAIEmbedder("m", base_url="http://127.0.0.1:9").embed_queries(["a"])


def test_names_and_variables_choose_the_server():
    with serving(embeds) as script:
        environ = {"OPENAI_BASE_URL": f"{script.url}/v1", "OLLAMA_HOST": script.url}
        for name in ("openai:text-embedding-3-small", "ollama:bge-m3"):
            embedder = embedder_from_name(name, environ=environ)
            assert embedder is not None
            assert embedder.name == name
            assert embedder.embed_queries(["ab"]) == [[2.0, 1.0]]
    assert [request["path"] for request in script.asked] == ["/v1/embeddings"] * 2
    with pytest.raises(ModelRefused, match="OPENAI_API_KEY"):
        embedder_from_name("openai:m")


def test_an_answer_that_breaks_off_is_a_failure():
    with serving(cut) as script, pytest.raises(ModelUnavailable, match="openai:m"):
        OpenAIEmbedder("m", base_url=script.url).embed_queries(["a"])


def test_the_time_is_kept_whatever_the_server_does(monkeypatch):
    monkeypatch.setattr(openai, "_QUERY_TIMEOUT_S", 0.3)
    with serving(dripping(10)) as script, pytest.raises(ModelUnavailable, match="no answer within"):
        OpenAIEmbedder("m", base_url=script.url).embed_queries(["a"])
