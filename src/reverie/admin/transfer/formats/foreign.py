"""Parts that all formats of other programs share: their fields, the records and conversations made of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

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
from reverie.domain.record import (
    HOME_LAYERS,
    LONGEST_LABEL,
    MOST_LABELS,
    Kind,
    Origin,
    Record,
    validate_record,
)
from reverie.domain.text.validation import clean_text, to_storable

_C = TypeVar("_C", bound=str)

_LISTS = tuple(
    ["results", "memories", "items", "facts", "edges", "relevant_facts", "nodes", "episodes", "observations"]
)
"""Fields of an export that have lists of entries."""

_BETWEEN_WORDS = defer_regex(r"[_\-\s]+")
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
        """Return the first moment among the fields; see `parse_moment`."""
        return next(filter(None, (parse_moment(self.value(name)) for name in names)), None)

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


# -- formats -----------------------------------------------------------------------------------------------


class Format(NamedTuple):
    """Format of which each JSON value can be read alone.

    Attributes:
        form: Its name.
        recognises: Returns whether an object is of this format.
        read: Returns the items of such an object, under terms, at a place.
    """

    form: Form
    recognises: Callable[[dict[str, Any]], bool]
    read: Callable[[dict[str, Any], ImportTerms, str], Iterable[Item]]


def read_values(file: SourceFile, formats: Sequence[Format], terms: ImportTerms) -> Iterator[Item]:
    """Yield the items of a file's values, each in the first format that recognises it, and what is left out.

    Raises:
        InvalidInput: the file cannot be read.
    """
    others: list[str] = []
    for place, value in file.values():
        try:
            if isinstance(value, InvalidInput):
                raise value
            if value is not None and not isinstance(value, dict):
                raise InvalidInput("not an object")
            nested = [] if choose_format(value, formats) else _list_nested_entries(value)
            entries: list[tuple[str, Any]] = [
                (f"{place}, entry {number}", each) for number, each in enumerate(nested, start=1)
            ]
            for where, entry in entries or [(place, value)]:
                if (known := choose_format(entry, formats)) is None:
                    others.append(where)
                else:
                    yield from known.read(entry, terms, where)
        except InvalidInput as error:
            yield skip("line", place, error)
    if others:
        detail = f"nothing of the format {formats[0].form}"
        yield Skipped(what="line", place=others[0], why="unsupported", detail=detail, count=len(others))


def detect_value_format(value: object, formats: Sequence[Format]) -> Format | None:
    """Return the format that a value, or an entry of a list in it, shows; None if none is known."""
    found = (choose_format(each, formats) for each in (value, *_list_nested_entries(value)))
    return next(filter(None, found), None)


def choose_format(value: object, formats: Sequence[Format]) -> Format | None:
    """Return the first format that recognises a value; None for none."""
    return next((each for each in formats if isinstance(value, dict) and each.recognises(value)), None)


def _list_nested_entries(value: object) -> list[dict[str, Any]]:
    """Return the entries of the lists in an export that is one object."""
    return (
        [each for name in _LISTS for each in filter_objects(value.get(name))]
        if isinstance(value, dict)
        else []
    )


def get_skip_reason(error: Exception) -> Reason:
    """Return the reason to leave out what was refused with this error."""
    if isinstance(error, TooLarge) or " characters: at most" in str(error):
        return "too large"
    return "empty" if " is empty" in str(error) else "broken"


def skip(what: What, place: str, error: Exception) -> Skipped:
    """Return what was refused with this error as left out."""
    return Skipped(what=what, place=place, why=get_skip_reason(error), detail=str(error))


# -- records -----------------------------------------------------------------------------------------------


def build_record(
    form: str,
    terms: ImportTerms,
    place: str,
    content: Any,
    *,
    source_id: str = "",
    at: datetime | None = None,
    created_at: datetime | None = None,
    kind: Kind = "fact",
    metadata: Mapping[str, str] = MappingProxyType({}),
    **fields: Any,
) -> Item:
    """Return a record of another program, or the reason why it is left out.

    Args:
        form: The format that it is from.
        source_id: Its id there, from which the id of the record is made; empty takes the content.
        at: When it was last changed; None if unknown.
        created_at: When it was made; None for `at`.
        fields: Further fields of the record.
    """
    created = created_at or at or terms.now
    updated = max(created, at or created)
    try:
        if not isinstance(content, str):
            raise InvalidInput("content is not text")
        name = source_id or hash_texts(content)
        known: dict[str, Any] = {
            "id": build_stable_id(form, terms.foreign_scope, name),
            "created_at": created,
            "updated_at": updated,
            "last_seen_at": updated,
            "layer": HOME_LAYERS[kind],
            "source": f"import:{form}",
            "origin": terms.foreign_origin,
            "scope": terms.foreign_scope,
            "metadata": add_source_id(metadata, name),
        }
        record = Record(content=clean_text(content).strip(), kind=kind, **known | fields)
        return FoundValue(place=place, value=validate_record(record), form=form)
    except (InvalidInput, OverflowError) as error:
        return skip("record", place, error)


def collect_metadata(fields: ForeignFields, *names: str) -> dict[str, str]:
    """Return the fields of those names that have a value, as text."""
    values = {name: fields.value(name) for name in names}
    return {name: to_text(value) for name, value in values.items() if value not in (None, "", [], {})}


# -- conversations -----------------------------------------------------------------------------------------


class ConversationBuilder:
    """Builder of one conversation."""

    def __init__(
        self,
        session: str,
        *,
        form: str,
        place: str,
        terms: ImportTerms,
        at: datetime | None = None,
        metadata: Mapping[str, Any] = MappingProxyType({}),
        status: SessionStatus = "active",
        has_path: bool = False,
        is_whole: bool = False,
    ) -> None:
        """Begin a conversation.

        Args:
            session: The id of the session.
            at: Its beginning; None for the time of its first turn.
            metadata: Metadata; empty values are left out.
            has_path: Whether a later export of it may take turns back, if each message has an id.
            is_whole: Whether it has all turns of the conversation.

        Raises:
            InvalidInput: it is not a valid session.
        """
        self._form = form
        self._place = place
        self._terms = terms
        self._has_path = has_path
        self._is_whole = is_whole
        self._last = at
        self._ids = Counter[str]()
        self._turns: list[Turn] = []
        self._left_out = Counter[tuple[What, Reason, str, str]]()
        storable = {name: to_storable(to_text(value)) for name, value in metadata.items() if value}
        self._state = validate_session(
            SessionState(
                id=session,
                created_at=at or terms.now,
                scope=terms.foreign_scope,
                status=status,
                metadata=MappingProxyType(storable),
            )
        )

    def add(
        self,
        role: Role,
        content: str,
        *,
        id: str = "",
        at: datetime | None = None,
        speaker: str = "",
        tool_calls: Sequence[ToolCall] = (),
        tool_call_id: str = "",
        message: Mapping[str, Any] | None = None,
        origin: Origin | None = None,
        place: str = "",
    ) -> None:
        """Append a turn, or note why it is left out.

        Args:
            role: Its role.
            content: Its text.
            id: The other program's id of the message, which several turns may share; empty if it has none.
            at: Its time; None for that of the turn before.
            tool_call_id: The call that a tool's turn answers.
            message: The message as the program stored it. A user's message that no person typed gets the origin
                `tool`, and any other the origin `import` unless the source is the owner's.
            origin: The origin that it is known to have, such as that of a tool whose result it repeats.
            place: Its place in the source; empty for that of the conversation.
        """
        text = to_storable(content)
        if not text.strip() and not tool_calls and role != "tool":
            self.leave_out("turn", "empty", place=place)
            return
        self._has_path &= bool(id)
        self._last = at or self._last or self._terms.now
        name = id or hash_texts(role, at.isoformat() if at else "", speaker, content, tool_call_id)
        self._ids[name] += 1
        source_id = f"{name}:{self._ids[name]}" if self._ids[name] > 1 else name
        turn = Turn(
            id=build_stable_id(self._form, self._state.id, source_id),
            session=self._state.id,
            position=len(self._turns),
            role=role,
            content=text,
            at=self._last,
            speaker=clean_text(speaker).strip()[:LONGEST_NAME],
            tool_calls=tuple(tool_calls),
            tool_call_id=clean_text(tool_call_id)[:LONGEST_NAME],
            metadata=add_source_id({}, source_id),
            scope=self._state.scope,
        )
        if role == "user" and not is_typed(text, message):
            origin = "tool"
        if role != "tool" and (mark := origin or self._terms.get_turn_origin(role)) is not None:
            turn = set_origin(turn, mark)
        try:
            self._turns.append(validate_turn(turn))
        except InvalidInput as error:
            self.leave_out("turn", get_skip_reason(error), str(error), place)

    @property
    def has_turns(self) -> bool:
        """Whether something was added or left out since the last call of `take_items`."""
        return bool(self._turns or self._left_out)

    def leave_out(self, what: What, why: Reason, detail: str = "", place: str = "") -> None:
        """Note something that is left out."""
        self._left_out[what, why, detail, place or self._place] += 1

    def take_items(self) -> Iterator[Item]:
        """Yield the turns added since the last call, then what is left out."""
        if not self.has_turns:
            self.leave_out("session", "empty")
        if self._turns:
            first = self._turns[0].at
            yield FoundTurns(
                place=self._place,
                state=replace(self._state, created_at=min(first, self._state.created_at)),
                turns=tuple(self._turns),
                form=self._form,
                has_path=self._has_path,
                is_whole=self._is_whole,
            )
            self._has_path = False  # what follows is added
        for (what, why, detail, place), count in self._left_out.items():
            yield Skipped(what=what, place=place, why=why, detail=detail, count=count)
        self._turns.clear()
        self._left_out.clear()


def build_tool_call(id: str, name: str, arguments: Any) -> ToolCall:
    """Return a tool call whose name and id can be stored.

    Args:
        arguments: JSON text, or a value that is written as JSON.
    """
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return ToolCall(
        id=clean_text(id).strip()[:LONGEST_NAME] or "call",
        name=clean_text(name).strip()[:LONGEST_NAME] or "tool",
        arguments=to_storable(text),
    )
