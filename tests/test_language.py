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


def test_only_the_prose_of_a_page_is_checked() -> None:
    page = """# Things

<!-- not run: somebody has to -->
```python
print("somebody")
```

| thing | whoever |

See [this](somebody.md) and `meanwhile`.

* An item
* Another
"""
    prose = check_language.extract_prose(page)
    assert not [*check_language.find_problems(prose)]
    assert "this" in prose
    assert "Another" in prose


def test_texts_of_code_are_listed() -> None:
    help_texts, errors, page = (
        [*each()]
        for each in (check_language.list_help, check_language.list_errors, check_language.list_page_texts)
    )
    assert any("Undo a CHANGE" in text for _, text in help_texts)
    assert any(text.startswith("No changes to undo") for _, text in errors)
    assert len(page) > 50
