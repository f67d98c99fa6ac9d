"""Routes of approvals: requests to people over all sessions, and their answers."""

from typing import Annotated

from fastapi import APIRouter, Response

from windlass.catalog import SettledRequest
from windlass_protocol import (
    AcceptedRun,
    ApprovalInfo,
    ApprovalPage,
    ApprovalView,
    InputResponse,
    SettledApproval,
)
from windlass_server.generated.bodies import Answer
from windlass_server.openapi import ACCEPTED_EXAMPLE, APPROVAL_EXAMPLE, answers, body_example
from windlass_server.requests import (
    PREFIX,
    CallerDep,
    OwnRequest,
    PageDep,
    accepted,
    body_of,
    reply,
    sign_responses,
)
from windlass_server.routing import Route

router = APIRouter(prefix=PREFIX, tags=["approvals"], route_class=Route)


@router.get(
    "/approvals",
    response_model=ApprovalPage,
    responses=answers(200, {"requests": [APPROVAL_EXAMPLE]}),
)
async def inbox(caller: CallerDep, query: PageDep) -> Response:
    """Return the open requests of your sessions and their subagents, oldest first."""
    page = await caller.sessions.requests(after=query.after, limit=query.limit)
    requests = tuple(body_of(ApprovalInfo, approval) for approval in page.items)
    return reply(ApprovalPage(requests=requests, next=page.next))


@router.get(
    "/approvals/{request_id:path}",
    response_model=ApprovalView,
    responses=answers(200, {"open": APPROVAL_EXAMPLE}),
)
async def get(caller: CallerDep, request: OwnRequest) -> Response:
    """Return a request, open or closed: one that you may answer, or might have."""
    if isinstance(request, SettledRequest):
        return reply(ApprovalView(settled=body_of(SettledApproval, request)))
    return reply(ApprovalView(open=body_of(ApprovalInfo, request)))


@router.post(
    "/approvals/{request_id:path}",
    status_code=202,
    response_model=AcceptedRun,
    responses=answers(202, ACCEPTED_EXAMPLE),
)
async def answer(
    *,
    caller: CallerDep,
    request: OwnRequest,
    body: Annotated[Answer, body_example(approve={"optionId": "approve"}, words={"text": "Only ten."})],
) -> Response:
    """Answer a request: with one of its options, a text, or both."""
    response = InputResponse(
        request_id=request.request_id,
        option_id=body.option_id,
        text=body.text,
        arguments_hash=body.arguments_hash,
        arguments=body.arguments,
    )

    responses = await sign_responses(caller, [response])
    await caller.tenant.runtime.sessions.answer(request.session_id, responses, key=caller.id_for("answer"))
    return accepted(request.session_id, request.run_id)
