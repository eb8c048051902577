"""What does the program `reverie` begin with? A hook, which must be quick, or else the command line."""

from __future__ import annotations

import sys


def main() -> None:
    """The `reverie` command."""
    if sys.argv[1:2] != ["hook"]:
        from reverie.surfaces.cli import main as commands

        commands()
    from reverie.surfaces.hooks.running import main as hook

    hook(sys.argv[1:])
