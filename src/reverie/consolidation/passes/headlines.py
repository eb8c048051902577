"""Headlines: which proposed ones may be verified, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.plan_builder import HeadlineProposal, PlanBuilder
from reverie.consolidation.planning.verification import DENIED, Claim
from reverie.domain.headlines import compute_parts_version, is_current
from reverie.domain.record import Record
from reverie.domain.similarity.grounding import extract_content, find_new_specifics, is_among
from reverie.domain.similarity.specifics import extract_specifics
from reverie.domain.text.escaping import escape_line

MOST_REFUSED = 500
"""Versions of records that are remembered, the latest."""

_TOLD_SHARE = 0.5
"""Share of a record's words that a headline must have to tell it."""


class HeadlineWriter:
    """Headlines of one plan. Not safe for several threads."""

    def __init__(self, view: PassInput, builder: PlanBuilder) -> None:
        """Begin with the existing headlines."""
        self._view = view
        self._builder = builder
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
                self._builder.end_headline(headline, "one of its records has changed")
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
            if any(set(old.parts) == set(parts) for old in proposal.replacing):
                why = "they have one already"
            elif self._get_version(parts) in self._refused:
                why = "one was refused before, and none of these records has changed"
            elif not named.isdisjoint(parts):
                why = "another headline is proposed over one of these records"
            else:
                named.update(parts)
                why = self._builder.explain_headline(parts, proposal.content)
                if not why and len(parts) - len(left_out) < 2:
                    why = "it tells of fewer than two records"
                if why:
                    self._refuse(proposal, why)
                else:
                    chosen.append(proposal)
                continue
            self._builder.refuse(proposal.describe(), why, protects=parts)
        return chosen

    def _tells(self, content: str, id: str) -> bool:
        """Return whether a headline has the specifics and most words of a record."""
        record = self._records.get(id)
        if record is None:
            return True  # the builder says that it is not live
        words, told = extract_content(record.content), extract_content(content)
        is_denied = extract_specifics(record.content).negations - extract_specifics(content).negations
        known = sum(is_among(word, told) for word in words)
        return (
            not is_denied
            and not find_new_specifics([content], record.content)
            and known >= _TOLD_SHARE * len(words)
        )

    def to_claim(self, proposal: HeadlineProposal) -> Claim:
        """Return the claim of a headline: its records say all that it says."""
        told = [name for name in proposal.parts if name not in proposal.left_out]
        lines = tuple(f"- {escape_line(self._records[name].content)}" for name in told)
        return Claim(kind="headline", text=proposal.content, evidence=lines)

    def decide(self, proposal: HeadlineProposal, why: str) -> None:
        """Add a headline, or refuse it: for good if the model denies it."""
        if not why:
            self._builder.add_headline(proposal)
        elif why.startswith(DENIED):
            self._refuse(proposal, why)
        else:
            self._builder.refuse(proposal.describe(), why, protects=proposal.parts)

    def _refuse(self, proposal: HeadlineProposal, why: str) -> None:
        self._builder.refuse(proposal.describe(), why, protects=proposal.parts)
        if (version := self._get_version(proposal.parts)) is not None:
            self._refused[version] = None

    def _get_version(self, parts: Sequence[str]) -> str | None:
        """Return the version of the records; None if one of them is unknown."""
        records = [self._records[name] for name in parts if name in self._records]
        return compute_parts_version(records) if len(records) == len(parts) else None
