"""The table of related words."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.errors import StoreCorrupt
from reverie.domain.text.tokenizer import fold
from reverie.search.related_words import RelatedWords

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "build_related_words.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("build_related_words", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def table(script, tmp_path):
    """Write entries as a table and return it opened."""

    def write(entries):
        path = tmp_path / "table.bin"
        path.write_bytes(script.pack_table(entries))
        return RelatedWords(path)

    return write


def test_everyday_words_are_related_in_the_shipped_table():
    for asked, wanted in [
        ("car", "vehicle"),
        ("drive", "driver"),
        ("physician", "doctor"),
        ("gp", "doctor"),
        ("lawyer", "law"),
        ("vegetarian", "meat"),
        ("salary", "wage"),
        ("job", "work"),
        ("born", "birthday"),
        ("wife", "married"),
        ("pet", "dog"),
        ("flight", "airplane"),
        ("phone", "telephone"),
        ("frozen", "freeze"),
        ("lost", "lose"),
        ("met", "meet"),
        ("children", "child"),
        ("allergy", "allergic"),
        ("k8s", "kubernetes"),
    ]:
        assert wanted in dict(RelatedWords().get(asked))


def test_common_words_of_other_languages_are_related_within_and_across():
    for asked, wanted in [
        ("coche", "automovil"),
        ("coche", "car"),
        ("telefono", "movil"),
        ("esposa", "mujer"),
        ("gehalt", "einkommen"),
        ("zahnarzt", "tooth"),
        ("voiture", "vehicule"),
        ("travail", "emploi"),
        ("lavoro", "work"),
        ("vrouw", "wife"),
        ("trabalho", "emprego"),
        ("医生", "医院"),
        ("工资", "薪水"),
        ("車", "自動車"),
        ("飲む", "drink"),
        ("salary", "gehalt"),
    ]:
        assert wanted in dict(RelatedWords().get(asked))


def test_words_that_are_only_spelled_alike_are_not_related():
    words = RelatedWords()
    assert "plum" not in dict(words.get("plumber"))
    assert "affetto" not in dict(words.get("affitto"))
    assert "broad" not in dict(words.get("board"))
    assert "vetted" not in dict(words.get("vet"))


@pytest.mark.slow
def test_every_word_of_the_shipped_table_is_folded():
    listed = list(RelatedWords().words())
    assert len(listed) > 30_000
    assert [word for word in listed if fold(word) != word] == []
    assert listed == sorted(listed, key=str.encode)


def test_an_unknown_word_has_no_related_words():
    words = RelatedWords()
    for word in ("", "qwxzj", "\ud800", "\U0010ffff", "zzzzzzzzzzzz", "a" * 10_000):
        assert words.get(word) == ()


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda text: text.isprintable()),
        st.lists(
            st.tuples(st.text("abcé字", min_size=1, max_size=4), st.floats(0.01, 0.99)),
            max_size=5,
            unique_by=lambda pair: pair[0],
        ),
        max_size=20,
    )
)
def test_a_table_returns_what_was_packed(script, tmp_path_factory, entries):
    path = tmp_path_factory.mktemp("table") / "table.bin"
    path.write_bytes(script.pack_table(entries))
    words = RelatedWords(path)
    for word, neighbours in entries.items():
        got = dict(words.get(word))
        assert got.keys() == {other for other, _ in neighbours}
        for other, similarity in neighbours:
            assert got[other] == pytest.approx(similarity, abs=0.02)


def test_a_run_without_spaces_is_cut_into_its_longest_known_words(table):
    words = table({"東京": [("京都", 0.5)], "東京駅": [("駅", 0.6)], "猫": [("犬", 0.8)]})
    assert words.split_unspaced("私は東京駅で猫と東京へ") == ("東京駅", "猫", "東京")


def test_importing_the_module_and_binding_a_memory_opens_no_table():
    code = (
        "import sys; sys.addaudithook(lambda event, args: sys.exit(f'opened {args[0]}') if event == 'open' and"
        " str(args[0]).endswith('.bin') else None);"
        "from reverie.search.related_words import RelatedWords; RelatedWords();"
        "assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_damaged_table_is_named(tmp_path):
    for content in [b"", b"RELWORD1", b"something else entirely, longer than a header"]:
        path = tmp_path / "table.bin"
        path.write_bytes(content)
        with pytest.raises(StoreCorrupt, match=r"table\.bin"):
            RelatedWords(path).get("car")


def test_a_table_cut_short_is_named(script, tmp_path):
    path = tmp_path / "table.bin"
    path.write_bytes(script.pack_table({"car": [("vehicle", 0.8)]})[:-1])
    with pytest.raises(StoreCorrupt):
        RelatedWords(path).get("car")
