"""Tools over records and earlier turns, in the words of RockBot, golemcore and agentkit.

`save_memory` and the other tools of RockBot, golemcore's one tool `memory(operation, …)`, agentkit's `remember` and
`recall`, and `search_conversation_history`. A model archives and never erases, whatever the name of its tool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from reverie.context import render
from reverie.domain import provenance
from reverie.domain.conversation import ROLES, Wish
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.record import FIL, HOME_LAYERS, UNTRUSTED, Layer, Record
from reverie.domain.secrets.redactor import describe_redaction
from reverie.domain.text import escaping
from reverie.domain.text.json_values import to_json_object
from reverie.domain.text.timestamps import format_time, parse_time
from reverie.llm.protocol import ToolSpec
from reverie.repositories.records import NewRecord, SaveResult
from reverie.repositories.wishes import WishResult
from reverie.search.hits import Hit, Source
from reverie.stores.writer import retry_conflicts
from reverie.tools import rendering
from reverie.tools.toolset import Tool, ToolResult, Toolset
from reverie.tools.trust_guard import MemoryLike

_HITS = 10
_OWN_TURNS = 20


def build_long_term_tools(memory: MemoryLike, *, now: Callable[[], datetime], source: str) -> Toolset:
    """Return the tools over records.

    Args:
        source: Source of the records that are saved.
    """

    def save(given: Mapping[str, Any]) -> ToolResult:
        return _build_saved_result(
            memory.save(**given, source=source, origin="agent", draft=True), given["content"]
        )

    def search(given: Mapping[str, Any]) -> ToolResult:
        return format_hits_result(_search(memory, given, source), now())

    def read(given: Mapping[str, Any]) -> ToolResult:
        record = get_live_record(memory, given, archived=True)
        where = f" ({record.category})" if record.category else ""
        lines = [
            f"[{record.id}]{where}, {record.kind}, {', '.join(rendering.describe_record(record, now()))}:"
        ]
        if record.archived:
            reason = render.render_label(record.archive_reason) or "no reason given"
            lines[0] = f"{lines[0][:-1]}, archived ({reason}):"
        parts = [part for name in record.parts if (part := memory.get(name)) is not None]
        under = ["It sums up:", *(render.render_record(part) for part in parts)] if parts else []
        text, more = rendering.cut_part(record.content, given.get("part"), how="Call get_memory with part {}")
        return ToolResult(
            "\n".join([*lines, escaping.fence(text), *filter(None, [more]), *under]),
            {"record": rendering.build_record_data(record), "text": text},
            trusted=record.origin not in UNTRUSTED,
        )

    def request_forget(given: Mapping[str, Any]) -> ToolResult:
        request = memory.forget_requests.propose(given["subject"])
        result = WishResult(wish=Wish("forget", given["subject"]), request=request)
        return ToolResult(result.describe(), {"request": None if request is None else request.to_dict()})

    def categories(given: Mapping[str, Any]) -> ToolResult:
        found = sorted(memory.categories().items())
        data = {"categories": [{"category": name or None, "count": count} for name, count in found]}
        if not found:
            return ToolResult("There are no memories yet.", data)
        return ToolResult("\n".join(f"- {name or '(no category)'}: {count}" for name, count in found), data)

    return Toolset(
        [
            Tool(spec=_SAVE_MEMORY, run=save),
            Tool(spec=_SEARCH_MEMORY, run=search, reads_only=True, idempotent=True),
            Tool(spec=_GET_MEMORY, run=read, reads_only=True, idempotent=True),
            Tool(spec=_DELETE_MEMORY, run=partial(delete_record, memory), destructive=True, idempotent=True),
            Tool(spec=_REQUEST_FORGET, run=request_forget),
            Tool(spec=_LIST_CATEGORIES, run=categories, reads_only=True, idempotent=True),
        ]
    )


def _search(memory: MemoryLike, given: Mapping[str, Any], source: str) -> list[Hit]:
    """Return the hits of a search, without turns of the conversation that the model has before it."""
    limit = given.get("limit", _HITS)
    sources: tuple[Source, ...] = ("records", "turns") if given.get("query") else ("records",)
    hits = memory.search(sources=sources, **{**given, "limit": limit + _OWN_TURNS})
    return [hit for hit in hits if hit.turn is None or source != f"session:{hit.turn.session}"[:200]][:limit]


def _build_saved_result(saved: SaveResult, content: str) -> ToolResult:
    """Return the result of a save of a content."""
    redacted = describe_redaction(content, saved.record.content)
    secret = f" {redacted} Only its owner can save it with the secret." if redacted else ""
    where = f" in {saved.record.category}" if saved.record.category else ""
    text = f"Known already: {saved.record.id}{where}, seen {saved.record.seen_count} times.{secret}"
    if saved.outcome == "created":
        kind = "" if saved.kind == "fact" else f" Kind: {saved.kind}."
        until = f" It matters until {saved.until:%Y-%m-%d}." if saved.until else ""
        permission = " Ask before acting on it." if saved.permission else ""
        text = f"Saved as {saved.record.id}{where}.{kind}{until}{permission}{secret}"
    return ToolResult(text, build_saved_data(saved))


def build_saved_data(saved: SaveResult) -> Mapping[str, Any]:
    """Return the data about a saved record."""
    return {
        "id": saved.record.id,
        "outcome": saved.outcome,
        **to_json_object(saved, "kind", "about", "until", "permission", "reason"),
        "record": rendering.build_record_data(saved.record),
    }


def format_hits_result(
    hits: Sequence[Hit],
    now: datetime,
    *,
    noun: Sequence[str] = ("memory", "memories"),
    nothing: str = ". Try other words, or list_memory_categories to see what there is.",
) -> ToolResult:
    """Return the result of a search.

    Args:
        noun: What a hit is called, and what several are.
        nothing: What follows "Found nothing".
    """
    data = {"hits": [rendering.build_hit_data(hit, now) for hit in hits]}
    if not hits:
        return ToolResult(f"Found nothing{nothing}", data)
    found = rendering.format_count(len(hits), *noun)
    return ToolResult(
        "\n".join([f"Found {found}:", *(rendering.render_hit(hit, now) for hit in hits)]),
        data,
        trusted=all(hit.is_trusted for hit in hits),
    )


def get_live_record(memory: MemoryLike, given: Mapping[str, Any], *, archived: bool = False) -> Record:
    """Return the record that the argument `id` names. Raise `NotFound` where there is none."""
    wanted = given["id"].strip().strip("[]")
    record = memory.get(wanted)
    if record is None or (record.archived and not archived):
        raise NotFound(f"there is no memory {render.render_label(wanted)}; search_memory finds the right id")
    return record


def delete_record(memory: MemoryLike, given: Mapping[str, Any]) -> ToolResult:
    """Archive a record because a model says so, unless its owner pinned it."""
    record = get_live_record(memory, given)
    if record.pinned:
        return ToolResult(
            f"Nothing was done: {record.id} is pinned, so that it is kept. Its owner has to unpin it first.",
            failed=True,
        )
    archived = memory.archive(record.id, reason=given.get("reason") or "")
    return ToolResult(
        f'Archived {archived.id}: "{escaping.escape_line(archived.content)}". It can be restored.',
        {"id": archived.id, "archived": rendering.build_record_data(archived)},
        trusted=archived.origin not in UNTRUSTED,
    )


_ID = rendering.build_text_schema("The id in square brackets that a search shows.", longest=200)

_SAVE_MEMORY = rendering.build_spec(
    "save_memory",
    "Remember something for the long term: a fact, preference, decision or lesson, in one "
    "sentence that can be understood by itself. Saying it again does no harm.",
    ["content"],
    content=rendering.build_text_schema(
        "What to remember, in words that make sense without this conversation."
    ),
    category=rendering.CATEGORY,
    tags=rendering.TAGS,
)
_SEARCH_MEMORY = rendering.build_spec(
    "search_memory",
    "Search long-term memory and past conversations. Without a query it lists the memories that changed last.",
    query={**rendering.QUERY, "description": "What to look for, in a few words or as a question."},
    category=rendering.IN_CATEGORY,
    tags=rendering.WITH_TAGS,
    limit=rendering.build_limit_schema(_HITS),
)
_GET_MEMORY = rendering.build_spec(
    "get_memory",
    "Read one memory in full by the id that search_memory shows, when what it shows was cut.",
    ["id"],
    id=_ID,
    part=rendering.PART,
)
_DELETE_MEMORY = rendering.build_spec(
    "delete_memory",
    "Archive a memory by the id that search_memory shows: searches no longer find it. "
    "It can be restored; nothing is erased.",
    ["id"],
    id=_ID,
)
_REQUEST_FORGET = rendering.build_spec(
    "request_forget",
    "Use it when the user asks to forget what they said about something. It proposes to erase that permanently; "
    "nothing is erased before a person confirms it.",
    ["subject"],
    subject={**rendering.QUERY, "minLength": 1, "description": "What to forget, in the user's words."},
)
_LIST_CATEGORIES = rendering.build_spec(
    "list_memory_categories", "List the categories of long-term memory with how many memories each has."
)


_TAKES: Mapping[str, tuple[str, ...]] = {
    "add": ("content", "category", "kind", "layer", "tags", "confidence", "importance"),
    "search": ("query", "category", "kind", "layer", "tags", "limit"),
    "update": ("id", "content", "category", "kind", "layer", "tags", "confidence", "importance"),
    "promote": ("id", "layer"),
    "forget": ("id", "reason"),
}


def build_memory_tool(memory: MemoryLike, *, now: Callable[[], datetime], source: str) -> Toolset:
    """Return the tool `memory`.

    Args:
        source: Source of the records that are added.
    """
    operations: Mapping[str, Callable[[Mapping[str, Any]], ToolResult]] = {
        "add": lambda given: _build_saved_result(
            memory.save(**given, source=source, origin="agent"), given["content"]
        ),
        "search": lambda given: format_hits_result(
            _search(memory, given, source),
            now(),
            nothing=". Try other words, or fewer restrictions.",
        ),
        "update": lambda given: _update(memory, given, now()),
        "promote": lambda given: _promote(memory, given, now()),
        "forget": lambda given: delete_record(memory, given),
    }

    def run(given: Mapping[str, Any]) -> ToolResult:
        passed = dict(given)
        operation = passed.pop("operation")
        takes = _TAKES[operation]
        if unused := [name for name in passed if name not in takes]:
            raise InvalidInput(f"{operation} takes no {', '.join(unused)}; it takes {', '.join(takes)}")
        needed = {"add": "content", "search": None}.get(operation, "id")
        if needed is not None and needed not in passed:
            raise InvalidInput(f"{operation} needs {needed}")
        result = operations[operation](passed)
        return replace(result, data=_build_result_data(operation, result.data))

    return Toolset([Tool(spec=_MEMORY, run=run, destructive=True)])


def _update(memory: MemoryLike, given: Mapping[str, Any], now: datetime) -> ToolResult:
    changes = {name: value for name, value in given.items() if name != "id"}
    if not changes:
        raise InvalidInput(f"update needs something to change: {', '.join(_TAKES['update'][1:])}")
    before, after = update_record(memory, given, lambda _: changes)
    message = describe_change("Updated", before, after, now)
    return ToolResult(
        message, {"record": rendering.build_record_data(after)}, trusted=after.origin not in UNTRUSTED
    )


def _promote(memory: MemoryLike, given: Mapping[str, Any], now: datetime) -> ToolResult:
    record = get_live_record(memory, given)
    if record.origin in UNTRUSTED:
        raise InvalidInput(
            f"{record.id} is what {record.origin} said and nobody confirmed, so it stays as it is; "
            "if its owner confirms it, add it in your own words"
        )
    home = HOME_LAYERS[record.kind]
    layer: Layer = given.get("layer") or (home if home != "episodic" else "semantic")
    if layer == "episodic":
        raise InvalidInput("promote moves a memory to semantic or procedural; leave layer out or pass one")
    if record.layer == layer:
        return ToolResult(f"{record.id} is {layer} already.", {"record": rendering.build_record_data(record)})
    if record.layer != "episodic":
        raise InvalidInput(f"{record.id} is {record.layer} already; update changes its layer")
    _, after = update_record(memory, given, lambda _: {"layer": layer})
    message = f"Promoted {after.id} from episodic to {layer}:\n{rendering.render_record(after, now)}"
    return ToolResult(message, {"record": rendering.build_record_data(after)})


def update_record(
    memory: MemoryLike, given: Mapping[str, Any], change: Callable[[Record], Mapping[str, Any]]
) -> tuple[Record, Record]:
    """Change a record by a model's word, and return it before and after.

    New text has the lower trust of the record and the agent. Where somebody else changes
    the record meanwhile, the change is made again from its newest form.

    Args:
        given: The arguments of the tool, with the `id`.
        change: Returns the new values for a record; it raises `InvalidInput` where the change no longer fits.
    """

    def attempt(_: int) -> tuple[Record, Record]:
        record = get_live_record(memory, given)
        changes = dict(change(record))
        if changes.get("content") not in (None, record.content):
            if record.keep_secret:
                raise InvalidInput(
                    f"{record.id} contains a secret that its owner keeps, so only its owner can reword it"
                )
            changes["origin"] = provenance.least_trusted(record.origin, "agent")
        return record, memory.update(record.id, expected=record, **changes)

    return retry_conflicts(attempt, read_state=lambda: get_live_record(memory, given))


def describe_change(verb: str, before: Record, after: Record, now: datetime) -> str:
    """Return a sentence on a change of a record, or that nothing was changed."""
    done = f"{verb} {after.id}:" if after != before else f"Nothing changed: {after.id} says so already."
    return f"{done}\n{rendering.render_record(after, now)}"


def _build_result_data(operation: str, data: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if data is None:
        return None
    return {
        "operation": operation,
        "record": data.get("record") or data.get("archived"),
        "hits": data.get("hits"),
    }


_MEMORY = rendering.build_spec(
    "memory",
    "Work with long-term memory. add: content (category, kind, layer, tags, confidence, "
    "importance). search: query and filters. update: id and what changes. promote: id of something that "
    "happened (episodic) and should be kept as knowledge (semantic, procedural). forget: id; archives it, "
    "so that searches no longer find it. Nothing is erased.",
    ["operation"],
    operation=rendering.build_enum_schema(list(_TAKES), "What to do."),
    content=rendering.build_text_schema("What to remember (add), or what it should say (update)."),
    query={**rendering.QUERY, "description": "What to look for; without it, what changed last (search)."},
    id=rendering.build_text_schema(
        "Which memory (update, promote, forget): the id that a search shows.", longest=200
    ),
    category=rendering.CATEGORY,
    kind=rendering.KIND,
    layer=rendering.LAYER,
    tags=rendering.TAGS,
    confidence={**rendering.SCORE, "description": "How sure it is; 0.8 if left out."},
    importance={**rendering.SCORE, "description": "How much it matters; 0.5 if left out."},
    limit=rendering.build_limit_schema(_HITS),
    reason=rendering.build_text_schema("Why it is archived (forget).", longest=500),
)


_MAX_OBSERVATIONS = 50
_LISTS = ("findings", "insights", "lessons")


def build_observation_tools(memory: MemoryLike, *, now: Callable[[], datetime], source: str) -> Toolset:
    """Return the tools `remember` and `recall`.

    Args:
        source: Source of the records that are saved.
    """

    def remember(given: Mapping[str, Any]) -> ToolResult:
        notes = [
            NewRecord(content=each, kind=kind, source=source, origin="agent")
            for name, kind in zip(_LISTS, FIL, strict=True)
            for each in given.get(name, ())
        ]
        if not notes:
            raise InvalidInput("there is nothing to remember; pass findings, insights or lessons, as lists")
        saved = memory.save_many(notes)
        lines = [f"- [{each.record.id}] ({each.record.kind}): {each.outcome}" for each in saved]
        number = rendering.format_count(len(saved), "observation")
        return ToolResult(
            "\n".join([f"Remembered {number}:", *lines]),
            {"saved": [build_saved_data(each) for each in saved]},
        )

    def recall(given: Mapping[str, Any]) -> ToolResult:
        hits = memory.search(given["query"], limit=given.get("limit", _HITS), kind=FIL)
        return format_hits_result(hits, now(), noun=["observation"], nothing=". Try other words.")

    return Toolset(
        [
            Tool(spec=_REMEMBER, run=remember),
            Tool(spec=_RECALL, run=recall, reads_only=True, idempotent=True),
        ]
    )


def _build_list_schema(description: str) -> rendering.Schema:
    return {
        "type": "array",
        "items": rendering.build_text_schema("One sentence that can be understood by itself."),
        "maxItems": _MAX_OBSERVATIONS,
        "description": description,
    }


_REMEMBER = rendering.build_spec(
    "remember",
    "Remember what was learned in a step, for later ones.",
    findings=_build_list_schema('Facts discovered, such as "API rate limit is 100/min".'),
    insights=_build_list_schema('Conclusions, such as "REST suits this better than GraphQL".'),
    lessons=_build_list_schema('Guidance for the future, such as "Avoid library X: it has no types".'),
)
_RECALL = rendering.build_spec(
    "recall",
    "Find findings, insights and lessons from earlier steps about a question, best first.",
    ["query"],
    query={**rendering.QUERY, "minLength": 1, "description": "What to look for."},
    limit=rendering.build_limit_schema(_HITS),
)


_THIS = "this"
_LONGEST_TURN = 2_000


def build_conversation_tools(
    memory: MemoryLike, *, now: Callable[[], datetime], session: str | None = None
) -> Toolset:
    """Return the tool `search_conversation_history`.

    Args:
        session: Id of the conversation that `this` means; None for none.
    """

    def search(given: Mapping[str, Any]) -> ToolResult:
        wanted = {"limit": _HITS, **given}
        for argument, name in (("since", "created_after"), ("until", "created_before")):
            if argument in wanted:
                wanted[name] = parse_time(wanted.pop(argument), name=argument)
        if session is not None and wanted.get("session") == _THIS:
            wanted["session"] = session
        only_turns = "session" in wanted or "role" in wanted
        hits = memory.search(sources="turns" if only_turns else ("turns", "pages"), **wanted)
        nothing = " that was said about it. Try other words, or mode literal."
        return format_hits_result(hits, now(), noun=["place"], nothing=nothing)

    which = "in this conversation, by its id, or `this` for the one you are in."
    spec = _build_history_spec(f"Only {which if session is not None else 'in the conversation of this id.'}")
    return Toolset([Tool(spec=spec, run=search, reads_only=True, idempotent=True)])


def build_session_tools(
    memory: MemoryLike, *, now: Callable[[], datetime], session: str | None = None
) -> Toolset:
    """Return the tools `list_conversations` and `read_conversation`.

    Args:
        session: Id of the conversation that `this` means; None for none.
    """

    def list_all(given: Mapping[str, Any]) -> ToolResult:
        overviews = memory.sessions(limit=given.get("limit", _HITS))
        lines = [
            f"- {each.state.id} ({each.turns} turns, last {format_time(each.last_at)})" for each in overviews
        ]
        return ToolResult(escaping.escape_output("\n".join(lines) or "There is no conversation yet."))

    def read(given: Mapping[str, Any]) -> ToolResult:
        name = session if session is not None and given["session"] == _THIS else given["session"]
        turns = memory.turns(name, start=-given.get("limit", _HITS))
        lines = [
            f"- {format_time(turn.at)} {turn.speaker or turn.role}: {turn.content[:_LONGEST_TURN]}"
            f"{f' ({escaping.NOT_CONFIRMED})' if turn.origin in UNTRUSTED else ''}"
            for turn in turns
        ]
        nothing = f"There is no conversation {name!r}. List them with list_conversations."
        trusted = all(turn.origin not in UNTRUSTED for turn in turns)
        return ToolResult(escaping.escape_output("\n".join(lines) or nothing), trusted=trusted)

    id_schema = rendering.build_text_schema("The id of the conversation, or `this`.", longest=200)
    listing = rendering.build_spec(
        "list_conversations",
        "List the conversations, the latest first.",
        limit=rendering.build_limit_schema(_HITS),
    )
    reading = rendering.build_spec(
        "read_conversation", "Read the last turns of a conversation.", ["session"],
        session=id_schema, limit=rendering.build_limit_schema(_HITS),
    )  # fmt: skip
    return Toolset([
        Tool(spec=listing, run=list_all, reads_only=True, idempotent=True),
        Tool(spec=reading, run=read, reads_only=True, idempotent=True),
    ])  # fmt: skip


def _build_history_spec(session: str) -> ToolSpec:
    return rendering.build_spec(
        "search_conversation_history",
        "Search what was said in past conversations, also long before what you see, and the "
        "summaries in HISTORY.md. Each place has its date and who said it.",
        ["query"],
        query={**rendering.QUERY, "minLength": 1, "description": "What to look for."},
        session=rendering.build_text_schema(session, longest=200),
        role=rendering.build_enum_schema(list(ROLES), "Only what this side said."),
        since=rendering.build_text_schema(
            "Only from this day or time on: 2025-01-31, 2025-01-31T10:30Z.", longest=40
        ),
        until=rendering.build_text_schema("Only before this day or time.", longest=40),
        mode=rendering.build_enum_schema(
            ["words", "literal"],  # a pattern of a model's could run for hours, and nothing stops it
            "words ranks by them; literal finds the text as it stands.",
        ),
        limit=rendering.build_limit_schema(_HITS),
    )
