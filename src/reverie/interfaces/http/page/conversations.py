"""Conversations: sessions and their turns, and what each prompt was made of and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reverie.domain.errors import NotFound
from reverie.domain.text.languages import get_function_words
from reverie.domain.text.tokenizer import STOP_WORDS, find_language, tokenize_chunks
from reverie.domain.text.validation import estimate_tokens
from reverie.interfaces.http import changes, conversations, records
from reverie.interfaces.http.operations import Call, ScopeQuery, encode_cursor
from reverie.interfaces.http.page.rendering import build_shares, quote_path
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
    (row,) = perform(call, changes.list_changes, id=state["id"], limit=1, newest_first=True)["items"]
    return Redirect("/sessions/" + quote_path(state["id"]), done=row["sequence"])


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


# -- prompts ---------------------------------------------------------------------------------------------


_LISTED = 100
_MOST_UNCONSIDERED = 10
_NO_SESSION = "page:what-if"
"""Session of a prompt that is tried without one; nothing is stored in it."""


class PromptsQuery(ScopeQuery):
    """Query of the list of prompts."""

    session: str | None = None


class InspectorQuery(ScopeQuery):
    """Query of the inspector: what a prompt shall be made for."""

    message: str | None = None
    session: str | None = None
    soft_tokens: Number | None = None
    hard_tokens: Number | None = None


def _find_question(call: Call, entry: dict[str, Any]) -> str:
    """Return the message that a prompt was made for, if it is known; else the empty text."""
    if not entry["asked"]:
        return ""
    position = entry["position"]
    turns = call.reader.turns(entry["session"], start=position, stop=position + 1)
    return turns[0].content if turns else ""


@VIEWS.add("GET", "/prompts", "read", query=PromptsQuery)
def list_prompts(call: Call) -> Screen:
    """List the prompts that were made."""
    query: PromptsQuery = call.query
    if query.session:
        kept = perform(call, conversations.list_packs_of_session, path={"id": query.session}, limit=_LISTED)
    else:
        kept = perform(call, conversations.list_packs, limit=_LISTED)
    entries = [{**each, "question": _find_question(call, each)} for each in kept["items"]]
    return Screen("prompts.html", entries=entries, session=query.session or "", listed=_LISTED)


@VIEWS.add("GET", "/prompts/{id:path}/{position:number}", "read")
def show_prompt(call: Call) -> Screen:
    """Show what one prompt was made of, and why."""
    entry = perform(call, conversations.get_pack)
    question = entry["question"] or ""
    lines = [
        {**line, "matched": _find_shared_words(question, line["content"] or "")} for line in entry["lines"]
    ]
    return Screen(
        "prompt.html",
        entry=entry,
        budget=_build_budget(entry["tokens"], entry["hard_tokens"]),
        **_sort_lines(lines),
        standing=entry["standing"],
    )


@VIEWS.add("GET", "/inspect", "read", query=InspectorQuery)
def inspect_prompt(call: Call) -> Screen:
    """Show what a prompt for a message would be made of now; nothing is stored."""
    query: InspectorQuery = call.query
    values: dict[str, Any] = {"query": query, "pack": None}
    if query.message or query.session:
        asked = {"soft_tokens": query.soft_tokens, "hard_tokens": query.hard_tokens, "record_shown": False}
        if query.session and not call.reader.turns(query.session, stop=1):
            raise NotFound(
                f"there is no session {query.session!r} here: leave it out, or take one of the list"
            )
        pack = perform(
            call,
            conversations.build_context,
            path={"id": query.session or _NO_SESSION},
            body={"message": query.message, **asked},
        )
        candidates = [*pack["candidates"], *_list_unconsidered(call, pack)]
        lines = [_describe_candidate(each, pack["query"]) for each in candidates]
        values |= {
            "pack": pack,
            "budget": _build_budget(pack["diagnostics"]["tokens"], pack["hard_tokens"]),
            **_sort_lines(lines),
        }
    return Screen("inspect.html", **values)


# -- lines -----------------------------------------------------------------------------------------------


def _describe_candidate(candidate: dict[str, Any], question: str) -> dict[str, Any]:
    """Return a candidate of a new prompt as a view shows it."""
    explanation = candidate["explanation"]
    value = candidate.get("record") or candidate.get("turn") or {}
    return {
        **candidate,
        "state": "unchanged",
        "parts": explanation["parts"],
        "matched": [
            *_find_shared_words(question, candidate["content"]),
            *(word for word in explanation["matched"] if "≈" in word),
        ],
        "scope": value.get("scope", ""),
    }


def _list_unconsidered(call: Call, pack: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what is no candidate as candidates: what is archived, or has too little of the message."""
    if not pack["query"]:
        return []
    body = {"query": pack["query"], "sources": ["records", "turns"], "left_out": _MOST_UNCONSIDERED}
    known = {each["id"] for each in pack["candidates"]}
    return [
        {
            **hit,
            "verdict": each["why"],
            "tokens": estimate_tokens(hit["content"]),
            "shown_at": None,
            "recent": False,
            "explanation": {"parts": {}, "matched": []},
        }
        for each in perform(call, records.search, body=body)["left_out"]
        if each["why"] in ("archived", "floor") and (hit := each["hit"])["id"] not in known
    ]


def _sort_lines(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the lines that are in the prompt, those that are not, and among the latter the weak ones apart."""
    return {
        "chosen": [each for each in lines if each["verdict"] == "selected"],
        "left": [each for each in lines if each["verdict"] not in ("selected", "weak")],
        "weak": [each for each in lines if each["verdict"] == "weak"],
    }


def _find_shared_words(question: str, content: str) -> list[str]:
    """Return the words of a text that are in the question in some form, in their order."""
    language = find_language(content)
    asked = {part for _, parts, _ in tokenize_chunks(question, language) for part in parts}
    chunks = tokenize_chunks(content, language)
    words = dict.fromkeys(word.casefold() for word, parts, _ in chunks if asked.intersection(parts))
    return [word for word in words if word not in STOP_WORDS | get_function_words(language)]


def _build_budget(tokens: dict[str, int], hard_tokens: int) -> dict[str, Any]:
    """Return the cost of each section, with its place in a bar of the hard budget."""
    total = sum(tokens.values())
    bar = build_shares([*tokens.values()], max(hard_tokens, total))
    return {"parts": [*tokens.items()], "bar": bar, "total": total}
