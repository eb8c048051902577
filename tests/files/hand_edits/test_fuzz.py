"""Hand edits of every kind between the program's own changes, at random: nothing that anybody wrote is lost.

Every text that is written has a word of its own. After each look at the folder, every such word that stood in
a file is in the journal, or still in a file that is reported as a problem.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from reverie.domain.change import Change, Value
from reverie.domain.errors import Conflict
from reverie.domain.filter import Filter
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.files.expected import render_expected_content
from reverie.files.layout import Layout, build_path
from tests.files.folder_fixture import EditedFolder, make_note, open_edited_folder
from tests.profiles import THOROUGH
from tests.support.contract.factories import NOW, make_session, make_turn

WORD = re.compile(r"word\d+")
CATEGORIES = ("notes", "ideas", "ideas/new", None)
PAGES = r"^memory/(records|episodic|\.archive)/.*\.md$"
FILES = rf"{PAGES}|^memory/.*\.json$"
RUNS = int(os.environ.get("REVERIE_FUZZ_RUNS", "12" if THOROUGH else "4"))
STEPS = 80


class Killed(BaseException):
    """A process ends in the middle."""


class Play:
    """A person and a program at one memory, both acting at random."""

    def __init__(self, edited_folder: EditedFolder, seed: int) -> None:
        self.edited_folder = edited_folder
        self.dice = random.Random(seed)
        self.number = 0
        self.removals = 0
        self.trash: list[tuple[str, bytes]] = []
        self.done: list[str] = []

    def word(self) -> str:
        self.number += 1
        return f"word{self.number}"

    def id(self) -> str:
        return f"{self.dice.getrandbits(48):012x}"

    # -- the program -------------------------------------------------------------------------------------

    def program(self) -> None:
        acts = [self.save, self.save, self.save_event, self.update, self.update, self.archive, self.restore]
        acts += [self.purge, self.say, self.say, self.log, self.log, self.rewrite, self.rewrite]
        act = self.dice.choice(acts)
        edits = act()
        self.done.append(act.__name__)
        try:
            if edits:
                self.edited_folder.commit(*edits, mirrored=self.dice.random() < 0.8)
        except Conflict:
            pass

    def save(self) -> list[Change]:
        made = make_note(1, id=self.id(), content=self.word(), category=self.dice.choice(CATEGORIES))
        return [Change(before=None, after=made)]

    def save_event(self) -> list[Change]:
        moment = NOW + timedelta(hours=self.dice.randrange(-30, 3))
        made = make_note(1, id=self.id(), content=self.word(), layer="episodic", moment=moment)
        return [Change(before=None, after=made)]

    def _any(self, *, archived: bool) -> list[Record]:
        found = sorted(self.edited_folder.store.find(Filter(archived=archived)), key=lambda each: each.id)
        return [self.dice.choice(found)] if found else []

    def update(self) -> list[Change]:
        changes: list[dict[str, object]] = [
            {"content": self.word()},
            {"importance": self.dice.random()},
            {"category": self.dice.choice(CATEGORIES)},
            {"tags": (self.word(),)},
            {"pinned": self.dice.random() < 0.5},
        ]
        fields = self.dice.choice(changes)
        return [
            Change(before=r, after=replace(r, **fields, updated_at=self.edited_folder.clock()))  # type: ignore[arg-type]
            for r in self._any(archived=False)
        ]

    def archive(self) -> list[Change]:
        now = self.edited_folder.clock()
        return [
            Change(before=r, after=replace(r, archived_at=now, archive_reason="program"))
            for r in self._any(archived=False)
        ]

    def restore(self) -> list[Change]:
        found = self._any(archived=True)
        return [Change(before=r, after=replace(r, archived_at=None, archive_reason="")) for r in found]

    def purge(self) -> list[Change]:
        return [Change(before=r, after=None) for r in self._any(archived=True)]

    def say(self) -> list[Change]:
        there = self.edited_folder.store.turns(session="chat:1")
        edits = (
            [] if self.edited_folder.store.session("chat:1") else [Change(before=None, after=make_session())]
        )
        said = make_turn(len(there), id=self.id(), content=self.word(), at=self.edited_folder.clock())
        return [*edits, Change(before=None, after=said)]

    def log(self) -> list[Change]:
        name = self.dice.choice(("HISTORY.md", "2026-03-01.md"))
        there = self.edited_folder.store.paragraphs(page=name)
        position = there[-1].position + 1 if there else 1.0
        made = Paragraph(
            id=self.id(),
            page=name,
            position=position,
            at=self.edited_folder.clock(),
            content=f"[10:00] {self.word()}",
        )
        return [Change(before=None, after=made)]

    def rewrite(self) -> list[Change]:
        there = self.edited_folder.store.pages(["MEMORY.md"])
        now = self.edited_folder.clock()
        if not there:
            page = Page(name="MEMORY.md", content=f"# Memory\n\n- {self.word()}\n", updated_at=now)
            return [Change(before=None, after=page)]
        lines = there[0].content.split("\n")
        lines.insert(self.dice.randrange(len(lines)), f"- {self.word()}")
        return [Change(before=there[0], after=replace(there[0], content="\n".join(lines), updated_at=now))]

    # -- the person --------------------------------------------------------------------------------------

    def person(self) -> None:
        acts: list[Callable[[], None]] = [self.edit_record] * 3
        acts += [self.edit_lines] * (6 if self.edited_folder.layout == "pages" else 3)
        acts += [self.edit_text] * 4
        acts += [self.new_file, self.new_file, self.delete, self.move, self.move, self.copy, self.spoil]
        acts += [self.spoil, self.repair, self.repair, self.put_back, self.slip_in, self.settle]
        if self.dice.random() < 0.03:
            acts = [self.lose_folder, self.edited_folder.lose_state]
        act = self.dice.choice(acts)
        self.done.append(act.__name__)
        act()

    def _pick(self, pattern: str) -> str | None:
        names = [name for name in self.edited_folder.files() if re.search(pattern, name)]
        return self.dice.choice(names) if names else None

    def _save(self, name: str, text: str) -> None:
        data = text.encode()
        if self.dice.random() < 0.1:
            data = b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n")
        self.edited_folder.write(name, data)

    def _text(self, name: str) -> str:
        """A file as an editor shows it."""
        path = self.edited_folder.path(name)
        data = path.read_bytes() if path.exists() else b""
        return data.removeprefix(b"\xef\xbb\xbf").decode(errors="replace").replace("\r\n", "\n")

    def _loaded(self, name: str) -> dict[str, object] | None:
        try:
            found = json.loads(self._text(name))
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def edit_record(self) -> None:
        name = self._pick(r"^memory/.*(?<!conflict)\.json$")
        found = self._loaded(name) if name else None
        if name is None or found is None:
            return
        changes: list[dict[str, object]] = [
            {"content": self.word()},
            {"content": self.word(), "importance": 0.25},
            {"tags": [self.word()]},
            {"category": self.dice.choice(CATEGORIES)},
            {"pinned": True},
            {"layer": self.dice.choice(["semantic", "episodic"])},
        ]
        fields = found | self.dice.choice(changes)
        if self.dice.random() < 0.2:
            fields = {key: fields[key] for key in fields if key in ("id", "content", "tags")}
        self._save(name, json.dumps(fields, indent=self.dice.choice([None, 2])))

    def new_file(self) -> None:
        folder = self.dice.choice(["notes", "ideas/new", "not a category", ""])
        fields = {"content": self.word()}
        self._save("/".join(filter(None, ("memory", folder, f"{self.word()}.json"))), json.dumps(fields))

    def edit_lines(self) -> None:
        name = self._pick(PAGES) or "memory/episodic/2026-03-01.md"
        lines = self._text(name).split("\n")[:-1]
        act = self.dice.choice(["add", "change", "change", "remove", "mark", "move", "move", "repeat"])
        rows = [number for number, line in enumerate(lines) if line.startswith("- ")]
        place = self.dice.choice(rows) if rows else 0
        if act == "add" or not rows:
            lines.insert(self.dice.choice([len(lines), place]), f"- {self.word()}")
        elif act in ("remove", "move"):
            self.removals += 1
            moved = lines.pop(place)
            if act == "move":
                folder = self.dice.choice(
                    ["records/notes", "records/Ideas", "episodic/2026-03-01", ".archive/x"]
                )
                target = f"memory/{folder}.md"
                self._save(target, self._text(target) + f"{moved}\n" if target != name else moved)
                if target == name:
                    return
        elif act == "repeat":
            lines.append(lines[place])
        elif act == "mark":
            lines[place] = lines[place].replace(" <!--", f" #{self.word()} 📌 <!--")
        else:
            lines[place] = f"- {self.word()}" + lines[place][lines[place].find(" <!--") :]
        self._save(name, "".join(f"{line}\n" for line in lines))

    def edit_text(self) -> None:
        name = self.dice.choice(["MEMORY.md", "HISTORY.md", "2026-03-01.md", "projects/atlas.md"])
        path = f"memory/{name}"
        between = "\n\n" if name == "HISTORY.md" else "\n"
        lines = self._text(path).removesuffix("\n").split(between)
        act = self.dice.choice(["add", "add", "change", "remove"])
        place = self.dice.randrange(len(lines))
        if act == "add" or len(lines) < 2:
            lines.insert(self.dice.randrange(len(lines) + 1), f"- {self.word()}")
        elif act == "change":
            lines[place] += f" {self.word()}"
        else:
            lines.pop(place)
        self._save(path, between.join(lines) + "\n")

    def delete(self) -> None:
        if (name := self._pick(r"")) is not None:
            self.removals += 1 + self.edited_folder.path(name).read_bytes().count(b"\n")
            self.trash.append((name, self.edited_folder.path(name).read_bytes()))
            self.edited_folder.path(name).unlink()

    def move(self) -> None:
        name = self._pick(FILES)
        if name is None:
            return
        folder = self.dice.choice(["notes", "ideas", ".archive/notes", "", "bad name"])
        if name.endswith(".md"):
            folder = self.dice.choice(["records/a", ".archive", "records/bad (name)"])
        stem = self.dice.choice([Path(name).name, f"{self.word()}{Path(name).suffix}"])
        target = "/".join(filter(None, ("memory", folder, stem)))
        if not self.edited_folder.path(target).exists():
            self.removals += 1 + self.edited_folder.path(name).read_bytes().count(b"\n")
            self.edited_folder.path(target).parent.mkdir(parents=True, exist_ok=True)
            self.edited_folder.path(name).rename(self.edited_folder.path(target))

    def copy(self) -> None:
        name = self._pick(FILES)
        if name is not None and name.endswith(".json"):
            shutil.copy(self.edited_folder.path(name), self.edited_folder.path(f"memory/{self.word()}.json"))
        elif name is not None:
            self._save(f"{name.removesuffix('.md')} (1).md", self._text(name) + f"- {self.word()}\n")

    def spoil(self) -> None:
        name = self._pick(r"")
        if name is None:
            return
        data = self.edited_folder.path(name).read_bytes()
        self.removals += data.count(b"\n")  # half a file of lines may be whole lines
        spoilt = self.dice.choice(
            [
                data[: len(data) // 2],
                b"",
                data + b"\xff",
                b"<<<<<<< a\n" + data + b"=======\n" + data + b">>>>>>> b\n",
                data.replace(b'"', b"'", 1),
                f"[{self.word()}]".encode(),
            ]
        )
        self.trash.append((name, data))
        self.edited_folder.write(name, spoilt)

    def repair(self) -> None:
        broken = [each.path for each in self.edited_folder.importer.problems()]
        if broken:
            name = self.dice.choice(broken)
            if self.edited_folder.path(name).is_file():
                if self.dice.random() < 0.5:
                    self.edited_folder.path(name).unlink()
                else:
                    self._save(name, json.dumps({"content": self.word()}))

    def put_back(self) -> None:
        if self.trash:
            name, data = self.dice.choice(self.trash)
            self.edited_folder.write(name, data)

    def slip_in(self) -> None:
        name = self._pick(r"^memory/.*(?<!conflict)\.json$")
        found = self._loaded(name) if name else None
        if name is not None and found is not None:
            self.edited_folder.slip_in(name, json.dumps(found | {"content": self.word()}))

    def settle(self) -> None:
        for conflict in self.edited_folder.importer.conflicts():
            self.edited_folder.path(conflict.path).unlink()

    def lose_folder(self) -> None:
        # Found missing as a whole it is lost; with a file in it again, up to 20 count as deleted.
        self.removals += sum(
            1 + self.edited_folder.path(name).read_bytes().count(b"\n") for name in self.edited_folder.files()
        )
        shutil.rmtree(self.edited_folder.path("memory"), ignore_errors=True)

    # -- what must hold ----------------------------------------------------------------------------------

    def look(self) -> None:
        """Take in what the person did, perhaps being killed, and see that no word was lost."""
        before = self._words_on_disk()
        if self.dice.random() < 0.15:
            try:
                with self.edited_folder.state.lock():
                    self.edited_folder.importer.take_in()
                    raise Killed
            except Killed:
                pass
        self.edited_folder.sync()
        known = self._words_in_journal()
        problems = {each.path for each in self.edited_folder.importer.problems()}
        for name, words in before.items():
            if name in problems and self.edited_folder.path(name).exists():
                continue
            assert words <= known, f"{sorted(words - known)} of {name!r} lost after {self.done}"

    def _words_on_disk(self) -> dict[str, set[str]]:
        return {
            name: set(WORD.findall(self.edited_folder.path(name).read_bytes().decode(errors="replace")))
            - set(WORD.findall(name))
            for name in self.edited_folder.files(drafts=True)
            if not name.endswith(".conflict.json") and not name.startswith("sessions/")
        }

    def _words_in_journal(self) -> set[str]:
        words: set[str] = set()
        for row in self.edited_folder.store.journal(limit=1_000_000):
            assert row.edit is not None
            for value in (row.edit.before, row.edit.after):
                words |= _words_of(value)
        return words

    def finish(self) -> None:
        """Repair everything, and see that files and store agree and nothing was archived unasked."""
        self.look()
        for _ in range(3):
            for broken in self.edited_folder.importer.problems():
                place = self.edited_folder.path(broken.path)
                if place.is_file():
                    place.unlink()
            self.edited_folder.sync()
        assert self.edited_folder.importer.problems() == [], self.done
        self.edited_folder.assert_settled()
        for name in self.edited_folder.files():
            if not name.endswith(".conflict.json"):
                index = self.edited_folder.state
                content = render_expected_content(self.edited_folder.store, index, name)
                assert content is not None, f"{name!r} should not be there after {self.done}"
                assert content.data == self.edited_folder.path(name).read_bytes(), (
                    f"{name!r} after {self.done}"
                )
        there = set(self.edited_folder.files())
        on_pages = [
            name
            for path, names in self.edited_folder.state.find_pages().items()
            if path in there
            for name in names
        ]
        assert len(on_pages) == len(set(on_pages))
        for record in self.edited_folder.store.find(Filter(archived=None)):
            is_there = record.id in on_pages or build_path(record) in there
            assert is_there, f"{record.id!r} is missing after {self.done}"
        assert len(self._archived_by_hand()) <= self.removals

    def _archived_by_hand(self) -> list[Change]:
        return [
            row.edit
            for row in self.edited_folder.list_hand_edits()
            if row.edit is not None
            and isinstance(row.edit.after, Record)
            and row.edit.after.archived
            and not (isinstance(row.edit.before, Record) and row.edit.before.archived)
        ]


def _words_of(value: Value | None) -> set[str]:
    return set() if value is None else set(WORD.findall(json.dumps(value.to_dict())))


@pytest.mark.parametrize("layout", ["pages", "records"])
@pytest.mark.parametrize("seed", range(RUNS))
def test_whatever_a_person_and_the_program_do_nothing_is_lost(
    tmp_path: Path, seed: int, layout: Layout
) -> None:
    with open_edited_folder(tmp_path / "memory", layout) as edited_folder:
        play = Play(edited_folder, seed)
        for _ in range(STEPS):
            play.edited_folder.clock.move(seconds=7)
            choice = play.dice.random()
            if choice < 0.4:
                play.program()
            elif choice < 0.8:
                play.person()
            else:
                play.look()
        play.finish()
