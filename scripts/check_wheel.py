"""Check that the wheel works alone: install it into a new environment and run the demo.

Usage: python scripts/check_wheel.py DIST_FOLDER
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path


def main(dist: Path) -> int:
    """Install the newest wheel in `dist` and use it from another folder; return an exit code."""
    wheel = max(dist.glob("reverie-*.whl"), key=lambda file: file.stat().st_mtime).resolve()
    with tempfile.TemporaryDirectory() as folder:
        venv.create(Path(folder) / "venv", with_pip=True)
        binaries = Path(folder) / "venv" / "bin"
        install: list[str | Path] = [
            binaries / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        subprocess.run([*install, wheel], check=True, cwd=folder)
        lookup = (
            "from importlib.metadata import files; names = {file.name for file in files('reverie')};"
            "assert names >= {'NOTICE', 'base.html', 'sample.jsonl', 'style.css', 'page.js'};"
            "from reverie.search.related_words import RelatedWords;"
            "assert RelatedWords().get('doctor')"
        )
        subprocess.run([binaries / "python", "-c", lookup], check=True, cwd=folder)
        memory = Path(folder) / "memory"
        collection = Path(folder) / "collection"
        (collection / "qrels").mkdir(parents=True)
        (collection / "corpus.jsonl").write_text('{"_id": "1", "text": "The cat sleeps."}\n')
        (collection / "queries.jsonl").write_text('{"_id": "a", "text": "Where does the cat sleep?"}\n')
        (collection / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\na\t1\t1\n")
        commands: list[list[str | Path]] = [
            ["demo", "--store", memory],
            ["recall", "how should I answer?", "--store", memory],
            ["check", "--store", memory],
            ["eval", collection],
        ]
        for command in commands:
            done = subprocess.run(
                [binaries / "reverie", *command], cwd=folder, capture_output=True, text=True, check=False
            )
            if done.returncode not in (0, 1) or "Traceback" in done.stderr:
                sys.stderr.write(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
                return 1
    sys.stdout.write(f"{wheel.name}: installed alone, demo, recall, check and eval ran\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
