"""The parts of a chat: its parameters, messages, model, tools of the host, and questions to people."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Annotated, Final, Literal, cast
from urllib.parse import urlsplit

from pydantic import AliasChoices, Field, JsonValue, TypeAdapter, ValidationError, field_validator
from pydantic_core import from_json, to_json

from windlass import RunHandle, Tool, ToolContext, ToolFailed
from windlass.errors import AgentError, Conflict
from windlass.models import ROUTE_IDS, ModelSettings, ProviderOptions, make_provider
from windlass.ports.model import LLMMessage, LLMProvider, LLMStreamChunk
from windlass.tools import KitOptions, ToolOptions, json_tool
from windlass.tools.router import ToolRouter
from windlass_harness.views.stream import Change, RequestAnswered, RequestsOpened
from windlass_protocol import (
    HostInputRequest,
    HostToolCall,
    InputRequest,
    JsonObject,
    ToolCall,
    ToolResult,
    UserContent,
)
from windlass_protocol.frozen import sealed
from windlass_sidecar.limits import ASKED_MAX, MESSAGES_MAX, TOOLS_MAX
from windlass_sidecar.rpc import INPUT, Host, Name, Params, RpcError, invalid_params, read_params

_LOG: Final = logging.getLogger(__name__)

CALL: Final = "host.tool.call"
"""The request that has the host execute a tool."""
_MODEL_CHARS_MAX: Final = 256
_URL_CHARS_MAX: Final = 2_048
_USER_CONTENT: Final = TypeAdapter[UserContent](UserContent)

Shape = Literal["steerable", "events"]
"""The shape of a stream: `StreamShape` of the spec."""


# messages


class FunctionCall(Params):
    """The function of a tool call in OpenAI's format."""

    name: str
    arguments: str | dict[str, JsonValue] = ""


class AssistantCall(Params):
    """A tool call of the assistant: `{id, name, arguments}`, or OpenAI's format."""

    id: str
    name: str | None = None
    arguments: dict[str, JsonValue] | None = None
    function: FunctionCall | None = None


class HostMessage(Params):
    """One message of a chat: a `ChatMessage`, or OpenAI's format."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, JsonValue]] | None = None
    tool_calls: Annotated[
        list[AssistantCall] | None, Field(validation_alias=AliasChoices("toolCalls", "tool_calls"))
    ] = None
    tool_call_id: Annotated[
        str | None, Field(validation_alias=AliasChoices("toolCallId", "tool_call_id"))
    ] = None
    name: str | None = None
    tool_result: dict[str, JsonValue] | None = None


@sealed
class ChatConversation:
    """The messages of a stream, sorted."""

    instructions: str
    past: tuple[LLMMessage, ...]
    """Messages before the question."""
    question: UserContent
    """The question: the last message of the user."""
    since: tuple[LLMMessage, ...]
    """Messages after the question, as tool calls that were made before."""

    @property
    def is_one_message(self) -> bool:
        """Whether the question is the only message."""
        return not self.past and not self.since

    @property
    def data(self) -> JsonObject:
        """The messages before and after the question, as JSON."""
        return {"past": [*map(_plain, self.past)], "since": [*map(_plain, self.since)]}


def conversation(messages: Sequence[HostMessage]) -> ChatConversation:
    """Sort messages; the last one of the user is the question.

    Raises:
        RpcError: there is no message of the user, or a message cannot be used.
    """
    instructions = [_text(message) for message in messages if message.role in ("system", "developer")]
    turns = [message for message in messages if message.role not in ("system", "developer")]
    users = [at for at, message in enumerate(turns) if message.role == "user"]
    if not users:
        raise invalid_params("messages: expected at least one message of role user")
    last = users[-1]
    return ChatConversation(
        "\n\n".join(instructions),
        tuple(_model_message(message) for message in turns[:last]),
        _content(turns[last]),
        tuple(_model_message(message) for message in turns[last + 1 :]),
    )


class RemindedModel:
    """A model that also gets the messages from before its session."""

    def __init__(self, model: LLMProvider, chat: ChatConversation, *, route_id: str, model_id: str) -> None:
        self.route_id = route_id
        self.model_id = model_id
        self._model = model
        self._chat = chat

    def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        """Answer the messages; see `LLMProvider`."""
        return self._model.stream(self._whole(messages), tools=tools, temperature=temperature)

    def _whole(self, messages: Sequence[LLMMessage]) -> Sequence[LLMMessage]:
        if self._chat.is_one_message:
            return messages
        first = next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))
        after = next((at + 1 for at, message in enumerate(messages) if message.role == "user"), first)
        return (
            *messages[:first],
            *self._chat.past,
            *messages[first:after],
            *self._chat.since,
            *messages[after:],
        )


def _text(message: HostMessage) -> str:
    content = message.content
    if isinstance(content, str) or content is None:
        return content or ""
    return "".join(str(part.get("text", "")) for part in content if part.get("type") == "text")


def _content(message: HostMessage) -> UserContent:
    if not isinstance(message.content, list):
        return message.content or ""
    try:
        return _USER_CONTENT.validate_python(message.content)
    except ValidationError:
        pass
    raise invalid_params("messages: expected parts of type text, image and file")


def _model_message(message: HostMessage) -> LLMMessage:
    match message.role:
        case "user":
            _content(message)
            parts = tuple(message.content) if isinstance(message.content, list) else ()
            return LLMMessage("user", _text(message), parts=parts)
        case "tool":
            if message.tool_call_id is None:
                raise invalid_params("messages: expected toolCallId in a message of role tool")
            result = message.tool_result
            text = _text(message) or ("" if result is None else to_json(result).decode())
            is_error = result is not None and result.get("success") is False
            return LLMMessage(
                "tool", text, tool_call_id=message.tool_call_id, name=message.name, is_error=is_error
            )
        case _:
            calls = tuple(_call(call) for call in message.tool_calls or ())
            return LLMMessage("assistant", _text(message), tool_calls=calls)


def _call(call: AssistantCall) -> ToolCall:
    name, arguments = call.name, call.arguments
    if call.function is not None:
        name = call.function.name
        raw = call.function.arguments
        arguments = raw if isinstance(raw, dict) else _object(raw)
    if not name:
        raise invalid_params("messages: expected a name in each tool call")
    return ToolCall(id=call.id, name=name, arguments=arguments or {})


def _object(text: str) -> JsonObject:
    try:
        value: object = from_json(text or "{}")
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise invalid_params("messages: expected a JSON object as the arguments of a tool call")
    return cast(JsonObject, value)


def _plain(message: LLMMessage) -> JsonValue:
    body: JsonObject = {"role": message.role, "content": [*message.parts] or message.content}
    if message.tool_calls:
        body["toolCalls"] = [call.model_dump(mode="json", by_alias=True) for call in message.tool_calls]
    if message.tool_call_id is not None:
        body["toolCallId"] = message.tool_call_id
    return body


# parameters


class ChatStream(Params):
    """Parameters of `agent.chat.stream`."""

    provider: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.-]+$")]
    model: Annotated[str, Field(min_length=1, max_length=_MODEL_CHARS_MAX)]
    messages: Annotated[list[HostMessage], Field(min_length=1, max_length=MESSAGES_MAX)]
    base_url: Annotated[str | None, Field(max_length=_URL_CHARS_MAX)] = None
    api_key: Annotated[str | None, Field(repr=False)] = None
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    max_tokens: Annotated[int | None, Field(gt=0)] = None
    tools: Annotated[list[str | dict[str, JsonValue]] | None, Field(max_length=TOOLS_MAX)] = None
    stream_id: Name | None = None
    session_id: Name | None = None
    """The session to continue: its history is in the journal. A session of a new id is made."""
    request_input: bool | None = None
    """Whether people can be asked; if absent, as the host said by `protocol.describe`."""
    budget: dict[str, JsonValue] | None = None
    shape: Shape | None = None
    """`steerable` if absent. It is no part of the run: a stream can be asked for again in the other shape."""

    @field_validator("base_url")
    @classmethod
    def _is_plain_address(cls, value: str | None) -> str | None:
        """Refuse an address with a login or a query: addresses are recorded."""
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("expected an address that begins with http:// or https://")
        if parts.username is not None or parts.password is not None or parts.query:
            raise ValueError("expected an address without a login or a query; give the key as apiKey")
        return value


# models


def provider_of(
    name: str, model: str, *, base_url: str | None, api_key: str | None, max_tokens: int | None
) -> LLMProvider:
    """Return the model of a stream.

    A missing key is taken from the environment, as `OPENAI_API_KEY`, but never for an address that the host
    names, which any party may own. A server at such an address has the API of the provider.

    Raises:
        RpcError: the provider is unknown.
        Unavailable: the key is missing.
    """
    settings = ModelSettings(max_tokens=max_tokens)
    provider = make_provider(name, model, ProviderOptions(api_key, base_url, settings))
    if provider is None:
        raise invalid_params(
            f"provider: expected one of {', '.join(ROUTE_IDS)}; "
            "openai-compat with a baseUrl is any server of the Chat Completions API"
        )
    return provider


async def close(provider: LLMProvider) -> None:
    """Close the connections of a provider, if it has any."""
    end = cast("Callable[[], Awaitable[None]] | None", getattr(provider, "aclose", None))
    if end is not None:
        await end()


# tools of the host


class HostTool(Params):
    """A tool as the host describes it."""

    name: str
    description: str = ""
    input_schema: dict[str, JsonValue] | None = None
    parameters: dict[str, JsonValue] | None = None
    """Another name of the schema."""
    mode: Literal["read", "safe_write", "destructive", "local", "external"] | None = None
    effect: Literal["read", "idempotent", "once"] | None = None
    approval: Literal["policy", "always", "once", "never"] | None = None
    timeout_ms: Annotated[int | None, Field(gt=0)] = None
    is_outbound: bool | None = None
    reads: list[Literal["untrusted", "private"]] | None = None


class _Function(Params):
    """A tool as OpenAI describes it."""

    function: dict[str, JsonValue]


def tools_of(
    items: list[str | dict[str, JsonValue]] | None, own: ToolRouter, *, host: Host, stream_id: str
) -> list[Tool[..., object]]:
    """Return the tools of a stream.

    A name is a tool of the sidecar, a description is one of the host. Without a list, these are all tools of
    the sidecar.

    Raises:
        RpcError, Rejected: one of them cannot be used.
    """
    if items is None:
        return own.list_tools()
    tools: list[Tool[..., object]] = []
    for item in items:
        if isinstance(item, str):
            tool = own.get(item)
            if tool is None:
                raise invalid_params("tools: unknown tool of the sidecar; tool.list names them")
            tools.append(tool)
        else:
            tools.append(_host_tool(item, host=host, stream_id=stream_id))
    return tools


def _host_tool(described: JsonObject, *, host: Host, stream_id: str) -> Tool[..., object]:
    if "function" in described and "name" not in described:
        described = {**described, **read_params(_Function, described).function}
    about = read_params(HostTool, described)
    schema = about.input_schema or about.parameters or {"type": "object"}

    async def run(arguments: JsonObject, context: ToolContext) -> ToolResult:
        return await _call_host(host, about.name, arguments=arguments, context=context, stream_id=stream_id)

    options: dict[str, object] = {
        "name": about.name,
        "description": about.description,
        "mode": about.mode,
        "effect": about.effect,
        "approval": about.approval,
        "timeout": None if about.timeout_ms is None else about.timeout_ms / 1_000,
    }
    tool = json_tool(run, schema, **cast(ToolOptions, _without_none(options)))
    kit = _without_none({"is_outbound": about.is_outbound, "reads": about.reads, "metadata": {"host": True}})
    return tool.with_options(**cast(KitOptions, kit))


def _without_none(options: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in options.items() if value is not None}


async def _call_host(
    host: Host, name: str, *, arguments: JsonObject, context: ToolContext, stream_id: str
) -> ToolResult:
    params = HostToolCall(
        stream_id=stream_id,
        session_id=context.session_id,
        call=ToolCall(id=context.call_id, name=name, arguments=arguments),
        idempotency_key=context.idempotency_key,
        attempt=context.attempt,
        timeout_ms=context.timeout_ms,
    )
    try:
        answer = await host.call(CALL, params.model_dump(mode="json", by_alias=True))
        return ToolResult.model_validate(answer)
    except RpcError as error:
        problem = error.message
    except ValidationError:
        problem = "the host answered host.tool.call with something else than a ToolResult"
    raise ToolFailed(problem)


# questions to people


class HostAnswer(Params):
    """An answer of a person: one of the options, a text, or both."""

    option_id: str | None = None
    text: str | None = None
    responder: str | None = None
    arguments: JsonObject | None = None
    """With the option approve: the arguments that the call runs with instead of its own."""


class Asker:
    """Brings the requests of one run to the host, and the host's answers to the run."""

    def __init__(self, host: Host, handle: RunHandle) -> None:
        self._host = host
        self._handle = handle
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def hear(self, change: Change) -> None:
        """Send new requests to the host and withdraw settled ones."""
        if isinstance(change, RequestsOpened) and self._host.can_ask_people:
            for ask in change.asks:
                request = ask.request
                self._tasks[request.request_id] = asyncio.create_task(self._ask(request))
        elif isinstance(change, RequestAnswered):
            self._drop(change.ask.request.request_id)

    async def aclose(self) -> None:
        """Withdraw all requests."""
        tasks = tuple(self._tasks.values())
        for request_id in tuple(self._tasks):
            self._drop(request_id)
        if tasks:
            await asyncio.wait(tasks)

    def _drop(self, request_id: str) -> None:
        task = self._tasks.pop(request_id, None)
        if task is not None:
            task.cancel()

    async def _ask(self, request: InputRequest) -> None:
        """Ask until an answer is accepted; `agent.input.answer` can answer a request that stays open."""
        problem: str | None = None
        for _ in range(ASKED_MAX):
            if request.request_id not in {
                open_request.request_id for open_request in await self._handle.open_requests()
            }:
                return
            problem = await self._ask_once(request, problem)
            if problem is None:
                return
            _LOG.warning("the host's answer to host.input.request was refused: %s", problem)

    async def _ask_once(self, request: InputRequest, problem: str | None) -> str | None:
        """Return why the answer was refused; None if there is nothing more to do."""
        params = HostInputRequest(stream_id=self._handle.run_id, request=request, problem=problem)
        try:
            reply = await self._host.call(INPUT, params.model_dump(mode="json", by_alias=True))
            if reply is None:
                return None
            answer = HostAnswer.model_validate(reply)
            await self._handle.answer(
                request.request_id,
                answer.option_id,
                text=answer.text,
                responder=answer.responder,
                arguments=answer.arguments,
            )
        except Conflict as error:
            # The host sees the answer that counts in the events.
            _LOG.warning("the host's answer to host.input.request does not count: %s", error.message)
            return None
        except (AgentError, RpcError) as error:
            return error.message
        except ValidationError:
            return "expected an object with optionId, text, responder and arguments"
        return None
