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
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NoReturn, Protocol

from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex

LONGEST_LINE = 32_000_000
"""Bytes of a line. A turn may have 2,000,000 characters, and JSON can take six bytes for each."""

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
_BOM = codecs.BOM_UTF8
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# Strings are stepped over as a whole; one that is not closed yet has no second quote.
_TOKEN = defer_regex(r'"(?>(?:[^"\\]++|\\.)*)(?P<closed>"?)|[][{}]', re.DOTALL)
_SPACE = defer_regex(r"\s*")
_BETWEEN = defer_regex(r"[\s,]*")
_WORD = defer_regex(r'[^][{}",\s]+')
_DEEPER = {"[": 1, "{": 1, "]": -1, "}": -1}
_CUT = "it ends in the middle: it may not have been copied or downloaded to its end"


class Readable(Protocol):
    """File open for reading bytes."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most that many bytes; none at the end."""


# -- JSON --------------------------------------------------------------------------------------------------


def parse_json(data: str | bytes) -> Any:
    """Parse a JSON document.

    Raises:
        InvalidInput: it is not JSON or not UTF-8, has a NaN or an infinity, or nests too deeply.
    """
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        value = json.loads(text, parse_constant=_refuse_constant)
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
        raise InvalidInput(f"{_describe_type(value)} instead of an object")
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _describe_json_error(error: ValueError) -> str:
    """Describe an error in JSON without quoting any of it."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg}, line {error.lineno} column {error.colno}"
    return str(error).partition(":")[0]


def _describe_type(value: object) -> str:
    return {list: "a list", str: "text", bool: "true or false", type(None): "null"}.get(
        type(value), "a number"
    )


def _is_deeper_than(value: Any, levels: int) -> bool:
    """Whether lists and objects nest deeper than that; does not recurse."""
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


def iter_elements(file: Readable) -> Iterator[str]:
    """Yield the texts of a JSON list's elements, so that the list may be larger than memory.

    A file that is not a list yields its value as the only element.

    Raises:
        InvalidInput: it is not UTF-8, ends in the middle, or an element is too large or nests too deeply.
    """
    text = _Text(file)
    if text.skip(_SPACE) != "[":
        yield text.rest()
        return
    text.drop(1)
    while (first := text.skip(_BETWEEN)) not in ("", "]"):
        yield text.read_nested() if first in ('"', "{", "[") else text.word()
    if first == "":
        raise InvalidInput(_CUT)


class _Text:
    """Text of a file with a reading position."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0
        self._ended = False

    def skip(self, between: re.Pattern[str]) -> str:
        """Advance past the match and return the next character; empty at the end."""
        while True:
            match = between.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_more(_CHUNK):
                return ""

    def drop(self, count: int) -> None:
        """Advance by a number of characters."""
        self._at += count

    def rest(self) -> str:
        """Return the remaining text."""
        while self._read_more(max(_CHUNK, len(self._text))):
            self._refuse_large()
        return self._text[self._at :]

    def read_nested(self) -> str:
        """Return the object, list or string at the position, and advance past it."""
        if self._at > _CHUNK:
            self._text, self._at = self._text[self._at :], 0
        at, depth = self._at, 0
        while True:
            token = _TOKEN.search(self._text, at)
            if token is None or (self._text[token.start()] == '"' and not token["closed"]):
                at = len(self._text) if token is None else token.start()
                self._refuse_large()
                if not self._read_more(
                    max(_CHUNK, len(self._text))
                ):  # as much again, not to walk it too often
                    raise InvalidInput(_CUT)
                continue
            at = token.end()
            depth += _DEEPER.get(self._text[at - 1], 0)
            if depth > DEEPEST:
                raise InvalidInput(f"nested over {DEEPEST} levels deep")
            if depth == 0:
                begin, self._at = self._at, at
                return self._text[begin:at]

    def word(self) -> str:
        """Return the number or word at the position, and advance past it."""
        begin = self._at
        while (match := _WORD.match(self._text, begin)) and match.end() == len(self._text):
            self._refuse_large()
            if not self._read_more(_CHUNK):
                break
        self._at = match.end() if match else begin + 1
        return self._text[begin : self._at]

    def _read_more(self, size: int) -> bool:
        if self._ended:
            return False
        data = self._file.read(size)
        self._ended = not data
        try:
            self._text += self._decoder.decode(data, final=self._ended)
        except UnicodeDecodeError:
            raise InvalidInput("not UTF-8 text: save it as UTF-8") from None
        return not self._ended

    def _refuse_large(self) -> None:
        if len(self._text) - self._at > LARGEST_ELEMENT:
            raise InvalidInput(f"over {LARGEST_ELEMENT:,} characters in one piece")


# -- lines -------------------------------------------------------------------------------------------------


def iter_lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Yield the lines that are not blank, with their numbers from 1; None for one that is too long."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE and not line.endswith(b"\n"):
            while (more := file.readline(_CHUNK)) and not more.endswith(b"\n"):
                pass
            yield number, None
            continue
        if number == 1:
            if line.startswith(_WIDE):
                raise InvalidInput("it is UTF-16 text: save it as UTF-8")
            line = line.removeprefix(_BOM)
        if line.strip():
            yield number, line


def iter_documents(file: BinaryIO) -> Iterator[tuple[int, dict[str, Any] | InvalidInput]]:
    """Yield the JSON object of each line with its line number; an error for a broken line."""
    for number, line in iter_lines(file):
        if line is None:
            yield number, TooLarge(f"over {LONGEST_LINE:,} bytes long")
            continue
        try:
            yield number, parse_json_object(line)
        except InvalidInput as error:
            yield number, error


class TooLarge(InvalidInput):
    """A limit is exceeded."""


def read_text(path: Path, *, exactly: bool = False) -> str:
    """Return the text of a file with its line ends unchanged.

    Args:
        exactly: Whether to keep a byte order mark.

    Raises:
        TooLarge: it has over 64,000,000 bytes.
        InvalidInput: it cannot be read, or is not UTF-8.
    """
    with open_file(path) as file:
        return read_open_text(file, exactly=exactly)


def read_open_text(file: Readable, *, exactly: bool = False) -> str:
    """Return the text of an open file, as `read_text`."""
    data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise TooLarge(f"over {LARGEST_FILE:,} bytes")
    try:
        return data.decode("utf-8" if exactly else "utf-8-sig")
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


def get_modified_time(path: Path) -> datetime:
    """Return when a file was last changed."""
    return datetime.fromtimestamp(int(path.stat().st_mtime), UTC)


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
