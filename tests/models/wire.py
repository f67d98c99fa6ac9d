"""A server that speaks the wire formats of models, with scripted faults."""

import asyncio
import json
import struct
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar, cast

from windlass.models import (
    AnthropicProvider,
    AzureOpenAIProvider,
    BedrockProvider,
    GoogleProvider,
    ModelSettings,
    OpenAICompatProvider,
    OpenAIResponsesProvider,
)
from windlass.models.transport import ServedModel
from windlass.ports.model import LLMMessage, LLMStreamChunk, LLMUsage, ToolCallDelta
from windlass_protocol import ToolCall

T = TypeVar("T")
Json = dict[str, Any]
KEY: Final = "sk-test-0123456789abcdef"
HI: Final = (LLMMessage("user", "Hi"),)
WAIT_S: Final = 300


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request."""

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: Mapping[str, str] | None = None
    """When left out, the media type of an answer of the API that was asked."""
    end: Literal["whole", "cut", "hang"] = "whole"
    """Ends in order, is cut off in the middle, or says nothing more until the client leaves."""


def refusal(status: int, body: object, **headers: str) -> Reply:
    """An error of the server, as JSON."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply([json.dumps(body).encode()], status, {"content-type": "application/json", **named})


@dataclass(slots=True)
class Asked:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: Json


class Server:
    """Gives one reply for each request, the last one for all that follow."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._replies = replies
        self.asked: list[Asked] = []
        self.connections = 0
        self.is_asked = asyncio.Event()
        self.left = asyncio.Event()
        """Set when a client goes before its reply is at its end."""
        self.url = ""
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left.set()
        except asyncio.CancelledError:
            # The server is closed; asyncio warns about the closed connection.
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.split(": ", 1) for line in head[1:] if line)
        headers = {name.lower(): value for name, value in pairs}
        body = json.loads(await reader.readexactly(int(headers.get("content-length", "0"))) or b"{}")
        reply = self._replies[min(len(self.asked), len(self._replies) - 1)]
        self.is_asked.set()
        self.asked.append(Asked(head[0].split(" ")[1], headers, body))
        media = FRAMES if head[0].split(" ")[1].endswith("/converse-stream") else "text/event-stream"
        told = {"content-type": media} if reply.headers is None else reply.headers
        lines = [f"HTTP/1.1 {reply.status} X", *(f"{name}: {value}" for name, value in told.items())]
        writer.write("\r\n".join([*lines, "transfer-encoding: chunked", "", ""]).encode())
        for piece in reply.pieces:
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        if reply.end == "whole":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            return True
        if reply.end == "hang":
            # Nothing comes of a client that waits; it ends only when the client goes.
            await reader.read()
            self.left.set()
        return False


@asynccontextmanager
async def serving(*replies: Reply, port: int = 0) -> AsyncGenerator[Server]:
    """A server on loopback."""
    server = Server(replies)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        await server.serve(reader, writer)

    listener = await asyncio.start_server(serve, "127.0.0.1", port)
    server.port = listener.sockets[0].getsockname()[1]
    server.url = f"http://127.0.0.1:{server.port}"
    try:
        yield server
    finally:
        listener.close()
        for task in [*tasks]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Wire:
    """A provider and the format that it speaks."""

    name: str
    make: Callable[[str, ModelSettings], ServedModel]
    text: Callable[[Sequence[str]], list[bytes]]
    """The events of an answer in these pieces."""
    calls: Callable[[Sequence[tuple[str, str, Sequence[str]]]], list[bytes]]
    """The events of an answer that asks for tools: id, name, pieces of arguments."""
    error: Callable[[str], bytes]
    """The event of an error of this type."""
    finish: int
    """The number of final events without content."""
    refuse: Callable[[str, str, object], object]
    """The body of an error: its type, message and code."""
    names: Callable[[Json], list[str]]
    """The names of the tools in a request."""
    said: str
    """The field of a request that has the messages."""
    last: bytes
    """Text in the event that ends the answer."""
    is_sse: bool = True


def event(data: object, name: str | None = None) -> bytes:
    """One event as it is sent."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def openai_chunk(delta: Json | None = None, finish: str | None = None, usage: Json | None = None) -> bytes:
    """One chunk of Chat Completions."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    body: Json = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": choices}
    return event({**body, **({} if usage is None else {"usage": usage})})


OPENAI_USAGE: Final[Json] = {
    "prompt_tokens": 12,
    "completion_tokens": 5,
    "total_tokens": 17,
    "prompt_tokens_details": {"cached_tokens": 8},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
DONE: Final = b"data: [DONE]\n\n"


def openai_text(pieces: Iterable[str]) -> list[bytes]:
    said = [openai_chunk({"content": piece}) for piece in pieces]
    begin, end = openai_chunk({"role": "assistant", "content": ""}), openai_chunk({}, "stop")
    return [begin, *said, end, openai_chunk(usage=OPENAI_USAGE), DONE]


def openai_calls(calls: Iterable[tuple[str, str, Sequence[str]]]) -> list[bytes]:
    events = [openai_chunk({"role": "assistant", "content": None})]
    for index, (call_id, name, pieces) in enumerate(calls):
        function: Json = {"name": name, "arguments": ""}
        first: Json = {"index": index, "id": call_id, "type": "function", "function": function}
        events.append(openai_chunk({"tool_calls": [first]}))
        for piece in pieces:
            events.append(openai_chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    return [*events, openai_chunk({}, "tool_calls"), openai_chunk(usage=OPENAI_USAGE), DONE]


def anthropic_event(kind: str, **fields: object) -> bytes:
    """One event of the Messages API."""
    return event({"type": kind, **fields}, kind)


def anthropic_blocks(blocks: Iterable[tuple[Json, Sequence[Json]]], reason: str) -> list[bytes]:
    """The events of an answer of blocks, each with its deltas."""
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 8}
    events = [anthropic_event("message_start", message={"id": "m", "usage": {**usage, "output_tokens": 1}})]
    for index, (block, deltas) in enumerate(blocks):
        events.append(anthropic_event("content_block_start", index=index, content_block=block))
        events += [anthropic_event("content_block_delta", index=index, delta=delta) for delta in deltas]
        events.append(anthropic_event("content_block_stop", index=index))
    details = {"thinking_tokens": 2}
    spent = {"output_tokens": 5, "output_tokens_details": details}
    events.append(anthropic_event("message_delta", delta={"stop_reason": reason}, usage=spent))
    return [*events, anthropic_event("message_stop")]


def anthropic_text(pieces: Iterable[str]) -> list[bytes]:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    events = anthropic_blocks([({"type": "text", "text": ""}, deltas)], "end_turn")
    return [events[0], anthropic_event("ping"), *events[1:]]


def anthropic_calls(calls: Iterable[tuple[str, str, Sequence[str]]]) -> list[bytes]:
    blocks: list[tuple[Json, Sequence[Json]]] = []
    for call_id, name, pieces in calls:
        block: Json = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces)]
        blocks.append((block, deltas))
    return anthropic_blocks(blocks, "tool_use")


RESPONSES_USAGE: Final[Json] = {
    "input_tokens": 12,
    "input_tokens_details": {"cached_tokens": 8},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 17,
}


def responses_event(kind: str, **fields: object) -> bytes:
    """One event of the Responses API."""
    return event({"type": kind, **fields}, kind)


def responses_end(status: str = "completed", **fields: object) -> bytes:
    """The last event of an answer."""
    response = {"id": "resp_1", "status": status, "usage": RESPONSES_USAGE, "error": None, **fields}
    return responses_event(f"response.{status}", response=response)


def responses_text(pieces: Iterable[str]) -> list[bytes]:
    item: Json = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
    place: Json = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    return [
        responses_event("response.created", response={"id": "resp_1", "status": "in_progress"}),
        responses_event("response.output_item.added", output_index=0, item=item),
        *(responses_event("response.output_text.delta", delta=piece, **place) for piece in pieces),
        responses_event("response.output_item.done", output_index=0, item=item),
        responses_end(),
    ]


def responses_calls(calls: Iterable[tuple[str, str, Sequence[str]]]) -> list[bytes]:
    events = [responses_event("response.created", response={"id": "resp_1"})]
    for index, (call_id, name, pieces) in enumerate(calls):
        item: Json = {"type": "function_call", "id": f"fc_{index}", "call_id": call_id, "name": name}
        begin: Json = {**item, "arguments": ""}
        events.append(responses_event("response.output_item.added", output_index=index, item=begin))
        for piece in pieces:
            place: Json = {"item_id": f"fc_{index}", "output_index": index, "delta": piece}
            events.append(responses_event("response.function_call_arguments.delta", **place))
        done: Json = {**item, "arguments": "".join(pieces)}
        events.append(responses_event("response.output_item.done", output_index=index, item=done))
    return [*events, responses_end()]


GOOGLE_USAGE: Final[Json] = {
    "promptTokenCount": 12,
    "candidatesTokenCount": 3,
    "thoughtsTokenCount": 2,
    "cachedContentTokenCount": 8,
    "totalTokenCount": 17,
}


def google_event(parts: Sequence[Json], finish: str | None = None) -> bytes:
    """One chunk of the Gemini API."""
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return event({"candidates": [candidate], "usageMetadata": GOOGLE_USAGE, "modelVersion": "m"})


def google_text(pieces: Iterable[str]) -> list[bytes]:
    return [
        event({"candidates": [{"content": {"role": "model"}, "index": 0}]}),
        *(google_event([{"text": piece}]) for piece in pieces),
        google_event([{"text": ""}], "STOP"),
    ]


def google_calls(calls: Iterable[tuple[str, str, Sequence[str]]]) -> list[bytes]:
    parts: list[Json] = []
    for call_id, name, pieces in calls:
        arguments = json.loads("".join(pieces) or "{}")
        parts.append({"functionCall": {"id": call_id, "name": name, "args": arguments}})
    return [google_event(parts), google_event([{"text": ""}], "STOP")]


FRAMES: Final = "application/vnd.amazon.eventstream"
CLAUDE: Final = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"


def frame(kind: str, data: object, message: str = "event") -> bytes:
    """One frame of an event stream of AWS: a prelude, headers, a payload, and two checksums."""
    named = {":message-type": message, f":{message}-type": kind, ":content-type": "application/json"}
    headers = b"".join(
        struct.pack("!B", len(name)) + name.encode() + b"\x07" + struct.pack("!H", len(text)) + text.encode()
        for name, text in named.items()
    )
    payload = json.dumps(data).encode()
    prelude = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    whole = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + payload
    return whole + struct.pack("!I", zlib.crc32(whole))


def bedrock_end(reason: str) -> list[bytes]:
    """The last frames of an answer."""
    usage = {"inputTokens": 3, "outputTokens": 5, "cacheReadInputTokens": 8, "cacheWriteInputTokens": 1}
    return [frame("messageStop", {"stopReason": reason}), frame("metadata", {"usage": usage, "metrics": {}})]


def bedrock_text(pieces: Iterable[str]) -> list[bytes]:
    deltas = [
        frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": piece}}) for piece in pieces
    ]
    begin, stop = (
        frame("messageStart", {"role": "assistant"}),
        frame("contentBlockStop", {"contentBlockIndex": 0}),
    )
    return [begin, *deltas, stop, *bedrock_end("end_turn")]


def bedrock_calls(calls: Iterable[tuple[str, str, Sequence[str]]]) -> list[bytes]:
    frames = [frame("messageStart", {"role": "assistant"})]
    for index, (call_id, name, pieces) in enumerate(calls):
        place: Json = {"contentBlockIndex": index}
        start: Json = {"toolUse": {"toolUseId": call_id, "name": name}}
        frames.append(frame("contentBlockStart", {**place, "start": start}))
        for piece in pieces:
            frames.append(frame("contentBlockDelta", {**place, "delta": {"toolUse": {"input": piece}}}))
        frames.append(frame("contentBlockStop", place))
    return [*frames, *bedrock_end("tool_use")]


def _openai(url: str, settings: ModelSettings) -> OpenAICompatProvider:
    return OpenAICompatProvider("m", api_key=KEY, base_url=f"{url}/v1", settings=settings)


def _anthropic(url: str, settings: ModelSettings) -> AnthropicProvider:
    return AnthropicProvider("m", api_key=KEY, base_url=url, settings=settings)


def _responses(url: str, settings: ModelSettings) -> OpenAIResponsesProvider:
    return OpenAIResponsesProvider("m", api_key=KEY, base_url=f"{url}/v1", settings=settings)


def azure(url: str, settings: ModelSettings) -> AzureOpenAIProvider:
    return AzureOpenAIProvider("m", api_key=KEY, base_url=url, settings=settings, environment={})


def _google(url: str, settings: ModelSettings) -> GoogleProvider:
    return GoogleProvider("m", api_key=KEY, base_url=url, settings=settings)


def _bedrock(url: str, settings: ModelSettings) -> BedrockProvider:
    return BedrockProvider(CLAUDE, api_key=KEY, base_url=url, region="eu-west-1", settings=settings)


def _openai_body(kind: str, message: str, code: object) -> object:
    return {"error": {"message": message, "type": kind, "code": code, "param": None}}


def _anthropic_body(kind: str, message: str, _: object) -> object:
    return {"type": "error", "error": {"type": kind, "message": message}}


def _google_body(kind: str, message: str, _: object) -> object:
    return {"error": {"code": 400, "message": message, "status": kind}}


def _bedrock_body(kind: str, message: str, _: object) -> object:
    return {"__type": kind, "message": message}


def _openai_names(body: Json) -> list[str]:
    return [tool["function"]["name"] for tool in body["tools"]]


def _plain_names(body: Json) -> list[str]:
    return [tool["name"] for tool in body["tools"]]


def _google_names(body: Json) -> list[str]:
    return [tool["name"] for tool in body["tools"][0]["functionDeclarations"]]


def _bedrock_names(body: Json) -> list[str]:
    return [tool["toolSpec"]["name"] for tool in body["toolConfig"]["tools"] if "toolSpec" in tool]


_SECRET: Final = f"secret words {KEY}"

OPENAI: Final = Wire(
    "openai",
    _openai,
    openai_text,
    openai_calls,
    lambda kind: event(_openai_body(kind, _SECRET, None)),
    finish=2,
    refuse=_openai_body,
    names=_openai_names,
    said="messages",
    last=b'"stop',
)
ANTHROPIC: Final = Wire(
    "anthropic",
    _anthropic,
    anthropic_text,
    anthropic_calls,
    lambda kind: anthropic_event("error", error={"type": kind, "message": _SECRET}),
    finish=0,
    refuse=_anthropic_body,
    names=_plain_names,
    said="messages",
    last=b'"stop',
)
RESPONSES: Final = Wire(
    "responses",
    _responses,
    responses_text,
    responses_calls,
    lambda kind: responses_event("error", code=kind, message=_SECRET, param=None),
    finish=0,
    refuse=_openai_body,
    names=_plain_names,
    said="input",
    last=b"response.completed",
)
GOOGLE: Final = Wire(
    "google",
    _google,
    google_text,
    google_calls,
    lambda kind: event(
        _google_body(kind, _SECRET, None) if kind != "something_new" else {"error": {}, "x": 1}
    ),
    finish=0,
    refuse=_google_body,
    names=_google_names,
    said="contents",
    last=b'"STOP',
)
BEDROCK: Final = Wire(
    "bedrock",
    _bedrock,
    bedrock_text,
    bedrock_calls,
    lambda kind: frame(kind, {"message": _SECRET}, "exception"),
    finish=1,
    refuse=_bedrock_body,
    names=_bedrock_names,
    said="messages",
    last=b"stopReason",
    is_sse=False,
)
WIRES: Final = {wire.name: wire for wire in (OPENAI, ANTHROPIC, RESPONSES, GOOGLE, BEDROCK)}
SSE: Final = {wire.name: wire for wire in WIRES.values() if wire.is_sse}


@dataclass(slots=True)
class Collected:
    """The chunks of an answer, put together."""

    text: str = ""
    reasoning: str = ""
    calls: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    """Id, name and arguments, by index."""
    finish: str | None = None
    usage: LLMUsage | None = None

    def take(self, chunk: LLMStreamChunk) -> None:
        self.text += chunk.content_delta or ""
        self.reasoning += chunk.reasoning_delta or ""
        self.usage = chunk.usage or self.usage
        self.finish = self.finish if chunk.finish_reason is None else str(chunk.finish_reason)
        delta = chunk.tool_call_delta
        if isinstance(delta, ToolCallDelta):
            call = self.calls.setdefault(delta.index, ["", "", ""])
            call[0], call[1] = delta.id or call[0], delta.name or call[1]
            call[2] += delta.arguments_delta
        elif isinstance(delta, ToolCall):
            self.calls[len(self.calls)] = [delta.id, delta.name, json.dumps(delta.arguments)]


async def collect(chunks: AsyncIterator[LLMStreamChunk]) -> Collected:
    """Read an answer to its end."""
    heard = Collected()
    async for chunk in chunks:
        heard.take(chunk)
    return heard


def play(work: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine to its end, with a timeout."""

    async def bounded() -> T:
        async with asyncio.timeout(WAIT_S):
            return await work()

    return asyncio.run(bounded())


def ask(
    wire: Wire,
    *replies: Reply,
    messages: Sequence[LLMMessage] = HI,
    settings: ModelSettings | None = None,
    **options: object,
) -> tuple[Collected, list[Asked]]:
    """Call a provider once; return its answer and the request that the server got."""

    async def work() -> tuple[Collected, list[Asked]]:
        async with serving(*replies) as server:
            provider = wire.make(server.url, settings or ModelSettings())
            try:
                return await collect(provider.stream(messages, **cast(Any, options))), server.asked
            finally:
                await provider.aclose()

    return play(work)
