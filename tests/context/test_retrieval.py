"""What a conversation leaves as records takes the place of its turns in prompts."""

from __future__ import annotations

import json
from datetime import timedelta

from reverie import Memory
from reverie.context.pack import NOTHING_KNOWN
from reverie.llm.protocol import ModelRequest
from reverie.settings import Settings
from tests.factories import MovableClock, believe

SAID = "Change of plan: on Mondays I roast now, no more Tuesdays. On which day do the beans ship?"
RECORD = "The user roasts on Mondays now, no more Tuesdays."
QUESTION = "On which day do I roast the beans?"


def _answer(request: ModelRequest) -> str:
    del request
    return json.dumps({"add": [{"content": RECORD, "kind": "fact", "category": "", "turns": ["T1"]}]})


def _recall(memory: Memory, session: str, message: str = QUESTION) -> list[str]:
    return [hit.content for hit in memory.session(session).context(message).hits]


def test_a_record_takes_the_place_of_the_turn_that_it_was_made_from() -> None:
    settings = Settings(embedder="none", recall_limit=3, learn=False)
    with Memory.open(":memory:", model=believe(_answer), clock=MovableClock(), settings=settings) as memory:
        session = memory.session("cli:1")
        session.add("user", SAID)
        session.add("assistant", "On Thursday.")
        memory.save(RECORD.replace("Mondays now", "Fridays then"), source="owner")
        assert SAID in _recall(memory, "cli:2")
        assert memory.dreams.run_window("cli:1", "read").state == "applied"
        memory.dreams.run(["verify"])
        assert RECORD in memory.session("cli:3").context(QUESTION).text
        assert SAID not in _recall(memory, "cli:4"), "the record says it in fewer words"


def test_what_is_found_only_in_conversations_may_fill_a_prompt() -> None:
    with Memory.open(":memory:", clock=MovableClock(), settings=Settings(embedder="none")) as memory:
        for number in range(14):
            memory.session(f"cli:{number}").add("user", f"Batch {number} of the beans is roasted darker.")
        assert 4 <= len(_recall(memory, "cli:ask")) <= Settings().recall_limit


def test_the_newest_records_of_a_memory_without_a_page_are_in_its_first_prompt() -> None:
    with Memory.open(":memory:", clock=MovableClock(), settings=Settings(embedder="none")) as memory:
        texts = [f"Crate {number} is in hall {number}" for number in range(7)]
        memory.save_many([{"content": text, "kind": "fact"} for text in texts])
        assert _recall(memory, "cli:1", "hello there") == texts[:1:-1]
        memory.pages.write("MEMORY.md", "The harbour opens at noon.")
        assert _recall(memory, "cli:2", "hello there") == []


def test_a_message_about_a_day_gets_what_was_said_then() -> None:
    clock = MovableClock()  # 2 June 2025, a Monday
    said = {0: "The tap was fixed.", 7: "Ada got the piano.", 8: "Bo had his eyes tested.", 14: "Mail came."}
    with Memory.open(":memory:", clock=clock, settings=Settings(embedder="none")) as memory:
        for day, text in said.items():
            clock.now = MovableClock().now + timedelta(days=day)
            memory.session(f"chat:{day}").add("user", text)
        clock.move(days=1)
        for message, days in {
            "What happened on 2 June?": [0],
            "Was haben wir letzte Woche besprochen?": [7, 8],
            "What did I tell you on 9 June?": [7],
            "What did we talk about on 20 May?": [],
            "Who tested his eyes last week?": [8],
        }.items():
            pack = memory.session("chat:now").context(message)
            shown = [choice.hit.content for choice in pack.choices if choice.verdict == "selected"]
            assert sorted(shown) == sorted(said[day] for day in days), (message, pack.text)
            assert (NOTHING_KNOWN in pack.text) == (not days)


def test_a_message_about_the_last_conversation_gets_its_notes() -> None:
    clock = MovableClock()
    with Memory.open(":memory:", clock=clock, settings=Settings(embedder="none")) as memory:
        for text in ("The plumber fixed the tap.", "Ada picked up the piano."):
            memory.session("chat:1").add("user", text)
            memory.session("chat:1").add("assistant", "Good.")
        clock.move(days=3)
        for message, is_shown in {
            "What did we talk about last time?": True,
            "Wo sind wir stehengeblieben?": True,
            "When did the cat see the vet for the last time?": False,
        }.items():
            text = memory.session("chat:2").context(message).text
            assert ("User: Ada picked up the piano. | Assistant: Good." in text) == is_shown, message
            assert (NOTHING_KNOWN in text) != is_shown
