"""Import of edited pages, logs and sessions: parse, merge with the base version, commit."""

from __future__ import annotations

from reverie.domain.change import Change, Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.page import Page
from reverie.files import parsing
from reverie.files.hand_edits.base_versions import (
    list_unseen_changes,
    list_versions,
    parse_base_log,
    parse_base_page,
    parse_base_session,
)
from reverie.files.hand_edits.intake import (
    FORGOTTEN,
    ChangedFile,
    HandEditRun,
)
from reverie.files.hand_edits.merge import (
    decide_log,
    decide_page,
    decide_session,
    reconstruct_base,
    reconstruct_page_base,
)
from reverie.files.layout import MEMORY
from reverie.files.names import parse_session_id
from reverie.stores.tombstones import drop_forgotten


def import_page(run: HandEditRun, file: ChangedFile) -> None:
    """Import an edited or new page, with the changes of both sides."""
    store, name = run.store, file.place.name
    if file.base is None and run.is_stale(file, name):
        return run.settle(file)
    ours = next(iter(store.pages([name])), None)
    text = parsing.read_page(file.path, file.data, was=ours.content if ours else "")
    theirs = parsing.build_page(name, text, now=run.now)
    if drop_forgotten(store, theirs) != theirs:
        raise InvalidInput(FORGOTTEN)
    base = parse_base_page(file.path, file.base, theirs)
    if base is not None:
        unseen = list_unseen_changes(store, name, Page, run.get_save_time(file))
        base = reconstruct_page_base(base, text, unseen)
    run.commit(file, decide_page(base, ours, theirs))
    return run.settle(file)


def import_log(run: HandEditRun, file: ChangedFile) -> None:
    """Import an edited or new log: paragraphs changed, added and removed."""
    name = file.place.name
    ours = run.store.paragraphs(page=name)
    base = parse_base_log(file.path, file.base, ours, run.now)
    if base is None and run.is_stale(file, None):
        return run.settle(file)
    old_text = "\n\n".join(paragraph.content for paragraph in ours)
    decision = decide_log(
        name,
        base,
        ours,
        parsing.read_log(file.path, file.data, was=old_text),
        now=run.now,
        new_id=run.new_id,
        is_recent=lambda paragraph: run.is_recent(file, paragraph),
    )
    run.commit(file, decision)
    return run.settle(file)


def import_session(run: HandEditRun, file: ChangedFile) -> None:
    """Import an edited or new session: turns changed, and added at the end."""
    store = run.store
    lines = parsing.read_session(file.path, file.data)
    name = lines.state.get("id") or parse_session_id(file.place.name) or ""
    state = store.session(name) if name else None
    turns = store.turns(session=name) if state is not None else []
    base = parse_base_session(file.base)
    if base is None and run.is_stale(file, name):
        return run.settle(file)
    if base is not None:
        unseen = list_unseen_changes(store, name, SessionState, run.get_save_time(file))
        base = (reconstruct_base(base[0], {**lines.state, "id": name}, unseen), base[1])
    decision = decide_session(
        file.path,
        base,
        None if state is None else (state, turns),
        lines,
        now=run.now,
        new_id=run.new_id,
        earlier=lambda turn: list_versions(store, turn, Turn),
        is_recent=lambda turn: run.is_recent(file, turn),
    )
    run.commit(file, decision)
    return run.settle(file)


def import_missing_page(run: HandEditRun, path: str) -> None:
    """Import the deletion of a page or log: its text leaves the store, and stays in the journal."""
    name = path.removeprefix(f"{MEMORY}/")
    values: list[Value] = [*run.store.pages([name]), *run.store.paragraphs(page=name)]
    run.commit_edits(path, [Change(before=value, after=None) for value in values], "delete_file")
    run.ledger.drop([path])
    run.mark_due([path])
