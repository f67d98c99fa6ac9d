"""An agent that counts in the state of its session.

As a program, it is killed in the middle of a call.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Final

from windlass import Agent, AgentRuntime, ToolContext, tool
from windlass.testing import ScriptedModel, by_history, call, say

STORY_S_MAX: Final = 300.0
CALLS: Final = 3
RUNS: Final = 3


def counter(*, dies_at: int | None = None) -> Agent:
    """An agent with a tool that counts its calls; one of them may end the process."""

    @tool(mode="safe_write", effect="idempotent")
    async def count(ctx: ToolContext) -> str:
        """Count."""
        before = ctx.state.get("count", 0)
        assert isinstance(before, int)
        ctx.state["count"] = before + 1
        if before + 1 == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"{before + 1}"

    script = [*(call("count", {}, call_id=f"c{number}") for number in range(CALLS)), say("done")]
    return Agent("counter", model=ScriptedModel(by_history(script * RUNS)), tools=[count])


async def _die(path: Path, at: int) -> None:
    agent = counter(dies_at=at)
    async with asyncio.timeout(STORY_S_MAX), await AgentRuntime.open(path, agents=[agent]) as runtime:
        await (await runtime.start_run(agent, "go", run_id="r1", session_id="s")).wait()


if __name__ == "__main__":
    asyncio.run(_die(Path(sys.argv[1]), int(sys.argv[2])))
