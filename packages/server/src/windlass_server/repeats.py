"""Repeats: a request that is sent again with its Idempotency-Key has no further effect.

`spec/operations.json` says of each operation what a repeated request does:

- harmless: it has no further effect by itself.
- keyed: the answer is kept with the key, durably, for all servers of the store, and given again.
- derived: the ids of what it makes follow from the key, so it is carried out again and makes the same.
- refused: nothing is known of the first request, so clients do not repeat it.

A request may be carried out twice although it has a key: its server was killed before the answer was kept,
or two servers got it at once. So a keyed operation, too, takes the ids of what it makes, and the time that it
acts by, from `caller.key`.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Final

from pydantic import BaseModel
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from windlass import AgentError
from windlass_protocol import JsonObject, JsonValue
from windlass_protocol.codec import canonical
from windlass_server.models import ServerOperation
from windlass_server.problems import Problem, of_agent_error
from windlass_server.requests import KEY_TAKEN, Caller, RequestKey, conflict_error, derive_id
from windlass_server.reservations import KeyClaim
from windlass_server.settings import ANSWER_KEPT_BYTES_MAX, KEY_CHARS_MAX

HEADER: Final = "idempotency-key"
_KEY: Final = re.compile(r"[!-~]+")
KEY_PARAMETER: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": KEY_CHARS_MAX, "pattern": f"^{_KEY.pattern}$"},
    "description": "Makes a repeated request the same work; with another body, query or declared header 409.",
}
"""The header in the OpenAPI document."""
_FAILED: Final = 500
"""From this status on, the request may have had an effect."""
_NOT_KEPT: Final = frozenset({"content-length"})
"""Headers of an answer that follow from its body."""


def read_key(request: Request) -> str | None:
    """Return the Idempotency-Key of a request.

    Raises:
        Problem: it cannot be one.
    """
    key = request.headers.get(HEADER)
    if key is not None and (len(key) > KEY_CHARS_MAX or not _KEY.fullmatch(key)):
        raise Problem(422, f"Idempotency-Key: expected 1 to {KEY_CHARS_MAX} ASCII characters without spaces")
    return key


async def answer_once(
    request: Request,
    operation: ServerOperation,
    *,
    key: str,
    body: BaseModel | None,
    headers: Mapping[str, str],
    perform: Callable[[], Awaitable[Response]],
) -> Response:
    """Answer a request with a key: carry it out, or return the answer that was kept.

    `headers` are those that the operation declares.

    Raises:
        Conflict: the key was used with another request.
    """
    caller: Caller = request.state.caller
    reservations = caller.tenant.reservations
    address = f"{request.method} {request.url.path}"
    name = derive_id("key", caller.principal.key, address, key)
    async with reservations.lock(name):
        claim = await reservations.claim(name, _digest(request, body, headers))
        if claim is None:
            raise conflict_error(KEY_TAKEN)
        if claim.answer is not None:
            return _kept_response(claim.answer)
        request.state.caller = caller.with_key(RequestKey(name, claim.at, claim.is_new))
        try:
            response = await perform()
        except (Problem, AgentError) as error:
            await _free(caller, claim, error)
            raise
        if operation.repeat == "keyed":
            answer = _answer_of(response)
            # A body is up to twice as long in the document that it is kept in.
            if len(to_json(answer)) <= ANSWER_KEPT_BYTES_MAX:
                await reservations.keep(claim, answer)
        return response


def _digest(request: Request, body: BaseModel | None, headers: Mapping[str, str]) -> str:
    """Return what a key is bound to; bodies are compared by value."""
    value: JsonValue = {} if body is None else body.model_dump(mode="json", by_alias=True)
    query = request.scope["query_string"].decode("latin-1")
    parts: JsonObject = {"query": query, "body": value}
    if headers:  # Without them it is the same as in releases that left them out.
        parts["headers"] = dict(headers)
    return sha256(canonical(parts)).hexdigest()


async def _free(caller: Caller, claim: KeyClaim, error: Problem | AgentError) -> None:
    """Free the key of a request that was refused."""
    problem = error if isinstance(error, Problem) else of_agent_error(error)
    if claim.is_new and problem.status < _FAILED:
        await caller.tenant.reservations.unclaim(claim)


def _answer_of(response: Response) -> JsonObject:
    headers: JsonObject = {name: value for name, value in response.headers.items() if name not in _NOT_KEPT}
    return {"status": response.status_code, "headers": headers, "body": bytes(response.body).decode()}


def _kept_response(answer: JsonObject) -> Response:
    headers = answer["headers"]
    assert isinstance(headers, Mapping), "it was kept here"
    return Response(
        str(answer["body"]), int(str(answer["status"])), {name: str(value) for name, value in headers.items()}
    )
