"""Inference of preferences that the owner did not state (RockBot).

Only the owner's turns are evidence. Code decides whether they may show a preference, and the model, asked once more,
whether they do. An inferred preference names its turns; where it touches security, credentials or money it is only
proposed, and stands in no prompt before the owner has said yes. Texts that Reverie put into the prompt are no evidence.
Without a model, what the owner stated repeatedly is taken.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.answer_schemas import TEXT, TEXTS, build_list, build_object
from reverie.consolidation.planning.driver import NO_MODEL, Flow
from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.nightly_requests import LATER
from reverie.consolidation.planning.plan_builder import PlanBuilder
from reverie.consolidation.planning.preference_evidence import NEEDED_TURNS, explain_unshown
from reverie.consolidation.planning.questions import ask_in_parts, build_question, build_repair_question
from reverie.consolidation.planning.reply_parsing import (
    UnusableReply,
    parse_answer,
    to_ids,
    to_text,
    to_texts,
)
from reverie.consolidation.planning.signals import Signal, format_signals
from reverie.consolidation.planning.transcript import compute_key, split_sentences
from reverie.consolidation.planning.verification import Claim, format_evidence, verify_claims
from reverie.consolidation.rules.patterns import PatternFile
from reverie.domain.category import USER_PREFERENCES, is_within_category
from reverie.domain.conversation import Turn
from reverie.domain.dataclass import dataclass, replace
from reverie.domain.record import PROPOSAL, UNTRUSTED, Record
from reverie.domain.similarity.grounding import extract_content
from reverie.domain.text import validation
from reverie.domain.text.escaping import escape_line, unquoted_text
from reverie.llm.messages import ModelReply, ModelRequest

NAME = "infer"
PROMPT = "pref-dream.md"
INFERRED = f"{USER_PREFERENCES}/inferred"
PERMISSION = "requires_user_permission"

WAITING = "proposed: waits for the owner's yes"
"""Reason for archiving a proposal."""

_LEAST_SHARED = 0.7  # of the words of two preferences that are one

MOST_INFERRED = 20
"""Preferences that are taken of one answer, and never more than there are new turns: a memory grows by what
was said."""

LONGEST_INFERRED = 500
"""Characters of a preference that a model words."""

LEFT = "dream.infer.left"
"""The store's cursor with the ids of the owner's turns for which there was no room."""

MOST_TURNS = 400
MOST_TOKENS = 12_000
MOST_EARLIER_TOKENS = 4_000
_LONGEST_TURN = 600

_SHOWS = PatternFile("evidence", re.IGNORECASE)
SCHEMA = build_object(preferences=build_list(content=TEXT, category=TEXT, evidence=TEXTS, tags=TEXTS))


def infer(view: PassInput, *, injected: Iterable[str] = (), signals: Sequence[Signal] = ()) -> Flow[Plan]:
    """Infer preferences from the owner's turns.

    Args:
        view: What there is; its turns are read in their order, the owner's as evidence and the assistant's as
            what they answer. Turns of the week before count too, where a new one shows the same.
        injected: Texts that were put into prompts; a turn that only repeats one is no evidence.
        signals: What tells how well it went; shown to the model, and no evidence by themselves.
    """
    draft = PlanBuilder(view, name=NAME)
    echo = {compute_key(sentence) for text in injected for sentence in split_sentences(text)}
    scopes = _group_by_scope(view.turns, echo)
    if not scopes:
        return draft.plan(skipped="the owner has said nothing since the last cycle")
    earlier = _group_by_scope(view.earlier, echo)
    left: list[str] = []
    for scope in sorted(scopes):
        inferred: list[_Inferred] = []
        if len(scopes[scope]) > MOST_TURNS:
            draft.note(f"the owner said more than {MOST_TURNS} things; the latest were looked at")
        for part in _split_parts(scopes[scope]):
            shown = _Shown(new=part, earlier=_select_last_evidence(earlier.get(scope, ())))
            known = [
                record
                for record in view.records
                if record.scope == scope and _is_preference(record) and record.origin not in UNTRUSTED
            ]
            own_signals = [each for each in signals if each.scope == scope]
            inferred += yield from _ask(view, draft, scope, shown, known, own_signals, left)
        yield from _verify(view, draft, scope, inferred)
    return draft.plan(skipped="nothing was inferred", cursors={LEFT: " ".join(left) or None})


def _verify(view: PassInput, draft: PlanBuilder, scope: str, inferred: Sequence[_Inferred]) -> Flow[None]:
    """Add the preferences of which the model says, asked once more, that the turns show them."""
    verdicts = yield from verify_claims(view, [each.claim for each in inferred], scope=scope)
    draft.spend(verdicts.usage)
    if verdicts.failed:
        draft.fail(verdicts.failed)
    for each, why in zip(inferred, verdicts.reasons, strict=True):
        if why:
            draft.refuse("infer a preference", why)
        else:
            _add(draft, each.record)


def _ask(
    view: PassInput,
    draft: PlanBuilder,
    scope: str,
    shown: _Shown,
    known: Sequence[Record],
    signals: Sequence[Signal],
    left: list[str],
) -> Flow[list[_Inferred]]:
    """Ask for the preferences that turns show, and once more for those that were refused; return what code accepts.

    Args:
        left: Receives the ids of turns for which the dream had no request left.
    """
    inferred: list[_Inferred] = []
    parts = yield from ask_in_parts(
        shown.new, lambda part: _build_request(view, scope, known, replace(shown, new=part), signals)
    )
    for new, request, reply in parts:
        part = replace(shown, new=new)
        draft.spend(reply.usage)
        if reply == LATER:
            left += [turn.id for turn, _ in new]
            continue
        if not isinstance(reply, ModelReply):
            if reply.why != NO_MODEL.why:
                draft.fail(reply.why)
                continue
            draft.note("no model: only what was said outright and again was taken")
            _add_stated_preferences(view, draft, scope, part)
            continue
        most = len(inferred) + min(MOST_INFERRED, len(new))
        refused = _take(view, draft, inferred, scope, reply, part, most=most)
        if refused:
            reasons = [f"{to_text(proposal)[:200]}: {why}" for proposal, why in refused]
            again = yield build_repair_question(request, reply, reasons)
            draft.spend(again.usage)
            repaired = isinstance(again, ModelReply) and _repair(
                view, inferred, scope, again, part, most=most
            )
            refused = refused[repaired:]
        for _, why in refused:
            draft.refuse("infer a preference", why)
    return inferred


def _repair(
    view: PassInput, inferred: list[_Inferred], scope: str, reply: ModelReply, shown: _Shown, *, most: int
) -> int:
    """Take the corrected preferences of an answer. Return how many were taken."""
    before = len(inferred)
    try:
        proposals = parse_answer(reply, SCHEMA).get("preferences")
    except UnusableReply:
        return 0
    for proposal in proposals if isinstance(proposals, list) else ():
        _consider(view, inferred, scope, proposal, shown, most=most)
    return len(inferred) - before


def needs_permission(content: str, category: str | None = None) -> bool:
    """Whether a preference touches security, credentials or money, so that the owner is asked each time.

    >>> needs_permission("Prefers to pay by card"), needs_permission("Prefers short answers")
    (True, False)
    """
    return _SHOWS.matches(f"{content} {(category or '').replace('/', ' ').replace('-', ' ')}", "sensitive")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """The owner's turns of one request, each with what the assistant had said before it.

    Attributes:
        new: Those since the last cycle, some at least.
        earlier: Those of the week before.
    """

    new: Sequence[tuple[Turn, str]]
    earlier: Sequence[tuple[Turn, str]]

    @property
    def turns(self) -> dict[str, Turn]:
        """All of them by id."""
        return {turn.id: turn for turn, _ in (*self.earlier, *self.new)}

    @property
    def before(self) -> dict[str, str]:
        """The assistant's turn before each of them, by id."""
        return {turn.id: before for turn, before in (*self.earlier, *self.new)}

    def has_new(self, turns: Iterable[Turn]) -> bool:
        """Whether one of these turns is new."""
        new = {turn.id for turn, _ in self.new}
        return any(turn.id in new for turn in turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inferred:
    """A preference that code accepts, with what is to be verified."""

    record: Record
    claim: Claim


def _group_by_scope(turns: Sequence[Turn], echo: Collection[str]) -> dict[str, list[tuple[Turn, str]]]:
    """Return the owner's turns by scope, without mere repetitions of injected texts."""
    found: dict[str, list[tuple[Turn, str]]] = defaultdict(list)
    for turn, before in _collect_evidence(turns):
        if not all(compute_key(sentence) in echo for sentence in split_sentences(turn.content)):
            found[turn.scope].append((turn, before))
    return found


def _select_last_evidence(evidence: Sequence[tuple[Turn, str]]) -> list[tuple[Turn, str]]:
    """Return the latest turns that fit beside the new ones, in order."""
    kept: list[tuple[Turn, str]] = []
    room = MOST_EARLIER_TOKENS
    for turn, before in reversed(evidence):
        room -= validation.estimate_tokens(_format_line(turn, before))
        if room < 0:
            break
        kept.append((turn, before))
    return kept[::-1]


def _is_preference(record: Record) -> bool:
    return record.kind == "preference" or is_within_category(record.category, USER_PREFERENCES)


def _collect_evidence(turns: Sequence[Turn]) -> Iterable[tuple[Turn, str]]:
    """Yield the owner's turns, each with what the assistant had said before it in the session.

    What the owner quotes is not the owner's, and what the assistant made of a tool's result is left out.
    """
    last: dict[str, str] = {}
    for turn in turns:
        if turn.role == "assistant" and turn.content.strip():
            last[turn.session] = "" if turn.origin in UNTRUSTED else turn.content
        elif turn.role == "user" and turn.origin == "owner" and (said := unquoted_text(turn.content)):
            yield replace(turn, content=said), last.get(turn.session, "")


def _split_parts(evidence: Sequence[tuple[Turn, str]]) -> Iterable[list[tuple[Turn, str]]]:
    part: list[tuple[Turn, str]] = []
    size = 0
    for turn, before in evidence[-MOST_TURNS:]:
        cost = validation.estimate_tokens(_format_line(turn, before))
        if part and size + cost > MOST_TOKENS:
            yield part
            part, size = [], 0
        part.append((turn, before))
        size += cost
    yield part


def _build_request(
    view: PassInput, scope: str, known: Sequence[Record], shown: _Shown, signals: Sequence[Signal]
) -> ModelRequest:
    records = "\n".join(f"- {escape_line(record.content)}" for record in known[:200])
    text = view.fill_prompt(
        PROMPT,
        records=records or "(nothing)",
        earlier="\n".join(_format_line(turn, before) for turn, before in shown.earlier) or "(nothing)",
        turns="\n".join(_format_line(turn, before) for turn, before in shown.new),
        signals=format_signals(signals),
    )
    return build_question(text, purpose=NAME, scope=scope, schema=SCHEMA, answer_tokens=2_000)


def _format_line(turn: Turn, before: str) -> str:
    said = escape_line(turn.content)[:_LONGEST_TURN]
    after = f" (after “{escape_line(before)[:200]}”)" if before else ""
    return f"- [{turn.id}]{after}: {said}"


# -- with a model ----------------------------------------------------------------------------------------


def _take(
    view: PassInput,
    draft: PlanBuilder,
    inferred: list[_Inferred],
    scope: str,
    reply: ModelReply,
    shown: _Shown,
    *,
    most: int,
) -> list[tuple[Mapping[str, Any], str]]:
    """Take the preferences of an answer. Return those that the turns do not show, with the reasons."""
    try:
        proposals = parse_answer(reply, SCHEMA).get("preferences")
    except UnusableReply as error:
        draft.fail(str(error))
        return []
    if not isinstance(proposals, list):
        draft.fail("the answer has no list of preferences")
        return []
    reasons = ((each, _consider(view, inferred, scope, each, shown, most=most)) for each in proposals)
    return [(each, why) for each, why in reasons if why]


def _consider(
    view: PassInput, inferred: list[_Inferred], scope: str, proposal: Any, shown: _Shown, *, most: int
) -> str:
    """Add a preference to those that code accepts, or return why it is refused."""
    given = proposal if isinstance(proposal, Mapping) else {}
    content = to_text(given.get("content"))
    turns = shown.turns
    evidence = [turns[name] for name in to_ids(given.get("evidence")) if name in turns]
    if not content or len(content) > LONGEST_INFERRED:
        return f"a preference has 1 to {LONGEST_INFERRED} characters, and not {len(content):,}"
    if not shown.has_new(evidence):
        return "nothing that was said since the last cycle shows it"
    if len(inferred) >= most:
        return f"at most {most} are taken of {len(shown.new)} new turns"
    if reason := explain_unshown(content, evidence, zone=view.zone):
        return reason
    if known := find_decided(view, scope, content):
        return f"it was proposed already as {known.id}"
    category = to_text(given.get("category"))
    within = is_within_category(category, USER_PREFERENCES)
    record = _build_record(
        view,
        scope,
        content,
        evidence,
        category=category if within else INFERRED,
        tags=to_texts(given.get("tags")),
    )
    claim = Claim(kind="preference", text=content, evidence=format_evidence(evidence, shown.before))
    inferred.append(_Inferred(record=record, claim=claim))
    return ""


def find_decided(view: PassInput, scope: str, content: str) -> Record | None:
    """Return the proposal that says the same, whatever the owner said to it."""
    words = extract_content(content)
    for record in view.proposals:
        known = extract_content(record.content)
        if record.scope == scope and len(words & known) >= _LEAST_SHARED * min(len(words), len(known)):
            return record
    return None


def _add(draft: PlanBuilder, record: Record) -> None:
    names = record.references
    turns = "a turn" if len(names) == 1 else f"{len(names)} turns"
    draft.add(record, sources=names, why=f"said in {turns} of the owner")


def _build_record(
    view: PassInput,
    scope: str,
    content: str,
    evidence: Sequence[Turn],
    *,
    category: str = INFERRED,
    tags: Sequence[str] = (),
) -> Record:
    """Return the record of a preference, a proposal where it needs the owner's permission."""
    record = Record(
        id=view.new_id(),
        content=content,
        category=category,
        kind="preference",
        layer="semantic",
        tags=tuple(dict.fromkeys(("inferred", *(tag for tag in tags if len(tag) <= 60))))[:10],
        confidence=0.7,
        source=f"session:{evidence[-1].session}"[:200],
        references=tuple(turn.id for turn in evidence)[:100],
        origin="agent",
        scope=scope,
        created_at=view.now,
        updated_at=view.now,
        last_seen_at=view.now,
        metadata=MappingProxyType({"source": "inferred"}),
    )
    if needs_permission(content, category):
        metadata = {**record.metadata, PERMISSION: "true", PROPOSAL: "open"}
        record = replace(
            record, metadata=MappingProxyType(metadata), archived_at=view.now, archive_reason=WAITING
        )
    return record


# -- without one -----------------------------------------------------------------------------------------


def _add_stated_preferences(view: PassInput, draft: PlanBuilder, scope: str, shown: _Shown) -> None:
    """Sentences that state a preference outright, said in two turns or more in the same words."""
    said: dict[str, list[tuple[str, Turn]]] = defaultdict(list)
    for turn, _ in (*shown.earlier, *shown.new):
        for sentence in split_sentences(turn.content):
            if len(sentence) <= 300 and not sentence.endswith("?") and _SHOWS.matches(sentence, "outright"):
                said[compute_key(sentence)].append((sentence, turn))
    for found in said.values():
        evidence = list({turn.id: turn for _, turn in found}.values())
        if len(evidence) >= NEEDED_TURNS and shown.has_new(evidence):
            _add(draft, _build_record(view, scope, found[-1][0].rstrip("."), evidence))
