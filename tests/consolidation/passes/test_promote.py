"""What was filed as an event and is knowledge moves to its layer; what is not trusted never does."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from reverie.consolidation.flows import run_pass
from reverie.consolidation.inputs import PassInput
from reverie.consolidation.passes.tidy import promote
from reverie.domain.record import Record
from tests.consolidation.without_model import answer_without_model
from tests.factories import make_record

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def record(**more: Any) -> Record:
    return make_record(
        0, **{"content": "We use Postgres", "layer": "episodic", "moment": NOW - timedelta(days=90), **more}
    )


def promoted(one: Record, *, changed: bool = True, min_confidence: float = 0.75) -> str:
    view = PassInput(
        now=NOW,
        records=(one,),
        changed=frozenset({one.id} if changed else ()),
        promotion_min_confidence=min_confidence,
    )
    plan = run_pass(promote(view), answer_without_model)
    if not plan:
        assert plan.skipped
        return one.layer
    (edit,) = plan.edits
    assert isinstance(edit.after, Record)
    assert replace(edit.after, layer=one.layer) == one, "only the layer changes, not the day"
    return edit.after.layer


def test_a_kind_goes_where_it_is_at_home() -> None:
    cases = [
        ("decision", "semantic"), ("constraint", "semantic"), ("preference", "semantic"),
        ("project_fact", "semantic"), ("failure", "procedural"), ("fix", "procedural"),
        ("command_result", "procedural"), ("event", "episodic"), ("task_state", "episodic"),
    ]  # fmt: skip
    for kind, layer in cases:
        assert promoted(record(kind=kind, confidence=0.75)) == layer


def test_what_is_not_sure_trusted_live_or_new_stays() -> None:
    assert promoted(record(kind="decision", confidence=0.74)) == "episodic"
    assert promoted(record(kind="decision", confidence=0.74), min_confidence=0.7) == "semantic"
    for origin in ("tool", "web", "import"):
        assert promoted(record(kind="decision", confidence=1.0, origin=origin)) == "episodic"
    assert promoted(record(kind="decision", confidence=1.0, origin="agent")) == "semantic"
    assert promoted(record(kind="decision", archived_at=NOW)) == "episodic"
    assert promoted(record(kind="decision"), changed=False) == "episodic"
