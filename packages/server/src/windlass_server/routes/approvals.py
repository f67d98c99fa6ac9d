"""Approvals: everything that waits for a person, over all sessions."""

import re
from typing import Annotated, Final

from fastapi import APIRouter, Path, Response

from windlass.catalog import OpenRequest
from windlass_protocol import InputResolvedData, InputResponse, Record
from windlass_server import examples
from windlass_server.access import CallerDep
from windlass_server.docs import answers, body_example, reply, seen
from windlass_server.guard import PREFIX, Caller
from windlass_server.limits import PAGE_DEFAULT, PAGE_MAX
from windlass_server.models import Accepted, Answer, ApprovalPage, ApprovalView
from windlass_server.problems import Problem, not_found
from windlass_server.repeats import once
from windlass_server.routes.catalog import After, Limit
from windlass_server.starting import IdempotencyKey

router = APIRouter(prefix=PREFIX, tags=["approvals"])
_REQUEST: Final = re.compile(r"[a-z]+:(?P<run>[^\x00-\x1f\x7f\ud800-\udfff]{1,512}):\d+:[^:]+:\d+")
"""How a request is called: by its kind, its run, its step and its call."""
_RECORDS_PER_READ: Final = 500
RequestId = Annotated[str, Path(description="A request.", examples=["approval:019a8f…"])]


@router.get(
    "/approvals",
    response_model=ApprovalPage,
    responses=answers(200, {"requests": [examples.APPROVAL]}, 400),
    summary="What waits for you",
)
async def inbox(*, caller: CallerDep, after: After = None, limit: Limit = PAGE_DEFAULT) -> Response:
    """Return what your sessions wait to be told, the oldest first.

    What their subagents ask is among it. Approvers get what all sessions of the tenant wait for.
    """
    page = await caller.tenant.runtime.sessions.requests(owner=_whose(caller), after=after, limit=limit)
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
    key: IdempotencyKey = None,
) -> Response:
    """Answer a request: with one of its options, with words, or with both.

    An approval holds for the one call with exactly the arguments that were shown. `argumentsHash` of the
    request may be sent along; then it is refused if the arguments are others. A request that was answered
    is a conflict, which says what was answered.
    """
    route = f"approvals/{request_id}"
    async with once(caller, key, route=route, body=given, keeps_end=True) as is_done:
        return await _answer(caller, request_id, given=given, is_done=is_done)


async def _answer(caller: Caller, request_id: str, *, given: Answer, is_done: bool) -> Response:
    found = await _find(caller, request_id)
    if found is None:
        problem = await _settled(caller, request_id)
        if is_done and problem.ids:
            # The same request again, which was taken before.
            return reply(Accepted(session_id=problem.ids["sessionId"], run_id=problem.ids["runId"]), 202)
        raise problem
    accepted = Accepted(session_id=found.session_id, run_id=found.run_id)
    if is_done:
        return reply(accepted, 202)
    response = InputResponse(
        request_id=request_id,
        option_id=given.option_id,
        text=given.text,
        arguments_hash=given.arguments_hash,
        responder=caller.principal.user,
    )
    await caller.tenant.runtime.answer_session(found.session_id, [response])
    return reply(accepted, 202)


def _whose(caller: Caller) -> str | None:
    """Whose requests a caller may see and answer; None for everybody's in the tenant."""
    return None if "approver" in caller.principal.roles else caller.principal.user


async def _find(caller: Caller, request_id: str) -> OpenRequest | None:
    """Return an open request that the caller may answer; None if there is none."""
    after: str | None = None
    while True:
        page = await caller.tenant.runtime.sessions.requests(
            owner=_whose(caller), after=after, limit=PAGE_MAX
        )
        for one in page.items:
            if one.request.request_id == request_id:
                return one
        after = page.next
        if after is None:
            return None


async def _settled(caller: Caller, request_id: str) -> Problem:
    """Return the answer for a request that is not open.

    What was answered is told to those who might have answered, and to nobody else that there was one.
    """
    named = _REQUEST.fullmatch(request_id)
    run = None if named is None else await caller.tenant.store.run(named["run"])
    session = None if run is None else await caller.tenant.store.listed_session(run.session_id)
    if run is None or session is None or _whose(caller) not in (None, session.owner):
        return not_found("request")
    sessions, after = caller.tenant.runtime.sessions, max(run.first_seq - 1, 0)
    while records := await sessions.records(run.session_id, after=after, limit=_RECORDS_PER_READ):
        after = records[-1].seq
        for record in records:
            told = _resolution(record, request_id)
            if told is not None:
                ids = {"sessionId": run.session_id, "runId": run.run_id, "requestId": request_id}
                return Problem(409, told, ids=ids)
    return not_found("request")


def _resolution(record: Record, request_id: str) -> str | None:
    """What became of a request, in words; None if a record does not say."""
    if record.type != "input.resolved":
        return None
    found = InputResolvedData.model_validate(record.data).resolutions
    one = next((one for one in found if one.request_id == request_id), None)
    if one is None:
        return None
    who = "" if one.response is None or one.response.responder is None else f" by {one.response.responder}"
    chosen = "" if one.response is None or one.response.option_id is None else f" ({one.response.option_id})"
    return f"the request is not open any more: {one.outcome.value}{chosen}{who}, at {record.at}"
