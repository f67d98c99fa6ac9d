"""The AI SDK: routes for `useChat`, runs as UI message streams, version 1, and chats as UI messages.

One run is one assistant message. When it waits for people the stream finishes; the request with the answers
continues the same message. Streams consist of chunks that both `ai` 6 and 7 read: a request does not tell
the version, and a client ends a stream with an error at the first chunk that it does not know.
"""

from collections.abc import Iterable
from dataclasses import field
from sys import maxsize
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Path, Request, Response
from pydantic import JsonValue
from pydantic_core import to_json

from windlass import Event
from windlass.catalog.reading import pages_of
from windlass_harness.record import Record, body_of
from windlass_harness.views import stream
from windlass_harness.views.payloads import as_text
from windlass_harness.views.runs import run_id_of
from windlass_protocol import (
    InputKind,
    InputOutcome,
    JsonObject,
    RunStatus,
    TextPart,
    ToolOutputType,
    Usage,
    UserPart,
)
from windlass_protocol.frozen import mutable, sealed
from windlass_protocol.generated import records
from windlass_server.chat.agui import AgentName
from windlass_server.chat.run_events import WHOLE, ChatRunFold, View
from windlass_server.chat.sessions import (
    ENDED,
    USER_MESSAGE_SUFFIX,
    ChatFrames,
    ChatRequest,
    ChatRun,
    ai_content,
    answer,
    answers_in,
    check_agent,
    find_thread,
    is_last,
    past_of,
    rewind,
    say,
    stream_run,
)
from windlass_server.openapi import (
    AI_APPROVAL_EXAMPLE,
    AI_EXAMPLE,
    AI_HISTORY_EXAMPLE,
    AI_MESSAGE_EXAMPLE,
    answers,
    body_example,
)
from windlass_server.problems import Problem
from windlass_server.requests import PREFIX, Caller, CallerDep
from windlass_server.routing import Route
from windlass_server.settings import THREAD_MESSAGES_MAX
from windlass_server.streams import SSE_TYPE

HEADER: Final = "x-vercel-ai-ui-message-stream"
VERSION: Final = "v1"
_DONE: Final = b"data: [DONE]\n\n"
_REPEATED: Final = "the model call was repeated"


@sealed
class AiRun:
    """The run that a stream shows, and from where on."""

    session_id: str
    run_id: str
    view: View = WHOLE
    is_new_message: bool = True
    """Whether the client starts a message; otherwise it continues the one that it has."""


class AiFold(ChatRunFold):
    """Events of a run in, chunks of a UI message stream out: `take` for clients, `chunks` for `AiHistory`."""

    def __init__(self, run: AiRun) -> None:
        super().__init__(run.run_id, run.view)
        self._run = run
        self._is_in_step = False
        self._is_in_program = False
        """Whether the step is of calls that programs make."""
        self._calls: dict[str, stream.CallRequested | None] = {}
        """Calls so far, including those before this stream; None while their arguments are streamed."""
        self._visible_calls: set[str] = set()
        """Calls in the message of the client."""
        self._approvals: dict[str, str] = {}
        """The approvals of calls in the message of the client."""

    def opening(self) -> list[JsonObject]:
        """Return the first chunks."""
        ids: JsonObject = {"sessionId": self._run.session_id, "runId": self._run.run_id}
        start: JsonObject = {"type": "start", "messageMetadata": ids}
        return [{**start, "messageId": self._run.run_id} if self._is_whole else start]

    def chunks(self, event: Event | Record) -> list[JsonObject]:
        """Return the chunks of an event as `ai` 7 names them."""
        return super().take(event)

    def take(self, event: Event | Record) -> list[JsonObject]:
        """Return the chunks of an event that `ai` 6 and 7 read."""
        return [chunk for raw_chunk in self.chunks(event) for chunk in self._common(raw_chunk)]

    def _common(self, chunk: JsonObject) -> Iterable[JsonObject]:
        """Replace a chunk that `ai` 6 does not know."""
        match chunk["type"]:
            case "reset-step":
                # Parts cannot be removed: the client leaves out those from the last `step-start` on.
                yield {"type": "data-void", "data": {}}
                yield {"type": "finish-step"}
                yield {"type": "start-step"}
            case "tool-approval-request" if chunk["approvalId"] in self._run.view.decided:
                return
            case "tool-approval-response":
                yield from self._answer_chunks(chunk)
            case "steering-message":
                yield _steering_data(chunk)
            case "finish" if chunk["finishReason"] == "interrupted":
                yield {**chunk, "finishReason": "other"}
            case _:
                yield chunk

    def _answer_chunks(self, chunk: JsonObject) -> Iterable[JsonObject]:
        """Return a call that no longer waits for its approval: its input again, with the answer."""
        for key, call in self._calls.items():
            if call is not None and self._approvals.get(key) == chunk["approvalId"]:
                yield self._input(call, {"approved": chunk["approved"]})

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
                    self._visible_calls.add(change.key)
            case stream.RequestsOpened() if not self._run.is_new_message:
                self._approvals |= {
                    ask.call_key: ask.request.request_id
                    for ask in change.asks
                    if _is_approval(ask) and ask.call_key
                }
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
        self._visible_calls.add(change.key)
        if isinstance(change, stream.CallRequested):
            self._calls[change.key] = change
            if change.parent_key is not None and not self._is_in_program:
                # Clients send answers once every call of a step has a result or an answer. The call of the
                # program has none, so the calls that it makes are a step of their own.
                yield from self._next_step()
                self._is_in_program = True
            yield self._input(change)
            return
        if change.key not in self._calls:
            self._calls[change.key] = None
            yield {
                "type": "tool-input-start",
                "toolCallId": change.key,
                "toolName": change.name,
                "dynamic": True,
            }
        yield {"type": "tool-input-delta", "toolCallId": change.key, "inputTextDelta": change.delta}

    def _input(self, call: stream.CallRequested, metadata: JsonObject | None = None) -> JsonObject:
        above: JsonObject = {} if call.parent_key is None else {"parentToolCallId": call.parent_key}
        ours: JsonObject = {**above, **(metadata or {})}
        return {
            "type": "tool-input-available",
            "toolCallId": call.key,
            "toolName": call.name,
            "dynamic": True,
            "input": call.arguments,
            **({"providerMetadata": {"windlass": ours}} if ours else {}),
        }

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
        if call is not None and key not in self._visible_calls:
            yield from self._call(call)

    def _step(self, change: stream.StepStarted | stream.StepVoided) -> Iterable[JsonObject]:
        if isinstance(change, stream.StepVoided):
            yield from self._texts_end()
            for key, call in tuple(self._calls.items()):
                if call is None or call.step == change.step:
                    del self._calls[key]
                    yield {"type": "tool-output-error", "toolCallId": key, "errorText": _REPEATED}
            yield {"type": "reset-step"}
            return
        yield from self._next_step()

    def _next_step(self) -> Iterable[JsonObject]:
        yield from self._step_end()
        self._is_in_step = True
        yield {"type": "start-step"}

    def _step_end(self) -> Iterable[JsonObject]:
        yield from self._texts_end()
        self._is_in_program = False
        if self._is_in_step:
            self._is_in_step = False
            yield {"type": "finish-step"}

    def _texts_end(self) -> Iterable[JsonObject]:
        for key in tuple(self._texts):
            yield from self._text_end(key)

    def _people(self, change: stream.RequestsOpened | stream.RequestAnswered) -> Iterable[JsonObject]:
        if isinstance(change, stream.RequestsOpened):
            for ask in change.asks:
                yield from self._request_chunks(ask)
            return
        ask, outcome = change.ask, change.resolution.outcome
        if _is_approval(ask) and ask.call_key in self._approvals:
            approved = outcome is InputOutcome.APPROVED
            response = change.resolution.response
            reason: JsonObject = {} if response is None or not response.text else {"reason": response.text}
            yield {
                "type": "tool-approval-response",
                "approvalId": ask.request.request_id,
                "approved": approved,
                **reason,
            }
        elif not _is_approval(ask):
            yield _request(ask, outcome.value)

    def _request_chunks(self, ask: stream.Ask) -> Iterable[JsonObject]:
        request = ask.request
        if not _is_approval(ask) or ask.call_key is None:
            yield _request(ask, None)
            return
        self._approvals[ask.call_key] = request.request_id
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
        used = _usage_metadata(change.usage)
        match change.status:
            case RunStatus.COMPLETED:
                yield {"type": "finish", "finishReason": "stop", "messageMetadata": used}
            case RunStatus.CANCELLED:
                yield {"type": "abort", "reason": change.reason or "the run was cancelled"}
                yield {"type": "finish", "finishReason": "interrupted", "messageMetadata": used}
            case _:
                yield self._failure_frame(change)

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


def _steering_data(chunk: JsonObject) -> JsonObject:
    return {"type": "data-steering", "id": chunk["id"], "data": {"parts": chunk["parts"]}}


def _usage_metadata(usage: Usage) -> JsonObject:
    counts: JsonObject = usage.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"usage": counts}


@mutable
class AiMessage:
    """A message of the assistant, built from the chunks of a run as `useChat` builds it."""

    fold: AiFold
    user_parts: tuple[UserPart, ...] | None = None
    """The message of the user that the run began with."""
    metadata: JsonObject = field(default_factory=dict[str, JsonValue])
    parts: list[JsonObject] = field(default_factory=list[JsonObject])
    _open: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """Parts that later chunks change, by the id of the text, call, approval or data."""

    def take(self, chunk: JsonObject) -> None:
        """Take the next chunk."""
        kind, metadata = str(chunk["type"]), chunk.get("messageMetadata")
        if isinstance(metadata, dict):
            self.metadata |= metadata
        match kind:
            case "start-step":
                self.parts.append({"type": "step-start"})
            case "reset-step":
                at = max(at for at, part in enumerate(self.parts) if part["type"] == "step-start")
                del self.parts[at + 1 :]
                self._open = {key: part for key, part in self._open.items() if part in self.parts}
            case "error":
                self.metadata["error"] = chunk["errorText"]
            case "steering-message":
                self.parts.append(_steering_data(chunk))
            case "data-request" | "data-subagent":
                self._part(str(chunk["id"]), {"type": kind, "id": chunk["id"]})["data"] = chunk["data"]
            case _ if kind.startswith("tool-"):
                self._tool(kind, chunk)
            case _ if kind.endswith("-delta"):
                name = kind.removesuffix("-delta")
                part = self._part(str(chunk["id"]), {"type": name, "text": "", "state": "done"})
                part["text"] = f"{part['text']}{chunk['delta']}"
            case _:
                pass

    def _tool(self, kind: str, chunk: JsonObject) -> None:
        match kind:
            case "tool-input-available":
                part = self._part(str(chunk["toolCallId"]), {"type": "dynamic-tool"})
                part |= {name: chunk[name] for name in ("toolCallId", "toolName", "input")}
                part |= {"state": "input-available"}
                if "providerMetadata" in chunk:
                    part["callProviderMetadata"] = chunk["providerMetadata"]
            case "tool-approval-request":
                part = self._open[str(chunk["approvalId"])] = self._open[str(chunk["toolCallId"])]
                approval: JsonObject = {"id": chunk["approvalId"], "requestReason": chunk["reason"]}
                approval |= {"signature": chunk["signature"]} if "signature" in chunk else {}
                part |= {"state": "approval-requested", "approval": approval}
            case "tool-approval-response":
                part = self._open[str(chunk["approvalId"])]
                pending = part["approval"]
                reply: JsonObject = {name: chunk[name] for name in ("approved", "reason") if name in chunk}
                part |= {"state": "approval-responded", "approval": {**_object(pending), **reply}}
            case "tool-output-denied":
                self._open[str(chunk["toolCallId"])]["state"] = "output-denied"
            case _:
                part = self._open[str(chunk["toolCallId"])]
                part |= {name: chunk[name] for name in ("output", "errorText") if name in chunk}
                part["state"] = kind.removeprefix("tool-")
                if _object(part.get("approval")).get("approved") is not True:
                    part.pop("approval", None)  # The approval of a call that ran is always given.

    def _part(self, key: str, initial: JsonObject) -> JsonObject:
        if key not in self._open:
            self._open[key] = initial
            self.parts.append(initial)
        return self._open[key]

    def messages(self, contents: str, run_id: str) -> Iterable[JsonObject]:
        """Return the message of the user and that of the assistant; `contents` is where contents are."""
        if self.user_parts is not None:
            parts: list[JsonValue] = [_user_part(part, contents) for part in self.user_parts]
            yield {"id": f"{run_id}{USER_MESSAGE_SUFFIX}", "role": "user", "parts": parts}
        if self.parts or "error" in self.metadata:
            yield {"id": run_id, "role": "assistant", "metadata": self.metadata, "parts": [*self.parts]}


class AiHistory:
    """The records of a session in, the messages of its chat out."""

    def __init__(self, session_id: str, *, root: str = "") -> None:
        self._session_id = session_id
        self._contents = f"{root}{PREFIX}/sessions/{quote(session_id)}/contents"
        self._runs: dict[str, AiMessage] = {}

    def take(self, record: Record) -> None:
        """Take the next record."""
        run_id = run_id_of(record)
        if run_id is None:
            return
        message = self._runs.get(run_id)
        if message is None:
            fold = AiFold(AiRun(self._session_id, run_id, View(wait_count=maxsize)))
            message = self._runs[run_id] = AiMessage(fold)
            message.take(*fold.opening())
            if len(self._runs) > THREAD_MESSAGES_MAX // 2:
                del self._runs[next(iter(self._runs))]
        for change in message.fold.chunks(record):
            message.take(change)
        body = body_of(record)
        if isinstance(body, records.MessageReceived) and message.user_parts is None:
            message.user_parts = tuple(body.parts or (TextPart(text=body.message),))

    def messages(self) -> list[JsonObject]:
        """Return the messages, oldest first."""
        return [
            message for run_id, run in self._runs.items() for message in run.messages(self._contents, run_id)
        ]


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _user_part(part: UserPart, contents: str) -> JsonObject:
    match part.type:
        case "text":
            return {"type": "text", "text": part.text}
        case "image":
            url, media_type, name = part.image, part.media_type or "image/*", None
        case "file":
            url, media_type, name = part.data, part.media_type, part.filename
    if part.content is not None:
        url = f"{contents}/{part.content.hash}"
    shown: JsonObject = {"type": "file", "mediaType": media_type, "url": url}
    return shown if name is None else {**shown, "filename": name}


router = APIRouter(prefix=PREFIX, tags=["chat clients"], route_class=Route)
ChatId = Annotated[str, Path(description="The id of a chat, chosen by the client.", examples=["chat-1"])]


@router.post(
    "/ai/{agent:path}/chat",
    responses=answers(200, AI_EXAMPLE, media_type=SSE_TYPE),
    response_class=Response,
    summary="Chat over the AI SDK",
)
async def chat(
    *,
    request: Request,
    caller: CallerDep,
    agent: AgentName,
    body: Annotated[ChatRequest, body_example(message=AI_MESSAGE_EXAMPLE, approval=AI_APPROVAL_EXAMPLE)],
) -> Response:
    """Send a message to a chat, or answer its requests, and follow the run."""
    agent_id, last = check_agent(caller, agent), body.messages[-1]
    client_answers = answers_in(last)
    if client_answers and body.trigger == "submit-message":
        run = await answer(caller, body.id, answers=client_answers, needs_all=False)
        return await _respond(request, caller, run, is_new_message=last.get("role") == "user")
    return await _respond(request, caller, await _start_run(caller, body, last, agent_id=agent_id))


async def _start_run(caller: Caller, body: ChatRequest, last: JsonObject, *, agent_id: str) -> ChatRun:
    name = last.get("id")
    message = ai_content(last) if last.get("role") == "user" else None
    if message is None or not isinstance(name, str) or not name:
        raise Problem(
            422, "the last message must be a user message with an id and content, or contain answers"
        )
    thread = await find_thread(caller, body.id)
    run_id = thread.run_id(name)
    if body.trigger == "submit-message" and body.message_id is not None:
        # A repeated edit is the same run.
        is_anew = not await is_last(caller, thread, run_id=run_id, message=message, agent_id=agent_id)
    else:
        is_anew = await _is_anew(caller, body, run_id=run_id)
    if is_anew:
        thread = await rewind(caller, thread, name=name)
    run = await say(caller, thread, name, message=message, agent_id=agent_id)
    assert run is not None, "there is a message"
    return run


async def _is_anew(caller: Caller, body: ChatRequest, *, run_id: str) -> bool:
    """Whether the answer is to be regenerated."""
    if body.trigger == "submit-message":
        return False
    # If the named answer was replaced before, this request is a repetition.
    row = await caller.tenant.store.run(run_id)
    return row is None or body.message_id is None or body.message_id == row.run_id


@router.get(
    "/ai/{agent:path}/chat/{chat_id:path}/stream",
    responses={
        **answers(200, AI_EXAMPLE, media_type=SSE_TYPE),
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
    run = ChatRun(thread.session_id, run_ids[0], past.whole(), is_again=True)
    return await _respond(request, caller, run)


@router.get(
    "/ai/{agent:path}/chat/{chat_id:path}",
    responses=answers(200, AI_HISTORY_EXAMPLE),
    response_class=Response,
    summary="Messages of a chat of the AI SDK",
)
async def history(*, request: Request, caller: CallerDep, agent: AgentName, chat_id: ChatId) -> Response:
    """Return the messages of a chat as `UIMessage[]`, oldest first; a new chat has none."""
    check_agent(caller, agent)
    thread = await find_thread(caller, chat_id)
    chat_history = AiHistory(thread.session_id, root=request.scope.get("app_root_path", ""))
    if thread.session is not None:
        async for records in pages_of(caller.tenant.store, thread.session_id):
            for record in records:
                chat_history.take(record)
    return Response(to_json(chat_history.messages()), media_type="application/json")


async def _respond(
    request: Request, caller: Caller, run: ChatRun, *, is_new_message: bool = True
) -> Response:
    frames = ai_frames(AiRun(run.session_id, run.run_id, run.view, is_new_message))
    response = await stream_run(request, caller, run_id=run.run_id, frames=frames)
    response.headers[HEADER] = VERSION
    return response
