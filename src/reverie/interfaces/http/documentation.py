"""Description of the API as OpenAPI, and `/docs`, which shows it with Swagger UI.

The files of Swagger UI come from an installed package; nothing is loaded from elsewhere, and nothing stands in the page
itself, so that it has the same `Content-Security-Policy` as every view.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from reverie.domain.errors import adapt_install_commands
from reverie.interfaces.http.problems import Problem

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # not `no-referrer`, with which a form sends `Origin: null`
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every view."""

ERROR: dict[str, Any] = {
    "description": "An error.",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
"""Description of the answer to a request that fails."""

_PROBLEM = {
    "type": "object",
    "description": "An error (RFC 9457); `detail` says what is wrong and what to do.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pointer", "detail"],
                "properties": {"pointer": {"type": "string"}, "detail": {"type": "string"}},
            },
        },
    },
}
_ASSETS = ("swagger-ui.css", "swagger-ui-bundle.js")
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Reverie API</title>
<link rel="icon" href="/static/icon.svg"><link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body><div id="swagger-ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script><script src="/docs/start.js"></script></body></html>
"""
_START = """SwaggerUIBundle({
  url: "/openapi.json", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis], layout: "BaseLayout", docExpansion: "none",
});
"""


def build_routes(app: FastAPI) -> list[BaseRoute]:
    """Return the routes `/openapi.json` and `/docs` of an application."""

    async def describe(request: Request) -> Response:
        if app.openapi_schema is None:
            app.openapi_schema = describe_api(app)
        return JSONResponse(app.openapi_schema)

    return [
        Route("/openapi.json", describe),
        Route("/docs", show_page),
        Route("/docs/{name}", serve_asset),
    ]


def describe_api(app: FastAPI) -> dict[str, Any]:
    """Return the description of an application."""
    description = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        license_info=app.license_info,
        servers=app.servers,
        routes=app.routes,
    )
    components = description["components"]
    components["schemas"] = dict(sorted({**components["schemas"], "Problem": _PROBLEM}.items()))
    components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    return {
        **description,
        "security": [{"bearer": []}, {}],
        "paths": dict(sorted(description["paths"].items())),
    }


async def show_page(request: Request) -> Response:
    """Show the description, to read and to try."""
    if find_spec("swagger_ui_bundle") is None:
        what = "This page needs the package swagger-ui-bundle-v2: pip install 'reverie[server]'. See /openapi.json."
        return Problem(501, adapt_install_commands(what)).to_response()
    return HTMLResponse(_PAGE, headers=HEADERS)


async def serve_asset(request: Request) -> Response:
    """Answer with a file of Swagger UI, or the script that starts it."""
    name = request.path_params["name"]
    if name == "start.js":
        return Response(_START, media_type="text/javascript", headers=HEADERS)
    if name not in _ASSETS or find_spec("swagger_ui_bundle") is None:
        return Problem(404, "There is no such file.").to_response()
    from swagger_ui_bundle import swagger_ui_path  # here: few servers are asked for it

    return FileResponse(Path(swagger_ui_path) / name, headers={**HEADERS, "Cache-Control": "no-cache"})
