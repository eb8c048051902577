"""Texts that were last written to files: the base versions of hand edits.

`files.db` keeps them only where the journal cannot give them back (`decisions/0028`).
"""

from __future__ import annotations

from reverie.domain.errors import StoreCorrupt
from reverie.files.disk.state import FileRecord, LockedFileState, compute_checksum
from reverie.files.expected import iter_record_contents
from reverie.files.layout import parse_form
from reverie.stores.protocol import Store


def keep_written(ledger: LockedFileState, file: FileRecord, data: bytes) -> None:
    """Set the record of a file with the content of the store; store its text unless the journal has it."""
    ledger.put_text(file, None if parse_form(file.path) == "record" else data)


def read_base_text(store: Store, ledger: LockedFileState, path: str) -> bytes | None:
    """Return the text that was last written to a file; None if it is not known."""
    text = ledger.read_text(path)
    file = ledger.find(path) if text is None and parse_form(path) == "record" else None
    if file is None:
        return text
    try:
        for data in iter_record_contents(store, path):
            if (len(data), compute_checksum(data)) == (file.size, file.checksum):
                return data
    except StoreCorrupt:  # the merge reads the same entries, and reports it
        return None
    return None
