"""Change of the layout of a folder, and pages that nothing is known of.

Before records are written in another layout, all files of the former one are packed into `files.{layout}.backup-N.zip`
beside the database. Only then are they marked as due: the mirror writes the new files, and removes the old ones when it
is done. A process that is killed leaves both, and the next one continues. Erasure removes the packed files.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from pathlib import Path

from reverie.domain.errors import InvalidInput
from reverie.files.atomic import AtomicFolder, create_file
from reverie.files.layout import EPISODIC, MEMORY, Layout, parse_path
from reverie.files.parsing import read_rows
from reverie.files.scan import scan
from reverie.files.state import NO_PROGRESS, LockedFileState

PACKED_FILES = "files.*.backup-*.zip"
"""Names of the packed files of former layouts."""


def convert(root: Path, disk: AtomicFolder, ledger: LockedFileState, layout: Layout) -> None:
    """Pack the files of another layout and mark them as due, so that the mirror replaces them.

    Args:
        root: The memory's folder.
        disk: Its files.
        ledger: The state, whose layout becomes `layout`.
        layout: The new layout.

    Raises:
        OSError: the files cannot be read or packed; nothing was changed.
    """
    former = [path for path in scan(root, {}).added if _is_former(path, layout)]
    day_files = _list_day_files(root)
    if former or day_files:
        _pack(root, [*former, *day_files], "records" if layout == "pages" else "pages")
        ledger.mark_due(former)
        ledger.advance(NO_PROGRESS)
    ledger.set_layout(layout)
    for path in day_files:
        if (stamp := disk.stat(path)) is not None:
            disk.remove(path, stamp)


def adopt_pages(root: Path, disk: AtomicFolder, ledger: LockedFileState) -> None:
    """Record which records are on the pages that exist, if nothing is known of any page."""
    if ledger.find_pages():
        return
    taken: set[str] = set()
    for path in sorted(scan(root, {}).added, key=lambda each: (len(each), each)):  # copies have longer names
        place = parse_path(path)
        found = disk.read(path) if place is not None and place.form == "lines" else None
        if found is None:
            continue
        try:
            names = [row.line.id for row in read_rows(path, found[0]) if row.line.id]
        except InvalidInput:  # the import of hand edits reports it
            continue
        ledger.set_ids(path, [name for name in names if name not in taken])
        taken.update(names)


def _is_former(path: str, layout: Layout) -> bool:
    place = parse_path(path)
    if place is None:
        return False
    return place.form == "record" if layout == "pages" else place.form == "lines" and not place.is_day


def _list_day_files(root: Path) -> list[str]:
    """Return the files of episodic records of earlier versions, which were lines of JSON."""
    folder = root / MEMORY / EPISODIC
    names = (file.name for file in folder.glob("*.jsonl") if file.is_file() and not file.is_symlink())
    return sorted(f"{MEMORY}/{EPISODIC}/{name}" for name in names)


def _pack(root: Path, paths: Iterable[str], layout: str) -> None:
    """Pack files into one that only its owner may read, and wait until it is on the disk."""
    import zipfile  # here: few folders are converted

    targets = (root / f"files.{layout}.backup-{number}.zip" for number in count(1))
    target = next(target for target in targets if not target.exists())
    with (
        create_file(target, overwrite=False) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as packed,
    ):
        for path in paths:
            if (root / path).is_file() and not (root / path).is_symlink():
                packed.write(root / path, path)
