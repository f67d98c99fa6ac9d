"""Sessions: beginning them, speaking in them, shortening and stopping them."""

from hashlib import sha256
from typing import Annotated, Final

from fastapi import APIRouter, Path, Response

from windlass_protocol import RunStatus, UserContent
from windlass_server import examples
from windlass_server.access import CallerDep, OwnSession, own_history, own_session
from windlass_server.docs import answers, body_example, reply
from windlass_server.guard import PREFIX, Caller
from windlass_server.limits import PAGE_MAX
from windlass_server.models import Accepted, Cancel, NewMessage, NewSession
from windlass_server.problems import Problem
from windlass_server.repeats import once
from windlass_server.reservations import Reserved
from windlass_server.starting import (
    KEY_TAKEN,
    IdempotencyKey,
    agent_for,
    check_token,
    first_run_id,
    run_id_for,
    session_id_for,
    start,
    taken,
    token_behind,
    token_of,
)

router = APIRouter(prefix=PREFIX, tags=["sessions"])
SessionId = Annotated[str, Path(description="A session.", examples=["019a8f…"])]
UNDER_WAY: Final = frozenset({RunStatus.RUNNING, RunStatus.WAITING, RunStatus.CANCELLING})


@router.post(
    "/sessions",
    status_code=202,
    response_model=Accepted,
    responses=answers(202, examples.ACCEPTED, 403, 409, has_body=True),
    summary="Begin a session",
)
async def create(
    *,
    caller: CallerDep,
    wanted: Annotated[
        NewSession,
        body_example(
            message={"agent": "clerk", "message": "Pay the hotel."},
            empty={"agent": "clerk"},
            typed={"message": "Which city?", "outputSchema": {"type": "string"}, "mode": "task"},
            file={
                "message": [
                    {"type": "text", "text": "What is on it?"},
                    {
                        "type": "image",
                        "image": "data:image/png;base64,iVBORw0KGgo=",
                        "mediaType": "image/png",
                    },
                ]
            },
        ),
    ],
    key: IdempotencyKey = None,
) -> Response:
    """Begin a session, with its first message or without.

    The answer comes when it is durable; the run happens from then on. Watch it at `/sessions/{id}/events`.
    """
    async with once(caller, key, route="sessions", body=wanted):
        return await _create(caller, wanted, key=key)


async def _create(caller: Caller, wanted: NewSession, *, key: str | None) -> Response:
    agent_id = agent_for(caller, wanted.agent)
    session_id = session_id_for(caller, key)
    run_id = first_run_id(session_id)
    store = caller.tenant.store
    if key is not None and await store.listed_session(session_id) is not None:
        # With the key of a session that has a history, only the request that began it may come again.
        has_first = await store.run(run_id) is not None
        if has_first != (wanted.message is not None):
            raise taken(KEY_TAKEN)
        if wanted.message is None:
            # It was begun without a word, and has gone on since: there is nothing to keep any more.
            return _empty(session_id)
    if wanted.message is None:
        return await _reserve(caller, wanted, session_id=session_id, agent_id=agent_id)
    if key is not None and await caller.tenant.reservations.find(session_id) is not None:
        raise taken(KEY_TAKEN)
    ids = (session_id, run_id)
    await start(caller, wanted.message, wishes=wanted, ids=ids, agent_id=agent_id)
    return _accepted(session_id, run_id)


async def _reserve(caller: Caller, wanted: NewSession, *, session_id: str, agent_id: str) -> Response:
    digest = sha256(wanted.model_dump_json(by_alias=True).encode()).hexdigest()
    now = caller.tenant.runtime.ports.machine.clock.now()
    at = f"{now.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
    reserved = Reserved(session_id, caller.principal.user, agent_id, at, digest)
    await caller.tenant.reservations.reserve(reserved)
    return _empty(session_id)


def _empty(session_id: str) -> Response:
    return reply(Accepted(session_id=session_id, continuation_token=token_behind(session_id, "")), 202)


@router.post(
    "/sessions/{session_id:path}/messages",
    status_code=202,
    response_model=Accepted,
    responses=answers(202, examples.ACCEPTED, 403, 404, 409, has_body=True),
    summary="Say something, or answer",
)
async def say(
    *,
    caller: CallerDep,
    session_id: SessionId,
    given: Annotated[
        NewMessage,
        body_example(
            message={"message": "And the train?"},
            steer={"message": "Take the cheaper one.", "delivery": "steer"},
            answers={"responses": [{"requestId": "approval:019a8f…", "optionId": "approve"}]},
        ),
    ],
    key: IdempotencyKey = None,
) -> Response:
    """Say something in a session, or answer what it asks.

    A message begins a run, which waits for the one under way; `steer` speaks to that one instead. With a
    `continuationToken` it is refused if the session has gone on since.
    """
    session = await own_session(caller, session_id)
    if (given.message is None) == (given.responses is None):
        raise Problem(422, "give either message or responses")
    route, is_answer = f"sessions/{session_id}/messages", given.responses is not None
    async with once(caller, key, route=route, body=given, keeps_end=is_answer) as is_done:
        if given.responses is not None:
            return await _answer(caller, session_id, given=given, is_done=is_done)
        return await _say(caller, session, given=given, key=key)


async def _say(caller: Caller, session: OwnSession, *, given: NewMessage, key: str | None) -> Response:
    session_id, token = session.session_id, given.continuation_token
    run_id = run_id_for(caller, session_id, key=key, token=token)
    await check_token(caller, session_id, token=token, run_id=run_id)
    assert given.message is not None, "one of the two was given"
    if given.delivery == "steer":
        return await _steer(caller, session, message=given.message, agent=given.agent, message_id=run_id)
    agent_id = agent_for(caller, given.agent, known=session.agent_id)
    await start(caller, given.message, wishes=given, ids=(session_id, run_id), agent_id=agent_id)
    await _begun(caller, session)
    return _accepted(session_id, run_id)


async def _answer(caller: Caller, session_id: str, *, given: NewMessage, is_done: bool) -> Response:
    if not is_done:
        token = given.continuation_token
        run_id = run_id_for(caller, session_id, key=None, token=token)
        await check_token(caller, session_id, token=token, run_id=run_id)
        # Who answers is who asks, whatever the body says.
        by = {"responder": caller.principal.user}
        signed = [one.model_copy(update=by) for one in given.responses or ()]
        await caller.tenant.runtime.answer_session(session_id, signed)
    return reply(Accepted(session_id=session_id, continuation_token=await token_of(caller, session_id)), 202)


async def _steer(
    caller: Caller, session: OwnSession, *, message: UserContent, agent: str | None, message_id: str
) -> Response:
    await caller.tenant.runtime.steer(
        agent_for(caller, agent, known=session.agent_id),
        message,
        session_id=session.session_id,
        message_id=message_id,
        source=caller.principal.source,
        owner=caller.principal.user,
    )
    await _begun(caller, session)
    return reply(Accepted(session_id=session.session_id, message_id=message_id), 202)


async def _begun(caller: Caller, session: OwnSession) -> None:
    """A session that something was said in is kept by the runtime."""
    if session.reserved is not None and await caller.tenant.store.listed_session(session.session_id):
        await caller.tenant.reservations.release(session.session_id)


def _accepted(session_id: str, run_id: str) -> Response:
    token = token_behind(session_id, run_id)
    return reply(Accepted(session_id=session_id, run_id=run_id, continuation_token=token), 202)


@router.post(
    "/sessions/{session_id:path}/compact",
    status_code=202,
    response_model=Accepted,
    responses=answers(202, {"sessionId": "019a8f…"}, 404, 409),
    summary="Shorten the history",
)
async def compact(caller: CallerDep, session_id: SessionId) -> Response:
    """Ask for a shorter history: now, or before the next model call of a run."""
    await own_history(caller, session_id)
    await caller.tenant.runtime.compact(session_id)
    return reply(Accepted(session_id=session_id), 202)


@router.post(
    "/sessions/{session_id:path}/cancel",
    status_code=202,
    response_model=Accepted,
    responses=answers(202, examples.ACCEPTED, 404, has_body=True),
    summary="End what a session does",
)
async def cancel(
    *,
    caller: CallerDep,
    session_id: SessionId,
    given: Annotated[Cancel | None, body_example(reason={"reason": "It takes too long."})] = None,
) -> Response:
    """Ask the run under way to end; those that wait for their turn come next.

    The answer names the run; without one nothing was under way.
    """
    await own_session(caller, session_id)
    runtime = caller.tenant.runtime
    runs = (await runtime.sessions.runs(session_id=session_id, limit=PAGE_MAX)).items
    under_way = [run.run_id for run in runs if run.status in UNDER_WAY]
    reason = None if given is None else given.reason
    for run_id in under_way[-1:]:
        await runtime.cancel_run(run_id, by=caller.principal.user, reason=reason)
        return reply(Accepted(session_id=session_id, run_id=run_id), 202)
    return reply(Accepted(session_id=session_id), 202)
