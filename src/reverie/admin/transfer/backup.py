"""Backup of a memory in one file, and its recovery.

A backup is a zip archive:

    reverie.db             the database as it was at one moment, whatever was written meanwhile
    profile/soul.md, …     the Markdown files of the profile's folder: who the agent is; the user's own prompts
    manifest.json          when it was made, of what format, and how much is in it

The database holds everything else: records, turns, pages, the journal, working memory and tombstones. The
search index and the readable files are derived from it and made again.

It is a zip archive because every system opens one without Reverie, each file in it has its own checksum, and
the manifest can be read without unpacking the rest. Rejected: the bare database (no room for the profile, and
no proof that it is complete), tar (a truncated one looks complete), and further checksums in the manifest.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import zipfile
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from importlib.metadata import version as installed
from itertools import count
from pathlib import Path
from typing import IO, Any

from reverie.admin.erasure.eraser import Eraser
from reverie.admin.erasure.matching import EraseRequest, empty_turn
from reverie.admin.erasure.remains import build_sweep_edits
from reverie.admin.transfer import safe_reading
from reverie.domain.change import Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput, StoreCorrupt, StoreError, StoreIncompatible, StoreUnavailable
from reverie.domain.filter import Filter
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import Page
from reverie.domain.text import timestamps
from reverie.domain.text.json_values import JsonObject
from reverie.files.atomic import build_unwritable_error, create_file, publish
from reverie.files.names import resolve_path
from reverie.files.state import FILES_DATABASE, FileState, StateUnavailable
from reverie.search.analyzer import analyze
from reverie.search.index.search_index import SearchIndex
from reverie.stores.living_page import find_page_cursors
from reverie.stores.protocol import Store, iter_values
from reverie.stores.redacting import unwrap
from reverie.stores.sqlite import DATABASE, SQLiteStore
from reverie.stores.sqlite.database_file import make_folder, replace_file, sync_folder
from reverie.stores.tombstones import KEY, drop_forgotten, find_forgotten_texts, is_forgotten
from reverie.stores.writer import StoreWriter

FORMAT = "reverie-backup"
VERSION = 1
"""The newest version of backups that can be read, and the one that is made."""

MANIFEST = "manifest.json"
PROFILE = "profile"

_INDEX = "index"
_READABLE = ("memory", "sessions")
_CHUNK = 1 << 20
_COUNTS = ("sequence", "records", "sessions", "turns", "problems")
_PROFILE_NAME = defer_regex(r"(?:[^/\\\x00-\x1f]+/)*[^/\\\x00-\x1f]+\.(?:md|txt)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup(JsonObject):
    """Description of a backup.

    Attributes:
        path: The file.
        made_at: When it was made.
        size: Bytes of the file.
        sequence: The number of the last change in it.
        records: How many records it holds, archived ones too.
        sessions: How many sessions.
        turns: How many turns.
        problems: Number of problems in it; `reverie doctor` names them.
        profile: Names of the profile's files in it.
    """

    path: Path
    made_at: datetime
    size: int
    sequence: int
    records: int
    sessions: int
    turns: int
    problems: int
    profile: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport(JsonObject):
    """Result of a recovery.

    Attributes:
        folder: The folder.
        backup: The backup.
        moved_to: The folder of the replaced memory; None if there was none.
        forgotten_again: How many things of the backup were erased again.
        notes: What else a person should know.
    """

    folder: Path
    backup: Backup
    moved_to: Path | None
    forgotten_again: int
    notes: tuple[str, ...] = ()


# -- making ------------------------------------------------------------------------------------------------


def make(
    store: Store,
    target: str | os.PathLike[str],
    *,
    profile: Path | None,
    also: Iterable[str] = (),
    at: datetime,
    overwrite: bool = False,
) -> Backup:
    """Write a backup; the file gets its name when it is complete and verified.

    Args:
        store: The store to copy; others may write to it meanwhile.
        profile: The folder of the profile, whose Markdown files are copied too.
        also: Names of further files in that folder, which end in `.md` or `.txt`.
        overwrite: Whether a file of that name may be replaced.

    Raises:
        InvalidInput: there is a file of that name, or the store is in no file.
        StoreCorrupt: the store is damaged.
        StoreUnavailable: the file cannot be written.
    """
    store = unwrap(store)
    if not isinstance(store, SQLiteStore):
        raise InvalidInput(
            "this memory is in no folder: export it, or if it is in PostgreSQL, back up the database with pg_dump, "
            "or copy the memory into a folder with `reverie copy`"
        )
    path = resolve_path(target, name="file")
    with (
        create_file(path, overwrite=overwrite) as file,
        _make_scratch_folder(path.parent, f".{path.name}.") as scratch,
    ):
        copy = scratch / DATABASE
        try:
            store.backup(copy)
        except StoreUnavailable as error:
            if isinstance(error.__cause__, OSError):  # reported as one of `target`, not of the scratch folder
                raise error.__cause__ from None
            raise
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "reverie": installed("reverie"),
            "made_at": timestamps.format_time(at),
            **_examine_copy(copy),
        }
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, each in {DATABASE: copy, **_find_profile_files(profile, also)}.items():
                entry = _build_zip_entry(name)
                with each.open("rb") as opened, archive.open(entry, "w", force_zip64=True) as member:
                    shutil.copyfileobj(opened, member)
            text = json.dumps(manifest, ensure_ascii=False, indent=2)
            archive.writestr(_build_zip_entry(MANIFEST), f"{text}\n")
        file.flush()
        written = _Archive(file, path)
        for name in written.names:
            deque(written.pieces(name), maxlen=0)  # compares it with its checksum
        return written.backup


def _examine_copy(database: Path) -> dict[str, int]:
    """Return the counts of a database copy; raise `StoreCorrupt` if it is damaged."""
    with closing(_open_store(database)) as store:
        problems = store.check()
        damaged = [problem for problem in problems if "damaged" in problem.what]
        if damaged:
            raise StoreCorrupt(f"{damaged[0].what}: nothing was copied; see `reverie doctor`")
        sessions = store.sessions()
        return {
            "sequence": store.sequence(),
            "records": sum(store.tally("kind", Filter(archived=None)).values()),
            "sessions": len(sessions),
            "turns": sum(each.turns for each in sessions),
            "problems": len(problems),
        }


def _find_profile_files(profile: Path | None, also: Iterable[str]) -> dict[str, Path]:
    """Return the Markdown files of the profile by their names in a backup; profiles are often linked."""
    if profile is None:
        return {}
    names = {file.name for file in profile.glob("*.md")}
    names |= {name for name in also if not Path(name).is_absolute()}
    files = {f"{PROFILE}/{name}": profile / name for name in sorted(names)}
    return {name: file for name, file in files.items() if _is_allowed(name) and file.is_file()}


def _build_zip_entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))  # the manifest says when
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o600 << 16
    return entry


# -- reading -----------------------------------------------------------------------------------------------


class _Archive:
    """Reader of a backup.

    Attributes:
        backup: The description in the manifest.
        names: The names of its files, without the manifest.

    Raises:
        StoreCorrupt: it is none, or damaged.
        StoreIncompatible: a newer Reverie made it.
    """

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._path = path
        with self._translating_errors():
            self._zip = zipfile.ZipFile(file)
            manifest = safe_reading.parse_json_object(self._zip.read(MANIFEST))
            self._check_version(manifest)
            names = self._zip.namelist()
            self.names = sorted(set(names) - {MANIFEST})
            if foreign := [name for name in self.names if not _is_allowed(name)]:
                raise ValueError(f"it holds {foreign[0]!r}, which no backup does")
            if DATABASE not in names or len(names) != len(set(names)):
                raise ValueError("it does not hold one database")
            self.backup = Backup(
                path=path,
                made_at=timestamps.parse_time(str(manifest["made_at"]), name="made_at"),
                size=os.fstat(file.fileno()).st_size,
                profile=tuple(name.removeprefix(f"{PROFILE}/") for name in self.names if name != DATABASE),
                **{name: int(manifest[name]) for name in _COUNTS},
            )

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield one file in pieces; its checksum is compared at the end."""
        with self._translating_errors(), self._zip.open(name) as member:
            while data := member.read(_CHUNK):
                yield data

    def _check_version(self, manifest: Mapping[str, Any]) -> None:
        version = manifest["version"]
        if manifest["format"] != FORMAT or not isinstance(version, int) or version < 1:
            raise ValueError("its manifest is another program's")
        if version > VERSION:
            raise StoreIncompatible(
                f"{str(self._path)!r} was made by a newer Reverie (backup version {version}, this one knows "
                f"up to {VERSION}): upgrade Reverie"
            )

    @contextmanager
    def _translating_errors(self) -> Iterator[None]:
        try:
            yield
        except (
            *(zipfile.BadZipFile, zlib.error, EOFError, OSError),
            *(LookupError, TypeError, ValueError, RuntimeError),
        ) as error:
            problem = f"{str(self._path)!r} is not a sound backup of Reverie ({error})"
            raise StoreCorrupt(f"{problem}; nothing was changed, take another backup") from None


def _is_allowed(name: str) -> bool:
    if name == DATABASE:
        return True
    folder, _, rest = name.partition("/")
    return folder == PROFILE and bool(_PROFILE_NAME.fullmatch(rest)) and ".." not in rest.split("/")


# -- recovering --------------------------------------------------------------------------------------------


def recover(
    file: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    profile: str | os.PathLike[str] | None = None,
    replace: bool = False,
) -> RecoveryReport:
    """Recover a memory from a backup.

    The backup is verified before anything in the folder is changed. The content of the folder is moved aside
    within it and never deleted, except the search index and the state of the files, which are made again. A
    process that has the folder open gets `StoreUnavailable` until it opens it again. What was erased in the
    folder since the backup is erased again.

    Args:
        file: The backup.
        folder: The folder; it is made when missing.
        profile: The folder of the profile's files; None for the memory's folder.
        replace: Whether a memory that is in the folder may be moved aside.

    Returns:
        The backup, and the place of the replaced memory.

    Raises:
        InvalidInput: there is a memory in the folder, or a profile that differs, and `replace` is False.
        StoreIncompatible: the file is no backup, or a newer Reverie made it.
        StoreCorrupt: the backup is damaged.
        StoreUnavailable: there is no room, the folder cannot be written, or others kept writing to it.
    """
    source = resolve_path(file, name="file")
    place = resolve_path(folder, name="folder")
    own = place if profile is None else resolve_path(profile, name="profile")
    with safe_reading.open_file(source) as opened, ExitStack() as stack:
        archive = _Archive(opened, source)
        try:
            if not place.exists():
                make_folder(place)
                stack.callback(_remove_if_empty, place)
            staged = stack.enter_context(_make_scratch_folder(place, ".recovering-"))
            _unpack(archive, staged)
            _refuse_unusable(staged / DATABASE, source)
            profiles = {
                own / name: staged / PROFILE / name
                for name in archive.backup.profile
                if not (own / name).exists()
                or (own / name).read_bytes() != (staged / PROFILE / name).read_bytes()
            }
            if not replace:
                _refuse_existing(place, profiles)
            now = timestamps.utc_now()
            forgotten, notes = _forget_again(place / DATABASE, staged / DATABASE, now)
            aside = _choose_aside_path(place, now)
            _replace_memory(place, staged / DATABASE, aside)
            for present, new in profiles.items():
                if present.exists():
                    kept = aside / new.relative_to(staged)
                    make_folder(kept.parent)
                    shutil.copyfile(present, kept)
                    kept.chmod(0o600)
                make_folder(present.parent)
                with create_file(present, overwrite=True) as written:
                    written.write(new.read_bytes())
            return RecoveryReport(
                folder=place,
                backup=archive.backup,
                moved_to=aside if aside.exists() else None,
                forgotten_again=forgotten,
                notes=notes,
            )
        except OSError as error:
            raise build_unwritable_error(place, error) from error


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _refuse_unusable(database: Path, source: Path) -> None:
    """Raise if the unpacked database cannot be opened; upgrade an older one."""
    try:
        _open_store(database).close()
    except (StoreCorrupt, StoreIncompatible) as error:
        raise type(error)(f"the database in {str(source)!r} cannot be used: {error}") from None


def _open_store(database: Path) -> SQLiteStore:
    return SQLiteStore(database, analyse=analyze, create=False)


def _unpack(archive: _Archive, folder: Path) -> None:
    for name in archive.names:
        make_folder((folder / name).parent)
        with create_file(folder / name, overwrite=False) as written:
            for data in archive.pieces(name):
                written.write(data)


@contextmanager
def _make_scratch_folder(parent: Path, name: str) -> Iterator[Path]:
    scratch = parent / f"{name}{secrets.token_hex(6)}"
    scratch.mkdir(mode=0o700)
    scratch.chmod(0o700)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _refuse_existing(place: Path, profiles: Iterable[Path]) -> None:
    """Raise `InvalidInput` if something would be replaced: a memory, or a file of the profile that differs."""
    advice = "or pass replace=True (--replace) to have it moved aside"
    if any((place / name).exists() for name in (DATABASE, *_READABLE)):
        raise InvalidInput(f"there is a memory in {str(place)!r}: recover into another folder, {advice}")
    for present in filter(Path.exists, profiles):
        raise InvalidInput(f"{str(present)!r} is there and differs from the backup's: move it away, {advice}")


def _forget_again(present: Path, staged: Path, now: datetime) -> tuple[int, tuple[str, ...]]:
    """Erase in an unpacked database what was erased in the present one; return how much, and notes."""
    if not present.exists():
        return 0, ()
    try:
        with closing(_open_store(present)) as old, closing(_open_store(staged)) as new:
            return _reapply_tombstones(new, old, at=now), ()
    except StoreError as error:
        note = (
            "the memory that was there cannot be read; what was forgotten in it since the backup may be back"
        )
        return 0, (f"{note}: {error}",)


def _replace_memory(place: Path, staged: Path, aside: Path) -> None:
    """Move the present memory aside, and the new one in its place. What is derived is made again."""
    database = place / DATABASE
    with closing(FileState(place)) as state, ExitStack() as stack:
        # Who mirrors the old memory into files waits, and then finds that its database has gone.
        with suppress(StateUnavailable):
            stack.enter_context(state.lock())
        moved = [name for name in _READABLE if (place / name).exists()]
        if moved or database.exists():
            make_folder(aside)
        for name in moved:
            os.rename(place / name, aside / name)
        shutil.rmtree(place / _INDEX, ignore_errors=True)
        if database.exists():
            replace_file(database, lambda _: staged, kept=aside / DATABASE)
        else:
            publish(staged, database, overwrite=False)
    for ending in ("", "-wal", "-shm", "-journal"):
        (place / f"{FILES_DATABASE}{ending}").unlink(missing_ok=True)
    sync_folder(place)


def _choose_aside_path(place: Path, now: datetime) -> Path:
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    names = (f"before-recovery-{stamp}{f'-{number}' if number > 1 else ''}" for number in count(1))
    return next(place / name for name in names if not (place / name).exists())


# -- what was erased since ----------------------------------------------------------------------------------


def _reapply_tombstones(new: Store, old: Store, *, at: datetime) -> int:
    """Erase in one store what was erased in another.

    Args:
        new: The store from a backup; no other process has it open.
        old: The store that it replaces.

    Returns:
        The number of things concerned.
    """
    if old.cursor(KEY) is None:
        return 0
    new.commit([], actor="owner", at=at, cursors=find_page_cursors(new))  # they quote records
    things = [value for value in iter_values(new) if not isinstance(value, Page | SessionState)]
    whole = sorted(is_forgotten(old, things))
    if whole:
        writer = StoreWriter(store=new, clock=lambda: at, actor="owner")
        Eraser(writer, SearchIndex(new, None), folder=None).forget(EraseRequest(ids=tuple(whole)))
    edits = build_sweep_edits(new, partial(_remove_forgotten, old), at=at)
    new.erase(edits, actor="owner", at=at)
    if edits:
        new.scrub()
    return len({*whole, *(edit.id for edit in edits)})


def _remove_forgotten(old: Store, values: Sequence[Value]) -> list[Value | None]:
    """Return values without erased content; None for a record or paragraph that was erased."""
    forgotten = is_forgotten(old, [value for value in values if not isinstance(value, Page | SessionState)])
    return [_remove_content(old, value, is_gone=value.id in forgotten) for value in values]


def _remove_content(old: Store, value: Value, *, is_gone: bool) -> Value | None:
    if isinstance(value, Page):
        return drop_forgotten(old, value)
    if isinstance(value, SessionState):
        present = old.session(value.id)
        is_here = present is not None and present.summary == value.summary
        texts = find_forgotten_texts(old, [value.summary], kind="summary", place=value.id)
        return replace(value, summary="") if texts and not is_here else value
    if isinstance(value, Turn):
        return empty_turn(value) if is_gone else value
    return None if is_gone else value
