"""Combine plans, and apply their changes to records in memory."""

from __future__ import annotations

from collections.abc import Sequence

from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.inputs import PassInput
from reverie.domain.change import Change
from reverie.domain.record import Record
from reverie.llm.messages import TokenUsage


def combine_plans(view: PassInput, name: str, plans: Sequence[Plan], *, skipped: str = "") -> Plan:
    """Return several plans as one.

    Args:
        skipped: Why there was nothing to do, where no plan says it.
    """
    steps = tuple(step for plan in plans for step in plan.steps)
    reasons = [plan.skipped for plan in plans if plan.skipped] or [skipped]
    cursors: dict[str, str | None] = {}
    for plan in plans:
        cursors |= plan.cursors
    return view.build_plan(
        name,
        steps=steps,
        refused=tuple(refusal for plan in plans for refusal in plan.refused),
        notes=tuple(note for plan in plans for note in plan.notes),
        skipped="" if steps else "; ".join(dict.fromkeys(reasons)),
        failed="; ".join(dict.fromkeys(plan.failed for plan in plans if plan.failed)),
        cursors=cursors,
        usage=sum((plan.usage for plan in plans), TokenUsage()),
    )


def apply_changes(records: Sequence[Record], changes: Sequence[Change]) -> tuple[Record, ...]:
    """Return the live records as they would be after these changes, without headlines."""
    live = {record.id: record for record in records}
    for change in changes:
        after = change.after
        if isinstance(after, Record) and not (after.archived or after.is_headline):
            live[change.id] = after
        else:
            live.pop(change.id, None)
    return tuple(live.values())
