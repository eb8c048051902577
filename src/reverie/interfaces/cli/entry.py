"""What does the program `reverie` begin with? A hook, which must be quick, or else the command line."""

from __future__ import annotations

import sys


def main() -> None:
    """The `reverie` command."""
    if sys.argv[1:2] != ["hook"]:
        from reverie.interfaces.cli.main import main as commands

        commands()
    from reverie.interfaces.hooks.runner import main as hook

    hook(sys.argv[1:])
