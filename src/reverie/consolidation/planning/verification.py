"""Verification of claims by a request of its own, which shows each claim with what it cites and nothing else.

All passes of a dream that verify something are asked about together, in one form. Among their claims stand
controls: code makes them from the same claims by changing a number, exchanging a name or denying what is said. A
model that calls a control supported is not believed in this dream, whatever it says about the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from reverie.consolidation.planning.requests import (
    VERIFY,
    build_question,
    build_schema,
    iter_numbered,
    read_answer,
    to_text,
)
from reverie.domain.conversation import Turn
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.dates import load_words
from reverie.domain.text.escaping import escape_line
from reverie.domain.text.tokenizer import find_language
from reverie.llm.protocol import ModelFailure, ModelReply, ModelRequest, TokenUsage

PROMPT = "claim-check.md"

UNJUDGED = "the model did not say whether the cited texts support it"

DENIED = "the model calls it "
"""Beginning of the reasons why claims are refused that the model judged, and does not find supported."""

NO_CONTROL = "no control can be made of it, and the model is not known; `reverie model check` examines it"

NOT_BELIEVED = "the model calls a false control supported, so its word does not count in this dream"

MAX_CHARACTERS = 24_000
"""Characters of the claims of one request, with what they cite; claims that do not fit are not judged."""

_SUPPORTED = "supported"
_LONGEST_MESSAGE = 1_000
_LONGEST_BEFORE = 300
_TOKENS = 60  # of the answer, for each claim
CLAIM_SCHEMA = build_schema(
    {"claims": [{"claim": int, "missing": str, "verdict": (_SUPPORTED, "unsupported", "contradicted")}]}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Statement that is to be verified.

    Attributes:
        kind: What it claims to be: `fact`, `preference`, `change`, `end`, `drop` or `headline`.
        text: The statement.
        evidence: Lines of what it cites.
    """

    kind: str
    text: str
    evidence: tuple[str, ...]

    @property
    def cited(self) -> str:
        """The texts that it cites, as one."""
        return "\n".join(self.evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimCheck:
    """Claims that a pass wants verified.

    Attributes:
        claims: The claims.
        prompt: The prompt with the place `{{claims}}`.
        scope: The scope of what they cite. No request shows two of them.
        is_apart: Whether they are asked about by themselves, such as what tools said.
        by_default: Whether the model is believed if no control can be made of the claims.
    """

    claims: tuple[Claim, ...]
    prompt: str
    scope: str = ""
    is_apart: bool = False
    by_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimVerdicts:
    """A model's judgement of claims.

    Attributes:
        reasons: Why each claim is refused; empty where it is supported.
        failed: Why the model gave no answer at all; empty where it gave one.
        is_believed: Whether the model denied all controls; None if there were none, or it gave no usable answer.
        is_later: Whether the dream had no request left.
        usage: Cost of the request.
    """

    reasons: tuple[str, ...] = ()
    failed: str = ""
    is_believed: bool | None = None
    is_later: bool = False
    usage: TokenUsage = field(default_factory=TokenUsage)


# -- the request and its answer ----------------------------------------------------------------------------


class VerificationRequest:
    """One request about the claims of several passes, with controls among them."""

    def __init__(self, checks: Sequence[ClaimCheck]) -> None:
        """Choose the claims that fit, and make the controls.

        Args:
            checks: Claims of one scope, of one or more passes.
        """
        self._sizes = [len(check.claims) for check in checks]
        claims = [claim for check in checks for claim in check.claims]
        lengths = accumulate(len(each.text) + len(each.cited) for each in claims)
        self._fitting = max(1, sum(length <= MAX_CHARACTERS for length in lengths))
        self._shown: list[tuple[int | None, Claim]] = list(enumerate(claims[: self._fitting]))
        controls = list(build_controls(claims[: self._fitting]))
        for number, control in enumerate(controls):
            self._shown.insert(
                (2 * number + 1) * (len(self._shown) + 1) // (2 * len(controls)), (None, control)
            )
        self._has_controls = bool(controls) or all(check.by_default for check in checks)
        self._total = len(claims)
        self._check = checks[0]

    def build(self) -> ModelRequest:
        """Return the request."""
        text = self._check.prompt.replace("{{claims}}", format_claims([claim for _, claim in self._shown]))
        return build_claim_request(text, len(self._shown), scope=self._check.scope)

    def read(self, reply: ModelReply | ModelFailure) -> list[ClaimVerdicts]:
        """Return the verdicts about the claims of each pass; the cost is that of the first."""
        answer = read_answer(reply, CLAIM_SCHEMA)
        if answer.why:
            whole = ClaimVerdicts(
                reasons=(f"{UNJUDGED}: {answer.why}",) * self._total,
                failed="" if answer.is_unusable or answer.is_later else answer.why,
                is_later=answer.is_later,
                usage=answer.usage,
            )
            return self._divide(whole)
        verdicts: dict[int, Mapping[str, Any]] = {}
        for number, each in iter_numbered(answer.fields.get("claims"), "claim"):
            if number not in verdicts or _explain(each):
                verdicts[number] = each  # of two about one claim the stricter counts
        reasons = [f"{UNJUDGED}: there was no room for it"] * self._total
        is_believed: bool | None = True if self._has_controls else None
        for number, (place, _) in enumerate(self._shown, 1):
            why = _explain(verdicts.get(number))
            if place is not None:
                reasons[place] = why
            elif not why:
                is_believed = False
        if not is_believed:
            reasons = [NO_CONTROL if is_believed is None else NOT_BELIEVED] * self._total
        return self._divide(
            ClaimVerdicts(reasons=tuple(reasons), is_believed=is_believed, usage=answer.usage)
        )

    def _divide(self, whole: ClaimVerdicts) -> list[ClaimVerdicts]:
        parts: list[ClaimVerdicts] = []
        start = 0
        for size in self._sizes:
            part = replace(whole, reasons=whole.reasons[start : start + size])
            parts.append(replace(part, usage=TokenUsage()) if parts else part)
            start += size
        return parts


def format_claims(claims: Sequence[Claim]) -> str:
    """Return claims as a request shows them, numbered from 1."""
    return "\n\n".join(
        "\n".join((f"Claim {number} ({each.kind}): {escape_line(each.text)}", *each.evidence))
        for number, each in enumerate(claims, 1)
    )


def build_claim_request(text: str, claims: int, *, scope: str = "") -> ModelRequest:
    """Return the request to verify some claims."""
    tokens = _TOKENS * (claims + 3)
    request = build_question(
        text, purpose=VERIFY, scope=scope, schema=CLAIM_SCHEMA, answer_tokens=tokens, timeout_s=180.0
    )
    return replace(request, temperature=0.0)


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


# -- controls ----------------------------------------------------------------------------------------------


_DIGITS = defer_regex(r"(?<![\w.,:/-])\d{1,6}(?![\w/-]|[.,:]\d)")
_CAPITALIZED = defer_regex(r"(?<!\w)[^\W\d_a-zß-öø-ÿ][^\W\d_]{2,}(?![\w'’])")
_WORDS = load_words("reverie.consolidation.planning", "controls.txt")
_STATED = ("fact", "preference", "change", "headline")
"""Kinds whose claims can be denied; code has compared the denials of the first two with their evidence."""


def build_controls(claims: Sequence[Claim]) -> Iterator[Claim]:
    """Yield up to three claims that what they cite does not support, each made from one of the claims.

    A number or name is exchanged for one that the evidence does not have, so that the result is false whether the
    claim is true or not. What is denied is a fact or preference, whose denials code has compared with its evidence, and
    another claim only if there is no other control.
    """
    makers = (_change_number, _exchange_name, _deny)
    claims = [claim for claim in claims if claim.kind != "drop"]  # an altered joke is a joke
    claims.sort(key=lambda claim: claim.kind not in _STATED[:2])
    used: set[int] = set()
    texts = {claim.text for claim in claims}
    for make in makers:
        for at, claim in enumerate(claims):
            if make is _deny and used and claim.kind not in _STATED[:2]:
                break
            made = None if at in used and len(claims) > len(makers) else make(claim, claims)
            if made is not None and made.text not in texts:
                used.add(at)
                yield made
                break


def _change_number(claim: Claim, claims: Sequence[Claim]) -> Claim | None:
    """Return the claim with another number."""
    del claims
    for found in _DIGITS.finditer(claim.text):
        for step in (3, 7, 11):
            number = f"{int(found[0]) + step:0{len(found[0])}}"
            if number not in claim.cited:
                return replace(
                    claim, text=f"{claim.text[: found.start()]}{number}{claim.text[found.end() :]}"
                )
    return None


def _exchange_name(claim: Claim, claims: Sequence[Claim]) -> Claim | None:
    """Return the claim with a name of another claim in place of its own."""
    known = claim.cited.casefold()
    for found in _CAPITALIZED.finditer(claim.text):
        if found[0].casefold() not in known:
            continue  # a word at the beginning of a sentence, or of the frame
        for other in claims:
            for name in _CAPITALIZED.findall(other.text):
                if name.casefold() not in known and name in other.cited and name not in claim.text:
                    return replace(
                        claim, text=f"{claim.text[: found.start()]}{name}{claim.text[found.end() :]}"
                    )
    return None


def _deny(claim: Claim, claims: Sequence[Claim]) -> Claim | None:
    """Return the claim denied, or affirmed where it denies."""
    del claims
    if claim.kind not in _STATED:
        return None
    language = find_language(f"{claim.text}\n{claim.cited}")
    sections = (
        _WORDS.get(language, {}),
        *(words for name, words in _WORDS.items() if name not in (language, "denials")),
    )
    for pattern, result in (each for section in sections for each in section.items()):
        text, count = re.subn(rf"\b{pattern}\b", result, claim.text, count=1, flags=re.IGNORECASE)
        if count:
            return replace(claim, text=" ".join(text.split()))
    denial = _WORDS["denials"].get(language) or _WORDS["denials"]["en"]
    return replace(claim, text=f"{denial} {claim.text}")
