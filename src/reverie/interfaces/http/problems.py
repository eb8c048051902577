"""Errors as `application/problem+json` (RFC 9457)."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from reverie.domain import errors

MEDIA_TYPE = "application/problem+json"

_log = logging.getLogger("reverie.http")

_STATUS: Mapping[type[errors.ReverieError], int] = {
    errors.InvalidInput: 422,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.WorkingMemoryFull: 409,
    errors.StoreUnavailable: 503,
    errors.ModelUnavailable: 503,
    errors.ModelRefused: 502,
    errors.MissingExtra: 501,
}
"""Status of each error; any other one of Reverie's is 500."""

TITLES: Mapping[int, str] = {
    400: "Malformed request",
    401: "Token required",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    408: "Request too slow",
    409: "Conflict",
    412: "Changed meanwhile",
    413: "Request too large",
    415: "Unsupported media type",
    421: "Wrong host",
    422: "Invalid input",
    428: "If-Match required",
    500: "Internal error",
    501: "Not supported",
    502: "Model refused",
    503: "Unavailable",
}


class Problem(Exception):
    """An answer that is an error.

    Attributes:
        status: HTTP status.
        detail: A sentence that says what is wrong and what to do.
        kind: Last part of the problem's `type`; by default from the title of the status.
        headers: Headers of the answer.
        fields: Further members.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        kind: str | None = None,
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.kind = kind or TITLES[status].lower().replace(" ", "-")
        self.headers = dict(headers or {})
        self.fields = fields

    def to_dict(self, *, instance: str = "") -> dict[str, Any]:
        """Return the members of the problem."""
        members = {
            "type": f"urn:reverie:problem:{self.kind}",
            "title": TITLES[self.status],
            "status": self.status,
            "detail": self.detail,
        }
        return members | ({"instance": instance} if instance else {}) | self.fields

    def to_response(self, *, instance: str = "") -> Response:
        """Return the answer."""
        body = json.dumps(self.to_dict(instance=instance), ensure_ascii=False).encode(errors="replace")
        return Response(body, self.status, headers=self.headers, media_type=MEDIA_TYPE)


def build_problem(error: Exception) -> Problem:
    """Return the problem that an exception is; log one that is a bug or damage."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, errors.ReverieError):
        status = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)
        if status == 500:
            _log.error("%s", error)
        headers = {"Retry-After": "1"} if status == 503 else {}
        kind = _to_kebab_case(type(error).__name__)
        return Problem(status, _to_sentence(str(error)), kind=kind, headers=headers)
    _log.error("a request failed", exc_info=error)
    what = f"{type(error).__name__}: this is a bug in Reverie. The server's log has details."
    return Problem(500, what, kind="bug")


def build_field_problem(wrong: Sequence[Any]) -> Problem:
    """Return the problem of a body or a query that is not of its form.

    Args:
        wrong: Errors as pydantic lists them.
    """
    if any(each["type"] == "json_invalid" for each in wrong):
        return Problem(400, f"The body is no JSON: {_lower(wrong[0]['msg'])}.", kind="malformed-json")
    places = [
        {"pointer": "".join(f"/{_escape(part)}" for part in each["loc"]), "detail": each["msg"]}
        for each in wrong
    ]
    first = places[0]
    more = f" ({len(places) - 1} more)" if len(places) > 1 else ""
    what = f"{first['pointer'] or 'The body'}: {_lower(first['detail'])}{more}. Correct it and send it again."
    return Problem(422, what, kind="invalid-input", errors=places)


def _escape(part: object) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _to_sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _to_kebab_case(name: str) -> str:
    return "".join(f"-{sign.lower()}" if sign.isupper() else sign for sign in name).lstrip("-")
