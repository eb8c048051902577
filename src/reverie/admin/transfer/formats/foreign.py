"""Formats of other programs: documents, and the folders and files of other memories."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, TypeVar

from reverie.admin.transfer.batch import (
    Form,
    FoundTurns,
    FoundValue,
    ImportTerms,
    Item,
    Reason,
    Skipped,
    What,
    add_source_id,
    build_stable_id,
    hash_texts,
)
from reverie.admin.transfer.safe_reading import SourceFile, TooLarge
from reverie.domain.category import validate_category
from reverie.domain.conversation import (
    LONGEST_NAME,
    Role,
    SessionState,
    SessionStatus,
    ToolCall,
    Turn,
    set_origin,
    validate_session,
    validate_turn,
)
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.provenance import is_typed
from reverie.domain.record import LONGEST_LABEL, MOST_LABELS, Origin, Record, validate_record
from reverie.domain.text.validation import clean_text

_C = TypeVar("_C", bound=str)

PIECE = 250
"""Turns of a session that are handed on together."""

_BETWEEN_WORDS = defer_regex(r"[_\-\s]+")
_UNSTORABLE = defer_regex(r"[\x00\ud800-\udfff]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST = datetime(1971, 1, 1, tzinfo=UTC)
"""No program remembered anything before: an earlier time is some language's way to say nothing."""


# -- fields ------------------------------------------------------------------------------------------------


class ForeignFields:
    """Object of another program, read by the names that its fields may have."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = {_normalize_name(str(name)): value for name, value in data.items()}

    def has(self, *names: str) -> bool:
        """Return whether the object has one of the fields, whatever its value."""
        return any(_normalize_name(name) in self._data for name in names)

    def value(self, *names: str) -> Any:
        """Return the first value among the fields; None if none has one."""
        for name in names:
            value = self._data.get(_normalize_name(name))
            if value is not None:
                return value
        return None

    def text(self, *names: str) -> str:
        """Return a text or number, cleaned; empty if there is none."""
        value = self.value(*names)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return ""
        return clean_text(str(value))

    def label(self, *names: str) -> str:
        """Return a text that fits a label."""
        return " ".join(self.text(*names).split())[:LONGEST_LABEL].strip()

    def share(self, *names: str, default: float) -> float:
        """Return a number from 0 to 1, clipped to that range."""
        value = self.value(*names)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return default
        return float(min(max(value, 0), 1))

    def count(self, *names: str, default: int) -> int:
        """Return a whole number from 1."""
        value = self.value(*names)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000_000:
            return default
        return value

    def moment(self, *names: str) -> datetime | None:
        """Return a moment; see `parse_moment`."""
        return parse_moment(self.value(*names))

    def labels(self, *names: str, longest: int = LONGEST_LABEL) -> tuple[str, ...]:
        """Return distinct short texts, without those that are too long or too many."""
        value = self.value(*names)
        if isinstance(value, str):
            value = value.split(",")
        if not isinstance(value, Iterable) or isinstance(value, Mapping):
            return ()
        texts = (
            " ".join(clean_text(str(each)).split()) for each in value if isinstance(each, str | int | float)
        )
        return tuple(dict.fromkeys(text for text in texts if 0 < len(text) <= longest))[:MOST_LABELS]

    def texts(self, *names: str) -> dict[str, str]:
        """Return a table of texts; other values are written as JSON."""
        value = self.value(*names)
        if not isinstance(value, Mapping):
            return {}
        pairs = ((clean_text(str(name)).strip()[:LONGEST_LABEL], each) for name, each in value.items())
        return {name: to_text(each) for name, each in pairs if name and each is not None}

    def category(self, *names: str) -> str | None:
        """Return a category; None if there is none or it is not valid."""
        value = self.value(*names)
        if not isinstance(value, str):
            return None
        try:
            return validate_category(value.strip().strip("/"))
        except InvalidInput:
            return None

    def choice(self, allowed: Iterable[_C], *names: str) -> _C | None:
        """Return which of some names a field has, whatever its case; None for none of them."""
        text = self.text(*names).strip().lower()
        return next((each for each in allowed if each == text), None)


def to_text(value: Any) -> str:
    """Return a value as text: text cleaned, anything else as JSON."""
    return clean_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def filter_objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list; none if the value is not a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def to_storable(text: str) -> str:
    """Return a turn's text without NUL and lone surrogates."""
    return _UNSTORABLE.sub(" ", text)


def parse_moment(value: Any) -> datetime | None:
    """Parse a moment: ISO 8601, seconds or milliseconds since 1970, or year, month, day, ….

    >>> parse_moment("2026-02-07T14:15:00.1234567+01:00"), parse_moment(1770470100)
    (datetime.datetime(2026, 2, 7, 13, 15, 0, 123456, tzinfo=datetime.timezone.utc), \
datetime.datetime(2026, 2, 7, 13, 15, tzinfo=datetime.timezone.utc))
    """
    moment: datetime | None = None
    try:
        if isinstance(value, str):
            read = datetime.fromisoformat(value.strip())
            moment = read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            # No memory was made after the year 5138, so a number as large as that counts milliseconds.
            seconds = value / 1000 if abs(value) >= 1e11 else value
            moment = _EPOCH + timedelta(seconds=seconds)
        elif isinstance(value, list) and 3 <= len(value) <= 7 and all(type(part) is int for part in value):
            nanoseconds = value[6] if len(value) == 7 else 0
            moment = datetime(*value[:6], microsecond=nanoseconds // 1000, tzinfo=UTC)  # type: ignore[misc]
    except (ValueError, OverflowError):
        return None
    return moment if moment is not None and moment >= _EARLIEST else None


def _normalize_name(name: str) -> str:
    return _BETWEEN_WORDS.sub("", name).lower()


# -- records -----------------------------------------------------------------------------------------------


def get_skip_reason(error: Exception) -> Reason:
    """Return the reason to leave out what was refused with this error."""
    if isinstance(error, TooLarge) or " characters: at most" in str(error):
        return "too large"
    return "empty" if " is empty" in str(error) else "broken"


def skip(what: What, place: str, error: Exception) -> Skipped:
    """Return what was refused with this error as left out."""
    return Skipped(what=what, place=place, why=get_skip_reason(error), detail=str(error))


def build_foreign_record(
    form: str,
    terms: ImportTerms,
    source_id: str,
    content: str,
    *,
    place: str,
    at: datetime,
    metadata: Mapping[str, str] = MappingProxyType({}),
    **fields: Any,
) -> Item:
    """Return a record of another program, or the reason why it is left out.

    Args:
        form: The format that it is from.
        source_id: Its id there; the id of the record is made of it.
        at: When it was made, changed and seen, as far as `fields` do not say so.
        fields: Further fields of the record.
    """
    known: dict[str, Any] = {
        "id": build_stable_id(form, terms.foreign_scope, source_id),
        "created_at": at,
        "updated_at": at,
        "last_seen_at": at,
        "source": f"import:{form}",
        "origin": terms.foreign_origin,
        "scope": terms.foreign_scope,
        "metadata": add_source_id(metadata, source_id),
    }
    try:
        record = validate_record(Record(content=content, **known | fields))
        return FoundValue(place=place, value=record, form=form)
    except (InvalidInput, OverflowError) as error:
        return skip("record", place, error)


# -- conversations -----------------------------------------------------------------------------------------


class ConversationBuilder:
    """Builder of one conversation.

    Attributes:
        last: The time of the last turn, or the beginning.
    """

    def __init__(
        self,
        session: str,
        *,
        form: str,
        place: str,
        terms: ImportTerms,
        times: Iterable[datetime | None],
        metadata: Mapping[str, Any] = MappingProxyType({}),
        status: SessionStatus = "active",
        after: str | None = "",
        is_whole: bool = True,
    ) -> None:
        """Begin a conversation.

        Args:
            session: The id of the session.
            times: Times of the conversation and its messages; the first one is its beginning.
            metadata: Metadata; empty values are left out.
            after: The id of the turn before it in the source; see `FoundTurns`.
            is_whole: Whether it is the whole conversation.

        Raises:
            InvalidInput: it is not a valid session.
        """
        self._form = form
        self._place = place
        self._terms = terms
        self._after = after
        self._is_whole = is_whole
        self._turns: list[Turn] = []
        self._left_out = Counter[tuple[What, Reason, str]]()
        self.last = next(filter(None, times), terms.now)
        storable = {name: to_storable(to_text(value)) for name, value in metadata.items() if value}
        self._state = validate_session(
            SessionState(
                id=session,
                created_at=self.last,
                scope=terms.foreign_scope,
                status=status,
                metadata=MappingProxyType(storable),
            )
        )

    def add(
        self,
        source_id: str,
        role: Role,
        content: str,
        *,
        at: datetime | None = None,
        speaker: str = "",
        tool_calls: Sequence[ToolCall] = (),
        tool_call_id: str = "",
        metadata: Mapping[str, str] = MappingProxyType({}),
        message: Mapping[str, Any] | None = None,
        origin: Origin | None = None,
    ) -> None:
        """Append a turn, or note why it is left out.

        Args:
            source_id: The other program's id of the message.
            at: Its time; None for that of the turn before.
            tool_call_id: The call that a tool's turn answers.
            metadata: What else is known of it; what is empty is left out.
            message: The message as the program stored it. A user's message that no person typed gets the origin
                `tool`, and any other the origin `import` unless the source is the owner's.
            origin: The origin that it is known to have, such as that of a tool whose result it repeats.
        """
        text = to_storable(content)
        if not text.strip() and not tool_calls and role != "tool":
            self.leave_out("turn", "empty")
            return
        self.last = at or self.last
        storable = {name: to_storable(value) for name, value in metadata.items() if value}
        turn = Turn(
            id=build_stable_id(self._form, self._state.id, source_id),
            session=self._state.id,
            position=len(self._turns),
            role=role,
            content=text,
            at=self.last,
            speaker=clean_text(speaker).strip()[:LONGEST_NAME],
            tool_calls=tuple(tool_calls),
            tool_call_id=clean_text(tool_call_id)[:LONGEST_NAME],
            metadata=add_source_id(storable, source_id),
            scope=self._state.scope,
        )
        if role == "user" and not is_typed(text, message):
            origin = "tool"
        if role != "tool" and (mark := origin or self._terms.get_turn_origin(role)) is not None:
            turn = set_origin(turn, mark)
        try:
            self._turns.append(validate_turn(turn))
        except InvalidInput as error:
            self.leave_out("turn", get_skip_reason(error), str(error))

    def __len__(self) -> int:
        return len(self._turns)

    @property
    def session(self) -> str:
        """Id of the session."""
        return self._state.id

    @property
    def last_id(self) -> str | None:
        """Id of the last turn, as in `FoundTurns.after`."""
        return self._turns[-1].id if self._turns and self._after is not None else self._after

    def leave_out(self, what: What, why: Reason, detail: str = "") -> None:
        """Note something that is left out."""
        self._left_out[what, why, detail] += 1

    def items(self) -> Iterator[Item]:
        """Yield the turns, then what is left out."""
        if not self._turns and not self._left_out:
            self.leave_out("session", "empty")
        if self._turns:
            yield FoundTurns(
                place=self._place,
                state=self._state,
                turns=tuple(self._turns),
                form=self._form,
                after=self._after,
                is_whole=self._is_whole,
            )
        for (what, why, detail), count in self._left_out.items():
            yield Skipped(what=what, place=self._place, why=why, detail=detail, count=count)


def read_values(
    file: SourceFile,
    recognises: Callable[[object], bool],
    parse: Callable[[Any, str], Iterable[Item]],
    *,
    what: What,
    otherwise: str,
    field: str = "",
) -> Iterator[Item]:
    """Yield the items of the JSON values of a file, and what is left out of it.

    Args:
        file: The file.
        recognises: Returns whether a value is of the format.
        parse: Returns the items of a value at a place.
        what: The type of thing that a value is.
        otherwise: What another object is.
        field: The field without which a conversation is empty.

    Raises:
        InvalidInput: the file cannot be read.
    """
    for place, value in file.values():
        try:
            if isinstance(value, InvalidInput):
                raise value
            if recognises(value):
                yield from parse(value, place)
                continue
            if field and (value is None or (isinstance(value, dict) and value.get(field) is None)):
                yield Skipped(what=what, place=place, why="empty")
                continue
            why: Reason = "unsupported" if isinstance(value, dict) and not field else "broken"
            yield Skipped(what=what, place=place, why=why, detail=otherwise)
        except InvalidInput as error:
            yield skip(what, place, error)


def select_branch(
    messages: Mapping[str, Mapping[str, Any]],
    current: Any,
    *,
    parent: str,
    time: Callable[[Any], datetime | None],
) -> list[str]:
    """Return the ids of the messages from the first one to the current one, or to the newest without a reply.

    Args:
        messages: The messages of all branches by their ids.
        current: The id of the message that the person saw last, if the export has one.
        parent: The field that names the message before.
        time: Returns the time of a message.
    """
    if not (isinstance(current, str) and current in messages):
        answered = {name for each in messages.values() if isinstance(name := each.get(parent), str)}
        leaves = [name for name in messages if name not in answered]
        current = max(reversed(leaves), key=lambda name: time(messages[name]) or _EPOCH, default=None)
    path: dict[str, None] = {}
    while isinstance(current, str) and current in messages and current not in path:
        path[current] = None
        current = messages[current].get(parent)
    return list(path)[::-1]


def build_tool_call(id: str, name: str, arguments: str) -> ToolCall:
    """Return a tool call whose name and id can be stored."""
    return ToolCall(
        id=clean_text(id).strip()[:LONGEST_NAME] or "call",
        name=clean_text(name).strip()[:LONGEST_NAME] or "tool",
        arguments=to_storable(arguments),
    )


# -- mcp memory -----------------------------------------------------------------------------------


FORM: Form = "mcp"
CATEGORY = "knowledge-graph"
"""Category of every record of a graph."""


class McpMemory:
    """The format of the MCP reference memory server."""

    form: Form = FORM

    def recognises(self, value: object) -> bool:
        """Return whether a value is an entity or a relation."""
        return isinstance(value, dict) and value.get("type") in ("entity", "relation")

    def read(self, file: SourceFile, terms: ImportTerms) -> Iterator[Item]:
        """Yield the records of a graph; raise `InvalidInput` if it cannot be read."""

        def parse(value: Any, place: str) -> Iterable[Item]:
            fields = ForeignFields(value)
            if value["type"] == "entity":
                return _parse_entity(fields, terms, place)
            return [_parse_relation(fields, terms, place)]

        other = "neither an entity nor a relation"
        return read_values(file, self.recognises, parse, what="line", otherwise=other)


def _parse_entity(fields: ForeignFields, terms: ImportTerms, place: str) -> Iterator[Item]:
    name, kind = fields.label("name"), fields.label("entityType")
    if not name:
        yield Skipped(what="record", place=place, why="broken", detail="an entity has no name")
        return
    tags = (kind,) if kind else ()
    metadata = {"entity": name} | ({"entity_type": kind} if kind else {})
    observations = fields.value("observations")
    if observations is None or observations == []:
        yield _build_item(f"{name}: {kind or 'entity'}", ("entity", name, ""), tags, metadata, terms, place)
        return
    if not isinstance(observations, list):
        yield Skipped(what="record", place=place, why="broken", detail="its observations are not a list")
        return
    for number, observation in enumerate(observations, start=1):
        where = f"{place}, observation {number}"
        if not isinstance(observation, str):
            yield Skipped(what="record", place=where, why="broken", detail="not text")
        elif not (text := clean_text(observation).strip()):
            yield Skipped(what="record", place=where, why="empty")
        else:
            content = _format_observation(name, text)
            own = metadata | {"observation": text}
            yield _build_item(content, ("entity", name, text), tags, own, terms, where)


def _parse_relation(fields: ForeignFields, terms: ImportTerms, place: str) -> Item:
    source, verb, target = fields.label("from"), fields.label("relationType"), fields.label("to")
    if not (source and verb and target):
        detail = "a relation needs 'from', 'relationType' and 'to'"
        return Skipped(what="record", place=place, why="broken", detail=detail)
    content = f"{source} {verb.replace('_', ' ')} {target}"
    metadata = {"from": source, "relation": verb, "to": target}
    return _build_item(content, ("relation", source, verb, target), ("relation",), metadata, terms, place)


def _build_item(
    content: str,
    identity: tuple[str, ...],
    tags: tuple[str, ...],
    metadata: dict[str, str],
    terms: ImportTerms,
    place: str,
) -> Item:
    return build_foreign_record(
        FORM,
        terms,
        hash_texts(*identity),
        content,
        place=place,
        at=terms.now,
        category=CATEGORY,
        tags=tags,
        metadata=metadata,
    )


def _format_observation(name: str, text: str) -> str:
    """Return an observation with the name of its entity, unless it has it."""
    plain = " ".join(name.replace("_", " ").split()).lower()
    names_it = bool(plain) and plain in " ".join(text.replace("_", " ").split()).lower()
    return text if names_it else f"{name}: {text}"
