"""Index of vectors that follows the journal in the background, and finds what is nearest in meaning.

It is derived from the store, and optional. A thread embeds new texts in small batches, so no save waits for it.
Texts without a vector are found by words. Of several processes, the one with the lock on a file embeds. Vectors of
other machines are taken from the store if that keeps vectors. A missing or damaged file is built again. The failure of
an embedder is logged once, and it is called again later. `RuleChances` finds rules for a request by their vectors.
"""

from __future__ import annotations

import fcntl
import logging
import os
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from reverie.domain.category import to_search_words
from reverie.domain.change import JournalEntry
from reverie.domain.conversation import Turn
from reverie.domain.errors import ModelUnavailable, StoreError, StoreUnavailable
from reverie.domain.page import Paragraph
from reverie.domain.passage import SEARCHABLE, Passage, Searchable, get_scope
from reverie.domain.record import STANDING, Record
from reverie.llm.embedding import Embedder, RuleClassifiers, is_loaded_here
from reverie.search.vectors.vector_file import (
    TYPICAL_COSINE,
    Likeness,
    Neighbours,
    NewVector,
    QuantizedVector,
    VectorFile,
    VectorFileDamaged,
    VectorTransaction,
    get_file_name,
    hash_text,
    normalize_vector,
    quantize_vector,
)
from reverie.settings import Settings
from reverie.stores.base import KeptVector
from reverie.stores.forks import ForkSafeLock
from reverie.stores.protocol import Store, get_reader, read_or_none
from reverie.stores.redacting import get_server_store
from reverie.stores.telemetry import trace_model

if TYPE_CHECKING:
    from reverie.search.query import ParsedQuery

_log = logging.getLogger("reverie")

T = TypeVar("T")

FOLDER = Path("index", "vectors")
"""The folder of vectors in a memory's folder. It is removed together with the search index."""

LONGEST_TEXT = 4_000
"""Characters of a text or a question that are embedded; the rest is searched by words."""

_FIRST_BATCH = 4
_BATCH = 16
_ROWS = 256
_DEBOUNCE_S = 0.2
_RETRY_S = 0.5
_FIRST_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 300.0
_MOST_DOUBLINGS = 10
_GRACE_S = 1.0
_QUERIES = 512
_ASKED_S = 1.0
# Share of one core that a model on this machine uses for texts while questions need it too.
_SHARE_ASKED = 0.25
# Chance that a query with the form of a request is one, if there is no classifier.
_FORM_CHANCE = 0.25
# Smallest chance of a request; a query with a smaller one is treated as a question.
_MIN_CHANCE = 0.05
# Added to the logarithm of the odds for a preference or constraint.
_STANDING_LOG_ODDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStatus:
    """State of the vectors.

    Attributes:
        embedder: Name of the embedder.
        state: `current`; `embedding` while some texts have no vector; `failing` while the embedder or the disk fails
            (searches use words only).
        ready: Passages with a vector.
        waiting: Passages without a vector, which are found by words.
        problem: The error, if there was one.
    """

    embedder: str
    state: Literal["current", "embedding", "failing"]
    ready: int
    waiting: int
    problem: str = ""


class _Item(NamedTuple):
    key: int
    subject: Searchable
    scope: int
    digest: int
    text: str


class VectorIndex:
    """Vectors of all searchable passages. Safe to use from several threads."""

    def __init__(self, store: Store, folder: Path | None, embedder: Embedder, *, settings: Settings) -> None:
        """Follow `store` with vectors in `folder` (None: in memory).

        Nothing is opened, and no thread is started, before the first change or search.
        """
        self._store = store
        self._shared = get_server_store(store)
        self._is_sharing = True
        self._folder = folder
        self.embedder = embedder
        self._settings = settings
        self._lock = ForkSafeLock(self._reset_after_fork)
        self._file: VectorFile | None = None
        self._queries: OrderedDict[str, Any] = OrderedDict()
        self._wake, self._stopping = threading.Event(), threading.Event()
        self.is_awake = False
        self._thread: threading.Thread | None = None
        self._closing = False
        self._deadline = 0.0
        self._is_loaded = False
        self._problem = ""
        self._failures = 0
        self._retry_at = 0.0
        self._asked_at = -_ASKED_S
        self._changed_at = -_LONGEST_PAUSE_S
        self._dimension = embedder.dimension
        self._following = threading.Lock()

    def _reset_after_fork(self) -> None:
        self._thread, self._is_loaded, self.is_awake = None, False, False
        self._following = threading.Lock()

    # -- reading -------------------------------------------------------------------------------------------

    def search(self, subject: Searchable, text: str, scopes: Sequence[str] | None) -> Neighbours | None:
        """Return the cosines of a question with all vectors in some scopes.

        Returns:
            None if there are no vectors yet, or the embedder fails; then only words count.
        """
        if not text.strip():
            return None
        self._start()

        def search(file: VectorFile) -> Neighbours | None:
            if file.followed < self._store.sequence():
                self._wake.set()
            query = self._embed_query(text, dimension) if (dimension := file.dimension) else None
            if query is None:
                return None
            typical = getattr(self.embedder, "typical_cosine", TYPICAL_COSINE)
            return file.search(query, subject, _hash_scopes(scopes), typical)

        return self._read(search)

    def find_rules(self, query: ParsedQuery, scopes: Sequence[str] | None) -> RuleChances | None:
        """Return the chances that the records of some scopes are rules for what a query asks to be done.

        Returns:
            None if it asks for nothing to be done.
        """
        classifiers: RuleClassifiers | None = getattr(self.embedder, "classifiers", None)
        if classifiers is None:
            return RuleChances(None, _FORM_CHANCE, 0.0) if query.is_request else None

        def find(file: VectorFile) -> RuleChances | None:
            vector = self._embed_query(query.text, dimension) if (dimension := file.dimension) else None
            chance = 0.0 if vector is None else _compute_request_chance(classifiers, vector, query.is_request)
            if chance < _MIN_CHANCE:
                return None
            rules = file.search(classifiers.rule.weights, "record", _hash_scopes(scopes))
            return RuleChances(rules, chance, classifiers.rule.constant)

        return self._read(find)

    def compare(
        self, subject: Searchable, keys: Sequence[int], scopes: Sequence[str] | None
    ) -> Likeness | None:
        """Return the nearness of the vectors of passages in some scopes to each other; None if there are none yet."""
        return self._read(lambda file: file.compare(subject, keys, _hash_scopes(scopes)))

    def find_similar(self, subject: Searchable, key: int, scopes: Sequence[str] | None) -> dict[int, float]:
        """Return the cosines of one passage's vector with the others in some scopes, by key; empty without it."""
        return self._read(lambda file: file.find_similar(subject, key, _hash_scopes(scopes))) or {}

    def status(self) -> VectorStatus:
        """Return the state of the vectors."""
        ready = self._read(lambda file: file.count()) or 0
        total = sum(self._store.measure(subject, None).passages for subject in SEARCHABLE)
        waiting = max(0, total - ready)
        state: Literal["current", "embedding", "failing"] = "embedding" if waiting else "current"
        return VectorStatus(
            embedder=self.embedder.name,
            state="failing" if self._problem else state,
            ready=min(ready, total),
            waiting=waiting,
            problem=self._problem,
        )

    def _embed_query(self, text: str, dimension: int) -> Any:
        text = text.strip()[:LONGEST_TEXT]
        with self._lock:
            self._asked_at = time.monotonic()
            known = self._queries.get(text)
            if known is not None:
                self._queries.move_to_end(text)
                return known
            if time.monotonic() < self._retry_at:
                return None
        try:
            (vector,) = self._embed([text], is_query=True)
            query = normalize_vector(vector)
            self._verify_dimension(len(query), dimension)
        except (ModelUnavailable, ValueError) as error:
            self._note_failure(error)
            return None
        with self._lock:
            self._queries[text] = query
            if len(self._queries) > _QUERIES:
                self._queries.popitem(last=False)
        return query

    def _embed(self, texts: Sequence[str], *, is_query: bool) -> Sequence[Any]:
        """Return one vector for each text; raises `ModelUnavailable` whatever the embedder raises."""
        embed = self.embedder.embed_queries if is_query else self.embedder.embed_passages
        with (
            self._translating_errors(),
            trace_model(self._settings, "embeddings", self.embedder.name) as span,
        ):
            span.set("gen_ai.embeddings.dimension.count", self.embedder.dimension)
            vectors = embed(texts)
            count = len(vectors)
        if count != len(texts):
            raise ModelUnavailable(
                f"the embedder {self.embedder.name} returned {count} vectors for {len(texts)} texts"
            )
        self._is_loaded = True
        return vectors

    def _verify_dimension(self, length: int, dimension: int) -> None:
        """Compare the length of new vectors with that of the stored ones.

        Raises:
            VectorFileDamaged: they differ, so the vectors are made again.
            ModelUnavailable: they have differed a moment ago too.
        """
        if dimension not in (0, length):
            message = f"the embedder {self.embedder.name} returned {length} numbers, not {dimension}"
            if time.monotonic() - self._changed_at < _LONGEST_PAUSE_S:
                raise ModelUnavailable(message)
            self._changed_at = time.monotonic()
            raise VectorFileDamaged(message)

    def _note_failure(self, error: Exception) -> None:
        """Store an error of the embedder or the disk; log the first one."""
        with self._lock:
            if not self._problem:
                _log.warning("vectors are not available, searches go by words alone: %s", error)
            self._problem = str(error)
            pause = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(self._failures, _MOST_DOUBLINGS))
            self._failures += 1
            self._retry_at = time.monotonic() + pause

    # -- the file ------------------------------------------------------------------------------------------

    def _identify_embedder(self) -> str:
        """Return the fingerprint of the embedder; raises `ModelUnavailable` whatever the embedder raises."""
        with self._translating_errors():
            return self.embedder.fingerprint

    @contextmanager
    def _translating_errors(self) -> Iterator[None]:
        """Raise `ModelUnavailable` for any error of the embedder, which may be a caller's function."""
        try:
            yield
        except Exception as error:
            raise ModelUnavailable(
                f"the embedder {self.embedder.name} failed: {type(error).__name__}: {error}"
            ) from error

    def _get_path(self) -> Path | None:
        return None if self._folder is None else self._folder / get_file_name(self._identify_embedder())

    def _get_file(self) -> VectorFile:
        if self._file is None:
            path = self._get_path()
            with self._lock:
                self._file = self._file or VectorFile(path)
        return self._file

    def _read(self, read: Callable[[VectorFile], T]) -> T | None:
        """Return the result of `read` for the file; None if it cannot be read."""
        if self._file is None and time.monotonic() < self._retry_at:
            return None
        try:
            return read(self._get_file())
        except VectorFileDamaged as error:
            self._discard(error)
        except (OSError, ModelUnavailable) as error:
            self._note_failure(error)
        return None

    def _discard(self, error: Exception) -> None:
        """Remove a damaged file, which is built again in the background."""
        _log.warning("the vectors are made again: %s", error)
        self._get_file().delete()
        self._wake.set()

    # -- following -----------------------------------------------------------------------------------------

    def notice(self, rows: Sequence[JournalEntry]) -> None:
        """Wake the thread to embed committed changes."""
        if any(row.subject in SEARCHABLE for row in rows):
            self.is_awake = True
            self._start()
            self._wake.set()

    def _start(self) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None and not self._closing:
                    self._thread = threading.Thread(target=self._run, name="reverie-vectors", daemon=True)
                    self._wake.set()
                    self._thread.start()

    def _run(self) -> None:
        while not self._closing:
            self._wake.wait()
            self._stopping.wait(_DEBOUNCE_S)
            self._wake.clear()
            self.is_awake = False
            try:
                self._follow_until_current()
            except StoreError as error:  # the next change or search starts another thread
                if not self._closing:
                    _log.warning("the vectors are left as they are: %s", error)
                with self._lock:
                    self._thread, self.is_awake = None, False
                return

    def _must_stop(self, until: float | None) -> bool:
        if until is not None and time.monotonic() >= until:
            return True
        return self._closing and (not self._is_loaded or time.monotonic() >= self._deadline)

    def _follow_until_current(self, *, until: float | None = None) -> bool:
        """Embed until everything has a vector; return whether it has.

        Args:
            until: When to stop, by the monotonic clock; None for never.
        """
        while not self._must_stop(until):
            pause = self._retry_at - time.monotonic()
            if pause > 0:
                if until is not None or self._closing:
                    return False
                self._pause(pause)
                continue
            try:
                if self._follow_if_alone(until):
                    return True
            except VectorFileDamaged as error:
                self._discard(error)
            except (ModelUnavailable, OSError, ValueError) as error:
                self._note_failure(error)
        return False

    def _follow_if_alone(self, until: float | None) -> bool:
        """Embed some texts unless another process does; return whether the vectors are complete."""
        with self._lease() as is_ours:
            if is_ours:
                is_current = self._follow(until)
                with self._lock:
                    self._problem, self._failures, self._retry_at = "", 0, 0.0
                return is_current
        if self._get_file().followed >= self._store.sequence():
            return True
        self._pause(_RETRY_S)
        return False

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._closing and time.monotonic() < end:
            time.sleep(min(0.05, seconds))

    @contextmanager
    def _lease(self) -> Iterator[bool]:
        """Hold the lock for embedding until the block ends; yield whether it is held."""
        if not self._following.acquire(blocking=False):
            yield False
            return
        descriptor = -1
        try:
            if self._folder is not None:
                for folder in (self._folder.parent, self._folder):
                    folder.mkdir(mode=0o700, exist_ok=True)
                descriptor = os.open(self._folder / "embedding.lock", os.O_RDWR | os.O_CREAT, 0o600)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
        finally:
            if descriptor >= 0:
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # a child that was forked meanwhile has it open too
                os.close(descriptor)
            self._following.release()

    def _follow(self, until: float | None) -> bool:
        """Embed the changes that the vectors do not cover; return whether they are complete then."""
        file = self._get_file()
        newest, followed = self._store.sequence(), file.followed
        if followed > newest:  # the file is of another store, or of one before it was restored from a backup
            followed = 0
        if followed == newest:
            return True
        if followed:
            rows = self._store.journal(after=followed, until=newest, limit=_ROWS)
            touched = {row.key: row.subject for row in rows if row.subject in SEARCHABLE}
            reached, keys = (rows[-1].sequence if rows else newest), iter(touched.items())
        else:
            reached, keys = newest, self._scan_store()
        # A model on this machine is as quick with few texts, and needs less memory.
        most = _FIRST_BATCH if is_loaded_here(self.embedder.name) else _BATCH
        size = _FIRST_BATCH if until is None else 1
        left: list[tuple[int, Searchable]] = []
        while batch := [*left, *islice(keys, (size if self._shared is None else _ROWS) - len(left))]:
            if self._must_stop(until):
                return False
            began = time.monotonic()
            embedded, left = self._update(batch, size)
            spent = time.monotonic() - began
            size = most
            if not embedded:
                continue
            if until is not None:  # as many as fit into the time, since a long text takes seconds
                rest = max(0.0, until - time.monotonic())
                size = max(1, min(most, int(embedded * rest / max(spent, 1e-6))))
            elif self._must_yield():
                size = _FIRST_BATCH
                self._pause(spent * (1 / _SHARE_ASKED - 1))
        with file.change() as change:
            if not followed:
                self._remove_strangers(change)
            change.set_followed(reached)
        return reached >= newest

    def _must_yield(self) -> bool:
        """Return whether questions need the model now, and it runs on this machine."""
        is_asked = time.monotonic() - self._asked_at < _ASKED_S
        return is_asked and is_loaded_here(self.embedder.name)

    def _scan_store(self) -> Iterator[tuple[int, Searchable]]:
        """Yield key and kind of all live passages."""
        for subject in SEARCHABLE:
            after = 0
            while batch := self._store.live(subject, after=after, limit=_ROWS):
                after = batch[-1][0].key
                yield from ((passage.key, subject) for passage, _ in batch)

    def _update(
        self, keys: Sequence[tuple[int, Searchable]], most: int
    ) -> tuple[int, list[tuple[int, Searchable]]]:
        """Update the vectors of some keys. Nothing is locked while the embedder works.

        Args:
            keys: The keys.
            most: Most texts to embed.

        Returns:
            The number of embedded texts, and the remaining keys.
        """
        file = self._get_file()
        known = file.read_digests([key for key, _ in keys])
        with self._store.reading():
            read_at = self._store.sequence()
            items = self._read_items(keys)
            wanted = [item for item in items.values() if known.get(item.key) != item.digest]
            vectors = self._read_shared(wanted, file.dimension or self._dimension)
        missing = [item for item in wanted if item.text and item.key not in vectors]
        left = {item.key for item in missing}
        if len(missing) > most:
            missing = random.sample(missing, most)  # so that other machines choose others
        left -= {item.key for item in missing}
        if missing:
            made = self._embed([item.text for item in missing], is_query=False)
            for item, vector in zip(missing, made, strict=True):
                vectors[item.key] = quantize_vector(vector)
                self._dimension = len(vectors[item.key].numbers)
        fresh = [
            NewVector(item.key, item.subject, item.scope, item.digest, vectors.get(item.key))
            for item in wanted
            if item.key not in left
        ]
        done = len(missing), [(key, subject) for key, subject in keys if key in left]
        lengths = {len(vector.numbers) for vector in vectors.values()}
        if len(lengths) > 1:
            sizes = f"{min(lengths)} to {max(lengths)}"
            raise ModelUnavailable(f"the embedder {self.embedder.name} returned vectors of {sizes} numbers")
        if lengths:
            self._verify_dimension(lengths.pop(), file.dimension)
        with file.change() as change:
            if self._closing and time.monotonic() >= self._deadline:
                return done
            # Texts that were changed or erased since they were read are not written.
            current = self._read_items(keys)
            change.remove([key for key, _ in keys if key not in current])
            change.write(
                [new for new in fresh if new.key in current and current[new.key].digest == new.digest]
            )
        self._share({item.key: KeptVector(item.digest, *vectors[item.key]) for item in missing}, read_at)
        return done

    def _read_shared(self, items: Sequence[_Item], dimension: int) -> dict[int, QuantizedVector]:
        """Return the vectors of some texts from other machines, by key.

        Args:
            items: The texts.
            dimension: Length of a vector; 0 if it is unknown.
        """
        digests = {item.key: item.digest for item in items if item.text}
        if self._shared is None or not digests:
            return {}
        vectors: dict[int, QuantizedVector] = {}
        for key, kept in self._shared.read_vectors(
            hash_text(self._identify_embedder()), list(digests)
        ).items():
            dimension = dimension or len(kept.numbers)
            if kept.digest == digests[key] and len(kept.numbers) == dimension:
                vectors[key] = QuantizedVector(kept.scale, kept.numbers)
        return vectors

    def _share(self, made: Mapping[int, KeptVector], read_at: int) -> None:
        """Store vectors for other machines, by key."""
        if self._shared is None:
            return
        try:
            self._shared.keep_vectors(hash_text(self._identify_embedder()), made, read_at=read_at)
            self._is_sharing = True
        except StoreUnavailable as error:  # the role may only read, or the server does
            if self._is_sharing:
                _log.warning("vectors are not shared, so other machines embed these texts too: %s", error)
            self._is_sharing = False

    def _read_items(self, keys: Sequence[tuple[int, Searchable]]) -> dict[int, _Item]:
        """Return the current text and scope of the live keys."""
        items: dict[int, _Item] = {}
        with self._store.reading():
            for subject in SEARCHABLE:
                own = [key for key, kind in keys if kind == subject]
                live = sorted(passage.key for passage in self._store.passages(subject, own))
                values = read_or_none(get_reader(self._store, subject), live)
                for key, value in zip(live, values, strict=True):
                    if value is not None:
                        items[key] = _build_item(key, subject, value)
        return items

    # -- maintenance ---------------------------------------------------------------------------------------

    def embed_waiting(self, *, timeout_s: float = 3_600.0) -> VectorStatus:
        """Embed all waiting texts, and return the state."""
        self._follow_until_current(until=time.monotonic() + timeout_s)
        return self.status()

    def scrub(self, keys: Collection[int] | None = None) -> bool:
        """Overwrite vectors of texts that the store no longer has, and remove those of other embedders.

        Args:
            keys: The keys of what was erased; None to compare every vector with the store.

        Returns:
            False if the disk refused it.
        """
        with self._lock:
            self._queries.clear()
        try:
            try:
                path, shared = self._get_path(), hash_text(self._identify_embedder())
                file: VectorFile | None = self._get_file()
            except ModelUnavailable:  # then all vectors are removed
                path, shared, file = None, 0, None
            if self._shared is not None:
                self._shared.drop_vectors(but=shared)
            is_clean = self._folder is None or remove_vectors(self._folder, but=path)
            if file is not None and (self._folder is None or file.count()):
                with file.change() as change:
                    if keys is None:
                        self._remove_strangers(change)
                    else:
                        change.remove(list(keys))
        except VectorFileDamaged as error:
            self._discard(error)
            return True
        except (OSError, StoreUnavailable) as error:
            _log.warning("the vectors of what was erased could not be removed: %s", error)
            return False
        return is_clean

    def _remove_strangers(self, change: VectorTransaction) -> None:
        """Remove the vectors of texts that the store does not have."""
        digests = change.read_digests()
        everything = self._scan_store()
        while keys := list(islice(everything, _ROWS)):
            for key, item in self._read_items(keys).items():
                if digests.get(key) == item.digest:
                    del digests[key]
        change.remove(list(digests))

    def is_damaged(self) -> bool:
        """Return whether the vectors on disk are damaged."""
        return bool(self._read(lambda file: file.is_damaged()))

    def rebuild(self) -> None:
        """Remove the vectors, and start to build them again."""
        self._read(lambda file: file.delete())
        self._start()
        self._wake.set()

    def stop(self, *, grace_s: float = 0.0) -> threading.Thread | None:
        """End the thread after its current batch, and return it; None if there is none.

        Args:
            grace_s: Seconds that it may take to embed what waits.
        """
        self._closing, self._deadline = True, time.monotonic() + grace_s
        self._stopping.set()
        self._wake.set()
        return self._thread

    def close(self) -> None:
        """Finish the current batch, and release the file."""
        with self._lock:
            thread = self.stop(grace_s=_GRACE_S)
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=2 * _GRACE_S)  # an embedder that hangs must not keep a program from ending


class RuleChances:
    """Chances that records are rules for what a query asks to be done."""

    def __init__(self, rules: Neighbours | None, request: float, constant: float) -> None:
        """Compute chances from these values.

        Args:
            rules: The sum of the classifier of rules for each record, without its constant. None if there is no
                classifier: then every preference and constraint is a rule.
            request: The chance that something is asked to be done, 0 to 1.
            constant: The constant of the classifier.
        """
        self._rules = rules
        self._request = request
        self._constant = constant

    def list_likeliest(self, limit: int) -> list[int]:
        """Return the keys of the records with the largest chances, the largest first."""
        return [] if self._rules is None else self._rules.list_nearest(limit)

    def get(self, passages: Sequence[Passage]) -> dict[int, float]:
        """Return the chances, 0 to 1, of the passages that may be rules, by key."""
        if self._rules is None:
            return {passage.key: self._request for passage in passages if passage.kind in STANDING}
        log_odds = self._rules.get_cosines([passage.key for passage in passages])
        constants = {
            passage.key: self._constant + (_STANDING_LOG_ODDS if passage.kind in STANDING else 0.0)
            for passage in passages
        }
        return {key: self._request * _to_chance(value + constants[key]) for key, value in log_odds.items()}


def _compute_request_chance(classifiers: RuleClassifiers, vector: Any, has_form: bool) -> float:
    """Return the chance, 0 to 1, that a query asks for something to be done.

    Args:
        classifiers: The classifiers of the embedder.
        vector: The vector of the query, of length 1.
        has_form: Whether the query has the form of a request.
    """
    log_odds = float(vector @ classifiers.request.weights) + classifiers.request.constant
    return _to_chance(log_odds + (classifiers.form if has_form else 0.0))


def _to_chance(log_odds: float) -> float:
    return 1.0 / (1.0 + exp(-log_odds))


def _hash_scopes(scopes: Sequence[str] | None) -> list[int] | None:
    return None if scopes is None else [hash_text(scope) for scope in scopes]


def _build_item(key: int, subject: Searchable, value: Record | Turn | Paragraph) -> _Item:
    text, scope = build_embedded_text(value), get_scope(value)
    return _Item(key, subject, hash_text(scope), hash_text(f"{scope}\0{text}"), text)


def build_embedded_text(value: Record | Turn | Paragraph) -> str:
    """Return the text of a value for the embedder; that of a record includes its category and tags."""
    if isinstance(value, Record):
        return build_record_text(value.content, value.category, value.tags)
    text = value.text if isinstance(value, Paragraph) else value.content
    if isinstance(value, Turn) and value.speaker and text:
        text = f"{value.speaker}: {text}"
    return text.strip()[:LONGEST_TEXT]


def build_record_text(content: str, category: str | None, tags: Iterable[str]) -> str:
    """Return the text of a record for the embedder."""
    text = " ".join(part for part in (content, to_search_words(category), *tags) if part)
    return text.strip()[:LONGEST_TEXT]


def remove_vectors(folder: Path, *, but: Path | None = None) -> bool:
    """Remove all vectors of a memory except one file; return whether that succeeded."""
    try:
        for file in folder.glob("*.vectors*"):
            if but is None or not file.name.startswith(but.name):
                file.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("vectors could not be removed: %s", error)
        return False
    return True
