# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (this peer lives in an environment of its own, which the type checker does not see)
"""pydantic-ai made durable by DBOS, on SQLite or PostgreSQL.

Choices:
- `Agent(..., capabilities=[DBOSDurability()])` run inside a `@DBOS.workflow`, as its page on DBOS says now
  (the wrapper `DBOSAgent` is deprecated). Model requests become steps by themselves; function tools do not,
  and the page says to decorate those that do I/O with `@DBOS.step`, which is done here: a step whose result
  is not stored is not durable.
- The system database is a SQLite file, the default of DBOS. DBOS leaves journal mode and synchronous at
  SQLite's defaults, DELETE and FULL. With several processes it is a PostgreSQL database, as its page on
  databases says for production, and each process has an executor id of its own.
- The model is pydantic-ai's own `FunctionModel`, its tool for scripted models.
- The limit of 50 requests a run is lifted.
- Resume is `DBOS.launch()` in a fresh process, which recovers pending workflows by running them again over
  the stored results of their steps.
"""

import os
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart, UsageLimits
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.models.function import AgentInfo, FunctionModel

from benchmarks.peers.task import FINAL, INSTRUCTIONS, POSTGRES, TOOL, Call, Runner, Script, arguments, main

UNLIMITED = UsageLimits(request_limit=None)
current = Script()


async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    last = messages[-1].parts[-1]
    call = await current.answer(getattr(last, "tool_call_id", None) or str(last.content), len(messages))
    return ModelResponse(parts=[_part(call)])


agent = Agent(FunctionModel(answer), name="bench", instructions=INSTRUCTIONS, capabilities=[DBOSDurability()])


@agent.tool_plain
@DBOS.step()
async def lookup(query: str, page: int) -> str:
    """Look up one page of the ledger."""
    return current.lookup(query, page)


@DBOS.workflow()
async def work(prompt: str) -> str:
    return (await agent.run(prompt, usage_limits=UNLIMITED)).output


class PydanticDbos(Runner):
    name = "pydantic-ai-dbos"
    packages = ("pydantic-ai-slim", "dbos")

    async def open(self, folder: Path, script: Script) -> None:
        global current  # noqa: PLW0603 (workflows and steps are module functions, registered once)
        current = script
        url = POSTGRES or f"sqlite:///{folder / 'bench.db'}"
        config: Any = {"name": "bench", "system_database_url": url, "log_level": "ERROR"}
        if POSTGRES:
            config |= {"executor_id": f"bench-{os.getpid()}", "run_admin_server": False}
        DBOS(config=config)
        DBOS.launch()

    async def run(self, session: str) -> str:
        with SetWorkflowID(session):
            return await work(current.prompt(session))

    async def resume(self, session: str) -> None:
        handle: Any = await DBOS.retrieve_workflow_async(session)
        await handle.get_result()

    async def close(self) -> None:
        DBOS.destroy()


def _part(call: Call | None) -> TextPart | ToolCallPart:
    if call is None:
        return TextPart(FINAL)
    return ToolCallPart(TOOL, call.arguments, tool_call_id=call.id)


if __name__ == "__main__":
    main(PydanticDbos(), arguments())
