"""Preferences that the owner did not state as a rule (RockBot).

The model names signals: turns that show a preference, each with its strength. Code counts them: one strong signal,
two mild ones or three casual ones. A turn counts as strong only if it corrects the assistant, states the preference
for good or is emphatic. Specifics are checked, and whether the turns show the preference is a claim that is
verified. A preference that touches money, credentials or security is only proposed. Texts that Reverie put into the
prompt are no evidence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any

from reverie.consolidation.patterns import holds_for_good
from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.flows import Flow, ask_in_parts, verify_claims
from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.material import split_sentences
from reverie.consolidation.planning.plan_builder import PlanBuilder
from reverie.consolidation.planning.requests import (
    Answer,
    build_schema,
    describe_unknown_keys,
    iter_objects,
    to_ids,
    to_text,
    to_texts,
)
from reverie.consolidation.planning.verification import PROMPT as CLAIM_PROMPT
from reverie.consolidation.planning.verification import Claim, ClaimCheck, format_evidence
from reverie.consolidation.sentences import compute_key
from reverie.domain.category import USER_PREFERENCES, is_within_category
from reverie.domain.category import to_search_words as category_words
from reverie.domain.conversation import SIGNAL, Turn
from reverie.domain.intake import classify, needs_permission
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import STANDING, UNTRUSTED, Record
from reverie.domain.similarity.grounding import (
    collect_evidence,
    extract_content,
    find_unknown_words,
    find_unsaid,
)
from reverie.domain.text import validation
from reverie.domain.text.escaping import escape_line, unquoted_text
from reverie.llm.protocol import ModelRequest

NAME = "preferences"
PROMPT = "pref-dream.md"
INFERRED = f"{USER_PREFERENCES}/inferred"

NEEDED = MappingProxyType({"strong": 1, "mild": 2, "casual": 3})
"""Turns that have to show a preference, by the strength of their signals (RockBot); stronger ones count for weaker."""

KNOWN_SHARE = 0.25
"""Share of a preference's words that the turns must have."""

MOST_INFERRED = 20
"""Preferences that are taken of one answer, and never more than there are new turns."""

LONGEST_INFERRED = 500
"""Characters of a preference that a model words."""

LEFT = "preferences.left"
"""The store's cursor with the ids of the owner's turns for which there was no room."""

MOST_TURNS = 400
MOST_TOKENS = 6_000
MOST_EARLIER_TOKENS = 3_000
_LONGEST_TURN = 600
_LEAST_SHARED = 0.7  # of the words of two preferences that are one

_EMPHATIC = defer_regex(r"!{2,}|\?!|\b[A-ZÄÖÜ]{4,}\b.*\b[A-ZÄÖÜ]{2,}\b")
_SIGNAL = {"turn": str, "strength": ("strong", "mild", "casual")}
_PREFERENCE = {"content": str, "category": str, "tags": [str], "signals": [_SIGNAL]}
SCHEMA = build_schema({"preferences": [_PREFERENCE]})
FORMS = build_schema(
    {"preferences": [_PREFERENCE], "toSave": [{**_PREFERENCE, "sourceIds": [str]}], "toDelete": [str]}
)

_Said = tuple[Turn, str]
"""A turn of the owner's, and what the assistant had said before it."""


def infer_preferences(view: PassInput) -> Flow[Plan]:
    """Infer preferences from the owner's new turns, and those of the week before that show the same."""
    builder = PlanBuilder(view, name=NAME)
    echo = {compute_key(sentence) for text in view.injected for sentence in split_sentences(text)}
    scopes = _group_by_scope(view.turns, echo)
    if not scopes:
        return builder.plan(skipped="the owner has said nothing new")
    all_earlier = _group_by_scope(view.earlier, echo)
    left: list[str] = []
    for scope in sorted(scopes):
        earlier = _select_last_evidence(all_earlier.get(scope, ()))
        left += yield from _infer_scope(view, builder, scope, scopes[scope], earlier)
    return builder.plan(skipped="nothing was inferred", cursors={LEFT: " ".join(left) or None})


def _infer_scope(
    view: PassInput, builder: PlanBuilder, scope: str, turns: Sequence[_Said], earlier: Sequence[_Said]
) -> Flow[list[str]]:
    """Add the preferences of one scope; return the ids of the turns for which the dream had no request left."""
    if len(turns) > MOST_TURNS:
        builder.note(f"the owner said more than {MOST_TURNS} things; the latest were looked at")
    left: list[str] = []
    inferred: list[tuple[Record, Claim]] = []
    answers: list[Answer] = []
    for whole in _split_parts(turns):
        parts = yield from ask_in_parts(whole, partial(_build_request, view, scope, earlier), forms=FORMS)
        for new, answer in parts:
            builder.spend(answer.usage)
            answers.append(answer)
            if answer.is_later:
                left += [turn.id for turn, _ in new]
            elif not answer.why:
                inferred += _read_answer(view, builder, answer.fields, earlier, new)
            elif not answer.has_no_model:
                builder.fail(answer.why)
    for note in describe_unknown_keys(answers):
        builder.note(note)
    check = ClaimCheck(
        claims=tuple(claim for _, claim in inferred),
        prompt=view.prompt(CLAIM_PROMPT),
        scope=scope,
        by_default=view.is_trusted is True,
    )
    verdicts = yield from verify_claims(check)
    builder.spend(verdicts.usage)
    if verdicts.failed:
        builder.fail(verdicts.failed)
    for (record, _), why in zip(inferred, verdicts.reasons, strict=True):
        if why:
            builder.refuse("infer a preference", why)
        else:
            names = record.references
            said = "a turn" if len(names) == 1 else f"{len(names)} turns"
            builder.add(
                record, sources=names, why=f"said in {said} of the owner", is_proposal=record.permission
            )
    return left


# -- signals -----------------------------------------------------------------------------------------------


def explain_unshown(preference: str, signals: Sequence[tuple[Turn, str]], *, zone: tzinfo = UTC) -> str:
    """Return why signals cannot show a preference; empty if they may.

    Args:
        preference: The preference, as a model words it.
        signals: The owner's turns that it names, each with its strength.
        zone: Time zone of the owner.
    """
    distinct = {compute_key(turn.content): (turn, strength) for turn, strength in signals}
    turns = [turn for turn, _ in distinct.values()]
    evidence = collect_evidence(turns, only_owner=True)
    strengths = [_limit_strength(turn, strength, zone) for turn, strength in distinct.values()]
    strong, mild = strengths.count("strong"), strengths.count("mild")
    counts = {"strong": strong, "mild": strong + mild, "casual": len(strengths)}
    if evidence and not any(counts[name] >= needed for name, needed in NEEDED.items()):
        return "one strong signal is needed, two mild ones or three casual ones"
    text = f"{preference[:1].lower()}{preference[1:]}"  # it begins with a verb, which is not a name
    return find_unsaid(text, evidence, zone=zone) or find_unknown_words(
        text, evidence, least=KNOWN_SHARE, zone=zone
    )


def _limit_strength(turn: Turn, strength: str, zone: tzinfo) -> str:
    """Return the strength of a signal, as far as the turn itself bears it out."""
    is_strong = (
        turn.metadata.get(SIGNAL) == "correction"
        or holds_for_good(turn.content)
        or _EMPHATIC.search(turn.content) is not None
        or any(_states_rule(sentence, turn, zone) for sentence in split_sentences(turn.content))
    )
    if strength == "strong" or strength not in NEEDED:
        return "strong" if is_strong else "mild" if strength == "strong" else "casual"
    return strength


def _states_rule(text: str, turn: Turn, zone: tzinfo) -> bool:
    """Return whether a text of the owner's states a rule or preference for good."""
    return classify(text, origin="owner", at=turn.at, zone=zone, door="conversation").kind in STANDING


def _group_by_scope(turns: Sequence[Turn], echo: Collection[str]) -> dict[str, list[_Said]]:
    """Return the owner's turns by scope, without mere repetitions of injected texts."""
    found: dict[str, list[_Said]] = defaultdict(list)
    for turn, before in _collect_evidence(turns):
        if not all(compute_key(sentence) in echo for sentence in split_sentences(turn.content)):
            found[turn.scope].append((turn, before))
    return found


def _select_last_evidence(evidence: Sequence[_Said]) -> list[_Said]:
    """Return the latest turns that fit, in order."""
    kept: list[_Said] = []
    room = MOST_EARLIER_TOKENS
    for turn, before in reversed(evidence):
        room -= validation.estimate_tokens(_format_line("T000", turn, before))
        if room < 0:
            break
        kept.append((turn, before))
    return kept[::-1]


def _collect_evidence(turns: Sequence[Turn]) -> Iterable[_Said]:
    """Yield the owner's turns, each with what the assistant had said before it in the session.

    What the owner quotes is not the owner's, and what the assistant made of a tool's result is left out.
    """
    last: dict[str, str] = {}
    for turn in turns:
        if turn.role == "assistant" and turn.content.strip():
            last[turn.session] = "" if turn.origin in UNTRUSTED else turn.content
        elif turn.role == "user" and turn.origin == "owner" and (said := unquoted_text(turn.content)):
            yield replace(turn, content=said), last.get(turn.session, "")


def _split_parts(evidence: Sequence[_Said]) -> Iterable[list[_Said]]:
    part: list[_Said] = []
    size = 0
    for turn, before in evidence[-MOST_TURNS:]:
        cost = validation.estimate_tokens(_format_line("T000", turn, before))
        if part and size + cost > MOST_TOKENS:
            yield part
            part, size = [], 0
        part.append((turn, before))
        size += cost
    yield part


def _format_line(label: str, turn: Turn, before: str) -> str:
    said = escape_line(turn.content)[:_LONGEST_TURN]
    after = f" (after “{escape_line(before)[:200]}”)" if before else ""
    return f"[{label}]{after}: {said}"


# -- the request and its answer ----------------------------------------------------------------------------


def _label(earlier: Sequence[_Said], new: Sequence[_Said]) -> dict[str, _Said]:
    """Return turns by their labels; the new ones follow the earlier ones."""
    return {f"T{at}": said for at, said in enumerate((*earlier, *new), 1)}


def _build_request(
    view: PassInput, scope: str, earlier: Sequence[_Said], new: Sequence[_Said]
) -> ModelRequest:
    known = (
        f"- {escape_line(record.content)}"
        for record in view.records
        if record.scope == scope
        and record.origin not in UNTRUSTED
        and (record.kind == "preference" or is_within_category(record.category, USER_PREFERENCES))
    )
    lines = [_format_line(label, *said) for label, said in _label(earlier, new).items()]
    places = {
        "records": "\n".join(islice(known, 100)) or "(nothing)",
        "earlier": "\n".join(lines[: len(earlier)]) or "(nothing)",
        "turns": "\n".join(lines[len(earlier) :]),
    }
    return view.build_question(PROMPT, places, purpose=NAME, scope=scope, schema=SCHEMA, answer_tokens=2_000)


def _read_answer(
    view: PassInput,
    builder: PlanBuilder,
    fields: Mapping[str, Any],
    earlier: Sequence[_Said],
    new: Sequence[_Said],
) -> list[tuple[Record, Claim]]:
    """Return the preferences of an answer that the turns may show, each with what is to be verified."""
    labels = _label(earlier, new)
    before = {turn.id: said for turn, said in labels.values()}
    fresh = {turn.id for turn, _ in new}
    most = min(MOST_INFERRED, len(new))
    found: list[tuple[Record, Claim]] = []
    if fields.get("toDelete"):
        builder.note("toDelete was not read: this pass removes nothing")
    for given in (
        *iter_objects(fields.get("preferences"), key="content"),
        *iter_objects(fields.get("toSave")),
    ):
        content, category = to_text(given.get("content")), to_text(given.get("category"))
        signals = _read_signals(given, labels)
        turns = [turn for turn, _ in signals]
        why = ""
        if not 1 <= len(content) <= LONGEST_INFERRED:
            why = f"a preference has 1 to {LONGEST_INFERRED} characters, and not {len(content):,}"
        elif fresh.isdisjoint(turn.id for turn in turns):
            why = "nothing that was said since the last dream shows it"
        elif len(found) >= most:
            why = f"at most {most} are taken of {len(new)} new turns"
        elif why := explain_unshown(content, signals, zone=view.zone):
            pass
        elif known := _find_proposal(view, content, turns[0].scope):
            why = f"it was proposed already as {known.id}"
        if why:
            builder.refuse("infer a preference", why)
            continue
        category = category if is_within_category(category, USER_PREFERENCES) else INFERRED
        record = _build_record(view, content, turns, category=category, tags=to_texts(given.get("tags")))
        claim = Claim(kind="preference", text=content, evidence=format_evidence(turns, before))
        found.append((record, claim))
    return found


def _read_signals(given: Mapping[str, Any], labels: Mapping[str, _Said]) -> list[tuple[Turn, str]]:
    """Return the turns that a preference names, with their strengths; bare labels have the strength that code sees."""
    named: dict[str, str] = {}
    for each in iter_objects(given.get("signals"), key="turn"):
        for name in to_ids(each.get("turn") or each.get("id")):
            named.setdefault(name.upper(), to_text(each.get("strength")).lower())
    for key in ("evidence", "turns", "source_ids", "sourceIds"):
        for name in to_ids(given.get(key)):
            named.setdefault(name.upper(), "")
    by_id = {turn.id.upper(): (turn, before) for turn, before in labels.values()} | dict(labels)
    return [(by_id[name][0], strength) for name, strength in named.items() if name in by_id]


def _find_proposal(view: PassInput, content: str, scope: str) -> Record | None:
    """Return the proposal that says the same, whatever the owner said to it."""
    words = extract_content(content)
    for record in view.proposals:
        known = extract_content(record.content)
        if record.scope == scope and len(words & known) >= _LEAST_SHARED * min(len(words), len(known)):
            return record
    return None


def _build_record(
    view: PassInput, content: str, evidence: Sequence[Turn], *, category: str, tags: Sequence[str]
) -> Record:
    """Return the record of a preference, marked if it needs the owner's permission."""
    return Record(
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
        scope=evidence[-1].scope,
        created_at=view.now,
        updated_at=view.now,
        last_seen_at=view.now,
        metadata=MappingProxyType({"source": "inferred"}),
        permission=needs_permission(f"{content} {category_words(category)}"),
    )
