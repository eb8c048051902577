"""Promotion: a record that was filed as an event, but is knowledge and sure enough, moves to the layer of its kind.

What tools, the web or an import said is never promoted (golemcore).
"""

from __future__ import annotations

from dataclasses import replace

from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.flows import Flow
from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.plan_builder import PlanBuilder
from reverie.domain.record import HOME_LAYERS, UNTRUSTED, Record

NAME = "promote"


def promote(view: PassInput) -> Flow[Plan]:
    """Move changed records to the layers of their kinds."""
    yield from ()
    builder = PlanBuilder(view, name=NAME)
    for record in view.records:
        if record.id in view.changed and _is_promoted(record, view.promotion_min_confidence):
            layer = HOME_LAYERS[record.kind]
            why = f"sure enough to keep as {layer} (confidence {record.confidence:.2f})"
            builder.change(record, replace(record, layer=layer), why=why)
    return builder.plan(skipped="nothing new is due for promotion")


def _is_promoted(record: Record, min_confidence: float) -> bool:
    """Return whether a record is knowledge filed as an event."""
    return (
        not record.archived
        and record.layer == "episodic"
        and HOME_LAYERS[record.kind] != "episodic"
        and record.confidence >= min_confidence
        and record.origin not in UNTRUSTED
    )
