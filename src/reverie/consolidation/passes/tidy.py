"""Tidying: headlines, filing, lessons from corrections, and ends of replaced records.

Each job is a request of its own, with short labels and one form of answer. A dream does two of them at most, those
whose work has waited longest. Headlines and ends are claims that are verified with those of other passes. A
headline takes nothing away: its records stay live. One request never shows two scopes, and what tools, the web and
imports said is shown by itself.

The pass accepts RockBot's form too: `toSave` with `sourceIds`, and `toDelete`. There a source stays live under its
headline, whatever `toDelete` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from reverie.consolidation.passes.headlines import HeadlineWriter
from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.flows import Flow, ask_for_json, verify_claims
from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.material import BAD, Signal, SimilarRecords, format_signals
from reverie.consolidation.planning.plan_builder import HeadlineProposal, PlanBuilder, find_new_injection
from reverie.consolidation.planning.requests import (
    NO_MODEL,
    Answer,
    Schema,
    build_schema,
    describe_unknown_keys,
    iter_objects,
    to_ids,
    to_text,
    to_texts,
)
from reverie.consolidation.planning.verification import PROMPT as CLAIM_PROMPT
from reverie.consolidation.planning.verification import Claim, ClaimCheck
from reverie.domain.category import ANTI_PATTERNS, GENERAL
from reverie.domain.record import HOME_LAYERS, UNTRUSTED, Record
from reverie.domain.similarity.specifics import extract_specifics
from reverie.domain.text import validation
from reverie.domain.text.escaping import escape_line

NAME = "tidy"
DIRECTIVE = "dream.md"
"""The user's own prompt, which does headlines and filing in one request; none ships."""

NOISE = "tidy.noise"
"""The store's cursor with the number of records archived as noise on each of the last thirty days."""

REFUSED = "tidy.refused"
"""The store's cursor with the versions of records whose headlines were refused for good."""

LEFT = "tidy.left"
"""The store's cursor with the work that waits: the day, the job and the id of each record or signal."""

MOST_TOKENS = 4_000
"""Tokens of records in one request; others wait for the next dream."""

LONGEST_LESSON = 500
"""Characters of an anti-pattern."""

MOST_TAGS = 8
LONGEST_TAG = 60
"""Labels that are taken of one proposal, and characters of one."""

ALIKE = 3
"""Records shown with each changed one, those that share most words with it."""

MOST_PAIRS = 20
"""Pairs of an earlier and a later record in one verification, those of the latest records."""

_PAIRED = 2  # earlier records that are compared with each changed one
_LEAST_PAIRED = 0.1
_LEAST_ALIKE = 0.3
_NOISE_CATEGORY = "noise"

_FILE = {"record": str, "category": str, "tags": [str]}
_HEADLINE = {"records": [str], "content": str, "category": str, "tags": [str]}
_ROCKBOT: Mapping[str, Any] = {
    "toSave": [{"content": str, "category": str, "tags": [str], "sourceIds": [str]}],
    "toDelete": [str],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One job of tidying.

    Attributes:
        name: Its name.
        prompt: File name of its prompt.
        schema: Schema of the answer.
        forms: Schema of all accepted forms.
    """

    name: str
    prompt: str
    schema: Schema
    forms: Schema


HEADLINES = _Job(
    name="headlines",
    prompt="tidy-headlines.md",
    schema=build_schema({"headlines": [_HEADLINE]}),
    forms=build_schema({"headlines": [_HEADLINE], **_ROCKBOT}),
)
FILING = _Job(
    name="filing",
    prompt="tidy-filing.md",
    schema=build_schema({"file": [_FILE]}),
    forms=build_schema({"file": [_FILE], **_ROCKBOT}),
)
LESSONS = _Job(
    name="lessons",
    prompt="tidy-lessons.md",
    schema=build_schema({"lessons": [{"content": str, "domain": str, "evidence": [str]}]}),
    forms=build_schema({"lessons": [{"content": str, "domain": str, "evidence": [str]}], **_ROCKBOT}),
)
WHOLE = _Job(
    name="headlines",
    prompt=DIRECTIVE,
    schema=build_schema({"headlines": [_HEADLINE], "file": [_FILE]}),
    forms=build_schema({"headlines": [_HEADLINE], "file": [_FILE], **_ROCKBOT}),
)
"""The job of the user's own directive."""

PROMPTS = (HEADLINES.prompt, FILING.prompt, LESSONS.prompt)


def tidy(view: PassInput) -> Flow[Plan]:
    """Do the jobs that have work, and end what later records have replaced."""
    builder = PlanBuilder(view, name=NAME)
    writer = HeadlineWriter(view, builder)
    changed = view.changed | writer.end_outdated()
    work = _Work(view, changed)
    scopes = {record.scope for record in view.records if record.id in changed}
    scopes |= {signal.scope for signal in view.signals} | work.scopes
    if not scopes:
        return builder.plan(skipped="nothing is new")
    answers: list[Answer] = []
    for scope in sorted(scopes):
        for is_trusted in (True, False) if view.now.toordinal() % 2 else (False, True):
            part = _Part(view, builder, writer, work, scope, is_trusted)
            for job in work.list_jobs(scope, is_trusted=is_trusted):
                answer = yield from part.ask(job)
                if answer is not None:
                    answers.append(answer)
            yield from part.verify()
    dropped = {
        **view.dropped,
        (today := view.now.date().isoformat()): view.dropped.get(today, 0) + builder.dropped,
    }
    noise = " ".join(f"{day}={count}" for day, count in dropped.items() if count)
    for note in describe_unknown_keys(answers):
        builder.note(note)
    cursors = {LEFT: work.encode(), REFUSED: writer.refused or None, NOISE: noise or None}
    return builder.plan(skipped="nothing to tidy", cursors=cursors)


# -- what waits --------------------------------------------------------------------------------------------


class _Work:
    """Ids of what each job is to consider, with the day since when. Not safe for several threads."""

    def __init__(self, view: PassInput, changed: Iterable[str]) -> None:
        self._view = view
        self._records = {record.id: record for record in view.records}
        self.signals = {each.id: each for each in view.signals if each.kind in BAD}
        today = view.now.date().isoformat()
        self._since: dict[tuple[str, str], str] = {}
        for word in view.left:
            day, _, rest = word.partition(":")
            job, _, name = rest.partition(":")
            if name in self._records or name in self.signals:
                self._since[job, name] = day
        for name in changed:
            record = self._records.get(name)
            if record is not None:
                self._since.setdefault((HEADLINES.name, name), today)
                if (record.category or GENERAL) == GENERAL:
                    self._since.setdefault((FILING.name, name), today)
        for name in self.signals:
            self._since.setdefault((LESSONS.name, name), today)
        self.scopes = {self._get(name).scope for _, name in self._since}

    def _get(self, name: str) -> Record | Signal:
        return self._records.get(name) or self.signals[name]

    def list_jobs(self, scope: str, *, is_trusted: bool) -> list[_Job]:
        """Return the jobs that have work, the one that has waited longest first."""
        has_directive = bool(self._view.prompts.get(DIRECTIVE, "").strip())
        jobs = (WHOLE, LESSONS) if has_directive else (HEADLINES, FILING, LESSONS)
        due = [(min(days), job) for job in jobs if (days := self._list_days(job, scope, is_trusted))]
        turn = self._view.now.toordinal()
        return [
            job
            for _, job in sorted(due, key=lambda each: (each[0], (turn + jobs.index(each[1])) % len(jobs)))
        ]

    def _list_days(self, job: _Job, scope: str, is_trusted: bool) -> list[str]:
        names = self.list_ids(job, scope, is_trusted=is_trusted)
        return [self._since[job.name, name] for name in names]

    def list_ids(self, job: _Job, scope: str, *, is_trusted: bool) -> list[str]:
        """Return the ids that a job is to consider in a scope."""
        return [
            name
            for each, name in self._since
            if each == job.name
            and self._get(name).scope == scope
            and (self._get(name).origin not in UNTRUSTED) is is_trusted
        ]

    def done(self, job: _Job, names: Iterable[str]) -> None:
        """Note that a job has considered these."""
        for name in names:
            self._since.pop((job.name, name), None)

    def keep(self, job: _Job, names: Iterable[str]) -> None:
        """Note that a job is to consider these again."""
        for name in names:
            self._since[job.name, name] = self._view.now.date().isoformat()

    def encode(self) -> str | None:
        """Return what waits, for the cursor."""
        return " ".join(f"{day}:{job}:{name}" for (job, name), day in self._since.items()) or None


# -- jobs --------------------------------------------------------------------------------------------------


class _Part:
    """Tidying of one scope and one degree of trust. Not safe for several threads."""

    def __init__(
        self,
        view: PassInput,
        builder: PlanBuilder,
        writer: HeadlineWriter,
        work: _Work,
        scope: str,
        is_trusted: bool,
    ) -> None:
        self._view = view
        self._builder = builder
        self._writer = writer
        self._work = work
        self._scope = scope
        self._is_trusted = is_trusted
        self._labels: dict[str, Record] = {}
        self._signals: dict[str, Signal] = {}
        self._headlines: list[HeadlineProposal] = []
        self._noise: list[str] = []
        self._filed: list[tuple[str, str | None, list[str]]] = []

    def ask(self, job: _Job) -> Flow[Answer | None]:
        """Ask for one job, and note its proposals; return the answer, None if there was none."""
        ids = self._work.list_ids(job, self._scope, is_trusted=self._is_trusted)
        places, shown = self._show_signals(ids) if job is LESSONS else self._show_records(job, ids)
        if job is HEADLINES and len(self._labels) < 2:
            self._work.done(job, shown)
            return None
        request = self._view.build_question(
            job.prompt,
            places,
            purpose=NAME,
            scope=self._scope,
            schema=job.schema,
            answer_tokens=2_000,
            timeout_s=180.0,
        )
        answer = yield from ask_for_json(request, forms=job.forms)
        self._builder.spend(answer.usage)
        if answer.is_later:
            return None
        if answer.has_no_model:
            self._work.done(job, ids)
            self._builder.note("no model: only rules tidied")
            return None
        if answer.why:
            if answer.is_refused and not self._is_trusted:  # otherwise such a text could stop all tidying
                self._work.done(job, shown)
                self._builder.note(
                    f"the model would not look at what tools, the web and imports say: {answer.why}"
                )
            else:
                self._builder.fail(answer.why)
            return None
        self._work.done(job, shown)
        if left := len(ids) - len(shown):
            self._builder.note(f"{left} records wait for the next dream")
        self._take(job, answer.fields)
        return answer

    def _show_records(self, job: _Job, ids: Sequence[str]) -> tuple[dict[str, str], list[str]]:
        """Return the earliest records that fit, each with similar ones; and which of the ids are among them."""
        own = [
            record
            for record in self._builder.live
            if record.scope == self._scope and (record.origin not in UNTRUSTED) is self._is_trusted
        ]
        similar = SimilarRecords(own)
        shown: dict[str, Record] = {}
        size = 0
        for record in sorted((r for r in own if r.id in ids), key=lambda r: (r.created_at, r.id)):
            group = [record]
            if job is not FILING:
                group += similar.find(record, most=ALIKE, least=_LEAST_ALIKE)
                group += [
                    mate for one in group for mate in self._writer.list_mates(one.id) if mate in similar
                ]
            size += sum(validation.estimate_item_cost(each.content) for each in group if each.id not in shown)
            if shown and size > MOST_TOKENS:
                break
            shown |= {each.id: each for each in group}
        self._labels = {f"K{at}": record for at, record in enumerate(shown.values(), 1)}
        categories = (record.category for record in own if record.category)
        places = {
            "records": self._format_records(ids) or "(none)",
            "categories": ", ".join(dict.fromkeys(categories)) or "(none)",
        }
        return places, [name for name in ids if name in shown]

    def _format_records(self, new: Sequence[str]) -> str:
        lines = []
        clusters: dict[str, int] = {}
        for label, record in self._labels.items():
            mates = self._writer.list_mates(record.id)
            under = f"under headline {clusters.setdefault(mates[0].id, len(clusters) + 1)}" if mates else ""
            about = [record.kind, record.category or "no category", *record.tags, under]
            mark = "NEW " if record.id in new else ""
            words = ", ".join(escape_line(each) for each in about if each)
            lines.append(f"[{label}] {mark}({words}): {escape_line(record.content)}")
        return "\n".join(lines)

    def _show_signals(self, ids: Sequence[str]) -> tuple[dict[str, str], list[str]]:
        found = [self._work.signals[name] for name in ids]
        self._signals = {f"S{at}": each for at, each in enumerate(found, 1)}
        return {"signals": format_signals(self._signals)}, list(ids)

    # -- answers -----------------------------------------------------------------------------------------

    def _take(self, job: _Job, fields: Mapping[str, Any]) -> None:
        """Note the proposals of an answer, in whichever form."""
        if job is LESSONS:
            for given in (
                *iter_objects(fields.get("lessons"), key="content"),
                *iter_objects(fields.get("toSave")),
            ):
                self._learn(given)
            return
        for given in (
            *iter_objects(fields.get("headlines")),
            *iter_objects(fields.get("toSave"), key="content"),
        ):
            self._propose(given)
        under = {name for proposal in self._headlines for name in proposal.parts}
        for given in iter_objects(fields.get("file")):
            record = self._find(given.get("record") or given.get("id"))
            if record is None:
                self._builder.refuse("file a record", "it was not shown")
            elif to_text(given.get("category")).lower() == _NOISE_CATEGORY:
                self._noise.append(record.id)
            else:
                category = to_text(given.get("category")) or None
                self._filed.append((record.id, category, _limit_tags(to_texts(given.get("tags")))))
        for name in to_ids(fields.get("toDelete")):
            record = self._find(name)
            if record is None:
                self._builder.refuse(f"archive {name}", "it was not shown")
            elif record.id in under:
                self._builder.note(f"{record.id} stays: it is under a headline")
            else:
                self._noise.append(record.id)

    def _find(self, value: Any) -> Record | None:
        name = "".join(to_ids(value)[:1])
        by_id = {record.id: record for record in self._labels.values()}
        return self._labels.get(name.upper()) or by_id.get(name)

    def _propose(self, given: Mapping[str, Any]) -> None:
        """Note a headline; a record of RockBot's form over one source is filed, and keeps its wording."""
        keys = ("records", "source_ids", "sourceIds", "sources")
        names = to_ids(next((given[key] for key in keys if given.get(key)), None))
        found = [self._find(name) for name in names]
        records = list({record.id: record for record in found if record is not None}.values())
        category = to_text(given.get("category")) or None
        tags = _limit_tags(to_texts(given.get("tags")))
        content = to_text(given.get("content"))
        if len(records) < len(set(names)) or not records:
            self._builder.refuse(f"a headline: {content[:80]}", "it names a record that was not shown")
        elif len(records) == 1:
            self._filed.append((records[0].id, category, tags))
            self._builder.note(f"{records[0].id} keeps its wording: a headline is over two records")
        else:
            parts = tuple(record.id for record in records)
            self._headlines.append(
                HeadlineProposal(parts=parts, content=content, category=category, tags=tuple(tags))
            )

    def _learn(self, given: Mapping[str, Any]) -> None:
        """Add an anti-pattern, if a correction, a failure or a thumb down supports it."""
        view, builder = self._view, self._builder
        used = {name for step in builder.steps for name in step.sources}
        labels = to_ids(given.get("evidence") or given.get("source_ids") or given.get("sourceIds"))
        shown_as = {**self._signals, **{each.id: each for each in self._signals.values()}}
        known = {
            signal.id: signal
            for name in labels
            if (signal := shown_as.get(name) or shown_as.get(name.upper())) is not None
            and signal.id not in used
        }
        content, what = to_text(given.get("content")), "add an anti-pattern"
        if not known:
            builder.refuse(what, "no correction, failure of a tool or thumb down of its own supports it")
            return
        if len(content) > LONGEST_LESSON:
            builder.refuse(what, f"it would be longer than an anti-pattern is: {len(content):,} characters")
            return
        said = "\n".join(f"{each.text}\n{each.before}\n{each.note}" for each in known.values())
        stated, shown = extract_specifics(content), extract_specifics(said)
        new = stated.subtract(shown, "numbers", "addresses", "code")
        invented = sorted(value for value in new if f" {value.casefold()} " not in shown.wording)
        if reason := find_new_injection([said], " ".join(content.split())) or (
            f"no evidence says: {', '.join(invented)}" if invented else ""
        ):
            builder.refuse(what, reason)
            return
        domain = to_text(given.get("domain")) or to_text(given.get("category")).rpartition("/")[2]
        domain = domain.lower().replace(" ", "-") or "general"
        builder.add(
            Record(
                id=view.new_id(),
                content=content,
                category=f"{ANTI_PATTERNS}/{domain}",
                kind="anti_pattern",
                layer="procedural",
                tags=("anti-pattern",),
                origin="tool" if any(each.origin in UNTRUSTED for each in known.values()) else "agent",
                scope=self._scope,
                references=tuple(known),
                created_at=view.now,
                updated_at=view.now,
                last_seen_at=view.now,
            ),
            sources=list(known),
            why=", ".join(dict.fromkeys(each.kind.replace("_", " ") for each in known.values())),
        )

    # -- verification ------------------------------------------------------------------------------------

    def verify(self) -> Flow[None]:
        """Verify headlines and ends, and do what is accepted."""
        view, builder = self._view, self._builder
        headlines = self._writer.select(self._headlines)
        pairs = _find_pairs(view, self._scope) if self._is_trusted else []
        claims = (*map(self._writer.to_claim, headlines), *map(_to_claim, pairs))
        check = ClaimCheck(
            claims=claims,
            prompt=view.prompt(CLAIM_PROMPT),
            scope=self._scope,
            is_apart=not self._is_trusted,
            by_default=view.is_trusted is True,
        )
        verdicts = yield from verify_claims(check)
        builder.spend(verdicts.usage)
        if verdicts.failed not in ("", NO_MODEL.why):
            builder.fail(verdicts.failed)
        split = len(headlines)
        if verdicts.is_later:
            self._work.keep(HEADLINES, [name for each in headlines for name in each.parts])
        for proposal, why in zip(headlines, verdicts.reasons[:split], strict=True):
            self._writer.decide(proposal, why)
        for (old, new), why in zip(pairs, verdicts.reasons[split:], strict=True):
            if not why:
                builder.end(old, by=new, since=_get_start(new))
        if verdicts.is_believed is False or view.is_trusted is False:
            if self._noise or self._filed:
                builder.note("the model is not believed, so nothing was filed or dropped")
            return
        for name in dict.fromkeys(self._noise):
            builder.archive(name, why="noise")
        for name, category, tags in self._filed:
            builder.refile(name, category=category, tags=tags or None)


def _limit_tags(tags: Sequence[str]) -> list[str]:
    """Return as many labels as one would search by."""
    return [tag for tag in tags if len(tag) <= LONGEST_TAG][:MOST_TAGS]


def _find_pairs(view: PassInput, scope: str) -> list[tuple[Record, Record]]:
    """Return earlier records of a scope, each with a later one that may end it; marked ones first."""
    records = {
        record.id: record
        for record in view.records
        if record.scope == scope and record.origin not in UNTRUSTED and record.valid_to is None
    }
    similar = SimilarRecords(records.values())
    new_first: Callable[[Record], tuple[datetime, str]] = lambda record: (record.created_at, record.id)  # noqa: E731
    changed = sorted((r for r in records.values() if r.id in view.changed), key=new_first, reverse=True)
    pairs = {
        old.id: (old, records[old.perhaps_replaced_by])
        for old in records.values()
        if old.perhaps_replaced_by in records
        and not view.changed.isdisjoint((old.id, old.perhaps_replaced_by))
    }
    for new in changed:
        for old in similar.find(new, most=_PAIRED, least=_LEAST_PAIRED):
            if _get_start(old) < _get_start(new) and old.kind != "event":
                pairs.setdefault(old.id, (old, new))
    return list(pairs.values())[:MOST_PAIRS]


def _to_claim(pair: tuple[Record, Record]) -> Claim:
    old, new = pair
    evidence = tuple(
        f"- {when} ({_get_start(record):%Y-%m-%d}) {escape_line(record.content)[:400]}"
        for when, record in (("earlier", old), ("later", new))
    )
    return Claim(kind="end", text=f"No longer true: {old.content}", evidence=evidence)


def _get_start(record: Record) -> datetime:
    return record.valid_from or record.created_at


# -- promotion ---------------------------------------------------------------------------------------------


PROMOTE = "promote"


def promote(view: PassInput) -> Flow[Plan]:
    """Move records that were filed as events, but are knowledge and sure, to the layers of their kinds (golemcore)."""
    yield from ()
    builder = PlanBuilder(view, name=PROMOTE)
    for record in view.records:
        if record.id in view.changed and _is_promoted(record, view.promotion_min_confidence):
            layer = HOME_LAYERS[record.kind]
            why = f"sure enough to keep as {layer} (confidence {record.confidence:.2f})"
            builder.change(record, replace(record, layer=layer), why=why)
    return builder.plan(skipped="nothing new is due for promotion")


def _is_promoted(record: Record, min_confidence: float) -> bool:
    """Return whether a record is knowledge filed as an event."""
    return (
        not record.archived
        and record.layer == "episodic"
        and HOME_LAYERS[record.kind] != "episodic"
        and record.confidence >= min_confidence
        and record.origin not in UNTRUSTED
    )
