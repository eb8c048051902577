"""What a person wants forgotten is gone from everything that can be asked, and nothing else is."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reverie import InvalidInput, Memory, NotFound, Settings
from reverie.admin.erasure.eraser import Eraser
from reverie.admin.erasure.matching import ErasureReport
from reverie.consolidation.inbox import LOG
from reverie.context.window import build_shown_cursor
from reverie.domain.change import OPERATIONS, Change, JournalEntry
from reverie.domain.conversation import FORGOTTEN, ToolCall
from reverie.domain.errors import Conflict
from reverie.domain.filter import Filter
from reverie.domain.headlines import build_headline
from reverie.domain.record import Record
from reverie.domain.text.ids import generate_id
from reverie.search.analyzer import analyze
from reverie.search.hits import SOURCES
from reverie.stores.in_memory import InMemoryStore
from reverie.stores.sqlite import SQLiteStore
from reverie.stores.tombstones import is_forgotten
from tests.factories import MovableClock
from tests.interfaces.http.conftest import open_client

SECRET = "Anna lives in a small flat near the harbour of Lisbon"
QUOTE = "It is said that Anna lives in a small flat by the sea"


def journal(memory: Memory) -> list[JournalEntry]:
    return memory.history.log(limit=10_000)


def said(memory: Memory) -> str:
    """Everything that can be asked of a memory, as one text."""
    store = memory._store
    values: list[object] = [
        *memory.list(limit=None, archived=None),
        *(turn for one in memory.sessions() for turn in memory.turns(one.state.id)),
        *memory.sessions(),
        *store.pages(),
        *(paragraph for log in store.logs() for paragraph in store.paragraphs(page=log)),
        *store.entries(None, now=memory._clock() - timedelta(days=10_000)),
        *journal(memory),
    ]
    return "\n".join(map(repr, values)).lower()


def going(plan: ErasureReport) -> dict[tuple[str, str], str]:
    return {(trace.subject, trace.id): trace.fate for trace in plan.going}


def left(plan: ErasureReport) -> set[tuple[str, str]]:
    return {(trace.subject, trace.id) for trace in plan.left}


# -- by id -------------------------------------------------------------------------------------------


def test_a_record_goes_with_all_its_versions_and_nothing_brings_it_back(
    memory: Memory, clock: MovableClock
) -> None:
    one = memory.save("Bob keeps the spare key under the third flower pot", tags=["key"], pinned=True).record
    kept = memory.save("Prefers short answers").record
    clock.move(minutes=1)
    before = clock()
    memory.update(one.id, content="Bob keeps the spare key behind a loose brick now")
    memory.archive(one.id, reason="the spare key under the pot is gone")
    memory.restore(one.id)
    memory.update(one.id, content="Bob has no key any more")
    rows = len(journal(memory))
    plan = memory.admin.forget(one.id, dry_run=True)
    assert plan.counts == {"record": 1}
    assert plan.going[0].text == "Bob has no key any more"
    assert (len(journal(memory)), plan.done) == (rows, False), "a plan changes nothing"
    done = memory.admin.forget(one.id)
    assert going(done) == going(plan)
    assert (done.done, done.pending, done.going[0].text) == (True, (), "")
    assert memory.get(one.id) is None
    assert memory.search("key flower brick") == memory.search("spare key", sources=SOURCES) == []
    assert [row.edit for row in memory.history.log(one.id)] == [None] * 6
    assert {row.note for row in memory.history.log(one.id)} == {""}
    for word in ("spare", "brick", "flower"):
        assert word not in said(memory)
    assert memory.as_of(before).get(one.id) is None
    assert memory.as_of(before).search("spare key") == []
    memory.history.undo(since=1)
    assert memory.get(one.id) is None
    assert "spare" not in said(memory)
    assert memory.get(kept.id) is None, "what was not forgotten can be undone"
    assert is_forgotten(memory._store, [one]) == {one.id}


def test_what_was_not_asked_for_is_as_it_was_to_the_last_change(memory: Memory, clock: MovableClock) -> None:
    secret = memory.save(SECRET).record
    others = [memory.save(f"The {name} stands in hall {n}").record for n, name in enumerate("abcdef")]
    memory.update(others[0].id, importance=0.9)
    memory.archive(others[1].id, reason="why not")
    chat = memory.session("chat:1")
    chat.add("user", "Where does the letter b stand?")
    chat.add("assistant", "In hall 1.")
    memory.pages.write("MEMORY.md", "# Halls\n\n- a stands in hall 0\n")
    memory.scratchpad.set("halls", "six of them")
    clock.move(hours=1)

    def rest() -> tuple[object, ...]:
        rows = [row for row in journal(memory) if not row.forgotten]
        records = [each for each in memory.list(limit=None, archived=None) if each.id != secret.id]
        logs = {log: memory._store.paragraphs(page=log) for log in memory._store.logs()}
        return rows, records, memory.turns("chat:1"), memory._store.pages(), logs, memory.scratchpad.list()

    rows, *before = rest()
    memory.admin.forget(secret.id)
    assert isinstance(rows, list)
    assert list(rest()) == [[row for row in rows if row.key != 1], *before]
    memory.history.undo(since=2)
    assert [each.id for each in memory.list(limit=None, archived=None)] == []


def test_what_repeats_it_goes_too(memory: Memory) -> None:
    secret = memory.save(SECRET).record
    quote = memory.save(QUOTE, references=[secret.id]).record
    merged = memory.save("Anna has moved", metadata={"merged_from": secret.id}).record
    labelled = memory.save(
        "Visit her in May",
        tags=["near the harbour of Lisbon", "may"],
        metadata={"evidence": f"she wrote: {SECRET}", "kept": "yes"},
        references=["lives in a small flat", "diary.md", secret.id],
    ).record
    other = memory.save("Anna lives near Lisbon in a flat").record
    memory.pages.write("MEMORY.md", f"# People\n\n- {QUOTE}\n- Bob likes tea\n")
    told = "[2025-06-01 10:00] She lives in\na small flat, she said."
    memory.pages.append("HISTORY.md", told, source=secret.id)
    memory.pages.append("HISTORY.md", "[2025-06-01 11:00] Nothing happened.")
    memory.scratchpad.set("where", f"remember: {SECRET}")
    memory.scratchpad.set("what", "Bob likes tea")
    plan = memory.admin.forget(secret.id, dry_run=True)
    fates = going(plan)
    assert fates[("record", secret.id)] == fates[("record", quote.id)] == "removed"
    assert fates[("record", labelled.id)] == "cut"
    assert fates[("page", "MEMORY.md")] == "cut"
    assert ("entry", "agent where") in fates
    assert plan.counts == {"record": 3, "page": 1, "paragraph": 1, "entry": 1}
    assert left(plan) == {("record", merged.id)}, "made from it, in other words"
    memory.admin.forget(secret.id)
    assert "small flat" not in said(memory).replace("near lisbon in a flat", "")
    assert memory.get(other.id) == other
    assert memory.get(merged.id) == merged
    cut = memory.get(labelled.id)
    assert cut is not None
    assert (cut.tags, cut.references, dict(cut.metadata)) == (
        ("may",),
        ("diary.md", secret.id),
        {"kept": "yes"},
    )
    assert memory.pages.read("MEMORY.md") == "# People\n\n- Bob likes tea\n"
    assert [p.content for p in memory._store.paragraphs(page="HISTORY.md")] == [
        "[2025-06-01 11:00] Nothing happened."
    ]
    assert [entry.key for entry in memory.scratchpad.list()] == ["what"]


def test_what_once_said_it_keeps_what_it_is_and_loses_its_past(memory: Memory) -> None:
    secret = memory.save(SECRET).record
    note = memory.save("Anna sings", importance=0.3, references=[secret.id]).record
    memory.update(note.id, content=f"Anna sings. {QUOTE}")
    memory.update(note.id, content="Anna sings", importance=0.7)
    memory.pages.write("MEMORY.md", f"- {QUOTE}\n")
    memory.pages.write("MEMORY.md", "- Anna sings\n")
    shelved = memory.save("Something else", source=secret.id).record
    memory.archive(shelved.id, reason=f"because {SECRET}")
    memory.restore(shelved.id)
    now = memory.get(note.id)
    done = memory.admin.forget(secret.id)
    assert going(done) == {
        ("record", secret.id): "removed",
        ("record", note.id): "past",
        ("page", "MEMORY.md"): "past",
        ("record", shelved.id): "past",
    }
    assert done.counts == {"record": 1, "past": 3}
    assert memory.get(note.id) == now
    assert memory.get(shelved.id) is not None
    assert "small flat" not in said(memory)
    assert [row.edit is None for row in memory.history.log(note.id)] == [True, True, True, False]
    changed = memory.update(note.id, importance=0.1)
    memory.history.undo(journal(memory)[-1].sequence)
    assert memory.get(note.id) == replace(changed, importance=0.7, updated_at=now.updated_at)  # type: ignore[union-attr]


def test_turns_stay_unless_they_are_asked_for(memory: Memory) -> None:
    secret = memory.save(SECRET).record
    chat = memory.session("chat:1")
    told = chat.add("user", f"By the way, {SECRET}, you know.")
    answer = chat.add("assistant", "I will keep that in mind.")
    plan = memory.admin.forget(secret.id, dry_run=True)
    assert left(plan) == {("turn", told.id)}
    assert plan.counts == {"record": 2, "paragraph": 1}, (
        "a record learned from it and the daily note repeat it"
    )
    done = memory.admin.forget(secret.id)
    assert left(done) == {("turn", told.id)}
    assert [turn.content for turn in memory.turns("chat:1")] == [told.content, answer.content]
    assert memory.history.log(told.id)[0].edit == Change(before=None, after=told)
    again = memory.save(SECRET).record
    memory.admin.forget(again.id, turns=True)
    emptied, untouched = memory.turns("chat:1")
    assert (emptied.content, emptied.id, emptied.position) == (FORGOTTEN, told.id, 0)
    assert untouched == answer
    assert "small flat" not in said(memory)
    assert [turn.content for turn in chat.turns()] == [FORGOTTEN, answer.content]


def test_a_turn_can_be_forgotten_by_its_id(memory: Memory) -> None:
    chat = memory.session("chat:1")
    asked = chat.add("user", "My pin is 4711", speaker="Anna", metadata={"phone": "4711"})
    call = chat.add(
        "assistant", "", tool_calls=[ToolCall(id="c1", name="keep", arguments='{"pin": "my pin is 4711 ok"}')]
    )
    chat.add("tool", "kept: my pin is 4711 ok", tool_call_id="c1")
    chat.add("assistant", "Kept.")
    other = memory.save("Thanks for the fish").record
    done = memory.admin.forget(asked.id, call.id)
    emptied, called, result, _ = memory.turns("chat:1")
    assert (emptied.content, emptied.speaker, dict(emptied.metadata)) == (FORGOTTEN, "", {})
    assert called.tool_calls == (ToolCall(id="c1", name="forgotten", arguments="{}"),)
    assert result.tool_call_id == "c1"
    assert going(done).keys() >= {("turn", asked.id), ("turn", call.id)}
    assert memory._store.logs() == {}, "the daily note was written from these turns"
    assert left(done) == {("turn", result.id)}
    memory.admin.forget(result.id)
    assert "4711" not in said(memory)
    assert memory.get(other.id) is not None
    assert [turn.id for turn in chat.recent_turns()] == [turn.id for turn in memory.turns("chat:1")]
    with pytest.raises(NotFound):
        memory.admin.forget("0" * 12)


def test_what_was_purged_long_ago_is_still_in_the_journal_and_goes_from_there(memory: Memory) -> None:
    secret = memory.save(SECRET).record
    memory.archive(secret.id)
    memory.admin.purge(older_than=0)
    chat = memory.session("chat:1")
    told = chat.add("user", f"As I said: {SECRET}")
    memory.delete_session("chat:1")
    assert "small flat" in said(memory)
    plan = memory.admin.forget(secret.id, dry_run=True)
    assert going(plan)[("record", secret.id)] == "past"
    memory.admin.forget(secret.id)
    memory.admin.forget(match=SECRET)
    assert "small flat" not in said(memory)
    assert memory.admin.check() == []
    assert memory.history.log(told.id)[0].edit is None
    with pytest.raises(NotFound):
        memory.admin.forget(secret.id)


def test_all_of_a_short_text_counts_as_its_repetition(memory: Memory) -> None:
    secret = memory.save("Vegetarian since May").record
    said_so = memory.save("She is vegetarian since May, mostly").record
    other = memory.save("She has been vegetarian for years").record
    memory.admin.forget(secret.id)
    assert memory.get(said_so.id) is None
    assert memory.get(other.id) == other


def test_a_turn_of_a_few_words_takes_nothing_with_it(memory: Memory) -> None:
    kept = memory.save("Thank you is what she says").record
    told = memory.session("chat:1").add("user", "Thank you")
    memory.admin.forget(told.id)
    assert memory.get(kept.id) == kept


def test_a_short_turn_that_is_forgotten_goes_from_the_daily_note_too(memory: Memory) -> None:
    chat = memory.session("chat:1")
    told = chat.add("user", "Gate 4711")
    chat.add("assistant", "Noted.")
    chat.add("user", "Tea at five")
    chat.add("assistant", "With pleasure.")
    (note,) = memory._store.logs()
    assert "4711" in (memory.pages.read(note) or "")
    memory.admin.forget(told.id)
    assert "4711" not in said(memory)
    assert "Tea at five" in (memory.pages.read(note) or "")


def test_what_merely_resembles_it_is_listed_and_stays(memory: Memory) -> None:
    notes = [{"content": f"The user asked about the weather in {name}"} for name in ("Oslo", "Rome", "Lima")]
    saved = [each.record for each in memory.save_many(notes)]
    plan = memory.admin.forget(saved[0].id, dry_run=True)
    assert plan.counts == {"record": 1}
    assert {trace.id for trace in plan.left} == {saved[1].id, saved[2].id}
    assert all(trace.because.startswith("it resembles it") for trace in plan.left)
    memory.admin.forget(saved[0].id)
    assert len(memory.list(limit=None)) == 2


def test_its_owner_may_save_it_anew(memory: Memory) -> None:
    secret = memory.save(SECRET).record
    memory.admin.forget(secret.id)
    assert is_forgotten(memory._store, [secret]) == {secret.id}
    anew = memory.save(SECRET)
    assert anew.outcome == "created"
    assert memory.search("harbour Lisbon")[0].id == anew.record.id
    assert is_forgotten(memory._store, [anew.record]) == set()
    memory.admin.forget(anew.record.id)
    assert memory.search("harbour Lisbon") == []


# -- by session --------------------------------------------------------------------------------------


def test_a_session_goes_with_all_that_belongs_to_it(memory: Memory, clock: MovableClock) -> None:
    older = memory.save("The ferry to Cacilhas leaves every ten minutes").record
    clock.move(days=1)
    chat = memory.session("telegram:5551234")
    chat.add("user", "Anna told me that the ferry to Cacilhas leaves every ten minutes.")
    chat.add("assistant", "Then take the one at nine, it is the least crowded of all.")
    chat.set_metadata("title", "ferries")
    chat.working.set("timetable", "at nine, at ten")
    learned = memory.save("Take the one at nine, it is the least crowded", source="session:telegram:5551234")
    aside = memory.save("Anna gets up early", source="session:telegram:5551234").record
    answer = memory.turns(chat.id)[1]
    memory.pages.append("HISTORY.md", "[2025-06-03 09:00] They found a quiet boat.", source=answer.id)
    digest = "[2025-06-03 09:30] Somebody asked about boats and was told."
    memory.pages.append("HISTORY.md", digest, source=f"session:{chat.id}")
    chat.context("when does Anna get up?")
    chat.flush()
    elsewhere = memory.session("chat:2")
    repeated = elsewhere.add("user", "So, the ferry to Cacilhas leaves every ten minutes?")
    elsewhere.add("assistant", "Yes.")
    assert memory._store.cursor(build_shown_cursor(chat.id)) is not None
    plan = memory.admin.forget(session=chat.id, dry_run=True)
    assert plan.counts == {"record": 2, "turn": 2, "session": 1, "paragraph": 3, "entry": 1}
    assert left(plan) >= {("record", older.id), ("turn", repeated.id)}
    memory.admin.forget(session=chat.id)
    assert memory.get(learned.record.id) is None
    assert memory.get(older.id) == older, "it was known before they spoke of it"
    now = memory.get(aside.id)
    assert now is not None
    assert (now.content, now.source) == ("Anna gets up early", "")
    for word in ("5551234", "crowded", "timetable", "quiet boat", "ferries", "about boats"):
        assert word not in said(memory), word
    assert memory._store.cursor(build_shown_cursor(chat.id)) is None
    assert [one.state.id for one in memory.sessions()] == ["chat:2"]
    assert memory.history.log("telegram:5551234") == []
    assert chat.turns() == []
    again = memory.session("telegram:5551234").add("user", "Hello again")
    assert again.position == 0
    assert memory.admin.check() == []
    with pytest.raises(NotFound):
        memory.admin.forget(session="telegram:1", dry_run=True)


def test_a_session_begun_anew_after_it_was_deleted_goes_with_its_first_life(memory: Memory) -> None:
    memory.session("chat:1").add("user", "The password is swordfish and nothing else")
    memory.delete_session("chat:1")
    memory.session("chat:1").add("user", "Good evening")
    memory.admin.forget(session="chat:1")
    assert "swordfish" not in said(memory)
    assert "good evening" not in said(memory)
    assert memory.admin.check() == []


def test_working_memory_of_a_session_that_never_began_goes_too(memory: Memory) -> None:
    memory.session("chat:9").working.set("draft", "Dear Anna, the harbour")
    assert memory.admin.forget(match="harbour").counts == {"entry": 1}
    memory.session("chat:9").working.set("draft", "Dear Anna")
    memory.admin.forget(session="chat:9")
    assert memory._store.entries(None, now=memory._clock()) == []


# -- by text -----------------------------------------------------------------------------------------


def test_whatever_has_the_text_goes(memory: Memory, clock: MovableClock) -> None:
    live = memory.save("Meet Anna  Lindqvist at\nnoon").record
    tagged = memory.save("Bring flowers", tags=["anna lindqvist"]).record
    filed = memory.save("Address unknown", metadata={"about": "Anna Lindqvist", "kept": "yes"}).record
    archived = memory.save("Anna Lindqvist sings").record
    memory.archive(archived.id)
    once = memory.save("Ask ANNA LINDQVIST").record
    memory.update(once.id, content="Ask nobody")
    reasoned = memory.save("Unrelated").record
    memory.archive(reasoned.id, reason="Anna Lindqvist asked for it")
    other = memory.save("Anna sings, and so does Lindqvist").record
    chat = memory.session("chat:1")
    chat.add("user", "Who is Anna Lindqvist?")
    chat.add("assistant", "A singer.")
    memory.session("from:Anna Lindqvist").add("user", "Hello")
    memory.pages.write("MEMORY.md", "# A\n- Anna\n  Lindqvist sings\n- Bob\n")
    memory.pages.append("HISTORY.md", "[2025-06-01 10:00] Anna Lindqvist sang.")
    chat.working.set("who", "anna lindqvist", ttl="1m")
    clock.move(hours=1)
    plan = memory.admin.forget(match=" anna lindqvist ", dry_run=True)
    assert left(plan) == {("session", "from:Anna Lindqvist")}
    done = memory.admin.forget(match="anna lindqvist")
    assert going(done) == going(plan)
    assert "anna lindqvist" not in said(memory).replace("from:anna lindqvist", "")
    for gone in (live, tagged, archived):
        assert memory.get(gone.id) is None
    kept = memory.get(filed.id)
    assert kept is not None
    assert dict(kept.metadata) == {"kept": "yes"}
    assert memory.get(other.id) == other
    assert memory.get(once.id) is not None
    now = memory.get(reasoned.id)
    assert now is not None
    assert (now.archived, now.archive_reason) == (True, "")
    assert memory.pages.read("MEMORY.md") == "# A\n- Bob\n"
    assert memory.turns("chat:1")[0].content == FORGOTTEN
    assert memory.admin.check() == []


def test_a_text_is_not_found_in_what_reverie_itself_writes(memory: Memory) -> None:
    """Ids of other things, operations and states are no text; a whole id is."""
    before = memory.save("Postgres is used").record
    memory.update(before.id, metadata={"merged_from": "aded1bedbeef", "about": "mead"}, pinned=True)
    memory.update(before.id, source="turn:aded1bedbeef", references=["aded1bedbeef"])
    memory.archive(before.id)
    memory.restore(before.id)
    memory.scoped("user:ana").promote(memory.scoped("user:ana").save("Tea at noon").record.id, to="")
    memory.pages.write("MEMORY.md", "# Noon\n")
    memory.pages.append("HISTORY.md", "[2025-06-01 10:00] Noon came.")
    memory.history.undo(memory.history.log()[-1])
    memory.session("cli:1").add("assistant", "Hi", metadata={"origin": "tool", "signal": "tool_failure"})
    for text in ("ed1b", "superseded", "promoted", "tool"):
        with pytest.raises(NotFound, match="no item contains that text"):
            memory.admin.forget(match=text, dry_run=True)
    memory.admin.forget(match="aded1bedbeef")
    now = memory.get(before.id)
    assert now is not None
    assert (now.source, now.references, now.metadata["about"]) == ("", (), "mead")
    memory.admin.forget(match="mead")
    now = memory.get(before.id)
    assert now is not None
    assert dict(now.metadata) == {"merged_from": "aded1bedbeef"}
    memory.update(before.id, metadata={"wish": "Marry Ada", "origin": "web"})
    with pytest.raises(NotFound, match="no item contains that text"):
        memory.admin.forget(match="web", dry_run=True)
    memory.admin.forget(match="ada")
    now = memory.get(before.id)
    assert now is not None
    assert dict(now.metadata) == {"origin": "web"}


def test_no_word_of_the_program_is_taken_for_content(memory: Memory, clock: MovableClock) -> None:
    ferry = memory.save("Boats sail at eight", ttl="1h").record
    memory.update(ferry.id, pinned=True)
    memory.archive(ferry.id)
    memory.restore(ferry.id)
    memory.history.undo(memory.history.log(ferry.id)[-1])
    memory.save("Harbours close at ten", ttl="1h")
    chat = memory.session("chat:1")
    chat.add("user", "Look at those gulls")
    chat.terminate()
    clock.now += timedelta(hours=2)
    memory.admin.purge(older_than="30d")
    for word in {word for operation in OPERATIONS for word in operation.split("_")} | {"undo of", "expired"}:
        with pytest.raises(NotFound, match="no item contains that text"):
            memory.admin.forget(match=word)


def test_what_repeats_a_part_of_a_long_text_is_listed(memory: Memory) -> None:
    whole = memory.save(f"She wrote: {SECRET}.").record
    part = memory.save(QUOTE).record
    turn = memory.session("chat:1").add("user", QUOTE)
    plan = memory.admin.forget(match=SECRET, dry_run=True)
    assert going(plan) == {("record", whole.id): "removed"}
    assert left(plan) == {("record", part.id), ("turn", turn.id)}
    memory.admin.forget(match=SECRET, turns=True)
    assert memory.get(part.id) == part, "it only resembles it"


def test_a_summary_loses_the_lines_that_have_it(memory: Memory) -> None:
    chat = memory.session("chat:1")
    chat.add("user", "Hello")
    store, state = memory._store, chat.state
    told = replace(state, summary="They met.\nAnna lives in Lisbon.\nThey parted.")
    memory._parts.writer.publish(
        store.commit([Change(before=state, after=told)], actor="digest", at=memory._clock())
    )
    memory.admin.forget(match="Lisbon")
    assert chat.state.summary == "They met.\nThey parted."
    assert "lisbon" not in said(memory)


# -- what is refused ---------------------------------------------------------------------------------


def test_what_cannot_be_asked_for_is_refused(memory: Memory) -> None:
    memory.save(SECRET)
    wrong: list[tuple[Sequence[Any], dict[str, Any]]] = [
        ((), {}),
        ((), {"session": "chat:1", "match": "x"}),
        (["0" * 12], {"match": "x"}),
        ((), {"match": "  "}),
        ((), {"match": "x" * 10_001}),
        ((), {"match": "a\x00b"}),
        ([7], {}),
    ]
    for ids, how in wrong:
        for act in (partial(memory.admin.forget, dry_run=True), memory.admin.forget):
            with pytest.raises(InvalidInput):
                act(*ids, **how)
    assert len(memory.list()) == 1


# -- while others are at it --------------------------------------------------------------------------


class Interrupted(InMemoryStore):
    """A store in which somebody else does something in the moment before an erasure."""

    def __init__(self) -> None:
        super().__init__(analyse=analyze)
        self.before: list[Callable[[], object]] = []

    def commit(self, *args: Any, **kwargs: Any) -> list[JournalEntry]:
        if "tombstones" in kwargs and self.before:
            self.before.pop()()
        return super().commit(*args, **kwargs)


def test_what_is_changed_or_said_again_meanwhile_goes_and_one_who_is_always_slower_is_told(
    clock: MovableClock,
) -> None:
    store = Interrupted()
    with Memory(store, clock=clock) as memory:
        secret = memory.save(SECRET).record
        store.before = [lambda: memory.update(secret.id, content="Anna has a new secret: otters and eels")]
        memory.admin.forget(secret.id)
        assert memory.get(secret.id) is None
        assert "otters" not in said(memory)
        secret = memory.save(SECRET).record
        store.before = [lambda: memory.save(f"So {SECRET}"), lambda: memory.save(f"Yes, {SECRET}, and more")]
        assert memory.admin.forget(secret.id).counts == {"record": 3}
        assert "small flat" not in said(memory)
        secret = memory.save(SECRET).record
        store.before = [lambda n=n: memory.update(secret.id, source=f"s{n}") for n in range(30)]  # type: ignore[misc]
        with pytest.raises(Conflict):
            memory.admin.forget(secret.id)


# -- folders -----------------------------------------------------------------------------------------


def test_what_a_hook_kept_for_the_next_one_and_a_backup_within_the_folder_are_named(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m") as memory:
        secret = memory.save(SECRET).record
        kept = tmp_path / "m" / "hooks" / "1-2.json"
        kept.parent.mkdir()
        kept.write_text(json.dumps({"event": {"prompt": SECRET}}))
        memory.admin.backup(tmp_path / "m" / "monday.zip")
        named = {item.id: item.because for item in memory.admin.forget(secret.id).left}
        assert "a hook kept it" in named["hooks/1-2.json"]
        assert "such as a backup" in named["monday.zip"]


def test_copies_that_upgrades_left_go(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m") as memory:
        secret = memory.save(SECRET).record
        backup = tmp_path / "m" / "reverie.db.v1.backup"
        second = tmp_path / "m" / "reverie.db.v1.backup-2"
        old_index = tmp_path / "m" / "index" / "0" / "old.term"
        old_index.parent.mkdir(parents=True)
        for file in (backup, second, old_index):
            file.write_text(SECRET)
        plan = memory.admin.forget(secret.id, dry_run=True)
        assert any(backup.name in note for note in plan.notes)
        assert backup.exists()
        done = memory.admin.forget(secret.id)
        assert any(second.name in note for note in done.notes)
        assert not backup.exists()
        assert not second.exists()
        assert not old_index.exists()


def test_a_reader_keeps_it_from_being_finished_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reverie.admin.erasure import eraser

    monkeypatch.setattr(eraser, "_WAIT_FOR_READERS_S", 0.0)
    folder = tmp_path / "m"
    store = SQLiteStore(folder / "reverie.db", analyse=analyze, busy_timeout=timedelta(seconds=0.2))
    with Memory(store, path=folder) as memory, Memory.open(folder) as other:
        secret = memory.save(SECRET).record
        memory.save("Something else")
        reading = other._store.find(Filter(alive_at=memory._clock()))
        next(reading)
        done = memory.admin.forget(secret.id)
        assert any("database" in what for what in done.pending)
        assert memory.get(secret.id) is None
        assert memory.admin._eraser.pending() == done.pending
        assert "forgetting-unfinished" in {finding.code for finding in memory.admin.doctor().findings}
        list(reading)
        assert memory.admin.doctor(fix=True).sound
        assert memory.admin._eraser.pending() == ()
        for file in folder.rglob("*"):
            if file.is_file():
                assert b"small flat" not in file.read_bytes()


@pytest.mark.parametrize("how", ["match", "id"])
def test_an_erasure_that_was_interrupted_is_finished_when_it_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    def die(*_: object) -> tuple[str, ...]:
        raise KeyboardInterrupt

    with Memory.open(tmp_path / "m") as memory:
        secret = memory.save(SECRET).record
        ids = (secret.id,) if how == "id" else ()
        ask = partial(memory.admin.forget, *ids, match=SECRET if how == "match" else None)
        with monkeypatch.context() as patch:
            patch.setattr(Eraser, "finish", die)
            with pytest.raises(KeyboardInterrupt):
                ask()
        assert "an erasure was interrupted" in str(memory.admin.doctor().findings)
        with pytest.raises(NotFound):
            ask()
        assert memory.admin.doctor().sound
        for file in (tmp_path / "m").rglob("*"):
            assert file.is_dir() or b"small flat" not in file.read_bytes(), file


def test_forgetting_that_stops_half_way_says_so_and_what_finishes_it(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    with Memory.open(folder) as memory:
        secret = memory.save(SECRET).record
        assert memory.flush()
    room = 120_000  # for the erasure, and not for the whole database
    assert room < (folder / "reverie.db").stat().st_size

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    with Memory.open(folder) as memory, open_client(memory) as client:
        digest = client.post("/v1/forget/preview", json={"ids": [secret.id]}).json()["digest"]
        limit(room)
        try:
            answer = client.post("/v1/forget", json={"ids": [secret.id], "digest": digest})
            assert answer.json()["type"] == "urn:reverie:problem:forgetting-unfinished"
            assert answer.status_code == 500, "a retry would find nothing to forget"
            assert "reverie doctor --fix" in answer.json()["detail"]
        finally:
            limit(resource.RLIM_INFINITY)
    with Memory.open(folder) as memory:
        assert memory.get(secret.id) is None
        assert "forgetting-unfinished" in {finding.code for finding in memory.admin.doctor().findings}
        assert memory.admin.doctor(fix=True).sound
    for file in folder.rglob("*"):
        assert file.is_dir() or b"small flat" not in file.read_bytes(), file


def test_its_files_go_and_one_that_could_not_be_taken_in_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    with Memory.open(folder, settings=Settings(files="records")) as memory:
        secret = memory.save(SECRET, category="people").record
        other = memory.save("Bob likes tea").record
        memory.pages.write("MEMORY.md", f"- {QUOTE}\n- Bob\n")
        assert memory.flush()
        file, broken = folder / f"memory/people/{secret.id}.json", folder / f"memory/{other.id}.json"
        assert SECRET in file.read_text()
        conflict = folder / f"memory/people/{secret.id}.conflict.json"
        conflict.write_text(file.read_text())
        broken.write_text(f'{{"content": "{SECRET}')
        done = memory.admin.forget(secret.id)
        assert left(done) == {("file", f"memory/{other.id}.json")}
        assert not file.parent.exists()
        assert (folder / "memory/MEMORY.md").read_text() == "- Bob\n"
        assert SECRET in broken.read_text(), "it is somebody's work"
        assert memory.get(other.id) == other
        file.parent.mkdir()
        file.write_text(json.dumps(secret.to_dict(), indent=2))  # an old copy turns up again
        assert memory.folder is not None
        memory.folder.sync()
        assert memory.get(secret.id) is None
        assert memory.search("harbour Lisbon") == []


def test_files_that_are_not_kept_up_to_date_any_more_are_looked_through(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    with Memory.open(folder) as memory:
        memory.save("Bob likes tea")
        secret = memory.save(SECRET).record
        memory.session("chat:1").add("user", QUOTE)
        memory.session("chat:2").add("user", SECRET)
    with Memory.open(folder, settings=Settings(files="none")) as memory:
        assert memory.folder is None
        plan = memory.admin.forget(secret.id, turns=True, dry_run=True)
        page = folder / "memory/records/(unfiled).md"
        assert SECRET in page.read_text()
        done = memory.admin.forget(secret.id, turns=True)
        assert left(plan) == left(done)
        assert SECRET not in page.read_text()
        assert "Bob likes tea" in page.read_text()
        assert left(done) >= {("file", "sessions/chat:1.jsonl"), ("file", "sessions/chat:2.jsonl")}
        memory.save("Something else")
        memory.admin.forget(session="chat:2")
        assert not (folder / "sessions/chat:2.jsonl").exists()


def test_undoing_the_deletion_of_a_session_leaves_it_when_something_of_it_was_forgotten(
    memory: Memory,
) -> None:
    kept = memory.save("Prefers short answers").record
    chat = memory.session("chat:1")
    chat.add("user", SECRET)
    chat.add("user", "Nothing to hide")
    memory.delete_session("chat:1")
    memory.archive(kept.id)
    memory.admin.forget(match=SECRET)
    undone = memory.history.undo(since=2)
    assert memory.sessions() == []
    assert undone.left
    now = memory.get(kept.id)
    assert now is not None
    assert not now.archived, "the rest is taken back"
    assert "small flat" not in said(memory)


# -- what is no content: notes of Reverie's own, names, files of others -----------------------------------


def test_a_log_of_dreams_that_quotes_it_loses_these_entries(memory: Memory) -> None:
    store = memory._store
    log = [{"pass": "infer", "why": f'400: "{SECRET}"'}, {"pass": "merge", "why": "too slow"}]
    store.commit([], actor="dream", at=memory._clock(), cursors={LOG: json.dumps(log)})
    secret = memory.save(SECRET).record
    assert going(memory.admin.forget(secret.id, dry_run=True))["cursor", LOG] == "cut"
    memory.admin.forget(secret.id)
    assert json.loads(store.cursor(LOG) or "") == log[1:]


def test_the_names_of_deleted_pages_and_sessions_go(memory: Memory) -> None:
    memory.pages.write("people/anna-karenina.md", "Likes trains\n")
    memory.pages.delete("people/anna-karenina.md")
    store = memory._store
    memory.session("telegram:Anna-Karenina").add("user", "Hello")
    memory.delete_session("telegram:Anna-Karenina")
    kept = memory.session("telegram:anna-k")
    kept.add("user", "Hello too")
    done = memory.admin.forget(match="anna-karenina")
    assert {subject for subject, _ in going(done)} == {"page", "session", "turn"}
    assert "karenina" not in said(memory)
    assert "karenina" not in repr(store.cursors()).lower()
    assert store.journal(id="people/anna-karenina.md") == []
    assert memory.turns("telegram:anna-k")
    with pytest.raises(NotFound, match="no item contains that text"):
        memory.admin.forget(match="anna-karenina")
    if memory.path is not None:
        for file in memory.path.rglob("*"):
            assert file.is_dir() or b"karenina" not in file.read_bytes().lower(), file


@pytest.mark.slow
def test_every_file_that_may_hold_it_is_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "m"
    with Memory.open(folder) as memory:
        secret = memory.save(SECRET, category="people").record
        texts = {
            "sixteen.txt": SECRET.encode("utf-16"),
            "memory/big-endian.txt": SECRET.encode("utf-16-be"),
            "binary.bin": bytes(range(256)) * 40_000 + SECRET.encode("utf-16-le"),
            "latin.txt": f"Größe: {SECRET}".encode("latin-1"),
            "large.bin": b"x" * 21_000_000 + SECRET.encode(),
            "reverie.db.broken-1": b"whatever",
            "before-recovery-1/memory/a.md": SECRET.encode(),
            "Anna lives in a small flat.pdf": b"nothing",
            "memory/people/picture.jpg": b"nothing",
            "reverie.db.notes.txt": SECRET.encode(),
        }
        for name, data in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        (folder / "Anna-lives-in-a-small").mkdir()
        wanted = {*texts, "Anna-lives-in-a-small", "before-recovery-1"}
        wanted -= {"memory/people/picture.jpg", "before-recovery-1/memory/a.md"}
        for report in (memory.admin.forget(secret.id, dry_run=True), memory.admin.forget(secret.id)):
            assert sorted(item.id for item in report.left) == sorted(wanted)
        again = memory.save(SECRET).record
        monkeypatch.setattr("reverie.admin.erasure.remains.LONGEST_FILE", 20_000_000)
        (large,) = [item for item in memory.admin.forget(again.id).left if item.id == "large.bin"]
        assert "too large" in large.because


def test_a_line_goes_from_a_page_that_could_not_be_imported(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    with Memory.open(folder) as memory:
        secret, other = memory.save(SECRET, category="people").record, memory.save("Bob", category="people")
        memory.save("Bob likes tea", category="food")
        assert memory.flush()
        page = folder / "memory/records/people.md"
        page.write_text(page.read_text().replace("- Bob <", "- Bob likes tea <") + "- By hand\n")
        assert memory.folder is not None
        memory.folder.sync()
        assert [
            problem.what.startswith(f"{'memory/records/people.md'!r}") for problem in memory.folder.problems()
        ]
        done = memory.admin.forget(secret.id)
        assert left(done) == set()
        assert SECRET not in page.read_text()
        assert f"- Bob likes tea <!-- {other.record.id} " in page.read_text(), "it is a person's work"
        memory.folder.sync()
        assert memory.get(other.record.id) == other.record
    for file in folder.rglob("*"):
        assert file.is_dir() or SECRET.encode() not in file.read_bytes(), file


def sum_up(memory: Memory, content: str, *parts: Record) -> Record:
    """Add a headline over records, as a dream does."""
    headline = build_headline(parts, content, id=generate_id(), now=memory._clock())
    memory._parts.writer.commit([Change(before=None, after=headline)], operation="dream")
    return headline


@pytest.mark.parametrize("way", ["id", "text", "scope"])
def test_a_headline_over_what_is_forgotten_goes_with_all_of_its_past(memory: Memory, way: str) -> None:
    anna = memory.scoped("user:anna")
    secret = anna.save(SECRET).record
    other = anna.save("She sings in a choir").record
    ended = sum_up(memory, "The Portuguese singer, formerly", secret, other)
    memory._parts.writer.commit([Change(before=ended, after=None)], operation="undo")
    live = sum_up(memory, "A singer who moved to Portugal", secret, other)
    request = {
        "id": partial(memory.admin.forget, secret.id),
        "text": partial(memory.admin.forget, match=SECRET),
        "scope": partial(memory.admin.forget, scope="user:anna"),
    }[way]
    assert going(request(dry_run=True))["record", live.id] == "removed"
    request()
    assert anna.get(live.id) is None
    assert (anna.get(other.id) is None) is (way == "scope")
    assert "portug" not in said(memory)
    assert all(row.forgotten for row in memory._store.journal() if row.key in (3, 5))
