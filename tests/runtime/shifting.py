"""An agent with tools that a resolver gives at each step.

As a program, it is killed in the middle of a call of one of them.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Final

from windlass import Agent, AgentRuntime, Tool, ToolContext, tool
from windlass.agent.dynamic import DynamicContext, dynamic
from windlass.testing import ScriptedModel, by_history, call, say
from windlass_protocol import ResolverScope
from windlass_protocol.generated.values import ResolverScopeValue as Scope

STORY_S_MAX: Final = 300.0


def shifting(
    scope: ResolverScope | Scope, *, dies: bool = False, asked: list[int | None] | None = None
) -> Agent:
    """An agent with a tool that a resolver gives; the process may end in its call."""

    def give(context: DynamicContext) -> list[Tool[..., object]]:
        if asked is not None:
            asked.append(context.step_index)

        @tool(mode="safe_write", effect="idempotent")
        async def work(ctx: ToolContext) -> str:
            """Work."""
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)
            return f"attempt {ctx.attempt} in {context.session_id}"

        return [work]

    model = ScriptedModel(by_history([call("work", {}), say("done")]))
    return Agent("shifting", model=model, tools=[dynamic(give, at=scope)])


async def _die(path: Path, scope: ResolverScope) -> None:
    agent = shifting(scope, dies=True)
    async with asyncio.timeout(STORY_S_MAX), await AgentRuntime.open(path, agents=[agent]) as runtime:
        await (await runtime.start_run(agent, "go", run_id="r1", session_id="s")).wait()


if __name__ == "__main__":
    asyncio.run(_die(Path(sys.argv[1]), ResolverScope(sys.argv[2])))
