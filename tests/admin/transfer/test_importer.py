"""Nothing is taken in twice, nothing that is here is changed, what was forgotten stays so; all is told."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reverie import EVERY_SCOPE, InvalidInput, Memory
from tests.admin.transfer import samples
from tests.admin.transfer.samples import NOW, Said, as_chatgpt, dump
from tests.support.contract.factories import make_record, make_session, make_turn

IMPORTER = Path(__file__).with_name("importer.py")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory", clock=lambda: NOW) as opened:
        yield opened
        assert opened.admin.check() == []


def own(path: Path, *documents: dict[str, Any], end: bool = True) -> Path:
    """An export as JSON lines with these documents."""
    head = {"type": "header", "format": "reverie", "form": "jsonl", "version": 1, "made_at": "2026-03-01"}
    return samples.lines(path, [head, *documents, *([{"type": "end"}] if end else [])])


def as_line(value: Any, kind: str) -> dict[str, Any]:
    return {"type": kind, **value.to_dict()}


# -- once ----------------------------------------------------------------------------------------------


def test_a_second_run_takes_in_nothing_and_changes_nothing(tmp_path: Path) -> None:
    for form, make in samples.SOURCES.items():
        with Memory.open(tmp_path / f"memory-{form}", clock=lambda: NOW) as memory:
            check_second_run(memory, make(tmp_path / form))
            assert memory.admin.check() == []


def check_second_run(memory: Memory, source: Path) -> None:
    would = memory.admin.import_from(source, dry_run=True)
    assert memory.history.log() == []
    first = memory.admin.import_from(source)
    assert first.taken > 0
    assert replace(first, dry_run=True) == would
    before, changes = dump(memory._store), len(memory.history.log(limit=1000))
    second = memory.admin.import_from(source)
    assert second.taken == 0
    assert dump(memory._store) == before
    assert len(memory.history.log(limit=1000)) == changes
    left_out, first_left_out = samples.whys(second), samples.whys(first)
    assert left_out.pop("known") == first.records + first.turns + first_left_out.pop("known", 0)
    assert left_out == first_left_out
    assert memory.admin.import_from(source, dry_run=True).taken == 0


# -- what is here already ------------------------------------------------------------------------------


def test_a_live_record_that_says_the_same_is_known_and_not_reinforced(memory: Memory, tmp_path: Path) -> None:
    mine = memory.save("Staging is on port 5433").record
    again = replace(mine, id="0" * 11 + "1", content="staging  is on PORT 5433", seen_count=9)
    near = replace(mine, id="0" * 11 + "2", content="Staging is on the port 5433")
    archived = replace(mine, id="0" * 11 + "3", archived_at=NOW)
    elsewhere = replace(mine, id="0" * 11 + "4", scope="user:a")
    done = memory.admin.import_from(
        own(tmp_path / "x.jsonl", *(as_line(each, "record") for each in (again, near, archived, elsewhere)))
    )
    assert (done.records, samples.whys(done)) == (3, {"known": 1})
    assert mine.id in done.skipped[0].detail
    assert memory.get(mine.id) == mine
    assert memory.get(near.id) == near


def test_what_says_the_same_twice_in_a_source_is_taken_once(memory: Memory, tmp_path: Path) -> None:
    one, two = make_record(1, content="Tea is at four"), make_record(2, content="tea is AT four")
    done = memory.admin.import_from(own(tmp_path / "x.jsonl", as_line(one, "record"), as_line(two, "record")))
    assert (done.records, samples.whys(done)) == (1, {"known": 1})
    done = memory.admin.import_from(
        own(tmp_path / "y.jsonl", as_line(make_record(7), "record"), as_line(make_record(7), "record"))
    )
    assert (done.records, samples.whys(done)) == (1, {"known": 1})


def test_a_record_that_was_changed_here_stays_as_it_is(memory: Memory, tmp_path: Path) -> None:
    source = samples.golemcore(tmp_path)
    memory.admin.import_from(source)
    (fact,) = memory.list(kind=["constraint"])
    memory.update(fact.id, content="Deployments must not happen on Fridays or Mondays")
    memory.archive(memory.list(kind=["task_state"])[0].id, reason="done")
    before = dump(memory._store)
    done = memory.admin.import_from(source)
    assert (done.taken, samples.told(done, "differs")) == (
        0,
        [
            ("record", "memory/items/semantic.jsonl, line 1"),
            ("record", "memory/items/episodic/2026-02-07.jsonl, line 2"),
        ],
    )  # fmt: skip
    assert dump(memory._store) == before


def test_a_session_that_is_here_gets_the_turns_it_lacks(memory: Memory, tmp_path: Path) -> None:
    memory.session("chat:1").add("user", "Said here")
    lines = [as_line(make_session(), "session"), *(as_line(make_turn(n), "turn") for n in range(3))]
    done = memory.admin.import_from(own(tmp_path / "x.jsonl", *lines))
    assert (done.sessions, done.turns) == (0, 3)
    assert [each.content for each in memory.turns("chat:1")] == [
        "Said here",
        *(make_turn(n).content for n in range(3)),
    ]
    memory.session("chat:1").add("user", "Said later")
    done = memory.admin.import_from(own(tmp_path / "x.jsonl", *lines, as_line(make_turn(3), "turn")))
    assert (done.turns, samples.whys(done)) == (1, {"known": 3})
    assert [each.position for each in memory.turns("chat:1")] == [0, 1, 2, 3, 4, 5]


def test_a_session_of_another_scope_is_left_alone(memory: Memory, tmp_path: Path) -> None:
    memory._parts.sessions.open("chat:1", "user:a").add("user", "Said here")
    done = memory.admin.import_from(
        own(tmp_path / "x.jsonl", as_line(make_session(), "session"), as_line(make_turn(0), "turn"))
    )
    assert (done.turns, samples.whys(done)) == (0, {"differs": 1})
    assert len(memory.scoped("user:a").turns("chat:1")) == 1


# -- scope and origin ------------------------------------------------------------------------------------


def test_foreign_things_get_the_scope_and_origin_that_are_named(memory: Memory, tmp_path: Path) -> None:
    source = samples.rockbot(tmp_path)
    memory.admin.import_from(source, scope="user:a", origin="agent")
    memory.admin.import_from(source, scope="user:b")
    found = memory.scoped(EVERY_SCOPE).list(limit=None, archived=None)
    assert sorted((each.scope, each.origin) for each in found) == [
        *[("user:a", "agent")] * 3, *[("user:b", "import")] * 3,
    ]  # fmt: skip
    assert memory.admin.import_from(source, scope="user:b").taken == 0
    memory.admin.import_from(samples.chatgpt(tmp_path), scope="user:a")
    assert {
        each.scope
        for each in memory.scoped("user:a").turns(memory.scoped(EVERY_SCOPE).sessions()[0].state.id)
    } == {"user:a"}
    with pytest.raises(InvalidInput, match="origin is 'me'"):
        memory.admin.import_from(source, origin="me")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="scope has"):
        memory.admin.import_from(source, scope="x" * 201)


def test_own_exports_keep_their_scope_and_origin_unless_others_are_named(
    memory: Memory, tmp_path: Path
) -> None:
    lines = [
        as_line(make_record(1, scope="user:a", origin="web"), "record"),
        as_line(make_session(scope="user:a"), "session"),
        as_line(make_turn(0, scope="user:a"), "turn"),
    ]
    file = own(tmp_path / "x.jsonl", *lines)
    memory.admin.import_from(file)
    (kept,) = memory.scoped(EVERY_SCOPE).list()
    assert (kept.scope, kept.origin) == ("user:a", "web")
    with Memory.open(":memory:") as other:
        other.admin.import_from(file, scope="user:b", origin="owner")
        (moved,) = other.scoped(EVERY_SCOPE).list()
        assert (moved.scope, moved.origin, moved.id) == ("user:b", "owner", kept.id)
        bob = other.scoped("user:b")
        assert bob.turns("chat:1")[0].scope == bob.session("chat:1").state.scope == "user:b"


# -- what was forgotten ----------------------------------------------------------------------------------


def test_a_record_that_was_forgotten_does_not_come_back(memory: Memory, tmp_path: Path) -> None:
    source = samples.golemcore(tmp_path)
    memory.admin.import_from(source)
    gone = max(memory.list(limit=None), key=lambda each: len(each.content))
    memory.admin.forget(gone.id)
    done = memory.admin.import_from(source)
    assert memory.get(gone.id) is None
    assert gone.content not in samples.contents(memory)
    assert samples.whys(done)["forgotten"] >= 1
    assert done.records == 0


def test_a_session_that_was_forgotten_does_not_come_back(memory: Memory, tmp_path: Path) -> None:
    source = samples.claude(tmp_path)
    memory.admin.import_from(source)
    name = memory.sessions()[0].state.id
    memory.admin.forget(session=name, turns=True)
    done = memory.admin.import_from(source)
    assert samples.whys(done)["forgotten"] == 4
    assert memory.turns(name) == []


def test_pages_and_paragraphs_that_were_forgotten_do_not_come_back(memory: Memory, tmp_path: Path) -> None:
    secret = "The vault behind the northern mill opens with nine turns"
    page = samples.text(tmp_path / "MEMORY.md", f"- fine\n- {secret}\n")
    history = samples.text(tmp_path / "HISTORY.md", f"[2025-01-15 10:30] {secret}.\n")
    memory.admin.import_from(page, origin="owner")
    memory.admin.import_from(history, origin="owner")
    memory.admin.forget(match=secret)
    done = memory.admin.import_from(page, origin="owner")
    assert samples.whys(done)["forgotten"] == 1
    assert samples.whys(memory.admin.import_from(history, origin="owner"))["forgotten"] == 1
    assert secret not in memory.pages.read("MEMORY.md")
    assert memory.pages.paragraphs("HISTORY.md") == []


# -- our own exports, broken -----------------------------------------------------------------------------


def test_broken_lines_of_an_export_are_named_and_the_others_are_taken(memory: Memory, tmp_path: Path) -> None:
    good, late = make_record(1), make_record(2, content="After the breakage")
    wrong: list[dict[str, Any]] = [
        {"kind": "rumour"}, {"id": "../../etc"}, {"tags": 5}, {"created_at": 5}, {"confidence": 2}, {"mood": "good"},
        {"seen_count": 10**30}, {"valid_from": "2026-01-02", "valid_to": "2026-01-01"}, {"content": "x" * 100_001},
    ]  # fmt: skip
    broken: list[Any] = [
        *(as_line(make_record(3), "record") | fields for fields in wrong),
        {"type": "page", "name": "../x.md", "content": "", "updated_at": "2026-01-01"},
        {"type": "session", "id": ""}, {"type": "weather"}, [],
    ]  # fmt: skip
    file = own(tmp_path / "x.jsonl", as_line(good, "record"), *broken, as_line(late, "record"))
    done = memory.admin.import_from(file)
    assert done.records == 2
    assert samples.whys(done) == {"broken": 11, "too large": 1, "unsupported": 1}
    assert [each.place for each in done.skipped] == [f"x.jsonl, line {n}" for n in range(3, 16)]
    assert not any("x" * 20 in each.detail for each in done.skipped)


def test_an_export_that_was_cut_is_said_to_be(memory: Memory, tmp_path: Path) -> None:
    file = own(tmp_path / "x.jsonl", as_line(make_record(1), "record"), end=False)
    done = memory.admin.import_from(file)
    assert (done.records, samples.whys(done)) == (1, {"broken": 1})
    assert "may have been cut" in done.skipped[0].detail


def test_an_export_of_a_newer_version_is_refused(memory: Memory, tmp_path: Path) -> None:
    memory.save("Something")
    memory.admin.export(tmp_path / "out")
    file = tmp_path / "out"
    file.write_text(file.read_text().replace('"version": 1', '"version": 2'))
    with Memory.open(":memory:") as other:
        with pytest.raises(InvalidInput, match="made by a newer Reverie"):
            other.admin.import_from(tmp_path / "out")
        assert other.history.log() == []


def test_the_readable_folder_of_a_memory_is_refused_with_the_way_to_go(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "agent") as memory:
        memory.save("Prefers short answers", category="user-preferences")
    with Memory.open(":memory:") as other:
        with pytest.raises(InvalidInput, match="Export another memory"):
            other.admin.import_from(tmp_path / "agent")
        (tmp_path / "agent" / "reverie.db").unlink()
        with pytest.raises(InvalidInput, match="reverie rebuild"):
            other.admin.import_from(tmp_path / "agent")


def test_a_memory_in_a_folder_that_is_imported_is_named_and_left_out(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "agent") as memory:
        memory.save("Prefers short answers", category="user-preferences")
    (tmp_path / "MEMORY.md").write_text("- The staging port is 5433\n")
    with Memory.open(":memory:") as other:
        done = other.admin.import_from(tmp_path)
        assert [record.content for record in other.list()] == ["The staging port is 5433"]
        assert ("agent", "unsupported") in [(each.place, each.why) for each in done.skipped]


# -- conversations with one message a line ------------------------------------------------------------------


# -- interrupted, and at once ----------------------------------------------------------------------------


def big(path: Path) -> Path:
    """A source of many batches."""
    chats = [
        {
            "uuid": f"chat-{c}",
            "created_at": "2025-01-01T00:00:00Z",
            "chat_messages": [
                {"uuid": f"{c}-{n}", "sender": "human" if n % 2 else "assistant", "text": f"words {c} {n}"}
                for n in range(170)
            ],
        }
        for c in range(20)
    ]
    return samples.document(path / "conversations.json", chats)


@pytest.mark.slow
def test_an_import_that_was_killed_is_completed_by_another(tmp_path: Path) -> None:
    source = big(tmp_path)
    with Memory.open(tmp_path / "whole") as whole:
        whole.admin.import_from(source)
        wanted = dump(whole._store)
    folder = tmp_path / "memory"
    kills = 0
    for after in (1, 2, 2, 3):
        command = [sys.executable, str(IMPORTER), str(folder), str(source)]
        running = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert running.stdout is not None
        said = 0
        for line in running.stdout:
            said += line.startswith(b"dealt with")
            if said == after:
                running.send_signal(signal.SIGKILL)
                break
        running.stdout.close()
        kills += running.wait() == -signal.SIGKILL
        with Memory.open(folder) as memory:
            assert memory.admin.check() == []
            assert all(each.turns for each in memory.sessions())
    assert kills == 4
    with Memory.open(folder) as memory:
        done = memory.admin.import_from(source)
        assert 0 < done.turns < 20 * 170
        assert dump(memory._store) == wanted


@pytest.mark.slow
def test_two_who_import_the_same_at_once_take_it_in_once(tmp_path: Path) -> None:
    source, folder = big(tmp_path), tmp_path / "memory"
    Memory.open(folder).close()
    command = [sys.executable, str(IMPORTER), str(folder), str(source)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    taken = 0
    for each in running:
        said, _ = each.communicate(timeout=100)
        assert each.returncode == 0, said
        taken += int(said.split()[-1])
    with Memory.open(folder) as memory:
        assert taken == 20 + 20 * 170
        assert sum(each.turns for each in memory.sessions()) == 20 * 170
        assert memory.admin.check() == []


# -- conversations that are exported again -------------------------------------------------------------


def as_claude(path: Sequence[Said], title: str, day: int) -> Any:
    messages = [
        {"uuid": name, "text": text, "sender": ("human", "assistant")[n % 2]}
        for n, (name, text) in enumerate(path)
    ]
    return [{"uuid": "x", "name": title, "updated_at": f"2026-05-{day:02}", "chat_messages": messages}]


def as_messages(path: Sequence[Said], title: str, day: int) -> Any:
    return [
        {
            "id": name,
            "content": text,
            "role": ("user", "assistant")[n % 2],
            "session": "x",
            "at": f"2026-05-{n + 1:02}",
        }
        for n, (name, text) in enumerate(path)
    ]


def as_conversation(path: Sequence[Said], title: str, day: int) -> Any:
    return [{"id": "x", "messages": as_messages(path, title, day)}]


FIRST: list[Said] = [("q1", "How many people?"), ("a1", "Three."), ("q2", "Who is free?"), ("a2", "Wim and")]


@pytest.mark.parametrize("export", [as_chatgpt, as_claude, as_messages, as_conversation])
def test_a_conversation_that_is_exported_again_follows_the_path_last_viewed(
    tmp_path: Path, memory: Memory, export: Callable[[Sequence[Said], str, int], Any]
) -> None:
    has_titles = export in (as_chatgpt, as_claude)
    paths: list[tuple[list[Said], tuple[int, int, int]]] = [
        (FIRST, (0, 0, 0)),
        ([*FIRST[:3], ("a2", "Wim and Isko.")], (0, 1, 0)),  # completed
        ([*FIRST[:3], ("a2", "Wim and Isko."), ("q3", "Good.")], (0, 0, 1)),  # continued
        ([FIRST[0], ("b1", "Two."), ("c2", "Fine.")], (4, 0, 2)),  # regenerated
        ([FIRST[0], ("b1", "Two."), ("d2", "No, one."), ("d3", "Right.")], (1, 0, 2)),  # edited
    ]
    texts: list[list[str]] = []
    batches: list[int] = []
    for day, (path, expected) in enumerate(paths, start=1):
        file = samples.lines(tmp_path / "chat.jsonl", export(path, f"Title {day}", day))
        would = memory.admin.import_from(file, dry_run=True)
        done = memory.admin.import_from(file)
        assert replace(would, dry_run=False) == done
        name = memory.sessions()[0].state.id
        assert [turn.content for turn in memory.turns(name)] == [text for _, text in path]
        texts.append([turn.content for turn in memory.turns(name)])
        batches.append(memory.history.log(limit=1, newest_first=True)[0].batch)
        changes = [(each.withdrawn, each.updated, each.added) for each in done.revised]
        assert changes == ([] if day == 1 or not (any(expected[:2]) or has_titles) else [expected])
        assert has_titles == (memory.sessions()[0].state.metadata.get("title") == f"Title {day}")
        assert memory.admin.import_from(file).taken == 0
        assert memory.history.log(limit=1, newest_first=True)[0].batch == batches[-1], "nothing is left to do"
    for before, number in zip(texts[-2::-1], batches[::-1], strict=False):
        memory.history.undo(batch=number)
        assert [turn.content for turn in memory.turns(name)] == before


def test_an_older_export_and_a_conversation_that_was_continued_here_take_nothing_back(
    tmp_path: Path, memory: Memory
) -> None:
    other = [FIRST[0], ("b1", "Two.")]
    new = samples.lines(tmp_path / "new.jsonl", as_chatgpt(other, "New", 2))
    old = samples.lines(tmp_path / "old.jsonl", as_chatgpt(FIRST, "Old", 1))
    memory.admin.import_from(new)
    assert samples.whys(memory.admin.import_from(old)) == {"known": 1, "differs": 3}
    assert [turn.content for turn in memory.turns("chatgpt:x")] == ["How many people?", "Two."]
    memory.session("chatgpt:x").add("user", "said here")
    later = samples.lines(tmp_path / "later.jsonl", as_chatgpt([FIRST[0], ("c1", "One.")], "Later", 3))
    done = memory.admin.import_from(later)
    assert (samples.whys(done), done.turns) == ({"known": 1, "differs": 1}, 1)
    assert [turn.content for turn in memory.turns("chatgpt:x")][-2:] == ["said here", "One."]


def test_a_later_export_brings_nothing_back_that_was_forgotten(tmp_path: Path, memory: Memory) -> None:
    file = tmp_path / "chat.jsonl"
    memory.admin.import_from(samples.lines(file, as_chatgpt(FIRST, "T", 1)))
    memory.admin.forget(memory.turns("chatgpt:x")[3].id)
    memory.admin.import_from(samples.lines(file, as_chatgpt([*FIRST[:3], ("a2", "Wim and Isko.")], "T", 2)))
    assert "Wim" not in " ".join(turn.content for turn in memory.turns("chatgpt:x"))


def test_a_part_of_a_log_takes_nothing_back(tmp_path: Path, memory: Memory) -> None:
    said = [(f"m{number}", f"message {number}") for number in range(30)]
    for start, stop in ((0, 20), (15, 30), (5, 10)):
        part = as_messages(said, "", 1)[start:stop]
        memory.admin.import_from(samples.lines(tmp_path / "log.jsonl", part))
    assert [turn.content for turn in memory.turns("x")] == [text for _, text in said]
