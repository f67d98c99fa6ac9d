"""Sessions: beginning them, speaking in them."""

from hashlib import sha256
from typing import Annotated

from fastapi import APIRouter, Path, Response

from windlass_server.access import CallerDep, own_session
from windlass_server.docs import answers, body_example, reply
from windlass_server.guard import PREFIX
from windlass_server.models import Accepted, NewMessage, NewSession
from windlass_server.problems import Problem
from windlass_server.reservations import Reserved
from windlass_server.starting import IdempotencyKey, agent_for, run_id_for, session_id_for, start

router = APIRouter(prefix=PREFIX, tags=["sessions"])
SessionId = Annotated[str, Path(description="A session.", examples=["019a…"])]
ACCEPTED = {"sessionId": "019a8f…", "runId": "019a8f…"}


@router.post(
    "/sessions",
    status_code=202,
    response_model=Accepted,
    responses=answers(202, {**ACCEPTED}, 403, 409, has_body=True),
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
        ),
    ],
    key: IdempotencyKey = None,
) -> Response:
    """Begin a session, with its first message or without.

    The answer comes when it is durable; the run happens from then on. Watch it at `/sessions/{id}/events`.
    """
    agent_id = agent_for(caller, wanted.agent)
    session_id = session_id_for(caller, key)
    digest = sha256(wanted.model_dump_json(by_alias=True).encode()).hexdigest()
    machine = caller.tenant.runtime.ports.machine
    created_at = machine.clock.now().isoformat(timespec="milliseconds")
    await caller.tenant.reservations.reserve(
        Reserved(session_id, caller.principal.user, agent_id, created_at, digest)
    )
    if wanted.message is None:
        return reply(Accepted.model_validate({"sessionId": session_id}), 202)
    ids = (session_id, run_id_for(caller, session_id, key=key, is_first=True))
    handle = await start(caller, wanted.message, wishes=wanted, ids=ids, agent_id=agent_id)
    return reply(Accepted.model_validate({"sessionId": session_id, "runId": handle.run_id}), 202)


@router.post(
    "/sessions/{session_id:path}/messages",
    status_code=202,
    response_model=Accepted,
    responses=answers(202, {**ACCEPTED}, 403, 404, 409, has_body=True),
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

    A message begins a run, which waits for the one under way; `steer` speaks to that one instead.
    """
    session = await own_session(caller, session_id)
    if (given.message is None) == (given.responses is None):
        raise Problem(422, "give either message or responses")
    if given.responses is not None:
        responses = [one.model_copy(update={"responder": caller.principal.user}) for one in given.responses]
        await caller.tenant.runtime.answer_session(session_id, responses)
        return reply(Accepted.model_validate({"sessionId": session_id}), 202)
    assert given.message is not None, "one of the two was given"
    agent_id = agent_for(caller, given.agent, known=session.agent_id)
    run_id = run_id_for(caller, session_id, key=key)
    if given.delivery == "steer":
        message_id = await caller.tenant.runtime.steer(
            agent_id,
            given.message,
            session_id=session_id,
            message_id=run_id,
            source=caller.principal.source,
        )
        return reply(Accepted.model_validate({"sessionId": session_id, "messageId": message_id}), 202)
    handle = await start(caller, given.message, wishes=given, ids=(session_id, run_id), agent_id=agent_id)
    return reply(Accepted.model_validate({"sessionId": session_id, "runId": handle.run_id}), 202)


@router.post(
    "/sessions/{session_id:path}/compact",
    status_code=202,
    response_model=Accepted,
    responses=answers(202, {"sessionId": "019a8f…"}, 404, 409),
    summary="Shorten the history",
)
async def compact(caller: CallerDep, session_id: SessionId) -> Response:
    """Ask for a shorter history: now, or before the next model call of a run."""
    await own_session(caller, session_id)
    await caller.tenant.runtime.compact(session_id)
    return reply(Accepted.model_validate({"sessionId": session_id}), 202)
