"""Does any byte of any file in a folder say it? Reads everything there is, in every form it could have."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import tantivy

from reverie.domain.text import tokenizer

_SPACES = re.compile(rb"(?:\s|\\[nrt])+")


def found_in(folder: Path, texts: Iterable[str]) -> list[str]:
    """Where a run of five words of any of the texts stands, or all of a shorter one; a line for each file.

    Bytes are compared in lower case with white space folded, as UTF-8, as UTF-16 in both orders, as JSON
    escapes it, and as search keeps it (stemmed, between double spaces).
    """
    needles = {needle for text in texts for run in runs(text) for needle in _forms(run)}
    return [
        f"{file.relative_to(folder)}: {needle!r}"
        for file in sorted(folder.rglob("*"))
        if file.is_file()
        for hay in [_folded(file.read_bytes())]
        for needle in needles
        if needle in hay
    ]


def runs(text: str) -> list[str]:
    """Five words in a row as they stand, lower-case; all of a shorter text."""
    said = text.lower().split()
    return [" ".join(said[n : n + 5]) for n in range(max(1, len(said) - 4))]


def words_in(folder: Path, words: Iterable[str]) -> list[str]:
    """Which of the words, given in lower case, stand anywhere: in the bytes of a file, a table, the index.

    Columns of a row have nothing between them, so letters on both sides are those of two other words.
    """
    wanted = {word.lower() for word in words}
    found = []
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            data = file.read_bytes().lower()
            found += [
                f"{file.relative_to(folder)}: {word}"
                for word in wanted
                if any(_stands(form, data) for form in {*_forms(word), tokenizer.stem(word)[:64].encode()})
            ]
    return found + [f"index: {word}" for word in indexed(folder) & {*wanted, *map(tokenizer.stem, wanted)}]


def _stands(form: bytes, data: bytes) -> bool:
    if form not in data:
        return False
    form = re.escape(form)
    return re.search(rb"(?<![a-z\x80-\xff])" + form + rb"|" + form + rb"(?![a-z\x80-\xff])", data) is not None


def indexed(folder: Path) -> set[str]:
    """Every word in the dictionaries of the search index, whether a passage that lives has it or not.

    tantivy keeps them in a form in which no word stands as it is, so bytes say nothing here. It stores no
    document beside: that is looked at as well.
    """
    found: set[str] = set()
    for meta in folder.glob("index/*/meta.json"):
        named = [each["name"] for each in json.loads(meta.read_text())["schema"] if each["type"] == "text"]
        searcher = tantivy.Index.open(str(meta.parent)).searcher()
        for field in named:
            found.update(term for term, *_ in searcher.terms_with_prefix(field, ""))
        hits = searcher.search(tantivy.Query.all_query(), 1_000_000).hits
        assert all(searcher.doc(address).to_dict() == {} for _, address in hits)
        listed = {
            segment["segment_id"].replace("-", "") for segment in json.loads(meta.read_text())["segments"]
        }
        files = {file.name.split(".")[0] for file in meta.parent.iterdir() if not file.name.startswith(".")}
        assert files - {"meta"} <= listed, "a file of the index belongs to no commit"
    return found


def tables(folder: Path) -> Iterator[str]:
    """Every value in every table of every database, read from a copy."""
    for file in sorted(folder.glob("*.db")):
        with tempfile.TemporaryDirectory() as scratch:
            for part in (file, file.with_name(f"{file.name}-wal")):
                if part.exists():
                    shutil.copy(part, scratch)
            with closing(sqlite3.connect(Path(scratch) / file.name)) as database:
                for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
                    for row in database.execute(f"SELECT * FROM {table}"):
                        yield f"{file.name} {table}: {row!r}"


def _forms(run: str) -> Iterator[bytes]:
    yield run.encode()
    for order in ("utf-16-le", "utf-16-be"):
        yield run.encode(order)
    yield json.dumps(run)[1:-1].lower().encode()
    tokens = tokenizer.tokenize(run)
    if len(tokens) > 1:
        yield "  ".join(tokens).encode()
        yield " ".join(tokens).encode()


def _folded(data: bytes) -> bytes:
    """Lower-case with white space folded; what is between double spaces stays so as well."""
    lower = data.lower()
    return lower + b"\0" + _SPACES.sub(b" ", lower) + b"\0" + _unicode_lower(data)


def _unicode_lower(data: bytes) -> bytes:
    return _SPACES.sub(b" ", data.decode("utf-8", "replace").lower().encode())
