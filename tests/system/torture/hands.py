"""A person who edits the files of a memory while programs work on it, and remembers every edit.

Each edit carries a mark that stands nowhere else. Nothing of it may be lost: in the end the mark is in the
store, in the journal, in a conflict file, or in a file that is reported as broken and left as it is.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reverie import Memory
from reverie.admin.doctor import Finding
from reverie.files.atomic import rename_to_new
from tests.system.torture.worker import BOARDS, PAGES

_PAUSE_S = 0.04
_BY_HAND = {"conflict", "file-problem"}


class Person:
    """Edits by hand in a thread of its own, between `working()` and its end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._memory = folder / "memory"
        self._random = random.Random(7)
        self._count = 0
        self._stopped = threading.Event()
        self.made: dict[str, str] = {}
        """Marks of edits that were saved since the last look, and what was done."""
        self.found = 0
        """How many edits of earlier rounds were found again."""

    @contextmanager
    def working(self) -> Iterator[None]:
        """Edit until the block ends."""
        self._stopped.clear()
        failed: list[BaseException] = []

        def run() -> None:
            try:
                while not self._stopped.wait(self._random.uniform(0, 2 * _PAUSE_S)):
                    self.edit()
            except BaseException as error:  # noqa: BLE001 - raised below, in the thread of the test
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()
        if failed:
            raise failed[0]

    def edit(self) -> None:
        """Do one thing that people do to files. What goes away while they are at it does not count."""
        acts: list[Callable[[str], str]] = [
            self._change, self._change, self._change_in_place, self._append_to_page,
            self._append_to_history, self._add, self._move, self._remove, self._break, self._save_in_halves,
        ]  # fmt: skip
        self._count += 1
        mark = f"h{self._count}h"
        try:
            done = self._random.choice(acts)(mark)
        except OSError:  # not there any more, or no room on the disk, which an editor says
            return
        if done:
            self.made[mark] = done

    # -- what people do ------------------------------------------------------------------------------------

    def _change(self, mark: str) -> str:
        """Change a record and save as most editors do: a new file takes the old one's name."""
        file, fields = self._board()
        self._replace(file, self._changed(fields, mark))
        return f"changed {file.name}"

    def _change_in_place(self, mark: str) -> str:
        file, fields = self._board()
        return self._overwrite(file, [self._changed(fields, mark)]) and f"changed {file.name} in place"

    def _save_in_halves(self, mark: str) -> str:
        file, fields = self._board()
        text = self._changed(fields, mark)
        return self._overwrite(file, [text[:20], text[20:]]) and f"saved {file.name}"

    def _add(self, mark: str) -> str:
        fields = {"content": f"Handmade {mark} notice for the yard"}
        self._create(self._boards() / f"notice-{mark}.json", json.dumps(fields))
        return "added a record"

    def _move(self, mark: str) -> str:
        """Rename a file to another category: nothing of the record may go."""
        file, _ = self._board()
        aside = self._boards() / self._random.choice(("old", "new"))
        aside.mkdir(mode=0o700, exist_ok=True)
        rename_to_new(os.fspath(file), os.fspath(aside / file.name))  # a copy that lies there is not replaced
        return ""

    def _remove(self, mark: str) -> str:
        """Throw a file away, with all that was written into it and nobody else knows of yet."""
        if self._random.random() < 0.3:
            file, fields = self._board()
            said = json.dumps(fields)
            file.unlink()
            self.made = {mark: what for mark, what in self.made.items() if mark not in said}
        return ""

    def _break(self, mark: str) -> str:
        """Leave something that is no JSON."""
        file, fields = self._board()
        text = self._changed(fields, mark)
        # A cut before or through a mark would look like a loss: nobody may have read an earlier edit yet.
        half = text[: max(text.rindex(each) + len(each) for each in (mark, *self.made) if each in text)]
        spoilt = self._random.choice((half, f"<<<<<<< mine\n{text}>>>>>>> theirs\n", f"{text}\n{text}"))
        self._replace(file, spoilt)
        return f"broke {file.name}"

    def _append_to_page(self, mark: str) -> str:
        file = self._memory / self._random.choice(PAGES)
        self._replace(file, f"{file.read_text(encoding='utf-8')}- by hand {mark}\n")
        return f"wrote into {file.name}"

    def _append_to_history(self, mark: str) -> str:
        file = self._memory / "HISTORY.md"
        self._replace(file, f"{file.read_text(encoding='utf-8')}\nBy hand {mark}.\n")
        return "wrote into HISTORY.md"

    # -- how they do it ------------------------------------------------------------------------------------

    def _boards(self) -> Path:
        return self._memory / BOARDS

    def _board(self) -> tuple[Path, dict[str, Any]]:
        files = sorted(self._boards().rglob("*.json"), key=lambda file: file.name)
        files = [file for file in files if len(file.stem) == 12]
        if not files:
            raise FileNotFoundError
        file = self._random.choice(files[-30:])
        try:
            return file, json.loads(file.read_text(encoding="utf-8"))
        except ValueError:  # broken by themselves
            raise FileNotFoundError from None

    def _changed(self, fields: dict[str, Any], mark: str) -> str:
        what = self._random.choice(("content", "source", "tags"))
        if what == "tags":
            fields["tags"] = [*fields.get("tags", []), mark]
        else:
            fields[what] = f"{fields.get(what, '')} by hand {mark}".strip()
        return json.dumps(fields, indent=self._random.choice((None, 2, 4))) + "\n"

    def _replace(self, file: Path, text: str) -> None:
        if not file.exists():
            raise FileNotFoundError
        draft = file.with_name(f".{file.name}.edited~")
        draft.write_text(text, encoding="utf-8")
        try:
            draft.replace(file)
        finally:
            draft.unlink(missing_ok=True)

    def _create(self, file: Path, text: str) -> None:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)

    def _overwrite(self, file: Path, parts: list[str]) -> bool:
        """Write into the file itself; False if it was replaced meanwhile, of which an editor would warn."""
        handle = os.open(file, os.O_WRONLY | os.O_TRUNC)
        try:
            for n, part in enumerate(parts):
                if n:
                    time.sleep(0.02)
                os.write(handle, part.encode())
            ours = os.fstat(handle)
            there = os.stat(file)
            return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)
        finally:
            os.close(handle)

    # -- afterwards ----------------------------------------------------------------------------------------

    def lost(self, memory: Memory) -> Iterator[str]:
        """The edits of which nothing is left anywhere."""
        known = journal_text(memory)
        for file in sorted(self._memory.rglob("*")):
            if file.is_file() and ".reverie" not in file.parts:
                known += file.read_text(encoding="utf-8", errors="replace")
        for mark, what in self.made.items():
            if mark not in known:
                yield f"{mark}: {what}"

    def broken(self, memory: Memory) -> set[str]:
        """Files that are reported as broken."""
        return {broken.path for broken in memory.folder._hands.problems()}

    def explains(self, finding: Finding) -> bool:
        """Whether a finding is this person's doing and has to be seen to by a person."""
        return finding.code in _BY_HAND

    def tidy_up(self, memory: Memory) -> None:
        """Settle the conflicts and throw broken files away, having looked at them."""
        self.found += len(self.made)
        self.made.clear()
        for conflict in memory.folder.conflicts():
            (self._folder / conflict.path).unlink(missing_ok=True)
        for path in self.broken(memory):
            (self._folder / path).unlink(missing_ok=True)


def journal_text(memory: Memory) -> str:
    """Everything that the journal ever said, in one text."""
    told: list[str] = []
    after = 0
    while rows := memory.history.log(after=after, limit=1_000):
        told += [repr(row.edit.after) for row in rows if row.edit is not None]
        after = rows[-1].sequence
    return "\n".join(told)
