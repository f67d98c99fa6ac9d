# Generated from spec/chat.schema.json by `make gen`. Do not edit.
"""Messages, agents and the simple event stream that chat clients read.

The types are made on first use; the .pyi file declares them.
"""

from windlass_protocol.lazy import lazy_values as _lazy_values


def _make_SSEEventType() -> object:
    from enum import StrEnum

    class SSEEventType(StrEnum):
        """What a chat stream event is."""

        __qualname__ = "SSEEventType"

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

    return SSEEventType


def _make_SSEEvent() -> object:
    from windlass_protocol._wire import JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.chat import SSEEventType

    class SSEEvent(Open):
        """One event of the simple chat stream."""

        __qualname__ = "SSEEvent"

        type: SSEEventType
        event: Maybe[Str] = None
        content: Maybe[Str] = None
        hint: Maybe[Str] = None
        message: Maybe[Str] = None
        code: Maybe[Str] = None
        orchestration_group_id: Maybe[Str] = None
        task_id: Maybe[Str] = None
        message_id: Maybe[Str] = None
        payload: Maybe[JsonObject] = None

    return SSEEvent


def _make_ChatRole() -> object:
    from enum import StrEnum

    class ChatRole(StrEnum):
        """Who speaks."""

        __qualname__ = "ChatRole"

        USER = "user"
        ASSISTANT = "assistant"
        TOOL = "tool"
        SYSTEM = "system"

    return ChatRole


def _make_ChatMessage() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.chat import ChatRole
    from windlass_protocol.generated.common import Timestamp
    from windlass_protocol.generated.tools import ToolCall, ToolResult

    class ChatMessage(Open):
        """One message of a chat."""

        __qualname__ = "ChatMessage"

        id: Str
        role: ChatRole
        content: Str
        created_at: Timestamp
        chat_id: Maybe[Str] = None
        agent_id: Maybe[Str] = None
        tool_calls: Maybe[tuple[ToolCall, ...]] = None
        tool_result: Maybe[ToolResult] = None
        updated_at: Maybe[Timestamp] = None

    return ChatMessage


def _make_ChatAgent() -> object:
    from windlass_protocol._wire import Bool, Maybe, Open, Str
    from windlass_protocol.generated.common import Integer, Timestamp

    class ChatAgent(Open):
        """An agent as chat clients list it."""

        __qualname__ = "ChatAgent"

        id: Str
        name: Str
        created_at: Timestamp
        updated_at: Timestamp
        slug: Maybe[Str] = None
        icon: Maybe[Str] = None
        color: Maybe[Str] = None
        description: Maybe[Str] = None
        role_prompt: Maybe[Str] = None
        forbidden_prompt: Maybe[Str] = None
        skill_ids: Maybe[tuple[Str, ...]] = None
        allow_external_skills: Maybe[Bool] = None
        is_builtin: Maybe[Bool] = None
        is_archived: Maybe[Bool] = None
        sort_order: Maybe[Integer] = None

    return ChatAgent


def _make_AgentSession() -> object:
    from windlass_protocol._wire import Bool, JsonObject, KeepsNulls, Maybe, Open, Str
    from windlass_protocol.generated.common import Timestamp

    class AgentSession(KeepsNulls, Open):
        """Tracks that a user is in the middle of a run of several steps."""

        __qualname__ = "AgentSession"

        session_id: Str
        user_id: Str
        chat_id: Str
        current_stage: Str
        is_active: Bool
        created_at: Timestamp
        updated_at: Timestamp
        next_stage: Str | None = None
        scenario: Maybe[Str] = None
        stage_data: Maybe[JsonObject] = None
        project_id: Str | None = None
        id: Maybe[Str] = None

    return AgentSession


def _make_AgentSessionChange() -> object:
    from windlass_protocol._wire import Closed, JsonObject, KeepsNulls, Maybe, Str

    class AgentSessionChange(KeepsNulls, Closed):
        """A change of the stage of an AgentSession; absent fields stay as they are."""

        __qualname__ = "AgentSessionChange"

        current_stage: Maybe[Str] = None
        next_stage: Str | None = None
        stage_data: Maybe[JsonObject] = None

    return AgentSessionChange


__getattr__, __dir__ = _lazy_values(
    globals(),
    {
        "SSEEventType": _make_SSEEventType,
        "SSEEvent": _make_SSEEvent,
        "ChatRole": _make_ChatRole,
        "ChatMessage": _make_ChatMessage,
        "ChatAgent": _make_ChatAgent,
        "AgentSession": _make_AgentSession,
        "AgentSessionChange": _make_AgentSessionChange,
    },
)
