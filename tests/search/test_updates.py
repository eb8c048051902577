"""What is newer stands before what it replaces."""

from __future__ import annotations

import doctest
import itertools
import json
import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.filter import Filter
from reverie.domain.passage import Passage
from reverie.domain.text.tokenizer import pack, tokenize
from reverie.memory import Memory
from reverie.search import updates
from reverie.search.updates import Matched, RareWords, order_by_time
from tests.factories import end_record, make_record

START = datetime(2026, 1, 1, tzinfo=UTC)


def end_all(memory: Memory, *texts: str) -> None:
    """End each of some records for the next."""
    for old, new in itertools.pairwise(texts):
        known = {each.content: each for each in memory._store.find(Filter())}
        end_record(memory, known[old], known[new])


def remember(folder: Path, texts: list[str]) -> Memory:
    now = [START]
    memory = Memory.open(folder, clock=lambda: now[0])
    for text in texts:
        memory.save(text, category="home")
        now[0] += timedelta(days=30)
    return memory


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(updates).failed == 0


OTHERS = [f"Shelf {number} holds box {number * 7919 % 997}" for number in range(30)]
CASES = [
    json.loads(line) for line in Path(__file__).with_name("updates.jsonl").read_text("utf-8").splitlines()
]


def test_the_fact_that_answers_comes_first_of_older_and_newer_ones(tmp_path: Path) -> None:
    for number, case in enumerate(CASES):
        texts, first = case["texts"], case["first"]
        with remember(tmp_path / str(number), texts if case["alone"] else [*OTHERS, *texts]) as memory:
            found = [hit.content for hit in memory.search(case["question"])]
            assert found[0] == texts[first], case
            if first == 1 and not case["alone"]:
                assert found[1] == texts[0], case


def test_a_newer_fact_is_known_by_a_rare_word_that_the_question_lacks(tmp_path: Path) -> None:
    texts = [
        "Monitoring: Datadog is the vendor, the budget bears a monthly bill of $4.1k",
        "Datadog is gone, Grafana Cloud sends a monthly bill of $900",
        "The coffee machine is cleaned in May",
    ]
    with remember(tmp_path, texts) as memory:
        question = "what vendor for monitoring, with what budget and monthly bill?"
        found = [hit.content for hit in memory.search(question)]
        assert found.index(texts[1]) < found.index(texts[0])


def test_a_newer_fact_of_another_category_is_about_another_thing(tmp_path: Path) -> None:
    now = [START]
    with Memory.open(tmp_path, clock=lambda: now[0]) as memory:
        memory.save("Certificate of slotwise lapsed, incident of 34 minutes", category="incident")
        now[0] += timedelta(days=30)
        memory.save("The certificate and domain slotwise are at Gandi", category="infra")
        assert memory.search("which incident was the certificate?")[0].content.startswith("Certificate")


def test_a_newer_fact_without_a_word_of_the_question_is_looked_up(tmp_path: Path) -> None:
    others = [f"Room {number} of the house was painted in another colour" for number in range(60)]
    texts = [
        "The house has internet from Megacable, 100 megas",
        *others,
        "Totalplay with 300 megas, Megacable is out",
    ]
    with remember(tmp_path, texts) as memory:
        found = memory.search("what internet provider does the house have?", limit=5)
        assert found[0].content == texts[-1]
        found = memory.search("what internet provider did the house have before?", limit=5)
        assert found[0].content == texts[0]


def test_of_two_records_that_share_many_words_the_newer_stands_first() -> None:
    older = match(1, "Mila has a violin lesson at four on Wednesday")
    newer = match(9, "Mila has her violin hour at five on Thursday", score=0.3)
    places = order_by_time(
        [older, newer],
        {"lesson": 9, "wednesday": 9},
        get_records=lambda keys: [make_record() for _ in keys],
        rare_words=RareWords(lambda words: dict.fromkeys(words, 2), 100),
    )
    assert places == [1, 0]


def test_the_words_of_a_record_find_it_first_although_newer_ones_resemble_it(tmp_path: Path) -> None:
    texts = [f"Crate s70{n} holds {('figs', 'plums', 'pears')[n % 3]}" for n in range(9)]
    with remember(tmp_path, texts) as memory:
        assert [memory.search(text, limit=1)[0].content for text in texts] == texts


def test_what_was_told_at_once_keeps_its_order() -> None:
    first, second = (
        Matched(Passage(key, pack(tokenize(text)), 4, at=60.0 * key), 0.5)
        for key, text in enumerate(("port of staging 8443", "port of staging proxy 9443"))
    )
    assert order([first, second], ["port"]) == [0, 1]


def test_a_newer_text_that_shares_half_of_the_question_stays_behind_the_one_that_has_all(
    tmp_path: Path,
) -> None:
    chores = "Chayo waters the plants, feeds cats, cleans windows, brings bread, walks dogs and sweeps the yard daily"
    with remember(tmp_path, ["We pay Chayo 450 daily", chores]) as memory:
        assert memory.search("what do we pay Chayo daily?")[0].content.startswith("We pay")
    assert order(
        [match(1, "pay Chayo 450 daily"), match(9, "Chayo 520 daily")], tokenize("pay Chayo daily")
    ) == [1, 0]


def test_two_records_that_are_found_by_their_vectors_alone_keep_their_order() -> None:
    places = order_by_time(
        [match(1, "自転車 青い"), match(9, "電車 赤い")],
        {"vehicle": 0},
        get_records=lambda keys: [make_record() for _ in keys],
        rare_words=RareWords(lambda words: dict.fromkeys(words, 2), 2),
    )
    assert places == [0, 1]


def test_vectors_tell_that_two_records_with_few_common_words_are_of_one_thing() -> None:
    for nearness, places in [(3.0, [1, 0]), (0.0, [0, 1]), (None, [0, 1])]:
        found = order_by_time(
            [match(1, "Rosa teaches the piano pupils"), match(40, "The pupils have lessons from Ines")],
            {"pupil": 2},
            get_records=lambda keys: [make_record() for _ in keys],
            rare_words=RareWords(lambda words: dict.fromkeys(words, 9), 100),
            get_likeness=lambda one, other, nearness=nearness: nearness,
        )
        assert found == places


def match(day: int, text: str, *, score: float = 0.5) -> Matched:
    """Return a record that was told on some day and matched."""
    tokens = tokenize(text)
    return Matched(Passage(day, pack(tokens), len(tokens), at=86_400.0 * day), score)


def order(matches: Sequence[Matched], asked: Collection[str]) -> list[int]:
    """Order matches of one category, in which every word is rare."""
    return order_by_time(
        matches,
        dict.fromkeys(asked, 1),
        get_records=lambda keys: [make_record() for _ in keys],
        rare_words=RareWords(lambda words: dict.fromkeys(words, 1), len(matches)),
    )


PASSAGES = st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1e7), st.floats(0.01, 1)), max_size=8)


@given(PASSAGES)
def test_every_hit_keeps_a_place(values: list[tuple[str, float, float]]) -> None:
    matches = [
        Matched(Passage(key, f" word  {word}word ", 2, at=at), score)
        for key, (word, at, score) in enumerate(sorted(values, key=lambda value: -value[2]))
    ]
    assert sorted(order(matches, ["word"])) == list(range(len(matches)))


def test_what_ended_a_fact_stands_before_it_though_it_has_no_word_of_the_question(tmp_path: Path) -> None:
    texts = [
        "The project is called Bluebird",
        "The main branch is deployed on Mondays",
        "Bluebird was renamed to Kestrel",
        "Kestrel was renamed to Merlin",
    ]
    question = "what is our project called?"
    with remember(tmp_path, texts) as memory:
        end_all(memory, texts[0], texts[2], texts[3])
        first = memory.search(question)[0]
        assert first.content == texts[3]
        assert first.explanation.note == "holds now in place of a hit"
        assert texts[3] in memory.session("s").context(question).text
        assert memory.search("what was our project called before?")[0].content == texts[0]
        memory.archive(first.id)
        assert memory.search(question)[0].content != texts[3]


def test_what_ended_a_fact_stands_before_it_among_several_scopes(tmp_path: Path) -> None:
    now = [START]
    with Memory.open(tmp_path, clock=lambda: now[0]) as memory:
        alice = memory.scoped("user:alice")
        memory.save("The project of the company is called Bluebird")
        alice.save("The project is called Robin")
        alice.save("The project of the garden is called Fern")
        now[0] += timedelta(days=30)
        alice.save("Robin was renamed to Wren")
        end_all(memory, "The project is called Robin", "Robin was renamed to Wren")
        found = [hit.content for hit in alice.search("what is our project called?")]
        assert found.index("Robin was renamed to Wren") < found.index("The project is called Robin")


def test_a_question_about_the_past_finds_what_was_ended_first_and_its_prompt_shows_it(tmp_path: Path) -> None:
    with remember(tmp_path, ["I live in Graz", "I live in Linz now", "I live in Wels now"]) as memory:
        end_all(memory, "I live in Graz", "I live in Linz now", "I live in Wels now")
        now, before = "where do I live?", "where did I live before?"
        assert memory.search(now)[0].content == "I live in Wels now"
        assert memory.search(before)[0].content == "I live in Graz"
        assert memory.search(before)[-1].content == "I live in Wels now"
        session = memory.session("chat:1")
        assert "Graz" not in session.context(now).text
        shown = session.context(before).text
        assert "I live in Wels now (holds from " in shown
        assert re.search(r"I live in Graz \(held until \d{4}-\d\d-\d\d\)", shown)
        assert re.search(r"I live in Linz now \(held from \S+ until \S+\)", shown)
