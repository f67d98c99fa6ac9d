"""The AI SDK: a chat with an agent for `useChat` and its kin."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from windlass_server import examples
from windlass_server.access import CallerDep
from windlass_server.chat.ai import HEADER, VERSION, AiRun, ai_frames
from windlass_server.chat.gate import WHOLE
from windlass_server.chat.sse import MEDIA_TYPE
from windlass_server.chat.words import ChatRequest, Given, answers_in, said_in
from windlass_server.docs import answers, body_example
from windlass_server.guard import PREFIX, Caller
from windlass_server.models import JsonObject, RunWishes
from windlass_server.problems import Problem
from windlass_server.routes.agui import AgentName
from windlass_server.threads import (
    ENDED,
    answer,
    begun_thread,
    check_agent,
    find_thread,
    is_last,
    past_of,
    rewind,
    speak,
    stream,
)

router = APIRouter(prefix=PREFIX, tags=["chat clients"])
ChatId = Annotated[str, Path(description="A chat, as the client calls it.", examples=["chat-1"])]


@router.post(
    "/ai/{agent:path}/chat",
    responses=answers(200, examples.AI, 403, 404, 409, media_type=MEDIA_TYPE, has_body=True),
    response_class=Response,
    summary="Chat over the AI SDK",
)
async def chat(
    *,
    request: Request,
    caller: CallerDep,
    agent: AgentName,
    given: Annotated[ChatRequest, body_example(message=examples.AI_MESSAGE, approval=examples.AI_APPROVAL)],
) -> Response:
    """Say something in a chat, or answer what it asks, and watch what happens.

    The history is the server's: only the last message counts. The same message again is the same run. An
    answer that is asked for anew, or words that were changed, go on in a copy of the session.
    """
    agent_id, last = check_agent(caller, agent), given.messages[-1]
    given_answers = answers_in(last)
    if given_answers and given.trigger == "submit-message":
        shown = await _answered(caller, given, given_answers, is_new_message=last.get("role") == "user")
    else:
        shown = await _said(caller, given, last, agent_id=agent_id)
    return await _stream(request, caller, shown)


async def _answered(
    caller: Caller, given: ChatRequest, entries: Sequence[Given], *, is_new_message: bool
) -> AiRun:
    thread = await begun_thread(caller, given.id)
    found = await answer(caller, thread, given=entries, needs_all=False)
    return AiRun(thread.session_id, found.run_id, found.view, is_new_message)


async def _said(caller: Caller, given: ChatRequest, last: JsonObject, *, agent_id: str) -> AiRun:
    name = last.get("id")
    message = said_in(last) if last.get("role") == "user" else None
    if message is None or not isinstance(name, str) or not name:
        raise Problem(422, "the last message is neither a user's, with an id and words, nor one with answers")
    thread = await find_thread(caller, given.id)
    run_id = thread.run_id(name)
    if given.trigger == "submit-message" and given.message_id is not None:
        # The same change again is the same run.
        is_anew = not await is_last(caller, thread, run_id=run_id, message=message, agent_id=agent_id)
    else:
        is_anew = await _is_anew(caller, given, run_id=run_id)
    if is_anew:
        thread = await rewind(caller, thread, name=name)
    run_id = thread.run_id(name)
    is_again = await caller.tenant.store.run(run_id) is not None
    await speak(caller, thread, run_id=run_id, message=message, agent_id=agent_id, wishes=RunWishes())
    view = (await past_of(caller, run_id)).whole() if is_again else WHOLE
    return AiRun(thread.session_id, run_id, view)


async def _is_anew(caller: Caller, given: ChatRequest, *, run_id: str) -> bool:
    """Whether an answer is wanted in the place of the one that is there."""
    if given.trigger == "submit-message":
        return False
    # The answer that is named was replaced before: this is the same request again.
    row = await caller.tenant.store.run(run_id)
    return row is None or given.message_id is None or given.message_id == row.run_id


@router.get(
    "/ai/{agent:path}/chat/{chat_id:path}/stream",
    responses={
        **answers(200, examples.AI, 404, media_type=MEDIA_TYPE),
        204: {"description": "Nothing is under way in this chat."},
    },
    response_class=Response,
    summary="Resume a chat over the AI SDK",
)
async def resume(*, request: Request, caller: CallerDep, agent: AgentName, chat_id: ChatId) -> Response:
    """Send the run under way in a chat from its beginning on; 204 without one."""
    check_agent(caller, agent)
    thread = await find_thread(caller, chat_id)
    page = await caller.tenant.runtime.sessions.runs(session_id=thread.session_id, limit=1)
    run_ids = [run.run_id for run in page.items if run.status not in ENDED]
    if thread.session is None or not run_ids:
        return Response(status_code=204)
    past = await past_of(caller, run_ids[0])
    return await _stream(request, caller, AiRun(thread.session_id, run_ids[0], past.whole()))


async def _stream(request: Request, caller: Caller, shown: AiRun) -> Response:
    response = await stream(request, caller, run_id=shown.run_id, frames=ai_frames(shown))
    response.headers[HEADER] = VERSION
    return response
