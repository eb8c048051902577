"""Runner of `reverie hook EVENT`: starts quickly and never blocks the agent.

An agent waits for its hooks at every prompt. So this module imports only what a turn needs (no click, no
rich) and exits without interpreter shutdown. A failure writes nothing to standard output and one line to
standard error. The exit code is always 0, because another one would keep the prompt from the model.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reverie.domain.errors import InvalidInput, ReverieError
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.timestamps import utc_now
from reverie.interfaces.hooks.client import SCOPE, STORE, TIMEOUT_S
from reverie.interfaces.hooks.events import EVENTS, HookEvent, read_event

if TYPE_CHECKING:
    from reverie.memory import Memory
    from reverie.settings import Settings


PROJECT = "CLAUDE_PROJECT_DIR"
"""Environment variable with the project's folder, set by Claude Code."""

REPOSITORY = "repository"
"""Last part of a scope that means: one scope for each repository."""

_LONGEST = 40
_UNFIT = defer_regex(r"[^\w.-]+")


def resolve_scope(scope: str, folder: str = "") -> str:
    """Return a scope in which the last part `repository` is replaced by that of the project of a folder.

    The project is the git repository that contains the folder, with all its worktrees, or else the folder itself.
    Folders of the same name are different projects.

    Args:
        scope: The scope, such as `user:alice`, `repository` or `user:alice/repository`.
        folder: Any folder of the project; empty for the working folder of this process.

    >>> resolve_scope("user:alice"), resolve_scope("user:alice/repository", "/srv/atlas")
    ('user:alice', 'user:alice/project:atlas-ba0c1e0b')
    """
    within, slash, last = scope.rpartition("/")
    if last != REPOSITORY:
        return scope
    root = _find_root(Path(os.path.realpath(folder or os.getcwd())))
    name = _UNFIT.sub("-", root.name).strip(".-")[:_LONGEST] or "root"
    return f"{within}{slash}project:{name}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:8]}"


def _find_root(folder: Path) -> Path:
    """Return the folder of the repository: for a worktree that of its common git folder."""
    for place in (folder, *folder.parents):
        mark = place / ".git"
        if mark.is_dir():
            return place
        if mark.is_file():
            try:
                written = mark.read_text(encoding="utf-8", errors="replace")
                git_dir = place / written.partition("gitdir:")[2].strip()
                common = Path(os.path.realpath(git_dir / (git_dir / "commondir").read_text("utf-8").strip()))
            except (OSError, ValueError):
                return place  # a submodule, or a file that is not of git
            return common.parent if common.name == ".git" else common
    return folder


# -- runner ---------------------------------------------------------------------------------------


MOST_CHARS = 10_000
"""Characters that Claude Code takes from a hook directly; longer output becomes a file."""

LONGEST_TIMEOUT_S = 86_400.0

PATIENCE_S = 1.0
"""Seconds that a hook waits for a database that another process has locked."""

FORMATS: Mapping[str, str] = {
    "json": "",
    "text": "",
    "cursor": "additional_context",
    "copilot": "additionalContext",
}
"""Forms of output, each with the field of the JSON object that has the text; none for `json` and `text`."""


class HookOptions(NamedTuple):
    """Options of a hook.

    Attributes:
        store: Folder of the memory, or URL of its database; None for the default of the environment or the platform.
        settings: Settings file; None for none.
        scope: Scope of the memories; its last part may be `repository`.
        agent: Prefix of the session ids.
        format: One of `FORMATS`.
        max_chars: Maximum characters of output.
        timeout: Seconds after which the hook gives up.
        quiet: Whether to print no messages.
        debug: Whether to print tracebacks.
    """

    store: str | None = None
    settings: str | None = None
    scope: str | None = None
    agent: str = "claude-code"
    format: str = "json"
    max_chars: int = MOST_CHARS
    timeout: float = TIMEOUT_S
    quiet: bool = False
    debug: bool = False


def report_here(text: str) -> None:
    """Tell the user of this process about a problem."""
    with suppress(OSError):  # the reader closed the pipe
        os.write(2, f"reverie: {text}\n".encode("utf-8", "replace"))


class HookHost(NamedTuple):
    """The process that runs a hook: by default the hook's own, which opens the memory.

    Attributes:
        memory: The open memory of a server; None to open it.
        environ: Environment of the hook.
        report: Function that tells the user about a problem.
    """

    memory: Memory | None = None
    environ: Mapping[str, str] = os.environ
    report: Callable[[str], object] = report_here


OWN_PROCESS = HookHost()


def run(name: str, options: HookOptions, data: bytes, host: HookHost = OWN_PROCESS) -> str:
    """Handle an event; return the text for standard output.

    Args:
        name: One of `EVENTS`.
        options: Options of the hook.
        data: Content of standard input.
        host: The process that runs it.

    Raises:
        ReverieError: the event, the options or the memory cannot be read.
    """
    event = read_event(data)
    text = _answer_event(name, options, event, host) if event.has_content(name) else ""
    if not text or options.format == "text":
        return f"{text}\n" if text else ""
    if field := FORMATS[options.format]:
        return json.dumps({field: text}) + "\n"
    result = {"hookEventName": event.name or EVENTS[name], "additionalContext": text}
    return json.dumps({"hookSpecificOutput": result}) + "\n"


def _answer_event(name: str, options: HookOptions, event: HookEvent, host: HookHost) -> str:
    from reverie.interfaces.hooks.turns import HookTarget, add_exchange, answer_event, keep
    from reverie.memory import Memory

    if not event.session:
        raise InvalidInput("The event has no session_id, so its conversation is unknown.")
    settings = _load_settings(name, options) if host.memory is None else host.memory.settings
    wanted = options.scope if options.scope is not None else host.environ.get(SCOPE, "")
    scope = resolve_scope(wanted, host.environ.get(PROJECT) or event.folder)
    session = f"{options.agent}:{event.session}"
    found = add_exchange(event._replace(kind=name, scope=scope, session=session, at=utc_now().isoformat()))
    if found is None:
        return ""
    store = options.store if options.store is not None else host.environ.get(STORE) or None
    folder, kept = _locate_folder(store, settings), None
    if folder.is_dir() and (name != "session-start" or event.source == "compact"):
        with suppress(OSError):  # a full disk, or a folder that may only be read: `answer_event` reports it
            kept = keep(found, folder, settings.redactor)
    patience = timedelta(seconds=PATIENCE_S)
    with (
        Memory.open(store, settings=settings, actor="hook", busy_timeout=patience)
        if host.memory is None
        else nullcontext(host.memory)
    ) as memory:
        if host.memory is not None and name != "user-prompt":
            memory.refresh_files()
        conversation = memory.scoped(scope).session(session)
        return answer_event(
            found, HookTarget(memory, conversation, folder, kept, options.max_chars, host.report)
        )


def _load_settings(name: str, options: HookOptions) -> Settings:
    from reverie.llm.embedding import NO_EMBEDDER, is_loaded_here
    from reverie.settings import Settings

    settings = Settings.load(options.settings, environ=os.environ)
    if is_loaded_here(settings.embedder):
        # Loading the model takes longer than everything else. Processes that live longer embed what is stored.
        settings = replace(settings, embedder=NO_EMBEDDER)
    # The user waits for a prompt. The other events scan the files.
    return replace(settings, files="none") if name == "user-prompt" else settings


def _locate_folder(store: str | None, settings: Settings) -> Path:
    """Return the folder, on this machine, for events of a memory; make it for a memory in a database."""
    from reverie.memory import is_database, resolve_folder

    if is_database(store):
        import platformdirs

        server = store.rpartition("@")[2]  # without a password
        name = hashlib.sha256(server.encode()).hexdigest()[:16]
        folder = Path(platformdirs.user_state_dir("reverie"), name)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder
    folder = resolve_folder(store)
    return settings.resolve_paths(folder).memory if store is None and settings.names_paths else folder


# -- as a process ------------------------------------------------------------------------------------------


def main(arguments: Sequence[str], data: bytes) -> None:
    """Run a hook, write its output, and exit; return if the arguments need the full command line.

    Args:
        arguments: Arguments of `reverie hook`.
        data: Content of standard input.
    """
    name = arguments[0] if arguments else ""
    options = parse_arguments(arguments[1:]) if name in EVENTS else None
    if options is None:
        return
    _start_timeout(options)
    logging.getLogger("reverie").addHandler(logging.NullHandler())
    output = try_run(name, options, data)
    with suppress(OSError):  # the reader closed the pipe
        while output:
            output = output[os.write(1, output) :]
    os._exit(0)  # without interpreter shutdown, which would take 20 ms


def parse_arguments(arguments: Sequence[str]) -> HookOptions | None:
    """Parse the arguments after the event's name without click; None if that needs the full command line."""
    values: dict[str, Any] = {}
    rest = iter(arguments)
    try:
        for word in rest:
            name, equals, value = word.partition("=")
            option = "quiet" if name == "-q" else name.removeprefix("--").replace("-", "_")
            kind = type(HookOptions._field_defaults[option if name.startswith("-") else ""])
            if kind is bool and equals:
                return None
            text = "" if kind is bool else value if equals else next(rest)
            values[option] = True if kind is bool else kind(text) if kind in (int, float) else text
    except (KeyError, StopIteration, ValueError):
        return None
    options = HookOptions(**values)
    is_valid = options.format in FORMATS and options.max_chars >= 0
    return options if is_valid and 0 < options.timeout <= LONGEST_TIMEOUT_S else None


def try_run(name: str, options: HookOptions, data: bytes, host: HookHost = OWN_PROCESS) -> bytes:
    """Return the output of a hook; nothing, and a report of one line, if it fails.

    Args:
        name: One of `EVENTS`.
        options: Options of the hook.
        data: Content of standard input.
        host: The process that runs it.
    """
    if options.quiet:
        host = host._replace(report=lambda _: None)
    try:
        return run(name, options, data, host).encode("utf-8", "replace")
    except Exception as error:  # noqa: BLE001 - the outermost handler: a failure must never stop the agent
        if options.debug:
            import traceback

            traceback.print_exception(error)
        # The messages of other errors may quote a memory or a private path.
        message = str(error) if isinstance(error, ReverieError | OSError) else type(error).__name__
        host.report(f"no memory for this turn: {' '.join(message.split())}")
    return b""


def _start_timeout(options: HookOptions) -> None:
    """End the process after the timeout."""

    def give_up() -> None:
        if not options.quiet:
            report_here(f"no memory for this turn: timed out after {options.timeout:g} s")
        os._exit(0)

    timer = threading.Timer(options.timeout, give_up)
    timer.daemon = True
    timer.start()
