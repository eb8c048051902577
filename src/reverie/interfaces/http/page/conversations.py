"""Conversations: the list, the turns of one, and why: the exact prompt of an answer, and what a prompt would be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reverie.domain.conversation import Turn
from reverie.domain.errors import NotFound
from reverie.domain.text.languages import get_function_words
from reverie.domain.text.tokenizer import STOP_WORDS, find_language, tokenize_chunks
from reverie.interfaces.http import conversations
from reverie.interfaces.http.operations import Call
from reverie.interfaces.http.page.rendering import quote_path
from reverie.interfaces.http.page.views import Fields, Redirect, Screen, ViewList, ViewQuery, perform
from reverie.interfaces.http.schemas import CursorQuery

VIEWS = ViewList()

_LISTED = 40
_MOST_TURNS = 60
_SHOWN = ("selected", "perhaps related", "in every prompt")
_NO_SESSION = "page:what-if"
"""Session of a prompt that is tried without one; nothing is stored in it."""


@VIEWS.add("GET", "/conversations", "read")
def show_conversations(call: Call[ViewQuery]) -> Screen:
    """Show the conversations, the latest active first."""
    query = CursorQuery(scope=call.query.scope, cursor=call.query.cursor, limit=_LISTED)
    page = conversations.list_sessions(call.with_query(query)).body
    return Screen("conversations.html", items=page["items"], following=page["next"])


@VIEWS.add("GET", "/conversations/{id:path}", "read")
def show_conversation(call: Call[ViewQuery]) -> Screen:
    """Show a conversation, the latest turns unless another position is asked for."""
    state, start = conversations.read_session(call), call.query.start
    if start is None:
        last = call.reader.turns(state.id, start=-1)
        start = max(last[0].position + 1 - _MOST_TURNS, 0) if last else 0
    turns = call.reader.turns(state.id, start=start, stop=start + _MOST_TURNS + 1)
    shown, ids = turns[:_MOST_TURNS], {turn.id for turn in turns[:_MOST_TURNS]}
    learned = [each for each in call.reader.list(limit=200, parts=True) if ids.intersection(each.references)]
    return Screen(
        "conversation.html",
        title=call.reader.title(state.id),
        session=state,
        turns=_attach_prompts(call, state.id, shown),
        learned=learned,
        earlier=max(start - _MOST_TURNS, 0) if start else None,
        later=start + _MOST_TURNS if len(turns) > _MOST_TURNS else None,
    )


def _attach_prompts(call: Call, session: str, turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """Return the turns, each answer with the prompt that it was given and the recalled records."""
    prompts, asked = {each.position: each for each in call.reader.prompts.list(session, limit=None)}, None
    shown = []
    for turn in turns:
        each: dict[str, Any] = {"turn": turn, "prompt": None, "recalled": []}
        asked = prompts.get(turn.position, asked) if turn.role == "user" else asked
        if turn.role == "assistant" and turn.content and asked is not None:
            ids = [line.id for line in asked.lines if line.verdict in _SHOWN][:12]
            each["recalled"] = [record for name in ids if (record := call.reader.get(name)) is not None]
            each["prompt"], asked = asked, None
        shown.append(each)
    return shown


@VIEWS.add("POST", "/conversations-change/{id:path}", "write")
def change_conversation(call: Call, fields: Fields) -> Redirect:
    """Rename, pause, resume or end a conversation."""
    change: dict[str, Any] = {"status": fields.get("status")}
    if fields.list("title"):
        change = {"metadata": {"title": fields.get("title").strip()}}
    state = perform(call, conversations.change_session, **change)
    return Redirect("/conversations/" + quote_path(state.id))


# -- why ---------------------------------------------------------------------------------------------------


@VIEWS.add("GET", "/why/{id:path}/{position:number}", "read")
def show_prompt(call: Call) -> Screen:
    """Show the exact prompt of an answer line by line, each with its reason, and what was left out."""
    session, position = call.path["id"], int(call.path["position"])
    prompt = call.reader.prompts.get(session, position).to_dict()
    session = prompt["session"]
    turns = call.reader.turns(session, start=position, stop=position + 8)
    earlier = (each.position for each in call.reader.prompts.list(session, limit=None))
    answers = (turn for turn in turns if turn.role == "assistant" and turn.content)
    question = prompt["question"] or (turns[0].content if turns else "")
    return Screen(
        "why.html",
        **_describe_prompt(prompt, prompt["lines"], question),
        session=session,
        position=position,
        asked_at=prompt["at"],
        answer=next(answers, None),
        earlier=max((each for each in earlier if each < position), default=None),
        other=None,
    )


@VIEWS.add("GET", "/what-if", "read")
def try_prompt(call: Call[ViewQuery]) -> Screen:
    """Show the prompt that a message would get now; nothing is stored, and no model is called."""
    session, message, tokens = call.query.session, call.query.message, call.query.tokens
    if session and not call.reader.turns(session, stop=1):
        raise NotFound(f"No conversation {session!r}. Leave it out, or open one of the list.")
    body: dict[str, Any] = {"message": message, "record_shown": False}
    if tokens is not None:
        body |= {"soft_tokens": tokens, "hard_tokens": tokens}
    pack = perform(call, conversations.build_context, path=session or _NO_SESSION, **body)
    candidates = pack["candidates"]
    pack |= pack["diagnostics"] | {"text": pack["lines"], "is_rebuilt": False}
    other = _compare_with_last(call, session, pack["lines"])
    shown = _describe_prompt(pack, candidates, message)
    return Screen("why.html", **shown, session=session, position=None, earlier=None, other=other)


def _compare_with_last(
    call: Call, session: str, lines: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str]] | None:
    """Return the lines in which a prompt differs from the last one of its conversation; None without one."""
    logged = call.reader.prompts.list(session, limit=1) if session else []
    if not logged:
        return None
    text = call.reader.prompts.get(session, logged[0].position).text
    before, now = ([line.text for line in text if line.id], [line["text"] for line in lines if line["id"]])
    gone = [("gone", line) for line in before if line not in now]
    return gone + [("new", line) for line in now if line not in before]


def _describe_prompt(
    prompt: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]], question: str
) -> dict[str, Any]:
    """Return the lines of a prompt with their scores and shared words, its budget, and what was left out."""
    scores, lines = {each["id"]: each["score"] for each in candidates}, prompt["text"]
    for line in lines:
        is_recalled = line["section"] == "recalled"
        line["score"] = scores.get(line["id"]) if is_recalled else None
        line["shared"] = find_shared_words(question, line["text"]) if is_recalled else []
    left = [each for each in candidates if each["verdict"] not in _SHOWN and each.get("content")]
    costs, total = prompt["tokens"], sum(prompt["tokens"].values())
    notes = sum(costs.get(name, 0) for name in ("notes", "working", "related", "changed"))
    recalled = costs.get("recalled", 0)
    return {
        "question": question,
        "lines": lines,
        "prompt": prompt,
        "shares": (total - recalled - notes, recalled, notes),
        "most": max(prompt["hard_tokens"], total),
        "left": left,
    }


def find_shared_words(question: str, content: str) -> list[str]:
    """Return the words of a text that are in the question in some form, in their order."""
    language = find_language(content)
    asked = {part for _, parts, _ in tokenize_chunks(question, language) for part in parts}
    chunks = tokenize_chunks(content, language)
    words = dict.fromkeys(word for word, parts, _ in chunks if asked.intersection(parts))
    common = STOP_WORDS | get_function_words(language)
    return [word for word in words if word.casefold() not in common]
