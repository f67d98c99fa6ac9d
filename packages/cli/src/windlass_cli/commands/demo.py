"""`windlass demo`: a run that survives kill -9, to be seen in a minute."""

import asyncio
import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

import windlass
from windlass_cli.commands.serve import serve_agents
from windlass_cli.records import ENDS
from windlass_cli.session import Session, session_of, start_here
from windlass_cli.settings import LOCAL, OWNER, Settings
from windlass_cli.watch import Watch

if TYPE_CHECKING:
    from windlass import AgentRuntime
    from windlass_cli.session import PlacedRun
    from windlass_server import Tenants

WORDS: Final = "Use weather, then pay."
AGENTS: Final = "windlass.demo:agent"


def demo(
    context: typer.Context,
    *,
    port: Annotated[int | None, typer.Option(min=0, max=65_535, help="The port; 0 takes a free one.")] = None,
) -> None:
    """Watch an agent work, ask for consent, and survive kill -9; it needs no key.

    It serves a scripted agent with the inspector, and has it do something that a person has to approve. Kill
    it while it waits, and run the same command again.

    Example: windlass demo
    """
    given = session_of(context)
    session = Session(_with_demo(given.settings), given.terminal)
    story = _Story(session, _command(given.settings))
    serve_agents(session, port=_free(session.settings, port), also=story.begin)


def _with_demo(settings: Settings) -> Settings:
    """Return the settings with the demo agent, whatever the project has."""
    values = {**settings.values}
    for key, value in (("agents", AGENTS), ("store", "")):
        values[key] = replace(values[key], value=value, source="demo")
    return replace(settings, values=values)


def _command(settings: Settings) -> str:
    """Return the command for the store of the demo, whatever the project says."""
    agents = "" if settings.agents == AGENTS else f" --agents {AGENTS}"
    store = f" --store {settings.data / LOCAL}" if settings.text("store") else ""
    return f"windlass{agents}{store}"


def _free(settings: Settings, port: int | None) -> int:
    """Return the port: any, if nobody named one and the usual one is taken."""
    if port is not None:
        return port
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError:
            return 0
    return settings.port


class _Story:
    """Begins the run of the demo, or finds the one that was left, and tells of it."""

    def __init__(self, session: Session, command: str) -> None:
        self._session = session
        self._say = session.terminal.say
        self._command = command
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, tenants: "Tenants", address: str) -> None:
        """Go on beside the server."""
        self._tasks.add(asyncio.ensure_future(self._tell(tenants, address)))

    async def _tell(self, tenants: "Tenants", address: str) -> None:
        watch = Watch(self._session.terminal, self._session.user, is_asking=False)
        try:
            async with tenants.use(OWNER) as tenant:
                handle = await self._handle(tenant.runtime)
                async for event in handle.events():
                    watch.show(event)
                    if event.type == "run.waiting":
                        watch.leave()
                        await self._explain(handle, address)
                watch.end(await handle.wait(), run_id=handle.run_id)
        except windlass.Unavailable:
            return  # the server ends first; the run is kept
        self._say(f"See what it did: {address}, or {self._command} runs show {handle.run_id}", "bold")
        self._say("Ctrl-C ends the server.", "dim")

    async def _handle(self, runtime: "AgentRuntime") -> "PlacedRun":
        [agent] = self._session.agents()
        page = await runtime.sessions.runs(agent_id=agent.name, limit=1)
        if page.items and page.items[0].status.value not in ENDS:
            left = page.items[0]
            self._say(f"Here is run {left.run_id} again, as it was left.", "bold")
            return runtime.handle(left.run_id)
        self._say(f'The agent is told: "{WORDS}"', "bold")
        return await start_here(runtime, agent.name, words=WORDS, session_id=None)

    async def _explain(self, handle: "PlacedRun", address: str) -> None:
        requests = [one for one in await handle.requests() if not one.is_answered]
        if not requests:  # it is shown again, and was answered since
            return
        say = self._say
        say("It wants to pay, and waits for a person. Approve it in the inspector:", "bold")
        say(f"    {address}")
        say("or from another terminal, in this folder:")
        say(f"    {self._command} approvals answer {requests[0].request_id} approve")
        say("Before that, end it the hard way, and see that nothing is lost:", "bold")
        say(f"    kill -9 {os.getpid()}")
        say("and go on where it was, with one of these:")
        say("    windlass demo")
        say(f"    {self._command} runs resume {handle.run_id}")
