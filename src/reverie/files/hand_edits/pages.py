"""How do edited pages, logs and sessions come in? Each file is read, decided upon, committed."""

from __future__ import annotations

from reverie.domain.change import Change, Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.page import Page, Paragraph
from reverie.files import parsing
from reverie.files.hand_edits import base_versions
from reverie.files.hand_edits.base_versions import FileParts
from reverie.files.hand_edits.intake import (
    DELETED,
    FORGOTTEN,
    CannotImport,
    ChangedFile,
    HandEditRun,
    require_parsed,
)
from reverie.files.hand_edits.merge import (
    decide_log,
    decide_page,
    decide_session,
    reconstruct_base,
    reconstruct_page_base,
)
from reverie.files.layout import MEMORY, render_page
from reverie.files.names import parse_session_id
from reverie.stores.tombstones import drop_forgotten


def import_page(intake: HandEditRun, stranger: ChangedFile) -> None:
    """Take in an edited or new page: the changes of both sides are in the result."""
    store, name = intake.store, stranger.place.name
    known = base_versions.list_versions(store, name, Page)
    exact = base_versions.find_written_version(known, render_page, stranger.written)
    if exact is None and intake.is_stale(stranger, name):
        return intake.settle(stranger)
    ours = next(iter(store.pages([name])), None)
    text = require_parsed(parsing.read_page(stranger.path, stranger.data, was=ours.content if ours else ""))
    theirs = parsing.build_page(name, text, now=intake.now)
    if drop_forgotten(store, theirs) != theirs:
        raise CannotImport(FORGOTTEN)
    base = base_versions.find_closest_page(known, text) if exact is None else known[exact]
    if base is not None:
        unseen = base_versions.list_unseen_changes(store, name, Page, intake.get_save_time(stranger))
        base = reconstruct_page_base(base, text, unseen)
    intake.commit(stranger, decide_page(base, ours, theirs))
    return intake.settle(stranger)


def import_log(intake: HandEditRun, stranger: ChangedFile) -> None:
    """Take in an edited or new log: paragraphs changed, added, taken out."""
    name = stranger.place.name
    ours = intake.store.paragraphs(page=name)
    pieces = base_versions.reconstruct_written_pieces(
        intake.store, stranger.path, FileParts(None, tuple(ours)), stranger.written
    )
    base = None if pieces is None else [each for each in pieces.values if isinstance(each, Paragraph)]
    if base is None and intake.is_stale(stranger, None):
        return intake.settle(stranger)
    was = "\n\n".join(paragraph.content for paragraph in ours)
    decision = decide_log(
        name,
        base,
        ours,
        require_parsed(parsing.read_log(stranger.path, stranger.data, was=was)),
        now=intake.now,
        new_id=intake.new_id,
        is_recent=lambda paragraph: intake.is_recent(stranger, paragraph),
    )
    intake.commit(stranger, decision)
    return intake.settle(stranger)


def import_session(intake: HandEditRun, stranger: ChangedFile) -> None:
    """Take in an edited or new session: turns changed, and added at the end."""
    store = intake.store
    lines = require_parsed(parsing.read_session(stranger.path, stranger.data))
    name = lines.state.get("id") or parse_session_id(stranger.place.name) or ""
    state = store.session(name) if name else None
    turns = store.turns(session=name) if state is not None else []
    pieces = base_versions.reconstruct_written_pieces(
        store, stranger.path, FileParts(state, tuple(turns)), stranger.written
    )
    if pieces is None and intake.is_stale(stranger, name):
        return intake.settle(stranger)
    base = None
    if pieces is not None and pieces.state is not None:
        unseen = base_versions.list_unseen_changes(store, name, SessionState, intake.get_save_time(stranger))
        began = reconstruct_base(pieces.state, {**lines.state, "id": name}, unseen)
        base = (began, [each for each in pieces.values if isinstance(each, Turn)])
    decision = decide_session(
        stranger.path,
        base,
        None if state is None else (state, turns),
        lines,
        now=intake.now,
        new_id=intake.new_id,
        earlier=lambda turn: base_versions.list_versions(store, turn, Turn),
        is_recent=lambda turn: intake.is_recent(stranger, turn),
    )
    intake.commit(stranger, decision)
    return intake.settle(stranger)


def take_missing_page(intake: HandEditRun, path: str) -> None:
    """Take in that a page or log was deleted: its text leaves the store, and stays in the journal."""
    name = path.removeprefix(f"{MEMORY}/")
    there: list[Value] = [*intake.store.pages([name]), *intake.store.paragraphs(page=name)]
    intake.commit_edits(path, [Change(before=value, after=None) for value in there], f"{DELETED}: {path}")
    intake.ledger.drop([path])
    intake.mark_due([path])
