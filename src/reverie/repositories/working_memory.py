"""Working memory: texts by key, each with an expiry.

A session has a namespace of its own; `agent` outlives sessions. Entries never become records. Of the entries,
prompts show only the keys.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import lru_cache

from reverie.domain.category import is_within_category, validate_category
from reverie.domain.entry import AGENT, SCOPE, Entry, validate_entry
from reverie.domain.errors import InvalidInput, WorkingMemoryFull
from reverie.domain.lazy_dataclass import dataclass
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.passage import Passage
from reverie.domain.record import normalize_labels
from reverie.domain.text import tokenizer
from reverie.domain.text.timestamps import Clock, add_duration, parse_duration
from reverie.domain.text.validation import clean_text, validate_count, validate_text
from reverie.search.query import parse_query
from reverie.search.ranking import RankedPassage, TermStatistics, rank
from reverie.settings import Settings
from reverie.stores.protocol import Store
from reverie.stores.redacting import get_redactor, redact_value

SCRATCHPAD_CAPACITY = 5_000
"""Live entries of the agent's scratchpad; a session has as many as the settings say."""

MOST_HITS = 1_000

LONGEST_QUERY = 10_000
"""Characters of a question, as in every search."""

_UNSTORABLE = defer_regex(r"[\x00\ud800-\udfff]")
_tokenize = lru_cache(maxsize=64)(tokenizer.tokenize)  # texts can be long
_SEPARATORS = ("/", ":", ".")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryHit:
    """An entry that a search found.

    Attributes:
        score: 0 to 1; larger is better; 0 without a question.
        entry: The entry.
        matched: The words of the question that it has, in the analyzer's form.
    """

    score: float
    entry: Entry
    matched: tuple[str, ...] = ()


class WorkingMemory:
    """Texts by key in one namespace. Safe to use from several threads, and beside other processes.

    Args:
        store: The store of the entries.
        namespace: `session/{id}` for a session; `agent` or `scope/{scope}` for a scratchpad, which outlives sessions,
            holds 5,000 entries and keeps them unless they have a ttl.
        settings: Lifetime and number of the entries of a session.
        clock: The clock.
    """

    def __init__(self, store: Store, namespace: str, *, settings: Settings, clock: Clock) -> None:
        outlives = namespace == AGENT or namespace.startswith(SCOPE)
        self._store = store
        self._redactor = get_redactor(store)
        self._clock = clock
        self._default_ttl = None if outlives else settings.default_ttl
        self._capacity = SCRATCHPAD_CAPACITY if outlives else settings.max_entries
        self.namespace = namespace

    def set(
        self,
        key: str,
        data: str,
        *,
        ttl: str | float | timedelta | None = "default",
        category: str | None = None,
        tags: Iterable[str] = (),
    ) -> Entry:
        """Keep a text under a key, in place of what was there.

        Args:
            key: 1 to 200 characters; `/`, `:` and `.` separate segments for `list`.
            data: The text, up to 2,000,000 characters; may be empty.
            ttl: How long: `"90s"`, `"10m"`, seconds, or a timedelta; None keeps it. `"default"` is 5 minutes in a
                session, for ever in the agent's scratchpad, unless set otherwise.
            category: A slash path.
            tags: Labels.

        Returns:
            The entry as it was stored.

        Raises:
            WorkingMemoryFull: there are as many live entries of other keys as may be (50 in a session);
                nothing was stored.
            InvalidInput: an argument is not of its form; nothing was stored.
        """
        now = self._clock()
        lives = self._default_ttl if ttl == "default" else ttl
        entry = Entry(
            namespace=self.namespace,
            key=key,
            data=data,
            stored_at=now,
            expires_at=None if lives is None else add_duration(now, parse_duration(lives)),
            category=category,
            tags=normalize_labels(tags, name="tag"),
        )
        entry = redact_value(validate_entry(entry), self._redactor)
        if not self._store.put_entry(entry, capacity=self._capacity, now=now):
            raise WorkingMemoryFull(
                f"nothing was stored: {self.namespace!r} already has {self._capacity} entries, as many as it may; "
                "delete or overwrite one"
            )
        return entry

    def get(self, key: str) -> str | None:
        """Return the text under a key; None if there is none or it has expired."""
        entry = self.entry(key)
        return None if entry is None else entry.data

    def entry(self, key: str) -> Entry | None:
        """Return the entry under a key, with its expiry; None if there is none or it has expired."""
        return next((entry for entry in self.list() if entry.key == key), None)

    def list(self, prefix: str = "") -> builtins.list[Entry]:
        """Return the live entries by key.

        Args:
            prefix: Only keys that are it or go on from it with a new segment: `api` lists `api`,
                `api.endpoint` and `api/v1` but not `apikey`; `api.` only what begins with exactly that.
        """
        entries = self._store.entries(self.namespace, now=self._clock())
        return [entry for entry in entries if is_under(entry.key, prefix)]

    def search(
        self,
        query: str | None = None,
        *,
        category: str | None = None,
        tags: Iterable[str] = (),
        limit: int = 10,
    ) -> builtins.list[EntryHit]:
        """Return entries with words of a question in key, text, tags or category, sorted by BM25, best first.

        Args:
            query: What to look for; None gives the newest instead, with score 0.
            category: Only this category and those below it.
            tags: Only entries that have all of these.
            limit: The largest number of entries, 1 to 1,000.

        Raises:
            InvalidInput: an argument is not of its form.
        """
        validate_count(limit, name="limit", most=MOST_HITS)
        if category is not None:
            validate_category(category)
        if query is not None:
            text = clean_text(query)[:LONGEST_QUERY] if isinstance(query, str) else query
            query = validate_text(text, name="query", longest=LONGEST_QUERY, empty=True)
        wanted = frozenset(normalize_labels(tags, name="tag"))
        entries = self.list()
        allowed = [
            number
            for number, entry in enumerate(entries)
            if (category is None or is_within_category(entry.category, category))
            and wanted.issubset(entry.tags)
        ]
        if query is None:
            newest = sorted((entries[n] for n in allowed), key=lambda entry: entry.stored_at, reverse=True)
            return [EntryHit(score=0.0, entry=entry) for entry in newest[:limit]]
        return [
            EntryHit(score=found.relevance, entry=entries[found.key], matched=tuple(found.list_matches()))
            for found in _rank(query, entries, allowed, limit)
        ]

    def delete(self, key: str) -> bool:
        """Remove the entry under a key; False if there was none."""
        if not isinstance(key, str):
            raise InvalidInput(f"key is {type(key).__name__}: pass a string")
        was_there = self.entry(key) is not None
        return self._store.drop_entries(self.namespace, [key]) > 0 and was_there

    def sanitize(self, text: str) -> str:
        """Return a text without secrets and characters that an entry cannot contain.

        Call it before a text is split into several entries: a secret that was split would not be found.
        """
        return self._redactor.text(_UNSTORABLE.sub("\ufffd", text))


def _rank(question: str, entries: Sequence[Entry], allowed: Sequence[int], limit: int) -> list[RankedPassage]:
    """Return the best of the allowed entries, by their numbers; all count for how common a word is."""
    query = parse_query(question)
    passages = []
    for number, entry in enumerate(entries):
        tokens = _tokenize(entry.to_searchable_text())
        terms, at = tokenizer.pack(tokens), entry.stored_at.timestamp()
        passages.append(Passage(key=number, terms=terms, length=len(tokens), at=at))
    statistics = TermStatistics(
        passages=len(passages),
        mean_length=sum(passage.length for passage in passages) / max(1, len(passages)),
        frequencies={
            token: sum(f" {token} " in passage.terms for passage in passages) for token in query.tokens
        },
    )
    return rank(query, [passages[number] for number in allowed], statistics=statistics, limit=limit)


def is_under(key: str, prefix: str) -> bool:
    """Return whether a key is the prefix, or continues it with a new segment after `/`, `:` or `.`."""
    if not prefix or key == prefix:
        return True
    if not key.startswith(prefix):
        return False
    return prefix.endswith(_SEPARATORS) or key[len(prefix)] in _SEPARATORS
