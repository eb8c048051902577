"""The graph of entities, observations and relations: all that the reference server's own tests ask."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reverie import Memory
from reverie.domain.errors import InvalidInput, NotFound
from reverie.repositories.knowledge_graph import KnowledgeGraph
from reverie.tools import Toolset
from reverie.tools.groups.knowledge_graph import build_knowledge_graph_tools

ALICE = {"name": "Alice", "entityType": "person", "observations": ["works at Acme Corp"]}
BOB = {"name": "Bob", "entityType": "person", "observations": ["likes programming"]}
KNOWS = {"from": "Alice", "to": "Bob", "relationType": "knows"}
EMPTY: dict[str, Any] = {"entities": [], "relations": []}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory") as memory:
        yield memory


@pytest.fixture
def graph(memory: Memory) -> KnowledgeGraph:
    return memory.knowledge_graph()


@pytest.fixture
def tools(graph: KnowledgeGraph) -> Toolset:
    return build_knowledge_graph_tools(graph)


def people(graph: KnowledgeGraph, *names: str) -> None:
    graph.create_entities({"name": name, "entityType": "person", "observations": []} for name in names)


def link(source: str, target: str, verb: str = "knows") -> dict[str, str]:
    return {"from": source, "to": target, "relationType": verb}


def names(found: dict[str, Any]) -> list[str]:
    return [entity["name"] for entity in found["entities"]]


# -- creating --------------------------------------------------------------------------------------------


def test_new_entities_are_created_and_returned(graph: KnowledgeGraph) -> None:
    assert graph.create_entities([ALICE, BOB]) == [ALICE, BOB]
    assert graph.read_graph() == {"entities": [ALICE, BOB], "relations": []}


def test_an_entity_that_is_there_is_left_as_it_is(graph: KnowledgeGraph) -> None:
    graph.create_entities([ALICE])
    assert graph.create_entities([{**ALICE, "observations": ["something else"]}, BOB]) == [BOB]
    assert graph.read_graph()["entities"] == [ALICE, BOB]


def test_of_two_of_one_name_in_one_call_the_first_is_created(graph: KnowledgeGraph) -> None:
    assert graph.create_entities([ALICE, {**ALICE, "observations": []}]) == [ALICE]


def test_nothing_is_created_of_nothing(graph: KnowledgeGraph, memory: Memory) -> None:
    assert graph.create_entities([]) == []
    assert graph.create_relations([]) == []
    assert memory.history.log() == []


def test_new_relations_are_created_and_returned(graph: KnowledgeGraph) -> None:
    people(graph, "Alice", "Bob")
    assert graph.create_relations([KNOWS]) == [KNOWS]
    assert graph.read_graph()["relations"] == [KNOWS]


def test_a_relation_that_is_there_is_left_out(graph: KnowledgeGraph) -> None:
    graph.create_relations([KNOWS])
    assert graph.create_relations([KNOWS, link("Bob", "Alice"), KNOWS]) == [link("Bob", "Alice")]
    assert graph.read_graph()["relations"] == [KNOWS, link("Bob", "Alice")]


def test_a_relation_may_name_entities_that_are_not_there(graph: KnowledgeGraph) -> None:
    assert graph.create_relations([link("nobody", "nowhere")]) == [link("nobody", "nowhere")]
    assert graph.read_graph()["entities"] == []


# -- observations ----------------------------------------------------------------------------------------


def test_observations_are_added_to_an_entity(graph: KnowledgeGraph) -> None:
    graph.create_entities([ALICE])
    wanted = {"entityName": "Alice", "contents": ["likes coffee", "has a dog"]}
    assert graph.add_observations([wanted]) == [
        {"entityName": "Alice", "addedObservations": ["likes coffee", "has a dog"]}
    ]
    (alice,) = graph.read_graph()["entities"]
    assert alice["observations"] == ["works at Acme Corp", "likes coffee", "has a dog"]


def test_an_observation_that_an_entity_has_is_left_out(graph: KnowledgeGraph) -> None:
    graph.create_entities([ALICE])
    graph.add_observations([{"entityName": "Alice", "contents": ["likes coffee"]}])
    (told,) = graph.add_observations([{"entityName": "Alice", "contents": ["likes coffee", "has a dog"]}])
    assert told["addedObservations"] == ["has a dog"]
    assert len(graph.read_graph()["entities"][0]["observations"]) == 3


def test_the_same_observation_twice_in_one_call_is_added_once(graph: KnowledgeGraph) -> None:
    people(graph, "Alice")
    twice = {"entityName": "Alice", "contents": ["runs", "runs"]}
    added = [each["addedObservations"] for each in graph.add_observations([twice, twice])]
    assert added == [["runs"], []]


def test_observations_of_nobody_are_an_error_and_nothing_is_added_to_others(graph: KnowledgeGraph) -> None:
    graph.create_entities([ALICE])
    with pytest.raises(NotFound, match=r"^Entity with name NonExistent not found$"):
        graph.add_observations(
            [{"entityName": "Alice", "contents": ["x"]}, {"entityName": "NonExistent", "contents": ["y"]}]
        )
    assert graph.read_graph()["entities"] == [ALICE]


def test_what_differs_in_case_or_repeats_another_record_is_kept_as_it_is(
    graph: KnowledgeGraph, memory: Memory
) -> None:
    memory.save("Alice likes tea")
    told = ["Alice likes tea", "alice likes tea", "Alice likes tea very much", "  spaced  ", ""]
    graph.create_entities([{"name": "Alice", "entityType": "", "observations": told}])
    memory.save("Alice likes tea with milk, and very much so")
    assert graph.read_graph()["entities"] == [{"name": "Alice", "entityType": "", "observations": told}]


# -- deleting --------------------------------------------------------------------------------------------


def test_entities_are_deleted_and_the_others_stay(graph: KnowledgeGraph) -> None:
    people(graph, "Alice", "Bob")
    graph.delete_entities(["Alice"])
    assert names(graph.read_graph()) == ["Bob"]


def test_with_an_entity_go_the_relations_at_either_end(graph: KnowledgeGraph) -> None:
    people(graph, "Alice", "Bob", "Charlie")
    graph.create_relations([link("Alice", "Bob"), link("Bob", "Charlie"), link("Alice", "Charlie")])
    graph.delete_entities(["Bob"])
    assert graph.read_graph()["relations"] == [link("Alice", "Charlie")]


def test_single_observations_are_deleted(graph: KnowledgeGraph) -> None:
    graph.create_entities([{**ALICE, "observations": ["works at Acme Corp", "likes coffee"]}])
    graph.delete_observations([{"entityName": "Alice", "observations": ["likes coffee", "never said"]}])
    assert graph.read_graph()["entities"] == [ALICE]


def test_an_entity_outlives_its_last_observation(graph: KnowledgeGraph) -> None:
    graph.create_entities([ALICE])
    graph.delete_observations([{"entityName": "Alice", "observations": ALICE["observations"]}])
    assert graph.read_graph()["entities"] == [{**ALICE, "observations": []}]


def test_only_the_very_relation_is_deleted(graph: KnowledgeGraph) -> None:
    people(graph, "Alice", "Bob")
    graph.create_relations([KNOWS, link("Alice", "Bob", "works_with")])
    graph.delete_relations([KNOWS])
    assert graph.read_graph()["relations"] == [link("Alice", "Bob", "works_with")]


def test_deleting_what_is_not_there_changes_nothing(graph: KnowledgeGraph, memory: Memory) -> None:
    graph.delete_entities(["NonExistent"])
    graph.delete_observations([{"entityName": "NonExistent", "observations": ["some observation"]}])
    graph.delete_relations([KNOWS])
    assert graph.read_graph() == EMPTY
    assert memory.history.log() == []


def test_what_was_deleted_can_be_created_again(graph: KnowledgeGraph) -> None:
    for _ in range(3):
        assert graph.create_entities([ALICE]) == [ALICE]
        assert graph.create_relations([KNOWS]) == [KNOWS]
        graph.delete_entities(["Alice"])
        assert graph.read_graph() == EMPTY


# -- reading ---------------------------------------------------------------------------------------------


def test_of_an_empty_memory_the_graph_is_empty(graph: KnowledgeGraph) -> None:
    assert graph.read_graph() == EMPTY


@pytest.fixture
def company(graph: KnowledgeGraph) -> KnowledgeGraph:
    graph.create_entities(
        [
            {**ALICE, "observations": ["works at Acme Corp", "likes programming"]},
            {"name": "Bob", "entityType": "person", "observations": ["works at TechCo"]},
            {"name": "Acme Corp", "entityType": "company", "observations": ["tech company"]},
        ]
    )
    graph.create_relations([link("Alice", "Acme Corp", "works_at"), link("Bob", "Acme Corp", "competitor")])
    return graph


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("Alice", ["Alice"]),
        ("company", ["Acme Corp"]),
        ("programming", ["Alice"]),
        ("ALICE", ["Alice"]),
        ("acme", ["Alice", "Acme Corp"]),
        ("NonExistent", []),
        ("", ["Alice", "Bob", "Acme Corp"]),
    ],
)
def test_search_looks_at_names_types_and_observations_in_any_case(
    company: KnowledgeGraph, query: str, found: list[str]
) -> None:
    assert names(company.search_nodes(query)) == found


def test_search_gives_the_relations_at_what_it_finds(company: KnowledgeGraph) -> None:
    assert len(company.search_nodes("Acme")["relations"]) == 2
    assert company.search_nodes("Alice")["relations"] == [link("Alice", "Acme Corp", "works_at")]
    assert company.search_nodes("NonExistent") == EMPTY


@pytest.mark.parametrize(
    ("opened", "relations"),
    [
        (["Alice", "Bob"], [("Alice", "Bob"), ("Bob", "Charlie")]),
        (["Bob"], [("Alice", "Bob"), ("Bob", "Charlie")]),
        (["Alice"], [("Alice", "Bob")]),
        (["Charlie"], [("Bob", "Charlie")]),
        (["NonExistent"], []),
        ([], []),
    ],
)
def test_opened_entities_come_with_all_relations_at_them(
    graph: KnowledgeGraph, opened: list[str], relations: list[tuple[str, str]]
) -> None:
    people(graph, "Alice", "Bob", "Charlie")
    graph.create_relations([link("Alice", "Bob"), link("Bob", "Charlie")])
    found = graph.open_nodes(opened)
    assert names(found) == [name for name in opened if name != "NonExistent"]
    assert [(each["from"], each["to"]) for each in found["relations"]] == relations


# -- as records ------------------------------------------------------------------------------------------


def test_the_graph_is_there_when_the_memory_is_opened_again(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        memory.knowledge_graph().create_entities([ALICE])
        memory.knowledge_graph().create_relations([KNOWS])
    with Memory.open(tmp_path) as memory:
        assert memory.knowledge_graph().read_graph() == {"entities": [ALICE], "relations": [KNOWS]}


def test_what_is_in_the_graph_is_found_by_every_search(company: KnowledgeGraph, memory: Memory) -> None:
    assert memory.search("who likes programming?")[0].content == "Alice: likes programming"
    assert "Bob competitor Acme Corp" in [hit.content for hit in memory.search("competitor of Acme Corp")]


def test_what_is_deleted_is_archived_and_an_undo_brings_it_back(
    company: KnowledgeGraph, memory: Memory
) -> None:
    before = company.read_graph()
    company.delete_entities(["Acme Corp"])
    assert "Acme Corp: tech company" not in [hit.content for hit in memory.search("tech company")]
    assert [row.operation for row in memory.history.log()[-2:]] == ["delete"] * 2
    memory.history.undo(batch=memory.history.log()[-1].batch)
    assert company.read_graph() == before


def test_every_call_is_one_transaction(company: KnowledgeGraph, memory: Memory) -> None:
    batches = {row.batch for row in memory.history.log()}
    assert len(batches) == 2


def test_what_a_person_changed_in_a_record_shows_in_the_graph(graph: KnowledgeGraph, memory: Memory) -> None:
    graph.create_entities([ALICE])
    (record,) = [each for each in memory.list() if "works" in each.content]
    memory.update(record.id, content="Alice: works at Umbrella")
    assert graph.read_graph()["entities"][0]["observations"] == ["works at Umbrella"]


def test_a_scope_has_a_graph_of_its_own(memory: Memory) -> None:
    alice, bob = memory.scoped("user:alice").knowledge_graph(), memory.scoped("user:bob").knowledge_graph()
    alice.create_entities([ALICE])
    assert bob.read_graph() == memory.knowledge_graph().read_graph() == EMPTY
    bob.create_entities([ALICE])
    bob.delete_entities(["Alice"])
    assert alice.read_graph()["entities"] == [ALICE]
    with pytest.raises(InvalidInput, match="scope"):
        memory.scoped("user:alice").scoped("*")


def test_a_graph_that_follows_changes_is_the_one_that_is_read_anew(memory: Memory) -> None:
    graph, other = memory.knowledge_graph(), memory.knowledge_graph()
    chance = random.Random(7)
    some = [f"e{n}" for n in range(5)]
    for step in range(120):
        a, b, writer = chance.choice(some), chance.choice(some), chance.choice([graph, other])
        match chance.randrange(9):
            case 0 | 1 | 2:
                writer.create_entities([{"name": a, "entityType": "t", "observations": [f"o{step}"]}])
                writer.add_observations([{"entityName": a, "contents": [f"said in {step}", "always"]}])
            case 3:
                writer.create_relations([link(a, b)])
            case 4:
                writer.delete_entities([a])
            case 5:
                writer.delete_observations([{"entityName": a, "observations": ["always"]}])
            case 6:
                writer.delete_relations([link(a, b)])
            case 7:
                memory.save(f"In step {step} nothing of the graph was changed")
                memory.scoped("user:alice").knowledge_graph().create_entities([ALICE])
            case _:
                if newest := memory.history.log(after=0, limit=10_000)[-1:]:
                    memory.history.undo(batch=newest[0].batch)
        anew = memory.knowledge_graph().read_graph()
        assert graph.read_graph() == anew, step
        assert other.open_nodes(some)["entities"] == anew["entities"], step


def test_a_secret_in_an_observation_is_not_kept(graph: KnowledgeGraph, memory: Memory) -> None:
    url = "postgres://app:kT9x-2vQ@db.internal/app"
    people(graph, "db")
    (told,) = graph.add_observations([{"entityName": "db", "contents": [url]}])
    assert "kT9x" not in json.dumps([told, graph.read_graph(), [r.to_dict() for r in memory.list()]])
    assert graph.add_observations([{"entityName": "db", "contents": [url]}])[0]["addedObservations"] == []


def test_an_imported_graph_is_the_graph(memory: Memory, tmp_path: Path) -> None:
    lines = [
        {"type": "entity", **ALICE, "observations": ["works at Acme Corp", "Alice: knows Bob"]},
        {"type": "entity", "name": "Bob", "entityType": "person", "observations": []},
        {"type": "relation", **KNOWS},
    ]
    file = tmp_path / "memory.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    memory.admin.import_from(file)
    graph = memory.knowledge_graph()
    found = graph.read_graph()
    by_name = {each["name"]: each for each in found["entities"]}
    assert set(by_name["Alice"]["observations"]) == {"works at Acme Corp", "Alice: knows Bob"}
    assert by_name["Bob"] == {"name": "Bob", "entityType": "person", "observations": []}
    assert found["relations"] == [KNOWS]
    assert graph.create_entities([ALICE]) == graph.create_relations([KNOWS]) == []
    graph.delete_observations(
        [{"entityName": "Alice", "observations": ["works at Acme Corp", "Alice: knows Bob"]}]
    )
    assert {"name": "Alice", "entityType": "person", "observations": []} in graph.read_graph()["entities"]
    graph.delete_entities(["Alice", "Bob"])
    assert graph.read_graph() == EMPTY


# -- many at once ----------------------------------------------------------------------------------------


def at_once(*calls: Callable[[], object]) -> None:
    begin = threading.Barrier(len(calls))
    failed: list[Exception] = []

    def run(call: Callable[[], object]) -> None:
        begin.wait()
        try:
            call()
        except Exception as error:  # noqa: BLE001 - raised again below, by the assertion
            failed.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_twenty_calls_at_once_keep_all_twenty(graph: KnowledgeGraph) -> None:
    at_once(
        *(
            lambda n=n: graph.create_entities(
                [{"name": f"e{n}", "entityType": "t", "observations": [f"o{n}"]}]
            )
            for n in range(20)
        )
    )
    assert sorted(names(graph.read_graph())) == sorted(f"e{n}" for n in range(20))


def test_the_same_entity_created_by_all_at_once_is_created_by_one(memory: Memory) -> None:
    made: list[int] = []
    graphs = [memory.knowledge_graph() for _ in range(8)]
    at_once(*(lambda graph=graph: made.append(len(graph.create_entities([ALICE]))) for graph in graphs))
    assert sorted(made) == [0] * 7 + [1]


def test_observations_added_at_once_to_one_entity_are_all_kept(memory: Memory) -> None:
    people(memory.knowledge_graph(), "Alice")
    graphs = [memory.knowledge_graph() for _ in range(20)]
    at_once(
        *(
            lambda n=n, graph=graph: graph.add_observations(
                [{"entityName": "Alice", "contents": [f"fact {n}"]}]
            )
            for n, graph in enumerate(graphs)
        )
    )
    (alice,) = memory.knowledge_graph().read_graph()["entities"]
    assert sorted(alice["observations"]) == sorted(f"fact {n}" for n in range(20))


_WRITER = """
import sys
from reverie import Memory
folder, name = sys.argv[1:]
with Memory.open(folder) as memory:
    graph = memory.knowledge_graph()
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(10):
        graph.create_entities([{"name": f"{name}{n}", "entityType": "t", "observations": [name]}])
        graph.create_entities([{"name": "shared", "entityType": "t", "observations": []}])
        graph.add_observations([{"entityName": "shared", "contents": [f"{name}{n}", "everybody's"]}])
"""


@pytest.mark.slow
def test_several_processes_at_once_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    Memory.open(tmp_path).close()
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for name in ("a", "b")
    ]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.readline()
    for writer in writers:
        writer.communicate(b"go\n", timeout=60)
    assert [writer.returncode for writer in writers] == [0, 0]
    with Memory.open(tmp_path) as memory:
        found = {each["name"]: each for each in memory.knowledge_graph().read_graph()["entities"]}
        assert memory.admin.check() == []
    own = [f"{name}{n}" for name in "ab" for n in range(10)]
    assert sorted(found) == sorted([*own, "shared"])
    assert sorted(found["shared"]["observations"]) == sorted([*own, "everybody's"])


# -- the tools -------------------------------------------------------------------------------------------


def test_an_observation_that_was_deleted_and_added_again_stands_last(graph: KnowledgeGraph) -> None:
    graph.create_entities([{**ALICE, "observations": ["first", "second", "third"]}])
    graph.delete_observations([{"entityName": "Alice", "observations": ["first"]}])
    graph.add_observations([{"entityName": "Alice", "contents": ["fourth", "first", "fifth"]}])
    expected = ["second", "third", "fourth", "first", "fifth"]
    assert graph.read_graph()["entities"][0]["observations"] == expected


def test_what_was_deleted_and_created_again_stands_where_it_was_put(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    with Memory.open(tmp_path / "still", clock=lambda: moment) as memory:  # a clock that never advances
        graph = memory.knowledge_graph()
        people(graph, "Alice", "Bob")
        graph.create_relations([link("Alice", "Bob"), link("Bob", "Alice")])
        graph.delete_entities(["Alice"])
        people(graph, "Carol", "Alice", "Dan")
        graph.create_relations([link("Carol", "Bob"), link("Alice", "Bob"), link("Dan", "Bob")])
        assert names(graph.read_graph()) == ["Bob", "Carol", "Alice", "Dan"]
        assert [each["from"] for each in graph.read_graph()["relations"]] == ["Carol", "Alice", "Dan"]
        assert memory.admin.check() == []


def test_an_entity_may_have_an_empty_name_and_empty_observations(tools: Toolset) -> None:
    nameless = {"name": "", "entityType": "", "observations": ["", "is nobody"]}
    assert tools.call("create_entities", {"entities": [nameless]}).data == {"entities": [nameless]}
    assert tools.call("open_nodes", {"names": [""]}).data == {"entities": [nameless], "relations": []}
    added = tools.call("add_observations", {"observations": [{"entityName": "", "contents": ["x"]}]})
    assert added.data == {"results": [{"entityName": "", "addedObservations": ["x"]}]}
    assert not tools.call("delete_entities", {"entityNames": [""]}).failed
    assert tools.call("read_graph").data == EMPTY


def test_unknown_arguments_are_ignored_as_by_the_reference_server(tools: Toolset) -> None:
    told = tools.call("create_entities", {"entities": [ALICE], "entity": 1, "comment": "x"})
    assert told.data == {"entities": [ALICE]}
    assert tools.call("read_graph", {"random_string": "x"}).data == {"entities": [ALICE], "relations": []}


def test_the_nine_tools_have_the_reference_servers_names_and_hints(tools: Toolset) -> None:
    hints = {tool.name: (tool.reads_only, tool.destructive, tool.idempotent) for tool in tools}
    creating, deleting, reading = (False, False, False), (False, True, True), (True, False, True)
    assert hints == {
        "create_entities": creating,
        "create_relations": creating,
        "add_observations": creating,
        "delete_entities": deleting,
        "delete_observations": deleting,
        "delete_relations": deleting,
        "read_graph": reading,
        "search_nodes": reading,
        "open_nodes": reading,
    }


def test_answers_have_the_reference_servers_shapes(tools: Toolset) -> None:
    told = tools.call("create_entities", {"entities": [{**ALICE, "type": "entity"}]})
    assert (told.data, json.loads(told.text)) == ({"entities": [ALICE]}, [ALICE])
    assert told.text == json.dumps([ALICE], indent=2)
    told = tools.call("create_relations", {"relations": [KNOWS]})
    assert (told.data, json.loads(told.text)) == ({"relations": [KNOWS]}, [KNOWS])
    told = tools.call("add_observations", {"observations": [{"entityName": "Alice", "contents": ["é"]}]})
    added = [{"entityName": "Alice", "addedObservations": ["é"]}]
    assert (told.data, json.loads(told.text)) == ({"results": added}, added)
    assert "é" in told.text
    for name, arguments in (
        ("read_graph", {}),
        ("search_nodes", {"query": ""}),
        ("open_nodes", {"names": ["Alice"]}),
    ):
        told = tools.call(name, arguments)
        assert told.data == json.loads(told.text)
        assert names(json.loads(told.text)) == ["Alice"]
    for name, what, arguments in (
        (
            "delete_observations",
            "Observations",
            {"deletions": [{"entityName": "Alice", "observations": ["é"]}]},
        ),
        ("delete_relations", "Relations", {"relations": [KNOWS]}),
        ("delete_entities", "Entities", {"entityNames": ["Alice"]}),
    ):
        told = tools.call(name, arguments)
        message = f"{what} deleted successfully"
        assert (told.text, told.data) == (message, {"success": True, "message": message})
    assert tools.call("read_graph").data == EMPTY


def test_an_unknown_entity_is_told_in_the_reference_servers_words(tools: Toolset) -> None:
    told = tools.call("add_observations", {"observations": [{"entityName": "Nobody", "contents": ["x"]}]})
    assert (told.text, told.failed) == ("Entity with name Nobody not found", True)


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("create_entities", {}, "entities"),
        ("create_entities", {"entities": [{"name": "x"}]}, "entityType"),
        ("create_entities", {"entities": [{**ALICE, "observations": [1]}]}, "observations"),
        ("search_nodes", {}, "query"),
        ("open_nodes", {"names": [["x"]]}, "names"),
    ],
)
def test_a_wrong_call_is_told_what_is_wrong(
    tools: Toolset, name: str, arguments: dict[str, Any], says: str
) -> None:
    told = tools.call(name, arguments)
    assert told.failed
    assert says in told.text
    assert tools.call("read_graph").data == EMPTY


def test_the_tools_are_a_group_of_the_memorys_tools(memory: Memory) -> None:
    tools = memory.tools(groups=["knowledge_graph"])
    assert len(tools) == 9
    assert "create_entities" not in memory.tools().names


@pytest.mark.parametrize("wrong", [10**5_000, 5, None, b"Ada"], ids=["long", "number", "none", "bytes"])
def test_a_text_that_is_none_is_refused(memory: Memory, wrong: Any) -> None:
    graph = memory.knowledge_graph()
    for entity in (wrong, {"name": wrong, "entityType": "", "observations": []}):
        with pytest.raises(InvalidInput, match="pass a"):
            graph.create_entities([entity])
    with pytest.raises(InvalidInput, match="pass a"):
        graph.open_nodes(wrong)
