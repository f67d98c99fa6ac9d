"""Making a call: a tool runs within its time, or is left to itself."""

import asyncio
from collections.abc import Awaitable, Callable

from pydantic import JsonValue

from windlass.engine.cut import Raised, Returned, cut
from windlass.engine.listening import LEAVE_S
from windlass.engine.masking import MaskedAnswer
from windlass.tools import Tool
from windlass.tools.calling import Arguments, ToolRun, late, run_tool
from windlass.tools.context import ToolContext
from windlass_harness.loop.effects import RunTool
from windlass_harness.loop.events import CallUnbegun, LoopEvent


class Beginnings:
    """Knows which calls have begun: of the others it is certain that they did nothing."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Task[object] | None] = {}
        """Calls that have not begun, and who makes them."""
        self._is_stopping = False

    def stop(self) -> None:
        """Let no call begin any more."""
        self._is_stopping = True
        for task in self._waiting.values():
            if task is not None:
                task.cancel()

    def begin(self, call_id: str) -> None:
        """Note that a call begins now."""
        del self._waiting[call_id]

    async def made(self, call_id: str, make: Callable[[], Awaitable[LoopEvent]]) -> LoopEvent:
        """Make a call; one that is told to end before it begins says so."""
        if self._is_stopping:
            return CallUnbegun(call_id)
        self._waiting[call_id] = asyncio.current_task()
        try:
            return await make()
        except asyncio.CancelledError:
            if call_id in self._waiting:
                return CallUnbegun(call_id)
            raise
        finally:
            self._waiting.pop(call_id, None)


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


def shown_by(live: MaskedAnswer | None, effect: RunTool) -> Callable[[JsonValue], None]:
    """Return who shows partial results of a call."""

    def show(output: JsonValue) -> None:
        if live is not None:
            live.partial(effect.call_id, output, tool_name=effect.tool_name)

    return show
