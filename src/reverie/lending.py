"""How do others use a memory? Seen from a scope, as tools for a model, as values under keys, as a graph.

All of it is a view of the same memory: what is done through one is journalled and found like the rest. What
each view does is in its own module, imported when it is asked for.
"""

from __future__ import annotations

import copy
from abc import ABC
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, cast

from reverie.domain.errors import InvalidInput
from reverie.domain.record import PROMOTED_FROM, Origin, Record
from reverie.repositories.pages import Pages
from reverie.repositories.records import NewRecord, SaveResult
from reverie.search.searcher import Searcher
from reverie.tending import Tending

if TYPE_CHECKING:
    from reverie.memory import Memory
    from reverie.repositories.key_value import KeyValueStore
    from reverie.repositories.knowledge_graph import KnowledgeGraph
    from reverie.scoped import ScopedMemory
    from reverie.tools import Toolset


class Lending(Tending, ABC):
    """The part of a `Memory` that gives others a view of it. Safe to use from several threads."""

    _searching: Searcher
    pages: Pages

    def scoped(self, scope: str) -> ScopedMemory:
        """The same memory as somebody sees it who is in one scope, and no other.

        Args:
            scope: A path such as `user:alice` or `user:alice/session:telegram:1/task:deploy`, the widest
                first. What is read there is the scope's own, that of what it lies in, and everybody's; what
                is written is the scope's own. Empty for what is everybody's alone.

        Raises:
            InvalidInput: it is no scope.
        """
        from reverie.scoped import ScopedMemory

        return ScopedMemory(cast("Memory", self), scope)

    def tools(self, *, session: str | None = None, groups: Sequence[str] | None = None) -> Toolset:
        """What a model may do with this memory: tools, neutral towards every provider.

        They see and change what belongs to no scope, or to the scope of the session; `Memory.scoped` gives
        those of another scope.

        Args:
            session: In which conversation they are called: its working memory is theirs, and what is saved
                has it as its source. None for none.
            groups: Which tools, in this order: any of `excerpt_long_term`, `working`, `memory`, `fil`,
                `scratchpad`, `conversation`, `pages`, `knowledge_graph`. None takes `excerpt_long_term`, `working`
                (with a session), `conversation` and `pages`, of which no two do the same.

        Raises:
            InvalidInput: there is no such group, or `working` was asked for without a session.
        """
        from reverie.tools import DEFAULT_GROUPS, memory_tools

        talk = None if session is None else cast("Memory", self).session(session)
        return memory_tools(
            self._copy_with_actor(self._agent).scoped("" if talk is None else talk.state.scope),
            session=talk,
            groups=DEFAULT_GROUPS if groups is None else groups,
            clock=self._clock,
        )

    def shelf(self, name: str, *, scope: str = "", origin: Origin = "agent") -> KeyValueStore:
        """Values of a program under keys, each kept as a record that people can see, change and take back.

        Args:
            name: The shelf's name, the first segment of its records' categories; other names, other values.
            scope: Whose memory it is; empty for everybody's.
            origin: Whose word the values are: those of a `tool`, the `web` or an `import` are found by search
                but never put into a prompt unasked.

        Raises:
            InvalidInput: an argument is not of its form.
        """
        from reverie.repositories.key_value import KeyValueStore  # here: few programs keep values

        return KeyValueStore(
            name,
            writer=self._writer,
            searching=self._searching,
            scope=scope,
            origin=origin,
            zone=self.settings.zone,
        )

    def knowledge_graph(self, *, scope: str = "") -> KnowledgeGraph:
        """Entities, what was observed of them, and relations between them, each kept as a record.

        Args:
            scope: Whose graph it is; empty for everybody's.

        Raises:
            InvalidInput: it is no scope.
        """
        from reverie.repositories.knowledge_graph import KnowledgeGraph  # here: few programs keep a graph

        return KnowledgeGraph(
            self._writer,
            scope=scope,
            zone=self.settings.zone,
        )

    # -- inside ------------------------------------------------------------------------------------------

    @property
    def _agent(self) -> str:
        """Who is named as the author of what a model changes: `agent`, or another that the memory has."""
        return "agent" if self._writer.actor == "owner" else self._writer.actor

    def _copy_with_actor(self, actor: str) -> Memory:
        """The same memory, of which the journal names another as the author."""
        other = copy.copy(cast("Memory", self))
        other._writer = self._writer.acting(actor)
        other._saving = self._saving.acting(actor)
        other.pages = self.pages._copy_with_actor(actor)
        return other

    def _promote(self, record: Record, scope: str) -> SaveResult:
        """A copy of a record in another scope, which `Scoped.promote` has checked."""
        left = None if record.expires_at is None else record.expires_at - self._clock()
        if left is not None and left <= timedelta(0):
            raise InvalidInput(f"record {record.id!r} has expired: give it a later `expires_at` first")
        from reverie.repositories import key_value_codec  # here: few promote

        note = NewRecord(
            content=record.content,
            category=record.category,
            kind=record.kind,
            layer=record.layer,
            tags=record.tags,
            confidence=record.confidence,
            importance=record.importance,
            source=record.source,
            references=record.references,
            origin=record.origin,
            scope=scope,
            pinned=record.pinned,
            valid_from=record.valid_from,
            valid_to=record.valid_to,
            ttl=left,
            metadata={**key_value_codec.other_metadata(record.metadata), PROMOTED_FROM: record.id},
            created_at=record.created_at,
        )
        return self._saving.save(note, reason=f"promoted from {record.id}")
