"""A dream asks at most three requests about a scope, and what it has no room for is asked about in later ones."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import timedelta

import pytest
from evaluation.measures.scripted_verifier import answer_check

from reverie import Memory
from reverie.consolidation.answers import LATER, VERIFY
from reverie.consolidation.flows import MAX_REQUESTS, limit_requests
from reverie.llm.protocol import ModelFailure, ModelReply, ModelRequest
from reverie.settings import Settings
from tests.factories import MovableClock

_SHOWN = re.compile(r"^\[K\d+\] NEW \([^\n]*?\): (\w+ \d+) holds", re.MULTILINE)
_TURN = re.compile(r"^\[T\d+\]: I ate (\d+) apples", re.MULTILINE)
_NIGHTS = 40


class _BusyModel:
    """Model whose every answer makes further requests: refused headlines and preferences, and cut off answers."""

    name = "busy"

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.records: set[str] = set()
        self.turns: set[str] = set()

    def answer(self, request: ModelRequest, *, on_text: object = None) -> ModelReply:
        self.asked[request.scope] += 1
        text = request.messages[0].content
        if request.purpose == "tidy" and '"headlines"' in text:
            self.records |= set(_SHOWN.findall(text))
            wrong = [{"records": ["K1", "K2"], "content": "Bo pays 77 euros", "category": "", "tags": []}]
            return ModelReply(text=json.dumps({"headlines": wrong}))
        if request.purpose == "preferences":
            turns = _TURN.findall(text)
            if len(turns) > 30:
                return ModelReply(text='{"preferences": [', finish="length")
            self.turns |= set(turns)
            named = [{"turn": "T1", "strength": "strong"}]
            wrong = [{"content": "Likes Zanzibar", "category": "", "tags": [], "signals": named}]
            return ModelReply(text=json.dumps({"preferences": wrong}))
        if request.purpose == VERIFY:
            return ModelReply(text=answer_check(text, lambda _: True))
        return ModelReply(text='{"file": [], "lessons": []}')


@pytest.mark.slow
def test_a_night_asks_at_most_three_requests_about_a_scope_and_later_ones_about_the_rest() -> None:
    clock, model = MovableClock(), _BusyModel()
    settings = Settings(embedder="none", remember=False, learn=False)
    with Memory.open(":memory:", model=model, clock=clock, settings=settings) as memory:
        ann = memory.scoped("user:ann")
        saved = {
            " ".join(result.record.content.split()[:2])
            for view in (memory, ann)
            for origin in ("owner", "web")
            for result in view.save_many(
                {"content": f"{origin} {n} holds " + f"box{n}{origin} " * 150, "origin": origin}
                for n in range(60)
            )
        }
        session = memory.session("cli:1")
        turns = {str(n) for n in range(45)}
        for n in turns:
            session.add("user", f"I ate {n} apples on day {n}")
        for _ in range(_NIGHTS):
            ann.save(f"It is now {clock.now}")
            session.add("user", f"It is late on {clock.now}")
            model.asked.clear()
            memory.dreams.run()
            assert max(model.asked.values()) <= MAX_REQUESTS
            clock.now += timedelta(days=1)
    assert saved <= model.records
    assert turns <= model.turns


def test_the_last_request_of_a_scope_verifies() -> None:
    def ask(request: ModelRequest) -> ModelReply | ModelFailure:
        return ModelReply(text=request.purpose)

    ask_within_limit = limit_requests(ask)
    tidy, verify = (ModelRequest(messages=(), purpose=purpose, scope="ann") for purpose in ("tidy", VERIFY))
    replies = [ask_within_limit(request) for request in (tidy, tidy, tidy, verify, verify)]
    assert [reply == LATER for reply in replies] == [False, False, True, False, True]
