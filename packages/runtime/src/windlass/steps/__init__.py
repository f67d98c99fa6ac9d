"""One step at a time: a session of plain data in, the session after the step out."""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass.steps.contract import AgentTool as AgentTool
    from windlass.steps.contract import Grammar as Grammar
    from windlass.steps.contract import HandleEvent as HandleEvent
    from windlass.steps.contract import HarnessTool as HarnessTool
    from windlass.steps.contract import KeyedTool as KeyedTool
    from windlass.steps.contract import StepFn as StepFn
    from windlass.steps.contract import StepNext as StepNext
    from windlass.steps.contract import StepResult as StepResult
    from windlass.steps.contract import ToolLoopHarnessConfig as ToolLoopHarnessConfig
    from windlass.steps.loop import create_tool_loop_harness as create_tool_loop_harness
    from windlass.steps.session import answer_to as answer_to
    from windlass.steps.session import read_session as read_session
    from windlass.steps.session import state_of as state_of
    from windlass.steps.session import write_session as write_session

_HOMES = {
    "windlass.steps.contract": (
        "AgentTool",
        "Grammar",
        "HandleEvent",
        "HarnessTool",
        "KeyedTool",
        "StepFn",
        "StepNext",
        "StepResult",
        "ToolLoopHarnessConfig",
    ),
    "windlass.steps.loop": ("create_tool_loop_harness",),
    "windlass.steps.session": (
        "answer_to",
        "read_session",
        "state_of",
        "write_session",
    ),
}

__getattr__, __dir__ = _lazy_names(__name__, _HOMES)
