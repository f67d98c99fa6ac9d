# Generated from spec/sessions.schema.json by `make gen`. Do not edit.
"""The state of a session as plain data, and what goes into and comes out of a step.

The types are made on first use; the .pyi file declares them.
"""

from windlass_protocol.lazy import lazy_values as _lazy_values


def _make_TextPart() -> object:
    from typing import Literal

    from windlass_protocol._wire import JsonObject, Maybe, Open, Str, Tagged

    class TextPart(Tagged, Open):
        """Text."""

        __qualname__ = "TextPart"

        __constants__ = ("type",)

        text: Str
        type: Literal["text"] = "text"
        provider_options: Maybe[JsonObject] = None

    return TextPart


def _make_ImagePart() -> object:
    from typing import Literal

    from windlass_protocol._wire import JsonObject, Maybe, Open, Str, Tagged
    from windlass_protocol.generated.common import ContentRef

    class ImagePart(Tagged, Open):
        """A picture."""

        __qualname__ = "ImagePart"

        __constants__ = ("type",)

        image: Str
        type: Literal["image"] = "image"
        media_type: Maybe[Str] = None
        content: Maybe[ContentRef] = None
        provider_options: Maybe[JsonObject] = None

    return ImagePart


def _make_FilePart() -> object:
    from typing import Literal

    from windlass_protocol._wire import JsonObject, Maybe, Open, Str, Tagged
    from windlass_protocol.generated.common import ContentRef

    class FilePart(Tagged, Open):
        """A file."""

        __qualname__ = "FilePart"

        __constants__ = ("type",)

        data: Str
        media_type: Str
        type: Literal["file"] = "file"
        filename: Maybe[Str] = None
        content: Maybe[ContentRef] = None
        provider_options: Maybe[JsonObject] = None

    return FilePart


def _make_ReasoningPart() -> object:
    from typing import Literal

    from windlass_protocol._wire import JsonObject, Maybe, Open, Str, Tagged

    class ReasoningPart(Tagged, Open):
        """What the model thought aloud."""

        __qualname__ = "ReasoningPart"

        __constants__ = ("type",)

        text: Str
        type: Literal["reasoning"] = "reasoning"
        provider_options: Maybe[JsonObject] = None

    return ReasoningPart


def _make_ToolCallPart() -> object:
    from typing import Literal

    from pydantic import JsonValue

    from windlass_protocol._wire import Bool, JsonObject, Maybe, Open, Str, Tagged

    class ToolCallPart(Tagged, Open):
        """A tool call."""

        __qualname__ = "ToolCallPart"

        __constants__ = ("type",)

        tool_call_id: Str
        tool_name: Str
        input: JsonValue
        type: Literal["tool-call"] = "tool-call"
        provider_executed: Maybe[Bool] = None
        provider_options: Maybe[JsonObject] = None

    return ToolCallPart


def _make_ToolOutputType() -> object:
    from enum import StrEnum

    class ToolOutputType(StrEnum):
        """What a tool's output is."""

        __qualname__ = "ToolOutputType"

        TEXT = "text"
        JSON = "json"
        ERROR_TEXT = "error-text"
        ERROR_JSON = "error-json"
        EXECUTION_DENIED = "execution-denied"
        CONTENT = "content"

    return ToolOutputType


def _make_ToolOutput() -> object:
    from pydantic import JsonValue

    from windlass_protocol._wire import KeepsNulls, Maybe, Open, Str
    from windlass_protocol.generated.sessions import ToolOutputType

    class ToolOutput(KeepsNulls, Open):
        """The output of a tool as the model sees it."""

        __qualname__ = "ToolOutput"

        type: ToolOutputType
        value: JsonValue = None
        reason: Maybe[Str] = None

    return ToolOutput


def _make_ToolResultPart() -> object:
    from typing import Literal

    from windlass_protocol._wire import JsonObject, Maybe, Open, Str, Tagged
    from windlass_protocol.generated.sessions import ToolOutput

    class ToolResultPart(Tagged, Open):
        """The result of a tool call."""

        __qualname__ = "ToolResultPart"

        __constants__ = ("type",)

        tool_call_id: Str
        tool_name: Str
        output: ToolOutput
        type: Literal["tool-result"] = "tool-result"
        provider_options: Maybe[JsonObject] = None

    return ToolResultPart


def _make_ApprovalRequestPart() -> object:
    from typing import Literal

    from windlass_protocol._wire import Open, Str, Tagged

    class ApprovalRequestPart(Tagged, Open):
        """A call waits for consent."""

        __qualname__ = "ApprovalRequestPart"

        __constants__ = ("type",)

        approval_id: Str
        tool_call_id: Str
        type: Literal["tool-approval-request"] = "tool-approval-request"

    return ApprovalRequestPart


def _make_ApprovalResponsePart() -> object:
    from typing import Literal

    from windlass_protocol._wire import Bool, Maybe, Open, Str, Tagged

    class ApprovalResponsePart(Tagged, Open):
        """Consent was given or refused."""

        __qualname__ = "ApprovalResponsePart"

        __constants__ = ("type",)

        approval_id: Str
        approved: Bool
        type: Literal["tool-approval-response"] = "tool-approval-response"
        reason: Maybe[Str] = None

    return ApprovalResponsePart


def _make_UserPart() -> object:
    from typing import Annotated

    from pydantic import Field

    from windlass_protocol.generated.sessions import FilePart, ImagePart, TextPart

    UserPart = Annotated[
        TextPart | ImagePart | FilePart,
        Field(discriminator="type"),
    ]
    return UserPart


def _make_AssistantPart() -> object:
    from typing import Annotated

    from pydantic import Field

    from windlass_protocol.generated.sessions import (
        ApprovalRequestPart,
        FilePart,
        ReasoningPart,
        TextPart,
        ToolCallPart,
        ToolResultPart,
    )

    AssistantPart = Annotated[
        TextPart | FilePart | ReasoningPart | ToolCallPart | ToolResultPart | ApprovalRequestPart,
        Field(discriminator="type"),
    ]
    return AssistantPart


def _make_ToolPart() -> object:
    from typing import Annotated

    from pydantic import Field

    from windlass_protocol.generated.sessions import ApprovalResponsePart, ToolResultPart

    ToolPart = Annotated[
        ToolResultPart | ApprovalResponsePart,
        Field(discriminator="type"),
    ]
    return ToolPart


def _make_UserContent() -> object:
    from windlass_protocol._wire import Str
    from windlass_protocol.generated.sessions import UserPart

    UserContent = Str | tuple[UserPart, ...]
    return UserContent


def _make_SystemMessage() -> object:
    from typing import Literal

    from windlass_protocol._wire import JsonObject, Maybe, Open, Str, Tagged

    class SystemMessage(Tagged, Open):
        """Instructions."""

        __qualname__ = "SystemMessage"

        __constants__ = ("role",)

        content: Str
        role: Literal["system"] = "system"
        provider_options: Maybe[JsonObject] = None

    return SystemMessage


def _make_UserMessage() -> object:
    from typing import Literal

    from windlass_protocol._wire import JsonObject, Maybe, Open, Tagged
    from windlass_protocol.generated.sessions import UserContent

    class UserMessage(Tagged, Open):
        """What the user said."""

        __qualname__ = "UserMessage"

        __constants__ = ("role",)

        content: UserContent
        role: Literal["user"] = "user"
        provider_options: Maybe[JsonObject] = None

    return UserMessage


def _make_AssistantMessage() -> object:
    from typing import Literal

    from windlass_protocol._wire import JsonObject, Maybe, Open, Str, Tagged
    from windlass_protocol.generated.sessions import AssistantPart

    class AssistantMessage(Tagged, Open):
        """What the model said."""

        __qualname__ = "AssistantMessage"

        __constants__ = ("role",)

        content: Str | tuple[AssistantPart, ...]
        role: Literal["assistant"] = "assistant"
        provider_options: Maybe[JsonObject] = None

    return AssistantMessage


def _make_ToolMessage() -> object:
    from typing import Literal

    from windlass_protocol._wire import JsonObject, Maybe, Open, Tagged
    from windlass_protocol.generated.sessions import ToolPart

    class ToolMessage(Tagged, Open):
        """Results of tool calls."""

        __qualname__ = "ToolMessage"

        __constants__ = ("role",)

        content: tuple[ToolPart, ...]
        role: Literal["tool"] = "tool"
        provider_options: Maybe[JsonObject] = None

    return ToolMessage


def _make_ModelMessage() -> object:
    from typing import Annotated

    from pydantic import Field

    from windlass_protocol.generated.sessions import AssistantMessage, SystemMessage, ToolMessage, UserMessage

    ModelMessage = Annotated[
        SystemMessage | UserMessage | AssistantMessage | ToolMessage,
        Field(discriminator="role"),
    ]
    return ModelMessage


def _make_ModelReference() -> object:
    from windlass_protocol._wire import JsonObject, Maybe, Open
    from windlass_protocol.generated.common import Id, Positive

    class ModelReference(Open):
        """Names a model; resolved at step time."""

        __qualname__ = "ModelReference"

        id: Id
        context_window_tokens: Maybe[Positive] = None
        options: Maybe[JsonObject] = None

    return ModelReference


def _make_SessionToolDefinition() -> object:
    from windlass_protocol._wire import JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Id

    class SessionToolDefinition(Open):
        """A tool as the session stores it: schema, no code."""

        __qualname__ = "SessionToolDefinition"

        name: Id
        input_schema: JsonObject
        description: Maybe[Str] = None
        output_schema: Maybe[JsonObject] = None

    return SessionToolDefinition


def _make_CompactionConfig() -> object:
    from windlass_protocol._wire import Closed, Maybe
    from windlass_protocol.generated.common import Count

    class CompactionConfig(Closed):
        """When to compact the history."""

        __qualname__ = "CompactionConfig"

        recent_window_size: Count
        threshold: Count
        last_known_input_tokens: Maybe[Count] = None
        last_known_prompt_message_count: Maybe[Count] = None

    return CompactionConfig


def _make_SessionAgent() -> object:
    from windlass_protocol._wire import Closed, Maybe, Str
    from windlass_protocol.generated.sessions import ModelReference, SessionToolDefinition

    class SessionAgent(Closed):
        """The agent of a session as plain data."""

        __qualname__ = "SessionAgent"

        model_reference: ModelReference
        system: Str
        tools: tuple[SessionToolDefinition, ...]
        compaction_model_reference: Maybe[ModelReference] = None

    return SessionAgent


def _make_SandboxState() -> object:
    from windlass_protocol._wire import Bool, JsonObject, KeepsNulls, Open

    class SandboxState(KeepsNulls, Open):
        """What is needed to open the session's sandbox again."""

        __qualname__ = "SandboxState"

        initialized: Bool
        session: JsonObject | None = None

    return SandboxState


def _make_HarnessSession() -> object:
    from windlass_protocol._wire import Closed, JsonObject, Maybe, Str
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.sessions import (
        CompactionConfig,
        ModelMessage,
        SandboxState,
        SessionAgent,
    )

    class HarnessSession(Closed):
        """The state of a session, passed between harness and runtime. Plain data only."""

        __qualname__ = "HarnessSession"

        agent: SessionAgent
        compaction: CompactionConfig
        continuation_token: Str
        history: tuple[ModelMessage, ...]
        session_id: Id
        output_schema: Maybe[JsonObject] = None
        root_session_id: Maybe[Id] = None
        sandbox_state: Maybe[SandboxState] = None
        state: Maybe[JsonObject] = None

    return HarnessSession


def _make_StepInput() -> object:
    from windlass_protocol._wire import Closed, JsonObject, Maybe, Str
    from windlass_protocol.generated.input import InputResponse, RuntimeActionResult
    from windlass_protocol.generated.sessions import UserContent

    class StepInput(Closed):
        """What goes into a step."""

        __qualname__ = "StepInput"

        input_responses: Maybe[tuple[InputResponse, ...]] = None
        message: Maybe[UserContent] = None
        context: Maybe[tuple[Str, ...]] = None
        output_schema: Maybe[JsonObject] = None
        runtime_action_results: Maybe[tuple[RuntimeActionResult, ...]] = None

    return StepInput


def _make_StepDone() -> object:
    from typing import Annotated, Literal

    from pydantic import JsonValue

    from windlass_protocol._wire import Bool, Closed, Maybe, OnlyBool, Tagged

    class StepDone(Tagged, Closed):
        """The conversation or task is finished."""

        __qualname__ = "StepDone"

        __constants__ = ("done",)

        output: JsonValue
        done: Annotated[Literal[True], OnlyBool()] = True
        is_error: Maybe[Bool] = None

    return StepDone


def _make_RunMode() -> object:
    from enum import StrEnum

    class RunMode(StrEnum):
        """conversation waits after each answer; task ends with one."""

        __qualname__ = "RunMode"

        CONVERSATION = "conversation"
        TASK = "task"

    return RunMode


def _make_SessionCapabilities() -> object:
    from windlass_protocol._wire import Bool, Maybe, Open

    class SessionCapabilities(Open):
        """What the channel of a session can do."""

        __qualname__ = "SessionCapabilities"

        request_input: Maybe[Bool] = None

    return SessionCapabilities


def _make_StepPlace() -> object:
    from windlass_protocol._wire import Open
    from windlass_protocol.generated.common import Count, Id

    class StepPlace(Open):
        """Where in a session a step is."""

        __qualname__ = "StepPlace"

        sequence: Count
        step_index: Count
        turn_id: Id

    return StepPlace


def _make_PendingActionBatch() -> object:
    from windlass_protocol._wire import Open
    from windlass_protocol.generated.input import RuntimeActionRequest
    from windlass_protocol.generated.sessions import StepPlace

    class PendingActionBatch(Open):
        """Actions that the runtime does while the step waits."""

        __qualname__ = "PendingActionBatch"

        event: StepPlace
        actions: tuple[RuntimeActionRequest, ...]

    return PendingActionBatch


def _make_PendingInputBatch() -> object:
    from windlass_protocol._wire import Open
    from windlass_protocol.generated.input import InputRequest
    from windlass_protocol.generated.sessions import StepPlace

    class PendingInputBatch(Open):
        """Requests to people that the step waits for."""

        __qualname__ = "PendingInputBatch"

        event: StepPlace
        requests: tuple[InputRequest, ...]

    return PendingInputBatch


def _make_StepState() -> object:
    from windlass_protocol._wire import Bool, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Usage
    from windlass_protocol.generated.sessions import PendingActionBatch, PendingInputBatch, StepPlace

    class StepState(Open):
        """What the step function keeps in the state of its session."""

        __qualname__ = "StepState"

        is_turn_open: Bool
        event_count: Count
        place: Maybe[StepPlace] = None
        pending_action_batch: Maybe[PendingActionBatch] = None
        pending_input_batch: Maybe[PendingInputBatch] = None
        approved_tools: Maybe[tuple[Str, ...]] = None
        turn_usage: Maybe[Usage] = None
        loop: Maybe[Str] = None

    return StepState


__getattr__, __dir__ = _lazy_values(
    globals(),
    {
        "TextPart": _make_TextPart,
        "ImagePart": _make_ImagePart,
        "FilePart": _make_FilePart,
        "ReasoningPart": _make_ReasoningPart,
        "ToolCallPart": _make_ToolCallPart,
        "ToolOutputType": _make_ToolOutputType,
        "ToolOutput": _make_ToolOutput,
        "ToolResultPart": _make_ToolResultPart,
        "ApprovalRequestPart": _make_ApprovalRequestPart,
        "ApprovalResponsePart": _make_ApprovalResponsePart,
        "UserPart": _make_UserPart,
        "AssistantPart": _make_AssistantPart,
        "ToolPart": _make_ToolPart,
        "UserContent": _make_UserContent,
        "SystemMessage": _make_SystemMessage,
        "UserMessage": _make_UserMessage,
        "AssistantMessage": _make_AssistantMessage,
        "ToolMessage": _make_ToolMessage,
        "ModelMessage": _make_ModelMessage,
        "ModelReference": _make_ModelReference,
        "SessionToolDefinition": _make_SessionToolDefinition,
        "CompactionConfig": _make_CompactionConfig,
        "SessionAgent": _make_SessionAgent,
        "SandboxState": _make_SandboxState,
        "HarnessSession": _make_HarnessSession,
        "StepInput": _make_StepInput,
        "StepDone": _make_StepDone,
        "RunMode": _make_RunMode,
        "SessionCapabilities": _make_SessionCapabilities,
        "StepPlace": _make_StepPlace,
        "PendingActionBatch": _make_PendingActionBatch,
        "PendingInputBatch": _make_PendingInputBatch,
        "StepState": _make_StepState,
    },
)
