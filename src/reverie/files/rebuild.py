"""Rebuilding of a lost database from the folder.

Records come back with all their fields, sessions with their turns, pages and logs with their text. What no
file holds is lost with the database: the journal, working memory, the sources of paragraphs. A file that
cannot be read is reported and left where it is.

The new database is made beside the old one, checked, and then put in its place. The old one is moved aside,
never deleted. A process that is killed leaves the old one where it was.
"""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from reverie.domain.errors import InvalidInput, NotFound, StoreCorrupt, StoreIncompatible, StoreUnavailable
from reverie.domain.filter import Filter
from reverie.domain.passage import Analyse
from reverie.domain.secrets.redactor import BUILT_IN, Redactor
from reverie.domain.text import ids, timestamps
from reverie.domain.text.ids import NewId
from reverie.domain.text.timestamps import Clock
from reverie.files.hand_edits.importer import HandEditImporter
from reverie.files.hand_edits.intake import REBUILDER
from reverie.files.layout import MEMORY, SESSIONS
from reverie.files.scan import BrokenFile
from reverie.files.state import FileState
from reverie.stores.protocol import Store
from reverie.stores.redacting import RedactingStore
from reverie.stores.sqlite import DATABASE, SQLiteStore
from reverie.stores.sqlite.database_file import find_free_name, make_folder, rename_to_new, replace_file
from reverie.stores.sqlite.rewriting import salvage_marks
from reverie.stores.tombstones import KEY, is_key
from reverie.stores.writer import StoreWriter


@dataclass(slots=True, kw_only=True)
class RebuildReport:
    """Result of a rebuild.

    Attributes:
        records: Number of records, archived ones too.
        archived: Number of archived records.
        sessions: Number of sessions.
        turns: Number of turns.
        pages: Number of pages.
        paragraphs: Number of paragraphs of logs.
        broken: Files, or parts of them, that could not be imported, with the reason. They stay as they are.
        kept: The new place of the old database; None if there was none.
        notes: Further remarks for the user.
    """

    records: int = 0
    archived: int = 0
    sessions: int = 0
    turns: int = 0
    pages: int = 0
    paragraphs: int = 0
    broken: list[BrokenFile] = field(default_factory=list)
    kept: Path | None = None
    notes: list[str] = field(default_factory=list)


def rebuild(
    folder: Path,
    *,
    analyse: Analyse,
    clock: Clock = timestamps.utc_now,
    new_id: NewId = ids.generate_id,
    force: bool = False,
    redactor: Redactor | None = None,
) -> RebuildReport:
    """Rebuild the database of a memory from its readable files.

    Args:
        folder: The memory's folder.
        analyse: Returns the tokens of a value, as for every store.
        clock: Returns the current time.
        new_id: Returns a new id, for values without one.
        force: Whether to replace a database that can be read. Its journal and working memory are not carried
            over.
        redactor: Finds secrets in the files; None for the built-in rules.

    Returns:
        What was imported, and what was not.

    Raises:
        NotFound: there are no readable files.
        InvalidInput: there is a database that can be read, and `force` is False.
        StoreUnavailable: the disk fails, or others are using the database; nothing was changed.
        StoreIncompatible: the database is of a newer Reverie.
    """
    folder = folder.absolute()
    database = folder / DATABASE
    if not any((folder / top).is_dir() for top in (MEMORY, SESSIONS)):
        raise NotFound(
            f"there are no readable files in {str(folder)!r}: bring back a backup with `reverie recover`"
        )
    old = _open_database(database, analyse)
    scratch = folder / f".rebuilding-{secrets.token_hex(6)}"
    state = FileState(folder)
    try:
        if old is not None and not force:
            raise InvalidInput(
                f"{str(database)!r} can be read: run `reverie doctor --fix` to repair it; pass "
                "force=True (--force) to make a new one all the same, without the history"
            )
        with state.lock(30.0) as ledger:
            for left in folder.glob(".rebuilding-*"):  # by a killed process: a live one has the lock
                shutil.rmtree(left, ignore_errors=True)
            make_folder(scratch)
            draft = scratch / DATABASE
            with closing(SQLiteStore(draft, analyse=analyse)) as store:
                redacting = RedactingStore(store, redactor or BUILT_IN)
                report = RebuildReport()
                _carry_over_marks(store, database, clock(), report)
                with closing(FileState(scratch)) as nothing:
                    writer = StoreWriter(store=redacting, clock=clock, new_id=new_id)
                    importer = HandEditImporter(writer, nothing, folder)
                    edits = importer.rebuild(old or redacting)
                report.broken += edits.problems
                _count(store, report)
                if problems := store.check():
                    raise StoreCorrupt(f"the new database is not sound ({problems[0].what}): report this")
            if old is not None:
                old.close()
            report.kept = _put_in_place(draft, database)
            # One that stays counts as that of another store.
            shutil.rmtree(folder / "index", ignore_errors=True)
            ledger.clear()
        return report
    finally:
        state.close()
        if old is not None:
            old.close()
        shutil.rmtree(scratch, ignore_errors=True)


def _open_database(database: Path, analyse: Analyse) -> SQLiteStore | None:
    """Open the present database, if it can be read; raise `StoreUnavailable` if that is uncertain."""
    if not database.exists():
        return None
    try:
        store = SQLiteStore(database, analyse=analyse, create=False)
        try:
            store.sequence()
        except StoreCorrupt:
            store.close()
            raise
        return store
    except StoreIncompatible as error:
        if "newer" in str(error):
            raise
    except StoreCorrupt:
        pass
    return None


def _put_in_place(draft: Path, database: Path) -> Path | None:
    """Give the new database its name; return the new place of the old one."""
    old_database = find_free_name(database)
    if database.exists():
        replace_file(database, lambda _: draft, kept=old_database)
        return old_database
    left = False
    for ending in ("-wal", "-shm", "-journal"):  # SQLite would apply them to the new database
        companion = database.with_name(database.name + ending)
        if companion.exists():
            os.rename(companion, old_database.with_name(old_database.name + ending))
            left = True
    try:
        rename_to_new(draft, database)
    except FileExistsError:
        raise StoreUnavailable(
            f"another process made {str(database)!r} during the rebuild: close what uses the folder, and try again"
        ) from None
    return old_database.with_name(f"{old_database.name}-wal") if left else None


def _carry_over_marks(store: Store, database: Path, now: datetime, report: RebuildReport) -> None:
    """Carry over the marks of erased text, as far as the old database can be read."""
    if not database.exists():
        return
    marks, is_complete = salvage_marks(database)
    key = marks.cursors.get(KEY)
    if has_key := is_key(key):
        store.commit([], actor=REBUILDER, at=now, cursors={KEY: key})
    if marks.tombstones:
        store.erase([], actor=REBUILDER, at=now, tombstones=marks.tombstones)
    if not is_complete or (marks.tombstones and not has_key):
        report.notes.append(
            "the old database does not tell what was forgotten: look whether anything of that is back"
        )


def _count(store: Store, report: RebuildReport) -> None:
    """Count what the new database has."""
    archived = [record.archived for record in store.find(Filter(archived=None))]
    turns = [overview.turns for overview in store.sessions()]
    report.records, report.archived = len(archived), sum(archived)
    report.sessions, report.turns = len(turns), sum(turns)
    report.pages, report.paragraphs = len(store.pages()), sum(store.logs().values())
