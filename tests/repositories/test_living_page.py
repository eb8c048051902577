"""The living page: its form, what stands on it, and edits of it through every door."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie import Memory, Settings
from reverie.domain.living_page import (
    Line,
    Section,
    join_page,
    load_words,
    parse_block,
    render_block,
    split_page,
)
from reverie.domain.page import LANGUAGES, MEMORY
from reverie.files.rebuild import rebuild
from reverie.interfaces.http.server import HttpServer
from reverie.search.analyzer import analyze
from tests.factories import MovableClock, end_record
from tests.interfaces.http.conftest import serve_here

IDS = st.text("0123456789abcdef", min_size=12, max_size=12)
TEXTS = st.text(min_size=1) | st.sampled_from(
    [
        "a\nb\r\u2028",
        "x --> y",
        "<!-- 0123456789ab -->",
        "`code`\\n",
        "C:\\new\\",
        "- … # <!-- reverie:page -->",
    ]
)
LINES = st.tuples(IDS, TEXTS, st.sampled_from(["", "until 2026-05-01"]), st.booleans()).map(
    lambda fields: Line(*fields)
)


@pytest.fixture
def now() -> MovableClock:
    return MovableClock()


@pytest.fixture
def memory(tmp_path: Path, now: MovableClock) -> Iterator[Memory]:
    with Memory.open(tmp_path, clock=now) as opened:
        yield opened


def fill(memory: Memory) -> dict[str, str]:
    """Save what the tests edit; return the ids by content."""
    texts = {
        "I live in Bergen": None,
        "Prefers short answers": "user-preferences/style",
        "Kenji likes hiking": None,
        "Kenji works at Acme": None,
        "The office closes at six": "work/office",
        "The office has blue doors": "work/office",
    }
    return {text: memory.save(text, category=category).record.id for text, category in texts.items()}


def list_headings(page: str) -> list[str]:
    return [line for line in page.split("\n") if line.startswith("#")]


# -- the form ------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.builds(Section, TEXTS.map(str.strip), st.lists(LINES, min_size=1).map(tuple), st.integers(2, 3))
    )
)
def test_what_is_rendered_is_read_back(sections: list[Section]) -> None:
    block = render_block(sections, more="3 more")
    assert list(parse_block(block)) == sections
    parts = split_page(join_page("# Mine\n\ntext\n", block), was="# Mine\n\ntext\n")
    assert (parts.outside, parts.is_damaged) == ("# Mine\n\ntext\n", False)
    assert list(parse_block(parts.block or "")) == sections


def test_every_language_has_all_words() -> None:
    words = load_words()
    assert list(words) == sorted(words, key=LANGUAGES.index)
    assert set(words) == set(LANGUAGES)
    assert {tuple(each) for each in words.values()} == {tuple(words["en"])}


# -- what stands there ---------------------------------------------------------------------------------------


def test_a_page_has_the_owner_the_rules_what_comes_what_changed_and_the_rest(
    memory: Memory, now: MovableClock
) -> None:
    ids = fill(memory)
    old = memory.save("The rent is 960 euros").record
    memory.save("The vet is on 2025-06-12", kind="task_state")
    memory.save("Return the books on 2025-06-10", kind="task_state")
    memory.save("The courier came on 2025-05-01", kind="task_state")
    memory.save("Somebody on the web says hello", origin="web")
    now.move(hours=1)
    new = memory.save("The rent is 980 euros").record
    end_record(memory, old, new)
    memory.save("The vet is on 2025-06-20 now", kind="task_state")
    assert memory.search("vet")  # the earlier day is perhaps outdated now
    page = memory.page()
    *headings, one, other = list_headings(page)
    assert headings == [
        "## About you", "## How to help you", "## Coming up", "### 2025-06-10", "### 2025-06-20",
        "## Changed lately",
    ]  # fmt: skip
    assert {one, other} == {"## Work: office", "## Kenji"}
    assert f"- I live in Bergen <!-- {ids['I live in Bergen']} -->\n" in page
    assert f"- The rent is 980 euros <!-- {new.id} -->\n  - until 2025-06-02: The rent is 960 euros" in page
    assert "courier" not in page
    assert "web" not in page
    now.move(days=20)
    later = memory.page()
    assert "### 2025-06-10" not in later  # what is past leaves
    assert "Return the books" not in later


def test_a_line_about_money_says_that_the_owner_is_asked_first(memory: Memory, now: MovableClock) -> None:
    record = memory.save("The credit card number for payments is in the safe").record
    assert record.permission
    assert f"<!-- {record.id}, ask before acting on it -->" in memory.page()
    now.move(hours=1)
    pack = memory.session("chat:1").context("hello")
    assert f"[{record.id}] (ask before acting on it)" in pack.stable_text
    assert memory.edit_page(memory.page()).outcome == "unchanged"


def test_a_large_memory_chooses_and_says_how_many_are_not_shown(memory: Memory) -> None:
    for number in range(400):
        memory.save(f"Shelf {number} holds box {number * 7} of the archive", importance=0.4)
    important = memory.save("The archive key is in the desk", importance=1).record
    page = memory.page()
    assert important.id in page
    shown = page.count("<!--") - 2
    assert f"… {401 - shown} more are not shown here" in page
    assert 20 < shown < 100
    assert len(page) < 4 * memory.settings.page_tokens * 1.5


def test_headings_follow_the_language_and_a_scope_has_its_own_page(now: MovableClock) -> None:
    with Memory.open(":memory:", clock=now, settings=Settings(language="de")) as memory:
        memory.save("Ich wohne in Bergen", kind="fact")
        alice = memory.scoped("user:alice")
        alice.save("I live in Oslo", kind="fact")
        assert list_headings(memory.page()) == list_headings(alice.page()) == ["## Über dich"]
        assert "Oslo" not in memory.page()
        assert "Bergen" not in alice.page()


# -- in prompts ----------------------------------------------------------------------------------------------


def test_a_prompt_has_the_page_and_repeats_none_of_it(memory: Memory, now: MovableClock) -> None:
    ids = fill(memory)
    now.move(hours=1)
    chat = memory.session("chat:1")
    chat.add("user", "Where do I live?")
    pack = chat.context()
    assert f"- I live in Bergen [{ids['I live in Bergen']}]" in pack.stable_text
    assert pack.text.count("I live in Bergen") == 1
    assert pack.text.count("Prefers short answers") == 1
    assert not pack.hits
    assert not pack.standing


def test_while_somebody_talks_a_page_stays_and_what_has_changed_follows(
    memory: Memory, now: MovableClock
) -> None:
    ids = fill(memory)
    now.move(hours=1)
    chat = memory.session("chat:1")
    chat.add("user", "Where do I live?")
    stable = chat.context().stable_text
    memory.update(ids["I live in Bergen"], content="I live in Oslo")
    memory.archive(ids["Kenji likes hiking"])
    pack = chat.context()
    assert pack.stable_text == stable
    assert (
        "Changed since:\n- I live in Bergen → I live in Oslo\n- Kenji likes hiking → ∅" in pack.changing_text
    )
    now.move(hours=1)
    chat.add("user", "And now?")
    pack = chat.context()
    assert "I live in Oslo" in pack.stable_text
    assert "Changed since" not in pack.text


# -- edits ---------------------------------------------------------------------------------------------------


Edit = Callable[[Memory, Callable[[str], str]], None]


def by_hand(memory: Memory, change: Callable[[str], str]) -> None:
    assert memory.folder is not None
    assert memory.path is not None
    memory.page()
    memory.flush()
    file = memory.path / "memory" / MEMORY
    file.write_text(change(file.read_text()))
    os.utime(file, (time.time() - 60, time.time() - 60))
    assert not memory.folder.take_in().problems
    memory.flush()
    assert file.read_text() == memory.pages.read()


def by_program(memory: Memory, change: Callable[[str], str]) -> None:
    memory.page()
    text = memory.pages.read()
    memory.pages.write(MEMORY, change(text), expected=text)


def by_page(memory: Memory, change: Callable[[str], str]) -> None:
    memory.edit_page(change(memory.page()))


def by_http(memory: Memory, change: Callable[[str], str]) -> None:
    with serve_here(HttpServer(memory)) as client:
        read = client.get("/v1/page")
        body, headers = {"content": change(read.json()["content"])}, {"If-Match": read.headers["etag"]}
        assert client.put("/v1/page", json=body, headers=headers).status_code == 200


EDITS = [by_hand, by_program, by_page, by_http]


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_line_changes_its_record_a_deleted_one_archives_it_and_a_new_one_is_saved(
    memory: Memory, edit: Edit
) -> None:
    ids = fill(memory)
    memory.pages.write(MEMORY, "# Mine\n\nkept word for word\n")

    def change(page: str) -> str:
        page = page.replace("I live in Bergen", "I live in Oslo")
        page = page.replace("## How to help you\n", "## How to help you\n- Call me Ada\n")
        return re.sub(r"- Kenji works at Acme.*\n", "", page)

    edit(memory, change)
    assert memory.get(ids["I live in Bergen"]).content == "I live in Oslo"  # type: ignore[union-attr]
    gone = memory.get(ids["Kenji works at Acme"])
    assert gone is not None
    assert gone.archived
    assert [record.kind for record in memory.list() if record.content == "Call me Ada"] == ["preference"]
    assert len(memory.list()) == len(ids)
    assert memory.pages.read().startswith("# Mine\n\nkept word for word\n\n<!-- reverie:page")
    assert "Oslo" in memory.page()
    assert "Acme" not in memory.page()


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("what", ["many lines", "a mark", "everything"])
def test_an_edit_that_takes_away_too_much_waits_for_review(memory: Memory, edit: Edit, what: str) -> None:
    ids = fill(memory)
    memory.pages.write(MEMORY, "# Mine\n")

    def change(page: str) -> str:
        if what == "everything":
            return "# Mine\n"
        if what == "many lines":
            return "\n".join(
                line for line in page.split("\n") if "Kenji" not in line and "office" not in line
            )
        return page.replace("<!-- /reverie:page -->", "").replace("- Kenji likes hiking", "- Kenji likes tea")

    page = memory.page()
    edit(memory, change)
    assert {record.id for record in memory.list()} == set(ids.values())
    assert all(memory.get(name).content == text for text, name in ids.items())  # type: ignore[union-attr]
    (waiting,) = memory.dreams.kept_plans()
    assert len(waiting.plan.steps) == {"many lines": 4, "a mark": 1, "everything": 6}[what]
    assert memory.pages.read().startswith("# Mine\n\n<!-- reverie:page")
    assert memory.pages.read().count("<!-- /reverie:page -->") == 1
    memory.dreams.decide(waiting.id, "accept")
    assert memory.page() != page


def test_whoever_knows_no_block_writes_only_what_stands_outside(memory: Memory) -> None:
    fill(memory)
    page = memory.page()
    memory.pages.write(MEMORY, "new text\n")
    memory.pages.append(MEMORY, "- a line")
    assert memory.pages.read() == f"new text\n- a line\n\n{page}\n"
    assert not memory.dreams.kept_plans()
    assert len(memory.list()) == 6


def test_a_tool_edits_with_the_trust_that_its_session_has(memory: Memory) -> None:
    ids = fill(memory)
    memory.page()
    tools = memory.tools(session="chat:1")
    tools.call("edit_memory", {"old": "I live in Bergen", "new": "I live in Oslo"})
    record = memory.get(ids["I live in Bergen"])
    assert record is not None
    assert (record.content, record.origin) == ("I live in Oslo", "agent")
    whole = memory.page()
    told = tools.call(
        "edit_memory", {"old": whole[whole.index("## About") : whole.index("<!-- /reverie")], "new": "x"}
    )
    assert told.text == "6 memories would change, which the owner has to confirm: nothing is changed yet."
    assert len(memory.list()) == 6


def test_a_search_finds_no_line_of_the_page_beside_its_record(memory: Memory) -> None:
    fill(memory)
    memory.page()
    hits = memory.search("where does Kenji work?", sources=("records", "pages"))
    assert [hit.kind for hit in hits if "Acme" in hit.content] == ["fact"]


# -- erasure and files ---------------------------------------------------------------------------------------


def test_what_is_forgotten_is_on_no_page_in_no_file_and_in_no_cursor(
    memory: Memory, tmp_path: Path, now: MovableClock
) -> None:
    ids = fill(memory)
    secret = memory.save("The hidden treasure lies below the old lighthouse").record
    memory.page()
    memory.flush()
    assert "lighthouse" in (tmp_path / "memory" / MEMORY).read_text()
    memory.admin.forget(secret.id)
    memory.flush()
    assert ids["Kenji likes hiking"] in (tmp_path / "memory" / MEMORY).read_text()
    assert "lighthouse" not in memory.page()
    memory.close()
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file for file in files if b"lighthouse" in file.read_bytes()]


# -- when nobody is talking ----------------------------------------------------------------------------------


def test_an_idle_worker_composes_pages_and_tells_each_conversation_once(
    memory: Memory, now: MovableClock
) -> None:
    fill(memory)
    chat = memory.session("chat:1")
    chat.add("user", "Book the ferry to Bergen")
    chat.add("assistant", "Booked for Friday at nine.")
    memory.scoped("user:alice").session("chat").add("user", "A private question")
    memory.dreams.run_due()
    assert not memory.pages.paragraphs()
    now.move(hours=2)
    for _ in range(2):
        memory.dreams.run_due()
        (told,) = memory.pages.paragraphs()
        assert told.content == "[2025-06-02 09:00] Book the ferry to Bergen → Booked for Friday at nine."
    assert "Kenji likes hiking" in memory.pages.read()
    chat.add("user", "Cancel it")
    chat.terminate()
    memory.dreams.run_due()
    assert [each.text for each in memory.pages.paragraphs()][1:] == ["Cancel it"]


def test_a_rebuilt_memory_and_an_import_have_no_composed_line_beside_its_record(
    memory: Memory, tmp_path: Path, now: MovableClock
) -> None:
    fill(memory)
    memory.pages.write(MEMORY, "mine\n")
    memory.page()
    memory.close()
    (tmp_path / "reverie.db").unlink()
    rebuild(tmp_path, analyse=analyze)
    with Memory.open(tmp_path, clock=now) as again:
        assert len(again.list()) == 6
        assert [page.content for page in again._store.pages()] == ["mine\n"]
        page = again.page()
        assert again.pages.read() == f"mine\n\n{page}\n"
        again.flush()
    with Memory.open(":memory:", clock=now) as other:
        other.admin.import_from(tmp_path / "memory" / MEMORY, origin="owner")
        assert other.pages.read() == "mine\n"
