"""Errors as clients see them: problem+json with codes that never change."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from math import ceil
from typing import Annotated, Final

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import Field, JsonValue
from starlette.exceptions import HTTPException

from windlass import AgentError
from windlass.ports.feed import CursorExpired
from windlass_protocol import CodecError, encode
from windlass_server.wire import Wire

MEDIA_TYPE: Final = "application/problem+json"
RETRY_S: Final = 1
"""When to come back, if nobody knows better, seconds."""
_STATUS: Final = {
    "rejected": HTTPStatus.BAD_REQUEST,
    "denied": HTTPStatus.FORBIDDEN,
    "conflict": HTTPStatus.CONFLICT,
    "unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "ambiguous": HTTPStatus.GATEWAY_TIMEOUT,
    "corrupt": HTTPStatus.INTERNAL_SERVER_ERROR,
}
_CODES: Final[dict[int, str]] = {
    HTTPStatus.BAD_REQUEST: "rejected",
    HTTPStatus.UNAUTHORIZED: "unauthenticated",
    HTTPStatus.FORBIDDEN: "denied",
    HTTPStatus.NOT_FOUND: "not_found",
    HTTPStatus.METHOD_NOT_ALLOWED: "method_not_allowed",
    HTTPStatus.REQUEST_TIMEOUT: "timeout",
    HTTPStatus.CONFLICT: "conflict",
    HTTPStatus.GONE: "cursor_expired",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "too_large",
    HTTPStatus.REQUEST_URI_TOO_LONG: "too_large",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "unsupported",
    HTTPStatus.UNPROCESSABLE_ENTITY: "rejected",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limited",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "too_large",
    HTTPStatus.INTERNAL_SERVER_ERROR: "internal",
    HTTPStatus.SERVICE_UNAVAILABLE: "unavailable",
}
_ISSUES_MAX: Final = 16
_NAME: Final = re.compile(r"[\w.-]+")
"""What a request calls a part of itself."""


class ProblemBody(Wire):
    """What went wrong, and what to do about it."""

    type: Annotated[str, Field(description="A name for this kind of problem.")]
    title: Annotated[str, Field(description="The same in words.")]
    status: int
    detail: Annotated[str, Field(description="What happened, and what to do.")]
    code: Annotated[str, Field(description="Stable: programs may depend on it.")]
    ids: Annotated[dict[str, str], Field(description="What it is about.")]
    issues: list[dict[str, JsonValue]] | None = None
    """Where a body or a query does not fit."""


@dataclass(eq=False)  # not frozen: Python writes the traceback into an exception
class Problem(Exception):
    """An error with the answer that it gets."""

    status: int
    detail: str
    code: str | None = None
    ids: Mapping[str, str] | None = None
    issues: Sequence[Mapping[str, JsonValue]] = ()
    retry_s: int | None = None
    headers: Mapping[str, str] | None = None

    @property
    def named_code(self) -> str:
        """What kind of problem it is."""
        return self.code or _CODES.get(self.status, "rejected" if self.status < 500 else "internal")

    def body(self) -> bytes:
        """Return what a client sees of it, as JSON."""
        code = self.named_code
        body: dict[str, JsonValue] = {
            "type": f"urn:windlass:problem:{code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "code": code,
            "ids": dict[str, JsonValue](self.ids or {}),
        }
        if self.issues:
            body["issues"] = [dict(issue) for issue in self.issues[:_ISSUES_MAX]]
        return encode(body)

    def response(self) -> Response:
        """Return the answer."""
        headers = {**(self.headers or {})}
        if self.retry_s is not None:
            headers["retry-after"] = str(self.retry_s)
        return Response(self.body(), self.status, headers, MEDIA_TYPE)


def not_found(what: str) -> Problem:
    """Return the answer for something that is not there, or is not theirs to see.

    It names no id: the two cases must not be told apart.
    """
    return Problem(404, f"there is no such {what}")


def of_agent_error(error: AgentError) -> Problem:
    """Return the answer that an error of the runtime gets."""
    if isinstance(error, CursorExpired):
        return Problem(410, error.message)
    status = _STATUS[error.code.value]
    retry_s = None
    if error.code.value == "unavailable":
        after_ms = error.retry_after_ms
        retry_s = RETRY_S if after_ms is None else max(RETRY_S, ceil(after_ms / 1000))
    ids = {name: value for name, value in error.causal_ids.model_dump().items() if isinstance(value, str)}
    return Problem(status, error.info().message, error.code.value, ids=ids, retry_s=retry_s)


def of_codec_error(error: CodecError) -> Problem:
    """Return the answer for a body that is not strict JSON."""
    return Problem(400, f"the body cannot be read: {error.message}")


async def on_problem(request: Request, error: Exception) -> Response:
    """Answer a problem, an error of the runtime, or one of the framework."""
    match error:
        case Problem():
            return error.response()
        case AgentError():
            return of_agent_error(error).response()
        case RequestValidationError():
            issues = [{"path": _path(issue["loc"]), "message": str(issue["msg"])} for issue in error.errors()]
            words = "the request does not fit this route"
            if issues:
                words += f": {issues[0]['path']}: {issues[0]['message']}"
            return Problem(422, words, issues=issues).response()
        case HTTPException():
            headers = {**(error.headers or {})}
            if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
                headers["allow"] = ", ".join(_methods(request))
            return Problem(error.status_code, _words(error), headers=headers).response()
        case _:
            # The log has it; whoever asked must not learn what is inside.
            return Problem(500, "the server failed; nothing is known about what became of it").response()


def _path(place: Sequence[str | int]) -> str:
    """Return where a request does not fit, without names of types."""
    return "/".join(str(part) for part in place if _NAME.fullmatch(str(part)))


def _methods(request: Request) -> list[str]:
    """Return all methods that the path of a request takes: each is a route of its own."""
    path = getattr(request.scope.get("route"), "path", None)
    routes = [route for route in request.app.router.routes if getattr(route, "path", None) == path]
    return sorted({method for route in routes for method in route.methods or ()})


def _words(error: HTTPException) -> str:
    match error.status_code:
        case 404:
            return "there is no such route"
        case 405:
            return "this route does not take this method"
        case _:
            return str(error.detail)
