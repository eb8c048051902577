"""Text files of an agent, by path: views of pages, and of records of a scope.

A path is a tuple of names below one root. In the shared scope the files are the pages, the logs (read-only), and
records for names that a page cannot have, such as `list.txt`. In another scope they are records of that scope, and the
pages can be read under `shared`. Nothing here opens a file on the disk, so links there lead nowhere.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from reverie.domain.change import Change, Operation
from reverie.domain.errors import Conflict, InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import LONGEST_PAGE, MEMORY, Page, is_log, is_page_name, validate_page
from reverie.domain.provenance import OriginFunction
from reverie.domain.record import UNTRUSTED, Origin
from reverie.domain.text.validation import validate_raw_text
from reverie.repositories.key_value import KeyValueStore, PutItem
from reverie.repositories.pages import Pages, refuse_twin
from reverie.stores.writer import StoreWriter, WritingRepository

Parts = tuple[str, ...]
"""A path below the root, name by name; empty for the root itself."""

Texts = Mapping[Parts, str | None]
"""Texts of files by path; None for no file."""

SHARED = "shared"
"""The folder of the pages, within a scope."""

STORE_NAME = "memory-files"
"""Name of the key-value store of the files that are records."""

MAX_PATH_CHARS = 200
"""Characters of a path below the root."""

_LINE_ENDS = defer_regex(r"\r\n?")
_ENCODED = defer_regex(r"%(?:25|2[ef]|5c)", re.IGNORECASE)  # a percent sign, dot, slash or backslash
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_LIKE_SLASHES_AND_DOTS = frozenset("\\∕⁄⧸╱⟋／∖⧵⧹⟍﹨＼․‥…．｡。﹒")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentEntry:
    """One file or folder in a list.

    Attributes:
        path: Its path below the listed folder.
        folder: Whether it is a folder.
        size: Bytes of the file, or of all files in the folder.
    """

    path: Parts
    folder: bool
    size: int


class Documents(WritingRepository):
    """Text files of an agent; every change is journalled. `ScopedMemory.documents` returns it.

    Safe to use from several threads and processes: each change is one transaction, made from the present texts.

    Example:
        >>> from reverie import Memory
        >>> with Memory.open(":memory:") as memory:
        ...     files = memory.scoped("").documents()
        ...     files.change(lambda present: {("customers", "acme.md"): "Pays by invoice."}, "write")
        ...     files.read(("customers", "acme.md")), memory.pages.names()
        ('Pays by invoice.', ['customers/acme.md'])
    """

    def __init__(
        self,
        writer: StoreWriter,
        *,
        pages: Pages,
        items: KeyValueStore,
        look: Callable[[], None],
        determine_origin: OriginFunction | None = None,
    ) -> None:
        """Show a memory as files; `ScopedMemory.documents` is the usual way.

        Args:
            writer: Commits the changes.
            pages: The pages.
            items: The files that are records; its scope is that of the files.
            look: Called before each operation; imports hand edits of files.
            determine_origin: Returns the origin of a text to be written; None if origins are not known.
        """
        super().__init__(writer)
        self.scope = items.scope
        self._pages = pages
        self._items = items
        self._look = look
        self._determine_origin = determine_origin

    # -- reading -----------------------------------------------------------------------------------------

    def find(self, path: Parts = ()) -> dict[Parts, str]:
        """Return the file at a path with its text, or all files in the folder there; the root always exists."""
        self._look()
        return self._find(path)

    def read(self, path: Parts) -> str | None:
        """Return the text of a file; None if there is no such file."""
        return self.find(path).get(path)

    def is_confirmed(self, path: Parts) -> bool:
        """Return whether a file is of a trusted origin, as far as that is known."""
        found = None if not path or self._is_page(path) else self._items.get(path[:-1], path[-1])
        return found is None or found.origin not in UNTRUSTED

    def listed(self, path: Parts = (), *, depth: int = 2) -> list[DocumentEntry]:
        """List a folder: names in order, each folder followed by its contents, without hidden names.

        Args:
            path: The folder; empty for the root.
            depth: How many levels, 1 or more.
        """
        folders: Counter[Parts] = Counter()
        entries: list[DocumentEntry] = []
        for each, text in self.find(path).items():
            inside, size = each[len(path) :], len(text.encode())
            for end in range(1, min(len(inside), depth + 1)):
                folders[inside[:end]] += size
            if 0 < len(inside) <= depth:
                entries.append(DocumentEntry(path=inside, folder=False, size=size))
        entries += [DocumentEntry(path=inside, folder=True, size=size) for inside, size in folders.items()]
        shown = [each for each in entries if not any(map(_is_hidden, each.path))]
        return sorted(shown, key=lambda each: each.path)

    # -- changing ----------------------------------------------------------------------------------------

    def change(self, plan: Callable[[Mapping[Parts, str]], Texts], operation: Operation) -> None:
        """Create, rewrite, move or remove files in one transaction, which overwrites no text of another writer.

        Args:
            plan: Returns the new texts by path, None for a file to be removed, for the present texts of all files. It
                is called again after a lost race; its errors are raised, and nothing is changed.
            operation: The operation, for the journal.

        Raises:
            InvalidInput: the files cannot have these names or texts, or are read-only.
        """

        def attempt(_: int) -> None:
            present = self._find(())
            after = {path: text and normalize_line_ends(text) for path, text in plan(present).items()}
            files = {path for path, text in (present | after).items() if text is not None}
            folders = (path[:end] for path in files for end in range(1, len(path)))
            if file := next((each for each in folders if each in files), None):
                raise InvalidInput(f"{'/'.join(file)!r} is a file, and files cannot lie in it")
            before = {path: present.get(path) for path in after}
            if after != before:
                self._change(before, after, operation)

        self._look()
        self._run_with_retries(attempt)

    # -- files ---------------------------------------------------------------------------------------------

    def _is_page(self, path: Parts) -> bool:
        """Return whether the file at a path is, or would be, a page or log."""
        if self.scope:
            return path[:1] == (SHARED,)
        name = "/".join(path)
        # The readable folder does not look into folders that editors may have left behind, such as `x.tmp`.
        is_plain = not any("." in folder for folder in path[:-1])
        return is_page_name(name) and (is_plain or bool(self._store.pages([name])))

    def _find(self, path: Parts) -> dict[Parts, str]:
        """Return the file at a path with its text, or all files in the folder there."""
        found = self._items.get(path[:-1], path[-1]) if path else None
        items = self._items.items(path) if found is None else [found]
        files = {(*each.namespace, each.key): str(each.value.get("text", "")) for each in items}
        above = (SHARED,) if self.scope else ()
        for page in self._store.pages():
            files[(*above, *page.name.split("/"))] = page.content
        for name in self._store.logs():
            at = (*above, *name.split("/"))
            if at[: len(path)] == path:
                files[at] = f"{self._pages.read(name)}\n"
        return {at: text for at, text in files.items() if at[: len(path)] == path}

    def _change(self, before: Texts, after: Texts, operation: Operation) -> None:
        """Make all changes in one transaction, or none.

        Args:
            before: The old texts.
            after: The new texts, at the same paths.
            operation: The operation, for the journal.

        Raises:
            Conflict: the present texts are not `before`.
            InvalidInput: the files cannot have these texts.
        """
        if any("/".join(path)[MAX_PATH_CHARS:] for path in after):
            raise InvalidInput(f"the path is too long: at most {MAX_PATH_CHARS} characters are allowed")
        pages = [path for path in after if self._is_page(path)]
        if locked := next(("/".join(path) for path in pages if self.scope or is_log("/".join(path))), None):
            raise InvalidInput(f"{locked!r} is read-only here: write a separate file outside of it")
        origin = self._determine_change_origin(before, after)
        present = {page.name: page for page in self._store.pages()} if pages else {}
        changes = [self._plan_page("/".join(path), before[path], after[path], present) for path in pages]
        changes += self._plan_items(
            before, {path: after[path] for path in after if path not in pages}, origin
        )
        self._writer.commit(changes, operation=operation)

    def _plan_page(self, name: str, old: str | None, new: str | None, present: Mapping[str, Page]) -> Change:
        page = present.get(name)
        if (None if page is None else page.content) != old:
            raise Conflict(f"page {name!r} has been changed: read it again")
        if page is None:
            refuse_twin(name, self._pages.names())
        now = self._writer.clock()
        after = None if new is None else validate_page(Page(name=name, content=new, updated_at=now))
        return Change(before=page, after=after)

    def _plan_items(self, before: Texts, after: Texts, origin: Origin | None) -> list[Change]:
        puts, expected = [], {}
        for path, text in after.items():
            value = texts = None
            if text is not None:
                validate_raw_text(text, name="text", longest=LONGEST_PAGE, empty=True)
                value, texts = {"text": text}, [text]
            *namespace, key = path
            puts.append(PutItem(namespace=tuple(namespace), key=key, value=value, texts=texts, origin=origin))
            expected[puts[-1].place] = None if (old := before[path]) is None else {"text": old}
        return self._items.plan(puts, expected)

    def _determine_change_origin(self, before: Texts, after: Texts) -> Origin | None:
        """Return `tool` for a change that rests on what a tool said; None for the origin of the store.

        Only lines that no text had before count, and paths of new files.

        Raises:
            InvalidInput: such a text would get into a confirmed file, or into the page of every prompt.
        """
        known = {line for text in before.values() for line in (text or "").splitlines()}
        rows = [line for text in after.values() for line in (text or "").splitlines() if line not in known]
        added = "\n".join(rows).strip()
        labels = ["/".join(path) for path, text in after.items() if text is not None and before[path] is None]
        is_doubted = any(text is not None and not self.is_confirmed(path) for path, text in before.items())
        if self._determine_origin is not None and (added or labels):
            is_doubted |= self._determine_origin(added, labels=labels) in UNTRUSTED
        for path, text in after.items() if is_doubted else ():
            is_page, old = self._is_page(path), before[path]
            is_trusted = path == (MEMORY,) if is_page else old is not None and self.is_confirmed(path)
            if is_trusted and text not in (None, old):
                raise InvalidInput(
                    f"this text rests on what a tool said, which is not confirmed, and {'/'.join(path)!r} does not: "
                    "write it into a separate file, or ask the owner"
                )
        return "tool" if is_doubted else None


# -- paths and names -----------------------------------------------------------------------------------


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
    if ".." in path.split("/") or _ENCODED.search(path):
        raise InvalidInput("the path leads out of the folder")
    if _LIKE_SLASHES_AND_DOTS & set(path):
        raise InvalidInput("the path has a character that looks like a slash or a dot, or a backslash")
    if _has_unseen(path):
        raise InvalidInput("the path has a character that cannot be seen")
    parts = tuple(part for part in path.split("/") if part not in {"", "."})
    if any(part != part.strip() for part in parts):
        raise InvalidInput("a name in the path begins or ends with a blank")
    return parts


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or _has_unseen(name)


def _has_unseen(text: str) -> bool:
    return any(unicodedata.category(sign) in _UNSEEN for sign in text)


def normalize_line_ends(text: str) -> str:
    r"""Return the text with `\n` as its only line end."""
    return _LINE_ENDS.sub("\n", text)
