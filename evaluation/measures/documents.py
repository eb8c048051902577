"""`python -m evaluation documents`: search of plain documents, beside BM25 over the same tokens.

The documents are saved as records, and as turns of one session each, since neither may rank them worse than BM25: the
features for conversations must not act on long texts that stand alone.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial

from evaluation.boards.datasets import DocumentCollection, EvalDocument, EvalQuestion
from evaluation.boards.readers import read_dataset
from evaluation.boards.run import save_documents
from evaluation.output import print_table
from reverie.admin.transfer.batch import SOURCE_ID
from reverie.domain.errors import InvalidInput
from reverie.domain.text.tokenizer import STOP_WORDS, tokenize
from reverie.evals.command import compute_measures
from reverie.memory import Memory

DEPTH = 10
CONSTANTS = ((1.2, 0.75), (0.9, 0.4), (2.0, 0.8))
"""k1 and b of BM25: Lucene's, Anserini's, and those of `reverie.search.ranking`."""

Search = Callable[[str], Sequence[str]]
"""Function that returns the ids of the best documents for a question."""


def measure_documents(path: str) -> int:
    """Print nDCG@10 and recall@10 of BM25 and of Reverie on a collection of documents.

    Args:
        path: A folder of Cranfield, TREC or BEIR.

    Returns:
        1 if Reverie's nDCG@10 is below that of BM25 with Lucene's constants, else 0.

    Raises:
        InvalidInput: the collection has conversations, or is not of a known format.
    """
    dataset = read_dataset(path)
    if not isinstance(dataset, DocumentCollection):
        raise InvalidInput(f"{path!r} has conversations. Pass a folder of documents.")
    questions = [question for question in dataset.questions if question.evidence]
    bm25 = Bm25(dataset.documents)
    figures = {f"BM25 {k1} {b}": _score(questions, partial(bm25.search, k1=k1, b=b)) for k1, b in CONSTANTS}
    with Memory.open(":memory:", embedder="none") as memory:
        sources = save_documents(memory, dataset.documents, lambda *_: None)

        def search_records(text: str) -> list[str]:
            hits = memory.search(text, sources="records", limit=DEPTH)
            return [name for hit in hits for name in sources.get(hit.id, [])]

        figures["records"] = _score(questions, search_records)
    with Memory.open(":memory:", embedder="none") as memory:
        for document in dataset.documents:
            if document.text.strip():
                turn = {"role": "user", "content": document.text, "metadata": {SOURCE_ID: document.id}}
                memory.session(f"document:{document.id}").add_many([turn])

        def search_turns(text: str) -> list[str]:
            hits = memory.search(text, limit=DEPTH, sources="turns")
            return [hit.metadata.get(SOURCE_ID, "") for hit in hits]

        figures["turns"] = _score(questions, search_turns)
    print_table(
        [f"ndcg@{DEPTH}", f"recall@{DEPTH}"],
        [[name, f"{gain:.3f}", f"{share:.3f}"] for name, (gain, share) in figures.items()],
        [],
        title=f"{dataset.name}: {len(dataset.documents):,} documents, {len(questions):,} questions",
    )
    least = figures["BM25 1.2 0.75"][0]
    return int(min(figures["records"][0], figures["turns"][0]) < least)


class Bm25:
    """BM25 over the tokens of Reverie's analyzer, without expansion, pairs or dates."""

    def __init__(self, documents: Sequence[EvalDocument]) -> None:
        """Count the tokens of the documents."""
        self._counts = {document.id: Counter(tokenize(document.text)) for document in documents}
        self._holders: dict[str, list[str]] = defaultdict(list)
        for name, counts in self._counts.items():
            for token in counts:
                self._holders[token].append(name)
        self._lengths = {name: counts.total() for name, counts in self._counts.items()}
        self._mean = sum(self._lengths.values()) / max(1, len(self._lengths))

    def search(self, text: str, *, k1: float, b: float) -> list[str]:
        """Return the ids of the ten best documents for a question, without its stop words."""
        scores: dict[str, float] = defaultdict(float)
        for token in dict.fromkeys(token for token in tokenize(text) if token not in STOP_WORDS):
            holders = self._holders.get(token, ())
            weight = math.log(1 + (len(self._counts) - len(holders) + 0.5) / (len(holders) + 0.5))
            for name in holders:
                count, norm = self._counts[name][token], 1 - b + b * self._lengths[name] / self._mean
                scores[name] += weight * count * (k1 + 1) / (count + k1 * norm)
        return sorted(scores, key=lambda name: (-scores[name], name))[:DEPTH]


def _score(questions: Sequence[EvalQuestion], search: Search) -> tuple[float, float]:
    """Return the means of nDCG@10 and recall@10."""
    rankings = [list(search(question.text))[:DEPTH] for question in questions]
    pairs = list(zip(rankings, questions, strict=True))
    found = [compute_measures(ranking, question.evidence, [DEPTH]) for ranking, question in pairs]
    gain, share = (sum(each[f"{name}@{DEPTH}"] for each in found) for name in ("ndcg", "recall"))
    return gain / len(pairs), share / len(pairs)
