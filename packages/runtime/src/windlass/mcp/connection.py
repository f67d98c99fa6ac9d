"""An MCP client session in its own task, and the results of its calls.

The MCP client must be closed by the task that opened it, and calls come from many tasks. So one task owns it:
a failure inside ends that task and no other.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, cast

import anyio
from mcp import Client
from mcp.client import ClientRequestContext, ClientSession
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    PARSE_ERROR,
    AudioContent,
    BlobResourceContents,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    Implementation,
    InputRequiredResult,
    InputResponses,
    PaginatedRequestParams,
    ResourceLink,
    TextContent,
    Tool,
    ToolListChangedNotification,
)
from pydantic import JsonValue, TypeAdapter, ValidationError

from windlass.mcp.server import (
    ERROR_CHARS_MAX,
    INPUT_ROUNDS_MAX,
    LIST_TIMEOUT_MS,
    PAGES_MAX,
    TOOLS_PER_SERVER_MAX,
    McpServer,
    Trouble,
)
from windlass.mcp.tools import PARTS, Definition
from windlass.mcp.transports import (
    GuardedStream,
    StderrTail,
    Streams,
    http_transport,
    stdio_transport,
)
from windlass.ports.host import Elicitation
from windlass.tools import ToolFailed
from windlass.tools.calling import after_few_checks, in_masking_thread
from windlass.tools.json_schema import schema_faults
from windlass.tools.results import is_light, result_value
from windlass_protocol import JsonObject
from windlass_protocol.codec_errors import printable

_MADE = "the call was made; do not repeat it only because of this"


def value_of(definition: Definition, result: CallToolResult) -> JsonValue:
    """Return a result for the model.

    Raises:
        ToolFailed: the tool failed, or its result does not match its output schema.
    """
    parts = [_part(block) for block in result.content]
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    if result.is_error:
        raise ToolFailed("\n".join(texts) or f"{definition.name} failed without a message")
    has_structure = "structured_content" in result.model_fields_set and result.structured_content is not None
    if definition.output_schema is not None:
        _check(definition, result_value(result.structured_content), has_structure=has_structure)
    if not has_structure:
        return _join_parts(parts)
    structured = result_value(result.structured_content)
    # The texts of a structured result repeat it.
    others: list[JsonValue] = [part for part in parts if not isinstance(part, str)]
    return structured if not others else {"structured": structured, "content": others}


def _check(definition: Definition, value: JsonValue, *, has_structure: bool) -> None:
    schema = definition.output_schema
    assert schema is not None, "only a result with a schema is checked"
    if not has_structure:
        raise ToolFailed(f"{definition.name} did not return the structured content of its schema; {_MADE}")
    faults = schema_faults(schema, value)
    if faults:
        raise ToolFailed(
            f"{definition.name} returned content that does not fit its schema: {'; '.join(faults)}; {_MADE}"
        )


def _join_parts(parts: Sequence[JsonValue]) -> JsonValue:
    if all(isinstance(part, str) for part in parts):
        return "\n".join(str(part) for part in parts)
    return list(parts)


def _part(block: ContentBlock) -> JsonValue:
    match block:
        case TextContent():
            return result_value(block.text)
        case ImageContent() | AudioContent():
            return {"$omitted": f"{block.type} {block.mime_type}, {_size(block.data):,} bytes"}
        case ResourceLink():
            link: JsonObject = {"resource": str(block.uri), "name": block.name}
            return link if block.description is None else {**link, "description": block.description}
        case EmbeddedResource():
            return _resource(block)


def _resource(block: EmbeddedResource) -> JsonValue:
    inside = block.resource
    description: JsonObject = {"resource": str(inside.uri)}
    if isinstance(inside, BlobResourceContents):
        kind = inside.mime_type or "bytes"
        return {**description, "$omitted": f"{kind}, {_size(inside.blob):,} bytes"}
    return {**description, "text": inside.text}


def _size(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")


_RESULT: Final[TypeAdapter[CallToolResult | InputRequiredResult]] = TypeAdapter(
    CallToolResult | InputRequiredResult
)
_DECLINED: Final = ElicitResult(action="decline")
_STATE_DELAY_S: Final = 0.1
"""Delay before a request is repeated on behalf of the server."""


class McpConnection:
    """A connected server; the connection may end at any time."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._ending = asyncio.Event()
        self._opened: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._guard: GuardedStream | None = None
        self._log = StderrTail()
        self._task = asyncio.create_task(self._keep(), name=f"windlass-mcp-{server.name}")
        self.is_open = True
        self.is_stale = True
        """The list of tools may have changed since it was read."""

    @classmethod
    async def open(cls, server: McpServer) -> "McpConnection":
        """Connect to a server.

        Raises:
            Trouble: it cannot be started or reached, or does not answer in time.
        """
        connection = cls(server)
        try:
            async with asyncio.timeout(server.start_timeout_ms / 1_000):
                await asyncio.shield(connection._opened)
            return connection
        except TimeoutError:
            await connection.close()
        except BaseException:
            await connection.close()
            raise
        problem = f"it did not answer within {server.start_timeout_ms:,} ms"
        raise Trouble(problem, is_lost=True, log=connection._log.text())

    async def close(self) -> None:
        """End the connection, and the process if there is one."""
        self._end()
        if not self._opened.done():
            # It is still connecting, where it does not check whether it should end.
            self._task.cancel()
        await asyncio.wait((self._task,))
        if self._opened.done() and not self._opened.cancelled():
            self._opened.exception()

    async def tools(self) -> tuple[Definition, ...]:
        """Return the current list of tools of the server.

        Raises:
            Trouble: the server does not answer, or the list does not end.
        """
        self.is_stale = False
        try:
            async with asyncio.timeout(LIST_TIMEOUT_MS / 1_000):
                definitions = [_definition(self._server.name, tool) for tool in await self._list_tools()]
        except Exception as error:  # noqa: BLE001 - the boundary to the server: it may cause any exception
            raise in_our_words(error) from None
        names = [definition.tool for definition in definitions]
        if len(set(names)) < len(names):
            raise Trouble("it has two tools with the same name", is_lost=False)
        return tuple(definitions)

    async def call(
        self, definition: Definition, arguments: JsonObject, *, progress: ProgressFnT
    ) -> JsonValue:
        """Call a tool and return its result; a cancellation is sent to the server.

        Raises:
            ToolFailed: the tool failed, or its result does not match its schema.
            Trouble: there is no result.
        """
        try:
            result = await self._call(definition.tool, arguments, progress)
        except MCPError as error:
            self.is_stale |= error.code == HEADER_MISMATCH
            raise in_our_words(error) from None
        except Exception as error:  # noqa: BLE001 - the boundary to the server: it may cause any exception
            raise in_our_words(error) from None
        read = partial(value_of, definition, result)
        # In a thread: a large result, and one whose schema takes many checks, hold up the loop.
        return await (after_few_checks if is_light(result.structured_content) else in_masking_thread)(read)

    # requests

    def _session(self) -> ClientSession:
        if self._guard is not None:
            self._guard.note_request()
        return self._opened.result()

    async def _list_tools(self) -> list[Tool]:
        tools: list[Tool] = []
        cursor: str | None = None
        for _ in range(PAGES_MAX):
            page = await self._session().list_tools(params=PaginatedRequestParams(cursor=cursor))
            tools += page.tools
            cursor = page.next_cursor
            if len(tools) > TOOLS_PER_SERVER_MAX:
                break
            if cursor is None:
                return tools
        raise Trouble(f"it has more than {TOOLS_PER_SERVER_MAX} tools, or its list has no end", is_lost=False)

    async def _call(self, tool: str, arguments: JsonObject, progress: ProgressFnT) -> CallToolResult:
        responses: InputResponses | None = None
        state: str | None = None
        for _ in range(INPUT_ROUNDS_MAX):
            params = CallToolRequestParams(
                name=tool, arguments=arguments, input_responses=responses, request_state=state
            )
            # Not call_tool of the client: it would validate results against any schema, without limits.
            result = await self._session().send_request(
                CallToolRequest(params=params), _RESULT, progress_callback=progress
            )
            if isinstance(result, CallToolResult):
                return result
            responses, state = await self._inputs(result), result.request_state
        raise Trouble(f"it asked for input more than {INPUT_ROUNDS_MAX} times", is_lost=False)

    async def _inputs(self, result: InputRequiredResult) -> InputResponses | None:
        if not result.input_requests:
            await asyncio.sleep(_STATE_DELAY_S)
            return None
        responses: InputResponses = {}
        for key, request in result.input_requests.items():
            if not isinstance(request, ElicitRequest):
                raise Trouble(f"it requested {request.method}, which is not supported", is_lost=False)
            responses[key] = await self._elicit(None, request.params)
        return responses

    async def _elicit(
        self, context: ClientRequestContext | None, params: ElicitRequestParams
    ) -> ElicitResult:
        handler = self._server.options.get("on_elicitation")
        if handler is None or not isinstance(params, ElicitRequestFormParams):
            return _DECLINED
        schema = cast(JsonObject, params.requested_schema)
        try:
            answer = await handler(Elicitation(self._server.name, params.message, schema))
            if answer is None:
                return _DECLINED
            return ElicitResult.model_validate({"action": "accept", "content": dict(answer)})
        except Exception:  # noqa: BLE001 - any exception of the handler declines the request
            return _DECLINED

    # the task

    async def _keep(self) -> None:
        client = Client(
            self._streams(),
            cache=None,
            client_info=Implementation(name="windlass", version="0"),
            elicitation_callback=self._elicit,
            message_handler=self._hear,
        )
        problem = "it ended before it answered"
        try:
            async with client:
                self._opened.set_result(client.session)
                listener = asyncio.create_task(self._listen(client))
                try:
                    await self._ending.wait()
                finally:
                    listener.cancel()
                    await asyncio.wait((listener,))
        except Exception as error:  # noqa: BLE001 - the boundary to the server: any failure ends only this task
            problem = in_our_words(error).message
        finally:
            self._end()
            if not self._opened.done():
                self._opened.set_exception(Trouble(problem, is_lost=True, log=self._log.text()))

    @asynccontextmanager
    async def _streams(self) -> AsyncGenerator[Streams, None]:
        server = self._server
        transport = http_transport(server) if server.url else stdio_transport(server, self._log)
        async with transport as (incoming, outgoing):
            self._guard = GuardedStream(incoming, self._end)
            yield self._guard, outgoing

    async def _listen(self, client: Client) -> None:
        """Subscribe to changes at servers that send them only on request."""
        with suppress(MCPError, SubscriptionLost, RuntimeError, TimeoutError, anyio.ClosedResourceError):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self.is_stale = True
        self.is_stale = True

    async def _hear(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self.is_stale = True

    def _end(self) -> None:
        self.is_open = False
        self._ending.set()


def _definition(server: str, tool: Tool) -> Definition:
    fields = tool.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return Definition(server, {part: fields[part] for part in PARTS if fields.get(part) is not None})


def in_our_words(error: BaseException) -> Trouble:
    """Return the problem; the text quotes only error messages of the server itself."""
    if isinstance(error, BaseExceptionGroup):
        return in_our_words(cast(BaseExceptionGroup[BaseException], error).exceptions[0])
    match error:
        case Trouble():
            return error
        case MCPError() if error.code == CONNECTION_CLOSED:
            return Trouble("it ended, or closed the connection", is_lost=True)
        case MCPError():
            message = printable(error.message, ERROR_CHARS_MAX)
            return Trouble(f"it answered with an error: {message}", is_lost=error.code == PARSE_ERROR)
        case ValidationError():
            return Trouble("its answer is not valid MCP", is_lost=True)
        case FileNotFoundError() | PermissionError():
            return Trouble("the program or folder does not exist, or is not accessible", is_lost=True)
        case TimeoutError():
            return Trouble("it did not answer in time", is_lost=True)
        case _:
            return Trouble(f"it cannot be reached ({type(error).__name__})", is_lost=True)
