"""Promotion of events that turned out to be knowledge, by rule and without a model (golemcore).

A record that was filed as an event, but is a decision, a constraint or the like, and sure enough, moves to
the layer of its kind. What tools, the web or an import said never moves. Decay is not applied here: it
changes the rank and never a record.
"""

from __future__ import annotations

from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.plan_builder import PlanBuilder
from reverie.domain.dataclass import replace
from reverie.domain.record import HOME_LAYERS, UNTRUSTED, Record

NAME = "promote"


def promote(view: PassInput, *, min_confidence: float = 0.75) -> Plan:
    """Move changed records to the layers of their kinds.

    Args:
        view: What there is.
        min_confidence: How sure a record must be, 0 to 1.
    """
    draft = PlanBuilder(view, name=NAME)
    for record in view.records:
        if record.id in view.changed and is_due(record, min_confidence=min_confidence):
            layer = HOME_LAYERS[record.kind]
            after = replace(record, layer=layer, updated_at=max(view.now, record.updated_at))
            why = f"a {record.kind} of confidence {record.confidence:.2f} is {layer}"
            draft.change(record, after, why=why)
    return draft.plan(skipped="nothing new is due for promotion")


def is_due(record: Record, *, min_confidence: float) -> bool:
    """Whether a record is knowledge filed as an event.

    Args:
        record: The record.
        min_confidence: How sure it must be, 0 to 1.
    """
    return (
        not record.archived
        and record.layer == "episodic"
        and HOME_LAYERS[record.kind] != "episodic"
        and record.confidence >= min_confidence
        and record.origin not in UNTRUSTED
    )
