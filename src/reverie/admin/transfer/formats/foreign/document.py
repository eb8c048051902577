"""Reader of a plain text, cut into passages of which each becomes a record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.formats import notes
from reverie.admin.transfer.formats.foreign.fields import ForeignFields
from reverie.admin.transfer.items import ImportTerms, Item
from reverie.domain.errors import InvalidInput
from reverie.domain.text.validation import clean_text
from reverie.tools.chunking import split_text

CATEGORY = "documents"
"""Category of all passages; each document has one below it."""

LONGEST_PASSAGE = 800
"""Most characters of a passage: as many as a prompt quotes of a record."""

ENDINGS = {".txt", ".text", ".rst", ".log"}
"""Endings of files that are taken for documents if nothing else is known of them."""


def read(path: Path, terms: ImportTerms) -> Iterator[Item]:
    """Yield the passages of a text.

    Raises:
        InvalidInput: it cannot be read.
    """
    try:
        text = safe_reading.read_text(path).replace("\r\n", "\n")
    except InvalidInput as error:
        raise InvalidInput(f"{path.name}: {error}") from None
    category = ForeignFields({"category": f"{CATEGORY}/{path.stem}"}).category("category") or CATEGORY
    at = safe_reading.get_modified_time(path)
    seen = Counter[str]()
    line = 1
    for passage in split_text(text, LONGEST_PASSAGE):
        if content := clean_text(passage).strip():
            yield notes.build_record_item(
                path.name, content, terms, place=f"{path.name}, line {line}", at=at, nth=seen[content],
                kind="fact", category=category,
            )  # fmt: skip
            seen[content] += 1
        line += passage.count("\n")
