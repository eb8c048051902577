"""Several records changed at once, and two that contradict each other: methods of every scope."""

from __future__ import annotations

import pytest

from reverie import Conflict, InvalidInput, Memory, NotFound


def test_vouching_labelling_and_archiving_are_one_change_each() -> None:
    with Memory.open(":memory:") as memory:
        alice = memory.scoped("user:alice")
        ids = [alice.save(text, origin="web").record.id for text in ("Lives in Lisbon", "Plays the harp")]
        assert {each.origin for each in alice.vouch(ids)} == {"owner"}
        assert {each.tags for each in alice.label(ids, ["city"])} == {("city",)}
        assert all(each.archived for each in alice.archive_many(ids, reason="moved"))
        memory.history.undo(batch=memory.history.sequence())
        assert len(alice.list()) == 2
        with pytest.raises(NotFound):
            alice.vouch([ids[0], "0" * 12])
        with pytest.raises(InvalidInput, match="tags"):
            alice.label(ids, [])
        with pytest.raises(NotFound):
            memory.scoped("user:bob").vouch(ids)


def test_two_records_are_settled_unless_one_has_changed() -> None:
    with Memory.open(":memory:") as memory:
        old, new = (memory.save(text).record for text in ("The gym opens at six", "The pool opens at nine"))
        memory.update(old.id, tags=["sport"])
        with pytest.raises(Conflict):
            memory.settle(new.id, old.id, "wrong", expected=(new, old))
        kept, ended = memory.settle(new.id, old.id, "ended")
        assert ended.valid_to is not None
        assert (kept.id, ended.id) == (new.id, old.id)
        with pytest.raises(InvalidInput, match="same record"):
            memory.settle(new.id, new.id, "both")
