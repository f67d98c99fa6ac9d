"""Errors as clients see them: problem details (RFC 9457) with stable codes.

Clients of eve read `error` and `ok`: on their routes a problem has these two as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from math import ceil
from typing import Final

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import JsonValue
from starlette.exceptions import HTTPException

from windlass import AgentError
from windlass.ports.feed import CursorExpired
from windlass.ports.inbox import ItemTooLarge
from windlass_protocol import CodecError, RetryClass, encode

PROBLEM_TYPE: Final = "application/problem+json"
RETRY_S: Final = 1
"""The default of Retry-After, seconds."""
STATUS_OF_CODE: Final = {
    "rejected": HTTPStatus.BAD_REQUEST,
    "denied": HTTPStatus.FORBIDDEN,
    "conflict": HTTPStatus.CONFLICT,
    "unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "ambiguous": HTTPStatus.GATEWAY_TIMEOUT,
    "corrupt": HTTPStatus.INTERNAL_SERVER_ERROR,
}
CODE_OF_STATUS: Final[dict[int, str]] = {
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


@dataclass(eq=False)  # not frozen: Python writes the traceback into an exception
class Problem(Exception):
    """An error with its response."""

    status: int
    detail: str
    code: str | None = None
    ids: Mapping[str, str] | None = None
    issues: Sequence[Mapping[str, JsonValue]] = ()
    retry_s: int | None = None
    headers: Mapping[str, str] | None = None
    is_for_eve: bool = False
    policy_code: str | None = None
    """The code of the decision of a policy that refused."""
    request_id: str | None = None
    """The id of the HTTP request."""

    @property
    def named_code(self) -> str:
        """The code of the problem."""
        return self.code or CODE_OF_STATUS.get(self.status, "rejected" if self.status < 500 else "internal")

    def body(self) -> bytes:
        """Return the body of the response."""
        code = self.named_code
        body: dict[str, JsonValue] = {
            "type": f"urn:windlass:problem:{code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "code": code,
            "ids": dict[str, JsonValue](self.ids or {}),
        }
        if self.policy_code is not None:
            body["policyCode"] = self.policy_code
        if self.request_id is not None:
            body["instance"] = f"urn:windlass:request:{self.request_id}"
        if self.issues:
            body["issues"] = [dict(issue) for issue in self.issues[:_ISSUES_MAX]]
        if self.is_for_eve:
            body |= {"ok": False, "error": self.detail}
        return encode(body)

    def for_eve(self) -> "Problem":
        """Return the problem as clients of eve know it: a body that does not fit is 400."""
        is_misfit = self.status == HTTPStatus.UNPROCESSABLE_ENTITY
        status = HTTPStatus.BAD_REQUEST if is_misfit else self.status
        return replace(self, status=status, is_for_eve=True)

    def response(self) -> Response:
        """Return the response."""
        headers = {**(self.headers or {})}
        if self.retry_s is not None:
            headers["retry-after"] = str(self.retry_s)
        return Response(self.body(), self.status, headers, PROBLEM_TYPE)


def not_found(what: str) -> Problem:
    """Return the response for a thing that does not exist or belongs to another user.

    It names no id: a client must not be able to tell the two cases apart.
    """
    return Problem(404, f"there is no such {what}")


def of_agent_error(error: AgentError) -> Problem:
    """Return the response for an error of the runtime."""
    if isinstance(error, CursorExpired):
        return Problem(410, error.message)
    if isinstance(error, ItemTooLarge):
        return Problem(413, error.message)
    status = STATUS_OF_CODE[error.code.value]
    retry_s = None
    if error.code.value == "unavailable" and error.retry is not RetryClass.HOST_CONFIGURATION_NEEDED:
        after_ms = error.retry_after_ms
        retry_s = RETRY_S if after_ms is None else max(RETRY_S, ceil(after_ms / 1000))
    ids = {name: value for name, value in error.causal_ids.model_dump().items() if isinstance(value, str)}
    return Problem(
        status,
        error.info().message,
        error.code.value,
        ids=ids,
        retry_s=retry_s,
        policy_code=error.policy_code,
    )


def of_codec_error(error: CodecError) -> Problem:
    """Return the response for a body that is not strict JSON."""
    return Problem(400, f"the body cannot be read: {error.message}")


def is_expected(error: Exception) -> bool:
    """Whether the response to an error says all that there is to know; any other error is logged."""
    return isinstance(error, Problem | AgentError | RequestValidationError | HTTPException)


def problem_of(request: Request, error: Exception) -> Problem:
    """Return the problem that an error of the server, the runtime or the framework is to a client."""
    match error:
        case Problem():
            return error
        case AgentError():
            return of_agent_error(error)
        case RequestValidationError():
            issues: Sequence[Mapping[str, str]] = error.errors()
            # The innermost issue is where the value came closest to one of several types.
            first = max(issues, key=lambda issue: issue["path"].count("/"))
            detail = f"the request does not fit this route: {first['path']}: {first['message']}"
            return Problem(422, detail, issues=issues)
        case HTTPException():
            headers, detail = {**(error.headers or {})}, str(error.detail)
            if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
                headers["allow"] = ", ".join(_methods(request))
                detail = f"this route does not take this method; it takes {headers['allow']}"
            if error.status_code == HTTPStatus.NOT_FOUND:
                detail = "there is no such route; GET /v1/openapi.json has all"
            return Problem(error.status_code, detail, headers=headers)
        case _:
            # The log has the traceback; the client must not see internals.
            return Problem(500, "internal error; the request may or may not have had an effect")


def _methods(request: Request) -> list[str]:
    """Return the methods of all routes with the path of a request."""
    path = getattr(request.scope.get("route"), "path", None)
    routes = [route for route in request.app.router.routes if getattr(route, "path", None) == path]
    return sorted({method for route in routes for method in route.methods or ()})
