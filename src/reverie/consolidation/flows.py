"""Run passes: their requests, the verification of their claims, and how often a model is asked in one dream.

A pass is a generator over values, so it can be run, tested and replayed without any input or output. It yields requests
to a model, and claims that it wants verified. The claims of passes that run together are one request for each scope,
which shows each claim with what it cites and nothing else. Among the claims are controls: code makes them from the same
claims by changing a number, exchanging a name or denying the statement. A model that calls a control supported is not
believed in this dream, whatever it says about the rest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any, TypeAlias, TypeVar

from reverie.consolidation.answers import (
    LATER,
    NO_MODEL,
    VERIFY,
    Answer,
    Question,
    Schema,
    iter_numbered,
    read_answer,
    to_text,
)
from reverie.consolidation.values import PassInput
from reverie.domain.conversation import Turn
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.dates import load_words
from reverie.domain.text.escaping import escape_line
from reverie.domain.text.tokenizer import find_language
from reverie.llm.protocol import ModelFailure, ModelReply, ModelRequest, TokenUsage

T = TypeVar("T")

Ask = Callable[[ModelRequest], ModelReply | ModelFailure]
"""Function that asks a model. It returns a `ModelFailure` if there is no answer, and never raises for it."""

UNJUDGED = "the model did not say whether the cited texts support it"

DENIED = "the model calls it "
"""Beginning of the reasons why claims are refused that the model judged, and does not find supported."""

NO_CONTROL = "no control can be made of it, and the model is not known; `reverie model check` examines it"

NOT_BELIEVED = "the model calls a false control supported, so its word does not count in this dream"

MAX_CHARACTERS = 24_000
"""Characters of the claims of one request, with what they cite; claims that do not fit are not judged."""

MAX_SPLITS = 2
"""Maximum number of times a question is cut into halves."""

MAX_REQUESTS = 3
"""Requests about one scope in a dream, the last of which verifies; requests that enrich drafts do not count."""

_UNCOUNTED = "enrich"
_SUPPORTED = "supported"
_LONGEST_MESSAGE = 1_000
_LONGEST_BEFORE = 300
_TOKENS = 60  # of the answer, for each claim
CLAIM_CHECK = Question(
    purpose=VERIFY,
    prompt="claim-check.md",
    answer={
        "claims": [{"claim": int, "missing": str, "verdict": (_SUPPORTED, "unsupported", "contradicted")}]
    },
    temperature=0.0,
    timeout_s=180.0,
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
        view: The prompts, and whether the model is believed if no control can be made of the claims.
        scope: The scope of what they cite. No request shows two of them.
        is_apart: Whether they are asked about by themselves, such as what tools said.
    """

    claims: tuple[Claim, ...]
    view: PassInput
    scope: str = ""
    is_apart: bool = False


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


Flow: TypeAlias = Generator[ModelRequest | ClaimCheck, Any, T]
"""A pass that is running. It is resumed with a reply for a request, and with `ClaimVerdicts` for claims."""

# -- asking within a pass ----------------------------------------------------------------------------------


def ask_once(
    view: PassInput, question: Question, places: Mapping[str, str], *, scope: str = "", tokens: int = 0
) -> Flow[Answer]:
    """Ask once, and return the answer; the arguments are those of `Question.build`, with the prompt of the view."""
    reply = yield question.build(view.prompt(question.prompt), places, scope=scope, tokens=tokens)
    return read_answer(reply, question.forms)


def ask_in_parts(
    items: Sequence[T],
    build: Callable[[Sequence[T]], ModelRequest],
    *,
    forms: Schema,
    splits: int = MAX_SPLITS,
    is_whole: bool = False,
) -> Flow[list[tuple[Sequence[T], Answer]]]:
    """Ask about items, and again about each half of them where the answer was cut off.

    Args:
        items: What the question is about, in order.
        build: Returns the request about some of them.
        forms: Schema of all forms of answers that are accepted.
        splits: How often the question may be cut into halves.
        is_whole: Whether the answers are of no use without each other, so that nothing is asked after an unusable one.

    Returns:
        Each part with its answer, in order. The cost of an answer that was cut off is added to that
        of the first part.
    """
    reply = yield build(items)
    if splits < 1 or len(items) < 2 or not isinstance(reply, ModelReply) or reply.finish != "length":
        return [(items, read_answer(reply, forms))]
    parts: list[tuple[Sequence[T], Answer]] = []
    for half in (items[: len(items) // 2], items[len(items) // 2 :]):
        if not (is_whole and parts and parts[-1][1].why):
            parts += yield from ask_in_parts(half, build, forms=forms, splits=splits - 1, is_whole=is_whole)
    part, first = parts[0]
    return [(part, replace(first, usage=reply.usage + first.usage)), *parts[1:]]


def verify_claims(
    view: PassInput, claims: Iterable[Claim], *, scope: str, is_apart: bool = False
) -> Flow[ClaimVerdicts]:
    """Return the verdicts about claims; the arguments are those of `ClaimCheck`. Nothing is asked about none."""
    check = ClaimCheck(claims=tuple(claims), view=view, scope=scope, is_apart=is_apart)
    verdicts: ClaimVerdicts = (yield check) if check.claims else ClaimVerdicts()
    return verdicts


# -- running passes ----------------------------------------------------------------------------------------


def run_pass(flow: Flow[T], ask: Ask) -> T:
    """Run a pass to its end, and repeat a request once where the reply is empty."""
    return run_together([flow], ask)[0]


def run_together(flows: Sequence[Flow[T]], ask: Ask, *, believed: list[bool] | None = None) -> list[T]:
    """Run passes to their ends, and verify the claims of each scope in one request.

    Args:
        flows: The passes. None of them may need what another one does. Each has its scopes in ascending order.
        ask: Asks the model.
        believed: Receives for each verification whether the model denied its controls.
    """
    results: dict[int, T] = {}
    waiting: dict[int, ClaimCheck] = {}

    def resume(at: int, value: Any) -> None:
        """Run a pass until it waits for verdicts, or ends."""
        try:
            wanted = flows[at].send(value)
            while isinstance(wanted, ModelRequest):
                wanted = flows[at].send(_ask_twice(wanted, ask))
            waiting[at] = wanted
        except StopIteration as end:
            results[at] = end.value

    for at in range(len(flows)):
        resume(at, None)
    while waiting:
        first = min((check.scope, check.is_apart) for check in waiting.values())
        asked = [at for at in sorted(waiting) if (waiting[at].scope, waiting[at].is_apart) == first]
        verdicts = _verify([waiting.pop(at) for at in asked], ask)
        if believed is not None and verdicts[0].is_believed is not None:
            believed.append(verdicts[0].is_believed)
        for at, each in zip(asked, verdicts, strict=True):
            resume(at, each)
    return [results[at] for at in range(len(flows))]


def _ask_twice(request: ModelRequest, ask: Ask) -> ModelReply | ModelFailure:
    """Ask, and once more where the reply is empty; return the last reply with the cost of both."""
    reply = ask(request)
    if isinstance(reply, ModelReply) and not reply.text.strip() and not reply.tool_calls:
        again = ask(request)
        return replace(again, usage=reply.usage + again.usage)
    return reply


def limit_requests(ask: Ask) -> Ask:
    """Return a function that asks the model in one dream, and returns `LATER` beyond the limit of a scope."""
    asked: Counter[str] = Counter()

    def ask_within_limit(request: ModelRequest) -> ModelReply | ModelFailure:
        if request.purpose == _UNCOUNTED:
            return ask(request)
        if asked[request.scope] >= MAX_REQUESTS - (request.purpose != VERIFY):
            return LATER
        reply = ask(request)
        asked[request.scope] += reply is not NO_MODEL
        return reply

    return ask_within_limit


# -- verification ------------------------------------------------------------------------------------------


def _verify(checks: Sequence[ClaimCheck], ask: Ask) -> list[ClaimVerdicts]:
    """Return the verdicts about the claims of several passes in one scope; the cost is that of the first.

    One request shows the claims that fit, with controls among them.
    """
    claims = [claim for check in checks for claim in check.claims]
    lengths = accumulate(len(each.text) + len(each.cited) for each in claims)
    fitting = max(1, sum(length <= MAX_CHARACTERS for length in lengths))
    shown: list[tuple[int | None, Claim]] = list(enumerate(claims[:fitting]))
    controls = list(build_controls(claims[:fitting]))
    for number, control in enumerate(controls):
        shown.insert((2 * number + 1) * (len(shown) + 1) // (2 * len(controls)), (None, control))
    request = build_claim_request(checks[0].view, [claim for _, claim in shown], scope=checks[0].scope)
    answer = read_answer(_ask_twice(request, ask), CLAIM_CHECK.forms)
    if answer.why:
        failed = "" if answer.is_unusable or answer.is_later else answer.why
        whole = ClaimVerdicts(failed=failed, is_later=answer.is_later)
        reasons = [f"{UNJUDGED}: {answer.why}"] * len(claims)
    else:
        has_controls = bool(controls) or all(check.view.is_trusted for check in checks)
        is_believed, judged = _judge(answer, [place for place, _ in shown])
        whole = ClaimVerdicts(is_believed=is_believed if has_controls else None)
        if not whole.is_believed:
            judged = [NOT_BELIEVED if has_controls else NO_CONTROL] * fitting
        rest = f"{UNJUDGED}: there was no room for it" if whole.is_believed else judged[0]
        reasons = [*judged, *[rest] * (len(claims) - fitting)]
    ends = list(accumulate(len(check.claims) for check in checks))
    parts = [replace(whole, reasons=tuple(reasons[a:b])) for a, b in pairwise([0, *ends])]
    return [replace(parts[0], usage=answer.usage), *parts[1:]]


def _judge(answer: Answer, places: Sequence[int | None]) -> tuple[bool, list[str]]:
    """Return whether an answer denies all controls, which have no place, and why it refuses each claim."""
    verdicts: dict[int, Mapping[str, Any]] = {}
    for number, each in iter_numbered(answer.fields.get("claims"), "claim"):
        if number not in verdicts or _explain(each):
            verdicts[number] = each  # of two about one claim the stricter counts
    reasons = [(place, _explain(verdicts.get(number))) for number, place in enumerate(places, 1)]
    return (
        all(why for place, why in reasons if place is None),
        [why for place, why in reasons if place is not None],
    )


def build_claim_request(view: PassInput, claims: Sequence[Claim], *, scope: str = "") -> ModelRequest:
    """Return the request to verify claims, which are numbered from 1.

    Args:
        view: The prompts.
        claims: The claims.
        scope: The scope of what they cite.
    """
    shown = "\n\n".join(
        "\n".join((f"Claim {number} ({each.kind}): {escape_line(each.text)}", *each.evidence))
        for number, each in enumerate(claims, 1)
    )
    prompt = view.prompt(CLAIM_CHECK.prompt)
    return CLAIM_CHECK.build(prompt, {"claims": shown}, scope=scope, tokens=_TOKENS * (len(claims) + 3))


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


def is_supported(verdict: Mapping[str, Any] | None) -> bool:
    """Return whether a verdict of the model calls its claim supported."""
    return verdict is not None and to_text(verdict.get("verdict")).lower() == _SUPPORTED


def _explain(verdict: Mapping[str, Any] | None) -> str:
    """Return why a claim with this verdict is refused; empty where it is supported."""
    if is_supported(verdict):
        return ""
    if verdict is None or not (word := to_text(verdict.get("verdict")).lower()):
        return UNJUDGED
    missing = escape_line(to_text(verdict.get("missing")))[:200]
    return f"{DENIED}{'contradicted' if word == 'contradicted' else 'unsupported'}: {missing}"


# -- controls ----------------------------------------------------------------------------------------------


_DIGITS = defer_regex(r"(?<![\w.,:/-])\d{1,6}(?![\w/-]|[.,:]\d)")
_CAPITALIZED = defer_regex(r"(?<!\w)[^\W\d_a-zß-öø-ÿ][^\W\d_]{2,}(?![\w'’])")
_WORDS = load_words("reverie.consolidation", "controls.txt")
_COMPARED = ("fact", "preference")
"""Kinds whose denials code has compared with their evidence, so that the denied claim is false if the claim is true."""


def build_controls(claims: Sequence[Claim]) -> Iterator[Claim]:
    """Yield up to three claims that what they cite does not support, each made from one of the claims.

    A number or name is exchanged for one that the evidence does not have, so that the result is false whether the
    claim is true or not. What is denied is a fact or preference, and another claim only if there is no other control.
    """
    makers = (_change_number, _exchange_name, _deny)
    claims = [claim for claim in claims if claim.kind != "drop"]  # an altered joke is a joke
    claims.sort(key=lambda claim: claim.kind not in _COMPARED)
    used: set[int] = set()
    texts = {claim.text for claim in claims}
    for make in makers:
        for at, claim in enumerate(claims):
            if make is _deny and used and claim.kind not in _COMPARED:
                break
            text = "" if at in used and len(claims) > len(makers) else make(claim, claims)
            if text and text not in texts:
                used.add(at)
                yield replace(claim, text=text)
                break


def _change_number(claim: Claim, claims: Sequence[Claim]) -> str:
    """Return the text of a claim with another number; empty if it has none."""
    del claims
    for found in _DIGITS.finditer(claim.text):
        for step in (3, 7, 11):
            number = f"{int(found[0]) + step:0{len(found[0])}}"
            if number not in claim.cited:
                return f"{claim.text[: found.start()]}{number}{claim.text[found.end() :]}"
    return ""


def _exchange_name(claim: Claim, claims: Sequence[Claim]) -> str:
    """Return the text of a claim with a name of another claim in place of its own; empty if there is none."""
    known = claim.cited.casefold()
    for found in _CAPITALIZED.finditer(claim.text):
        if found[0].casefold() not in known:
            continue  # a word at the beginning of a sentence, or of the frame
        for other in claims:
            for name in _CAPITALIZED.findall(other.text):
                if name.casefold() not in known and name in other.cited and name not in claim.text:
                    return f"{claim.text[: found.start()]}{name}{claim.text[found.end() :]}"
    return ""


def _deny(claim: Claim, claims: Sequence[Claim]) -> str:
    """Return the text of a claim denied, or affirmed where it denies; empty for an end."""
    del claims
    if claim.kind == "end":
        return ""
    language = find_language(f"{claim.text}\n{claim.cited}")
    names = [language, *(name for name in _WORDS if name not in (language, "denials"))]
    for pattern, result in (each for name in names for each in _WORDS.get(name, {}).items()):
        text, count = re.subn(rf"\b{pattern}\b", result, claim.text, count=1, flags=re.IGNORECASE)
        if count:
            return " ".join(text.split())
    denial = _WORDS["denials"].get(language) or _WORDS["denials"]["en"]
    return f"{denial} {claim.text}"
