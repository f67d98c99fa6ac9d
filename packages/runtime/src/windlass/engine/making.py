"""Making a call: a tool runs within its time, or is left to itself."""

from windlass.engine.cut import Raised, Returned, cut
from windlass.engine.listening import LEAVE_S
from windlass.tool_arguments import Arguments
from windlass.tool_context import ToolContext
from windlass.tool_run import ToolRun, late, run_tool
from windlass.tools import Tool


async def made(tool: Tool[..., object], arguments: Arguments, *, context: ToolContext) -> ToolRun:
    """Run a tool; one that does not even end when its time is over is left to itself."""
    running = run_tool(tool, arguments.values, context=context)
    if not tool.shape.signature.is_async:
        # Whoever waits for a thread can always be told to stop waiting.
        return await running
    outcome = await cut(running, tool.timeout_ms / 1000 + LEAVE_S, is_patient=True)
    match outcome:
        case Returned(found):
            return found
        case Raised(error):
            raise error
        case _:
            return late(tool, tool.timeout_ms, context=context)
