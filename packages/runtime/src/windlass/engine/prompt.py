"""The history of a session as the messages that a model gets."""

from pydantic_core import to_json

from windlass.ports.model import LLMMessage
from windlass_harness.views.history import HistoryDraft
from windlass_harness.views.payloads import as_text
from windlass_protocol import (
    AssistantMessage,
    JsonObject,
    ModelMessage,
    OutputContract,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolOutputType,
    ToolResultPart,
    UserMessage,
)
from windlass_protocol.unchecked import unchecked

_CALL_FIELDS = set(ToolCall.model_fields)
_ERRORS = {ToolOutputType.ERROR_TEXT, ToolOutputType.ERROR_JSON, ToolOutputType.EXECUTION_DENIED}


class Prompt:
    """The messages of one session, converted once each as the history grows."""

    def __init__(self) -> None:
        self._messages: list[LLMMessage] = []
        self._converted = 0
        self._revision = -1

    def messages(self, history: HistoryDraft, system: str) -> list[LLMMessage]:
        """Return all messages, the system's words first."""
        if history.revision != self._revision:
            self._messages, self._converted, self._revision = [], 0, history.revision
        for message in history.messages[self._converted :]:
            self._messages += to_llm(message)
        self._converted = len(history.messages)
        return [LLMMessage("system", system), *self._messages] if system else [*self._messages]


def system_words(instructions: str, contract: OutputContract | None) -> str:
    """Return what the model is told before anything else."""
    if contract is None:
        return instructions
    schema = to_json(contract.json_schema).decode()
    words = (
        "When you are done, answer with one JSON value that fits this JSON Schema, and with nothing else: "
        f"no prose, no code fence.\n{schema}"
    )
    return f"{instructions}\n\n{words}" if instructions else words


def to_llm(message: ModelMessage) -> list[LLMMessage]:
    """Return a message of the history as a model gets it.

    A tool message may be several.
    """
    match message:
        case SystemMessage():
            return [LLMMessage("system", message.content)]
        case UserMessage():
            return [_user(message)]
        case AssistantMessage():
            return [_assistant(message)]
        case ToolMessage():
            return [_tool(part) for part in message.content if isinstance(part, ToolResultPart)]


def _user(message: UserMessage) -> LLMMessage:
    if isinstance(message.content, str):
        return LLMMessage("user", message.content)
    text = "".join(part.text for part in message.content if isinstance(part, TextPart))
    parts = tuple(part.model_dump(mode="json", by_alias=True) for part in message.content)
    return LLMMessage("user", text, parts=parts)


def _assistant(message: AssistantMessage) -> LLMMessage:
    if isinstance(message.content, str):
        return LLMMessage("assistant", message.content)
    text, reasoning = "", ""
    options: JsonObject | None = None
    calls: list[ToolCall] = []
    for part in message.content:
        match part:
            case TextPart():
                text += part.text
            case ReasoningPart():
                reasoning += part.text
                options = part.provider_options or options
            case ToolCallPart():
                calls.append(_call(part))
            case _:
                pass
    return LLMMessage(
        "assistant",
        text,
        tool_calls=tuple(calls),
        reasoning=reasoning or None,
        provider_options=options,
    )


def _call(part: ToolCallPart) -> ToolCall:
    # Providers want an object back; what was no JSON goes along as text, so that the model sees its own slip.
    arguments: JsonObject = part.input if isinstance(part.input, dict) else {"": part.input}
    values: dict[str, object] = {"id": part.tool_call_id, "name": part.tool_name, "arguments": arguments}
    return unchecked(ToolCall, values, given=_CALL_FIELDS)


def _tool(part: ToolResultPart) -> LLMMessage:
    return LLMMessage(
        "tool",
        _words(part.output),
        tool_call_id=part.tool_call_id,
        name=part.tool_name,
        is_error=part.output.type in _ERRORS,
    )


def _words(output: ToolOutput) -> str:
    if output.type is ToolOutputType.EXECUTION_DENIED:
        return output.reason or "The call was denied."
    return as_text(output.value)
