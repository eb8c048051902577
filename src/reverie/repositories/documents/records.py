"""Live records as files, and the files of a scope."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import filterfalse, islice
from typing import Literal

from reverie.domain.change import Operation
from reverie.domain.errors import Conflict, InvalidInput
from reverie.domain.filter import Filter
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import ORIGINS, UNTRUSTED, Record
from reverie.domain.scope import visible_scopes
from reverie.domain.text.timestamps import Clock
from reverie.repositories.documents.paths import (
    LONGEST_PATH,
    DocumentEntry,
    DocumentSource,
    OriginFunction,
    Parts,
    Texts,
    is_untrusted_change,
    validate_file_text,
)
from reverie.repositories.key_value import KeyValueStore
from reverie.repositories.key_value_codec import PutItem, decode_place
from reverie.repositories.records import RecordChanges, RecordRepository
from reverie.stores.protocol import Store

NO_CATEGORY = "uncategorised"
"""The folder of records without a category."""

MOST_LISTED = 200
"""Files of records shown of one folder, the latest changed first."""

_TRUSTED = tuple(origin for origin in ORIGINS if origin not in UNTRUSTED)
_ID = defer_regex(r"[0-9a-f]{12}")
_SEGMENT = defer_regex(r"[A-Za-z0-9_-]+")


class ScopedDocuments(DocumentSource):
    """Files that a key-value store keeps as records of a scope."""

    def __init__(
        self,
        store: Store,
        items: KeyValueStore,
        unconfirmed: KeyValueStore,
        determine_origin: OriginFunction | None,
    ) -> None:
        self._store = store
        self._items = items
        self._unconfirmed = unconfirmed  # the same store, whose new items have the origin `tool`
        self._determine_origin = determine_origin

    def text(self, path: Parts) -> str | None:
        found = self._items.get(path[:-1], path[-1])
        return None if found is None else str(found.value.get("text", ""))

    def below(self, path: Parts) -> dict[Parts, str]:
        found = self._items.items()
        texts = {(*each.namespace, each.key): str(each.value.get("text", "")) for each in found}
        return {at: text for at, text in texts.items() if at[: len(path)] == path}

    def change(self, before: Texts, after: Texts, operation: Operation) -> None:
        del operation  # the key-value store gives its own
        for path in after:
            if len("/".join(path)) > LONGEST_PATH:
                raise InvalidInput(f"the path is too long: at most {LONGEST_PATH} characters are kept")
        doubted = [path for path, text in before.items() if text is not None and not self.is_confirmed(path)]
        moved = set(before.values())
        for path, text in after.items():
            old = before[path]
            if (
                text is None
                or text in moved
                or not is_untrusted_change(self._determine_origin, old or "", text)
            ):
                continue
            if old is not None and path not in doubted:
                raise InvalidInput(
                    "this text rests on what a tool said, which is not confirmed, and the file does not: "
                    "write it into a file of its own, or ask the owner"
                )
            doubted.append(path)
        (self._unconfirmed if doubted else self._items).put_many(
            [
                PutItem(
                    namespace=path[:-1],
                    key=path[-1],
                    value=None if text is None else {"text": validate_file_text(text)},
                    texts=None if text is None else [text],
                )
                for path, text in after.items()
            ],
            expected={
                (path[:-1], path[-1]): None if text is None else {"text": text}
                for path, text in before.items()
            },
        )

    def is_confirmed(self, path: Parts) -> bool:
        found = self._items.get(path[:-1], path[-1])
        records = [] if found is None else self._store.records([found.record])
        return all(record.origin not in UNTRUSTED for record in records)


class RecordDocuments(DocumentSource):
    """Live records of a trusted origin as files `{category}/{id}.md` with their contents."""

    def __init__(
        self,
        store: Store,
        *,
        saving: RecordRepository,
        store_name: str,
        scope: str,
        clock: Clock,
        determine_origin: OriginFunction | None,
    ) -> None:
        self._determine_origin = determine_origin
        self._store = store
        self._saving = saving
        self._store_name = store_name
        self._scope = scope
        self._chain = visible_scopes(scope)
        self._clock = clock

    def listed(self, under: Parts, depth: int) -> list[DocumentEntry]:
        found: list[DocumentEntry] = []
        counts: dict[str, int] = {}
        for category, count in self._count_categories().items():
            path = _to_folder(category)
            if path[: len(under)] == under and len(path) > len(under):
                child = path[len(under)]
                counts[child] = counts.get(child, 0) + count
        for name, count in counts.items():
            found.append(DocumentEntry(path=(name,), folder=True, size=None, count=count))
            if depth > 1:
                below = self.listed((*under, name), depth - 1)
                found += [replace(each, path=(name, *each.path)) for each in below]
        found += [
            DocumentEntry(path=(_to_file_name(record),), folder=False, size=len(record.content.encode()))
            for record in self._iterate_folder_records(under)
        ]
        return sorted(found, key=lambda each: each.path)

    def kind(self, path: Parts) -> Literal["file", "folder"] | None:
        if self._find_record(path) is not None:
            return "file"
        folders = map(_to_folder, self._count_categories())
        return "folder" if any(each[: len(path)] == path for each in folders) else None

    def text(self, path: Parts) -> str | None:
        record = self._find_record(path)
        return None if record is None else record.content

    def below(self, path: Parts) -> dict[Parts, str]:
        record = self._find_record(path)
        if record is not None:
            return {path: record.content}
        if self.kind(path) == "folder":
            raise InvalidInput("a folder of records cannot be removed or renamed as a whole: name one file")
        return {}

    def change(self, before: Texts, after: Texts, operation: Operation) -> None:
        given = {path: text for path, text in before.items() if text is not None}
        if len(given) != 1:
            raise InvalidInput(
                "files of records are named by their ids, and none can be made here: write a file elsewhere"
            )
        ((path, old),) = given.items()
        record = self._find_record(path)
        if record is None or record.content != old:
            raise Conflict("the record has been changed: read it again")
        if record.scope != self._scope:
            raise InvalidInput(
                "this record is everybody's and can only be read here: write a file of your own"
            )
        new = after[path]
        if len(after) > 1:
            (there,) = (other for other in after if other != path)
            self._saving.update(record.id, {"category": _parse_category(there, record)}, expected=record)
        elif new is None:
            self._saving.archive(record.id, operation=operation)
        else:
            if is_untrusted_change(self._determine_origin, old, new):
                raise InvalidInput(
                    "the record stays as it is, because the new text rests on what a tool said, which is not "
                    "confirmed: write it into a file of its own, or ask the owner"
                )
            content = new if old.endswith("\n") else new.rstrip("\n")
            changes: RecordChanges = {
                "content": content,
                "origin": max(record.origin, "agent", key=ORIGINS.index),
            }
            self._saving.update(record.id, changes, expected=record)

    def _find_record(self, path: Parts) -> Record | None:
        """Return the live record that a file stands for; None if there is none."""
        name = path[-1].removesuffix(".md") if path else ""
        if not _ID.fullmatch(name):
            return None
        for record in self._store.records([name]):
            is_expired = record.expires_at is not None and record.expires_at <= self._clock()
            if record.archived or is_expired or record.scope not in self._chain or self._is_file(record):
                continue
            if record.origin in UNTRUSTED:
                continue
            if (*_to_folder(record.category or ""), _to_file_name(record)) == path:
                return record
        return None

    def _iterate_folder_records(self, folder: Parts) -> Iterator[Record]:
        """Return the most recently changed records of a folder, without those of its subfolders."""
        if not folder:
            return
        category = None if folder == (NO_CATEGORY,) else "/".join(folder)
        if category is not None and not all(map(_SEGMENT.fullmatch, folder)):
            return
        wanted = Filter(
            scopes=self._chain,
            categories=(category,) if category else (),
            origins=_TRUSTED,
            alive_at=self._clock(),
        )
        here = (record for record in self._store.find(wanted) if record.category == category)
        yield from islice(filterfalse(self._is_file, here), MOST_LISTED)

    def _count_categories(self) -> dict[str, int]:
        wanted = Filter(scopes=self._chain, origins=_TRUSTED, alive_at=self._clock())
        found = self._store.tally("category", wanted)
        return {name: count for name, count in found.items() if name.split("/")[0] != self._store_name}

    def _is_file(self, record: Record) -> bool:
        """Return whether a record holds a file of the scope."""
        return decode_place(self._store_name, record) is not None


def _to_folder(category: str) -> Parts:
    return tuple(category.split("/")) if category else (NO_CATEGORY,)


def _to_file_name(record: Record) -> str:
    return f"{record.id}.md"


def _parse_category(path: Parts, record: Record) -> str | None:
    if path[-1] != _to_file_name(record) or len(path) < 2:
        raise InvalidInput(
            f"the file of a record keeps its name: move it to another folder as {_to_file_name(record)!r}"
        )
    return None if path[:-1] == (NO_CATEGORY,) else "/".join(path[:-1])
