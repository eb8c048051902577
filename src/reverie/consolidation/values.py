"""What passes read and return: plans, input gathered at one moment, and how requests show it.

A plan is changes that a pass proposes, to be made together or not at all. A pass reads nothing but its input.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from importlib.resources import files
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from reverie.consolidation.answers import to_ids
from reverie.domain.change import Change
from reverie.domain.conversation import SIGNAL, SIGNAL_NOTE, SessionState, Turn
from reverie.domain.record import UNTRUSTED, Origin, Record
from reverie.domain.text.escaping import escape_line
from reverie.domain.text.ids import NewId, generate_id
from reverie.domain.text.timestamps import to_microseconds
from reverie.llm.protocol import TokenUsage
from reverie.repositories.records import NewRecord

T = TypeVar("T")

PlanRecords: TypeAlias = Callable[[Sequence[NewRecord]], Sequence[Change]]
"""Function that returns the changes that saving records would make."""

_log = logging.getLogger("reverie")

# -- plans -------------------------------------------------------------------------------------------------

_LONGEST_PREVIEW = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """One proposed change.

    Attributes:
        edit: Value before and after.
        why: The reason.
        sources: Ids of the records and turns it was made from.
    """

    edit: Change
    why: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A proposal that the checks did not accept.

    Attributes:
        what: The proposal, in words.
        why: The check that refused it, and what would have been lost.
    """

    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Result of a pass.

    Attributes:
        id: 12 lower-case hexadecimal characters.
        name: The pass, such as `merge`.
        made_at: Time of its making.
        steps: The changes, in the order in which they are to be made.
        proposals: Changes that wait for the owner's decision, each by itself, if the others are made.
        refused: Proposals that were not accepted.
        notes: Further notes for a person.
        skipped: Why there was nothing to do; empty when there was.
        failed: Why it could not be completed; empty when it could. Its input is considered again next time.
        cursors: Cursors of the store to set with the changes, such as how far the journal was read.
        usage: Cost of the requests.
    """

    id: str
    name: str
    made_at: datetime
    steps: tuple[PlanStep, ...] = ()
    proposals: tuple[PlanStep, ...] = ()
    refused: tuple[Rejection, ...] = ()
    notes: tuple[str, ...] = ()
    skipped: str = ""
    failed: str = ""
    cursors: Mapping[str, str | None] = field(default_factory=dict)
    usage: TokenUsage = field(default_factory=TokenUsage)

    @property
    def edits(self) -> list[Change]:
        """Changes without their reasons."""
        return [step.edit for step in self.steps]

    def lines(self) -> list[str]:
        """Return a line for each change, then for each proposal, rejection, note and cost."""
        named = [(_describe_action(step.edit), step) for step in self.steps]
        named += [("propose", step) for step in self.proposals]
        lines = [f"{do} {step.edit.id}: {_format_preview(step.edit)} ({step.why})" for do, step in named]
        lines += [f"refused: {refusal.what}: {refusal.why}" for refusal in self.refused]
        lines += self.notes
        if self.usage.requests:
            read, written = self.usage.input_tokens, self.usage.output_tokens
            cost = f", about ${self.usage.cost:.4f}" if self.usage.cost else ""
            lines.append(
                f"asked {self.usage.requests} times, {read:,} tokens read, {written:,} written{cost}"
            )
        return lines

    def __str__(self) -> str:
        number = len(self.steps) + len(self.proposals)
        state = self.failed or self.skipped or ("1 change" if number == 1 else f"{number} changes")
        return "\n".join([f"{self.name} {self.id}: {state}", *(f"  {line}" for line in self.lines())])

    def __bool__(self) -> bool:
        return bool(self.steps or self.proposals)


def _describe_action(edit: Change) -> str:
    if edit.before is None or edit.after is None:
        return "add" if edit.before is None else "remove"
    return "archive" if getattr(edit.after, "archived_at", None) is not None else "change"


def _format_preview(edit: Change) -> str:
    """Return the beginning of the text of the changed thing; of a session that of its summary."""
    value = edit.value
    text = value.summary if isinstance(value, SessionState) else getattr(value, "content", "")
    category = f" ({value.category})" if isinstance(value, Record) and value.category else ""
    text = " ".join(f"{text}{category}".split())
    return text if len(text) <= _LONGEST_PREVIEW else f"{text[: _LONGEST_PREVIEW - 1].rstrip()}…"


# -- groups of steps -------------------------------------------------------------------------------------


def group_steps(steps: Sequence[PlanStep]) -> list[tuple[PlanStep, ...]]:
    """Return the steps in groups: those that share a changed thing, as an addition and its archived sources."""
    changed = {step.edit.id for step in steps}
    leader = {name: name for name in changed}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for step in steps:
        for source in changed.intersection(step.sources):
            leader[find(source)] = find(step.edit.id)
    groups: dict[str, list[PlanStep]] = {}
    for step in steps:
        groups.setdefault(find(step.edit.id), []).append(step)
    return [tuple(group) for group in groups.values()]


def select_groups(
    steps: Sequence[PlanStep], is_wanted: Callable[[Sequence[PlanStep]], bool]
) -> tuple[PlanStep, ...]:
    """Return the steps of the wanted groups, in their order."""
    wanted = {id(step) for group in group_steps(steps) if is_wanted(group) for step in group}
    return tuple(step for step in steps if id(step) in wanted)


def build_group_key(steps: Iterable[PlanStep]) -> str:
    """Return what a group is recognised by: the things it rests on, and when they last changed."""
    changed = [step.edit.before for step in steps if step.edit.before is not None]
    names = {
        f"{each.id} {to_microseconds(each.updated_at) if isinstance(each, Record) else ''}"
        for each in changed
    }
    names = names.union(*(step.sources for step in steps)) or {step.edit.id for step in steps}
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:16]


# -- input -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowInput:
    """A session that is read, or whose window is to be shortened.

    Attributes:
        state: The session.
        older: Turns that leave the window, or that are read, the earliest first.
        start: Position of the first turn that stays in the window.
        read_from: Position of the first turn that was not read.
        told: Position up to which `HISTORY.md` tells the session.
        position: Position of the next paragraph of `HISTORY.md`.
        is_read: Whether a model reads the turns. Otherwise they are only told, and stay unread.
        reader: Name of the model.
        failures: How often it was asked about these turns without a usable answer.
    """

    state: SessionState
    older: tuple[Turn, ...]
    start: int
    read_from: int = 0
    told: int = 0
    reader: str = ""
    failures: int = 0
    position: float = 1.0
    is_read: bool = True

    @property
    def is_moving(self) -> bool:
        """Whether turns leave the window."""
        return self.start > self.state.window_start

    def move(self, *, why: str = "", **changes: Any) -> PlanStep:
        """Return the step that moves the beginning of the window, with further changes of the session."""
        return PlanStep(
            edit=Change(before=self.state, after=replace(self.state, window_start=self.start, **changes)),
            why=why or f"turns that leave the window: {len(self.older)}",
            sources=tuple(turn.id for turn in self.older),
        )


class PendingClaim(NamedTuple):
    """A proposal from a conversation, which waits for a dream to verify it, or was verified.

    Attributes:
        do: `add`, `change`, `end` or `drop`.
        record: Id of the record that waits in the archive; empty for an end, a drop, and a change in the owner's words.
        target: Id of the record that is changed, ended or dropped; empty for an addition.
        quote: Id of the owner's sentence that stands in for the record; empty if a known record does.
        turns: Ids of the turns that say so.
        tries: How often no believed model judged it.
        is_shown: Whether it was verified, so that its record stands for the sentence while the model is believed.
    """

    do: str
    record: str = ""
    target: str = ""
    quote: str = ""
    turns: tuple[str, ...] = ()
    tries: int = 0
    is_shown: bool = False


CLAIMS = "read.claims"
"""The store's cursor with the claims, as JSON."""

MAX_CLAIMS = 1_000
"""Claims that the cursor holds, the latest."""


def encode_claims(claims: Sequence[PendingClaim]) -> dict[str, str | None]:
    """Return the cursor that stores claims. It has ids only, and no content."""
    return {CLAIMS: json.dumps(claims[-MAX_CLAIMS:]) if claims else None}


def parse_claims(text: str | None) -> tuple[PendingClaim, ...]:
    """Return the claims in the cursor; none if it cannot be read."""
    try:
        claims = [PendingClaim(*row) for row in json.loads(text or "[]")]
        return tuple(each._replace(turns=tuple(each.turns)) for each in claims)
    except (ValueError, TypeError):
        _log.warning("the claims that wait for a dream cannot be read and are left out")
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PassInput:
    """Input of a pass. Which fields are filled depends on the pass.

    Attributes:
        now: The moment.
        until: Number of the last journal entry that was read.
        records: Live records, in any order, without headlines.
        headlines: Live headlines, in any order.
        recalled: Ids of records that were ever put into a prompt.
        dropped: Number of records that were archived as noise in the last thirty days.
        changed: Ids of records that were added or changed since the last dream. Only these are reconsidered.
        turns: Turns since the last dream, the earliest first.
        earlier: Turns of the week before, the earliest first. They were considered already, and still count
            as evidence.
        signals: Bad signals since the last dream, the earliest first.
        proposals: Records that were proposed and that the owner has not accepted.
        drafts: Draft records in the order in which they were saved, each with the number of its journal
            entry.
        left: Words of the cursor with what the last dream had no room for.
        claims: Claims from conversations, those that wait and those that were verified, the earliest first.
        cited: Records that claims name, archived ones too, by id.
        said: Turns that claims cite, by id.
        before: By the ids of turns, what the assistant had said just before them.
        is_trusted: Whether the model is believed without controls: by the last dream, or by its exam; None if neither
            is known.
        categories: Categories in use by scope, the most frequent first.
        window: The session that a window pass is about.
        output: Output of a step of work, for `extract`: its text, with the name of the step as its source.
        zone: Time zone of the speakers.
        promotion_min_confidence: Least confidence of a record that is promoted, 0 to 1.
        read_prompt: Returns the user's own prompt in place of one of a file name; an empty text for none.
        new_id: Generator of ids.
        plan_records: Returns the changes that saving records would make.
    """

    now: datetime
    until: int = 0
    records: tuple[Record, ...] = ()
    headlines: tuple[Record, ...] = ()
    recalled: frozenset[str] = frozenset()
    dropped: int = 0
    changed: frozenset[str] = frozenset()
    turns: tuple[Turn, ...] = ()
    earlier: tuple[Turn, ...] = ()
    signals: tuple[Signal, ...] = ()
    proposals: tuple[Record, ...] = ()
    drafts: tuple[tuple[Record, int], ...] = ()
    left: tuple[str, ...] = ()
    claims: tuple[PendingClaim, ...] = ()
    cited: Mapping[str, Record] = field(default_factory=dict)
    said: Mapping[str, Turn] = field(default_factory=dict)
    before: Mapping[str, str] = field(default_factory=dict)
    is_trusted: bool | None = None
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    window: WindowInput | None = None
    output: NewRecord | None = None
    zone: tzinfo = UTC
    promotion_min_confidence: float = 0.75
    read_prompt: Callable[[str], str] = lambda name: ""
    new_id: NewId = generate_id
    plan_records: PlanRecords = lambda records: ()

    def get_window(self) -> WindowInput:
        """Return the session that a window pass is about."""
        assert self.window is not None
        return self.window

    def build_plan(self, name: str, **fields: Any) -> Plan:
        """Return a plan of a pass, made now; the arguments are those of `Plan`."""
        return Plan(id=self.new_id(), name=name, made_at=self.now, **fields)

    def build_record(self, content: str, **fields: Any) -> Record:
        """Return a new record of this moment; the further arguments are those of `Record`."""
        fields |= dict.fromkeys(("created_at", "updated_at", "last_seen_at"), self.now)
        return Record(id=self.new_id(), content=content, **fields)

    def archive(self, record: Record, reason: str) -> Record:
        """Return a record as archived at this moment."""
        return replace(record, archived_at=max(self.now, record.created_at), archive_reason=reason)

    def prompt(self, name: str) -> str:
        """Return the prompt of a file name such as `dream.md`: the user's own, or the one that ships."""
        if own := self.read_prompt(name).strip():
            return own
        shipped = files("reverie.consolidation.passes").joinpath("prompts", name)
        return shipped.read_text(encoding="utf-8").strip()


def build_cursor_name(name: str) -> str:
    """Return the name of the store's cursor that says how far a pass has read the journal."""
    return f"dream.{name}.sequence"


def apply_changes(records: Sequence[Record], changes: Sequence[Change]) -> tuple[Record, ...]:
    """Return the live records as they would be after these changes, without headlines."""
    live = {record.id: record for record in records}
    for change in changes:
        after = change.after
        if isinstance(after, Record) and not (after.archived or after.is_headline):
            live[change.id] = after
        else:
            live.pop(change.id, None)
    return tuple(live.values())


def split_by_size(items: Iterable[T], measure: Callable[[T], int], *, most: int) -> Iterator[list[T]]:
    """Yield items in parts of at most a size; an item that is larger is a part by itself."""
    part: list[T] = []
    size = 0
    for item in items:
        if part and size + measure(item) > most:
            yield part
            part, size = [], 0
        part.append(item)
        size += measure(item)
    if part:
        yield part


# -- transcripts ---------------------------------------------------------------------------------------


def format_transcript(turns: Iterable[Turn], *, longest: int, labels: Mapping[str, str] | None = None) -> str:
    """Return turns as lines such as `[2025-01-15 10:31] ASSISTANT [tools: exec, read_file]: text` (Autobot).

    Results of tools and turns that say nothing are left out; times are in UTC.

    Args:
        turns: The turns, the earliest first.
        longest: Characters of one message; a longer one ends in `...`.
        labels: Labels of turns by their ids, which are shown before the times.
    """
    lines = []
    for turn in filter(_is_shown, turns):
        words = escape_line(turn.content)
        names = ", ".join(escape_line(call.name) for call in turn.tool_calls)
        called = f" [tools: {names}]" if turn.tool_calls else ""
        shown = words if len(words) <= longest else f"{words[: longest - 3]}..."
        label = f"[{labels[turn.id]}] " if labels and turn.id in labels else ""
        lines.append(f"{label}[{turn.at:%Y-%m-%d %H:%M}] {turn.role.upper()}{called}: {shown}")
    return "\n".join(lines)


def label_turns(turns: Iterable[Turn]) -> dict[str, Turn]:
    """Return the turns that a transcript shows by short labels, `T1` for the first."""
    return {f"T{at}": turn for at, turn in enumerate(filter(_is_shown, turns), 1)}


def cite_turns(proposal: Mapping[str, Any], labels: Mapping[str, Turn]) -> list[Turn]:
    """Return the turns that a proposal cites by their labels."""
    return [labels[name.upper()] for name in to_ids(proposal.get("turns")) if name.upper() in labels]


def _is_shown(turn: Turn) -> bool:
    return turn.role != "tool" and bool(turn.tool_calls or escape_line(turn.content))


def pair_with_said(turns: Iterable[Turn]) -> Iterator[tuple[Turn, str]]:
    """Yield turns, each with what the other side had said before it; nothing of an answer that rests on a tool."""
    said: dict[tuple[str, str], str] = {}  # by the session and the role
    for turn in turns:
        yield turn, said.get((turn.session, "assistant" if turn.role == "user" else "user"), "")
        if turn.content.strip():
            is_hidden = turn.role == "assistant" and turn.origin in UNTRUSTED
            said[turn.session, turn.role] = "" if is_hidden else turn.content


# -- signals -------------------------------------------------------------------------------------------

SignalKind = Literal["correction", "tool_failure", "thumbs_down"]

MOST = 50
"""Most signals that a pass is shown, the newest (RockBot)."""

RECENT = timedelta(days=7)
"""Greatest age of a signal (RockBot)."""

BAD: tuple[SignalKind, ...] = get_args(SignalKind)
"""Kinds that may support an anti-pattern."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A sign that something went badly.

    Attributes:
        kind: What it is.
        id: The turn that it stands on.
        text: What that says.
        before: Of a correction what the assistant had said, of an answer what had been asked.
        note: What the owner added to a thumb.
        at: When.
        scope: Whose conversation it is.
        origin: Whose word it is; a tool's failure is the tool's.
    """

    kind: SignalKind
    id: str
    text: str
    at: datetime
    before: str = ""
    note: str = ""
    scope: str = ""
    origin: Origin = "owner"


def collect_signals(turns: Sequence[Turn], *, now: datetime) -> tuple[Signal, ...]:
    """Return the bad signals of turns, the earliest first: at most 50 of each scope, none older than a week."""
    found = [
        Signal(
            kind=kind,
            id=turn.id,
            text=turn.content,
            before=before,
            note=turn.metadata.get(SIGNAL_NOTE, ""),
            at=turn.at,
            scope=turn.scope,
            origin=turn.origin if turn.origin in UNTRUSTED else "owner",
        )
        for turn, before in pair_with_said(turns)
        for kind in BAD
        if turn.metadata.get(SIGNAL) == kind and now - turn.at <= RECENT
    ]
    kept: list[Signal] = []
    counts = Counter[str]()
    for each in sorted(found, key=lambda signal: (signal.at, signal.id), reverse=True):
        counts[each.scope] += 1
        if counts[each.scope] <= MOST:
            kept.append(each)
    return tuple(reversed(kept))


def format_signals(labelled: Mapping[str, Signal]) -> str:
    """Return a line for each signal, which begins with its label; or `(none)`."""
    lines = []
    for name, each in labelled.items():
        before = f" after “{escape_line(each.before)[:300]}”" if each.before else ""
        note = f" ({escape_line(each.note)[:200]})" if each.note else ""
        lines.append(f"[{name}] {each.kind}{before}{note}: {escape_line(each.text)[:500]}")
    return "\n".join(lines) or "(none)"
