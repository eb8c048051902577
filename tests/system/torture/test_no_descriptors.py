"""Without a free file descriptor a memory raises errors of its own, loses nothing, and works again afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

_PROGRAM = """
    import os, resource, shutil, sys
    from pathlib import Path
    from reverie import Memory, ReverieError

    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    home = Path(sys.argv[1])
    (home / "notes.md").write_text("# Notes\\n\\n- Likes coffee\\n")

    def calls(memory):
        chat = memory.session("cli:1")
        return {
            "save": lambda: memory.save("Likes coffee"),
            "add": lambda: chat.add("user", "Hello"),
            "page": lambda: memory.pages.write("a.md", "text"),
            "search": lambda: memory.search("tea"),
            "context": lambda: chat.context("tea"),
            "doctor": lambda: memory.admin.doctor(),
            "forget": lambda: memory.admin.forget(match="tea"),
            "backup": lambda: memory.admin.backup(home / "b.zip"),
            "export": lambda: memory.admin.export(home / "e.jsonl"),
            "import": lambda: memory.admin.import_from(home / "notes.md"),
            "dreams": lambda: memory.dreams.run(),
        }

    def attempt(call):
        try:
            call()
        except ReverieError as error:
            assert str(error)

    def use_up(left):
        held = []
        try:
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
        for _ in range(left):
            os.close(held.pop())
        return held

    with Memory.open(home / "first") as memory:
        memory.save("Likes tea")
        for call in calls(memory).values():
            call()  # imports what it needs
    (home / "b.zip").unlink()
    (home / "e.jsonl").unlink()
    for left in (0, 1, 3):
        for warm in (False, True):
            for name in calls(Memory.open(":memory:")):
                folder = home / f"{name}-{left}-{warm}"
                with Memory.open(folder) as memory:
                    kept = memory.save("Likes tea").record
                with Memory.open(folder) as memory:
                    if warm:
                        memory.search("tea")
                        memory.session("cli:1").add("user", "About tea")
                    call = calls(memory)[name]
                    held = use_up(left)
                    try:
                        attempt(call)
                    finally:
                        for handle in held:
                            os.close(handle)
                    assert name == "forget" or memory.get(kept.id) == kept, name
                    memory.save("Likes cake")
                    assert memory.search("cake"), name
                    assert memory.admin.check() == [], name
                for made in (home / "b.zip", home / "e.jsonl"):
                    made.unlink(missing_ok=True)
        held = use_up(left)
        attempt(lambda: Memory.open(folder).close())
        attempt(lambda: Memory.open(home / f"new-{left}").close())
        for handle in held:
            os.close(handle)
"""


@pytest.mark.slow
def test_without_a_descriptor_every_call_raises_an_error_of_reverie(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_PROGRAM), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ran.returncode == 0, ran.stderr[-3_000:]
