"""Settings and history: sign-in, appearance, every change, days, doubts, scopes, tokens, pages, health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields as list_fields
from typing import Any

from reverie.domain.page import is_log
from reverie.domain.record import ORIGINS, UNTRUSTED, Record
from reverie.domain.scope import is_within, visible_scopes
from reverie.interfaces.http import administration, records
from reverie.interfaces.http.operations import Call, Problem, compute_etag
from reverie.interfaces.http.page import views
from reverie.interfaces.http.page.rendering import quote_path
from reverie.interfaces.http.page.review import list_changes
from reverie.interfaces.http.page.views import Fields, Plain, Redirect, Screen, ViewList, ViewQuery, perform
from reverie.interfaces.http.tokens import RIGHTS
from reverie.settings import Settings

VIEWS = ViewList()

THEMES = ("system", "light", "dark")

_YEAR_S = 31_536_000
_MOST_ROWS = 100
_DAYS = 90  # of activity
_DOUBTED = 500  # live records that are looked through


class SignInQuery(Plain):
    """Query of the form for a token.

    Attributes:
        next: Path of the view to go to then.
    """

    next: str = ""


@VIEWS.add("GET", "/sign-in", None)
def show_sign_in(call: Call[SignInQuery]) -> Screen:
    """Show the form for a token."""
    return Screen("sign_in.html", next=views.choose_local_path(call.query.next), is_refused=False)


@VIEWS.add("POST", "/sign-in", None)
def sign_in(call: Call[Plain], fields: Fields) -> Screen | Redirect:
    """Check a token and keep it in a cookie that no script can read."""
    text, target = fields.get("token").strip(), views.choose_local_path(fields.get("next"))
    if call.server.tokens.authenticate(text) is None:
        return Screen("sign_in.html", status=401, next=target, is_refused=True)
    return Redirect(target, done=0, cookies={"token": (text, None)})


@VIEWS.add("POST", "/sign-out", None)
def sign_out(call: Call[Plain], fields: Fields) -> Redirect:
    """Forget the token."""
    return Redirect("/sign-in", done=0, cookies={"token": ("", 0)})


@VIEWS.add("POST", "/theme", None)
def choose_theme(call: Call[Plain], fields: Fields) -> Redirect:
    """Keep whether the page is light or dark, in a cookie."""
    theme, target = fields.get("theme"), views.choose_local_path(fields.get("next"))
    return Redirect(target, done=0, cookies={"theme": (theme if theme in THEMES else THEMES[0], _YEAR_S)})


@VIEWS.add("GET", "/settings", "read")
def show_settings(call: Call[ViewQuery]) -> Screen:
    """Show everything else, each row with its state."""
    last, _ = list_changes(call, limit=1)
    overview = call.server.overview(call.view)
    return Screen(
        "settings.html",
        last=next(iter(last), None),
        counts=overview.counts,
        untrusted=UNTRUSTED,
        doubts=len(_list_doubts(call)),
        scopes=sum(map(call.is_own, overview.scopes)),
        pages=len(call.whole.pages.names()),
        changed=[row for row in _list_settings(call) if not row[3]],
    )


# -- history ---------------------------------------------------------------------------------------------


@VIEWS.add("GET", "/history", "read")
def show_history(call: Call[ViewQuery]) -> Screen:
    """Show what was changed by day, the newest first."""
    shown, following = list_changes(call, limit=_MOST_ROWS, before=call.query.before)
    return Screen("history.html", changes=shown, following=following)


@VIEWS.add("GET", "/activity", "admin", is_whole=True)
def show_activity(call: Call[Plain]) -> Screen:
    """Show messages, saves and other changes of each of the last days."""
    return Screen("activity.html", days=call.memory.admin.activity(days=_DAYS))


# -- trust -------------------------------------------------------------------------------------------------


def _list_doubts(call: Call) -> Sequence[tuple[Record, Record]]:
    """Return pairs of live records of which the newer may have replaced the older."""
    view = call.view
    older = [each for each in view.list(limit=_DOUBTED, parts=True) if each.perhaps_replaced_by]
    pairs = [(each, view.get(each.perhaps_replaced_by)) for each in older]
    return [(a, b) for a, b in pairs if b is not None and not b.archived]


@VIEWS.add("GET", "/contradictions", "read")
def show_contradictions(call: Call[ViewQuery]) -> Screen:
    """Show pairs of memories of which one may be out of date."""
    return _draw_pairs(_list_doubts(call)[:20], "Contradictions")


@VIEWS.add("GET", "/compare", "read")
def compare(call: Call[ViewQuery]) -> Screen:
    """Show two memories side by side."""
    left, right = (
        records.get_record_of(call, call.view, name) for name in (call.query.left, call.query.right)
    )
    return _draw_pairs([(left, right)], "Compare")


def _draw_pairs(pairs: Sequence[tuple[Record, Record]], title: str) -> Screen:
    shown = [(a, b, compute_etag(a), compute_etag(b)) for a, b in pairs]
    return Screen("contradictions.html", title=title, pairs=shown)


@VIEWS.add("POST", "/contradictions", "write")
def settle(call: Call, fields: Fields) -> Redirect:
    """Decide which of two memories is right: the other one ends, or both stay."""
    holds, other = ("right", "left") if fields.get("keep") == "right" else ("left", "right")
    body = {"holds": fields.get(holds), "other": fields.get(other)}
    versions = [fields.get(f"version_{holds}"), fields.get(f"version_{other}")]
    verdict = "both" if fields.get("keep") == "both" else "ended"
    perform(call, records.settle_conflict, **body, versions=versions, verdict=verdict)
    return Redirect("/contradictions")


# -- where it is -------------------------------------------------------------------------------------------


@VIEWS.add("GET", "/scopes", "read")
def show_scopes(call: Call[ViewQuery]) -> Screen:
    """Show the scopes as a tree, each to be looked through."""
    own = call.caller.scope
    counts = call.server.overview(call.view).scopes
    names = {part for name in counts for part in visible_scopes(name) if is_within(part, own)} - {own}
    paths = sorted(names, key=lambda name: name.split("/"))
    rows = [(name.removeprefix(f"{own}/") if own else name, counts.get(name, 0)) for name in paths]
    return Screen("scopes.html", rows=rows, own=own, records=counts.get(own, 0))


@VIEWS.add("GET", "/access", "admin", is_whole=True)
def show_tokens(call: Call[Plain]) -> Screen:
    """Show all tokens."""
    return Screen("access.html", made=None, rights=RIGHTS, origins=ORIGINS)


@VIEWS.add("POST", "/access", "admin", is_whole=True)
def create_token(call: Call[Plain], fields: Fields) -> Screen:
    """Create a token and show it, once."""
    names = ("label", "scope", "origin", "expires")
    given = {name: text for name in names if (text := fields.get(name).strip())}
    made = perform(call, administration.create_token, **{"label": "", **given}, rights=fields.list("rights"))
    return Screen("access.html", made=made["token"], rights=RIGHTS, origins=ORIGINS)


@VIEWS.add("POST", "/access/{id}/revoke", "admin", is_whole=True)
def revoke_token(call: Call[Plain], fields: Fields) -> Redirect:
    """Revoke a token."""
    call.server.tokens.revoke(call.path["id"])
    return Redirect("/access", done=0)


@VIEWS.add("GET", "/pages", "read")
def show_pages(call: Call[ViewQuery]) -> Screen:
    """Show the names of all pages and logs, and the scratchpad."""
    return Screen("pages.html", pages=call.whole.pages.overview(), entries=call.view.scratchpad.list())


@VIEWS.add("GET", "/page-edit", "write", is_whole=True)
def show_page_form(call: Call[ViewQuery]) -> Screen:
    """Show the form of a page."""
    page = perform(call, records.get_page, path=call.query.name) if call.query.name else {"content": ""}
    return _draw_page_form(call.query.name, page["content"], compute_etag(page) if call.query.name else "")


def _draw_page_form(name: str, content: str, etag: str, problem: Problem | None = None) -> Screen:
    """Return the form of a page with a text; after a problem beside the stored text that it would replace."""
    stored = problem.fields.get("current") if problem else None
    shown = {"name": name, "content": content, "etag": compute_etag(stored) if stored else etag}
    status = problem.status if problem else 200
    return Screen("page_form.html", status=status, **shown, stored=stored, problem=problem)


@VIEWS.add("POST", "/page-edit", "write", is_whole=True)
def change_page(call: Call, fields: Fields) -> Screen | Redirect:
    """Write a page, unless another writer has changed it since the form was drawn; or add to a page or a log."""
    name, content, etag = fields.get("name"), fields.get("content"), fields.get("etag")
    try:
        if fields.list("text"):
            perform(call, records.append_to_page, path=name, text=fields.get("text"))
        else:
            perform(call, records.write_page, path=name, content=content, if_match=etag or '"new"')
    except Problem as problem:
        if problem.status not in (412, 422):
            raise
        return _draw_page_form(name, content, etag, problem)
    return Redirect("/pages/" + quote_path(name))


@VIEWS.add("GET", "/pages/{name:path}", "read")
def show_page(call: Call[ViewQuery]) -> Screen:
    """Show a page or a log with the author of each line."""
    page = perform(call, records.get_page)
    name, lines = page["name"], call.memory.history.blame(page["name"]).to_dict()["lines"]
    return Screen("page.html", title=name, page=page, lines=lines, is_log=is_log(name))


@VIEWS.add("GET", "/health", "admin", is_whole=True)
def show_health(call: Call[Plain]) -> Screen:
    """Show the index, failures and the settings."""
    return _draw_health(call)


@VIEWS.add("POST", "/health", "admin", is_whole=True)
def examine(call: Call[Plain], fields: Fields) -> Screen:
    """Examine the memory, which reads all of it, and show the problems."""
    return _draw_health(call, administration.diagnose(call).body)


def _list_settings(call: Call) -> list[tuple[str, Any, Any, bool]]:
    """Return each setting with its value, its default and whether they are the same; the changed ones first."""
    settings, usual = call.memory.settings, Settings()
    names = [each.name for each in list_fields(Settings) if not each.name.startswith("_")]
    rows = [(name, getattr(settings, name), getattr(usual, name)) for name in names]
    return sorted(((*row, row[1] == row[2]) for row in rows), key=lambda row: (row[3], row[0]))


def _draw_health(call: Call, diagnosis: Mapping[str, Any] | None = None) -> Screen:
    size = call.server.folder_size()
    return Screen("health.html", diagnosis=diagnosis, bytes=size, settings=_list_settings(call))
