"""What every command starts from, and the runtime that it opens."""

import asyncio
import getpass
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

import typer

import windlass
from windlass import parts
from windlass_cli.problems import Exit, Problem
from windlass_cli.settings import KEY, LOCAL, OWNER, Settings
from windlass_cli.terminal import Terminal

if TYPE_CHECKING:
    from windlass import Agent, AgentRuntime, RunHandle
    from windlass.ledger import Goal
    from windlass_cli.served import Served, ServedRun

    Place = AgentRuntime | Served
    """Who is asked: a store here, or a server."""
    PlacedRun = RunHandle | ServedRun


@dataclass(frozen=True, slots=True)
class Session:
    """The settings and the terminal of one command."""

    settings: Settings
    terminal: Terminal
    key: str | None = field(default=None, repr=False)
    """For the server that is asked, if there is one."""
    _loaded: "list[tuple[Agent, ...]]" = field(default_factory=list["tuple[Agent, ...]"], init=False)

    @property
    def user(self) -> str:
        """Who answers requests."""
        return self.settings.user or getpass.getuser()

    def agents(self) -> "tuple[Agent, ...]":
        """Return the agents; they are loaded once.

        Raises:
            Rejected: they cannot be loaded.
        """
        if not self._loaded:
            # Whoever only looks, or asks for help, does not pay for it.
            from windlass.loading import load_agents  # noqa: PLC0415 - slow to import

            self._loaded.append(load_agents(self.settings.agents, self.settings.folder))
        return self._loaded[0]

    def goals(self, place: str | None = None) -> "tuple[Goal, ...]":
        """Return the goals that were named, here or by the settings; none if nobody did.

        Raises:
            Rejected: they cannot be loaded.
        """
        named = place or self.settings.text("goals")
        if not named:
            return ()
        from windlass.ledger import Goal  # noqa: PLC0415 - slow to import
        from windlass.loading import load  # noqa: PLC0415 - slow to import

        return load(named, Goal, folder=self.settings.folder)

    def agent(self, name: str | None) -> "Agent":
        """Return the agent of a name; the first one if nobody said.

        Raises:
            Problem: there is none of that name.
            Rejected: they cannot be loaded.
        """
        agents = self.agents()
        for agent in agents:
            if name is None or agent.name == name:
                return agent
        raise Problem(f"there is no agent {name}", f"There is {', '.join(agent.name for agent in agents)}.")

    async def agent_at(self, place: "Place", name: str | None) -> str:
        """Return the name of the agent that is meant, here or on the server.

        Raises:
            Problem: there is none of that name.
        """
        if isinstance(place, windlass.AgentRuntime):
            return self.agent(name).name
        return await place.agent(name)

    @asynccontextmanager
    async def place(self, *, drives: bool = False) -> "AsyncGenerator[Place]":
        """Open what is asked: the server that was named, else the store.

        With `drives` the store goes on with what was left unfinished in it; a server does so by itself.

        Raises:
            Problem: the key would go to a server that only a file names.
        """
        if not self.settings.server:
            async with self.working() if drives else self.reading() as runtime:
                yield runtime
            return
        from windlass.client import Client  # noqa: PLC0415 - slow to import
        from windlass_cli.served import Served  # noqa: PLC0415 - slow to import

        self._check_key()
        async with Client(self.settings.server, key=self.key) as client:
            yield Served(client)

    def _check_key(self) -> None:
        """See that the key goes to a server that whoever has it has named."""
        named = self.settings.values["server"]
        if self.key is not None and named.is_from_file:
            raise Problem(
                f"{KEY} is set, and the server is named by {named.source}: no key is sent where a file says",
                f"Name the server yourself, with --server or {named.setting.variable}; or unset {KEY}.",
            )

    def check_store(self) -> None:
        """Refuse a command that works on a store when a server was named.

        Raises:
            Problem: one was.
        """
        if self.settings.server:
            raise Problem(
                "this command works on a store, and a server was named",
                f"Leave it out: {self.settings.values['server'].source}.",
            )

    @asynccontextmanager
    async def working(self) -> "AsyncGenerator[AgentRuntime]":
        """Open the store and go on with what was left unfinished in it.

        If the environment names a collector of OpenTelemetry, what happens meanwhile is exported to it.
        """
        from windlass import telemetry  # noqa: PLC0415 - slow to import

        self.check_store()
        settings = self.settings
        _check_file(settings.store)
        _make_folder(settings.store.parent)
        agents = self.agents()
        runtime = await windlass.AgentRuntime.open(
            settings.store, agents=agents, durability=settings.durability
        )
        exported = settings.store.with_suffix(telemetry.STATE_SUFFIX)
        async with runtime, telemetry.export_from_environment(runtime, state_path=exported):
            yield runtime

    @asynccontextmanager
    async def knowing(self) -> "AsyncGenerator[AgentRuntime]":
        """Open the store with the agents to look at both: nothing in it is driven.

        Raises:
            Problem: there is none.
        """
        known = windlass.AgentRuntime.in_memory(self.agents()).ports.registry
        async with self.reading() as runtime:
            # The one that is open knows no agent, and the one that knows them is not opened.
            yield windlass.AgentRuntime(replace(runtime.ports, registry=known))

    @asynccontextmanager
    async def reading(self) -> "AsyncGenerator[AgentRuntime]":
        """Open the store to look at it, and to answer: nothing in it is driven.

        Raises:
            Problem: there is none.
        """
        self.check_store()
        settings = self.settings
        _check_file(settings.store)
        if not settings.store.is_file():
            raise Problem(
                f"there is no store {settings.store}", 'Make one: windlass run "…", or name it: --store PATH'
            )
        runtime = await windlass.AgentRuntime.open(settings.store, agents=(), durability=settings.durability)
        async with runtime:
            yield runtime


async def start(place: "Place", agent: str, *, words: str, session_id: str | None) -> "PlacedRun":
    """Start a run for whoever uses this machine, or the key of the server.

    Raises:
        AgentError: it was refused.
    """
    if isinstance(place, windlass.AgentRuntime):
        return await start_here(place, agent, words=words, session_id=session_id)
    return await place.start(agent, words, session_id=session_id)


async def start_here(
    runtime: "AgentRuntime", agent: str, *, words: str, session_id: str | None
) -> "RunHandle":
    """Start a run for whoever uses this machine.

    A session that belongs to nobody, because a program began it without an owner, stays nobody's: whoever may
    open the file may speak to it.

    Raises:
        AgentError: it was refused.
    """
    owner: str | None = OWNER
    if session_id is not None:
        try:
            known = await runtime.sessions.get(session_id)
        except windlass.Conflict:  # it begins with these words
            pass
        else:
            owner = None if known.owner is None else OWNER
    return await runtime.start(agent, words, session_id=session_id, owner=owner)


async def new_session(place: "Place", agent: str) -> str:
    """Return the name of a session that nobody has spoken in."""
    if isinstance(place, windlass.AgentRuntime):
        return f"chat-{parts.new_id()}"
    return (await place.client.sessions.create(agent=agent)).session_id


async def known_run(runtime: "Place", run_id: str) -> str:
    """Return where a run is.

    Raises:
        Problem: there is no such run.
    """
    try:
        return (await runtime.run_status(run_id)).value
    except windlass.Conflict:
        raise Problem(f"there is no run {run_id}", "See which there are: windlass runs list") from None


def _check_file(store: Path) -> None:
    if store.is_dir():
        raise Problem(f"the store {store} is a folder", f"Name a file in it: --store {store / LOCAL}")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise Problem(
            f"the folder {folder} cannot be made: {error.strerror}", "Name another: --store PATH"
        ) from None


def finish(work: Coroutine[object, object, Exit]) -> NoReturn:
    """Do what a command has to do, and end it; Ctrl-C ends it in good order."""
    try:
        code = asyncio.run(work)
    except (KeyboardInterrupt, asyncio.CancelledError):
        code = Exit.INTERRUPTED
    raise typer.Exit(code)


def session_of(context: typer.Context) -> Session:
    """Return what the command starts from."""
    return cast(Session, context.obj)
