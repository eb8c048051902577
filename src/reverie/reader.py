"""Queries of a memory within one scope, or over all scopes."""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

from reverie.domain.conversation import SessionOverview, SessionState, Turn
from reverie.domain.errors import InvalidInput, translate_os_errors
from reverie.domain.filter import Filter, ListFilters, SearchFilters, build_filter, parse_values
from reverie.domain.lazy_dataclass import replace
from reverie.domain.page import Paragraph
from reverie.domain.record import Record, validate_choice
from reverie.domain.scope import (
    EVERY_SCOPE,
    build_scoped_session_id,
    build_unscoped_session_id,
    join_scope,
    visible_scopes,
)
from reverie.domain.text.timestamps import Clock
from reverie.domain.text.validation import validate_count, validate_id, validate_limit
from reverie.search.hits import SOURCES, Hit, SearchMode, SearchRequest, Source, Unit
from reverie.search.ranking import RankingSettings
from reverie.search.searcher import Searcher, to_scoring_settings
from reverie.settings import Settings
from reverie.stores.protocol import Store
from reverie.stores.telemetry import trace

if TYPE_CHECKING:
    from datetime import datetime

    from reverie.admin.stats import ScopeStats
    from reverie.consolidation.pair_judge import PairJudge
    from reverie.repositories.prompts import PromptLog
    from reverie.repositories.subjects import SubjectIndex
    from reverie.search.index.search_index import SearchIndex
    from reverie.search.searcher import LeftOut
    from reverie.search.vectors.vector_index import VectorIndex

_FIRST_TURNS = 6  # of a session, among which its first message is

Order = Literal["newest", "oldest", "created"]
"""Order of a list of records: last changed first, last changed last, or last created first."""


class MemoryReader:
    """Queries of a memory within one scope. Safe to use from several threads.

    A reader sees the records and turns of its scope, of the scopes that contain it, and of the empty scope,
    which belongs to everybody. It does not see other scopes. The scope `EVERY_SCOPE` sees
    everything. Pages and logs belong to everybody.

    Attributes:
        scope: The scope, such as `user:alice/task:deploy`; empty for what is everybody's.
        settings: The settings of the memory.
    """

    def __init__(
        self, store: Store, searcher: Searcher, *, scope: str, settings: Settings, clock: Clock
    ) -> None:
        self.scope = scope if scope in ("", EVERY_SCOPE) else join_scope("", scope)
        self.settings = settings
        self._scopes = None if scope == EVERY_SCOPE else visible_scopes(scope)
        self._store = store
        self._searcher = searcher
        self._clock = clock
        self._judge: PairJudge | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.scope!r})"

    def scoped(self, scope: str) -> MemoryReader:
        """Return a reader for a scope within this one.

        Args:
            scope: A path such as `user:alice` or `user:alice/task:deploy`; `EVERY_SCOPE` for all scopes.

        Raises:
            InvalidInput: the scope is not of its form.
        """
        reader = MemoryReader(
            self._store,
            self._searcher,
            scope=self._join_scope(scope),
            settings=self.settings,
            clock=self._clock,
        )
        reader._judge = self._judge
        return reader

    # -- single items ------------------------------------------------------------------------------------

    def get(self, id: str) -> Record | None:
        """Return the record of that id, archived or not; None if there is none here.

        Raises:
            StoreCorrupt: the record cannot be read.
        """
        records = self._store.records([validate_id(id)])
        return records[0] if records and self._is_visible(records[0].scope) else None

    def get_turn(self, id: str) -> Turn | None:
        """Return the turn of that id; None if there is none here."""
        turns = self._store.turns([validate_id(id)])
        return turns[0] if turns and self._is_visible(turns[0].scope) else None

    def get_paragraph(self, id: str) -> Paragraph | None:
        """Return the paragraph of that id from a log or a page; None if there is none. Pages belong to everybody."""
        paragraphs = self._store.paragraphs([validate_id(id)])
        return paragraphs[0] if paragraphs else self._searcher.find_page_paragraph(id)

    # -- lists -------------------------------------------------------------------------------------------

    def list(
        self,
        *,
        limit: int | None = 50,
        offset: int = 0,
        order: Order = "newest",
        parts: bool = False,
        **filters: Unpack[ListFilters],
    ) -> builtins.list[Record]:
        """Return records in the order of their last change; a headline stands for its parts.

        Args:
            limit: Most records to return; None for all.
            offset: Number of records to skip.
            order: `newest` or `oldest` first; `created` for those created last first.
            parts: Whether to return all records and no headlines.
            **filters: Restrictions; see `reverie.domain.filter.ListFilters`.

        Raises:
            InvalidInput: an argument is not of its form.
        """
        allowed = build_filter(filters, ListFilters, scopes=self._scopes)
        if allowed.archived is False:
            allowed = replace(allowed, alive_at=self._clock())
        validate_choice(order, get_args(Order), name="order")
        validate_count(offset, name="offset", least=0)
        validate_limit(limit, name="limit")
        if parts:
            allowed = replace(allowed, headlines=False)
        folds = not parts and allowed.archived is False and self._searcher.has_headlines()
        by: Literal["created", "updated"] = "created" if order == "created" else "updated"
        if order != "oldest" and not folds:
            return builtins.list(self._store.find(allowed, order=by, limit=limit, offset=offset))
        records: Iterable[Record] = self._store.find(allowed, order=by)
        if order == "oldest":
            records = reversed(builtins.list(records))
        if folds:
            records = self._searcher.fold(records, allowed)
        return builtins.list(islice(records, offset, None if limit is None else offset + limit))

    def list_own(self, *, limit: int | None = 50, offset: int = 0) -> tuple[builtins.list[Record], int]:
        """Return the live records of this scope alone, those created last first, without headlines.

        Args:
            limit: Most records to return; None for all.
            offset: Number of records to skip.

        Returns:
            The records, and the number of all of them.
        """
        validate_count(offset, name="offset", least=0)
        validate_limit(limit, name="limit")
        own = replace(self._build_live_filter(), scopes=(self.scope,), headlines=False)
        found = self._store.find(own, order="created", limit=limit, offset=offset)
        return builtins.list(found), sum(self._store.tally("scope", own).values())

    def categories(self) -> dict[str, int]:
        """Return the number of live records of each category; those without one under the empty text."""
        return self._store.tally("category", self._build_live_filter())

    def tags(self) -> dict[str, int]:
        """Return the number of live records that have each tag.

        Spellings that differ in case are one tag, under the one that most records have.
        """
        spellings = self._store.tally("tag", self._build_live_filter())
        usual: dict[str, str] = {}
        counts: Counter[str] = Counter()
        for tag in sorted(spellings, key=lambda one: (-spellings[one], one)):
            counts[usual.setdefault(tag.casefold(), tag)] += spellings[tag]
        return dict(sorted(counts.items()))

    @property
    def subjects(self) -> SubjectIndex:
        """The names and categories that records share, and the number of records that each filter of `list` finds."""
        from reverie.repositories.subjects import SubjectIndex  # here: a search does not need it

        return SubjectIndex(self._store, self._scopes, clock=self._clock)

    # -- searching ---------------------------------------------------------------------------------------

    def search(
        self,
        query: str | None = None,
        *,
        sources: Source | Sequence[Source] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
        mode: SearchMode = "words",
        unit: Unit = "turn",
        **filters: Unpack[SearchFilters],
    ) -> builtins.list[Hit]:
        """Return what answers a query as one list, best first; an empty list when nothing is relevant.

        Of what two visible scopes say in the same words, the narrower scope's is returned. A turn is found
        through the turns around it too, and by its speaker and date.

        Args:
            query: The question, up to 10,000 characters; None returns what changed last.
            sources: One or several of `records`, `turns` (of conversations) and `pages` (paragraphs of
                `HISTORY.md`, `MEMORY.md` and other pages; not of daily notes, which repeat turns). None takes all
                for a question; without one, turns if a filter restricts turns, else records.
            limit: Most hits to return, 1 to 1,000.
            min_score: Lowest score of a hit, 0 to 1.
            mode: `words` ranks by words; `literal` finds the text as it stands; `regex` finds a regular
                expression in the syntax of `re`, for at most 5 seconds.
            unit: `session` returns each conversation once, with its best turn, in place of turns.
            **filters: Restrictions; see `reverie.domain.filter.SearchFilters`. A filter that only records or
                only turns have leaves the other sources out.

        Raises:
            InvalidInput: an argument is not of its form, or a filter fits none of the sources.
        """
        options = {"sources": sources, "limit": limit, "min_score": min_score, "mode": mode, "unit": unit}
        request, where, unit = self._parse_search(query, {**options, **filters})
        judge = self._judge if "records" in where else None
        tracing = trace(self.settings, "search_memory", scope=self.scope)
        with translate_os_errors("the memory cannot be searched"), tracing as span:
            with self._store.reading():  # one look at the newest change serves the judge and the search
                is_judged = judge is None or not judge.has_pending()
                hits = self._searcher.search(request, where, unit=unit) if is_judged else []
            if judge is not None and not is_judged:
                judge.prepare_search()
                hits = self._searcher.search(request, where, unit=unit)
            span.set("gen_ai.memory.record.count", len(hits))
            if query is not None and not hits:
                span.count("reverie.search.nothing_relevant", 1)
            if span.has_content:
                span.set_content("gen_ai.memory.query.text", query or "")
                span.set_content(
                    "gen_ai.memory.records",
                    [{"id": hit.id, "content": hit.content, "score": hit.score} for hit in hits],
                )
        return hits

    def left_out(
        self, query: str, hits: Sequence[Hit], /, *, most: int = 10, **options: Any
    ) -> builtins.list[LeftOut]:
        """Return what a search left out and why, best first, then archived records; nothing of other scopes.

        Args:
            query: The question of the search.
            hits: What `search` returned.
            most: Most hits to return, and most archived records.
            **options: The other arguments of `search`.
        """
        from reverie.search.searcher import find_left_out

        request, where, _ = self._parse_search(query, options)
        return find_left_out(self._searcher, request, where, hits, most=most)

    def _parse_search(
        self, query: str | None, options: Mapping[str, Any]
    ) -> tuple[SearchRequest, Sequence[Source], Unit]:
        """Return the arguments of a search as its request, its sources and its unit."""
        filters: dict[str, Any] = {"sources": None, "unit": "turn", **options}
        sources, unit = filters.pop("sources"), filters.pop("unit")
        if sources is None:
            is_of_turns = unit == "session" or filters.get("session") or filters.get("role")
            sources = SOURCES if query is not None else "turns" if is_of_turns else "records"
        where = parse_sources(sources)
        named = {name: filters.pop(name) for name in ("limit", "min_score", "mode") if name in filters}
        allowed = build_filter(filters, SearchFilters, scopes=self._scopes)
        validate_choice(unit, get_args(Unit), name="unit")
        if "turns" not in where and (allowed.only_turns or unit == "session"):
            raise InvalidInput(f"session, role and unit restrict turns, and sources is {where}: add 'turns'")
        if "records" not in where and allowed.only_records:
            raise InvalidInput(f"a filter restricts records, and sources is {where}: add 'records'")
        request = SearchRequest(text=query, allowed=allowed, **named)
        if allowed.sessions:
            names = tuple(self._resolve_session(each) for each in allowed.sessions)
            request = request._replace(allowed=replace(allowed, sessions=names))
        return request, where, unit

    # -- conversations -----------------------------------------------------------------------------------

    def sessions(self, *, limit: int | None = None) -> builtins.list[SessionOverview]:
        """Return the sessions with their number of turns, the latest active first.

        Args:
            limit: Most sessions to return; None for all.
        """
        validate_limit(limit, name="limit")
        return self._store.sessions(scopes=self._scopes, limit=limit)

    def turns(self, session: str, *, start: int = 0, stop: int | None = None) -> builtins.list[Turn]:
        """Return the turns of a session by position; an unknown session has none.

        Args:
            session: The id of the session.
            start: First position; a negative one counts from the end.
            stop: Position after the last; None for the end.
        """
        validate_count(start, name="start", least=-1_000_000_000)
        if stop is not None:
            validate_count(stop, name="stop", least=-1_000_000_000)
        turns = self._store.turns(session=self._resolve_session(session), start=start, stop=stop)
        return [turn for turn in turns if self._is_visible(turn.scope)]

    def find_session(self, id: str) -> SessionState | None:
        """Return the state of a session; None if it has not begun, or cannot be read here."""
        state = self._store.session(self._resolve_session(id))
        return state if state is not None and self._is_visible(state.scope) else None

    def title(self, session: str) -> str:
        """Return the title of a session: `title` of its metadata, else the beginning of its first message."""
        from reverie.repositories.subjects import find_title

        state = self.find_session(session)
        given = "" if state is None else state.metadata.get("title", "")
        first = [] if given or state is None else self.turns(session, stop=_FIRST_TURNS)
        return find_title(given, [turn.content for turn in first if turn.role == "user"]) or session

    @property
    def prompts(self) -> PromptLog:
        """The prompt log of the sessions that can be seen here: which prompts a model was given, and why."""
        from reverie.repositories.prompts import PromptLog  # here: seldom asked

        return PromptLog(self._store, self._scopes, resolve=self._resolve_session)

    # -- numbers -----------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """Return the time by the clock of the memory."""
        return self._clock()

    def scopes(self) -> dict[str, int]:
        """Return the number of live records of each scope that can be seen here."""
        return self._store.tally("scope", self._build_live_filter())

    def stats(self) -> ScopeStats:
        """Return the numbers of records, turns and sessions that can be seen here."""
        from reverie.admin.stats import ScopeStats

        by_kind = self._store.tally("kind", self._build_live_filter())
        archived = self._store.tally("kind", Filter(scopes=self._scopes, archived=True))
        sessions = self._store.sessions(scopes=self._scopes)
        return ScopeStats(
            records=sum(by_kind.values()),
            archived=sum(archived.values()),
            turns=sum(each.turns for each in sessions),
            sessions=len(sessions),
            by_kind=by_kind,
            by_category=self.categories(),
        )

    # -- inside ------------------------------------------------------------------------------------------

    def _is_visible(self, scope: str) -> bool:
        return self._scopes is None or scope in self._scopes

    def _join_scope(self, scope: str) -> str:
        """Return the scope of that name within this one, checked."""
        own = "" if self.scope == EVERY_SCOPE else self.scope
        if not own and scope in ("", EVERY_SCOPE):
            return scope
        return join_scope(own, scope)

    def _build_live_filter(self) -> Filter:
        return Filter(scopes=self._scopes, alive_at=self._clock())

    def _resolve_own_session(self, id: str) -> str:
        """Return the id under which a session of this scope is stored, whether it has begun or not."""
        validate_id(id)
        if self._scopes is None:
            return id
        own = build_scoped_session_id(self.scope, id)
        scope = self._get_session_scope(own)
        if own != id and scope is None and self._get_session_scope(id) == self.scope:
            return id
        return build_unscoped_session_id(own) if scope and not self.scope else own

    def _resolve_session(self, id: str) -> str:
        """Return the id under which a session is stored that can be read here."""
        own = self._resolve_own_session(id)
        scope = None if own == id else self._get_session_scope(id)
        if scope is not None and self._is_visible(scope) and self._get_session_scope(own) is None:
            return id
        return own

    def _get_session_scope(self, session: str) -> str | None:
        """Return the scope of a session; None for one that has not begun."""
        state = self._get_session_state(session)
        return None if state is None else state.scope

    def _get_session_state(self, session: str) -> SessionState | None:
        return self._store.session(session)


def create_searcher(
    store: Store,
    index: SearchIndex,
    *,
    clock: Clock,
    settings: Settings,
    vectors: VectorIndex | None = None,
) -> Searcher:
    """Return the search over a store.

    Args:
        store: The store.
        index: Its index.
        clock: The clock.
        settings: The settings.
        vectors: The index of its vectors; None for a search by words alone.
    """
    return Searcher(
        store,
        index,
        vectors=vectors,
        clock=clock,
        settings=RankingSettings(),
        floor=settings.min_relevance,
        weights=to_scoring_settings(settings),
        zone=settings.zone,
    )


def parse_sources(sources: Source | Sequence[Source]) -> tuple[Source, ...]:
    """Return one source or several as a tuple; raise `InvalidInput` for anything else."""
    where = parse_values(sources, name="sources")
    if not where:
        raise InvalidInput(f"sources is {sources!r}: pass one or several of {', '.join(SOURCES)}")
    for each in where:
        validate_choice(each, SOURCES, name="source")
    return tuple(source for source in SOURCES if source in where)
