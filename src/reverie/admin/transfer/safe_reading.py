"""Bounded reading of untrusted lines, JSON, archives and folders.

The length of lines, the depth of JSON and the unpacked size of archives are bounded. Nothing is unpacked to
disk, and no link is followed.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NoReturn, Protocol

from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.json_values import describe_type

LONGEST_LINE = 32_000_000
"""Characters of a line. A turn may have 2,000,000 characters, and JSON can take six bytes for each."""

LARGEST_ELEMENT = 256_000_000
"""Characters of one conversation in a list of them."""

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
# Strings are stepped over as a whole; one that is not closed yet has no second quote.
_TOKEN = defer_regex(r'"(?>(?:[^"\\]++|\\.)*)(?P<closed>"?)|[][{}]', re.DOTALL)
_SPACE = defer_regex(r"\s*")
_BETWEEN = defer_regex(r"[\s,]*")
_WORD = defer_regex(r'[^][{}",\s]+')
_LINE = defer_regex(r"[^\n]+")
_NOT_UTF8 = defer_regex("[\udc80-\udcff]")
_SAMPLED_LINES = 200
_DEEPER = {"[": 1, "{": 1, "]": -1, "}": -1}
_CUT = "it ends in the middle: it may not have been copied or downloaded to its end"


class Readable(Protocol):
    """File open for reading bytes."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most that many bytes; none at the end."""


# -- JSON --------------------------------------------------------------------------------------------------


def parse_json(data: str | bytes, *, tolerant: bool = False) -> Any:
    """Parse a JSON document.

    Args:
        data: The document.
        tolerant: Whether a NaN or an infinity becomes None, and control characters may be in texts, instead of an
            error.

    Raises:
        InvalidInput: it is not JSON or not UTF-8, or nests too deeply.
    """
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        parse_constant = _drop_constant if tolerant else _refuse_constant
        value = json.loads(text, parse_constant=parse_constant, strict=not tolerant)
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


def _drop_constant(text: str) -> None:
    del text


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


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


def iter_values(file: Readable) -> Iterator[tuple[str, Any]]:
    """Yield the JSON values of a file with their places; an `InvalidInput` instead of a broken value.

    The file has a value on each line (`line 3`), or one value after the other, of which a list is read by its
    elements (`item 3`). It may be larger than memory. Broken values do not hide those after them, except one that
    ends in the middle, is too large or nests too deeply.

    Raises:
        InvalidInput: the first value is such a value.
    """
    text = _Text(file)
    if text.has_value_per_line():
        for number, line in text.lines():
            yield f"line {number}", _parse_value(line)
    else:
        number = 0
        try:
            for number, element in enumerate(text.elements(), start=1):
                yield f"item {number}", _parse_value(element)
        except InvalidInput as error:
            if not number:
                raise
            yield f"item {number + 1}", error


def iter_documents(file: Readable) -> Iterator[tuple[int, dict[str, Any] | InvalidInput]]:
    """Yield the JSON object of each line with its line number; an error for a broken line."""
    for number, line in _Text(file).lines():
        value = _parse_value(line)
        if not isinstance(value, dict | InvalidInput):
            value = InvalidInput(f"{describe_type(value)} instead of an object")
        yield number, value


def _parse_value(text: str | None) -> Any:
    if text is None:
        return TooLarge(f"over {LONGEST_LINE:,} characters long")
    if _NOT_UTF8.search(text):
        return InvalidInput("not UTF-8 text")
    try:
        return parse_json(text, tolerant=True)
    except InvalidInput as error:
        return error


class _Text:
    """Text of a file with a reading position. Bytes that are not UTF-8 become lone surrogates."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        first = file.read(_CHUNK)
        wide = first.startswith(_WIDE)
        decoder = codecs.getincrementaldecoder("utf-16" if wide else "utf-8-sig")
        self._decoder = decoder("replace" if wide else "surrogateescape")
        self._text = self._decoder.decode(first)
        self._at = 0
        self._ended = False

    def has_value_per_line(self) -> bool:
        """Return whether the first lines are JSON values, each on its own."""
        while (
            "\n" not in self._text.lstrip()[:_CHUNK] and len(self._text) < _CHUNK and self._read_more(_CHUNK)
        ):
            pass
        lines = [line for line in self._text[:_CHUNK].split("\n")[:_SAMPLED_LINES] if line.strip()]
        starts_whole = bool(lines) and _is_value(lines[0])
        if len(lines) < 2:
            return starts_whole and lines[0].lstrip().startswith("{")
        if lines[0].lstrip().startswith("[") and not starts_whole:
            return False
        whole = sum(_is_value(line) for line in lines if not line[0].isspace() and line[0] in "[{")
        if lines[0].lstrip().startswith("{") and not starts_whole:
            return 2 * whole >= len(lines)
        return whole > 0

    def lines(self) -> Iterator[tuple[int, str | None]]:
        """Yield the lines that are not blank, with their numbers from 1; None for one that is too long."""
        number = 0
        while True:
            end = self._text.find("\n", self._at)
            while end < 0 and len(self._text) - self._at <= LONGEST_LINE:
                searched = len(self._text) - self._at
                if not self._read_more(max(_CHUNK, searched)):
                    break
                end = self._text.find("\n", searched)  # what is before the position was dropped
            number += 1
            if end < 0 and len(self._text) - self._at > LONGEST_LINE:
                self._skip_line()
                yield number, None
                continue
            line = self._text[self._at : end if end >= 0 else None]
            self._at = end + 1 if end >= 0 else len(self._text)
            if len(line) > LONGEST_LINE:
                yield number, None
            elif line.strip():
                yield number, line
            if end < 0:
                return

    def _skip_line(self) -> None:
        while (end := self._text.find("\n", self._at)) < 0:
            self._at = len(self._text)
            if not self._read_more(_CHUNK):
                return
        self._at = end + 1

    def elements(self) -> Iterator[str]:
        """Yield the elements of lists, other values, and lines that begin none."""
        while (first := self._skip(_SPACE)) != "":
            if first != "[":
                yield self._read_nested() if first in '"{' else self._read_word(_LINE)
                continue
            self._at += 1
            while (first := self._skip(_BETWEEN)) not in ("", "]"):
                yield self._read_nested() if first in '"{[' else self._read_word(_WORD)
            if first == "":
                raise InvalidInput(_CUT)
            self._at += 1

    def _skip(self, between: re.Pattern[str]) -> str:
        """Advance past the match and return the next character; empty at the end."""
        while True:
            match = between.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_more(_CHUNK):
                return ""

    def _read_nested(self) -> str:
        """Return the object, list or string at the position, and advance past it."""
        at, depth = self._at, 0
        while True:
            token = _TOKEN.search(self._text, at)
            if token is None or (self._text[token.start()] == '"' and not token["closed"]):
                at = (len(self._text) if token is None else token.start()) - self._at
                self._refuse_large()
                # As much again, so that the text is not walked too often.
                if not self._read_more(max(_CHUNK, len(self._text) - self._at)):
                    raise InvalidInput(_CUT)
                at += self._at
                continue
            at = token.end()
            depth += _DEEPER.get(self._text[at - 1], 0)
            if depth > DEEPEST:
                raise InvalidInput(f"nested over {DEEPEST} levels deep")
            if depth == 0:
                begin, self._at = self._at, at
                return self._text[begin:at]

    def _read_word(self, word: re.Pattern[str]) -> str:
        """Return the match at the position, and advance past it."""
        while (match := word.match(self._text, self._at)) and match.end() == len(self._text):
            self._refuse_large()
            if not self._read_more(_CHUNK):
                break
        begin, self._at = self._at, match.end() if match else self._at + 1
        return self._text[begin : self._at]

    def _read_more(self, size: int) -> bool:
        """Read on, drop what is behind the position, and return whether there was more."""
        if self._ended:
            return False
        data = self._file.read(size)
        self._ended = not data
        self._text = self._text[self._at :] + self._decoder.decode(data, final=self._ended)
        self._at = 0
        return not self._ended

    def _refuse_large(self) -> None:
        if len(self._text) - self._at > LARGEST_ELEMENT:
            raise InvalidInput(f"over {LARGEST_ELEMENT:,} characters in one piece")


def _is_value(line: str) -> bool:
    """Return whether a line is a JSON object or list."""
    return isinstance(_parse_value(line), dict | list)


# -- files ---------------------------------------------------------------------------------------------------


class TooLarge(InvalidInput):
    """A limit is exceeded."""


def read_open_text(file: Readable) -> str:
    """Return the text of an open file with its line ends unchanged.

    Raises:
        TooLarge: it has over 64,000,000 bytes.
        InvalidInput: it is neither UTF-8 nor marked as UTF-16.
    """
    data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise TooLarge(f"over {LARGEST_FILE:,} bytes")
    try:
        return data.decode("utf-16" if data.startswith(_WIDE) else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"not UTF-8 text (byte {error.start}): save it as UTF-8") from None


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
        raise InvalidInput(f"{str(path)!r} is no regular file")
    with os.fdopen(handle, "rb") as file:
        yield file


# -- archives ----------------------------------------------------------------------------------------------


class ZipArchive:
    """Zip archive whose files are read without unpacking them to disk.

    Raises:
        InvalidInput: it is damaged, encrypted, has too many files, or names that lead out of it.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        try:
            self._zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise InvalidInput(f"{path.name}: cannot be opened as a zip archive ({error})") from None
        members = self._zip.infolist()
        if len(members) > MOST_MEMBERS:
            raise InvalidInput(
                f"{path.name}: {len(members):,} files in it: at most {MOST_MEMBERS:,} are read"
            )
        for member in members:
            _refuse_unsafe(member, path.name)
        self.names = [member.filename for member in members if not member.is_dir()]

    def __enter__(self) -> ZipArchive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @contextmanager
    def opened(self, name: str) -> Iterator[Readable]:
        """Open one of its files.

        Raises:
            InvalidInput: it is damaged, or its unpacked size is implausible.
        """
        try:
            member = self._zip.getinfo(name)
            if member.flag_bits & 0x1:
                raise InvalidInput(f"{self.name}: {name!r} is encrypted: unpack it first")
            with self._zip.open(member) as file:
                yield _Bounded(file, member)
        except (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise InvalidInput(f"{self.name}: {name!r} is damaged ({error})") from None


class _Bounded:
    """Packed file with a limit on its unpacked size."""

    def __init__(self, file: Readable, member: zipfile.ZipInfo) -> None:
        self._file = file
        self._member = member
        self._most = min(max(_ALWAYS_ALLOWED, member.compress_size * STEEPEST), LARGEST_MEMBER)
        self._count = 0

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(_CHUNK if size < 0 else size)
        self._count += len(data)
        if self._count > self._most:
            raise TooLarge(
                f"{self._member.filename!r} unpacks to over {self._most:,} bytes from "
                f"{self._member.compress_size:,}: that is no honest archive"
            )
        return data


def _refuse_unsafe(member: zipfile.ZipInfo, archive: str) -> None:
    name = member.filename
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if name.startswith(("/", "\\")) or ".." in parts or (parts and parts[0].endswith(":")):
        raise InvalidInput(f"{archive}: it names {name!r}, which leads out of it: that is no honest archive")


# -- folders -----------------------------------------------------------------------------------------------


def iter_files(folder: Path) -> Iterator[tuple[str, Path | None]]:
    """Yield every file below a folder by its relative path, in order; None for one that is not read.

    Links are not followed. A folder that is a memory of Reverie, or whose name begins with a dot, is only named,
    except `.archive`.

    Raises:
        InvalidInput: a folder may not be read.
    """
    yield from _iter_files(folder, "")


def _iter_files(folder: Path, before: str) -> Iterator[tuple[str, Path | None]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
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


# -- sources -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a source, on the disk or in an archive.

    Attributes:
        name: Its path in the source.
        place: How reports call it.
        path: Its path on the disk; None in an archive.
        archive: The archive with it.
    """

    name: str
    place: str
    path: Path | None = None
    archive: ZipArchive | None = None

    @property
    def modified_at(self) -> datetime:
        """When the file on the disk was last changed."""
        assert self.path is not None
        return datetime.fromtimestamp(int(self.path.stat().st_mtime), UTC)

    @contextmanager
    def open(self) -> Iterator[Readable]:
        """Open the file; raise `InvalidInput` if it cannot be read."""
        if self.archive is not None:
            with self.archive.opened(self.name) as member:
                yield member
        else:
            assert self.path is not None
            with open_file(self.path) as file:
                yield file

    def read_text(self) -> str:
        """Return its text; see `read_open_text`."""
        with self.open() as file:
            return read_open_text(file)

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
        return len(self.files) == 1 and self.files[0].path == self.path


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """Open a file, a folder or a zip archive.

    Raises:
        InvalidInput: it cannot be read.
    """
    try:
        is_folder = path.is_dir()
    except OSError as error:
        raise InvalidInput(f"{str(path)!r} cannot be read ({error.strerror})") from None
    if is_folder:
        found = sorted(iter_files(path))
        files = (SourceFile(name, name, file) for name, file in found if file is not None)
        yield Source(path, tuple(files), tuple(name for name, file in found if file is None))
        return
    with open_file(path) as opened:
        is_archive = opened.read(4) == b"PK\x03\x04"
    if not is_archive:
        yield Source(path, (SourceFile(path.name, path.name, path),))
        return
    with ZipArchive(path) as archive:
        yield Source(
            path,
            tuple(SourceFile(name, f"{path.name}/{name}", None, archive) for name in sorted(archive.names)),
        )
