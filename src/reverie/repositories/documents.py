"""Text files of an agent, by path, over pages.

A path is a tuple of names below one root. In the empty scope the files are the pages and logs. In another scope they
are records of that scope, and the pages can be read under `shared`. Nothing here opens a file on the disk, so links
there lead nowhere.
"""

from __future__ import annotations

import unicodedata
import urllib.parse
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from reverie.domain.change import Change, Operation
from reverie.domain.errors import Conflict, InvalidInput
from reverie.domain.filter import Filter
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import (
    HISTORY,
    LONGEST_PAGE,
    LONGEST_PARAGRAPH,
    MEMORY,
    Page,
    is_log,
    validate_page,
    validate_page_name,
)
from reverie.domain.record import UNTRUSTED, Origin
from reverie.domain.text.validation import validate_raw_text
from reverie.repositories.key_value import KeyValueStore
from reverie.repositories.key_value_codec import PutItem
from reverie.repositories.pages import Pages
from reverie.repositories.writing import WritingRepository
from reverie.stores.protocol import Store
from reverie.stores.writer import StoreWriter

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
        size: Bytes of the file, or of all files in the folder.
    """

    path: Parts
    folder: bool
    size: int


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


SHARED = "shared"
"""The folder of everybody's pages, within a scope."""

_BLANK_LINES = defer_regex(r"\n(?:[^\S\n]*\n)+")


class PageDocuments(DocumentSource):
    """Pages and logs as files."""

    def __init__(
        self,
        writer: StoreWriter,
        pages: Pages,
        determine_origin: OriginFunction | None,
    ) -> None:
        self._determine_origin = determine_origin
        self._writer = writer
        self._store = writer.store
        self._pages = pages

    def paths(self) -> Iterable[Parts]:
        return map(convert_page_to_path, self._pages.names())

    def text(self, path: Parts) -> str | None:
        name = convert_path_to_page(path)
        if is_log(name):
            text = self._pages.read(name)
            return f"{text}\n" if text else None
        found = self._store.pages([name])
        return found[0].content if found else None

    def below(self, path: Parts) -> dict[Parts, str]:
        names = ((convert_page_to_path(name), name) for name in self._store.logs())
        logs = {at: f"{self._pages.read(name)}\n" for at, name in names if at[: len(path)] == path}
        pages = {convert_page_to_path(page.name): page.content for page in self._store.pages()}
        return {at: text for at, text in {**pages, **logs}.items() if at[: len(path)] == path}

    def change(self, before: Texts, after: Texts, operation: Operation) -> None:
        logs = [path for path in after if is_log(convert_path_to_page(path))]
        if logs:
            self._append_to_log(logs, before, after, operation)
            return
        present = {page.name: page for page in self._store.pages()}
        edits, now = [], self._writer.clock()
        for path, text in after.items():
            name = convert_path_to_page(path)
            there = present.get(name)
            if (None if there is None else there.content) != before[path]:
                raise Conflict(f"page {name!r} has been changed: read it again")
            if there is None:
                self._pages._refuse_twin(name)
            self._refuse_hearsay(name, before[path] or "", text or "")
            new = None if text is None else validate_page(Page(name=name, content=text, updated_at=now))
            edits.append(Change(before=there, after=new))
        self._writer.commit(edits, operation=operation, at=now)

    def _append_to_log(
        self, logs: Sequence[Parts], before: Texts, after: Texts, operation: Operation
    ) -> None:
        """Add to a log; nothing else can be done to one."""
        path = logs[0]
        old, new = before[path] or "", after[path]
        if len(after) > 1 or new is None or not new.startswith(old) or not new[len(old) :].strip():
            raise InvalidInput(
                f"{'/'.join(path)} only grows: text can be added behind its last line, and nothing else "
                "changed, removed or renamed"
            )
        name = convert_path_to_page(path)
        self._refuse_hearsay(name, old, new)
        added = new[len(old) :].strip()
        paragraphs = (
            _BLANK_LINES.split(added)
            if name == HISTORY
            else [line for line in map(str.strip, added.split("\n")) if line]
        )
        if any(len(each) > LONGEST_PARAGRAPH for each in paragraphs):
            raise InvalidInput(
                f"a paragraph of {name} has at most {LONGEST_PARAGRAPH:,} characters: add it in parts"
            )
        self._pages._append_paragraphs(name, paragraphs, operation=operation)

    def _refuse_hearsay(self, name: str, old: str, new: str) -> None:
        """Raise `InvalidInput` if an unconfirmed text of a tool would get into every prompt, or be recalled."""
        if (name == MEMORY or is_log(name)) and is_untrusted_change(self._determine_origin, old, new):
            raise InvalidInput(
                f"{name} is put before you unasked, and this text rests on what a tool said, which is not "
                "confirmed: write it into a file of its own, or ask the owner"
            )


class SharedPageDocuments(PageDocuments):
    """Pages and logs that can only be read."""

    def change(self, before: Texts, after: Texts, operation: Operation) -> None:
        raise InvalidInput(
            f"what is under {SHARED!r} is everybody's and can only be read here: write a file of your own beside it"
        )


def convert_path_to_page(path: Parts) -> str:
    """Return the name of the page for the file at a path; the inverse of `convert_page_to_path`.

    What a page may be named stands as it is. Every other name of a file ends in `..md`, of a folder in `..d`,
    with `_x20_` for a blank and the like.

    Raises:
        InvalidInput: the path is too long.

    >>> convert_path_to_page(("customers", "acme.md")), convert_path_to_page(("to do", "list.txt"))
    ('customers/acme.md', 'to_x20_do..d/list.txt..md')
    """
    *folders, file = path
    name = "/".join([*(_escape_name(each, _FOLDER) for each in folders), _escape_name(file, _FILE)])
    if len(name) > LONGEST_PATH:
        raise InvalidInput(f"the path is too long: at most {LONGEST_PATH} characters are kept")
    return validate_page_name(name)


def convert_page_to_path(name: str) -> Parts:
    """Return the path of the file for a page or log."""
    *folders, file = name.split("/")
    return (*(_unescape_name(each, _FOLDER) for each in folders), _unescape_name(file, _FILE))


_FILE = "..md"
_FOLDER = "..d"
_PLAIN = {
    _FILE: defer_regex(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*\.md"),
    # Folders named as what editors leave behind are none that the readable folder looks into.
    _FOLDER: defer_regex(
        r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(?<!\.swp)(?<!\.swx)(?<!\.tmp)(?<!\.bak)(?<!\.orig)(?<!\.part)"
    ),
}
_ESCAPE = defer_regex(r"_x([0-9a-f]{2,6})_")
_ESCAPED = defer_regex(r"[^A-Za-z0-9_.-]|^\.|_(?=x)")


def _escape_name(name: str, ending: str) -> str:
    if _PLAIN[ending].fullmatch(name) and _unescape_name(name, ending) == name:
        return name
    return _ESCAPED.sub(lambda found: f"_x{ord(found[0]):02x}_", name) + ending


def _unescape_name(name: str, ending: str) -> str:
    """Return the name of a file or folder from its escaped form; a name without escapes unchanged."""
    if not name.endswith(ending):
        return name
    found = _ESCAPE.sub(lambda escape: chr(min(int(escape[1], 16), 0x10FFFF)), name.removesuffix(ending))
    again = _ESCAPED.sub(lambda sign: f"_x{ord(sign[0]):02x}_", found) + ending
    is_plain = _PLAIN[ending].fullmatch(found) and not found.endswith(ending)
    return found if found and again == name and not is_plain and "/" not in found else name


class ScopedDocuments(DocumentSource):
    """Files that a key-value store keeps as records of a scope."""

    def __init__(
        self,
        store: Store,
        items: KeyValueStore,
        unconfirmed: KeyValueStore,
        determine_origin: OriginFunction | None,
    ) -> None:
        self._store = store
        self._items = items
        self._unconfirmed = unconfirmed  # the same store, whose new items have the origin `tool`
        self._determine_origin = determine_origin

    def text(self, path: Parts) -> str | None:
        found = self._items.get(path[:-1], path[-1])
        return None if found is None else str(found.value.get("text", ""))

    def below(self, path: Parts) -> dict[Parts, str]:
        found = self._items.items()
        texts = {(*each.namespace, each.key): str(each.value.get("text", "")) for each in found}
        return {at: text for at, text in texts.items() if at[: len(path)] == path}

    def change(self, before: Texts, after: Texts, operation: Operation) -> None:
        del operation  # the key-value store gives its own
        for path in after:
            if len("/".join(path)) > LONGEST_PATH:
                raise InvalidInput(f"the path is too long: at most {LONGEST_PATH} characters are kept")
        doubted = [path for path, text in before.items() if text is not None and not self.is_confirmed(path)]
        moved = set(before.values())
        for path, text in after.items():
            old = before[path]
            if (
                text is None
                or text in moved
                or not is_untrusted_change(self._determine_origin, old or "", text)
            ):
                continue
            if old is not None and path not in doubted:
                raise InvalidInput(
                    "this text rests on what a tool said, which is not confirmed, and the file does not: "
                    "write it into a file of its own, or ask the owner"
                )
            doubted.append(path)
        (self._unconfirmed if doubted else self._items).put_many(
            [
                PutItem(
                    namespace=path[:-1],
                    key=path[-1],
                    value=None if text is None else {"text": validate_file_text(text)},
                    texts=None if text is None else [text],
                )
                for path, text in after.items()
            ],
            expected={
                (path[:-1], path[-1]): None if text is None else {"text": text}
                for path, text in before.items()
            },
        )

    def is_confirmed(self, path: Parts) -> bool:
        found = self._items.get(path[:-1], path[-1])
        records = [] if found is None else self._store.records([found.record])
        return all(record.origin not in UNTRUSTED for record in records)


KEPT_AS = "memory-files"
"""Name of the key-value store that holds the files of a scope."""

_T = TypeVar("_T")


class Documents(WritingRepository):
    """Text files of an agent; every change is journalled. `ScopedMemory.documents` returns it.

    Safe to use from several threads, and beside other processes: each change is one transaction, made from
    what is there at that moment.

    Example:
        >>> from reverie import Memory
        >>> with Memory.open(":memory:") as memory:
        ...     files = memory.scoped("").documents()
        ...     _ = files.create(("customers", "acme.md"), "Pays by invoice.")
        ...     files.read(("customers", "acme.md")), memory.pages.names()
        ('Pays by invoice.', ['customers/acme.md'])
    """

    def __init__(
        self,
        writer: StoreWriter,
        *,
        pages: Pages,
        items: KeyValueStore,
        unconfirmed: KeyValueStore,
        scope: str,
        look: Callable[[], None],
        determine_origin: OriginFunction | None = None,
    ) -> None:
        """Show a memory as files; `ScopedMemory.documents` is the usual way.

        Args:
            writer: Commits the changes.
            pages: Adds to logs.
            items: Holds the files of a scope.
            unconfirmed: The same store, for files whose text comes from a tool.
            scope: The scope; in the empty one the files are the pages.
            look: Called before each operation; imports what a person changed in the readable files.
            determine_origin: Returns the origin of a text to be written; None where origins are not known.
        """
        super().__init__(writer)
        self.scope = scope
        self._look = look
        self._mounts: dict[str, DocumentSource] = {}
        self._root: DocumentSource
        if scope:
            self._mounts[SHARED] = SharedPageDocuments(writer, pages, determine_origin)
            self._root = ScopedDocuments(writer.store, items, unconfirmed, determine_origin)
        else:
            self._root = PageDocuments(writer, pages, determine_origin)

    # -- reading -----------------------------------------------------------------------------------------

    def kind(self, path: Parts) -> Literal["file", "folder"] | None:
        """Return whether a file or a folder is at a path; None for neither. The root is always there."""
        self._look()
        return self._get_kind(path)

    def read(self, path: Parts) -> str | None:
        """Return the text of a file; None if there is no such file."""
        self._look()
        files, inside = self._resolve_mount(path)
        return files.text(inside) if inside else None

    def is_confirmed(self, path: Parts) -> bool:
        """Return whether a file is the owner's or the agent's own word, as far as that is known."""
        files, inside = self._resolve_mount(path)
        return not inside or files.is_confirmed(inside)

    def listed(self, path: Parts = (), *, depth: int = 2) -> list[DocumentEntry]:
        """List a folder: names in order, each folder followed by its contents, without hidden names.

        Args:
            path: The folder; empty for the root.
            depth: How many levels, 1 or more.
        """
        self._look()
        files, inside = self._resolve_mount(path)
        found = files.listed(inside, depth)
        if path:
            return found
        own = [each for each in found if each.path[0] not in self._mounts]
        for name, mount in self._mounts.items():
            content = mount.listed((), max(1, depth - 1))
            if not content:
                continue
            size = sum(each.size for each in content if len(each.path) == 1)
            own.append(DocumentEntry(path=(name,), folder=True, size=size))
            if depth > 1:
                own += [replace(each, path=(name, *each.path)) for each in content]
        return sorted(own, key=lambda each: each.path)

    # -- changing ----------------------------------------------------------------------------------------

    def create(self, path: Parts, text: str) -> bool:
        r"""Create a file.

        Args:
            path: Its path.
            text: Its text, up to 200,000 characters; line ends become `\n`.

        Returns:
            False if there is a file or folder of that name.

        Raises:
            InvalidInput: a file cannot have that name or text; the message says why.
        """
        text = normalize_line_ends(text)

        def attempt(_: int) -> bool:
            if self._get_kind(path) is not None:
                return False
            files, inside = self._resolve_new_path(path)
            files.change({inside: None}, {inside: text}, "write")
            return True

        return self._run_with_retries(attempt)

    def edit(self, path: Parts, change: Callable[[str], str]) -> str | None:
        """Change the text of a file, in one transaction: what others write meanwhile is never overwritten.

        Args:
            path: Which file.
            change: Returns the new text for the present one; called again after a lost race. What it raises is
                raised, and nothing is changed.

        Returns:
            The text of the file now; None if there is no such file.

        Raises:
            InvalidInput: the file cannot have that text, is read-only, or only grows.
        """

        def attempt(_: int) -> str | None:
            files, inside = self._resolve_mount(path)
            old = files.text(inside) if inside else None
            if old is None:
                return None
            new = normalize_line_ends(change(old))
            if new == old:
                return old
            files.change({inside: old}, {inside: new}, "write")
            return files.text(inside)  # as it was stored: secrets may have been replaced

        return self._run_with_retries(attempt)

    def remove(self, path: Parts) -> int:
        """Remove a file, or a folder with its content.

        Returns:
            The number of files removed; 0 if there is no such file or folder.

        Raises:
            InvalidInput: it is the root, a log, or read-only.
        """
        self._refuse_roots(path)

        def attempt(_: int) -> int:
            files, inside = self._resolve_mount(path)
            there = files.below(inside)
            if there:
                files.change(dict(there), dict.fromkeys(there), "delete")
            return len(there)

        return self._run_with_retries(attempt)

    def move(self, old: Parts, new: Parts) -> Literal["moved", "missing", "taken"]:
        """Move a file, or a folder with its content, to another path.

        Returns:
            `missing` if there is nothing at `old`, `taken` if there is something at `new`.

        Raises:
            InvalidInput: it cannot be moved, or not to that place.
        """
        self._refuse_roots(old)

        def attempt(_: int) -> Literal["moved", "missing", "taken"]:
            if self._get_kind(new) is not None:
                return "taken"
            files, inside = self._resolve_mount(old)
            there = files.below(inside)
            if not there:
                return "missing"
            if new[: len(old)] == old:
                raise InvalidInput("a folder cannot be moved into itself: choose another place")
            other, beyond = self._resolve_new_path(new)
            if files is not other:
                raise InvalidInput(
                    f"files cannot be moved into or out of {' or '.join(map(repr, self._mounts))}: "
                    "create the other one and delete this one"
                )
            moved = {(*beyond, *path[len(inside) :]): text for path, text in there.items()}
            removed: dict[Parts, str | None] = dict.fromkeys(there)
            free: dict[Parts, str | None] = dict.fromkeys(moved)
            files.change({**there, **free}, {**removed, **moved}, "rename")
            return "moved"

        return self._run_with_retries(attempt)

    def clear(self) -> None:
        """Remove all pages, or all files of the scope, and archive its records, in one transaction.

        Logs stay, because they only grow. An undo brings everything back.
        """

        def attempt(_: int) -> None:
            store, now = self._writer.store, self._writer.clock()
            pages = [] if self.scope else store.pages()
            edits = [Change(before=page, after=None) for page in pages]
            for record in store.find(Filter(scopes=(self.scope,))):
                archived = replace(record, archived_at=now, archive_reason="clear all memory")
                edits.append(Change(before=record, after=archived))
            if edits:
                self._writer.commit(edits, operation="clear", at=now)

        self._run_with_retries(attempt)

    # -- inside ------------------------------------------------------------------------------------------

    def _get_kind(self, path: Parts) -> Literal["file", "folder"] | None:
        if not path:
            return "folder"
        files, inside = self._resolve_mount(path)
        if not inside:
            return "folder" if files.listed((), 1) else None
        return files.kind(inside)

    def _resolve_mount(self, path: Parts) -> tuple[DocumentSource, Parts]:
        mount = self._mounts.get(path[0]) if path else None
        return (self._root, path) if mount is None else (mount, path[1:])

    def _resolve_new_path(self, path: Parts) -> tuple[DocumentSource, Parts]:
        """Return the mount for a new file at a path; raise `InvalidInput` if there is none."""
        if len(path) == 1 and path[0] in self._mounts:
            raise InvalidInput(f"{path[0]!r} is the name of a folder here: choose another one")
        for end in range(1, len(path)):
            if self._get_kind(path[:end]) == "file":
                raise InvalidInput(f"{'/'.join(path[:end])!r} is a file, and files cannot lie in it")
        return self._resolve_mount(path)

    def _refuse_roots(self, path: Parts) -> None:
        if not path or (len(path) == 1 and path[0] in self._mounts):
            raise InvalidInput("this folder cannot be removed or renamed: name what lies in it")

    def _run_with_retries(self, attempt: Callable[[int], _T]) -> _T:
        self._look()
        return super()._run_with_retries(attempt)
