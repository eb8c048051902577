"""Cost of the readable files: `python -m benchmarks.folder --sizes 10000,100000`.

Measures durable saves with and without files, taking turns in one run, and opening a folder of many files:
unchanged, after an edit, and after the loss of all files. Each opening runs in a process of its own. The time
of the bare disk operations is printed beside each figure.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import click

from benchmarks.measure import Figures, _compute_quantiles
from benchmarks.texts import Texts
from reverie import Memory, Settings

SIZES = (10_000, 100_000)
SAVES = 300
_IN_A_ROW = 10
_BATCH = 5_000
_OPENINGS = 5
_LONGEST_S = 3_600.0

ROWS = (
    ("save, files on, p50", "on_save_p50_ms", "ms"),
    ("save, files on, p95", "on_save_p95_ms", "ms"),
    ("save, files off, p50", "off_save_p50_ms", "ms"),
    ("save, files off, p95", "off_save_p95_ms", "ms"),
    ("save, files on / off, p50", "save_ratio", "times"),
    ("open, nothing changed, until usable", "open_s", "s"),
    ("open, nothing changed, until all files are scanned", "open_scanned_s", "s"),
    ("first search after opening, during the scan", "first_search_ms", "ms"),
    ("check of the files in each turn", "refresh_ms", "ms"),
    ("scan of all files, nothing changed", "scan_s", "s"),
    ("disk alone: a stat of each file", "stat_s", "s"),
    ("one file edited by hand, until the store has it", "edit_s", "s"),
    ("write all lost files again", "again_s", "s"),
    ("disk alone: writing as many files", "write_s", "s"),
    ("read all files again after losing `files.db`", "anew_s", "s"),
)


def measure_size(size: int, seed: int, folder: Path, *, count: int = SAVES) -> Figures:
    """Measure everything about a folder with `size` files."""
    texts = Texts(seed)
    place = folder / f"files-{size}"
    _say(f"{size:,} files: writing them")
    fill_memory(place, texts, size, files="pages")
    bare = folder / f"bare-{size}"
    fill_memory(bare, texts, size, files="none")
    _say(f"{size:,} files: saving")
    figures = measure_saves(place, bare, texts, size, count)
    _say(f"{size:,} files: opening")
    figures |= measure_openings(place)
    figures["stat_s"] = time_action(lambda: sum(1 for _ in iterate_files(place)))
    figures["edit_s"] = _run_child("edit_file", place)["s"]
    _say(f"{size:,} files: losing them")
    figures["write_s"] = time_bare_writes(place, folder / "copy")
    for top in ("memory", "sessions"):
        shutil.rmtree(place / top, ignore_errors=True)
    figures["again_s"] = _run_child("sync_folder", place)["s"]
    for name in ("files.db", "files.db-wal", "files.db-shm"):
        (place / name).unlink(missing_ok=True)
    figures["anew_s"] = _run_child("sync_folder", place)["s"]
    with Memory.open(place) as memory:
        assert memory.folder is not None
        memory.folder.flush(_LONGEST_S)
        assert not memory.folder.problems()
    shutil.rmtree(place)
    shutil.rmtree(bare)
    return figures


def fill_memory(place: Path, texts: Texts, size: int, *, files: Literal["pages", "none"]) -> None:
    """Create a memory with `size` records in categories, with pages or without files."""
    with Memory.open(place, settings=Settings(files=files)) as memory:
        for start in range(0, size, _BATCH):
            some = (texts.text(number) for number in range(start, min(start + _BATCH, size)))
            memory.save_many({"content": text.content, "category": text.category} for text in some)
        if memory.folder is not None:
            memory.folder.sync()


def measure_saves(place: Path, bare: Path, texts: Texts, size: int, count: int) -> Figures:
    """Measure durable saves with and without files in milliseconds, in alternating runs of ten."""
    times: dict[str, list[float]] = {"on": [], "off": []}
    order = random.Random(size)
    with (
        Memory.open(place) as on,
        Memory.open(bare, settings=Settings(files="none")) as off,
    ):
        assert on.folder is not None
        on.folder.flush(_LONGEST_S)
        memories = {"on": on, "off": off}
        for memory in memories.values():
            memory.search("warm")
        for start in range(0, count, _IN_A_ROW):
            for name in order.sample(list(memories), 2):
                for number in range(size + start, size + start + _IN_A_ROW):
                    text = texts.text(number)
                    took = time_action(
                        lambda m=memories[name], t=text: m.save(t.content, category=t.category)
                    )  # type: ignore[misc]
                    times[name].append(took * 1000)
    figures = {
        f"{name}_{what}": value
        for name in times
        for what, value in _compute_quantiles("save", times[name]).items()
    }
    figures["save_ratio"] = figures["on_save_p50_ms"] / figures["off_save_p50_ms"]
    return figures


def measure_openings(place: Path) -> Figures:
    """Return the best figures of several processes that open the folder."""
    found = [_run_child("open_folder", place) for _ in range(_OPENINGS)]
    return {name: min(one[name] for one in found) for name in found[0]}


def iterate_files(place: Path) -> Iterator[os.stat_result]:
    """Yield the stat of every file of a memory."""
    for top in ("memory", "sessions"):
        for folder, _, names in os.walk(place / top):
            for name in names:
                yield os.lstat(f"{folder}/{name}")


def time_bare_writes(place: Path, copy: Path) -> float:
    """Return the seconds for writing the same files directly."""
    files = [
        (file.relative_to(place), file.read_bytes())
        for top in ("memory", "sessions")
        for file in (place / top).rglob("*")
        if file.is_file()
    ]
    for folder in {copy / name.parent for name, _ in files}:
        folder.mkdir(parents=True, exist_ok=True)

    def write() -> None:
        for name, content in files:
            handle = os.open(copy / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(handle, content)
            os.close(handle)

    took = time_action(write)
    shutil.rmtree(copy)
    return took


def time_action(act: Callable[[], object]) -> float:
    """Return the seconds an action takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


# -- child processes -------------------------------------------------------------------------------


def open_folder(place: Path) -> Figures:
    """Open a folder, search at once, and wait until all its files are scanned."""
    began = time.perf_counter()
    with Memory.open(place) as memory:
        ready = time.perf_counter()
        memory.search("what did the harbour do")
        searched = time.perf_counter()
        assert memory.folder is not None
        memory.folder.flush(_LONGEST_S)
        scanned = time.perf_counter()
        again = time_action(memory.folder.sync)
        turns = [time_action(memory.folder.refresh) for _ in range(20)]
    return {
        "open_s": ready - began,
        "first_search_ms": (searched - ready) * 1000,
        "open_scanned_s": scanned - began,
        "scan_s": again,
        "refresh_ms": sorted(turns)[len(turns) // 2] * 1000,
    }


def sync_folder(place: Path) -> Figures:
    """Open a folder and wait until its files are in sync."""
    began = time.perf_counter()
    with Memory.open(place) as memory:
        assert memory.folder is not None
        memory.folder.sync()
    return {"s": time.perf_counter() - began}


def edit_file(place: Path) -> Figures:
    """Edit one file of an open folder and wait until the store has the edit."""
    with Memory.open(place) as memory:
        assert memory.folder is not None
        memory.folder.sync()
        record = memory.list(limit=1)[0]
        file = next(each for each in (place / "memory").rglob("*.md") if record.id in each.read_text("utf-8"))
        draft = file.with_name(".draft~")
        draft.write_text(
            file.read_text("utf-8").replace(f" <!-- {record.id}", f" by hand <!-- {record.id}"), "utf-8"
        )
        began = time.perf_counter()
        draft.replace(file)
        memory.folder.sync()
        took = time.perf_counter() - began
        now = memory.get(record.id)
        assert now is not None
        assert now.content == f"{record.content} by hand"
    return {"s": took}


_CHILDREN = {act.__name__: act for act in (open_folder, sync_folder, edit_file)}


def _run_child(action: str, place: Path) -> Figures:
    command = [sys.executable, "-m", "benchmarks.folder", "--child", action, str(place)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: Figures = json.loads(done.stdout)
    return found


# -- output ---------------------------------------------------------------------------------------


def render_table(figures: dict[int, Figures]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    sizes = list(figures)
    yield "| | " + " | ".join(f"{size:,} files" for size in sizes) + " |"
    yield "|---|" + "---:|" * len(sizes)
    for title, name, unit in ROWS:
        cells = (f"{figures[size][name]:,.{1 if unit == 'times' else 2}f} {unit}" for size in sizes)
        yield f"| {title} | " + " | ".join(cells) + " |"


def _say(what: str) -> None:
    click.echo(what, err=True)


@click.command()
@click.option("--sizes", default=",".join(map(str, SIZES)), show_default=True, help="Numbers of files.")
@click.option(
    "--saves", "count", type=click.IntRange(10), default=SAVES, show_default=True, help="Number of saves."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the texts.")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures there as JSON."
)
@click.option(
    "--disk",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder for the data; a durable save is as fast as its disk.",
)
@click.option("--child", nargs=2, hidden=True)
def main(
    sizes: str, count: int, seed: int, out: Path | None, disk: Path | None, child: tuple[str, str] | None
) -> None:
    """Measure the cost of readable files and print a table."""
    if child is not None:
        click.echo(json.dumps(_CHILDREN[child[0]](Path(child[1]))))
        return
    with tempfile.TemporaryDirectory(prefix="reverie-folder-", dir=disk) as folder:
        figures = {
            size: measure_size(size, seed, Path(folder), count=count) for size in map(int, sizes.split(","))
        }
    if out is not None:
        out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    click.echo("\n".join(render_table(figures)))


if __name__ == "__main__":
    main()
