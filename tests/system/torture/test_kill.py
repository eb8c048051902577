"""Processes killed at any moment: what was acknowledged is there, once, and search agrees with the store."""

from __future__ import annotations

import os
import random
import sqlite3
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reverie import Hit, Memory
from tests.system.torture.harness import Account, Site, work
from tests.system.torture.worker import SHARED

SECONDS = float(os.environ.get("REVERIE_TORTURE_SECONDS", "0")) or 6.0
NOW = datetime(2040, 1, 1, tzinfo=UTC)
_ENOUGH = 50
_MOST_ROUNDS = 8


def options(chance: random.Random) -> list[str]:
    """Some processes also kill themselves at crash points, and some have a clock that jumps."""
    points = ["--crash-points", "0.002"] if chance.random() < 0.4 else []
    return [*points, *(["--jumping-clock"] if chance.random() < 0.3 else [])]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A folder that processes worked on until they were killed, while a person edited its files."""
    site = Site(folder=tmp_path_factory.mktemp("killed") / "memory")
    for seed in range(11, 11 + _MOST_ROUNDS):
        with site.person.working():
            work(
                site.folder, site.account, seconds=SECONDS, processes=4, threads=3, seed=seed, options=options
            )
        if site.account.acknowledged > _ENOUGH:  # a machine that is very slow gets more time
            break
    return site


@pytest.mark.timeout(SECONDS * 10 + 120)
def test_what_was_acknowledged_survives_every_kill(killed: Site) -> None:
    assert killed.examine() == []
    account = killed.account
    assert account.acknowledged > _ENOUGH
    assert killed.person.found > 0
    print(
        f"{account.kills} kills, {account.acknowledged} acknowledged writes, {killed.person.found} hand edits"
    )


def test_what_was_saved_is_found_by_its_own_words(killed: Site) -> None:
    with Memory.open(killed.folder) as memory:
        for text in sample(killed.account):
            live = [record for record in memory.search(text, mode="literal") if record.content == text]
            if live:
                assert memory.search(text, limit=1)[0].content == text


def test_search_agrees_with_one_that_built_its_index_afresh(killed: Site, tmp_path: Path) -> None:
    questions = [*sample(killed.account), *SHARED, "crates of plums", "which pallet waits in hall 2"]
    records, turns = answers(killed.folder, questions)
    other_records, other_turns = answers(without_index(killed.folder, tmp_path / "copy"), questions)
    assert [good(hits) for hits in records] == [good(hits) for hits in other_records]
    for hits, others in zip(turns, other_turns, strict=True):
        assert best_is_among_the_best(hits, others), (hits, others)
        assert best_is_among_the_best(others, hits), (hits, others)


def test_nobody_who_saves_is_told_to_try_again(killed: Site) -> None:
    assert killed.account.refused == Counter()


def answers(folder: Path, questions: list[str]) -> tuple[list[list[Hit]], list[list[Hit]]]:
    """The records and the turns that a memory finds at one moment."""
    with Memory.open(folder, clock=lambda: NOW) as memory:
        return [memory.search(text) for text in questions], [
            memory.search(text, sources="turns") for text in questions
        ]


def good(hits: list[Hit]) -> list[tuple[float, str]]:
    """The hits at least half as good as the best, by id where no other has the same score.

    Of thousands that fit equally badly it is chance which ones are looked at (decisions/0002).
    """
    count = Counter(hit.score for hit in hits)
    return [
        (hit.score, hit.id if count[hit.score] == 1 else "tied")
        for hit in hits
        if hit.score >= 0.5 * hits[0].score
    ]


def best_is_among_the_best(hits: list[Hit], others: list[Hit]) -> bool:
    """Turns: neighbours count as far as they were looked at, so scores may differ a little."""
    if not hits or hits[0].score < 0.1:
        return True
    return any(hits[0].score * 0.9 <= other.score for other in others) and (
        hits[0].id in {other.id for other in others if other.score >= 0.9 * others[0].score}
        or others[-1].score >= 0.9 * others[0].score
    )


def without_index(folder: Path, copy: Path) -> Path:
    """The same store in another folder that has no index."""
    copy.mkdir()
    source, target = sqlite3.connect(folder / "reverie.db"), sqlite3.connect(copy / "reverie.db")
    source.backup(target)
    source.close()
    target.close()
    return copy


def sample(account: Account) -> list[str]:
    """Some of what was saved and some of what was said."""
    chance = random.Random(3)
    said = [text for _, texts in account.turns for text in texts]
    return chance.sample(sorted(account.saved), k=min(40, len(account.saved))) + chance.sample(
        said, k=min(20, len(said))
    )
