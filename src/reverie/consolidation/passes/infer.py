"""Inference of preferences that the owner did not state (RockBot).

Only the owner's turns are evidence: two of them, or one that states the preference for good or corrects the assistant.
Its specifics and some of its words must be in them. Whether they show it is a question for the model, asked once more.
A preference about security, credentials or money is only proposed, and is in no prompt before the owner accepts it.
Texts that Reverie put into the prompt are no evidence. Without a model, repeated statements of the owner are taken.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from types import MappingProxyType
from typing import Any

from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.material import compute_key, format_signals, split_sentences
from reverie.consolidation.planning.plan_builder import PlanBuilder
from reverie.consolidation.planning.replies import (
    UnusableReply,
    parse_answer,
    to_ids,
    to_text,
    to_texts,
)
from reverie.consolidation.planning.requests import (
    LATER,
    NO_MODEL,
    TEXT,
    TEXTS,
    Flow,
    ask_in_parts,
    build_list,
    build_object,
    build_question,
)
from reverie.consolidation.planning.verification import Claim, format_evidence, verify_claims
from reverie.consolidation.rules.patterns import PatternFile
from reverie.domain.category import USER_PREFERENCES, is_within_category
from reverie.domain.conversation import SIGNAL, Turn
from reverie.domain.record import UNTRUSTED, Record
from reverie.domain.similarity.grounding import (
    collect_evidence,
    extract_content,
    find_unknown_words,
    find_unsaid,
)
from reverie.domain.text import validation
from reverie.domain.text.escaping import escape_line, unquoted_text
from reverie.llm.messages import ModelReply, ModelRequest

NAME = "infer"
PROMPT = "pref-dream.md"
INFERRED = f"{USER_PREFERENCES}/inferred"
PERMISSION = "requires_user_permission"

NEEDED_TURNS = 2
"""Turns that have to show a preference if none states it for good."""

KNOWN_SHARE = 0.25
"""Share of a preference's words that the turns must have."""

PATTERNS = PatternFile("evidence", re.IGNORECASE)
"""Patterns of turns that show a preference."""

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

SCHEMA = build_object(preferences=build_list(content=TEXT, category=TEXT, evidence=TEXTS, tags=TEXTS))


def infer(view: PassInput) -> Flow[Plan]:
    """Infer preferences from the owner's turns.

    The turns are read in their order, the owner's as evidence and the assistant's as what they answer. Turns of the
    week before count too, if a new turn shows the same. Signals are shown to the model, and are no evidence.
    """
    draft = PlanBuilder(view, name=NAME)
    echo = {compute_key(sentence) for text in view.injected for sentence in split_sentences(text)}
    scopes = _group_by_scope(view.turns, echo)
    if not scopes:
        return draft.plan(skipped="the owner has said nothing new")
    earlier = _group_by_scope(view.earlier, echo)
    left: list[str] = []
    for scope in sorted(scopes):
        inference = _ScopeInference(view, draft, scope)
        if len(scopes[scope]) > MOST_TURNS:
            draft.note(f"the owner said more than {MOST_TURNS} things; the latest were looked at")
        for part in _split_parts(scopes[scope]):
            shown = _Shown(new=part, earlier=_select_last_evidence(earlier.get(scope, ())))
            yield from inference.ask(shown)
        yield from inference.verify()
        left += inference.left
    return draft.plan(skipped="nothing was inferred", cursors={LEFT: " ".join(left) or None})


def needs_permission(content: str, category: str | None = None) -> bool:
    """Return whether a preference touches security, credentials or money, so that the owner is asked each time.

    >>> needs_permission("Prefers to pay by card"), needs_permission("Prefers short answers")
    (True, False)
    """
    return PATTERNS.matches(f"{content} {(category or '').replace('/', ' ').replace('-', ' ')}", "sensitive")


def explain_unshown(preference: str, turns: Sequence[Turn], *, zone: tzinfo = UTC) -> str:
    """Return why turns cannot show a preference; empty if they may.

    Args:
        preference: The preference, as a model words it.
        turns: The owner's turns that it cites.
        zone: Time zone of the owner.
    """
    distinct = {compute_key(turn.content): turn for turn in turns}
    evidence = collect_evidence(distinct.values(), only_owner=True)
    is_strong = any(
        PATTERNS.matches(turn.content, "for_good") or turn.metadata.get(SIGNAL) == "correction"
        for turn in distinct.values()
    )
    if evidence and len(evidence) < NEEDED_TURNS and not is_strong:
        return f"{NEEDED_TURNS} turns are needed, or one that states it for good"
    text = f"{preference[:1].lower()}{preference[1:]}"  # it begins with a verb, which is not a name
    return find_unsaid(text, evidence, zone=zone) or find_unknown_words(
        text, evidence, least=KNOWN_SHARE, zone=zone
    )


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

    @property
    def most(self) -> int:
        """Most preferences that are taken from one answer about them."""
        return min(MOST_INFERRED, len(self.new))

    def has_new(self, turns: Iterable[Turn]) -> bool:
        """Return whether one of these turns is new."""
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


def _format_line(turn: Turn, before: str) -> str:
    said = escape_line(turn.content)[:_LONGEST_TURN]
    after = f" (after “{escape_line(before)[:200]}”)" if before else ""
    return f"- [{turn.id}]{after}: {said}"


class _ScopeInference:
    """Inference of the preferences of one scope."""

    def __init__(self, view: PassInput, draft: PlanBuilder, scope: str) -> None:
        """Begin with nothing inferred."""
        self.left: list[str] = []
        """Ids of turns for which the dream had no request left."""
        self._view = view
        self._draft = draft
        self._scope = scope
        self._signals = [each for each in view.signals if each.scope == scope]
        self._known = [
            record
            for record in view.records
            if record.scope == scope and _is_preference(record) and record.origin not in UNTRUSTED
        ]
        self._inferred: list[_Inferred] = []
        self._room = 0  # preferences that may still be taken of the present answer

    # -- with a model ------------------------------------------------------------------------------------

    def ask(self, shown: _Shown) -> Flow[None]:
        """Ask for the preferences that turns show."""
        parts = yield from ask_in_parts(shown.new, lambda part: self._build_request(replace(shown, new=part)))
        for new, reply in parts:
            part = replace(shown, new=new)
            self._draft.spend(reply.usage)
            if reply == LATER:
                self.left += [turn.id for turn, _ in new]
            elif isinstance(reply, ModelReply):
                self._take(reply, part)
            elif reply.why != NO_MODEL.why:
                self._draft.fail(reply.why)
            else:
                self._draft.note("no model: only what was said outright and again was taken")
                self._add_stated_preferences(part)

    def verify(self) -> Flow[None]:
        """Add the preferences of which the model says, asked once more, that the turns show them."""
        claims = [each.claim for each in self._inferred]
        verdicts = yield from verify_claims(self._view, claims, scope=self._scope)
        self._draft.spend(verdicts.usage)
        if verdicts.failed:
            self._draft.fail(verdicts.failed)
        for each, why in zip(self._inferred, verdicts.reasons, strict=True):
            if why:
                self._draft.refuse("infer a preference", why)
            else:
                self._add(each.record)

    def _build_request(self, shown: _Shown) -> ModelRequest:
        records = "\n".join(f"- {escape_line(record.content)}" for record in self._known[:200])
        text = self._view.fill_prompt(
            PROMPT,
            records=records or "(nothing)",
            earlier="\n".join(_format_line(turn, before) for turn, before in shown.earlier) or "(nothing)",
            turns="\n".join(_format_line(turn, before) for turn, before in shown.new),
            signals=format_signals(self._signals),
        )
        return build_question(text, purpose=NAME, scope=self._scope, schema=SCHEMA, answer_tokens=2_000)

    def _take(self, reply: ModelReply, shown: _Shown) -> None:
        """Accept the preferences of an answer that the turns may show."""
        try:
            proposals = parse_answer(reply, SCHEMA).get("preferences")
        except UnusableReply as error:
            self._draft.fail(str(error))
            return
        if not isinstance(proposals, list):
            self._draft.fail("the answer has no list of preferences")
            return
        self._room = shown.most
        for proposal in proposals:
            if why := self._consider(proposal, shown):
                self._draft.refuse("infer a preference", why)

    def _consider(self, proposal: Any, shown: _Shown) -> str:
        """Add a preference to those that code accepts, or return why it is refused."""
        given = proposal if isinstance(proposal, Mapping) else {}
        content = to_text(given.get("content"))
        turns = shown.turns
        evidence = [turns[name] for name in to_ids(given.get("evidence")) if name in turns]
        if not content or len(content) > LONGEST_INFERRED:
            return f"a preference has 1 to {LONGEST_INFERRED} characters, and not {len(content):,}"
        if not shown.has_new(evidence):
            return "nothing that was said since the last cycle shows it"
        if not self._room:
            return f"at most {shown.most} are taken of {len(shown.new)} new turns"
        if reason := explain_unshown(content, evidence, zone=self._view.zone):
            return reason
        if known := self._find_decided(content):
            return f"it was proposed already as {known.id}"
        category = to_text(given.get("category"))
        within = is_within_category(category, USER_PREFERENCES)
        record = self._build_record(
            content,
            evidence,
            category=category if within else INFERRED,
            tags=to_texts(given.get("tags")),
        )
        claim = Claim(kind="preference", text=content, evidence=format_evidence(evidence, shown.before))
        self._inferred.append(_Inferred(record=record, claim=claim))
        self._room -= 1
        return ""

    def _find_decided(self, content: str) -> Record | None:
        """Return the proposal that says the same, whatever the owner said to it."""
        words = extract_content(content)
        for record in self._view.proposals:
            known = extract_content(record.content)
            shared = len(words & known)
            if record.scope == self._scope and shared >= _LEAST_SHARED * min(len(words), len(known)):
                return record
        return None

    # -- without one -------------------------------------------------------------------------------------

    def _add_stated_preferences(self, shown: _Shown) -> None:
        """Sentences that state a preference outright, said in two turns or more in the same words."""
        said: dict[str, list[tuple[str, Turn]]] = defaultdict(list)
        for turn, _ in (*shown.earlier, *shown.new):
            for sentence in split_sentences(turn.content):
                if (
                    len(sentence) <= 300
                    and not sentence.endswith("?")
                    and PATTERNS.matches(sentence, "outright")
                ):
                    said[compute_key(sentence)].append((sentence, turn))
        for found in said.values():
            evidence = list({turn.id: turn for _, turn in found}.values())
            if len(evidence) >= NEEDED_TURNS and shown.has_new(evidence):
                self._add(self._build_record(found[-1][0].rstrip("."), evidence))

    # -- records -----------------------------------------------------------------------------------------

    def _add(self, record: Record) -> None:
        names = record.references
        turns = "a turn" if len(names) == 1 else f"{len(names)} turns"
        why = f"said in {turns} of the owner"
        self._draft.add(record, sources=names, why=why, is_proposal=PERMISSION in record.metadata)

    def _build_record(
        self, content: str, evidence: Sequence[Turn], *, category: str = INFERRED, tags: Sequence[str] = ()
    ) -> Record:
        """Return the record of a preference, marked if it needs the owner's permission."""
        now = self._view.now
        record = Record(
            id=self._view.new_id(),
            content=content,
            category=category,
            kind="preference",
            layer="semantic",
            tags=tuple(dict.fromkeys(("inferred", *(tag for tag in tags if len(tag) <= 60))))[:10],
            confidence=0.7,
            source=f"session:{evidence[-1].session}"[:200],
            references=tuple(turn.id for turn in evidence)[:100],
            origin="agent",
            scope=self._scope,
            created_at=now,
            updated_at=now,
            last_seen_at=now,
            metadata=MappingProxyType({"source": "inferred"}),
        )
        if needs_permission(content, category):
            record = replace(record, metadata=MappingProxyType({**record.metadata, PERMISSION: "true"}))
        return record
