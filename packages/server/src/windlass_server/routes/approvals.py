"""Approvals: everything that waits for a person, over all sessions."""

from typing import Annotated

from fastapi import APIRouter, Path, Response

from windlass.catalog import OpenRequest
from windlass_protocol import InputResponse
from windlass_server import examples
from windlass_server.access import CallerDep
from windlass_server.docs import answers, body_example, reply, seen
from windlass_server.guard import PREFIX, Caller
from windlass_server.limits import PAGE_DEFAULT, PAGE_MAX
from windlass_server.models import Accepted, Answer, ApprovalPage, ApprovalView
from windlass_server.problems import not_found
from windlass_server.routes.catalog import After, Limit

router = APIRouter(prefix=PREFIX, tags=["approvals"])
RequestId = Annotated[str, Path(description="A request.", examples=["approval:019a8f…"])]


@router.get(
    "/approvals",
    response_model=ApprovalPage,
    responses=answers(200, {"requests": [examples.APPROVAL]}, 400),
    summary="What waits for you",
)
async def inbox(*, caller: CallerDep, after: After = None, limit: Limit = PAGE_DEFAULT) -> Response:
    """Return what your sessions wait to be told, the oldest first.

    What their subagents ask is among it.
    """
    page = await caller.tenant.runtime.sessions.requests(
        owner=caller.principal.user, after=after, limit=limit
    )
    requests = tuple(seen(ApprovalView, one) for one in page.items)
    return reply(ApprovalPage(requests=requests, next=page.next))


@router.post(
    "/approvals/{request_id:path}",
    status_code=202,
    response_model=Accepted,
    responses=answers(202, examples.ACCEPTED, 403, 404, 409, has_body=True),
    summary="Answer a request",
)
async def answer(
    *,
    caller: CallerDep,
    request_id: RequestId,
    given: Annotated[Answer, body_example(approve={"optionId": "approve"}, words={"text": "Only ten."})],
) -> Response:
    """Answer a request: with one of its options, with words, or with both.

    An approval holds for the one call with exactly the arguments that were shown. `argumentsHash` of the
    request may be sent along; then it is refused if the arguments are others.
    """
    found = await _find(caller, request_id)
    response = InputResponse(
        request_id=request_id,
        option_id=given.option_id,
        text=given.text,
        arguments_hash=given.arguments_hash,
        responder=caller.principal.user,
    )
    await caller.tenant.runtime.answer_session(found.session_id, [response])
    return reply(Accepted(session_id=found.session_id, run_id=found.run_id), 202)


async def _find(caller: Caller, request_id: str) -> OpenRequest:
    """Return an open request of the caller.

    Raises:
        Problem: there is none, or it is somebody else's; nobody can tell which.
    """
    after: str | None = None
    while True:
        page = await caller.tenant.runtime.sessions.requests(
            owner=caller.principal.user, after=after, limit=PAGE_MAX
        )
        for one in page.items:
            if one.request.request_id == request_id:
                return one
        after = page.next
        if after is None:
            raise not_found("request")
