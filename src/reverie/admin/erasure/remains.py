"""Remains of erased content: names, foreign files and copies, which a person has to remove, and the journal."""

from __future__ import annotations

import os
import secrets
import zipfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import count, islice
from pathlib import Path

from reverie.admin.erasure.matching import ErasureItem, get_entry_session, get_name, get_owning_scope
from reverie.domain.change import Change, Value
from reverie.domain.conversation import FORGOTTEN, SessionState, Turn
from reverie.domain.errors import ForgettingUnfinished, StoreError
from reverie.domain.filter import Filter
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.domain.text.shingles import PhraseMatcher
from reverie.files.claim import MACHINE_FILE
from reverie.files.layout import DRAFTS, HOOKS, MEMORY, SESSIONS, parse_path
from reverie.files.mirror import PACKED_FILES
from reverie.files.scan import CONFLICT, LONGEST_FILE, has_phrase
from reverie.files.state import FILES_DATABASE
from reverie.search.index.tantivy_index import FORMAT, remove_index
from reverie.search.vectors.vector_index import FOLDER as VECTORS
from reverie.stores.protocol import Store, iter_rows, iter_values
from reverie.stores.sqlite import DATABASE, UPGRADE_COPIES
from reverie.stores.sqlite.database_file import PASSAGES

ELSEWHERE = (
    "copies made elsewhere (backups, exports, another machine's) are not reached: remove them yourself"
)

EVER = datetime(1, 1, 2, tzinfo=UTC)
"""A time before the expiry of every entry."""

MOVED_ASIDE = (f"{DATABASE}.broken-*", "before-recovery-*")
"""Patterns of what a rebuild and a recovery move aside."""

_BATCH = 500
_OWN = frozenset(f"{name}{suffix}" for name in (DATABASE, FILES_DATABASE) for suffix in ("", "-wal", "-shm"))


def build_kept_item(subject: str, name: str, because: str, text: str = "") -> ErasureItem:
    """Return the report's item for something that stays."""
    return ErasureItem(subject=subject, id=name, fate="kept", because=because, text=text)


def find_names(store: Store, phrases: PhraseMatcher) -> Iterator[ErasureItem]:
    """Yield what has the requested text in its name: pages, sessions and scopes."""
    if not phrases.piece:
        return
    for page in (*(page.name for page in store.pages()), *store.logs()):
        if phrases.has_piece(page):
            yield build_kept_item("page", page, "its name has the text: `reverie pages` can delete it")
    states = [overview.state for overview in store.sessions()]
    entries = store.entries(None, now=EVER)
    for session in dict.fromkeys((*(state.id for state in states), *map(get_entry_session, entries))):
        if phrases.has_piece(session):
            yield build_kept_item("session", session, "its name has the text: forget it by session")
    scopes = store.tally("scope", Filter(archived=None))
    for scope in dict.fromkeys((*scopes, *map(get_owning_scope, states), *map(get_owning_scope, entries))):
        if phrases.has_piece(scope):
            yield build_kept_item("scope", scope, "its name has the text: forget it by scope")


def find_files(folder: Path, phrases: PhraseMatcher) -> Iterator[ErasureItem]:
    """Yield the files and folders that Reverie neither writes nor reads, and that have the text or may have it."""
    for pattern in MOVED_ASIDE:
        for file in folder.glob(pattern):
            because = "a rebuild or a recovery moved it aside, and it may hold the text: remove it"
            yield build_kept_item("file", file.name, because)
    skipped = {"index", ".git", *((MEMORY, SESSIONS) if (folder / FILES_DATABASE).exists() else ())}
    for place, folders, files in os.walk(folder):
        if Path(place) == folder:  # `scrub_files` looks through the readable files
            folders[:] = [name for name in folders if name not in skipped]
        for file in sorted(Path(place, name) for name in (*folders, *files)):
            path = file.relative_to(folder).as_posix()
            with suppress(FileNotFoundError):  # removed meanwhile
                if _is_foreign(file, folder) and (because := _explain_match(file, path, phrases)):
                    yield build_kept_item("file", path, f"{because}: see to it yourself")


def _is_foreign(file: Path, folder: Path) -> bool:
    relative = file.relative_to(folder)
    path = relative.as_posix()
    return not (
        path in (*_OWN, MACHINE_FILE)
        or relative.match(UPGRADE_COPIES)
        or relative.match(PACKED_FILES)
        or not {".git", DRAFTS}.isdisjoint(relative.parts)
        or any(each.match(pattern) for each in (relative, *relative.parents) for pattern in MOVED_ASIDE)
        or path.endswith(CONFLICT)
        or parse_path(path) is not None
    )


def _explain_match(file: Path, path: str, phrases: PhraseMatcher) -> str:
    """Return why a foreign file or an empty folder is reported; empty if it is not."""
    if file.is_dir() and not file.is_symlink() and any(file.iterdir()):
        return ""
    if phrases.has_match(path):
        return "its name has the text, and it is not Reverie's"
    if file.is_symlink() or not file.is_file():
        return ""
    try:
        if file.stat().st_size > LONGEST_FILE or zipfile.is_zipfile(file):
            return "it is too large or an archive, such as a backup, which is not looked through"
        found = has_phrase(file, phrases)
    except PermissionError:
        return "it cannot be read, and is not Reverie's"
    if found and path.startswith(f"{HOOKS}/"):
        return "a hook kept it, and the next one stores it"
    return "the file is not Reverie's" if found else ""


def describe_copies(folder: Path | None) -> tuple[str, ...]:
    """Return notes about copies: those that go, and those that are not reached."""
    if folder is None:
        return (ELSEWHERE,)
    under_git = (folder / ".git").exists() or (folder / "memory" / ".git").exists()
    return (
        *(f"{file.name}, made by an upgrade, holds it too and goes" for file in find_upgrade_copies(folder)),
        ELSEWHERE,
        *(("the folder is under git: its history keeps what was there",) if under_git else ()),
    )


def find_upgrade_copies(folder: Path) -> list[Path]:
    """Return the copies of the database, and the packed files, that upgrades left."""
    copies = (*folder.glob(UPGRADE_COPIES), *folder.glob(PACKED_FILES))
    return sorted(file for file in copies if file.is_file())


def remove_copies(folder: Path) -> Iterator[str]:
    """Remove search indexes of earlier formats and copies that upgrades left; yield what could not be removed."""
    for index in find_other_indexes(folder):
        remove_index(index)
        if index.exists():
            yield f"the search index {index.name!r} of another version could not be removed"
    for copy in find_upgrade_copies(folder):
        try:
            copy.unlink(missing_ok=True)
        except OSError as error:
            yield f"the copy {copy.name!r} could not be removed: {error.strerror or error}"


def find_other_indexes(folder: Path) -> list[Path]:
    """Return the search indexes of other versions of Reverie."""
    own = (FORMAT, VECTORS.name, PASSAGES.name)
    return [each for each in (folder / "index").glob("*") if each.name not in own]


# -- the journal, and failures ---------------------------------------------------------------------------


def build_purge_edits(names: Sequence[tuple[str, str]], now: datetime) -> list[Change]:
    """Build changes that erase the journal of removed things: each is added without content, and removed.

    Only the journal still has them, and a store erases only what a change is about.
    """
    session = SessionState(id=f"forgotten:{secrets.token_hex(6)}", created_at=now)
    positions = count()
    build: dict[str, Callable[[str], Value]] = {
        "turn": lambda name: Turn(
            id=name, session=session.id, position=next(positions), role="tool", content="", at=now
        ),
        "record": lambda name: Record(
            id=name, content=FORGOTTEN, created_at=now, updated_at=now, last_seen_at=now, archived_at=now
        ),
        "session": lambda name: SessionState(id=name, created_at=now),
        "page": lambda name: Page(name=name, content="", updated_at=now),
        "paragraph": lambda name: Paragraph(
            id=name, page="0001-01-01.md", position=0.0, at=now, content=FORGOTTEN
        ),
    }
    things = [build[subject](name) for subject, name in names]
    is_needed = any(isinstance(thing, Turn) for thing in things)
    additions = [Change(before=None, after=thing) for thing in ([session, *things] if is_needed else things)]
    return [*additions, *(edit.invert() for edit in reversed(additions))]


def build_sweep_edits(
    store: Store,
    clean: Callable[[Sequence[Value]], list[Value | None]],
    *,
    also: Collection[tuple[str, str]] = (),
    at: datetime,
) -> list[Change]:
    """Build changes that leave no version of a thing that a function changes, neither now nor in the journal.

    Args:
        store: The store.
        clean: Returns what is to be left of some values; None for nothing.
        also: The names of further things that lose their earlier versions.
        at: The time of the changes.
    """
    past: set[tuple[str, str]] = set(also)
    versions = (value for row in iter_rows(store) for value in row.values)
    while batch := list(islice(versions, _BATCH)):
        past |= {get_name(value) for value, after in zip(batch, clean(batch), strict=True) if after != value}
    edits: list[Change] = []
    present = iter_values(store)
    while batch := list(islice(present, _BATCH)):
        for value, after in zip(batch, clean(batch), strict=True):
            if after != value or get_name(value) in past:
                edits.append(Change(before=value, after=after))
                past.discard(get_name(value))
    return [*edits, *build_purge_edits(sorted(past), at)]


@contextmanager
def report_unfinished() -> Iterator[None]:
    """Raise `ForgettingUnfinished` for a failure after content has gone from the database."""
    try:
        yield
    except ForgettingUnfinished:
        raise
    except (StoreError, OSError) as error:
        raise ForgettingUnfinished(
            f"The content has gone from the database, but not yet from everywhere else ({error}). "
            "Fix the cause, then run `reverie doctor --fix`."
        ) from error
