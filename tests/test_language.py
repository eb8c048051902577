"""The check of language finds what the style guide forbids, and leaves code alone."""

from __future__ import annotations

from scripts import check_language


def test_banned_words_and_long_sentences_are_found() -> None:
    for text in ("Somebody changed it", "It stands for another", "Remember things", "The file is no folder"):
        assert len([*check_language.find_problems(text)]) == 1, text
    long = " ".join(["word"] * (check_language.MAX_SENTENCE_WORDS + 1))
    assert [*check_language.find_problems(long)] == [f"26 words: {long[:90]}…"]
    halves = " ".join(["word"] * 20)
    for text in (
        f"{halves}. {halves}",
        f"{halves}: {halves}",
        f"{halves}\n\n{halves}",
        "It is no longer there",
    ):
        assert not [*check_language.find_problems(text)], text
