"""Entry point of the program `reverie`."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run a hook, which must start quickly, or any other command."""
    try:
        _run(sys.argv[1:])
    except KeyboardInterrupt:  # while modules were imported; a command reports it itself
        sys.stderr.write("reverie: interrupted\n")
        sys.exit(130)


def _run(arguments: list[str]) -> None:
    gc.disable()  # what is imported stays alive, and looking for garbage in it takes a seventh of the start
    if is_hook := arguments[:1] == ["hook"]:
        from reverie.interfaces.hooks.client import run_hook

        event = run_hook(arguments[1:])  # returns only if no other process has answered
        from reverie.interfaces.hooks.runner import main as run_here

        if event is not None:
            run_here(arguments[1:], event)  # returns only if the full command line has to read the arguments
    from reverie.interfaces.cli.main import main as run_command

    gc.freeze()
    gc.enable()
    try:
        run_command()
    except SystemExit:
        # Exit code 2 means wrong usage to click, but makes an agent withhold the user's prompt.
        if not is_hook or not arguments[1:]:
            raise
