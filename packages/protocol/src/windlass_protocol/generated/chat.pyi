# Generated from spec/chat.schema.json by `make gen`. Do not edit.
"""Messages, agents and the simple event stream that chat clients read."""

from enum import StrEnum

from windlass_protocol._wire import Bool, Closed, JsonObject, KeepsNulls, Maybe, Open, Str
from windlass_protocol.generated.common import Integer, Timestamp
from windlass_protocol.generated.tools import ToolCall, ToolResult

class SSEEventType(StrEnum):
    """What a chat stream event is."""

    CONTENT = "content"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    ERROR = "error"
    BUDGET_EXHAUSTED = "budget_exhausted"
    AGENT = "agent"
    ORCHESTRATION = "orchestration"
    LOADER_HINT = "loader-hint"
    KEEPALIVE = "keepalive"
    DONE = "done"

class SSEEvent(Open):
    """One event of the simple chat stream."""

    type: SSEEventType
    """What the event is."""
    event: Maybe[Str] = None
    """Name of the product's own event."""
    content: Maybe[Str] = None
    """Text to append."""
    hint: Maybe[Str] = None
    """What to show while waiting."""
    message: Maybe[Str] = None
    """Text for people."""
    code: Maybe[Str] = None
    """Stable code of an error."""
    orchestration_group_id: Maybe[Str] = None
    """Group of an orchestrated task."""
    task_id: Maybe[Str] = None
    """Orchestrated task."""
    message_id: Maybe[Str] = None
    """Message the event belongs to."""
    payload: Maybe[JsonObject] = None
    """For tool_call a ToolCall; for tool_result a ToolResult with the `id` of its call; else free."""

class ChatRole(StrEnum):
    """Who speaks."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"

class ChatMessage(Open):
    """One message of a chat."""

    id: Str
    """Identifier of the message."""
    role: ChatRole
    """Who speaks."""
    content: Str
    """The text."""
    created_at: Timestamp
    """When it was written."""
    chat_id: Maybe[Str] = None
    """Chat the message belongs to."""
    agent_id: Maybe[Str] = None
    """Agent that spoke."""
    tool_calls: Maybe[tuple[ToolCall, ...]] = None
    """Calls the assistant asked for."""
    tool_result: Maybe[ToolResult] = None
    """Result, on a tool message."""
    updated_at: Maybe[Timestamp] = None
    """When it last changed."""

class ChatAgent(Open):
    """An agent as chat clients list it."""

    id: Str
    """Identifier of the agent."""
    name: Str
    """Its name."""
    created_at: Timestamp
    """When it was made."""
    updated_at: Timestamp
    """When it last changed."""
    slug: Maybe[Str] = None
    """Name in addresses."""
    icon: Maybe[Str] = None
    """Icon name or address."""
    color: Maybe[Str] = None
    """Colour."""
    description: Maybe[Str] = None
    """What it is for."""
    role_prompt: Maybe[Str] = None
    """Instructions on its role."""
    forbidden_prompt: Maybe[Str] = None
    """Instructions on what to avoid."""
    skill_ids: Maybe[tuple[Str, ...]] = None
    """Skills it may use."""
    allow_external_skills: Maybe[Bool] = None
    """Whether it may use skills of others."""
    is_builtin: Maybe[Bool] = None
    """Whether it came with the product."""
    is_archived: Maybe[Bool] = None
    """Whether it is put away."""
    sort_order: Maybe[Integer] = None
    """Place in lists."""

class AgentSession(KeepsNulls, Open):
    """Tracks that a user is in the middle of a run of several steps."""

    session_id: Str
    """Globally unique identifier."""
    user_id: Str
    """Owning user."""
    chat_id: Str
    """Owning chat."""
    current_stage: Str
    """Free stage tag, such as PLANNING."""
    is_active: Bool
    """False once the run has ended."""
    created_at: Timestamp
    """When it was made."""
    updated_at: Timestamp
    """When it last changed."""
    next_stage: Str | None = None
    """Next stage, when known."""
    scenario: Maybe[Str] = None
    """Scenario tag of the product."""
    stage_data: Maybe[JsonObject] = None
    """Scratch state of the stage."""
    project_id: Str | None = None
    """Owning project."""
    id: Maybe[Str] = None
    """Row identifier of the store."""

class AgentSessionChange(KeepsNulls, Closed):
    """A change of the stage of an AgentSession; absent fields stay as they are."""

    current_stage: Maybe[Str] = None
    """The stage from now on."""
    next_stage: Str | None = None
    """The stage after it; null if it is not known any more."""
    stage_data: Maybe[JsonObject] = None
    """Replaces the scratch state of the stage."""
