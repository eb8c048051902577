"""Conversations: sessions and their turns."""

from __future__ import annotations

from typing import Any

from reverie.interfaces.http import conversations
from reverie.interfaces.http.conditions import encode_cursor
from reverie.interfaces.http.operations import Call, ScopeQuery
from reverie.interfaces.http.page.rendering import TEXTS, quote_path
from reverie.interfaces.http.page.views import (
    Fields,
    PageView,
    Redirect,
    Screen,
    find_last_change,
    is_allowed,
    perform,
    view,
)
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.schemas import Number

VIEWS: list[PageView] = []

_MOST_TURNS = 60


class SessionsQuery(ScopeQuery):
    """Query of the list of sessions."""

    cursor: str | None = None


class ConversationQuery(ScopeQuery):
    """Query of a conversation; `start` is the position of the first turn to show."""

    start: Number | None = None


@view(VIEWS, "GET", "/sessions", right="read", query=SessionsQuery)
def show_sessions(call: Call) -> Screen | Redirect:
    """Show the sessions, the latest active first."""
    page = perform(call, conversations.list_sessions, cursor=call.query.cursor).body
    return Screen(
        template="sessions.html",
        title=TEXTS["conversations"]["title"],
        values={
            "sessions": page["items"],
            "following": page["next"],
            "is_first": call.query.cursor is None,
        },
    )


@view(VIEWS, "GET", "/sessions/{id:path}", right="read", query=ConversationQuery)
def show_conversation(call: Call) -> Screen | Redirect:
    """Show a conversation, the latest turns unless another place is asked for."""
    state = perform(call, conversations.get_session).body
    start = call.query.start
    if start is None:
        last = call.reader.turns(state["id"], start=-1)
        start = max(last[0].position + 1 - _MOST_TURNS, 0) if last else 0
    of = (call.path["id"], call.query.scope)
    cursor = encode_cursor([start], of=of)
    page = perform(call, conversations.list_turns, limit=_MOST_TURNS, cursor=cursor).body
    return Screen(
        template="conversation.html",
        title=state["id"],
        values={
            "session": state,
            "turns": page["items"],
            "is_last": call.query.start is None,
            "earlier": max(start - _MOST_TURNS, 0) if start else None,
            "later": start + _MOST_TURNS if page["next"] else None,
            "may_change": is_allowed(call, "write") and state["scope"] == call.view.scope,
        },
    )


@view(VIEWS, "POST", "/sessions-status/{id:path}", right="write")
def change_conversation(call: Call) -> Screen | Redirect:
    """Pause, resume or terminate a session."""
    fields: Fields = call.body
    body: dict[str, Any] = {"status": fields.get("status")}
    state = perform(call, conversations.change_session, body=body).body
    return Redirect("/sessions/" + quote_path(state["id"]), done=find_last_change(call, state["id"]))


@view(VIEWS, "POST", "/sessions-delete/{id:path}", right="write")
def delete_conversation(call: Call) -> Screen | Redirect:
    """Delete a session whose name was typed."""
    fields: Fields = call.body
    state = perform(call, conversations.get_session).body
    if fields.get("name").strip() != state["id"]:
        raise Problem(
            422, "The name that was typed is not that of the session. Go back and type it as it is."
        )
    perform(call, conversations.delete_session)
    return Redirect("/sessions", done=find_last_change(call, state["id"]))
