"""Messages as hosts send them, and a model that has heard them before."""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, cast

from pydantic import AliasChoices, Field, JsonValue, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from windlass.ports.model import LLMMessage, LLMProvider, LLMStreamChunk
from windlass_protocol import JsonObject, ToolCall, UserContent
from windlass_sidecar.errors import invalid_params
from windlass_sidecar.params import Params

_USER_CONTENT: Final = TypeAdapter[UserContent](UserContent)


class CalledFunction(Params):
    """The function of a call, as OpenAI writes it."""

    name: str
    arguments: str | dict[str, JsonValue] = ""


class SaidCall(Params):
    """A call of the assistant: `{id, name, arguments}`, or as OpenAI writes it."""

    id: str
    name: str | None = None
    arguments: dict[str, JsonValue] | None = None
    function: CalledFunction | None = None


class Message(Params):
    """One message of a chat; a ChatMessage is one, and one of OpenAI is too."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, JsonValue]] | None = None
    tool_calls: Annotated[
        list[SaidCall] | None, Field(validation_alias=AliasChoices("toolCalls", "tool_calls"))
    ] = None
    tool_call_id: Annotated[
        str | None, Field(validation_alias=AliasChoices("toolCallId", "tool_call_id"))
    ] = None
    name: str | None = None
    tool_result: dict[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """Instructions, the past, what is asked now, and what came since."""

    instructions: str
    past: tuple[LLMMessage, ...]
    asked: UserContent
    since: tuple[LLMMessage, ...]

    @property
    def is_one_message(self) -> bool:
        """Whether nothing was said before or after what is asked."""
        return not self.past and not self.since

    @property
    def data(self) -> JsonObject:
        """The past and what came since, as JSON to keep."""
        return {"past": [*map(_plain, self.past)], "since": [*map(_plain, self.since)]}


def conversation(messages: Sequence[Message]) -> Conversation:
    """Sort messages; the last of the user is what is asked now.

    Raises:
        RpcError: the user says nothing, or a message cannot be used.
    """
    words = [_words(message) for message in messages if message.role in ("system", "developer")]
    said = [message for message in messages if message.role not in ("system", "developer")]
    users = [at for at, message in enumerate(said) if message.role == "user"]
    if not users:
        raise invalid_params("messages: expected at least one of role user")
    asked = users[-1]
    return Conversation(
        "\n\n".join(words),
        tuple(_heard(message) for message in said[:asked]),
        _content(said[asked]),
        tuple(_heard(message) for message in said[asked + 1 :]),
    )


class RemindedModel:
    """A model that hears first what was said before its session began."""

    def __init__(self, model: LLMProvider, said: Conversation, *, route_id: str, model_id: str) -> None:
        self.route_id = route_id
        self.model_id = model_id
        self._model = model
        self._said = said

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
        if self._said.is_one_message:
            return messages
        first = next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))
        after = next((at + 1 for at, one in enumerate(messages) if one.role == "user"), first)
        return (
            *messages[:first],
            *self._said.past,
            *messages[first:after],
            *self._said.since,
            *messages[after:],
        )


def _words(message: Message) -> str:
    content = message.content
    if isinstance(content, str) or content is None:
        return content or ""
    return "".join(str(part.get("text", "")) for part in content if part.get("type") == "text")


def _content(message: Message) -> UserContent:
    if not isinstance(message.content, list):
        return message.content or ""
    try:
        return _USER_CONTENT.validate_python(message.content)
    except ValidationError:
        pass
    raise invalid_params("messages: the parts of a message are text, image and file")


def _heard(message: Message) -> LLMMessage:
    match message.role:
        case "user":
            _content(message)
            parts = tuple(message.content) if isinstance(message.content, list) else ()
            return LLMMessage("user", _words(message), parts=parts)
        case "tool":
            if message.tool_call_id is None:
                raise invalid_params("messages: one of role tool names its call in toolCallId")
            result = message.tool_result
            words = _words(message) or ("" if result is None else to_json(result).decode())
            is_error = result is not None and result.get("success") is False
            return LLMMessage(
                "tool", words, tool_call_id=message.tool_call_id, name=message.name, is_error=is_error
            )
        case _:
            calls = tuple(_call(call) for call in message.tool_calls or ())
            return LLMMessage("assistant", _words(message), tool_calls=calls)


def _call(call: SaidCall) -> ToolCall:
    name, arguments = call.name, call.arguments
    if call.function is not None:
        name = call.function.name
        given = call.function.arguments
        arguments = given if isinstance(given, dict) else _object(given)
    if not name:
        raise invalid_params("messages: a call of a tool has a name")
    return ToolCall(id=call.id, name=name, arguments=arguments or {})


def _object(text: str) -> JsonObject:
    try:
        value: object = from_json(text or "{}")
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise invalid_params("messages: the arguments of a call are a JSON object")
    return cast(JsonObject, value)


def _plain(message: LLMMessage) -> JsonValue:
    body: JsonObject = {"role": message.role, "content": [*message.parts] or message.content}
    if message.tool_calls:
        body["toolCalls"] = [call.model_dump(mode="json", by_alias=True) for call in message.tool_calls]
    if message.tool_call_id is not None:
        body["toolCallId"] = message.tool_call_id
    return body
