"""Verification of what was read from conversations: what the model finds in the turns is put into effect.

A record that waits is shown in place of the owner's sentence, a change or end takes effect, and a dropped sentence
is archived, only if a believed model calls the claim supported. A claim that it denies is refused for good, and the
owner's sentence stays. If a model is not believed, everything that it wrote before goes back to the owner's
sentences.
"""

from __future__ import annotations

from dataclasses import replace

from reverie.consolidation.flows import DENIED, NOT_BELIEVED, Claim, Flow, format_evidence, verify_claims
from reverie.consolidation.passes.read import HELD
from reverie.consolidation.plan_builder import CONFIRMED, PlanBuilder
from reverie.consolidation.values import PassInput, PendingClaim, Plan, PlanStep, encode_claims
from reverie.domain.change import Change
from reverie.domain.record import Record
from reverie.domain.text.escaping import escape_line

NAME = "verify"

MAX_VERIFIED = 40
"""Claims that are verified in one dream, the earliest; the next dream continues."""

MAX_TRIES = 3
"""Dreams in which a claim is asked about without a believed answer; after that it is refused."""

DROPPED = "Not meant seriously, or only for that moment: "
"""Beginning of the claim that a sentence is not worth keeping."""

_SAME_WORDS = "in other words: "
"""Beginning of the reason why the owner's sentence is archived that a verified record of the reading stands for."""


def verify(view: PassInput) -> Flow[Plan]:
    """Ask whether the turns say what was read from them, and put into effect what they say."""
    builder = PlanBuilder(view, name=NAME)
    left = [each for each in view.claims if each.is_shown]
    pending = [each for each in view.claims if not each.is_shown]
    usable = [(each, claim) for each in pending if (claim := _build_claim(view, each)) is not None]
    left += [each for each, _ in usable[MAX_VERIFIED:]]
    scopes: dict[str, list[tuple[PendingClaim, Claim]]] = {}
    for each, claim in usable[:MAX_VERIFIED]:
        scopes.setdefault(view.cited[each.record or each.target].scope, []).append((each, claim))
    for scope in sorted(scopes):
        verdicts = yield from verify_claims(view, [claim for _, claim in scopes[scope]], scope=scope)
        builder.take_verdicts(verdicts)
        for (each, _), why in zip(scopes[scope], verdicts.reasons, strict=True):
            again = each._replace(tries=each.tries + 1)
            if not why and not _put_into_effect(view, builder, each):
                left += [again] if again.tries < MAX_TRIES else []  # there was no room in this dream
            elif not why:
                left += [each._replace(is_shown=True)] if each.record else []
            elif verdicts.is_later or verdicts.failed:
                left.append(each)
            elif why.startswith(DENIED) or again.tries >= MAX_TRIES:
                builder.refuse(f"{each.do} {each.record or each.target}", why)
            else:
                left.append(again)
                builder.note(why)
    return builder.plan(skipped="no claim of a conversation is to be verified", cursors=encode_claims(left))


def withdraw_shown(view: PassInput, plan: Plan) -> Plan:
    """Return the plan of `verify` of a dream in which the model is not believed: owner's sentences come back.

    What the owner has pinned or said since stays. What is withdrawn waits to be verified again.
    """
    changed = [(headline, view.archive(headline, NOT_BELIEVED)) for headline in view.headlines]
    left: list[PendingClaim] = []
    for each in view.claims:
        record = view.cited.get(each.record) if each.is_shown else None
        if record is None or record.archived or record.pinned or record.seen_count >= CONFIRMED:
            continue
        changed.append((record, view.archive(record, HELD)))
        quote, target = view.cited.get(each.quote), view.cited.get(each.target)
        if quote is not None and quote.archive_reason.startswith(_SAME_WORDS):
            changed.append((quote, replace(quote, archived_at=None, archive_reason="")))
        if target is not None and target.replaced_by == each.record:
            changed.append((target, replace(target, valid_to=None, replaced_by="")))
        left.append(each._replace(tries=0, is_shown=False))
    left += [each for each in view.claims if not each.is_shown]
    steps = [
        PlanStep(edit=Change(before=before, after=after), why=NOT_BELIEVED, sources=(before.id,))
        for before, after in changed
    ]
    touched = {step.edit.id for step in steps}
    kept = tuple(step for step in plan.steps if step.edit.id not in touched)
    return replace(
        plan,
        steps=(*steps, *kept),
        cursors={**plan.cursors, **encode_claims(left)},
        notes=(*plan.notes, NOT_BELIEVED),
        skipped="" if steps or kept else plan.skipped,
    )


def _build_claim(view: PassInput, claim: PendingClaim) -> Claim | None:
    """Return the statement of a pending claim; None if it is about something that changed or was erased since."""
    record, target = view.cited.get(claim.record), view.cited.get(claim.target)
    turns = [view.said[name] for name in claim.turns if name in view.said]
    is_usable = record is not None and (not record.archived or record.archive_reason == HELD)
    is_valid = target is not None and not target.archived and target.valid_to is None
    subject = record or target
    if not turns or (claim.record and not is_usable) or (claim.target and not is_valid) or subject is None:
        return None
    evidence = format_evidence(turns, view.before)
    if target is not None and claim.do != "drop":
        evidence = (f"- earlier: {escape_line(target.content)}", *evidence)
    if record is not None:
        return Claim(kind="fact" if claim.do == "add" else claim.do, text=record.content, evidence=evidence)
    if claim.do == "drop":
        return Claim(kind="drop", text=f"{DROPPED}{subject.content}", evidence=evidence)
    return Claim(kind="end", text=f"No longer true: {subject.content}", evidence=evidence)


def _put_into_effect(view: PassInput, builder: PlanBuilder, claim: PendingClaim) -> bool:
    """Add the steps of a claim that is supported; return whether it is settled."""
    record, target = view.cited.get(claim.record), view.cited.get(claim.target)
    if claim.do == "drop" and target is not None:
        return builder.archive(target.id, why="a joke, a fragment or only for that moment")
    saved = record
    if record is not None and record.archived:
        saved = builder.restore(record, why="the model finds it in its turns")
    turns = [view.said[name] for name in claim.turns if name in view.said]
    if target is not None and (claim.do == "end" or saved is not None):
        builder.end(target, by=saved, since=max(turn.at for turn in turns), is_said=True)
    quote = view.cited.get(claim.quote)
    if saved is not None and quote is not None and any(_is_untouched(quote, turn.content) for turn in turns):
        builder.retire(quote, f"{_SAME_WORDS}{saved.id}")
    return True


def _is_untouched(quote: Record, said: str) -> bool:
    """Return whether a sentence that a reading saved was neither said again, pinned nor reworded since."""
    is_unchanged = quote.content[:60] in " ".join(said.split())
    return not (quote.archived or quote.pinned or quote.seen_count >= CONFIRMED) and is_unchanged
