"""Backup of a memory in one file, and its recovery.

A backup is a zip archive:

    reverie.db             the database as it was at one moment, whatever was written meanwhile
    profile/soul.md, …     the Markdown files of the profile's folder: who the agent is; the user's own prompts
    manifest.json          when it was made, of what format, and the size and SHA-256 of every file

The database holds everything else: records, turns, pages, the journal, working memory and tombstones. The
search index and the readable files are derived from it and made again.

It is a zip archive because every system opens one without Reverie, each file in it has its own checksum, and
the manifest can be read without unpacking the rest. Rejected: the bare database (no room for the profile, and
no proof that it is complete), and tar (a truncated one looks complete).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version as installed
from pathlib import Path
from typing import IO, Any, BinaryIO

from reverie.admin.erasure.reapply import reapply_tombstones
from reverie.admin.transfer import safe_reading
from reverie.domain.errors import InvalidInput, StoreCorrupt, StoreError, StoreIncompatible, StoreUnavailable
from reverie.domain.filter import Filter
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text import timestamps
from reverie.domain.text.json_values import JsonObject
from reverie.domain.text.validation import validate_progress
from reverie.files.atomic import build_unwritable_error, create_file, publish
from reverie.files.names import resolve_path
from reverie.files.state import FILES_DATABASE, FileState, StateUnavailable
from reverie.search.analyzer import analyze
from reverie.stores.protocol import Store
from reverie.stores.redacting import unwrap
from reverie.stores.sqlite import DATABASE, SQLiteStore
from reverie.stores.sqlite.database_file import make_folder, replace_file, sync_folder

FORMAT = "reverie-backup"
VERSION = 1
"""The newest version of backups that can be read, and the one that is made."""

MANIFEST = "manifest.json"
PROFILE = "profile"

_INDEX = "index"
_READABLE = ("memory", "sessions")
_LARGEST_MANIFEST = 10_000_000
_LARGEST_PROFILE_FILE = 10_000_000
_CHUNK = 1 << 20
_COUNTS = ("sequence", "records", "sessions", "turns", "problems")
_PROFILE_NAME = defer_regex(r"(?:[^/\\\x00-\x1f]+/)*[^/\\\x00-\x1f]+\.(?:md|txt)")
_SHA256 = defer_regex(r"[0-9a-f]{64}")


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
    progress: Callable[[int], None] | None = None,
) -> Backup:
    """Write a backup; the file gets its name when it is complete and verified.

    Args:
        store: The store to copy; others may write to it meanwhile.
        profile: The folder of the profile, whose Markdown files are copied too.
        also: Names of further files in that folder, which end in `.md` or `.txt`.
        overwrite: Whether a file of that name may be replaced.
        progress: Receives the number of bytes written since its last call.

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
    report = validate_progress(progress)
    with create_file(path, overwrite=overwrite) as file, ExitStack() as cleaning:
        scratch = _make_scratch_folder(path.parent, f".{path.name}.", cleaning)
        copy = scratch / DATABASE
        try:
            store.backup(copy)
        except StoreUnavailable as error:
            if isinstance(error.__cause__, OSError):  # reported as one of `target`, not of the scratch folder
                raise error.__cause__ from None
            raise
        files = [(DATABASE, copy), *_list_profile_files(profile, also)]
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "reverie": installed("reverie"),
            "made_at": timestamps.format_time(at),
            **_examine_copy(copy),
        }
        _pack(file, files, manifest, report)
        file.flush()
        with _Opened(file, path) as archive:
            for name in archive.files:
                deque(archive.pieces(name), maxlen=0)  # compares it with its checksum
            return archive.backup()


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


def _list_profile_files(profile: Path | None, also: Iterable[str]) -> list[tuple[str, Path]]:
    """Return the Markdown files of the profile; follow links, since profiles are often linked."""
    if profile is None or not profile.is_dir():
        return []
    names = {file.name for file in profile.glob("*.md")}
    names |= {name for name in also if not Path(name).is_absolute()}
    files = []
    for name in sorted(names):
        file = profile / name
        named = _is_allowed(f"{PROFILE}/{name}")
        if named and file.is_file() and file.stat().st_size <= _LARGEST_PROFILE_FILE:
            files.append((f"{PROFILE}/{name}", file))
    return files


def _pack(
    file: BinaryIO,
    files: Sequence[tuple[str, Path]],
    manifest: Mapping[str, Any],
    progress: Callable[[int], None],
) -> None:
    entries = []
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in files:
            hashed, size = hashlib.sha256(), 0
            with (
                safe_reading.open_file(source) as opened,
                archive.open(_build_zip_entry(name), "w", force_zip64=True) as member,
            ):
                while data := opened.read(_CHUNK):
                    member.write(data)
                    hashed.update(data)
                    size += len(data)
                    progress(len(data))
            entries.append({"name": name, "bytes": size, "sha256": hashed.hexdigest()})
        text = json.dumps({**manifest, "files": entries}, ensure_ascii=False, indent=2)
        archive.writestr(_build_zip_entry(MANIFEST), f"{text}\n")


def _build_zip_entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))  # the manifest says when
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o600 << 16
    return entry


# -- reading -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _File:
    size: int
    sha256: str


class _Opened:
    """Reader of a backup; every fault is a `StoreCorrupt` or `StoreIncompatible`."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._path = path
        self._file = file
        self._archive = self._translate_errors(lambda: zipfile.ZipFile(file))
        self.manifest = self._read_manifest()
        self.files = self._parse_files()

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def backup(self) -> Backup:
        """Return the description in the manifest."""
        manifest = self.manifest
        try:
            counts = {name: int(manifest[name]) for name in _COUNTS}
            made_at = timestamps.parse_time(str(manifest["made_at"]), name="made_at")
        except (KeyError, TypeError, ValueError):
            raise self._build_damaged_error("its manifest is not complete") from None
        profile = tuple(name.removeprefix(f"{PROFILE}/") for name in self.files if name != DATABASE)
        size = os.fstat(self._file.fileno()).st_size
        return Backup(path=self._path, made_at=made_at, size=size, profile=profile, **counts)

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield one file in pieces, and compare it with its checksum at the end."""
        expected = self.files[name]
        hashed, size = hashlib.sha256(), 0
        with self._translate_errors(lambda: self._archive.open(name)) as member:
            while data := self._translate_errors(lambda: member.read(_CHUNK)):
                hashed.update(data)
                size += len(data)
                if size > expected.size:
                    break
                yield data
        if size != expected.size or hashed.hexdigest() != expected.sha256:
            raise self._build_damaged_error(f"{name!r} is not what was put into it")

    def _read_manifest(self) -> dict[str, Any]:
        names = self._archive.namelist()
        if MANIFEST not in names:
            raise self._build_foreign_error("it has no manifest")
        if self._archive.getinfo(MANIFEST).file_size > _LARGEST_MANIFEST:
            raise self._build_foreign_error("its manifest is too long")
        try:
            manifest = safe_reading.parse_json_object(
                self._translate_errors(lambda: self._archive.read(MANIFEST))
            )
        except InvalidInput as error:
            raise self._build_damaged_error(f"its manifest cannot be read ({error})") from None
        if manifest.get("format") != FORMAT:
            raise self._build_foreign_error("its manifest is another program's")
        version = manifest.get("version")
        if not isinstance(version, int) or version < 1:
            raise self._build_damaged_error(f"it says it is of version {version!r}")
        if version > VERSION:
            raise StoreIncompatible(
                f"{str(self._path)!r} was made by a newer Reverie (backup version {version}, this one knows "
                f"up to {VERSION}): upgrade Reverie"
            )
        return manifest

    def _parse_files(self) -> dict[str, _File]:
        listed = self.manifest.get("files")
        files: dict[str, _File] = {}
        for entry in listed if isinstance(listed, list) else []:
            fields = entry if isinstance(entry, dict) else {}
            name, size, digest = (fields.get(key) for key in ("name", "bytes", "sha256"))
            if not (isinstance(name, str) and isinstance(size, int) and isinstance(digest, str)):
                raise self._build_damaged_error("its manifest is not complete")
            if not _is_allowed(name) or not _SHA256.fullmatch(digest) or size < 0 or name in files:
                raise self._build_foreign_error(f"it holds {name!r}, which no backup does")
            files[name] = _File(size, digest)
        if DATABASE not in files:
            raise self._build_damaged_error("there is no database in it")
        if sorted(self._archive.namelist()) != sorted([*files, MANIFEST]):
            raise self._build_damaged_error("it does not hold the files that its manifest names")
        return files

    def _translate_errors(self, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except zipfile.BadZipFile as error:
            self._file.seek(0)
            if self._file.read(2) != b"PK":
                raise self._build_foreign_error("it is no zip archive") from None
            raise self._build_damaged_error(str(error)) from None
        except (zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError) as error:
            raise self._build_damaged_error(str(error)) from None

    def _build_damaged_error(self, what: str) -> StoreCorrupt:
        return StoreCorrupt(
            f"{str(self._path)!r} is damaged: {what}; nothing was changed, take another backup"
        )

    def _build_foreign_error(self, what: str) -> StoreIncompatible:
        return StoreIncompatible(f"{str(self._path)!r} is no backup of Reverie: {what}; nothing was changed")


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
    at: datetime | None = None,
    progress: Callable[[int], None] | None = None,
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
        at: The time now; None for the system's clock.
        progress: Receives the number of bytes unpacked since its last call.

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
    report = validate_progress(progress)
    moment = timestamps.utc_now() if at is None else at
    with (
        safe_reading.open_file(source) as opened,
        _Opened(opened, source) as archive,
        ExitStack() as cleaning,
    ):
        backup = archive.backup()
        try:
            if not place.exists():
                make_folder(place)
                cleaning.callback(_remove_if_empty, place)
            staged = _unpack(archive, place, cleaning, report)
            _refuse_unusable(staged / DATABASE, source)
            recovery = _Recovery(place, own, staged, list(backup.profile), moment)
            recovery.check(replace=replace)
            recovery.forget_again()
            return recovery.carry_out(backup)
        except OSError as error:
            raise build_unwritable_error(place, error) from error


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _refuse_unusable(database: Path, source: Path) -> None:
    """Raise if the unpacked database cannot be opened; upgrade an older one."""
    try:
        _open_store(database).close()
    except StoreIncompatible:
        raise StoreIncompatible(
            f"{str(source)!r} holds a database that is none of Reverie's, or that a newer Reverie made: "
            "upgrade Reverie; nothing was changed"
        ) from None
    except StoreCorrupt:
        raise StoreCorrupt(f"{str(source)!r} holds a damaged database: take another backup") from None


def _open_store(database: Path) -> SQLiteStore:
    return SQLiteStore(database, analyse=analyze, create=False)


def _unpack(archive: _Opened, place: Path, cleaning: ExitStack, progress: Callable[[int], None]) -> Path:
    needed = sum(each.size for each in archive.files.values())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise StoreUnavailable(
            f"{str(place)!r} has {free:,} bytes of room, and {needed:,} are needed: make room"
        )
    staged = _make_scratch_folder(place, ".recovering-", cleaning)
    for name in archive.files:
        target = staged / name
        make_folder(target.parent)
        with create_file(target, overwrite=False) as written:
            for data in archive.pieces(name):
                written.write(data)
                progress(len(data))
    return staged


def _make_scratch_folder(parent: Path, name: str, cleaning: ExitStack) -> Path:
    scratch = parent / f"{name}{secrets.token_hex(6)}"
    scratch.mkdir(mode=0o700)
    scratch.chmod(0o700)
    cleaning.callback(shutil.rmtree, scratch, ignore_errors=True)
    return scratch


class _Recovery:
    """State of one recovery."""

    def __init__(self, place: Path, own: Path, staged: Path, profile: list[str], moment: datetime) -> None:
        self._place = place
        self._own = own
        self._staged = staged
        self._profile = profile
        self._moment = moment
        self._notes: list[str] = []
        self._forgotten = 0
        self._was_there = (place / DATABASE).exists()
        self._in_the_way = [name for name in _READABLE if (place / name).exists()]
        self._differing = [name for name in profile if self._is_different(name)]

    def check(self, *, replace: bool) -> None:
        """Raise if the folder must not be changed."""
        if replace:
            return
        if self._was_there or self._in_the_way:
            raise InvalidInput(
                f"there is a memory in {str(self._place)!r}: recover into another folder, or pass "
                "replace=True (--replace) to have it moved aside"
            )
        if self._differing:
            raise InvalidInput(
                f"{str(self._own / self._differing[0])!r} is there and differs from the backup's: pass "
                "replace=True (--replace) to have it moved aside"
            )

    def forget_again(self) -> None:
        """Erase again what was erased in the replaced memory."""
        if not self._was_there:
            return
        try:
            with (
                closing(_open_store(self._place / DATABASE)) as old,
                closing(_open_store(self._staged / DATABASE)) as new,
            ):
                self._forgotten = reapply_tombstones(new, old, at=self._moment)
        except StoreError as error:
            self._notes.append(
                "the memory that was there cannot be read; what was forgotten in it since the backup was "
                f"made may be back: {error}"
            )

    def carry_out(self, backup: Backup) -> RecoveryReport:
        """Move the present memory aside, and the new one in its place."""
        aside = self._choose_aside_path()
        state = FileState(self._place)
        with closing(state), ExitStack() as stack:
            # Who mirrors the old memory into files waits, and then finds that its database has gone.
            with suppress(StateUnavailable):
                stack.enter_context(state.lock())
            for name in self._in_the_way:
                os.rename(self._place / name, _ensure_folder(aside) / name)
            self._put_profile(aside)
            shutil.rmtree(self._place / _INDEX, ignore_errors=True)
            staged, database = self._staged / DATABASE, self._place / DATABASE
            if self._was_there:
                replace_file(database, lambda _: staged, kept=_ensure_folder(aside) / DATABASE)
            else:
                publish(staged, database, overwrite=False)
        for ending in ("", "-wal", "-shm", "-journal"):
            (self._place / f"{FILES_DATABASE}{ending}").unlink(missing_ok=True)
        sync_folder(self._place)
        return RecoveryReport(
            folder=self._place,
            backup=backup,
            moved_to=aside if aside.exists() else None,
            forgotten_again=self._forgotten,
            notes=tuple(self._notes),
        )

    def _is_different(self, name: str) -> bool:
        present, new = self._own / name, self._staged / PROFILE / name
        return present.exists() and present.read_bytes() != new.read_bytes()

    def _choose_aside_path(self) -> Path:
        stamp = self._moment.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        place, number = self._place / f"before-recovery-{stamp}", 1
        while place.exists():
            number += 1
            place = self._place / f"before-recovery-{stamp}-{number}"
        return place

    def _put_profile(self, aside: Path) -> None:
        for name in self._profile:
            present, new = self._own / name, self._staged / PROFILE / name
            if name in self._differing:
                aside_path = _ensure_folder((_ensure_folder(aside) / PROFILE / name).parent) / present.name
                shutil.copyfile(present, aside_path)
                aside_path.chmod(0o600)
            if name in self._differing or not present.exists():
                make_folder(present.parent)
                with create_file(present, overwrite=True) as file:
                    file.write(new.read_bytes())


def _ensure_folder(folder: Path) -> Path:
    make_folder(folder)
    return folder
