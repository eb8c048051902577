"""Check that a bill of materials names every package that Reverie requires, each with a version.

Usage: python scripts/check_sbom.py FILE
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
EXTRAS = ("server", "postgres", "otel")


def main(path: Path) -> int:
    """Compare a bill of materials with the requirements; return an exit code."""
    text = path.read_text(encoding="utf-8")
    bill = json.loads(text)
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    required = [*project["dependencies"]]
    for extra in EXTRAS:
        required += project["optional-dependencies"][extra]
    names = {normalize_name(re.split(r"[<>=!~\[; ]", each)[0]) for each in required}
    listed = {normalize_name(each["name"]) for each in bill["components"] if each.get("version")}
    missing = sorted(names - listed)
    if bill["bomFormat"] != "CycloneDX" or bill["metadata"]["component"]["name"] != "reverie" or missing:
        sys.stdout.write(f"{path} is not the bill of materials of Reverie, or lacks {', '.join(missing)}\n")
        return 1
    if "file://" in text:
        sys.stdout.write(f"{path} names a path of this machine\n")
        return 1
    sys.stdout.write(f"{path.name}: {len(bill['components'])} components\n")
    return 0


def normalize_name(name: str) -> str:
    """Return the name of a package as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
