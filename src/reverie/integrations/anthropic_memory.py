"""Claude's memory tool `memory_20250818` over a memory.

Claude sees a folder `/memories`; its files are `reverie.repositories.documents`. Paths, answers and errors
are in the words that Claude was taught. Every change is one transaction by `agent`.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from reverie.domain.errors import Conflict, InvalidInput, MissingExtra, NotFound
from reverie.domain.text.escaping import NOT_CONFIRMED, escape_output, to_stored_edit
from reverie.repositories.documents import Documents, Parts, Texts, normalize_line_ends, parse_path
from reverie.scoped import ScopedMemory

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

_T = TypeVar("_T")
_AROUND = 2  # lines shown before and after a change
_DEPTH = 2
_UNITS = "BKMG"
_DOUBTED = f"(This file rests on what a tool said, and is {NOT_CONFIRMED}.)"
_MISSING = "The path {} does not exist"
_INVALID = "The path {} does not exist. Please provide a valid path."


class _Commands:
    """Commands of the tool. They raise a `ToolError` for what Claude can act on."""

    def __init__(self, memory: ScopedMemory, session: Session | None) -> None:
        origin_of = None if session is None else session.determine_origin
        self._files: Documents = memory.documents(actor="agent", determine_origin=origin_of)

    def view(self, command: Any) -> str:
        """Return a file with line numbers, or the contents of a folder, two levels deep."""
        path = _require_text(command, "path")
        parts = _parse_path(path)
        found = self._call_files(self._files.find, parts)
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
        return content if self._call_files(self._files.is_confirmed, parts) else f"{content}\n{_DOUBTED}"

    def create(self, command: Any) -> str:
        """Create a file."""
        path, text = _require_text(command, "path"), _require_text(command, "file_text")
        parts = _parse_path(path)

        def plan(present: Texts) -> Texts:
            if not parts or _select_under(present, parts):
                raise ToolError(f"File {path} already exists")
            return {parts: text}

        self._call_files(self._files.change, plan, "write")
        return f"File created successfully at: {path}"

    def str_replace(self, command: Any) -> str:
        """Replace a text that occurs once in a file."""
        path = _require_text(command, "path")
        old, new = (normalize_line_ends(_require_text(command, name)) for name in ("old_str", "new_str"))
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
            after = "\n".join([*lines[:place], normalize_line_ends(text).rstrip("\n"), *lines[place:]])
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

        self._call_files(self._files.change, plan, "delete")
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

        self._call_files(self._files.change, plan, "rename")
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

        self._call_files(self._files.change, plan, "write")
        return self._call_files(self._files.read, parts) or ""

    def _list_folder(self, path: str, parts: Parts) -> str:
        found = self._call_files(lambda: self._files.listed(parts, depth=_DEPTH))
        lines = [f"{_format_size(sum(each.size for each in found if len(each.path) == 1))}\t{path}"]
        for each in found:
            name = f"{'/'.join(each.path)}{'/' if each.folder else ''}"
            lines.append(f"{_format_size(each.size)}\t{path}/{escape_output(name)}")
        header = (
            f"Here're the files and directories up to {_DEPTH} levels deep in {path}, excluding hidden items:"
        )
        return "\n".join([header, *lines])

    def _call_files(self, ask: Callable[..., _T], *given: Any) -> _T:
        """Call the documents, and raise their refusals as `ToolError`."""
        try:
            return ask(*given)
        except (InvalidInput, NotFound, Conflict) as error:
            raise ToolError(f"Nothing was done: {error}.") from None


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


def _parse_path(path: str) -> Parts:
    """Return the parts of a path below `/memories`. Raise `ToolError` for another path."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolError(f"Path must start with {ROOT}, got: {path}")
    try:
        return parse_path(path.removeprefix(ROOT))
    except InvalidInput as error:
        raise ToolError(f"Path {path} would escape {ROOT} directory ({error})") from None


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
