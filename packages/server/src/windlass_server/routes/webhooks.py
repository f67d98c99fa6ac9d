"""The route of webhooks: signed requests of other services, which start runs and answer requests.

It is no route of the API for users: a signature stands for credentials, and senders choose the body. `Guard`
has checked the signature.
"""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.webhooks import PayloadRefused, SignedRequest
from windlass_protocol import Accepted
from windlass_server.problems import Problem
from windlass_server.requests import WEBHOOKS, Caller, reply
from windlass_server.tenants import Tenants


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
        return Response()  # Slack takes another status for a failure
    if taken.session_id is None:
        return Response(status_code=204)
    return reply(Accepted(session_id=taken.session_id, run_id=taken.run_id), 202)


route = Route(f"{WEBHOOKS}{{name}}", receive, methods=["POST"])
