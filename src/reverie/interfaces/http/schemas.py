"""Forms of bodies, queries and answers of the native API. They check types; the memory checks the rest."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, fields
from datetime import datetime, timedelta
from functools import reduce
from types import UnionType
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import AwareDatetime, Field, create_model

from reverie.admin.erasure.matching import ErasureReport
from reverie.consolidation.gatherer import WindowKind
from reverie.consolidation.inbox import PassOutcome, StepGroup, Verdict
from reverie.consolidation.values import Plan, PlanStep
from reverie.consolidation.worker import Worker
from reverie.domain.change import JournalEntry, Subject
from reverie.domain.conversation import Role, SessionState, SessionStatus, ToolCall, Turn, WishName
from reverie.domain.entry import Entry
from reverie.domain.living_page import Line
from reverie.domain.record import NOTHING, Kind, Layer, Origin
from reverie.interfaces.http.operations import Form, ScopeQuery
from reverie.interfaces.http.tokens import Right, Token, TokenRegistry
from reverie.repositories.prompts import PromptLine, PromptLogEntry, PromptLogLine
from reverie.repositories.records import NewRecord, RecordChanges, SaveResult
from reverie.repositories.subjects import Subject as NamedSubject
from reverie.repositories.wishes import ForgetRequest
from reverie.scoped import ScopedMemory
from reverie.search.hits import SearchMode, Source, Unit
from reverie.search.searcher import LeftOut
from reverie.session import Session

MOST_ITEMS = 200
"""Maximum items of one page of a list, and of one batch."""

Number = Annotated[int, Field(ge=0, lt=2**63)]
Limit = Annotated[int, Field(ge=1, le=MOST_ITEMS)]
Texts = tuple[str, ...]
T = TypeVar("T")
JournalReason = Annotated[str, Field(max_length=2_000)]

_IN_JSON: dict[Any, Any] = {datetime: AwareDatetime, Iterable[str]: Texts, Mapping[str, str]: dict[str, str]}


def derive(
    kind: type | Callable[..., Any], *, without: Collection[str] = (), defaults: Mapping[str, Any] = NOTHING
) -> Any:
    """Return a form with the fields of a class, or the arguments of a method, to be the base of another form.

    Args:
        kind: A data class, a named tuple, a typed dictionary or a method.
        without: Fields that the form does not have.
        defaults: Defaults of fields, beside those of a method's keywords; the others are required.
    """
    known = {**getattr(kind, "__kwdefaults__", {}), **defaults}
    taken: dict[str, Any] = {}
    for name, hint in get_type_hints(kind).items():
        if name not in (*without, "return"):
            default, kept = known.get(name, ...), _to_json_type(hint)
            taken[name] = (kept | None if default is None else kept), default
    return create_model(f"{kind.__name__}Fields", __base__=Form, **taken)


def _to_json_type(hint: Any) -> Any:
    """Return the type that a value has in JSON."""
    if get_origin(hint) in (Union, UnionType):
        kept = (_to_json_type(each) for each in get_args(hint) if each is not timedelta)
        return reduce(operator.or_, kept)
    return _IN_JSON.get(hint, hint)


class Items(Form, Generic[T]):
    """A whole list."""

    items: list[T]


class ListPage(Form, Generic[T]):
    """Page of a list.

    Attributes:
        next: `cursor` of the next page; None after the last.
    """

    items: list[T]
    next: str | None


class CursorQuery(ScopeQuery):
    """Query of a list.

    Attributes:
        cursor: `next` of the previous page.
    """

    cursor: str | None = None
    limit: Limit = 50


class AsOfQuery(ScopeQuery):
    """Query that can be answered as of an earlier time.

    Attributes:
        as_of: Time, or number of a change.
    """

    as_of: Number | AwareDatetime | None = None


# -- records ---------------------------------------------------------------------------------------------


_NEW_RECORD = {each.name: each.default for each in fields(NewRecord) if each.default is not MISSING}


class RecordInput(derive(NewRecord, without=("scope",), defaults=_NEW_RECORD)):  # type: ignore[misc]
    """A record to save; see `Memory.save`."""

    metadata: dict[str, str] = Field(default_factory=dict)


class RecordBatch(Form):
    """Records to save together: all or none."""

    records: Annotated[list[RecordInput], Field(min_length=1, max_length=MOST_ITEMS)]


class RecordPatch(derive(RecordChanges, defaults=dict.fromkeys(RecordChanges.__annotations__))):  # type: ignore[misc]
    """New values of fields; those that are not given stay (RFC 7396)."""

    metadata: dict[str, str | None] | None = None


class SavedRecord(derive(SaveResult)):  # type: ignore[misc]
    """Result of a save."""

    kind: Kind
    about: Literal["owner", "other"]
    until: AwareDatetime | None
    permission: bool


class SavedRecords(Form):
    """Results of a batch, in its order."""

    results: list[SavedRecord]


class RecordFilter(Form):
    """Restrictions; see `Memory.search`."""

    category: Texts = ()
    tags: Texts = ()
    kind: tuple[Kind, ...] = ()
    layer: tuple[Layer, ...] = ()
    origin: tuple[Origin, ...] = ()
    created_after: AwareDatetime | None = None
    created_before: AwareDatetime | None = None
    valid_at: AwareDatetime | None = None


class RecordListQuery(RecordFilter, CursorQuery, AsOfQuery):
    """Query of a list of records."""

    archived: bool | None = False
    pinned: bool | None = None


class BulkChange(Form):
    """A change of several records in one transaction.

    Attributes:
        action: `archive` takes them out of search, `label` adds `tags`, `vouch` gives them the owner's word.
    """

    ids: Annotated[tuple[str, ...], Field(min_length=1, max_length=MOST_ITEMS)]
    action: Literal["archive", "label", "vouch"]
    tags: Texts = ()
    reason: JournalReason = ""


class SettlementInput(derive(ScopedMemory.settle, without=("expected",))):  # type: ignore[misc]
    """Decision about two records that contradict each other; see `Memory.settle`.

    Attributes:
        versions: ETags of both as they were read, so that neither has changed since; None to take any.
    """

    versions: tuple[str, str] | None = None
    reason: JournalReason = ""


class SubjectOutput(derive(NamedSubject)):  # type: ignore[misc]
    """A name or a category that records share, and how many these are."""


class ReasonQuery(ScopeQuery):
    """Query of a change that takes a reason for the journal."""

    reason: JournalReason = ""


class Promotion(Form):
    """Target scope of a promotion.

    Attributes:
        to: A scope around that of the record; empty for everybody's.
    """

    to: str = ""


class SearchInput(RecordFilter):
    """A search; see `Memory.search`.

    Attributes:
        left_out: Maximum number of hits to return that were left out, and of archived ones beside them.
    """

    query: str | None = None
    left_out: Annotated[int, Field(ge=0, le=50)] = 0
    sources: Annotated[tuple[Source, ...], Field(min_length=1)] | None = None
    limit: Limit = 10
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.0
    mode: SearchMode = "words"
    unit: Unit = "turn"
    session: Texts = ()
    role: tuple[Role, ...] = ()


class LeftOutHit(derive(LeftOut, without=("hit",))):  # type: ignore[misc]
    """A hit that was left out, and why."""

    hit: dict[str, Any]


class Hits(Form):
    """Hits, best first, empty if nothing is relevant; and what was left out, if it was asked for."""

    hits: list[dict[str, Any]]
    left_out: list[LeftOutHit] = Field(default_factory=list)


class DiffQuery(ScopeQuery):
    """Query of a difference between two versions."""

    a: Number | AwareDatetime | None = None
    b: Number | AwareDatetime | None = None


# -- conversations ---------------------------------------------------------------------------------------


class SessionItem(Form):
    """A session."""

    session: SessionState
    title: str
    turns: int
    last_at: AwareDatetime


class SessionInput(Form):
    """Changes of a session. A metadata value of null removes the item."""

    status: SessionStatus | None = None
    metadata: dict[str, str | None] = Field(default_factory=dict)


class TurnVersion(Form):
    """A new version of a turn; see `Session.replace_turn`."""

    content: str
    metadata: dict[str, str] = Field(default_factory=dict)


class TurnInput(TurnVersion):
    """A turn to add; see `Session.add`."""

    role: Role
    speaker: str = ""
    at: AwareDatetime | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


class TurnBatch(Form):
    """Turns to add one after the other: all or none."""

    turns: Annotated[list[TurnInput], Field(min_length=1, max_length=MOST_ITEMS)]


class TurnIds(Form):
    """Turns of a session by their ids."""

    turns: Annotated[list[str], Field(min_length=1, max_length=MOST_ITEMS)]


class WishOutput(Form):
    """What became of one wish; see `reverie.repositories.wishes.WishResult`."""

    name: WishName
    text: str
    record: str | None
    request: ForgetRequest | None


class TurnsOutput(Items[Turn]):
    """Turns that were added, and what became of what the last message of the user asks of the memory."""

    wishes: list[WishOutput] = Field(default_factory=list)


class ContextInput(derive(Session.context)):  # type: ignore[misc]
    """Message and budget of a prompt; see `Session.context`."""

    message: str | None = None
    soft_tokens: Number | None = None
    hard_tokens: Number | None = None


class SessionWindowInput(Form):
    """Options for shortening the window of a session; see `Memory.dreams`."""

    kind: WindowKind
    keep: Number | None = None


class PassResult(derive(PassOutcome, without=("name", "at", "error", "plan"))):  # type: ignore[misc]
    """Outcome of a pass."""


class FeedbackInput(Form):
    """The user's rating of an answer."""

    turn: str
    thumb: Literal["up", "down"]
    note: str = ""


class Count(Form):
    """Number of things removed."""

    removed: int


class PromptLogQuery(ScopeQuery):
    """Query of the prompt log."""

    limit: Limit = 50


class PromptOutput(derive(PromptLogEntry, without=("lines",))):  # type: ignore[misc]
    """Contents of one context in ids and numbers."""

    total: int


class PromptLineOutput(derive(PromptLogLine)):  # type: ignore[misc]
    """One candidate of a context, with its present content; None if it is gone."""

    content: str | None


class PromptTextLine(derive(PromptLine)):  # type: ignore[misc]
    """A line of a prompt as the model reads it, and why it is there."""


class ExplainedPromptOutput(PromptOutput):
    """Contents of a prompt.

    `text` is the exact text line by line. If that is no longer stored, `is_rebuilt` is true, and `text` has the rules
    and the recalled lines that are still there, with their present words.
    """

    question: str | None
    lines: list[PromptLineOutput]
    text: list[PromptTextLine]
    is_rebuilt: bool


# -- pages and working memory ----------------------------------------------------------------------------


class PageInput(Form):
    """The whole text of a page."""

    content: str


class PageText(PageInput):
    """A page or a log with its text."""

    name: str


class LivingPageLine(derive(Line, without=("tags", "is_pinned", "details"))):  # type: ignore[misc]
    """A line of the living page: a record, or one that was replaced, with the day in `note`."""


class LivingPageSection(Form):
    """A section of the living page. In "Coming up", each day is a section of level 3."""

    title: str
    level: int
    lines: list[LivingPageLine]


class LivingPage(Form):
    """The living page of a scope.

    Attributes:
        content: The page.
        sections: The page in parts.
        outcome: What an edit did: `changed` or `unchanged`.
        proposed: Number of changes that were not made and wait for review.
    """

    content: str
    sections: list[LivingPageSection]
    outcome: str = "unchanged"
    proposed: int = 0


class LineInput(Form):
    """A line of a page, or a paragraph of a log."""

    text: str
    at: AwareDatetime | None = None


class EntryInput(Form):
    """A value of working memory; `ttl` of null keeps it, without `ttl` it lives as long as usual."""

    data: str
    ttl: str | float | None = None
    category: str | None = None
    tags: Texts = ()


class EntryOutput(derive(Entry, without=("namespace",))):  # type: ignore[misc]
    """A value of working memory."""


# -- history, plans, the whole ---------------------------------------------------------------------------


class JournalQuery(ScopeQuery):
    """Query of the journal.

    Attributes:
        before: Only changes with a smaller number.
        since: Only changes made at this time or later.
        until: Only changes made before this time.
    """

    after: Number = 0
    before: Number | None = None
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    limit: Limit = 50
    id: str | None = None
    actor: str | None = None
    subject: Subject | None = None
    newest_first: bool = False


class EventsQuery(ScopeQuery):
    """Query of the stream of changes."""

    after: Number | None = None


class JournalItem(derive(JournalEntry, without=("key", "edit", "operation", "subject"))):  # type: ignore[misc]
    """A change; `before` and `after` are None where it was erased."""

    operation: str
    subject: str
    id: str | None
    change: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class JournalPage(Form):
    """Changes in their order; `next` is the `after` of the next page, or its `before` with `newest_first`."""

    items: list[JournalItem]
    next: int | None


class UndoInput(Form):
    """Changes to undo, named in one of three ways; see `History.undo`."""

    changes: list[Number] | None = None
    batch: Number | None = None
    since: Number | AwareDatetime | None = None
    dry_run: bool = False


class UndoOutput(Form):
    """Changes that were undone; `differences` only in a dry run."""

    changes: list[int]
    differences: list[dict[str, Any]]
    left: list[int]
    made: list[int]
    dry_run: bool


class PlanInput(derive(Worker.plan)):  # type: ignore[misc]
    """Pass to plan; see `Memory.dreams`."""

    name: str = "dream"


class ProposalDecision(Form):
    """Decision on a proposal."""

    verdict: Verdict
    reason: JournalReason = ""


class PlanDecision(ProposalDecision):
    """Decision on groups of steps of a plan; on all open ones if none is named."""

    groups: list[Number] | None = None


class PlanStepOutput(derive(PlanStep, without=("edit",))):  # type: ignore[misc]
    """One proposed change."""

    subject: str
    id: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class StepGroupOutput(derive(StepGroup, without=("steps",))):  # type: ignore[misc]
    """Numbers of steps that are made together; `batch` is the number by which they can be undone."""

    steps: list[int]


class PlanOutput(derive(Plan, without=("proposals", "cursors"))):  # type: ignore[misc]
    """A plan; `applied` is the number by which it can be undone."""

    steps: list[PlanStepOutput]
    groups: list[StepGroupOutput]
    decided: bool
    refused: list[dict[str, str]]
    usage: dict[str, int]
    applied: int | None


class ActivityQuery(Form):
    """Query of the activity by day."""

    days: Annotated[int, Field(ge=1, le=400)] = 30


class DayOutput(Form):
    """Changes of one day."""

    day: str
    counts: dict[str, int]


class TokenInput(derive(TokenRegistry.create)):  # type: ignore[misc]
    """A token to create."""

    rights: tuple[Right, ...] = ("read",)


class TokenOutput(derive(Token, without=("digest",))):  # type: ignore[misc]
    """A token, without its secret."""


class NewToken(TokenOutput):
    """A token that was just created; `token` is shown once."""

    token: str


class ForgetInput(Form):
    """Content to erase, named in one way; see `Memory.admin`."""

    ids: Texts = ()
    session: str | None = None
    scope: str | None = None
    match: str | None = None
    request: str | None = None
    turns: bool = False


class ForgetOrder(ForgetInput):
    """Content to erase, with the digest of its preview."""

    digest: str


class ForgetOutput(derive(ErasureReport)):  # type: ignore[misc]
    """Content that is erased, and remains that still contain it."""

    counts: dict[str, int]
    digest: str


class ForgetSubject(Form):
    """What to forget, in a few words."""

    subject: str = Field(min_length=1, max_length=10_000)


class ProposedForgetting(Form):
    """A request to forget that waits for a person; None if nothing about the subject is stored."""

    request: ForgetRequest | None
