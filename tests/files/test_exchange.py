"""Files of a memory without a folder are exchanged with a folder that belongs to it alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from reverie.domain.errors import InvalidInput
from reverie.files.exchange import OWNER_FILE, FileExchange
from reverie.search.analyzer import analyze
from reverie.stores.in_memory import InMemoryStore
from reverie.stores.writer import StoreWriter


@pytest.mark.parametrize("mark", [b"another\n", b"\xff\xfe\0", b""])
def test_a_folder_with_the_mark_of_another_memory_is_refused(tmp_path: Path, mark: bytes) -> None:
    (tmp_path / OWNER_FILE).write_bytes(mark)
    exchange = FileExchange(tmp_path, StoreWriter(store=InMemoryStore(analyse=analyze)), identity="own")
    for act in (exchange.pull, exchange.push):
        with pytest.raises(InvalidInput, match="of another memory"):
            act()
