"""What was forgotten stands in no byte of the folder: not in the database, its log, the index or any file.

A memory is filled by chance with records, turns, pages, notes and working memory that say secrets and repeat
them; another process has it open with everything in its caches; then the secrets are forgotten by id, by
session and by text. `REVERIE_TORTURE_SECONDS` makes it go on with other seeds for so long.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reverie import Conflict, Memory, NotFound
from reverie.admin.erasure.eraser import PENDING
from reverie.domain.change import Change
from reverie.domain.conversation import ToolCall
from reverie.domain.passage import SEARCHABLE
from reverie.domain.text import tokenizer
from reverie.search.hits import SOURCES
from reverie.search.index.search_index import SearchIndex
from tests.factories import get_search_index
from tests.system.torture.scanning import found_in, indexed, tables, words_in

SECONDS = float(os.environ.get("REVERIE_TORTURE_SECONDS", "0"))
PROGRAM = [sys.executable, "-W", "error", "-c", "from reverie.interfaces.cli.main import main; main()"]
ENVIRONMENT = {name: text for name, text in os.environ.items() if not name.startswith("REVERIE_")}

_SOUNDS = ("ka", "lo", "mi", "ter", "zu", "ban", "fe", "quo", "ri", "sha", "dol", "ven", "pu", "glé", "nör")


@dataclass
class Secret:
    """Something said that is to be forgotten, and where it was said first."""

    text: str
    id: str = ""
    session: str = ""

    @property
    def words(self) -> list[str]:
        """The words of it that are long enough to stand in a file only on purpose."""
        return [word for word in self.text.lower().split() if len(word) > 6]


@dataclass
class Writer:
    """Fills a memory by chance. All words are made up, so that no two texts share any by accident."""

    memory: Memory
    chance: random.Random
    used: set[str] = field(default_factory=set)

    def word(self) -> str:
        while True:
            word = "".join(self.chance.choice(_SOUNDS) for _ in range(self.chance.randint(3, 5)))
            if not any(word in other or other in word for other in self.used):
                self.used.add(word)
                return word

    def sentence(self, least: int = 6, most: int = 14) -> str:
        return " ".join(self.word() for _ in range(self.chance.randint(least, most)))

    def quoting(self, text: str) -> str:
        """All of a text, in other spelling, among others."""
        said = text.split()
        between = self.chance.choice([" ", "  ", " – ", ", "])
        quoted = between.join(self.chance.choice([word, word.upper(), word.title()]) for word in said)
        return f"{self.sentence(1, 4)}: {quoted}. {self.sentence(1, 3)}"

    def record(self, text: str) -> str:
        """A record that says it, with a life of its own."""
        memory, chance = self.memory, self.chance
        kind = chance.choice(["fact", "event"])
        category = chance.choice([None, "people", "people/family"])
        made = memory.save(text, category=category, kind=kind).record  # type: ignore[arg-type]
        for _ in range(chance.randrange(4)):
            what = chance.choice(["more", "less", "weight", "archive", "restore"])
            if what == "more":
                memory.update(made.id, content=f"{text} {self.sentence(1, 5)}")
            elif what == "less":
                memory.update(made.id, content=text)
            elif what == "weight":
                memory.update(made.id, importance=chance.random(), metadata={"why": self.quoting(text)})
            elif what == "archive":
                memory.archive(made.id, reason=self.quoting(text))
            else:
                memory.restore(made.id)
        return made.id

    def repeated(self, text: str) -> None:
        """Say it again everywhere where it can be said."""
        memory = self.memory
        memory.save(self.quoting(text))
        once = memory.save(f"{self.sentence()} {text}").record
        memory.update(once.id, content=self.sentence())
        memory.save(self.sentence(), metadata={"evidence": self.quoting(text)})
        page = memory.pages.read("MEMORY.md")
        memory.pages.write("MEMORY.md", f"{page}- {self.quoting(text)}\n- {self.sentence()}\n")
        if self.chance.random() < 0.5:
            memory.pages.write("MEMORY.md", f"{page}- {self.sentence()}\n")
        memory.pages.write("people/notes.md", f"# {self.sentence(2, 3)}\n\n{self.quoting(text)}\n")
        memory.pages.append("HISTORY.md", f"[2025-06-01 10:00] {self.quoting(text)}")
        memory.pages.append("HISTORY.md", f"[2025-06-01 11:00] {self.sentence()}")
        memory.scratchpad.set(f"pad/{self.word()}", self.quoting(text))
        never_begun = memory.session("never:begun").working
        never_begun.set(self.word(), self.quoting(text), ttl=self.chance.choice([0.001, None]))

    def derived(self, secret: Secret) -> None:
        """Say it in what was made from it, and in copies that search finds."""
        memory, text = self.memory, secret.text
        memory.save(self.quoting(text))
        memory.save(self.quoting(text), references=[secret.id], metadata={"evidence": text})
        once = memory.save(f"{self.sentence()} {text}", metadata={"merged_from": secret.id}).record
        memory.update(once.id, content=self.sentence())
        removed = memory.save(f"{text} {self.sentence()}", source=secret.id).record
        memory.archive(removed.id)
        memory.admin.purge(older_than=0)
        page = memory.pages.read("MEMORY.md")
        memory.pages.write("MEMORY.md", f"{page}- {self.quoting(text)}\n- {self.sentence()}\n")
        memory.pages.append("HISTORY.md", f"[2025-06-01 10:00] {self.quoting(text)}")
        chat = memory.session("chat:0")
        chat.add("user", f"{self.sentence(1, 3)} {text}")
        chat.add("assistant", self.quoting(text))

    def conversation(self, name: str, *texts: str) -> None:
        """Turns that say it, with calls of tools, between others."""
        chat = self.memory.session(name)
        for text in texts:
            chat.add("user", f"{self.sentence(1, 3)} {text}", speaker=self.word())
            arguments = json.dumps({"about": self.quoting(text), "é": "é"})
            call = ToolCall(id="c1", name="look", arguments=arguments)
            chat.add("assistant", "", tool_calls=[call], metadata={"seen": self.quoting(text)})
            chat.add("tool", json.dumps({"found": f"{text}\n{self.sentence()}"}), tool_call_id="c1")
            chat.add("assistant", self.quoting(text))
            chat.add("user", self.sentence())
            chat.add("assistant", self.sentence())
            chat.working.set(self.word(), text)
        summary = f"{self.sentence()}\n{self.quoting(texts[0])}"
        told = replace(chat.state, summary=summary, metadata={"title": texts[0]})
        store = self.memory._store
        edits = [Change(before=chat.state, after=told)]
        self.memory._parts.writer.publish(store.commit(edits, actor="digest", at=self.memory._clock()))
        chat.context(texts[0])

    def fill(self) -> tuple[Secret, Secret, Secret]:
        """Everything, and three secrets in it: to be forgotten by id, by session, by text."""
        secrets = tuple(Secret(self.sentence(8)) for _ in range(3))
        for _ in range(8):
            self.record(self.sentence())
        self.conversation("chat:other", self.sentence(), self.sentence())
        for secret in secrets:
            for _ in range(3):
                self.record(self.sentence())
            if secret is secrets[0]:
                secret.id = self.record(secret.text)
                self.derived(secret)
            elif secret is secrets[1]:
                secret.session = f"telegram:{self.word()}"
                self.conversation(secret.session, secret.text, self.sentence())
                self.memory.save(self.quoting(secret.text), source=f"session:{secret.session}")
            else:
                secret.id = self.record(secret.text)
                self.repeated(secret.text)
                self.conversation(f"chat:{self.chance.randrange(3)}", secret.text)
            if self.chance.random() < 0.5:
                get_search_index(self.memory).fold()
        self.memory.delete_session("chat:2")
        get_search_index(self.memory).fold()
        for _ in range(3):
            self.record(self.sentence())
        by_id, by_session, by_text = secrets
        return by_id, by_session, by_text


OTHER = """
import json, sys
from reverie import Memory
from tests.factories import get_search_index
with Memory.open(sys.argv[1]) as memory:
    chats = {}
    for line in sys.stdin:
        what, about = json.loads(line)
        if what == "look":
            for one in memory.sessions():
                chats[one.state.id] = memory.session(one.state.id)
                chats[one.state.id].turns()
            everywhere = ("records", "turns", "pages")
            hits = [(memory.search(each, sources=everywhere), each.lower().split()) for each in about]
            saying = [sum(any(w in h.content.lower() for w in words) for h in some) for some, words in hits]
            print(json.dumps(saying), flush=True)  # in a small memory other texts may be found too
        elif what == "count":
            sorts = ("record", "turn", "paragraph")
            print(json.dumps([memory._index.frequencies(s, about, None) for s in sorts]), flush=True)
        elif what == "turns":
            print(json.dumps([t.content for chat in chats.values() for t in chat.turns()]), flush=True)
        elif what == "save":
            print(json.dumps(memory.save(about).record.id), flush=True)
"""


class Other:
    """Another process that has the folder open and everything in its caches."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", OTHER, str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, what: str, about: object) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([what, about]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0


@contextmanager
def beside(folder: Path) -> Iterator[Other]:
    other = Other(folder)
    try:
        yield other
        other.close()
    finally:
        with other.process as process:  # which closes its pipes
            process.kill()


def rest(memory: Memory) -> dict[str, tuple[Any, Any]]:
    """Everything there is, by id, with its journal."""
    store = memory._store
    values: list[Any] = [
        *memory.list(limit=None, archived=None),
        *(turn for one in memory.sessions() for turn in memory.turns(one.state.id)),
        *(paragraph for log in store.logs() for paragraph in store.paragraphs(page=log)),
    ]
    return {value.id: (value, memory.history.log(value.id, limit=1_000)) for value in values}


def gone(memory: Memory, folder: Path, other: Other, secret: Secret) -> None:
    """Nobody finds it, everybody counts right, and no byte says it."""
    tokens = sorted(set(tokenizer.tokenize(secret.text)))
    assert other.ask("look", [secret.text]) == [0]
    fresh = SearchIndex(memory._store, None)
    counted = [fresh.frequencies(subject, tokens, None) for subject in SEARCHABLE]
    fresh.close()
    assert other.ask("count", tokens) == counted
    assert not any(any(each.values()) for each in counted)
    assert not [text for text in other.ask("turns", None) if secret.text.lower() in text.lower()]
    assert memory._store.cursor(PENDING) is None
    assert found_in(folder, [secret.text]) == []
    assert words_in(folder, secret.words) == []
    assert not [line for line in tables(folder) if any(word in line.lower() for word in secret.words)]
    get_search_index(memory).rebuild()  # so that the next erasure has files of the index to empty


def untouched(memory: Memory, before: dict[str, tuple[Any, Any]], secrets: tuple[Secret, ...]) -> None:
    """What never said any of it is as it was, and so is its journal."""
    words = {word for secret in secrets for word in secret.words}
    sessions = {secret.session for secret in secrets}
    turns = {name for name, (value, _) in before.items() if getattr(value, "session", None) in sessions}
    after, compared = rest(memory), 0
    for name, was in before.items():
        told = repr(was).lower()
        basis = {getattr(was[0], "source", ""), *getattr(was[0], "references", ())}
        if name in turns or basis & turns or any(word in told for word in words):
            continue
        assert after[name] == was
        compared += 1
    assert compared > 20


def scenario(folder: Path, seed: int) -> None:
    with Memory.open(folder) as memory:
        by_id, by_session, by_text = secrets = Writer(memory, random.Random(seed)).fill()
        texts = [secret.text for secret in secrets]
        before = rest(memory)
        (folder / "reverie.db.v1.backup").write_text(by_id.text)
        (folder / f"memory/{by_id.id}.conflict.json").write_text(json.dumps({"content": by_id.text}))
        (folder / "memory/.reverie").mkdir(exist_ok=True)
        (folder / "memory/.reverie/00000000-MEMORY.md").write_text(f"- {by_text.text}\n")
        with beside(folder) as other:
            assert all(other.ask("look", texts)), "else it has nothing in its caches"
            for secret in secrets:
                assert found_in(folder, [secret.text]), "else this test could not fail"
                assert set(map(tokenizer.stem, secret.words)) & indexed(folder)

            assert memory.admin.forget(by_id.id, turns=True).pending == ()
            gone(memory, folder, other, by_id)
            assert memory.admin.forget(session=by_session.session, turns=True).pending == ()
            gone(memory, folder, other, by_session)
            assert words_in(folder, [by_session.session.removeprefix("telegram:")]) == []
            assert memory.admin.forget(match=by_text.text.upper(), turns=True).pending == ()
            gone(memory, folder, other, by_text)

            other.ask("save", "Something new that has nothing to do with it")
        untouched(memory, before, secrets)
        assert memory.admin.doctor().sound, memory.admin.doctor().findings
        assert found_in(folder, texts) == []
        with suppress(Conflict):  # a session that has lost turns does not come back without them
            memory.history.undo(since=1)
    assert found_in(folder, texts) == []
    with Memory.open(folder) as memory:
        assert memory.admin.check() == []
        assert memory.as_of(memory._store.sequence() // 2).list(limit=None, archived=None)
        for text in texts:
            for state in (memory, memory.as_of(memory._store.sequence() // 2)):
                found = [hit.content.lower() for hit in state.search(text, sources=SOURCES)]
                assert not [each for each in found if any(word in each for word in text.lower().split())]


def seeds(count: int) -> Iterator[int]:
    until = time.monotonic() + SECONDS
    seed = 0
    while seed < count or time.monotonic() < until:
        yield seed
        seed += 1


def test_no_byte_says_what_was_forgotten(tmp_path: Path) -> None:
    for seed in seeds(3):
        scenario(tmp_path / str(seed), seed)


def test_a_forgetting_that_was_killed_is_made_good_by_the_next(tmp_path: Path) -> None:
    for seed in seeds(4):
        folder = tmp_path / str(seed)
        chance = random.Random(seed)
        with Memory.open(folder) as memory:
            secret, *_ = Writer(memory, chance).fill()
        command = [*PROGRAM, "forget", "--match", secret.text, "--turns", "--yes", "--store", str(folder)]
        killed = subprocess.Popen(
            command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(chance.uniform(0.2, 1.2))
        killed.send_signal(signal.SIGKILL)
        killed.wait(timeout=60)
        with Memory.open(folder) as memory:
            try:
                memory.admin.forget(match=secret.text, turns=True)
            except NotFound:  # it was erased before the kill; the rest is to be finished
                assert memory.admin.doctor(fix=True).sound
            assert memory.admin.doctor().sound, memory.admin.doctor().findings
        assert found_in(folder, [secret.text]) == []
        assert words_in(folder, secret.words) == []
