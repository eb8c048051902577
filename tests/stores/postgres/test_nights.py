"""Hostile nights over a memory in PostgreSQL: nothing is lost, and every night can be taken back."""

from __future__ import annotations

import logging
import uuid
from pathlib import Path

import pytest

from tests.stores.postgres.server import PostgresServer
from tests.system.nights.simulation import Plan, Simulation


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_hostile_nights_in_a_database_lose_nothing(
    postgres: PostgresServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="reverie")  # a model that fails is told of each time
    plan = Plan(nights=12, records=80, seed=11, dear_every=6, undo_every=4)
    url = postgres.url(uuid.uuid4().hex)
    simulation = Simulation(plan=plan, folder=url, index_cache=tmp_path / "cache")
    simulation.run()
    account = simulation.account
    assert account.wrong == []
    assert account.counts["headlines"] > 0, "a run in which nothing is accepted proves nothing"
    assert account.counts["facts asked for"] > 20
    assert simulation.counts["cycles undone and made again"] == 3
    assert simulation.refused.total() > 50
    in_folder = Simulation(plan=plan, folder=tmp_path / "memory")
    in_folder.run()
    assert in_folder.sizes == simulation.sizes, "the same nights in a folder leave the same memory"
