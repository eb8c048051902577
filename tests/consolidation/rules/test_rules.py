"""Rules over sentences: what states something, what states nothing, what is named and what is never kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.consolidation import rules


def said(text: str, speaker: rules.Speaker = "user", **more: bool) -> set[str]:
    parts = rules.split_sentences(text)
    return {rule for part in parts for rule in rules.match_rules(part, speaker=speaker, **more)}


def test_each_rule_finds_the_sentence_that_says_so() -> None:
    cases = [
        ("We decided to use PostgreSQL for the event store.", "decision"),
        ("The API must answer within 200 ms.", "constraint"),
        ("I prefer tabs over spaces.", "preference"),
        ("The build failed again.", "failure"),
        ("Restarting the daemon solved it.", "fix"),
        ("No, that's wrong.", "correction"),
    ]
    for text, expected in cases:
        assert said(text) == {expected}


def test_politeness_questions_conditions_quotations_and_others_state_nothing() -> None:
    cases = [
        "No problem.",
        "Actually, thanks, that helps a lot.",
        "The error handling works nicely.",
        "No worries.",
        "That's not wrong.",
        "Did we decide on Postgres?",
        "If we decided to move, what would it cost?",
        'She wrote "we decided to cancel the order" in her mail.',
        "The commit message reads `decided to use sqlite`.",
        "We did not decide anything in the meeting.",
        "They prefer tabs.",
        "I used to prefer Vim.",
        "The tests used to fail on Mondays.",
    ]
    for text in cases:
        assert said(text) == set()


def test_an_assistants_advice_and_plans_state_nothing() -> None:
    for text in ("I would recommend PostgreSQL.", "I'll use Redis.", "I prefer short answers.", "No, wrong."):
        assert said(text, "assistant") == set()


def test_only_a_user_corrects() -> None:
    assert said("You forgot the second argument.") == {"correction"}
    assert said("You forgot the second argument.", "assistant") == set()


def test_a_no_that_answers_a_question_corrects_nobody() -> None:
    assert said("No, the red one.") == {"correction"}
    assert said("No, the red one.", answering=True) == set()


def test_a_sentence_states_what_it_says_and_not_what_stands_beside_it() -> None:
    text = "Hello! The weather is nice. We decided to use Redis. Is that fine?"
    stating = [each for each in rules.split_sentences(text) if rules.match_rules(each, speaker="user")]
    assert stating == ["We decided to use Redis."]


def test_sentences_do_not_end_at_abbreviations_and_leave_code_out() -> None:
    code = "```\nraise ValueError('failed')\n```"
    text = f"I saw Dr. Weiss at 3 p.m. yesterday.\n{code}\n> We decided.\n- One\n- Two"
    assert rules.split_sentences(text) == ["I saw Dr. Weiss at 3 p.m. yesterday.", "One", "Two"]


def test_a_hard_wrapped_sentence_is_one() -> None:
    assert rules.split_sentences("We decided to use\npostgres for it.") == [
        "We decided to use postgres for it."
    ]


def test_what_looks_like_a_secret_is_seen() -> None:
    cases = [
        "The password is hunter2!",
        "api_key=abc123",
        "Our password for staging is Winter2024",
        "use sk-abcdefghijklmnop1234 from now on",
        "AKIAIOSFODNN7EXAMPLE",
        "postgres://admin:pw@db/main",
        "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
        "My card is 4111 1111 1111 1111",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
    ]
    for text in cases:
        assert rules.is_likely_secret(text)


def test_what_only_speaks_of_secrets_is_none() -> None:
    cases = [
        "Passwords must be hashed with argon2.",
        "The token is expired.",
        "The secret ingredient is love.",
        "See src/reverie/evals/recall/report.py",
        "Fixed in 4f2a9c1e4f2a9c1e4f2a9c1e4f2a9c1e4f2a9c1e",
        "550e8400-e29b-41d4-a716-446655440000",
    ]
    for text in cases:
        assert not rules.is_likely_secret(text)


def test_references_are_files_tests_issues_commits_and_addresses() -> None:
    text = (
        "Fixed tests/test_api.py::test_login in 4f2a9c1 (#42, JIRA-12), see https://x.org/a, "
        "/etc/nginx/conf.d and README.md; and/or 3/4 of them."
    )
    assert rules.extract_references(text) == (
        "tests/test_api.py::test_login",
        "4f2a9c1",
        "#42",
        "JIRA-12",
        "https://x.org/a",
        "/etc/nginx/conf.d",
        "README.md",
    )


def test_names_of_tests_and_files_of_other_languages_are_known() -> None:
    cases = [
        ("The build.gradle.kts pins Kotlin", ("build.gradle.kts",), ("kotlin",)),
        ("See README.MD and src/App.JAVA", ("README.MD", "src/App.JAVA"), ("java",)),
        ("UserServiceTest.rejectsExpiredToken is red", ("UserServiceTest.rejectsExpiredToken",), ()),
        ("LoginTest#shouldReject and LoginTests fail", ("LoginTest#shouldReject", "LoginTests"), ()),
        ("testParsesDates hangs", ("testParsesDates",), ()),
        ("TestParseConfig/empty_file fails", ("TestParseConfig/empty_file",), ()),
        ("TestApi::test_login passes again", ("TestApi::test_login",), ()),
        ("src/test/kotlin/LoginTest.kt is new", ("src/test/kotlin/LoginTest.kt",), ("kotlin",)),
        ("It was tested.Go on, J.R. said. The latest Contest is a test.", (), ()),
    ]
    for text, references, tags in cases:
        assert rules.extract_references(text) == references
        assert rules.extract_tags(text) == tags


def test_short_corrections_count() -> None:
    cases = [
        "You were wrong.",
        "You were wrong about the port.",
        "That didn't work.",
        "It still doesn't work.",
        "Try again.",
        "Please try again with the other key.",
        "Actually, it's 5433.",
        "Actually it is port 5433",
        "Actually, that's Anna.",
    ]
    for text in cases:
        assert "correction" in said(text)


def test_what_only_resembles_a_short_correction_is_none() -> None:
    cases = [
        "Actually, it's fine.",
        "Actually, that's great, thanks.",
        "It didn't work out with the flat.",
        "I will try again tomorrow.",
        "Try again later.",
        "We were wrong to wait.",
    ]
    for text in cases:
        assert "correction" not in said(text)


def test_an_issue_that_was_fixed_by_something_is_a_fix() -> None:
    assert "fix" in said("Issue fixed by pinning urllib3 to 2.2.")
    assert "fix" in said("Login bug fixed by PR #42.")
    assert "fix" not in said("Issues fixed by the team are listed below.")


def test_a_reference_that_holds_a_secret_is_left_out() -> None:
    assert rules.extract_references("clone https://me:hunter2@git.org/x") == ()


def test_tags_are_languages_and_tools_and_not_words_that_only_look_so() -> None:
    assert rules.extract_tags("The Docker build of the Go service fails in app.py") == (
        "docker",
        "go",
        "python",
    )
    assert rules.extract_tags("Let us go to the bakery and react calmly to the rust on the door") == (
        "react",
        "rust",
    )
    assert rules.extract_tags("I went home") == ()


def test_a_sentence_that_only_points_back_does_not_speak_for_itself() -> None:
    assert not rules.is_self_contained("That fixed it, thanks!")
    assert rules.is_self_contained("Restarting the daemon solved it.")
    assert not rules.is_self_contained("Let's use the second version.")
    assert rules.is_self_contained("We meet on the second floor of the library.")


@given(st.text(max_size=400), st.sampled_from(["user", "assistant"]))
def test_any_text_is_read_without_an_error(text: str, speaker: rules.Speaker) -> None:
    for part in rules.split_sentences(text):
        assert set(rules.match_rules(part, speaker=speaker)) <= set(rules.RULES)
        rules.is_likely_secret(part)
        rules.is_self_contained(part)
    assert len(rules.extract_references(text)) <= 20
    assert len(rules.extract_tags(text)) <= 8


@pytest.mark.slow
@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "piece",
    ["we decided and ", "no ", "must ", "you ", "fixing it ", "a/", "'a", '"a', "i ", "error ", "0 ", "aA1"],
)
def test_long_hostile_texts_are_read(piece: str) -> None:
    text = (piece * 40_000)[:40_000]
    for part in rules.split_sentences(text):
        assert set(rules.match_rules(part, speaker="user")) <= set(rules.RULES)
        rules.is_likely_secret(part)
    assert len(rules.extract_references(text)) <= 20
    assert len(rules.extract_tags(text)) <= 8
