"""A person who edits the files of a memory while programs work on it, and remembers every edit.

Each edit carries a mark that stands nowhere else. Nothing of it may be lost: in the end the mark is in the
store, in the journal, in a conflict file, or in a file that is reported as broken and left as it is.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reverie import Memory
from reverie.admin.doctor import Finding
from tests.system.torture.disk_faults import running_beside
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

        def run() -> None:
            while not self._stopped.wait(self._random.uniform(0, 2 * _PAUSE_S)):
                self.edit()

        with running_beside(run, self._stopped):
            yield

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
        """Change a line and save as most editors do: a new file takes the old one's name."""
        file, rows, place = self._pick_line()
        self._replace(file, self._changed(rows, place, mark))
        return f"changed {file.name}"

    def _change_in_place(self, mark: str) -> str:
        file, rows, place = self._pick_line()
        return self._overwrite(file, [self._changed(rows, place, mark)]) and f"changed {file.name} in place"

    def _save_in_halves(self, mark: str) -> str:
        file, rows, place = self._pick_line()
        text = self._changed(rows, place, mark)
        half = len(text) // 2
        return self._overwrite(file, [text[:half], text[half:]]) and f"saved {file.name}"

    def _add(self, mark: str) -> str:
        line = f"- Handmade {mark} notice for the yard"
        if self._random.random() < 0.5:
            self._create(self._boards() / f"notice-{mark}.md", f"{line}\n")
        else:
            file, rows, place = self._pick_line()
            self._replace(file, "\n".join([*rows[:place], line, *rows[place:]]))
        return "added a record"

    def _move(self, mark: str) -> str:
        """Cut a line and paste it on another page: nothing of the record may go."""
        file, rows, place = self._pick_line()
        other = self._boards() / f"{self._random.choice(('old', 'new'))}.md"
        if other == file:
            return ""
        text = other.read_text(encoding="utf-8") if other.exists() else ""
        other.parent.mkdir(mode=0o700, exist_ok=True)
        draft = other.with_name(f".{other.name}.edited~")
        draft.write_text(f"{text}{rows[place]}\n", encoding="utf-8")
        draft.replace(other)
        self._replace(file, "\n".join([*rows[:place], *rows[place + 1 :]]))
        return ""

    def _remove(self, mark: str) -> str:
        """Delete a line, with all that was written into it and nobody else knows of yet."""
        if self._random.random() < 0.3:
            file, rows, place = self._pick_line()
            self._replace(file, "\n".join([*rows[:place], *rows[place + 1 :]]))
            self.made = {mark: what for mark, what in self.made.items() if mark not in rows[place]}
        return ""

    def _break(self, mark: str) -> str:
        """Leave a page with the lines of a merge that was not finished, or without its end."""
        file, rows, place = self._pick_line()
        text = self._changed(rows, place, mark)
        # A cut before or through a mark would look like a loss: nobody may have read an earlier edit yet.
        half = text[: max(text.rindex(each) + len(each) for each in (mark, *self.made) if each in text)]
        spoilt = self._random.choice((half, f"<<<<<<< mine\n{text}\n=======\n{text}\n>>>>>>> theirs\n"))
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
        return self._memory / "records" / BOARDS

    def _pick_line(self) -> tuple[Path, list[str], int]:
        """Return a page of boards, its rows, and the number of one that is a record."""
        files = sorted([*self._boards().parent.glob(f"{BOARDS}*.md"), *self._boards().glob("*.md")])
        if not files:
            raise FileNotFoundError
        file = self._random.choice(files)
        rows = file.read_text(encoding="utf-8").split("\n")
        places = [place for place, row in enumerate(rows) if row.startswith("- ")]
        if not places:
            raise FileNotFoundError
        return file, rows, self._random.choice(places[-30:])

    def _changed(self, rows: list[str], place: int, mark: str) -> str:
        text, comment, rest = rows[place].partition(" <!--")
        added = f"#{mark}" if comment and self._random.random() < 0.3 else f"by hand {mark}"
        return "\n".join([*rows[:place], f"{text} {added}{comment}{rest}", *rows[place + 1 :]])

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
