"""What becomes of older records when newer ones replace them: ended, marked, or left alone."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reverie.domain.record import Record
from reverie.memory import Memory
from reverie.settings import Settings

OLD, NEW = "The rent is 900 euros a month", "The rent went up to 960 euros a month"


class Clock:
    """A clock that is a day later each time a record is saved."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(clock: Clock) -> Iterator[Memory]:
    with Memory.open(":memory:", clock=clock) as opened:
        yield opened


def say(memory: Memory, clock: Clock, *texts: str, **fields: object) -> list[str]:
    saved = []
    for text in texts:
        clock.now += timedelta(days=1)
        saved.append(memory.save(text, **fields).record.id)  # type: ignore[arg-type]
    return saved


def get(memory: Memory, name: str) -> Record:
    record = memory.get(name)
    assert record is not None
    return record


def is_untouched(record: Record) -> bool:
    return not (record.replaced_by or record.perhaps_replaced_by or record.valid_to)


def test_what_was_replaced_is_said_to_be_replaced_at_the_next_search(memory: Memory, clock: Clock) -> None:
    old, new = say(memory, clock, OLD, NEW)
    first = memory.search("How much is the rent?")[0]
    assert first.id == new
    ended = get(memory, old)
    assert ended.replaced_by == new
    assert ended.valid_to == get(memory, new).created_at
    entry = list(memory.history.log())[-1]
    assert (entry.actor, entry.operation) == ("rules", "settle")


def test_the_prompt_after_a_change_has_the_present_value_only_or_marks_the_other(
    memory: Memory, clock: Clock
) -> None:
    old, new = say(memory, clock, OLD, NEW)
    text = memory.session("s").context("How much is the rent?").text
    assert NEW in text
    assert OLD not in text or f"perhaps outdated, see [{new}]" in text
    assert get(memory, old).replaced_by == new


def test_traps_are_marked_at_most(memory: Memory, clock: Clock) -> None:
    traps = (
        ("Ben drives the van", "Until her arm has healed, Ana drives the van"),
        ("The shop is open on Sundays", "The shop might be open on Mondays too"),
        ("Petra leads the data team", "Yusuf leads the design team now"),
        ("Shares an office with Ada and Bo", "Bo has a cold today"),
        ("Tom lives in Leeds", "If he gets the job, Tom would move to York"),
        ("Is allergic to nuts", "Is allergic to kiwi as well"),
    )
    for old, new in traps:
        name, _ = say(memory, clock, old, new)
        memory.dreams.judge_pending()
        assert get(memory, name).replaced_by == "", (old, new)
        assert get(memory, name).valid_to is None


def test_a_mark_is_shown_with_the_later_record_and_goes_with_it(memory: Memory, clock: Clock) -> None:
    old, new = say(memory, clock, "My sister lives in Porto", "My sister moved to Braga in May")
    memory.dreams.judge_pending()
    assert get(memory, old).perhaps_replaced_by == new
    question = "In which town does my sister live?"
    mark = f"perhaps outdated, see [{new}]"
    assert mark in memory.session("s").context(question).text
    assert mark in memory.tools().call("search_memory", {"query": question}).text
    memory.archive(new)
    memory.dreams.judge_pending()
    assert get(memory, old).perhaps_replaced_by == ""


def test_the_owner_takes_an_ending_back_and_it_stays_so(memory: Memory, clock: Clock) -> None:
    old, new = say(memory, clock, OLD, NEW)
    memory.dreams.judge_pending()
    entry = list(memory.history.log())[-1]
    memory.history.undo(entry)
    assert is_untouched(get(memory, old))
    assert memory.search("How much is the rent?")
    memory.dreams.judge_pending()
    assert is_untouched(get(memory, old))
    assert get(memory, new)


def test_what_a_withdrawn_fact_had_replaced_comes_back(memory: Memory, clock: Clock) -> None:
    old, new = say(memory, clock, OLD, NEW)
    memory.dreams.judge_pending()
    assert get(memory, old).replaced_by == new
    created = next(entry for entry in memory.history.log() if entry.edit and entry.edit.id == new)
    memory.history.undo(created)
    assert memory.get(new) is None
    assert is_untouched(get(memory, old))
    assert [hit.id for hit in memory.search("How much is the rent?")] == [old]


def test_what_an_archived_or_forgotten_fact_had_replaced_comes_back(memory: Memory, clock: Clock) -> None:
    for withdraw in (memory.archive, lambda name: memory.admin.forget(name)):
        old, new = say(memory, clock, OLD, NEW)
        memory.dreams.judge_pending()
        assert get(memory, old).replaced_by == new
        withdraw(new)
        memory.dreams.judge_pending()
        assert is_untouched(get(memory, old))
        memory.admin.forget(old)


def test_protected_records_are_left_alone(memory: Memory, clock: Clock) -> None:
    (pinned,) = say(memory, clock, OLD, pinned=True)
    say(memory, clock, NEW)
    (owned,) = say(memory, clock, "Carla's dentist is Dr Marsh")
    say(memory, clock, "Carla has a new dentist, Dr Patel", origin="web")
    memory.dreams.judge_pending()
    assert is_untouched(get(memory, pinned))
    assert is_untouched(get(memory, owned))


def test_nothing_is_replaced_across_scopes(memory: Memory, clock: Clock) -> None:
    clock.now += timedelta(days=1)
    names = [memory.scoped(scope).save(OLD).record.id for scope in ("user:alice", "")]
    clock.now += timedelta(days=1)
    memory.scoped("user:bob").save(NEW)
    memory.dreams.judge_pending()
    everything = memory.scoped("*")
    for name in names:
        record = everything.get(name)
        assert record is not None
        assert is_untouched(record)


def test_a_fact_that_is_said_again_is_valid_again(memory: Memory, clock: Clock) -> None:
    old, new = say(memory, clock, OLD, NEW)
    memory.dreams.judge_pending()
    assert get(memory, old).replaced_by == new
    say(memory, clock, OLD)
    memory.dreams.judge_pending()
    assert is_untouched(get(memory, old))


def test_a_memory_that_records_nothing_judges_nothing(clock: Clock) -> None:
    with Memory.open(":memory:", clock=clock, settings=Settings(recording_enabled=False)) as memory:
        old, _ = say(memory, clock, OLD, NEW)
        memory.search("rent")
        assert memory.dreams.judge_pending() == 0
        assert is_untouched(get(memory, old))


def _search(path: Path) -> None:
    with Memory.open(path) as memory:
        memory.search("How much is the rent?")


@pytest.mark.slow
def test_processes_that_judge_at_once_end_a_record_once(tmp_path: Path, clock: Clock) -> None:
    with Memory.open(tmp_path, clock=clock) as memory:
        old, new = say(memory, clock, OLD, NEW)
        context = multiprocessing.get_context("spawn")
        others = [context.Process(target=_search, args=(tmp_path,)) for _ in range(3)]
        for other in others:
            other.start()
        memory.search("How much is the rent?")
        for other in others:
            other.join(60)
        assert get(memory, old).replaced_by == new
        assert sum(entry.actor == "rules" for entry in memory.history.log()) == 1
        assert not memory.admin.check()


def test_a_fact_neither_ends_nor_marks_a_rule(memory: Memory, clock: Clock) -> None:
    (rule,) = say(memory, clock, "And never deploy on a Friday.", kind="constraint")
    say(memory, clock, "Convert olhao-3 from feet, and one bad gauge must never stop the rest.", kind="fact")
    memory.dreams.judge_pending()
    assert is_untouched(get(memory, rule))


def test_no_search_waits_until_a_backlog_is_judged(memory: Memory, clock: Clock) -> None:
    say(memory, clock, OLD)
    judge = memory._judge
    assert judge is not None
    with ThreadPoolExecutor(1) as threads, judge._lock:
        hits = threads.submit(memory.search, "How much is the rent?").result(20)
    assert [hit.content for hit in hits] == [OLD]
