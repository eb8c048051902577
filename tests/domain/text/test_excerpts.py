"""The part of a long text that is shown: where the words that were looked for stand together."""

from reverie.domain.text.tokenizer import find_excerpt, find_language, tokenize

GARDEN = "Der Garten liegt hinter dem Haus und wird im Sommer jeden Abend gegossen. "
CELLAR = "The bicycles stand in the cellar beside the boxes with the old books. "


def test_the_part_begins_before_the_words_in_the_language_of_the_text() -> None:
    for filler, wanted, word in [
        (GARDEN, "Die Versicherungen der Wohnungen laufen im Oktober aus. ", "Versicherungen"),
        (CELLAR, "The insurances of the flats end in October. ", "insurances"),
    ]:
        text = filler * 20 + wanted + filler * 20
        matched = [token for token in tokenize(text) if token.startswith(word[:5].casefold())]
        assert find_language(text) == find_language(wanted * 3)
        assert matched
        start, _ = find_excerpt(text, matched, 300)
        assert start < text.index(word) < start + 150


def test_a_compound_is_found_as_a_whole() -> None:
    text = CELLAR * 20 + "See src/user_name.py there."
    start, _ = find_excerpt(text, ["src/user_name.py"], 300)
    assert start < text.index("src/user_name.py") < start + 150
