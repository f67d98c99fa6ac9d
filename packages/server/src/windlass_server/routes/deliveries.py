"""Routes of deliveries: notifications and messages of channels that were not taken, dead letters included."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from windlass_protocol import DeliveryInfo, DeliveryPage
from windlass_server.models import DeliveryQuery
from windlass_server.openapi import DELIVERY_EXAMPLE, answers
from windlass_server.requests import PREFIX, CallerDep, OwnDelivery, reply
from windlass_server.routing import Route

router = APIRouter(prefix=PREFIX, tags=["deliveries"], route_class=Route)


@router.get(
    "/deliveries",
    response_model=DeliveryPage,
    responses=answers(200, {"deliveries": [DELIVERY_EXAMPLE]}, 400),
    summary="Deliveries that were not taken",
)
async def list_deliveries(caller: CallerDep, query: Annotated[DeliveryQuery, Query()]) -> Response:
    """Return what is still to be delivered about your sessions, and with `dead` the dead letters alone."""
    found = await caller.tenant.deliveries.list(
        owner=caller.principal.user, dead_only=query.dead, after=query.after, limit=query.limit
    )
    return reply(DeliveryPage(deliveries=found.items, next=found.next))


@router.get(
    "/deliveries/{delivery_id:path}",
    response_model=DeliveryInfo,
    responses=answers(200, DELIVERY_EXAMPLE, 404),
    summary="A delivery",
)
async def get(delivery: OwnDelivery) -> Response:
    """Return a delivery that was not taken."""
    return reply(delivery)


@router.post(
    "/deliveries/{delivery_id:path}/retry",
    response_model=DeliveryInfo,
    responses=answers(200, DELIVERY_EXAMPLE, 404),
    summary="Retry a delivery",
)
async def retry(caller: CallerDep, delivery: OwnDelivery) -> Response:
    """Try a delivery again now, with all attempts before it."""
    return reply(await caller.tenant.deliveries.retry(delivery.delivery_id))


@router.delete(
    "/deliveries/{delivery_id:path}",
    response_model=DeliveryInfo,
    responses=answers(200, DELIVERY_EXAMPLE, 404),
    summary="Give a delivery up",
)
async def delete(caller: CallerDep, delivery: OwnDelivery) -> Response:
    """Delete a delivery: it is tried no more."""
    await caller.tenant.deliveries.delete(delivery.delivery_id)
    return reply(delivery)
