"""Chat streams: each is a durable run, and its changes are sent to the host as notifications.

The id of a stream is that of its run. A host that asks again for a stream that was cut off, with the same
parameters, gets all of it: finished steps are not performed again.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import aclosing
from hashlib import sha256
from typing import Final

from pydantic import ValidationError

from windlass import Agent, AgentRuntime, RunHandle, ToolRouter
from windlass.engine.writing.scribe import RedactingScribe
from windlass.errors import AgentError
from windlass.limits import CONTENT_BYTES_MAX
from windlass.ports.model import LLMProvider
from windlass.runtime.registry import register_agent
from windlass_harness.redact import SECRET_CHARS_MAX, SECRET_CHARS_MIN, Redactor
from windlass_harness.views.stream import (
    CallDelta,
    CallRequested,
    CallSettled,
    Change,
    ChatFold,
    RequestsOpened,
    RunEnded,
    StepEnded,
    StepVoided,
    TextDelta,
)
from windlass_protocol import (
    ActionStatus,
    BudgetLimits,
    CodecLimits,
    JsonObject,
    RunStatus,
    SessionCapabilities,
    SourceKind,
    SourceRef,
    ToolCallAction,
    encode,
)
from windlass_protocol.frozen import mutable
from windlass_protocol.generated import records
from windlass_sidecar.chat import (
    Asker,
    ChatConversation,
    ChatStream,
    RemindedModel,
    Shape,
    close,
    conversation,
    provider_of,
    tools_of,
)
from windlass_sidecar.limits import KEYS_MAX, STREAMS_MAX
from windlass_sidecar.rpc import Code, Host, RpcError, invalid_params, stream_kind

_LOG: Final = logging.getLogger(__name__)

CHUNK: Final = "stream.chunk"
EVENT: Final = "stream.event"
DONE: Final = "stream.done"
ERROR: Final = "stream.error"
_DIGEST_CHARS: Final = 32
_SOURCE: Final = SourceRef(kind=SourceKind.HOST, id="sidecar")
_RESUMABLE: Final = "the sidecar shuts down; ask for the stream again, with the same streamId, to continue it"
_HISTORY_LIMITS: Final = CodecLimits(message_bytes_max=CONTENT_BYTES_MAX, depth_max=128)


class GrowingScribe(RedactingScribe):
    """Masks secrets in records, including keys that become known while the sidecar runs."""

    def __init__(self) -> None:
        super().__init__()
        self._secrets: set[str] = set()

    def learn(self, secret: str) -> None:
        """Mask a secret from now on; a text that is too short for a secret is not masked.

        Raises:
            RpcError: there are too many, or it is too long.
        """
        if secret in self._secrets or len(secret) < SECRET_CHARS_MIN:
            return
        if len(secret) > SECRET_CHARS_MAX:
            raise invalid_params(f"apiKey: at most {SECRET_CHARS_MAX:,} characters")
        if len(self._secrets) >= KEYS_MAX:
            raise invalid_params(f"apiKey: more than {KEYS_MAX} keys in one process; start another sidecar")
        self._secrets.add(secret)
        self.redactor = Redactor(secrets=tuple(self._secrets))


Notice = tuple[str, JsonObject]
"""A notification: its method and its parameters, the stream apart."""


def notices(change: Change) -> Iterator[Notice]:
    """Yield the notifications of a change, in order; many have none."""
    match change:
        case StepVoided():
            yield CHUNK, {"restart": True}
        case TextDelta(kind="text"):
            yield CHUNK, {"delta": change.delta}
        case TextDelta(is_whole=False):
            # Reasoning is sent only while it streams.
            yield CHUNK, {"reasoningDelta": change.delta}
        case CallDelta():
            piece: JsonObject = {"id": change.call_id, "argumentsDelta": change.delta}
            yield CHUNK, {"toolCallDelta": {**piece, "name": change.name} if change.is_first else piece}
        case CallRequested(action=ToolCallAction() | records.ToolCallAction() as action):
            arguments: JsonObject = action.input if isinstance(action.input, dict) else {"": action.input}
            call: JsonObject = {"id": action.call_id, "name": action.tool_name, "arguments": arguments}
            yield CHUNK, {"toolCall": call}
        case CallSettled(result=records.ActionResult() as data):
            yield CHUNK, {"toolResult": _result(data)}
        case RequestsOpened():
            requests = [ask.request.model_dump(mode="json", by_alias=True) for ask in change.asks]
            yield CHUNK, {"inputRequests": [*requests]}
        case StepEnded():
            fields: JsonObject = {"finishReason": change.finish_reason}
            if change.usage is not None:
                fields["usage"] = change.usage.model_dump(mode="json", by_alias=True)
            yield CHUNK, fields
        case RunEnded():
            yield from _end(change)
        case _:
            pass


def _result(data: records.ActionResult) -> JsonObject:
    is_good = data.status is ActionStatus.COMPLETED
    fields: JsonObject = {"id": data.result.call_id, "success": is_good}
    if isinstance(data.result, records.ToolActionResult):
        fields["name"] = data.result.tool_name
    if is_good:
        return {**fields, "data": data.result.output}
    return {**fields, "error": "the call failed" if data.error is None else data.error.message}


def _end(ended: RunEnded) -> Iterator[Notice]:
    if ended.status is RunStatus.COMPLETED:
        yield DONE, {"ok": True}
        return
    if ended.status is RunStatus.CANCELLED:
        yield DONE, {"ok": False, "cancelled": True}
        return
    if ended.status is RunStatus.BUDGET_EXHAUSTED:
        names = ", ".join(ended.exceeded)
        yield ERROR, {"kind": "budget_exhausted", "message": f"budget exhausted: {names}"}
    elif ended.error is not None:
        yield ERROR, {"kind": stream_kind(ended.error).value, "message": ended.error.message}
    yield DONE, {"ok": False}


@mutable(eq=False)
class Stream:
    """A stream under way."""

    stream_id: str
    handle: RunHandle | None = None
    provider: LLMProvider | None = None
    is_cancelled: bool = False
    """Whether it was cancelled before its run was started."""
    task: asyncio.Task[None] | None = None

    @property
    def agent_id(self) -> str:
        """The id of the agent that answers; every stream has its own agent."""
        return f"chat-{sha256(self.stream_id.encode()).hexdigest()[:_DIGEST_CHARS]}"


class LiveStreams:
    """The streams under way."""

    def __init__(
        self, runtime: AgentRuntime, scribe: GrowingScribe, *, tools: ToolRouter, host: Host
    ) -> None:
        self._runtime = runtime
        self._scribe = scribe
        self._tools = tools
        self._host = host
        self._streams: dict[str, Stream] = {}
        self._orphans: list[Stream] = []
        """Streams without notifications; their runs continue and need their models."""

    def __len__(self) -> int:
        return len(self._streams)

    def __contains__(self, stream_id: str) -> bool:
        return stream_id in self._streams

    def reserve(self, stream_id: str) -> Stream:
        """Take an id; from now on the stream can be cancelled.

        Raises:
            RpcError: the id is in use, or there are too many streams.
        """
        if stream_id in self._streams:
            raise invalid_params("streamId: this stream is running already")
        if len(self._streams) >= STREAMS_MAX:
            raise RpcError(Code.TRANSPORT, f"too many streams at the same time: limit {STREAMS_MAX}")
        self._streams[stream_id] = stream = Stream(stream_id)
        return stream

    async def begin(self, stream: Stream, params: ChatStream) -> RunHandle:
        """Start the run of a stream; return once it is durable.

        Raises:
            RpcError, AgentError: it cannot be run; its id is free again.
        """
        try:
            return await self._begin(stream, params)
        except BaseException:
            await self._release(stream)
            raise

    async def _begin(self, stream: Stream, params: ChatStream) -> RunHandle:
        chat = conversation(params.messages)
        if params.session_id is not None and not chat.is_one_message:
            raise invalid_params(
                "messages: expected one user message with a sessionId: the session has the history"
            )
        if params.api_key is not None:
            self._scribe.learn(params.api_key)
        agent = self._agent(stream, params, chat)
        self._runtime.core.ports.registry.add(register_agent(agent), replace=True)
        can_ask = self._host.can_ask_people if params.request_input is None else params.request_input
        stream.handle = await self._runtime.start_run(
            agent,
            chat.question,
            run_id=stream.stream_id,
            session_id=params.session_id,
            capabilities=SessionCapabilities(request_input=can_ask),
            budget=_budget(params),
            metadata={**await self._owners(params), **_facts(params), **await self._store_history(chat)},
            source=_SOURCE,
        )
        if stream.is_cancelled:
            await stream.handle.cancel(by="host")
        return stream.handle

    def _agent(self, stream: Stream, params: ChatStream, chat: ChatConversation) -> Agent:
        stream.provider = provider_of(
            params.provider,
            params.model,
            base_url=params.base_url,
            api_key=params.api_key,
            max_tokens=params.max_tokens,
        )
        return Agent(
            stream.agent_id,
            model=RemindedModel(stream.provider, chat, route_id=params.provider, model_id=params.model),
            instructions=chat.instructions,
            tools=tools_of(params.tools, self._tools, host=self._host, stream_id=stream.stream_id),
            temperature=params.temperature,
        )

    async def _owners(self, params: ChatStream) -> JsonObject:
        """Return the chat and the user of the session, if `agent.session.create` made it."""
        if params.session_id is None:
            return {}
        facts = await self._runtime.sessions.agent_sessions.facts(params.session_id)
        return {name: facts[name] for name in ("chatId", "userId") if name in facts}

    async def _store_history(self, chat: ChatConversation) -> JsonObject:
        """Store the messages before the question; return a reference to them."""
        content = self._runtime.core.ports.content
        if chat.is_one_message or content is None:
            return {}
        masked = self._scribe.redactor.value(chat.data)
        ref = await content.put(encode(masked, _HISTORY_LIMITS))  # pyright: ignore[reportArgumentType] - JSON in, JSON out
        return {"history": ref.model_dump(mode="json", by_alias=True)}

    def tell(self, stream: Stream, shape: Shape) -> None:
        """Begin to send the notifications of a stream; called once, after `begin`."""
        assert stream.handle is not None, "begin comes first"
        stream.task = asyncio.create_task(self._tell(stream, stream.handle, shape))

    async def cancel(self, stream_id: str) -> None:
        """Ask a stream to end; nothing happens if it has ended.

        Raises:
            Conflict: there is no run of this id.
        """
        stream = self._streams.get(stream_id)
        if stream is None:
            await self._runtime.cancel_run(stream_id, by="host")
        elif stream.handle is None:
            stream.is_cancelled = True
        else:
            await stream.handle.cancel(by="host")

    async def wait(self) -> None:
        """Wait for all streams to end."""
        tasks = [stream.task for stream in self._streams.values() if stream.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    async def stop(self) -> None:
        """Stop all notifications; the runs stay as they are."""
        for stream in tuple(self._streams.values()):
            if stream.task is not None:
                stream.task.cancel()
                await asyncio.wait((stream.task,))
                await self._break_off(stream, "transport_closed", _RESUMABLE)

    async def aclose(self) -> None:
        """Close all providers; the runtime is closed already."""
        left = (*self._streams.values(), *self._orphans)
        self._orphans.clear()
        for stream in left:
            await self._release(stream)

    async def _tell(self, stream: Stream, handle: RunHandle, shape: Shape) -> None:
        chat, asker = ChatFold(stream.stream_id), Asker(self._host, handle)
        end: JsonObject = {"ok": False}
        try:
            async with aclosing(handle.events()) as events:
                async for event in events:
                    if shape == "events":
                        await self._say(
                            stream, EVENT, {"event": event.model_dump(mode="json", by_alias=True)}
                        )
                    for change in chat.apply(event):
                        for method, params in notices(change):
                            if method == DONE:
                                end = params
                            elif shape != "events":
                                await self._say(stream, method, params)
                        asker.hear(change)
            # Released before the end is sent: the host may start the next one at once.
            await self._release(stream)
            await self._say(stream, DONE, end)
        except AgentError as error:
            _LOG.error("the events of a stream cannot be read: %s", error.kind)
            await self._break_off(stream, "internal", error.message)
            # Its run continues and needs its model.
            if self._streams.pop(stream.stream_id, None) is not None:
                self._orphans.append(stream)
        finally:
            await asker.aclose()

    async def _break_off(self, stream: Stream, kind: str, message: str) -> None:
        await self._say(stream, ERROR, {"kind": kind, "message": message})
        await self._say(stream, DONE, {"ok": False})

    async def _say(self, stream: Stream, method: str, params: JsonObject) -> None:
        try:
            await self._host.notify(method, {"streamId": stream.stream_id, **params})
        except RpcError as error:
            _LOG.error("%s", error.message)

    async def _release(self, stream: Stream) -> None:
        self._streams.pop(stream.stream_id, None)
        self._runtime.core.ports.registry.remove(stream.agent_id)
        provider, stream.provider = stream.provider, None
        if provider is not None:
            await close(provider)


def _budget(params: ChatStream) -> BudgetLimits | None:
    if params.budget is None:
        return None
    try:
        return BudgetLimits.model_validate(params.budget)
    except ValidationError:
        pass
    raise invalid_params('budget: expected limits such as {"maxSteps": 20}')


def _facts(params: ChatStream) -> JsonObject:
    """Return the parameters that a run records; the same parameters are the same run."""
    facts: JsonObject = {"baseUrl": params.base_url, "maxTokens": params.max_tokens}
    return {name: value for name, value in facts.items() if value is not None}
