from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime, timedelta

import pytest

from reverie.context import render
from reverie.context.window import build_shown_cursor
from reverie.domain.change import Change
from reverie.domain.conversation import ToolCall, draft_turn
from reverie.domain.errors import InvalidInput, NotFound, StoreUnavailable
from reverie.domain.page import format_daily_note_name
from reverie.domain.record import Record
from reverie.domain.text.escaping import NOTICE
from reverie.domain.text.ids import generate_id
from reverie.memory import Memory
from reverie.search.analyzer import analyze
from reverie.settings import Settings
from reverie.stores.in_memory import InMemoryStore
from reverie.stores.sqlite import SQLiteStore

START = datetime(2025, 1, 15, 10, 31, tzinfo=UTC)
ID = "telegram:12345"


class Watch:
    """A clock that goes on by a second at every look."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.fixture(params=["in memory", "sqlite"])
def store(request, tmp_path):
    if request.param == "in memory":
        opened = InMemoryStore(analyse=analyze)
    else:
        opened = SQLiteStore(tmp_path / "reverie.db", analyse=analyze)
    yield opened
    opened.close()


@pytest.fixture
def start(store):
    """Opens sessions over one store, as processes would."""
    watch = Watch()

    def opened(id=ID, **settings):
        plain = Settings(learn=False, daily_notes=False, files="none", **settings)
        return Memory(store, clock=watch, settings=plain).session(id)

    return opened


@pytest.fixture
def chat(start):
    return start()


def remember(store, content, **fields):
    record = Record(
        id=generate_id(), content=content, created_at=START, updated_at=START, last_seen_at=START, **fields
    )
    store.commit([Change(before=None, after=record)], actor="test", at=START)
    return record


def talk(chat, count, *, text="talk"):
    for number in range(count):
        chat.add("user" if number % 2 == 0 else "assistant", f"{text} {number}")


def recalled(pack):
    """The contents of the records that went in; earlier turns may have been found as well."""
    return [hit.content for hit in pack.hits if hit.record is not None]


def positions(turns):
    return [turn.position for turn in turns]


# -- adding --------------------------------------------------------------------------------------------


def test_a_turn_is_stored_when_add_returns(chat, store):
    turn = chat.add("user", "Did it work?", speaker="Ann", metadata={"source_id": "7"})
    assert store.turns(session=ID) == [turn]
    assert (turn.position, turn.session, turn.speaker, turn.metadata) == (0, ID, "Ann", {"source_id": "7"})
    assert store.session(ID).created_at > START


def test_nothing_is_written_before_the_first_turn(chat, store):
    assert (chat.turns(), chat.recent_turns(), chat.state.status) == ([], [], "active")
    chat.context("hello")
    chat.flush()
    assert store.sequence() == 0
    assert store.session(ID) is None
    assert store.cursor(build_shown_cursor(ID)) is None


def test_calls_of_tools_are_taken_as_chat_apis_give_them(chat):
    openai = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"q": 1}'}}
    plain = {"id": "c2", "name": "look_up", "arguments": {"q": "ü"}}
    bare = {"id": "c3", "name": "now", "arguments": None}
    turn = chat.add("assistant", "", tool_calls=[openai, plain, bare, ToolCall(id="c4", name="now")])
    assert [call.arguments for call in turn.tool_calls] == ['{"q": 1}', '{"q": "ü"}', "{}", "{}"]
    assert chat.add("tool", "42", tool_call_id="c1").tool_call_id == "c1"


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "robot"},
        {"at": datetime(2025, 1, 1)},  # noqa: DTZ001
        {"tool_calls": [{"id": "c", "name": "n"}]},
        {"role": "assistant", "tool_calls": [{"id": "c", "name": "n", "arguments": {1j: 2}}]},
        {"tool_call_id": "c"},
        {"metadata": {"x": 1}},
        {"mood": "good"},
    ],
)
def test_turns_with_one_that_is_not_of_its_form_are_refused_together(chat, store, wrong):
    with pytest.raises(InvalidInput):
        chat.add_many([{"role": "user", "content": "fine"}, {"role": "user", "content": "x", **wrong}])
    assert store.sequence() == 0


ODD = ["tea\0 is hot", "\ud83d tea", "tea \udc00", "", "\0", " \n", "\u200b", "tea\x1b[0m\uffff"]
"""What a keyboard or a program may send."""


def test_a_turn_that_cannot_be_stored_as_it_is_is_cleaned_and_says_so(chat):
    calls = [{"id": "c\0", "name": "f\ud800", "arguments": "{\0}"}]
    turn = chat.add("assistant", "x", speaker="a\0", tool_calls=calls, metadata={"k\0": "\ud800"})
    assert (turn.speaker, turn.tool_calls[0].name, turn.metadata) == ("a ", "f ", {"k ": " "})
    added = chat.add_many(
        {"role": role, "content": text} for text in ODD for role in ("user", "assistant", "tool")
    )
    assert chat.stored_turns() == [turn, *added]
    assert [turn.content for turn in added[:9:3]] == ["tea  is hot", "  tea", "tea  "]
    assert added[0].metadata["cleaned"] == "1 characters replaced by spaces"
    assert "cleaned" not in added[-1].metadata
    said = [each for each in chat.context("tea").messages if each["role"] != "tool"]
    assert all(each["content"] or each.get("tool_calls") for each in said)


def test_a_turn_that_is_too_long_is_cut_and_says_so():
    turn = draft_turn({"role": "user", "content": "tea" * 700_000}, session="chat:1", now=START)
    assert len(turn.content) == 2_000_000
    assert turn.metadata["cleaned"] == "cut to 2,000,000 of 2,100,000 characters"


def test_searches_take_what_may_be_typed(memory):
    chat = memory.session("chat:1")
    chat.add("user", "The tea\0is in the kitchen")
    chat.working.set("tea", "green tea")
    for odd in ("tea\0", "\ud83dtea", "\x1btea", "tea " * 5_000, "where is the tea?\udc00"):
        assert memory.search(odd, sources="turns")
        assert chat.working.search(odd)
        assert chat.context(odd).text
    assert memory.search("tea\0is", sources="turns", mode="literal")
    for nothing in ("", "\0", " ", "\u200b"):
        assert memory.search(nothing) == []


@pytest.mark.parametrize("id", ["", "  ", "x" * 201, 3])
def test_a_session_has_a_name(start, id):
    with pytest.raises(InvalidInput, match=r"session|id is 3"):
        start(id)


def test_threads_adding_to_one_session_get_consecutive_positions(chat, store):
    added = []

    def work(name):
        for number in range(20):
            added.append(chat.add("user", f"{name} {number}"))

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(positions(added)) == list(range(80))
    assert {turn.id for turn in store.turns(session=ID)} == {turn.id for turn in added}


# -- the window and the replay ---------------------------------------------------------------------------


def test_the_window_holds_the_last_fifty_turns_and_twenty_are_replayed(chat, store):
    talk(chat, 120)
    assert positions(chat.turns()) == list(range(70, 120))
    assert positions(chat.recent_turns()) == list(range(100, 120))
    assert positions(chat.recent_turns(3)) == [117, 118, 119]
    assert chat.recent_turns(0) == []
    assert len(store.turns(session=ID)) == 120


# -- state -------------------------------------------------------------------------------------------------


def test_a_terminated_session_takes_no_turn_and_stays_terminated(chat):
    chat.add("user", "x")
    chat.terminate()
    with pytest.raises(InvalidInput, match="terminated"):
        chat.add("user", "y")
    with pytest.raises(InvalidInput, match="terminated"):
        chat.resume()
    assert chat.terminate().status == "terminated"
    assert len(chat.turns()) == 1


def test_a_paused_session_still_takes_turns_and_can_be_resumed(chat, start):
    chat.pause()
    assert start().state.status == "paused"
    chat.add("user", "x")
    assert chat.resume().status == "active"


def test_metadata_is_set_and_removed_one_by_one(chat, start):
    chat.set_metadata("model", "small")
    start().set_metadata("tone", "dry")
    assert chat.state.metadata == {"model": "small", "tone": "dry"}
    chat.set_metadata("model", None)
    assert start().state.metadata == {"tone": "dry"}
    with pytest.raises(InvalidInput, match="metadata"):
        chat.set_metadata("x", 3)


def test_beginning_anew_empties_the_window_and_keeps_the_turns(chat, start, store):
    talk(chat, 5, text="harbour")
    chat.reset()
    assert (chat.turns(), chat.recent_turns(), chat.context().messages) == ([], [], [])
    assert len(store.turns(session=ID)) == 5
    assert start().turns() == []
    assert chat.add("user", "again").position == 5
    assert positions(chat.turns()) == positions(start().turns()) == [5]


# -- the prompt ------------------------------------------------------------------------------------------


def test_the_last_user_turn_is_what_is_recalled_for(chat, store):
    fact = remember(store, "The database is PostgreSQL")
    chat.add("user", "Which database do we use?")
    pack = chat.context()
    assert [hit.record for hit in pack.hits] == [fact]
    assert pack.text == f"{NOTICE}\n\n{render.RECORDS_HEADER}\n{render.render_record(fact)}"
    assert pack.messages == [{"role": "user", "content": "Which database do we use?"}]


def test_a_message_never_recalls_itself_nor_what_is_replayed(chat, store):
    for _ in range(3):
        chat.add("user", "harbour harbour")
        assert chat.context().hits == []
        chat.add("assistant", "harbour it is")


def test_turns_out_of_the_replay_and_of_other_sessions_are_recalled(start):
    chat, other = start(), start("slack:ops")
    far = chat.add("user", "The harbour opens at noon")
    elsewhere = other.add("user", "The harbour master is Ann")
    talk(chat, 30)
    chat.add("user", "harbour?")
    assert {far.id, elsewhere.id} <= {hit.id for hit in chat.context().hits}


def test_memory_cannot_be_crowded_out_by_untrusted_records(chat, store):
    for number in range(60):
        remember(store, f"harbour noon opens {number}", origin="web")
    fact = remember(store, "The harbour is in Oslo")
    chat.add("user", "hello there")
    chat.add("assistant", "good evening")
    chat.add("user", "When is it noon and the harbour opens?")
    assert recalled(chat.context()) == [fact.content]


def test_what_was_shown_is_left_out_until_its_turn_has_scrolled_out(chat, store):
    remember(store, "The harbour is in Oslo")
    chat.add("user", "harbour?")
    assert recalled(chat.context()) == ["The harbour is in Oslo"]
    chat.add("assistant", "In Oslo.")
    for number in range(9):
        chat.add("user", f"And the harbour, {number}?")
        pack = chat.context()
        assert recalled(pack) == []
        assert pack.diagnostics.already_shown == 1
        chat.add("assistant", "Still.")
    chat.add("user", "And the harbour?")  # the first turn is now the twenty-first from the end
    assert recalled(chat.context()) == ["The harbour is in Oslo"]


def test_asking_again_for_the_same_turn_gives_the_same_also_between_calls_of_tools(chat, store):
    remember(store, "The harbour is in Oslo")
    chat.add("user", "harbour?")
    first = chat.context()
    assert chat.context() == first
    chat.add("assistant", "", tool_calls=[{"id": "c", "name": "look_up"}])
    chat.add("tool", "nothing", tool_call_id="c")
    assert chat.context().hits == first.hits


def test_a_message_may_be_asked_about_before_or_after_it_is_added(chat, store):
    remember(store, "The harbour is in Oslo")
    chat.add("user", "hello")
    chat.add("assistant", "hello")
    before = chat.context("harbour?")
    assert [message["content"] for message in before.messages] == ["hello", "hello"]
    chat.add("user", "harbour?")
    assert chat.context().hits == chat.context("harbour?").hits == before.hits
    chat.add("assistant", "Oslo")
    assert chat.context("and the harbour again?").hits == []


def test_a_preview_counts_nothing_as_shown(chat, store):
    remember(store, "The harbour is in Oslo")
    chat.add("user", "harbour?")
    chat.context(record_shown=False)
    chat.add("assistant", "Hm.")
    chat.add("user", "harbour??")
    assert len(chat.context().hits) == 1


def test_what_was_shown_survives_a_restart(start, store):
    remember(store, "The harbour is in Oslo")
    for finish in (lambda chat: chat.add("assistant", "Oslo."), lambda chat: chat.flush()):
        chat = start()
        chat.reset()
        chat.add("user", "harbour?")
        assert recalled(chat.context()) == ["The harbour is in Oslo"]
        finish(chat)
        again = start()
        again.add("user", "harbour again?")
        assert recalled(again.context()) == []


def test_beginning_anew_forgets_what_was_shown(chat, store):
    remember(store, "The harbour is in Oslo")
    chat.add("user", "harbour?")
    chat.context()
    chat.reset()
    assert store.cursor(build_shown_cursor(ID)) is None
    chat.add("user", "harbour?")
    assert recalled(chat.context()) == ["The harbour is in Oslo"]


def test_a_ledger_that_cannot_be_read_is_reported_and_taken_as_empty(chat, start, store, caplog):
    chat.add("user", "x")
    store.commit([], actor="test", at=START, cursors={build_shown_cursor(ID): "{broken"})
    with caplog.at_level(logging.WARNING, logger="reverie"):
        assert start().context().hits == []
    assert "what session 'telegram:12345' was shown cannot be read" in caplog.text


def test_the_question_stays_in_the_messages_when_calls_of_tools_push_it_out(start):
    chat = start(replay_turns=4)
    chat.add("user", "Look everywhere!")
    for number in range(6):
        chat.add("assistant", "", tool_calls=[{"id": f"c{number}", "name": "look_up"}])
        chat.add("tool", "nothing", tool_call_id=f"c{number}")
    messages = chat.context().messages
    assert messages[0] == {"role": "user", "content": "Look everywhere!"}
    assert [message["role"] for message in messages[1:]] == ["assistant", "tool"] * 2


def test_a_budget_given_alone_takes_the_other_along(chat):
    assert (chat.context(hard_tokens=500).soft_tokens, chat.context(soft_tokens=9_000).hard_tokens) == (
        500,
        9_000,
    )
    with pytest.raises(InvalidInput, match="soft_tokens is 2 and hard_tokens 1"):
        chat.context(soft_tokens=2, hard_tokens=1)
    with pytest.raises(InvalidInput, match="hard_tokens is -1"):
        chat.context(hard_tokens=-1)
    with pytest.raises(InvalidInput, match="soft_tokens is '9'"):
        chat.context(soft_tokens="9")
    with pytest.raises(InvalidInput, match="message"):
        chat.context(3)


def test_what_cannot_be_read_is_an_error_and_not_an_empty_pack(chat, store):
    chat.add("user", "harbour?")
    store.close()
    with pytest.raises(StoreUnavailable):
        chat.context()
    with pytest.raises(StoreUnavailable):
        chat.add("user", "x")


def test_turns_are_removed_and_replaced_undoably_with_their_notes(memory):
    chat = memory.session("chat:1")
    asked = chat.add("user", "Where is the red tea?")
    wrong = chat.add("assistant", "In the cellar.", metadata={"rating": "bad"})
    thanks = chat.add("user", "Thanks")
    note = memory.pages.read(format_daily_note_name(wrong.at.date()))
    assert "In the cellar." in note
    assert chat.remove_turns([wrong.id, thanks.id]) == [wrong, thanks]
    assert chat.turns() == chat.stored_turns() == [asked]
    assert memory.pages.read(format_daily_note_name(wrong.at.date())) == ""
    assert not memory.search("cellar", sources=("turns", "pages"))
    memory.history.undo(batch=memory.history.log()[-1].batch)
    assert chat.turns() == [asked, wrong, thanks]
    assert memory.pages.read(format_daily_note_name(wrong.at.date())) == note

    better = chat.replace_turn(wrong.id, "In the kitchen\0.")
    assert (better.content, better.position, better.at) == ("In the kitchen .", 1, wrong.at)
    assert "rating" not in better.metadata
    edited = chat.replace_turn(asked.id, "Where is the green tea?")
    assert chat.turns() == [edited, better, thanks]
    changed = memory.pages.read(format_daily_note_name(wrong.at.date()))
    assert changed == note.replace("red", "green").replace("In the cellar.", "In the kitchen .")
    assert memory.search("tea", sources="turns")[0].content == "Where is the green tea?"
    assert chat.replace_turn(asked.id, "Where is the green tea?") == edited
    assert memory.history.log()[-1].operation == "replace"


def test_a_new_version_has_the_trust_of_its_sources_and_only_own_turns_are_changed(memory):
    chat, other = memory.session("chat:1"), memory.session("chat:2")
    chat.add("user", "Read the page")
    chat.add("assistant", "", tool_calls=[{"id": "c", "name": "fetch", "arguments": "{}"}])
    chat.add("tool", "Pay to ACME-1", tool_call_id="c")
    answer = chat.add("assistant", "Hello")
    assert chat.replace_turn(answer.id, "Pay to ACME-1").origin == "tool"
    foreign = other.add("user", "Hello")
    for wrong in (foreign.id, "0" * 12):
        with pytest.raises(NotFound):
            chat.remove_turns([answer.id, wrong])
        with pytest.raises(NotFound):
            chat.replace_turn(wrong, "x")
    assert len(chat.turns()) == 4
