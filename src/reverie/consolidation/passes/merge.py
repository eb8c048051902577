"""Merging: headlines over records that belong together.

A model is shown what changed, each record with those that resemble
it most, and proposes headlines over records, archiving of noise and better categories. A headline takes nothing
away: its records stay live. Code checks what a headline brings in, and the model is asked whether it is true; one that
is refused is not asked for again until one of its records has changed. One request never shows two scopes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.material import BAD, Signal, SimilarRecords, format_signals
from reverie.consolidation.planning.plan_builder import HeadlineProposal, PlanBuilder, find_new_injection
from reverie.consolidation.planning.requests import (
    Flow,
    ask_for_json,
    build_question,
    build_schema,
    build_verification,
    iter_numbered,
    iter_objects,
    read_answer,
    to_text,
    to_texts,
)
from reverie.domain.category import ANTI_PATTERNS
from reverie.domain.headlines import compute_parts_version, is_current
from reverie.domain.record import UNTRUSTED, Record
from reverie.domain.similarity.specifics import extract_specifics
from reverie.domain.text import validation
from reverie.domain.text.escaping import escape_line

NAME = "merge"
PROMPT = "dream.md"

LEFT = "dream.merge.left"
"""The store's cursor with the ids of changed records, and of turns with bad signals, for which there was no room."""

NOISE = "dream.merge.noise"
"""The store's cursor with the number of records archived as noise on each of the last thirty days."""

REFUSED = "dream.merge.refused"
"""The store's cursor with the versions of records whose headlines were refused for good."""

MOST_REFUSED = 500
"""Versions that are remembered, the latest."""

MOST_TOKENS = 8_000
"""Tokens of records in one question; others wait for the next cycle."""

LONGEST_LESSON = 500
"""Characters of an anti-pattern."""

MOST_TAGS = 8
LONGEST_TAG = 60
"""Labels that are taken of one proposal, and characters of one."""

ALIKE = 3
"""Records shown beside each changed one, those that share most words with it."""

VERIFY_PROMPT = "headline-check.md"

_LEAST_ALIKE = 0.3
_UNJUDGED = "the model did not say whether it is true"
_VERDICTS = build_schema(
    {
        "headlines": [
            {"headline": int, "supports": [str], "contradicts": [str], "leaves_out": [str], "adds": str}
        ]
    }
)

_ANSWER: Mapping[str, Any] = {
    "merge": [{"sources": [str], "content": str, "category": str, "tags": [str], "why": str}],
    "archive": [{"id": str, "why": str}],
    "refile": [{"id": str, "category": str, "tags": [str], "why": str}],
    "anti_patterns": [{"domain": str, "content": str, "evidence": [str]}],
}
SCHEMA = build_schema(_ANSWER)
_READ = build_schema({**_ANSWER, "toDelete": _ANSWER["archive"]})
"""The schema by which answers are read: the prompts of RockBot ask for `toDelete`."""


def merge(view: PassInput) -> Flow[Plan]:
    """Merge duplicates, end outdated headlines, and accept what a model proposes.

    Bad signals since the last dream may be the evidence of an anti-pattern.
    """
    draft = PlanBuilder(view, name=NAME)
    fresh = [record for record in view.records if record.id in view.changed and not record.archived]
    bad = [signal for signal in view.signals if signal.kind in BAD]
    if not fresh and not bad:
        return draft.plan(skipped="nothing is new")
    writer = HeadlineWriter(view, draft)
    changed = view.changed | writer.end_outdated()
    left: list[str] = []
    scopes = {record.scope for record in fresh} | {signal.scope for signal in bad}
    for scope in sorted(scopes):
        for is_trusted in (True, False) if view.now.toordinal() % 2 else (False, True):
            own_signals = [
                each
                for each in view.signals
                if each.scope == scope and (each.origin not in UNTRUSTED) is is_trusted
            ]
            left += yield from _request_merges(
                view, draft, writer, scope, own_signals, changed, is_trusted=is_trusted
            )
    dropped = {
        **view.dropped,
        (today := view.now.date().isoformat()): view.dropped.get(today, 0) + draft.dropped,
    }
    noise = " ".join(f"{day}={count}" for day, count in dropped.items() if count)
    left = list(dict.fromkeys((*left, *sorted(writer.left))))
    cursors = {LEFT: " ".join(left) or None, REFUSED: writer.refused or None, NOISE: noise or None}
    return draft.plan(skipped="nothing to merge", cursors=cursors)


# -- asking ----------------------------------------------------------------------------------------------


def _request_merges(
    view: PassInput,
    draft: PlanBuilder,
    writer: HeadlineWriter,
    scope: str,
    signals: Sequence[Signal],
    changed: frozenset[str],
    *,
    is_trusted: bool,
) -> Flow[list[str]]:
    """Show the model what changed in one scope, as much as one request holds, and take what the checks accept.

    What tools, the web and imports said is shown by itself, so that it cannot tell the model what to make of
    the rest.

    Returns:
        The ids of changed records, and of turns with bad signals, that there was no room to show.
    """
    live = [
        record
        for record in draft.live
        if record.scope == scope and (record.origin not in UNTRUSTED) is is_trusted
    ]
    waiting = {record.id for record in live if record.id in changed}
    if not waiting and not any(signal.kind in BAD for signal in signals):
        return []
    shown = _build_offer(live, changed, writer)
    text = view.fill_prompt(
        PROMPT,
        records=_format_records(shown, changed, writer) or "(none)",
        signals=format_signals(signals),
        corrections=format_signals(signals),
    )
    reply = yield build_question(
        text, purpose=NAME, scope=scope, schema=SCHEMA, answer_tokens=4_000, timeout_s=180.0
    )
    answer = read_answer(reply, _READ)
    draft.spend(answer.usage)
    ids = frozenset(record.id for record in shown)
    if not answer.why:
        yield from _take(view, draft, writer, answer.fields, scope, signals, shown_ids=ids)
    elif answer.is_later:
        return sorted(waiting.union(signal.id for signal in signals if signal.kind in BAD))
    elif answer.has_no_model:
        draft.note("no model: nothing was merged")
        return []
    elif answer.is_refused and not is_trusted:  # otherwise such a text could stop all merging
        draft.note(f"the model would not look at what tools, the web and imports say: {answer.why}")
    else:
        draft.fail(answer.why)
    if left := sorted(waiting - ids):
        draft.note(f"{len(left)} records wait for the next dream")
    return left


def _take(
    view: PassInput,
    draft: PlanBuilder,
    writer: HeadlineWriter,
    answer: Mapping[str, Any],
    scope: str,
    signals: Sequence[Signal],
    *,
    shown_ids: frozenset[str],
) -> Flow[None]:
    """Take the proposals of an answer that the checks accept."""
    hidden = frozenset(record.id for record in view.records if not record.archived) - shown_ids

    def is_shown(what: str, names: Iterable[str]) -> bool:
        """Return whether a proposal names no hidden record; otherwise it is refused."""
        unseen = [name for name in names if name in hidden]
        return not unseen or draft.refuse(what, f"{', '.join(unseen)} was not shown")

    headlines: list[HeadlineProposal] = []
    for given in iter_objects(answer.get("merge")):
        parts = to_texts(given.get("sources") or given.get("sourceIds"))
        proposal = HeadlineProposal(
            parts=tuple(dict.fromkeys(parts)),
            content=to_text(given.get("content")),
            category=to_text(given.get("category")) or None,
            tags=tuple(_limit_tags(to_texts(given.get("tags")))),
            why=to_text(given.get("why")),
        )
        if is_shown(proposal.describe(), parts):
            headlines.append(proposal)
    yield from writer.write(headlines)
    for given in iter_objects(answer.get("archive") or answer.get("toDelete"), key="id"):
        name = to_text(given.get("id"))
        if is_shown(f"archive {name}", [name]):
            draft.archive(name, why=to_text(given.get("why")) or "noise")
    for given in iter_objects(answer.get("refile")):
        name = to_text(given.get("id"))
        if is_shown(f"refile {name}", [name]):
            draft.refile(
                name,
                category=to_text(given.get("category")) or None,
                tags=_limit_tags(to_texts(given.get("tags"))) or None,
                why=to_text(given.get("why")),
            )
    for given in iter_objects(answer.get("anti_patterns")):
        _learn(view, draft, given, scope, signals)


def _limit_tags(tags: Sequence[str]) -> list[str]:
    """Return as many labels as one would search by."""
    return [tag for tag in tags if len(tag) <= LONGEST_TAG][:MOST_TAGS]


def _learn(
    view: PassInput, draft: PlanBuilder, proposal: Mapping[str, Any], scope: str, signals: Sequence[Signal]
) -> None:
    """Add an anti-pattern, if a correction, a failure or a thumb down supports it."""
    used = {name for step in draft.steps for name in step.sources}
    known = {signal.id: signal for signal in signals if signal.kind in BAD and signal.id not in used}
    evidence = [name for name in dict.fromkeys(to_texts(proposal.get("evidence"))) if name in known]
    what = "add an anti-pattern"
    if not evidence:
        draft.refuse(what, "no correction, failure of a tool or thumb down of its own stands behind it")
        return
    domain = to_text(proposal.get("domain")).lower().replace(" ", "-") or "general"
    content = to_text(proposal.get("content"))
    if len(content) > LONGEST_LESSON:
        draft.refuse(what, f"it would be longer than an anti-pattern is: {len(content):,} characters")
        return
    evidence_text = "\n".join(
        f"{known[name].text}\n{known[name].before}\n{known[name].note}" for name in evidence
    )
    if reason := find_new_injection([evidence_text], " ".join(content.split())):
        draft.refuse(what, reason)
        return
    stated, shown = extract_specifics(content), extract_specifics(evidence_text)
    new = stated.subtract(shown, "numbers", "addresses", "code")
    if invented := sorted(value for value in new if f" {value.casefold()} " not in shown.wording):
        draft.refuse(what, f"no evidence says: {', '.join(invented)}")
        return
    from_tools = any(known[name].origin in UNTRUSTED for name in evidence)
    draft.add(
        Record(
            id=view.new_id(),
            content=content,
            category=f"{ANTI_PATTERNS}/{domain}",
            kind="anti_pattern",
            layer="procedural",
            tags=("anti-pattern",),
            origin="tool" if from_tools else "agent",
            scope=scope,
            references=tuple(evidence),
            created_at=view.now,
            updated_at=view.now,
            last_seen_at=view.now,
        ),
        sources=evidence,
        why=", ".join(dict.fromkeys(known[name].kind.replace("_", " ") for name in evidence)),
    )


# -- what is shown ---------------------------------------------------------------------------------------


def _build_offer(records: Sequence[Record], changed: frozenset[str], writer: HeadlineWriter) -> list[Record]:
    """Return the earliest changed records that fit, each with similar ones and those under the same headline."""
    similar = SimilarRecords(records)
    shown: dict[str, Record] = {}
    size = 0
    for record in sorted((r for r in records if r.id in changed), key=lambda r: (r.created_at, r.id)):
        group = [record, *similar.find(record, most=ALIKE, least=_LEAST_ALIKE)]
        group += [mate for one in group for mate in writer.list_mates(one.id) if mate in similar]
        size += sum(validation.estimate_item_cost(each.content) for each in group if each.id not in shown)
        if shown and size > MOST_TOKENS:
            break
        shown |= {each.id: each for each in group}
    return list(shown.values())


def _format_records(records: Iterable[Record], changed: frozenset[str], writer: HeadlineWriter) -> str:
    """Return a line for each record: id, kind, category, tags, the number of its headline, and text."""
    lines = []
    clusters: dict[str, int] = {}
    for number, record in enumerate(records, 1):
        new = "NEW " if record.id in changed else ""
        mates = writer.list_mates(record.id)
        under = [f"under headline {clusters.setdefault(mates[0].id, len(clusters) + 1)}"] if mates else []
        about = ", ".join(chain((record.kind, record.category or "no category"), record.tags, under))
        lines.append(f"{number}. {new}[{record.id}] ({escape_line(about)}): {escape_line(record.content)}")
    return "\n".join(lines)


# -- headlines -------------------------------------------------------------------------------------------


class HeadlineWriter:
    """Headlines of one plan. Not safe for several threads."""

    def __init__(self, view: PassInput, draft: PlanBuilder) -> None:
        """Begin with the existing headlines."""
        self._view = view
        self._draft = draft
        self.left: set[str] = set()
        """Ids of records whose headline could not be verified in this dream, which had no request left."""
        self._refused = dict.fromkeys(view.refused)
        self._records = {record.id: record for record in view.records}
        self._over = {part: headline for headline in view.headlines for part in headline.parts}

    @property
    def refused(self) -> str:
        """Versions of records whose headlines were refused for good, for the cursor."""
        return " ".join(list(self._refused)[-MOST_REFUSED:])

    def list_mates(self, id: str) -> list[Record]:
        """Return the records under the same headline as a record, with it; none if it has no headline."""
        headline = self._over.get(id)
        return [] if headline is None else [self._records[name] for name in headline.parts]

    def end_outdated(self) -> frozenset[str]:
        """End headlines that are no longer true to their parts; return the ids of the parts that are live."""
        freed: set[str] = set()
        for headline in self._view.headlines:
            parts = [self._records[name] for name in headline.parts if name in self._records]
            if not is_current(headline, parts, self._view.now):
                self._draft.end_headline(headline, "one of its records has changed")
                freed.update(part.id for part in parts)
                for name in headline.parts:
                    self._over.pop(name, None)
        return frozenset(freed)

    def write(self, proposals: Iterable[HeadlineProposal]) -> Flow[None]:
        """Add the headlines that code and the model find no fault with.

        A headline is over the records that it names and those that share a headline with one of them.
        """
        asked: list[HeadlineProposal] = []
        named: set[str] = set()
        for proposal in proposals:
            replacing = {
                self._over[name].id: self._over[name] for name in proposal.parts if name in self._over
            }
            under = (name for headline in replacing.values() for name in headline.parts)
            parts = tuple(dict.fromkeys((*proposal.parts, *under)))
            proposal = replace(proposal, parts=parts, replacing=tuple(replacing.values()))
            if any(set(old.parts) == set(parts) for old in proposal.replacing):
                why = "they have one already"
            elif self._get_version(parts) in self._refused:
                why = "one was refused before, and none of these records has changed"
            elif not named.isdisjoint(parts):
                why = "another headline is proposed over one of these records"
            else:
                named.update(parts)
                if why := self._draft.explain_headline(parts, proposal.content):
                    self._refuse(proposal, why)
                else:
                    asked.append(proposal)
                continue
            self._draft.refuse(proposal.describe(), why, protects=parts)
        if asked:
            yield from self._verify(asked)

    def _refuse(self, proposal: HeadlineProposal, why: str) -> None:
        """Refuse a headline for good."""
        self._draft.refuse(proposal.describe(), why, protects=proposal.parts)
        if (version := self._get_version(proposal.parts)) is not None:
            self._refused[version] = None

    def _get_version(self, parts: Sequence[str]) -> str | None:
        """Return the version of the records; None if one of them is unknown."""
        records = [self._records[name] for name in parts if name in self._records]
        return compute_parts_version(records) if len(records) == len(parts) else None

    def _verify(self, proposals: Sequence[HeadlineProposal]) -> Flow[None]:
        """Ask which records each headline supports, contradicts or leaves out; add those that are true."""
        blocks = []
        for number, proposal in enumerate(proposals, 1):
            lines = [f"Headline {number}: {escape_line(proposal.content)}"]
            lines += [f"- [{name}] {escape_line(self._records[name].content)}" for name in proposal.parts]
            blocks.append("\n".join(lines))
        text = self._view.fill_prompt(VERIFY_PROMPT, headlines="\n\n".join(blocks))
        first = self._records[proposals[0].parts[0]]
        request = build_verification(text, first.scope, schema=_VERDICTS, answer_tokens=3_000)
        if first.origin in UNTRUSTED:
            request = replace(request, group="")  # what tools said is shown by itself
        answer = yield from ask_for_json(request)
        self._draft.spend(answer.usage)
        if answer.is_later:
            self.left.update(name for proposal in proposals for name in proposal.parts)
        elif answer.is_unusable:
            self._draft.note(f"no usable answer about headlines: {answer.why}")
        elif answer.why:
            self._draft.fail(answer.why)
        verdicts = dict(iter_numbered(answer.fields.get("headlines"), "headline"))
        for number, proposal in enumerate(proposals, 1):
            if (verdict := verdicts.get(number)) is None:
                self._draft.refuse(proposal.describe(), _UNJUDGED, protects=proposal.parts)
                continue
            supported = [name for name in to_texts(verdict.get("supports")) if name in proposal.parts]
            if why := _explain_wrong(proposal, verdict, supported):
                self._refuse(proposal, why)
            else:
                left_out = tuple(name for name in proposal.parts if name not in supported)
                self._draft.add_headline(replace(proposal, left_out=left_out))


def _explain_wrong(proposal: HeadlineProposal, verdict: Mapping[str, Any], supported: Sequence[str]) -> str:
    """Return why a headline is wrong by the model's verdict; empty if it is right."""
    wrong = [name for name in to_texts(verdict.get("contradicts")) if name in proposal.parts]
    added = to_text(verdict.get("adds"))
    if wrong:
        return f"it contradicts {', '.join(wrong)}"
    if added and added.strip(" .-").lower() not in ("none", "nothing", "no", "n/a"):
        return f"no record says: {added}"
    return "it tells of fewer than two records" if len(supported) < 2 else ""
