"""A memory and a plain dictionary do the same things, and say the same whenever they are asked."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from reverie import EVERY_SCOPE, InvalidInput, Memory, NotFound
from reverie.domain.scope import visible_scopes
from tests.factories import get_search_index

SECONDS = float(os.environ.get("REVERIE_TORTURE_SECONDS", "0"))
EXAMPLES = int(60 + 5 * SECONDS)

WORDS = ("kayak", "lantern", "trumpet", "quilt", "compass", "violin", "teapot", "ladder", "sextant", "anvil")
CATEGORIES = (None, "project", "project/red", "project-context", "user-preferences/tone")
SCOPES = ("", "user:ana")


@dataclass
class Kept:
    """What the model keeps of a record."""

    content: str
    words: frozenset[str]
    category: str | None
    scope: str
    live: bool = True
    seen: int = 1
    source: str = ""
    pinned: bool = False
    expires: datetime | None = None
    archived_at: datetime | None = None


class Model(RuleBasedStateMachine):
    """Every call is made on a memory in a folder and on a dictionary of what it should hold."""

    ids = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="reverie-model-"))
        self.now = datetime(2025, 6, 2, 9, 0, tzinfo=UTC)
        self.memory = self.opened()
        self.kept: dict[str, Kept] = {}
        self.count = 0

    def opened(self) -> Memory:
        return Memory.open(self.folder / "memory", clock=lambda: self.now)

    def teardown(self) -> None:
        assert self.memory.admin.check() == []
        self.memory.close()
        shutil.rmtree(self.folder)

    def alive(self, kept: Kept) -> bool:
        return kept.live and (kept.expires is None or kept.expires > self.now)

    def twin(self, name: str) -> str | None:
        """A live record that says what this one says."""
        this = self.kept[name]
        same = (
            other
            for other, kept in self.kept.items()
            if other != name and kept.live and (kept.content, kept.scope) == (this.content, this.scope)
        )
        return next(same, None)

    @rule(
        target=ids,
        words=st.frozensets(st.sampled_from(WORDS), min_size=1, max_size=3),
        category=st.sampled_from(CATEGORIES),
        scope=st.sampled_from(SCOPES),
        minutes=st.sampled_from((None, None, 5, 60)),
    )
    def save(self, words: frozenset[str], category: str | None, scope: str, minutes: int | None) -> str:
        self.count += 1
        content = f"Lot {self.count}: " + " and ".join(sorted(words))
        ttl = None if minutes is None else timedelta(minutes=minutes)
        saved = self.memory.scoped(scope).save(content, kind="fact", category=category, ttl=ttl)
        assert saved.outcome == "created"
        expires = None if ttl is None else self.now + ttl
        self.kept[saved.record.id] = Kept(content, words, category, scope, expires=expires)
        return saved.record.id

    @rule(target=ids, name=ids)
    def say_again(self, name: str) -> str:
        this = self.kept.get(name)
        if this is None:
            return name
        saved = self.memory.scoped(this.scope).save(this.content.upper(), kind="fact")
        assert self.memory.scoped(this.scope).search(this.content, limit=1)[0].id == saved.record.id
        already = name if this.live else self.twin(name)
        if already is None:
            assert saved.outcome == "created"
            self.kept[saved.record.id] = Kept(this.content.upper(), this.words, None, this.scope)
            self.kept[saved.record.id].content = this.content
            return saved.record.id
        assert (saved.outcome, saved.record.id) == ("reinforced", already)
        self.kept[already].seen += 1
        self.kept[already].expires = None
        return already

    @rule(name=ids)
    def archive(self, name: str) -> None:
        this = self.kept.get(name)
        if this is None:
            with pytest.raises(NotFound):
                self.memory.archive(name)
            return
        assert self.memory.scoped(this.scope).archive(name, reason="sold").archived
        this.archived_at = this.archived_at if not this.live else self.now
        this.live = False

    @rule(name=ids)
    def restore(self, name: str) -> None:
        this = self.kept.get(name)
        if this is None:
            return
        if not this.live and self.twin(name) is not None:
            with pytest.raises(InvalidInput):
                self.memory.scoped(this.scope).restore(name)
            return
        assert not self.memory.scoped(this.scope).restore(name).archived
        this.live, this.archived_at = True, None

    @rule(name=ids, pinned=st.booleans())
    def change(self, name: str, pinned: bool) -> None:
        this = self.kept.get(name)
        if this is None:
            return
        self.count += 1
        this.source, this.pinned = f"source {self.count}", pinned
        self.memory.scoped(this.scope).update(name, source=this.source)
        self.memory.scoped(this.scope).update(name, pinned=pinned)

    @rule(minutes=st.integers(1, 90))
    def wait(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    @rule()
    def purge(self) -> None:
        removed = self.memory.admin.purge(older_than="30m")
        for this in self.kept.values():
            if this.live and not self.alive(this):
                this.live, this.archived_at = False, self.now
        limit = self.now - timedelta(minutes=30)
        due = [
            name
            for name, this in self.kept.items()
            if this.archived_at is not None and this.archived_at <= limit and not this.pinned
        ]
        assert removed == len(due)
        for name in due:
            del self.kept[name]

    @rule(how=st.sampled_from(("reopen", "fold", "lose the index")))
    def disturb(self, how: str) -> None:
        if how == "fold":
            get_search_index(self.memory).fold()
            return
        if how == "lose the index":
            shutil.rmtree(self.folder / "memory" / "index", ignore_errors=True)
            return
        self.memory.close()
        self.memory = self.opened()

    @rule(
        word=st.sampled_from(WORDS),
        scope=st.sampled_from((EVERY_SCOPE, *SCOPES)),
        category=st.sampled_from(CATEGORIES),
    )
    def search(self, word: str, scope: str, category: str | None) -> None:
        wanted = {
            name
            for name, this in self.kept.items()
            if self.alive(this)
            and word in this.words
            and (scope == EVERY_SCOPE or this.scope in visible_scopes(scope))
            and (category is None or f"{this.category}/".startswith(f"{category}/"))
        }
        hits = self.memory.scoped(scope).search(word, category=category, limit=1_000, mode="literal")
        assert {hit.id for hit in hits} == wanted
        ranked = self.memory.scoped(scope).search(word, category=category, limit=1_000)
        assert {hit.id for hit in ranked} <= wanted
        assert all(0 <= hit.score <= 1 for hit in ranked)
        assert [hit.score for hit in ranked] == sorted((hit.score for hit in ranked), reverse=True)
        if wanted and len(wanted) <= 3:
            assert ranked, "a word that few records have is relevant"

    @rule(message=st.sampled_from(WORDS), soft=st.integers(0, 300), more=st.integers(0, 300))
    def pack(self, message: str, soft: int, more: int) -> None:
        pack = self.memory.session("chat:1").context(message, soft_tokens=soft, hard_tokens=soft + more)
        assert pack.tokens <= soft + more
        assert -(-len(pack.text) // 4) <= pack.tokens
        assert all(self.alive(self.kept[hit.id]) and self.kept[hit.id].scope == "" for hit in pack.hits)

    @invariant()
    def each_is_as_it_was_left(self) -> None:
        for name, this in self.kept.items():
            record = self.memory.scoped(this.scope).get(name)
            assert record is not None
            assert (not record.archived, record.seen_count) == (this.live, this.seen)
            assert (record.source, record.pinned) == (this.source, this.pinned)
        live = {name for name, this in self.kept.items() if self.alive(this)}
        assert {record.id for record in self.memory.scoped(EVERY_SCOPE).list(limit=None)} == live


TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate),  # shrinking takes minutes; run it by hand where it is wanted
    derandomize=not SECONDS,
)


TEXTS = st.lists(
    st.lists(st.sampled_from((*WORDS, "plum", "pear", "fig", "naïve", "東京都")), min_size=2, max_size=9).map(
        " ".join
    ),
    min_size=1,
    max_size=30,
    unique=True,
)


@settings(max_examples=EXAMPLES, deadline=None, derandomize=not SECONDS)
@given(
    texts=TEXTS,
    question=st.lists(st.sampled_from((*WORDS, "東京", "plum")), min_size=1, max_size=5).map(" ".join),
)
def test_the_same_question_has_the_same_answer_after_opening_again(texts: list[str], question: str) -> None:
    now = datetime(2025, 6, 2, tzinfo=UTC)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        answers = []
        for n in range(3):
            with Memory.open(folder, clock=lambda: now) as memory:
                if n == 0:
                    memory.save_many({"content": text} for text in texts)
                    memory.session("s").add_many([{"role": "user", "content": text} for text in texts])
                hits = [
                    *memory.search(question, limit=50),
                    *memory.search(question, limit=50, sources="turns"),
                ]
                answers.append([(hit.id, hit.score) for hit in hits])
                if n == 1:
                    get_search_index(memory).fold()
        assert answers[0] == answers[1] == answers[2]
