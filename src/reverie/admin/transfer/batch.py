"""Items of an import, and the transactions that store them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args

from reverie.consolidation.rule_learning import build_cursor_name
from reverie.context.window import build_history_cursor, build_remembered_cursor, build_shown_cursor
from reverie.domain.change import Change, Value, get_subject
from reverie.domain.conversation import FORGOTTEN, Role, SessionState, Turn
from reverie.domain.page import LONGEST_PAGE, Page, Paragraph
from reverie.domain.record import STANDING, UNTRUSTED, Origin, Record
from reverie.domain.text.json_values import JsonObject
from reverie.repositories.turns import build_note_rewrites
from reverie.stores.protocol import Store, get_reader, iter_rows
from reverie.stores.tombstones import drop_forgotten, is_forgotten

Form = Literal[
    "jsonl", "mcp", "golemcore", "rockbot", "notes", "document", "chatgpt", "claude", "messages",
    "claude-code", "codex", "gemini", "mem0", "hindsight", "langgraph", "letta", "zep", "claude-mem", "agentkit",
]  # fmt: skip
FORMS: tuple[Form, ...] = get_args(Form)
"""Formats that can be imported; the first one is Reverie's own export."""

Reason = Literal["known", "repeated", "forgotten", "differs", "empty", "broken", "unsupported", "too large"]
"""Reasons to leave something out: it is here already; it is twice in the source; it was erased; another
version of it is here and stays; it is empty; it cannot be read; its sort is not imported; it exceeds a limit.
"""

What = Literal["record", "turn", "session", "page", "paragraph", "attachment", "line", "file"]

SOURCE_ID = "source_id"
"""Metadata key of the id that another program gave."""

UPDATED_AT = "source_updated_at"
"""Metadata key of the time when another program last changed a conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped(JsonObject):
    """Something left out of an import or export.

    Attributes:
        what: The sort of thing; `line` or `file` if unknown.
        place: Its place, such as `memory.jsonl, line 12`; never its content.
        why: Why it was left out; a `Reason`.
        detail: What was wrong, or the thing here that it equals; may be empty.
        count: How many such things at that place.
    """

    what: What
    place: str
    why: Reason
    detail: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundValue:
    """A record, a page, or a paragraph of a log.

    Attributes:
        place: Its place in the source.
        value: The record, page or paragraph.
        form: The source format; empty if its id is Reverie's own.
    """

    place: str
    value: Record | Page | Paragraph
    form: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTurns:
    """Turns of one session that follow one another.

    Attributes:
        place: Their place in the source.
        state: The session, as it shall be if it is not there.
        turns: The turns; none for a session without any.
        form: The source format; empty if their ids are Reverie's own.
        has_path: Whether turns of another branch are taken back, because the source gives each of its messages an id.
        is_whole: Whether they are all turns of the conversation.
    """

    place: str
    state: SessionState
    turns: tuple[Turn, ...]
    form: str = ""
    has_path: bool = False
    is_whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision(JsonObject):
    """Changes of a stored conversation by a later export of it.

    Attributes:
        session: The id of the session.
        place: Its place in the source.
        withdrawn: Number of turns of an abandoned branch that were taken back.
        updated: Number of turns that got a later text.
        added: Number of new turns.
        metadata: Names of the session's metadata with a new value, such as `title`.
    """

    session: str
    place: str
    withdrawn: int
    updated: int
    added: int
    metadata: tuple[str, ...]


Item = FoundValue | FoundTurns | Skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTerms:
    """Terms of one import.

    Attributes:
        scope: Scope of what is imported; None keeps that of own exports, and is the empty scope for others.
        origin: Origin of records; None keeps that of own exports, and is `import` for others.
        now: The moment used where a source gives no time.
    """

    now: datetime
    scope: str | None = None
    origin: Origin | None = None

    @property
    def foreign_scope(self) -> str:
        """Scope of things of another program."""
        return self.scope or ""

    @property
    def foreign_origin(self) -> Origin:
        """Origin of records of another program."""
        return self.origin or "import"

    @property
    def trusted(self) -> bool:
        """Whether prompts may include what another program wrote unasked."""
        return self.foreign_origin not in UNTRUSTED

    def get_turn_origin(self, role: Role) -> Origin | None:
        """Return the origin to mark a turn of another program with; None if its role says it.

        The words of a user are the owner's only if the import says so.
        """
        if role == "user":
            return None if self.origin == "owner" else self.foreign_origin if not self.trusted else "import"
        return None if self.trusted else self.foreign_origin

    def apply(self, value: Value) -> Value:
        """Return a thing of an own export under these terms."""
        if isinstance(value, Page | Paragraph):
            return value
        if isinstance(value, Record):
            value = replace(value, origin=self.origin or value.origin)
        return value if self.scope is None else replace(value, scope=self.scope)


def build_stable_id(*parts: str) -> str:
    """Return an id derived from texts (12 hexadecimal characters of SHA-256).

    >>> build_stable_id("mcp", "", "Ada", "likes trains")
    '0fa60fffbd6b'
    """
    return hash_texts(*parts)[:12]


def hash_texts(*parts: str) -> str:
    """Return 24 hexadecimal characters of the SHA-256 of texts, joined by a separator no text may hold."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def add_source_id(metadata: Mapping[str, str], source_id: str) -> MappingProxyType[str, str]:
    """Return metadata with the id that another program gave."""
    return MappingProxyType({**metadata, SOURCE_ID: source_id})


# -- batch ----------------------------------------------------------------------------------------


Met = dict[tuple[str, ...], Any]
"""Things that are not stored yet: those of a batch, or of a whole dry run.

Each is named by a word and a name: `record`, `turn` and `paragraph` with an id: met. `said` with a scope and a
fingerprint: the id of a live record. `log` with a page: its texts. `session` and `thread` with a session: its state,
and its turns, if the source has a path; `page` with a name: the page.
"""

_T = TypeVar("_T", Record, Paragraph)


class ImportBatch:
    """One batch of an import: its changes and what it leaves out.

    Attributes:
        taken: Number of stored things of each sort.
        skipped: What it leaves out.
        revised: Stored conversations that it changes.
        cursors: Cursors to set.
        started: Positions of the first new turns of sessions.
    """

    def __init__(self, store: Store, met: Met, *, now: datetime) -> None:
        """Begin a batch.

        Args:
            met: What earlier batches met and did not store.
        """
        self._met = met
        self.taken = Counter[str]()
        self.skipped: list[Skipped] = []
        self.revised: list[Revision] = []
        self.cursors: dict[str, str | None] = {}
        self.started: dict[str, int] = {}
        self._store = store
        self._now = now
        self._edits: list[Change] = []
        self._pages: dict[str, Change] = {}
        self._following: dict[str, int] = {}
        self._last: dict[str, float] = {}

    def edits(self) -> list[Change]:
        """Return the changes to commit."""
        return [*self._edits, *self._pages.values()]

    def add(self, item: Item) -> None:
        """Decide about one item."""
        match item:
            case FoundTurns():
                self._add_turns(item)
            case Skipped():
                self.skipped.append(item)
            case FoundValue(value=Record() as record):
                self._add_record(record, item)
            case FoundValue(value=Page() as page):
                self._add_page(page, item.place)
            case FoundValue(value=Paragraph() as paragraph):
                self._add_paragraph(paragraph, item)

    # -- records ---------------------------------------------------------------------------------------

    def _add_record(self, record: Record, item: FoundValue) -> None:
        stored = self._find_stored(record)
        if stored is not None or self._is_met(record):
            same = stored is None or (stored.kind, stored.content) == (record.kind, record.content)
            self._skip("record", item.place, "known" if same else "differs", f"record {record.id!r}")
        elif twin := self._find_twin(record):
            self._skip("record", item.place, "known", f"record {twin!r} says the same")
        elif self._is_forgotten(record):
            self._skip("record", item.place, "forgotten")
        else:
            self._take(record)
            is_trusted = not record.archived and record.origin not in UNTRUSTED
            self.taken["trusted"] += is_trusted
            self.taken["rule"] += is_trusted and record.kind in STANDING
            if not record.archived:
                self._met["said", record.scope, record.fingerprint] = record.id

    def _find_twin(self, record: Record) -> str | None:
        """Return the id of a live record with the same content, here or earlier in the source."""
        if record.archived:
            return None
        if earlier := self._met.get(("said", record.scope, record.fingerprint)):
            return str(earlier)
        twin = self._store.record_like(record.scope, record.fingerprint)
        return None if twin is None else twin.id

    # -- turns -----------------------------------------------------------------------------------------

    def _add_turns(self, item: FoundTurns) -> None:
        stored = self._met.get(("session", item.state.id)) or self._store.session(item.state.id)
        if stored is not None and stored.scope != item.state.scope:
            detail = f"session {stored.id!r} belongs to the scope {stored.scope!r}"
            self._skip("turn", item.place, "differs", detail, len(item.turns))
            return
        left_out = Counter[Reason]()
        if stored is None or not item.has_path:
            fresh = list(self._select_fresh_turns(item, left_out))
        else:
            fresh = self._revise(stored, item, left_out)
        for why, count in (+left_out).items():
            self._skip("turn", item.place, why, f"session {item.state.id!r}", count)
        if stored is None and (fresh or not item.turns):
            self._begin(item.state)
        elif stored is not None and not item.turns:
            self._skip("session", item.place, "known", f"session {stored.id!r}")
        following = self._get_next_position(item.state.id) if fresh else 0
        placed = [replace(turn, position=position) for position, turn in enumerate(fresh, start=following)]
        if placed:
            self.started.setdefault(item.state.id, placed[0].position)
        for turn in placed:
            self._take(turn)
            self._following[item.state.id] = turn.position + 1
        if item.has_path:
            name = ("thread", item.state.id)
            self._met[name] = (*self._met.get(name, ()), *placed)

    def _revise(self, state: SessionState, item: FoundTurns, left_out: Counter[Reason]) -> list[Turn]:
        """Bring a stored conversation to the path of a later export; return the turns to add.

        From the first that differs on, the stored turns are an abandoned branch, or have a later text. They go unless
        the conversation was continued here. An export that is older than the last one changes nothing.
        """
        thread = self._met.get(("thread", state.id)) or tuple(self._store.turns(session=state.id))
        found = self._select_path(item, thread, left_out)
        before, now = (each.metadata.get(UPDATED_AT, "") for each in (state, item.state))
        is_older = "" < now < before
        gone = [] if is_older else _find_abandoned_branch(item, thread, found, is_newer="" < before < now)
        if gone and gone != list(thread[gone[0].position :]):
            left_out["differs"] += len(gone)
            gone = []
        kept = thread[: len(thread) - len(gone)]
        known = {turn.id for turn in kept}
        fresh = [turn for turn in found if turn.id not in known]
        left_out["known"] += len(found) - len(fresh)
        if is_older:
            left_out["differs"] += len(fresh)
            return []
        after = replace(state, metadata=MappingProxyType({**state.metadata, **item.state.metadata}))
        if gone and gone[0].position < state.window_start:
            after = replace(after, window_start=0, summary="")
        self._put_revision(state, after, gone, fresh)
        self._met["session", state.id], self._met["thread", state.id] = after, kept
        self._following[state.id] = len(kept)
        old, new = ({turn.id for turn in turns} for turns in (gone, fresh))
        renamed = {name for name, text in after.metadata.items() if text != state.metadata.get(name)}
        if gone or renamed - {UPDATED_AT}:
            self.revised.append(
                Revision(
                    session=state.id,
                    place=item.place,
                    withdrawn=len(old - new),
                    updated=len(old & new),
                    added=len(new - old),
                    metadata=tuple(sorted(renamed - {UPDATED_AT})),
                )
            )
        return fresh

    def _put_revision(
        self, before: SessionState, after: SessionState, gone: Sequence[Turn], fresh: Sequence[Turn]
    ) -> None:
        """Change a stored conversation, the notes about its turns, and the cursors that count them."""
        texts = {turn.id: turn for turn in fresh}
        stored = {turn.id: texts.get(turn.id) for turn in self._store.turns([turn.id for turn in gone])}
        self._edits += [
            *([Change(before=before, after=after)] if after != before else ()),
            *(Change(before=turn, after=None) for turn in reversed(gone)),
            *(build_note_rewrites(self._store, before.id, stored) if stored else []),
        ]
        if gone:
            builders = (build_shown_cursor, build_cursor_name, build_remembered_cursor, build_history_cursor)
            self.cursors |= {build(before.id): None for build in builders}

    def _select_path(self, item: FoundTurns, thread: Sequence[Turn], left_out: Counter[Reason]) -> list[Turn]:
        """Return the turns of an export without forgotten and repeated ones."""
        present = {turn.id for turn in thread}
        path: dict[str, Turn] = {}
        for turn in item.turns:
            if turn.id in path:
                left_out["known"] += 1
            elif turn.id not in present and self._is_forgotten(turn):
                left_out["forgotten"] += 1
            else:
                self._record_met(turn)
                path[turn.id] = turn
        return list(path.values())

    def _begin(self, state: SessionState) -> None:
        if self._is_forgotten(state):  # what stood in the window for turns that were forgotten
            state = replace(state, summary="")
        self._met["session", state.id] = state
        self._edits.append(Change(before=None, after=state))
        self.taken["session"] += 1

    def _select_fresh_turns(self, item: FoundTurns, left_out: Counter[Reason]) -> Iterator[Turn]:
        stored = {turn.id for turn in self._store.turns([turn.id for turn in item.turns])}
        live = self._count_live_turns(item) if item.form and not item.has_path else None
        for turn in item.turns:
            is_here = turn.id in stored or self._is_met(turn)
            if is_here or (live is not None and self._is_live(turn, live)):
                left_out["known"] += 1
            elif self._is_forgotten(turn):
                left_out["forgotten"] += 1
            else:
                self._record_met(turn)
                yield turn

    def _count_live_turns(self, item: FoundTurns) -> Counter[tuple[str, str]] | None:
        """Return how often a stored session has each text that was stored while it was said, such as by hooks.

        None if it has no such turns.
        """
        ends = [
            *self._store.turns(session=item.state.id, stop=1),
            *self._store.turns(session=item.state.id, start=-1),
        ]
        if all(SOURCE_ID in turn.metadata for turn in ends):
            return None
        turns = self._store.turns(session=item.state.id)
        return Counter((turn.role, turn.content.strip()) for turn in turns if SOURCE_ID not in turn.metadata)

    @staticmethod
    def _is_live(turn: Turn, live: Counter[tuple[str, str]]) -> bool:
        """Return whether a turn was stored while it was said, or is a tool's, of which hooks store failures only."""
        if turn.role == "tool" or not turn.content.strip():
            return True
        key = (turn.role, turn.content.strip())
        live[key] -= 1
        return live[key] >= 0

    def _get_next_position(self, session: str) -> int:
        if session not in self._following:
            last = self._store.turns(session=session, start=-1)
            self._following[session] = last[0].position + 1 if last else 0
        return self._following[session]

    # -- pages and logs --------------------------------------------------------------------------------

    def _add_page(self, found: Page, place: str) -> None:
        page = drop_forgotten(self._store, found)
        if lines := found.content.count("\n") - page.content.count("\n"):
            self._skip("page", place, "forgotten", "lines of it", lines)
        stored = self._met.get(("page", page.name)) or next(iter(self._store.pages([page.name])), None)
        if stored is not None and stored.content == page.content:
            self._skip("page", place, "known", f"page {page.name!r}")
            return
        after = page if stored is None else self._add_missing_lines(stored, page)
        if len(after.content) > LONGEST_PAGE:
            detail = f"page {page.name!r} would have over {LONGEST_PAGE:,} characters: shorten it first"
            self._skip("page", place, "too large", detail)
            return
        if after == stored:
            detail = f"page {page.name!r} has every line, or had it once"
            self._skip("page", place, "known", detail)
            return
        pending = self._pages.get(page.name)
        before = stored if pending is None else pending.before
        self._pages[page.name] = Change(before=before, after=after)
        self._met["page", page.name] = after
        self.taken["page"] += 1

    def _add_missing_lines(self, stored: Page, page: Page) -> Page:
        """Return the stored page with the lines that none of its versions has had."""
        rows = iter_rows(self._store, id=page.name)
        versions = [stored, *(value for row in rows for value in row.values if isinstance(value, Page))]
        had = {line.strip() for version in versions for line in version.content.split("\n")}
        missing = [line for line in page.content.rstrip("\n").split("\n") if line.strip() not in had]
        if not any(line.strip() for line in missing):
            return stored
        content = "\n\n".join(part for part in (stored.content.rstrip(), "\n".join(missing)) if part)
        return replace(stored, content=f"{content}\n", updated_at=self._now)

    def _add_paragraph(self, paragraph: Paragraph, item: FoundValue) -> None:
        texts = self._list_texts(paragraph.page) if item.form else set()
        if self._is_met(paragraph) or self._find_stored(paragraph) or paragraph.content in texts:
            self._skip("paragraph", item.place, "known", f"page {paragraph.page!r}")
        elif self._is_forgotten(paragraph):
            self._skip("paragraph", item.place, "forgotten")
        else:
            last = self._get_last_position(paragraph.page)
            if paragraph.position < last or (item.form and paragraph.position <= last):
                paragraph = replace(paragraph, position=last + 1)
            self._last[paragraph.page] = paragraph.position
            texts.add(paragraph.content)
            self._take(paragraph)

    def _list_texts(self, page: str) -> set[str]:
        """Return the texts of a log, by which one of another program is known: its ids are derived from texts."""
        if ("log", page) not in self._met:
            self._met["log", page] = {each.content for each in self._store.paragraphs(page=page)}
        texts: set[str] = self._met["log", page]
        return texts

    def _get_last_position(self, page: str) -> float:
        if page not in self._last:
            last = self._store.paragraphs(page=page, start=-1)
            self._last[page] = last[0].position if last else float("-inf")
        return self._last[page]

    # -- all of them -----------------------------------------------------------------------------------

    def _find_stored(self, value: _T) -> _T | None:
        """Return the stored thing with the same id."""
        return next(iter(get_reader(self._store, get_subject(value))([value.id])), None)

    def _is_met(self, value: Record | Turn | Paragraph) -> bool:
        return (get_subject(value), value.id) in self._met

    def _is_forgotten(self, value: Value) -> bool:
        return bool(is_forgotten(self._store, [value]))

    def _take(self, value: Record | Turn | Paragraph) -> None:
        self._record_met(value)
        self._edits.append(Change(before=None, after=value))
        self.taken[get_subject(value)] += 1

    def _record_met(self, value: Record | Turn | Paragraph) -> None:
        self._met[get_subject(value), value.id] = True

    def _skip(self, what: What, place: str, why: Reason, detail: str = "", count: int = 1) -> None:
        self.skipped.append(Skipped(what=what, place=place, why=why, detail=detail, count=count))


def _find_abandoned_branch(
    item: FoundTurns, thread: Sequence[Turn], found: Sequence[Turn], *, is_newer: bool
) -> list[Turn]:
    """Return the stored turns that a later export of a conversation does not have on its path.

    Args:
        thread: The stored turns.
        found: The turns of the export.
        is_newer: Whether the export says that it is newer.
    """
    path = [turn for turn in thread if turn.content == FORGOTTEN or _is_imported(turn, item.form)]
    common = 0
    for old, new in zip(path, found, strict=False):
        if old.id != new.id or _is_later(old, new, is_newer=is_newer):
            break
        common += 1
    is_path = common > 0 or item.is_whole or bool(path and found and path[0].id == found[0].id)
    is_branch = common < len(found) or (item.is_whole and is_newer)
    return path[common:] if is_path and is_branch else []


def _is_imported(turn: Turn, form: str) -> bool:
    source_id = turn.metadata.get(SOURCE_ID)
    return source_id is not None and turn.id == build_stable_id(form, turn.session, source_id)


def _is_later(old: Turn, new: Turn, *, is_newer: bool) -> bool:
    """Return whether an export has a later text of a turn: that of a newer export, or a longer one."""
    if old.content == FORGOTTEN or (old.content, old.tool_calls) == (new.content, new.tool_calls):
        return False
    return is_newer or len(new.content) > len(old.content)
