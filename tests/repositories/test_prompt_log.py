"""The prompt log shows the lines of a prompt later, and no erased text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reverie import Memory, NotFound, Settings
from reverie.domain.scope import visible_scopes
from reverie.repositories import prompts
from reverie.repositories.prompts import MAX_SESSION_ENTRIES, PromptLog
from reverie.scoped import ScopedMemory
from tests.factories import MovableClock

CHAT = "telegram:1"
FACT = "The spare key of the boat house hangs behind the blue shutter"


@pytest.fixture
def memory(tmp_path: Path, clock: MovableClock) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory", clock=clock, settings=Settings(files="none")) as memory:
        yield memory


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


def ask(memory: ScopedMemory, question: str, *, answer: str = "In its place.", chat: str = CHAT) -> int:
    """Ask and answer once; return the position of the question."""
    session = memory.session(chat)
    position = session.add("user", question).position
    session.context()
    session.add("assistant", answer)
    return position


def test_an_entry_tells_what_a_prompt_was_made_of(memory: Memory) -> None:
    fact = memory.save(FACT).record
    rule = memory.save("Always answer in English", kind="preference").record
    position = ask(memory, "Where is the spare key of the boat house?")
    logged = memory.admin.prompts.get(CHAT, position)
    assert logged.question == "Where is the spare key of the boat house?"
    line = next(each for each in logged.entry.lines if each.id == fact.id)
    assert line.verdict == "selected"
    assert line.score > 0
    assert logged.contents == {fact.id: FACT, rule.id: rule.content}
    assert logged.entry.total == sum(logged.entry.tokens.values()) <= logged.entry.hard_tokens
    assert memory.admin.prompts.list() == memory.admin.prompts.list(CHAT) == [logged.entry]


def test_the_question_of_a_prompt_is_what_was_searched_for(memory: Memory) -> None:
    memory.save(FACT)
    session = memory.session(CHAT)
    session.context("Where is the spare key?")
    session.add_many([{"role": "user", "content": "Where is the spare key?"}])
    session.context("Something that nobody says")
    session.add_many([{"role": "user", "content": "Thanks"}])
    assert [memory.admin.prompts.get(CHAT, position).question for position in (0, 1)] == [
        "Where is the spare key?",
        "Something that nobody says",
    ]


def test_a_prompt_keeps_what_a_line_said_then_beside_what_it_says_now(memory: Memory) -> None:
    fact = memory.save(FACT).record
    position = ask(memory, "Where is the spare key of the boat house?")
    now = memory.update(fact.id, content="The spare key of the boat house is with Ines").content
    explained = memory.admin.prompts.get(CHAT, position)
    assert FACT in "\n".join(line.text for line in explained.text)
    assert explained.contents[fact.id] == now


def test_a_preview_and_a_memory_that_records_nothing_leave_no_entry(memory: Memory) -> None:
    memory.save(FACT)
    session = memory.session(CHAT)
    session.add("user", "Where is the spare key?")
    session.context(record_shown=False)
    session.add("assistant", "Here.")
    assert memory.admin.prompts.list() == []
    with pytest.raises(NotFound, match="has no entry"):
        memory.admin.prompts.get(CHAT, 0)


def test_the_room_of_entries_is_bounded(
    memory: Memory, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "MAX_ENTRIES", 5)
    session = memory.session(CHAT)
    for _ in range(MAX_SESSION_ENTRIES // 2 + 28):
        session.context("Where is the key?")
        session.add_many([{"role": "user", "content": "Where?"}, {"role": "assistant", "content": "There."}])
    kept = memory.admin.prompts.list(CHAT, limit=None)
    assert len(kept) <= MAX_SESSION_ENTRIES // 2
    assert kept[0].position == MAX_SESSION_ENTRIES + 54
    for chat in ("a", "b"):
        clock.move(seconds=1)
        ask(memory, "Where is it?", chat=chat)
    assert len(memory.admin.prompts.list(limit=None)) == 5 + 1  # the oldest go when a session begins
    clock.move(days=31)
    ask(memory, "Where is it?", chat="c")
    assert [entry.session for entry in memory.admin.prompts.list()] == ["c"]


def test_a_scope_sees_the_entries_of_its_own_sessions_only(memory: Memory) -> None:
    alice = memory.scoped("user:alice")
    alice.save(FACT)
    position = ask(alice, "Where is the spare key of the boat house?")
    (entry,) = memory.admin.prompts.list()
    store = memory._store
    assert PromptLog(store, visible_scopes("user:alice")).list() == [entry]
    for scope in ("user:bob", ""):
        others = PromptLog(store, visible_scopes(scope))
        assert others.list() == others.list(entry.session) == []
        with pytest.raises(NotFound):
            others.get(entry.session, position)


def test_a_deleted_session_takes_its_entries_along(memory: Memory) -> None:
    ask(memory, "Where is the key?")
    ask(memory, "Where is the key?", chat=f"{CHAT}:1")
    memory.delete_session(CHAT)
    assert [entry.session for entry in memory.admin.prompts.list()] == [f"{CHAT}:1"]
    assert len(memory._store.cursors("prompt:")) == 1


# -- erasure -------------------------------------------------------------------------------------------


def list_bytes(memory: Memory) -> bytes:
    assert memory.path is not None
    return b"".join(file.read_bytes() for file in memory.path.rglob("*") if file.is_file())


def test_an_erased_record_is_in_no_entry(memory: Memory) -> None:
    fact = memory.save(FACT).record
    rule = memory.save("Never mention the boat house to Victor", kind="constraint").record
    position = ask(memory, "Where is the spare key of the boat house?")
    memory.admin.forget(fact.id, rule.id)
    logged = memory.admin.prompts.get(CHAT, position)
    lines = {line.id for line in logged.entry.lines} | {line.id for line in logged.text}
    assert not {fact.id, rule.id} & {*logged.contents, *lines}
    stored = str(memory._store.cursors("prompt:"))
    assert not any(text in stored for text in (fact.id, rule.id, FACT))


def test_an_erased_session_leaves_neither_name_nor_entry(memory: Memory) -> None:
    ask(memory, "Where is the key?", chat="telegram:+49-171-5550199")
    ask(memory, "Where is the key?")
    assert b"5550199" in list_bytes(memory)
    memory.admin.forget(session="telegram:+49-171-5550199")
    assert b"5550199" not in list_bytes(memory)
    assert [entry.session for entry in memory.admin.prompts.list()] == [CHAT]


def test_the_paragraphs_of_a_page_go_from_entries_when_a_line_of_it_is_erased(memory: Memory) -> None:
    memory.pages.write(
        "people/victor.md", "- Victor sings in the choir of Saint Mary on Sundays\n- He cooks\n"
    )
    position = ask(memory, "When does Victor sing in the choir?")
    assert "paragraph" in [each.type for each in memory.admin.prompts.get(CHAT, position).entry.lines]
    memory.admin.forget(match="sings in the choir of Saint Mary")
    logged = memory.admin.prompts.get(CHAT, position)
    assert "paragraph" not in [each.type for each in logged.entry.lines]


def test_the_exact_text_of_a_prompt_is_stored_line_by_line_with_reasons(memory: Memory) -> None:
    fact = memory.save(FACT).record
    rule = memory.save("Always answer in metric units", kind="constraint").record
    session = memory.session(CHAT)
    position = session.add("user", "Where is the spare key of the boat house?").position
    pack = session.context()
    session.add("assistant", "Behind the shutter.")
    explained = memory.admin.prompts.get(CHAT, position)
    assert not explained.is_rebuilt
    assert "\n".join(line.text for line in explained.text) == pack.text
    reasons = {line.id: line.reason for line in explained.text if line.id}
    assert reasons[rule.id] in ("A rule, in every prompt", "On the page that is in every prompt")
    assert fact.id in reasons
    assert all(line.reason for line in explained.text if line.text)


def test_a_prompt_whose_text_was_erased_shows_what_is_left_and_says_so(memory: Memory) -> None:
    fact = memory.save(FACT).record
    other = memory.save("The ferry to Askholmen leaves from the northern pier").record
    position = ask(memory, "Where is the spare key of the boat house?")
    memory.admin.forget(other.id)
    explained = memory.admin.prompts.get(CHAT, position)
    assert explained.is_rebuilt
    (line,) = explained.text
    assert (line.id, line.text, bool(line.reason)) == (fact.id, FACT, True)
    assert not any("Askholmen" in line.text for line in explained.text)
    assert b"northern pier" not in list_bytes(memory)
