"""Sizes of the parts of a memory on the disk."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from reverie.admin.stats import iter_files
from reverie.files.state import FILES_DATABASE
from reverie.search.vectors.vector_index import FOLDER as VECTORS
from reverie.stores.protocol import Store, StoreInFile
from reverie.stores.redacting import unwrap
from reverie.stores.sqlite import DATABASE

_LOGS = ("-wal", "-shm")
_LOG = "database: log"
_BLOCK = 512  # the unit of `st_blocks`, whatever the file system
_OF_TABLE: Mapping[str, str] = MappingProxyType(
    {name: f"database: {name}" for name in ("journal", "records", "turns", "sessions", "pages", "paragraphs")}
    | {"entries": "database: working memory", "": "database: free"}
)
_REST = "database: other tables"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskPart:
    """A part of what a memory takes on the disk.

    Attributes:
        name: What it is: `database: ` and a kind of content with its indexes, `database: journal`, `database: log`
            (what is not in the file itself yet), `search index`, `vectors`, `state of the files`, `memory files`,
            `session files`, or `other files`.
        bytes: Its size, as the lengths of its files. All parts together are `Stats.bytes_on_disk`.
        allocated: What the file system reserves for its files, in whole blocks; for a part of a file its size.
        files: Number of its files; 0 for a part of a file.
    """

    name: str
    bytes: int
    allocated: int
    files: int = 0


def measure_disk(store: Store, folder: Path | None) -> tuple[DiskPart, ...]:
    """Return the parts of what a memory takes on the disk, the largest first; none without a folder.

    Where SQLite cannot tell the size of a table, the database is one part.
    """
    if folder is None:
        return ()
    sizes: dict[str, int] = defaultdict(int)
    allocated: dict[str, int] = defaultdict(int)
    files: dict[str, int] = defaultdict(int)
    for file, status in iter_files(folder):
        part = _name_part(file.relative_to(folder))
        sizes[part] += status.st_size
        allocated[part] += getattr(status, "st_blocks", 0) * _BLOCK or status.st_size
        files[part] += 1
    bare = unwrap(store)
    tables = bare.measure_tables() if isinstance(bare, StoreInFile) else {}
    if tables:
        beyond = sum(tables.values()) - sizes.pop("database", 0)  # pages that are only in the log so far
        if _LOG in sizes:
            sizes[_LOG] = allocated[_LOG] = max(sizes[_LOG] - max(beyond, 0), 0)
        sizes[_OF_TABLE[""]] += max(-beyond, 0)
        files.pop("database", None)
        for table, size in tables.items():
            sizes[_OF_TABLE.get(table, _REST)] += size
    parts = (
        DiskPart(name=name, bytes=size, allocated=allocated.get(name, size), files=files.get(name, 0))
        for name, size in sizes.items()
        if size
    )
    return tuple(sorted(parts, key=lambda part: (-part.bytes, part.name)))


def _name_part(path: Path) -> str:
    """Return the part to which a file belongs; its path is relative to the folder."""
    top = path.parts[0]
    if path.is_relative_to(VECTORS):
        return "vectors"
    if top == DATABASE:
        return "database"
    if top in {f"{DATABASE}{end}" for end in _LOGS}:
        return _LOG
    if top.startswith(FILES_DATABASE):
        return "state of the files"
    return {"index": "search index", "memory": "memory files", "sessions": "session files"}.get(
        top, "other files"
    )
