"""What a conversation leaves as records takes the place of its turns in prompts."""

from __future__ import annotations

import json

from reverie import Memory
from reverie.llm.messages import ModelRequest
from reverie.settings import Settings
from tests.factories import MovableClock, believe

SAID = "Change of plan: on Mondays I roast now, no more Tuesdays. On which day do the beans ship?"
RECORD = "The user roasts on Mondays now, no more Tuesdays."
QUESTION = "On which day do I roast the beans?"


def _answer(request: ModelRequest) -> str:
    del request
    return json.dumps({"records": [{"content": RECORD, "kind": "fact", "category": "", "turns": ["t1"]}]})


def _recall(memory: Memory, session: str) -> list[str]:
    return [hit.content for hit in memory.session(session).context(QUESTION).hits]


def test_records_come_before_turns_that_were_read_for_facts() -> None:
    settings = Settings(embedder="none", recall_limit=1)
    with Memory.open(":memory:", model=believe(_answer), clock=MovableClock(), settings=settings) as memory:
        session = memory.session("cli:1")
        session.add("user", SAID)
        session.add("assistant", "On Thursday.")
        memory.save(RECORD.replace("Mondays now", "Fridays then"), source="owner")
        assert _recall(memory, "cli:2") == [SAID]
        assert memory.dreams.run_window("cli:1", "remember").state == "applied"
        assert _recall(memory, "cli:3") == [RECORD]
        session.add("user", SAID.upper())
        session.add("assistant", "On Thursday.")
        assert _recall(memory, "cli:4") == [SAID.upper()]


def test_what_is_found_only_in_conversations_may_fill_a_prompt() -> None:
    with Memory.open(":memory:", clock=MovableClock(), settings=Settings(embedder="none")) as memory:
        for number in range(14):
            memory.session(f"cli:{number}").add("user", f"Batch {number} of the beans is roasted darker.")
        assert len(_recall(memory, "cli:ask")) == Settings().recall_limit
