"""Which language a text is taken for."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from pathlib import Path

from scripts.build_function_words import TABLE, build_table

from reverie.domain.text import languages
from reverie.domain.text.languages import get_function_words, get_stemmer
from reverie.domain.text.tokenizer import find_language, tokenize

CASES = Path(__file__).parent / "languages.json"


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(languages).failed == 0


def test_the_table_of_function_words_is_that_of_the_lists() -> None:
    assert build_table() == TABLE.read_text("ascii"), "run python scripts/build_function_words.py"


def test_an_english_text_needs_no_lists() -> None:
    code = (
        "import sys; from reverie import Memory; memory = Memory.open(':memory:', embedder='none');"
        "memory.save('The meeting with Ann is at noon'); assert memory.search('When is the meating with Ann?');"
        "sys.exit('stopwordsiso' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_function_words_or_the_script_tell_the_language() -> None:
    for text, expected in json.loads(CASES.read_text(encoding="utf-8")).items():
        assert find_language(text) == expected


def test_forms_of_a_word_are_one_token_in_a_text_of_their_language() -> None:
    assert tokenize("der Termin ist am Montag")[1] == tokenize("die Termine sind am Montag")[1]
    assert tokenize("el cliente que no paga")[0] == tokenize("los clientes que no pagan")[1] == "client"


def test_a_language_without_stemmer_or_list_has_none() -> None:
    assert get_stemmer("zh") is None
    assert get_stemmer("xx") is None
    assert get_function_words("xx") == frozenset()
    assert all(len(word) <= 2 for word in get_function_words("ja"))
