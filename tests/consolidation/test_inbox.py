"""Plans and proposals wait in the inbox, are decided, and go when what they are about is erased."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest

from reverie import Memory, Settings
from reverie.consolidation import inbox
from reverie.consolidation.inbox import Inbox, Verdict
from reverie.consolidation.values import Plan, PlanStep, build_group_key
from reverie.domain.change import Change, JournalEntry
from reverie.domain.errors import Conflict, InvalidInput, NotFound
from reverie.domain.record import Record
from reverie.llm.protocol import ModelRequest
from reverie.stores.writer import StoreWriter
from tests.factories import MovableClock, believe, make_record
from tests.system.nights.models import seen

SECRET = "Victor hid the letters of his aunt in the piano"


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def memory(tmp_path: Path, clock: MovableClock) -> Iterator[Memory]:
    settings = Settings(files="none", thinking="ask")
    with Memory.open(tmp_path / "memory", clock=clock, settings=settings) as memory:
        yield memory


def decide_on(memory: Memory, *contents: str) -> Plan:
    """Save events that have become knowledge, and plan to file them as such."""
    memory.save_many([{"content": each, "kind": "decision", "layer": "episodic"} for each in contents])
    plan = memory.dreams.plan("promote")
    assert len(plan.steps) == len(contents)
    return plan


def list_layers(memory: Memory) -> dict[str, str]:
    return {record.content: record.layer for record in memory.list(limit=None)}


def test_a_kept_plan_survives_closing_and_is_the_same(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m") as memory:
        plan = decide_on(memory, "We decided on Postgres", "We decided on Rust")
        memory.dreams.keep_plan(plan)
    with Memory.open(tmp_path / "m") as memory:
        (kept,) = memory.dreams.kept_plans()
        assert kept.plan == plan
        assert (len(kept.groups), kept.open) == (2, (0, 1))


def test_accepted_groups_are_made_and_rejected_ones_are_not_planned_again(memory: Memory) -> None:
    plan = decide_on(memory, "We decided on Postgres", "We decided on Rust")
    kept = memory.dreams.keep_plan(plan)
    texts = [group.steps[0].edit.value.content for group in kept.groups]
    memory.dreams.decide(plan.id, "later", groups=[0])
    after = memory.dreams.decide(plan.id, "accept", groups=[1])
    assert list_layers(memory) == {texts[0]: "episodic", texts[1]: "semantic"}
    assert (after.groups[0].state, after.open) == ("later", (0,))
    (batch,) = after.batches
    done = memory.dreams.decide(plan.id, "reject", reason="not yet")
    assert (done.open, done.groups[0].state) == ((), "rejected")
    memory.history.undo(batch=batch)
    assert set(list_layers(memory).values()) == {"episodic"}
    again = memory.dreams.plan("promote")
    assert texts[0] not in [step.edit.value.content for step in again.steps]
    assert memory.dreams.kept_plans() == []
    for name in (plan.id, "0" * 12):
        with pytest.raises(NotFound, match="No plan or proposal"):
            memory.dreams.decide(name, "accept")


def test_what_was_rejected_is_planned_again_once_it_changes(memory: Memory, clock: MovableClock) -> None:
    plan = decide_on(memory, "We decided on Postgres")
    step = plan.steps[0]
    key = build_group_key([step])
    memory.dreams.keep_plan(plan)
    memory.dreams.decide(plan.id, "reject")
    clock.move(minutes=1)
    assert not memory.dreams.plan("promote")
    memory.update(step.edit.id, content="We decided on Postgres 18")
    (changed,) = memory.dreams.plan("promote").steps
    assert build_group_key([changed]) != key


def test_a_plan_that_is_outdated_changes_nothing_and_says_so(memory: Memory, clock: MovableClock) -> None:
    plan = decide_on(memory, "We decided on Postgres")
    memory.dreams.keep_plan(plan)
    clock.move(minutes=1)
    memory.update(plan.steps[0].edit.id, content="We decided on Postgres 18")
    with pytest.raises(Conflict):
        memory.dreams.decide(plan.id, "accept")
    assert memory.dreams.kept_plans()[0].open == (0,)
    assert not memory.dreams.decide(plan.id, "reject").open


def test_a_due_dream_waits_for_the_owner(memory: Memory, clock: MovableClock) -> None:
    memory.save("We decided on Postgres", kind="decision", layer="episodic")
    clock.move(days=2)
    outcomes = memory.dreams.run_due().outcomes
    assert outcomes[-1].state == "waiting"
    assert list_layers(memory) == {"We decided on Postgres": "episodic"}
    clock.move(days=2)
    assert memory.dreams.run_due().outcomes == ()
    (kept,) = memory.dreams.kept_plans()
    memory.dreams.decide(kept.id, "accept")
    assert list_layers(memory) == {"We decided on Postgres": "semantic"}


def test_the_room_of_plans_is_bounded(
    memory: Memory, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "MAX_WAITING", 3)
    plan = decide_on(memory, "We decided on Postgres")
    for number in range(5):
        clock.move(seconds=1)
        made = Plan(id=f"{number:012x}", name="promote", made_at=clock(), steps=plan.steps)
        memory.dreams.keep_plan(made)
    assert [int(each.id, 16) for each in memory.dreams.kept_plans()] == [4, 3, 2]
    clock.move(days=31)
    memory.dreams.keep_plan(plan)
    assert len(memory.dreams.kept_plans()) == 1
    monkeypatch.setattr(inbox, "LARGEST", 100)
    with pytest.raises(InvalidInput, match="at most 100 can wait"):
        memory.dreams.keep_plan(plan)


def test_a_decided_plan_keeps_no_content(memory: Memory) -> None:
    plan = decide_on(memory, SECRET)
    memory.dreams.keep_plan(plan)
    memory.dreams.decide(plan.id, "reject", reason=SECRET)
    assert "Victor" not in "".join(memory._store.cursors().values())


def test_a_text_that_only_a_plan_has_is_erased(memory: Memory, clock: MovableClock) -> None:
    said = make_record(7, content=f"It seems that {SECRET}")
    step = PlanStep(edit=Change(before=None, after=said), why="x")
    memory.dreams.keep_plan(Plan(id="a" * 12, name="preferences", made_at=clock(), steps=(step,)))
    memory._parts.writer.commit([], cursors={"plan:broken": "{"})
    plan = memory.admin.forget(match="victor hid", dry_run=True)
    assert [(item.subject, item.id, item.fate) for item in plan.going] == [
        ("cursor", f"plan:{'a' * 12}", "removed")
    ]
    memory.admin.forget(match="victor hid")
    assert memory.dreams.kept_plans() == []
    with pytest.raises(NotFound, match="no item contains that text"):
        memory.admin.forget(match="victor hid")


@pytest.mark.parametrize("how", ["id", "match", "scope", "source"])
def test_a_plan_goes_with_what_is_erased(memory: Memory, clock: MovableClock, how: str) -> None:
    record = memory.scoped("user:victor").save(SECRET).record
    other = memory.save("We decided on Postgres", kind="decision", layer="episodic").record
    said = make_record(7, content=f"It seems that {SECRET}", scope="user:victor")
    step = PlanStep(edit=Change(before=None, after=said), why="x")
    if how == "source":
        step = PlanStep(
            edit=Change(before=None, after=make_record(8, content="Letters")), why="x", sources=(record.id,)
        )
    kept = Plan(id="b" * 12, name="promote", made_at=clock(), steps=memory.dreams.plan("promote").steps)
    for plan in (Plan(id="a" * 12, name="preferences", made_at=clock(), steps=(step,)), kept):
        memory.dreams.keep_plan(plan)
    if how == "match":
        memory.admin.forget(match="hid the letters of his aunt")
    elif how == "scope":
        memory.admin.forget(scope="user:victor")
    else:
        memory.admin.forget(record.id)
    assert [each.id for each in memory.dreams.kept_plans()] == [kept.id]
    assert kept.steps[0].edit.id == other.id
    assert memory.path is not None
    files = [file for file in memory.path.rglob("*") if file.is_file()]
    assert not any(b"letters of his aunt" in file.read_bytes() for file in files)
    assert clock() - kept.made_at < timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OvertakenWriter(StoreWriter):
    """Writer before whose first commit somebody else does something."""

    others: list[Callable[[], object]]

    def commit(self, changes: Sequence[Change], **more: Any) -> list[JournalEntry]:
        """Let the other one go first."""
        if self.others:
            self.others.pop()()
        return StoreWriter.commit(self, changes, **more)


@pytest.mark.parametrize("verdict", get_args(Verdict))
def test_of_two_decisions_at_the_same_time_the_second_is_refused(memory: Memory, verdict: Verdict) -> None:
    plan = decide_on(memory, "We decided on Postgres", "We decided on Rust")
    memory.dreams.keep_plan(plan)
    writer = memory._parts.writer
    other = partial(Inbox(writer).decide, plan.id, "reject", groups=[0], reason="mine")
    late = Inbox(OvertakenWriter(store=writer.store, others=[other]))
    with pytest.raises(Conflict, match="changed since it was read"):
        late.decide(plan.id, verdict, groups=[0])
    (group, *_) = Inbox(writer).kept_plan(plan.id).groups
    assert (group.state, group.reason) == ("rejected", "mine")


# -- proposals -------------------------------------------------------------------------------------------

CONTENT = "Always pay with the company card"


def _answer(request: ModelRequest) -> str:
    names = [name for name, text in seen(request).turns if "company card" in text]
    return json.dumps({"preferences": [{"content": CONTENT, "evidence": names}]})


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory", model=believe(_answer), clock=MovableClock()) as memory:
        yield memory


def _propose(memory: Memory) -> Record:
    memory.session("cli:1").add("user", "Always pay with the company card, please.")
    memory.dreams.run(["preferences"])
    (record,) = memory.dreams.proposals()
    assert record.content == CONTENT
    return record


def _is_found(memory: Memory, record: Record) -> bool:
    pack = memory.session("cli:2").context("How do I pay with the company card?")
    shown = record.id in pack.text or record.id in {hit.id for hit in (*pack.hits, *pack.standing)}
    found = {each.id for each in memory.list()} | {hit.id for hit in memory.search("company card")}
    return shown or record.id in found


def test_a_proposal_is_in_no_search_and_no_prompt_until_it_is_accepted(asking: Memory) -> None:
    record = _propose(asking)
    assert not _is_found(asking, record)
    asking.dreams.decide(record.id, "accept")
    accepted = asking.get(record.id)
    assert accepted is not None
    assert not accepted.archived
    assert accepted.permission
    assert _is_found(asking, record)
    assert asking.dreams.proposals() == []
    assert asking.history.log()[-1].actor == "owner"


def test_a_rejected_proposal_stays_away(asking: Memory) -> None:
    record = _propose(asking)
    rejected = asking.dreams.decide(record.id, "reject", reason="the card is gone")
    assert (rejected.groups[0].state, rejected.groups[0].reason) == ("rejected", "the card is gone")
    asking.admin.purge(older_than=0)
    asking.session("cli:1").add("user", "Always pay with the company card, I said.")
    asking.dreams.run(["preferences"])
    assert asking.dreams.proposals() == []
    assert not _is_found(asking, record)
    asking.dreams.decide(record.id, "accept")
    assert _is_found(asking, record), "the owner may decide again"


def test_a_proposal_for_later_is_listed_again_and_an_accepted_one_can_be_undone(asking: Memory) -> None:
    record = _propose(asking)
    asking.dreams.decide(record.id, "later")
    assert [each.id for each in asking.dreams.proposals()] == [record.id]
    with pytest.raises(InvalidInput, match="accept, reject, later"):
        asking.dreams.decide(record.id, "yes")  # type: ignore[arg-type]
    asking.dreams.decide(record.id, "accept")
    asking.history.undo(batch=asking.history.log()[-1].batch)
    assert not _is_found(asking, record)


def test_no_tool_of_a_model_decides_a_proposal(asking: Memory) -> None:
    record = _propose(asking)
    tools = asking.tools(groups=["long_term", "memory", "fil", "scratchpad", "conversation", "pages"])
    for operation in ("promote", "update", "add", "search", "forget"):
        tools.call("memory", {"operation": operation, "id": record.id, "content": CONTENT, "query": CONTENT})
    assert asking.get(record.id) is None
    assert not any(word in name for name in tools.names for word in ("review", "decide", "accept", "restore"))
