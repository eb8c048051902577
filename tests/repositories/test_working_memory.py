from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie import Memory
from reverie.domain.entry import AGENT, build_session_namespace
from reverie.domain.errors import WorkingMemoryFull
from reverie.repositories.working_memory import WorkingMemory, is_under
from reverie.search.analyzer import analyze
from reverie.settings import Settings
from reverie.stores.sqlite import SQLiteStore
from tests.context.values import packed
from tests.factories import MovableClock

START = datetime(2025, 1, 15, 10, 30, tzinfo=UTC)


@pytest.fixture
def watch():
    return MovableClock(START)


@pytest.fixture
def store(tmp_path):
    opened = SQLiteStore(tmp_path / "reverie.db", analyse=analyze)
    yield opened
    opened.close()


@pytest.fixture
def working(store, watch):
    return WorkingMemory(store, build_session_namespace("s1"), settings=Settings(), clock=watch)


def keys(found):
    return [each.key for each in found]


def test_what_is_set_is_got_until_it_expires(working, watch):
    working.set("draft", "Dear Alice", ttl="2m")
    watch.move(seconds=119)
    assert working.get("draft") == "Dear Alice"
    watch.move(seconds=1)
    assert working.get("draft") is None
    assert working.list() == []


def test_how_long_an_entry_lives_is_a_setting_or_an_argument(working, store, watch):
    assert working.set("draft", "x").expires_at == START + timedelta(minutes=5)
    kept = WorkingMemory(store, "session/s", settings=Settings(default_ttl_minutes=None), clock=watch)
    brief = WorkingMemory(store, "session/s", settings=Settings(default_ttl_minutes=0.5), clock=watch)
    assert kept.set("a", "x").expires_at is None
    assert brief.set("b", "x").expires_at == START + timedelta(seconds=30)
    working.set("plan", "1. rest", ttl=None)
    watch.move(days=10_000)
    assert working.get("plan") == "1. rest"


def test_the_scratchpad_outlives_sessions_and_takes_more_entries(store, watch):
    scratchpad = WorkingMemory(store, AGENT, settings=Settings(max_entries=2), clock=watch)
    for number in range(5):
        scratchpad.set(f"note-{number}", "x")
    watch.move(days=1)
    later = WorkingMemory(store, AGENT, settings=Settings(), clock=watch)
    assert [later.get(f"note-{number}") for number in range(5)] == ["x"] * 5


def test_the_fifty_first_entry_is_refused_and_the_caller_told(working, watch):
    for number in range(50):
        working.set(f"page-{number:02}", "text", ttl=60 + number)
    with pytest.raises(WorkingMemoryFull) as refusal:
        working.set("one-more", "secret text")
    message = str(refusal.value)
    assert message.startswith("nothing was stored: 'session/s1' already has 50 entries")
    assert "secret" not in message
    assert len(working.list()) == 50
    assert working.get("one-more") is None


def test_overwriting_is_allowed_when_it_is_full_and_an_expired_entry_makes_room(working, watch):
    for number in range(50):
        working.set(f"page-{number:02}", "text", ttl=60 + number)
    working.set("page-07", "other")
    assert working.get("page-07") == "other"
    watch.move(seconds=60)
    working.set("one-more", "text")
    assert working.get("one-more") == "text"


def test_a_prefix_matches_whole_segments(working) -> None:
    for prefix, listed in [
        ("", ["api", "api.endpoint", "api/v1", "api:x", "apikey", "session/s1", "session/s10"]),
        ("api", ["api", "api.endpoint", "api/v1", "api:x"]),
        ("api.", ["api.endpoint"]),
        ("session/s1", ["session/s1"]),
        ("session", ["session/s1", "session/s10"]),
        ("session/", ["session/s1", "session/s10"]),
        ("nothing", []),
    ]:
        for key in ("apikey", "api.endpoint", "api", "api/v1", "api:x", "session/s10", "session/s1"):
            working.set(key, "x")
        assert keys(working.list(prefix)) == listed


@given(st.text(alphabet="ab/.:", max_size=6), st.text(alphabet="ab/.:", max_size=6))
def test_a_key_lies_under_each_of_its_own_beginnings_that_end_with_a_segment(key, rest):
    assert is_under(key, key)
    assert is_under(f"{key}/{rest}", key)
    assert is_under(f"{key}/{rest}", f"{key}/")
    if key and key[-1] not in "/.:" and rest[:1] not in ("", "/", ".", ":"):
        assert not is_under(f"{key}{rest}", key)


def test_search_looks_at_key_text_tags_and_category(working):
    working.set("deploy-log", "finished without errors")
    working.set("note", "the vault opens at noon")
    working.set("page", "some text", tags=["github"])
    working.set("draft", "some text", category="mail/urgent")
    for query, key in [
        ("deploy", "deploy-log"),
        ("vault noon", "note"),
        ("github", "page"),
        ("urgent", "draft"),
    ]:
        found = working.search(query)
        assert [hit.entry.key for hit in found] == [key]
        assert 0 < found[0].score <= 1
        assert found[0].matched


def test_search_is_restricted_to_category_and_tags_and_their_statistics_stay_the_same(working):
    working.set("a", "vault", category="web", tags=["x", "y"])
    working.set("b", "vault", category="web/page", tags=["x"])
    working.set("c", "vault", category="website")
    everything = {hit.entry.key: hit.score for hit in working.search("vault")}
    assert set(everything) == {"a", "b", "c"}
    found = working.search("vault", category="web")
    assert {hit.entry.key: hit.score for hit in found} == {key: everything[key] for key in "ab"}
    assert [hit.entry.key for hit in working.search("vault", tags=["x", "y"])] == ["a"]


def test_an_entry_that_was_changed_is_found_by_its_new_text_only(working):
    working.set("a", "vault")
    assert working.search("vault")
    working.set("a", "garden")
    for question in ("vault", "?!", ""):
        assert working.search(question) == []
    assert working.search("garden")


def test_deleting_says_what_was_removed(working, watch):
    for key in "abc":
        working.set(key, "x")
    assert (working.delete("a"), working.delete("a")) == (True, False)
    assert keys(working.list()) == ["b", "c"]
    working.set("b", "x")
    watch.move(minutes=5)
    assert working.delete("b") is False


def test_the_inventory_counts_down_and_never_shows_data(working, watch):
    working.set("chunked-page-1", "secret", ttl="5m", category="web-content", tags=["github", "rockbot"])
    working.set("draft-email", "secret", ttl=149)
    working.set("plan", "secret", ttl=None)
    watch.move(seconds=28)
    assert packed(entries=working.list(), now=watch.now).text.endswith(
        "Working memory (scratch space — use search_working_memory or get_from_working_memory to retrieve):\n"
        "- chunked-page-1: expires in 4m32s, category: web-content, tags: github, rockbot\n"
        "- draft-email: expires in 2m01s\n"
        "- plan: kept"
    )


def test_the_remaining_time_survives_a_restart(tmp_path, watch):
    store = SQLiteStore(tmp_path / "reverie.db", analyse=analyze)
    WorkingMemory(store, "session/s", settings=Settings(), clock=watch).set("a", "x", ttl="5m")
    store.close()
    watch.move(minutes=4)
    store = SQLiteStore(tmp_path / "reverie.db", analyse=analyze)
    entry = WorkingMemory(store, "session/s", settings=Settings(), clock=watch).entry("a")
    assert entry.get_remaining_time(watch.now) == timedelta(minutes=1)
    store.close()


def test_a_key_that_names_a_secret_speaks_of_its_value(tmp_path):
    with Memory.open(tmp_path / "m") as memory:
        for working in (memory.scratchpad, memory.session("cli:1").working):
            for data in ("kT9x-2vQ7zLp", 'kT9x"2vQ7', "kT9x-2vQ7\n"):
                assert working.set("deploy/db_password", data).data == "[redacted: password]"
                assert working.get("deploy/db_password") == "[redacted: password]"
            assert working.set("password-rules", "At least 12 characters").data == "At least 12 characters"
