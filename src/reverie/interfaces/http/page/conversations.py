"""Conversations: the list, the turns of one, and why: the exact prompt of an answer, and what a prompt would be."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from starlette.responses import Response

from reverie.domain.errors import NotFound
from reverie.domain.text.languages import get_function_words
from reverie.domain.text.tokenizer import STOP_WORDS, find_language, tokenize_chunks
from reverie.interfaces.http import conversations, records
from reverie.interfaces.http.documentation import HEADERS
from reverie.interfaces.http.operations import Call, encode_cursor
from reverie.interfaces.http.page.rendering import quote_path
from reverie.interfaces.http.page.views import (
    Fields,
    Redirect,
    Screen,
    ViewList,
    ViewQuery,
    is_allowed,
    perform,
)

VIEWS = ViewList()

_LISTED = 40
_MOST_TURNS = 60
_MOST_UNCONSIDERED = 10
_NO_SESSION = "page:what-if"
"""Session of a prompt that is tried without one; nothing is stored in it."""


@VIEWS.add("GET", "/conversations", "read")
def show_conversations(call: Call) -> Screen:
    """Show the conversations, the latest active first."""
    page = perform(call, conversations.list_sessions, cursor=call.query.cursor, limit=_LISTED)
    for item in page["items"]:
        item["gist"] = item["session"]["summary"] or _find_gist(call, item["session"]["id"])
    return Screen("conversations.html", title="Conversations", items=page["items"], following=page["next"])


def _find_gist(call: Call, session: str) -> str:
    """Return the last words of a conversation."""
    last = call.reader.turns(session, start=-3)
    return next((turn.content for turn in reversed(last) if turn.role == "assistant" and turn.content), "")


@VIEWS.add("GET", "/conversations/{id:path}", "read")
def show_conversation(call: Call) -> Screen:
    """Show a conversation, the latest turns unless another position is asked for."""
    state = perform(call, conversations.get_session)
    start = call.query.start
    if start is None:
        last = call.reader.turns(state["id"], start=-1)
        start = max(last[0].position + 1 - _MOST_TURNS, 0) if last else 0
    cursor = encode_cursor([start], of=(call.path["id"], call.query.scope))
    page = perform(call, conversations.list_turns, limit=_MOST_TURNS, cursor=cursor)
    prompts = {each.position: each for each in call.reader.prompt_log(state["id"], limit=None)}
    learned = _find_learned(call, [turn["id"] for turn in page["items"]])
    return Screen(
        "conversation.html",
        title=call.reader.title(state["id"]),
        session=state,
        turns=_attach_prompts(call, page["items"], prompts),
        learned=learned,
        earlier=max(start - _MOST_TURNS, 0) if start else None,
        later=start + _MOST_TURNS if page["next"] else None,
        may_change=is_allowed(call, "write") and state["scope"] == call.view.scope,
    )


def _attach_prompts(
    call: Call, turns: Sequence[dict[str, Any]], prompts: Mapping[int, Any]
) -> list[dict[str, Any]]:
    """Return the turns, each answer with the prompt that it was given and the recalled records."""
    asked: Any = None
    for turn in turns:
        asked = prompts.get(turn["position"], asked) if turn["role"] == "user" else asked
        turn["prompt"], turn["recalled"] = None, []
        if turn["role"] == "assistant" and turn["content"] and asked is not None:
            ids = [line.id for line in asked.lines if line.verdict in ("selected", "perhaps related")]
            turn["prompt"], asked = asked, None
            turn["recalled"] = [each for name in ids[:12] if (each := call.reader.get(name)) is not None]
    return [*turns]


def _find_learned(call: Call, turns: Iterable[str]) -> list[dict[str, Any]]:
    """Return the live records that cite one of some turns."""
    wanted = set(turns)
    recent = call.reader.list(limit=200, parts=True)
    return [each.to_dict() for each in recent if wanted.intersection(each.references)]


@VIEWS.add("POST", "/conversations-change/{id:path}", "write")
def change_conversation(call: Call, fields: Fields) -> Redirect:
    """Rename, pause, resume or end a conversation."""
    if fields.list("title"):
        change: dict[str, Any] = {"metadata": {"title": fields.get("title").strip()}}
    else:
        change = {"status": fields.get("status")}
    state = perform(call, conversations.change_session, body=change)
    return Redirect("/conversations/" + quote_path(state["id"]))


@VIEWS.add("GET", "/conversations-file/{id:path}", "read")
def save_conversation(call: Call) -> Response:
    """Answer with a conversation as a file of JSON lines."""
    state = perform(call, conversations.get_session)
    rows = [json.dumps(turn.to_dict(), ensure_ascii=False) for turn in call.reader.turns(state["id"])]
    headers = {**HEADERS, "Content-Disposition": 'attachment; filename="conversation.jsonl"'}
    return Response(
        "\n".join(rows).encode("utf-8", "replace"), media_type="application/jsonl", headers=headers
    )


# -- why ---------------------------------------------------------------------------------------------------


@VIEWS.add("GET", "/why/{id:path}/{position:number}", "read")
def show_prompt(call: Call) -> Screen:
    """Show the exact prompt of an answer line by line, each with its reason, and what was left out."""
    prompt = perform(call, conversations.get_pack)
    session, position = prompt["session"], prompt["position"]
    turns = call.reader.turns(session, start=position, stop=position + 8)
    answer = next((turn for turn in turns if turn.role == "assistant" and turn.content), None)
    earlier = [
        each.position for each in call.reader.prompt_log(session, limit=None) if each.position < position
    ]
    question = prompt["question"] or (turns[0].content if turns and turns[0].role == "user" else "")
    return Screen(
        "why.html",
        title="Why this answer",
        session=session,
        session_title=call.reader.title(session),
        position=position,
        question=question,
        asked_at=prompt["at"],
        answer=answer,
        earlier=max(earlier, default=None),
        other=None,
        tokens=None,
        **_describe_prompt(prompt, prompt["lines"], question),
    )


@VIEWS.add("GET", "/what-if", "read")
def try_prompt(call: Call) -> Screen:
    """Show the prompt that a message would get now; nothing is stored, and no model is called."""
    query: ViewQuery = call.query
    session = query.session
    if session and not call.reader.turns(session, stop=1):
        raise NotFound(f"No conversation {session!r}. Leave it out, or open one of the list.")
    body: dict[str, Any] = {"message": query.message, "record_shown": False}
    if query.tokens is not None:
        body |= {"soft_tokens": query.tokens, "hard_tokens": query.tokens}
    pack = perform(call, conversations.build_context, path={"id": session or _NO_SESSION}, body=body)
    pack |= {"total": pack["tokens"], "tokens": pack["diagnostics"]["tokens"], "text": pack["lines"]}
    pack |= {
        "is_rebuilt": False,
        "replayed_messages": pack["diagnostics"]["replayed_messages"],
        "replayed_tokens": pack["diagnostics"]["replayed_tokens"],
    }
    candidates = [*pack["candidates"], *_list_unconsidered(call, pack)]
    return Screen(
        "why.html",
        title="What if",
        session=session,
        session_title=call.reader.title(session) if session else "",
        position=None,
        question=query.message,
        asked_at=None,
        answer=None,
        earlier=None,
        other=_compare_with_last(call, session, pack),
        tokens=query.tokens,
        **_describe_prompt(pack, candidates, query.message),
    )


def _compare_with_last(call: Call, session: str, pack: Mapping[str, Any]) -> list[tuple[str, str]] | None:
    """Return the lines in which a prompt differs from the last one of its conversation; None without one."""
    logged = call.reader.prompt_log(session, limit=1) if session else []
    if not logged:
        return None
    was = call.reader.get_prompt(session, logged[0].position)
    before = {line.text for line in was.text if line.id}
    now = {line["text"] for line in pack["text"] if line["id"]}
    gone = [("gone", line.text) for line in was.text if line.id and line.text not in now]
    return gone + [
        ("new", line["text"]) for line in pack["text"] if line["id"] and line["text"] not in before
    ]


def _describe_prompt(
    prompt: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]], question: str
) -> dict[str, Any]:
    """Return the lines of a prompt with their scores and shared words, its budget, and what was left out."""
    scores = {each["id"]: each["score"] for each in candidates}
    lines = [
        {
            **line,
            "score": scores.get(line["id"]) if line["section"] == "recalled" else None,
            "shared": find_shared_words(question, line["text"]) if line["section"] == "recalled" else [],
        }
        for line in prompt["text"]
    ]
    shown = ("selected", "perhaps related", "in every prompt")
    left = [each for each in candidates if each["verdict"] not in shown and each.get("content")]
    costs = prompt["tokens"]
    recalled = costs.get("recalled", 0)
    notes = sum(costs.get(name, 0) for name in ("notes", "working", "related", "changed"))
    total = sum(costs.values())
    return {
        "lines": lines,
        "is_rebuilt": prompt["is_rebuilt"],
        "replayed": (prompt["replayed_messages"], prompt["replayed_tokens"]),
        "shares": (total - recalled - notes, recalled, notes),
        "total": total,
        "most": max(prompt["hard_tokens"], total),
        "left": [each for each in left if each["verdict"] != "weak"],
        "weak": [each for each in left if each["verdict"] == "weak"],
    }


def _list_unconsidered(call: Call, pack: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return archived records, and those with too little of the message, as candidates."""
    if not pack["query"]:
        return []
    body = {"query": pack["query"], "sources": ["records", "turns"], "left_out": _MOST_UNCONSIDERED}
    known = {each["id"] for each in pack["candidates"]}
    left = perform(call, records.search, body=body)["left_out"]
    return [
        {**each["hit"], "verdict": "weak" if each["why"] == "floor" else each["why"], "shown_at": None}
        for each in left
        if each["why"] in ("archived", "floor") and each["hit"]["id"] not in known
    ]


def find_shared_words(question: str, content: str) -> list[str]:
    """Return the words of a text that are in the question in some form, in their order."""
    language = find_language(content)
    asked = {part for _, parts, _ in tokenize_chunks(question, language) for part in parts}
    chunks = tokenize_chunks(content, language)
    words = dict.fromkeys(word for word, parts, _ in chunks if asked.intersection(parts))
    common = STOP_WORDS | get_function_words(language)
    return [word for word in words if word.casefold() not in common]
