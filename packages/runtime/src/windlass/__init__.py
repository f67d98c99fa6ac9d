"""A durable runtime for AI agents: journal first, act second, show third."""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass.agent import Agent as Agent
    from windlass.agent.hooks import hook as hook
    from windlass.errors import AgentError as AgentError
    from windlass.errors import Ambiguous as Ambiguous
    from windlass.errors import Conflict as Conflict
    from windlass.errors import Corrupt as Corrupt
    from windlass.errors import Denied as Denied
    from windlass.errors import Rejected as Rejected
    from windlass.errors import Unavailable as Unavailable
    from windlass.ports.host import Change as Change
    from windlass.ports.host import HookCall as HookCall
    from windlass.ports.host import Veto as Veto
    from windlass.ports.model import LLMMessage as LLMMessage
    from windlass.ports.model import LLMProvider as LLMProvider
    from windlass.ports.model import LLMStreamChunk as LLMStreamChunk
    from windlass.ports.model import LLMUsage as LLMUsage
    from windlass.ports.model import ToolCallDelta as ToolCallDelta
    from windlass.runtime.compose import AgentRuntime as AgentRuntime
    from windlass.runtime.handle import RunHandle as RunHandle
    from windlass.runtime.handle import TypedResult as TypedResult
    from windlass.runtime.requests import Approval as Approval
    from windlass.runtime.requests import Interrupted as Interrupted
    from windlass.runtime.requests import Question as Question
    from windlass.schedules import Schedule as Schedule
    from windlass.tools import Tool as Tool
    from windlass.tools import ToolFailed as ToolFailed
    from windlass.tools import tool as tool
    from windlass.tools.context import ToolContext as ToolContext
    from windlass.tools.deps import RunInfo as RunInfo
    from windlass.tools.router import ToolRouter as ToolRouter
    from windlass_harness import Budget as Budget
    from windlass_harness import PolicySet as PolicySet
    from windlass_harness import Rule as Rule
    from windlass_protocol import Event as Event
    from windlass_protocol import InputRequest as InputRequest
    from windlass_protocol import InputResponse as InputResponse
    from windlass_protocol import RunRequest as RunRequest
    from windlass_protocol import RunResult as RunResult
    from windlass_protocol import RunStatus as RunStatus
    from windlass_protocol import ToolCall as ToolCall

__version__ = "0.1.0"
# How windlass_protocol.origin knows that this file is ours.
__distribution__ = "windlass-runtime"

_HOMES = {
    "windlass.agent": ("Agent",),
    "windlass.tools.deps": ("RunInfo",),
    "windlass.errors": (
        "AgentError",
        "Ambiguous",
        "Conflict",
        "Corrupt",
        "Denied",
        "Rejected",
        "Unavailable",
    ),
    "windlass.agent.hooks": ("hook",),
    "windlass.ports.host": (
        "Change",
        "HookCall",
        "Veto",
    ),
    "windlass.ports.model": (
        "LLMMessage",
        "LLMProvider",
        "LLMStreamChunk",
        "LLMUsage",
        "ToolCallDelta",
    ),
    "windlass.runtime.compose": ("AgentRuntime",),
    "windlass.runtime.handle": (
        "RunHandle",
        "TypedResult",
    ),
    "windlass.runtime.requests": (
        "Approval",
        "Interrupted",
        "Question",
    ),
    "windlass.schedules": ("Schedule",),
    "windlass.tools": (
        "Tool",
        "ToolFailed",
        "tool",
    ),
    "windlass.tools.context": ("ToolContext",),
    "windlass.tools.router": ("ToolRouter",),
    "windlass_harness": (
        "Budget",
        "PolicySet",
        "Rule",
    ),
    "windlass_protocol": (
        "Event",
        "InputRequest",
        "InputResponse",
        "RunRequest",
        "RunResult",
        "RunStatus",
        "ToolCall",
    ),
}

__getattr__, __dir__ = _lazy_names(__name__, _HOMES)
