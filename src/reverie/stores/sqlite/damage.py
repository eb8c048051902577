"""Reading of rows from the pages of a database file that SQLite may refuse to read.

The file format is https://www.sqlite.org/fileformat2.html. Trees are walked from the roots in the schema. A page that
no readable page leads to belongs to a tree with a lost page, or to a table that the schema does not name any more;
which one is found by the form of its rows.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

MAGIC = b"SQLite format 3\0"
DEFAULT_PAGE_SIZE = 4096
_TABLE_LEAF, _TABLE_INTERIOR, _INDEX_LEAF, _INDEX_INTERIOR = 13, 5, 10, 2
_LEAVES = {_TABLE_LEAF, _INDEX_LEAF}
_KINDS = {*_LEAVES, _TABLE_INTERIOR, _INDEX_INTERIOR}
_SCHEMA = "sqlite_schema"
_INTEGER_SIZES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


class Lost:
    """Marker of a column whose bytes are on a page that cannot be read."""


LOST: Final = Lost()


class DamagedHeader(NamedTuple):
    """Fields of the header of a database file.

    Attributes:
        is_readable: Whether the file has the header of an SQLite database.
        page_size: The size of a page, in bytes.
        version: The value of `PRAGMA user_version`.
        application: The value of `PRAGMA application_id`.
    """

    is_readable: bool
    page_size: int = DEFAULT_PAGE_SIZE
    version: int = 0
    application: int = 0


class TableForm(NamedTuple):
    """Columns of a table as they are stored.

    Attributes:
        names: The names of the columns.
        reals: Positions of the columns with real numbers, which SQLite may store as integers.
        key: The position of the column that is the row's number; None in a table without such numbers.
    """

    names: tuple[str, ...]
    reals: frozenset[int]
    key: int | None


Row = dict[str, Any]


class DamagedFile:
    """Rows of a file with damaged pages, read without SQLite.

    Args:
        path: A file that no process writes to, and that has no log.
        schema: The statements that create the tables, by name, for those that the file does not tell.
        fits: Returns whether a row can be one of a table, given the name of the table and the row.

    Attributes:
        header: The header.
        broken: The names of tables of which a page is lost.
    """

    def __init__(
        self, path: Path, *, schema: Mapping[str, str], fits: Callable[[str, Mapping[str, Any]], bool]
    ) -> None:
        self._data = path.read_bytes()
        self.header = _read_header(self._data)
        self._size = self.header.page_size
        self._count = -(-len(self._data) // self._size)
        self._fits = fits
        self._forms = {name: _parse_form(sql) for name, sql in schema.items()}
        self._forms[_SCHEMA] = _parse_form(
            "CREATE TABLE x (type TEXT, name TEXT, tbl_name TEXT, rootpage INT, sql TEXT)"
        )
        self.broken: set[str] = set()
        self._owned: set[int] = set()
        self._rows: dict[str, dict[Any, Row]] = {name: {} for name in self._forms}
        self._read_all()

    def rows(self, table: str) -> list[Row]:
        """Return the rows of a table, each once, by the names of their columns.

        A column that was added to the table after the row was written is missing. A column that cannot be read is
        `LOST`.
        """
        return list(self._rows.get(table, {}).values())

    # -- trees ---------------------------------------------------------------------------------------------

    def _read_all(self) -> None:
        self._walk(1, _SCHEMA)
        if self.broken:
            self._adopt_orphans({_SCHEMA})
        roots = {}
        for row in self.rows(_SCHEMA):
            if isinstance(row.get("rootpage"), int) and row["rootpage"] > 1:
                roots[row["name"]] = row["rootpage"]
                if row["type"] == "table" and isinstance(row["sql"], str) and row["name"] in self._forms:
                    self._forms[row["name"]] = _parse_form(row["sql"]) or self._forms[row["name"]]
        for name, root in roots.items():
            self._walk(root, name)
        missing = self._forms.keys() - roots.keys() - {_SCHEMA}
        self.broken |= missing
        if self.broken:
            self._adopt_orphans(self.broken & self._forms.keys() - {_SCHEMA})

    def _walk(self, root: int, name: str) -> None:
        """Read the pages of a tree, depth first."""
        waiting = [root]
        while waiting:
            number = waiting.pop()
            if number in self._owned:
                continue
            page = self._read_page(number)
            start = _get_start(number)
            if len(page) < self._size or page[start] not in _KINDS:
                self.broken.add(name)
                continue
            self._owned.add(number)
            waiting += reversed(_list_children(page, start))
            if name in self._forms:
                self._keep(name, _iterate_cells(page, start))

    def _adopt_orphans(self, tables: set[str]) -> None:
        """Give the pages to which no page leads to the tables to whose form their rows fit."""
        for number in range(1, self._count + 1):
            if number in self._owned:
                continue
            page, start = self._read_page(number), _get_start(number)
            if len(page) < self._size or page[start] not in (*_LEAVES, _INDEX_INTERIOR):
                continue
            cells = list(_iterate_cells(page, start))
            found = {name: self._count_fitting(name, page[start], cells) for name in sorted(tables)}
            best = max(found, key=found.__getitem__, default=None)
            if best is not None and found[best]:
                self._owned.add(number)
                self._keep(best, [cell for cell in cells if self._decode_fitting(best, cell)])

    def _count_fitting(self, name: str, kind: int, cells: Sequence[_Cell]) -> int:
        has_key = self._forms[name].key is not None or name == _SCHEMA
        if has_key != (kind == _TABLE_LEAF):
            return 0
        return sum(self._decode_fitting(name, cell) is not None for cell in cells)

    def _decode_fitting(self, name: str, cell: _Cell) -> Row | None:
        row = self._decode(name, cell)
        if row is None:
            return None
        if name == _SCHEMA:
            return row if row.get("type") in ("table", "index") and type(row.get("name")) is str else None
        return row if self._fits(name, row) else None

    def _keep(self, name: str, cells: Sequence[_Cell] | Iterator[_Cell]) -> None:
        rows, form = self._rows[name], self._forms[name]
        for cell in cells:
            if (row := self._decode(name, cell)) is None:
                continue
            name_of_row: Any = cell.key
            if form.key is None and name != _SCHEMA:
                name_of_row = tuple(repr(each) for each in row.values())
            rows.setdefault(name_of_row, row)

    def _decode(self, name: str, cell: _Cell) -> Row | None:
        """Return the columns of a cell; None if they are not those of the table."""
        form = self._forms[name]
        columns = _decode_record(self._join_payload(cell), cell.size)
        if columns is None or len(columns) > len(form.names):
            return None
        for place in form.reals:
            if place < len(columns) and type(columns[place]) is int:
                columns[place] = float(columns[place])
        if form.key is not None and 0 <= form.key < len(columns):
            columns[form.key] = cell.key
        return dict(zip(form.names, columns, strict=False))

    # -- pages ---------------------------------------------------------------------------------------------

    def _read_page(self, number: int) -> bytes:
        return self._data[(number - 1) * self._size : number * self._size]

    def _join_payload(self, cell: _Cell) -> bytes:
        """Return as much of the content of a cell as can be read, from the pages over which it is spread."""
        parts = [cell.local]
        left, following, seen = cell.size - len(cell.local), cell.overflow, set[int]()
        while left > 0 and following and following not in seen:
            seen.add(following)
            page = self._read_page(following)
            if len(page) < self._size:
                break
            (following,) = struct.unpack_from(">I", page)
            # A page of zeros in the middle of a chain is lost. At the end of a chain the next page is 0 too: then it
            # is lost if all of it is zero, because no text and no number ends so.
            part = page[4 : 4 + left]
            if not any(part):
                break
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


class _Cell(NamedTuple):
    """One cell of a page: the number of the row, if it has one, and its content as far as it is on the page."""

    key: int
    size: int
    local: bytes
    overflow: int


def _get_start(number: int) -> int:
    return 100 if number == 1 else 0


def _list_children(page: bytes, start: int) -> list[int]:
    """Return the numbers of the pages below a page, in order."""
    if page[start] in _LEAVES:
        return []
    children = []
    for offset in _list_offsets(page, start, 12):
        if offset + 4 <= len(page):
            children.append(struct.unpack_from(">I", page, offset)[0])
    return [*children, struct.unpack_from(">I", page, start + 8)[0]]


def _list_offsets(page: bytes, start: int, header: int) -> tuple[int, ...]:
    (count,) = struct.unpack_from(">H", page, start + 3)
    count = min(count, (len(page) - start - header) // 2)
    return struct.unpack_from(f">{count}H", page, start + header)


def _iterate_cells(page: bytes, start: int) -> Iterator[_Cell]:
    """Yield the cells of a page that have content. A cell that is not of its form is left out."""
    kind, usable = page[start], len(page)
    if kind == _TABLE_INTERIOR:
        return
    for offset in _list_offsets(page, start, 8 if kind in _LEAVES else 12):
        try:
            place = offset + (0 if kind in _LEAVES else 4)
            size, place = _read_number(page, place)
            key = 0
            if kind == _TABLE_LEAF:
                key, place = _read_number(page, place)
                key -= (key >> 63) << 64
            local = _compute_local_size(size, usable, is_table=kind == _TABLE_LEAF)
            end = place + local
            if end > usable or place < start:
                continue
            overflow = struct.unpack_from(">I", page, end)[0] if local < size else 0
        except (IndexError, struct.error):
            continue
        yield _Cell(key, size, page[place:end], overflow)


def _compute_local_size(size: int, usable: int, *, is_table: bool) -> int:
    """Return how many bytes of the content of a cell are on its page."""
    most = usable - 35 if is_table else (usable - 12) * 64 // 255 - 23
    if size <= most:
        return size
    least = (usable - 12) * 32 // 255 - 23
    local = least + (size - least) % (usable - 4)
    return local if local <= most else least


def _read_number(data: bytes, place: int) -> tuple[int, int]:
    """Return a number of variable length, and the place after it."""
    number = 0
    for _ in range(8):
        byte = data[place]
        place += 1
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, place
    return number << 8 | data[place], place + 1


def _decode_record(payload: bytes, size: int) -> list[Any] | None:
    """Return the columns of a record; those behind the last readable byte are `LOST`. None if it is no record."""
    try:
        end, place = _read_number(payload, 0)
        kinds = []
        while place < end:
            kind, place = _read_number(payload, place)
            kinds.append(kind)
    except IndexError:
        return None
    if place != end or end + sum(map(_get_size, kinds)) != size or 10 in kinds or 11 in kinds:
        return None
    columns: list[Any] = []
    for kind in kinds:
        length = _get_size(kind)
        columns.append(_decode_column(kind, payload[place : place + length], length))
        place += length
    return columns


def _get_size(kind: int) -> int:
    if kind >= 12:
        return (kind - 12) // 2
    return 8 if kind == 7 else _INTEGER_SIZES.get(kind, 0)


def _decode_column(kind: int, data: bytes, length: int) -> Any:
    if len(data) < length:
        return LOST
    if kind == 0:
        return None
    if kind in _INTEGER_SIZES:
        return int.from_bytes(data, "big", signed=True)
    if kind == 7:
        return struct.unpack(">d", data)[0]
    if kind in (8, 9):
        return kind - 8
    if kind % 2 == 0:
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _parse_form(sql: str) -> TableForm:
    with closing(sqlite3.connect(":memory:")) as scratch:
        scratch.execute(sql)
        ((name,),) = scratch.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        columns = scratch.execute("SELECT name, type, pk FROM pragma_table_info(?)", (name,)).fetchall()
    keys = [place for place, (_, kind, pk) in enumerate(columns) if pk and kind == "INTEGER"]
    has_rows = "WITHOUT ROWID" not in sql.upper()
    return TableForm(
        names=tuple(name for name, _, _ in columns),
        reals=frozenset(place for place, (_, kind, _) in enumerate(columns) if kind == "REAL"),
        key=keys[0] if keys and has_rows else -1 if has_rows else None,
    )


def _read_header(data: bytes) -> DamagedHeader:
    if not data.startswith(MAGIC) or len(data) < 100:
        return DamagedHeader(is_readable=False)
    (size,) = struct.unpack_from(">H", data, 16)
    version, application = (struct.unpack_from(">i", data, place)[0] for place in (60, 68))
    is_size = size >= 512 and size & (size - 1) == 0
    return DamagedHeader(
        True, 65536 if size == 1 else size if is_size else DEFAULT_PAGE_SIZE, version, application
    )
