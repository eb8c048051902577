"""What does a folder of an export say of itself? The file `reverie-export.json`, written and read here.

A page and a paragraph of a log are more than their text: when they changed, an id, where they come from.
Markdown has no place for that, so the manifest keeps it beside a digest of the text. A page or paragraph that
was edited since is taken as it stands in its file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.formats import notes
from reverie.admin.transfer.formats.native import codec
from reverie.admin.transfer.items import FoundPage, FoundParagraph, Item, Skipped, hash_texts
from reverie.domain.errors import InvalidInput
from reverie.domain.page import Page, Paragraph, validate_page
from reverie.domain.text import timestamps

NAME = "reverie-export.json"


@dataclass(slots=True)
class ExportManifest:
    """What an export in a folder says of itself.

    Attributes:
        form: Which of our formats it is.
        made_at: When it was made.
        counts: How many of each sort there are.
        pages: For each page when it last changed, and a digest of its text.
        logs: For each log its paragraphs: id, position, time, source, and a digest of the text.
    """

    form: str
    made_at: datetime
    counts: Mapping[str, int] = field(default_factory=dict)
    pages: dict[str, list[Any]] = field(default_factory=dict)
    logs: dict[str, list[list[Any]]] = field(default_factory=dict)

    def record_page(self, page: Page) -> None:
        """Keep what the page's file cannot hold."""
        self.pages[page.name] = [timestamps.format_time(page.updated_at), hash_texts(page.content)]

    def record_log(self, name: str, paragraphs: Iterable[Paragraph]) -> None:
        """Keep what the log's file cannot hold."""
        self.logs[name] = [
            [each.id, each.position, timestamps.format_time(each.at), each.source, hash_texts(each.content)]
            for each in paragraphs
        ]

    def to_text(self) -> str:
        """The file's text."""
        data = codec.build_header(self.form, at=self.made_at) | {
            "counts": dict(self.counts),
            "pages": self.pages,
            "logs": self.logs,
        }
        entries = ",\n".join(
            f"  {codec.encode_json(name)}: {_format_value(value)}" for name, value in data.items()
        )
        return f"{{\n{entries}\n}}\n"


def _format_value(value: Any) -> str:
    """A value on as many lines as can be read and compared."""
    if isinstance(value, dict) and value:
        inner = ",\n".join(
            f"    {codec.encode_json(name)}: {_format_list(each)}" for name, each in value.items()
        )
        return f"{{\n{inner}\n  }}"
    return codec.encode_json(value)


def _format_list(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[\n" + ",\n".join(f"      {codec.encode_json(each)}" for each in value) + "\n    ]"
    return codec.encode_json(value)


def read_manifest(folder: Path) -> ExportManifest | None:
    """The manifest of an export; None where there is none.

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
) -> Item:
    """A page as its file and the manifest have it.

    Args:
        name: The page's name.
        text: What its file holds.
        manifest: The manifest, if there is one.
        place: Where the file stands.
        at: When the file last changed, for a page that was edited since the export.
    """
    noted = (manifest.pages if manifest is not None else {}).get(name)
    try:
        moment = at
        if noted is not None and noted[1] == hash_texts(text):
            moment = timestamps.parse_time(str(noted[0]), name="updated_at")
        else:
            text = text.removeprefix("\ufeff").replace("\r\n", "\n")
        return FoundPage(place=place, page=validate_page(Page(name=name, content=text, updated_at=moment)))
    except InvalidInput as error:
        return Skipped(what="page", place=place, why=notes.get_skip_reason(error), detail=str(error))


def build_found_paragraphs(
    name: str, text: str, manifest: ExportManifest | None, *, place: str, at: datetime
) -> Iterator[Item]:
    """The paragraphs of a log as its file and the manifest have them.

    Args:
        name: The log's name.
        text: What its file holds.
        manifest: The manifest, if there is one.
        place: Where the file stands.
        at: When the file last changed, for paragraphs that do not tell their time.
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
            yield Skipped(what="paragraph", place=where, why=notes.get_skip_reason(error), detail=str(error))
            continue
        last = paragraph.position
        yield FoundParagraph(place=where, paragraph=paragraph, form=form)


def _restore_paragraph(name: str, content: str, entry: Sequence[Any]) -> Paragraph:
    fields = dict(zip(("id", "position", "at", "source"), entry, strict=False))
    return codec.read_paragraph({**fields, "page": name, "content": content})
