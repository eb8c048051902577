"""Sentences of a message: where they end, which are no statements, what corrects, fails or is named in them."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from reverie.consolidation.sentences import (
    extract_references,
    extract_tags,
    find_failure,
    has_correction,
    is_fiction,
    is_likely_secret,
    is_self_contained,
    is_statement,
    split_sentences,
    strip_question,
)

SAYS: dict[Callable[[str], object], tuple[list[str], list[str]]] = {
    is_statement: (
        ["We decided to use PostgreSQL.", "I prefer tabs over spaces.", "Ich esse kein Fleisch."],
        [
            "Did we decide on Postgres?", "If we decided to move, what would it cost?",
            "could be that I'm lactose intolerant", "The commit message reads `decided to use sqlite`?",
            '"We decided to cancel the order."', "vielleicht ziehe ich um", "what if I lived in Oslo",
        ],
    ),
    is_likely_secret: (
        [
            "The password is hunter2!", "Our password for staging is Winter2024", "My card is 4111 1111 1111 1111",
            "use sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z from now on", "The password is [redacted: password]!",
        ],
        [
            "Passwords must be hashed with argon2.", "The token is expired.", "550e8400-e29b-41d4-a716-446655440000",
            "See src/reverie/evals/recall/report.py", "Fixed in 4f2a9c1e4f2a9c1e4f2a9c1e4f2a9c1e4f2a9c1e",
        ],
    ),
    has_correction: (
        [
            "You were wrong.", "You were wrong about the port.", "That didn't work.", "It still doesn't work.",
            "Try again.", "Please try again with the other key.", "Actually, it's 5433.",
            "Actually it is port 5433", "Actually, that's Anna.",
        ],
        [
            "Actually, it's fine.", "Actually, that's great, thanks.", "It didn't work out with the flat.",
            "I will try again tomorrow.", "Try again later.", "We were wrong to wait.",
        ],
    ),
    is_self_contained: (
        ["Restarting the daemon solved it.", "We meet on the second floor of the library."],
        ["That fixed it, thanks!", "Let's use the second version."],
    ),
    find_failure: (
        ["Issue fixed by pinning urllib3 to 2.2.", "Login bug fixed by PR #42."],
        ["Issues fixed by the team are listed below."],
    ),
}  # fmt: skip


def test_what_a_sentence_says_and_what_only_resembles_it() -> None:
    for says, (own, others) in SAYS.items():
        for text in (*own, *others):
            assert bool(says(text)) is (text in own), (says.__name__, text)
    assert is_fiction("Act as a recruiter.")


def test_code_logs_and_quoted_passages_are_no_prose() -> None:
    cases = [
        "2026-03-01 08:14:02 INFO scheduler decided to move shard 14",
        "14:02:11 systemd[1]: my name is Legion",
        "npm ERR! I will always fail",
        "NameError: name 'my_name' is not defined",
        "// we decided to keep this",
        "# TODO: remember to remove this hack",
        'const user = { city: "Ghent" }',
    ]
    for text in cases:
        assert split_sentences(text) == [], text


def test_a_no_that_answers_a_question_corrects_nobody() -> None:
    assert has_correction("No, the red one.")
    assert not has_correction("No, the red one.", answering=True)


def test_sentences_do_not_end_at_abbreviations_and_leave_code_out() -> None:
    code = "```\nraise ValueError('failed')\n```"
    text = f"I saw Dr. Weiss at 3 p.m. yesterday.\n{code}\n> We decided.\n- One\n- Two"
    assert split_sentences(text) == ["I saw Dr. Weiss at 3 p.m. yesterday.", "One", "Two"]


def test_a_hard_wrapped_sentence_is_one() -> None:
    long = "We decided with the whole team to use postgres for everything,"
    assert split_sentences(f"{long}\nnot redis.") == [f"{long} not redis."]
    assert split_sentences("i live in oslo\nwhat about you") == ["i live in oslo", "what about you"]


def test_references_are_files_tests_issues_commits_and_addresses() -> None:
    text = (
        "Fixed tests/test_api.py::test_login in 4f2a9c1 (#42, JIRA-12), see https://x.org/a, "
        "/etc/nginx/conf.d and README.md; and/or 3/4 of them."
    )
    assert extract_references(text) == (
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
        assert extract_references(text) == references
        assert extract_tags(text) == tags


def test_a_reference_that_holds_a_secret_is_left_out() -> None:
    assert extract_references("clone https://me:hunter2@git.org/x") == ()


def test_words_that_only_look_like_names_of_tools_are_no_tags() -> None:
    assert extract_tags("Let us go to the bakery and react calmly to the rust on the door") == (
        "react",
        "rust",
    )
    assert extract_tags("I went home") == ()


def test_a_clause_in_a_script_without_spaces_speaks_for_itself() -> None:
    chinese = split_sentences("好的。我住在杭州，在一家设计公司上班。")
    assert [is_self_contained(each) for each in chinese] == [False, True]


def _read(text: str) -> None:
    for part in split_sentences(text):
        has_correction(part)
        find_failure(part)
        is_statement(strip_question(part))
        is_likely_secret(part)
        is_self_contained(part)
    assert len(extract_references(text)) <= 20
    assert len(extract_tags(text)) <= 8


@given(st.text(max_size=400))
def test_any_text_is_read_without_an_error(text: str) -> None:
    _read(text)
