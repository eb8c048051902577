"""What is an export as a folder? Files laid out as `reverie.files.layout` says; written and read here.

It has a manifest beside it for what the files cannot hold. The readable folder of a memory has none, and can
be read all the same: its records, sessions and turns come back exactly, its pages with the times of their
files, its paragraphs with new ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.atomic_writes import AtomicTree
from reverie.admin.transfer.formats import notes
from reverie.admin.transfer.formats.native import codec, manifest
from reverie.admin.transfer.formats.native.jsonl import PIECE
from reverie.admin.transfer.formats.native.manifest import ExportManifest
from reverie.admin.transfer.formats.native.markdown import get_modified_time, read_page_file
from reverie.admin.transfer.items import FoundRecord, FoundTurns, ImportTerms, Item, Skipped
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.files import layout

_BESIDE = ("reverie.db", "files.db", "index")
"""How the names of what stands in a memory's folder beside the readable files begin."""


class FolderWriter:
    """Writes an export into a folder."""

    def __init__(self, tree: AtomicTree, *, at: datetime) -> None:
        self._tree = tree
        self._manifest = ExportManifest(form="folder", made_at=at)
        self._episodic: dict[str, list[Record]] = {}

    def put_record(self, record: Record) -> None:
        """Write one record; those of layer episodic wait for `finish`, because they share files."""
        path = layout.build_path(record)
        if layout.parse_form(path) == "episodic":
            self._episodic.setdefault(path, []).append(record)
        else:
            self._tree.write_bytes(path, [layout.render_record(record)])

    def put_session(self, state: SessionState, turns: Iterable[Turn]) -> None:
        """Write one session with its turns."""
        pieces = (layout.render_turns([turn]) for turn in turns)
        self._tree.write_bytes(
            layout.build_path(state), _prepend_first(layout.render_session(state, []), pieces)
        )

    def put_page(self, page: Page) -> None:
        """Write one page."""
        self._manifest.record_page(page)
        self._tree.write_bytes(layout.build_path(page), [layout.render_page(page)])

    def put_log(self, name: str, paragraphs: list[Paragraph]) -> None:
        """Write one log."""
        self._manifest.record_log(name, paragraphs)
        self._tree.write_bytes(layout.build_page_path(name), [layout.render_log(name, paragraphs)])

    def finish(self, counts: Mapping[str, int]) -> None:
        """Write what shares files, and the manifest.

        Args:
            counts: How many of each sort were written.
        """
        for path, records in self._episodic.items():
            self._tree.write_bytes(path, [layout.render_episodic(records)])
        self._manifest.counts = counts
        self._tree.write(manifest.NAME, [self._manifest.to_text()])


def _prepend_first(first: bytes, rest: Iterable[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def read(folder: Path, terms: ImportTerms) -> Iterator[Item]:
    """What a folder of ours holds: an export, or the readable folder of a memory.

    Args:
        folder: The folder that has `memory/` and `sessions/` in it.
        terms: How it is to be taken in.

    Raises:
        InvalidInput: it cannot be read, or was made by a newer Reverie.
    """
    known = manifest.read_manifest(folder)
    for name, file in safe_reading.iter_files(folder):
        place = layout.parse_path(name)
        if name == manifest.NAME or (place is None and name.startswith(_BESIDE)):
            continue
        if place is None or file is None:
            yield Skipped(what="file", place=name, why="unsupported", detail="no part of the readable folder")
            continue
        try:
            yield from _read_file(name, place, file, terms, known)
        except InvalidInput as error:
            yield Skipped(what="file", place=name, why=notes.get_skip_reason(error), detail=str(error))


def _read_file(
    name: str, place: layout.FileLocation, file: Path, terms: ImportTerms, known: ExportManifest | None
) -> Iterator[Item]:
    match place.form:
        case "record":
            data = safe_reading.parse_json_object(safe_reading.read_text(file))
            yield FoundRecord(place=name, record=terms.apply_to_record(codec.read_record(data)))
        case "episodic":
            yield from _read_episodic(name, file, terms)
        case "session":
            yield from _read_session(name, file, terms)
        case "page" | "log":
            text = safe_reading.read_text(file, exactly=True)
            yield from read_page_file(place.name, text, known, place=name, at=get_modified_time(file))


def _read_episodic(name: str, file: Path, terms: ImportTerms) -> Iterator[Item]:
    with safe_reading.open_file(file) as lines:
        for number, data in safe_reading.iter_documents(lines):
            where = f"{name}, line {number}"
            try:
                if isinstance(data, InvalidInput):
                    raise data
                yield FoundRecord(place=where, record=terms.apply_to_record(codec.read_record(data)))
            except InvalidInput as error:
                yield Skipped(what="record", place=where, why=notes.get_skip_reason(error), detail=str(error))


def _read_session(name: str, file: Path, terms: ImportTerms) -> Iterator[Item]:
    state: SessionState | None = None
    turns: list[Turn] = []
    sent = False
    with safe_reading.open_file(file) as lines:
        for number, data in safe_reading.iter_documents(lines):
            where = f"{name}, line {number}"
            try:
                if isinstance(data, InvalidInput):
                    raise data
                if state is None:
                    state = terms.apply_to_session(codec.read_session(data))
                    continue
                turn = codec.read_turn({**data, "session": state.id})
                turns.append(replace(turn, scope=state.scope))
            except InvalidInput as error:
                if state is None:
                    raise
                yield Skipped(what="turn", place=where, why=notes.get_skip_reason(error), detail=str(error))
            if state is not None and len(turns) >= PIECE:
                yield FoundTurns(place=name, state=state, turns=tuple(turns))
                turns, sent = [], True
    if state is not None and (turns or not sent):
        yield FoundTurns(place=name, state=state, turns=tuple(turns))
