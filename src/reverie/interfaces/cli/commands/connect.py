"""The command `connect`: write a client's settings of MCP and hooks, check them, and remove them.

`clients.toml` describes the clients. A change is planned for all files before the first is written.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import click

from reverie.domain.errors import InvalidInput, MissingExtra, StoreUnavailable
from reverie.files.atomic import create_file
from reverie.interfaces.cli import config_text, options, output
from reverie.interfaces.cli.config_text import APPEND
from reverie.interfaces.cli.options import CommandContext, command
from reverie.interfaces.hooks.events import EVENTS
from reverie.memory import IN_MEMORY

SERVER = "reverie"
"""Name of the server in a client."""

BACKUP = ".before-reverie"
"""End of the name of a file's copy from before the first change."""

_CLIENTS: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    Path(__file__).parents[1].joinpath("clients.toml").read_text(encoding="utf-8")
)
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


class FileChange(NamedTuple):
    """Change of a client's file.

    Attributes:
        path: The file.
        before: Its text now; None if it does not exist.
        after: Its text then; None if it is removed.
        was_ours: Whether it has entries of Reverie now.
    """

    path: Path
    before: str | None
    after: str | None
    was_ours: bool


@command(json=True)
@click.argument("client", required=False, type=click.Choice([*_CLIENTS]))
@options.scope_option("Scope of the memories; `repository` for one of each repository.", default=None)
@click.option("--check", is_flag=True, help="Check the settings, and change nothing.")
@click.option("--remove", is_flag=True, help="Remove the settings again.")
@click.option("--print", "is_print", is_flag=True, help="Print the settings, and change nothing.")
@options.YES
def connect(
    context: CommandContext,
    /,
    client: str | None,
    scope: str | None,
    is_print: bool,
    yes: bool,
    **flags: bool,
) -> None:
    """Connect CLIENT with the memory: write its settings of MCP, and of hooks if it has them.

    Without CLIENT, list the clients and their state. The command shows each change before it asks. It keeps a copy
    of each file, whose name ends in .before-reverie. Comments and the order of a file stay.

    With --json and without CLIENT: {"clients": [{"name", "title", "state", "files"}]}.
    """
    if client is None:
        states = {name: ClientSettings(name, []).describe() for name in _CLIENTS}
        listed = [{"name": name, "title": _CLIENTS[name]["title"], **state} for name, state in states.items()]
        rows = [(each["name"], each["title"], each["state"]) for each in listed]
        output.print_listing(context, rows, {"clients": listed})
        if output.is_terminal():
            output.print_message("`reverie connect NAME` connects one.", quiet=context.quiet)
        return
    if context.resolve_place() == IN_MEMORY:
        context.resolve_folder()  # an error that says so
    scoped = [] if scope is None else ["--scope", scope]
    settings = ClientSettings(client, [*context.build_arguments(), *scoped])
    if is_print:
        for path, text in settings.render():
            click.echo(f"{'#' if path.suffix == '.toml' else '//'} {path}\n{text}")
        return
    title, remove = _CLIENTS[client]["title"], flags["remove"]
    if not remove and find_spec("mcp") is None:
        raise MissingExtra("The MCP server needs the package mcp. Run `pip install 'reverie[mcp]'`.")
    changes = settings.plan(remove=remove)
    if not changes:
        context.print_message(f"{title} is {'not connected' if remove else 'connected'}.")
        return
    if flags["check"]:
        output.print_error(f"{title} is not connected in this way. Run `reverie connect {client}`.")
        raise click.exceptions.Exit(options.ExitCode.NOTHING)
    click.echo(output.escape_text("\n".join(map(_format_difference, changes))))
    if not yes:
        context.confirm(f"Write {output.count(len(changes), 'file')}?", refused="Nothing was written.")
    _write_all(changes)
    done = "Removed the settings of" if remove else "Connected"
    context.print_message(f"{done} {title}. Start a new session of it.")


class ClientSettings:
    """Settings of one client."""

    def __init__(self, name: str, arguments: Sequence[str]) -> None:
        """Describe the settings.

        Args:
            name: A client of `clients.toml`.
            arguments: Arguments with which the client starts Reverie.
        """
        self._client = _CLIENTS[name]
        self._arguments = list(arguments)
        self._server_file = _choose_file(self._client["mcp"]["file"])
        hooks = self._client.get("hooks")
        self._hooks: Mapping[str, Any] = hooks or {}
        self._files = [self._server_file]
        if hooks and (file := _choose_file(hooks["file"])) != self._server_file:
            self._files.append(file)

    def describe(self) -> dict[str, Any]:
        """Return the state of the client, and its files."""
        state = "not connected" if any(map(_exists, self._client["found"])) else "not found"
        try:
            texts = [(path, _read(path) or "") for path in self._files]
            if any(self._has_ours(path, _parse(path, text)) for path, text in texts):
                state = "connected"
        except InvalidInput as error:
            state = str(error)
        return {"state": state, "files": [str(path) for path in self._files]}

    def plan(self, *, remove: bool) -> list[FileChange]:
        """Return the changes that connect the client, or that remove its settings; none for none.

        Raises:
            InvalidInput: a file cannot be read or changed.
        """
        changes = []
        for path in self._files:
            before = _read(path)
            was_ours = self._has_ours(path, _parse(path, before or ""))
            try:
                after: str | None = self._edit(path, before or "", remove=remove)
            except InvalidInput as error:
                advice = "Edit it by hand; `--print` shows the settings"
                raise InvalidInput(f"{str(path)!r} was not changed: {error}. {advice}") from None
            if remove and was_ours:
                after = self._restore(path, after or "")
            if after != (before or ""):
                changes.append(FileChange(path, before, after, was_ours))
        return changes

    def render(self) -> Iterator[tuple[Path, str]]:
        """Iterate over the files, each with the text that it has if it has nothing else."""
        return ((path, self._edit(path, "", remove=False)) for path in self._files)

    def _edit(self, path: Path, text: str, *, remove: bool) -> str:
        if path == self._server_file:
            text = self._edit_server(path, text, remove=remove)
        if self._hooks and path == self._files[-1]:
            text = self._edit_hooks(path, text, remove=remove)
        return text

    def _restore(self, path: Path, text: str) -> str | None:
        """Return the text of the copy if it says the same; None for a file that has nothing else."""
        backup = _read(path.with_name(path.name + BACKUP))
        rest = config_text.prune(_parse(path, text))
        if backup is None:
            return text if rest not in ({}, self._hooks.get("version")) else None
        before = _parse(path, self._edit(path, backup, remove=True))
        return backup if config_text.prune(before) == rest else text

    def _edit_server(self, path: Path, text: str, *, remove: bool) -> str:
        is_toml = path.suffix == ".toml"
        mcp = self._client["mcp"]
        place = (mcp["key"], SERVER)
        existing = _get(_parse(path, text), place)
        if remove:
            return text if existing is None else config_text.drop(text, place, is_toml=is_toml)
        server = self._fill(mcp["server"], "mcp", mcp.get("options", []))
        if isinstance(existing, dict):
            server = existing | server
            if server == existing:
                return text
            if is_toml:
                text = config_text.drop(text, place, is_toml=True)
        return config_text.put(text, place, server, is_toml=is_toml)

    # -- hooks -------------------------------------------------------------------------------------------

    def _edit_hooks(self, path: Path, text: str, *, remove: bool) -> str:
        hooks, is_toml = self._hooks, path.suffix == ".toml"
        entries = {} if remove else {event: self._build_entry(event) for event in hooks["events"]}
        text = self._edit_trust(path, text, {})
        document = _parse(path, text)
        ours = list(self._find_ours(document))
        present = [(place[1], _get(document, place)) for place in ours]
        if sorted(present, key=str) != sorted(entries.items(), key=str):
            for place in reversed(ours):
                text = config_text.drop(text, place, is_toml=is_toml)
            for name, value in () if remove else hooks.get("version", {}).items():
                if name not in document:
                    text = config_text.put(text, (name,), value, is_toml=is_toml)
            for event, entry in entries.items():
                text = config_text.put(text, (hooks["key"], event, APPEND), entry, is_toml=is_toml)
        return self._edit_trust(path, text, entries)

    def _build_entry(self, event: str) -> Any:
        hooks = self._hooks
        silent = ["--max-chars", "0"] if event in hooks.get("silent", ()) else []
        return self._fill(
            hooks["entry"], "hook", [*hooks.get("options", []), *silent], hooks["events"][event]
        )

    def _find_ours(self, document: Mapping[str, Any]) -> Iterator[config_text.Path]:
        """Iterate over the places of our hooks, in order: of a whole entry if it has no others."""
        key = self._hooks["key"]
        events = document.get(key)
        for event, listed in events.items() if isinstance(events, dict) else ():
            for number, entry in enumerate(listed if isinstance(listed, list) else ()):
                handlers = entry.get("hooks") if isinstance(entry, dict) else None
                own = [_is_ours(each) for each in handlers] if isinstance(handlers, list) else []
                if _is_ours(entry) or (own and all(own)):
                    yield key, event, number
                else:
                    yield from (
                        (key, event, number, "hooks", inner) for inner, is_own in enumerate(own) if is_own
                    )

    def _edit_trust(self, path: Path, text: str, entries: Mapping[str, Any]) -> str:
        """Write the hashes of our hooks, or remove them if there are no entries.

        Codex runs a hook that its user has trusted: the file has the hash of the hook, by its place.
        """
        document = _parse(path, text)
        for place in self._find_ours(document) if self._hooks.get("trust") else ():
            key, event, number, *_ = place
            label = re.sub(r"(?<!^)(?=[A-Z])", "_", str(event)).lower()
            own = (key, "state", f"{path}:{label}:{number}:{place[4] if len(place) > 4 else 0}")
            if entries:
                handler = {"async": False, **_get(document, (*place[:3], "hooks", 0))}
                identity = {"event_name": label, "hooks": [handler]}
                written = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
                trusted = f"sha256:{hashlib.sha256(written.encode()).hexdigest()}"
                text = config_text.put(text, own, {"trusted_hash": trusted}, is_toml=True)
            elif _get(document, own) is not None:
                text = config_text.drop(text, own, is_toml=True)
        return text

    def _has_ours(self, path: Path, document: Mapping[str, Any]) -> bool:
        if path == self._server_file and _get(document, (self._client["mcp"]["key"], SERVER)) is not None:
            return True
        return bool(self._hooks) and path == self._files[-1] and any(True for _ in self._find_ours(document))

    def _fill(self, template: Any, command: str, options: Sequence[str], *names: str) -> Any:
        """Return an entry with the words of a command in its placeholders."""
        words = [*find_program(), command, *names, *self._arguments, *options]
        line = subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)
        filled = {"{command}": words[0], "{args}": words[1:], "{words}": words, "{line}": line}

        def fill(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: fill(each) for key, each in value.items()}
            if isinstance(value, list):
                return [fill(each) for each in value]
            return filled.get(value, value) if isinstance(value, str) else value

        return fill(template)


def _is_ours(handler: Any) -> bool:
    """Return whether an entry runs a hook of Reverie."""
    line = (handler.get("command") or handler.get("bash")) if isinstance(handler, dict) else None
    if not isinstance(line, str) or "reverie" not in line:
        return False
    return re.search(rf"\bhook\W+({'|'.join(EVENTS)})\b", line) is not None


def _get(document: Any, place: Sequence[str | int]) -> Any:
    """Return the value at a place; None if there is none."""
    for key in place:
        try:
            document = document[key]
        except (KeyError, IndexError, TypeError):
            return None
    return document


def find_program() -> Sequence[str]:
    """Return the command that runs this program: its absolute path, or Python and arguments."""
    installed = Path(sys.executable).parent / "reverie"
    if installed.exists() and os.access(installed, os.X_OK):
        return [str(installed)]
    called = Path(sys.argv[0])
    if called.name == "reverie" and os.access(called, os.X_OK):
        return [str(called.absolute())]
    return [sys.executable, "-c", "from reverie.interfaces.cli.entry import main; main()"]


# -- files -------------------------------------------------------------------------------------------------


def _resolve(place: str) -> Path:
    """Return the path of a place in `clients.toml` on this machine."""
    xdg = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    roaming = os.environ.get("APPDATA") or "~/AppData/Roaming"
    mac = ("~/Library/Application Support", "~/.config/zed")
    folders = {"darwin": mac, "win32": (roaming, f"{roaming}/Zed")}
    config, zed = folders.get(sys.platform, (xdg, f"{xdg}/zed"))
    place = _VARIABLE.sub(lambda match: os.environ.get(match[1]) or match[2], place)
    return Path(place.replace("{config}", config).replace("{zed}", zed)).expanduser().resolve()


def _choose_file(places: Sequence[str]) -> Path:
    paths = [_resolve(place) for place in places]
    return next((path for path in paths if path.exists()), paths[0])


def _exists(place: str) -> bool:
    return _resolve(place).exists() if "/" in place else shutil.which(place) is not None


def _read(path: Path) -> str | None:
    """Return the text of a file; None if it does not exist.

    Raises:
        InvalidInput: it is not a UTF-8 text of this user that can be written.
    """
    if not path.exists():
        return None
    problem = ""
    if hasattr(os, "getuid") and path.stat().st_uid != os.getuid():
        problem = "belongs to another user"
    elif not path.stat().st_mode & 0o200 or not os.access(path, os.R_OK | os.W_OK):
        problem = "is read-only"
    if problem:
        raise InvalidInput(f"{str(path)!r} {problem}. Nothing was changed; `--print` shows the settings")
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{str(path)!r} is not UTF-8 text. Nothing was changed") from None


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        return config_text.parse(text, is_toml=path.suffix == ".toml")
    except InvalidInput as error:
        raise InvalidInput(f"{str(path)!r} was not changed: {error}. Correct it and try again") from None


def _format_difference(change: FileChange) -> str:
    """Return the changed lines, without others of the file, which may have secrets."""
    before, after = (change.before or "").splitlines(), (change.after or "").splitlines()
    name = str(change.path)
    lines = difflib.unified_diff(before, after, name, name if change.after is not None else os.devnull, n=0)
    return "\n".join(line.rstrip("\n") for line in lines)


def _write_all(changes: Sequence[FileChange]) -> None:
    """Write all files, or none.

    Raises:
        InvalidInput: a file has changed meanwhile.
        OSError: a file cannot be written.
    """
    for change in changes:
        if _read(change.path) != change.before:
            raise InvalidInput(f"{str(change.path)!r} has changed. Run the command again")
    done: list[FileChange] = []
    try:
        for change in changes:
            backup = change.path.with_name(change.path.name + BACKUP)
            if change.before is not None and not change.was_ours:
                _write(backup, change.before, like=change.path)
            _write(change.path, change.after, like=change.path)
            done.append(change)
            if change.was_ours and change.after is not None and change.after == _read(backup):
                backup.unlink()
    except (OSError, StoreUnavailable):
        for change in reversed(done):
            _write(change.path, change.before, like=change.path)
        raise


def _write(path: Path, text: str | None, *, like: Path) -> None:
    """Replace a file by a text at once, or remove it."""
    if text is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = like.stat().st_mode & 0o777 if like.exists() else 0o600
    with create_file(path, overwrite=True) as file:
        file.write(text.encode())
    path.chmod(mode)
