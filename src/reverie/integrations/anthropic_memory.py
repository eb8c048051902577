"""Claude's memory tool `memory_20250818` over a memory.

Claude sees a folder `/memories`. In the shared scope its files are the pages, the logs (read-only), and values of a
key-value store for names that a page cannot have, such as `list.txt`. In another scope they are values of that scope,
and the pages can be read under `shared`. Nothing opens a file on the disk, so links there lead nowhere. Paths, answers
and errors are in the words that Claude was taught. Every change is one transaction by `agent`.
"""

from __future__ import annotations

import asyncio
import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reverie.domain.change import Operation
from reverie.domain.errors import Conflict, InvalidInput, MissingExtra, NotFound
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import LONGEST_PAGE, MEMORY, is_log, is_page_name
from reverie.domain.record import UNTRUSTED, Origin
from reverie.domain.text.escaping import NOT_CONFIRMED, escape_output, to_stored_edit
from reverie.domain.text.validation import validate_raw_text
from reverie.repositories.key_value import PutItem
from reverie.scoped import ScopedMemory
from reverie.stores.writer import retry_conflicts

try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
except ImportError:
    raise MissingExtra(
        "Claude's memory tool needs anthropic 0.125 or newer: pip install 'reverie[anthropic]'"
    ) from None

if TYPE_CHECKING:
    from anthropic.types.beta import BetaCacheControlEphemeralParam

    from reverie.session import Session

ROOT = "/memories"

LONGEST_SHOWN = 2_000_000
"""Characters of a file that are shown at once, line numbers included; no page has as many."""

MAX_PATH_CHARS = 200
"""Characters of a path below the root."""

Parts = tuple[str, ...]
"""A path below the root, name by name; empty for the root itself."""

Texts = Mapping[Parts, str | None]
"""Texts of files by path; None for no file."""

_STORE = "memory-files"
_SHARED = "shared"
_LINE_ENDS = defer_regex(r"\r\n?")
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_AROUND = 2  # lines shown before and after a change
_DEPTH = 2
_UNITS = "BKMG"
_DOUBTED = f"(This file rests on what a tool said, and is {NOT_CONFIRMED}.)"
_MISSING = "The path {} does not exist"
_INVALID = "The path {} does not exist. Please provide a valid path."


class _Commands:
    """Commands of the tool. They raise a `ToolError` for what Claude can act on."""

    def __init__(self, memory: ScopedMemory, session: Session | None) -> None:
        self._memory = memory.acting("agent")
        self._items = self._memory.key_value(_STORE)
        self._determine_origin = None if session is None else session.determine_origin
        self._above = (_SHARED,) if memory.scope else ()

    def view(self, command: Any) -> str:
        """Return a file with line numbers, or the contents of a folder, two levels deep."""
        path = _require_text(command, "path")
        parts = _parse_path(path)
        found = self._find(parts)
        if parts not in found:
            if parts and not found:
                raise ToolError(_INVALID.format(path))
            return self._list_folder(path, parts)
        text = found[parts]
        lines = text.split("\n")
        first, last = _parse_range(command, len(lines))
        shown = _number_lines(lines, first, last)
        if len(shown) > LONGEST_SHOWN:  # only logs grow so long
            raise ToolError(
                f"File {path} has {len(lines):,} lines, too much to be shown at once. "
                f"Please pass a shorter view_range, such as [{max(1, len(lines) - 200)}, -1]."
            )
        content = f"Here's the content of {path} with line numbers:\n{shown}"
        return content if self._is_confirmed(parts) else f"{content}\n{_DOUBTED}"

    def create(self, command: Any) -> str:
        """Create a file."""
        path, text = _require_text(command, "path"), _require_text(command, "file_text")
        parts = _parse_path(path)

        def plan(present: Texts) -> Texts:
            if not parts or _select_under(present, parts):
                raise ToolError(f"File {path} already exists")
            return {parts: text}

        self._change(plan, "write")
        return f"File created successfully at: {path}"

    def str_replace(self, command: Any) -> str:
        """Replace a text that occurs once in a file."""
        path = _require_text(command, "path")
        old, new = (_normalize_line_ends(_require_text(command, name)) for name in ("old_str", "new_str"))
        changed: list[int] = []

        def change(text: str) -> str:
            piece, after = to_stored_edit(text, old, new)
            found = [match.start() for match in re.finditer(f"(?={re.escape(piece)})", text)]
            if not found:
                raise ToolError(
                    f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
                )
            if len(found) > 1 and text.count(piece) > 1:
                lines = ", ".join(str(text[:place].count("\n") + 1) for place in found)
                raise ToolError(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
                    f"{lines}. Please ensure it is unique"
                )
            changed.append(text[: found[0]].count("\n") + 1)
            return text.replace(piece, after)

        after = self._edit_file(path, change)
        lines = after.split("\n")
        shown = _number_lines(lines, changed[-1] - _AROUND, changed[-1] + _AROUND)
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
            + shown
        )

    def insert(self, command: Any) -> str:
        """Insert lines after a line of a file."""
        path, text = _require_text(command, "path"), _require_text(command, "insert_text")
        place = getattr(command, "insert_line", None)
        if isinstance(place, bool) or not isinstance(place, int):
            raise ToolError("The parameter `insert_line` is missing or is not a whole number")

        def change(before: str) -> str:
            lines = before.split("\n")
            if lines[-1] == "":
                lines.pop()
            if not 0 <= place <= len(lines):
                raise ToolError(
                    f"Invalid `insert_line` parameter: {place}. "
                    f"It should be within the range [0, {len(lines)}]."
                )
            after = "\n".join([*lines[:place], _normalize_line_ends(text).rstrip("\n"), *lines[place:]])
            return after if after.endswith("\n") else f"{after}\n"

        self._edit_file(path, change)
        return f"The file {path} has been edited."

    def delete(self, command: Any) -> str:
        """Remove a file or folder; undo restores it."""
        path = _require_text(command, "path")
        parts = _parse_path(path)
        if not parts:
            raise ToolError(f"Cannot delete the {ROOT} directory itself")

        def plan(present: Texts) -> Texts:
            if not (gone := _select_under(present, parts)):
                raise ToolError(_MISSING.format(path))
            return dict.fromkeys(gone)

        self._change(plan, "delete")
        return f"Successfully deleted {path}"

    def rename(self, command: Any) -> str:
        """Move a file or folder to another path."""
        old, new = _require_text(command, "old_path"), _require_text(command, "new_path")
        parts, others = _parse_path(old), _parse_path(new)
        if not parts:
            raise ToolError(f"Cannot rename the {ROOT} directory itself")

        def plan(present: Texts) -> Texts:
            if not others or _select_under(present, others):
                raise ToolError(f"The destination {new} already exists")
            if not (files := _select_under(present, parts)):
                raise ToolError(_MISSING.format(old))
            if others[: len(parts)] == parts:
                raise InvalidInput("a folder cannot be moved into itself: choose another path")
            return dict.fromkeys(files) | {(*others, *each[len(parts) :]): files[each] for each in files}

        self._change(plan, "rename")
        return f"Successfully renamed {old} to {new}"

    # -- inside ------------------------------------------------------------------------------------------

    def _edit_file(self, path: str, change: Callable[[str], str]) -> str:
        """Change a file, and return its text."""
        parts = _parse_path(path)

        def plan(present: Texts) -> Texts:
            if (text := present.get(parts)) is None:
                is_folder = not parts or _select_under(present, parts)
                raise ToolError(f"The path {path} is not a file." if is_folder else _INVALID.format(path))
            return {parts: change(text)}

        self._change(plan, "write")
        return self._find(parts)[parts]

    def _list_folder(self, path: str, parts: Parts) -> str:
        files = {each[len(parts) :]: text for each, text in self._find(parts).items()}
        sizes: Counter[Parts] = Counter()
        for inside, text in files.items():
            for end in range(1, min(len(inside), _DEPTH) + 1):
                sizes[inside[:end]] += len(text.encode())
        shown = sorted(each for each in sizes if not any(map(_is_hidden, each)))
        lines = [f"{_format_size(sum(sizes[each] for each in shown if len(each) == 1))}\t{path}"]
        for inside in shown:
            name = f"{'/'.join(inside)}{'' if inside in files else '/'}"
            lines.append(f"{_format_size(sizes[inside])}\t{path}/{escape_output(name)}")
        header = (
            f"Here're the files and directories up to {_DEPTH} levels deep in {path}, excluding hidden items:"
        )
        return "\n".join([header, *lines])

    # -- files -------------------------------------------------------------------------------------------

    def _find(self, path: Parts = ()) -> dict[Parts, str]:
        """Return the file at a path with its text, or all files in the folder there."""
        self._memory.refresh_files()
        files = {(*each.namespace, each.key): str(each.value.get("text", "")) for each in self._items.items()}
        for name, text in self._memory.pages.texts().items():
            files[(*self._above, *name.split("/"))] = f"{text}\n" if is_log(name) else text
        return {at: text for at, text in files.items() if at[: len(path)] == path}

    def _change(self, plan: Callable[[Texts], Texts], operation: Operation) -> None:
        """Change files in one transaction, which overwrites no text of another writer.

        Args:
            plan: Returns the new texts by path, None for a file to be removed, for the present texts of all files. It
                is called again after a lost race.
            operation: The operation, for the journal.
        """

        def attempt(_: int) -> None:
            present = self._find()
            after = {path: text and _normalize_line_ends(text) for path, text in plan(present).items()}
            before = {path: present.get(path) for path in after}
            if after != before:
                self._check_names(present | after, after)
                self._commit(before, after, operation)

        try:
            retry_conflicts(attempt, read_state=self._find)
        except (InvalidInput, NotFound, Conflict) as error:
            raise ToolError(f"Nothing was done: {error}.") from None

    def _check_names(self, files: Texts, changed: Texts) -> None:
        """Raise `InvalidInput` if files cannot have the names that they would have after a change."""
        left = {path for path, text in files.items() if text is not None}
        folders = (path[:end] for path in left for end in range(1, len(path)))
        if file := next((each for each in folders if each in left), None):
            raise InvalidInput(f"{'/'.join(file)!r} is a file, and files cannot lie in it")
        for path in changed:
            name = "/".join(path)
            if len(name) > MAX_PATH_CHARS:
                raise InvalidInput(f"the path is too long: at most {MAX_PATH_CHARS} characters are allowed")
            if self._is_page(path) and (self._above or is_log(name)):
                raise InvalidInput(f"{name!r} is read-only here: write a separate file outside of it")

    def _commit(self, before: Texts, after: Texts, operation: Operation) -> None:
        origin = self._determine_change_origin(before, after)
        pages, puts, expected = {}, [], {}
        for path, text in after.items():
            old, (*folder, key) = before[path], path
            if text is not None:
                validate_raw_text(text, name="text", longest=LONGEST_PAGE, empty=True)
            if self._is_page(path):
                pages["/".join(path)] = text
                continue
            value = None if text is None else {"text": text}
            puts.append(PutItem(namespace=tuple(folder), key=key, value=value, origin=origin))
            expected[puts[-1].place] = None if old is None else {"text": old}
        known = {"/".join(path): text for path, text in before.items()}
        beside = functools.partial(self._memory.pages.plan, pages, known)
        self._items.put_many(puts, expected=expected, operation=operation, beside=beside)

    def _is_page(self, path: Parts) -> bool:
        """Return whether the file at a path is, or would be, a page or log."""
        if self._above:
            return path[:1] == self._above
        name = "/".join(path)
        # The readable folder does not look into folders that editors may have left behind, such as `x.tmp`.
        is_plain = not any("." in folder for folder in path[:-1])
        return is_page_name(name) and (is_plain or name in self._memory.pages.names())

    def _is_confirmed(self, path: Parts) -> bool:
        """Return whether a file is of a trusted origin, as far as that is known."""
        found = None if self._is_page(path) else self._items.get(path[:-1], path[-1])
        return found is None or found.origin not in UNTRUSTED

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
        is_doubted = any(text is not None and not self._is_confirmed(path) for path, text in before.items())
        if self._determine_origin is not None and (added or labels):
            is_doubted |= self._determine_origin(added, labels=labels) in UNTRUSTED
        for path, text in after.items() if is_doubted else ():
            is_page, old = self._is_page(path), before[path]
            is_trusted = path == (MEMORY,) if is_page else old is not None and self._is_confirmed(path)
            if is_trusted and text not in (None, old):
                raise InvalidInput(
                    f"this text rests on what a tool said, which is not confirmed, and {'/'.join(path)!r} does not: "
                    "write it into a separate file, or ask the owner"
                )
        return "tool" if is_doubted else None


class ReverieMemoryTool(_Commands, BetaAbstractMemoryTool):
    """Claude's memory tool, for `client.beta.messages.tool_runner(tools=[tool], ...)`."""

    def __init__(
        self,
        memory: ScopedMemory,
        *,
        session: Session | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        """Create the tool.

        Args:
            memory: A memory, whose pages are the files; or a scope of one, whose files are records.
            session: Conversation in which Claude uses the tool. What rests on a tool's word then does not
                get into records and pages that are put before Claude unasked.
            cache_control: End of the cached part of the prompt, as Anthropic's API takes it.
        """
        _Commands.__init__(self, memory, session)
        BetaAbstractMemoryTool.__init__(self, cache_control=cache_control)


def _on_thread(command: Callable[..., str]) -> Callable[..., Coroutine[Any, Any, str]]:
    """Return a command as a method that runs it on a worker thread."""

    @functools.wraps(command)
    async def run(self: AsyncReverieMemoryTool, *given: Any) -> str:
        return await asyncio.to_thread(command, self._commands, *given)

    return run


class AsyncReverieMemoryTool(BetaAsyncAbstractMemoryTool):
    """Claude's memory tool for `AsyncAnthropic`. Every command runs on a worker thread."""

    def __init__(
        self,
        memory: ScopedMemory,
        *,
        session: Session | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        """Create the tool; the arguments are those of `ReverieMemoryTool`."""
        super().__init__(cache_control=cache_control)
        self._commands = _Commands(memory, session)

    view = _on_thread(_Commands.view)
    create = _on_thread(_Commands.create)
    str_replace = _on_thread(_Commands.str_replace)
    insert = _on_thread(_Commands.insert)
    delete = _on_thread(_Commands.delete)
    rename = _on_thread(_Commands.rename)


def _select_under(files: Texts, path: Parts) -> Texts:
    """Return the file at a path, or the files in the folder there."""
    return {each: text for each, text in files.items() if each[: len(path)] == path}


def _normalize_line_ends(text: str) -> str:
    return _LINE_ENDS.sub("\n", text)


def _parse_path(path: str) -> Parts:
    """Return the names of a path below `/memories`, without empty ones and `.`.

    Raises:
        ToolError: it has `..`, or characters that are invisible. Nothing opens a file by a path, so others are names.
    """
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolError(f"Path must start with {ROOT}, got: {path}")
    text = unicodedata.normalize("NFC", path.removeprefix(ROOT))
    parts = tuple(part for part in text.split("/") if part not in {"", "."})
    why = ""
    if ".." in parts:
        why = "the path leads out of the folder"
    elif _has_unseen(text):
        why = "the path has a character that cannot be seen"
    elif any(part != part.strip() for part in parts):
        why = "a name in the path begins or ends with a blank"
    if why:
        raise ToolError(f"Path {path} would escape {ROOT} directory ({why})")
    return parts


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or _has_unseen(name)


def _has_unseen(text: str) -> bool:
    return any(unicodedata.category(sign) in _UNSEEN for sign in text)


def _require_text(command: Any, name: str) -> str:
    given = getattr(command, name, None)
    if not isinstance(given, str):
        raise ToolError(f"The parameter `{name}` is missing or is not a text")
    return given


def _parse_range(command: Any, count: int) -> tuple[int, int]:
    """Return the first and the last line to show, from 1."""
    lines = getattr(command, "view_range", None) or []
    if not isinstance(lines, Sequence) or not all(isinstance(line, int) for line in lines):
        raise ToolError("The parameter `view_range` is not a list of whole numbers")
    if len(lines) != 2:
        return 1, count
    first, last = lines
    return max(1, first), count if last == -1 else last


def _number_lines(lines: Sequence[str], first: int, last: int) -> str:
    """Return lines with their numbers, in the form that Claude was taught."""
    first = max(1, first)
    shown = lines[first - 1 : last]
    return "\n".join(f"{number:>6}\t{escape_output(line)}" for number, line in enumerate(shown, first))


def _format_size(count: int) -> str:
    """Return a number of bytes in short form, such as `1.5K`."""
    unit = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    many = count / 1024**unit
    return f"{many:.0f}{_UNITS[unit]}" if many == int(many) else f"{many:.1f}{_UNITS[unit]}"
