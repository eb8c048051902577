"""How does a memory grow smaller without growing poorer? The dream's first pass: fold, then merge and tidy.

First, without a model, what says the same by form is folded (`merging.folds`, `passes/duplicates`). Then the
model is shown what changed since the last cycle, each with the records that resemble it most, and proposes
merges, archiving of noise and better categories; `Draft` takes of that what loses nothing. One scope at a
time, so no model ever sees two people's memories side by side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

from reverie import tokens
from reverie.asks import Ask, Message, Reply
from reverie.categories import ANTI_PATTERNS
from reverie.passes.answers import Unusable, as_text, as_texts, parsed
from reverie.passes.draft import Draft
from reverie.passes.flow import NO_MODEL, Flow
from reverie.passes.view import View
from reverie.plans import Plan
from reverie.recall import analysis
from reverie.records import Record

NAME = "merge"
PROMPT = "dream.md"

MOST_RECORDS = 1_000
"""Records that are shown to a model in one cycle (RockBot's limit)."""

MOST_TOKENS = 8_000
"""Tokens of records in one question; a longer list is asked about in parts."""

ALIKE = 3
"""Records shown beside each changed one, those that share most words with it."""

_LEAST_ALIKE = 0.3
_ANSWER_KEYS = ("merge", "archive", "refile", "anti_patterns")
_KNOWN = {*_ANSWER_KEYS, "toDelete", "antiPatterns"}
_LIST = {"type": "array", "items": {"type": "object"}}
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {name: _LIST for name in _ANSWER_KEYS},
    "required": list(_ANSWER_KEYS),
}


class Fold(Protocol):
    """Records that say what another says."""

    @property
    def duplicates(self) -> Sequence[Record]:
        """Those that go."""
        ...

    @property
    def into(self) -> Record:
        """The one that stays, as it is."""
        ...

    @property
    def after(self) -> Record:
        """The one that stays, as it shall be."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """A moment in which a person put the assistant right.

    Attributes:
        turn: The id of the person's turn.
        text: What the person said.
        before: What the assistant had said.
    """

    turn: str
    text: str
    before: str = ""


def merge(view: View, folds: Iterable[Fold] = (), corrections: Sequence[Correction] = ()) -> Flow[Plan]:
    """The pass.

    Args:
        view: What there is.
        folds: Which of the records say the same by form (`reverie.merging.folds`).
        corrections: Where a person put the assistant right since the last cycle.
    """
    draft = Draft(view, name=NAME)
    fresh = [record for record in view.records if record.id in view.changed and not record.archived]
    if not fresh and not corrections:
        return draft.plan(skipped="nothing has changed since the last cycle")
    for fold in folds:
        draft.fold(fold.duplicates, into=fold.into, after=fold.after)
    scopes = sorted({record.scope for record in fresh})
    for scope in scopes or [""]:
        yield from _ask(view, draft, scope, corrections if scope == "" else ())
    return draft.plan(skipped="nothing to merge")


# -- asking ----------------------------------------------------------------------------------------------


def _ask(view: View, draft: Draft, scope: str, corrections: Sequence[Correction]) -> Flow[None]:
    """Show the model what changed in one scope, in parts, and take what the checks let through."""
    prompt = view.prompt(PROMPT)
    left = [record for record in draft.live if record.scope == scope]
    offered = list(_offers(left, view.changed))
    if not offered and corrections:
        offered = [[]]
    shown = 0
    for part in offered:
        shown += len(part)
        if shown > MOST_RECORDS:
            draft.note(f"at most {MOST_RECORDS} records are shown in one cycle; the rest waits for the next")
            return
        text = prompt.replace("{{records}}", _listed(part, view.changed) or "(none)")
        text = text.replace("{{corrections}}", _told(corrections) or "(none)")
        reply = yield Ask(
            messages=(Message(role="user", content=text),),
            purpose=NAME,
            schema=SCHEMA,
            max_tokens=4_000,
            temperature=0.2,
            timeout_s=180.0,
        )
        draft.spend(reply.usage)
        if not isinstance(reply, Reply):
            if reply.why == NO_MODEL.why:
                draft.note("no model: only what says the same by form was folded")
            else:
                draft.fail(reply.why)
            return
        _take(view, draft, reply, corrections)
        corrections = ()


def _take(view: View, draft: Draft, reply: Reply, corrections: Sequence[Correction]) -> None:
    try:
        answer = parsed(reply.text, keys=_ANSWER_KEYS)
        if reply.finish == "length" or not isinstance(answer, Mapping) or not _KNOWN & set(answer):
            raise Unusable("the answer was cut off, or is no JSON object of the form asked for")
    except Unusable as error:
        draft.fail(str(error))
        return
    for proposal in _objects(answer.get("merge")):
        sources = as_texts(proposal.get("sources") or proposal.get("sourceIds"))
        draft.merge(
            sources,
            as_text(proposal.get("content")),
            category=as_text(proposal.get("category")) or None,
            tags=as_texts(proposal.get("tags")),
            why=as_text(proposal.get("why")),
        )
    for proposal in _objects(answer.get("archive") or answer.get("toDelete"), key="id"):
        draft.archive(as_text(proposal.get("id")), why=as_text(proposal.get("why")) or "noise")
    for proposal in _objects(answer.get("refile")):
        draft.refile(
            as_text(proposal.get("id")),
            category=as_text(proposal.get("category")) or None,
            tags=as_texts(proposal.get("tags")) or None,
            why=as_text(proposal.get("why")),
        )
    for proposal in _objects(answer.get("anti_patterns") or answer.get("antiPatterns")):
        _learn(view, draft, proposal, corrections)


def _learn(view: View, draft: Draft, proposal: Mapping[str, Any], corrections: Sequence[Correction]) -> None:
    """An anti-pattern, if a correction stands behind it."""
    known = {correction.turn for correction in corrections}
    evidence = [name for name in as_texts(proposal.get("evidence")) if name in known]
    what = "add an anti-pattern"
    if not evidence:
        draft.refuse(what, "no correction stands behind it")
        return
    domain = as_text(proposal.get("domain")).lower().replace(" ", "-") or "general"
    content = as_text(proposal.get("content"))
    draft.add(
        Record(
            id=view.new_id(),
            content=content,
            category=f"{ANTI_PATTERNS}/{domain}",
            kind="anti_pattern",
            layer="procedural",
            tags=("anti-pattern",),
            origin="agent",
            references=tuple(evidence),
            created_at=view.now,
            updated_at=view.now,
            last_seen_at=view.now,
        ),
        sources=evidence,
        why="a correction",
    )


def _objects(value: Any, *, key: str = "") -> Iterator[Mapping[str, Any]]:
    """The objects in what should be a list of them; a bare text counts as the object with that `key`."""
    for each in value if isinstance(value, list) else [] if value is None else [value]:
        if isinstance(each, Mapping):
            yield each
        elif key and isinstance(each, str):
            yield {key: each}


# -- what is shown ---------------------------------------------------------------------------------------


def _offers(records: Sequence[Record], changed: frozenset[str]) -> Iterator[list[Record]]:
    """The changed records, each with those most alike, in parts of at most `MOST_TOKENS`."""
    words = {record.id: frozenset(analysis.tokens(record.searchable_text())) for record in records}
    having: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        for word in words[record.id]:
            having[word].append(record)
    part: dict[str, Record] = {}
    size = 0
    for record in sorted((r for r in records if r.id in changed), key=lambda r: (r.created_at, r.id)):
        group = [record, *_most_alike(record, words, having)]
        cost = sum(tokens.item_cost(each.content) for each in group if each.id not in part)
        if part and size + cost > MOST_TOKENS:
            yield list(part.values())
            part, size = {}, 0
        part |= {each.id: each for each in group}
        size += cost
    if part:
        yield list(part.values())


def _most_alike(
    record: Record, words: Mapping[str, frozenset[str]], having: Mapping[str, Sequence[Record]]
) -> list[Record]:
    """The records that share most words with it, by the Dice coefficient; common words count little."""
    own = words[record.id]
    shared: dict[str, float] = defaultdict(float)
    found: dict[str, Record] = {}
    for word in own:
        others = having[word]
        for other in others:
            if other.id != record.id:
                shared[other.id] += 1.0
                found[other.id] = other
    scores = {name: 2 * count / (len(own) + len(words[name])) for name, count in shared.items()}
    best = sorted(scores, key=lambda name: (-scores[name], name))[:ALIKE]
    return [found[name] for name in best if scores[name] >= _LEAST_ALIKE]


def _listed(records: Iterable[Record], changed: frozenset[str]) -> str:
    """A line for each record: id, what it is, and its words on one line."""
    lines = []
    for number, record in enumerate(records, 1):
        new = "NEW " if record.id in changed else ""
        about = ", ".join(chain((record.kind, record.category or "no category"), record.tags))
        lines.append(f"{number}. {new}[{record.id}] ({about}): {' '.join(record.content.split())}")
    return "\n".join(lines)


def _told(corrections: Iterable[Correction]) -> str:
    lines = []
    for correction in corrections:
        before = " ".join(correction.before.split())[:300]
        lines.append(f"- [{correction.turn}] after “{before}”: {' '.join(correction.text.split())[:500]}")
    return "\n".join(lines)
