"""Site of the page: routes, sign-in, protection from other sites, headers, and errors as HTML."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers, UploadFile
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from reverie import __version__
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.scope import parse_session_scope
from reverie.interfaces.http import problems
from reverie.interfaces.http.documentation import HEADERS
from reverie.interfaces.http.operations import Call, Operation, ScopeQuery, parse_number
from reverie.interfaces.http.page import conversations, feed, forget, memories, review, settings, today
from reverie.interfaces.http.page.rendering import STATIC, STATIC_VERSION, Calendar, build_link, draw
from reverie.interfaces.http.page.views import Fields, Redirect, Screen, choose_local_path, is_allowed
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.server import HttpServer, read_body

GROUPS = (today, memories, conversations, review, forget, settings)
"""Modules of views."""

AREAS = {
    "/memories": "memories",
    "/selection": "memories",
    "/compare": "memories",
    "/conversations": "chats",
    "/why": "chats",
    "/what-if": "chats",
    "/review": "review",
    "/forget": "forget",
}
"""Beginnings of paths, each with the word of the menu that it belongs to; the others belong to the settings."""

MOST_FIELDS = 1_000
"""Maximum fields of a form."""

LARGEST_UPLOAD = 512 * 1024 * 1024
"""Maximum bytes of a file to import."""

THEMES = ("system", "light", "dark")

_NOT_THE_PAGE = ("/v1/", "/mcp")
_VIEWS = [each for group in GROUPS for each in group.VIEWS]
_SCOPED = [
    Route(each.path, lambda request: Response())
    for each in _VIEWS
    if not each.is_whole and issubclass(each.query, ScopeQuery)
]
_SESSION_PATH = defer_regex("/(?:conversations|why)/(.+)")
_OF_TOAST = ("done", "undone")
_IMPORT = "/import"
_FORM_TYPE = "application/x-www-form-urlencoded"
_MEDIA_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_THEME = "reverie_theme"
_TITLES = {404: "Not here", 412: "Changed meanwhile", 422: "Please correct this", 500: "Something failed"}


async def serve_static(request: Request) -> Response:
    """Answer with a file of the page."""
    data = STATIC.get(request.path_params["name"])
    if data is None:
        return Problem(404, "There is no such file.").to_response()
    kind = request.path_params["name"].rpartition(".")[2]
    lasting = request.query_params.get("v") == STATIC_VERSION
    cache = "public, max-age=31536000, immutable" if lasting else "no-cache"
    return Response(data, media_type=_MEDIA_TYPES[kind], headers={**HEADERS, "Cache-Control": cache})


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
        return [
            Route("/static/{name}", serve_static, methods=["GET"]),
            Route("/sign-in", self.show_sign_in, methods=["GET"]),
            Route("/sign-in", partial(self._answer_form, self._sign_in), methods=["POST"]),
            Route("/sign-out", partial(self._answer_form, self._sign_out), methods=["POST"]),
            Route("/theme", partial(self._answer_form, self._choose_theme), methods=["POST"]),
            *(Route(each.path, partial(self.answer, each), methods=[each.method]) for each in _VIEWS),
        ]

    # -- views -------------------------------------------------------------------------------------------

    async def answer(self, view: Operation, request: Request) -> Response:
        """Answer a request for a view."""
        return await self._server.respond(view, request, partial(self._do, view), self._show_problem)

    async def _do(self, view: Operation, request: Request) -> Response:
        fields, server = None, self._server
        if view.method == "POST":
            require_own_site(request.headers)
            check = partial(server.authenticate, right=view.right, is_whole=view.is_whole)
            await server.threads.run(partial(check, _read_credentials(request)))  # before a file is read
            fields = await _read_fields(request)
        return await server.threads.run(partial(self._run, view, request, fields), lane=view.lane)

    def _run(self, view: Operation, request: Request, fields: Fields | None) -> Response:
        """Draw a view or do what its form asks; on a thread."""
        server = self._server
        caller = server.authenticate(_read_credentials(request), right=view.right, is_whole=view.is_whole)
        if not server.tokens.is_required():
            caller = replace(caller, label="page")
        given = request.query_params
        try:
            query = _parse_query(view.query, given.multi_items())
        except ValidationError as error:
            raise problems.build_field_problem(error.errors(include_url=False, include_input=False)) from None
        call = Call(
            server=server,
            caller=caller,
            method=view.method,
            path=request.path_params,
            query=query,
        )
        server.refresh_files()
        last = server.memory.history.sequence()
        shown = view.perform(call, fields)
        scope = getattr(query, "scope", "")
        if isinstance(shown, Response):
            return shown
        if isinstance(shown, Redirect):
            done = _find_change(call, after=last) if shown.done is None else shown.done
            queries = {"done": done or None, "undone": shown.undone, "scope": _find_scope(shown.path, scope)}
            return RedirectResponse(build_link(shown.path, queries), 303, headers=HEADERS)
        return self._draw(shown, request, call=call, scope=scope)

    def _draw(self, screen: Screen, request: Request, **values: Any) -> Response:
        call, scope, path = values.get("call"), values.get("scope", ""), request.url.path
        theme = request.cookies.get(_THEME, "")
        memory = self._server.memory
        shown = {
            "may": partial(is_allowed, call) if call else None,
            "reader": call.reader if call and isinstance(call.query, ScopeQuery) else None,
            "query": call.query.model_dump(exclude_defaults=True, exclude={"scope", "cursor"})
            if call
            else {},
            "here": "today" if path == "/" else AREAS.get(f"/{path.split('/')[1]}", "settings"),
            "here_path": path,
            "address": _build_address(request),
            "theme": theme if theme in THEMES else "system",
            "version": __version__,
            "memory_path": memory.path,
            "link": lambda target, *queries, **more: build_link(
                target, {"scope": _find_scope(target, scope), **(queries[0] if queries else {})}, **more
            ),
            "calendar": Calendar(memory.now(), memory.settings.zone),
            "waiting": review.count_waiting(call) if call and is_allowed(call, "review") else 0,
            "toast": _find_toast(call, request) if call else None,
        }
        text = draw(screen.template, **{"call": None, "scope": "", **shown, **values, **screen.values})
        return HTMLResponse(text, screen.status, headers=HEADERS)

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
        screen = Screen(
            "problem.html",
            status=problem.status,
            title=_TITLES.get(problem.status, problems.TITLES[problem.status]),
            detail=problem.detail,
            current=problem.fields.get("current"),
        )
        return self._draw(screen, request)

    # -- sign-in and theme -------------------------------------------------------------------------------

    async def show_sign_in(self, request: Request) -> Response:
        """Show the form for a token."""
        return self._draw_sign_in(request, choose_local_path(request.query_params.get("next", "")))

    async def _answer_form(
        self, act: Callable[[Request, Fields], Awaitable[Response]], request: Request
    ) -> Response:
        try:
            return await act(request, await _read_fields(request))
        except Problem as problem:
            return self._show_problem(request, problem)

    async def _sign_in(self, request: Request, fields: Fields) -> Response:
        """Check a token and keep it in a cookie that no script can read."""
        text, target = fields.get("token").strip(), choose_local_path(fields.get("next"))
        caller = await self._server.threads.run(partial(self._server.tokens.authenticate, text))
        if caller is None:
            return self._draw_sign_in(request, target, is_refused=True)
        response = RedirectResponse(target, 303, headers=HEADERS)
        response.set_cookie(
            _name_cookie(request),
            text,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    async def _sign_out(self, request: Request, fields: Fields) -> Response:
        """Forget the token."""
        response = RedirectResponse("/sign-in", 303, headers=HEADERS)
        response.delete_cookie(_name_cookie(request))
        return response

    async def _choose_theme(self, request: Request, fields: Fields) -> Response:
        """Keep whether the page is light or dark, in a cookie."""
        response = RedirectResponse(choose_local_path(fields.get("next")), 303, headers=HEADERS)
        theme = fields.get("theme")
        if theme in THEMES:
            response.set_cookie(_THEME, theme, max_age=31_536_000, httponly=True, samesite="strict")
        return response

    def _draw_sign_in(self, request: Request, target: str, *, is_refused: bool = False) -> Response:
        status = 401 if is_refused else 200
        screen = Screen("sign_in.html", status=status, next=target, is_refused=is_refused)
        return self._draw(screen, request)


def _parse_query(form: type[BaseModel], items: Iterable[tuple[str, str]]) -> BaseModel:
    """Return the parameters of a query as a view's form; fields that were left empty are not given."""
    values: dict[str, list[str]] = {}
    for name, text in items:
        if text and name not in _OF_TOAST:
            values.setdefault(name, []).append(text)
    lists = {name for name, each in form.model_fields.items() if "tuple[" in str(each.annotation)}
    return form.model_validate(
        {name: each if name in lists or len(each) > 1 else each[0] for name, each in values.items()}
    )


def _find_scope(path: str, scope: str) -> str | None:
    """Return the scope in which a view of `scope` opens a path; None if the path has none or names its own."""
    name = path.partition("?")[0]
    if match := _SESSION_PATH.match(name):
        return parse_session_scope(unquote(match[1])) or scope or None
    is_scoped = any(view.path_regex.match(name) for view in _SCOPED)
    return scope if is_scoped and "scope=" not in path else None


def _find_toast(call: Call, request: Request) -> dict[str, Any] | None:
    """Return what was just done, for a note with a button that takes it back."""
    number = parse_number(request.query_params.get("done", ""))
    if number is None or not is_allowed(call, "read"):
        return None
    change = feed.find_change(call, number)
    if change is None:
        return None
    undone = request.query_params.get("undone") == "1"
    may_undo = is_allowed(call, "review") and change["can_undo"]
    verb = "Undone" if undone else change["verb"]
    return {"verb": verb, "text": change["text"], "number": number if may_undo else None, "undone": undone}


def _find_change(call: Call, *, after: int) -> int | None:
    """Return the number of the newest change that the caller made after another one; None if there is none."""
    rows = call.memory.history.log(after=after, actor=call.caller.label, limit=1, newest_first=True)
    return call.numbers.show(rows[0].sequence) if rows else None


async def _read_fields(request: Request) -> Fields:
    require_own_site(request.headers)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data" and request.url.path == _IMPORT:
        return await _read_upload(request)
    if kind != _FORM_TYPE:
        raise Problem(415, f"The body is {kind[:80]!r}. Send a form as {_FORM_TYPE}.")
    data = await read_body(request)
    try:
        values = parse_qs(
            data.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS
        )
    except ValueError:
        raise Problem(400, "The form cannot be read. Send UTF-8, and at most 1,000 fields.") from None
    return Fields(values)


async def _read_upload(request: Request) -> Fields:
    """Return the form with the uploaded file, which is on the disk if it is large."""
    length = request.headers.get("content-length", "")
    if not length.isdecimal() or int(length) > LARGEST_UPLOAD:
        raise Problem(413, f"The file has more than {LARGEST_UPLOAD:,} bytes. Use `reverie import` for it.")
    form = await request.form(max_files=1, max_fields=5)
    file = form.get("file")
    return Fields({}, file if isinstance(file, UploadFile) else None)


def _build_address(request: Request) -> str:
    """Return the address of a view without the number of the last change."""
    kept = [item for item in request.query_params.multi_items() if item[0] not in _OF_TOAST]
    return f"{request.url.path}?{urlencode(kept)}" if kept else request.url.path


def _read_credentials(request: Request) -> dict[str, str]:
    """Return the header that a program would send, with the token of the cookie."""
    token = request.cookies.get(_name_cookie(request), "")
    return {"authorization": f"Bearer {token}"} if token else {}


def _name_cookie(request: Request) -> str:
    """Return the name of the token's cookie: servers on other ports of this machine share the cookies of the host."""
    return f"reverie_token_{request.url.port or 0}"
