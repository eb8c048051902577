"""What an agent was shown and saves again is what was there, though nothing showed it of what kind it is."""

from __future__ import annotations

import pytest

from reverie import Memory
from reverie.context.render import render_record


@pytest.mark.parametrize("kind", ["decision", "lesson", "preference", "event", "failure"])
def test_a_save_without_a_kind_reinforces_what_says_the_same_in_any(memory: Memory, kind: str) -> None:
    first = memory.save("We deploy with Ansible on Tuesdays", kind=kind, category="ops").record  # type: ignore[arg-type]
    for again in (
        "We deploy with Ansible on Tuesdays",
        "we deploy with Ansible on Tuesdays.",
        render_record(first),
    ):
        saved = memory.save(again, origin="agent")
        assert (saved.outcome, saved.record.id, saved.record.kind) == ("reinforced", first.id, kind)
    assert memory.save_many([{"content": first.content}])[0].record.id == first.id
    assert memory.admin.stats().records == 1


def test_a_save_of_a_stated_kind_stands_beside_one_of_another(memory: Memory) -> None:
    first = memory.save("We deploy with Ansible on Tuesdays", kind="decision").record
    assert memory.save("We deploy with Ansible on Tuesdays", kind="lesson").record.id != first.id


def test_another_category_scope_or_number_is_not_the_same(memory: Memory) -> None:
    first = memory.save("Port 5432 is the database", kind="finding", category="ops").record
    for text, more in (
        ("Port 5433 is the database", {}),
        ("Port 5432 is the database", {"category": "home"}),
    ):
        assert memory.save(text, **more).record.id != first.id  # type: ignore[arg-type]
    alice = memory.scoped("user:a")
    assert alice.save("Port 5432 is the database", kind="finding", category="ops").record.id != first.id


def test_twice_in_one_batch_is_once(memory: Memory) -> None:
    one, two, three = memory.save_many(
        [
            {"content": "Port 5432 is the database", "kind": "finding"},
            {"content": "Port 5432 is the database", "kind": "lesson"},
            {"content": "Port 5432 is the database."},
        ]
    )
    assert one.record.id != two.record.id
    assert three.record.id in {one.record.id, two.record.id}
    assert memory.admin.stats().records == 2
