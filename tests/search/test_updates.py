"""What is newer stands before what it replaces."""

from __future__ import annotations

import doctest
import itertools
import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.filter import Filter
from reverie.domain.passage import Passage
from reverie.domain.record import Record
from reverie.domain.text.tokenizer import pack, tokenize
from reverie.memory import Memory
from reverie.search import updates
from reverie.search.hits import Explanation, Hit
from reverie.search.updates import Matched, RareWords, order_by_time, put_successors_first
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
INTERNET = ("Internet is Megacable, 549 a month", "Switched the house to Totalplay internet")
HOSTS = (
    "staging runs on a Linode VM (stg-01)",
    "prod runs on AWS",
    "moved staging over to Hetzner, box is called falke",
    "moved prod over to Azure",
)

ALONE = [
    ("the valid one", INTERNET, "which internet do we have?", 1),
    ("the past", INTERNET, "which internet did we have before?", 0),
    (
        "another topic with a word of the question",
        ("Anna plays the violin on Mondays at school", "Anna is allergic to nuts"),
        "when does Anna play the violin?",
        0,
    ),
    (
        "the rarest word of the question",
        ("Mateo's passport runs out on 9 February", "Mateo's new passport is in the metal box", "We run"),
        "when does Mateo's passport run out?",
        1,
    ),
    (
        "all words of the question against none",
        ("Brewery Elster: labels for Winterbock, contact Ronny", "Winterbock done, Ronny was pleased"),
        "who is the contact at the Elster brewery?",
        0,
    ),
    (
        "a day",
        ("Dinner with Iker at the lake", "Dinner with Iker at the mill"),
        "dinner with Iker on 1 January 2026?",
        0,
    ),
]

AMONG_OTHERS = [
    ("another of the same kind", *case, 0)
    for case in [
        (("Leo's dentist is Dr Marsh", "Nora's dentist is Dr Patel"), "who is Leo's dentist?"),
        (
            ("The flat in Leeds costs £700 rent", "The flat in York costs £820 rent"),
            "what rent is the flat in Leeds",
        ),
        (
            ("Backup of the NAS runs at 02:00", "Backup of the laptop runs at 13:00"),
            "when does the NAS backup run",
        ),
        (("Jonas hat am Montag Judo", "Mia hat am Donnerstag Judo"), "Wann hat Jonas Judo?"),
    ]
] + [
    ("another fact about a name in the answer", *case, 0)
    for case in [
        (
            (
                "Hired Imani for the weekends, $17 an hour, she speaks Spanish",
                "Delia handed in her notice and Imani takes over her class",
            ),
            "what language does Imani speak?",
        ),
        (
            (
                "Registered with Elm Grove Surgery, they answer phones from 8 to 9",
                "Dr Patel retired, now it is Dr Lomax at the same surgery",
            ),
            "when do they answer the phone at the surgery?",
        ),
        (
            (
                "Wife is Ana, we married in Porto in June 2016",
                "Mum's operation is on 9 June, I moved two meetings for it",
            ),
            "when's our anniversary?",
        ),
        (
            (
                "Leo's piano lesson is Mondays at 4",
                "Standup is at 10:00 from Monday, it changed because of Boston",
            ),
            "when is Leo's piano lesson?",
        ),
        (
            (
                "School run: Lena at Kirkwood Primary, the gate code is on the card",
                "Oskar changed from the playgroup to Kirkwood nursery",
            ),
            "what's the gate code at school?",
        ),
        (
            ("Sara's birthday is 3 May", "Sara wants a bike bell for her birthday"),
            "when is Sara's birthday?",
        ),
        (
            ("Petra hat am 3. Mai Geburtstag", "Petra wünscht sich zum Geburtstag einen Blumenstrauß"),
            "wann hat Petra Geburtstag?",
        ),
        (("The tent is kept by Ottokar", "Ottokar likes to sing in a choir"), "where is the tent?"),
    ]
] + [
    ("a report of a change that names the old value", *case, 1)
    for case in [
        (
            ("My phone is a Pixel 7.", "Dropped the Pixel in the sink and bought a Fairphone 5."),
            "what phone do I have?",
        ),
        (
            (
                "Mein Chef ist Herr Brinkmann, er leitet den Fuhrpark.",
                "Brinkmann ist in den Ruhestand gegangen, Frau Özdemir hat den Fuhrpark übernommen.",
            ),
            "Wer ist mein Chef?",
        ),
        (
            (
                "C'est Fatou qui garde Hugo le mercredi.",
                "Fatou a changé de métier, voyez avec Maëlle.",
            ),
            "qui est-ce qui garde Hugo ?",
        ),
        (
            (
                "Mein Hausarzt ist Dr. Reimann in der Gartenstraße.",
                "Dr. Reimann ist in Rente, ich gehe jetzt zu Dr. Sato.",
            ),
            "Zu welchem Hausarzt gehe ich?",
        ),
    ]
] + [
    ("a report of a change of the subject", HOSTS, "where does staging run?", 2),
    ("a report of a change of the subject", HOSTS, "where does prod run?", 3),
]  # fmt: skip


def test_the_fact_that_answers_comes_first_of_older_and_newer_ones(tmp_path: Path) -> None:
    for number, (why, texts, question, first) in enumerate(ALONE + AMONG_OTHERS):
        others = OTHERS if number >= len(ALONE) else []
        with remember(tmp_path / str(number), [*others, *texts]) as memory:
            found = [hit.content for hit in memory.search(question)]
            assert found[0] == texts[first], (why, question)
            if first == 1 and others:
                assert found[1] == texts[0], (why, question)


def test_a_newer_fact_is_known_by_a_rare_word_that_the_question_lacks(tmp_path: Path) -> None:
    texts = [
        "Monitoring: Datadog is the vendor, the budget bears a monthly bill of $4.1k",
        "Datadog is gone, Grafana Cloud sends a monthly bill of $900",
        "The coffee machine is cleaned in May",
    ]
    with remember(tmp_path, texts) as memory:
        found = [
            hit.content
            for hit in memory.search("what vendor for monitoring, with what budget and monthly bill?")
        ]
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


def test_what_ended_many_hits_is_read_at_once() -> None:
    later = START + timedelta(days=1)

    def make(number: int) -> Record:
        return make_record(
            number,
            valid_to=START if number < 20 else None,
            replaced_by=make_record(number + 10).id if number < 20 else "",
        )

    calls: list[int] = []

    def get_records(ids: Sequence[str]) -> list[Record]:
        calls.append(len(ids))
        return [known[name] for name in ids]

    known = {record.id: record for record in map(make, range(30))}
    hits = [Hit(score=0.5, explanation=Explanation(), record=make(number)) for number in range(10)]
    shown = put_successors_first(hits, later, get_records, lambda record: True)
    assert {hit.id for hit in shown[:10]} == {make(number).id for number in range(20, 30)}
    assert calls == [10, 10]


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
