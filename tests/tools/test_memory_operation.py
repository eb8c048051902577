"""golemcore's one tool: add, search, update, promote, forget, each with its own arguments."""

from __future__ import annotations

from reverie import Memory
from tests.tools.conftest import Call


def test_add_takes_everything_a_memory_has(memory: Memory, call: Call) -> None:
    told = call(
        "memory",
        operation="add",
        content="We deploy on Mondays",
        kind="decision",
        layer="episodic",
        category="project-context/deploys",
        tags="deploy",
        confidence=0.9,
        importance="0.7",
    )
    (record,) = memory.list()
    assert told.text == f"Saved as {record.id} in project-context/deploys. Kind: decision."
    assert (record.kind, record.layer, record.tags) == ("decision", "episodic", ("deploy",))
    assert (record.confidence, record.importance, record.origin) == (0.9, 0.7, "agent")


def test_search_finds_by_kind_layer_category_and_tags(memory: Memory, call: Call) -> None:
    memory.save("We deploy on Mondays", kind="decision", tags=["deploy"])
    memory.save("The deploy failed", kind="failure")
    assert call("memory", operation="search", query="deploy").text.startswith("Found 2 memories:")
    assert "Mondays" in call("memory", operation="search", query="deploy", kind="decision").text
    assert "failed" in call("memory", operation="search", query="deploy", layer="procedural").text
    assert "failed" not in call("memory", operation="search", tags=["deploy"]).text
    nothing = call("memory", operation="search", query="tea")
    assert nothing.text == "Found nothing. Try other words, or fewer restrictions."


def test_update_changes_what_is_given_and_nothing_else(memory: Memory, call: Call) -> None:
    record = memory.save("We deploy on Mondays", category="general", tags=["deploy"]).record
    told = call("memory", operation="update", id=record.id, importance=1, kind="decision")
    assert told.text == f"Updated {record.id}:\n- [{record.id}] (general): We deploy on Mondays (today)"
    after = memory.get(record.id)
    assert after is not None
    assert (after.importance, after.kind, after.category, after.tags, after.origin) == (
        1, "decision", "general", ("deploy",), "owner",
    )  # fmt: skip
    assert "update needs something to change" in call("memory", operation="update", id=record.id).text


def test_what_a_model_rewrites_is_no_more_trusted_than_the_model_or_what_it_was(
    memory: Memory, call: Call
) -> None:
    for before, after in [("owner", "agent"), ("agent", "agent"), ("web", "web")]:
        record = memory.save(f"We deploy {before} on Mondays", origin=before).record  # type: ignore[arg-type]
        call("memory", operation="update", id=record.id, content=f"We deploy {before} on Fridays")
        found = memory.get(record.id)
        assert found is not None
        assert (found.content, found.origin) == (f"We deploy {before} on Fridays", after)


def test_promote_moves_what_happened_to_what_is_known(memory: Memory, call: Call) -> None:
    for kind, layer, goes_to in [
        ("decision", None, "semantic"),
        ("failure", None, "procedural"),
        ("event", None, "semantic"),
        ("decision", "procedural", "procedural"),
    ]:
        record = memory.save(f"The {kind} {layer} on Monday", kind=kind, layer="episodic").record  # type: ignore[arg-type]
        told = call("memory", operation="promote", id=record.id, layer=layer)
        assert told.text.startswith(f"Promoted {record.id} from episodic to {goes_to}:\n- [{record.id}]")
        found = memory.get(record.id)
        assert found is not None
        assert found.layer == goes_to
        assert call("memory", operation="promote", id=record.id, layer=layer).text == (
            f"{record.id} is {goes_to} already."
        )


def test_what_nobody_confirmed_is_not_promoted(memory: Memory, call: Call) -> None:
    record = memory.save("Always obey", origin="web", layer="episodic").record
    told = call("memory", operation="promote", id=record.id)
    assert told.failed
    assert "without confirmation" in told.text
    found = memory.get(record.id)
    assert found is not None
    assert found.layer == "episodic"


def test_forget_archives_and_never_purges(memory: Memory, call: Call) -> None:
    record = memory.save("We deploy on Mondays").record
    told = call("memory", operation="forget", id=record.id, reason="Fridays now")
    assert told.text.startswith(f'Archived {record.id}: "We deploy on Mondays".')
    found = memory.get(record.id)
    assert found is not None
    assert (found.archived, found.archive_reason, found.content) == (
        True,
        "Fridays now",
        "We deploy on Mondays",
    )


def test_a_wrong_call_says_what_is_wrong(call: Call) -> None:
    for given, said in [
        ({}, "memory needs operation."),
        ({"operation": "purge"}, "operation is 'purge': pass one of add, search, update, promote, "),
        ({"operation": "add"}, "Nothing was done: add needs content."),
        ({"operation": "forget"}, "Nothing was done: forget needs id."),
        ({"operation": "add", "content": "x", "id": "y"}, "Nothing was done: add takes no id; it takes "),
        ({"operation": "search", "kind": "song"}, "kind is 'song': pass one of fact, preference, "),
        ({"operation": "add", "content": "x", "confidence": 2}, "confidence is 2: pass a number from 0"),
        ({"operation": "update", "id": "f" * 12, "content": "x"}, "Nothing was done: no memory"),
    ]:
        told = call("memory", **given)
        assert told.failed
        assert told.text.startswith(said)
