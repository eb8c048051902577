"""What can be asked of a memory? Every method here reads; none changes anything.

`Memory` adds what changes it. A memory as it was at an earlier moment has this part alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, get_args

from reverie.admin.stats import FAILURES, ScopeStats, Stats, compute_folder_size
from reverie.context import StaticContext
from reverie.context.notes import render_memory_section
from reverie.domain.change import JournalEntry
from reverie.domain.conversation import SessionOverview, Turn
from reverie.domain.errors import InvalidInput, ScopeRequired
from reverie.domain.filter import (
    Filter,
    ListFilters,
    RecordFilters,
    SearchFilters,
    TurnFilters,
    build_filter,
    parse_scopes,
)
from reverie.domain.page import HISTORY, Paragraph
from reverie.domain.record import FIL as RECORDS_FIL
from reverie.domain.record import Record, validate_choice
from reverie.domain.scope import validate_scope, visible_scopes
from reverie.domain.text.timestamps import Clock
from reverie.files.profile import Profile
from reverie.repositories.pages import Pages
from reverie.search.hits import FIL, Hit, SearchMode, Unit
from reverie.search.index.search_index import SearchIndex
from reverie.search.searcher import MOST_HITS, Searcher, SearchRequest, validate_count
from reverie.settings import Settings
from reverie.stores.protocol import Store, StoreProblem

if TYPE_CHECKING:
    from reverie.admin.history import Journal
    from reverie.admin.transfer.export import ExportForm, ExportReport
    from reverie.admin.transfer.formats.native.jsonl import Writable


class MemoryReader:
    """The part of a memory that only reads. Safe to use from several threads."""

    path: Path | None
    settings: Settings
    pages: Pages
    _store: Store
    _searching: Searcher
    _index: SearchIndex
    _clock: Clock
    _profile: Profile | None

    @cached_property
    def journal(self) -> Journal:
        """The account of every change: what was, what is, who made it and why."""
        from reverie.admin.history import Journal

        return Journal(self._store)

    # -- reading -----------------------------------------------------------------------------------------

    def get(self, id: str) -> Record | None:
        """The record of that id, archived or not; None if there is none.

        Raises:
            StoreCorrupt: there is one, but it cannot be read.
        """
        found = self._store.records([validate_text(id, "id")])
        return found[0] if found else None

    def get_turn(self, id: str) -> Turn | None:
        """The turn of that id; None if there is none."""
        found = self._store.turns([validate_text(id, "id")])
        return found[0] if found else None

    def get_paragraph(self, id: str) -> Paragraph | None:
        """The paragraph of a log of that id; None if there is none."""
        found = self._store.paragraphs([validate_text(id, "id")])
        return found[0] if found else None

    def records(
        self, *, limit: int | None = 50, offset: int = 0, **only: Unpack[ListFilters]
    ) -> list[Record]:
        """Records, the latest changed first.

        Args:
            limit: At most so many; None for all.
            offset: Leave out so many first.
            **only: What to restrict it to; see `reverie.domain.filter.ListFilters`.

        Raises:
            InvalidInput: an argument is not of its form.
            ScopeNeeded: scopes are in use, and none is given.
        """
        allowed = self._build_filter(only, ListFilters)
        if allowed.archived is False:
            allowed = replace(allowed, alive_at=self._clock())
        validate_count(offset, name="offset", least=0)
        if limit is not None:
            validate_count(limit, name="limit", least=0)
        return list(self._store.find(allowed, limit=limit, offset=offset))

    def recent(self, *, limit: int = 10, **only: Unpack[RecordFilters]) -> list[Record]:
        """The records changed last that hold now, newest first.

        Args:
            limit: At most so many, 1 to 1,000.
            **only: What to restrict it to; see `reverie.domain.filter.RecordFilters`.

        Raises:
            InvalidInput: an argument is not of its form.
            ScopeNeeded: scopes are in use, and none is given.
        """
        validate_count(limit, name="limit", most=MOST_HITS)
        allowed = self._build_filter(only, RecordFilters)
        holding = allowed if allowed.valid_at is not None else replace(allowed, valid_at=self._clock())
        return self._searching.recent(allowed=holding, limit=limit)

    def categories(self, *, scope: str | Sequence[str] | None = None) -> dict[str, int]:
        """How many live records each category has; those without one under the empty text.

        Args:
            scope: Only this scope, or these; `EVERY_SCOPE` for all; None where no scopes are in use.

        Raises:
            ScopeNeeded: scopes are in use, and none is given.
        """
        return self._store.tally("category", self._build_live_filter(scope))

    def tags(self, *, scope: str | Sequence[str] | None = None) -> dict[str, int]:
        """How many live records each tag has.

        Args:
            scope: Only this scope, or these; `EVERY_SCOPE` for all; None where no scopes are in use.

        Raises:
            ScopeNeeded: scopes are in use, and none is given.
        """
        return self._store.tally("tag", self._build_live_filter(scope))

    # -- searching ---------------------------------------------------------------------------------------

    def search(
        self,
        query: str | None = None,
        *,
        limit: int = 10,
        min_score: float = 0.0,
        mode: SearchMode = "words",
        **only: Unpack[RecordFilters],
    ) -> list[Hit]:
        """Records that answer a question, best first; nothing when nothing is relevant.

        Args:
            query: The question, up to 10,000 characters; None lists the latest changed records.
            limit: At most so many, 1 to 1,000.
            min_score: Only hits that score at least so much, 0 to 1.
            mode: `words` ranks by them; `literal` finds the text as it stands; `regex` a pattern.
            **only: What to restrict it to; see `reverie.domain.filter.RecordFilters`.

        Raises:
            InvalidInput: an argument is not of its form.
            ScopeNeeded: scopes are in use, and none is given.
        """
        with self._store.reading():
            allowed = self._build_filter(only, RecordFilters)
            question = SearchRequest(text=query, allowed=allowed, limit=limit, min_score=min_score, mode=mode)
            return self._searching.records(question)

    def search_turns(
        self,
        query: str,
        *,
        limit: int = 10,
        min_score: float = 0.0,
        mode: SearchMode = "words",
        unit: Unit = "turn",
        **only: Unpack[TurnFilters],
    ) -> list[Hit]:
        """Turns of past conversations that answer a question, best first.

        A turn is found through what was said around it too, and by its speaker and date.

        Args:
            query: The question, up to 10,000 characters.
            limit: At most so many, 1 to 1,000.
            min_score: Only hits that score at least so much, 0 to 1.
            mode: `words` ranks by them; `literal` finds the text as it stands; `regex` a pattern.
            unit: `turn`, or `make_session` to find whole sessions, each with its best turn.
            **only: What to restrict it to; see `reverie.domain.filter.TurnFilters`.

        Raises:
            InvalidInput: an argument is not of its form.
            ScopeNeeded: scopes are in use, and none is given.
        """
        validate_choice(unit, get_args(Unit), name="unit")
        allowed = self._build_filter(only, TurnFilters)
        question = SearchRequest(text=query, allowed=allowed, limit=limit, min_score=min_score, mode=mode)
        return self._searching.sessions(question) if unit == "session" else self._searching.turns(question)

    def search_history(
        self,
        query: str | None = None,
        *,
        limit: int = 10,
        min_score: float = 0.0,
        mode: SearchMode = "words",
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[Hit]:
        """Paragraphs of `HISTORY.md` that answer a question, best first.

        Args:
            query: The question, up to 10,000 characters; None lists the newest paragraphs.
            limit: At most so many, 1 to 1,000.
            min_score: Only hits that score at least so much, 0 to 1.
            mode: `words` ranks by them; `literal` finds the text as it stands, also in the time that a
                paragraph begins with; `regex` a pattern.
            since: Only paragraphs that tell of this moment or later.
            until: Only paragraphs that tell of a time before this moment.

        Raises:
            InvalidInput: an argument is not of its form.
        """
        allowed = Filter(created_after=since, created_before=until)
        return self._searching.paragraphs(
            SearchRequest(text=query, allowed=allowed, limit=limit, min_score=min_score, mode=mode)
        )

    def recall(
        self,
        query: str | None = None,
        *,
        limit: int = 10,
        min_score: float = 0.0,
        mode: SearchMode = "words",
        **only: Unpack[SearchFilters],
    ) -> list[Hit]:
        """What answers a question among records, turns and `HISTORY.md`, best first: prompts are made of it.

        Args:
            query: The question, up to 10,000 characters; None lists what is newest.
            limit: At most so many, 1 to 1,000.
            min_score: Only hits that score at least so much, 0 to 1.
            mode: `words` ranks by them; `literal` finds the text as it stands; `regex` a pattern.
            **only: What to restrict it to; see `reverie.domain.filter.SearchFilters`. One that only records
                have (such as `category`) leaves everything else out, and so does one that only turns have.

        Raises:
            InvalidInput: an argument is not of its form.
            ScopeNeeded: scopes are in use, and none is given.
        """
        allowed = self._build_filter(only, SearchFilters)
        question = SearchRequest(text=query, allowed=allowed, limit=limit, min_score=min_score, mode=mode)
        return self._searching.everything(question)

    def recall_fil(self, query: str, *, limit: int = 5, scope: str | Sequence[str] | None = None) -> FIL:
        """Findings, insights and lessons about a question, three lists (agentkit's RecallFIL).

        Args:
            query: The question.
            limit: At most so many of each.
            scope: Only this scope, or these; `EVERY_SCOPE` for all; None where no scopes are in use.

        Raises:
            ScopeNeeded: scopes are in use, and none is given.
        """
        found = [self.search(query, limit=limit, kinds=[kind], scope=scope) for kind in RECORDS_FIL]
        return FIL(findings=found[0], insights=found[1], lessons=found[2])

    def recall_by_category(
        self, query: str, category: str, *, limit: int = 5, scope: str | Sequence[str] | None = None
    ) -> list[Hit]:
        """Records of a category, or of one of the three FIL kinds, that answer a question.

        Args:
            query: The question.
            category: A category, or `finding`, `insight` or `lesson`.
            limit: At most so many.
            scope: Only this scope, or these; `EVERY_SCOPE` for all; None where no scopes are in use.

        Raises:
            ScopeNeeded: scopes are in use, and none is given.
        """
        for kind in RECORDS_FIL:
            if category == kind:
                return self.search(query, limit=limit, kinds=[kind], scope=scope)
        return self.search(query, limit=limit, category=category, scope=scope)

    # -- conversations -----------------------------------------------------------------------------------

    def sessions(
        self, *, scope: str | Sequence[str] | None = None, limit: int | None = None
    ) -> list[SessionOverview]:
        """Sessions with their number of turns, the latest active first.

        Args:
            scope: Only this scope, or these; `EVERY_SCOPE` for all; None where no scopes are in use.
            limit: At most so many; None for all.

        Raises:
            ScopeNeeded: scopes are in use, and none is given.
        """
        if limit is not None:
            validate_count(limit, name="limit", least=0)
        return self._store.sessions(scopes=self._resolve_scopes(scope), limit=limit)

    def turns(self, session: str, *, start: int = 0, stop: int | None = None) -> list[Turn]:
        """Turns of a session by position, all of them ever; an unknown session has none.

        Args:
            session: The session's id.
            start: The first position; a negative one counts from the end.
            stop: The position after the last; None for the end.
        """
        return self._store.turns(session=session, start=start, stop=stop)

    # -- taking it elsewhere -----------------------------------------------------------------------------

    def export(
        self,
        target: str | os.PathLike[str] | Writable,
        form: ExportForm = "jsonl",
        *,
        scope: str | Sequence[str] | None = None,
        archived: bool = True,
        sessions: bool = True,
        overwrite: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> ExportReport:
        """Write records, sessions, pages and logs for people and other programs to read.

        Every field is in it, so `Memory.import_` brings it all back. The journal, working memory and marks of
        what was forgotten are not; `Memory.backup` keeps those too.

        Args:
            target: The file (`jsonl`) or the folder (`markdown`, `folder`), which must be new or empty; for
                `jsonl` also an open text file.
            form: `jsonl`, one JSON document a line; `markdown`, a file a record and a session, with YAML
                front matter; `folder`, laid out as the readable folder is.
            scope: Only this scope, or these; None or `EVERY_SCOPE` for all. Pages and logs are of the empty
                scope.
            archived: Whether archived records are exported.
            sessions: Whether sessions are.
            overwrite: Whether a file of that name may be replaced.
            progress: Told how many records and turns were written since it was last told.

        Returns:
            How much was exported, and what could not be read.

        Raises:
            InvalidInput: an argument is not of its form, or there is something of that name.
            StoreUnavailable: it cannot be written.
        """
        from reverie.admin.transfer import export

        selection = export.ExportSelection(scopes=parse_scopes(scope), archived=archived, sessions=sessions)
        return export.export(
            self._store,
            target,
            form,
            selection,
            at=self._clock(),
            overwrite=overwrite,
            progress=progress,
        )

    # -- looking inside ----------------------------------------------------------------------------------

    def history(self, id: str | None = None, *, after: int = 0, limit: int = 100) -> list[JournalEntry]:
        """The journal: every change, in the order it was made.

        Args:
            id: Only changes of the record, turn, session, page or paragraph of this id.
            after: Only changes with a larger number.
            limit: At most so many.
        """
        return self.journal.history(id, after=after, limit=limit)

    def stats(self) -> Stats:
        """What this memory holds."""
        live = Filter(alive_at=self._clock())
        by_kind = self._store.tally("kind", live)
        sessions = self._store.sessions()
        logs = self._store.logs()
        return Stats(
            records=sum(by_kind.values()),
            archived=sum(self._store.tally("kind", Filter(archived=True)).values()),
            turns=sum(each.turns for each in sessions),
            sessions=len(sessions),
            pages=len(self._store.pages()),
            paragraphs=logs.pop(HISTORY, 0),
            notes=sum(logs.values()),
            journal=self._store.sequence(),
            by_kind=by_kind,
            by_category=self._store.tally("category", live),
            bytes_on_disk=compute_folder_size(self.path),
            failed={name: count for name, key in FAILURES.items() if (count := self._store.count(key))},
            index=self._index.status(),
            path=self.path,
        )

    def scope_stats(self, scope: str) -> ScopeStats:
        """How much somebody sees who is in a scope: what is theirs, and what is everybody's.

        Args:
            scope: The scope, such as `user:alice`.

        Raises:
            InvalidInput: it is no scope.
        """
        seen = visible_scopes(validate_scope(scope))
        live = Filter(scopes=seen, alive_at=self._clock())
        by_kind = self._store.tally("kind", live)
        sessions = self._store.sessions(scopes=seen)
        return ScopeStats(
            records=sum(by_kind.values()),
            archived=sum(self._store.tally("kind", Filter(scopes=seen, archived=True)).values()),
            turns=sum(each.turns for each in sessions),
            sessions=len(sessions),
            by_kind=by_kind,
            by_category=self._store.tally("category", live),
        )

    def check(self) -> list[StoreProblem]:
        """Everything that is wrong with what is stored; an empty list when it is sound."""
        return self._store.check()

    def _read_standing(self) -> StaticContext:
        """What stands in every prompt."""
        return StaticContext(
            profile=self._profile.read() if self._profile is not None else (),
            pages=(render_memory_section(self.pages.read()),),
            notes=tuple(self.pages.notes()),
        )

    def _build_live_filter(self, scope: str | Sequence[str] | None) -> Filter:
        return Filter(scopes=self._resolve_scopes(scope), alive_at=self._clock())

    def _build_filter(self, only: Mapping[str, Any], form: type) -> Filter:
        """The filter that keyword arguments ask for; whose memory is meant must be clear."""
        allowed = build_filter(only, form)
        self._resolve_scopes(only.get("scope"))
        return allowed

    def _resolve_scopes(self, scope: str | Sequence[str] | None) -> tuple[str, ...] | None:
        """A scope, or several, as a filter has them; None for all, if that is asked for or all there is."""
        if scope is None and self._searching.has_scopes():
            raise ScopeRequired(
                "this memory is that of several, and scope is not given: pass scope='user:alice' or the "
                "like, scope='' for what is everybody's, or scope=EVERY_SCOPE to look at all on purpose"
            )
        return parse_scopes(scope)


def validate_text(value: str, name: str) -> str:
    """`value`, if it is a string; raises `InvalidInput` otherwise."""
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is {value!r}: pass a string")
    return value
