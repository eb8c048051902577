"""A folder that cannot be written can be read, and what would be saved there is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from reverie import Memory

_MOUNT = "mount --bind {0} {0} && mount -o remount,bind,ro {0} && "
_READ = """
    import sys
    from reverie import Memory, StoreUnavailable
    with Memory.open(sys.argv[1]) as memory:
        assert "Likes tea" in [hit.content for hit in memory.search("tea")]
        assert [turn.content for turn in memory.turns("cli:1")] == ["Where is the tea?"]
        assert "Likes tea" in str(memory.session("cli:1").context("Who likes tea?"))
        assert memory.history.log()
        assert memory.admin.check() == []
        for fix in (False, True):
            diagnosis = memory.admin.doctor(fix=fix)
            assert (diagnosis.sound, [each.code for each in diagnosis.findings]) == (True, ["read-only"])
        try:
            memory.save("Likes coffee")
        except StoreUnavailable as error:
            assert "read-only" in str(error), error
        else:
            raise AssertionError("saved")
"""


def in_namespace(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a shell command as the root of a mount namespace of its own."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("there is no unshare here")
    return subprocess.run(
        [unshare, "-rm", "sh", "-c", command, "sh", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("REVERIE_")},
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
    )


@pytest.mark.parametrize("state", ["closed", "in use"])
def test_a_folder_on_a_read_only_mount_can_be_read(tmp_path: Path, state: str) -> None:
    folder = tmp_path / "m"
    mount = _MOUNT.format(str(folder))
    memory = Memory.open(folder)
    memory.save("Likes tea")
    memory.session("cli:1").add("user", "Where is the tea?")
    assert memory.flush()
    if state == "closed":
        memory.close()
    if in_namespace(f"{mount} true").returncode:
        pytest.skip("mounts are not allowed here")
    before = {
        file: file.read_bytes() for file in folder.rglob("*") if file.is_file() and "-shm" not in file.name
    }
    ran = in_namespace(f'{mount} exec "$@"', sys.executable, "-c", textwrap.dedent(_READ), str(folder))
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    watch = f'{mount} exec "$@"', sys.executable, "-m", "reverie", "files", "push", "--store", str(folder)
    watched = in_namespace(*watch)
    assert (watched.returncode, "is read-only" in watched.stderr) == (4, True), watched.stderr
    assert {file: file.read_bytes() for file in before} == before
    memory.close()
