"""`python -m evaluation NAME`: run one of the measurements."""

from __future__ import annotations

import click

from evaluation.measures.command import COMMANDS


class _Measurements(click.Group):
    """The measurements, each imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all measurements."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a measurement."""
        build = COMMANDS.get(cmd_name)
        return None if build is None else build()


if __name__ == "__main__":
    _Measurements(help="Judge Reverie by the labelled sets of this folder.")(prog_name="python -m evaluation")
