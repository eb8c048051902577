"""`python -m evaluation documents`: plain documents beside BM25."""

from __future__ import annotations

from evaluation.boards.datasets import EvalDocument
from evaluation.measures.documents import Bm25


def test_bm25_prefers_rare_words_and_short_documents() -> None:
    texts = {
        "a": "The pump of the fountain is loud",
        "b": "The pump of the fountain is loud, and the garden behind it has roses, beds and gravel paths",
        "c": "A fountain in the garden",
    }
    bm25 = Bm25([EvalDocument(id=name, text=text) for name, text in texts.items()])
    assert bm25.search("Which pump is loud?", k1=1.2, b=0.75) == ["a", "b"]
    assert bm25.search("the fountain", k1=1.2, b=0.75)[0] == "c"
    assert bm25.search("violin", k1=1.2, b=0.75) == []
