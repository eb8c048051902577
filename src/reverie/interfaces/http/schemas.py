"""Forms of bodies, queries and answers of the native API. They check types; the memory checks the rest."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Generic, Literal, TypeVar, get_type_hints

from pydantic import AwareDatetime, Field, create_model

from reverie.consolidation.inbox import Verdict
from reverie.domain.change import Subject
from reverie.domain.conversation import Role, SessionState, SessionStatus, Turn, WishName
from reverie.domain.entry import Entry
from reverie.domain.record import Kind, Layer, Origin, Record
from reverie.interfaces.http.operations import Form, ScopeQuery
from reverie.repositories.activity import DayActivity
from reverie.repositories.prompt_log import LineState, PromptLogEntry, PromptLogLine
from reverie.repositories.records import Outcome
from reverie.repositories.wishes import ForgetRequest
from reverie.search.hits import SearchMode, Source, Unit
from reverie.search.searcher import Reason

MOST_ITEMS = 200
"""Maximum items of one page of a list, and of one batch."""

MOST_UNDONE = 1_000
"""Maximum changes that an undo may name."""

Number = Annotated[int, Field(ge=0, lt=2**63)]
Limit = Annotated[int, Field(ge=1, le=MOST_ITEMS)]
Texts = tuple[str, ...]
T = TypeVar("T")
JournalReason = Annotated[str, Field(max_length=2_000)]


def describe(name: str, kind: type, *, without: Collection[str] = (), **more: Any) -> Any:
    """Return the form of a value's fields, for the description of an answer.

    Args:
        name: Name of the form.
        kind: Data class of the value.
        without: Fields that the answer does not have.
        more: Further fields, as `pydantic.create_model` takes them.
    """
    fields = {each: (hint, ...) for each, hint in get_type_hints(kind).items() if each not in without}
    return create_model(name, __base__=Form, __doc__=(kind.__doc__ or "").partition("\n")[0], **fields | more)


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
    """Query of a list whose pages have a fixed size.

    Attributes:
        cursor: `next` of the previous page.
    """

    cursor: str | None = None


class PageQuery(CursorQuery):
    """Query of a list."""

    limit: Limit = 50


class AsOfQuery(ScopeQuery):
    """Query that can be answered as of an earlier time.

    Attributes:
        as_of: Time, or number of a change.
    """

    as_of: Number | AwareDatetime | None = None


# -- records ---------------------------------------------------------------------------------------------


class RecordInput(Form):
    """A record to save; see `Memory.save`."""

    content: str
    category: str | None = None
    kind: Kind | None = None
    layer: Layer | None = None
    tags: Texts = ()
    confidence: float = 0.8
    importance: float = 0.5
    source: str = ""
    references: Texts = ()
    origin: Origin = "owner"
    pinned: bool = False
    valid_from: AwareDatetime | None = None
    valid_to: AwareDatetime | None = None
    ttl: str | float | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    created_at: AwareDatetime | None = None
    draft: bool = False
    keep_secret: bool = False


class RecordBatch(Form):
    """Records to save together: all or none."""

    records: Annotated[list[RecordInput], Field(min_length=1, max_length=MOST_ITEMS)]


class RecordPatch(Form):
    """New values of fields; those that are not given stay (RFC 7396)."""

    content: str | None = None
    category: str | None = None
    kind: Kind | None = None
    layer: Layer | None = None
    tags: Texts | None = None
    confidence: float | None = None
    importance: float | None = None
    source: str | None = None
    references: Texts | None = None
    origin: Origin | None = None
    pinned: bool | None = None
    keep_secret: bool | None = None
    valid_from: AwareDatetime | None = None
    valid_to: AwareDatetime | None = None
    expires_at: AwareDatetime | None = None
    metadata: dict[str, str | None] | None = None


class SavedRecord(Form):
    """Result of a save."""

    record: Record
    outcome: Outcome
    notice: str = ""
    kind: Kind
    about: Literal["owner", "other"]
    until: AwareDatetime | None = None
    permission: bool
    reason: str = ""


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


class RecordListQuery(RecordFilter, PageQuery, AsOfQuery):
    """Query of a list of records.

    Attributes:
        order: What comes first: what was `created` last, or what was `changed` last. In the latter order, a record that
            changes between two pages moves to the first.
    """

    archived: bool | None = False
    pinned: bool | None = None
    order: Literal["created", "changed"] = "created"


class BulkChange(Form):
    """A change of several records in one transaction.

    Attributes:
        action: `archive` takes them out of search, `label` adds `tags`, `vouch` gives them the owner's word.
        tags: Tags to add.
        reason: Reason for the journal.
    """

    ids: Annotated[tuple[str, ...], Field(min_length=1, max_length=MOST_ITEMS)]
    action: Literal["archive", "label", "vouch"]
    tags: Texts = ()
    reason: JournalReason = ""


class Settlement(Form):
    """Decision about two records that contradict each other.

    Attributes:
        holds: Id of the record that holds.
        other: Id of the other one.
        verdict: `ended` if the other one held until now, `wrong` if it never did, `both` if it holds too.
        content: New text of the record that holds; None to leave it.
        versions: ETags of both as they were read, so that neither has changed since; None to take any.
        reason: Reason for the journal.
    """

    holds: str
    other: str
    verdict: Literal["ended", "wrong", "both"]
    content: str | None = None
    versions: tuple[str, str] | None = None
    reason: JournalReason = ""


class ReasonQuery(ScopeQuery):
    """Query of a change that takes a reason for the journal."""

    reason: JournalReason = ""


class SubjectOutput(Form):
    """A name or a category that records share, and how many these are."""

    name: str
    records: int
    is_category: bool


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
    sources: Annotated[tuple[Source, ...], Field(min_length=1)] = ("records",)
    limit: Limit = 10
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.0
    mode: SearchMode = "words"
    unit: Unit = "turn"
    left_out: Annotated[int, Field(ge=0, le=50)] = 0
    session: Texts = ()
    role: tuple[Role, ...] = ()


class LeftOutHit(Form):
    """A hit that was left out.

    Attributes:
        why: `archived`; `filtered`, by the `fields`; `repeated` by a hit; below the `floor`, so that nothing was
            found; or behind the last hit in `rank`.
    """

    hit: dict[str, Any]
    why: Reason
    fields: list[str]


class Hits(Form):
    """Hits, best first; empty if nothing is relevant.

    Attributes:
        left_out: What was left out, if it was asked for.
    """

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


class ToolCallInput(Form):
    """A call of a tool."""

    id: str
    name: str
    arguments: str = "{}"


class TurnInput(Form):
    """A turn to add; see `Session.add`."""

    role: Role
    content: str
    speaker: str = ""
    at: AwareDatetime | None = None
    tool_calls: tuple[ToolCallInput, ...] = ()
    tool_call_id: str = ""
    metadata: dict[str, str] = Field(default_factory=dict)


class TurnBatch(Form):
    """Turns to add one after the other: all or none."""

    turns: Annotated[list[TurnInput], Field(min_length=1, max_length=MOST_ITEMS)]


class TurnIds(Form):
    """Turns of a session by their ids."""

    turns: Annotated[list[str], Field(min_length=1, max_length=MOST_ITEMS)]


class TurnVersion(Form):
    """A new version of a turn; see `Session.replace_turn`."""

    content: str
    metadata: dict[str, str] = Field(default_factory=dict)


class ContextInput(Form):
    """Message and budget of a prompt; see `Session.context`."""

    message: str | None = None
    soft_tokens: Number | None = None
    hard_tokens: Number | None = None
    record_shown: bool = True
    extra_context: str = ""


class SessionWindowInput(Form):
    """Options for shortening the window of a session; see `Memory.dreams`."""

    kind: Literal["read", "compact", "trim"]
    keep: Number | None = None


class PassResult(Form):
    """Outcome of a pass."""

    state: Literal["applied", "planned", "waiting", "skipped", "failed"]
    why: str
    batch: int | None


class FeedbackInput(Form):
    """The user's rating of an answer."""

    turn: str
    thumb: Literal["up", "down"]
    note: str = ""


class Count(Form):
    """Number of things removed."""

    removed: int


# -- pages and working memory ----------------------------------------------------------------------------


class PageText(Form):
    """A page or a log with its text."""

    name: str
    content: str


class LivingPageLine(Form):
    """A line of the living page: a record, or one that was replaced, with the day in `note`."""

    id: str
    text: str
    note: str
    permission: bool


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


class PageInput(Form):
    """The whole text of a page."""

    content: str


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


EntryOutput = describe("EntryOutput", Entry, without=("namespace",))


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


class JournalItem(Form):
    """A change; `before` and `after` are None where it was erased."""

    sequence: int
    batch: int
    at: AwareDatetime
    actor: str
    operation: str
    note: str
    reference: str
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

    changes: Annotated[list[Number], Field(max_length=MOST_UNDONE)] | None = None
    batch: Number | None = None
    since: Number | AwareDatetime | None = None
    dry_run: bool = False


class UndoOutput(Form):
    """Changes that were undone; `differences` only in a dry run."""

    changes: list[int]
    differences: list[dict[str, Any]]
    left: list[dict[str, Any]]
    made: list[int]
    dry_run: bool


class PlanInput(Form):
    """Passes to plan; see `Memory.dreams`."""

    name: str = "dream"
    session: str | None = None
    keep: Number | None = None
    output: str | None = None
    step: str = ""
    scope: str = ""
    origin: Origin = "agent"


class ProposalDecision(Form):
    """Decision on a proposal."""

    verdict: Verdict
    reason: JournalReason = ""


class PlanDecision(ProposalDecision):
    """Decision on groups of steps of a plan; on all open ones if none is named."""

    groups: list[Number] | None = None


class StepGroupOutput(Form):
    """Numbers of steps that are made together; `batch` is the number by which they can be undone."""

    state: str
    steps: list[int]
    reason: str
    batch: int | None


class PlanStepOutput(Form):
    """One proposed change."""

    why: str
    sources: Texts
    subject: str
    id: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class PlanOutput(Form):
    """A plan; `applied` is the number by which it can be undone."""

    id: str
    name: str
    made_at: AwareDatetime
    steps: list[PlanStepOutput]
    groups: list[StepGroupOutput]
    decided: bool
    refused: list[dict[str, str]]
    notes: Texts
    skipped: str
    failed: str
    usage: dict[str, int]
    applied: int | None


class AppliedPlan(Form):
    """Result of applying a plan."""

    plan: str
    batch: int | None
    changes: int


PromptLineOutput = describe(
    "PromptLineOutput", PromptLogLine, state=(LineState, ...), content=(str | None, ...), scope=(str, ...)
)
PromptOutput = describe("PromptOutput", PromptLogEntry, without=("lines",), total=(int, ...))


class PromptTextLine(Form):
    """A line of a prompt as the model reads it, and why it is there."""

    section: str
    text: str
    tokens: int
    id: str
    reason: str


class ExplainedPromptOutput(PromptOutput):  # type: ignore[misc, valid-type]
    """Contents of a prompt, with the texts as they were then; `content` is None if it is no longer known.

    `text` is the exact text line by line. If that is no longer stored, `is_rebuilt` is true, and `text` has the rules
    and the recalled lines with their words of that time.
    """

    question: str | None
    standing: list[PromptLineOutput]  # type: ignore[valid-type]
    lines: list[PromptLineOutput]  # type: ignore[valid-type]
    text: list[PromptTextLine]
    is_rebuilt: bool


class PromptLogQuery(ScopeQuery):
    """Query of the prompt log."""

    limit: Limit = 50


class ActivityQuery(Form):
    """Query of the activity by day."""

    days: Annotated[int, Field(ge=1, le=400)] = 30


DayOutput = describe("DayOutput", DayActivity, median_and_p95=(dict[str, list[int | None]], ...))


class WishOutput(Form):
    """What became of one wish; see `reverie.repositories.wishes.WishResult`."""

    name: WishName
    text: str
    record: str | None
    request: ForgetRequest | None


class TurnsOutput(Items[Turn]):
    """Turns that were added, and what became of what the last message of the user asks of the memory."""

    wishes: list[WishOutput] = Field(default_factory=list)
