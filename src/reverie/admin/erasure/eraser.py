"""Erasure of content from the store, its journal, the search index and the files.

Archiving and purging keep the journal; an erasure does not. It removes content from records, turns, notes,
pages, summaries and working memory, from all of their journal entries, from the search index, the files and
the free space of the database. `reverie.admin.erasure.matching` decides what matches and what remains of it;
`reverie.stores.tombstones` keeps it from coming back by an import or an old file. Copies outside the folder
are not reached.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from reverie.admin.erasure.matching import (
    EraseDecision,
    EraseQuery,
    EraseRequest,
    ErasureItem,
    ErasureReport,
    Fate,
    Name,
    Thing,
    decide,
    extract_texts,
    format_preview,
    get_entry_session,
    get_name,
    get_owning_scope,
    get_session,
)
from reverie.admin.erasure.remains import (
    EVER,
    build_kept_item,
    build_purge_edits,
    describe_copies,
    find_files,
    find_names,
    remove_copies,
    report_unfinished,
)
from reverie.consolidation.inbox import LOG, drop_log_entries, find_erased_plans
from reverie.consolidation.rule_learning import build_cursor_name
from reverie.context.window import build_history_cursor, build_remembered_cursor, build_shown_cursor
from reverie.domain.change import Change, JournalEntry, Value
from reverie.domain.conversation import FORGOTTEN, Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import NotFound
from reverie.domain.filter import Filter
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import Paragraph
from reverie.domain.passage import SEARCHABLE, CandidateQuery
from reverie.domain.record import Record
from reverie.domain.scope import is_within
from reverie.domain.text.shingles import Phrase, PhraseMatcher, collect_text_shingles, normalize_text
from reverie.files.folder import MemoryFolder
from reverie.files.scan import scrub_files
from reverie.files.state import FILES_DATABASE, FileState, StateUnavailable
from reverie.repositories.prompts import find_erased_entries
from reverie.search.analyzer import analyze
from reverie.search.index.search_index import SearchIndex
from reverie.search.vectors.vector_index import FOLDER as VECTORS
from reverie.search.vectors.vector_index import VectorIndex, remove_vectors
from reverie.stores.protocol import Store, get_reader, iter_rows
from reverie.stores.redacting import get_server_store
from reverie.stores.tombstones import compute_content_marks, make_key, tombstone_keys
from reverie.stores.writer import StoreWriter

PENDING = "forgetting.pending"
"""The cursor that says what of a forgetting is still to be done; `Eraser.finish` removes it."""

_INTERRUPTED = "an erasure was interrupted: ask for it again"
_CURSORS_OF_NAMES = (
    build_shown_cursor(""),
    build_cursor_name(""),
    build_remembered_cursor(""),
    build_history_cursor(""),
)
_ATTEMPTS = 20
_ROUNDS = 10
_WAIT_FOR_READERS_S = 15.0
_PAUSE_S = 0.2
_NAMED = 5
_ID = defer_regex(r"\b[0-9a-f]{12}\b")
_MAX_SIMILAR = 30  # of each kind, beside the words of a text and the texts that are looked for
_ANSWER = 50  # turns after a question, calls of tools and their results included
_ORDER = ("record", "page", "paragraph", "turn", "session")


@dataclass(frozen=True)
class Eraser:
    """Erasure in one store and its folder. Safe to use from several threads and processes.

    Attributes:
        writer: Commits the changes.
        index: The search index.
        vectors: The vectors over the store; None without an embedder.
        folder: The memory's folder; None for a memory without one.
        files: Its mirrored files; None for a memory without them.
    """

    writer: StoreWriter
    index: SearchIndex
    vectors: VectorIndex | None = None
    folder: Path | None = None
    files: MemoryFolder | None = None

    @property
    def _store(self) -> Store:
        return self.writer.store

    # -- the request -----------------------------------------------------------------------------------

    def _build_query(self, request: EraseRequest) -> EraseQuery:
        """Return what a request asks for; of ids, a session and a scope with the shingles of all versions."""
        if request.match is not None:
            phrases = collect_text_shingles(request.match)
            short = collect_text_shingles(request.match, short=False) != phrases
            return EraseQuery(
                phrases=PhraseMatcher.of(phrases, piece=normalize_text(request.match)),
                always=frozenset(phrases) if short else frozenset(),
                turns=request.turns,
                texts=(request.match,),
            )
        ids, session, scope = request.ids, request.session, request.scope

        def belongs(value: Value | Entry) -> bool:
            if ids:
                return isinstance(value, Record | Turn | Paragraph) and value.id in ids
            if scope is not None:
                return is_within(get_owning_scope(value), scope)
            return get_session(value) == session

        names: set[Name] = set()
        texts: dict[str, None] = {}
        said_at: dict[Phrase, datetime] = {}
        for each in ids or (None,):
            for row in iter_rows(self._store, id=each):
                for value in filter(belongs, row.values):
                    names.add(get_name(value))
                    if isinstance(value, Turn) and not ids and value.role == "system":
                        continue
                    quotable = _list_quotable_texts(value)
                    texts |= dict.fromkeys(quotable[:1])
                    # A short turn such as "thank you" is not evidence of a repetition; a record of two words is a fact.
                    short = bool(ids) and not isinstance(value, Turn)
                    for text in quotable:
                        for phrase in collect_text_shingles(text, short=short):
                            said_at.setdefault(phrase, row.at)
        entries = [] if ids else list(filter(belongs, self._store.entries(None, now=EVER)))
        self._refuse_unknown(request, names, entries)
        sessions = {name for subject, name in names if subject == "session"} | {session or ""}
        sessions |= set(map(get_entry_session, entries))
        return EraseQuery(
            phrases=PhraseMatcher.of(said_at),
            sessions=frozenset(sessions - {""}),
            scope=scope,
            said_at={} if ids else said_at,
            turns=request.turns,
            names=frozenset(names),
            texts=tuple(texts)[::-1] if ids else (),
        )

    @staticmethod
    def _refuse_unknown(request: EraseRequest, names: Collection[Name], entries: Collection[Entry]) -> None:
        """Raise `NotFound` for an id, a session or a scope that never had anything."""
        known = {name for _, name in names}
        if missing := [name for name in request.ids if name not in known]:
            raise NotFound(
                f"no record, turn or paragraph has the id {missing[0]!r}: search or list for the right one"
            )
        if names or entries:
            return
        if request.scope is None:
            raise NotFound(f"no session {request.session!r}: `reverie sessions` lists them")
        raise NotFound(
            f"nothing belongs to the scope {request.scope!r}: `reverie sessions --json` shows scopes"
        )

    # -- decisions -------------------------------------------------------------------------------------

    def _decide_all(self, query: EraseQuery) -> list[EraseDecision]:
        """Decide about everything that has something of a request, then about notes of what goes, and headlines."""
        ids, others, query = self._find_named(query) if query.is_of_ids else self._find_all(query)
        known = [*others, *self._store.entries(None, now=EVER)]  # their earlier versions decide nothing
        things = [*self._load(ids), *(Thing(name=get_name(each), now=each) for each in known)]
        decided = {each.name: decision for each in things if (decision := decide(each, query)) is not None}
        query = replace(query, gone=self._find_gone(decided))
        for thing in self._load(self._store.citing(sorted(query.gone))):
            if (decision := decide(thing, query)) is not None:
                decided[thing.name] = decision
        return list(decided.values())

    def _find_named(self, query: EraseQuery) -> tuple[list[str], list[Value], EraseQuery]:
        """Return the ids of requested things and of what is related to them, and what else repeats a part of them.

        Nothing else is read, so that the time does not depend on how much the memory has. A text that has all of a
        requested one is a copy, and related.
        """
        requested = {name for _, name in query.names}
        similar = self._find_similar(query)
        copies = {name for name, value in similar.items() if query.is_copy(value.content)}
        query = replace(query, related=frozenset(self._find_related(requested | copies)))
        turns = self._store.turns(sorted(requested | query.related))
        pages = (page.name for page in self._store.pages())
        found = dict.fromkeys((*requested, *query.related, *(turn.session for turn in turns), *pages))
        return list(found), [value for name, value in similar.items() if name not in found], query

    def _find_all(self, query: EraseQuery) -> tuple[list[str], list[Value], EraseQuery]:
        """Return the ids of everything of which a version, or a note about a change, has something of a request."""
        found: dict[str, None] = {}
        meant: set[str] = set()
        for row in iter_rows(self._store):
            if row.edit is None:
                continue
            for hit in query.examine_row(row):
                if hit.is_suspect or hit.has_name:
                    found[row.edit.id] = None
                if hit.asked or hit.has_piece or hit.is_copy:
                    meant.add(row.edit.id)
        return list(found), [], replace(query, related=frozenset(self._find_related(meant)))

    def _load(self, ids: Iterable[str]) -> list[Thing]:
        """Return the things with some ids, with all their versions."""
        things: dict[Name, Thing] = {}
        for each in ids:
            for row in iter_rows(self._store, id=each):
                if row.edit is not None:
                    thing = things.setdefault(name := get_name(row.edit.value), Thing(name=name))
                    thing.add_row(row)
                    thing.now = row.after
        return list(things.values())

    def _find_gone(self, decided: Mapping[Name, EraseDecision]) -> dict[str, str]:
        """Return the ids of what is erased, as in `EraseQuery.gone`."""
        gone: dict[str, str] = {}
        for (subject, name), decision in decided.items():
            now = decision.thing.now
            if subject == "turn" and _is_erased(decision):
                gone[name] = ""
                if isinstance(now, Turn) and (answer := self._find_answer(now)) is not None:
                    gone.setdefault(answer.id, now.content)
            elif subject == "record" and decision.item.fate in ("removed", "past"):
                gone[name] = ""
        return gone

    def _find_related(self, ids: Collection[str]) -> set[str]:
        """Return the ids of what was made from some things, of their sources, and of what was made from these."""
        made, sources = set(ids), set[str]()
        fresh = [name for name in ids if _ID.fullmatch(name)]
        for name in fresh:
            values = [value for row in self._store.journal(id=name) for value in row.values]
            sources |= set(_ID.findall(" ".join(map(repr, values))))
            turns = [value for value in values if isinstance(value, Turn)]
            sources |= {answer.id for turn in turns[-1:] if (answer := self._find_answer(turn)) is not None}
        while fresh:
            fresh = [name for name in self._store.citing(fresh) if name not in made]
            made.update(fresh)
        return made | sources | set(self._store.citing(sorted(sources - made)))

    def _find_similar(self, query: EraseQuery) -> dict[str, Record | Turn | Paragraph]:
        """Return, by id, what the index finds by the words of a request and that repeats some of it."""
        found: dict[str, Record | Turn | Paragraph] = {}
        now = self.writer.clock()
        for text in query.texts[:_MAX_SIMILAR]:
            probe = Turn(id="", session="", position=0, role="user", content=text, at=now)
            words = list(dict.fromkeys(analyze(probe).terms.split()))[:_MAX_SIMILAR]
            wanted = CandidateQuery(words=[(word, 1.0) for word in words])
            for subject in SEARCHABLE if words else ():
                keys = self.index.search_any(subject, wanted, Filter(), _MAX_SIMILAR)[:_MAX_SIMILAR]
                found |= {each.id: each for each in get_reader(self._store, subject)(keys)}
        return {name: value for name, value in found.items() if query.phrases.find_phrases(value.content)}

    def _find_answer(self, turn: Turn) -> Turn | None:
        """Return the answer to a user's turn, after calls of tools; None if there is none."""
        if turn.role != "user":
            return None
        after = self._store.turns(session=turn.session, start=turn.position + 1, stop=turn.position + _ANSWER)
        answer = next((other for other in after if other.role != "tool" and not other.tool_calls), None)
        return answer if answer is not None and answer.role == "assistant" else None

    # -- the report ------------------------------------------------------------------------------------

    def plan(self, request: EraseRequest) -> ErasureReport:
        """Return what an erasure would remove and leave; change nothing (see `Administration.forget`)."""
        self._sync(request.ids)
        query = self._build_query(request)
        going, left = self._build_items(query, self._decide_all(query), self._find_cursors(query))
        if not going:
            raise _build_not_found(request, left)
        erased = {item.id for item in going if item.subject == "record" and item.fate == "removed"}
        remains = self._remove_remains(query, erased, left, dry_run=True)
        return ErasureReport(going=going, left=(*left, *remains), notes=self.describe_copies())

    def _build_items(
        self, query: EraseQuery, decisions: Sequence[EraseDecision], cursors: Mapping[str, str | None]
    ) -> tuple[tuple[ErasureItem, ...], tuple[ErasureItem, ...]]:
        """Return what goes, and what is left."""
        items = [decision.item for decision in decisions if decision.item.fate != "kept"]
        for name, value in cursors.items():
            if not name.endswith(tuple(query.sessions)):  # these only belong to an erased session
                fate: Fate = "removed" if value is None else "cut"
                items.append(ErasureItem(subject="cursor", id=name, fate=fate, because="it has the text"))
        going = {item.name: item for item in sorted(items, key=_rank_match)}
        kept = (each.item for each in decisions if each.item.fate == "kept" and each.is_reported)
        left = {item.name: item for item in kept}
        for record in self._store.records(
            self._store.citing([item.id for item in items if item.fate != "past"])
        ):
            item = build_kept_item("record", record.id, "made from it in other words", format_preview(record))
            if item.name not in going:
                left.setdefault(item.name, item)
        for item in find_names(self._store, query.phrases):
            if item.name not in going or going[item.name].fate != "removed":
                left.setdefault(item.name, item)
        files = find_files(self.folder, query.phrases) if self.folder is not None else ()
        return tuple(going.values()), tuple(sorted((*left.values(), *files), key=_rank_match))

    # -- doing -----------------------------------------------------------------------------------------

    def forget(self, request: EraseRequest) -> ErasureReport:
        """Erase what a request names (see `Administration.forget`).

        Raises:
            NotFound: there is nothing to erase.
            Conflict: others kept changing the same things; what was erased by then stays erased.
            ForgettingUnfinished: it has gone from the database, but not from everywhere else.
        """
        try:
            return self._forget(request)
        except NotFound:
            if self.pending():  # an erasure was interrupted when nothing but its traces was left
                self.finish()
            raise

    def _forget(self, request: EraseRequest) -> ErasureReport:
        self._sync(request.ids)
        query = self._build_query(request)
        done: dict[tuple[str, str], ErasureItem] = {}
        left: tuple[ErasureItem, ...] = ()
        keys: set[int] | None = None if self.pending() else set()

        def erase_round(tries: int) -> bool:
            """Erase what there is; return whether others have repeated it meanwhile."""
            nonlocal query, left
            if tries and not done:
                query = self._build_query(request)
            start = self._store.sequence()
            with self._store.reading(), self.index.reading():
                decisions, cursors = self._decide_all(query), self._find_cursors(query)
                going, left = self._build_items(query, decisions, cursors)
            if not going:
                return False
            rows = self._erase(decisions, cursors, query)
            if keys is not None:
                keys.update(row.key for row in rows)
            done.update((item.name, replace(item, text="")) for item in going)
            own = {row.sequence for row in rows}
            others = (row for row in iter_rows(self._store, after=start) if row.sequence not in own)
            return any(hit.is_suspect for row in others for hit in query.examine_row(row))

        for _ in range(_ROUNDS):
            if not self.writer.retrying(erase_round, attempts=_ATTEMPTS):
                break
        if not done:
            raise _build_not_found(request, left)
        ids = [name for subject, name in done if subject == "record"]
        with report_unfinished():
            notes = self.describe_copies()
            erased = set(ids).difference(record.id for record in self._store.records(ids))
            left += tuple(self._remove_remains(query, erased, left))
            pending = self.finish(keys)
        return ErasureReport(going=tuple(done.values()), left=left, done=True, pending=pending, notes=notes)

    def _erase(
        self, decisions: Sequence[EraseDecision], cursors: Mapping[str, str | None], query: EraseQuery
    ) -> list[JournalEntry]:
        """Erase in the store as decided, and let files and index follow; return the journal entries."""
        at = self.writer.clock()
        key = make_key(self._store, at=at)
        erasing = [decision for decision in decisions if decision.item.fate != "kept"]
        present = [(each.thing.now, each.after) for each in erasing]
        edits = [Change(before=now, after=after) for now, after in present if isinstance(now, Value)]
        if entries := [entry for entry, _ in present if isinstance(entry, Entry)]:
            self.writer.commit([], cursors={PENDING: _INTERRUPTED})
        for entry in entries:
            self._store.drop_entries(entry.namespace, [entry.key])
        gone = [each.thing.name for each in erasing if each.thing.now is None]
        rows = self._store.commit(
            [*sorted(edits, key=_get_sort_key), *build_purge_edits(gone, at)],
            actor=self.writer.actor,
            at=at,
            operation="forget",
            tombstones=_collect_marks(erasing, key),
            cursors={PENDING: _INTERRUPTED, **self._find_prompts_and_plans(erasing, query), **cursors},
        )
        with report_unfinished():
            if self.files is not None:
                versions = (each for one in erasing for each in (*one.thing.versions, (at, one.thing.now)))
                self.files.notice_erasure(rows, (value for _, value in versions if isinstance(value, Value)))
            self.writer.publish(rows)
        return rows

    def _find_cursors(self, query: EraseQuery) -> dict[str, str | None]:
        """Return what becomes of the cursors that name an erased or removed thing, or quote the text."""
        changes: dict[str, str | None] = {}
        for name, value in self._store.cursors().items():
            prefix = next((prefix for prefix in _CURSORS_OF_NAMES if name.startswith(prefix)), "")
            about = name.removeprefix(prefix) if prefix else ""
            if about in query.sessions or (query.phrases.has_piece(about) and not self._is_present(about)):
                changes[name] = None
            elif name == LOG and query.phrases.has_match(value):
                rest = drop_log_entries(value, query.phrases.has_match)
                changes[name] = None if rest == value else rest
        return changes | find_erased_plans(
            self._store,
            lambda text: text in query.sessions or query.phrases.has_match(text),
            unreadable=False,
        )

    def _is_present(self, name: str) -> bool:
        """Whether there is a session, page or log of that name."""
        return bool(self._store.session(name) or self._store.pages([name]) or name in self._store.logs())

    def _find_prompts_and_plans(
        self, erasing: Sequence[EraseDecision], query: EraseQuery
    ) -> dict[str, str | None]:
        """Return what becomes of entries of the prompt log and of plans that are about erased values."""
        names = [each.thing.name for each in erasing if _is_erased(each)]
        prompts = find_erased_entries(
            self._store,
            {name for _, name in names},
            {name for subject, name in names if subject == "session"},
            pages=any(each.thing.name[0] == "page" for each in erasing),
        )
        ids, scope = {each.thing.name[1] for each in erasing}, query.scope
        plans = find_erased_plans(
            self._store,
            lambda text: text in ids or (scope is not None and is_within(text, scope)),
            unreadable=True,
        )
        return {**prompts, **plans}

    # -- everywhere else -------------------------------------------------------------------------------

    def pending(self) -> tuple[str, ...]:
        """Return descriptions of what an earlier erasure could not finish."""
        words = self._store.cursor(PENDING)
        return tuple(words.split("\n")) if words else ()

    def describe_copies(self) -> tuple[str, ...]:
        """Return notes about copies, and about where a database server keeps erased content for a while."""
        store = get_server_store(self._store)
        remains = () if store is None else store.describe_remains()
        kept = (f"for a while it is also in {'; '.join(remains)}",) if remains else ()
        return (*describe_copies(self.folder), *kept)

    def finish(self, keys: Collection[int] | None = None) -> tuple[str, ...]:
        """Remove erased content from files, index, upgrade copies and the free space of databases.

        Args:
            keys: The keys of what was erased; None if an earlier erasure was interrupted.

        Returns:
            Descriptions of what could not be done, which `pending` returns from then on.

        Raises:
            ForgettingUnfinished: it failed; `pending` names the erasure as before.
        """
        left: list[str] = []
        with report_unfinished():
            if self.folder is not None:
                if keys is None:
                    self._sync()
                unwritten = {} if self.files is None else self.files.find_unwritten()
                left += (
                    f"{f'the file {path!r}' if path else 'the files'} could not be written: {why}"
                    for path, why in sorted(unwritten.items())
                )
                left += self._scrub_file_list(self.folder)
                left += remove_copies(self.folder)
            if not self.index.scrub():
                left.append("the search index: another process was writing it all the while")
            if not self._scrub_vectors(keys):
                left.append("the vectors: the disk refused it")
            if not self._scrub_store():
                left.append(
                    "free space in the database: another process used it all the while, or the role may not"
                )
            self.writer.commit([], cursors={PENDING: "\n".join(left) or None})
        return tuple(left)

    def _scrub_vectors(self, keys: Collection[int] | None) -> bool:
        if self.vectors is not None:
            return self.vectors.scrub(keys)
        return self.folder is None or remove_vectors(self.folder / VECTORS)

    def _scrub_store(self) -> bool:
        until = time.monotonic() + _WAIT_FOR_READERS_S
        while not self._store.scrub():
            if time.monotonic() > until:
                return False
            time.sleep(_PAUSE_S)
        return True

    def _remove_remains(
        self,
        query: EraseQuery,
        records: Collection[str],
        left: Iterable[ErasureItem],
        *,
        dry_run: bool = False,
    ) -> list[ErasureItem]:
        """Remove matches in files that the mirror must not touch; return those that a person has to remove.

        Args:
            query: The criteria.
            records: The ids of erased records.
            left: What is named already.
            dry_run: Whether to change nothing.
        """
        if self.folder is None or not (self.folder / FILES_DATABASE).exists():
            return []
        if not query.is_of_ids:
            self._sync()
        try:
            with self._using_state(self.folder) as state:
                remains = scrub_files(
                    self.folder,
                    state,
                    query.phrases,
                    records=records,
                    sessions=query.sessions,
                    mirrored=self.files is not None,
                    dry_run=dry_run,
                )
        except (StateUnavailable, OSError) as error:
            because = f"old files in it could not be looked at: {error}"
            return [build_kept_item("file", "memory/", because)]
        because = "it is yours, and what it says was not taken in: put it right or remove it"
        items = [build_kept_item("file", path, because) for path in remains]
        return [item for item in items if item.name not in {each.name for each in left}]

    def _scrub_file_list(self, folder: Path) -> list[str]:
        """Overwrite what is free in the list of files; return why that was not possible."""
        if not (folder / FILES_DATABASE).exists():
            return []
        try:
            with self._using_state(folder) as state:
                is_scrubbed = state.scrub()
        except StateUnavailable as error:
            return [f"the list of files: {error}"]
        return [] if is_scrubbed else ["the list of files: another process was using it all the while"]

    def _using_state(self, folder: Path) -> AbstractContextManager[FileState]:
        """Return a context with the state of the files, which stays open if they are mirrored."""
        return closing(FileState(folder)) if self.files is None else nullcontext(self.files.state)

    def _sync(self, ids: Sequence[str] = ()) -> None:
        """Import edits of files: those of the things with some ids, or of all files without ids."""
        if self.files is not None and ids:
            self.files.flush()
            self.files.take_in()
        elif self.files is not None:
            self.files.sync()


# -- decisions as changes -------------------------------------------------------------------------------


def _rank_match(item: ErasureItem) -> tuple[bool, bool, int]:
    """Return the sort key: what was requested first, what loses only earlier versions last."""
    place = _ORDER.index(item.subject) if item.subject in _ORDER else len(_ORDER)
    return item.fate == "past", item.because != "asked for", place


def _is_erased(decision: EraseDecision) -> bool:
    return decision.item.fate in ("removed", "emptied") or (
        decision.thing.now is None and decision.item.fate == "past"
    )


def _get_sort_key(edit: Change) -> tuple[int, int]:
    """Return the sort key: turns from the last to the first, sessions after their turns."""
    value = edit.value
    return _ORDER.index(edit.subject), -value.position if isinstance(value, Turn) else 0


def _collect_marks(decisions: Sequence[EraseDecision], key: bytes) -> list[str]:
    marks: dict[str, None] = {}
    for decision in decisions:
        whole = decision.item.fate == "removed" or decision.thing.now is None
        of = tombstone_keys if whole else compute_content_marks
        marks |= dict.fromkeys(mark for value in decision.forgotten for mark in of(value, key))
    return list(marks)


def _list_quotable_texts(value: Value) -> list[str]:
    """Return the texts of a thing that others could repeat."""
    if isinstance(value, Turn) and value.content == FORGOTTEN:
        return []
    return extract_texts(value, by_label=False)


def _build_not_found(request: EraseRequest, left: Sequence[ErasureItem]) -> NotFound:
    if request.match is not None and left:
        named = "; ".join(f"{item.subject} {item.id!r} ({item.because})" for item in left[:_NAMED])
        return NotFound(f"nothing that has that text goes by itself, of {len(left)} with it: {named}")
    if request.match is not None:
        return NotFound("no item contains that text: search for words of it, or forget by id")
    return NotFound("nothing is left of it to forget: search or list for the right id")
