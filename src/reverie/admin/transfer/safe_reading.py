"""Bounded reading of untrusted lines, JSON, archives and folders.

The length of lines, the depth of JSON and the unpacked size of archives are bounded. Nothing is unpacked to
disk, and no link is followed.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, cast

from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.json_values import describe_type

LONGEST_LINE = 32_000_000
"""Characters of a line. A turn may have 2,000,000 characters, and JSON can take six bytes for each."""

LARGEST_TEXT = 1_000_000_000
"""Characters of a file that does not have a value on each line."""

LARGEST_FILE = 64_000_000
"""Bytes of a file that is read as a whole: one record, one page, one session."""

LARGEST_MEMBER = 16_000_000_000
"""Bytes that one file of an archive may unpack to."""

MOST_MEMBERS = 200_000
"""Files in an archive."""

STEEPEST = 250
"""Maximum ratio of unpacked to packed size of a file over 100 MB; for text it is 3 to 30."""

DEEPEST = 100
"""Levels of nesting in JSON."""

_ALWAYS_ALLOWED = 100_000_000
_CHUNK = 1 << 20
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BETWEEN = defer_regex(r"[\s,]*")
_NOT_UTF8 = defer_regex("[\udc80-\udcff]")
_SAMPLED_LINES = 200
_DECODER = json.JSONDecoder(parse_constant=lambda _: None, strict=False)
_CUT = "it is broken, or ends in the middle: it may not have been copied or downloaded to its end"


# -- JSON --------------------------------------------------------------------------------------------------


def parse_json(data: str | bytes) -> Any:
    """Parse a JSON document; a NaN or an infinity becomes None, and texts may have control characters.

    Raises:
        InvalidInput: it is not JSON or not UTF-8, or nests too deeply.
    """
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        value = _DECODER.decode(text)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"not UTF-8 text (byte {error.start})") from None
    except RecursionError:
        raise InvalidInput("nested too deeply") from None
    except ValueError as error:
        raise InvalidInput(f"not JSON ({_describe_json_error(error)})") from None
    if _is_deeper_than(value, DEEPEST):
        raise InvalidInput(f"nested over {DEEPEST} levels deep")
    return value


def parse_json_object(data: str | bytes) -> dict[str, Any]:
    """Parse a JSON document that must be an object."""
    value = parse_json(data)
    if not isinstance(value, dict):
        raise InvalidInput(f"{describe_type(value)} instead of an object")
    return value


def _describe_json_error(error: ValueError) -> str:
    """Describe an error in JSON without quoting any of it."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg}, line {error.lineno} column {error.colno}"
    return str(error).partition(":")[0]


def _is_deeper_than(value: Any, levels: int) -> bool:
    """Return whether lists and objects nest deeper than that; does not recurse."""
    layer = [value]
    for _ in range(levels + 1):
        layer = [
            inner
            for each in layer
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
        if not layer:
            return False
    return True


def iter_values(file: IO[bytes]) -> Iterator[tuple[str, Any]]:
    """Yield the JSON values of a file with their places; an `InvalidInput` instead of a broken value.

    The file has a value on each line (`line 3`) and may be larger than memory, or one value after the other, of which
    a list is read by its elements (`item 3`). A broken line does not hide those after it.

    Raises:
        InvalidInput: the first value is broken, or the values are too large.
    """
    buffer = io.BufferedReader(cast(io.RawIOBase, file))
    wide = buffer.peek(2).startswith(_WIDE)
    encoding, errors = ("utf-16", "replace") if wide else ("utf-8-sig", "surrogateescape")
    text = io.TextIOWrapper(buffer, encoding, errors, newline="\n")
    try:
        yield from _iter_text_values(text)
    finally:
        text.detach()
        buffer.detach()  # others close the file


def _iter_text_values(text: io.TextIOWrapper) -> Iterator[tuple[str, Any]]:
    head = text.read(_CHUNK)
    number = 0
    if _has_value_per_line(head):
        for number, line in _iter_lines(head, text):
            yield f"line {number}", _parse_value(line)
        return
    rest = text.read(LARGEST_TEXT)
    if len(head) + len(rest) > LARGEST_TEXT:
        raise TooLarge(f"over {LARGEST_TEXT:,} characters: write it as JSON lines")
    try:
        for number, value in enumerate(_iter_elements(head + rest), start=1):
            yield f"item {number}", value
    except InvalidInput as error:
        if not number:
            raise
        yield f"item {number + 1}", error


def _parse_value(text: str | None) -> Any:
    if text is None:
        return TooLarge(f"over {LONGEST_LINE:,} characters long")
    if _NOT_UTF8.search(text):
        return InvalidInput("not UTF-8 text")
    try:
        return parse_json(text)
    except InvalidInput as error:
        return error


def _has_value_per_line(head: str) -> bool:
    """Return whether the first lines of a text are JSON values, each on its own."""
    lines = [line for line in head.split("\n")[:_SAMPLED_LINES] if line.strip()]
    whole = [isinstance(_parse_value(line), dict | list) for line in lines]
    if len(lines) < 2:
        return whole == [True] and lines[0].lstrip().startswith("{")
    return whole[0] or (not lines[0].lstrip().startswith("[") and 2 * sum(whole) >= len(lines))


def _iter_lines(head: str, text: io.TextIOWrapper) -> Iterator[tuple[int, str | None]]:
    """Yield the lines that are not blank, with their numbers from 1; None for one that is too long."""
    *lines, rest = head.split("\n")
    following = iter(lambda: text.readline(LONGEST_LINE + 1), "")
    number, is_cut = 1, False
    for line in chain((f"{line}\n" for line in lines), [rest + text.readline(LONGEST_LINE + 1)], following):
        is_too_long = len(line.rstrip("\n")) > LONGEST_LINE
        if line.strip() and not is_cut:
            yield number, None if is_too_long else line
        is_cut = (is_too_long or is_cut) and not line.endswith("\n")
        number += not is_cut


def _iter_elements(text: str) -> Iterator[Any]:
    """Yield the elements of lists, other values, and an `InvalidInput` for one that is not to be used.

    Raises:
        InvalidInput: a value is broken, so that nobody can say where the next one begins.
    """
    at = 0
    is_list = False
    while (at := _BETWEEN.match(text, at).end()) < len(text):  # type: ignore[union-attr]
        if text[at] == ("]" if is_list else "["):
            is_list = not is_list
            at += 1
            continue
        begin = at
        try:
            value, at = _DECODER.raw_decode(text, at)
        except RecursionError:
            yield InvalidInput("nested too deeply")
            return
        except ValueError as error:
            raise InvalidInput(f"{_CUT} (not JSON: {_describe_json_error(error)})") from None
        if _is_deeper_than(value, DEEPEST):
            value = InvalidInput(f"nested over {DEEPEST} levels deep")
        yield InvalidInput("not UTF-8 text") if _NOT_UTF8.search(text, begin, at) else value
    if is_list:
        raise InvalidInput(_CUT)


# -- files ---------------------------------------------------------------------------------------------------


class TooLarge(InvalidInput):
    """A limit is exceeded."""


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading; pipes and devices are refused, because they may block.

    Raises:
        InvalidInput: it is missing, is not a regular file, or may not be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise InvalidInput(f"{str(path)!r} cannot be read ({error.strerror})") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InvalidInput(f"{str(path)!r} is not a regular file")
    with os.fdopen(handle, "rb") as file:
        yield file


# -- sources -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a source, on the disk or in an archive.

    Attributes:
        name: Its path in the source.
        place: How reports call it.
        path: Its path on the disk, or that of the archive with it.
        archive: The archive with it; None for a file on the disk.
    """

    name: str
    place: str
    path: Path
    archive: zipfile.ZipFile | None = None

    @property
    def modified_at(self) -> datetime:
        """When the file, or the archive with it, was last changed."""
        return datetime.fromtimestamp(int(self.path.stat().st_mtime), UTC)

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the file; raise `InvalidInput` if it is damaged, or its unpacked size is implausible."""
        if self.archive is None:
            with open_file(self.path) as opened:
                yield opened
            return
        member = self.archive.getinfo(self.name)
        if member.flag_bits & 0x1:
            raise InvalidInput(f"{self.path.name}: {self.name!r} is encrypted: unpack it first")
        most = min(max(_ALWAYS_ALLOWED, member.compress_size * STEEPEST), LARGEST_MEMBER)
        if member.file_size > most:  # `zipfile` reads no more than that
            raise TooLarge(
                f"{self.name!r} unpacks to over {most:,} bytes from {member.compress_size:,}: "
                "do not trust this archive"
            )
        try:
            with self.archive.open(member) as file:
                yield file
        except (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise InvalidInput(f"{self.path.name}: {self.name!r} is damaged ({error})") from None

    def read_text(self) -> str:
        """Return its text with its line ends unchanged.

        Raises:
            TooLarge: it has over 64,000,000 bytes.
            InvalidInput: it is neither UTF-8 nor marked as UTF-16.
        """
        with self.open() as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise TooLarge(f"over {LARGEST_FILE:,} bytes")
        try:
            return data.decode("utf-16" if data.startswith(_WIDE) else "utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidInput(f"not UTF-8 text (byte {error.start}): save it as UTF-8") from None

    def values(self) -> Iterator[tuple[str, Any]]:
        """Yield its JSON values with their places in the source; see `iter_values`."""
        with self.open() as file:
            for place, value in iter_values(file):
                yield f"{self.place}, {place}", value


@dataclass(frozen=True, slots=True)
class Source:
    """A file, a folder or an archive.

    Attributes:
        path: Its path.
        files: Its files, in the order of their names.
        unread: Names of links, hidden files and the like, which are not read.
    """

    path: Path
    files: tuple[SourceFile, ...]
    unread: tuple[str, ...] = ()

    @property
    def is_file(self) -> bool:
        """Whether it is one file."""
        return len(self.files) == 1 and self.files[0].path == self.path and self.files[0].archive is None


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """Open a file, a folder or a zip archive.

    Links are not followed. A folder that is a memory of Reverie, or whose name begins with a dot, is only named,
    except `.archive`.

    Raises:
        InvalidInput: it cannot be read.
    """
    if os.path.isdir(path):  # False for a name that the system refuses, which `open_file` reports
        found = dict(_iter_files(path, ""))
        files = (SourceFile(name, name, file) for name, file in sorted(found.items()) if file is not None)
        yield Source(path, tuple(files), tuple(name for name in sorted(found) if found[name] is None))
        return
    with open_file(path) as opened:
        is_archive = opened.read(4) == b"PK\x03\x04"
    if not is_archive:
        yield Source(path, (SourceFile(path.name, path.name, path),))
        return
    with _open_archive(path) as archive:
        names = sorted(member.filename for member in archive.infolist() if not member.is_dir())
        yield Source(path, tuple(SourceFile(name, f"{path.name}/{name}", path, archive) for name in names))


def _iter_files(folder: Path, before: str) -> Iterator[tuple[str, Path | None]]:
    """Yield every file below a folder by its relative path; None for one that is not read."""
    try:
        entries = list(os.scandir(folder))
    except OSError as error:
        raise InvalidInput(f"{str(folder)!r} cannot be read ({error.strerror})") from None
    for entry in entries:
        name = f"{before}{entry.name}"
        hidden = entry.name.startswith(".") and entry.name != ".archive"
        is_folder = entry.is_dir(follow_symlinks=False)
        is_memory = is_folder and os.path.exists(f"{entry.path}/reverie.db")
        if entry.is_symlink() or hidden or is_memory:
            yield name, None
        elif is_folder:
            yield from _iter_files(Path(entry.path), f"{name}/")
        else:
            yield name, Path(entry.path) if entry.is_file(follow_symlinks=False) else None


def _open_archive(path: Path) -> zipfile.ZipFile:
    """Open a zip archive, whose files are read without unpacking them to disk.

    Raises:
        InvalidInput: it is damaged, has too many files, or names that lead out of it.
    """
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise InvalidInput(f"{path.name}: cannot be opened as a zip archive ({error})") from None
    names = archive.namelist()
    if len(names) > MOST_MEMBERS:
        raise InvalidInput(f"{path.name}: {len(names):,} files in it: at most {MOST_MEMBERS:,} are read")
    for name in names:
        parts = PurePosixPath(name.replace("\\", "/")).parts
        if name.startswith(("/", "\\")) or ".." in parts or (parts and parts[0].endswith(":")):
            raise InvalidInput(
                f"{path.name}: it names {name!r}, which leads out of it: do not trust this archive"
            )
    return archive
