"""Upkeep of changed records: ends of replaced ones by a model's word, and promotion by rule.

What changed since the last cycle is shown to the model beside earlier records about the same, pair by pair, in the
request that verifies what other passes have written. A record ends where the model says that the later one tells of
a change. Each record ends one other at most. One pair is made up, and one is of two records that have no word in
common: a model that sees a change in one of these is not believed.

A record that was filed as an event, but is a decision, a constraint or the like, and sure enough, is promoted to the
layer of its kind (golemcore). What tools, the web or an import said is never promoted.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.material import SimilarRecords
from reverie.consolidation.planning.plan_builder import PlanBuilder
from reverie.consolidation.planning.requests import (
    Flow,
    ask_for_json,
    build_schema,
    build_verification,
    iter_numbered,
    to_text,
)
from reverie.domain.record import HOME_LAYERS, UNTRUSTED, Record
from reverie.domain.text.escaping import escape_line

SUPERSEDE = "supersede"
PROMOTE = "promote"
PROMPT = "pair-check.md"

MOST_PAIRS = 30
"""Pairs of one request, those of the latest records."""

ALIKE = 2
"""Earlier records that are shown beside each changed one, those that share most words with it."""

MADE_UP = ("The user's aunt breeds alpacas near Cusco.", "The user's kitchen has a blue door.")
"""The pair whose later text changes nothing."""

_Pair = tuple[Record, Record]
_LEAST_ALIKE = 0.1
_LONGEST = 400
_CHANGED = "changed"
_TOKENS = 60  # of the answer, for each pair
_SCHEMA = build_schema({"pairs": [{"pair": int, "why": str, "verdict": (_CHANGED, "both", "same")}]})


def supersede(view: PassInput) -> Flow[Plan]:
    """Ask whether changed records end earlier ones about the same."""
    draft = PlanBuilder(view, name=SUPERSEDE)
    for scope in sorted({record.scope for record in view.records if record.id in view.changed}):
        pairs, unrelated = _find_pairs(view, scope)
        if pairs:
            yield from _ask(view, draft, scope, pairs, unrelated)
    return draft.plan(skipped="no record seems to have changed another")


def _find_pairs(view: PassInput, scope: str) -> tuple[list[_Pair], _Pair | None]:
    """Return earlier records of a scope, each with a changed one that may end it, and two that share no word."""
    records = [
        record
        for record in view.records
        if record.scope == scope and record.origin not in UNTRUSTED and record.valid_to is None
    ]
    similar = SimilarRecords(records)
    changed = sorted(
        (record for record in records if record.id in view.changed),
        key=lambda record: (record.created_at, record.id),
        reverse=True,
    )
    pairs = [
        (old, new)
        for new in changed
        for old in similar.find(new, most=ALIKE, least=_LEAST_ALIKE)
        if _get_start(old) < _get_start(new) and old.kind != "event"
    ][:MOST_PAIRS]
    unrelated = (
        (old, new)
        for (_, new), old in itertools.product(reversed(pairs), records)
        if _get_start(old) < _get_start(new) and not similar.share_words(old, new)
    )
    return pairs, next(unrelated, None)


def _ask(
    view: PassInput, draft: PlanBuilder, scope: str, pairs: Sequence[_Pair], unrelated: _Pair | None
) -> Flow[None]:
    """Ask about pairs, and end the earlier records that the later ones have changed."""
    asked: list[_Pair | None] = [*pairs]
    texts = [(_format(old), _format(new)) for old, new in pairs]
    at = len(texts) // 2
    asked.insert(at, None)
    texts.insert(at, (f"{texts[at][0][:13]}{MADE_UP[0]}", f"{texts[at][1][:13]}{MADE_UP[1]}"))
    if unrelated is not None:
        asked.insert(at, None)
        texts.insert(at, (_format(unrelated[0]), _format(unrelated[1])))
    blocks = (f"Pair {number}:\n- earlier {old}\n- later {new}" for number, (old, new) in enumerate(texts, 1))
    prompt = view.fill_prompt(PROMPT, pairs="\n\n".join(blocks))
    tokens = _TOKENS * (len(texts) + 3)
    request = build_verification(prompt, scope, schema=_SCHEMA, answer_tokens=tokens)
    answer = yield from ask_for_json(request)
    draft.spend(answer.usage)
    if answer.is_unusable:
        draft.note(f"no usable answer about what has changed: {answer.why}")
    elif answer.why and not answer.has_no_model:
        draft.fail(answer.why)
    verdicts: dict[int, bool] = {}
    for number, each in iter_numbered(answer.fields.get("pairs"), "pair"):
        is_changed = to_text(each.get("verdict")).lower() == _CHANGED
        verdicts[number] = is_changed and verdicts.get(number, True)  # of two the stricter counts
    changed = [pair for number, pair in enumerate(asked, 1) if verdicts.get(number)]
    if None in changed:
        draft.note("the model sees a change where there is none, so its word does not count")
        return
    for pair in changed:
        if pair is not None:
            draft.end(pair[0], by=pair[1], since=_get_start(pair[1]))


def _get_start(record: Record) -> datetime:
    return record.valid_from or record.created_at


def _format(record: Record) -> str:
    return f"({_get_start(record):%Y-%m-%d}) {escape_line(record.content)[:_LONGEST]}"


# -- promotion -------------------------------------------------------------------------------------------


def promote(view: PassInput) -> Flow[Plan]:
    """Move changed records to the layers of their kinds."""
    yield from ()
    draft = PlanBuilder(view, name=PROMOTE)
    for record in view.records:
        if record.id in view.changed and _is_promoted(record, view.promotion_min_confidence):
            layer = HOME_LAYERS[record.kind]
            after = replace(record, layer=layer)
            why = f"a {record.kind} of confidence {record.confidence:.2f} is {layer}"
            draft.change(record, after, why=why)
    return draft.plan(skipped="nothing new is due for promotion")


def _is_promoted(record: Record, min_confidence: float) -> bool:
    """Return whether a record is knowledge filed as an event."""
    return (
        not record.archived
        and record.layer == "episodic"
        and HOME_LAYERS[record.kind] != "episodic"
        and record.confidence >= min_confidence
        and record.origin not in UNTRUSTED
    )
