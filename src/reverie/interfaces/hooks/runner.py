"""Runner of `reverie hook EVENT`: starts quickly and never blocks the agent.

An agent waits for its hooks at every prompt, so this imports no more than a turn needs (no click, no rich),
and ends without taking the interpreter apart. Whatever goes wrong: nothing on standard output, one line on
standard error, exit code 0, since another one would withhold the user's prompt from the model.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import NoReturn, TextIO

from reverie.interfaces.hooks.events import EVENTS, LARGEST, HookEvent, read_event

FOLDER = "REVERIE_FOLDER"
SCOPE = "REVERIE_HOOK_SCOPE"

MOST_CHARS = 10_000
"""Characters that Claude Code takes from a hook as they are; more becomes a file that the model may open."""

TIMEOUT_S = 10.0
_FORMATS = ("json", "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOptions:
    """Options of a hook.

    Attributes:
        folder: Where the memory is; None for the environment's or the platform's folder.
        settings: The settings file; None for none.
        scope: Whose memory it is.
        per_project: Whether each project has a scope of its own.
        agent: What the ids of its sessions begin with.
        format: `json` as Claude Code reads it, or `text`.
        max_chars: Characters that it writes at most.
        timeout: Seconds after which it gives up.
        all: Whether every prompt is given all that stands in prompts, not only what is new.
        quiet: Whether nothing is said on standard error.
        debug: Whether errors come with their traceback.
    """

    folder: str | None = None
    settings: str | None = None
    scope: str | None = None
    per_project: bool = False
    agent: str = "claude-code"
    format: str = "json"
    max_chars: int = MOST_CHARS
    timeout: float = TIMEOUT_S
    all: bool = False
    quiet: bool = False
    debug: bool = False


def run(name: str, asked: HookOptions, data: bytes) -> str:
    """Handle an event; return the text for standard output.

    Args:
        name: One of `EVENTS`.
        asked: How the hook was called.
        data: What stood on standard input.

    Raises:
        ReverieError: the event or the options cannot be read, or the memory cannot be.
    """
    event = read_event(data)
    text = _answer_event(name, asked, event)
    if not text or asked.format == "text":
        return f"{text}\n" if text else ""
    shown = {"hookEventName": event.name or EVENTS[name], "additionalContext": text}
    return json.dumps({"hookSpecificOutput": shown}) + "\n"


def _answer_event(name: str, asked: HookOptions, event: HookEvent) -> str:
    from reverie.interfaces.hooks.turns import HookTarget, answer_event
    from reverie.memory import Memory
    from reverie.settings import Settings

    settings = Settings.load(asked.settings, environ=os.environ)
    if name == "user-prompt" and settings.files:
        # Whoever waits for this one waits for a glance at every file: the other events give it.
        settings = replace(settings, files=False)
    folder = asked.folder if asked.folder is not None else os.environ.get(FOLDER) or None
    with Memory.open(folder, settings=settings, actor="hook") as memory:
        assert memory.path is not None
        scope = _resolve_scope(asked, event)
        place = HookTarget(
            memory=memory.scoped(scope) if scope else memory,
            folder=memory.path,
            settings=settings,
            agent=asked.agent,
            max_chars=asked.max_chars,
            everything=asked.all,
        )
        return answer_event(name, event, place)


def _resolve_scope(asked: HookOptions, event: HookEvent) -> str:
    within = asked.scope if asked.scope is not None else os.environ.get(SCOPE, "")
    if not asked.per_project:
        return within
    from reverie.interfaces.hooks.projects import PROJECT, derive_project_scope

    return derive_project_scope(os.environ.get(PROJECT) or event.folder, within=within)


# -- as a process ------------------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> None:
    """Run `reverie hook EVENT` and end the process; return if the arguments need the full command line.

    Args:
        arguments: The arguments of `reverie`; the first is `hook`.
    """
    name = arguments[1] if len(arguments) > 1 else ""
    asked = parse_arguments(arguments[2:]) if name in EVENTS else None
    if asked is None:
        return
    gc.disable()
    _start_timeout(asked)
    logging.getLogger("reverie").addHandler(logging.NullHandler())
    _write_and_exit(try_run(name, asked, sys.stdin))


def parse_arguments(arguments: Sequence[str]) -> HookOptions | None:
    """Parse the options of a hook without click; None if that needs the full command line.

    Args:
        arguments: What stands behind the event's name.
    """
    forms = {field.name.replace("_", "-"): field for field in fields(HookOptions)}
    found: dict[str, str | bool | int | float] = {}
    rest = list(arguments)
    while rest:
        name, given, value = rest.pop(0).removeprefix("--").partition("=")
        form = forms.get("quiet" if name == "-q" else name)
        if form is None:
            return None
        if form.type == "bool":
            if given:
                return None
            found[form.name] = True
            continue
        if not given:
            if not rest:
                return None
            value = rest.pop(0)
        try:
            found[form.name] = {"int": int, "float": float}.get(str(form.type), str)(value)
        except ValueError:
            return None
    asked = HookOptions(**found)  # type: ignore[arg-type]
    return asked if asked.format in _FORMATS and asked.max_chars >= 0 and asked.timeout > 0 else None


def try_run(name: str, asked: HookOptions, stdin: TextIO | None) -> bytes:
    """Return the output of a hook; nothing, and one line on standard error, if it fails."""
    try:
        return run(name, asked, _read(stdin)).encode("utf-8", "replace")
    except Exception as error:  # noqa: BLE001 - the outermost handler: an agent must never be stopped by this
        if asked.debug:
            traceback.print_exception(error)
        _report_error(error, asked)
    return b""


def _read(stdin: TextIO | None) -> bytes:
    if stdin is None or stdin.isatty():
        return b""
    return stdin.buffer.read(LARGEST + 1)


def _report_error(error: Exception, asked: HookOptions) -> None:
    from reverie.domain.errors import ReverieError

    if asked.quiet:
        return
    # Other errors may quote a memory, or a path that is none of the agent's business.
    said = str(error) if isinstance(error, ReverieError | OSError) else type(error).__name__
    _write_stderr(f"no memory for this turn: {' '.join(said.split())}")


def _write_stderr(text: str) -> None:
    try:
        os.write(2, f"reverie: {text}\n".encode("utf-8", "replace"))
    except OSError:  # nobody listens
        return


def _start_timeout(asked: HookOptions) -> None:
    """End the process after the timeout."""

    def give_up() -> None:
        if not asked.quiet:
            _write_stderr(f"no memory for this turn: nothing came of it in {asked.timeout:g} s")
        os._exit(0)

    timer = threading.Timer(asked.timeout, give_up)
    timer.daemon = True
    timer.start()


def _write_and_exit(output: bytes) -> NoReturn:
    """Write and end without interpreter shutdown: the memory is closed, and shutdown takes 20 ms."""
    try:
        while output:
            output = output[os.write(1, output) :]
    except OSError:  # whoever asked went away
        pass
    os._exit(0)
