"""Preferences that the owner did not state as a rule (RockBot).

The model names signals: turns that show a preference, each with its strength. Code counts them: one strong signal,
two mild ones or three casual ones. A turn counts as strong only if it corrects the assistant, states the preference
for good or is emphatic. Specifics are checked, and whether the turns show the preference is a claim that is
verified. A preference that touches money, credentials or security is only proposed. What others said is no evidence,
also if it comes back in the owner's turn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any

from reverie.consolidation.answers import Question, iter_objects, to_category, to_ids, to_tags, to_text
from reverie.consolidation.flows import Claim, Flow, ask_in_parts, format_evidence, verify_claims
from reverie.consolidation.plan_builder import PlanBuilder
from reverie.consolidation.sentences import holds_for_good, split_sentences
from reverie.consolidation.values import PassInput, Plan, pair_with_said, split_by_size
from reverie.domain.category import USER_PREFERENCES, is_within_category
from reverie.domain.category import to_search_words as category_words
from reverie.domain.conversation import SIGNAL, Turn
from reverie.domain.intake import classify, needs_permission
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import STANDING, UNTRUSTED, Record, merge_tags
from reverie.domain.similarity.grounding import collect_evidence, extract_content, find_unsaid
from reverie.domain.text import validation
from reverie.domain.text.escaping import escape_line, unquoted_text
from reverie.domain.text.same_text import compute_fingerprint
from reverie.llm.protocol import ModelRequest

NAME = "preferences"
INFERRED = f"{USER_PREFERENCES}/inferred"

NEEDED = MappingProxyType({"strong": 1, "mild": 2, "casual": 3})
"""Turns that have to show a preference, by the strength of their signals (RockBot); stronger ones count for weaker."""

KNOWN_SHARE = 0.25
"""Share of a preference's words that the turns must have."""

MAX_INFERRED = 20
"""Preferences that are taken of one answer, and never more than there are new turns."""

LONGEST_INFERRED = 500
"""Characters of a preference that a model words."""

LEFT = "preferences.left"
"""The store's cursor with the ids of the owner's turns for which there was no room."""

MAX_TURNS = 400
MAX_TOKENS = 6_000
MAX_EARLIER_TOKENS = 3_000
_LONGEST_TURN = 600
_LEAST_SHARED = 0.7  # of the words of two preferences that are one

_EMPHATIC = defer_regex(r"!{2,}|\?!|\b[A-ZÄÖÜ]{4,}\b.*\b[A-ZÄÖÜ]{2,}\b")
_SIGNAL = {"turn": str, "strength": ("strong", "mild", "casual")}
_PREFERENCE = {"content": str, "category": str, "tags": [str], "signals": [_SIGNAL]}
INFER = Question(
    purpose=NAME,
    prompt="pref-dream.md",
    answer={"preferences": [_PREFERENCE]},
    others={"to_save": [{**_PREFERENCE, "source_ids": [str]}], "to_delete": [str]},
)

_Said = tuple[Turn, str]
"""A turn of the owner's, and what the assistant had said before it."""


def infer_preferences(view: PassInput) -> Flow[Plan]:
    """Infer preferences from the owner's new turns, and those of the week before that show the same."""
    builder = PlanBuilder(view, name=NAME)
    others = [record.content for record in view.records if record.origin in UNTRUSTED]
    echo = {compute_fingerprint(sentence) for text in others for sentence in split_sentences(text)}
    scopes = _group_evidence(view.turns, echo)
    if not scopes:
        return builder.plan(skipped="the owner has said nothing new")
    all_earlier = _group_evidence(view.earlier, echo)
    left: list[str] = []
    for scope in sorted(scopes):
        earlier = next(split_by_size(all_earlier.get(scope, [])[::-1], _measure, most=MAX_EARLIER_TOKENS), [])
        inferred: list[tuple[Record, Claim]] = []
        if len(scopes[scope]) > MAX_TURNS:
            builder.note(f"the owner said more than {MAX_TURNS} things; the latest were looked at")
        for whole in split_by_size(scopes[scope][-MAX_TURNS:], _measure, most=MAX_TOKENS):
            build = partial(_build_request, view, scope, earlier[::-1])
            for new, answer in (yield from ask_in_parts(whole, build, forms=INFER.forms)):
                if builder.take_answer(answer, "turns"):
                    inferred += _read_answer(builder, answer.fields, earlier[::-1], new)
                elif answer.is_later or answer.is_unusable:
                    left += [turn.id for turn, _ in new]
        verdicts = yield from verify_claims(view, [claim for _, claim in inferred], scope=scope)
        builder.take_verdicts(verdicts)
        for (record, _), why in zip(inferred, verdicts.reasons, strict=True):
            if why:
                builder.refuse("infer a preference", why)
            else:
                why = f"said in turns of the owner: {len(record.references)}"
                builder.add(record, sources=record.references, why=why, is_proposal=record.permission)
    return builder.plan(skipped="nothing was inferred", cursors={LEFT: " ".join(left) or None})


# -- signals -----------------------------------------------------------------------------------------------


def explain_unshown(preference: str, signals: Sequence[tuple[Turn, str]], *, zone: tzinfo = UTC) -> str:
    """Return why signals cannot show a preference; empty if they may.

    Args:
        preference: The preference, as a model words it.
        signals: The owner's turns that it names, each with its strength.
        zone: Time zone of the owner.
    """
    distinct = {compute_fingerprint(turn.content): (turn, strength) for turn, strength in signals}
    evidence = collect_evidence([turn for turn, _ in distinct.values()], only_owner=True)
    strengths = [_limit_strength(turn, strength, zone) for turn, strength in distinct.values()]
    strong, mild = strengths.count("strong"), strengths.count("mild")
    counts = {"strong": strong, "mild": strong + mild, "casual": len(strengths)}
    if evidence and not any(counts[name] >= needed for name, needed in NEEDED.items()):
        return "one strong signal is needed, two mild ones or three casual ones"
    text = f"{preference[:1].lower()}{preference[1:]}"  # it begins with a verb, which is not a name
    return find_unsaid(text, evidence, least=KNOWN_SHARE, zone=zone)


def _limit_strength(turn: Turn, strength: str, zone: tzinfo) -> str:
    """Return the strength of a signal, as far as the turn itself bears it out."""
    if strength in ("mild", "casual"):
        return strength
    is_strong = (
        turn.metadata.get(SIGNAL) == "correction"
        or holds_for_good(turn.content)
        or _EMPHATIC.search(turn.content) is not None
        or any(
            classify(text, origin="owner", at=turn.at, zone=zone, door="conversation").kind in STANDING
            for text in split_sentences(turn.content)
        )
    )
    return "strong" if is_strong else "mild" if strength == "strong" else "casual"


def _group_evidence(turns: Sequence[Turn], echo: Collection[str]) -> dict[str, list[_Said]]:
    """Return the owner's turns by scope, each with what the assistant had said before it in the session.

    What the owner quotes is not the owner's, what the assistant made of a tool's result is left out, and so are mere
    repetitions of what tools, the web and imports say.
    """
    found: dict[str, list[_Said]] = {}
    for turn, before in pair_with_said(turns):
        said = unquoted_text(turn.content) if turn.role == "user" and turn.origin == "owner" else ""
        if any(compute_fingerprint(sentence) not in echo for sentence in split_sentences(said)):
            found.setdefault(turn.scope, []).append((replace(turn, content=said), before))
    return found


def _measure(said: _Said) -> int:
    return validation.estimate_tokens(_format_line("T000", *said))


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
    return INFER.build(view.prompt(INFER.prompt), places, scope=scope)


def _read_answer(
    builder: PlanBuilder, fields: Mapping[str, Any], earlier: Sequence[_Said], new: Sequence[_Said]
) -> list[tuple[Record, Claim]]:
    """Return the preferences of an answer that the turns may show, each with what is to be verified."""
    view, labels = builder.view, _label(earlier, new)
    before = {turn.id: said for turn, said in labels.values()}
    fresh = {turn.id for turn, _ in new}
    most = min(MAX_INFERRED, len(new))
    found: list[tuple[Record, Claim]] = []
    if fields.get("to_delete"):
        builder.note("toDelete was not read: this pass removes nothing")
    for given in (
        *iter_objects(fields.get("preferences"), key="content"),
        *iter_objects(fields.get("to_save")),
    ):
        content = to_text(given.get("content"))
        signals = _read_signals(given, labels)
        turns = [turn for turn, _ in signals]
        if not 1 <= len(content) <= LONGEST_INFERRED:
            why = f"a preference has 1 to {LONGEST_INFERRED} characters, and not {len(content):,}"
        elif fresh.isdisjoint(turn.id for turn in turns):
            why = "nothing that was said since the last dream shows it"
        elif len(found) >= most:
            why = f"at most {most} are taken of {len(new)} new turns"
        else:
            why = explain_unshown(content, signals, zone=view.zone) or _explain_known(view, content, turns)
        if why:
            builder.refuse("infer a preference", why)
        else:
            claim = Claim(kind="preference", text=content, evidence=format_evidence(turns, before))
            found.append((_build_record(view, content, turns, given), claim))
    return found


def _read_signals(given: Mapping[str, Any], labels: Mapping[str, _Said]) -> list[tuple[Turn, str]]:
    """Return the turns that a preference names, with their strengths; bare labels have the strength that code sees."""
    named: dict[str, str] = {}
    for each in iter_objects(given.get("signals"), key="turn"):
        for name in to_ids(each.get("turn") or each.get("id")):
            named.setdefault(name.upper(), to_text(each.get("strength")).lower())
    for key in ("evidence", "turns", "source_ids"):
        for name in to_ids(given.get(key)):
            named.setdefault(name.upper(), "")
    known = {turn.id.upper(): turn for turn, _ in labels.values()}
    known |= {label: turn for label, (turn, _) in labels.items()}
    return [(known[name], strength) for name, strength in named.items() if name in known]


def _explain_known(view: PassInput, content: str, turns: Sequence[Turn]) -> str:
    """Return which proposal says the same, whatever the owner said to it; empty if none does."""
    words = extract_content(content)
    for record in view.proposals:
        known = extract_content(record.content)
        is_same = len(words & known) >= _LEAST_SHARED * min(len(words), len(known))
        if record.scope == turns[0].scope and is_same:
            return f"it was proposed already as {record.id}"
    return ""


def _build_record(
    view: PassInput, content: str, evidence: Sequence[Turn], given: Mapping[str, Any]
) -> Record:
    """Return the record of a preference, marked if it needs the owner's permission."""
    category = to_category(given.get("category")) or INFERRED
    category = category if is_within_category(category, USER_PREFERENCES) else INFERRED
    return view.build_record(
        content,
        category=category,
        kind="preference",
        layer="semantic",
        tags=merge_tags(("inferred",), to_tags(given.get("tags"))),
        confidence=0.7,
        source=f"session:{evidence[-1].session}"[:200],
        references=tuple(turn.id for turn in evidence)[:100],
        origin="agent",
        scope=evidence[-1].scope,
        metadata=MappingProxyType({"source": "inferred"}),
        permission=needs_permission(f"{content} {category_words(category)}"),
    )
