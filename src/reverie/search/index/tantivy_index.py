"""Tantivy index on disk, one commit at a time.

It is derived from the store and may vanish or break at any moment. A method that finds it unusable raises
`IndexCorrupt`, and its owner builds a new one. The number of the last included journal entry (`sequence`) is kept
inside the index, so that it always agrees with the documents.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import tantivy
from tantivy import Occur, Query

from reverie.domain.category import list_ancestors
from reverie.domain.conversation import Turn
from reverie.domain.filter import Filter
from reverie.domain.lazy_dataclass import replace
from reverie.domain.passage import (
    SEARCHABLE,
    Searchable,
    TermWeight,
    get_scope,
    get_searchable_kind,
)
from reverie.domain.record import Record
from reverie.domain.text.timestamps import to_microseconds
from reverie.search.index.inverted_index import OFTEN, ONCE, IndexedPassage, Value, compute_brevity

FORMAT = "12"
"""Part of the folder's name. Another schema or analyzer has another folder, whose index is built again."""

_NEVER = (1 << 62) - 1
_HEAP_BYTES = 24_000_000  # each thread that writes a commit leaves a part of it to the allocator
_KEYS_AT_ONCE = 500
_MOST_FREQUENCIES = 100_000  # remembered, some twenty megabytes
_MOST_NEAR = 1_000  # remembered, each with up to fifty keys
_MARKER = "subject=marker"
_NO_WORDS = frozenset({"meta.json", ".managed.json", ".tantivy-meta.lock", ".tantivy-writer.lock"})
_PARTS = ("term", "idx", "pos", "fieldnorm", "fast", "store")
_MAGIC = 1337  # at the end of each file of a segment
_ROUNDS = 5
_WORDS = {subject: f"{subject}_words" for subject in SEARCHABLE}
_REVERSED = "<"  # in marks; dates begin with another sign
_SHORTEST_REVERSED = 7  # letters; shorter words are not found by their ending


class IndexCorrupt(Exception):
    """The index on disk is missing or unreadable. Internal: the owner builds a new one."""


class WriterBusy(Exception):
    """Another process is writing to the index. Internal: the owner tries again later."""


@contextmanager
def _reporting_damage() -> Iterator[None]:
    """Raise errors of tantivy and of the files as `IndexCorrupt`."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise IndexCorrupt(str(error)) from None


def build_schema() -> tantivy.Schema:
    """Return the fields of a passage in the index. They are few, since each takes a byte of every passage.

    Marks are dates, frequent words, and long words reversed, in which an ending is found as a prefix. Labels are what
    filters ask for.
    """
    builder = tantivy.SchemaBuilder()
    for field in (*_WORDS.values(), "marks"):
        builder.add_text_field(field, tokenizer_name="whitespace", index_option="basic")
    builder.add_text_field("labels", tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field("key", indexed=True, fast=True)
    builder.add_unsigned_field("sequence", fast=True)
    builder.add_unsigned_field("brevity", fast=True)
    for field in ("created", "valid_from", "valid_to"):
        builder.add_integer_field(field, fast=True)
    builder.add_integer_field("pinned", indexed=True)
    return builder.build()


class IndexBatch:
    """Content of one commit, in order: a later change of a passage replaces an earlier one."""

    def __init__(self, writer: tantivy.IndexWriter, fields: tantivy.Schema) -> None:
        self._writer = writer
        self._fields = fields
        self._last: IndexedPassage | None = None

    def remove(self, key: int) -> None:
        """Remove a passage; an unknown key is ignored."""
        # By query: in tantivy-py 0.27 deleting an unsigned field by term deletes nothing.
        self._writer.delete_documents_by_query(Query.term_query(self._fields, "key", key))

    def add(self, leaf: IndexedPassage) -> None:
        """Add a passage that is not in the index."""
        self._last = leaf
        self._writer.add_document(_build_document(leaf))

    def mark(self, sequence: int) -> None:
        """Add the marker with the number of the last journal entry.

        Its numbers go on where those of the passages end: tantivy takes bytes of each passage for one that is missing
        or out of order.
        """
        self._writer.delete_documents_by_query(Query.term_query(self._fields, "labels", _MARKER))
        document = tantivy.Document()
        document.add_text("labels", _MARKER)
        document.add_unsigned("sequence", sequence)
        if self._last is not None:
            _add_numbers(document, self._last._replace(key=sequence + 1))
        self._writer.add_document(document)


class TantivyIndex:
    """The newest commit of the index, and the way to make the next one."""

    def __init__(self, folder: Path | None) -> None:
        """Open the index in `folder`, or create an empty one there; None keeps it in memory.

        Raises:
            IndexCorrupt: the existing index cannot be opened.
        """
        self._folder = folder
        self._schema = build_schema()
        with _reporting_damage():
            if folder is None:
                self._index = tantivy.Index(self._schema)
            else:
                for path in (folder.parent, folder):
                    path.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._index = tantivy.Index(self._schema, str(folder), reuse=True)
        self._commits_in_memory = 0
        self._load()
        self._make_private()

    def _load(self) -> None:
        with _reporting_damage():
            self._stamp = self._read_stamp()
            self._index.reload()
            self._searcher = self._index.searcher()
            self.sequence = self._read_sequence(self._searcher)
        self.passages = self._searcher.num_docs - int(self.sequence > 0)  # the marker is no passage
        counts = {subject: self._searcher.doc_freq("labels", f"subject={subject}") for subject in _WORDS}
        self._exact = sum(counts.values()) == self.passages  # else some are deleted and not merged away yet
        self._empty = frozenset(subject for subject, count in counts.items() if not count)
        self._frequencies: dict[tuple[Searchable, str, str | None, str | None], int] = {}
        self._near: dict[tuple[Searchable, str, Filter, int], list[int]] = {}

    def _read_sequence(self, searcher: tantivy.Searcher) -> int:
        """Return the number of the last journal entry in a commit; 0 for an empty index."""
        hits = searcher.search(self._build_term_query("labels", _MARKER), 1, count=False).hits
        values = searcher.fast_field_values("sequence", [address for _, address in hits])
        return int(values[0]) if values and values[0] is not None else 0

    @property
    def segments(self) -> int:
        """Number of segments of the commit."""
        return self._searcher.num_segments

    def find_newer(self) -> int | None:
        """Return the last journal entry of a newer commit (0 for an empty one), or None if there is none.

        Raises:
            IndexCorrupt: the index has been deleted or cannot be read.
        """
        if self._read_stamp() == self._stamp:
            return None
        with _reporting_damage():
            self._index.reload()
            return self._read_sequence(self._index.searcher())

    def refresh(self) -> None:
        """Use the newest commit, which another process or `write` may have made.

        Raises:
            IndexCorrupt: the index has been deleted or cannot be read.
        """
        if self._read_stamp() != self._stamp:
            self._load()

    def _read_stamp(self) -> int:
        """Return a value that changes with every commit. It takes one `stat`, since every search calls it."""
        if self._folder is None:
            return self._commits_in_memory
        with _reporting_damage():
            return os.stat(f"{self._folder}/meta.json").st_mtime_ns

    # -- reading -----------------------------------------------------------------------------------

    def search_weighted(
        self,
        subject: Searchable,
        weights: Sequence[TermWeight],
        allowed: Filter,
        limit: int,
        *,
        after: int = 0,
    ) -> list[tuple[int, int]]:
        """Return the keys of at most `limit` passages with the largest weights, and these weights.

        The weight of a passage is the sum of the weights of its tokens, each times its emphasis, times
        its brevity. These are whole numbers below 24 bits, so they are exact in any order of addition. The order of
        passages with the same weight is undefined.

        Args:
            subject: Records, turns, or paragraphs.
            weights: The tokens with their weights.
            allowed: Filter of the result.
            limit: Most keys.
            after: Only larger keys.
        """
        if subject in self._empty:
            return []
        query = self._build_weighted_query(subject, weights)
        if after:
            keys = Query.range_query(self._schema, "key", tantivy.FieldType.Unsigned, after + 1, _NEVER)
            newer = Query.const_score_query(keys, 0.0)
            query = Query.boolean_query([(Occur.Must, query), (Occur.Must, newer)])
        return self._search_scored(subject, query, allowed, limit)

    def search_newest(
        self, subject: Searchable, weights: Sequence[TermWeight], allowed: Filter, limit: int
    ) -> list[int]:
        """Return the keys of at most `limit` passages with any of the words, the newest first."""
        if subject in self._empty:
            return []
        return self._search_by_key(subject, self._build_weighted_query(subject, weights), allowed, limit)

    def search_near(self, subject: Searchable, word: str, allowed: Filter, limit: int) -> list[int]:
        """Return the keys of at most `limit` passages with a word near this one, the newest first.

        A near word differs by at most two letters, begins with the word, or is a long word that ends with it. Results
        are cached, since finding them takes a walk through all words.
        """
        if subject in self._empty:
            return []
        asked = subject, word, replace(allowed, alive_at=None), limit  # expired values are removed later
        known = self._near.get(asked)
        if known is None:
            ending = _build_mark(subject, _REVERSED, word[::-1])
            queries = [
                Query.fuzzy_term_query(self._schema, _WORDS[subject], word, distance=2),
                Query.fuzzy_term_query(self._schema, _WORDS[subject], word, distance=0, prefix=True),
                Query.fuzzy_term_query(self._schema, "marks", ending, distance=0, prefix=True),
            ]
            near = Query.boolean_query([(Occur.Should, query) for query in queries])
            known = self._search_by_key(subject, near, allowed, limit)
            if len(self._near) >= _MOST_NEAR:
                self._near.clear()
            self._near[asked] = known
        return known

    def _search_by_key(self, subject: Searchable, query: Query, allowed: Filter, limit: int) -> list[int]:
        query = Query.boolean_query([(Occur.Must, query), *self._build_filter_clauses(subject, allowed)])
        with _reporting_damage():
            hits = self._searcher.search(query, limit, count=False, order_by_field="key").hits
        return [int(key) for key, _ in hits]

    def _build_weighted_query(self, subject: Searchable, weights: Sequence[TermWeight]) -> Query:
        forms = {
            "words": (_WORDS[subject], ""),
            "dates": ("marks", _build_mark(subject, "", "")),
            "speakers": ("labels", "speaker="),
        }
        scored = []
        for each in weights:
            field, beginning = forms[each.among]
            scored.append((field, beginning + each.token, each.weight * ONCE))
            if each.among == "words":
                for least in OFTEN:
                    token = _build_mark(subject, least, each.token)
                    if not self._searcher.doc_freq("marks", token):
                        break  # no passage has it more often either
                    scored.append(("marks", token, each.weight))
        clauses = [
            (Occur.Should, Query.const_score_query(self._build_term_query(field, token), weight))
            for field, token, weight in scored
        ]
        return Query.boolean_query(clauses)

    def among(
        self,
        subject: Searchable,
        word: str,
        scopes: Collection[str] | None,
        keys: Sequence[int],
        category: str | None = None,
    ) -> int:
        """Return the number of these passages, within some scopes (None: any), with a word."""
        if not keys or not self._searcher.doc_freq(_WORDS[subject], word):
            return 0
        holding = [(Occur.Must, self._build_term_query(_WORDS[subject], word))]
        if scopes is not None:
            holding.append((Occur.Must, self._build_label_query("scope", scopes)))
        if category is not None:
            holding.append((Occur.Must, self._build_label_query("category", [category])))
        matched = 0
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            some = [
                (Occur.Should, self._build_term_query("key", key))
                for key in keys[start : start + _KEYS_AT_ONCE]
            ]
            matched += self._count(Query.boolean_query([*holding, (Occur.Must, Query.boolean_query(some))]))
        return matched

    def _count(self, query: Query) -> int:
        with _reporting_damage():
            result = self._searcher.search(query, 1, count=True)
        return int(result.count)  # type: ignore[attr-defined]  # missing in its stubs

    def collect_keys(self, subject: Searchable) -> set[int]:
        """Return the keys of all passages of a kind."""
        query = self._build_label_query("subject", [subject])
        return set(self._search_by_key(subject, query, Filter(), max(self.passages + 1, 1)))

    def _search_scored(
        self, subject: Searchable, query: Query, allowed: Filter, limit: int
    ) -> list[tuple[int, int]]:
        """Return the keys that a query finds, and their scores times their brevity as whole numbers."""
        restrictions = self._build_filter_clauses(subject, allowed)
        if restrictions:
            query = Query.boolean_query([(Occur.Must, query), *restrictions])
        with _reporting_damage():
            hits = self._searcher.search(query, limit, count=False, weight_by_field="brevity").hits
            keys = self._searcher.fast_field_values("key", [address for _, address in hits])
        return [
            (int(key), round(score)) for key, (score, _) in zip(keys, hits, strict=True) if key is not None
        ]

    def compute_frequency(
        self, subject: Searchable, word: str, scopes: Collection[str] | None, category: str | None = None
    ) -> int:
        """Return the exact number of live passages in some scopes (None: in all) with a word.

        Tantivy's own count includes deleted passages that are not merged yet, so it is used only if there are none.
        Otherwise the exact count is cached until the next commit.
        """
        field = _WORDS[subject]
        most = self._searcher.doc_freq(field, word)
        if not most or (scopes is None and category is None and self._exact):
            return most
        parts = [None] if scopes is None else set(scopes)
        return sum(self._count_cached(subject, word, scope, category) for scope in parts)

    def _count_cached(self, subject: Searchable, word: str, scope: str | None, category: str | None) -> int:
        """Return the number of live passages with a word, in one scope or (None) in all, from a cache."""
        known = (subject, word, scope, category)
        if known not in self._frequencies:
            if len(self._frequencies) >= _MOST_FREQUENCIES:
                self._frequencies.clear()
            queries = [self._build_term_query(_WORDS[subject], word)]
            if scope is not None:
                queries.append(self._build_label_query("scope", [scope]))
            if category is not None:
                queries.append(self._build_label_query("category", [category]))
            self._frequencies[known] = self._count(
                Query.boolean_query([(Occur.Must, query) for query in queries])
            )
        return self._frequencies[known]

    def _build_term_query(self, field: str, value: str | int) -> Query:
        return Query.term_query(self._schema, field, value, index_option="basic")

    def _build_label_query(self, name: str, values: Collection[str]) -> Query:
        labels = [f"{name}={value}" for value in values]
        if len(labels) == 1:
            return self._build_term_query("labels", labels[0])
        return Query.term_set_query(self._schema, "labels", labels)

    def _build_filter_clauses(self, subject: Searchable, allowed: Filter) -> list[tuple[Occur, Query]]:
        """Return the filter as clauses that select and do not score."""
        needed: list[Query] = []
        if allowed.scopes is not None:
            needed.append(self._build_label_query("scope", allowed.scopes))
        needed.extend(self._build_label_query("tag", [tag.casefold()]) for tag in allowed.tags)
        for name, values in (
            ("category", allowed.categories),
            ("kind", allowed.kinds),
            ("layer", allowed.layers),
            ("origin", allowed.origins),
            ("session", allowed.sessions),
            ("role", allowed.roles),
        ):
            if values:
                needed.append(self._build_label_query(name, values))
        if allowed.pinned is not None:
            needed.append(self._build_term_query("pinned", int(allowed.pinned)))
        needed.extend(self._build_range_queries(allowed))
        return [(Occur.Must, Query.const_score_query(query, 0.0)) for query in needed]

    def _build_range_queries(self, allowed: Filter) -> list[Query]:
        ranges = []
        if allowed.created_after is not None or allowed.created_before is not None:
            low = to_microseconds(allowed.created_after) if allowed.created_after else -_NEVER
            high = to_microseconds(allowed.created_before) if allowed.created_before else _NEVER
            ranges.append(self._build_range_query("created", low, high - 1))
        if allowed.valid_at is not None:
            moment = to_microseconds(allowed.valid_at)
            ranges.append(self._build_range_query("valid_from", -_NEVER, moment))
            ranges.append(self._build_range_query("valid_to", moment + 1, _NEVER))
        return ranges

    def _build_range_query(self, field: str, low: int, high: int) -> Query:
        return Query.range_query(self._schema, field, tantivy.FieldType.Integer, low, high)

    # -- writing -----------------------------------------------------------------------------------

    def write(self, fill: Callable[[IndexBatch], int]) -> None:
        """Make one commit. The answers of this object stay the same until `refresh`.

        Args:
            fill: Adds and removes passages, and returns the number of the last journal entry that the index then
                covers. It is called with the writer's lock held, and only if there was no other commit since the one
                in use here.

        Raises:
            WriterBusy: another process is writing, or has just written: refresh and try again.
            IndexCorrupt: the index cannot be written (deleted, disk full, unreadable).
        """
        writer = self._open_writer()
        with _reporting_damage():
            self._index.reload()
            if self._read_sequence(self._index.searcher()) != self.sequence:
                raise WriterBusy("another commit came first")
            batch = IndexBatch(writer, self._schema)
            batch.mark(fill(batch))
            writer.commit()
        self._commits_in_memory += 1
        with suppress(ValueError):  # a failed merge costs speed only; the commit stands
            writer.wait_merging_threads()
        self._make_private()
        _return_memory()

    def clear(self) -> None:
        """Make an empty commit, and delete every file with words. What has them open can still read them.

        Raises:
            WriterBusy: another process is writing.
            IndexCorrupt: the index cannot be written.
        """
        if self._folder is None:
            return
        writer = self._open_writer()
        with _reporting_damage():
            files = [file for file in self._folder.iterdir() if file.name not in _NO_WORDS and file.is_file()]
            if files:  # else it is empty already
                writer.delete_all_documents()
                writer.commit()
            for file in files:
                file.unlink(missing_ok=True)
            writer.wait_merging_threads()
        self._make_private()

    def _make_private(self) -> None:
        """Make the files readable by the owner only, since tantivy creates them by the umask."""
        if self._folder is not None:
            with _reporting_damage():  # it may have been deleted meanwhile
                files = list(self._folder.iterdir())
            for file in files:
                with suppress(OSError):  # merged away meanwhile
                    if file.stat().st_mode & 0o177:
                        file.chmod(0o600)

    def _open_writer(self) -> tantivy.IndexWriter:
        try:
            return self._index.writer(_HEAP_BYTES, 1)
        except (ValueError, OSError) as error:
            if "lock" in str(error).lower():
                raise WriterBusy(str(error)) from None
            raise IndexCorrupt(str(error)) from None


def _return_memory() -> None:
    """Return memory that the threads of a commit have freed to the system.

    The allocator of glibc keeps up to 17 MB for each thread: 140 MB after a load of 60,000 texts.
    """
    if sys.platform == "linux":
        import ctypes  # hooks start sooner without it

        with suppress(AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


def remove_index(folder: Path) -> None:
    """Delete an index folder with all that is in it."""
    import shutil  # hooks start sooner without it

    shutil.rmtree(folder, ignore_errors=True)


def remove_older(folder: Path) -> None:
    """Delete the indexes of earlier formats beside this one."""
    with suppress(OSError):
        for beside in folder.parent.iterdir():
            if beside.name.isdigit() and folder.name.isdigit() and int(beside.name) < int(folder.name):
                remove_index(beside)


def _build_document(leaf: IndexedPassage) -> tantivy.Document:
    value, analysis = leaf.value, leaf.analysis
    subject = get_searchable_kind(value)
    document = tantivy.Document()
    document.add_text(_WORDS[subject], analysis.terms)
    words = analysis.terms.split()
    counts = dict.fromkeys(words, 1)
    marks = [_build_mark(subject, "", date) for date in leaf.list_dates()]
    if len(counts) < len(words):
        marks += [
            _build_mark(subject, least, word)
            for word, times in Counter(words).items()
            for least in OFTEN
            if times >= least
        ]
    long = [word[::-1] for word in counts if len(word) >= _SHORTEST_REVERSED and word.isalpha()]
    marks += [_build_mark(subject, _REVERSED, word) for word in long]
    document.add_text("marks", " ".join(marks))
    for name, label in _list_labels(value, analysis.speaker):
        document.add_text("labels", f"{name}={label}")
    _add_numbers(document, leaf)
    if isinstance(value, Record):
        document.add_integer("pinned", int(value.pinned))
    return document


def _add_numbers(document: tantivy.Document, leaf: IndexedPassage) -> None:
    value = leaf.value
    document.add_unsigned("key", leaf.key)
    # Tantivy multiplies by log2(2 + field), which equals the brevity.
    document.add_unsigned("brevity", 2 ** compute_brevity(leaf.analysis.length) - 2)
    if isinstance(value, Record):
        document.add_integer("created", to_microseconds(value.created_at))
        document.add_integer("valid_from", to_microseconds(value.valid_from) if value.valid_from else -_NEVER)
        document.add_integer("valid_to", to_microseconds(value.valid_to) if value.valid_to else _NEVER)
    else:
        document.add_integer("created", to_microseconds(value.at))


def _build_mark(subject: Searchable, sign: int | str, token: str) -> str:
    """Return a mark: a word that a passage has at least so often, a reversed word with its sign, or a date."""
    return f"{subject[0]}{sign}{token}"


def _list_labels(value: Value, speaker: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the labels of a passage."""
    yield "subject", get_searchable_kind(value)
    yield "scope", get_scope(value)
    if isinstance(value, Record):
        yield from (("kind", value.kind), ("layer", value.layer), ("origin", value.origin))
        yield from (("category", category) for category in list_ancestors(value.category))
        yield from (("tag", tag.casefold()) for tag in value.tags)
    elif isinstance(value, Turn):
        yield from (("session", value.session), ("role", value.role))
        if speaker:
            yield "speaker", speaker


# -- damage ------------------------------------------------------------------------------------------------


def find_damaged_files(folder: Path) -> list[str]:
    """Return the names of files of the commit in `folder` that are missing or damaged.

    Every file of a segment ends with a checksum. A folder without a commit has no damaged files. Tantivy is not used,
    because it aborts the process for some damages.
    """
    for _ in range(_ROUNDS):
        meta = _read_content(folder / "meta.json")
        if meta is None:
            return []
        damaged = sorted(_find_damaged(folder, meta))
        if not damaged or _read_content(folder / "meta.json") == meta:  # else there is another commit
            return damaged
    return []


def _find_damaged(folder: Path, meta: bytes) -> Iterator[str]:
    try:
        for segment in json.loads(meta)["segments"]:
            name = segment["segment_id"].replace("-", "")
            names = [f"{name}.{part}" for part in _PARTS]
            if segment.get("deletes"):
                names.append(f"{name}.{segment['deletes']['opstamp']}.del")
            yield from (name for name in names if not _is_whole(_read_content(folder / name) or b""))
    except (ValueError, KeyError, TypeError, AttributeError):
        yield "meta.json"


def _read_content(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:  # missing or unreadable
        return None


def _is_whole(content: bytes) -> bool:
    """Return whether the checksum of a file is right. It has a body, a footer in JSON, its length, a magic number."""
    if len(content) < 8 or int.from_bytes(content[-4:], "little") != _MAGIC:
        return False
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    try:
        crc = json.loads(content[footer:-8])["crc"]
    except (ValueError, KeyError, TypeError):
        return False
    return bool(footer >= 0 and zlib.crc32(content[:footer]) == crc)
