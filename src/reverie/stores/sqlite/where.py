"""Filters as conditions on the tables of SQLite; they agree with `is_record_allowed` and `is_turn_allowed`."""

from __future__ import annotations

from reverie.domain.filter import Filter
from reverie.domain.page import HISTORY
from reverie.stores.codec import to_json
from reverie.stores.conditions import Conditions

SEARCHED = f"+page = '{HISTORY}'"
"""Condition for searchable paragraphs. The plus keeps SQLite from scanning a whole log to find one key."""

EACH_TAG = "json_each(CASE WHEN json_valid(tags) THEN tags ELSE '[]' END)"
"""The tags of a row of `records`, each a row with the column `value`."""

CASEFOLD = "casefold"
"""Name of the SQL function for `str.casefold`, which `connections` defines; SQLite's `lower` knows ASCII only."""

# The first condition is quick: tags in ASCII alone are compared as one text, which also finds `","` in
# `["a","b"]`. The second is exact.
_HAS_TAG = (
    "((instr(lower(tags), ?) > 0 OR tags GLOB '*[^ -~]*') "
    f"AND EXISTS (SELECT 1 FROM {EACH_TAG} WHERE {CASEFOLD}(value) = ?))"
)
_HAS_METADATA = (  # likewise
    "(instr(metadata, ?) > 0 AND EXISTS (SELECT 1 FROM "
    "json_each(CASE WHEN json_valid(metadata) THEN metadata ELSE '{}' END) WHERE json_each.key = ?))"
)


def build_records_where(wanted: Filter, containing: str | None = None) -> Conditions:
    """Return a filter as conditions on `records AS it`."""
    where = Conditions()
    where.add_record_filter(wanted, created_at="it.created_at")
    for tag in wanted.tags:
        folded = tag.casefold()
        where.add(_HAS_TAG, to_json(folded), folded)
    if wanted.headlines is not None:
        where.add(f"it.parts IS {'NOT ' if wanted.headlines else ''}NULL")
    if wanted.metadata is not None:
        where.add(_HAS_METADATA, to_json(wanted.metadata), wanted.metadata)
    _add_text(where, containing)
    return where


def build_turns_where(wanted: Filter, containing: str | None = None) -> Conditions:
    """Return a filter as conditions on `turns AS it`."""
    where = Conditions()
    where.add_turn_filter(wanted, role="it.role")
    if wanted.sessions:
        sessions = Conditions()
        sessions.add_any("id", wanted.sessions)
        where.add(f"it.session IN (SELECT key FROM sessions WHERE {sessions})", *sessions.values)
    _add_text(where, containing)
    return where


def _add_text(where: Conditions, text: str | None) -> None:
    """Add that the content has a text; nothing for None. SQLite's `lower` changes ASCII letters only."""
    # Not LIKE: `%` and `_` would have to be escaped, and its patterns end at 50,000 bytes.
    if text is not None:
        where.add("instr(lower(it.content), lower(?)) > 0", text)
