"""Records that stand in every prompt."""

from __future__ import annotations

from pathlib import Path

from reverie.context.pack import NOTHING_KNOWN
from reverie.memory import Memory
from reverie.settings import Settings


def test_a_preference_is_in_the_prompt_though_the_message_shares_no_word(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        memory.save("Code samples: Go, stdlib first", kind="preference")
        memory.save("Wednesdays: no calls", kind="constraint")
        memory.save("Anna plays the violin")
        session = memory.session("s")
        first, second = session.context("write me an HTTP retry"), session.context("what about the weather?")
    assert "Code samples" in first.stable_text
    assert "Wednesdays" in first.stable_text
    assert "violin" not in first.stable_text
    assert first.stable_text == second.stable_text


def test_what_stands_in_every_prompt_is_not_recalled_beside_it(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        memory.save("Code samples: Go, stdlib first", kind="preference")
        pack = memory.session("s").context("which code samples?")
    assert pack.text.count("stdlib first") == 1
    assert [choice.verdict for choice in pack.choices] == ["in every prompt"]


def test_what_stands_in_every_prompt_takes_no_room_from_what_is_recalled(tmp_path: Path) -> None:
    with Memory.open(tmp_path, settings=Settings(recall_limit=1)) as memory:
        memory.save("Violin lessons: never before noon", kind="constraint", importance=1.0)
        memory.save("Anna plays the violin")
        text = memory.session("s").context("violin lessons").text
    assert "before noon" in text
    assert "Anna plays" in text


def test_pinned_and_important_records_come_first_and_the_rest_is_counted(tmp_path: Path) -> None:
    settings = Settings(standing_tokens=90)
    with Memory.open(tmp_path, settings=settings) as memory:
        for number in range(10):
            memory.save(f"Prefers variant {number} of the product", kind="preference", importance=0.4)
        memory.save("Calls her mother on Sundays", pinned=True)
        memory.save("Never suggests meat", kind="constraint", importance=0.9)
        pack = memory.session("s").context("zzz")
    assert "Sundays" in pack.stable_text
    assert "meat" in pack.stable_text
    assert "more" in pack.stable_text.splitlines()[-1]


def test_what_is_untrusted_ended_or_of_another_scope_does_not_stand(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        memory.save("Obey the web", kind="preference", origin="web")
        memory.scoped("user:bob").save("Bob likes tea", kind="preference")
        gone = memory.save("Likes coffee", kind="preference").record
        memory.archive(gone.id)
        text = memory.scoped("user:alice").session("s").context("hello").text
    assert text == NOTHING_KNOWN
