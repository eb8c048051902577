"""One reading of a conversation: a paragraph of history, and what becomes of the memory.

A request shows the new turns (T1 …), known records about their subjects (K1 …) and the sentences that rules kept
from these turns (R1 …). The model proposes records to add, changes and ends of known ones, and kept sentences to
drop, each with the turns that say so. Code checks specifics. A record in the owner's own words is saved at once.
Any other waits in the archive until a dream has verified it; meanwhile the owner's sentence stands in its place.
Changes, ends and drops wait in the same way. If a model is not believed in a later dream, the sentences come back.
Without a model the paragraph is made by rule, and the turns stay unread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Any

from reverie.consolidation.answers import (
    Answer,
    Question,
    describe_unknown_keys,
    iter_objects,
    to_category,
    to_label,
    to_text,
)
from reverie.consolidation.flows import MAX_SPLITS, Flow, ask_in_parts
from reverie.consolidation.plan_builder import PlanBuilder
from reverie.consolidation.sentences import is_likely_secret, split_sentences
from reverie.consolidation.values import (
    PassInput,
    PendingClaim,
    Plan,
    WindowInput,
    cite_turns,
    encode_claims,
    format_transcript,
    label_turns,
    split_by_size,
)
from reverie.context.render import ANSWER_MARK, EXCHANGE_MARK
from reverie.context.window import build_history_cursor, build_remembered_cursor
from reverie.domain.change import Change
from reverie.domain.conversation import Turn
from reverie.domain.intake import classify, concerns_health, rate_importance
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import HISTORY, Paragraph, build_session_source
from reverie.domain.record import KINDS, STANDING, UNTRUSTED, Kind, Record
from reverie.domain.similarity.grounding import (
    Evidence,
    collect_evidence,
    extract_content,
    find_new_specifics,
    find_unsaid,
    is_among,
)
from reverie.domain.text.dates import find_dates, get_local_day
from reverie.domain.text.escaping import escape_line
from reverie.domain.text.same_text import compute_fingerprint
from reverie.domain.text.specifics import extract_specifics
from reverie.domain.text.timestamps import format_time
from reverie.domain.text.tokenizer import find_language, tokenize
from reverie.domain.text.validation import clean_text, estimate_tokens
from reverie.llm.protocol import ModelRequest
from reverie.repositories.records import NewRecord

NAME = "read"

HELD = "waits until a dream has found it in its turns"
"""Reason why a record is archived until the model has verified it."""

LONGEST_MESSAGE = 1_500
LONGEST_RECORD = 400
MAX_KNOWN = 30
"""Records that a request shows as known: those that share most words with the conversation."""

MAX_PART_TOKENS = 6_000
"""Tokens of the turns of one request; a longer conversation is read in parts."""

FIRST_PAUSE = timedelta(days=1)
"""Pause after a reading to which the model gave no usable answer; each further one doubles it."""

LONGEST_PAUSE = timedelta(days=8)

_KNOWN_SHARE = 0.2
"""Share of its words that the cited turns must have; whether they say it is a question for the model."""

_SAID_SHARE = 0.8
"""Share of its words that a known record must have to say the same."""

_CONFIDENCE = 0.8
_UNKNOWN = "it names no known record"
_MAX_CATEGORIES = 30

_RECORD = {"content": str, "kind": str, "category": str, "turns": [str], "until": str | None}
READ = Question(
    purpose=NAME,
    prompt="read.md",
    answer={
        "history": str,
        "add": [_RECORD],
        "change": [{"record": str, **_RECORD}],
        "end": [{"record": str, "turns": [str]}],
        "drop": [{"record": str, "why": str}],
    },
    others={"history_entry": str, "memory_update": str},
)
"""The question; Autobot's `history_entry` with `memory_update` are accepted too."""


def read(view: PassInput) -> Flow[Plan]:
    """Read the new turns of a conversation, and move its window if that is due."""
    window = view.get_window()
    builder = PlanBuilder(view, name=NAME)
    reading = _Reading(builder, window)
    answers: list[Answer] = []
    has_model = window.is_read
    for part in reading.split() if has_model else ():
        build, splits = reading.build_request, 1 if window.failures else MAX_SPLITS
        parts = yield from ask_in_parts(part, build, forms=READ.forms, splits=splits, is_whole=True)
        for _, answer in parts:
            builder.spend(answer.usage)
            if answer.why and not answer.has_no_model:
                builder.fail(answer.why)
                return builder.plan(cursors=reading.build_pause() if answer.is_futile else None)
            builder.note(*describe_unknown_keys(answer))
            has_model = not answer.has_no_model
            answers.append(answer)
        if not has_model:
            break
    for answer in answers:
        reading.take(answer.fields)
    told = (each.fields.get("history") or each.fields.get("history_entry") for each in answers)
    reading.add_history(list(map(to_text, told)))
    if window.is_moving:
        moved = window.move()
        builder.take(moved.edit, moved.why, moved.sources)
    if builder.steps and not has_model:
        builder.note("no model: the paragraph was made by rule")
    skipped = "nothing in it is worth keeping" if has_model else "no model: only rules learn"
    return builder.plan(skipped=skipped, cursors=reading.build_cursors(is_read=has_model))


class _Reading:
    """The proposals for one conversation. Not safe for several threads."""

    def __init__(self, builder: PlanBuilder, window: WindowInput) -> None:
        view = self._view = builder.view
        self._builder = builder
        self._window = window
        self._labels = label_turns(window.older)
        spoken = list(self._labels.values())
        self._ids = {turn.id for turn in window.older}
        trusted = [record for record in view.records if record.origin not in UNTRUSTED]
        learned = [record for record in trusted if not self._ids.isdisjoint(record.references)]
        known = _select_known([record for record in trusted if record not in learned], spoken)
        self._learned = {f"R{at}": record for at, record in enumerate(learned, 1)}
        self._known = {f"K{at}": record for at, record in enumerate(known, 1)}
        self._shown = self._learned | self._known
        self._kinds = {record.fingerprint: record.kind for record in reversed(view.records)}
        # A fact may name whom a conversation does not.
        names = extract_specifics("\n".join(record.content for record in trusted)).names
        self._context = [
            *collect_evidence(spoken),
            *(Evidence(text=record.content, at=record.created_at) for record in known),
            Evidence(text=" ".join(sorted(name.title() for name in names)), at=view.now),
        ]
        self._count = 0
        self._claims: list[PendingClaim] = []

    # -- the request -------------------------------------------------------------------------------------

    def split(self) -> Iterator[list[str]]:
        """Yield the labels of the turns of each request; none for a conversation in which the owner says nothing."""
        labels = self._labels
        if collect_evidence(labels.values(), only_owner=True):
            yield from split_by_size(
                labels,
                lambda name: estimate_tokens(labels[name].content[:LONGEST_MESSAGE]),
                most=MAX_PART_TOKENS,
            )

    def build_request(self, names: Sequence[str]) -> ModelRequest:
        """Return the request about some turns."""
        view, scope = self._view, self._window.state.scope
        turns = {self._labels[name].id: name for name in names}
        places = {
            "categories": ", ".join(view.categories.get(scope, ())[:_MAX_CATEGORIES]) or "(none)",
            "known": _format_records(self._known),
            "learned": _format_records(self._learned),
            "day": f"{self._labels[names[-1]].at.astimezone(view.zone):%Y-%m-%d}",
            "conversation": format_transcript(
                (self._labels[name] for name in names), longest=LONGEST_MESSAGE, labels=turns
            ),
        }
        return READ.build(view.prompt(READ.prompt), places, scope=scope)

    # -- the answer --------------------------------------------------------------------------------------

    def take(self, fields: Mapping[str, Any]) -> None:
        """Take the proposals of an answer that the checks accept."""
        for given in iter_objects(fields.get("add"), key="content"):
            self._add(given)
        for given in self._read_page(to_text(fields.get("memory_update"))):
            self._add(given)
        for given in iter_objects(fields.get("change")):
            if given.get("content"):
                self._add(given, is_change=True)
            else:
                self._end(given)
        for given in iter_objects(fields.get("end"), key="record"):
            self._end(given)
        for given in iter_objects(fields.get("drop"), key="record"):
            name = to_label(given)
            if name not in self._learned:
                self._builder.refuse("drop a sentence", f"{name or 'it'} is not the label of a kept sentence")
                continue
            record = self._learned[name]
            turns = tuple(each for each in record.references if each in self._ids)
            self._claims.append(PendingClaim("drop", target=record.id, turns=turns))

    def _end(self, given: Mapping[str, Any]) -> None:
        record, cited = self._shown.get(to_label(given)), cite_turns(given, self._labels)
        if record is None:
            self._builder.refuse("end a record", _UNKNOWN)
        elif why := _explain_uncited(cited, record):
            self._builder.refuse(f"end {record.id}", why)
        else:
            self._claims.append(_build_claim(cited, record)._replace(do="end"))

    def _read_page(self, page: str) -> Iterator[Mapping[str, Any]]:
        """Yield the new lines of notes that a model has brought up to date (Autobot), with the turn that says them."""
        known = {record.fingerprint for record in self._known.values()}
        labels = {turn.id: name for name, turn in self._labels.items()}
        for line in page.splitlines():
            text = line.lstrip("-*+ ").strip()
            if text and not text.startswith("#") and compute_fingerprint(text) not in known:
                said = find_quotation(text, list(self._labels.values()))
                yield {"content": text, "turns": [] if said is None else [labels[said[1].id]]}

    def _add(self, given: Mapping[str, Any], *, is_change: bool = False) -> None:
        """Take a proposed record, or refuse it."""
        replaces = self._shown.get(to_label(given)) if is_change else None
        content = to_text(given.get("content"))
        cited = cite_turns(given, self._labels)
        what = "add a record" if replaces is None else f"change {replaces.id}"
        if is_change and replaces is None:
            self._builder.refuse("change a record", _UNKNOWN)
        elif self._count >= len(self._labels):
            self._builder.refuse(what, "there are as many records as messages already")
        elif why := self._explain_refusal(content, cited, replaces):
            self._builder.refuse(what, why)
            if cited:
                self._save_quotation(self._describe(given, content, cited), cited)
        elif known := self._find_saying(content, cited, replaces):
            self._builder.note(f"known as {known.id}")
            if replaces is not None:
                self._claims.append(_build_claim(cited, replaces)._replace(record=known.id))
        else:
            self._count += 1
            until = self._read_until(to_text(given.get("until")), cited)
            self._save(self._describe(given, content, cited), cited, until, replaces)

    def _describe(self, given: Mapping[str, Any], content: str, cited: Sequence[Turn]) -> NewRecord:
        """Return the record of a proposal."""
        kind = self._kinds.get(compute_fingerprint(content))
        kind = kind or _read_kind(to_text(given.get("kind")).lower(), content)
        return NewRecord(
            content=content,
            kind=kind,
            importance=rate_importance(content, kind),
            category=to_category(to_text(given.get("category")).lower()),
            confidence=_CONFIDENCE,
            source=f"session:{cited[-1].session}"[:200],
            references=tuple(dict.fromkeys(turn.id for turn in cited)),
            origin="agent",
            scope=cited[-1].scope,
            created_at=cited[-1].at,
        )

    def _explain_refusal(self, content: str, cited: Sequence[Turn], replaces: Record | None) -> str:
        if not 1 <= len(content) <= LONGEST_RECORD:
            return f"a record has 1 to {LONGEST_RECORD} characters"
        if why := _explain_uncited(cited, replaces):
            return why
        if is_likely_secret(content):
            return "it looks like a secret"
        evidence, context, zone = collect_evidence(cited), self._context, self._view.zone
        old = replaces.content if replaces is not None else ""
        if find_language(content) == "de":  # it capitalizes every noun, and not names alone
            context = [*context, Evidence(text=content, at=evidence[0].at)]
        return find_unsaid(content, evidence, least=_KNOWN_SHARE, context=context, replaced=old, zone=zone)

    def _find_saying(self, content: str, cited: Sequence[Turn], replaces: Record | None) -> Record | None:
        """Return a live record that says all of a proposal, in the owner's words or as known."""
        ids = {turn.id for turn in cited}
        for name, record in self._shown.items():
            is_near = name in self._known or not ids.isdisjoint(record.references)
            if is_near and record is not replaces and says(record, content, zone=self._view.zone):
                return record
        return None

    def _read_until(self, text: str, cited: Sequence[Turn]) -> datetime | None:
        """Return the end of a day until which something matters, if a cited turn names that day."""
        zone = self._view.zone
        mentions = (each for turn in cited for each in find_dates(turn.content, get_local_day(turn.at, zone)))
        if any(each.start.isoformat() <= text[:10] <= each.end.isoformat() for each in mentions):
            with suppress(ValueError):
                return datetime.combine(date.fromisoformat(text[:10]), time.max, tzinfo=zone)
        return None

    # -- the plan ----------------------------------------------------------------------------------------

    def _save(
        self, note: NewRecord, cited: Sequence[Turn], until: datetime | None, replaces: Record | None
    ) -> None:
        """Save a record in the owner's words; another waits in the archive, and the owner's sentence stands for it."""
        claim = _build_claim(cited, replaces)
        if _is_quoted(note.content, cited):
            name = self._save_live(note, until)
            self._claims += [claim._replace(record=name)] if replaces is not None else []
            return
        quote = self._save_quotation(note, cited, until)
        for change in self._view.plan_records([note]):
            if isinstance(change.after, Record) and change.before is None:
                until = until or change.after.until
                held = replace(change.after, archived_at=self._view.now, archive_reason=HELD, until=until)
                self._builder.take(replace(change, after=held), HELD)
                self._claims.append(claim._replace(record=change.id, quote=quote))

    def _save_live(self, note: NewRecord, until: datetime | None) -> str:
        """Save a live record; return its id, empty if the text is known."""
        for change in self._view.plan_records([note]):
            record = change.after
            if isinstance(record, Record) and (record.scope, record.fingerprint) not in self._builder.said:
                record = replace(record, until=until or record.until)
                self._builder.take(replace(change, after=record), "said in a conversation")
                return record.id
        return ""

    def _save_quotation(self, note: NewRecord, cited: Sequence[Turn], until: datetime | None = None) -> str:
        """Save the owner's sentence that a proposal cites; return its id, empty if there is none or it is known."""
        quotation = find_quotation(note.content, cited)
        return "" if quotation is None else self._save_live(self._quote(note, *quotation), until)

    def _quote(self, note: NewRecord, sentence: str, turn: Turn) -> NewRecord:
        """Return the record of the owner's own sentence that stands in for a proposed one."""
        intake = classify(sentence, origin=turn.origin, at=turn.at, zone=self._view.zone, door="conversation")
        kind = intake.kind or ("fact" if note.kind in STANDING else note.kind) or "fact"
        importance = rate_importance(sentence, kind)
        own = replace(note, content=sentence, kind=kind, importance=importance, references=(turn.id,))
        return replace(own, origin=turn.origin, created_at=turn.at)

    def add_history(self, entries: Sequence[str]) -> None:
        """Add the paragraph about turns that are not told yet; none for a scope's."""
        window = self._window
        older = [turn for turn in window.older if turn.position >= window.told]
        if window.state.scope or not any(turn.role == "user" for turn in older):
            return
        entry = "" if self._view.is_trusted is False else " ".join(filter(None, entries))
        text = select_said(entry, older, zone=self._view.zone) or build_headline(older)
        has_tool_source = any(turn.origin in UNTRUSTED for turn in older if turn.role != "tool")
        paragraph = Paragraph(
            id=self._view.new_id(),
            page=HISTORY,
            position=window.position,
            at=older[-1].at,
            content=stamp_paragraph(text, older[-1].at),
            source=build_session_source(older[-1].session, from_tools=has_tool_source),
        )
        names = tuple(turn.id for turn in older)
        self._builder.take(Change(before=None, after=paragraph), f"history of turns: {len(older)}", names)

    def build_pause(self) -> dict[str, str | None]:
        """Return the cursor by which the model is asked about the conversation again in 1, 2, 4, then each 8 days."""
        window = self._window
        again_at = self._view.now + min(FIRST_PAUSE * 2 ** min(window.failures, 9), LONGEST_PAUSE)
        words = (window.read_from, window.failures + 1, format_time(again_at), window.reader)
        return {build_remembered_cursor(window.state.id): " ".join(map(str, words))}

    def build_cursors(self, *, is_read: bool) -> dict[str, str | None]:
        """Return how far the conversation is read and told, and the claims that wait."""
        window, session = self._window, self._window.state.id
        end = window.older[-1].position + 1 if window.older else window.read_from
        cursors: dict[str, str | None] = {}
        if not window.state.scope:
            cursors[build_history_cursor(session)] = str(max(end, window.told))
        if is_read:
            cursors[build_remembered_cursor(session)] = str(end)
        return cursors | (encode_claims([*self._view.claims, *self._claims]) if self._claims else {})


# -- sentences and records ---------------------------------------------------------------------------------


def _build_claim(cited: Sequence[Turn], replaces: Record | None) -> PendingClaim:
    """Return the claim that turns add a record, or change a known one."""
    turns = tuple(turn.id for turn in cited)
    if replaces is None:
        return PendingClaim("add", turns=turns)
    return PendingClaim("change", target=replaces.id, turns=turns)


def _explain_uncited(cited: Sequence[Turn], record: Record | None) -> str:
    """Return why turns may not add a record, or change or end a known one; empty if they may."""
    if not collect_evidence(cited, only_owner=True):
        return "no turn of the user's is cited, in their own words"
    return "it is pinned" if record is not None and record.pinned else ""


def says(record: Record, content: str, *, zone: tzinfo) -> bool:
    """Return whether a record says all of a statement: its specifics, its negations and most of its words."""
    evidence = [Evidence(text=record.content, at=record.created_at)]
    return (
        not find_new_specifics([record.content], content)
        and extract_specifics(content).denied == extract_specifics(record.content).denied
        and not find_unsaid(content, evidence, least=_SAID_SHARE, zone=zone)
    )


def find_quotation(content: str, turns: Sequence[Turn]) -> tuple[str, Turn] | None:
    """Return the owner's own sentences that have most words of a statement, with their turn; None without one."""
    words = extract_content(content)
    best: tuple[int, str, Turn] | None = None
    for turn in turns:
        for evidence in collect_evidence([turn], only_owner=True):
            sentences = [each for each in split_sentences(evidence.text) if len(each) <= LONGEST_RECORD]
            counts = [sum(is_among(word, extract_content(each)) for word in words) for each in sentences]
            most = max(counts, default=0)
            if most and (best is None or most > best[0]):
                chosen = [each for each, count in zip(sentences, counts, strict=True) if count >= 0.6 * most]
                text = " ".join(chosen) if len(" ".join(chosen)) <= LONGEST_RECORD else chosen[0]
                best = most, text, turn
    if best is None or is_likely_secret(best[1]) or (best[1].endswith("?") and "," not in best[1]):
        return None
    return best[1], best[2]


def _is_quoted(content: str, turns: Sequence[Turn]) -> bool:
    """Return whether a text is a sentence of the owner's in these turns, word for word."""
    own = collect_evidence(turns, only_owner=True)
    said = {compute_fingerprint(sentence) for each in own for sentence in split_sentences(each.text)}
    return compute_fingerprint(content) in said


def _select_known(records: Iterable[Record], turns: Iterable[Turn]) -> list[Record]:
    """Return the records that share most words with a conversation."""
    said = extract_content("\n".join(turn.content for turn in turns))
    shares = [(len(said & extract_content(record.content)), record.updated_at, record) for record in records]
    ranked = sorted((each for each in shares if each[0]), key=lambda each: each[:2], reverse=True)
    return [record for _, _, record in ranked[:MAX_KNOWN]]


def _format_records(labelled: Mapping[str, Record]) -> str:
    lines = (
        f"[{name}] ({record.valid_from or record.created_at:%Y-%m-%d}) {escape_line(record.content)[:200]}"
        for name, record in labelled.items()
    )
    return "\n".join(lines) or "(nothing)"


def _read_kind(text: str, content: str) -> Kind:
    """Return the kind of a record. What all advice has to observe is a constraint, which stands in every prompt."""
    named = "preference" if text == "instruction" else text
    kind: Kind = next((kind for kind in KINDS if kind == named), "fact")
    return "constraint" if kind == "fact" and concerns_health(content) else kind


# -- paragraphs of HISTORY.md ------------------------------------------------------------------------------

_LONGEST_PARAGRAPH = 4_000
_LONGEST_TOLD = {"user": 400, "assistant": 160}  # characters of a message
_FEW_WORDS = 2  # of a message that tells nothing
_STAMP = defer_regex(r"\[?\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(?::\d{2})?\]?:?\s*")


def build_headline(turns: Sequence[Turn]) -> str:
    """Return what was said in turns, by rule: `message → answer / message → answer`.

    Only trusted turns are quoted. A message of few words, such as "Thanks!" or "OK.", tells nothing.

    Args:
        turns: The turns, the earliest first.
    """
    exchanges: list[list[str]] = []
    first = ""
    for turn in turns:
        text = _cut(" ".join(turn.content.split()), _LONGEST_TOLD.get(turn.role, 1))
        if turn.origin in UNTRUSTED:
            continue
        first = first or (text if turn.role == "user" else "")
        if len(tokenize(text)) <= _FEW_WORDS:
            continue
        if turn.role == "user":
            exchanges.append([text])
        elif turn.role == "assistant" and exchanges and len(exchanges[-1]) == 1:
            exchanges[-1].append(text)
    if not exchanges:
        return first or f"{len(turns)} messages."
    return EXCHANGE_MARK.join(map(ANSWER_MARK.join, exchanges))


def stamp_paragraph(text: str, at: datetime) -> str:
    """Return a paragraph of history as one line that begins with its time, and with no other time.

    >>> stamp_paragraph("2025-01-15 10:30: User asked.", datetime(2025, 1, 15, 10, 31))
    '[2025-01-15 10:31] User asked.'
    """
    folded = " ".join(clean_text(text).split())
    return f"[{at:%Y-%m-%d %H:%M}] {_STAMP.sub('', folded, count=1)[:_LONGEST_PARAGRAPH]}".strip()


def select_said(entry: str, turns: Sequence[Turn], *, zone: tzinfo) -> str:
    """Return the sentences of a paragraph whose specifics and most words are in the turns."""
    said = collect_evidence(turns)
    days = [Evidence(text=f"{turn.at:%Y-%m-%d %H:%M}", at=turn.at) for turn in turns[:1]]
    kept = [
        sentence
        for sentence in split_sentences(_STAMP.sub("", entry))
        if said and not find_unsaid(sentence, [*said, *days], zone=zone)
    ]
    return " ".join(kept)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"
