"""Headlines: which proposed ones may be verified, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from reverie.consolidation.flows import DENIED, Claim
from reverie.consolidation.plan_builder import PlanBuilder, find_new_injection
from reverie.domain.category import validate_category
from reverie.domain.change import Change
from reverie.domain.errors import InvalidInput
from reverie.domain.headlines import build_headline, compute_parts_version, explain_mismatch, is_current
from reverie.domain.record import Record, normalize_labels
from reverie.domain.similarity.grounding import extract_content, find_new_specifics, is_among
from reverie.domain.similarity.specifics import extract_specifics
from reverie.domain.text.escaping import escape_line

MAX_PARTS = 30
"""Maximum number of records under one headline."""

LONGEST_HEADLINE = 800
"""Maximum length of a headline in characters: as much as a prompt shows of a record."""

MAX_REFUSED = 500
"""Versions of records that are remembered, the latest."""

_SLACK = 20  # characters of each record for the words that join it to the others
_TOLD_SHARE = 0.5
"""Share of a record's words that a headline must have to tell it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineProposal:
    """Headline that a model proposes.

    Attributes:
        parts: Ids of its records.
        content: What it says.
        category: Its category; None takes that of the surest record.
        tags: Labels for it.
        replacing: Earlier headlines over some of the records.
        left_out: Ids of the records that it does not tell of.
    """

    parts: tuple[str, ...]
    content: str
    category: str | None = None
    tags: tuple[str, ...] = ()
    replacing: tuple[Record, ...] = ()
    left_out: tuple[str, ...] = ()


class HeadlineWriter:
    """Headlines of one plan. Not safe for several threads."""

    def __init__(self, builder: PlanBuilder) -> None:
        """Begin with the existing headlines."""
        self._view = builder.view
        self._builder = builder
        self._records = builder.records
        self._refused = dict.fromkeys(self._view.refused)
        self._over = {part: headline for headline in self._view.headlines for part in headline.parts}

    @property
    def refused(self) -> str:
        """Versions of records whose headlines were refused for good, for the cursor."""
        return " ".join(list(self._refused)[-MAX_REFUSED:])

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

    def select(self, proposals: Iterable[HeadlineProposal]) -> list[HeadlineProposal]:
        """Return the headlines that code finds no fault with, each with the parts that it does not tell.

        A headline is over the records that it names and those that share a headline with one of them.
        """
        chosen: list[HeadlineProposal] = []
        named: set[str] = set()
        for proposal in proposals:
            replacing = {
                self._over[name].id: self._over[name] for name in proposal.parts if name in self._over
            }
            under = (name for headline in replacing.values() for name in headline.parts)
            parts = tuple(dict.fromkeys((*proposal.parts, *under)))
            left_out = tuple(name for name in parts if not self._tells(proposal.content, name))
            proposal = replace(proposal, parts=parts, replacing=tuple(replacing.values()), left_out=left_out)
            why = ""
            if any(set(old.parts) == set(parts) for old in proposal.replacing):
                why = "they have one already"
            elif self._get_version(parts) in self._refused:
                why = "one was refused before, and none of these records has changed"
            elif not named.isdisjoint(parts):
                why = "another headline is proposed over one of these records"
            if why:
                self._refuse(proposal, why)
            elif why := self._explain(proposal):
                self._refuse(proposal, why, for_good=True)
            else:
                named.update(parts)
                chosen.append(proposal)
        return chosen

    def to_claim(self, proposal: HeadlineProposal) -> Claim:
        """Return the claim of a headline: its records say all that it says."""
        told = [name for name in proposal.parts if name not in proposal.left_out]
        lines = tuple(f"- {escape_line(self._records[name].content)}" for name in told)
        return Claim(kind="headline", text=proposal.content, evidence=lines)

    def decide(self, proposal: HeadlineProposal, why: str) -> None:
        """Add a headline over records, which stay as they are, or refuse it: for good if the model denies it."""
        why = why or self._builder.explain_unavailable(proposal.parts)
        if why:
            self._refuse(proposal, why, for_good=why.startswith(DENIED))
            return
        records = [self._records[name] for name in proposal.parts]
        try:
            headline = build_headline(
                records,
                proposal.content,
                id=self._view.new_id(),
                now=self._view.now,
                category=None if proposal.category is None else validate_category(proposal.category),
                tags=normalize_labels(proposal.tags, name="tag"),
                left_out=proposal.left_out,
            )
        except InvalidInput as error:
            self._refuse(proposal, str(error))
            return
        self._builder.take(Change(before=None, after=headline), _describe(proposal), proposal.parts)
        self._builder.keep(proposal.parts)
        for old in proposal.replacing:
            self._builder.retire(old, f"replaced by {headline.id}", old.parts)

    def _explain(self, proposal: HeadlineProposal) -> str:
        """Return why no headline over these records may say this; empty when it may.

        It may if each record is known, live, unprotected and of one scope and trust, if all of them hold at the
        same time, and if no number, date, path, name or order to the assistant in it is new.
        """
        parts, content = proposal.parts, proposal.content
        if not 2 <= len(parts) <= MAX_PARTS:
            return f"a headline is over 2 to {MAX_PARTS} records, not {len(parts)}"
        if reason := self._builder.explain_unavailable(parts):
            return reason
        records = [self._records[name] for name in parts]
        contents = [record.content for record in records]
        if reason := explain_mismatch(records):
            return reason
        if not content:
            return "it says nothing"
        if len(content) > sum(len(each) + _SLACK for each in contents):
            return f"it would be longer than its records together: {len(content):,} characters"
        if len(content) > LONGEST_HEADLINE:
            return f"it would be longer than a prompt shows: {len(content):,} characters"
        if reason := find_new_injection(contents, content):
            return reason
        if inventions := find_new_specifics(contents, content):
            return f"no record says: {', '.join(inventions)}"
        return "it tells of fewer than two records" if len(parts) - len(proposal.left_out) < 2 else ""

    def _tells(self, content: str, id: str) -> bool:
        """Return whether a headline has the specifics and most words of a record."""
        record = self._records.get(id)
        if record is None:
            return True  # another check says that it is not live
        words, told = extract_content(record.content), extract_content(content)
        is_denied = extract_specifics(record.content).denied - extract_specifics(content).denied
        known = sum(is_among(word, told) for word in words)
        return (
            not is_denied
            and not find_new_specifics([content], record.content)
            and known >= _TOLD_SHARE * len(words)
        )

    def _refuse(self, proposal: HeadlineProposal, why: str, *, for_good: bool = False) -> None:
        self._builder.refuse(_describe(proposal), why, protects=proposal.parts)
        if for_good and (version := self._get_version(proposal.parts)) is not None:
            self._refused[version] = None

    def _get_version(self, parts: Sequence[str]) -> str | None:
        """Return the version of the records; None if one of them is unknown."""
        records = [self._records[name] for name in parts if name in self._records]
        return compute_parts_version(records) if len(records) == len(parts) else None


def _describe(proposal: HeadlineProposal) -> str:
    return f"a headline over {', '.join(proposal.parts)}"
