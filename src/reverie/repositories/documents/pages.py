"""Pages and logs as files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reverie.domain.change import Change, Operation
from reverie.domain.errors import Conflict, InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import (
    HISTORY,
    LONGEST_PARAGRAPH,
    MEMORY,
    Page,
    is_log,
    validate_page,
    validate_page_name,
)
from reverie.repositories.documents.paths import (
    LONGEST_PATH,
    DocumentSource,
    OriginFunction,
    Parts,
    Texts,
    is_untrusted_change,
)
from reverie.repositories.pages import Pages
from reverie.stores.writer import StoreWriter

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
