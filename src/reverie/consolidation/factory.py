"""Create the worker over a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from reverie.consolidation.cycle import ConsolidationCycle
from reverie.consolidation.worker import Worker
from reverie.domain.change import Change
from reverie.domain.record import Record
from reverie.llm.protocol import Answering, Model, resolve_model
from reverie.repositories.records import NewRecord
from reverie.settings import Settings
from reverie.stores.writer import StoreWriter


def create_worker(
    writer: StoreWriter,
    *,
    settings: Settings,
    model: Model | Answering | str | None,
    profile: Path | None,
    plan_records: Callable[[Sequence[NewRecord | Record]], Sequence[Change]],
    conclude: Callable[[str], object] | None = None,
) -> Worker:
    """Return the worker over a store; the arguments are those of `ConsolidationCycle` and `Worker`."""
    cycle = ConsolidationCycle(
        writer, settings=settings, model=resolve_model(model), profile=profile, plan_records=plan_records
    )
    return Worker(writer, cycle, settings=settings, conclude=conclude)
