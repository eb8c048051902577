"""Memories and conversations: lists, searches, one of them with its sources, the prompt of an answer, forgetting."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime, timedelta
from typing import Any

from reverie.domain.conversation import Turn
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.record import UNTRUSTED, Record
from reverie.domain.scope import EVERY_SCOPE
from reverie.domain.similarity.grounding import find_injection
from reverie.domain.text.languages import get_function_words
from reverie.domain.text.timestamps import format_time, parse_time
from reverie.domain.text.tokenizer import STOP_WORDS, find_language, tokenize_chunks
from reverie.interfaces import formatting
from reverie.interfaces.http import administration, conversations, records
from reverie.interfaces.http.operations import Call, Problem, build_problem, compute_etag
from reverie.interfaces.http.page import views
from reverie.interfaces.http.page.rendering import build_link, quote_path
from reverie.interfaces.http.page.review import describe_change
from reverie.interfaces.http.page.views import Fields, Plain, Redirect, Screen, ViewList, ViewQuery, perform
from reverie.interfaces.http.schemas import MOST_ITEMS, CursorQuery, Texts
from reverie.reader import MemoryReader
from reverie.search.hits import SOURCES, Hit

VIEWS = ViewList()

_MOST_HITS = 30
_MOST_WEAK = 10
_GOOD = 0.12
"""Score from which a hit is a good match, unless another one is four times as good."""
_LISTED = 50
_BESIDE = 25
_ENOUGH = 3  # good matches, with which nothing else is looked for
_LAST_CHANGED = 600  # among which those that ended are looked for
_MOST_SESSIONS = 40
_MOST_TURNS = 60
_SHOWN = ("selected", "perhaps related", "in every prompt")
_NO_SESSION = "page:what-if"
"""Session of a prompt that is tried without one; nothing is stored in it."""


@VIEWS.add("GET", "/memories", "read")
def show_memories(call: Call[ViewQuery]) -> Screen:
    """Show a list of records with filters, or what a search finds."""
    with _reading(call) as reader:
        if call.query.q:
            return _show_hits(call.query, reader)
        items, following = _list_records(call, reader, limit=_LISTED)
    return Screen("memories.html", items=items, following=following, overview=call.server.overview(call.view))


def _reading(call: Call[ViewQuery]) -> AbstractContextManager[MemoryReader]:
    """Open the scope that the view shows, as of the time that it names."""
    return records.open_reader(call, call.query.as_of)


def _list_records(
    call: Call[ViewQuery], reader: MemoryReader, *, limit: int
) -> tuple[list[Record], str | None]:
    """Return the records of a query without words, and the cursor of the next ones."""
    query, now = call.query, call.memory.now()
    names = ("kind", "origin", "category")
    filters: dict[str, Any] = {name: (value,) for name in names if (value := getattr(query, name))}
    if query.about or query.state == "ended":
        found = (
            call.reader.subjects.find(query.about)
            if query.about
            else call.reader.list(limit=_LAST_CHANGED, parts=True, **filters)
        )
        return [each for each in found if _is_wanted(query, each, now)][:limit], None
    filters |= {"valid_at": now} if query.state == "current" else {}
    filters |= {"pinned": True} if query.state == "pinned" else {}
    filters |= {"created_after": now - timedelta(days=int(query.days))} if query.days else {}
    of = (call.caller.token, query.model_copy(update={"cursor": None}))
    more = {"archived": query.state == "archived", "tags": query.tags, "parts": True}
    return records.read_created(reader, query.cursor, of=of, limit=limit, **filters, **more)


def _is_wanted(query: ViewQuery, record: Record, now: datetime) -> bool:
    """Return whether a record passes the filters beside its name."""
    is_ended = record.valid_to is not None and record.valid_to <= now
    states = {"ended": is_ended, "current": not is_ended, "pinned": record.pinned, "archived": False}
    return (
        query.kind in ("", record.kind)
        and query.origin in ("", record.origin)
        and (record.category or "").startswith(query.category)
        and (not query.days or now - record.created_at <= timedelta(days=int(query.days)))
        and states.get(query.state, True)
    )


def _show_hits(query: ViewQuery, reader: MemoryReader) -> Screen:
    options: dict[str, Any] = {"sources": query.source or SOURCES, "mode": query.mode, "limit": _MOST_HITS}
    found = reader.search(query.q, **options)
    hits = [_describe_hit(hit, query.q) for hit in found]
    least = max(_GOOD, max((hit.score for hit in found), default=0.0) / 4)
    good, weak = (
        [each for each in hits if (each["hit"].score >= least) is wanted] for wanted in (True, False)
    )
    if len(good) < _ENOUGH:
        left = reader.left_out(query.q, found, most=_MOST_WEAK, **options)
        weak += [{**_describe_hit(each.hit, query.q), "why": each.why} for each in left]
    return Screen("search.html", q=query.q, hits=good, weak=weak)


def _describe_hit(hit: Hit, question: str) -> dict[str, Any]:
    """Return a hit with the part of its text to show, and the words that the question shares with it."""
    matched = hit.explanation.matched
    text = formatting.extract_excerpt(hit.passage or hit.content, matched, longest=400)
    words, close = find_shared_words(question, text), [word for word in matched if "≈" in word]
    return {"hit": hit, "text": text, "words": words, "close": close, "why": ""}


# -- one memory ------------------------------------------------------------------------------------------


@VIEWS.add("GET", "/memories/new", "write")
def show_new_memory(call: Call[ViewQuery]) -> Screen:
    """Show the form of a new memory."""
    given = {"content": call.query.content, "category": call.query.category, "tags": call.query.tags}
    return Screen("memory_new.html", problem=None, given=given)


@VIEWS.add("POST", "/memories", "write")
def add_memory(call: Call, fields: Fields) -> Screen | Redirect:
    """Save a line; its section decides the kind, else what it says."""
    body: dict[str, Any] = {"content": fields.get("content"), "tags": fields.words("tags")}
    body |= {name: fields.get(name) for name in ("kind", "category") if fields.get(name)}
    if fields.get("section") == "help" or fields.get("rule"):
        body["kind"] = "constraint"
    try:
        saved = perform(call, records.save_record, **body)
    except Problem as problem:
        if problem.status != 422:
            raise
        return Screen("memory_new.html", status=422, problem=problem, given=body)
    return Redirect(views.choose_local_path(fields.get("next"), f"/memories/{saved.record.id}"))


@VIEWS.add("GET", "/item/{id}", "read")
def find_item(call: Call) -> Redirect:
    """Go to the memory, message or page that an id in a prompt names."""
    name, reader = call.path["id"], call.reader
    if (turn := reader.get_turn(name)) is not None:
        start = max(turn.position - 5, 0)
        return Redirect(f"/conversations/{quote_path(turn.session)}?start={start}", done=0)
    if reader.get(name) is None and (paragraph := reader.get_paragraph(name)) is not None:
        return Redirect(f"/pages/{quote_path(paragraph.page)}", done=0)
    return Redirect(f"/memories/{quote_path(name)}", done=0)


@VIEWS.add("GET", "/memories/{id}", "read")
def show_memory(call: Call) -> Screen:
    """Show a record with its sources, history and use, beside the list that it was chosen from."""
    return _draw_memory(call)


def _draw_memory(
    call: Call[ViewQuery], given: Mapping[str, Any] | None = None, problem: Problem | None = None
) -> Screen:
    with _reading(call) as reader:
        record = records.get_record_of(call, reader)
        items, _ = _list_records(call, reader, limit=_BESIDE)
    history = records.get_record_history(call).body["items"]
    is_own = record.scope == call.view.scope and call.query.as_of is None
    return Screen(
        "memory.html",
        status=200 if problem is None else problem.status,
        title=record.content[:80],
        record=record,
        etag=compute_etag(record),
        given=given,
        problem=problem,
        history=[describe_change(item) for item in call.numbers.show_all(history[::-1])],
        blame=records.get_record_blame(call).body,
        items=items,
        may_change=is_own and views.is_allowed(call, "write"),
    )


_ACTIONS = {"end": records.end_record, "archive": records.archive_record, "restore": records.restore_record}


@VIEWS.add("POST", "/memories/{id}", "write")
def change_memory(call: Call, fields: Fields) -> Screen | Redirect:
    """Do with a memory what the button says, unless another writer has changed it since the view was drawn."""
    action, etag = fields.get("do"), fields.get("etag") or '""'
    target = views.choose_local_path(fields.get("next"), f"/memories/{call.path['id']}")
    try:
        if action == "save":
            changes = _read_changes(records.get_record_of(call, call.reader), fields)
            perform(call, records.update_record, if_match=etag, **changes)
        elif action in ("pin", "unpin"):
            perform(call, records.update_record, if_match="*", pinned=action == "pin")
        elif action in _ACTIONS:
            perform(call, _ACTIONS[action], if_match=None if action == "restore" else etag)
        else:
            raise _refuse(action)
    except Problem as problem:
        if problem.status not in (412, 422) or call.reader.get(call.path["id"]) is None:
            raise
        given = {name: fields.get(name) for name in ("content", "kind", "category", "valid_to")}
        return _draw_memory(call, given | {"tags": fields.words("tags")}, problem)
    return Redirect(target)


def _refuse(action: str) -> Problem:
    return Problem(422, f"The form asks for {action[:40]!r}. Go back and use one of its buttons.")


def _read_changes(record: Record, fields: Fields) -> dict[str, Any]:
    """Return the changes of a form; a field that the form does not have, or shows unchanged, stays as it is."""
    given: dict[str, Any] = {}
    for name in ("content", "kind", "category"):
        value = fields.get(name)
        if fields.list(name) and value != formatting.escape_text(getattr(record, name) or ""):
            given[name] = value or None
    if fields.list("tags") and (tags := fields.words("tags")) != [*record.tags]:
        given["tags"] = tags
    text, shown = fields.get("valid_to").strip(), record.valid_to and format_time(record.valid_to)
    if fields.list("valid_to") and text != (shown or ""):
        try:
            given["valid_to"] = format_time(parse_time(text, name="True until")) if text else None
        except InvalidInput as error:
            raise build_problem(error) from None
    return given


# -- several memories at once ----------------------------------------------------------------------------

_CHANGES = {"archive": "archive", "tag": "label", "trust": "vouch"}
"""What the buttons are called in the API."""


@VIEWS.add("POST", "/selection", "write")
def change_selection(call: Call, fields: Fields) -> Redirect:
    """Do with the checked memories what the button says in one transaction, or go to the preview of their erasure."""
    versions = dict(box.split(" ", 1) for box in fields.list("ids") if " " in box)
    if not 0 < len(versions) <= MOST_ITEMS:
        raise Problem(422, f"Select 1 to {MOST_ITEMS} memories. Go back and check their boxes.")
    if (action := fields.get("do")) == "forget":
        return Redirect(build_link("/forget/preview", {"ids": [*versions]}), done=0)
    if action not in _CHANGES:
        raise _refuse(action)
    for name, version in versions.items():
        if format_time(records.get_changeable(call, name).updated_at) != version:
            raise Problem(
                409, "A memory has changed since the list was drawn. Go back, load it anew and look again."
            )
    perform(call, records.change_records, action=_CHANGES[action], ids=[*versions], tags=fields.words("tags"))
    return Redirect(views.choose_local_path(fields.get("next"), "/memories"))


@VIEWS.add("GET", "/unverified", "read")
def show_untrusted(call: Call[ViewQuery]) -> Screen:
    """Show the words of tools, the web and imports, by source."""
    filters = {"origin": sorted(UNTRUSTED), "parts": True}
    page, following = records.read_created(
        call.reader, call.query.cursor, of=(call.caller.token, call.query.scope), limit=_LISTED, **filters
    )
    groups: dict[tuple[str, str], list[tuple[Record, str]]] = {}
    for record in page:
        mark = find_injection(" ".join(record.content.split()))
        groups.setdefault((record.origin, record.source), []).append((record, mark))
    return Screen("unverified.html", groups=groups, following=following)


# -- conversations ---------------------------------------------------------------------------------------


@VIEWS.add("GET", "/conversations", "read")
def show_conversations(call: Call[ViewQuery]) -> Screen:
    """Show the conversations, the latest active first."""
    query = CursorQuery(scope=call.query.scope, cursor=call.query.cursor, limit=_MOST_SESSIONS)
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
    shown = _describe_prompt(pack, candidates, message)
    return Screen("why.html", **shown, session=session, position=None, earlier=None)


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


# -- forgetting ------------------------------------------------------------------------------------------

_NOTHING: dict[str, Any] = {"going": [], "left": [], "counts": {}, "notes": [], "digest": ""}
_SELECTABLE = ("record", "turn", "paragraph")
"""Subjects that are erased by their ids; the others go with the text."""


class ForgetQuery(Plain):
    """Query of a preview: what is to be forgotten, in one of these ways."""

    what: str = ""
    ids: Texts = ()
    session: str = ""
    scope: str = ""


@VIEWS.add("GET", "/forget", "forget", is_whole=True)
def show_forget(call: Call[Plain]) -> Screen:
    """Show the form that asks what to forget."""
    return Screen("forget.html", subjects=call.server.overview(call.view).subjects)


@VIEWS.add("GET", "/forget/preview", "forget", is_whole=True)
def preview_forgetting(call: Call[ForgetQuery]) -> Screen:
    """Show everything that would be erased; nothing is erased yet."""
    query = call.query
    order = {"match": query.what.strip(), "session": query.session, "scope": query.scope}
    return _draw_preview(call, _build_order({**order, "ids": list(query.ids)}))


@VIEWS.add("POST", "/forget/preview", "forget", is_whole=True)
def update_preview(call: Call[Plain], fields: Fields) -> Screen:
    """Show what would be erased of the items that are still checked."""
    return _draw_preview(call, _read_order(fields), chosen=fields.list("ids"))


@VIEWS.add("POST", "/forget", "forget", is_whole=True)
def forget(call: Call[Plain], fields: Fields) -> Screen:
    """Erase what the preview showed, once its number was typed."""
    order, chosen = _read_order(fields), fields.list("ids")
    effective = _narrow(order, _find(call, order), set(chosen))
    report = _find(call, effective)
    if report["digest"] != fields.get("digest"):
        alert = "The selection differs from what was counted. Look at the new count, then type it."
        return _draw_preview(call, order, chosen=chosen, alert=alert)
    if fields.get("count").strip() != str(len(report["going"])):
        alert = f"The number does not fit. Type {len(report['going'])} to erase these items."
        return _draw_preview(call, order, chosen=chosen, alert=alert)
    done = perform(call, administration.forget, **effective, digest=report["digest"])
    return Screen("forgotten.html", report=done)


@VIEWS.add("POST", "/forget/drop", "forget", is_whole=True)
def drop_request(call: Call[Plain], fields: Fields) -> Redirect:
    """Drop a request to forget that was made in a conversation; nothing is erased."""
    perform(call, administration.drop_forget_request, path=fields.get("id"))
    return Redirect("/forget", done=0)


def _build_order(given: dict[str, Any]) -> dict[str, Any]:
    """Return the body of the operation; what is to be forgotten is named in one way."""
    named = {name: value for name, value in given.items() if value}
    if len(named) != 1:
        raise Problem(422, "Nothing was named. Go back and say what to forget.")
    return {**named, "turns": True}


def _read_order(fields: Fields) -> dict[str, Any]:
    order: dict[str, Any] = {name: fields.get(name).strip() for name in ("match", "session", "scope")}
    return _build_order({**order, "ids": fields.list("asked")})


def _find(call: Call, order: dict[str, Any]) -> dict[str, Any]:
    """Return what the operation would erase; nothing if nothing has the text."""
    with suppress(NotFound):
        report: dict[str, Any] = perform(call, administration.preview_erasure, **order)
        return report
    return dict(_NOTHING)


def _narrow(order: dict[str, Any], report: dict[str, Any], chosen: set[str]) -> dict[str, Any]:
    """Return the order for the items that are checked; the whole one if nothing that it finds was cleared."""
    found = {each["id"] for each in report["going"] if each["subject"] in _SELECTABLE}
    if found == chosen or not found:
        return order
    if not chosen:
        raise Problem(422, "Nothing is selected. Go back and check what should be erased.")
    return {"ids": sorted(chosen), "turns": True}


def _find_sure(call: Call, order: dict[str, Any], report: dict[str, Any]) -> set[str]:
    """Return the ids of the items that have the text as words of their own, not as a part of longer words."""
    ids = {each["id"] for each in report["going"] if each["subject"] in _SELECTABLE}
    what = order.get("match", "")
    if not (what[:1].isalpha() and what[:1].lower() != what[:1].upper()):
        return ids  # a number, or a script without spaces between words
    pattern = re.compile(rf"(?<!\w){re.escape(what)}(?!\w)", re.IGNORECASE)
    reader = call.memory.scoped(EVERY_SCOPE)
    values = {name: reader.get(name) or reader.get_turn(name) or reader.get_paragraph(name) for name in ids}
    return {name for name, value in values.items() if value is not None and pattern.search(value.content)}


def _draw_preview(
    call: Call, order: dict[str, Any], *, chosen: list[str] | None = None, alert: str = ""
) -> Screen:
    """Return the preview of an order, with what is surely meant checked, or with the chosen items."""
    report = _find(call, order)
    checked = _find_sure(call, order, report) if chosen is None else set(chosen)
    is_open = bool(checked) or all(each["subject"] not in _SELECTABLE for each in report["going"])
    counted = _find(call, _narrow(order, report, checked)) if is_open and report["going"] else _NOTHING
    going = {(each["subject"], each["id"]) for each in counted["going"]}
    items = [*report["going"], *report["left"]]
    left = [each for each in items if (each["subject"], each["id"]) not in going]
    what = order.get("match") or order.get("session") or order.get("scope") or ""
    shown: dict[str, Any] = {"what": what, "order": order, "counted": counted, "left": left, "alert": alert}
    selectable = checked | {each["id"] for each in left if each["subject"] in _SELECTABLE}
    return Screen("forget-preview.html", status=409 if alert else 200, **shown, selectable=selectable)
