"""Operations on sessions, their turns, their context and their working memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reverie.domain.conversation import SessionOverview, SessionState, Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import NotFound
from reverie.domain.record import UNTRUSTED
from reverie.domain.text.json_values import to_json_object
from reverie.domain.text.timestamps import to_microseconds
from reverie.interfaces.http import schemas
from reverie.interfaces.http.operations import (
    Call,
    OperationAnswer,
    OperationList,
    Problem,
    answer_value,
    decode_cursor,
    encode_cursor,
)
from reverie.repositories.prompts import explain_pack
from reverie.repositories.wishes import WishResult
from reverie.repositories.working_memory import WorkingMemory
from reverie.session import Session

OPERATIONS = OperationList(group="Conversations")

_SESSION = "/v1/sessions/{id:path}"


def read_session(call: Call) -> SessionState:
    """Return the session that the path names; raise `NotFound` if none can be read from this scope."""
    name = call.path["id"]
    state = call.reader.find_session(name) if name else None
    if state is None:
        raise NotFound(f"no session {name!r} here: list the sessions")
    return state


def _open_own_session(call: Call) -> Session:
    """Return the session that the path names; raise `NotFound` if it cannot be changed from this scope."""
    state = read_session(call)
    if state.scope != call.view.scope:
        raise NotFound(f"the session {state.id!r} belongs to a wider scope: change it there")
    return call.view.session(state.id)


@OPERATIONS.add("GET", "/v1/sessions", "read")
def list_sessions(call: Call[schemas.CursorQuery]) -> OperationAnswer[schemas.ListPage[schemas.SessionItem]]:
    """List sessions, the latest active first."""

    def place(each: SessionOverview) -> tuple[int, str]:
        return to_microseconds(each.last_at), each.state.id

    of, limit, cursor = (call.query.scope,), call.query.limit, call.query.cursor
    overviews = sorted(call.reader.sessions(limit=None if cursor else limit + 1), key=place, reverse=True)
    if cursor is not None:
        last = tuple(decode_cursor(cursor, of=of, types=(int, str)))
        overviews = [each for each in overviews if place(each) < last]
    page, more = overviews[:limit], len(overviews) > limit
    items = [
        {
            "session": each.state,
            "title": call.reader.title(each.state.id),
            "turns": each.turns,
            "last_at": each.last_at,
        }
        for each in page
    ]
    return OperationAnswer(
        {"items": items, "next": encode_cursor([*place(page[-1])], of=of) if more else None}
    )


# -- turns -----------------------------------------------------------------------------------------------


def _answer_turns(
    turns: list[Turn], wishes: Sequence[WishResult] = ()
) -> OperationAnswer[schemas.TurnsOutput]:
    body = {"items": turns, "wishes": [each.to_dict() for each in wishes]}
    return OperationAnswer(body, 201, reference=[turn.id for turn in turns])


def _replay_turns(call: Call, reference: Any) -> OperationAnswer[schemas.TurnsOutput]:
    turns = [call.view.get_turn(name) for name in reference]
    return _answer_turns([turn for turn in turns if turn is not None])


@OPERATIONS.add("POST", f"{_SESSION}/turns", "write", statuses=(201,), replay=_replay_turns)
def add_turns(call: Call, given: schemas.TurnBatch) -> OperationAnswer[schemas.TurnsOutput]:
    """Add turns at the end of a session, in one transaction."""
    turns = [each.model_dump() for each in given.turns]
    for turn in turns:
        turn["metadata"] = _limit_metadata(call, turn["role"], turn["metadata"])
    session = call.view.session(call.path["id"])
    added = session.add_many(turns)
    return _answer_turns(added, session.wishes if any(turn.role == "user" for turn in added) else ())


def _limit_metadata(call: Call, role: str, metadata: Mapping[str, str]) -> Mapping[str, str]:
    """Return the metadata of a turn that the caller writes, with its origin; raise `Problem` if it may not."""
    origin = call.caller.origin
    if role in ("user", "system") and origin != "owner":
        raise Problem(
            403,
            f"A turn of the role {role!r} is the owner's word, and this token speaks for {origin!r}. "
            "Use a token with the origin owner.",
        )
    return {**metadata, "origin": origin} if origin in UNTRUSTED else metadata


@OPERATIONS.add("POST", f"{_SESSION}/turns/remove", "write")
def remove_turns(call: Call, given: schemas.TurnIds) -> OperationAnswer[schemas.Items[Turn]]:
    """Remove turns of a session, all or none; undo brings them back."""
    return OperationAnswer({"items": _open_own_session(call).remove_turns(given.turns)})


@OPERATIONS.add("PUT", f"{_SESSION}/turns/{{turn}}", "write")
def replace_turn(call: Call, given: schemas.TurnVersion) -> OperationAnswer[Turn]:
    """Give a turn a new version; undo brings the earlier one back."""
    session, name = _open_own_session(call), call.path["turn"]
    turn = call.view.get_turn(name)
    if turn is None or turn.session != session.id:
        raise NotFound(f"Session {session.id!r} has no turn {name!r}. List its turns.")
    metadata = _limit_metadata(call, turn.role, given.metadata)
    return OperationAnswer(session.replace_turn(name, given.content, metadata=metadata))


@OPERATIONS.add("GET", f"{_SESSION}/turns", "read")
def list_turns(call: Call[schemas.CursorQuery]) -> OperationAnswer[schemas.ListPage[Turn]]:
    """List the turns of a session by position."""
    name, limit, cursor = call.path["id"], call.query.limit, call.query.cursor
    of = (name, call.query.scope)
    start = 0 if cursor is None else max(decode_cursor(cursor, of=of, types=(int,))[0], 0)
    turns = call.reader.turns(name, start=start, stop=start + limit + 1)
    following = encode_cursor([start + limit], of=of) if len(turns) > limit else None
    return OperationAnswer({"items": turns[:limit], "next": following})


# -- the prompt ------------------------------------------------------------------------------------------


@OPERATIONS.add("POST", f"{_SESSION}/context", "read")
def build_context(call: Call, asked: schemas.ContextInput) -> OperationAnswer[dict[str, Any]]:
    """Build the context of a session for a prompt."""
    may_record = "write" in call.caller.rights
    given = asked.model_dump() | {"record_shown": asked.record_shown and may_record}
    pack = call.view.session(call.path["id"]).context(**given)
    sections = [to_json_object(each, "name", "text", "tokens") for each in pack.sections]
    lines = [each._asdict() for each in explain_pack(pack)]
    return OperationAnswer({**pack.to_dict(), "sections": sections, "lines": lines})


@OPERATIONS.add("GET", "/v1/packs", "read")
def list_packs(call: Call[schemas.PromptLogQuery]) -> OperationAnswer[schemas.Items[schemas.PromptOutput]]:
    """List the entries of the prompt log, the newest first."""
    return OperationAnswer({"items": call.reader.prompts.list(call.path.get("id"), limit=call.query.limit)})


OPERATIONS.add("GET", f"{_SESSION}/packs", "read", name="list_packs_of_session")(list_packs)


@OPERATIONS.add("GET", f"{_SESSION}/packs/{{position:number}}", "read")
def get_pack(call: Call) -> OperationAnswer[schemas.ExplainedPromptOutput]:
    """Return the candidates for the prompt of one turn: each line with its source, score and verdict."""
    return OperationAnswer(call.reader.prompts.get(call.path["id"], int(call.path["position"])))


# -- the session as a whole ------------------------------------------------------------------------------


@OPERATIONS.add("POST", f"{_SESSION}/compact", "review")
def shorten_window(call: Call, given: schemas.SessionWindowInput) -> OperationAnswer[schemas.PassResult]:
    """Shorten the window of a session; its turns stay stored."""
    outcome = call.memory.dreams.run_window(_open_own_session(call).id, given.kind, keep=given.keep)
    return OperationAnswer(to_json_object(outcome, "state", "why", "batch"))


@OPERATIONS.add("POST", f"{_SESSION}/consolidate", "write")
def conclude_session(call: Call) -> OperationAnswer[schemas.SavedRecords]:
    """Save the conclusions of a session by rule, without a model."""
    return OperationAnswer({"results": call.view.consolidate_session(call.path["id"])})


@OPERATIONS.add("POST", f"{_SESSION}/feedback", "write")
def rate_answer(call: Call, given: schemas.FeedbackInput) -> OperationAnswer[Turn]:
    """Store the user's rating of an answer."""
    session = call.view.session(call.path["id"])
    return OperationAnswer(session.feedback(given.turn, given.thumb, note=given.note))


# -- working memory --------------------------------------------------------------------------------------


def _serialize_entry(entry: Entry) -> dict[str, Any]:
    return to_json_object(entry, *schemas.EntryOutput.model_fields)


def _open_working_memory(call: Call) -> WorkingMemory:
    """Return the working memory of the session in the path, else that of the scope."""
    return call.view.session(call.path["id"]).working if "id" in call.path else call.view.scratchpad


def list_entries(call: Call) -> OperationAnswer[schemas.Items[schemas.EntryOutput]]:
    """List the values of working memory."""
    return OperationAnswer({"items": [_serialize_entry(each) for each in _open_working_memory(call).list()]})


def get_entry(call: Call) -> OperationAnswer[schemas.EntryOutput]:
    """Return a value of working memory."""
    entry = _open_working_memory(call).entry(call.path["key"])
    if entry is None:
        raise NotFound(f"no entry {call.path['key']!r} here: list them for the right key")
    return answer_value(_serialize_entry(entry))


def set_entry(call: Call, given: schemas.EntryInput) -> OperationAnswer[schemas.EntryOutput]:
    """Store a value of working memory, in place of what was there."""
    options = given.model_dump(include={"category", "tags"})
    ttl = given.ttl if "ttl" in given.model_fields_set else "default"
    entry = _open_working_memory(call).set(call.path["key"], given.data, ttl=ttl, **options)
    return answer_value(_serialize_entry(entry))


def delete_entry(call: Call) -> OperationAnswer[schemas.Count]:
    """Remove a value of working memory."""
    return OperationAnswer({"removed": int(_open_working_memory(call).delete(call.path["key"]))})


for _base, _suffix in ((f"{_SESSION}/working", "_of_session"), ("/v1/scratchpad", "")):
    _path = f"{_base}/{{key:path}}"
    OPERATIONS.add("GET", _base, "read", name=f"list_entries{_suffix}")(list_entries)
    OPERATIONS.add("GET", _path, "read", name=f"get_entry{_suffix}")(get_entry)
    OPERATIONS.add("PUT", _path, "write", name=f"set_entry{_suffix}")(set_entry)
    OPERATIONS.add("DELETE", _path, "write", name=f"delete_entry{_suffix}")(delete_entry)


# -- last, because their path takes everything -----------------------------------------------------------


@OPERATIONS.add("GET", _SESSION, "read")
def get_session(call: Call) -> OperationAnswer[SessionState]:
    """Return the state of a session."""
    return answer_value(read_session(call))


@OPERATIONS.add("PUT", _SESSION, "write")
def change_session(call: Call, given: schemas.SessionInput) -> OperationAnswer[SessionState]:
    """Pause, resume or terminate a session, or set its metadata."""
    session = _open_own_session(call)
    for name, text in given.metadata.items():
        session.set_metadata(name, text)
    change = {"active": session.resume, "paused": session.pause, "terminated": session.terminate}
    if given.status is not None:
        change[given.status]()
    return answer_value(session.state)


@OPERATIONS.add("DELETE", _SESSION, "write")
def delete_session(call: Call) -> OperationAnswer[schemas.Count]:
    """Remove a session and its turns; undo brings them back."""
    _open_own_session(call)
    return OperationAnswer({"removed": call.view.delete_session(call.path["id"])})
