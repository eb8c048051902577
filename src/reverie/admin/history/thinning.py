"""Thinning of the journal: removal of earlier versions from before a date, which makes room on the disk."""

from __future__ import annotations

from dataclasses import dataclass

from reverie.admin.history.positions import When, sequence_before
from reverie.domain.errors import InvalidInput
from reverie.domain.text.json_values import JsonObject
from reverie.stores.protocol import Store, ThinnableStore
from reverie.stores.redacting import unwrap

THINNED = "journal.thinned"
"""Cursor with the number of the last change that was thinned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinningReport(JsonObject):
    """Result of thinning the journal, or of its dry run.

    Attributes:
        until: The number of the last change before the date.
        changes: Number of changes whose earlier versions were given up.
        scrubbed: Whether the room was given back to the disk; otherwise new content takes it.
        dry_run: Whether nothing was changed.
    """

    until: int
    changes: int
    scrubbed: bool
    dry_run: bool


def thin(store: Store, before: When, *, dry_run: bool) -> ThinningReport:
    """Thin the journal of a store (see `History.thin`)."""
    bare = unwrap(store)
    if not isinstance(bare, ThinnableStore):
        raise InvalidInput(
            "the journal of this memory cannot be thinned: that works for a memory in a folder"
        )
    until = sequence_before(store, before, name="before")
    if dry_run:
        return ThinningReport(until=until, changes=bare.count_thinnable(until), scrubbed=False, dry_run=True)
    changes = bare.thin(until, cursor=THINNED)
    return ThinningReport(
        until=until, changes=changes, scrubbed=bool(changes) and store.scrub(), dry_run=False
    )


def read_thinned(store: Store) -> int:
    """Return the number of the last change that was thinned; 0 if none was."""
    return int(store.cursor(THINNED) or 0)


def explain_thinned(until: int) -> str:
    """Return why a change cannot be taken back."""
    return f"the journal was thinned up to change {until}, and does not keep what was before"
