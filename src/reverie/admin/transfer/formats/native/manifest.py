"""Manifest of an export as Markdown, the file `reverie-export.json`.

Pages and paragraphs of logs have times, ids and sources, for which Markdown has no place. The manifest keeps
them beside a digest of the text. A page or paragraph that was edited since is imported as its file has it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.formats import notes
from reverie.admin.transfer.formats.native import codec
from reverie.admin.transfer.items import FoundValue, Item, hash_texts
from reverie.domain.dataclass import dataclass, field, replace
from reverie.domain.errors import InvalidInput
from reverie.domain.page import Page, Paragraph, validate_page
from reverie.domain.text import timestamps

NAME = "reverie-export.json"


@dataclass(slots=True)
class ExportManifest:
    """Manifest of an export.

    Attributes:
        form: The export form.
        made_at: When it was made.
        counts: How many of each sort there are.
        pages: For each page its last change and a digest of its text.
        logs: For each log its paragraphs: id, position, time, source, and a digest of the text.
    """

    form: str
    made_at: datetime
    counts: Mapping[str, int] = field(default_factory=dict)
    pages: dict[str, list[Any]] = field(default_factory=dict)
    logs: dict[str, list[list[Any]]] = field(default_factory=dict)

    def record_page(self, page: Page) -> None:
        """Store what the page's file cannot hold."""
        self.pages[page.name] = [timestamps.format_time(page.updated_at), hash_texts(page.content)]

    def record_log(self, name: str, paragraphs: Iterable[Paragraph]) -> None:
        """Store what the log's file cannot hold."""
        self.logs[name] = [
            [each.id, each.position, timestamps.format_time(each.at), each.source, hash_texts(each.content)]
            for each in paragraphs
        ]

    def to_text(self) -> str:
        """Return the text of the file."""
        data = {
            **codec.build_header(self.form, at=self.made_at),
            "counts": dict(self.counts),
            "pages": self.pages,
            "logs": self.logs,
        }
        return json.dumps(data, ensure_ascii=False, indent=2) + "\n"


def read_manifest(folder: Path) -> ExportManifest | None:
    """Return the manifest of an export; None if there is none.

    Raises:
        InvalidInput: there is one and it cannot be read, or a newer Reverie wrote it.
    """
    file = folder / NAME
    if not file.is_file():
        return None
    try:
        data = safe_reading.parse_json_object(safe_reading.read_text(file))
        if data.get("format") != codec.FORMAT:
            raise InvalidInput("it is no manifest of an export")
        codec.validate_header(data, NAME)
        return ExportManifest(
            form=str(data.get("form")),
            made_at=timestamps.parse_time(str(data.get("made_at")), name="made_at"),
            pages=_select_lists(data.get("pages"), 2),
            logs={
                name: [entry for entry in entries if isinstance(entry, list) and len(entry) == 5]
                for name, entries in _select_lists(data.get("logs"), None).items()
            },
        )
    except InvalidInput as error:
        raise InvalidInput(f"{NAME}: {str(error).removeprefix(f'{NAME}: ')}") from None


def _select_lists(value: Any, length: int | None) -> dict[str, list[Any]]:
    if not isinstance(value, dict):
        return {}
    return {
        name: each
        for name, each in value.items()
        if isinstance(each, list) and (length is None or len(each) == length)
    }


# -- pages and logs as their files and the manifest have them ----------------------------------------------


def build_found_page(
    name: str, text: str, manifest: ExportManifest | None, *, place: str, at: datetime
) -> Iterator[Item]:
    """Yield a page from its file and the manifest.

    Args:
        text: The content of its file.
        manifest: The manifest, if any.
        at: The file's last change, for a page that was edited since the export.
    """
    noted = (manifest.pages if manifest is not None else {}).get(name)
    try:
        moment = at
        if noted is not None and noted[1] == hash_texts(text):
            moment = timestamps.parse_time(str(noted[0]), name="updated_at")
        else:
            text = text.removeprefix("\ufeff").replace("\r\n", "\n")
        yield FoundValue(place=place, value=validate_page(Page(name=name, content=text, updated_at=moment)))
    except InvalidInput as error:
        yield notes.skip("page", place, error)


def build_found_paragraphs(
    name: str, text: str, manifest: ExportManifest | None, *, place: str, at: datetime
) -> Iterator[Item]:
    """Yield the paragraphs of a log from its file and the manifest.

    Args:
        text: The content of its file.
        manifest: The manifest, if any.
        at: The file's last change, for paragraphs without a time.
    """
    noted: dict[str, list[list[Any]]] = {}
    for entry in (manifest.logs if manifest is not None else {}).get(name, ()):
        noted.setdefault(str(entry[4]), []).append(entry)
    last = 0.0
    form = ""
    seen = Counter[str]()
    for where, content in notes.split_paragraphs(name, text, place):
        same = noted.get(hash_texts(content))
        try:
            if same:
                paragraph, form = _restore_paragraph(name, content, same.pop(0)), ""
            else:
                plain = notes.fold_paragraph(content.removeprefix("\ufeff"), name)
                fresh = notes.build_paragraph(name, plain, form=codec.FORMAT, at=at, nth=seen[plain])
                seen[plain] += 1
                paragraph, form = replace(fresh, position=last + 1), codec.FORMAT
        except InvalidInput as error:
            yield notes.skip("paragraph", where, error)
            continue
        last = paragraph.position
        yield FoundValue(place=where, value=paragraph, form=form)


def _restore_paragraph(name: str, content: str, entry: Sequence[Any]) -> Paragraph:
    fields = dict(zip(("id", "position", "at", "source"), entry, strict=False))
    return codec.read(Paragraph, {**fields, "page": name, "content": content})
