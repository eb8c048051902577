"""Site of the page: routes, sign-in, protection from other sites, headers, and errors as HTML."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from starlette.datastructures import Headers, UploadFile
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from reverie import __version__
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.scope import parse_session_scope
from reverie.interfaces.http.operations import Call, Operation, Problem, parse_number, parse_query
from reverie.interfaces.http.page import memories, review, settings, today
from reverie.interfaces.http.page.rendering import HEADERS, STATIC, STATIC_VERSION, Calendar, build_link, draw
from reverie.interfaces.http.page.views import Fields, Screen, is_allowed
from reverie.interfaces.http.server import HttpServer, read_body

GROUPS = (today, memories, review, settings)
"""Modules of views."""

AREAS = {
    "": "today",
    **dict.fromkeys(("memories", "selection", "compare"), "memories"),
    **dict.fromkeys(("conversations", "why", "what-if"), "chats"),
    "review": "review",
    "forget": "forget",
}
"""First parts of paths, each with the word of the menu that it belongs to; the others belong to the settings."""

MOST_FIELDS = 1_000
"""Maximum fields of a form."""

LARGEST_UPLOAD = 512 * 1024 * 1024
"""Maximum bytes of a file to import."""

_NOT_THE_PAGE = ("/v1/", "/mcp")
_VIEWS = [each for group in GROUPS for each in group.VIEWS]
_SCOPED = {
    each.path.split("/")[1] for each in _VIEWS if "scope" in each.query.model_fields and not each.is_whole
}
_SESSION_PATH = defer_regex("/(?:conversations|why)/(.+)")
_OF_TOAST = ("done", "undone")
_IMPORT = "/import"
_FORM_TYPE = "application/x-www-form-urlencoded"
_MEDIA_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_TITLES = {404: "Not here", 412: "Changed meanwhile", 422: "Please correct this", 500: "Something failed"}


async def serve_static(request: Request) -> Response:
    """Answer with a file of the page."""
    name = request.path_params["name"]
    if name not in STATIC:
        return Problem(404, "There is no such file.").to_response()
    lasting = request.query_params.get("v") == STATIC_VERSION
    headers = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable" if lasting else "no-cache"}
    return Response(STATIC[name], media_type=_MEDIA_TYPES[name.rpartition(".")[2]], headers=headers)


def require_own_site(headers: Headers) -> None:
    """Raise `Problem` if a form was not sent by a view of this server (CSRF).

    Browsers say where a request comes from. `Sec-Fetch-Site` is sent to this machine and over TLS, `Origin` with
    every form; the host of the latter must be the one that is asked.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        is_own = site in ("same-origin", "none")
    else:
        is_own = origin is not None and urlsplit(origin).netloc == headers.get("host")
    if not is_own:
        raise Problem(
            403, "This form was not sent by a page of this server. Open the page here and try again."
        )


class Site:
    """The page of one server."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server

    def build_routes(self) -> list[Route]:
        """Return the routes of the page."""
        views = [Route(each.path, partial(self.answer, each), methods=[each.method]) for each in _VIEWS]
        return [Route("/static/{name}", serve_static, methods=["GET"]), *views]

    # -- views -------------------------------------------------------------------------------------------

    async def answer(self, view: Operation, request: Request) -> Response:
        """Answer a request for a view."""
        return await self._server.respond(view, request, partial(self._do, view), self._show_problem)

    async def _do(self, view: Operation, request: Request) -> Response:
        fields, threads = None, self._server.threads
        if view.method == "POST":
            require_own_site(request.headers)
            await threads.run(partial(self._authenticate, view, request))  # before a file is read
            fields = await _read_fields(request)
        return await threads.run(partial(self._run, view, request, fields), lane=view.lane)

    def _authenticate(self, view: Operation, request: Request) -> Call:
        """Return the call of the person at the page, whose token is in a cookie."""
        server, token = self._server, request.cookies.get(_name_cookie(request, "token"))
        headers = {"authorization": f"Bearer {token}"} if token else {}
        caller = server.authenticate(headers, right=view.right, is_whole=view.is_whole)
        if not server.tokens.is_required():
            caller = replace(caller, label="page")
        given = [item for item in request.query_params.multi_items() if item[1] and item[0] not in _OF_TOAST]
        query = parse_query(view.query, given)
        return Call(server=server, caller=caller, path=request.path_params, query=query)

    def _run(self, view: Operation, request: Request, fields: Fields | None) -> Response:
        """Draw a view or do what its form asks; on a thread."""
        server, call = self._server, self._authenticate(view, request)
        server.memory.refresh_files()
        last = server.memory.history.sequence()
        shown = view.perform(call, fields)
        if isinstance(shown, Screen):
            return self._draw(shown, request, call=None if view.right is None else call)
        done = _find_change(call, after=last) if shown.done is None else shown.done
        scope = _find_scope(shown.path, getattr(call.query, "scope", ""))
        path = build_link(shown.path, {"done": done or None, "undone": shown.undone, "scope": scope})
        response = RedirectResponse(path, 303, headers=HEADERS)
        for name, (value, seconds) in shown.cookies.items():
            is_https = request.url.scheme == "https"
            options: dict[str, Any] = {"httponly": True, "samesite": "strict", "secure": is_https}
            response.set_cookie(_name_cookie(request, name), value, seconds, **options)
        return response

    def _draw(self, screen: Screen, request: Request, *, call: Call | None = None) -> Response:
        path, memory = request.url.path, self._server.memory
        scope = getattr(call.query, "scope", "") if call else ""
        theme = request.cookies.get(_name_cookie(request, "theme"), "")

        def link(target: str, query: dict[str, Any] | None = None, **more: Any) -> str:
            return build_link(target, {"scope": _find_scope(target, scope), **(query or {})}, **more)

        shown: dict[str, Any] = {
            "call": call,
            "scope": scope,
            "may": partial(is_allowed, call) if call else None,
            "reader": call.reader if call and hasattr(call.query, "scope") else None,
            "query": call.query.model_dump(exclude_defaults=True, exclude={"scope", "cursor"})
            if call
            else {},
            "here": AREAS.get(path.split("/")[1], "settings"),
            "here_path": path,
            "address": _build_address(request),
            "theme": theme if theme in settings.THEMES else "system",
            "version": __version__,
            "memory_path": memory.path,
            "link": link,
            "calendar": Calendar(memory.now(), memory.settings.zone),
            "waiting": review.count_waiting(call) if call and is_allowed(call, "review") else 0,
            "toast": _find_toast(call, request) if call else None,
        }
        return HTMLResponse(
            draw(screen.template, **{**shown, **screen.values}), screen.status, headers=HEADERS
        )

    def answer_error(self, request: Request, problem: Problem) -> Response | None:
        """Answer a browser that asked for an address of the page with a view of an error; others with None."""
        if "text/html" not in request.headers.get("accept", "") or request.url.path.startswith(_NOT_THE_PAGE):
            return None
        if problem.status in (404, 405):
            what = "This address has no page. The menu leads to what there is."
            problem = Problem(problem.status, what, headers=problem.headers)
        return self._show_problem(request, problem)

    def _show_problem(self, request: Request, problem: Problem) -> Response:
        """Answer with an error as a view; ask for a token where one is missing."""
        if problem.status == 401:
            wanted = _build_address(request) if request.method == "GET" else "/"
            target = build_link("/sign-in", next=None if wanted == "/" else wanted)
            return RedirectResponse(target, 303, headers=HEADERS)
        title = _TITLES.get(problem.status, HTTPStatus(problem.status).phrase)
        values = {"title": title, "detail": problem.detail, "current": problem.fields.get("current")}
        return self._draw(Screen("problem.html", status=problem.status, **values), request)


def _find_scope(path: str, scope: str) -> str | None:
    """Return the scope in which a view of `scope` opens a path; None if the path has none or names its own."""
    if match := _SESSION_PATH.match(path.partition("?")[0]):
        return parse_session_scope(unquote(match[1])) or scope or None
    is_scoped = path.partition("?")[0].split("/")[1] in _SCOPED
    return scope if is_scoped and "scope=" not in path else None


def _find_toast(call: Call, request: Request) -> dict[str, Any] | None:
    """Return what was just done, for a note with a button that takes it back."""
    number = parse_number(request.query_params.get("done", ""))
    change = review.find_change(call, number) if number is not None and is_allowed(call, "read") else None
    if change is None:
        return None
    undone = request.query_params.get("undone") == "1"
    may_undo = is_allowed(call, "review") and change["can_undo"]
    verb, more = "Undone" if undone else change["verb"], change["sequence"] - change["batch"]
    named = (("batch", change["batch"]) if more else ("change", number)) if may_undo else None
    return {"verb": verb, "text": change["text"], "more": more, "named": named, "undone": undone}


def _find_change(call: Call, *, after: int) -> int | None:
    """Return the number of the newest change that the caller made after another one; None if there is none."""
    rows = call.memory.history.log(after=after, actor=call.caller.label, limit=1, newest_first=True)
    return call.numbers.show(rows[0].sequence) if rows else None


async def _read_fields(request: Request) -> Fields:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data" and request.url.path == _IMPORT:
        return await _read_upload(request)
    if kind != _FORM_TYPE:
        raise Problem(415, f"The body is {kind[:80]!r}. Send a form as {_FORM_TYPE}.")
    data = await read_body(request)
    options: dict[str, Any] = {"keep_blank_values": True, "errors": "strict", "max_num_fields": MOST_FIELDS}
    try:
        return Fields(parse_qs(data.decode("ascii"), **options))
    except ValueError:
        raise Problem(400, "The form cannot be read. Send UTF-8, and at most 1,000 fields.") from None


async def _read_upload(request: Request) -> Fields:
    """Return the form with the uploaded file, which is on the disk if it is large."""
    length = parse_number(request.headers.get("content-length", ""))
    if length is None or length > LARGEST_UPLOAD:
        raise Problem(413, f"The file has more than {LARGEST_UPLOAD:,} bytes. Use `reverie import` for it.")
    form = await request.form(max_files=1, max_fields=5)
    file = form.get("file")
    return Fields({}, file if isinstance(file, UploadFile) else None)


def _build_address(request: Request) -> str:
    """Return the address of a view without the number of the last change."""
    kept = [item for item in request.query_params.multi_items() if item[0] not in _OF_TOAST]
    return f"{request.url.path}?{urlencode(kept)}" if kept else request.url.path


def _name_cookie(request: Request, name: str) -> str:
    """Return the full name of a cookie: servers on other ports of this machine share the cookies of the host."""
    return f"reverie_{name}_{request.url.port or 0}"
