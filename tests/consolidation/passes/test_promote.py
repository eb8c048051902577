"""What was filed as an event and is knowledge moves to its layer; what is not trusted never does."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from reverie.consolidation.flows import run_pass
from reverie.consolidation.passes.tidy import promote
from reverie.consolidation.values import PassInput
from tests.consolidation.without_model import answer_without_model
from tests.factories import make_record

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_what_is_sure_trusted_live_and_new_goes_where_its_kind_is_at_home() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "semantic"),
        ({"kind": "constraint"}, "semantic"),
        ({"kind": "preference"}, "semantic"),
        ({"kind": "project_fact"}, "semantic"),
        ({"kind": "failure"}, "procedural"),
        ({"kind": "fix"}, "procedural"),
        ({"kind": "command_result"}, "procedural"),
        ({"kind": "event"}, "episodic"),
        ({"kind": "task_state"}, "episodic"),
        ({"confidence": 0.74}, "episodic"),
        ({"origin": "agent"}, "semantic"),
        ({"origin": "tool"}, "episodic"),
        ({"origin": "web"}, "episodic"),
        ({"origin": "import"}, "episodic"),
        ({"archived_at": NOW}, "episodic"),
    ]
    given = {"content": "We use Postgres", "layer": "episodic", "kind": "decision", "confidence": 0.75}
    for more, layer in cases:
        one = make_record(0, **{**given, "moment": NOW - timedelta(days=90), **more})
        view = PassInput(now=NOW, records=(one,), changed=frozenset({one.id}))
        plan = run_pass(promote(view), answer_without_model)
        expected = [] if layer == "episodic" else [replace(one, layer=layer)]
        assert [edit.after for edit in plan.edits] == expected, "only the layer changes, not the day"
        assert not run_pass(promote(replace(view, changed=frozenset())), answer_without_model)
