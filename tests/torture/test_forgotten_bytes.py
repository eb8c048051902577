"""What was forgotten stands in no byte of the folder: not in the database, its log, the index or any file.

A memory is filled by chance with records, turns, pages, notes and working memory that say secrets and repeat
them, another process has it open with everything in its caches, and then the secrets are forgotten by id, by
session and by text. `REVERIE_TORTURE_SECONDS` makes it go on with other seeds for so long.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.torture.scanning import found_in, indexed, tables, words_in

from reverie import Memory, NotFound
from reverie.analyser import analyse
from reverie.files.folder import Folder
from reverie.forgetting import PENDING, Forgetter
from reverie.index.follower import SearchIndex
from reverie.recall import analysis
from reverie.turns import ToolCall

SECONDS = float(os.environ.get("REVERIE_TORTURE_SECONDS", "0"))
PROGRAM = [sys.executable, "-W", "error", "-c", "from reverie.surfaces.cli import main; main()"]
_SOUNDS = ["ka", "lo", "mi", "ter", "zu", "ban", "fe", "quo", "ri", "sha", "dol", "ven", "pu", "glé", "nör"]


@contextmanager
def opened(folder: Path) -> Iterator[Memory]:
    with Memory.open(folder) as memory:
        files = Folder(folder, memory._store, notice=memory._index.notice)

        def notice(rows: Any) -> None:
            memory._index.notice(rows)
            files.notice(rows)

        memory._noticed = notice  # type: ignore[method-assign]
        memory._saving._notice = memory.pages._notice = notice
        memory.__dict__["_forgetter"] = Forgetter(
            memory._store,
            memory._index,
            folder=folder,
            clock=memory._clock,
            actor="owner",
            notice=notice,
            sync=files.sync,
        )
        files.start()
        try:
            yield memory
        finally:
            files.close()


@dataclass
class Secret:
    """Something said that is to be forgotten, and everything that repeats it."""

    text: str
    ids: list[str] = field(default_factory=list)
    session: str | None = None

    @property
    def words(self) -> list[str]:
        return [word for word in self.text.lower().split() if len(word) > 6]


class Writer:
    """Fills a memory by chance. All words are made up, so that no two texts share any by accident."""

    def __init__(self, memory: Memory, seed: int) -> None:
        self.memory = memory
        self.chance = random.Random(seed)
        self.used: set[str] = set()

    def word(self) -> str:
        while True:
            word = "".join(self.chance.choice(_SOUNDS) for _ in range(self.chance.randint(3, 5)))
            if word not in self.used and not any(word in other or other in word for other in self.used):
                self.used.add(word)
                return word

    def sentence(self, least: int = 6, most: int = 14) -> str:
        return " ".join(self.word() for _ in range(self.chance.randint(least, most)))

    def quoting(self, text: str) -> str:
        """Five words or more of a text, in other spelling, among others."""
        said = text.split()
        if len(said) > 5:
            start = self.chance.randrange(len(said) - 4)
            said = said[start : start + self.chance.randint(5, len(said) - start)]
        between = self.chance.choice([" ", "  ", " – ", ", "])
        quoted = between.join(self.chance.choice([str, str.upper, str.title])(word) for word in said)
        return f"{self.sentence(1, 4)}: {quoted}. {self.sentence(0, 3)}".strip()

    def record(self, text: str) -> str:
        """A record that says it, with a life of its own."""
        memory, chance = self.memory, self.chance
        made = memory.save(
            text,
            category=chance.choice([None, "people", "people/family"]),
            tags=["kept"],
            kind=chance.choice(["fact", "event"]),
        ).record
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
        """Everything else that can repeat it."""
        memory, chance = self.memory, self.chance
        if chance.random() < 0.7:
            memory.save(self.quoting(text), tags=["kept"])
        once = memory.save(f"{self.sentence()} {text}").record
        memory.update(once.id, content=self.sentence())
        memory.save(self.sentence(), metadata={"evidence": self.quoting(text)}, tags=["kept"])
        page = memory.pages.read("MEMORY.md")
        memory.pages.write("MEMORY.md", f"{page}- {self.quoting(text)}\n- {self.sentence()}\n")
        if chance.random() < 0.5:
            memory.pages.write("MEMORY.md", f"{page}- {self.sentence()}\n")
        memory.pages.write("people/notes.md", f"# {self.sentence(2, 3)}\n\n{self.quoting(text)}\n")
        memory.pages.append("HISTORY.md", f"[2025-06-01 10:00] {self.quoting(text)}")
        memory.pages.append("HISTORY.md", f"[2025-06-01 11:00] {self.sentence()}")
        memory.scratchpad.set(f"pad/{self.word()}", self.quoting(text))
        memory.session("never:begun").working.set(
            self.word(), self.quoting(text), ttl=chance.choice([0.001, None])
        )

    def conversation(self, name: str, *texts: str) -> None:
        """Turns that say it, with calls of tools, between others."""
        chat = self.memory.session(name)
        for text in texts:
            chat.add("user", f"{self.sentence(1, 3)} {text}", speaker=self.word())
            call = ToolCall(
                id="c1", name="look", arguments=json.dumps({"about": self.quoting(text), "é": "é"})
            )
            chat.add("assistant", "", tool_calls=[call], metadata={"seen": self.quoting(text)})
            chat.add("tool", json.dumps({"found": text + "\n" + self.sentence()}), tool_call_id="c1")
            chat.add("assistant", self.quoting(text))
            chat.add("user", self.sentence())
            chat.add("assistant", self.sentence())
            chat.working.set(self.word(), text)
        state = chat.state
        told = replace(
            state, summary=f"{self.sentence()}\n{self.quoting(texts[0])}", metadata={"title": texts[0]}
        )
        from reverie.edits import Edit

        self.memory._noticed(
            self.memory._store.commit(
                [Edit(before=state, after=told)], actor="digest", at=self.memory._clock()
            )
        )
        chat.context(texts[0])


OTHER = """
import json, sys
from reverie import Memory
with Memory.open(sys.argv[1]) as memory:
    chats = {}
    for line in sys.stdin:
        what, about = json.loads(line)
        if what == "look":
            for one in memory.sessions():
                chats[one.state.id] = memory.session(one.state.id)
                chats[one.state.id].turns()
            found = [len(memory.recall(each)) + len(memory.search(each, archived=None) if False else memory.search(each)) for each in about]
            print(json.dumps(found), flush=True)
        elif what == "count":
            index = memory._index
            print(json.dumps([index.frequencies(s, about, None) for s in ("record", "turn", "paragraph")]), flush=True)
        elif what == "turns":
            print(json.dumps([t.content for chat in chats.values() for t in chat.turns()]), flush=True)
        elif what == "save":
            print(memory.save(about).record.id, flush=True)
"""


class Other:
    """Another process that has the folder open and everything in its caches."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OTHER, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, what: str, about: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([what, about]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return line.strip() if what == "save" else json.loads(line)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0


def rest(memory: Memory) -> dict[str, Any]:
    """Everything that stays, by id, with its journal."""
    store = memory._store
    values = [
        *memory.records(limit=None, archived=None),
        *(turn for one in memory.sessions() for turn in memory.turns(one.state.id)),
        *(paragraph for log in store.logs() for paragraph in store.paragraphs(page=log)),
    ]
    return {value.id: (value, memory.history(value.id, limit=1_000)) for value in values}


def fill(memory: Memory, seed: int) -> tuple[Secret, Secret, Secret]:
    writer = Writer(memory, seed)
    by_id, by_session, by_text = (Secret(writer.sentence()) for _ in range(3))
    for _ in range(8):
        writer.record(writer.sentence())
    writer.conversation("chat:other", writer.sentence(), writer.sentence())
    for secret in (by_id, by_session, by_text):
        for _ in range(3):
            writer.record(writer.sentence())
        if secret is not by_session:
            secret.ids.append(writer.record(secret.text))
        else:
            secret.session = f"telegram:{writer.word()}"
            writer.conversation(secret.session, secret.text, writer.sentence())
            writer.record(writer.quoting(secret.text))
        writer.repeated(secret.text)
        writer.conversation(f"chat:{writer.chance.randrange(3)}", secret.text)
        if writer.chance.random() < 0.5:
            memory._index.fold()
    memory.delete_session("chat:2")
    memory._index.fold()
    for _ in range(3):
        writer.record(writer.sentence())
    return by_id, by_session, by_text


def seeds() -> Iterator[int]:
    until = time.monotonic() + SECONDS
    yield from range(3)
    seed = 3
    while time.monotonic() < until:
        yield seed
        seed += 1


def test_no_byte_says_what_was_forgotten(tmp_path: Path) -> None:
    for seed in seeds():
        scenario(tmp_path / str(seed), seed)


def scenario(folder: Path, seed: int) -> None:
    with opened(folder) as memory:
        by_id, by_session, by_text = fill(memory, seed)
        secrets = (by_id, by_session, by_text)
        before = rest(memory)
        (folder / "reverie.db.v1.backup").write_text(by_id.text)
        (folder / "memory" / f"{by_id.ids[0]}.conflict.json").write_text(json.dumps({"content": by_id.text}))
        (folder / "memory" / "MEMORY.md.recovered-1").write_text(f"- {by_text.text}\n")
        other = Other(folder)
        texts = [secret.text for secret in secrets]
        assert all(number for number in other.ask("look", texts)), "else it has nothing in its caches"
        for secret in secrets:
            assert found_in(folder, [secret.text]), "else this test could not fail"
            assert set(map(analysis.stem, secret.words)) & indexed(folder)

        assert memory.forget(*by_id.ids, turns=True).pending == ()
        gone(memory, folder, other, by_id)
        assert memory.forget(session=by_session.session, turns=True).pending == ()
        gone(memory, folder, other, by_session)
        assert by_session.session is not None
        assert words_in(folder, [by_session.session.removeprefix("telegram:")]) == []
        assert memory.forget(match=" ".join(by_text.text.upper().split()[1:4])).pending == ()
        memory.forget(match=by_text.text, turns=True) if still(memory, by_text) else None
        gone(memory, folder, other, by_text)

        other.ask("save", "Something new that has nothing to do with it")
        assert memory.undo(since=1)
        other.close()
        memory.forget(match="nothing to do with")
        assert found_in(folder, texts) == []
        untouched(memory, before, secrets)
        assert memory.doctor().sound, memory.doctor().findings
    assert found_in(folder, texts) == []
    with opened(folder) as memory:
        assert memory.check() == []
        assert found_in(folder, texts) == []


def still(memory: Memory, secret: Secret) -> bool:
    try:
        memory.forgetting(match=secret.text, turns=True)
    except NotFound:
        return False
    return True


def gone(memory: Memory, folder: Path, other: Other, secret: Secret) -> None:
    """Nobody finds it, everybody counts right, and no byte says it."""
    tokens = sorted({token for token in analysis.tokens(secret.text)})
    assert other.ask("look", [secret.text]) == [0]
    fresh = SearchIndex(memory._store, None, analyse=analyse)
    counted = [fresh.frequencies(s, tokens, None) for s in ("record", "turn", "paragraph")]
    assert other.ask("count", tokens) == counted
    assert not any(any(each.values()) for each in counted)
    fresh.close()
    assert not [text for text in other.ask("turns", None) if secret.text.lower() in text.lower()]
    assert memory._store.cursor(PENDING) is None
    assert found_in(folder, [secret.text]) == []
    assert words_in(folder, secret.words) == []
    assert not [line for line in tables(folder) if any(word in line.lower() for word in secret.words)]


def untouched(memory: Memory, before: dict[str, Any], secrets: Any) -> None:
    words = {word for secret in secrets for word in secret.words}

    def says(what: object) -> bool:
        return any(word in repr(what).lower() for word in words)

    del memory
    assert any(not says(each) for each in before.values())
