"""What does the owner prefer, without having said so outright? The dream's second pass (RockBot).

Only the owner's turns are evidence, and how many are needed depends on how strongly they show it. What is
inferred names its turns, is marked as inferred, and where it touches security, credentials or money it is
marked as needing permission, by rule and whatever the model says. What we put into the prompt ourselves and
comes back is no evidence. Without a model, what the owner said outright and repeatedly is taken.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from reverie import tokens
from reverie.asks import Ask, Message, Reply
from reverie.categories import USER_PREFERENCES, lies_under
from reverie.passes.answers import Unusable, as_text, as_texts, parsed
from reverie.passes.draft import Draft
from reverie.passes.duplicates import keys, read_again
from reverie.passes.flow import NO_MODEL, Flow
from reverie.passes.specifics import specifics, word_set
from reverie.passes.view import View
from reverie.plans import Plan
from reverie.records import Record
from reverie.turns import Turn

NAME = "infer"
PROMPT = "pref-dream.md"
INFERRED = f"{USER_PREFERENCES}/inferred"
PERMISSION = "requires_user_permission"

NEEDED: Mapping[str, int] = MappingProxyType({"very_irritated": 1, "frustrated": 2, "casual": 3})
"""How many turns must show a preference, by how strongly they show it (RockBot)."""

MOST_TURNS = 400
MOST_TOKENS = 12_000
_LONGEST_TURN = 600

_SENSITIVE_WORDS = word_set(
    """
    password passwords passphrase passphrases passcode passcodes credential credentials secret
    secrets token tokens ssh 2fa mfa otp pin login logins signin sudo root admin access encrypt
    encrypted encryption security secure firewall certificate certificates permission permissions
    authenticate authentication authorize authorise authorization authorisation money pay pays
    paying payment payments paid payroll buy buys buying bought purchase purchases purchasing order
    orders ordering spend spends spending invoice invoices bill bills billing bank banks banking
    iban account accounts credit debit card cards wallet wallets crypto cryptocurrency bitcoin
    transfer transfers refund refunds subscribe subscription subscriptions invest investment
    investments stock stocks trade trades trading tax taxes salary salaries loan loans budget
    budgets price prices cost costs dollar dollars euro euros
    """
)
_SENSITIVE = re.compile(
    rf"[$€£]|\b(?:{'|'.join(sorted(_SENSITIVE_WORDS))}|(?:api|private)[ -]?keys?|(?:log|sign)[ -]in)\b",
    re.IGNORECASE,
)
_OUTRIGHT = re.compile(
    r"""^(?:please\s+)?(?:
        (?:i|we)\s+(?:(?:really|always|generally|usually|strongly|much)\s+)?(?:prefer|hate|dislike)\b
      | (?:i|we)\s+(?:would|'d)\s+(?:rather|prefer)\b
      | (?:always|never)\s+\w+
      | (?:don't|do\s+not)\s+ever\b
      | from\s+now\s+on\b
      | stop\s+\w+ing\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
SCHEMA: Mapping[str, Any] = MappingProxyType(
    {
        "type": "object",
        "properties": {"preferences": {"type": "array", "items": {"type": "object"}}},
        "required": ["preferences"],
    }
)


def infer(view: View, *, injected: Iterable[str] = ()) -> Flow[Plan]:
    """The pass.

    Args:
        view: What there is; its turns are read in their order, the owner's as evidence and the assistant's as
            what they answer.
        injected: Texts that were put into prompts; a turn that only repeats one is no evidence.
    """
    draft = Draft(view, name=NAME)
    echo = {_key(sentence) for text in injected for sentence in _sentences(text)}
    scopes: dict[str, list[tuple[Turn, str]]] = defaultdict(list)
    for turn, before in _evidence(view.turns):
        if not {_key(sentence) for sentence in _sentences(turn.content)} <= echo:
            scopes[turn.scope].append((turn, before))
    if not scopes:
        return draft.plan(skipped="the owner has said nothing since the last cycle")
    for scope in sorted(scopes):
        known = [record for record in view.records if record.scope == scope and _is_preference(record)]
        for part in _parts(scopes[scope]):
            reply = yield _question(view, known, part)
            draft.spend(reply.usage)
            if isinstance(reply, Reply):
                _take(view, draft, scope, reply, part)
            elif reply.why == NO_MODEL.why:
                draft.note("no model: only what was said outright and again was taken")
                _outright(view, draft, scope, part)
            else:
                draft.fail(reply.why)
    return draft.plan(skipped="nothing was inferred")


def needs_permission(content: str, category: str | None = None) -> bool:
    """Whether a preference touches security, credentials or money, so that the owner is asked each time.

    >>> needs_permission("Prefers to pay by card"), needs_permission("Prefers short answers")
    (True, False)
    """
    return bool(_SENSITIVE.search(f"{content} {(category or '').replace('/', ' ').replace('-', ' ')}"))


def _is_preference(record: Record) -> bool:
    return record.kind == "preference" or lies_under(record.category, USER_PREFERENCES)


def _sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in _SENTENCE_END.split(text) if sentence.strip()]


def _key(sentence: str) -> str:
    """The same for sentences in the same words."""
    return keys(read_again(sentence))[0]


def _evidence(turns: Sequence[Turn]) -> Iterable[tuple[Turn, str]]:
    """The owner's turns, each with what the assistant had said before it in the same session."""
    last: dict[str, str] = {}
    for turn in turns:
        if turn.role == "assistant" and turn.content.strip():
            last[turn.session] = turn.content
        elif turn.role == "user" and turn.content.strip():
            yield turn, last.get(turn.session, "")


def _parts(evidence: Sequence[tuple[Turn, str]]) -> Iterable[list[tuple[Turn, str]]]:
    part: list[tuple[Turn, str]] = []
    size = 0
    for turn, before in evidence[-MOST_TURNS:]:
        cost = tokens.estimate(_line(turn, before))
        if part and size + cost > MOST_TOKENS:
            yield part
            part, size = [], 0
        part.append((turn, before))
        size += cost
    yield part


def _question(view: View, known: Sequence[Record], part: Sequence[tuple[Turn, str]]) -> Ask:
    records = "\n".join(f"- {' '.join(record.content.split())}" for record in known[:200])
    turns = "\n".join(_line(turn, before) for turn, before in part)
    text = view.prompt(PROMPT).replace("{{records}}", records or "(nothing)").replace("{{turns}}", turns)
    return Ask(
        messages=(Message(role="user", content=text),),
        purpose=NAME,
        schema=SCHEMA,
        max_tokens=2_000,
        temperature=0.2,
        timeout_s=120.0,
    )


def _line(turn: Turn, before: str) -> str:
    said = " ".join(turn.content.split())[:_LONGEST_TURN]
    after = f" (after “{' '.join(before.split())[:200]}”)" if before else ""
    return f"- [{turn.id}]{after}: {said}"


# -- with a model ----------------------------------------------------------------------------------------


def _take(view: View, draft: Draft, scope: str, reply: Reply, part: Sequence[tuple[Turn, str]]) -> None:
    try:
        answer = parsed(reply.text, keys=("preferences",)) if reply.finish != "length" else None
    except Unusable as error:
        draft.fail(str(error))
        return
    proposals = answer.get("preferences") if isinstance(answer, Mapping) else answer
    if not isinstance(proposals, list) or not all(isinstance(each, Mapping) for each in proposals):
        draft.fail("the answer has no list of preferences, or was cut off")
        return
    turns = {turn.id: turn for turn, _ in part}
    for proposal in proposals:
        if isinstance(proposal, Mapping):
            _consider(view, draft, scope, proposal, turns)


def _consider(
    view: View, draft: Draft, scope: str, proposal: Mapping[str, Any], turns: Mapping[str, Turn]
) -> None:
    content = as_text(proposal.get("content"))
    strength = as_text(proposal.get("strength")).lower().replace(" ", "_").replace("-", "_")
    evidence = [turns[name] for name in as_texts(proposal.get("evidence")) if name in turns]
    distinct = {" ".join(turn.content.lower().split()) for turn in evidence}
    needed = NEEDED.get(strength, NEEDED["casual"])
    what = "infer a preference"
    if len(distinct) < needed:
        draft.refuse(what, f"{len(distinct)} turns show it, {needed} are needed")
        return
    known = specifics("\n".join(turn.content for turn in evidence))
    said = specifics(content)
    if invented := (said.numbers - known.numbers) | (said.addresses - known.addresses):
        draft.refuse(what, f"no turn says: {', '.join(sorted(invented))}")
        return
    category = as_text(proposal.get("category"))
    _add(
        view,
        draft,
        scope,
        content,
        evidence,
        category=category if lies_under(category, USER_PREFERENCES) else INFERRED,
        tags=as_texts(proposal.get("tags")),
    )


def _add(
    view: View,
    draft: Draft,
    scope: str,
    content: str,
    evidence: Sequence[Turn],
    *,
    category: str = INFERRED,
    tags: Sequence[str] = (),
) -> None:
    metadata = {"source": "inferred"}
    if needs_permission(content, category):
        metadata[PERMISSION] = "true"
    record = Record(
        id=view.new_id(),
        content=content,
        category=category,
        kind="preference",
        layer="semantic",
        tags=tuple(dict.fromkeys(("inferred", *(tag for tag in tags if len(tag) <= 60))))[:10],
        confidence=0.7,
        source=f"session:{evidence[-1].session}",
        references=tuple(turn.id for turn in evidence)[:100],
        origin="agent",
        scope=scope,
        created_at=view.now,
        updated_at=view.now,
        last_seen_at=view.now,
        metadata=MappingProxyType(metadata),
    )
    names = [turn.id for turn in evidence]
    draft.add(record, sources=names, why=f"{len(names)} turns of the owner show it")


# -- without one -----------------------------------------------------------------------------------------


def _outright(view: View, draft: Draft, scope: str, part: Sequence[tuple[Turn, str]]) -> None:
    """Sentences that state a preference outright, said in two turns or more in the same words."""
    said: dict[str, list[tuple[str, Turn]]] = defaultdict(list)
    for turn, _ in part:
        for sentence in _sentences(turn.content):
            if len(sentence) <= 300 and not sentence.endswith("?") and _OUTRIGHT.match(sentence):
                said[_key(sentence)].append((sentence, turn))
    for found in said.values():
        evidence = list({turn.id: turn for _, turn in found}.values())
        if len(evidence) >= NEEDED["frustrated"]:
            _add(view, draft, scope, found[-1][0].rstrip("."), evidence)
