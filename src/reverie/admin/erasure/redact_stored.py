"""Search for secrets that were stored unredacted, and their removal.

Such secrets were stored while `redact_secrets` was off, or by an earlier version.
Each thing that holds one is redacted in place, and its earlier versions are erased from the journal. Reports
name things and kinds of secrets, and quote nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from reverie.admin.erasure.eraser import PENDING, Eraser
from reverie.admin.erasure.matching import get_name
from reverie.admin.erasure.remains import EVER, build_sweep_edits
from reverie.domain.change import Change, Value
from reverie.domain.entry import Entry
from reverie.domain.errors import InvalidInput
from reverie.domain.page import Page
from reverie.domain.record import Record
from reverie.domain.secrets.redactor import Redactor
from reverie.domain.text.json_values import JsonObject
from reverie.stores.protocol import iter_rows, iter_values
from reverie.stores.redacting import find_secret_kinds, redact_value, unwrap
from reverie.stores.writer import StoreWriter

_CHUNK = 200

ACTOR = "redaction"
"""Author in the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretFinding(JsonObject):
    """One thing that holds or held a secret.

    Attributes:
        subject: `record`, `turn`, `session`, `page`, `paragraph`, `entry`, or `cursor` (a note of Reverie's own).
        id: Its id; of an entry the namespace and key. A name that is itself a secret is redacted here.
        kinds: The kinds of the secrets.
        past: Whether only earlier versions hold one.
        named: Whether its name is one; a name cannot be redacted, so erase the thing.
    """

    subject: str
    id: str
    kinds: tuple[str, ...]
    past: bool = False
    named: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionReport(JsonObject):
    """Result of a search for stored secrets.

    Attributes:
        found: The things that held one.
        done: Whether they have been redacted; False for a search alone.
        pending: What could not be finished because another process was in the way; `reverie doctor --fix`
            does it.
        notes: Copies that are not reached, as in the report of an erasure.
    """

    found: tuple[SecretFinding, ...]
    done: bool
    pending: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def left(self) -> tuple[SecretFinding, ...]:
        """Return what cannot be redacted because its name is a secret."""
        return tuple(each for each in self.found if each.named)


class StoredSecretRedactor:
    """Search for and removal of secrets in a store."""

    def __init__(self, writer: StoreWriter, redactor: Redactor, *, eraser: Eraser) -> None:
        """Prepare to search a store.

        Args:
            writer: Its store is searched; it publishes the changes.
            eraser: Cleans files, index and free space afterwards.
        """
        self._store = unwrap(writer.store)
        self._redactor = redactor
        self._clock = writer.clock
        self._publish = writer.publish
        self._eraser = eraser

    def find(self) -> tuple[SecretFinding, ...]:
        """Return everything that holds or held a secret; takes 0.2 ms for a turn of two pages."""
        return tuple(self._find().values())

    def _find(self) -> dict[tuple[str, str], SecretFinding]:
        findings: dict[tuple[str, str], SecretFinding] = {}

        def note(value: Value | Entry, kinds: tuple[str, ...], *, past: bool) -> None:
            subject, name = key = get_name(value)
            if kinds and key not in findings:
                named = self._has_secret_name(value)
                shown = (self._redactor.text(name) if named else name).replace("\n", " ")
                findings[key] = SecretFinding(subject=subject, id=shown, kinds=kinds, past=past, named=named)

        now = {}
        for value in (*iter_values(self._store), *self._store.entries(None, now=EVER)):
            now[get_name(value)] = value
            note(value, find_secret_kinds(value, self._redactor), past=False)
        for row in iter_rows(self._store):
            for version in row.values:
                if version != now.get(get_name(version)):
                    note(version, find_secret_kinds(version, self._redactor), past=True)
            if row.edit is not None and row.note:  # searched as the content of a page is
                page = Page(name="", content=row.note, updated_at=row.at)
                note(row.edit.value, find_secret_kinds(page, self._redactor), past=True)
        for name, text in self._store.cursors().items():
            if (kind := self._redactor.detect_secret_name(text)) is not None:
                findings["cursor", name] = SecretFinding(subject="cursor", id=name, kinds=(kind,))
        return findings

    def redact(self) -> RedactionReport:
        """Remove the secrets permanently.

        Raises:
            Conflict: others changed the same things meanwhile; what was redacted by then stays redacted.
        """
        findings = self._find()
        if not findings:
            pending = self._eraser.finish() if self._eraser.pending() else ()
            return RedactionReport(found=(), done=True, pending=pending)
        self._eraser.writer.commit([], cursors={PENDING: "a redaction was interrupted: ask for it again"})
        now = self._clock()
        for entry in self._store.entries(None, now=EVER):
            if (clean := redact_value(entry, self._redactor, known=True)) != entry:
                self._store.put_entry(clean, capacity=None, now=now)
        past = {key for key, each in findings.items() if each.past}
        marks: set[tuple[str, str]] = set()
        edits = [
            self._archive_if_duplicate(edit, marks)
            for edit in build_sweep_edits(self._store, self._clean, also=past, at=now)
        ]
        for start in range(0, len(edits), _CHUNK):
            self._publish(self._store.erase(edits[start : start + _CHUNK], actor=ACTOR, at=now))
        texts = self._store.cursors()
        old = {name: texts.get(name) for subject, name in findings if subject == "cursor"}
        new = {name: text and self._redactor.text(text) for name, text in old.items()}
        self._store.commit([], actor=ACTOR, at=now, cursors=new, expected=old)
        return RedactionReport(
            found=tuple(findings.values()),
            done=True,
            pending=self._eraser.finish(),
            notes=self._eraser.describe_copies(),
        )

    def _clean(self, values: Sequence[Value]) -> list[Value | None]:
        return [redact_value(value, self._redactor, known=True) for value in values]

    def _archive_if_duplicate(self, edit: Change, marks: set[tuple[str, str]]) -> Change:
        """Return the change; of a record whose redacted content duplicates another one, one that archives it too."""
        clean = edit.after
        if not isinstance(clean, Record) or clean.archived or clean == edit.before:
            return edit
        twin = self._store.record_like(clean.scope, clean.fingerprint)
        mark = (clean.scope, clean.fingerprint)
        if mark in marks or (twin is not None and twin.id != clean.id):
            reason = "says the same once redacted"
            return replace(edit, after=replace(clean, archived_at=self._clock(), archive_reason=reason))
        marks.add(mark)
        return edit

    def _has_secret_name(self, value: Value | Entry) -> bool:
        try:
            redact_value(value, self._redactor)
        except InvalidInput:
            return True
        return False
