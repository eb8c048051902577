"""Upkeep: access tokens, diagnosis and settings."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields as list_fields
from pathlib import Path
from typing import Any

from reverie.admin.stats import count_failures
from reverie.domain.record import ORIGINS
from reverie.domain.scope import is_within, visible_scopes
from reverie.interfaces.http import administration
from reverie.interfaces.http.operations import Call, Empty
from reverie.interfaces.http.page.views import Fields, Redirect, Screen, ViewList, perform
from reverie.interfaces.http.tokens import RIGHTS
from reverie.settings import Settings

VIEWS = ViewList()


@VIEWS.add("GET", "/tokens", "admin", query=Empty, is_whole=True)
def show_tokens(call: Call) -> Screen:
    """Show all tokens."""
    return _draw_tokens(call)


def _draw_tokens(call: Call, made: dict[str, Any] | None = None) -> Screen:
    now = call.memory._clock()
    valid = {each.id for each in call.server.tokens.list() if each.is_valid(now)}
    return Screen(
        "tokens.html",
        tokens=perform(call, administration.list_tokens)["items"],
        valid=valid,
        made=made,
        rights=RIGHTS,
        origins=ORIGINS,
    )


@VIEWS.add("POST", "/tokens", "admin", query=Empty, is_whole=True)
def create_token(call: Call, fields: Fields) -> Screen:
    """Create a token and show it, once."""
    body = {
        "label": fields.get("label"),
        "scope": fields.get("scope").strip(),
        "rights": fields.list("rights"),
        "origin": fields.get("origin"),
        "expires": fields.get("expires").strip() or None,
    }
    return _draw_tokens(call, perform(call, administration.create_token, body=body))


@VIEWS.add("POST", "/tokens/{id}/revoke", "admin", query=Empty, is_whole=True)
def revoke_token(call: Call) -> Redirect:
    """Revoke a token."""
    perform(call, administration.revoke_token)
    return Redirect("/tokens")


@VIEWS.add("GET", "/scopes", "read")
def show_scopes(call: Call) -> Screen:
    """Show the scopes as a tree, each to be looked through."""
    own = call.caller.scope
    counts = perform(call, administration.list_scopes)["scopes"]
    names = {part for name in counts for part in visible_scopes(name) if is_within(part, own)} - {own}
    rows = [
        {
            "name": name,
            "within": name.removeprefix(f"{own}/") if own else name,
            "depth": name.count("/") - own.count("/") - bool(own),
            "records": counts.get(name, 0),
        }
        for name in sorted(names, key=lambda name: name.split("/"))
    ]
    return Screen("scopes.html", rows=rows, own=own, records=counts.get(own, 0))


@VIEWS.add("GET", "/health", "admin", query=Empty, is_whole=True)
def show_health(call: Call) -> Screen:
    """Show the index, what failed, and the settings."""
    return _draw_health(call)


@VIEWS.add("POST", "/health", "admin", query=Empty, is_whole=True)
def examine(call: Call) -> Screen:
    """Examine the memory, which reads all of it, and show what is wrong."""
    return _draw_health(call, perform(call, administration.diagnose))


def _measure_database(path: Path | None) -> int:
    """Return the bytes of the files of the database, beside which there may be a hundred thousand others."""
    total = 0
    for file in () if path is None else path.glob("*.db*"):
        with suppress(OSError):  # it has gone meanwhile
            total += file.stat().st_size
    return total


def _format_setting(value: object) -> str:
    """Return a value as a settings file has it; a dash for none."""
    if value is None or value == ():
        return "–"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _draw_health(call: Call, diagnosis: dict[str, Any] | None = None) -> Screen:
    settings, usual = call.memory.settings, Settings()
    rows = [
        {
            "name": each.name,
            "value": _format_setting(getattr(settings, each.name)),
            "usual": _format_setting(getattr(usual, each.name)),
        }
        for each in list_fields(Settings)
        if not each.name.startswith("_")
    ]
    return Screen(
        "health.html",
        diagnosis=diagnosis,
        failed=count_failures(call.server.store),
        index=call.memory.admin._index.status(),
        path=call.memory.path,
        bytes=_measure_database(call.memory.path),
        conflicts=len(call.memory.folder.conflicts()) if call.memory.folder is not None else 0,
        settings=sorted(rows, key=lambda row: (row["value"] == row["usual"], row["name"])),
    )
