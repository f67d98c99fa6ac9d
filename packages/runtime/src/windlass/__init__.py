"""A durable runtime for AI agents: journal first, act second, show third."""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass.agent import Agent as Agent
    from windlass.compose import AgentRuntime as AgentRuntime
    from windlass.errors import AgentError as AgentError
    from windlass.errors import Ambiguous as Ambiguous
    from windlass.errors import Conflict as Conflict
    from windlass.errors import Corrupt as Corrupt
    from windlass.errors import Denied as Denied
    from windlass.errors import Rejected as Rejected
    from windlass.errors import Unavailable as Unavailable
    from windlass.hooks import hook as hook
    from windlass.ports.approval import ApprovalDispatcher as ApprovalDispatcher
    from windlass.ports.hook import Change as Change
    from windlass.ports.hook import HookCall as HookCall
    from windlass.ports.hook import Veto as Veto
    from windlass.ports.model import LLMMessage as LLMMessage
    from windlass.ports.model import LLMProvider as LLMProvider
    from windlass.ports.model import LLMStreamChunk as LLMStreamChunk
    from windlass.ports.model import LLMUsage as LLMUsage
    from windlass.ports.model import ToolCallDelta as ToolCallDelta
    from windlass.run_handle import RunHandle as RunHandle
    from windlass.runtime_ports import PackageChange as PackageChange
    from windlass.runtime_ports import ToolRoute as ToolRoute
    from windlass.script import run_sync as run_sync
    from windlass.tool_context import ToolContext as ToolContext
    from windlass.tool_router import ToolRouter as ToolRouter
    from windlass.tools import Tool as Tool
    from windlass.tools import ToolFailed as ToolFailed
    from windlass.tools import tool as tool
    from windlass.typed_result import TypedResult as TypedResult
    from windlass_harness import BudgetLimit as BudgetLimit
    from windlass_harness import PolicySet as PolicySet
    from windlass_harness import Rule as Rule
    from windlass_protocol import Event as Event
    from windlass_protocol import InputRequest as InputRequest
    from windlass_protocol import InputResponse as InputResponse
    from windlass_protocol import OutputSinkSpec as OutputSinkSpec
    from windlass_protocol import RunRequest as RunRequest
    from windlass_protocol import RunResult as RunResult
    from windlass_protocol import RunStatus as RunStatus
    from windlass_protocol import ToolCall as ToolCall

__version__ = "0.1.0"

_HOMES = {
    "agent": ("Agent",),
    "compose": ("AgentRuntime",),
    "errors": ("AgentError", "Ambiguous", "Conflict", "Corrupt", "Denied", "Rejected", "Unavailable"),
    "hooks": ("hook",),
    "ports.approval": ("ApprovalDispatcher",),
    "ports.hook": ("Change", "HookCall", "Veto"),
    "ports.model": ("LLMMessage", "LLMProvider", "LLMStreamChunk", "LLMUsage", "ToolCallDelta"),
    "run_handle": ("RunHandle",),
    "runtime_ports": ("PackageChange", "ToolRoute"),
    "script": ("run_sync",),
    "tools": ("Tool", "ToolFailed", "tool"),
    "tool_context": ("ToolContext",),
    "tool_router": ("ToolRouter",),
    "typed_result": ("TypedResult",),
}
_GUESTS = {
    "windlass_harness": ("BudgetLimit", "PolicySet", "Rule"),
    "windlass_protocol": (
        "Event",
        "InputRequest",
        "InputResponse",
        "OutputSinkSpec",
        "RunRequest",
        "RunResult",
        "RunStatus",
        "ToolCall",
    ),
}

__getattr__, __dir__ = _lazy_names(
    __name__,
    {name: home for home, names in _HOMES.items() for name in names},
    guests={name: home for home, names in _GUESTS.items() for name in names},
)
