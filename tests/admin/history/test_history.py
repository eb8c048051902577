"""The journal as a tool: what was changed, where it comes from, what is different, undo, and the past."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reverie import Conflict, InvalidInput, Memory, NotFound, Record
from reverie.domain.change import Change
from tests.factories import MovableClock, make_record

PORT = "The staging database listens on port 5433"


def last(memory: Memory) -> int:
    return memory._store.sequence()


def forget(memory: Memory, record: Record, after: Record | None = None) -> None:
    """What `Memory.forget` does to the store: a record goes, or stays as `after`, and its past is erased."""
    rows = memory._store.erase([Change(before=record, after=after)], actor="owner", at=memory._clock())
    memory._parts.writer.publish(rows)


# -- history ---------------------------------------------------------------------------------------------


def test_history_can_be_cut_from_every_side(memory: Memory, clock: MovableClock) -> None:
    begin = clock.now
    for n in range(5):
        clock.move(hours=1)
        memory.save(f"Thing number {n} is blue")
    journal = memory.history
    assert [row.sequence for row in journal.log()] == [1, 2, 3, 4, 5]
    assert [row.sequence for row in journal.log(limit=2)] == [1, 2]
    assert [row.sequence for row in journal.log(limit=2, newest_first=True)] == [5, 4]
    assert [row.sequence for row in journal.log(after=3)] == [4, 5]
    third = begin + timedelta(hours=3)
    assert [row.sequence for row in journal.log(since=third)] == [3, 4, 5]
    assert [row.sequence for row in journal.log(until=third)] == [1, 2, 3]
    assert [row.sequence for row in journal.log(since=third, until=third)] == [3]
    assert [row.sequence for row in journal.log(since=2, until=4, newest_first=True)] == [4, 3, 2]
    assert journal.log(since=clock.now + timedelta(seconds=1)) == []
    assert memory.history.log(after=1, limit=2) == journal.log(after=1, limit=2)


def test_the_number_of_no_change_is_not_found(memory: Memory) -> None:
    memory.save(PORT)
    for ask in (
        lambda: memory.history.log(since=2),
        lambda: memory.history.log(until=2),
        lambda: memory.history.changes(since=7),
        lambda: memory.as_of(2),
        lambda: memory.history.undo(2),
        lambda: memory.history.undo(batch=2),
        lambda: memory.history.undo(since=2),
    ):
        with pytest.raises(NotFound, match="the last one is 1"):
            ask()


# -- differences -----------------------------------------------------------------------------------------


def test_a_difference_names_the_fields_that_differ(memory: Memory, clock: MovableClock) -> None:
    record = memory.save(PORT, tags=["db", "old"], metadata={"owner": "ana"}).record
    clock.move(hours=1)
    memory.update(record.id, tags=["db", "new"], importance=0.8, metadata={"owner": "bo", "room": "3"})
    found = memory.history.diff(record.id)
    assert {field.name: (field.before, field.after) for field in found.fields} == {
        "tags": (["db", "old"], ["db", "new"]),
        "importance": (0.5, 0.8),
        "updated_at": ("2025-06-02T09:00:00Z", "2025-06-02T10:00:00Z"),
        "metadata.owner": ("ana", "bo"),
        "metadata.room": (None, "3"),
    }
    assert found.what == "changed"
    assert found.text.splitlines()[1:] == [
        "  updated_at: 2025-06-02T09:00:00Z -> 2025-06-02T10:00:00Z",
        "  tags: +new -old",
        "  importance: 0.5 -> 0.8",
        "  metadata.owner: ana -> bo",
        "  metadata.room: none -> 3",
    ]


def test_versions_of_a_thing_are_compared_by_number_and_by_time(memory: Memory, clock: MovableClock) -> None:
    record = memory.save(PORT).record
    moments = [clock.now]
    for port in ("5434", "5435"):
        clock.move(hours=1)
        memory.update(record.id, content=PORT.replace("5433", port))
        moments.append(clock.now)
    journal = memory.history

    def contents(*versions: Any) -> tuple[Any, Any]:
        found = journal.diff(record.id, *versions)
        return getattr(found.before, "content", None), getattr(found.after, "content", None)

    first, second, third = (PORT.replace("5433", port) for port in ("5433", "5434", "5435"))
    assert contents() == (second, third)
    assert contents(1) == contents(1, 3) == contents(moments[0]) == (first, third)
    assert contents(1, 2) == contents(moments[0], moments[1]) == (first, second)
    assert contents(3, 1) == (third, first)
    assert contents(None, 2) == (first, second)
    assert contents(0) == (None, third)
    assert journal.diff(record.id, 1, 1).what == "unchanged"
    assert journal.diff(record.id, 0, 0).what == "unchanged"
    with pytest.raises(NotFound, match="was ever there"):
        journal.diff("0" * 12)


def test_what_is_different_between_two_moments(memory: Memory, clock: MovableClock) -> None:
    changed = memory.save("Deploys happen on Friday").record
    gone = memory.save("Bread is baked at five").record
    begin = last(memory)
    clock.move(hours=1)
    moment = clock.now
    memory.update(changed.id, content="Deploys happen on Monday")
    memory.update(changed.id, importance=0.9)
    added = memory.save("Ana paints boats").record
    memory.update(gone.id, pinned=True)
    memory.update(gone.id, pinned=False)
    back = last(memory)
    memory.archive(gone.id)
    memory.admin.purge(older_than=0)
    memory.pages.write("MEMORY.md", "one\ntwo\n")
    found = memory.history.changes(since=moment)
    assert [(one.id, one.what) for one in found] == [
        (changed.id, "changed"), (added.id, "added"), (gone.id, "removed"), ("MEMORY.md", "added"),
    ]  # fmt: skip
    assert {field.name for field in found[0].fields} == {"content", "importance", "updated_at"}
    assert memory.history.changes(since=begin + 1) == found
    until = memory.history.changes(since=moment, until=back)
    assert [one.id for one in until] == [changed.id, added.id], "pinned and unpinned is no difference"
    assert memory.history.changes(since=clock.now + timedelta(hours=1)) == []


def test_a_difference_reads_field_by_field_and_long_texts_line_by_line(
    memory: Memory, clock: MovableClock
) -> None:
    lines = [f"line {n}" for n in range(1, 12)]
    memory.pages.write("MEMORY.md", "\n".join(lines) + "\n")
    clock.move(minutes=1)
    memory.pages.write("MEMORY.md", "\n".join([*lines[:5], "LINE 6", *lines[6:]]) + "\n")
    assert (
        memory.history.diff("MEMORY.md").text
        == """\
page MEMORY.md changed
  content:
    …
      line 4
      line 5
    - line 6
    + LINE 6
      line 7
      line 8
    …
  updated_at: 2025-06-02T09:00:00Z -> 2025-06-02T09:01:00Z"""
    )
    record = memory.save(
        "A long first sentence stays as it is here. The port is 5433. And so on it goes."
    ).record
    memory.update(record.id, content=record.content.replace("5433", "5434"), tags=["deploy"])
    assert (
        memory.history.diff(record.id).text
        == f"""\
record {record.id} changed
  content:
    - A long first sentence stays as it is here. The port is 5433. And so on it goes.
    + A long first sentence stays as it is here. The port is 5434. And so on it goes.
  tags: +deploy"""
    )


# -- blame -----------------------------------------------------------------------------------------------


def test_blame_tells_who_made_a_record_and_from_which_turns(memory: Memory) -> None:
    chat = memory.session("telegram:12345")
    asked = chat.add("user", "We deploy on Fridays, remember?")
    told = chat.add("assistant", "Noted.")
    record = memory.save(
        "Deploys happen on Friday",
        source="session:telegram:12345",
        references=["https://example.org", asked.id, "session:telegram:12345#1"],
    ).record
    found = memory.history.blame(record.id)
    assert found.created is not None
    assert (found.created.actor, found.created.reason) == ("owner", "save")
    assert found.created.at == memory.history.log(record.id)[0].at
    assert found.turns == (asked, told)
    assert found.sessions == ("telegram:12345",)
    assert found.there
    assert asked.id in found.text
    assert "We deploy on Fridays" in found.text


def merge(memory: Memory, merged: Record, *sources: Record) -> None:
    """One transaction that adds a record and archives those that it was made of."""
    now = memory._clock()
    edits = [Change(before=None, after=merged)]
    edits += [
        Change(before=one, after=replace(one, archived_at=now, archive_reason="merged")) for one in sources
    ]
    memory._parts.writer.publish(memory._store.commit(edits, actor="dream", operation="dream", at=now))


def test_blame_tells_what_a_record_was_merged_from(memory: Memory) -> None:
    boats = memory.save("Ana paints boats in Kiel").record
    winter = memory.save("Every winter Ana repaints the hull").record
    other = memory.save("Bread is baked at five in the morning").record
    named = replace(
        boats,
        id="a" * 12,
        content="Ana paints boats in Kiel and repaints the hull every winter",
        metadata={"merged_from": f"{boats.id} {winter.id}"},
    )
    merge(memory, named, boats, winter, other)
    found = memory.history.blame(named.id)
    assert found.created is not None
    assert found.created.actor == "dream"
    assert [record.id for record in found.merged] == [boats.id, winter.id]
    assert f"merged from {boats.id}: Ana paints boats in Kiel" in found.text


def test_blame_of_a_page_is_line_by_line(tmp_path: Path, clock: MovableClock) -> None:
    for actor, text in (
        ("owner", "# Notes\nAna likes tea\nBo likes tea\n"),
        ("dream", "# Notes\nAna likes tea\nBo likes coffee\nCy likes milk\n"),
        ("owner", "# Notes\nCy likes milk\nAna likes tea\n"),
    ):
        with Memory.open(tmp_path, actor=actor, clock=clock) as memory:
            memory.pages.write("MEMORY.md", text)
        clock.move(hours=1)
    with Memory.open(tmp_path) as memory:
        found = memory.history.blame("MEMORY.md")
    by = [
        (line.number, line.text, line.change and (line.change.sequence, line.change.actor))
        for line in found.lines
    ]
    assert by == [
        (1, "# Notes", (1, "owner")),
        (2, "Cy likes milk", (3, "owner")),
        (3, "Ana likes tea", (1, "owner")),
    ]


def test_blame_of_a_log_is_paragraph_by_paragraph(memory: Memory) -> None:
    memory.pages.append("HISTORY.md", "It rained.")
    memory.save(PORT)
    memory.pages.append("HISTORY.md", "It snowed.")
    found = memory.history.blame("HISTORY.md")
    assert [(line.change and line.change.sequence) for line in found.lines] == [1, 3]
    assert [line.text.endswith(("rained.", "snowed.")) for line in found.lines] == [True, True]
    with pytest.raises(NotFound):
        memory.history.blame("2025-01-01.md")


def test_blame_of_what_was_forgotten_says_so_and_no_more(memory: Memory) -> None:
    record = memory.save(PORT).record
    forget(memory, record, after=replace(record, content="It listens somewhere"))
    memory.update(record.id, importance=0.9)
    found = memory.history.blame(record.id)
    assert found.created is None
    assert "5433" not in found.text
    assert "5433" not in str(found.to_dict())
    with pytest.raises(InvalidInput, match="forgotten for good"):
        memory.history.diff(record.id, 1)
    assert memory.history.diff(record.id, 2).fields[0].after == 0.9


# -- how often it was recalled ---------------------------------------------------------------------------


def test_what_a_prompt_shows_is_counted_with_the_next_turn(memory: Memory, clock: MovableClock) -> None:
    record = memory.save(PORT).record
    memory.save("Bread is baked at five")
    chat = memory.session("cli:1")

    def recalled() -> tuple[int | None, datetime | None]:
        found = memory.history.blame(record.id)
        return found.recalled, found.recalled_at

    chat.add("user", "Which port does the staging database use?")
    before = last(memory)
    for _ in range(3):
        assert record.id in [hit.id for hit in chat.context().hits]
    assert recalled() == (0, None), "asking writes nothing"
    assert last(memory) == before
    clock.move(minutes=1)
    chat.add("assistant", "Port 5433.")
    assert recalled() == (1, clock.now), "one turn's prompt, however often it was asked for"
    chat.context(record_shown=False)
    chat.add("user", "And the port of the staging database?")
    assert recalled()[0] == 1, "it is in the replayed turns still"
    chat.reset()
    clock.move(minutes=1)
    chat.add("user", "The port of the staging database?")
    chat.context()
    chat.flush()
    assert recalled() == (2, clock.now)
    chat.flush()
    chat.add("assistant", "5433.")
    assert recalled()[0] == 2


# -- undo ------------------------------------------------------------------------------------------------


def test_the_last_change_of_a_thing_is_undone_to_the_byte(memory: Memory, clock: MovableClock) -> None:
    record = memory.save(PORT).record
    clock.move(hours=1)
    memory.update(record.id, content="It moved", tags=["x"])
    undone = memory.history.undo(2)
    assert memory.get(record.id) == record
    assert (undone.changes, undone.left, undone.dry_run) == ((2,), (), False)
    (row,) = undone.rows
    assert (row.sequence, row.operation, row.reference, row.actor) == (3, "undo", "2", "owner")
    assert memory.search("staging database port")[0].record == record, "the index followed"
    memory.history.undo(undone.rows)
    assert memory.get(record.id).content == "It moved"  # type: ignore[union-attr]


def test_an_earlier_change_takes_back_only_what_it_did(memory: Memory, clock: MovableClock) -> None:
    record = memory.save(PORT, tags=["db"], metadata={"owner": "ana"}).record
    memory.update(record.id, importance=0.9, tags=["db", "hot"], metadata={"owner": "ana", "room": "3"})
    clock.move(hours=1)
    memory.update(record.id, content="The staging database moved", tags=["db", "hot", "new"])
    memory.save("The staging database moved")
    memory.history.undo(2)
    now = memory.get(record.id)
    assert now is not None
    assert (now.content, now.importance) == ("The staging database moved", 0.5)
    assert (now.tags, dict(now.metadata)) == (("db", "new"), {"owner": "ana"})
    assert now.seen_count == 2
    assert now.updated_at == clock.now


def test_what_later_changes_rest_on_is_not_undone_and_they_are_named(memory: Memory) -> None:
    record = memory.save(PORT).record
    memory.update(record.id, importance=0.9)
    memory.update(record.id, importance=0.1)
    memory.update(record.id, pinned=True)
    with pytest.raises(Conflict, match=r"change 2 cannot be undone alone.*\(importance\) by changes 3, 4"):
        memory.history.undo(2)
    with pytest.raises(Conflict, match="was changed by changes 2 to 4"):
        memory.history.undo(1)
    memory.history.undo([2, 3])
    assert memory.get(record.id) == replace(record, pinned=True)
    assert memory.history.undo(2).rows == (), "it is as it was before already"


def test_a_page_loses_the_lines_of_one_change_and_keeps_those_of_others(memory: Memory) -> None:
    lines = [f"line {n}" for n in range(1, 8)]

    def write(*texts: str) -> None:
        memory.pages.write("MEMORY.md", "\n".join(texts) + "\n")

    write(*lines)
    write(*lines[:3], "brought by two", *lines[3:])
    write("LINE 1", *lines[1:3], "brought by two", *lines[3:], "the end")
    memory.history.undo(2)
    assert memory.pages.read().splitlines() == ["LINE 1", *lines[1:], "the end"]
    with pytest.raises(Conflict, match="was changed by changes 2 to 4"):
        memory.history.undo(1)
    write("ONE", *lines[1:], "the end")
    with pytest.raises(Conflict, match="in the same lines by changes 4, 5"):
        memory.history.undo(3)


def test_a_transaction_is_undone_as_a_whole_or_not_at_all(memory: Memory) -> None:
    boats, hull = (memory.save(text).record for text in ("Ana paints boats", "The hull is repainted in May"))
    merge(memory, replace(boats, id="a" * 12, content="Ana paints boats and the hull in May"), boats, hull)
    undone = memory.history.undo(batch=4)
    assert undone.changes == (5, 4, 3)
    assert {record.id for record in memory.list()} == {boats.id, hull.id}
    assert memory.get("a" * 12) is None
    memory.history.undo(batch=undone.rows[0].sequence)
    memory.update("a" * 12, pinned=True)
    with pytest.raises(Conflict, match=r"change 9 cannot be undone alone: .* was changed by change 12"):
        memory.history.undo(batch=undone.rows[0].sequence + 3)
    assert {record.id for record in memory.list()} == {"a" * 12}


def test_turns_in_the_middle_do_not_go_alone(memory: Memory) -> None:
    chat = memory.session("cli:1")
    turns = [chat.add("user", f"message {n}") for n in range(3)]
    numbers = {row.edit.id: row.sequence for row in memory.history.log() if row.edit is not None}
    with pytest.raises(Conflict, match="later turns but none at position 1"):
        memory.history.undo(numbers[turns[1].id])
    with pytest.raises(Conflict, match="has turns"):
        memory.history.undo(numbers["cli:1"])
    memory.history.undo([numbers[turns[1].id], numbers[turns[2].id]])
    assert memory.turns("cli:1") == turns[:1]
    assert chat.turns() == turns[:1]
    chat.add("user", "another")
    assert [turn.position for turn in memory.turns("cli:1")] == [0, 1]
    memory.delete_session("cli:1")
    removed = memory.history.log(turns[0].id)[-1].sequence
    with pytest.raises(Conflict, match="no session"):
        memory.history.undo(removed)


def test_two_live_records_never_say_the_same(memory: Memory) -> None:
    old = memory.save(PORT).record
    memory.archive(old.id)
    new = memory.save(PORT).record
    assert new.id != old.id
    with pytest.raises(Conflict, match=f"live record '{new.id}'"):
        memory.history.undo(2)
    memory.history.undo([2, 3])
    assert memory.list() == [old]


def test_what_was_forgotten_cannot_be_undone(memory: Memory, clock: MovableClock) -> None:
    kept = memory.save("Likes tea").record
    clock.move(hours=1)
    moment = clock.now
    gone, left = memory.save(PORT).record, memory.save("Deploys happen on Friday").record
    memory.update(kept.id, importance=0.9)
    forget(memory, gone)
    forget(memory, left, after=replace(left, content="Deploys happen"))
    memory.update(left.id, importance=0.1)
    for number in (2, 3, 5, 6):
        with pytest.raises(InvalidInput, match=f"change {number} cannot be undone.*forgotten for good"):
            memory.history.undo(number)
    undone = memory.history.undo(since=moment)
    assert undone.changes == (7, 4)
    assert undone.left == (2, 3, 5, 6)
    assert memory.list() == [kept, replace(left, content="Deploys happen")] or memory.list() == [
        replace(left, content="Deploys happen"), kept,
    ]  # fmt: skip
    assert "5433" not in undone.text
    assert "forgotten" in undone.text


def test_undo_beside_others_who_save(tmp_path: Path) -> None:
    """Nothing of theirs is lost, and everything that was to be undone is."""
    with Memory.open(tmp_path) as memory, Memory.open(tmp_path, actor="agent") as agent:
        records = [memory.save(f"Shelf {n} holds the letters of year {1900 + n}").record for n in range(12)]
        stop = threading.Event()
        saved: list[Record] = []

        def save() -> None:
            while not stop.is_set():
                saved.append(agent.save(f"Box {len(saved)} holds {len(saved) * 17} stamps").record)

        thread = threading.Thread(target=save)
        thread.start()
        try:
            for record in records:
                memory.update(record.id, importance=0.9)
                memory.history.undo(memory.history.log(record.id)[-1])
        finally:
            stop.set()
            thread.join()
        assert [memory.get(record.id) for record in records] == records
        assert [memory.get(record.id) for record in saved] == saved
        assert memory.admin.check() == []


# -- the past --------------------------------------------------------------------------------------------


def test_the_past_refuses_every_change(memory: Memory, clock: MovableClock) -> None:
    memory.save(PORT)
    chat = memory.session("cli:1")
    chat.add("user", "hello")
    with memory.as_of(clock.now) as past:
        then = past.session("cli:1")
        for change in (
            lambda: then.add("user", "no"),
            then.pause,
            lambda: then.working.set("a", "b"),
            lambda: past.session("cli:2").add("user", "no"),
            lambda: past.pages.write("MEMORY.md", "no\n"),
            lambda: past.pages.append("HISTORY.md", "no"),
        ):
            with pytest.raises(InvalidInput, match="as it was at 2025-06-02T09:00:00Z cannot be changed"):
                change()
        assert not hasattr(past, "save")
        assert [turn.content for turn in then.turns()] == ["hello"]
        assert then.context("which port?").text == chat.context("which port?").text
    assert last(memory) == 3


def test_the_past_has_its_own_journal_and_counts_no_recalls(memory: Memory, clock: MovableClock) -> None:
    record = memory.save(PORT).record
    moment = clock.now
    clock.move(hours=1)
    memory.update(record.id, content="It moved")
    with memory.as_of(moment) as past:
        assert [row.sequence for row in past.history.log()] == [1]
        assert past.history.log(until=2) == past.history.log()
        assert past.history.blame(record.id).recalled is None
        assert past.history.diff(record.id).what == "added"
        assert past.total_stats().journal == past.sequence == 1
        assert past.at == moment


def test_the_past_is_searched_when_its_last_change_created_nothing(
    memory: Memory, clock: MovableClock
) -> None:
    memory.save(PORT)
    memory.archive(memory.save("The port of Oslo is busy").record.id)
    with memory.as_of(clock.now) as past:
        assert [hit.content for hit in past.search("port")] == [PORT]


def test_after_a_clock_was_set_back_times_and_their_filters_agree(
    memory: Memory, clock: MovableClock
) -> None:
    """A filter by time returns exactly the changes that are shown with such a time."""
    for days, text in (
        (0, "Ana paints boats"),
        (5, "Bread is baked at five"),
        (-4, "Deploys happen on Friday"),
    ):
        clock.move(days=days)
        memory.save(text)
    clock.move(days=2)
    memory.save("Eggs are boiled for six minutes")
    rows = memory.history.log()
    for moment in (row.at + timedelta(hours=hours) for row in rows for hours in (-1, 0, 1)):
        for newest_first in (False, True):
            step = -1 if newest_first else 1
            since = [row for row in rows if row.at >= moment][::step]
            assert memory.history.log(since=moment, newest_first=newest_first) == since
            assert memory.history.log(since=moment, newest_first=newest_first, actor="owner") == since
            until = [row for row in rows if row.at <= moment][::step]
            assert memory.history.log(until=moment, newest_first=newest_first) == until
    (added,) = memory.history.changes(since=rows[3].at, until=rows[3].at)[-1:]
    assert added.id == rows[3].edit.id  # type: ignore[union-attr]
    undone = memory.history.undo(since=rows[3].at, dry_run=True)
    assert set(undone.changes) == {2, 3, 4}, "all from the first change made since then"


def test_what_was_forgotten_is_not_in_the_past_either(memory: Memory, clock: MovableClock) -> None:
    gone, left = memory.save(PORT).record, memory.save("The staging database is Ana's").record
    chat = memory.session("cli:1")
    chat.add("user", "hello")
    moment = clock.now
    clock.move(hours=1)
    forget(memory, gone)
    forget(memory, left, after=replace(left, content="The staging database is somebody's"))
    state = chat.state
    rows = memory._store.erase([Change(before=state, after=state)], actor="owner", at=clock.now)
    memory._parts.writer.publish(rows)
    with memory.as_of(moment) as past:
        assert past.get(gone.id) is None
        assert [hit.content for hit in past.search("staging database")] == [
            "The staging database is somebody's"
        ], "what forgetting left stands in its place"
        assert [turn.content for turn in past.turns("cli:1")] == ["hello"]
        assert len(past.search("hello", sources="turns")) == 1


def test_a_transaction_is_never_split(memory: Memory, clock: MovableClock) -> None:
    memory.save("Likes tea")
    saved = memory.save_many(
        [{"content": f"Shelf {n} holds the letters of year {1800 + n}"} for n in range(100)]
    )
    assert len({row.batch for row in memory.history.log(after=1, limit=200)}) == 1
    for when in (2, 50, 101):
        with memory.as_of(when) as past:
            assert past.sequence == 101
    assert len(memory.history.log(since=60, until=60, limit=200)) == 100
    undone = memory.history.undo(batch=60)
    assert undone.changes == tuple(range(101, 1, -1))
    assert len(memory.list(limit=None)) == 1
    assert [row.summary for row in undone.rows] == ["undo of 2 to 101"] * 100
    memory.history.undo(since=undone.rows[50].sequence)
    assert [memory.get(one.record.id) for one in saved] == [one.record for one in saved]


def test_with_what_ended_another_record_its_end_is_undone_too() -> None:
    with Memory.open(":memory:") as memory:
        old = memory.save("The office is in Porto").record
        new = make_record(99, content="The office moved from Porto to Braga", replaces=(old.id,))
        ended = replace(old, valid_to=old.created_at, replaced_by=new.id)
        memory._parts.writer.commit([Change(before=None, after=new), Change(before=old, after=ended)])
        assert memory.history.undo(2, dry_run=True).changes == (3, 2)
        undone = memory.history.undo(2)
        assert memory.get(new.id) is None
        (now,) = memory.list()
        assert (now.id, now.valid_to, dict(now.metadata)) == (old.id, None, {})
        memory.history.undo(undone.rows)
        assert memory.get(new.id) == new
        again = memory.get(old.id)
        assert again is not None
        assert again.replaced_by == new.id
