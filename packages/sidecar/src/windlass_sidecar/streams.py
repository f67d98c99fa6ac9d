"""Chat streams: each is a durable run, told to the host while it goes on.

The id of a stream is that of its run. A host that asks again for a stream that was cut off, with the same
words, gets all of it: what was done is not done again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from pydantic import ValidationError

from windlass import Agent, AgentRuntime, RunHandle, ToolRouter
from windlass.errors import AgentError
from windlass.limits import CONTENT_BYTES_MAX
from windlass.ports.model import LLMProvider
from windlass.runtime.registry import register_agent
from windlass_protocol import (
    BudgetLimits,
    CodecLimits,
    JsonObject,
    SessionCapabilities,
    SourceKind,
    SourceRef,
    encode,
)
from windlass_sidecar.asking import Asker
from windlass_sidecar.chat_params import ChatStream
from windlass_sidecar.errors import Code, RpcError, invalid_params
from windlass_sidecar.history import Conversation, RemindedModel, conversation
from windlass_sidecar.host_tools import tools_of
from windlass_sidecar.limits import STREAMS_MAX
from windlass_sidecar.peers import Host
from windlass_sidecar.providers import close, provider_of
from windlass_sidecar.pump import DONE, ERROR, Teller
from windlass_sidecar.secrets import GrowingScribe

_LOG: Final = logging.getLogger(__name__)

_DIGEST_CHARS: Final = 32
_SOURCE: Final = SourceRef(kind=SourceKind.HOST, id="sidecar")
_GOES_ON: Final = "the sidecar ends; ask for the stream again, with the same streamId, to go on with it"
_KEPT: Final = CodecLimits(message_bytes_max=CONTENT_BYTES_MAX, depth_max=128)


@dataclass(slots=True, eq=False)
class Stream:
    """A stream that goes on."""

    stream_id: str
    handle: RunHandle | None = None
    provider: LLMProvider | None = None
    is_cancelled: bool = False
    """Whether it was cancelled before its run was there."""
    task: asyncio.Task[None] | None = None

    @property
    def agent_id(self) -> str:
        """The name of the agent that answers in it; every stream has its own."""
        return f"chat-{sha256(self.stream_id.encode()).hexdigest()[:_DIGEST_CHARS]}"


class Streams:
    """The streams that go on."""

    def __init__(
        self, runtime: AgentRuntime, scribe: GrowingScribe, *, tools: ToolRouter, host: Host
    ) -> None:
        self._runtime = runtime
        self._scribe = scribe
        self._tools = tools
        self._host = host
        self._streams: dict[str, Stream] = {}
        self._orphans: list[Stream] = []
        """Streams that are told no more and whose runs go on."""

    def __len__(self) -> int:
        return len(self._streams)

    def __contains__(self, stream_id: str) -> bool:
        return stream_id in self._streams

    def reserve(self, stream_id: str) -> Stream:
        """Take a name; from now on the stream can be cancelled.

        Raises:
            RpcError: it is in use, or there are too many streams.
        """
        if stream_id in self._streams:
            raise invalid_params("streamId: this stream is running already")
        if len(self._streams) >= STREAMS_MAX:
            raise RpcError(Code.TRANSPORT, f"too many streams at the same time: limit {STREAMS_MAX}")
        self._streams[stream_id] = stream = Stream(stream_id)
        return stream

    async def begin(
        self, stream: Stream, asked: ChatStream, *, owners: Callable[[], Awaitable[JsonObject]]
    ) -> RunHandle:
        """Start the run of a stream; return once it is durable. `owners` says whose it is.

        Raises:
            RpcError, AgentError: it cannot be run; the name is free again.
        """
        try:
            return await self._begin(stream, asked, await owners())
        except BaseException:
            await self._release(stream)
            raise

    async def _begin(self, stream: Stream, asked: ChatStream, owners: JsonObject) -> RunHandle:
        said = conversation(asked.messages)
        if asked.session_id is not None and not said.is_one_message:
            raise invalid_params(
                "messages: a stream with a sessionId has one message, the session has the rest"
            )
        if asked.api_key is not None:
            self._scribe.learn(asked.api_key)
        agent = self._agent(stream, asked, said)
        self._runtime.ports.registry.add(register_agent(agent), replace=True)
        can_ask = self._host.can_ask_people if asked.request_input is None else asked.request_input
        stream.handle = await self._runtime.start(
            agent,
            said.asked,
            run_id=stream.stream_id,
            session_id=asked.session_id,
            capabilities=SessionCapabilities(request_input=can_ask),
            budget=_budget(asked),
            metadata={**owners, **_facts(asked), **await self._kept(said)},
            source=_SOURCE,
        )
        if stream.is_cancelled:
            await stream.handle.cancel(by="host")
        return stream.handle

    def _agent(self, stream: Stream, asked: ChatStream, said: Conversation) -> Agent:
        stream.provider = provider_of(
            asked.provider,
            asked.model,
            base_url=asked.base_url,
            api_key=asked.api_key,
            max_tokens=asked.max_tokens,
        )
        return Agent(
            stream.agent_id,
            model=RemindedModel(stream.provider, said, route_id=asked.provider, model_id=asked.model),
            instructions=said.instructions,
            tools=tools_of(asked.tools, self._tools, ask=self._host.call, stream_id=stream.stream_id),
            temperature=asked.temperature,
        )

    async def _kept(self, said: Conversation) -> JsonObject:
        """Keep what was said before; return what names it."""
        content = self._runtime.ports.content
        if said.is_one_message or content is None:
            return {}
        masked = self._scribe.redactor.value(said.data)
        ref = await content.put(encode(masked, _KEPT))  # pyright: ignore[reportArgumentType] - JSON in, JSON out
        return {"history": ref.model_dump(mode="json", by_alias=True)}

    def tell(self, stream: Stream, on_end: Callable[[], Awaitable[None]]) -> None:
        """Begin to tell the host of a stream; it can be told once."""
        assert stream.handle is not None, "it has begun"
        stream.task = asyncio.create_task(self._tell(stream, stream.handle, on_end))

    async def cancel(self, stream_id: str) -> None:
        """Ask a stream to end; one that has ended stays as it is.

        Raises:
            Conflict: there never was one.
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
        """Tell the host of no stream any more; their runs stay as they are."""
        for stream in tuple(self._streams.values()):
            if stream.task is not None:
                stream.task.cancel()
                await asyncio.wait((stream.task,))
                await self._break_off(stream, "transport_closed", _GOES_ON)

    async def aclose(self) -> None:
        """Let go of all providers; the runtime asks them no more."""
        left = (*self._streams.values(), *self._orphans)
        self._orphans.clear()
        for stream in left:
            await self._release(stream)

    async def _tell(self, stream: Stream, handle: RunHandle, on_end: Callable[[], Awaitable[None]]) -> None:
        teller, asker = Teller(), Asker(self._host, handle)
        end: JsonObject = {"ok": False}
        try:
            async with aclosing(handle.events()) as events:
                async for event in events:
                    for method, params in teller.told(event):
                        if method == DONE:
                            end = params
                        else:
                            await self._say(stream, method, params)
                    asker.hear(event)
            # Whoever hears of the end may begin the next at once.
            await self._release(stream)
            await on_end()
            await self._say(stream, DONE, end)
        except AgentError as error:
            _LOG.error("a stream cannot be told any more: %s", error.kind)
            await self._break_off(stream, "internal", error.message)
            # Its run goes on and needs its model.
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
        self._runtime.ports.registry.remove(stream.agent_id)
        provider, stream.provider = stream.provider, None
        if provider is not None:
            await close(provider)


def _budget(asked: ChatStream) -> BudgetLimits | None:
    if asked.budget is None:
        return None
    try:
        return BudgetLimits.model_validate(asked.budget)
    except ValidationError:
        pass
    raise invalid_params('budget: expected limits such as {"maxSteps": 20}')


def _facts(asked: ChatStream) -> JsonObject:
    """What a run records of how it was asked for; the same words are the same run."""
    facts: JsonObject = {"baseUrl": asked.base_url, "maxTokens": asked.max_tokens}
    return {name: value for name, value in facts.items() if value is not None}
