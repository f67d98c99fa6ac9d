"""Routes of webhooks: signed requests of other services, and deliveries to others that were not taken.

Signed requests start runs and answer requests. Their route is not part of the API for users: a signature
stands for credentials, and senders choose the body. `Guard` has checked the signature.
"""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as PlainRoute

from windlass.webhooks import PayloadRefused, SignedRequest
from windlass_protocol import Accepted, DeliveryInfo, DeliveryPage
from windlass_server.generated.queries import DeliveriesListQuery
from windlass_server.openapi import DELIVERY_EXAMPLE, answers
from windlass_server.problems import Problem
from windlass_server.requests import PREFIX, WEBHOOKS, Caller, CallerDep, OwnDelivery, reply
from windlass_server.routing import Route
from windlass_server.tenants import Tenants

router = APIRouter(prefix=PREFIX, tags=["deliveries"], route_class=Route)


@router.get(
    "/deliveries",
    response_model=DeliveryPage,
    responses=answers(200, {"deliveries": [DELIVERY_EXAMPLE]}),
)
async def list_deliveries(caller: CallerDep, query: Annotated[DeliveriesListQuery, Query()]) -> Response:
    """Return the deliveries of your sessions that were not taken; with `dead`, the dead letters alone."""
    listed = await caller.tenant.deliveries.list(
        owner=caller.principal.user, dead_only=query.dead, after=query.after, limit=query.limit
    )
    return reply(DeliveryPage(deliveries=listed.items, next=listed.next))


@router.get(
    "/deliveries/{delivery_id:path}",
    response_model=DeliveryInfo,
    responses=answers(200, DELIVERY_EXAMPLE),
)
async def get(delivery: OwnDelivery) -> Response:
    """Return a delivery that was not taken."""
    return reply(delivery)


@router.post(
    "/deliveries/{delivery_id:path}/retry",
    response_model=DeliveryInfo,
    responses=answers(200, DELIVERY_EXAMPLE),
)
async def retry(caller: CallerDep, delivery: OwnDelivery) -> Response:
    """Try a delivery again now; its attempts are counted from the beginning."""
    return reply(await caller.tenant.deliveries.retry(delivery.delivery_id))


@router.delete(
    "/deliveries/{delivery_id:path}",
    response_model=DeliveryInfo,
    responses=answers(200, DELIVERY_EXAMPLE),
)
async def delete(caller: CallerDep, delivery: OwnDelivery) -> Response:
    """Delete a delivery: it is tried no more."""
    await caller.tenant.deliveries.delete(delivery.delivery_id)
    return reply(delivery)


async def receive(request: Request) -> Response:
    """Start the run of a signed request; the same delivery again is the same run."""
    tenants: Tenants = request.app.state.tenants
    caller: Caller = request.state.caller
    delivery: SignedRequest = request.state.delivery
    try:
        taken = await tenants.webhooks.take(caller.tenant.runtime, delivery)
    except PayloadRefused as error:
        raise Problem(400, error.message, error.code) from None
    outbox = caller.tenant.outbox
    if outbox is not None and taken.session_id and taken.refused and taken.user:
        key = f"{delivery.delivery_id}:refused"
        await outbox.tell(delivery.entry, taken.session_id, taken.refused, user=taken.user, key=key)
    if taken.reply is not None:
        return Response(taken.reply, media_type="text/plain")
    webhook = tenants.webhooks.find(delivery.entry)
    if webhook is not None and webhook.channel is not None:
        return Response()  # Slack regards any status but 200 as a failure
    if taken.session_id is None:
        return Response(status_code=204)
    return reply(Accepted(session_id=taken.session_id, run_id=taken.run_id), 202)


route = PlainRoute(f"{WEBHOOKS}{{name}}", receive, methods=["POST"])
