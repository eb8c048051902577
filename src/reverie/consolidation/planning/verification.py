"""Verification of claims by a question of its own, which shows each claim with what it cites and nothing else.

A pass lets a claim stand only if the model says that what it cites supports it. One claim of each question is made
up: where the model calls it supported too, none of its answers counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.requests import (
    Flow,
    ask_for_json,
    build_schema,
    build_verification,
    iter_numbered,
    to_text,
)
from reverie.domain.conversation import Turn
from reverie.domain.text.escaping import escape_line
from reverie.llm.protocol import TokenUsage

PROMPT = "claim-check.md"

MADE_UP = "The user keeps eleven colonies of bees on the roof of the town hall of Windhoek."
"""The claim that no evidence supports."""

QUOTED = "Word for word: "
"""Beginning of a claim that quotes what it cites, and that is therefore true."""

UNJUDGED = "the model did not say whether the cited turns support it"

DENIED = "the model calls it "
"""Beginning of the reasons why claims are refused that the model judged, and does not find supported."""

MOST_CHARACTERS = 40_000
"""Characters of the claims of one question, with what they cite; claims that do not fit are not judged."""

_SUPPORTED = "supported"
_LONGEST_MESSAGE = 1_000
_LONGEST_BEFORE = 300
_TOKENS = 60  # of the answer, for each claim
_SCHEMA = build_schema(
    {"claims": [{"claim": int, "missing": str, "verdict": (_SUPPORTED, "unsupported", "contradicted")}]}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Statement that is to be verified.

    Attributes:
        kind: What it claims to be, such as `preference`.
        text: The statement.
        evidence: Lines of what it cites.
    """

    kind: str
    text: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimVerdicts:
    """A model's judgement of claims.

    Attributes:
        reasons: Why each claim is refused; empty where it is supported.
        failed: Why the model gave no answer at all; empty where it gave one.
        usage: Cost of the question.
    """

    reasons: tuple[str, ...] = ()
    failed: str = ""
    usage: TokenUsage = field(default_factory=TokenUsage)


def verify_claims(view: PassInput, claims: Sequence[Claim], *, scope: str = "") -> Flow[ClaimVerdicts]:
    """Ask which claims are supported by what they cite. Nothing is asked about none.

    Args:
        view: The prompts.
        claims: The claims.
        scope: The scope of what they cite.
    """
    if not claims:
        return ClaimVerdicts()
    sizes = accumulate(len(each.text) + sum(map(len, each.evidence)) for each in claims)
    if left := sum(size > MOST_CHARACTERS for size in sizes):
        judged = yield from verify_claims(view, claims[:-left], scope=scope)
        return replace(judged, reasons=(*judged.reasons, *(f"{UNJUDGED}: there was no room for it",) * left))
    at = len(claims) // 2
    shown = [*claims[:at], Claim(kind="fact", text=MADE_UP, evidence=claims[at].evidence), *claims[at:]]
    blocks = (
        "\n".join((f"Claim {number} ({each.kind}): {escape_line(each.text)}", *each.evidence))
        for number, each in enumerate(shown, 1)
    )
    text = view.fill_prompt(PROMPT, claims="\n\n".join(blocks))
    tokens = _TOKENS * (len(shown) + 3)
    answer = yield from ask_for_json(build_verification(text, scope, schema=_SCHEMA, answer_tokens=tokens))
    if answer.why:
        failed = "" if answer.is_unusable else answer.why
        unjudged = (f"{UNJUDGED}: {answer.why}",) * len(claims)
        return ClaimVerdicts(reasons=unjudged, failed=failed, usage=answer.usage)
    verdicts: dict[int, Mapping[str, Any]] = {}
    for number, each in iter_numbered(answer.fields.get("claims"), "claim"):
        if number not in verdicts or _explain(each):
            verdicts[number] = each  # of two about one claim the stricter counts
    reasons = [_explain(verdicts.get(number)) for number in range(1, len(shown) + 1)]
    if not reasons.pop(at):
        reasons = ["the model calls a made-up claim supported, so its word does not count"] * len(claims)
    return ClaimVerdicts(reasons=tuple(reasons), usage=answer.usage)


def format_evidence(turns: Iterable[Turn], before: Mapping[str, str]) -> tuple[str, ...]:
    """Return turns as lines of evidence.

    Args:
        turns: The turns that a claim cites.
        before: By the ids of turns, what the assistant had said just before them.
    """
    lines = []
    for turn in turns:
        asked = escape_line(before.get(turn.id, ""))[:_LONGEST_BEFORE]
        after = f" (after the assistant's “{asked}”)" if asked else ""
        said = escape_line(turn.content)[:_LONGEST_MESSAGE]
        lines.append(f"- [{turn.at:%Y-%m-%d %H:%M}] {turn.role.upper()}{after}: {said}")
    return tuple(lines)


def _explain(verdict: Mapping[str, Any] | None) -> str:
    """Return why a claim with this verdict is refused; empty where it is supported."""
    if verdict is None or not (word := to_text(verdict.get("verdict")).lower()):
        return UNJUDGED
    if word == _SUPPORTED:
        return ""
    missing = escape_line(to_text(verdict.get("missing")))[:200]
    return f"{DENIED}{'contradicted' if word == 'contradicted' else 'unsupported'}: {missing}"
