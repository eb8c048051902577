"""Changes of stored turns, together with the lines of daily notes that they leave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from reverie.context import retrieval
from reverie.context.window import build_history_cursor, build_remembered_cursor, build_shown_cursor
from reverie.domain.change import Change, Value
from reverie.domain.conversation import Turn
from reverie.domain.entry import build_session_namespace
from reverie.domain.errors import InvalidInput, NotFound, quote_value
from reverie.domain.lazy_dataclass import replace
from reverie.domain.page import Paragraph, format_daily_note_name
from reverie.domain.record import UNTRUSTED
from reverie.domain.text import timestamps
from reverie.domain.text.ids import NewId
from reverie.repositories.pages import compute_next_position, create_paragraph
from reverie.repositories.prompts import find_session_entries
from reverie.stores.protocol import Store
from reverie.stores.writer import StoreWriter


def build_daily_note_changes(
    store: Store, turns: Sequence[Turn], *, since: int, now: datetime, new_id: NewId
) -> list[Change]:
    """Return the edits that note the exchanges which new turns complete, each in the daily note of its day.

    Args:
        store: The store.
        turns: Consecutive turns of a session, the earliest first, the new ones among them.
        since: The position of the first new one.
        now: The current time.
        new_id: Returns a new id.
    """
    edits: list[Change] = []
    places: dict[str, float] = {}
    for question, answer in retrieval.iterate_exchanges(turns, since=since, now=now):
        at = timestamps.to_utc(answer.at, name="at")
        page = format_daily_note_name(at.date())
        line = _render_line(question, answer)
        note = create_paragraph(new_id, page=page, at=at, content=line, source=answer.id)
        place = places[page] + 1.0 if page in places else compute_next_position(store, page)
        places[page] = place
        edits.append(Change(before=None, after=replace(note, position=place)))
    return edits


def _render_line(question: Turn, answer: Turn) -> str:
    """Return the line of a daily note for an exchange."""
    at, is_confirmed = timestamps.to_utc(answer.at, name="at"), answer.origin not in UNTRUSTED
    return retrieval.render_exchange(question.content, answer.content, at, is_confirmed=is_confirmed)


def find_notes_from_turns(store: Store, turns: Iterable[Turn]) -> list[Paragraph]:
    """Return the lines of daily notes that were written for these turns."""
    days = {
        turn.id: timestamps.to_utc(turn.at, name="at").date() for turn in turns if turn.role == "assistant"
    }
    pages = sorted(map(format_daily_note_name, set(days.values())))
    return [note for page in pages for note in store.paragraphs(page=page) if note.source in days]


def find_turns(store: Store, session: str, ids: Sequence[str] | None) -> list[Turn]:
    """Return turns of a session by their ids, or its last turn if `ids` is None.

    Raises:
        InvalidInput: an id is not a string.
        NotFound: the session has no such turn.
    """
    if wrong := [each for each in ids or () if not isinstance(each, str)]:
        raise InvalidInput(f"turn_id is {quote_value(wrong[0])}: pass a string")
    found = store.turns(session=session, start=-1) if ids is None else store.turns(list(ids))
    found = [turn for turn in found if turn.session == session]
    if missing := set(ids or ()).difference(turn.id for turn in found):
        raise NotFound(f"session {session!r} has no turn {min(missing)!r}: see `turns` for those it has")
    return found


def build_note_rewrites(store: Store, session: str, changed: Mapping[str, Turn | None]) -> list[Change]:
    """Return the changes of the lines of daily notes after some turns of a session were changed or removed.

    Args:
        store: The store, in which the turns are as before.
        session: The id of the session.
        changed: The new turns by id; None for those that are removed.
    """
    old = store.turns(list(changed))
    if not old:
        return []
    first, last = min(turn.position for turn in old), max(turn.position for turn in old)
    before = store.turns(session=session, start=max(0, first - 1), stop=last + 2)
    after = [turn for each in before if (turn := changed.get(each.id, each)) is not None]
    pairs = retrieval.iterate_exchanges(after, since=0, now=old[-1].at)
    lines = {answer.id: _render_line(question, answer) for question, answer in pairs}
    edits = []
    for turn, previous in zip(before, [None, *before], strict=False):
        if turn.id not in changed and (previous is None or previous.id not in changed):
            continue
        for note in find_notes_from_turns(store, [turn]):
            line = lines.get(turn.id)
            if line != note.content:
                edits.append(Change(before=note, after=(line and replace(note, content=line)) or None))
    return edits


def delete_session(writer: StoreWriter, id: str, *, cursors: Mapping[str, None]) -> int:
    """Remove a session with everything that it leaves (see `ScopedMemory.delete_session`).

    Args:
        writer: The writer.
        id: The id under which the session is stored.
        cursors: Further cursors to be removed.
    """
    store = writer.store
    namings = (build_shown_cursor, build_remembered_cursor, build_history_cursor)

    def attempt(_: int) -> int:
        state = store.session(id)
        if state is None:
            return 0
        turns = store.turns(session=id)
        gone = {**cursors, **{name(id): None for name in namings}, **find_session_entries(store, id)}
        values: list[Value] = [*reversed(turns), *find_notes_from_turns(store, turns), state]
        changes = [Change(before=each, after=None) for each in values]
        writer.commit(changes, operation="delete", cursors=gone)
        return len(turns)

    removed = writer.retrying(attempt)
    store.drop_entries(build_session_namespace(id))
    return removed
