"""Facts, decisions and instructions that users say once, and sentences that state nothing of the kind.

`sentences.tsv` has the sentences: the kind of a statement that is always recognized; `stated` and `not stated`, which
are not among those of the fit of the classifier; `most facts` and `most others`, of which a few may be missed.
"""

from __future__ import annotations

import json
from pathlib import Path

from reverie import Memory
from reverie.consolidation.rules import match_statement, split_sentences, strip_question

FITTED = Path(__file__).parents[3] / "evaluation" / "training" / "statements"


def read_sentences(*names: str) -> list[tuple[str, str]]:
    """Return the sentences with these names, each with its name; all without one."""
    text = Path(__file__).with_name("sentences.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines())
    return [(name, sentence) for name, sentence in rows if name in names or not names]


def test_what_is_said_once_is_recognized() -> None:
    for kind, text in read_sentences("preference", "constraint", "decision", "fact"):
        [sentence] = split_sentences(text)[-1:]
        assert match_statement(sentence) == kind
    for kind, text in read_sentences("stated", "not stated"):
        assert (match_statement(text) is not None) is (kind == "stated"), text


def test_most_facts_are_recognized_in_whatever_words() -> None:
    sentences = read_sentences("most facts")
    missed = [text for _, text in sentences if match_statement(text) != "fact"]
    assert len(missed) <= 0.1 * len(sentences), missed


def test_questions_guesses_jokes_and_what_others_want_state_nothing() -> None:
    sentences = read_sentences("most others")
    learned = [
        text
        for _, text in sentences
        if any(match_statement(strip_question(each)) for each in split_sentences(text))
    ]
    assert len(learned) <= 0.05 * len(sentences), learned


def test_the_sentences_of_the_classifier_are_not_those_of_its_fit() -> None:
    lines = (line for file in FITTED.glob("*.jsonl") for line in file.read_text("utf-8").splitlines())
    fitted = {json.loads(line)["text"] for line in lines}
    assert len(fitted) > 10_000
    assert fitted.isdisjoint(text for _, text in read_sentences("stated", "not stated"))


def test_code_logs_and_quoted_passages_are_no_prose() -> None:
    cases = [
        "2026-03-01 08:14:02 INFO scheduler decided to move shard 14",
        "14:02:11 systemd[1]: my name is Legion",
        "npm ERR! I will always fail",
        "NameError: name 'my_name' is not defined",
        "fatal: not possible, we prefer rebase",
        "// we decided to keep this",
        "# TODO: remember to remove this hack",
        'const user = { city: "Ghent" }',
        'summarise: "We decided this on Monday. From now on all staff must badge in. Thanks."',
    ]
    for text in cases:
        assert not any(match_statement(each) for each in split_sentences(text))


def test_the_question_that_follows_a_statement_is_not_kept() -> None:
    with Memory.open(":memory:") as memory:
        session = memory.session("cli:1")
        session.add("user", "je suis allergique aux crustacés, tu me proposes quoi pour noël ?")
        session.add("assistant", "Une soupe.")
        assert [(each.content, each.kind) for each in memory.list()] == [
            ("je suis allergique aux crustacés", "constraint")
        ]


def test_an_instruction_stands_in_every_prompt_whatever_is_asked() -> None:
    cases = [
        "hi! just call me Bea",
        "I'm Jo, by the way",
        "oh, and I'm celiac",
        "antworte immer auf Deutsch",
        "always give me the command first",
    ]
    for said in cases:
        with Memory.open(":memory:") as memory:
            session = memory.session("cli:1")
            session.add("user", said)
            session.add("assistant", "All right.")
            other = memory.session("cli:2")
            other.add("user", "What is the capital of Mongolia?")
            assert [hit.content for hit in other.context().standing] == [said.removeprefix("hi! ")]
