"""Readable files of a memory without a folder, such as one in a database: written and imported on request.

The folder belongs to one memory, whose identity is in the file `.memory`. Otherwise it is like the folder of any
memory: `files.db` holds the text that was last written to each file, so an edit is merged with what has changed
in the memory since.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from reverie.domain.errors import InvalidInput, NotFound, StoreUnavailable, translate_os_errors
from reverie.files.hand_edits.importer import HandEditImporter
from reverie.files.layout import Layout
from reverie.files.mirror import MirrorReport, MirrorWriter
from reverie.files.scan import SAVING_S, HandEditReport
from reverie.files.state import FileState
from reverie.stores.writer import StoreWriter

OWNER_FILE = ".memory"
"""File with the identity of the memory to which a folder belongs."""


@dataclass(frozen=True, slots=True)
class FileExchange:
    """Exchange of one memory with the files of one folder.

    Attributes:
        root: The folder.
        writer: Writer of the memory.
        identity: An identifier that no other memory has.
        layout: Where records are: on pages, or each in a file of its own.
    """

    root: Path
    writer: StoreWriter
    identity: str
    layout: Layout = "pages"

    def pull(self) -> MirrorReport:
        """Write the files of the memory, and remove those of things that are gone. Edited files stay as they are.

        Raises:
            InvalidInput: the folder belongs to another memory, or holds something else.
            StoreUnavailable: the folder cannot be written.
        """
        with translate_os_errors(f"the files in {str(self.root)!r} cannot be written"):
            self._claim()
            with closing(FileState(self.root)) as state:
                return self._write(state)

    def push(self) -> tuple[HandEditReport, MirrorReport]:
        """Import the edits of the files, then write the files as `pull` does.

        A missing file counts as removed, as in the folder of any memory.

        Returns:
            What was imported and what could not be, and what was written afterwards.

        Raises:
            NotFound: nothing was pulled into the folder.
            InvalidInput: the folder belongs to another memory.
            StoreUnavailable: the folder cannot be read or written.
        """
        with translate_os_errors(f"the files in {str(self.root)!r} cannot be read or written"):
            if not (self.root / OWNER_FILE).exists():
                raise NotFound(f"no memory was written to {str(self.root)!r}: run `reverie files pull` first")
            self._claim()
            with closing(FileState(self.root)) as state:
                self._write(state)  # first, so that only what a person changed differs from the files
                importer = HandEditImporter(self.writer, state, self.root)
                return importer.take_in(wait_s=SAVING_S), self._write(state)

    def _write(self, state: FileState) -> MirrorReport:
        clock = self.writer.clock
        mirror = MirrorWriter(self.root, self.writer.store, state, clock=clock, layout=self.layout)
        report = mirror.write()
        if "" in report.failed:
            raise StoreUnavailable(
                f"the files in {str(self.root)!r} cannot be written: {report.failed['']}; correct that and retry"
            )
        return report

    def _claim(self) -> None:
        """Mark the folder as that of the memory; refuse one of another memory, or with other content."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark = self.root / OWNER_FILE
        if not mark.exists():
            if any(self.root.iterdir()):
                raise InvalidInput(f"{str(self.root)!r} is not empty: name a new folder")
            mark.touch(mode=0o600, exist_ok=False)
            mark.write_text(f"{self.identity}\n", encoding="utf-8")
        elif mark.read_text(encoding="utf-8", errors="replace").strip() != self.identity:
            raise InvalidInput(f"{str(self.root)!r} has the files of another memory: name another folder")
