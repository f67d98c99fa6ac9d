"""What the OpenAPI document says of a route: examples, and its problems."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, TypeVar

from fastapi import Body, Response
from pydantic import BaseModel, JsonValue

from windlass_server.problems import MEDIA_TYPE, Problem, ProblemBody

JSON: Final = "application/json"
T = TypeVar("T", bound=BaseModel)
Responses = dict[int | str, dict[str, Any]]
_PROBLEMS: Final[dict[int, str]] = {
    400: "the body cannot be read: expected one JSON value",
    401: "a valid key or token is needed: Authorization: Bearer …",
    403: "a policy does not allow it",
    404: "there is no such session",
    409: "run_id is already registered with this runtime, with another request; choose another id",
    410: "cursor_expired: the records of the session behind 12 are no longer kept",
    413: "the body is too large: the limit is 1,048,576 bytes",
    415: "a body is application/json",
    422: "the request does not fit this route",
    429: "too many requests: come back later",
    503: "the server is busy: come back later",
}
_ALWAYS: Final = (401, 429, 503)
_OF_BODIES: Final = (400, 413, 415, 422)


def answers(
    status: int, example: JsonValue, *problems: int, media_type: str = JSON, has_body: bool = False
) -> Responses:
    """Return the answers of a route: the good one with an example, and the problems."""
    good: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "content": {media_type: {"example": example}},
    }
    expected = sorted({*problems, *_ALWAYS, *(_OF_BODIES if has_body else (422,))})
    return {status: good, **{one: _problem(one) for one in expected}}


def _problem(status: int) -> dict[str, Any]:
    problem = Problem(status, _PROBLEMS[status])
    example: Mapping[str, JsonValue] = {
        "type": f"urn:windlass:problem:{problem.named_code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": problem.detail,
        "code": problem.named_code,
        "ids": {},
    }
    schema = {"$ref": f"#/components/schemas/{ProblemBody.__name__}"}
    return {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA_TYPE: {"schema": schema, "example": example}},
    }


def body_example(**examples: JsonValue) -> Any:
    """Return how a body is declared, with examples by name."""
    return Body(openapi_examples={name: {"value": value} for name, value in examples.items()})


def seen(model: type[T], found: object, **more: object) -> T:
    """Return what a client sees of something that the runtime knows."""
    shown = {name: getattr(found, name) for name in model.model_fields if hasattr(found, name)}
    return model.model_construct(None, **{**shown, **more})


def reply(value: BaseModel, status: int = 200) -> Response:
    """Return a value as an answer."""
    return Response(value.model_dump_json(by_alias=True, warnings=False), status, media_type=JSON)
