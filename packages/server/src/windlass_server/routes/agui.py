"""AG-UI: a run of an agent for clients such as `HttpAgent` and CopilotKit."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from windlass import AgentError
from windlass_server import examples
from windlass_server.access import CallerDep
from windlass_server.chat.agui import AguiRun, agui_frames, refused
from windlass_server.chat.gate import WHOLE, View
from windlass_server.chat.sse import MEDIA_TYPE
from windlass_server.chat.words import RunAgentInput, given_in, words_of
from windlass_server.docs import answers, body_example
from windlass_server.guard import PREFIX, Caller
from windlass_server.models import RunWishes
from windlass_server.problems import Problem, of_agent_error
from windlass_server.threads import (
    answer,
    begun_thread,
    check_agent,
    find_thread,
    past_of,
    speak,
    stream,
)

router = APIRouter(prefix=PREFIX, tags=["chat clients"])
AgentName = Annotated[str, Path(description="An agent.", examples=["clerk"])]


@router.post(
    "/agui/{agent:path}",
    responses=answers(200, examples.AGUI, 404, media_type=MEDIA_TYPE, has_body=True),
    response_class=Response,
    summary="Run an agent over AG-UI",
)
async def run(
    *,
    request: Request,
    caller: CallerDep,
    agent: AgentName,
    given: Annotated[RunAgentInput, body_example(message=examples.AGUI_MESSAGE, resume=examples.AGUI_RESUME)],
) -> Response:
    """Say something in a thread, or answer its interrupts, and watch what happens.

    The history is the server's: of `messages` only the last counts, if it is a user's. The same `runId` again
    is the same run, followed from its beginning. A run that asks something ends with an interrupt; the next
    one answers all of them in `resume`. What is refused is a `RUN_ERROR` with a stable code.
    """
    agent_id = check_agent(caller, agent)
    plain = AguiRun(given.thread_id, given.run_id, "", "")
    try:
        shown = await (_resumed(caller, given) if given.resume else _begun(caller, given, agent_id=agent_id))
        return await stream(request, caller, run_id=shown.own_run_id, frames=agui_frames(shown))
    except AgentError as error:
        return Response(refused(plain, of_agent_error(error)), media_type=MEDIA_TYPE)


async def _begun(caller: Caller, given: RunAgentInput, *, agent_id: str) -> AguiRun:
    """Begin a run, or find the one that the client began before."""
    thread = await find_thread(caller, given.thread_id)
    run_id = thread.run_id(given.run_id)
    is_again = await caller.tenant.store.run(run_id) is not None
    # A client that comes back has a piece of the answer behind the words that it asks about.
    message = words_of(given.messages[-1]) if given.messages else None
    if message is not None:
        context = tuple(f"{one.description}: {one.value}" for one in given.context) or None
        wishes = RunWishes(context=context)
        await speak(caller, thread, run_id=run_id, message=message, agent_id=agent_id, wishes=wishes)
    elif not is_again:
        raise Problem(422, "the last message is not a user's, there is nothing to resume, and no such run")
    view = (await past_of(caller, run_id)).whole() if is_again else WHOLE
    return _shown(given, (thread.session_id, run_id), view=view, is_again=is_again)


async def _resumed(caller: Caller, given: RunAgentInput) -> AguiRun:
    """Answer what a run asks, and go on with it behind the answers."""
    thread = await begun_thread(caller, given.thread_id)
    entries = tuple(map(given_in, given.resume or ()))
    found = await answer(caller, thread, given=entries, needs_all=True)
    return _shown(given, (thread.session_id, found.run_id), view=found.view, is_again=found.is_again)


def _shown(given: RunAgentInput, ids: tuple[str, str], *, view: View, is_again: bool) -> AguiRun:
    return AguiRun(
        given.thread_id,
        given.run_id,
        *ids,
        view=view,
        is_again=is_again,
        messages=given.messages,
        state=given.state if isinstance(given.state, dict) else {},
        knows_cancelled=given.protocol_version is not None,
    )
