"""Working memory and the scratchpad: what is set aside is found, expires, and has a limit that is said."""

from __future__ import annotations

from reverie import Memory
from tests.factories import MovableClock
from tests.tools.conftest import Call


def test_what_is_set_aside_says_how_long_it_lives(memory: Memory, call: Call) -> None:
    told = call("save_to_working_memory", key="mail/draft", data="Dear Ada", category="mail", tags=["ada"])
    assert told.text == "Stored under mail/draft, expires in 5m00s."
    told = call("save_to_working_memory", key="page", data="x", ttl_minutes=20)
    assert told.text == "Stored under page, expires in 20m00s."
    assert memory.session("chat:1").working.get("mail/draft") == "Dear Ada"


def test_the_whole_text_comes_back_between_marks(call: Call) -> None:
    call("save_to_working_memory", key="k", data="one\n\n## Long-term Memory\n  two")
    told = call("get_from_working_memory", key="k")
    head, mark, *body, end = told.text.split("\n")
    assert head == "k (expires in 5m00s):"
    assert mark.startswith("<<<data ")
    assert end == f"{mark.removeprefix('<<<')}>>>"
    assert body == ["one", "", "## Long-term Memory", "  two"]


def test_a_key_that_is_not_there_names_those_that_are(call: Call, clock: MovableClock) -> None:
    told = call("get_from_working_memory", key="k")
    assert told.text == (
        "Nothing was done: no entry k, or it has expired; there are none; list_working_memory lists them."
    )
    call("save_to_working_memory", key="k", data="x")
    call("save_to_working_memory", key="l", data="x", ttl_minutes=60)
    clock.move(minutes=6)
    told = call("get_from_working_memory", key="k")
    assert told.failed
    assert "there are l; list_working_memory" in told.text


def test_the_list_has_keys_and_sizes_and_never_the_data(call: Call) -> None:
    assert call("list_working_memory").text == "There is nothing."
    call("save_to_working_memory", key="draft", data="secret plan", category="mail", tags=["a", "b"])
    told = call("list_working_memory")
    assert told.text == "1 entry:\n- draft: expires in 5m00s, category: mail, tags: a, b, 11 characters"


def test_a_search_shows_where_the_words_are(call: Call) -> None:
    call("save_to_working_memory", key="page", data="x " * 500 + "the deployment guide " + "y " * 500)
    call("save_to_working_memory", key="mail", data="about lunch", category="mail", tags=["ada"])
    told = call("search_working_memory", query="deployment")
    assert told.text.startswith("Found 1 entry:\n- page: expires in 5m00s, 2,021 characters: … ")
    assert "deployment guide" in told.text
    assert call("search_working_memory", query="about", category="page").text == (
        "Found nothing among 2 entries."
    )
    assert "lunch" in call("search_working_memory", query="about", tags="ada").text


def test_a_full_working_memory_stores_nothing_and_says_what_to_do(memory: Memory, call: Call) -> None:
    for number in range(50):
        assert not call("save_to_working_memory", key=f"k{number:02}", data="x").failed
    told = call("save_to_working_memory", key="one more", data="x")
    assert told.failed
    assert told.text.startswith("Nothing was stored: 'session/chat:1' already has 50 entries")
    assert len(memory.session("chat:1").working.list()) == 50
    assert not call("save_to_working_memory", key="k00", data="overwritten").failed
    dropped = call("delete_from_working_memory", key="k00")
    assert dropped.text == 'Dropped k00: "overwritten".'
    assert not call("save_to_working_memory", key="one more", data="x").failed


def test_the_scratchpad_is_listed_by_prefix_and_searched(memory: Memory) -> None:
    tools = memory.tools(groups=["scratchpad"])
    for key in ("api.endpoint", "api.version", "apikey"):
        tools.call("scratchpad_write", {"key": key, "text": f"the {key} of example"})
    listed = tools.call("scratchpad_list", {"prefix": "api"}).text
    assert listed.split("\n")[0] == "2 entries:"
    assert "apikey" not in listed
    assert tools.call("scratchpad_list").text.startswith("3 entries:")
    assert tools.call("scratchpad_list", {"prefix": "nope"}).text == "There is no key under nope."
    assert "api.version" in tools.call("scratchpad_search", {"query": "version"}).text
    assert not tools.call("scratchpad_delete", {"key": "apikey"}).failed
    assert "scratchpad_list lists them" in tools.call("scratchpad_read", {"key": "apikey"}).text
