"""Tidying: headlines, filing, lessons from corrections, ends of replaced records, and promotion.

Each job is a request of its own, with short labels and one form of answer. A job whose answer cannot be used waits for
the next dream, and the others are done. Headlines and ends are claims that are verified with those of other passes. A
headline takes nothing away: its records stay live. One request never shows two scopes, and what tools, the web and
imports said is shown by itself.

The pass accepts RockBot's form too: `toSave` with `sourceIds`, and `toDelete`. There a source stays live under its
headline, whatever `toDelete` says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reverie.consolidation.answers import (
    Question,
    iter_objects,
    to_category,
    to_ids,
    to_label,
    to_tags,
    to_text,
)
from reverie.consolidation.flows import Claim, Flow, ask_once, verify_claims
from reverie.consolidation.plan_builder import PlanBuilder, find_new_injection
from reverie.consolidation.values import PassInput, Plan, Signal, format_signals
from reverie.domain.category import ANTI_PATTERNS, GENERAL
from reverie.domain.change import Change
from reverie.domain.errors import InvalidInput
from reverie.domain.filter import get_start
from reverie.domain.headlines import build_headline, explain_mismatch, is_current, list_left_out
from reverie.domain.record import HOME_LAYERS, UNTRUSTED, Record
from reverie.domain.similarity.grounding import find_lost, find_new_specifics
from reverie.domain.text import validation
from reverie.domain.text.escaping import escape_line
from reverie.domain.text.specifics import extract_specifics
from reverie.domain.text.tokenizer import tokenize

NAME = "tidy"
DIRECTIVE = "dream.md"
"""The user's own prompt, which does headlines and filing in one request; none ships."""

NOISE = "noise"
"""The reason why a record that is not worth keeping is archived, and the category by which a model says so."""

LEFT = "tidy.left"
"""The store's cursor with the work that waits: the job and the id of each record or signal."""

MAX_TOKENS = 4_000
"""Tokens of records in one request; others wait for the next dream."""

LONGEST_LESSON = 500
"""Characters of an anti-pattern."""

ALIKE = 3
"""Records shown with each changed one, those that share most words with it."""

MAX_PAIRS = 20
"""Pairs of an earlier and a later record in one verification."""

MAX_PARTS = 30
"""Maximum number of records under one headline."""

LONGEST_HEADLINE = 800
"""Maximum length of a headline in characters: as much as a prompt shows of a record."""

_SLACK = 20  # characters of each record for the words that join it to the others
_TOLD_SHARE = 0.5
"""Share of a record's words that a headline must have to tell it."""

_LEAST_ALIKE = 0.3
_SOURCES = ("records", "evidence", "source_ids", "sources")
_NOT_BELIEVED = "the model is not believed, so nothing was filed or dropped"

_FILE = {"record": str, "category": str, "tags": [str]}
_HEADLINE = {"records": [str], "content": str, "category": str, "tags": [str]}
_LESSON = {"content": str, "domain": str, "evidence": [str]}
_ROCKBOT = {"to_save": [{**_HEADLINE, "source_ids": [str]}], "to_delete": [str]}


def _define_job(job: str, prompt: str, **answer: Any) -> Question:
    return Question(purpose=NAME, job=job, prompt=prompt, answer=answer, others=_ROCKBOT, timeout_s=180.0)


HEADLINES = _define_job("headlines", "tidy-headlines.md", headlines=[_HEADLINE])
FILING = _define_job("filing", "tidy-filing.md", file=[_FILE])
LESSONS = _define_job("lessons", "tidy-lessons.md", lessons=[_LESSON])
WHOLE = _define_job("headlines", DIRECTIVE, headlines=[_HEADLINE], file=[_FILE])
"""The job of the user's own directive."""


def tidy(view: PassInput) -> Flow[Plan]:
    """Do the jobs that have work, and end what later records have replaced."""
    builder = PlanBuilder(view, name=NAME)
    writer = HeadlineWriter(builder)
    work = _Work(view, view.changed | writer.end_outdated())
    if not work.scopes:
        return builder.plan(skipped="nothing is new")
    for scope in work.scopes:
        for is_trusted in (True, False) if view.now.toordinal() % 2 else (False, True):
            part = _Part(builder, writer, work, scope, is_trusted)
            for job in work.list_jobs(scope, is_trusted=is_trusted):
                yield from part.ask(job)
            yield from part.verify()
    return builder.plan(skipped="nothing to tidy", cursors={LEFT: work.encode()})


class _Work:
    """What each job is to consider, what has waited longest first. Not safe for several threads."""

    def __init__(self, view: PassInput, changed: Iterable[str]) -> None:
        self._has_directive = bool(view.read_prompt(DIRECTIVE).strip())
        self._known: dict[str, Record | Signal] = {each.id: each for each in view.signals}
        self._known |= {each.id: each for each in view.records}
        due = [(job, name) for job, _, name in (word.rpartition(":") for word in view.left)]
        due += [(LESSONS.job, signal.id) for signal in view.signals]
        for record in (each for each in view.records if each.id in changed):
            due.append((HEADLINES.job, record.id))
            due += [(FILING.job, record.id)] * ((record.category or GENERAL) == GENERAL)
        self._due = dict.fromkeys(each for each in due if each[1] in self._known)
        self.scopes = sorted({self._known[name].scope for _, name in self._due})

    def list_jobs(self, scope: str, *, is_trusted: bool) -> list[Question]:
        """Return the jobs that have work, the one that has waited longest first."""
        places = {each: place for place, each in enumerate(self._due)}
        found = {}
        for job in (WHOLE, LESSONS) if self._has_directive else (HEADLINES, FILING, LESSONS):
            for each in self.list_items(job, scope, is_trusted=is_trusted)[:1]:
                found[places[job.job, each.id]] = job
        return [found[place] for place in sorted(found)]

    def list_items(self, job: Question, scope: str, *, is_trusted: bool) -> list[Record | Signal]:
        """Return what a job is to consider in a scope."""
        named = [self._known[name] for each, name in self._due if each == job.job]
        return [
            each for each in named if each.scope == scope and (each.origin not in UNTRUSTED) is is_trusted
        ]

    def done(self, job: Question, items: Iterable[Record | Signal]) -> None:
        """Note that a job has considered these."""
        for each in items:
            self._due.pop((job.job, each.id), None)

    def keep(self, job: Question, names: Iterable[str]) -> None:
        """Note that a job is to consider these again."""
        self._due |= dict.fromkeys((job.job, name) for name in names)

    def encode(self) -> str | None:
        """Return what waits, for the cursor."""
        return " ".join(":".join(each) for each in self._due) or None


@dataclass(slots=True)
class _Part:
    """Tidying of one scope and one degree of trust. Not safe for several threads."""

    builder: PlanBuilder
    writer: HeadlineWriter
    work: _Work
    scope: str
    is_trusted: bool
    shown: dict[str, Record] = field(default_factory=dict)  # of the present request, by label and by id
    headlines: list[Record] = field(default_factory=list)
    noise: dict[str, None] = field(default_factory=dict)
    filed: list[tuple[str, str | None, tuple[str, ...]]] = field(default_factory=list)

    def ask(self, job: Question) -> Flow[None]:
        """Ask for one job, and note its proposals."""
        builder, work = self.builder, self.work
        due = work.list_items(job, self.scope, is_trusted=self.is_trusted)
        signals = {f"S{at}": each for at, each in enumerate(due, 1) if isinstance(each, Signal)}
        records = {} if job is LESSONS else self._select(job, {each.id for each in due})
        shown = [each for each in due if job is LESSONS or each in records.values()]
        if job is HEADLINES and len(records) < 2:
            work.done(job, shown)
            return
        self.shown = records | {each.id.upper(): each for each in records.values()}
        places = {"signals": format_signals(signals)} if job is LESSONS else self._format(records, due)
        answer = yield from ask_once(self.builder.view, job, places, scope=self.scope)
        if answer.is_refused and not self.is_trusted:  # otherwise such a text could stop all tidying
            builder.spend(answer.usage)
            builder.note(f"the model would not look at what tools, the web and imports say: {answer.why}")
            work.done(job, shown)
        elif builder.take_answer(answer, job.job):
            work.done(job, shown)
            if left := len(due) - len(shown):
                builder.note(f"{left} records wait for the next dream")
            if job is LESSONS:
                for given in _iter_given(answer.fields, "lessons"):
                    self._learn(given, signals)
            else:
                self._take(answer.fields)
        elif answer.has_no_model:
            work.done(job, due)
            builder.note("no model: only rules tidied")

    def _list_own(self) -> list[Record]:
        """Return the live records of this scope and degree of trust."""
        return [
            record
            for record in self.builder.live
            if record.scope == self.scope and (record.origin not in UNTRUSTED) is self.is_trusted
        ]

    def _select(self, job: Question, due: Collection[str]) -> dict[str, Record]:
        """Return the earliest due records that fit by label, each with similar ones unless they are only filed."""
        own = self._list_own()
        words = {record.id: frozenset(tokenize(record.to_searchable_text())) for record in own}
        shown: dict[str, Record] = {}
        size = 0
        for record in sorted((r for r in own if r.id in due), key=lambda r: (r.created_at, r.id)):
            group = [record] if job is FILING else [record, *_find_similar(record, own, words)]
            group += [mate for one in group for mate in self.writer.list_mates(one.id) if mate.id in words]
            size += sum(validation.estimate_item_cost(each.content) for each in group if each.id not in shown)
            if shown and size > MAX_TOKENS:
                break
            shown |= {each.id: each for each in group}
        return {f"K{at}": record for at, record in enumerate(shown.values(), 1)}

    def _format(self, records: Mapping[str, Record], due: Collection[Record | Signal]) -> dict[str, str]:
        """Return the records of a request as lines, and the categories in use."""
        lines = []
        clusters: dict[str, int] = {}
        for label, record in records.items():
            mates = self.writer.list_mates(record.id)
            under = f"under headline {clusters.setdefault(mates[0].id, len(clusters) + 1)}" if mates else ""
            about = [record.kind, record.category or "no category", *record.tags, under]
            mark = "NEW " if record in due else ""
            words = ", ".join(escape_line(each) for each in about if each)
            lines.append(f"[{label}] {mark}({words}): {escape_line(record.content)}")
        categories = dict.fromkeys(each.category for each in self._list_own() if each.category)
        return {"records": "\n".join(lines) or "(none)", "categories": ", ".join(categories) or "(none)"}

    # -- answers -----------------------------------------------------------------------------------------

    def _take(self, fields: Mapping[str, Any]) -> None:
        """Note headlines, categories and noise, in whichever form."""
        for given in _iter_given(fields, "headlines"):
            self._propose(given)
        under = {name for proposal in self.headlines for name in proposal.parts}
        for given in iter_objects(fields.get("file")):
            record = self.shown.get(to_label(given))
            if record is None:
                self.builder.refuse("file a record", "it was not shown")
            elif to_text(given.get("category")).lower() == NOISE:
                self.noise[record.id] = None
            else:
                self.filed.append((record.id, to_category(given.get("category")), to_tags(given.get("tags"))))
        for name in to_ids(fields.get("to_delete")):
            record = self.shown.get(name.upper())
            if record is None:
                self.builder.refuse(f"archive {name}", "it was not shown")
            elif record.id in under:
                self.builder.note(f"{record.id} stays: it is under a headline")
            else:
                self.noise[record.id] = None

    def _propose(self, given: Mapping[str, Any]) -> None:
        """Note a headline; a record of RockBot's form over one source is filed, and keeps its wording."""
        found = [self.shown.get(name.upper()) for name in _read_sources(given)]
        parts = tuple(dict.fromkeys(record.id for record in found if record is not None))
        category, tags = to_category(given.get("category")), to_tags(given.get("tags"))
        content = to_text(given.get("content"))
        if None in found or not parts:
            self.builder.refuse(f"a headline: {content[:80]}", "it names a record that was not shown")
        elif len(parts) == 1:
            self.filed.append((parts[0], category, tags))
            self.builder.note(f"{parts[0]} keeps its wording: a headline is over two records")
        elif headline := self.writer.propose(parts, content, category=category, tags=tags):
            self.headlines.append(headline)

    def _learn(self, given: Mapping[str, Any], signals: Mapping[str, Signal]) -> None:
        """Add an anti-pattern that corrections, failures or thumbs down support, each of them once."""
        view, builder = self.builder.view, self.builder
        shown = {**signals, **{each.id.upper(): each for each in signals.values()}}
        used = {source for step in builder.steps for source in step.sources}
        found = (shown.get(name.upper()) for name in _read_sources(given))
        known = {signal.id: signal for signal in found if signal is not None and signal.id not in used}
        content = to_text(given.get("content"))
        said = "\n".join(f"{each.text}\n{each.before}\n{each.note}" for each in known.values())
        invented = sorted(extract_specifics(content).list_new_values(extract_specifics(said)))
        if not known:
            why = "no correction, failure of a tool or thumb down of its own supports it"
        elif len(content) > LONGEST_LESSON:
            why = f"it would be longer than an anti-pattern is: {len(content):,} characters"
        elif invented:
            why = f"no evidence says: {', '.join(invented)}"
        else:
            why = find_new_injection([said], " ".join(content.split()))
        if why:
            builder.refuse("add an anti-pattern", why)
            return
        domain = to_text(given.get("domain")) or to_text(given.get("category")).rpartition("/")[2]
        lesson = view.build_record(
            content,
            category=f"{ANTI_PATTERNS}/{domain.lower().replace(' ', '-') or 'general'}",
            kind="anti_pattern",
            layer="procedural",
            tags=("anti-pattern",),
            origin="tool" if any(each.origin in UNTRUSTED for each in known.values()) else "agent",
            scope=self.scope,
            references=tuple(known),
        )
        why = ", ".join(dict.fromkeys(each.kind.replace("_", " ") for each in known.values()))
        builder.add(lesson, sources=list(known), why=why)

    # -- verification ------------------------------------------------------------------------------------

    def verify(self) -> Flow[None]:
        """Verify headlines and ends, and do what is accepted."""
        view, builder = self.builder.view, self.builder
        headlines = self.headlines
        pairs = _find_pairs(view, self.scope) if self.is_trusted else []
        claims = (*map(self.writer.to_claim, headlines), *map(_to_claim, pairs))
        verdicts = yield from verify_claims(view, claims, scope=self.scope, is_apart=not self.is_trusted)
        builder.take_verdicts(verdicts)
        split = len(headlines)
        if verdicts.is_later:
            self.work.keep(HEADLINES, [name for each in headlines for name in each.parts])
        for proposal, why in zip(headlines, verdicts.reasons[:split], strict=True):
            self.writer.decide(proposal, why)
        for (old, new), why in zip(pairs, verdicts.reasons[split:], strict=True):
            if not why:
                builder.end(old, by=new, since=get_start(new))
        if verdicts.is_believed is False or view.is_trusted is False:
            builder.note(*[_NOT_BELIEVED] * bool(self.noise or self.filed))
            return
        for name in self.noise:
            builder.archive(name, why=NOISE)
        for name, category, tags in self.filed:
            builder.refile(name, category=category, tags=tags)


def _find_similar(
    record: Record, others: Iterable[Record], words: Mapping[str, frozenset[str]]
) -> list[Record]:
    """Return the records that share most words with one of them, by the Dice coefficient."""
    own = words[record.id]
    scores = {
        (-2 * len(own & words[other.id]) / (len(own) + len(words[other.id]) or 1), other.id): other
        for other in others
        if other is not record
    }
    return [scores[key] for key in sorted(scores)[:ALIKE] if -key[0] >= _LEAST_ALIKE]


def _iter_given(fields: Mapping[str, Any], key: str) -> Iterable[Mapping[str, Any]]:
    """Return the proposals of an answer in the own form and in RockBot's."""
    return (each for name in (key, "to_save") for each in iter_objects(fields.get(name), key="content"))


def _read_sources(given: Mapping[str, Any]) -> list[str]:
    """Return the labels or ids that a proposal rests on."""
    return to_ids(next((given[key] for key in _SOURCES if given.get(key)), None))


def _find_pairs(view: PassInput, scope: str) -> list[tuple[Record, Record]]:
    """Return records that the model of pairs has marked, each with the later one that may have replaced it."""
    records = {
        record.id: record
        for record in view.records
        if record.scope == scope and record.origin not in UNTRUSTED and record.valid_to is None
    }
    pairs = [
        (old, records[old.perhaps_replaced_by])
        for old in records.values()
        if old.perhaps_replaced_by in records
        and not view.changed.isdisjoint((old.id, old.perhaps_replaced_by))
    ]
    return pairs[:MAX_PAIRS]


def _to_claim(pair: tuple[Record, Record]) -> Claim:
    old, new = pair
    evidence = tuple(
        f"- {when} ({get_start(record):%Y-%m-%d}) {escape_line(record.content)[:400]}"
        for when, record in (("earlier", old), ("later", new))
    )
    return Claim(kind="end", text=f"No longer true: {old.content}", evidence=evidence)


# -- headlines ---------------------------------------------------------------------------------------------


class HeadlineWriter:
    """Headlines of one plan. Not safe for several threads."""

    def __init__(self, builder: PlanBuilder) -> None:
        """Begin with the existing headlines."""
        self._view = builder.view
        self._builder = builder
        self._records = builder.records
        self._over = {part: headline for headline in self._view.headlines for part in headline.parts}
        self._named: set[str] = set()  # records under headlines that are proposed

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
                self._builder.retire(headline, "one of its records has changed", headline.parts)
                freed.update(part.id for part in parts)
                for name in headline.parts:
                    self._over.pop(name, None)
        return frozenset(freed)

    def propose(
        self, names: Iterable[str], content: str, *, category: str | None = None, tags: Iterable[str] = ()
    ) -> Record | None:
        """Return a headline with which code finds no fault; None for another.

        It is over the records that it names and those that share a headline with one of them.
        """
        over = self._list_over(names)
        parts = tuple(dict.fromkeys((*names, *(name for each in over for name in each.parts))))
        left_out = tuple(name for name in parts if not self._tells(content, name))
        why, headline = self._explain(parts, content, left_out), None
        if any(set(each.parts) == set(parts) for each in over):
            why = "they have one already"
        elif not self._named.isdisjoint(parts):
            why = "another headline is proposed over one of these records"
        try:
            if not why:
                headline = build_headline(
                    [self._records[name] for name in parts],
                    content,
                    id=self._view.new_id(),
                    now=self._view.now,
                    category=category,
                    tags=tags,
                    left_out=left_out,
                )
                self._named.update(parts)
        except InvalidInput as error:
            why = str(error)
        if why:
            self._refuse(parts, why)
        return headline

    def to_claim(self, headline: Record) -> Claim:
        """Return the claim of a headline: its records say all that it says."""
        told = [name for name in headline.parts if name not in list_left_out(headline)]
        lines = tuple(f"- {escape_line(self._records[name].content)}" for name in told)
        return Claim(kind="headline", text=headline.content, evidence=lines)

    def decide(self, headline: Record, why: str) -> None:
        """Add a headline over records, which stay as they are, or refuse it."""
        builder, parts = self._builder, headline.parts
        if why := why or builder.explain_unavailable(parts):
            self._refuse(parts, why)
            return
        builder.take(Change(before=None, after=headline), _describe(parts), parts)
        builder.keep(parts)
        for old in self._list_over(parts):
            builder.retire(old, f"replaced by {headline.id}", old.parts)

    def _list_over(self, names: Iterable[str]) -> list[Record]:
        """Return the existing headlines over some records."""
        return [*{self._over[name].id: self._over[name] for name in names if name in self._over}.values()]

    def _explain(self, parts: Sequence[str], content: str, left_out: Collection[str]) -> str:
        """Return why no headline over these records may say this; empty when it may.

        It may if each record is known, live, unprotected and of one scope and trust, if all of them hold at the
        same time, and if no number, date, path, name or order to the assistant in it is new.
        """
        if not 2 <= len(parts) <= MAX_PARTS:
            return f"a headline is over 2 to {MAX_PARTS} records, not {len(parts)}"
        if reason := self._builder.explain_unavailable(parts):
            return reason
        records = [self._records[name] for name in parts]
        contents = [record.content for record in records]
        if reason := explain_mismatch(records) or find_new_injection(contents, content):
            return reason
        if not content:
            return "it says nothing"
        if len(content) > min(LONGEST_HEADLINE, sum(len(each) + _SLACK for each in contents)):
            return f"it would be longer than its records or than a prompt shows: {len(content):,} characters"
        if inventions := find_new_specifics(contents, content):
            return f"no record says: {', '.join(inventions)}"
        return "it tells of fewer than two records" if len(parts) - len(left_out) < 2 else ""

    def _tells(self, content: str, id: str) -> bool:
        """Return whether a headline has the specifics and most words of a record."""
        record = self._records.get(id)
        if record is None:
            return True  # another check says that it is not live
        return not find_lost(record.content, content, least=_TOLD_SHARE)

    def _refuse(self, parts: Sequence[str], why: str) -> None:
        self._builder.refuse(_describe(parts), why, protects=parts)


def _describe(parts: Iterable[str]) -> str:
    return f"a headline over {', '.join(parts)}"


# -- promotion ---------------------------------------------------------------------------------------------


PROMOTE = "promote"


def promote(view: PassInput) -> Flow[Plan]:
    """Move records that were filed as events, but are knowledge and sure, to the layers of their kinds (golemcore)."""
    yield from ()
    builder = PlanBuilder(view, name=PROMOTE)
    for record in view.records:
        layer = HOME_LAYERS[record.kind]
        is_filed_as_event = record.layer == "episodic" != layer and not record.archived
        is_sure = record.confidence >= view.promotion_min_confidence and record.origin not in UNTRUSTED
        if record.id in view.changed and is_filed_as_event and is_sure:
            why = "certain enough to keep for good"
            builder.change(record, replace(record, layer=layer), why=why)
    return builder.plan(skipped="nothing new is due for promotion")
