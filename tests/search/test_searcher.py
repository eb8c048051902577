"""What a search finds, in which order, and why."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reverie import EVERY_SCOPE, Change, InvalidInput, Memory, Settings
from reverie.search import hits
from reverie.search.analyzer import analyze
from reverie.search.hits import SOURCES
from tests.factories import MovableClock, get_search_index
from tests.support.contract.factories import make_record


def contents(hits: list[object]) -> list[str]:
    return [hit.content for hit in hits]  # type: ignore[attr-defined]


FOUND_BY_WORDS = [
    ("He plays rock. He enjoys music at home", {}),
    ("Rocky loves rock music", {}),
    ("User is in Chicago", {"category": "user-preferences/timezone", "tags": ["central-time"]}),
    ("The API uses OAuth2", {"kind": "finding", "category": "finding"}),
    ("A finding about tea", {"kind": "fact"}),
    ("The bug is in src/payments/retry_policy.py near parseConfig", {}),
    ("用户喜欢绿茶", {}),
    ("Пользователь живёт в Москве", {}),
    ("Das Café liegt an der Straße", {}),
    ("Mia's party is on Friday 🎂", {}),
    ("The deploy went well 👍🏽", {}),
]


SPELLED_OTHERWISE = [
    ("The port is \u0665\u0664\u0663\u0663 now", "5433"),  # Arabic-Indic
    ("The port is 5433 now", "\u096b\u096a\u0969\u0969"),  # Devanagari
    ("The port is \uff15\uff14\uff13\uff13 now", "port 5433"),  # full-width
    ("Paid \u0661\u066c\u0662\u0663\u0664\u066b\u0665 to Ann", "1,234.5"),
    ("The server runs on port5433", "5433"),
    ("The server runs on port5433", "port"),
    ("The server runs on port 5433", "port5433"),
    ("The SOC2 audit", "SOC 2"),
    ("Flight LH1234 at noon", "LH 1234"),
    ("Take 500mg of it", "500 mg"),
    ("Take 500 mg of it", "500mg"),
    ("A hy\u00adphen\u00ada\u00adted word", "hyphenated"),
    ("A hyphenated word", "hy\u00adphenated"),
    ("The pass\u200bword is\u2060 old", "password"),
    ("The password is old", "\ufeffpass\u200dword"),
    ("A wave of 5 \u212bngstr\u00f6m", "ångström"),
    ("A wave of 5 ångström", "\u212bngstrom"),
    ("Rice: 10 \u338f", "10 kg"),
    ("The o\ufb03ce is open", "office"),
]


def test_words_are_found_by_their_usual_forms_and_the_other_way_round(tmp_path: Path) -> None:
    for text, query in SPELLED_OTHERWISE:
        with Memory.open(":memory:", embedder="none") as memory:
            memory.save_many([text, "The cat sleeps", "Old letters from Rome"])
            assert contents(memory.search(query))[:1] == [text], (text, query)


def test_a_foreign_word_does_not_hide_the_english_words_of_a_short_record(memory: Memory) -> None:
    memory.save("The deployment ran well, so the meeting about restaurants was short")
    for text, query in [
        ("Meetings über bicycles", "bicycle"),
        ("Restaurants near the 寿司 bar", "restaurant"),
        ("Invoices for Дмитрий", "invoice"),
        ("Loves déjà vu movies", "movie"),
        ("Hola parties weekly", "party"),
        ("Dietary: sans cookies", "cookie"),
        ("Kim's passports expire in août", "passport"),
        ("Deployments use λ functions", "function"),
        ("Kim's biscuits hem", "biscuit"),
        ("Greetings such as مرحبا", "greeting"),
    ]:
        memory.save(text)
        assert text in contents(memory.search(query)), query


def test_another_value_is_not_found_by_a_related_word_alone(memory: Memory) -> None:
    memory.save_many(
        ["The bike is blue", "Das Haus ist grün", "Her brother is a cook", "The tower has seven floors"]
    )
    for query in ["Is my car red?", "Ist mein Hut gelb?", "Who has a sister?", "Do nine apply?"]:
        assert memory.search(query) == [], query
    memory.save_many(["The tea is ready", "He plays tennis"])
    for query in ["Is there coffee?", "Does Ann swim? Swimming", "Speaks French?"]:
        assert memory.search(query) == [], query
    assert contents(memory.search("Is it azul?")) == ["The bike is blue"]


def test_records_are_found_by_their_words_tags_categories_paths_and_signs(memory: Memory) -> None:
    for text, fields in FOUND_BY_WORDS:
        memory.save(text, **fields)  # type: ignore[arg-type]
    for query, expected in [
        ("rock music", 1),  # before the words apart
        ("timezone", 2),
        ("central time", 2),
        ("finding", 4),  # the name of a kind is not a word of its records
        *((query, 5) for query in ("retry_policy", "retry policy", "src/payments/retry_policy.py")),
        *((query, 5) for query in ("parseConfig", "parse config")),
        ("绿茶", 6),
        ("москве", 7),
        ("cafe", 8),
        ("🎂", 9),
        ("👍", 10),
    ]:
        found = contents(memory.search(query))
        assert found[:1] == [FOUND_BY_WORDS[expected][0]], query
    assert len(memory.search("finding")) == 1
    assert memory.search("🐈") == []


def test_no_question_lists_the_newest_and_an_empty_one_finds_nothing(
    memory: Memory, clock: MovableClock
) -> None:
    for n in range(4):
        memory.save(f"Fact number {n}")
        clock.move(minutes=1)
    oldest = memory.list()[-1]
    memory.update(oldest.id, importance=0.9)
    assert contents(memory.search(limit=2)) == ["Fact number 0", "Fact number 3"]
    assert memory.search("") == memory.search("?!") == memory.search("a b") == []


def test_nothing_relevant_is_an_answer(memory: Memory) -> None:
    for text in ("Deploys happen on Tuesdays", "The staging port is 5433", "Ann prefers tea"):
        memory.save(text)
    assert memory.search("who won the chess tournament in Reykjavik") == []


def test_a_handful_of_memories_answers_questions_in_other_words(memory: Memory) -> None:
    for text in (
        "My accountant is Mrs Okafor",
        "My dentist is Dr Lin in Oxford Street",
        "The car is a blue Volvo from 2014",
        "Standup is at half past nine",
        "I am allergic to hazelnuts",
    ):
        memory.save(text)
    assert contents(memory.search("who does my taxes?"))[0] == "My accountant is Mrs Okafor"
    assert contents(memory.search("who looks after my teeth?"))[0].startswith("My dentist")
    assert contents(memory.search("what do I drive?"))[0].startswith("The car")
    assert memory.search("whose passport expires in July?") == []


def test_freshness_never_lifts_what_is_irrelevant(memory: Memory, clock: MovableClock) -> None:
    memory.save("The invoice printer needs blue toner", importance=0.1, confidence=0.3)
    clock.move(days=900)
    memory.save("The kitchen has a new toaster", importance=1.0, confidence=1.0)
    assert contents(memory.search("invoice printer toner")) == ["The invoice printer needs blue toner"]


def test_among_equals_the_important_the_sure_and_the_fresh_come_first(
    memory: Memory, clock: MovableClock
) -> None:
    memory.save("Server alpha runs Linux", importance=0.2)
    memory.save("Server beta runs Linux", importance=0.9)
    hits = memory.search("server linux")
    assert contents(hits) == ["Server beta runs Linux", "Server alpha runs Linux"]
    assert hits[0].explanation.parts["importance"] == 0.9
    memory.save("Window one faces north")
    clock.move(days=200)
    memory.save("Window two faces north")
    assert contents(memory.search("window faces north")) == [
        "Window two faces north",
        "Window one faces north",
    ]


def test_every_hit_says_why(memory: Memory) -> None:
    memory.save("Rocky loves rock music")
    (hit,) = memory.search("rock music")
    assert set(hit.explanation.matched) == {"rock", "music"}
    assert {"relevance", "recency", "importance", "confidence"} <= set(hit.explanation.parts)
    assert all(0 <= part <= 1 for part in hit.explanation.parts.values())
    assert "matched" in str(hit.explanation)
    assert "rock" in str(hit.explanation)
    assert 0 < hit.score <= 1
    assert hit.to_dict()["explanation"]["matched"] == list(hit.explanation.matched)


def test_filters_are_part_of_the_question_and_never_starve_it(memory: Memory) -> None:
    memory.save_many({"content": f"tea tea tea number {n}", "category": "drinks"} for n in range(100))
    memory.save("Once, in a long note on many other subjects, somebody mentioned tea", category="notes")
    assert len(memory.search("tea", category="notes")) == 1
    assert len(memory.search("tea", category="drinks", limit=50)) == 50
    assert memory.search("tea", category="drink") == []


def test_filters_by_everything(memory: Memory, clock: MovableClock) -> None:
    start = clock.now
    memory.scoped("user:ann").save("Tea one", kind="decision", tags=["x", "y"], origin="web")
    clock.move(days=10)
    memory.save("Tea two", kind="lesson", tags=["x"], valid_from=start, valid_to=start + timedelta(days=1))
    assert contents(memory.scoped(EVERY_SCOPE).search("tea", kind=["lesson"])) == ["Tea two"]
    assert contents(memory.scoped(EVERY_SCOPE).search("tea", layer=["semantic"])) == ["Tea one"]
    assert contents(memory.scoped(EVERY_SCOPE).search("tea", tags=["x", "y"])) == ["Tea one"]
    assert contents(memory.scoped(EVERY_SCOPE).search("tea", origin=["web"])) == ["Tea one"]
    assert contents(memory.scoped("user:ann").search("tea", tags="y")) == ["Tea one"]
    assert contents(memory.search("tea")) == ["Tea two"]
    assert contents(memory.scoped(EVERY_SCOPE).search("tea", kind="lesson")) == ["Tea two"]
    assert contents(memory.scoped(EVERY_SCOPE).search("tea", created_after=start + timedelta(days=5))) == [
        "Tea two"
    ]
    assert contents(memory.scoped(EVERY_SCOPE).search("tea", created_before=start + timedelta(days=5))) == [
        "Tea one"
    ]
    assert contents(memory.scoped(EVERY_SCOPE).search("tea", valid_at=clock.now)) == ["Tea one"]
    assert len(memory.scoped(EVERY_SCOPE).search("tea", valid_at=start)) == 2
    best = memory.scoped(EVERY_SCOPE).search("tea")[0].score
    assert memory.scoped(EVERY_SCOPE).search("tea", min_score=min(1.0, best + 0.01)) == []


def test_statistics_of_one_scope_do_not_depend_on_another(tmp_path: Path, clock: MovableClock) -> None:
    def scores(folder: Path, *, crowd: bool) -> list[tuple[str, float]]:
        with Memory.open(folder, clock=clock) as memory:
            memory.scoped("ann").save("Ann drinks green tea")
            memory.scoped("ann").save("Ann drinks black coffee in the morning")
            if crowd:
                memory.scoped("bob").save_many({"content": f"green tea note {n}"} for n in range(100))
            return [(hit.content, hit.score) for hit in memory.scoped("ann").search("green tea drinks")]

    assert scores(tmp_path / "alone", crowd=False) == scores(tmp_path / "crowded", crowd=True)


def test_results_are_the_same_before_and_after_a_commit_of_the_index(
    tmp_path: Path, clock: MovableClock
) -> None:
    def found(memory: Memory) -> list[tuple[str, float]]:
        return [(hit.id, hit.score) for hit in memory.search("tea in the garden on day 7", limit=20)]

    with Memory.open(tmp_path, clock=clock) as memory:
        memory.save_many(
            {"content": f"Note {n}: tea{' garden' * (n % 12 == 0)} on day {n % 31}"} for n in range(300)
        )
        for record in memory.list(limit=20):
            memory.update(record.id, content=record.content + " in spring")
        for record in memory.list(limit=10, offset=50):
            memory.archive(record.id)
        waiting = found(memory)
        assert memory.admin.stats().index.waiting > 0
    with Memory.open(tmp_path, clock=clock) as memory:
        committed = found(memory)
        assert memory.admin.stats().index.waiting == 0
    shutil.rmtree(tmp_path / "index")
    with Memory.open(tmp_path, clock=clock) as memory:
        assert waiting == committed == found(memory)
    assert len(waiting) == 20


def test_the_list_from_several_sources_has_the_best_of_each(memory: Memory) -> None:
    chat = memory.session("cli:1")
    for pier, colour in enumerate(("red", "blue", "green", "white", "black", "grey", "brown", "pink")):
        memory.save(f"The {colour} ferry to the island leaves from pier {pier}.")
        chat.add("user", f"The {colour} ferry was late again at pier {pier}, and the island waited.")
        chat.add("user", f"Is there a {colour} one?")
    question = "From which pier does the white ferry to the island leave?"
    each = [hit for source in SOURCES for hit in memory.search(question, sources=source, limit=50)]
    best = sorted((hit.score for hit in each), reverse=True)
    for limit in (1, 2, 5, 8, 12, 50):
        found = memory.search(question, sources=SOURCES, limit=limit)
        assert [hit.score for hit in found] == best[:limit]
    assert {hit.type for hit in found} == {"record", "turn"}


def test_literal_and_pattern_search(memory: Memory, clock: MovableClock) -> None:
    memory.save("Run `make deploy --fast` twice")
    clock.move(minutes=1)
    memory.save("Error E4012: 100% of disk_1 used")
    memory.session("cli:1").add("user", "I saw error E4077 again")
    assert contents(memory.search("100% of disk_1", mode="literal")) == ["Error E4012: 100% of disk_1 used"]
    assert memory.search("100_ of", mode="literal") == []
    assert contents(memory.search(r"E\d{4}", mode="regex", sources="records")) == [
        "Error E4012: 100% of disk_1 used"
    ]
    assert contents(memory.search(r"E\d{4}", mode="regex", sources="turns")) == ["I saw error E4077 again"]
    assert len(memory.search(r"e40\d\d", mode="regex", sources=SOURCES)) == 2
    with pytest.raises(InvalidInput, match="regular expression"):
        memory.search("(", mode="regex")
    with pytest.raises(InvalidInput, match="mode is 'fuzzy'"):
        memory.search("x", mode="fuzzy")  # type: ignore[arg-type]


def test_a_bad_question_is_refused_by_name(memory: Memory) -> None:
    for arguments, says in [
        ({"query": "x" * 100_000, "mode": "literal"}, "query has 100,000 characters"),
        ({"query": "tea", "limit": 0}, "limit is 0"),
        ({"query": "tea", "limit": 5000}, "limit is 5000"),
        ({"query": "tea", "limit": True}, "limit is True"),
        ({"query": "tea", "min_score": 2}, "min_score is 2"),
        ({"query": "tea", "category": "a|b"}, "category is 'a|b'"),
        ({"query": "tea", "kind": ["opinion"]}, "kind is 'opinion'"),
        ({"query": "tea", "created_after": datetime(2025, 1, 1)}, "without a time zone"),  # noqa: DTZ001
        (
            {
                "query": "tea",
                "created_after": datetime(2025, 2, 1, tzinfo=UTC),
                "created_before": datetime(2025, 1, 1, tzinfo=UTC),
            },
            "swap them",
        ),
    ]:
        memory.save("Tea")
        with pytest.raises(InvalidInput, match=says):
            memory.search(**arguments)  # type: ignore[arg-type]


def test_turns_are_found_through_their_neighbours_their_speaker_and_their_date(
    memory: Memory, clock: MovableClock
) -> None:
    chat = memory.session("chat:1")
    for speaker, text in (
        ("Ann", "Did you find a place for the anniversary dinner?"),
        ("Bob", "Yes, the little one by the harbour."),
        ("Ann", "Wonderful."),
    ):
        chat.add("user", text, speaker=speaker, at=datetime(2024, 5, 7, 18, tzinfo=UTC))
    other = memory.session("chat:2")
    for text in ("Where shall we eat?", "I baked bread today", "The harbour was foggy"):
        other.add("user", text, speaker="Bob", at=datetime(2025, 1, 9, tzinfo=UTC))
    dinner = memory.search("anniversary dinner place", limit=2, sources="turns")
    assert set(contents(dinner)) == {
        "Did you find a place for the anniversary dinner?",
        "Yes, the little one by the harbour.",
    }
    assert (
        contents(memory.search("harbour in May 2024", sources="turns"))[0]
        == "Yes, the little one by the harbour."
    )
    assert contents(memory.search("What did Bob say about the harbour?", sources="turns"))[0].startswith(
        ("Yes", "The")
    )
    assert contents(memory.search("harbour", session="chat:2", sources="turns"))[0] == "The harbour was foggy"
    assert {
        hit.turn.session for hit in memory.search("harbour", session="chat:2", sources="turns") if hit.turn
    } == {"chat:2"}
    sessions = memory.search("anniversary dinner", unit="session", sources="turns")
    assert sessions[0].id == "chat:1"
    assert sessions[0].kind == "session"


def test_a_role_filter_holds_for_neighbours_too(memory: Memory) -> None:
    chat = memory.session("chat:1")
    chat.add("user", "Which port does staging use?")
    chat.add("assistant", "It is 5433.")
    assert {hit.turn.role for hit in memory.search("staging port", sources="turns") if hit.turn} == {
        "user",
        "assistant",
    }
    assert {
        hit.turn.role for hit in memory.search("staging port", role=["user"], sources="turns") if hit.turn
    } == {"user"}


def test_recall_brings_records_and_turns_together_without_repeats(memory: Memory) -> None:
    memory.save("Ann prefers green tea")
    chat = memory.session("chat:1")
    chat.add("user", "Ann prefers green tea")
    chat.add("user", "We ran out of green tea yesterday")
    found = memory.search("green tea", sources=SOURCES)
    assert contents(found).count("Ann prefers green tea") == 1
    assert {hit.kind for hit in found} == {"fact", "turn"}
    assert [hit.kind for hit in memory.search("green tea", kind=["fact"], sources=SOURCES)] == ["fact"]
    assert {hit.kind for hit in memory.search("green tea", session="chat:1", sources=SOURCES)} == {"turn"}
    scores = [hit.score for hit in found]
    assert scores == sorted(scores, reverse=True)


def test_sessions_stand_in_the_order_of_their_best_turns(memory: Memory) -> None:
    for name, texts in {"a": ["rock", "tea"], "b": ["rock music", "cake"], "c": ["music", "bread"]}.items():
        memory.session(name).add_many({"role": "user", "content": f"We spoke of {text}"} for text in texts)
    sessions = memory.search("rock music", unit="session", sources="turns")
    turns = memory.search("rock music", sources="turns")
    assert sessions[0].id == "b"
    assert sessions[0].score == turns[0].score
    assert [hit.id for hit in sessions] == list(dict.fromkeys(hit.turn.session for hit in turns if hit.turn))
    assert len(memory.search("rock music", unit="session", limit=1, sources="turns")) == 1


# -- the history -------------------------------------------------------------------------------------------


def tell(memory: Memory, *texts: str) -> None:
    for text in texts:
        memory.pages.append("HISTORY.md", text)


def test_paragraphs_of_the_history_are_found_by_their_words(memory: Memory) -> None:
    tell(
        memory,
        "[2025-01-15 10:31] User asked about deployment. Decided on GitHub Actions.",
        "[2025-02-01 09:00] Moved the database to port 5433.",
    )
    (hit,) = memory.search("which deployment did we decide on?", sources="pages")
    assert (hit.kind, hit.type, hit.layer, hit.is_trusted) == ("paragraph", "paragraph", "episodic", True)
    assert hit.content.startswith("[2025-01-15 10:31] User asked")
    assert hit.at == datetime(2025, 1, 15, 10, 31, tzinfo=UTC)
    assert {"decid", "deploy"} <= set(hit.explanation.matched)
    assert hit.metadata == {}
    assert hit.to_dict()["paragraph"]["page"] == "HISTORY.md"
    assert memory.get_paragraph(hit.id) == hit.paragraph
    assert memory.search("chess tournament in Reykjavik", sources="pages") == []
    assert memory.search("31", sources="pages") == []  # the time at its beginning is no word of it


def test_the_history_can_be_searched_literally_by_pattern_and_by_time(memory: Memory) -> None:
    tell(memory, "[2025-01-15 10:31] Run `make deploy --fast`.", "[2025-03-02 08:00] Fast again.")
    assert contents(memory.search("deploy --FAST", mode="literal", sources="pages")) == [
        "[2025-01-15 10:31] Run `make deploy --fast`."
    ]
    assert contents(memory.search("2025-03", mode="literal", sources="pages")) == [
        "[2025-03-02 08:00] Fast again."
    ]
    assert len(memory.search(r"fast\b", mode="regex", sources="pages")) == 2
    march = datetime(2025, 3, 1, tzinfo=UTC)
    assert contents(memory.search("fast", created_after=march, sources="pages")) == [
        "[2025-03-02 08:00] Fast again."
    ]
    assert contents(memory.search("fast", created_before=march, mode="literal", sources="pages")) == [
        "[2025-01-15 10:31] Run `make deploy --fast`."
    ]
    assert [hit.at.month for hit in memory.search(sources="pages")] == [3, 1]
    assert len(memory.search(limit=1, sources="pages")) == 1
    assert memory.search("fast", min_score=1.0, sources="pages") == []
    with pytest.raises(InvalidInput, match="swap them"):
        memory.search("fast", created_after=march, created_before=march, sources="pages")


def test_a_restriction_that_a_paragraph_cannot_meet_leaves_it_out(memory: Memory) -> None:
    tell(memory, "They talked about green tea.")
    newer = datetime(2025, 1, 1, tzinfo=UTC)
    for only in (
        {"category": "notes"},
        {"tags": ["x"]},
        {"kind": ["fact"]},
        {"layer": "episodic"},
        {"origin": ["owner"]},
        {"session": "chat:1"},
        {"role": ["user"]},
        {"valid_at": datetime(2025, 6, 2, tzinfo=UTC)},
        {"created_before": newer},
    ):
        assert memory.search("green tea", **only, sources=SOURCES) == [], only  # type: ignore[arg-type]
    assert len(memory.scoped("user:ann").search("green tea", sources=SOURCES)) == 1, "logs are everybody's"
    assert len(memory.search("green tea", created_after=newer, sources=SOURCES)) == 1


def test_daily_notes_are_not_searched_because_they_repeat_turns(memory: Memory) -> None:
    chat = memory.session("chat:1")
    chat.add("user", "Where do we buy green tea?")
    chat.add("assistant", "At the harbour.")
    memory.pages.append("2025-06-02.md", "green tea is sold out")
    assert {hit.kind for hit in memory.search("green tea", sources=SOURCES)} == {"turn"}
    assert memory.search("green tea", sources="pages") == []


def test_a_paragraph_in_a_prompt_is_named_with_its_day(memory: Memory) -> None:
    tell(memory, "[2025-01-15 10:31] Decided to deploy with GitHub Actions.")
    chat = memory.session("chat:1")
    chat.add("user", "How do we deploy?")
    pack = chat.context()
    (hit,) = pack.hits
    assert f"- [{hit.id}] (2025-01-15): Decided to deploy with GitHub Actions." in pack.text
    chat.add("assistant", "With GitHub Actions.")
    chat.add("user", "And how do we deploy on Fridays?")
    assert hit.id not in [each.id for each in chat.context().hits]


def test_paragraphs_are_found_the_same_before_and_after_a_commit_and_when_the_index_is_lost(
    tmp_path: Path, clock: MovableClock
) -> None:
    def found(memory: Memory) -> list[tuple[str, float]]:
        hits = memory.search("tea in the garden on day 7", limit=20, sources="pages")
        return [(hit.id, hit.score) for hit in hits]

    with Memory.open(tmp_path, clock=clock) as memory:
        for n in range(250):
            tell(memory, f"Note {n}: tea{' garden' * (n % 12 == 0)} on day {n % 31}")
        memory.pages.append("2025-06-02.md", "tea in the garden on day 7")
        changed = memory.pages.paragraphs()[7]
        memory._store.commit(
            [
                Change(before=changed, after=replace(changed, content="coffee")),
                Change(before=memory.pages.paragraphs()[0], after=None),
            ],
            actor="test",
            at=clock.now,
        )
        waiting = found(memory)
        assert memory.admin.stats().index.waiting == 249
    with Memory.open(tmp_path, clock=clock) as memory:
        committed = found(memory)
        assert memory.admin.stats().index.waiting == 0
    shutil.rmtree(tmp_path / "index")
    with Memory.open(tmp_path, clock=clock) as memory:
        assert waiting == committed == found(memory)
    assert len(waiting) == 20


def test_records_and_turns_are_found_the_same_whatever_the_history_says(memory: Memory) -> None:
    memory.save_many({"content": f"Green tea fact {n}"} for n in range(30))
    chat = memory.session("chat:1")
    chat.add_many({"role": "user", "content": f"We spoke of green tea, {n}"} for n in range(30))

    def found() -> list[list[tuple[str, float]]]:
        searches = (
            memory.search("green tea fact 3", sources="records"),
            memory.search("green tea on 2 June 2025", sources="turns"),
        )
        return [[(hit.id, hit.score) for hit in hits] for hits in searches]

    before = found()
    tell(memory, *(f"[2025-06-02 10:{n}] Green tea green tea fact 3" for n in range(10, 60)))
    assert found() == before
    get_search_index(memory).fold()
    assert found() == before


def test_decay_can_be_slowed_and_switched_off() -> None:
    old = datetime(2025, 1, 1, tzinfo=UTC)

    def recency(**settings: Any) -> float:
        with Memory.open(
            ":memory:", settings=Settings(**settings), clock=lambda: old + timedelta(days=30)
        ) as memory:
            memory.save("The staging port is 5433", created_at=old)
            return memory.search("staging port")[0].explanation.parts["recency"]

    assert recency() == pytest.approx(0.5)
    assert recency(decay_days=60) == pytest.approx(0.5**0.5)
    assert recency(decay_enabled=False) == 1.0


def test_a_list_gathers_records_of_the_category_of_the_best_hits(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        for text in ("The bakery is a customer", "A new customer: the garage", "I do the books of the vet"):
            memory.save(text, category="area/one")
        memory.save("The vet has a dog", category="pets")
        memory.save(
            "Was a customer, long ago", category="area/one", valid_to=datetime(2020, 1, 1, tzinfo=UTC)
        )
        asked = [hit.content for hit in memory.search("who are my customers?")]
        assert "I do the books of the vet" in asked
        assert "The vet has a dog" not in asked
        assert "I do the books of the vet" not in [hit.content for hit in memory.search("garage")]
        assert "category" in str(memory.search("who are my customers?")[-1].explanation)


def test_a_hit_of_that_category_stands_before_those_gathered_without_a_word_of_the_question(
    tmp_path: Path,
) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    with Memory.open(tmp_path, clock=lambda: now) as memory:
        for text in (
            "Dentist appointment on 12 October",
            "The dentist of the children is in another street, behind the school with the red fence and the old oak",
            "The appointment with the optician is at nine",
        ):
            memory.save(text, category="health")
        for number in range(30):
            memory.save(f"Pill {number} is in box {number * 7919 % 997}", category="health")
            memory.save(f"Shelf {number} holds {number * 7907 % 991} jars", category="home")
        found = contents(memory.search("when is my dentist appointment?", limit=8))
        assert all("dentist" in text or "appointment" in text for text in found[1:3])


# -- pages -------------------------------------------------------------------------------------------------


def test_paragraphs_of_every_page_are_found(memory: Memory) -> None:
    memory.pages.write("MEMORY.md", "# Staging\n- Runs on tern, port 5432\n- Never deploy on Fridays\n")
    memory.pages.write(
        "projects/atlas.md", "Atlas is due in May.\n\nThe printer of Atlas jams on humid days."
    )
    tell(memory, "[2025-01-15 10:31] They spoke of the weather.")
    (hit,) = memory.search("when does the printer jam?", sources="pages", limit=1)
    assert hit.paragraph is not None
    assert (hit.paragraph.page, hit.content) == (
        "projects/atlas.md",
        "The printer of Atlas jams on humid days.",
    )
    assert not hit.is_trusted  # anybody may have written it
    assert memory.get_paragraph(hit.id) == hit.paragraph
    assert (
        contents(memory.search("which port does staging use?", sources="pages"))[0]
        == "Runs on tern, port 5432"
    )
    assert contents(memory.search("never deploy", mode="literal", sources="pages")) == [
        "Never deploy on Fridays"
    ]
    assert "printer" in memory.search("printer humid", sources=SOURCES)[0].content
    memory.pages.write("projects/atlas.md", "Atlas is done.")
    assert memory.search("printer humid", sources="pages") == []
    assert contents(memory.search("is atlas done?", sources="pages"))[0] == "Atlas is done."
    assert memory.scoped("users/ines").search("port staging", sources="turns") == []


def test_a_paragraph_of_the_page_in_the_prompt_is_not_recalled_again(memory: Memory) -> None:
    filler = "".join(f"- Cabin {number} of the harbour is painted green\n" for number in range(300))
    page = f"- The lighthouse lamp burns paraffin\n{filler}- The foghorn runs on compressed air\n"
    memory.pages.write("MEMORY.md", page)
    pack = memory.session("s").context("what does the lighthouse lamp burn?")
    assert {c.verdict for c in pack.choices if "lighthouse" in c.hit.content} == {"in every prompt"}
    assert pack.text.count("lighthouse lamp burns") == 1
    pack = memory.session("s").context("what does the foghorn run on?")
    assert pack.text.count("foghorn runs on compressed air") == 1
    assert [hit.paragraph.page for hit in pack.hits if hit.paragraph] == ["MEMORY.md"]


@pytest.mark.timeout(60)
def test_a_pattern_that_takes_too_long_is_an_error(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.save("It says " + "a" * 400 + "!")
    monkeypatch.setattr(hits, "PATTERN_TIMEOUT_S", 0.1)
    for pattern in ("(a+)+$", "(a|aa)+$", "(?:a?){50}a{50}x"):
        with pytest.raises(InvalidInput, match="takes too long"):
            memory.search(pattern, mode="regex", sources=SOURCES)


def test_a_pattern_that_is_invalid_or_repeats_too_much_is_refused(memory: Memory) -> None:
    for pattern in ("a{99999999999999999999}", "((a{1000}){1000}){1000}", "[", "(" * 9_000):
        with pytest.raises(InvalidInput, match=r"repeats too much|not a regular expression"):
            memory.search(pattern, mode="regex")


def test_a_pattern_may_look_around_and_refer_back(memory: Memory) -> None:
    memory.save("The key is abab")
    assert len(memory.search(r"(?<=is )(ab)\1", mode="regex")) == 1


def test_a_category_does_not_tell_the_language_of_a_record() -> None:
    record = make_record(content="Skoda Octavia estate, diesel", category="car")
    assert analyze(record).terms.split() == ["skoda", "octavia", "estat", "diesel", "car"]


def test_a_memory_without_a_folder_finds_the_same(memory: Memory, clock: MovableClock) -> None:
    with Memory.open(":memory:", clock=clock) as other:
        for each in (memory, other):
            each.save_many(
                [{"content": f"Room {number} has a piano and {number} chairs"} for number in range(9)]
            )
            each.session("chat:1").add("user", "Which room has the loud piano?")
            each.pages.write("MEMORY.md", "# Rooms\n- The piano is tuned in May")
        for question in ("piano", "room 3", "loud piano in May", "violin"):
            found = [
                [(hit.content, round(hit.score, 9)) for hit in each.search(question, sources=SOURCES)]
                for each in (memory, other)
            ]
            assert found[0] == found[1]
