"""What an agent was shown and saves again is what was there, though nothing showed it of what kind it is."""

from __future__ import annotations

import pytest

from reverie import Memory
from reverie.context.render import render_hit


@pytest.mark.parametrize("kind", ["decision", "lesson", "preference", "event", "failure"])
def test_a_save_without_a_kind_reinforces_the_same_text_of_any_kind(memory: Memory, kind: str) -> None:
    first = memory.save("We deploy with Ansible on Tuesdays", kind=kind, category="ops").record  # type: ignore[arg-type]
    for again in ("We deploy with Ansible on Tuesdays", "we deploy with Ansible on Tuesdays."):
        saved = memory.save(again, origin="agent")
        assert (saved.outcome, saved.record.id, saved.record.kind) == ("reinforced", first.id, kind)
    assert memory.save_many([{"content": first.content}])[0].record.id == first.id
    assert memory.admin.stats().records == 1


def test_another_scope_or_number_is_not_the_same_text(memory: Memory) -> None:
    first = memory.save("Port 5432 is the database", kind="finding", category="ops").record
    assert memory.save("Port 5433 is the database").record.id != first.id
    assert memory.save("Port 5432 is the database", category="home").record.id == first.id
    assert memory.scoped("user:a").save("Port 5432 is the database").record.id != first.id


def test_three_times_in_one_batch_is_once(memory: Memory) -> None:
    saved = memory.save_many(
        [
            {"content": "Port 5432 is the database"},
            {"content": "Port 5432 is the database", "kind": "lesson"},
            {"content": "port 5432 is the database."},
        ]
    )
    assert len({each.record.id for each in saved}) == 1
    assert (saved[2].record.kind, saved[2].record.seen_count) == ("lesson", 3)
    assert memory.admin.stats().records == 1


def test_a_line_of_a_prompt_that_is_saved_repeats_its_record_and_a_turn_keeps_its_speaker(
    memory: Memory,
) -> None:
    first = memory.save("Port 5432 is the database", category="ops").record
    [hit] = memory.search("database port")
    assert memory.save(render_hit(hit)).record.id == first.id
    assert memory.save(f"- [{first.id}]: Port 5432 is the database").record.id == first.id
    turn = f"- [{first.id}] (cli:1, 2025-01-15 10:31, user): Port 5432 is the database"
    assert memory.save(turn).record.content == turn
