"""Merges of earlier versions: their sources come back, and the merged record becomes a headline over them.

Earlier versions replaced records by a merged one and archived them. Part of the pass `merge`; a plan like any
other, which can be undone.
"""

from __future__ import annotations

from dataclasses import replace

from reverie.consolidation.planning.inputs import FormerMerge, PassInput
from reverie.consolidation.planning.plan_builder import PlanBuilder
from reverie.domain.headlines import build_headline, explain_mismatch
from reverie.domain.record import Record


def bring_back_sources(view: PassInput, draft: PlanBuilder) -> None:
    """Bring back the sources of merges under a headline.

    A merged record that was pinned or edited since stays a record of its own, beside its sources.
    """
    said = {(record.scope, record.fingerprint): record for record in view.records}
    for former in view.former_merges:
        parts: dict[str, Record] = {}
        for source in former.sources:
            live = said.get((source.scope, source.fingerprint))
            if live is None:
                live = draft.restore(source, why=f"was merged into {former.record.id}")
                said[live.scope, live.fingerprint] = live
            parts[live.id] = live
        _turn_into_headline(view, draft, former, list(parts.values()))


def _turn_into_headline(
    view: PassInput, draft: PlanBuilder, former: FormerMerge, parts: list[Record]
) -> None:
    record = former.record
    is_own = former.is_edited or record.pinned or record.id in {part.id for part in parts}
    if is_own or len(parts) < 2 or explain_mismatch(parts):
        return
    headline = build_headline(parts, record.content, id=record.id, now=view.now, category=record.category)
    after = replace(headline, created_at=record.created_at, tags=record.tags)
    draft.change(record, after, why="its sources are back")
