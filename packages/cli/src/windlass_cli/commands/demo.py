"""`windlass demo`: a run that waits for an approval and survives kill -9."""

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

import windlass
from windlass_cli.backend import ENDS, Command, LocalStore, command_of
from windlass_cli.commands.serve import port_problem, serve_agents
from windlass_cli.follow import RunWatch
from windlass_cli.settings import LOCAL, OWNER, CommandSettings

if TYPE_CHECKING:
    from windlass import AgentRuntime
    from windlass_cli.backend import BackendRun
    from windlass_server import Tenants

MESSAGE: Final = "Use weather, then pay."
AGENTS: Final = "windlass.demo:agent"


def demo(
    context: typer.Context,
    *,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="The port; 0 chooses a free port.")
    ] = None,
) -> None:
    """Watch an agent work, wait for an approval and survive kill -9. No API key is needed.

    The command serves a scripted agent and the inspector, and starts a run that a person must approve. Kill
    the process while the run waits, then run the same command again.

    Example: windlass demo
    """
    base = command_of(context)
    command = Command(_with_demo(base.settings), base.terminal)
    story = _Story(command, _command_line(base.settings))
    serve_agents(command, port=_free(command.settings, port), also=story.begin)


def _with_demo(settings: CommandSettings) -> CommandSettings:
    """Return the settings with the demo agent and the default store."""
    values = {**settings.values}
    for key, value in (("agents", AGENTS), ("store", "")):
        values[key] = replace(values[key], value=value, source="demo")
    return replace(settings, values=values)


def _command_line(settings: CommandSettings) -> str:
    """Return the command line that uses the agent and the store of the demo."""
    agents = "" if settings.agents == AGENTS else f" --agents {AGENTS}"
    store = f" --store {settings.data / LOCAL}" if settings.text("store") else ""
    return f"windlass{agents}{store}"


def _free(settings: CommandSettings, port: int | None) -> int:
    """Return the port; any free one if none is named and the usual one is taken."""
    if port is not None:
        return port
    return 0 if port_problem(settings.host, settings.port) else settings.port


class _Story:
    """Starts the run of the demo, or finds the unfinished one, and explains it."""

    def __init__(self, command: Command, line: str) -> None:
        self._command = command
        self._say = command.terminal.say
        self._line = line
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, tenants: "Tenants", address: str) -> None:
        """Start telling beside the server."""
        self._tasks.add(asyncio.ensure_future(self._tell(tenants, address)))

    async def _tell(self, tenants: "Tenants", address: str) -> None:
        watch = RunWatch(self._command.terminal, self._command.user, is_asking=False)
        try:
            async with tenants.use(OWNER) as tenant:
                run = await self._handle(tenant.runtime)
                async for event in run.events():
                    watch.show(event)
                    if event.type == "run.waiting":
                        watch.leave()
                        await self._explain(run, address)
                watch.end(await run.wait(), run_id=run.run_id)
        except windlass.Unavailable:
            return  # the server is shutting down; the run is stored
        self._say(f"Inspect the run: {address}, or {self._line} runs show {run.run_id}", "bold")
        self._say("Stop the server with Ctrl-C.", "dim")

    async def _handle(self, runtime: "AgentRuntime") -> "BackendRun":
        [agent] = self._command.agents()
        page = await runtime.sessions.runs(agent_id=agent.name, limit=1)
        if page.items and page.items[0].status.value not in ENDS:
            unfinished = page.items[0]
            self._say(f"Continuing run {unfinished.run_id} from where it was.", "bold")
            return runtime.handle(unfinished.run_id)
        self._say(f'Message to the agent: "{MESSAGE}"', "bold")
        store = LocalStore(runtime, self._command.agents, user=self._command.user)
        return await store.start(agent.name, MESSAGE, session_id=None)

    async def _explain(self, run: "BackendRun", address: str) -> None:
        requests = [request for request in await run.open_requests() if not request.is_answered]
        if not requests:  # an old event: the request was answered since
            return
        self._say(
            "The agent calls the tool pay and waits for approval. Approve it in the inspector:",
            "bold",
        )
        self._say(f"    {address}")
        self._say("or in another terminal, in this folder:")
        self._say(f"    {self._line} approvals answer {requests[0].request_id} approve")
        self._say("Before that, kill the process to see that the run survives:", "bold")
        self._say(f"    kill -9 {os.getpid()}")
        self._say("and continue the run with one of these commands:")
        self._say("    windlass demo")
        self._say(f"    {self._line} runs resume {run.run_id}")
