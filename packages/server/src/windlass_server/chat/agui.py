"""AG-UI 1.0: its route, and runs as its events.

A run that waits for people ends with an interrupt; the AG-UI run that resumes it shows the events after the
answers. A client that reads a run again first gets a snapshot of its messages, so that nothing appears twice.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import field
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response
from pydantic import JsonValue
from pydantic_core import to_json

from windlass import AgentError
from windlass_harness.views import stream
from windlass_harness.views.payloads import as_text
from windlass_protocol import InputKind, JsonObject, RunStatus, ToolOutput, ToolOutputType
from windlass_protocol.frozen import sealed
from windlass_server.chat.run_events import WHOLE, ChatRunFold, View, of_program
from windlass_server.chat.sessions import (
    ChatFrames,
    ChatRun,
    RunAgentInput,
    agui_content,
    answer,
    answer_in,
    check_agent,
    find_thread,
    say,
    sse,
    stream_run,
)
from windlass_server.openapi import (
    AGUI_EXAMPLE,
    AGUI_MESSAGE_EXAMPLE,
    AGUI_RESUME_EXAMPLE,
    answers,
    body_example,
)
from windlass_server.problems import Problem, of_agent_error
from windlass_server.requests import PREFIX, Caller, CallerDep
from windlass_server.routing import Route
from windlass_server.streams import SSE_TYPE

_ROLES: Final = frozenset({"developer", "system", "assistant", "user", "tool", "reasoning"})


class Transcript:
    """The messages of a client after the frames of a run, whether they were sent or not."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._messages: list[JsonObject] = []

    def apply(self, frames: Iterable[JsonObject]) -> None:
        """Apply frames; those without a message change nothing."""
        for frame in frames:
            match frame["type"]:
                case "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START":
                    self._message(frame["messageId"], frame["role"])
                case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                    message = self._message(frame["messageId"], "assistant")
                    message["content"] = f"{message.get('content') or ''}{frame['delta']}"
                case "TOOL_CALL_START":
                    function: JsonObject = {"name": frame["toolCallName"], "arguments": ""}
                    message = self._message(frame["parentMessageId"], "assistant")
                    call: JsonObject = {"id": frame["toolCallId"], "type": "function", "function": function}
                    call |= {"metadata": frame["metadata"]} if "metadata" in frame else {}
                    message["toolCalls"] = [*_list(message.get("toolCalls")), call]
                case "TOOL_CALL_ARGS":
                    self.set_arguments(frame["toolCallId"], frame["delta"], is_more=True)
                case "TOOL_CALL_RESULT":
                    self._result(frame)
                case _:
                    pass

    def set_arguments(self, key: JsonValue, arguments: JsonValue, *, is_more: bool = False) -> None:
        """Set the arguments of a call, or append to them."""
        for message in self._messages:
            for call in _list(message.get("toolCalls")):
                if isinstance(call, dict) and call["id"] == key:
                    function = call["function"]
                    assert isinstance(function, dict), "it was made here"
                    before = function["arguments"] if is_more else ""
                    function["arguments"] = f"{before}{arguments}"

    def drop(self, step: int) -> None:
        """Forget the messages of a step; its thoughts become empty.

        Clients keep thoughts that a list of messages leaves out.
        """
        name = f"{self._run_id}/{step}"
        messages: list[JsonObject] = []
        for message in self._messages:
            if not _is_of(str(message["id"]), name):
                messages.append(message)
            elif message["role"] == "reasoning":
                messages.append({**message, "content": ""})
        self._messages = messages

    def expect(self, messages: Iterable[Mapping[str, JsonValue]]) -> None:
        """Take note of thoughts of the run that a client has: they become empty."""
        for message in messages:
            name = message.get("id")
            is_own = isinstance(name, str) and name.startswith(f"{self._run_id}/")
            if is_own and message.get("role") == "reasoning":
                self._message(name, "reasoning")

    def snapshot(self, others: Sequence[JsonObject]) -> list[JsonObject]:
        """Return all messages: those of others, then those of this run."""
        return [*others, *deepcopy(self._messages)]

    def _message(self, key: JsonValue, role: JsonValue) -> JsonObject:
        for message in self._messages:
            if message["id"] == key:
                return message
        message: JsonObject = {"id": key, "role": role}
        if role != "assistant":
            message["content"] = ""
        self._messages.append(message)
        return message

    def _result(self, frame: JsonObject) -> None:
        """Insert a result after the message with its call, and after other results of that message."""
        result = {"id": frame["messageId"], "role": "tool", "toolCallId": frame["toolCallId"]}
        at = len(self._messages)
        for index, message in enumerate(self._messages):
            calls = [call for call in _list(message.get("toolCalls")) if isinstance(call, dict)]
            if any(call["id"] == frame["toolCallId"] for call in calls):
                at = index + 1
                while at < len(self._messages) and self._messages[at]["role"] == "tool":
                    at += 1
        self._messages.insert(at, {**result, "content": frame["content"]})


def others_of(messages: Iterable[Mapping[str, JsonValue]], run_id: str) -> tuple[JsonObject, ...]:
    """Return those messages of a client that are not of a run, as it sent them."""
    return tuple(
        dict(message)
        for message in messages
        if message.get("role") in _ROLES
        and isinstance(name := message.get("id"), str)
        and not name.startswith(f"{run_id}/")
    )


def _is_of(key: str, name: str) -> bool:
    return key == name or key.startswith((f"{name}.", f"{name}/"))


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


PROTOCOL_VERSION: Final = "1.0"
_REASONS: Final = {InputKind.APPROVAL: "tool_call", InputKind.QUESTION: "input_required"}
_TOKENS: Final = (
    ("inputTokens", "input_tokens"),
    ("outputTokens", "output_tokens"),
    ("reasoningTokens", "reasoning_tokens"),
    ("cachedInputTokens", "cache_read_tokens"),
    ("cacheWriteInputTokens", "cache_write_tokens"),
)


@sealed
class AguiRun:
    """A request of a client, and the run that answers it."""

    thread_id: str
    run_id: str
    """As the client calls it."""
    own_session_id: str
    own_run_id: str
    view: View = WHOLE
    is_again: bool = False
    """Whether the client may have seen some of it."""
    messages: tuple[JsonObject, ...] = ()
    """The messages of the client, which are sent back to it."""
    state: JsonObject = field(default_factory=dict[str, JsonValue])
    """The state of the client, which is sent back to it."""
    knows_cancelled: bool = True
    """Whether the client knows the outcome `cancelled`; those before 1.0 do not."""


class AguiFold(ChatRunFold):
    """Events of a run in, events of AG-UI out."""

    def __init__(self, run: AguiRun) -> None:
        super().__init__(run.own_run_id, run.view)
        self._run = run
        self._transcript = Transcript(run.own_run_id)
        self._others = others_of(run.messages, run.own_run_id)
        self._calls: set[str] = set()
        self._subagents: dict[str, JsonObject] = {}
        self._state = dict(run.state)
        self._usage: dict[str | None, dict[str, int]] = {}

    def opening(self) -> list[JsonObject]:
        """Return the first frames."""
        ids: JsonObject = {"sessionId": self._run.own_session_id, "runId": self._run.own_run_id}
        started = {**self._run_frame("RUN_STARTED"), "protocolVersion": PROTOCOL_VERSION}
        first: JsonObject = {**started, "metadata": {"windlass": ids}}
        return [first] if self._gate.is_closed else [first, *self._begin()]

    def _take(self, change: stream.Change) -> list[JsonObject]:
        was_closed = self._gate.is_closed
        is_pause = self._gate.is_pause(change)
        if was_closed and isinstance(change, stream.RunEnded):
            return [*self._begin(), *self._end(change)]
        frames = [] if isinstance(change, stream.RunWaiting) and not is_pause else list(self._frames(change))
        self._transcript.apply(frames)
        if not was_closed:
            return frames
        return [] if self._gate.is_closed else self._begin()

    def _begin(self) -> list[JsonObject]:
        """Start to show events.

        Texts and calls that are open started unseen: they start again with their next piece.
        """
        self._gate.open()
        self._texts.clear()
        self._calls.clear()
        started = list(self._subagents.values())
        if not self._run.is_again:
            return started
        self._transcript.expect(self._run.messages)
        return [self._messages(), *started]

    def _frames(self, change: stream.Change) -> Iterable[JsonObject]:
        match change:
            case stream.TextDelta() | stream.TextEnded():
                return self._text(change)
            case stream.CallDelta() | stream.CallRequested() | stream.CallSettled():
                return self._call(change)
            case stream.StepStarted() | stream.StepVoided():
                return self._step(change)
            case stream.SubagentStarted() | stream.SubagentEnded():
                return self._subagent(change)
            case stream.MessageReceived():
                return self._user_message(change)
            case stream.StateChanged():
                return self._state_snapshot(change)
            case stream.RunWaiting() | stream.RunEnded():
                return self._end(change)
            case stream.Spent():
                self._spend(change)
                return ()
            case _:
                return ()

    # texts

    def _text_begun(self, kind: stream.TextKind, key: str) -> Iterable[JsonObject]:
        if kind == "text":
            yield {"type": "TEXT_MESSAGE_START", "messageId": key, "role": "assistant"}
        else:
            yield {"type": "REASONING_START", "messageId": key}
            yield {"type": "REASONING_MESSAGE_START", "messageId": key, "role": "reasoning"}

    def _text_more(self, change: stream.TextDelta) -> JsonObject:
        name = "TEXT_MESSAGE_CONTENT" if change.kind == "text" else "REASONING_MESSAGE_CONTENT"
        return {"type": name, "messageId": change.key, "delta": change.delta}

    def _text_ended(self, kind: stream.TextKind, key: str) -> Iterable[JsonObject]:
        if kind == "text":
            yield {"type": "TEXT_MESSAGE_END", "messageId": key}
        else:
            yield {"type": "REASONING_MESSAGE_END", "messageId": key}
            yield {"type": "REASONING_END", "messageId": key}

    def _user_message(self, change: stream.MessageReceived) -> Iterable[JsonObject]:
        if not change.is_first:
            yield {"type": "TEXT_MESSAGE_START", "messageId": change.key, "role": "user"}
            yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": change.key, "delta": change.text}
            yield {"type": "TEXT_MESSAGE_END", "messageId": change.key}

    # calls

    def _call(
        self, change: stream.CallDelta | stream.CallRequested | stream.CallSettled
    ) -> Iterable[JsonObject]:
        key = change.key
        if isinstance(change, stream.CallSettled):
            yield _result(key, change.output)
            return
        is_new = key not in self._calls
        if is_new:
            self._calls.add(key)
            parent = f"{self._run.own_run_id}/{change.step}"
            call: JsonObject = {"toolCallId": key, "toolCallName": change.name, "parentMessageId": parent}
            yield {"type": "TOOL_CALL_START", **call, **of_program(change, "metadata")}
        if isinstance(change, stream.CallDelta):
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": key, "delta": change.delta}
            return
        text = to_json(change.arguments).decode()
        if is_new:
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": key, "delta": text}
        self._calls.discard(key)
        yield {"type": "TOOL_CALL_END", "toolCallId": key}
        if not is_new and not _is_same(change.streamed, change.arguments):
            self._transcript.set_arguments(key, text)
            yield self._messages()

    def _step(self, change: stream.StepStarted | stream.StepVoided) -> Iterable[JsonObject]:
        yield from self._close()
        if isinstance(change, stream.StepVoided):
            self._transcript.drop(change.step)
            yield self._messages()

    def _close(self) -> Iterable[JsonObject]:
        for key in tuple(self._texts):
            yield from self._text_end(key)
        for key in sorted(self._calls):
            yield {"type": "TOOL_CALL_END", "toolCallId": key}
        self._calls.clear()

    # the rest

    def _subagent(self, change: stream.SubagentStarted | stream.SubagentEnded) -> Iterable[JsonObject]:
        name: JsonObject = {"subagentRunId": change.key}
        if isinstance(change, stream.SubagentStarted):
            started: JsonObject = {"type": "SUBAGENT_STARTED", **name, "name": change.name}
            if change.call_key is not None:
                started["parentToolCallId"] = change.call_key
            self._subagents[change.key] = started
            yield started
        elif self._subagents.pop(change.key, None) is not None:
            if change.error is None:
                yield {"type": "SUBAGENT_FINISHED", **name, "result": change.output}
            else:
                yield {"type": "SUBAGENT_ERROR", **name, "message": change.error}

    def _state_snapshot(self, change: stream.StateChanged) -> Iterable[JsonObject]:
        self._state |= change.changed
        for name in change.removed:
            self._state.pop(name, None)
        yield {"type": "STATE_SNAPSHOT", "snapshot": dict(self._state)}

    def _spend(self, change: stream.Spent) -> None:
        if self._gate.is_closed:
            return
        used = self._usage.setdefault(change.model, {})
        for name, ours in _TOKENS:
            count: int | None = getattr(change.usage, ours)
            if count is not None:
                used[name] = used.get(name, 0) + count

    def _end(self, change: stream.RunWaiting | stream.RunEnded) -> Iterable[JsonObject]:
        yield from self._close()
        if isinstance(change, stream.RunWaiting):
            yield from self._suspend(change)
            interrupts: list[JsonValue] = [_interrupt(ask) for ask in change.asks]
            yield self._finish_frame({"type": "interrupt", "interrupts": interrupts})
        else:
            yield from self._leave_subagents(change.status)
            yield self._outcome(change)
        self.is_over = True

    def _leave_subagents(self, status: RunStatus) -> Iterable[JsonObject]:
        """End those that are open when the run ends; the jobs of a completed one go on."""
        for key in self._subagents:
            if status is RunStatus.COMPLETED:
                outcome: JsonObject = {"type": "suspended", "interruptIds": []}
                yield {"type": "SUBAGENT_FINISHED", "subagentRunId": key, "outcome": outcome}
            else:
                yield {"type": "SUBAGENT_ERROR", "subagentRunId": key, "message": "the run has ended"}

    def _suspend(self, change: stream.RunWaiting) -> Iterable[JsonObject]:
        for key in self._subagents:
            ids: list[JsonValue] = [ask.request.request_id for ask in change.asks if ask.subagent == key]
            outcome: JsonObject = {"type": "suspended", "interruptIds": ids}
            yield {"type": "SUBAGENT_FINISHED", "subagentRunId": key, "outcome": outcome}

    def _outcome(self, change: stream.RunEnded) -> JsonObject:
        match change.status:
            case RunStatus.COMPLETED:
                return {**self._finish_frame({"type": "success"}), "result": change.output}
            case RunStatus.CANCELLED if self._run.knows_cancelled:
                return self._finish_frame({"type": "cancelled"})
            case RunStatus.CANCELLED:
                return self.failure("cancelled", change.reason or "the run was cancelled")
            case _:
                return self._failure_frame(change)

    def failure(self, code: str, message: str) -> JsonObject:
        """Return the last frame of a run that failed."""
        return {"type": "RUN_ERROR", "code": code, "message": message, **self._usage_field()}

    def _finish_frame(self, outcome: JsonObject) -> JsonObject:
        return {**self._run_frame("RUN_FINISHED"), "outcome": outcome, **self._usage_field()}

    def _usage_field(self) -> JsonObject:
        entries: list[JsonValue] = []
        for model, counts in self._usage.items():
            if counts:
                total = counts.get("inputTokens", 0) + counts.get("outputTokens", 0)
                entry: JsonObject = {**counts, "totalTokens": total}
                entries.append(entry if model is None else {"model": model, **entry})
        return {"usage": entries} if entries else {}

    def _run_frame(self, kind: str) -> JsonObject:
        return {"type": kind, "threadId": self._run.thread_id, "runId": self._run.run_id}

    def _messages(self) -> JsonObject:
        messages = self._transcript.snapshot(self._others)
        return {"type": "MESSAGES_SNAPSHOT", "messages": list[JsonValue](messages)}


def agui_frames(run: AguiRun) -> ChatFrames:
    """Return the frames of a run of AG-UI; the last event says that it is over."""
    return ChatFrames(AguiFold(run), "the server shuts down; the run continues: send the same request again")


def refusal_stream(run: AguiRun, problem: Problem) -> bytes:
    """Return the whole stream of a run that could not begin."""
    fold = AguiFold(run)
    return sse([*fold.opening()[:1], fold.failure(problem.named_code, problem.detail)])


def _result(key: str, output: ToolOutput) -> JsonObject:
    is_denied = output.type is ToolOutputType.EXECUTION_DENIED
    content = output.reason or "" if is_denied else as_text(output.value)
    result: JsonObject = {"messageId": f"{key}/result", "toolCallId": key, "role": "tool"}
    return {"type": "TOOL_CALL_RESULT", **result, "content": content}


def _is_same(streamed: str, arguments: JsonValue) -> bool:
    try:
        return json.loads(streamed) == arguments
    except ValueError:
        return False


def _interrupt(ask: stream.Ask) -> JsonObject:
    """Return the interrupt of a request; an answer refers to its id."""
    request = ask.request
    options: list[JsonValue] = [option.id for option in request.options or ()]
    properties: JsonObject = {"text": {"type": "string"}, "argumentsHash": {"type": "string"}}
    if options:
        properties["optionId"] = {"enum": options}
    if request.kind is InputKind.APPROVAL:
        properties["approved"] = {"type": "boolean"}
    interrupt: JsonObject = {
        "id": request.request_id,
        "reason": _REASONS.get(request.kind or InputKind.QUESTION, f"windlass:{request.kind}"),
        "message": request.prompt,
        "responseSchema": {"type": "object", "properties": properties},
        "metadata": {"windlass": request.model_dump(mode="json", by_alias=True, exclude_none=True)},
    }
    maybe = (("toolCallId", ask.call_key), ("subagentRunId", ask.subagent), ("expiresAt", request.expires_at))
    return {**interrupt, **{name: value for name, value in maybe if value is not None}}


router = APIRouter(prefix=PREFIX, tags=["chat clients"], route_class=Route)
AgentName = Annotated[str, Path(description="An agent.", examples=["clerk"])]


@router.post(
    "/agui/{agent:path}",
    responses=answers(200, AGUI_EXAMPLE, media_type=SSE_TYPE),
    response_class=Response,
    summary="Run an agent over AG-UI",
)
async def run_agui(
    *,
    request: Request,
    caller: CallerDep,
    agent: AgentName,
    body: Annotated[RunAgentInput, body_example(message=AGUI_MESSAGE_EXAMPLE, resume=AGUI_RESUME_EXAMPLE)],
) -> Response:
    """Send a message to a thread, or answer its interrupts, and follow the run."""
    agent_id = check_agent(caller, agent)
    plain = AguiRun(body.thread_id, body.run_id, "", "")
    try:
        if body.resume:
            entries = tuple(map(answer_in, body.resume))
            run = await answer(caller, body.thread_id, answers=entries, needs_all=True)
        else:
            run = await _begin_run(caller, body, agent_id=agent_id)
        frames = agui_frames(_agui_run(body, run))
        return await stream_run(request, caller, run_id=run.run_id, frames=frames)
    except AgentError as error:
        return Response(refusal_stream(plain, of_agent_error(error)), media_type=SSE_TYPE)


async def _begin_run(caller: Caller, body: RunAgentInput, *, agent_id: str) -> ChatRun:
    """Begin a run, or find the one that the client began before."""
    thread = await find_thread(caller, body.thread_id)
    # A client that reconnects may have a part of the answer after its own message.
    message = agui_content(body.messages[-1]) if body.messages else None
    context = tuple(f"{entry.description}: {entry.value}" for entry in body.context) or None
    run = await say(caller, thread, body.run_id, message=message, agent_id=agent_id, context=context)
    if run is None:
        raise Problem(
            422, "expected a user message at the end, answers in resume, or the runId of an earlier run"
        )
    return run


def _agui_run(body: RunAgentInput, run: ChatRun) -> AguiRun:
    return AguiRun(
        body.thread_id,
        body.run_id,
        run.session_id,
        run.run_id,
        view=run.view,
        is_again=run.is_again,
        messages=body.messages,
        state=body.state if isinstance(body.state, dict) else {},
        knows_cancelled=body.protocol_version is not None,
    )
