# Generated from spec/sessions.schema.json by `make gen`. Do not edit.
"""The state of a session as plain data, and what goes into and comes out of a step."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from windlass_protocol._wire import Bool, Closed, JsonObject, KeepsNulls, Maybe, OnlyBool, Open, Str, Tagged
from windlass_protocol.generated.common import ContentRef, Count, Id, Positive, Usage
from windlass_protocol.generated.input import (
    InputRequest,
    InputResponse,
    RuntimeActionRequest,
    RuntimeActionResult,
)

class TextPart(Tagged, Open):
    """Text."""

    __constants__ = ("type",)

    text: Str
    """The text."""
    type: Literal["text"] = "text"
    """Kind of part."""
    provider_options: Maybe[JsonObject] = None
    """Options for one provider."""

class ImagePart(Tagged, Open):
    """A picture."""

    __constants__ = ("type",)

    image: Str
    """Address, data URL or content id."""
    type: Literal["image"] = "image"
    """Kind of part."""
    media_type: Maybe[Str] = None
    """Media type."""
    content: Maybe[ContentRef] = None
    """The stored bytes, if they were too large for a record; the runtime sets it."""
    provider_options: Maybe[JsonObject] = None
    """Options for one provider."""

class FilePart(Tagged, Open):
    """A file."""

    __constants__ = ("type",)

    data: Str
    """Address, data URL or content id."""
    media_type: Str
    """Media type."""
    type: Literal["file"] = "file"
    """Kind of part."""
    filename: Maybe[Str] = None
    """Name of the file."""
    content: Maybe[ContentRef] = None
    """The stored bytes, if they were too large for a record; the runtime sets it."""
    provider_options: Maybe[JsonObject] = None
    """Options for one provider."""

class ReasoningPart(Tagged, Open):
    """What the model thought aloud."""

    __constants__ = ("type",)

    text: Str
    """The text."""
    type: Literal["reasoning"] = "reasoning"
    """Kind of part."""
    provider_options: Maybe[JsonObject] = None
    """Options for one provider, such as a signature."""

class ToolCallPart(Tagged, Open):
    """A tool call."""

    __constants__ = ("type",)

    tool_call_id: Str
    """Identifier of the call."""
    tool_name: Str
    """Name of the tool."""
    input: JsonValue
    """Arguments."""
    type: Literal["tool-call"] = "tool-call"
    """Kind of part."""
    provider_executed: Maybe[Bool] = None
    """Whether the provider ran it."""
    provider_options: Maybe[JsonObject] = None
    """Options for one provider."""

class ToolOutputType(StrEnum):
    """What a tool's output is."""

    TEXT = "text"
    JSON = "json"
    ERROR_TEXT = "error-text"
    ERROR_JSON = "error-json"
    EXECUTION_DENIED = "execution-denied"
    CONTENT = "content"

class ToolOutput(KeepsNulls, Open):
    """The output of a tool as the model sees it."""

    type: ToolOutputType
    """What it is."""
    value: JsonValue = None
    """The output; absent for execution-denied."""
    reason: Maybe[Str] = None
    """Why execution was denied."""

class ToolResultPart(Tagged, Open):
    """The result of a tool call."""

    __constants__ = ("type",)

    tool_call_id: Str
    """The call it answers."""
    tool_name: Str
    """Name of the tool."""
    output: ToolOutput
    """The output."""
    type: Literal["tool-result"] = "tool-result"
    """Kind of part."""
    provider_options: Maybe[JsonObject] = None
    """Options for one provider."""

class ApprovalRequestPart(Tagged, Open):
    """A call waits for consent."""

    __constants__ = ("type",)

    approval_id: Str
    """Identifier of the request."""
    tool_call_id: Str
    """The call."""
    type: Literal["tool-approval-request"] = "tool-approval-request"
    """Kind of part."""

class ApprovalResponsePart(Tagged, Open):
    """Consent was given or refused."""

    __constants__ = ("type",)

    approval_id: Str
    """The request."""
    approved: Bool
    """Whether it was given."""
    type: Literal["tool-approval-response"] = "tool-approval-response"
    """Kind of part."""
    reason: Maybe[Str] = None
    """Why."""

UserPart = Annotated[
    TextPart | ImagePart | FilePart,
    Field(discriminator="type"),
]
"""A part of a user's message."""

AssistantPart = Annotated[
    TextPart | FilePart | ReasoningPart | ToolCallPart | ToolResultPart | ApprovalRequestPart,
    Field(discriminator="type"),
]
"""A part of an assistant's message."""

ToolPart = Annotated[
    ToolResultPart | ApprovalResponsePart,
    Field(discriminator="type"),
]
"""A part of a tool message."""

UserContent = Str | tuple[UserPart, ...]
"""A user's words: text, or parts."""

class SystemMessage(Tagged, Open):
    """Instructions."""

    __constants__ = ("role",)

    content: Str
    """The text."""
    role: Literal["system"] = "system"
    """Who speaks."""
    provider_options: Maybe[JsonObject] = None
    """Options for one provider."""

class UserMessage(Tagged, Open):
    """What the user said."""

    __constants__ = ("role",)

    content: UserContent
    """Text, or parts."""
    role: Literal["user"] = "user"
    """Who speaks."""
    provider_options: Maybe[JsonObject] = None
    """Options for one provider."""

class AssistantMessage(Tagged, Open):
    """What the model said."""

    __constants__ = ("role",)

    content: Str | tuple[AssistantPart, ...]
    """Text, or parts."""
    role: Literal["assistant"] = "assistant"
    """Who speaks."""
    provider_options: Maybe[JsonObject] = None
    """Options for one provider."""

class ToolMessage(Tagged, Open):
    """Results of tool calls."""

    __constants__ = ("role",)

    content: tuple[ToolPart, ...]
    """Results, each with the id of its call."""
    role: Literal["tool"] = "tool"
    """Who speaks."""
    provider_options: Maybe[JsonObject] = None
    """Options for one provider."""

ModelMessage = Annotated[
    SystemMessage | UserMessage | AssistantMessage | ToolMessage,
    Field(discriminator="role"),
]
"""One message as a model sees it."""

class ModelReference(Open):
    """Names a model; resolved at step time."""

    id: Id
    """Model as provider/model."""
    context_window_tokens: Maybe[Positive] = None
    """How much the model can read."""
    options: Maybe[JsonObject] = None
    """Options for the provider."""

class SessionToolDefinition(Open):
    """A tool as the session stores it: schema, no code."""

    name: Id
    """Name of the tool."""
    input_schema: JsonObject
    """JSON Schema of the arguments."""
    description: Maybe[Str] = None
    """What it does."""
    output_schema: Maybe[JsonObject] = None
    """JSON Schema of the output."""

class CompactionConfig(Closed):
    """When to compact the history."""

    recent_window_size: Count
    """How many newest messages to keep as they are."""
    threshold: Count
    """Compact when the input would exceed this many tokens."""
    last_known_input_tokens: Maybe[Count] = None
    """Input tokens of the last model call, as the provider counted."""
    last_known_prompt_message_count: Maybe[Count] = None
    """Messages in that call."""

class SessionAgent(Closed):
    """The agent of a session as plain data."""

    model_reference: ModelReference
    """Model of the agent."""
    system: Str
    """Instructions."""
    tools: tuple[SessionToolDefinition, ...]
    """Tools it has."""
    compaction_model_reference: Maybe[ModelReference] = None
    """Model for summaries; the turn's model when absent."""

class SandboxState(KeepsNulls, Open):
    """What is needed to open the session's sandbox again."""

    initialized: Bool
    """Whether it was set up."""
    session: JsonObject | None = None
    """Handle of the backend."""

class HarnessSession(Closed):
    """The state of a session, passed between harness and runtime. Plain data only."""

    agent: SessionAgent
    """The agent."""
    compaction: CompactionConfig
    """When to compact."""
    continuation_token: Str
    """Capability to continue the session. Treat it as a secret."""
    history: tuple[ModelMessage, ...]
    """What was said, as the model sees it."""
    session_id: Id
    """Identifier of the session."""
    output_schema: Maybe[JsonObject] = None
    """JSON Schema that the final output must meet."""
    root_session_id: Maybe[Id] = None
    """Top session of the dispatch chain; absent when this is the top."""
    sandbox_state: Maybe[SandboxState] = None
    """The sandbox."""
    state: Maybe[JsonObject] = None
    """Authored durable state."""

class StepInput(Closed):
    """What goes into a step."""

    input_responses: Maybe[tuple[InputResponse, ...]] = None
    """Answers of people."""
    message: Maybe[UserContent] = None
    """What the user says."""
    context: Maybe[tuple[Str, ...]] = None
    """Texts added before the message."""
    output_schema: Maybe[JsonObject] = None
    """Replaces the session's output schema."""
    runtime_action_results: Maybe[tuple[RuntimeActionResult, ...]] = None
    """Results of actions the runtime did."""

class StepDone(Tagged, Closed):
    """The conversation or task is finished."""

    __constants__ = ("done",)

    output: JsonValue
    """The final output."""
    done: Annotated[Literal[True], OnlyBool()] = True
    """Always true."""
    is_error: Maybe[Bool] = None
    """Whether it failed."""

class RunMode(StrEnum):
    """conversation waits after each answer; task ends with one."""

    CONVERSATION = "conversation"
    TASK = "task"

class SessionCapabilities(Open):
    """What the channel of a session can do."""

    request_input: Maybe[Bool] = None
    """Whether people can be asked."""

class StepPlace(Open):
    """Where in a session a step is."""

    sequence: Count
    """Number of the turn."""
    step_index: Count
    """Number of the step in its turn."""
    turn_id: Id
    """The turn."""

class PendingActionBatch(Open):
    """Actions that the runtime does while the step waits."""

    event: StepPlace
    """The step that asked for them."""
    actions: tuple[RuntimeActionRequest, ...]
    """What was asked for."""

class PendingInputBatch(Open):
    """Requests to people that the step waits for."""

    event: StepPlace
    """The step that asks."""
    requests: tuple[InputRequest, ...]
    """What is asked."""

class StepState(Open):
    """What the step function keeps in the state of its session."""

    is_turn_open: Bool
    """Whether the turn goes on."""
    event_count: Count
    """Events shown so far."""
    place: Maybe[StepPlace] = None
    """The step under way, or the last one; absent before the first turn."""
    pending_action_batch: Maybe[PendingActionBatch] = None
    """Actions that the runtime does."""
    pending_input_batch: Maybe[PendingInputBatch] = None
    """Requests to people."""
    approved_tools: Maybe[tuple[Str, ...]] = None
    """Tools that people approved for the session."""
    turn_usage: Maybe[Usage] = None
    """What the turn has used so far."""
    loop: Maybe[Str] = None
    """The state of the loop, for the release that wrote it."""
