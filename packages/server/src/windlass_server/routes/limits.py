"""Routes of limits for people and teams: list with what is left, set, remove."""

from typing import Annotated, Final

from fastapi import APIRouter, Path, Response
from pydantic import JsonValue

import windlass_protocol as wire
from windlass.errors import UnknownName
from windlass.parts import SpendLimit
from windlass_protocol import LimitInfo, LimitList
from windlass_server.generated.bodies import NewLimit
from windlass_server.openapi import answers, body_example
from windlass_server.problems import not_found
from windlass_server.requests import PREFIX, CallerDep, PageDep, page_of, reply
from windlass_server.routing import Route

router = APIRouter(prefix=PREFIX, tags=["limits"], route_class=Route)
_EXAMPLE: Final[dict[str, JsonValue]] = {
    "name": "people",
    "per": "month",
    "maxCostMicros": 5_000_000,
    "owner": "*",
    "timezone": "Europe/Berlin",
    "subject": "ann",
    "period": "2026-01",
    "endsAt": "2026-01-31T23:00:00.000Z",
    "costMicros": 1_200_000,
    "tokens": 410_000,
    "heldMicros": 0,
    "heldTokens": 0,
    "costMicrosLeft": 3_800_000,
}


@router.get(
    "/limits",
    response_model=LimitList,
    responses=answers(200, {"limits": [_EXAMPLE]}),
)
async def list_limits(caller: CallerDep, query: PageDep) -> Response:
    """Return the limits that your runs count for, with what is left of them now."""
    owner = None if caller.principal.is_operator else caller.principal.user
    infos = await caller.tenant.runtime.sessions.limits.infos(owner=owner)
    page = page_of(infos, query, name=lambda info: f"{info.name}\n{info.subject or ''}")
    return reply(LimitList(limits=page.items, next=page.next))


@router.post(
    "/limits",
    response_model=LimitInfo,
    responses=answers(200, _EXAMPLE),
)
async def put(
    *,
    caller: CallerDep,
    body: Annotated[
        NewLimit,
        body_example(
            each={"name": "people", "per": "month", "maxCostMicros": 5_000_000, "owner": "*"},
            all={"name": "house", "per": "day", "maxTokens": 50_000_000, "timezone": "Europe/Berlin"},
        ),
    ],
) -> Response:
    """Set a limit, or replace the one with this name; for operators only."""
    values = {name: getattr(body, name) for name in wire.NewLimit.model_fields}
    limit = SpendLimit(**{name: value for name, value in values.items() if value is not None})
    return reply(await caller.tenant.runtime.sessions.limits.set(limit))


@router.delete(
    "/limits/{limit_name}",
    response_model=LimitInfo,
    responses=answers(200, _EXAMPLE),
)
async def delete(
    caller: CallerDep, limit_name: Annotated[str, Path(description="A limit.", examples=["house"])]
) -> Response:
    """Remove a limit; for operators only. What was spent of it is kept to the end of its period."""
    try:
        return reply(await caller.tenant.runtime.sessions.limits.remove(limit_name))
    except UnknownName:
        raise not_found("limit") from None
