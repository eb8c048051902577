"""Today: the living page with a form at each line, what changed, what waits; the first visit; undo."""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from pkgutil import get_data
from typing import Any

from reverie.domain.errors import Conflict, InvalidInput
from reverie.domain.filter import has_passed, is_valid_at
from reverie.domain.living_page import Section, load_words, parse_block
from reverie.domain.record import STANDING, UNTRUSTED, Record
from reverie.interfaces.http import administration
from reverie.interfaces.http.operations import Call, Problem, compute_etag, parse_number
from reverie.interfaces.http.page import review, views
from reverie.interfaces.http.page.rendering import compare_values
from reverie.interfaces.http.page.views import Fields, Plain, Redirect, Screen, ViewList, ViewQuery, perform

VIEWS = ViewList()

SAMPLE = "sample"
"""Scope of the sample memory."""

_NEW_FOR = timedelta(days=2)
_WEEK = timedelta(days=7)
_FEED = 12


@VIEWS.add("GET", "/", "read")
def show_today(call: Call[ViewQuery]) -> Screen:
    """Show the living page, what changed this week, what waits and the latest answer."""
    overview = call.server.overview(call.view)
    recent = review.list_recent(call, since=call.memory.now() - _WEEK, limit=_FEED)
    cards = review.build_cards(call, limit=3) if views.is_allowed(call, "review") else []
    is_empty = not (overview.page or recent or cards or call.view.list(limit=1, archived=None))
    if is_empty and not call.view.sessions(limit=1):
        return Screen("today-empty.html")
    sections = _arrange(call, parse_block(overview.page), recent)
    latest = next(iter(call.reader.prompts.list(limit=1)), None)
    shown: dict[str, Any] = {
        "recent": recent,
        "cards": cards,
        "latest": latest,
        "counts": overview.counts,
        "sample": SAMPLE,
    }
    return Screen("today.html", **sections, **shown)


def _arrange(call: Call, sections: Sequence[Section], recent: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the lines of the page as they are now, by section, with what was saved since it was composed."""
    words = load_words()[call.memory.settings.language]
    describe = partial(_describe_line, call, seen=set(), find_title=cache(call.view.title))
    titles: dict[str, list[dict[str, Any]]] = {words["about"]: [], words["help"]: []}
    days: list[tuple[str, list[dict[str, Any]]]] = []

    def place(line: dict[str, Any]) -> None:
        title = "help" if line["kind"] in STANDING else "about" if line["about"] == "owner" else "other"
        titles.setdefault(words[title], []).append(line)

    for section in sections:
        lines = [line for each in section.lines if not each.note and (line := describe(each.id)) is not None]
        if section.level > 2:
            days += [(section.title, lines)] if lines else []
        elif section.title == words["changed"]:
            for line in lines:
                place(line)
        elif lines:
            titles.setdefault(section.title, []).extend(lines)
    for change in recent:
        if change["before"] is None and (line := describe(change["id"])) is not None:
            place(line)
    about, helping = titles.pop(words["about"]), titles.pop(words["help"])
    groups = sorted(titles.items(), key=lambda group: group[0] == words["other"])
    return {"about": about, "helping": helping, "coming": days, "groups": groups}


def _describe_line(
    call: Call, name: str | None, *, seen: set[str], find_title: Callable[[str], str]
) -> dict[str, Any] | None:
    """Return a record as a line of the page; None if it has no place there any more, or has one already."""
    view, now = call.view, call.memory.now()
    record = view.get(name) if name else None
    if record is None or record.id in seen or not _is_shown(record, now):
        return None
    seen.add(record.id)
    turn = next(filter(None, map(view.get_turn, record.references[:3])), None)
    return {
        "permission": record.permission,
        "about": record.about,
        **record.to_dict(),
        "is_new": now - record.created_at < _NEW_FOR,
        "etag": compute_etag(record),
        "session": turn.session if turn else "",
        "session_title": find_title(turn.session) if turn else "",
        "may_change": record.scope == view.scope and views.is_allowed(call, "write"),
    }


def _is_shown(record: Record, now: datetime) -> bool:
    is_future = record.valid_from is not None and record.valid_from > now
    is_over = has_passed(record, now) or not (is_valid_at(record, now) or is_future)
    return not (record.archived or is_over or record.origin in UNTRUSTED or record.is_item)


# -- undo ------------------------------------------------------------------------------------------------


def _undo(call: Call, batches: Sequence[int], change: int | None, *, dry_run: bool) -> dict[str, Any]:
    """Undo transactions or one change."""
    order: dict[str, Any] = {"batch": batches[0]} if len(batches) == 1 else {}
    if change is not None:
        order = {"changes": [change]}
    elif len(batches) != 1:
        numbers = call.numbers
        rows = [row for batch in batches for row in call.memory.history.transaction(numbers.require(batch))]
        order = {"changes": [numbers.show(row.sequence) for row in rows]}
    result: dict[str, Any] = perform(call, administration.undo, **order, dry_run=dry_run)
    return result


@VIEWS.add("GET", "/undo", "review")
def preview_undo(call: Call[ViewQuery]) -> Screen:
    """Show what an undo would do."""
    return _draw_undo(call, call.query.batch, call.query.change)


def _draw_undo(call: Call, batches: Sequence[int], change: int | None, problem: str = "") -> Screen:
    result: dict[str, Any] = {"differences": [], "left": []}
    try:
        result = _undo(call, batches, change, dry_run=True)
    except Conflict as error:  # a later change builds on it
        problem = problem or str(error)
    for each in result["differences"]:
        was, now = ({f["name"]: f[side] for f in each["fields"]} for side in ("before", "after"))
        each["fields"] = compare_values(was, now)
    shown = {**result, "batches": batches, "change": change, "problem": problem}
    return Screen("undo.html", status=409 if problem else 200, **shown)


@VIEWS.add("POST", "/undo", "review")
def undo(call: Call, fields: Fields) -> Screen | Redirect:
    """Undo a change at once; several only after their preview."""
    batches = [number for text in fields.list("batch") if (number := parse_number(text)) is not None]
    change = parse_number(fields.get("change"))
    if change is None and not batches:
        raise Problem(422, "Nothing was named. Go back and choose a change.")
    try:
        _undo(call, batches, change, dry_run=False)
    except Conflict as error:
        return _draw_undo(call, batches, change, str(error))
    return Redirect(views.choose_local_path(fields.get("next"), "/history"), undone=1)


# -- the first hour --------------------------------------------------------------------------------------


@VIEWS.add("POST", "/sample", "write", is_whole=True)
def load_sample(call: Call[Plain]) -> Redirect:
    """Save the sample memory in a scope of its own, which no prompt of another scope sees."""
    lines = (get_data(__package__, "sample.jsonl") or b"").decode().splitlines()
    view = call.open_scope(SAMPLE)
    for line in map(json.loads, lines):
        if "role" in line:
            view.session(line.pop("session")).add(**line)
        else:
            view.save(**line)
    return Redirect(f"/?scope={SAMPLE}", done=0)


@VIEWS.add("POST", "/sample/remove", "forget", is_whole=True)
def remove_sample(call: Call[Plain]) -> Redirect:
    """Erase the sample memory."""
    call.memory.admin.forget(scope=SAMPLE)
    return Redirect("/", done=0)


@VIEWS.add("GET", "/import", "admin", is_whole=True)
def show_import(call: Call[Plain]) -> Screen:
    """Show the form for a file to import."""
    return Screen("import.html", report=None, upload="", problem=None)


@VIEWS.add("POST", "/import", "admin", is_whole=True)
def preview_import(call: Call[Plain], fields: Fields) -> Screen:
    """Show what an uploaded file would add; nothing is stored before it is confirmed."""
    if fields.file is None or not fields.file.size:
        raise Problem(422, "No file was chosen. Go back and choose one.")
    path = Path(
        tempfile.mkdtemp(prefix="reverie-import-"), "upload" + Path(fields.file.filename or "").suffix[:10]
    )
    with path.open("wb") as target, fields.file.file as source:
        shutil.copyfileobj(source, target)
    name = secrets.token_hex(8)
    call.server.drop_uploads()
    call.server.uploads[name] = path
    return _draw_import(call, name, path, dry_run=True)


@VIEWS.add("POST", "/import/apply", "admin", is_whole=True)
def apply_import(call: Call[Plain], fields: Fields) -> Screen:
    """Import the file whose preview was shown."""
    path = call.server.uploads.get(fields.get("upload"))
    if path is None:
        raise Problem(422, "The file is no longer here. Choose it again.")
    screen = _draw_import(call, fields.get("upload"), path, dry_run=False)
    call.server.drop_uploads()
    return screen


def _draw_import(call: Call, name: str, path: Path, *, dry_run: bool) -> Screen:
    try:
        report = call.memory.admin.import_from(path, dry_run=dry_run)
    except InvalidInput as error:
        call.server.drop_uploads()
        problem = str(error).replace(repr(str(path)), "the file").replace(str(path), "the file")
        return Screen("import.html", status=422, report=None, upload="", problem=problem)
    return Screen("import.html", report=report, upload=name, problem=None)
