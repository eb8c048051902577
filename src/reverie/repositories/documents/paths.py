"""Paths of files as tuples of names: parsing, validation, listing."""

from __future__ import annotations

import unicodedata
import urllib.parse
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from reverie.domain.change import Operation
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import LONGEST_PAGE
from reverie.domain.record import UNTRUSTED, Origin
from reverie.domain.text.validation import validate_raw_text

Parts = tuple[str, ...]
"""A path below the root, name by name; empty for the root itself."""

Texts = Mapping[Parts, str | None]
"""Texts of files by path; None where there is no file."""

OriginFunction = Callable[[str], Origin]
"""Returns the origin of a text that an agent wants to store, such as `Session.determine_origin`."""

LONGEST_PATH = 200
"""Characters of a path below the root."""

_LINE_ENDS = defer_regex(r"\r\n?")
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_LIKE_SLASHES_AND_DOTS = frozenset("\\∕⁄⧸╱⟋／∖⧵⧹⟍﹨＼․‥…．｡。﹒")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentEntry:
    """One file or folder in a list.

    Attributes:
        path: Where it is, below the folder that was listed.
        folder: Whether it is a folder.
        size: Bytes of the file, or of all files in the folder; None for a folder of records.
        count: Records in a folder of records; None for all else.
    """

    path: Parts
    folder: bool
    size: int | None
    count: int | None = None


class DocumentSource(ABC):
    """Base of sources of files. Paths are relative to the source, and empty only in `below` and `listed`."""

    @abstractmethod
    def text(self, path: Parts) -> str | None:
        """Return the text of a file; None if there is none."""

    @abstractmethod
    def below(self, path: Parts) -> dict[Parts, str]:
        """Return the file at a path with its text, or all files in the folder there; empty if there is neither."""

    @abstractmethod
    def change(self, before: Texts, after: Texts, operation: Operation) -> None:
        """Make all changes in one transaction, or none.

        Args:
            before: The old texts.
            after: The new texts, at the same paths.
            operation: The operation, for the journal.

        Raises:
            Conflict: the present texts are not `before`.
            InvalidInput: the files cannot have these texts.
        """

    def paths(self) -> Iterable[Parts]:
        """Return the paths of all files."""
        return self.below(())

    def kind(self, path: Parts) -> Literal["file", "folder"] | None:
        """Return whether there is a file or a folder."""
        kind: Literal["folder"] | None = None
        for each in self.paths():
            if each == path:
                return "file"
            if each[: len(path)] == path:
                kind = "folder"
        return kind

    def is_confirmed(self, path: Parts) -> bool:
        """Return whether a file is the owner's or the agent's own word, as far as that is known."""
        return True

    def listed(self, under: Parts, depth: int) -> list[DocumentEntry]:
        """List a folder down to a depth, in order, without hidden names."""
        folders: Counter[Parts] = Counter()
        entries: list[DocumentEntry] = []
        for path, text in self.below(under).items():
            inside, size = path[len(under) :], len(text.encode())
            for end in range(1, min(len(inside), depth + 1)):
                folders[inside[:end]] += size
            if 0 < len(inside) <= depth:
                entries.append(DocumentEntry(path=inside, folder=False, size=size))
        entries += [DocumentEntry(path=path, folder=True, size=size) for path, size in folders.items()]
        shown = [each for each in entries if not any(map(_is_hidden, each.path))]
        return sorted(shown, key=lambda each: each.path)


def is_untrusted_change(determine_origin: OriginFunction | None, old: str, new: str) -> bool:
    """Return whether what a new text adds to the old one is of an origin that is not trusted.

    Args:
        determine_origin: Returns the origin of a text; None where origins are not known.
        old: The old text.
        new: The new text.
    """
    known = set(old.splitlines())
    added = "\n".join(line for line in new.splitlines() if line not in known)
    return determine_origin is not None and bool(added.strip()) and determine_origin(added) in UNTRUSTED


def parse_path(text: object) -> Parts:
    """Split a path below the root at `/`, without empty names and `.`.

    Args:
        text: What the caller passed.

    Raises:
        InvalidInput: it leads out of the root, or could be taken for one that does: it has `..`, also
            percent-encoded, a backslash, or characters that look like these or are invisible.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"a path is {type(text).__name__}: pass a string")
    path = unicodedata.normalize("NFC", text)
    decoded = path
    for _ in range(8):  # it may be encoded several times
        decoded, before = urllib.parse.unquote(decoded), decoded
        if decoded == before:
            break
    for form in {path, decoded, unicodedata.normalize("NFKC", decoded)}:
        if ".." in form.split("/") or form.count("/") != path.count("/"):
            raise InvalidInput("the path leads out of the folder")
        if _LIKE_SLASHES_AND_DOTS & set(form):
            raise InvalidInput("the path has a character that looks like a slash or a dot, or a backslash")
        if _has_unseen(form):
            raise InvalidInput("the path has a character that cannot be seen")
    parts = tuple(part for part in path.split("/") if part not in {"", "."})
    for part in parts:
        if part != part.strip():
            raise InvalidInput("a name in the path begins or ends with a blank")
    return parts


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or _has_unseen(name)


def _has_unseen(text: str) -> bool:
    return any(unicodedata.category(sign) in _UNSEEN for sign in text)


def normalize_line_ends(text: str) -> str:
    r"""Return the text with `\n` as its only line end."""
    return _LINE_ENDS.sub("\n", text)


def validate_file_text(text: object) -> str:
    """Return the text if a file may contain it; raise `InvalidInput` otherwise."""
    return validate_raw_text(text, name="text", longest=LONGEST_PAGE, empty=True)
