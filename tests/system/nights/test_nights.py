"""Hostile nights, in short: what a bad model does to a memory, and what it does not."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest

from reverie.consolidation.flows import DENIED
from tests.system.nights.models import DENIES_ALL, DENIES_TRUTH
from tests.system.nights.simulation import Plan, Simulation

NIGHTS = int(os.environ.get("REVERIE_NIGHTS", "40"))
SEED = int(os.environ.get("REVERIE_SEED", "11"))


@pytest.fixture(autouse=True)
def _without_warnings(caplog: pytest.LogCaptureFixture) -> None:
    """A model that fails is told of each time."""
    caplog.set_level(logging.CRITICAL, logger="reverie")


@pytest.mark.timeout(120 + 10 * NIGHTS)
def test_hostile_nights_lose_nothing_and_every_one_can_be_taken_back(tmp_path: Path) -> None:
    records = 150 if NIGHTS <= 40 else 500
    plan = Plan(nights=NIGHTS, records=records, seed=SEED, files=True, dear_every=20, undo_every=4)
    simulation = Simulation(plan=plan, folder=tmp_path / "memory")
    simulation.run()
    account = simulation.account
    print(
        f"{NIGHTS} nights, {account.arrivals} arrivals, {account.live} live records in the end, {account.counts}"
    )
    assert account.wrong == []
    assert account.live <= account.arrivals
    assert account.counts["headlines"] > 5, "a run in which nothing is accepted proves nothing"
    assert account.counts["remembered"] > 5, "facts of conversations are taken where they are said"
    assert account.counts["facts asked for"] > 100
    assert simulation.counts["cycles undone and made again"] == NIGHTS // 4
    assert simulation.counts["changes taken back"] > 0
    assert simulation.refused.total() > 500
    assert len(simulation.moods) > 15
    assert list((tmp_path / "memory" / "memory").rglob("*.md")), "the readable files are there"


@pytest.mark.parametrize("mood", [DENIES_TRUTH, DENIES_ALL])
def test_who_denies_what_is_true_has_claims_refused_and_withdraws_nothing_that_is_shown(
    tmp_path: Path, mood: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Simulation, "_mood", lambda self, night: mood if night % 3 == 0 else "good")
    plan = Plan(nights=9, records=60, seed=5, files=False, dear_every=20, undo_every=20, learn=False)
    simulation = Simulation(plan=plan, folder=tmp_path / "memory")
    simulation.run()
    account = simulation.account
    assert account.wrong == []
    assert account.counts["remembered"] > 5
    assert account.counts["withdrawn"] == 0
    assert sum(count for why, count in simulation.refused.items() if why.startswith(DENIED)) >= 3


def test_the_account_notices_what_it_is_there_for(tmp_path: Path) -> None:
    """The examiner is examined: whatever is done behind its back must be found."""
    plan = Plan(nights=2, records=60, seed=5, dear_every=2)
    simulation = Simulation(plan=plan, folder=tmp_path / "memory")
    simulation.run()
    account = simulation.account
    assert account.wrong == []
    name = next(name for name, facts in account.facts.items() if any(fact.marks for fact in facts))
    account.look_for_specifics()
    assert account.wrong == []
    account.records[name] = replace(account.records[name], content="Something happened")
    account.look_for_specifics()
    assert {wrong.rule for wrong in account.wrong} == {"every specific is recoverable"}
