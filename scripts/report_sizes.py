"""Print what Reverie and each extra install: megabytes and packages. `report_sizes.py [EXTRA...]`; without names, all.

Each set is installed by pip into an empty folder, without bytecode. Ends with 1 if the base exceeds its limit.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAX_BASE_MB = 35.0


def main(names: list[str]) -> int:
    """Install and measure; return an exit code."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = list(tomllib.load(file)["project"]["optional-dependencies"])
    base, packages = measure_install("")
    sys.stdout.write(f"{'base':14} {base:7.1f} MB  {packages:3} packages\n")
    for name in names or extras:
        size, packages = measure_install(f"[{name}]")
        sys.stdout.write(f"{name:14} {size:7.1f} MB  {packages:3} packages\n")
    return int(base > MAX_BASE_MB)


def measure_install(extra: str) -> tuple[float, int]:
    """Return the megabytes and the packages of an installation with an extra, such as `[mcp]`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", folder]
        subprocess.run([*command, f"{ROOT}{extra}"], check=True)
        files = [file for file in Path(folder).rglob("*") if file.is_file() and not file.is_symlink()]
        return sum(file.stat().st_size for file in files) / 1e6, len([*Path(folder).glob("*.dist-info")])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
