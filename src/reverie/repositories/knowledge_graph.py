"""Knowledge graph with the nine operations of the reference memory server.

Arguments and results have the form of `@modelcontextprotocol/server-memory`. An entity, each of its observations
and each relation is a record, so every search finds it, the journal has it, and an undo takes it back. Deleted
ones are archived. Every call is one transaction. `search_nodes` looks for a piece of text, as the reference
server does, and does not rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

from reverie.domain.change import Change, JournalEntry, Operation, Value
from reverie.domain.errors import Conflict, InvalidInput, NotFound, quote_value
from reverie.domain.filter import Filter
from reverie.domain.record import KEPT, LONGEST_LABEL, Record, note_dates, validate_record
from reverie.domain.scope import validate_scope
from reverie.domain.text.validation import clean_text, validate_values
from reverie.repositories import key_value_codec
from reverie.repositories.key_value_codec import Place
from reverie.repositories.writing import WritingRepository
from reverie.stores.writer import StoreWriter

CATEGORY: Final = "knowledge-graph"
"""The category of every record of the graph."""

ENTITY: Final = "entity"
ENTITY_TYPE: Final = "entity_type"
OBSERVATION: Final = "observation"
FROM: Final = "from"
RELATION: Final = "relation"
TO: Final = "to"

_PATIENT = 30
"""Number of lost races after which a change no longer requires that no record was changed meanwhile. The ids of
the records still prevent that something is created twice."""

_MOST_FOLLOWED = 2_000
"""Number of changes from which it is quicker to read the whole graph again than to follow them."""

_CLOCK_STEP = timedelta(seconds=1)
"""Records that are further in the future do not move the time of new ones."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)

_T = TypeVar("_T")
Link: TypeAlias = tuple[str, str, str]
"""Start, type and end of a relation."""

Plain: TypeAlias = dict[str, Any]


@dataclass(slots=True)
class _Entity:
    """Records of an entity: its own, and those of each observation."""

    kind: str
    itself: list[Record] = field(default_factory=list)
    observations: dict[str, list[Record]] = field(default_factory=dict)

    def records(self) -> list[Record]:
        return [*self.itself, *(record for each in self.observations.values() for record in each)]


@dataclass(slots=True)
class _Graph:
    """Content of the graph, in the order in which it was created.

    Attributes:
        entities: The entities by name.
        relations: The relations.
        last: The latest time at which a record of it was created.
    """

    entities: dict[str, _Entity] = field(default_factory=dict)
    relations: dict[Link, list[Record]] = field(default_factory=dict)
    last: datetime = _LONG_AGO


class KnowledgeGraph(WritingRepository):
    """Entities with observations, and relations between them. Safe for several threads and processes.

    `Memory.knowledge_graph` returns it. Arguments and results have the form of the reference server:
    entities are `{"name", "entityType", "observations"}`, relations `{"from", "to", "relationType"}`.

    Example:
        >>> from reverie import Memory
        >>> with Memory.open(":memory:") as memory:
        ...     graph = memory.knowledge_graph()
        ...     ada = {"name": "Ada", "entityType": "person", "observations": ["Likes trains"]}
        ...     _ = graph.create_entities([ada])
        ...     graph.search_nodes("TRAIN")["entities"] == [ada], memory.search("trains")[0].content
        (True, 'Ada: Likes trains')
    """

    def __init__(self, writer: StoreWriter, *, scope: str = "", zone: tzinfo = UTC) -> None:
        """Keep a graph in a store; `Memory.knowledge_graph` is the usual way.

        Args:
            writer: Commits the changes.
            scope: The scope of the records; those of other scopes are not seen.
            zone: The owner's time zone, for dates such as "yesterday".

        Raises:
            InvalidInput: the scope is not of its form.
        """
        super().__init__(writer)
        self.scope = validate_scope(scope)
        self._zone = zone
        self._known: tuple[int, _Graph] = (-1, _Graph())

    def _reset_after_fork(self) -> None:
        self._known = (-1, _Graph())

    # -- changing ----------------------------------------------------------------------------------------

    def create_entities(self, entities: Iterable[Mapping[str, Any]]) -> list[Plain]:
        """Create entities. One whose name exists already stays as it is.

        Args:
            entities: `{"name", "entityType", "observations"}` each.

        Returns:
            The new ones.
        """
        wanted = {
            self._parse_text(each, "name"): (
                self._parse_text(each, "entityType"),
                self._parse_texts(each, "observations"),
            )
            # Of two with one name the first counts.
            for each in reversed(validate_values(entities, name="entities", of="mappings"))
        }

        def decide(graph: _Graph, now: datetime) -> tuple[list[Change], list[Plain]]:
            new = {name: wanted[name] for name in reversed(wanted) if name not in graph.entities}
            edits = []
            for name, (kind, observations) in new.items():
                edits.append(self._build_entity_change(name, kind, now))
                edits += [self._build_observation_change(name, kind, text, now) for text in observations]
            return edits, [_serialize_entity(name, kind, texts) for name, (kind, texts) in new.items()]

        return self._apply_change(decide, "create entities")

    def create_relations(self, relations: Iterable[Mapping[str, Any]]) -> list[Plain]:
        """Create relations that do not exist yet.

        Args:
            relations: `{"from", "to", "relationType"}` each; the entities need not exist.

        Returns:
            The new ones.
        """
        wanted = dict.fromkeys(
            self._parse_link(each) for each in validate_values(relations, name="relations", of="mappings")
        )

        def decide(graph: _Graph, now: datetime) -> tuple[list[Change], list[Plain]]:
            new = [link for link in wanted if link not in graph.relations]
            return [self._build_relation_change(link, now) for link in new], [
                _serialize_relation(link) for link in new
            ]

        return self._apply_change(decide, "create relations")

    def add_observations(self, observations: Iterable[Mapping[str, Any]]) -> list[Plain]:
        """Add observations to entities. An entity never has the same observation twice.

        Args:
            observations: `{"entityName", "contents"}` each.

        Returns:
            `{"entityName", "addedObservations"}` for each that was passed.

        Raises:
            NotFound: there is no such entity; nothing was added to any.
        """
        wanted = [
            (self._parse_text(each, "entityName"), self._parse_texts(each, "contents"))
            for each in validate_values(observations, name="observations", of="mappings")
        ]

        def decide(graph: _Graph, now: datetime) -> tuple[list[Change], list[Plain]]:
            edits, results, added = [], [], set[tuple[str, str]]()
            for name, texts in wanted:
                entity = graph.entities.get(name)
                if entity is None:
                    raise NotFound(f"Entity with name {name} not found")
                new = [t for t in texts if t not in entity.observations and (name, t) not in added]
                added |= {(name, text) for text in new}
                edits += [self._build_observation_change(name, entity.kind, text, now) for text in new]
                results.append({"entityName": name, "addedObservations": new})
            return edits, results

        return self._apply_change(decide, "add observations")

    def delete_entities(self, names: Iterable[str]) -> None:
        """Archive entities, their observations, and the relations that start or end at them.

        Args:
            names: The names; unknown ones are ignored.
        """
        wanted = set(self._clean_texts(names, "names"))

        def decide(graph: _Graph, now: datetime) -> tuple[list[Change], None]:
            deleted = [graph.entities[name].records() for name in wanted if name in graph.entities]
            deleted += [found for link, found in graph.relations.items() if {link[0], link[2]} & wanted]
            return _build_archive_changes(deleted, now, "delete entities"), None

        self._apply_change(decide, "delete entities")

    def delete_observations(self, deletions: Iterable[Mapping[str, Any]]) -> None:
        """Archive observations; the entities stay.

        Args:
            deletions: `{"entityName", "observations"}` each; unknown ones are ignored.
        """
        wanted: dict[str, set[str]] = {}
        for each in validate_values(deletions, name="deletions", of="mappings"):
            texts = self._parse_texts(each, "observations")
            wanted.setdefault(self._parse_text(each, "entityName"), set()).update(texts)

        def decide(graph: _Graph, now: datetime) -> tuple[list[Change], None]:
            edits: list[Change] = []
            for name, texts in wanted.items():
                entity = graph.entities.get(name)
                if entity is None:
                    continue
                deleted = [entity.observations[text] for text in texts if text in entity.observations]
                if (
                    deleted and not entity.itself
                ):  # it was imported without a record of its own, and has to stay
                    edits.append(self._build_entity_change(name, entity.kind, now))
                edits += _build_archive_changes(deleted, now, "delete observations")
            return edits, None

        self._apply_change(decide, "delete observations")

    def delete_relations(self, relations: Iterable[Mapping[str, Any]]) -> None:
        """Archive relations.

        Args:
            relations: `{"from", "to", "relationType"}` each; unknown ones are ignored.
        """
        wanted = {
            self._parse_link(each) for each in validate_values(relations, name="relations", of="mappings")
        }

        def decide(graph: _Graph, now: datetime) -> tuple[list[Change], None]:
            deleted = [found for link, found in graph.relations.items() if link in wanted]
            return _build_archive_changes(deleted, now, "delete relations"), None

        self._apply_change(decide, "delete relations")

    # -- reading -----------------------------------------------------------------------------------------

    def read_graph(self) -> Plain:
        """Return the graph as `{"entities", "relations"}`, in the order in which they were created."""
        with self._lock:
            _, graph = self._read()
            return _serialize_graph(graph, graph.entities, graph.relations)

    def search_nodes(self, query: str) -> Plain:
        """Return entities with a text in their name, type or observations, and the relations that start or end at them.

        Args:
            query: The text; upper and lower case are the same.
        """
        wanted = self._clean_text(query, "query").lower()
        with self._lock:
            _, graph = self._read()
            return _serialize_neighborhood(
                graph,
                [
                    name
                    for name, entity in graph.entities.items()
                    if any(wanted in text.lower() for text in (name, entity.kind, *entity.observations))
                ],
            )

    def open_nodes(self, names: Iterable[str]) -> Plain:
        """Return entities by name, and the relations that start or end at them.

        Args:
            names: The names; unknown ones are ignored.
        """
        wanted = set(self._clean_texts(names, "names"))
        with self._lock:
            _, graph = self._read()
            return _serialize_neighborhood(graph, [name for name in graph.entities if name in wanted])

    # -- inside ------------------------------------------------------------------------------------------

    def _apply_change(self, decide: Callable[[_Graph, datetime], tuple[list[Change], _T]], reason: str) -> _T:
        """Commit what `decide` returns for the graph, and decide again after a lost race; return its result."""

        def attempt(tries: int) -> _T:
            since, graph = self._read()
            now = self._writer.clock()
            edits, answer = decide(graph, now)
            if edits:
                edits = _order_new_records(edits, now, graph.last)
                since_checked = since if tries < _PATIENT else None
                operation: Operation = "delete" if reason.startswith("delete") else "write"
                self._writer.commit(edits, operation=operation, at=now, since=since_checked)
            return answer

        return self._run_with_retries(attempt)

    def _clean_text(self, text: object, name: str) -> str:
        """Return a text as it is stored: without secrets, and without characters that cannot be stored."""
        if not isinstance(text, str):
            raise InvalidInput(f"{name} has {quote_value(text)}: pass a string")
        return self._redactor.text(clean_text(text))

    def _clean_texts(self, texts: object, name: str) -> list[str]:
        if isinstance(texts, str) or not isinstance(texts, Iterable):
            raise InvalidInput(f"{name} is {quote_value(texts)}: pass a list of strings")
        return list(dict.fromkeys(self._clean_text(text, name) for text in texts))

    def _parse_text(self, given: Mapping[str, Any], name: str) -> str:
        return self._clean_text(_get_part(given, name), name)

    def _parse_texts(self, given: Mapping[str, Any], name: str) -> list[str]:
        return self._clean_texts(_get_part(given, name), name)

    def _parse_link(self, given: Mapping[str, Any]) -> Link:
        return (
            self._parse_text(given, "from"),
            self._parse_text(given, "relationType"),
            self._parse_text(given, "to"),
        )

    def _read(self) -> tuple[int, _Graph]:
        """Return the number of the newest change, and the graph after it. The caller holds the lock.

        New records are added to what was read last time. After any other change all is read again.
        """
        known, graph = self._known
        rows = self._store.journal(after=known, limit=_MOST_FOLLOWED) if known >= 0 else []
        if known < 0 or len(rows) == _MOST_FOLLOWED or not all(self._follow(graph, row) for row in rows):
            known, graph = self._store.sequence(), _Graph()
            wanted = Filter(scopes=(self.scope,), categories=(CATEGORY,))
            for record in reversed(list(self._store.find(wanted, order="created"))):
                _take(graph, record)
        elif rows:
            known = rows[-1].sequence
        self._known = known, graph
        return self._known

    def _follow(self, graph: _Graph, row: JournalEntry) -> bool:
        """Add what a change added to the graph; return False if it changed the graph in another way, or may have."""
        if row.edit is None:
            return False
        after = row.after
        if not any(map(self._is_ours, row.values)):
            return True
        if row.before is not None or not isinstance(after, Record) or after.archived:
            return False
        _take(graph, after)
        return True

    def _is_ours(self, value: Value) -> bool:
        return isinstance(value, Record) and value.scope == self.scope and value.category == CATEGORY

    def _build_entity_change(self, name: str, kind: str, now: datetime) -> Change:
        metadata = {ENTITY: name, ENTITY_TYPE: kind}
        return self._put(((ENTITY,), name), f"{name}: {kind or ENTITY}", metadata, _build_tags(kind), now)

    def _build_observation_change(self, name: str, kind: str, text: str, now: datetime) -> Change:
        metadata = {ENTITY: name, ENTITY_TYPE: kind, OBSERVATION: text}
        return self._put(
            ((OBSERVATION, name), text), format_observation(name, text), metadata, _build_tags(kind), now
        )

    def _build_relation_change(self, link: Link, now: datetime) -> Change:
        source, verb, target = link
        metadata = {FROM: source, RELATION: verb, TO: target}
        content = f"{source} {verb.replace('_', ' ')} {target}"
        return self._put(((RELATION, source, verb), target), content, metadata, (RELATION,), now)

    def _put(
        self, place: Place, content: str, metadata: Mapping[str, str], tags: tuple[str, ...], now: datetime
    ) -> Change:
        """Return the edit that creates a record for a place in the graph. Its id depends on the place only."""
        where = key_value_codec.encode_place(CATEGORY, place)
        names = key_value_codec.compute_ids(self.scope, where)
        there = {record.id: record for record in self._store.records(names)}
        free = [name for name in names if name not in there or there[name].metadata.get(KEPT) == where]
        old = there.get(free[0]) if free else None
        if not free or (old is not None and not old.archived):
            raise Conflict(f"record {names[0]!r} was put there meanwhile: read again")
        record = Record(
            id=free[0],
            content=content,
            category=CATEGORY,
            tags=tags,
            origin="agent",
            scope=self.scope,
            created_at=now,
            updated_at=now,
            last_seen_at=now,
            metadata=MappingProxyType({KEPT: where, **metadata}),
        )
        return Change(before=old, after=validate_record(note_dates(record, now, self._zone)))


def _order_new_records(edits: Sequence[Change], now: datetime, last: datetime) -> list[Change]:
    """Return the edits with a later creation time for each new record, which is the order of the graph.

    A record that was archived keeps its place in the store, so equal times would not put it last.
    """
    at = max(now, last) if last - now < _CLOCK_STEP else now
    ordered = []
    for edit in edits:
        record = edit.after
        if isinstance(record, Record) and not record.archived:
            at += timedelta(microseconds=1)
            record = replace(record, created_at=at, updated_at=at, last_seen_at=at)
        ordered.append(Change(before=edit.before, after=record))
    return ordered


def _get_part(given: Mapping[str, Any], name: str) -> Any:
    if not isinstance(given, Mapping):
        raise InvalidInput(f"an item is {quote_value(given)}: pass a mapping with {name!r}")
    if name not in given:
        raise InvalidInput(f"{name} is missing beside {', '.join(map(str, given)) or 'nothing'}: pass it too")
    return given[name]


def _take(graph: _Graph, record: Record) -> None:
    """Add a record to the graph, if it is one of an entity, an observation or a relation."""
    metadata = record.metadata
    graph.last = max(graph.last, record.created_at)
    if ENTITY in metadata:
        name = metadata[ENTITY]
        entity = graph.entities.setdefault(name, _Entity(metadata.get(ENTITY_TYPE, "")))
        if OBSERVATION not in metadata:
            entity.itself.append(record)
        else:
            entity.observations.setdefault(_extract_observation(name, record), []).append(record)
    elif FROM in metadata and RELATION in metadata and TO in metadata:
        graph.relations.setdefault((metadata[FROM], metadata[RELATION], metadata[TO]), []).append(record)


def _extract_observation(name: str, record: Record) -> str:
    """Return the observation of a record, including one whose content a person has edited."""
    text = record.metadata[OBSERVATION]
    if record.content in (text, format_observation(name, text)):
        return text
    return record.content.removeprefix(f"{name}: ")


def format_observation(name: str, text: str) -> str:
    """Return an observation as the content of a record, with the name of its entity unless it has it."""
    plain = " ".join(name.replace("_", " ").split()).lower()
    names_it = bool(plain) and plain in " ".join(text.replace("_", " ").split()).lower()
    return text if names_it else f"{name}: {text}"


def _build_tags(kind: str) -> tuple[str, ...]:
    label = kind.strip()
    return (label,) if label and len(label) <= LONGEST_LABEL else ()


def _build_archive_changes(groups: Iterable[Iterable[Record]], now: datetime, reason: str) -> list[Change]:
    unique = {record.id: record for records in groups for record in records}
    return [
        Change(before=record, after=replace(record, archived_at=now, archive_reason=f"{CATEGORY}: {reason}"))
        for record in unique.values()
    ]


def _serialize_entity(name: str, kind: str, observations: Iterable[str]) -> Plain:
    return {"name": name, "entityType": kind, "observations": list(observations)}


def _serialize_relation(link: Link) -> Plain:
    return {"from": link[0], "to": link[2], "relationType": link[1]}


def _serialize_graph(graph: _Graph, names: Iterable[str], links: Iterable[Link]) -> Plain:
    entities = ((name, graph.entities[name]) for name in names)
    return {
        "entities": [_serialize_entity(name, entity.kind, entity.observations) for name, entity in entities],
        "relations": [_serialize_relation(link) for link in links],
    }


def _serialize_neighborhood(graph: _Graph, names: Sequence[str]) -> Plain:
    """Return these entities, and every relation that starts or ends at one of them."""
    found = set(names)
    return _serialize_graph(
        graph, names, [link for link in graph.relations if link[0] in found or link[2] in found]
    )
