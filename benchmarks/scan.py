"""Time of a scan of all files when nothing has changed: `python -m benchmarks.scan [FILES]`.

Prints the best of five runs for reading the recorded state and for scanning the files, and one run with the
kernel's file cache dropped where that is permitted.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from reverie.files.scan import scan
from reverie.files.state import FileRecord, FileState

_FOLDERS = 200


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        state = FileState(root)
        with state.lock() as ledger:
            ledger.put(_write_files(root, count))
        print(f"{count:,} files in {min(count, _FOLDERS)} folders")
        if _drop_caches():
            print("cold:  state {:.3f} s, scan {:.3f} s".format(*_time_scan(root, state)))
        best = [min(times) for times in zip(*(_time_scan(root, state) for _ in range(5)), strict=True)]
        print("warm:  state {:.3f} s, scan {:.3f} s".format(*best))
        state.close()


def _write_files(root: Path, count: int) -> list[FileRecord]:
    found = []
    for number in range(count):
        path = f"memory/c{number % 10}/d{number % _FOLDERS}/{number:012x}.json"
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"x" * 600)
        seen = (root / path).stat()
        found.append(FileRecord(path, seen.st_size, seen.st_mtime_ns, 0))
    return found


def _time_scan(root: Path, state: FileState) -> tuple[float, float]:
    began = time.perf_counter()
    known = state.known()
    read = time.perf_counter()
    assert not scan(root, known)
    return read - began, time.perf_counter() - read


def _drop_caches() -> bool:
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
