"""Conversations: sessions and their turns."""

from __future__ import annotations

from reverie.interfaces.http import conversations
from reverie.interfaces.http.operations import Call, ScopeQuery, encode_cursor
from reverie.interfaces.http.page.rendering import quote_path
from reverie.interfaces.http.page.views import Fields, Redirect, Screen, ViewList, is_allowed, perform
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.schemas import CursorQuery, Number

VIEWS = ViewList()

_MOST_TURNS = 60


class ConversationQuery(ScopeQuery):
    """Query of a conversation; `start` is the position of the first turn to show."""

    start: Number | None = None


@VIEWS.add("GET", "/sessions", "read", query=CursorQuery)
def show_sessions(call: Call) -> Screen:
    """Show the sessions, the latest active first."""
    page = perform(call, conversations.list_sessions, cursor=call.query.cursor)
    return Screen(
        "sessions.html", sessions=page["items"], following=page["next"], is_first=call.query.cursor is None
    )


@VIEWS.add("GET", "/sessions/{id:path}", "read", query=ConversationQuery)
def show_conversation(call: Call) -> Screen:
    """Show a conversation, the latest turns unless another place is asked for."""
    state = perform(call, conversations.get_session)
    start = call.query.start
    if start is None:
        last = call.reader.turns(state["id"], start=-1)
        start = max(last[0].position + 1 - _MOST_TURNS, 0) if last else 0
    of = (call.path["id"], call.query.scope)
    cursor = encode_cursor([start], of=of)
    page = perform(call, conversations.list_turns, limit=_MOST_TURNS, cursor=cursor)
    return Screen(
        "conversation.html",
        session=state,
        turns=page["items"],
        is_last=call.query.start is None,
        earlier=max(start - _MOST_TURNS, 0) if start else None,
        later=start + _MOST_TURNS if page["next"] else None,
        may_change=is_allowed(call, "write") and state["scope"] == call.view.scope,
    )


@VIEWS.add("POST", "/sessions-status/{id:path}", "write")
def change_conversation(call: Call, fields: Fields) -> Redirect:
    """Pause, resume or terminate a session."""
    state = perform(call, conversations.change_session, body={"status": fields.get("status")})
    rows = call.memory.history.log(state["id"], limit=1, newest_first=True)
    return Redirect("/sessions/" + quote_path(state["id"]), done=rows[0].sequence)


@VIEWS.add("POST", "/sessions-delete/{id:path}", "write")
def delete_conversation(call: Call, fields: Fields) -> Redirect:
    """Delete a session whose name was typed."""
    state = perform(call, conversations.get_session)
    if fields.get("name").strip() != state["id"]:
        raise Problem(
            422, "The name that was typed is not that of the session. Go back and type it as it is."
        )
    perform(call, conversations.delete_session)
    return Redirect("/sessions")
