"""Text files of an agent, by path, over pages and records.

A path is a tuple of names below one root. In the empty scope the files are the pages and logs. In another scope
they are records of that scope, and the pages can be read under `shared`. Both have the records under `records`, a
file for each. Nothing here opens a file on the disk, so links there lead nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeVar

from reverie.domain.change import Change
from reverie.domain.errors import InvalidInput
from reverie.domain.filter import Filter
from reverie.repositories.documents.pages import SHARED, PageDocuments, SharedPageDocuments
from reverie.repositories.documents.paths import (
    DocumentEntry,
    DocumentSource,
    OriginFunction,
    Parts,
    normalize_line_ends,
)
from reverie.repositories.documents.records import RecordDocuments, ScopedDocuments
from reverie.repositories.key_value import KeyValueStore
from reverie.repositories.pages import Pages
from reverie.repositories.records import RecordRepository
from reverie.repositories.writing import WritingRepository
from reverie.stores.writer import StoreWriter

RECORDS = "records"
"""The folder of the records."""

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
        saving: RecordRepository,
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
            saving: Changes records.
            items: Holds the files of a scope.
            unconfirmed: The same store, for files whose text comes from a tool.
            scope: The scope; in the empty one the files are the pages.
            look: Called before each operation; imports what a person changed in the readable files.
            determine_origin: Returns the origin of a text to be written; None where origins are not known.
        """
        super().__init__(writer)
        self.scope = scope
        self._look = look
        self._mounts: dict[str, DocumentSource] = {
            RECORDS: RecordDocuments(
                writer.store,
                saving=saving,
                store_name=items.name,
                scope=scope,
                clock=writer.clock,
                determine_origin=determine_origin,
            )
        }
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
            top = [each for each in content if len(each.path) == 1]
            sized = all(each.size is not None for each in top)
            head = DocumentEntry(
                path=(name,),
                folder=True,
                size=sum(each.size or 0 for each in top) if sized else None,
                count=None if sized else sum(each.count or 0 for each in top),
            )
            own.append(head)
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
        """Remove a file, or a folder with its content. Removing the file of a record archives the record.

        Returns:
            The number of files removed; 0 if there is no such file or folder.

        Raises:
            InvalidInput: it is the root, a log, the folder of records, or read-only.
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

        A record's file can be moved to another folder under `records`, which is another category.

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
