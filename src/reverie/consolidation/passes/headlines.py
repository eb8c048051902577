"""Headlines: a model writes them, code checks what they bring in, and the model is asked whether they are true.

Part of the pass `merge`. A headline that code or the model refuses is remembered, and not asked for again until one of
its records has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.plan_builder import PlanBuilder
from reverie.consolidation.planning.replies import (
    UnusableReply,
    iter_numbered,
    parse_answer,
    to_text,
    to_texts,
)
from reverie.consolidation.planning.requests import (
    LATER,
    NUMBER,
    TEXT,
    TEXTS,
    Flow,
    build_list,
    build_object,
    build_verification,
)
from reverie.domain.headlines import compute_parts_version, is_current
from reverie.domain.record import UNTRUSTED, Record
from reverie.domain.text.escaping import escape_line
from reverie.llm.messages import ModelReply, ModelRequest

VERIFY_PROMPT = "headline-check.md"

REFUSED = "dream.merge.refused"
"""The store's cursor with the versions of records whose headlines were refused for good."""

MOST_REFUSED = 500
"""Versions that are remembered, the latest."""

_ANSWER_TOKENS = 3_000
_UNJUDGED = "the model did not say whether it is true"
_VERDICTS = build_object(
    headlines=build_list(headline=NUMBER, supports=TEXTS, contradicts=TEXTS, leaves_out=TEXTS, adds=TEXT)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineProposal:
    """Headline that a model proposes.

    Attributes:
        parts: Ids of the records, with those that share a headline with one of them already.
        content: What it says.
        category: Its category; None takes that of the surest record.
        tags: Labels for it.
        why: The model's reason.
        replacing: Earlier headlines over some of the records.
        refused: Why it was refused; empty if it was not.
        left_out: Ids of the records that it does not tell of.
    """

    parts: tuple[str, ...]
    content: str
    category: str | None = None
    tags: tuple[str, ...] = ()
    why: str = ""
    replacing: tuple[Record, ...] = ()
    refused: str = ""
    left_out: tuple[str, ...] = ()


class HeadlineWriter:
    """Headlines of one plan. Not safe for several threads."""

    def __init__(self, view: PassInput, draft: PlanBuilder) -> None:
        """Begin with the headlines that there are.

        Args:
            view: Input of the pass.
            draft: The plan.
        """
        self._view = view
        self._draft = draft
        self.left: set[str] = set()
        """Ids of records that wait for the next dream, which had no room for a request about their headline."""
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

    def propose(self, parts: Sequence[str], content: str, **fields: Any) -> HeadlineProposal:
        """Return a proposal over these records and those that share a headline with one of them."""
        names = dict.fromkeys(parts)
        replacing = {self._over[name].id: self._over[name] for name in names if name in self._over}
        for headline in replacing.values():
            names |= dict.fromkeys(headline.parts)
        return HeadlineProposal(
            parts=tuple(names), content=content, replacing=tuple(replacing.values()), **fields
        )

    def write(self, proposals: Sequence[HeadlineProposal]) -> Flow[None]:
        """Accept the proposals that code and the model find no fault with."""
        checked = [self._check(proposal) for proposal in self._list_new(proposals)]
        checked = yield from self._verify(checked)
        for proposal in checked:
            if proposal.refused:
                self._refuse(proposal)
            else:
                self._take(proposal)

    def _list_new(self, proposals: Iterable[HeadlineProposal]) -> Iterator[HeadlineProposal]:
        """Yield the proposals over records that have no headline and stand in no earlier proposal; note the others."""
        named: set[str] = set()
        for proposal in proposals:
            if self._is_known(proposal):
                continue
            if named.isdisjoint(proposal.parts):
                named.update(proposal.parts)
                yield proposal
            else:
                why = "another headline is proposed over one of these records"
                self._draft.refuse(_describe(proposal), why, protects=proposal.parts)

    def _check(self, proposal: HeadlineProposal) -> HeadlineProposal:
        """Return the proposal with what code finds wrong with it."""
        return replace(proposal, refused=self._draft.explain_headline(proposal.parts, proposal.content))

    def _is_known(self, proposal: HeadlineProposal) -> bool:
        """Return whether the same records have a headline, or were refused one; note that."""
        if any(set(old.parts) == set(proposal.parts) for old in proposal.replacing):
            why = "they have one already"
        elif self._get_version(proposal) in self._refused:
            why = "one was refused before, and none of these records has changed"
        else:
            return False
        self._draft.refuse(_describe(proposal), why, protects=proposal.parts)
        return True

    def _take(self, proposal: HeadlineProposal) -> None:
        self._draft.add_headline(
            proposal.parts,
            proposal.content,
            category=proposal.category,
            tags=proposal.tags,
            why=proposal.why,
            left_out=proposal.left_out,
            replacing=proposal.replacing,
        )

    def _refuse(self, proposal: HeadlineProposal) -> None:
        self._draft.refuse(_describe(proposal), proposal.refused, protects=proposal.parts)
        is_judged = proposal.refused != _UNJUDGED and not self.left.issuperset(proposal.parts)
        if is_judged and (version := self._get_version(proposal)) is not None:
            self._refused[version] = None

    def _get_version(self, proposal: HeadlineProposal) -> str | None:
        """Return the version of the records; None if one of them is unknown."""
        records = [self._records[name] for name in proposal.parts if name in self._records]
        return compute_parts_version(records) if len(records) == len(proposal.parts) else None

    # -- asking ------------------------------------------------------------------------------------------

    def _verify(self, proposals: Sequence[HeadlineProposal]) -> Flow[list[HeadlineProposal]]:
        """Ask which records each headline supports, contradicts or leaves out; return the proposals with that."""
        asked = [proposal for proposal in proposals if not proposal.refused]
        if not asked:
            return list(proposals)
        text = self._view.fill_prompt(VERIFY_PROMPT, headlines=self._format(asked))
        first = self._records[asked[0].parts[0]]
        request = build_verification(text, first.scope, schema=_VERDICTS, answer_tokens=_ANSWER_TOKENS)
        if first.origin in UNTRUSTED:
            request = replace(request, group="")  # what tools said is shown by itself
        verdicts = yield from self._ask(request, asked)
        judged = {
            id(proposal): _judge(proposal, verdicts.get(number)) for number, proposal in enumerate(asked, 1)
        }
        return [judged.get(id(proposal), proposal) for proposal in proposals]

    def _ask(
        self, request: ModelRequest, proposals: Sequence[HeadlineProposal]
    ) -> Flow[dict[int, Mapping[str, Any]]]:
        """Ask about proposals; return the answers by number, none where there is no usable answer."""
        reply = yield request
        self._draft.spend(reply.usage)
        if reply == LATER:
            self.left.update(name for proposal in proposals for name in proposal.parts)
            return {}
        if not isinstance(reply, ModelReply):
            self._draft.fail(reply.why)
            return {}
        try:
            answer = parse_answer(reply, request.schema or {})
        except UnusableReply as error:
            self._draft.note(f"no usable answer about headlines ({request.purpose}): {error}")
            return {}
        return dict(iter_numbered(answer.get("headlines"), "headline"))

    def _format(self, proposals: Iterable[HeadlineProposal]) -> str:
        """Return the proposals for a prompt, each with its number and its records."""
        blocks = []
        for number, proposal in enumerate(proposals, 1):
            lines = [f"Headline {number}: {escape_line(proposal.content)}"]
            lines += [f"- [{name}] {escape_line(self._records[name].content)}" for name in proposal.parts]
            blocks.append("\n".join(lines))
        return "\n\n".join(blocks)


def _judge(proposal: HeadlineProposal, verdict: Mapping[str, Any] | None) -> HeadlineProposal:
    """Return the proposal after the model's verdict. What no verdict names is left out."""
    if verdict is None:
        return replace(proposal, refused=_UNJUDGED)
    wrong = [name for name in to_texts(verdict.get("contradicts")) if name in proposal.parts]
    added = to_text(verdict.get("adds"))
    supported = {name for name in to_texts(verdict.get("supports")) if name in proposal.parts}
    left_out = tuple(name for name in proposal.parts if name not in supported)
    if wrong:
        reason = f"it contradicts {', '.join(wrong)}"
    elif added and added.strip(" .-").lower() not in ("none", "nothing", "no", "n/a"):
        reason = f"no record says: {added}"
    else:
        reason = "it tells of fewer than two records" if len(supported) < 2 else ""
    return replace(proposal, refused=reason, left_out=left_out)


def _describe(proposal: HeadlineProposal) -> str:
    return f"a headline over {', '.join(proposal.parts)}"
