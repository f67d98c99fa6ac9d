"""The AI SDK: routes for `useChat`, and runs as UI message streams, version 1.

One run is one assistant message. When it waits for people the stream finishes; the request with the answers
continues the same message.
"""

from collections.abc import Iterable
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response

from windlass_harness.views import stream
from windlass_harness.views.payloads import as_text
from windlass_protocol import InputKind, InputOutcome, JsonObject, RunStatus, ToolOutputType, Usage
from windlass_protocol.frozen import sealed
from windlass_server.chat.agui import AgentName
from windlass_server.chat.run_events import WHOLE, RunFold, View, of_program
from windlass_server.chat.sessions import (
    ENDED,
    ChatFrames,
    ChatRequest,
    Shown,
    answer,
    answers_in,
    check_agent,
    find_thread,
    is_last,
    past_of,
    rewind,
    said_in,
    say,
    stream_run,
)
from windlass_server.openapi import AI_APPROVAL_EXAMPLE, AI_EXAMPLE, AI_MESSAGE_EXAMPLE, answers, body_example
from windlass_server.problems import Problem
from windlass_server.requests import PREFIX, Caller, CallerDep
from windlass_server.routing import Route
from windlass_server.streams import SSE_TYPE

HEADER: Final = "x-vercel-ai-ui-message-stream"
VERSION: Final = "v1"
_DONE: Final = b"data: [DONE]\n\n"


@sealed
class AiRun:
    """Which run is shown, and from where on."""

    session_id: str
    run_id: str
    view: View = WHOLE
    is_new_message: bool = True
    """Whether the client starts a message; otherwise it continues the one that it has."""


class AiFold(RunFold):
    """Events of a run in, chunks of a UI message stream out."""

    def __init__(self, run: AiRun) -> None:
        super().__init__(run.run_id, run.view)
        self._run = run
        self._is_in_step = False
        self._is_in_program = False
        """Whether the step is of calls that programs make."""
        self._calls: dict[str, stream.CallRequested | None] = {}
        """Calls so far, including those before this stream; None while their arguments are streamed."""
        self._shown: set[str] = set()
        """Calls in the message of the client."""
        self._approvals: set[str] = set()
        """Calls in the message of the client that need an approval."""

    def opening(self) -> list[JsonObject]:
        """Return the first chunks."""
        ids: JsonObject = {"sessionId": self._run.session_id, "runId": self._run.run_id}
        start: JsonObject = {"type": "start", "messageMetadata": ids}
        return [{**start, "messageId": self._run.run_id} if self._is_whole else start]

    @property
    def _is_whole(self) -> bool:
        """Whether the message is the whole run; then it has the id of the run."""
        return self._run.is_new_message and not self._run.view.skipped

    def _take(self, change: stream.Change) -> list[JsonObject]:
        was_closed = self._gate.is_closed
        is_pause = self._gate.is_pause(change)
        if isinstance(change, stream.RunWaiting) and not is_pause:
            return []
        if not was_closed or isinstance(change, stream.RunEnded):
            return list(self._chunks(change))
        match change:
            case stream.CallRequested():
                self._calls[change.key] = change
                if not self._run.is_new_message:
                    self._shown.add(change.key)
            case stream.RequestsOpened() if not self._run.is_new_message:
                self._approvals |= {ask.call_key for ask in change.asks if _is_approval(ask) and ask.call_key}
            case _:
                pass
        return []

    def _chunks(self, change: stream.Change) -> Iterable[JsonObject]:
        match change:
            case stream.TextDelta() | stream.TextEnded():
                return self._text(change)
            case stream.CallDelta() | stream.CallRequested():
                return self._call(change)
            case stream.CallProgress() | stream.CallSettled():
                return self._output(change)
            case stream.StepStarted() | stream.StepVoided():
                return self._step(change)
            case stream.RequestsOpened() | stream.RequestAnswered():
                return self._people(change)
            case stream.SubagentStarted() | stream.SubagentEnded():
                return (_subagent(change),)
            case stream.MessageReceived():
                return () if change.is_first else (_steering(change),)
            case stream.RunWaiting() | stream.RunEnded():
                return self._end(change)
            case _:
                return ()

    def _text_begun(self, kind: stream.TextKind, key: str) -> Iterable[JsonObject]:
        return ({"type": f"{kind}-start", "id": key},)

    def _text_more(self, change: stream.TextDelta) -> JsonObject:
        return {"type": f"{change.kind}-delta", "id": change.key, "delta": change.delta}

    def _text_ended(self, kind: stream.TextKind, key: str) -> Iterable[JsonObject]:
        return ({"type": f"{kind}-end", "id": key},)

    def _call(self, change: stream.CallDelta | stream.CallRequested) -> Iterable[JsonObject]:
        name: JsonObject = {"toolCallId": change.key, "toolName": change.name, "dynamic": True}
        self._shown.add(change.key)
        if isinstance(change, stream.CallRequested):
            self._calls[change.key] = change
            above = of_program(change, "providerMetadata")
            if above and not self._is_in_program:
                # Clients send answers once every call of a step has a result or an answer. The call of the
                # program has none, so the calls that it makes are a step of their own.
                yield from self._next_step()
                self._is_in_program = True
            yield {"type": "tool-input-available", **name, "input": change.arguments, **above}
            return
        if change.key not in self._calls:
            self._calls[change.key] = None
            yield {"type": "tool-input-start", **name}
        yield {"type": "tool-input-delta", "toolCallId": change.key, "inputTextDelta": change.delta}

    def _output(self, change: stream.CallProgress | stream.CallSettled) -> Iterable[JsonObject]:
        yield from self._announce(change.key)
        call: JsonObject = {"toolCallId": change.key}
        if isinstance(change, stream.CallProgress):
            yield {"type": "tool-output-available", **call, "output": change.output, "preliminary": True}
            return
        output = change.output
        match output.type:
            case ToolOutputType.EXECUTION_DENIED if change.key in self._approvals:
                yield {"type": "tool-output-denied", **call}
            case ToolOutputType.EXECUTION_DENIED:
                yield {"type": "tool-output-error", **call, "errorText": output.reason or "denied"}
            case ToolOutputType.ERROR_TEXT | ToolOutputType.ERROR_JSON:
                yield {"type": "tool-output-error", **call, "errorText": as_text(output.value)}
            case _:
                yield {"type": "tool-output-available", **call, "output": output.value}

    def _announce(self, key: str) -> Iterable[JsonObject]:
        """Send a call again that an earlier message asked for."""
        call = self._calls.get(key)
        if call is not None and key not in self._shown:
            yield from self._call(call)

    def _step(self, change: stream.StepStarted | stream.StepVoided) -> Iterable[JsonObject]:
        if isinstance(change, stream.StepVoided):
            self._texts.clear()
            self._calls = {
                key: call for key, call in self._calls.items() if call and call.step != change.step
            }
            yield {"type": "reset-step"}
            return
        yield from self._next_step()

    def _next_step(self) -> Iterable[JsonObject]:
        yield from self._step_end()
        self._is_in_step = True
        yield {"type": "start-step"}

    def _step_end(self) -> Iterable[JsonObject]:
        for key in tuple(self._texts):
            yield from self._text_end(key)
        self._is_in_program = False
        if self._is_in_step:
            self._is_in_step = False
            yield {"type": "finish-step"}

    def _people(self, change: stream.RequestsOpened | stream.RequestAnswered) -> Iterable[JsonObject]:
        if isinstance(change, stream.RequestsOpened):
            for ask in change.asks:
                yield from self._asked(ask)
            return
        ask, outcome = change.ask, change.resolution.outcome
        if _is_approval(ask) and ask.call_key in self._approvals:
            approved = outcome is InputOutcome.APPROVED
            yield {
                "type": "tool-approval-response",
                "approvalId": ask.request.request_id,
                "approved": approved,
            }
        elif not _is_approval(ask):
            yield _request(ask, outcome.value)

    def _asked(self, ask: stream.Ask) -> Iterable[JsonObject]:
        request = ask.request
        if not _is_approval(ask) or ask.call_key is None:
            yield _request(ask, None)
            return
        self._approvals.add(ask.call_key)
        yield from self._announce(ask.call_key)
        chunk: JsonObject = {"approvalId": request.request_id, "toolCallId": ask.call_key}
        if request.arguments_hash is not None:
            # The client returns it with the answer, which holds for these arguments only.
            chunk["signature"] = request.arguments_hash
        yield {"type": "tool-approval-request", **chunk, "reason": request.prompt}

    def _end(self, change: stream.RunWaiting | stream.RunEnded) -> Iterable[JsonObject]:
        yield from self._step_end()
        if isinstance(change, stream.RunWaiting):
            yield {"type": "finish", "finishReason": "tool-calls"}
        else:
            yield from self._outcome(change)
        self.is_over = True

    def _outcome(self, change: stream.RunEnded) -> Iterable[JsonObject]:
        used = _used(change.usage)
        match change.status:
            case RunStatus.COMPLETED:
                yield {"type": "finish", "finishReason": "stop", "messageMetadata": used}
            case RunStatus.CANCELLED:
                yield {"type": "abort", "reason": change.reason or "the run was cancelled"}
                yield {"type": "finish", "finishReason": "interrupted", "messageMetadata": used}
            case _:
                yield self._failed(change)

    def failure(self, code: str, message: str) -> JsonObject:
        """Return the chunk of an error; its text begins with the code."""
        return {"type": "error", "errorText": f"{code}: {message}"}


def ai_frames(run: AiRun) -> ChatFrames:
    """Return the frames of a UI message stream."""
    return ChatFrames(AiFold(run), "the server shuts down; the run continues: resume the stream", _DONE)


def _is_approval(ask: stream.Ask) -> bool:
    """Whether it is the approval of a call in the message; those of subagents are not."""
    return ask.request.kind is InputKind.APPROVAL and ask.subagent is None


def _request(ask: stream.Ask, outcome: str | None) -> JsonObject:
    """Return a request without a chunk type of its own as data; later with its outcome."""
    data: JsonObject = ask.request.model_dump(mode="json", by_alias=True, exclude_none=True)
    data |= {} if ask.call_key is None else {"toolCallId": ask.call_key}
    data |= {} if outcome is None else {"outcome": outcome}
    return {"type": "data-request", "id": ask.request.request_id, "data": data}


def _subagent(change: stream.SubagentStarted | stream.SubagentEnded) -> JsonObject:
    status = "running"
    if isinstance(change, stream.SubagentEnded):
        status = "completed" if change.error is None else "failed"
    return {"type": "data-subagent", "id": change.key, "data": {"name": change.name, "status": status}}


def _steering(change: stream.MessageReceived) -> JsonObject:
    return {"type": "steering-message", "id": change.key, "parts": [{"type": "text", "text": change.text}]}


def _used(usage: Usage) -> JsonObject:
    counts: JsonObject = usage.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"usage": counts}


router = APIRouter(prefix=PREFIX, tags=["chat clients"], route_class=Route)
ChatId = Annotated[str, Path(description="The id of a chat, chosen by the client.", examples=["chat-1"])]


@router.post(
    "/ai/{agent:path}/chat",
    responses=answers(200, AI_EXAMPLE, 403, 404, 409, media_type=SSE_TYPE, has_body=True),
    response_class=Response,
    summary="Chat over the AI SDK",
)
async def chat(
    *,
    request: Request,
    caller: CallerDep,
    agent: AgentName,
    given: Annotated[ChatRequest, body_example(message=AI_MESSAGE_EXAMPLE, approval=AI_APPROVAL_EXAMPLE)],
) -> Response:
    """Send a message to a chat, or answer its requests, and follow the run.

    The server has the history: only the last message is used. A repeated message is the same run. A
    regenerated answer or an edited message continues in a copy of the session.
    """
    agent_id, last = check_agent(caller, agent), given.messages[-1]
    given_answers = answers_in(last)
    if given_answers and given.trigger == "submit-message":
        shown = await answer(caller, given.id, given=given_answers, needs_all=False)
        return await _respond(request, caller, shown, is_new_message=last.get("role") == "user")
    return await _respond(request, caller, await _said(caller, given, last, agent_id=agent_id))


async def _said(caller: Caller, given: ChatRequest, last: JsonObject, *, agent_id: str) -> Shown:
    name = last.get("id")
    message = said_in(last) if last.get("role") == "user" else None
    if message is None or not isinstance(name, str) or not name:
        raise Problem(
            422, "the last message must be a user message with an id and content, or contain answers"
        )
    thread = await find_thread(caller, given.id)
    run_id = thread.run_id(name)
    if given.trigger == "submit-message" and given.message_id is not None:
        # A repeated edit is the same run.
        is_anew = not await is_last(caller, thread, run_id=run_id, message=message, agent_id=agent_id)
    else:
        is_anew = await _is_anew(caller, given, run_id=run_id)
    if is_anew:
        thread = await rewind(caller, thread, name=name)
    shown = await say(caller, thread, name, message=message, agent_id=agent_id)
    assert shown is not None, "there is a message"
    return shown


async def _is_anew(caller: Caller, given: ChatRequest, *, run_id: str) -> bool:
    """Whether the answer is to be regenerated."""
    if given.trigger == "submit-message":
        return False
    # If the named answer was replaced before, this request is a repetition.
    row = await caller.tenant.store.run(run_id)
    return row is None or given.message_id is None or given.message_id == row.run_id


@router.get(
    "/ai/{agent:path}/chat/{chat_id:path}/stream",
    responses={
        **answers(200, AI_EXAMPLE, 404, media_type=SSE_TYPE),
        204: {"description": "The chat has no current run."},
    },
    response_class=Response,
    summary="Resume a chat over the AI SDK",
)
async def resume(*, request: Request, caller: CallerDep, agent: AgentName, chat_id: ChatId) -> Response:
    """Send the current run of a chat from its beginning; 204 without one."""
    check_agent(caller, agent)
    thread = await find_thread(caller, chat_id)
    page = await caller.sessions.runs(session_id=thread.session_id, limit=1)
    run_ids = [run.run_id for run in page.items if run.status not in ENDED]
    if thread.session is None or not run_ids:
        return Response(status_code=204)
    past = await past_of(caller, run_ids[0])
    shown = Shown(thread.session_id, run_ids[0], past.whole(), is_again=True)
    return await _respond(request, caller, shown)


async def _respond(
    request: Request, caller: Caller, shown: Shown, *, is_new_message: bool = True
) -> Response:
    frames = ai_frames(AiRun(shown.session_id, shown.run_id, shown.view, is_new_message))
    response = await stream_run(request, caller, run_id=shown.run_id, frames=frames)
    response.headers[HEADER] = VERSION
    return response
